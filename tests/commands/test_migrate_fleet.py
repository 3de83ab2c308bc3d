"""``kgroup migrate`` on a fleet: a summary, a row a group, ``--only ready``; on a broker that holds nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kgroup.sandbox import Sandbox
from tests.conftest import BROKER_PROPERTIES
from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.conversion import to_classic, to_consumer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members

Name = Callable[[str], str]
TOPIC = "orders"
GEO = "geo-router-with-a-name-that-is-longer-than-any-table-has-room-for-in-eighty-columns"
FLEET = {
    "connect-s3-archive": ("blocked", None),
    GEO: ("blocked", None),
    "ledger-writer": ("warning", "now"),
    "nightly-report": ("warning", "now"),
    "search-static": ("warning", "rolling"),
    "data-stop": ("ready", "stop"),
    "orders-live": ("ready", "rolling"),
    "idle-a": ("ready", "now"),
    "idle-b": ("ready", "now"),
    "new-empty": ("done", None),
    "new-live": ("done", None),
}
"""Verdict and way of each; nightly-report has no commits, so the broker is about to remove it."""

READY_NOW = ("idle-a", "idle-b")
STANDING = {name: state for name, state in FLEET.items() if name not in READY_NOW}
"""What no test of this module may change."""

ALL = ("migrate", "--all-groups")


@dataclass(frozen=True)
class Fleet:
    """The broker with these groups."""

    world: KafkaWorld
    silent: tuple[by_hand.ClassicMember, ...] = ()
    """Members that heartbeat only when they are told to."""

    def __call__(self, *arguments: str, exit_code: int = 0) -> Result:
        return CommandLine()(*arguments, "-b", self.world.bootstrap, exit_code=exit_code)

    def rows(self, *arguments: str, exit_code: int = 0) -> dict[str, dict[str, Any]]:
        """The rows by group, in their order."""
        return {row["group"]: row for row in self(*arguments, "-o", "json", exit_code=exit_code).data}

    def types(self) -> dict[str, str]:
        """Of every group."""
        return {group: kind for group, (kind, _) in self.world.groups().items()}


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The groups of FLEET; raw members stay for a minute, and each test lets them stay for another."""
    sandbox = Sandbox(tmp_path_factory.mktemp("fleet"))
    try:
        status = sandbox.up(properties=BROKER_PROPERTIES, reporter=QuietReporter())
        assert status.bootstrap_servers
        with KafkaWorld(status.bootstrap_servers) as world, Members(status.bootstrap_servers) as members:
            world.topic(TOPIC, partitions=2)
            live, new = members.classic("orders-live", TOPIC), members.consumer("new-live", TOPIC)
            both = {TOPIC: [0, 1]}
            for group in ("connect-s3-archive", "ledger-writer", "idle-a", "idle-b", "new-empty"):
                world.commit(group, {(TOPIC, 0): (3, "mine", 0), (TOPIC, 1): 4})
            by_hand.join(world, GEO, both, assignors=["com.acme.Geo"]).leave()
            by_hand.join(world, "ledger-writer", both, session_ms=500).leave()
            static = by_hand.join(world, "search-static", both, instance="search-0", session_ms=60_000)
            stopping = by_hand.join(world, "data-stop", both, assignment_data=b"\1", session_ms=60_000)
            for group in ("search-static", "data-stop"):
                world.configure_group(group, consumer_session_timeout_ms="60000")
            by_hand.join(world, "nightly-report", both).leave()
            to_consumer(world, "new-empty")
            members.stable(live, partitions=2)
            members.stable(new, partitions=2)
            yield Fleet(world, (static, stopping))
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


@pytest.fixture
def fleet(settled: Fleet) -> Iterator[Fleet]:
    """As it was before each test, and as it has to be after it, but for the READY ones, which are turned back."""
    for member in settled.silent:
        member.heartbeat()
    groups = settled.world.groups()
    before = {group: (groups[group], settled.world.exact(group)) for group in FLEET}
    yield settled
    groups = settled.world.groups()
    assert {group: (groups[group], settled.world.exact(group)) for group in STANDING} == {
        group: before[group] for group in STANDING
    }
    for group in READY_NOW:
        assert settled.world.exact(group) == before[group][1]
        if groups[group][0] == "consumer":
            to_classic(settled.world, group)


