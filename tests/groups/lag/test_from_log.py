"""What a group's records tell for its verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from kgroup.groups.lag.evidence import GroupChurn, MemberFacts
from kgroup.groups.lag.from_log import from_log
from kgroup.groups.lag.open_commits import OpenCommit
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    RebalanceProtocol,
    ScannedRange,
    TransactionEnd,
)
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.history import T0, Log, member
from tests.helpers.cases.lag import MINUTE, NOW, group

WHOLE = ScannedRange(0, 100, NOW - 60 * MINUTE, 0, True)


def commit(
    ago: float, offset: int | None, ending: TransactionEnd = TransactionEnd.PLAIN, partition: int = 0
) -> CommitWritten:
    return CommitWritten(
        round(100 - ago), NOW - round(ago * MINUTE), "orders", partition, offset, "", None, None, ending
    )


def generation(ago: float, *names: str) -> GenerationWritten:
    members = tuple(
        GenerationMember(n, n if n == "kgroup-catchup" else None, n, "h", 45_000, 3_600_000, None, None) for n in names
    )
    return GenerationWritten(round(100 - ago), NOW - round(ago * MINUTE), 5, "consumer", None, None, None, members)


def epoch(ago: float) -> EpochWritten:
    return EpochWritten(round(100 - ago), NOW - round(ago * MINUTE), 5, None)


def joined(ago: float, name: str, *, left: bool = False) -> MemberWritten:
    details = MemberDetails(None, name, "h", frozenset(), None, 300_000, None)
    return MemberWritten(round(100 - ago), NOW - round(ago * MINUTE), name, None if left else details)


def holds(ago: int, name: str) -> MemberAssignmentWritten:
    return MemberAssignmentWritten(
        100 - ago, NOW - ago * MINUTE, name, MemberAssignment(5, True, frozenset(), frozenset())
    )


def test_commits_count_by_what_became_of_them() -> None:
    found = from_log(
        [
            commit(9, 1),
            commit(8, None),
            commit(7, 2),
            commit(6, 3, TransactionEnd.ABORTED),
            commit(5, None, TransactionEnd.OPEN),
            commit(4, 4, TransactionEnd.COMMITTED),
            commit(3, 9, partition=1),
            commit(2, None, partition=1),
        ],
        WHOLE,
        group([]),
        NOW,
    )

    assert {place: [c.offset for c in made] for place, made in found.commits.items()} == {("orders", 0): [2, 4]}


def test_commits_in_a_transaction_that_is_open() -> None:
    aborted = replace(commit(6, 3, TransactionEnd.ABORTED), producer_id=4711)
    opened = [replace(commit(ago, 7, TransactionEnd.OPEN), producer_id=4711) for ago in (5, 4)]

    found = from_log([commit(9, 1), aborted, *opened], WHOLE, group([]), NOW)

    assert found.open_commits == (OpenCommit(TopicPartition("orders", 0), 7, 4711, NOW - 5 * MINUTE),)


@pytest.mark.parametrize(
    ("reach", "since_ago"),
    [
        (WHOLE, 60),
        (ScannedRange(0, 100, NOW - 60 * MINUTE, 95, True), 4),
        (ScannedRange(0, 100, NOW - 60 * MINUTE, 99, True), None),
        (ScannedRange(0, 100, NOW - 60 * MINUTE, None, True), None),
    ],
)
def test_from_when_on_no_commit_is_missing(reach: ScannedRange, since_ago: int | None) -> None:
    found = from_log([commit(9, 1), commit(4, 2)], reach, group([]), NOW)

    assert found.read_since_ms == (None if since_ago is None else NOW - since_ago * MINUTE)


CLASSIC: list[Event] = [generation(9, "a", "b"), commit(8, 1), generation(7, "a")]
CONSUMER: list[Event] = [joined(9, "a"), epoch(8), holds(6, "a"), commit(5, 1)]


RELEASED: list[Event] = [
    generation(2, "kgroup-catchup"),
    replace(commit(1.5, 120), metadata="kgroup cu-7f3a 3 release 70"),
    generation(1),
]
"""A release, and a conversion to the other type: kgroup joins, and leaves."""
DELETED = GroupDeleted(98, NOW - 2 * MINUTE, RebalanceProtocol.CLASSIC)
TO_CONSUMER: list[Event] = [
    DELETED, joined(2, "kgroup-migrate-1"), holds(2, "kgroup-migrate-1"),
    joined(2, "kgroup-migrate-1", left=True), epoch(2),
]  # fmt: skip
TO_CLASSIC: list[Event] = [GroupDeleted(99, NOW - MINUTE, RebalanceProtocol.CONSUMER), generation(1)]


@pytest.mark.parametrize(
    ("events", "type_", "state", "since_ago"),
    [
        (CLASSIC, "classic", "Stable", 7),
        (CLASSIC, "classic", "PreparingRebalance", None),
        (CLASSIC, "classic", "Empty", None),
        ([*CLASSIC, generation(3)], "classic", "Empty", 3),
        ([*CLASSIC, generation(3)], "classic", "Stable", None),
        ([*CLASSIC, GroupDeleted(98, NOW, RebalanceProtocol.CLASSIC)], "classic", "Stable", None),
        (CONSUMER, "consumer", "Stable", 6),
        (CONSUMER, "consumer", "Reconciling", 8),
        ([*CONSUMER, joined(3, "a", left=True), epoch(3)], "consumer", "Empty", 3),
        ([], "classic", "Stable", None),
        ([], "classic", "Empty", None),
        ([*CLASSIC, generation(3), *RELEASED], "classic", "Empty", 3),  # kgroup's own member is no consumer
        ([*CLASSIC, *RELEASED], "classic", "Empty", 2),  # the consumers were gone when it joined
        (RELEASED, "classic", "Empty", None),
        (RELEASED[1:], "classic", "Empty", None),  # the commit of a release
        ([*CLASSIC, generation(3), *TO_CONSUMER], "consumer", "Empty", 3),
        (TO_CONSUMER, "consumer", "Empty", None),
        ([*CLASSIC, generation(3), *TO_CONSUMER, *TO_CLASSIC], "classic", "Empty", 3),
        ([*CLASSIC, generation(3), *TO_CONSUMER, joined(0.5, "a")], "consumer", "Empty", None),
        ([*CLASSIC, generation(3), *TO_CONSUMER, joined(0.5, "a"), joined(0.2, "a", left=True), epoch(0.2)],
         "consumer", "Empty", 0.2),
        ([*CLASSIC, generation(3), DELETED, commit(1, 1)], "classic", "Empty", None),
    ],
)  # fmt: skip
def test_since_when(events: Sequence[Event], type_: str, state: str, since_ago: int | None) -> None:
    found = from_log(events, WHOLE, group([], state=state, type=type_), NOW)

    assert found.state_since_ms == (None if since_ago is None else NOW - since_ago * MINUTE)


@pytest.mark.parametrize(
    ("events", "newest"),
    [
        ([generation(9, "a"), commit(8, 1), generation(7, "b"), commit(6, 2)], generation(7, "b")),
        (CLASSIC[1:2], None),
        ([*CLASSIC, DELETED, commit(1, 1)], None),
        ([*CLASSIC, DELETED, generation(1, "b")], generation(1, "b")),
    ],
)
def test_the_newest_generation(events: Sequence[Event], newest: GenerationWritten | None) -> None:
    assert from_log(events, WHOLE, group([]), NOW).generation == newest


@pytest.mark.parametrize(
    ("events", "type_", "ago"),
    [
        ([*CLASSIC, generation(3)], "classic", 3),
        ([*CLASSIC, generation(3), *RELEASED], "classic", 1),
        ([*CLASSIC, generation(3), *TO_CONSUMER], "consumer", 2),
        (CLASSIC, "classic", None),
        ([*CLASSIC, generation(3), DELETED], "classic", None),
        ([], "classic", None),
    ],
)
def test_the_broker_counts_from_the_last_record(events: Sequence[Event], type_: str, ago: int | None) -> None:
    """Its offsets expire that long after kgroup's own member has left."""
    found = from_log(events, WHOLE, group([], state="Empty", type=type_), NOW)

    assert found.emptied_record_ms == (None if ago is None else NOW - ago * MINUTE)


