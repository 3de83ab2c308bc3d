"""A rollout from one rebalance protocol to the other: its steps, and its progress over refreshes of a group.

Pure: each refresh comes with its time, values and lines are returned. ``kgroup.queries.rollout`` reads the groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kgroup.groups.member_labels import labels
from kgroup.groups.migration.about_assignors import client_assignors, server_assignor
from kgroup.groups.migration.check import MigrationPath
from kgroup.groups.migration.evidence import MigrationCase, MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules
from kgroup.groups.wait_conditions import Observation, Stable
from kgroup.groups.wait_progress import EventLine
from kgroup.model.groups import Group, Member
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.hint import Hint
from kgroup.support.json_types import Count, Ms
from kgroup.support.units import NAMED, plural, some_of


def rolling_steps(evidence: MigrationEvidence, request: MigrationRequest, how: MigrationPath) -> tuple[str, ...]:
    """The numbered steps, one line each; empty unless ``how`` of its readiness is ROLLING.

    Members that join with the other protocol trigger the conversion; the broker does the rest.
    """
    if how is not MigrationPath.ROLLING:
        return ()
    case = MigrationCase(evidence, request, MigrationRules())
    steps = _to_consumer(case) if case.to_consumer else _to_classic(case)
    return tuple(f"{number}. {step}" for number, step in enumerate(steps, 1))


def _to_consumer(case: MigrationCase) -> tuple[str, ...]:
    assignor = server_assignor(case.assignor or "") if case.group.type == "classic" else None
    setting = f" and group.remote.assignor={assignor}" if assignor else ""
    set_up = (
        f"In the application's configuration set group.protocol=consumer{setting}; remove session.timeout.ms, "
        "heartbeat.interval.ms and partition.assignment.strategy, with which the client would not start."
    )
    names = labels(case.group)
    classic_labels = [names[member.member_id] for member in case.classic_left]
    instances = f"those that are left ({some_of(classic_labels)})" if classic_labels else "its instances"
    convert = "" if case.rolls_out else " The first one converts the group; the others continue in it."
    return (
        set_up,
        f"Restart {instances} one by one, {_order(case)}.{convert}",
        Hint("Follow it until no classic member is left: {}", ("migrate", case.group.name, "--watch")),
        _way_back(case),
    )


def _to_classic(case: MigrationCase) -> tuple[str, ...]:
    names = client_assignors(case.group.assignor or "")
    setting = f" and partition.assignment.strategy={names[0]}" if names else ""
    return (
        f"In the application's configuration set group.protocol=classic{setting}; remove group.remote.assignor, with "
        "which the client would not start.",
        f"Restart its instances one by one, {_order(case)}. They join the group together with the others.",
        Hint(
            "The group turns classic when the last member of the consumer protocol has left: {}",
            ("migrate", case.group.name, "--protocol", "classic", "--watch"),
        ),
    )


def _order(case: MigrationCase) -> str:
    """How to restart: a consumer member does not give up its instance id to a newcomer (KIP-848)."""
    return "each stopped before its successor starts" if case.instances else "waiting until each has its partitions"


def _way_back(case: MigrationCase) -> str:
    match case.broker.policy:
        case "BIDIRECTIONAL" | "DOWNGRADE":
            how = (
                "restart them one by one with the old configuration; the group turns classic when the last consumer "
                "member leaves"
            )
        case None:
            how = "stop all of them, and start them with the old configuration"
        case policy:
            how = f"stop all of them, and start them with the old configuration (policy {policy} has no other way)"
    return f"To revert: {how}."


PROTOCOLS = ("classic", "consumer")


def other_than(protocol: str) -> str:
    """The other protocol: classic for consumer, consumer for classic."""
    return "classic" if protocol == "consumer" else "consumer"


class ClassicMemberDocument(msgspec.Struct, frozen=True):
    """A member that still uses the old protocol."""

    member_id: Annotated[str, "The member id."]
    client_id: Annotated[str, "The client id."]
    instance_id: Annotated[str | None, "group.instance.id of a static member."]
    host: Annotated[str, "The member's address."]


class GroupRollout(msgspec.Struct, frozen=True):
    """The progress of one group's rollout."""

    group: Annotated[str, "The group."]
    type: Annotated[str | None, "The type; null if the group does not exist."]
    state: Annotated[str | None, "The state; null if the group does not exist."]
    finished: Annotated[bool, "Whether every member uses the new protocol."]
    member_count: Annotated[Count, "Number of members."]
    classic_member_count: Annotated[Count, "Members that use the classic protocol."]
    consumer_member_count: Annotated[Count, "Members that use the consumer protocol."]
    first_group_epoch: Annotated[int | None, "The epoch at the first refresh."]
    group_epoch: Annotated[int | None, "The group epoch."]
    assignment_epoch: Annotated[int | None, "The assignment epoch."]
    moved_partition_count: Annotated[Count, "Partitions that changed their member."]
    reverted_count: Annotated[Count, "How often the group returned to the old type."]
    waited_ms: Annotated[Ms, "How long kgroup has waited."]
    remaining_members: Annotated[tuple[ClassicMemberDocument, ...], "Members that use the old protocol."]


