"""What other verbs read of the ledger: nothing but its bounds if it has no records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from kgroup.catchup.ledger import ledger as ledger_module
from kgroup.catchup.ledger.ledger import Ledger, PlanListing
from kgroup.catchup.ledger.view import Wanted
from kgroup.catchup.service.pending import LedgerReading, begin_reading_ledger
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.catchup.model import PlanState
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from kgroup.support.errors import Unreachable
from tests.helpers.catchup.catchups import own_ledger
from tests.helpers.catchup.ledgers import created, ended, killed_in_transaction, new_plan, state
from tests.helpers.command_line import QuietReporter

Name = Callable[[str], str]


@pytest.fixture
def ledger(bootstrap: str, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[Ledger]:
    topic = own_ledger(monkeypatch, name("ledger"))
    with Ledger({"bootstrap.servers": bootstrap, "log_level": "0"}, topic, timeout_s=15.0) as ledger:
        ledger.prepare()
        yield ledger


def read(bootstrap: str) -> LedgerReading:
    settings = resolve(Connection(bootstrap_server=bootstrap), QuietReporter(), environ={})
    with Cluster(settings) as cluster:
        return begin_reading_ledger(settings, cluster)(QuietReporter())


def test_no_consumer_is_started_for_an_empty_ledger(
    bootstrap: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "Ledger", None)

    assert read(bootstrap) == LedgerReading({}, None, f"the ledger {ledger.topic} does not have that plan")


def test_a_plan_is_read(bootstrap: str, ledger: Ledger) -> None:
    plan = new_plan("orders-svc", 0, 1)
    created(ledger, plan)

    assert [found.snapshot.plan for found in read(bootstrap).open["orders-svc"]] == [plan]


def test_the_cluster_is_asked_for_other_things_while_it_is_read(
    bootstrap: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, answered = new_plan("orders-svc", 0), threading.Event()
    created(ledger, plan)
    list_plans = Ledger.list

    def late(reader: Ledger, *, patience_s: float, wanted: Wanted) -> PlanListing:
        assert answered.wait(30)
        return list_plans(reader, patience_s=patience_s, wanted=wanted)

    monkeypatch.setattr(Ledger, "list", late)
    settings = resolve(Connection(bootstrap_server=bootstrap), QuietReporter(), environ={})
    with Cluster(settings) as cluster:
        result = begin_reading_ledger(settings, cluster)
        cluster.list_groups()
        answered.set()

        assert [found.snapshot.plan for found in result(QuietReporter()).open["orders-svc"]] == [plan]


def test_what_could_not_be_read_is_noted_when_the_result_is_wanted(
    bootstrap: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    created(ledger, new_plan("orders-svc", 0))

    def broken(reader: Ledger, *, patience_s: float, wanted: Wanted) -> PlanListing:
        raise Unreachable("no broker answers")

    monkeypatch.setattr(Ledger, "list", broken)
    settings, reporter = resolve(Connection(bootstrap_server=bootstrap), QuietReporter(), environ={}), QuietReporter()
    with Cluster(settings) as cluster:
        result = begin_reading_ledger(settings, cluster)
        assert reporter.lines == []

        assert result(reporter).unknown == f"{ledger.topic} could not be read"
    assert len(reporter.lines) == 1


def test_a_ledger_of_which_an_open_transaction_hides_all_is_not_empty(bootstrap: str, ledger: Ledger) -> None:
    plan = new_plan("orders-svc", 0)
    killed_in_transaction(bootstrap, ledger.topic, "kgroup-test-pending", plan.id, plan, state(PlanState.PLANNED))

    found = read(bootstrap)

    assert found.listing is not None
    assert found.missing == f"an open transaction hides a part of the ledger {ledger.topic}"
    ended(ledger, "kgroup-test-pending")
