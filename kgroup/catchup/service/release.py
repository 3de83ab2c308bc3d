"""Moving the offsets of a group that is held: to the head, and back into its gap.

What is decided elsewhere (``kgroup.catchup.decisions``) is carried out here, in one order: the ledger says what will
be done, and only when that is committed there is a commit sent, as the member that holds the group (DESIGN.md 4.3).
Whoever is fenced, refused or no longer alone stops where it is: its successor finds out how far it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kgroup.catchup.model import CatchupPlan, Place, PlanState, RunnerEpoch, StateRecord
from kgroup.catchup.offset_moves import at_end
from kgroup.catchup.release_evidence import GroupCommit, ReleaseHistory
from kgroup.catchup.steps import MoveBack, OffsetMove, Release, next_state
from kgroup.cluster.membership.exclusive import ExclusiveMembership
from kgroup.cluster.offsets_topic.commits import CommitHistory, CommitRecord
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.writes import ChangingCluster
from kgroup.model.groups import Commit
from kgroup.support.errors import KgroupError, Refused
from kgroup.support.quoting import quote
from kgroup.support.units import plural

_NAMED = 5


class LedgerWriter(Protocol):
    """Who works on a plan: has fenced its predecessors, and has its epoch in the ledger."""

    @property
    def epoch(self) -> RunnerEpoch:
        """Its own."""

    def write(self, *values: StateRecord) -> None:
        """Return when they are committed. Raises Refused [superseded] where another run has taken the plan over."""


class StateWriter:
    """The states of a plan, written one after the other; ``record`` is what the ledger says now.

    ``now_ms`` is the clock.
    """

    def __init__(self, ledger: LedgerWriter, record: StateRecord, now_ms: Callable[[], int]) -> None:
        self.record = record
        self.epoch = ledger.epoch.number
        self._ledger = ledger
        self._now_ms = now_ms

    def write(
        self,
        state: PlanState,
        *,
        log_position: int | None = None,
        moving: MoveBack | None = None,
        note: str | None = None,
    ) -> None:
        """Let the ledger say ``state``. Raises Refused [superseded], and what the ledger does."""
        record = next_state(
            self.record,
            state,
            at_ms=self._now_ms(),
            who=self._ledger.epoch.who,
            epoch=self.epoch,
            log_position=log_position,
            moving=moving,
            note=note,
        )
        self._ledger.write(record)
        self.record = record

    def again(self) -> None:
        """Let the ledger say what it says. Raises Refused [superseded], which is what this is for."""
        self.write(self.record.state)


def first_release(plan: CatchupPlan, epoch: int) -> Release:
    """The release of a plan of which nothing was released yet: each partition from where it was to its end."""
    return Release(
        tuple(OffsetMove(*item.place, item.before, (at_end(plan, item, epoch),)) for item in plan.ranges), None
    )


def release_plan(cluster: ChangingCluster, plan: CatchupPlan, states: StateWriter) -> None:
    """Hold the plan's group, release all of it, leave; the time that this takes does not depend on the gap.

    Raises what ``ChangingCluster.hold`` and ``release`` do.
    """
    with hold(cluster, plan) as holding:
        release(cluster, holding, first_release(plan, states.epoch), states)


def hold(cluster: ChangingCluster, plan: CatchupPlan, *, as_planned: bool = True) -> ExclusiveMembership:
    """A block in which nobody else moves the offsets of the plan's group, nor reads its partitions as its member.

    ``as_planned`` is whether the group has to have the type that it had when the plan was made: one that goes on with a
    plan takes it as it is, for the application may have come back with another protocol meanwhile.
    """
    kind = type_of(plan) if as_planned else None
    return cluster.hold(group_of(plan), kind, [item.place for item in plan.ranges])


def release(cluster: Cluster, holding: ExclusiveMembership, step: Release, states: StateWriter) -> None:
    """Move partitions to the head, in a group that is held; the ledger says ``releasing``, then ``released``.

    Raises Refused [moved-since] where a commit is not what the step was made for: nothing is changed then. Raises
    Refused [superseded] or [not-empty], Unreachable [outcome-unknown], or what is wrong with one partition: then the
    history of the group's commits tells what was moved.
    """
    check(holding, step.moves)
    noted = cluster.end_of_commits(holding.group) if step.log_position is None else step.log_position
    states.write(PlanState.RELEASING, log_position=noted)
    _carry_out(holding, step.moves, states)
    states.write(PlanState.RELEASED)


def move_back(holding: ExclusiveMembership, step: MoveBack, states: StateWriter) -> None:
    """Move partitions back, in a group that is held; the ledger says ``cancelling``, then ``cancelled``.

    Raises as ``release``. ``cancelling`` is written even where the ledger says it already, and then with the targets
    that it has: nothing is committed by whom the ledger has fenced.
    """
    check(holding, step.moves)
    states.write(PlanState.CANCELLING, moving=step if step.write else None)
    _carry_out(holding, step.moves, states)
    states.write(PlanState.CANCELLED)


def check(holding: ExclusiveMembership, moves: Iterable[OffsetMove]) -> None:
    """Raise Refused [moved-since] unless every partition stands where the step that was decided found it."""
    found = standing(holding)
    moved = [(move, found.get(move.place)) for move in moves if found.get(move.place) != move.stands]
    if not moved:
        return
    for _, now in moved:
        if isinstance(now, KgroupError):
            raise now
    rows = [
        f"{move.topic}:{move.partition} was {_shown(move.stands)}, is {_shown(now)}"
        for move, now in moved
        if not isinstance(now, KgroupError)
    ]
    more = (f"and {len(rows) - _NAMED} more",) if len(rows) > _NAMED else ()
    raise Refused(
        f"{holding.group}'s offsets were moved since they were read: {plural(len(rows), 'partition')}",
        details=(*rows[:_NAMED], *more),
        hint=f"nothing was changed; see who moved them: kgroup history {quote(holding.group)}",
        code="moved-since",
    )


def _carry_out(holding: ExclusiveMembership, moves: Iterable[OffsetMove], states: StateWriter) -> None:
    try:
        carry_out(holding, moves)
    except Refused as error:
        if error.code == "moved-since":  # by another run of kgroup, if one has taken over
            states.again()
        raise


def carry_out(holding: ExclusiveMembership, moves: Iterable[OffsetMove]) -> None:
    """Commit, each partition's commits one after the other, and read back what stands then. Raises as ``release``."""
    moves = tuple(moves)
    holding.alone()
    for turn in range(max((len(move.commits) for move in moves), default=0)):
        wanted = {move.place: move.commits[turn] for move in moves if turn < len(move.commits)}
        for place, error in holding.commit(wanted).items():
            if error is not None:
                raise _at(place, error)
    found = standing(holding)
    for move in moves:
        now = found.get(move.place)
        if now != move.commits[-1]:
            raise now if isinstance(now, KgroupError) else _overwritten(holding.group, move, now)


