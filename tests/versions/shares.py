"""A share group on a broker of another version, and that version's own tool."""

from __future__ import annotations

from typing import Any

from tests.helpers.command_line import CommandLine
from tests.helpers.share_consumers import ACCEPT, REJECT, RELEASE, sharer
from tests.helpers.waiting import wait_for
from tests.versions.kafka import Kafka

ORDERS, JOBS, OTHER = "share-orders", "share-jobs", "share-other"
OF_OTHER = {(ORDERS, 0): 7, (ORDERS, 1): 8}

kgroup = CommandLine()


def _rows(group: str, *words: str) -> dict[tuple[str, int], dict[str, Any]]:
    (document,) = kgroup("describe", group, *words, "-o", "json").data
    return {(row["topic"], row["partition"]): row for row in document["partitions"]}


Known = tuple[int, int | None]
"""Start offset and lag; None: the broker does not count it."""


def _starts(group: str, *words: str) -> dict[tuple[str, int], Known]:
    """Start offset and lag of each partition."""
    return {place: (row["committed"], row["lag"]) for place, row in _rows(group, *words).items()}


def _prepare(kafka: Kafka) -> None:
    """A share group without members yet, and another one of the same topic."""
    kafka.world.topic(ORDERS, 2)
    for partition in (0, 1):
        kafka.world.produce(ORDERS, 10, partition)
    kafka.world.configure_group(JOBS, share_auto_offset_reset="earliest")
    if kafka.version >= "4.3":  # before, it is the brokers' alone
        kafka.world.configure_group(JOBS, share_delivery_count_limit="10")
    to = ",".join(f"{topic}:{partition}={start}" for (topic, partition), start in OF_OTHER.items())
    kgroup("reset", OTHER, "--type", "share", "--create", "--to-offset", to, "--execute")


def check_share_group(kafka: Kafka, *, counts_unread: bool = True) -> None:
    """What kgroup reads and changes of it is what this version's own tool shows, and the other group stays as it is.

    ``counts_unread`` is whether the broker has a lag of partitions that were not read since their offset was set.
    """
    _prepare(kafka)
    habits = {(0, 0): RELEASE, (1, 0): RELEASE, (1, 4): REJECT}
    with sharer(kafka.bootstrap, JOBS, ORDERS) as member:
        member.accept(17, lambda message: habits.get((message.partition(), message.offset()), ACCEPT))
    kgroup("wait", JOBS, "--for", "empty", "--within", "60s")

    def unread(start: int) -> Known:
        return start, 10 - start if counts_unread else None

    def checked(first: Known, second: Known) -> None:
        expected = {(ORDERS, 0): first, (ORDERS, 1): second}
        wait_for(lambda: _starts(JOBS) == expected, f"{expected} of {JOBS}")
        assert kafka.of_share_group(JOBS) == expected
        assert _starts(JOBS, "--from-log") == expected

    checked((0, 1), (0, 1))
    counts = [(row["retried_count"], row["archived_count"]) for row in _rows(JOBS).values()]
    assert counts == [(1, 0), (1, 1)]
    (lag,) = kgroup("lag", JOBS, "-o", "json").data
    assert [row["lag"] for row in lag["partitions"]] == [1, 1]
    assert {row["group"] for row in kgroup("list", "--type", "share", "-o", "json").data} == kafka.of_kind("share")
    peeked = {
        (document["partition"], each["offset"], each["kind"])
        for document in kgroup("peek", JOBS, "-o", "json").data
        for each in document["deliveries"]
    }
    assert peeked == {(0, 0, "retried"), (1, 0, "retried"), (1, 4, "archived")}
    kgroup("doctor", JOBS)

    kgroup("reset", JOBS, "--topic", f"{ORDERS}:1", "--to-offset", "4", "--execute")
    checked((0, 1), unread(4))
    kgroup("undo", "--execute")
    checked((0, 1), unread(0))
    kgroup("delete-offsets", JOBS, "--topic", ORDERS, "--execute")
    assert (_starts(JOBS), kafka.of_share_group(JOBS)) == ({}, {})
    kgroup("undo", "--execute")
    checked(unread(0), unread(0))
    kgroup("delete", JOBS, "--execute")
    assert kafka.of_kind("share") == {OTHER}
    kgroup("undo", "--execute")
    checked(unread(0), unread(0))

    assert kafka.of_share_group(OTHER) == _starts(OTHER) == {place: unread(start) for place, start in OF_OTHER.items()}
    kgroup("delete", JOBS, OTHER, "--execute")
    assert kafka.of_kind("share") == set()
