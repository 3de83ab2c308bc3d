"""The ledger's records: keys, and versioned JSON values. Pure.

The plan, its state, its runner's epoch, its delivery and the progress of each chunk have different keys, so that
compaction keeps the newest of each: ``cu-7f3a/plan``, ``/state``, ``/epoch``, ``/delivery``, ``/totals``,
``/chunk/12``. Unknown fields are ignored; a change that older versions must not ignore raises the version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NoReturn

from kgroup.catchup.ledger.json_fields import FieldError, JsonFields
from kgroup.groups.catchup.model import (
    LOG_END,
    Abandoned,
    CatchupPlan,
    Chunk,
    ChunkProgress,
    Delivery,
    GapRange,
    LostOffsets,
    Order,
    PlanHead,
    PlanState,
    PlanTotals,
    RangeTotals,
    RunnerEpoch,
    StateRecord,
    TargetTopic,
    Task,
)
from kgroup.groups.commit_tags import is_plan_id
from kgroup.model.commit import Commit
from kgroup.support.errors import Refused

VERSION = 1

_HEAD = "head"
"""LOG_END as it is stored: the name of the first version."""

Value = CatchupPlan | StateRecord | RunnerEpoch | Delivery | PlanTotals | ChunkProgress


class RecordKind(StrEnum):
    """The kind of a plan's record."""

    PLAN = "plan"
    STATE = "state"
    EPOCH = "epoch"
    DELIVERY = "delivery"
    TOTALS = "totals"
    CHUNK = "chunk"


_CHUNK_NUMBER = re.compile(r"(?a)0|[1-9]\d{0,9}")
_KINDS = {kind.value: kind for kind in RecordKind}


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The key of a record; ``chunk`` is the chunk number for CHUNK, else None."""

    plan_id: str
    kind: RecordKind
    chunk: int | None = None

    def __str__(self) -> str:
        end = "" if self.chunk is None else f"/{self.chunk}"
        return f"{self.plan_id}/{self.kind}{end}"

    def encode(self) -> bytes:
        """The key as bytes."""
        return str(self).encode()


def key_of(plan_id: str, value: Value) -> RecordKey:
    """The key of a value of this plan."""
    match value:
        case CatchupPlan():
            return RecordKey(plan_id, RecordKind.PLAN)
        case StateRecord():
            return RecordKey(plan_id, RecordKind.STATE)
        case RunnerEpoch():
            return RecordKey(plan_id, RecordKind.EPOCH)
        case Delivery():
            return RecordKey(plan_id, RecordKind.DELIVERY)
        case PlanTotals():
            return RecordKey(plan_id, RecordKind.TOTALS)
        case ChunkProgress():
            return RecordKey(plan_id, RecordKind.CHUNK, value.chunk)


def plan_of(raw: bytes | None) -> str | None:
    """The plan id in a key, None if there is none: so an unreadable record affects only its own plan."""
    first = (raw or b"").split(b"/", 1)[0].decode("ascii", "replace")
    return first if is_plan_id(first) else None


def decode_key(raw: bytes | None) -> RecordKey:
    """The key of a record. Raises as ``decode``, also for an unknown kind of record."""
    text = (raw or b"").decode("utf-8", "backslashreplace")
    plan_id, *rest = text.split("/")
    if raw is None or not is_plan_id(plan_id) or not rest:
        raise _damaged(text or "a record without a key", "kgroup does not write keys of this form")
    kind = _KINDS.get(rest[0])
    if kind is None:
        raise _newer(text, f"the record type {rest[0]!r} is unknown")
    if kind is RecordKind.CHUNK:
        if len(rest) != 2 or not _CHUNK_NUMBER.fullmatch(rest[1]):
            raise _damaged(text, "its key has no chunk number")
        return RecordKey(plan_id, kind, int(rest[1]))
    if len(rest) != 1:
        raise _damaged(text, "its key is too long")
    return RecordKey(plan_id, kind)


def encode(value: Value) -> bytes:
    """JSON in ASCII, because the metadata of commits may contain any character, even NUL."""
    match value:
        case CatchupPlan():
            document = _plan(value)
        case StateRecord():
            document = _state(value)
        case RunnerEpoch():
            document = _epoch(value)
        case Delivery():
            document = _delivery(value)
        case PlanTotals():
            document = {"ranges": [_totals(row) for row in value.ranges]}
        case ChunkProgress():
            document = _progress(value)
    return json.dumps({"v": VERSION, **document}, separators=(",", ":")).encode("ascii")


def decode(key: RecordKey, raw: bytes) -> Value:
    """The value of a record that is not a tombstone.

    Raises Refused with code ``ledger-newer`` for an unknown version, and with code ``ledger-damaged`` for
    an invalid record; both name the record.
    """
    return _value(key, _document(key, raw))


def decode_plan_without_chunks(key: RecordKey, raw: bytes) -> CatchupPlan:
    """The plan in its own record, as one without chunks. Raises as ``decode``."""
    plan = _value(key, {**_document(key, raw), "chunks": []})
    assert isinstance(plan, CatchupPlan)
    return plan


def _value(key: RecordKey, document: dict[str, Any]) -> Value:
    try:
        value = _READERS[key.kind](JsonFields(document))
    except FieldError as wrong:
        raise _damaged(str(key), str(wrong)) from wrong
    if isinstance(value, CatchupPlan) and value.id != key.plan_id:
        raise _damaged(str(key), f"it contains the plan {value.id}")
    if isinstance(value, ChunkProgress) and value.chunk != key.chunk:
        raise _damaged(str(key), f"it contains chunk {value.chunk}")
    return value


def decode_plan_head(key: RecordKey, offset: int, raw: bytes) -> PlanHead:
    """The head in a plan's own record, without its ranges and chunks, and without a state. Raises as ``decode``."""
    # These quotes are not escaped, so they are not in a string; ``encode`` writes all scalar fields before the ranges.
    head, marker, _ = raw.partition(b',"ranges":[')
    fields = JsonFields(_document(key, head + b"}" if marker else raw))
    try:
        return PlanHead(
            key.plan_id,
            fields.maybe("group", fields.text),
            fields.text("who"),
            fields.integer("created_ms"),
            fields.maybe("reason", fields.text),
            offset,
        )
    except FieldError as wrong:
        raise _damaged(str(key), str(wrong)) from wrong


