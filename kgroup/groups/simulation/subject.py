"""Makes the input of a simulation from a described group: not rebalancing, each partition with one owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.groups.foreign_owners import STREAMS_ASSIGNOR, foreign_owner
from kgroup.groups.simulation.model import SERVER_DEFAULT, GroupChange, SimulatedGroup, known_assignors
from kgroup.model.groups import Assignment, Group, Member
from kgroup.model.streams_group import STREAMS
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import FOREIGN_OWNER, KgroupError, NotFound, Refused, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.units import plural

UNKNOWN_ASSIGNOR = refusal_code(
    "unknown-assignor", "simulate", "kgroup does not have the assignor of the group.", "Name one with --assignor."
)
TOO_FEW_MEMBERS = refusal_code(
    "too-few-members", "simulate", "More members are removed than the group has.", "Remove fewer members."
)
MEMBERS_HIDDEN = refusal_code(
    "members-hidden",
    "simulate",
    "The broker does not show the members or their assignment.",
    "Get DESCRIBE on the group, or use --from-file.",
)
NO_MEMBERS = refusal_code(
    "no-members",
    "simulate",
    "The group has no members, so there is no assignment to start from.",
    "Start its members, or use --from-file.",
)
REBALANCING = refusal_code(
    "rebalancing",
    "simulate",
    "The group is rebalancing, so there is no assignment to start from.",
    "Wait until it is stable, or use --from-file.",
    not_yet=True,
)

_AT_REST = {
    "classic": ("Stable", "Empty", "Dead"),
    "consumer": ("Stable", "Reconciling", "Empty", "Dead"),
    STREAMS: ("Stable", "Empty", "Dead"),
}
"""A consumer group that is Reconciling is included: it has its target already, and members are moving to it."""
_CLIENT_DEFAULT = "range"


def check_subject(group: Group) -> None:
    """Raise Refused for a group that cannot be simulated: another framework's, rebalancing, or with hidden members."""
    if not group.is_of_consumers:
        owner = foreign_owner(group)
        what = f"belongs to {owner.framework} {owner.evidence}" if owner else f"is of type {group.protocol_type}"
        raise Refused(f"{group.name} {what}: its members are not assigned partitions", code=FOREIGN_OWNER)
    if group.members is None:
        raise Refused(
            f"{group.name}: this user may not see its members (DESCRIBE on the Group is needed)", code=MEMBERS_HIDDEN
        )
    if group.state not in _AT_REST.get(group.type, ()):
        raise Refused(
            f"{group.name} is in the middle of a rebalance ({group.state}): there is no assignment to start from",
            hint=Hint("{}", ("wait", group.name, "--for", "stable")),
            code=REBALANCING,
        )


def is_application(group: Group) -> bool:
    """Whether it is a streams group, or a classic Streams application with members."""
    return group.is_streams or group.assignor == STREAMS_ASSIGNOR


def topics_of(group: Group) -> tuple[str, ...]:
    """The topics of the members; without members those with commits."""
    if group.members:
        return tuple(sorted(set().union(*(_subscription(group, member) for member in group.members))))
    return tuple(sorted({partition.topic for partition in group.partitions}))


def subject_of(group: Group, topics: Sequence[AssignorTopic], instead: str | None) -> SimulatedGroup:
    """The group with these topics; ``instead`` is the assignor that the user asked for, used if its own is unknown.

    Raises Refused like ``check_subject``, for a partition with two owners, and for a custom assignor if it is None, and
    for a Streams application.
    """
    check_subject(group)
    if is_application(group):
        raise Refused(
            f"{group.name} is a Streams application, and the file does not have the tasks of its instances",
            hint="Leave out --from-file",
            code=UNKNOWN_ASSIGNOR,
        )
    members = tuple(
        Subscriber(
            member_id=member.member_id,
            topics=frozenset(_subscription(group, member)),
            instance_id=member.instance_id,
            rack=member.rack,
            owned=_partitions(_target(group, member)),
        )
        for member in group.members or ()
    )
    owned = [tp for member in members for tp in member.owned]
    if len(set(owned)) < len(owned):
        topic, number = next(tp for tp in owned if owned.count(tp) > 1)
        raise Refused(
            f"{group.name}: {topic}:{number} has two owners, which is possible only during a rebalance",
            code=REBALANCING,
        )
    known = known_assignors(group.type)
    assignor = group.assignor or (SERVER_DEFAULT if group.type == "consumer" else _CLIENT_DEFAULT)
    if assignor not in known:
        if instead is None:
            raise Refused(
                f"{group.name} uses the assignor {assignor}, which only its own clients know",
                hint="--assignor range (or another one) simulates that assignor",
                code=UNKNOWN_ASSIGNOR,
            )
        assignor = instead if instead in known else next(iter(known))
    return SimulatedGroup(group.type, assignor, members, tuple(topics))


