"""What resume and cancel do next; and the shortest ways in which a model of the rules lost or doubled records without
one of them, each ended here before it does harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.decisions import cancel, resume
from kgroup.groups.catchup.model import CatchupPlan, Chunk, ChunkProgress, ExplainedRange, PlanState
from kgroup.groups.catchup.release_evidence import (
    OffsetRewind,
    ReleaseEvidence,
    ReleaseHistory,
    find_evidence,
)
from kgroup.groups.catchup.steps import (
    AlreadyDone,
    Close,
    Decision,
    MoveBack,
    OffsetMove,
    Refuse,
    Release,
    Replay,
    Situation,
    WriteReleased,
    next_state,
)
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.commit import Commit
from kgroup.model.group_log import CommitWritten, TransactionEnd
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.catchup.plans import OWN, PLAN_ID, gap_range, ledgered, made, make_plan, rewind

EPOCH = 2
RELEASE = CatchupCommitTag(PLAN_ID, 1, TagPurpose.RELEASE).metadata
BACK = CatchupCommitTag(PLAN_ID, EPOCH, TagPurpose.BACK).metadata
AGAIN = CatchupCommitTag(PLAN_ID, EPOCH, TagPurpose.RELEASE, 70).metadata

E, S, A, U = ReleaseEvidence.RELEASED, ReleaseEvidence.NOT_RELEASED, ReleaseEvidence.CONTINUED, ReleaseEvidence.UNKNOWN
D = ReleaseEvidence.DELETED
TWO = make_plan(gap_range(0), gap_range(1))


def at(offset: int | None, metadata: str = "") -> Commit | None:
    return None if offset is None else Commit(offset, None, metadata)


def situation(
    state: PlanState,
    committed: Sequence[int | None] = (),
    evidence: Sequence[ReleaseEvidence] = (),
    *,
    plan: CatchupPlan = TWO,
    progress: Sequence[ChunkProgress] = (),
    live: bool = False,
    targets: Mapping[int, int] | None = None,
    expected: Mapping[int, int | None] | None = None,
    set_back: tuple[OffsetRewind, ...] = (),
    log_starts: Mapping[int, int] | None = None,
) -> Situation:
    """By partition of ``orders``."""
    return Situation(
        ledgered(plan, state, progress, targets=targets, expected=expected),
        EPOCH,
        {TopicPartition("orders", number): found for number, found in enumerate(evidence)},
        {TopicPartition("orders", number): at(offset) for number, offset in enumerate(committed)},
        live,
        set_back=set_back,
        log_starts={TopicPartition("orders", number): start for number, start in (log_starts or {}).items()},
    )


def told(decision: Decision) -> str:
    """The decision in a word or two: its kind, the code of a refusal, where each partition goes."""
    match decision:
        case Release(moves=moves):
            return "release " + " ".join(f"{move.partition}:{move.offset}" for move in moves)
        case MoveBack(moves=moves, write=write):
            kind = "back" if write else "on"
            return " ".join([kind, *(f"{move.partition}:{move.offset}" for move in moves)])
        case Refuse(error=error):
            return f"refused {error.code}"
        case Close(refused=refused):
            return "close" if refused is None else f"close {refused.code}"
        case Replay(chunks=chunks):
            return " ".join(["replay", *map(str, chunks)])
        case _:
            return type(decision).__name__


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (situation(PlanState.PLANNED, (70, 70), (S, S)), "release 0:120 1:120"),
        (situation(PlanState.PLANNED, (70, 70), (A, A), live=True), "refused not-empty"),
        (situation(PlanState.PLANNED, (70, 71), (S, A)), "refused moved-since"),
        (situation(PlanState.PLANNED, (None, 70), (A, S)), "refused moved-since"),
        # A release that broke off: only what is not released is released.
        (situation(PlanState.RELEASING, (120, 120), (E, E)), "WriteReleased"),
        (situation(PlanState.RELEASING, (125, 120), (E, E), live=True), "WriteReleased"),
        (situation(PlanState.RELEASING, (70, 120), (E, E)), "WriteReleased"),
        (situation(PlanState.RELEASING, (70, 70), (S, S)), "release 0:120 1:120"),
        (situation(PlanState.RELEASING, (120, 70), (E, S)), "release 1:120"),
        (situation(PlanState.RELEASING, (125, 70), (E, S)), "release 1:120"),
        # The group went on by itself.
        (situation(PlanState.RELEASING, (75, 70), (A, S)), "close group-continued"),
        (situation(PlanState.RELEASING, (120, 120), (A, A)), "close group-continued"),
        (situation(PlanState.RELEASING, (70, 70), (A, A), live=True), "close group-continued"),
        (situation(PlanState.RELEASING, (120, 75), (E, A)), "refused group-continued"),
        (situation(PlanState.RELEASING, (120, 70), (E, A), live=True), "refused group-continued"),
        # Its commits were deleted: it may go on behind the gap.
        (situation(PlanState.RELEASING, (None, None), (D, D)), "refused moved-since"),
        (situation(PlanState.RELEASING, (120, None), (E, D), live=True), "refused moved-since"),
        (situation(PlanState.RELEASING, (75, None), (A, D)), "refused moved-since"),
        # Nothing tells.
        (situation(PlanState.RELEASING, (120, 120), (E, U)), "refused history-unread"),
        (situation(PlanState.RELEASING, (120, 120), ()), "refused history-unread"),
        (situation(PlanState.RELEASED, (120, 120), (E, E)), "replay 0 1"),
        (situation(PlanState.RELEASED, (130, 120), (E, E), live=True, progress=[made(0, 120)]), "replay 1"),
        (situation(PlanState.RELEASED, (130, 120), (U, U), progress=[made(0, 119)]), "replay 0 1"),
        (situation(PlanState.RELEASED, progress=[made(0, 120), made(1, 120)]), "replay"),
        (situation(PlanState.CANCELLING, (120, 120), (E, E)), "refused cancelling"),
        (situation(PlanState.DONE), "AlreadyDone"),
        (situation(PlanState.CANCELLED), "refused closed"),
    ],
)
def test_resume(now: Situation, expected: str) -> None:
    assert told(resume(now)) == expected


SOME = [made(0, 90, 20)]


@pytest.mark.parametrize(
    ("now", "without", "with_duplicates"),
    [
        (situation(PlanState.PLANNED, (70, 70), (S, S)), "close", "close"),
        (situation(PlanState.PLANNED, (75, 70), (A, A), live=True), "close", "close"),
        # A release that broke off: only what was released is moved back.
        (situation(PlanState.RELEASING, (70, 70), (S, S)), "close", "close"),
        (situation(PlanState.RELEASING, (75, 70), (A, A), live=True), "close", "close"),
        (situation(PlanState.RELEASING, (120, 120), (A, A)), "close", "close"),
        (situation(PlanState.RELEASING, (None, 70), (D, S)), "refused moved-since", "refused moved-since"),
        (situation(PlanState.RELEASING, (None, 120), (D, E)), "refused moved-since", "refused moved-since"),
        (situation(PlanState.RELEASED, (None, 120), (D, E)), "refused possible-duplicates", "back 0:70 1:70"),
        (situation(PlanState.RELEASING, (120, 70), (E, S)), "back 0:70", "back 0:70"),
        (situation(PlanState.RELEASING, (120, 120), (E, A)), "back 0:70", "back 0:70"),
        (situation(PlanState.RELEASING, (120, 120), (E, E)), "back 0:70 1:70", "back 0:70 1:70"),
        (situation(PlanState.RELEASING, (125, 120), (E, E)), "refused possible-duplicates", "back 0:70 1:70"),
        (situation(PlanState.RELEASING, (None, 120), (E, E)), "refused possible-duplicates", "back 0:70 1:70"),
        (situation(PlanState.RELEASING, (60, 120), (E, E)), "refused possible-duplicates", "back 1:70"),
        (situation(PlanState.RELEASING, (120, 120), (E, E), live=True), "refused not-empty", "refused not-empty"),
        (situation(PlanState.RELEASING, (120, 120), (E, U)), "refused history-unread", "refused history-unread"),
        # Released: to the start while nothing is delivered and it stands where it was put, else only if told to.
        (situation(PlanState.RELEASED, (120, 120), (E, E)), "back 0:70 1:70", "back 0:70 1:70"),
        (situation(PlanState.RELEASED, (120, 120), (E, E), live=True), "refused not-empty", "refused not-empty"),
        (situation(PlanState.RELEASED, (125, 120), (E, E)), "refused possible-duplicates", "back 0:70 1:70"),
        (situation(PlanState.RELEASED, (120, 120), (E, A)), "refused possible-duplicates", "back 0:70 1:70"),
        (situation(PlanState.RELEASED, (120, 120), (E, U)), "refused history-unread", "back 0:70 1:70"),
        (
            situation(PlanState.RELEASED, (120, 120), (E, E), progress=SOME),
            "refused possible-duplicates",
            "back 0:90 1:70",
        ),
        (situation(PlanState.RELEASED, (80, 120), (E, E), progress=SOME), "refused possible-duplicates", "back 1:70"),
        (
            situation(PlanState.RELEASED, (None, 130), (E, E), progress=[made(0, 120)]),
            "refused possible-duplicates",
            "back 1:70",
        ),
        (
            situation(PlanState.RELEASED, (120, 120), (E, E), progress=[made(0, 70, may_repeat=9)]),
            "refused possible-duplicates",
            "back 0:70 1:70",
        ),
        (
            situation(PlanState.RELEASED, (130, 130), (E, E), progress=[made(0, 120), made(1, 120)]),
            "refused delivered",
            "back",
        ),
        (
            situation(PlanState.RELEASED, (120, 120), (E, E), set_back=(rewind(90),)),
            "refused possible-duplicates",
            "back 0:70 1:70",
        ),
        # A move back that broke off goes on with its own targets.
        (
            situation(PlanState.CANCELLING, (120, 120), (E, E), targets={0: 70, 1: 90}, expected={0: 120, 1: 120}),
            "on 0:70 1:90",
            "on 0:70 1:90",
        ),
        (
            situation(PlanState.CANCELLING, (70, 120), (S, E), targets={0: 70, 1: 90}, expected={0: 120, 1: 120}),
            "on 1:90",
            "on 1:90",
        ),
        (
            situation(PlanState.CANCELLING, (70, 120), (S, E), targets={0: 70}, expected={0: 120}),
            "close",
            "close",
        ),
        (
            situation(
                PlanState.CANCELLING, (75, 95), (A, A), targets={0: 70, 1: 90}, expected={0: 120, 1: 120}, live=True
            ),
            "close",
            "close",
        ),
        (
            situation(PlanState.CANCELLING, (120, 120), (E, E), targets={0: 70}, expected={0: 120}, live=True),
            "refused not-empty",
            "refused not-empty",
        ),
        (
            situation(PlanState.CANCELLING, (125, 120), (E, E), targets={0: 70}, expected={0: 120}),
            "refused possible-duplicates",
            "on 0:70",
        ),
        (
            situation(PlanState.CANCELLING, (None, 120), (E, E), targets={0: 70}, expected={0: None}),
            "on 0:70",
            "on 0:70",
        ),
        # It was not to be moved at all.
        (
            situation(PlanState.CANCELLING, (130, 120), (E, E), targets={0: 120}, expected={0: 120}),
            "close",
            "close",
        ),
        # Somebody set it lower meanwhile: nothing is ever skipped by a cancel.
        (
            situation(PlanState.CANCELLING, (60, 120), (E, E), targets={0: 70}, expected={0: 120}),
            "refused possible-duplicates",
            "on",
        ),
        (
            situation(PlanState.CANCELLING, (120, 120), (U, E), targets={0: 70, 1: 90}, expected={0: 120, 1: 120}),
            "refused history-unread",
            "refused history-unread",
        ),
        (
            situation(PlanState.CANCELLING, (120, 120), (E,), targets={0: 70, 1: 90}, expected={0: 120, 1: 120}),
            "refused history-unread",
            "refused history-unread",
        ),
        (situation(PlanState.CANCELLED), "AlreadyDone", "AlreadyDone"),
        (situation(PlanState.DONE), "refused closed", "refused closed"),
    ],
)
def test_cancel(now: Situation, without: str, with_duplicates: str) -> None:
    assert told(cancel(now)) == without
    assert told(cancel(now, ["skip"])) == without
    assert told(cancel(now, ["possible-duplicates"])) == with_duplicates


def test_a_release_carries_the_mark_and_expects_what_it_saw() -> None:
    now = situation(PlanState.PLANNED, (70, 70), (S, S))

    decision = resume(replace(now, committed={TopicPartition("orders", 0): OWN, TopicPartition("orders", 1): OWN}))

    assert decision == Release(
        (
            OffsetMove("orders", 0, OWN, (Commit(120, 4, AGAIN),)),
            OffsetMove("orders", 1, OWN, (Commit(120, 4, AGAIN),)),
        ),
        500,
    )


def test_the_rest_of_a_release_keeps_the_position_that_was_noted_first() -> None:
    decision = resume(situation(PlanState.RELEASING, (120, 70), (E, S)))

    assert isinstance(decision, Release)
    assert decision.log_position == 500


def test_a_move_back_leaves_evidence_and_then_what_the_group_had() -> None:
    """The mark goes first: were the group's own metadata alone written, nobody could tell it from a reset."""
    now = situation(PlanState.RELEASED, (120, 120), (E, E), progress=[made(1, 100)])

    decision = cancel(now, ["possible-duplicates"])

    assert decision == MoveBack(
        (
            OffsetMove("orders", 0, at(120), (Commit(70, 3, BACK), OWN)),
            # Another offset than the one it had: its leader epoch is not that one's.
            OffsetMove("orders", 1, at(120), (Commit(100, None, BACK), Commit(100, None, OWN.metadata))),
        )
    )


