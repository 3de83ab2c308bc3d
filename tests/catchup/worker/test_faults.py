"""Workers whose broker is killed and comes back, and whose requests and answers are lost: exactly once all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.worker.task_spec import Handling, TaskResult, TransactionBounds
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.sandbox import Sandbox
from tests.conftest import MORTAL
from tests.helpers.catchup import handler_functions
from tests.helpers.catchup.ledgers import hurried_commits
from tests.helpers.catchup.replays import replay, seen, sources
from tests.helpers.command_line import QuietReporter
from tests.helpers.expiring_ids import forgotten
from tests.helpers.kafka_proxy import Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
PRODUCE, FETCH, END_TXN = 0, 1, 26


@pytest.mark.parametrize(
    ("api_key", "loss", "skip"),
    [
        (END_TXN, Loss.ANSWER, 0),
        (END_TXN, Loss.REQUEST, 0),
        (PRODUCE, Loss.ANSWER, 1),
        (PRODUCE, Loss.REQUEST, 1),
        (FETCH, Loss.ANSWER, 1),
    ],
)
def test_what_is_lost_on_the_way_comes_once(
    proxied: ProxiedBroker, name: Name, api_key: int, loss: Loss, skip: int
) -> None:
    source, target = proxied.world.topic(name("orders")), proxied.world.topic(name("copy"))
    proxied.world.produce(source, 300)
    config = {"bootstrap.servers": proxied.bootstrap, "log_level": "0"}
    with replay(proxied.world.bootstrap, name("ledger"), [(source, 0, 0, 150), (source, 0, 150, 300)]) as plan:
        fault = proxied.proxy.expect(Fault(api_key, loss, skip=skip))

        result = plan.run("topic", {"topic": target}, config=config, bounds=TransactionBounds(records=100))

        assert fault.met.is_set()
        assert result.finished
        assert plan.proof(result).complete
    assert sources(seen(proxied.world.bootstrap, target)) == [f"{source}:0:{n}" for n in range(300)]


@pytest.mark.soak
def test_where_no_commit_is_answered_it_is_looked_up_and_gone_on(proxied: ProxiedBroker, name: Name) -> None:
    """Each answer to the end of a transaction is lost until the worker has given up waiting for it."""
    source, target = proxied.world.topic(name("orders")), proxied.world.topic(name("copy"))
    proxied.world.produce(source, 40)
    config = {"bootstrap.servers": proxied.bootstrap, "log_level": "0"}
    with replay(proxied.world.bootstrap, name("ledger"), [(source, 0, 0, 40)]) as plan:
        proxied.proxy.expect(Fault(END_TXN, Loss.REQUEST, always=True))

        with hurried_commits(given_up=proxied.proxy.reset):
            result = plan.run("topic", {"topic": target}, config=config)

        assert result.finished
        assert plan.proof(result).complete
    assert sources(seen(proxied.world.bootstrap, target)) == [f"{source}:0:{n}" for n in range(40)]


@pytest.mark.soak
def test_where_its_transactional_id_is_unknown_it_takes_it_again(forgetful: KafkaWorld, name: Name) -> None:
    """The id expires before each transaction but the first."""
    source, target = forgetful.topic(name("orders")), forgetful.topic(name("copy"))
    forgetful.produce(source, 3)
    with replay(forgetful.bootstrap, name("ledger"), [(source, 0, 0, 3)]) as plan:
        work = plan.spec("topic", {"topic": target}).work
        told = [0]

        def wait() -> bool:
            if plan.records() > told[-1]:
                told.append(plan.records())
                forgotten(forgetful, transactional_ids.of_task(work.plan_id, work.task.number))
            return False

        result = plan.run("topic", {"topic": target}, wait, bounds=TransactionBounds(records=1))

        assert len(told) > 2
        assert result.finished
        assert plan.proof(result).complete
    assert sources(seen(forgetful.bootstrap, target)) == [f"{source}:0:{n}" for n in range(3)]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path / "broker")
    sandbox.up(properties=MORTAL, reporter=QuietReporter())
    try:
        yield sandbox
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())


@pytest.mark.soak
@pytest.mark.parametrize("sink", ["topic", "python"])
def test_a_broker_that_is_killed_and_comes_back_costs_time_alone(sandbox: Sandbox, name: Name, sink: str) -> None:
    address = sandbox.status().bootstrap_servers
    assert address
    handler_functions.got.clear()
    results: list[TaskResult] = []
    with KafkaWorld(address) as world:
        source, target = world.topic(name("orders")), world.topic(name("copy"))
        world.produce(source, 4000)
        options = {"topic": target} if sink == "topic" else {"function": "tests.helpers.catchup.handler_functions:keep"}
        with replay(address, name("ledger"), [(source, 0, 0, 2000), (source, 0, 2000, 4000)]) as plan:
            worker = threading.Thread(
                target=lambda: results.append(
                    plan.run(
                        sink,
                        options,
                        rate=RateLimit(records_per_s=1000),
                        bounds=TransactionBounds(records=400),
                        handling=Handling(window=500),
                        timeout_s=30.0,
                    )
                )
            )
            worker.start()
            wait_for(lambda: plan.records() > 500, "records")
            sandbox.kill(1)
            sandbox.up(properties=MORTAL, reporter=QuietReporter())
            worker.join(120)

            (result,) = results
            assert result.finished
            proof = plan.proof(result)
            assert proof.complete
        if sink == "topic":
            assert sources(seen(address, target)) == [f"{source}:0:{n}" for n in range(4000)]
        else:
            got = [record["offset"] for batch in handler_functions.got for record in batch]
            assert got == list(range(4000))