class FollowedGroup(msgspec.Struct, frozen=True):
    """One group over all refreshes so far."""

    name: str
    target: str
    group: Group | None = None
    """From the last refresh; None if it did not exist."""
    type: str | None = None
    """The last known type, also of a group that is gone."""
    owners: Mapping[TopicPartition, str] = msgspec.field(default_factory=dict)
    """The last owner of each partition."""
    moved: int = 0
    """Changes of the owner, also of a partition that was unassigned in between."""
    reverted_count: int = 0
    """Changes from the ``target`` type to the other one."""
    first_epoch: int | None = None
    """The first group epoch seen with the present type."""
    was_read: bool = False
    changed_s: float | None = None
    """The last change, on a monotonic clock; None if there was none since the first refresh."""

    def step(self, group: Group | None, now_s: float) -> FollowedGroup:
        """The state after another refresh, which was answered at ``now_s``."""
        owners = dict(self.owners)
        moved = 0
        for member in _members(group):
            for item in member.assignment or ():
                for number in item.partitions:
                    owner = owners.get(TopicPartition(item.topic, number))
                    moved += owner is not None and owner != _key(member)
                    owners[TopicPartition(item.topic, number)] = _key(member)
        epoch = None if group is None else group.group_epoch
        changed_type = group is not None and group.type != self.type
        return replace(
            self,
            group=group,
            type=self.type if group is None else group.type,
            owners=owners,
            moved=self.moved + moved,
            reverted_count=self.reverted_count + self._returns_to_old_type(group),
            first_epoch=epoch if changed_type or self.first_epoch is None else self.first_epoch,
            was_read=True,
            changed_s=now_s if self.was_read and _event_key(group) != _event_key(self.group) else self.changed_s,
        )

    def _returns_to_old_type(self, group: Group | None) -> bool:
        return group is not None and self.type == self.target and group.type == other_than(self.target)

    @property
    def members(self) -> dict[str, int]:
        """Number of members by protocol; members whose protocol the broker does not report are not counted."""
        counts = Counter(member.protocol for member in _members(self.group))
        return {protocol: counts[protocol] for protocol in PROTOCOLS}

    @property
    def member_count(self) -> int:
        return len(_members(self.group))

    def rollout(self, waited_s: float) -> GroupRollout:
        """The progress so far."""
        group, members = self.group, self.members
        return GroupRollout(
            group=self.name,
            type=group.type if group else None,
            state=group.state if group else None,
            finished=self.finished,
            member_count=self.member_count,
            classic_member_count=members["classic"],
            consumer_member_count=members["consumer"],
            first_group_epoch=self.first_epoch,
            group_epoch=group.group_epoch if group else None,
            assignment_epoch=group.assignment_epoch if group else None,
            moved_partition_count=self.moved,
            reverted_count=self.reverted_count,
            waited_ms=round(waited_s * 1000),
            remaining_members=tuple(
                ClassicMemberDocument(member.member_id, member.client_id, member.instance_id, member.host)
                for member in self.remaining
            ),
        )

    @property
    def remaining(self) -> tuple[Member, ...]:
        """The members that still speak the other protocol."""
        return tuple(m for m in _members(self.group) if m.protocol == other_than(self.target))

    @property
    def finished(self) -> bool:
        """Whether the group has the target type, is Stable, and all its members (at least one) speak the protocol."""
        group = self.group
        if group is None or group.type != self.target or not group.members:
            return False
        return (
            all(m.protocol == self.target for m in group.members)
            and Stable().judge(Observation(self.name, group, 0)).holds
        )

    def unsettled_s(self, now_s: float, for_s: float) -> float:
        """Seconds until nothing has changed for ``for_s``; 0 if nothing has changed since the first refresh."""
        return 0.0 if self.changed_s is None else max(0.0, self.changed_s + for_s - now_s)


def _members(group: Group | None) -> tuple[Member, ...]:
    return () if group is None else group.members or ()


def _key(member: Member) -> str:
    """The member's identity: a static member stays the same with another member id or protocol."""
    return member.member_id if member.instance_id is None else f"instance {member.instance_id}"


def _event_key(group: Group | None) -> Hashable:
    if group is None:
        return None
    members = frozenset((m.member_id, m.protocol) for m in _members(group))
    return (group.type, group.state, group.group_epoch, members)


# Texts


def back_text(before: FollowedGroup, after: FollowedGroup) -> str | None:
    """``pay-svc is classic again: a classic member (pay-0 10.0.7.2) joined first``; None if it did not turn back."""
    group = after.group
    if group is None or after.reverted_count == before.reverted_count:
        return None
    again = f"{after.name} is {group.type} again"
    known = {member.member_id for member in _members(before.group)}
    names = _names(group)
    if not group.members:
        return f"{again}, and Empty: a {group.type} member joined and left, or another client converted it"
    stayed = [names[m.member_id] for m in group.members if m.member_id in known]
    came = [names[m.member_id] for m in group.members if m.member_id not in known and m.protocol == group.type]
    if stayed and group.type == "classic":
        return f"{again}: its last consumer member has left, and {_some_members(group.type, stayed)} stayed"
    return f"{again}: {_some_members(group.type, came)} joined{'' if stayed else ' first'}"


