"""What ``start``, ``resume``, ``stop`` and ``cancel`` do with a plan: the ledger and the group, in the right order.

What is decided stands in ``decisions``, how offsets are moved in ``release``; here they are brought together. A runner
is taken over first, always: then nobody else writes, and what is read stays true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from kgroup.catchup import decisions
from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.model import CatchupPlan, Delivery, Place, PlanSnapshot, PlanState
from kgroup.catchup.release_evidence import OffsetRewind, ReleaseEvidence, find_evidence, set_back
from kgroup.catchup.service.read_gap import log_starts, topic_ids
from kgroup.catchup.service.release import (
    StateWriter,
    carry_out,
    check,
    group_of,
    hold,
    move_back,
    read_history,
    release,
)
from kgroup.catchup.steps import (
    Close,
    Decision,
    MoveBack,
    Nothing,
    Refuse,
    Release,
    Replay,
    Situation,
    Wait,
    WriteReleased,
)
from kgroup.catchup.verification import ChunkResult, Verification, dispute, prove
from kgroup.cluster.membership.exclusive import ExclusiveMembership
from kgroup.cluster.membership.requests import INSTANCE_ID
from kgroup.cluster.snapshot import Want
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.groups import Commit, Group
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, NotFound, Refused, Unreachable
from kgroup.support.quoting import quote

HISTORY_BUDGET_S = 10.0
"""How long the history of a group's commits may be searched for evidence."""

SIGNED_OFF = 0
"""The last sign of a runner that has ended: nobody works on the plan any more."""

_WITHOUT_HOLDING = ("not-empty", "foreign-owner")
"""Others have the group: it can be decided all the same, but nothing is moved."""

_MEMBERS = Want(offsets=False, logs=False, generation_budget_s=0)

Decide = Callable[[Situation], Decision]


def _unheard(text: str) -> None:
    """Where there is nobody to be told."""


_CLASSES = {ExitCode.NOT_AUTHORIZED: NotAuthorized, ExitCode.UNREACHABLE: Unreachable}
"""Of an error that was reported as a row's."""


def without_own(group: Group) -> Group:
    """The group as it is without the member that a killed run of a catch-up left: its successor removes that."""
    others = tuple(member for member in group.members or () if member.instance_id != INSTANCE_ID)
    if group.members is None or len(others) == len(group.members):
        return group
    return replace(group, members=others, state=group.state if others else "Empty")


def is_live(group: Group) -> bool:
    """Whether somebody else is in it; a group whose members may not be seen is what its state says."""
    seen = without_own(group)
    return bool(seen.members) or seen.state not in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class CommitsSinceRelease:
    """What the history of a group's commits tells since its release; ``unread`` is why it does not tell all."""

    set_back: tuple[OffsetRewind, ...] = ()
    unread: str | None = None


