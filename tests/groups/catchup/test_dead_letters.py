"""Where dead letters came from by the headers of their writers, and which of them a plan delivers."""

from __future__ import annotations

import struct

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.dead_letters import (
    REDRIVE,
    DeadLetter,
    DeadLetterCounter,
    DeadLetterRow,
    EarlierPlan,
    Fate,
    Letters,
    Origin,
    Redrive,
    dead_letter,
    redriven_headers,
)
from kgroup.model.records import ConsumerRecord, Headers, OffsetRange

KGROUP: Headers = (
    ("app", b"1"),
    ("kgroup.plan", b"cu-7f3a"),
    ("kgroup.source", b"orders:2:71"),
    ("kgroup.error", b"exit code 3: no such customer"),
    ("kgroup.attempts", b"4"),
)
SAVED: Headers = (("kgroup.topic", b"orders"), ("kgroup.partition", b"2"), ("kgroup.offset", b"71"))
SPRING: Headers = (
    ("kafka_dlt-original-topic", b"orders"),
    ("kafka_dlt-original-partition", struct.pack(">i", 2)),
    ("kafka_dlt-original-offset", struct.pack(">q", 71)),
    ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
    ("kafka_dlt-exception-cause-fqcn", b"com.acme.Timeout"),
    ("kafka_dlt-exception-message", b"Listener failed; after 5 s"),
)
SPRING_RETRIES: Headers = (
    ("kafka_original-topic", b"orders"),
    ("kafka_original-partition", struct.pack(">i", 2)),
    ("kafka_original-offset", struct.pack(">q", 71)),
    ("kafka_exception-fqcn", b"com.acme.Timeout"),
    ("kafka_exception-message", b"after 5 s"),
    ("retry_topic-attempts", struct.pack(">i", 4)),
)
CONNECT: Headers = (
    ("__connect.errors.topic", b"orders"),
    ("__connect.errors.partition", b"2"),
    ("__connect.errors.offset", b"71"),
    ("__connect.errors.connector.name", b"jdbc"),
    ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ("__connect.errors.exception.message", b"bad magic byte"),
)
WATERMILL: Headers = (
    ("reason_poisoned", b"dial tcp: refused"),
    ("topic_poisoned", b"orders"),
    ("handler_poisoned", b"bill"),
    ("subscriber_poisoned", b"kafka.Subscriber"),
)
SHARE_GROUP: Headers = (
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"2"),
    ("__dlq.errors.offset", b"71"),
    ("__dlq.errors.group", b"billing"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
)
THERE = Origin("orders", 2, 71)
ALL = {
    "kgroup": (KGROUP, DeadLetter(THERE, "exit code 3: no such customer")),
    "saved": (SAVED, DeadLetter(THERE)),
    "spring": (SPRING, DeadLetter(THERE, "com.acme.Timeout", "Listener failed; after 5 s")),
    "spring-retries": (SPRING_RETRIES, DeadLetter(THERE, "com.acme.Timeout", "after 5 s")),
    "connect": (
        CONNECT,
        DeadLetter(THERE, "org.apache.kafka.connect.errors.DataException", "bad magic byte"),
    ),
    "watermill": (WATERMILL, DeadLetter(Origin("orders"), "dial tcp: refused")),
    "share-group": (SHARE_GROUP, DeadLetter(THERE, "Offset rejected by client.")),
}


@pytest.mark.parametrize(("headers", "expected"), ALL.values(), ids=ALL)
def test_what_each_writer_of_dead_letters_says(headers: Headers, expected: DeadLetter) -> None:
    assert dead_letter(headers) == expected
    assert dead_letter((*headers, ("kgroup.redrives", b"2"))) == replace(expected, redrives=2)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((), None),
        ((("app", b"1"),), None),
        ((("kgroup.source", b"orders:2:71"), ("kgroup.plan", b"cu-7f3a")), None),  # a copy is no dead letter
        ((("__connect.errors.topic", b""), ("__connect.errors.partition", b"-1")), None),
        ((("kafka_dlt-original-topic", None),), None),
        ((("kafka_dlt-original-topic", b"orders"),), Origin("orders")),
        ((("kafka_dlt-original-topic", b"a"), ("kafka_dlt-original-topic", b"orders")), Origin("orders")),
        # As other programs write them: numbers as text, or nothing that is a number.
        ((("kafka_dlt-original-topic", b"orders"), ("kafka_dlt-original-partition", b"1234")), Origin("orders", 1234)),
        ((("kafka_dlt-original-topic", b"orders"), ("kafka_dlt-original-partition", b"two")), Origin("orders")),
        ((("kafka_dlt-original-topic", b"orders"), ("kafka_dlt-original-partition", b"\xff" * 4)), Origin("orders")),
        ((*CONNECT, ("kafka_dlt-original-topic", b"connect-dlq")), Origin("connect-dlq")),  # the last writer decides
        ((*SPRING, *KGROUP, ("kgroup.dead-letter-of", b"pay:0:5")), Origin("pay", 0, 5)),
        ((("kgroup.source", b""), ("kgroup.error", b"x")), None),
        ((("kgroup.source", b"orders:x:y"), ("kgroup.error", b"x")), Origin("orders")),
    ],
)
def test_which_source_the_headers_name(headers: Headers, expected: Origin | None) -> None:
    assert dead_letter(headers).origin == expected