def test_metadata_that_was_not_put_back_is_put_back_later() -> None:
    now = situation(PlanState.CANCELLING, (70, 70), (S, S), targets={0: 70, 1: 70}, expected={0: 120, 1: 120})
    now = replace(now, committed={TopicPartition("orders", 0): Commit(70, 3, BACK), TopicPartition("orders", 1): OWN})

    decision = cancel(now)

    assert decision == Close(
        "cancelled: moved back",
        restores=(OffsetMove("orders", 0, Commit(70, 3, BACK), (Commit(70, 3, OWN.metadata),)),),
    )
    assert cancel(replace(now, live=True)) == Close("cancelled: moved back")


def test_it_is_not_put_back_below_what_the_log_holds() -> None:
    now = situation(PlanState.RELEASED, (120, 120), (E, E), log_starts={0: 85, 1: 200})

    assert told(cancel(now)) == "back 0:85"


def test_what_was_skipped_comes_back_with_a_cancel_while_nothing_is_delivered() -> None:
    plan = make_plan(
        gap_range(0, 90),
        gap_range(1, 120),
        abandoned=tuple(ExplainedRange("orders", p, 70, e, "skip") for p, e in ((0, 90), (1, 120))),
    )

    assert told(cancel(situation(PlanState.RELEASED, (120, 120), (E, E), plan=plan))) == "back 0:70 1:70"
    assert told(cancel(situation(PlanState.RELEASING, (120, 120), (E, E), plan=plan))) == "back 0:70 1:70"
    some = situation(PlanState.RELEASED, (120, 120), (E, E), plan=plan, progress=[made(0, 100)])
    assert told(cancel(some, ["possible-duplicates"])) == "back 0:100 1:70"


