"""The head released and moved back on a real broker, and every way in which that breaks off."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from kgroup.catchup.service.release import (
    StateWriter,
    exclusive_membership,
    history_of,
    move_back,
    read_history,
    release,
)
from kgroup.cluster.offsets_topic.commits import CommitHistory
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.catchup.model import CatchupPlan, GapRange, PlanState, RunnerEpoch, StateRecord
from kgroup.groups.catchup.offset_moves import release_commit
from kgroup.groups.catchup.release_evidence import ReleaseEvidence, ReleaseHistory, find_evidence
from kgroup.groups.catchup.steps import MoveBack, OffsetMove, Release
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.group_log import CommitWritten, TransactionEnd
from kgroup.support.errors import Refused, Unreachable
from tests.helpers import by_hand
from tests.helpers.clusters import connected
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_proxy import OFFSET_COMMIT, Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.wire import just_before, sent

Name = Callable[[str], str]
KINDS = ("classic", "consumer")
PLANNED = StateRecord(PlanState.PLANNED, 1, "somebody", 0)


@dataclass
class Book:
    """A ledger that keeps what is written; ``fenced`` is the state that it refuses, as after a takeover."""

    epoch: RunnerEpoch = field(default_factory=lambda: RunnerEpoch(7, "me@host", 1, 1))
    fenced: PlanState | None = None
    written: list[StateRecord] = field(default_factory=list)
    then: Callable[[PlanState], None] = lambda state: None

    def write(self, *values: StateRecord) -> None:
        for value in values:
            if value.state is self.fenced:
                raise Refused("another run has taken the plan over", code="superseded")
            self.written.append(value)
            self.then(value.state)

    @property
    def said(self) -> list[PlanState]:
        return [record.state for record in self.written]


def states(book: Book, before: StateRecord = PLANNED) -> StateWriter:
    return StateWriter(book, before, lambda: 42)


def gap(topic: str, partition: int, end: int, before: Commit | None, start: int | None = None) -> GapRange:
    start = before.offset if before is not None else start or 0
    return GapRange(topic, partition, start, end, before, 0, None, None, None, None, None, None)


def plan_of(group: str, kind: str, *ranges: GapRange) -> CatchupPlan:
    return CatchupPlan("cu-abcd", group, kind, "cluster", 1, "me", None, ("kgroup",), ranges, chunks=())


@dataclass(frozen=True)
class Gapped:
    """An Empty group behind, and the plan for it: 0 was at 70, 1 at 5 with metadata, 2 nowhere; 3 is not of it."""

    group: str
    plan: CatchupPlan
    before: dict[tuple[str, int], tuple[int, str, int | None]]


def gapped(world: KafkaWorld, topic: str, group: str, kind: str) -> Gapped:
    world.commit(group, {(topic, 0): 70, (topic, 1): (5, "é\0 at 5", 0), (topic, 3): (9, "left", None)})
    if kind == "consumer":
        to_consumer(world, group)
    ranges = (
        gap(topic, 0, 120, Commit(70, None, "")),
        gap(topic, 1, 8, Commit(5, 0, "é\0 at 5")),
        gap(topic, 2, 30, None),
    )
    return Gapped(group, plan_of(group, kind, *ranges), world.exact(group))


@pytest.fixture(scope="module")
def topic(world: KafkaWorld) -> str:
    return world.topic(f"release-orders-{secrets.token_hex(3)}", partitions=4)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(world: KafkaWorld, topic: str, name: Name, kind: str) -> Gapped:
    return gapped(world, topic, name("svc"), kind)


def evidence(cluster: ChangingCluster, made: Gapped, position: int | None) -> list[ReleaseEvidence]:
    """Of each partition of the plan, in order."""
    history = read_history(cluster, made.plan, position, 2)
    found = cluster.committed([made.group])[made.group]
    assert isinstance(found, dict)
    commits = {place: commit for place, commit in found.items() if isinstance(commit, Commit)}
    judged = find_evidence(made.plan, history, commits, live=False)
    return [judged[item.tp] for item in made.plan.ranges]


def released(made: Gapped, topic: str, epoch: int = 7) -> dict[tuple[str, int], tuple[int, str, int | None]]:
    moved: dict[tuple[str, int], tuple[int, str, int | None]] = {
        item.tp: (item.end, CatchupCommitTag("cu-abcd", epoch, TagPurpose.RELEASE, item.start).metadata, 0)
        for item in made.plan.ranges
    }
    return {**made.before, **moved}


def first_release(plan: CatchupPlan, epoch: int) -> Release:
    """Each partition from its commit to its end."""
    moves = (OffsetMove(*item.tp, item.before, (release_commit(plan, item, epoch),)) for item in plan.ranges)
    return Release(tuple(moves), None)


def release_plan(cluster: ChangingCluster, plan: CatchupPlan, book: StateWriter) -> None:
    """Join the plan's group, release all partitions, and leave."""
    with exclusive_membership(cluster, plan) as holding:
        release(cluster, holding, first_release(plan, book.epoch), book)


