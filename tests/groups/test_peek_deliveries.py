"""Which records of a share group ``kgroup peek`` shows: tables of cases."""

from __future__ import annotations

import pytest

from kgroup.groups.peek_deliveries import PeekedDeliveries, dead_letter_of, newest_of_each_kind
from kgroup.model.groups import LogRange
from kgroup.model.records import ConsumerRecord, Headers
from kgroup.model.share_deliveries import DeliveryBatch, DeliveryState, PartitionDeliveries

RETRY, DONE, DEAD = DeliveryState.AVAILABLE, DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED


def record(offset: int, headers: Headers = ()) -> ConsumerRecord:
    return ConsumerRecord("orders", 0, offset, 0, None, b"x", headers)


def deliveries(*batches: DeliveryBatch, limit: int | None = 3) -> PeekedDeliveries:
    return PeekedDeliveries(PartitionDeliveries(0, batches), limit)


MIXED = deliveries(
    DeliveryBatch(0, 0, DEAD, 1),
    DeliveryBatch(5, 9, RETRY, 1),
    DeliveryBatch(10, 19, DONE, 1),
    DeliveryBatch(20, 20, RETRY, 2),
    DeliveryBatch(300, 301, DEAD, 3),
)


@pytest.mark.parametrize(
    ("log", "ranges"),
    [
        (LogRange(0, 400), [LogRange(300, 302), LogRange(0, 21)]),
        (LogRange(7, 301), [LogRange(300, 301), LogRange(7, 21)]),
        (LogRange(400, 400), []),
    ],
)
def test_what_is_read_of_the_log(log: LogRange, ranges: list[LogRange]) -> None:
    assert MIXED.ranges(log) == ranges


@pytest.mark.parametrize(
    ("count", "offsets"), [(1, [9, 20, 301]), (2, [8, 9, 20, 300, 301]), (9, [0, 5, 6, 7, 8, 9, 20, 300, 301])]
)
def test_the_newest_of_each_kind(count: int, offsets: list[int]) -> None:
    """Of two archived ones, 300 and 301 are newer than 0."""
    records = [record(offset) for offset in (*range(21), 300, 301)]
    assert [each.offset for each in newest_of_each_kind(records, MIXED, count)] == offsets


def test_kinds() -> None:
    kinds = [(each.offset, each.kind, each.delivery_count) for each in MIXED.of([record(0), record(5), record(20)])]
    assert kinds == [(0, "archived", 1), (5, "retried", 1), (20, "last-attempt", 2)]
    unlimited = deliveries(DeliveryBatch(20, 20, RETRY, 2), limit=None)
    assert ([each.kind for each in unlimited.of([record(20)])], unlimited.last_attempts) == (["retried"], 0)


def headers(**more: bytes | None) -> Headers:
    texts = {"topic": b"orders", "partition": b"0", "offset": b"7", "group": b"jobs"} | more
    return tuple((f"__dlq.errors.{name}", raw) for name, raw in texts.items())


@pytest.mark.parametrize(
    ("about", "found"),
    [
        (headers(), ("orders", 0, 7)),
        (headers(group=b"other"), None),
        (headers(offset=b"x"), None),
        (headers(offset=None), None),
        ((), None),
    ],
)
def test_dead_letters(about: Headers, found: tuple[str, int, int] | None) -> None:
    assert dead_letter_of(record(0, about), "jobs") == found
