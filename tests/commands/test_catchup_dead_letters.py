"""``kgroup catchup start --from-dead-letters``: dead letters go back, once, and stay after so many times."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kgroup.model.records import Headers
from tests.helpers.catchup.catchups import LOCAL, plan_id
from tests.helpers.catchup.replays import producer, seen, sources
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]


def spring(topic: str, error: str = "com.acme.Timeout") -> Headers:
    """The headers of Spring Kafka."""
    return (
        ("kafka_dlt-original-topic", topic.encode()),
        ("kafka_dlt-original-partition", struct.pack(">i", 1)),
        ("kafka_dlt-exception-fqcn", error.encode()),
    )


def die(world: KafkaWorld, dead: str, records: Sequence[Headers]) -> None:
    """Write dead letters with these headers."""
    writer = producer(world.bootstrap)
    for number, headers in enumerate(records):
        writer.produce(dead, b"%d" % number, b"k%d" % number, 0, headers=list(headers))
    assert writer.flush(30) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("G", "--from-dead-letters", "d"), "--from-dead-letters and GROUP are mutually exclusive"),
        (("--from-dead-letters", "d", "--range", "t:0=1-2"), "--range and --from-dead-letters are mutually exclusive"),
        (("--from-dead-letters", "d", "--skipped-by", "ch-7k2f"), "--skipped-by and --from-dead-letters are"),
        (("--from-dead-letters", "d", "--missing", "latest"), "--from-dead-letters and --missing are"),
        (("--from-dead-letters", "d", "--skip-before", "03:05Z"), "--from-dead-letters and --skip-before are"),
        (("--from-dead-letters", "d", "--if-empty"), "--from-dead-letters and --if-empty are"),
        (("--from-dead-letters", "d", "--release-only"), "--from-dead-letters and --release-only are"),
        (("--from-dead-letters", "d", "--to-spark", "delta"), "--from-dead-letters and --to-spark are"),
        (("--from-dead-letters", "d", "--to-topic", "t", "--where", "true"), "--from-dead-letters and --where are"),
        (("--from-dead-letters", "d", "--max-attempts", "0"), "--max-attempts must be at least 1, not 0"),
        (("--from-dead-letters", "d", "--since", "1h", "--until", "2h"), "--since is not before --until"),
        (("--from-dead-letters", "d e"), "--from-dead-letters 'd e': not a valid topic name"),
        (("--from-dead-letters", "d", "--to-source", "--to-topic", "t"), "--to-topic and --to-source are"),
        (("--from-dead-letters", "d", "--to-topic", "d"), "--to-topic d and --from-dead-letters d: a record cannot"),
        (("G", "--to-source"), "--to-source requires --from-dead-letters"),
        (("G", "--key", "k"), "--key requires --from-dead-letters"),
        (("G", "--max-attempts", "2"), "--max-attempts requires --from-dead-letters"),
    ],
)
def test_what_cannot_be_combined(kgroup: CommandLine, words: tuple[str, ...], message: str) -> None:
    assert message in kgroup("catchup", "start", *words, exit_code=2).stderr


def test_the_plan_counts_and_names_what_stays(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    dead, source = world.topic(name("dlt")), world.topic(name("orders"), 2)
    often: Headers = (*spring(source), ("kgroup.redrives", b"3"))
    die(world, dead, [spring(source), spring(source), (), often, spring(source, "com.acme.Bad")])

    (plan,) = kgroup("catchup", "start", "--from-dead-letters", dead, "--error", "Timeout", "-o", "json").data
    page = kgroup("catchup", "start", "--from-dead-letters", dead)

    found = {(row["error"], row["fate"]): row["record_count"] for row in plan["dead_letters"]["rows"]}
    assert found == {
        ("com.acme.Timeout", "deliver"): 2,
        ("com.acme.Timeout", "gave-up"): 1,
        ("com.acme.Bad", "filtered"): 1,
        (None, "filtered"): 1,
    }
    assert [(row["start"], row["end"]) for row in plan["ranges"]] == [(0, 2)]
    assert f"1 record not delivered, 0:2 of {dead}: no header names their source topic" in page.stderr
    assert f"--from-dead-letters {dead}" in page.stdout
    assert "--to-source --execute" in page.stdout
    assert "dead_letters" in plan


def test_a_source_that_does_not_exist_is_refused(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    dead, gone = world.topic(name("dlt")), name("gone")
    die(world, dead, [spring(gone)])

    refused = kgroup("catchup", "start", "--from-dead-letters", dead, "--to-source", exit_code=6)

    assert f"--to-source {gone}: the topic does not exist" in refused.stdout + refused.stderr
    assert gone not in world.topics()
    assert "[unknown-topic]" in kgroup("catchup", "start", "--from-dead-letters", gone, exit_code=5).stderr


@pytest.mark.soak
def test_each_goes_back_once(kgroup: CommandLine, world: KafkaWorld, name: Name, bystander: str) -> None:
    dead, source = world.topic(name("dlt")), world.topic(name("orders"), 2)
    die(world, dead, [spring(source), (), spring(source)])
    words = ("catchup", "start", "--from-dead-letters", dead, "--to-source")

    done = kgroup(*words, *LOCAL, "--execute")

    found = seen(world.bootstrap, source)
    assert sources(found) == [f"{dead}:0:0", f"{dead}:0:2"]
    assert {one.partition for one in found} == {1}
    assert "VERIFIED" in done.stdout
    (plan,) = kgroup("catchup", "show", plan_id(done), "-o", "json").data
    counted = plan["totals"]
    assert (counted["record_count"], counted["delivered_count"], counted["filtered_count"]) == (3, 2, 1)
    assert plan["destination"] == "the source topics"
    again = kgroup(*words, *LOCAL, "--execute")
    assert "no dead letter to deliver: nothing to do" in again.stderr
    assert "left out, because its dead letters" in kgroup("catchup", "prune", "--execute").stderr
    (other,) = kgroup(*words[:-1], "--to-topic", name("orders"), "-o", "json", exit_code=6).data
    assert [row["fate"] for row in other["dead_letters"]["rows"]] == ["earlier", "deliver"]


@pytest.mark.soak
def test_a_loop_ends(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    """A handler that always refuses: its dead letters come back to the same topic until --max-attempts."""
    dead = world.topic(name("dlt"))
    die(world, dead, [spring("orders")])
    words = ("catchup", "start", "--from-dead-letters", dead, "--max-attempts", "2", "--retries", "0")
    refusing = (*words, "--to-command", "exit 3", "--dead-letter-topic", dead, *LOCAL, "--execute")

    for _ in range(2):
        kgroup(*refusing)
    last = kgroup(*refusing)

    found = seen(world.bootstrap, dead)
    assert [one.header("kgroup.redrives") for one in found] == [None, "1", "2"]
    assert {one.header("kgroup.dead-letter-of") for one in found[1:]} == {"orders:1"}
    assert "nothing to do" in last.stderr
    assert f"0:{found[2].offset} of {dead}" in last.stderr


@pytest.mark.soak
def test_a_killed_run_is_continued_and_nothing_comes_twice(kgroup: CommandLine, world: KafkaWorld, name: Name) -> None:
    dead, source = world.topic(name("dlt")), world.topic(name("orders"), 2)
    die(world, dead, [spring(source) if number % 3 else () for number in range(600)])
    words = ("catchup", "start", "--from-dead-letters", dead, "--to-source")
    run = kgroup.start(*words, "--rate", "60/s", *LOCAL, "--execute")
    try:
        wait_for(lambda: seen(world.bootstrap, source), "the first transaction")
    finally:
        run.kill()
        run.communicate()
    (listed,) = kgroup("catchup", "list", "-o", "json").data

    pending = kgroup(*words)
    kgroup("catchup", "resume", listed["plan_id"], "--rate", "off", *LOCAL, "--execute")

    assert "nothing to do" in pending.stderr, "the open plan has them"
    assert sorted(map(str, sources(seen(world.bootstrap, source)))) == sorted(
        f"{dead}:0:{n}" for n in range(600) if n % 3
    )
    (plan,) = kgroup("catchup", "show", listed["plan_id"], "-o", "json").data
    assert (plan["state"], plan["totals"]["verified"], plan["totals"]["delivered_count"]) == ("done", True, 400)


@pytest.mark.soak
def test_what_an_abandoned_plan_did_not_deliver_is_in_the_next(
    kgroup: CommandLine, world: KafkaWorld, name: Name
) -> None:
    dead, source = world.topic(name("dlt")), world.topic(name("orders"), 2)
    die(world, dead, [spring(source)] * 5)
    words = ("catchup", "start", "--from-dead-letters", dead)
    refused = kgroup(*words, "--to-command", "exit 3", "--retries", "0", *LOCAL, "--execute", exit_code=8)
    nothing = kgroup(*words, "--to-source")

    kgroup("catchup", "cancel", plan_id(refused), "--abandon", "--execute")
    (plan,) = kgroup(*words, "--to-source", "-o", "json").data

    assert "nothing to do" in nothing.stderr
    assert [(row["start"], row["end"]) for row in plan["ranges"]] == [(0, 5)]


def test_what_a_reset_saved_in_a_file_is_loaded_once(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    group, source, saved, path = name("svc"), world.topic(name("orders")), world.topic(name("saved")), tmp_path / "s"
    world.produce(source, 5)
    world.commit(group, {(source, 0): 2})
    kgroup("reset", group, "--topic", source, "--to-latest", "--save-skipped", str(path), "--execute")
    words = ("catchup", "start", "--from-dead-letters", saved, "--load", str(path))

    planned = kgroup(*words, "--to-source")
    for _ in range(2):  # Without such a command: loaded, and then refused.
        kgroup(*words, "--to-python", "no.such:function", *LOCAL, "--execute", exit_code=6)
    plan = kgroup("catchup", "start", "--from-dead-letters", saved, "--to-source", "-o", "json").data[0]

    assert f"--load: 3 of 3 records of {path} would be written to {saved}" in planned.stderr
    assert world.end(saved) == 3
    assert [(row["source_topic"], row["record_count"]) for row in plan["dead_letters"]["rows"]] == [(source, 3)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no json\n", "line 1 is no record"),
        ('{"topic": "t"}\n', "line 1 is no record: Object missing required field `partition`"),
    ],
)
def test_a_file_of_something_else_is_refused(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, text: str, why: str
) -> None:
    saved, path = world.topic(name("saved")), tmp_path / "s"
    path.write_text(text)
    words = ("catchup", "start", "--from-dead-letters", saved, "--load")

    assert why in kgroup(*words, str(path), exit_code=2).stderr
    assert "No such file" in kgroup(*words, str(tmp_path / "none"), exit_code=2).stderr
