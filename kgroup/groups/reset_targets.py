"""The target offset of a reset: the scenarios of kafka-consumer-groups.sh, and more. Pure.

The results equal those of Kafka's own tool (GroupOffsetsResetter in its source): an offset out of range is clamped to
the log, a moment after the last record means the log end, ``--to-current`` without a commit means the log end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from kgroup.model.commit import Commit
from kgroup.model.groups import Position, Positions, RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import parse_duration
from kgroup.support.errors import ExitCode, UsageError, refusal_code
from kgroup.support.instants import rfc3339

NO_COMMIT = refusal_code(
    "no-commit",
    "reset, catchup start",
    "A partition has no committed offset to start from (--shift-by, catchup start).",
    "Use another target of reset, or --missing of catchup start. --partial skips the partition.",
)

_LARGEST_OFFSET = 2**63 - 1
_LARGEST_PARTITION = 2**31 - 1
_EPOCH_MS, _EPOCH_S = r"(?a)\d{12,13}", r"(?a)\d{9,10}"
_AGO = r"(?a)\s*(?:[Pp]|\d+(?:\.\d+)?(?:ms|[smhd])|\d{1,7}\s*$)"
"""The beginning of a duration; a time begins with digits and a colon or a dash, or has more digits."""
_ISO_DURATION = (
    r"(?ai)(?P<sign>[-+]?)P(?:(?P<d>[-+]?\d+)D)?"
    r"(?:T(?=[-+\d])(?:(?P<h>[-+]?\d+)H)?(?:(?P<m>[-+]?\d+)M)?(?:(?P<s>[-+]?\d+(?:\.\d+)?)S)?)?"
)


class ResetTarget(msgspec.Struct, frozen=True, gc=False):
    """The commit to be made, None to delete it. ``clamped`` and ``note`` explain the offset in words."""

    commit: Commit | None
    clamped: str | None = None
    note: str | None = None


class ResetScenario(Protocol):
    """Computes the target offset of a partition.

    The target has a leader epoch if its offset came from the log. If the offset does not change, the commit is kept
    byte for byte. If it changes, the old metadata is dropped, because it belonged to another record.
    """

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget | RowError:
        """The target of partition ``tp`` with commit ``old``, or the reason why there is none."""


class ToEarliest(msgspec.Struct, frozen=True):
    """The log start offset."""

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget:
        return ResetTarget(_at(log.start, old))


class ToLatest(msgspec.Struct, frozen=True):
    """The log end offset."""

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget:
        return ResetTarget(_at(log.end, old))


class ToCurrent(msgspec.Struct, frozen=True):
    """The committed offset, unchanged; the log end if there is no commit."""

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget:
        return ResetTarget(old) if old else ResetTarget(_at(log.end, None), note="no commit: the log end")


class ToTime(msgspec.Struct, frozen=True):
    """The first record of this moment (milliseconds since 1970) or later; the log end if there is none."""

    timestamp_ms: int

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget:
        if log.at_time is None:
            return ResetTarget(_at(log.end, old), note="no record since then: the log end")
        return ResetTarget(_at(log.at_time, old))


class ToOffset(msgspec.Struct, frozen=True):
    """One offset for all partitions."""

    offset: int

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget:
        return _clamped(self.offset, old, log)


class ShiftBy(msgspec.Struct, frozen=True):
    """``records`` offsets forward, or backward if negative."""

    records: int

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget | RowError:
        """See ResetScenario; the error ``no-commit`` without a commit."""
        if old is None:
            return RowError(
                NO_COMMIT,
                "there is no committed offset to shift",
                topic=tp.topic,
                partition=tp.partition,
                hint="--to-offset, --to-earliest or --to-latest need none",
                exit_code=ExitCode.REFUSED,
            )
        return _clamped(old.offset + self.records, old, log)


class RequestedOffset(msgspec.Struct, frozen=True):
    """The requested offset of one partition, from a file, an option or another group.

    ``offset`` None: the commit shall be deleted. ``metadata`` None: no metadata is requested.
    """

    offset: int | None
    leader_epoch: int | None = None
    metadata: str | None = None


class ToRequested(msgspec.Struct, frozen=True):
    """A separate offset for each partition, by (topic, partition)."""

    offsets: Mapping[TopicPartition, RequestedOffset]

    def target(self, tp: TopicPartition, old: Commit | None, log: Positions) -> ResetTarget:
        requested = self.offsets[tp]
        if requested.offset is None:
            return ResetTarget(None, note="the commit is deleted" if old else None)
        return _clamped(requested.offset, old, log, requested.leader_epoch, requested.metadata)


def _clamped(
    offset: int, old: Commit | None, log: Positions, leader_epoch: int | None = None, metadata: str | None = None
) -> ResetTarget:
    if offset > log.end.offset:
        return ResetTarget(_at(log.end, old, metadata), f"{offset} is above the log end {log.end.offset}")
    if offset < log.start.offset:
        return ResetTarget(_at(log.start, old, metadata), f"{offset} is below the log start {log.start.offset}")
    return ResetTarget(_commit(offset, leader_epoch, old, metadata))


def _at(position: Position, old: Commit | None, metadata: str | None = None) -> Commit:
    return _commit(position.offset, position.leader_epoch, old, metadata)


def _commit(offset: int, leader_epoch: int | None, old: Commit | None, metadata: str | None) -> Commit:
    if old is not None and old.offset == offset and metadata is None:
        return old
    return Commit(offset, leader_epoch, metadata or "")


class TopicChoice(msgspec.Struct, frozen=True):
    """A topic and its selected partitions; None for all of them."""

    topic: str
    partitions: tuple[int, ...] | None


def parse_topics(texts: Sequence[str]) -> tuple[TopicChoice, ...]:
    """Parse ``--topic`` values as kafka-consumer-groups.sh does: ``["orders:0,1", "audit"]``. Raises UsageError."""
    choices: dict[str, set[int] | None] = {}
    for word in texts:
        topic, colon, rest = word.partition(":")
        if not word:
            raise UsageError("--topic is empty", hint="A variable of the script may be unset.")
        if not topic:
            raise UsageError(f"--topic {word!r}: no topic before the colon", hint="--topic orders:0,1")
        if not colon:
            choices[topic] = None
            continue
        numbers = {_partition(part, f"--topic {word}") for part in rest.split(",")}
        known = choices.get(topic, set())
        choices[topic] = None if known is None else known | numbers
    return tuple(
        TopicChoice(topic, None if numbers is None else tuple(sorted(numbers))) for topic, numbers in choices.items()
    )


def parse_offset(texts: Sequence[str]) -> ToOffset | ToRequested:
    """Parse ``--to-offset`` values: ``["17"]``, or ``["orders:0=17,orders:1=20"]`` per partition. Raises UsageError."""
    if len(texts) == 1 and "=" not in texts[0]:
        return ToOffset(_offset(texts[0], f"--to-offset {texts[0]}"))
    offsets: dict[TopicPartition, RequestedOffset] = {}
    for word in texts:
        for item in word.split(","):
            parsed = re.fullmatch(r"\s*([^:=,]+):(\d+)=(-?\d+)\s*", item)
            if not parsed:
                raise UsageError(f"--to-offset {item!r}: not TOPIC:PARTITION=OFFSET", hint="--to-offset orders:0=17")
            tp = TopicPartition(parsed[1], _partition(parsed[2], f"--to-offset {item}"))
            if tp in offsets:
                raise UsageError(f"--to-offset names {tp} twice")
            offsets[tp] = RequestedOffset(_offset(parsed[3], f"--to-offset {item}"))
    return ToRequested(offsets)


ANY_TIME = datetime.max.replace(tzinfo=UTC)
"""A ``now`` before which every time is: to check what was typed before the brokers' clock is known."""


