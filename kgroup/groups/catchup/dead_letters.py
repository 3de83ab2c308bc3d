"""Dead letters: where a record came from, by the headers of what gave it up, and whether a redrive delivers it. Pure.

A redrive delivers dead letters again. Known are the headers of kgroup, Spring Kafka, Kafka Connect, Watermill and the
dead-letter queues of share groups (KIP-1191), and those of ``reset --save-skipped``. A record without them has no known
source: it stays where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from kgroup.model.records import ConsumerRecord, Headers, OffsetRange
from kgroup.support.json_types import Count, ExplainedEnum, Offset

PLAN = "kgroup.plan"
SOURCE = "kgroup.source"
ERROR = "kgroup.error"
ATTEMPTS = "kgroup.attempts"
REDRIVES = "kgroup.redrives"
"""How often the record came back from a dead-letter topic. It survives where a consumer keeps the record's headers."""

DEAD_LETTER_OF = "kgroup.dead-letter-of"
"""The record that a redriven one was at first: ``orders:0:71``."""

SAVED_TOPIC, SAVED_PARTITION, SAVED_OFFSET = "kgroup.topic", "kgroup.partition", "kgroup.offset"
"""The headers of a record that ``reset --save-skipped`` saved in a topic."""

REDRIVE = "redrive"
"""The option of a Delivery that has the ``Redrive``, as JSON."""

TO_SOURCE = "source"
"""The sink that delivers each record to the topic that its headers name."""

MAX_ATTEMPTS = 3


class Origin(msgspec.Struct, frozen=True):
    """The topic that a dead letter came from, and where it was there as far as it is known."""

    topic: str
    partition: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.topic, self.partition, self.offset) if part is not None)


class DeadLetter(msgspec.Struct, frozen=True):
    """What the headers of a dead letter tell; ``error`` is a class or a text, ``message`` is its text beside a class.

    ``origin`` is None if they name no source. ``redrives`` is how often it came back before.
    """

    origin: Origin | None = None
    error: str | None = None
    message: str | None = None
    redrives: int = 0


class _Writer(msgspec.Struct, frozen=True):
    """The headers of one kind of writer of dead letters. ``topic`` is there whenever it has written them."""

    topic: str
    partition: str | None
    offset: str | None
    errors: tuple[str, ...]
    """The class of the error, or its text: the first that is there."""

    message: str | None = None


def _spring(prefix: str, of_original: str) -> _Writer:
    # The class is mostly Spring's wrapper, the cause is what the listener raised.
    errors = (f"{prefix}exception-cause-fqcn", f"{prefix}exception-fqcn")
    topic, partition, offset = (f"{of_original}{name}" for name in ("topic", "partition", "offset"))
    return _Writer(topic, partition, offset, errors, f"{prefix}exception-message")


_KGROUP = _Writer(ERROR, None, None, (ERROR,))
_SAVED = _Writer(SAVED_TOPIC, SAVED_PARTITION, SAVED_OFFSET, ())
_WRITERS = (
    _KGROUP,
    _SAVED,
    _spring("kafka_dlt-", "kafka_dlt-original-"),
    _spring("kafka_", "kafka_original-"),  # @RetryableTopic
    _Writer(
        "__connect.errors.topic",
        "__connect.errors.partition",
        "__connect.errors.offset",
        ("__connect.errors.exception.class.name", "__connect.errors.stage"),
        "__connect.errors.exception.message",
    ),
    _Writer("topic_poisoned", None, None, ("reason_poisoned",)),
    _Writer("__dlq.errors.topic", "__dlq.errors.partition", "__dlq.errors.offset", ("__dlq.errors.message",)),
)
_BY_TOPIC = {writer.topic: writer for writer in _WRITERS}

