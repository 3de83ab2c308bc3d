"""A group of a migration with its part of the result: what was done of it, and when its offsets expire."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.groups.change_result import COMMITS_MISSING, NOT_VERIFIED, UNKNOWN, Refusal, Result
from kgroup.groups.migration.migrated import MigrationResult, migration_result
from kgroup.groups.migration.readiness import assess_readiness
from kgroup.model.commit import Commit
from kgroup.model.groups import RowError
from kgroup.support.errors import Refused
from tests.helpers.cases.migration import DAY_MS, EMPTY, HOUR_MS, LIVE, NOW_MS, TO_CONSUMER, broker, case

NAME = EMPTY.group.name
READY, NOT_READY = (assess_readiness(each, TO_CONSUMER, case(each).rules) for each in (EMPTY, LIVE))
KEPT = Commit(3, None, "")
ROWS = tuple(
    ChangeRow(NAME, "orders", number, KEPT, KEPT, done=True, read_back=found)
    for number, found in enumerate((KEPT, Commit(4, None, "")))
)


def result_of(*refusals: Refusal, evidence: Any = EMPTY, readiness: Any = READY, **result: Any) -> MigrationResult:
    plan = ChangePlan((evidence.group,), ROWS, converted={NAME: "consumer"}, configs={NAME: {"a": "1"}})
    whole = Result(plan, refusals, executed=True, id="ch-1", **result)
    (found,) = migration_result([evidence], [readiness], "consumer", "2026-11-01", whole)
    return found


def error(code: str) -> RowError:
    return RowError(code, "what it is", NAME, None, None)


@pytest.mark.parametrize(
    ("result", "converted", "configured", "code", "change_id"),
    [
        ({}, None, None, None, None),
        ({"whole": {NAME: None}, "configured": {NAME: None}}, True, True, None, "ch-1"),
        ({"whole": {NAME: error("not-empty")}}, False, None, "not-empty", "ch-1"),
        ({"whole": {NAME: error(UNKNOWN)}}, None, None, UNKNOWN, "ch-1"),
        ({"whole": {NAME: error(NOT_VERIFIED)}}, None, None, NOT_VERIFIED, "ch-1"),
        ({"whole": {NAME: error(COMMITS_MISSING)}}, None, None, COMMITS_MISSING, "ch-1"),
        ({"configured": {NAME: error("denied")}}, None, False, "denied", None),
        ({"configured": {NAME: error(UNKNOWN)}}, None, None, UNKNOWN, None),
    ],
)
def test_what_was_done(
    result: dict[str, Any], converted: bool | None, configured: bool | None, code: str | None, change_id: str | None
) -> None:
    """Neither True nor False where the answer was lost, or could not be verified."""
    found = result_of(**result)

    assert (found.converted, found.configured, found.change_id) == (converted, configured, change_id)
    assert (found.error.code if found.error else None) == code


def test_a_refusal_is_its_error() -> None:
    refused = result_of(Refusal(NAME, Refused("it is not ready", code="not-ready")), Refusal(None, Refused("all")))

    assert refused.error is not None
    assert refused.error.code == "not-ready"


def test_what_its_rows_are() -> None:
    found = result_of()

    assert (found.rows, found.identical, found.topics, found.member_count) == (ROWS, 1, 1, 0)
    assert (found.ready_now, result_of(evidence=LIVE, readiness=NOT_READY).ready_now) == (True, False)


@pytest.mark.parametrize(
    ("evidence", "expires_ms", "kept_until_ms"),
    [
        (EMPTY, NOW_MS - HOUR_MS + 7 * DAY_MS, NOW_MS + 7 * DAY_MS),
        (replace(EMPTY, past=None), None, NOW_MS + 7 * DAY_MS),
        (broker(EMPTY, offsets_retention_ms=None), None, None),
    ],
    ids=["known", "no-past", "no-retention"],
)
def test_when_its_offsets_expire(evidence: Any, expires_ms: int | None, kept_until_ms: int | None) -> None:
    converted = result_of(evidence=evidence, whole={NAME: None})

    assert (converted.expires_ms, converted.kept_until_ms) == (expires_ms, kept_until_ms)
    assert result_of(evidence=evidence).kept_until_ms is None, "not converted"
