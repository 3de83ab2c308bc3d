"""An AdminClient that is garbage while a request of its own is under way must not end the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.places import ROOT

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
