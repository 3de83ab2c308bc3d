"""All rules and their explanations.

The order is that of findings with equal severity: problems that stop reading come first, costs last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from kgroup.groups.doctor import (
    about_catchups,
    about_cluster,
    about_expiry,
    about_lag,
    about_members,
    about_offsets,
    about_queries,
    about_rebalances,
    about_share_groups,
    about_streams_groups,
    about_timeouts,
    about_transactions,
)
from kgroup.groups.doctor.finding import Answer, Rule, RuleScope
from kgroup.groups.doctor.snapshot import ClusterSnapshot, GroupSnapshot

OfGroup = Callable[[GroupSnapshot], Answer]
OfCluster = Callable[[ClusterSnapshot], Answer]

GROUP_RULES: tuple[tuple[Rule, OfGroup], ...] = (
    (about_offsets.OUT_OF_RANGE, about_offsets.out_of_range),
    (about_offsets.RECREATED, about_offsets.topic_recreated),
    (about_transactions.TRANSACTION, about_transactions.hanging_transaction),
    (about_transactions.LSO, about_transactions.lso_stuck),
    (about_transactions.PENDING_COMMIT, about_transactions.pending_commit),
    (about_lag.NO_READER, about_lag.no_reader),
    (about_lag.UNSUBSCRIBED, about_lag.unsubscribed),
    (about_lag.STALLED_COMMITS, about_lag.stalled_commits),
    (about_rebalances.REBALANCE_STORM, about_rebalances.rebalance_storm),
    (about_rebalances.WAITS, about_rebalances.rebalance_waits),
    (about_rebalances.SHARED, about_rebalances.shared_instance),
    (about_expiry.EXPIRY, about_expiry.offsets_expire),
    (about_expiry.EXPIRY_IN_USE, about_expiry.offsets_expire_in_use),
    (about_offsets.WRITERS, about_offsets.two_writers),
    (about_offsets.MOVED, about_offsets.offsets_moved),
    (about_offsets.PASSED_OVER, about_offsets.passed_over),
    (about_offsets.NEVER_READ, about_offsets.never_read),
    (about_members.MIXED, about_members.mixed_subscriptions),
    (about_members.OTHER_DEPLOYMENT, about_members.other_deployment),
    (about_offsets.GONE, about_offsets.topic_gone),
    (about_catchups.PENDING, about_catchups.pending_catchup),
    (about_lag.LARGE_GAP, about_lag.large_gap),
    (about_lag.HOT_PARTITION, about_lag.hot_partition),
    (about_lag.SKEWED_LAG, about_lag.skewed_lag),
    (about_lag.UNUSABLE_TIMESTAMPS, about_lag.unusable_timestamps),
    (about_members.SKEWED, about_members.skewed_partitions),
    (about_members.IDLE, about_members.idle_members),
    (about_members.LOST, about_members.lost_member),
    (about_rebalances.EAGER, about_rebalances.eager_assignor),
    (about_rebalances.NOT_STATIC, about_rebalances.not_static),
    (about_timeouts.SESSION, about_timeouts.session_restart),
    (about_timeouts.STATIC, about_timeouts.static_session),
    (about_timeouts.HEARTBEAT, about_timeouts.heartbeat_interval),
    (about_timeouts.POLL, about_timeouts.poll_interval),
    (about_lag.COMMITS_WITHOUT_PROGRESS, about_lag.commits_without_progress),
    (about_members.MIGRATE, about_members.ready_to_migrate),
)
QUERY_RULES: tuple[tuple[Rule, OfGroup], ...] = (
    (about_queries.FAILS, about_queries.query_fails),
    (about_queries.STOPPED, about_queries.query_stopped),
    (about_queries.LONG, about_queries.long_batch),
    (about_queries.RETENTION, about_queries.query_retention),
    (about_catchups.PENDING, about_catchups.pending_catchup),
    (about_queries.NEW_PARTITIONS, about_queries.new_partitions),
    (about_lag.UNUSABLE_TIMESTAMPS, about_lag.unusable_timestamps),
)
SHARE_RULES: tuple[tuple[Rule, OfGroup], ...] = (
    (about_share_groups.NO_READER, about_share_groups.share_no_reader),
    (about_share_groups.GROUP_ID, about_share_groups.share_group_id),
    (about_share_groups.ARCHIVED, about_share_groups.share_archived),
    (about_share_groups.LAST_ATTEMPTS, about_share_groups.share_last_attempts),
    (about_share_groups.LOCK, about_share_groups.share_lock),
    (about_share_groups.STARTS_AT_LATEST, about_share_groups.share_starts_at_latest),
    (about_share_groups.DEAD_LETTERS, about_share_groups.share_dead_letters),
)
STREAMS_RULES: tuple[tuple[Rule, OfGroup], ...] = (
    (about_streams_groups.UNREADY, about_streams_groups.streams_not_ready),
    (about_streams_groups.TASKS, about_streams_groups.streams_tasks),
    *(
        pair
        for pair in GROUP_RULES
        if pair[0]
        in (
            about_offsets.OUT_OF_RANGE,
            about_offsets.RECREATED,
            about_transactions.TRANSACTION,
            about_transactions.LSO,
            about_transactions.PENDING_COMMIT,
            about_lag.NO_READER,
            about_lag.STALLED_COMMITS,
            about_rebalances.REBALANCE_STORM,
            about_expiry.EXPIRY,
            about_offsets.GONE,
            about_lag.LARGE_GAP,
            about_lag.HOT_PARTITION,
            about_lag.SKEWED_LAG,
            about_lag.UNUSABLE_TIMESTAMPS,
        )
    ),
    (about_streams_groups.TOPOLOGY, about_streams_groups.streams_topology),
)
"""The members of a streams group have tasks, their assignor and timeouts are the broker's: other rules do not apply."""
CLUSTER_RULES: tuple[tuple[Rule, OfCluster], ...] = (
    (about_cluster.REPLICATION, about_cluster.offsets_topic_replication),
    (about_transactions.CLUSTER_TRANSACTION, about_transactions.hanging_offsets_transaction),
    (about_cluster.COORDINATORS, about_cluster.coordinator_load),
)
RULES: tuple[Rule, ...] = tuple(
    dict.fromkeys(
        rule for rules in (CLUSTER_RULES, GROUP_RULES, QUERY_RULES, SHARE_RULES, STREAMS_RULES) for rule, _ in rules
    )
)
"""The table of rules: id, meaning, source, thresholds."""

