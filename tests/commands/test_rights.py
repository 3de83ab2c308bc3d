"""What ``list``, ``describe`` and ``wait`` say to a user who may not see everything: nothing missing without a word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from kafka.admin import ACL, ACLOperation, ResourceType

from tests.helpers import programs
from tests.helpers.access_rules import DENY, rule, rules_admin, set_rules
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Member, Members
from tests.helpers.secure_broker import USERS, SecureBroker, secure_broker
from tests.helpers.share_consumers import sharer
from tests.helpers.waiting import wait_for

Right = tuple[ResourceType, str]
CLUSTER: Right = (ResourceType.CLUSTER, "kafka-cluster")
HISTORY: Right = (ResourceType.TOPIC, "__consumer_offsets")


def topic(name: str) -> Right:
    return (ResourceType.TOPIC, name)


def group(name: str) -> Right:
    return (ResourceType.GROUP, name)


@pytest.fixture(scope="module")
@programs.needs("openssl")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("rights"), QuietReporter()) as broker:
        yield broker


@pytest.fixture(scope="module")
def settled(broker: SecureBroker) -> Iterator[KafkaWorld]:
    """Topics ``open`` and ``secret``; groups ``old`` (classic), ``new`` (consumer) ``idle`` (no members), of both."""
    with KafkaWorld(broker.addresses["ADMIN"]) as world, Members(broker.addresses["ADMIN"]) as members:
        for name in ("open", "secret"):
            world.topic(name, partitions=2)
            world.produce(name, 5)
        world.commit("idle", {("open", 0): 1, ("secret", 0): 2})
        old, new = members.classic("old", "open", "secret"), members.consumer("new", "open", "secret")
        members.stable(old, partitions=4)
        members.stable(new, partitions=4)
        for member in (old, new):  # it may not have polled so far yet
            wait_for(lambda: caught_up(world, member), "its commits")  # noqa: B023
        wait_for(lambda: world.groups()["new"] == ("consumer", "stable"), "stable")
        yield world


def caught_up(world: KafkaWorld, member: Member) -> bool:
    """Whether it has committed behind all records of both topics."""
    member.commit()
    committed = world.committed(member.what["group"])
    return all(committed.get((name, 0), (None,))[0] == 5 for name in ("open", "secret"))


@dataclass(frozen=True)
class Bob:
    """The user without rights, until ``may``."""

    broker: SecureBroker

    def may(self, *rights: Right, also: Sequence[tuple[ACLOperation, Right]] = (), not_: Sequence[Right] = ()) -> None:
        """Give bob DESCRIBE on these (READ on topics too), these operations, and nothing else; ``not_`` is denied."""
        wanted = [rule(ACLOperation.DESCRIBE, *right, how=DENY) for right in not_]
        wanted += [rule(operation, *right) for operation, right in also]
        for kind, name in rights:
            reads = [ACLOperation.READ] if kind is ResourceType.TOPIC else []
            wanted += [rule(operation, kind, name) for operation in (ACLOperation.DESCRIBE, *reads)]
        self.grant(*wanted, alone=True)

    def may_describe(self, topic: Right, who: str = "bob") -> None:
        """Give bob (or another) DESCRIBE on a topic beside what he has, and not READ."""
        self.grant(rule(ACLOperation.DESCRIBE, *topic, who))

    def grant(self, *rules: ACL, alone: bool = False) -> None:
        """These rules beside those that are there, or ``alone``."""
        with rules_admin(self.broker.addresses["ADMIN"]) as admin:
            set_rules(admin, rules, beside=not alone)

    def __call__(self, *arguments: str, exit_code: int | None = 0) -> Result:
        certificates = self.broker.certificates
        flags = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "bob",
            "sasl.password": USERS["bob"],
            "ssl.ca.location": certificates.certificate("ca"),
        }
        given = [word for key, value in flags.items() for word in ("-X", f"{key}={value}")]
        return CommandLine()(
            *arguments, "-b", self.broker.addresses["SCRAM"], *given, exit_code=exit_code
        )  # fmt: skip


@pytest.fixture
def bob(broker: SecureBroker, settled: KafkaWorld) -> Iterator[Bob]:
    user = Bob(broker)
    before = {name: settled.committed(name) for name in ("old", "new", "idle")}
    yield user
    assert before == {name: settled.committed(name) for name in before}


LEDGER = topic("_kgroup_ledger")
EVERYTHING = (CLUSTER, HISTORY, LEDGER, topic("open"), topic("secret"), group("old"), group("new"), group("idle"))


def without(*missing: Right) -> tuple[Right, ...]:
    return tuple(right for right in EVERYTHING if right not in missing)


def test_deliveries_of_a_share_group(bob: Bob, settled: KafkaWorld) -> None:
    """Without READ on their topic they are unknown, with the reason, and nothing else is."""
    settled.configure_group("shared", share_auto_offset_reset="earliest")
    with sharer(settled.bootstrap, "shared", "open") as member:
        member.accept(5)
    state = topic("__share_group_state")

    def deliveries() -> tuple[str | None, set[int | None]]:
        (described,) = bob("describe", "shared", "-o", "json").data
        counts = {row["archived_count"] for row in described["partitions"] if row["committed"] is not None}
        return described["share"]["deliveries_unknown_reason"], counts

    bob.may(*EVERYTHING, group("shared"))
    assert deliveries() == ("__share_group_state could not be read: no DESCRIBE on Topic", {None})
    bob.may_describe(state)
    assert re.fullmatch(r"__share_group_state:\d+ could not be read: no READ on Topic", deliveries()[0] or "")
    assert "deliveries unknown: __share_group_state" in bob("describe", "shared").stdout
    assert "no READ on Topic" in bob("peek", "shared", exit_code=7).stderr
    assert "start offsets are not known" in bob("describe", "shared", "--from-log", exit_code=7).stderr
    bob.may(*EVERYTHING, group("shared"), state)
    assert deliveries() == (None, {0})
    settled.delete_group("shared")  # other tests list all groups


REPARTITION, CHANGELOG = topic("counts-by-repartition"), topic("counts-store-changelog")
INTERNAL = (group("counts"), REPARTITION, CHANGELOG)


@pytest.fixture
def counts(settled: KafkaWorld) -> Iterator[str]:
    """A streams group with a member: it reads ``open`` and its repartition topic, and has a changelog."""

    def join(*, stopped: bool = False) -> str:
        own = {"repartition": REPARTITION[1], "changelog": CHANGELOG[1]}
        settled.streams_group("counts", "open", **own, stopped=stopped)
        return settled.groups()["counts"][1]

    join(stopped=True)
    wait_for(lambda: {REPARTITION[1], CHANGELOG[1]} <= settled.topics(), "its internal topics")
    settled.commit("counts", {("open", 0): 2, ("open", 1): 0, (REPARTITION[1], 0): 0})
    wait_for(lambda: join() == "stable", "counts")
    yield "counts"
    join(stopped=True)
    settled.delete_group("counts")  # other tests list all groups


def test_topics_of_a_streams_group(bob: Bob, counts: str) -> None:
    """Without DESCRIBE on one of them, also an internal one, the broker hides members and topology: said of each verb.

    Commits stay known, but for those on that topic. That a topic is missing, or a task without an owner, is not said.
    """

    def rows(document: dict[str, Any]) -> dict[tuple[str, int], int | None]:
        return {(row["topic"], row["partition"]): row["lag"] for row in document["partitions"]}

    bob.may(*EVERYTHING, *INTERNAL)
    (whole,) = bob("describe", counts, "-o", "json").data
    assert rows(whole) == {("open", 0): 3, ("open", 1): 0, (REPARTITION[1], 0): 0}
    assert [task["changelog_size_bytes"] for task in whole["streams"]["all_tasks"]] == [0, 0]
    for missing in (topic("open"), REPARTITION, CHANGELOG):
        bob.may(*without(missing), *(right for right in INTERNAL if right != missing))
        found = bob("describe", counts, "-o", "json", exit_code=7)
        (document,), (error,) = found.data, found.json["errors"]
        assert (error["group"], error["code"]) == (counts, "not-authorized")
        assert "internal ones included" in error["message"]
        assert (document["type"], document["members"], document["streams"]) == ("streams", None, None)
        assert rows(document) == {place: lag for place, lag in rows(whole).items() if place[0] != missing[1]}
        hidden = [place for place in rows(whole) if place[0] == missing[1]]
        assert [(each["topic"], each["partition"]) for each in document["hidden_commits"]] == hidden
        assert document["verdict"]["conclusion"] is None
        assert "members unknown" in bob("describe", counts, exit_code=7).stdout
        checked = bob("lag", counts, "--max-lag", "3", exit_code=7).stdout
        assert ("FAILED  counts: lag unknown" in checked) == bool(hidden), "no bound holds where commits are hidden"
        (diagnosed,) = bob("doctor", counts, "-o", "json", exit_code=7).data
        assert diagnosed["findings"] == []
        why = {item["rule"]: item["reason"] for item in diagnosed["unchecked_rules"]}
        assert why["streams-tasks-without-owner"] == why["streams-other-topology"] == "its members may not be seen"
    bob.may(*without(CLUSTER), *INTERNAL)
    page = bob("describe", counts).stdout
    assert "SIZE unknown: the brokers did not show it (it needs DESCRIBE on the Cluster)" in page
    bob.may(*EVERYTHING, REPARTITION, CHANGELOG)
    for verb in ("describe", "lag", "doctor"):
        assert "no DESCRIBE on this group" in bob(verb, counts, exit_code=4).stderr
        assert [row["group"] for row in bob(verb, counts, "idle", "-o", "json", exit_code=7).data] == ["idle"]


def test_topics_of_a_streams_group_in_the_log(bob: Bob, counts: str) -> None:
    """Read from the log, the topology is known; each topic that may not be described costs its own rows."""
    log = ("describe", counts, "--from-log")
    bob.may(*without(topic("open")), *INTERNAL)
    found = bob(*log, "-o", "json", exit_code=7)
    (document,) = found.data
    assert [(each["topic"], each["code"]) for each in found.json["errors"]] == [("open", "not-authorized")]
    lags = {(row["topic"], row["partition"]): (row["lag"], row["error_code"]) for row in document["partitions"]}
    assert lags["open", 0] == (None, "not-authorized")
    assert lags[REPARTITION[1], 0] == (0, None)
    assert document["streams"]["missing_topics"] is None
    assert " 2 tasks" not in bob(*log, exit_code=7).stdout, "how many partitions there are is not known"
    bob.may(*EVERYTHING, group(counts), REPARTITION)
    found = bob(*log, "-o", "json", exit_code=7)
    assert [(each["topic"], each["code"]) for each in found.json["errors"]] == [(CHANGELOG[1], "not-authorized")]
    assert {task["changelog_record_count"] for task in found.data[0]["streams"]["all_tasks"]} == {None}
    bob.may(*without(HISTORY), *INTERNAL)
    denied = bob(*log, exit_code=4)
    assert (denied.stdout, "no READ on Topic" in denied.stderr) == ("", True)


def test_a_streams_group_that_waits_for_a_topic_that_may_not_be_described(bob: Bob, settled: KafkaWorld) -> None:
    """It is NotReady, which the listing tells; whether the topic is there, is not known: no verb says that it is."""
    settled.streams_group("waits", "absent")
    bob.may(*EVERYTHING, group("waits"))
    for words in (("describe", "waits"), ("lag", "waits"), ("describe", "waits", "--from-log")):
        page = bob(*words, exit_code=7).stdout
        assert "a topic of its topology is missing, or its number of partitions does not fit" in page
        assert "no partition is assigned" not in page or "--from-log" in words
    (diagnosed,) = bob("doctor", "waits", "-o", "json", exit_code=7).data
    (finding,) = diagnosed["findings"]
    assert (finding["rule"], finding["numbers"]) == ("streams-not-ready", {"missing_topic_count": 0})
    assert "its members and its topology may not be seen" in finding["evidence"]
    bob.may(*EVERYTHING, group("waits"), topic("absent"))
    assert "until these source topics exist: absent" in bob("describe", "waits").stdout
    settled.streams_group("waits", "absent", stopped=True)
    settled.delete_group("waits")


def test_all_rights(bob: Bob) -> None:
    """DESCRIBE everywhere, and READ on the topics, is enough to see all without a note."""
    bob.may(*EVERYTHING)
    listed = bob("list", "-o", "json")
    assert [found["group"] for found in listed.data] == ["idle", "new", "old"]
    assert listed.stderr == ""
    described = bob("describe", "old", "new", "idle", "-o", "json")
    assert described.stderr == ""
    assert {found["group"]: len(found["partitions"]) for found in described.data} == {"old": 4, "new": 4, "idle": 2}
    assert next(found for found in described.data if found["group"] == "old")["generation"] is not None


def test_group_that_may_not_be_described(bob: Bob) -> None:
    bob.may(*without(group("old")))
    result = bob("describe", "old", "idle", "-o", "json", exit_code=7)
    assert [found["group"] for found in result.data] == ["idle"]
    (error,) = result.json["errors"]
    assert (error["group"], error["code"]) == ("old", "not-authorized")
    assert "DESCRIBE" in error["message"] + str(error["hint"]) + str(error.get("details"))


@pytest.mark.parametrize("which", ["old", "new", "idle"])
def test_the_only_group_may_not_be_described(bob: Bob, which: str) -> None:
    """Not 5: the group is there, for all that this user can know."""
    bob.may(*without(group(which)))
    result = bob("describe", which, "-o", "json", exit_code=4)
    assert result.data == []
    assert result.json["errors"][0]["code"] == "not-authorized"
    screen = bob("describe", which, exit_code=4)
    assert screen.stdout == ""
    assert which in screen.stderr


def test_commits_that_the_broker_hides_are_said_to_be_possible(bob: Bob) -> None:
    """It leaves them out of the offsets without a word."""
    bob.may(group("idle"), topic("open"))
    result = bob("describe", "idle", "-o", "json")
    assert [row["topic"] for row in result.data[0]["partitions"]] == ["open"]
    assert result.data[0]["hidden_commits"] is None
    assert "commits on topics that you may not describe may be missing" in result.stderr


def test_topic_of_a_classic_group_that_may_not_be_described(bob: Bob) -> None:
    """Its rows are marked, the rest is complete, and neither the total nor the exit code pretends."""
    bob.may(*without(topic("secret")))
    result = bob("describe", "old", "-o", "json", exit_code=7)
    (document,) = result.data
    rows = {(row["topic"], row["partition"]): row for row in document["partitions"]}
    assert rows["open", 0]["lag"] is not None
    assert rows["open", 0]["error_code"] is None
    assert "secret" in {error["topic"] for error in result.json["errors"]}
    assert {error["code"] for error in result.json["errors"]} == {"not-authorized"}
    hidden = [row for (name, _), row in rows.items() if name == "secret"]
    assert all(row["lag"] is None and row["error_code"] for row in hidden)
    assert len(hidden) == 2
    screen = bob("describe", "old", exit_code=7)
    assert "open:0" in screen.stdout
    assert "secret" in screen.stderr


def test_topic_of_a_consumer_group_that_may_not_be_described(bob: Bob) -> None:
    """The broker hides all members then; what remains readable is shown, and what is hidden is said."""
    bob.may(*without(topic("secret")))
    result = bob("describe", "new", "-o", "json", exit_code=7)
    (document,) = result.data
    assert (document["group"], document["type"]) == ("new", "consumer")
    rows = {(row["topic"], row["partition"]): row for row in document["partitions"]}
    assert rows["open", 0]["lag"] is not None
    said = " ".join(error["message"] for error in result.json["errors"]) + result.stderr
    assert "member" in said
    screen = bob("describe", "new", exit_code=7)
    assert "no members" not in screen.stdout
    assert "not-authorized" in screen.stderr


def test_a_note_is_said_once(bob: Bob) -> None:
    bob.may(group("idle"), topic("open"), topic("secret"))
    notes = [line for line in bob("lag", "--topic", "open").stderr.splitlines() if line.startswith("note:")]
    assert len(notes) == len(set(notes)) == 3


@pytest.mark.parametrize("missing", ["history", "cluster"])
def test_without_the_history(bob: Bob, missing: str) -> None:
    """Without READ on __consumer_offsets the generation is unknown, which is said and no failure."""
    bob.may(*without(HISTORY if missing == "history" else CLUSTER))
    result = bob("describe", "old", "-o", "json")
    (document,) = result.data
    if missing == "history":
        assert document["generation"] is document["leader_member_id"] is None
        assert "note:" in result.stderr
        assert "__consumer_offsets" in result.stderr
        (note,) = bob("describe", "old", "--no-generation", "-o", "json").stderr.splitlines()
        assert "commits on topics that you may not describe may be missing" in note
    else:
        assert document["generation"] is not None
    assert [row["lag"] for row in document["partitions"] if row["topic"] == "open"] != []


def test_history_that_may_be_described_but_not_read(bob: Bob) -> None:
    bob.may(*without(HISTORY))
    bob.may_describe(HISTORY)
    result = bob("describe", "old", "-o", "json")
    assert result.data[0]["generation"] is None
    assert "__consumer_offsets" in result.stderr
    assert "READ" in result.stderr


def test_list_without_the_cluster_may_be_incomplete(bob: Bob) -> None:
    """Without DESCRIBE on the cluster the broker leaves out groups, silently: kgroup says so."""
    bob.may(group("old"), topic("open"), topic("secret"))
    result = bob("list", "-o", "json")
    assert [found["group"] for found in result.data] == ["old"]
    assert "incomplete" in result.stderr or "may be missing" in result.stderr or "not all" in result.stderr
    everything = bob("describe", "--all-groups", "--no-generation", "-o", "json")
    assert [found["group"] for found in everything.data] == ["old"]
    assert everything.stderr != ""


def test_nothing_visible_at_all(bob: Bob) -> None:
    bob.may()
    result = bob("list", exit_code=4)
    assert result.stdout == ""
    assert "DESCRIBE" in result.stderr
    bob("describe", "--all-groups", exit_code=4)
    bob("describe", "old", exit_code=4)


def test_unknown_group_without_the_cluster(bob: Bob) -> None:
    """Whether it exists can't be known: no near misses that may not be seen, and no claim that it is not there."""
    bob.may(group("old"))
    result = bob("describe", "nothere", exit_code=4)
    assert "idle" not in result.stderr


