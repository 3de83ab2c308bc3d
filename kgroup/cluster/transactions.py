"""Produce in transactions with fencing: of all producers with the same transactional id, only the newest may write.

A transaction's records count only after its commit has *returned*: an idle producer that was fenced can still begin a
transaction, and gets the error at the commit. Importable in Spark's workers without kafka-python.

Behaviour seen in librdkafka 2.16, and what this module does about it:
- Initializing an id pauses for 500 ms if it searches the coordinator before a connection is up: read metadata first.
- After an abort with records in flight, or one forced by a refused record, the same producer's next transaction fails
  (OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE): the caller makes a new one after any failure and any abort.
- Closing a producer with an open transaction waits for the broker without limit, so none is closed: see ``close``.
- It frees its error's text twice, which ends the process, if a record's response says that the producer was fenced
  while a producer that knows it already is released (one in 200): so ``close`` waits for the responses.
- It may refuse the first record of an open transaction ("Erroneous state"), and take it at the next try: seen once in
  26,000 transactions on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kgroup.cluster.librdkafka import NOT_YET, ClientWatch, client, is_transient, record_client_error
from kgroup.model.kafka_tools import acl_hint
from kgroup.support.errors import KgroupError, NotAuthorized, Refused, Unreachable, refusal_code
from kgroup.support.units import plural

FENCED = refusal_code(
    "fenced",
    "catchup start",
    "Another kgroup run wrote to the ledger at the same moment, and fences this one.",
    "Read the plans: catchup list. Nothing was changed.",
)
TRANSACTION_LIMIT = refusal_code(
    "transaction-limit",
    "catchup",
    "The broker limits transactions to a time that is too short for a chunk.",
    "Raise transaction.max.timeout.ms of the brokers, then use catchup resume.",
)
TRANSACTION_TIMEOUT = refusal_code(
    "transaction-timeout",
    "catchup",
    "A transaction of the replay was open longer than the broker allows.",
    "Use catchup resume.",
)

LONGEST_S = 60.0
"""How long a transaction may last before the broker aborts it. Until then it hides later records of all producers."""
ABORT_SCAN_S = 10.0
"""How late the broker's abort may be (transaction.abort.timed.out.transaction.cleanup.interval.ms)."""

Row = tuple[str, bytes | None, bytes | None, int, int, Sequence[tuple[str, bytes | str | None]] | None]
"""(topic, value, key, partition, timestamp in ms, headers); partition -1: chosen by the key; timestamp 0: now."""

_SLICE_S = 0.1  # how long ctrl-C may wait
_PAUSE_S = 0.005
_ASK_S = 0.5
_ABORT_PATIENCE_S = 3.0
_REPORT_WITHIN_S = 0.5
_REFUSALS = 20  # of records in one open transaction
_DEFAULTS = {
    "linger.ms": 5,
    "compression.type": "lz4",
    # The broker decides what is too large: the topic's limit counts, not the client's default.
    "message.max.bytes": 1_000_000_000,
    # Java's partitioner, so that a key goes to the same partition as with the topic's other producers.
    "partitioner": "murmur2_random",
    "retry.backoff.ms": 20,
    # Half of it passes before a client opens a second connection, even to the same broker under its id.
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 1000,
}
_FENCED = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    }
)
_NOT_ENDED = (
    "Its last transaction has not ended in all its topics yet: "
    "one with too few replicas in sync (min.insync.replicas) prevents that."
)
_UNSPECIFIC = "broker-error"
_OF_TRANSACTION = frozenset(
    {
        KafkaError._MSG_TIMED_OUT,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID,
    }
)
"""With these errors a record fails because of the time, or of what the broker knows of its producer."""
_PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})


class Fenced(Refused):
    """Another producer has initialized the same transactional id: this one can never write again."""

    code = FENCED


class CommitUnknown(Unreachable):
    """A commit was sent and no response came: only the log shows whether the transaction was committed."""

    code = "commit-unknown"


class _Stage(Enum):
    NEW = auto()
    IDLE = auto()
    OPEN = auto()
    COMMITTING = auto()
    OVER = auto()


