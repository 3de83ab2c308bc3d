"""``kgroup undo``, the journal behind it, and ``--backup``: what was changed comes back byte for byte."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kgroup.changes.journal import line_of
from tests.helpers.catchup.catchups import own_ledger, plan_id
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.journals import documents, rewrite, rows
from tests.helpers.kafka_tools import CONSUMER_GROUPS, KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before

Name = Callable[[str], str]
Commits = dict[tuple[str, int], tuple[int, str, int | None]]

pytestmark = pytest.mark.usefixtures("bystander")

METADATA = 'by hand: "é", a\ttab, a\nline, 漢'


@dataclass(frozen=True)
class Shop:
    """Two groups without members; of three partitions of ``orders`` the last has no commit."""

    group: str
    second: str
    orders: str
    clicks: str


@pytest.fixture
def shop(world: KafkaWorld, name: Name) -> Shop:
    """12 records in each partition. Commits with and without metadata and leader epoch."""
    made = Shop(name("svc"), name("second"), world.topic(name("orders"), partitions=3), world.topic(name("clicks")))
    for topic, partition in ((made.orders, 0), (made.orders, 1), (made.orders, 2), (made.clicks, 0)):
        world.produce(topic, 12, partition)
    for group in (made.group, made.second):
        world.commit(group, {(made.orders, 0): (5, METADATA, 0), (made.orders, 1): 7, (made.clicks, 0): (3, "", 0)})
    return made


@pytest.fixture
def journal(tmp_path: Path) -> Callable[[], list[Path]]:
    """The journal's changes so far, oldest first."""
    return lambda: sorted((tmp_path / "state" / "journal").glob("ch-*"), key=lambda path: path.stat().st_mtime_ns)


def change_id(result: Result) -> str:
    """The id in the line that takes a change back."""
    (found,) = set(re.findall(r"kgroup undo (ch-\w+) (?:--wait-empty )?--execute", result.stdout))
    return str(found)


def head_changed(path: Path, **fields: Any) -> None:
    """Write other fields into a change's first line, as another machine or user would have."""
    document, *rest = documents(path)
    assert set(fields) <= set(document), document
    rewrite(path, [document | fields, *rest])


def latest(shop: Shop) -> tuple[str, ...]:
    return "reset", shop.group, "--topic", shop.orders, "--to-latest", "--execute"


