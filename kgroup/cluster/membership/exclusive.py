"""Exclusive membership: being a group's only member, so that only we can move its offsets.

An administrator's commit is not fenced: a run that was paused just before it still moves the offsets when it wakes
up, whatever happened meanwhile. A member's commit is fenced: the coordinator refuses it for good once that member was
removed. But the coordinator accepts it for any partition, even if another member has joined and reads that partition
(seen, on both types of groups). So our member subscribes to the topics and gets all partitions to be moved assigned.
A member that joins gets none of them, and reads no committed offset, until we have left.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Self

from msgspec.structs import replace

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
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.lost_responses import MAYBE_STORED, UNSURE, NoResponse, send_to_coordinator
from kgroup.cluster.membership.refusals import interrupted, not_empty, others_in, superseded, unknown_commit_outcome
from kgroup.cluster.membership.requests import CONSUMER, Membership
from kgroup.cluster.topics import topic_layouts
from kgroup.model.commit import Commit
from kgroup.model.groups import Member
from kgroup.model.migration_facts import CATCHUP_INSTANCE_ID
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import FOREIGN_OWNER, MOVED_SINCE, KgroupError, NotFound, Refused, Unreachable
from kgroup.support.hint import Hint

_SESSION_TIMEOUTS_MS: tuple[int, ...] = (10_000, 30_000, 6_000, 45_000, 60_000, 300_000, 1_800_000, 1_000)
"""For a classic member; the allowed range differs by broker. After a kill, the group is Empty once this has passed."""
_HEARTBEATS_PER_SESSION = 4
_INITIAL_DELAY_S = 10.0
"""A classic group's first member waits for others: ``group.initial.rebalance.delay.ms``, 3 s by default."""
_LEAVING_S = 5.0
_SHORT_PAUSE_S = 0.01
_CONSUMER_PROTOCOL_TYPES = (None, "", "consumer")

_NOT_A_MEMBER = frozenset({UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, GROUP_ID_NOT_FOUND})
"""Error codes that mean: our member is not, or no longer, in the group."""
_REBALANCED = frozenset({ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, REBALANCE_IN_PROGRESS})
"""Error codes that mean: another member joined or left, and the group rebalanced without us."""
_NOT_ADMITTED = frozenset({GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID})
"""Error codes that mean: other members are in the group, and it does not let us in."""


