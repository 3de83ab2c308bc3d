"""What tests of the ledger and of workers begin with: a ledger of their own, plans in it, a topic to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from kgroup.catchup.ledger.ledger import Ledger
from tests.helpers.catchup.replays import Replay, Span, replay
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
_TIMEOUT_S = 15.0


@pytest.fixture
def config(bootstrap: str) -> dict[str, Any]:
    """librdkafka's."""
    return {"bootstrap.servers": bootstrap, "log_level": "0"}


@pytest.fixture
def ledger(config: dict[str, Any], name: Name) -> Iterator[Ledger]:
    """A ledger whose topic exists."""
    with Ledger(config, name("ledger"), timeout_s=_TIMEOUT_S) as ledger:
        ledger.prepare()
        yield ledger


@pytest.fixture
def make(bootstrap: str, name: Name) -> Iterator[Callable[..., Replay]]:
    """``make(span, ...)``: a plan whose chunks these are."""
    with ExitStack() as stack:

        def made(*spans: Span, tasks: Any = None) -> Replay:
            return stack.enter_context(replay(bootstrap, name("ledger"), spans, tasks))

        yield made


@pytest.fixture
def source(world: KafkaWorld, name: Name) -> str:
    """A topic of two partitions, without records."""
    return world.topic(name("orders"), partitions=2)