def test_list_by_topic_that_may_not_be_described(bob: Bob) -> None:
    bob.may(*without(topic("secret")))
    result = bob("list", "--topic", "secret", "-o", "json", exit_code=4)
    assert result.data == []


def test_list_by_topic_says_an_error_once(bob: Bob) -> None:
    """A consumer group's members may not be seen: neither where its topics are looked up nor where it is counted."""
    bob.may(*without(topic("secret")))
    result = bob("list", "--topic", "open", "-o", "json", exit_code=7)
    errors = [(error["group"], error["code"]) for error in result.json["errors"] if error["topic"] is None]
    assert errors == [("new", "not-authorized")]


def test_rights_of_list_alone(bob: Bob) -> None:
    """DESCRIBE on the cluster lists all groups; who is in them is not for this user: unknown, not 0."""
    bob.may(CLUSTER)
    result = bob("list", "-o", "json", exit_code=7)
    assert [found["group"] for found in result.data] == ["idle", "new", "old"]
    assert {found["member_count"] for found in result.data} == {None}


def test_export_of_a_group_that_may_not_be_described_is_no_empty_group(bob: Bob) -> None:
    bob.may(*without(group("old")))
    result = bob("export", "old", "idle", exit_code=7)
    assert result.stdout == "idle,open,0,1\nidle,secret,0,2\n"
    assert "old" in result.stderr
    document = bob("export", "old", "idle", "-o", "json", exit_code=7).json
    assert [found["group"] for found in document["data"]] == ["idle"], "not: old, without offsets"
    assert [error["group"] for error in document["errors"]] == ["old"]
    nothing = bob("export", "old", exit_code=4)
    assert nothing.stdout == ""


