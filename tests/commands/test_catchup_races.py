"""Two runs of ``kgroup catchup`` at once, one of which hangs and is woken later; and groups that others move meanwhile.

Whoever was superseded changes nothing more, and exits 6.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kgroup.model.migration_facts import CATCHUP_INSTANCE_ID
from tests.helpers.catchup.catchups import (
    LOCAL,
    Crash,
    copied,
    crash,
    elsewhere,
    frozen,
    gap_of,
    offsets,
    plan_said,
    released,
    replaying,
    whole_of,
    written,
)
from tests.helpers.changes import leave_static_member
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import CONSUMER_GROUP_HEARTBEAT, LEAVE_GROUP, OFFSET_COMMIT, Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import Running, delivered, running
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("ledger")

Name = Callable[[str], str]

JOIN_GROUP, INIT_PRODUCER_ID, ADD_PARTITIONS_TO_TXN, END_TXN = 11, 22, 24, 26
RELEASE = ("--release-only", "--execute")
ONE_OFTEN = ["classic", pytest.param("consumer", marks=pytest.mark.soak)]
OTHER_OFTEN = ["consumer", pytest.param("classic", marks=pytest.mark.soak)]


@contextmanager
def dies_at_its_commit(proxied: ProxiedBroker, *words: str) -> Iterator[Running]:
    """A run that is killed when its OffsetCommit is about to arrive: its plan is ``releasing``, and says where to."""
    started: list[Running] = []

    def kill() -> None:
        wait_for(lambda: started, "it is started")[0].process.kill()

    fault = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.REQUEST, then=kill))
    with running("catchup", *words, "--execute") as process:
        started.append(process)
        wait_for(fault.met.is_set, "its OffsetCommit", 60)
        process.process.wait(10)
        yield process


# --- a replay that hangs


@pytest.mark.soak
def test_a_replay_that_hangs_across_a_resume_delivers_nothing_more(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, tmp_path: Path
) -> None:
    """It is seen, stopped and gone on with from another machine."""
    copy, other = world.topic(name("copy"), 2), elsewhere(tmp_path)
    start = ("start", crashed.group, "--to-topic", copy, *LOCAL, "--rate", "4/s", "--execute")
    with replaying(world, copy, *start) as first:
        plan = plan_said(first)
        with frozen(first):
            (listed,) = kgroup.process("catchup", "list", "-o", "json", env=other).data
            stopped = kgroup.process("catchup", "stop", plan, "--execute", env=other)
            done = kgroup.process("catchup", "resume", plan, *LOCAL, "--rate", "off", "--execute", env=other)
            assert copied(world, copy) == gap_of(crashed)
        woken = first.ends(6)
        shown = kgroup.process("catchup", "show", plan, env=other)

    assert (listed["plan_id"], listed["state"], listed["totals"]["delivered_count"]) == (plan, "released", 0)
    assert f"{plan}  stopped" in stopped.stdout
    assert "VERIFIED" in done.stdout
    assert "superseded" in woken.stderr
    assert re.search(rf"TAKEN OVER .*{plan}: \S+@\S+ took it over at \S+Z, and it is done now", woken.stderr)
    assert "nothing is lost; to continue:" not in woken.stderr
    assert "VERIFIED" not in woken.stdout + woken.stderr
    assert copied(world, copy) == gap_of(crashed)
    assert len(copied(world, copy, "read_uncommitted")) > 80, "it had no transaction open"
    assert offsets(world, crashed.group) == crashed.released
    assert f"{plan}  done" in shown.stdout


@pytest.mark.soak
def test_a_replay_that_hangs_across_a_cancel_delivers_nothing_more(
    kgroup: CommandLine, world: KafkaWorld, crashed: Crash, name: Name, tmp_path: Path
) -> None:
    """Of what it had open nothing counts, so nothing comes twice either."""
    copy, before = world.topic(name("copy"), 2), world.exact(crashed.group)
    start = ("start", crashed.group, "--to-topic", copy, *LOCAL, "--rate", "4/s", "--execute")
    with replaying(world, copy, *start) as first:
        plan = plan_said(first)
        with frozen(first):
            kgroup.process("catchup", "cancel", plan, "--execute", env=elsewhere(tmp_path))
            assert world.exact(crashed.group) == before
        woken = first.ends(6)

    assert "superseded" in woken.stderr
    assert world.exact(crashed.group) == before
    assert copied(world, copy) == []
    assert copied(world, copy, "read_uncommitted")
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "cancelled"


# --- a release that hangs


@contextmanager
def stopped_at_its_commit(broker: ProxiedBroker, group: str, *, stored: bool) -> Iterator[str]:
    """A ``start`` that has written ``releasing`` and hangs while the block runs; the plan.

    Its OffsetCommit is under way, and stored only afterwards; or it is ``stored``, and nobody has heard of that.
    """
    fault = broker.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    # Frozen for longer than its timeout it would have had no answer, which is another story.
    with running("catchup", "start", group, *RELEASE, "--timeout", "60s") as process:
        wait_for(lambda: fault.met.is_set() or process.process.poll() is not None, "its OffsetCommit")
        assert process.process.poll() is None, process.lines
        before = broker.world.exact(group)
        with frozen(process):
            if stored:
                fault.go_on.set()
                wait_for(lambda: broker.world.exact(group) != before, "its commit")
            yield plan_said(process)
            fault.go_on.set()
        woken = process.ends(6)
        assert "[superseded]" in woken.stderr
        assert "may start" not in woken.stderr


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["classic", "consumer"])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("then", ["cancel", "resume"])
def test_a_release_that_hangs_at_its_commit_moves_nothing_when_it_is_woken(
    proxied: ProxiedBroker, name: Name, kind: str, stored: bool, then: str
) -> None:
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"), kind)
    before = world.exact(crashed.group)
    with stopped_at_its_commit(proxied, crashed.group, stored=stored) as plan:
        words = ("--release-only",) if then == "resume" else ()
        kgroup("catchup", then, plan, *words, "--execute")
        after = world.exact(crashed.group)

    assert world.exact(crashed.group) == after
    if then == "cancel":
        assert after == before
    else:
        assert offsets(world, crashed.group) == crashed.released
    state = kgroup("catchup", "show", plan, "-o", "json").data[0]["state"]
    assert state == {"cancel": "cancelled", "resume": "released"}[then]
    assert world.groups()[crashed.group] == (kind, "empty")


# --- two starts


@pytest.mark.soak
@pytest.mark.parametrize("kind", ONE_OFTEN)
@pytest.mark.parametrize("code", ["fenced", "plan-overlaps"])
def test_of_two_starts_at_once_one_makes_a_plan(proxied: ProxiedBroker, name: Name, kind: str, code: str) -> None:
    """Both have planned, and found no open plan, when they go to the ledger.

    One takes the group's transactional id from the other, who has not written its plan yet; or finds that plan there.
    """
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"), kind)
    own = f"kgroup-catchup-group-{crashed.group}".encode()
    faults = [proxied.proxy.expect(Fault(INIT_PRODUCER_ID, Loss.NOTHING, having=own)) for _ in range(2)]
    writes = Fault(ADD_PARTITIONS_TO_TXN, Loss.NOTHING, having=own)
    if code == "fenced":
        proxied.proxy.expect(writes)
    kgroup("catchup", "start", crashed.group)  # makes no ledger, takes no id

    with ExitStack() as stack:
        both = [
            stack.enter_context(running("catchup", "start", crashed.group, *RELEASE, "--timeout", "60s"))
            for _ in faults
        ]
        for fault in faults:
            wait_for(fault.met.is_set, "both at the ledger")
        faults[0].go_on.set()
        if code == "fenced":
            wait_for(writes.met.is_set, "the first one about to write")
        else:
            wait_for(lambda: any(one.process.poll() is not None for one in both), "the end of the first one")
        faults[1].go_on.set()
        wait_for(lambda: any(one.process.poll() is not None for one in both), "the end of one")
        writes.go_on.set()
        codes = [one.process.wait(60) for one in both]
        (winner,) = (one for one, code in zip(both, codes, strict=True) if code == 0)
        (loser,) = (one for one in both if one is not winner)
        won, lost = winner.ends(0), loser.ends(6)

    assert "it may start now" in won.stderr
    assert f"[{code}]" in lost.stderr
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    assert (listed["plan_id"], listed["state"]) == (plan_said(winner), "released")
    assert offsets(world, crashed.group) == crashed.released


# --- offsets that somebody else moves


@pytest.mark.parametrize("kind", OTHER_OFTEN)
def test_offsets_that_are_moved_between_the_plan_and_the_release(proxied: ProxiedBroker, name: Name, kind: str) -> None:
    """It has its plan, and is about to join the group."""
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"), kind)
    of_plan = proxied.proxy.expect(Fault(END_TXN, Loss.NOTHING, skip=1))  # the plan's own record was the first
    with running("catchup", "start", crashed.group, *RELEASE) as process:
        wait_for(of_plan.met.is_set, "the runner's epoch")
        world.commit(crashed.group, {(crashed.topic, 0): 90})
        of_plan.go_on.set()
        refused = process.ends(6)

    assert "[moved-since]" in refused.stderr
    assert f"{crashed.topic}:0: was 70, is 90" in refused.stderr
    assert "run the same command again" in refused.stderr
    assert "catchup cancel" not in refused.stderr, "it is cancelled already"
    assert offsets(world, crashed.group) == {(crashed.topic, 0): 90, (crashed.topic, 1): 20}
    (listed,) = kgroup("catchup", "list", "-o", "json").data
    assert listed["state"] == "cancelled"


@pytest.mark.parametrize("kind", ONE_OFTEN)
def test_offsets_that_are_moved_after_a_release_that_died_before_its_commit(
    proxied: ProxiedBroker, name: Name, kind: str
) -> None:
    """The group goes on by itself: nothing is released any more, nothing is owed."""
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"), kind)
    with dies_at_its_commit(proxied, "start", crashed.group, "--release-only") as process:
        plan = plan_said(process)
    kgroup("evict", crashed.group, "--instance", CATCHUP_INSTANCE_ID, "--execute")
    world.commit(crashed.group, {(crashed.topic, 0): 120, (crashed.topic, 1): 50})
    before = world.exact(crashed.group)

    dry = kgroup("catchup", "resume", plan, "--release-only", exit_code=6)
    refused = kgroup("catchup", "resume", plan, "--release-only", "--execute", exit_code=6)

    assert "[group-continued]" in dry.stderr
    assert "[group-continued]" in refused.stderr
    assert "Nothing was changed" in dry.stdout
    assert world.exact(crashed.group) == before
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "cancelled"
    assert "PENDING" not in kgroup("describe", crashed.group).stdout


# --- a run that ends in its release, or after it


@pytest.mark.soak
@pytest.mark.parametrize(
    ("api_key", "having"),
    [
        pytest.param(INIT_PRODUCER_ID, b"-catchup-cu-", id="takeover"),
        # A transaction that is left open ends after a minute, and the ledger is read when it has ended.
        pytest.param(END_TXN, b"-catchup-cu-", id="epoch"),
        pytest.param(CONSUMER_GROUP_HEARTBEAT, b"", id="join"),
    ],
)
def test_what_fails_after_the_plan_is_written_names_how_to_continue_and_how_to_cancel(
    proxied: ProxiedBroker, name: Name, api_key: int, having: bytes
) -> None:
    """As when the coordinator of the plan's transactional id, or of the group, dies at that moment."""
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"), "consumer")
    before = world.exact(crashed.group)
    proxied.proxy.expect(Fault(api_key, Loss.REQUEST, always=True, having=having))

    failed = kgroup("catchup", "start", crashed.group, *RELEASE, "--timeout", "4s", exit_code=3)

    proxied.proxy.reset()
    (plan,) = re.findall(r"PLANNED +(cu-\w{4})", failed.stderr)
    assert f"{plan} is planned, and no offset was moved." in failed.stderr
    commands = [re.search(rf"kgroup (catchup {verb} {plan}.*)", failed.stderr) for verb in ("resume", "cancel")]
    assert all(commands)
    assert "not-empty" not in failed.stderr
    kgroup(*str(commands[1][1]).split())  # type: ignore[index]
    assert world.exact(crashed.group) == before
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "cancelled"


