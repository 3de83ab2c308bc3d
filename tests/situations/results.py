"""What was said of each row at each moment, stored in results.json; pages and bounds are made from it."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.situations.conclude import BAD, Cell, Worth
from tests.situations.harm import Outcome
from tests.situations.row import Moment, Row

RESULTS: Final = Path(__file__).with_name("results.json")


class Tried(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command that was printed, and what became of it."""

    command: str  # its shape
    outcome: Outcome
    why: str = ""

    @property
    def is_bad(self) -> bool:
        """It does harm."""
        return self.outcome is Outcome.HARMED

    def line(self) -> str:
        """`helped: reset --to-offset t:0=P+1`."""
        return f"{self.outcome}: {self.command}" + (f" ({self.why})" if self.why else "")


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row at a moment, verb by verb."""

    row: str
    moment: Moment
    cells: tuple[Cell, ...] = ()
    digest: str = ""  # of the row as it was played
    void: str = ""  # why nothing was judged: late, or the situation was not as the row says
    tried: tuple[Tried, ...] = ()  # what was printed first at this moment, and `restart` and `start` that help

    @property
    def is_bad(self) -> bool:
        """A wrong or harmful answer, a command that did harm, or nothing that could be judged."""
        return (
            bool(self.void)
            or any(tried.is_bad for tried in self.tried)
            or any(cell.worth in BAD for cell in self.cells)
        )

    def line(self) -> str:
        """What is worst first: `30s  poison-flip  wrong: lag (t:0 is rewind); silent: peek; right: doctor`."""
        head = f"{self.moment:>3}  {self.row:<22} "
        if self.void:
            return f"{head}not judged: {self.void}"
        return head + "; ".join(
            f"{worth}: {_verbs(cells)}"
            for worth in reversed(Worth)
            if (cells := [cell for cell in self.cells if cell.worth is worth])
        )


def _verbs(cells: Sequence[Cell]) -> str:
    return ", ".join(f"{cell.verb} ({cell.why})" if cell.why else cell.verb for cell in cells)


def digest(row: Row) -> str:
    """Changes with the row, so that results of what it was before are known as such; not with what no row had yet."""
    return hashlib.sha256(msgspec.json.encode(_written(row), order="sorted")).hexdigest()[:8]


def _written(value: Any) -> Any:
    """A row without what has its default."""
    if is_dataclass(value):
        own = {each.name: getattr(value, each.name) for each in fields(value) if not _is_default(value, each)}
        return {name: _written(each) for name, each in own.items()}
    return [_written(each) for each in value] if isinstance(value, tuple) else value


def _is_default(value: Any, of: Field[Any]) -> bool:
    default = of.default if of.default_factory is MISSING else of.default_factory()
    return bool(getattr(value, of.name) == default)


def stored(path: Path = RESULTS) -> tuple[Result, ...]:
    """The results of earlier runs; none where there is no file."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Result, ...]) if path.exists() else ()


def store(new: Iterable[Result], path: Path = RESULTS) -> None:
    """Put these in place of earlier ones of the same row and moment."""
    merged = {(result.row, result.moment): result for result in (*stored(path), *new)}
    ordered = sorted(merged.values(), key=lambda result: (result.row, result.moment.seconds))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
