"""``--load FILE``: the records that ``reset --save-skipped`` saved in a file, written to a topic from which they go on.

A record has the headers of its source there, as with ``--save-skipped topic:NAME``. One that the topic has already is
not written again, so that the command may be repeated after a crash.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.changes.save_skipped import open_target
from kgroup.cluster.reader.ranges import read_ranges
from kgroup.groups.catchup.dead_letters import Origin, saved_origin
from kgroup.model.json_lines import parse_json_line
from kgroup.model.records import ConsumerRecord, OffsetRange
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.model import Settings
from kgroup.support.errors import UsageError
from kgroup.support.units import plural


def load_saved(
    engine: CatchupEngine, settings: Settings, path: str, topic: str, there: list[OffsetRange], *, execute: bool
) -> None:
    """Write what the topic does not have yet; ``there`` is all of it. Without ``execute`` only report it.

    The whole file is read before anything is written. Raises UsageError for a line that is no record, and what
    ``open_target`` and ``read_ranges`` raise.
    """
    origins = {_origin(record) for record in read_saved(path)}
    with closing(read_ranges(librdkafka_config(settings), there, timeout_s=settings.timeout_s)) as records:
        known = {saved_origin(record.headers) for record in records}
    left = origins - known
    what = f"{len(left)} of {plural(len(origins), 'record')} of {path}"
    if not execute:
        engine.reporter.note(f"--load: {what} would be written to {topic}; they are not in this plan yet")
        return
    with open_target(settings, (), f"topic:{topic}", engine.reporter, engine.cluster.now_ms) as target:
        for record in read_saved(path):
            if _origin(record) in left:
                left.discard(_origin(record))
                target.add(record)
    engine.reporter.event("LOADED", f"{what} to {topic}")


def read_saved(path: str) -> Iterator[ConsumerRecord]:
    """The records of a file, a line each. Raises UsageError for a file or a line that cannot be read."""
    try:
        with Path(path).open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    yield parse_json_line(line)
                except ValueError as error:
                    raise UsageError(
                        f"--load {path}: line {number} is no record: {error}",
                        hint="a line is as kgroup reset --save-skipped FILE writes it",
                    ) from error
    except OSError as error:
        raise UsageError(f"--load {path}: {error.strerror}") from error


def _origin(record: ConsumerRecord) -> Origin:
    return Origin(record.topic, record.partition, record.offset)
