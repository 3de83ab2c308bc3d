"""The files of a checkpoint: the log of planned batches, ``offsets/``, and that of done ones, ``commits/``.

Source: OffsetSeqLog, CommitLog, HDFSMetadataLog and KafkaSourceOffset of apache/spark. A file of ``offsets/`` has a
version, a line of metadata, then a line for each source: the end of the batch there, or ``-`` without one. Version 2
writes the source's number or name before it: ``0:{"orders":{"0":9}}``. A file of ``commits/`` has a version and a line.

A batch that kgroup appends has ``kgroup`` in the ``conf`` of its metadata, and in its commit if that is kgroup's too.
Spark ignores both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from kgroup.model.commit import Commit
from kgroup.model.streaming_query import BatchEnds, Moves, QuerySource
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import Refused, refusal_code

UNKNOWN_CHECKPOINT = refusal_code(
    "unknown-checkpoint",
    "verbs with spark:URI",
    "A file of the checkpoint has a form or a version that this kgroup does not know.",
    "Name the folder that is the checkpointLocation of the query. For a newer Spark, use a newer kgroup.",
)
OTHER_SOURCES = refusal_code(
    "other-sources",
    "changes of streaming queries",
    "No source of the query reads the topic, or several do.",
    "Name topics that one source alone reads.",
)
_VERSIONS = (1, 2)
_WITH_IDS = 2
_VERSION = re.compile(r"v(\d+)")
_KEYED = re.compile(r"([^:{]+):(.*)")
_NOTHING = "-"
_OURS, _APPENDED = "kgroup", "appended"


class AppendedBatch(msgspec.Struct, frozen=True, rename="camel"):
    """What kgroup notes in a batch that it appends: the commits that it stands for, by topic and partition.

    ``file_sink`` is the folder of Spark's file sink, "" for a query without one.
    """

    moved: dict[str, dict[int, Commit]]
    file_sink: str = ""

    @property
    def moves(self) -> dict[TopicPartition, Commit]:
        return {
            TopicPartition(topic, number): commit for topic, own in self.moved.items() for number, commit in own.items()
        }

    @classmethod
    def of(cls, moves: Moves, file_sink: str) -> AppendedBatch:
        moved: dict[str, dict[int, Commit]] = {}
        for (topic, number), commit in sorted(moves.items()):
            moved.setdefault(topic, {})[number] = commit
        return cls(moved, file_sink)


class PlannedFile(msgspec.Struct, frozen=True):
    """A file of ``offsets/``. ``ends`` are the offsets of its Kafka sources; ``appended`` is None in Spark's own."""

    version: int
    planned_ms: int | None
    watermark_ms: int | None
    sources: tuple[QuerySource, ...]
    ends: BatchEnds
    appended: AppendedBatch | None = None


def batch_numbers(names: Iterable[str]) -> list[int]:
    """The batches of a folder, ascending: its files whose names are numbers. Others are being written, or checksums."""
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def planned_file(content: bytes, place: str) -> PlannedFile:
    """A file of ``offsets/``; ``place`` is its path, for messages. Raises Refused."""
    version, lines, metadata = _planned_lines(content, place)
    sources, ends = [], dict[TopicPartition, int]()
    for key, text in _sources(version, lines[1:], place):
        offsets = {} if text == _NOTHING else kafka_offsets(_json(text, place))
        sources.append(QuerySource(key, tuple(sorted({tp.topic for tp in offsets}))))
        ends |= offsets
    return PlannedFile(
        version,
        _ms(metadata.get("batchTimestampMs")),
        _ms(metadata.get("batchWatermarkMs")),
        tuple(sources),
        ends,
        _appended(metadata.get("conf"), place),
    )


def appended_plan(content: bytes, place: str, ends: BatchEnds, at_ms: int, note: AppendedBatch | None = None) -> bytes:
    """The file of ``offsets/`` of a batch up to these ``ends``, after a batch with this ``content``; all else stays.

    ``note`` is for a batch that moves the query. Raises Refused, also for a topic that none of the query's sources
    reads, or several of them.
    """
    moved: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in ends.items():
        moved.setdefault(topic, {})[str(partition)] = offset
    version, lines, metadata = _planned_lines(content, place)
    known = metadata.get("conf")
    conf = {key: value for key, value in known.items() if key != _OURS} if isinstance(known, dict) else {}
    if note is not None:
        conf[_OURS] = msgspec.json.encode(note).decode()
    written = [f"v{version}", _text_of({**metadata, "batchTimestampMs": at_ms, "conf": conf})]
    left = set(moved)
    for key, text in _sources(version, lines[1:], place):
        value = None if text == _NOTHING else _json(text, place)
        own = {topic for topic, _ in kafka_offsets(value)} & moved.keys()
        if twice := own - left:
            raise Refused(f"several sources of the query read {min(twice)}", code=OTHER_SOURCES)
        left -= own
        if own:
            assert isinstance(value, dict)
            text = _text_of({topic: {**of, **moved.get(topic, {})} for topic, of in value.items()})
        written.append(text if version == 1 else f"{key}:{text}")
    if left:
        raise Refused(f"no source of the query reads {min(left)}", code=OTHER_SOURCES)
    return "\n".join(written).encode()


