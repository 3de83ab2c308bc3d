"""Files of committed offsets: the CSV of kafka-consumer-groups.sh, and kgroup's CSV, JSON and YAML. Pure.

Kafka's tool has two forms of CSV, both without a header (its ``CsvUtils``): ``topic,partition,offset`` for one
``--group``, ``group,topic,partition,offset`` for several or ``--all-groups``. It quotes values longer than 24
characters, writes in no order, and ends with an empty line. kafka-share-groups.sh, since KAFKA-20524, has only the
first form. kgroup reads both forms with a header too, in case a later release adds one.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from kgroup.model.commit import Commit
from kgroup.model.groups import GroupSource
from kgroup.model.topic_partition import PartitionName, TopicPartition, partition_names
from kgroup.support.errors import UsageError
from kgroup.support.json_types import Count, Instant, Offset
from kgroup.support.typed_document import mismatch

KIND = "kgroup.export/v1"
CSV_HEADER: tuple[str, ...] = ("group", "topic", "partition", "offset", "leader_epoch", "metadata")
_MOST_INT32 = 2**31 - 1
_MOST_INT64 = 2**63 - 1
_FAULTS_SHOWN = 5
_OFFSET_COLUMNS = ("offset", "committed")
_CSV_HINT = "each line is topic,partition,offset or group,topic,partition,offset"
_UNCLOSED = "a quote that begins on this line is never closed"
_CSV_FAULTS = {
    "unexpected end of data": _UNCLOSED,
    "field larger": _UNCLOSED,
    "new-line character": "a carriage return that ends no line",
    "',' expected": "text after a closing quote",
}
"""Sentences for the errors of Python's csv module, by how they begin."""

_Int32 = Annotated[int, Meta(ge=0, le=_MOST_INT32)]
_Int64 = Annotated[int, Meta(ge=0, le=_MOST_INT64)]


class FileRow(msgspec.Struct, frozen=True):
    """A committed offset in a file.

    ``group`` is None in the form without groups. ``offset`` is None if the file states that there was no commit
    (backups, and rows of ``kgroup describe -o csv``). ``leader_epoch`` and ``metadata`` are None if the file does not
    have them. ``line`` counts from 1; it is 0 in JSON and YAML, whose rows have no line of their own.
    """

    topic: Annotated[str, Meta(min_length=1)]
    partition: _Int32
    # The offset must be present, even if null: a file of another kind must not be read as "there was no commit".
    offset: _Int64 | None
    leader_epoch: _Int32 | None = None
    metadata: str | None = None
    group: str | None = None
    line: int = 0

    @property
    def key(self) -> tuple[str | None, str, int]:
        """(group, topic, partition), which must be unique in a file."""
        return self.group, self.topic, self.partition


class ExportedOffset(msgspec.Struct, frozen=True):
    topic: Annotated[str, "The topic."]
    partition: Annotated[Count, "The partition."]
    offset: Annotated[Offset | None, "The committed offset; null if there is none, so that reset deletes it."]
    leader_epoch: Annotated[int | None, "The leader epoch of the commit."]
    metadata: Annotated[str | None, "The metadata of the commit."]

    @classmethod
    def of(cls, tp: tuple[str, int], commit: Commit | None) -> ExportedOffset:
        if commit is None:
            return cls(*tp, None, None, None)
        return cls(*tp, commit.offset, commit.leader_epoch, commit.metadata)


class ExportedGroup(msgspec.Struct, frozen=True):
    """The commits of a group as export and backups write them, and ``parse_offsets`` reads them."""

    group: Annotated[str, "The group."]
    type: Annotated[
        str | None, "classic, consumer, share or streams, as the broker reports it; null if the log does not show it."
    ]
    state: Annotated[str | None, "The state, as the broker reports it; null if the log does not show it."]
    source: Annotated[GroupSource, "Where the group was read."]
    offsets_at: Annotated[
        Instant | None,
        "The time of --as-of, or of the newest record that was read; null if the coordinator answered.",
    ]
    offsets: Annotated[tuple[ExportedOffset, ...], "The committed offsets."]
    hidden_commits: Annotated[
        tuple[PartitionName, ...] | None, "Partitions whose commits this user may not read; null if unknown."
    ]

    @classmethod
    def of(
        cls,
        group: str,
        type_: str | None,
        state: str | None,
        commits: Iterable[tuple[str, int, Commit | None]],
        *,
        as_of: str | None = None,
        hidden: Iterable[TopicPartition] | None = (),
    ) -> ExportedGroup:
        """``as_of`` is the moment of the commits (RFC 3339) if they were read from ``__consumer_offsets``.

        A commit None states that there was none. ``hidden`` are commits that the broker omits, see ``Group``.
        """
        offsets = tuple(ExportedOffset.of((topic, partition), commit) for topic, partition, commit in commits)
        source = GroupSource.COORDINATOR if as_of is None else GroupSource.LOG
        return cls(group, type_, state, source, as_of, offsets, partition_names(hidden))