@pytest.mark.soak
def test_a_start_that_a_member_stops_at_its_commit_leaves_a_plan_so_time_alone_mends_nothing(
    proxied: ProxiedBroker, name: Name
) -> None:
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"))
    before = world.exact(crashed.group)
    commit = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    with running("catchup", "start", crashed.group, *RELEASE, "--timeout", "60s") as process:
        wait_for(commit.met.is_set, "its commit", 60)
        plan = plan_said(process)
        kgroup("evict", crashed.group, "--instance", CATCHUP_INSTANCE_ID, "--execute")
        leave_static_member(world.bootstrap, crashed.group, crashed.topic)
        commit.go_on.set()
        refused = process.ends(6)

    assert f"{crashed.group} is not empty" in refused.stderr
    assert "[plan-open]" in refused.stderr
    assert f"kgroup catchup resume {plan}" in refused.stderr
    assert f"kgroup catchup cancel {plan}" in refused.stderr
    assert world.exact(crashed.group) == before
    resumed = kgroup("catchup", "resume", plan, "--release-only", "--execute", exit_code=6)
    assert "it reads the gap itself [group-continued]" in resumed.stderr
    assert kgroup("catchup", "show", plan, "-o", "json").data[0]["state"] == "cancelled"


@pytest.mark.soak
def test_a_sink_that_is_said_anew_while_a_run_begins(proxied: ProxiedBroker, name: Name) -> None:
    """That run has not judged it, so nothing goes there until another one has."""
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"))
    copy, other = world.topic(name("copy"), 2), world.topic(name("other"), 2)
    with dies_at_its_commit(proxied, "start", crashed.group, "--to-topic", copy, "--master", "local[1]") as process:
        plan = plan_said(process)
    begins = proxied.proxy.expect(Fault(INIT_PRODUCER_ID, Loss.NOTHING))
    with running("catchup", "resume", plan, "--master", "local[1]", "--timeout", "60s", "--execute") as late:
        wait_for(begins.met.is_set, "that it becomes the runner", 60)
        with dies_at_its_commit(proxied, "resume", plan, "--to-topic", other, "--master", "local[1]"):
            pass
        begins.go_on.set()
        refused = late.ends(6)

    assert f"another run changed the destination of {plan} while this run started [sink-set]" in refused.stderr
    assert (written(world, copy), written(world, other)) == (0, 0)
    kgroup("catchup", "resume", plan, "--master", "local[1]", "--execute")
    assert (written(world, copy), len(copied(world, other))) == (0, 80)


