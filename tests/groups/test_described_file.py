"""Groups in a file of ``describe -o json``: what is wrong with a broken one, and where."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.groups.described_file import parse_described
from kgroup.support.errors import UsageError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "the document: expected `object`, got `array`"),
        ('"svc"', "the document: expected `object`, got `str`"),
        ("{}", "the document: object missing required field `group`"),
        ('{"kind": "kgroup.list/v1", "data": []}', "is of kind kgroup.list/v1"),
        ('{"kind": "kgroup.describe/v1"}', "the document: object missing required field `data`"),
        ('{"kind": "kgroup.describe/v1", "data": []}', "the file has no groups"),
        ('{"kind": "kgroup.describe/v1", "data": [7]}', "data[0]: expected `object`, got `int`"),
        ('{"type": "share", "group": "svc", "state": "Stable"}', "only classic and consumer groups"),
        ('{"type": "classic", "group": "svc", "state": 7}', "state: expected `str`, got `int`"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "members": {}}',
         "members: expected `array | null`, got `object`"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "members": [{}]}',
         "members[0]: object missing required field `member_id`"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "partitions": [{"topic": "t", "partition": -1}]}',
         "partitions[0].partition: expected `int` >= 0"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "partitions": [{"topic": "t", "partition": 1e3}]}',
         "partitions[0].partition: expected `int`, got `float`"),
        ('{"type": "classic", "group": "svc", "state": "Stable", "members": ['
         '{"member_id": "a", "client_id": "a", "host": "h"}, {"member_id": "a", "client_id": "b", "host": "h"}]}',
         "members has a member id twice"),
        ('{"kind": "kgroup.describe/v1", "data": [{"type": "classic", "group": "svc", "state": "Empty"},'
         '{"type": "classic", "group": "svc", "state": "Empty"}]}', "the group svc is in the file twice"),
    ],
)  # fmt: skip
def test_broken_files(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_described(text, "svc.json")

    assert message in caught.value.message
    assert caught.value.message.startswith("svc.json")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=True) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150)
@given(data=st.data())
def test_no_file_makes_it_fail(data: st.DataObject) -> None:
    """Whatever stands where a field should be: the groups, or a UsageError."""
    member: dict[str, Any] = {
        "member_id": "a", "client_id": "a", "host": "h", "subscription": ["t"],
        "assignment": [{"topic": "t", "partitions": [0]}],
    }  # fmt: skip
    document: dict[str, Any] = {
        "group": "g", "type": "classic", "state": "Stable", "members": [member],
        "partitions": [{"topic": "t", "partition": 0}],
    }  # fmt: skip
    target = data.draw(st.sampled_from([document, member, member["assignment"][0], document["partitions"][0]]))
    target[data.draw(st.sampled_from([*target, "instance_id", "target_assignment"]))] = data.draw(VALUES)
    with suppress(UsageError):
        (found,) = parse_described(json.dumps(document), "a file")
        assert found.name == document["group"]
