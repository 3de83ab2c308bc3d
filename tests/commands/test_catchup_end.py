"""``kgroup catchup stop``, ``cancel``, ``prune``, ``resume --release-only``; and the verbs that warn of open plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.release import StateWriter, exclusive_membership
from kgroup.catchup.worker.task_ledger import TaskLedger, Work
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.catchup.model import ChunkProgress, PlanSnapshot, PlanState
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose, new_plan_id
from kgroup.model.commit import Commit
from kgroup.model.migration_facts import CATCHUP_INSTANCE_ID
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from kgroup.support.errors import Refused
from tests.helpers import by_hand
from tests.helpers.catchup.catchups import KINDS, Crash, crash, offsets, plan_id, released
from tests.helpers.catchup.ledgers import delivery
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.conversion import to_consumer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]


@contextmanager
def engine(bootstrap: str, ledger: str) -> Iterator[CatchupEngine]:
    """Another run of kgroup, that stops where a test wants it to."""
    settings = resolve(Connection(bootstrap_server=bootstrap, timeout="60s"), QuietReporter(), environ={})
    with (
        ChangingCluster(settings) as cluster,
        Ledger(librdkafka_config(settings), ledger, timeout_s=60) as books,
    ):
        yield CatchupEngine(cluster, books, "other@jump-2", lambda: round(time.time() * 1000))


def found(engine: CatchupEngine, plan: str) -> PlanSnapshot:
    return engine.ledger.read(plan)


def delivered(bootstrap: str, engine: CatchupEngine, plan: str, *upto: int, copy: str = "copy") -> None:
    """A runner and its worker, which deliver so much of the plan's first chunks, and are killed."""
    with engine.take_over(found(engine, plan)) as runner:
        what = replace(delivery((0,), (1,)), options={"topic": copy})
        runner.write(what)
        for task, offset in zip(what.tasks, upto, strict=False):
            work = Work(engine.ledger.topic, plan, runner.snapshot.offset, runner.epoch.number, task)
            with TaskLedger({"bootstrap.servers": bootstrap}, work, timeout_s=8) as books:
                books.commit(ChunkProgress(task.chunks[0], offset, 10, 0, 0, 100, engine.now_ms(), runner.epoch.number))


def broken_off(engine: CatchupEngine, plan: str, *places: tuple[str, int]) -> None:
    """A runner that wrote ``releasing``, released these partitions, and was killed."""
    with engine.take_over(found(engine, plan)) as runner:
        made = runner.snapshot.plan
        states = StateWriter(runner, runner.snapshot.state, engine.now_ms)
        assert made.group is not None
        with exclusive_membership(engine.cluster, made) as holding:
            states.write(PlanState.RELEASING, log_position=engine.cluster.end_of_commits(made.group))
            mark = CatchupCommitTag(plan, runner.epoch.number, TagPurpose.RELEASE).metadata
            ends = {item.tp: Commit(item.end, None, mark) for item in made.ranges if item.tp in places}
            assert not any(holding.commit(ends).values())


def planned(kgroup: CommandLine, world: KafkaWorld, crashed: Crash, engine: CatchupEngine) -> str:
    """A plan whose release has not begun: one that was moved back, without its end."""
    plan = released(kgroup, crashed)
    made = found(engine, plan).plan
    world.commit(crashed.group, {(crashed.topic, 0): (70, "the app's own", 0), (crashed.topic, 1): 20})
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")
    return engine.create(replace(made, id=new_plan_id())).plan.id


