"""Answers of kgroup, stored with the golden pages, held against rows: pure, no broker."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.situations.advice import Setting, alike, can_run, changes, matches, setting, shape
from tests.situations.conclude import Cell, Worth, conclude, named
from tests.situations.row import Action, At, Program, Row, Says
from tests.situations.said import Said, said

DATA = Path(__file__).parents[1] / "golden" / "data"
TOPICS = {"t": "poisoned"}
SYMBOLS = {"P": 12, "C": 12}
POISON = Row(
    id="poison-each-silent",
    cause="record P cannot be processed",
    programs=(Program(commit="each"),),
    begin=(Action(0, "poison", "t:0"),),
    at=(At("t:0", offset="P", committed="P"),),
    right=Says(lag="stop", rules="stalled-commits"),
)
WELL = Row(id="h", cause="keeps up", programs=(Program(commit="each"),), healthy=True)


def stored(file: str, verb: str, group: str) -> dict[str, Any]:
    """The JSON of a golden page; numbers that differ at each run are 0."""
    page = (DATA / f"{file}.txt").read_text(encoding="utf-8")
    text = page.partition(f"$ kgroup {verb} {group} -o json\n")[2].partition("\nexit code")[0]
    text = re.sub(r"(?m)^!.*\n?", "", text)
    document: dict[str, Any] = json.loads(re.sub(r": <\w+>", ": 0", text))
    return document


def of_stuck(verb: str) -> Said:
    return said(stored("stuck-classic", verb, "stuck"), "stuck", TOPICS, SYMBOLS)


def worth_of(row: Row, verb: str) -> Worth:
    return conclude(row, of_stuck(verb), SYMBOLS).worth


def test_said_has_the_names_of_the_row() -> None:
    describe = of_stuck("describe")
    assert describe.statuses == {"t:0": "stop"}
    assert "stuck t:0 at 12: no commit for 5m9s" in describe.sentences
    assert "reset --to-offset t:0=P+1 --save-skipped" in describe.commands
    [finding] = of_stuck("doctor").findings
    assert (finding.rule, finding.severity, finding.places) == ("stalled-commits", "warning", ("t:0",))


@pytest.mark.parametrize("verb", ["describe", "lag", "doctor", "peek"])
def test_the_true_cause_is_right(verb: str) -> None:
    assert worth_of(POISON, verb) is Worth.RIGHT


@pytest.mark.parametrize("verb", ["describe", "lag", "doctor", "peek"])
def test_an_alarm_about_a_healthy_group_is_wrong(verb: str) -> None:
    assert worth_of(WELL, verb) is Worth.WRONG


def test_what_a_row_allows_is_no_alarm() -> None:
    allowed = replace(WELL, allowed=Says(lag="stop", rules="stalled-commits"))
    assert worth_of(allowed, "peek") is Worth.RIGHT
    assert conclude(allowed, of_stuck("doctor"), SYMBOLS).why == "prints `reset --to-offset t:0=P+1 --save-skipped`"
    assert "prints `reset" in conclude(allowed, of_stuck("describe"), SYMBOLS).why


def test_the_right_words_at_another_place_are_wrong() -> None:
    elsewhere = replace(POISON, at=(At("t:1", offset="P"),))
    assert worth_of(elsewhere, "lag") is Worth.WRONG


@pytest.mark.parametrize(
    ("right", "expected"),
    [("at <P>: no commit", "right"), ("at <P+1>: no commit", "silent"), ("at <B>: no commit", "silent")],
)
def test_a_row_with_words_wants_them_with_its_numbers(right: str, expected: str) -> None:
    assert worth_of(replace(POISON, right=Says(lag="stop", describe=right)), "describe") == expected


def test_a_word_that_is_not_true_is_wrong() -> None:
    cell = conclude(replace(POISON, wrong=Says(describe="no commit for")), of_stuck("describe"), SYMBOLS)
    assert (cell.worth, cell.why) == (Worth.WRONG, "says 'no commit for'")


def test_a_cause_that_the_row_does_not_have_is_wrong() -> None:
    assert worth_of(replace(POISON, right=Says(lag="stall", rules="no-reader")), "lag") is Worth.WRONG
    assert worth_of(replace(POISON, right=Says(lag="stall", rules="no-reader")), "doctor") is Worth.WRONG


def test_a_finding_with_the_right_words_is_right_whatever_its_rule() -> None:
    words = replace(POISON, right=Says(lag="stop", doctor="t:0 at <P>"))
    assert worth_of(words, "doctor") is Worth.RIGHT
    assert conclude(replace(words, right=Says(lag="stop", doctor="t:1 at")), of_stuck("doctor"), SYMBOLS).why == (
        "stalled-commits (warning)"
    )


def test_a_command_that_does_damage_is_harmful() -> None:
    cell = conclude(replace(POISON, harms=("reset --to-offset t:0=P+1",)), of_stuck("describe"), SYMBOLS)
    assert cell.worth is Worth.HARMFUL
    assert cell.why == "prints `reset --to-offset t:0=P+1 --save-skipped`"


def test_not_yet_is_early_and_nothing_is_silent() -> None:
    page = said(stored("crash-loop-classic", "doctor", "crash-loop"), "crash-loop", {"t": "crashing"}, {})
    row = replace(POISON, allowed=Says(rules="rebalance-storm"))
    assert page.early == ("no-reader: no member for less than 1m, which may be a restart",)
    assert conclude(row, page, {}).worth is Worth.EARLY
    assert conclude(row, replace(page, early=()), {}).worth is Worth.SILENT


def test_named_is_by_describe_or_doctor_and_nothing_bad() -> None:
    right, wrong = Cell("doctor", Worth.RIGHT), Cell("lag", Worth.WRONG)
    assert named((right, Cell("lag", Worth.SILENT)))
    assert not named((right, wrong))
    assert not named((Cell("lag", Worth.RIGHT), Cell("doctor", Worth.SILENT)))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "kgroup reset x.g --to-offset x.t:0=1001 --save-skipped x.t-0.jsonl -b h:1",
            "reset --to-offset t:0=P+1 --save-skipped",
        ),
        ("kgroup reset x.g --to-offset x.t:1=70 -b h:1 --execute", "reset --to-offset t:1=70"),
        ("kgroup evict x.g --instance app-1 -b h:1", "evict --instance app-1"),
        ("kgroup delete-offsets x.g --topic x.t -b h:1", "delete-offsets --topic t"),
        ("kgroup undo x.g --as-of 2026-11-27T17:25:25Z -b h:1", "undo --as-of"),
        ("kgroup catchup start x.g -b h:1", "catchup start"),
    ],
)
def test_shape(command: str, expected: str) -> None:
    assert shape(command, "x.g", {"t": "x.t"}, {"P": 1000}) == expected


def test_a_pattern_matches_each_shape_with_its_words() -> None:
    shaped = "reset --to-offset t:0=P+1 --save-skipped"
    symbols = {"P": 12, "B": 11, "E": 12}
    assert matches(shaped, "reset", symbols)
    assert matches(shaped, "reset t:0=P+1", symbols)
    assert matches(shaped, "reset t:0=B+2", symbols)
    assert not matches(shaped, "reset t:0=P+2", symbols)
    assert not matches(shaped, "reset t:0=C+1", symbols)
    assert changes(shaped)
    assert not changes("peek")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kgroup peek x.g", True),
        ("kgroup catchup resume cu-1 --to-topic TOPIC", False),
        ("kgroup evict x.g --instance 0-static", True),
        ("group.instance.id=NAME-OF-THE-INSTANCE", False),
        ("kafka-topics.sh --bootstrap-server h:1 --alter --topic x.t --partitions N", False),
    ],
)
def test_what_can_run_as_it_is_printed(command: str, expected: bool) -> None:
    assert can_run(command) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("session.timeout.ms=45000", Setting("session.timeout.ms", "45000", of_group=False)),
        ("group.instance.id=NAME-OF-THE-INSTANCE", Setting("group.instance.id", "NAME-OF-THE-INSTANCE", False)),
        (
            "consumer.session.timeout.ms=45000 as a config of the group orders.g",
            Setting("consumer.session.timeout.ms", "45000", of_group=True),
        ),
        ("kgroup reset x.g --to-offset x.t:0=1001", None),
        ("kafka-topics.sh --bootstrap-server h:1 --alter --topic x.t --partitions N", None),
    ],
)
def test_what_is_a_setting(line: str, expected: Setting | None) -> None:
    assert setting(line) == expected


def test_the_advice_of_another_run_is_alike_but_for_numbers() -> None:
    assert alike("reset --to-offset t:1=70", "reset --to-offset t:1=85")
    assert not alike("reset --to-offset t:1=70", "reset --to-offset t:0=70")
    assert not alike("reset --to-offset t:0=P+1", "reset --to-offset t:0=P")
