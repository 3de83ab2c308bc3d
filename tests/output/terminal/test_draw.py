"""The real command in a terminal of a given width, and without one: width, colour, NO_COLOR, a dumb terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from rich.cells import cell_len

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members

Name = Callable[[str], str]

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LIMIT_S = 60.0


@dataclass(frozen=True)
class Screenful:
    """What a terminal was sent."""

    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines, without colour."""
        return _ESCAPE.sub("", self.text).replace("\r\n", "\n").rstrip("\n").split("\n")

    @property
    def colours(self) -> list[str]:
        """The escapes in it."""
        return _ESCAPE.findall(self.text)


def in_terminal(columns: int, *arguments: str, env: dict[str, str | None] | None = None) -> Screenful:
    """Run kgroup in a pseudo terminal that is ``columns`` wide; stdout and stderr both go there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    surroundings = os.environ | {"TERM": "xterm-256color"}
    for key, value in (env or {}).items():
        surroundings.pop(key, None)
        if value is not None:
            surroundings[key] = value
    process = subprocess.Popen(
        [sys.executable, "-m", "kgroup", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=surroundings
    )
    os.close(theirs)
    said, deadline = b"", time.monotonic() + _LIMIT_S
    try:
        while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # Linux says EIO where the other side is closed
                break
            if not piece:
                break
            said += piece
        return Screenful(process.wait(max(0.1, deadline - time.monotonic())), said.decode())
    finally:
        process.kill()
        process.wait(10)
        os.close(ours)


def too_long(screenful: Screenful, columns: int) -> list[str]:
    """Lines over the edge, but for an id alone in its line: in two parts it could not be pasted."""
    return [line for line in screenful.lines if cell_len(line) > columns and " " in line.strip()]


@pytest.fixture
def broken(kgroup: CommandLine, world: KafkaWorld, name: Name) -> str:
    """An Empty group that has committed above the end of one log."""
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    world.produce(topic, 10)
    world.commit(group, {(topic, 0): 50, (topic, 1): 0})
    return group


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("verb", [["list"], ["describe"], ["describe", "--offsets"], ["describe", "--state"]])
def test_no_line_is_longer_than_the_terminal(
    kgroup: CommandLine, world: KafkaWorld, name: Name, verb: list[str], columns: int
) -> None:
    topic = world.topic(name("com.example.orders-enrichment.production.eu-west-1"), partitions=3)
    stem = name("com.example.orders-enrichment.production.eu-west-1")
    for suffix in ("", "-注文処理", "-заказы", "-\U0001f980", "-e\u0301", "_" * 150, "\ttab"):
        world.commit(stem + suffix, {(topic, number): 12345678901 + number for number in range(3)})

    shown = in_terminal(columns, *verb, "--regex", re.escape(stem) + ".*")

    assert shown.code == 0, shown.text
    assert too_long(shown, columns) == []
    assert "Empty" in shown.text


@pytest.mark.parametrize("columns", [60, 80, 160])
@pytest.mark.parametrize("flags", [[], ["--members"], ["--verbose"]])
def test_a_page_with_members_fits(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, flags: list[str], columns: int
) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    world.produce(topic, 10)
    both = members.classic(group, topic), members.classic(group, topic)
    members.stable(*both, partitions=4)

    shown = in_terminal(columns, "describe", group, *flags)

    assert shown.code == 0, shown.text
    assert too_long(shown, columns) == []


@pytest.mark.parametrize("columns", [80, 160])
def test_the_title_ends_at_the_right_edge(kgroup: CommandLine, world: KafkaWorld, name: Name, columns: int) -> None:
    group = f"svc-{name('')[-6:]}"
    world.commit(group, {(world.topic(name("orders")), 0): 0})

    first = in_terminal(columns, "describe", group).lines[0]

    assert first.startswith(f"{group}  Empty  classic")

    assert re.search(r"\d\d:\d\d:\d\dZ$", first)
    assert cell_len(first) == columns


def test_a_wider_terminal_shows_more_columns(broken: str) -> None:
    def heading(columns: int) -> list[str]:
        lines = in_terminal(columns, "list", broken).lines
        return next(line for line in lines if line.startswith("GROUP")).split()

    assert set(heading(40)) < set(heading(300))
    assert heading(40)[0] == "GROUP"
    assert heading(300) == ["GROUP", "TYPE", "STATE", "COORDINATOR", "MEMBERS", "IDLE"]


def test_colour_in_a_terminal(broken: str) -> None:
    shown = in_terminal(100, "describe", broken)

    assert shown.colours
    assert re.search(r"\x1b\[[0-9;]*31m[^\x1b]*(RANGE|ABOVE_END)", shown.text), "red"
    assert "above-log-end" in "\n".join(shown.lines), "colour repeats a word"


@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}], ids=["no", "dumb", "both"]
)
def test_no_colour_where_it_is_not_wanted(broken: str, env: dict[str, str | None]) -> None:
    shown = in_terminal(100, "describe", broken, env=env)

    assert shown.colours == []
    assert "above-log-end" in shown.text


def test_an_empty_no_color_counts_as_unset(broken: str) -> None:
    assert in_terminal(100, "describe", broken, env={"NO_COLOR": ""}).colours


def test_an_unset_term_is_survived(broken: str) -> None:
    assert in_terminal(100, "describe", broken, env={"TERM": None}).code == 0


def test_errors_have_colour_in_a_terminal_only(kgroup_cli: CommandLine) -> None:
    arguments = ["list", "-b", "127.0.0.1:1"]

    assert in_terminal(80, *arguments).colours
    assert in_terminal(80, *arguments, env={"NO_COLOR": "1"}).colours == []
    assert in_terminal(80, *arguments, env={"TERM": "dumb"}).colours == []
    assert "\x1b" not in kgroup_cli.process(*arguments, exit_code=3).stderr


def test_a_line_on_stderr_breaks_between_words(kgroup_cli: CommandLine) -> None:
    arguments = ["list", "-b", "127.0.0.1:1"]
    said = kgroup_cli.process(*arguments, exit_code=3).stderr.split()

    shown = in_terminal(40, *arguments)

    assert len(shown.lines) > 1
    assert too_long(shown, 40) == []
    assert " ".join(shown.lines).split() == said, "all words, and no other"


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml", "csv", "markdown"])
def test_no_colour_in_a_pipe(kgroup: CommandLine, broken: str, form: str) -> None:
    result = kgroup.process("describe", broken, "-o", form)

    assert "\x1b" not in result.stdout + result.stderr


@pytest.mark.parametrize("form", ["json", "yaml", "csv", "markdown"])
def test_what_machines_read_has_no_colour_in_a_terminal_either(broken: str, form: str) -> None:
    assert in_terminal(80, "describe", broken, "-o", form).colours == []


def test_a_pipe_has_every_column_and_no_folded_id(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("x" * 150)
    world.commit(group, {(topic, 0): 1})

    lines = kgroup.process("list", group).stdout.splitlines()

    assert lines[0].split() == ["GROUP", "TYPE", "STATE", "COORDINATOR", "MEMBERS", "IDLE"]
    assert lines[1].startswith(group + " ")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_a_group_that_the_terminals_encoding_lacks_is_no_crash(
    kgroup: CommandLine, world: KafkaWorld, name: Name, encoding: str, form: str
) -> None:
    topic, group = world.topic(name("orders")), name("заказы-注文")
    world.commit(group, {(topic, 0): 1})

    result = kgroup.process("list", "-o", form, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})

    assert "Traceback" not in result.stderr