def test_a_partition_that_had_no_commit_goes_back_to_its_start() -> None:
    plan = make_plan(gap_range(0, 5, 120, None), gap_range(1, 120, 120, None))

    decision = cancel(situation(PlanState.RELEASED, (120, 120), (E, E), plan=plan))

    assert isinstance(decision, MoveBack)
    assert decision.moves == (OffsetMove("orders", 0, at(120), (Commit(5, None, BACK), Commit(5, None, ""))),)


def test_what_comes_twice_is_named() -> None:
    chunks = (Chunk("orders", 0, 70, 95, 0), Chunk("orders", 0, 95, 110, 1), Chunk("orders", 0, 110, 120, 2))
    plan = make_plan(chunks=chunks)
    progress = [made(0, 80, 10, may_repeat=3), made(1, 110, 15)]
    now = situation(
        PlanState.RELEASED,
        (150,),
        (E,),
        plan=plan,
        progress=progress,
        set_back=(rewind(60),),
    )

    refused, forced = cancel(now), cancel(now, ["possible-duplicates"])

    assert isinstance(forced, MoveBack)
    assert [move.offset for move in forced.moves] == [80]
    assert forced.reprocessed == (
        ExplainedRange("orders", 0, 80, 95, "up to 3 records processed by the replay"),
        ExplainedRange("orders", 0, 95, 110, "delivered by the replay"),
        ExplainedRange("orders", 0, 120, 150, "processed by orders-svc since the release"),
        ExplainedRange("orders", 0, 80, 120, "orders-svc was rewound after the release"),
    )
    assert isinstance(refused, Refuse)
    assert refused.error.details == (
        "orders:0 [80, 95): up to 3 records processed by the replay",
        "orders:0 [95, 110): delivered by the replay",
        "orders:0 [120, 150): processed by orders-svc since the release",
        "and 1 more",
    )
    assert refused.error.exit_code == 6


