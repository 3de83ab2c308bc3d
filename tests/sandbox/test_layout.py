"""Broker settings and the state file, as values."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.model.sandbox_status import ProcessRole, ProcessState, overall_state
from kgroup.sandbox.broker import random_id
from kgroup.sandbox.layout import (
    Layout,
    Node,
    broker_properties,
    listener_names,
    properties_text,
    read_layout,
    roles,
    write_layout,
)
from kgroup.sandbox.request import SandboxRequest
from kgroup.support.errors import Refused, SandboxError

DATA = Path("/data")


def layout(brokers: int, **fields: dict[str, str]) -> Layout:
    """With ports counted up from 20000."""
    port = iter(range(20_000, 21_000))
    extra = fields.get("listeners", {})
    nodes = tuple(
        Node(number, role, {name: next(port) for name in listener_names(role, extra)})
        for number, role in roles(brokers).items()
    )
    return Layout("cluster", nodes, **fields)  # type: ignore[arg-type]


def test_one_broker_is_its_own_controller() -> None:
    one = layout(1)
    found = broker_properties(one, one.nodes[0], DATA)
    assert found["process.roles"] == "broker,controller"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:20001"
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:20000,CONTROLLER://127.0.0.1:20001"
    assert found["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20000"
    assert found["offsets.topic.replication.factor"] == "1"


def test_three_brokers_have_a_controller_beside_them() -> None:
    three = layout(3)
    assert [node.role for node in three.nodes] == [
        ProcessRole.CONTROLLER,
        ProcessRole.BROKER,
        ProcessRole.BROKER,
        ProcessRole.BROKER,
    ]
    controller, first = (broker_properties(three, node, DATA) for node in three.nodes[:2])
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:20000"
    assert "advertised.listeners" not in controller
    assert first["controller.quorum.voters"] == "100@127.0.0.1:20000"
    assert first["offsets.topic.replication.factor"] == "3"
    assert first["transaction.state.log.min.isr"] == "2"
    assert three.addresses() == "127.0.0.1:20001,127.0.0.1:20002,127.0.0.1:20003"


def test_callers_settings_win_and_listeners_are_added() -> None:
    made = layout(1, listeners={"SCRAM": "SASL_SSL"}, properties={"broker.session.timeout.ms": "9000"})
    found = broker_properties(made, made.nodes[0], DATA)
    assert found["broker.session.timeout.ms"] == "9000"
    assert found["listener.security.protocol.map"] == "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SCRAM:SASL_SSL"
    assert "SCRAM://127.0.0.1:20001" in found["advertised.listeners"]


def test_properties_survive_java() -> None:
    # Properties.load reads latin-1 and takes backslashes for escapes.
    assert properties_text({"a": "C:\\x", "b": "ü\n🙂", "c": " x"}) == (
        "a=C:\\\\x\nb=\\u00fc\\n\\ud83d\\ude42\nc=\\ x\n"
    )


def test_state_file_gives_back_what_it_was_given(tmp_path: Path) -> None:
    made = layout(3, listeners={"MTLS": "SSL"}, properties={"k": "v"})
    write_layout(tmp_path / "sandbox.json", made)
    assert read_layout(tmp_path / "sandbox.json") == made
    assert (tmp_path / "sandbox.json").stat().st_mode & 0o077 == 0
    assert read_layout(tmp_path / "none") is None


@pytest.mark.parametrize("text", ["", "{}", '{"format": 99}', '{"format": 1, "nodes": 3}', "[]"])
def test_damaged_state_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "sandbox.json").write_text(text)
    with pytest.raises(SandboxError) as raised:
        read_layout(tmp_path / "sandbox.json")
    assert raised.value.hint == "kgroup sandbox down --wipe"


def test_another_number_of_brokers_is_refused() -> None:
    with pytest.raises(Refused, match="has 1 broker, not 3") as raised:
        SandboxRequest(brokers=3).applied_to(layout(1))
    assert raised.value.code == "sandbox-differs"
    assert SandboxRequest().applied_to(layout(3)) == layout(3)


def test_what_runs_is_not_changed_in_passing() -> None:
    running = layout(1)
    SandboxRequest(port=20_000, properties={}).require_same(running, running)
    wanted = SandboxRequest(port=9_092, properties={"a": "b"}).applied_to(running)
    with pytest.raises(Refused, match="other port and broker settings"):
        SandboxRequest(port=9_092).require_same(running, wanted)


def test_ports_are_kept_while_they_are_free() -> None:
    chosen = SandboxRequest().with_ports(SandboxRequest(brokers=3).applied_to(None), preferred=None)
    assert SandboxRequest().with_ports(chosen, preferred=None) == chosen
    moved = SandboxRequest().with_ports(chosen, preferred=None, retry=True)
    assert moved.addresses() != chosen.addresses()


def test_asked_for_port() -> None:
    free = (
        SandboxRequest()
        .with_ports(SandboxRequest(brokers=3).applied_to(None), preferred=None)
        .brokers[0]
        .ports["PLAINTEXT"]
    )
    made = SandboxRequest(port=free).with_ports(SandboxRequest(brokers=3).applied_to(None), preferred=None)
    assert [node.ports["PLAINTEXT"] for node in made.brokers] == [free, free + 1, free + 2]
    everything = [port for node in made.nodes for port in node.ports.values()]
    assert len(set(everything)) == len(everything) == 4


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        ((), ProcessState.ABSENT),
        ((ProcessState.RUNNING, ProcessState.RUNNING), ProcessState.RUNNING),
        ((ProcessState.RUNNING, ProcessState.DIED), ProcessState.DEGRADED),
        ((ProcessState.STOPPED, ProcessState.DIED), ProcessState.DIED),
        ((ProcessState.RUNNING, ProcessState.STARTING), ProcessState.STARTING),
    ],
)
def test_overall_state(states: tuple[ProcessState, ...], whole: ProcessState) -> None:
    assert overall_state(states) == whole


def test_ids_are_no_flags() -> None:
    assert all(len(made := random_id()) == 22 and made[0] != "-" for _ in range(500))
