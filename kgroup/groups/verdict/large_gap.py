"""Whether a group's gap is large: reading it needs over ten minutes at the measured rate, or does not end."""

from __future__ import annotations

import msgspec

from kgroup.groups.lag.evidence import LagEvidence
from kgroup.groups.lag.hot_partitions import hot_partitions
from kgroup.groups.lag.rates import Rates, rate_words, reading_rate, slow_outlook
from kgroup.groups.lag.read_quotas import quota_words
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.thresholds import LEAST_LAG
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration


class LargeGap(msgspec.Struct, frozen=True):
    """A gap that is large. ``seconds`` is the time that reading it needs; None: it does not end at this rate.

    ``reads`` is the group's rate, of a group without a reader the rate at which it last read, ``arrives`` what arrives.
    Both are of the ``slow`` partitions, the largest lag first.
    """

    seconds: float | None
    reads: float
    arrives: float
    slow: tuple[PartitionLag, ...]
    hot: frozenset[TopicPartition] = frozenset()
    """Those that get many times the records of others, whether slow or not."""

    @property
    def lag(self) -> int:
        """The records of the gap."""
        return sum(p.lag or 0 for p in self.slow)

    @property
    def needs_members(self) -> bool:
        """Whether it grows on several partitions that are not hot: no member more helps one, nor one key."""
        return self.seconds is None and len({p.partition.tp for p in self.slow} - self.hot) > 1

    @property
    def words(self) -> str:
        """``needs 11m at 95/s``, ``does not catch up at 95/s``."""
        what = "does not catch up" if self.seconds is None else f"needs {format_duration(round(self.seconds))}"
        return f"{what} at {rate_words(self.reads)}"


def large_gap(report: GroupLag, evidence: LagEvidence) -> LargeGap | None:
    """The large gap of a group; None if its gap is not large, or if no rate is known.

    A partition that is stuck though it has an owner does not count: one record or one call holds it back. Nor does one
    that was rewound or that a tool committed last: its records may be meant to be read again.
    """
    slow = [
        (p, rate, late)
        for p in report.partitions
        if (found := _slow(p, evidence)) and not _is_read_in_turn(p, report)
        for rate, late in (found,)
    ]
    if sum(p.lag or 0 for p, _, _ in slow) < LEAST_LAG.value:
        return None
    late_s = [late for _, _, late in slow]
    return LargeGap(
        None if None in late_s else max(s for s in late_s if s is not None),
        sum(rate for _, rate, _ in slow),
        sum(p.rates.incoming or 0 for p, _, _ in slow),
        tuple(sorted((p for p, _, _ in slow), key=lambda p: -(p.lag or 0))),
        frozenset(hot.tp for hot in hot_partitions(arrivals_in(report))),
    )


def slowed_by_quota(group: Group, evidence: LagEvidence, gap: LargeGap | None) -> str | None:
    """The quota that may be why a gap grows; None without one, or if that is not known (``LagEvidence.unknown``)."""
    if gap is None or gap.seconds is not None or not group.members:
        return None
    return quota_words(evidence.quotas, group, gap.reads)


def _is_read_in_turn(row: PartitionLag, report: GroupLag) -> bool:
    """Whether its owner's partitions drain together: a client reads all that it has fetched of one, then the next."""
    owner = row.partition.owner
    if owner is None:
        return False
    its = [p for p in report.partitions if p.partition.owner == owner]
    rates = [(p.rates.incoming, p.rates.outgoing) for p in its]
    if len(its) == 1 or any(None in pair for pair in rates):
        return False
    together = Rates(sum(arrives or 0 for arrives, _ in rates), sum(reads or 0 for _, reads in rates))
    return slow_outlook(sum(p.lag or 0 for p in its), together) is None


def arrivals_in(report: GroupLag) -> dict[TopicPartition, float]:
    """What arrives per second on each partition over the longest time that was read, as far as it is known."""
    known = ((p.partition.tp, p.spans[-1].incoming) for p in report.partitions if p.spans)
    return {tp: rate for tp, rate in known if rate is not None}


def _slow(row: PartitionLag, evidence: LagEvidence) -> tuple[float, float | None] | None:
    """The rate at which a slow partition is read, and the seconds until nothing is unread, None: not at this rate."""
    known = evidence.partitions.get(row.partition.tp)
    unattended = row.status is LagStatus.NO_READER
    if not row.lag or known is None or row.status_result.back or row.status is LagStatus.REWIND:
        return None
    if row.status is not None and row.status.is_stuck and not unattended:
        return None
    reads = reading_rate(known.commits) if unattended else row.rates.outgoing
    if reads is None:
        return None
    found = slow_outlook(row.lag, Rates(row.rates.incoming, reads), close=row.status_result.caught_up)
    return None if found is None else (reads, found.seconds)
