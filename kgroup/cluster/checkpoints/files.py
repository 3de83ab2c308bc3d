"""Reads the checkpoints of streaming queries.

Nothing is written. The commits are listed before the batches: a batch that is done meanwhile looks planned for a
moment, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TypeVar

from msgspec.structs import replace

from kgroup.cluster.checkpoints.batch_files import (
    PlannedFile,
    batch_numbers,
    initial_offsets,
    is_appended_commit,
    is_late_commit,
    planned_file,
    query_id,
)
from kgroup.cluster.checkpoints.stores import Store, store_of
from kgroup.model.streaming_query import BatchEnds, Moves, QueryBatch, QuerySource, StreamingQuery
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound, Unreachable

T = TypeVar("T")

_KEPT = 100
"""The done batches that are read, at most: as many as Spark keeps by default (minBatchesToRetain)."""
_AT_ONCE = 16
_FEW, _LATE_MS = 3, 2_000
"""So many batches, each written so long after it had begun, are of real-time mode; others are written at once."""


def read_query(
    location: str, timeout_s: float, every_s: float | None = None, before: StreamingQuery | None = None
) -> StreamingQuery:
    """The query whose checkpoint is at this URI or path. A batch that was done ``before`` is not read again.

    Raises NotFound without a checkpoint there, Refused for one of an unknown form, NotAuthorized or Unreachable if its
    files cannot be read, UsageError for a URI of another kind, ConfigError without the package that reads it.
    """
    try:
        return _read(store_of(location, timeout_s), location, every_s, before)
    except FileNotFoundError:
        raise _no_checkpoint(location) from None
    except PermissionError as error:
        raise NotAuthorized(f"{location} may not be read: {error.strerror or error}") from None
    except OSError as error:
        raise Unreachable(f"{location} cannot be read: {error.strerror or error}") from None


def read_queries(
    queries: Mapping[str, tuple[str, float | None]],
    timeout_s: float,
    before: Mapping[str, StreamingQuery] = MappingProxyType({}),
) -> dict[str, StreamingQuery | KgroupError]:
    """Several queries at the same time, by name; ``queries`` has the location of each, and how often it starts.

    ``before`` are those that were read before.
    """

    def read(name: str) -> StreamingQuery | KgroupError:
        location, every_s = queries[name]
        try:
            return read_query(location, timeout_s, every_s, before.get(name))
        except KgroupError as error:
            return error

    return dict(zip(queries, _at_once(read, queries), strict=True))


def _read(folder: Store, location: str, every_s: float | None, before: StreamingQuery | None) -> StreamingQuery:
    commits = _names(folder, "commits")
    planned = _names(folder, "offsets")
    numbers = batch_numbers(planned)
    if not numbers and "metadata" not in folder.names(""):
        raise _no_checkpoint(location)
    done = [number for number in numbers if str(number) in commits]
    newest = done[-1] if done else None
    later = [number for number in numbers if newest is None or number > newest]
    kept = [*done[-_KEPT:], *later[-1:]]
    name = query_id(folder.read("metadata"), "metadata")
    # Spark writes a batch once, and never another one of its number; a new checkpoint has another id.
    same = before if before is not None and before.id == name else None
    known = {} if same is None else {batch.number: batch for batch in same.batches}
    wanted = [number for number in kept if number not in known or number == kept[-1]]
    read = {
        number: content
        for number, content in zip(wanted, _contents(folder, wanted), strict=True)
        if content is not None
    }
    files = {number: planned_file(content, f"offsets/{number}") for number, content in read.items()}
    last_commit = b"" if newest is None else folder.read(f"commits/{newest}")
    late = newest is not None and is_late_commit(last_commit, f"commits/{newest}")
    known |= {n: _batch(folder, n, file, commits.get(str(n))) for n, file in files.items()}
    batches = [known[number] for number in kept if number in known]
    if newest in known and not known[newest].moved and is_appended_commit(last_commit, f"commits/{newest}"):
        # kgroup has called it done, and was killed before the batch that moves the query was.
        after = [batch for batch in batches if batch.number > newest]
        skipped = replace(known[newest], done_ms=None, is_skipped=True)
        batches = [*(batch for batch in batches if batch.number < newest), *(after or [skipped])]
    last = files[wanted[-1]] if wanted and wanted[-1] in files else None
    notes = [file.appended.file_sink for _, file in sorted(files.items()) if file.appended is not None]
    return StreamingQuery(
        location=location,
        id=name,
        log_version=1 if last is None else last.version,
        sources=() if last is None else last.sources,
        batches=tuple(batch for batch in batches if batch.done_ms is not None),
        planned=next((batch for batch in batches if batch.done_ms is None), None),
        initial=_initial(folder, () if last is None else last.sources),
        has_gaps=len(later) > 1 or (len(done) > 1 and done[-1] - done[0] >= len(done)),
        planned_late=late or _planned_late(batches, planned),
        stateful=bool(_names(folder, "state")),
        watermark_ms=None if last is None else last.watermark_ms,
        file_sink=notes[-1] if notes else None if same is None else same.file_sink,
        every_s=every_s,
    )


def _batch(folder: Store, number: int, file: PlannedFile, done_ms: int | None) -> QueryBatch:
    moved: Moves = {} if file.appended is None else file.appended.moves
    if moved and done_ms is not None:
        place = f"commits/{number}"
        moved = moved if is_appended_commit(folder.read(place), place) else {}
    return QueryBatch(number, file.planned_ms, file.ends, done_ms, moved=moved)


def _planned_late(batches: Sequence[QueryBatch], written: Mapping[str, int]) -> bool:
    """Whether each of the last batches was written to the log of plans long after it had begun, by its end.

    In a copy of a checkpoint, all were written after the last one had begun: that shows nothing.
    """
    last = [batch for batch in batches if batch.done_ms is not None][-_FEW:]
    begun = [batch.planned_ms for batch in last if batch.planned_ms is not None]
    ended = [written[str(batch.number)] for batch in last]
    if len(begun) < _FEW or any(end > later + _LATE_MS for end, later in zip(ended, begun[1:], strict=False)):
        return False
    return all(end - begin >= _LATE_MS for begin, end in zip(begun, ended, strict=True))


def _contents(folder: Store, numbers: Sequence[int]) -> list[bytes | None]:
    """The files of these batches; None for one that Spark has pruned meanwhile."""

    def content(number: int) -> bytes | None:
        try:
            return folder.read(f"offsets/{number}")
        except FileNotFoundError:
            return None

    return _at_once(content, numbers)


def _initial(folder: Store, sources: Iterable[QuerySource]) -> BatchEnds:
    offsets: BatchEnds = {}
    for source in sources:
        place = f"sources/{source.key}/0"
        try:
            offsets = {**offsets, **initial_offsets(folder.read(place), place)}
        except FileNotFoundError:
            continue  # a source that keeps no beginning, or a log of its own
    return offsets


def _names(folder: Store, path: str) -> Mapping[str, int]:
    try:
        return folder.names(path)
    except FileNotFoundError:
        return {}


def _no_checkpoint(location: str) -> NotFound:
    return NotFound(
        f"there is no checkpoint at {location}",
        hint="Name the query's checkpointLocation: it has the folders offsets and commits, and a file metadata.",
    )


def _at_once(ask: Callable[..., T], items: Iterable[object]) -> list[T]:
    items = list(items)
    if len(items) < 2:
        return [ask(item) for item in items]
    with ThreadPoolExecutor(min(_AT_ONCE, len(items)), "kgroup-checkpoint") as pool:
        return list(pool.map(ask, items))