@pytest.mark.parametrize("kind", KINDS)
def test_cancel_moves_the_group_back_as_it_was(
    kgroup: CommandLine, world: KafkaWorld, name: Name, kind: str, bystander: str
) -> None:
    crashed = crash(world, name("orders"), name("svc"), kind)
    before = world.exact(crashed.group)
    plan = released(kgroup, crashed)

    dry = kgroup("catchup", "cancel", plan)
    assert offsets(world, crashed.group) == crashed.released
    done = kgroup("catchup", "cancel", plan, "--execute", "-o", "json")

    assert f"kgroup catchup cancel {plan} --execute" in dry.stdout
    assert world.exact(crashed.group) == before
    assert [(row["old_offset"], row["new_offset"]) for row in done.data[0]["moves"]] == [(120, 70), (50, 20)]
    assert (done.data[0]["state"], done.json["executed"]) == ("cancelled", True)
    assert f"\n{plan} is cancelled: nothing to do" in kgroup("catchup", "cancel", plan, "--execute").stdout
    assert world.exact(crashed.group) == before
    jumps = kgroup("history", crashed.group, "--commits", "-o", "json").data[0]["commits"]["jumps"]
    assert [jump["command"] for jump in jumps if jump["author_name"] == plan] == [None, None]


def test_a_group_that_went_on_is_moved_back_only_where_twice_is_accepted(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, members: Members
) -> None:
    plan = released(kgroup, crashed)
    world.produce(crashed.topic, 5)
    world.commit(crashed.group, {(crashed.topic, 0): 125})

    dry = kgroup("catchup", "cancel", plan, exit_code=6)
    real = kgroup("catchup", "cancel", plan, "--execute", exit_code=6)
    assert offsets(world, crashed.group)[crashed.topic, 0] == 125
    kgroup("catchup", "cancel", plan, "--accept", "possible-duplicates", "--execute")

    for result in (dry, real):
        assert "[possible-duplicates]" in result.stderr
        assert "[120, 125): processed by" in result.stderr
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 20}


def test_a_live_group_is_not_moved_back_and_its_replay_goes_on(
    kgroup: CommandLine, crashed: Crash, members: Members, bootstrap: str, ledger: str
) -> None:
    plan = released(kgroup, crashed)
    members.stable(members.classic(crashed.group, crashed.topic), partitions=2)

    with engine(bootstrap, ledger) as other, other.take_over(found(other, plan)) as runner:
        assert "[not-empty]" in kgroup("catchup", "cancel", plan, "--execute", exit_code=9).stderr
        runner.heartbeat(other.now_ms())  # it is not superseded


def test_what_was_delivered_comes_twice_and_what_was_not_goes_back(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    plan = released(kgroup, crashed)
    with engine(bootstrap, ledger) as other:
        delivered(bootstrap, other, plan, 100)

    (shown,) = kgroup("catchup", "show", plan, "-o", "json").data
    refused = kgroup("catchup", "cancel", plan, "--execute", exit_code=6)
    done = kgroup("catchup", "cancel", plan, "--accept", "possible-duplicates", "--execute", "-o", "json")

    assert [row["delivered_to"] for row in shown["ranges"]] == [100, 20]
    assert shown["totals"]["undelivered_offset_count"] == 50
    assert "[possible-duplicates]" in refused.stderr
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 100, (crashed.topic, 1): 20}
    assert done.data[0]["possible_duplicates"] == []


def test_what_is_given_up_is_named(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    plan = released(kgroup, crashed)
    with engine(bootstrap, ledger) as other:
        delivered(bootstrap, other, plan, 100)

    done = kgroup("catchup", "cancel", plan, "--abandon", "--execute", "-o", "json")

    rows = [(row["partition"], row["start"], row["end"]) for row in done.data[0]["abandoned_by_cancel"]]
    assert rows == [(0, 100, 120), (1, 20, 50)]
    assert offsets(world, crashed.group) == crashed.released
    assert "[100, 120)" in kgroup("catchup", "show", plan).stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_that_broke_off_is_gone_on_with(
    kgroup: CommandLine, world: KafkaWorld, name: Name, bootstrap: str, ledger: str, kind: str
) -> None:
    crashed = crash(world, name("orders"), name("svc"), kind)
    with engine(bootstrap, ledger) as other:
        plan = planned(kgroup, world, crashed, other)
        broken_off(other, plan, (crashed.topic, 0))
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 120, (crashed.topic, 1): 20}

    dry = kgroup("catchup", "resume", plan, "--release-only")
    done = kgroup("catchup", "resume", crashed.group, "--release-only", "--execute")

    assert "Nothing was changed" in dry.stdout
    assert "RELEASED" in done.stderr
    assert offsets(world, crashed.group) == crashed.released
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "released"


