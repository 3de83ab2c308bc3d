"""The prose of the manual is plain English, by the rules of test_words.py: all but examples and generated parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_words import faults
from tests.helpers.manual import INDEX, prose, read
from tests.helpers.places import ROOT

WRITTEN = (*sorted(ROOT.glob("*.md")), *sorted(INDEX.parent.rglob("*.md")))
"""README.md and the other pages of the root, and the manual."""

_ASIDE = re.compile(r"<!-- generated .*?<!-- end -->|<!--.*?-->|^\|[-|: ]+\|$", re.M | re.S)
_ANCHOR = re.compile(r"<a id=[^>]*></a>")
_CODE = re.compile(r"`[^`]+`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_BEGINS = re.compile(r"^(?:#+ |[-*] |\d+\. )\s*", re.M)


def passages(text: str) -> Iterator[str]:
    """Each heading, paragraph, item of a list and cell of a table; a piece of code counts as one word."""
    plain = _LINK.sub(r"\1", _CODE.sub("CODE", _ASIDE.sub("\n\n", _ANCHOR.sub("", prose(text))))).replace("**", "")
    for line in re.findall(r"^\|.*\|$", plain, re.M):
        yield from (cell.strip() for cell in line.strip("|").split("|"))
    running = _BEGINS.sub("\n\n", re.sub(r"^\|.*\|$", "\n", plain, flags=re.M))
    yield from (" ".join(passage.split()) for passage in re.split(r"\n\s*\n", running) if passage.strip())


def page_faults(path: Path) -> list[str]:
    """What is not plain on a page, and where."""
    return [f"{fault}: {passage[:100]!r}" for passage in passages(read(path)) for fault in faults(passage)]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_prose_is_plain(path: Path) -> None:
    wrong = page_faults(path)

    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```\nnobody reads\n```\n\nA group reads `nobody`.\n", []),
        ("<!-- generated help x -->\nwho says?\n<!-- end -->\n", []),
        ("| a | what is it? |\n|---|---|\n", ["a question"]),
        ("# Why?\n", ["a question"]),
        ("- " + "word " * 20 + "\n- " + "word " * 20, []),
        ("word " * 16 + "\n" + "word " * 16, ["a sentence of 32 words"]),
        ("[`lag`](a.md) tells", ["the word 'tells'"]),
    ],
)
def test_passages(text: str, found: list[str]) -> None:
    assert [fault for passage in passages(text) for fault in faults(passage)] == found
