"""``--to-group``: the application itself reads the gap, in a second group whose commits kgroup writes and follows.

The order is: the plan is released; the gap's start is committed to the second group, with the plan's mark; the ledger
gets the progress of each chunk, which confirms it. From then on each commit of the application is progress. A run that
was killed between two of these steps is continued by the marks. A run that was paused, and superseded meanwhile, may
commit the start once more: then the application reads records again, and none is left out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.fork import FORK_EXISTS, check_fork, prepare_fork, require_no_file_sink, run_fork
from kgroup.catchup.service.read_gap import log_starts
from kgroup.catchup.service.replay import ReplayOptions, ReplayResult
from kgroup.changes.rights import missing_release_rights
from kgroup.cluster.commit_requests import parts_of
from kgroup.cluster.first_records import first_records
from kgroup.cluster.snapshot import SnapshotRequest
from kgroup.cluster.topics import TopicLayout
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.elsewhere import ELSEWHERE
from kgroup.groups.catchup.model import GapRange, PlanSnapshot, PlanState
from kgroup.groups.catchup.second_group import (
    DELETE_GROUP,
    SECOND_GROUP,
    Handover,
    gap_commit,
    hand_over,
    is_mark,
    is_mark_of_another,
    new_progress,
    overrun,
    past_end,
)
from kgroup.groups.foreign_owners import foreign_owner, refuse_foreign_owner
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, RowError
from kgroup.model.reporter import ProgressPart
from kgroup.model.streaming_query import is_query
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import (
    NOT_EMPTY,
    ExitCode,
    KgroupError,
    NotFound,
    Refused,
    Unreachable,
    UsageError,
    refusal_code,
)
from kgroup.support.hint import Hint
from kgroup.support.stdout_reader import pause
from kgroup.support.units import plural, some_of

SECOND_GROUP_USED = refusal_code(
    "second-group-used",
    "catchup",
    "The group of --to-group has commits that are not the plan's, on partitions of the gap.",
    "Name another group, or delete those commits: delete, or delete-offsets.",
)

_LOOK_EVERY_S = 1.0
_SIGN_EVERY_S = 5.0
_STILL_FOR_S = 3.0
"""A position that did not move for so long may be at the last record, before a transaction's marker."""
_UNREACHABLE_FOR_S = 300.0
_STOPS_WITHIN_S = 600.0
"""How long ``--delete-group`` waits for the application to stop."""

_Commits = dict[TopicPartition, Commit]


def second_group_of(snapshot: PlanSnapshot) -> str | None:
    """The group that reads the gap of the plan; None: another sink gets it."""
    delivery = snapshot.delivery
    return delivery.options["group"] if delivery is not None and delivery.sink == SECOND_GROUP else None


def check_second_group(
    engine: CatchupEngine,
    options: ReplayOptions,
    group: str | None,
    ranges: tuple[GapRange, ...],
    snapshot: PlanSnapshot | None,
) -> tuple[tuple[str, ...], tuple[KgroupError, ...]]:
    """(checks that passed, what prevents the handover of these ranges to the second group).

    ``group`` is the plan's, ``snapshot`` the plan if it is in the ledger. Raises UsageError for an impossible choice.
    """
    sink_options = options.sink_options or {}
    if options.sink == ELSEWHERE:
        return (), ()
    name = sink_options["group"]
    if is_query(name):
        return _check_fork(engine, options, group, name, snapshot)
    if name == group:
        raise UsageError(f"--to-group {name} is the group of the plan itself", hint="name a group of its own")
    partitions = [item.tp for item in ranges]
    if several := sorted({tp for tp in partitions if partitions.count(tp) > 1}):
        why = f"{some_of([str(tp) for tp in several])}: several ranges, and a group has one offset for each partition"
        raise UsageError(f"--to-group cannot deliver {why}", hint="make a plan of each range, one after the other")
    committed = read_commits(engine, name, stable=partitions)
    if snapshot is None:
        left = Handover({}, {tp: committed[tp] for tp in partitions if tp in committed})
        begins = True
    else:
        left = hand_over(snapshot.plan, snapshot.progress, committed, {}, 0)
        begins = bool(left.commits)
    errors: list[KgroupError] = []
    if begins or left.used:
        topics = {tp.topic for tp in partitions}
        errors += [row.error for row in missing_release_rights(engine.reporter, engine.cluster, name, topics)]
        errors += _unfit(engine, name)
    if left.used:
        errors.append(_used(name, left.used))
    elif snapshot is None and committed and DELETE_GROUP in sink_options:
        shown = some_of([str(tp) for tp in sorted(committed)])
        message = f"{name} has commits on {shown}: --delete-group would delete them too"
        errors.append(Refused(message, hint="leave --delete-group out, or name another group", code=SECOND_GROUP_USED))
    if errors:
        return (), tuple(errors)
    return ((f"{name} is Empty, and has no commits on these partitions",) if begins else ()), ()


