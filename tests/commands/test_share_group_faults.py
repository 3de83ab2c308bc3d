"""Changes of share groups while the coordinator's broker of three is killed or hangs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgroup.sandbox import Sandbox
from tests.commands.test_changing_share_groups import APIS, both, changed, has_happened, made_idle, starts
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.three_brokers import hanging, in_sync, killed, replicated
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.soak

STATES = "__share_group_state"
FAULTS = {"killed": killed, "hanging": hanging}


@pytest.mark.parametrize(
    ("verb", "fault"), [("reset", "hanging"), *((verb, "killed") for verb in APIS if verb != "reset")]
)
def test_the_coordinator_has_just_gone(three: KafkaWorld, sandbox: Sandbox, name: Name, verb: str, fault: str) -> None:
    """The change waits for the one that takes over, and so does its undo."""
    topic = replicated(three, name("orders"), records=10)
    group = made_idle(name("jobs"), topic)
    wait_for(lambda: in_sync(three, topic, STATES), "all replicas in sync", 60)
    with FAULTS[fault](sandbox, three.coordinator(group)):
        CommandLine()(*changed(verb, group, topic), "--timeout", "60s")
    wait_for(lambda: has_happened(three, verb, group, topic), f"{verb} is done")
    with FAULTS[fault](sandbox, three.coordinator(group)):
        CommandLine()("undo", "--execute", "--timeout", "60s")
    wait_for(lambda: starts(CommandLine(), group) == both(topic, 2, 8), "as it was")