def test_a_release_that_broke_off_is_cancelled_where_it_was_released(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    with engine(bootstrap, ledger) as other:
        plan = planned(kgroup, world, crashed, other)
        broken_off(other, plan, (crashed.topic, 0))

    done = kgroup("catchup", "cancel", plan, "--execute", "-o", "json")

    assert [(row["partition"], row["new_offset"]) for row in done.data[0]["moves"]] == [(0, 70)]
    assert world.committed(crashed.group)[crashed.topic, 0] == (70, "the app's own")


def test_a_group_that_went_on_by_itself_closes_the_plan(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    with engine(bootstrap, ledger) as other:
        plan = planned(kgroup, world, crashed, other)
        broken_off(other, plan)
    world.commit(crashed.group, {(crashed.topic, 0): 120, (crashed.topic, 1): 50})

    dry = kgroup("catchup", "resume", plan, "--release-only", exit_code=6)
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "releasing"
    refused = kgroup("catchup", "resume", plan, "--release-only", "--execute", exit_code=6)

    for result in (dry, refused):
        assert "[group-continued]" in result.stderr
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "cancelled"


def _joined(world: KafkaWorld, members: Members, crashed: Crash, kind: str) -> None:
    """An application comes into a group that a run of kgroup holds: it gets no partitions yet."""
    if kind == "consumer":
        assert by_hand.heartbeat(world, crashed.group, "the-app", 0, crashed.topic) == 0
        return
    members.classic(crashed.group, crashed.topic)
    wait_for(lambda: world.groups()[crashed.group][1] == "preparingrebalance", "the application")


@pytest.mark.parametrize(
    ("kind", "then", "live"),
    [
        ("classic", "abandon", False),
        ("consumer", "abandon", False),
        ("consumer", "abandon", True),
        ("classic", "cancel", True),
        ("consumer", "cancel", True),
        ("classic", "resume", True),
        ("consumer", "resume", True),
    ],
)
def test_a_runner_that_stands_still_at_its_commit_moves_nothing_once_its_successor_has_decided(
    kgroup: CommandLine,
    world: KafkaWorld,
    members: Members,
    name: Name,
    bootstrap: str,
    ledger: str,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    then: str,
    live: bool,
) -> None:
    """Not even where the successor can't hold the group: else the gap would be nobody's, and be said to be handled."""
    crashed = crash(world, name("orders"), name("svc"), kind)
    with engine(bootstrap, ledger) as first, engine(bootstrap, ledger) as second:
        plan = planned(kgroup, world, crashed, first)

        def meanwhile() -> None:
            if live:
                _joined(world, members, crashed, kind)
            with second.take_over(found(second, plan)) as runner:
                if then != "resume":
                    second.cancel(runner, abandon=then == "abandon")
                    return
                with pytest.raises(Refused) as closed:
                    second.release(runner)
                assert closed.value.code == "group-continued"

        stood_still = just_before(monkeypatch, "OffsetCommit", meanwhile)
        with first.take_over(found(first, plan)) as runner, pytest.raises(Refused) as refused:
            first.release(runner)

        assert stood_still
        assert refused.value.code == ("not-empty" if live else "superseded")
        assert found(second, plan).state.state is PlanState.CANCELLED
    assert not [metadata for _, metadata in world.committed(crashed.group).values() if CatchupCommitTag.of(metadata)]
    if not live or kind == "consumer":  # nobody reads
        assert offsets(world, crashed.group) == {(crashed.topic, 0): 70, (crashed.topic, 1): 20}


@pytest.mark.parametrize("kind", KINDS)
def test_a_start_that_is_refused_at_its_commit_says_what_it_leaves(
    kgroup: CommandLine,
    world: KafkaWorld,
    members: Members,
    name: Name,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """Behind ``releasing`` its member has been taken out, and the application has come."""
    crashed = crash(world, name("orders"), name("svc"), kind)
    before = world.exact(crashed.group)
    monkeypatch.setenv("KGROUP_TIMEOUT", "60s")  # the question waits while they come

    def come() -> None:
        CommandLine()("evict", crashed.group, "--instance", CATCHUP_INSTANCE_ID, "--execute")
        start = members.classic if kind == "classic" else members.consumer
        members.stable(start(crashed.group, crashed.topic, client_id="pay-0"), partitions=2)

    came = just_before(monkeypatch, "OffsetCommit", come)
    refused = kgroup("catchup", "start", crashed.group, "--release-only", "--execute", exit_code=6)

    assert came
    assert world.exact(crashed.group) == before
    assert "pay-0" in refused.stderr

    plan = plan_id(refused)
    assert "[plan-open]" in refused.stderr
    assert f"{plan} is releasing. Some partitions may be moved" in refused.stderr
    assert f"kgroup catchup resume {plan} --to-topic TOPIC --execute" in refused.stderr
    assert f"kgroup catchup cancel {plan} --execute" in refused.stderr
    assert f"PENDING  maybe 80 in {plan} (releasing)" in kgroup("describe", crashed.group).stdout


def test_start_again_after_a_release_whose_answer_was_lost(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    """The group has no gap by now; its plan has."""
    with engine(bootstrap, ledger) as other:
        plan = planned(kgroup, world, crashed, other)
        broken_off(other, plan, *crashed.released)
    start = ("catchup", "start", crashed.group, "--release-only")

    dry, again = kgroup(*start, exit_code=6), kgroup(*start, "--execute", exit_code=6)

    for result in (dry, again):
        assert f"{crashed.group} has the open catch-up {plan}, which is releasing" in result.stderr
        assert "[plan-open]" in result.stderr
        assert f"kgroup catchup resume {plan} --to-topic TOPIC --execute" in result.stderr
    kgroup("catchup", "resume", crashed.group, "--release-only", "--execute")
    warned = kgroup(*start, "--execute")
    assert f"has the open catch-up {plan} with 80 offsets pending; see  kgroup catchup show {plan}" in warned.stderr
    assert "nothing to do" in warned.stderr


@pytest.mark.soak
def test_a_group_that_was_deleted_before_its_release_is_left_to_nobody_unless_that_is_said(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    with engine(bootstrap, ledger) as other:
        plan = planned(kgroup, world, crashed, other)
        broken_off(other, plan)
    world.delete_group(crashed.group)

    resumed = kgroup("catchup", "resume", plan, "--release-only", "--execute", exit_code=6)
    cancelled = kgroup("catchup", "cancel", plan, "--execute", exit_code=6)
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "releasing"
    done = kgroup("catchup", "cancel", plan, "--abandon", "--execute", "-o", "json")

    for refused in (resumed, cancelled):
        assert "[moved-since]" in refused.stderr
        assert f"{crashed.topic}:0: was 70, [70, 120) is pending" in refused.stderr
        assert f"kgroup catchup cancel {plan} --abandon --execute" in refused.stderr
    rows = [(row["partition"], row["start"], row["end"]) for row in done.data[0]["abandoned_by_cancel"]]
    assert rows == [(0, 70, 120), (1, 20, 50)]


def test_a_commit_that_is_deleted_after_the_release_is_told(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash
) -> None:
    """Its application may begin at the beginning, and have the gap a second time."""
    plan = released(kgroup, crashed)
    world.delete_group(crashed.group)
    world.commit(crashed.group, {(crashed.topic, 0): 120})

    shown, page = kgroup("catchup", "show", plan, "-o", "json"), kgroup("catchup", "show", plan)

    rows = [(row["partition"], row["start"], row["end"], row["commit_deleted"]) for row in shown.data[0]["rewinds"]]
    assert rows == [(0, 70, 120, True), (1, 20, 50, True)]
    assert f"it may read {crashed.topic}:0 [70, 120) too" in page.stdout
    assert "[possible-duplicates]" in kgroup("catchup", "cancel", plan, "--execute", exit_code=6).stderr


@pytest.mark.parametrize("releasing", [False, True])
def test_a_group_that_came_back_with_the_other_protocol(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str, releasing: bool
) -> None:
    """Its offsets are moved all the same: a plan's group is taken as it is by now."""
    if releasing:
        with engine(bootstrap, ledger) as other:
            plan = planned(kgroup, world, crashed, other)
            broken_off(other, plan, (crashed.topic, 0))
    else:
        plan = released(kgroup, crashed)
    to_consumer(world, crashed.group)
    words = ("resume", plan, "--release-only") if releasing else ("cancel", plan)

    kgroup("catchup", *words)
    kgroup("catchup", *words, "--execute")

    before = {(crashed.topic, 0): 70, (crashed.topic, 1): 20}
    assert offsets(world, crashed.group) == (crashed.released if releasing else before)
    assert world.groups()[crashed.group] == ("consumer", "empty")


def test_a_plan_of_another_cluster_is_left_alone(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    """A ledger that was mirrored under its own name."""
    with engine(bootstrap, ledger) as other:
        plan = planned(kgroup, world, crashed, other)
        theirs = other.create(replace(found(other, plan).plan, id=new_plan_id(), group="theirs", cluster_id="another"))

        with pytest.raises(Refused, match="is a plan of cluster another") as refused:
            other.take_over(theirs)
    for words in (("resume", "--release-only"), ("cancel",), ("cancel", "--abandon"), ("stop",)):
        done = kgroup("catchup", words[0], theirs.plan.id, *words[1:], "--execute", exit_code=6)
        assert "[other-cluster]" in done.stderr
    assert refused.value.code == "other-cluster"


def test_a_topic_that_was_made_anew_when_all_was_delivered_proves_nothing(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str, name: Name
) -> None:
    """Its last run was killed before it could look; nothing is left to be done, but to say so."""
    plan, copy = released(kgroup, crashed), world.topic(name("copy"), 2)
    with engine(bootstrap, ledger) as other:
        delivered(bootstrap, other, plan, 120, 50, copy=copy)
    world.delete_topic(crashed.topic)
    world.topic(crashed.topic, 2)
    world.produce(crashed.topic, 200)

    for _ in range(2):
        refused = kgroup("catchup", "resume", plan, "--execute", exit_code=6)
        assert "[topic-recreated]" in refused.stderr
        assert "nothing is verified" in refused.stderr
        assert "VERIFIED" not in refused.stdout + refused.stderr
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "released"
    dry, real = (kgroup("catchup", "cancel", plan, *more, exit_code=6) for more in ((), ("--execute",)))
    for cancelled in (dry, real):
        assert "[delivered]" in cancelled.stderr
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")


def test_offsets_that_were_moved_since_the_plan_are_left_alone(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    with engine(bootstrap, ledger) as other:
        plan = planned(kgroup, world, crashed, other)
    world.commit(crashed.group, {(crashed.topic, 0): 90})

    refused = kgroup("catchup", "resume", plan, "--release-only", "--execute", exit_code=6)

    assert "[moved-since]" in refused.stderr
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 90, (crashed.topic, 1): 20}
    kgroup("catchup", "cancel", plan, "--execute")
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 90, (crashed.topic, 1): 20}


def test_stop_ends_the_runner_and_loses_nothing(
    kgroup: CommandLine, crashed: Crash, bootstrap: str, ledger: str
) -> None:
    plan = released(kgroup, crashed)
    with engine(bootstrap, ledger) as other:
        delivered(bootstrap, other, plan, 100)
        with other.take_over(found(other, plan)) as runner:
            assert "The run that works on the plan would stop" in kgroup("catchup", "stop", plan).stdout
            runner.heartbeat(other.now_ms())
            assert "replaying" in kgroup("catchup", "show", plan).stdout

            stopped = kgroup("catchup", "stop", plan, "--execute")

            with pytest.raises(Refused, match="another kgroup run"):
                runner.heartbeat(other.now_ms())
    assert "STOPPED" in stopped.stderr
    shown = kgroup("catchup", "show", plan).stdout
    assert f"{plan}  stopped" in shown
    assert ", ended" in shown
    assert f"kgroup catchup resume {plan} --execute" in shown


def test_a_topic_that_was_made_anew_is_not_touched(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    plan = released(kgroup, crashed)
    world.delete_topic(crashed.topic)
    world.topic(crashed.topic, 2)

    dry = kgroup("catchup", "cancel", plan, "--accept", "possible-duplicates", exit_code=6)
    refused = kgroup("catchup", "cancel", plan, "--accept", "possible-duplicates", "--execute", exit_code=6)
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")

    assert "[topic-recreated]" in dry.stderr
    assert "[topic-recreated]" in refused.stderr


@pytest.mark.parametrize(("again", "code", "why"), [(False, 5, "was deleted"), (True, 6, "[topic-recreated]")])
def test_where_the_source_is_gone_nothing_says_that_a_resume_helps(
    kgroup: CommandLine,
    world: KafkaWorld,
    crashed: Crash,
    bootstrap: str,
    ledger: str,
    again: bool,
    code: int,
    why: str,
) -> None:
    plan = released(kgroup, crashed)
    with engine(bootstrap, ledger) as other:
        delivered(bootstrap, other, plan, 90)
    world.delete_topic(crashed.topic)
    if again:
        world.topic(crashed.topic, 2)

    cancelled = kgroup("catchup", "cancel", plan, "--execute", exit_code=code)
    resumed = kgroup("catchup", "resume", plan, exit_code=code)
    shown = kgroup("catchup", "show", plan)

    for said in (cancelled.stderr, resumed.stderr):
        assert why in said
        assert f"kgroup catchup cancel {plan} --abandon --execute" in said
    assert f"-> kgroup catchup cancel {plan} --abandon --execute" in shown.stdout
    for said in (cancelled.stderr, shown.stdout):
        assert "catchup resume" not in said
    kgroup("catchup", "cancel", plan, "--abandon", "--execute")
    assert "->" not in kgroup("catchup", "show", plan).stdout.split("PARTITION")[1]


def test_prune_forgets_what_is_finished(kgroup: CommandLine, world: KafkaWorld, crashed: Crash) -> None:
    first = released(kgroup, crashed)
    kgroup("catchup", "cancel", first, "--execute")
    second = released(kgroup, crashed)

    dry = kgroup("catchup", "prune", "-o", "json")
    refused = kgroup("catchup", "prune", second, "--execute", exit_code=6)
    both = kgroup("catchup", "prune", first, second, exit_code=7)
    kgroup("catchup", "prune", first, second, "--execute", exit_code=7)
    kgroup("catchup", "prune", "--execute")

    assert [row["plan_id"] for row in dry.data] == [first]
    for result in (refused, both):
        assert "[plan-open]" in result.stderr
    assert [row["plan_id"] for row in kgroup("catchup", "list", "-o", "json").data] == [second]
    assert f'neither a plan "{first}"' in kgroup("catchup", "show", first, exit_code=5).stderr


@pytest.mark.parametrize("words", [("reset", "--all-topics", "--to-earliest"), ("delete",), ("migrate",)])
def test_verbs_that_change_a_group_warn_of_its_open_plan(
    kgroup: CommandLine, crashed: Crash, words: tuple[str, ...]
) -> None:
    plan = released(kgroup, crashed)

    result = kgroup(words[0], crashed.group, *words[1:])

    assert f"{crashed.group} has the open catch-up {plan} (pending) with 80 offsets pending" in result.stderr


def test_the_ledger_that_is_named(kgroup: CommandLine, crashed: Crash, name: Name) -> None:
    released(kgroup, crashed, "--ledger-topic", other := name("books"))

    assert kgroup("catchup", "list", "-o", "json").data == []
    assert len(kgroup("catchup", "list", "--ledger-topic", other, "-o", "json").data) == 1
    shown = kgroup("catchup", "show", crashed.group, "--ledger-topic", other).stdout
    assert f"--ledger-topic {other}" in shown
