"""The shape of a printed command: what it does, without names, addresses and files, its offsets relative to symbols.

`kgroup reset orders.g --to-offset orders.t:0=1001 --save-skipped t-0-1000.jsonl -b host` is, where P is 1000,
`reset --to-offset t:0=P+1 --save-skipped`.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CHANGING: Final = frozenset({"reset", "delete-offsets", "delete", "evict", "undo", "catchup"})
"""Verbs whose advice a healthy group must never get. `migrate` is an offer, made to healthy groups alone."""

PLANNED: Final = frozenset({"catchup"})
"""Of these the plan alone is tried: `catchup` delivers by Spark."""

_SETTING: Final = re.compile(r"([a-z][a-z.]+)=(\S+?)( as a config of the group \S+)?")

_LEFT_OUT: Final = frozenset({"-b", "--bootstrap-server", "--timeout", "-o", "--output", "--execute"})
_FAR: Final = 2
_PLACE: Final = re.compile(r"(.+:\d+)(?:=(\d+))?")
_SYMBOL: Final = re.compile(r"=([PBCE])([+-]\d+)?\b")
_NUMBER: Final = re.compile(r"=\d+")
_TO_FILL_IN: Final = re.compile(r"[A-Z][A-Z-]*")
_NAMES: Final = frozenset({"--instance", "--member", "--client", "--topic"})


def shape(command: str, group: str, topics: Mapping[str, str], symbols: Mapping[str, int]) -> str:
    """The shape of a command about `group`; `topics` are the broker's names by the row's."""
    for name, real in sorted(topics.items(), key=lambda pair: -len(pair[1])):
        command = command.replace(real, name)
    words = shlex.split(command)
    words = [word for word in words[1 if words[:1] == ["kgroup"] else 0 :] if word != group]
    shaped, skipped, option = [], False, ""
    for word in words:
        if skipped:
            skipped = False
        elif word in _LEFT_OUT:
            skipped = word != "--execute"
        elif word.startswith("-"):
            option = word
            shaped.append(word)
        elif match := _PLACE.fullmatch(word):
            place, offset = match.groups()
            shaped.append(f"{place}={relative(int(offset), symbols)}" if offset else place)
        elif not option or option in _NAMES or word in topics:
            shaped.append(word)
    return " ".join(shaped)


def relative(offset: int, symbols: Mapping[str, int]) -> str:
    """`P+1` for the offset after P; the number itself where no symbol is near."""
    for name in "PBCE":
        away = offset - symbols.get(name, offset)
        if name in symbols and abs(away) <= _FAR:
            return f"{name}{away:+d}" if away else name
    return str(offset)


def matches(shaped: str, pattern: str, symbols: Mapping[str, int]) -> bool:
    """Whether a shape has the words of a row's pattern: `reset` is any reset, `reset t:0=P+2` that one.

    `t:0=B+1` is the same as `t:0=P-2` where the numbers are the same.
    """

    def near(match: re.Match[str]) -> str:
        value = symbols.get(match[1])
        return "=unknown" if value is None else f"={relative(value + int(match[2] or 0), symbols)}"

    return set(_SYMBOL.sub(near, pattern).split()) <= set(shaped.split())


def alike(shaped: str, other: str) -> bool:
    """Whether two shapes are of one advice: an offset that no symbol is near differs from run to run."""
    return _NUMBER.sub("=N", shaped) == _NUMBER.sub("=N", other)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting that was printed: of clients, or of the group, which has no clients to restart."""

    name: str
    value: str
    of_group: bool


def setting(command: str) -> Setting | None:
    """The setting that a printed line is; None of a command."""
    match = _SETTING.fullmatch(command)
    return Setting(match[1], match[2], bool(match[3])) if match else None


def can_run(command: str) -> bool:
    """Whether a command is one of kgroup's with nothing to fill in: not a setting, a tool of Kafka, or `--to TOPIC`."""
    words = shlex.split(command)
    return words[:1] == ["kgroup"] and not any(_TO_FILL_IN.fullmatch(word) for word in words)


def changes(shaped: str) -> bool:
    """Whether the command of a shape would change something."""
    return shaped.split(" ", 1)[0] in CHANGING