@pytest.mark.parametrize(
    ("now", "rows"),
    [
        (situation(PlanState.PLANNED, (70, 70), (S, S)), []),
        # Nothing was released yet, whatever the history tells.
        (situation(PlanState.PLANNED, (70, None), (U, D)), []),
        (situation(PlanState.RELEASING, (120, 70), (E, S)), [(0, 70, 120, "--abandon")]),
        (
            situation(PlanState.RELEASING, (120, 75), (U, A)),
            [(0, 70, 120, "--abandon (it is unknown whether it was released)")],
        ),
        (
            situation(PlanState.RELEASED, (125, 120), (E, E), live=True, progress=SOME),
            [(0, 90, 120, "--abandon"), (1, 70, 120, "--abandon")],
        ),
        (situation(PlanState.CANCELLING, (70, 120), (S, E)), [(1, 70, 120, "--abandon")]),
    ],
)
def test_abandon_lists_what_is_not_delivered(now: Situation, rows: list[tuple[int, int, int, str]]) -> None:
    decision = cancel(now, abandon=True)

    assert isinstance(decision, Close)
    assert decision.abandoned == tuple(ExplainedRange("orders", *row) for row in rows)
    assert all(f"orders:{row[0]} [{row[1]}, {row[2]})" in decision.note for row in rows)