# The plan


def test_every_group_in_order(fleet: Fleet) -> None:
    """Worst first, what has to stop before what can move now, then by name; 6, since some are blocked or live."""
    rows = fleet.rows(*ALL, exit_code=6)
    assert {group: (row["readiness"], row["how"]) for group, row in rows.items()} == FLEET
    verdicts, ways = ["blocked", "warning", "ready", "done"], [None, "stop", "rolling", "now"]
    order = [(verdicts.index(row["readiness"]), ways.index(row["how"]), group) for group, row in rows.items()]
    assert order == sorted(order)
    assert list(rows) == list(fleet.rows(*ALL, exit_code=6)), "stable"
    assert (rows["idle-a"]["member_count"], rows["idle-a"]["topic_count"], rows["idle-a"]["commit_count"]) == (0, 1, 2)
    assert (rows["orders-live"]["member_count"], rows["orders-live"]["topic_count"]) == (1, 1)
    assert rows["nightly-report"]["commit_count"] == 0
    assert "Kafka Connect" in rows["connect-s3-archive"]["reason"]
    assert "com.acme.Geo" in rows[GEO]["reason"]
    assert "session timeout" in rows["ledger-writer"]["reason"]
    assert "static" in rows["search-static"]["reason"]
    assert not any(row["converted"] for row in rows.values())


def test_summary_and_rows_on_the_screen(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes into the status mail first: how many of each verdict and way, and why."""
    monkeypatch.setenv("COLUMNS", "160")
    screen = fleet(*ALL, exit_code=6).stdout
    assert screen.startswith(f"PLAN  migrate {len(FLEET)} groups to the consumer protocol")
    summary, _, table = screen.partition("\nGROUP ")
    counted: dict[tuple[str, str], int] = {}
    for line in summary.splitlines()[2:]:
        if line:
            verdict, how, number, *reason = line.split()
            counted[verdict.lower(), how] = counted.get((verdict.lower(), how), 0) + int(number)
            assert reason, line
    expected: dict[tuple[str, str], int] = {}
    for verdict, way in FLEET.values():
        expected[verdict, way or "-"] = expected.get((verdict, way or "-"), 0) + 1
    assert counted == expected
    assert summary.splitlines()[1].split()[:3] == ["READINESS", "HOW", "GROUPS"]
    positions = [table.index(group) for group in ("connect-s3-archive", "ledger-writer", "orders-live")]
    assert positions == sorted(positions)
    assert "--only ready" in screen.split("Nothing was changed")[1]
    assert "Java 4.0" in screen.replace("java", "Java"), "client versions can't be read from outside"


def test_way_back(fleet: Fleet) -> None:
    rows = fleet.rows(*ALL, "--protocol", "classic", exit_code=6)
    assert (rows["new-empty"]["readiness"], rows["new-empty"]["how"]) == ("ready", "now")
    assert (rows["new-live"]["readiness"], rows["new-live"]["how"]) == ("ready", "rolling")
    assert {rows[group]["readiness"] for group in ("idle-a", "orders-live", GEO)} == {"done"}
    assert "DONE" in fleet("migrate", "new-empty", "new-live", "--execute").stdout


def test_verbose_shows_every_check_with_its_source(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    checks = fleet.rows("migrate", "ledger-writer")["ledger-writer"]["checks"]
    assert len(checks) > 10
    screen = fleet("migrate", "ledger-writer", "--verbose").stdout
    flat = " ".join(screen.split())
    for check in checks:
        assert check["id"] in screen
        assert " ".join(check["source"].split()) in flat, check
        assert " ".join(check["evidence"].split()) in flat, check
    everything = fleet(*ALL, "--verbose", exit_code=6).stdout
    for group in FLEET:
        assert group in everything


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("verbose", [(), ("--verbose",)], ids=["short", "verbose"])
def test_nothing_wider_than_the_terminal(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, columns: int, verbose: tuple[str, ...]
) -> None:
    """But for command lines, which are there to be copied, and a name that is wider by itself."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments, exit_code in (
        (ALL, 6),
        (("migrate", "ledger-writer"), 0),
        (("migrate", "orders-live"), 0),
        (("migrate", "new-empty"), 0),
        (("migrate", "new-live", "--protocol", "classic"), 0),
        (("migrate", GEO), 6),
    ):
        result = fleet(*arguments, *verbose, exit_code=exit_code)
        if arguments is ALL:
            assert all(group in result.stdout for group in FLEET if group != GEO), "not cut apart"
        for line in result.stdout.splitlines():
            if line.strip().startswith("kgroup ") or line.strip().startswith("--") or GEO in line:
                continue
            assert len(line) <= columns, f"{arguments}: {len(line)}: {line}"


