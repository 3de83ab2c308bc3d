"""``kgroup reset``: the same offsets as Kafka's own tool, a plan that is kept, and nothing lost or made by mistake."""

from __future__ import annotations

import json
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from kgroup.groups.offset_files import parse_offsets
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_tools import CONSUMER_GROUPS, KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.wire import just_before

Name = Callable[[str], str]
Targets = dict[tuple[str, str, int], int | None]

pytestmark = pytest.mark.usefixtures("bystander")

STEP_MS = 600_000  # between the records of the world that is compared with Kafka's tool


def targets(result: Result) -> Targets:
    """The plan's new offset by group, topic and partition."""
    return {(row["group"], row["topic"], row["partition"]): row["new_offset"] for row in result.data}


def offsets(world: KafkaWorld, group: str) -> dict[tuple[str, int], int]:
    """Committed offsets alone."""
    return {place: offset for place, (offset, _) in world.committed(group).items()}


def printed_command(result: Result) -> list[str]:
    """The words after ``kgroup`` of the command that a dry run ends with."""
    lines = result.stdout.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Nothing was changed."))
    command = "\n".join(lines[start + 1 :]).strip()
    words = shlex.split(command[: command.find("\nThe same")] if "\nThe same" in command else command)
    assert words[0] == "kgroup"
    return words[1:]


def error_of(result: Result, code: str) -> dict[str, Any]:
    """The one entry of ``errors`` with this code."""
    (found,) = [error for error in result.json["errors"] if error["code"] == code]
    return found  # type: ignore[no-any-return]


# The same results as kafka-consumer-groups.sh


@dataclass(frozen=True)
class Compared:
    """A world that nobody changes: what both tools make of it can be asked in any order."""

    groups: tuple[str, str]
    orders: str
    clicks: str
    newest_ms: int
    single: Path
    several: Path

    def words(self, text: str) -> list[str]:
        """The words of a case, with its names filled in."""
        given = {
            "orders": self.orders,
            "clicks": self.clicks,
            "single": str(self.single),
            "several": str(self.several),
            "utc": self.at(45, UTC).replace("+00:00", "Z"),
            "zone": self.at(45, timezone(timedelta(hours=5, minutes=30))),
            "west": self.at(45, timezone(timedelta(hours=-3))),
            "nozone": self.at(75, UTC).removesuffix("+00:00"),
            "exact": self.at(80, UTC).replace("+00:00", "Z"),
        }
        return text.format(**given).split()

    def at(self, minutes_ago: int, zone: timezone) -> str:
        """A moment before the newest record."""
        moment = datetime.fromtimestamp((self.newest_ms - minutes_ago * 60_000) / 1000, zone)
        return moment.isoformat(timespec="milliseconds")


BOTH, FIRST = "both", "first"

SCENARIOS = {
    "to-earliest": (BOTH, "--to-earliest --topic {orders}"),
    "to-earliest of all topics": (BOTH, "--to-earliest --all-topics"),
    "to-latest of some partitions": (BOTH, "--to-latest --topic {orders}:0,1,2 --topic {clicks}"),
    "to-latest of one group": (FIRST, "--to-latest --all-topics"),
    "to-offset in range of some": (BOTH, "--to-offset 7 --topic {orders}"),
    "to-offset in range": (FIRST, "--to-offset 12 --topic {orders}:0,1"),
    "to-offset above": (BOTH, "--to-offset 100000 --all-topics"),
    "to-offset below": (BOTH, "--to-offset 0 --topic {orders}:1,3"),
    "to-current, the log end without one": (BOTH, "--to-current --topic {orders}"),
    "to-current of all topics": (FIRST, "--to-current --all-topics"),
    "shift on": (BOTH, "--shift-by 2 --all-topics"),
    "shift back": (BOTH, "--shift-by -2 --topic {clicks}:0 --topic {orders}:0"),
    "shift beyond the end": (BOTH, "--shift-by 100000 --all-topics"),
    "shift beyond the start": (BOTH, "--shift-by -100000 --all-topics"),
    "to-datetime in UTC": (BOTH, "--to-datetime {utc} --topic {orders}"),
    "to-datetime with a zone": (BOTH, "--to-datetime {zone} --all-topics"),
    "to-datetime west of it": (FIRST, "--to-datetime {west} --topic {orders}:0"),
    "to-datetime without a zone": (FIRST, "--to-datetime {nozone} --topic {orders}:0,1,4"),
    "to-datetime of a record itself": (FIRST, "--to-datetime {exact} --topic {orders}"),
    "to-datetime long ago": (FIRST, "--to-datetime 2001-01-01T00:00:00.000 --topic {orders}"),
    "by-duration": (BOTH, "--by-duration PT1H5M --topic {orders}"),
    "by-duration of days": (FIRST, "--by-duration P1DT1S --all-topics"),
    "by-duration of nothing": (FIRST, "--by-duration PT0S --topic {orders}"),
    "from-file of one group": (FIRST, "--from-file {single}"),
    "from-file of several groups": (BOTH, "--from-file {several}"),
}


