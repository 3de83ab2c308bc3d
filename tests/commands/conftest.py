"""Fixtures of the verbs' tests: a broker whose answers can be lost, and a cluster of which brokers die."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kgroup.sandbox import Sandbox
from tests.conftest import BROKER_PROPERTIES
from tests.support.kafka_proxy import ProxiedBroker, proxied_broker
from tests.support.kafka_world import KafkaWorld
from tests.support.three_brokers import all_running, three_brokers

Name = Callable[[str], str]


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


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Three brokers, for the module."""
    with three_brokers(tmp_path_factory.mktemp("three")) as sandbox:
        yield sandbox


@pytest.fixture
def three(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[KafkaWorld]:
    """... all of them running, as KGROUP_BOOTSTRAP_SERVER; and a group in it that no test may touch."""
    with all_running(sandbox, monkeypatch, name("bystander")) as world:
        yield world