# The forms


# Executing


def test_nothing_is_applied_while_one_row_cannot(fleet: Fleet, name: Name) -> None:
    """Not even the idle ones are converted; of several reasons the one decides that waiting cannot mend."""
    for others, code in (((GEO,), 6), (("connect-s3-archive",), 6), (("orders-live",), 9), (("orders-live", GEO), 6)):
        result = fleet("migrate", "idle-a", "idle-b", *others, "--execute", "-o", "json", exit_code=code)
        assert result.json["executed"] is False
        assert not any(row["converted"] for row in result.data)
        assert result.json["errors"]
        assert fleet.types()["idle-a"] == fleet.types()["idle-b"] == "classic"
    fleet(*ALL, "--execute", exit_code=6)
    assert fleet.types()["nightly-report"] == "classic"


def test_only_ready(fleet: Fleet) -> None:
    """0; those that are READY and Empty go over, all others stay."""
    plan = fleet(*ALL, "--only", "ready")
    assert "Nothing was changed." in plan.stdout
    assert fleet.types()["idle-a"] == "classic"
    rows = fleet.rows(*ALL, "--only", "ready", "--execute")
    assert {group for group, row in rows.items() if row["converted"]} == set(READY_NOW)
    types = fleet.types()
    assert {types[group] for group in READY_NOW} == {"consumer"}
    assert {types[group] for group in ("ledger-writer", "orders-live", "data-stop", GEO)} == {"classic"}
    again = fleet(*ALL, "--only", "ready", "--execute", "-o", "json")
    assert again.json["executed"] is False, "nothing was left to do"
    assert not any(row["converted"] for row in again.data)


def test_only_something_else(fleet: Fleet) -> None:
    assert "--only blocked: unknown [usage]" in fleet(*ALL, "--only", "blocked", exit_code=2).stderr


def test_partial(fleet: Fleet) -> None:
    """What can be done is done, the rest is named, 7."""
    result = fleet(
        "migrate", "idle-a", GEO, "idle-b", "orders-live", "--partial", "--execute", "-o", "json", exit_code=7
    )
    rows = {row["group"]: row for row in result.data}
    assert {group for group, row in rows.items() if row["converted"]} == {"idle-a", "idle-b"}
    assert rows[GEO]["error_code"] == "blocked"
    assert rows["orders-live"]["error_code"] == "not-empty"
    assert {error["group"]: error["code"] for error in result.json["errors"]} == {
        GEO: "blocked",
        "orders-live": "not-empty",
    }
    assert fleet.types()["idle-a"] == fleet.types()["idle-b"] == "consumer"


def test_warnings_are_no_refusal(settled: Fleet) -> None:
    """A WARNING group that is named goes over; it is on a group of its own, for the fleet stays."""
    world = settled.world
    world.commit("warned", {(TOPIC, 0): 1})
    by_hand.join(world, "warned", {TOPIC: [0]}, session_ms=500).leave()
    try:
        row = settled.rows("migrate", "warned", "--execute")["warned"]
        assert (row["readiness"], row["converted"], row["read_back_count"]) == ("warning", True, 1)
        assert world.groups()["warned"] == ("consumer", "empty")
    finally:
        world.delete_group("warned")
