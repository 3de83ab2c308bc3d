"""Hints: commands in a sentence, shown with the options of a connection."""

from __future__ import annotations

import pickle

from kgroup.support.hint import Hint, hints_with_options
from kgroup.support.quoting import join

TEXT = "{}; a new one: {}"
COMMANDS = ("catchup", "list"), ("catchup", "start", "my {group}")


def with_broker(*words: str) -> str:
    return join(("kgroup", *words, "-b", "{x}"))


def test_a_hint_is_its_text() -> None:
    assert Hint(TEXT, *COMMANDS) == "kgroup catchup list; a new one: kgroup catchup start 'my {group}'"


def test_commands_are_shown_with_options_within_the_block() -> None:
    with hints_with_options(with_broker):
        shown = Hint(TEXT, *COMMANDS)

    assert shown == "kgroup catchup list -b '{x}'; a new one: kgroup catchup start 'my {group}' -b '{x}'"
    assert Hint("{}", ("list",)) == "kgroup list"


def test_a_hint_from_a_worker_gets_the_options_of_the_receiver() -> None:
    sent = pickle.dumps(Hint(TEXT, *COMMANDS))

    with hints_with_options(with_broker):
        found = pickle.loads(sent)

    assert found == "kgroup catchup list -b '{x}'; a new one: kgroup catchup start 'my {group}' -b '{x}'"
    assert (found.text, found.commands) == (TEXT, COMMANDS)