class Transactions:
    """The transactions of one transactional id, one after the other, until the first failure. A context manager.

    Call ``fence`` first. ``producer`` is confluent's own, so that the caller can ``produce`` at full speed into the
    open transaction, to any topic. Leaving the block aborts an open transaction. ``topic`` is an existing topic, whose
    metadata is read to connect before the id is initialized; None skips that, and may be slower. ``timeout_s`` is how
    long to wait without any progress. ``tuning`` are librdkafka settings for large amounts. ``prefix`` is the prefix of
    transactional ids that the ACL in an error's hint grants; None: this id alone.
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
        self._refusals = 0
        self._topics = set[str]()
        limit_ms = round(longest_s * 1000)
        settings = {
            **_DEFAULTS,
            **config,
            **(tuning or {}),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": limit_ms,
            # librdkafka requires that it is not above the transaction's timeout.
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
        assert self._producer is not None, "closed"
        return self._producer

    def connect(self) -> None:
        """Connect in advance, so that ``fence`` is quick; does nothing if connected. Raises what ``fence`` raises."""
        self._watch.progress()
        # The first response may come on a connection that serves only metadata.
        for _ in range(2 if self._topic is not None and not self._connected else 0):
            self._until(lambda: self.producer.list_topics(self._topic, _ASK_S), self._not_initialized())
            self.producer.poll(_PAUSE_S)
        self._connected = True

    def _not_initialized(self) -> str:
        return f"transactional id {self.transactional_id} could not be initialized"

    def fence(self) -> None:
        """Initialize the id: its previous producer can commit nothing from now on; its open transaction is aborted.

        Raises NotAuthorized; Refused with code ``transaction-limit``; Unreachable, AuthenticationFailed.
        """
        self.connect()
        self._until(lambda: self.producer.init_transactions(_SLICE_S), self._not_initialized())
        self._watch.answered()
        self._stage = _Stage.IDLE

    def begin(self) -> None:
        """Begin a transaction. It does not raise if this producer was fenced; ``commit`` does."""
        assert self._stage is _Stage.IDLE, self._stage
        try:
            self.producer.begin_transaction()
        except KafkaException as error:
            raise self._fault(error.args[0], "a transaction could not be started") from error
        self._began_at = time.monotonic()
        self._topics.clear()
        self._refusals = 0
        self._stage = _Stage.OPEN

    def produce(self, topic: str, key: bytes, value: bytes | None, partition: int) -> None:
        """Add a record, waiting for room. Raises Refused with code ``too-large``, and what ``produce_all`` raises."""
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
                    raise self._watch.fault(f"{topic} does not accept records") from None
            except KafkaException as error:
                self._check_refusal(error.args[0], topic)

    def produce_all(self, rows: Iterable[Row]) -> int:
        """Add many records at full speed, waiting for room. Returns how many.

        Raises what ``commit`` raises, but no CommitUnknown: Unreachable with code ``not-written``, for the transaction
        has failed and nothing of it was written.
        """
        assert self._stage is _Stage.OPEN, self._stage
        self._watch.progress()
        produce, sent, topic = self.producer.produce, 0, None
        try:
            for topic, value, key, partition, timestamp_ms, headers in rows:
                while True:
                    try:
                        # Positional arguments: keyword arguments cost a dict per record.
                        produce(topic, value, key, partition, None, None, timestamp_ms, headers)
                        break
                    except BufferError:
                        self._make_room(topic)
                    except KafkaException as error:
                        self._check_refusal(error.args[0], topic)
                sent += 1
            if topic is not None:
                self._topics.add(topic)
            self.producer.poll(0)
        except KafkaException as error:
            raise self._refusal(error.args[0], topic) from error
        return sent

    def _check_refusal(self, error: KafkaError, topic: str) -> None:
        """Return if the client refused a record though the transaction is open: it may take it now. Else raise."""
        self._refusals += 1
        if self._refusals > _REFUSALS or self._cause(error).code() != KafkaError._STATE:
            raise self._refusal(error, topic)
        self.producer.poll(_PAUSE_S)

    def _refusal(self, error: KafkaError, topic: str | None) -> KgroupError:
        """The error to raise when the client takes no record: of that record, or of a transaction that has failed."""
        self._await_delivery_report()
        cause = self._cause(error)
        is_over = cause.txn_requires_abort()
        fault = self._fault(cause, "no record could be sent", None if is_over else topic)
        return self._not_written(fault) if is_over else fault

    def _await_delivery_report(self) -> None:
        """Wait for the delivery report of a refused record: the transaction may fail before it comes."""
        self._poll_while(lambda: self._failed is None)

    def _poll_while(self, waiting: Callable[[], bool]) -> None:
        """Serve delivery reports while ``waiting``, for at most 0.5 s."""
        until = time.monotonic() + _REPORT_WITHIN_S
        while waiting() and time.monotonic() < until:
            with suppress(KafkaException):
                self.producer.poll(_PAUSE_S)

    def _make_room(self, topic: str) -> None:
        waiting = len(self.producer)
        self.producer.poll(_SLICE_S)
        if len(self.producer) < waiting:
            self._watch.progress()
        elif self._watch.over:
            raise self._watch.fault(f"{topic} does not accept records")

    def commit(self) -> None:
        """Commit the open transaction, records and all.

        Raises Fenced; CommitUnknown; Unreachable if not even the records were acknowledged; Refused with code
        ``transaction-timeout`` (it lasted too long, and the broker aborted it), ``too-large`` or ``not-accepted`` (for
        a record); Unreachable with code ``not-written`` (a new transaction may succeed); NotAuthorized, NotFound for a
        topic; KgroupError. After any of them this object cannot be used again.
        """
        assert self._stage is _Stage.OPEN, self._stage
        self._stage = _Stage.COMMITTING
        self._watch.progress()
        unacknowledged = len(self.producer)
        while True:
            try:
                self.producer.commit_transaction(_SLICE_S)
                self._watch.answered()
                self._stage = _Stage.IDLE
                return
            except KafkaException as raised:
                error = raised.args[0]
            # A call that resumes one that timed out may ask for its result a moment early (seen once, librdkafka 2.16:
            # "not valid in state CommittingTransaction"). The commit continues, and the next call gets its result.
            if error.txn_requires_abort() or not (error.retriable() or error.code() == KafkaError._STATE):
                raise self._not_committed(error)
            self._pause(error)
            if len(self.producer) < unacknowledged:
                unacknowledged = len(self.producer)
                self._watch.progress()
            if self._watch.over:
                raise self._unanswered(unacknowledged)

    def _not_committed(self, error: KafkaError) -> KgroupError:
        """The error for a commit that failed: if its reason leaves open what the broker did, only the log knows.

        With a failed record librdkafka does not ask the broker to commit. Seen without one: UNKNOWN when several
        producers took the id at the same time, INVALID_PRODUCER_ID_MAPPING when its coordinator no longer knew the id.
        """
        if error.txn_requires_abort():
            self._stage = _Stage.OPEN
            self._await_delivery_report()
        fault = self._fault(error, "the transaction could not be committed")
        self.close()
        if fault.code == _UNSPECIFIC and self._failed is None:
            return self._unknown(fault.message)
        return self._not_written(fault)

    def _not_written(self, fault: KgroupError) -> KgroupError:
        """The error for a transaction of which nothing was written: that itself, if a new one would fail with it too.

        Example: a record that its topic refuses for ever (POLICY_VIOLATION).
        """
        if fault.code != _UNSPECIFIC or (self._failed is not None and not may_succeed_later(self._failed[1])):
            return fault
        return Unreachable(fault.message, hint="nothing of the transaction was written: try again", code="not-written")

    def _unanswered(self, unacknowledged: int) -> KgroupError:
        """The error for a commit without a response; while records are unacknowledged, it was not sent at all."""
        if unacknowledged:
            self._stage = _Stage.OPEN
            topics = " or ".join(sorted(self._topics))
            fault = self._watch.fault(
                f"{topics}: {plural(unacknowledged, 'record')} not acknowledged",
                f"A topic with too few replicas in sync (min.insync.replicas) rejects them: {topics}.",
            )
            self.close()
            return fault
        # From here on this client must send nothing more, or the caller would read the log too early.
        self.close()
        return self._unknown(*self._watch.fault("").details, hint="a longer --timeout may help")

    def _unknown(self, *details: str, hint: str | None = None) -> CommitUnknown:
        return CommitUnknown(
            f"it is unknown whether the transaction of {self.transactional_id} was committed",
            details=details,
            hint=hint,
        )

    def close(self) -> None:
        """Abort an open transaction, within 3 s, and release the connections. The id keeps its owner."""
        stage, self._stage = self._stage, _Stage.OVER
        if stage is _Stage.OPEN:
            self._abort()
        if self._producer is not None:
            self._poll_while(lambda: len(self.producer) > 0)
            with suppress(KafkaException):  # raised by a producer that has failed for good
                self._producer.purge()
        # Producer.close() would wait for a broker that is gone, and warn about a commit in progress. Without it the
        # client ends with the last reference to it; a sink that still holds one cannot begin anything.
        self._producer = None

    def _abort(self) -> None:
        """Try to abort for at most 3 s. If that fails nothing is committed either; the broker aborts at the timeout."""
        until = time.monotonic() + min(_ABORT_PATIENCE_S, self._watch.timeout_s)
        while time.monotonic() < until:
            try:
                self.producer.abort_transaction(_SLICE_S)
                return
            except KafkaException as raised:
                error = raised.args[0]
            if not error.retriable():
                return  # no transaction is open: this producer was fenced, or the broker knows of none
            self._pause(error)

    def _until(self, call: Callable[[], object], what: str) -> None:
        more: tuple[str, ...] = ()
        while True:
            try:
                call()
                return
            except KafkaException as raised:
                error = raised.args[0]
            self._pause(error)
            if not error.retriable() and error.code() not in NOT_YET:
                raise self._fault(error, what)
            if error.code() != KafkaError._TIMED_OUT:
                more = (_NOT_ENDED,) if error.code() == KafkaError.CONCURRENT_TRANSACTIONS else ()
            if self._watch.over:
                raise self._watch.fault(what, *more)

    def _pause(self, error: KafkaError) -> None:
        if error.code() not in NOT_YET:
            self._watch.on_error(error)
        with suppress(KafkaException):  # raised by a producer that has failed; its error is already known
            self.producer.poll(0 if error.code() == KafkaError._TIMED_OUT else _PAUSE_S)

    def _delivered(self, error: KafkaError, message: Message) -> None:
        if error.code() in _PURGED:
            return
        if self._failed is None or self._failed[1].code() == KafkaError._INVALID_DIFFERENT_RECORD:
            self._failed = (message.topic(), error)

    def _cause(self, error: KafkaError) -> KafkaError:
        """The reason why nothing can be produced: librdkafka reports it to begin_transaction, not to produce."""
        if error.code() in (KafkaError._FATAL, KafkaError._STATE) and self._producer is not None:
            try:
                self._producer.begin_transaction()
            except KafkaException as raised:
                reason: KafkaError = raised.args[0]
                return reason
        return error

    def _acl_hint(self) -> str:
        if self._prefix is None:
            return acl_hint("Write", "transactional-id", self.transactional_id)
        return f"{acl_hint('Write', 'transactional-id', self._prefix)} --resource-pattern-type prefixed"

    def _fault(self, error: KafkaError, what: str, topic: str | None = None) -> KgroupError:
        """The error to raise. A refused record's error comes before the error it caused in its transaction."""
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
                code=TRANSACTION_TIMEOUT,
            )
        if code in _FENCED:
            return Fenced(f"{whose} was fenced by another producer")
        if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return NotAuthorized(f"no WRITE on TransactionalId {self.transactional_id}", hint=self._acl_hint())
        if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return Refused(
                f"{whose}: the broker allows no transaction of {self._longest_s:g} s",
                hint=f"transaction.max.timeout.ms of the brokers must be at least {round(self._longest_s * 1000)}",
                code=TRANSACTION_LIMIT,
            )
        if topic is None and code == KafkaError.TOPIC_AUTHORIZATION_FAILED and self._topics:
            # The coordinator does not report which topic.
            topics = sorted(self._topics)
            return NotAuthorized(f"no WRITE on Topic {' or '.join(topics)}", hint=acl_hint("Write", "topic", *topics))
        if topic is None:
            return KgroupError(f"{whose}: {what}: {error.str()} ({error.name()})", code=_UNSPECIFIC)
        return record_client_error(error, topic)


def may_succeed_later(error: KafkaError) -> bool:
    """Whether a record that failed with this error may be written in a new transaction."""
    return is_transient(error) or error.code() in _OF_TRANSACTION