_OWN = frozenset(
    {PLAN, SOURCE, ERROR, ATTEMPTS, REDRIVES, DEAD_LETTER_OF, SAVED_TOPIC, SAVED_PARTITION, SAVED_OFFSET}
    | {f"{name}_poisoned" for name in ("reason", "topic", "handler", "subscriber")}
)
_PREFIXES = (
    "kafka_dlt-",
    "kafka_original-",
    "kafka_exception-",
    "kafka_key-exception-",
    "retry_topic-",
    "springDeserializerException",
    "__connect.errors.",
    "__dlq.errors.",
)


def dead_letter(headers: Headers) -> DeadLetter:
    """What these headers tell. Each writer appends its own, so the last header that names a source decides."""
    values: dict[str, bytes | None] = {}
    writer: _Writer | None = None
    for name, value in headers:
        values[name] = value
        writer = _BY_TOPIC.get(name, writer)
    redrives = _number(values.get(REDRIVES)) or 0
    if writer is None:
        return DeadLetter(redrives=redrives)
    error = next((text for name in writer.errors if (text := _text(values.get(name)))), None)
    message = None if writer.message is None else _text(values.get(writer.message))
    return DeadLetter(_origin(writer, values), error, message, redrives)


def saved_origin(headers: Headers) -> Origin | None:
    """Where a record was that ``reset --save-skipped`` saved; None for any other record."""
    return _origin(_SAVED, dict(headers))


def _origin(writer: _Writer, values: Mapping[str, bytes | None]) -> Origin | None:
    if writer is _KGROUP:
        where = _text(values.get(DEAD_LETTER_OF)) or _text(values.get(SOURCE)) or ""
        return origin_of(where)
    topic = _text(values.get(writer.topic))
    if not topic:
        return None
    partition, offset = (
        None if name is None else _number(values.get(name)) for name in (writer.partition, writer.offset)
    )
    return Origin(topic, partition, offset)


def origin_of(where: str) -> Origin | None:
    """``orders:0:71`` as a value; None if it names no topic."""
    topic, *place = where.split(":")
    partition, offset = (*(_number(part.encode()) for part in place), None, None)[:2]
    return Origin(topic, partition, offset) if topic else None


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _number(value: bytes | None) -> int | None:
    """A number as decimal text, or as Spring writes it: four or eight bytes, big endian. None: neither, or negative.

    Bytes that are digits are text: as a number they would be a partition above 800 million.
    """
    data = value or b""
    if data.isdigit():
        return int(data)
    number = int.from_bytes(data, "big", signed=True) if len(data) in (4, 8) else -1
    return number if number >= 0 else None


def redriven_headers(headers: Headers, letter: DeadLetter, *, as_it_was: bool) -> list[tuple[str, bytes | None]]:
    """The headers of a record that is redriven: one more redrive, and what it was at first.

    With ``as_it_was`` those that made it a dead letter are left out: Connect, for one, replaces no header, so after
    another failure it would name the source and the error of the first one.
    """
    kept = [one for one in headers if not (_is_added(one[0]) if as_it_was else one[0] in (REDRIVES, DEAD_LETTER_OF))]
    kept.append((REDRIVES, str(letter.redrives + 1).encode()))
    if letter.origin is not None:
        kept.append((DEAD_LETTER_OF, str(letter.origin).encode()))
    return kept


def _is_added(name: str) -> bool:
    return name in _OWN or name.startswith(_PREFIXES)


class Fate(ExplainedEnum):
    """What a redrive does with a dead letter."""

    DELIVER = "deliver", "it is delivered"
    FILTERED = "filtered", "the command does not choose it"
    EARLIER = "earlier", "another plan delivers it, or has delivered it"
    GAVE_UP = "gave-up", "it came back --max-attempts times"
    NO_CONTENTS = "no-contents", "it has neither key nor value: its source has them, if retention did not delete them"
    NO_SOURCE = "no-source", "its headers name no source, or the dead-letter topic itself"

    @property
    def stays(self) -> bool:
        """Whether it is chosen, and no redrive delivers it as it is."""
        return self in (Fate.GAVE_UP, Fate.NO_CONTENTS, Fate.NO_SOURCE)


