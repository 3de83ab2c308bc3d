"""Members and the feeder are what rows call them."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for
from tests.situations.programs.feeder import Fed, Feeder
from tests.situations.programs.member import Life
from tests.situations.programs.nursery import Nursery
from tests.situations.row import Action, Feed, Moment, Program, Row
from tests.situations.stage import Stage


def test_a_life_ends_by_time_or_by_records() -> None:
    assert not Life("").is_over(1e12)
    by_time = Life("8s:close")
    assert by_time.closes
    assert not by_time.is_over(0)
    assert by_time.is_over(1e12)
    by_records = Life("records:2:kill9")
    by_records.records = 1
    assert not by_records.is_over(0)
    by_records.records = 2
    assert by_records.is_over(0)
    with pytest.raises(AssertionError, match="no such life: 8m"):
        Life("8m")


def test_what_is_due_is_written_however_long_a_turn_takes() -> None:
    """Rates beyond a record a turn hold, and a burst is late rather than lost."""
    steady = Fed(Feed(per_s=100), next_s=10.0)
    assert steady.due(9.9) == 0
    assert steady.due(10.0) == 1
    assert sum(steady.due(10 + turn / 20) for turn in range(1, 21)) == 100
    assert steady.due(12.0) == 100
    burst = Fed(Feed(burst=(300, 60)), next_s=10.0)
    assert [burst.due(now) for now in (10.0, 69.9, 70.1, 190.0)] == [300, 0, 300, 600]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("client", "commit", "bad", "after_poison"),
    [
        ("librdkafka", "auto", "seek", 1),
        ("librdkafka", "store", "seek", 0),
        ("librdkafka", "each", "seek+commit", 0),
        ("librdkafka", "each", "dlq", 2),
        ("librdkafka", "txn", "abort", 0),
        ("java", "auto", "seek", 0),
        ("java", "batch", "seek:1", 0),
    ],
)
def test_what_is_committed_at_poison(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path, client: str, commit: str, bad: str, after_poison: int
) -> None:
    """The offset of the record, or the one after it; a client that puts it aside goes on."""
    row = Row(
        id="row",
        cause="",
        programs=(
            Program(commit=commit, bad=bad, client=client, settings={"auto.commit.interval.ms": "100"}, out="out"),
        ),
        topics={"t": 1, "out": 1},
        feed=Feed(per_s=20, only=("t:0",)),
        begin=(Action(0, "poison", "t:0"),),
    )
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic, group = world.topic(stage.topics["t"]), stage.groups["g"]
        world.topic(stage.topics["out"])

        def committed() -> int:
            return world.committed(group).get((topic, 0), (0, ""))[0]

        stage.start()
        wait_for(lambda: committed() > 0, "a commit before anything is wrong")
        stage.begin(0.0)
        stage.tick(0.0, {})
        poison = wait_for(lambda: feeder.poisoned(topic, 0), "the poison written")[0]
        if after_poison == 2:
            wait_for(lambda: committed() > poison + 1, "a commit past the poison")
        else:
            log = tmp_path / "app-0.log"
            wait_for(lambda: log.read_text().count(f" F {topic}:0 {poison}\n") >= 3, "three tries")
            wait_for(lambda: committed() == poison + after_poison, f"a commit of {poison + after_poison}")


@pytest.mark.soak
def test_a_pause_passes_nothing_that_was_not_processed(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    """What a batch has after the poison waits with it; other partitions go on."""
    row = Row(
        id="row",
        cause="",
        programs=(Program(commit="batch", bad="pause", batch=50),),
        feed=Feed(per_s=20),
        begin=(Action(0, "poison", "t:0"),),
    )
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic, group = world.topic(stage.topics["t"], 2), stage.groups["g"]
        stage.begin(0.0)
        stage.tick(0.0, {})
        poison = wait_for(lambda: feeder.poisoned(topic, 0), "the poison written")[0]
        stage.start()
        wait_for(lambda: stage.truth("g").was_tried((topic, 0), poison), "a try")
        wait_for(lambda: world.committed(group).get((topic, 1), (0,))[0] > 60, "a commit of the other partition")
        passed = range(world.committed(group)[topic, 0][0])
        assert stage.truth("g").unprocessed((topic, 0), passed) in ([], [poison])


def test_the_clock_of_a_producer_runs_on_from_where_it_began() -> None:
    """Each record, or each second one; others have the right time."""
    off = Fed(Feed(clocks={"t:0": (86_400, 1)}), next_s=10.0)
    assert [off.timestamp_ms(now_s) for now_s in (10.0, 12.5)] == [86_400_000, 86_402_500]
    of_two = Fed(Feed(clocks={"t:0": (86_400, 2)}), next_s=10.0)
    assert [of_two.timestamp_ms(11.0) for _ in range(4)] == [0, 86_401_000, 0, 86_401_000]
    assert Fed(Feed(), next_s=10.0).timestamp_ms(11.0) == 0


def test_a_member_that_is_broken_fails_at_each_record_and_goes_on_when_it_is_mended(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    row = Row(id="row", cause="", programs=(Program(commit="each", bad="seek"),), topics={"t": 1}, feed=Feed(per_s=20))
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic = world.topic(stage.topics["t"])
        stage.start()
        wait_for(lambda: stage.truth("g").processed, "a record")
        stage.do(Action(0, "break", "app"), 0.0)
        failed = wait_for(lambda: stage.truth("g").failed.get((topic, 0)), "a failure")
        assert len(failed) == 1
        [offset] = failed
        wait_for(lambda: len(stage.truth("g").failed[topic, 0][offset]) > 1, "another try")
        assert offset not in stage.truth("g").processed[topic, 0]
        stage.do(Action(0, "mend", "app"), 0.0)
        wait_for(lambda: offset + 1 in stage.truth("g").processed[topic, 0], "the records after it")


@pytest.mark.soak
def test_the_offset_of_the_last_record_is_committed_again_and_again(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    row = Row(id="row", cause="", programs=(Program(commit="last:1"),), topics={"t": 1}, feed=Feed(per_s=0))
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic = world.topic(stage.topics["t"])
        world.produce(topic, 5)
        stage.start()
        wait_for(lambda: 4 in stage.truth("g").processed.get((topic, 0), ()), "all records")
        wait_for(lambda: [n for _, n in stage.truth("g").committed.get((topic, 0), ())][-2:] == [4, 4], "two commits")
        assert world.committed(stage.groups["g"])[topic, 0][0] == 4


@pytest.mark.soak
def test_a_record_waits_until_it_is_old_and_those_after_it_do_too(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    row = Row(id="row", cause="", programs=(Program(commit="each", delay_s=3),), topics={"t": 1}, feed=Feed(per_s=2))
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic = world.topic(stage.topics["t"])
        stage.start()
        wait_for(lambda: len(stage.truth("g").processed.get((topic, 0), {})) > 5, "six records")
        done = stage.truth("g").processed[topic, 0]
        assert sorted(done) == list(range(len(done)))
        assert feeder.end(topic, 0) - max(done) >= 5


@pytest.mark.soak
def test_a_record_is_slow_for_the_first_who_reads_it(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    """The other member finds what was loaded."""
    program = Program(commit="each", bad="slow:60", settings={"max.poll.interval.ms": "10000"})
    row = Row(id="row", cause="", programs=(program, replace(program, name="other", waits=True)), topics={"t": 1})
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic = world.topic(stage.topics["t"])
        stage.start()
        wait_for(lambda: stage.truth("g").processed, "a record")
        feeder.poison(topic, 0)
        poison = wait_for(lambda: feeder.poisoned(topic, 0), "the poison written")[0]
        wait_for(lambda: (tmp_path / "slow").exists(), "the first try")
        stage.do(Action(0, "start", "other"), 0.0)
        wait_for(lambda: poison in stage.truth("g").processed[topic, 0], "the record processed", 45)
        assert f" P {topic}:0 {poison}\n" in (tmp_path / "other-0.log").read_text()


def test_a_topic_that_was_deleted_has_no_truth_and_the_others_have(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    row = Row(
        id="row",
        cause="",
        programs=(Program(commit="each", topics=("kept", "gone")),),
        topics={"kept": 1, "gone": 1},
        begin=(Action(0, "quiet", "gone"), Action(1, "delete", "gone")),
    )
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        kept, gone = (world.topic(stage.topics[each]) for each in row.topics)
        stage.start()
        wait_for(lambda: len(stage.truth("g").processed) == 2, "records of both")
        stage.begin(0.0)
        stage.tick(0.0, {})
        stage.tick(1.0, {})
        assert stage.holds(1.0, Moment.HALF_A_MINUTE) == ""
        assert gone not in world.topics()
        state = stage.state()
        assert {topic for topic, _ in state.logs} == {kept}
        assert {topic for group in state.groups.values() for topic, _ in group.committed} == {kept}
        assert feeder.feeds(kept, 0)
        assert not feeder.feeds(gone, 0)


@pytest.mark.soak
def test_a_transaction_is_open_as_long_as_its_records_take(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    feed = Feed(per_s=20, transaction=(100, 0), held=True)
    row = Row(id="row", cause="", programs=(Program(commit="each"),), topics={"t": 1}, feed=feed)
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic = world.topic(stage.topics["t"])
        stage.start()
        try:
            wait_for(lambda: world.end(topic, 0) > 5, "records of an open transaction")
            assert stage.truth("g").processed == {}
            wait_for(lambda: 99 in stage.truth("g").processed.get((topic, 0), ()), "the transaction read")
        finally:
            stage.stop()


def test_poison_that_no_row_means_is_no_situation(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    row = Row(id="row", cause="", programs=(Program(commit="each"),), topics={"t": 1})
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        feeder.poison(world.topic(stage.topics["t"]), 0)
        stage.start()
        stage.tick(0.0, wait_for(nursery.ended, "its end"))
        assert stage.holds(0.0, Moment.HALF_A_MINUTE) == "app-0 failed, see stderr"


def test_a_member_that_cannot_run_is_no_situation(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    """Else a healthy row would be right about a group that nobody is in."""
    row = Row(id="row", cause="", programs=(Program(commit="each", settings={"no.such": "setting"}),), topics={"t": 1})
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        world.topic(stage.topics["t"])
        stage.start()
        stage.tick(0.0, wait_for(nursery.ended, "its end"))
        assert stage.holds(0.0, Moment.HALF_A_MINUTE) == "app-0 failed, see stderr"


@pytest.mark.soak
def test_a_streams_application_copies_until_poison_ends_it(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    program = Program(commit="auto", bad="throw:SHUTDOWN_CLIENT", client="streams", topics=("t", "out"))
    row = Row(
        id="row",
        cause="",
        programs=(program,),
        topics={"t": 1, "out": 1},
        feed=Feed(per_s=20, only=("t:0",)),
        begin=(Action(0, "poison", "t:0"),),
    )
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic, out = (world.topic(stage.topics[each]) for each in row.topics)
        stage.start()
        wait_for(lambda: world.end(out, 0) > 0, "a copied record", 60)
        stage.begin(0.0)
        stage.tick(0.0, {})
        poison = wait_for(lambda: feeder.poisoned(topic, 0), "the poison written")[0]
        ended = wait_for(nursery.ended, "its end", 60)
        assert list(ended.values()) == [3]
        assert stage.truth("g").was_tried((topic, 0), poison)
        assert stage.truth("g").unprocessed((topic, 0), range(poison)) == []


@pytest.mark.soak
def test_the_task_of_a_connector_fails_at_poison(world: KafkaWorld, name: Callable[[str], str], tmp_path: Path) -> None:
    """Its group has no members then, and stands at the poison or before. Until then it can be stopped, and goes on."""
    json = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
    row = Row(
        id="row",
        cause="",
        programs=(Program(commit="timer:60", bad="fail", client="connect", settings=json),),
        topics={"t": 1},
        feed=Feed(per_s=20),
        begin=(Action(0, "poison", "t:0"),),
    )
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic, group = world.topic(stage.topics["t"]), stage.groups["g"]
        stage.start()
        copied = tmp_path / "app-0.txt"
        wait_for(lambda: copied.exists() and copied.read_text(), "a record in its file", 90)
        id_ = f"{group.removeprefix('connect-').removesuffix('.g')}.app-0"
        nursery.signal(id_, signal.SIGTERM)
        assert wait_for(nursery.ended, "its stop", 60) == {id_: 0}
        before = copied.read_text()
        stage.start()
        wait_for(lambda: len(copied.read_text()) > len(before), "records after it was started again", 60)
        stage.begin(0.0)
        stage.tick(0.0, {})
        poison = wait_for(lambda: feeder.poisoned(topic, 0), "the poison written")[0]
        wait_for(lambda: world.groups().get(group) == ("classic", "empty"), "a group without members", 60)
        assert nursery.ended() == {}
        assert 0 < world.committed(group)[topic, 0][0] <= poison


@pytest.mark.soak
def test_a_zombie_commits_what_others_own(world: KafkaWorld, name: Callable[[str], str], tmp_path: Path) -> None:
    row = Row(
        id="row",
        cause="",
        programs=(Program(commit="none"), Program(commit="fixed:7@1s", name="zombie")),
        feed=Feed(per_s=0),
    )
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic = world.topic(stage.topics["t"], 2)
        stage.start()
        wait_for(lambda: [offset for offset, _ in world.committed(stage.groups["g"]).values()] == [7], "its commit")
        assert f" C {topic}:" in (tmp_path / "zombie-0.log").read_text()


def test_a_member_that_dies_in_its_join_keeps_the_group_waiting(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    row = Row(id="row", cause="", programs=(Program(commit="none", life="before-sync"),), feed=Feed(per_s=0))
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        world.topic(stage.topics["t"], 2)
        stage.start()
        assert wait_for(nursery.ended, "its end") == {f"{stage.groups['g'].removesuffix('.g')}.app-0": -9}
        assert world.groups()[stage.groups["g"]] == ("classic", "completingrebalance")


def test_records_of_transactions_are_read_where_they_are_not_aborted(
    world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    """Of three transactions of five records and a marker one is aborted."""
    row = Row(
        id="row", cause="", programs=(Program(commit="each"),), topics={"t": 1}, feed=Feed(per_s=50, transaction=(5, 3))
    )
    with Nursery() as nursery, Feeder(world.bootstrap) as feeder:
        stage = Stage(row, name("situation"), world, nursery, feeder, tmp_path)
        topic = world.topic(stage.topics["t"])
        stage.start()

        def done() -> list[int]:
            return sorted(stage.truth("g").processed.get((topic, 0), {}))

        try:
            wait_for(lambda: 24 in done(), "four transactions read")
        finally:
            stage.stop()
        assert [offset for offset in done() if offset < 24] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 18, 19, 20, 21, 22]
