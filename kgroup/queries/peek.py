"""Reads the records at and before offsets, for ``kgroup peek``. Nothing is committed, and no group is created."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kgroup.cluster.deadline import Deadline
from kgroup.cluster.lag_reading import Need
from kgroup.cluster.snapshot import Cluster, SnapshotRequest
from kgroup.cluster.topics import LogView, TopicLayout
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.status import LagStatus, status_words
from kgroup.groups.peek import (
    MOST_PARTITIONS,
    PeekedPartition,
    PeekRequest,
    PeekTarget,
    ReadableLog,
    resolve_offset,
    select_partitions,
)
from kgroup.groups.reset_targets import NO_COMMIT, TopicChoice
from kgroup.groups.selection import Selection
from kgroup.groups.stuck_record import StuckRecord
from kgroup.groups.verdict.facts import stuck_of
from kgroup.groups.verdict.group import stuck_records
from kgroup.model.groups import Group, RowError
from kgroup.model.json_lines import ValueFormat
from kgroup.model.reporter import Reporter
from kgroup.model.share_group import ShareGroup
from kgroup.model.streaming_query import is_query
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.facts import read_facts
from kgroup.queries.peek_window import MOST_BYTES, PeekLimits, ReadWindowOf, read_around
from kgroup.queries.snapshots import snapshots
from kgroup.support.errors import ExitCode, KgroupError, NotFound
from kgroup.support.hint import Hint
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.cluster.reader.batches import BatchReader

_OFFSETS = SnapshotRequest(generation_budget_s=0, hidden_budget_s=0)
_STATUS_BUDGET_S = 1.0
_TUNING = {
    "fetch.wait.max.ms": 10,
    # A few records are needed. A larger batch is fetched whole all the same (KIP-74).
    "fetch.message.max.bytes": 1_048_576,
    "queued.max.messages.kbytes": 4096,
}


class PeekSelection(msgspec.Struct, frozen=True):
    """The partitions to read; ``stuck`` is whether they are those of a group that are stuck.

    ``share`` is given for a share group, of which records are chosen by their deliveries.
    """

    targets: tuple[PeekTarget, ...]
    errors: tuple[RowError, ...] = ()
    stuck: bool = False
    share: ShareGroup | None = None


def select_targets(
    reporter: Reporter,
    cluster: Cluster,
    group_name: str,
    topics: Sequence[TopicChoice] | None,
    *,
    by_deliveries: bool = True,
) -> PeekSelection:
    """The partitions of a group to read: those of ``topics``, else its stuck ones, else those with unread records.

    Of a share group, ``by_deliveries``: those with records that are retried or archived.

    Raises NotFound for a group that does not exist or has no committed offsets, and what ``snapshots`` raises.
    """
    group, errors = _read_group(reporter, cluster, group_name)
    if group is None:
        return PeekSelection((), errors)
    if group.is_share and by_deliveries:
        return _of_share_group(reporter, cluster, group, topics, errors)
    if topics is not None:
        return _named(group, topics, errors)
    if not any(p.commit for p in group.partitions) and not errors:
        raise NotFound(
            f"{group_name} has no committed offsets",
            code=NO_COMMIT,
            hint=Hint("{} reads a partition without a group.", ("peek", "TOPIC:P")),
        )
    judged = _judge(reporter, cluster, group)
    stuck = judged.stuck
    chosen = select_partitions(group.partitions, None, stuck)
    if len(chosen) > MOST_PARTITIONS:
        left_out = plural(len(chosen) - MOST_PARTITIONS, "partition")
        reporter.note(f"{left_out} of {group_name} left out: --topic TOPIC:P selects others")
    targets = tuple(
        PeekTarget(
            *p.tp,
            group_name,
            p.commit.offset if p.commit else None,
            judged.statuses.get(p.tp),
            *judged.not_passed.get(p.tp, (None, None)),
        )
        for p in chosen[:MOST_PARTITIONS]
    )
    if not targets and not errors:
        hint = Hint("{} shows the last ones", ("peek", "TOPIC:P"))
        reporter.note(f"{group_name} has read all records of its partitions: {hint}")
    elif not stuck:
        reporter.note(
            f"no partition of {group_name} is known to be stuck: the partitions with unread records are shown"
        )
    return PeekSelection(targets, errors, bool(stuck))


def _read_group(reporter: Reporter, cluster: Cluster, group_name: str) -> tuple[Group | None, tuple[RowError, ...]]:
    want = replace(_OFFSETS, all_types=not is_query(group_name), settings=True)
    try:
        parts = list(snapshots(reporter, cluster, Selection(names=[group_name]), want, verb="peek"))
    except NotFound as error:
        topic = group_name.partition(":")[0]  # also of orders:0-3, which is no form of partitions
        if error.code == NotFound.code and isinstance(cluster.layouts([topic]).get(topic), TopicLayout):
            hint = f"{topic} is a topic. Name a partition: {Hint('{}', ('peek', f'{topic}:0'))}"
            raise error.with_context(hint=hint) from error
        raise
    for note in dict.fromkeys(note for snapshot in parts for note in snapshot.notes):
        reporter.note(note)
    errors = tuple(error for snapshot in parts for error in snapshot.errors)
    return next((group for snapshot in parts for group in snapshot.groups), None), errors


def _of_share_group(
    reporter: Reporter,
    cluster: Cluster,
    group: Group,
    topics: Sequence[TopicChoice] | None,
    errors: tuple[RowError, ...],
) -> PeekSelection:
    # Imported here: not needed for other groups.
    from kgroup.queries.peek_deliveries import delivery_targets

    targets, unread = delivery_targets(cluster, group, topics)
    if len(targets) > MOST_PARTITIONS:
        left_out = plural(len(targets) - MOST_PARTITIONS, "partition")
        reporter.note(f"{left_out} of {group.name} left out: --topic TOPIC:P selects others")
    return PeekSelection(targets[:MOST_PARTITIONS], (*errors, *unread), share=group.share)


def _named(group: Group, topics: Sequence[TopicChoice], errors: tuple[RowError, ...]) -> PeekSelection:
    """The partitions that ``--topic`` names, also those without a commit; of a whole topic those with one."""
    named = [TopicPartition(choice.topic, number) for choice in topics for number in choice.partitions or ()]
    chosen = [p for p in select_partitions(group.partitions, topics, ()) if p.commit or p.tp in named]
    known = {p.tp for p in chosen}
    known_topics = {p.topic for p in chosen}
    missing = tuple(
        RowError(
            NO_COMMIT,
            f"{group.name} has no committed offset on {choice.topic}",
            group.name,
            choice.topic,
            hint=Hint("{} reads a partition without a group.", ("peek", "TOPIC:P")),
            exit_code=ExitCode.NOT_FOUND,
        )
        for choice in topics
        if choice.partitions is None and choice.topic not in known_topics
    )
    targets = [PeekTarget(*p.tp, group.name, p.commit.offset if p.commit else None) for p in chosen]
    targets += [PeekTarget(*tp, group.name) for tp in named if tp not in known]
    mine = {target.tp for target in targets}
    # Errors of other partitions do not matter here.
    own = tuple(e for e in errors if e.partition is None or TopicPartition(e.topic or "", e.partition) in mine)
    return PeekSelection(tuple(targets), (*own, *missing))


class _Judged(msgspec.Struct, frozen=True):
    """The status (``STALL 5m``) of each partition that is not read, the stuck ones, and ``stuck_records``.

    The first are those that no member gets past, then those that are stuck the longest. NO-READER alone is not stuck:
    no record is the reason.
    """

    statuses: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    stuck: tuple[TopicPartition, ...] = ()
    not_passed: Mapping[TopicPartition, tuple[StuckRecord, str | None]] = msgspec.field(default_factory=dict)


def _judge(reporter: Reporter, cluster: Cluster, group: Group) -> _Judged:
    if not group.totals.lag:
        return _Judged()
    try:
        read = read_facts(cluster, [group], Need(_STATUS_BUDGET_S))[group.name]
    except KgroupError as error:
        reporter.note(f"the status of the partitions is unknown: {error.message}")
        return _Judged()
    if read.unread:
        reporter.note(f"the status of the partitions is unknown: {read.unread}")
    report = measure_lag(group, read.evidence)
    unread = stuck_of(report)
    not_passed = stuck_records(group, report, read.evidence)
    stuck = (*not_passed, *(p.partition.tp for p in unread if p.status is not LagStatus.NO_READER))
    return _Judged(
        {p.partition.tp: status_words(p.status_result, report.now_ms) or "" for p in unread},
        tuple(dict.fromkeys(stuck)),
        not_passed,
    )


def read_partitions(
    cluster: Cluster,
    config: Mapping[str, Any],
    targets: Sequence[PeekTarget],
    request: PeekRequest,
    form: ValueFormat,
    *,
    timeout_s: float,
    delivered: Callable[[BatchReader], ReadWindowOf] | None = None,
) -> tuple[tuple[PeekedPartition, ...], tuple[RowError, ...]]:
    """The records of each partition, and the errors of those that could not be read.

    ``config`` is from ``librdkafka_config``. Each partition is read for at most ``timeout_s``, and all of them up to
    about 64 MiB. ``delivered`` makes what reads a partition of a share group, of which no offset is chosen.
    """
    layouts = cluster.layouts({target.topic for target in targets})
    views = cluster.log_views(layouts, [target.tp for target in targets])
    errors: list[RowError] = []
    positions: list[tuple[PeekTarget, ReadableLog, int]] = []
    for target in targets:
        view = views.get(target.tp)
        if not isinstance(view, LogView):
            layout = layouts.get(target.topic)
            if isinstance(layout, TopicLayout) and target.partition not in layout.leaders:
                what = f"there is no such partition; {target.topic} has {len(layout.leaders)}"
                view = NotFound(what, code="unknown-partition")
            error = view or NotFound("is not known to the broker", code="unknown-topic")
            errors.append(RowError.of(error, group=target.group, topic=target.topic, partition=target.partition))
            continue
        log = ReadableLog(view.start, view.end, view.last_stable.offset, request.isolation)
        offset = resolve_offset(target, log, request) if delivered is None else log.start
        if isinstance(offset, RowError):
            errors.append(offset)
        else:
            positions.append((target, log, offset))
    if not positions:
        return (), tuple(errors)
    # Imported here: confluent-kafka, which help and errors do not need.
    from kgroup.cluster.reader.batches import BatchReader

    peeked = []
    config = {**_TUNING, **config}
    with BatchReader(config, timeout_s=timeout_s, isolation=str(request.isolation)) as reader:
        read = read_around if delivered is None else delivered(reader)
        for target, log, offset in positions:
            try:
                limits = PeekLimits(Deadline.after(timeout_s), MOST_BYTES // len(positions))
                window = read(reader, target, log, offset, request, limits)
            except KgroupError as error:
                errors.append(RowError.of(error, group=target.group, topic=target.topic, partition=target.partition))
            else:
                # What is archived may be markers alone, which are no records.
                if delivered is None or window.records or window.stopped_reason:
                    peeked.append(PeekedPartition(target, log, window, form))
    return tuple(peeked), tuple(errors)
