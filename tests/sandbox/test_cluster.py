"""Three brokers and a controller: one after the other may die."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.cluster.raw_connection import connected
from kgroup.sandbox import ProcessState, Sandbox
from kgroup.sandbox.layout import CONTROLLER_ID
from tests.helpers.sandbox_reporters import Recorder

pytestmark = pytest.mark.soak


def test_all_serve_groups(three_brokers: Sandbox) -> None:
    status = three_brokers.status()
    assert [(broker.id, broker.role) for broker in status.brokers] == [
        (CONTROLLER_ID, "controller"),
        *((number, "broker") for number in (1, 2, 3)),
    ]
    assert status.bootstrap_servers == ",".join(f"127.0.0.1:{broker.port}" for broker in status.brokers[1:])
    with connected("127.0.0.1", status.brokers[1].port) as connection:
        assert sorted(connection.brokers()) == [1, 2, 3]
        asked = [connection.coordinator(f"kgroup-probe-{number}") for number in range(16)]
    assert {coordinator.node_id for _, coordinator in asked} == {1, 2, 3}


def test_kill_and_restart_one(three_brokers: Sandbox, reporter: Recorder) -> None:
    before = three_brokers.status()
    three_brokers.kill(2)
    degraded = three_brokers.status()
    assert degraded.state is ProcessState.DEGRADED
    assert [broker.id for broker in degraded.brokers if broker.pid is None] == [2]
    three_brokers.restart(2, reporter=reporter)
    after = three_brokers.status()
    assert after.state is ProcessState.RUNNING
    assert after.bootstrap_servers == before.bootstrap_servers
    voters = [line for line in _settings(three_brokers, 2).splitlines() if line.startswith("controller.quorum.voters")]
    assert voters == [f"controller.quorum.voters=100@127.0.0.1:{before.brokers[0].port}"]


def test_up_starts_what_is_gone(three_brokers: Sandbox, reporter: Recorder) -> None:
    three_brokers.kill(1)
    three_brokers.stop(3)
    before = {broker.id: broker.pid for broker in three_brokers.status().brokers}
    after = three_brokers.up(reporter=reporter)
    assert after.state is ProcessState.RUNNING
    assert {broker.id: broker.pid for broker in after.brokers if broker.id in (2, CONTROLLER_ID)} == {
        number: before[number] for number in (2, CONTROLLER_ID)
    }


def _settings(sandbox: Sandbox, number: int) -> str:
    return Path(sandbox.directory, f"node-{number}", "server.properties").read_text()
