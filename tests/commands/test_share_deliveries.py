"""What became of a share group's records, from ``__share_group_state``, with real share consumers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Message

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import running
from tests.helpers.share_consumers import ACCEPT, REJECT, RELEASE, Sharer, sharer
from tests.helpers.terminals import Terminal
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
LIMIT = 3


class Habit:
    """Rejects offset 1, and gives 2, and later 5, back each time."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()

    def __call__(self, message: Message) -> AcknowledgeType:
        offset = message.offset()
        self.seen[offset] += 1
        return REJECT if offset == 1 else RELEASE if offset in (2, 5) else ACCEPT


class Delivered:
    """A group with one partition: 0 is done, 1 rejected, 2 given up, 3-4 done, 5 on its last try, 6 a marker."""

    def __init__(self, world: KafkaWorld, topic: str, group: str) -> None:
        self.world, self.topic, self.group = world, topic, group

    def play(self, member: Sharer) -> None:
        habit = Habit()

        def deliver(offset: int, times: int) -> None:
            wait_for(lambda: member.poll(habit) is not None and habit.seen[offset] >= times, f"offset {offset}", 60)

        self.world.produce(self.topic, 3)
        deliver(2, LIMIT)
        self.world.produce_in_transaction(self.topic, 3)
        deliver(5, LIMIT - 1)


@pytest.fixture
def delivered(world: KafkaWorld, name: Name) -> Iterator[Callable[..., Delivered]]:
    """Makes a group whose member stays until the test ends."""
    members = []

    def make(**settings: str) -> Delivered:
        group = name("jobs")
        topic = world.topic(name("orders"))
        world.configure_group(
            group, share_auto_offset_reset="earliest", share_delivery_count_limit=str(LIMIT), **settings
        )
        made, member = Delivered(world, topic, group), sharer(world.bootstrap, group, topic)
        members.append(member)
        made.play(member.__enter__())
        return made

    yield make
    for member in members:
        member.__exit__(None, None, None)


def described(kgroup: CommandLine, group: str, *words: str) -> dict[str, Any]:
    (document,) = kgroup("describe", group, *words, "-o", "json").data
    assert isinstance(document, dict)
    return document


def counts(document: dict[str, Any]) -> tuple[int | None, ...]:
    (row,) = document["partitions"]
    return row["retried_count"], row["last_attempt_count"], row["archived_count"]


def test_how_often_records_were_delivered(kgroup: CommandLine, delivered: Callable[..., Delivered]) -> None:
    """The marker is archived only once it lies below the end of what was fetched, so the count is 2 or 3."""
    made = delivered()
    document = described(kgroup, made.group)

    assert counts(document)[:2] == (1, 1)
    assert counts(document)[2] in (2, 3)
    assert document["share"]["deliveries_since_at"] is not None
    assert document["share"]["deliveries_unknown_reason"] is None
    page = kgroup("describe", made.group).stdout
    assert "LAST-TRY  ARCHIVED" in page
    assert "markers of transactions are among them" in page
    assert counts(described(kgroup, made.group, "--scan-time", "0s")) == (None, None, None)
    assert "ARCHIVED" not in kgroup("describe", made.group, "--scan-time", "0s").stdout


@pytest.mark.soak
def test_peek_shows_the_records_themselves(kgroup: CommandLine, delivered: Callable[..., Delivered]) -> None:
    """Not the marker, which is archived too."""
    made = delivered()
    (document,) = kgroup("peek", made.group, "-o", "json").data

    assert [(each["offset"], each["kind"], each["delivery_count"]) for each in document["deliveries"]] == [
        (1, "archived", 1),
        (2, "archived", LIMIT),
        (5, "last-attempt", LIMIT - 1),
    ]
    assert [each["offset"] for each in document["records"]] == [1, 2, 5]
    page = kgroup("peek", made.group, "-o", "table").stdout
    assert "2 of 3, last attempt" in page
    assert [line["offset"] for line in map(json.loads, kgroup("peek", made.group, "-n", "1").stdout.splitlines())] == [
        2,
        5,
    ]
    (started,) = kgroup("peek", made.group, "--offset", "4", "-n", "1", "-o", "json").data
    assert ([each["offset"] for each in started["records"]], started["deliveries"]) == ([4], None)
    assert kgroup("peek", made.group, "--topic", f"{made.topic}-other", "-o", "json").data == []


