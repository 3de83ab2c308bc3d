"""The rows of list without a broker."""

from __future__ import annotations

from kgroup.model.groups import ListedGroup
from kgroup.output.pages.list import list_outcome
from kgroup.support.cluster_ref import ClusterRef
from tests.helpers.json_documents import documents


def test_a_listed_group_of_another_kind_has_no_number_of_members() -> None:
    queue = ListedGroup("queue", "share", "Stable", "share", None)
    (document,) = documents(list_outcome([queue], {}, ClusterRef("id", "b1:9092"), 0, ()))

    assert document["member_count"] is None
    assert document["type"] == "share"