def joined_text(before: FollowedGroup, after: FollowedGroup) -> str | None:
    """``pay-svc a classic member joined: pay-0 10.0.7.2``, during a rollout to the other protocol; else None."""
    other = other_than(after.target)
    if after.group is None or not before.was_read or not (after.type == after.target or after.members[after.target]):
        return None
    known = {(_key(member), member.protocol) for member in _members(before.group)}
    came = [m.member_id for m in after.remaining if (_key(m), m.protocol) not in known]
    if not came:
        return None
    names = _names(after.group)
    count = f"a {other} member" if len(came) == 1 else plural(len(came), f"{other} member")
    return f"{after.name} {count} joined: {some_of([names[member_id] for member_id in came])}"


def line_of(followed: FollowedGroup) -> EventLine:
    """The state of a group's rollout; lines with the same key differ only in the number of partitions moved."""
    name, group, target = followed.name, followed.group, followed.target
    if group is None and followed.type is None:
        return EventLine("absent", f"{name} does not exist: waiting for it")
    if group is None:
        why = "the broker deletes a group without members and commits at its next check"
        return EventLine("gone", f"{name} is gone ({why}): waiting until it exists again")
    if not group.members:
        empty = f"{name} is {group.state}, of type {group.type}: the first member that joins decides its type"
        return EventLine(("empty", group.type, group.state), empty)
    members, total = followed.members, followed.member_count
    unknown = total - sum(members.values())
    epoch = "" if group.group_epoch is None else f", epoch {group.group_epoch}"
    state = "" if group.state == "Stable" else f", {group.state}"
    parts = [f"{name} {_protocol_counts(members[target], total, target)}{epoch}, {_moved(followed.moved)}{state}"]
    names = _names(group)
    remaining = [names[m.member_id] for m in followed.remaining]
    if 0 < len(remaining) <= NAMED:
        parts.append(f"still {other_than(target)}: {', '.join(remaining)}")
    if unknown:
        parts.append(f"the broker does not report which protocol {plural(unknown, 'member')} {_verb(unknown)}")
    if group.type == "consumer" and target == "classic" and members["classic"] == total:
        # The broker changes the type at the moment when the last consumer member leaves, or never.
        parts.append(
            "its type stays consumer until all its members are stopped at once: "
            "group.consumer.migration.policy does not allow a downgrade, or group.max.size is less than its members"
        )
    shown = tuple(remaining) if len(remaining) <= NAMED else ()
    key = (group.type, not state, total, tuple(members.values()), group.group_epoch, shown)
    return EventLine(key, "; ".join(parts))


def finished_line(followed: FollowedGroup) -> EventLine:
    """``pay-svc finished: 6 members, all consumer``."""
    return EventLine("finished", f"{followed.name} finished: {_all_of(followed.member_count, followed.target)}")


def rollout_summary(groups: Sequence[FollowedGroup], finished: Sequence[str]) -> EventLine:
    """One line for many groups; ``finished`` are the names of those that are finished."""
    target = groups[0].target
    total = sum(followed.member_count for followed in groups)
    missing = [followed.name for followed in groups if followed.name not in set(finished)]
    if not missing:
        return EventLine("finished", f"all {plural(len(groups), 'group')} finished: {_all_of(total, target)}")
    speaking = _protocol_counts(sum(followed.members[target] for followed in groups), total, target)
    moved = _moved(sum(followed.moved for followed in groups))
    done = f"{len(finished)} of {plural(len(groups), 'group')} finished"
    return EventLine(("many", *missing), f"{done}: {speaking}, {moved}; not yet: {some_of(missing)}")


def rollout_events(before: FollowedGroup, after: FollowedGroup) -> Iterator[tuple[str, str]]:
    """Events between two refreshes that ``line_of`` does not show, as (fixed word, text)."""
    if back := back_text(before, after):
        yield "REVERTED", back
    elif joined := joined_text(before, after):
        yield "ROLLOUT", joined


def _names(group: Group) -> dict[str, str]:
    own = labels(group)
    return {m.member_id: f"{own[m.member_id]} {m.host}" for m in _members(group)}


def _some_members(protocol: str, names: Sequence[str]) -> str:
    if not names:
        return f"a {protocol} member"
    return f"{f'a {protocol} member' if len(names) == 1 else f'{protocol} members'} ({some_of(names)})"


def _protocol_counts(count: int, total: int, protocol: str) -> str:
    return f"{count} of {plural(total, 'member')} {_verb(total)} {protocol}"


def _verb(count: int) -> str:
    return "speaks" if count == 1 else "speak"


def _moved(count: int) -> str:
    return f"{plural(count, 'partition')} moved"


def _all_of(count: int, protocol: str) -> str:
    return f"1 member, {protocol}" if count == 1 else f"{plural(count, 'member')}, all {protocol}"
