"""Rules about members: idle members, uneven assignments, different subscriptions, readiness for KIP-848."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kgroup.groups.assignors import CLIENT_SIDE, assign
from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.groups.doctor.finding import Answer, Rule, Severity, kgroup_command, tool_command
from kgroup.groups.doctor.snapshot import NO_COMMITS, GroupSnapshot
from kgroup.groups.member_labels import labels
from kgroup.groups.migration.check import MigrationPath, ReadinessResult
from kgroup.groups.thresholds import MEMBER_SKEW, MEMBER_SKEW_LEAST, SETTLED, STANDBY, STORM_WINDOW
from kgroup.model.groups import Member
from kgroup.support.units import plural, some_of

IDLE = Rule(
    "idle-members",
    "more members than partitions: some have nothing to do",
    "Kafka's documentation, consumer groups: a partition has one owner in a group",
    (STANDBY,),
)
SKEWED = Rule(
    "skewed-partitions",
    "some members hold far more partitions than others",
    "KIP-54, KIP-429: sticky assignors balance over all topics, range over each alone",
    (MEMBER_SKEW, MEMBER_SKEW_LEAST),
)
MIXED = Rule(
    "mixed-subscriptions",
    "members of one group subscribe to different topics",
    "KafkaConsumer documentation: group.id names one logical subscriber",
)
OTHER_DEPLOYMENT = Rule(
    "other-deployment",
    "members of another deployment are in the group, and have partitions",
    "KafkaConsumer documentation: group.id names one logical subscriber",
    (SETTLED,),
)
LOST = Rule(
    "lost-member",
    "a member was silent for its session and is not back: it died, was frozen, or lost the network",
    "Kafka's documentation of session.timeout.ms; KIP-62",
    (STORM_WINDOW,),
)
MIGRATE = Rule(
    "ready-to-migrate",
    "a classic group that could use the consumer protocol",
    "KIP-848",
)


def idle_members(snapshot: GroupSnapshot) -> Answer:
    """Reports only the idle members to which even a balanced assignment could give no partition."""
    group, members = snapshot.group, _settled(snapshot)
    if isinstance(members, str):
        return IDLE.unknown(members)
    idle = [member for member in members if not member.partition_count and not member.left_temporarily]
    if not idle:
        return ()
    sizes = _sizes(snapshot)
    surplus, unsized = [], set()
    for member in idle:
        topics = _reads(member, members)
        unsized |= {topic for topic in topics if topic not in sizes and topic not in (snapshot.gone or ())}
        readers = sum(bool(topics & _reads(other, members)) for other in members)
        if not topics or readers > sum(sizes.get(topic, 0) for topic in topics):
            surplus.append(member)
    if unsized:
        return IDLE.unknown(f"how many partitions {some_of(sorted(unsized))} has: {_unsized(snapshot)}")
    if not surplus:
        return ()
    names = labels(group)
    idle_names = [names[member.member_id] for member in surplus]
    topics_read = sorted(set().union(*(_reads(member, members) for member in members)))
    partitions = sum(sizes.get(topic, 0) for topic in topics_read)
    more: tuple[str, ...] = ()
    if not partitions and (hidden := [topic for topic in topics_read if topic not in (snapshot.gone or ())]):
        return IDLE.unknown(f"how many partitions {some_of(hidden)} has: {_unsized(snapshot)}")
    if not partitions:
        return IDLE.finding(
            Severity.WARNING,
            f"{plural(len(members), 'member')}, and none of the topics that they subscribe to exists",
            remedy="correct the name or the pattern of their subscription, or create the topic",
            numbers={"member_count": len(members), "partition_count": 0, "idle_member_count": len(idle_names)},
            affected=idle_names,
            commands=(kgroup_command("describe", group.name, "--members", "--verbose"),),
        )
    if len(topics_read) == 1:
        rest = f"--alter --topic {topics_read[0]} --partitions {len(members)}"
        more = (tool_command("kafka-topics.sh", snapshot.bootstrap, rest),)
    return IDLE.finding(
        Severity.WARNING if len(idle_names) > STANDBY.value else Severity.INFO,
        f"{plural(len(members), 'member')} for {plural(partitions, 'partition')}: {len(idle_names)} idle "
        f"({some_of(idle_names)})",
        remedy=f"run {plural(len(idle_names), 'member')} fewer, or add partitions (keys then go to other ones)",
        numbers={"member_count": len(members), "partition_count": partitions, "idle_member_count": len(idle_names)},
        affected=idle_names,
        commands=more,
    )


def skewed_partitions(snapshot: GroupSnapshot) -> Answer:
    """Compares with the sticky assignor's result for the same members, so different subscriptions are no skew."""
    group, members = snapshot.group, _settled(snapshot)
    if isinstance(members, str):
        return SKEWED.unknown(members)
    here = [member for member in members if not member.left_temporarily]
    counts = sorted((member.partition_count for member in here), reverse=True)
    if len(counts) < 2 or counts[0] - counts[-1] < MEMBER_SKEW_LEAST.value:
        return ()
    sizes = _sizes(snapshot)
    topics = [AssignorTopic(topic, size) for topic, size in sorted(sizes.items())]
    subscribers = [Subscriber(m.member_id, _reads(m, members), m.instance_id) for m in here]
    unsized = sorted(set().union(*(s.topics for s in subscribers)) - sizes.keys() - (snapshot.gone or frozenset()))
    if unsized:
        return SKEWED.unknown(f"how many partitions {some_of(unsized)} has: {_unsized(snapshot)}")
    even = sorted(
        (len(assigned) for assigned in assign(CLIENT_SIDE["sticky"], subscribers, topics).values()), reverse=True
    )
    if counts[0] - even[0] < MEMBER_SKEW_LEAST.value or 100 * counts[0] < MEMBER_SKEW.value * even[0]:
        return ()
    names = labels(group)
    order = sorted(here, key=lambda member: -member.partition_count)
    most, least = order[0], order[-1]
    total = sum(counts)
    sticky_counts = f"{even[0]} each" if even[0] == even[-1] else f"{even[-1]} to {even[0]} each"
    classic = group.type == "classic"
    return SKEWED.finding(
        Severity.WARNING,
        f"{names[most.member_id]} holds {counts[0]} of {total} partitions, {names[least.member_id]} {counts[-1]}; "
        f"sticky would give {sticky_counts}",
        remedy="an assignor that balances over all topics: "
        + ("cooperative-sticky, in two rolling restarts (KIP-429)" if classic else "group.remote.assignor=uniform"),
        numbers={
            "member_count": len(here),
            "partition_count": total,
            "largest_partition_count": counts[0],
            "smallest_partition_count": counts[-1],
            "even_partition_count": even[0],
        },
        affected=[names[member.member_id] for member in order if member.partition_count > even[0]],
        commands=(
            kgroup_command(
                "simulate",
                group.name,
                "--restart-rolling",
                "--assignor",
                "cooperative-sticky" if classic else "uniform",
            ),
        ),
    )