def test_the_settings_of_members() -> None:
    """Those of the newest generation; a group that is Empty has none."""
    read = from_log([generation(5, "a")], WHOLE, group([]), NOW)

    assert read.members == {"a": MemberFacts(3_600_000, 45_000)}
    assert from_log([generation(5, "a"), generation(3)], WHOLE, group([], state="Empty"), NOW).members == {}


RELEASE = "kgroup cu-7f3a 3 release 70"
PART = ScannedRange(0, 100, NOW - 60 * MINUTE, 0, False)


def made_at(ago: int, offset: int, *, metadata: str = "", epoch: int | None = None) -> CommitWritten:
    return replace(commit(ago, offset), metadata=metadata, leader_epoch=epoch)


@pytest.mark.parametrize(
    ("events", "type_", "state", "reach", "tools"),
    [
        # Members commit, leave, and a reset follows; it is no reading, also after they are back.
        ([generation(9, "a"), commit(8, 1), commit(7, 2), generation(6), commit(5, 9)], "classic", "Empty", PART, [9]),
        ([generation(9, "a"), commit(8, 1), generation(6), commit(5, 9), generation(4, "a"), commit(3, 10)],
         "classic", "Stable", PART, [9]),
        ([joined(9, "a"), epoch(9), commit(8, 1), joined(6, "a", left=True), epoch(6), commit(5, 9)],
         "consumer", "Empty", PART, [9]),
        # The runner of a catch-up commits as the only member: its mark says so.
        ([generation(9, "kgroup-catchup"), made_at(8, 120, metadata=RELEASE), generation(7)],
         "classic", "Empty", PART, [120]),
        ([generation(9, "a"), made_at(8, 120, metadata="kgroup is nice")], "classic", "Stable", PART, []),
        # A group that never had members, or has had none for longer than the log was read.
        ([commit(9, 1), commit(5, 9)], "classic", "Empty", PART, [1, 9]),
        ([commit(9, 1)], "classic", "Empty", WHOLE, [1]),
        ([commit(9, 1)], "classic", "Stable", PART, []),
        # assign(): again and again, or twice with a leader epoch, which administrators do not send.
        ([commit(9, 1), commit(8, 2), commit(7, 3)], "classic", "Empty", PART, []),
        ([made_at(9, 1, epoch=4), made_at(8, 2, epoch=4)], "classic", "Empty", PART, []),
        ([generation(9, "a"), generation(6), commit(5, 1), commit(4, 2), commit(3, 3)], "classic", "Empty", PART, []),
        # A reset, its undo and another reset are none.
        ([commit(9, 5), commit(8, 9), commit(7, 5)], "classic", "Empty", PART, [5, 9, 5]),
        # A producer's transaction is an application's.
        ([replace(commit(9, 1, TransactionEnd.COMMITTED), producer_id=7)], "classic", "Empty", PART, []),
        # Deleted, and created again by a reset.
        ([generation(9, "a"), commit(8, 1), GroupDeleted(95, NOW - 5 * MINUTE, RebalanceProtocol.CLASSIC),
          commit(4, 9)], "classic", "Empty", PART, [9]),
    ],
)  # fmt: skip
def test_commits_that_no_consumer_made(
    events: Sequence[Event], type_: str, state: str, reach: ScannedRange, tools: list[int]
) -> None:
    found = from_log(events, reach, group([], state=state, type=type_), NOW)

    made = found.commits.get(TopicPartition("orders", 0), ())
    assert [each.offset for each in made if each.by_tool] == tools


