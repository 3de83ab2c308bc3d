"""Exclusive membership: being a group's only member, so that only we can move its offsets.

An administrator's commit is not fenced: a run that was paused just before it still moves the offsets when it wakes
up, whatever happened meanwhile. A member's commit is fenced: the coordinator refuses it for good once that member was
removed. But the coordinator accepts it for any partition, even if another member has joined and reads that partition
(seen, on both types of groups). So our member subscribes to the topics and gets all partitions to be moved assigned.
A member that joins gets none of them, and reads no committed offset, until we have left.
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
    change_error,
)
from kgroup.cluster.commit_requests import commit_request, commit_rows, parts_of
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S
from kgroup.cluster.coordinator.groups import CommittedOffsets, GroupCoordinators, GroupDescription
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.lost_responses import MAYBE_STORED, UNSURE, NoResponse, to_coordinator
from kgroup.cluster.membership.refusals import not_empty, others_in, superseded, unknown_outcome
from kgroup.cluster.membership.requests import CONSUMER, INSTANCE_ID, Membership, leave_request
from kgroup.cluster.topics import topic_layouts
from kgroup.model.groups import Commit, Member
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound, Refused, Unreachable
from kgroup.support.quoting import quote

_SESSION_TIMEOUTS_MS: tuple[int, ...] = (10_000, 30_000, 6_000, 45_000, 60_000, 300_000, 1_800_000, 1_000)
"""For a classic member; the allowed range differs by broker. After a kill, the group is Empty once this has passed."""
_BEATS_A_SESSION = 4
_INITIAL_DELAY_S = 10.0
"""A classic group's first member waits for others: ``group.initial.rebalance.delay.ms``, 3 s by default."""
_LEAVING_S = 5.0
_SHORT_PAUSE_S = 0.01
_HOLDABLE = (None, "", "consumer")

_GONE = frozenset({UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND})
"""Error codes that mean: our member is not, or no longer, in the group."""
_OVERTAKEN = frozenset({ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, REBALANCE_IN_PROGRESS})
"""Error codes that mean: another member joined or left, and the group rebalanced without us."""
_NOT_FOR_US = frozenset({GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID})
"""Error codes that mean: other members are in the group, and it does not let us in."""


@dataclass(frozen=True, slots=True)
class MembershipContext:
    """What ExclusiveMembership uses: a connection, and ``run``, which runs one question with its own time limit."""

    coordinators: GroupCoordinators
    committed: Callable[[Sequence[str]], Awaitable[dict[str, CommittedOffsets | KgroupError]]]
    run: Callable[..., Any]
    timeout_s: float


