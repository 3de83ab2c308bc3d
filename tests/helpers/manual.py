"""The manual: README.md, and docs/ in the order of the links of docs/README.md, which is also that of its examples."""

from __future__ import annotations

import re
from pathlib import Path

from tests.helpers.places import ROOT

FRONT = ROOT / "README.md"
INDEX = ROOT / "docs" / "README.md"
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def read(path: Path) -> str:
    """The text of a page."""
    return path.read_text(encoding="utf-8")


def links(path: Path) -> list[str]:
    """The targets of a page's links to files and headings of this repository, as they are written."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", prose(read(path))) if not re.match(r"[a-z]+:", link)]


def prose(text: str) -> str:
    """The text without fenced blocks."""
    return _FENCE.sub("", text)


def headings(text: str) -> list[str]:
    """The headings of all levels."""
    return re.findall(r"^#+ (.*)$", prose(text), re.M)


def anchors(text: str) -> set[str]:
    """The anchors of a page: those of its headings, as GitHub makes them, and explicit ones."""
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings(text)}
    return made | set(re.findall(r'<a id="([^"]+)">', prose(text)))


def _in_order() -> tuple[Path, ...]:
    listed = [(INDEX.parent / link.partition("#")[0]).resolve() for link in links(INDEX)]
    return tuple(dict.fromkeys(path for path in listed if path.suffix == ".md"))


PAGES = _in_order()
"""The pages that docs/README.md links to."""

MANUAL = "\n".join(read(path) for path in PAGES)
"""All pages as one text. README.md is not in it: its examples are copies of those of the pages."""


def page(name: str) -> str:
    """The text of a page of docs/."""
    return read(INDEX.parent / name)


def section(title: str, text: str) -> str:
    """What is under the heading, up to the next one of its level or above. StopIteration: there is no such heading."""
    parts = re.split(r"^(#+) (.*)$", text, flags=re.M)
    at = next(n for n in range(1, len(parts), 3) if parts[n + 1] == title)
    end = next((n for n in range(at + 3, len(parts), 3) if len(parts[n]) <= len(parts[at])), len(parts))
    return "".join(parts[at + 2 : end])