def test_export_says_that_commits_may_be_hidden(bob: Bob) -> None:
    bob.may(group("idle"), topic("open"))
    result = bob("export", "idle")
    assert result.stdout == "open,0,1\n"
    assert "commits on topics that you may not describe may be missing" in result.stderr


def test_a_history_that_may_not_be_read_is_no_quiet_group(bob: Bob) -> None:
    bob.may(*without(HISTORY))
    for chosen in (("old",), ("old", "new", "idle")):
        result = bob("history", *chosen, "-o", "json", exit_code=4)
        assert result.data == []
        assert {error["group"] for error in result.json["errors"]} == set(chosen)
        assert {error["code"] for error in result.json["errors"]} == {"not-authorized"}
        assert all(error["hint"].endswith("--topic __consumer_offsets") for error in result.json["errors"])
    bob.may(*without(group("old")))
    partly = bob("history", "old", "new", "-o", "json", exit_code=7)  # the log tells of both
    assert [(found["group"], len(found["steps"]) > 0) for found in partly.data] == [("old", True), ("new", True)]
    assert [(error["group"], error["code"]) for error in partly.json["errors"]] == [("old", "not-authorized")]


def test_lag_says_what_it_may_not_read(bob: Bob) -> None:
    """Without READ on a topic there is no age, without READ on __consumer_offsets no status: said, and no failure."""
    bob.may(*without(HISTORY, topic("secret")))
    bob.may_describe(topic("secret"))
    (document,) = bob("lag", "idle", "-o", "json").data
    rows = {(row["topic"], row["partition"]): row for row in document["partitions"]}
    assert {place: (row["lag"], row["lag_status"]) for place, row in rows.items()} == {
        ("open", 0): (4, None),
        ("secret", 0): (3, None),
    }
    assert rows["open", 0]["time_lag_ms"] > 0
    assert rows["secret", 0]["time_lag_ms"] is None
    for verb in ("lag", "describe"):
        page = " ".join(bob(verb, "idle").stdout.split())
        assert "STUCK unknown: __consumer_offsets could not be read: no READ on Topic" in page, page
        assert "oldest unread record at least" in page
        assert "RETENTION unknown: no DESCRIBE_CONFIGS on open" in page
    assert "age unknown: no READ on secret" in " ".join(bob("lag", "idle", "--topic", "secret").stdout.split())
    assert "status unknown" in bob("lag", "idle", "--fail-on", "stop", exit_code=8).stdout