def test_a_plan_that_moves_no_group() -> None:
    plan = make_plan(gap_range(before=None), group=None)

    def now(state: PlanState, *progress: ChunkProgress) -> Situation:
        return Situation(ledgered(plan, state, progress), EPOCH)

    assert isinstance(resume(now(PlanState.PLANNED)), WriteReleased)
    assert isinstance(resume(now(PlanState.RELEASING)), WriteReleased)
    assert resume(now(PlanState.RELEASED)) == Replay((0,))
    assert cancel(now(PlanState.RELEASED, made(0, 90))) == Close(
        "cancelled; no group was moved: orders:0 [90, 120)", (ExplainedRange("orders", 0, 90, 120, "cancelled"),)
    )


def test_a_script_that_asks_again_is_told_so() -> None:
    assert resume(situation(PlanState.DONE)) == AlreadyDone("cu-7f3a is done")
    assert cancel(situation(PlanState.CANCELLED)) == AlreadyDone("cu-7f3a is cancelled")


@pytest.mark.parametrize(
    "decision",
    [
        resume(situation(PlanState.PLANNED, (70, 71), (S, A))),
        resume(situation(PlanState.RELEASING, (120, 75), (E, A))),
        resume(situation(PlanState.RELEASING, (120, 120), (E, U))),
        resume(situation(PlanState.CANCELLING)),
        resume(situation(PlanState.CANCELLED)),
        cancel(situation(PlanState.RELEASED, (120, 120), (E, E), live=True)),
        cancel(situation(PlanState.RELEASED, (125, 120), (E, E))),
    ],
)
def test_a_refusal_names_the_plan_or_group_and_what_to_do(decision: Decision) -> None:
    assert isinstance(decision, Refuse)
    assert PLAN_ID in decision.error.message or "orders-svc" in decision.error.message
    assert decision.error.hint


