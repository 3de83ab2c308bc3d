"""Fixtures of the verbs' tests: a broker whose answers can be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kgroup.commands import describe
from kgroup.durations import parse_duration
from tests.conftest import BROKER_PROPERTIES
from tests.kafka_proxy import ProxiedBroker, proxied_broker

Name = Callable[[str], str]

_PATIENCE_S = 20.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time for what kgroup does without when it does not come in a moment, so that a busy machine hides nothing.

    For commands in this process; a test of such a limit says its own.
    """
    for limit in (
        "kgroup.changing.evidence._PAST_BUDGET_S",
        "kgroup.cluster.log_questions._ACTIVITY_BUDGET_S",
        "kgroup.cluster.sessions._BUDGET_S",
        "kgroup.commands.simulate._LOG_BUDGET_S",
        "kgroup.rollout.SHORTEST_LOOK_S",
        "kgroup.skipped._PREVIEW_S",
        "kgroup.waiting.SHORTEST_LOOK_S",
    ):
        monkeypatch.setattr(limit, _PATIENCE_S)
    usual = describe._DEFAULT_BUDGET

    def parsed(text: str, option: str) -> float:
        return _PATIENCE_S if text == usual else parse_duration(text, option)

    monkeypatch.setattr(describe, "parse_duration", parsed)


@pytest.fixture(scope="module")
def proxy_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    """One broker behind a proxy, for the module: a client that is idle for ten minutes is hung up on."""
    with proxied_broker(tmp_path_factory.mktemp("proxied"), BROKER_PROPERTIES) as made:
        yield made


@pytest.fixture
def proxied(proxy_broker: ProxiedBroker, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[ProxiedBroker]:
    """... with no fault in it, as KGROUP_BOOTSTRAP_SERVER; and a group in it that no test may touch."""
    proxy_broker.proxy.reset()
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", proxy_broker.bootstrap)
    untouched = name("bystander")
    proxy_broker.world.commit(untouched, {(proxy_broker.world.topic(untouched), 0): (3, "mine", 0)})
    before = proxy_broker.world.exact(untouched)
    yield proxy_broker
    proxy_broker.proxy.reset()
    assert proxy_broker.world.exact(untouched) == before
