"""What ``__share_group_state`` holds of a share group's records: how often each was delivered, and what became of it.

Who holds a record now is never written. What lies below the start offset is done, or archived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_types import ExplainedEnum


class DeliveryState(ExplainedEnum):
    """What became of a record of a share group."""

    AVAILABLE = "available", "it was delivered and came back; a member may hold it again"
    ACKNOWLEDGED = "acknowledged", "it was accepted"
    ARCHIVING = "archiving", "it is being written to the dead-letter topic"
    ARCHIVED = "archived", "it is not delivered again: rejected, at the delivery limit, or a transaction's marker"


class DeliveryBatch(msgspec.Struct, frozen=True, gc=False):
    """The offsets [first, last], which share a state and the number of their deliveries. Some may hold no record."""

    first: int
    last: int
    state: DeliveryState
    count: int

    @property
    def offsets(self) -> int:
        return self.last - self.first + 1

    @property
    def is_archived(self) -> bool:
        return self.state in (DeliveryState.ARCHIVED, DeliveryState.ARCHIVING)

    @property
    def is_retried(self) -> bool:
        return self.state is DeliveryState.AVAILABLE and self.count > 0

    def is_last_attempt(self, limit: int | None) -> bool:
        """Whether it is archived when its next delivery fails; False if the limit is not known."""
        return self.is_retried and limit is not None and self.count >= limit - 1


class FailedDeliveries(msgspec.Struct, frozen=True, gc=False):
    """Successive deliveries of the offsets [first, last], none accepted. ``count`` is the number of the last one.

    ``ended_ms`` is when it ended. ``lasted_ms`` is how long after the one before each of them ended, without those that
    a consumer may have ended.
    """

    first: int
    last: int
    count: int
    ended_ms: int
    lasted_ms: tuple[int, ...] = ()

    def outlast(self, lock_ms: int) -> bool:
        """Whether two of them or more ended a lock's length, or more, after the one before.

        A broker gives out a record before it writes that its lock ended, so the next one seems shorter by that write
        (4.4.0: up to 9 ms on a busy machine).
        A consumer that releases, and stays away for so long, looks alike.
        """
        return sum(lasted + _WRITE_MS >= lock_ms for lasted in self.lasted_ms) >= _SEVERAL


_SEVERAL, _WRITE_MS = 2, 100


class PartitionDeliveries(msgspec.Struct, frozen=True):
    """Batches that do not overlap, in the order of their offsets; below ``start`` only archived ones.

    ``start`` is the start offset, None before the first record is done. ``since_ms`` is the time from which on the log
    has everything; older records that were archived, and are below the start offset, are not known. ``done`` is how
    many records from the start offset on are done, None if it is not known. ``failed`` are offsets whose deliveries
    failed one after the other, as far as the log has it.
    """

    start: int | None = None
    batches: tuple[DeliveryBatch, ...] = ()
    since_ms: int | None = None
    done: int | None = None
    failed: tuple[FailedDeliveries, ...] = ()

    def lag(self, log_end: int) -> int | None:
        """The records that are not done, as the broker counts them; None if it is not known."""
        return None if self.start is None or self.done is None else max(0, log_end - self.start - self.done)

    @property
    def retried(self) -> int:
        """The offsets that were delivered and came back, those on their last attempt too."""
        return _offsets(each for each in self.batches if each.is_retried)

    @property
    def surely_archived(self) -> tuple[DeliveryBatch, ...]:
        """Those archived after two deliveries or more; after one it may be a marker, which is no record."""
        return tuple(each for each in self.batches if each.is_archived and each.count > 1)

    @property
    def archived(self) -> int:
        """The offsets that are not delivered again; markers of transactions are among them."""
        return _offsets(each for each in self.batches if each.is_archived)

    def last_attempts(self, limit: int | None) -> int | None:
        """The offsets whose next delivery is the last one; None if the limit is not known."""
        return None if limit is None else _offsets(each for each in self.batches if each.is_last_attempt(limit))


class Deliveries(msgspec.Struct, frozen=True):
    """The deliveries of a share group; a partition that is not in ``partitions`` is unknown, and ``unread`` is why."""

    partitions: Mapping[TopicPartition, PartitionDeliveries] = {}
    unread: str | None = None

    @property
    def since_ms(self) -> int | None:
        """The time from which on the log has everything of all its partitions."""
        return max((each.since_ms for each in self.partitions.values() if each.since_ms is not None), default=None)


def _offsets(batches: Iterable[DeliveryBatch]) -> int:
    return sum(each.offsets for each in batches)
