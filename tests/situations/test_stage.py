"""A stage without a broker: symbols, actions, and who is started again."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for
from tests.situations.row import Action, At, Feed, Later, Moment, Program, Row, Spec
from tests.situations.stage import Stage

NOW = Moment.HALF_A_MINUTE


class World:
    """A group that has committed 90 of 100 records."""

    bootstrap = "nowhere:1"

    def __init__(self) -> None:
        self.commits: list[tuple[str, Mapping[tuple[str, int], int]]] = []

    def committed(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        return {(group.replace(".g", ".t"), 0): (90, "")}

    def end(self, topic: str, partition: int) -> int:
        return 100

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        self.commits.append((group, offsets))


class Started:
    """A nursery that starts nobody; and a feeder of one poison, at 95."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.specs: list[Spec] = []

    def start(self, spec: Spec) -> int:
        self.ids.append(spec.id)
        self.specs.append(spec)
        return 1

    def signal(self, id_: str, number: int) -> None:
        pass

    def feed(self, topic: str, partition: int, feed: Feed) -> None:
        pass

    def quiet(self, topic: str) -> None:
        pass

    def poison(self, topic: str, partition: int) -> None:
        pass

    def poisoned(self, topic: str, partition: int) -> tuple[int, ...]:
        return (95,)

    def feeds(self, topic: str, partition: int) -> bool:
        return True

    def end(self, topic: str, partition: int) -> int:
        return 100


def staged(row: Row, directory: Path) -> tuple[Stage, World, Started]:
    world, started = World(), Started()
    return Stage(row, "x", cast(KafkaWorld, world), started, started, directory), world, started


def test_symbols_are_offsets_of_the_place_of_the_cause(tmp_path: Path) -> None:
    row = Row(
        id="x",
        cause="",
        programs=(Program(commit="each"),),
        at=(At("t:0", offset="P", committed="P P+1 C"),),
        begin=(Action(99, "quiet"),),
    )
    stage, *_ = staged(row, tmp_path)
    stage.begin(0)
    assert stage.symbols() == {"C": 90, "E": 100, "P": 95}
    assert [stage.offset(symbol) for symbol in ("P+1", "C-2", "E", "7")] == [96, 88, 100, 7]
    assert stage.holds(30, NOW) == ""


def test_what_does_not_hold_is_said(tmp_path: Path) -> None:
    row = Row(id="x", cause="", programs=(Program(commit="each"),), at=(At("t:0", offset="P", committed="P"),))
    stage, *_ = staged(row, tmp_path)
    stage.begin(0)
    assert stage.holds(30, NOW) == "t:0 is committed at 90, not at P [95]"


def test_what_holds_later_is_what_the_row_says_of_then(tmp_path: Path) -> None:
    row = Row(
        id="x",
        cause="",
        programs=(Program(commit="each"),),
        begin=(Action(99, "quiet"),),
        at=(At("t:0", committed="E"),),
        later=Later(Moment.TEN_MINUTES, "", at=(At("t:0", committed="C"),)),
    )
    stage, *_ = staged(row, tmp_path)
    stage.begin(0)
    assert stage.holds(30, Moment.TWO_MINUTES) == "t:0 is committed at 90, not at E [100]"
    assert stage.holds(30, Moment.TEN_MINUTES) == ""


class Nowhere:
    """Brokers that another row has started again."""

    def fail(self, do: str, broker: int) -> None: ...
    def start_all(self) -> None: ...
    def is_down(self, broker: int) -> bool:
        return False


def test_a_broker_that_another_row_started_again_is_no_dead_one(tmp_path: Path) -> None:
    row = Row(
        id="x",
        cause="",
        programs=(Program(commit="each"),),
        replicas=((1,),),
        begin=(Action(0, "kill-broker", "leader t:0"), Action(9, "start-brokers")),
    )
    stage = Stage(row, "x", cast(KafkaWorld, World()), Started(), Started(), tmp_path, Nowhere())
    stage.begin(0)
    stage.tick(0, {})
    assert stage.holds(5, NOW) == "broker 1 was started by another row"
    stage.tick(9, {})
    assert stage.holds(10, NOW) == ""


def test_a_setting_is_of_the_next_life_in_the_words_of_the_client(tmp_path: Path) -> None:
    row = Row(id="x", cause="", programs=(Program(commit="each", batch=500, members=2),))
    stage, _, started = staged(row, tmp_path)
    for name, value in (
        ("session.timeout.ms", "45000"),
        ("max.poll.records", "100"),
        ("group.instance.id", "NAME-OF-THE-INSTANCE"),
        ("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"),
    ):
        stage.change_settings("app-1", name, value)
    stage.start()
    unchanged, changed = started.specs
    assert (unchanged.settings["session.timeout.ms"], unchanged.batch) == ("10000", 500)
    assert set(changed.settings.items()) - set(unchanged.settings.items()) == {
        ("client.id", "app-1"),
        ("session.timeout.ms", "45000"),
        ("group.instance.id", "app-1"),
        ("partition.assignment.strategy", "cooperative-sticky"),
    }
    assert changed.batch == 100


