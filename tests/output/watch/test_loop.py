"""``--watch`` through the command line with looks that were made up: its end, its failures, its formats."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.terminals import ALTERNATE, Terminal
from tests.helpers.waiting import read_line, wait_for


def in_terminal(*looks: str, lines: int = 24) -> Terminal:
    return Terminal(sys.executable, "-m", "tests.helpers.watched_process", *looks, lines=lines)


@pytest.mark.parametrize(
    ("how", "looks", "exit_code", "says"),
    [
        ("q", ("page", "stuck"), 0, ""),
        ("\x03", ("page", "stuck"), 130, "interrupted"),
        ("\x03", ("page",), 130, "interrupted"),
        (signal.SIGTERM, ("page", "stuck"), 143, "terminated"),
        (signal.SIGHUP, ("page",), 143, "terminated"),
    ],
    ids=["q-asking", "ctrl-C-asking", "ctrl-C", "TERM-asking", "HUP"],
)
def test_the_terminal_is_as_it_was_however_it_ends(
    how: str | signal.Signals, looks: tuple[str, ...], exit_code: int, says: str
) -> None:
    with in_terminal(*looks) as terminal:
        terminal.says("s ago" if "stuck" in looks else "q quits")
        assert terminal.attributes() != terminal.before
        if isinstance(how, str):
            terminal.type(how)
        else:
            terminal.process.send_signal(how)

        assert says in terminal.ends(exit_code)
        assert "Traceback" not in terminal.text


def test_a_bug_keeps_its_traceback_on_a_terminal_that_is_as_it_was() -> None:
    with in_terminal("page", "bug") as terminal:
        assert "ValueError: a bug" in terminal.ends(1)


def test_a_right_that_was_taken_away_is_the_end() -> None:
    with in_terminal("page", "page", "auth") as terminal:
        assert "kgroup: who are you [auth-failed]" in terminal.ends(4)


@pytest.mark.parametrize(("looks", "exit_code"), [("down", 3), ("auth", 4)])
def test_what_fails_at_the_start_is_the_end(looks: str, exit_code: int) -> None:
    with in_terminal(looks) as terminal:
        terminal.ends(exit_code)
        assert ALTERNATE not in terminal.raw


def test_a_look_that_fails_is_told_and_the_next_one_heals_it() -> None:
    with in_terminal("page", *["down"] * 4, "page", "stuck", lines=12) as terminal:
        page = terminal.says("FAILED for")
        assert page[1:4] == [
            "kgroup: broker 1 did not answer within the timeout [unreachable]",
            "  a longer --timeout may help",
            "",
        ]
        assert page[4].startswith("svc  Look-1  classic"), "the last page stays"
        assert len(page) == 12
        page = terminal.says("Look-6")
        assert page[0].startswith("svc  Look-6  classic")
        terminal.type("q")
        terminal.ends(0)


def shows_look(terminal: Terminal) -> int:
    """The number of the look that is on the screen."""
    return int(terminal.says("p ")[0].split("Look-")[1].split()[0])


def test_p_holds_the_page_and_continues_at_once() -> None:
    with in_terminal("page") as terminal:
        terminal.says("q quits")
        terminal.type("p")
        terminal.says("PAUSED")
        held = shows_look(terminal)
        terminal.says("3s ago")
        assert shows_look(terminal) == held, "what was read when it was paused is not shown"
        terminal.type("p")
        terminal.shows(lambda page: "q quits" in page[-1] and shows_look(terminal) > held, "it continues")
        terminal.type("ppp")
        terminal.says("PAUSED")
        terminal.type("q")
        terminal.ends(0)


@pytest.mark.parametrize(
    "keys", ["xyz \n", "\x1b[A", "\x1bOp", "\x1bOq", "\x1bq", "\x1b[1;5p", "\x1c", "\ufffd"], ids=repr
)
def test_other_keys_do_nothing(keys: str) -> None:
    with in_terminal("page", "page", "stuck") as terminal:
        terminal.says("q quits")
        terminal.type(keys)
        terminal.says("Look-2")
        assert "PAUSED" not in terminal.text
        terminal.type("q")
        terminal.ends(0)


def test_a_page_taller_than_the_terminal_is_cut_to_every_size() -> None:
    with in_terminal("page", "stuck", lines=24) as terminal:
        terminal.says("q quits")
        for columns, lines in ((40, 3), (20, 2), (100, 30)):
            terminal.resize(columns, lines)
            assert max(map(len, terminal.says("every 500ms"))) <= columns
        terminal.type("q")
        terminal.ends(0)


def test_notes_stand_below_the_page_and_not_across_it() -> None:
    with in_terminal("note", "note", "stuck") as terminal:
        page = terminal.says("Look-2")
        assert "note: something is not known" in page[2:-1]
        terminal.type("q")
        assert "note" not in terminal.ends(0)


@pytest.mark.programs("bash")
def test_stopped_and_continued() -> None:
    """A shell with job control: ctrl-Z gives it a terminal as it was, fg draws the page again."""
    command = f"{sys.executable} -m tests.helpers.watched_process page"
    with Terminal("bash", "-c", f"set -m; {command}; echo stopped $?; read answer; fg; echo ended $?") as terminal:
        terminal.says("q quits")
        terminal.type("\x1a")
        wait_for(lambda: "stopped 148" in terminal.text, "stopped")
        terminal.is_restored()
        terminal.type("\n")
        wait_for(lambda: terminal.raw.count(ALTERNATE) == 2, "drawn again")
        page = terminal.says("q quits")
        assert page[0].startswith("svc  Look-")
        terminal.type("q")
        terminal.ends(0)
        assert "ended 0" in terminal.text


def test_without_keys_it_draws_all_the_same() -> None:
    command = f"exec {sys.executable} -m tests.helpers.watched_process page page stuck < /dev/null"
    with Terminal("/bin/sh", "-c", command) as terminal:
        terminal.says("Look-2")
        terminal.type("\x03")
        terminal.ends(130)


def lines_of(*words: str, count: int) -> tuple[list[str], subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.watched_process", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env=os.environ,
    )
    return [read_line(process.stdout) for _ in range(count)], process


def test_a_line_of_json_a_look_until_nobody_reads() -> None:
    lines, process = lines_of("page", "down", "down", "note", count=5)
    with process:
        documents = [json.loads(line) for line in lines]
        assert process.stdout
        process.stdout.close()
        assert process.wait(30) == 0
        assert process.stderr
        said = process.stderr.read().splitlines()

    assert [len(document["data"]) for document in documents] == [1, 0, 0, 1, 1]
    assert {document["kind"] for document in documents} == {"kgroup.describe/v1"}
    assert {document["cluster"]["id"] for document in documents} == {"id"}, "also of a look that failed"
    assert [error["code"] for document in documents for error in document["errors"]] == ["unreachable"] * 2
    at = [document["at"] for document in documents]
    assert at == sorted(set(at)), "each says when it was"
    assert [line.strip().partition("  ")[2] or line for line in said] == [
        "WATCH     a refresh failed; kgroup tries again",
        "kgroup: broker 1 did not answer within the timeout [unreachable]",
        "  a longer --timeout may help",
        "WATCH     answered again",
        "note: something is not known",
    ], "each once"


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_lines(number: signal.Signals, exit_code: int) -> None:
    lines, process = lines_of("page", count=1)
    with process:
        process.send_signal(number)
        assert process.wait(30) == exit_code
    assert json.loads(lines[0])["data"][0]["state"] == "Look-1"


@pytest.mark.parametrize(("looks", "exit_code"), [(("down",), 3), (("page", "auth"), 4)])
def test_a_line_says_why_there_are_no_more(looks: tuple[str, ...], exit_code: int) -> None:
    lines, process = lines_of(*looks, count=len(looks))
    with process:
        assert process.wait(30) == exit_code
        assert process.stdout
        assert process.stdout.read() == ""
    assert len(json.loads(lines[-1])["errors"]) == 1


def test_pages_one_below_the_other_where_they_are_asked_for() -> None:
    lines, process = lines_of("page", "-otable", count=6)
    with process:
        process.terminate()
        assert process.wait(30) == 143
    assert [line.split()[1] for line in lines if line.startswith("svc")] == ["Look-1", "Look-2"]
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--watch", "-o", "csv"], "-o csv and --watch are mutually exclusive: rows have no time"),
        (["--watch", "-o", "yaml"], "-o yaml and --watch are mutually exclusive"),
        (["-w", "-o", "markdown"], "-o markdown and --watch are mutually exclusive"),
        (["--watch", "--every", "100ms"], "--every 100ms: must be at least 500ms"),
        (["--watch", "--every", "0s"], "--every 0s"),
        (["--watch", "--every", "2"], "--every 2: the unit is missing"),
        (["--every", "5s"], "--every is for --watch"),
    ],
)
@pytest.mark.parametrize("verb", ["describe", "lag"])
def test_what_makes_no_sense_is_refused(kgroup_cli: CommandLine, verb: str, flags: list[str], says: str) -> None:
    result = kgroup_cli(verb, "svc", "-b", "127.0.0.1:1", *flags, exit_code=2)

    assert says in result.stderr
