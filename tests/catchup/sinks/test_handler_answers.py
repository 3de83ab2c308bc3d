"""Handlers that answer wrongly, and what comes twice within one run: shell commands over a real topic."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.catchup.sinks.command import HandlerAnswer, parse_answer
from kgroup.catchup.worker.task_spec import Handling
from kgroup.groups.catchup.model import Order
from kgroup.support.errors import KgroupError
from tests.catchup.sinks.test_handlers import offsets_of, script
from tests.helpers.catchup.replays import Replay, producer
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Make = Callable[..., Replay]

QUICK = Handling(retries=1, backoff_s=0.01)
KEEP = 'while read -r l; do echo "$l" >> {got}; '
"""The beginning of a handler that keeps each line that it reads."""


@pytest.fixture
def source(world: KafkaWorld, bootstrap: str, name: Name) -> str:
    """60 records of 6 keys."""
    topic = world.topic(name("orders"))
    plain = producer(bootstrap)
    for number in range(60):
        plain.produce(topic, b"%d" % number, b"k%d" % (number % 6))
    assert plain.flush(30) == 0
    return topic


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ok", HandlerAnswer(None, None)),
        (" ok \r", HandlerAnswer(None, None)),
        ("ok orders:0:17", HandlerAnswer("orders:0:17", None)),
        ("error: no such customer", HandlerAnswer(None, "no such customer")),
        ("error:", HandlerAnswer(None, "error")),
        ("error : a: b", HandlerAnswer(None, "a: b")),
        ("error a.b-c:3:17: gone", HandlerAnswer("a.b-c:3:17", "gone")),
        ("error: orders:0:17: gone", HandlerAnswer(None, "orders:0:17: gone")),
        ("error orders:0:17:", HandlerAnswer("orders:0:17", "error")),
        ("", None),
        ("okay", None),
        ("ok: fine", None),
        ("ok 17", None),
        ("ok orders:0", None),
        ("error", None),
        ("error orders:0:17", None),
        ("errors: 3", None),
        ("OK", None),
        ("ok orders:0:17 orders:0:18", None),
    ],
)
def test_what_is_an_answer(text: str, expected: HandlerAnswer | None) -> None:
    assert parse_answer(text) == expected


DOUBLE = KEEP + 'printf "ok\\nok\\n"; done'
REFUSES_4 = """case "$l" in *'"offset": 4,'*) echo "error: no";; *) echo ok;; esac; done"""
SHAKES_HANDS = "echo ok; " + KEEP + REFUSES_4
LATE = KEEP + "echo ok; sleep 0.02; echo ok; done"
AT_THE_END = KEEP + "echo ok; done; echo ok"
WITHOUT_READING = "yes ok"
NAMES_ANOTHER = "while read -r l; do echo ok orders:0:999; done"


@pytest.mark.programs("sleep", "yes")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (DOUBLE, "the handler answered"),
        (SHAKES_HANDS, "the handler "),
        (LATE, "the handler answered"),
        (AT_THE_END, "the handler ended with 1 answer too many: 'ok' after {source}:0:59"),
        (WITHOUT_READING, "the handler answered before "),
        (NAMES_ANOTHER, "the handler answered for orders:0:999, but kgroup gave it {source}:0:0"),
    ],
)
def test_a_handler_whose_answers_are_not_those_to_its_records_has_delivered_nothing(
    make: Make, source: str, tmp_path: Path, command: str, said: str
) -> None:
    """Whatever was counted before that is found out; the records come again, and are said to."""
    plan, got = make((source, 0, 0, 30), (source, 0, 30, 60)), tmp_path / "got"
    options = {"command": command.format(got=got), "ack": "line"}

    with pytest.raises(KgroupError) as caught:
        plan.run("command", options, handling=QUICK)

    assert caught.value.code == "handler-answer"
    assert said.format(source=source) in caught.value.message
    assert source in caught.value.message or "999" in caught.value.message
    noted = plan.progress().values()
    assert all((one.records, one.delivered_to) == (0, 0 if one.chunk == 0 else 30) for one in noted)
    came = offsets_of(got) if got.exists() else []
    assert sum(one.may_repeat for one in noted) >= len(came)
    good = plan.run("command", {**options, "command": "while read -r l; do echo ok; done"}, handling=QUICK)
    assert good.finished
    assert plan.proof(good).complete


def test_answers_that_name_their_records(make: Make, source: str, tmp_path: Path) -> None:
    text = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    r = json.loads(line)\n"
        "    name = '{topic}:{partition}:{offset}'.format(**r)\n"
        "    print(f'error {name}: no 7' if r['offset'] == 7 else f'ok {name}', flush=True)\n"
    )
    plan = make((source, 0, 0, 60))

    result = plan.run(
        "command", {"command": script(tmp_path / "handler.py", text), "ack": "line"}, handling=Handling(retries=0)
    )

    (stopped,) = result.stopped
    assert (stopped.offset, stopped.why) == (7, "no 7")
    assert [one.delivered_to for one in result.progress] == [7]


def test_what_a_handler_says_at_its_end_that_is_no_answer_is_nothing_to_us(make: Make, source: str) -> None:
    plan = make((source, 0, 0, 60))

    result = plan.run("command", {"command": "while read -r l; do echo ok; done; echo bye, 60 records", "ack": "line"})

    assert plan.proof(result).complete


READS = 'for n in $(seq {lines}); do read -r l || exit 0; echo "$l" >> {got}; done; exit 0'


@pytest.mark.programs("cat", "seq")
@pytest.mark.parametrize(("lines", "batch", "left"), [(1, 10, 9), (0, 10, 10), (9, 10, 1), (0, 1, 1)])
def test_exit_status_0_before_all_was_read_is_no_answer(
    make: Make, source: str, tmp_path: Path, lines: int, batch: int, left: int
) -> None:
    plan, got = make((source, 0, 0, 60)), tmp_path / "got"

    with pytest.raises(KgroupError) as caught:
        plan.run("command", {"command": READS.format(lines=lines, got=got)}, handling=Handling(batch=batch))

    assert caught.value.code == "handler-unread"
    assert caught.value.message == (
        f"the handler ended with exit status 0, but did not read {left} of its {batch} records, "
        f"from {source}:0:{lines} on"
    )
    (noted,) = plan.progress().values()
    assert (noted.delivered_to, noted.records, noted.may_repeat) == (0, 0, batch)
    again = plan.run("command", {"command": f"cat >> {got}"})
    assert plan.proof(again).complete


@pytest.mark.programs("cat")
def test_batches_before_one_that_was_not_read_count(make: Make, source: str, tmp_path: Path) -> None:
    plan, got = make((source, 0, 0, 60)), tmp_path / "got"
    command = f"if [ -e {got} ]; then exit 0; fi; cat >> {got}"

    with pytest.raises(KgroupError) as caught:
        plan.run("command", {"command": command}, handling=Handling(batch=10))

    assert f"did not read 10 of its 10 records, from {source}:0:10 on" in caught.value.message
    (noted,) = plan.progress().values()
    assert (noted.delivered_to, noted.records, noted.may_repeat) == (10, 10, 10)


@pytest.mark.programs("cat", "head")
def test_a_batch_larger_than_a_pipe_is_read_or_not(make: Make, world: KafkaWorld, name: Name, tmp_path: Path) -> None:
    topic = world.topic(name("large"))
    world.produce(topic, 40, value=b"x" * 20_000)
    plan = make((topic, 0, 0, 40))

    with pytest.raises(KgroupError) as caught:
        plan.run("command", {"command": "head -c 100000 > /dev/null"})
    done = plan.run("command", {"command": "cat > /dev/null"})

    assert caught.value.code == "handler-unread"
    assert plan.proof(done).complete


FIRST = "[ -e {once} ] || {{ touch {once}; "
"""Once: what follows up to ``}}``."""
AFTER_6 = '[ -e {once} ] || {{ n=$((n+1)); [ "$n" = 6 ] && touch {once} && exit 1; }}; done; exit 0'
REFUSES_13 = """case "$l" in *'"offset": 13,'*) echo error: no;; *) echo ok;; esac; done"""
FAILS_13 = """case "$l" in *'"offset": 13,'*) bad=1;; esac; done; exit $bad"""
RETRIED = {
    "died after 6 of 10": ("exit", KEEP + AFTER_6, False),
    "killed": ("exit", KEEP + FIRST + "kill -9 $$; }}; done; exit 0", False),
    "hung": ("exit", "cat >> {got}; " + FIRST + "sleep 60; }}", False),
    "poison": ("exit", "bad=0; " + KEEP + FAILS_13, True),
    "line died": ("line", KEEP + FIRST + "exit 1; }}; echo ok; done", False),
    "line late": ("line", KEEP + FIRST + "sleep 1; }}; echo ok; done", False),
    "line poison": ("line", KEEP + REFUSES_13, True),
}


@pytest.mark.programs("cat", "sleep", "touch")
@pytest.mark.parametrize("order", [Order.PARTITION, Order.KEY])
@pytest.mark.parametrize(("ack", "command", "poison"), RETRIED.values(), ids=RETRIED.keys())
def test_what_came_twice_in_one_run_is_counted(
    make: Make, world: KafkaWorld, source: str, name: Name, tmp_path: Path, ack: str, command: str, poison: bool,
    order: Order,
) -> None:  # fmt: skip
    """Never less than what the handler got more often than once."""
    plan, got = make((source, 0, 0, 60)), tmp_path / "got"
    options = {"command": command.format(got=got, once=tmp_path / "once"), "ack": ack}
    hangs = "sleep" in command
    handling = Handling(lanes=3, batch=10, retries=3, backoff_s=0.01, timeout_s=0.5 if hangs else 60)

    result = plan.run(
        "command", options, order=order, handling=handling, dead_letters=world.topic(name("dead")) if poison else None
    )

    assert result.finished
    came = offsets_of(got)
    twice = len(came) - len(set(came))
    assert twice > 0
    (noted,) = result.progress
    assert twice <= noted.may_repeat  # how many exactly were given again is tested with the lanes
    assert noted.dead == poison
    assert plan.proof(result).totals()["possible_duplicate_count"] == noted.may_repeat


@pytest.mark.programs("cat", "sleep", "wc")
def test_what_may_come_twice_is_written_before_it_does(make: Make, source: str, tmp_path: Path) -> None:
    """Whoever is killed then has said so."""
    plan, calls = make((source, 0, 0, 10)), tmp_path / "calls"
    hangs = f"while [ ! -e {calls}.go ]; do sleep 0.05; done"
    command = f'cat > /dev/null; echo >> {calls}; [ "$(wc -l < {calls})" = 3 ] || exit 1; {hangs}'
    thread = threading.Thread(
        target=lambda: plan.run("command", {"command": command}, handling=Handling(retries=2, backoff_s=0.01))
    )
    thread.start()
    wait_for(lambda: calls.exists() and len(calls.read_text()) == 3, "the third call")
    found = plan.progress()[0].may_repeat
    (tmp_path / "calls.go").touch()
    thread.join(30)

    assert found == 30  # all 10 of the window, and each twice more
    assert plan.progress()[0].may_repeat == 20
