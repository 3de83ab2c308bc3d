"""``kgroup migrate``: there and back with every commit as it was, what it says, and what it leaves alone."""

from __future__ import annotations

import json
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_guards import PROTOCOLS, idle_group, join, ten_each
from tests.commands.test_wait import come_and_go
from tests.helpers import application
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.conversion import to_classic, to_consumer
from tests.helpers.journals import WAITS, changes, documents, locked
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members, commit_to
from tests.helpers.running import running
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before, sent

Name = Callable[[str], str]
Commits = dict[tuple[str, int], tuple[int, str, int | None]]

pytestmark = pytest.mark.usefixtures("bystander")

FIELDS = {"group", "readiness", "how", "reason", "checks", "type", "state", "target", "member_count", "topic_count",
          "commit_count", "converted", "read_back_count", "offsets_expire_at", "offsets_expire_at_ms", "change_id",
          "error_code", "error_message"}  # fmt: skip
"""What scripts may rely on in each row."""

WRITES = {"OffsetCommit", "ConsumerGroupHeartbeat", "JoinGroup", "SyncGroup", "LeaveGroup", "OffsetDelete",
          "DeleteGroups", "IncrementalAlterConfigs"}  # fmt: skip

OTHER = {"classic": "consumer", "consumer": "classic"}

EVERY_KIND: tuple[tuple[int, str, int | None], ...] = (
    (0, "", None),
    (1, "", 0),
    (5, "\0", None),
    (6, "a\0b\x01\x7f\t\r\n", 3),
    (2**31 + 5, "🎛️ \U0010ffff 漢 é", 7),
    (10, "x" * 4096, None),
    (10, "€" * 4096, 0),  # the broker counts characters: 12,288 bytes
    (2**62, ' "{}\\', 2**31 - 1),
)
"""Offset, metadata, leader epoch: all that the broker stores."""


def migrate(group: str, target: str, *more: str) -> tuple[str, ...]:
    """The command line; the new protocol is what it does when nothing else is said."""
    return ("migrate", group, *(("--protocol", "classic") if target == "classic" else ()), *more)


def only(result: Result) -> dict[str, Any]:
    """The one row, which has all fields."""
    (row,) = result.data
    assert set(row) >= FIELDS, FIELDS - set(row)
    return row


def comes(members: Members, protocol: str, group: str, topic: str) -> Member:
    """A member ``pay-0`` that is about to get both partitions, and can commit."""
    if protocol == "consumer":
        return members.consumer(group, topic, client_id="pay-0")
    return members.classic(group, topic, assignor="cooperative-sticky", **{"client.id": "pay-0"})


def change_id(result: Result) -> str:
    """The id in the line that takes a change back."""
    (found,) = set(re.findall(r"kgroup undo (ch-\w+) --execute", result.stdout))
    return str(found)


def stands(world: KafkaWorld, group: str) -> tuple[str, str]:
    """Type and state."""
    return world.groups()[group]


@dataclass(frozen=True)
class Shop:
    """An Empty classic group that had members, with commits at 3 and 4 of 10 records."""

    group: str
    topic: str
    commits: Commits

    def turned(self, world: KafkaWorld, into: str) -> Shop:
        """The same, as a group of this type."""
        if into == "consumer":
            to_consumer(world, self.group)
        return self


@pytest.fixture
def topic(world: KafkaWorld, name: Name) -> str:
    return ten_each(world, name("orders"))


@pytest.fixture
def shop(world: KafkaWorld, name: Name, topic: str) -> Shop:
    return made(world, name("svc"), topic)


@pytest.fixture
def short(world: KafkaWorld, topic: str) -> Shop:
    """With a name that leaves room in a line of a screen."""
    return made(world, f"svc-{secrets.token_hex(3)}", topic)


def made(world: KafkaWorld, group: str, topic: str) -> Shop:
    world.commit(group, {(topic, 0): (3, "kept é\0", 0), (topic, 1): (4, "", None)})
    come_and_go(world, group)
    assert stands(world, group) == ("classic", "empty")
    return Shop(group, topic, world.exact(group))


# --- there and back


