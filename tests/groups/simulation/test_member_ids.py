"""Ids of members that do not exist yet look like those that do."""

from __future__ import annotations

import re

import pytest

from kgroup.groups.simulation.member_ids import (
    following_client,
    member_id_like,
    next_instance_id,
    numbers_apart,
    own_client_ids,
)

UUID = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
ANY = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.mark.parametrize(
    ("pattern", "instance", "form"),
    [
        (f"app-1-{UUID}", None, f"app-1-{ANY}"),
        (f"app-1-{UUID}", "pay-3", f"pay-3-{ANY}"),
        ("abcdefghijklmnopqrstuv", None, "[A-Za-z0-9_-]{22}"),
        ("abcdefghijklmnopqrstuv", "pay-3", "[A-Za-z0-9_-]{22}"),
        ("abcdefghijklmnopqrstu", None, f"member-{ANY}"),
        ("odd", "pay-3", f"pay-3-{ANY}"),
        (f"rdkafka-{UUID}", None, f"rdkafka-{ANY}"),
        ("+jv9K/mlSXyKXsLlCxzvVQ", None, "[A-Za-z0-9_+/-]{22}"),
    ],
)
def test_a_new_id_has_the_form_of_the_others(pattern: str, instance: str | None, form: str) -> None:
    made = member_id_like(pattern, instance, 1, 1)
    assert re.fullmatch(form, made)
    assert member_id_like(pattern, instance, 1, 1) == made, "the same seed, the same result"
    assert len({made, member_id_like(pattern, instance, 2, 1), member_id_like(pattern, instance, 1, 2)}) == 3


@pytest.mark.parametrize(
    ("ids", "own", "following"),
    [
        ([f"app-0-{UUID}", f"app-1-{UUID}"], True, f"app-2-{UUID}"),
        ([f"app-9-{UUID}", f"app-8-{UUID}"], True, f"app-10-{UUID}"),
        ([f"app-{UUID}", f"app-{UUID}"], False, None),
        ([f"app-0-{UUID}"], False, f"app-1-{UUID}"),
        ([f"app-0-{UUID}", f"pay-1-{UUID}"], True, None),
        ([f"app-0-{UUID}", f"app-{UUID}"], True, None),
        ([f"app-0-{UUID}", f"app-1-{UUID}", "odd"], False, None),
        ([f"app-x7k2m-{UUID}", f"app-9qz4d-{UUID}"], True, None),
        ([f"pod-{number}-{UUID}" for number in (10, 9, 8)], True, f"pod-11-{UUID}"),
        (["gdWm1DKlSXyKXsLlCxzvVQ", "x"], False, None),
    ],
)
def test_client_ids_that_are_numbered(ids: list[str], own: bool, following: str | None) -> None:
    assert own_client_ids(ids) is own
    assert following_client(ids) == following


@pytest.mark.parametrize(
    ("ids", "following"),
    [
        (["app-0", "app-1"], "app-2"),
        (["app-10", "app-9"], "app-11"),
        (["app-007"], "app-008"),
        (["n08", "n09"], "n10"),
        (["app-09", "odd"], "app-10"),
        (["red", "blue"], "red-1"),
        ([], "member-1"),
    ],
)
def test_the_next_instance_id(ids: list[str], following: str) -> None:
    assert next_instance_id(ids) == following


def test_of_no_member_no_client_id_is_known() -> None:
    assert not own_client_ids([])


def test_numbers_are_compared_as_numbers() -> None:
    assert sorted(["app-10", "app-9", "app", "app-9b"], key=numbers_apart) == ["app", "app-9", "app-9b", "app-10"]
