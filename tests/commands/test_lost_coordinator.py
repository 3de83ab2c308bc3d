"""Groups of several coordinators, one of which is lost for good: its groups have no other replica.

The groups are streams groups: what lists, describes and measures them is what does so for groups of other types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from kgroup.sandbox import Sandbox
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.three_brokers import PROPERTIES, all_running, killed, three_brokers, topic_on
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.soak

kgroup = CommandLine()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Three brokers; a group is on one of them only."""
    properties = {**PROPERTIES, "offsets.topic.replication.factor": "1"}
    with three_brokers(tmp_path_factory.mktemp("three"), properties) as sandbox:
        yield sandbox


@pytest.fixture
def three(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[KafkaWorld]:
    with all_running(sandbox, monkeypatch, name("bystander")) as world:
        yield world


def test_its_groups_are_errors_and_the_others_are_shown(three: KafkaWorld, sandbox: Sandbox, name: Name) -> None:
    """One group on each broker. ``list`` cannot name the lost one: it says of how many partitions."""
    stem = name("wc")
    of: dict[int, str] = {}
    for group in (f"{stem}-{number}" for number in count()):
        of.setdefault(three.coordinator(group), group)
        if len(of) == 3:
            break
    victim, *others = of
    topic = topic_on(three, name("orders"), (*others, victim), records=5)
    for group in of.values():
        three.streams_group(group, topic, stopped=True)
        three.commit(group, {(topic, 0): 2})
    every, living = sorted(of.values()), sorted(of[broker] for broker in others)

    def shown(*words: str, exit_code: int | None = 0) -> tuple[list[str], list[str | None]]:
        result = kgroup(*words, "--timeout", "5s", "-o", "json", exit_code=exit_code)
        assert {row["lag"] if words[0] == "lag" else 3 for row in result.data} <= {3}
        return sorted(row["group"] for row in result.data), [error["group"] for error in result.json["errors"]]

    of_type = ("--type", "streams", "--regex", f"{stem}.*")
    for verb in ("list", "describe", "lag"):
        assert shown(verb, *of_type) == (every, [])
    with killed(sandbox, victim):
        for verb in ("describe", "lag"):
            assert shown(verb, *every, exit_code=7) == (living, [of[victim]])
        listed = kgroup("list", *of_type, "--timeout", "5s", "-o", "json", exit_code=7)
        assert sorted(row["group"] for row in listed.data) == living
        assert "of __consumer_offsets are missing" in listed.stderr
        named = kgroup("list", *every, "--timeout", "5s", "-o", "json", exit_code=7)
        assert sorted(row["group"] for row in named.data) == living
        assert f'"{of[victim]}"' in named.json["errors"][-1]["message"]
        assert "not-found" not in {error["code"] for error in named.json["errors"]}
    wait_for(lambda: shown("lag", *of_type, exit_code=None) == (every, []), "all groups, once the broker is back")
    for verb in ("list", "describe"):
        assert shown(verb, *of_type) == (every, [])
