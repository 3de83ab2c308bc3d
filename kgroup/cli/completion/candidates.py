"""What may stand at the cursor of a command line, read from the data file with the tree of verbs.

``kgroup/data/completion.json`` lists the verbs by full name (``context use``; "" is kgroup itself), each with its
options by name and its arguments. ``options`` has an option under its name, or under verb and name where verbs differ.
A ``value`` is null for a flag, a list of words, or a kind: groups, topics, contexts, changes, plans,
files, directories, or text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

DATA = Path(__file__).parents[2] / "data" / "completion.json"
WORDS = "words"


class Candidates(msgspec.Struct, frozen=True):
    """What may stand at the cursor: one of ``words`` (word -> help), or a value of another kind.

    ``before`` is the part of the word at the cursor that precedes the value (``--group=``).
    """

    kind: str
    words: Mapping[str, str] = msgspec.field(default_factory=dict)
    before: str = ""


NOTHING = Candidates(WORDS)


def find_candidates(words: Sequence[str], current: str) -> Candidates:
    """What may stand at the cursor after ``words``, where ``current`` is typed so far; the shell or caller filters."""
    tree = json.loads(DATA.read_text(encoding="utf-8"))
    verbs = tree["verbs"]
    verb, count, typed, options_end = "", 0, set(), False
    waiting: Any = None  # the option whose value comes next
    for word in words[1:]:
        if waiting:
            waiting = None
        elif options_end or not word.startswith("-"):
            full_name = f"{verb} {word}".lstrip()
            if full_name in verbs and not options_end:
                verb = full_name
            else:
                count += 1
        elif word == "--":
            options_end = True
        else:
            name = word.partition("=")[0]
            typed.add(name)
            option = _options(tree, verb).get(name)
            waiting = option if option and option["value"] is not None and name == word else None
    if waiting:
        return _of_value(waiting["value"])
    if current.startswith("-") and not options_end:
        return _at_option(_options(tree, verb), typed, current)
    below = {name.split()[-1]: verbs[name]["help"] for name in verbs if name and name.rpartition(" ")[0] == verb}
    if below and not count:
        return Candidates(WORDS, below)
    arguments = verbs[verb]["arguments"]
    if count >= len(arguments):
        arguments = [argument for argument in arguments[-1:] if argument.get("many")]
        count = 0
    return _of_value(arguments[count]["value"]) if arguments else NOTHING


def _options(tree: Any, verb: str) -> dict[str, Any]:
    """The options of a verb, by each of their names."""
    options = (tree["options"].get(f"{verb} {name}", tree["options"][name]) for name in tree["verbs"][verb]["options"])
    return {name: option for option in options for name in option["names"]}


def _at_option(options: Mapping[str, Any], typed: set[str], current: str) -> Candidates:
    """Options that are not typed yet, or what the option in the word at the cursor takes."""
    name, equals, _ = current.partition("=")
    if not current.startswith("--"):
        name, equals = current[:2], current[2:]
    if equals:
        value = options[name]["value"] if name in options else None
        return NOTHING if value is None else _of_value(value, name + "=" * current.startswith("--"))
    return Candidates(WORDS, dict(_not_typed(options, typed)))


def _not_typed(options: Mapping[str, Any], typed: set[str]) -> Iterator[tuple[str, str]]:
    for name, option in options.items():
        if option.get("many") or typed.isdisjoint(option["names"]):
            yield name, option["help"]


def _of_value(value: str | list[str], before: str = "") -> Candidates:
    return (
        Candidates(value, {}, before) if isinstance(value, str) else Candidates(WORDS, dict.fromkeys(value, ""), before)
    )
