"""Commits that the broker hides, because their topic may not be described: named, or said to be possible; never "none".

The right that counts is the one on the topic, and no right on the cluster stands in for it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kafka.admin import ACLOperation, ResourceType

from tests.commands.test_rights import CLUSTER, HISTORY, LEDGER, Bob, bob, broker, group, settled, topic
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.secure_broker import SecureBroker, secure_broker

__all__ = ("bob", "broker", "settled")

UNKNOWN = "commits on topics that you may not describe may be missing"
NAMED = "idle: 1 commit on secret hidden: no DESCRIBE on Topic"
SECRET = [{"topic": "secret", "partition": 0}]
ANY_TOPIC, ANY_GROUP = (ResourceType.TOPIC, "*"), (ResourceType.GROUP, "*")
BLIND = (CLUSTER, group("idle"), topic("open"))
"""All but the topic secret; HISTORY beside them shows what is hidden."""
DELETE = ACLOperation.DELETE


def hidden(result: Result) -> list[dict[str, object]] | None:
    (found,) = result.data
    return found["hidden_commits"]  # type: ignore[no-any-return]


def offsets(world: KafkaWorld, name: str) -> dict[tuple[str, int], int]:
    return {place: offset for place, (offset, _) in world.committed(name).items()}


@pytest.mark.parametrize(("rights", "said", "places"), [(BLIND, UNKNOWN, None), ((*BLIND, HISTORY), NAMED, SECRET)])
def test_reading_verbs_say_it_in_every_format(
    bob: Bob, rights: tuple[tuple[ResourceType, str], ...], said: str, places: object
) -> None:
    bob.may(*rights)
    for verb in ("describe", "lag", "export"):
        result = bob(verb, "idle", "-o", "json")
        assert hidden(result) == places
        assert result.stderr.count(said) == 1
        for form in ("csv", "table"):
            assert said in bob(verb, "idle", "-o", form).stderr
    assert UNKNOWN in bob("describe", "idle").stdout if places is None else "hidden" in bob("describe", "idle").stdout
    prometheus = bob("lag", "idle", "-o", "prometheus").stdout
    assert "kafka_consumergroup_group_lag{" in prometheus
    for summed in ("kafka_consumergroup_group_sum_lag{", "kgroup_last_success_timestamp_seconds{"):
        assert summed not in prometheus, "as if it were all of it"


@pytest.mark.parametrize("rights", [BLIND, (*BLIND, HISTORY)])
def test_a_check_does_not_pass_on_what_it_cannot_see(bob: Bob, rights: tuple[tuple[ResourceType, str], ...]) -> None:
    bob.may(*rights)
    for bound in (("--max-lag", "1000"), ("--max-lag-time", "24h"), ("--fail-on", "stop")):
        for level in ("group", "topic", "partition"):
            result = bob("lag", "idle", *bound, "--by", level, "-o", "json", exit_code=8)
            # The log tells that nobody reads what may be described; a line of its own says what may not.
            no_reader = "--fail-on" in bound and HISTORY in rights
            expected = {True} if no_reader and level == "group" else {no_reader, False}
            assert {violation["known"] for violation in result.data[0]["violations"]} == expected
    # Only the topic's own commits count where it is named.
    bob("lag", "idle", "--topic", "open", "--max-lag", "1000")
    assert hidden(bob("export", "idle", "--topic", "open", "-o", "json")) == []


def test_nothing_is_said_where_nothing_is_hidden(bob: Bob) -> None:
    """By DESCRIBE on all topics, as far as no ACL takes it back; and by the log, without any right on the cluster."""
    bob.may(CLUSTER, group("idle"), ANY_TOPIC)
    everything = bob("describe", "idle", "-o", "json")
    assert (hidden(everything), everything.stderr) == ([], "")
    bob.may(CLUSTER, group("idle"), ANY_TOPIC, not_=[topic("secret"), HISTORY])
    assert hidden(bob("describe", "idle", "--no-generation", "-o", "json")) is None
    bob.may(group("idle"), topic("open"), topic("secret"), HISTORY)
    searched = bob("describe", "idle", "-o", "json")
    assert (hidden(searched), UNKNOWN in searched.stderr) == ([], False)


def test_live_groups_too(bob: Bob) -> None:
    bob.may(CLUSTER, HISTORY, group("old"), group("new"), topic("open"))
    found = {
        each["group"]: each["hidden_commits"] for each in bob("export", "old", "new", "-o", "json", exit_code=7).data
    }
    both = [{"topic": "secret", "partition": number} for number in (0, 1)]
    assert found == {"old": both, "new": both}


@pytest.mark.programs("openssl")
@pytest.mark.soak
def test_where_everything_is_open_that_no_acl_names(tmp_path: Path) -> None:
    """A topic that does not exist may be described there, and one that has ACLs for others may not."""
    everyone = {"allow.everyone.if.no.acl.found": "true"}
    with secure_broker(tmp_path, QuietReporter(), everyone) as broker, KafkaWorld(broker.addresses["ADMIN"]) as world:
        for name in ("open", "secret"):
            world.topic(name)
        world.commit("idle", {("open", 0): 0, ("secret", 0): 0})
        bob = Bob(broker)
        assert hidden(bob("describe", "idle", "-o", "json")) == []
        for name in ("secret", "__consumer_offsets"):
            bob.may_describe(topic(name), who="alice")
        result = bob("describe", "idle", "--no-generation", "-o", "json")
        assert (hidden(result), [row["topic"] for row in result.data[0]["partitions"]]) == (None, ["open"])
        assert UNKNOWN in result.stderr


@pytest.mark.parametrize("log", [True, False])
def test_delete_is_refused_and_undo_says_what_it_lacks(bob: Bob, settled: KafkaWorld, log: bool) -> None:
    name = f"doomed-{log}"
    commits = {("open", 0): 1, ("secret", 0): 2}
    settled.commit(name, commits)
    read = [(ACLOperation.READ, group(name))]
    bob.may(CLUSTER, topic("open"), *([HISTORY] if log else []), also=[*read, (DELETE, group(name))])
    for execute in ((), ("--execute",)):
        refused = bob("delete", name, *execute, "-o", "json", exit_code=6)
        assert {error["code"] for error in refused.json["errors"]} == {"hidden-commits"}
        assert hidden(refused) == (SECRET if log else None)
        assert ("secret:0" in refused.json["errors"][0]["message"]) is log
    assert offsets(settled, name) == commits
    bob("delete", name, "--accept", "hidden-commits", "--execute")
    assert settled.committed(name) == {}
    back = bob("undo", "--execute", "-o", "json", exit_code=7 if log else 0)
    assert [(error["topic"], error["partition"]) for error in back.json["errors"]] == ([("secret", 0)] if log else [])
    assert log or UNKNOWN in back.stderr
    assert offsets(settled, name) == {("open", 0): 1}


def test_delete_by_a_user_who_sees_all(bob: Bob, settled: KafkaWorld) -> None:
    settled.commit("seen", {("open", 0): 1, ("secret", 0): 2})
    bob.may(CLUSTER, ANY_TOPIC, also=[(DELETE, group("seen"))])
    result = bob("delete", "seen", "--execute")
    assert UNKNOWN not in result.stdout + result.stderr
    assert "2 commits" in result.stdout


def test_a_super_user_is_told_nothing(broker: SecureBroker, settled: KafkaWorld, bob: Bob) -> None:
    """Nothing is hidden from super users, whatever ACLs deny to others."""
    bob.may(not_=[topic("secret")])
    result = CommandLine()("describe", "idle", "-o", "json", "-b", broker.addresses["ADMIN"])
    assert (hidden(result), result.stderr) == ([], "")


def test_other_readers_that_may_not_be_seen(bob: Bob) -> None:
    """SHAPE does not say "no other group" of groups that it may not read."""
    for rights in ((CLUSTER,), ()):
        bob.may(*rights, HISTORY, group("idle"), topic("open"), topic("secret"))
        page = " ".join(bob("describe", "idle").stdout.split())
        assert "whether another group reads 2 topics is unknown" in page, page
        verdict = bob("describe", "idle", "-o", "json").data[0]["verdict"]
        assert verdict["other_groups"]["unseen_reason"], json.dumps(verdict)
    bob.may(CLUSTER, HISTORY, ANY_GROUP, topic("open"), topic("secret"))
    assert "whether another group reads" not in bob("describe", "idle").stdout.split("SHAPE")[1].splitlines()[0]
    assert bob("describe", "idle", "-o", "json").data[0]["verdict"]["other_groups"]["unseen_reason"] is None
    assert bob("describe", "idle", "-o", "json").data[0]["verdict"]["other_groups"]["unseen_reason"] is None


def test_catchup_start_says_what_it_could_not_read(bob: Bob, settled: KafkaWorld) -> None:
    """Who commits, what retention takes and which commits are hidden: no "ok", and a warning in every format."""
    settled.commit("crashed", {("open", 0): 1, ("open", 1): 0})
    operations = (ACLOperation.CREATE, ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE_CONFIGS)
    ledger = [(operation, LEDGER) for operation in operations]
    needed = [
        (ACLOperation.READ, group("crashed")),
        (ACLOperation.WRITE, (ResourceType.TRANSACTIONAL_ID, "kgroup-catchup-check")),
        *ledger,
    ]
    start = ("catchup", "start", "crashed", "--release-only")
    unknown = {"retention-unknown", "committers-unknown", "hidden-commits"}

    def warnings(result: Result) -> set[str]:
        return {risk["code"] for risk in result.data[0]["risks"]} & unknown

    bob.may(CLUSTER, topic("open"), also=[*needed, (ACLOperation.DESCRIBE, HISTORY)])
    assert warnings(bob(*start, "-o", "json")) == unknown
    page = bob(*start).stdout
    assert "crashed is Empty\n" in page
    assert "no client commits" not in page
    assert (
        "it is unknown whether retention deletes records before they are replayed: no DESCRIBE_CONFIGS on open" in page
    )

    configs = (ACLOperation.DESCRIBE_CONFIGS, topic("open"))
    bob.may(CLUSTER, topic("open"), HISTORY, also=[*needed, configs])
    assert warnings(bob(*start, "-o", "json")) == set()
    assert "crashed is Empty, no client commits" in bob(*start).stdout


def test_pending_catch_ups_that_may_not_be_seen(broker: SecureBroker, bob: Bob, settled: KafkaWorld) -> None:
    """A released group lags by nothing: who may not read the ledger is not told that nothing is pending."""
    settled.commit("released", {("open", 0): 1, ("open", 1): 0})
    CommandLine()(
        "catchup", "start", "released", "--release-only", "--execute", "-b", broker.addresses["ADMIN"], exit_code=0
    )
    rights = (CLUSTER, HISTORY, group("released"), group("idle"), topic("open"), topic("secret"))
    bob.may(*rights)
    # Its own commits show that it was released, those of others show nothing.
    for name, owed in (("released", "PENDING maybe 4 or more in cu-"), ("idle", "PENDING unknown:")):
        for verb in ("describe", "lag"):
            page = " ".join(bob(verb, name).stdout.split())
            assert owed in page
            assert "_kgroup_ledger could not be read" in page
            assert "it is unknown whether a catch-up is pending" in bob(verb, name, "-o", "csv").stderr
            in_json = bob(verb, name, "-o", "json").data[0]["pending_catchups"]
            assert in_json is None if name == "idle" else [each["pending_offset_count"] for each in in_json] == [4]
    bob.may(*rights, also=[(ACLOperation.READ, group("released"))])
    assert (
        "it is unknown whether a catch-up is pending"
        in bob("reset", "released", "--all-topics", "--to-earliest").stderr
    )
    bob.may(*rights, LEDGER)
    (pending,) = bob("describe", "released", "-o", "json").data[0]["pending_catchups"]
    assert pending["pending_offset_count"] == 4
    settled.delete_group("released")


def test_what_could_not_be_read_is_no_finding(bob: Bob, settled: KafkaWorld) -> None:
    """With a right less, nothing would speak against a migration: that is not "ready"."""
    bob.may(CLUSTER, group("old"), topic("open"), topic("secret"))
    (found,) = bob("doctor", "old", "-o", "json").data
    assert "ready-to-migrate" not in {finding["rule"] for finding in found["findings"]}
    (why,) = (item["reason"] for item in found["unchecked_rules"] if item["rule"] == "ready-to-migrate")
    assert "could not be read" in why
    partly = {item["rule"] for item in found["unchecked_rules"] if item["reason"] == UNKNOWN}
    assert {"topic-gone", "never-read"} <= partly