def test_the_noted_position_is_kept_to_the_end() -> None:
    """Compaction leaves one state record: without it, nobody could read the evidence after `released`."""
    first = next_state(None, PlanState.RELEASING, at_ms=1, who="me", epoch=1, log_position=500)
    again = next_state(first, PlanState.RELEASING, at_ms=2, who="me", epoch=2, log_position=900)
    released = next_state(again, PlanState.RELEASED, at_ms=3, who="me", epoch=2)
    moving = cancel(situation(PlanState.RELEASED, (120, None), (E, E)), ["possible-duplicates"])
    assert isinstance(moving, MoveBack)
    cancelling = next_state(released, PlanState.CANCELLING, at_ms=4, who="me", epoch=3, moving=moving)
    cancelled = next_state(cancelling, PlanState.CANCELLED, at_ms=5, who="me", epoch=4, note="so")

    assert {record.log_position for record in (first, again, released, cancelling, cancelled)} == {500}
    assert cancelling.targets == cancelled.targets == (("orders", 0, 70), ("orders", 1, 70))
    assert cancelling.expected == cancelled.expected == (("orders", 0, 120), ("orders", 1, None))
    assert (cancelled.state, cancelled.note, cancelled.epoch, cancelled.at_ms) == (PlanState.CANCELLED, "so", 4, 5)


# The model's counterexamples


@dataclass(frozen=True)
class Story:
    """What the model's application, runners and operator had done when somebody decided; a gap of [0, 2)."""

    state: PlanState
    commits: tuple[tuple[int, int, str], ...]
    """(partition, offset, whose: "app", "operator", "release" or "back"), since the noted position."""
    delivered: tuple[int, ...] = ()
    live: bool = False
    partitions: int = 1
    targets: tuple[int, ...] = ()

    def situation(self) -> Situation:
        start = Commit(0, None, "")
        plan = make_plan(*(gap_range(number, 0, 2, start) for number in range(self.partitions)))
        whose = {"release": RELEASE, "back": BACK, "app": "", "operator": ""}
        commits = tuple(
            CommitWritten(number, number, "orders", partition, offset, whose[by], None, None, TransactionEnd.PLAIN)
            for number, (partition, offset, by) in enumerate(self.commits)
        )
        committed: dict[TopicPartition, Commit | None] = {item.tp: start for item in plan.ranges}
        for commit in commits:
            assert commit.offset is not None
            committed[commit.tp] = Commit(commit.offset, None, commit.metadata)
        progress = [made(number, to, to) for number, to in enumerate(self.delivered)]
        known = ledgered(
            plan,
            self.state,
            progress,
            targets=dict(enumerate(self.targets)),
            expected=dict.fromkeys(range(len(self.targets)), 2),
        )
        evidence = find_evidence(plan, ReleaseHistory(commits), committed, live=self.live)
        return Situation(known, EPOCH, evidence, committed, self.live)


