"""Reads groups from ``__consumer_offsets``: without their coordinator, or as they were at an earlier time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of
from kgroup.cluster.offsets_topic.replica_health import read_replicas
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.offset_files import ExportedGroup
from kgroup.groups.reset_targets import ANY_TIME, parse_moment_or_ago
from kgroup.groups.selection import (
    GroupChoice,
    Selection,
    TopicFilter,
    check_expected,
    names_of,
    names_only,
    select_groups,
    uses_topic,
)
from kgroup.groups.state_from_log import LoggedState, PastCommit, state_at
from kgroup.groups.undo_plan import COMMIT_UNKNOWN, topic_recreated_error, unknown_commit
from kgroup.model.commit import Commit
from kgroup.model.group_log import LOG_INCOMPLETE
from kgroup.model.groups import ALL_TYPES, DESCRIBED_TYPES, Coordinator, Group, ListedGroup, RowError
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import SHARE, BrokerLag, ShareGroup
from kgroup.queries.activity_listing import ActivityListing, no_broker
from kgroup.queries.log_options import FromLog, LogBounds, scan_progress
from kgroup.queries.snapshots import exclude_foreign
from kgroup.support.durations import parse_duration
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, NotFound, UsageError
from kgroup.support.hint import Hint
from kgroup.support.instants import rfc3339
from kgroup.support.sizes import parse_bytes
from kgroup.support.units import some_of

if TYPE_CHECKING:
    from kgroup.cluster.coordinator.client import Broker
    from kgroup.model.topic_partition import PartitionReplicas

_BUDGET = "1m"
_MARKS_KEPT_MS = 86_400_000
_MORE = "--scan-time DURATION and --scan-bytes SIZE read more of it"


class LoggedGroups(msgspec.Struct, frozen=True):
    """Groups from the log, by name; ``missing`` are requested groups without any record in it.

    ``errors`` are partitions of the topic, groups and single commits that could not be read or determined.
    """

    states: Mapping[str, LoggedState]
    missing: tuple[str, ...]
    errors: tuple[RowError, ...]


def check_bounds(bounds: LogBounds, *, reads: bool, missing: str = "--from-log") -> None:
    """Raise UsageError for invalid limits, and for limits without a scan; ``missing`` is the option that starts one."""
    for option, value in (("--scan-time", bounds.scan_time), ("--scan-bytes", bounds.scan_bytes)):
        if value is not None and not reads:
            raise UsageError(f"{option} requires {missing}")
    _budget_s(bounds)
    _most_bytes(bounds)


def read_logged(
    reporter: Reporter,
    cluster: Cluster,
    names: Collection[str] | None,
    bounds: LogBounds,
    *,
    at_ms: int | None = None,
    numbers: Collection[int] | None = None,
) -> LoggedGroups:
    """The groups (None: all, in these partitions of the topic) as they were at ``at_ms`` (None: now).

    Raises NotAuthorized if this user may not read the topic, and KgroupError if it cannot be read at all.
    """
    with scan_progress(reporter) as progress:
        logs = cluster.last_records(
            names,
            _budget_s(bounds),
            numbers=numbers,
            at_ms=at_ms,
            max_bytes=_most_bytes(bounds),
            progress=progress,
        )
    if at_ms is not None:
        compacted = any(log.reach.whole_from != 0 for log in logs.by_group.values())
        _note_untraced(reporter, cluster.now_ms() - at_ms, compacted=compacted)
    errors: list[RowError] = []
    for number, error in sorted(logs.unread.items()):
        if isinstance(error, NotAuthorized):
            raise NotAuthorized(
                f"{OFFSETS_TOPIC} could not be read: no READ on Topic", hint=acl_hint("Read", "topic", OFFSETS_TOPIC)
            )
        errors.append(RowError.of(error, topic=OFFSETS_TOPIC, partition=number))
    if names is None:  # groups in the part that was not read are not even known by name
        errors += (_unlisted(number, why) for number, why in sorted(logs.stopped.items()))
    states: dict[str, LoggedState] = {}
    missing = []
    for name, log in sorted(logs.by_group.items()):
        state = state_at(name, log.events, log.reach, at_ms)
        if state is not None:
            states[name] = state
            errors += _errors_of(state)
        elif log.reach.to_log_start:
            missing.append(name)
        else:
            errors.append(_incomplete(name, log.reach.stopped))
    return LoggedGroups(states, tuple(missing) if names is not None else (), tuple(errors))


def logged_snapshot(
    reporter: Reporter, cluster: Cluster, which: Selection, source: FromLog, request: SnapshotRequest
) -> LoggedSnapshot:
    """The groups that ``which`` selects, from the log, with their partitions' log ranges if ``request`` has them.

    Raises NotFound, Refused and NotAuthorized as ``kgroup.queries.snapshots`` does.
    """
    logged = choose_logged(reporter, cluster, which, source, types=ALL_TYPES)
    shared = _read_shared(cluster, logged.states, _budget_s(source))
    states = {name: _with_starts(state, shared.get(name)) for name, state in logged.states.items()}
    snapshot = cluster.with_logs(list(states.values()), request)
    groups = tuple(_with_share(with_errors(each, states[each.name]), shared.get(each.name)) for each in snapshot.groups)
    warn_open_transactions(reporter, states.values())
    errors = (*logged.errors, *snapshot.errors, *_unknown_starts(shared))
    return LoggedSnapshot(replace(snapshot, groups=groups, errors=errors), states)


def _read_shared(cluster: Cluster, states: Mapping[str, LoggedState], budget_s: float) -> dict[str, ShareGroup]:
    """The settings and the deliveries of the share groups; their start offsets are in these."""
    wanted = {name: state.share_partitions for name, state in states.items() if state.type == SHARE}
    if not wanted:
        return {}
    # Imported here: rarely used.
    from kgroup.cluster.share_settings import read_share_settings

    deliveries = cluster.deliveries(wanted, budget_s)
    settings = cluster.ask(read_share_settings, list(wanted))
    return {name: replace(settings[name], deliveries=deliveries[name]) for name in wanted}


def _with_starts(state: LoggedState, share: ShareGroup | None) -> LoggedState:
    """The state with the start offsets of a share group as its commits."""
    if share is None or share.deliveries is None:
        return state
    starts = {tp: each.start for tp, each in sorted(share.deliveries.partitions.items())}
    commits = {tp: PastCommit(Commit(start, None, "")) for tp, start in starts.items() if start is not None}
    return replace(state, partitions=commits)


def _with_share(group: Group, share: ShareGroup | None) -> Group:
    """The group with the lag that its state shows, as the broker would count it."""
    if share is None or share.deliveries is None:
        return group
    known = share.deliveries.partitions
    partitions = tuple(
        replace(p, counted=BrokerLag(known[p.tp].lag(p.log.end))) if p.log and p.commit and p.tp in known else p
        for p in group.partitions
    )
    return replace(group, share=share, partitions=partitions)


def _unknown_starts(shared: Mapping[str, ShareGroup]) -> Iterator[RowError]:
    for name, share in shared.items():
        if share.deliveries is not None and share.deliveries.unread is not None:
            what = f"start offsets are not known: {share.deliveries.unread}"
            yield RowError(LOG_INCOMPLETE, what, name, exit_code=ExitCode.PARTLY)


class LoggedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot with groups from the log, and the state of each in the log."""

    snapshot: Snapshot
    states: Mapping[str, LoggedState]


