"""Files of committed offsets: the CSV of kafka-consumer-groups.sh, and kgroup's CSV, JSON and YAML. Pure.

Kafka's tool has two forms of CSV, both without a header (its ``CsvUtils``): ``topic,partition,offset`` for one
``--group``, ``group,topic,partition,offset`` for several or ``--all-groups``. It quotes values longer than 24
characters, writes in no order, and ends with an empty line. kafka-share-groups.sh, since KAFKA-20524, has only the
first form. kgroup reads both forms with a header too, in case a later release adds one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kgroup.groups.csv_text import CsvFault, CsvRow, line_and_column, read_rows
from kgroup.model.commit import Commit
from kgroup.model.groups import partitions_document
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError

KIND = "kgroup.export/v1"
CSV_HEADER: tuple[str, ...] = ("group", "topic", "partition", "offset", "leader_epoch", "metadata")
_MOST_INT32 = 2**31 - 1
_MOST_INT64 = 2**63 - 1
_FAULTS_SHOWN = 5
_OFFSET_COLUMNS = ("offset", "committed")
_CSV_HINT = "each line is topic,partition,offset or group,topic,partition,offset"

T = TypeVar("T", bound="str | int")


class FileRow(msgspec.Struct, frozen=True):
    """A committed offset in a file.

    ``group`` is None in the form without groups. ``offset`` is None if the file states that there was no commit
    (backups, and rows of ``kgroup describe -o csv``). ``leader_epoch`` and ``metadata`` are None if the file does not
    have them. ``line`` counts from 1; it is 0 in JSON and YAML, whose rows have no line of their own.
    """

    group: str | None
    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    metadata: str | None
    line: int

    @property
    def key(self) -> tuple[str | None, str, int]:
        """(group, topic, partition), which must be unique in a file."""
        return self.group, self.topic, self.partition


class GroupOffsets(msgspec.Struct, frozen=True):
    """The commits of a group as export and backups write them. A commit None states that there was none.

    ``as_of`` is the moment of the commits (RFC 3339) if they were read from ``__consumer_offsets``: the requested
    moment, or the time of the group's newest record. None: the coordinator was asked. ``hidden_commits`` are commits
    that the broker omits, see ``Group``.
    """

    group: str
    type: str | None
    state: str | None
    offsets: tuple[tuple[str, int, Commit | None], ...]
    as_of: str | None = None
    hidden_commits: tuple[TopicPartition, ...] | None = ()

    def document(self) -> dict[str, Any]:
        """Its JSON form, which ``parse_offsets`` reads."""
        return {
            "group": self.group,
            "type": self.type,
            "state": self.state,
            "source": "coordinator" if self.as_of is None else "log",
            "offsets_at": self.as_of,
            "offsets": [
                {
                    "topic": topic,
                    "partition": partition,
                    "offset": commit.offset if commit else None,
                    "leader_epoch": commit.leader_epoch if commit else None,
                    "metadata": commit.metadata if commit else None,
                }
                for topic, partition, commit in self.offsets
            ],
            "hidden_commits": partitions_document(self.hidden_commits),
        }


def parse_offsets(text: str, source: str) -> tuple[FileRow, ...]:
    """The rows of a file; its format is detected from its content. ``source`` is the file's name for messages.

    Raises UsageError with source, line and column (JSON and YAML: the path) of the first bad rows, and for a file
    without any offsets.
    """
    text = text.removeprefix("\ufeff")
    faults = _Faults(source)
    if (at := text.find("\0")) >= 0:
        faults.add(_position(text, at), "a NUL byte: the file is not UTF-8 text")
        raise faults.error(None)
    first = next(read_rows(text), None)
    if _is_csv(first):
        rows, hint = _csv_rows(text, faults), _CSV_HINT
    elif text.lstrip()[:1] in ("{", "["):
        rows, hint = _document_rows(_load_json(text, source), faults), None
    elif re.search(r"^kind:", text, re.M):
        rows, hint = _document_rows(_load_yaml(text, source), faults), None
    else:
        rows, hint = _csv_rows(text, faults), _CSV_HINT
    offsets = _without_duplicates(rows, faults)
    if faults:
        raise faults.error(hint)
    if not offsets:
        raise UsageError(f"{source}: the file has no offsets", hint=hint)
    return offsets


@dataclass(slots=True)
class _Faults:
    """The errors of a file, each with its position; only the first 5 are kept, all are counted."""

    source: str
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, spot: str, message: str) -> None:
        self.count += 1
        if self.count <= _FAULTS_SHOWN:
            self.lines.append(f"{self.source}:{spot}: {message}")

    def __bool__(self) -> bool:
        return self.count > 0

    def error(self, hint: str | None) -> UsageError:
        more = (f"and {self.count - _FAULTS_SHOWN} more",) if self.count > _FAULTS_SHOWN else ()
        return UsageError(self.lines[0], details=(*self.lines[1:], *more), hint=hint)


class _BadValue(ValueError):
    """An invalid value; ``name`` is its column or field."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def _without_duplicates(rows: Iterable[tuple[str, FileRow]], faults: _Faults) -> tuple[FileRow, ...]:
    """The rows without their positions; the same partition twice is a fault, even with equal offsets."""
    spots: dict[tuple[str | None, str, int], str] = {}
    unique = []
    for spot, row in rows:
        first = spots.setdefault(row.key, spot)
        if first is not spot:
            of = "" if row.group is None else f" of group {row.group!r}"
            where = f"line {first.partition(':')[0]}" if row.line else first
            faults.add(spot, f"{row.topic}:{row.partition}{of} is already on {where}")
        unique.append(row)
    return tuple(unique)