@pytest.mark.parametrize("text", [b"", b"x", b"-1", None])
def test_a_number_of_redrives_that_cannot_be_read_is_none(text: bytes | None) -> None:
    assert dead_letter((("kgroup.redrives", text),)).redrives == 0


@pytest.mark.parametrize("headers", [headers for headers, _ in ALL.values()], ids=ALL)
def test_a_consumer_gets_the_record_as_it_was_and_how_often_it_came_back(headers: Headers) -> None:
    own: Headers = (("trace", b"t"), ("kgroup.maybe-processed", b"true"), ("trace", b"u"))
    had = (*own, *headers, ("kgroup.redrives", b"1"))
    letter = dead_letter(had)

    made = redriven_headers(had, letter, as_it_was=True)

    app = [("app", b"1")] if headers is KGROUP else []
    origin = ("kgroup.dead-letter-of", str(letter.origin).encode())
    assert made == [*own, *app, ("kgroup.redrives", b"2"), origin]
    assert redriven_headers(had, letter, as_it_was=False) == [*own, *headers, ("kgroup.redrives", b"2"), origin]
    assert dead_letter(tuple(made)).redrives == 2


def test_a_handlers_dead_letter_still_names_the_first_source() -> None:
    letter = dead_letter(SPRING)
    headers = redriven_headers(SPRING, letter, as_it_was=False)

    again = dead_letter((*headers, ("kgroup.source", b"orders-dlt:0:5"), ("kgroup.error", b"no")))

    assert again == DeadLetter(THERE, "no", None, 1)


def record(
    headers: Headers = SPRING, offset: int = 5, partition: int = 0, key: bytes | None = b"k", at_ms: int | None = 1000
) -> ConsumerRecord:
    return ConsumerRecord("orders-dlt", partition, offset, at_ms, key, b"v", headers)


def fate(redrive: Redrive, one: ConsumerRecord, *, to_source: bool = True) -> Fate:
    return redrive.fate(one, dead_letter(one.headers), to_source=to_source)


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        (Letters(), Fate.DELIVER),
        (Letters(topics=(("orders", None),)), Fate.DELIVER),
        (Letters(topics=(("pay", None), ("orders", (1, 2)))), Fate.DELIVER),
        (Letters(topics=(("orders", (1,)),)), Fate.FILTERED),
        (Letters(topics=(("pay", None),)), Fate.FILTERED),
        (Letters(errors=("Timeout",)), Fate.DELIVER),
        (Letters(errors=("nothing", "after 5")), Fate.DELIVER),
        (Letters(errors=("timeout",)), Fate.FILTERED),
        (Letters(keys=("j", "k")), Fate.DELIVER),
        (Letters(keys=("kk",)), Fate.FILTERED),
        (Letters(since_ms=1000, until_ms=1001), Fate.DELIVER),
        (Letters(since_ms=1001), Fate.FILTERED),
        (Letters(until_ms=1000), Fate.FILTERED),
        (Letters(keys=("k",), errors=("nothing",)), Fate.FILTERED),
    ],
)
def test_what_the_command_chooses(letters: Letters, expected: Fate) -> None:
    assert fate(Redrive("orders-dlt", letters), record()) is expected


def test_what_has_no_time_or_key_is_of_none() -> None:
    redrive = Redrive("orders-dlt", Letters(since_ms=0))
    assert fate(redrive, record(at_ms=None)) is Fate.FILTERED
    assert fate(Redrive("orders-dlt", Letters(keys=("",))), record(key=None)) is Fate.FILTERED