CHANGES: dict[str, Callable[[Shop], tuple[str, ...]]] = {
    "reset": lambda shop: ("reset", shop.group, "--topic", shop.orders, "--to-latest"),
    "reset one partition": lambda shop: ("reset", shop.group, "--topic", f"{shop.orders}:0", "--shift-by", "1"),
    "reset two groups": lambda shop: ("reset", shop.group, shop.second, "--all-topics", "--to-earliest"),
    "delete": lambda shop: ("delete", shop.group),
    "delete two groups": lambda shop: ("delete", shop.group, shop.second),
    "delete-offsets": lambda shop: ("delete-offsets", shop.group, "--topic", shop.orders),
    "delete-offsets of a partition": lambda shop: ("delete-offsets", shop.group, "--topic", f"{shop.orders}:0"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_all_comes_back(kgroup: CommandLine, world: KafkaWorld, shop: Shop, what: str) -> None:
    """Offset, metadata and leader epoch; where there was no commit there is none again."""
    before = [world.exact(group) for group in (shop.group, shop.second)]
    listed = world.groups()
    done = kgroup(*CHANGES[what](shop), "--execute", "--reason", "INC-7 früh")
    changed = [world.exact(group) for group in (shop.group, shop.second)]
    assert changed != before

    plan = kgroup("undo")
    assert plan.stdout.startswith("PLAN  undo")
    assert change_id(plan) == change_id(done)
    assert "INC-7 früh" in plan.stdout
    assert f"kgroup {' '.join(CHANGES[what](shop)[:2])}" in plan.stdout, "the command line that did it"
    assert "Nothing was changed" in plan.stdout
    assert [world.exact(group) for group in (shop.group, shop.second)] == changed

    taken_back = kgroup("undo", "--execute")
    assert taken_back.stdout.startswith("DONE")
    assert [world.exact(group) for group in (shop.group, shop.second)] == before
    after = world.groups()
    assert {group: after[group] for group in (shop.group, shop.second)} == {
        group: listed[group] for group in (shop.group, shop.second)
    }


def test_created_group_goes(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    created = name("created")
    kgroup("reset", created, "--create", "--topic", shop.orders, "--to-earliest", "--execute")
    assert len(world.exact(created)) == 3
    kgroup("undo", "--execute")
    assert created not in world.groups()


def test_created_copy_goes(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    """... and can be made again by undoing the undo."""
    created = name("green")
    kgroup("reset", created, "--create", "--from-group", shop.group, "--execute")
    copied = world.exact(created)
    assert {place: found[0] for place, found in copied.items()} == {
        place: found[0] for place, found in world.exact(shop.group).items()
    }
    taken_back = kgroup("undo", "--execute")
    assert created not in world.groups()
    kgroup("undo", change_id(taken_back), "--execute")
    assert world.exact(created) == copied


def test_only_what_a_partial_change_did(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """A row that failed was not changed; the others are taken back."""
    file = tmp_path / "to.csv"
    file.write_text(f"{shop.orders},0,6\n{shop.orders},1,6\n{shop.orders},99,6\n")
    before = world.exact(shop.group)
    done = kgroup("reset", shop.group, "--from-file", str(file), "--partial", "--execute", exit_code=7)
    assert world.exact(shop.group) != before
    kgroup("undo", change_id(done), "--execute")
    assert world.exact(shop.group) == before


def test_last_change_first_and_the_others_listed(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    before = world.exact(shop.group)
    ids = [
        change_id(kgroup("reset", shop.group, "--topic", shop.orders, "--to-offset", offset, "--execute"))
        for offset in ("1", "2", "3")
    ]
    page = kgroup("undo").stdout
    assert change_id(kgroup("undo")) == ids[2]
    listed = page[page.index("OTHER CHANGES TO THIS CLUSTER, MADE FROM THIS MACHINE") :].splitlines()
    assert [line.split()[0] for line in listed if line.startswith("ch-")] == [ids[1], ids[0]]
    assert all("can undo" in line for line in listed if line.startswith("ch-"))
    kgroup("undo", "--expect", "99", "--execute", exit_code=6)
    for expected in reversed(ids):
        assert change_id(kgroup("undo")) == expected
        kgroup("undo", "--execute")
    assert world.exact(shop.group) == before


# --- moved since


def test_moved_since(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """One partition of three went on: nothing is taken back, and before, after and now are shown."""
    before = world.exact(shop.group)
    done = kgroup("reset", shop.group, "--topic", shop.orders, "--to-offset", "9", "--execute")
    world.commit(shop.group, {(shop.orders, 1): (11, "went on", 0)})
    moved = world.exact(shop.group)
    for arguments in (("undo",), ("undo", "--execute"), ("undo", change_id(done), "--execute")):
        refused = kgroup(*arguments, exit_code=6)
        said = refused.stdout + refused.stderr
        assert "[moved-since]" in said
        assert "--accept moved-since" in said
        (header,) = (line.split() for line in refused.stdout.splitlines() if line.startswith("PARTITION"))
        assert header[1:4] == ["OLD-OFFSET", "NEW-OFFSET", "CHANGED-TO"]
        rows = [line.split()[:4] for line in refused.stdout.splitlines()]
        assert [f"{shop.orders}:1", "11", "7", "9"] in rows
        assert [f"{shop.orders}:0", "9", "5", "-"] in rows
        assert world.exact(shop.group) == moved
    kgroup("undo", "--execute", "--accept", "moved-since")
    assert world.exact(shop.group) == before


def test_what_was_skipped_is_delivered_without_moving_a_group_that_went_on(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop
) -> None:
    """The undo would read again what was processed since; the catch-up reads what nobody has read."""
    done = kgroup("reset", shop.group, "--topic", f"{shop.orders}:0", "--to-offset", "8", "--execute")
    world.commit(shop.group, {(shop.orders, 0): 11})

    refused = kgroup("undo", "-o", "json", exit_code=6)
    (error,) = refused.json["errors"]
    command = f"catchup start {shop.group} --skipped-by {change_id(done)}"
    assert command in error["hint"]
    assert any("up to 3 offsets read again" in line for line in error["details"])
    assert [(row["undoes_change_id"], row["change_id"], row["repeated_count"]) for row in refused.data] == [
        (change_id(done), None, 6)
    ]

    (plan,) = kgroup(*command.split(), "-o", "json").data
    assert [(each["start"], each["end"]) for each in plan["ranges"]] == [(5, 8)]
    assert world.exact(shop.group)[shop.orders, 0][0] == 11


@pytest.mark.parametrize("given", [(9, "other metadata", 0), (9, "", 7)])
def test_moved_to_the_same_offset(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, given: tuple[int, str, int | None]
) -> None:
    """Somebody committed the same offset with something else beside it: that would be lost."""
    kgroup("reset", shop.group, "--topic", f"{shop.orders}:0", "--to-offset", "9", "--execute")
    assert world.exact(shop.group)[shop.orders, 0] == (9, "", None)
    world.commit(shop.group, {(shop.orders, 0): given})
    moved = world.exact(shop.group)
    assert "[moved-since]" in (refused := kgroup("undo", "--execute", exit_code=6)).stdout + refused.stderr
    assert world.exact(shop.group) == moved


def test_another_acceptance_does_not_pass_it(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    kgroup(*latest(shop))
    world.commit(shop.group, {(shop.orders, 0): 1})
    moved = world.exact(shop.group)
    kgroup("undo", "--execute", "--accept", "active-committer", exit_code=6)
    kgroup("undo", "--execute", "--partial", exit_code=6)
    assert world.exact(shop.group) == moved


def test_back_already(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """By hand, offset by offset: nothing is left to do, and that is no refusal."""
    before = world.exact(shop.group)
    done = kgroup("reset", shop.group, "--topic", f"{shop.orders}:0", "--to-offset", "9", "--execute")
    world.commit(shop.group, {(shop.orders, 0): before[shop.orders, 0]})
    kgroup("undo", change_id(done), "--execute")
    assert world.exact(shop.group) == before


def test_deleted_group_that_came_back_by_itself(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    before = world.exact(shop.group)
    kgroup("delete", shop.group, "--execute")
    world.commit(shop.group, {(shop.orders, 0): 12})
    moved = world.exact(shop.group)
    assert "[moved-since]" in (refused := kgroup("undo", "--execute", exit_code=6)).stdout + refused.stderr
    assert world.exact(shop.group) == moved
    kgroup("undo", "--execute", "--accept", "moved-since")
    assert world.exact(shop.group) == before


def test_created_group_that_was_used_since(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    """Deleting it would lose commits that the journal has never seen."""
    created = name("created")
    kgroup("reset", created, "--create", "--topic", f"{shop.orders}:0", "--to-earliest", "--execute")
    world.commit(created, {(shop.clicks, 0): (3, "its own", 0)})
    kgroup("undo", "--execute")
    assert world.exact(created) == {(shop.clicks, 0): (3, "its own", 0)}


# --- undos that did not come to their end


def planned(kgroup: CommandLine, exit_code: int = 0) -> tuple[str, dict[str, str]]:
    """The change that a bare undo would take back, and what it says of the others, by id."""
    page = kgroup("undo", exit_code=exit_code).stdout
    listed = (line.split(maxsplit=1) for line in page.splitlines() if line.startswith("ch-"))
    return change_id(Result(exit_code, page, "")), dict(map(tuple, listed))  # type: ignore[arg-type]


def two_resets(kgroup: CommandLine, shop: Shop) -> tuple[str, str]:
    """The ids of two changes of both groups."""
    both = ("reset", shop.group, shop.second, "--topic", shop.orders, "--execute")
    first, second = (change_id(kgroup(*both, "--to-offset", offset)) for offset in ("2", "9"))
    return first, second


def test_undo_of_a_part(kgroup: CommandLine, world: KafkaWorld, members: Members, shop: Shop) -> None:
    """One of two groups was live: what is left of the change is planned next, not the change before it."""
    first, second = two_resets(kgroup, shop)
    after_first = 2
    member = members.classic(shop.second, shop.clicks)
    members.stable(member, partitions=1)
    undo = kgroup("undo", "--partial", "--execute", exit_code=7)
    assert {found[0] for place, found in world.exact(shop.group).items() if place[0] == shop.orders} == {after_first}
    again, others = planned(kgroup, exit_code=9)
    assert again == second
    assert change_id(undo) in others
    assert "can undo" in others[first]
    member.close()
    wait_for(lambda: world.groups()[shop.second][1] == "empty", "Empty")
    rest = kgroup("undo", "-o", "json").data
    assert {row["group"] for row in rest} == {shop.second}, "the rest"
    kgroup("undo", "--execute")
    for group in (shop.group, shop.second):
        assert {found[0] for place, found in world.exact(group).items() if place[0] == shop.orders} == {after_first}
    again, others = planned(kgroup)
    assert again == first
    assert "undone" in others[second]


def written(group: str, path: Path) -> dict[tuple[str, int], tuple[int, str, int | None]]:
    """What the change in this file has written into a group."""
    return {
        (topic, partition): (after[0], after[2], after[1])
        for (of, topic, partition), (_, after) in rows(path).items()
        if of == group
    }


@pytest.mark.parametrize("how", ["nothing written", "nothing noted, one group back", "one group noted and back"])
def test_undo_that_was_cut_off(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, journal: Callable[[], list[Path]], how: str
) -> None:
    """As a kill leaves the journal and the offsets, at three moments."""
    first, second = two_resets(kgroup, shop)
    (change,) = (path for path in journal() if path.stem == second)
    undo = change_id(kgroup("undo", "--execute"))
    after_first = [world.exact(group) for group in (shop.group, shop.second)]
    (path,) = (path for path in journal() if path.stem == undo)
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not json.loads(line).keys() & {"done", "ended"}]
    if how.startswith("one group noted"):
        noted = [[shop.group, shop.orders, number, None] for number in range(3)]
        kept.append(line_of({"done": noted}))
    path.write_text("".join(kept))
    for group in (shop.group, shop.second) if how == "nothing written" else (shop.second,):
        world.commit(group, written(group, change))
    again, others = planned(kgroup)
    assert again == second
    assert "can undo" in others[first]
    kgroup("undo", "--execute")
    assert [world.exact(group) for group in (shop.group, shop.second)] == after_first
    assert planned(kgroup)[0] == first


def test_undo_that_was_undone(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """The change stands again, so it is the last one that can be taken back."""
    first, second = two_resets(kgroup, shop)
    undo = change_id(kgroup("undo", "--execute"))
    after_first = [world.exact(group) for group in (shop.group, shop.second)]
    kgroup("undo", undo, "--execute")
    again, others = planned(kgroup)
    assert again == second
    assert "can undo" in others[first]
    kgroup("undo", "--execute")
    assert [world.exact(group) for group in (shop.group, shop.second)] == after_first
    assert planned(kgroup)[0] == first
    kgroup("undo", "--execute")
    kgroup("undo", exit_code=5)


def test_half_of_an_undo_undone(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """Taken back, put again, taken back: what is listed is what stands."""
    first, second = two_resets(kgroup, shop)
    moved = [world.exact(group) for group in (shop.group, shop.second)]
    for _ in range(2):
        undo = change_id(kgroup("undo", second, "--execute"))
        assert planned(kgroup)[0] == first
        kgroup("undo", undo, "--execute")
        assert [world.exact(group) for group in (shop.group, shop.second)] == moved


# --- commits that can't be read, rows that the broker refused


def test_open_transaction_on_a_partition(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, journal: Callable[[], list[Path]]
) -> None:
    """Its commit can't be known now: it is not "moved", not written over, and not journaled as no commit."""
    before = world.exact(shop.group)
    done = change_id(kgroup("reset", shop.group, "--topic", f"{shop.orders}:0,1", "--to-latest", "--execute"))
    moved = world.exact(shop.group)
    undo = ("undo", "--execute", "-o", "json")
    with world.pending(shop.group, {(shop.orders, 1): 9}):
        refused = kgroup(*undo, "--accept", "moved-since", exit_code=9).json
        assert [(error["code"], error["partition"]) for error in refused["errors"]] == [("pending-transaction", 1)]
        assert refused["executed"] is False
        assert world.exact(shop.group) == moved
        part = kgroup(*undo, "--accept", "moved-since", "--partial", exit_code=7)
        assert {row["partition"]: row["error_code"] for row in part.data} == {0: None, 1: "pending-transaction"}
    found = world.exact(shop.group)
    assert (found[shop.orders, 0], found[shop.orders, 1]) == (before[shop.orders, 0], moved[shop.orders, 1])
    assert (shop.group, shop.orders, 1) not in rows(journal()[-1])
    assert planned(kgroup)[0] == done, "the other half is still to be taken back"
    kgroup("undo", "--execute")
    assert world.exact(shop.group) == before


def test_created_group_with_an_open_transaction(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    """A commit that cannot be read is one all the same: the group that the change made is not deleted whole."""
    created = name("created")
    kgroup("reset", created, "--create", "--topic", f"{shop.orders}:0", "--to-earliest", "--execute")
    world.commit(created, {(shop.clicks, 0): 1})
    with world.pending(created, {(shop.clicks, 0): 3}) as producer:
        kgroup("undo", "--execute", "--timeout", "4s")
        assert (shop.clicks, 0) in world.exact(created)
        producer.commit_transaction(30)
    wait_for(lambda: world.exact(created).get((shop.clicks, 0), (None,))[0] == 3, "the transaction's commit")


def test_row_that_the_broker_refused(
    kgroup: CommandLine, world: KafkaWorld, members: Members, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer joined just then, and read on to where the reset wanted to go: that is its own work."""
    before = world.exact(shop.group)
    joined: list[Member] = []

    def join() -> None:
        joined.append(members.classic(shop.second, shop.orders))
        members.stable(joined[0], partitions=3)

    with monkeypatch.context() as patch:
        just_before(patch, "OffsetCommit", join)
        done = kgroup("reset", shop.group, shop.second, "--topic", shop.orders, "--to-latest", "--execute",
                      "-o", "json", exit_code=7)  # fmt: skip
    (reset,) = {row["change_id"] for row in done.data}
    assert {row["group"] for row in done.data if row["error_code"]} == {shop.second}
    joined[0].close()
    wait_for(lambda: world.groups()[shop.second][1] == "empty", "Empty")
    world.commit(shop.second, {(shop.orders, number): (12, "", 0) for number in range(3)})
    reached = world.exact(shop.second)
    assert {row["group"] for row in kgroup("undo", "-o", "json").data} == {shop.group}
    assert change_id(kgroup("undo", "--execute"))
    assert world.exact(shop.group) == before
    assert world.exact(shop.second) == reached
    kgroup("undo", exit_code=5)
    kgroup("undo", reset, "--execute")
    assert world.exact(shop.second) == reached


# --- whose, and where


def test_somebody_elses_needs_its_id(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, journal: Callable[[], list[Path]]
) -> None:
    before = world.exact(shop.group)
    kgroup("reset", shop.group, "--topic", shop.orders, "--to-earliest", "--execute")
    done = kgroup(*latest(shop))
    head_changed(journal()[-1], who="jonas@jump-1")
    moved = world.exact(shop.group)
    page = kgroup("undo", exit_code=6)
    assert "jonas@jump-1" in page.stdout
    assert f"kgroup undo {change_id(done)}" in page.stdout, "how to name it"
    refused = kgroup("undo", "--execute", exit_code=6)
    assert "jonas" in refused.stdout + refused.stderr
    assert world.exact(shop.group) == moved
    kgroup("undo", change_id(done), "--execute")
    kgroup("undo", "--execute")
    assert world.exact(shop.group) == before


def test_another_clusters_change(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, journal: Callable[[], list[Path]]
) -> None:
    """Same names, other cluster: never taken back here."""
    mine = change_id(kgroup("reset", shop.group, "--topic", shop.orders, "--to-earliest", "--execute"))
    other = change_id(kgroup(*latest(shop)))
    head_changed(journal()[-1], cluster_id="AAAAAAAAAAAAAAAAAAAAAA")
    moved = world.exact(shop.group)
    page = kgroup("undo", exit_code=6)  # it was moved since, by the other cluster's change
    assert other not in page.stdout
    assert mine in page.stdout
    for accept in ((), ("--accept", "moved-since")):
        refused = kgroup("undo", other, "--execute", *accept, exit_code=6)
        assert "cluster" in refused.stderr
        assert world.exact(shop.group) == moved


def test_unknown_id(kgroup: CommandLine, shop: Shop) -> None:
    kgroup(*latest(shop))
    for arguments in (("ch-zzzz",), ("ch-zzzz", "--execute"), ("../../etc/passwd",), (shop.group,)):
        refused = kgroup("undo", *arguments, exit_code=5)
        assert arguments[0] in refused.stderr
        assert refused.stdout == ""


@pytest.mark.soak
def test_reset_by_another_tool_is_undone_from_the_jumps_of_the_log(
    kgroup: CommandLine, world: KafkaWorld, members: Members, kafka_tool: KafkaTools, shop: Shop
) -> None:
    """Its own commit is no active committer; a commit after it is."""
    member = members.classic(shop.second, shop.orders)
    members.stable(member, partitions=3)
    member.close()
    before = world.exact(shop.second)
    reset = ("--bootstrap-server", world.bootstrap, "--group", shop.second, "--reset-offsets", "--topic",
             f"{shop.orders}:0,1", "--to-offset", "1", "--execute")  # fmt: skip
    assert kafka_tool(CONSUMER_GROUPS, *reset).returncode == 0
    assert world.exact(shop.second) != before

    refused = kgroup("undo", shop.second, exit_code=5)

    lines = refused.stderr.splitlines()
    command = next(line.strip() for line in lines if "--as-of" in line)
    assert "to restore the offsets from just before one:" in refused.stderr
    assert any("no member: -" in line and "reset of 2 partitions" in line for line in lines)
    words = shlex.split(command)
    assert words[:3] == ["kgroup", "undo", shop.second]
    assert "--execute" not in words
    assert kgroup(*words[1:]).stdout.startswith("PLAN")
    reset_again = world.exact(shop.second)
    redo = change_id(kgroup(*words[1:], "--execute"))
    kgroup("undo", redo, "--execute")
    assert world.exact(shop.second) == reset_again
    world.commit(shop.second, {(shop.orders, 1): 2})
    assert "[active-committer]" in kgroup(*words[1:], "--execute", exit_code=6).stderr
    done = kgroup(*words[1:], "--accept", "active-committer", "--execute")
    assert "DONE" in done.stdout
    assert world.exact(shop.second) == before


def test_group_after_its_undo(kgroup: CommandLine, shop: Shop) -> None:
    """Its changes in the journal, with the one that redoes; the jumps of the log name them."""
    reset = change_id(kgroup(*latest(shop)))
    undo = change_id(kgroup("undo", "--execute"))

    shown = kgroup("undo", shop.group, exit_code=5).stderr

    lines = [line.strip() for line in shown.splitlines()]
    assert f"{shop.group} is a group: name one of its changes, or a time [not-found]" in lines[0]
    redo = next(n for n, line in enumerate(lines) if line.endswith(f"; to redo {reset}:"))
    assert lines[redo].startswith(undo)
    assert lines[redo + 1] == f"kgroup undo {undo}"
    assert any(line.startswith(reset) and line.endswith(f": undone by {undo}") for line in lines)
    jumps = [line.partition("  ")[2] for line in lines if "reset of" in line]
    assert [jump.partition(":")[0] for jump in jumps] == [f"kgroup, change {change}" for change in (undo, reset)]
    named = {row["author_name"] for row in kgroup("history", shop.group, "--commits", "-o", "csv").rows}
    assert {reset, undo} <= named


def test_nothing_to_undo(kgroup: CommandLine, shop: Shop, tmp_path: Path) -> None:
    for arguments in (("undo",), ("undo", "--execute")):
        assert str(tmp_path / "state") in kgroup(*arguments, exit_code=5).stderr, "which journal"
    assert not (tmp_path / "state").exists(), "looking makes no journal"


@pytest.fixture
def no_plans(monkeypatch: pytest.MonkeyPatch, name: Name) -> None:
    """A ledger that no other test sees."""
    own_ledger(monkeypatch, name("ledger"))


@pytest.mark.usefixtures("no_plans")
def test_release_of_a_catchup_is_the_newest_change(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """It is not in the journal, and the reset before it is not planned without its id."""
    before = world.exact(shop.group)
    reset = change_id(kgroup("reset", shop.group, "--topic", f"{shop.orders}:0", "--shift-by", "1", "--execute"))
    plan = plan_id(kgroup("catchup", "start", shop.group, "--release-only", "--missing", "leave", "--execute"))
    released = world.exact(shop.group)
    for words in (("undo",), ("undo", "--execute")):
        refused = kgroup(*words, exit_code=6)
        assert "[released-since]" in refused.stderr
        assert refused.stdout == ""
        assert f"the newest change of {shop.group} is the release of the catch-up {plan}" in refused.stderr
        assert f"cancel the catch-up: kgroup catchup cancel {plan}\n" in refused.stderr
        assert f"name it: kgroup undo {reset}\n" in refused.stderr
    assert world.exact(shop.group) == released

    kgroup("catchup", "cancel", plan, "--execute")
    assert kgroup("undo", "--execute").stdout.startswith(f"DONE  undo {reset}")
    assert world.exact(shop.group) == before

    kgroup("catchup", "start", shop.group, "--release-only", "--missing", "leave", "--execute")
    nothing_left = kgroup("undo", exit_code=5)
    assert f"release of {shop.group} by" in nothing_left.stderr
    assert "kgroup catchup cancel cu-" in nothing_left.stderr


def test_dry_runs_and_refusals_are_not_journaled(
    kgroup: CommandLine, shop: Shop, journal: Callable[[], list[Path]]
) -> None:
    kgroup(*latest(shop)[:-1])
    kgroup("delete", shop.group)
    kgroup("reset", shop.group, "--topic", shop.orders, "--to-latest", "--expect", "9", "--execute", exit_code=6)
    kgroup("reset", shop.group + "x", "--topic", shop.orders, "--to-latest", "--execute", exit_code=5)
    assert journal() == []


# --- topics that are not what they were


def test_topic_deleted_since(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    before = world.exact(shop.group)
    kgroup("reset", shop.group, "--all-topics", "--to-latest", "--execute")
    world.delete_topic(shop.clicks)
    # The broker forgets the commits of a deleted topic a moment later.
    wait_for(lambda: (shop.clicks, 0) not in world.exact(shop.group), "its commits gone")
    moved = world.exact(shop.group)
    refused = kgroup("undo", "--execute", exit_code=6)
    assert shop.clicks in refused.stdout + refused.stderr
    assert world.exact(shop.group) == moved, "nothing of the whole change"
    kgroup("undo", "--execute", "--partial", "--accept", "moved-since", exit_code=7)
    assert world.exact(shop.group) == {place: given for place, given in before.items() if place[0] == shop.orders}


def test_topic_recreated_since(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """An offset of the old topic means nothing in the new one of the same name."""
    kgroup("reset", shop.group, "--topic", shop.clicks, "--to-latest", "--execute")
    world.delete_topic(shop.clicks)
    wait_for(lambda: (shop.clicks, 0) not in world.exact(shop.group), "its commits gone")
    world.topic(shop.clicks)
    world.produce(shop.clicks, 12)
    world.commit(shop.group, {(shop.clicks, 0): (12, "", 0)})
    moved = world.exact(shop.group)
    for accept in ((), ("--accept", "moved-since")):
        refused = kgroup("undo", "--execute", *accept, exit_code=6)
        assert world.exact(shop.group) == moved
        assert "[topic-recreated]" in refused.stderr


# --- live groups, both protocols


@pytest.mark.parametrize("verb", ["reset", "delete"])
def test_group_of_the_consumer_protocol(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, verb: str
) -> None:
    topic, group = world.topic(name("orders"), partitions=2), name("svc")
    for partition in (0, 1):
        world.produce(topic, 9, partition)
    world.commit(group, {(topic, 0): (9, METADATA, 0)})  # at the end, so that the member commits nothing over it
    member = members.consumer(group, topic)
    members.stable(member, partitions=2)
    member.close()
    wait_for(lambda: world.groups()[group] == ("consumer", "empty"), "Empty")
    before = world.exact(group)
    assert before[topic, 0] == (9, METADATA, 0)
    change = ("--topic", topic, "--to-earliest") if verb == "reset" else ()
    kgroup(verb, group, *change, "--execute")
    kgroup("undo", "--execute")
    assert world.exact(group) == before
    if verb == "reset":
        assert world.groups()[group] == ("consumer", "empty")


# --- what the journal keeps


def test_reason(kgroup: CommandLine, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGROUP_REASON", "INC-1 from the environment")
    kgroup(*latest(shop))
    assert "INC-1 from the environment" in kgroup("undo").stdout
    kgroup("reset", shop.group, "--topic", shop.orders, "--to-earliest", "--execute", "--reason", "INC-2 by flag")
    page = kgroup("undo").stdout
    assert "INC-2 by flag" in page
    assert "INC-1" not in page.partition("OTHER CHANGES")[0]


def test_reason_in_the_journal(
    kgroup: CommandLine, shop: Shop, journal: Callable[[], list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGROUP_REASON", "INC-1\x1b[31m\nred")
    kgroup(*latest(shop))
    (path,) = journal()
    assert json.loads(path.read_text().splitlines()[0])["reason"] == "INC-1\x1b[31m\nred"
    assert "\x1b" not in kgroup("undo").stdout, "a reason can't steer the terminal"


SECRET = "hunter2-s3cret"


def test_secrets_stay_secret(
    kgroup: CommandLine, shop: Shop, journal: Callable[[], list[Path]], tmp_path: Path
) -> None:
    """Passwords are neither kept nor shown, whichever way they came in; a PLAINTEXT broker doesn't ask for them."""
    properties = tmp_path / "client.properties"
    properties.write_text(f"sasl.password={SECRET}\nssl.key.password={SECRET}\n")
    ways = (
        ("-X", f"sasl.password={SECRET}"),
        (f"-Xsasl.password={SECRET}",),
        ("-X", f'sasl.jaas.config=PlainLoginModule required username="u" password="{SECRET}";'),
        ("-X", f"ssl.key.password={SECRET}"),
        ("--command-config", str(properties)),
    )
    said = []
    for way in ways:
        said += [kgroup(*latest(shop), *way), kgroup("undo", *way), kgroup("undo", "--execute", *way)]
        said += [kgroup("reset", shop.group, "--topic", shop.orders, "--to-latest", *way)]
        said += [kgroup("undo", *way, exit_code=5), kgroup("undo", "-o", "json", *way, exit_code=5)]
    assert len(journal()) == 2 * len(ways)
    for path in tmp_path.rglob("*"):
        if path.is_file() and path != properties:
            assert SECRET not in path.read_text(), path
    for result in said:
        assert SECRET not in result.stdout + result.stderr


@pytest.mark.parametrize(
    "garbage", ["", "{", line_of({"kgroup_journal": 99}), "\0\0\0\n", "[]\n", line_of({"kgroup_journal": 1})]
)
def test_a_damaged_file_hides_no_other_change(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, journal: Callable[[], list[Path]], garbage: str
) -> None:
    before = world.exact(shop.group)
    done = change_id(kgroup(*latest(shop)))
    (path,) = journal()
    path.with_name("ch-aaaa.jsonl").write_text(garbage)
    plan = kgroup("undo")
    assert change_id(plan) == done
    cut_off = garbage in ("", "{", line_of({"kgroup_journal": 1}))  # before anything was changed
    assert ("cannot be read" in plan.stderr) is not cut_off, plan.stderr
    refused = kgroup("undo", "ch-aaaa", "--execute", exit_code=5 if cut_off else 6)
    assert "ch-aaaa" in refused.stderr
    code = "not-found" if cut_off else "newer-journal" if "99" in garbage else "damaged-journal"
    assert f"[{code}]" in refused.stderr
    kgroup("undo", "--execute")
    assert world.exact(shop.group) == before


def test_a_digit_that_flipped(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, journal: Callable[[], list[Path]]
) -> None:
    """Nothing is restored from the line, which is named with the change; the other group only with --partial."""
    before = world.exact(shop.group)
    both = ("reset", shop.group, shop.second, "--topic", shop.orders, "--to-latest", "--execute")
    change = change_id(kgroup(*both))
    after = world.exact(shop.second)
    (path,) = journal()
    lines = path.read_text().splitlines(keepends=True)
    (number,) = (number for number, line in enumerate(lines) if f'"group": "{shop.second}"' in line)
    assert "[7, null" in lines[number]
    lines[number] = lines[number].replace("[7, null", "[8, null")
    path.write_text("".join(lines))
    for arguments in ((), ("--execute",), (change,), (change, "--execute")):
        refused = kgroup("undo", *arguments, exit_code=6)
        assert f"line {number + 1} of {path} is damaged" in refused.stderr
        assert f"the offsets of {shop.second} before {change}" in refused.stderr
        assert "[damaged-journal]" in refused.stderr
    refused = kgroup("catchup", "start", "--skipped-by", change, "--to-files", "x", exit_code=6)
    assert "[damaged-journal]" in refused.stderr
    kgroup("undo", change, "--partial", "--execute", exit_code=7)
    assert (world.exact(shop.group), world.exact(shop.second)) == (before, after)

    path.write_text("".join(lines[:4]))  # as if the change had been killed before its first result
    refused = kgroup("undo", change, exit_code=6)
    assert "[damaged-journal]" in refused.stderr


@contextmanager
def nobody() -> Iterator[None]:
    """Without root's right to go anywhere; who is no root has none to lose."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_state_below_a_directory_that_may_not_be_entered(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No journal: refused with that code, and without --execute the plan is shown all the same."""
    before = world.exact(shop.group)
    kgroup(*latest(shop)[:-1])
    kgroup("undo", exit_code=5)
    with TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        closed = Path(directory) / "closed"
        closed.mkdir(mode=0o000)
        monkeypatch.setenv("KGROUP_STATE_DIR", str(closed / "state"))
        monkeypatch.setenv("KGROUP_CONFIG", f"{directory}/config.yaml")
        with nobody():
            planned, refused = (kgroup(*arguments, exit_code=6) for arguments in (latest(shop)[:-1], latest(shop)))
            assert "[no-journal]" in planned.stderr
            assert "[no-journal]" in refused.stderr
            assert f"{shop.orders}:2" in planned.stdout
            assert f"{shop.orders}:2" in refused.stdout
            assert "Nothing was changed." in refused.stdout
            kgroup("undo", exit_code=6)
    assert world.exact(shop.group) == before


@pytest.mark.parametrize("mode", [0o000, 0o400], ids=["closed", "listed only"])
def test_a_journal_that_cannot_be_read_is_not_an_empty_one(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """Exit 5, no such change, would be a conclusion from what nobody has read."""
    with TemporaryDirectory() as directory:
        monkeypatch.setenv("KGROUP_STATE_DIR", f"{directory}/state")
        done = change_id(kgroup(*latest(shop)))
        moved = world.exact(shop.group)
        journal = Path(directory) / "state" / "journal"
        journal.parent.chmod(0o755)
        Path(directory).chmod(0o755)
        os.chown(journal, os.geteuid() or 65534, -1)
        journal.chmod(mode)
        with nobody():
            for arguments in (("undo",), ("undo", done), ("undo", done, "--execute"), ("undo", "ch-zzzz")):
                result = kgroup(*arguments, exit_code=6)
                assert "[no-journal]" in result.stderr, arguments
                assert str(journal) in result.stderr
        journal.chmod(0o700)
    assert world.exact(shop.group) == moved


def nowhere(kind: str, tmp_path: Path) -> Path:
    """A state directory that cannot be written."""
    if kind == "a file":
        (tmp_path / "file").write_text("in the way")
        return tmp_path / "file"
    return Path({"below a file": "/dev/null/state", "proc": "/proc/kgroup-state"}[kind])


@pytest.mark.parametrize("kind", ["a file", "below a file", "proc"])
def test_no_journal(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Refused, unless the offsets are kept elsewhere; the plan is shown all the same."""
    monkeypatch.setenv("KGROUP_STATE_DIR", str(nowhere(kind, tmp_path)))
    before, backup = world.exact(shop.group), tmp_path / "backup.json"
    plan = kgroup(*latest(shop)[:-1], exit_code=6)
    assert plan.stdout.startswith("PLAN")
    assert f"{shop.orders}:2" in plan.stdout
    for arguments in (latest(shop), ("delete", shop.group, "--execute"), ("migrate", shop.group, "--execute")):
        refused = kgroup(*arguments, exit_code=6)
        assert "[no-journal]" in refused.stderr
        assert "--backup" in refused.stderr
        assert refused.stdout.startswith("PLAN")
        assert "Nothing was changed." in refused.stdout
        assert world.exact(shop.group) == before
    document = kgroup(*latest(shop), "-o", "json", exit_code=6).json
    assert (document["executed"], [error["code"] for error in document["errors"]]) == (False, ["no-journal"])
    assert {(row["topic"], row["done"]) for row in document["data"]} == {(shop.orders, None)}
    kgroup("delete-offsets", shop.group, "--topic", shop.orders, "--execute", exit_code=6)
    done = kgroup(*latest(shop), "--backup", str(backup))
    assert "kgroup undo" not in done.stdout, "nothing that could be undone"
    assert world.exact(shop.group) != before
    kgroup("undo", exit_code=5)
    # Without a journal its own commit of just now looks like somebody else's.
    again = ("--backup", str(tmp_path / "second.json"), "--accept", "active-committer")
    kgroup("reset", shop.group, "--from-file", str(backup), "--execute", *again)
    assert {place: given for place, given in world.exact(shop.group).items() if place in before} == before


def run_with(env: dict[str, str], *arguments: str, start: tuple[str, ...] = ("-m", "kgroup")) -> Result:
    """Run as a process with exactly this environment."""
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        capture_output=True,
        text=True,
        env=env,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


UNKNOWN_USER = """
import pwd, runpy, sys

def unknown(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")

pwd.getpwuid = unknown
sys.argv[0] = "kgroup"
runpy.run_module("kgroup", run_name="__main__")
"""
"""kgroup under a user id that is in no passwd file, as pods have it."""


@pytest.mark.soak
@pytest.mark.parametrize("named", [True, False])
def test_unknown_user_without_home(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path, named: bool
) -> None:
    env = {key: os.environ[key] for key in ("PATH", "KGROUP_BOOTSTRAP_SERVER")}
    env |= {"KGROUP_STATE_DIR": str(tmp_path / "state")} if named else {}
    before, backup = world.exact(shop.group), tmp_path / "backup.json"

    def run(*arguments: str, exit_code: int) -> Result:
        result = run_with(env, *arguments, start=("-c", UNKNOWN_USER))
        assert result.exit_code == exit_code, result
        return result

    assert f"{shop.orders}:2" in run(*latest(shop)[:-1], exit_code=0 if named else 6).stdout
    if named:
        run(*latest(shop), exit_code=0)
        run("undo", "--execute", exit_code=0)
        assert world.exact(shop.group) == before
        return
    run("undo", exit_code=5)
    assert "[no-journal]" in run(*latest(shop), exit_code=6).stderr
    assert world.exact(shop.group) == before
    run(*latest(shop), "--backup", str(backup), exit_code=0)
    moved = world.exact(shop.group)
    assert {moved[shop.orders, number][0] for number in range(3)} == {12}
    assert shop.group in backup.read_text()


# --- backups


@pytest.mark.parametrize("what", ["reset", "reset two groups", "delete", "delete-offsets"])
def test_backup_is_what_from_file_reads(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path, what: str
) -> None:
    """Offsets, metadata and leader epochs as they were before; of a group that is gone it needs --create."""
    before = [world.exact(group) for group in (shop.group, shop.second)]
    file = tmp_path / "backup.json"
    kgroup(*CHANGES[what](shop), "--execute", "--backup", str(file))
    assert [world.exact(group) for group in (shop.group, shop.second)] != before
    assert file.stat().st_mode & 0o077 == 0
    groups = [shop.group, shop.second] if "two" in what else [shop.group]
    create = ("--create",) if what == "delete" else ()
    kgroup("reset", *groups, "--from-file", str(file), *create, "--execute")
    for group, was in zip((shop.group, shop.second), before, strict=True):
        found = world.exact(group)
        assert {place: found[place] for place in was} == was


def test_backup_of_no_commit(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """A partition that had no commit is in the backup as such, so that going back takes its offset away."""
    before, file = world.exact(shop.group), tmp_path / "backup.json"
    kgroup(*latest(shop), "--backup", str(file))
    kgroup("reset", shop.group, "--from-file", str(file), "--execute")
    assert world.exact(shop.group) == before


@pytest.mark.parametrize("output", [(), ("-o", "json"), ("-o", "csv")])
def test_backup_on_stdout(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path, output: tuple[str, ...]
) -> None:
    """stdout has the backup alone, the result goes to stderr."""
    before = world.exact(shop.group)
    done = kgroup.process("reset", shop.group, "--topic", shop.orders, "--to-earliest", "--execute",
                          "--backup", "-", *output)  # fmt: skip
    assert "DONE" not in done.stdout
    assert ("DONE" in done.stderr) is (output == ())
    assert shop.orders in done.stderr
    file = tmp_path / "piped"
    file.write_text(done.stdout)
    assert world.exact(shop.group) != before
    kgroup("reset", shop.group, "--from-file", str(file), "--execute")
    assert {place: given for place, given in world.exact(shop.group).items() if place in before} == before


def test_backup_that_cannot_be_written(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """Then nothing is changed."""
    before = world.exact(shop.group)
    for place in ("/proc/nowhere/backup.json", str(tmp_path)):
        result = kgroup(*latest(shop), "--backup", place, exit_code=2)
        assert "Traceback" not in result.stderr
        assert world.exact(shop.group) == before


def test_backup_into_a_closed_pipe(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """Who should have kept the offsets is gone: nothing is changed."""
    before = world.exact(shop.group)
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "kgroup", *latest(shop), "--backup", "-"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, "[file]" in done.stderr) == (1, True), done
    assert "Traceback" not in done.stderr
    assert world.exact(shop.group) == before


def test_backup_is_not_overwritten(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """The file of the first reset is worth more than that of the second."""
    before, file = world.exact(shop.group), tmp_path / "backup.json"
    kgroup(*latest(shop), "--backup", str(file))
    kept, moved = file.read_text(), world.exact(shop.group)
    kgroup("reset", shop.group, "--topic", shop.orders, "--to-earliest", "--execute", "--backup", str(file),
           exit_code=2)  # fmt: skip
    assert file.read_text() == kept
    assert world.exact(shop.group) == moved != before


def test_dry_run_writes_no_backup(kgroup: CommandLine, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "backup.json"
    kgroup(*latest(shop)[:-1], "--backup", str(file))
    assert not file.exists()


def test_backup_of_an_undo(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    kgroup(*latest(shop))
    moved, file = world.exact(shop.group), tmp_path / "backup.json"
    kgroup("undo", "--execute", "--backup", str(file))
    kgroup("reset", shop.group, "--from-file", str(file), "--execute")
    assert world.exact(shop.group) == moved


# --- contexts


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a", "b"), "extra argument(s) (b)"),
        (("--all-groups",), "has no option --all-groups"),
        (("--to-latest",), "has no option --to-latest"),
        (("--force",), "there is no --force"),
    ],
)
def test_usage(kgroup_cli: CommandLine, arguments: tuple[str, ...], said: str) -> None:
    assert said in kgroup_cli("undo", *arguments, exit_code=2).stderr
