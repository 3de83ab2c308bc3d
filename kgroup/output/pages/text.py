"""Text on a page: sentences wrapped into lines, settings as one line."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

_WIDTH = 78


def wrapped(text: str, indent: str = "") -> list[str]:
    """A sentence in lines of at most 78 columns; ``indent`` precedes all but the first."""
    return textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def settings_text(configs: Mapping[str, str | None]) -> str:
    """``consumer.session.timeout.ms=60000``; a setting that is removed is ``... unset``."""
    return ", ".join(f"{name}={value}" if value is not None else f"{name} unset" for name, value in configs.items())