def parse_offsets(text: str, source: str) -> tuple[FileRow, ...]:
    """The rows of a file; its format is detected from its content. ``source`` is the file's name for messages.

    Raises UsageError with source and line (JSON and YAML: the path) of the first bad rows, and for a file without any
    offsets.
    """
    text = text.removeprefix("\ufeff")
    faults = _Faults(source)
    if (at := text.find("\0")) >= 0:
        faults.add(text.count("\n", 0, at) + 1, "a NUL byte: the file is not UTF-8 text")
        raise faults.error(None)
    _, first = next(_read_csv(text), (0, ""))
    is_csv = not isinstance(first, str) and (_has_numbers(first) or _header(first) is not None)
    rows: Iterator[tuple[int | str, FileRow]]
    if not is_csv and text.lstrip()[:1] in ("{", "["):
        rows, hint = _document_rows(_load_json(text, source), source), None
    elif not is_csv and re.search(r"^kind:", text, re.M):
        rows, hint = _document_rows(_load_yaml(text, source), source), None
    else:
        rows, hint = _csv_rows(text, faults), _CSV_HINT
    offsets = _without_duplicates(rows, faults)
    if faults.count:
        raise faults.error(hint)
    if not offsets:
        raise UsageError(f"{source}: the file has no offsets", hint=hint)
    return offsets


@dataclass(slots=True)
class _Faults:
    """The errors of a file, each with its line or path; only the first 5 are kept, all are counted."""

    source: str
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, where: int | str, message: str) -> None:
        self.count += 1
        if self.count <= _FAULTS_SHOWN:
            self.lines.append(f"{self.source}:{where}: {message}")

    def error(self, hint: str | None) -> UsageError:
        more = (f"and {self.count - _FAULTS_SHOWN} more",) if self.count > _FAULTS_SHOWN else ()
        return UsageError(self.lines[0], details=(*self.lines[1:], *more), hint=hint)


def _without_duplicates(rows: Iterable[tuple[int | str, FileRow]], faults: _Faults) -> tuple[FileRow, ...]:
    """The rows without their lines or paths; the same partition twice is a fault, even with equal offsets."""
    first_at: dict[tuple[str | None, str, int], int | str] = {}
    unique = []
    for where, row in rows:
        first = first_at.setdefault(row.key, where)
        if first is not where:
            of = "" if row.group is None else f" of group {row.group!r}"
            faults.add(where, f"{row.topic}:{row.partition}{of} is already on {'line ' if row.line else ''}{first}")
        try:
            f"{row.group}{row.topic}{row.metadata}".encode()
        except UnicodeEncodeError as error:
            faults.add(where, f"{error.object[error.start]!r} is not UTF-8")
        unique.append(row)
    return tuple(unique)


# CSV


class _Layout(msgspec.Struct, frozen=True):
    """The index of each column. ``width`` is the number of columns, ``line`` the line that determined the layout."""

    columns: Mapping[str, int]
    width: int
    line: int

    @classmethod
    def of(cls, fields: list[str], line: int) -> _Layout:
        """The layout by the first row: its header, or its number of columns. Raises ValueError."""
        names = _header(fields)
        if names is None:
            known = CSV_HEADER[:4] if len(fields) == 4 else CSV_HEADER[1:4]
            return cls({name: index for index, name in enumerate(known)}, len(known), line)
        columns = {name: index for index, name in enumerate(names)}
        offset = next((name for name in _OFFSET_COLUMNS if name in columns), None)
        if offset is None:
            raise ValueError("the header has no column offset")
        repeated = next((name for name in (*CSV_HEADER, offset) if names.count(name) > 1), None)
        if repeated:
            raise ValueError(f"the header has two columns {repeated}")
        return cls(columns | {"offset": columns[offset]}, len(names), line)

    def row(self, fields: list[str], line: int, *, quoted_empty: bool) -> FileRow:
        """The committed offset in a row; ``quoted_empty``: the row begins with ``""``. Raises ValueError."""
        own = {name: fields[index] for name, index in self.columns.items()}
        # Kafka allows a group with an empty id, but an empty field is more often a variable that is not set.
        for name in ("topic",) if quoted_empty and self.columns.get("group") == 0 else ("group", "topic"):
            if own.get(name) == "":
                raise ValueError(f"{name} is empty")
        epoch = own.get("leader_epoch")
        no_commit = "committed" in own and not own["offset"]
        if no_commit and own.get("error"):
            raise ValueError(f"the offset could not be read when the file was written: {_shown(own['error'])}")
        return FileRow(
            topic=own["topic"],
            partition=_number(own["partition"], "partition", _MOST_INT32),
            offset=None if no_commit else _number(own["offset"], "offset", _MOST_INT64),
            leader_epoch=_number(epoch, "leader_epoch", _MOST_INT32) if epoch else None,
            metadata=None if no_commit else own.get("metadata"),
            group=own.get("group"),
            line=line,
        )


