"""Errors keep what their maker wrote; context is added to a copy."""

from __future__ import annotations

import traceback

import pytest

from kgroup.cli.tree import UnknownVerb
from kgroup.cluster.transactions import Fenced
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import Refused

HERE, THERE = ClusterRef("abc", "a:9092", None), ClusterRef("def", "b:9092", None)


def test_context_is_added_to_a_copy() -> None:
    error = Refused("is not empty", details=("1 member",), hint="stop it", code="not-empty")

    more = error.with_context(prefix="g: ", details=("2 members",), hint="stop them", cluster=HERE)

    assert (str(more), more.message, more.details) == ("g: is not empty", "g: is not empty", ("1 member", "2 members"))
    assert (more.hint, more.cluster, more.code, type(more)) == ("stop them", HERE, "not-empty", Refused)
    assert (str(error), error.details, error.hint, error.cluster) == ("is not empty", ("1 member",), "stop it", None)


def test_what_is_not_given_is_kept() -> None:
    error = Fenced("another run", hint="see it").with_context(cluster=HERE)

    again = error.with_context(details=("at once",))

    assert (again.hint, again.cluster, again.code, type(again)) == ("see it", HERE, "fenced", Fenced)
    assert again.with_context(cluster=THERE).cluster == THERE


def test_an_error_with_a_maker_of_its_own_is_copied_too() -> None:
    error = UnknownVerb("kgroup", "lst", ["list"]).with_context(details=("typed",))

    assert (error.path, error.message, error.details) == ("kgroup", "there is no verb 'lst'", ("typed",))


def test_the_traceback_shows_where_the_error_was_raised() -> None:
    def fail() -> None:
        try:
            raise Refused("first") from OSError("the cause")
        except Refused as error:
            raise error.with_context(prefix="second: ") from error

    with pytest.raises(Refused, match=r"^second: first$") as raised:
        fail()
    assert "the cause" in "".join(traceback.format_exception(raised.value))