@pytest.mark.soak
def test_a_resume_that_becomes_the_runner_after_the_end_delivers_nothing(proxied: ProxiedBroker, name: Name) -> None:
    """The chunks of the plan have left the ledger by then: they must not count as undelivered."""
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"))
    copy = world.topic(name("copy"), 2)
    with dies_at_its_commit(proxied, "start", crashed.group, "--to-topic", copy, "--master", "local[1]") as process:
        plan = plan_said(process)
    begins = proxied.proxy.expect(Fault(INIT_PRODUCER_ID, Loss.NOTHING))
    with running("catchup", "resume", plan, "--master", "local[1]", "--timeout", "60s", "--execute") as late:
        wait_for(begins.met.is_set, "that it becomes the runner", 60)
        kgroup("catchup", "resume", plan, "--master", "local[1]", "--execute")
        before = kgroup("catchup", "show", plan, "-o", "json").data
        begins.go_on.set()
        ended = late.ends(0)

    assert f"another run has finished {plan}: nothing to do" in ended.stderr
    assert len(copied(world, copy)) == 80
    after = kgroup("catchup", "show", plan, "-o", "json").data
    assert (after[0]["state"], after[0]["ranges"], after[0]["totals"]) == (
        "done",
        before[0]["ranges"],
        before[0]["totals"],
    )


