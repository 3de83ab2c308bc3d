"""What a verb said, held against what is true: right, told apart from nothing else, early, silent, wrong or harmful.

What a row neither lists as right nor allows is wrong: a rule of kgroup that is new cannot be wrong unnoticed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tests.situations.advice import changes, matches
from tests.situations.row import Row
from tests.situations.said import Said

ALARMS: Final = frozenset({"rewind", "stall", "stop", "no-reader"})
"""Statuses that get somebody out of bed. WARN and UNSUBSCRIBED are wrong only where a row says so."""

ALLOWED_RULES: Final = frozenset({"not-static", "ready-to-migrate"})
BESIDE_A_STALL: Final = frozenset({"skewed-lag"})
_TOLD_APART: Final = re.compile(r"cannot be told apart|does not show which")
_SYMBOL: Final = re.compile(r"<([PBCE])([+-]\d+)?>")


class Worth(StrEnum):
    """What a verb's answer is worth."""

    RIGHT = "right"
    TOLD_APART = "told-apart"  # the true cause is among those that it says cannot be told apart
    EARLY = "early"  # it says nothing, and why it cannot yet
    SILENT = "silent"  # it says nothing
    WRONG = "wrong"
    HARMFUL = "harmful"  # it prints a command that would do damage


BAD: Final = frozenset({Worth.WRONG, Worth.HARMFUL})
NAMED: Final = frozenset({Worth.RIGHT, Worth.TOLD_APART})


@dataclass(frozen=True, slots=True)
class Cell:
    """What one verb's answer at one moment is worth, and why it is bad."""

    verb: str
    worth: Worth
    why: str = ""
    commands: tuple[str, ...] = ()  # shapes


def conclude(row: Row, said: Said, symbols: Mapping[str, int]) -> Cell:
    """The worth of what a verb said of a row's group."""
    harmful = [command for command in said.commands if _is_harmful(command, row, symbols)]
    wrong = list(_wrong(row, said, symbols))
    if harmful or wrong:
        why = "; ".join([*(f"prints `{command}`" for command in harmful), *wrong])
        return Cell(said.verb, Worth.HARMFUL if harmful else Worth.WRONG, why, tuple(said.commands))
    return Cell(said.verb, _worth(row, said, symbols), commands=tuple(said.commands))


def _is_harmful(command: str, row: Row, symbols: Mapping[str, int]) -> bool:
    """A command that helps does no harm, as a skip of the first record of a batch where just that is the bad one."""
    return any(matches(command, harm, symbols) for harm in row.harms) and not any(
        matches(command, help_, symbols) for help_ in row.helps
    )


def named(cells: tuple[Cell, ...]) -> bool:
    """Whether the cause is named rightly: by describe or doctor, and no verb is bad."""
    return any(cell.worth in NAMED for cell in cells if cell.verb in ("describe", "doctor")) and not any(
        cell.worth in BAD for cell in cells
    )


def _worth(row: Row, said: Said, symbols: Mapping[str, int]) -> Worth:
    if row.healthy:
        return Worth.RIGHT
    if _right(row, said, symbols):
        apart = _TOLD_APART.search(" ".join(said.sentences))
        return Worth.TOLD_APART if apart else Worth.RIGHT
    return Worth.EARLY if said.early else Worth.SILENT


def _right(row: Row, said: Said, symbols: Mapping[str, int]) -> bool:
    """Describe must say the row's words, if it has any: a status beside other words is not the cause."""
    words = _words(row.right, said.verb)
    places = {at.place for at in row.at}
    match said.verb:
        case "doctor":
            rules = row.right.rules.split()
            return any(
                each.rule in rules and (not places or not each.places or _names(each.places, places, row))
                for each in said.findings
            ) or (bool(words) and _finds(words, said, symbols))
        case "describe" | "lag" if row.right.lag and not words:
            statuses = row.right.lag.split()
            return any(
                status in statuses and (not places or place in places) for place, status in said.statuses.items()
            )
        case "peek" if not words:
            return any(at.offset and _finds(f"shows {at.place} <{at.offset}>", said, symbols) for at in row.at)
    return bool(words) and _finds(words, said, symbols)


def _names(found: tuple[str, ...], places: set[str], row: Row) -> bool:
    """Findings about members or the whole group name no place."""
    return not any(re.fullmatch(r".+:\d+", each) for each in found) or not places.isdisjoint(found)


def _wrong(row: Row, said: Said, symbols: Mapping[str, int]) -> Iterator[str]:
    places = {at.place for at in row.at}
    true_rules = {*row.right.rules.split(), *row.allowed.rules.split(), *ALLOWED_RULES}
    if not row.healthy:
        true_rules |= BESIDE_A_STALL
    allowed = set(row.allowed.lag.split())
    for place, status in said.statuses.items():
        true = allowed | (set(row.right.lag.split()) if not places or place in places else set())
        if status in row.wrong.lag.split() or (status in ALARMS and status not in true):
            yield f"{place} is {status}"
    for each in said.findings:
        is_true = each.rule in true_rules or (row.right.doctor and _search(row.right.doctor, each.text, symbols))
        if each.rule in row.wrong.rules.split() or (each.severity != "info" and not is_true):
            yield f"{each.rule} ({each.severity})"
    words = _words(row.wrong, said.verb)
    if words and (match := _search(words, "\n".join(said.sentences), symbols)):
        yield f"says {match!r}"
    if row.healthy:
        yield from (f"prints `{command}`" for command in said.commands if changes(command))


def _words(says: object, verb: str) -> str:
    return str(getattr(says, verb, "")) if verb in ("describe", "doctor", "peek", "history") else ""


def _finds(words: str, said: Said, symbols: Mapping[str, int]) -> bool:
    return bool(_search(words, "\n".join(said.sentences), symbols))


def _search(words: str, text: str, symbols: Mapping[str, int]) -> str:
    """The first match; `<P+1>` in words is that number, which no other digits may follow. An unknown one never is."""

    def number(match: re.Match[str]) -> str:
        value = symbols.get(match[1])
        return r"(?!)" if value is None else rf"\b{value + int(match[2] or 0)}\b"

    found = re.search(_SYMBOL.sub(number, words), text)
    return found[0] if found else ""
