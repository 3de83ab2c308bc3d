"""Topics described and created on a real broker, and an AdminClient that is garbage while its request is under way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import repeat
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kgroup.cluster.topic_admin import NewTopicSpec, RetiringAdminClient, TopicAdmin
from kgroup.support.errors import Unreachable
from tests.helpers.places import ROOT

Name = Callable[[str], str]
TIMEOUT_S = 15.0

_PROGRAM = """
import gc, socket, threading
from confluent_kafka.admin import AdminClient
from kgroup.cluster.topic_admin import RetiringAdminClient
silent = socket.create_server(("127.0.0.1", 0))
gc.disable()
admin = {cls}({{"bootstrap.servers": "127.0.0.1:%d" % silent.getsockname()[1], "log_level": 2}})
future = admin.describe_cluster(request_timeout=0.5)
collected = threading.Event()
# On librdkafka's thread, as garbage collection may come at any time.
future.add_done_callback(lambda _: (gc.collect(), collected.set()))
cycle = [admin]
cycle.append(cycle)
del admin, cycle
print(type(future.exception(30)).__name__, flush=True)
collected.wait(30)  # the main thread is woken before the callback runs
"""


@pytest.mark.parametrize(("cls", "survives"), [("RetiringAdminClient", True), ("AdminClient", False)])
def test_garbage_on_a_thread_of_librdkafka(cls: str, survives: bool) -> None:
    """The plain client aborts: if it no longer does, ours has no purpose."""
    program = _PROGRAM.format(cls=cls)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT)

    assert (done.returncode == 0) is survives, done.stderr
    if survives:
        assert (done.stdout, done.stderr) == ("KafkaException\n", "")
    else:
        assert "called from librdkafka owned thread" in done.stderr


def test_a_topic_described_and_made(bootstrap: str, name: Name) -> None:
    admin, topic = TopicAdmin({"bootstrap.servers": bootstrap}, timeout_s=TIMEOUT_S), name("made")
    assert admin.describe(topic) is None
    assert admin.brokers() == 1
    wanted = NewTopicSpec(topic, 1, 1, {"cleanup.policy": "compact"})

    admin.validate(wanted)
    assert admin.describe(topic) is None
    made = admin.create(wanted)

    assert admin.create(wanted) == admin.describe(topic) == made
    assert (made.partitions, made.replicas, made.has_leaders) == (1, 1, True)
    assert made.settings is not None
    assert made.settings.cleanup_policy == "compact"
    assert made.operations is not None
    assert {"READ", "WRITE", "DESCRIBE"} <= made.operations


def test_admin_without_a_broker() -> None:
    admin = TopicAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.5)
    with pytest.raises(Unreachable):
        admin.describe("t")
    with pytest.raises(Unreachable):
        admin.brokers()


class _SomeLate(RetiringAdminClient):
    """Each of the next answers comes from a broker that has learned of the topic (True), or not yet.

    Of three real brokers on a busy machine one did so in 5 of 60 cases.
    """

    told: Iterator[bool] = iter(())

    def describe_topics(self, topics: Any, **more: Any) -> dict[str, Future[Any]]:
        return self._late(super().describe_topics(topics, **more))

    def describe_configs(self, resources: Any, **more: Any) -> dict[Any, Future[Any]]:
        return self._late(super().describe_configs(resources, **more))

    def _late(self, answers: dict[Any, Future[Any]]) -> dict[Any, Future[Any]]:
        if next(self.told, True):
            return answers
        unknown: Future[Any] = Future()
        unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return dict.fromkeys(answers, unknown)


@pytest.mark.parametrize("told", [(False,), (True, False), (True, False, False, True)], ids=str)
def test_a_topic_just_made_that_not_every_broker_knows(bootstrap: str, name: Name, told: tuple[bool, ...]) -> None:
    """``told`` by requests: the topic, its configuration, the topic again."""
    admin = TopicAdmin({"bootstrap.servers": bootstrap}, timeout_s=TIMEOUT_S)
    late = _SomeLate({"bootstrap.servers": bootstrap})
    late.told = iter(told)
    admin._admin = late

    made = admin.create(NewTopicSpec(name("made"), 1, 1, {"cleanup.policy": "compact"}))

    assert made.settings is not None
    assert made.settings.cleanup_policy == "compact"


def test_a_topic_that_no_broker_learns_of(bootstrap: str, name: Name) -> None:
    admin, topic = TopicAdmin({"bootstrap.servers": bootstrap}, timeout_s=0.5), name("made")
    late = _SomeLate({"bootstrap.servers": bootstrap})
    late.told = repeat(False)
    admin._admin = late

    with pytest.raises(Unreachable, match=f"{topic} still has brokers that do not know it after 0.5 s") as raised:
        admin.create(NewTopicSpec(topic, 1, 1, {}))

    assert raised.value.code == "no-leader"
