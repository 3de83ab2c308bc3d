"""Dynamic configs of groups, set, deleted, and told apart from the broker's."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.cluster.configs import group_configs, set_configs
from kgroup.cluster.writes import ChangingCluster
from kgroup.support.errors import Refused
from tests.helpers.kafka_world import KafkaWorld

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_set_and_deleted_for_many_groups_at_once(
    cluster: ChangingCluster, world: KafkaWorld, name: Callable[[str], str]
) -> None:
    one, other, none = name("one"), name("other"), name("none")
    assert cluster.ask(group_configs, [one, none]) == {one: {}, none: {}}, "the broker's own are not the group's"

    wanted: dict[str, dict[str, str | None]] = {
        one: {SESSION: "20000", HEARTBEAT: "500"},
        other: {SESSION: "21000"},
        none: {},
    }
    assert cluster.ask(set_configs, wanted) == {one: None, other: None, none: None}
    expected = {one: {SESSION: "20000", HEARTBEAT: "500"}, other: {SESSION: "21000"}, none: {}}
    assert cluster.ask(group_configs, [one, other, none]) == expected
    assert world.group_config(one) == expected[one]

    assert cluster.ask(
        set_configs, {one: {SESSION: None, HEARTBEAT: "600"}, other: {SESSION: None}, none: {SESSION: None}}
    )
    assert cluster.ask(group_configs, [one, other]) == {one: {HEARTBEAT: "600"}, other: {}}


def test_a_value_that_the_broker_does_not_take_costs_its_group_only(
    cluster: ChangingCluster, name: Callable[[str], str]
) -> None:
    bad, unknown, good = name("bad"), name("unknown"), name("good")
    results = cluster.ask(set_configs, {bad: {SESSION: "1"}, unknown: {"no.such": "1"}, good: {SESSION: "20000"}})
    assert results[good] is None
    for group, word in ((bad, SESSION), (unknown, "no.such")):
        error = results[group]
        assert isinstance(error, Refused)
        assert error.code == "invalid-config"
        assert word in error.message
    assert cluster.ask(group_configs, [good]) == {good: {SESSION: "20000"}}
    assert cluster.ask(group_configs, [bad]) == {bad: {}}
