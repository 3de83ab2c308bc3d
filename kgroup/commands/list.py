"""``kgroup list``: every group that the cluster knows, of every type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from kgroup.cli.help_parts import WHICH
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection, check_expected, check_selection
from kgroup.model.blocks import Column, Records, Screen, Table, Text, Title
from kgroup.model.groups import ListedGroup, RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.describe_records import coordinator_text
from kgroup.queries.log_options import FromLog
from kgroup.queries.snapshots import choose_groups
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_now
from kgroup.support.durations import format_duration
from kgroup.support.errors import NotFound
from kgroup.support.instants import rfc3339
from kgroup.support.units import plural

_AGE = "LAST RECORD"
_COLUMNS = (
    Column("GROUP", fold=True),
    Column("TYPE"),
    Column("STATE"),
    Column("PROTOCOL", drop=3),
    Column("COORDINATOR", drop=2),
    Column("MEMBERS", right=True, drop=1),
    Column(_AGE, right=True),
)
_HEADER = ("group", "type", "state", "protocol_type", "coordinator", "members")


@dataclass(frozen=True, slots=True)
class CoordinatorFilter:
    """The broker whose groups are listed."""

    coordinator: Annotated[
        int | None,
        typer.Option(
            "--coordinator",
            metavar="BROKER",
            rich_help_panel=WHICH,
            help="Only groups that this broker keeps; with --from-log also those of one that is down.",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ListRow:
    """A listed group; ``at_ms`` is the time of its newest record if it was read from the log, else None."""

    group: ListedGroup
    at_ms: int | None = None

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        source = "coordinator" if self.at_ms is None else "log"
        return self.group.document() | {"source": source, "as_of": rfc3339(self.at_ms)}


def list_(run: Invocation, which: Selection, by_coordinator: CoordinatorFilter, source: FromLog) -> Outcome:
    """List groups: type, state, members.

    Share and streams groups are listed as what they are. --coordinator BROKER is what a broker's failure concerns;
    --from-log then reads the groups out of the partitions of __consumer_offsets that the broker leads, or led until
    it went down.

    Examples:
    kgroup list
    kgroup list --in-state Empty --type classic
    kgroup list --topic orders -o csv | tail -n +2 | cut -d, -f1
    kgroup list --coordinator 2 --from-log

    Exit codes: 0 2 3 4 5 6 7
    """
    check_selection(which)
    if source != FromLog():
        return _from_log(run, which, by_coordinator.coordinator, source)
    with Cluster(run.settings) as cluster:
        chosen = choose_groups(run.reporter, cluster, replace(which, expect=None))
        kept = chosen.groups
        if by_coordinator.coordinator is not None:
            if by_coordinator.coordinator not in cluster.brokers:
                raise _no_broker(by_coordinator.coordinator, cluster.brokers, hint="--from-log lists what it kept")
            kept = tuple(
                group for group in kept if group.coordinator and group.coordinator.id == by_coordinator.coordinator
            )
        check_expected(which, len(kept))
        groups, failed = cluster.member_counts(kept)
        # Both steps may report the same missing right: choosing a topic's groups, and counting members.
        return _outcome([ListRow(group) for group in groups], cluster, tuple(dict.fromkeys(chosen.errors + failed)))


def _from_log(run: Invocation, which: Selection, broker: int | None, source: FromLog) -> Outcome:
    # Imported here: rarely used.
    from kgroup.queries.from_log import check_bounds, choose_logged, coordinators_of, listed_group, partitions_of_broker

    check_bounds(source, reads=source.from_log)
    with Cluster(run.settings) as cluster:
        keepers = cluster.offsets_topic_replicas()
        numbers = None
        if broker is not None:
            known = {*cluster.brokers, *(node for each in keepers.values() for node in each.replicas)}
            if broker not in known:
                raise _no_broker(broker, known)
            numbers = partitions_of_broker(broker, keepers, cluster.brokers)
            if not numbers:
                run.reporter.note(f"broker {broker} keeps no groups: it leads no partition of __consumer_offsets")
        logged = choose_logged(run.reporter, cluster, which, source, numbers=numbers, foreign=True)
        coordinators = coordinators_of(logged.states, keepers, cluster.brokers)
        lines = [
            ListRow(replace(listed_group(state), coordinator=coordinators[name]), state.newest_ms)
            for name, state in sorted(logged.states.items())
        ]
        return _outcome(lines, cluster, logged.errors)


def _no_broker(broker: int, known: Iterable[int], hint: str | None = None) -> NotFound:
    return NotFound(f"there is no broker {broker}, only {', '.join(map(str, sorted(known)))}", hint=hint)


def _outcome(lines: Sequence[ListRow], cluster: Cluster, errors: tuple[RowError, ...]) -> Outcome:
    at = utc_now()
    return Outcome(
        data=tuple(lines),
        screen=lambda: _screen(lines, round(at.timestamp() * 1000)),
        records=lambda: Records(_HEADER, [_row(line.group) for line in lines]),
        cluster=cluster.ref,
        errors=errors,
        at=at,
    )


def _screen(lines: Sequence[ListRow], now_ms: int) -> Screen:
    from_log = any(line.at_ms is not None for line in lines)
    title = Title(
        plural(len(lines), "group") + (", from __consumer_offsets" if from_log else ""), in_terminal_only=not from_log
    )
    if not lines:
        return Screen((title, Text(("No groups.",))))
    rows = [(*_row(line.group), _age(line, now_ms)) for line in lines]
    return Screen((title, Table(_COLUMNS, rows, frozenset({_AGE}))))


def _age(line: ListRow, now_ms: int) -> str | None:
    return None if line.at_ms is None else format_duration(max(0, now_ms - line.at_ms) // 1000)


def _row(group: ListedGroup) -> tuple[str | int | None, ...]:
    return (
        group.name,
        group.type,
        group.state,
        group.protocol_type or None,
        coordinator_text(group.coordinator),
        group.members,
    )