@pytest.mark.parametrize("had", ["a member", "offsets only"])
def test_there_and_back(kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, had: str) -> None:
    """Every kind of commit that the broker takes, byte for byte; type and state as asked for."""
    topic, group = world.topic(name("orders"), partitions=len(EVERY_KIND) + 1), name("svc")
    for partition in range(len(EVERY_KIND)):
        world.produce(topic, 10, partition)
    world.commit(group, {(topic, partition): kind for partition, kind in enumerate(EVERY_KIND)})
    if had == "a member":
        come_and_go(world, group)
    before = world.exact(group)
    assert [before[topic, partition] for partition in range(len(EVERY_KIND))] == list(EVERY_KIND)
    for turn, target in enumerate(("consumer", "classic", "consumer"), 1):
        row = only(kgroup(*migrate(group, target), "--execute", "-o", "json"))
        assert stands(world, group) == (target, "empty")
        assert world.exact(group) == before
        assert (row["converted"], row["read_back_count"], row["commit_count"]) == (
            True,
            len(EVERY_KIND),
            len(EVERY_KIND),
        )
        assert (row["type"], row["state"].lower(), row["target"]) == (OTHER[target], "empty", target)
        assert (row["error_code"], row["member_count"]) == (None, 0)
        (*_, path) = changes(tmp_path / "state")
        assert row["change_id"] == path.stem
        assert len(changes(tmp_path / "state")) == turn


@pytest.mark.soak
def test_many_groups_at_once(kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path) -> None:
    """100 in one command, and back by one undo."""
    topic, stem = world.topic(name("orders"), partitions=3), name("svc")
    groups = [f"{stem}-{number:03}" for number in range(100)]
    for number, group in enumerate(groups):
        world.commit(group, {(topic, 0): (number, f"of {group}", number % 3 or None), (topic, number % 2 + 1): number})
    before = {group: world.exact(group) for group in groups}
    fleet = ("migrate", "--regex", f"{stem}-.*")
    plan = kgroup(*fleet, "--expect", "100")
    assert re.search(r"^READY +now +100 ", plan.stdout, re.M), plan.stdout
    assert "Nothing was changed." in plan.stdout
    kgroup(*fleet, "--expect", "99", "--execute", exit_code=6)
    document = kgroup(*fleet, "--expect", "100", "--execute", "-o", "json")
    assert [row["group"] for row in document.data] == groups
    assert {(row["converted"], row["read_back_count"], row["error_code"]) for row in document.data} == {(True, 2, None)}
    listed = world.groups()
    assert {listed[group] for group in groups} == {("consumer", "empty")}
    assert {group: world.exact(group) for group in groups} == before
    again = kgroup(*fleet, "--execute", "-o", "json")
    assert {row["readiness"] for row in again.data} == {"done"}
    assert len(changes(tmp_path / "state")) == 1
    kgroup("undo", "--execute")
    listed = world.groups()
    assert {listed[group] for group in groups} == {("classic", "empty")}
    assert {group: world.exact(group) for group in groups} == before


