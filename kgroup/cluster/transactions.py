"""Producing in transactions, and being fenced: of all that bear a transactional id only the last one may write.

What a transaction wrote counts from the moment its commit has *returned*: a fenced producer that was idle may still
begin one, and hears of its fate at the commit. Importable in Spark's workers without kafka-python.

What librdkafka 2.16 was seen to do, and what is done about it here:
- taking an id stands still for 500 ms where it asks for the coordinator before a connection is up: metadata first;
- after an abort with records on their way, or one that a refused record forced, the same producer's next transaction
  fails (OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE): after any failure, and any abort, it takes a new one;
- closing a producer waits for the broker without end where a transaction is open, so none is closed: see ``close``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kgroup.cluster.librdkafka import NOT_YET, ClientWatch, client, of_record
from kgroup.model.acl_hint import acl_hint
from kgroup.support.errors import KgroupError, NotAuthorized, Refused, Unreachable
from kgroup.support.units import plural

LONGEST_S = 60.0
"""How long a transaction may last before the broker aborts it: for so long it hides what others committed."""
ABORT_SCAN_S = 10.0
"""How late a broker may be with that (transaction.abort.timed.out.transaction.cleanup.interval.ms)."""

Row = tuple[str, bytes | None, bytes | None, int, int, Sequence[tuple[str, bytes | str | None]] | None]
"""(topic, value, key, partition, timestamp in ms, headers); partition -1 goes by the key, timestamp 0 is now."""

_SLICE_S = 0.1  # how long ctrl-C may wait
_PAUSE_S = 0.005
_ASK_S = 0.5
_ABORT_PATIENCE_S = 3.0
_TOLD_WITHIN_S = 0.5
_DEFAULTS = {
    "linger.ms": 5,
    "compression.type": "lz4",
    # What is too large is for the broker to say: the topic's limit counts, not the client's default.
    "message.max.bytes": 1_000_000_000,
    # Java's: a key goes where the topic's other producers put it.
    "partitioner": "murmur2_random",
    "retry.backoff.ms": 20,
    # Half of it passes before a client connects to a second broker, be it the same one under its number.
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 1000,
}
_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
    }
)
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


class Fenced(Refused):
    """Another producer has taken the transactional id: this one never writes again."""

    code = "fenced"


class CommitUnknown(Unreachable):
    """A commit was asked for and nothing answered: whether it happened, only the log can tell."""

    code = "commit-unknown"


class _Stage(Enum):
    NEW = auto()
    IDLE = auto()
    OPEN = auto()
    COMMITTING = auto()
    OVER = auto()


class Transactions:
    """The transactions of one transactional id, one after the other, as long as all goes well.

    ``fence`` comes first. ``producer`` is confluent's own, so that whoever delivers can ``produce`` at full speed into
    the transaction that is open, to any topic. ``topic`` is one that exists, asked for to be connected before the id is
    taken; None does without, and may be slow. ``timeout_s`` is how long no answer at all may come; ``tuning`` are
    librdkafka's settings for large amounts. ``prefix`` is what the ids begin with that one is to be granted, None for
    this id alone. A context manager, that aborts what is open.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        transactional_id: str,
        *,
        topic: str | None,
        timeout_s: float,
        longest_s: float = LONGEST_S,
        tuning: Mapping[str, Any] | None = None,
        prefix: str | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self._prefix = prefix
        self._topic = topic
        self._longest_s = longest_s
        self._watch = ClientWatch(timeout_s)
        self._stage = _Stage.NEW
        self._connected = False
        self._began_at = 0.0
        self._failed: tuple[str | None, KafkaError] | None = None
        self._topics = set[str]()
        limit_ms = round(longest_s * 1000)
        settings = {
            **_DEFAULTS,
            **config,
            **(tuning or {}),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": limit_ms,
            # librdkafka wants it so.
            "socket.timeout.ms": min(int(config.get("socket.timeout.ms", 60_000)), limit_ms),
            "on_delivery": self._delivered,
            "delivery.report.only.error": True,
        }
        self._producer: Any = client(Producer, settings, self._watch)

    def __enter__(self) -> Transactions:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def producer(self) -> Any:
        """confluent's own Producer."""
        assert self._producer is not None, "closed"
        return self._producer

    def connect(self) -> None:
        """Only be connected, so that ``fence`` is quick; where it is, that takes no time. Raises as ``fence``."""
        self._watch.progress()
        # The first answer may come on a connection that is only for asking.
        for _ in range(2 if self._topic is not None and not self._connected else 0):
            self._until(lambda: self.producer.list_topics(self._topic, _ASK_S), self._not_taken())
            self.producer.poll(_PAUSE_S)
        self._connected = True

    def _not_taken(self) -> str:
        return f"transactional id {self.transactional_id} could not be taken"

    def fence(self) -> None:
        """Take the id: who had it can commit nothing from now on, and what it had open is aborted.

        Raises NotAuthorized; Refused with code ``transaction-limit``; Unreachable, AuthenticationFailed.
        """
        self.connect()
        self._until(lambda: self.producer.init_transactions(_SLICE_S), self._not_taken())
        self._stage = _Stage.IDLE

    def begin(self) -> None:
        """Begin a transaction. That it does not raise says nothing about being fenced."""
        assert self._stage is _Stage.IDLE, self._stage
        try:
            self.producer.begin_transaction()
        except KafkaException as error:
            raise self._fault(error.args[0], "a transaction could not be begun") from error
        self._began_at = time.monotonic()
        self._topics.clear()
        self._stage = _Stage.OPEN

    def produce(self, topic: str, key: bytes, value: bytes | None, partition: int) -> None:
        """Add a record to the open transaction, waiting for room.

        Raises Refused with code ``too-large``, and what ``commit`` raises.
        """
        assert self._stage is _Stage.OPEN, self._stage
        self._watch.progress()
        self._topics.add(topic)
        while True:
            try:
                self.producer.produce(topic, value, key, partition)
                return
            except BufferError:
                self.producer.poll(_SLICE_S)
                if self._watch.over:
                    raise self._watch.fault(f"{topic} takes no records") from None
            except KafkaException as error:
                self._hear_of_record()
                raise self._fault(error.args[0], "a record could not be sent", topic) from error

    def produce_all(self, rows: Iterable[Row]) -> int:
        """Add many records at full speed, waiting for room; how many. Raises what ``commit`` does."""
        assert self._stage is _Stage.OPEN, self._stage
        self._watch.progress()
        produce, sent, topic = self.producer.produce, 0, None
        try:
            for topic, value, key, partition, timestamp_ms, headers in rows:
                while True:
                    try:
                        # Each by its place: naming them costs a dict a record.
                        produce(topic, value, key, partition, None, None, timestamp_ms, headers)
                        break
                    except BufferError:
                        self._make_room(topic)
                sent += 1
            if topic is not None:
                self._topics.add(topic)
            self.producer.poll(0)
        except KafkaException as error:
            self._hear_of_record()
            raise self._fault(error.args[0], "records could not be sent", topic) from error
        return sent

    def _hear_of_record(self) -> None:
        """A record that was refused has failed the transaction already when the answer about it is still to be told."""
        until = time.monotonic() + _TOLD_WITHIN_S
        while self._failed is None and time.monotonic() < until:
            with suppress(KafkaException):
                self.producer.poll(_PAUSE_S)

    def _make_room(self, topic: str) -> None:
        waiting = len(self.producer)
        self.producer.poll(_SLICE_S)
        if len(self.producer) < waiting:
            self._watch.progress()
        elif self._watch.over:
            raise self._watch.fault(f"{topic} takes no records")

    def flush(self) -> None:
        """Return when a broker has taken all that was produced. Raises what ``commit`` does of a record."""
        assert self._stage is _Stage.OPEN, self._stage
        self._watch.progress()
        while len(self.producer) and self._failed is None:
            self._make_room(f"{len(self.producer)} records wait: the broker")
        if self._failed is not None:
            raise self._fault(self._failed[1], "a record was not taken", self._failed[0])

    def commit(self) -> None:
        """Return when the transaction is committed, records and all.

        Raises Fenced; CommitUnknown; Unreachable where not even the records were acknowledged; Refused with code
        ``transaction-timeout`` (it lasted too long, and the broker has aborted it), ``too-large`` or ``not-accepted``
        (of a record); NotAuthorized, NotFound of a topic; KgroupError. After any of them nothing more can be done with
        this object.
        """
        assert self._stage is _Stage.OPEN, self._stage
        self._stage = _Stage.COMMITTING
        self._watch.progress()
        left = len(self.producer)
        while True:
            try:
                self.producer.commit_transaction(_SLICE_S)
                self._stage = _Stage.IDLE
                return
            except KafkaException as raised:
                error = raised.args[0]
            if error.code() == KafkaError.UNKNOWN and not len(self.producer):
                # The coordinator has failed in the middle of it: seen where several took the id at the same moment.
                raise self._unanswered(0)
            if error.txn_requires_abort():
                self._stage = _Stage.OPEN
                fault = self._fault(error, "the transaction could not be committed")
                self.close()
                raise fault
            if not error.retriable():
                raise self._fault(error, "the transaction could not be committed")
            self._pause(error)
            if len(self.producer) < left:
                left = len(self.producer)
                self._watch.progress()
            if self._watch.over:
                raise self._unanswered(left)

    def _unanswered(self, unacknowledged: int) -> KgroupError:
        """Why a commit is given up; what it was depends on whether it was asked for, which comes after all records."""
        if unacknowledged:
            self._stage = _Stage.OPEN
            topics = " or ".join(sorted(self._topics))
            fault = self._watch.fault(
                f"{topics}: {plural(unacknowledged, 'record')} not acknowledged",
                f"A topic with too few replicas in sync (min.insync.replicas) takes none: {topics}.",
            )
            self.close()
            return fault
        # From here on this client must send nothing more, or the log would be read too early.
        self.close()
        return CommitUnknown(
            f"no answer says whether the transaction of {self.transactional_id} was committed",
            details=self._watch.fault("").details,
            hint="a longer --timeout may help",
        )

    def close(self) -> None:
        """Abort what is open, within a few seconds, and give the connections back; the id keeps its owner."""
        stage, self._stage = self._stage, _Stage.OVER
        if stage is _Stage.OPEN:
            self._abort()
        if self._producer is not None:
            with suppress(KafkaException):  # of one that has failed for good
                self._producer.purge()
        # Producer.close() would wait for a broker that is gone, and warn of a commit under way. Without it the client
        # ends as nobody has it any more; should a sink still hold it, it can't begin anything.
        self._producer = None

    def _abort(self) -> None:
        """Try to, for a few seconds: nothing of it counts anyway, and the broker ends it when its time is over."""
        until = time.monotonic() + min(_ABORT_PATIENCE_S, self._watch.timeout_s)
        while time.monotonic() < until:
            try:
                self.producer.abort_transaction(_SLICE_S)
                return
            except KafkaException as raised:
                error = raised.args[0]
            if not error.retriable():
                return  # nothing is open: it was fenced, or the broker knows of no transaction
            self._pause(error)

    def _until(self, call: Callable[[], object], what: str) -> None:
        while True:
            try:
                call()
                return
            except KafkaException as raised:
                error = raised.args[0]
            self._pause(error)
            if not error.retriable() and error.code() not in NOT_YET:
                raise self._fault(error, what)
            if self._watch.over:
                raise self._watch.fault(what)

    def _pause(self, error: KafkaError) -> None:
        if error.code() not in NOT_YET:
            self._watch.on_error(error)
        with suppress(KafkaException):  # of a producer that has failed, which is known
            self.producer.poll(0 if error.code() == KafkaError._TIMED_OUT else _PAUSE_S)

    def _delivered(self, error: KafkaError, message: Message) -> None:
        if error.code() in _PURGED:
            return
        if self._failed is None or self._failed[1].code() == KafkaError._INVALID_DIFFERENT_RECORD:
            self._failed = (message.topic(), error)

    def _cause(self, error: KafkaError) -> KafkaError:
        """Why a producer has failed for good, which is told to whoever asks for a transaction, and not to who sends."""
        if error.code() == KafkaError._FATAL and self._producer is not None:
            try:
                self._producer.begin_transaction()
            except KafkaException as raised:
                found: KafkaError = raised.args[0]
                return found
        return error

    def _acl_hint(self) -> str:
        if self._prefix is None:
            return acl_hint("Write", "transactional-id", self.transactional_id)
        return f"{acl_hint('Write', 'transactional-id', self._prefix)} --resource-pattern-type prefixed"

    def _fault(self, error: KafkaError, what: str, topic: str | None = None) -> KgroupError:
        """What an error means, that of a record before the one that it brought upon its transaction."""
        error = self._cause(error)
        if self._failed is not None and error.code() not in _FENCED:
            topic, error = self._failed
        code = error.code()
        whose = f"transactional id {self.transactional_id}"
        lasted_s = time.monotonic() - self._began_at if self._stage in (_Stage.OPEN, _Stage.COMMITTING) else 0.0
        if lasted_s >= self._longest_s and code in (*_FENCED, KafkaError.INVALID_TXN_STATE):
            return Refused(
                f"the transaction of {self.transactional_id} lasted {lasted_s:.0f} s, so the broker has aborted it",
                details=(f"It may last {self._longest_s:g} s.",),
                code="transaction-timeout",
            )
        if code in _FENCED:
            return Fenced(f"{whose} was taken by another producer")
        if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return NotAuthorized(f"no WRITE on TransactionalId {self.transactional_id}", hint=self._acl_hint())
        if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return Refused(
                f"{whose}: the broker allows no transaction of {self._longest_s:g} s",
                hint=f"transaction.max.timeout.ms of the brokers must be {round(self._longest_s * 1000)} at least",
                code="transaction-limit",
            )
        if topic is None and code == KafkaError.TOPIC_AUTHORIZATION_FAILED and self._topics:
            # The coordinator does not say which of them.
            topics = sorted(self._topics)
            return NotAuthorized(f"no WRITE on Topic {' or '.join(topics)}", hint=acl_hint("Write", "topic", *topics))
        if topic is None:
            return KgroupError(f"{whose}: {what}: {error.str()} ({error.name()})", code="broker-error")
        return of_record(error, topic)


"""Nothing came, yet: the connections have their own say through the client's ``error_cb``."""
