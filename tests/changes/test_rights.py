"""Which rights a plan needs, and what is said of those that are missing or unknown; without a broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kgroup.changes.rights import apply_rights, needed
from kgroup.cluster.rights import Operations, Rights
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.model.commit import Commit
from kgroup.model.groups import RowError
from kgroup.model.reporter import Reporter
from kgroup.support.errors import NotFound

SEVEN = Commit(7, None, "")


def row(group: str, topic: str, new: Commit | None = SEVEN) -> ChangeRow:
    return ChangeRow(group, topic, 0, Commit(3, None, ""), new)


MOVED = ChangePlan((), (row("a", "t"), row("a", "u"), row("b", "t", None)))
DELETED = ChangePlan((), (row("a", "t", None), row("a", "u", None)), deleted=frozenset("a"))
CONVERTED = ChangePlan((), (row("a", "t"), row("a", "u")), converted={"a": "consumer"}, configs={"a": {"k": "v"}})
CONFIGURED = ChangePlan((), (), configs={"a": {"k": None}})
HALF = ChangePlan((), (row("a", "t"), row("b", "u").failing(RowError.of(NotFound("no commit")))))


@pytest.mark.parametrize(
    ("plan", "groups", "topics"),
    [
        (MOVED, {"a": {"READ"}, "b": {"DELETE"}}, {"a": {"t", "u"}, "b": {"t"}}),
        (DELETED, {"a": {"DELETE"}}, {}),
        (CONVERTED, {"a": {"READ", "ALTER_CONFIGS"}}, {"a": {"t", "u"}}),
        (CONFIGURED, {"a": {"ALTER_CONFIGS"}}, {}),
        (HALF, {"a": {"READ"}}, {"a": {"t"}}),
        (ChangePlan((), ()), {}, {}),
    ],
)
def test_what_a_plan_needs(plan: ChangePlan, groups: dict[str, set[str]], topics: dict[str, set[str]]) -> None:
    assert needed(plan) == (groups, topics)


class Notes:
    def __init__(self) -> None:
        self.notes = list[str]()

    def note(self, text: str) -> None:
        self.notes.append(text)


class Told:
    """A cluster that says these rights, and which of them were asked for."""

    def __init__(self, **rights: Operations | None) -> None:
        self.told = rights
        self.asked: list[Any] = []

    def rights(self, groups: list[str], topics: set[str]) -> Rights:
        self.asked.append((groups, topics))
        return Rights({g: self.told[g] for g in groups}, {t: self.told[t] for t in topics if t in self.told})


def judged(plan: ChangePlan, **rights: Operations | None) -> tuple[list[str], list[str], list[str]]:
    """(the refusals, the rows' errors, the notes)"""
    notes = Notes()
    checked, refusals = apply_rights(cast(Reporter, notes), cast(ChangingCluster, Told(**rights)), plan)
    return (
        [f"{refusal.group}: {refusal.error.message}" for refusal in refusals],
        [f"{row.group}: {row.error.message}" for row in checked.rows if row.error],
        notes.notes,
    )


ALL = frozenset({"READ", "DELETE", "DESCRIBE", "ALTER_CONFIGS"})
SEE = frozenset({"DESCRIBE"})


def test_all_rights() -> None:
    assert judged(MOVED, a=ALL, b=ALL, t=ALL, u=ALL) == ([], [], [])


def test_a_topic_costs_its_rows_and_a_group_all_of_it() -> None:
    refused, failing, notes = judged(MOVED, a=ALL, b=SEE, t=ALL, u=SEE)
    assert refused == ["b: no DELETE on Group b, which this change needs"]
    assert failing == ["a: no READ on Topic u, which this change needs"]
    assert notes == []


def test_a_converted_group_cannot_leave_commits_behind() -> None:
    refused, failing, _ = judged(CONVERTED, a=ALL, t=SEE, u=SEE)
    assert refused == ["a: no READ on Topic t, u, which this change needs"]
    assert failing == []


def test_what_is_unknown_is_said_and_refuses_nothing() -> None:
    refused, failing, notes = judged(MOVED, a=None, b=ALL, t=None, u=ALL)
    assert (refused, failing) == ([], [])
    assert notes == [
        "whether this user may change 1 group and 1 topic is unknown: "
        "the brokers do not report which operations are authorized"
    ]


def test_nothing_is_asked_where_nothing_is_changed() -> None:
    cluster = Told()
    apply_rights(cast(Reporter, Notes()), cast(ChangingCluster, cluster), ChangePlan((), ()))
    assert cluster.asked == []