@pytest.mark.soak
def test_too_large_for_one_request(
    kgroup: CommandLine, world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 partitions with 4,096 characters each, some of three bytes: the broker refuses such a request whole."""
    topic, group = world.topic(name("large"), partitions=200), name("svc")
    for first in range(0, 200, 50):
        world.commit(
            group,
            {
                (topic, number): (number, f"{number:04}" + ("x", "€")[number % 2] * 4092, number % 3 or None)
                for number in range(first, first + 50)
            },
        )
    before = world.exact(group)
    assert len(before) == 200
    for target in ("consumer", "classic"):
        names = sent(monkeypatch)
        row = only(kgroup(*migrate(group, target), "--execute", "-o", "json"))
        assert names.count("OffsetCommit") > 1
        assert (row["converted"], row["read_back_count"]) == (True, 200)
        assert stands(world, group) == (target, "empty")
        assert world.exact(group) == before


def test_group_without_commits(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """Nothing to keep; it is converted all the same."""
    group = name("svc")
    come_and_go(world, group)
    row = only(kgroup(*migrate(group, "consumer"), "--execute", "-o", "json"))
    assert (row["converted"], row["read_back_count"], row["commit_count"], row["error_code"]) == (True, 0, 0, None)
    assert stands(world, group) == ("consumer", "empty")


# --- consumers afterwards


@contextmanager
def consuming(
    bootstrap: str, group: str, topic: str, file: Path, protocol: str, most: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """An application that writes down each record; told to end (SIGTERM) and waited for when the block ends.

    It ends by itself after ``most`` records.
    """
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol, "log_level": "0"}
    command = [sys.executable, application.__file__, json.dumps(settings), topic, str(file)]
    process = subprocess.Popen(command if most is None else [*command, str(most)])
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait(10)


def test_consumers_go_on_exactly_where_they_were(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bootstrap: str, tmp_path: Path
) -> None:
    """Stopped in the middle of a numbered stream, twice: every record once, over both protocols and back."""
    topic, group, file = world.topic(name("orders"), partitions=3), name("svc"), tmp_path / "processed"
    file.touch()

    def processed() -> list[str]:
        return file.read_text().splitlines()

    def more(count: int) -> None:
        for partition in range(3):
            world.produce(topic, count, partition)

    more(800)
    for protocol, at_least, most in (("classic", 300, 600), ("consumer", 900, 1000), ("classic", 2700, None)):
        with consuming(bootstrap, group, topic, file, protocol, most):
            wait_for(lambda least=at_least: len(processed()) >= least, f"{at_least} records", 120)  # type: ignore[misc]
        wait_for(lambda kind=protocol: stands(world, group) == (kind, "empty"), "Empty")  # type: ignore[misc]
        if at_least == 2700:
            break
        assert len(processed()) < 2400, "in the middle"
        more(50)
        kgroup(*migrate(group, OTHER[protocol]), "--execute")
        assert stands(world, group) == (OTHER[protocol], "empty")
    assert sorted(processed()) == sorted(
        f"{topic}:{partition} {offset}" for partition in range(3) for offset in range(900)
    )


def test_one_classic_member_that_joins_first_turns_it_back(
    kgroup: CommandLine, world: KafkaWorld, members: Members, shop: Shop
) -> None:
    """As the screen said; the next run sees it, and does it again once the group is empty."""
    said = kgroup(*migrate(shop.group, "consumer"), "--execute").stdout
    assert re.search(r"classic member joins first", said)
    member = join(members, "classic", shop.group, shop.topic)
    assert stands(world, shop.group)[0] == "classic"
    kgroup(*migrate(shop.group, "consumer"), "--execute", exit_code=9)
    member.close()
    wait_for(lambda: stands(world, shop.group) == ("classic", "empty"), "Empty")
    assert only(kgroup(*migrate(shop.group, "consumer"), "--execute", "-o", "json"))["converted"] is True
    assert world.exact(shop.group) == shop.commits


# --- again


@pytest.mark.parametrize("target", PROTOCOLS)
def test_what_is_done_is_left_alone(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """DONE, 0, not one write, nothing in the journal; the same with and without --execute."""
    shop.turned(world, target)
    if target == "consumer":
        to_classic(world, shop.group)
        kgroup(*migrate(shop.group, target), "--execute")
    known = changes(tmp_path / "state")
    names = sent(monkeypatch)
    for execute in ((), ("--execute",)):
        page = kgroup(*migrate(shop.group, target), *execute).stdout
        assert "Nothing to do." in page
        assert "kgroup undo" not in page, "nothing was done, so nothing is taken back"
        row = only(kgroup(*migrate(shop.group, target), *execute, "-o", "json"))
        assert (row["readiness"], row["type"], row["change_id"], row["error_code"]) == ("done", target, None, None)
        assert row["converted"] is not True
    assert not WRITES & set(names)
    assert changes(tmp_path / "state") == known
    assert stands(world, shop.group) == (target, "empty")
    assert world.exact(shop.group) == shop.commits


@pytest.mark.parametrize("target", PROTOCOLS)
def test_one_done_one_to_do(
    kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str, tmp_path: Path, target: str
) -> None:
    """Only the other one is written down, and comes back."""
    done, other = made(world, name("done"), topic), made(world, name("other"), topic)
    (done if target == "consumer" else other).turned(world, "consumer")
    document = kgroup(*migrate(done.group, target, other.group), "--execute", "-o", "json")
    rows = {row["group"]: row for row in document.data}
    assert (rows[done.group]["readiness"], rows[other.group]["converted"]) == ("done", True)
    listed = world.groups()
    assert {listed[group] for group in rows} == {(target, "empty")}
    (path,) = changes(tmp_path / "state")
    assert done.group not in json.dumps([line for line in documents(path) if "rows" in line])
    kgroup("undo", "--execute")
    listed = world.groups()
    assert (listed[done.group][0], listed[other.group][0]) == (target, OTHER[target])
    assert (world.exact(done.group), world.exact(other.group)) == (done.commits, other.commits)


# --- what it says


def test_screen_of_one_group_done(kgroup: CommandLine, world: KafkaWorld, short: Shop) -> None:
    shop = short
    page = kgroup(*migrate(shop.group, "consumer"), "--execute", "--reason", "INC-9").stdout
    assert page.startswith(f"DONE  migrate {shop.group}: classic -> consumer")
    assert re.search(r"^OFFSETS +2 of 2 read back, identical", page, re.M)
    assert re.search(r"^EXPIRES .* unless a member commits", page, re.M)
    assert "If ONE classic member joins first" in page
    assert "Done. Start the consumers with group.protocol=consumer, then:\n" in page
    assert f"\n  kgroup wait {shop.group} --for type=consumer --for stable --hold 15s\nTo undo it:\n" in page
    assert "INC-9" in kgroup("undo", change_id(kgroup("undo"))).stdout
    back = kgroup(*migrate(shop.group, "classic"), "--execute").stdout
    assert back.startswith(f"DONE  migrate {shop.group}: consumer -> classic")
    assert re.search(r"^OFFSETS +2 of 2 read back, identical", back, re.M)
    assert "To undo it" in back
    assert "group.protocol=consumer" not in back, "that is where it comes from"


def test_backup(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """What --backup wrote is what reset --from-file reads; and without a journal it is what lets kgroup go on."""
    file = tmp_path / "backup.json"
    kgroup(*migrate(shop.group, "consumer"), "--backup", str(file), "--execute")
    kgroup("reset", shop.group, "--topic", shop.topic, "--to-earliest", "--execute")
    kgroup("reset", shop.group, "--from-file", str(file), "--execute")
    assert world.exact(shop.group) == shop.commits


# --- what is not there


@pytest.mark.parametrize("target", PROTOCOLS)
def test_mistyped_id_creates_nothing(kgroup: CommandLine, world: KafkaWorld, shop: Shop, target: str) -> None:
    """The broker would make a group of any id that a heartbeat names."""
    shop.turned(world, OTHER[target])
    wrong = shop.group[:-1] + "x" * 2
    before = set(world.groups())
    for execute in ((), ("--execute",), ("--execute", "--partial")):
        refused = kgroup(*migrate(wrong, target), *execute, "-o", "json", exit_code=5)
        assert [error["code"] for error in refused.json["errors"]] == ["not-found"]
    assert shop.group in kgroup(*migrate(wrong, target), "--execute", exit_code=5).stderr, "a near miss"
    kgroup(*migrate(wrong, target, shop.group), "--execute", exit_code=5)
    kgroup("migrate", "--regex", f"{wrong}-.*", "--execute", exit_code=5)
    kgroup(*migrate(wrong, target), "--watch", "--within", "9s", exit_code=5)
    assert set(world.groups()) == before
    assert stands(world, shop.group) == (OTHER[target], "empty"), "nothing of the whole command"


@pytest.mark.parametrize("target", PROTOCOLS)
def test_group_that_vanishes_before_its_turn(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path, target: str
) -> None:
    """Deleted while kgroup waits for the journal: it is not made anew."""
    shop.turned(world, OTHER[target])
    with locked(tmp_path / "state") as release, running(*migrate(shop.group, target), "--execute") as waits:
        waits.says(WAITS)
        world.delete_group(shop.group)
        release()
        refused = waits.ends(6)
    assert shop.group in refused.stderr
    assert "[moved-since]" in refused.stderr
    assert shop.group not in world.groups()


@pytest.mark.parametrize(("target", "request_name"), [("consumer", "ConsumerGroupHeartbeat"), ("classic", "JoinGroup")])
def test_group_that_vanishes_between_commit_and_conversion(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, monkeypatch: pytest.MonkeyPatch, target: str, request_name: str
) -> None:
    """The conversion makes an empty group then; that is no success, and it is said which commits are missing."""
    shop.turned(world, OTHER[target])
    vanished = just_before(monkeypatch, request_name, lambda: world.delete_group(shop.group))
    result = kgroup(*migrate(shop.group, target), "--execute", "-o", "json", exit_code=7)
    assert vanished
    assert world.exact(shop.group) == {}
    assert only(result)["error_code"] == "commits-missing"
    (error,) = result.json["errors"]
    assert (error["code"], error["group"]) == ("commits-missing", shop.group)
    assert f"{len(shop.commits)} commits cannot be found any more" in error["message"]
    assert all(f"{topic}:{partition}" in result.stderr for topic, partition in shop.commits)


@pytest.mark.parametrize("target", PROTOCOLS)
def test_commit_while_it_waits_for_its_turn(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path, target: str
) -> None:
    """What was planned is outdated then: refused, and not put back to what it was."""
    shop.turned(world, OTHER[target])
    with locked(tmp_path / "state") as release, running(*migrate(shop.group, target), "--execute") as waits:
        waits.says(WAITS)
        world.commit(shop.group, {(shop.topic, 0): (9, "went on", 0)})
        moved = world.exact(shop.group)
        release()
        assert "[moved-since]" in waits.ends(6).stderr
    assert world.exact(shop.group) == moved
    assert stands(world, shop.group) == (OTHER[target], "empty")


# --- an open transaction


@pytest.mark.parametrize("target", PROTOCOLS)
def test_pending_transactional_commit(kgroup: CommandLine, world: KafkaWorld, shop: Shop, target: str) -> None:
    """What it is about to commit would be overtaken by the commits made again: not converted until it has ended."""
    shop.turned(world, OTHER[target])
    with world.pending(shop.group, {(shop.topic, 1): 9}) as producer:
        for execute in ((), ("--execute",)):
            result = kgroup(*migrate(shop.group, target), *execute, exit_code=6)
            assert "transaction" in result.stdout + result.stderr
            assert f"{shop.topic}:1" in result.stdout + result.stderr
            assert stands(world, shop.group) == (OTHER[target], "empty")
        producer.commit_transaction(30)
    wait_for(lambda: world.exact(shop.group)[shop.topic, 1][0] == 9, "the transaction's commit")
    before = world.exact(shop.group)
    # That commit came after the group had become Empty, by no member.
    kgroup(*migrate(shop.group, target), "--execute", "--accept", "active-committer")
    assert stands(world, shop.group) == (target, "empty")
    assert world.exact(shop.group) == before


def test_group_of_one_pending_commit(kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str) -> None:
    """It has no other: asked for all commits, the broker does not even list it."""
    group = name("svc")
    with world.pending(group, {(topic, 0): 9}) as producer:
        result = kgroup(*migrate(group, "consumer"), "--execute", exit_code=6)
        assert "[blocked]" in result.stderr
        assert "pending-transactions: an open transaction" in result.stderr
        assert stands(world, group) == ("classic", "empty")
        producer.commit_transaction(30)
    wait_for(lambda: (topic, 0) in world.exact(group), "the transaction's commit")


# --- live groups


@dataclass(frozen=True)
class Live:
    """A group with one member ``pay-0``, and commits at 3 and 4."""

    group: str
    topic: str
    protocol: str
    member: Member


@pytest.fixture(params=PROTOCOLS)
def live(request: pytest.FixtureRequest, world: KafkaWorld, members: Members, name: Name, topic: str) -> Live:
    group = name("svc")
    world.commit(group, {(topic, 0): (3, "kept", 0), (topic, 1): 4})
    member = comes(members, request.param, group, topic)
    members.stable(member, partitions=2)
    return Live(group, topic, request.param, member)


def test_live_group(
    kgroup: CommandLine, world: KafkaWorld, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It moves member by member, so its plan is no error; its conversion is refused, or waits with --wait-empty."""
    before, target = world.exact(live.group), OTHER[live.protocol]
    wanted = migrate(live.group, target)
    names = sent(monkeypatch)
    for execute, exit_code, codes in (((), 0, []), (("--execute",), 9, [("not-empty", live.group)])):
        result = kgroup(*wanted, *execute, exit_code=exit_code)
        assert result.stdout.rstrip().endswith("--wait-empty --execute")
        assert result.stdout.rstrip().splitlines()[-1].count("--execute") == 1
        document = kgroup(*wanted, *execute, "-o", "json", exit_code=exit_code)
        row = only(document)
        assert (row["type"], row["member_count"], row["converted"]) == (live.protocol, 1, None)
        assert (row["how"], row["error_code"]) == ("rolling", "not-empty" if codes else None)
        assert [(error["code"], error["group"]) for error in document.json["errors"]] == codes
        assert document.json["executed"] is False
        if execute:
            assert "[not-empty]" in result.stderr
            assert any("pay-0" in line and "127.0.0.1" in line for line in result.stderr.splitlines())
            assert "NOT YET" in result.stdout
        else:
            assert "[not-empty]" not in result.stderr
            assert "NOT YET" not in result.stdout
            assert "Restart its members as above." in result.stdout
    refused = kgroup(*wanted, "--accept", "not-empty", "--execute", exit_code=2)
    assert "the broker refuses" in refused.stderr, "no way round"
    late = kgroup(*wanted, "--wait-empty", "--within", "1s", "--execute", exit_code=9)
    assert "[not-empty]" in late.stderr
    waiting = kgroup(*wanted, "--wait-empty", "--within", "9m")
    assert "NOT YET" in waiting.stdout
    assert waiting.stdout.rstrip().endswith("--execute")
    assert "[not-empty]" not in waiting.stderr
    assert not WRITES & set(names)
    assert changes(tmp_path / "state") == []
    assert stands(world, live.group) == (live.protocol, "stable")
    assert world.exact(live.group) == before

    with running(*wanted, "--wait-empty", "--within", "60s", "--execute", "-o", "json") as waits:
        waits.says(f"WAIT      {live.group} 1 member: pay-0 127.0.0.1")
        commit_to(world, live.member, 10)
        live.member.close()
        result = waits.ends(0)
    assert f"WAIT      {live.group} is Empty" in result.stderr
    assert (only(result)["converted"], only(result)["read_back_count"]) == (True, 2)
    assert stands(world, live.group) == (target, "empty")
    assert {found[0] for found in world.exact(live.group).values()} == {10}, "what it committed while it was waited for"


def test_one_live_group_among_several(
    kgroup: CommandLine, world: KafkaWorld, name: Name, topic: str, live: Live
) -> None:
    """It costs the whole command, or with --partial itself only."""
    idle, target = made(world, name("idle"), topic).turned(world, live.protocol), OTHER[live.protocol]
    both = migrate(live.group, target, idle.group)
    kgroup(*both, "--execute", exit_code=9)
    assert stands(world, idle.group) == (live.protocol, "empty")
    document = kgroup(*both, "--execute", "--partial", "-o", "json", exit_code=7)
    assert {row["group"]: bool(row["converted"]) for row in document.data} == {live.group: False, idle.group: True}
    assert {(error["code"], error["group"]) for error in document.json["errors"]} == {("not-empty", live.group)}
    listed = world.groups()
    assert (listed[live.group], listed[idle.group]) == ((live.protocol, "stable"), (target, "empty"))
    assert world.exact(idle.group) == idle.commits
    kgroup("undo", "--execute")
    assert stands(world, idle.group) == (live.protocol, "empty")


@pytest.mark.parametrize("target", PROTOCOLS)
def test_member_that_is_called_kgroup(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, topic: str, target: str
) -> None:
    """An application may have kgroup's client id: its member is nobody's leftover, and stays."""
    group = name("svc")
    member = join(members, "consumer", group, topic, client_id="kgroup")
    for execute in ((), ("--execute",)):
        result = kgroup(*migrate(group, target), *execute, exit_code=9 if execute and target == "classic" else 0)
        assert "own member" not in result.stdout + result.stderr
    assert stands(world, group) == ("consumer", "stable")
    member.commit()


# --- a consumer that joins between check and conversion


JOINS: tuple[tuple[str, str, int, str], ...] = (
    ("consumer", "OffsetCommit", 0, "classic"),
    ("consumer", "ConsumerGroupHeartbeat", 0, "classic"),
    ("consumer", "ConsumerGroupHeartbeat", 0, "consumer"),
    ("consumer", "ConsumerGroupHeartbeat", 1, "classic"),
    ("consumer", "ConsumerGroupHeartbeat", 1, "consumer"),
    ("classic", "OffsetCommit", 0, "consumer"),
    ("classic", "JoinGroup", 0, "classic"),
    ("classic", "JoinGroup", 0, "consumer"),
    ("classic", "LeaveGroup", 0, "consumer"),
)
"""Target, before which request (the commit again, the conversion's first half, its second), and who joins then."""


@pytest.mark.parametrize(("target", "request_name", "skip", "joiner"), JOINS)
def test_consumer_joins_meanwhile(
    kgroup: CommandLine,
    world: KafkaWorld,
    members: Members,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
    request_name: str,
    skip: int,
    joiner: str,
) -> None:
    """Noticed and reported; the member keeps its partitions and goes on, the offsets stand."""
    shop.turned(world, OTHER[target])
    came: list[Member] = []

    def join_now() -> None:
        came.append(comes(members, joiner, shop.group, shop.topic))
        # Not until the group is Stable: beside kgroup's member, which says no more, it is Reconciling.
        wait_for(lambda: len(came[0].assignment or ()) == 2, "its partitions")

    joined = just_before(monkeypatch, request_name, join_now, skip)
    result = kgroup(*migrate(shop.group, target), "--execute", "-o", "json", exit_code=9)
    assert joined
    # A commit into a group with members is refused by the broker: then the group was not looked at.
    code = "not-empty" if request_name == "OffsetCommit" else "joined-meanwhile"
    assert only(result)["error_code"] == code
    assert [(error["code"], error["group"]) for error in result.json["errors"]] == [(code, shop.group)]
    if code == "joined-meanwhile":
        assert "pay-0" in str(result.json["errors"]), "who it is"
        assert f"is a {stands(world, shop.group)[0]} group now" in str(result.json["errors"])
    assert world.exact(shop.group) == shop.commits
    (member,) = came
    wait_for(lambda: stands(world, shop.group)[1] == "stable", "Stable")
    assert member.assignment is not None
    assert len(member.assignment) == 2, "it keeps what it has"
    commit_to(world, member, 10)  # and goes on


# --- the group's settings


def test_settings_of_the_group(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """--session-timeout and --heartbeat-interval; undo puts back what was there, or that there was nothing."""
    settings = ("--session-timeout", "60s", "--heartbeat-interval", "5s")
    ours = {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "5000"}
    plan = kgroup(*migrate(shop.group, "consumer"), *settings).stdout
    assert f"SETTINGS  {', '.join(f'{key}={value}' for key, value in ours.items())}: to be set" in plan
    assert world.group_config(shop.group) == {}
    done = kgroup(*migrate(shop.group, "consumer"), *settings, "--execute")
    assert world.group_config(shop.group) == ours
    undone = kgroup("undo", change_id(done), "--execute")
    assert (stands(world, shop.group), world.group_config(shop.group)) == (("classic", "empty"), {})
    kgroup("undo", change_id(undone), "--execute")
    assert (stands(world, shop.group), world.group_config(shop.group)) == (("consumer", "empty"), ours)
    kgroup("undo", "--execute")

    theirs = {"consumer.session.timeout.ms": "20000"}
    world.configure_group(shop.group, consumer_session_timeout_ms="20000")
    kgroup(*migrate(shop.group, "consumer"), *settings[:2], "--execute")
    assert world.group_config(shop.group) == {"consumer.session.timeout.ms": "60000"}
    kgroup("undo", "--execute")
    assert world.group_config(shop.group) == theirs
    assert world.exact(shop.group) == shop.commits


def test_settings_of_a_group_that_is_there_already(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """They are what is left to do; without them the group is DONE."""
    shop.turned(world, "consumer")
    done = kgroup(*migrate(shop.group, "consumer"), "--session-timeout", "60s", "--execute")
    assert world.group_config(shop.group) == {"consumer.session.timeout.ms": "60000"}
    assert stands(world, shop.group) == ("consumer", "empty")
    kgroup("undo", change_id(done), "--execute")
    assert world.group_config(shop.group) == {}
    assert stands(world, shop.group) == ("consumer", "empty"), "it was one before"


# --- undo


@pytest.mark.parametrize("target", PROTOCOLS)
def test_undo(
    kgroup: CommandLine, world: KafkaWorld, short: Shop, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Plan, execution, and the undo of the undo by its id; each conversion has its commit made again."""
    shop = short
    shop.turned(world, OTHER[target])
    done = kgroup(*migrate(shop.group, target), "--execute", "--reason", "INC-7 früh")
    plan = kgroup("undo")
    assert plan.stdout.startswith(f"PLAN  undo {change_id(done)}: migrate {shop.group}")
    assert "INC-7 früh" in plan.stdout
    assert [shop.group, target, OTHER[target]] in [line.split()[:3] for line in plan.stdout.splitlines()]
    assert "Nothing was changed" in plan.stdout
    assert stands(world, shop.group) == (target, "empty")
    names = sent(monkeypatch)
    undone = kgroup("undo", "--execute")
    assert "OffsetCommit" in names, "else they expire minutes later"
    assert undone.stdout.startswith("DONE")
    assert stands(world, shop.group) == (OTHER[target], "empty")
    assert world.exact(shop.group) == shop.commits
    kgroup("undo", exit_code=5)
    kgroup("undo", change_id(undone), "--execute")
    assert stands(world, shop.group) == (target, "empty")
    assert world.exact(shop.group) == shop.commits


@pytest.mark.soak
def test_undo_after_the_group_moved_on(kgroup: CommandLine, world: KafkaWorld, members: Members, shop: Shop) -> None:
    """Live: refused by name. Then the offsets stay where its consumers of the new protocol have left them."""
    kgroup(*migrate(shop.group, "consumer"), "--execute")
    member = join(members, "consumer", shop.group, shop.topic, client_id="pay-0")
    commit_to(world, member, 10)
    for execute in ((), ("--execute",)):
        refused = kgroup("undo", *execute, exit_code=9)
        assert "[not-empty]" in refused.stderr
        assert "pay-0" in refused.stderr
        assert "127.0.0.1" in refused.stderr
        assert "NOT YET" in refused.stdout
        assert stands(world, shop.group) == ("consumer", "stable")
    with running("undo", "--wait-empty", "--within", "60s", "--execute") as undo:
        undo.says(f"WAIT      {shop.group} 1 member: pay-0")
        member.close()
        undo.ends(0)
    assert stands(world, shop.group) == ("classic", "empty")
    assert {place: found[0] for place, found in world.exact(shop.group).items()} == {
        (shop.topic, 0): 10,
        (shop.topic, 1): 10,
    }


def test_undo_of_a_group_that_is_gone(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """A JoinGroup would make it anew."""
    done = kgroup(*migrate(shop.group, "consumer"), "--execute")
    world.delete_group(shop.group)
    for execute in ((), ("--execute",)):
        result = kgroup("undo", change_id(done), *execute, exit_code=5)
        assert f"{shop.group}: no such group [not-found]" in result.stderr
    assert shop.group not in world.groups()


def test_reset_migrate_undo_undo(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """Changes of several kinds are taken back one after another, and ours are no committer of somebody else."""
    kgroup("reset", shop.group, "--topic", shop.topic, "--to-latest", "--execute")
    moved = world.exact(shop.group)
    kgroup(*migrate(shop.group, "consumer"), "--execute")
    kgroup("reset", shop.group, "--topic", shop.topic, "--to-earliest", "--execute")
    kgroup("undo", "--execute")
    assert (stands(world, shop.group), world.exact(shop.group)) == (("consumer", "empty"), moved)
    kgroup("undo", "--execute")
    assert (stands(world, shop.group), world.exact(shop.group)) == (("classic", "empty"), moved)
    kgroup("undo", "--execute")
    assert (stands(world, shop.group), world.exact(shop.group)) == (("classic", "empty"), shop.commits)


def test_member_right_before(kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name, topic: str) -> None:
    """Its closing commit lies a tenth of a second before Empty: that is no one who goes on committing."""
    group = idle_group(world, members, "classic", name("svc"), topic)
    before = world.exact(group)
    kgroup(*migrate(group, "consumer"), "--execute")
    assert world.exact(group) == before