@pytest.mark.parametrize(
    ("one", "to_source", "expected"),
    [
        (record(()), True, Fate.NO_SOURCE),
        (record(()), False, Fate.DELIVER),
        (record((("kafka_dlt-original-topic", b"orders-dlt"),)), True, Fate.NO_SOURCE),
        (record((*SPRING, ("kgroup.redrives", b"2"))), True, Fate.DELIVER),
        (record((*SPRING, ("kgroup.redrives", b"3"))), True, Fate.GAVE_UP),
        (record((*SPRING, ("kgroup.redrives", b"3"))), False, Fate.GAVE_UP),
        (ConsumerRecord("orders-dlt", 0, 5, 1000, None, None, SHARE_GROUP), False, Fate.NO_CONTENTS),
        (ConsumerRecord("orders-dlt", 0, 5, 1000, b"k", None, SHARE_GROUP), True, Fate.DELIVER),
    ],
)
def test_what_stays(one: ConsumerRecord, to_source: bool, expected: Fate) -> None:
    assert fate(Redrive("orders-dlt"), one, to_source=to_source) is expected
    assert expected.stays == (expected is not Fate.DELIVER)


def earlier(letters: Letters | None = None, *, to_source: bool = True) -> EarlierPlan:
    return EarlierPlan(letters or Letters(), to_source, ((0, 0, 6), (1, 0, 100)))


@pytest.mark.parametrize(
    ("plan", "one", "to_source", "expected"),
    [
        (earlier(), record(), True, Fate.EARLIER),
        (earlier(), record(), False, Fate.EARLIER),
        (earlier(), record(offset=6), True, Fate.DELIVER),
        (earlier(), record(partition=2), True, Fate.DELIVER),
        (earlier(Letters(keys=("j",))), record(), True, Fate.DELIVER),
        (earlier(Letters(keys=("k",))), record(), True, Fate.EARLIER),
        # What stayed then is delivered now, if it is now to be.
        (earlier(Letters(max_attempts=2)), record((*SPRING, ("kgroup.redrives", b"2"))), True, Fate.DELIVER),
        (earlier(), record(()), False, Fate.DELIVER),
        (earlier(to_source=False), record(()), True, Fate.EARLIER),
    ],
)
def test_nothing_is_delivered_by_two_plans(
    plan: EarlierPlan, one: ConsumerRecord, to_source: bool, expected: Fate
) -> None:
    assert fate(Redrive("orders-dlt", earlier=(plan,)), one, to_source=to_source) is expected


def test_the_ledger_keeps_a_choice() -> None:
    letters = Letters((("orders", (1,)), ("pay", None)), ("Timeout",), ("k",), 5, 6, 7)
    redrive = Redrive("orders-dlt", letters, (earlier(letters),), ("orders",), 12)

    assert Redrive.decode({REDRIVE: redrive.encode(), "topic": "x"}) == redrive
    assert Redrive.decode({"topic": "x"}) is None
    with pytest.raises(ValueError, match="truncated"):
        Redrive.decode({REDRIVE: "{"})


RANGES = (
    OffsetRange("orders-dlt", 0, 0, 100),
    OffsetRange("orders-dlt", 1, 10, 50),
    OffsetRange("orders-dlt", 2, 0, 9),
)


def counted(*records: ConsumerRecord) -> DeadLetterCounter:
    counter = DeadLetterCounter(Redrive("orders-dlt", earlier=(earlier(),)), to_source=True)
    for one in records:
        counter.add(one)
    return counter


def test_the_plan_reads_from_the_first_delivery_to_the_last() -> None:
    counter = counted(*(record(offset=offset) for offset in range(20)), record((), 30), record(partition=2, offset=4))

    found = counter.summary()

    assert counter.ranges(RANGES) == (OffsetRange("orders-dlt", 0, 6, 20), OffsetRange("orders-dlt", 2, 4, 5))
    assert found.complete
    assert (found.records, found.count(Fate.DELIVER), found.count(Fate.EARLIER)) == (22, 15, 6)
    assert found.sources == ("orders",)
    assert [(str(place), place.fate) for place in found.staying] == [("0:30", Fate.NO_SOURCE)]
    assert found.rows[0] == DeadLetterRow("orders", "com.acme.Timeout", Fate.DELIVER, 15)


@pytest.mark.parametrize(
    ("stopped_at", "expected"),
    [
        ((0, 12), [(0, 8, 100), (1, 10, 50), (2, 0, 9)]),
        ((1, 20), [(0, 8, 9), (1, 20, 50), (2, 0, 9)]),
    ],
)
def test_what_was_not_read_is_in_the_plan(stopped_at: tuple[int, int], expected: list[tuple[int, int, int]]) -> None:
    counter = counted(record(offset=8))
    counter.stopped_at = stopped_at

    assert [(row.partition, row.start, row.end) for row in counter.ranges(RANGES)] == expected
    assert not counter.summary().complete


def test_many_that_stay_are_counted_and_the_first_are_named() -> None:
    found = counted(*(record((), offset) for offset in range(50, 90))).summary()

    assert found.count(Fate.NO_SOURCE) == 40
    assert [place.offset for place in found.staying] == list(range(50, 60))
