"""One real broker: up, status, kill, restart, down, the command line, the demo."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kgroup.cluster import demo_clients
from kgroup.sandbox import ProcessState, Sandbox, launch, ports
from kgroup.settings.paths import cache_dir
from kgroup.support.errors import Refused, SandboxError
from kgroup.support.json_line import plain
from tests.helpers.kafka_tools import CONSUMER_GROUPS, run_tool
from tests.helpers.sandbox_reporters import Recorder
from tests.helpers.waiting import wait_for

LONG_S = 60


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A broker of the module, for tests that leave it running."""
    made = Sandbox(tmp_path_factory.mktemp("running") / "sandbox")
    try:
        made.up(reporter=Recorder())
        yield made
    finally:
        made.down(wipe=True, reporter=Recorder())


def test_up_answers_and_is_idempotent(running: Sandbox, reporter: Recorder) -> None:
    before = running.status()
    assert before.state is ProcessState.RUNNING
    assert running.up(reporter=reporter) == before
    assert running.up(brokers=1, port=before.brokers[0].port, reporter=reporter) == before
    assert launch.answers("127.0.0.1", before.brokers[0].port)
    assert reporter.said == []


def test_status_tells_all_that_scripts_need(running: Sandbox) -> None:
    document = plain(running.status())
    (broker,) = document["brokers"]
    assert document["state"] == "running"
    assert document["version"] == "4.4.0"
    assert document["directory"] == str(running.directory)
    assert document["cache_directory"] == str(cache_dir() / "sandbox")
    assert document["bootstrap_servers"] == f"127.0.0.1:{broker['port']}"
    assert (broker["id"], broker["role"], broker["host"]) == (1, "broker,controller", "127.0.0.1")
    os.kill(broker["pid"], 0)
    assert Path(broker["log_file"]).stat().st_size


@pytest.mark.parametrize(
    ("request_for", "told"),
    [({"brokers": 3}, "has 1 broker, not 3"), ({"properties": {"num.partitions": "3"}}, "other broker settings")],
)
def test_what_runs_is_not_changed(running: Sandbox, reporter: Recorder, request_for: dict[str, Any], told: str) -> None:
    before = running.status()
    with pytest.raises(Refused, match=told) as raised:
        running.up(reporter=reporter, **request_for)
    assert raised.value.code == "sandbox-differs"
    assert "kgroup sandbox down" in (raised.value.hint or "")
    assert running.status() == before


@pytest.mark.soak
def test_killed_broker_comes_back_with_its_data(sandbox: Sandbox, reporter: Recorder) -> None:
    first = sandbox.up(reporter=reporter)
    assert first.bootstrap_servers is not None
    demo_clients.create_topic(first.bootstrap_servers, "kept")
    demo_clients.produce(first.bootstrap_servers, "kept", range(10))
    sandbox.kill(1)
    died = sandbox.status()
    assert (died.state, died.bootstrap_servers, died.brokers[0].pid) == (ProcessState.DIED, None, None)
    again = sandbox.up(reporter=reporter)
    assert again.bootstrap_servers == first.bootstrap_servers
    assert again.cluster_id == first.cluster_id
    assert "kept" in demo_clients.topics(first.bootstrap_servers)


@pytest.mark.soak
def test_down_stops_its_own_and_nothing_else(running: Sandbox, sandbox: Sandbox, reporter: Recorder) -> None:
    other = running.status()
    started = sandbox.up(reporter=reporter)
    assert sandbox.down(reporter=reporter)
    assert sandbox.status().state is ProcessState.STOPPED
    assert not launch.answers("127.0.0.1", started.brokers[0].port)
    assert running.status() == other
    assert not sandbox.down(reporter=reporter)
    assert sandbox.down(wipe=True, reporter=reporter)
    assert sandbox.status().state is ProcessState.ABSENT
    assert not sandbox.down(wipe=True, reporter=reporter)
    assert not Sandbox(sandbox.directory / "none").down(reporter=reporter)


