"""What looks at a group in a rollout come to, and the words for it: tables of cases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kgroup.groups.migration.rollout import (
    FollowedGroup,
    back_text,
    finished_line,
    joined_text,
    line_of,
    rollout_events,
    rollout_summary,
)
from kgroup.model.groups import Group, Member, TopicPartitions


def member(
    name: str,
    protocol: str | None = "classic",
    held: Sequence[int] = (),
    *,
    epoch: int | None = None,
    instance: str | None = None,
    key: str = "",
) -> Member:
    assignment = (TopicPartitions("orders", tuple(held)),) if held else ()
    host = f"10.0.7.{name.rpartition('-')[2]}"
    return Member(key or f"{name}-id", instance, name, host, None, epoch, protocol, None, None, assignment, None)


def old(number: int, *held: int) -> Member:
    return member(f"pay-{number}", "classic", held)


def new(number: int, *held: int, epoch: int | None = None) -> Member:
    return member(f"new-{number}", "consumer", held, epoch=epoch)


def group(kind: str, *members: Member, state: str = "", epoch: int | None = None, name: str = "pay-svc") -> Group:
    state = state or ("Stable" if members else "Empty")
    epoch = epoch if kind == "classic" else epoch or 5
    return Group(name, kind, state, "consumer", None, None, None, None, epoch, epoch, members, ())


def looks(*groups: Group | None, target: str = "consumer", name: str = "pay-svc") -> FollowedGroup:
    """After one look a second."""
    followed = FollowedGroup(name, target)
    for second, found in enumerate(groups):
        followed = followed.step(found, float(second))
    return followed


CLASSIC = group("classic", old(0, 0, 1), old(1, 2, 3))
MIXED = group("consumer", old(0, 0, 1), new(1, 2, 3), epoch=8)
UPGRADED = group("consumer", new(1, 2, 3, epoch=9), new(2, 0, 1, epoch=9), epoch=9)
UNTOLD = group("consumer", member("pay-0", None, (0, 1)), new(1, 2, 3))


@pytest.mark.parametrize(
    ("found", "target", "finished"),
    [
        (None, "consumer", False),
        (group("consumer"), "consumer", False),
        (group("classic"), "classic", False),
        (CLASSIC, "consumer", False),
        (CLASSIC, "classic", True),
        (group("classic", old(0), state="PreparingRebalance"), "classic", False),
        (MIXED, "consumer", False),
        (MIXED, "classic", False),
        (UPGRADED, "consumer", True),
        (UPGRADED, "classic", False),
        (group("consumer", new(1, epoch=8), epoch=9), "consumer", False),
        (group("consumer", new(1), state="Reconciling"), "consumer", False),
        # Only classic members, but the broker did not turn the group.
        (group("consumer", old(0), old(1)), "classic", False),
        (group("consumer", old(0), old(1)), "consumer", False),
        # A broker older than 4.0 does not tell what a member speaks.
        (UNTOLD, "consumer", False),
    ],
)
def test_finished(found: Group | None, target: str, finished: bool) -> None:
    assert looks(found, target=target).finished is finished


@pytest.mark.parametrize(
    ("seen", "moved"),
    [
        ((CLASSIC,), 0),
        ((None, CLASSIC), 0),
        ((CLASSIC, CLASSIC), 0),
        # One is new and has two of the four; the other two stay when the group's type changes.
        ((CLASSIC, MIXED), 2),
        ((CLASSIC, MIXED, UPGRADED), 4),
        # Revoked first and given away later: once.
        (
            (
                group("classic", old(0, 0, 1)),
                group("consumer", old(0, 0), new(1)),
                group("consumer", old(0, 0), new(1, 1)),
            ),
            1,
        ),
        # During a rebalance of a classic group nobody tells what he holds.
        ((CLASSIC, group("classic", old(0), old(1), state="PreparingRebalance"), CLASSIC), 0),
        # There and back is two moves.
        (
            (
                group("classic", old(0, 0), old(1)),
                group("classic", old(0), old(1, 0)),
                group("classic", old(0, 0), old(1)),
            ),
            2,
        ),
        # A static member that restarts is the same.
        (
            (
                group("classic", member("pay-0", "classic", (0, 1), instance="pay-0", key="a")),
                group("consumer", member("pay-0", "consumer", (0, 1), instance="pay-0", key="b")),
            ),
            0,
        ),
    ],
)
def test_partitions_moved(seen: tuple[Group | None, ...], moved: int) -> None:
    assert looks(*seen).moved == moved


@pytest.mark.parametrize(
    ("seen", "target", "text"),
    [
        ((group("consumer"), group("classic", old(0))), "consumer", "a classic member (pay-0 10.0.7.0) joined first"),
        (
            (group("consumer"), group("classic", *[old(n) for n in range(5)])),
            "consumer",
            "classic members (pay-0 10.0.7.0, pay-1 10.0.7.1, pay-2 10.0.7.2 and 2 more) joined first",
        ),
        ((UPGRADED, group("classic", old(0))), "consumer", "a classic member (pay-0 10.0.7.0) joined first"),
        # An empty group without commits goes; what comes then under its name is of the first member's type too.
        (
            (group("consumer"), None, group("classic", old(0))),
            "consumer",
            "a classic member (pay-0 10.0.7.0) joined first",
        ),
        (
            (MIXED, group("classic", old(0))),
            "consumer",
            "its last consumer member has left, and a classic member (pay-0 10.0.7.0) stayed",
        ),
        (
            (group("classic"), group("consumer", new(1))),
            "classic",
            "a consumer member (new-1 10.0.7.1) joined first",
        ),
        ((CLASSIC, group("consumer", old(0), old(1), new(3))), "classic", "a consumer member (new-3 10.0.7.3) joined"),
    ],
)
def test_reverted_count(seen: tuple[Group | None, ...], target: str, text: str) -> None:
    before, after = looks(*seen[:-1], target=target), looks(*seen, target=target)
    kind = "classic" if target == "consumer" else "consumer"
    assert list(rollout_events(before, after)) == [("REVERTED", f"pay-svc is {kind} again: {text}")]
    assert (before.reverted_count, after.reverted_count) == (0, 1)


def test_reverted_count_and_empty() -> None:
    before, after = looks(group("consumer")), looks(group("consumer"), group("classic"))
    assert (
        back_text(before, after)
        == "pay-svc is classic again, and Empty: a classic member joined and left, or another client converted it"
    )


@pytest.mark.parametrize(
    ("seen", "target"),
    [
        ((CLASSIC,), "consumer"),
        ((CLASSIC, MIXED), "consumer"),
        ((MIXED, UPGRADED), "consumer"),
        ((UPGRADED, None), "consumer"),
        ((UPGRADED, MIXED, CLASSIC), "classic"),
    ],
)
def test_not_reverted_count(seen: tuple[Group | None, ...], target: str) -> None:
    assert looks(*seen, target=target).reverted_count == 0


def test_reverted_count_more_than_once() -> None:
    assert looks(group("consumer"), CLASSIC, MIXED, CLASSIC, CLASSIC).reverted_count == 2


@pytest.mark.parametrize(
    ("seen", "target", "text"),
    [
        (
            (group("consumer", new(1)), group("consumer", new(1), old(4))),
            "consumer",
            "pay-svc a classic member joined: pay-4 10.0.7.4",
        ),
        (
            (MIXED, group("consumer", new(1), *[old(n) for n in range(6)])),
            "consumer",
            "pay-svc 5 classic members joined: pay-1 10.0.7.1, pay-2 10.0.7.2, pay-3 10.0.7.3 and 2 more",
        ),
        (
            (MIXED, group("consumer", old(0), new(1), new(2))),
            "classic",
            "pay-svc a consumer member joined: new-2 10.0.7.2",
        ),
        # A static member that comes back as it was is no news; one that comes back with the old client is.
        (
            (
                group("consumer", member("pay-0", "consumer", instance="pay-0"), new(1)),
                group("consumer", member("pay-0", "classic", instance="pay-0"), new(1)),
            ),
            "consumer",
            "pay-svc a classic member joined: pay-0 10.0.7.0",
        ),
        (
            (
                group("consumer", member("pay-0", "classic", instance="pay-0", key="a"), new(1)),
                group("consumer", member("pay-0", "classic", instance="pay-0", key="b"), new(1)),
            ),
            "consumer",
            None,
        ),
        # Before a rollout begins, members of the old protocol come and go as they like.
        ((group("classic", old(0)), group("classic", old(0), old(1))), "consumer", None),
        ((MIXED, UPGRADED), "consumer", None),
        ((MIXED,), "consumer", None),
        ((MIXED, None), "consumer", None),
    ],
)
def test_joined(seen: tuple[Group | None, ...], target: str, text: str | None) -> None:
    before, after = looks(*seen[:-1], target=target), looks(*seen, target=target)
    assert joined_text(before, after) == text
    assert list(rollout_events(before, after)) == ([("ROLLOUT", text)] if text else [])


@pytest.mark.parametrize(
    ("seen", "target", "text"),
    [
        ((None,), "consumer", "pay-svc does not exist: waiting for it"),
        (
            (group("consumer"), None),
            "consumer",
            "pay-svc is gone (the broker deletes a group without members and commits at its next check): "
            "waiting until it exists again",
        ),
        (
            (group("consumer"),),
            "consumer",
            "pay-svc is Empty, of type consumer: the first member that joins decides its type",
        ),
        (
            (CLASSIC,),
            "consumer",
            "pay-svc 0 of 2 members speak consumer, 0 partitions moved; still classic: pay-0 10.0.7.0, pay-1 10.0.7.1",
        ),
        (
            (CLASSIC, MIXED),
            "consumer",
            "pay-svc 1 of 2 members speak consumer, epoch 8, 2 partitions moved; still classic: pay-0 10.0.7.0",
        ),
        (
            (group("consumer", *[old(n) for n in range(4)], new(4), state="Reconciling", epoch=14),),
            "consumer",
            "pay-svc 1 of 5 members speak consumer, epoch 14, 0 partitions moved, Reconciling",
        ),
        (
            (group("consumer", new(1), epoch=2),),
            "consumer",
            "pay-svc 1 of 1 member speaks consumer, epoch 2, 0 partitions moved",
        ),
        (
            (UNTOLD,),
            "consumer",
            "pay-svc 1 of 2 members speak consumer, epoch 5, 0 partitions moved; "
            "the broker does not report which protocol 1 member speaks",
        ),
        (
            (group("consumer", old(0), epoch=4),),
            "classic",
            "pay-svc 1 of 1 member speaks classic, epoch 4, 0 partitions moved; "
            "its type stays consumer until all its members are stopped at once: "
            "group.consumer.migration.policy does not allow a downgrade, or group.max.size is less than its members",
        ),
    ],
)
def test_where_it_stands(seen: tuple[Group | None, ...], target: str, text: str) -> None:
    assert line_of(looks(*seen, target=target)).text == text


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        # Partitions that go on moving are no event; a rebalance, a member, its end are.
        ((MIXED,), (CLASSIC, MIXED), True),
        ((MIXED,), (group("consumer", old(0, 0, 1), new(1, 2, 3), epoch=9),), False),
        ((MIXED,), (group("consumer", old(0, 0, 1), new(1, 2, 3), epoch=8, state="Reconciling"),), False),
        ((MIXED,), (group("consumer", old(2, 0, 1), new(1, 2, 3), epoch=8),), False),
        ((group("classic"),), (group("consumer"),), False),
    ],
)
def test_what_is_an_event(one: tuple[Group, ...], other: tuple[Group, ...], same: bool) -> None:
    assert (line_of(looks(*one)).key == line_of(looks(*other)).key) is same


@pytest.mark.parametrize(
    ("seen", "now_s", "left_s"),
    [
        ((UPGRADED,), 0.0, 0.0),
        ((UPGRADED, UPGRADED, UPGRADED), 2.0, 0.0),
        ((CLASSIC, MIXED, UPGRADED), 2.5, 2.5),
        ((CLASSIC, MIXED, UPGRADED, UPGRADED), 4.0, 1.0),
        ((CLASSIC, MIXED, UPGRADED), 9.0, 0.0),
        # The epoch alone tells of a member that came and went between two looks.
        ((UPGRADED, group("consumer", *UPGRADED.members or (), epoch=11)), 1.0, 3.0),
    ],
)
def test_nothing_has_changed_for_a_while(seen: tuple[Group, ...], now_s: float, left_s: float) -> None:
    assert looks(*seen).unsettled_s(now_s, 3.0) == left_s


def test_epochs_are_those_of_the_present_type() -> None:
    later = group("consumer", new(1), epoch=12)
    assert looks(CLASSIC).first_epoch is None
    assert looks(CLASSIC, MIXED, later).first_epoch == 8
    assert looks(MIXED, CLASSIC).first_epoch is None
    assert looks(MIXED, None, later).first_epoch == 8
    assert looks(MIXED, CLASSIC, later).first_epoch == 12


def test_counts() -> None:
    assert looks(MIXED).members == {"classic": 1, "consumer": 1}
    assert looks(None).members == looks(group("classic")).members == {"classic": 0, "consumer": 0}
    assert (looks(UNTOLD).members, looks(UNTOLD).member_count) == ({"classic": 0, "consumer": 1}, 2)


def test_the_end_is_said() -> None:
    assert finished_line(looks(UPGRADED)).text == "pay-svc finished: 2 members, all consumer"
    assert (
        finished_line(looks(group("classic", old(0)), target="classic")).text == "pay-svc finished: 1 member, classic"
    )


def test_many_groups_in_one_line() -> None:
    names = [f"svc-{number}" for number in range(7)]
    first = looks(CLASSIC, MIXED, UPGRADED, name="svc-0")
    groups = [first, *(looks(CLASSIC, MIXED, name=name) for name in names[1:])]
    line = rollout_summary(groups, ["svc-0"])
    assert line.text == (
        "1 of 7 groups finished: 8 of 14 members speak consumer, 16 partitions moved; "
        "not yet: svc-1, svc-2, svc-3 and 3 more"
    )
    assert line.key == rollout_summary([first, *(looks(CLASSIC, name=name) for name in names[1:])], ["svc-0"]).key
    assert rollout_summary(groups, names).text == "all 7 groups finished: 14 members, all consumer"