def choose_logged(
    reporter: Reporter,
    cluster: Cluster,
    which: Selection,
    bounds: LogBounds,
    at_ms: int | None = None,
    numbers: Collection[int] | None = None,
    *,
    types: tuple[str, ...] = DESCRIBED_TYPES,
) -> LoggedGroups:
    """The groups that ``which`` selects, from the log only, in its partitions ``numbers`` (None: in all).

    Groups that are not of these ``types`` are left out, with a note. One whose type is not in the log is kept. Raises
    as ``select_groups`` does, and Refused for ``--expect`` or a named group that would be left out.
    """
    if which.topic and (missing := cluster.check_topics(which.topics.names)):
        reporter.note(f"there is no topic {', '.join(missing)} now")
    if names_only(which) and numbers is None:
        logged = read_logged(reporter, cluster, names_of(which), bounds, at_ms=at_ms)
        if logged.missing:
            error = _no_group(logged.missing, cluster, at_ms)
            if not logged.states and not logged.errors:
                raise error
            logged = replace(logged, errors=(*logged.errors, RowError.of(error)))
        states = logged.states
    else:
        logged = read_logged(reporter, cluster, None, bounds, at_ms=at_ms, numbers=numbers)
        listed = [listed_group(state) for state in logged.states.values()]
        try:
            choice = select_groups(which, listed, f"{cluster.ref.label}, in {OFFSETS_TOPIC},")
        except NotFound:
            if not logged.errors:
                raise
            choice = GroupChoice((), None)  # it may be in the part that was not read; the errors report that
        states = {group.name: logged.states[group.name] for group in choice.groups}
        errors = tuple(error for error in logged.errors if error.group is None or error.group in states)
        if choice.missing and not any(error.group is None for error in errors):
            errors = (*errors, RowError.of(choice.missing))
        logged = replace(logged, errors=errors)
    if which.topic:
        states = {name: state for name, state in states.items() if _has_topic(state, which.topics)}
        relevant_errors = tuple(
            e for e in logged.errors if e.group is None or e.group in states or e.code == LOG_INCOMPLETE
        )
        logged = replace(logged, errors=relevant_errors)
    others = [listed_group(state) for state in states.values() if state.type is not None]
    left_out = exclude_foreign(reporter, which, others, "--from-log", types=types)
    states = {name: state for name, state in states.items() if name not in left_out}
    logged = replace(logged, errors=tuple(e for e in logged.errors if e.group not in left_out))
    check_expected(which, len(states))
    return replace(logged, states=states)


