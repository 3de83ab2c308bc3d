"""Moves a streaming query: appends a batch to its checkpoint that reads nothing, as Spark's own offline editor does.

Nothing is rewritten or deleted, and no number is used twice. ``offsets/N`` is created first, and only if it is not
there: from then on a query that runs ends by itself (CONCURRENT_STREAM_LOG_UPDATE), and one that is started plans no
other batch N. Then ``commits/N``. Killed between the two, batch N is planned as any other: the query reads [N-1, N)
itself when it starts, and until then it is in flight. A move back is one more batch: removing files would not stop a
query that was started meanwhile (seen: it went on from the released end).

A batch that is accepted as done gets its commit first. Until the next batch is there, ``StreamingQuery`` still has it
as planned, so that its records are not taken for read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from kgroup.cluster.checkpoints.batch_files import OTHER_SOURCES, AppendedBatch, appended_commit, appended_plan
from kgroup.cluster.checkpoints.file_sink import FILE_SINK, FileSink
from kgroup.cluster.checkpoints.stores import Store, store_of
from kgroup.model.streaming_query import Moves, QueryChanges, StreamingQuery
from kgroup.support.errors import MOVED_SINCE, NotAuthorized, Refused, Unreachable, refusal_code

IN_FLIGHT = refusal_code(
    "in-flight",
    "changes of streaming queries",
    "A batch of the query is planned and not done: its sink may have the records.",
    "Start the query once, so that it ends the batch, or accept possible duplicates: --accept in-flight.",
)
STATEFUL = refusal_code(
    "stateful-query",
    "changes of streaming queries",
    "The query keeps state: the records of the gap would be in no window or count.",
    "Let the query read its gap itself.",
)
READS_AHEAD = refusal_code(
    "reads-ahead",
    "changes of streaming queries",
    "With asynchronous progress or in real-time mode, a query has read more than its checkpoint shows.",
    "Start it once without that mode, with a trigger of available-now, and stop it.",
)
NO_BATCH = refusal_code(
    "no-batch",
    "changes of streaming queries",
    "The query has not done a batch, after which one could be appended.",
    "Start the query once.",
)
_TIMEOUT_S = 10.0
"""How long a store may take for a file."""


def check_appendable(name: str, query: StreamingQuery, topics: Collection[str], how: QueryChanges) -> None:
    """Raise Refused unless a batch can be appended that moves partitions of these topics.

    Raises NotAuthorized or Unreachable if files cannot be created, UsageError for a folder that is not its file sink.
    """
    if query.stateful:
        raise Refused(f"{name} keeps state: the records that it passes over would be in no window", code=STATEFUL)
    if query.reads_ahead is not None:
        raise Refused(f"{name} runs with {query.reads_ahead}, so it has read more than is shown", code=READS_AHEAD)
    if query.done is None:
        raise Refused(f"{name} has not done a batch yet", code=NO_BATCH, hint="Start the query once.")
    planned = query.planned
    if planned is not None and not how.in_flight:
        raise Refused(
            f"batch {planned.number} of {name} is planned and not done: its sink may have the records",
            hint="Start the query once and stop it, so that it ends the batch. If it cannot start, accept that its "
            "records may come twice: --accept in-flight",
            code=IN_FLIGHT,
        )
    for topic in sorted(topics):
        if (readers := sum(topic in source.topics for source in query.sources)) != 1:
            which = "several sources" if readers else "no source"
            raise Refused(f"{which} of {name} read{'' if readers else 's'} {topic}", code=OTHER_SOURCES)
    with _reported(query.location):
        store_of(query.location, _TIMEOUT_S).check("offsets")
    if sink := file_sink_of(name, query, how):
        with _reported(sink.root):
            sink.check(_last_of_spark(query), (planned or query.done).number)


def appended_line(name: str, query: StreamingQuery) -> str:
    """The files that a change creates, for its plan."""
    last = query.planned or query.done
    number = 0 if last is None else last.number + 1
    accepted = "" if query.planned is None else f"commits/{query.planned.number}, so that its batch counts as done, "
    return (
        f"{name}: creates {accepted}offsets/{number} and commits/{number} in {query.location}, a batch that reads "
        "nothing. A query that runs ends by itself at its next batch (CONCURRENT_STREAM_LOG_UPDATE): start it then"
    )


def append_batch(name: str, query: StreamingQuery, moves: Moves, how: QueryChanges, at_ms: int) -> None:
    """Append a batch that sets these positions, after what ``query``, read just now, has. Raises KgroupError.

    Raises as ``check_appendable``, and Refused [moved-since] if the query begins a batch at the same time: then nothing
    is changed, except that a batch which is accepted may have its commit.
    """
    check_appendable(name, query, {tp.topic for tp in moves}, how)
    assert query.done is not None
    sink = file_sink_of(name, query, how)
    with _reported(query.location):
        files = store_of(query.location, _TIMEOUT_S)
        base, last = query.done, query.planned or query.done
        commit = appended_commit(files.read(f"commits/{base.number}"), f"commits/{base.number}")
        place = f"offsets/{base.number}"
        kept = {tp: commit for tp, commit in base.moved.items() if tp not in moves}
        batch = AppendedBatch.of({**kept, **moves}, "" if sink is None else sink.root)
        ends = {tp: commit.offset for tp, commit in batch.moves.items()}
        plan, number = appended_plan(files.read(place), place, ends, at_ms, batch), last.number + 1
        if query.planned is not None and not query.planned.is_skipped:
            create_file(name, files, f"commits/{last.number}", commit)
        create_file(name, files, f"offsets/{number}", plan)
        create_file(name, files, f"commits/{number}", commit)
    if sink is not None:
        # Last: a file sink passes over a batch that its log has, so the gap would be lost if the query still ran it.
        with _reported(sink.root):
            sink.add_missing(_last_of_spark(query), number)


def file_sink_of(name: str, query: StreamingQuery, how: QueryChanges) -> FileSink | None:
    """The log of the query's file sink, None if it has none. Raises Refused if neither is known."""
    folder = query.file_sink if how.file_sink is None else how.file_sink
    if folder is None:
        raise Refused(
            f"no file shows whether {name} writes by Spark's file sink, whose own log needs each batch too",
            hint="Add --file-sink DIR for a query that writes to DIR with format parquet, json, csv, orc or text. For "
            "another sink (Kafka, Delta, Iceberg, foreachBatch): --file-sink none",
            code=FILE_SINK,
        )
    return FileSink(folder, _TIMEOUT_S) if folder else None


