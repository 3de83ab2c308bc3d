"""Command lines as values: shown with other options, each word in a place where it keeps its meaning."""

from __future__ import annotations

from kgroup.support.command_line import CommandLine

DELETE = ("kgroup", "delete")


def test_names_that_look_like_options_stay_names() -> None:
    named_so = CommandLine(DELETE, ("--execute", "-x"), {"--dry-run": ("--dry-run",)})
    assert str(named_so.executing()) == "kgroup delete --execute -- --execute -x"


def test_executing_replaces_dry_run_and_comes_last() -> None:
    planned = CommandLine(
        DELETE,
        ("a b",),
        {"--dry-run": ("--dry-run",), "--execute": ("--execute",), "--bootstrap-server": ("-b", "x:1")},
    )
    assert str(planned.with_option("--partial").executing()) == "kgroup delete 'a b' -b x:1 --partial --execute"


def test_an_option_is_replaced_added_or_left_out_and_the_line_itself_stays() -> None:
    line = CommandLine(DELETE, (), {"--accept": ("--accept", "a", "--accept", "b"), "--expect": ("--expect", "2")})
    assert str(line.with_option("--expect", "3")) == "kgroup delete --accept a --accept b --expect 3"
    assert str(line.without("--accept", "--reason").with_argument("pay")) == "kgroup delete pay --expect 2"
    assert str(line) == "kgroup delete --accept a --accept b --expect 2"
