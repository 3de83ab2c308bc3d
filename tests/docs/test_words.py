"""What a user reads is plain English: no word that the glossary rules out, no question, no sentence over 30 words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.helpers.parsing import parsed
from tests.helpers.places import ROOT

PACKAGE = ROOT / "kgroup"

_RULED_OUT = re.compile(
    r"\b(?:some|no|any|every)body\b|\bwhoever\b|\banew\b|\bst(?:ands?|anding|ood)\b|\b(?:go|goes|going|gone|went) on\b"
    r"|\bcomes? into being\b|\btells?\b|\btold\b|\bsays?\b|\bsaid\b|\blook(?:s|ed|ing)?\b|\bby now\b|\bof then\b"
    r"|\bbeside\b|\bconcern(?:s|ed|ing)?\b|\bow(?:e|es|ed)\b|\bprove[sd]?\b|\bproofs?\b|\btakes\b|\btake(?:n|s)? back\b"
    r"|\bset back\b|\bwent back\b|\bcarr(?:y|ied|ies) out\b|\bshut out\b|\bgive(?:n|s)? up\b|\bin time\b|\w+n't\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"\w\?(?:\s|$)")
_SENTENCE_END = re.compile(r"[.!?;:]\s|\n\s*\n|\n\s*[-*]\s")
_MOST_WORDS = 30

ALLOWED: dict[str, str] = {
    "allow.auto.create.topics api.version": "a list of settings",
    "auto.commit.enable auto.commit.interval": "a list of settings",
    "acks batch.num.messages batch.size": "a list of settings",
    "metadata.broker.list enable.auto": "a list of settings",
}
"""Texts that stay, by what they contain, and why: another program's words, mostly."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string of a module that has a blank in it, docstrings and assertions left out."""
    tree = parsed(path)
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            silent.add(id(node.value))
        elif isinstance(node, ast.Assert) and node.msg is not None:
            silent.update(id(each) for each in ast.walk(node.msg))
        elif isinstance(node, ast.JoinedStr):
            silent.update(id(each) for each in node.values)
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        if isinstance(node, ast.JoinedStr):
            whole = "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
            yield node.lineno, whole
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value


def _data_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _data_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _data_texts(each)


def faults(text: str) -> Iterator[str]:
    """What is not plain about a text."""
    if any(allowed in text for allowed in ALLOWED):
        return
    for found in _RULED_OUT.finditer(text):
        yield f"the word {found[0]!r}"
    if _QUESTION.search(text):
        yield "a question"
    for sentence in _SENTENCE_END.split(text):
        count = len(sentence.split())
        if count > _MOST_WORDS:
            yield f"a sentence of {count} words"


def all_texts() -> Iterator[tuple[str, str]]:
    """Place and text of all that a user may read."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in texts(path):
            yield f"{path.relative_to(ROOT)}:{line}", text
    for path in sorted((PACKAGE / "data").glob("*.yaml")):
        for text in _data_texts(yaml.safe_load(path.read_text("utf-8"))):
            yield str(path.relative_to(ROOT)), text
    for path in sorted((PACKAGE / "data" / "runbooks").iterdir()):
        for number, comment in enumerate(path.read_text("utf-8").splitlines(), 1):
            if comment.lstrip().startswith("#"):
                yield f"{path.relative_to(ROOT)}:{number}", comment


def test_texts_are_plain() -> None:
    wrong = [f"{place}: {fault}: {text[:100]!r}" for place, text in all_texts() for fault in faults(text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("nobody reads orders", "the word 'nobody'"),
        ("the group can't be read", 'the word "can\'t"'),
        ("which members?", "a question"),
        ("word " * 31, "a sentence of 31 words"),
        ("word " * 20 + "end. " + "word " * 20, None),
        ("a client reads https://kafka?x=1 now", None),
    ],
)
def test_faults(text: str, fault: str | None) -> None:
    assert list(faults(text)) == ([fault] if fault else [])