class Letters(msgspec.Struct, frozen=True):
    """Which dead letters a plan delivers: all that match each of its lists that is not empty.

    ``topics`` are sources, with their partitions or None for all. ``errors`` are parts of the error or its message.
    ``keys`` are whole keys. ``since_ms`` and ``until_ms`` bound the time of the dead letter: since <= time < until.
    """

    topics: tuple[tuple[str, tuple[int, ...] | None], ...] = ()
    errors: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    max_attempts: int = MAX_ATTEMPTS

    def chooses(self, record: ConsumerRecord, letter: DeadLetter) -> bool:
        """Whether the lists and times choose a record. One without a timestamp is of no time."""
        key, timestamp_ms = record.key, record.timestamp_ms
        return (
            (not self.topics or (letter.origin is not None and self._has_topic(letter.origin)))
            and (not self.errors or any(self._has_error(letter, text) for text in self.errors))
            and (not self.keys or (key is not None and key.decode(errors="replace") in self.keys))
            and (self.since_ms is None or (timestamp_ms is not None and timestamp_ms >= self.since_ms))
            and (self.until_ms is None or (timestamp_ms is not None and timestamp_ms < self.until_ms))
        )

    def _has_topic(self, origin: Origin) -> bool:
        return any(
            topic == origin.topic and (partitions is None or origin.partition in partitions)
            for topic, partitions in self.topics
        )

    def _has_error(self, letter: DeadLetter, text: str) -> bool:
        return any(text in said for said in (letter.error, letter.message) if said is not None)


class EarlierPlan(msgspec.Struct, frozen=True):
    """What earlier plans of the same dead-letter topic deliver: these ``letters`` in these (partition, start, end)."""

    letters: Letters
    to_source: bool
    ranges: tuple[tuple[int, int, int], ...]

    def covers(self, record: ConsumerRecord) -> bool:
        """Whether a record is in its ranges."""
        return any(own == record.partition and start <= record.offset < end for own, start, end in self.ranges)