def _check_fork(
    engine: CatchupEngine, options: ReplayOptions, group: str | None, name: str, snapshot: PlanSnapshot | None
) -> tuple[tuple[str, ...], tuple[KgroupError, ...]]:
    check_fork(group, name, options.fork_command)
    assert group is not None
    require_no_file_sink(engine, group)
    committed = read_commits(engine, name)
    if not committed:
        return (f"{name} is made of the checkpoint of {group}",), ()
    if snapshot is None or hand_over(snapshot.plan, snapshot.progress, committed, {}, 0).used:
        hint = "name a folder that does not exist"
        return (), (Refused(f"{name} is the checkpoint of another query", hint=hint, code=FORK_EXISTS),)
    return (), ()


def _unfit(engine: CatchupEngine, name: str) -> list[KgroupError]:
    """Why the gap's start cannot be committed to the group: members, or a framework that owns its offsets."""
    described = engine.cluster.describe([name], SnapshotRequest(offsets=False, logs=False, generation_budget_s=0))
    group = next(iter(described.groups), None)
    if group is None:
        return []
    if (owner := foreign_owner(group)) is not None:
        return [refuse_foreign_owner(name, owner)]
    return [] if group.is_empty else [_not_empty(name, "the start of the gap cannot be committed to it")]


def _not_empty(name: str, what: str) -> Refused:
    hint = "stop its application, and wait until the group is Empty"
    return Refused(f"{name} has members, so {what}", hint=hint, code=NOT_EMPTY)


def _used(name: str, used: Mapping[TopicPartition, Commit]) -> Refused:
    shown = some_of([f"{tp} at {commit.offset}" for tp, commit in sorted(used.items())])
    return Refused(
        f"{name} has commits of its own on partitions of the gap: {shown}. It is unknown where its application began",
        hint=Hint("name another group; or, if its offsets are not needed: {}", ("delete", name, "--execute")),
        code=SECOND_GROUP_USED,
    )


def read_commits(engine: CatchupEngine, name: str, *, stable: Iterable[TopicPartition] = ()) -> _Commits:
    """What a group has committed, nothing if it does not exist.

    What a transaction is about to commit is left out; raises if it is one of the partitions that are to be ``stable``.
    """
    answer = engine.cluster.committed([name])[name]
    if isinstance(answer, NotFound):
        return {}
    if isinstance(answer, KgroupError):
        raise answer
    for tp in stable:
        if isinstance(error := answer.get(tp), KgroupError):
            raise error.with_context(prefix=f"{name}, {tp}: ")
    return {tp: commit for tp, commit in answer.items() if isinstance(commit, Commit)}


def follow_second_group(engine: CatchupEngine, runner: Runner, job: Sequence[str] = ()) -> ReplayResult:
    """Hand the gap over, and follow the second group until nothing of it is left; then delete the group if wanted.

    If it is the fork of a streaming query, ``job`` is the command that does a batch of it.

    Raises as ``CatchupEngine.release``, Refused [second-group-used], and Unreachable after five minutes without answer.
    """
    begun_s = time.monotonic()
    snapshot = runner.snapshot
    name = second_group_of(snapshot)
    assert name is not None
    assert snapshot.delivery is not None
    follower = _Follower(engine, runner, name)
    if undelivered(snapshot.plan, snapshot.progress):
        if is_query(name):
            prepare_fork(engine, runner, name)
        _hand_over(engine, runner, name)
        if is_query(name):
            run_fork(engine, runner, follower.read, name, job)
        else:
            follower.follow()
    undeleted: tuple[RowError, ...] = ()
    if DELETE_GROUP in snapshot.delivery.options:
        undeleted = _delete(engine, follower, name)
    return ReplayResult((), (), (), time.monotonic() - begun_s, undeleted=undeleted)


