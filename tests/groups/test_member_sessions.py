"""What observations show of sessions, and the texts about members that remain."""

from __future__ import annotations

from msgspec.structs import replace

from kgroup.groups.member_sessions import (
    Liveness,
    ObservedMembers,
    SessionBound,
    evict_text,
    lines_of_members,
    remaining_members,
    session_text,
)
from tests.helpers.cases.observed_groups import STATIC, group, member


def test_names_are_quoted_in_commands() -> None:
    odd = replace(group("Stable", replace(STATIC, instance_id="a b")), name="pay svc")
    assert evict_text(odd, {}) == "kgroup evict 'pay svc' --instance 'a b' removes it now"


def test_members_of_a_refusal_stand_in_columns() -> None:
    found = group("Stable", member("orders-svc-0", key="x"), replace(STATIC, host="10.0.3.14", member_id="y"))
    assert lines_of_members(
        found, {"x": SessionBound(Liveness.ALIVE, 45), "y": SessionBound(Liveness.COUNTING, 38)}
    ) == (
        "orders-svc-0  10.0.7.6   its last heartbeat was less than 45s ago",
        "pay-4         10.0.3.14  static, session ends within 38s if it is gone",
    )


def test_many_remaining_members_are_one_line() -> None:
    """Those of a crash loop share a client id, so a line of each would show its UUID."""
    many = [member("rdkafka", key=f"rdkafka-{n}") for n in range(36)]
    assert remaining_members(group("Stable", *many), {}) == (
        "svc: 36 members (rdkafka 10.0.7.6, rdkafka 10.0.7.6, rdkafka 10.0.7.6 and 33 more)",
    )
    few = group("Stable", *many[:2], STATIC)
    assert remaining_members(few, {}) == (
        *(f"svc: {line}" for line in lines_of_members(few, {})),
        evict_text(few, {}),
    )


def test_a_session_that_ends_in_a_moment() -> None:
    assert session_text(member(), SessionBound(Liveness.COUNTING, 0.01)) == "session ends within 1s if it is gone"


def test_bound_counts_from_first_sight() -> None:
    """A member that was dead at t goes by t + its timeout; one that is listed later lives."""
    early, late = member("early"), member("late")
    watched = ObservedMembers().step(group("Stable", early), 100)
    watched = watched.step(group("Stable", early, late), 130)
    assert watched.session(early, 45_000, 131) == SessionBound(Liveness.COUNTING, 14)
    assert watched.session(late, 45_000, 131) == SessionBound(Liveness.COUNTING, 44)
    assert watched.session(early, 45_000, 146) == SessionBound(Liveness.ALIVE, 45)
    assert watched.session(early, None, 146).life is Liveness.UNKNOWN
    # One that left and came back under the same id counts anew.
    again = watched.step(group("Stable", late), 150).step(group("Stable", early, late), 160)
    assert again.session(early, 45_000, 160) == SessionBound(Liveness.COUNTING, 45)
    assert watched.step(None, 160) == ObservedMembers()


def test_bound_counts_anew_after_what_renews_sessions() -> None:
    one = member()
    watched = ObservedMembers().step(group("Stable", one), 0)
    moved = watched.step(group("Stable", one, coordinator=2), 40)
    assert moved.session(one, 45_000, 50) == SessionBound(Liveness.COUNTING, 35)
    # No session ends in a classic rebalance; the first look after it may be later than its end, never before.
    rebalancing = watched.step(group("PreparingRebalance", one), 40)
    assert rebalancing.session(one, 45_000, 44) == SessionBound(Liveness.REBALANCING, 45)
    over = rebalancing.step(group("Stable", one), 42)
    assert over.session(one, 45_000, 43) == SessionBound(Liveness.COUNTING, 44)
    # The consumer protocol has no such thing.
    state = group("Reconciling", one, kind="consumer")
    assert ObservedMembers().step(state, 0).step(state, 40).session(one, 45_000, 44) == SessionBound(
        Liveness.COUNTING, 1
    )


def test_bound_of_a_static_member_counts_from_its_leaving() -> None:
    here, left = replace(STATIC, epoch=5), replace(STATIC, epoch=-2)
    watched = ObservedMembers().step(group("Stable", here, kind="consumer"), 0)
    for now in (40.0, 50.0):
        watched = watched.step(group("Reconciling", left, kind="consumer"), now)
    assert watched.session(left, 45_000, 50) == SessionBound(Liveness.COUNTING, 35)
