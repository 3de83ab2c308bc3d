"""Rules about transactions that block read_committed consumers: the last stable offset and hanging transactions."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.doctor.finding import Answer, Rule, RuleScope, Severity, duration, kgroup_command, tool_command
from kgroup.groups.doctor.snapshot import NO_COMMITS, ClusterSnapshot, GroupSnapshot, OpenTransaction
from kgroup.groups.lag.open_commits import open_commits_words
from kgroup.groups.thresholds import ABORTS, HANGING, LONG_TRANSACTION
from kgroup.support.quoting import quote
from kgroup.support.units import human_count, plural, some_of

LSO = Rule(
    "lso-stuck",
    "the last stable offset does not move: read_committed consumers are blocked",
    "KIP-98, KIP-664",
    (LONG_TRANSACTION, HANGING),
)
TRANSACTION = Rule(
    "hanging-transaction",
    "a transaction is open that no producer will end",
    "KIP-664, KIP-890",
    (HANGING, ABORTS),
)
CLUSTER_TRANSACTION = Rule(
    "hanging-offsets-transaction",
    "a transaction hangs in __consumer_offsets: commits of groups stay pending, compaction stops",
    "KIP-664, KIP-447",
    (HANGING, ABORTS),
    scope=RuleScope.CLUSTER,
)
PENDING_COMMIT = Rule(
    "pending-commit",
    "an open transaction holds offsets of the group: a member that starts there waits until it ends",
    "KIP-447 (UNSTABLE_OFFSET_COMMIT), KIP-664",
    (LONG_TRANSACTION, HANGING),
)
_NOT_ASKED = "open transactions were not asked for (DescribeProducers: READ on the topic)"


def lso_stuck(snapshot: GroupSnapshot) -> Answer:
    """INFO if the commit is beyond the last stable offset of every blocked partition: the group reads uncommitted."""
    group, maximum = snapshot.group, snapshot.transaction_max_ms or HANGING.value
    blocked: list[tuple[bool, int, int, str, int]] = []
    missing: list[str] = []
    undated: list[str] = []
    for partition in group.partitions:
        key = partition.tp
        facts = snapshot.logs.get(key)
        if partition.log is None or facts is None or facts.last_stable is None:
            missing.append(str(partition.tp))
        elif facts.last_stable < partition.log.end:
            start = snapshot.held_since_ms.get(key)
            if start is None and facts.open_transaction is not None:
                start = facts.open_transaction.since_ms
            if start is None:
                undated.append(str(partition.tp))
            elif (age := snapshot.now_ms - start) >= LONG_TRANSACTION.value:
                beyond = partition.commit is not None and partition.commit.offset > facts.last_stable
                blocked.append(
                    (beyond, -age, facts.last_stable - partition.log.end, str(partition.tp), facts.last_stable)
                )
    if missing and len(missing) == len(group.partitions):
        return LSO.unknown(snapshot.why("last_stable", "the last stable offsets were not read"))
    why = f"last stable offset unknown: {some_of(missing)}" if missing else None
    why = f"held back, but since when is not known: {some_of(undated)}" if undated else why
    partly = LSO.partly(why)
    if not blocked:
        return partly
    blocked.sort()
    beyond, age, records, worst, stable = blocked[0][0], -blocked[0][1], -blocked[0][2], blocked[0][3], blocked[0][4]
    topic = worst.rpartition(":")[0]
    severity = Severity.INFO
    if not beyond:
        severity = Severity.CRITICAL if age >= maximum else Severity.WARNING
    more = f"; {len(blocked) - 1} more of {plural(len(group.partitions), 'partition')}" if len(blocked) > 1 else ""
    passed = "; the group has committed beyond it, so it reads uncommitted" if beyond else ""
    return (
        LSO.finding(
            severity,
            f"{worst} is at {stable} for {duration(age)}: {human_count(records)} records held back{more}{passed}",
            remedy="end the transaction: its producer, or after transaction.timeout.ms the coordinator; one that hangs "
            "has to be aborted (hanging-transaction)",
            numbers={
                "partition_count": len(blocked),
                "held_back_count": -sum(row[2] for row in blocked),
                "held_ms": age,
            },
            affected=[row[3] for row in blocked],
            commands=(kgroup_command("lag", group.name, "--topic", topic, "--isolation", "read_committed"),),
        )
        + partly
    )


def hanging_transaction(snapshot: GroupSnapshot) -> Answer:
    """Hanging transactions in the group's own partitions."""
    if snapshot.transactions is None:
        return TRANSACTION.unknown(snapshot.why("transactions", _NOT_ASKED))
    return _hanging(TRANSACTION, snapshot.transactions, snapshot)


