"""``describe --watch`` and ``lag --watch`` of real groups, in a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.sandbox import Sandbox
from tests.conftest import MORTAL
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.terminals import NORMAL, Terminal
from tests.helpers.waiting import read_line, wait_for

Name = Callable[[str], str]


def row_of(page: list[str], place: str) -> list[str]:
    """The cells of a partition's row; [] where it has none."""
    return next((line.split() for line in page if line.startswith(place + " ")), [])


def test_a_watch_from_the_first_page_to_q(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    """A commit is shown, p holds the page and lets it go, a smaller window is filled, q leaves all as it was."""
    topic, group = world.topic(f"t{name('')[-6:]}", partitions=6), f"g{name('')[-6:]}"
    for number in range(6):
        world.produce(topic, 50, partition=number)
    world.commit(group, {(topic, number): 10 + number for number in range(6)})
    first = f"{topic}:0"

    with Terminal.kgroup("describe", group, "--watch", "--every", "500ms") as terminal:
        page = terminal.says("q quits")
        assert page[0].startswith(f"{group}  Empty  classic")
        assert len(page) == 24
        assert max(map(len, page)) <= 80
        assert row_of(page, first)[1] == "10"

        world.commit(group, {(topic, 0): 31})
        terminal.shows(lambda page: row_of(page, first)[1:2] == ["31"], "the commit")

        terminal.type("p")
        terminal.says("PAUSED")
        world.commit(group, {(topic, 0): 44})
        page = terminal.says("s ago")
        assert row_of(page, first)[1] == "31"
        terminal.type("p")
        terminal.shows(lambda page: row_of(page, first)[1:2] == ["44"], "it goes on")

        terminal.resize(60, 9)
        page = terminal.shows(lambda page: len(page) == 9 and "more lines" in page[-2], "cut to the window")
        assert max(map(len, page)) <= 60
        terminal.resize(120, 40)
        page = terminal.shows(lambda page: len(page) == 40 and row_of(page, f"{topic}:5"), "all of it")
        assert page[0].endswith("Z")
        assert len(page[0]) == 120

        terminal.type("q")
        assert terminal.ends(0) == ""


@pytest.mark.soak
def test_lag_has_a_sparkline_for_each_partition(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(f"t{name('')[-6:]}", partitions=2), f"g{name('')[-6:]}"
    world.produce(topic, 50)
    world.commit(group, {(topic, 0): 0, (topic, 1): 0})

    with Terminal.kgroup("lag", group, "-w", "--every", "500ms", columns=160) as terminal:
        terminal.says("LAG-HISTORY")
        world.commit(group, {(topic, 0): 30})
        page = terminal.shows(
            lambda page: any(re.search("[▂▃▄▅▆▇█]▁", " ".join(row_of(page, f"{topic}:0"))) for _ in page), "a fall"
        )
        assert "▁▁" in " ".join(row_of(page, f"{topic}:1")), "nothing moved"
        terminal.type("q")
        terminal.ends(0)


def test_a_group_that_vanishes_and_comes_back(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(f"t{name('')[-6:]}"), f"g{name('')[-6:]}"
    world.commit(group, {(topic, 0): 1})

    with Terminal.kgroup("describe", group, "--watch", "--every", "500ms") as terminal:
        terminal.says("q quits")
        world.delete_group(group)
        page = terminal.says("FAILED for")
        assert any(f'no group "{group}"' in line for line in page)
        assert any(line.startswith(f"{group}  Empty") for line in page), "the last page stays"
        world.commit(group, {(topic, 0): 7})
        terminal.shows(lambda page: "FAILED" not in page[0] and row_of(page, f"{topic}:0")[1:2] == ["7"], "it is back")
        terminal.type("\x03")
        terminal.ends(130)


@pytest.mark.parametrize("verb", ["describe", "lag"])
def test_lines_of_json(kgroup: CommandLine, world: KafkaWorld, name: Name, verb: str) -> None:
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 1})
    single = kgroup(verb, group, "-o", "json")

    with kgroup.start(verb, group, "--watch", "--every", "500ms") as process:
        first = json.loads(read_line(process.stdout))
        world.commit(group, {(topic, 0): 3})

        def grown() -> bool:
            document = json.loads(read_line(process.stdout))
            data = document["data"][0]
            return bool((data["totals"] if verb == "describe" else data)["lag"] == 2)

        wait_for(grown, "the commit in a line")
        assert process.stdout
        process.stdout.close()
        assert process.wait(30) == 0, "who reads no more ends it"
        assert process.stderr
        assert "Traceback" not in process.stderr.read()

    assert first["kind"] == single.json["kind"] == f"kgroup.{verb}/v1"
    assert first.keys() - single.json.keys() == {"at"}
    assert first["data"][0].keys() == single.data[0].keys()


@pytest.mark.soak
def test_an_unknown_group_is_the_end(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    group = name("svc")
    world.commit(group, {(world.topic(name("orders")), 0): 1})
    with Terminal.kgroup("describe", group + "x", "--watch", columns=200) as terminal:
        assert f"no group {json.dumps(group + 'x')}" in terminal.ends(5)
        assert NORMAL not in terminal.raw
    result = kgroup.process("describe", group + "x", "--watch", exit_code=5)
    assert [error["code"] for error in result.json["errors"]] == ["not-found"]
    assert result.stdout.count("\n") == 1


@pytest.mark.parametrize("said", [(), ("-o", "json")])
@pytest.mark.parametrize("verb", ["describe", "lag"])
def test_where_no_broker_answers_one_line_says_so(kgroup: CommandLine, verb: str, said: tuple[str, ...]) -> None:
    where = ("--bootstrap-server", "127.0.0.1:1", "--timeout", "8s")
    result = kgroup(verb, "svc", "--watch", *said, *where, exit_code=3)
    (line,) = result.stdout.splitlines()
    assert [error["message"] for error in json.loads(line)["errors"]] == ["127.0.0.1:1 refused the connection"]
    assert result.stderr.startswith("kgroup: 127.0.0.1:1 refused the connection")


@pytest.mark.soak
def test_the_broker_is_killed_and_comes_back(tmp_path: Path, name: Name, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(tmp_path / "broker")
    try:
        status = sandbox.up(properties=MORTAL, reporter=QuietReporter())
        assert status.bootstrap_servers
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", status.bootstrap_servers)
        with KafkaWorld(status.bootstrap_servers) as world:
            world.commit("svc", {(world.topic("orders"), 0): 1})
        with Terminal.kgroup("describe", "svc", "--watch", "--every", "500ms", "--timeout", "2s") as terminal:
            terminal.says("q quits")
            for broker in status.brokers:
                assert broker.pid
                os.kill(broker.pid, signal.SIGKILL)
            page = terminal.says("FAILED for")
            assert any("[unreachable]" in line or "[timed-out]" in line for line in page)
            sandbox.up(properties=MORTAL, reporter=QuietReporter())
            terminal.shows(lambda page: page[0].startswith("svc  Empty"), "it heals by itself")
            terminal.type("q")
            terminal.ends(0)
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())
