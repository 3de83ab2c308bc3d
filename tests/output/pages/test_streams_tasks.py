"""The tasks of a streams group on its page, from values alone."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kgroup.model.groups import Group
from kgroup.model.streams_group import Changelogs, StreamsGroup, StreamsMember, StreamsTask, Subtopology, TaskRole
from kgroup.output.pages.describe import outcome, title, topology_line
from kgroup.output.pages.describe_records import DescribePart
from kgroup.support.cluster_ref import ClusterRef
from tests.helpers import pages
from tests.helpers.cases.described import group, member, partition

FIRST, SECOND = StreamsTask("0", 0), StreamsTask("0", 1)
COUNT = Subtopology("0", ("orders",), (), ("wc-count-changelog",))


def having(active: tuple[StreamsTask, ...], standby: tuple[StreamsTask, ...] = (), epoch: int = 0) -> StreamsMember:
    tasks = {TaskRole.ACTIVE: active, TaskRole.STANDBY: standby, TaskRole.WARMUP: ()}
    return StreamsMember("p", epoch, tasks, tasks, dict.fromkeys(standby, 120))


STREAMS = StreamsGroup(
    0,
    (COUNT,),
    {"a-id": having((FIRST,)), "b-id": having((), (FIRST,))},
    {"orders": 2},
    (),
    {FIRST: Changelogs(5000, 40 * 1024 * 1024), SECOND: Changelogs(None, None)},
)


def counting(streams: StreamsGroup = STREAMS, **other: Any) -> Group:
    owner = member("a-id", 0, client_id="a", epoch=4)
    rows = (partition(0, 10, (0, 10), owner), partition(1, 10, (0, 10)))
    members = [owner, member("b-id", client_id="b", epoch=4, assignment=())]
    kind = {"type": "streams", "protocol_type": "streams", "assignor": "sticky", "group_epoch": 4}
    return group(rows, members, **{"name": "wc", "assignment_epoch": 4, "streams": streams} | kind | other)


def drawn(about: Group, part: DescribePart = DescribePart.PAGE, rate: int | None = None) -> list[str]:
    return pages.drawn(outcome(part, [about], ClusterRef("id", "b1:9092", "prod"), restore_rate=rate))


def test_each_task_with_its_members_and_its_state() -> None:
    lines = drawn(counting(), rate=1024 * 1024)
    header = next(line for line in lines if line.startswith("TASK "))
    assert header.split() == ["TASK", "ACTIVE", "STANDBY", "TASK-LAG", "CHANGELOG", "SIZE", "RESTORE"]
    rows = [line.split() for line in lines if line.startswith("0_")]
    assert rows == [
        ["0_1", "no", "owner", "-", "-", "-", "-", "-"],
        ["0_0", "a", "b", "120", "5000", "40", "MiB", "40s"],
    ]
    assert "up to 60s ago" in " ".join(lines)
    assert title(counting()) == "wc  Stable  streams  epoch 4"


def test_sizes_that_the_brokers_do_not_show() -> None:
    unsized = replace(STREAMS, changelogs={FIRST: Changelogs(5000, None), SECOND: Changelogs(0, None)})
    lines = drawn(counting(unsized), rate=1024)
    assert not any("RESTORE" in line for line in lines)
    assert "SIZE unknown: the brokers did not show it (it needs DESCRIBE on the Cluster)" in lines
    assert not any("SIZE unknown" in line for line in drawn(counting()))


def test_a_member_with_a_copy_of_the_state_is_not_idle() -> None:
    assert "2 members, none idle, sticky assignor" in " ".join(drawn(counting()))
    without = replace(STREAMS, members={"a-id": having((FIRST,)), "b-id": having(())})
    assert "2 members, 1 idle" in " ".join(drawn(counting(without)))


def test_only_the_page_and_the_members_have_tasks() -> None:
    assert any(line.startswith("0_0") for line in drawn(counting(), DescribePart.MEMBERS))
    assert not any(line.startswith("0_0") for line in drawn(counting(), DescribePart.OFFSETS))


def test_the_topology_in_a_line() -> None:
    assert topology_line(STREAMS) == "topology epoch 0, 1 subtopology, 2 tasks, 1 without an owner (0_1)"
    rolling = replace(STREAMS, members={"a-id": having((FIRST, SECOND), epoch=1)})
    assert topology_line(rolling) == "topology epoch 0, 1 subtopology, 2 tasks, 1 member with another topology"
    missing = StreamsGroup(0, (COUNT,), {}, {}, ("orders",))
    assert topology_line(missing) == "topology epoch 0, 1 subtopology, 0 tasks, without source topics orders"
    assert topology_line(StreamsGroup(0, (COUNT,), {})) == "topology epoch 0, 1 subtopology"
    assert topology_line(StreamsGroup(None, None, {})) == "topology unknown: the brokers do not show it"
