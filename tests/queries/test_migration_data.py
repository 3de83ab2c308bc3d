"""The tables of clients and broker defects: what is in them, and that a wrong row does not go unseen."""

from __future__ import annotations

import dataclasses

import pytest

from kgroup.groups.migration.rules import Certainty, Support
from kgroup.groups.migration.versions import parse_version
from kgroup.queries.migration_data import load_rules, parse_rules
from kgroup.support.errors import KgroupError

CLIENTS = """
clients:
  - {name: java, title: Java, support: full, usable_from: "4.0", certainty: confirmed,
     recommended_certainty: confirmed, source: docs}
monitors:
  - {name: m, what: fine, source: s, certainty: unknown}
"""
DEFECTS = """
defects:
  - {id: KAFKA-1, what: it breaks, since: "4.0", fixed_in: [], level: info, targets: [consumer], certainty: confirmed}
services:
  - {name: s, what: lacks it, source: s, certainty: unknown}
proxies:
  - {name: p, what: caps it, source: s, certainty: unknown}
"""


def test_the_tables_of_this_release_are_sound() -> None:
    rules = load_rules()

    assert len(rules.clients) == 16
    assert len(rules.broker_defects) == 10
    assert {product.name for product in rules.proxies} == {"Kroxylicious"}
    assert len(rules.monitors) == 7
    assert load_rules() is rules


def test_every_row_of_clients_says_something() -> None:
    for row in load_rules().clients:
        if row.support is Support.FULL and row.usable_from and row.recommended:
            usable, advised = parse_version(row.usable_from), parse_version(row.recommended)
            assert usable is not None
            assert advised is not None
            assert usable <= advised, row.name
        assert row.follows is None or row.support is Support.UNKNOWN, row.name
        assert row.recommended is None or row.recommended_certainty is not Certainty.UNKNOWN, row.name


def test_fixes_come_after_defects() -> None:
    for defect in load_rules().broker_defects:
        since = parse_version(defect.since)
        assert since is not None
        for text in defect.fixed_in:
            fixed = parse_version(text)
            assert fixed is not None
            assert fixed > since, defect.id


def test_the_smallest_tables() -> None:
    rules = parse_rules(CLIENTS, DEFECTS)

    assert [row.name for row in rules.clients] == ["java"]
    assert (rules.clients[0].also, rules.clients[0].notes, rules.clients[0].defects) == ((), (), ())
    assert rules.broker_defects[0].targets == ("consumer",)
    assert dataclasses.is_dataclass(rules)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('usable_from: "4.0"', "usable_from: 4.0", "clients.yaml is broken: clients, row 1 (java) needs usable_from"),
        ('usable_from: "4.0"', 'usable_from: "4.x"', "has usable_from 4.x, which is no version"),
        ("support: full", "support: yes", "(java) needs support, as text"),
        ("support: full", "support: good", "has support good; it is full, none, unknown"),
        ("support: full", "support: none", "has versions, though it is not of full support"),
        ("certainty: confirmed,", "certainty: C,", "has certainty C; it is confirmed, second-hand, unknown"),
        ("source: docs", "", "needs source, as text"),
        ("source: docs", "source: docs, sauce: x", "has fields that mean nothing: sauce"),
        ("source: docs", "source: docs, also: java", "needs also to be a list of texts"),
        ("source: docs", "source: docs, also: [java]", "java and java are both called java"),
        ("source: docs", "source: docs, wait: maybe", "needs wait to be true or false"),
        ("source: docs", 'source: docs, wait: true, recommended: "4.3"', "which of the two?"),
        ("source: docs", "source: docs, follows: scala", "follows scala, which is not in the table"),
        ("source: docs", "source: docs, last_major: six", "needs last_major to be a number"),
        ("source: docs", "source: docs, last_major: true", "needs last_major to be a number"),
        ("source: docs", "source: docs, defects: some", "needs defects to be a list of rows"),
        ("source: docs", "source: docs, defects: [{id: a}]", "(java), defects, row 1 (a) needs what"),
        (
            "source: docs",
            "source: docs, defects: [{id: a, what: b, level: info, certainty: unknown}]",
            "needs fixed_in; an empty list says that it is open",
        ),
        (
            "source: docs",
            "source: docs, defects: [{id: a, what: b, fixed_in: [], level: info, certainty: unknown, odd: 1}]",
            "has fields that mean nothing: odd",
        ),
        ("clients:\n", "clientele:\n", "nothing is called clientele"),
        ("monitors:\n", "monitors: []\nx:\n", "nothing is called x"),
        ("- {name: m, what: fine, source: s, certainty: unknown}", "- text", "monitors, row 1 is not a row of fields"),
        ("- {name: m, what: fine, source: s, certainty: unknown}", "", "monitors is not a list of rows"),
    ],
)
def test_a_broken_table_of_clients(old: str, new: str, words: str) -> None:
    assert old in CLIENTS
    with pytest.raises(KgroupError) as caught:
        parse_rules(CLIENTS.replace(old, new, 1), DEFECTS)

    assert words in caught.value.message
    assert caught.value.code == "broken-data"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('since: "4.0"', "since: 4.0", "broker_defects.yaml is broken: defects, row 1 (KAFKA-1) needs since, as text"),
        ("fixed_in: []", 'fixed_in: ["soon"]', "has fixed_in soon, which is no version"),
        ("fixed_in: []", "fixed_in: [4.1]", "needs fixed_in to be a list of texts"),
        ("targets: [consumer]", "targets: []", "needs targets to be of classic, consumer"),
        ("targets: [consumer]", "targets: [share]", "needs targets to be of classic, consumer"),
        ("targets: [consumer]", "targets: [consumer], policies: [NEVER]", "needs policies to be of BIDIRECTIONAL"),
        ("level: info", "level: high", "has level high; it is warning, info"),
        ("services:", "  - {id: KAFKA-2}\nservices:", "defects, row 2 (KAFKA-2) needs what"),
    ],
)
def test_a_broken_table_of_defects(old: str, new: str, words: str) -> None:
    assert old in DEFECTS
    with pytest.raises(KgroupError) as caught:
        parse_rules(CLIENTS, DEFECTS.replace(old, new, 1))

    assert words in caught.value.message


def test_a_row_that_is_there_twice() -> None:
    twice = CLIENTS.replace("monitors:\n", "monitors:\n  - {name: m, what: again, source: s, certainty: unknown}\n")

    with pytest.raises(KgroupError, match="monitors: m is there twice"):
        parse_rules(twice, DEFECTS)


@pytest.mark.parametrize(
    ("text", "words"), [("", "there is no table in it"), ("a: [", "not YAML"), ("- a", "there is no table in it")]
)
def test_a_file_that_is_no_table(text: str, words: str) -> None:
    with pytest.raises(KgroupError, match=words):
        parse_rules(text, DEFECTS)
