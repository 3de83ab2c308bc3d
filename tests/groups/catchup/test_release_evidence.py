"""What the history of a group's commits says of a release that broke off."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.model import ExplainedRange
from kgroup.groups.catchup.release_evidence import (
    OffsetRewind,
    ReleaseEvidence,
    ReleaseHistory,
    find_evidence,
    find_rewinds,
    move_back_target,
)
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.group_log import CommitWritten, TransactionEnd
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.catchup.plans import OWN, PLAN_ID, gap_range, make_plan, rewind

HERE = TopicPartition("orders", 0)
RELEASE = CatchupCommitTag(PLAN_ID, 1, TagPurpose.RELEASE).metadata
BACK = CatchupCommitTag(PLAN_ID, 2, TagPurpose.BACK).metadata
ANOTHERS = CatchupCommitTag("cu-2222", 1, TagPurpose.RELEASE).metadata

RELEASED, NOT_RELEASED = ReleaseEvidence.RELEASED, ReleaseEvidence.NOT_RELEASED
CONTINUED, UNKNOWN, DELETED = ReleaseEvidence.CONTINUED, ReleaseEvidence.UNKNOWN, ReleaseEvidence.DELETED


def history(*rows: tuple[int | None, str], compacted: bool = False, unread: str | None = None) -> ReleaseHistory:
    """Commits of one partition: offset and metadata."""
    commits = tuple(
        CommitWritten(500 + number, 1_000 + number, "orders", 0, offset, metadata, None, None, TransactionEnd.PLAIN)
        for number, (offset, metadata) in enumerate(rows)
    )
    return ReleaseHistory(commits, compacted, unread)


def found(
    past: ReleaseHistory, now: Commit | None, *, live: bool = False, assumed: bool | None = None
) -> ReleaseEvidence:
    assumption = None if assumed is None else {HERE: assumed}
    return find_evidence(make_plan(), past, {HERE: now}, live=live, assumed=assumption)[HERE]


@pytest.mark.parametrize(
    ("past", "now", "live", "evidence"),
    [
        # The last own commit is a release, whatever came after it.
        (history((120, RELEASE)), Commit(120, 4, RELEASE), False, RELEASED),
        (history((120, RELEASE)), Commit(120, 4, RELEASE), True, RELEASED),
        (history((120, RELEASE), (125, "")), Commit(125, 4, ""), True, RELEASED),
        (history((120, RELEASE), (70, "")), Commit(70, 4, ""), False, RELEASED),
        (history((120, RELEASE), (None, "")), None, False, RELEASED),
        (history((70, BACK), (120, RELEASE)), Commit(120, 4, RELEASE), False, RELEASED),
        # None of ours, and it stands as it did.
        (history(), OWN, False, NOT_RELEASED),
        (history((70, "again")), Commit(70, None, "again"), False, NOT_RELEASED),
        (history((75, ""), (70, "")), Commit(70, None, ""), False, NOT_RELEASED),
        # The same, and somebody goes on from there.
        (history(), OWN, True, CONTINUED),
        (history((75, "")), Commit(75, 4, ""), True, CONTINUED),
        (history((75, "")), Commit(75, 4, ""), False, CONTINUED),
        # It got to the end by itself: that committed equals the end proves nothing.
        (history((100, ""), (120, "")), Commit(120, 4, ""), False, CONTINUED),
        # Its commit was deleted, so that nobody knows where it goes on; there was none before, and there is none.
        (history((None, "")), None, False, DELETED),
        (history((None, "")), None, True, DELETED),
        (history((120, RELEASE), (70, BACK), (None, "")), None, False, DELETED),
        # A move-back.
        (history((120, RELEASE), (70, BACK)), Commit(70, 3, BACK), False, NOT_RELEASED),
        (history((120, RELEASE), (70, BACK), (70, OWN.metadata)), OWN, False, NOT_RELEASED),
        (history((120, RELEASE), (70, BACK), (70, OWN.metadata)), OWN, True, CONTINUED),
        (history((120, RELEASE), (90, BACK)), Commit(90, 3, BACK), False, CONTINUED),
        # Another plan's commits are somebody's.
        (history((120, ANOTHERS)), Commit(120, 4, ANOTHERS), False, CONTINUED),
    ],
)
def test_what_the_history_says(past: ReleaseHistory, now: Commit | None, live: bool, evidence: ReleaseEvidence) -> None:
    assert found(past, now, live=live) is evidence


@pytest.mark.parametrize(
    ("past", "now", "live", "evidence"),
    [
        # The member that made the plan may be about to commit: only its successor, or an Empty group, shows otherwise.
        (history(), OWN, True, ReleaseEvidence.IN_DOUBT),
        (history(), OWN, False, NOT_RELEASED),
        (history((75, "")), Commit(75, 4, ""), True, CONTINUED),
        (history((120, RELEASE), (130, "")), Commit(130, 4, ""), True, RELEASED),
        # confluent-kafka ends metadata so.
        (history((120, RELEASE + "\0")), Commit(120, 4, RELEASE + "\0"), True, RELEASED),
    ],
)
def test_a_plan_of_a_member(past: ReleaseHistory, now: Commit, live: bool, evidence: ReleaseEvidence) -> None:
    plan = replace(make_plan(), by_member=True)

    assert find_evidence(plan, past, {HERE: now}, live=live)[HERE] is evidence


@pytest.mark.parametrize(
    ("past", "now", "evidence"),
    [
        (history(unread="not authorized"), Commit(120, 4, ""), UNKNOWN),
        (history(unread="not authorized"), OWN, UNKNOWN),
        # What was read before it broke off may be overtaken by what was not.
        (history((120, RELEASE), unread="timed out"), Commit(70, 4, ""), UNKNOWN),
        # The commit that stands is the last one of all: our own needs no history.
        (history(unread="not authorized"), Commit(120, 4, RELEASE), RELEASED),
        (history(unread="not authorized"), Commit(70, 4, BACK), NOT_RELEASED),
        (history(unread="not authorized"), Commit(120, 4, ANOTHERS), UNKNOWN),
        # Compaction keeps the newest commit of each partition, so none at all is none since.
        (history(compacted=True), OWN, NOT_RELEASED),
        # ... but for a commit that was deleted, or expired, and whose tombstone is gone as well.
        (history(compacted=True), None, UNKNOWN),
        (history(compacted=True), Commit(125, 4, ""), UNKNOWN),
        (history((125, ""), compacted=True), Commit(125, 4, ""), UNKNOWN),
        (history((70, ""), compacted=True), Commit(70, None, ""), UNKNOWN),
        (history((120, RELEASE), (125, ""), compacted=True), Commit(125, 4, ""), RELEASED),
        (history((70, BACK), (75, ""), compacted=True), Commit(75, 4, ""), CONTINUED),
    ],
)
def test_a_history_with_holes_is_believed_only_where_they_do_not_matter(
    past: ReleaseHistory, now: Commit | None, evidence: ReleaseEvidence
) -> None:
    assert found(past, now) is evidence


@pytest.mark.parametrize(
    ("past", "now", "assumed", "evidence"),
    [
        (history(unread="gone"), Commit(120, 4, ""), True, RELEASED),
        (history(unread="gone"), Commit(120, 4, ""), False, CONTINUED),
        (history(unread="gone"), OWN, False, NOT_RELEASED),
        # What is known is not assumed away.
        (history((120, RELEASE)), Commit(120, 4, ""), False, RELEASED),
        (history(), OWN, True, NOT_RELEASED),
    ],
)
def test_what_the_user_assumes_counts_where_nothing_is_known(
    past: ReleaseHistory, now: Commit | None, assumed: bool, evidence: ReleaseEvidence
) -> None:
    assert found(past, now, assumed=assumed) is evidence


def test_each_partition_for_itself() -> None:
    plan = make_plan(gap_range(0), gap_range(1), gap_range(2, before=None), gap_range(3, 90, 120))
    commits = (
        CommitWritten(1, 1, "orders", 0, 120, RELEASE, None, None, TransactionEnd.PLAIN, 4),
        CommitWritten(2, 2, "audit", 1, 120, RELEASE, None, None, TransactionEnd.PLAIN, 4),
    )
    now = {
        TopicPartition("orders", 0): Commit(120, 4, RELEASE),
        TopicPartition("orders", 1): OWN,
        TopicPartition("orders", 3): OWN,
    }

    assert list(find_evidence(plan, ReleaseHistory(commits), now, live=False).values()) == [
        RELEASED,
        NOT_RELEASED,
        NOT_RELEASED,  # there was no commit, and there is none
        NOT_RELEASED,  # 70 was given up to 90, and it stands at 70
    ]


@pytest.mark.parametrize(
    ("past", "row"),
    [
        (history(), None),
        (history((120, RELEASE), (125, ""), (121, "")), None),
        (history((120, RELEASE), (120, "")), None),
        (history((100, ""), (120, RELEASE)), None),
        (history((120, RELEASE), (100, ""), (110, ""), (125, "")), rewind(100, 1_001)),
        (history((120, RELEASE), (110, ""), (5, "")), rewind(70, 1_001)),
        (history((120, RELEASE), (70, BACK), (75, "")), None),
        (history((None, ""), (120, RELEASE)), None),
        # Deleted: where it goes on is not known, from the start it may be.
        (history((120, RELEASE), (None, "")), rewind(70, 1_001, deleted=True)),
        (history((120, RELEASE), (None, ""), (118, "")), rewind(70, 1_001, deleted=True)),
        (
            history((120, RELEASE), (130, ""), (None, ""), (131, "")),
            rewind(70, 1_002, deleted=True),
        ),
    ],
)
def test_who_set_the_group_back_after_the_release(past: ReleaseHistory, row: OffsetRewind | None) -> None:
    assert find_rewinds(make_plan(), past) == (() if row is None else (row,))


@pytest.mark.parametrize(
    ("start", "before", "abandoned", "expected"),
    [
        (70, OWN, [], 70),
        (70, None, [], 70),
        (90, OWN, [(70, 90)], 70),
        (90, OWN, [(80, 90)], 80),
        (90, OWN, [], 90),
        (90, OWN, [(70, 80), (80, 90)], 70),
        (90, OWN, [(70, 85)], 90),
        (90, OWN, [(60, 90)], 90),
        (90, None, [(0, 90)], 90),
    ],
)
def test_where_an_untouched_partition_goes_back_to(
    start: int, before: Commit | None, abandoned: list[tuple[int, int]], expected: int
) -> None:
    item = gap_range(0, start, 120, before)
    rows = tuple(ExplainedRange("orders", 0, *span, "--skip-before") for span in abandoned)
    plan = make_plan(item, abandoned=(*rows, ExplainedRange("orders", 1, 0, start, "another")))

    assert move_back_target(plan, item) == expected