def _document(key: RecordKey, raw: bytes) -> dict[str, Any]:
    try:
        document = _DECODER.decode(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _damaged(str(key), "it is not JSON") from error
    if not isinstance(document, dict):
        raise _damaged(str(key), "it is not a JSON object")
    version = document.get("v")
    if type(version) is not int:
        raise _damaged(str(key), "it has no version")
    if version != VERSION:
        raise _newer(str(key), f"it has version {version}; this kgroup reads version {VERSION}")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
"""Made once: ``json.loads`` with such an option makes one for each of perhaps a million records."""


def _newer(record: str, why: str) -> Refused:
    return Refused(
        f"ledger record {record}: {why}",
        hint="if a newer kgroup wrote it, use that version; otherwise another program writes to the ledger topic",
        code="ledger-newer",
    )


def _damaged(record: str, why: str) -> Refused:
    return Refused(
        f"ledger record {record}: {why}",
        hint="another program writes to the ledger topic: find it",
        code="ledger-damaged",
    )


def _plan(plan: CatchupPlan) -> dict[str, Any]:
    return {
        "id": plan.id,
        "group": plan.group,
        "group_type": plan.group_type,
        "cluster_id": plan.cluster_id,
        "created_ms": plan.created_ms,
        "who": plan.who,
        "reason": plan.reason,
        "command": list(plan.command),
        "released_at": _HEAD if plan.release_point == LOG_END else plan.release_point,
        "ranges": [_range(item) for item in plan.ranges],
        "chunks": list(_runs(plan.chunks)),
        "given_up": [
            {"topic": row.topic, "partition": row.partition, "start": row.start, "end": row.end, "why": row.why}
            for row in plan.abandoned
        ],
    }


def _range(item: GapRange) -> dict[str, Any]:
    before = item.before
    return {
        "topic": item.topic,
        "partition": item.partition,
        "start": item.start,
        "end": item.end,
        "before": None
        if before is None
        else {"offset": before.offset, "leader_epoch": before.leader_epoch, "metadata": before.metadata},
        "end_leader_epoch": item.end_leader_epoch,
        "topic_id": item.topic_id,
        "maybe_processed_until": item.maybe_processed_until,
        "records": item.records,
        "size": item.size,
        "oldest_ms": item.oldest_ms,
        "retention_deadline_ms": item.retention_deadline_ms,
    }


def _runs(chunks: tuple[Chunk, ...]) -> Iterator[dict[str, Any]]:
    """Adjacent, consecutively numbered chunks as one list of offsets: a plan may have thousands of chunks."""
    run: dict[str, Any] | None = None
    for chunk in chunks:
        if (
            run is not None
            and (run["topic"], run["partition"], run["edges"][-1]) == (chunk.topic, chunk.partition, chunk.start)
            and run["first"] + len(run["edges"]) - 1 == chunk.number
        ):
            run["edges"].append(chunk.end)
            continue
        if run is not None:
            yield run
        edges = [chunk.start, chunk.end]
        run = {"topic": chunk.topic, "partition": chunk.partition, "first": chunk.number, "edges": edges}
    if run is not None:
        yield run


def _read_plan(fields: JsonFields) -> CatchupPlan:
    released_at = fields.text("released_at")
    return CatchupPlan(
        id=fields.text("id"),
        group=fields.maybe("group", fields.text),
        group_type=fields.maybe("group_type", fields.text),
        cluster_id=fields.maybe("cluster_id", fields.text),
        created_ms=fields.integer("created_ms"),
        who=fields.text("who"),
        reason=fields.maybe("reason", fields.text),
        command=fields.texts("command"),
        ranges=tuple(_read_range(item) for item in fields.objects("ranges")),
        chunks=tuple(chunk for run in fields.objects("chunks") for chunk in _read_run(run)),
        abandoned=tuple(
            Abandoned(item.text("topic"), item.count("partition"), *item.span(), item.text("why"))
            for item in fields.objects("given_up")
        ),
        release_point=LOG_END if released_at == _HEAD else released_at,
    )


def _read_range(item: JsonFields) -> GapRange:
    return GapRange(
        item.text("topic"),
        item.count("partition"),
        *item.span(),
        before=item.maybe("before", lambda name: _read_commit(item.object(name))),
        end_leader_epoch=item.maybe("end_leader_epoch", item.count),
        topic_id=item.maybe("topic_id", item.text),
        maybe_processed_until=item.maybe("maybe_processed_until", item.count),
        records=item.maybe("records", item.count),
        size=item.maybe("size", item.count),
        oldest_ms=item.maybe("oldest_ms", item.integer),
        retention_deadline_ms=item.maybe("retention_deadline_ms", item.integer),
    )


def _read_commit(fields: JsonFields) -> Commit:
    return Commit(fields.count("offset"), fields.maybe("leader_epoch", fields.count), fields.text("metadata"))


def _read_run(run: JsonFields) -> Iterator[Chunk]:
    topic, partition, first, edges = run.text("topic"), run.count("partition"), run.count("first"), run.counts("edges")
    if len(edges) < 2 or list(edges) != sorted(edges):
        run.wrong("edges", "is not a list of ascending offsets")
    for number, (start, end) in enumerate(pairwise(edges), first):
        yield Chunk(number, topic, partition, start, end)


def _state(record: StateRecord) -> dict[str, Any]:
    return {
        "state": record.state.value,
        "at_ms": record.at_ms,
        "who": record.who,
        "epoch": record.epoch,
        "log_position": record.log_position,
        "targets": [{"topic": t, "partition": p, "offset": offset} for t, p, offset in record.targets],
        "expected": [{"topic": t, "partition": p, "offset": offset} for t, p, offset in record.expected],
        "note": record.note,
    }


def _read_state(fields: JsonFields) -> StateRecord:
    return StateRecord(
        state=fields.one_of("state", PlanState),
        at_ms=fields.integer("at_ms"),
        who=fields.text("who"),
        epoch=fields.count("epoch"),
        log_position=fields.maybe("log_position", fields.count),
        targets=tuple(
            (item.text("topic"), item.count("partition"), item.count("offset")) for item in fields.objects("targets")
        ),
        expected=tuple(
            (item.text("topic"), item.count("partition"), item.maybe("offset", item.count))
            for item in fields.objects("expected")
        ),
        note=fields.maybe("note", fields.text),
    )


def _epoch(epoch: RunnerEpoch) -> dict[str, Any]:
    return {"number": epoch.number, "who": epoch.who, "at_ms": epoch.at_ms, "seen_ms": epoch.seen_ms}


def _read_epoch(fields: JsonFields) -> RunnerEpoch:
    return RunnerEpoch(fields.count("number"), fields.text("who"), fields.integer("at_ms"), fields.integer("seen_ms"))


def _delivery(delivery: Delivery) -> dict[str, Any]:
    target = delivery.target
    return {
        "sink": delivery.sink,
        "order": delivery.order.value,
        "tasks": [{"number": task.number, "chunks": list(task.chunks)} for task in delivery.tasks],
        "options": dict(delivery.options),
        "tuning": dict(delivery.tuning),
        "target": None if target is None else _target(target),
        "dead_letters": {name: _target(topic) for name, topic in delivery.dead_letters.items()},
    }


def _read_delivery(fields: JsonFields) -> Delivery:
    if fields.has("buckets") and fields.count("buckets"):
        fields.wrong("buckets", "are of an older kgroup: resume or cancel the plan with that version")
    return Delivery(
        sink=fields.text("sink"),
        order=fields.one_of("order", Order),
        tasks=tuple(Task(item.count("number"), item.counts("chunks")) for item in fields.objects("tasks")),
        options=fields.options("options"),
        tuning=fields.options("tuning") if fields.has("tuning") else {},
        target=fields.maybe("target", lambda name: _read_target(fields.object(name))) if fields.has("target") else None,
        dead_letters={name: _read_target(item) for name, item in fields.by_name("dead_letters")}
        if fields.has("dead_letters")
        else {},
    )


def _target(target: TargetTopic) -> dict[str, Any]:
    return {"id": target.id, "ends": list(target.ends)}


def _read_target(fields: JsonFields) -> TargetTopic:
    return TargetTopic(fields.maybe("id", fields.text), fields.counts("ends"))


def _progress(progress: ChunkProgress) -> dict[str, Any]:
    return {
        "chunk": progress.chunk,
        "delivered_to": progress.delivered_to,
        "records": progress.records,
        "filtered": progress.filtered,
        "dead": progress.dead,
        "size": progress.size,
        "at_ms": progress.at_ms,
        "epoch": progress.epoch,
        "lost": [_lost(lost) for lost in progress.lost],
        "may_repeat": progress.may_repeat,
    }


def _totals(row: RangeTotals) -> dict[str, Any]:
    return {
        "delivered_to": row.delivered_to,
        "records": row.records,
        "filtered": row.filtered,
        "dead": row.dead,
        "size": row.size,
        "may_repeat": row.may_repeat,
        "chunks": row.chunks,
        "finished_chunks": row.finished_chunks,
        "lost": [_lost(lost) for lost in row.lost],
        "undelivered": [offset for span in row.undelivered for offset in span],
    }


def _read_totals(fields: JsonFields) -> PlanTotals:
    return PlanTotals(
        tuple(
            RangeTotals(
                row.count("delivered_to"),
                row.count("records"),
                row.count("filtered"),
                row.count("dead"),
                row.count("size"),
                row.count("may_repeat"),
                row.count("chunks"),
                row.count("finished_chunks"),
                _read_lost(row),
                _read_spans(row, "undelivered"),
            )
            for row in fields.objects("ranges")
        )
    )


def _lost(lost: LostOffsets) -> dict[str, Any]:
    return {"start": lost.start, "end": lost.end, "why": lost.why}


def _read_lost(fields: JsonFields) -> tuple[LostOffsets, ...]:
    return tuple(LostOffsets(*item.span(), item.text("why")) for item in fields.objects("lost"))


def _read_progress(fields: JsonFields) -> ChunkProgress:
    return ChunkProgress(
        chunk=fields.count("chunk"),
        delivered_to=fields.count("delivered_to"),
        records=fields.count("records"),
        filtered=fields.count("filtered"),
        dead=fields.count("dead"),
        size=fields.count("size"),
        at_ms=fields.integer("at_ms"),
        epoch=fields.count("epoch"),
        lost=_read_lost(fields),
        may_repeat=fields.count("may_repeat"),
    )


def _read_spans(fields: JsonFields, name: str) -> tuple[tuple[int, int], ...]:
    offsets = fields.counts(name)
    if len(offsets) % 2 or list(offsets) != sorted(offsets):
        fields.wrong(name, "is not a list of ascending offset ranges")
    return tuple(zip(offsets[::2], offsets[1::2], strict=True))


_READERS: dict[RecordKind, Callable[[JsonFields], Value]] = {
    RecordKind.PLAN: _read_plan,
    RecordKind.STATE: _read_state,
    RecordKind.EPOCH: _read_epoch,
    RecordKind.DELIVERY: _read_delivery,
    RecordKind.TOTALS: _read_totals,
    RecordKind.CHUNK: _read_progress,
}
