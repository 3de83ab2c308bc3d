"""The lines that are drawn anew while a replay runs: what fits, what is left out, and what is said above them."""

from __future__ import annotations

import io

import pytest

from kgroup.model.reporter import ProgressPart
from kgroup.output.reporter import StderrReporter
from kgroup.output.terminal.live import head_lines, part_lines

FACTS = ("6.12M records", "142k/s", "28s left", "0 dead letters", "66 of 109 chunks")


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (160, ["replay   61%   6.12M records   142k/s   28s left   0 dead letters   66 of 109 chunks"]),
        (79, ["replay   61%   6.12M records   142k/s   28s left   0 dead letters", " " * 9 + "66 of 109 chunks"]),
        (20, ["replay   61%", " " * 9 + "6.12M recor", " " * 9 + "142k/s", " " * 9 + "28s left"]),
    ],
)
def test_facts_that_do_not_fit_go_on_below(width: int, lines: list[str]) -> None:
    assert head_lines("replay", 61, 100, FACTS, width)[:4] == lines


def test_nothing_is_to_be_done() -> None:
    assert head_lines("replay", 0, 0, (), 80) == ["replay   -"]


@pytest.mark.parametrize("width", [10, 40, 79, 159])
def test_a_bar_for_each_topic_is_as_wide_as_there_is_room(width: int) -> None:
    lines = part_lines(
        [ProgressPart("clicks", 61, 100), ProgressPart("an-evil\x1b[2J-" + "x" * 40, 5, 5), ProgressPart("e", 0, 0)],
        width,
    )

    assert len(lines) == 3
    assert all(len(line) <= width for line in lines)
    assert "\x1b" not in "".join(lines)
    if width >= 79:
        first, second, _ = lines
        assert first.startswith("clicks ")
        assert "#-" in first
        assert "61 of 100" in first
        assert "-]" not in second
    if width == 40:
        assert not any("[#" in line for line in lines)


def test_of_many_topics_those_with_the_most_left_are_shown() -> None:
    parts = [ProgressPart(f"t{number:02}", number, 100) for number in range(20)]

    lines = part_lines(parts, 80)

    assert [line.split()[0] for line in lines] == [*(f"t{number:02}" for number in range(8)), "12"]
    assert lines[-1].endswith(f"{sum(range(8, 20))} of 1.2k".replace("1.2k", "1200"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_said_meanwhile_stays_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    reporter = StderrReporter(stream)

    with reporter.progress("replay", 100, "offsets", "REPLAY") as progress:
        progress.update(61, "  ".join(FACTS), [ProgressPart("clicks", 61, 100)])
        reporter.note("a worker was lost [bold]")
        reporter.event("STOPPED", "x" * 300)
    reporter.note("after")

    said = stream.getvalue()
    assert "a worker was lost [bold]" in said
    assert "x" * 300 in said
    assert "66 of 109 chunks" in said or "0 dead letters" in said
    assert said.rstrip("\n").endswith("after")


def test_where_there_is_no_terminal_it_is_an_event_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.output.reporter._PLAIN_INTERVAL_S", 0.0)
    stream = io.StringIO()

    with StderrReporter(stream).progress("replay", 100, "offsets", "REPLAY") as progress:
        progress.update(61, "  ".join(FACTS), [ProgressPart("clicks", 61, 100)])

    (line,) = stream.getvalue().splitlines()
    assert "Z  REPLAY    replay  61 of 100 offsets  6.12M records  142k/s" in line