def test_peek_needs_read_on_the_topic_alone(bob: Bob) -> None:
    bob.may(topic("open"))
    assert [json.loads(line)["offset"] for line in bob("peek", "open:0", "-n", "2").stdout.splitlines()] == [3, 4]
    denied = bob("peek", "secret:0", "-o", "json", exit_code=4)
    assert (denied.data, denied.json["errors"][0]["code"]) == ([], "not-authorized")
    assert bob("peek", "idle", exit_code=4).stdout == ""


def test_peek_needs_describe_on_the_group(bob: Bob) -> None:
    bob.may(topic("open"), group("idle"))
    found = bob("peek", "idle", "-n", "1", "-o", "json")
    assert [(each["topic"], each["records"][0]["offset"]) for each in found.data] == [("open", 1)]
    assert "the status of the partitions is unknown" in found.stderr


def test_peek_with_describe_on_a_topic_that_may_not_be_read(bob: Bob) -> None:
    bob.may(group("idle"))
    bob.may_describe(topic("open"))
    denied = bob("peek", "idle", "-o", "json", exit_code=4)
    assert [(error["topic"], error["code"]) for error in denied.json["errors"]] == [("open", "not-authorized")]
    assert "--operation Read --topic open" in denied.stderr


def test_doctor_names_what_it_could_not_look_at(bob: Bob) -> None:
    """A missing right costs its rules, says so, and is never a finding."""

    def unlooked(*arguments: str, exit_code: int = 0) -> dict[str, dict[str, str]]:
        found = bob("doctor", *arguments, "-o", "json", exit_code=exit_code).data
        assert not any(finding["rule"] == "topic-gone" for one in found for finding in one["findings"])
        return {
            one["group"]: {item["rule"]: item["reason"] for item in one["unchecked_rules"] if not item["partly"]}
            for one in found
        }

    bob.may(*EVERYTHING)
    everything = unlooked("old", "new", "idle")
    assert set(everything) == {"old", "new", "idle"}
    assert everything["new"]["heartbeat-interval"] == "no DESCRIBE_CONFIGS on this group"
    assert not {"rebalance-storm", "stalled-commits", "out-of-range", "idle-members"} & set(everything["old"])
    bob.may(*without(HISTORY))
    blind = unlooked("old", "new")
    for rule_id in ("rebalance-storm", "not-static", "stalled-commits", "poll-interval"):
        assert "__consumer_offsets could not be read: no READ" in blind["old"][rule_id], blind["old"]
        assert blind["new"][rule_id] == blind["old"][rule_id]
    bob.may(*without(CLUSTER))
    assert "coordinator-load" in unlooked("--cluster")[None]  # type: ignore[index]
    bob.may(group("idle"), topic("open"))
    partly = unlooked("idle", "old", exit_code=7)
    assert set(partly) == {"idle"}
    bob.may(topic("open"))
    assert bob("doctor", "old", exit_code=4).stdout == ""


