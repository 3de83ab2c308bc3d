"""Pages as a pipe gets them."""

from __future__ import annotations

import io

from kgroup.model.outcome import Outcome
from kgroup.output.terminal.draw import draw


def drawn(shown: Outcome, *, wide: bool = False) -> list[str]:
    """The lines of the page."""
    stream = io.StringIO()
    draw(shown, stream, wide=wide)
    return stream.getvalue().splitlines()
