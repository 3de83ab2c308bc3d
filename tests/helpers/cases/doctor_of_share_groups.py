"""Cases of the rules about share groups."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.lag.evidence import LagEvidence, PartitionEvidence
from kgroup.model.groups import LogRange, Partition
from kgroup.model.migration_facts import BrokerFacts
from kgroup.model.share_deliveries import (
    Deliveries,
    DeliveryBatch,
    DeliveryState,
    FailedDeliveries,
    PartitionDeliveries,
)
from kgroup.model.share_group import BrokerLag, DeadLetterTopic, ShareGroup, ShareSettings
from tests.helpers.cases import described
from tests.helpers.cases.doctor import CRITICAL, INFO, NOW, PARTLY, UNKNOWN, WARNING, Case, member, partition

SETTINGS = ShareSettings("earliest", "read_uncommitted", 5, 30_000, has_dead_letters=True)
LATEST, UNLIMITED = replace(SETTINGS, start="latest"), replace(SETTINGS, delivery_limit=None)
TWICE = replace(SETTINGS, delivery_limit=2)


def counted(number: int, start: int | None, lag: int | None, **other: Any) -> Partition:
    """A partition with its start offset and the lag that the broker counts, of a log with 1000 records."""
    return replace(partition(number, start, **other), counted=BrokerLag(lag))


def snapshot(
    *partitions: Partition,
    settings: ShareSettings | None = SETTINGS,
    members: int = 1,
    name: str = "jobs",
    release: str | None = "4.4",
    deliveries: Deliveries | None = None,
) -> GroupSnapshot:
    """A share group with so many members, which all have the first partition."""
    group = described.group(
        partitions,
        [member(f"jobs-{at}", 0) for at in range(members)],
        name=name,
        type="share",
        protocol_type="share",
        state="Stable" if members else "Empty",
        share=ShareGroup(settings, None if settings else "no DESCRIBE_CONFIGS on this group", deliveries),
    )
    known = {p.tp: PartitionEvidence() for p in partitions}
    evidence = LagEvidence(now_ms=NOW, partitions=known)
    return GroupSnapshot(group=group, now_ms=NOW, logs=known, read=evidence, broker=BrokerFacts(release=release))


def with_dead_letters(deliveries: Deliveries | None = None, **topic: Any) -> GroupSnapshot:
    settings = replace(SETTINGS, dead_letters=DeadLetterTopic("dlq.orders", **topic))
    return snapshot(DONE, settings=settings, deliveries=deliveries)


def lasted(*seconds: float, unread: str | None = None) -> Deliveries:
    """Deliveries of two offsets that failed, each so long after the one before. Their lock is of 30 s."""
    failed = FailedDeliveries(4, 5, 5, 0, tuple(round(1000 * each) for each in seconds))
    return Deliveries({DONE.tp: PartitionDeliveries(0, failed=(failed,))}, unread)


def delivered(*batches: DeliveryBatch, unread: str | None = None) -> Deliveries:
    """The state of the first partition, which is read."""
    return Deliveries({DONE.tp: PartitionDeliveries(0, batches)}, unread)


def given(deliveries: Deliveries, settings: ShareSettings | None = SETTINGS) -> GroupSnapshot:
    return snapshot(DONE, settings=settings, deliveries=deliveries)


DONE, BEHIND, NEW = counted(0, 1000, 0), counted(0, 400, 30), counted(1, None, None)
AWAY = counted(1, None, None, log=None, error="no-leader")
EMPTY_LOG = counted(1, None, 0, log=LogRange(0, 0))
NOT_READ = Deliveries(unread="__share_group_state could not be read")
RETRIED = DeliveryBatch(10, 19, DeliveryState.AVAILABLE, 3)
ON_LAST = DeliveryBatch(20, 21, DeliveryState.AVAILABLE, 4)
MARKERS = DeliveryBatch(30, 31, DeliveryState.ARCHIVED, 1)
REJECTED = DeliveryBatch(32, 32, DeliveryState.ARCHIVED, 2)
AT_LIMIT = DeliveryBatch(33, 35, DeliveryState.ARCHIVED, 5)

CASES = (
    Case("share-no-reader", "it has members", snapshot(BEHIND), None),
    Case("share-no-reader", "all is done", snapshot(DONE, members=0), None),
    Case("share-no-reader", "nothing is known", snapshot(NEW, members=0), None),
    Case("share-no-reader", "a leader is away", snapshot(DONE, AWAY, members=0), PARTLY, "orders:1"),
    Case("share-no-reader", "records wait", snapshot(BEHIND, members=0), WARNING,
         "no member reads, and 30 of its records are not done"),
    Case("share-group-id", "without a colon", snapshot(DONE, release="4.2"), None),
    Case("share-group-id", "with one, on newer brokers", snapshot(NEW, name="a:b"), None),
    Case("share-group-id", "with one, and it has begun", snapshot(DONE, name="a:b", release="4.2"), None),
    Case("share-group-id", "with one, on brokers of 4.2", snapshot(NEW, name="a:b", release="4.2"), WARNING,
         "1 colon in the group id"),
    Case("share-group-id", "with one, and not all was read", snapshot(NEW, AWAY, name="a:b", release="4.2"), UNKNOWN,
         "its start offsets were not read"),
    Case("share-group-id", "with one, on unknown brokers", snapshot(NEW, name="a:b", release=None), UNKNOWN,
         "release"),
    Case("share-starts-at-latest", "it starts at the log start", snapshot(DONE, NEW), None),
    Case("share-starts-at-latest", "it has begun everywhere", snapshot(DONE, settings=LATEST), None),
    Case("share-starts-at-latest", "nothing was there", snapshot(DONE, EMPTY_LOG, settings=LATEST), None),
    Case("share-starts-at-latest", "a leader is away", snapshot(DONE, AWAY, settings=LATEST), PARTLY, "orders:1"),
    Case("share-starts-at-latest", "its settings are unknown", snapshot(NEW, settings=None), UNKNOWN,
         "DESCRIBE_CONFIGS"),
    Case("share-starts-at-latest", "it has members", snapshot(DONE, NEW, settings=LATEST), INFO,
         "without a start offset on 1 partition (orders:1): of 1000 offsets there its members get none from before"),
    Case("share-starts-at-latest", "nobody has begun", snapshot(NEW, settings=LATEST, members=0), WARNING,
         "its first consumer gets none"),
    Case("share-dead-letters", "there is none", snapshot(DONE), None),
    Case("share-dead-letters", "it takes them", with_dead_letters(exists=True, enabled=True), None),
    Case("share-dead-letters", "brokers create it", with_dead_letters(exists=False, created=True), None),
    Case("share-dead-letters", "it may not be seen", with_dead_letters(), UNKNOWN, "no DESCRIBE_CONFIGS on dlq.orders"),
    Case("share-dead-letters", "its settings are unknown", snapshot(DONE, settings=None), UNKNOWN, "DESCRIBE_CONFIGS"),
    Case("share-dead-letters", "it is missing", with_dead_letters(exists=False), WARNING,
         "dlq.orders does not exist: a record that is rejected, or not done after 5 deliveries, is lost"),
    Case("share-dead-letters", "it is not enabled", with_dead_letters(exists=True, enabled=False), WARNING,
         "dlq.orders lacks errors.deadletterqueue.group.enable=true"),
    Case("share-archived", "only markers, or rejected at once", given(delivered(RETRIED, MARKERS)), None),
    Case("share-archived", "dead letters are taken", with_dead_letters(delivered(AT_LIMIT), exists=True, enabled=True),
         None),
    Case("share-archived", "it may not be seen", with_dead_letters(delivered(AT_LIMIT)), UNKNOWN, "dlq.orders"),
    Case("share-archived", "its settings are unknown", given(delivered(AT_LIMIT), None), UNKNOWN, "DESCRIBE_CONFIGS"),
    Case("share-archived", "its state was not read", snapshot(DONE), UNKNOWN, "was not read"),
    Case("share-archived", "its state cannot be read", given(NOT_READ), UNKNOWN, "could not be read"),
    Case("share-archived", "a part cannot be read", given(delivered(RETRIED, unread="too much")), PARTLY, "too much"),
    Case("share-archived", "a consumer rejects", given(delivered(REJECTED)), WARNING,
         "1 offset of orders:0 archived after 2 deliveries or more, and there is no dead-letter topic"),
    Case("share-archived", "the limit is reached", given(delivered(MARKERS, REJECTED, AT_LIMIT)), CRITICAL,
         "4 offsets of orders:0 archived after 2 deliveries or more, 3 offsets of them after all 5"),
    Case("share-archived", "the topic is not enabled",
         with_dead_letters(delivered(AT_LIMIT), exists=True, enabled=False), CRITICAL, "dlq.orders receives none"),
    Case("share-last-attempts", "there are deliveries left", given(delivered(RETRIED, AT_LIMIT)), None),
    Case("share-last-attempts", "none are left", given(delivered(RETRIED, ON_LAST)), WARNING,
         "2 offsets of orders:0 came back 4 times: if the next delivery fails, that was the last of 5"),
    Case("share-last-attempts", "the second is the last", given(delivered(replace(ON_LAST, count=1)), TWICE), WARNING,
         "came back 1 time: if the next delivery fails, that was the last of 2"),
    Case("share-last-attempts", "its settings are unknown", given(delivered(ON_LAST), None), UNKNOWN,
         "DESCRIBE_CONFIGS"),
    Case("share-last-attempts", "its limit is unknown", given(delivered(ON_LAST), UNLIMITED),
         UNKNOWN, "the delivery limit is not known"),
    Case("share-last-attempts", "its state cannot be read", given(NOT_READ), UNKNOWN, "could not be read"),
    Case("share-lock", "released at once", given(lasted(1.2, 1.2, 1.2)), None),
    Case("share-lock", "once late may be a consumer that was away", given(lasted(1.2, 45, 1)), None),
    Case("share-lock", "each time after the lock", given(lasted(30.002, 45, 1)), WARNING,
         "2 offsets of orders:0 came back about 30s or more after the time before, again and again: as long as"),
    Case("share-lock", "the end before was written late", given(lasted(29.9, 29.99)), WARNING,
         "2 offsets of orders:0 came back about 30s"),
    Case("share-lock", "longer than a write", given(lasted(29.8, 29.99)), None),
    Case("share-lock", "its settings are unknown", given(lasted(30, 30), None), UNKNOWN, "DESCRIBE_CONFIGS"),
    Case("share-lock", "its lock is unknown", given(lasted(30, 30), replace(SETTINGS, lock_ms=None)), UNKNOWN,
         "the duration of the lock is not known"),
    Case("share-lock", "its state cannot be read", given(NOT_READ), UNKNOWN, "could not be read"),
    Case("share-lock", "a part cannot be read", given(lasted(1, unread="too much")), PARTLY, "too much"),
    Case("share-last-attempts", "a part cannot be read", given(delivered(unread="too much")), PARTLY, "too much"),
)  # fmt: skip