def parse_moment(text: str, now: datetime, option: str = "--to-datetime") -> int:
    """Parse an ISO 8601 moment into milliseconds since 1970. Without a zone it is UTC, as in kafka-consumer-groups.sh.

    Milliseconds since 1970 are accepted too (``1697726906352``); seconds are an error that shows the milliseconds.
    A time without a date (``03:05Z``) is one of today. Raises UsageError, also for a time of today in the future:
    yesterday's has to be given with its date.
    """
    stripped = text.strip()
    if re.fullmatch(_EPOCH_MS, stripped):
        return int(stripped)
    if re.fullmatch(_EPOCH_S, stripped):
        raise UsageError(
            f"{option} {text}: seconds since 1970 are not supported",
            hint=f"in milliseconds: {option} {stripped}000",
        )
    try:
        if re.fullmatch(r"(?a)\d\d:\d\d(:\d\d)?Z?", stripped):
            moment = datetime.fromisoformat(f"{now:%Y-%m-%d}T{stripped.removesuffix('Z')}+00:00")
            if moment > now:
                yesterday = moment.fromtimestamp(moment.timestamp() - 86_400, UTC)
                raise UsageError(
                    f"{option} {text}: this time of today is in the future; it is {rfc3339(now, 'seconds')}",
                    hint=f"yesterday's: {option} {rfc3339(yesterday, 'seconds')}",
                )
        else:
            moment = datetime.fromisoformat(stripped)
    except ValueError as error:
        raise UsageError(
            f"{option} {text}: not a date and time",
            hint="like 2026-11-21T03:05:00.000Z (UTC if it has no zone), or epoch milliseconds",
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment < datetime.fromtimestamp(0, UTC):
        raise UsageError(f"{option} {text}: times before 1970 do not exist in Kafka", hint="--to-earliest")
    return round(moment.timestamp() * 1000)


def resolved_text(text: str, at_ms: int, option: str) -> str:
    """The instant that an option means, with its date: ``--since 03:05Z is 2026-11-21T03:05:00Z``."""
    return f"{option} {text.strip()} is {rfc3339(at_ms, 'seconds')}"


def is_ago(text: str) -> bool:
    """Whether a text is meant as a duration before now, and not as a date and time."""
    return re.match(_AGO, text) is not None


def parse_moment_or_ago(text: str, now: datetime, option: str) -> int:
    """A date and time, or a duration before ``now`` (``5m``, ``PT5M``), in ms since 1970. Raises UsageError."""
    if is_ago(text):
        return round((now.timestamp() - parse_ago(text, option)) * 1000)
    try:
        return parse_moment(text, now, option)
    except UsageError as error:
        raise error.with_context(hint=f"{error.hint}; or a duration before now, like 30m") from error


def parse_ago(text: str, option: str = "--by-duration") -> float:
    """Parse an ISO 8601 duration (PnDTnHnMnS) or ``2h30m`` into seconds. Raises UsageError."""
    stripped = text.strip()
    parsed = re.fullmatch(_ISO_DURATION, stripped)
    if parsed and any(parsed[unit] for unit in "dhms"):
        seconds = sum(float(parsed[unit] or 0) * size for unit, size in zip("dhms", (86_400, 3600, 60, 1), strict=True))
        return -seconds if parsed["sign"] == "-" else seconds
    if stripped[:1] in "Pp":
        raise UsageError(f"{option} {text}: not a duration", hint="ISO 8601 like PT2H30M or P1DT12H, or 2h30m")
    return parse_duration(stripped, option)


def _offset(text: str, option: str) -> int:
    number = text.strip()
    if re.fullmatch(r"(?a)-\d+", number):
        raise UsageError(
            f"{option}: an offset is 0 or more",
            hint=f"From the committed offset back: --shift-by {number}. For the log start: --to-earliest.",
        )
    if not re.fullmatch(r"(?a)\d+", number) or int(number) > _LARGEST_OFFSET:
        raise UsageError(f"{option}: not an offset")
    return int(number)


def _partition(text: str, option: str) -> int:
    if not re.fullmatch(r"(?a)\s*\d+\s*", text) or int(text) > _LARGEST_PARTITION:
        raise UsageError(f"{option}: {text!r} is not a partition number", hint="--topic orders:0,1")
    return int(text)