def test_the_log_that_may_not_be_read(bob: Bob) -> None:
    """Without READ on __consumer_offsets nothing can be told out of it: exit 4, with the right that is missing."""
    bob.may(*without(HISTORY))
    for words in (
        ("describe", "idle", "--from-log"),
        ("export", "idle", "--from-log"),
        ("export", "idle", "--as-of", "2026-01-01"),
        ("list", "--coordinator", "1", "--from-log"),
        ("reset", "new-one", "--create", "--from-group", "idle", "--from-log"),
        ("undo", "idle", "--as-of", "2026-01-01"),
        ("history", "idle"),
        ("list", "--from-log"),
    ):
        result = bob(*words, exit_code=4)
        assert result.stdout == ""
        assert "__consumer_offsets" in result.stderr
        assert "no READ on Topic" in result.stderr
        assert "User:bob --operation Read --topic __consumer_offsets" in result.stderr, "and not DESCRIBE first"
    bob.may((ResourceType.TOPIC, "*"))
    assert bob("export", "idle", "--from-log").stdout == "open,0,1\nsecret,0,2\n"


# --- what can't be known is not believed, nor waited for


def test_wait_where_sessions_are_unknown(bob: Bob) -> None:
    """Neither the classic group's history nor the consumer group's settings may be read."""
    bob.may(*without(HISTORY))
    result = bob("wait", "old", "new", "--for", "empty", "--within", "0s", "-o", "json", exit_code=8)
    assert result.stderr.count("session timeout unknown") == 2
    assert [found["remaining_members"][0]["session_ends_in_ms"] for found in result.data] == [None, None]
    held = bob("wait", "idle", "--for", "empty", "--hold", "300ms", "--within", "9s")
    assert "DONE" in held.stdout


