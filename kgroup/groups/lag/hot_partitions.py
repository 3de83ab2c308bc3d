"""The partitions of a topic that get many times the records of the others."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from kgroup.groups.thresholds import FEW_PARTITIONS, HOT, HOT_LEAST, RATE_SPAN
from kgroup.model.topic_partition import TopicPartition


class HotPartition(msgspec.Struct, frozen=True):
    """A partition with so many records per second; ``usual_per_s`` is the median of the topic's ``others``."""

    tp: TopicPartition
    per_s: float
    usual_per_s: float
    others: int


def hot_partitions(arrivals: Mapping[TopicPartition, float]) -> list[HotPartition]:
    """The hot partitions, the busiest first; ``arrivals`` are records per second over ``RATE_SPAN``.

    Arrivals are compared, not lag, with the median of the other partitions, which a second hot one hardly changes.
    """
    busy = {tp for tp, per_s in arrivals.items() if round(per_s * RATE_SPAN.value / 1000) >= HOT_LEAST.value}
    rates: defaultdict[str, dict[TopicPartition, float]] = defaultdict(dict)
    # A group of quiet topics has no hot partition: nothing is compared.
    for tp, per_s in arrivals.items() if busy else ():
        rates[tp.topic][tp] = per_s
    hot = []
    for of_topic in rates.values():
        if len(of_topic) < FEW_PARTITIONS.value:
            continue
        ascending = sorted(of_topic.values())
        for tp in busy & of_topic.keys():
            usual = median_of_others(ascending, of_topic[tp])
            if of_topic[tp] >= HOT.value * usual:
                hot.append(HotPartition(tp, of_topic[tp], usual, len(ascending) - 1))
    return sorted(hot, key=lambda each: (-each.per_s, each.tp))


def median_of_others(ascending: Sequence[float], one: float) -> float:
    """The median without one of these values: there may be thousands, and each is left out once."""
    left_out, others = bisect_left(ascending, one), len(ascending) - 1
    low, high = (ascending[at + (at >= left_out)] for at in ((others - 1) // 2, others // 2))
    return (low + high) / 2 if others % 2 == 0 else low
