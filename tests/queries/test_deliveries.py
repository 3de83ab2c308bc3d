"""What share groups archive while kgroup runs: each offset counts once, and what was there before does not."""

from __future__ import annotations

from kgroup.model.share_deliveries import Deliveries, DeliveryBatch, DeliveryState, PartitionDeliveries
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.deliveries import ArchivedMeanwhile


def archived(*batches: tuple[int, int, int], partition: int = 0) -> Deliveries:
    """(first, last, count) of each batch."""
    made = tuple(DeliveryBatch(first, last, DeliveryState.ARCHIVED, count) for first, last, count in batches)
    return Deliveries({TopicPartition("orders", partition): PartitionDeliveries(0, made)})


def test_each_offset_counts_once() -> None:
    counter = ArchivedMeanwhile()
    counts = []
    for deliveries in (
        archived((0, 3, 5)),
        archived((0, 4, 5), (6, 6, 1)),  # 6 may be a marker
        archived((4, 5, 5)),  # the state of the first ones is deleted
        archived((7, 8, 2), partition=1),  # new
        archived((0, 5, 5)),
    ):
        counter.add("jobs", deliveries)
        counts.append(counter.count("jobs"))
    assert counts == [0, 1, 2, 4, 4]
    assert counter.count("other") is None


def test_a_group_that_begins() -> None:
    counter = ArchivedMeanwhile()
    counter.add("jobs", Deliveries())
    counter.add("jobs", archived((0, 0, 3)))
    assert counter.count("jobs") == 1
