"""Ages, and times that are typed relative to now, count from the brokers' clock: here it is 40 minutes ahead of ours.

So everything in the log is 40 minutes old for kgroup.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
AHEAD = timedelta(minutes=40)


@pytest.fixture
def group(world: KafkaWorld, name: Name, monkeypatch: pytest.MonkeyPatch) -> str:
    """A group without a reader, 3 of 5 records read."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 5)
    world.commit(group, {(topic, 0): 3})

    async def controllers_now(client: object) -> int:
        return round((time.time() + AHEAD.total_seconds()) * 1000)

    monkeypatch.setattr("kgroup.cluster.broker_clock._controllers_now", controllers_now)
    return group


def test_every_verb_that_shows_ages(kgroup: CommandLine, group: str) -> None:
    pages = {}
    for verb in ("doctor", "history", "list", "describe", "lag", "wait"):
        more = ("--for", "lag-time=39m", "--within", "0s") if verb == "wait" else ()
        shown = kgroup(verb, group, *more, exit_code=8 if verb == "wait" else 0)
        assert "40m behind the brokers'" in shown.stderr, verb
        assert "ages and relative times count from the brokers' clock" in shown.stderr
        pages[verb] = shown.stdout
    for verb in ("describe", "list"):
        shown = kgroup(verb, group, "--from-log")
        assert "40m behind the brokers'" in shown.stderr, verb
        assert "40m" in shown.stdout
    assert "40m behind the brokers'" in kgroup("catchup", "start", group).stderr
    assert "no-reader" in pages["doctor"]
    assert "no member" in pages["doctor"]
    assert pages["list"].split()[-1] == "40m"
    assert "NO-READER 40m" in pages["lag"]
    assert "NO-READER 40m" in pages["describe"]


def test_a_time_that_is_typed(kgroup: CommandLine, world: KafkaWorld, group: str) -> None:
    """20 minutes ago the group had its commit, and the topic its records; 50 minutes ago neither was there."""
    topic = next(iter(world.committed(group)))[0]

    def target(ago: str) -> int | None:
        (row,) = kgroup("reset", group, "--topic", f"{topic}:0", "--by-duration", ago, "-o", "json").data
        new: int | None = row["new_offset"]
        return new

    assert (target("20m"), target("50m")) == (5, 0)
    assert "20m ago" in kgroup("reset", group, "--topic", f"{topic}:0", "--by-duration", "20m").stdout
    assert "as they were" in kgroup("undo", group, "--as-of", "20m").stderr
    assert "[not-found]" in kgroup("undo", group, "--as-of", "50m", exit_code=5).stderr
    assert "3" in kgroup("export", group, "--as-of", "20m").stdout
    kgroup("export", group, "--as-of", "50m", exit_code=5)
    for since, jumps in (("20m", 0), ("50m", 1)):
        (row,) = kgroup("history", group, "--since", since, "--commits", "-o", "json").data
        assert len(row["commits"]["jumps"]) == jumps
    assert kgroup("list", group, "--idle-for", "39m", "-o", "name").stdout.split() == [group]
    (row,) = kgroup("delete", group, "--idle-for", "39m", "-o", "json").data
    assert (row["group"], row["last_activity_at"] is not None) == (group, True)
    assert "left out" in kgroup("delete", group, "--idle-for", "41m").stderr

    future = datetime.now(UTC) + timedelta(minutes=30)  # by our clock, and the past of the brokers
    assert "nothing to do" in kgroup("undo", group, "--as-of", f"{future:%Y-%m-%dT%H:%M:%SZ}").stderr
    future += AHEAD
    refused = kgroup("undo", group, "--as-of", f"{future:%Y-%m-%dT%H:%M:%SZ}", exit_code=2)
    assert "is in the future" in refused.stderr
    assert "in the future" in kgroup("history", group, "--until", "2999-01-01T00:00Z", exit_code=2).stderr
    assert "not before --until" in kgroup("history", group, "--until", "2020-01-01T00:00Z", exit_code=2).stderr
