"""Topics that were deleted while members subscribed to them, from the events of a group."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgroup.groups.deleted_topics import DeletedTopic, deleted_topics, deleted_topics_words
from kgroup.model.group_log import (
    CommitWritten,
    Event,
    GenerationMember,
    GenerationWritten,
    MemberDetails,
    MemberWritten,
    PatternResolved,
    TransactionEnd,
)

HOUR, NOW = 3_600_000, 1_795_300_000_000


def generation(*topics: str) -> GenerationWritten:
    """A member of a classic group that subscribes to these topics; without any, the group is Empty."""
    one = GenerationMember("m0", None, "c0", "/h", 10_000, None, frozenset(topics), None)
    return GenerationWritten(1, 1, 1, "consumer", "range", "m0", None, (one,) if topics else ())


def joined(*topics: str, pattern: str | None = None) -> MemberWritten:
    return MemberWritten(1, 1, "m0", MemberDetails(None, "c", "/h", frozenset(topics), pattern, None, None))


def commit(topic: str, offset: int | None, ago_ms: int = 60_000, partition: int = 0) -> CommitWritten:
    return CommitWritten(1, NOW - ago_ms, topic, partition, offset, "", None, None, TransactionEnd.PLAIN)


LEFT = MemberWritten(1, 1, "m0", None)
GONE = commit("a", None)


@pytest.mark.parametrize(
    ("events", "found"),
    [
        # The client leaves it out of its subscription soon, but not before.
        ([generation("a", "b"), commit("a", 5), GONE, commit("a", None, 59_000, 1), generation("b")], [("a", 2)]),
        ([joined("a"), GONE], [("a", 1)]),
        ([joined(pattern="a.*"), PatternResolved(1, 1, "a.*", frozenset({"a"})), GONE], [("a", 1)]),
        ([generation("a", "b"), GONE, commit("b", None, 1_000)], [("b", 1), ("a", 1)]),
        # Expired, or deleted by a client: no member subscribed to it.
        ([generation("b"), GONE], []),
        ([generation("a"), generation(), GONE], []),
        ([joined("a"), LEFT, GONE], []),
        ([joined(pattern="a.*"), PatternResolved(1, 1, "a.*", None), GONE], []),
        ([GONE], []),
        # Read again, or long ago.
        ([generation("a"), GONE, commit("a", 3, 1_000)], []),
        ([generation("a"), commit("a", None, HOUR + 1)], []),
        ([generation("a"), commit("a", 3)], []),
    ],
)
def test_topics_that_were_deleted(events: Sequence[Event], found: list[tuple[str, int]]) -> None:
    assert [(one.topic, one.partitions) for one in deleted_topics(events, NOW)] == found


def test_words() -> None:
    one, other = DeletedTopic("a", NOW, 1), DeletedTopic("b", NOW, 12)
    at = "22:26:40Z"
    assert deleted_topics_words([one], NOW) == (
        f"a was deleted at {at} while members subscribed to it, and 1 committed offset with it"
    )
    assert deleted_topics_words([one, other], NOW) == (
        f"a, b were deleted at {at} while members subscribed to them, and 13 committed offsets with them"
    )