def test_what_a_dead_letter_topic_has_is_not_shown(
    kgroup: CommandLine, world: KafkaWorld, name: Name, delivered: Callable[..., Delivered]
) -> None:
    dead = world.topic(f"dlq.{name('dead')}", 1, {"errors.deadletterqueue.group.enable": "true"})
    made = delivered(errors_deadletterqueue_topic_name=dead)
    wait_for(lambda: world.end(dead) == 2, "two dead letters")

    result = kgroup("peek", made.group, "-o", "json")
    (document,) = result.data
    assert [(each["offset"], each["kind"]) for each in document["deliveries"]] == [(5, "last-attempt")]
    assert f"{made.topic}:0: left out, 2 records that {dead} has" in result.stderr


def test_a_group_whose_records_are_all_done(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("jobs")
    world.configure_group(group, share_auto_offset_reset="earliest")
    world.produce(topic, 3)
    with sharer(world.bootstrap, group, topic) as member:
        member.accept(3)
    result = kgroup("peek", group, "-o", "json")
    assert result.data == []
    assert f"no record of {group} is known to be retried" in result.stderr


def test_what_the_doctor_finds(kgroup: CommandLine, delivered: Callable[..., Delivered]) -> None:
    """Without a dead-letter topic 2 is lost; 1, which was rejected at once, looks as a marker does."""
    made = delivered()
    (document,) = kgroup("doctor", made.group, "-o", "json").data
    assert document["unchecked_rules"] == []
    assert [(each["rule"], each["severity"], each["numbers"]) for each in document["findings"]] == [
        ("share-archived", "critical", {"offset_count": 1, "at_limit_count": 1}),
        ("share-last-attempts", "warning", {"offset_count": 1, "delivery_limit_count": LIMIT}),
    ]
    assert document["findings"][0]["commands"] == [f"kgroup peek {made.group}"]
    (unread,) = kgroup("doctor", made.group, "--scan-time", "0s", "-o", "json").data
    assert {"share-archived", "share-last-attempts"} <= {each["rule"] for each in unread["unchecked_rules"]}


def test_the_log_shows_what_the_coordinator_shows(kgroup: CommandLine, delivered: Callable[..., Delivered]) -> None:
    """Also the lag, which the state counts. Only the assignor is in no record."""
    made = delivered()

    def shown(*words: str) -> dict[str, Any]:
        document = described(kgroup, made.group, *words)
        kept = ("state", "type", "group_epoch", "assignment_epoch", "totals", "share")
        of_row = ("committed", "lag", "log_end", "retried_count", "last_attempt_count", "archived_count")
        rows = [{key: row[key] for key in of_row} for row in document["partitions"]]
        members = [(each["member_id"], each["assignment"]) for each in document["members"]]
        return {key: document[key] for key in kept} | {"rows": rows, "members": members}

    # A state that is about to be written makes the two differ for a moment.
    wait_for(lambda: shown() == shown("--from-log"), "the same from both")
    document = described(kgroup, made.group, "--from-log")
    assert (document["source"], document["state"]) == ("log", "Stable")
    assert document["partitions"][0]["lag"] >= 1
    page = kgroup("describe", made.group, "--from-log").stdout
    assert "SOURCE  from __consumer_offsets" in page
    assert "START" in page


@pytest.fixture
def given_back(world: KafkaWorld, name: Name) -> Iterator[tuple[str, Callable[[], object]]]:
    """A group with a limit of 2, that has given 2 back once; and what makes it do so again."""
    topic, group = world.topic(name("orders")), name("jobs")
    world.configure_group(group, share_auto_offset_reset="earliest", share_delivery_count_limit="2")
    world.produce(topic, 4)
    with sharer(world.bootstrap, group, topic) as member:
        habit = Habit()

        def deliver(times: int) -> None:
            wait_for(lambda: member.poll(habit) is not None and habit.seen[2] >= times, f"offset 2, {times} times")

        deliver(1)
        yield group, lambda: deliver(2)


def test_what_is_archived_during_a_wait_is_counted(
    kgroup: CommandLine, given_back: tuple[str, Callable[[], object]]
) -> None:
    group, give_back = given_back
    with running("wait", group, "--for", "lag=0", "--within", "60s", "-o", "json") as waiting:
        waiting.says("WAIT")
        give_back()
        (document,) = waiting.ends(0).data
    assert (document["lag"], document["archived_count"]) == (0, 1)
    (stable,) = kgroup("wait", group, "--for", "stable", "--within", "60s", "-o", "json").data
    assert stable["archived_count"] is None


@pytest.mark.soak
@pytest.mark.usefixtures("kgroup")
def test_what_is_archived_during_a_watch_is_counted(given_back: tuple[str, Callable[[], object]]) -> None:
    group, give_back = given_back
    with Terminal.kgroup("lag", group, "--watch", "--every", "500ms", columns=160) as terminal:
        terminal.says("q quits")
        give_back()
        terminal.says(f"{group} archived 1 offset meanwhile")
        terminal.type("q")
        assert terminal.ends(0) == ""
