"""Groups out of ``__consumer_offsets``: ``--from-log`` shows what the coordinator shows, ``--as-of`` what stood."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("bystander")

METADATA = 'by hand: "é", a\ttab, 漢'


def a_moment() -> str:
    """Now, and not before that is over: what is committed later has a later time."""
    now_ms = int(time.time() * 1000)
    wait_for(lambda: time.time() * 1000 > now_ms + 1, "the next millisecond")
    return datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")


def seen(document: dict[str, Any]) -> dict[str, Any]:
    """What log and coordinator have to agree on."""
    left_out = ("verdict", "source", "newest_record_at", "pending_catchups", "assignor")
    plain = {key: value for key, value in document.items() if key not in left_out}
    plain["partitions"] = [
        {key: value for key, value in row.items() if key not in ("time_lag_ms", "last_commit_at", "lag_status")}
        for row in plain["partitions"]
    ]
    plain["members"] = [{key: value for key, value in member.items() if key != "rack"} for member in plain["members"]]
    return plain


def test_the_log_shows_what_the_coordinator_shows(
    kgroup: CommandLine, world: KafkaWorld, members: Members, name: Name
) -> None:
    """Live groups of both protocols, and one that only keeps offsets: the same state, members, commits."""
    topic, other = world.topic(name("orders"), partitions=3), world.topic(name("clicks"))
    classic, consumer, simple = name("classic"), name("consumer"), name("simple")
    for partition in range(3):
        world.produce(topic, 4, partition)
    world.commit(simple, {(topic, 0): (2, METADATA, 0), (other, 0): 0})
    one, another, new = (
        members.classic(classic, topic),
        members.classic(classic, topic),
        members.consumer(consumer, topic),
    )
    members.stable(one, another, partitions=3)
    members.stable(new, partitions=3)
    one.commit()
    new.commit()
    wait_for(lambda: world.groups()[consumer] == ("consumer", "stable"), "stable")

    asked = kgroup("describe", classic, consumer, simple, "-o", "json").data
    logged = kgroup("describe", classic, consumer, simple, "--from-log", "-o", "json").data

    def by_name(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {document["group"]: seen(document) for document in found}

    assert by_name(logged) == by_name(asked)
    assert {document["source"] for document in asked} == {"coordinator"}
    assert {document["source"] for document in logged} == {"log"}
    first = [(document["newest_record_at"], row) for document in logged for row in document["partitions"][:1]]
    assert all(newest >= row["last_commit_at"] for newest, row in first if row["last_commit_at"])

    page = kgroup("describe", classic, "--from-log").stdout
    assert "SOURCE  from __consumer_offsets, not from its coordinator; last record" in page
    listed = kgroup("list", "--from-log", "--regex", f"{classic}|{consumer}|{simple}", "-o", "json").data
    plain = kgroup("list", classic, consumer, simple, "-o", "json").data
    assert [line["source"] for line in listed] == ["log"] * 3
    for line in (*listed, *plain):
        del line["source"], line["newest_record_at"]
    assert listed == plain

    exported = kgroup("export", classic, consumer, simple, "-o", "json").data
    rescued = kgroup("export", classic, consumer, simple, "--from-log", "-o", "json").data
    for document in (*exported, *rescued):
        del document["source"], document["offsets_at"]
    assert sorted(rescued, key=str) == sorted(exported, key=str)
    assert kgroup("export", simple, "--from-log").stdout == kgroup("export", simple).stdout

    broker = plain[0]["coordinator"]["id"]
    for flags in ((), ("--from-log",)):
        kept = kgroup("list", "--coordinator", str(broker), *flags, "-o", "json").data
        assert {classic, consumer, simple} <= {line["group"] for line in kept}
        kgroup("list", "--coordinator", "77", *flags, exit_code=5)


def test_offsets_are_rescued_whole_and_open_transactions_do_not_count(
    kgroup: CommandLine, world: KafkaWorld, name: Name
) -> None:
    topic, old, new = world.topic(name("orders"), partitions=2), name("old"), name("new")
    for partition in range(2):
        world.produce(topic, 9, partition)
    world.commit(old, {(topic, 0): (5, METADATA, 0), (topic, 1): 7})
    with world.pending(old, {(topic, 1): 8}) as transaction:
        exported = kgroup("export", old, "--from-log", "-o", "csv")
        assert [row["offset"] for row in exported.rows] == ["5", "7"]
        assert f"{old} {topic}:1: an open transaction has committed there" in exported.stderr
        transaction.abort_transaction(30)
    with world.pending(old, {(topic, 1): 9}) as transaction:
        transaction.commit_transaction(30)

    kgroup("reset", new, "--create", "--from-group", old, "--from-log", "--execute")

    assert world.exact(new) == world.exact(old)
    assert world.exact(new)[topic, 0] == (5, METADATA, 0)
    assert world.exact(new)[topic, 1][0] == 9


@pytest.mark.soak
def test_undo_as_of_takes_back_what_another_tool_did(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    topic, group = world.topic(name("orders"), partitions=3), name("svc")
    for partition in range(3):
        world.produce(topic, 9, partition)
    before_all = a_moment()
    world.commit(group, {(topic, 0): (5, METADATA, 0), (topic, 1): 7})
    before = world.exact(group)
    moment = a_moment()
    world.commit(group, {(topic, 0): 9, (topic, 2): 9})
    after = world.exact(group)

    page = " ".join(kgroup("undo", group, "--as-of", moment).stdout.split())
    # The plan and its command name the instant: "5m" would be another one when the plan is executed.
    instant = moment.replace("+00:00", "Z")
    assert f" as of {instant} " in page
    assert f" --as-of {instant} --execute" in page
    plan = kgroup("undo", group, "--as-of", moment, "-o", "json")
    assert [(row["partition"], row["old_offset"], row["new_offset"]) for row in plan.data] == [(0, 9, 5), (2, 9, None)]
    assert plan.json["executed"] is False
    assert world.exact(group) == after
    exported = kgroup("export", group, "--as-of", moment, "-o", "json")
    assert exported.data[0]["offsets_at"].startswith(moment.partition("+")[0])
    file = tmp_path / "then.json"
    file.write_text(exported.stdout)
    assert [row["offset"] for row in json.loads(exported.stdout)["data"][0]["offsets"]] == [5, 7]

    done = kgroup("undo", group, "--as-of", moment, "--execute")
    assert "no commit at that time: it is deleted" in done.stdout
    assert world.exact(group) == before
    assert "nothing to do" in kgroup("undo", group, "--as-of", moment).stderr
    # It is a change as any other, in the journal too.
    kgroup("undo", "--execute")
    assert world.exact(group) == after

    # A group that was deleted comes into being again.
    moment = a_moment()
    world.delete_group(group)
    kgroup("undo", group, "--as-of", moment, "--execute")
    assert world.exact(group) == after
    result = kgroup("undo", group, "--as-of", before_all, exit_code=5)
    assert "holds no group" in result.stderr


@pytest.mark.parametrize("kind", ["share", "streams", "streams, stopped"])
def test_groups_of_other_types_are_named_and_refused_as_without_the_log(
    kgroup: CommandLine, world: KafkaWorld, name: Name, kind: str
) -> None:
    """A streams group commits as every group does, and its log must not make an Empty classic group of it."""
    topic, group, plain = world.topic(name("orders")), name("g"), name("g")
    world.produce(topic, 9)
    before = a_moment()
    world.commit(plain, {(topic, 0): 5})
    if kind == "share":
        world.share_group(group, topic)
    else:
        world.commit(group, {(topic, 0): 5})
        world.streams_group(group, topic, stopped="stopped" in kind)
    then = a_moment()
    world.commit(plain, {(topic, 0): 7})
    type_ = kind.partition(",")[0]

    both = f"({plain}|{group})"
    logged = {row["group"]: row for row in kgroup("list", "--from-log", "--regex", both, "-o", "json").data}
    asked = {row["group"]: row for row in kgroup("list", "--regex", both, "-o", "json").data}
    assert [row["type"] for row in (logged[group], asked[group])] == [type_, type_]
    state, members = ("Empty", 0) if "stopped" in kind else ("Stable", 1)
    assert (logged[group]["state"], logged[group]["member_count"]) == (state, members)
    assert (logged[plain]["type"], logged[plain]["state"]) == ("classic", "Empty")

    # Both are described: tests/commands/test_share_deliveries.py, tests/clients/test_streams_applications.py
    refusals: tuple[tuple[str, ...], ...] = (
        ("export", group, "--from-log"),
        ("export", group, "--as-of", then),
        ("undo", group, "--as-of", then),
        ("undo", group, "--as-of", then, "--execute", "--accept", "moved-since"),
        ("reset", name("new"), "--create", "--from-group", group, "--from-log"),
    )
    for words in refusals:
        refused = kgroup(*words, exit_code=6)
        assert refused.stdout == ""
        assert f"{group} is a {type_} group" in refused.stderr
        assert "[foreign-owner]" in refused.stderr
    if kind != "share":
        assert world.committed(group) == {(topic, 0): (5, "")}
        # Then there was none of that name.
        assert kgroup("undo", group, "--as-of", before, exit_code=5).stdout == ""

    found = kgroup("export", "--regex", both, "--from-log", "-o", "json")
    assert [row["group"] for row in found.data] == [plain]
    assert "left out, 1 share or streams group: kgroup list" in found.stderr
    if kind != "share":
        (described,) = kgroup("describe", group, "--from-log", "-o", "json").data
        assert (described["type"], described["state"]) == ("streams", state)
        assert [row["committed"] for row in described["partitions"]] == [5]


def test_history_of_a_streams_group_that_was_deleted(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    topic, group = world.topic(name("orders")), name("g")
    world.commit(group, {(topic, 0): 5})
    world.streams_group(group, topic, stopped=True)
    world.delete_group(group)
    (document,) = kgroup("history", group, "-o", "json").data
    assert [step["step_kind"] for step in document["steps"]] == ["rebalance", "empty", "deleted"]
    assert {step["protocol"] for step in document["steps"]} == {"streams"}
    assert [cause["cause"] for cause in document["steps"][0]["causes"]] == ["join", "upgraded"]
    assert [change["text"] for change in document["changes"]] == ["epoch 0, 1 subtopology"]
    assert "holds no group" in kgroup("describe", group, "--from-log", exit_code=5).stderr


def test_offsets_of_a_topic_that_was_made_anew_go_nowhere(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """Not into a file, as little as into a plan: they would be applied to a topic of which they say nothing."""
    topic, other, group = world.topic(name("orders")), world.topic(name("clicks")), name("svc")
    world.commit(group, {(topic, 0): 0, (other, 0): 0})
    moment = a_moment()
    world.delete_topic(topic)
    wait_for(lambda: (topic, 0) not in world.exact(group), "its commits gone")
    world.topic(topic)

    for words in (("export", group, "-o", "json"), ("undo", group)):
        result = kgroup(*words, "--as-of", moment, exit_code=7 if words[0] == "export" else 6)
        assert "deleted and recreated" in result.stderr + result.stdout
    exported = kgroup("export", group, "--as-of", moment, exit_code=7)
    assert exported.stdout.splitlines() == [f"{other},0,0"]


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (("undo", "svc", "--as-of", "2199-01-01"), 2, "in the future"),
        (("undo", "svc", "--as-of", "5x"), 2, "not a date and time"),
        (("undo", "svc", "--as-of", "5m5"), 2, "not a duration"),
        (("undo", "svc", "--as-of", "tomorrow"), 2, "not a date and time"),
        (("undo", "--as-of", "03:05Z"), 2, "requires a group"),
        (("undo", "--scan-time", "3s"), 2, "--as-of TIME"),
        (("export", "svc", "--scan-bytes", "1GiB"), 2, "--from-log"),
        (("describe", "svc", "--from-log", "--scan-time", "0s"), 2, "must be more than 0s"),
        (("describe", "svc", "--from-log", "--scan-bytes", "much"), 2, "not a size"),
        (("describe", "svc", "--from-log", "--watch"), 2, "mutually exclusive"),
        (("reset", "svc", "--all-topics", "--to-latest", "--from-log"), 2, "--from-group"),
        (("describe", "no-such-group", "--from-log"), 5, "no-such-group"),
        (("export", "no-such-group", "--from-log"), 5, "no-such-group"),
        (("reset", "no-such-new", "--create", "--from-group", "no-such-group", "--from-log"), 5, "no-such-group"),
        (("undo", "no-such-group", "--as-of", "2026-01-01"), 5, "no-such-group"),
        (("list", "--from-log", "--regex", "no-such-.*"), 5, "no-such-"),
    ],
)
def test_what_is_refused(kgroup: CommandLine, words: tuple[str, ...], exit_code: int, said: str) -> None:
    result = kgroup(*words, exit_code=exit_code)

    assert said in result.stderr
    assert result.stdout == ""


def test_what_was_not_read_is_never_a_whole_export(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """With a bound that is too low, an error says so, whatever else is shown; nothing is written to another group."""
    topic, group, new = world.topic(name("orders"), partitions=20), name("svc"), name("new")
    for offset in range(4):  # 80 records: more than the window that is read first
        world.commit(group, {(topic, partition): offset for partition in range(20)})
    bound = ("--from-log", "--scan-bytes", "1B")

    result = kgroup("export", group, *bound, "-o", "json", exit_code=7)
    assert [error["code"] for error in result.json["errors"]] == ["log-incomplete"]
    assert "--scan-time" in result.json["errors"][0]["hint"]
    kgroup("reset", new, "--create", "--from-group", group, *bound, "--execute", exit_code=7)
    assert new not in world.groups()
    kgroup("undo", group, "--as-of", a_moment(), "--scan-bytes", "1B", exit_code=7)
    # Of a group of which nothing was read not even the name is known; a topic may be in what was not read.
    unread = ("--from-log", "--scan-time", "0.001ms", "-o", "json")
    elsewhere = ("export", group, "--topic", world.topic(name("clicks")), *bound, "-o", "json")
    for words in (("list", *unread), ("export", "--regex", f"{name('s')}.*", *unread), elsewhere):
        result = kgroup(*words, exit_code=7)
        assert {error["code"] for error in result.json["errors"]} == {"log-incomplete"}
    # What was read of a group that is in it holds commits alone: it may have members.
    least = ("--scan-bytes", "1B", "-o", "json")
    shown = kgroup("describe", group, "--from-log", *least, exit_code=7).data
    listed = kgroup("list", "--from-log", *least, exit_code=7).data
    for document in (*shown, *(one for one in listed if one["group"] == group)):
        members = document["members"] if "members" in document else document["member_count"]
        assert (document["state"], members) == ("Unknown", None)
    # No coordinator knows it, which proves nothing as long as the log was not read.
    world.delete_group(group)
    # In so short a time nothing of it is read, or its newest part: each has its exit code.
    result = kgroup("history", group, "--scan-time", "0.001ms", exit_code=None)
    nothing = "its history is not known" in result.stderr
    assert result.exit_code == (3 if nothing else 7), result
    assert ("[unreachable]" if nothing else "[log-incomplete]") in result.stderr
    assert "limit was reached" in result.stderr