def _read_csv(text: str) -> Iterator[tuple[int, list[str] | str]]:
    """Each row that is not empty: the number of its first line and its fields, or of a bad line and what is wrong."""
    reader = csv.reader(StringIO(text, newline="\n"), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            if fields := next(reader):
                yield line, fields
        except StopIteration:
            return
        except csv.Error as error:
            fault = next((ours for theirs, ours in _CSV_FAULTS.items() if str(error).startswith(theirs)), str(error))
            yield line if fault is _UNCLOSED else reader.line_num, fault


def _csv_rows(text: str, faults: _Faults) -> Iterator[tuple[int | str, FileRow]]:
    lines = text.split("\n")
    layout: _Layout | None = None
    for line, fields in _read_csv(text):
        if isinstance(fields, str):
            faults.add(line, fields)
            continue
        if layout is None:
            try:
                layout = _Layout.of(fields, line)
            except ValueError as error:
                faults.add(line, str(error))
                return
            if _header(fields):
                continue
        if len(fields) != layout.width:
            columns = f"{len(fields)} column{'s' if len(fields) > 1 else ''}"
            expected = f"{layout.width} as on line {layout.line}" if line != layout.line else "3 or 4"
            faults.add(line, f"{columns}, not {expected}")
            if line == layout.line:
                layout = None
            continue
        try:
            yield line, layout.row(fields, line, quoted_empty=lines[line - 1].startswith('""'))
        except ValueError as error:
            faults.add(line, str(error))


def _has_numbers(fields: list[str]) -> bool:
    return len(fields) in (3, 4) and all(re.fullmatch("[0-9]+", text) for text in fields[-2:])


def _header(fields: list[str]) -> list[str] | None:
    """The column names; None if it is no header. A row that ends in two numbers is none, whatever its names are."""
    if _has_numbers(fields):
        return None
    names = [text.strip().lower() for text in fields]
    return names if {"topic", "partition"} <= set(names) else None


def _number(text: str, name: str, most: int) -> int:
    """A whole number from 0 to ``most``. Raises ValueError."""
    if not re.fullmatch("[0-9]+", text):
        raise ValueError(f"{name} {_shown(text)} is not a whole number from 0 on")
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)) or int(digits) > most:
        raise ValueError(f"{name} is above {most}")
    return int(digits)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# JSON and YAML


def _load_json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}: not JSON: {error}") from error


def _load_yaml(text: str, source: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        spot = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise UsageError(f"{source}{spot}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{source}: not YAML: {str(error).partition(chr(10))[0]}") from error


class _Group(msgspec.Struct, frozen=True):
    group: str
    offsets: tuple[FileRow, ...]


class _Export(msgspec.Struct, frozen=True):
    data: tuple[_Group, ...]


def _document_rows(document: Any, source: str) -> Iterator[tuple[int | str, FileRow]]:
    """The rows of a document by ``kgroup export``, or of a plain list of offsets as kcl writes and reads it."""
    try:
        if isinstance(document, list):
            for number, row in enumerate(msgspec.convert(document, list[FileRow])):
                yield f"[{number}]", replace(row, group=None, line=0)
            return
        kind = document.get("kind") if isinstance(document, dict) else None
        if kind != KIND:
            raise UsageError(f"{source}:kind: {_shown(kind)} is not {KIND!r}, which kgroup export -o json writes")
        for number, group in enumerate(msgspec.convert(document, _Export).data):
            for place, row in enumerate(group.offsets):
                yield f"data[{number}].offsets[{place}]", replace(row, group=group.group, line=0)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source}:{mismatch(error)}") from error
