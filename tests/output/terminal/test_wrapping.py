"""Where a long line is broken: between words, and a command so that a shell reads it as one."""

from __future__ import annotations

import shlex

import pytest

from kgroup.model.blocks import Conclusion, Prose, Records, Screen, Text
from kgroup.model.outcome import Outcome
from kgroup.output.terminal.draw import page_lines
from kgroup.output.terminal.wrapping import boxed, prose_lines, wrap_line

RESET = (
    "kgroup reset orders-svc --topic payments:2 --shift-by 1 --save-skipped pill.jsonl --reason 'a - b;  c' --execute"
)


@pytest.mark.parametrize(
    ("text", "indent", "lines"),
    [
        ("note: nothing is lost", 2, ["note: nothing is lost"]),
        (
            "kgroup: broker 1 of prod did not answer within 30s [unreachable]",
            2,
            ["kgroup: broker 1 of prod did not answer", "  within 30s [unreachable]"],
        ),
        ("kgroup: " + "x" * 50 + " is an id", 2, ["kgroup:", "  " + "x" * 50, "  is an id"]),
        (
            "  kgroup catchup list; a new one: kgroup catchup start x",
            2,
            ["  kgroup catchup list; a new one:", "  kgroup catchup start x"],
        ),
        (
            "cu-7f3a: nothing is lost; to continue: kgroup catchup resume cu-7f3a --rate 200/s --execute",
            2,
            [
                "cu-7f3a: nothing is lost; to continue:",
                "  kgroup catchup resume cu-7f3a \\",
                "     --rate 200/s --execute",
            ],
        ),
        (
            "  kafka-topics.sh --bootstrap-server here:9092 --create --topic orders",
            2,
            ["  kafka-topics.sh \\", "     --bootstrap-server here:9092 \\", "     --create --topic orders"],
        ),
        (
            "  kgroup reset a-group and-another-group --to-latest",
            2,
            ["  kgroup reset a-group \\", "     and-another-group --to-latest"],
        ),
        ("  kgroup describe " + "x" * 50, 2, ["  kgroup describe \\", "     " + "x" * 50]),
        (
            "-> kgroup catchup stop cu-7f3a --execute   stops it; nothing is lost",
            3,
            ["-> kgroup catchup stop cu-7f3a --execute", "   stops it; nothing is lost"],
        ),
    ],
)
def test_lines(text: str, indent: int, lines: list[str]) -> None:
    assert wrap_line(text, 40, indent) == lines


@pytest.mark.parametrize("width", [40, 60, 79, 80, 200])
@pytest.mark.parametrize("before", ["  ", "-> ", "To apply:  "])
def test_a_command_is_the_same_when_it_is_pasted(before: str, width: int) -> None:
    lines = wrap_line(before + RESET, width, 3)

    script = "\n".join(lines).replace("\\\n", "")  # as a shell reads it
    assert shlex.split(script[script.index("kgroup") :]) == shlex.split(RESET)
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (
            " 2 replay   10 records -> a place with a long name",
            [" 2 replay   10 records -> a place", " " * 12 + "with a long name"],
        ),
        (
            " order   The gap is not ordered against the head",
            [" order   The gap is not ordered", " " * 9 + "against the head"],
        ),
        (
            "         older ones of the same key come later",
            ["         older ones of the same key", " " * 9 + "come later"],
        ),
        ("A sentence that has neither of these two", ["A sentence that has neither of these", "   two"]),
    ],
)
def test_a_line_of_a_page_continues_under_its_text(line: str, lines: list[str]) -> None:
    outcome = Outcome((), lambda: Screen(()), lambda: Records((), ()))

    assert list(page_lines(outcome, Screen((Text((line,)),)), 36, lambda text, style: text, wide=False)) == lines


@pytest.mark.parametrize("width", [60, 80, None])
def test_the_conclusion_is_bold_and_its_commands_are_not(width: int | None) -> None:
    outcome = Outcome((), lambda: Screen(()), lambda: Records((), ()))
    text = "enrich-1 commits orders:7 at 40 again and again: it polls, and commits nothing past this offset"
    screen = Screen((Conclusion(text, (RESET,)),))

    lines = list(page_lines(outcome, screen, width, lambda text, style: f"<{style}>{text}", wide=False))

    bold = [line.removeprefix("<strong>") for line in lines if line.startswith("<strong>")]
    assert " ".join(line.strip() for line in bold) == f"-> {text}"
    assert all(len(line) <= (width or 1000) for line in bold)
    commands = lines[len(bold) :]
    assert all(line.startswith("   ") for line in commands)
    assert shlex.split("\n".join(commands).replace("\\\n", "")) == shlex.split(RESET)


def test_without_a_width_it_is_one_line() -> None:
    assert wrap_line(RESET, None) == [RESET]


BOX = (
    "orders-enrich MAY START NOW",
    "It starts at the log end of 16:24:55Z. [committed, log end) is in cu-7f3a-20261123-orders.",
    "Not moved, and not part of the plan: orders:1, orders:2, orders:3 and 4 more.",
)


@pytest.mark.parametrize("width", [60, 80])
def test_a_box_fits_the_terminal(width: int) -> None:
    lines = boxed(BOX, width)
    assert all(len(line) == len(lines[0]) <= width for line in lines)
    assert lines[0] == lines[-1] == f"  +{'-' * (len(lines[0]) - 4)}+"
    inside = [line.removeprefix("  |  ").removesuffix("  |").rstrip() for line in lines[1:-1]]
    assert " ".join(inside) == " ".join(BOX)
    assert inside[0] == BOX[0]


def test_a_box_is_as_wide_as_its_longest_line() -> None:
    assert boxed(("a group", "注文"), None) == [
        "  +-----------+",
        "  |  a group  |",
        "  |  注文     |",
        "  +-----------+",
    ]


def test_a_name_too_long_for_a_box_stays_whole() -> None:
    assert boxed(("g" * 60, "may start"), 60) == ["  " + "g" * 60, "  may start"]


@pytest.mark.parametrize(
    ("sentence", "indent", "width", "lines"),
    [
        ("a" * 40 + " " + "b" * 37, 0, None, ["a" * 40 + " " + "b" * 37]),
        ("a" * 40 + " " + "b" * 38, 0, None, ["a" * 40, "b" * 38]),
        ("a" * 40 + " " + "b" * 38, 2, 200, ["a" * 40, "  " + "b" * 38]),
        ("-> one two three", 3, 10, ["-> one two", "   three"]),
        ("x" * 90, 0, 60, ["x" * 90]),
        ("1. Follow it: kgroup wait svc --for empty", 3, 30, ["1. Follow it:", "   kgroup wait svc --for empty"]),
        ("a\tb", 0, None, ["a\\tb"]),
    ],
    ids=["fits", "too long", "a wide terminal", "a narrow one", "a name is not broken", "a command", "made visible"],
)
def test_prose(sentence: str, indent: int, width: int | None, lines: list[str]) -> None:
    assert prose_lines(Prose((sentence,), indent), width) == lines
