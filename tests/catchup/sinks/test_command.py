"""Handlers that answer wrongly, and what comes twice within one run: shell commands over a real topic."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kgroup.catchup.sinks.command import parse_answer
from kgroup.catchup.worker.handler_pool import HandlerRefusal
from kgroup.catchup.worker.task_spec import Handling
from kgroup.groups.catchup.model import Order
from kgroup.support.errors import KgroupError
from tests.catchup.sinks.test_handlers import offsets_of
from tests.helpers.catchup.line_handlers import NAME
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
        ("ok orders:0:17", None),
        (" ok  orders:0:17 \r", None),
        ("error orders:0:17: no such customer", "no such customer"),
        ("error orders:0:17 : a: b", "a: b"),
        ("error orders:0:17:", "error"),
    ],
)
def test_an_answer_names_its_record(text: str, expected: str | None) -> None:
    assert parse_answer(text, "orders:0:17") == expected


@pytest.mark.parametrize(
    "text",
    ["ok", "ok orders:0:1", "ok orders:0:170", "ok orders:1:17", "error: no", "error:", "error: orders:0:17: gone",
     "error orders:0:16: gone"],
)  # fmt: skip
def test_an_answer_that_does_not_name_the_record_breaks_the_protocol(text: str) -> None:
    with pytest.raises(KgroupError) as caught:
        parse_answer(text, "orders:0:17")

    assert caught.value.code == "handler-answer"
    assert repr(text) in caught.value.message
    assert caught.value.details[0] == "Expected: 'ok orders:0:17' or 'error orders:0:17: REASON'."


@pytest.mark.parametrize(
    "text",
    ["", "okay", "ok: fine", "ok 17", "ok orders:0", "error", "error orders:0:17", "errors: 3", "OK",
     "ok orders:0:17 orders:0:18"],
)  # fmt: skip
def test_a_line_that_is_no_answer_refuses_the_record(text: str) -> None:
    with pytest.raises(HandlerRefusal) as caught:
        parse_answer(text, "orders:0:17")

    assert caught.value.reason == f"handler-answer: not 'ok orders:0:17' or 'error orders:0:17: REASON': {text!r}"


REFUSES_4 = """case "$l" in *'"offset": 4,'*) echo "error: no";; *) echo ok;; esac; done"""
WITHOUT_READING = "yes ok"
NAMES_ANOTHER = KEEP + "echo ok orders:0:999; done"
NAMES_THE_ONE_BEFORE = KEEP + "echo ok ${{last:-$(name)}}; last=$(name); done"
ANSWERS_TWICE = KEEP + "echo ok $(name); echo ok $(name); done"


@pytest.mark.programs("yes")
@pytest.mark.parametrize(
    ("command", "said", "good"),
    [
        (KEEP + REFUSES_4, "'ok'", 0),
        (WITHOUT_READING, "'ok'", 0),
        (NAMES_ANOTHER, "'ok orders:0:999'", 0),
        (NAMES_THE_ONE_BEFORE, "'ok {source}:0:0'", 1),
        (ANSWERS_TWICE, "'ok {source}:0:0'", 1),
    ],
)
def test_an_answer_that_names_another_record_acknowledges_none(
    make: Make, source: str, tmp_path: Path, command: str, said: str, good: int
) -> None:
    """What was answered rightly before it counts; the record that was given then comes again, and that is noted."""
    plan, got = make((source, 0, 0, 30), (source, 0, 30, 60)), tmp_path / "got"
    options = {"command": NAME + command.format(got=got), "ack": "line"}

    with pytest.raises(KgroupError) as caught:
        plan.run("command", options, handling=QUICK)

    assert caught.value.code == "handler-answer"
    assert said.format(source=source) in caught.value.message
    assert f"'ok {source}:0:{good}'" in caught.value.details[0]
    (noted,) = plan.progress().values()
    assert (noted.records, noted.delivered_to, noted.may_repeat) == (good, good, 1)
    came = offsets_of(got) if got.exists() else []
    assert len(came) <= good + 1
    again = plan.run("command", {**options, "command": NAME + KEEP.format(got=got) + "echo ok $(name); done"})
    assert again.finished
    assert plan.proof(again).complete
    assert offsets_of(got) == [*came, *range(good, 60)]


def test_other_lanes_keep_what_they_have_answered(make: Make, source: str, tmp_path: Path) -> None:
    """One lane breaks the protocol: no record is lost, and the bound of what comes twice holds."""
    plan, got = make((source, 0, 0, 60)), tmp_path / "got"
    good = NAME + KEEP.format(got=f"{got}.$$") + "{bad} echo ok $(name); done"
    options = {"command": good.replace("{bad}", """case "$l" in *'"offset": 13,'*) echo ok;; esac;"""), "ack": "line"}

    with pytest.raises(KgroupError) as caught:
        plan.run("command", options, order=Order.KEY, handling=Handling(lanes=3))
    (noted,) = plan.progress().values()
    again = plan.run("command", {**options, "command": good.replace("{bad}", "")}, order=Order.KEY)

    assert f"'ok {source}:0:13'" in caught.value.details[0]
    assert noted.delivered_to <= 13
    assert plan.proof(again).complete
    came = [offset for path in tmp_path.glob("got.*") for offset in offsets_of(path)]
    assert set(came) == set(range(60))
    assert len(came) - 60 <= noted.may_repeat


def test_what_a_handler_says_at_its_end_is_ignored(make: Make, source: str) -> None:
    """Every record is answered for by then: nothing that it says can change what was delivered."""
    plan = make((source, 0, 0, 60))
    command = NAME + "while read -r l; do echo ok $(name); last=$(name); done; echo bye, 60 records; echo ok $last"

    result = plan.run("command", {"command": command, "ack": "line"})

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
REFUSES_13 = """case "$l" in *'"offset": 13,'*) echo error $(name): no;; *) echo ok $(name);; esac; done"""
FAILS_13 = """case "$l" in *'"offset": 13,'*) bad=1;; esac; done; exit $bad"""
RETRIED = {
    "died after 6 of 10": ("exit", KEEP + AFTER_6, False),
    "killed": ("exit", KEEP + FIRST + "kill -9 $$; }}; done; exit 0", False),
    "hung": ("exit", "cat >> {got}; " + FIRST + "sleep 60; }}", False),
    "poison": ("exit", "bad=0; " + KEEP + FAILS_13, True),
    "line died": ("line", KEEP + FIRST + "exit 1; }}; echo ok $(name); done", False),
    "line late": ("line", KEEP + FIRST + "sleep 1; }}; echo ok $(name); done", False),
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
    options = {"command": NAME + command.format(got=got, once=tmp_path / "once"), "ack": ack}
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
    assert plan.proof(result).totals().possible_duplicate_count == noted.may_repeat


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
