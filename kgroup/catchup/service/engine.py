"""Executes ``start``, ``resume``, ``stop`` and ``cancel``: the steps on the ledger and the group, in the right order.

``decisions`` decides, ``release`` moves offsets; this module connects them. The plan is always taken over first: then
no other run writes, and what is read remains true.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import PLAN_OPEN, Ledger
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.service.read_gap import current_topic_ids, log_starts
from kgroup.catchup.service.release import (
    SoleMembership,
    StateWriter,
    check,
    commit_moves,
    exclusive_membership,
    group_of,
    move_back,
    read_history,
    release,
)
from kgroup.changes.journal import OTHER_CLUSTER
from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.catchup import decisions
from kgroup.groups.catchup.decisions import POSSIBLE_DUPLICATES
from kgroup.groups.catchup.model import CatchupPlan, Delivery, PlanSnapshot, PlanState
from kgroup.groups.catchup.release_evidence import OffsetRewind, ReleaseEvidence, find_evidence, find_rewinds
from kgroup.groups.catchup.steps import (
    AlreadyDone,
    Close,
    Decision,
    MoveBack,
    Refuse,
    Release,
    Replay,
    Situation,
    WriteReleased,
)
from kgroup.groups.catchup.takeover import SIGNED_OFF, Takeover, takeover_of
from kgroup.groups.catchup.verification import ChunkResult, Verification, contradiction_note, verify
from kgroup.groups.undo_plan import TOPIC_RECREATED
from kgroup.model.commit import Commit
from kgroup.model.groups import Group
from kgroup.model.migration_facts import CATCHUP_INSTANCE_ID
from kgroup.model.reporter import NullReporter, Reporter
from kgroup.model.streaming_query import is_query
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import (
    FOREIGN_OWNER,
    MOVED_SINCE,
    NOT_EMPTY,
    ExitCode,
    KgroupError,
    NotAuthorized,
    NotFound,
    Refused,
    Unreachable,
)
from kgroup.support.hint import Hint
from kgroup.support.stdout_reader import pause

HISTORY_BUDGET_S = 10.0
"""How long the history of a group's commits is searched for evidence."""

_SIGN_OFF_WITHIN_S = 2.0
_PAUSE_S = 0.2

_WITHOUT_MEMBERSHIP = (NOT_EMPTY, FOREIGN_OWNER)
"""Why we cannot join the group: what to do can be decided, but no offset is moved."""

_MEMBERS = SnapshotRequest(offsets=False, logs=False, generation_budget_s=0, queries=True)

Decide = Callable[[Situation], Decision]


_CLASSES = {ExitCode.NOT_AUTHORIZED: NotAuthorized, ExitCode.UNREACHABLE: Unreachable}
"""The exception class of an error that was reported as a row, by its exit code."""


def without_own_member(group: Group) -> Group:
    """The group without the member that a killed catch-up left behind; the next run removes that member."""
    others = tuple(member for member in group.members or () if member.instance_id != CATCHUP_INSTANCE_ID)
    if group.members is None or len(others) == len(group.members):
        return group
    return replace(group, members=others, state=group.state if others else "Empty")


def is_live(group: Group) -> bool:
    """Whether other clients are members; if the members are not visible, the group's state decides."""
    seen = without_own_member(group)
    if group.query is not None:
        return False  # no file shows whether it runs; its checkpoint fences it
    return bool(seen.members) or seen.state not in ("Empty", "Dead")


class CommitsSinceRelease(msgspec.Struct, frozen=True):
    """Changes of the group's offsets since its release; ``unread`` is why the history may be incomplete."""

    set_back: tuple[OffsetRewind, ...] = ()
    unread: str | None = None


