"""Reads what determines a gap: the group's commits, the partitions' logs, and the consumer's last minutes.

A few requests serve any number of partitions; only the first record of each must be read, for its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topic_retention import TopicRetentions
from kgroup.cluster.topics import Layouts, LogView, TopicLayout
from kgroup.groups.catchup.gap import Gap, GapInput, LastActivity, LastCommit, PartitionLog, plan_gap
from kgroup.groups.catchup.gap_request import GapRequest
from kgroup.groups.commit_tags import CatchupCommitTag
from kgroup.model.group_log import CommitWritten
from kgroup.model.groups import Group, LogRange
from kgroup.model.streaming_query import commits_of
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.facts import retention_of
from kgroup.support.errors import KgroupError, NotFound

_PAST_BUDGET_S = 1.5
_RATE_BUDGET_S = 1.0
_RATE_RECORDS = 20_000
"""How many records at the end of ``__consumer_offsets`` are read for the rate of the last commits: some megabytes."""

_RATE_SPAN_MS = 60_000
_GROWTH_SPAN_MS = 60_000


def read_gap(cluster: Cluster, group: Group | None, request: GapRequest, now_ms: int) -> GapInput:
    """The gap now. ``group`` is None, or ignored, if ranges are named.

    Raises what requests to the cluster raise; an error of one partition is a row of the gap.
    """
    if request.ranges:
        group = None
    layouts = cluster.layouts(_topics(group, request))
    _require_named(layouts, request)
    partitions = _partitions(layouts, request)
    past = _Past.read(cluster, group)
    reading = _Reading(cluster, layouts, partitions, request, past, now_ms)
    faults = reading.faults | _without_log(layouts, group)
    if group is not None:
        group = _with_errors(group, faults)
    gap = plan_gap(group, reading.logs, request, reading.work, now_ms)
    logs, notes = _with_oldest(cluster, layouts, gap, reading.logs)
    gap = plan_gap(group, logs, request, reading.work, now_ms)
    return GapInput(gap, logs, reading.work, (*past.notes, *notes), faults)


def log_starts(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The current log start offsets of these partitions; unreadable ones are left out."""
    wanted = sorted(set(partitions))
    logs = cluster.positions(cluster.layouts({topic for topic, _ in wanted}), wanted) if wanted else {}
    return {tp: log.start.offset for tp, log in logs.items() if not isinstance(log, KgroupError)}


def current_topic_ids(cluster: Cluster, topics: Iterable[str]) -> dict[str, str | None]:
    """The current ids of topics, None if the broker has none; deleted topics are left out."""
    layouts = cluster.layouts(topics)
    return {topic: layout.id for topic, layout in layouts.items() if isinstance(layout, TopicLayout)}


def _topics(group: Group | None, request: GapRequest) -> set[str]:
    if request.ranges:
        return {item.topic for item in request.ranges}
    if request.topics:
        return {choice.topic for choice in request.topics}
    return set() if group is None else {partition.topic for partition in group.partitions}


def _require_named(layouts: Layouts, request: GapRequest) -> None:
    """Raise the error of a topic that cannot be read, and of a named range that does not exist."""
    for choice in request.topics:
        layout = layouts.get(choice.topic)
        if isinstance(layout, KgroupError) and not isinstance(layout, NotFound):  # NotFound may be a row among others
            raise type(layout)(f"--topic {choice.topic}: {layout.message}", hint=layout.hint, code=layout.code)
    for item in request.ranges:
        layout = layouts.get(item.topic)
        if isinstance(layout, KgroupError):
            raise type(layout)(f"--range {item.topic}: {layout.message}", hint=layout.hint, code=layout.code)
        if layout is not None and item.partition not in layout.leaders:
            raise NotFound(f"--range {item.tp}: the partition does not exist")


def _partitions(layouts: Layouts, request: GapRequest) -> list[TopicPartition]:
    there = [
        TopicPartition(topic, number)
        for topic, layout in layouts.items()
        if isinstance(layout, TopicLayout)
        for number in layout.leaders
    ]
    if not request.ranges:
        return there
    named = {(item.topic, item.partition) for item in request.ranges}
    return [tp for tp in there if tp in named]


def _with_errors(group: Group, faults: Mapping[TopicPartition, KgroupError]) -> Group:
    """The same group, with the errors of partitions whose logs could not be read."""
    partitions = tuple(
        replace(item, error=faults[item.tp].message) if item.tp in faults else item for item in group.partitions
    )
    return replace(group, partitions=partitions)


class _Past(msgspec.Struct, frozen=True):
    """What ``__consumer_offsets``, or its checkpoint, shows about a group that has stopped."""

    stopped_ms: int | None = None
    commits: Mapping[TopicPartition, LastCommit] = msgspec.field(default_factory=dict)
    notes: tuple[str, ...] = ()
    reached: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)
    """The offsets below which records may have been processed, where they are known."""

    @classmethod
    def read(cls, cluster: Cluster, group: Group | None) -> _Past:
        if group is None or not group.partitions:
            return cls()
        if group.query is not None:
            done_ms = {commit.tp: commit.at_ms for commit in commits_of(group.query)}
            return cls(None, {tp: LastCommit(at_ms) for tp, at_ms in done_ms.items()}, reached=group.query.reached)
        pasts, note = cluster.pasts([group], _PAST_BUDGET_S)
        past = pasts.get(group.name)
        if past is None:
            return cls(notes=(f"{note}",) if note else ())
        rates = _rates(_last_commits(cluster, group.name))
        commits = {tp: LastCommit(at_ms, rates.get(tp)) for tp, at_ms in past.commits_ms.items()}
        return cls(past.emptied_at_ms, commits, (f"{note}",) if note else ())


