"""Convert Empty groups to the other protocol: a member of that protocol joins, and leaves at once.

The coordinator converts an Empty group when its first member uses the other protocol, and keeps the offsets
(KIP-848). Many groups are handled together: join in parallel, describe in one request, leave in parallel. The last
description shows whether another member joined since the first. In that case nothing is lost: a live group may hold
members of both protocols for a moment. It continues as before when our member, which has no topics, leaves.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest

from kgroup.cluster.broker_errors import (
    GROUP_ID_NOT_FOUND,
    GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL,
    INVALID_SESSION_TIMEOUT,
    MEMBER_ID_REQUIRED,
    NONE,
    UNKNOWN_MEMBER_ID,
    UNSUPPORTED_VERSION,
    change_error,
)
from kgroup.cluster.coordinator import schemas
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.lost_responses import MAYBE_STORED, UNSURE, NoResponse, to_coordinator
from kgroup.cluster.membership.conversion_result import converted_or_why_not, refuse_conversion, unverified
from kgroup.model.migration_facts import OWN_MEMBER_PREFIX, is_own_member
from kgroup.support.errors import KgroupError, Refused, Unreachable

Result = KgroupError | None
Seen = dict[str, GroupDescription | KgroupError]

_AT_A_TIME = 100
"""How many groups of a coordinator have our member at the same time, for about a tenth of a second."""

_HEARTBEAT_API = 68
_JOINS, _LEAVES = 0, -1
"""Member epochs of ConsumerGroupHeartbeat."""
_REBALANCE_TIMEOUT_MS = 300_000
_SESSION_TIMEOUTS_MS = (10_000, 45_000, 6_000, 60_000, 300_000, 1_800_000, 1_000)
"""Session timeouts to try for a classic member, in case it never leaves; the allowed range differs by broker."""
_SUBSCRIPTION = bytes.fromhex("0000 00000000 ffffffff")
"""ConsumerProtocolSubscription, version 0: no topics, no user data."""
_ENTERING_S = 1.0
_GLANCE_MS = 2000
_LEAVING_S = 5.0

# Error codes for a group that has members, and that this protocol may not join.
_IN_USE = frozenset({GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID})


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 68 (KIP-848)."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 68."""


@dataclass(frozen=True, slots=True)
class _Stay:
    """Our member in one group.

    ``member_id`` is None if there is no member to remove. ``refused`` is why the broker did not let it in, unless the
    reason is other members. ``lost`` is set if it is unknown whether the broker let it in.
    """

    group: str
    target: str
    member_id: str | None = None
    refused: KgroupError | None = None
    lost: NoResponse | None = None


