"""Rules about streaming queries: what their checkpoints and the logs of their topics show."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.groups.doctor.finding import Answer, Rule, RuleScope, Severity, kgroup_command, unread_partitions_text
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.streaming.trouble import QueryTrouble, troubles_of
from kgroup.groups.thresholds import DESERTED, LONG_BATCH, RETENTION_SOON
from kgroup.groups.verdict.conclusion import Trouble
from kgroup.groups.verdict.facts import retention_verdict
from kgroup.support.units import plural, some_of

FAILS = Rule(
    "query-fails",
    "the next batch of a streaming query fails: its offsets are outside the log, or its topic is gone",
    "Spark's documentation of the Kafka source (failOnDataLoss)",
    scope=RuleScope.QUERY,
)
LONG = Rule(
    "query-long-batch",
    "a streaming query has planned a batch and not finished it for long",
    "Spark's OffsetSeqLog and CommitLog: a batch is planned before it is done",
    (LONG_BATCH,),
    RuleScope.QUERY,
)
STOPPED = Rule(
    "query-stopped",
    "a streaming query has unread records and makes no batch, or its job is late",
    "Spark's CommitLog: a query commits each batch",
    (DESERTED,),
    RuleScope.QUERY,
)
RETENTION = Rule(
    "query-retention",
    "retention deletes records that a streaming query has not read",
    "Spark's documentation of the Kafka source (failOnDataLoss)",
    (RETENTION_SOON,),
    RuleScope.QUERY,
)
NEW_PARTITIONS = Rule(
    "query-new-partitions",
    "partitions with records that a streaming query has not seen yet",
    "Spark's documentation of the Kafka source: new partitions are read from their beginning",
    scope=RuleScope.QUERY,
)


def query_fails(snapshot: GroupSnapshot) -> Answer:
    """Offsets outside the log, and topics that are gone."""
    troubles = _of(snapshot, Trouble.QUERY_FAILS)
    if not troubles:
        return _partly(FAILS, snapshot)
    return FAILS.finding(
        Severity.CRITICAL,
        "; ".join(each.words for each in troubles),
        remedy="decide before it starts: a new checkpoint with startingOffsets, or failOnDataLoss=false once, which "
        "passes over what is gone",
        numbers={"partition_count": _count(troubles), "deleted_offset_count": sum(each.count for each in troubles)},
        affected=_places(troubles),
        commands=(kgroup_command("describe", snapshot.group.name),),
    )


def long_batch(snapshot: GroupSnapshot) -> Answer:
    """A batch that is planned for an hour and not done."""
    query = snapshot.group.query
    if query is not None and query.planned is not None and query.planned.planned_ms is None:
        return LONG.unknown(f"batch {query.planned.number} is planned, and its file has no time")
    return _finding(
        LONG,
        snapshot,
        Trouble.LONG_BATCH,
        lambda _: Severity.WARNING,
        "read the query's log: a batch that fails is planned again at each start, with the same records; "
        "maxOffsetsPerTrigger bounds the next one",
    )


def query_stopped(snapshot: GroupSnapshot) -> Answer:
    """No batch though records are unread; a warning at first."""
    stopped = _finding(
        STOPPED,
        snapshot,
        Trouble.QUERY_STOPPED,
        lambda trouble: Severity.CRITICAL if (trouble.for_ms or 0) >= DESERTED.value else Severity.WARNING,
        "start the query; for a job with a schedule, name it in the context: queries: NAME: every: 1h",
    )
    return stopped or _partly(STOPPED, snapshot)


def query_retention(snapshot: GroupSnapshot) -> Answer:
    """Unread records that retention deletes soon, or before the query has caught up."""
    safe = retention_verdict(snapshot.lag, snapshot.evidence)
    if safe is None:
        return _partly(RETENTION, snapshot)
    if safe.left_ms is None or safe.style is None:
        return RETENTION.unknown(safe.text) if safe.unknown else ()
    return RETENTION.finding(
        Severity.CRITICAL if safe.style == "bad" else Severity.WARNING,
        safe.text,
        remedy="raise retention.ms of the topic until the query has read its records",
        numbers={"left_ms": safe.left_ms},
        affected=[p.where for p in snapshot.lag.partitions if p.lag],
        commands=(kgroup_command("describe", snapshot.group.name),),
    )


def new_partitions(snapshot: GroupSnapshot) -> Answer:
    """Partitions without an offset in the checkpoint: they came after its last batch."""
    rows = snapshot.group.partitions
    new = [p for p in rows if p.commit is None and p.log is not None and p.log.end > p.log.start]
    if not new or not snapshot.group.query or not snapshot.group.query.offsets:
        return _partly(NEW_PARTITIONS, snapshot)
    places = [str(p.tp) for p in new]
    return NEW_PARTITIONS.finding(
        Severity.INFO,
        f"{plural(len(new), 'partition')} not in the checkpoint: {some_of(places)}",
        remedy="nothing: the query reads them from their beginning at its next batch",
        numbers={"partition_count": len(new)},
        affected=places,
        commands=(kgroup_command("describe", snapshot.group.name),),
    )


def _finding(
    rule: Rule,
    snapshot: GroupSnapshot,
    cause: Trouble,
    severity: Callable[[QueryTrouble], Severity],
    remedy: str,
) -> Answer:
    troubles = _of(snapshot, cause)
    if not troubles:
        return ()
    worst = troubles[0]
    return rule.finding(
        severity(worst),
        worst.words,
        remedy=remedy,
        numbers={"partition_count": _count(troubles)} | ({} if worst.for_ms is None else {"for_ms": worst.for_ms}),
        affected=_places(troubles),
        commands=(kgroup_command("describe", snapshot.group.name),),
    )


def _partly(rule: Rule, snapshot: GroupSnapshot) -> Answer:
    """No finding, as far as the logs of its partitions could be read."""
    return rule.partly(unread_partitions_text(snapshot.group.partitions))


def _of(snapshot: GroupSnapshot, cause: Trouble) -> tuple[QueryTrouble, ...]:
    return tuple(each for each in troubles_of(snapshot.group, snapshot.lag) if each.cause is cause)


def _count(troubles: tuple[QueryTrouble, ...]) -> int:
    return sum(len(each.partitions) for each in troubles)


def _places(troubles: tuple[QueryTrouble, ...]) -> list[str]:
    return [str(p.tp) for each in troubles for p in each.partitions]
