"""What the batches of a query show: their commits, and how long it may be silent."""

from __future__ import annotations

import pytest

from kgroup.groups.streaming.progress import usual_silence_ms
from kgroup.groups.streaming.trouble import source_words, state_words
from kgroup.model.streaming_query import QueryBatch, QuerySource, commits_of, reach_of
from tests.helpers.cases.doctor import NOW, H, M, S
from tests.helpers.cases.doctor_of_queries import TP, batches, query

pytestmark = pytest.mark.quick


def test_each_batch_is_a_commit_of_its_end() -> None:
    of = query(batches(10, 20, last_ago_ms=0))

    assert [(one.log_offset, one.at_ms, one.topic, one.offset) for one in commits_of(of)] == [
        (0, NOW - M, "orders", 10),
        (1, NOW, "orders", 20),
    ]
    reach = reach_of(of)
    assert (reach.start, reach.end, reach.oldest_ms, reach.whole_from) == (0, 2, NOW - M, 0)
    assert not commits_of(query(()))
    assert reach_of(query(())).oldest_ms is None


@pytest.mark.parametrize(
    ("done", "every_s", "usual_ms"),
    [
        ((), None, None),
        (batches(1, 2, 3), None, None),  # two pauses are no habit
        (batches(1, 2, 3, 4), None, 90 * S),
        ((*batches(1, 2, 3, 4), QueryBatch(4, NOW, {TP: 5}, NOW + 9 * H)), None, 90 * S),  # it was down once
        (batches(1), 3600.0, 90 * M),
        (batches(1, 2, 3, 4, every_ms=2 * H), 3600.0, 3 * H),
    ],
)
def test_how_long_it_may_be_silent(done: tuple[QueryBatch, ...], every_s: float | None, usual_ms: int | None) -> None:
    assert usual_silence_ms(query(done, every_s=every_s)) == usual_ms


def test_words() -> None:
    runs = query(batches(10, 20, last_ago_ms=41 * M))

    assert state_words(runs, NOW) == "batch 1 done 41m ago"
    planned = query(batches(10), planned=QueryBatch(1, NOW - 2 * H, {TP: 20}))
    assert state_words(planned, NOW) == "batch 1 planned 2h ago, not done"
    assert state_words(query(()), NOW) == "no batch yet"
    assert source_words(runs) == "orders"
    sources = (QuerySource("0", ("orders",)), QuerySource("1", ()), QuerySource("2", ("payments",)))
    several = query(batches(10), sources=sources, stateful=True)
    assert source_words(several) == "orders and payments, 1 source without offsets in Kafka, keeps state"
