"""Hints: commands in a sentence, shown with the options of a connection."""

from __future__ import annotations

import pickle

from kgroup.support.hint import Hint
from kgroup.support.quoting import join

HINT = Hint("{}; a new one: {}", ("catchup", "list"), ("catchup", "start", "my {group}"))


def test_a_hint_is_its_text() -> None:
    assert HINT == "kgroup catchup list; a new one: kgroup catchup start 'my {group}'"


def test_commands_are_shown_with_options() -> None:
    shown = HINT.shown(lambda *words: join(("kgroup", *words, "-b", "{x}")))

    assert shown == "kgroup catchup list -b '{x}'; a new one: kgroup catchup start 'my {group}' -b '{x}'"


def test_a_hint_comes_from_a_worker_as_it_is() -> None:
    found = pickle.loads(pickle.dumps(HINT))

    assert (found, found.text, found.commands) == (HINT, HINT.text, HINT.commands)