OF_COMMITS: tuple[Rule, ...] = (
    about_offsets.OUT_OF_RANGE,
    about_offsets.RECREATED,
    about_transactions.LSO,
    about_lag.NO_READER,
    about_lag.UNSUBSCRIBED,
    about_lag.STALLED_COMMITS,
    about_expiry.EXPIRY,
    about_offsets.NEVER_READ,
    about_offsets.GONE,
    about_lag.LARGE_GAP,
    about_lag.HOT_PARTITION,
    about_lag.SKEWED_LAG,
)
"""The rules that can check only a part of the group if the broker hides commits."""

BY_ID = {rule.id: rule for rule in RULES}
ORDER = tuple(rule.id for rule in RULES)


class ThresholdDocument(msgspec.Struct, frozen=True):
    """A threshold in JSON."""

    name: Annotated[str, "The threshold."]
    value: Annotated[float, "Its value."]
    unit: Annotated[str | None, "The unit of the value."]
    reason: Annotated[str, "Why it has this value."]


class RuleExplanation(msgspec.Struct, frozen=True):
    """A rule in full."""

    rule: Annotated[str, "The id of the rule."]
    scope: Annotated[RuleScope, "What it is about."]
    meaning: Annotated[str, "What it finds, in one line."]
    description: Annotated[str, "What it finds, in full."]
    impact: Annotated[str, "Why it matters."]
    how_to_see: Annotated[tuple[str, ...], "How to see it."]
    how_to_fix: Annotated[tuple[str, ...], "How to fix it."]
    thresholds: Annotated[tuple[ThresholdDocument, ...], "The rule's thresholds."]
    source: Annotated[str, "A KIP, an issue of Kafka or its documentation."]
