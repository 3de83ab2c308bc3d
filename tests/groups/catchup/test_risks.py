"""What is said of a gap before it is replayed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.gap import SKIPPED, Gap, LastActivity, LastCommit, PartitionLog
from kgroup.groups.catchup.model import ExplainedRange, GapRange, ReleasePoint
from kgroup.groups.catchup.risks import ReplayPace, Risk, RiskLevel, duration_s, risks
from kgroup.groups.lag.evidence import Retention
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.catchup.plans import gap_range

NOW_MS = 1_795_229_931_000
FAST = ReplayPace(1_000.0, startup_s=5.0)
LOG = PartitionLog(0, 120, 7, 120, retention=Retention(None))


def gap_of(*ranges: GapRange, group: str | None = "svc") -> Gap:
    return Gap(group, "classic", ranges, (), (), ())


def said(
    gap: Gap, code: str, pace: ReplayPace = FAST, work: LastActivity | None = None, log: PartitionLog = LOG
) -> list[Risk]:
    found = risks(gap, {item.tp: log for item in gap.ranges}, work or LastActivity(), pace, NOW_MS)
    return [risk for risk in found if risk.code == code]


def test_retention_that_could_not_be_read_is_said_once_a_topic() -> None:
    """Without its settings no deadline is known: the plan looked as if there was none."""
    unread = replace(LOG, retention=None)
    (risk,) = said(gap_of(gap_range(), gap_range(partition=1)), "retention-unknown", log=unread)
    assert (risk.level, risk.topic, risk.partition) == (RiskLevel.WARNING, "orders", None)
    assert risk.message.endswith("before they are replayed: no DESCRIBE_CONFIGS on orders")
    assert "--operation DescribeConfigs --topic orders" in (risk.hint or "")
    assert said(gap_of(gap_range()), "retention-unknown") == []
    (risk,) = said(gap_of(gap_range()), "retention-unknown", log=replace(LOG, retention=Retention(None, 1_000)))
    assert "orders has retention.bytes, but the size of its logs could not be read" in risk.message
    assert risk.hint is None


@pytest.mark.parametrize(
    ("records", "size", "pace", "seconds"),
    [
        (10_000, None, ReplayPace(500.0, startup_s=3.0), 23.0),
        (10_000, 1_000_000, ReplayPace(None, 100_000.0), 10.0),
        (10_000, 1_000_000, ReplayPace(500.0, 100_000.0), 20.0),
        (None, None, ReplayPace(10.0), 5.0),
        (10_000, None, ReplayPace(None, 100_000.0), None),
        (10_000, None, ReplayPace(None), None),
    ],
)
def test_how_long_it_takes(records: int | None, size: int | None, pace: ReplayPace, seconds: float | None) -> None:
    assert duration_s(gap_of(gap_range(records=records, size=size)), pace) == seconds


@pytest.mark.parametrize(
    ("left_ms", "kept_ms", "pace", "level", "says"),
    [
        # 50 records, 5.05 s.
        (3_600_000, 7_200_000, FAST, None, ""),
        (11_000, 7_200_000, FAST, None, ""),
        (9_000, 7_200_000, FAST, RiskLevel.WARNING, "in 9s; the replay needs about 5s"),
        (5_000, 7_200_000, FAST, RiskLevel.BLOCKED, "in 5s, before the replay can begin"),
        (-1, 7_200_000, FAST, RiskLevel.WARNING, "at any moment"),
        (3_600_000, 4_000, FAST, RiskLevel.BLOCKED, "keeps records for 4s, and the replay needs about 5s"),
        (3_600_000, None, FAST, None, ""),
        (3_600_000, 7_200_000, ReplayPace(None), RiskLevel.WARNING, "the time of the replay is unknown"),
        (None, 7_200_000, FAST, None, ""),
    ],
)
def test_retention(
    left_ms: int | None, kept_ms: int | None, pace: ReplayPace, level: RiskLevel | None, says: str
) -> None:
    deadline_ms = None if left_ms is None else NOW_MS + left_ms
    log = replace(LOG, retention=Retention(kept_ms))

    found = said(gap_of(gap_range(3, deadline_ms=deadline_ms)), "retention", pace, log=log)

    assert [risk.level for risk in found] == ([] if level is None else [level])
    assert all(says in risk.message and "orders:3" in risk.message for risk in found)
    assert all((risk.topic, risk.partition) == ("orders", 3) for risk in found)


def test_skew_is_said_as_the_screen_has_it() -> None:
    twelve = [gap_range(number, 0, 810_000) for number in range(11)] + [gap_range(11, 0, 870_244)]

    (risk,) = said(gap_of(*twelve), "skew")

    assert risk.message == "the largest partition is 9% of the gap (8% would be even)"
    assert said(gap_of(gap_range()), "skew") == []
    assert said(gap_of(gap_range(), gap_range(1, 120, 120)), "skew") == []


def test_the_gap_is_not_ordered_against_the_head() -> None:
    (risk,) = said(gap_of(gap_range()), "order")

    assert risk.level is RiskLevel.NOTE
    assert "NOT ordered against new records: svc processes new records" in risk.message
    assert said(gap_of(gap_range(), group=None), "order") == []
    assert said(gap_of(gap_range(start=120)), "order") == []


def test_what_may_come_twice() -> None:
    work = LastActivity(NOW_MS, {TopicPartition("orders", 0): LastCommit(NOW_MS - 1, 10.0)})
    gap = gap_of(gap_range(maybe=101), gap_range(1, maybe=70), gap_range(2, start=120))

    (risk,) = said(gap, "possible-duplicates", work=work)

    assert risk.message == (
        "Up to 31 records after the last commit (02:58:50Z) may be processed already. They have the header "
        "kgroup.maybe-processed."
    )
    assert [r.message[:50] for r in said(gap_of(gap_range(), gap_range(1)), "possible-duplicates")] == [
        "It is unknown how many records of 2 partitions wer"
    ]
    assert said(gap_of(gap_range(maybe=70)), "possible-duplicates") == []
    assert said(gap_of(gap_range(maybe=90), group=None), "possible-duplicates") == []


def test_what_is_gone_given_up_or_hidden_is_named() -> None:
    gap = replace(
        gap_of(gap_range()),
        already_deleted=(ExplainedRange("orders", 0, 50, 60, "the log starts at 60"),),
        abandoned=(ExplainedRange("orders", 0, 60, 61, SKIPPED),),
        release_point=ReleasePoint.UNTIL,
    )
    held = replace(LOG, high_watermark=126)

    found = risks(gap, {TopicPartition("orders", 0): held}, LastActivity(), replace(FAST, guessed=True), NOW_MS)

    assert [(risk.level, risk.code) for risk in found] == [
        (RiskLevel.WARNING, "already-deleted"),
        (RiskLevel.WARNING, "abandoned"),
        (RiskLevel.WARNING, "below-log-end"),
        (RiskLevel.NOTE, "order"),
        (RiskLevel.NOTE, "until"),
        (RiskLevel.NOTE, "possible-duplicates"),
        (RiskLevel.NOTE, "guess"),
    ]
    messages = {risk.code: risk.message for risk in found}
    assert messages["already-deleted"] == "orders:0: [50, 60) is already deleted (10 offsets): the log starts at 60"
    assert messages["abandoned"] == "orders:0: [60, 61) is abandoned (1 offset): --skip-before"
    assert "released at 120, 6 offsets below the log end" in messages["below-log-end"]


def test_what_blocks_comes_first() -> None:
    gap = gap_of(gap_range(0, deadline_ms=NOW_MS + 9_000), gap_range(1, deadline_ms=NOW_MS + 1_000))

    assert [risk.level for risk in risks(gap, {}, LastActivity(), FAST, NOW_MS)][:2] == [
        RiskLevel.BLOCKED,
        RiskLevel.WARNING,
    ]