def _last_commits(cluster: Cluster, group: str) -> Sequence[CommitWritten]:
    try:
        end = cluster.end_of_commits(group)
    except KgroupError:
        return ()
    return cluster.commits_since(group, max(0, end - _RATE_RECORDS), _RATE_BUDGET_S).commits


def _rates(commits: Iterable[CommitWritten]) -> dict[TopicPartition, float]:
    """Offsets per second between the commits of the last minute of each partition.

    Commits before one of kgroup's own are ignored: they are from before a release.
    """
    by_partition: dict[TopicPartition, list[tuple[int, int]]] = {}
    for record in commits:
        tp = record.tp
        if record.offset is None or CatchupCommitTag.of(record.metadata) is not None:
            by_partition.pop(tp, None)
        else:
            by_partition.setdefault(tp, []).append((record.at_ms, record.offset))
    rates = {}
    for tp, made in by_partition.items():
        last_ms, last = made[-1]
        recent = [(at_ms, offset) for at_ms, offset in made if at_ms >= last_ms - _RATE_SPAN_MS]
        first_ms, first = recent[0]
        if last_ms > first_ms and last >= first:
            rates[tp] = (last - first) * 1000 / (last_ms - first_ms)
    return rates


class _Reading:
    """The logs of the partitions, and their offsets at the relevant times."""

    def __init__(
        self,
        cluster: Cluster,
        layouts: Layouts,
        partitions: Sequence[TopicPartition],
        request: GapRequest,
        past: _Past,
        now_ms: int,
    ) -> None:
        moments = (now_ms - _GROWTH_SPAN_MS, past.stopped_ms, request.skip_before_ms, request.until_ms)
        asked = [moment for moment in moments if moment is not None]
        views = cluster.log_views(layouts, partitions, asked)
        keeping = cluster.topic_retention(layouts, partitions)
        self._views = {tp: view for tp, view in views.items() if isinstance(view, LogView)}
        self._columns = {moment: column for column, moment in reversed(list(enumerate(asked)))}
        self.faults = {tp: view for tp, view in views.items() if isinstance(view, KgroupError)}
        self.logs = {
            tp: replace(
                _facts(tp, view, layouts[tp.topic], keeping, self._at(tp, moments[0])),
                skip_to=self._at(tp, request.skip_before_ms),
                until=self._at(tp, request.until_ms),
            )
            for tp, view in self._views.items()
        }
        then = dict(past.reached)
        for tp, view in self._views.items() if past.stopped_ms is not None else ():
            # Times of producers are no evidence: a clock that is ahead makes the log end then look too low.
            settings = keeping.settings.get(tp.topic)
            there = self._at(tp, past.stopped_ms) if settings is not None and settings.is_log_append_time else None
            then[tp] = view.end if there is None else there
        self.work = LastActivity(past.stopped_ms, past.commits, then)

    def _at(self, tp: TopicPartition, moment_ms: int | None) -> int | None:
        return None if moment_ms is None else self._views[tp].at_times[self._columns[moment_ms]]


def _without_log(layouts: Layouts, group: Group | None) -> dict[TopicPartition, KgroupError]:
    """Partitions that the group has committed and that do not exist (any more)."""
    errors: dict[TopicPartition, KgroupError] = {}
    for item in () if group is None else group.partitions:
        layout = layouts.get(item.topic)
        if isinstance(layout, KgroupError):
            errors[item.tp] = type(layout)(f"the topic {layout.message}", hint=layout.hint)
        elif layout is not None and item.partition not in layout.leaders:
            errors[item.tp] = NotFound("the partition does not exist")
    return errors


def _facts(
    tp: TopicPartition,
    view: LogView,
    layout: TopicLayout | KgroupError,
    keeping: TopicRetentions,
    grown_from: int | None,
) -> PartitionLog:
    grown = 0 if grown_from is None else view.end - grown_from
    return PartitionLog(
        start=view.start,
        last_stable=view.last_stable.offset,
        last_stable_epoch=view.last_stable.leader_epoch,
        high_watermark=view.end,
        topic_id=layout.id if isinstance(layout, TopicLayout) else None,
        retention=retention_of(keeping, tp),
        size=keeping.sizes.get(tp),
        growth_per_s=grown * 1000 / _GROWTH_SPAN_MS,
    )


def _with_oldest(
    cluster: Cluster, layouts: Layouts, gap: Gap, logs: Mapping[TopicPartition, PartitionLog]
) -> tuple[dict[TopicPartition, PartitionLog], tuple[str, ...]]:
    """The logs with the time of the first record of each range."""
    # The first of several ranges of a partition has the oldest records.
    spans = {item.tp: LogRange(item.start, item.end) for item in reversed(gap.ranges) if item.end > item.start}
    answers = cluster.first_timestamps(layouts, spans.items()) if spans else {}
    times = {tp: at_ms for (tp, _), at_ms in answers.items() if isinstance(at_ms, int)}
    faults = [error for error in answers.values() if isinstance(error, KgroupError) and not isinstance(error, NotFound)]
    known = {tp: replace(log, oldest_ms=times.get(tp)) for tp, log in logs.items()}
    notes = (f"the age of the gap is unknown for some partitions: {faults[0].message}",) if faults else ()
    return known, notes