def test_wait_for_a_group_that_may_not_be_described(bob: Bob) -> None:
    """The listing still tells its state; without that no right comes by waiting: 4 at once."""
    bob.may(*without(group("old")))
    bob("wait", "old", "idle", "--for", "empty", "--within", "0s", exit_code=8)
    bob.may(*without(group("old"), CLUSTER))
    assert "no DESCRIBE on this group" in bob("wait", "old", "idle", "--for", "empty", exit_code=4).stderr


def test_wait_for_members_that_may_not_be_seen(bob: Bob) -> None:
    """A topic of a consumer group hides its members; its state is known all the same."""
    bob.may(*without(topic("secret")))
    bob("wait", "new", "--for", "stable", "--within", "9s")
    bob("wait", "new", "--for", "empty", "--within", "0s", exit_code=8)
    bob("wait", "new", "--for", "members=1", exit_code=4)
    for name in ("old", "new"):
        bob("wait", name, "--for", "lag=1000", exit_code=4)


def test_wait_says_that_commits_are_hidden(bob: Bob) -> None:
    """The broker leaves out commits on topics that may not be described: no bound of a lag holds, and 4 at once."""
    bob.may(*without(topic("secret")))
    for bound in ("lag=1000", "lag-time=1h"):
        named = bob("wait", "idle", "--for", bound, "-o", "json", exit_code=4)
        assert "idle: 1 commit on secret hidden: no DESCRIBE on Topic" in named.stderr
    bob.may(*without(topic("secret"), HISTORY))
    unknown = bob("wait", "idle", "--for", "lag=1000", exit_code=4)
    assert "commits on topics that you may not describe may be missing" in unknown.stderr
    bob("wait", "idle", "--for", "empty")
    bob.may(*EVERYTHING)
    assert "note:" not in bob("wait", "idle", "--for", "lag=1000", "--within", "2s").stderr


