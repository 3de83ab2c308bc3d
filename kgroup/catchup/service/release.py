"""Moves the offsets of a group under exclusive membership: to the log end, and back into its gap.

``groups.catchup.decisions`` decides; this module executes, in a fixed order. First the planned state is committed to
the ledger. Then the offsets are committed, as the only member of the group. A run that is fenced,
refused or no longer the only member stops at once; the next runner finds out how far it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from kgroup.cluster.checkpoints.query_membership import QueryMembership
from kgroup.cluster.membership.exclusive import ExclusiveMembership
from kgroup.cluster.offsets_topic.commits import CommitHistory
from kgroup.cluster.snapshot import Cluster
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.catchup.model import CatchupPlan, PlanState, RunnerEpoch, StateRecord
from kgroup.groups.catchup.release_evidence import ReleaseHistory
from kgroup.groups.catchup.steps import MoveBack, OffsetMove, Release, next_state
from kgroup.model.commit import Commit
from kgroup.model.streaming_query import is_query
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import MOVED_SINCE, KgroupError, Refused
from kgroup.support.hint import Hint
from kgroup.support.units import plural

_NAMED = 5


class LedgerWriter(Protocol):
    """The runner of a plan: it has fenced the previous ones, and its epoch is in the ledger."""

    @property
    def epoch(self) -> RunnerEpoch:
        """The runner's own epoch."""

    def write(self, *values: StateRecord) -> None:
        """Write and return after the commit. Raises Refused [superseded] if another run has taken over the plan."""


class StateWriter:
    """Writes the states of a plan one after the other; ``record`` is the current one in the ledger.

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
        """Write ``state`` to the ledger. Raises Refused [superseded], and what the ledger raises."""
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

    def rewrite(self) -> None:
        """Write the current state again, to raise Refused [superseded] if another run has taken over."""
        self.write(self.record.state)


SoleMembership: TypeAlias = ExclusiveMembership | QueryMembership


def exclusive_membership(cluster: ChangingCluster, plan: CatchupPlan, *, as_planned: bool = True) -> SoleMembership:
    """Exclusive membership of the plan's group, as a block: no other client can move its offsets or read as its member.

    Of a streaming query, what its checkpoint fences: see ``QueryMembership``.

    ``as_planned`` is whether the group must have the type that it had when the plan was made. A resume passes False,
    because the application may have returned with another protocol.
    """
    if is_query(group_of(plan)):
        return cluster.query_membership(group_of(plan))
    kind = type_of(plan) if as_planned else None
    return cluster.join_exclusively(group_of(plan), kind, [item.tp for item in plan.ranges])


def release(cluster: Cluster, membership: SoleMembership, step: Release, states: StateWriter) -> None:
    """Move partitions to their ends under exclusive membership; the ledger gets ``releasing``, then ``released``.

    Raises Refused [moved-since] if a commit differs from the one that the step expects; then nothing is changed. Raises
    Refused [superseded] or [not-empty], Unreachable [outcome-unknown], or the error of one partition; then the history
    of the group's commits shows what was moved.
    """
    check(membership, step.moves)
    noted = cluster.end_of_commits(membership.group) if step.log_position is None else step.log_position
    states.write(PlanState.RELEASING, log_position=noted)
    _carry_out(membership, step.moves, states)
    states.write(PlanState.RELEASED)


def move_back(membership: SoleMembership, step: MoveBack, states: StateWriter) -> None:
    """Move partitions back under exclusive membership; the ledger gets ``cancelling``, then ``cancelled``.

    Raises as ``release``. ``cancelling`` is written even if it is the current state, and then with the same targets: a
    run that the ledger has fenced must not commit.
    """
    check(membership, step.moves)
    states.write(PlanState.CANCELLING, moving=step if step.write else None)
    _carry_out(membership, step.moves, states)
    states.write(PlanState.CANCELLED)


def check(membership: SoleMembership, moves: Iterable[OffsetMove]) -> None:
    """Raise Refused [moved-since] unless every partition has the commit that the decision was based on."""
    commits = fetch_commits(membership)
    moved = [(move, commits.get(move.tp)) for move in moves if commits.get(move.tp) != move.old_commit]
    if not moved:
        return
    for _, now in moved:
        if isinstance(now, KgroupError):
            raise now
    rows = [
        f"{move.tp} was {_shown(move.old_commit)}, is {_shown(now)}"
        for move, now in moved
        if not isinstance(now, KgroupError)
    ]
    more = (f"and {len(rows) - _NAMED} more",) if len(rows) > _NAMED else ()
    raise Refused(
        f"another client moved offsets of {membership.group} after kgroup read them: {plural(len(rows), 'partition')}",
        details=(*rows[:_NAMED], *more),
        hint=Hint("nothing was changed; {} shows who moved them", ("history", membership.group)),
        code=MOVED_SINCE,
    )


def _carry_out(membership: SoleMembership, moves: Iterable[OffsetMove], states: StateWriter) -> None:
    try:
        commit_moves(membership, moves)
    except Refused as error:
        if error.code == MOVED_SINCE:  # moved by another kgroup run, if one has taken over
            states.rewrite()
        raise


def commit_moves(membership: SoleMembership, moves: Iterable[OffsetMove]) -> None:
    """Commit, each partition's commits one after the other, and read the result back. Raises as ``release``."""
    moves = tuple(moves)
    membership.verify_only_member()
    for turn in range(max((len(move.commits) for move in moves), default=0)):
        wanted = {move.tp: move.commits[turn] for move in moves if turn < len(move.commits)}
        for tp, error in membership.commit(wanted).items():
            if error is not None:
                raise error.with_context(prefix=f"{tp}: ")
    commits = fetch_commits(membership)
    for move in moves:
        now = commits.get(move.tp)
        if now != move.commits[-1]:
            raise now if isinstance(now, KgroupError) else _overwritten(membership.group, move, now)