@pytest.fixture(scope="module")
def compared(world: KafkaWorld, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Every kind of partition and commit."""
    tag = secrets.token_hex(3)
    orders, clicks = world.topic(f"orders-compared-{tag}", partitions=5), world.topic(f"clicks-compared-{tag}", 2)
    one, two = f"one-compared-{tag}", f"two-compared-{tag}"
    newest_ms = int(time.time() * 1000) - 330_000  # so that for minutes no record gets older than a case asks for
    hours = [newest_ms - STEP_MS * back for back in reversed(range(20))]
    world.produce_at(orders, 0, hours)
    world.produce_at(orders, 1, hours)
    world.delete_records(orders, 1, 5)
    world.produce_at(orders, 3, hours[:10])  # 2 stays empty; of 3 nothing is left
    world.delete_records(orders, 3, 10)
    world.produce_at(orders, 4, [*hours[10:], *hours[:10]])  # times that go back
    for partition in range(2):
        world.produce_at(clicks, partition, hours)
    # Below the log start, on an empty partition, on one without records, above the log end.
    world.commit(one, {(orders, 0): 3, (orders, 1): 2, (orders, 2): 0, (orders, 3): 4, (orders, 4): 99, (clicks, 0): 5})
    world.commit(two, {(orders, 0): 7, (clicks, 0): 19, (clicks, 1): 20})

    folder = tmp_path_factory.mktemp("compared")
    single, several = folder / "single.csv", folder / "several.csv"
    single.write_text(f"{orders},0,11\n{orders},1,1\n{clicks},1,500\n")
    several.write_text(f"{one},{orders},0,11\n{two},{orders},2,7\n{two},{clicks},1,0\n{one},{orders},4,20\n")

    return Compared((one, two), orders, clicks, newest_ms, single, several)


def groups_of(which: str, world: Compared) -> tuple[str, ...]:
    """The groups that a case names."""
    return world.groups if which == BOTH else world.groups[:1]


@pytest.mark.parametrize("case", SCENARIOS)
def test_the_same_offsets_as_kafkas_own_tool(
    kgroup: CommandLine, compared: Compared, bootstrap: str, kafka_tool: KafkaTools, case: str
) -> None:
    which, words = SCENARIOS[case]
    groups = groups_of(which, compared)
    ours = kgroup("reset", *groups, *compared.words(words), "-o", "json")

    connection = ("--bootstrap-server", bootstrap, "--timeout", "60000")
    named = [word for group in groups for word in ("--group", group)]
    what = ("--reset-offsets", *named, *compared.words(words), "--dry-run", "--export")
    done = kafka_tool(CONSUMER_GROUPS, *connection, *what)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stdout, done.stdout
    rows = "".join(f"{line}\n" for line in done.stdout.splitlines() if line.count(",") >= 2)  # it warns on stdout
    parsed = parse_offsets(rows, "theirs")
    theirs = {(row.group or groups[0], row.topic, row.partition): row.offset for row in parsed}
    assert theirs, "the tool was asked for something"
    assert targets(ours) == theirs
    assert ours.json["executed"] is False


def test_kafkas_option_names_with_group_and_dry_run(kgroup: CommandLine, compared: Compared) -> None:
    one, two = compared.groups
    words = ("--topic", f"{compared.orders}:0", "--to-earliest", "--dry-run", "-o", "json")
    assert targets(kgroup("reset", "--group", one, "--group", two, *words)) == {
        (one, compared.orders, 0): 0,
        (two, compared.orders, 0): 0,
    }


# The plan: what it says, in every form


@dataclass(frozen=True)
class Shop:
    """A topic of three partitions with 20 records each, the first with a log start of 5; two groups on it."""

    topic: str
    group: str
    other: str


METADATA = 'заказ "№7", \u2028,\ttab and 🛒'


@pytest.fixture
def shop(world: KafkaWorld, name: Name) -> Shop:
    topic, group = world.topic(name("orders"), partitions=3), name("svc")
    for partition in range(3):
        world.produce(topic, 20, partition)
    world.delete_records(topic, 0, 5)
    other = f"{group}-other"
    world.commit(group, {(topic, 0): (7, METADATA, 0), (topic, 1): 10, (topic, 2): 20})
    world.commit(other, {(topic, 1): 4})
    return Shop(topic, group, other)


def test_the_plan_as_a_table_with_totals(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    before = world.committed(shop.group)
    shown = kgroup("reset", shop.group, "--topic", shop.topic, "--to-latest").stdout
    first, heading, *rest = shown.splitlines()
    assert first.startswith(f"PLAN  reset {shop.group}: 3 partitions, 23 offsets skipped")
    assert heading.split()[:5] == ["PARTITION", "OLD-OFFSET", "NEW-OFFSET", "SKIPPED", "REPEATED"]
    assert [line.split()[:5] for line in rest[:3]] == [
        [f"{shop.topic}:0", "7", "20", "13", "0"],
        [f"{shop.topic}:1", "10", "20", "10", "0"],
        [f"{shop.topic}:2", "20", "20", "0", "0"],
    ]
    assert "TOTAL" in shown
    lines = [line for line in shown.splitlines() if line]
    assert lines[-2].startswith("Nothing was changed.")
    assert lines[-1] == f"  kgroup reset {shop.group} --topic {shop.topic} --to-latest --execute"
    assert kgroup("reset", shop.group, "--topic", shop.topic, "--to-latest", "--dry-run").stdout.count("--execute") == 1
    assert world.committed(shop.group) == before

    both = kgroup("reset", shop.group, shop.other, "--topic", f"{shop.topic}:1", "--to-latest").stdout
    assert "2 groups" in both.splitlines()[0]
    assert "26 offsets skipped" in both
    back = kgroup("reset", shop.group, "--topic", f"{shop.topic}:0,1", "--to-earliest").stdout
    assert back.startswith(f"PLAN  reset {shop.group}: 2 of 3 partitions, 12 offsets repeated ")
    assert "is below the log start 5" in kgroup("reset", shop.group, "--topic", shop.topic, "--to-offset", "0").stdout


@pytest.mark.parametrize("words", [("--to-latest",), ("--to-earliest",), ("--to-offset", "12"), ("--shift-by", "-2")])
def test_the_printed_command_does_what_the_plan_says(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, words: tuple[str, ...]
) -> None:
    command = ("reset", shop.group, shop.other, "--topic", f"{shop.topic}:1", *words)
    planned = targets(kgroup(*command, "-o", "json"))
    done = kgroup(*printed_command(kgroup(*command)))
    assert done.stdout.startswith("DONE  reset")
    assert "Nothing was changed" not in done.stdout
    assert "kgroup undo" in done.stdout
    for group in (shop.group, shop.other):
        assert offsets(world, group)[shop.topic, 1] == planned[group, shop.topic, 1]


def test_the_printed_command_names_the_cluster_and_no_secret(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KGROUP_BOOTSTRAP_SERVER")
    words = ("reset", shop.group, "--topic", f"{shop.topic}:1", "--to-latest")
    for command in (("-b", bootstrap, *words), (*words, "--bootstrap-server", bootstrap)):
        shown = kgroup(*command, "-X", "sasl.password=hunter2")
        assert "hunter2" not in shown.stdout + shown.stderr
        assert bootstrap in printed_command(shown)
    kgroup(*printed_command(kgroup("-b", bootstrap, *words)))
    assert offsets(world, shop.group)[shop.topic, 1] == 20


def test_every_printed_command_names_the_cluster(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pasted, it must not change another cluster, the one that is the default."""
    monkeypatch.delenv("KGROUP_BOOTSTRAP_SERVER")
    words = ("reset", shop.group, "--topic", f"{shop.topic}:1", "--shift-by", "2", "-b", bootstrap)
    before = world.exact(shop.group)
    repeatable = next(line for line in kgroup(*words).stdout.splitlines() if "--to-offset" in line)
    kgroup(*shlex.split(repeatable[repeatable.index("kgroup ") :])[1:], "--execute")
    assert offsets(world, shop.group)[shop.topic, 1] == 12
    done = kgroup(*words, "--execute")
    assert offsets(world, shop.group)[shop.topic, 1] == 14
    back = next(line for line in done.stdout.splitlines() if "kgroup undo" in line)
    kgroup(*shlex.split(back[back.index("kgroup ") :])[1:])
    assert offsets(world, shop.group)[shop.topic, 1] == 12
    assert {place for place, commit in world.exact(shop.group).items() if commit != before[place]} == {(shop.topic, 1)}


def test_the_printed_command_stands_any_name(kgroup: CommandLine, world: KafkaWorld, name: Name, shop: Shop) -> None:
    group = name('it\'s "a $HOME; `group`" — ночь \\')
    world.commit(group, {(shop.topic, 1): 2})
    kgroup(*printed_command(kgroup("reset", group, "--all-topics", "--to-latest", "--reason", "INC 1, 'x'")))
    assert offsets(world, group) == {(shop.topic, 1): 20}
    dashed = "--" + name("svc")
    world.commit(dashed, {(shop.topic, 1): 2})
    kgroup(*printed_command(kgroup("reset", "--topic", shop.topic + ":1", "--to-latest", "--", dashed)))
    assert offsets(world, dashed) == {(shop.topic, 1): 20}


def test_an_executed_reset_is_read_back(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    done = kgroup("reset", shop.group, "--topic", shop.topic, "--to-earliest", "--execute", "-o", "json")
    assert done.json["executed"] is True
    assert targets(done) == {(shop.group, shop.topic, number): offset for number, offset in ((0, 5), (1, 0), (2, 0))}
    assert [row["old_offset"] for row in done.data] == [7, 10, 20]
    assert [row["read_back_offset"] for row in done.data] == [5, 0, 0]
    assert offsets(world, shop.group) == {(shop.topic, 0): 5, (shop.topic, 1): 0, (shop.topic, 2): 0}
    assert offsets(world, shop.other) == {(shop.topic, 1): 4}


def test_what_moved_on_before_it_was_read_back_is_said(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Read for the plan, once more under the lock, and afterwards.
    went_on = just_before(monkeypatch, "OffsetFetch", lambda: world.commit(shop.group, {(shop.topic, 1): 3}), skip=2)
    done = kgroup("reset", shop.group, "--topic", shop.topic, "--to-earliest", "--execute", "-o", "json")
    assert went_on
    assert [row["error_code"] for row in done.data] == [None] * 3
    assert [row["new_offset"] for row in done.data] == [5, 0, 0]
    assert [row["read_back_offset"] for row in done.data] == [5, 3, 0]
    assert [row["note"] for row in done.data] == [None, "the group has committed since: now 3", None]


# What a reset leaves alone, and what it writes beside the offset


def test_what_is_not_reset_stays_byte_for_byte(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, other, group = world.topic(name("orders"), partitions=5), world.topic(name("clicks")), name("svc")
    for partition in range(5):
        world.produce(topic, 9, partition)
    world.commit(
        group,
        {
            (topic, 0): 1,
            (topic, 1): (2, METADATA, 0),
            (topic, 2): (3, "ж" * 2048, 3),
            (topic, 3): (99, "", None),
            (topic, 4): (4, "a\0b\r\n", 7),
            (other, 0): (0, " ", None),
        },
    )
    before = world.exact(group)
    kgroup("reset", group, "--topic", f"{topic}:0", "--to-latest", "--execute")
    after = world.exact(group)
    assert after.pop((topic, 0))[0] == 9
    before.pop((topic, 0))
    assert after == before


def test_to_current_keeps_the_commit(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    for partition in range(4):
        world.produce(topic, 9, partition)
    world.delete_records(topic, 2, 4)
    world.commit(group, {(topic, 0): (3, METADATA, 0), (topic, 1): (99, "x" * 4096, 5), (topic, 2): (1, "", None)})
    before = world.exact(group)
    kgroup("reset", group, "--topic", topic, "--to-current", "--execute")
    after = world.exact(group)
    assert after.pop((topic, 3))[0] == 9, "no commit: the log end"
    assert after == before


def test_a_leader_epoch_where_the_target_came_from_the_log(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, stem = world.topic(name("orders"), partitions=2), name("svc")
    stamp = int(time.time() * 1000) - 3_600_000
    for partition in range(2):
        world.produce_at(topic, partition, [stamp + second * 1000 for second in range(9)])
    moment = datetime.fromtimestamp(stamp / 1000 + 4, UTC).isoformat(timespec="milliseconds")
    for number, (words, offset) in enumerate((
        (("--to-latest",), 9),
        (("--to-earliest",), 0),
        (("--to-datetime", moment), 4),
        (("--by-duration", "1s"), 9),
        (("--to-offset", "50"), 9),
    )):  # fmt: skip
        group = f"{stem}-{number}"
        world.commit(group, {(topic, 0): (5, "", None), (topic, 1): (5, "kept", 3)})
        kgroup("reset", group, "--topic", f"{topic}:0", *words, "--execute")
        commits = world.exact(group)
        assert (commits[topic, 0][0], commits[topic, 0][2]) == (offset, 0), words
        assert commits[topic, 1] == (5, "kept", 3)
    # The old commit's epoch is not that of the record now pointed at.
    world.commit(stem, {(topic, 0): (5, "", 3)})
    kgroup("reset", stem, "--topic", f"{topic}:0", "--shift-by", "1", "--execute")
    assert world.exact(stem)[topic, 0][2] != 3


# Beyond Kafka's tool


def test_offsets_of_another_group(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    plan = kgroup("reset", shop.other, "--from-group", shop.group, "-o", "json")
    assert [(row["partition"], row["old_offset"], row["new_offset"], row["skipped_count"]) for row in plan.data] == [
        (0, None, 7, None),
        (1, 4, 10, 6),
        (2, None, 20, None),
    ]
    assert offsets(world, shop.other) == {(shop.topic, 1): 4}
    source = world.committed(shop.group)
    kgroup("reset", shop.other, "--from-group", shop.group, "--topic", f"{shop.topic}:1,2", "--execute")
    assert offsets(world, shop.other) == {(shop.topic, 1): 10, (shop.topic, 2): 20}
    assert world.committed(shop.group) == source


def test_a_copy_has_metadata_and_leader_epochs(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    twin = f"{shop.group}-twin"
    kgroup("reset", twin, "--from-group", shop.group, "--create", "--execute")
    assert world.exact(twin) == world.exact(shop.group)


def test_a_copy_of_what_cannot_be_read(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """An open transaction on one partition of the source: a copy without it would begin there at the reset policy."""
    green, copy = f"{shop.group}-green", ("--from-group", shop.group, "--create")
    with world.pending(shop.group, {(shop.topic, 1): 12}):
        for execute in ((), ("--execute",)):
            refused = kgroup("reset", green, *copy, *execute, "-o", "json", exit_code=9).json
            assert refused["executed"] is False
            (error,) = refused["errors"]
            assert (error["code"], error["topic"], error["partition"]) == ("pending-transaction", shop.topic, 1)
            assert green not in world.groups()
        part = kgroup("reset", green, *copy, "--execute", "--partial", "-o", "json", exit_code=7).json
        assert [error["code"] for error in part["errors"]] == ["pending-transaction"]
    assert offsets(world, green) == {(shop.topic, 0): 7, (shop.topic, 2): 20}


def test_a_group_comes_into_being_with_create_alone(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    twin = f"{shop.group}-green"
    for words in (("--from-group", shop.group), ("--topic", shop.topic, "--to-latest")):
        for execute in ((), ("--execute",)):
            refused = kgroup("reset", twin, *words, *execute, exit_code=5)
            assert shop.group in refused.stderr, "a near miss"
            assert "Nothing was created" in refused.stderr
            assert "--create" in refused.stderr
    assert twin not in world.groups()
    kgroup("reset", twin, "--from-group", shop.group, "--create")
    assert twin not in world.groups(), "a dry run makes nothing"
    done = kgroup("reset", twin, "--from-group", shop.group, "--create", "--execute", "-o", "json")
    assert {row["old_offset"] for row in done.data} == {None}
    assert offsets(world, twin) == offsets(world, shop.group)
    fresh = f"{shop.group}-blue"
    kgroup("reset", fresh, "--topic", shop.topic, "--to-earliest", "--create", "--execute")
    assert offsets(world, fresh) == {(shop.topic, 0): 5, (shop.topic, 1): 0, (shop.topic, 2): 0}


@pytest.mark.parametrize("extra", [(), ("--execute",), ("--execute", "--partial")])
def test_a_typo_creates_nothing(kgroup: CommandLine, world: KafkaWorld, shop: Shop, extra: tuple[str, ...]) -> None:
    typo = shop.group.replace("svc", "scv", 1)
    refused = kgroup("reset", typo, "--topic", shop.topic, "--to-latest", *extra, "-o", "json", exit_code=5)
    error = error_of(refused, "not-found")
    assert any(shop.group in line for line in error["details"])
    assert (refused.json["executed"], refused.data) == (False, [])
    assert typo not in world.groups()
    kgroup("reset", "--regex", f"{typo}.*", "--topic", shop.topic, "--to-latest", *extra, exit_code=5)
    kgroup("reset", shop.other, "--from-group", typo, *extra, exit_code=5)
    assert typo not in world.groups()
    assert offsets(world, shop.other) == {(shop.topic, 1): 4}


def test_a_typo_among_good_names(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    """Nothing of the whole command is applied; --partial applies the rest."""
    typo = shop.other + "x"
    command = ("reset", shop.other, typo, "--topic", f"{shop.topic}:1", "--to-latest", "--execute")
    kgroup(*command, exit_code=5)
    assert offsets(world, shop.other) == {(shop.topic, 1): 4}
    assert typo not in world.groups()
    kgroup(*command, "--partial", exit_code=7)
    assert offsets(world, shop.other) == {(shop.topic, 1): 20}
    assert typo not in world.groups()


def test_an_offset_for_each_partition(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    wanted = f"{shop.topic}:0=17,{shop.topic}:1=200"
    plan = kgroup("reset", shop.group, "--to-offset", wanted, "-o", "json")
    assert [(row["partition"], row["new_offset"], row["clamped_reason"] is None) for row in plan.data] == [
        (0, 17, True),
        (1, 20, False),
    ]
    for _ in range(2):  # the form that can be repeated
        kgroup("reset", shop.group, "--to-offset", wanted, "--execute")
        assert offsets(world, shop.group) == {(shop.topic, 0): 17, (shop.topic, 1): 20, (shop.topic, 2): 20}


def test_names_and_patterns_at_once(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    extra = name("extra")
    world.commit(extra, {(shop.topic, 2): 1})
    words = ("reset", extra, "--regex", f"{shop.group}.*", "--all-topics", "--to-latest")
    plan = kgroup(*words, "-o", "json")
    assert set(targets(plan)) == {
        (shop.group, shop.topic, 0),
        (shop.group, shop.topic, 1),
        (shop.group, shop.topic, 2),
        (shop.other, shop.topic, 1),
        (extra, shop.topic, 2),
    }
    refused = kgroup(*words, "--expect", "4", "--execute", "-o", "json", exit_code=6)
    assert refused.json["executed"] is False
    assert "the plan has 5 rows, 4 expected (--expect) [unexpected-count]" in refused.stderr
    kgroup(*words, "--expect", "4", exit_code=6)
    assert offsets(world, extra) == {(shop.topic, 2): 1}
    kgroup(*words, "--expect", "5", "--execute")
    assert {*offsets(world, extra).values(), *offsets(world, shop.other).values()} == {20}


def test_a_group_that_is_not_chosen_by_its_state(kgroup: CommandLine, shop: Shop) -> None:
    none = kgroup("reset", shop.group, "--in-state", "Stable", "--all-topics", "--to-latest")
    assert "nothing" in (none.stdout + none.stderr).lower()


# Rows that can't be: each its own error, and nothing of the whole command


MISSING = {
    "a partition": (("{topic}:1,9", "--to-latest"), 5, 9),
    "a shift without a commit": (("{topic}:1,2", "--shift-by", "1"), 6, 2),
}


@pytest.mark.parametrize("case", MISSING)
def test_an_error_of_one_row_stops_the_whole_command(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, case: str
) -> None:
    (scope, *scenario), code, broken = MISSING[case]
    words = ("reset", shop.other, "--topic", scope.format(topic=shop.topic), *scenario)
    before = world.committed(shop.other)
    for execute in ((), ("--execute",)):
        refused = kgroup(*words, *execute, "-o", "json", exit_code=code)
        rows = {row["partition"]: row for row in refused.data}
        assert sorted(rows) == sorted({1, broken})
        assert rows[1]["error_code"] is None
        assert rows[1]["new_offset"] is not None
        assert rows[broken]["error_code"]
        assert rows[broken]["new_offset"] is None
        assert refused.json["executed"] is False
        assert [(e["group"], e["topic"], e["partition"]) for e in refused.json["errors"]] == [
            (shop.other, shop.topic, broken)
        ]
        assert f"{shop.topic}:{broken}" in refused.stderr
        shown = kgroup(*words, *execute, exit_code=code).stdout
        assert "Nothing was changed" in shown
        assert "--partial" in shown
        assert "--execute --execute" not in shown
        assert world.committed(shop.other) == before
    done = kgroup(*words, "--execute", "--partial", "-o", "json", exit_code=7)
    assert done.json["executed"] is True
    assert offsets(world, shop.other) == {
        (shop.topic, 1): next(row["new_offset"] for row in done.data if row["new_offset"])
    }


def test_a_topic_that_does_not_exist_is_a_row(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    missing, before = name("gone"), world.committed(shop.other)
    words = ("reset", shop.other, "--topic", f"{shop.topic}:1", "--topic", missing, "--to-latest")
    for execute in ((), ("--execute",)):
        refused = kgroup(*words, *execute, "-o", "json", exit_code=5)
        assert refused.json["executed"] is False
        assert missing in refused.stderr
        assert world.committed(shop.other) == before
        (row,) = [row for row in refused.data if row["topic"] == missing]
        assert (row["group"], row["partition"], row["new_offset"]) == (shop.other, None, None)
        assert row["error_code"]
    kgroup(*words, "--execute", "--partial", exit_code=7)
    assert offsets(world, shop.other) == {(shop.topic, 1): 20}
    alone = kgroup("reset", shop.other, "--topic", missing, "--to-latest", exit_code=5)
    assert missing in alone.stderr
    assert shop.other in alone.stdout.partition("ERROR")[0].partition("PARTITION")[0]


# Usage: said before anything is touched


@pytest.fixture(scope="module")
def untouched(world: KafkaWorld) -> Shop:
    """A group for commands that have to be refused: made once, since none of them may change it."""
    tag = secrets.token_hex(3)
    topic, group = world.topic(f"orders-untouched-{tag}", partitions=3), f"svc-untouched-{tag}"
    world.commit(group, {(topic, partition): (0, METADATA, None) for partition in range(3)})
    return Shop(topic, group, f"{group}-other")


USAGE = {
    "two scenarios": ("{group} --all-topics --to-earliest --to-latest", "--to-earliest"),
    "two scenarios with values": ("{group} --all-topics --shift-by 1 --to-offset 3", "--shift-by"),
    "a file and a scenario": ("{group} --from-file {file} --to-latest", "--from-file"),
    "a group and a scenario": ("{group} --from-group {group} --to-latest", "--from-group"),
    "no scenario": ("{group} --all-topics", "--to-earliest"),
    "no scope": ("{group} --to-latest", "--topic"),
    "two scopes": ("{group} --to-latest --topic {topic} --all-topics", "--all-topics"),
    "no group": ("--all-topics --to-latest", "--regex"),
    "a negative offset": ("{group} --all-topics --to-offset -5", "--shift-by -5"),
    "a shift by no number": ("{group} --all-topics --shift-by many", "--shift-by"),
    "a duration without a unit": ("{group} --all-topics --by-duration 5", "--by-duration"),
    "a date that is none": ("{group} --all-topics --to-datetime yesterday", "--to-datetime"),
    "a time in the future": ("{group} --all-topics --to-datetime 2100-01-01T00:00:00.000Z", "--to-latest"),
    "execute and dry run": ("{group} --all-topics --to-latest --dry-run", "--dry-run"),
    "not-empty can't be passed": ("{group} --all-topics --to-latest --accept not-empty", "not-empty"),
    "no such refusal": ("{group} --all-topics --to-latest --accept everything", "everything"),
    "only something else": ("{group} --only ready", "--only"),
    "no such expectation": ("{group} --all-topics --to-latest --expect -1", "--expect"),
    "no such file": ("{group} --from-file {file}.not", "{file}.not"),
    "force": ("{group} --all-topics --to-latest --force", "--force"),
}


@pytest.mark.parametrize("case", USAGE)
def test_usage_errors(kgroup: CommandLine, world: KafkaWorld, untouched: Shop, tmp_path: Path, case: str) -> None:
    words, named = USAGE[case]
    file = tmp_path / "offsets.csv"
    file.write_text(f"{untouched.topic},0,9\n")
    given = {"group": untouched.group, "topic": untouched.topic, "file": str(file)}
    before = world.committed(untouched.group)
    wrong = kgroup("reset", *words.format(**given).split(), "--execute", "-o", "json", exit_code=2)
    assert (wrong.json["kind"], wrong.json["executed"], wrong.data) == ("kgroup.reset/v1", False, [])
    assert error_of(wrong, "usage")["message"]
    said = wrong.stderr
    assert named.format(**given) in said
    assert world.committed(untouched.group) == before
    assert not list((tmp_path / "state").glob("**/*.json*")), "nothing was journaled"


# A file of offsets


def test_files_of_offsets(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """What export and --backup write comes back, metadata and leader epochs too."""
    groups = (shop.group, shop.other)
    before = {group: world.exact(group) for group in groups}
    for form in ("json", "yaml", "csv"):
        file, backup = tmp_path / f"offsets.{form}", tmp_path / f"{form}.backup"
        file.write_text(kgroup("export", *groups, "-o", form).stdout)
        kgroup("reset", *groups, "--all-topics", "--to-earliest", "--execute", "--backup", str(backup))
        assert offsets(world, shop.other) == {(shop.topic, 1): 0}
        for kept in (file, backup):
            kgroup("reset", *groups, "--from-file", str(kept), "--execute")
            assert {group: world.exact(group) for group in groups} == before, (form, kept)
            kgroup("reset", shop.other, "--all-topics", "--to-offset", "1", "--execute")
        kgroup("reset", *groups, "--from-file", str(file), "--execute")


def test_a_file_of_one_group_is_the_named_groups(
    kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path
) -> None:
    file = tmp_path / "one.csv"
    file.write_text(f"{shop.topic},0,9\n{shop.topic},1,500\n\n")
    plan = kgroup("reset", shop.other, "--from-file", str(file), "-o", "json")
    assert targets(plan) == {(shop.other, shop.topic, 0): 9, (shop.other, shop.topic, 1): 20}
    assert plan.data[1]["clamped_reason"]
    kgroup("reset", shop.other, "--from-file", str(file), "--execute")
    assert offsets(world, shop.other) == {(shop.topic, 0): 9, (shop.topic, 1): 20}
    # A group that the command names and the file does not is not passed over in silence.
    file.write_text(f"{shop.other},{shop.topic},0,9\n")
    nothing = kgroup("reset", shop.group, "--from-file", str(file), exit_code=5)
    assert f"--from-file has no offsets of {shop.group} [not-found]" in nothing.stderr
    assert nothing.stdout.rstrip().endswith("Nothing was changed.")


def test_a_file_of_another_groups_topics_is_refused(
    kgroup: CommandLine, world: KafkaWorld, untouched: Shop, name: Name, tmp_path: Path
) -> None:
    topic, before = world.topic(name("stock")), world.committed(untouched.group)
    file = tmp_path / "stock.csv"
    file.write_text(f"{topic},0,0\n")
    words = ("reset", untouched.group, "--from-file", str(file))

    for more in ((), ("--execute",)):
        refused = kgroup(*words, *more, exit_code=6)
        assert "[other-topics]" in refused.stdout + refused.stderr
    assert world.committed(untouched.group) == before
    assert targets(kgroup(*words, "--accept", "other-topics", "-o", "json")) == {(untouched.group, topic, 0): 0}


def test_a_bad_line_is_named_and_nothing_is_applied(
    kgroup: CommandLine, world: KafkaWorld, untouched: Shop, tmp_path: Path
) -> None:
    """All that may be wrong with a line is in groups/test_offset_files.py."""
    file, before = tmp_path / "offsets.csv", world.committed(untouched.group)
    file.write_text(f"{untouched.topic},0,9\n{untouched.topic},one,9\n")
    for partial in ((), ("--partial",)):
        wrong = kgroup("reset", untouched.group, "--from-file", str(file), "--execute", *partial, exit_code=2)
        assert f"{file}:2: partition 'one' is not a whole number" in wrong.stderr
        assert wrong.stdout == ""
    assert world.committed(untouched.group) == before


# Offsets out of the log


@pytest.fixture
def broken(world: KafkaWorld, name: Name) -> Shop:
    """One commit 2 below the log start, one 15 above the end, one that is fine; the other group has one below."""
    topic, group = world.topic(name("orders"), partitions=4), name("svc")
    for partition in range(3):
        world.produce(topic, 20, partition)
    world.delete_records(topic, 0, 5)
    other = f"{group}-other"
    world.commit(group, {(topic, 0): (3, "old", None), (topic, 1): (10, "fine", 0), (topic, 2): 35, (topic, 3): 0})
    world.commit(other, {(topic, 0): 1, (topic, 1): 1})
    return Shop(topic, group, other)


def test_only_what_is_out_of_range(kgroup: CommandLine, world: KafkaWorld, broken: Shop) -> None:
    topic, before = broken.topic, world.exact(broken.group)
    plan = kgroup("reset", broken.group, "--only", "out-of-range", "-o", "json")
    assert targets(plan) == {(broken.group, topic, 0): 5, (broken.group, topic, 2): 0}
    assert [row["old_offset"] for row in plan.data] == [3, 35]
    shown = kgroup("reset", broken.group, "--only", "out-of-range").stdout
    assert "2 deleted" in shown
    assert "[5, 20)" in shown
    assert "[0, 20)" in shown
    assert "15 above the log end" in shown
    assert shown.count("readable") == 2
    assert f"{topic}:1" not in shown

    done = kgroup("reset", "--regex", f"{broken.group}.*", "--only", "out-of-range", "--execute", "-o", "json")
    assert targets(done) == {**targets(plan), (broken.other, topic, 0): 5}
    after = world.exact(broken.group)
    assert (after[topic, 0][0], after[topic, 2][0]) == (5, 0)
    assert {place: after[place] for place in ((topic, 1), (topic, 3))} == {
        place: before[place] for place in ((topic, 1), (topic, 3))
    }
    assert offsets(world, broken.other) == {(topic, 0): 5, (topic, 1): 1}
    again = kgroup("reset", broken.group, "--only", "out-of-range", "--execute")
    assert "nothing" in (again.stdout + again.stderr).lower()


def test_only_what_is_out_of_range_to_elsewhere(kgroup: CommandLine, broken: Shop) -> None:
    words = ("reset", broken.group, "--only", "out-of-range", "-o", "json")
    plan = kgroup(*words, "--to-latest")
    assert targets(plan) == {(broken.group, broken.topic, 0): 20, (broken.group, broken.topic, 2): 20}
    assert [(row["partition"], row["skipped_count"]) for row in plan.data] == [(0, 15), (2, 0)]
    narrow = kgroup(*words, "--topic", f"{broken.topic}:1,2")
    assert targets(narrow) == {(broken.group, broken.topic, 2): 0}


# What is unusual


def test_a_shift_says_how_to_repeat_it_safely(kgroup: CommandLine, world: KafkaWorld, shop: Shop) -> None:
    plan = kgroup("reset", shop.group, "--topic", f"{shop.topic}:0,1", "--shift-by", "1").stdout
    (line,) = [line for line in plan.splitlines() if "--to-offset" in line]
    words = shlex.split(line[line.index("kgroup ") :])[1:]
    assert "--execute" not in words, "a hint never carries it"
    assert words[-1] == f"{shop.topic}:0=8,{shop.topic}:1=11"
    for _ in range(2):
        kgroup(*words, "--execute")
        assert offsets(world, shop.group)[shop.topic, 1] == 11


# The records that are skipped


def test_a_plan_shows_bytes_that_are_no_text(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("payments"), partitions=2), name("pay")
    world.produce(topic, 3, value=b"\xff\x1b[31m")
    world.produce(topic, 3, partition=1)
    world.commit(group, {(topic, 0): 1, (topic, 1): 1})
    words = ("reset", group, "--topic", f"{topic}:0", "--shift-by", "1")

    shown = kgroup(*words, "--save-skipped", "pill.jsonl").stdout
    assert "SKIPPED RECORDS  (will be kept in pill.jsonl)" in shown
    assert r"\xff\x1b[31m" in shown
    assert "\x1b" not in shown
    assert f"--to-offset {topic}:0=2 --save-skipped pill.jsonl" in shown, "repeated, it keeps the record too"

    (row,) = kgroup(*words, "-o", "json").data
    (record,) = row["skipped_records"]
    assert (record["topic"], record["partition"], record["offset"]) == (topic, 0, 1)
    assert (record["value"], record["size_bytes"]) == ({"base64": "/xtbMzFt"}, 6)
    both = kgroup("reset", group, "--topic", topic, "--to-latest", "-o", "json").data
    assert [[each["offset"] for each in row["skipped_records"]] for row in both] == [[1, 2], [1, 2]]
    assert kgroup("reset", group, "--topic", topic, "--to-earliest", "-o", "json").data[0]["skipped_records"] == []


@pytest.mark.programs("bash", "true")
def test_skipped_records_are_written_to_stdout(
    kgroup: CommandLine, bootstrap: str, world: KafkaWorld, shop: Shop
) -> None:
    words = ("reset", shop.group, "--topic", f"{shop.topic}:1", "--to-offset", "12", "--save-skipped", "-")
    plan = kgroup(*words).stdout
    assert "SKIPPED RECORDS  (will be written to stdout)" in plan
    assert "mutually exclusive" in kgroup(*words, "--backup", "-", exit_code=2).stderr

    process = [sys.executable, "-m", "kgroup", *words, "--execute"]
    gone = subprocess.run(
        ["bash", "-c", f"{shlex.join(process)} | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert gone.stdout == "1\n"
    assert "/dev/stdout could not be written" in gone.stderr
    assert offsets(world, shop.group)[shop.topic, 1] == 10, "nothing moves where the records were not kept"

    done = kgroup.process(*words, "--execute")
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [10, 11]
    assert "2 records written to stdout." in done.stderr
    assert "To undo it" in done.stderr
    assert offsets(world, shop.group)[shop.topic, 1] == 12


def test_skipped_records_are_kept_in_a_file(kgroup: CommandLine, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    pill, taken = tmp_path / "pill.ndjson", tmp_path / "taken"
    taken.write_text("mine")
    words = ("reset", shop.group, "--topic", f"{shop.topic}:0,1", "--to-offset", "12")
    kgroup(*words, "--save-skipped", str(pill))
    assert not pill.exists(), "a dry run writes nothing"
    for place in (taken, tmp_path / "no" / "such"):
        for execute in ((), ("--execute",)):
            kgroup(*words, "--save-skipped", str(place), *execute, exit_code=2)
    assert taken.read_text() == "mine"
    assert offsets(world, shop.group)[shop.topic, 1] == 10

    done = kgroup(*words, "--save-skipped", str(pill), "--execute")
    assert "7 records" in done.stdout
    assert pill.name in done.stdout
    kept = [json.loads(line) for line in pill.read_text().splitlines()]
    # Partitions are read side by side: only the offsets of each have an order.
    assert sorted((record["topic"], record["partition"], record["offset"]) for record in kept) == [
        (shop.topic, partition, offset) for partition, start in ((0, 7), (1, 10)) for offset in range(start, 12)
    ]
    assert {record["value"] for record in kept} == {"x"}
    assert offsets(world, shop.group)[shop.topic, 0] == 12
    assert [path.name for path in tmp_path.glob("pill*")] == ["pill.ndjson"]


def test_skipped_records_are_kept_in_a_topic(kgroup: CommandLine, world: KafkaWorld, shop: Shop, name: Name) -> None:
    kept, missing, small = world.topic(name("kept")), name("missing"), name("small")
    words = ("reset", shop.group, "--topic", f"{shop.topic}:1", "--shift-by", "2")
    for execute in ((), ("--execute",)):
        kgroup(*words, "--save-skipped", f"topic:{missing}", *execute, exit_code=5)
    unknown = kgroup("reset", name("no"), *words[2:], "--save-skipped", f"topic:{missing}", exit_code=5).stderr
    assert "[not-found]" in unknown, "the group is read first, by the client that explains a refused login"
    assert offsets(world, shop.group)[shop.topic, 1] == 10

    # The second skipped record does not fit: saving fails, so nothing moves.
    world.topic(small, config={"max.message.bytes": "300"})
    world.produce(shop.topic, 1, 2, value=b"y" * 4000)
    refused = kgroup(
        "reset", shop.group, "--topic", f"{shop.topic}:1,2", "--to-latest",
        "--save-skipped", f"topic:{small}", "--execute", "-o", "json", exit_code=6,
    )  # fmt: skip
    assert refused.json["executed"] is False
    assert offsets(world, shop.group) == {(shop.topic, 0): 7, (shop.topic, 1): 10, (shop.topic, 2): 20}

    kgroup(*words, "--save-skipped", f"topic:{kept}", "--execute")
    assert [value for _, value in world.records(kept)] == [b"x", b"x"]
    assert offsets(world, shop.group)[shop.topic, 1] == 12
    kgroup(*words, "--save-skipped", f"topic:{kept}")
    assert len(world.records(kept)) == 2


def test_nothing_moves_where_the_skipped_records_are_gone(
    kgroup: CommandLine, world: KafkaWorld, broken: Shop, tmp_path: Path
) -> None:
    """Below the log start there is nothing left to keep; what is readable is kept."""
    pill = tmp_path / "pill.ndjson"
    kgroup(
        "reset", broken.group, "--topic", f"{broken.topic}:0", "--to-offset", "8",
        "--save-skipped", str(pill), "--execute",
    )  # fmt: skip
    assert [json.loads(line)["offset"] for line in pill.read_text().splitlines()] == [5, 6, 7]
    assert offsets(world, broken.group)[broken.topic, 0] == 8


# Contexts that refuse