class Conversion:
    """Converts groups over one connection; each batch of 100 has ``timeout_s``."""

    def __init__(self, coordinators: GroupCoordinators, timeout_s: float) -> None:
        self._client = coordinators.client
        self._coordinators = coordinators
        self._timeout_s = timeout_s
        self._leaving_s = min(timeout_s, _LEAVING_S)
        self._causes: dict[int | None, KgroupError] = {}

    async def convert(self, targets: Mapping[str, str]) -> dict[str, Result]:
        """Convert each group to ``consumer`` or ``classic``. Result None: it has that type and is Empty."""
        await self._coordinators.locate(targets)
        by_node: dict[int | None, dict[str, str]] = {}
        for group, target in targets.items():
            node = self._coordinators.node(group)
            by_node.setdefault(node if isinstance(node, int) else None, {})[group] = target
        results: dict[str, Result] = {}
        # Per coordinator: one that does not answer must not keep our members in the groups of the others.
        for found in await self._client.gather(self._in_rounds(chosen) for chosen in by_node.values()):
            results |= found
        return {group: results[group] for group in targets}

    async def remove(self, groups: Mapping[str, Sequence[str]]) -> dict[str, Result]:
        """Remove members that a killed run left behind. Result None: they are gone."""
        for member_id in (member_id for ids in groups.values() for member_id in ids):
            if not member_id.startswith(OWN_MEMBER_PREFIX):
                raise ValueError(f"{member_id} is not a member of kgroup's own")
        stays = [_Stay(group, "consumer", member_id) for group, ids in groups.items() for member_id in ids]
        results: dict[str, Result] = dict.fromkeys(groups)
        for stay, result in zip(stays, await self._client.gather(map(self._leave, stays)), strict=True):
            results[stay.group] = results[stay.group] or result
        return results

    async def _in_rounds(self, targets: Mapping[str, str]) -> dict[str, Result]:
        results: dict[str, Result] = {}
        groups = list(targets)
        for at in range(0, len(groups), _AT_A_TIME):
            until = Deadline.after(self._timeout_s)
            batch = self._within(until)
            chosen = {group: targets[group] for group in groups[at : at + _AT_A_TIME]}
            while chosen:
                results |= await batch._round(chosen)
                unknown = {group: target for group, target in chosen.items() if isinstance(results[group], Unreachable)}
                chosen = {} if until.passed else unknown
        return results

    async def _round(self, targets: Mapping[str, str]) -> dict[str, Result]:
        results: dict[str, Result] = {}
        entering: list[str] = []
        for group, described in (await self._look(list(targets))).items():
            hindrance = refuse_conversion(group, described)
            if hindrance:
                results[group] = hindrance
            elif isinstance(described, GroupDescription) and described.type == targets[group]:
                results[group] = None
            else:
                entering.append(group)
        stays = await self._client.gather(self._enter(group, targets[group]) for group in entering)
        glimpsed = await self._glance(stays)
        await self._client.gather(map(self._leave, stays))
        after = await self._look_after(stays)
        for stay in stays:
            group = stay.group
            between, last = glimpsed.get(group), after[group]
            results[group] = converted_or_why_not(group, stay.target, between, last, self._refusal(stay))
        return results

    async def _look(self, groups: Sequence[str]) -> Seen:
        """The description of each group, a KgroupError if it could not be read."""
        try:
            return await self._coordinators.describe(groups, groups) if groups else {}
        except KgroupError as error:
            return dict.fromkeys(groups, error)

    async def _glance(self, stays: Iterable[_Stay]) -> Seen:
        """The groups while our members are in them, to see other members. Asked once, to keep that time short."""
        groups = [stay.group for stay in stays if stay.target == "consumer" and stay.member_id and not stay.lost]
        try:
            return await self._coordinators.describe_consumer(groups, _GLANCE_MS)
        except KgroupError as error:
            return dict.fromkeys(groups, error)

    async def _look_after(self, stays: Sequence[_Stay]) -> Seen:
        """The groups after leaving. If our join took effect only after our leave, leave again."""
        leaving = self._with_time_to_leave()
        seen = await leaving._look([stay.group for stay in stays])
        late = [stay for stay in stays if _holds_own_member(seen[stay.group])]
        await self._client.gather(map(leaving._leave, late))
        return seen | await leaving._look([stay.group for stay in late])

    async def _enter(self, group: str, target: str) -> _Stay:
        """Join until the broker answers; always with the same member id, so that a second join changes nothing.

        At most 1 s: our members in the other groups wait for this group. It gets another round.
        """
        stay = _Stay(group, target)
        if target == "consumer":
            if not self._client.supports(_HEARTBEAT_API):
                return replace(stay, refused=_no_new_protocol())
            stay = replace(stay, member_id=OWN_MEMBER_PREFIX + secrets.token_urlsafe(16))
        deadline, timeouts = Deadline.after(min(_ENTERING_S, self._client.deadline.left_s)), list(_SESSION_TIMEOUTS_MS)
        while True:
            request = _heartbeat(group, stay.member_id, _JOINS) if stay.member_id else _join(group, timeouts[0])
            answer = await self._ask(group, request)
            if isinstance(answer, KgroupError):
                return replace(stay, refused=answer)
            if isinstance(answer, NoResponse):
                if deadline.passed:
                    return replace(stay, lost=answer)
                self._coordinators.invalidate(group)
                await self._client.sleep(RETRY_PAUSE_S)
            elif answer.error_code in (NONE, MEMBER_ID_REQUIRED):
                return replace(stay, member_id=answer.member_id)
            elif answer.error_code == INVALID_SESSION_TIMEOUT and len(timeouts) > 1:
                del timeouts[0]
            else:
                return replace(stay, refused=_refused(answer.error_code, group))

    async def _leave(self, stay: _Stay) -> Result:
        """Remove our member. None: it is gone, or was never in the group."""
        if stay.member_id is None:
            return None
        leaving = self._with_time_to_leave()
        deadline = leaving._client.deadline
        while True:
            # Built for each try: a request object keeps the API version of the broker it was sent to first.
            request = (
                _heartbeat(stay.group, stay.member_id, _LEAVES)
                if stay.target == "consumer"
                else _leave_request(stay.group, stay.member_id)
            )
            answer = await leaving._ask(stay.group, request)
            if isinstance(answer, KgroupError):
                return answer
            if isinstance(answer, NoResponse):
                if deadline.passed:
                    return unverified(answer.reason)
                self._coordinators.invalidate(stay.group)
                await leaving._client.sleep(RETRY_PAUSE_S)
                continue
            code = answer.error_code or next((row.error_code for row in getattr(answer, "members", ())), NONE)
            return None if code in (NONE, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND) else change_error(code, stay.group)

    def _refusal(self, stay: _Stay) -> KgroupError | None:
        if stay.lost is None:
            return stay.refused
        # One diagnosis per broker: it may take a second.
        node = stay.lost.node
        if node not in self._causes:
            self._causes[node] = stay.lost.reason
        return unverified(self._causes[node])

    def _within(self, deadline: Deadline) -> Conversion:
        view = copy.copy(self)
        view._coordinators = self._coordinators.within(deadline)
        view._client = view._coordinators.client
        return view

    def _with_time_to_leave(self) -> Conversion:
        """Leaving, and the description after it, have a time limit of their own if little time is left."""
        enough = self._client.deadline.left_s >= self._leaving_s
        return self if enough else self._within(Deadline.after(self._leaving_s))

    async def _ask(self, group: str, request: Any) -> Any:
        """The coordinator's final response, NoResponse if there was none, or a KgroupError: no retry helps."""
        answer = await to_coordinator(self._coordinators, group, request)
        if isinstance(answer, NoResponse | KgroupError) or answer.error_code not in UNSURE:
            return answer
        return NoResponse(partial(change_error, answer.error_code, group), sent=answer.error_code in MAYBE_STORED)


