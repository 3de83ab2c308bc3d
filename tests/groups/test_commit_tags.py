"""Ids of plans, and the metadata that marks kgroup's own commits."""

from __future__ import annotations

import re
import secrets

import pytest

from kgroup.changes import journal
from kgroup.groups import commit_tags
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose, is_plan_id, new_plan_id

RELEASE, BACK = TagPurpose.RELEASE, TagPurpose.BACK


@pytest.mark.parametrize(
    ("metadata", "tag"),
    [
        ("kgroup cu-7f3a 3 release 70", CatchupCommitTag("cu-7f3a", 3, RELEASE, 70)),
        ("kgroup cu-7f3a 3 release 0", CatchupCommitTag("cu-7f3a", 3, RELEASE, 0)),
        ("kgroup cu-7f3a 0 release", CatchupCommitTag("cu-7f3a", 0, RELEASE)),
        ("kgroup cu-7f3a 12 back", CatchupCommitTag("cu-7f3a", 12, BACK)),
        ("kgroup cu-7f3a 12 gap", CatchupCommitTag("cu-7f3a", 12, TagPurpose.GAP)),
        ("kgroup cu-7f3a 1000000000 back", CatchupCommitTag("cu-7f3a", 10**9, BACK)),
    ],
)
def test_a_tag_is_read_as_it_is_written(metadata: str, tag: CatchupCommitTag) -> None:
    assert CatchupCommitTag.of(metadata) == tag
    assert tag.metadata == metadata


def test_a_member_of_confluent_kafka_adds_a_zero_byte() -> None:
    assert CatchupCommitTag.of("kgroup cu-7f3a 3 release 70\x00") == CatchupCommitTag("cu-7f3a", 3, RELEASE, 70)


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "the app's own",
        "kgroup",
        "kgroup cu-7f3a 3",
        "kgroup cu-7f3a 3 release\x00\x00",
        "kgroup cu-7f3a 3 release 70\x00 ",
        "kgroup cu-7f3a 3 release\n",
        " kgroup cu-7f3a 3 release",
        "kgroup cu-7f3a -3 release",
        "kgroup cu-7f3a 3 stolen",
        "KGROUP CU-7F3A 3 RELEASE",
        "kgroup cu-7f3a 3 back 70",
        "kgroup cu-7f3a 3 gap 70",
        "kgroup cu-7f3a 03 release 70",
        "kgroup cu-7f3a 3 release 070",
        "kgroup cu-7f3a 3 release -1",
        "kgroup cu-7f3a 3 release " + "9" * 20,
        "kgroup cu-7f3a 3 release 70 ",
        "kgroup cu-7f3a 3 release 70\n",
        "kgroup cu-7f3l 3 release 70",
        "kgroup ch-7f3a 3 release 70",
    ],
)
def test_any_other_metadata_is_the_applications(metadata: str) -> None:
    assert CatchupCommitTag.of(metadata) is None


@pytest.mark.parametrize(
    ("text", "is_id"),
    [("cu-7f3a", True), ("cu-7f3", False), ("cu-7f3aa", False), ("cu-7F3a", False), ("xcu-7f3a", False),
     ("cu-7f3a ", False), ("orders-svc", False)],
)  # fmt: skip
def test_what_is_a_plan_id(text: str, is_id: bool) -> None:
    assert is_plan_id(text) is is_id


def test_a_new_id_is_none_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = iter("2222" + "2222" + "3333")
    monkeypatch.setattr(secrets, "choice", lambda alphabet: next(chosen))
    assert new_plan_id({"cu-2222"}) == "cu-3333"


def test_a_new_id_has_no_characters_that_are_confused() -> None:
    assert re.fullmatch("cu-[2-9a-km-np-z]{4}", new_plan_id())
    assert not set("01ilo") & set(commit_tags.ID_ALPHABET)
    assert commit_tags.ID_ALPHABET == journal._ALPHABET
    assert len({new_plan_id() for _ in range(50)}) > 40
