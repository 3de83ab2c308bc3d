"""What is said of commits that the broker leaves out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.lag.checks import LagBounds, check_hidden, check_lag
from kgroup.groups.lag.evidence import LagEvidence
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.wait_conditions import LagAtMost, LagTimeBelow, Observation, total_lag
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, Partition
from kgroup.model.hidden_commits import Hidden, hidden_notes, hidden_words
from kgroup.model.topic_partition import TopicPartition

READ = Partition(TopicPartition("orders", 0), Commit(10, None, ""), LogRange(0, 10), None, None)
GROUP = Group("svc", "classic", "Empty", "consumer", None, None, None, None, None, None, (), (READ,))
MISSING = "commits on topics that you may not describe may be missing"
NOW_MS = 1_795_229_931_000


@pytest.mark.parametrize(
    ("hidden", "words"),
    [
        ((), None),
        (None, MISSING),
        ((("pay", 0),), "1 commit on pay hidden: no DESCRIBE on Topic"),
        ((("pay", 0), ("pay", 1), ("audit", 0)), "3 commits on audit, pay hidden: no DESCRIBE on Topic"),
        (
            tuple((f"t{n}", 0) for n in range(7)),
            "7 commits on t0, t1, t2, t3, t4 and 2 more hidden: no DESCRIBE on Topic",
        ),
    ],
)
def test_words(hidden: Hidden, words: str | None) -> None:
    assert hidden_words(hidden) == words


@pytest.mark.parametrize(
    ("groups", "notes"),
    [
        ({"a": (), "b": ()}, []),
        ({"a": None}, [f"{MISSING}: "]),
        ({"a": None, "b": None}, [f"{MISSING}: "]),
        ({"a": None, "b": ()}, [f"{MISSING} of 1 of 2 groups: "]),
        ({"a": (("t", 0),), "b": None}, ["a: 1 commit on t hidden", f"{MISSING} of 1 of 2 groups: "]),
        (
            {f"g{n}": (("t", 0),) for n in range(7)},
            [*(f"g{n}: 1 commit" for n in range(5)), "2 more groups: 2 commits"],
        ),
    ],
)
def test_notes(groups: dict[str, Hidden], notes: list[str]) -> None:
    said = list(hidden_notes(groups))
    assert [text.startswith(note) for text, note in zip(said, notes, strict=True)] == [True] * len(notes), said


@pytest.mark.parametrize("hidden", [None, (("pay", 0),)])
def test_no_bound_holds(hidden: tuple[TopicPartition, ...] | None) -> None:
    """All that is shown is read; what is not shown may lag by anything."""
    group = replace(GROUP, hidden_commits=hidden)
    seen, partly = measure_lag(GROUP, LagEvidence(NOW_MS)), measure_lag(group, LagEvidence(NOW_MS))
    bounds = LagBounds(max_lag=1000, max_lag_time_s=60.0)
    assert check_lag([seen.total], bounds, NOW_MS) == check_hidden(seen) == ()
    assert [(violation.known, violation.subject) for violation in check_lag([partly.total], bounds, NOW_MS)] == [
        (False, "svc")
    ] * 2
    assert [violation.known for violation in check_hidden(partly)] == [False]
    assert (total_lag(GROUP), total_lag(group)) == (0, None)
    for condition in (LagAtMost(1000), LagTimeBelow(60.0)):
        assert condition.judge(Observation("svc", GROUP, NOW_MS)).holds
        assert not condition.judge(Observation("svc", group, NOW_MS)).holds
