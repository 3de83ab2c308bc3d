"""A line that is still typed: its words, its connection, and what bash inserts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgroup.cli.completion import line as lines
from kgroup.settings.connection import Connection
from tests.helpers.completion import NASTY

BASH_BREAKS = " \t\n\"'@><=;|&(:"


@pytest.mark.parametrize(
    ("line", "words", "current"),
    [
        ("kgroup describe ", ["kgroup", "describe"], ("", "", 0)),
        ("kgroup desc", ["kgroup"], ("desc", "", 0)),
        ("kgroup -b 'a b' x", ["kgroup", "-b", "a b"], ("x", "", 0)),
        (r"kgroup my\ gr", ["kgroup"], ("my gr", "", 0)),
        ("kgroup 'my gr", ["kgroup"], ("my gr", "'", 0)),
        ('kgroup "my gr', ["kgroup"], ("my gr", '"', 0)),
        ("kgroup 'my 'gr", ["kgroup"], ("my gr", "", 0)),
        ("kgroup my' gr", ["kgroup"], ("my gr", "'", 2)),
        ("kgroup --group=a:b", ["kgroup"], ("--group=a:b", "", 10)),
        (r"kgroup a\:b", ["kgroup"], ("a:b", "", 0)),
        ("kgroup $HOME/x ", ["kgroup", "/home/me/x"], ("", "", 0)),
        ("kgroup ~/x ", ["kgroup", "/home/me/x"], ("", "", 0)),
        ("kgroup '$HOME' ", ["kgroup", "$HOME"], ("", "", 0)),
        ("kgroup ''  ", ["kgroup", ""], ("", "", 0)),
    ],
)
def test_a_line_in_words(line: str, words: list[str], current: tuple[str, str, int]) -> None:
    read = lines.parse(line, {"HOME": "/home/me"}, BASH_BREAKS)

    assert [word.text for word in read.words] == words
    assert all(word.known for word in read.words)
    assert (read.current.text, read.current.quote, read.current.kept) == current


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kgroup -b b:1 describe ", Connection(bootstrap_server="b:1")),
        ("kgroup describe --bootstrap-server=b:1 ", Connection(bootstrap_server="b:1")),
        ("kgroup describe -bb:1 ", Connection(bootstrap_server="b:1")),
        ("kgroup -b a:1 describe -b b:1 ", Connection(bootstrap_server="b:1")),
        ("kgroup -X a=1 describe --property b=2 ", Connection(property=["a=1", "b=2"])),
        ("kgroup --context prod --command-config c ", Connection(context="prod", command_config=Path("c"))),
        ('kgroup -b "$SERVER" ', Connection(bootstrap_server="s:1")),
        ("kgroup describe -- -b b:1 ", Connection()),
        ("kgroup describe -b ", Connection()),
        ("kgroup describe -b b:", Connection()),
    ],
)
def test_the_connection_of_a_line(line: str, found: Connection) -> None:
    assert lines.connection(lines.parse(line, {"SERVER": "s:1"}).words) == found


@pytest.mark.parametrize("value", ["$(hostname):9092", "`hostname`:9092", '"$UNSET"', "$UNSET", "$SPACED", "$'b:1'"])
def test_a_connection_that_only_the_shell_knows_is_not_guessed(value: str) -> None:
    """A password that is sent with its variable's name in place of its value locks accounts."""
    with pytest.raises(lines.NotYetKnown):
        lines.connection(lines.parse(f"kgroup -b {value} ", {"SPACED": "a b"}).words)


@pytest.mark.programs("bash")
@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("name", NASTY)
def test_bash_reads_a_name_back_as_it_is(name: str, quote: str, tmp_path: Path) -> None:
    piece = lines.for_bash(name, lines.Current("", quote, 0))
    done = subprocess.run(
        ["bash", "-c", f"printf %s {quote}{piece}{quote}"], capture_output=True, cwd=tmp_path, check=True
    )

    assert done.stdout.decode() == name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "word", "piece"),
    [
        ("kgroup d a:", "a:b c", "b\\ c"),
        ("kgroup d --group=a", "--group=a:b", "a:b"),
        ("kgroup d --group=a:", "--group=a:b", "b"),
        ("kgroup d 'a:", "a:b c", "a:b c"),
        ("kgroup d --group='a", "--group=a:b c", "a:b c"),
        ("kgroup d a\\:", "a:b", "a:b"),
    ],
)
def test_bash_is_given_what_follows_the_last_word_break(line: str, word: str, piece: str) -> None:
    assert lines.for_bash(word, lines.parse(line, {}, BASH_BREAKS).current) == piece
