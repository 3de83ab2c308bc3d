"""Groups that are chosen while a broker does not answer: a fault that a broker won't produce on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from msgspec.structs import replace

from kgroup.cluster.coordinator.groups import GroupListing
from kgroup.cluster.group_partition import partition_of
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.selection import Selection
from kgroup.model.groups import ListedGroup, RowError
from kgroup.queries.snapshots import STATE_ONLY, by_log_partition, choose_groups, snapshots
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError, NotFound, Unreachable
from tests.helpers.command_line import QuietReporter

SILENT = Unreachable("broker 2 did not answer within the timeout")
THERE = ListedGroup("orders-svc", "classic", "Empty", "consumer", None)


@dataclass
class Listed:
    """A cluster that lists these groups, and whose coordinators know none of them."""

    listing: GroupListing
    ref: ClusterRef

    def list_groups(self) -> GroupListing:
        return self.listing

    def describe(self, groups: list[str], _: SnapshotRequest) -> Snapshot:
        return Snapshot((), tuple(RowError.of(NotFound("no such group"), group=name) for name in groups), ())


def choose(selection: Selection, *failures: KgroupError) -> tuple[str, ...]:
    cluster = Listed(GroupListing((THERE,), failures, complete=True), ClusterRef(None, "127.0.0.1:9092", "sandbox"))
    found = choose_groups(QuietReporter(), cast(Cluster, cluster), selection)
    return tuple(group.name for group in found.groups)


@pytest.mark.parametrize("selection", [Selection(regex="clicks-.*"), Selection(names=["clicks"], in_state=["Empty"])])
def test_a_group_that_is_not_listed_may_be_on_the_broker_that_is_silent(selection: Selection) -> None:
    with pytest.raises(Unreachable):
        choose(selection, SILENT)
    with pytest.raises(NotFound):
        choose(selection)


def test_what_the_others_listed_is_chosen() -> None:
    assert choose(Selection(regex="orders-.*"), SILENT) == ("orders-svc",)


def test_a_named_group_that_the_newer_listing_has_is_not_missing() -> None:
    """Its coordinator was elected moments ago, and showed it a moment later."""
    here = ClusterRef(None, "127.0.0.1:9092", "sandbox")
    cluster = cast(Cluster, Listed(GroupListing((THERE,), (), complete=True), here))

    def errors(*names: str) -> list[tuple[str, str | None]]:
        (found,) = snapshots(QuietReporter(), cluster, Selection(names=list(names)), STATE_ONLY)
        return [(error.code, error.group) for error in found.errors]

    assert errors("orders-svc") == [("no-coordinator", "orders-svc")]
    assert errors("orders-svc", "clicks") == [("no-coordinator", "orders-svc"), ("not-found", None)]
    with pytest.raises(NotFound):
        errors("clicks")


@pytest.mark.parametrize(("log_partitions", "at_a_time"), [(50, 250), (50, 20), (3, 100), (0, 100)])
def test_parts_of_many_groups_share_no_partition_of_the_log(log_partitions: int, at_a_time: int) -> None:
    groups = [replace(THERE, name=f"svc-{number}") for number in range(1_000)]

    parts = by_log_partition(groups, log_partitions, at_a_time)

    assert sorted(group.name for part in parts for group in part) == sorted(group.name for group in groups)
    if log_partitions == 0:
        assert [len(part) for part in parts] == [100] * 10
        return
    read = [{partition_of(group.name, log_partitions) for group in part} for part in parts]
    assert sum(map(len, read)) == log_partitions
    assert all(len(part) <= at_a_time or len(numbers) == 1 for part, numbers in zip(parts, read, strict=True))
