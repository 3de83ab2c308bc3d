"""The situations, each made with real clients on one broker, and what is asked about each."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members, commit_to
from tests.helpers.places import ROOT
from tests.helpers.stored_broker import NO_FAULTS, Faults
from tests.helpers.stuck_application import POISON
from tests.helpers.waiting import wait_for

_STALLED_S = 310
"""After this, every verb calls a commit stalled that has not moved; after a minute not all do."""

_IDLE_S = 1_200
"""After this, every verb calls a group abandoned that nobody reads."""

_SESSION_MS = 5_000

_ARRIVING_MS = 590_000

VERBS = (
    "describe {group} -o table",
    "describe {group} -o json",
    "lag {group} -o wide",
    "lag {group} -o json",
    "doctor {group} -o table",
    "doctor {group} -o json",
    "peek {group} -o table",
    "peek {group} -o json",
    "migrate {group} -o table",
    "migrate {group} -o json",
    "wait {group} --for empty --for lag=0 --within 0s -o json",
    "catchup start {group} -o table",
    "catchup start {group} -o json",
)
"""What is asked about each group."""

_DIAGNOSIS = VERBS[:8]
"""For a situation that is another one a while later, or with a fault: what else is asked would show the same."""

_PAGES = tuple(verb for verb in VERBS if not verb.endswith("-o json") or verb in (*_DIAGNOSIS, VERBS[10]))
"""For most situations: the plans as pages; as JSON they are in a few."""

_NO_LEADER = (VERBS[0], VERBS[3])
"""Each of these waits for the leader."""


@dataclass(frozen=True)
class Situation:
    """A group at a moment: ``later_s`` after its recording, with nothing changed but the clock, and with ``faults``.

    ``timeout`` is how long kgroup waits for what does not come.
    """

    name: str
    group: str
    later_s: int = 0
    faults: Faults = NO_FAULTS
    verbs: tuple[str, ...] = _PAGES
    timeout: str = "10s"


SITUATIONS = (
    Situation("live-classic", "live", verbs=VERBS),
    Situation("live-consumer", "live-848", verbs=VERBS),
    Situation(
        "unreadable-log-classic", "live", faults=Faults(unreadable=frozenset({"__consumer_offsets"})), verbs=VERBS
    ),
    Situation("unreadable-log-consumer", "live-848", faults=Faults(unreadable=frozenset({"__consumer_offsets"}))),
    Situation(
        "no-leader", "live", faults=Faults(leaderless=frozenset({("orders", 1)})), verbs=_NO_LEADER, timeout="1s"
    ),
    Situation("hidden-commits", "two-topics", faults=Faults(hidden=frozenset({"secret"})), verbs=VERBS),
    Situation("empty-classic", "empty", verbs=VERBS),
    Situation("empty-consumer", "empty-848", verbs=VERBS),
    Situation("empty-classic-later", "empty", later_s=_IDLE_S, verbs=_DIAGNOSIS),
    Situation("no-commits", "no-commits", verbs=VERBS),
    Situation("stuck-classic", "stuck", later_s=_STALLED_S),
    Situation("stuck-classic-early", "stuck", verbs=_DIAGNOSIS),
    Situation("stuck-classic-a-minute-later", "stuck", later_s=60, verbs=_DIAGNOSIS),
    Situation("stuck-consumer", "stuck-848", later_s=_STALLED_S),
    Situation("silent-classic", "silent", later_s=_STALLED_S),
    Situation("silent-classic-early", "silent", later_s=60, verbs=_DIAGNOSIS),
    Situation("crash-loop-classic", "crash-loop"),
    Situation("crash-loop-consumer", "crash-loop-848"),
    Situation("rewound", "rewound", verbs=VERBS),
    Situation("out-of-range", "out-of-range"),
    Situation("recreated-topic", "empty-848", faults=Faults(recreated=frozenset({"past"}))),
    Situation("recreated-topic-live", "live", faults=Faults(recreated=frozenset({"orders"})), verbs=_DIAGNOSIS),
    Situation("deleted-topic", "recreated"),
    Situation("transactions", "transactions", later_s=_STALLED_S),
    Situation("pending-commit", "pending"),
    Situation("left-topic", "left-topic", later_s=_STALLED_S),
    Situation("skewed", "skewed"),
    Situation("hot-of-three", "hot-3", verbs=_DIAGNOSIS),
    Situation("hot-of-eight", "hot-8", verbs=_DIAGNOSIS),
    Situation("dead-static-member", "static"),
    Situation("rebalancing", "rebalancing", verbs=VERBS),
    Situation("streams-group", "streams"),
    Situation("share-group", "share"),
    Situation("no-group", "absent"),
)


@contextmanager
def made(world: KafkaWorld, members: Members) -> Iterator[None]:
    """Every situation, while the block runs: its members live, its transactions are open."""
    with ExitStack() as stack:
        _past(world, members)
        _stuck(world, stack)
        _present(world, members)
        _hot(world, members, "hot-3", 3, 1_500, 15)
        _hot(world, members, "hot-8", 8, 1_350, 300)
        _transactions(world, members, stack)
        world.join_as("rebalancing", "consumer")
        yield


def _past(world: KafkaWorld, members: Members) -> None:
    """Groups whose members have gone."""
    world.produce(world.topic("past", 2), 20, partition=0)
    world.produce("past", 20, partition=1)
    for group, start in (("empty", members.classic), ("empty-848", members.consumer), ("rewound", members.classic)):
        member = start(group, "past")
        members.stable(member, partitions=2)
        commit_to(world, member, 20)
        member.close()
        wait_for(lambda: world.groups()[group][1] == "empty", f"{group} Empty")  # noqa: B023
    world.commit("rewound", {("past", 0): 5})
    world.produce("past", 30, partition=0)
    _crash_loops(world, members)

    world.produce(world.topic("trimmed", 2), 50, partition=0)
    world.produce("trimmed", 10, partition=1)
    world.commit("out-of-range", {("trimmed", 0): 10, ("trimmed", 1): 400})
    world.delete_records("trimmed", 0, 30)

    world.produce(world.topic("recreated"), 20)
    member = members.consumer("recreated", "recreated")
    members.stable(member, partitions=1)
    commit_to(world, member, 20)
    world.streams_group("streams", "past")
    world.share_group("share", "past")
    world.delete_topic("recreated")
    world.produce(world.topic("recreated"), 30)


def _crash_loops(world: KafkaWorld, members: Members) -> None:
    """Three members each, which die or leave at the same record."""
    world.produce(world.topic("crashing"), 20)
    for group in ("crash-loop", "crash-loop-848"):
        world.commit(group, {("crashing", 0): 10})
        for _ in range(3):
            if group == "crash-loop":
                member = members.classic(group, "crashing", session_timeout_ms=_SESSION_MS)
            else:
                member = members.consumer(group, "crashing")
            members.stable(member, partitions=1)
            (Member.kill if group == "crash-loop" else Member.close)(member)
            wait_for(lambda: world.groups()[group][1] == "empty", f"{group} Empty")  # noqa: B023


def _stuck(world: KafkaWorld, stack: ExitStack) -> None:
    """Applications that try record 12 again and again."""
    topic = world.topic("poisoned")
    world.produce(topic, 12)
    world.produce(topic, 1, value=POISON)
    world.produce(topic, 187)
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    for group, habit, settings in (("stuck", "each", {}), ("stuck-848", "delivery", {"group.protocol": "consumer"})):
        given = json.dumps({"bootstrap.servers": world.bootstrap, "group.id": group} | settings)
        command = [sys.executable, "-m", "tests.helpers.stuck_application", given, topic, habit]
        log = directory / group
        process = stack.enter_context(subprocess.Popen(command, stdout=stack.enter_context(log.open("wb")), cwd=ROOT))
        stack.callback(process.kill)
        wait_for(lambda: log.read_bytes().count(b"again") > 30, f"{group}: tries", 60)  # noqa: B023


def _present(world: KafkaWorld, members: Members) -> None:
    """Groups with members."""
    world.topic("orders", 4)
    world.topic("skewed", 6)
    world.topic("left")
    world.topic("open")
    world.topic("secret")
    world.produce(world.topic("silent"), 5)
    for topic, count in (("orders", 4), ("skewed", 6), ("left", 1), ("open", 1), ("secret", 1)):
        for number in range(count):
            world.produce(topic, 20, partition=number)
    classic = [members.classic("live", "orders", client_id=f"live-{number}") for number in (1, 2)]
    consumer = [members.consumer("live-848", "orders", client_id=f"new-{number}") for number in (1, 2)]
    skewed = [members.classic("skewed", "skewed", client_id=f"skewed-{number}") for number in (1, 2, 3)]
    silent = members.classic("silent", "silent")
    two, old = (members.classic(group, *topics) for group, topics in (
        ("two-topics", ("open", "secret")), ("left-topic", ("left", "open"))
    ))  # fmt: skip
    static = members.classic(
        "static", "orders", client_id="static", group_instance_id="static-1", session_timeout_ms=300_000
    )
    members.stable(members.consumer("no-commits", "orders"), partitions=4)
    for some, partitions in (
        (classic, 4), (consumer, 4), (skewed, 6), ([silent], 1), ([two], 2), ([old], 2), ([static], 4)
    ):  # fmt: skip
        members.stable(*some, partitions=partitions)
        if some != [silent]:
            _commit_all(world, some)
    silent.commit()
    silent.hold()
    static.kill()
    old.close()
    members.stable(members.classic("left-topic", "open"), partitions=1)
    for number in range(4):
        world.produce("orders", 5 * number, partition=number)
    world.produce("silent", 120)
    world.produce("secret", 7)
    world.produce("left", 2_000)
    world.produce("skewed", 3_000, partition=4)


def _commit_all(world: KafkaWorld, members: Sequence[Member]) -> None:
    """Let each member commit until all partitions of their group have the offset 20."""

    def there() -> bool:
        for member in members:
            member.commit()
        return {offset for offset, _ in world.committed(members[0].what["group"]).values()} == {20}

    wait_for(there, f"{members[0].what['group']} at 20")


def _hot(world: KafkaWorld, members: Members, name: str, partitions: int, busiest: int, others: int) -> None:
    """In ten minutes the first partition got so many records and each other one so many, which have been read."""
    world.topic(name, partitions)
    now_ms = round(time.time() * 1000)

    def produce(partition: int, count: int) -> None:
        world.produce_at(name, partition, [now_ms - _ARRIVING_MS * left // count for left in range(count, 0, -1)])

    for number in range(1, partitions):
        produce(number, others)
    member = members.classic(name, name)
    members.stable(member, partitions=partitions)
    wait_for(lambda: _committed_everywhere(world, member, others, partitions - 1), f"{name} at {others}")
    produce(0, busiest)


def _committed_everywhere(world: KafkaWorld, member: Member, offset: int, partitions: int) -> bool:
    member.commit()
    return [reached for reached, _ in world.committed(member.what["group"]).values()].count(offset) == partitions


def _transactions(world: KafkaWorld, members: Members, stack: ExitStack) -> None:
    """Committed, aborted and open ones in a topic, and an open one that holds a group's commit back."""
    topic = world.topic("transactions")
    settings = {"bootstrap.servers": world.bootstrap, "log_level": 0, "transaction.timeout.ms": 600_000}
    producer = Producer({**settings, "transactional.id": "shop-1"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"x", partition=0)
        assert producer.flush(30) == 0
        if end is not None:
            end(30)
    stack.callback(producer.abort_transaction, 30)
    world.produce(topic, 3)
    member = members.classic("transactions", topic)
    members.stable(member, partitions=1)
    commit_to(world, member, 12)
    world.commit("pending", {("past", 0): 3, ("past", 1): 3})
    stack.enter_context(world.pending("pending", {("past", 0): 9}))
