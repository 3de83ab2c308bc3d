"""One fenced block for a ticket or a chat: the command line, the time in UTC, the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.model.blocks import BlankLine, Block, Conclusion, LabelledLine, Prose, Table, Text, Title
from kgroup.model.outcome import Outcome
from kgroup.output.remarks import NO_REMARKS, Remarks
from kgroup.output.terminal.draw import title_lines
from kgroup.output.terminal.layout import draw_table
from kgroup.output.terminal.wrapping import prose_lines
from kgroup.support.clock import utc_now
from kgroup.support.instants import rfc3339
from kgroup.support.quoting import join, visible

_WIDTH = 100


def markdown_lines(outcomes: Sequence[Outcome], argv: Sequence[str], remarks: Remarks = NO_REMARKS) -> Iterator[str]:
    """The lines of the block; ``argv`` is what the user typed, already free of secrets."""
    at = outcomes[0].at if outcomes else utc_now()
    yield "```"
    yield f"$ {visible(join(argv))}    # {rfc3339(at, 'seconds')}"
    for number, outcome in enumerate(outcomes):
        if number > 0:
            yield ""
        for block in outcome.screen().blocks:
            yield from _block_lines(block, outcome)
    if remark_lines := [visible(line) for line in remarks.lines()]:
        yield from ("", *remark_lines)
    yield "```"


def _block_lines(block: Block, outcome: Outcome) -> Iterator[str]:
    match block:
        case Title():
            yield from title_lines(block, outcome, _WIDTH)
        case Conclusion(text, commands):
            yield f"-> {visible(text)}"
            yield from (f"   {visible(command)}" for command in commands)
        case LabelledLine(word, text, _):
            yield f"{word:<6} {visible(text)}"
        case Table():
            yield from draw_table(block, None, False, lambda text, style: text)
        case Text(lines):
            yield from (visible(line) for line in lines)
        case Prose():
            yield from prose_lines(block, None)
        case BlankLine():
            yield ""