def _holds_own_member(seen: GroupDescription | KgroupError) -> bool:
    return isinstance(seen, GroupDescription) and any(map(is_own_member, seen.members or ()))


def _refused(code: int, group: str) -> KgroupError | None:
    """Why the broker did not let us in; None if other members are there: the next description names them."""
    if code in _IN_USE:
        return None
    return _no_new_protocol() if code == UNSUPPORTED_VERSION else change_error(code, group)


def _no_new_protocol() -> Refused:
    return Refused(
        "the broker does not offer the new protocol (KIP-848)",
        code="protocol-unavailable",
        hint="see the checks of the plan: the feature group.version, and group.coordinator.rebalance.protocols",
    )


def _heartbeat(group: str, member_id: str, epoch: int) -> Any:
    joins = epoch == _JOINS
    # In version 0, the only one some proxies support, the broker generates the member id, but accepts ours too.
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS if joins else -1,
        subscribed_topic_names=[] if joins else None,
        topic_partitions=[] if joins else None,
    )


def _join(group: str, session_timeout_ms: int) -> Any:
    """A JoinGroup. From version 4 on the response is MEMBER_ID_REQUIRED; the group is a classic one from then on."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[protocol],
        reason="converted with kgroup migrate",
        min_version=4,
    )


def _leave_request(group: str, member_id: str) -> Any:
    member = LeaveGroupRequest.MemberIdentity(
        member_id=member_id, group_instance_id=None, reason="converted with kgroup migrate"
    )
    return LeaveGroupRequest(group_id=group, members=[member], min_version=3)
