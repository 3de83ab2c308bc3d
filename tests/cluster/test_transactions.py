"""Transactions and fencing on a real broker, and reading to an end that open transactions hide."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kgroup.cluster.reader.to_end import CommittedReader
from kgroup.cluster.transactions import CommitUnknown, Fenced, Transactions, may_succeed_later
from kgroup.support.errors import ConfigError, KgroupError, NotFound, Refused, Unreachable
from tests.helpers.expiring_ids import forgotten
from tests.helpers.kafka_proxy import Fault, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]
Config = dict[str, Any]
TIMEOUT_S = 15.0
INIT_PRODUCER_ID, END_TXN = 22, 26


@pytest.fixture
def config(bootstrap: str) -> Config:
    return {"bootstrap.servers": bootstrap, "log_level": "0"}


@pytest.fixture
def place(world: KafkaWorld, name: Name) -> str:
    return world.topic(name("log"), config={"cleanup.policy": "compact"})


@pytest.fixture
def reader(config: Config, place: str) -> Iterator[CommittedReader]:
    with CommittedReader(config, place, timeout_s=TIMEOUT_S) as reader:
        yield reader


@pytest.fixture
def behind_proxy(proxied: ProxiedBroker, name: Name) -> tuple[ProxiedBroker, str]:
    return proxied, proxied.world.topic(name("log"), config={"cleanup.policy": "compact"})


def taken(config: Config, name: str, topic: str, **more: Any) -> Transactions:
    transactions = Transactions(config, name, topic=topic, timeout_s=more.pop("timeout_s", TIMEOUT_S), **more)
    transactions.fence()
    return transactions


def impatient(transactions: Transactions) -> None:
    """From now on it waits but a second for an answer; that the id was to be had before is not the point."""
    transactions._watch.timeout_s = 1.0


def write(transactions: Transactions, topic: str, *keys: str) -> None:
    transactions.begin()
    for key in keys:
        transactions.produce(topic, key.encode(), b"v", 0)
    transactions.commit()


def left_open(transactions: Transactions, topic: str, *keys: str) -> None:
    """Records in the log, of a transaction that nobody ends."""
    transactions.begin()
    for key in keys:
        transactions.produce(topic, key.encode(), b"v", 0)
    assert transactions.producer.flush(30) == 0


def keys(items: Iterator[tuple[int, bytes | None, bytes | None]]) -> list[str]:
    return [(key or b"").decode() for _, key, _ in items]


def naive(config: Config, topic: str) -> list[str]:
    """What a reader of committed records sees before the broker says that the partition ends."""
    consumer = Consumer(
        config | {"group.id": "naive", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    found: list[str] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                return found
            found.append((message.key() or b"").decode())
    finally:
        consumer.close()


def test_what_is_committed_counts_and_nothing_else(
    config: Config, place: str, name: Name, reader: CommittedReader
) -> None:
    with taken(config, name("one"), place) as one, taken(config, name("two"), place) as two:
        write(one, place, "a", "b")
        two.begin()
        two.produce(place, b"aborted", b"v", 0)
        two.producer.flush(30)
        two.close()
        write(one, place, "c")

        assert keys(reader.committed()) == ["a", "b", "c"]
        assert sorted(keys(reader.everything())) == ["a", "aborted", "b", "c"]
        assert keys(reader.committed(1)) == ["b", "c"]


def test_an_idle_producer_that_was_fenced_begins_and_commits_nothing(
    config: Config, place: str, name: Name, reader: CommittedReader
) -> None:
    ours = name("id")
    with taken(config, ours, place) as old, taken(config, ours, place) as new:
        old.begin()  # as if nothing had happened
        old.produce(place, b"old", b"v", 0)
        with pytest.raises(Fenced) as caught:
            old.commit()
        write(new, place, "new")

        assert caught.value.code == "fenced"
        assert ours in caught.value.message
        assert keys(reader.committed()) == ["new"]


def test_a_producer_that_was_fenced_in_its_transaction_has_written_nothing(
    config: Config, place: str, name: Name, reader: CommittedReader
) -> None:
    ours = name("id")
    with taken(config, ours, place) as old:
        left_open(old, place, "old")
        with taken(config, ours, place) as new:
            write(new, place, "new")
            with pytest.raises(Fenced):
                old.commit()

            assert keys(reader.committed()) == ["new"]
            assert keys(reader.everything()) == ["old", "new"]


@pytest.mark.soak
def test_a_producer_that_is_fenced_with_records_in_flight_ends(config: Config, world: KafkaWorld, name: Name) -> None:
    """librdkafka 2.16 ended the process in one of about 200, before ``close`` waited for the responses."""
    topic = world.topic(name("wide"), partitions=8)

    def write_on(transactions: Transactions) -> None:
        transactions.produce_all((topic, b"v" * 100, b"k", count % 8, 0, None) for count in range(400))
        transactions.commit()

    for number in range(300):
        with taken(config, ours := name(f"id-{number}"), topic) as old:
            old.begin()
            old.produce_all((topic, b"v" * 100, b"k", count % 4, 0, None) for count in range(400))
            with taken(config, ours, topic), pytest.raises(Fenced):
                write_on(old)


@pytest.mark.parametrize(
    ("key", "value", "code"), [(b"k", b"x" * 3_000_000, "too-large"), (None, b"v", "not-accepted")]
)
def test_a_record_that_is_refused_takes_its_transaction_with_it(
    config: Config, place: str, name: Name, reader: CommittedReader, key: Any, value: bytes, code: str
) -> None:
    ours = name("id")
    with taken(config, ours, place, tuning={"compression.type": "none"}) as transactions:
        transactions.begin()
        transactions.produce(place, b"before", b"v", 0)
        transactions.produce(place, key, value, 0)
        with pytest.raises(Refused) as caught:
            transactions.commit()

        assert caught.value.code == code
        assert place in caught.value.message
    with taken(config, ours, place) as again:
        write(again, place, "after")
    assert keys(reader.committed()) == ["after"]


@pytest.mark.soak
def test_a_record_for_a_topic_that_is_not_there(config: Config, place: str, name: Name) -> None:
    with taken(config, name("id"), place) as transactions:
        impatient(transactions)
        transactions.begin()
        transactions.produce(name("absent"), b"k", b"v", 0)
        with pytest.raises(Unreachable) as caught:
            transactions.commit()

    assert "not acknowledged" in caught.value.message
    assert not isinstance(caught.value, CommitUnknown)


def test_an_open_transaction_hides_what_others_have_committed_and_is_waited_for(
    config: Config, place: str, name: Name
) -> None:
    hiding = taken(config, name("killed"), place)
    left_open(hiding, place, "chunk 1 done")
    with taken(config, name("other"), place) as other:
        write(other, place, "chunk 2 done")
    assert naive(config, place) == []

    told: list[float] = []

    def on_wait(seconds: float) -> None:
        told.append(seconds)
        hiding.close()

    with CommittedReader(config, place, timeout_s=TIMEOUT_S, on_wait=on_wait) as reader:
        reader.connect()
        reader._watch.timeout_s = 1.0  # shorter than what is waited for
        assert keys(reader.committed()) == ["chunk 2 done"]
    assert len(told) == 1


def test_one_that_hangs_is_named_and_what_came_before_it_is_good(
    config: Config, place: str, name: Name, reader: CommittedReader
) -> None:
    with taken(config, name("one"), place) as one, taken(config, name("hanging"), place) as hanging:
        write(one, place, "a")
        left_open(hanging, place, "never")
        write(one, place, "b")
        items = reader.committed(patience_s=0.3)
        assert keys(iter([next(items)])) == ["a"]
        with pytest.raises(Refused) as caught:
            next(items)

        assert caught.value.code == "open-transaction"
        assert keys(reader.everything()) == ["a", "never", "b"]


def test_the_end_is_that_of_the_call(config: Config, place: str, name: Name, reader: CommittedReader) -> None:
    with taken(config, name("one"), place) as one, taken(config, name("late"), place) as late:
        write(one, place, "a")
        wait_for(lambda: reader.bounds() == (0, 2), "the marker, which is written behind the answer")
        items = reader.committed()
        left_open(late, place, "b")

        assert keys(items) == ["a"]
        assert reader.end == 2


def test_reading_again_and_again_finds_the_same(
    config: Config, place: str, name: Name, reader: CommittedReader
) -> None:
    assert keys(reader.committed()) == []
    with taken(config, name("one"), place) as one:
        for number in range(20):
            write(one, place, str(number))
            assert keys(reader.committed()) == [str(n) for n in range(number + 1)]
            assert keys(reader.everything(2 * number)) == [str(number)]
            assert keys(reader.committed(2 * number + 1)) == []  # a control record alone
            assert keys(reader.committed(2 * number + 2)) == []


def test_a_log_that_was_cut(config: Config, place: str, name: Name, reader: CommittedReader, world: KafkaWorld) -> None:
    other = world.topic(name("plain"))
    world.produce(other, 10)
    world.delete_records(other, 0, 5)
    with CommittedReader(config, other, timeout_s=TIMEOUT_S) as cut:
        with pytest.raises(Refused) as caught:
            list(cut.committed(2))

        assert caught.value.code == "records-gone"
        assert len(list(cut.committed())) == 5


def test_no_such_topic_and_no_broker(config: Config, name: Name) -> None:
    with CommittedReader(config, name("absent"), timeout_s=TIMEOUT_S) as reader, pytest.raises(NotFound):
        reader.bounds()
    dead = {"bootstrap.servers": "127.0.0.1:1"}
    with CommittedReader(dead, "t", timeout_s=0.3) as reader, pytest.raises(Unreachable):
        reader.bounds()
    with Transactions(dead, "id", topic="t", timeout_s=0.3) as transactions, pytest.raises(Unreachable):
        transactions.fence()
    with pytest.raises(ConfigError):
        Transactions(dead | {"linger.ms": "soon"}, "id", topic="t", timeout_s=0.3)


def test_a_long_timeout_is_no_reason_to_refuse(config: Config, place: str, name: Name) -> None:
    # librdkafka wants socket.timeout.ms below the transaction's limit; --timeout 300 gives more.
    with taken(config | {"socket.timeout.ms": "300000"}, name("id"), place) as transactions:
        write(transactions, place, "a")
    with CommittedReader(config, place, timeout_s=TIMEOUT_S) as reader:
        assert keys(reader.committed()) == ["a"]


def test_the_brokers_limit_for_transactions(config: Config, place: str, name: Name) -> None:
    with pytest.raises(Refused) as caught:
        taken(config, name("id"), place, longest_s=3600)

    assert caught.value.code == "transaction-limit"


def test_a_commit_whose_answer_is_lost_once_is_asked_for_again(
    behind_proxy: tuple[ProxiedBroker, str], name: Name
) -> None:
    proxied, place = behind_proxy
    with taken({"bootstrap.servers": proxied.bootstrap}, name("id"), place) as transactions:
        proxied.proxy.expect(Fault(END_TXN, Loss.ANSWER))
        write(transactions, place, "a")
        write(transactions, place, "b")

    with CommittedReader({"bootstrap.servers": proxied.bootstrap}, place, timeout_s=TIMEOUT_S) as reader:
        assert keys(reader.committed()) == ["a", "b"]


@pytest.mark.soak
@pytest.mark.parametrize(("loss", "committed"), [(Loss.ANSWER, ["a"]), (Loss.REQUEST, [])])
def test_a_commit_that_nobody_answers_is_only_to_be_found_in_the_log(
    behind_proxy: tuple[ProxiedBroker, str], name: Name, loss: Loss, committed: list[str]
) -> None:
    proxied, place = behind_proxy
    config = {"bootstrap.servers": proxied.bootstrap}
    # Where the broker is to abort it, that is waited for below; else it has all the time to arrive.
    longest_s = 4.0 if loss is Loss.REQUEST else 15.0
    with taken(config, name("id"), place, longest_s=longest_s) as transactions:
        left_open(transactions, place, "a")
        impatient(transactions)
        proxied.proxy.expect(Fault(END_TXN, loss, always=True))
        with pytest.raises(CommitUnknown):
            transactions.commit()
    proxied.proxy.reset()

    # Its client is closed, so the broker ends what is open: no id must be taken to read the truth.
    with CommittedReader(config, place, timeout_s=TIMEOUT_S) as reader:
        assert keys(reader.committed()) == committed


@pytest.mark.soak
def test_an_id_that_its_coordinator_no_longer_knows(forgetful: KafkaWorld, name: Name) -> None:
    """A fault that fails the transaction, and no record in it."""
    place, config = forgetful.topic(name("log")), {"bootstrap.servers": forgetful.bootstrap}
    with taken(config, name("id"), place) as one, taken(config, name("other"), place) as other:
        write(one, place, "a")
        write(other, place, "b")
        for each in (one, other):
            forgotten(forgetful, each.transactional_id)
            each.begin()
        with pytest.raises(Unreachable, match="INVALID_PRODUCER_ID_MAPPING") as sending:
            wait_for(lambda: other.produce_all([(place, b"v", b"c", 0, 0, None)]) == 0, "an error")
        one.produce(place, b"d", b"v", 0)
        with pytest.raises(CommitUnknown) as committing:
            one.commit()

    assert sending.value.code == "not-written"
    assert "INVALID_PRODUCER_ID_MAPPING" in committing.value.details[0]
    with CommittedReader(config, place, timeout_s=TIMEOUT_S) as reader:
        assert keys(reader.committed()) == ["a", "b"]


def test_a_transaction_that_lasts_too_long(behind_proxy: tuple[ProxiedBroker, str], name: Name) -> None:
    proxied, place = behind_proxy
    config = {"bootstrap.servers": proxied.bootstrap}
    with taken(config, name("id"), place, longest_s=1.0) as transactions:
        left_open(transactions, place, "a")
        with CommittedReader(config, place, timeout_s=TIMEOUT_S) as reader:
            assert keys(reader.committed()) == []  # waits until the broker has aborted it
        with pytest.raises(Refused) as caught:
            transactions.commit()

    assert caught.value.code == "transaction-timeout"


def test_closing_does_not_wait_for_a_broker_that_is_gone(behind_proxy: tuple[ProxiedBroker, str], name: Name) -> None:
    proxied, place = behind_proxy
    transactions = taken({"bootstrap.servers": proxied.bootstrap}, name("id"), place)
    left_open(transactions, place, "a")
    impatient(transactions)
    for api_key in (END_TXN, 3, 10, 18):
        proxied.proxy.expect(Fault(api_key, Loss.REQUEST, always=True))
    closing = threading.Thread(target=transactions.close, daemon=True)
    closing.start()
    closing.join(30)

    assert not closing.is_alive()


def test_spark_s_workers_need_no_kafka_python() -> None:
    code = (
        "import sys; sys.modules['kafka'] = None; import kgroup.cluster.transactions, kgroup.cluster.reader.to_end, "
        "kgroup.catchup.worker.task_ledger, kgroup.catchup.ledger.ledger"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.parametrize(
    ("error", "may"),
    [
        (KafkaError._MSG_TIMED_OUT, True),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, True),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, True),
        (KafkaError.NOT_LEADER_FOR_PARTITION, True),
        (KafkaError.POLICY_VIOLATION, False),
        (KafkaError.UNSUPPORTED_COMPRESSION_TYPE, False),
        (KafkaError.TOPIC_EXCEPTION, False),
        (KafkaError.UNKNOWN, False),
    ],
)
def test_whether_a_record_may_be_written_later(error: int, may: bool) -> None:
    assert may_succeed_later(KafkaError(error)) is may


class _Refusing:
    """A producer whose client refuses some records before it takes one; seen on a busy machine, once in 26,000."""

    def __init__(self, producer: Any, times: int) -> None:
        self._producer, self.left = producer, times

    def produce(self, *row: Any) -> None:
        if self.left:
            self.left -= 1
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._producer.produce(*row)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __len__(self) -> int:
        return len(self._producer)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_record_that_is_refused_though_the_transaction_is_open(
    config: Config, place: str, name: Name, reader: CommittedReader, at_once: bool
) -> None:
    with taken(config, name("id"), place) as transactions:
        transactions.begin()
        refusing = transactions._producer = _Refusing(transactions.producer, 2)
        if at_once:
            transactions.produce_all([(place, b"v", b"a", 0, 0, None), (place, b"v", b"b", 0, 0, None)])
        else:
            transactions.produce(place, b"a", b"v", 0)
            transactions.produce(place, b"b", b"v", 0)
        transactions.commit()

    assert refusing.left == 0
    assert keys(reader.committed()) == ["a", "b"]


def test_a_client_that_refuses_every_record(config: Config, place: str, name: Name) -> None:
    with taken(config, name("id"), place) as transactions:
        transactions.begin()
        transactions._producer = _Refusing(transactions.producer, 1000)
        with pytest.raises(KgroupError, match="not valid in state InTransaction"):
            transactions.produce(place, b"a", b"v", 0)