def _number(value: str | int, name: str, most: int) -> int:
    """A whole number from 0 to ``most``. Raises _BadValue."""
    if isinstance(value, str):
        if not re.fullmatch("[0-9]+", value):
            raise _BadValue(name, f"{name} {_shown(value)} is not a whole number from 0 on")
        digits = value.lstrip("0") or "0"
        value = int(digits) if len(digits) <= len(str(most)) else most + 1
    if not 0 <= value <= most:
        raise _BadValue(name, f"{name} is {'above' if value > 0 else 'below'} {most if value > 0 else 0}")
    return value


def _named(value: str, name: str) -> str:
    """The name of a group or topic. Raises _BadValue if it is empty or not UTF-8."""
    if not value:
        raise _BadValue(name, f"{name} is empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _BadValue(name, f"{name} {_shown(value)} is not UTF-8") from error
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


# CSV


class _Layout(msgspec.Struct, frozen=True):
    """The index of each column. ``width`` is the number of columns, ``line`` the line that determined the layout."""

    columns: Mapping[str, int]
    width: int
    line: int

    @classmethod
    def of(cls, row: CsvRow) -> _Layout:
        """The layout by the first row: its header, or its number of columns. Raises _BadValue."""
        names = _header(row)
        if names is None:
            known = CSV_HEADER[:4] if len(row.fields) == 4 else CSV_HEADER[1:4]
            return cls({name: index for index, name in enumerate(known)}, len(known), row.line)
        columns = {name: index for index, name in enumerate(names)}
        offset = next((name for name in _OFFSET_COLUMNS if name in columns), None)
        if offset is None:
            raise _BadValue("topic", "the header has no column offset")
        repeated = next((name for name in (*CSV_HEADER, offset) if names.count(name) > 1), None)
        if repeated:
            raise _BadValue(repeated, f"the header has two columns {repeated}")
        return cls(columns | {"offset": columns[offset]}, len(names), row.line)

    def row(self, row: CsvRow) -> FileRow:
        """The committed offset in a row. Raises _BadValue."""
        group, epoch, metadata = (self._text(row, name) for name in ("group", "leader_epoch", "metadata"))
        offset = self._offset(row)
        return FileRow(
            # Kafka allows a group with an empty id, but an empty field is more often a variable that is not set.
            group=group if group is None or self.columns["group"] in row.quoted_empty else _named(group, "group"),
            topic=_named(row.fields[self.columns["topic"]], "topic"),
            partition=_number(row.fields[self.columns["partition"]], "partition", _MOST_INT32),
            offset=offset,
            leader_epoch=_number(epoch, "leader_epoch", _MOST_INT32) if epoch else None,
            metadata=None if offset is None else metadata,
            line=row.line,
        )

    def start(self, row: CsvRow, name: str) -> int:
        """The position in the text of the field with this name."""
        index = self.columns.get(name, 0)
        return row.starts[min(index, len(row.starts) - 1)]

    def _offset(self, row: CsvRow) -> int | None:
        """The offset; None if the ``committed`` column is empty. Raises _BadValue if the row states an error."""
        text = row.fields[self.columns["offset"]]
        if text or "committed" not in self.columns:
            return _number(text, "offset", _MOST_INT64)
        if error := self._text(row, "error"):
            raise _BadValue("offset", f"the offset could not be read when the file was written: {_shown(error)}")
        return None

    def _text(self, row: CsvRow, name: str) -> str | None:
        index = self.columns.get(name)
        return None if index is None else row.fields[index]


def _is_csv(first: CsvRow | CsvFault | None) -> bool:
    """Whether the first row is a row of offsets or a header of such rows."""
    if not isinstance(first, CsvRow):
        return False
    return _has_numbers(first) or _header(first) is not None


def _has_numbers(row: CsvRow) -> bool:
    return len(row.fields) in (3, 4) and all(re.fullmatch("[0-9]+", text) for text in row.fields[-2:])


def _header(row: CsvRow) -> list[str] | None:
    """The column names; None if it is no header. A row that ends in two numbers is none, whatever its names are."""
    if _has_numbers(row):
        return None
    names = [text.strip().lower() for text in row.fields]
    return names if {"topic", "partition"} <= set(names) else None


def _csv_rows(text: str, faults: _Faults) -> Iterator[tuple[str, FileRow]]:
    layout: _Layout | None = None
    for row in read_rows(text):
        if isinstance(row, CsvFault):
            faults.add(_position(text, row.at), row.message)
            continue
        if layout is None:
            try:
                layout = _Layout.of(row)
            except _BadValue as error:
                faults.add(f"{row.line}:1", str(error))
                return
            if _header(row):
                continue
        if len(row.fields) != layout.width:
            columns = f"{len(row.fields)} column{'s' if len(row.fields) > 1 else ''}"
            expected = f"{layout.width} as on line {layout.line}" if row.line != layout.line else "3 or 4"
            faults.add(f"{row.line}:1", f"{columns}, not {expected}")
            if row.line == layout.line:
                layout = None
            continue
        try:
            yield f"{row.line}:1", layout.row(row)
        except _BadValue as error:
            faults.add(_position(text, layout.start(row, error.name)), str(error))


def _position(text: str, at: int) -> str:
    line, column = line_and_column(text, at)
    return f"{line}:{column}"


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


def _document_rows(document: Any, faults: _Faults) -> Iterator[tuple[str, FileRow]]:
    """The rows of a document by ``kgroup export``, or of a plain list of offsets as kcl writes and reads it."""
    if isinstance(document, list):
        yield from _offset_rows(document, "", None, faults)
        return
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind != KIND:
        faults.add("kind", f"{_shown(kind)} is not {KIND!r}, which kgroup export -o json writes")
        return
    groups = document.get("data")
    if not isinstance(groups, list):
        faults.add("data", "not a list of groups")
        return
    for number, group in enumerate(groups):
        path = f"data[{number}]"
        try:
            name = _value(group, "group", str)
            if name:  # Kafka allows a group with an empty id
                _named(name, "group")
            offsets = group["offsets"] if isinstance(group.get("offsets"), list) else None
            if offsets is None:
                raise _BadValue("offsets", "not a list of offsets")
        except _BadValue as error:
            faults.add(f"{path}.{error.name}", str(error))
            continue
        yield from _offset_rows(offsets, f"{path}.offsets", name, faults)


def _offset_rows(
    offsets: Iterable[Any], path: str, group: str | None, faults: _Faults
) -> Iterator[tuple[str, FileRow]]:
    for number, item in enumerate(offsets):
        spot = f"{path}[{number}]"
        try:
            yield spot, _offset_row(item, group)
        except _BadValue as error:
            faults.add(f"{spot}.{error.name}", str(error))


def _offset_row(item: Any, group: str | None) -> FileRow:
    """Raises _BadValue."""
    topic = _named(_value(item, "topic", str), "topic")
    partition = _number(_value(item, "partition", int), "partition", _MOST_INT32)
    # The offset must be present, even if null: a file of another kind must not be read as "there was no commit".
    if "offset" not in item:
        raise _BadValue("offset", "offset is missing")
    offset = _optional(item, "offset", int)
    epoch = _optional(item, "leader_epoch", int)
    return FileRow(
        group=group,
        topic=topic,
        partition=partition,
        offset=None if offset is None else _number(offset, "offset", _MOST_INT64),
        leader_epoch=None if epoch is None else _number(epoch, "leader_epoch", _MOST_INT32),
        metadata=_optional(item, "metadata", str),
        line=0,
    )


def _optional(item: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    return None if item.get(name) is None else _value(item, name, kind)


def _value(item: Any, name: str, kind: type[T]) -> T:
    """The field, of exactly this type (true is not a number). Raises _BadValue."""
    if not isinstance(item, dict):
        raise _BadValue(name, f"{_shown(item)} is not an object")
    if name not in item:
        raise _BadValue(name, f"{name} is missing")
    value = item[name]
    if type(value) is not kind:
        raise _BadValue(name, f"{name} {_shown(value)} is not a {'text' if kind is str else 'whole number'}")
    return value
