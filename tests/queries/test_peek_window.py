"""Reading records around an offset: limits of size and time, and what a batch that cannot be decoded names."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kgroup.cluster.deadline import Deadline
from kgroup.groups.peek import PeekRequest, PeekTarget, ReadableLog, ReadLimit
from kgroup.model.groups import LogRange
from kgroup.model.records import ConsumerRecord
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.peek_window import PeekLimits, read_around, records_of
from kgroup.support.errors import KgroupError


def test_a_batch_that_cannot_be_decoded_is_named_by_its_offset() -> None:
    class Broken:
        def batches(self, *_: object) -> Any:
            raise KgroupError("orders:3: Local: Invalid compressed data", code="broker-error")
            yield

    limits = PeekLimits(Deadline.after(1), 1)
    with pytest.raises(KgroupError) as raised:
        records_of(cast(Any, Broken()), TopicPartition("orders", 3), LogRange(7, 9), 1, limits)
    assert raised.value.details == ("It was read from offset 7 on.",)


class OneByOne:
    """A reader whose batches have one record of a byte each."""

    def batches(self, topic: str, partition: int, start: int, end: int) -> Any:
        for offset in range(start, end):
            record = ConsumerRecord(topic, partition, offset, None, None, b"1", ())
            yield SimpleNamespace(part=lambda *_, r=record: BatchPart((r,)), position=offset + 1)


@dataclass(frozen=True)
class BatchPart:
    """A part of such a batch."""

    found: tuple[ConsumerRecord, ...]

    def records(self) -> tuple[ConsumerRecord, ...]:
        return self.found

    def size(self) -> int:
        return len(self.found)


@pytest.mark.parametrize(
    ("size", "timeout_s", "request_", "found", "stopped_reason"),
    [
        (99, 60, PeekRequest(before=2, count=3), [2, 3, 4, 5, 6], None),
        (2, 60, PeekRequest(count=3), [4, 5], ReadLimit.SIZE),
        (99, 0, PeekRequest(count=3), [4], ReadLimit.TIME),
        (99, 0, PeekRequest(count=1), [4], None),
        (2, 60, PeekRequest(before=2, count=1), [4], ReadLimit.SIZE),
        (99, 60, PeekRequest(before=9, count=9), [*range(10)], None),
    ],
)
def test_limits_of_a_read(
    size: int, timeout_s: float, request_: PeekRequest, found: list[int], stopped_reason: ReadLimit | None
) -> None:
    limits = PeekLimits(Deadline.after(timeout_s), size)
    window = read_around(cast(Any, OneByOne()), PeekTarget("orders", 3), ReadableLog(0, 10, 10), 4, request_, limits)
    assert [record.offset for record in window.records] == found
    assert window.stopped_reason is stopped_reason
