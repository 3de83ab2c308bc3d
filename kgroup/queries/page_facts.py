"""What only the page of few groups shows: quiet topics, partitions never read, a group that may have replaced one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from kgroup.cluster.deadline import Deadline
from kgroup.cluster.first_records import Span
from kgroup.cluster.lag_reading import OtherGroups
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.topics import Layouts, LogView, TopicLayout
from kgroup.groups.lag.evidence import LagEvidence, QuietTopic, UncommittedPartition
from kgroup.groups.lag.past import quiet_partitions
from kgroup.groups.thresholds import LEAST_UNREAD
from kgroup.groups.verdict.began import change_moments
from kgroup.model.groups import Group, LogRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.successors import read_successors
from kgroup.support.errors import KgroupError

_BUDGET_S = 1.0


def read_change_ends(
    cluster: Cluster, groups: Sequence[Group], known: Mapping[str, LagEvidence]
) -> dict[str, dict[TopicPartition, tuple[int, int]]]:
    """The log ends of lagging partitions at the ``change_moments``, by group; most groups need no request.

    All groups together have a second.
    """
    asked = {}
    for group in groups:
        moments_ms = change_moments(known[group.name])
        if moments_ms is not None and (group.totals.lag or 0) >= LEAST_UNREAD.value:
            logs = known[group.name].partitions
            usable = (p.tp for p in group.partitions if p.lag and logs[p.tp].unusable_ms is None)
            asked[group.name] = moments_ms, list(usable)
    ends: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
    if not asked:
        return ends
    deadline = Deadline.after(_BUDGET_S)
    try:
        with cluster.time_limit(deadline.left_s):
            layouts = cluster.layouts({tp.topic for _, places in asked.values() for tp in places})
        for name, (moments_ms, places) in asked.items():
            with cluster.time_limit(deadline.left_s):
                views = cluster.log_views(layouts, places, moments_ms)
            ends[name] = {tp: _ends_at(view) for tp, view in views.items() if isinstance(view, LogView)}
    except KgroupError:
        pass  # the others are judged without them
    return ends


def _ends_at(view: LogView) -> tuple[int, int]:
    before, later = (view.end if at is None else at for at in view.at_times)
    return before, later


def with_page_facts(
    cluster: Cluster,
    groups: Sequence[Group],
    known: Mapping[str, LagEvidence],
    others: OtherGroups | str | None,
) -> dict[str, LagEvidence]:
    """The evidence with these facts; without them where they cannot be read. Most groups need no request for it.

    ``others`` are the groups on the topics that lag, as ``LagFacts`` has them.
    """
    successors = read_successors(cluster, groups, {name: each.state_since_ms for name, each in known.items()}, others)
    quiet = {group.name: quiet_partitions(group, known[group.name]) for group in groups}
    topics = {tp.topic for logs in quiet.values() for tp in logs}
    topics |= {p.topic for group in groups if group.is_simple for p in group.partitions if p.commit is not None}
    change_ends = read_change_ends(cluster, groups, known)
    evidence = {
        group.name: replace(
            known[group.name],
            successor=successors.get(group.name),
            change_ends=change_ends.get(group.name, {}),
        )
        for group in groups
    }
    if not topics:
        return evidence
    try:
        with cluster.time_limit(_BUDGET_S):
            layouts = cluster.layouts(topics)
            spans = [span for logs in quiet.values() for span in _last_offsets(logs)]
            times_ms = cluster.first_timestamps(layouts, spans) if spans else {}
            unlisted = {group.name: list(_unlisted(group, layouts)) for group in groups if group.is_simple}
            places = {tp for of_group in unlisted.values() for tp in of_group}
            views = cluster.log_views(layouts, places) if places else {}
    except KgroupError:
        return evidence
    for group in groups:
        uncommitted = ((tp, views.get(tp)) for tp in unlisted.get(group.name, ()))
        evidence[group.name] = replace(
            evidence[group.name],
            quiet=tuple(_quiet_topics(quiet[group.name], times_ms)),
            uncommitted=tuple(
                UncommittedPartition(tp, view.end - view.start)
                for tp, view in uncommitted
                if isinstance(view, LogView) and view.end > view.start
            ),
        )
    return evidence


def _unlisted(group: Group, layouts: Layouts) -> Iterator[TopicPartition]:
    """The partitions of its topics without a commit; those of a group that had consumers are listed."""
    known = {p.tp for p in group.partitions}
    for topic in sorted({p.topic for p in group.partitions if p.commit is not None}):
        if isinstance(layout := layouts.get(topic), TopicLayout):
            numbers = sorted(layout.leaders)
            yield from (tp for number in numbers if (tp := TopicPartition(topic, number)) not in known)


def _last_offsets(logs: Mapping[TopicPartition, LogRange]) -> Iterator[Span]:
    """The last offset of each log, and the last two: the last one may be the mark of a transaction."""
    for tp, log in logs.items():
        yield from ((tp, LogRange(start, log.end)) for start in (log.end - 1, log.end - 2) if start >= log.start)


def _quiet_topics(
    logs: Mapping[TopicPartition, LogRange], times_ms: Mapping[Span, int | KgroupError | None]
) -> Iterator[QuietTopic]:
    """The topics with the time of their last record, if that of each partition is known."""
    for topic in sorted({tp.topic for tp in logs}):
        last_ms = [
            next((at for span in _last_offsets({tp: log}) if isinstance(at := times_ms.get(span), int)), None)
            for tp, log in logs.items()
            if tp.topic == topic
        ]
        known = [at_ms for at_ms in last_ms if at_ms is not None]
        if known and len(known) == len(last_ms):
            yield QuietTopic(topic, max(known))