def fetch_commits(membership: SoleMembership) -> Mapping[TopicPartition, Commit | KgroupError]:
    """The current commits; a KgroupError for a partition with a pending transactional commit."""
    return membership.committed()


def read_history(cluster: Cluster, plan: CatchupPlan, position: int | None, budget_s: float) -> ReleaseHistory:
    """The commits of a plan's group since the position noted in ``releasing``: evidence of what was moved.

    It reads for at most ``budget_s`` (then ``unread`` is set). ``position`` None: none was noted, so nothing moved.
    """
    if position is None:
        return ReleaseHistory(())
    return history_of(cluster.commits_since(group_of(plan), position, budget_s))


def history_of(history: CommitHistory) -> ReleaseHistory:
    """The same as a ReleaseHistory. A pending transactional commit makes it ``unread``, as it may still count."""
    unread = history.unread
    if unread is None and history.open:
        first = history.open[0]
        unread = f"an open transaction is about to commit {first.tp}"
    return ReleaseHistory(history.commits, history.compacted, unread)


def group_of(plan: CatchupPlan) -> str:
    """The group whose offsets the plan moves. Raises ValueError if it moves none."""
    if plan.group is None:
        raise ValueError(f"{plan.id} moves no group")
    return plan.group


def type_of(plan: CatchupPlan) -> str:
    """``classic`` or ``consumer``. Raises ValueError for a plan that moves no group."""
    if plan.group_type is None:
        raise ValueError(f"{plan.id} moves no group")
    return plan.group_type


def _shown(commit: Commit | None) -> str:
    return "no commit" if commit is None else str(commit.offset)


def _overwritten(group: str, move: OffsetMove, now: Commit | None) -> Refused:
    return Refused(
        f"kgroup committed {move.offset} for {move.tp} of {group}, but {_shown(now)} is committed now: "
        "another client commits in transactions",
        hint=Hint("find that client with {}, stop it, then resume the plan", ("history", group)),
        code=MOVED_SINCE,
    )
