"""The ledger's records: keys, and versioned JSON values. Pure.

The plan, its state, its runner's epoch, its delivery and the progress of each chunk have different keys, so that
compaction keeps the newest of each: ``cu-7f3a/plan``, ``/state``, ``/epoch``, ``/delivery``, ``/totals``,
``/throttle``, ``/applied``, ``/chunk/12``. Unknown fields are ignored; a change that older versions must not ignore
raises the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from kgroup.groups.catchup.dead_letters import Redrive
from kgroup.groups.catchup.model import (
    AppliedRate,
    CatchupPlan,
    Chunk,
    ChunkProgress,
    Delivery,
    PlanHead,
    PlanTotals,
    PlanWithoutChunks,
    RunnerEpoch,
    StateRecord,
    ThrottleRecord,
)
from kgroup.groups.commit_tags import is_plan_id
from kgroup.model.numbers import Int64, NonNegativeInt64
from kgroup.support.errors import Refused, UsageError, refusal_code

LEDGER_NEWER = refusal_code(
    "ledger-newer",
    "catchup",
    "A newer version of kgroup has written to the ledger.",
    "Use that version, or a newer one. The message has the commands to deliver the gap again, and to close the plan.",
)
LEDGER_DAMAGED = refusal_code(
    "ledger-damaged",
    "catchup",
    "A record of the plan in the ledger cannot be read: another program has written it.",
    "Run the commands of the message: they deliver the gap again, and close the plan.",
)

VERSION = 1

Value = CatchupPlan | StateRecord | RunnerEpoch | Delivery | PlanTotals | ThrottleRecord | AppliedRate | ChunkProgress


class RecordKind(StrEnum):
    """The kind of a plan's record."""

    PLAN = "plan"
    STATE = "state"
    EPOCH = "epoch"
    DELIVERY = "delivery"
    TOTALS = "totals"
    THROTTLE = "throttle"
    APPLIED = "applied"
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
        case ThrottleRecord():
            return RecordKey(plan_id, RecordKind.THROTTLE)
        case AppliedRate():
            return RecordKey(plan_id, RecordKind.APPLIED)
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


class _ChunkRun(Struct, frozen=True):
    """Adjacent, consecutively numbered chunks as one list of offsets: a plan may have thousands of chunks."""

    topic: str
    partition: NonNegativeInt64
    first: NonNegativeInt64
    edges: Annotated[tuple[NonNegativeInt64, ...], Meta(min_length=2)]

    def __post_init__(self) -> None:
        if any(start > end for start, end in pairwise(self.edges)):
            raise ValueError("the offsets of chunks must be ascending")

    def chunks(self) -> Iterator[Chunk]:
        """The chunks."""
        for number, (start, end) in enumerate(pairwise(self.edges), self.first):
            yield Chunk(self.topic, self.partition, start, end, number)


class _StoredPlan(PlanWithoutChunks, frozen=True, kw_only=True):
    chunks: tuple[_ChunkRun, ...]


class _StoredHead(Struct, frozen=True):
    """The part of a plan that its PlanHead has."""

    group: str | None
    who: str
    created_ms: Int64
    reason: str | None


class _Versioned(Struct, frozen=True):
    v: int


_Stored = _StoredPlan | StateRecord | RunnerEpoch | Delivery | PlanTotals | ThrottleRecord | AppliedRate | ChunkProgress
_S = TypeVar("_S", bound=Struct)

_TYPES: dict[RecordKind, type[_Stored]] = {
    RecordKind.PLAN: _StoredPlan,
    RecordKind.STATE: StateRecord,
    RecordKind.EPOCH: RunnerEpoch,
    RecordKind.DELIVERY: Delivery,
    RecordKind.TOTALS: PlanTotals,
    RecordKind.THROTTLE: ThrottleRecord,
    RecordKind.APPLIED: AppliedRate,
    RecordKind.CHUNK: ChunkProgress,
}


