"""What is printed to be pasted: a shell reads back the very words."""

from __future__ import annotations

import json
import subprocess

import pytest

from kgroup.support.quoting import join, json_safe, quote

NAMES = [
    "plain",
    "it's",
    "a b",
    "",
    "evil\x1b[31m",
    "tab\tcr\rlf\n",
    "bell\x07 quote' back\\slash $HOME `id` !x",
    "c1\x9b bidi\u202e zero\u200b",
    "\x01ff",
    "Grüße \x7f",
    "=cmd|' /C calc'!A0",
    "\udcff",
]


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=pytest.mark.programs(shell)) for shell in ("bash", "zsh")])
def test_a_shell_reads_back_what_was_meant(shell: str) -> None:
    printed = join(["printf", r"%s\0", *NAMES])
    assert printed.isprintable()
    read = subprocess.run([shell, "-c", printed], capture_output=True, check=True).stdout
    assert read.decode("utf-8", "surrogateescape").split("\0")[:-1] == NAMES


def test_what_is_printable_is_quoted_as_always() -> None:
    assert [quote(name) for name in ("svc", "a b", "evil\x1b[31m")] == ["svc", "'a b'", r"$'evil\x1b[31m'"]


def test_half_a_character_is_no_crash() -> None:
    assert quote("\ud800") == r"$'\xed\xa0\x80'"


@pytest.mark.parametrize(
    "text", ["plain", "größe €", "\x1b[31m", "\x7f\x9b31m", "\u202eevil\u2066", "\U0001f600\U000e0001"]
)
@pytest.mark.parametrize("ascii_only", [False, True])
def test_json_for_a_terminal(text: str, ascii_only: bool) -> None:
    shown = json_safe(json.dumps(text, ensure_ascii=False), ascii_only=ascii_only)

    assert json.loads(shown) == text
    assert shown.isprintable()
    assert not ascii_only or shown.isascii()
    assert ascii_only or "ß" not in text or "ß" in shown
