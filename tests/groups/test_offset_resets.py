"""Offsets that were moved by no member: what was undone, released by kgroup or committed by a consumer is no reset."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from kgroup.groups.history.own_changes import OwnChanges
from kgroup.groups.offset_resets import OffsetReset, ResetPartition, offset_resets, with_changes, without_recreated
from kgroup.model.groups import LoggedCommit
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.lag import MINUTE, NOW, SECOND
from tests.helpers.for_each import for_each


def by(offset: int, ago_ms: int, metadata: str = "", epoch: int | None = None, partition: int = 0) -> LoggedCommit:
    return LoggedCommit("orders", partition, offset, epoch, NOW - ago_ms, -ago_ms, metadata, by_tool=True)


def read(offset: int, ago_ms: int, partition: int = 0) -> LoggedCommit:
    return LoggedCommit("orders", partition, offset, None, NOW - ago_ms, -ago_ms)


@dataclass(frozen=True)
class Reset:
    name: str
    commits: tuple[LoggedCommit, ...]
    said: tuple[str, ...] = ()
    others: tuple[LoggedCommit, ...] = field(default=())
    """Of another partition."""

    def __str__(self) -> str:
        return self.name


BACK = "orders:0 was moved back by 50 at 01:35:40Z by no member, while the group was Empty: read again from 50 on"
FORWARD = (
    "orders:0 was moved forward by 60 at 01:35:40Z by no member, while the group was Empty: no member committed "
    "offsets 100 to 159"
)


@for_each(
    "reset",
    [
        Reset("back", (read(100, 2 * MINUTE), by(50, MINUTE), read(70, SECOND)), (BACK,)),
        Reset(
            "back, and read to where it was",
            (read(100, 2 * MINUTE), by(50, MINUTE), read(100, SECOND)),
            (f"{BACK}, and read to where it was: nothing is left to undo",),
        ),
        Reset("forward", (read(100, 2 * MINUTE), by(160, MINUTE)), (FORWARD,)),
        Reset("the same offset", (read(100, 2 * MINUTE), by(100, MINUTE))),
        Reset("what was before is not known", (by(160, MINUTE), read(170, SECOND))),
        Reset("two in a row are one", (read(100, 2 * MINUTE), by(9, MINUTE), by(160, MINUTE - SECOND)), (FORWARD,)),
        Reset("undone at once", (read(100, 2 * MINUTE), by(9, MINUTE), by(100, MINUTE - SECOND))),
        Reset("undone later", (read(100, 3 * MINUTE), by(9, 2 * MINUTE), read(20, MINUTE), by(100, SECOND))),
        Reset(
            "the newest counts",
            (read(100, 80 * MINUTE), by(90, 70 * MINUTE), by(160, MINUTE)),
            ("orders:0 was moved forward",),
        ),
        Reset("set up before it was read", (by(0, 3 * MINUTE), by(160, MINUTE), read(170, SECOND))),
        Reset(
            "back to an old offset is no undo",
            (read(100, 9 * MINUTE), by(200, 8 * MINUTE), read(50_000, 2 * MINUTE), by(100, MINUTE)),
            ("orders:0 was moved back by 49.9k", "orders:0 was moved forward by 100"),
        ),
        Reset("longer ago", (read(100, 70 * MINUTE), by(9, 60 * MINUTE), read(20, MINUTE))),
        Reset("a release of a catch-up", (read(100, 2 * MINUTE), by(160, MINUTE, "kgroup cu-7f3a 3 release 100"))),
        Reset("a consumer with assign()", (read(100, 2 * MINUTE), by(160, MINUTE, epoch=4))),
        Reset(
            "of two partitions the farther one",
            (read(100, 2 * MINUTE), by(50, MINUTE)),
            (BACK.replace("50 at", "50 (and 1 more partition) at"),),
            others=(read(100, 2 * MINUTE, 1), by(110, MINUTE - SECOND, partition=1)),
        ),
        Reset(
            "two requests",
            (read(100, 2 * MINUTE), by(50, MINUTE)),
            (BACK, "orders:1 was moved forward by 10"),
            others=(read(100, 2 * MINUTE, 1), by(110, MINUTE + 2 * SECOND, partition=1)),
        ),
    ],
)
def test_what_was_reset(reset: Reset) -> None:
    commits = {TopicPartition("orders", 0): reset.commits, TopicPartition("orders", 1): reset.others}

    found = with_changes(offset_resets(commits, NOW), "svc", OwnChanges)

    assert len(found) == len(reset.said)
    for each, said in zip(found, reset.said, strict=True):
        assert each.words(NOW).startswith(said)


@pytest.mark.parametrize(
    ("old", "change", "is_empty", "commands"),
    [
        (100, None, True, ["undo svc --as-of", "peek orders:0 --offset 100", "history svc --commits"]),
        (100, None, False, ["catchup start --range orders:0=100-160", "peek orders:0", "history svc --commits"]),
        (200, None, True, ["undo svc --as-of", "history svc --commits"]),
        (200, None, False, ["undo svc --as-of", "history svc --commits"]),
        (100, "ch-7k2f", True, ["catchup start svc --skipped-by ch-7k2f", "history svc --commits"]),
        (200, "ch-7k2f", True, ["history svc --commits"]),
    ],
)
def test_what_a_reset_asks_for(old: int, change: str | None, *, is_empty: bool, commands: list[str]) -> None:
    """What was skipped can be read, or delivered; what kgroup did is not to be undone without being asked."""
    reset = OffsetReset(NOW - MINUTE, (ResetPartition(old, NOW - MINUTE, by(160, MINUTE)),), change)

    found = [str(command).removeprefix("kgroup ") for command in reset.commands("svc", is_empty=is_empty)]

    assert len(found) == len(commands)
    assert all(text.startswith(wanted) for text, wanted in zip(found, commands, strict=True)), found


IDS = {-2 * MINUTE: "id-1", -MINUTE: "id-1"}


@pytest.mark.parametrize(
    ("ids", "present", "count"),
    [
        (IDS, {"orders": "id-1"}, 1),
        # Recreated since; its topic cannot be read; a broker before 4.1.
        (IDS, {"orders": "id-2"}, 0),
        (IDS, {}, 1),
        (IDS, {"orders": None}, 1),
        ({}, {"orders": "id-2"}, 1),
        # The offset before the reset was one of the old topic.
        (IDS | {-2 * MINUTE: "id-0"}, {"orders": "id-1"}, 0),
    ],
)
def test_a_topic_that_was_recreated_has_no_reset(
    ids: dict[int, str], present: dict[str, str | None], count: int
) -> None:
    commits = {TopicPartition("orders", 0): (read(100, 2 * MINUTE), by(160, MINUTE), read(170, SECOND))}

    assert len(without_recreated(offset_resets(commits, NOW, ids), present)) == count


def test_what_was_read_again_is_not_undone() -> None:
    """An undo would read all that came since once more."""
    (reset,) = offset_resets({TopicPartition("orders", 0): (read(100, 2000), by(50, 1000), read(170, 0))}, NOW)

    assert [str(command) for command in reset.commands("svc", is_empty=True)] == ["kgroup history svc --commits"]