class ExclusiveMembership:
    """Our membership of one group, a context manager; see ``ChangingCluster.hold``.

    ``kind`` None: the type that the group has now. Any refusal comes only after the member of an earlier run has been
    removed. From then on that run moves nothing, even if other members are in the group or its topics are gone.

    Entering raises Refused: [not-empty] with the other members, before or after we joined; [superseded] if another run
    takes the group at the same time; [foreign-owner]; [moved-since] for a group of another type than ``kind``. It
    raises NotFound for a group or a partition that does not exist. If a run was paused for long, or a later run removed
    its member, each of its commits is refused.
    """

    def __init__(
        self, hands: MembershipContext, group: str, kind: str | None, partitions: Iterable[TopicPartition]
    ) -> None:
        self.group = group
        self.stays: KgroupError | None = None
        """The error from LeaveGroup, None if our member is out. Otherwise it goes when its session times out."""
        self._hands = hands
        self._client, self._coordinators = hands.coordinators.client, hands.coordinators
        self._kind = kind
        self._seat = Membership(group, kind or "", frozenset(partitions))
        self._beat_s = 1.0
        self._entering = self._may_be_in = self._leaves = False

    def __enter__(self) -> Self:
        try:
            self._hands.run(self._enter)
        except BaseException:
            self._leave_in_silence()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._leave_in_silence()

    def alone(self) -> None:
        """Check again that our member is the only one. Raises Refused [not-empty] or [superseded]."""
        self._hands.run(self._alone)

    def committed(self) -> CommittedOffsets:
        """All commits of the group. If an open transaction is about to replace a commit, its value is a Refused."""
        found: CommittedOffsets | KgroupError = self._hands.run(self._hands.committed, [self.group])[self.group]
        if isinstance(found, KgroupError):
            raise found
        return found

    def commit(self, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        """Commit as our member. Result per partition: None if stored, else the error.

        Raises Refused [not-empty] or [superseded] if the coordinator no longer accepts us as a member. That is final;
        some of many partitions may be stored then. Raises Unreachable [outcome-unknown] if no response came: after
        ``leave`` the commit is in the group's history or never will be. Neither is tried again.
        """
        if not self._seat.partitions.issuperset(offsets):
            raise ValueError("somebody else may read a partition that is not held")
        results: dict[TopicPartition, KgroupError | None] = self._hands.run(self._commit, offsets)
        return results

    def leave(self) -> None:
        """Remove our member; a second call does nothing. Raises KgroupError if it is unknown whether it is out."""
        self._hands.run(self._leave)
        if self.stays:
            raise self.stays

    def _leave_in_silence(self) -> None:
        """Leave at the end of the block. Errors are dropped: the block's matter more, and the session times out."""
        with suppress(KgroupError):
            self.leave()

    # --- entering

    async def _enter(self) -> None:
        self._entering = True
        coordinators = self._coordinators
        try:
            await self._clear_the_way()
            join = self._join_as_consumer
            if self._seat.kind != CONSUMER:
                join = self._join_as_classic
                coordinators = coordinators.within(Deadline.after(self._hands.timeout_s + _INITIAL_DELAY_S))
            while not await join(coordinators):
                # No response came: we may be a member, under a member id that we do not know.
                await self._remove_by_instance(coordinators)
            self._client.start(self._keep_alive)
            await self._until_ours(coordinators)
        finally:
            self._entering = False

    async def _clear_the_way(self) -> None:
        """Remove the member that an earlier run left. Refuse if other members are in the group."""
        before, missing = await self._client.gather([self._look(), self._missing()])
        if before.protocol_type not in _HOLDABLE:
            raise Refused(f"{self.group} belongs to {before.protocol_type}, and not to consumers", code="foreign-owner")
        # Before any refusal, since the refusal ends this attempt, and the earlier run may be about to commit.
        if before.members is None or any(member.instance_id == INSTANCE_ID for member in before.members):
            await self._remove_by_instance(self._coordinators)
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

    async def _look(self, coordinators: GroupCoordinators | None = None) -> GroupDescription:
        """The group now; ``coordinators`` None: within the question's deadline."""
        coordinators = coordinators or self._coordinators
        # The coordinator of a group is up to date as soon as a member has joined: that is written to its log.
        described = (await coordinators.describe([self.group], [self.group], up_to_date=False))[self.group]
        if isinstance(described, NotFound):
            raise NotFound(f"{self.group} is gone: somebody deleted it, or its last offsets expired")
        if isinstance(described, KgroupError):
            raise described
        return described

    async def _missing(self) -> KgroupError | None:
        """The error of a partition that can never be assigned to us, because it does not exist; None if all exist."""
        layouts = await topic_layouts(self._client, {topic for topic, _ in self._seat.partitions})
        for topic, number in sorted(self._seat.partitions):
            layout = layouts.get(topic)
            if isinstance(layout, KgroupError):
                return type(layout)(f"{topic} {layout.message}", hint=layout.hint, code=layout.code)
            if layout is None or number >= len(layout.leaders):
                return NotFound(f"{topic}:{number} does not exist (any more)", code="unknown-topic")
        return None

    async def _remove_by_instance(self, coordinators: GroupCoordinators) -> None:
        answer = await self._until_answered(coordinators, partial(leave_request, self.group))
        code = answer.error_code or answer.members[0].error_code
        if code not in (NONE, *_GONE):
            raise change_error(code, self.group)

    async def _join_as_consumer(self, coordinators: GroupCoordinators) -> bool:
        """Join a consumer group. False: no response came."""
        self._seat = replace(self._seat, member_id=secrets.token_urlsafe(16))
        answer = await self._joins(coordinators, self._seat.enter)
        if answer is None:
            return False
        await self._check_let_in(coordinators, answer.error_code)
        self._seat = replace(self._seat, epoch=answer.member_epoch)
        self._beat_s = answer.heartbeat_interval_ms / 1000
        return True

    async def _join_as_classic(self, coordinators: GroupCoordinators) -> bool:
        """Join a classic group. False: no response came."""
        for session_ms in _SESSION_TIMEOUTS_MS:
            answer = await self._joins(coordinators, partial(self._seat.join, session_ms))
            if answer is None:
                return False
            if answer.error_code != INVALID_SESSION_TIMEOUT:
                break
        await self._check_let_in(coordinators, answer.error_code)
        self._seat = replace(self._seat, member_id=answer.member_id, epoch=answer.generation_id)
        self._beat_s = session_ms / 1000 / _BEATS_A_SESSION
        if answer.leader != self._seat.member_id or len(answer.members) > 1:
            # A member that joined at the same time would get its partitions from us, or has assigned ours to us.
            raise not_empty(self.group, others_in(await self._look(coordinators)))
        synced = await self._joins(coordinators, partial(self._seat.sync, answer.protocol_name))
        if synced is None:
            return False
        await self._check_let_in(coordinators, synced.error_code)
        return True

    async def _joins(self, coordinators: GroupCoordinators, make_request: Callable[[], Any]) -> Any:
        """The response to a request that makes us a member. None: no response came, so we may be one."""
        self._may_be_in = True
        deadline = coordinators.client.deadline
        while True:
            if self._leaves:
                raise superseded(self.group)
            # The broker answers a classic group's first member late, so it may use all the time.
            answer = await to_coordinator(coordinators, self.group, make_request(), deadline.left_ms)
            if isinstance(answer, KgroupError):
                raise answer
            if not isinstance(answer, NoResponse) and answer.error_code not in UNSURE:
                return answer
            if deadline.passed:
                raise answer.reason if isinstance(answer, NoResponse) else change_error(answer.error_code, self.group)
            coordinators.invalidate(self.group)
            await coordinators.client.sleep(RETRY_PAUSE_S)
            if isinstance(answer, NoResponse) and answer.sent:
                return None

    async def _check_let_in(self, coordinators: GroupCoordinators, code: int) -> None:
        if code == NONE:
            return
        if code in (UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID):
            raise superseded(self.group)
        if code in _NOT_FOR_US or code in _OVERTAKEN:
            raise await self._who_came(code, coordinators)
        raise change_error(code, self.group)

    async def _until_ours(self, coordinators: GroupCoordinators) -> None:
        """Wait until the partitions are assigned to us; ``group.consumer.assignment.interval.ms`` may delay that."""
        pause_s, client = _SHORT_PAUSE_S, coordinators.client
        while True:
            seen = await self._look(coordinators)
            ours = self._only_member(seen)
            given = {(item.topic, number) for item in ours.assignment or () for number in item.partitions}
            if self._seat.partitions <= given:
                return
            # The coordinator learns of a new topic up to a second later than the other brokers (seen).
            if client.deadline.passed or self._leaves:
                raise Unreachable(f"{self.group}'s partitions were not assigned to kgroup in time", code="timed-out")
            await client.sleep(pause_s)
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
        """Send heartbeats in parallel with all questions until we leave or are removed."""
        while True:
            await self._client.pause(self._beat_s)
            if self._leaves or not await self._beat():
                return

    async def _beat(self) -> bool:
        """Send one heartbeat. False if the coordinator answers that we are no member.

        It has its own time limit: it must not fail because a question has used up its time, nor give it more.
        """
        coordinators = self._coordinators.within(Deadline.after(self._hands.timeout_s))
        answer = await to_coordinator(coordinators, self.group, self._seat.beat())
        if isinstance(answer, NoResponse | KgroupError) or answer.error_code in UNSURE:
            self._coordinators.invalidate(self.group)
            return True
        if answer.error_code == NONE and self._seat.kind == CONSUMER:
            self._seat = replace(self._seat, epoch=answer.member_epoch)
        return answer.error_code not in _GONE

    # --- committing

    async def _commit(self, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        results: dict[TopicPartition, KgroupError | None] = {}
        for part in parts_of(self.group, offsets, {}):
            results |= await self._commit_part({tp: offsets[tp] for tp in part.writes})
        return results

    async def _commit_part(self, left: dict[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        results: dict[TopicPartition, KgroupError | None] = {}
        deadline = self._client.deadline
        while True:
            if self._leaves:  # ctrl-C left this coroutine running
                raise superseded(self.group)
            request = commit_request(self.group, left, (self._seat.member_id, INSTANCE_ID, self._seat.epoch))
            answer = await to_coordinator(self._coordinators, self.group, request, deadline.left_ms)
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
                    tp: None if code == NONE else change_error(code, self.group, tp.topic)
                    for tp, code in codes.items()
                    if code not in RETRIABLE_COORDINATOR_ERRORS
                }
            # What is left was not tried by the coordinator: it has moved, or was not found.
            left = {tp: commit for tp, commit in left.items() if tp not in results}
            if not left:
                return results
            if deadline.passed:
                if isinstance(answer, NoResponse):
                    return results | dict.fromkeys(left, answer.reason)
                return results | {tp: change_error(codes[tp], self.group) for tp in left}
            self._coordinators.invalidate(self.group)
            await self._client.sleep(RETRY_PAUSE_S)

    async def _refuse(self, codes: Collection[int]) -> None:
        for code in codes:
            if code in _GONE or code in _OVERTAKEN:
                raise await self._who_came(code)
        for code in codes:
            if code in MAYBE_STORED:
                raise unknown_outcome(self.group, change_error(code, self.group))

    async def _who_came(self, code: int, coordinators: GroupCoordinators | None = None) -> KgroupError:
        """The error for a refusal by the coordinator, which names the present members."""
        others: tuple[Member, ...] = ()
        with suppress(KgroupError):
            others = others_in(await self._look(coordinators))
        return not_empty(self.group, others) if others or code not in _GONE else superseded(self.group)

    # --- leaving

    async def _leave(self) -> None:
        if self._leaves and not self.stays:
            return
        self._leaves = True
        coordinators = self._coordinators.within(Deadline.after(min(self._hands.timeout_s, _LEAVING_S)))
        client = coordinators.client
        while self._entering and not client.deadline.passed:  # ctrl-C: a request in flight may still make us a member
            await client.sleep(_SHORT_PAUSE_S)
        self.stays = None
        if not self._may_be_in:
            return
        try:
            answer = await self._until_answered(coordinators, self._seat.leave)
        except KgroupError as error:
            self.stays = error
            return
        code = answer.error_code or next((row.error_code for row in getattr(answer, "members", ())), NONE)
        if code not in (NONE, *_GONE):
            self.stays = change_error(code, self.group)

    async def _until_answered(self, coordinators: GroupCoordinators, make_request: Callable[[], Any]) -> Any:
        """The response to a request that may be repeated any number of times. Raises KgroupError at the deadline."""
        while True:
            answer = await to_coordinator(coordinators, self.group, make_request())
            if isinstance(answer, KgroupError):
                raise answer
            if not isinstance(answer, NoResponse) and answer.error_code not in UNSURE:
                return answer
            if coordinators.client.deadline.passed:
                raise answer.reason if isinstance(answer, NoResponse) else change_error(answer.error_code, self.group)
            coordinators.invalidate(self.group)
            await coordinators.client.sleep(RETRY_PAUSE_S)
