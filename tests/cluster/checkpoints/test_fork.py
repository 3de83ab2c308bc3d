"""Forks of recorded checkpoints: where they begin, and the batches that are planned in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgroup.cluster.checkpoints.files import read_query
from kgroup.cluster.checkpoints.fork import make_fork, plan_next
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import Refused, Unreachable
from tests.helpers.checkpoints import recorded_checkpoint

pytestmark = pytest.mark.quick
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
STARTS = {FIRST: Commit(2, None, "kgroup cu-7f3a 1 gap"), SECOND: Commit(1, None, "kgroup cu-7f3a 1 gap")}
AT_MS = 1_795_962_000_000


@pytest.mark.parametrize("kind", ["stateless-3.5.9", "stateless-4.3.0", "log-v2-4.3.0", "planned-4.3.0"])
def test_a_fork_begins_at_the_start_of_the_gap_as_another_query(tmp_path: Path, kind: str) -> None:
    root, fork = recorded_checkpoint(kind, tmp_path), tmp_path / "forks" / "a"
    query = read_query(str(root), 5)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    make_fork(query, fork, STARTS, AT_MS)

    forked = read_query(str(fork), 5)
    assert forked.commits == {**query.commits, **STARTS}
    assert forked.planned is None
    assert forked.id not in (None, query.id)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert [path.name for path in fork.parent.iterdir()] == ["a"]


def test_its_next_batch_is_planned_as_spark_plans_it(tmp_path: Path) -> None:
    fork = tmp_path / "fork"
    make_fork(read_query(str(recorded_checkpoint("stateless-4.3.0", tmp_path)), 5), fork, STARTS, AT_MS)
    forked = read_query(str(fork), 5)

    number = plan_next("spark:fork", forked, {FIRST: 4, SECOND: 3}, AT_MS)

    planned = read_query(str(fork), 5).planned
    assert planned is not None
    assert (planned.number, planned.moved) == (number, {})
    assert planned.ends == {**forked.offsets, FIRST: 4, SECOND: 3}
    metadata = json.loads((fork / "offsets" / str(number)).read_text().splitlines()[1])
    assert "kgroup" not in metadata["conf"]
    with pytest.raises(Refused) as refused:
        plan_next("spark:fork", forked, {FIRST: 9}, AT_MS)
    assert refused.value.code == "moved-since"


def test_a_folder_that_is_there_is_kept(tmp_path: Path) -> None:
    query, fork = read_query(str(recorded_checkpoint("stateless-4.3.0", tmp_path)), 5), tmp_path / "fork"
    fork.mkdir()
    (fork / "own").write_text("kept")

    with pytest.raises(Unreachable):
        make_fork(query, fork, STARTS, AT_MS)

    assert [path.name for path in fork.iterdir()] == ["own"]
    assert not list(tmp_path.glob(".fork*"))


def test_a_query_that_keeps_state_has_no_fork(tmp_path: Path) -> None:
    query = read_query(str(recorded_checkpoint("aggregation-4.3.0", tmp_path)), 5)

    with pytest.raises(Refused) as refused:
        make_fork(query, tmp_path / "fork", STARTS, AT_MS)

    assert refused.value.code == "stateful-query"
    assert not (tmp_path / "fork").exists()
