"""What several pages show: sentences wrapped into lines, settings as one line, cells about lag."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from kgroup.groups.lag.report import PartitionLag
from kgroup.groups.lag.status import LagStatus, StatusResult, status_words
from kgroup.model.blocks import Cell, Style, Styled
from kgroup.support.durations import format_duration

_WIDTH = 78


def wrapped(text: str, indent: str = "") -> list[str]:
    """A sentence in lines of at most 78 columns; ``indent`` precedes all but the first."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def settings_text(configs: Mapping[str, str | None]) -> str:
    """``consumer.session.timeout.ms=60000``; a setting that is removed is ``... unset``."""
    return ", ".join(f"{name}={value}" if value is not None else f"{name} unset" for name, value in configs.items())


_STYLES: Mapping[LagStatus, Style] = {
    LagStatus.OK: "good",
    LagStatus.WARN: "warn",
    LagStatus.REWIND: "warn",
    LagStatus.STALL: "bad",
    LagStatus.STOP: "bad",
}


def status_cell(result: StatusResult, now_ms: int) -> Cell:
    """``STOP 38m`` in its colour; None if the status is unknown."""
    words = status_words(result, now_ms)
    return None if words is None or result.status is None else Styled(words, _STYLES[result.status])


def commit_age(row: PartitionLag, now_ms: int) -> str | None:
    """The age of the last commit; None if unknown."""
    return None if row.last_commit_ms is None else age_words(max(0, now_ms - row.last_commit_ms))


def age_words(age_ms: int | None) -> str | None:
    """``38m``; None if unknown."""
    return None if age_ms is None else format_duration(age_ms // 1000)