class Redrive(msgspec.Struct, frozen=True):
    """The dead letters of ``topic`` that a plan delivers; ``sources`` are the topics they name, as far as known.

    ``earlier`` is of the plans in the ledger up to that at offset ``ledger_offset``; -1 if there was none.
    """

    topic: str
    letters: Letters = Letters()
    earlier: tuple[EarlierPlan, ...] = ()
    sources: tuple[str, ...] = ()
    ledger_offset: int = -1

    def encode(self) -> str:
        """The text for a Delivery."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, options: Mapping[str, str]) -> Redrive | None:
        """From the options of a Delivery; None if it redrives nothing. Raises ValueError for what it cannot read."""
        text = options.get(REDRIVE)
        return None if text is None else msgspec.json.decode(text, type=cls)

    def fate(self, record: ConsumerRecord, letter: DeadLetter, *, to_source: bool) -> Fate:
        """What becomes of a record of the topic, whose headers tell ``letter``."""
        if not self.letters.chooses(record, letter):
            return Fate.FILTERED
        for plan in self.earlier:
            if (
                plan.covers(record)
                and plan.letters.chooses(record, letter)
                and self._unless_it_stays(plan.letters, record, letter, to_source=plan.to_source) is Fate.DELIVER
            ):
                return Fate.EARLIER
        return self._unless_it_stays(self.letters, record, letter, to_source=to_source)

    def _unless_it_stays(
        self, letters: Letters, record: ConsumerRecord, letter: DeadLetter, *, to_source: bool
    ) -> Fate:
        if letter.redrives >= letters.max_attempts:
            return Fate.GAVE_UP
        if record.key is None and record.value is None:
            return Fate.NO_CONTENTS
        if to_source and (letter.origin is None or letter.origin.topic == self.topic):
            return Fate.NO_SOURCE
        return Fate.DELIVER


_LISTED = 10
_LONGEST = 120


class DeadLetterPlace(msgspec.Struct, frozen=True):
    """Where a record is in the dead-letter topic, and why it stays there."""

    partition: Annotated[Count, "The partition of the dead-letter topic."]
    offset: Annotated[Offset, "Its offset there."]
    fate: Annotated[Fate, "Why it stays."]

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"


class DeadLetterRow(msgspec.Struct, frozen=True):
    """The dead letters of one source and error that have the same fate."""

    source_topic: Annotated[str | None, "The topic that they came from; null if their headers do not name it."]
    error: Annotated[str | None, "The class or the text of the error; null if their headers have none."]
    fate: Annotated[Fate, "What the plan does with them."]
    record_count: Annotated[Count, "How many they are."]


class DeadLetters(msgspec.Struct, frozen=True):
    """What was read of a dead-letter topic for a plan; the most frequent rows come first."""

    topic: Annotated[str, "The dead-letter topic."]
    complete: Annotated[bool, "Whether all of it was read."]
    rows: Annotated[tuple[DeadLetterRow, ...], "The records by source, error and fate."]
    staying: Annotated[tuple[DeadLetterPlace, ...], "The first records that no redrive delivers as they are."]

    def count(self, fate: Fate) -> int:
        """How many records have this fate."""
        return sum(row.record_count for row in self.rows if row.fate is fate)

    @property
    def records(self) -> int:
        """How many were read."""
        return sum(row.record_count for row in self.rows)

    @property
    def sources(self) -> tuple[str, ...]:
        """The topics that the records to be delivered came from."""
        delivered = (row.source_topic for row in self.rows if row.fate is Fate.DELIVER)
        return tuple(sorted({topic for topic in delivered if topic is not None}))


class DeadLetterCounter:
    """Counts the dead letters of a topic for a plan, in the order of partitions and offsets."""

    def __init__(self, redrive: Redrive, *, to_source: bool) -> None:
        self.stopped_at: tuple[int, int] | None = None
        """The partition and the offset from which on nothing was read; None: all was."""
        self._redrive = redrive
        self._to_source = to_source
        self._counts: Counter[tuple[str | None, str | None, Fate]] = Counter()
        self._staying: dict[Fate, list[DeadLetterPlace]] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        """By partition: from the first record that is delivered up to the last one."""

    def add(self, record: ConsumerRecord) -> None:
        """Count one; the places of the first that stay are kept."""
        letter = dead_letter(record.headers)
        fate = self._redrive.fate(record, letter, to_source=self._to_source)
        error = letter.error.partition("\n")[0][:_LONGEST] if letter.error else None
        self._counts[None if letter.origin is None else letter.origin.topic, error, fate] += 1
        if fate is Fate.DELIVER:
            first, _ = self._spans.get(record.partition, (record.offset, 0))
            self._spans[record.partition] = first, record.offset + 1
        elif fate.stays:
            places = self._staying.setdefault(fate, [])
            if len(places) < _LISTED:
                places.append(DeadLetterPlace(record.partition, record.offset, fate))

    def summary(self) -> DeadLetters:
        """What was counted."""
        rows = (DeadLetterRow(*key, count) for key, count in self._counts.items())
        ranked = sorted(rows, key=lambda row: (-row.record_count, row.source_topic or "", row.error or "", row.fate))
        staying = tuple(place for fate in Fate for place in self._staying.get(fate, ()))
        return DeadLetters(self._redrive.topic, self.stopped_at is None, tuple(ranked), staying)

    def ranges(self, whole: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
        """The parts of these ranges that a plan needs: what was not read, and else from first to last delivery."""
        return tuple(row for one in whole for row in [self._needed(one)] if row.offsets)

    def _needed(self, one: OffsetRange) -> OffsetRange:
        first, end = self._spans.get(one.partition, (one.end, one.end))
        if self.stopped_at is not None and one.partition >= self.stopped_at[0]:
            is_there = one.partition == self.stopped_at[0]
            first, end = min(first, self.stopped_at[1]) if is_there else one.start, one.end
        return OffsetRange(*one.tp, max(one.start, first), min(one.end, end))
