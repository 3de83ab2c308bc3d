"""Batches appended to checkpoints of real queries, and to the log of a file sink; killed at each file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.cluster.checkpoints.append import append_batch, appended_line, repair_file_sink
from kgroup.cluster.checkpoints.files import read_query
from kgroup.model.commit import Commit
from kgroup.model.streaming_query import Moves, QueryChanges, StreamingQuery, commits_of
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized, Refused, UsageError
from tests.helpers.checkpoints import recorded_checkpoint, write_checkpoint

pytestmark = pytest.mark.quick
FIRST, LAST = TopicPartition("orders", 0), TopicPartition("orders", 2)
MOVES = {FIRST: Commit(60, 3, "kgroup cu-7f3a 1 release 6"), LAST: Commit(20, None, "")}
NO_FILES = QueryChanges(file_sink="")
AT_MS = 1_795_962_000_000


class Killed(BaseException):
    """kill -9, for one process."""


def read(root: Path) -> StreamingQuery:
    return read_query(str(root), 5)


def append(root: Path, moves: Moves = MOVES, how: QueryChanges = NO_FILES) -> StreamingQuery:
    append_batch("spark:q", read(root), moves, how, AT_MS)
    return read(root)


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def lines(root: Path, number: int) -> list[str]:
    return (root / "offsets" / str(number)).read_text().splitlines()


@pytest.mark.parametrize(
    "kind",
    [
        *(f"stateless-{version}" for version in ("3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")),
        *("log-v2-4.3.0", "named-sources-4.3.0", "two-sources-4.3.0", "other-sources-4.3.0"),
    ],
)
def test_a_batch_is_appended_and_undone_by_another(tmp_path: Path, kind: str) -> None:
    root = recorded_checkpoint(kind, tmp_path)
    before, old = files(root), read(root)
    assert old.done is not None
    moves = {tp: commit for tp, commit in MOVES.items() if tp in old.commits}
    number = old.done.number + 1

    moved = append(root, moves)
    back = append(root, {tp: old.commits[tp] for tp in moves})

    assert moved.commits == {**old.commits, **moves}
    assert back.commits == old.commits
    assert (moved.planned, back.planned) == (None, None)
    created = files(root)
    assert {path: created[path] for path in before} == before
    assert sorted(created.keys() - before.keys()) == sorted(
        f"{folder}/{at}" for folder in ("commits", "offsets") for at in (number, number + 1)
    )
    # What Spark reads of it: the lines of its sources, byte for byte, and its metadata but for the time and the note.
    assert lines(root, number + 1)[2:] == lines(root, old.done.number)[2:]
    was, now = (json.loads(lines(root, at)[1]) for at in (old.done.number, number))
    assert now == {**was, "batchTimestampMs": AT_MS, "conf": {**was["conf"], "kgroup": now["conf"]["kgroup"]}}


def test_its_commits_are_kgroups_own_with_their_metadata(tmp_path: Path) -> None:
    moved = append(recorded_checkpoint("stateless-4.3.0", tmp_path))

    last = moved.batches[-1]
    assert [(one.log_offset, one.offset, one.metadata) for one in commits_of(moved) if one.tp == FIRST][-1] == (
        last.number,
        60,
        "kgroup cu-7f3a 1 release 6",
    )


def test_a_second_move_keeps_what_the_first_one_set(tmp_path: Path) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)
    append(root, {FIRST: Commit(60, 3, "first")})

    assert append(root, {LAST: Commit(20, None, "")}).commits[FIRST] == Commit(60, 3, "first")


def test_a_partition_that_is_new_gets_a_position(tmp_path: Path) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)

    assert append(root, {TopicPartition("orders", 7): Commit(5, None, "")}).offsets[TopicPartition("orders", 7)] == 5


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("aggregation-4.3.0", "stateful-query"),
        ("commits-v2-4.3.0", "stateful-query"),
        ("async-progress-4.3.0", "reads-ahead"),
        ("real-time-4.3.0", "reads-ahead"),
        ("planned-4.3.0", "in-flight"),
    ],
)
def test_a_query_that_cannot_be_moved_is_left_as_it_is(tmp_path: Path, kind: str, code: str) -> None:
    root = recorded_checkpoint(kind, tmp_path)
    before = files(root)

    with pytest.raises(Refused) as refused:
        append(root)

    assert refused.value.code == code
    assert files(root) == before


@pytest.mark.parametrize("kind", ["stateless-4.3.0", "planned-4.3.0"])
def test_a_topic_that_it_does_not_read_is_refused_before_any_file(tmp_path: Path, kind: str) -> None:
    root = recorded_checkpoint(kind, tmp_path)
    before = files(root)

    with pytest.raises(Refused, match="no source of spark:q reads payments"):
        append(root, {TopicPartition("payments", 0): Commit(1, None, "")}, QueryChanges("", in_flight=True))

    assert files(root) == before


def test_whether_it_has_a_file_sink_must_be_known(tmp_path: Path) -> None:
    query = read(recorded_checkpoint("stateless-4.3.0", tmp_path))

    with pytest.raises(Refused) as refused:
        append_batch("spark:q", query, MOVES, QueryChanges(), AT_MS)

    assert refused.value.code == "file-sink"


def test_before_its_first_batch_it_is_refused(tmp_path: Path) -> None:
    root = write_checkpoint(tmp_path / "c", [], [], begins={"orders": [4]})

    with pytest.raises(Refused) as refused:
        append(root)

    assert refused.value.code == "no-batch"


def test_a_batch_in_flight_that_is_accepted_counts_as_done_and_unmoved_partitions_are_read_again(
    tmp_path: Path,
) -> None:
    root = recorded_checkpoint("planned-4.3.0", tmp_path)
    old = read(root)
    assert old.done is not None
    assert old.planned is not None
    assert old.reached == {**old.offsets, **old.planned.ends}

    moved = append(root, {FIRST: Commit(60, None, "")}, QueryChanges(file_sink="", in_flight=True))

    assert [batch.number for batch in moved.batches[-2:]] == [old.planned.number, old.planned.number + 1]
    assert moved.commits == {**old.commits, FIRST: Commit(60, None, "")}


def test_a_batch_that_the_query_begins_meanwhile_is_its_own(tmp_path: Path) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)
    query = read(root)
    assert query.done is not None
    theirs = root / "offsets" / str(query.done.number + 1)
    theirs.write_text("of Spark")

    with pytest.raises(Refused) as refused:
        append_batch("spark:q", query, MOVES, NO_FILES, AT_MS)

    assert refused.value.code == "moved-since"
    assert f"batch {theirs.name}" in refused.value.message
    assert theirs.read_text() == "of Spark"


ACCEPTING = QueryChanges(file_sink="", in_flight=True)


@pytest.fixture
def kill_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """``kill_at(N, work)``: work that is killed when it is about to make its file N."""
    link = os.link

    def at(number: int, work: Callable[[], object]) -> None:
        calls = 0

        def killing(source: Path, target: Path) -> None:
            nonlocal calls
            if calls == number:
                raise Killed
            calls += 1
            link(source, target)

        with monkeypatch.context() as patched:
            patched.setattr(os, "link", killing)
            with pytest.raises(Killed):
                work()

    return at


Kill = Callable[[int, Callable[[], object]], None]


def test_killed_before_the_first_file_nothing_is_changed(tmp_path: Path, kill_at: Kill) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)
    before = files(root)

    kill_at(0, lambda: append(root))

    assert {path: content for path, content in files(root).items() if not path.endswith(".tmp")} == before


def test_killed_between_the_files_the_batch_is_in_flight_and_moves_nothing(tmp_path: Path, kill_at: Kill) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)
    old = read(root)
    kill_at(1, lambda: append(root))
    between = read(root)

    assert between.commits == old.commits
    assert between.planned is not None
    assert between.reached == {**old.offsets, **between.planned.ends}
    with pytest.raises(Refused) as refused:
        append(root)
    assert refused.value.code == "in-flight"
    # Accepted, it moves what is named alone: the rest stays where the query is.
    assert append(root, {LAST: MOVES[LAST]}, ACCEPTING).commits == {**old.commits, LAST: MOVES[LAST]}


@pytest.mark.parametrize("number", [1, 2])
def test_a_batch_that_is_accepted_is_not_read_until_the_next_one_is_there(
    tmp_path: Path, kill_at: Kill, number: int
) -> None:
    root = recorded_checkpoint("planned-4.3.0", tmp_path)
    old = read(root)
    kill_at(number, lambda: append(root, MOVES, ACCEPTING))
    between = read(root)

    assert between.commits == old.commits
    assert between.planned is not None
    assert append(root, {FIRST: MOVES[FIRST]}, ACCEPTING).commits == {**old.commits, FIRST: MOVES[FIRST]}
    assert read(root).planned is None


def test_a_planned_batch_that_the_query_has_run_itself_is_no_move(tmp_path: Path) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)
    moved = append(root)
    assert moved.done is not None
    (root / "commits" / str(moved.done.number)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    ran = read(root)

    assert ran.offsets == moved.offsets
    assert ran.commits[FIRST] == Commit(60, None, "")


@pytest.mark.parametrize("links", [True, False])
def test_a_store_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)

    def none(source: Path, target: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", none)

    assert append(root).offsets[FIRST] == 60
    assert not list(root.rglob("*.tmp"))


def test_a_folder_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = recorded_checkpoint("stateless-4.3.0", tmp_path)
    before = files(root)

    def denied(directory: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kgroup.cluster.checkpoints.stores.try_to_create", denied)
    with pytest.raises(NotAuthorized, match="may not be written"):
        append(root)

    assert files(root) == before


def test_the_plan_names_both_files(tmp_path: Path) -> None:
    query = read(recorded_checkpoint("stateless-4.3.0", tmp_path))
    assert query.done is not None

    line = appended_line("spark:q", query)

    assert f"offsets/{query.done.number + 1} and commits/{query.done.number + 1} in {query.location}" in line


Sink = Callable[..., Path]


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    """A file sink whose log has these files, each with a line."""

    def make(*names: str) -> Path:
        log = tmp_path / "out" / "_spark_metadata"
        log.mkdir(parents=True)
        for name in names:
            (log / name).write_text(f'v1\n{{"path":"of {name}"}}')
        return log

    return make


def written(tmp_path: Path, batches: int) -> Path:
    return write_checkpoint(tmp_path / "c", [{"orders": [n]} for n in range(batches)], [AT_MS] * batches)


@pytest.mark.parametrize(
    ("logged", "added", "of"),
    [
        (("0", "1"), "2", []),
        ([str(n) for n in range(9)], "9.compact", [str(n) for n in range(9)]),
        (("9.compact", "10"), "11", []),
        (("9.compact", *map(str, range(10, 19))), "19.compact", ["9.compact", *map(str, range(10, 19))]),
        # Another interval than Spark's default, as two compact files show it.
        (("2.compact", "3", "4", "5.compact", "6", "7"), "8.compact", ["5.compact", "6", "7"]),
    ],
)
def test_the_log_of_a_file_sink_gets_the_batch_too(
    tmp_path: Path, sink: Sink, logged: list[str], added: str, of: list[str]
) -> None:
    log = sink(*logged)
    root = written(tmp_path, int(added.removesuffix(".compact")))

    moved = append(root, {FIRST: Commit(60, None, "")}, QueryChanges(str(log.parent)))
    before = set(logged)
    again = append(root, {FIRST: Commit(5, None, "")}, QueryChanges())  # its folder is in the checkpoint now

    assert {path.name for path in log.iterdir()} - before == {added, str(int(added.removesuffix(".compact")) + 1)}
    assert (log / added).read_text().splitlines() == ["v1", *(f'{{"path":"of {name}"}}' for name in of)]
    assert moved.file_sink == again.file_sink == str(log.parent)


@pytest.mark.parametrize(
    ("names", "words"), [((), "no log of Spark's file sink"), (("0", "1", "2", "3"), "not of this query")]
)
def test_a_folder_that_is_not_its_file_sink(tmp_path: Path, sink: Sink, names: tuple[str, ...], words: str) -> None:
    log, root = sink(*names), written(tmp_path, 2)
    before = files(tmp_path)

    with pytest.raises(UsageError, match=words):
        append(root, {FIRST: Commit(60, None, "")}, QueryChanges(str(log.parent)))

    assert files(tmp_path) == before


@pytest.fixture
def half_moved(tmp_path: Path, sink: Sink, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A query whose batch 2 kgroup has appended, and was killed before the log of the file sink has it."""
    log, root = sink("0", "1"), written(tmp_path, 2)

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("kgroup.cluster.checkpoints.file_sink.FileSink.add_missing", killed)
        with pytest.raises(Killed):
            append(root, {FIRST: Commit(60, None, "")}, QueryChanges(str(log.parent)))
    assert read(root).offsets[FIRST] == 60
    return log, root