@pytest.mark.parametrize(
    ("story", "resumed", "cancelled", "forced"),
    [
        # noputback: a fenced runner put offsets back under a group that had gone on. Nothing is decided from `fenced`
        # but to stop; its successor finds the release and moves no offset.
        (
            Story(PlanState.RELEASING, ((0, 2, "release"), (0, 3, "app"))),
            "WriteReleased",
            "refused possible-duplicates",
            "back 0:0",
        ),
        # refusal: the commit was refused since the application had started, which then got to the end by itself; taken
        # for released, the gap was replayed a second time.
        (
            Story(PlanState.RELEASING, ((0, 1, "app"), (0, 2, "app")), live=True),
            "close group-continued",
            "close",
            "close",
        ),
        (Story(PlanState.RELEASING, ((0, 1, "app"), (0, 2, "app"))), "close group-continued", "close", "close"),
        # history (with it): the same, and a cancel moved the group back below what it had handled.
        (
            Story(PlanState.RELEASING, ((0, 1, "app"), (0, 2, "app"), (0, 3, "app"))),
            "close group-continued",
            "close",
            "close",
        ),
        # epochfirst: a task that read before the epoch was written delivers under a cancel; it is seen, and what it
        # delivered is not handled a second time unless that is accepted.
        (
            Story(PlanState.RELEASED, ((0, 2, "release"),), delivered=(1,)),
            "replay 0",
            "refused possible-duplicates",
            "back 0:1",
        ),
        # cancelling: a cancel died between its moves and its last record, and somebody resumed: twice.
        (
            Story(PlanState.CANCELLING, ((0, 2, "release"), (0, 0, "back")), targets=(0,)),
            "refused cancelling",
            "close",
            "close",
        ),
        (Story(PlanState.CANCELLING, ((0, 2, "release"),), targets=(0,)), "refused cancelling", "on 0:0", "on 0:0"),
        # cancelends: nothing was delivered, but the group had gone on from the end.
        (
            Story(PlanState.RELEASED, ((0, 2, "release"), (0, 3, "app"))),
            "replay 0",
            "refused possible-duplicates",
            "back 0:0",
        ),
        # hold: the application started between `releasing` and the commit.
        (Story(PlanState.RELEASING, ((0, 1, "app"),)), "close group-continued", "close", "close"),
        # hold: a paused runner releases after another's cancel; whoever looks next finds its mark, and it is not lost.
        (Story(PlanState.RELEASING, ((0, 2, "release"),)), "WriteReleased", "back 0:0", "back 0:0"),
        # perpart: a release that broke off between two partitions, and the application went on with the first.
        (
            Story(PlanState.RELEASING, ((0, 2, "release"), (0, 3, "app")), partitions=2),
            "release 1:2",
            "refused possible-duplicates",
            "back 0:0",
        ),
        # history: nothing was released, the application handled one of two partitions: no way out without it.
        (
            Story(PlanState.RELEASING, ((1, 1, "app"), (1, 2, "app")), partitions=2),
            "close group-continued",
            "close",
            "close",
        ),
        (
            Story(PlanState.RELEASING, ((0, 2, "release"), (0, 3, "app"), (1, 1, "app")), partitions=2),
            "refused group-continued",
            "refused possible-duplicates",
            "back 0:0",
        ),
        # history: a move back was refused since the application had started at the head.
        (
            Story(PlanState.CANCELLING, ((0, 2, "release"), (0, 3, "app")), partitions=2, targets=(0,)),
            "refused cancelling",
            "refused possible-duplicates",
            "on 0:0",
        ),
        (
            Story(PlanState.CANCELLING, ((0, 2, "release"), (1, 1, "app")), partitions=2, targets=(0,)),
            "refused cancelling",
            "on 0:0",
            "on 0:0",
        ),
    ],
)
def test_the_counterexamples_of_the_model(story: Story, resumed: str, cancelled: str, forced: str) -> None:
    now = story.situation()

    assert told(resume(now)) == resumed
    assert told(cancel(now)) == cancelled
    assert told(cancel(now, ["possible-duplicates"])) == forced