@pytest.mark.soak
def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(sandbox: Sandbox, reporter: Recorder) -> None:
    with pytest.raises(SandboxError, match="broker 1 ended while it started") as raised:
        sandbox.up(properties={"num.partitions": "many"}, reporter=reporter)
    assert any("Invalid value many for configuration num.partitions" in line for line in raised.value.details)
    assert sandbox.status().state is ProcessState.ABSENT
    assert sandbox.up(reporter=reporter).state is ProcessState.RUNNING


@pytest.mark.soak
def test_port(sandbox: Sandbox, reporter: Recorder) -> None:
    (port,) = ports.choose(1)  # one that no client is given before the broker takes it
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        with pytest.raises(Refused, match=f"port {port} of 127.0.0.1 is taken") as raised:
            sandbox.up(port=port, reporter=reporter)
        assert raised.value.code == "port-taken"
    assert sandbox.up(port=port, reporter=reporter).bootstrap_servers == f"127.0.0.1:{port}"


@pytest.mark.soak
def test_a_port_that_is_lost_meanwhile_is_replaced(
    sandbox: Sandbox, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        blocks = iter([(taken, taken + 1)])
        choose = ready_made(blocks)
        monkeypatch.setattr("kgroup.sandbox.ports.choose", choose)
        status = sandbox.up(reporter=reporter)
    assert status.state is ProcessState.RUNNING
    assert status.brokers[0].port != taken


def ready_made(blocks: Iterator[tuple[int, ...]]) -> Any:
    """``ports.choose`` that gives these first."""
    from kgroup.sandbox.ports import choose

    def chosen(count: int, **options: Any) -> tuple[int, ...]:
        return next(blocks, None) or choose(count, **options)

    return chosen


@pytest.mark.soak
def test_two_ups_at_once_make_one_sandbox(sandbox: Sandbox) -> None:
    directory = sandbox.directory.parent
    runs = [_start_kgroup(directory, "sandbox", "up", "-o", "json") for _ in range(2)]
    answers = [json.loads(run.communicate(timeout=LONG_S)[0])["data"][0] for run in runs]
    assert answers[0]["bootstrap_servers"] == answers[1]["bootstrap_servers"]
    assert answers[0]["brokers"] == answers[1]["brokers"]


def test_interrupted_up_leaves_nothing_running(sandbox: Sandbox) -> None:
    """As soon as a broker's process is there."""
    run = _start_kgroup(sandbox.directory.parent, "sandbox", "up")
    wait_for((sandbox.directory / "node-1" / "pid").exists, "a broker's process")
    assert run.poll() is None
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=LONG_S)
    assert run.returncode == 130
    assert sandbox.status().state is ProcessState.ABSENT


def test_up_killed_hard_leaves_what_down_can_stop(sandbox: Sandbox, reporter: Recorder) -> None:
    run = _start_kgroup(sandbox.directory.parent, "sandbox", "up")
    wait_for((sandbox.directory / "node-1" / "pid").exists, "a broker's process")
    assert run.poll() is None
    run.kill()
    run.communicate(timeout=LONG_S)
    assert sandbox.down(reporter=reporter)
    assert sandbox.status().brokers[0].pid is None


@pytest.mark.soak
def test_demo_twice(sandbox: Sandbox) -> None:
    for group in ("demo-order-service", "demo-order-service-2"):
        run = _start_kgroup(sandbox.directory.parent, "sandbox", "demo", "--crash-only")
        _, said = run.communicate(timeout=LONG_S)
        assert run.returncode == 0, said
        assert f"{group} committed 70 and has processed 100" in said
    address = sandbox.status().bootstrap_servers
    assert address is not None
    shown = run_tool(CONSUMER_GROUPS, ["--bootstrap-server", address, "--describe", "--group", group])
    row = shown.stdout.split("LAST-" if "LAST-" in shown.stdout else "CLIENT-ID")[-1].split()
    assert row[:6] == [group, "demo-orders-2", "0", "70", "120", "50"], shown


def _start_kgroup(
    directory: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """The real entry point, whose sandbox is ``directory / "sandbox"``."""
    return subprocess.Popen(
        [sys.executable, "-m", "kgroup", *arguments],
        env={**os.environ, "KGROUP_STATE_DIR": str(directory), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
