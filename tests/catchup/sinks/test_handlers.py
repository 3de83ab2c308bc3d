"""Commands and functions that get a plan's records: acknowledged, retried, given up, and written down."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kgroup.catchup.sinks.command import _Lines
from kgroup.catchup.sinks.handlers import Pace
from kgroup.catchup.worker.handler_pool import HandlerTurn
from kgroup.catchup.worker.task_spec import Handling, TaskResult
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.model import Order
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, UsageError
from tests.helpers.catchup import handler_functions
from tests.helpers.catchup.line_handlers import NAME
from tests.helpers.catchup.replays import Replay, producer, seen, sources
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Make = Callable[..., Replay]

QUICK = Handling(retries=1, backoff_s=0.01)
KEEP = {"function": "tests.helpers.catchup.handler_functions:keep"}
HANG = {"function": "tests.helpers.catchup.handler_functions:hang"}


@pytest.fixture
def source(world: KafkaWorld, bootstrap: str, name: Name) -> str:
    """60 records in partition 0, of 6 keys; 20 in partition 1. They are old: the broker must not delete them."""
    topic = world.topic(name("orders"), 2, {"retention.ms": "-1"})
    plain = producer(bootstrap)
    for number in range(60):
        plain.produce(topic, b'{"n": %d}' % number, b"k%d" % (number % 6), 0, headers=[("h", b"\xff")], timestamp=1_000)
    for number in range(20):
        plain.produce(topic, b"%d" % number, None, 1)
    assert plain.flush(30) == 0
    return topic


@pytest.fixture(autouse=True)
def fresh_functions() -> Iterator[None]:
    handler_functions.got.clear()
    handler_functions.refused.clear()
    handler_functions.release.clear()
    yield
    handler_functions.release.set()


def given() -> list[dict[str, Any]]:
    return [record for batch in handler_functions.got for record in batch]


def offsets_of(lines: Path) -> list[int]:
    return [json.loads(line)["offset"] for line in lines.read_bytes().splitlines()]


def script(path: Path, text: str) -> str:
    """A handler in Python; the command that runs it."""
    import sys

    path.write_text(text)
    return f"exec {sys.executable} {path}"


# Python


def test_a_function_gets_batches_of_what_was_there(make: Make, source: str) -> None:
    plan = make((source, 0, 0, 30), (source, 0, 30, 60))

    result = plan.run("python", KEEP, handling=Handling(batch=10), maybe_processed={TopicPartition(source, 0): 2})

    assert [record["offset"] for record in given()] == list(range(60))
    assert max(map(len, handler_functions.got)) == 10
    assert given()[1] == {
        "topic": source,
        "partition": 0,
        "offset": 1,
        "timestamp_ms": 1_000,
        "key": b"k1",
        "value": b'{"n": 1}',
        "headers": [("h", b"\xff")],
        "maybe_processed": True,
    }
    assert not given()[2]["maybe_processed"]
    assert result.finished
    assert [progress.may_repeat for progress in result.progress] == [0, 0]
    assert plan.proof(result).complete


def test_another_name_serves(make: Make, source: str) -> None:
    plan = make((source, 0, 0, 5))

    assert plan.run("python", {"function": "tests.helpers.catchup.handler_functions:Nested.keep"}).finished
    assert len(given()) == 5


@pytest.mark.parametrize(
    ("function", "kind", "code"),
    [
        ("", UsageError, "usage"),
        ("module", UsageError, "usage"),
        ("nowhere_at_all:f", KgroupError, "handler-missing"),
        ("tests.helpers.catchup.handler_functions:nothing", KgroupError, "handler-missing"),
        ("tests.helpers.catchup.handler_functions:not_callable", KgroupError, "handler-missing"),
    ],
)
def test_a_function_that_is_not_there_is_named(
    make: Make, source: str, function: str, kind: type[KgroupError], code: str
) -> None:
    plan = make((source, 0, 0, 5))

    with pytest.raises(kind) as caught:
        plan.run("python", {"function": function})

    assert caught.value.code == code
    assert plan.progress() == {}


def test_an_exception_is_a_refusal_and_stops_the_partition(make: Make, source: str) -> None:
    handler_functions.refused.add(33)
    plan = make((source, 0, 0, 20), (source, 0, 20, 60), (source, 1, 0, 20))

    result = plan.run("python", KEEP, order=Order.NONE, handling=QUICK)

    (stopped,) = result.stopped
    assert (stopped.partition, stopped.offset, stopped.why) == (0, 33, "ValueError: no 33")
    assert stopped.attempts >= 2
    assert not result.finished
    by_chunk = {progress.chunk: progress for progress in result.progress}
    assert by_chunk[0].delivered_to == 20
    assert by_chunk[1].delivered_to == 33
    assert by_chunk[2].delivered_to == 20  # the other partition goes on
    handler_functions.refused.clear()
    first = len(given())
    again = plan.run("python", KEEP, order=Order.NONE, handling=QUICK)
    assert again.finished
    assert len(given()) - first >= 27
    assert plan.proof(result, again).complete


def test_behind_a_refusal_nothing_of_the_partition_is_handed_over(make: Make, source: str) -> None:
    handler_functions.refused.add(10)
    plan = make((source, 0, 0, 60))

    result = plan.run("python", KEEP, handling=QUICK)

    assert sorted({record["offset"] for record in given()}) == list(range(10))
    (progress,) = result.progress
    assert (progress.delivered_to, progress.records, progress.may_repeat) == (10, 10, 122)
    # It was given all 60 twice, then 0 to 10 one by one, 10 twice; and gets 50 of them again: 182 times in all.


@pytest.mark.parametrize("order", [Order.KEY, Order.NONE])
def test_a_refusal_in_one_lane_is_not_waited_for_in_others(make: Make, source: str, order: Order) -> None:
    """They begin nothing more, so that what lies below the refused record may never be answered for."""
    handler_functions.refused.update(range(60))
    plan = make((source, 0, 0, 30), (source, 0, 30, 60))
    four = replace(QUICK, lanes=4, retries=1)

    result = plan.run("python", KEEP, order=order, handling=four)

    (stopped,) = result.stopped
    assert stopped.why == f"ValueError: no {stopped.offset}"
    assert not result.finished
    assert all(progress.records == 0 for progress in result.progress)
    handler_functions.refused.clear()
    again = plan.run("python", KEEP, order=order, handling=four)
    assert again.finished
    assert sorted(record["offset"] for record in given()) == list(range(60))
    assert plan.proof(result, again).complete


def test_what_a_lane_drops_below_a_refused_record_is_not_waited_for(
    make: Make, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One lane is at 0, with ``dropped`` behind it, when the other one refuses a record above both for good."""

    def lane(offset: int) -> int:
        return crc32(b"k%d" % (offset % 6)) % 2

    dropped = next(offset for offset in range(1, 60) if lane(offset) == lane(0))
    refused = next(offset for offset in range(dropped, 60) if lane(offset) != lane(0))
    is_at_first, is_refused = threading.Event(), threading.Event()
    halt = HandlerTurn.halt

    def halted(turn: HandlerTurn) -> None:
        halt(turn)
        is_refused.set()  # before that the other lane would take ``dropped``

    def handle(records: list[dict[str, Any]]) -> None:
        if records[0]["offset"] == 0:
            is_at_first.set()
            is_refused.wait(30)
        if records[0]["offset"] == refused:
            is_at_first.wait(30)  # a lane that begins late has given nothing to wait for
            raise ValueError("no")

    monkeypatch.setattr(HandlerTurn, "halt", halted)
    monkeypatch.setattr("kgroup.catchup.sinks.handlers._GRACE_S", 30)
    monkeypatch.setattr(handler_functions, "lanes", handle, raising=False)
    plan = make((source, 0, 0, refused + 1))
    until = time.monotonic() + 60

    result = plan.run(
        "python",
        {"function": "tests.helpers.catchup.handler_functions:lanes"},
        lambda: time.monotonic() > until,
        order=Order.KEY,
        handling=Handling(lanes=2, batch=1, retries=0),
    )

    assert not result.interrupted
    (stopped,) = result.stopped
    assert stopped.offset == refused
    (progress,) = result.progress
    assert progress.delivered_to == progress.records == dropped


