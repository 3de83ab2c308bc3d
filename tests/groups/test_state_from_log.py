"""What a group was at a moment, from its records: state, members, commits; and what the log can no longer tell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kgroup.groups.state_from_log import LoggedState, log_line, state_at
from kgroup.groups.undo_plan import as_of_rows
from kgroup.model.commit import Commit
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
    TargetEpochWritten,
    TargetWritten,
    Topology,
    TopologyWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.groups import LEFT_TEMPORARILY, LogRange, RowError, TopicPartitions
from kgroup.model.streams_group import Subtopology
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode, NotFound
from tests.helpers.cases.history import Log, of

WHOLE = ScannedRange(0, 1000, 1, 0, to_log_start=True)
COMPACTED = ScannedRange(0, 1000, 1, 900, to_log_start=True)
STOPPED = ScannedRange(500, 1000, 1, 500, to_log_start=False, stopped="the 1 s limit was reached")
ORDERS = TopicPartition("orders", 0)


def commit(
    at: int, offset: int | None, partition: int = 0, ending: TransactionEnd = TransactionEnd.PLAIN, **other: Any
) -> CommitWritten:
    """A commit at log offset ``at``, made ``at`` ms after 1970."""
    producer = None if ending is TransactionEnd.PLAIN else 7
    made = CommitWritten(at, at, "orders", partition, offset, f"m{offset}", None, producer, ending, 3)
    return replace(made, **other)


def generation(at: int, number: int, *members: str) -> GenerationWritten:
    return GenerationWritten(
        at,
        at,
        number,
        "consumer",
        "range" if members else None,
        members[0] if members else None,
        at,
        tuple(
            GenerationMember(
                name,
                None,
                name,
                "10.0.0.1",
                10_000,
                300_000,
                frozenset({"orders"}),
                frozenset({TopicPartition("orders", index)}),
            )
            for index, name in enumerate(members)
        ),
    )


def joined(at: int, member_id: str, **other: Any) -> MemberWritten:
    details = MemberDetails(None, member_id, "10.0.0.1", frozenset({"orders"}), None, 300_000, None)
    return MemberWritten(at, at, member_id, replace(details, **other))


def has(at: int, member_id: str, epoch: int, *partitions: int, stable: bool = True) -> MemberAssignmentWritten:
    held = frozenset(TopicPartition("orders", number) for number in partitions)
    return MemberAssignmentWritten(at, at, member_id, MemberAssignment(epoch, stable, held, frozenset()))


def target(at: int, member_id: str, *partitions: int) -> TargetWritten:
    return TargetWritten(at, at, member_id, frozenset(TopicPartition("orders", number) for number in partitions))


def foreign(at: int, type_: str, *, exists: bool = True) -> Event:
    protocol = RebalanceProtocol(type_)
    return EpochWritten(at, at, 3, None, protocol, 1) if exists else GroupDeleted(at, at, protocol)


def topology(at: int, epoch: int) -> TopologyWritten:
    return TopologyWritten(at, at, Topology(epoch, (Subtopology("0", ("orders",)),)))


def at_end(*events: Event, reach: ScannedRange = WHOLE) -> LoggedState:
    found = state_at("svc", events, reach)
    assert found is not None
    return found


def commits(state: LoggedState | None) -> dict[int, int]:
    assert state is not None
    return {number: found.offset for (_, number), found in state.commits.items()}


# What the group is


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], None),
        ([commit(1, 5)], ("classic", "Empty", "", None, None)),
        ([commit(1, 5), commit(2, None)], None),
        ([generation(1, 4)], ("classic", "Empty", "consumer", 4, None)),
        ([generation(1, 4), generation(2, 5, "a", "b")], ("classic", "Stable", "consumer", 5, None)),
        # Deleted: its offsets have gone with it, though their own tombstones may have been missed.
        ([commit(1, 5), generation(2, 4), GroupDeleted(3, 3, RebalanceProtocol.CLASSIC)], None),
        (
            [commit(1, 5), GroupDeleted(2, 2, RebalanceProtocol.CLASSIC), commit(3, 6)],
            ("classic", "Empty", "", None, None),
        ),
        # Converted: the other type's record stands behind the tombstone, and the commits stay.
        (
            [
                generation(1, 4),
                commit(2, 5),
                GroupDeleted(3, 3, RebalanceProtocol.CLASSIC),
                EpochWritten(4, 4, 5, None),
            ],
            ("consumer", "Empty", "consumer", None, 5),
        ),
        (
            [
                EpochWritten(1, 1, 9, None),
                commit(2, 5),
                GroupDeleted(3, 3, RebalanceProtocol.CONSUMER),
                generation(4, 10, "a"),
            ],
            ("classic", "Stable", "consumer", 10, None),
        ),
        ([EpochWritten(1, 1, 2, None), joined(2, "a")], ("consumer", "Assigning", "consumer", None, 2)),
        (
            [joined(1, "a"), EpochWritten(2, 2, 3, None), TargetEpochWritten(3, 3, 2)],
            ("consumer", "Assigning", "consumer", None, 3),
        ),
        (
            [joined(1, "a"), EpochWritten(2, 2, 3, None), TargetEpochWritten(3, 3, 3), has(4, "a", 2)],
            ("consumer", "Reconciling", "consumer", None, 3),
        ),
        (
            [joined(1, "a"), EpochWritten(2, 2, 3, None), TargetEpochWritten(3, 3, 3), has(4, "a", 3)],
            ("consumer", "Stable", "consumer", None, 3),
        ),
        (
            [joined(1, "a"), EpochWritten(2, 2, 3, None), TargetEpochWritten(3, 3, 3), has(4, "a", 3, stable=False)],
            ("consumer", "Reconciling", "consumer", None, 3),
        ),
        (
            [joined(1, "a"), EpochWritten(2, 2, 3, None), MemberWritten(3, 3, "a", None), EpochWritten(4, 4, 4, None)],
            ("consumer", "Empty", "consumer", None, 4),
        ),
        # A share group with members is Stable, whatever they have; a streams group needs topics for its topology.
        ([foreign(1, "share")], ("share", "Empty", "share", None, 3)),
        ([joined(1, "a"), foreign(2, "share")], ("share", "Stable", "share", None, 3)),
        ([foreign(1, "streams"), commit(2, 5), foreign(3, "streams")], ("streams", "Empty", "streams", None, 3)),
        ([commit(1, 5), joined(2, "a"), foreign(3, "streams")], ("streams", "NotReady", "streams", None, 3)),
        ([joined(1, "a"), topology(2, 2), foreign(3, "streams")], ("streams", "NotReady", "streams", None, 3)),
        ([joined(1, "a"), topology(2, 1), foreign(3, "streams")], ("streams", "Assigning", "streams", None, 3)),
        (
            [joined(1, "a"), topology(2, 1), foreign(3, "streams"), TargetEpochWritten(4, 4, 3), has(5, "a", 3)],
            ("streams", "Stable", "streams", None, 3),
        ),
        (
            [generation(1, 4), commit(2, 5), GroupDeleted(3, 3, RebalanceProtocol.CLASSIC), foreign(3, "streams")],
            ("streams", "Empty", "streams", None, 3),
        ),
        # What cannot be decoded keeps its type.
        ([generation(1, 4), Unreadable(2, 2, "version 9", 17)], ("streams", None, None, None, None)),
        ([foreign(1, "share"), Unreadable(2, 2, "version 9", 11)], ("share", None, None, None, None)),
        ([Unreadable(1, 1, "version 9", 11), foreign(2, "share")], ("share", "Empty", "share", None, 3)),
        (
            [Unreadable(1, 1, "version 9", 17), foreign(2, "streams", exists=False), generation(3, 1, "a")],
            ("classic", "Stable", "consumer", 1, None),
        ),
        (
            [foreign(1, "streams"), commit(2, 5), foreign(3, "streams", exists=False), generation(4, 1, "a")],
            ("classic", "Stable", "consumer", 1, None),
        ),
        ([foreign(1, "streams"), commit(2, 5), foreign(3, "streams", exists=False)], None),
        ([foreign(1, "share"), foreign(2, "share", exists=False)], None),
    ],
)
def test_what_a_group_is(events: list[Event], expected: tuple[object, ...] | None) -> None:
    found = state_at("svc", events, WHOLE)

    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.type, found.state, found.protocol_type, found.generation, found.group_epoch) == expected


@pytest.mark.parametrize(("type_", "assigned"), [("share", True), ("streams", False)])
def test_tasks_are_no_partitions(type_: str, assigned: bool) -> None:
    found = at_end(joined(1, "a"), topology(2, 1), foreign(3, type_), target(4, "a", 0), has(5, "a", 3, 0))

    (member,) = found.members
    assert (member.protocol, member.assignment is not None, member.target is not None) == (type_, assigned, assigned)


@pytest.mark.parametrize(
    ("events", "at_ms", "type_"),
    [
        # Compaction has left the newest record of each key alone: a group that was of consumers has left its end too.
        ([commit(5, 5), foreign(50, "streams")], 10, "streams"),
        ([commit(5, 5), GroupDeleted(49, 49, RebalanceProtocol.CLASSIC), foreign(50, "streams")], 10, None),
        ([commit(5, 5), foreign(50, "streams", exists=False)], 10, None),
        ([generation(4, 1), commit(5, 5), foreign(50, "streams")], 10, "classic"),
        ([foreign(4, "streams"), commit(5, 5), foreign(50, "streams", exists=False), generation(51, 1)], 10, "streams"),
        ([commit(5, 5), generation(50, 2)], 10, None),
    ],
)
def test_what_a_group_was(events: list[Event], at_ms: int, type_: str | None) -> None:
    found = state_at("svc", events, COMPACTED, at_ms)
    assert found is not None
    assert (found.type, commits(found)) == (type_, {0: 5})


def test_members_of_a_classic_group() -> None:
    (one, other) = at_end(generation(1, 5, "a", "b")).members

    assert (one.member_id, one.protocol, one.subscription, one.epoch) == ("a", "classic", ("orders",), None)
    assert (one.assignment, other.assignment) == (
        (TopicPartitions("orders", (0,)),),
        (TopicPartitions("orders", (1,)),),
    )
    assert at_end(generation(1, 5, "a")).leader == "a"


def test_members_of_a_consumer_group() -> None:
    state = at_end(
        EpochWritten(1, 1, 3, None),
        joined(2, "a", instance_id="static-a", pattern="ord.*"),
        joined(3, "old", classic_session_ms=45_000),
        joined(4, "gone"),
        target(5, "a", 0, 1),
        TargetEpochWritten(6, 6, 3),
        MemberAssignmentWritten(
            7,
            7,
            "a",
            MemberAssignment(
                LEFT_TEMPORARILY,
                True,
                frozenset({TopicPartition("orders", 0)}),
                frozenset({TopicPartition("clicks", 2)}),
            ),
        ),
        target(8, "gone", 2),
        MemberWritten(9, 9, "gone", None),
    )

    assert [member.member_id for member in state.members] == ["a", "old"]
    a, old = state.members
    assert (a.instance_id, a.epoch, a.protocol, a.subscription_regex) == ("static-a", -2, "consumer", "ord.*")
    # What it still has to give back is its own as long as it has not.
    assert a.assignment == (TopicPartitions("clicks", (2,)), TopicPartitions("orders", (0,)))
    assert a.target_assignment == (TopicPartitions("orders", (0, 1)),)
    assert (old.protocol, old.epoch, old.assignment, old.target_assignment) == ("classic", None, None, None)
    assert state.assignment_epoch == 3


# Its commits


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([commit(1, 5), commit(2, 6), commit(3, 1, partition=2)], {0: 6, 2: 1}),
        ([commit(1, 5), commit(2, None), commit(3, 1, partition=2)], {2: 1}),
        ([commit(1, 5), commit(2, 9, ending=TransactionEnd.ABORTED)], {0: 5}),
        ([commit(1, 5), commit(2, 9, ending=TransactionEnd.OPEN)], {0: 5}),
        ([commit(1, 5), commit(2, 9, ending=TransactionEnd.COMMITTED, ended_ms=8)], {0: 9}),
        # The broker keeps the one that stands later in the log, whenever its transaction ended.
        ([commit(1, 9, ending=TransactionEnd.COMMITTED, ended_ms=8), commit(2, 5)], {0: 5}),
    ],
)
def test_commits_at_the_end_of_the_log(events: list[Event], expected: dict[int, int]) -> None:
    assert commits(state_at("svc", events, COMPACTED)) == expected


def test_a_commit_is_kept_byte_for_byte_with_its_age() -> None:
    stood = at_end(commit(4, 5, topic_id="abc")).partitions[ORDERS]

    assert (stood.commit, stood.at_ms, stood.topic_id) == (Commit(5, 3, "m5"), 4, "abc")


@pytest.mark.parametrize(
    ("events", "reach", "expected"),
    [
        # (offset, None where there was no commit, or what is said of it)
        ([commit(10, 5), commit(30, 6)], WHOLE, 5),
        ([commit(20, 5), commit(30, 6)], WHOLE, 5),
        ([generation(1, 1), commit(10, 5), commit(15, None), commit(30, 6)], WHOLE, None),
        ([generation(1, 1), commit(30, 6)], WHOLE, None),
        # Compaction takes what is older than a record together with it, so what is left is the end of a history:
        # the newest one up to the moment is what stood then, whatever is missing around it.
        ([commit(10, 5), commit(30, 6)], COMPACTED, 5),
        ([commit(10, 5)], COMPACTED, 5),
        ([generation(1, 1), commit(10, None), commit(30, 6)], COMPACTED, None),
        # Only a later one is left: there may have been an older one, or not.
        ([generation(1, 1), commit(30, 6)], COMPACTED, "compaction has deleted it"),
        ([generation(1, 1), commit(30, None)], COMPACTED, "compaction has deleted it"),
        ([generation(1, 1), commit(30, 6)], replace(WHOLE, start=4), "compaction has deleted it"),
        ([generation(1, 1), commit(30, 6)], replace(WHOLE, whole_from=None), "compaction has deleted it"),
        ([generation(1, 1), commit(30, 6)], STOPPED, "the 1 s limit was reached"),
        ([commit(10, 5), commit(30, 6)], STOPPED, 5),
        # Aborted commits, and those of open transactions, make nothing older go away.
        ([commit(10, 5), commit(12, 9, ending=TransactionEnd.ABORTED), commit(30, 6)], COMPACTED, 5),
        ([commit(10, 5), commit(12, 9, ending=TransactionEnd.OPEN)], COMPACTED, 5),
        # Open at that moment, and committed later: it did not count yet.
        ([commit(10, 5), commit(12, 9, ending=TransactionEnd.COMMITTED, ended_ms=25)], COMPACTED, 5),
        ([commit(10, 5), commit(12, 9, ending=TransactionEnd.COMMITTED, ended_ms=20)], COMPACTED, 9),
        (
            [generation(1, 1), commit(12, 9, ending=TransactionEnd.COMMITTED, ended_ms=25)],
            COMPACTED,
            "compaction has deleted it",
        ),
        # A record that can't be read may be of any partition; what stands behind it is none of its business.
        ([commit(10, 5), Unreadable(12, 12, "a record of type 1 has version 9", 1)], WHOLE, "version 9"),
        ([commit(10, 5), Unreadable(12, 12, "a broken one", None)], WHOLE, "a broken one"),
        ([commit(10, 5), Unreadable(12, 12, "a record of type 2 has version 9", 2)], WHOLE, 5),
        ([commit(10, 5), Unreadable(8, 8, "a record of type 1 has version 9", 1), commit(11, 6)], WHOLE, 6),
        ([commit(10, 5), Unreadable(22, 22, "a record of type 1 has version 9", 1)], WHOLE, 5),
    ],
)
def test_commits_as_of_a_moment(events: list[Event], reach: ScannedRange, expected: int | str | None) -> None:
    found = state_at("svc", events, reach, at_ms=20)

    assert found is not None
    stood = found.partitions[ORDERS]
    if isinstance(expected, str):
        assert stood.unknown is not None
        assert expected in stood.unknown
        assert (stood.commit, found.commits) == (None, {})
    else:
        assert stood.unknown is None
        assert (stood.commit.offset if stood.commit else None) == expected


def test_a_state_of_which_only_later_records_are_left_is_unknown() -> None:
    found = state_at("svc", [commit(10, 5), generation(31, 1, "a")], COMPACTED, at_ms=20)

    assert found is not None
    assert (found.type, found.state, found.members, commits(found)) == (None, None, (), {0: 5})


def test_a_group_whose_state_can_not_be_decoded_is_not_empty() -> None:
    found = at_end(commit(1, 5), Unreadable(2, 2, "version 9 is unknown", 2))

    assert (found.type, found.state, commits(found)) == (None, None, {0: 5})


def test_offsets_stay_with_a_group_that_was_converted_though_its_new_state_of_then_is_lost() -> None:
    events: list[Event] = [commit(5, 5), GroupDeleted(10, 10, RebalanceProtocol.CLASSIC), EpochWritten(30, 30, 4, None)]

    assert commits(state_at("svc", events, COMPACTED, at_ms=20)) == {0: 5}


def test_what_was_not_read_is_said() -> None:
    stopped = at_end(commit(600, 5), reach=STOPPED)
    assert stopped.incomplete == "the 1 s limit was reached"
    assert (stopped.type, stopped.state) == (None, None), "it may have members"
    # Its members may be in what was not read.
    assert at_end(EpochWritten(600, 600, 5, None), reach=STOPPED).state is None
    assert at_end(commit(600, 5), reach=COMPACTED).incomplete is None
    assert log_line(at_end(commit(600, 5), reach=STOPPED), 12_600).endswith(
        "last record 12s old; NOT READ TO ITS START"
    )


def test_open_transactions_are_told() -> None:
    events = [
        commit(1, 5),
        commit(2, 9, ending=TransactionEnd.OPEN),
        commit(3, 9, 1, TransactionEnd.COMMITTED, ended_ms=25),
    ]

    assert at_end(*events).open == {ORDERS}
    found = state_at("svc", events, WHOLE, at_ms=20)
    assert found is not None
    assert found.open == {ORDERS, ("orders", 1)}


# Putting it back


def rows(state: LoggedState, now: dict[int, Commit], **other: Any) -> dict[int, tuple[object, ...]]:
    given: dict[str, Any] = {"unread": {}, "logs": {ORDERS: LogRange(4, 100)}, "topics": {"orders": "abc"}} | other
    made = as_of_rows(state, {TopicPartition("orders", number): found for number, found in now.items()}, **given)
    assert all(row.partition is not None for row in made)
    return {
        row.partition or 0: (row.new.offset if row.new else None, row.note, row.error.code if row.error else None)
        for row in made
    }


def test_rows_of_an_undo() -> None:
    events = [commit(1, 5), commit(2, 3, partition=1), commit(3, None, partition=2), commit(5, 8, partition=4)]
    events.append(commit(30, 9, partition=3))
    state = state_at("svc", events, COMPACTED, at_ms=20)
    assert state is not None
    now = {
        0: Commit(50, None, ""),
        2: Commit(2, None, ""),
        3: Commit(9, 3, "m9"),
        4: Commit(8, 3, "m8"),
        5: Commit(1, 1, ""),
    }

    assert rows(state, now) == {
        0: (5, None, None),
        1: (3, None, None),  # deleted since
        2: (None, "no commit at that time: it is deleted", None),
        3: (None, None, "commit-unknown"),
        # 4 stands as it did
        5: (None, None, "commit-unknown"),  # the log that was read has nothing of it
    }


def test_an_unknown_commit_is_exit_7() -> None:
    state = state_at("svc", [generation(1, 1), commit(30, 9)], COMPACTED, at_ms=20)
    assert state is not None

    (row,) = as_of_rows(state, {ORDERS: Commit(9, None, "")}, {}, {}, {"orders": None})

    assert row.error is not None
    assert (row.error.exit_code, row.error.topic, row.error.partition) == (ExitCode.PARTLY, "orders", 0)


@pytest.mark.parametrize(
    ("event", "other", "expected"),
    [
        (commit(1, 2), {}, (2, "below the log start 4 now: auto.offset.reset decides", None)),
        (commit(1, 5, topic_id="abc"), {}, (5, None, None)),
        (commit(1, 5, topic_id="other"), {}, (5, None, "topic-recreated")),
        (commit(1, 5, topic_id="other"), {"topics": {"orders": None}}, (5, None, None)),
        (commit(1, 5), {"topics": {"orders": NotFound("gone", code="unknown-topic")}}, (5, None, "unknown-topic")),
        (commit(1, 5), {"unread": {ORDERS: RowError("pending-transaction", "...")}}, (5, None, "pending-transaction")),
    ],
)
def test_what_stands_in_a_rows_way(event: Event, other: dict[str, Any], expected: tuple[object, ...]) -> None:
    assert rows(at_end(event), {0: Commit(50, None, "")}, **other) == {0: expected}


# Whatever a log holds


@st.composite
def _histories(draw: st.DrawFn) -> list[CommitWritten]:
    """The commits of two partitions, in the order of their offsets and times."""
    steps = draw(st.lists(st.tuples(st.integers(0, 1), st.none() | st.integers(0, 9)), min_size=1, max_size=20))
    return [commit(at, offset, partition) for at, (partition, offset) in enumerate(steps)]


@given(_histories(), st.integers(0, 20), st.integers(0, 20))
def test_compaction_never_makes_it_wrong(history: list[CommitWritten], cleaned_to: int, at_ms: int) -> None:
    """A log, cleaned up to any offset as Kafka does it, tells what the whole log tells, or that it can't."""
    newest = {event.partition: event.log_offset for event in history if event.log_offset < cleaned_to}
    cleaned = [
        event
        for event in history
        if event.log_offset >= cleaned_to
        # Tombstones go too, when they are old enough.
        or (event.log_offset == newest[event.partition] and event.offset is not None)
    ]
    holes = len(cleaned) < len(history)
    reach = replace(WHOLE, whole_from=cleaned_to if holes else 0)
    truth, told = state_at("svc", history, WHOLE, at_ms), state_at("svc", cleaned, reach, at_ms)

    known = {} if truth is None else truth.commits
    shown = {} if told is None else told.partitions
    for place, stood in shown.items():
        assert stood.unknown is not None or stood.commit == known.get(place)
    now = {} if (end := state_at("svc", history, WHOLE)) is None else end.commits
    assert ({} if (left := state_at("svc", cleaned, reach)) is None else left.commits) == now
    # Of what has been deleted since, nothing at all may be left; of what has a commit now, something always is.
    assert not (known.keys() - shown.keys()) & now.keys()


