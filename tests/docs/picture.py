"""The picture of README: ``kgroup describe`` of a group with one stuck partition, from values, by the real code."""

from __future__ import annotations

import html
import io
import re
from datetime import UTC, datetime

from msgspec.structs import replace
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style as RichStyle
from rich.text import Text

from kgroup.groups.lag.evidence import MemberFacts
from kgroup.groups.verdict.group import group_verdict
from kgroup.model.blocks import Style
from kgroup.output.pages.describe import outcome
from kgroup.output.pages.describe_records import DescribePart
from kgroup.output.terminal import draw
from kgroup.output.terminal.colour import _COLOURS
from kgroup.support.cluster_ref import ClusterRef
from tests.helpers.cases.lag import HOUR, MINUTE, NOW, Part, evidence, group, member, sibling
from tests.helpers.places import ROOT

PICTURE = ROOT / "docs" / "img" / "describe.svg"
_WIDTH = 80
# Without rich's web fonts: a page that shows the picture asks no other server for anything.
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px;
    line-height: {line_height}px; font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def page_lines(*, coloured: bool = False) -> list[str]:
    """The lines of the page, 80 columns wide; with ANSI colours if ``coloured``."""
    members = [member(f"enrich-{n}", f"10.0.3.{n + 2}", (n, n + 3, n + 6, n + 9)) for n in range(3)]
    parts = [
        Part(n, 610 + 7 * n, 100, 99, owner=members[n % 3], leader=n % 3, committed=88_000_000 + 977 * n)
        for n in range(12)
    ]
    stuck = Part(7, 3_940_025, 1700, last_ago=38 * MINUTE, age=38 * MINUTE, owner=members[1], committed=88_123_377)
    parts[7] = stuck
    about = group(parts, members, leader="enrich-0")
    verdict = group_verdict(
        about,
        evidence(
            parts,
            state_since_ms=NOW - 41 * MINUTE,
            siblings=(sibling("orders-billing", 30), sibling("orders-search", 40)),
            members={
                each.member_id: MemberFacts(HOUR if each is members[1] else 5 * MINUTE, 45_000) for each in members
            },
        ),
    )
    cluster = ClusterRef("id", "b1.prod:9093", "prod")
    made = replace(
        outcome(DescribePart.PAGE, [about], cluster, verdicts={about.name: verdict}),
        at=datetime.fromtimestamp(NOW / 1000, UTC),
    )

    def paint(text: str, style: Style | None) -> str:
        if style is None or not coloured:
            return text
        return RichStyle.parse(_COLOURS[style]).render(text, color_system=ColorSystem.STANDARD)

    return list(draw.page_lines(made, made.screen(), _WIDTH, paint, wide=False))


def picture() -> str:
    """The page as SVG; it is wider than the page if a command is, as commands are never broken."""
    width = max(_WIDTH, *map(len, page_lines()))
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="standard")
    for line in ["$ kgroup describe orders-enrich", *page_lines(coloured=True)]:
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    return console.export_svg(title="kgroup describe orders-enrich", unique_id="describe", code_format=_SVG)


def text_of(svg: str) -> list[str]:
    """The lines of text of a picture that are not empty, without blanks at their ends."""
    rows: dict[str, str] = {}
    for y, text in re.findall(r'<text class="describe-r\d+" x="[^"]*" y="([^"]*)"[^>]*>(.*?)</text>', svg):
        rows[y] = rows.get(y, "") + html.unescape(text).replace("\xa0", " ")
    return [rows[y].rstrip() for y in sorted(rows, key=float)]