def test_killed_before_the_log_of_the_file_sink_the_next_move_adds_both(half_moved: tuple[Path, Path]) -> None:
    log, root = half_moved

    append(root, {FIRST: Commit(5, None, "")}, QueryChanges())

    assert sorted(path.name for path in log.iterdir()) == ["0", "1", "2", "3"]


def test_a_hole_that_a_killed_move_left_is_filled_also_behind_batches_of_the_query(
    half_moved: tuple[Path, Path],
) -> None:
    log, root = half_moved
    (log / "3").write_text("v1")  # the query has run since
    for folder in ("offsets", "commits"):
        (root / folder / "3").write_bytes((root / folder / "1").read_bytes())

    repair_file_sink(read(root))

    assert sorted(path.name for path in log.iterdir()) == ["0", "1", "2", "3"]
    assert (log / "2").read_text() == "v1"


def test_what_a_compact_file_has_is_not_added_again(tmp_path: Path, sink: Sink) -> None:
    log, root = sink("9.compact", "10"), written(tmp_path, 11)

    append(root, {FIRST: Commit(60, None, "")}, QueryChanges(str(log.parent)))
    append(root, {FIRST: Commit(5, None, "")}, QueryChanges())

    assert sorted(path.name for path in log.iterdir()) == ["10", "11", "12", "9.compact"]


def test_the_log_of_a_file_sink_that_may_not_be_written_moves_nothing(
    tmp_path: Path, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, root = sink("0", "1"), written(tmp_path, 2)
    before = files(tmp_path)

    def denied(directory: Path) -> None:
        if directory == log:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kgroup.cluster.checkpoints.stores.try_to_create", denied)
    with pytest.raises(NotAuthorized):
        append(root, {FIRST: Commit(60, None, "")}, QueryChanges(str(log.parent)))

    assert files(tmp_path) == before


def test_a_hole_in_the_log_of_a_file_sink_is_no_silent_loss(tmp_path: Path, sink: Sink) -> None:
    log = sink(*(str(n) for n in range(9) if n != 4))
    root = written(tmp_path, 9)

    before = files(tmp_path)

    with pytest.raises(KgroupError, match="has no batch 4"):
        append(root, {FIRST: Commit(60, None, "")}, QueryChanges(str(log.parent)))

    assert files(tmp_path) == before
