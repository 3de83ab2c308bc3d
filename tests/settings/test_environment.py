"""Variables: an empty one is none, and what is set for a library is put back."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from kgroup.settings.environment import is_dumb_terminal, variable, variables_set


@pytest.mark.parametrize(("value", "found"), [("x", "x"), ("", None), (None, None)])
def test_an_empty_variable_is_none(value: str | None, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGROUP_X", raising=False)
    if value is not None:
        monkeypatch.setenv("KGROUP_X", value)
    assert variable("KGROUP_X") == found


@pytest.mark.parametrize(("terminal", "dumb"), [("dumb", True), ("xterm", False), ("", False)])
def test_a_dumb_terminal(terminal: str, dumb: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", terminal)
    assert is_dumb_terminal() is dumb


def test_variables_are_as_before_even_after_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_A", "before")
    monkeypatch.delenv("KGROUP_B", raising=False)
    with suppress(ZeroDivisionError), variables_set({"KGROUP_A": "1", "KGROUP_B": "2"}):
        assert (os.environ["KGROUP_A"], os.environ["KGROUP_B"]) == ("1", "2")
        _ = 1 / 0
    assert (os.environ["KGROUP_A"], os.environ.get("KGROUP_B")) == ("before", None)