@pytest.mark.soak
def test_a_resume_that_becomes_the_runner_after_a_cancel_writes_nothing(proxied: ProxiedBroker, name: Name) -> None:
    kgroup, world = CommandLine(), proxied.world
    crashed = crash(world, name("orders"), name("svc"))
    copy = world.topic(name("copy"), 2)
    kgroup("catchup", "start", crashed.group, "--release-only", "--execute")
    plan = kgroup("catchup", "list", crashed.group, "-o", "json").data[0]["plan_id"]
    begins = proxied.proxy.expect(Fault(INIT_PRODUCER_ID, Loss.NOTHING))
    words = ("catchup", "resume", plan, "--to-topic", copy, "--master", "local[1]", "--timeout", "60s", "--execute")
    with running(*words) as late:
        wait_for(begins.met.is_set, "that it becomes the runner", 60)
        kgroup("catchup", "cancel", plan, "--abandon", "--execute")
        begins.go_on.set()
        refused = late.ends(6)

    assert f"{plan} is cancelled [closed]" in refused.stderr
    after = kgroup("catchup", "show", plan, "-o", "json").data[0]
    assert (after["state"], after["destination"], written(world, copy)) == ("cancelled", None, 0)


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["start", "resume"])
def test_a_run_that_is_ended_in_its_release_says_how_to_go_on_and_need_not_be_told_where_to(
    proxied: ProxiedBroker, ledger: str, name: Name, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Where the records go is in the ledger before its group is moved; and nobody is said to work on it any more."""
    kgroup, world, bootstrap = CommandLine(), proxied.world, proxied.bootstrap
    crashed = crash(world, name("orders"), name("svc"))
    copy, known = world.topic(name("copy"), 2), ("-b", bootstrap, "--ledger-topic", ledger)
    if verb == "resume":
        with dies_at_its_commit(proxied, "start", crashed.group, "--release-only"):
            pass
    held = proxied.proxy.expect(Fault(OFFSET_COMMIT, Loss.NOTHING))
    words = ("catchup", verb, crashed.group, "--to-topic", copy, "--master", "local[1]", "--execute", *known)
    with running(*words) as process:
        wait_for(held.met.is_set, "its OffsetCommit", 60)
        (plan,) = kgroup("catchup", "list", *known, "-o", "json").data
        process.process.send_signal(signal.SIGTERM)
        wait_for(lambda: delivered(process.process, signal.SIGTERM), "the signal handled, while the answer is out")
        held.go_on.set()
        result = process.ends(143)

    assert (plan["sink"], plan["state"]) == ("topic", "releasing")
    (plan,) = kgroup("catchup", "list", "-o", "json").data
    again = f"--execute --ledger-topic {ledger} --master 'local[1]' -b {bootstrap}"
    going_on = f"kgroup catchup resume {plan['plan_id']} {again}"
    assert any(line.endswith(f"to continue: {going_on}") for line in result.stderr.splitlines())
    monkeypatch.setenv("COLUMNS", "300")
    page = kgroup("catchup", "show", crashed.group).stdout
    assert f"{plan['plan_id']}  stopped  0%  {crashed.group} -> {copy}  " in page
    assert offsets(world, crashed.group) == crashed.released


@pytest.mark.soak
def test_a_member_that_could_not_leave_is_told(proxied: ProxiedBroker, name: Name) -> None:
    crashed = crash(proxied.world, name("orders"), name("svc"))
    lost = proxied.proxy.expect(Fault(LEAVE_GROUP, Loss.REQUEST, always=True))

    done = CommandLine()("catchup", "start", crashed.group, "--release-only", "--execute", "--timeout", "4s")

    assert lost.met.is_set()
    assert "RELEASED" in done.stderr
    assert f"kgroup evict {crashed.group} --instance {CATCHUP_INSTANCE_ID} --execute" in done.stderr


# --- a task that hides what others finished


@pytest.mark.soak
def test_a_task_killed_before_its_commit_hides_what_another_has_finished_and_nothing_is_doubled(
    proxied: ProxiedBroker, name: Name
) -> None:
    """The ledger's last stable offset stays behind that task's record; stop need not wait for it."""
    kgroup, world = CommandLine(), proxied.world
    crashed, copy = crash(world, name("orders"), name("svc")), world.topic(name("copy"), 2)
    plan, dead = released(kgroup, crashed), threading.Event()
    held = Fault(END_TXN, Loss.REQUEST, always=True, having=f"kgroup-catchup-{plan}-0".encode(), then=_until(dead))
    proxied.proxy.expect(held)
    with running("catchup", "resume", plan, "--to-topic", copy, *LOCAL, "--execute") as process:
        try:
            wait_for(lambda: held.met.is_set() or process.process.poll() is not None, "task 0 at its commit", 60)
            assert process.process.poll() is None, process.lines
            wait_for(lambda: len(copied(world, copy)) in (30, 50), "the other task", 60)
            of_other = copied(world, copy)
            for pid in whole_of(process.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        finally:
            dead.set()
    proxied.proxy.reset()
    length = written(world, copy)

    begun = time.monotonic()
    stopped = kgroup("catchup", "stop", plan, "--execute")
    took_s = time.monotonic() - begun
    done = kgroup.process("catchup", "resume", plan, *LOCAL, "--execute", "-o", "json")

    assert "newer records cannot be read yet" in stopped.stderr
    assert "newer records cannot be read yet" not in done.stderr
    assert took_s < 30, "it was not ended, but waited for"
    assert done.data[0]["totals"]["verified"] is True
    assert copied(world, copy) == gap_of(crashed)
    tried = copied(world, copy, "read_uncommitted")
    assert [source for source in tried if tried.count(source) > 1], "no transaction was open"
    assert all(tried.count(source) == 1 for source in of_other), "what was finished was tried again"
    assert written(world, copy) > length


def _until(event: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        event.wait(60)

    return wait
