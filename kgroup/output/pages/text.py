"""Text on a page: sentences in lines, settings in a word."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

_WIDTH = 78


def wrapped(text: str, indent: str = "") -> list[str]:
    """A sentence in lines that fit on a page; ``indent`` is before all but the first."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def settings_text(configs: Mapping[str, str | None]) -> str:
    """``consumer.session.timeout.ms=60000``; a setting that goes is ``... unset``."""
    return ", ".join(f"{name}={value}" if value is not None else f"{name} unset" for name, value in configs.items())