def _hand_over(engine: CatchupEngine, runner: Runner, name: str) -> None:
    """Commit the gap's start where it is not yet, and confirm it in the ledger."""
    snapshot, plan = runner.snapshot, runner.snapshot.plan
    partitions = undelivered_partitions(snapshot)
    committed = read_commits(engine, name, stable=partitions)
    starts = log_starts(engine.cluster, partitions)
    left = hand_over(plan, snapshot.progress, committed, starts, runner.epoch.number)
    if left.used:
        raise _used(name, left.used)
    if left.commits:
        if engine.has_members(name):
            raise _not_empty(name, "the start of the gap cannot be committed to it")
        others = _outside(engine, runner, committed)
        runner.heartbeat(engine.now_ms())  # a run that the ledger has fenced must not commit
        failed = _commit(engine, name, {**others, **left.commits}, committed)
        for tp in sorted(failed.keys() & left.commits.keys()):
            raise failed[tp].with_context(prefix=f"{name}, {tp}: ")
        for tp, error in sorted(failed.items()):
            engine.reporter.warn(f"{name} has no offset on {tp}, which is outside of the gap: {error.message}")
        committed |= left.commits  # not what is there now: an application may have begun already
    _write(engine, runner, committed, log_starts(engine.cluster, partitions))
    marked = {tp for tp, commit in committed.items() if is_mark(commit, plan.id)}
    started = marked.intersection(undelivered_partitions(runner.snapshot))
    if started and not is_query(name):
        engine.reporter.event(
            "HANDED OVER",
            f"{plan.id}  {name} begins in the gap on {plural(len(started), 'partition')}: "
            f"start the application with group.id={name} now",
        )


def undelivered_partitions(snapshot: PlanSnapshot) -> list[TopicPartition]:
    """The partitions of which something is left, sorted."""
    return sorted({row.tp for row in undelivered(snapshot.plan, snapshot.progress)})


def _outside(engine: CatchupEngine, runner: Runner, committed: _Commits) -> _Commits:
    """Commits at the log end for the other partitions of the topics that the plan's group reads.

    The application subscribes to whole topics. Without an offset, it would begin there as ``auto.offset.reset`` says,
    and may read all of it.
    """
    plan = runner.snapshot.plan
    topics = {item.topic for item in plan.ranges}
    if plan.group is not None:
        topics |= {tp.topic for tp in read_commits(engine, plan.group)}
    layouts = engine.cluster.layouts(topics)
    inside = {item.tp for item in plan.ranges}
    partitions = {
        TopicPartition(topic, number)
        for topic, layout in layouts.items()
        if isinstance(layout, TopicLayout)
        for number in layout.leaders
    }
    wanted = sorted(partitions - inside - committed.keys())
    logs = engine.cluster.positions(layouts, wanted) if wanted else {}
    return {
        tp: gap_commit(plan.id, runner.epoch.number, log.end.offset)
        for tp, log in logs.items()
        if not isinstance(log, KgroupError)
    }


def _commit(
    engine: CatchupEngine, name: str, writes: Mapping[TopicPartition, Commit | None], old: _Commits
) -> dict[TopicPartition, KgroupError]:
    """Commit, or delete where it is None; returns the errors."""
    answers = engine.cluster.write_offsets(tuple(parts_of(name, writes, {tp: old.get(tp) for tp in writes})))
    return {tp: error for rows in answers for tp, error in rows.items() if error is not None}


def _write(
    engine: CatchupEngine, runner: Runner, committed: _Commits, log_starts_now: Mapping[TopicPartition, int]
) -> None:
    """Write the progress that these commits show."""
    snapshot = runner.snapshot
    rows = new_progress(
        snapshot.plan,
        snapshot.progress,
        committed,
        log_starts_now,
        epoch=runner.epoch.number,
        at_ms=engine.now_ms(),
    )
    if rows:
        runner.write(*rows)