def appended_commit(content: bytes, place: str) -> bytes:
    """The file of ``commits/`` for a batch that kgroup appends after one with this ``content``. Raises Refused."""
    version, known = _commit(content, place)
    if not isinstance(known, dict):
        raise _unknown(f"{place} is no commit of a batch")
    return f"v{version}\n{_text_of({**known, _OURS: _APPENDED})}".encode()


def is_appended_commit(content: bytes, place: str) -> bool:
    """Whether kgroup wrote this file of ``commits/``: else the query has run the batch itself. Raises Refused."""
    _, known = _commit(content, place)
    return isinstance(known, dict) and _OURS in known


def is_late_commit(content: bytes, place: str) -> bool:
    """Whether a file of ``commits/`` is of a kind that real-time mode writes: version 2 without ids of its state.

    That was seen with Spark 4.3. Raises Refused unless it is such a file, of a version that is known.
    """
    version, known = _commit(content, place)
    return version == _WITH_IDS and isinstance(known, dict) and "stateUniqueIds" not in known


def initial_offsets(content: bytes, place: str) -> BatchEnds:
    """The file of ``sources/N/0``: where a Kafka source began; empty for another source. Raises Refused."""
    _, lines = _lines(content.lstrip(b"\0"), place)
    return kafka_offsets(_json(lines[0], place)) if lines else {}


def query_id(content: bytes, place: str) -> str | None:
    """The id in the checkpoint's ``metadata``. Raises Refused."""
    known = _json(_text(content, place), place)
    value = known.get("id") if isinstance(known, dict) else None
    return value if isinstance(value, str) else None


def kafka_offsets(value: object) -> dict[TopicPartition, int]:
    """The offsets of a Kafka source, known by their form: topic, partition, offset; empty for another source's."""
    if not isinstance(value, Mapping):
        return {}
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in value.items():
        if not isinstance(topic, str) or not isinstance(partitions, Mapping) or not partitions:
            return {}
        for number, offset in partitions.items():
            if not isinstance(number, str) or not number.isdecimal() or type(offset) is not int or offset < 0:
                return {}
            offsets[TopicPartition(topic, int(number))] = offset
    return offsets


def _commit(content: bytes, place: str) -> tuple[int, object]:
    """The version and the document of a file of ``commits/``."""
    version, lines = _lines(content, place)
    return version, _json(lines[0], place) if lines else None


def _planned_lines(content: bytes, place: str) -> tuple[int, list[str], dict[str, object]]:
    version, lines = _lines(content, place)
    if not lines:
        raise _unknown(f"{place} ends after its first line")
    if not lines[0]:
        raise _unknown(f"{place} has no metadata: a query in continuous processing, which this kgroup does not know")
    metadata = _json(lines[0], place)
    if not isinstance(metadata, dict):
        raise _unknown(f"{place}: its second line is not the metadata of a batch")
    return version, lines, metadata


def _appended(conf: object, place: str) -> AppendedBatch | None:
    note = conf.get(_OURS) if isinstance(conf, dict) else None
    if note is None:
        return None
    try:
        return msgspec.json.decode(str(note), type=AppendedBatch)
    except msgspec.DecodeError as error:
        raise _unknown(f"{place}: {error}") from None


def _text_of(document: object) -> str:
    return msgspec.json.encode(document).decode()


def _sources(version: int, lines: Sequence[str], place: str) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(lines):
        if version == 1:
            yield str(at), line
        elif match := _KEYED.fullmatch(line):
            yield match[1], match[2]
        else:
            raise _unknown(f"{place} has a source without a number or a name, which this kgroup does not know")


def _lines(content: bytes, place: str) -> tuple[int, list[str]]:
    """The version of a file, and the lines after it."""
    first, *rest = _text(content, place).splitlines() or [""]
    match = _VERSION.fullmatch(first.strip())
    if match is None:
        raise _unknown(f"{place} does not begin with a version: it is no file of a checkpoint")
    if (version := int(match[1])) not in _VERSIONS:
        raise _unknown(f"{place} has version {version}; this kgroup knows 1 and 2")
    return version, rest


def _unknown(message: str) -> Refused:
    return Refused(message, code=UNKNOWN_CHECKPOINT)


def _text(content: bytes, place: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise _unknown(f"{place} is not UTF-8 text") from None


def _json(text: str, place: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _unknown(f"{place}: {error}") from None


def _ms(value: object) -> int | None:
    """A time that is set; Spark writes 0 for a watermark that it does not have."""
    return value if type(value) is int and value > 0 else None
