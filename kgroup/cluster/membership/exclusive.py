"""Holding a group: being its only member, so that its offsets can be moved by us alone.

An administrator's commit is not fenced: a run that was paused before it wakes up and moves offsets, whatever was done
meanwhile. A member's commit is: it is refused for good once that member was removed. But the coordinator takes it for
any partition, even after somebody else has joined and reads that partition (seen, on both types of groups). So our
member subscribes to the topics, and all partitions that are to be moved are assigned to it: whoever joins gets none
of them until we have left, and reads no offset before that.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from kgroup.cluster.broker_errors import (
    FENCED_INSTANCE_ID,
    FENCED_MEMBER_EPOCH,
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    NONE,
    REBALANCE_IN_PROGRESS,
    RETRIABLE_COORDINATOR_ERRORS,
    STALE_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    of_change,
)
from kgroup.cluster.commit_requests import commit_request, commit_rows, parts_of
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S, CoordinatorClient
from kgroup.cluster.coordinator.groups import Committed, GroupCoordinators, GroupDescription
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.lost_responses import MAYBE_STORED, UNSURE, NoResponse, to_coordinator
from kgroup.cluster.membership.conversion import Describe
from kgroup.cluster.membership.refusals import not_empty, others_in, superseded, unknown_outcome
from kgroup.cluster.membership.requests import CONSUMER, INSTANCE_ID, Seat, leave_request
from kgroup.cluster.topics import TopicPartition, topic_layouts
from kgroup.model.groups import Commit, Member
from kgroup.support.errors import KgroupError, NotFound, Refused, Unreachable
from kgroup.support.quoting import quote

_SESSION_TIMEOUTS_MS: tuple[int, ...] = (10_000, 30_000, 6_000, 45_000, 60_000, 300_000, 1_800_000, 1_000)
"""Of a classic member; brokers differ in what they allow. When it was killed, the group is Empty after that."""
_BEATS_A_SESSION = 4
_INITIAL_DELAY_S = 10.0
"""A classic group's first member waits for others: ``group.initial.rebalance.delay.ms``, 3 s by default."""
_LEAVING_S = 5.0
_SHORT_PAUSE_S = 0.01
_LEAST_S = 1.0
_HOLDABLE = (None, "", "consumer")

_GONE = frozenset({UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND})
"""Our member is no member (any more)."""
_OVERTAKEN = frozenset({ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, REBALANCE_IN_PROGRESS})
"""Somebody joined or left, and the group went on without us."""
_NOT_FOR_US = frozenset({GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID})
"""Somebody is in the group, and does not let us in."""


@dataclass(frozen=True, slots=True)
class Hands:
    """What a Holding works with: a connection, and ``ask``, which gives a question the time that it may take."""

    client: CoordinatorClient
    coordinators: GroupCoordinators
    describe: Describe
    committed: Callable[[Sequence[str]], Awaitable[dict[str, Committed | KgroupError]]]
    ask: Callable[..., Any]
    timeout_s: float


