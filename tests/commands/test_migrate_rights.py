"""``kgroup migrate`` where there are rights: what kgroup may not see is unknown and not BLOCKED.

On the consumer protocol one topic that a member's principal may not describe fails all of its heartbeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import ACLOperation

from tests.commands.test_rights import (
    CLUSTER,
    EVERYTHING,
    HISTORY,
    Bob,
    bob,
    broker,
    group,
    settled,
    topic,
    without,
)
from tests.helpers.access_rules import DENY, rule
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.secure_broker import SecureBroker

__all__ = ("bob", "broker", "settled")

READ, DESCRIBE, CONFIGS = ACLOperation.READ, ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS


@pytest.fixture(autouse=True)
def types(settled: KafkaWorld) -> Iterator[None]:
    """No test of this module converts anything."""
    yield
    found = settled.groups()
    assert {name: found[name] for name in ("idle", "old", "new")} == {
        "idle": ("classic", "empty"),
        "old": ("classic", "stable"),
        "new": ("consumer", "stable"),
    }


def planned(bob: Bob, name: str, *arguments: str, exit_code: int) -> dict[str, Any]:
    """The row of a group as bob sees it, with its checks by id."""
    (row,) = bob("migrate", name, *arguments, "-o", "json", exit_code=exit_code).data
    return {**row, "checks": {check["id"]: check for check in row["checks"]}}


def test_without_describe_configs(bob: Bob) -> None:
    """Policy, assignors, ranges are the brokers' settings: unknown, with the right that is missing."""
    bob.may(*EVERYTHING)
    live = planned(bob, "old", exit_code=4)
    assert live["readiness"] == "ready"
    policy = live["checks"]["migration-policy"]
    assert policy["status"] == "unknown"
    assert "DESCRIBE_CONFIGS" in f"{policy['evidence']} {policy['remedy']}"
    assert not any(check["status"] == "blocked" for check in live["checks"].values())
    idle = planned(bob, "idle", exit_code=4)  # it is fit, and bob lacks READ on it, which converting it needs
    assert (idle["readiness"], idle["how"]) == ("ready", "now")
    assert planned(bob, "new", exit_code=0)["readiness"] == "done"


def test_with_describe_configs(bob: Bob) -> None:
    bob.may(*EVERYTHING)
    bob.grant(rule(CONFIGS, *CLUSTER), rule(CONFIGS, *group("old")))
    # Its members move it by themselves; bob lacks READ on it, which the other way, converting it, needs.
    row = planned(bob, "old", exit_code=4)
    assert (row["checks"]["migration-policy"]["status"], row["how"]) == ("ok", "rolling")
    assert not any("DESCRIBE_CONFIGS" in str(check) for check in row["checks"].values())


def test_without_the_history(bob: Bob) -> None:
    """The session timeout of classic members is in __consumer_offsets alone: unknown, and what READ would show."""
    bob.may(*without(HISTORY))
    row = planned(bob, "old", exit_code=4)
    assert row["readiness"] == "ready"
    unknown = [check for check in row["checks"].values() if check["status"] == "unknown"]
    assert row["checks"]["session"] in unknown
    idle = planned(bob, "idle", exit_code=4)
    assert idle["readiness"] == "warning"
    assert "assignors" in [key for key, check in idle["checks"].items() if check["status"] == "unknown"]
    assert any(
        "__consumer_offsets" in f"{check['evidence']} {check['remedy']}"
        for check in (*row["checks"].values(), *idle["checks"].values())
    )


def test_group_that_may_not_be_described(bob: Bob) -> None:
    """Not BLOCKED, nor unknown to the cluster: 4; beside others 7 at a plan, and nothing is done."""
    bob.may(*without(group("idle")))
    assert "idle" in bob("migrate", "idle", exit_code=4).stderr
    result = bob("migrate", "idle", "new", "-o", "json", exit_code=7)
    assert [row["group"] for row in result.data if row["readiness"]] == ["new"]
    assert [error["group"] for error in result.json["errors"]] == ["idle"]


def test_executing_without_the_right(bob: Bob) -> None:
    """DESCRIBE is enough to see a plan; committing again needs READ on the group: said by plan and execution alike."""
    bob.may(*EVERYTHING)
    for more in ((), ("--execute",)):
        result = bob("migrate", "idle", *more, exit_code=4)
        assert "no READ on Group idle" in result.stderr
        assert "--allow-principal User:bob --operation Read --group idle" in result.stderr
        assert result.stdout.endswith("Nothing was changed.\n")


def test_configs_of_a_group_that_may_not_be_altered(bob: Bob) -> None:
    """All that is missing is named at once: the configs are set after the conversion, which cannot be half done."""
    bob.may(*EVERYTHING)
    bob.grant(rule(CONFIGS, *group("idle")))
    for more in ((), ("--execute",)):
        result = bob("migrate", "idle", "--session-timeout", "50s", *more, exit_code=4)
        assert "no ALTER_CONFIGS and no READ on Group idle" in result.stderr
        assert "--operation AlterConfigs --operation Read --group idle" in result.stderr


def test_a_topic_that_may_not_be_read_keeps_the_group_as_it_is(bob: Bob) -> None:
    """Its commits could not be made again, and would expire after the conversion; --partial changes nothing in that."""
    bob.may(*without(topic("secret")))
    bob.may_describe(topic("secret"))
    bob.grant(rule(READ, *group("idle")))
    for more in ((), ("--execute",), ("--partial", "--execute")):
        result = bob("migrate", "idle", *more, exit_code=4)
        assert "no READ on Topic secret" in result.stderr


def test_topic_that_a_principal_may_not_describe(bob: Bob, broker: SecureBroker) -> None:
    """carol may read the group, and one of its two topics: she is named with the other one."""
    bob.may()
    as_admin = ("-b", broker.addresses["ADMIN"])

    def check() -> dict[str, Any]:
        (row,) = CommandLine()("migrate", "idle", *as_admin, "-o", "json").data
        (found,) = (check for check in row["checks"] if check["id"] == "topic-describe")
        return dict(found)

    bob.grant(rule(READ, *group("idle"), "carol"), rule(READ, *topic("open"), "carol"))
    missing = check()
    assert missing["status"] == "warning"
    assert "carol" in missing["evidence"]
    assert "secret" in missing["evidence"]
    assert "open" not in missing["evidence"]
    assert "DESCRIBE" in f"{missing['evidence']} {missing['remedy']}".upper()
    bob.grant(rule(READ, *topic("secret"), "carol"))  # which implies DESCRIBE
    assert check()["status"] == "ok"
    bob.grant(rule(DESCRIBE, *topic("secret"), "carol", how=DENY))
    assert check()["status"] == "warning"


def test_rules_that_may_not_be_read(bob: Bob) -> None:
    """Without DESCRIBE on the cluster: unknown."""
    bob.may(*without(CLUSTER))
    check = planned(bob, "idle", exit_code=4)["checks"]["topic-describe"]
    assert check["status"] == "unknown"
