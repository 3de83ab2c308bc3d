"""Lanes without a broker: what is kept in order, what goes on at the same time, and what a refusal does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from kgroup.catchup.worker.handler_pool import Handler, HandlerOutcome, HandlerPool, HandlerRefusal
from kgroup.catchup.worker.task_spec import Handling
from kgroup.groups.catchup.model import Order
from kgroup.model.records import ConsumerRecord
from kgroup.support.errors import KgroupError
from tests.helpers.waiting import wait_for


def record(offset: int, key: bytes | None = None) -> ConsumerRecord:
    return ConsumerRecord("orders", 0, offset, 1, key, b"%d" % offset, ())


def outcome(offset: int, attempts: int, error: str | None) -> HandlerOutcome:
    return HandlerOutcome("orders", 0, offset, attempts, error)


def keyed(number: int, keys: int) -> list[ConsumerRecord]:
    return [record(offset, b"k%d" % (offset % keys)) for offset in range(number)]


@dataclass
class Shop:
    """Handlers that keep a list of what they did; ``refuse`` says what is refused, ``work`` is done for each call."""

    most: int = 1
    hangs_for_ever: bool = True
    work: Callable[[Sequence[ConsumerRecord]], None] = lambda records: None
    calls: list[list[int]] = field(default_factory=list)
    keys: list[tuple[str, bytes | None, int]] = field(default_factory=list)
    closed: int = 0
    killed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, records: Sequence[ConsumerRecord]) -> None:
        with self.lock:
            self.calls.append([one.offset for one in records])
        self.work(records)
        with self.lock:
            self.keys.extend((threading.current_thread().name, one.key, one.offset) for one in records)

    def close(self) -> None:
        with self.lock:
            self.closed += 1

    def kill(self) -> None:
        self.killed += 1


def waits(call: Callable[[], object]) -> None:
    call()


@contextmanager
def lanes(shop: Shop, order: Order, number: int = 1, *, stop: bool = True, **more: float) -> Iterator[HandlerPool]:
    handling = Handling(
        lanes=number,
        retries=int(more.get("retries", 0)),
        backoff_s=more.get("backoff_s", 0.0),
        timeout_s=more.get("timeout_s", 60.0),
    )

    def make() -> Handler:
        return shop

    with HandlerPool(make, order, handling, stop_at_refusal=stop) as made:
        yield made


def gathered(made: HandlerPool, number: int) -> list[HandlerOutcome]:
    found: list[HandlerOutcome] = []

    def enough() -> bool:
        found.extend(made.outcomes(0.1))
        made.turn.allow(made.turn.request_count)
        return len(found) >= number

    wait_for(enough, f"{number} outcomes")
    return sorted(found, key=lambda one: one.offset)


@pytest.mark.parametrize("most", [1, 7])
def test_partition_keeps_all_in_order_whatever_lanes_are_asked_for(most: int) -> None:
    shop = Shop(most)
    with lanes(shop, Order.PARTITION, 8) as made:
        for start in range(0, 200, 20):
            made.put([record(offset) for offset in range(start, start + 20)])
        found = gathered(made, 200)

    assert [offset for call in shop.calls for offset in call] == list(range(200))
    assert all(one == outcome(one.offset, 1, None) for one in found)
    assert len({name for name, _, _ in shop.keys}) == 1
    assert shop.closed == 1


@pytest.mark.parametrize("most", [1, 5])
def test_a_key_is_always_in_the_same_lane_and_in_order(most: int) -> None:
    shop = Shop(most, work=lambda records: time.sleep(0.0005 * (records[0].offset % 3)))
    with lanes(shop, Order.KEY, 6) as made:
        made.put(keyed(300, 17))
        made.put([record(offset) for offset in range(300, 340)])
        assert len(gathered(made, 340)) == 340

    by_key: dict[bytes | None, list[tuple[str, int]]] = {}
    for name, key, offset in shop.keys:
        by_key.setdefault(key, []).append((name, offset))
    without = by_key.pop(None)
    assert len({name for name, _ in without}) == 6  # they are spread
    for entries in by_key.values():
        assert len({name for name, _ in entries}) == 1
        assert [offset for _, offset in entries] == sorted(offset for _, offset in entries)
    assert len({name for name, _, _ in shop.keys}) > 3


@pytest.mark.parametrize("order", [Order.KEY, Order.NONE])
def test_lanes_work_at_the_same_time(order: Order) -> None:
    barrier = threading.Barrier(4, timeout=20)
    shop = Shop(work=lambda records: waits(barrier.wait))
    with lanes(shop, order, 4) as made:
        made.put([record(offset) for offset in range(8)])
        assert len(gathered(made, 8)) == 8


def test_one_lane_does_not_take_what_others_could_do() -> None:
    barrier = threading.Barrier(4, timeout=20)
    shop = Shop(100, work=lambda records: waits(barrier.wait))
    with lanes(shop, Order.NONE, 4) as made:
        made.put([record(offset) for offset in range(8)])
        wait_for(lambda: len(shop.calls) >= 4, "four calls")
        made.put([])
        gathered(made, 4)
        barrier.abort()

    assert max(map(len, shop.calls)) <= 3


def refuse(*offsets: int, times: int = 10**9) -> Callable[[Sequence[ConsumerRecord]], None]:
    left = dict.fromkeys(offsets, times)

    def work(records: Sequence[ConsumerRecord]) -> None:
        for one in records:
            if left.get(one.offset, 0) > 0:
                left[one.offset] -= 1
                raise HandlerRefusal(f"no {one.offset}")

    return work


def test_a_refused_record_is_tried_again_before_what_comes_behind_it() -> None:
    shop = Shop(work=refuse(2, times=2))
    with lanes(shop, Order.PARTITION, retries=3) as made:
        made.put([record(offset) for offset in range(5)])
        found = gathered(made, 5)

    assert [call[0] for call in shop.calls] == [0, 1, 2, 2, 2, 3, 4]
    assert found[2] == outcome(2, 3, None)


def test_the_pauses_between_attempts_grow() -> None:
    times: list[float] = []

    def work(records: Sequence[ConsumerRecord]) -> None:
        times.append(time.monotonic())
        raise HandlerRefusal("no")

    with lanes(Shop(work=work), Order.PARTITION, retries=3, backoff_s=0.05) as made:
        made.put([record(0)])
        assert gathered(made, 1) == [outcome(0, 4, "no")]

    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert [pause >= wanted for pause, wanted in zip(pauses, (0.05, 0.1, 0.2), strict=True)] == [True] * 3


def test_where_there_are_no_dead_letters_nothing_behind_a_refusal_is_begun() -> None:
    shop = Shop(work=refuse(2))
    with lanes(shop, Order.PARTITION) as made:
        made.put([record(offset) for offset in range(5)])
        found = gathered(made, 3)

        assert found[2] == outcome(2, 1, "no 2")
        assert made.halt(5.0) == 0
        assert [call[0] for call in shop.calls] == [0, 1, 2]
        made.reset()
        made.put([record(10)])
        assert gathered(made, 1) == [outcome(10, 1, None)]


def test_with_dead_letters_the_others_go_on() -> None:
    shop = Shop(work=refuse(2, 3))
    with lanes(shop, Order.PARTITION, stop=False, retries=1) as made:
        made.put([record(offset) for offset in range(6)])
        found = gathered(made, 6)

    assert [(one.offset, one.attempts) for one in found if one.error] == [(2, 2), (3, 2)]


def test_the_refused_one_of_a_batch_is_found() -> None:
    shop = Shop(10, work=refuse(4))
    with lanes(shop, Order.PARTITION, stop=False, retries=1) as made:
        made.put([record(offset) for offset in range(8)])
        found = gathered(made, 8)

    assert [(one.offset, one.attempts, one.error) for one in found if one.error] == [(4, 4, "no 4")]
    assert {one.attempts for one in found if not one.error} == {3}
    singles = [call[0] for call in shop.calls if len(call) == 1]
    assert singles == [0, 1, 2, 3, 4, 4, 5, 6, 7]


def test_what_never_will_be_taken_is_not_tried_again() -> None:
    def work(records: Sequence[ConsumerRecord]) -> None:
        raise HandlerRefusal("not text", final=True)

    with lanes(Shop(work=work), Order.PARTITION, retries=5, backoff_s=60) as made:
        made.put([record(0)])
        assert gathered(made, 1) == [outcome(0, 1, "not text")]


def test_halting_waits_for_what_is_under_way_and_drops_the_rest() -> None:
    begun, go = threading.Event(), threading.Event()

    def work(records: Sequence[ConsumerRecord]) -> None:
        begun.set()
        go.wait(20)

    shop = Shop(work=work)
    with lanes(shop, Order.NONE, 2) as made:
        made.put([record(offset) for offset in range(10)])
        assert begun.wait(20)
        assert made.halt(0.05) in (1, 2)
        go.set()
        assert made.halt(20) == 0
        assert len(made.outcomes(0)) == len(shop.calls) <= 2


def test_halting_ends_a_pause() -> None:
    shop = Shop(work=refuse(0))
    with lanes(shop, Order.PARTITION, retries=5, backoff_s=60) as made:
        made.put([record(0)])
        wait_for(lambda: shop.calls, "a call")
        assert made.halt(20) == 0
        assert made.outcomes(0) == []


def test_what_becomes_known_too_late_is_nobodys() -> None:
    """Not of the partition that comes next, whose offsets are the same; nor does its refusal end that one."""
    begun, go = threading.Event(), threading.Event()

    def work(records: Sequence[ConsumerRecord]) -> None:
        if records[0].partition == 0:
            begun.set()
            go.wait(20)
            if records[0].offset == 1:
                raise HandlerRefusal("no 1")

    shop = Shop(work=work)
    with lanes(shop, Order.NONE, 3, retries=2) as made:
        made.put([record(0), record(1)])
        wait_for(lambda: len(shop.calls) == 2, "both")
        assert made.halt(0.01) == 2
        assert made.turn.handed_over_from(0) == 2
        made.reset()
        others = [replace(record(offset), partition=1) for offset in range(4)]
        made.put(others[:1])
        assert gathered(made, 1) == [HandlerOutcome("orders", 1, 0, 1, None)]
        go.set()
        made.put(others[1:])
        assert gathered(made, 3) == [HandlerOutcome("orders", 1, offset, 1, None) for offset in (1, 2, 3)]
        assert made.turn.handed_over_from(0) == 4
        assert made.turn.handed_over_from(3) == 1

    assert sorted(shop.calls).count([0]) == 2


@pytest.mark.parametrize("most", [1, 3])
def test_what_was_refused_and_waits_for_its_retry_was_given_too(most: int) -> None:
    shop = Shop(most, work=refuse(2))
    with lanes(shop, Order.PARTITION, retries=5, backoff_s=60) as made:
        made.put([record(offset) for offset in range(6)])
        wait_for(lambda: [2] in [call[-1:] for call in shop.calls], "the refused one")
        made.halt(20)

        assert made.turn.handed_over_from(0) == 3
        assert made.turn.handed_over_from(2) == 1


def test_nothing_is_given_again_before_that_is_allowed() -> None:
    shop = Shop(3, work=refuse(1, times=2))
    with lanes(shop, Order.PARTITION, retries=3) as made:
        made.put([record(offset) for offset in range(3)])
        wait_for(lambda: made.turn.request_count == 3, "the first retry")
        assert shop.calls == [[0, 1, 2]]
        made.turn.allow(3)
        wait_for(lambda: made.turn.request_count == 6, "the second one")
        assert shop.calls == [[0, 1, 2]] * 2
        assert made.turn.redeliveries().total() == 3
        found = gathered(made, 3)

        assert found == [outcome(offset, 3, None) for offset in range(3)]
        assert made.turn.redeliveries() == {("orders", 0, offset): 2 for offset in range(3)}


@pytest.mark.parametrize(
    ("most", "refused", "retries", "stop", "again"),
    [
        (1, {}, 3, True, 0),
        (1, {2: 1}, 3, True, 1),
        (1, {2: 9}, 3, True, 3),  # it was given 4 times
        (4, {2: 1}, 3, True, 4),  # with the others of its batch
        (4, {2: 9}, 1, False, 9),  # the batch twice, each alone, and the refused one again
    ],
)
def test_each_time_that_a_record_is_given_again_counts(
    most: int, refused: dict[int, int], retries: int, stop: bool, again: int
) -> None:
    calls = list[int]()

    def work(records: Sequence[ConsumerRecord]) -> None:
        calls.extend(one.offset for one in records)
        for one in records:
            if refused.get(one.offset, 0) > 0:
                refused[one.offset] -= 1
                raise HandlerRefusal("no")

    with lanes(Shop(most, work=work), Order.PARTITION, retries=retries, stop=stop) as made:
        made.put([record(offset) for offset in range(4)])
        gathered(made, 4 if not any(refused.values()) or not stop else 3)
        counted = made.turn.redeliveries().total()

    assert counted == len(calls) - len(set(calls)) == again


def test_what_surely_never_came_to_a_handler_does_not_count() -> None:
    refusals = [
        HandlerRefusal("not text", final=True, given=False),
        HandlerRefusal("died", given=False),
        HandlerRefusal("died"),
    ]

    def work(records: Sequence[ConsumerRecord]) -> None:
        if refusals:
            raise refusals.pop(0)

    with lanes(Shop(2, work=work), Order.PARTITION, retries=3) as made:
        made.put([record(0), record(1)])
        gathered(made, 2)

        assert made.turn.redeliveries() == {("orders", 0, 0): 1}  # the third time alone was not its first
        assert made.turn.handed_over_from(0) == 2


def test_what_waits_to_be_allowed_ends_when_it_is_halted() -> None:
    shop = Shop(work=refuse(0))
    with lanes(shop, Order.PARTITION, retries=5) as made:
        made.put([record(0)])
        wait_for(lambda: made.turn.request_count, "a retry")

        assert made.halt(20) == 0
        assert shop.calls == [[0]]
        assert (made.turn.redeliveries().total(), made.turn.handed_over_from(0)) == (0, 1)


def test_one_that_hangs_and_cannot_be_ended_is_named() -> None:
    go = threading.Event()
    with lanes(Shop(work=lambda records: waits(lambda: go.wait(20))), Order.PARTITION, timeout_s=0.1) as made:
        made.put([record(7)])
        with pytest.raises(KgroupError) as caught:
            wait_for(lambda: made.outcomes(0.05), "never")
        go.set()

    assert caught.value.code == "handler-timeout"
    assert "orders:0:7" in caught.value.details[0]


def test_one_that_cannot_work_at_all_ends_the_task() -> None:
    def work(records: Sequence[ConsumerRecord]) -> None:
        raise KgroupError("no such command", code="handler-missing")

    shop = Shop(work=work)
    with lanes(shop, Order.PARTITION) as made:
        made.put([record(0), record(1)])
        with pytest.raises(KgroupError) as caught:
            wait_for(lambda: made.outcomes(0.05), "never")

    assert caught.value.code == "handler-missing"
    assert shop.calls == [[0]]
