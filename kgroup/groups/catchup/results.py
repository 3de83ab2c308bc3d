"""What the catch-up verbs return: values, which ``output.pages.catchup`` turns into pages and documents."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from kgroup.groups.catchup.dead_letters import DeadLetters
from kgroup.groups.catchup.gap import Gap, GapInput, NotMoved
from kgroup.groups.catchup.model import Chunk, PlanPhase
from kgroup.groups.catchup.offset_moves import offset_of
from kgroup.groups.catchup.plan_state import PlanCommands, VerifiedPlan
from kgroup.groups.catchup.replay_rate import ReplayRate
from kgroup.groups.catchup.risks import ReplayPace, Risk, RiskLevel, duration_s
from kgroup.groups.catchup.start_condition import Unstarted
from kgroup.groups.catchup.steps import Decision, MoveBack
from kgroup.groups.change_result import Refusal
from kgroup.model.groups import Group, RowError
from kgroup.model.topic_partition import PartitionName, TopicPartition
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, Unreachable, decisive
from kgroup.support.json_types import Offset


class StartPlan(msgspec.Struct, frozen=True):
    """A plan that may be executed, and what prevents it.

    ``destination`` is where the records go, None if the user has not chosen it; ``guarantee`` is how often. ``checks``
    are those that passed. With ``waits`` the execution would wait until the group is empty, so what time mends is no
    error. ``of_context`` has the options of the replay that are from the context. ``letters`` is what was read of a
    dead-letter topic.
    """

    group: Group | None
    gap_input: GapInput
    chunks: tuple[Chunk, ...]
    risks: tuple[Risk, ...]
    refusals: tuple[Refusal, ...]
    checks: tuple[str, ...]
    pace: ReplayPace
    partial: bool
    at_ms: int
    unread: tuple[RowError, ...]
    destination: str | None
    guarantee: str = ""
    waits: bool = False
    of_context: tuple[str, ...] = ()
    letters: DeadLetters | None = None

    @property
    def gap(self) -> Gap:
        return self.gap_input.gap

    @property
    def takes_s(self) -> float | None:
        """The expected seconds of the replay; None if unknown."""
        return duration_s(self.gap, self.pace)

    @property
    def errors(self) -> tuple[RowError, ...]:
        """Everything that prevents the plan, and the partitions that cannot be caught up."""
        better = {(error.topic, error.partition) for error in self.unread}  # these errors say why it could not be read
        blocked = [
            RowError(risk.code, risk.message, self.gap.group, risk.topic, risk.partition, risk.hint, ExitCode.REFUSED)
            for risk in self.risks
            if risk.level is RiskLevel.BLOCKED
        ]
        rows = [self._row_error(row) for row in self.gap.errors if (row.topic, row.partition) not in better]
        return tuple(filter(self._counts, (*(refusal.row for refusal in self.refusals), *blocked, *rows, *self.unread)))

    def _counts(self, error: RowError) -> bool:
        return not (self.waits and error.exit_code is ExitCode.NOT_YET)

    def _row_error(self, row: NotMoved) -> RowError:
        """The error of a partition; an unreachable broker or a missing right keeps its own exit code."""
        why, hint = row.reason, row.hint
        exit_code = ExitCode.NOT_FOUND if row.code == "not-found" else ExitCode.REFUSED
        fault = None if row.partition is None else self.gap_input.faults.get(TopicPartition(row.topic, row.partition))
        if isinstance(fault, Unreachable | NotAuthorized):
            why, hint, exit_code = fault.message, fault.hint, fault.exit_code
        return RowError(row.code, why, self.gap.group, row.topic, row.partition, hint, exit_code)

    @property
    def passes(self) -> bool:
        """Whether nothing prevents it, or with ``partial`` only errors of partitions."""
        hard = any(self._counts(refusal.row) for refusal in self.refusals)
        hard = hard or any(risk.level is RiskLevel.BLOCKED for risk in self.risks)
        return not hard and (self.partial or not self.errors)

    @property
    def possible(self) -> bool:
        """Whether it may be executed, and has something to do."""
        return bool(self.gap.ranges) and self.passes


class Rehearsal(msgspec.Struct, frozen=True):
    """What Spark and its workers have tried before anything moves: checks that passed, and what prevents a replay."""

    checks: tuple[str, ...] = ()
    errors: tuple[KgroupError, ...] = ()

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The errors, which are of the whole plan."""
        return tuple(Refusal(None, error) for error in self.errors)


class ReleasedPlan(msgspec.Struct, frozen=True):
    """A plan whose group may start, and whose gap is pending; ``planned`` is what ``start`` made it from."""

    state: VerifiedPlan
    commands: PlanCommands
    planned: StartPlan | None = None

    @property
    def errors(self) -> tuple[RowError, ...]:
        """The partitions that were left out."""
        return () if self.planned is None else self.planned.errors


class PlanStatus(msgspec.Struct, frozen=True):
    """One plan as it is now, or as ``stop`` left it (``executed``).

    ``gone`` is why no more of it can be delivered, None if it can. ``refused`` is why the command cannot be executed.
    ``lines`` end the page: what was not changed, and how to do it. ``followed`` is whether it is a refresh of a watch,
    ``rate`` how fast the replay delivers: None before the second refresh.
    """

    state: VerifiedPlan
    commands: PlanCommands
    gone: KgroupError | None
    executed: bool = False
    lines: tuple[str, ...] = ()
    refused: KgroupError | None = None
    followed: bool = False
    rate: ReplayRate | None = None

    @property
    def is_replaying(self) -> bool:
        """Whether a runner works on the plan: there is more to follow."""
        return self.state.phase is PlanPhase.REPLAYING


class PrunedPlans(msgspec.Struct, frozen=True):
    """Finished plans that are pruned, or would be; ``errors`` are of those that cannot be."""

    states: tuple[VerifiedPlan, ...]
    errors: tuple[RowError, ...]
    executed: bool


class ReplayedPlan(msgspec.Struct, frozen=True):
    """The end of a replay. ``took_s`` are its seconds.

    ``untouched`` is whether the group is known not to have been rewound, apart from the rewinds in the verification.
    ``left_out`` are the partitions that ``start`` could not catch up.
    """

    state: VerifiedPlan
    took_s: float
    untouched: bool
    errors: tuple[RowError, ...]
    left_out: tuple[RowError, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """A failed verification has priority over what was left out."""
        if not self.state.verification.complete:
            return decisive([error.exit_code for error in self.errors]) if self.errors else ExitCode.CHECK_FAILED
        return ExitCode.PARTLY if self.left_out else ExitCode.DONE


class MovedOffset(PartitionName, frozen=True):
    """Where a cancellation moves the group's offset of a partition."""

    old_offset: Annotated[Offset | None, "The committed offset before."]
    new_offset: Annotated[Offset, "The committed offset after."]


class Cancellation(msgspec.Struct, frozen=True):
    """A plan and its cancellation. ``refusal`` is why it is impossible, ``executed`` whether it was done."""

    state: VerifiedPlan
    decision: Decision | None
    refusal: KgroupError | None
    executed: bool

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return () if self.refusal is None else (Refusal(self.state.snapshot.plan.group, self.refusal),)

    @property
    def moves(self) -> tuple[MovedOffset, ...]:
        moves = self.decision.moves if isinstance(self.decision, MoveBack) else ()
        return tuple(MovedOffset(*move.tp, offset_of(move.old_commit), move.offset) for move in moves)


CatchupResult: TypeAlias = StartPlan | Unstarted | ReleasedPlan | PlanStatus | PrunedPlans | ReplayedPlan | Cancellation
