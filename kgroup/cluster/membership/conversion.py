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
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

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
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S
from kgroup.cluster.coordinator.groups import GroupCoordinators, GroupDescription
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.lost_responses import MAYBE_STORED, UNSURE, NoResponse, send_to_coordinator
from kgroup.cluster.membership.conversion_result import converted_or_why_not, refuse_conversion, unverified
from kgroup.cluster.membership.requests import (
    JOINS,
    LEAVES,
    consumer_heartbeat_request,
    join_request,
    leave_request,
    protocol_subscription,
)
from kgroup.model.migration_facts import OWN_MEMBER_PREFIX, is_own_member
from kgroup.support.errors import KgroupError, Refused, Unreachable, refusal_code

PROTOCOL_UNAVAILABLE = refusal_code(
    "protocol-unavailable",
    "migrate",
    "The broker does not offer the consumer protocol.",
    "Read the checks of the plan: they name the setting of the broker.",
)

Descriptions = dict[str, GroupDescription | KgroupError]

_GROUPS_PER_BATCH = 100
"""How many groups of a coordinator have our member at the same time, for about a tenth of a second."""

_HEARTBEAT_API = 68
_REBALANCE_TIMEOUT_MS = 300_000
_SESSION_TIMEOUTS_MS = (10_000, 45_000, 6_000, 60_000, 300_000, 1_800_000, 1_000)
"""Session timeouts to try for a classic member, in case it never leaves; the allowed range differs by broker."""
_REASON = "converted with kgroup migrate"
_JOIN_S = 1.0
_DESCRIBE_MS = 2000
_LEAVE_S = 5.0

# Error codes for a group that has members, and that this protocol may not join.
_IN_USE = frozenset({GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID})


class _OwnMember(msgspec.Struct, frozen=True):
    """Our member in one group.

    ``member_id`` is None if there is no member to remove. ``refusal`` is why the broker did not let it in, unless the
    reason is other members. ``no_response`` is set if it is unknown whether the broker let it in.
    """

    group: str
    target: str
    member_id: str | None = None
    refusal: KgroupError | None = None
    no_response: NoResponse | None = None


