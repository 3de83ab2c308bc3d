"""Lag, offsets out of range, totals, exit codes: tables of cases."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.model.blocks import Records, Screen
from kgroup.model.groups import (
    Group,
    GroupTotals,
    Member,
    Partition,
    RowError,
    is_of_consumers,
)
from kgroup.model.outcome import Outcome
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode, NotAuthorized, NotFound, Refused, Unreachable
from tests.helpers.cases import described
from tests.helpers.cases.described import partition


def member(member_id: str, *partitions: int, assigned: bool = True, **other: Any) -> Member:
    told: dict[str, Any] = {} if assigned else {"assignment": None}
    return described.member(member_id, *partitions, **({"client_id": "app", "host": "/10.0.0.1"} | told | other))


def group(members: tuple[Member, ...] = (), partitions: tuple[Partition, ...] = (), **other: Any) -> Group:
    given: dict[str, Any] = {"name": "svc", "coordinator": None, "generation": None}
    return described.group(partitions, members, **(given | other))


@pytest.mark.parametrize(
    ("committed", "log", "lag", "flag"),
    [
        (70, (0, 120), 50, None),
        (120, (0, 120), 0, None),
        (0, (0, 0), 0, None),
        (0, (0, 120), 120, None),
        (100, (100, 120), 20, None),
        (5, (100, 120), 20, "below-log-start"),
        (5, (120, 120), 0, "below-log-start"),
        (121, (0, 120), 0, "above-log-end"),
        (121, (120, 120), 0, "above-log-end"),
        (2**62, (0, 2**63 - 1), 2**63 - 1 - 2**62, None),
        (None, (0, 120), None, None),
        (70, None, None, None),
        (None, None, None, None),
    ],
)
def test_lag_and_range(committed: int | None, log: tuple[int, int] | None, lag: int | None, flag: str | None) -> None:
    found = partition(0, committed, log)

    assert found.lag == lag
    assert found.out_of_range == flag


def test_totals_count_what_is_known() -> None:
    first, second, idle = member("a", 0, 1), member("b", 2), member("c")
    found = group(
        (first, second, idle),
        (
            partition(0, 70, (0, 120), first),
            partition(1, None, (0, 7), first),
            partition(2, 10, None, second, "unreachable"),
            partition(3, 5, (0, 10)),
        ),
    ).totals

    assert found == GroupTotals(3, 1, 4, 1, 55)


@pytest.mark.parametrize(
    ("partitions", "lag"),
    [
        ((), None),
        ((partition(0, None, (0, 120)),), None),
        ((partition(0, 70, None),), None),
        ((partition(0, 120, (0, 120)),), 0),
        ((partition(0, 120, (0, 120)), partition(1, None, (0, 9))), 0),
        ((partition(0, 130, (0, 120)), partition(1, 5, (0, 9))), 4),
    ],
)
def test_the_total_lag_is_unknown_only_where_no_partitions_lag_is_known(
    partitions: tuple[Partition, ...], lag: int | None
) -> None:
    assert group((), partitions).totals.lag == lag


def test_a_member_whose_assignment_is_not_told_is_not_idle() -> None:
    assert group((member("a", assigned=False), member("b"))).totals.idle_member_count == 1


@pytest.mark.parametrize(
    ("kind", "protocol_type", "simple"),
    [("classic", "", True), ("classic", "consumer", False), ("classic", None, False), ("consumer", "", False)],
)
def test_a_simple_group_is_a_classic_one_that_never_had_members(
    kind: str, protocol_type: str | None, simple: bool
) -> None:
    assert group(type=kind, protocol_type=protocol_type).is_simple is simple


@pytest.mark.parametrize(
    ("state", "members", "empty"),
    [("Empty", (), True), ("Dead", (), True), ("Empty", None, True), ("Stable", None, False), ("Stable", (), False)],
)
def test_a_group_whose_members_may_not_be_seen_is_what_its_state_says(
    state: str, members: tuple[Member, ...] | None, empty: bool
) -> None:
    assert replace(group(state=state), members=members).is_empty is empty


@pytest.mark.parametrize(
    ("protocol_type", "may_be"), [(None, True), ("", True), ("consumer", True), ("connect", False)]
)
def test_a_group_of_consumers_may_have_no_protocol_type(protocol_type: str | None, may_be: bool) -> None:
    assert is_of_consumers(protocol_type) is may_be


@pytest.mark.parametrize(
    ("error", "subject"),
    [
        (RowError("x", "m"), ""),
        (RowError("x", "m", group="g"), "g"),
        (RowError("x", "m", topic="orders"), "orders"),
        (RowError("x", "m", group="g", topic="orders", partition=0), "g orders:0"),
    ],
)
def test_the_subject_of_a_row_error(error: RowError, subject: str) -> None:
    assert error.subject == subject


@pytest.mark.parametrize(
    ("cluster", "label"),
    [
        (ClusterRef("id", "b1:9092,b2:9092", "prod"), "prod"),
        (ClusterRef("id", "b1:9092,b2:9092"), "b1:9092"),
    ],
)
def test_a_cluster_is_called_by_its_context_or_first_address(cluster: ClusterRef, label: str) -> None:
    assert cluster.label == label


NO_RIGHT = RowError.of(NotAuthorized("no DESCRIBE"), topic="audit")
GONE = RowError.of(NotFound("does not exist"), topic="audit")
DOWN = RowError.of(Unreachable("broker 2"), group="g")
LIVE = RowError.of(Refused("g has members", code="not-empty"), group="g")


@pytest.mark.parametrize(
    ("data", "errors", "check_failed", "code"),
    [
        (1, (), False, ExitCode.DONE),
        (0, (), False, ExitCode.DONE),
        (1, (), True, ExitCode.CHECK_FAILED),
        (1, (NO_RIGHT,), False, ExitCode.PARTLY),
        (1, (NO_RIGHT,), True, ExitCode.PARTLY),
        (0, (NO_RIGHT,), False, ExitCode.NOT_AUTHORIZED),
        (0, (NO_RIGHT, NO_RIGHT), False, ExitCode.NOT_AUTHORIZED),
        (0, (DOWN,), False, ExitCode.UNREACHABLE),
        (0, (GONE,), False, ExitCode.NOT_FOUND),
        (0, (LIVE, LIVE), False, ExitCode.NOT_YET),
        (0, (LIVE, GONE), False, ExitCode.NOT_FOUND),
        (1, (LIVE,), False, ExitCode.PARTLY),
    ],
)
def test_the_exit_code_of_an_outcome(
    data: int, errors: tuple[RowError, ...], check_failed: bool, code: ExitCode
) -> None:
    found = Outcome(
        data=(group(),) * data,
        screen=lambda: Screen(()),
        records=lambda: Records((), ()),
        errors=errors,
        check_failed=check_failed,
    )

    assert found.exit_code == code
