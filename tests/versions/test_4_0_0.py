"""Every verb on Kafka 4.0.0."""

from __future__ import annotations

import pytest

from tests.helpers.command_line import CommandLine
from tests.versions.smoke import NEW, NEW_LIVE, SMOKE, Stage

VERSION = "4.0.0"

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("verb", SMOKE)
def test_a_verb(stage: Stage, verb: str) -> None:
    SMOKE[verb](stage)


def test_groups_that_the_broker_denies_are_errors(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the last row believed, as once it was: the groups are listed, so they are not taken for deleted ones."""
    monkeypatch.setattr(
        "kgroup.cluster.coordinator.groups.row_of_each_group", lambda rows: {group: told for group, *told in rows}
    )
    kgroup = CommandLine()
    for verb in ("export", "lag", "describe", "doctor", "history"):
        document = kgroup(verb, "--all-groups", "-o", "json", exit_code=7).json
        lost = {error["group"] for error in document["errors"]}
        assert {error["code"] for error in document["errors"]} == {"no-coordinator"}
        assert len(lost & {*NEW, NEW_LIVE}) >= len(NEW), "at most one is in the partition that answers last"
        assert not lost & {row["group"] for row in document["data"]}
        assert set(stage.groups) - lost <= {row["group"] for row in document["data"]}
    document = kgroup("list", "-o", "json", exit_code=7).json
    uncounted = {row["group"] for row in document["data"] if row["member_count"] is None}
    assert {error["group"] for error in document["errors"]} == uncounted >= lost & {*NEW}
    planned = kgroup("reset", "--regex", "c-[abcd]", "--all-topics", "--to-latest", "-o", "json", exit_code=3).json
    (kept,) = {row["group"] for row in planned["data"]}
    assert sorted(error["group"] for error in planned["errors"]) == sorted({*NEW} - {kept})
