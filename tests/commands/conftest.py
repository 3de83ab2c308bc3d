"""Fixtures of the verbs' tests: a broker whose answers can be lost, brokers that die, a group that has crashed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kgroup.sandbox import Sandbox
from tests.conftest import check_bystander
from tests.helpers.catchup.catchups import Crash, crash, own_ledger
from tests.helpers.kafka_proxy import ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.helpers.three_brokers import all_running, three_brokers

Name = Callable[[str], str]


@pytest.fixture
def orders(world: KafkaWorld, name: Name) -> str:
    """A topic with 30 records in each of two partitions."""
    topic = world.topic(name("orders"), partitions=2)
    for partition in (0, 1):
        world.produce(topic, 30, partition)
    return topic


@pytest.fixture
def proxied(proxied: ProxiedBroker, proxied_bystander: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProxiedBroker]:
    """The broker behind a proxy as KGROUP_BOOTSTRAP_SERVER; and a group in it that no test may touch."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", proxied.bootstrap)
    yield proxied
    proxied.proxy.reset()
    check_bystander(proxied.world, proxied_bystander)


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


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, name: Name) -> str:
    return own_ledger(monkeypatch, name("ledger"))


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's workers find the modules of these tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def crashed(world: KafkaWorld, name: Name, bystander: str, ledger: str) -> Crash:
    return crash(world, name("orders"), name("svc"))
