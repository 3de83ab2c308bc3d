"""The journal's files: what is written comes back, whole or cut off anywhere, and damage costs one change only."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kgroup.cluster_ref import ClusterRef
from kgroup.errors import KgroupError, NotFound, Refused
from kgroup.journal import Entry, Journal, JournalRow, our_commits
from kgroup.model import Commit
from tests.command_line import QuietReporter
from tests.journals import locked

NOW = datetime(2026, 11, 21, 14, 46, tzinfo=UTC)
CLUSTER = "Some-cluster-id-of-22-c"
ROWS = (
    JournalRow("svc", "orders", 0, Commit(5, 3, 'by hand: "é"\n'), Commit(12, 4, "")),
    JournalRow("svc", "orders", 1, None, Commit(12, None, "")),
    JournalRow("other", "orders", 0, Commit(5, None, ""), None),
)


def entry(change_id: str, cluster_id: str = CLUSTER, minutes: int = 0) -> Entry:
    """A change of two groups, one of which it deletes."""
    return Entry(
        id=change_id,
        at=NOW + timedelta(minutes=minutes),
        who="maria@jump-1",
        what="reset",
        subject="2 groups, 3 partitions",
        command=("kgroup", "reset", "svc", "other"),
        reason="INC-7 früh",
        cluster=ClusterRef(cluster_id=cluster_id, context="prod", bootstrap_servers="kafka-1:9092"),
        groups={"svc": "classic", "other": "consumer"},
        topics={"orders": "YiqharQDQpeZqA_R7ekbTw"},
        rows=ROWS,
        created=frozenset({"svc"}),
        deleted=frozenset({"other"}),
        undoes="ch-2222",
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def journal(directory: Path) -> Journal:
    journal = Journal(directory)
    journal.require_writable()
    return journal


def write(journal: Journal, made: Entry, *, close: bool = True) -> Path:
    """Its plan, two results, and its end."""
    writing = journal.begin(made)
    writing.done({ROWS[0].place: None, ROWS[1].place: Refused("somebody is in it", code="not-empty")})
    if close:
        writing.close()
    (path,) = (path for path in journal.files(None) if path.stem == made.id)
    return path


def test_what_is_written_comes_back(journal: Journal) -> None:
    made = entry("ch-3333")
    write(journal, made)
    (found,) = journal.entries(CLUSTER)
    assert found.ended is not None
    assert found.results == {ROWS[0].place: None, ROWS[1].place: "not-empty"}
    assert replace(found, ended=None, results={}) == made
    assert journal.entry("ch-3333", CLUSTER) == found


def test_the_plan_stands_there_before_any_result(journal: Journal, directory: Path) -> None:
    writing = journal.begin(entry("ch-3333"))
    (found,) = Journal(directory).entries(CLUSTER)
    writing.close()
    assert (found.rows, dict(found.results), found.ended) == (ROWS, {}, None)


def test_cut_off_anywhere(journal: Journal) -> None:
    """Before the plan is whole, nothing was changed and there is no such change; from then on all of it is there."""
    path = write(journal, entry("ch-3333"))
    whole = path.read_bytes()
    planned = whole.index(b"\n", whole.index(b'{"planned"'))
    seen = []
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = journal.entries(CLUSTER)
        seen.append(len(found))
        if length > planned:
            assert found[0].rows == ROWS, length
        if length < planned:
            assert not found, length
    path.write_bytes(whole)
    assert len(seen) == len(whole)
    assert journal.entries(CLUSTER)[0].ended is not None


@pytest.mark.parametrize("nonsense", ["n\0nsense", "[]", "7", '{"done": 7}', '{"done": [["svc"]]}', "{"])
def test_a_bad_line_after_the_plan_costs_that_line(journal: Journal, nonsense: str) -> None:
    path = write(journal, entry("ch-3333"))
    lines = path.read_text().splitlines()
    where = next(number for number, line in enumerate(lines) if line.startswith('{"done"'))
    path.write_text("\n".join([*lines[:where], nonsense, *lines[where:], ""]))
    (found,) = journal.entries(CLUSTER)
    assert found.rows == ROWS
    assert found.results == {ROWS[0].place: None, ROWS[1].place: "not-empty"}
    assert found.ended is not None


@pytest.mark.parametrize("kind", ["directory", "loop", "garbage", "list", "newer", "bytes"])
def test_a_file_that_cannot_be_read_costs_that_change(journal: Journal, directory: Path, kind: str) -> None:
    made = [entry("ch-3333"), entry("ch-5555", minutes=1)]
    for each in made:
        write(journal, each)
    path = directory / "ch-4444.jsonl"
    if kind == "directory":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_bytes(
            {"garbage": b"\0" * 99, "list": b"[]\n", "newer": b'{"kgroup_journal": 99}\n', "bytes": b"\xff\xfe\n"}[kind]
        )
    assert [found.id for found in journal.entries(CLUSTER)] == ["ch-5555", "ch-3333"], "newest first"
    assert our_commits(journal, CLUSTER, {"svc"}, NOW - timedelta(days=1)) == {
        "svc": {("orders", 0, 12), ("orders", 1, 12)}
    }
    with pytest.raises(KgroupError):
        journal.entry("ch-4444", CLUSTER)
    assert journal.entry("ch-5555", CLUSTER).rows == ROWS


def test_of_this_cluster_only(journal: Journal) -> None:
    write(journal, entry("ch-3333"))
    write(journal, entry("ch-4444", cluster_id="another"))
    assert [found.id for found in journal.entries(CLUSTER)] == ["ch-3333"]
    with pytest.raises(Refused):
        journal.entry("ch-4444", CLUSTER)
    for unknown in ("ch-9999", "../ch-3333", "svc"):
        with pytest.raises(NotFound):
            journal.entry(unknown, CLUSTER)


def test_ids_are_new(journal: Journal, directory: Path) -> None:
    ids = {journal.new_id() for _ in range(200)}
    assert len(ids) > 190
    assert list(directory.glob("ch-*")) == []


def test_the_lock(tmp_path: Path, journal: Journal) -> None:
    """Free, it is taken without a word; it is free again afterwards."""
    reporter = QuietReporter()
    with journal.locked(reporter):
        pass
    with locked(tmp_path):
        pass
    with journal.locked(reporter):
        pass
    assert reporter.lines == []


@pytest.mark.parametrize("place", ["a file", "below a file"])
def test_nowhere_to_write(tmp_path: Path, place: str) -> None:
    """Said the same way before anything is tried, and when it is."""
    (tmp_path / "file").write_text(json.dumps("in the way"))
    journal = Journal(tmp_path / "file" if place == "a file" else tmp_path / "file" / "journal")
    for ask in (journal.check, journal.require_writable):
        with pytest.raises(Refused) as refused:
            ask()
        assert refused.value.code == "no-journal"
        assert "--backup" in str(refused.value.hint)
    assert journal.entries(CLUSTER) == []