def test_a_reset_is_due_in_time_and_at_its_symbol(tmp_path: Path) -> None:
    row = Row(id="x", cause="", programs=(Program(commit="each"),), begin=(Action(5, "reset", "t:0=E-50"),))
    stage, world, _ = staged(row, tmp_path)
    stage.begin(100)
    stage.tick(104, {})
    assert world.commits == []
    stage.tick(105, {})
    assert world.commits == [("x.g", {("x.t", 0): 50})]


def test_an_action_before_the_beginning_is_due_when_that_is_near(tmp_path: Path) -> None:
    row = Row(id="x", cause="", programs=(Program(commit="each"),), begin=(Action(-10, "reset", "t:0=7"),))
    stage, world, _ = staged(row, tmp_path)
    stage.start(begins_s=100)
    stage.tick(89, {})
    assert world.commits == []
    stage.tick(90, {})
    assert world.commits == [("x.g", {("x.t", 0): 7})]


def test_an_action_waits_for_the_command_before_it(tmp_path: Path) -> None:
    """And a command that fails is no situation."""
    begin = (Action(0, "kgroup", "describe {g} --no-such"), Action(0, "reset", "t:0=7"))
    row = Row(id="x", cause="", programs=(Program(commit="each"),), begin=begin)
    stage, world, _ = staged(row, tmp_path)
    stage.begin(0)
    stage.tick(0, {})
    assert world.commits == []
    assert "still runs" in stage.holds(0, NOW)
    wait_for(lambda: "still runs" not in stage.holds(0, NOW), "its end")
    stage.tick(1, {})
    assert len(world.commits) == 1
    assert stage.holds(1, NOW).startswith("exit 2 of ")
    assert "--no-such" in (tmp_path / "operator.log").read_text()


def test_an_action_that_fails_is_said_and_ends_no_run(tmp_path: Path) -> None:
    row = Row(id="x", cause="", programs=(Program(commit="each"),), begin=(Action(0, "reset", "t:0=P"),))
    stage, *_ = staged(row, tmp_path)
    stage.begin(0)
    stage.tick(0, {})
    assert stage.holds(30, NOW) == "reset t:0=P: KeyError('P')"


def test_the_dead_live_again_unless_they_were_ended(tmp_path: Path) -> None:
    row = Row(
        id="x",
        cause="",
        programs=(Program(commit="each", members=2, restart_s=2),),
        begin=(Action(0, "end", "app-1"),),
    )
    stage, _, started = staged(row, tmp_path)
    stage.start()
    stage.begin(0)
    stage.tick(0, {})
    stage.tick(1, {"x.app-0": -9, "x.app-1": 0})
    assert started.ids == ["x.app-0", "x.app-1"]
    stage.tick(3, {})
    assert started.ids == ["x.app-0", "x.app-1", "x.app-0"]


def test_what_members_did_is_judged_since_the_last_look(tmp_path: Path) -> None:
    """A healthy group that reads no more is none; what it was ended by is no matter then."""
    row = Row(id="x", cause="", healthy=True, programs=(Program(commit="each"),), topics={"t": 1})
    stage, *_ = staged(row, tmp_path)
    log = tmp_path / "app-0.log"
    stage.start()
    log.write_text("90000 P x.t:0 50\n")
    stage.begin(100)
    log.write_text("90000 P x.t:0 50\n110000 P x.t:0 60\n")
    assert stage.holds(130, NOW) == ""
    assert stage.holds(220, NOW) == "g read nothing of t:0 since the last look, when 39 records were unread"
    stage.tick(221, {"x.app-0": 0})
    assert stage.holds(230, NOW) == "app-0 ended, and the row does not say so"


def test_one_that_is_ended_between_two_lives_has_no_other(tmp_path: Path) -> None:
    row = Row(id="x", cause="", programs=(Program(commit="each", restart_s=2),))
    stage, _, started = staged(row, tmp_path)
    stage.start()
    stage.tick(1, {"x.app-0": -9})
    assert (stage.living(), stage.wanted()) == ({}, ["app-0"])
    stage.do(Action(0, "end", "app-0"), 1)
    stage.tick(3, {})
    assert (started.ids, stage.wanted()) == (["x.app-0"], [])
    stage.do(Action(0, "start", "app-0"), 4)
    assert list(stage.living()) == ["app-0"]