def repair_file_sink(query: StreamingQuery) -> None:
    """Add the batches of kgroup that a killed change has left out of the log of the file sink. Raises KgroupError."""
    if query.file_sink and query.done is not None:
        sink = FileSink(query.file_sink, _TIMEOUT_S)
        with _reported(sink.root):
            sink.add_missing(_last_of_spark(query), query.done.number)


def _last_of_spark(query: StreamingQuery) -> int:
    """A batch from which on the log of the file sink may lack some: kgroup's, and one that it called done."""
    first = next((batch.number for batch in query.batches if batch.moved), None)
    ran = query.batches[-1].number if query.batches else -1
    return ran if first is None else first - 2


@contextmanager
def _reported(location: str) -> Iterator[None]:
    """An OSError becomes the error that says so."""
    try:
        yield
    except PermissionError as error:
        raise NotAuthorized(f"{location} may not be written: {error.strerror or error}") from None
    except OSError as error:
        raise Unreachable(f"{location} cannot be written: {error.strerror or error}") from None


def create_file(name: str, files: Store, path: str, content: bytes) -> None:
    """Create a file of the query's checkpoint. Raises Refused [moved-since] if it is there, OSError."""
    try:
        files.create(path, content)
    except FileExistsError:
        what, number = path.split("/")
        raise Refused(
            f"{name} has {'begun' if what == 'offsets' else 'done'} batch {number} meanwhile: it runs",
            hint="Stop the query, and check the plan again.",
            code=MOVED_SINCE,
        ) from None
