"""Every verb that changes something, while the coordinator's broker of three is killed or hangs, or two are dead."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kgroup.sandbox import Sandbox
from tests.helpers.changes import VERBS, Commits, command, crashed, has_happened
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.three_brokers import (
    BROKERS,
    busy_partition,
    hanging,
    in_sync,
    killed,
    neighbour,
    three_replicas_needed,
)
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("ledger")]


FAULTS = {"killed": killed, "hanging": hanging}

OTHER_WRITERS = ("reset", "delete", "migrate", "catchup start")
"""Verbs whose writes differ: the others send what these send, through the same code."""


@pytest.mark.parametrize(
    ("verb", "fault"), [*((verb, "killed") for verb in VERBS), *((verb, "hanging") for verb in OTHER_WRITERS)]
)
def test_the_coordinator_has_just_gone(three: KafkaWorld, sandbox: Sandbox, name: Name, verb: str, fault: str) -> None:
    """The change waits for the one that takes over, and is done there."""
    topic, group, before = crashed(three, name, verb)
    with busy_partition(three, group, topic), FAULTS[fault](sandbox, three.coordinator(group)):
        CommandLine()(*command(verb, group, topic))
    # A broker that comes back answers as the coordinator that it was, for a moment.
    wait_for(lambda: has_happened(three, verb, group, before), f"{verb} is done")


@pytest.mark.parametrize(
    ("verb", "fault"),
    [*((verb, "killed") for verb in ("reset", "delete-offsets", "delete")), ("migrate", "hanging")],
)
def test_undone_while_the_coordinator_is_gone(
    three: KafkaWorld, sandbox: Sandbox, name: Name, verb: str, fault: str
) -> None:
    topic, group, before = crashed(three, name, verb)
    kind = three.groups()[group][0]
    CommandLine()(*command(verb, group, topic))
    with busy_partition(three, group, topic), FAULTS[fault](sandbox, three.coordinator(group)):
        CommandLine()("undo", "--execute", "--timeout", "60s")
    wait_for(lambda: (three.exact(group), three.groups().get(group, ("", ""))[0]) == (before, kind), "as it was")


UNDOABLE = ("reset", "delete-offsets", "delete")


def is_as_the_journal_says(world: KafkaWorld, verb: str, group: str, before: Commits) -> None:
    """Done after all, or not: ``undo`` finds out which, and the group is as it was before."""
    # When this is stored, so is what the coordinator has still to write of the change, in the same partition.
    world.commit(neighbour(world, group), {next(iter(before)): 1})
    happened = has_happened(world, verb, group, before)
    assert happened or world.exact(group) == before
    if verb in UNDOABLE:
        CommandLine()("undo", "--execute", exit_code=0 if happened else 5)
        assert world.exact(group) == before


@pytest.mark.parametrize("verb", ["reset", "migrate"])
def test_too_few_replicas_of_the_offsets(three: KafkaWorld, sandbox: Sandbox, name: Name, verb: str) -> None:
    """The coordinator does not answer writes, and may carry them out when the replicas are back: said, and in time."""
    topic, group, before = crashed(three, name, verb)
    victim = min(BROKERS - {three.coordinator(group)})
    with three_replicas_needed(three, "__consumer_offsets"), killed(sandbox, victim):
        wait_for(lambda: not in_sync(three, "__consumer_offsets"), "too few replicas", 60)
        result = CommandLine()(*command(verb, group, topic)[:-1], "8s", exit_code=3)
    said = "PLANNED" if verb == "catchup start" else "UNKNOWN"
    assert said in result.stdout + result.stderr
    wait_for(lambda: in_sync(three, "__consumer_offsets", topic), "all replicas in sync", 60)
    is_as_the_journal_says(three, verb, group, before)


@pytest.mark.parametrize("verb", ["delete", "catchup start"])
def test_two_of_three_brokers_dead(three: KafkaWorld, sandbox: Sandbox, name: Name, verb: str) -> None:
    """The third is the coordinator, and cannot write alone: said in time, and the journal knows where it was."""
    topic, group, before = crashed(three, name, verb)
    first, second = sorted(BROKERS - {three.coordinator(group)})
    with killed(sandbox, first), killed(sandbox, second):
        # No new leader can be elected. Which request is the one without an answer depends on who led what.
        result = CommandLine()(*command(verb, group, topic)[:-1], "8s", exit_code=3)
    assert re.search("did not answer|no leader that answers|Coordinator not available", result.stderr), result
    wait_for(lambda: in_sync(three, "__consumer_offsets", topic), "all replicas in sync", 60)
    is_as_the_journal_says(three, verb, group, before)