class _Follower:
    """Follows a second group: each of its commits becomes progress in the ledger."""

    def __init__(self, engine: CatchupEngine, runner: Runner, name: str) -> None:
        self._engine, self._runner, self._name = engine, runner, name
        self._past: frozenset[TopicPartition] = past_end(runner.snapshot.plan, runner.snapshot.progress)
        self._moved: dict[TopicPartition, tuple[int, float]] = {}
        self._signed_s = self._answered_s = time.monotonic()

    @property
    def plan_id(self) -> str:
        return self._runner.plan_id

    def follow(self) -> None:
        """Return when nothing is left."""
        plan = self._runner.snapshot.plan
        total = sum(item.offsets for item in plan.ranges)
        with self._engine.reporter.progress("second group", total, "offsets", "FOLLOW") as bar:
            while True:
                self.read()
                left = undelivered(plan, self._runner.snapshot.progress)
                parts = [ProgressPart(*row) for row in _by_topic(plan.ranges, {row.tp: row.offsets for row in left})]
                bar.update(total - sum(row.offsets for row in left), self._text(), parts)
                if not left:
                    break
                pause(_LOOK_EVERY_S)
        over = overrun(self._runner.snapshot.progress)
        self._engine.reporter.event(
            "PAST THE END",
            f"{plan.id}  {self._name} has read the gap: stop its application. "
            f"What it reads from here on {self._twice()}; {plural(over, 'possible duplicate')} so far",
        )

    def sign(self) -> None:
        """Write a heartbeat. Raises Refused [superseded] if another run has taken over."""
        self._signed_s = time.monotonic()
        self._runner.heartbeat(self._engine.now_ms())

    def read(self) -> None:
        """One look: write what is new to the ledger, and say which partitions are past the end."""
        engine, runner = self._engine, self._runner
        try:
            committed = read_commits(engine, self._name)
            starts = log_starts(engine.cluster, undelivered_partitions(runner.snapshot))
            committed = self._past_holes(committed)
        except Unreachable:
            if time.monotonic() - self._answered_s > _UNREACHABLE_FOR_S:
                raise
        else:
            self._answered_s = time.monotonic()
            _write(engine, runner, committed, starts)
        if time.monotonic() - self._signed_s >= _SIGN_EVERY_S:
            self.sign()
        past = past_end(runner.snapshot.plan, runner.snapshot.progress)
        if new := sorted(past - self._past):
            names = some_of([str(tp) for tp in new])
            engine.reporter.note(f"past the end, {self._name} may stop reading: {names}")
        self._past = past

    def _past_holes(self, committed: _Commits) -> _Commits:
        """The commits, moved to the gap's end where they stay before it and no record is left.

        A client may commit the offset after the last record, which is below the end if markers of transactions, or
        holes of compaction, come after it.
        """
        now_s, still = time.monotonic(), {}
        ends = {item.tp: item.end for item in self._runner.snapshot.plan.ranges}
        for tp in undelivered_partitions(self._runner.snapshot):
            commit = committed.get(tp)
            if commit is None or is_mark(commit, self._runner.plan_id) or commit.offset >= ends[tp]:
                continue
            offset, since_s = self._moved.get(tp, (None, now_s))
            if offset != commit.offset:
                self._moved[tp] = commit.offset, now_s
            elif now_s - since_s >= _STILL_FOR_S:
                still[tp] = commit
                self._moved[tp] = commit.offset, now_s
        if not still:
            return committed
        layouts = self._engine.cluster.layouts({tp.topic for tp in still})
        spans = [(tp, LogRange(commit.offset, ends[tp])) for tp, commit in still.items()]
        firsts = self._engine.cluster.ask(partial(first_records, read_committed=True), layouts, spans)
        empty = {span[0]: ends[span[0]] for span, first in firsts.items() if first is None}
        return committed | {tp: committed[tp]._replace(offset=end) for tp, end in empty.items()}

    def _text(self) -> str:
        ranges, progress = self._runner.snapshot.plan.ranges, self._runner.snapshot.progress
        return f"{len(self._past)} of {plural(len(ranges), 'partition')} past the end  {overrun(progress)} read twice"

    def _twice(self) -> str:
        group = self._runner.snapshot.plan.group
        return "is outside of the plan" if group is None else f"{group} reads too"