@dataclass(frozen=True, slots=True)
class CatchupEngine:
    """The cluster, the ledger, who works, and the clock (ms)."""

    cluster: ChangingCluster
    ledger: Ledger
    who: str
    now_ms: Callable[[], int]
    note: Callable[[str], None] = _unheard
    """Is told what people should know, and what stops nothing."""

    def create(self, plan: CatchupPlan, delivery: Delivery | None = None) -> PlanSnapshot:
        """Write a plan down; nothing is moved. Raises what ``Ledger.prepare`` and ``create`` do."""
        self.ledger.expect(transactional_ids.of_plan(plan.id))
        self.ledger.prepare()
        return self.ledger.create(plan, delivery, now_ms=self.now_ms())

    def take_over(self, found: PlanSnapshot) -> Runner:
        """Become the runner of a plan, as ``Ledger.take_over``. Raises Refused [other-cluster] too."""
        self._require_own_cluster(found.plan)
        return self.ledger.take_over(found.plan.id, who=self.who, now_ms=self.now_ms(), offset=found.offset)

    def release_new(self, runner: Runner) -> PlanSnapshot:
        """Release a plan that was made just now.

        A refusal that comes before anything was moved closes the plan again: nothing is owed. Raises as ``go_on``.
        """
        try:
            return self.go_on(runner, as_planned=True)
        except Refused as refused:
            if runner.found.state.state is PlanState.PLANNED:
                try:
                    self._states(runner).write(PlanState.CANCELLED, note=f"not released: {refused.message}")
                except KgroupError:
                    raise refused from None
                raise Refused(
                    refused.message,
                    details=(*refused.details, f"{runner.plan_id} was closed again: nothing was moved."),
                    hint="start again" if refused.code == "moved-since" else refused.hint,
                    code=refused.code,
                ) from refused
            raise

    def go_on(
        self, runner: Runner, assumed: Mapping[Place, bool] | None = None, *, as_planned: bool = False
    ) -> PlanSnapshot:
        """Bring a plan to ``released``, whatever became of it before; ``assumed`` is what ``--assume`` says.

        ``as_planned``: only while its group has the type that it had.
        Raises Refused with the reason of ``decisions.resume`` or of ``hold``; Unreachable [outcome-unknown].
        """
        found = runner.found
        if found.plan.group is None or found.state.state not in (PlanState.PLANNED, PlanState.RELEASING):
            self._done(runner, None, decisions.resume(Situation(found, runner.epoch.number)))
        else:
            self._moved(runner, decisions.resume, assumed or {}, as_planned=as_planned)
        return runner.found

    def cancel(
        self,
        runner: Runner,
        accepted: Collection[str] = (),
        *,
        give_up: bool = False,
        assumed: Mapping[Place, bool] | None = None,
    ) -> Decision:
        """Give a plan up, and move its group back where that is right; returns what was done. Raises as ``go_on``."""

        def decide(now: Situation) -> Decision:
            return decisions.cancel(now, accepted, give_up=give_up)

        found = runner.found
        if found.plan.group is None or found.state.state in (PlanState.PLANNED, PlanState.DONE, PlanState.CANCELLED):
            return self._done(runner, None, decide(Situation(found, runner.epoch.number)))
        # Nothing is moved by --give-up either. But whoever was about to move must be out before it is said what is left
        # to nobody.
        return self._moved(runner, decide, assumed or {})

    def stop(self, found: PlanSnapshot) -> PlanSnapshot:
        """End whoever works on a plan, and its workers; what they have delivered stays delivered."""
        with self.take_over(found) as runner:
            runner.seen(SIGNED_OFF)
            return runner.found

    def sign_off(self, runner: Runner) -> None:
        """Say that nobody works on it any more; where that can't be written it is seen half a minute later."""
        with suppress(KgroupError):
            runner.seen(SIGNED_OFF)

    def would(self, found: PlanSnapshot, decide: Decide, assumed: Mapping[Place, bool] | None = None) -> Decision:
        """What a command would come to if it was done now: nobody is fenced, and nothing is changed."""
        try:
            self._require_own_cluster(found.plan)
        except Refused as error:
            return Refuse(error)
        return self._decided(found.plan, decide, self._situation(found, 0, None, assumed or {}))

    def _decided(self, plan: CatchupPlan, decide: Decide, now: Situation) -> Decision:
        """What is decided; no offsets are moved that mean nothing any more."""
        decision = decide(now)
        try:
            if isinstance(decision, Release | MoveBack):
                self.require_same_topics(plan)
            elif isinstance(decision, Refuse) and decision.error.code == "twice":
                self.require_sources(plan)  # else the refusal says that a resume delivers the rest
        except (Refused, NotFound) as error:
            return Refuse(error)
        return decision

    def finish(self, runner: Runner, proof: Verification) -> None:
        """Close a plan of which nothing is left to be delivered; what is lost is named, and stays lost.

        One whose results do not fit together stays open, and the ledger says why: no later run may prove it.
        """
        note = dispute(proof)
        if note is not None and note != runner.found.state.note:
            self._states(runner).write(runner.found.state.state, note=note)
        if proof.undelivered or note is not None:
            return
        lost = ", ".join(f"{row.topic}:{row.partition} [{row.start}, {row.end})" for row in proof.lost)
        self._states(runner).write(PlanState.DONE, note=f"lost: {lost}" if lost else None)

    def proof(
        self, found: PlanSnapshot, results: Iterable[ChunkResult] = (), since: CommitsSinceRelease | None = None
    ) -> Verification:
        """What the ledger proves of a plan now, with what is lost by now and what comes twice (None: look now).

        What can't be asked is left out: a proof of the past needs no broker's answer.
        """
        plan = found.plan
        starts: Mapping[Place, int] = {}
        with suppress(KgroupError):
            starts = log_starts(self.cluster, [item.place for item in plan.ranges])
        return prove(found, results, log_starts=starts, twice=(since or self.since(found)).set_back)

    def since(self, found: PlanSnapshot) -> CommitsSinceRelease:
        """What became of a group's offsets since its release."""
        plan, position = found.plan, found.state.log_position
        if plan.group is None or position is None:
            return CommitsSinceRelease()
        try:
            history = read_history(self.cluster, plan, position, HISTORY_BUDGET_S)
        except KgroupError as error:
            return CommitsSinceRelease(unread=error.message)
        compacted = "some of it is compacted away" if history.compacted else None
        return CommitsSinceRelease(set_back(plan, history), history.unread or compacted)

    def _moved(
        self, runner: Runner, decide: Decide, assumed: Mapping[Place, bool], *, as_planned: bool = False
    ) -> Decision:
        """Decide while nobody else can move the group's offsets.

        Where it can't be held, since it has members or something is gone, it is decided without moving any: a
        predecessor's member is out by then all the same.
        """
        found, inside = runner.found, False
        holding = hold(self.cluster, found.plan, as_planned=as_planned)
        try:
            with holding:
                inside = True
                now = self._situation(found, runner.epoch.number, holding, assumed)
                return self._done(runner, holding, self._decided(found.plan, decide, now))
        except (Refused, NotFound) as error:
            if inside or (isinstance(error, Refused) and error.code not in _WITHOUT_HOLDING):
                raise
            decision = self._decided(found.plan, decide, self._seen(runner, assumed))
            moves = isinstance(decision, Release | MoveBack)
            if moves or (isinstance(decision, Refuse) and decision.error.code == error.code):
                raise  # this one says who is there, or what is not
            return self._done(runner, None, decision)
        finally:
            self._tell_of(holding)

    def _tell_of(self, holding: ExclusiveMembership) -> None:
        if holding.stays is not None:
            self.note(
                f"kgroup's own member may still be in {holding.group} ({holding.stays.message}): until it is out, in a "
                "minute at most, nobody else gets partitions; to take it out now: "
                f"kgroup evict {quote(holding.group)} --instance {INSTANCE_ID} --execute"
            )

    def _require_own_cluster(self, plan: CatchupPlan) -> None:
        """A ledger that was mirrored has plans of another cluster, whose offsets mean nothing here."""
        here = self.cluster.ref.cluster_id
        if plan.cluster_id is not None and here is not None and plan.cluster_id != here:
            raise Refused(
                f"{plan.id} is a plan of another cluster, {plan.cluster_id}: this one is {here}, and has a copy of its "
                "ledger",
                hint="go on with it there; for plans of this cluster name a ledger of its own: --ledger-topic",
                code="other-cluster",
            )

    def require_same_topics(self, plan: CatchupPlan) -> None:
        """Offsets of a topic that was made anew mean nothing. Raises Refused [topic-recreated]."""
        now = topic_ids(self.cluster, {item.topic for item in plan.ranges})
        for item in plan.ranges:
            known = now.get(item.topic)
            if known is not None and item.topic_id is not None and known != item.topic_id:
                raise Refused(
                    f"{item.topic} was deleted and made anew since {plan.id} was made: its offsets mean nothing now",
                    hint=f"what is not delivered is gone: kgroup catchup cancel {plan.id} --give-up --execute ends it",
                    code="topic-recreated",
                )

    def require_sources(self, plan: CatchupPlan) -> None:
        """Raise where nothing more can be delivered: NotFound for a topic that was deleted; as ``require_same_topics``.

        A topic that may not be seen may be there.
        """
        for topic, layout in self.cluster.layouts({item.topic for item in plan.ranges}).items():
            if isinstance(layout, NotFound):
                raise NotFound(
                    f"{topic} was deleted: what {plan.id} has not delivered of it is gone",
                    hint=f"kgroup catchup cancel {plan.id} --give-up --execute ends it",
                    code="unknown-topic",
                )
        self.require_same_topics(plan)

    def _seen(self, runner: Runner, assumed: Mapping[Place, bool]) -> Situation:
        return self._situation(runner.found, runner.epoch.number, None, assumed)

    def _situation(
        self, found: PlanSnapshot, epoch: int, holding: ExclusiveMembership | None, assumed: Mapping[Place, bool]
    ) -> Situation:
        """What is known; without ``holding`` somebody may be in the group, which is looked up."""
        plan, position = found.plan, found.state.log_position
        if plan.group is None:
            return Situation(found, epoch)
        live = False if holding is not None else self._is_live(plan.group)
        history = read_history(self.cluster, plan, position, HISTORY_BUDGET_S)
        committed = self._committed(plan, holding)
        evidence: Mapping[Place, ReleaseEvidence] = {}
        if found.state.state is not PlanState.PLANNED:
            evidence = find_evidence(plan, history, committed, live=live, assumed=assumed)
        return Situation(
            found,
            epoch,
            evidence,
            committed,
            live,
            set_back=set_back(plan, history),
            log_starts=log_starts(self.cluster, [item.place for item in plan.ranges]),
        )

    def _committed(self, plan: CatchupPlan, holding: ExclusiveMembership | None) -> dict[Place, Commit | None]:
        group = group_of(plan)
        found = holding.committed() if holding is not None else self.cluster.committed([group])[group]
        if isinstance(found, NotFound):
            return {}
        if isinstance(found, KgroupError):
            raise found
        standing: dict[Place, Commit | None] = {}
        for item in plan.ranges:
            commit = found.get(item.place)
            if isinstance(commit, KgroupError):
                raise commit
            standing[item.place] = commit
        return standing

    def _is_live(self, group: str) -> bool:
        found = self.cluster.describe([group], _MEMBERS)
        for error in found.errors:
            if error.group == group and error.code != NotFound.code:
                raised = _CLASSES.get(error.exit_code, KgroupError)
                raise raised(f"{group}: {error.message}", hint=error.hint, code=error.code)
        return any(is_live(item) for item in found.groups)

    def _states(self, runner: Runner) -> StateWriter:
        return StateWriter(runner, runner.found.state, self.now_ms)

    def _done(self, runner: Runner, holding: ExclusiveMembership | None, decision: Decision) -> Decision:
        states = self._states(runner)
        match decision:
            case Refuse(error=error):
                raise error
            case Release() if holding is not None:
                release(self.cluster, holding, decision, states)
            case MoveBack() if holding is not None:
                move_back(holding, decision, states)
            case WriteReleased():
                states.write(PlanState.RELEASED)
            case Close(restores=restores, refused=refused):
                if restores and holding is not None:
                    check(holding, restores)
                    runner.seen(self.now_ms())  # nothing is committed by whom the ledger has fenced
                    carry_out(holding, restores)
                states.write(PlanState.CANCELLED, note=decision.note)
                if refused is not None:
                    raise refused
            case Wait(why=why):
                raise Refused(why, hint="try again in a minute", code="open-transaction")
            case Nothing() | Replay():
                pass
            case _:
                raise AssertionError(f"{decision} without holding the group")
        return decision
