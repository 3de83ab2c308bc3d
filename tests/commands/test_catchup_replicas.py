"""``kgroup catchup`` while its ledger takes no records, since too few of its replicas are in sync: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, Producer

from kgroup.catchup.ledger.transactional_ids import of_plan
from kgroup.cluster.topic_admin import NewTopicSpec, TopicAdmin
from kgroup.sandbox import Sandbox
from kgroup.support.errors import Unreachable
from tests.commands.test_catchup_cluster import committed, leader
from tests.helpers.catchup.catchups import copied, own_ledger, written
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import running
from tests.helpers.three_brokers import BROKERS, in_sync, killed, replicated, three_replicas_needed, topic_on
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak

Name = Callable[[str], str]


def await_last_transaction(world: KafkaWorld, plan: str) -> None:
    """Its broker writes the end to each topic after it has answered. A producer that takes the id waits for that."""
    Producer({"bootstrap.servers": world.bootstrap, "transactional.id": of_plan(plan)}).init_transactions(30)


def test_a_topic_whose_leader_is_dead(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """Its leader is waited for no longer than the timeout. A second process that makes the ledger meets this."""
    topic = topic_on(three, name("ledger"), (3,), records=1)
    with killed(sandbox, 3):
        wait_for(lambda: leader(three, topic) == -1, "no leader", 60)
        admin = TopicAdmin({"bootstrap.servers": three.bootstrap}, timeout_s=5.0)

        with pytest.raises(Unreachable, match=f"{topic} still has a partition without a leader after 5 s"):
            admin.create(NewTopicSpec(topic, 1, 1, {}))


def test_a_ledger_that_takes_no_records(
    three: KafkaWorld, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, name: Name
) -> None:
    """Each command that has to write to it exits with 3 and changes nothing, and is done when it takes records again.

    One broker is dead all the time, and all else goes on without it.
    """
    kgroup, ledger = CommandLine(), own_ledger(monkeypatch, name("ledger"))
    topic, copy, group = replicated(three, name("orders"), 300), replicated(three, name("copy"), 0), name("svc")
    here, head = {(topic, 0): 100, (topic, 1): 100}, {(topic, 0): 300, (topic, 1): 300}
    three.commit(group, here)

    def catchup(verb: str, *words: str, exit_code: int = 0) -> str:
        return kgroup("catchup", verb, group, *words, "--execute", "--timeout", "5s", exit_code=exit_code).stderr

    def states() -> list[str]:
        return [plan["state"] for plan in kgroup("catchup", "list", group, "-o", "json").data]

    kgroup("catchup", "start", group, "--release-only", "--execute")
    await_last_transaction(three, plan_of(group))
    victim = min(BROKERS - {three.coordinator(group), leader(three, ledger)})
    with killed(sandbox, victim):
        wait_for(lambda: not in_sync(three, ledger), "too few replicas", 60)

        with three_replicas_needed(three, ledger):
            said = catchup("cancel", exit_code=3)
            assert f"{ledger}: 1 record not acknowledged" in said
            assert f"too few replicas in sync (min.insync.replicas) rejects them: {ledger}" in said
            assert (committed(three, group), states()) == (head, ["released"])
        catchup("cancel")
        assert (committed(three, group), states()) == (here, ["cancelled"])

        with three_replicas_needed(three, ledger):
            assert f"{ledger}: 2 records not acknowledged" in catchup("start", "--release-only", exit_code=3)
            assert committed(three, group) == here
        assert states() == ["cancelled"]
        catchup("start", "--release-only")

        to = ("--to-topic", copy, "--master", "local[2]")
        with three_replicas_needed(three, ledger):
            catchup("resume", *to, exit_code=3)
            catchup("stop", exit_code=3)
        catchup("stop")
        assert committed(three, group) == head
        assert written(three, copy) == 0

        resume = ("catchup", "resume", group, *to, "--rate", "60/s", "--execute", "--timeout", "5s")
        with running(*resume) as process:
            wait_for(lambda: written(three, copy) > 0, "records", 60)
            with three_replicas_needed(three, ledger):
                stopped = process.ends(3)
        assert "400 offsets not delivered; to continue: kgroup catchup resume" in stopped.stderr
        assert copied(three, copy) == []
        assert "VERIFIED" in catchup("resume", "--master", "local[2]", "--rate", "off")

    places = [f"{topic}:{partition}:{offset}" for partition in (0, 1) for offset in range(100, 300)]
    assert copied(three, copy) == sorted(places)
    assert committed(three, group) == head


def test_a_transaction_that_cannot_end(
    three: KafkaWorld, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, name: Name
) -> None:
    """Its broker has answered that it is committed, and cannot write the end to a topic: the plan waits for that."""
    kgroup, ledger = CommandLine(), own_ledger(monkeypatch, name("ledger"))
    topic, copy, group = replicated(three, name("orders"), 300), replicated(three, name("copy"), 0), name("svc")
    here, head = {(topic, 0): 100, (topic, 1): 100}, {(topic, 0): 300, (topic, 1): 300}
    three.commit(group, here)
    kgroup("catchup", "start", group, "--release-only", "--execute")
    transaction = Producer({"bootstrap.servers": three.bootstrap, "transactional.id": of_plan(plan_of(group))})
    with killed(sandbox, min(BROKERS - {three.coordinator(group), leader(three, ledger)})):
        wait_for(lambda: not in_sync(three, copy), "too few replicas", 60)
        transaction.init_transactions(30)
        transaction.begin_transaction()
        transaction.produce(copy, b"1", partition=0)
        assert transaction.flush(30) == 0

        with three_replicas_needed(three, copy):
            wait_for(lambda: refuses(three, copy), "refused records", 30)
            transaction.commit_transaction(30)
            cancel = ("catchup", "cancel", group, "--execute", "--timeout", "5s")
            said = kgroup(*cancel, exit_code=3).stderr
        assert f"transactional id {of_plan(plan_of(group))} could not be initialized: no answer for 5 s" in said
        assert "one with too few replicas in sync (min.insync.replicas) prevents that" in said
        assert committed(three, group) == head

        kgroup(*cancel)
        assert committed(three, group) == here


def plan_of(group: str) -> str:
    plan_id: str = CommandLine()("catchup", "list", group, "-o", "json").data[0]["plan_id"]
    return plan_id


def refuses(world: KafkaWorld, topic: str) -> bool:
    """Whether its first partition refuses a record now."""
    errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": world.bootstrap, "retries": 0})
    producer.produce(topic, b"2", partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[0] is not None
