"""The journal's files: what is written comes back, whole or cut off anywhere, and damage costs one change only."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from kgroup.changes.journal import Journal, line_of, our_commits
from kgroup.changes.undo import change_state, may_be_done
from kgroup.model.commit import Commit
from kgroup.model.journal import JournalEntry, JournalRow
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import NotFound, Refused
from tests.helpers.command_line import QuietReporter
from tests.helpers.journals import documents, locked, rewrite

NOW = datetime(2026, 11, 21, 14, 46, tzinfo=UTC)
CLUSTER = "Some-cluster-id-of-22-c"
ROWS = (
    JournalRow("svc", "orders", 0, Commit(5, 3, 'by hand: "é"\n'), Commit(12, 4, "")),
    JournalRow("svc", "orders", 1, None, Commit(12, None, "")),
    JournalRow("other", "orders", 0, Commit(5, None, ""), None),
)


def entry(change_id: str, cluster_id: str = CLUSTER, minutes: int = 0) -> JournalEntry:
    """A change of two groups, one of which it deletes."""
    return JournalEntry(
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


def write(journal: Journal, made: JournalEntry, *, close: bool = True) -> Path:
    """Its plan, two results, and its end."""
    writing = journal.begin(made)
    writing.record_results({ROWS[0].key: None, ROWS[1].key: Refused("somebody is in it", code="not-empty")})
    if close:
        writing.close()
    (path,) = (path for path in journal.files(None) if path.stem == made.id)
    return path


def test_what_is_written_comes_back(journal: Journal) -> None:
    made = entry("ch-3333")
    path = write(journal, made)
    assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o077 == 0, "for its owner alone"
    (found,) = journal.entries(CLUSTER)
    assert found.ended is not None
    assert found.results == {ROWS[0].key: None, ROWS[1].key: "not-empty"}
    assert replace(found, ended=None, results={}) == made
    assert journal.entry("ch-3333", CLUSTER) == found


def migration(change_id: str) -> JournalEntry:
    """Three groups that change their type, with a setting, and a fourth that only gets that."""
    names = ("a", "b", "c", "d")
    return replace(
        entry(change_id),
        what="migrate",
        groups={**dict.fromkeys(names[:3], "classic"), "d": "consumer"},
        created=frozenset(),
        deleted=frozenset(),
        converted=dict.fromkeys(names[:3], ("classic", "consumer")),
        configs={name: {"consumer.session.timeout.ms": (None, "50000")} for name in names},
    )


def test_types_and_settings_of_groups_come_back_apart(journal: Journal) -> None:
    """Each has a result of its own: a setting may be there where the conversion is not, and the other way round."""
    made, unknown = migration("ch-3333"), Refused("nobody knows", code="outcome-unknown")
    writing = journal.begin(made)
    writing.record_results({row.key: None for row in ROWS})
    writing.converted({"a": None, "b": unknown})
    writing.configured({"a": None})
    writing.converted({"a": Refused("gone", code="commits-missing")})  # the last word
    writing.configured({"d": unknown})
    writing.converted({})
    writing.configured({})
    writing.close()
    (found,) = journal.entries(CLUSTER)
    assert found.migrates
    assert found.conversions == {"a": "commits-missing", "b": "outcome-unknown"}
    assert found.configured == {"a": None, "d": "outcome-unknown"}
    assert replace(found, ended=None, results={}, conversions={}, configured={}) == made
    assert [line for line in documents(journal.directory / "ch-3333.jsonl") if {} in line.values()] == []


@pytest.mark.parametrize("left", ["converted", "configured"])
def test_killed_before_the_result_of(journal: Journal, left: str) -> None:
    """What is missing is not known; what stands there before it is."""
    writing = journal.begin(migration("ch-3333"))
    writing.converted({"a": None})
    if left == "converted":
        writing.configured({"a": None})
    found = Journal(journal.directory).entry("ch-3333", CLUSTER)
    writing.close()
    assert found.ended is None
    assert found.conversions == {"a": None}
    assert found.configured == ({"a": None} if left == "converted" else {})


def test_the_plan_stands_there_before_any_result(journal: Journal, directory: Path) -> None:
    writing = journal.begin(entry("ch-3333"))
    (found,) = Journal(directory).entries(CLUSTER)
    writing.close()
    assert (found.rows, dict(found.results), found.ended) == (ROWS, {}, None)


def test_cut_off_anywhere(journal: Journal) -> None:
    """Before the plan is whole, nothing was changed and there is no such change; from then on all of it is there."""
    path = write(journal, entry("ch-3333"))
    whole = path.read_bytes()
    planned = whole.index(b"\n", whole.index(b'"planned"'))
    seen = []
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = journal.entries(CLUSTER)
        seen.append(len(found))
        assert journal.unreadable == 0, length
        if length > planned:
            assert found[0].rows == ROWS, length
        else:
            assert not found, length
    path.write_bytes(whole)
    assert len(seen) == len(whole)
    assert journal.entries(CLUSTER)[0].ended is not None


@pytest.mark.parametrize("way", ["broken", "missing", "nonsense before it"])
def test_a_result_that_is_lost_leaves_open_what_was_changed(journal: Journal, way: str) -> None:
    """The end does not show that rows without a result were not changed."""
    path = write(journal, entry("ch-3333"))
    lines = path.read_text().splitlines(keepends=True)
    (where,) = (number for number, line in enumerate(lines) if '"done"' in line)
    lines[where] = {"broken": lines[where].replace("svc", "sva"), "missing": "", "nonsense before it": "n\0\n"}[way]
    path.write_text("".join(lines))
    (found,) = journal.entries(CLUSTER)
    assert (found.rows, found.results, found.ended, found.damage) == (ROWS, {}, None, None)
    assert all(may_be_done(found, row.key) for row in ROWS)


def test_a_bad_line_between_results_costs_nothing_else(journal: Journal) -> None:
    path = write(journal, entry("ch-3333"))
    text = path.read_text()
    path.write_text(text + "n\0nsense\n")
    (found,) = journal.entries(CLUSTER)
    assert found.results == {ROWS[0].key: None, ROWS[1].key: "not-empty"}
    assert found.ended is not None
    assert not may_be_done(found, ROWS[2].key), "it was not reached"


@pytest.mark.parametrize("began", [True, False], ids=["with results", "killed before the first result"])
@pytest.mark.parametrize("way", ["digit", "half", "gone"])
@pytest.mark.parametrize(("line", "kept"), [(2, ROWS[2:]), (3, ROWS[:2]), (4, ROWS)], ids=["rows", "rest", "end"])
def test_a_damaged_line_of_the_plan_is_found(
    journal: Journal, line: int, kept: tuple[JournalRow, ...], way: str, began: bool
) -> None:
    """It never looks like a plan that changed nothing; rows of the other lines are known."""
    path = write(journal, entry("ch-3333"))
    lines = path.read_text().splitlines(keepends=True)[: None if began else 4]
    text = lines[line - 1]
    digit = re.sub(r"(\d)(?=\D*$)", lambda found: str((int(found[1]) + 1) % 10), text)
    lines[line - 1] = {"digit": digit, "half": f"{text[: len(text) // 2]}\n", "gone": ""}[way]
    path.write_text("".join(lines))
    if way == "gone" and line == 4 and not began:
        assert journal.entries(CLUSTER) == [], "cut off before anything was changed"
        return
    (found,) = journal.entries(CLUSTER)
    assert found.rows == kept
    where = f"a line of {path} is missing" if way == "gone" else f"line {line} of {path} is damaged"
    assert found.damage == where
    assert change_state(found, [found]) == "damaged"


def test_a_first_line_that_is_damaged(journal: Journal) -> None:
    """The change may have been applied: it must not look like one of which nothing was applied."""
    path = write(journal, entry("ch-3333"))
    path.write_text(path.read_text().replace("svc", "sv", 1))
    assert journal.entries(CLUSTER) == []
    assert journal.unreadable == 1
    with pytest.raises(Refused, match="is damaged") as refused:
        journal.entry("ch-3333", CLUSTER)
    assert refused.value.code == "damaged-journal"


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
            {
                "garbage": b"\0" * 99 + b"\n",
                "list": b"[]\n",
                "newer": line_of({"kgroup_journal": 99}).encode(),
                "bytes": b"\xff\xfe\n",
            }[kind]
        )
    assert [found.id for found in journal.entries(CLUSTER)] == ["ch-5555", "ch-3333"], "newest first"
    assert our_commits(journal, CLUSTER, {"svc"}, NOW - timedelta(days=1)) == {
        "svc": {("orders", 0, 12)}  # the other row was refused
    }
    with pytest.raises(NotFound if kind in ("directory", "loop") else Refused):
        journal.entry("ch-4444", CLUSTER)
    assert journal.entry("ch-5555", CLUSTER).rows == ROWS


def test_a_change_of_a_newer_version_is_there_and_not_understood(journal: Journal, directory: Path) -> None:
    """Whatever its lines mean: they are not read as if they were ours."""
    path = write(journal, entry("ch-3333"))
    head, *lines = documents(path)
    rewrite(path, [{**head, "kgroup_journal": 2}, *({**line, "rows": [{}]} for line in lines)])
    assert journal.entries(CLUSTER) == []
    assert journal.unreadable == 1
    assert our_commits(journal, CLUSTER, {"svc"}, NOW - timedelta(days=1)) == {}
    with pytest.raises(Refused, match="ch-3333 was written by a newer version of kgroup") as refused:
        journal.entry("ch-3333", CLUSTER)
    assert refused.value.code == "newer-journal"
    assert str(path) in refused.value.details[0]
    assert directory in path.parents


@pytest.mark.parametrize(
    "change",
    [
        {"kgroup_journal": None}, {"at": "noon"}, {"who": 7}, {"groups": ["svc"]}, {"cluster_id": 7},
        {"configs": {"svc": {"a": [None]}}},
    ],
)  # fmt: skip
def test_a_first_line_of_another_shape(journal: Journal, change: dict[str, object]) -> None:
    """Its checksum is right and its fields are not: another program wrote it."""
    path = write(journal, entry("ch-3333"))
    head, *lines = documents(path)
    rewrite(path, [{**head, **change}, *lines])
    assert (journal.entries(CLUSTER), journal.unreadable) == ([], 1)
    with pytest.raises(Refused, match="is damaged"):
        journal.entry("ch-3333", CLUSTER)


def test_a_first_line_alone_changed_nothing(journal: Journal, directory: Path) -> None:
    (directory / "ch-3333.jsonl").write_text(line_of({"kgroup_journal": 1}))
    assert (journal.entries(CLUSTER), journal.unreadable) == ([], 0)


@pytest.mark.parametrize("wrong", [{"rows": [["orders", 0, None]]}, {"rows": [["orders", "0", None, None]]},
                                   {"done": [["svc", "orders", 0]]}, {"planned": "3"}])  # fmt: skip
def test_a_line_of_another_shape(journal: Journal, wrong: dict[str, object]) -> None:
    path = write(journal, entry("ch-3333"))
    rewrite(path, [*documents(path), {"group": "svc", **wrong}])
    assert (journal.entries(CLUSTER), journal.unreadable) == ([], 1)
    assert our_commits(journal, CLUSTER, {"svc"}, NOW - timedelta(days=1)) == {}


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


def test_a_change_is_never_written_over_another(journal: Journal) -> None:
    written = write(journal, entry("ch-3333")).read_bytes()
    with pytest.raises(Refused) as caught:
        journal.begin(entry("ch-3333", minutes=1))
    assert caught.value.code == "no-journal"
    (path,) = journal.files(None)
    assert path.read_bytes() == written


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
