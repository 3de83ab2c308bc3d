"""Totals, rates and time left, from what tasks tell and from the ledger; and the datagrams in between."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kgroup.catchup.spark.in_worker import ProgressSender
from kgroup.catchup.spark.progress import ProgressBoard, TopicTotals
from kgroup.catchup.spark.progress_listener import (
    ProgressEndpoint,
    ProgressListener,
    answer,
    decode_answer,
    encode_progress,
)
from kgroup.catchup.worker.task_progress import TaskProgress
from kgroup.groups.catchup.model import Chunk, ChunkProgress
from tests.helpers.waiting import wait_for

CHUNKS = {
    0: (Chunk("orders", 0, 100, 200, 0), Chunk("orders", 0, 200, 300, 1)),
    1: (Chunk("payments", 0, 0, 50, 2),),
}


def board() -> ProgressBoard:
    return ProgressBoard(CHUNKS, now_s=1000.0)


def progress(chunk: int, to: int, records: int) -> ChunkProgress:
    return ChunkProgress(chunk, to, records, 1, 0, 10 * records, 0, 7)


def test_nothing_was_heard() -> None:
    found = board().totals(1000.5)

    assert (found.offsets, found.offsets_total, found.chunks, found.chunks_total, found.records) == (0, 250, 0, 3, 0)
    assert (found.records_per_s, found.left_s, found.heard_s) == (None, None, None)
    assert found.topics == (TopicTotals("orders", 0, 200), TopicTotals("payments", 0, 50))


def test_chunks_before_the_one_in_work_are_finished() -> None:
    one = board()
    one.update(0, 5, TaskProgress(1, 210, 105, 3, 2, 1050), 1001.0)
    one.update(1, 6, TaskProgress(2, 50, 50, 0, 0, 500), 1001.5)

    found = one.totals(1002.0)

    assert (found.offsets, found.chunks, found.records, found.filtered, found.dead) == (160, 2, 155, 3, 2)
    assert (found.size, found.heard_s) == (1550, 0.5)
    assert found.topics == (TopicTotals("orders", 110, 200), TopicTotals("payments", 50, 50))


def test_rates_and_time_left_are_of_the_last_ten_seconds() -> None:
    one = board()
    for second in range(1, 31):
        position = 100 + second if second <= 20 else 120 + 5 * (second - 20)
        one.update(0, 1, TaskProgress(0, position, 2 * (position - 100), 0, 0, 100 * (position - 100)), 1000.0 + second)
        found = one.totals(1000.0 + second)

    assert (found.offsets, found.offsets_total) == (70, 250)
    assert (found.records_per_s, found.bytes_per_s) == (10.0, 500.0)
    assert found.left_s == 180 / 5


def test_the_slowest_task_decides_the_time_left() -> None:
    one = board()
    one.update(0, 1, TaskProgress(0, 110, 10, 0, 0, 0), 1010.0)
    one.update(1, 1, TaskProgress(2, 40, 40, 0, 0, 0), 1010.0)

    assert one.totals(1010.0).left_s == 190 / 1  # and not 200 / 5


def test_the_time_left_is_unknown_where_nothing_moves_and_nothing_at_the_end() -> None:
    one = board()
    assert one.totals(1005.0).left_s is None
    one.update(0, 1, TaskProgress(1, 300, 9, 0, 0, 9), 1006.0)
    one.update(1, 1, TaskProgress(2, 50, 9, 0, 0, 9), 1006.0)
    assert one.totals(1006.0).left_s == 0.0


def test_a_new_attempt_begins_again_and_the_old_one_is_not_heard_any_more() -> None:
    one = board()
    one.update(0, 5, TaskProgress(1, 300, 200, 0, 0, 0), 1001.0)
    one.update(0, 8, TaskProgress(0, 150, 50, 0, 0, 0), 1002.0)
    one.update(0, 5, TaskProgress(1, 300, 200, 0, 0, 0), 1003.0)

    found = one.totals(1003.0)

    assert (found.offsets, found.records) == (50, 50)
    assert found.records_per_s == 50 / 3


def test_the_ledger_tells_where_tasks_do_not() -> None:
    one = ProgressBoard(CHUNKS, {0: progress(0, 200, 80)}, now_s=1000.0)
    assert one.totals(1000.0).offsets == 100
    one.ledger({0: progress(0, 200, 80), 1: progress(1, 250, 40)})
    one.ledger({1: progress(1, 210, 10)})  # read earlier, came later

    found = one.totals(1005.0)

    assert (found.offsets, found.chunks, found.records, found.filtered, found.size) == (150, 1, 120, 2, 1200)
    assert one.silent_s(1005.0) == 5.0


def test_what_was_told_counts_with_what_the_ledger_has_of_it() -> None:
    one = board()
    one.update(0, 1, TaskProgress(1, 220, 100, 0, 0, 1000), 1001.0)
    one.ledger({1: progress(1, 210, 95)})

    assert (one.totals(1001.0).offsets, one.totals(1001.0).records) == (120, 100)


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (9, TaskProgress(0, 100, 0, 0, 0, 0)),
        (0, TaskProgress(2, 10, 0, 0, 0, 0)),
        (0, TaskProgress(0, 99, 0, 0, 0, 0)),
        (0, TaskProgress(0, 201, 0, 0, 0, 0)),
    ],
)
def test_what_can_not_be_true(task: int, told: TaskProgress) -> None:
    one = board()

    assert not one.update(task, 1, told, 1001.0)
    assert one.totals(1001.0).heard_s is None


@contextmanager
def listening(one: ProgressBoard) -> Iterator[ProgressListener]:
    with ProgressListener(one, bind="127.0.0.1", host="127.0.0.1") as listener:
        yield listener


def test_a_task_is_heard_and_hears_that_it_is_to_stop() -> None:
    one = ProgressBoard(CHUNKS, now_s=time.monotonic())
    with listening(one) as listener, ProgressSender(listener.endpoint, 0, 1) as sender:
        assert one.totals(time.monotonic()).heard_s is not None  # before it has told anything
        sender.send(TaskProgress(0, 142, 42, 0, 0, 420))
        wait_for(lambda: one.totals(time.monotonic()).records == 42, "it is heard")
        assert (sender.must_stop(), sender.rate()) == (False, None)
        listener.limit((None, 1000.0))
        wait_for(lambda: sender.rate() == (None, 1000.0), "its rate")
        listener.stop()
        wait_for(sender.must_stop, "it is told to stop")
        assert sender.rate() == (None, 1000.0)


def test_a_task_that_begins_late_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.catchup.spark.in_worker._FIRST_ANSWER_S", 20)
    with listening(board()) as listener:
        listener.stop()
        with ProgressSender(listener.endpoint, 0, 1) as sender:
            assert sender.must_stop()


def test_the_last_word_of_a_task_arrives_and_its_end_takes_no_time() -> None:
    one = ProgressBoard(CHUNKS, now_s=time.monotonic())
    with listening(one) as listener:
        began = time.monotonic()
        for attempt in range(20):
            with ProgressSender(listener.endpoint, 1, attempt) as sender:
                sender.send(TaskProgress(2, 50, attempt, 0, 0, 0))
        assert time.monotonic() - began < 4  # a turn for each would take 5
        wait_for(lambda: one.totals(time.monotonic()).records == 19, "the last word")


def test_where_nobody_listens_a_task_works_without() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for endpoint in (ProgressEndpoint("127.0.0.1", port, "x"), ProgressEndpoint("no.such.host.invalid", 1, "x"), None):
        with ProgressSender(endpoint, 0, 1) as sender:
            sender.send(TaskProgress(0, 100, 0, 0, 0, 0))
            assert not sender.must_stop()


def test_what_strangers_send_is_not_believed() -> None:
    one = ProgressBoard(CHUNKS, now_s=time.monotonic())
    told = TaskProgress(0, 142, 42, 0, 0, 420)
    with listening(one) as listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        address = ("127.0.0.1", listener.endpoint.port)
        wrong = ProgressEndpoint("127.0.0.1", listener.endpoint.port, "0" * 32)
        for data in (
            b"",
            b"\xff",
            b"[]",
            b"{}",
            b'["x"]',
            b"[" * 5000,
            encode_progress(wrong, 0, 1, told),
            b"9" * 60_000,
        ):
            stranger.sendto(data, address)
        own = listener.endpoint.token.encode()
        stranger.sendto(b'["' + own + b'", 0, 1, true, -1, "x", 0, 0, 1e9]', address)
        stranger.sendto(encode_progress(listener.endpoint, 1, 1, TaskProgress(2, 7, 7, 0, 0, 70)), address)
        wait_for(lambda: one.totals(time.monotonic()).records == 7, "a true one after them")

    assert one.totals(time.monotonic()).offsets == 7


def test_only_the_driver_may_stop_a_task() -> None:
    endpoint, other = ProgressEndpoint("h", 1, "a" * 32), ProgressEndpoint("h", 1, "b" * 32)

    assert decode_answer(endpoint, answer(endpoint, stop=True)) == (True, None)
    assert decode_answer(endpoint, answer(endpoint, stop=False, rate=(None, 5e6))) == (False, (None, 5e6))
    assert decode_answer(endpoint, answer(other, stop=True)) is None
    for data in (b"", b"true", b"[true]", b'["\xff", true, null]', b"[[], true, null]"):
        assert decode_answer(endpoint, data) is None
