"""Checks of the group itself: its kind, its members, and their subscriptions."""

from __future__ import annotations

from kgroup.groups.foreign_owners import Owner, foreign_owner
from kgroup.groups.member_labels import labels
from kgroup.groups.migration.check import CheckSubject, MigrationCheck
from kgroup.groups.migration.evidence import MigrationCase
from kgroup.model.groups import ListedGroup, is_of_consumers
from kgroup.support.errors import FOREIGN_OWNER
from kgroup.support.hint import Hint
from kgroup.support.units import plural, some_of

KIND = CheckSubject(
    "kind",
    "it exists and is a consumer group, not one of Connect, Streams, a registry or a share group",
    "KIP-848; the broker converts groups of other kinds without objection",
    "other kind of group",
)
MEMBERS = CheckSubject("members", "it is Empty, or who is in it", "KIP-848: an Empty group always converts", "members")
ALREADY = CheckSubject(
    "already-there",
    "it is of the wanted type and no member speaks the other protocol",
    "KIP-848",
    "rollout under way",
)
SIZE = CheckSubject(
    "group-size",
    "its members are no more than group.consumer.max.size, or group.max.size on the way back",
    "KIP-848; KAFKA-20601",
    "group size",
)
STATIC = CheckSubject(
    "static-members",
    "members with an instance id: a successor that starts first is fenced",
    "KIP-345, KIP-848",
    "static members",
)
REGEX = CheckSubject(
    "regex",
    "subscriptions by pattern, which the server matches differently (RE2J, whole names)",
    "KIP-848; librdkafka's migration guide",
    "regex subscription",
)
RACK = CheckSubject("rack", "members with a rack: server-side assignors ignore it", "KAFKA-19387", "rack awareness")

_OWN_KINDS = ("share", "streams")
_NO_LIMIT = 2_147_483_647
_SUCCESSOR_NOT_COUNTED = (4, 4)
"""The release from which on a coordinator does not count a static member's successor twice (KAFKA-20601)."""
_PATTERNS = (
    "if the application subscribes by pattern: the server matches whole names by RE2J, so ^topic no longer matches "
    "topic-1; write ^topic.*"
)
_INSTEAD = {
    "Kafka Connect": "Connect sets up its consumers and workers itself (consumer.override.* of a connector)",
    "Kafka Streams": "Streams has a protocol of its own: group.protocol=streams (KIP-1071), on brokers from 4.2.1 on "
    "(4.2.0: KAFKA-20254)",
    "a share group": "share groups have a protocol of their own (KIP-932)",
    "Spark": "Spark creates a group for each query; its consumer's options choose the protocol",
    "Flink": "Flink's consumers assign partitions themselves and are never members",
}


def kind(case: MigrationCase) -> MigrationCheck | None:
    """BLOCKED if it is not a consumer group; ``--accept foreign-owner`` overrides this if only its name suggests so."""
    group = case.group
    if group.state == "Dead":
        return KIND.blocked(
            "there is no such group (state Dead), and a conversion would create one",
            brief="no such group",
            remedy=Hint("search for its name: {}", ("list",)),
        )
    owner = _owner(case)
    if owner is not None:
        # "a share group" and "a framework ..." are kinds of groups; the others are names of owners.
        brief = owner.framework if owner.framework.startswith("a ") else f"owned by {owner.framework}"
        evidence = f"{brief} {owner.evidence}"
        remedy = _INSTEAD.get(owner.framework, "only the framework knows what its groups need")
        if _is_certain(case) or FOREIGN_OWNER not in case.request.accepted:
            return KIND.blocked(evidence, brief=brief, remedy=remedy)
        return KIND.info(f"{evidence}: accepted", remedy=remedy)
    if group.is_simple:
        return KIND.info(
            'it only keeps offsets (protocol type ""): no member has ever joined it as a classic group',
            remedy="consumers that assign() partitions use no rebalance protocol and gain nothing",
        )
    if group.protocol_type is None:
        return KIND.unknown("its protocol type is not known" + case.why("protocol_type"))
    return KIND.ok("a consumer group")


def _owner(case: MigrationCase) -> Owner | None:
    group, kind = case.group, case.evidence.kind
    if kind in _OWN_KINDS:
        return foreign_owner(ListedGroup(group.name, kind, group.state, group.protocol_type, group.coordinator))
    return foreign_owner(group)


def is_streams_application(case: MigrationCase) -> bool:
    """Whether it is a Kafka Streams application of the classic protocol, which may become a streams group."""
    owner = _owner(case) if case.to_consumer and case.evidence.kind == "classic" else None
    return owner is not None and owner.framework == "Kafka Streams"


def _is_certain(case: MigrationCase) -> bool:
    """Whether the owner is known from the broker, not only from the group's name."""
    return case.evidence.kind in _OWN_KINDS or not is_of_consumers(case.group.protocol_type)


def members(case: MigrationCase) -> MigrationCheck | None:
    """The members that have to stop before kgroup can convert the group."""
    if case.empty:
        return MEMBERS.ok("Empty")
    if not case.members:
        return MEMBERS.unknown(f"{case.group.state}, but this user may not see its members" + case.why("members"))
    names = list(labels(case.group).values())
    return MEMBERS.info(f"{plural(len(names), 'member')}: {some_of(names)}")