def standing(holding: ExclusiveMembership) -> Mapping[Place, Commit | KgroupError]:
    """What is committed now; a KgroupError where an open transaction is about to commit."""
    return holding.committed()


def read_history(cluster: Cluster, plan: CatchupPlan, position: int | None, budget_s: float) -> ReleaseHistory:
    """The commits of a plan's group since the position that ``releasing`` noted: evidence of what was moved.

    It is read for ``budget_s`` at most; why that is not all of it is in ``unread``. ``position`` None: nothing was
    noted, hence nothing moved.
    """
    if position is None:
        return ReleaseHistory(())
    return history_of(cluster.commits_since(group_of(plan), position, budget_s))


def history_of(found: CommitHistory) -> ReleaseHistory:
    """The same for those who judge it. A commit of an open transaction may still come: that makes it unreadable."""
    unread = found.unread
    if unread is None and found.open:
        first = found.open[0]
        unread = f"an open transaction is about to commit {first.topic}:{first.partition}"
    return ReleaseHistory(tuple(map(_group_commit, found.commits)), found.compacted, unread)


def group_of(plan: CatchupPlan) -> str:
    """Whose offsets the plan moves. Raises ValueError for a plan that moves none."""
    if plan.group is None:
        raise ValueError(f"{plan.id} moves no group")
    return plan.group


def type_of(plan: CatchupPlan) -> str:
    """``classic`` or ``consumer``. Raises ValueError for a plan that moves no group."""
    if plan.group_type is None:
        raise ValueError(f"{plan.id} moves no group")
    return plan.group_type


def _group_commit(record: CommitRecord) -> GroupCommit:
    commit = record.commit
    return GroupCommit(
        record.topic,
        record.partition,
        None if commit is None else commit.offset,
        None if commit is None else commit.leader_epoch,
        "" if commit is None else commit.metadata,
        record.timestamp_ms,
        record.log_offset,
    )


def _shown(commit: Commit | None) -> str:
    return "no commit" if commit is None else str(commit.offset)


def _at(place: Place, error: KgroupError) -> KgroupError:
    topic, partition = place
    error.message = f"{topic}:{partition}: {error.message}"
    error.args = (error.message,)
    return error


def _overwritten(group: str, move: OffsetMove, now: Commit | None) -> Refused:
    return Refused(
        f"{move.topic}:{move.partition} of {group} was committed at {move.offset}, and is {_shown(now)}: "
        "somebody commits in transactions beside the group",
        hint=f"find out who: kgroup history {quote(group)}; then go on with the plan",
        code="moved-since",
    )