def read_logged_listing(
    reporter: Reporter, cluster: Cluster, which: Selection, broker: int | None, bounds: LogBounds
) -> ActivityListing:
    """The groups that ``which`` selects, of all types, from the log only; of the partitions that the broker led."""
    keepers = cluster.ask(read_replicas)
    numbers = None
    if broker is not None:
        known = {*cluster.brokers, *(node for each in keepers.values() for node in each.replicas)}
        if broker not in known:
            raise no_broker(broker, known)
        numbers = partitions_of_broker(broker, keepers, cluster.brokers)
        if not numbers:
            reporter.note(f"broker {broker} coordinates no groups: it leads no partition of __consumer_offsets")
    logged = choose_logged(reporter, cluster, which, bounds, numbers=numbers, types=ALL_TYPES)
    coordinators = coordinators_of(logged.states, keepers, cluster.brokers)
    states = dict(sorted(logged.states.items()))
    groups = (replace(listed_group(state), coordinator=coordinators[name]) for name, state in states.items())
    return ActivityListing(tuple(groups), {name: state.newest_ms for name, state in states.items()}, logged.errors)


def without_stale(cluster: Cluster, logged: LoggedGroups) -> LoggedGroups:
    """The same, with commits on recreated topics as errors, as in a plan of ``undo``.

    A commit that is written to a file or another group must not be applied to a recreated topic.
    """
    partitions = [(name, tp) for name, state in logged.states.items() for tp in state.partitions]
    layouts = cluster.layouts({topic for _, (topic, _) in partitions}) if partitions else {}
    states, errors = dict(logged.states), list(logged.errors)
    for name, tp in partitions:
        past_commit, layout = logged.states[name].partitions[tp], layouts[tp.topic]
        if not isinstance(layout, KgroupError) and (error := topic_recreated_error(past_commit, layout.id)):
            stale = replace(past_commit, commit=None, unknown=error.message)
            states[name] = replace(states[name], partitions={**states[name].partitions, tp: stale})
            errors.append(replace(error, group=name, topic=tp.topic, partition=tp.partition))
    return replace(logged, states=states, errors=tuple(errors))


def partitions_of_broker(
    broker: int, partitions: Mapping[int, PartitionReplicas], alive: Collection[int]
) -> tuple[int, ...]:
    """The partitions of ``__consumer_offsets`` that this broker leads, or led until it went down.

    It leads the partition; or no broker leads it, and this one is a replica; or this one is down, and is its preferred
    leader.
    """
    return tuple(
        number
        for number, partition in sorted(partitions.items())
        if partition.leader == broker
        or (partition.leader is None and broker in partition.replicas)
        or (broker not in alive and partition.replicas[:1] == (broker,))
    )


def coordinators_of(
    groups: Collection[str], partitions: Mapping[int, PartitionReplicas], brokers: Mapping[int, Broker]
) -> dict[str, Coordinator | None]:
    """The current leader of each group's partition; None without a leader."""
    coordinators: dict[str, Coordinator | None] = {}
    for name in groups:
        leader = partitions[partition_of(name, len(partitions))].leader
        broker = None if leader is None else brokers.get(leader)
        coordinators[name] = Coordinator(broker.id, broker.host, broker.port, broker.rack) if broker else None
    return coordinators


def listed_group(state: LoggedState) -> ListedGroup:
    """The group as a line of ``kgroup list``, without its coordinator."""
    members = None if state.state is None else len(state.members)
    return ListedGroup(
        state.name, state.type or "unknown", state.state or "Unknown", state.protocol_type, None, members
    )