def test_changes_of_a_share_group(bob: Bob) -> None:
    """READ sets start offsets, DELETE deletes them; a plan knows it before, and says where it starts next if it may."""
    read, delete = (ACLOperation.READ, group("jobs")), (ACLOperation.DELETE, group("jobs"))
    reset = ("reset", "jobs", "--topic", "open", "--to-earliest", "--execute")
    bob.may(topic("open"), also=[read])
    bob(*reset, "--create", "--type", "share")
    bob.may(topic("open"), group("jobs"))
    assert "no READ on Group jobs" in bob(*reset, exit_code=4).stdout
    deletion = ("delete-offsets", "jobs", "--topic", "open")
    assert "no DELETE on Group jobs" in bob(*deletion, exit_code=4).stdout
    bob.may(topic("open"), also=[delete])
    assert "by share.auto.offset.reset, which could not be read" in " ".join(bob(*deletion).stdout.split())
    bob.may(topic("open"), also=[delete, (ACLOperation.DESCRIBE_CONFIGS, group("jobs"))])
    assert "share.auto.offset.reset=latest" in bob(*deletion).stdout
    bob(*deletion, "--execute")
    assert "no READ on Group jobs" in bob("undo", exit_code=4).stdout
    bob.may(topic("open"), also=[read])
    bob("undo", "--execute")
    bob.may(group("jobs"), also=[read, delete, (ACLOperation.DESCRIBE, topic("open"))])
    assert "no READ on Topic open" in bob(*reset, exit_code=4).stdout
    bob.may(also=[delete, (ACLOperation.DESCRIBE, topic("open"))])
    bob("delete", "jobs", "--execute")
