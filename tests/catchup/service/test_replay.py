"""The real task on Spark: a topic is copied exactly once, whatever dies; and it is stopped in good order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.job import JobListeners, run
from kgroup.catchup.spark.progress import ProgressTotals
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.catchup.worker.task_spec import TransactionBounds
from kgroup.cluster.topics import LogView
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.takeover import SIGNED_OFF
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused
from tests.helpers.catchup.plans import NOW_MS
from tests.helpers.catchup.replays import Replay, replay, seen
from tests.helpers.catchup.spark_in_process import jvm_of
from tests.helpers.catchup.spark_kills import END, Killer, replayed_exactly_once, source_topic, workers_of
from tests.helpers.clusters import connected
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak  # a start of Spark

Name = Callable[[str], str]


@pytest.fixture(scope="module")
def session() -> Iterator[DriverSession]:
    settings = SparkSettings("local[2]")
    with DriverSession(settings, check(settings, timeout_s=10)) as session:
        yield session


def test_copied_exactly_once_though_workers_die(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    replayed_exactly_once(session, world, bootstrap, name, Killer(lambda: workers_of([jvm_of(session)]), kills=3))


def signed_off(plan: Replay) -> bool:
    plan.runner.heartbeat(SIGNED_OFF)
    return True


def test_stopped_and_gone_on_with(session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name) -> None:
    source, target = source_topic(world, bootstrap, name), world.topic(name("copy"), partitions=2)
    totals: list[ProgressTotals] = []
    with replay(bootstrap, name("ledger"), [(source, 0, 0, END)]) as plan:
        bounds = TransactionBounds(seconds=0.5)
        slow = plan.spec("topic", {"topic": target}, rate=RateLimit(records_per_s=200), bounds=bounds)
        watching = JobListeners(
            totals.append,
            stop=lambda: totals[-1].records > 300 and signed_off(plan),
            ledger=plan.progress,
        )

        (first,) = run(session, [slow], watching)

        assert (first.result.interrupted, first.result.finished) == (True, False)
        delivered = sum(one.records for one in plan.progress().values())
        assert len(seen(bootstrap, target)) == delivered
        assert 300 < delivered < 2000

        plan.runner.heartbeat(NOW_MS)
        watching = JobListeners(totals.append, ledger=plan.progress)
        (second,) = run(session, [plan.spec("topic", {"topic": target})], watching)

        assert not second.failure
        assert second.result.finished
        assert totals[-1].records == len(seen(bootstrap, target)) == 2250
        assert (totals[-1].offsets, totals[-1].left_s) == (END, 0.0)


def test_a_task_of_a_runner_that_was_superseded_says_so(
    session: DriverSession, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    source, target = source_topic(world, bootstrap, name), world.topic(name("copy"), partitions=2)
    with replay(bootstrap, name("ledger"), [(source, 0, 0, 100)]) as plan:
        spec = plan.spec("topic", {"topic": target})
        with plan.ledger.take_over(plan.runner.plan_id, who="another", now_ms=NOW_MS):
            (answer,) = run(session, [spec])

    assert answer.failure
    error = task_error(answer.failure, "task 0")
    assert isinstance(error, Refused)
    assert error.code == "superseded"
    assert "another" in error.message
    assert seen(bootstrap, target) == []


def test_the_jvm_killed_over_an_open_transaction_and_the_plan_gone_on_with(
    world: KafkaWorld, bootstrap: str, name: Name, session: DriverSession
) -> None:
    """Last in this module: its session does not live on."""
    source, target = source_topic(world, bootstrap, name), world.topic(name("copy"), partitions=2)
    with replay(bootstrap, name("ledger"), [(source, 0, 0, 1500), (source, 0, 1500, END)]) as plan:

        def open_records() -> int:
            """What a consumer with read_committed has to wait for."""
            with connected(bootstrap) as cluster:
                views = cluster.log_views(cluster.layouts([target]), [TopicPartition(target, 0)])
            return sum(view.end - view.last_stable.offset for view in views.values() if isinstance(view, LogView))

        def tell(totals: ProgressTotals) -> None:
            if totals.records > 300 and session.is_alive:
                wait_for(lambda: 0 < open_records() < 250, "a transaction that has just begun")
                os.kill(jvm_of(session), signal.SIGKILL)

        bounds = TransactionBounds(records=500)
        slow = plan.spec("topic", {"topic": target}, rate=RateLimit(records_per_s=150), bounds=bounds)
        with pytest.raises(KgroupError, match="killed by SIGKILL") as caught:
            run(session, [slow], JobListeners(tell, ledger=plan.progress))
        assert caught.value.code == "spark-gone"
        session.close()

        settings = SparkSettings("local[1]")
        with DriverSession(settings, check(settings, timeout_s=10)) as again:
            (answer,) = run(again, [plan.spec("topic", {"topic": target})])

        assert not answer.failure
        assert answer.result.finished
        assert plan.proof(answer.result).complete

    found = seen(bootstrap, target)
    assert [one.key for one in found] == [one.key for one in seen(bootstrap, source) if one.partition == 0][
        : len(found)
    ]
    assert len(found) == 2250
    assert len(seen(bootstrap, target, "read_uncommitted")) > len(found)
