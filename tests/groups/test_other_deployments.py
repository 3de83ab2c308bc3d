"""Which members are of another deployment: what client ids are made of, who came when, from which host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kgroup.groups.other_deployments import deployment_words, other_deployment
from tests.helpers.cases import described
from tests.helpers.cases.history import T0, Log, member
from tests.helpers.for_each import for_each


@for_each(
    "case",
    [
        ("orders-0", "orders"),
        ("orders-12", "orders"),
        ("orders_B", "orders"),
        ("orders2", "orders"),
        ("orders-7f9c6d5b8-x2x4z", "orders"),
        ("orders-65f88748fd-ztqkw", "orders"),
        ("consumer-orders-svc-3", "consumer orders svc"),
        ("orders-svc-9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d-StreamThread-1-consumer", "orders svc streamthread consumer"),
        ("connector-consumer-to-s3-0", "connector consumer to"),
        ("ip-10-0-3-4", "ip"),
        ("Orders.Staging.1", "orders staging"),
        ("orders-v2", "orders"),
        ("rdkafka", "rdkafka"),
        ("7", ""),
        ("", ""),
    ],
)
def test_words_of_a_client_id(case: tuple[str, str]) -> None:
    assert " ".join(deployment_words(case[0])) == case[1]


AFTER = 20 * 60
STAGING = ("orders-staging-0", "10.9.0.1")


def found_in(
    *came: tuple[float, Sequence[tuple[str, str]]], state: str = "Stable", now: float = AFTER, first: int = 1
) -> tuple[tuple[str, ...], bool, int | None] | None:
    """Names, whether it is sure, and since when in seconds, of members (client id, host) that came at these times."""
    log, all_here = Log(), [one for _, members in came for one in members]
    for number, (at, _) in enumerate(came):
        here = [one for _, members in came[: number + 1] for one in members]
        log.at(at).generation(first + number, *(member(f"{client}/{n}") for n, (client, _) in enumerate(here)))
    members = [described.member(f"m{n}", n, client_id=client, host=host) for n, (client, host) in enumerate(all_here)]
    other = other_deployment(described.group([], members, state=state), log.events, T0 + round(now * 1000))
    if other is None:
        return None
    return other.names, other.sure, None if other.since_ms is None else (other.since_ms - T0) // 1000


PROD = [("orders-0", "10.0.0.1"), ("orders-1", "10.0.0.2")]
PRODUCTION = [("orders-prod-0", "10.0.0.1"), ("orders-prod-1", "10.0.0.2")]
CANARY = ("orders-canary-0", "10.0.0.9")
BILLING = ("billing-0", "10.9.0.1")


@pytest.mark.parametrize(
    ("came", "other", "found"),
    [
        pytest.param([(0, PROD)], {}, None, id="numbers alone"),
        pytest.param([(0, PROD), (60, [("orders-7", "10.9.0.1")])], {}, None, id="one more of them"),
        pytest.param([(0, PROD), (60, [STAGING])], {}, (("orders-staging-0",), True, 60), id="staging"),
        pytest.param([(0, PRODUCTION), (60, [STAGING])], {}, (("orders-staging-0",), True, 60), id="prod and staging"),
        pytest.param([(0, PROD), (60, [STAGING])], {"now": 61}, (("orders-staging-0",), True, 60), id="at once"),
        pytest.param([(0, [STAGING]), (60, PROD)], {"first": 9}, (("orders-staging-0",), True, None), id="first there"),
        pytest.param([(0, [STAGING, ("orders-test-1", "10.9.0.2")])], {}, None, id="all of them are tests"),
        pytest.param([(0, PROD), (60, [STAGING])], {"state": "PreparingRebalance"}, None, id="a rebalance"),
        pytest.param([(0, PROD), (60, [BILLING])], {}, (("billing-0",), False, 60), id="other names"),
        pytest.param([(0, PROD), (60, [BILLING])], {"now": 350}, None, id="it may be a rollout"),
        pytest.param([(0, [*PROD, BILLING])], {}, None, id="they came together"),
        pytest.param([(0, PROD), (60, [("billing-0", "10.0.0.1")])], {}, None, id="from the same host"),
        pytest.param([(0, PROD), (60, [CANARY])], {}, (("orders-canary-0",), False, 60), id="canary"),
        pytest.param(
            [(0, [("mars", "h1")]), (60, [("venus", "h2")]), (90, [("pluto", "h3")])], {}, None, id="each has a name"
        ),
        pytest.param([(0, PROD), (60, [("", "10.9.0.1")])], {}, None, id="no client id"),
    ],
)  # fmt: skip
def test_another_deployment(
    came: Sequence[tuple[float, Sequence[tuple[str, str]]]],
    other: dict[str, Any],
    found: tuple[tuple[str, ...], bool, int | None] | None,
) -> None:
    assert found_in(*came, **other) == found


def test_one_that_has_no_partition_takes_nothing() -> None:
    members = [described.member("m0", 0, client_id="orders-0"), described.member("m1", client_id="orders-staging-0")]

    assert other_deployment(described.group([], members), [], T0) is None


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("orders-staging", ["consumer-orders-staging-1", "consumer-orders-staging-2", "rdkafka"]),
        ("orders", ["orders-test-1", "orders-test-2", "rdkafka"]),
    ],
)
def test_a_group_of_a_test_is_no_mistake(name: str, ids: Sequence[str]) -> None:
    members = [described.member(f"m{n}", n, client_id=client_id) for n, client_id in enumerate(ids)]

    assert other_deployment(described.group([], members, name=name), [], T0) is None


def test_who_came_first_is_unknown_without_a_record_of_each() -> None:
    """A member of the consumer protocol that restarts has a new record, one that stays has none."""
    log = Log().at(0).generation(1, member("orders-us-0/0"))
    here = [("orders-eu-0", "h1"), ("orders-us-0", "h2")]
    members = [described.member(f"m{n}", n, client_id=client, host=host) for n, (client, host) in enumerate(here)]
    classic, consumer = (
        other_deployment(described.group([], members, type=kind), log.events, T0 + AFTER * 1000)
        for kind in ("classic", "consumer")
    )

    assert (classic is None, consumer is None) == (False, True)


def test_words() -> None:
    members = [
        described.member(f"m{n}", n, client_id=f"orders-{who}") for n, who in enumerate(("0", "1", "qa-0", "qa-1"))
    ]

    found = other_deployment(described.group([], members), [], T0)

    assert found is not None
    assert found.words(T0) == (
        "orders-qa-0, orders-qa-1 (10.0.3.2) are of another deployment by their client ids: they have 2 of 4 "
        "partitions, whose records no other member gets"
    )
