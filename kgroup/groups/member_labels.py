"""The names of a group's members, what they subscribe to, and the members that a killed kgroup left behind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kgroup.model.group_log import GenerationWritten, MemberWritten
from kgroup.model.groups import Group, Member
from kgroup.model.migration_facts import is_own_member


def member_names(group: Group) -> dict[str, str]:
    """Names by member id: the instance id, otherwise the client id; the member id itself if that is not unique."""
    uses = Counter(_name(member) for member in group.members or ())
    return {
        member.member_id: _name(member) if uses[_name(member)] == 1 else member.member_id
        for member in group.members or ()
    }


def labels(group: Group) -> dict[str, str]:
    """Names for pages that show the host too: one client id on different hosts is unique enough."""
    members = group.members or ()
    uses = Counter((_name(member), member.host) for member in members)
    return {m.member_id: _name(m) if uses[_name(m), m.host] == 1 else m.member_id for m in members}


def _name(member: Member) -> str:
    return member.instance_id or member.client_id or member.member_id


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics to which the members subscribe; None if that is not known: a pattern, a rebalance, other protocols."""
    if group.members is None or any(m.subscription is None or m.subscription_regex is not None for m in group.members):
        return None
    return frozenset(topic for member in group.members for topic in member.subscription or ())


def topics_read(group: Group) -> frozenset[str] | None:
    """The topics that members subscribe to or own; None if that is not known.

    What a pattern matches is known of a Stable group: a member owns each partition of a topic that it matches.
    """
    if (subscribed := subscribed_topics(group)) is not None or group.members is None or group.state != "Stable":
        return subscribed
    topics: set[str] = set()
    for member in group.members:
        if member.assignment is None or (member.subscription is None and member.subscription_regex is None):
            return None
        topics.update(member.subscription or (), (each.topic for each in member.assignment))
    return frozenset(topics)


def unsubscribed_topics(group: Group) -> frozenset[str]:
    """The topics with commits that no member of a running group subscribes to or owns; none if that is not known.

    kgroup's own member subscribes to the topics of its change alone.
    """
    if not group.members or group.is_rebalancing or (read := topics_read(group)) is None:
        return frozenset()
    left = {p.topic for p in group.partitions if p.commit is not None} - read
    if not left or any(map(is_own_member, group.members)):
        return frozenset()
    return frozenset(left - {p.topic for p in group.partitions if p.owner is not None})


def topics_left_before(group: Group, newest: GenerationWritten | None) -> frozenset[str]:
    """The topics with commits to which no member of the newest generation subscribed, while a rebalance is under way.

    Who subscribes to them now is not known before it ends: a member that does may be joining.
    """
    members = () if newest is None or not group.is_rebalancing else newest.members
    read = [member.topics for member in members]
    if not read or None in read:
        return frozenset()
    committed = frozenset(p.topic for p in group.partitions if p.commit is not None)
    return committed - frozenset(topic for topics in read for topic in topics or ())


def topics_of_some(events: Iterable[object]) -> frozenset[str]:
    """The topics to which some members subscribed while others did not: services may share the group.

    So it is for a while too where members that subscribe to other topics replace them one after the other.
    """
    found: set[str] = set()
    known: dict[str, frozenset[str]] = {}
    for event in events:
        if isinstance(event, GenerationWritten):
            known = {member.member_id: member.topics for member in event.members if member.topics is not None}
        elif isinstance(event, MemberWritten):
            known.pop(event.member_id, None)
            if event.details is not None and event.details.pattern is None:
                known[event.member_id] = event.details.topics
        else:
            continue
        if len(known) > 1:
            found |= frozenset().union(*known.values()) - frozenset.intersection(*known.values())
    return frozenset(found)


def stale_members(groups: Sequence[Group]) -> dict[str, tuple[str, ...]]:
    """The ids of kgroup's stale members, by group; groups without any are left out."""
    stale = {
        group.name: tuple(member.member_id for member in group.members or () if is_own_member(member))
        for group in groups
    }
    return {name: ids for name, ids in stale.items() if ids}


def without_stale_members(group: Group) -> Group:
    """The group without kgroup's stale members, as it will be after their sessions have expired."""
    if not stale_members([group]):
        return group
    others = tuple(member for member in group.members or () if not is_own_member(member))
    return replace(group, members=others, state=group.state if others else "Empty")