def released_group(cluster: ChangingCluster, made: Gapped) -> StateRecord:
    book = Book()
    release_plan(cluster, made.plan, states(book))
    return book.written[-1]


# --- released


def test_a_release_is_in_the_ledger_before_and_after_and_in_the_groups_history(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped, bystander: str, kind: str
) -> None:
    seen: list[tuple[PlanState, bool, str]] = []
    book = Book(
        then=lambda now: seen.append((now, world.exact(made.group) == made.before, world.groups()[made.group][1]))
    )

    release_plan(cluster, made.plan, states(book))

    assert seen == [(PlanState.RELEASING, True, "stable"), (PlanState.RELEASED, False, "stable")], (
        "held from first to last"
    )
    first, last = book.written
    assert (first.epoch, first.who, first.at_ms) == (7, "me@host", 42)
    assert first.log_position is not None
    assert last.log_position == first.log_position
    assert world.exact(made.group) == released(made, topic)
    assert world.groups()[made.group] == (kind, "empty")
    assert evidence(cluster, made, first.log_position) == [ReleaseEvidence.RELEASED] * 3


def test_what_a_release_asks_of_the_broker_does_not_depend_on_the_gap(
    cluster: ChangingCluster, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # As many of these as time has passed: while the member joins, and while it is there.
    beats = {"Heartbeat", "ConsumerGroupHeartbeat", "DescribeGroups", "ConsumerGroupDescribe"}
    topic, asked = world.topic(name("orders"), partitions=8), list[list[str]]()
    for records in (50, 1_000_000, 10_000_000):
        group = name("svc")
        world.commit(group, {(topic, number): 0 for number in range(8)})
        if kind == "consumer":
            to_consumer(world, group)
        ranges = [gap(topic, number, records // 8 + 1, Commit(0, None, "")) for number in range(8)]
        cluster.committed([group])
        with monkeypatch.context() as patch:
            names = sent(patch)
            release_plan(cluster, plan_of(group, kind, *ranges), states(Book()))
        asked.append([each for each in names if each not in beats])
    assert asked[0].count("OffsetCommit") == 1
    assert asked[1:] == [asked[0]] * 2


def test_a_release_that_broke_off_halfway_goes_on_with_its_first_position(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped
) -> None:
    step = first_release(made.plan, 6)
    book = Book(RunnerEpoch(6, "first", 1, 1))
    with exclusive_membership(cluster, made.plan) as holding:
        release(cluster, holding, Release(step.moves[:1], None), states(book))
    broke_off = book.written[0]
    assert evidence(cluster, made, broke_off.log_position) == [
        ReleaseEvidence.RELEASED,
        *[ReleaseEvidence.NOT_RELEASED] * 2,
    ]

    second = Book()
    rest = Release(first_release(made.plan, 7).moves[1:], broke_off.log_position)
    with exclusive_membership(cluster, made.plan) as holding:
        release(cluster, holding, rest, states(second, broke_off))

    assert {record.log_position for record in second.written} == {broke_off.log_position}
    place = (topic, 0)
    assert world.exact(made.group) == {**released(made, topic), place: released(made, topic, 6)[place]}
    assert evidence(cluster, made, broke_off.log_position) == [ReleaseEvidence.RELEASED] * 3


def test_while_a_transaction_is_open_the_history_does_not_tell(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped
) -> None:
    book = Book()
    with exclusive_membership(cluster, made.plan) as holding:
        release(cluster, holding, Release(first_release(made.plan, 7).moves[:1], None), states(book))
    position = book.written[0].log_position
    with world.pending(made.group, {(topic, 1): 100}):
        assert evidence(cluster, made, position) == [ReleaseEvidence.RELEASED, *[ReleaseEvidence.UNKNOWN] * 2]
    assert evidence(cluster, made, position) == [ReleaseEvidence.RELEASED, *[ReleaseEvidence.NOT_RELEASED] * 2]


@pytest.mark.parametrize(("compacted", "unread"), [(False, None), (True, None), (False, "not in time")])
def test_what_the_log_did_not_tell_is_handed_on(compacted: bool, unread: str | None) -> None:
    records = (
        CommitWritten(17, 1_000, "orders", 0, 120, "mark", None, None, TransactionEnd.PLAIN, 4),
        CommitWritten(18, 2_000, "orders", 1, None, "", None, 7, TransactionEnd.COMMITTED),
    )
    assert history_of(CommitHistory(records, (), 19, compacted, unread)) == ReleaseHistory(records, compacted, unread)


# --- not released


@pytest.mark.parametrize(
    "meanwhile",
    [{0: 71}, {0: (70, "other metadata", None)}, {1: (5, "é\0 at 5", 1)}, {2: 0}],
    ids=["offset", "metadata", "leader-epoch", "first-commit"],
)
def test_offsets_that_moved_since_the_plan(
    cluster: ChangingCluster,
    world: KafkaWorld,
    topic: str,
    made: Gapped,
    kind: str,
    meanwhile: dict[int, int | tuple[int, str, int | None]],
) -> None:
    book = Book()
    world.commit(made.group, {(topic, number): commit for number, commit in meanwhile.items()})
    stands = world.exact(made.group)
    with pytest.raises(Refused, match="1 partition") as caught:
        release_plan(cluster, made.plan, states(book))
    assert (caught.value.code, caught.value.exit_code) == ("moved-since", 6)
    assert book.written == []
    assert world.exact(made.group) == stands
    assert world.groups()[made.group] == (kind, "empty")


def test_a_group_that_was_converted_since_the_plan_is_held_only_by_who_goes_on_with_it(
    cluster: ChangingCluster, world: KafkaWorld, made: Gapped, kind: str
) -> None:
    book, other = Book(), KINDS[kind == "classic"]
    assert cluster.convert({made.group: other}) == {made.group: None}
    with pytest.raises(Refused, match=f"is a {other} group now") as caught:
        release_plan(cluster, made.plan, states(book))
    assert caught.value.code == "moved-since"
    assert book.written == []
    assert world.exact(made.group) == made.before
    with exclusive_membership(cluster, made.plan, as_planned=False):
        assert world.groups()[made.group] == (other, "stable")


def test_an_open_transaction_is_about_to_move_them(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped, kind: str
) -> None:
    book = Book()
    with world.pending(made.group, {(topic, 0): 100}), pytest.raises(Refused) as caught:
        release_plan(cluster, made.plan, states(book))
    assert caught.value.code == "pending-transaction"
    assert book.written == []
    assert world.groups()[made.group] == (kind, "empty")


def test_a_partition_that_the_broker_refuses_is_named_with_its_reason(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped
) -> None:
    """And not taken for one that somebody else has moved, as reading back alone would."""
    book = Book()
    first, *_ = first_release(made.plan, 7).moves
    long = replace(first, commits=(Commit(120, 0, "m" * 4097),))
    with pytest.raises(Refused, match=f"{topic}:0: ") as caught, exclusive_membership(cluster, made.plan) as holding:
        release(cluster, holding, Release((long,), None), states(book))
    assert caught.value.code == "metadata-size"
    assert book.said == [PlanState.RELEASING]
    assert world.exact(made.group) == made.before


@pytest.mark.parametrize("fenced", [PlanState.RELEASING, PlanState.RELEASED])
def test_a_run_that_is_fenced_moves_nothing_from_then_on(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped, kind: str, fenced: PlanState
) -> None:
    book = Book(fenced=fenced)
    with pytest.raises(Refused) as caught:
        release_plan(cluster, made.plan, states(book))
    assert caught.value.code == "superseded"
    assert world.groups()[made.group] == (kind, "empty")
    if fenced is PlanState.RELEASING:
        assert (book.said, world.exact(made.group)) == ([], made.before)
    else:
        assert (book.said, world.exact(made.group)) == ([PlanState.RELEASING], released(made, topic))
        assert evidence(cluster, made, book.written[0].log_position) == [ReleaseEvidence.RELEASED] * 3


def test_who_comes_behind_releasing_finds_the_group_where_it_was(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped
) -> None:

    def come(state: PlanState) -> None:
        if state is PlanState.RELEASING:
            assert by_hand.heartbeat(world, made.group, "somebody", 0, topic) == 0

    book = Book(then=come)
    with pytest.raises(Refused, match=r"127\.0\.0\.1") as caught:
        release_plan(cluster, made.plan, states(book))
    assert caught.value.code == "not-empty"
    assert book.said == [PlanState.RELEASING]
    assert world.exact(made.group) == made.before
    assert evidence(cluster, made, book.written[0].log_position) == [ReleaseEvidence.NOT_RELEASED] * 3


def test_a_successor_between_releasing_and_the_commit(
    cluster: ChangingCluster, bootstrap: str, world: KafkaWorld, made: Gapped, kind: str
) -> None:
    """It removes our member, and cancels; we are woken later."""
    cancelling = Book(RunnerEpoch(8, "successor", 1, 1))

    def take_over(state: PlanState) -> None:
        if state is PlanState.RELEASING:
            with connected(bootstrap) as other, exclusive_membership(other, made.plan) as theirs:
                move_back(theirs, MoveBack(()), states(cancelling, book.written[-1]))

    book = Book(then=take_over)
    with pytest.raises(Refused) as caught:
        release_plan(cluster, made.plan, states(book))
    assert caught.value.code == "superseded"
    assert cancelling.said == [PlanState.CANCELLING, PlanState.CANCELLED]
    assert world.exact(made.group) == made.before
    assert world.groups()[made.group] == (kind, "empty")


def test_somebody_who_commits_in_transactions_is_found(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator does not hold such commits to the group's members."""
    book = Book()

    def commit() -> None:
        with world.pending(made.group, {(topic, 0): 200}) as theirs:
            theirs.commit_transaction(30)

    # The first read is the check, the second reads back.
    happened = just_before(monkeypatch, "OffsetFetch", commit, skip=1)
    with pytest.raises(Refused, match="transaction") as caught:
        release_plan(cluster, made.plan, states(book))
    assert happened
    assert caught.value.code == "moved-since"
    assert set(book.said) == {PlanState.RELEASING}


# --- moved back


def back(made: Gapped, targets: dict[int, int]) -> MoveBack:
    """To these offsets, as ``kgroup.groups.catchup.offset_moves`` makes them."""
    mark = CatchupCommitTag("cu-abcd", 8, TagPurpose.BACK).metadata
    moves = []
    for item in made.plan.ranges:
        if item.partition in targets:
            target, before = targets[item.partition], item.before
            own = Commit(target, None, "")
            if before is not None:
                own = Commit(target, before.leader_epoch if target == before.offset else None, before.metadata)
            stands = Commit(item.end, 0, CatchupCommitTag("cu-abcd", 7, TagPurpose.RELEASE, item.start).metadata)
            moves.append(OffsetMove(*item.tp, stands, (Commit(target, own.leader_epoch, mark), own)))
    return MoveBack(tuple(moves))


def test_moved_back_with_the_groups_own_metadata(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped, kind: str
) -> None:
    before = released_group(cluster, made)
    book = Book(RunnerEpoch(8, "me", 1, 1))
    with exclusive_membership(cluster, made.plan) as holding:
        move_back(holding, back(made, {0: 70, 1: 5, 2: 0}), states(book, before))
    assert book.said == [PlanState.CANCELLING, PlanState.CANCELLED]
    cancelling = book.written[0]
    assert cancelling.targets == ((topic, 0, 70), (topic, 1, 5), (topic, 2, 0))
    assert cancelling.expected == ((topic, 0, 120), (topic, 1, 8), (topic, 2, 30))
    assert cancelling.log_position == before.log_position
    assert world.exact(made.group) == {**made.before, (topic, 2): (0, "", None)}
    found = evidence(cluster, made, before.log_position)
    assert found[:2] == [ReleaseEvidence.NOT_RELEASED] * 2
    assert world.groups()[made.group] == (kind, "empty")


def test_not_moved_back_where_the_group_went_on(
    cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped
) -> None:
    before = released_group(cluster, made)
    world.commit(made.group, {(topic, 1): (9, "é\0 at 9", 0)})
    stands, book = world.exact(made.group), Book(RunnerEpoch(8, "me", 1, 1))
    with pytest.raises(Refused) as caught, exclusive_membership(cluster, made.plan) as holding:
        move_back(holding, back(made, {0: 70, 1: 5}), states(book, before))
    assert caught.value.code == "moved-since"
    assert book.written == []
    assert world.exact(made.group) == stands


def test_a_fenced_cancel_moves_nothing(cluster: ChangingCluster, world: KafkaWorld, topic: str, made: Gapped) -> None:
    before, book = released_group(cluster, made), Book(RunnerEpoch(8, "me", 1, 1), fenced=PlanState.CANCELLING)
    with pytest.raises(Refused), exclusive_membership(cluster, made.plan) as holding:
        move_back(holding, back(made, {0: 70}), states(book, before))
    assert world.exact(made.group) == released(made, topic)


# --- an answer that gets lost


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER])
def test_a_release_without_an_answer_is_found_in_the_history(
    proxied: ProxiedBroker, name: Name, kind: str, loss: Loss
) -> None:
    made, book = gapped(proxied.world, "proxied-orders", name("svc"), kind), Book()
    with connected(proxied.bootstrap) as cluster:
        proxied.proxy.expect(Fault(OFFSET_COMMIT, loss))
        with pytest.raises(Unreachable) as caught:
            release_plan(cluster, made.plan, states(book))
        assert caught.value.code == "outcome-unknown"
        assert book.said == [PlanState.RELEASING]
        assert proxied.world.groups()[made.group] == (kind, "empty")
        expected = ReleaseEvidence.RELEASED if loss is Loss.ANSWER else ReleaseEvidence.NOT_RELEASED
        assert evidence(cluster, made, book.written[0].log_position) == [expected] * 3
