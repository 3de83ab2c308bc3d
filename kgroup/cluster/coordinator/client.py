"""A blocking connection to the cluster that sends any request to any broker, many in parallel.

It uses kafka-python's connection manager, not its admin client: that one retries a wrong password until its timeout
and has no deadline.
"""

from __future__ import annotations

import copy
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import kafka.errors
import msgspec
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from kgroup.cluster.deadline import Deadline
from kgroup.cluster.login import client_arguments
from kgroup.model.kafka_tools import log_in_as
from kgroup.settings.model import Settings
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError, Refused, Unreachable, refusal_code

BROKER_TOO_OLD = refusal_code(
    "broker-too-old",
    "all verbs",
    "The brokers are older than Kafka 3.0.",
    "Upgrade the brokers. --from-log reads without these requests.",
)
UNSUPPORTED = refusal_code(
    "unsupported",
    "all verbs",
    "A broker does not support a request of kgroup.",
    "Upgrade the brokers. --from-log reads without these requests.",
)

PRIVATE_NAMES = {
    "kafka.net.manager:KafkaConnectionManager": (
        "broker_version_data",
        "call_soon",
        "close",
        "cluster",
        "get_connection",
        "least_loaded_node",
        "send",
        "wait_for",
    ),
    "kafka.net.selector:NetworkSelector": ("_exception", "_io_thread", "close", "sleep", "start", "stop"),
    "kafka.net.sasl:get_sasl_mechanism": (),
    "kafka.net.sasl.oauth:AbstractTokenProvider": ("register",),
    "kafka.cluster:ClusterMetadata": ("bootstrap_brokers", "broker_metadata", "brokers", "refresh_metadata"),
    "kafka.protocol.api_header:RequestHeader": ("get_response_class",),
    "kafka.protocol.api_message:ApiMessage": ("header_class", "parse_header"),
}
"""What this package uses beyond kafka-python's public classes; a test checks each new version against it."""

RETRY_PAUSE_S = 0.1
"""Pause between two tries."""

_FIND_COORDINATOR, _FIND_COORDINATOR_SINCE_3_0 = 10, 4
"""FindCoordinator, and its version since Kafka 3.0 (KIP-699), which kgroup needs."""

_SILENCE_MS = 1000
_WAKE_S = 0.5
_STOP_MS = 3000
"""The event loop may block only for a probe of ``kgroup.cluster.diagnosis``, at most half of this time."""

_MIN_PATIENCE_MS = 1000
_PROBE_S, _SHORT_PROBE_S = 1.5, 0.3
_RECONNECT_MAX_MS = 500
"""kafka-python's default is 30 s: too long for a user who waits for a broker that has come back."""

_MAX_IN_FLIGHT = 1_000_000
_MAX_ANSWER_BYTES = 256 * 1024 * 1024

T = TypeVar("T")


class Broker(msgspec.Struct, frozen=True):
    id: int
    host: str
    port: int
    rack: str | None

    def __str__(self) -> str:
        return f"{self.id} ({self.host}:{self.port})"


