"""Rules about the cluster: the topic ``__consumer_offsets`` and the load of the coordinators."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.doctor.finding import Answer, Rule, RuleScope, Severity, kgroup_command, tool_command
from kgroup.groups.doctor.snapshot import ClusterSnapshot
from kgroup.groups.thresholds import FEW_GROUPS, MANY_GROUPS, OVER_FAIR, REPLICAS
from kgroup.model.topic_partition import PartitionReplicas
from kgroup.support.units import percent, plural, some_of

REPLICATION = Rule(
    "offsets-topic-replication",
    "__consumer_offsets lacks replicas or leaders: commits fail, or are lost with one broker",
    "Kafka's documentation of offsets.topic.replication.factor and min.insync.replicas",
    (REPLICAS,),
    scope=RuleScope.CLUSTER,
)
COORDINATORS = Rule(
    "coordinator-load",
    "one broker coordinates far more groups than the others, or too many",
    "Kafka's documentation of offsets.topic.num.partitions: a group's partition decides its coordinator",
    (OVER_FAIR, FEW_GROUPS, MANY_GROUPS),
    scope=RuleScope.CLUSTER,
)


def offsets_topic_replication(snapshot: ClusterSnapshot) -> Answer:
    """CRITICAL if commits fail now: no leader, or fewer in-sync replicas than min.insync.replicas."""
    partitions = snapshot.offsets_topic
    if partitions is None:
        return REPLICATION.unknown(snapshot.why("offsets_topic", "no DESCRIBE on __consumer_offsets, or no such topic"))
    least = snapshot.min_in_sync
    partly = REPLICATION.partly(
        snapshot.why("min_in_sync", "its min.insync.replicas could not be read") if least is None else None
    )
    brokers = snapshot.brokers
    leaderless = [p for p in partitions if p.leader is None]
    refusing = [p for p in partitions if p.leader is not None and least is not None and len(p.in_sync) < least]
    behind = [p for p in partitions if len(p.in_sync) < len(p.replicas)]
    factor = min((len(p.replicas) for p in partitions), default=REPLICAS.value)
    few = factor < min(REPLICAS.value, brokers if brokers is not None else REPLICAS.value)
    if not (leaderless or behind or refusing or few):
        return partly
    parts = []
    if leaderless:
        parts.append(f"{len(leaderless)} without a leader ({_numbers(leaderless)}): their groups have no coordinator")
    if refusing:
        parts.append(f"{len(refusing)} below min.insync.replicas {least} ({_numbers(refusing)}): commits are refused")
    if behind:
        parts.append(f"{len(behind)} under-replicated ({_numbers(behind)})")
    if few:
        parts.append(f"replication factor {factor}" + (f" with {plural(brokers, 'broker')}" if brokers else ""))
    affected = dict.fromkeys(f"__consumer_offsets:{p.partition}" for p in (*leaderless, *refusing, *behind))
    rest = "--describe --topic __consumer_offsets --under-replicated-partitions"
    commands = [tool_command("kafka-topics.sh", snapshot.bootstrap, rest)] if leaderless or behind or refusing else []
    if few:
        rest = "--reassignment-json-file offsets.json --execute"
        commands.append(tool_command("kafka-reassign-partitions.sh", snapshot.bootstrap, rest))
    return (
        REPLICATION.finding(
            Severity.CRITICAL if leaderless or refusing else Severity.WARNING,
            f"of {plural(len(partitions), 'partition')} {'; '.join(parts)}",
            remedy="bring back the missing brokers; a low factor is raised by a reassignment with more replicas",
            numbers={
                "partition_count": len(partitions),
                "without_leader_count": len(leaderless),
                "below_min_in_sync_count": len(refusing),
                "under_replicated_count": len(behind),
                "replication_factor": factor,
            },
            affected=tuple(affected),
            commands=commands,
        )
        + partly
    )


def _numbers(partitions: Sequence[PartitionReplicas]) -> str:
    return some_of([str(partition.partition) for partition in partitions])


def coordinator_load(snapshot: ClusterSnapshot) -> Answer:
    """Compares the groups of each coordinator with an even share among the brokers that are up."""
    counts = snapshot.groups_by_coordinator
    if counts is None:
        return COORDINATORS.unknown(
            snapshot.why("groups_by_coordinator", "the coordinators of the groups were not read")
        )
    if not counts:
        return ()
    total = sum(counts.values())
    busiest = max(counts, key=lambda broker: (counts[broker], -broker))
    most = counts[busiest]
    uneven = len(counts) > 1 and most >= FEW_GROUPS.value and most * len(counts) >= OVER_FAIR.value * total
    many = most >= MANY_GROUPS.value
    if not uneven and not many:
        return ()
    fair = -(-total // len(counts))
    return COORDINATORS.finding(
        Severity.WARNING if uneven else Severity.INFO,
        f"broker {busiest} coordinates {most} of {plural(total, 'group')} ({percent(most, total)}); an even share of "
        f"{plural(len(counts), 'broker')} is {fair}",
        remedy="move the partitions of __consumer_offsets to their preferred leaders; else spread them by a "
        "reassignment, or delete groups that are not used (delete --idle-for)",
        numbers={
            "group_count": total,
            "busiest_group_count": most,
            "fair_share_group_count": fair,
            "broker_count": len(counts),
        },
        affected=[f"broker {broker}" for broker in sorted(counts, key=lambda broker: (-counts[broker], broker))],
        commands=(
            tool_command(
                "kafka-leader-election.sh",
                snapshot.bootstrap,
                "--election-type preferred --all-topic-partitions",
            ),
            kgroup_command("list", "--coordinator", str(busiest)),
        ),
    )