def mixed_subscriptions(snapshot: GroupSnapshot) -> Answer:
    """INFO if all share a topic and no topic lacks an owner (a rollout?); else WARNING: two services in one group?"""
    group = snapshot.group
    members = _settled(snapshot)
    if isinstance(members, str):
        return MIXED.unknown(members)
    counts = Counter((member.subscription or (), member.subscription_regex or "") for member in members)
    kinds = Counter({_subscription(topics, regex): count for (topics, regex), count in counts.items()})
    if len(kinds) < 2:
        return ()
    readers = Counter(topic for member in members for topic in _reads(member, members))
    shared = [topic for topic, count in readers.items() if count == len(members)]
    ownerless = sorted({p.topic for p in group.partitions if p.owner is None and p.topic in readers})
    parts = [f"{count} read {what}" for what, count in kinds.most_common(2)]
    others = f", {plural(len(kinds) - 2, 'more subscription')}" if len(kinds) > 2 else ""
    without = f"; without an owner: {some_of(ownerless)}" if ownerless else ""
    return MIXED.finding(
        Severity.INFO if shared and not ownerless else Severity.WARNING,
        f"of {plural(len(members), 'member')} {', '.join(parts)}{others}{without}",
        remedy="a group id of its own for each service; while a new subscription rolls out, wait for its end",
        numbers={
            "member_count": len(members),
            "subscription_count": len(kinds),
            "topic_without_owner_count": len(ownerless),
        },
        affected=[what for what, _ in kinds.most_common()],
        commands=(kgroup_command("describe", group.name, "--members", "--verbose"),),
    )