class ExclusiveMembership:
    """Our membership of one group, a context manager; see ``ChangingCluster.join_exclusively``.

    ``kind`` None: the type that the group has now. Entering first removes the member of an earlier run, which
    can commit nothing from then on, even if entering then raises Refused or NotFound.

    Entering raises Refused: [not-empty] with the other members, before or after we joined; [superseded] if another run
    takes the group at the same time; [foreign-owner]; [moved-since] for a group of another type than ``kind``. It
    raises NotFound for a group or a partition that does not exist, and Unreachable if the coordinator does not keep us
    as a member in time, as when a broker dies. If a run was paused for long, or a later run removed its member, each of
    its commits is refused.
    """

    def __init__(
        self,
        coordinators: GroupCoordinators,
        run: Callable[..., Any],
        timeout_s: float,
        group: str,
        kind: str | None,
        partitions: Iterable[TopicPartition],
    ) -> None:
        """``run`` runs a coroutine function with a time limit of its own, ``timeout_s``."""
        self.group = group
        self.leave_error: KgroupError | None = None
        """The error from LeaveGroup, None if our member is out. Otherwise it goes when its session times out."""
        self._client, self._coordinators = coordinators.client, coordinators
        self._run, self._timeout_s = run, timeout_s
        self._kind = kind
        self._membership = Membership(group, kind or "", frozenset(partitions))
        self._heartbeat_s = 1.0
        self._joining = self._may_be_member = self._leaving = False

    def __enter__(self) -> Self:
        try:
            self._run(self._join)
        except BaseException:
            self._leave_quietly()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._leave_quietly()

    def verify_only_member(self) -> None:
        """Check again that our member is the only one. Raises Refused [not-empty] or [superseded]."""
        self._run(self._verify_only_member)

    def committed(self) -> CommittedOffsets:
        """All commits of the group. If an open transaction is about to replace a commit, its value is a Refused."""
        answers = self._run(self._coordinators.settled_commits, [self.group])
        commits: CommittedOffsets | KgroupError = answers[self.group]
        if isinstance(commits, KgroupError):
            raise commits
        return commits

    def commit(self, offsets: Mapping[TopicPartition, Commit]) -> dict[TopicPartition, KgroupError | None]:
        """Commit as our member. Result per partition: None if stored, else the error.

        Raises Refused [not-empty] or [superseded], or Unreachable [unreachable] if no other member is in the group, if
        the coordinator no longer accepts us as a member. That is final; some of many partitions may be stored then.
        Raises Unreachable [outcome-unknown] if no response came: it may be stored later, but not after ``leave`` has
        returned. After any of these errors nothing is sent again.
        """
        if not self._membership.partitions.issuperset(offsets):
            raise ValueError("another member may read a partition that this one does not have")
        results: dict[TopicPartition, KgroupError | None] = self._run(self._commit, offsets)
        return results

    def leave(self) -> None:
        """Remove our member; a second call does nothing. Raises KgroupError if it is unknown whether it is out."""
        self._run(self._leave)
        if self.leave_error:
            raise self.leave_error

    def _leave_quietly(self) -> None:
        """Leave at the end of the block. Errors are dropped: the block's matter more, and the session times out."""
        with suppress(KgroupError):
            self.leave()

    # --- joining

    async def _join(self) -> None:
        self._joining = True
        coordinators = self._coordinators
        try:
            await self._remove_earlier_member()
            join = self._join_as_consumer
            if self._membership.kind != CONSUMER:
                join = self._join_as_classic
                coordinators = coordinators.within(Deadline.after(self._timeout_s + _INITIAL_DELAY_S))
            while not await join(coordinators):
                if coordinators.client.deadline.passed:
                    raise interrupted(self.group)
                # No response came: we may be a member, under a member id that we do not know. Or a broker died, so
                # that the group lost our member, or began another rebalance.
                await self._remove_by_instance(coordinators)
            self._client.start(self._send_heartbeats)
            await self._await_assignment(coordinators)
        finally:
            self._joining = False

    async def _remove_earlier_member(self) -> None:
        """Remove the member that an earlier run left. Refuse if other members are in the group."""
        before, missing = await self._client.gather([self._describe(), self._missing_partition()])
        if before.protocol_type not in _CONSUMER_PROTOCOL_TYPES:
            raise Refused(f"{self.group} belongs to {before.protocol_type}, and not to consumers", code=FOREIGN_OWNER)
        # Before any refusal, since the refusal ends this attempt, and the earlier run may be about to commit.
        if before.members is None or any(member.instance_id == CATCHUP_INSTANCE_ID for member in before.members):
            await self._remove_by_instance(self._coordinators)
        others = others_in(before)
        if others or (before.state != "Empty" and before.members is None):
            raise not_empty(self.group, others)
        if before.state != "Empty" and not before.members:
            raise interrupted(self.group)
        if self._kind is None:
            self._membership = replace(self._membership, kind=before.type)
        elif before.type != self._kind:
            raise Refused(
                f"{self.group} is a {before.type} group now, not a {self._kind} one",
                code=MOVED_SINCE,
                hint=Hint("another client converted it: {}", ("describe", self.group)),
            )
        if missing:
            raise missing

    async def _describe(self, coordinators: GroupCoordinators | None = None) -> GroupDescription:
        """The group now; ``coordinators`` None: within the question's deadline."""
        coordinators = coordinators or self._coordinators
        # The coordinator of a group is up to date as soon as a member has joined: that is written to its log.
        described = (await coordinators.describe([self.group], [self.group], up_to_date=False))[self.group]
        if isinstance(described, NotFound):
            raise NotFound(
                f"{self.group} does not exist any more: another client deleted it, or its last offsets expired"
            )
        if isinstance(described, KgroupError):
            raise described
        return described

    async def _missing_partition(self) -> KgroupError | None:
        """The error of a partition that can never be assigned to us, because it does not exist; None if all exist."""
        layouts = await topic_layouts(self._client, {topic for topic, _ in self._membership.partitions})
        for topic, number in sorted(self._membership.partitions):
            layout = layouts.get(topic)
            if isinstance(layout, KgroupError):
                return type(layout)(f"{topic} {layout.message}", hint=layout.hint, code=layout.code)
            if layout is None or number >= len(layout.leaders):
                return NotFound(f"{topic}:{number} does not exist (any more)", code="unknown-topic")
        return None

    async def _remove_by_instance(self, coordinators: GroupCoordinators) -> None:
        answer = await self._send_until_answered(coordinators, self._membership.remove_request)
        code = answer.error_code or answer.members[0].error_code
        if code not in (NONE, *_NOT_A_MEMBER):
            raise change_error(code, self.group)

    async def _join_as_consumer(self, coordinators: GroupCoordinators) -> bool:
        """Join a consumer group. False: no response came, or the coordinator did not keep us; try again."""
        self._membership = replace(self._membership, member_id=secrets.token_urlsafe(16))
        answer = await self._send_join(coordinators, self._membership.consumer_join_request)
        if answer is None:
            return False
        if not await self._verify_joined(coordinators, answer.error_code):
            return False
        self._membership = replace(self._membership, epoch=answer.member_epoch)
        self._heartbeat_s = answer.heartbeat_interval_ms / 1000
        return True

    async def _join_as_classic(self, coordinators: GroupCoordinators) -> bool:
        """Join a classic group. False: as ``_join_as_consumer``."""
        for session_ms in _SESSION_TIMEOUTS_MS:
            answer = await self._send_join(coordinators, partial(self._membership.classic_join_request, session_ms))
            if answer is None:
                return False
            if answer.error_code != INVALID_SESSION_TIMEOUT:
                break
        if not await self._verify_joined(coordinators, answer.error_code):
            return False
        self._membership = replace(self._membership, member_id=answer.member_id, epoch=answer.generation_id)
        self._heartbeat_s = session_ms / 1000 / _HEARTBEATS_PER_SESSION
        if answer.leader != self._membership.member_id or len(answer.members) > 1:
            # A member that joined at the same time would get its partitions from us, or has assigned ours to us.
            if others := others_in(await self._describe(coordinators)):
                raise not_empty(self.group, others)
            return False
        synced = await self._send_join(coordinators, partial(self._membership.sync_request, answer.protocol_name))
        if synced is None:
            return False
        return await self._verify_joined(coordinators, synced.error_code)

    async def _send_join(self, coordinators: GroupCoordinators, make_request: Callable[[], Any]) -> Any:
        """The response to a request that makes us a member. None: no response came, so we may be one."""
        self._may_be_member = True
        deadline = coordinators.client.deadline
        while True:
            if self._leaving:
                raise superseded(self.group)
            # The broker answers a classic group's first member late, so it may use all the time.
            answer = await send_to_coordinator(coordinators, self.group, make_request(), deadline.left_ms)
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

    async def _verify_joined(self, coordinators: GroupCoordinators, code: int) -> bool:
        """Whether we are a member. False: the group rebalanced, and no other member is in it; try again."""
        if code == NONE:
            return True
        if code in (UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID):
            raise superseded(self.group)
        if code not in _NOT_ADMITTED and code not in _REBALANCED:
            raise change_error(code, self.group)
        refusal = await self._refusal(code, coordinators)
        if isinstance(refusal, Refused) or code in _NOT_A_MEMBER:
            raise refusal
        await coordinators.client.sleep(RETRY_PAUSE_S)
        return False

    async def _await_assignment(self, coordinators: GroupCoordinators) -> None:
        """Wait until the partitions are assigned to us; ``group.consumer.assignment.interval.ms`` may delay that."""
        pause_s, client = _SHORT_PAUSE_S, coordinators.client
        while True:
            description = await self._describe(coordinators)
            member = self._only_member(description)
            given = {(item.topic, number) for item in member.assignment or () for number in item.partitions}
            if self._membership.partitions <= given:
                return
            # The coordinator learns of a new topic up to a second later than the other brokers (seen).
            if client.deadline.passed or self._leaving:
                raise Unreachable(
                    f"{self.group}'s partitions were not assigned to kgroup within the timeout", code="timed-out"
                )
            await client.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_PAUSE_S)
            await self._send_heartbeat()

    # --- being a member

    async def _verify_only_member(self) -> None:
        self._only_member(await self._describe())

    def _only_member(self, description: GroupDescription) -> Member:
        if others := others_in(description):
            raise not_empty(self.group, others)
        for member in description.members or ():
            if member.member_id == self._membership.member_id:
                return member
        raise superseded(self.group)

    async def _send_heartbeats(self) -> None:
        """Send heartbeats in parallel with all questions until we leave or are removed."""
        while True:
            await self._client.pause(self._heartbeat_s)
            if self._leaving or not await self._send_heartbeat():
                return

    async def _send_heartbeat(self) -> bool:
        """Send one heartbeat. False if the coordinator answers that we are no member.

        It has its own time limit: it must not fail because a question has used up its time, nor give it more.
        """
        coordinators = self._coordinators.within(Deadline.after(self._timeout_s))
        answer = await send_to_coordinator(coordinators, self.group, self._membership.heartbeat_request())
        if isinstance(answer, NoResponse | KgroupError) or answer.error_code in UNSURE:
            self._coordinators.invalidate(self.group)
            return True
        if answer.error_code == NONE and self._membership.kind == CONSUMER:
            self._membership = replace(self._membership, epoch=answer.member_epoch)
        return answer.error_code not in _NOT_A_MEMBER

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
            if self._leaving:  # ctrl-C left this coroutine running
                raise superseded(self.group)
            member = (self._membership.member_id, CATCHUP_INSTANCE_ID, self._membership.epoch)
            request = commit_request(self.group, left, member)
            answer = await send_to_coordinator(self._coordinators, self.group, request, deadline.left_ms)
            if isinstance(answer, KgroupError):
                raise answer
            codes: dict[TopicPartition, int] = {}
            if isinstance(answer, NoResponse):
                if answer.sent:
                    raise unknown_commit_outcome(self.group, answer.reason)
            else:
                codes = dict(commit_rows(answer, list(left)))
                await self._raise_if_final(codes.values())
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

    async def _raise_if_final(self, codes: Collection[int]) -> None:
        for code in codes:
            if code in _NOT_A_MEMBER or code in _REBALANCED:
                raise await self._refusal(code)
        for code in codes:
            if code in MAYBE_STORED:
                raise unknown_commit_outcome(self.group, change_error(code, self.group))

    async def _refusal(self, code: int, coordinators: GroupCoordinators | None = None) -> KgroupError:
        """The error for a refusal by the coordinator, which names the present members."""
        present: tuple[Member, ...] = ()
        with suppress(KgroupError):
            now = await self._describe(coordinators)
            if others := others_in(now):
                return not_empty(self.group, others)
            present = now.members or ()
        # While we join, a coordinator that has just taken the group over does not have us yet.
        is_ours = self._joining and not present
        return interrupted(self.group) if is_ours or code not in _NOT_A_MEMBER else superseded(self.group)

    # --- leaving

    async def _leave(self) -> None:
        if self._leaving and not self.leave_error:
            return
        self._leaving = True
        coordinators = self._coordinators.within(Deadline.after(min(self._timeout_s, _LEAVING_S)))
        client = coordinators.client
        while self._joining and not client.deadline.passed:  # ctrl-C: a request in flight may still make us a member
            await client.sleep(_SHORT_PAUSE_S)
        self.leave_error = None
        if not self._may_be_member:
            return
        try:
            answer = await self._send_until_answered(coordinators, self._membership.leave_request)
        except KgroupError as error:
            self.leave_error = error
            return
        code = answer.error_code or next((row.error_code for row in getattr(answer, "members", ())), NONE)
        if code not in (NONE, *_NOT_A_MEMBER):
            self.leave_error = change_error(code, self.group)

    async def _send_until_answered(self, coordinators: GroupCoordinators, make_request: Callable[[], Any]) -> Any:
        """The response to a request that may be repeated any number of times. Raises KgroupError at the deadline."""
        while True:
            answer = await send_to_coordinator(coordinators, self.group, make_request())
            if isinstance(answer, KgroupError):
                raise answer
            if not isinstance(answer, NoResponse) and answer.error_code not in UNSURE:
                return answer
            if coordinators.client.deadline.passed:
                raise answer.reason if isinstance(answer, NoResponse) else change_error(answer.error_code, self.group)
            coordinators.invalidate(self.group)
            await coordinators.client.sleep(RETRY_PAUSE_S)
