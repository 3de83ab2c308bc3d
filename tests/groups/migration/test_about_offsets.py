"""That commits outlive a conversion."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.migration import about_offsets
from kgroup.groups.migration.check import CheckStatus
from kgroup.groups.migration.evidence import MigrationEvidence
from kgroup.model.groups import Partition
from kgroup.model.migration_facts import Access, GroupPast
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.migration import (
    DAY_MS,
    EMPTY,
    EMPTY_CONSUMER,
    HOUR_MS,
    LIVE,
    TO_CLASSIC,
    TO_CONSUMER,
    broker,
    case,
    group,
    past,
)


def aged(age_ms: int, *, commits: int = 2) -> MigrationEvidence:
    return replace(EMPTY, past=past(age_ms=age_ms, commits=commits))


MINUTE = broker(aged(75_000), offsets_retention_ms=60_000)
UNREADABLE = replace(
    EMPTY,
    group=replace(
        group(commits=0), partitions=(Partition(TopicPartition("orders", 0), None, None, None, "not-authorized"),)
    ),
)


@pytest.mark.parametrize(
    ("evidence", "status", "said"),
    [
        (EMPTY, CheckStatus.OK, "the first would expire at 2026-11-25 "),
        (aged(5 * DAY_MS), CheckStatus.OK, "commits all of them again"),
        (
            aged(7 * DAY_MS - HOUR_MS),
            CheckStatus.INFO,
            "2 of 2 commits would expire within 1d of the conversion, the first",
        ),
        (aged(9 * DAY_MS), CheckStatus.INFO, "of the conversion, at once; kgroup commits all of them again"),
        (MINUTE, CheckStatus.INFO, "2 of 2 commits would expire within 30s of the conversion, at once"),
        (broker(aged(10_000), offsets_retention_ms=60_000), CheckStatus.OK, "the first would expire"),
        (replace(EMPTY, group=group(commits=0)), CheckStatus.WARNING, "no commits"),
        (UNREADABLE, CheckStatus.UNKNOWN, "could not be read: orders:0"),
        (replace(EMPTY, past=None), CheckStatus.UNKNOWN, "commits all of them again"),
        (replace(EMPTY, past=GroupPast()), CheckStatus.UNKNOWN, "commits all of them again"),
        (broker(EMPTY, offsets_retention_ms=None), CheckStatus.UNKNOWN, "how long they are kept"),
    ],
)
def test_offsets_expiry(evidence: MigrationEvidence, status: CheckStatus, said: str) -> None:
    check = about_offsets.offsets_expiry(case(evidence))

    assert check is not None
    assert check.status is status, check.evidence
    assert said in check.evidence
    assert (check.brief == "no commits") is (status is CheckStatus.WARNING)


def test_the_same_hazard_waits_on_the_way_back() -> None:
    """A group that was turned classic is a simple one until somebody joins: commits count from their own time."""
    old = replace(EMPTY_CONSUMER, past=past(age_ms=9 * DAY_MS))

    check = about_offsets.offsets_expiry(case(old, TO_CLASSIC))

    assert check is not None
    assert check.status is CheckStatus.INFO


def test_a_live_groups_offsets_do_not_expire() -> None:
    assert about_offsets.offsets_expiry(case(LIVE, TO_CONSUMER)) is None


@pytest.mark.parametrize(
    ("evidence", "gone", "status", "brief"),
    [
        (EMPTY, (), CheckStatus.OK, None),
        (EMPTY, ("audit",), CheckStatus.WARNING, "topic audit is gone"),
        (EMPTY, ("audit", "old"), CheckStatus.WARNING, "2 topics are gone"),
        (LIVE, ("audit",), CheckStatus.INFO, None),
    ],
)
def test_gone_topics(
    evidence: MigrationEvidence, gone: tuple[str, ...], status: CheckStatus, brief: str | None
) -> None:
    check = about_offsets.gone_topics(case(replace(evidence, gone=gone)))

    assert check is not None
    assert (check.status, check.brief) == (status, brief)


@pytest.mark.parametrize(
    ("evidence", "pending", "status"),
    [
        (EMPTY, (), CheckStatus.OK),
        (EMPTY, (("orders", 1), ("orders", 0)), CheckStatus.BLOCKED),
        # An application that commits in transactions has one open all the time.
        (LIVE, (("orders", 0),), CheckStatus.INFO),
        (LIVE, (), CheckStatus.OK),
        # The first commit of a partition is shown by no request while it is pending.
        (replace(EMPTY, group=group(commits=0)), (), CheckStatus.UNKNOWN),
        (replace(EMPTY, group=group(commits=0)), (("orders", 0),), CheckStatus.BLOCKED),
        (replace(LIVE, group=replace(LIVE.group, partitions=())), (), CheckStatus.OK),
    ],
)
def test_pending_transactions(
    evidence: MigrationEvidence, pending: tuple[TopicPartition, ...], status: CheckStatus
) -> None:
    check = about_offsets.pending_transactions(case(replace(evidence, pending=pending)))

    assert check is not None
    assert check.status is status


def test_pending_partitions_are_named_in_order() -> None:
    pending = (TopicPartition("orders", 1), TopicPartition("orders", 0))

    check = about_offsets.pending_transactions(case(replace(EMPTY, pending=pending)))

    assert check is not None
    assert check.evidence == "an open transaction is about to commit 2 partitions: orders:0, orders:1"


RULED = replace(EMPTY, access=Access(authorizer=True), may_hide=True)
UNTOLD = replace(EMPTY, access=None, may_hide=None)
UNSEEN = replace(past(), hidden=(TopicPartition("secret", 1), TopicPartition("secret", 0), TopicPartition("audit", 0)))


@pytest.mark.parametrize(
    ("evidence", "status", "said"),
    [
        (EMPTY, CheckStatus.OK, "this user may see all topics"),
        (replace(EMPTY, past=None), CheckStatus.OK, "this user may see all topics"),
        (RULED, CheckStatus.WARNING, "are hidden"),
        (replace(RULED, past=None), CheckStatus.WARNING, "are hidden"),
        (replace(RULED, past=GroupPast()), CheckStatus.WARNING, "are hidden"),
        (UNTOLD, CheckStatus.UNKNOWN, "are hidden"),
        (
            replace(RULED, past=replace(past(), searched=True)),
            CheckStatus.OK,
            "none in __consumer_offsets",
        ),
        (
            replace(UNTOLD, past=replace(past(), searched=True)),
            CheckStatus.OK,
            "none in __consumer_offsets",
        ),
        (
            replace(RULED, past=replace(UNSEEN, searched=True)),
            CheckStatus.BLOCKED,
            "3 commits on audit, secret",
        ),
        (replace(RULED, past=UNSEEN), CheckStatus.BLOCKED, "3 commits on audit, secret"),
        (replace(UNTOLD, past=UNSEEN), CheckStatus.BLOCKED, "3 commits on audit, secret"),
        (
            replace(RULED, past=replace(UNSEEN, complete=False)),
            CheckStatus.BLOCKED,
            "3 commits on audit, secret",
        ),
        (
            replace(RULED, past=replace(past(), hidden=(TopicPartition("secret", 0),))),
            CheckStatus.BLOCKED,
            "1 commit on secret",
        ),
    ],
)
def test_hidden_commits(evidence: MigrationEvidence, status: CheckStatus, said: str) -> None:
    """They could not be made again, and would expire: the log tells of them, or nobody."""
    check = about_offsets.hidden_commits(case(evidence))

    assert check is not None
    assert check.status is status
    assert said in check.evidence
    if status is CheckStatus.BLOCKED:
        assert "Describe" in str(check.remedy)
        assert check.brief in ("no DESCRIBE on audit", "no DESCRIBE on secret")


def test_hidden_commits_of_a_live_group_are_its_own() -> None:
    """Its members commit again what they read."""
    assert about_offsets.hidden_commits(case(replace(LIVE, past=UNSEEN))) is None


def test_hidden_commits_block_the_way_back_too() -> None:
    check = about_offsets.hidden_commits(case(replace(EMPTY_CONSUMER, past=UNSEEN), TO_CLASSIC))

    assert check is not None
    assert check.status is CheckStatus.BLOCKED
