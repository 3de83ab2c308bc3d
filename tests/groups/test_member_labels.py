"""How members are named, what they read, and those that a killed kgroup left behind."""

from __future__ import annotations

import pytest

from kgroup.groups.member_labels import (
    labels,
    member_names,
    stale_members,
    subscribed_topics,
    topics_of_some,
    unsubscribed_topics,
    without_stale_members,
)
from kgroup.model.commit import Commit
from kgroup.model.group_log import GenerationMember, GenerationWritten, MemberDetails, MemberWritten
from kgroup.model.groups import Group, Member, Partition, TopicPartitions
from kgroup.model.migration_facts import OWN_MEMBER_PREFIX
from kgroup.model.topic_partition import TopicPartition

OWN = OWN_MEMBER_PREFIX + "1"


def member(
    name: str,
    client: str = "app",
    *,
    instance: str | None = None,
    host: str = "h1",
    reads: tuple[str, ...] | None = ("orders",),
    regex: str | None = None,
    owns: tuple[str, ...] | None = None,
) -> Member:
    assignment = None if owns is None else tuple(TopicPartitions(topic, (0,)) for topic in owns)
    return Member(name, instance, client, host, None, None, None, reads, regex, assignment, None)


def group(
    members: tuple[Member, ...] | None,
    *commits: str,
    state: str = "Stable",
    owner: Member | None = None,
    without: str | None = None,
) -> Group:
    rows = [Partition(TopicPartition(topic, 0), Commit(1, None, ""), None, owner, None) for topic in commits]
    rows += [Partition(TopicPartition(without, 0), None, None, None, None)] if without else []
    return Group("svc", "classic", state, "consumer", None, None, None, None, None, None, members, tuple(rows))


PATTERN = member("a", reads=(), regex="ord.*", owns=("orders",))


def test_a_name_that_several_have_is_no_name() -> None:
    found = group((member("a"), member("b"), member("c", instance="i-1"), member("d", "other"), member("e", "")))
    assert member_names(found) == {"a": "a", "b": "b", "c": "i-1", "d": "other", "e": "e"}
    assert member_names(group(None)) == {}


def test_with_its_host_a_name_need_not_be_unique() -> None:
    found = group((member("a"), member("b", host="h2"), member("c", host="h2"), member("d", "other")))
    assert labels(found) == {"a": "app", "b": "b", "c": "c", "d": "other"}


@pytest.mark.parametrize(
    ("members", "topics"),
    [
        ((member("a"), member("b", reads=("pay", "orders"))), {"orders", "pay"}),
        ((), set()),
        (None, None),
        ((member("a"), member("b", reads=None)), None),
        ((member("a", regex="ord.*"),), None),
    ],
)
def test_topics_that_members_subscribe_to(members: tuple[Member, ...] | None, topics: set[str] | None) -> None:
    assert subscribed_topics(group(members)) == topics


@pytest.mark.parametrize(
    ("found", "topics"),
    [
        (group((member("a"),), "orders", "pay"), {"pay"}),
        (group((member("a"),), "orders", without="pay"), set()),
        (group((member("a"),), "pay", owner=member("a")), set()),
        (group((member("a"),), "pay", state="PreparingRebalance"), set()),
        (group((member("a", reads=None),), "pay"), set()),
        # Of a pattern the assignment of a Stable group shows what it matches.
        (group((PATTERN, member("b", reads=(), regex="n.*", owns=())), "orders", "pay"), {"pay"}),
        (group((PATTERN, member("b", reads=("pay",), owns=())), "orders", "pay"), set()),
        (group((PATTERN, member("b", reads=("new",), owns=("pay",))), "orders", "pay"), set()),
        (group((PATTERN,), "orders", "pay", state="Reconciling"), set()),
        (group((PATTERN,), "orders", "pay", state="Assigning"), set()),
        (group((PATTERN, member("b", reads=(), regex="p.*")), "orders", "pay"), set()),  # its assignment is unknown
        (group((PATTERN, member("b", reads=None, owns=())), "orders", "pay"), set()),
        (group((PATTERN, member(OWN, owns=())), "orders", "pay"), set()),
        (group((member("a"), member(OWN)), "pay"), set()),  # it subscribes to the topics of its change alone
        (group((), "pay", state="Empty"), set()),
        (group(None, "pay"), set()),
    ],
)
def test_topics_with_commits_that_nobody_reads(found: Group, topics: set[str]) -> None:
    assert unsubscribed_topics(found) == topics


def generation(*topics: frozenset[str] | None) -> GenerationWritten:
    """Members that subscribe to these topics, one each."""
    members = tuple(
        GenerationMember(f"m{n}", None, f"c{n}", "/h", 10_000, None, each, None) for n, each in enumerate(topics)
    )
    return GenerationWritten(1, 1, 1, "consumer", "range", "m0", None, members)


def joined(member_id: str, *topics: str, pattern: str | None = None) -> MemberWritten:
    return MemberWritten(1, 1, member_id, MemberDetails(None, "c", "/h", frozenset(topics), pattern, None, None))


A, B = frozenset({"a"}), frozenset({"b"})


@pytest.mark.parametrize(
    ("events", "topics"),
    [
        ([generation(A), generation(A, B), generation(A)], {"a", "b"}),  # two services
        ([generation(A | B, A | B), generation(), generation(A, A)], set()),  # a topic that was left
        ([generation(A | B, A | B), generation(A, A | B), generation(A, A)], {"b"}),  # one member after the other
        ([generation(A, None)], set()),
        ([joined("m0", "a"), joined("m1", "b"), MemberWritten(1, 1, "m1", None)], {"a", "b"}),
        ([joined("m0", "a"), MemberWritten(1, 1, "m0", None), joined("m1", "b")], set()),
        ([joined("m0", "a"), joined("m1", "a"), joined("m2", pattern="b.*")], set()),
        ([], set()),
    ],
)
def test_topics_that_only_some_members_read(events: list[object], topics: set[str]) -> None:
    assert topics_of_some(events) == topics


def test_members_that_a_killed_run_left() -> None:
    alone, both, none = group((member(OWN),)), group((member("a"), member(OWN))), group((member("a"),))

    assert stale_members([alone]) == {"svc": (OWN,)}
    assert stale_members([none, group(None)]) == {}
    after = without_stale_members(alone)
    assert (after.members, after.state) == ((), "Empty")
    after = without_stale_members(both)
    assert ([each.member_id for each in after.members or ()], after.state) == (["a"], "Stable")
    assert without_stale_members(none) is none
