"""Which topics hold the state of a Streams application."""

from __future__ import annotations

import pytest

from kgroup.model.streams_group import changelogs_of

TOPICS = ("counts", "counts-one-changelog", "counts-v2-one-changelog", "counts-x-repartition", "orders-changelog")


@pytest.mark.parametrize(
    ("application", "others", "changelogs"),
    [
        ("counts", ["counts", "counts-v2", "orders"], ("counts-one-changelog",)),
        ("counts-v2", ["counts", "counts-v2"], ("counts-v2-one-changelog",)),
        # Without a group of that name, v2-one may be a store of it.
        ("counts", ["counts", "counts-v"], ("counts-one-changelog", "counts-v2-one-changelog")),
        ("count", [], ()),
    ],
)
def test_changelogs_by_their_names(application: str, others: list[str], changelogs: tuple[str, ...]) -> None:
    assert changelogs_of(application, TOPICS, others) == changelogs
