"""The brokers that situations live on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kgroup.sandbox import Sandbox
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import QuietReporter

PROPERTIES: Final = {
    **BROKER_PROPERTIES,
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "3000",  # Kafka's default: a deploy looks as it does elsewhere
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.heartbeat.interval.ms": "3000",
    "log.retention.check.interval.ms": "10000",
}
"""As other tests have them, and what a group's life depends on as brokers have it by default."""


@contextmanager
def one_broker(directory: Path) -> Iterator[str]:
    """Its address, while the block runs."""
    sandbox = Sandbox(directory)
    try:
        status = sandbox.up(properties=PROPERTIES, reporter=QuietReporter())
        assert status.bootstrap_servers
        yield status.bootstrap_servers
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())