def test_the_partitions_of_a_share_group() -> None:
    """Those that have start offsets at that time, not those that are about to get them."""
    log = Log().at(0).share_epoch(2).states(of(0, 1), of()).at(2).states(of(2), of(0, 1)).at(9).no_states()
    first, last = (state_at("jobs", log.events, WHOLE, at_ms) for at_ms in (log.now_ms - 1, None))
    assert first is not None
    assert last is not None
    assert (first.type, first.share_partitions, last.share_partitions) == ("share", of(0, 1), frozenset())


def test_a_share_group_that_had_no_member_yet() -> None:
    """Whoever sets its start offsets first creates it, without a record of an epoch; after its deletion too."""
    log = Log().at(0).states(of(0), of()).at(1).states(of(), of(0)).at(2).gone(RebalanceProtocol.SHARE).no_states()
    created, deleted = (state_at("jobs", log.events, WHOLE, at_ms) for at_ms in (log.now_ms - 1, None))
    assert created is not None
    assert (created.type, created.state, created.group_epoch, created.share_partitions) == ("share", None, None, of(0))
    assert deleted is None
    log.at(3).states(of(), of(1))
    again, partly = (state_at("jobs", log.events, reach) for reach in (WHOLE, STOPPED))
    assert again is not None
    assert partly is not None
    assert (again.type, again.state, again.share_partitions) == ("share", "Empty", of(1))
    assert (partly.type, partly.state) == ("share", None)