@pytest.mark.parametrize(
    ("events", "churn"),
    [
        ([generation(9, "a")], None),
        ([generation(9, "a"), commit(8, 1)], GroupChurn(0, 0)),
        (
            [
                generation(9, "a"),
                commit(8, 1),
                generation(7, "a"),
                generation(6),
                generation(4, "a"),
                generation(3, "a"),
            ],
            GroupChurn(3, 3 * MINUTE),
        ),
        ([commit(8, 1), epoch(5), epoch(1)], GroupChurn(2, 4 * MINUTE)),
    ],
)
def test_churn(events: Sequence[Event], churn: GroupChurn | None) -> None:
    assert from_log(events, WHOLE, group([]), NOW).churn == churn


def consumer_protocol() -> Log:
    log = Log().at(0).member("a").member("b").epoch(1).at(5).left("a").epoch(2).at(9).left("b").epoch(3)
    return log.at(12).member("a").epoch(4).at(20).left("a").epoch(5)


@pytest.mark.parametrize(
    ("write", "seconds"),
    [
        (lambda: Log().at(0).generation(1, member("a", 0)).at(5).generation(2).at(6).generation(3), (5,)),
        (lambda: Log().at(0).generation(1, member("kgroup-migrate-1")).at(5).generation(2), ()),
        (consumer_protocol, (9, 20)),
        (lambda: Log().at(0).generation(1, member("a")).at(5).gone(RebalanceProtocol.CLASSIC).at(6).generation(1), ()),
    ],
)  # fmt: skip
def test_when_the_last_member_left(write: Callable[[], Log], seconds: tuple[int, ...]) -> None:
    log = write()

    for state, expected in (("Empty", seconds), ("Stable", ())):
        facts = from_log(log.events, log.reach(), group([], state=state), log.now_ms)
        assert facts.emptied_ms == tuple(T0 + at * 1000 for at in expected)
