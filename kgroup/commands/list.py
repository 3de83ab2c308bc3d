"""``kgroup list``: every group that the cluster knows, of every type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import msgspec.structs
import typer

from kgroup.cli.help_parts import WHICH
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection, check_expected, check_selection
from kgroup.model.groups import ListedGroup
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.output.pages.list import ListRow, list_outcome
from kgroup.queries.log_options import FromLog, warn_of_clocks
from kgroup.queries.snapshots import choose_groups
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.units import plural

_BUDGET_S, _IDLE_FOR_BUDGET_S = 1.0, 30.0
"""How long the log is read: shortly for a column, and for a filter until it is known of each group."""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """The broker whose groups are listed, and how long they must have been idle."""

    coordinator: Annotated[
        int | None,
        typer.Option(
            "--coordinator",
            metavar="BROKER",
            rich_help_panel=WHICH,
            help=("Only groups coordinated by this broker; with --from-log the broker may be down."),
        ),
    ] = None
    idle_for: Annotated[
        str | None,
        typer.Option(
            "--idle-for",
            metavar="DURATION",
            rich_help_panel=WHICH,
            help="Only groups without a commit, or a change of members, for this long.",
        ),
    ] = None


def list_(run: Invocation, which: Selection, only: ListFilter, source: FromLog) -> Outcome:
    """List groups: type, state, members, how long they are idle.

    IDLE is the time since a group's newest commit or change of members. Share and streams groups are listed too.
    --coordinator BROKER lists the groups that a failure of this broker affects. With --from-log, kgroup reads them from
    the partitions of __consumer_offsets that the broker leads, or led until it went down.

    Examples:
    # all groups
    kgroup list
    # groups that could be deleted
    kgroup list --in-state Empty --idle-for 8d
    # the names of the groups of a topic, for a script
    kgroup list --topic orders -o name
    # the groups of a broker that is down
    kgroup list --coordinator 2 --from-log

    Exit codes: 0 2 3 4 5 6 7
    """
    check_selection(which)
    idle_s = None if only.idle_for is None else parse_duration(only.idle_for, "--idle-for")
    if source != FromLog():
        if idle_s is not None:
            raise UsageError(
                "--from-log and --idle-for are mutually exclusive", hint="the column IDLE shows it for each group"
            )
        return _from_log(run, which, only.coordinator, source)
    with Cluster(run.settings) as cluster:
        warn_of_clocks(run.reporter, cluster)
        chosen = choose_groups(run.reporter, cluster, replace(which, expect=None))
        kept = chosen.groups
        if only.coordinator is not None:
            if only.coordinator not in cluster.brokers:
                raise _no_broker(only.coordinator, cluster.brokers, hint="--from-log lists what it kept")
            kept = tuple(group for group in kept if group.coordinator and group.coordinator.id == only.coordinator)
        active: Mapping[str, int | None]
        if idle_s is None:
            active = cluster.last_activities([group.name for group in kept], 0, _BUDGET_S).by_group
        else:
            kept, active = _idle(run.reporter, cluster, kept, idle_s)
        check_expected(which, len(kept))
        groups, failed = cluster.member_counts(kept)
        # Both steps may report the same missing right: choosing a topic's groups, and counting members.
        errors = tuple(dict.fromkeys(chosen.errors + failed))
        rows = [ListRow(group, active.get(group.name)) for group in groups]
        return list_outcome(rows, cluster.ref, cluster.now_ms(), errors)


def _idle(
    reporter: Reporter, cluster: Cluster, groups: Sequence[ListedGroup], idle_s: float
) -> tuple[tuple[ListedGroup, ...], Mapping[str, int | None]]:
    """The groups that were idle for so long, with the times of their newest commit or change."""
    active = cluster.last_activities([group.name for group in groups], 0, _IDLE_FOR_BUDGET_S)
    if unknown := len(groups) - len(active.by_group):
        reporter.note(f"left out, because it is unknown how long they were idle: {plural(unknown, 'group')}")
    until_ms = cluster.now_ms() - round(idle_s * 1000)
    kept = tuple(group for group in groups if group.name in active.by_group)
    return tuple(group for group in kept if (active.by_group[group.name] or 0) <= until_ms), active.by_group


def _from_log(run: Invocation, which: Selection, broker: int | None, source: FromLog) -> Outcome:
    # Imported here: rarely used.
    from kgroup.cluster.offsets_topic.replica_health import read_replicas
    from kgroup.queries.from_log import check_bounds, choose_logged, coordinators_of, listed_group, partitions_of_broker

    check_bounds(source, reads=source.from_log)
    with Cluster(run.settings) as cluster:
        warn_of_clocks(run.reporter, cluster)
        keepers = cluster.ask(read_replicas)
        numbers = None
        if broker is not None:
            known = {*cluster.brokers, *(node for each in keepers.values() for node in each.replicas)}
            if broker not in known:
                raise _no_broker(broker, known)
            numbers = partitions_of_broker(broker, keepers, cluster.brokers)
            if not numbers:
                run.reporter.note(f"broker {broker} coordinates no groups: it leads no partition of __consumer_offsets")
        logged = choose_logged(run.reporter, cluster, which, source, numbers=numbers, foreign=True)
        coordinators = coordinators_of(logged.states, keepers, cluster.brokers)
        lines = [
            ListRow(
                msgspec.structs.replace(listed_group(state), coordinator=coordinators[name]),
                state.newest_ms,
                from_log=True,
            )
            for name, state in sorted(logged.states.items())
        ]
        return list_outcome(lines, cluster.ref, cluster.now_ms(), logged.errors)


def _no_broker(broker: int, known: Iterable[int], hint: str | None = None) -> NotFound:
    return NotFound(f"there is no broker {broker}, only {', '.join(map(str, sorted(known)))}", hint=hint)