class Conversion:
    """Converts groups over one connection; each batch of 100 has ``timeout_s``."""

    def __init__(self, coordinators: GroupCoordinators, timeout_s: float) -> None:
        self._client = coordinators.client
        self._coordinators = coordinators
        self._timeout_s = timeout_s
        self._leave_s = min(timeout_s, _LEAVE_S)
        self._causes: dict[int | None, KgroupError] = {}

    async def convert(self, targets: Mapping[str, str]) -> dict[str, KgroupError | None]:
        """Convert each group to ``consumer`` or ``classic``. Result None: it has that type and is Empty."""
        await self._coordinators.locate(targets)
        by_node: dict[int | None, dict[str, str]] = {}
        for group, target in targets.items():
            node = self._coordinators.node(group)
            by_node.setdefault(node if isinstance(node, int) else None, {})[group] = target
        results: dict[str, KgroupError | None] = {}
        # Per coordinator: one that does not answer must not keep our members in the groups of the others.
        for converted in await self._client.gather(map(self._convert_in_batches, by_node.values())):
            results |= converted
        return {group: results[group] for group in targets}

    async def remove(self, groups: Mapping[str, Sequence[str]]) -> dict[str, KgroupError | None]:
        """Remove members that a killed run left behind. Result None: they are gone."""
        for member_id in (member_id for ids in groups.values() for member_id in ids):
            if not member_id.startswith(OWN_MEMBER_PREFIX):
                raise ValueError(f"{member_id} is not a member of kgroup's own")
        members = [_OwnMember(group, "consumer", member_id) for group, ids in groups.items() for member_id in ids]
        results: dict[str, KgroupError | None] = dict.fromkeys(groups)
        for member, result in zip(members, await self._client.gather(map(self._leave, members)), strict=True):
            results[member.group] = results[member.group] or result
        return results

    async def _convert_in_batches(self, targets: Mapping[str, str]) -> dict[str, KgroupError | None]:
        results: dict[str, KgroupError | None] = {}
        groups = list(targets)
        for at in range(0, len(groups), _GROUPS_PER_BATCH):
            deadline = Deadline.after(self._timeout_s)
            batch = self._within(deadline)
            pending = {group: targets[group] for group in groups[at : at + _GROUPS_PER_BATCH]}
            own: list[_OwnMember] = []
            while pending:
                results |= await batch._convert_once(pending, own)
                unknown = {
                    group: target for group, target in pending.items() if isinstance(results[group], Unreachable)
                }
                pending = {} if deadline.passed else unknown
                if pending:
                    await batch._client.sleep(RETRY_PAUSE_S)
        return results

    async def _convert_once(self, targets: Mapping[str, str], own: list[_OwnMember]) -> dict[str, KgroupError | None]:
        """One round; the members that it makes are added to ``own``."""
        results: dict[str, KgroupError | None] = {}
        joining: list[str] = []
        for group, described in (await self._describe_without_own(list(targets), own)).items():
            refusal = refuse_conversion(group, described, joined=any(member.group == group for member in own))
            if refusal:
                results[group] = refusal
            elif isinstance(described, GroupDescription) and described.type == targets[group]:
                results[group] = None
            else:
                joining.append(group)
        members = await self._client.gather(self._join(group, targets[group]) for group in joining)
        own += members
        during = await self._describe_during(members)
        await self._client.gather(map(self._leave, members))
        after = await self._with_time_to_leave()._describe_without_own([member.group for member in members], own)
        for member in members:
            group = member.group
            results[group] = converted_or_why_not(
                group, member.target, during.get(group), after[group], self._refusal(member)
            )
        return results

    async def _describe(self, groups: Sequence[str]) -> Descriptions:
        """The description of each group, a KgroupError if it could not be read."""
        try:
            return await self._coordinators.describe(groups, groups) if groups else {}
        except KgroupError as error:
            return dict.fromkeys(groups, error)

    async def _describe_without_own(self, groups: Sequence[str], own: Sequence[_OwnMember]) -> Descriptions:
        """The groups without our members, also those whose join took effect only after their leave, in any round."""
        descriptions = await self._describe(groups)
        late = [m for m in own if m.group in descriptions and _has_own_member(descriptions[m.group])]
        await self._client.gather(map(self._leave, late))
        return descriptions | await self._describe(list(dict.fromkeys(member.group for member in late)))

    async def _describe_during(self, members: Iterable[_OwnMember]) -> Descriptions:
        """The groups while our members are in them, to see other members. Asked once, to keep that time short."""
        groups = [
            member.group
            for member in members
            if member.target == "consumer" and member.member_id and not member.no_response
        ]
        try:
            return await self._coordinators.describe_consumer(groups, _DESCRIBE_MS)
        except KgroupError as error:
            return dict.fromkeys(groups, error)

    async def _join(self, group: str, target: str) -> _OwnMember:
        """Join until the broker answers; always with the same member id, so that a second join changes nothing.

        At most 1 s: our members in the other groups wait for this group. It gets another round.
        """
        member = _OwnMember(group, target)
        if target == "consumer":
            if not self._client.supports(_HEARTBEAT_API):
                return replace(member, refusal=_no_new_protocol())
            member = replace(member, member_id=OWN_MEMBER_PREFIX + secrets.token_urlsafe(16))
        deadline, timeouts = Deadline.after(min(_JOIN_S, self._client.deadline.left_s)), list(_SESSION_TIMEOUTS_MS)
        while True:
            # Built for each try: a request object keeps the API version of the broker it was sent to first.
            request = (
                consumer_heartbeat_request(group, member.member_id, JOINS, _REBALANCE_TIMEOUT_MS)
                if member.member_id
                else _join_request(group, timeouts[0])
            )
            answer = await self._ask(group, request)
            if isinstance(answer, KgroupError):
                return replace(member, refusal=answer)
            if isinstance(answer, NoResponse):
                if deadline.passed:
                    return replace(member, no_response=answer)
                self._coordinators.invalidate(group)
                await self._client.sleep(RETRY_PAUSE_S)
            elif answer.error_code in (NONE, MEMBER_ID_REQUIRED):
                return replace(member, member_id=answer.member_id)
            elif answer.error_code == INVALID_SESSION_TIMEOUT and len(timeouts) > 1:
                del timeouts[0]
            else:
                return replace(member, refusal=_join_refusal(answer.error_code, group))

    async def _leave(self, member: _OwnMember) -> KgroupError | None:
        """Remove our member. None: it is gone, or was never in the group."""
        if member.member_id is None:
            return None
        leaving = self._with_time_to_leave()
        deadline = leaving._client.deadline
        while True:
            request = (
                consumer_heartbeat_request(member.group, member.member_id, LEAVES)
                if member.target == "consumer"
                else leave_request(member.group, member.member_id, reason=_REASON)
            )
            answer = await leaving._ask(member.group, request)
            if isinstance(answer, KgroupError):
                return answer
            if isinstance(answer, NoResponse):
                if deadline.passed:
                    return unverified(answer.reason)
                self._coordinators.invalidate(member.group)
                await leaving._client.sleep(RETRY_PAUSE_S)
                continue
            code = answer.error_code or next((row.error_code for row in getattr(answer, "members", ())), NONE)
            return None if code in (NONE, UNKNOWN_MEMBER_ID, GROUP_ID_NOT_FOUND) else change_error(code, member.group)

    def _refusal(self, member: _OwnMember) -> KgroupError | None:
        if member.no_response is None:
            return member.refusal
        # One diagnosis per broker: it may take a second.
        node = member.no_response.node
        if node not in self._causes:
            self._causes[node] = member.no_response.reason
        return unverified(self._causes[node])

    def _within(self, deadline: Deadline) -> Conversion:
        view = copy.copy(self)
        view._coordinators = self._coordinators.within(deadline)
        view._client = view._coordinators.client
        return view

    def _with_time_to_leave(self) -> Conversion:
        """Leaving, and the description after it, have a time limit of their own if little time is left."""
        enough = self._client.deadline.left_s >= self._leave_s
        return self if enough else self._within(Deadline.after(self._leave_s))

    async def _ask(self, group: str, request: Any) -> Any:
        """The coordinator's final response, NoResponse if there was none, or a KgroupError: no retry helps."""
        answer = await send_to_coordinator(self._coordinators, group, request)
        if isinstance(answer, NoResponse | KgroupError) or answer.error_code not in UNSURE:
            return answer
        return NoResponse(partial(change_error, answer.error_code, group), sent=answer.error_code in MAYBE_STORED)


def _has_own_member(described: GroupDescription | KgroupError) -> bool:
    return isinstance(described, GroupDescription) and any(map(is_own_member, described.members or ()))


def _join_refusal(code: int, group: str) -> KgroupError | None:
    """Why the broker did not let us in; None if other members are there: the next description names them."""
    if code in _IN_USE:
        return None
    return _no_new_protocol() if code == UNSUPPORTED_VERSION else change_error(code, group)


def _no_new_protocol() -> Refused:
    return Refused(
        "the broker does not offer the new protocol (KIP-848)",
        code=PROTOCOL_UNAVAILABLE,
        hint="see the checks of the plan: the feature group.version, and group.coordinator.rebalance.protocols",
    )


def _join_request(group: str, session_timeout_ms: int) -> Any:
    """A JoinGroup. From version 4 on the response is MEMBER_ID_REQUIRED; the group is a classic one from then on."""
    protocols = {"range": protocol_subscription(())}
    return join_request(group, protocols, session_timeout_ms, session_timeout_ms, reason=_REASON)