class ExclusiveMembership:
    """Our membership of one group, from the beginning of the block to its end; see ``ChangingCluster.hold``.

    ``kind`` None is whatever type the group has by now. The member of an earlier run is out before anything is refused:
    from then on that one moves nothing, whoever else is in the group, and whether its topics are still there.

    Entering raises Refused [not-empty] naming other members, before or beside us; [superseded] where another run takes
    the group at the same time, [foreign-owner], [moved-since] for a group of another type than ``kind``; NotFound for
    a group or a partition that does not exist. A run that was stopped for long, or whose successor has removed its
    member, finds each of its commits refused.
    """

    def __init__(self, hands: Hands, group: str, kind: str | None, places: Iterable[TopicPartition]) -> None:
        self.group = group
        self.stays: KgroupError | None = None
        """Why our member could not be taken out, None where it is out: it goes by itself when its session ends."""
        self._hands = hands
        self._client, self._coordinators = hands.client, hands.coordinators
        self._kind = kind
        self._seat = Seat(group, kind or "", frozenset(places))
        self._beat_s = 1.0
        self._entering = self._may_be_in = self._leaves = False

    def __enter__(self) -> Self:
        try:
            self._hands.ask(self._enter)
        except BaseException:
            self._leave_in_silence()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._leave_in_silence()

    def alone(self) -> None:
        """Look again whether our member is the only one. Raises Refused [not-empty] or [superseded]."""
        self._hands.ask(self._alone)

    def committed(self) -> Committed:
        """All commits of the group; one that an open transaction is about to replace is Refused as its value."""
        found: Committed | KgroupError = self._hands.ask(self._hands.committed, [self.group])[self.group]
        if isinstance(found, KgroupError):
            raise found
        return found

    def commit(self, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        """Commit as the member that we are, and as nobody else; None: it is stored, else what happened to this one.

        Raises Refused [not-empty] or [superseded] when the coordinator does not take us for a member (any more): that
        is final, and of many partitions some may be stored then. Raises Unreachable [outcome-unknown] when no answer
        came: after ``leave`` it is in the group's history, or never will be. Nothing of either is tried again.
        """
        if not self._seat.places.issuperset(offsets):
            raise ValueError("somebody else may read a partition that is not held")
        results: dict[TopicPartition, KgroupError | None] = self._hands.ask(self._commit, offsets)
        return results

    def leave(self) -> None:
        """Take our member out; a second time does nothing. Raises KgroupError where nobody can tell that it is out."""
        self._hands.ask(self._leave)
        if self.stays:
            raise self.stays

    def _leave_in_silence(self) -> None:
        """As the block ends: what it raised, or did, counts for more than a member that goes by itself in a while."""
        with suppress(KgroupError):
            self.leave()

    # --- entering

    async def _enter(self) -> None:
        self._entering = True
        try:
            await self._clear_the_way()
            while not (await (self._join_as_consumer() if self._seat.kind == CONSUMER else self._join_as_classic())):
                # No answer came: we may be in, under an id that we do not know.
                await self._remove_by_instance()
            self._client.start(self._keep_alive)
            await self._until_ours()
        finally:
            self._entering = False

    async def _clear_the_way(self) -> None:
        """Take out the member that an earlier run has left; refuse to disturb anybody else."""
        before, missing = await self._client.gather([self._look(), self._missing()])
        if before.protocol_type not in _HOLDABLE:
            raise Refused(f"{self.group} belongs to {before.protocol_type}, and not to consumers", code="foreign-owner")
        # First of all, since what is refused here may be decided without holding: that run may be about to commit.
        if before.members is None or any(member.instance_id == INSTANCE_ID for member in before.members):
            await self._remove_by_instance()
        others = others_in(before)
        if others or (before.state != "Empty" and not before.members):
            raise not_empty(self.group, others)
        if self._kind is None:
            self._seat = replace(self._seat, kind=before.type)
        elif before.type != self._kind:
            raise Refused(
                f"{self.group} is a {before.type} group now, not a {self._kind} one",
                code="moved-since",
                hint=f"somebody converted it: kgroup describe {quote(self.group)}",
            )
        if missing:
            raise missing

    async def _look(self) -> GroupDescription:
        described = (await self._hands.describe([self.group], [self.group]))[self.group]
        if isinstance(described, NotFound):
            raise NotFound(f"{self.group} is gone: somebody deleted it, or its last offsets expired")
        if isinstance(described, KgroupError):
            raise described
        return described

    async def _missing(self) -> KgroupError | None:
        """What is wrong with a partition that nobody could ever assign to us; None of none."""
        layouts = await topic_layouts(self._client, {topic for topic, _ in self._seat.places})
        for topic, number in sorted(self._seat.places):
            layout = layouts.get(topic)
            if isinstance(layout, KgroupError):
                return type(layout)(f"{topic} {layout.message}", hint=layout.hint, code=layout.code)
            if layout is None or number >= len(layout.leaders):
                return NotFound(f"{topic}:{number} does not exist (any more)", code="unknown-topic")
        return None

    async def _remove_by_instance(self) -> None:
        request = partial(leave_request, self.group)
        answer = await self._until_answered(request)
        code = answer.error_code or answer.members[0].error_code
        if code not in (NONE, *_GONE):
            raise of_change(code, self.group)

    async def _join_as_consumer(self) -> bool:
        """False: no answer came."""
        self._seat = replace(self._seat, member_id=secrets.token_urlsafe(16))
        answer = await self._joins(self._seat.enter)
        if answer is None:
            return False
        await self._check_let_in(answer.error_code)
        self._seat = replace(self._seat, epoch=answer.member_epoch)
        self._beat_s = answer.heartbeat_interval_ms / 1000
        return True

    async def _join_as_classic(self) -> bool:
        """False: no answer came."""
        self._client.deadline = Deadline.after(self._hands.timeout_s + _INITIAL_DELAY_S)
        for session_ms in _SESSION_TIMEOUTS_MS:
            answer = await self._joins(partial(self._seat.join, session_ms))
            if answer is None:
                return False
            if answer.error_code != INVALID_SESSION_TIMEOUT:
                break
        await self._check_let_in(answer.error_code)
        self._seat = replace(self._seat, member_id=answer.member_id, epoch=answer.generation_id)
        self._beat_s = session_ms / 1000 / _BEATS_A_SESSION
        if answer.leader != self._seat.member_id or len(answer.members) > 1:
            # Whoever came at the same time would get its partitions from us, or has given us ours.
            raise not_empty(self.group, others_in(await self._look()))
        synced = await self._joins(partial(self._seat.sync, answer.protocol_name))
        if synced is None:
            return False
        await self._check_let_in(synced.error_code)
        return True

    async def _joins(self, make_request: Callable[[], Any]) -> Any:
        """The answer to a request that makes us a member; None where none came, and nobody knows."""
        self._may_be_in = True
        deadline = self._client.deadline
        while True:
            if self._leaves:
                raise superseded(self.group)
            # The broker answers the first member of a classic group late, so all the time is for this one.
            answer = await to_coordinator(
                self._client, self._coordinators, self.group, make_request(), deadline.left_ms
            )
            if isinstance(answer, KgroupError):
                raise answer
            if not isinstance(answer, NoResponse) and answer.error_code not in UNSURE:
                return answer
            if deadline.passed:
                raise answer.reason if isinstance(answer, NoResponse) else of_change(answer.error_code, self.group)
            self._coordinators.forget(self.group)
            await self._client.sleep(RETRY_PAUSE_S)
            if isinstance(answer, NoResponse) and answer.sent:
                return None

    async def _check_let_in(self, code: int) -> None:
        if code == NONE:
            return
        if code in (UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID):
            raise superseded(self.group)
        if code in _NOT_FOR_US or code in _OVERTAKEN:
            raise await self._who_came(code)
        raise of_change(code, self.group)

    async def _until_ours(self) -> None:
        """Wait until the partitions are assigned to us: at once, but for ``group.consumer.assignment.interval.ms``."""
        pause_s, deadline = _SHORT_PAUSE_S, self._client.deadline
        while True:
            seen = await self._look()
            ours = self._only_member(seen)
            given = {(item.topic, number) for item in ours.assignment or () for number in item.partitions}
            if self._seat.places <= given:
                return
            # Of a topic that was made a moment ago the coordinator hears a second later than others (seen).
            if deadline.passed or self._leaves:
                raise Unreachable(f"{self.group}'s partitions were not assigned to kgroup in time", code="timed-out")
            await self._client.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_PAUSE_S)
            await self._beat()

    # --- being there

    async def _alone(self) -> None:
        self._only_member(await self._look())

    def _only_member(self, seen: GroupDescription) -> Member:
        if others := others_in(seen):
            raise not_empty(self.group, others)
        for member in seen.members or ():
            if member.member_id == self._seat.member_id:
                return member
        raise superseded(self.group)

    async def _keep_alive(self) -> None:
        """Runs beside all questions until we leave, or are out."""
        while True:
            await self._client.pause(self._beat_s)
            if self._leaves or not await self._beat():
                return

    async def _beat(self) -> bool:
        """One heartbeat; False when the coordinator says that we are no member (any more)."""
        if self._client.deadline.left_s < _LEAST_S:  # of the last question, and this is not to fail for it
            self._client.deadline = Deadline.after(self._hands.timeout_s)
        answer = await to_coordinator(self._client, self._coordinators, self.group, self._seat.beat())
        if isinstance(answer, NoResponse | KgroupError) or answer.error_code in UNSURE:
            self._coordinators.forget(self.group)
            return True
        if answer.error_code == NONE and self._seat.kind == CONSUMER:
            self._seat = replace(self._seat, epoch=answer.member_epoch)
        return answer.error_code not in _GONE

    # --- committing

    async def _commit(self, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        results: dict[TopicPartition, KgroupError | None] = {}
        for part in parts_of(self.group, offsets, {}):
            results |= await self._commit_part({place: offsets[place] for place in part.writes})
        return results

    async def _commit_part(self, left: dict[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        results: dict[TopicPartition, KgroupError | None] = {}
        deadline = self._client.deadline
        while True:
            if self._leaves:  # ctrl-C left this running
                raise superseded(self.group)
            request = commit_request(self.group, left, (self._seat.member_id, INSTANCE_ID, self._seat.epoch))
            answer = await to_coordinator(self._client, self._coordinators, self.group, request, deadline.left_ms)
            if isinstance(answer, KgroupError):
                raise answer
            codes: dict[TopicPartition, int] = {}
            if isinstance(answer, NoResponse):
                if answer.sent:
                    raise unknown_outcome(self.group, answer.reason)
            else:
                codes = dict(commit_rows(answer, list(left)))
                await self._refuse(codes.values())
                results |= {
                    place: None if code == NONE else of_change(code, self.group, place[0])
                    for place, code in codes.items()
                    if code not in RETRIABLE_COORDINATOR_ERRORS
                }
            # What is left was not even looked at: the coordinator has moved, or was not to be found.
            left = {place: commit for place, commit in left.items() if place not in results}
            if not left:
                return results
            if deadline.passed:
                if isinstance(answer, NoResponse):
                    return results | dict.fromkeys(left, answer.reason)
                return results | {place: of_change(codes[place], self.group) for place in left}
            self._coordinators.forget(self.group)
            await self._client.sleep(RETRY_PAUSE_S)

    async def _refuse(self, codes: Collection[int]) -> None:
        for code in codes:
            if code in _GONE or code in _OVERTAKEN:
                raise await self._who_came(code)
        for code in codes:
            if code in MAYBE_STORED:
                raise unknown_outcome(self.group, of_change(code, self.group))

    async def _who_came(self, code: int) -> KgroupError:
        """Why the coordinator refused us: who is there now says it best."""
        others: tuple[Member, ...] = ()
        with suppress(KgroupError):
            others = others_in(await self._look())
        return not_empty(self.group, others) if others or code not in _GONE else superseded(self.group)

    # --- leaving

    async def _leave(self) -> None:
        if self._leaves and not self.stays:
            return
        self._leaves = True
        self._client.deadline = deadline = Deadline.after(min(self._hands.timeout_s, _LEAVING_S))
        while self._entering and not deadline.passed:  # ctrl-C: what was sent may make us a member still
            await self._client.sleep(_SHORT_PAUSE_S)
        self.stays = None
        if not self._may_be_in:
            return
        try:
            answer = await self._until_answered(self._seat.leave)
        except KgroupError as error:
            self.stays = error
            return
        code = answer.error_code or next((row.error_code for row in getattr(answer, "members", ())), NONE)
        if code not in (NONE, *_GONE):
            self.stays = of_change(code, self.group)

    async def _until_answered(self, make_request: Callable[[], Any]) -> Any:
        """The answer to what may be asked any number of times. Raises KgroupError at the deadline."""
        deadline = self._client.deadline
        while True:
            answer = await to_coordinator(self._client, self._coordinators, self.group, make_request())
            if isinstance(answer, KgroupError):
                raise answer
            if not isinstance(answer, NoResponse) and answer.error_code not in UNSURE:
                return answer
            if deadline.passed:
                raise answer.reason if isinstance(answer, NoResponse) else of_change(answer.error_code, self.group)
            self._coordinators.forget(self.group)
            await self._client.sleep(RETRY_PAUSE_S)