def encode(value: Value) -> bytes:
    """The JSON of a value. Raises UsageError for text with bytes that are not UTF-8, as a command line may have."""
    fields = asdict(value)
    if isinstance(value, CatchupPlan):
        fields["chunks"] = list(_runs(value.chunks))
    try:
        return msgspec.json.encode({"v": VERSION, **fields})
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} is not UTF-8, so the ledger cannot keep it") from error


def decode(key: RecordKey, raw: bytes) -> Value:
    """The value of a record that is not a tombstone.

    Raises Refused with code ``ledger-newer`` for an unknown version, and with code ``ledger-damaged`` for
    an invalid record; both name the record.
    """
    value = _read(key, raw, _TYPES[key.kind])
    if isinstance(value, ChunkProgress) and value.chunk != key.chunk:
        raise _damaged(str(key), f"it contains chunk {value.chunk}")
    if isinstance(value, Delivery):
        try:
            Redrive.decode(value.options)
        except ValueError as error:
            raise _damaged(str(key), f"its choice of dead letters cannot be read: {error}") from error
    if not isinstance(value, _StoredPlan):
        return value
    return _plan(key, value, tuple(chunk for run in value.chunks for chunk in run.chunks()))


def decode_plan_without_chunks(key: RecordKey, raw: bytes) -> CatchupPlan:
    """The plan in its own record, as one without chunks. Raises as ``decode``."""
    return _plan(key, _read(key, raw, PlanWithoutChunks), ())


def _plan(key: RecordKey, stored: PlanWithoutChunks, chunks: tuple[Chunk, ...]) -> CatchupPlan:
    if stored.id != key.plan_id:
        raise _damaged(str(key), f"it contains the plan {stored.id}")
    return CatchupPlan(**{**asdict(stored), "chunks": chunks})


def decode_plan_head(key: RecordKey, offset: int, raw: bytes) -> PlanHead:
    """The head in a plan's own record, without its ranges and chunks, and without a state. Raises as ``decode``."""
    head = _read(key, raw, _StoredHead)
    return PlanHead(key.plan_id, head.group, head.who, head.created_ms, head.reason, offset)


def _read(key: RecordKey, raw: bytes, kind: type[_S]) -> _S:
    try:
        version = msgspec.json.decode(raw, type=_Versioned).v
        if version != VERSION:
            raise _newer(str(key), f"it has version {version}; this kgroup reads version {VERSION}")
        value = msgspec.json.decode(raw, type=kind)
        if kind.__struct_defaults__:  # for msgspec these fields may be absent; but kgroup writes all
            present = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
            for name in kind.__struct_fields__:
                if name not in present:
                    raise ValueError(f"Object missing required field `{name}`")
        return value
    except (ValueError, RecursionError) as error:
        raise _damaged(str(key), str(error)) from error


def _newer(record: str, why: str) -> Refused:
    return Refused(
        f"ledger record {record}: {why}",
        hint="if a newer kgroup wrote it, use that version; otherwise another program writes to the ledger topic",
        code=LEDGER_NEWER,
    )


def _damaged(record: str, why: str) -> Refused:
    return Refused(
        f"ledger record {record}: {why}",
        hint="another program writes to the ledger topic: find it",
        code=LEDGER_DAMAGED,
    )


def _runs(chunks: tuple[Chunk, ...]) -> Iterator[_ChunkRun]:
    edges: list[int] = []
    first: Chunk | None = None
    for chunk in chunks:
        if (
            first is not None
            and (first.topic, first.partition, edges[-1]) == (chunk.topic, chunk.partition, chunk.start)
            and first.number + len(edges) - 1 == chunk.number
        ):
            edges.append(chunk.end)
            continue
        if first is not None:
            yield _ChunkRun(first.topic, first.partition, first.number, tuple(edges))
        first, edges = chunk, [chunk.start, chunk.end]
    if first is not None:
        yield _ChunkRun(first.topic, first.partition, first.number, tuple(edges))
