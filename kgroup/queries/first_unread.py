"""When the first unread record of each partition was written, read again and again: how late groups are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.cluster.snapshot import Cluster
from kgroup.groups.wait_conditions import unread
from kgroup.model.groups import Group, LogRange
from kgroup.model.record_times import usable_ms
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized, Unreachable

Ages = Mapping[str, Mapping[TopicPartition, int | None]]
"""The time of the first unread record, in ms since 1970, by group and partition; None if it is not usable."""


class FirstUnreadTimes:
    """Reads these times. A position from an earlier read is not read again: its record is unchanged."""

    def __init__(self) -> None:
        self._ages: dict[tuple[TopicPartition, int], int] = {}

    def read(self, cluster: Cluster, groups: Sequence[Group]) -> Ages:
        """The times of the first unread records, by group. Raises Unreachable and NotAuthorized."""
        now_ms = cluster.now_ms()
        spans = {(group.name, tp): span for group in groups for tp, span in unread(group).items()}
        first_unread_ms: dict[tuple[TopicPartition, int], int | KgroupError | None] = dict(self._ages)
        missing = {(tp, start): end for (_, tp), (start, end) in spans.items() if (tp, start) not in first_unread_ms}
        ranges = [(tp, LogRange(start, end)) for (tp, start), end in missing.items()]
        layouts = cluster.layouts({tp.topic for tp, _ in ranges}) if ranges else {}
        for (tp, span), answer in (cluster.first_timestamps(layouts, ranges) if ranges else {}).items():
            if isinstance(answer, Unreachable | NotAuthorized):
                where = f"{tp}"
                raise type(answer)(f"{where} {answer.message}", code=answer.code, hint=answer.hint)
            first_unread_ms[tp, span.start] = answer
        self._ages = {
            (tp, start): answer
            for (_, tp), (start, _) in spans.items()
            if isinstance(answer := first_unread_ms[tp, start], int)
        }
        ages: dict[str, dict[TopicPartition, int | None]] = {}
        for (name, tp), (start, _) in spans.items():
            answer = first_unread_ms[tp, start]
            if answer is not None:  # None: there is no record in the range, so nothing is unread
                at_ms = None if isinstance(answer, KgroupError) else usable_ms(answer, now_ms)
                ages.setdefault(name, {})[tp] = at_ms
        return ages