class CatchupEngine(msgspec.Struct, frozen=True):
    """The cluster, the ledger, who runs kgroup (``user@host``), the clock (ms), and where it reports."""

    cluster: ChangingCluster
    ledger: Ledger
    who: str
    now_ms: Callable[[], int]
    reporter: Reporter = msgspec.field(default_factory=NullReporter)

    def create(self, plan: CatchupPlan, delivery: Delivery | None = None) -> PlanSnapshot:
        """Write a plan to the ledger; nothing is moved. Raises as ``Ledger.prepare`` and ``Ledger.create``."""
        self.ledger.expect(transactional_ids.of_plan(plan.id))
        self.ledger.prepare()
        return self.ledger.create(plan, delivery, now_ms=self.now_ms())

    def take_over(self, snapshot: PlanSnapshot) -> Runner:
        """Become the runner of a plan. Raises as ``Ledger.take_over``, and Refused [other-cluster]."""
        self._require_own_cluster(snapshot.plan)
        return self.ledger.take_over(
            snapshot.plan.id,
            who=self.who,
            now_ms=self.now_ms(),
            offset=snapshot.offset,
            lenient=snapshot.damage is not None,
        )

    def release_new(self, runner: Runner) -> PlanSnapshot:
        """Release a new plan.

        If it is refused before any offset was moved, the plan is closed: then nothing is pending. Raises as
        ``release``, and Refused [plan-open] if time mends the refusal, but the plan is open.
        """
        try:
            return self.release(runner, as_planned=True)
        except Refused as refused:
            if runner.snapshot.state.state is PlanState.PLANNED:
                try:
                    self._states(runner).write(PlanState.CANCELLED, note=f"not released: {refused.message}")
                except KgroupError:
                    raise refused from None
                raise Refused(
                    refused.message,
                    details=(*refused.details, f"{runner.plan_id} was closed again; no offset was moved."),
                    hint="run the same command again" if refused.code == MOVED_SINCE else refused.hint,
                    code=refused.code,
                ) from refused
            if refused.exit_code is ExitCode.NOT_YET:  # a second start would meet the plan: time alone mends nothing
                message, details, hint = refused.message, refused.details, refused.hint
                raise Refused(message, details=details, hint=hint, code=PLAN_OPEN) from refused
            raise

    def release(
        self, runner: Runner, assumed: Mapping[TopicPartition, bool] | None = None, *, as_planned: bool = False
    ) -> PlanSnapshot:
        """Bring a plan to ``released``, also after an interrupted release; ``assumed`` is from ``--assume``.

        ``as_planned``: only if its group still has the type of the plan. Raises Refused with the reason of
        ``decisions.resume`` or of ``exclusive_membership``; Unreachable [outcome-unknown].
        """
        snapshot = runner.snapshot
        if snapshot.plan.group is None or snapshot.state.state not in (PlanState.PLANNED, PlanState.RELEASING):
            self._carry_out(runner, None, decisions.resume(Situation(snapshot, runner.epoch.number)))
        else:
            self._decide_alone(runner, decisions.resume, assumed or {}, as_planned=as_planned)
        return runner.snapshot

    def cancel(
        self,
        runner: Runner,
        accepted: Collection[str] = (),
        *,
        abandon: bool = False,
        assumed: Mapping[TopicPartition, bool] | None = None,
    ) -> Decision:
        """Cancel a plan and move its group back if possible; returns what was done. Raises as ``release``."""

        def decide(now: Situation) -> Decision:
            return decisions.cancel(now, accepted, abandon=abandon)

        snapshot = runner.snapshot
        if snapshot.plan.group is None or snapshot.state.state in (
            PlanState.PLANNED,
            PlanState.DONE,
            PlanState.CANCELLED,
        ):
            return self._carry_out(runner, None, decide(Situation(snapshot, runner.epoch.number)))
        # --abandon moves nothing either. But a run that was about to move offsets must be out of the group before the
        # abandoned offsets are reported.
        return self._decide_alone(runner, decide, assumed or {})

    def stop(self, snapshot: PlanSnapshot) -> PlanSnapshot:
        """End the plan's runner and its workers; what they have delivered remains delivered."""
        with self.take_over(snapshot) as runner:
            runner.heartbeat(SIGNED_OFF)
            return runner.snapshot

    def sign_off(self, runner: Runner) -> None:
        """Write that no run works on the plan any more; if that fails, it shows half a minute later."""
        with suppress(KgroupError):
            runner.heartbeat(SIGNED_OFF)

    def takeover(self, runner: Runner) -> Takeover | None:
        """Which run took the plan over from ``runner``; None if the ledger does not show it, or cannot be read.

        ``stop`` takes the plan over and signs off right after that: a run that is still there is looked up again.
        """
        until_s = time.monotonic() + _SIGN_OFF_WITHIN_S
        while True:
            try:
                now = self.ledger.read(runner.plan_id, runner.snapshot.offset)
            except KgroupError:
                return None
            takeover = takeover_of(runner.epoch, now)
            if takeover is None or takeover.stopped or not now.state.state.is_open or time.monotonic() > until_s:
                return takeover
            pause(_PAUSE_S)

    def preview(
        self, snapshot: PlanSnapshot, decide: Decide, assumed: Mapping[TopicPartition, bool] | None = None
    ) -> Decision:
        """What a command would do now, without fencing any run and without changes."""
        try:
            self._require_own_cluster(snapshot.plan)
        except Refused as error:
            return Refuse(error)
        return self._decision(snapshot.plan, decide, self._situation(snapshot, 0, None, assumed or {}))

    def _decision(self, plan: CatchupPlan, decide: Decide, now: Situation) -> Decision:
        """The decision; refused if a topic was recreated or deleted, because then its offsets mean nothing."""
        decision = decide(now)
        try:
            if isinstance(decision, Release | MoveBack):
                self.require_same_topics(plan)
                if is_query(group_of(plan)):  # before any state is written
                    self.cluster.query_membership(group_of(plan)).check({move.topic for move in decision.moves})
            elif isinstance(decision, Refuse) and decision.error.code == POSSIBLE_DUPLICATES:
                self.require_sources(plan)  # else the refusal would recommend a resume
        except (Refused, NotFound) as error:
            return Refuse(error)
        return decision

    def finish(self, runner: Runner, verification: Verification) -> None:
        """Close a plan that has nothing left to deliver; lost offsets are named in its state.

        If the results contradict each other, the plan stays open with the reason: no later run may verify it.
        """
        note = contradiction_note(verification)
        if note is not None and note != runner.snapshot.state.note:
            self._states(runner).write(runner.snapshot.state.state, note=note)
        if verification.undelivered or note is not None:
            return
        lost = ", ".join(str(row) for row in verification.lost)
        self._states(runner).write(PlanState.DONE, note=f"lost: {lost}" if lost else None)

    def verification(
        self, snapshot: PlanSnapshot, results: Iterable[ChunkResult] = (), since: CommitsSinceRelease | None = None
    ) -> Verification:
        """The verification of a plan by the ledger, with current losses and duplicates; ``since`` None: read them now.

        What cannot be read is left out: the verification of what was delivered needs no broker.
        """
        plan = snapshot.plan
        starts: Mapping[TopicPartition, int] = {}
        with suppress(KgroupError):
            starts = log_starts(self.cluster, [item.tp for item in plan.ranges])
        return verify(
            snapshot, results, log_starts=starts, rewinds=(since or self.offsets_since_release(snapshot)).set_back
        )

    def offsets_since_release(self, snapshot: PlanSnapshot) -> CommitsSinceRelease:
        """What happened to a group's offsets since its release."""
        plan, position = snapshot.plan, snapshot.state.log_position
        if plan.group is None or position is None:
            return CommitsSinceRelease()
        try:
            history = read_history(self.cluster, plan, position, HISTORY_BUDGET_S)
        except KgroupError as error:
            return CommitsSinceRelease(unread=error.message)
        compacted = "a part of the history is compacted" if history.compacted else None
        return CommitsSinceRelease(find_rewinds(plan, history), history.unread or compacted)

    def _decide_alone(
        self, runner: Runner, decide: Decide, assumed: Mapping[TopicPartition, bool], *, as_planned: bool = False
    ) -> Decision:
        """Decide and execute under exclusive membership, so that no other client moves the group's offsets.

        If that is not possible, because the group has members or something is deleted, only decisions that move no
        offsets are executed. The member of an interrupted run is removed in any case.
        """
        snapshot, inside = runner.snapshot, False
        membership = exclusive_membership(self.cluster, snapshot.plan, as_planned=as_planned)
        try:
            with membership:
                inside = True
                now = self._situation(snapshot, runner.epoch.number, membership, assumed)
                return self._carry_out(runner, membership, self._decision(snapshot.plan, decide, now))
        except (Refused, NotFound) as error:
            if inside or (isinstance(error, Refused) and error.code not in _WITHOUT_MEMBERSHIP):
                raise
            decision = self._decision(
                snapshot.plan, decide, self._situation(snapshot, runner.epoch.number, None, assumed)
            )
            moves = isinstance(decision, Release | MoveBack)
            if moves or (isinstance(decision, Refuse) and decision.error.code == error.code):
                raise  # this error names the members, or what is missing
            return self._carry_out(runner, None, decision)
        finally:
            self._note_own_member(membership)

    def _note_own_member(self, membership: SoleMembership) -> None:
        error = membership.leave_error
        if error is not None:
            self.reporter.note(
                f"kgroup's own member may still be in {membership.group} ({error.message}). For at most a minute, "
                "other members get no partitions. To remove it now:  "
                + Hint("{}", ("evict", membership.group, "--instance", CATCHUP_INSTANCE_ID, "--execute"))
            )

    def _require_own_cluster(self, plan: CatchupPlan) -> None:
        """Raise Refused for a plan of another cluster, as in a mirrored ledger: its offsets mean nothing here."""
        here = self.cluster.ref.cluster_id
        if plan.cluster_id is not None and here is not None and plan.cluster_id != here:
            raise Refused(
                f"{plan.id} is a plan of cluster {plan.cluster_id}; this cluster, {here}, has a copy of that ledger",
                hint="continue the plan on its own cluster; for plans of this cluster, name another --ledger-topic",
                code=OTHER_CLUSTER,
            )

    def require_same_topics(self, plan: CatchupPlan) -> None:
        """Raise Refused [topic-recreated] if a topic of the plan was recreated: its offsets mean nothing."""
        now = current_topic_ids(self.cluster, {item.topic for item in plan.ranges})
        for item in plan.ranges:
            known = now.get(item.topic)
            if known is not None and item.topic_id is not None and known != item.topic_id:
                raise Refused(
                    f"{item.topic} was deleted and recreated after {plan.id} was made; the old offsets do not apply",
                    hint=Hint("undelivered records are gone; {} closes the plan", _abandon(plan)),
                    code=TOPIC_RECREATED,
                )

    def require_sources(self, plan: CatchupPlan) -> None:
        """Raise if nothing more can be delivered: NotFound for a deleted topic; as ``require_same_topics``.

        A topic that is not visible to this user counts as existing.
        """
        for topic, layout in self.cluster.layouts({item.topic for item in plan.ranges}).items():
            if isinstance(layout, NotFound):
                raise NotFound(
                    f"{topic} was deleted, with the records that {plan.id} has not delivered",
                    hint=Hint("{} closes the plan", _abandon(plan)),
                    code="unknown-topic",
                )
        self.require_same_topics(plan)

    def _situation(
        self,
        snapshot: PlanSnapshot,
        epoch: int,
        membership: SoleMembership | None,
        assumed: Mapping[TopicPartition, bool],
    ) -> Situation:
        """Everything that a decision needs; without ``membership`` it checks for other members of the group."""
        plan, position = snapshot.plan, snapshot.state.log_position
        if plan.group is None:
            return Situation(snapshot, epoch)
        live = False if membership is not None else self.has_members(plan.group)
        history = read_history(self.cluster, plan, position, HISTORY_BUDGET_S)
        if snapshot.damage is not None:
            history = dataclasses.replace(history, unread=snapshot.damage.message)
        committed = self._committed(plan, membership)
        evidence: Mapping[TopicPartition, ReleaseEvidence] = {}
        if snapshot.state.state is not PlanState.PLANNED:
            evidence = find_evidence(plan, history, committed, live=live, assumed=assumed)
        return Situation(
            snapshot,
            epoch,
            evidence,
            committed,
            live,
            set_back=find_rewinds(plan, history),
            log_starts=log_starts(self.cluster, [item.tp for item in plan.ranges]),
        )

    def _committed(self, plan: CatchupPlan, membership: SoleMembership | None) -> dict[TopicPartition, Commit | None]:
        group = group_of(plan)
        answer = membership.committed() if membership is not None else self.cluster.committed([group])[group]
        if isinstance(answer, NotFound):
            return {}
        if isinstance(answer, KgroupError):
            raise answer
        commits: dict[TopicPartition, Commit | None] = {}
        for item in plan.ranges:
            commit = answer.get(item.tp)
            if isinstance(commit, KgroupError):
                raise commit
            commits[item.tp] = commit
        return commits

    def has_members(self, group: str) -> bool:
        """Whether a group has members other than kgroup's own; False if it does not exist."""
        described = self.cluster.describe([group], _MEMBERS)
        for error in described.errors:
            if error.group == group and error.code != NotFound.code:
                raised = _CLASSES.get(error.exit_code, KgroupError)
                raise raised(f"{group}: {error.message}", hint=error.hint, code=error.code)
        return any(is_live(item) for item in described.groups)

    def _states(self, runner: Runner) -> StateWriter:
        return StateWriter(runner, runner.snapshot.state, self.now_ms)

    def _carry_out(self, runner: Runner, membership: SoleMembership | None, decision: Decision) -> Decision:
        states = self._states(runner)
        match decision:
            case Refuse(error=error):
                raise error
            case Release() if membership is not None:
                release(self.cluster, membership, decision, states)
            case MoveBack() if membership is not None:
                move_back(membership, decision, states)
            case WriteReleased():
                states.write(PlanState.RELEASED)
            case Close(restores=restores, refused=refused):
                if restores and membership is not None:
                    check(membership, restores)
                    runner.heartbeat(self.now_ms())  # a run that the ledger has fenced must not commit
                    commit_moves(membership, restores)
                states.write(PlanState.CANCELLED, note=decision.note)
                if refused is not None:
                    raise refused
            case AlreadyDone() | Replay():
                pass
            case _:
                raise AssertionError(f"{decision} without exclusive membership")
        return decision


def _abandon(plan: CatchupPlan) -> tuple[str, ...]:
    return "catchup", "cancel", plan.id, "--abandon", "--execute"
