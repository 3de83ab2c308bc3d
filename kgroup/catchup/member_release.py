"""Releases partitions of a living group, by the member that was just assigned them: first the ledger, then the commit.

The listener of ``kgroup.consumer`` runs it inside ``on_assign``, where the group may stand still until it returns. So
all of it ends in a bounded time, and whatever fails leaves the partitions where they were committed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.ledger.member_plan import FIRST_EPOCH, close_late, close_void, write_released, write_releasing
from kgroup.catchup.ledger.records import LEDGER_DAMAGED
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.ledger.transactional_ids import of_plan
from kgroup.catchup.ledger.view import affecting
from kgroup.cluster.group_member import GroupMember
from kgroup.cluster.topic_admin import TopicAdmin
from kgroup.cluster.unread_logs import end_of_commits, first_record_times, log_bounds
from kgroup.groups.catchup.behind import BehindBound
from kgroup.groups.catchup.chunks import cut_into_chunks
from kgroup.groups.catchup.member_gap import PlansInTheWay, UnreadLog, behind_ranges, plans_in_the_way
from kgroup.groups.catchup.model import CatchupPlan, GapRange, PlanSnapshot
from kgroup.groups.catchup.offset_moves import release_commit
from kgroup.groups.catchup.takeover import SIGNED_OFF
from kgroup.groups.commit_tags import CatchupCommitTag, new_member_plan_id
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.background import in_background
from kgroup.support.clock import utc_ms
from kgroup.support.errors import MOVED_SINCE, KgroupError, Refused, Unreachable
from kgroup.support.units import some_of
from kgroup.support.user import whoami

LOG = logging.getLogger("kgroup.consumer")

_PARALLELISM = 4


T = TypeVar("T")


class MemberSettings(msgspec.Struct, frozen=True):
    """``config`` is librdkafka's, for the connection alone; ``group_type`` is classic or consumer.

    ``timeout_s`` is how long a client may wait without any answer.
    """

    config: Mapping[str, Any]
    group: str
    group_type: str
    bound: BehindBound
    ledger_topic: str
    reason: str | None
    timeout_s: float


class RecordedRelease(msgspec.Struct, frozen=True):
    """A plan that is in the ledger as ``releasing``, and what is left to do."""

    plan: CatchupPlan
    log_position: int
    runner: Runner
    ledger: Ledger

    @property
    def commits(self) -> dict[TopicPartition, Commit]:
        return {item.tp: release_commit(self.plan, item, FIRST_EPOCH) for item in self.plan.ranges}

    def finish(self) -> None:
        """Write ``released``. If that fails, the marks of the commits show it to the next run."""
        with suppress(KgroupError), self.ledger, self.runner:
            write_released(self.runner, self.log_position, utc_ms())

    def give_up(self) -> None:
        """Close the plan, which has moved nothing. If that fails, the next owner of a partition closes it."""
        with suppress(KgroupError), self.ledger, self.runner:
            close_late(self.runner, utc_ms())


class GapSurvey(msgspec.Struct, frozen=True):
    """The gaps of the partitions that are behind, and the group's open plans."""

    ranges: tuple[GapRange, ...]
    plans: tuple[PlanSnapshot, ...]


def release_behind(
    member: GroupMember, settings: MemberSettings, commits: Mapping[TopicPartition, Commit]
) -> CatchupPlan | None:
    """Record and commit the end of those that are behind of these partitions; None if none is.

    Raises KgroupError, also if the time is over: then no partition is moved, or it is unknown whether the commit was
    stored, and the ledger has the gap in either case.
    """
    recorded = _recorded(member, settings, commits)
    if recorded is None:
        return None
    try:
        _require_unmoved(member, {item.tp: item.before for item in recorded.plan.ranges})
        if member.is_late:
            raise _late()
    except KgroupError:
        in_background("give-up", recorded.give_up)
        raise
    member.commit(recorded.commits)
    in_background("released", recorded.finish)
    return recorded.plan


def _recorded(
    member: GroupMember, settings: MemberSettings, commits: Mapping[TopicPartition, Commit]
) -> RecordedRelease | None:
    """Write the plan of those that are behind. Whatever has no limit of its own runs on another thread.

    The consumer's own requests stay on this one: from another they wait for the end of its callback (2.16).
    """
    recording = _Recording(settings)
    handed_on = False
    try:
        survey = _within(member, lambda: recording.survey(commits), lambda _: None)
        if not survey.ranges:
            return None
        found = _in_the_way(member, survey.ranges, survey.plans)
        taken: tuple[Runner, ...] = ()
        if found.void:
            taken = _within(member, lambda: recording.take_over(found.void), _leave)
            found = _judged(member, survey, taken, commits)
        recorded = _within(member, lambda: recording.record(survey.ranges, found, taken), _give_up)
        handed_on = recorded is not None
        return recorded
    finally:
        if not handed_on:
            in_background("close-ledger", recording.ledger.close)


def _in_the_way(member: GroupMember, ranges: tuple[GapRange, ...], plans: Collection[PlanSnapshot]) -> PlansInTheWay:
    others = {item.tp for plan in plans for item in plan.plan.ranges}
    return plans_in_the_way(ranges, plans, member.committed(others) if others else {})


def _judged(
    member: GroupMember, survey: GapSurvey, taken: tuple[Runner, ...], commits: Mapping[TopicPartition, Commit]
) -> PlansInTheWay:
    """Whether plans that were void are so still, when no other run can release them, and their members cannot either.

    A member that was expelled in its callback finds the plans of its successors, who are about to commit.
    """
    try:
        tp = survey.ranges[0].tp
        mark = CatchupCommitTag.of(commits[tp].metadata)
        member.require_membership(tp, commits[tp]._replace(metadata="" if mark is None else mark.metadata))
        now = {runner.plan_id: runner.snapshot for runner in taken}
        return _in_the_way(member, survey.ranges, [now.get(plan.plan.id, plan) for plan in survey.plans])
    except KgroupError:
        in_background("leave-plans", lambda: _leave(taken))
        raise