def already_there(case: MigrationCase) -> MigrationCheck | None:
    """OK if the group is on the target protocol; INFO or UNKNOWN if not, or while a rollout is under way."""
    kind, target = case.group.type, case.request.target
    if case.arrived:
        return ALREADY.ok(f"on the {target} protocol already")
    classic = len(case.classic_left)
    if classic:
        brief = (
            f"{classic} of {plural(len(case.members), 'member')} {'still' if case.to_consumer else 'already'} classic"
        )
        return ALREADY.info(f"a rollout is under way: {brief}", brief=brief)
    if kind == target:
        return ALREADY.unknown(
            f"of type {kind}, but this user may not see its members: classic ones may be left" + case.why("members"),
            brief="live; this user may not see its members",
        )
    return ALREADY.info(f"of type {kind}")


def group_size(case: MigrationCase) -> MigrationCheck | None:
    """Whether the group exceeds the limit: brokers refuse it as a whole while it is live, else its last members."""
    setting, limit = (
        ("group.consumer.max.size", case.broker.consumer_max_size)
        if case.to_consumer
        else ("group.max.size", case.broker.classic_max_size)
    )
    field = "consumer_max_size" if case.to_consumer else "classic_max_size"
    if limit is None:
        return SIZE.unknown(f"{setting} could not be read" + case.why(field))
    if limit >= _NO_LIMIT:
        return SIZE.ok(f"{setting} sets no limit")
    past = len(case.past.members) if case.past else 0
    if case.live and case.members:
        return _size_now(case, setting, limit)
    if past > limit:
        return SIZE.warning(
            f"{plural(past, 'member')} in its last generation; {setting} is {limit}",
            brief=f"{past} members > {limit}",
            remedy=f"raise {setting} on the brokers, or start no more than {limit}: the others are refused",
        )
    if not past:
        return SIZE.unknown(f"{setting} is {limit}; how many members it had is not known" + case.why("past"))
    return SIZE.ok(f"{plural(past, 'member')} in its last generation; {setting} is {limit}")


def _size_now(case: MigrationCase, setting: str, limit: int) -> MigrationCheck:
    now = len(case.members)
    evidence = f"{plural(now, 'member')}; {setting} is {limit}"
    if now > limit:
        return SIZE.blocked(evidence, brief=f"{now} members > {limit}", remedy=f"raise {setting} on the brokers")
    fixed = case.release is not None and case.release >= _SUCCESSOR_NOT_COUNTED
    if now == limit and case.to_consumer and case.instances and not fixed:
        return SIZE.info(
            f"{evidence}: full, so the successor of a static member is refused (KAFKA-20601, fixed in 4.4.0)",
            brief="full, with static members: offline only",
            remedy=f"raise {setting} on the brokers, or stop the group first",
            offline_only=True,
        )
    return SIZE.ok(evidence)


def static_members(case: MigrationCase) -> MigrationCheck | None:
    """WARNING for static members: the consumer protocol fences the newer of two members with one instance id.

    During the migration a consumer member does replace a classic one; later rollouts fail.
    """
    instance_ids = case.instances
    if instance_ids is None:
        return STATIC.unknown("whether its members are static is not known" + case.why("past", "members"))
    if not instance_ids:
        return STATIC.ok("no member has an instance id")
    when = "" if case.members else " in its last generation"
    evidence = f"{plural(len(instance_ids), 'static member')}{when}: {some_of(instance_ids)}"
    if not case.to_consumer:
        return STATIC.info(f"{evidence}; of two with one instance id the classic protocol fences the older")
    return STATIC.warning(
        f"{evidence}; on the consumer protocol a successor that starts before the old instance has left is refused "
        "(UNRELEASED_INSTANCE_ID, fatal)",
        brief="static members",
        remedy="roll out so that each instance stops before its successor starts (StatefulSet, maxSurge: 0); after a "
        "crash: " + Hint("{}, or wait for the session to end", ("evict", case.group.name, "--instance", "ID")),
    )


def regex(case: MigrationCase) -> MigrationCheck | None:
    """Subscriptions by pattern; classic members send only matched topics, so only consumer members show a pattern."""
    patterns = sorted({m.subscription_regex for m in case.members if m.subscription_regex})
    if case.to_consumer:
        if patterns:
            return REGEX.ok(f"matched by the server already: {some_of(patterns)}")
        return REGEX.unknown("classic members send topic names only, so patterns are not visible", remedy=_PATTERNS)
    if patterns:
        return REGEX.warning(
            f"{some_of(patterns)}: matched by the client again, by its own rules (Java: whole names; librdkafka: any "
            "part of a name, unless it has ^ and $)",
            brief=f"regex {patterns[0]}",
            remedy="Java: subscribe(Pattern) instead of subscribe(SubscriptionPattern), which fails on the classic "
            "protocol; librdkafka: begin it with ^ and end it with $",
        )
    if case.members:
        return REGEX.ok("no member subscribes by pattern")
    return REGEX.unknown("an Empty group does not show whether the application subscribes by pattern")


def rack(case: MigrationCase) -> MigrationCheck | None:
    """Members with racks: the client's range and sticky assignors prefer replicas in them, server-side ones do not."""
    if not case.to_consumer:
        return None
    racks = case.racks
    if racks is None:
        return RACK.unknown("whether its members have racks is not known" + case.why("past"))
    if not racks:
        return RACK.ok("no member names a rack")
    return RACK.info(
        f"members in {plural(len(racks), 'rack')} ({some_of(racks)}); server-side assignors ignore racks",
        remedy="reading from the closest replica (client.rack, KIP-392) continues; more traffic may cross racks where "
        "replicas are not in all of them",
    )