def test_refused_records_go_to_the_dead_letters(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Name
) -> None:
    dead = world.topic(name("dead"))
    handler_functions.refused |= {3, 57}
    plan = make((source, 0, 0, 60))

    result = plan.run(
        "python",
        KEEP,
        dead_letters=dead,
        order=Order.KEY,
        handling=QUICK,
        maybe_processed={TopicPartition(source, 0): 5},
    )

    letters = seen(bootstrap, dead)
    assert sources(letters) == [f"{source}:0:3", f"{source}:0:57"]
    assert [(one.key, one.value, one.own, one.timestamp_ms) for one in letters] == [
        (b"k3", b'{"n": 3}', (("h", b"\xff"),), 1_000),
        (b"k3", b'{"n": 57}', (("h", b"\xff"),), 1_000),
    ]
    assert [one.header("kgroup.error") for one in letters] == ["ValueError: no 3", "ValueError: no 57"]
    assert all(int(one.header("kgroup.attempts") or 0) >= 2 for one in letters)
    assert [one.header("kgroup.maybe-processed") for one in letters] == ["true", None]
    (progress,) = result.progress
    assert (progress.records, progress.dead) == (60, 2)
    proof = plan.proof(result)
    assert proof.complete
    assert proof.delivered == 58


@pytest.mark.soak
def test_an_answer_that_comes_late_is_no_other_partitions(make: Make, source: str, monkeypatch: Any) -> None:
    """0:0 is refused while 0:1 hangs; that one answers when 1:1, which was refused too, waits for its retry."""
    calls: list[tuple[int, int]] = []
    begun, hangs = threading.Event(), threading.Event()
    monkeypatch.setattr("kgroup.catchup.sinks.handlers._GRACE_S", 0.05)

    def handle(records: list[dict[str, Any]]) -> None:
        for record in records:
            where = (record["partition"], record["offset"])
            calls.append(where)
            if where == (0, 0):
                begun.wait(30)  # refused before that, it would let the other lane begin nothing
            if where == (0, 1):
                begun.set()
                hangs.wait(30)
            if where == (1, 1) and calls.count(where) == 1:
                threading.Timer(0.2, hangs.set).start()
            if where in ((0, 0), (1, 1)):
                raise ValueError(f"no {where}")

    monkeypatch.setattr(handler_functions, "late", handle, raising=False)
    plan = make((source, 0, 0, 2), (source, 1, 0, 3))

    result = plan.run(
        "python",
        {"function": "tests.helpers.catchup.handler_functions:late"},
        order=Order.NONE,
        handling=Handling(lanes=2, batch=1, retries=1, backoff_s=1.0),
    )

    assert [(one.partition, one.offset) for one in result.stopped] == [(0, 0), (1, 1)]
    by_chunk = {progress.chunk: progress for progress in result.progress}
    assert (by_chunk[0].delivered_to, by_chunk[0].may_repeat) == (0, 3)  # the refused one was given twice
    assert (by_chunk[1].delivered_to, by_chunk[1].records) == (1, 1)
    assert not result.finished


