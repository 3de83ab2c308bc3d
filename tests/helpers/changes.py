"""Every verb that changes something: a group for it, its command line, and whether its effect is there."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer

from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.three_brokers import RECORDS, replicated
from tests.helpers.waiting import wait_for

Commits = dict[tuple[str, int], tuple[int, str, int | None]]

VERBS = ("reset", "delete-offsets", "delete", "migrate", "evict", "catchup start")


def crashed(world: KafkaWorld, name: Callable[[str], str], verb: str) -> tuple[str, str, Commits]:
    """A group with commits, its topic, and what it has committed; one that evict can do something to has a member."""
    topic, group = replicated(world, name("orders")), name("svc")
    world.commit(group, {(topic, 0): (2, "kept ä", 0), (topic, 1): (3, "", None)})
    if verb == "evict":
        leave_static_member(world.bootstrap, group, topic)
    return topic, group, world.exact(group)


def leave_static_member(bootstrap: str, group: str, topic: str) -> None:
    """A static member that does not leave when it closes, as they do not; its session is longer than the test."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.instance.id": "pay-0",
            "session.timeout.ms": 300_000,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    try:
        wait_for(lambda: consumer.poll(0.1) is not None or consumer.assignment(), "an assignment", 60)
    finally:
        consumer.close()


def command(verb: str, group: str, topic: str) -> tuple[str, ...]:
    what = {
        "reset": ("--topic", topic, "--to-latest"),
        "delete-offsets": ("--topic", topic),
        "delete": (),
        "migrate": ("--protocol", "consumer"),
        "evict": ("--instance", "pay-0"),
        "catchup start": ("--release-only",),
    }[verb]
    return (*verb.split(), group, *what, "--execute", "--timeout", "60s")


def has_happened(world: KafkaWorld, verb: str, group: str, before: Commits) -> bool:
    """Whether the group is as this verb leaves it, as a plain client sees it."""
    offsets = {place: offset for place, (offset, _, _) in world.exact(group).items()} if verb != "delete" else {}
    match verb:
        case "reset" | "catchup start":
            return offsets == dict.fromkeys(before, RECORDS)
        case "delete-offsets":
            return offsets == {}
        case "delete":
            return group not in world.groups()
        case "migrate":
            return world.exact(group) == before and world.groups().get(group) == ("consumer", "empty")
        case _:
            return world.exact(group) == before and world.groups().get(group) == ("classic", "empty")
