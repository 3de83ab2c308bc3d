"""``kgroup list``: every group that the cluster knows, of every type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec.structs
import typer

from kgroup.cli.help_parts import WHICH
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection, check_expected, check_selection
from kgroup.model.blocks import Column, Records, Screen, Table, Text, Title
from kgroup.model.groups import ListedGroup, RowError
from kgroup.model.outcome import Outcome
from kgroup.model.reporter import Reporter
from kgroup.output.pages.describe_records import coordinator_text
from kgroup.queries.log_options import FromLog, warn_of_clocks
from kgroup.queries.snapshots import choose_groups
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_now
from kgroup.support.durations import format_duration, parse_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.instants import rfc3339
from kgroup.support.units import plural

_IDLE, _PROTOCOL = "IDLE", "PROTOCOL-TYPE"
_CONSUMER = "consumer"
_BUDGET_S, _IDLE_FOR_BUDGET_S = 1.0, 30.0
"""How long the log is read: shortly for a column, and for a filter until it is known of each group."""

_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE"),
    Column("STATE"),
    Column(_PROTOCOL, drop=3),
    Column("COORDINATOR", drop=2),
    Column("MEMBERS", right=True, drop=1),
    Column(_IDLE, right=True),
)
_HEADER = ("group", "type", "state", "protocol_type", "coordinator", "member_count", "last_activity_at")


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


class ListRow(msgspec.Struct, frozen=True):
    """A listed group; ``active_ms`` is the time of its newest commit or change, None if it is not known.

    ``from_log`` is whether the group itself was read from the log; ``active_ms`` then is the time of its newest record.
    """

    group: ListedGroup
    active_ms: int | None
    from_log: bool = False

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return self.group.document() | {
            "last_activity_at": rfc3339(self.active_ms),
            "source": "log" if self.from_log else "coordinator",
            "newest_record_at": rfc3339(self.active_ms) if self.from_log else None,
        }

    @property
    def cells(self) -> tuple[str | int | None, ...]:
        """Its row for CSV, and on the page but for its last cell."""
        group = self.group
        return (
            group.name,
            group.type,
            group.state,
            group.protocol_type or None,
            coordinator_text(group.coordinator),
            group.members,
        )


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
        return _outcome([ListRow(group, active.get(group.name)) for group in groups], cluster, errors)


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
    from kgroup.queries.from_log import check_bounds, choose_logged, coordinators_of, listed_group, partitions_of_broker

    check_bounds(source, reads=source.from_log)
    with Cluster(run.settings) as cluster:
        warn_of_clocks(run.reporter, cluster)
        keepers = cluster.offsets_topic_replicas()
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
        return _outcome(lines, cluster, logged.errors)


def _no_broker(broker: int, known: Iterable[int], hint: str | None = None) -> NotFound:
    return NotFound(f"there is no broker {broker}, only {', '.join(map(str, sorted(known)))}", hint=hint)


def _outcome(lines: Sequence[ListRow], cluster: Cluster, errors: tuple[RowError, ...]) -> Outcome:
    at, now_ms = utc_now(), cluster.now_ms()
    return Outcome(
        data=tuple(lines),
        screen=lambda: _screen(lines, now_ms),
        records=lambda: Records(_HEADER, [(*line.cells, rfc3339(line.active_ms)) for line in lines]),
        cluster=cluster.ref,
        errors=errors,
        at=at,
        names=lambda: (line.group.name for line in lines),
    )


def _screen(lines: Sequence[ListRow], now_ms: int) -> Screen:
    from_log = any(line.from_log for line in lines)
    title = Title(
        plural(len(lines), "group") + (", from __consumer_offsets" if from_log else ""), in_terminal_only=not from_log
    )
    if not lines:
        return Screen((title, Text(("No groups.",))))
    return Screen((title, Table(_COLUMNS, [_row(line, now_ms) for line in lines], frozenset({_PROTOCOL, _IDLE}))))


def _row(line: ListRow, now_ms: int) -> tuple[str | int | None, ...]:
    name, kind, state, protocol_type, *others = line.cells
    idle = None if line.active_ms is None else format_duration(max(0, now_ms - line.active_ms) // 1000)
    return (name, kind, state, None if protocol_type == _CONSUMER else protocol_type, *others, idle)
