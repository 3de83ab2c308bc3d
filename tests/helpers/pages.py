"""Pages as a pipe gets them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from kgroup.model.blocks import Block, Prose, Text
from kgroup.model.outcome import Outcome
from kgroup.output.terminal.draw import draw


def drawn(shown: Outcome, *, wide: bool = False) -> list[str]:
    """The lines of the page."""
    stream = io.StringIO()
    draw(shown, stream, wide=wide)
    return stream.getvalue().splitlines()


def written(blocks: Iterable[Block]) -> list[str]:
    """The lines and the whole sentences among these blocks."""
    return [
        line
        for block in blocks
        if isinstance(block, Text | Prose)
        for line in (block.lines if isinstance(block, Text) else block.sentences)
    ]
