"""Groups that are chosen while a broker does not answer: a fault that a broker won't produce on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from kgroup.cluster.coordinator.groups import GroupListing
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection
from kgroup.model.groups import ListedGroup
from kgroup.queries.snapshots import choose_groups
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError, NotFound, Unreachable
from tests.support.command_line import QuietReporter

SILENT = Unreachable("broker 2 did not answer in time")
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