def _leave(taken: Iterable[Runner]) -> None:
    """End these runs, without a decision about their plans."""
    for runner in taken:
        with suppress(KgroupError), runner:
            if runner.snapshot.state.state.is_open:
                runner.heartbeat(SIGNED_OFF)


def _within(member: GroupMember, work: Callable[[], T], afterwards: Callable[[T], None]) -> T:
    """The result of ``work``; if it comes when the time is over, ``afterwards`` gets it. Raises KgroupError."""
    result = in_background("record-release", work)
    try:
        return result.result(member.left_s)
    except TimeoutError:

        def done(late: Future[T]) -> None:
            if late.exception() is None:
                afterwards(late.result())

        result.add_done_callback(done)
        raise _late() from None


def _late() -> Unreachable:
    return Unreachable("the ledger was not written before the time was over", code="timed-out")


def _give_up(recorded: RecordedRelease | None) -> None:
    if recorded is not None:
        recorded.give_up()


def _require_unmoved(member: GroupMember, expected: Mapping[TopicPartition, Commit | None]) -> None:
    now = member.committed(expected)
    for tp, before in expected.items():
        commit = now.get(tp)
        if commit is None or before is None or commit.offset != before.offset:
            raise Refused(f"{tp} was moved after this member had read it", code=MOVED_SINCE)


class _Recording:
    """The connections of one assignment: to the logs, and to the ledger."""

    def __init__(self, settings: MemberSettings) -> None:
        self.ledger = Ledger(settings.config, settings.ledger_topic, timeout_s=settings.timeout_s)
        self._settings = settings
        self._admin = TopicAdmin(settings.config, timeout_s=settings.timeout_s)
        self._plan_id = new_member_plan_id()

    def survey(self, commits: Mapping[TopicPartition, Commit]) -> GapSurvey:
        """Read the logs, and the ledger if there is a gap. Raises KgroupError."""
        self.ledger.expect(of_plan(self._plan_id))
        group = self._settings.group
        ranges = behind_ranges(commits, self._read_logs(commits), self._settings.bound, utc_ms())
        if not ranges:
            return GapSurvey((), ())
        self.ledger.prepare()
        # Of many members that start at once, some are always in a transaction: 2 s were too short for 6 of 100.
        listing = self.ledger.list(patience_s=self._settings.timeout_s, wanted=affecting({group}))
        if listing.hidden is not None:
            raise listing.hidden
        if listing.headless:
            raise Refused(f"the ledger's {some_of(sorted(listing.headless))} cannot be read", code=LEDGER_DAMAGED)
        return GapSurvey(ranges, tuple(plan for plan in listing.plans if plan.plan.group == group))

    def _read_logs(self, commits: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, UnreadLog]:
        bounds = log_bounds(self._admin, commits)
        starts = {tp: max(commits[tp].offset, log.start) for tp, log in bounds.items()}
        times = first_record_times(self._settings.config, starts, within_s=self._settings.timeout_s)
        topics = self._admin.describe_topics(sorted({tp.topic for tp in bounds}))
        logs = {}
        for tp, log in bounds.items():
            topic = topics.get(tp.topic)
            known = None if isinstance(topic, KgroupError) else topic
            logs[tp] = UnreadLog(
                *(log.start, log.last_stable, log.last_stable_epoch, log.high_watermark, times.get(tp)),
                topic_id=None if known is None else known.id,
                settings=None if known is None else known.settings,
            )
        return logs

    def take_over(self, plans: Iterable[PlanSnapshot]) -> tuple[Runner, ...]:
        """Become the runner of these plans. Raises KgroupError."""
        taken: list[Runner] = []
        try:
            for plan in plans:
                taken.append(self.ledger.take_over(plan.plan.id, who=whoami(), now_ms=utc_ms(), offset=plan.offset))
        except KgroupError:
            _leave(taken)
            raise
        return tuple(taken)

    def record(
        self, ranges: tuple[GapRange, ...], found: PlansInTheWay, taken: tuple[Runner, ...]
    ) -> RecordedRelease | None:
        """Close the void plans, and write the plan of what no other plan has. Raises KgroupError."""
        void = {plan.plan.id for plan in found.void}
        _leave(runner for runner in taken if runner.plan_id not in void)
        for runner in taken:
            if runner.plan_id in void:
                with runner:
                    close_void(runner, utc_ms())
        kept = found.kept
        if left := [item for item in ranges if item.tp in kept]:
            names = some_of([f"{item.tp} ({kept[item.tp]})" for item in left])
            LOG.warning("%s: not caught up, as an open plan has offsets of it: %s", self._settings.group, names)
        ranges = tuple(item for item in ranges if item.tp not in kept)
        if not ranges:
            return None
        cluster_id, position = end_of_commits(self._admin, self._settings.group)
        plan = CatchupPlan(
            *(self._plan_id, self._settings.group, self._settings.group_type, cluster_id, utc_ms(), whoami()),
            reason=self._settings.reason,
            command=("kgroup.consumer",),
            ranges=ranges,
            by_member=True,
            chunks=cut_into_chunks(ranges, parallelism=_PARALLELISM),
        )
        return RecordedRelease(plan, position, write_releasing(self.ledger, plan, position), self.ledger)