def topics_as_described(group: Group) -> tuple[AssignorTopic, ...]:
    """The topics as far as the description shows them: partitions, no ids, no racks."""
    sizes: dict[str, int] = {}
    named = [(partition.topic, partition.partition) for partition in group.partitions]
    assigned = [tp for member in group.members or () for tp in _partitions(_target(group, member))]
    for topic, number in (*named, *assigned):
        sizes[topic] = max(sizes.get(topic, 0), number + 1)
    return tuple(AssignorTopic(topic, sizes[topic]) for topic in topics_of(group) if topic in sizes)


def leavers(group: Group, named: Sequence[str]) -> tuple[str, ...]:
    """The member ids for names: member ids, instance ids, or client ids that only one member has.

    Raises NotFound, with similar names, for another name.
    """
    members = group.members or ()
    member_ids: list[str] = []
    for name in named:
        exactly = [m for m in members if name in (m.member_id, m.instance_id)]
        alike = exactly or [m for m in members if m.client_id == name]
        if len(alike) == 1:
            member_ids.append(alike[0].member_id)
            continue
        if alike:
            ids = ", ".join(member.member_id for member in alike[:3])
            raise NotFound(
                f"{group.name}: {len(alike)} members have the client id {name}",
                hint=f"Name one by its member id: {ids}",
            )
        from difflib import get_close_matches

        known = dict.fromkeys(text for m in members for text in (m.instance_id, m.client_id, m.member_id) if text)
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        raise NotFound(
            f"{group.name} has no member or instance {name}",
            details=(f"Near: {', '.join(near)}",) if near else (),
            hint=Hint("{}", ("describe", group.name, "--members")),
        )
    return tuple(dict.fromkeys(member_ids))


def check_grown(group: Group, growing: Sequence[str], topics: Mapping[str, AssignorTopic]) -> None:
    """Raise NotFound for a topic that the group does not read."""
    from difflib import get_close_matches

    for name in growing:
        if name not in topics:
            near = get_close_matches(name, topics, n=3, cutoff=0.5)
            raise NotFound(
                f"{group.name} does not read a topic {name}",
                details=(f"Near: {', '.join(near)}",) if near else (),
                hint=Hint("{}", ("describe", group.name, "--members", "--verbose")),
            )


def check_numbers(group: Group, change: GroupChange) -> None:
    """Raise Refused if the change removes more members than there are, or then kills more than are left."""
    there = len(group.members or ())
    members = plural(there, "member")
    if change.remove > there:
        raise Refused(f"{group.name} has {members}: {change.remove} cannot be removed", code=TOO_FEW_MEMBERS)
    remaining = there - (change.remove or len(change.leaving)) + change.add
    if change.kill > remaining:
        raise Refused(f"{group.name} has {members}: {change.kill} cannot be killed", code=TOO_FEW_MEMBERS)


def no_members_error(group: Group) -> KgroupError:
    """The refusal to remove or restart members of a group without any."""
    return Refused(
        f"{group.name} is {group.state}: it has no members to remove or restart",
        hint="--add N shows what N members would be assigned",
        code=NO_MEMBERS,
    )


def _subscription(group: Group, member: Member) -> set[str]:
    """The topics that a member subscribes to; for a pattern, those in the targets of members with the same pattern."""
    topics = {*(member.subscription or ()), *(item.topic for item in _target(group, member))}
    if member.subscription_regex is not None:
        alike = [other for other in group.members or () if other.subscription_regex == member.subscription_regex]
        topics.update(item.topic for other in alike for item in _target(group, other))
    return topics


def _target(group: Group, member: Member) -> Assignment:
    if group.type == "consumer" and member.target_assignment is not None:
        return member.target_assignment
    return member.assignment or ()


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(item.topic, number) for item in assignment for number in item.partitions)