def other_deployment(snapshot: GroupSnapshot) -> Answer:
    """WARNING if a client id names another environment; INFO for other names from other hosts, which may be meant."""
    if snapshot.commits is None:
        return OTHER_DEPLOYMENT.unknown(snapshot.why("commits", NO_COMMITS))
    other = snapshot.read.deployment
    if other is None:
        return ()
    return OTHER_DEPLOYMENT.finding(
        Severity.WARNING if other.sure else Severity.INFO,
        other.words(snapshot.now_ms),
        remedy="if they do not belong here, stop them, and give their deployment a group.id of its own; what they "
        "have read since, no other member gets: the history shows from when on",
        numbers={"member_count": len(other.names), "partition_count": other.partitions},
        affected=other.names,
        commands=(
            kgroup_command("describe", snapshot.group.name, "--members", "--verbose"),
            kgroup_command("history", snapshot.group.name),
        ),
    )


def lost_member(snapshot: GroupSnapshot) -> Answer:
    """The member that ``describe`` names. INFO: others have its partitions, and Streams ends so in each deployment."""
    if snapshot.history is None:
        return LOST.unknown(snapshot.why("history", "the history in __consumer_offsets was not read"))
    lost = snapshot.history.lost
    if lost is None or snapshot.crash_loops:
        return ()
    return LOST.finding(
        Severity.INFO,
        lost.words(snapshot.now_ms),
        remedy="if it was not stopped on purpose, check whether its process still runs: one that is frozen, in a long "
        "garbage collection or without a network sends no heartbeat; one whose handler hangs does",
        numbers={"session_timeout_ms": lost.session_ms, "lost_ms": snapshot.now_ms - lost.at_ms},
        affected=(lost.name,),
        commands=(kgroup_command("history", snapshot.group.name, "--since", "1h"),),
    )


def ready_to_migrate(snapshot: GroupSnapshot) -> Answer:
    """Reports only groups without any failed check; ``kgroup migrate`` shows what blocks or warns."""
    group, readiness = snapshot.group, snapshot.readiness
    if group.type != "classic" or group.is_simple:
        return ()
    if readiness is None:
        return MIGRATE.unknown(snapshot.why("readiness", "whether it can migrate was not checked"))
    if readiness.result is not ReadinessResult.READY:
        return ()
    unread = [why for field in ("past", "configs", "access") if (why := snapshot.unread.get(field))]
    unread += snapshot.broker.unread.values()
    if unread:  # a check that could not be made does not mean that the group is ready
        return MIGRATE.unknown(f"what may speak against it could not be read: {unread[0]}")
    how = {
        MigrationPath.NOW: "now: it is Empty",
        MigrationPath.ROLLING: "member by member",
        MigrationPath.STOP: "once it is stopped",
    }
    return MIGRATE.finding(
        Severity.INFO,
        f"it can move {how.get(readiness.how, 'now')}; {plural(len(readiness.checks), 'check')}, none against it",
        remedy="plan the move: rebalances without a standstill of all, epochs and assignments visible from outside",
        numbers={"check_count": len(readiness.checks)},
        commands=(kgroup_command("migrate", group.name, "--protocol", "consumer"),),
    )


def _settled(snapshot: GroupSnapshot) -> Sequence[Member] | str:
    """The members of a group that is not rebalancing, or the reason why their assignments are unknown."""
    group = snapshot.group
    if group.members is None:
        return snapshot.why("members", "its members may not be seen")
    if group.members and group.is_rebalancing:
        return f"it is rebalancing ({group.state})"
    if any(member.assignment is None for member in group.members):
        return "the assignments of its members are unknown"
    if any(member.subscription is None and member.subscription_regex is None for member in group.members):
        return "the subscriptions of its members are unknown"
    return group.members


def _reads(member: Member, members: Sequence[Member]) -> frozenset[str]:
    """The topics that a member reads. For a pattern: all topics assigned to members with the same pattern."""
    alike = [member]
    if member.subscription_regex is not None:
        alike = [other for other in members if other.subscription_regex == member.subscription_regex]
    matched = {item.topic for other in alike for item in other.assignment or ()} if len(alike) > 1 else set()
    own = {item.topic for item in member.assignment or ()}
    return frozenset(own | matched | set(member.subscription or ()))


def _sizes(snapshot: GroupSnapshot) -> Mapping[str, int]:
    return {topic: facts.partitions for topic, facts in (snapshot.topics or {}).items()}


def _unsized(snapshot: GroupSnapshot) -> str:
    return snapshot.why("topics", "no DESCRIBE on it, or it does not exist")


def _subscription(topics: Sequence[str], regex: str) -> str:
    named = some_of(sorted(topics))
    if regex:
        return f"{regex} and {named}" if named else regex
    return named or "nothing"
