"""Falls of an offset that returns: which of them belong together, and whether one or two commit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kgroup.groups.repeated_falls import Writers, hops, repeated_falls, without_hops
from kgroup.model.groups import LoggedCommit
from tests.helpers.cases.lag import MINUTE, SECOND, at

ONE, TWO, UNKNOWN = Writers.ONE, Writers.TWO, Writers.UNKNOWN


def rhythm(offsets: Iterable[int], pause: int = SECOND) -> list[LoggedCommit]:
    found = list(offsets)
    return [at((len(found) - number) * pause, offset) for number, offset in enumerate(found)]


def rounds(*of_round: tuple[int, int]) -> list[int]:
    """Twenty rounds; of each offset the first one, and how far it moves on in each round."""
    return [first + number * gain for number in range(20) for first, gain in of_round]


FLIPS = [1000, 1001] * 5
BATCH = [*range(990, 1001)]


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        # One client: the next offset alone, or each record of a batch that fails.
        (rhythm(FLIPS), [(4, ONE)]),
        (rhythm([*FLIPS, 1000]), [(5, ONE)]),
        (rhythm(BATCH * 4), [(3, ONE)]),
        (rhythm([*BATCH, *range(990, 996), *BATCH, *BATCH, *range(990, 993), *BATCH]), [(5, ONE)]),
        # Two: at least one moves on, far from the other.
        (rhythm(rounds((5030, 10), (10, 0))), [(20, TWO)]),
        (rhythm(rounds((10, 0), (5030, 10))), [(19, TWO)]),
        (rhythm(rounds((1500, 0), (1010, 1))), [(20, TWO)]),
        (rhythm(rounds((5000, 10), (10, 2), (11, 2))), [(20, TWO)]),
        # ... three
        (rhythm(rounds((10, 0), (100, 0), (5030, 10))), [(19, TWO)]),
        # Not told apart: both stand, the upper one goes as far as it may read in a round, both overlap.
        (rhythm([10, 5030] * 4), [(3, UNKNOWN)]),
        (rhythm([700, 800] * 4), [(3, UNKNOWN)]),
        (rhythm([100, 110, 100, 112, 100, 115, 100]), [(3, UNKNOWN)]),
        (rhythm(rounds((1001, 1), (1000, 1))), [(20, UNKNOWN)]),
        # Too few, too far apart, or no return.
        (rhythm([1000, 1001, 1000, 1001, 1000]), []),
        (rhythm(FLIPS, pause=6 * MINUTE), []),
        (rhythm(FLIPS, pause=4 * MINUTE), [(4, ONE)]),
        (rhythm([9000, 100, 200, 5000, 4000, 4500, 2000, 2500]), []),
        (rhythm(range(100)), []),
        ([], []),
        # A fall that does not return is none of them: before them, or much further than they are.
        (rhythm([9000, *[*range(100, 150)] * 3, *range(100, 170)]), [(3, ONE)]),
        (rhythm([*FLIPS, 1500, 0, 1, 2]), [(4, ONE)]),
        # A tool's commit ends them, and moves nothing back itself.
        ([*rhythm(FLIPS)[:6], replace(rhythm(FLIPS)[6], by_tool=True), *rhythm(FLIPS)[7:]], []),
    ],
)  # fmt: skip
def test_falls_that_belong_together(commits: Sequence[LoggedCommit], expected: list[tuple[int, Writers]]) -> None:
    assert [(len(falls.indices), falls.writers) for falls in repeated_falls(commits)] == expected


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3 * MINUTE), st.booleans()), max_size=60))
def test_each_is_a_fall_of_a_consumer(drawn: list[tuple[int, int, bool]]) -> None:
    commits, ago = [], 3 * MINUTE * len(drawn)
    for offset, pause, by_tool in drawn:
        ago -= pause
        commits.append(replace(at(ago, offset), by_tool=by_tool and offset == 0))

    found = list(repeated_falls(commits))

    for falls in found:
        assert len(falls.indices) >= 3
        for index, high, low in zip(falls.indices, falls.highs, falls.lows, strict=True):
            assert (commits[index - 1].offset, commits[index].offset) == (high, low)
            assert high > low
            assert not commits[index].by_tool
    assert all(earlier.indices[-1] < later.indices[0] for earlier, later in pairwise(found))


def offsets(commits: Iterable[LoggedCommit]) -> list[int]:
    return [commit.offset for commit in commits]


def test_a_hop_returns_at_once_to_where_it_stood() -> None:
    """As Java's client of the consumer protocol was seen to commit, where its application sought back to 86."""
    seen = rhythm([75, 86, 86, 86, 169, 86, 191, 203, 86, 86, 385, 86, 86])
    assert [(hop.indices, hop.back) for hop in hops(seen)] == [((4,), 5), ((6, 7), 8), ((10,), 11)]
    assert offsets(without_hops(seen)) == [75, *[86] * 8]


@pytest.mark.parametrize(
    "commits",
    [
        # It stood nowhere before, went further than two commits, or came back to another offset.
        rhythm([75, 86, 169, 86, 86]),
        rhythm([86, 86, 100, 150, 169, 86, 86]),
        rhythm([86, 86, 169, 85, 85]),
        # A tool moved it back, or had moved it on.
        [*rhythm([86, 86, 169], pause=9), replace(at(1, 86), by_tool=True), at(0, 86)],
        [*rhythm([86, 86], pause=9), replace(at(2, 169), by_tool=True), at(1, 86), at(0, 86)],
        # Two writers: an idle stranger, and an owner that moves on.
        rhythm([*[10, 10], *(o for n in range(20) for o in (5030 + 10 * n, 10, 10))]),
    ],
)
def test_what_is_no_hop_of_one_client(commits: list[LoggedCommit]) -> None:
    assert without_hops(commits) == commits
