"""Changes of share groups and their undo, with real share consumers, and compared with Kafka's own tool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kgroup.changes.journal import Journal
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import Fault, Loss, ProxiedBroker
from tests.helpers.kafka_tools import KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.share_consumers import ACCEPT, REJECT, RELEASE, Sharer, sharer
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Starts = dict[tuple[str, int], tuple[int | None, int | None]]

TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
DELETE_GROUPS, ALTER_SHARE_GROUP_OFFSETS, DELETE_SHARE_GROUP_OFFSETS = 42, 91, 92


@pytest.fixture
def orders(world: KafkaWorld, name: Name) -> str:
    """A topic with 10 records in each of two partitions."""
    return made_topic(world, name("orders"))


@pytest.fixture
def group(world: KafkaWorld, name: Name) -> str:
    """The name of a share group that starts at the log start."""
    return made_group(world, name("jobs"))


@pytest.fixture
def idle(orders: str, group: str) -> str:
    """A share group without members, which has done all records before 2."""
    return made_idle(group, orders)


@pytest.fixture
def other(kgroup: CommandLine, world: KafkaWorld, orders: str, name: Name) -> Iterator[str]:
    """A share group of the same topic, which no change may touch."""
    group, expected = name("other"), {(orders, 0): (7, 3), (orders, 1): (8, 2)}
    kgroup("reset", group, "--type", "share", "--create", "--to-offset", f"{orders}:0=7,{orders}:1=8", "--execute")
    assert starts(kgroup, group) == expected
    yield group
    assert starts(kgroup, group) == expected


def made_idle(group: str, topic: str) -> str:
    create = ("reset", group, "--type", "share", "--create", "--topic", topic, "--to-offset", "2", "--execute")
    CommandLine()(*create)
    assert starts(CommandLine(), group) == both(topic, 2, 8)
    return group


def made_topic(world: KafkaWorld, topic: str) -> str:
    world.topic(topic, partitions=2)
    for partition in (0, 1):
        world.produce(topic, 10, partition)
    return topic


def made_group(world: KafkaWorld, group: str) -> str:
    world.configure_group(group, share_auto_offset_reset="earliest")
    return group


@contextmanager
def member(world: KafkaWorld, group: str, topic: str) -> Iterator[Sharer]:
    """A member, which has left when the block ends."""
    with sharer(world.bootstrap, group, topic) as joined:
        yield joined
    CommandLine()("wait", group, "--for", "empty", "--within", "30s")


@pytest.fixture
def worked(world: KafkaWorld, orders: str, group: str) -> str:
    return work(world, group, orders)


def work(world: KafkaWorld, group: str, topic: str) -> str:
    """The group does all records but the first of each partition: start offset 0, and a lag of 1."""
    with member(world, group, topic) as joined:
        joined.accept(18, lambda message: RELEASE if message.offset() == 0 else ACCEPT)
    wait_for(lambda: starts(CommandLine(), group) == both(topic, 0, 1), "a lag of 1 on each")
    return group


def both(topic: str, start: int | None, lag: int | None) -> Starts:
    return {(topic, 0): (start, lag), (topic, 1): (start, lag)}


def starts(kgroup: CommandLine, group: str, *words: str) -> Starts:
    """Start offset and lag of each partition with a state."""
    (document,) = kgroup("describe", group, *words, "-o", "json").data
    return {(row["topic"], row["partition"]): (row["committed"], row["lag"]) for row in document["partitions"]}


def delivered(world: KafkaWorld, group: str, topic: str, count: int) -> set[tuple[int, int]]:
    """(partition, offset) of what a new member gets, until it has this many, and a little longer."""
    got: set[tuple[int, int]] = set()
    with member(world, group, topic) as joined:

        def poll() -> bool:
            got.update(joined.poll(lambda _: ACCEPT))
            return len(got) >= count

        wait_for(poll, f"{count} records of {group}")
        poll()
    return got


def test_reset_and_undo(
    kgroup: CommandLine, world: KafkaWorld, orders: str, worked: str, other: str, bystander: str
) -> None:
    """What was done comes again from the new start offset on; undo restores the old one, and no delivery state."""
    reset = ("reset", worked, "--all-topics", "--to-offset", "4")
    plan = kgroup(*reset).stdout
    assert "lag 2 now, 12 then" in " ".join(plan.split())
    assert "Delivery states are gone for good" in plan
    (row, _) = kgroup(*reset, "-o", "json").data
    assert (row["old_offset"], row["new_offset"], row["skipped_count"], row["repeated_count"]) == (0, 4, 1, 6)
    assert starts(kgroup, worked) == both(orders, 0, 1)

    done = kgroup(*reset, "--execute", "-o", "json").data
    assert [(row["done"], row["read_back_offset"]) for row in done] == [(True, 4), (True, 4)]
    assert starts(kgroup, worked) == both(orders, 4, 6)
    kgroup("undo", "--execute")
    assert starts(kgroup, worked) == both(orders, 0, 10)
    kgroup(*reset, "--execute")
    assert delivered(world, worked, orders, 12) == {(number, at) for number in (0, 1) for at in range(4, 10)}
    named = kgroup("undo", worked, exit_code=5).stderr
    assert f"{worked} is a share group: name one of its changes" in named
    assert "--as-of" not in named
    moved = kgroup("undo", exit_code=6)  # although the start offset may stay behind until the broker writes again
    assert "[moved-since]" in moved.stdout
    assert "catchup" not in moved.stdout
    kgroup("undo", "--accept", "moved-since", "--execute")
    assert starts(kgroup, worked) == both(orders, 0, 10)


@pytest.mark.soak
def test_each_target(kgroup: CommandLine, world: KafkaWorld, orders: str, idle: str) -> None:
    reset = ("reset", idle, "--topic", orders, "--execute")
    for target, start in (
        (("--to-latest",), 10),
        (("--shift-by", "-3"), 7),
        (("--to-current",), 7),
        (("--to-offset", "999"), 10),
        (("--by-duration", "PT1H"), 0),
        (("--to-datetime", "2020-01-01T00:00:00Z"), 0),
        (("--to-latest",), 10),
        (("--to-earliest",), 0),
    ):
        kgroup(*reset, *target)
        assert starts(kgroup, idle) == both(orders, start, 10 - start), target
    world.delete_records(orders, 0, 3)
    clamped = kgroup("reset", idle, "--to-offset", f"{orders}:0=1", "--execute", "-o", "json").data
    assert clamped[0]["clamped_reason"] == "1 is below the log start 3"
    assert starts(kgroup, idle)[orders, 0] == (3, 7)


def test_saved_records_are_those_that_are_jumped_over(
    kgroup: CommandLine, orders: str, idle: str, tmp_path: Path
) -> None:
    """Which of them were done, only the broker knows, so that they are all saved."""
    saved = tmp_path / "saved.json"
    kgroup("reset", idle, "--topic", f"{orders}:0", "--to-offset", "6", "--save-skipped", str(saved), "--execute")
    assert len(saved.read_text().splitlines()) == 4
    assert starts(kgroup, idle) == {(orders, 0): (6, 4), (orders, 1): (2, 8)}


def test_start_offsets_are_deleted_and_restored(
    kgroup: CommandLine, world: KafkaWorld, orders: str, worked: str, other: str, bystander: str
) -> None:
    world.configure_group(worked, share_auto_offset_reset="latest")
    delete = ("delete-offsets", worked, "--topic", orders)
    assert "2 records not done are passed over" in " ".join(kgroup(*delete).stdout.split())
    part = kgroup("delete-offsets", worked, "--topic", f"{orders}:0", "--execute", exit_code=6)
    assert f"the broker would also delete the start offsets of {orders}:1" in part.stdout
    assert starts(kgroup, worked) == both(orders, 0, 1)

    kgroup(*delete, "--execute")
    assert starts(kgroup, worked) == {}
    kgroup(*delete, exit_code=5)
    kgroup("undo", "--execute")
    assert starts(kgroup, worked) == both(orders, 0, 10)


def test_a_group_is_deleted_and_created_again(
    kgroup: CommandLine, world: KafkaWorld, orders: str, worked: str, other: str, bystander: str
) -> None:
    (planned,) = kgroup("delete", worked, "-o", "json").data
    assert (planned["type"], planned["commit_count"], planned["deleted"]) == ("share", 2, None)
    kgroup("delete", worked, "--execute")
    assert worked not in world.groups()
    kgroup("undo", "--execute")
    assert world.groups()[worked][0] == "share"
    assert starts(kgroup, worked) == starts(kgroup, worked, "--from-log") == both(orders, 0, 10)
    # It begins where it was, with its settings, and what was done comes again.
    assert len(delivered(world, worked, orders, 20)) == 20


def test_a_pool_of_workers_moves_to_a_queue(
    kgroup: CommandLine, world: KafkaWorld, orders: str, name: Name, other: str, bystander: str
) -> None:
    """A share group that does not exist yet gets the offsets of a consumer group."""
    workers, jobs = name("workers"), name("jobs")
    world.commit(workers, {(orders, 0): 6, (orders, 1): (9, "mine", 0)})
    reset = ("reset", jobs, "--create", "--type", "share", "--from-group", workers)
    assert f"{jobs} (a new group)" in " ".join(kgroup(*reset).stdout.split())
    assert jobs not in world.groups()

    kgroup(*reset, "--execute")
    assert starts(kgroup, jobs) == {(orders, 0): (6, 4), (orders, 1): (9, 1)}
    assert delivered(world, jobs, orders, 5) == {(1, 9), *((0, at) for at in range(6, 10))}
    assert world.exact(workers) == {(orders, 0): (6, "", None), (orders, 1): (9, "mine", 0)}


def test_undo_deletes_what_a_reset_has_created(
    kgroup: CommandLine, world: KafkaWorld, orders: str, group: str, other: str
) -> None:
    kgroup("reset", group, "--create", "--type", "share", "--topic", orders, "--to-earliest", "--execute")
    assert world.groups()[group][0] == "share"
    kgroup("undo", "--execute")
    assert group not in world.groups()


def test_without_create_no_group_is_made(kgroup: CommandLine, world: KafkaWorld, orders: str, name: Name) -> None:
    """The broker would create it."""
    group, plain = name("jobs"), name("plain")
    world.commit(plain, {(orders, 0): 3})
    missing = kgroup("reset", group, "--topic", orders, "--to-earliest", "--execute", exit_code=5)
    assert "--create" in missing.stderr
    assert group not in world.groups()
    other_type = ("reset", plain, "--create", "--type", "share", "--topic", orders, "--to-earliest", "--execute")
    assert f"{plain} is a classic group" in kgroup(*other_type, exit_code=2).stderr


def test_undo_finds_a_group_of_another_type(
    kgroup: CommandLine, world: KafkaWorld, orders: str, idle: str, name: Name
) -> None:
    """A group of that name has been made since: nothing of it is changed, and no group becomes another."""
    kgroup("delete", idle, "--execute")
    world.commit(idle, {(orders, 0): 3})
    refused = kgroup("undo", "--execute", "-o", "json", exit_code=6).json["errors"]
    assert {error["code"] for error in refused} == {"foreign-owner"}
    assert world.exact(idle) == {(orders, 0): (3, "", None)}

    kgroup("delete", idle, "--execute")
    made_idle(idle, orders)
    change = sorted(Journal().files(None), key=lambda file: file.stat().st_mtime_ns)[-2].stem
    refused = kgroup("undo", change, "--execute", "-o", "json", exit_code=6).json["errors"]
    assert f"{idle} is a share group now, and was a classic group then" in refused[0]["message"]
    assert starts(kgroup, idle) == both(orders, 2, 8)


@pytest.mark.parametrize("verb", ["reset", "delete", "delete-offsets"])
def test_a_group_with_members_stays(kgroup: CommandLine, world: KafkaWorld, orders: str, idle: str, verb: str) -> None:
    """Not even with --accept, and once they are stopped it is done: --wait-empty."""
    what = {"reset": ("--topic", orders, "--to-latest"), "delete": (), "delete-offsets": ("--topic", orders)}[verb]
    with sharer(world.bootstrap, idle, orders) as joined:
        joined.accept(2)
        for accepted in ((), ("--accept", "foreign-owner", "--execute")):
            refused = kgroup(verb, idle, *what, *accepted, exit_code=9)
            assert f"{idle} is Stable: 1 member" in refused.stdout
        leaves = threading.Timer(1, joined.close)
        leaves.start()
        kgroup(verb, idle, *what, "--wait-empty", "--within", "60s", "--execute")
        leaves.join()
    if verb == "delete":
        assert idle not in world.groups()
    else:
        assert starts(kgroup, idle) == (both(orders, 10, 0) if verb == "reset" else {})


def test_that_there_was_no_start_offset_cannot_be_restored(
    kgroup: CommandLine, world: KafkaWorld, orders: str, name: Name
) -> None:
    group = name("jobs")
    with member(world, group, orders) as joined:  # it starts at the log end, and does nothing
        wait_for(lambda: not joined.poll(lambda _: RELEASE) and starts(kgroup, group), "a state of its partitions")
    assert starts(kgroup, group) == both(orders, None, None)
    kgroup("reset", group, "--all-topics", "--to-earliest", "--execute")
    assert starts(kgroup, group) == both(orders, 0, 10)
    refused = kgroup("undo", "--execute", "-o", "json", exit_code=6).json["errors"]
    assert {error["code"] for error in refused} == {"whole-topic"}
    assert f"delete-offsets {group} --topic {orders}" in refused[0]["hint"]
    assert starts(kgroup, group) == both(orders, 0, 10)


def test_a_pattern_leaves_share_groups_alone(
    kgroup: CommandLine, world: KafkaWorld, orders: str, idle: str, name: Name
) -> None:
    """Unless --type names them: they are not what whoever resets a fleet of consumers thinks of."""
    plain = f"plain-{idle}"
    world.commit(plain, {(orders, 0): 3})
    reset = ("reset", "--regex", f".*{idle}", "--topic", orders, "--to-latest", "-o", "json")
    left = kgroup(*reset)
    assert {row["group"] for row in left.data} == {plain}
    assert "--type share chooses share groups" in left.stderr
    assert {row["group"] for row in kgroup(*reset, "--type", "share").data} == {idle}
    assert {row["group"] for row in kgroup(*reset, "--type", "share,classic").data} == {idle, plain}
    deleted = kgroup("delete", "--regex", f".*{idle}", "--type", "share", "--execute", "-o", "json")
    assert [row["group"] for row in deleted.data] == [idle]
    assert plain in world.groups()


def test_topics_of_kafka_itself(kgroup: CommandLine, idle: str, orders: str) -> None:
    """The broker would do it."""
    reset = ("reset", idle, "--topic", "__consumer_offsets:0", "--to-earliest", "--execute")
    assert "[internal-topic]" in kgroup(*reset, exit_code=6).stdout
    assert starts(kgroup, idle) == both(orders, 2, 8)


def test_a_file_that_would_delete_a_start_offset(kgroup: CommandLine, orders: str, idle: str, tmp_path: Path) -> None:
    """What --backup has written is read again; a start offset alone cannot be deleted."""
    backup = tmp_path / "backup.json"
    kgroup("reset", idle, "--topic", orders, "--to-latest", "--backup", str(backup), "--execute")
    kgroup("reset", idle, "--from-file", str(backup), "--execute")
    assert starts(kgroup, idle) == both(orders, 2, 8)
    backup.write_text(backup.read_text().replace('"offset": 2', '"offset": null', 1))
    assert "[whole-topic]" in kgroup("reset", idle, "--from-file", str(backup), "--execute", exit_code=6).stdout
    assert starts(kgroup, idle) == both(orders, 2, 8)


def test_archived_records_come_again(kgroup: CommandLine, world: KafkaWorld, orders: str, group: str) -> None:
    """A record that a consumer has rejected, perhaps because it cannot process it."""
    with member(world, group, orders) as joined:
        joined.accept(19, lambda message: REJECT if (message.partition(), message.offset()) == (1, 4) else ACCEPT)
    reset = ("reset", group, "--topic", orders, "--to-offset", "3")
    wait_for(
        lambda: (
            {row["partition"]: row["note"] for row in kgroup(*reset, "-o", "json").data}
            == {0: None, 1: "1 archived: delivered again"}
        ),
        "the archived record in the plan",
    )
    kgroup(*reset, "--execute")
    assert (1, 4) in delivered(world, group, orders, 14)


def test_no_catch_up_delivers_what_was_skipped(kgroup: CommandLine, idle: str, orders: str) -> None:
    """Some of it was done."""
    done = kgroup("reset", idle, "--topic", orders, "--to-latest", "--execute", "-o", "json")
    change = done.data[0]["change_id"]
    refused = kgroup("catchup", "start", "--skipped-by", change, "--to-topic", "elsewhere", exit_code=6)
    assert f"{idle} is a share group" in refused.stderr
    assert f"undo {change}" in refused.stderr


def test_kafkas_tool_sees_the_same(
    kgroup: CommandLine, kafka_tool: KafkaTools, world: KafkaWorld, orders: str, idle: str
) -> None:
    """The offsets that kgroup has set are those that the tool shows, and what the tool plans is what kgroup plans."""

    def tool(*words: str) -> list[list[str]]:
        answer = kafka_tool(TOOL, "--bootstrap-server", world.bootstrap, "--group", idle, *words)
        assert answer.returncode == 0, answer.stderr
        return [line.split() for line in answer.stdout.splitlines() if line.startswith(idle)]

    for target in ("--to-earliest", "--to-latest"):
        planned = {cells[2]: int(cells[3]) for cells in tool("--reset-offsets", "--topic", orders, target, "--dry-run")}
        rows = kgroup("reset", idle, "--topic", orders, target, "-o", "json").data
        assert {str(row["partition"]): row["new_offset"] for row in rows} == planned
    kgroup("reset", idle, "--topic", orders, "--to-offset", "4", "--execute")
    assert {(cells[2], cells[3], cells[4]) for cells in tool("--describe", "--offsets")} == {
        ("0", "4", "6"),
        ("1", "4", "6"),
    }


APIS = {
    "reset": (ALTER_SHARE_GROUP_OFFSETS, ("--to-latest",)),
    "delete-offsets": (DELETE_SHARE_GROUP_OFFSETS, ()),
    "delete": (DELETE_GROUPS, ()),
}


def changed(verb: str, group: str, topic: str) -> tuple[str, ...]:
    return (verb, group, *(() if verb == "delete" else ("--topic", topic)), *APIS[verb][1], "--execute")


def has_happened(world: KafkaWorld, verb: str, group: str, topic: str) -> bool:
    if verb == "delete":
        return group not in world.groups()
    return starts(CommandLine(), group) == (both(topic, 10, 0) if verb == "reset" else {})


@pytest.mark.parametrize("verb", APIS)
def test_an_answer_that_is_lost(proxied: ProxiedBroker, name: Name, verb: str) -> None:
    """It is read back, and not done twice."""
    world, topic = proxied.world, made_topic(proxied.world, name("orders"))
    group = made_idle(name("jobs"), topic)
    fault = proxied.proxy.expect(Fault(APIS[verb][0], Loss.ANSWER))
    CommandLine()(*changed(verb, group, topic))
    assert fault.met.is_set()
    assert has_happened(world, verb, group, topic)
    CommandLine()("undo", "--execute")
    assert starts(CommandLine(), group) == both(topic, 2, 8)


@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.ANSWER])
@pytest.mark.parametrize("verb", APIS)
def test_killed_in_the_middle(proxied: ProxiedBroker, name: Name, verb: str, loss: Loss) -> None:
    """Before the broker has it, or before its answer: undo compares the journal with what is there."""
    world, topic = proxied.world, made_topic(proxied.world, name("orders"))
    group = made_idle(name("jobs"), topic)
    fault = proxied.proxy.expect(Fault(APIS[verb][0], loss, then=lambda: process.kill()))
    process = CommandLine().start(*changed(verb, group, topic))
    process.communicate(timeout=60)
    assert fault.met.is_set()
    change = max(Journal().files(None), key=lambda file: file.stat().st_mtime_ns).stem
    if loss is Loss.REQUEST:
        assert starts(CommandLine(), group) == both(topic, 2, 8)
        assert "nothing to do" in CommandLine()("undo", change, "--execute").stderr
        assert starts(CommandLine(), group) == both(topic, 2, 8)
        return
    wait_for(lambda: has_happened(world, verb, group, topic), f"{verb} is done")
    CommandLine()("undo", change, "--execute")
    assert starts(CommandLine(), group) == both(topic, 2, 8)
