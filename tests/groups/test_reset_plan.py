"""Which offsets of a file are refused as another group's."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.offset_files import FileRow
from kgroup.groups.reset_plan import refuse_other_topics
from kgroup.model.commit import Commit
from kgroup.model.groups import Group
from tests.helpers.cases.described import group, member, partition

OWN = group([partition(0, 5), partition(1, topic="assigned")], [member("m", subscription=("orders", "read"))])
NEW = group([])


def of_file(*topics: str, named: str | None = None) -> tuple[FileRow, ...]:
    return tuple(FileRow(topic, 0, 9, group=named) for topic in topics)


@pytest.mark.parametrize(
    ("about", "file", "refused"),
    [
        (OWN, of_file("orders"), None),
        (OWN, of_file("stock"), "stock"),
        (OWN, of_file("orders", "stock", "audit"), "audit, stock"),
        (OWN, of_file("read"), None),
        (OWN, of_file("assigned"), None),
        (OWN, of_file("stock", named=OWN.name), None),
        (NEW, of_file("stock"), None),
        (OWN, (), None),
    ],
    ids=["own", "another", "one of several", "subscribed", "assigned", "named", "without a commit", "no file"],
)
def test_a_file_of_another_groups_topics(about: Group, file: Sequence[FileRow], refused: str | None) -> None:
    rows = [ChangeRow(about.name, row.topic, row.partition, None, Commit(9, None, "")) for row in file]

    found = refuse_other_topics([about], rows, file)

    assert [(each.group, each.error.code) for each in found] == ([(about.name, "other-topics")] if refused else [])
    if refused:
        assert f"the file has offsets of {refused}, on which" in found[0].error.message
        assert found[0].error.details == ("its own topics: assigned, orders, read",)