@dataclass(slots=True)
class _Observed:
    """What the views of one connection share: the brokers, and when one of them failed, or a coordinator moved."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    moved_at: float = -math.inf


class CoordinatorClient:
    """An open connection. A call ends at the deadline of the question that ``run`` runs, or of its view (``within``).

    Errors of single requests are return values. The event loop has its own thread: on the caller's thread it would
    treat ctrl-C as a task's failure and continue.
    """

    def __init__(self, settings: Settings, deadline: Deadline) -> None:
        """Connect to the first bootstrap server that answers.

        If all fail, raises the error of ``kgroup.cluster.diagnosis`` as soon as the last one has failed: a retry does
        not correct a wrong password. A refused login or certificate is reported before a closed port.
        """
        self.settings = settings
        log_in_as(settings.user, settings.tool_flags)
        self._deadline = deadline
        self._observed = _Observed()
        self._closing = False
        # kafka-python logs each failed attempt; we report the one that matters. --debug FILE still has all.
        logging.getLogger("kafka").propagate = False
        if not logging.getLogger("kafka").handlers:
            logging.getLogger("kafka").addHandler(logging.NullHandler())
        arguments = (
            {"reconnect_backoff_max_ms": _RECONNECT_MAX_MS}
            | client_arguments(settings)
            | {
                "receive_message_max_bytes": _MAX_ANSWER_BYTES,
                # kafka-python fails requests beyond this number instead of queueing them; brokers answer in order.
                "max_in_flight_requests_per_connection": _MAX_IN_FLIGHT,
            }
        )
        self._net = NetworkSelector(client_id=arguments.get("client_id", "kgroup"), slow_task_threshold_secs=0)
        self._manager = KafkaConnectionManager(self._net, **arguments)
        self._net.start()
        try:
            self.run(self._bootstrap, deadline=deadline)
        except BaseException:
            self.close()
            raise
        self._observed.brokers = self._brokers_in_metadata()
        self.ref = ClusterRef(self._manager.cluster.cluster_id, settings.bootstrap_servers, settings.context)

    def close(self) -> None:
        """Close all connections; requests in flight are abandoned."""
        self._closing = True
        self._manager.close()
        thread = self._net._io_thread
        self._net.stop(timeout_ms=_STOP_MS)
        if thread is None or not thread.is_alive():  # a live thread still uses it; then it ends with the process
            self._net.close()

    @property
    def deadline(self) -> Deadline:
        return self._deadline

    @property
    def brokers(self) -> Mapping[int, Broker]:
        return self._observed.brokers

    def within(self, deadline: Deadline) -> CoordinatorClient:
        """A view of the same connection, whose calls end at ``deadline``; those of other callers are not affected."""
        view = copy.copy(self)
        view._deadline = deadline
        return view

    def note_move(self) -> None:
        """A broker failed, or a coordinator did not answer for its groups."""
        self._observed.moved_at = time.monotonic()

    def has_moved(self, since_s: float) -> bool:
        return self._observed.moved_at >= since_s

    def run(self, function: Callable[..., Awaitable[T]], *arguments: Any, deadline: Deadline) -> T:
        """Run a question, a coroutine function, on the connection's event loop until it returns."""
        self._deadline = deadline
        # A lock, as a signal that arrives inside an Event raises "release unlocked lock" instead of its own exception.
        running = threading.Lock()
        running.acquire()
        future = self._manager.call_soon(function, *arguments)
        future.add_both(lambda _: running.release())
        # Any thread may get a signal, but Python handles it in the main thread only, and only when that one wakes.
        while not running.acquire(timeout=_WAKE_S):
            if self._net._exception is not None:  # the event loop has crashed, so no result will come
                raise self._net._exception
        if future.exception is not None:
            raise future.exception
        result: T = future.value
        return result

    def supports(self, api_key: int, version: int = 0) -> bool:
        """Whether the broker that answered first knows this API in this version."""
        known: tuple[int, int] = self._manager.broker_version_data.api_versions.get(api_key, (0, -1))
        return known[1] >= version

    def start(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a coroutine function in parallel with all questions, until it returns or the connection is closed."""
        self._manager.call_soon(function)

    async def pause(self, seconds: float) -> None:
        """Wait without regard to the deadline: for tasks that run in parallel with the questions."""
        await self._net.sleep(seconds)

    async def sleep(self, seconds: float) -> None:
        await self._net.sleep(min(seconds, self.deadline.left_s))

    async def send(self, request: Any, node_id: int, patience_ms: int | None = None) -> Any:
        """One broker's response, or the kafka-python error as a value.

        ``patience_ms`` is how long this caller waits, if that is less than the deadline. The request itself keeps
        running: when one times out, kafka-python closes the connection with all other requests on it.
        """
        try:
            answer = self._manager.send(request, node_id, request_timeout_ms=self.deadline.left_ms)
            return await (answer if patience_ms is None else self._manager.wait_for(answer, patience_ms))
        except kafka.errors.KafkaTimeoutError as error:
            return error
        except kafka.errors.KafkaError as error:
            self.note_move()
            return error

    async def send_any(self, request: Any) -> Any:
        """The first response from any broker before the deadline. Raises KgroupError if none answers."""
        patience_ms = max(_MIN_PATIENCE_MS, self.deadline.left_ms // 3)
        while True:
            node_id = self._manager.least_loaded_node()
            if node_id is not None:
                answer = await self.send(request, node_id, min(patience_ms, self.deadline.left_ms))
                if not isinstance(answer, BaseException):
                    return answer
                if self.deadline.passed or not getattr(answer, "retriable", False):
                    raise self.failure(answer, node_id)
            elif self.deadline.passed:
                raise Unreachable(
                    "no broker answered within the timeout", code="timed-out", hint="a longer --timeout may help"
                )
            await self.sleep(RETRY_PAUSE_S)

    async def refresh_brokers(self) -> None:
        """Read the present brokers from the metadata; keeps the known ones if that fails."""
        try:
            await self._refresh_metadata(None, self.deadline)
        except kafka.errors.KafkaError:
            return
        self._observed.brokers = self._brokers_in_metadata()

    async def send_all(self, requests: Sequence[tuple[int, Any]], patience_ms: int | None = None) -> list[Any]:
        """Send many requests at the same time; their responses (or errors) in order."""
        return await self.gather(self.send(request, node_id, patience_ms) for node_id, request in requests)

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
        def start(coroutine: Coroutine[Any, Any, Any]) -> Any:
            async def one() -> Any:
                return await coroutine

            return self._manager.call_soon(one)

        futures = [start(coroutine) for coroutine in coroutines]
        return [await future for future in futures]

    def failure(self, error: BaseException, node_id: int) -> KgroupError:
        broker = self.brokers.get(node_id)
        if broker is None:
            return Unreachable(f"broker {node_id} is gone")
        if isinstance(error, kafka.errors.KafkaTimeoutError | kafka.errors.RequestTimedOutError):
            text = f"broker {broker} did not answer within the timeout"
            return Unreachable(text, code="timed-out", hint="a longer --timeout may help")
        if isinstance(error, kafka.errors.IncompatibleBrokerVersion):
            return self._unsupported(broker, error)
        return self._diagnosed(broker.host, broker.port, error)

    def _unsupported(self, broker: Broker, error: BaseException) -> KgroupError:
        """The error for a request that a broker does not support: more time does not help."""
        _, newest = self._manager.broker_version_data.api_versions.get(_FIND_COORDINATOR, (0, 0))
        text = str(error).partition("IncompatibleBrokerVersion: ")[2] or str(error)
        if newest >= _FIND_COORDINATOR_SINCE_3_0:
            return Refused(f"broker {broker} does not support a request of kgroup", code=UNSUPPORTED, details=(text,))
        return Refused(
            f"broker {broker} is older than Kafka 3.0, the oldest release that kgroup supports",
            code=BROKER_TOO_OLD,
            details=(text,),
            hint="Upgrade the brokers. On older ones, list, describe and export work with --from-log.",
        )

    def _brokers_in_metadata(self) -> dict[int, Broker]:
        return {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack or None)
            for broker in self._manager.cluster.brokers()
        }

    async def _refresh_metadata(self, node_id: int | None, until: Deadline) -> None:
        # By itself kafka-python would wait for its own request timeout.
        refreshing = self._manager.call_soon(self._manager.cluster.refresh_metadata, node_id)
        await self._manager.wait_for(refreshing, until.left_ms)

    async def _await_connection(self, connection: Any, server: Any, until: Deadline) -> None:
        """Wait for a connection; after up to 1 s of silence, diagnose whether waiting can help.

        An HTTP server never answers a Kafka client, which would wait for it until the deadline.
        """
        try:
            await self._manager.wait_for(connection.init_future, min(_SILENCE_MS, until.left_ms // 3))
        except kafka.errors.KafkaTimeoutError:
            from kgroup.cluster.diagnosis import certain_fault

            fault = certain_fault(self.settings, server.host, server.port)
            if fault is not None:
                raise fault from None
            await self._manager.wait_for(connection.init_future, until.left_ms)

    def _diagnosed(self, host: str, port: int, error: BaseException) -> KgroupError:
        # Imported here: it loads TLS and its own probe, and is needed only after a failure.
        from kgroup.cluster.diagnosis import explain

        return explain(
            self.settings, host, port, error, deadline_s=min(_PROBE_S, max(_SHORT_PROBE_S, self.deadline.left_s))
        )

    async def _bootstrap(self) -> None:
        """Ask each bootstrap server for the cluster's brokers, until one answers."""
        failures: list[KgroupError] = []
        servers = list(self._manager.cluster.bootstrap_brokers())
        for position, server in enumerate(servers):
            patience_ms = max(1, self.deadline.left_ms // (len(servers) - position))
            connection = self._manager.get_connection(
                server.node_id,
                timeout_ms=patience_ms,
                pop_on_close=True,
                refresh_metadata_on_err=False,
                reset_backoff_on_connect=False,
            )
            try:
                until = Deadline.after(patience_ms / 1000)
                await self._await_connection(connection, server, until)
                await self._refresh_metadata(server.node_id, until)
            except KgroupError as fault:
                failures.append(fault)
                continue
            except (kafka.errors.KafkaError, OSError, UnicodeError) as error:
                if self._closing:  # ctrl-C: it failed because we close the connection; a probe would take 1.5 s
                    raise
                failures.append(self._diagnosed(server.host, server.port, error))
                continue
            finally:
                connection.close()
            if self._manager.cluster.brokers():
                if failures:
                    self.note_move()
                return
            failures.append(Unreachable(f"{server.host}:{server.port} knows no brokers; it may not have started yet"))
        raise _most_informative(failures)


def _most_informative(failures: Sequence[KgroupError]) -> KgroupError:
    """The failure to report, of several servers: a refused login explains more than a closed port."""
    return max(failures, key=lambda failure: failure.code != "unreachable")
