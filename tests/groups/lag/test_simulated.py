"""Consumers played second by second: who is well must not be called anything, who has stopped must be."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from kgroup.groups.lag.evidence import FirstUnread, LagEvidence, LogPoint, PartitionEvidence
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.rates import LagTrend
from kgroup.groups.lag.report import PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.model.commit import Commit
from kgroup.model.groups import LoggedCommit, LogRange, Partition
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.lag import NOW, group

LENGTH_S = 1200
STEP_S = 0.5
LOOK_BACK_S = 600

Arrivals = Callable[[random.Random], list[float]]


def evenly(rate: float) -> Arrivals:
    """Records at random moments, so many a second."""
    return lambda rnd: sorted(rnd.random() * LENGTH_S for _ in range(round(rate * LENGTH_S)))


def in_bursts(pause_s: int, records: int) -> Arrivals:
    """So many records within two seconds, again and again."""
    return lambda rnd: sorted(at + 2 * rnd.random() for at in range(0, LENGTH_S, pause_s) for _ in range(records))


@dataclass(frozen=True)
class Consumer:
    """It reads at most ``speed`` records a second and commits in a rhythm, an idle one only if ``when_idle``."""

    arrivals: Arrivals
    commit_s: float = 5
    speed: float = 500
    when_idle: bool = True
    dies_s: float = LENGTH_S

    def commits(self, records: list[float], rnd: random.Random) -> list[tuple[float, int]]:
        made: list[tuple[float, int]] = []
        position, spare, now_s, next_s = 0, 0.0, 0.0, rnd.random() * self.commit_s
        while now_s < self.dies_s:
            now_s += STEP_S
            spare = min(spare + self.speed * STEP_S, max(self.speed * STEP_S, 1))
            read = min(bisect_right(records, now_s) - position, int(spare))
            position, spare = position + read, spare - read
            if now_s >= next_s:
                next_s += self.commit_s
                if self.when_idle or not made or made[-1][1] != position:
                    made.append((now_s, position))
        return made


def measured(consumer: Consumer, seed: int) -> PartitionLag:
    """What is said of it at the end, from what the log would show."""
    rnd = random.Random(seed)
    records = consumer.arrivals(rnd)
    commits = consumer.commits(records, rnd)
    committed = commits[-1][1]

    def ms(at_s: float) -> int:
        return NOW - round((LENGTH_S - at_s) * 1000)

    past = LogPoint(ms(LENGTH_S - LOOK_BACK_S), bisect_right(records, LENGTH_S - LOOK_BACK_S))
    known = PartitionEvidence(
        commits=tuple(LoggedCommit("orders", 0, offset, None, ms(at_s), ms(at_s)) for at_s, offset in commits),
        read_since_ms=ms(0),
        ends=(past,),
        first_unread=FirstUnread(committed, ms(records[committed])) if committed < len(records) else FirstUnread(None),
    )
    partition = Partition(
        TopicPartition("orders", 0), Commit(committed, None, ""), LogRange(0, len(records)), None, None
    )
    about = replace(group([]), partitions=(partition,))
    return measure_lag(about, LagEvidence(NOW, partitions={TopicPartition("orders", 0): known})).partitions[0]


@pytest.mark.parametrize(
    ("consumer", "status", "pace"),
    [
        (Consumer(evenly(50)), LagStatus.OK, LagTrend.KEEPS_UP),
        (Consumer(evenly(50), commit_s=60), LagStatus.OK, LagTrend.KEEPS_UP),
        (Consumer(evenly(50), commit_s=0.5), LagStatus.OK, LagTrend.KEEPS_UP),
        (Consumer(evenly(1 / 30)), LagStatus.OK, LagTrend.KEEPS_UP),
        (Consumer(evenly(1 / 30), when_idle=False), LagStatus.OK, LagTrend.KEEPS_UP),
        (Consumer(in_bursts(120, 1000), when_idle=False), LagStatus.OK, LagTrend.KEEPS_UP),
        (Consumer(in_bursts(120, 1000), speed=12), LagStatus.OK, LagTrend.KEEPS_UP),
        (Consumer(evenly(50), speed=30), LagStatus.WARN, LagTrend.NOT_AT_THIS_RATE),
        (Consumer(evenly(50), speed=48), LagStatus.WARN, LagTrend.NOT_AT_THIS_RATE),
        (Consumer(evenly(50), dies_s=LENGTH_S - 300), LagStatus.STOP, LagTrend.NOT_AT_THIS_RATE),
        (Consumer(evenly(50), dies_s=LENGTH_S - 70), LagStatus.STOP, LagTrend.NOT_AT_THIS_RATE),
        # Twenty seconds prove nothing yet.
        (Consumer(evenly(50), dies_s=LENGTH_S - 20), LagStatus.OK, LagTrend.KEEPS_UP),
    ],
)
def test_who_is_well_and_who_is_not(consumer: Consumer, status: LagStatus, pace: LagTrend) -> None:
    for seed in range(2):
        found = measured(consumer, seed)

        assert (found.status, found.outlook.pace) == (status, pace), f"seed {seed}, lag {found.lag}"
