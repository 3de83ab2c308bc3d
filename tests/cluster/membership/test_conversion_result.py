"""What the descriptions before, during and after a conversion come to; a table."""

from __future__ import annotations

import pytest

from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.cluster.membership.conversion_result import converted_or_why_not, refuse_conversion, unverified
from kgroup.model.groups import Member
from kgroup.model.migration_facts import OWN_MEMBER_PREFIX
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound, Refused, Unreachable

REFUSED = NotAuthorized("no READ")
SILENT = Unreachable("broker 1 did not answer within the timeout", code="timed-out")


def member(member_id: str, client_id: str = "web-1") -> Member:
    return Member(member_id, None, client_id, "10.0.0.3", None, None, "classic", None, None, None, None)


OWN, WEB = member(f"{OWN_MEMBER_PREFIX}1", "kgroup"), member("web-1-uuid")


def group(kind: str, *members: Member, state: str | None = None, protocol_type: str | None = None) -> GroupDescription:
    protocol_type = protocol_type or ("consumer" if members or kind == "consumer" else "")
    return GroupDescription(kind, state or ("Stable" if members else "Empty"), protocol_type, None, None, None, members)


@pytest.mark.parametrize(
    ("before", "code"),
    [
        (group("classic"), None),
        (group("consumer"), None),
        (group("classic", protocol_type="consumer"), None),
        (NotFound("no such group"), "not-found"),
        (None, "not-found"),
        (SILENT, "timed-out"),
        (group("classic", protocol_type="connect"), "foreign-owner"),
        (group("classic", WEB), "joined-meanwhile"),
        (group("consumer", OWN, WEB), "joined-meanwhile"),
        (group("consumer", state="Assigning"), "joined-meanwhile"),
        (group("consumer", OWN), "not-empty"),
    ],
)
def test_what_may_be_entered(before: GroupDescription | KgroupError | None, code: str | None) -> None:
    error = refuse_conversion("svc", before)
    assert (error.code if error else None) == code


def test_a_member_of_an_earlier_round_is_removed_by_another_round() -> None:
    """Unreachable is what the conversion tries again; a consumer that is there, too, is still the reason."""
    assert isinstance(refuse_conversion("svc", group("consumer", OWN), joined=True), Unreachable)
    both = refuse_conversion("svc", group("consumer", OWN, WEB), joined=True)
    assert isinstance(both, Refused)
    assert both.code == "joined-meanwhile"


@pytest.mark.parametrize(
    ("between", "after", "refusal", "code"),
    [
        (group("consumer", OWN), group("consumer"), None, None),
        (None, group("consumer"), None, None),
        # What it is now is what counts, whatever was answered, or not, to our member.
        (None, group("consumer"), REFUSED, None),
        (None, group("consumer"), unverified(SILENT), None),
        (None, group("classic"), REFUSED, "not-authorized"),
        (None, group("classic"), unverified(SILENT), "outcome-unknown"),
        # Somebody is there, or was.
        (group("consumer", OWN), group("consumer", WEB), None, "joined-meanwhile"),
        (group("consumer", OWN, WEB), group("classic", WEB), None, "joined-meanwhile"),
        (None, group("classic", WEB), None, "joined-meanwhile"),
        (group("consumer", OWN, WEB), group("classic"), None, "joined-meanwhile"),
        (None, group("classic"), None, "joined-meanwhile"),
        (None, group("classic", state="PreparingRebalance"), None, "joined-meanwhile"),
        (None, NotAuthorized("no DESCRIBE on a topic of this group"), None, "joined-meanwhile"),
        (None, NotAuthorized("no DESCRIBE on this group"), REFUSED, "not-authorized"),
        # Nobody can tell.
        (None, SILENT, None, "outcome-unknown"),
        (None, SILENT, REFUSED, "not-authorized"),
        (group("consumer", OWN), group("consumer", OWN), None, "outcome-unknown"),
        (None, NotFound("no such group"), None, "not-found"),
    ],
)
def test_what_it_came_to(
    between: GroupDescription | None,
    after: GroupDescription | KgroupError,
    refusal: KgroupError | None,
    code: str | None,
) -> None:
    error = converted_or_why_not("svc", "consumer", between, after, refusal)
    assert (error.code if error else None) == code


def test_those_who_joined_are_named_and_told_to_be_safe() -> None:
    crowd = [member(f"m{number}", f"web-{number}") for number in range(7)]
    error = converted_or_why_not("svc", "consumer", None, group("classic", *crowd), None)
    assert isinstance(error, Refused)
    assert error.message == (
        "a member joined while it was converted: web-0 on 10.0.0.3, web-1 on 10.0.0.3, web-2 on 10.0.0.3, "
        "web-3 on 10.0.0.3, web-4 on 10.0.0.3, and 2 more members"
    )
    assert error.details == (
        "The group is a classic group now; its offsets are unchanged and its members continue: nothing was lost.",
    )
    assert error.hint == "run the same command again when they have stopped; they are listed by: kgroup describe svc"