def pending_commit(snapshot: GroupSnapshot) -> Answer:
    """The commits that ``describe`` names; an abort command only if no coordinator knows the transaction."""
    if snapshot.history is None:
        return PENDING_COMMIT.unknown(snapshot.why("history", NO_COMMITS))
    held = snapshot.read.open_commits
    if not held:
        return ()
    age_ms, first = snapshot.now_ms - held[0].since_ms, held[0].transaction
    rest = "list"
    remedy = "find its producer by the id"
    if first is not None and first.known is False:
        rest = f"abort --topic {first.topic} --partition {first.partition} --start-offset {first.start_offset}"
        remedy = "its coordinator does not know it, so no producer ends it: abort it"
    elif first is not None and first.transactional_id is not None:
        rest = f"describe --transactional-id {quote(first.transactional_id)}"
        remedy = (
            "end its producer, and start it again with the same transactional.id: that aborts the transaction; else "
            "its coordinator does, transaction.timeout.ms after it began"
        )
    return PENDING_COMMIT.finding(
        Severity.CRITICAL if age_ms >= (snapshot.transaction_max_ms or HANGING.value) else Severity.WARNING,
        open_commits_words(held, snapshot.now_ms),
        remedy=remedy,
        numbers={"partition_count": len(held), "held_ms": age_ms, "producer_id": held[0].producer_id},
        affected=[f"{each.tp}" for each in held],
        commands=(tool_command("kafka-transactions.sh", snapshot.bootstrap, rest),),
    )


def hanging_offsets_transaction(snapshot: ClusterSnapshot) -> Answer:
    """Hanging transactions in ``__consumer_offsets``."""
    if snapshot.transactions is None:
        return CLUSTER_TRANSACTION.unknown(snapshot.why("transactions", _NOT_ASKED))
    return _hanging(CLUSTER_TRANSACTION, snapshot.transactions, snapshot)


def _hanging(rule: Rule, transactions: Sequence[OpenTransaction], snapshot: GroupSnapshot | ClusterSnapshot) -> Answer:
    """As ``find-hanging``: silent beyond the maximum timeout, unknown to the coordinator (WARNING if not asked)."""
    maximum = snapshot.transaction_max_ms or HANGING.value
    hanging = [t for t in transactions if snapshot.now_ms - t.last_ms > maximum and t.known is not True]
    if not hanging:
        return ()
    hanging.sort(key=lambda t: t.last_ms)
    first = hanging[0]
    sure = any(transaction.known is False for transaction in hanging)
    unsure = "" if sure else "; whether its coordinator knows it could not be asked"
    more = f"; {len(hanging) - 1} more" if len(hanging) > 1 else ""
    producer = f", {first.transactional_id}" if first.transactional_id else ""
    return rule.finding(
        Severity.CRITICAL if sure else Severity.WARNING,
        f"{first.tp} from {first.start_offset} on, silent for "
        f"{duration(snapshot.now_ms - first.last_ms)}, producer {first.producer_id} epoch "
        f"{first.producer_epoch}{producer}{more}{unsure}",
        remedy="abort it: its records are then skipped by read_committed readers; with security, add --command-config",
        numbers={
            "transaction_count": len(hanging),
            "producer_id": first.producer_id,
            "producer_epoch": first.producer_epoch,
            "start_offset": first.start_offset,
            "silent_ms": snapshot.now_ms - first.last_ms,
        },
        affected=[f"{t.tp}" for t in hanging],
        commands=[
            tool_command(
                "kafka-transactions.sh",
                snapshot.bootstrap,
                f"abort --topic {t.topic} --partition {t.partition} --start-offset {t.start_offset}",
            )
            for t in hanging[: ABORTS.value]
        ],
    )
