"""kgroup.support.signals: what a signal raises, also where a C library calls Python."""

from __future__ import annotations

import subprocess
import sys

import pytest

# librdkafka's own mock broker: a signal has to arrive while a callback runs, which a real one can't arrange.
_IN_A_CALLBACK = """
import signal, sys
from confluent_kafka import Producer
from kgroup.support.signals import Terminated, raise_signals

raise_signals()
producer = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
producer.produce("t", b"1", on_delivery=lambda error, message: signal.raise_signal(int(sys.argv[1])))
try:
    while len(producer):
        producer.poll(0.2)
except (KeyboardInterrupt, Terminated) as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("number", "raised"), [(2, "KeyboardInterrupt"), (15, "Terminated"), (1, "Terminated")])
def test_a_signal_within_a_callback_of_confluent_kafka_is_what_the_caller_gets(number: int, raised: str) -> None:
    command = [sys.executable, "-c", _IN_A_CALLBACK, str(number)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == (f"{raised}\n", 0), ended.stderr
