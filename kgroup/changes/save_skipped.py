"""The records that a forward move skips: shown in the plan if they are few, and saved with ``--save-skipped``.

A file or stdout gets the lines of ``model/json_lines``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from kgroup.groups.catchup.dead_letters import SAVED_OFFSET, SAVED_PARTITION, SAVED_TOPIC
from kgroup.model.json_lines import json_line
from kgroup.model.records import ConsumerRecord, Headers, OffsetRange, merged
from kgroup.settings.clients import librdkafka_config
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.clock import utc_ms
from kgroup.support.durations import format_duration
from kgroup.support.errors import RETENTION, KgroupError, Refused, UsageError
from kgroup.support.quoting import json_safe
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.model.reporter import Reporter
    from kgroup.model.topic_settings import TopicSettings
    from kgroup.settings.model import Settings

OPTION = "--save-skipped"
STDOUT = "-"
PREVIEW_LIMIT = 5
_TOPIC = "topic:"
_PREVIEW_S = 0.9  # once for the partitions, once for the records
_PROGRESS_EVERY = 1000


class RecordTarget(Protocol):
    """A destination for records."""

    def add(self, record: ConsumerRecord) -> None:
        """Save one record."""


def save_skipped(
    settings: Settings,
    ranges: Sequence[OffsetRange],
    target: str,
    reporter: Reporter,
    clock_ms: Callable[[], int] = utc_ms,
) -> int:
    """Save every visible record of the ranges in ``target``: a file, ``-`` (stdout) or ``topic:NAME``.

    It returns their number, and only when all records are safe: the file is synced and renamed, or all in-sync replicas
    have acknowledged each record. Before it reads a record it checks the target. It raises UsageError for a file that
    is not empty or a topic that the records come from, and NotFound for a missing topic. Refused (``retention``) is
    raised for a record that the topic would delete at once. Raises also what ``read_ranges`` and ``TopicWriter`` raise.
    Then no file is left, but a topic may have some of the records (the error states how many). ``clock_ms`` is the
    brokers' clock.
    """
    wanted = merged(ranges)
    with open_target(settings, wanted, target, reporter, clock_ms) as place:
        return _copy(settings, wanted, place, reporter)


def check_target(target: str) -> None:
    """Raise UsageError for a target that cannot be used, before reading, waiting or writing."""
    if target == STDOUT:
        return
    if not target.startswith(_TOPIC):
        AtomicFile(target, OPTION).check()
    elif target == _TOPIC:
        raise UsageError(f"{OPTION} {target} names no topic", hint=f"Write {OPTION} topic:NAME.")


def check_target_topic(settings: Settings, target: str) -> None:
    """Raise what ``check_topic`` raises about a target that is a topic."""
    if target.startswith(_TOPIC):
        from kgroup.cluster.reader.ranges import check_topic

        check_topic(librdkafka_config(settings), target.removeprefix(_TOPIC), timeout_s=settings.timeout_s)


def check_apart(ranges: Sequence[OffsetRange], target: str) -> None:
    """Raise UsageError if the records would be saved in the topic that they are skipped in."""
    if any(target == _TOPIC + item.topic for item in ranges):
        raise UsageError(
            f"{OPTION} {target}: the records are skipped in this topic, and the group would read the copies at its end"
        )


def preview(
    settings: Settings, ranges: Sequence[OffsetRange], limit: int = PREVIEW_LIMIT
) -> tuple[ConsumerRecord, ...] | None:
    """The records for the plan; None for more than ``limit`` offsets, or if they cannot be read within two seconds."""
    wanted = merged(ranges)
    if sum(item.offsets for item in wanted) > limit:
        return None
    # Imported here and below: confluent-kafka, which a plan without skipped records does not need.
    from kgroup.cluster.reader.ranges import read_ranges

    try:
        patience_s = min(settings.timeout_s, _PREVIEW_S)
        records = tuple(read_ranges(librdkafka_config(settings), wanted, timeout_s=patience_s))
    except KgroupError:
        return None
    return tuple(sorted(records, key=lambda record: (record.topic, record.partition, record.offset)))


@contextmanager
def open_target(
    settings: Settings,
    ranges: Sequence[OffsetRange],
    target: str,
    reporter: Reporter,
    clock_ms: Callable[[], int],
) -> Iterator[RecordTarget]:
    """A place for records of these ranges, which is whole when the block ends. Raises as ``save_skipped``."""
    check_target(target)
    check_target_topic(settings, target)
    check_apart(ranges, target)
    if target == STDOUT:
        stdout = AtomicFile("/dev/stdout", OPTION)
        with stdout as file:  # flushed in the end: a reader that is gone is an error before the offsets move
            yield _File(lambda line: file.write(json_safe(line.decode()).encode()), stdout.failure)
        return
    if not target.startswith(_TOPIC):
        whole = AtomicFile(target, OPTION)
        with whole as file:
            yield _File(file.write, whole.failure)
        return
    topic = target.removeprefix(_TOPIC)
    from kgroup.cluster.producer import TopicWriter, read_settings

    config = librdkafka_config(settings)
    keeping = read_settings(config, topic, timeout_s=settings.timeout_s)
    if keeping is None:
        reporter.note(f"how long {topic} keeps records is unknown: DESCRIBE_CONFIGS on the topic is needed")
    elif keeping.compacted:
        reporter.warn(f"{topic} is compacted: it keeps only the last of several records with the same key")
    with TopicWriter(config, topic, timeout_s=settings.timeout_s) as writer:
        try:
            yield _Topic(writer.add, topic, keeping, clock_ms)
            writer.finish()
        except KgroupError as error:
            if not writer.acknowledged:
                raise
            written = f"At least {plural(writer.acknowledged, 'record')} had been written to {topic} before that."
            raise error.with_context(details=(written,)) from error


def _copy(settings: Settings, ranges: Sequence[OffsetRange], place: RecordTarget, reporter: Reporter) -> int:
    from kgroup.cluster.reader.ranges import read_ranges

    total = sum(item.offsets for item in ranges)
    kept = 0
    with (
        reporter.progress("saving skipped records", total, "records") as progress,
        closing(read_ranges(librdkafka_config(settings), ranges, timeout_s=settings.timeout_s)) as records,
    ):
        for record in records:
            place.add(record)
            kept += 1
            if kept % _PROGRESS_EVERY == 0:
                progress.update(kept)
        progress.update(total)
    return kept


class _File:
    def __init__(self, write: Any, failure: Any) -> None:
        self._write, self._failure = write, failure

    def add(self, record: ConsumerRecord) -> None:
        try:
            self._write(json_line(record))
        except OSError as error:
            raise self._failure(error) from error


class _Topic:
    def __init__(self, write: Any, topic: str, keeping: TopicSettings | None, clock_ms: Callable[[], int]) -> None:
        self._write, self._topic, self._clock_ms = write, topic, clock_ms
        # With LogAppendTime the record is new when it arrives.
        self._retention_ms = keeping.retention_ms if keeping and not keeping.is_log_append_time else None

    def add(self, record: ConsumerRecord) -> None:
        if self._retention_ms is not None and record.timestamp_ms is not None:
            age_ms = self._clock_ms() - record.timestamp_ms
            if age_ms > self._retention_ms:
                where = f"{record.tp} offset {record.offset}"
                raise Refused(
                    f"{self._topic} keeps records for {format_duration(self._retention_ms / 1000)}, and {where} is "
                    f"{format_duration(age_ms / 1000)} old: the broker would delete it at once",
                    hint="Raise retention.ms of that topic, or keep the records in a file.",
                    code=RETENTION,
                )
        self._write(record.key, record.value, record.timestamp_ms, (*record.headers, *_provenance(record)))


def _provenance(record: ConsumerRecord) -> Headers:
    return (
        (SAVED_TOPIC, record.topic.encode()),
        (SAVED_PARTITION, str(record.partition).encode()),
        (SAVED_OFFSET, str(record.offset).encode()),
    )
