"""Cases of the rules about the cluster."""

from __future__ import annotations

from msgspec.structs import replace

from kgroup.groups.doctor.snapshot import ClusterSnapshot, OpenTransaction
from kgroup.model.topic_partition import PartitionReplicas
from tests.helpers.cases.doctor import CLUSTER, CRITICAL, INFO, NOW, PARTLY, UNKNOWN, WARNING, Case, M


def first(
    leader: int | None = 1, replicas: tuple[int, ...] = (1, 2, 3), in_sync: tuple[int, ...] = (1, 2, 3)
) -> ClusterSnapshot:
    """The cluster with another partition 0 of __consumer_offsets."""
    row = PartitionReplicas(0, leader, replicas, in_sync)
    return replace(CLUSTER, offsets_topic=(row, *(CLUSTER.offsets_topic or ())[1:]))


def loaded(*counts: int) -> ClusterSnapshot:
    return replace(CLUSTER, groups_by_coordinator=dict(enumerate(counts, 1)), brokers=len(counts))


def hanging(ms: int, known: bool | None = False) -> ClusterSnapshot:
    return replace(CLUSTER, transactions=(OpenTransaction("__consumer_offsets", 7, 1, 2, 3, NOW - ms, known),))


ONE = tuple(PartitionReplicas(n, 1, (1,), (1,)) for n in range(50))

CASES = (
    Case("offsets-topic-replication", "behind", first(in_sync=(1, 2)), WARNING, "1 under-replicated (0)"),
    Case(
        "offsets-topic-replication", "below the minimum", first(in_sync=(1,)), CRITICAL, "below min.insync.replicas 2"
    ),
    Case("offsets-topic-replication", "no leader", first(None, in_sync=()), CRITICAL, "1 without a leader (0)"),
    Case(
        "offsets-topic-replication",
        "one replica of three",
        replace(CLUSTER, offsets_topic=ONE, min_in_sync=1),
        WARNING,
        "replication factor 1 with 3 brokers",
    ),
    Case(
        "offsets-topic-replication",
        "one broker",
        replace(loaded(9), offsets_topic=ONE, min_in_sync=1),
        None,
    ),
    Case(
        "offsets-topic-replication",
        "one broker, and its groups are not known",
        replace(CLUSTER, groups_by_coordinator=None, brokers=1, offsets_topic=ONE, min_in_sync=1),
        None,
    ),
    Case("offsets-topic-replication", "all there", CLUSTER, None),
    Case(
        "offsets-topic-replication",
        "minimum hidden",
        replace(CLUSTER, min_in_sync=None),
        PARTLY,
        "its min.insync.replicas could not be read",
    ),
    Case(
        "offsets-topic-replication",
        "hidden",
        replace(CLUSTER, offsets_topic=None),
        UNKNOWN,
        "no DESCRIBE on __consumer_offsets, or no such topic",
    ),
    Case("hanging-offsets-transaction", "hangs", hanging(16 * M), CRITICAL, "__consumer_offsets:7"),
    Case("hanging-offsets-transaction", "known", hanging(16 * M, True), None),
    Case("hanging-offsets-transaction", "just not", hanging(15 * M), None),
    Case(
        "hanging-offsets-transaction",
        "not asked",
        replace(CLUSTER, transactions=None),
        UNKNOWN,
        "open transactions were not asked for (DescribeProducers: READ on the topic)",
    ),
    Case(
        "coordinator-load",
        "twice its share",
        loaded(200, 60, 40),
        WARNING,
        "broker 1 coordinates 200 of 300 groups (67%)",
    ),
    Case("coordinator-load", "just not", loaded(199, 60, 41), None),
    Case("coordinator-load", "few groups", loaded(99, 0, 0), None),
    Case("coordinator-load", "many, evenly", loaded(5_000, 5_000), INFO, "an even share"),
    Case("coordinator-load", "just not many", loaded(4_999), None),
    Case(
        "coordinator-load",
        "not read",
        replace(CLUSTER, groups_by_coordinator=None),
        UNKNOWN,
        "the coordinators of the groups were not read",
    ),
)
