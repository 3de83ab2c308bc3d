"""Groups that are chosen while a broker does not answer: a fault that a broker won't produce on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from msgspec.structs import replace

from kgroup.cluster.coordinator.groups import GroupListing
from kgroup.cluster.group_partition import partition_of
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection
from kgroup.model.groups import ListedGroup
from kgroup.queries.snapshots import by_log_partition, choose_groups
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError, NotFound, Unreachable
from tests.helpers.command_line import QuietReporter

SILENT = Unreachable("broker 2 did not answer within the timeout")
THERE = ListedGroup("orders-svc", "classic", "Empty", "consumer", None)


@dataclass
class Listed:
    """A cluster of which only the listing is asked."""

    listing: GroupListing
    ref: ClusterRef

    def list_groups(self) -> GroupListing:
        return self.listing


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