def _by_topic(ranges: Iterable[GapRange], left: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    """(topic, offsets that are delivered, all offsets)."""
    topics: dict[str, tuple[int, int]] = {}
    for item in ranges:
        done, total = topics.get(item.topic, (0, 0))
        topics[item.topic] = done + item.offsets - left.get(item.tp, 0), total + item.offsets
    return [(topic, done, total) for topic, (done, total) in topics.items()]


def _delete(engine: CatchupEngine, follower: _Follower, name: str) -> tuple[RowError, ...]:
    """Delete the group once its application has stopped; the error if it does not within ten minutes."""
    until_s = time.monotonic() + _STOPS_WITHIN_S
    waiting = False
    while engine.has_members(name):
        if time.monotonic() > until_s:
            return (_undeleted(name, Refused("it still has members", code=NOT_EMPTY)),)
        if not waiting:
            engine.reporter.event("WAIT", f"{name} is deleted once its application has stopped")
        waiting = True
        follower.read()
        pause(_LOOK_EVERY_S)
    follower.read()
    committed = read_commits(engine, name)
    if any(is_mark_of_another(commit, follower.plan_id) for commit in committed.values()):
        return ()  # it was deleted before, and another plan has taken the name since
    follower.sign()  # a run that the ledger has fenced must not delete
    try:
        error = engine.cluster.delete_groups({name: committed})[name]
    except KgroupError as raised:
        error = raised
    if error is None or isinstance(error, NotFound):
        engine.reporter.note(f"{name} is deleted, with {plural(len(committed), 'commit')}")
        return ()
    return (_undeleted(name, error),)


def _undeleted(name: str, error: KgroupError) -> RowError:
    row = RowError.of(error, group=name)
    message = f"{name} was not deleted: {error.message}"
    return RowError(row.code, message, name, hint=Hint("{}", ("delete", name, "--execute")), exit_code=ExitCode.PARTLY)


def seen_now(engine: CatchupEngine, snapshot: PlanSnapshot) -> PlanSnapshot:
    """The plan with the progress that its second group shows now, for a preview. Any other plan is as it was."""
    name = _followed(snapshot)
    if name is None:
        return snapshot
    committed, plan = read_commits(engine, name), snapshot.plan
    starts = log_starts(engine.cluster, undelivered_partitions(snapshot))
    rows = new_progress(plan, snapshot.progress, committed, starts, epoch=0, at_ms=engine.now_ms())
    return replace(snapshot, progress={**snapshot.progress, **{row.chunk: row for row in rows}})


def why_not_withdrawn(engine: CatchupEngine, snapshot: PlanSnapshot) -> Refused | None:
    """Why a plan cannot be cancelled: the group that got its gap has members."""
    name = _followed(snapshot)
    if name is None or not engine.has_members(name):
        return None
    committed = read_commits(engine, name)
    if not (snapshot.progress or any(is_mark(commit, snapshot.plan.id) for commit in committed.values())):
        return None
    return _not_empty(name, f"{snapshot.plan.id} cannot be cancelled: both groups would read the gap")


def withdraw(engine: CatchupEngine, runner: Runner, *, abandon: bool) -> None:
    """Before a plan is cancelled: write how far its second group is, and delete the commits that are kgroup's.

    Raises Refused [not-empty] if the group has members: nothing of it is changed then. With ``abandon`` it reads on.
    """
    name = _followed(runner.snapshot)
    if name is None:
        return
    reads = why_not_withdrawn(engine, runner.snapshot)
    if reads is not None and not abandon:
        raise reads
    committed = read_commits(engine, name)
    _write(engine, runner, committed, log_starts(engine.cluster, undelivered_partitions(runner.snapshot)))
    if reads is not None:
        engine.reporter.warn(f"{name} has members: its application reads on")
        return
    if is_query(name):
        engine.reporter.note(f"the fork {name} stays as it is: remove its folder when no job uses it")
        return
    marked = {tp: None for tp, commit in committed.items() if is_mark(commit, runner.plan_id)}
    for tp, error in _commit(engine, name, marked, committed).items():
        raise error.with_context(prefix=f"{name}, {tp}: ")
    if left := sorted(committed.keys() - marked.keys()):
        hint = Hint("{}", ("delete", name, "--execute"))
        engine.reporter.note(f"{name} keeps its own commits on {some_of([str(tp) for tp in left])}: {hint}")


def _followed(snapshot: PlanSnapshot) -> str | None:
    """The second group of a plan whose gap may have been handed over."""
    handed = snapshot.state.state in (PlanState.RELEASED, PlanState.CANCELLING) and snapshot.damage is None
    return second_group_of(snapshot) if handed else None
