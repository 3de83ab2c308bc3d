"""The doctor reads many groups in parts, which share its time limits."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import cast

import pytest
from msgspec.structs import replace

from kgroup.cluster.lag_reading import LagFacts, Need
from kgroup.cluster.offsets_topic.group_log import GroupLogs
from kgroup.cluster.offsets_topic.group_past import UnknownPasts
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.lag.evidence import LagEvidence
from kgroup.model.groups import Group
from kgroup.output.reporter import StderrReporter
from kgroup.queries.doctor import GroupsReader, ScanDepth
from kgroup.queries.facts import GroupFacts
from tests.helpers.cases.lag import group

SCAN, NO_SCAN = ScanDepth(3_600_000, 8.0), ScanDepth(3_600_000, 0.0)


def notes(monkeypatch: pytest.MonkeyPatch, facts: GroupFacts, depth: ScanDepth, *parts: tuple[str, ...]) -> list[str]:
    """What is noted after these parts, of one group more each that has vanished; ``facts`` are those of every group."""

    def read(cluster: Cluster, groups: Sequence[Group], need: Need, own: object) -> dict[str, GroupFacts]:
        assert need.log_time is not None
        assert need.readiness is not None
        assert (need.log_time.groups, need.readiness.groups) == (left + len(groups), left + len(groups))
        return {each.name: facts for each in groups}

    monkeypatch.setattr("kgroup.queries.doctor.read_facts", read)
    left = sum(len(part) + 1 for part in parts)
    reader = GroupsReader(cast(Cluster, None), depth, left)
    for names in parts:
        left -= len(names) + 1
        reader.read([replace(group([]), name=name) for name in names], len(names) + 1)
        for limit in (reader.need.log_time, reader.need.readiness):
            assert limit is not None
            limit.groups -= len(names)  # as the reader of the facts has done, which had this time
    stderr = io.StringIO()
    reader.note(StderrReporter(stderr))
    return stderr.getvalue().splitlines()


def facts(logs: GroupLogs, unread: str | None = None, stopped: str | None = None) -> GroupFacts:
    unknown = UnknownPasts(1, 2, "it is long")
    shared = LagFacts({}, {}, logs, {}, {})
    return GroupFacts(group([]), shared, LagEvidence(now_ms=1), unknown_pasts=unknown, unread=unread, stopped=stopped)


@pytest.mark.parametrize(
    ("depth", "of_every_group", "noted"),
    [
        (
            NO_SCAN,
            facts(GroupLogs({}, {})),
            "__consumer_offsets was not read (--scan-time 0s)",
        ),
        (SCAN, facts(GroupLogs({}, {}), stopped="the limit"), "the limit"),
        (SCAN, facts(GroupLogs({}, {}), unread="no leader"), "no leader"),
        (SCAN, facts(GroupLogs({}, {}, forbidden=True), unread="no READ"), None),
    ],
)
def test_what_the_parts_did_not_read_is_noted_once(
    monkeypatch: pytest.MonkeyPatch, depth: ScanDepth, of_every_group: GroupFacts, noted: str | None
) -> None:
    lines = notes(monkeypatch, of_every_group, depth, ("a", "b"), ("c",))

    assert lines[0] == "note: last members and times of commits of 2 of 3 groups are not fully known: it is long"
    assert lines[1:] == ([f"note: the past of 3 of 3 groups was not read back to --since: {noted}"] if noted else [])
