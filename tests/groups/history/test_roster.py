"""The last change of the members that lasted: fewer of them, or all replaced."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgroup.groups.history.roster import RosterChange, roster_change
from tests.groups.history.test_signatures import rolling, start
from tests.helpers.cases.history import T0, Log, member


def sizes(*sizes: tuple[float, int]) -> Log:
    """So many members at these times; the first ones stay."""
    log = Log()
    for number, (at, size) in enumerate(sizes):
        log.at(at).generation(number, *(member(f"m{n}/1", n) for n in range(size)))
    return log


def held() -> Log:
    """kgroup joined for a change, between three members and three."""
    log = sizes((0, 3), (600, 0)).at(610).generation(3, member("kgroup-migrate-1")).at(620).generation(4)
    return log.at(630).generation(5, *(member(f"m{n}/2", n) for n in range(3)))


@pytest.mark.parametrize(
    ("write", "change"),
    [
        pytest.param(lambda: sizes((0, 3)), None, id="none"),
        pytest.param(lambda: sizes((0, 1), (5, 3)), None, id="more"),
        pytest.param(lambda: sizes((0, 3), (600, 1)), (600, 600, 3, 1), id="fewer"),
        pytest.param(lambda: sizes((0, 3), (600, 2), (610, 1)), (600, 610, 3, 1), id="one after the other"),
        pytest.param(lambda: sizes((0, 3), (600, 2), (1600, 1)), (1600, 1600, 2, 1), id="a step long before"),
        pytest.param(lambda: sizes((0, 3), (600, 1), (900, 3)), None, id="back"),
        pytest.param(lambda: sizes((0, 3), (600, 0), (660, 1)), (660, 660, 3, 1), id="stopped, and started with fewer"),
        pytest.param(lambda: sizes((0, 3), (600, 0)), None, id="stopped"),
        pytest.param(held, None, id="kgroup's own member"),
    ],
)
def test_what_lasted(write: Callable[[], Log], change: tuple[float, float, int, int] | None) -> None:
    found = roster_change(write().steps())

    assert (None if found is None else ((found.began_ms - T0) // 1000, (found.ended_ms - T0) // 1000)) == (
        None if change is None else change[:2]
    )
    assert (None if found is None else (found.before, found.after)) == (None if change is None else change[2:])


def test_a_rollout() -> None:
    found = roster_change(rolling(start(), 0).steps())

    assert found is not None
    assert found.before == found.after > 1
    assert found.words(found.ended_ms).startswith(f"after all {found.before} members were replaced at ")


def test_words() -> None:
    assert RosterChange(T0, T0, 3, 1).words(T0) == "as 3 members became 1 at 03:00:00Z"
