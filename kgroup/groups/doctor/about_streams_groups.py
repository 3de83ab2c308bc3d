"""Rules about streams groups: what their topology and the tasks of their members show. Others are those of groups."""

from __future__ import annotations

from kgroup.groups.doctor.finding import (
    Answer,
    Rule,
    RuleScope,
    Severity,
    duration,
    kgroup_command,
    tool_command,
)
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.member_labels import member_names
from kgroup.groups.thresholds import DESERTED
from kgroup.groups.verdict.plain import not_ready_words
from kgroup.model.streams_group import NOT_READY
from kgroup.support.quoting import quote
from kgroup.support.units import plural, some_of

UNREADY = Rule(
    "streams-not-ready",
    "a streams group has no tasks: topics of its topology are missing, or their partitions do not fit",
    "KIP-1071: the state NotReady",
    scope=RuleScope.STREAMS,
)
TASKS = Rule(
    "streams-tasks-without-owner",
    "tasks of a streams group that no member runs, though no rebalance is under way",
    "KIP-1071: active tasks",
    scope=RuleScope.STREAMS,
)
TOPOLOGY = Rule(
    "streams-other-topology",
    "members of a streams group whose topology is another one than the group's",
    "KIP-1071: topology epochs",
    (DESERTED,),
    RuleScope.STREAMS,
)


def streams_not_ready(snapshot: GroupSnapshot) -> Answer:
    """All members are without tasks; a Java client fails after 10 s of it (4.4.0, seen)."""
    group = snapshot.group
    missing = group.streams.missing if group.streams else None
    if group.state != NOT_READY:
        return UNREADY.partly(_why_unknown(snapshot) if missing is None else None)
    missing = missing or ()
    unseen = f"{len(missing)} topics named: its members and its topology may not be seen"
    who = unseen if group.members is None else f"{plural(len(group.members), 'member')} without tasks"
    create = (f"--create --topic {quote(topic)} --partitions N" for topic in missing[:3])
    return UNREADY.finding(
        Severity.CRITICAL,
        f"{not_ready_words(group)}; {who}",
        remedy="create the topics, or correct their names in the application; topics that it joins need as many "
        "partitions each. Its log names what does not fit",
        numbers={"missing_topic_count": len(missing)}
        | ({} if group.members is None else {"member_count": len(group.members)}),
        affected=missing,
        commands=tuple(tool_command("kafka-topics.sh", snapshot.bootstrap, rest) for rest in create)
        or (kgroup_command("describe", group.name),),
    )


def streams_tasks(snapshot: GroupSnapshot) -> Answer:
    """Tasks without an owner in a group that has members and settled on an assignment."""
    group, streams = snapshot.group, snapshot.group.streams
    if group.is_empty or group.state == NOT_READY:
        return ()
    if streams is None or streams.subtopologies is None:
        return TASKS.unknown(_why_unknown(snapshot))
    lacking = [str(task) for task in streams.without_owner]
    if not lacking:
        return ()
    if group.is_rebalancing:
        return TASKS.early(f"a rebalance is under way ({group.state})")
    return TASKS.finding(
        Severity.CRITICAL,
        f"{len(lacking)} of {plural(len(streams.tasks), 'task')} without an owner: {some_of(lacking)}",
        remedy="restart the application's instances one after the other; if it stays so, its coordinator is at fault",
        numbers={"task_count": len(streams.tasks), "without_owner_count": len(lacking)},
        affected=lacking,
        commands=(kgroup_command("describe", group.name, "--members"),),
    )


def streams_topology(snapshot: GroupSnapshot) -> Answer:
    """INFO during a rolling upgrade; a WARNING if no member has come or gone for longer than one takes."""
    group, streams, history = snapshot.group, snapshot.group.streams, snapshot.history
    if group.is_empty:
        return ()
    if streams is None or streams.topology_epoch is None:
        return TOPOLOGY.unknown(_why_unknown(snapshot))
    others = streams.other_topologies
    if not others:
        return ()
    last_ms = max((one.at_ms for one in history.rebalances), default=history.since_ms) if history else None
    quiet_ms = 0 if last_ms is None else snapshot.now_ms - last_ms
    names = member_names(group)
    since = f"; no rebalance for {duration(quiet_ms)}" if quiet_ms >= DESERTED.value else ""
    return TOPOLOGY.finding(
        Severity.WARNING if since else Severity.INFO,
        f"{len(others)} of {plural(len(streams.members), 'member')} have another topology than the group's epoch "
        f"{streams.topology_epoch}: {some_of([names[each] for each in others])}{since}",
        remedy="bring all instances to one version of the application: members of an older topology get no new tasks",
        numbers={"member_count": len(streams.members), "other_topology_count": len(others), "quiet_ms": quiet_ms},
        affected=[names[each] for each in others],
        commands=(kgroup_command("describe", group.name, "--members"),),
    )


def _why_unknown(snapshot: GroupSnapshot) -> str:
    if snapshot.group.streams is None:
        return snapshot.why("members", "its members may not be seen")
    return "the brokers do not show its topology"