def with_errors(group: Group, state: LoggedState) -> Group:
    """The group with an error in each partition whose commit is unknown."""
    if not any(past_commit.unknown for past_commit in state.partitions.values()):
        return group
    return replace(
        group,
        partitions=tuple(
            replace(row, error=COMMIT_UNKNOWN) if state.partitions.get(row.tp, _NONE).unknown else row
            for row in group.partitions
        ),
    )


_NONE = PastCommit(None)


def warn_open_transactions(reporter: Reporter, states: Collection[LoggedState], at_ms: int | None = None) -> None:
    """Warn of partitions with a commit of a transaction that is open (at ``at_ms``; None: now)."""
    partitions = [f"{state.name} {topic}:{number}" for state in states for topic, number in sorted(state.open)]
    if partitions:
        what = (
            "an open transaction has committed there, which does not count until it ends"
            if at_ms is None
            else "a transaction that was open at that time had committed there, which does not count"
        )
        reporter.warn(f"{some_of(partitions)}: {what}")


def parse_past_time(text: str, now: datetime = ANY_TIME, option: str = "--as-of") -> int:
    """A time, or a duration before ``now`` (``5m``, ``PT5M``), in ms since 1970.

    Raises UsageError for an invalid one, and for one after ``now``.
    """
    at_ms = parse_moment_or_ago(text, now, option)
    if at_ms > round(now.timestamp() * 1000):
        raise UsageError(f"{option} {text} is in the future; it is {rfc3339(now, 'seconds')}")
    return at_ms


def offsets_at(state: LoggedState, topics: TopicFilter, at_ms: int | None) -> ExportedGroup:
    """The known commits of a group on the partitions, for a file."""
    commits = tuple(
        (topic, number, commit) for (topic, number), commit in state.commits.items() if topics.has(topic, number)
    )
    return ExportedGroup.of(state.name, state.type, state.state, commits, as_of=rfc3339(at_ms or state.newest_ms))


def _note_untraced(reporter: Reporter, ago_ms: int, *, compacted: bool) -> None:
    """Note that some commits of that time may be missing without any error: the log has no trace of them."""
    if compacted and ago_ms > _MARKS_KEPT_MS:
        reporter.note(
            f"commits of that time may be missing if they were deleted or expired since then: {OFFSETS_TOPIC} "
            "keeps deletions for its delete.retention.ms, a day by default"
        )


def _errors_of(state: LoggedState) -> Iterator[RowError]:
    if state.incomplete:
        yield _incomplete(state.name, state.incomplete)
    for tp, past_commit in state.partitions.items():
        if past_commit.unknown:
            yield replace(unknown_commit(past_commit.unknown), group=state.name, topic=tp.topic, partition=tp.partition)


def _unlisted(number: int, why: str) -> RowError:
    return RowError(
        LOG_INCOMPLETE,
        f"was not read to its start, so groups may be missing: {why}",
        topic=OFFSETS_TOPIC,
        partition=number,
        hint=_MORE,
        exit_code=ExitCode.PARTLY,
    )


def _incomplete(name: str, why: str | None) -> RowError:
    return RowError(
        LOG_INCOMPLETE,
        f"its part of {OFFSETS_TOPIC} was not read to its start, so commits may be missing: {why or 'it was stopped'}",
        name,
        hint=_MORE,
        exit_code=ExitCode.PARTLY,
    )


def _no_group(missing: Sequence[str], cluster: Cluster, at_ms: int | None) -> NotFound:
    named = ", ".join(f'"{name}"' for name in missing)
    then = "" if at_ms is None else " at that time, as far back as it reaches"
    return NotFound(
        f"{OFFSETS_TOPIC} of {cluster.ref.label} holds no group {named}{then}",
        hint=Hint("{}", ("list", "--from-log") if at_ms is None else ("history", missing[0], "--commits")),
    )


def _has_topic(state: LoggedState, topics: TopicFilter) -> bool:
    committed = any(
        topics.has(*tp) for tp, past_commit in state.partitions.items() if past_commit.commit or past_commit.unknown
    )
    bare = Group(
        state.name, "", "", None, None, None, None, None, None, None, state.members, ()
    )  # only the subscriptions and assignments of its members matter
    return committed or uses_topic(bare, topics)


def _budget_s(bounds: LogBounds) -> float:
    seconds = parse_duration(bounds.scan_time or _BUDGET, "--scan-time")
    if seconds <= 0:
        raise UsageError(f"--scan-time {bounds.scan_time}: must be more than 0s", hint="--scan-time 1m")
    return seconds


def _most_bytes(bounds: LogBounds) -> int | None:
    return None if bounds.scan_bytes is None else parse_bytes(bounds.scan_bytes, "--scan-bytes")