def test_stopped_in_the_pause_before_a_retry_it_says_what_the_handler_was_given(
    make: Make, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_refused = threading.Event()

    def refuse(records: list[dict[str, Any]]) -> None:
        is_refused.set()
        raise ValueError("no")

    monkeypatch.setattr(handler_functions, "refuse", refuse, raising=False)
    plan = make((source, 0, 0, 60))

    result = plan.run(
        "python",
        {"function": "tests.helpers.catchup.handler_functions:refuse"},
        is_refused.is_set,
        handling=Handling(batch=25, retries=3, backoff_s=60),
    )

    assert result.interrupted
    (progress,) = result.progress
    assert (progress.delivered_to, progress.may_repeat) == (0, 25)


def test_leaving_is_a_refusal_too(make: Make, source: str) -> None:
    plan = make((source, 0, 0, 1))

    result = plan.run("python", {"function": "tests.helpers.catchup.handler_functions:leave"}, handling=QUICK)

    assert result.stopped[0].why == "SystemExit: 3"


def test_a_function_that_hangs_ends_the_task(make: Make, source: str) -> None:
    plan = make((source, 0, 0, 10))

    with pytest.raises(KgroupError) as caught:
        plan.run("python", HANG, handling=Handling(timeout_s=0.3))
    handler_functions.release.set()

    assert caught.value.code == "handler-timeout"
    assert plan.progress()[0].may_repeat > 0


def test_before_anything_is_handed_over_it_is_written_that_it_may_be(make: Make, source: str) -> None:
    plan = make((source, 0, 5, 60))
    thread = threading.Thread(target=lambda: plan.run("python", HANG))
    thread.start()

    progress = wait_for(plan.progress, "progress")
    handler_functions.release.set()
    thread.join(30)

    assert (progress[0].delivered_to, progress[0].records) == (5, 0)
    assert progress[0].may_repeat == 55
    assert plan.progress()[0].may_repeat == 0


@pytest.mark.soak
def test_progress_is_written_each_second_with_a_bound_near_what_may_come_again(make: Make, source: str) -> None:
    """At 5 records a second it is not the rest of the chunk."""
    plan = make((source, 0, 0, 60))
    found: list[int] = []
    bounds: list[int] = []
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            for progress in plan.progress().values():
                found.append(progress.delivered_to)
                bounds.append(progress.may_repeat)

    def seen_twice() -> bool:
        return len(set(found) - {0, 60}) >= 2 and len(set(bounds)) >= 2

    thread = threading.Thread(target=look)
    thread.start()
    plan.run("python", KEEP, seen_twice, rate=RateLimit(records_per_s=5), handling=Handling(batch=1))
    done.set()
    thread.join(30)

    assert seen_twice()
    assert found == sorted(found)
    assert bounds[0] == 60
    assert 1 <= bounds[-1] <= 20


def test_the_bound_of_what_may_come_again_follows_the_speed_of_the_handlers() -> None:
    pace = Pace(10_000, 0.0)
    first = pace.limit
    pace.grow()
    pace.handled(4_000)
    pace.measure(0.5, 8)
    early = pace.limit
    pace.measure(1.0, 8)
    fast = pace.limit
    pace.handled(3)
    pace.measure(3.0, 8)
    slow = pace.limit
    pace.handled(90_000)
    pace.measure(4.0, 8)

    assert (first, early, fast, slow, pace.limit) == (500, 1_000, 6_000, 8, 10_000)
    assert Pace(10, 0.0).limit == 10


def test_with_rare_notes_more_may_come_again() -> None:
    """1,000 records a second, and a note each 4 s, as for 800 tasks."""
    pace = Pace(10_000, 0.0, every_s=4.0)
    pace.handled(1_000)
    pace.measure(1.0, 8)
    early = pace.limit
    pace.handled(3_000)
    pace.measure(4.0, 8)

    assert (early, pace.limit) == (500, 6_000)


@pytest.mark.soak
def test_notes_are_as_rare_as_they_have_to_be(make: Make, source: str) -> None:
    """A window of 10 wants a note at each tenth record."""
    plan = make((source, 0, 0, 60))
    before, began_s = len(seen(plan.bootstrap, plan.ledger.topic)), time.monotonic()

    result = plan.run("python", KEEP, handling=Handling(window=10, batch=4), note_gap_s=0.2)

    notes = len(seen(plan.bootstrap, plan.ledger.topic)) - before
    assert (result.finished, len(given())) == (True, 60)
    assert notes > 5
    assert time.monotonic() - began_s >= (notes - 1) * 0.2


def test_no_more_is_handed_over_than_may_come_again(make: Make, source: str) -> None:
    """With a window of 10 it is written at each tenth record how far they are."""
    plan = make((source, 0, 0, 60))

    result = plan.run("python", KEEP, handling=Handling(window=10, batch=4))

    assert result.finished
    assert len(given()) == 60
    assert plan.proof(result).complete


def test_stopped_it_says_exactly_what_may_come_again(make: Make, source: str) -> None:
    plan = make((source, 0, 0, 60))

    first = plan.run(
        "python", KEEP, lambda: len(given()) >= 20, rate=RateLimit(records_per_s=20), handling=Handling(batch=1)
    )

    assert first.interrupted
    (progress,) = first.progress
    assert (progress.delivered_to, progress.may_repeat) == (len(given()), 0)
    second = plan.run("python", KEEP)
    assert second.finished
    assert [record["offset"] for record in given()] == list(range(60))


# Commands


@pytest.mark.programs("cat")
def test_a_process_a_batch(make: Make, source: str, tmp_path: Path) -> None:
    plan = make((source, 0, 0, 25), (source, 0, 25, 60))
    command = f"cat >> {tmp_path}/got; echo >> {tmp_path}/calls"

    result = plan.run("command", {"command": command}, handling=Handling(batch=10))

    assert offsets_of(tmp_path / "got") == list(range(60))
    assert 6 <= len((tmp_path / "calls").read_text()) <= 20
    assert result.finished
    assert plan.proof(result).complete
    first = json.loads((tmp_path / "got").read_text().splitlines()[0])
    assert first == {
        "topic": source,
        "partition": 0,
        "offset": 0,
        "timestamp": "1970-01-01T00:00:01.000Z",
        "timestamp_ms": 1_000,
        "key": "k0",
        "value": '{"n": 0}',
        "headers": [{"key": "h", "value": {"base64": "/w=="}}],
        "maybe_processed": False,
    }


ANSWERING = """
import json, sys
for line in sys.stdin:
    record = json.loads(line)
    with open({got!r}, "a") as file:
        file.write(line)
    name = "{{topic}}:{{partition}}:{{offset}}".format(**record)
    print(f"error {{name}}: no 7" if record["offset"] == 7 else f"ok {{name}}", flush=True)
"""


def test_one_answer_a_line(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Name, tmp_path: Path
) -> None:
    dead = world.topic(name("dead"))
    plan = make((source, 0, 0, 60))
    command = script(tmp_path / "handler.py", ANSWERING.format(got=str(tmp_path / "got")))
    options = {"command": command, "ack": "line", "value-format": "json"}

    result = plan.run("command", options, dead_letters=dead, handling=QUICK)

    expected = [*range(8), *range(7, 60)]  # 7 was tried twice
    assert offsets_of(tmp_path / "got") == expected
    assert [one.header("kgroup.error") for one in seen(bootstrap, dead)] == ["no 7"]
    assert plan.proof(result).complete


def test_lanes_have_a_process_each(make: Make, source: str, tmp_path: Path) -> None:
    plan = make((source, 0, 0, 60))
    each = f'echo $$ >> {tmp_path}/who; echo "$l" >> {tmp_path}/got.$$; echo ok $(name)'

    result = plan.run(
        "command",
        {"command": f"{NAME} while read -r l; do {each}; done", "ack": "line"},
        order=Order.KEY,
        handling=Handling(lanes=3),
    )

    assert result.finished
    assert len(set((tmp_path / "who").read_text().split())) == 3
    keys = [{json.loads(line)["key"] for line in path.read_text().splitlines()} for path in tmp_path.glob("got.*")]
    assert sum(map(len, keys)) == 6
    got = [offsets_of(path) for path in tmp_path.glob("got.*")]
    assert sorted(offset for some in got for offset in some) == list(range(60))
    assert all(some == sorted(some) for some in got)


@pytest.mark.programs("cat", "sleep", "tr", "yes")
@pytest.mark.parametrize(
    ("ack", "command", "why"),
    [
        ("exit", "echo this is why >&2; exit 3", "handler-died: exit status 3: this is why"),
        ("exit", "kill -9 $$", "handler-died: killed by SIGKILL"),
        ("exit", "sleep 60", "handler-timeout: no answer within 0.3 s"),
        ("exit", "sleep 60 & wait", "handler-timeout: no answer within 0.3 s"),
        ("line", "echo this is why >&2; exit 3", "handler-died: exit status 3: this is why"),
        ("line", "kill -9 $$", "handler-died: killed by SIGKILL"),
        ("line", "cat > /dev/null", "handler-timeout: no answer within 0.3 s"),
        ("line", "sleep 60", "handler-timeout: no answer within 0.3 s"),
        ("line", "cat", "handler-answer: not 'ok {record}' or 'error {record}: REASON'"),
        ("line", "while read -r l; do echo okay; done", "not 'ok {record}' or 'error {record}: REASON': 'okay'"),
        ("line", "exec 1>&-; cat > /dev/null; exit 0", "handler-died"),
        ("line", "yes | tr -d '\\n'", "handler-answer: the answer has no line end"),
        ("line", "while read -r l; do echo error $(name): too bad; done", "too bad"),
        ("line", "while read -r l; do echo error $(name):; done", "error"),
    ],
)
def test_a_handler_that_fails_is_named(
    make: Make, source: str, ack: str, command: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = os.killpg

    def only_ours(pid: int, number: int) -> None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)  # raises where the number may be another's
        kill(pid, number)

    monkeypatch.setattr(os, "killpg", only_ours)
    plan = make((source, 0, 0, 1))
    handling = Handling(retries=1, backoff_s=0.01, timeout_s=0.3 if "timeout" in why else 30)

    result = plan.run("command", {"command": NAME + command, "ack": ack}, handling=handling)

    (stopped,) = result.stopped
    assert why.format(record=f"{source}:0:0") in stopped.why
    assert (stopped.offset, stopped.attempts) == (0, 2)
    assert plan.progress()[0].delivered_to == 0


def test_what_a_handler_said_before_it_died_is_waited_for(
    make: Make, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that reads it begins late, as it may where there is much to do."""
    listen = _Lines._listen

    def late(lines: _Lines, stderr: Any) -> None:
        time.sleep(0.2)
        listen(lines, stderr)

    monkeypatch.setattr(_Lines, "_listen", late)
    plan = make((source, 0, 0, 1))

    result = plan.run(
        "command", {"command": "echo this is why >&2; exit 3", "ack": "line"}, handling=Handling(retries=0)
    )

    assert result.stopped[0].why == "handler-died: exit status 3: this is why"


@pytest.mark.parametrize("ack", ["exit", "line"])
def test_a_command_that_is_not_there_ends_the_task_and_refuses_nothing(
    make: Make, world: KafkaWorld, bootstrap: str, source: str, name: Name, ack: str
) -> None:
    dead = world.topic(name("dead"))
    plan = make((source, 0, 0, 5))

    with pytest.raises(KgroupError) as caught:
        plan.run("command", {"command": "/no/such/thing", "ack": ack}, dead_letters=dead)

    assert caught.value.code == "handler-missing"
    assert "/no/such/thing" in caught.value.message
    assert seen(bootstrap, dead) == []


def test_a_handler_that_recovers_is_started_again(make: Make, source: str, tmp_path: Path) -> None:
    """It leaves after each third record, as some do to be safe; nothing is refused, and nothing comes twice."""
    command = f'{NAME} for n in 1 2 3; do read -r l; echo "$l" >> {tmp_path}/got; echo ok $(name); done'
    plan = make((source, 0, 0, 30))

    result = plan.run("command", {"command": command, "ack": "line"}, handling=Handling(retries=5, backoff_s=0.01))

    assert result.finished
    assert sorted(set(offsets_of(tmp_path / "got"))) == list(range(30))


def test_large_records_pass_through_pipes_of_a_handler_that_talks_much(
    make: Make, world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    topic = world.topic(name("large"))
    plain = producer(bootstrap)
    for _ in range(3):
        plain.produce(topic, b"x" * 900_000)
        plain.flush(30)
    text = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    sys.stderr.write('y' * 300_000); sys.stderr.flush()\n"
        f"    open({str(tmp_path / 'sizes')!r}, 'a').write(f'{{len(line)}}\\n')\n"
        "    print('ok {topic}:{partition}:{offset}'.format(**json.loads(line)), flush=True)\n"
    )
    plan = make((topic, 0, 0, 3))

    result = plan.run("command", {"command": script(tmp_path / "handler.py", text), "ack": "line"})

    assert result.finished
    assert [int(size) > 900_000 for size in (tmp_path / "sizes").read_text().split()] == [True] * 3


@pytest.mark.programs("cat")
def test_what_is_not_json_is_dead_at_once(
    make: Make, world: KafkaWorld, bootstrap: str, name: Name, tmp_path: Path
) -> None:
    topic, dead = world.topic(name("bytes")), world.topic(name("dead"))
    plain = producer(bootstrap)
    for value in (b"1", b"\xff", None, b"1"):
        plain.produce(topic, value)
        plain.flush(30)
    plan = make((topic, 0, 0, 4))
    options = {"command": f"cat >> {tmp_path}/got", "value-format": "json"}

    result = plan.run("command", options, dead_letters=dead, handling=Handling(retries=3, backoff_s=30))

    assert offsets_of(tmp_path / "got") == [0, 2, 3]
    (letter,) = seen(bootstrap, dead)
    assert letter.value == b"\xff"
    assert "not json: its value is not JSON" in (letter.header("kgroup.error") or "")
    assert plan.proof(result).complete


@pytest.mark.programs("sleep")
def test_a_handler_is_gone_when_the_task_has_ended(make: Make, source: str, tmp_path: Path) -> None:
    plan = make((source, 0, 0, 5))
    command = f"{NAME} echo $$ > {tmp_path}/pid; sleep 300 & while read -r l; do echo ok $(name); done; wait"

    result = plan.run("command", {"command": command, "ack": "line"})

    assert result.finished
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not _lives(pid), "the handler's end")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    "options",
    [{}, {"command": " "}, {"command": "cat", "ack": "never"}, {"command": "cat", "value-format": "xml"}],
)
def test_options_that_mean_nothing_are_refused(make: Make, source: str, options: dict[str, str]) -> None:
    plan = make((source, 0, 0, 5))

    with pytest.raises(UsageError):
        plan.run("command", options)


def test_a_lost_range_is_counted_for_handlers_too(make: Make, world: KafkaWorld, source: str) -> None:
    world.delete_records(source, 0, 12)
    plan = make((source, 0, 0, 10), (source, 0, 10, 60))

    result: TaskResult = plan.run("python", KEEP)

    assert [record["offset"] for record in given()] == list(range(12, 60))
    assert [(lost.start, lost.end) for progress in result.progress for lost in progress.lost] == [(0, 10), (10, 12)]
    assert result.finished
    assert not plan.proof(result).complete


@pytest.mark.soak
def test_what_is_lost_behind_what_is_not_handled_yet_is_not_written_down_before_it(
    make: Make, world: KafkaWorld, bootstrap: str, name: Name
) -> None:
    topic = world.topic(name("large"))
    world.produce(topic, 1000, value=b"x" * 20_000)
    plan = make((topic, 0, 0, 1000))
    config = {"bootstrap.servers": bootstrap, "queued.max.messages.kbytes": 1024, "fetch.message.max.bytes": 200_000}
    results: list[TaskResult] = []
    rate = RateLimit(records_per_s=100)
    options = {"function": "tests.helpers.catchup.handler_functions:keep_after"}
    asked: list[float] = []

    def stop() -> bool:
        asked.append(time.monotonic())
        return False

    worker = threading.Thread(
        target=lambda: results.append(plan.run("python", options, stop, config=config, rate=rate))
    )
    worker.start()
    wait_for(plan.progress, "progress")
    world.delete_records(topic, 0, 900)
    since_s = time.monotonic()
    wait_for(lambda: asked[-1] > since_s + 1.5, "more than a second")

    (noted,) = plan.progress().values()
    assert (noted.delivered_to, noted.records, noted.lost) == (0, 0, ())
    handler_functions.release.set()
    worker.join(60)

    (result,) = results
    (progress,) = result.progress
    (lost,) = progress.lost
    assert (lost.end, progress.delivered_to) == (900, 1000)
    assert [record["offset"] for record in given()] == [*range(lost.start), *range(900, 1000)]
    assert lost.start > 0
