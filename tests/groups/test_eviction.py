"""Which members an eviction chooses, and what is answered to a name that chooses none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.eviction import plan_eviction
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound, UsageError
from tests.helpers.cases.lag import group, member

MEMBERS = (
    replace(member("id-0"), instance_id="pay-0", client_id="pay-svc-0"),
    replace(member("id-1"), instance_id="pay-1", client_id="pay-svc-1"),
    replace(member("id-2"), client_id="batch"),
    replace(member("id-3"), client_id="batch"),
    replace(member("id-0-x"), client_id="id-0"),
)
GROUP = group([], MEMBERS, name="svc")


@pytest.mark.parametrize(
    ("instances", "members", "expected"),
    [
        (["pay-0"], [], ["id-0"]),
        (["pay-0", "pay-1"], [], ["id-0", "id-1"]),
        (["pay-0"], ["id-1"], ["id-0", "id-1"]),
        (["pay-0"], ["id-0"], ["id-0"]),
        ([], ["pay-svc-1"], ["id-1"]),
        ([], ["pay-svc-1", "id-1"], ["id-1"]),
        ([], ["id-0"], ["id-0"]),  # a member id, before the client id of another
        ([], [], ["id-0", "id-1", "id-2", "id-3", "id-0-x"]),
    ],
)
def test_chosen_members(instances: list[str], members: list[str], expected: list[str]) -> None:
    assert [each.member.member_id for each in plan_eviction(GROUP, instances, members)] == expected


@pytest.mark.parametrize(
    ("instances", "members", "kind", "message"),
    [
        (["nope"], [], NotFound, "svc has no instance 'nope' It has pay-0, pay-1."),
        (["pay-0", "pay-2"], [], NotFound, "svc has no instance 'pay-2' It has pay-1, pay-0."),
        ([], ["zz"], NotFound, "svc has no member 'zz' It has id-0, id-1, id-2, id-3, id-0-x."),
        ([], ["pay-svc"], NotFound, "svc has no member 'pay-svc' It has pay-svc-1, pay-svc-0."),
        ([], ["batch"], UsageError, "2 members of svc have the client id 'batch' --member id-2, --member id-3"),
    ],
)
def test_a_name_that_chooses_none(
    instances: list[str], members: list[str], kind: type[KgroupError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        plan_eviction(GROUP, instances, members)

    hint = f"{caught.value.hint}".rpartition(": ")[2]
    assert " ".join((caught.value.message, *(caught.value.details or (hint,)))) == message


def test_members_that_may_not_be_seen() -> None:
    with pytest.raises(NotAuthorized, match="may not see the members of svc"):
        plan_eviction(replace(GROUP, members=None), [], [])


@pytest.mark.parametrize(("at", "named"), [(0, (None, "pay-0")), (2, ("id-2", None))], ids=["static", "dynamic"])
def test_how_the_request_names_a_member(at: int, named: tuple[str | None, str | None]) -> None:
    leaver = plan_eviction(GROUP, [], [])[at].leaver

    assert (leaver.member_id, leaver.instance_id) == named
