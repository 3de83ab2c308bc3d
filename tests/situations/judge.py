"""A look at a group: what the five verbs say of it now, and what that is worth. Runs in a judge's process."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from unittest.mock import patch

from tests.helpers.command_line import CommandLine
from tests.situations.conclude import Cell, Worth, conclude
from tests.situations.row import Row
from tests.situations.said import said

LOOKS: Final = (
    ("describe",),
    ("lag",),
    ("doctor",),
    ("peek", "-n", "3"),
    ("history", "--commits", "--since", "1h"),
)


_BROKEN: Final = frozenset({1, 3, 4})
"""An error of kgroup, no broker, no login: of a row whose broker lives, no answer."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A look that was taken, and how long it took."""

    at_s: float
    took_s: float
    cells: tuple[Cell, ...]
    pages: Mapping[str, str]  # of each verb, to be read by people
    commands: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # as printed, by verb and shape


def judge(
    row: Row,
    groups: Mapping[str, str],
    topics: Mapping[str, str],
    symbols: Mapping[str, int],
    environment: Mapping[str, str],
) -> Judged:
    """Five answers about the group of the row's first program; names are the broker's by the row's."""
    group = groups[row.programs[0].group]
    began_s = time.time()
    pages = {}
    cells = []
    commands = {}
    for verb, *options in LOOKS:
        with patch.dict(os.environ, environment):
            answer = CommandLine()(verb, group, *options, "-o", "json", exit_code=None)
        pages[verb] = answer.stdout + answer.stderr
        if answer.stdout:
            found = said(answer.json, group, topics, symbols)
            cells.append(conclude(row, found, symbols))
            commands[verb] = found.commands
        else:  # it could not answer: right where nothing can, as while a broker stands
            last = answer.stderr.strip().rpartition("\n")[2]
            worth = Worth.WRONG if answer.exit_code in _BROKEN and not row.replicas else Worth.SILENT
            cells.append(Cell(verb, worth, f"exit {answer.exit_code}: {last}"))
    return Judged(began_s, time.time() - began_s, tuple(cells), pages, commands)


def commands_of(
    verb: str, group: str, topics: Mapping[str, str], symbols: Mapping[str, int], environment: Mapping[str, str]
) -> Mapping[str, str]:
    """What a verb prints of a group now: each command by its shape."""
    (options,) = (options for name, *options in LOOKS if name == verb)
    with patch.dict(os.environ, environment):
        answer = CommandLine()(verb, group, *options, "-o", "json", exit_code=None)
    return said(answer.json, group, topics, symbols).commands if answer.stdout else {}
