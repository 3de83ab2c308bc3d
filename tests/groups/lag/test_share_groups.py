"""The lag of share groups: what the broker counts, and what follows of it for ages, statuses and checks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.lag.checks import LagBounds, check_lag
from kgroup.groups.lag.evidence import FirstUnread, LagEvidence, PartitionEvidence, Retention
from kgroup.groups.lag.measure import DONE_AFTER_START, NOT_COUNTED, NOT_STARTED, measure_lag
from kgroup.groups.lag.report import GroupLag
from kgroup.groups.lag.status import SHARES, LagStatus
from kgroup.groups.wait_conditions import Observation, total_lag
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, Partition, RangeStatus
from kgroup.model.share_group import BrokerLag, ShareGroup
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.lag_metrics import lag_metrics
from tests.helpers.cases import described

NOW, MINUTE = 1_800_000_000_000, 60_000
TP = TopicPartition("orders", 0)
LOG = LogRange(100, 200)


def counted(start: int | None, lag: int | None, log: LogRange | None = LOG, error: str | None = None) -> Partition:
    return Partition(TP, None if start is None else Commit(start, None, ""), log, None, error, BrokerLag(lag))


def group(*partitions: Partition, members: int = 1) -> Group:
    who = [described.member(f"jobs-{n}", 0, topic="orders") for n in range(members)]
    state = "Stable" if members else "Empty"
    return described.group(partitions, who, type="share", protocol_type="share", state=state, share=ShareGroup())


def measured(of: Group) -> GroupLag:
    """The first record at or after the start offset is a minute old."""
    known = {
        p.tp: PartitionEvidence(
            last_stable=200,
            retention=Retention(7 * 24 * 60 * MINUTE),
            first_unread=FirstUnread(max(p.commit.offset, 100), NOW - MINUTE) if p.commit else None,
        )
        for p in of.partitions
    }
    return measure_lag(of, LagEvidence(now_ms=NOW, partitions=known))


@pytest.mark.parametrize(
    ("partition", "lag", "first", "age", "at_most", "why"),
    [
        pytest.param(counted(150, 50), 50, 150, MINUTE, None, None, id="nothing after the start is done"),
        pytest.param(counted(150, 8), 8, None, None, MINUTE, None, id="records after the start are done"),
        pytest.param(counted(150, 0), 0, 200, 0, None, None, id="all is done, and the start lies behind"),
        pytest.param(counted(20, 100), 100, 100, MINUTE, None, None, id="the start is below the log"),
        pytest.param(counted(None, None), None, None, None, None, NOT_STARTED, id="it has not begun"),
        pytest.param(counted(150, None), None, None, None, None, NOT_COUNTED, id="the broker does not count"),
        pytest.param(counted(None, None, error="timed-out"), None, None, None, None, "timed-out", id="not read"),
        pytest.param(counted(150, 9, log=None), 9, None, None, None, None, id="its log was not read"),
    ],
)
def test_lag(
    partition: Partition, lag: int | None, first: int | None, age: int | None, at_most: int | None, why: str | None
) -> None:
    report = measured(group(partition))
    (row,) = report.partitions
    assert (report.total.time_lag_ms, report.total.time_lag_at_most_ms) == (age, at_most)
    assert (row.lag, row.first, row.time_lag_ms, row.time_lag_at_most_ms, row.why) == (lag, first, age, at_most, why)
    assert (row.time_why == DONE_AFTER_START) == (at_most is not None or (bool(lag) and first is None))
    assert (row.retention_left is not None) == bool(lag and first is not None)
    assert row.rates.outgoing is None


def test_statuses() -> None:
    behind = counted(150, 50)
    (running,) = measured(group(behind)).partitions
    assert (running.status, running.status_result.why) == (None, SHARES)
    (empty,) = measured(group(behind, members=0)).partitions
    assert empty.status is LagStatus.NO_READER
    (done,) = measured(group(counted(150, 0), members=0)).partitions
    assert done.status is LagStatus.OK
    elsewhere = replace(behind, tp=TopicPartition("left", 0))
    (left,) = measured(group(elsewhere)).partitions
    assert left.status is LagStatus.UNSUBSCRIBED


@pytest.mark.parametrize(
    ("partition", "bounds", "holds"),
    [
        (counted(150, 8), LagBounds(max_lag=8), True),
        (counted(150, 8), LagBounds(max_lag=7), False),
        (counted(None, None), LagBounds(max_lag=1000), False),
        (counted(150, 8), LagBounds(max_lag_time_s=60), True),
        (counted(150, 8), LagBounds(max_lag_time_s=59), False),
        (counted(None, None), LagBounds(max_lag_time_s=60), False),
        (counted(150, 8), LagBounds(fail_on=LagStatus.WARN), True),
        (counted(None, None), LagBounds(fail_on=LagStatus.WARN), False),
    ],
)
def test_checks(partition: Partition, bounds: LagBounds, holds: bool) -> None:
    report = measured(group(partition))
    assert (check_lag([report.total], bounds, NOW) == ()) is holds
    assert (check_lag(report.partitions, bounds, NOW) == ()) is holds


def test_a_start_below_the_log_start_lost_nothing_for_certain() -> None:
    below, above = counted(20, 0), counted(500, None)
    assert (below.out_of_range, above.out_of_range) == (None, RangeStatus.ABOVE_LOG_END)
    samples = {metric.name: metric.samples for metric in lag_metrics([measured(group(below))], "prod", None)}
    assert [one.value for one in samples["kafka_consumergroup_group_lag"]] == [0]
    assert [one.value for one in samples["kafka_consumergroup_group_offset"]] == [20]
    for name in ("messages_lost", "retention_margin", "lag_retention_ratio"):
        assert samples[f"kafka_consumergroup_group_{name}"] == ()


def test_waiting_counts_what_the_broker_counts() -> None:
    assert total_lag(group(counted(150, 8))) == 8
    assert Observation("jobs", group(counted(None, None)), NOW).group is not None
    assert total_lag(group(counted(None, None))) is None


def test_members_that_share_a_partition() -> None:
    shared = group(counted(150, 8), members=3)
    assert [member.member_id for member in shared.readers[TP]] == ["jobs-0", "jobs-1", "jobs-2"]
    assert shared.totals.unassigned_partition_count == 0
    assert group(counted(150, 8), members=0).totals.unassigned_partition_count == 1
