"""A blocking connection to the cluster that sends any request to any broker, many at a time.

It stands on kafka-python's connection manager rather than on its admin client, which retries a wrong password
until its timeout and knows nothing of a deadline.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import kafka.errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from kgroup.cluster.deadline import Deadline
from kgroup.cluster.login import client_arguments
from kgroup.model.acl_hint import log_in_as
from kgroup.settings.model import Settings
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError, Refused, Unreachable

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
}
"""What this package uses beyond kafka-python's public classes; a new version is checked against it."""

RETRY_PAUSE_S = 0.1
"""Between two tries of something that may work in a moment."""

_FIND_COORDINATOR, _FIND_COORDINATOR_SINCE_3_0 = 10, 4
"""The API, and the version of it that came with Kafka 3.0 (KIP-699) and that kgroup needs."""

_SILENCE_MS = 1000
_WAKE_S = 0.5
_STOP_MS = 3000
"""What the event loop does without yielding is a probe of ``kgroup.cluster.diagnosis``: half of this at most."""

_LEAST_PATIENCE_MS = 1000
_PROBE_S, _SHORT_PROBE_S = 1.5, 0.3
_RECONNECT_MAX_MS = 500
"""kafka-python goes up to 30 s: far behind a broker that has come back, for somebody who waits for it."""

_MAX_IN_FLIGHT = 1_000_000
_MAX_ANSWER_BYTES = 256 * 1024 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the metadata names it; ``rack`` is None where it has none."""

    id: int
    host: str
    port: int
    rack: str | None

    def __str__(self) -> str:
        return f"{self.id} ({self.host}:{self.port})"


class CoordinatorClient:
    """An open connection. Every call is bounded by ``deadline``, which its owner renews for each question;
    errors of single requests are values.

    The event loop has a thread of its own: on the caller's, it would take ctrl-C for a task's failure and go on.
    """

    def __init__(self, settings: Settings, deadline: Deadline) -> None:
        """Connect to the first bootstrap server that answers.

        Raises the error of ``kgroup.cluster.diagnosis`` for the last one, as soon as all of them failed:
        a wrong password does not get better by trying again.
        """
        self.settings = settings
        log_in_as(settings.user, settings.tool_flags)
        self.deadline = deadline
        self._closing = False
        self.unsettled = False
        """Whether a broker failed or a coordinator moved since this was last set to False."""
        # kafka-python logs each failed attempt; we report the one that mattered. --debug FILE still has all.
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
            self.run(self._bootstrap)
        except BaseException:
            self.close()
            raise
        self.brokers = self._known_brokers()
        self.ref = ClusterRef(self._manager.cluster.cluster_id, settings.bootstrap_servers, settings.context)

    def close(self) -> None:
        """Close all connections; requests under way are given up."""
        self._closing = True
        self._manager.close()
        thread = self._net._io_thread
        self._net.stop(timeout_ms=_STOP_MS)
        if thread is None or not thread.is_alive():  # else it still uses what would be closed; it ends with the process
            self._net.close()

    def run(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function on the connection's event loop until it returns."""
        ended = threading.Event()
        future = self._manager.call_soon(function, *arguments)
        future.add_both(lambda _: ended.set())
        # A signal may be given to any thread, and Python acts on it in the main one alone: once that wakes.
        while not ended.wait(_WAKE_S):
            if self._net._exception is not None:  # the loop has crashed, and nobody answers any more
                raise self._net._exception
        if future.exception is not None:
            raise future.exception
        result: T = future.value
        return result

    def supports(self, api_key: int) -> bool:
        """Whether the brokers know this API."""
        return api_key in self._manager.broker_version_data.api_versions

    def start(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a coroutine function beside all questions, until it returns or the connection is closed."""
        self._manager.call_soon(function)

    async def pause(self, seconds: float) -> None:
        """Let others run for so long, whatever the deadline: for what runs beside the questions."""
        await self._net.sleep(seconds)

    async def sleep(self, seconds: float) -> None:
        """Let others run for a while, or until the deadline."""
        await self._net.sleep(min(seconds, self.deadline.left_s))

    async def send(self, request: Any, node_id: int, patience_ms: int | None = None) -> Any:
        """The answer of one broker, or the kafka-python error that there was none.

        ``patience_ms`` is how long this caller waits, where that is less than the deadline. The request itself
        goes on: kafka-python closes the connection of one that times out, with all others on it.
        """
        try:
            answer = self._manager.send(request, node_id, request_timeout_ms=self.deadline.left_ms)
            return await (answer if patience_ms is None else self._manager.wait_for(answer, patience_ms))
        except kafka.errors.KafkaTimeoutError as error:
            return error
        except kafka.errors.KafkaError as error:
            self.unsettled = True
            return error

    async def send_any(self, request: Any) -> Any:
        """The answer of whichever broker gives one before the deadline; raises KgroupError where none does."""
        patience_ms = max(_LEAST_PATIENCE_MS, self.deadline.left_ms // 3)
        while True:
            node_id = self._manager.least_loaded_node()
            if node_id is not None:
                answer = await self.send(request, node_id, min(patience_ms, self.deadline.left_ms))
                if not isinstance(answer, BaseException):
                    return answer
                if self.deadline.passed or not getattr(answer, "retriable", False):
                    raise self.failure(answer, node_id)
            elif self.deadline.passed:
                raise Unreachable("no broker answered in time", code="timed-out", hint="a longer --timeout may help")
            await self.sleep(RETRY_PAUSE_S)

    async def refresh_brokers(self) -> None:
        """Learn which brokers there are now; they stay as they were where nobody can tell."""
        try:
            await self._refresh_metadata(None, self.deadline)
        except kafka.errors.KafkaError:
            return
        self.brokers = self._known_brokers()

    async def send_all(self, requests: Sequence[tuple[int, Any]], patience_ms: int | None = None) -> list[Any]:
        """The answers (or errors) to many requests, sent at the same time, in their order."""
        return await self.gather(self.send(request, node_id, patience_ms) for node_id, request in requests)

    async def gather(self, coroutines: Iterable[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run coroutines side by side; their results in order."""

        def start(coroutine: Coroutine[Any, Any, Any]) -> Any:
            async def one() -> Any:
                return await coroutine

            return self._manager.call_soon(one)

        futures = [start(coroutine) for coroutine in coroutines]
        return [await future for future in futures]

    def failure(self, error: BaseException, node_id: int) -> KgroupError:
        """What an error of ``send`` means, said with the broker's name."""
        broker = self.brokers.get(node_id)
        if broker is None:
            return Unreachable(f"broker {node_id} is gone")
        if isinstance(error, kafka.errors.KafkaTimeoutError | kafka.errors.RequestTimedOutError):
            text = f"broker {broker} did not answer in time"
            return Unreachable(text, code="timed-out", hint="a longer --timeout may help")
        if isinstance(error, kafka.errors.IncompatibleBrokerVersion):
            return self._unsupported(broker, error)
        return self._explained(broker.host, broker.port, error)

    def _unsupported(self, broker: Broker, error: BaseException) -> KgroupError:
        """Why a broker does not know a request: more time does not help."""
        _, newest = self._manager.broker_version_data.api_versions.get(_FIND_COORDINATOR, (0, 0))
        text = str(error).partition("IncompatibleBrokerVersion: ")[2] or str(error)
        if newest >= _FIND_COORDINATOR_SINCE_3_0:
            return Refused(f"broker {broker} does not support a request of kgroup", code="unsupported", details=(text,))
        return Refused(
            f"broker {broker} is older than Kafka 3.0, the oldest release that kgroup supports",
            code="broker-too-old",
            details=(text,),
            hint="Upgrade the brokers. On older ones, list, describe and export work with --from-log.",
        )

    def _known_brokers(self) -> dict[int, Broker]:
        return {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack or None)
            for broker in self._manager.cluster.brokers()
        }

    async def _refresh_metadata(self, node_id: int | None, until: Deadline) -> None:
        # kafka-python would wait as long as its own request timeout.
        refreshing = self._manager.call_soon(self._manager.cluster.refresh_metadata, node_id)
        await self._manager.wait_for(refreshing, until.left_ms)

    async def _connected(self, connection: Any, server: Any, until: Deadline) -> None:
        """Wait for a connection; after a while of silence, find out whether waiting can help.

        An HTTP server never answers a Kafka client, and the client would wait for it until the deadline.
        """
        try:
            await self._manager.wait_for(connection.init_future, min(_SILENCE_MS, until.left_ms // 3))
        except kafka.errors.KafkaTimeoutError:
            from kgroup.cluster.diagnosis import certain_fault

            fault = certain_fault(self.settings, server.host, server.port)
            if fault is not None:
                raise fault from None
            await self._manager.wait_for(connection.init_future, until.left_ms)

    def _explained(self, host: str, port: int, error: BaseException) -> KgroupError:
        # Imported here: with TLS and its own probe, and needed only when something fails.
        from kgroup.cluster.diagnosis import explain

        return explain(
            self.settings, host, port, error, deadline_s=min(_PROBE_S, max(_SHORT_PROBE_S, self.deadline.left_s))
        )

    async def _bootstrap(self) -> None:
        """Ask each bootstrap server for the cluster's brokers until one answers."""
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
                await self._connected(connection, server, until)
                await self._refresh_metadata(server.node_id, until)
            except KgroupError as fault:
                failures.append(fault)
                continue
            except (kafka.errors.KafkaError, OSError, UnicodeError) as error:
                if self._closing:  # ctrl-C: it failed because we hang up, and a probe would take a second and a half
                    raise
                failures.append(self._explained(server.host, server.port, error))
                continue
            finally:
                connection.close()
            if self._manager.cluster.brokers():
                self.unsettled = bool(failures)
                return
            failures.append(Unreachable(f"{server.host}:{server.port} knows no brokers: not started yet?"))
        raise _weightiest(failures)


def _weightiest(failures: Sequence[KgroupError]) -> KgroupError:
    """Of several servers' failures the one to report: a refused login says more than a closed port."""
    return max(failures, key=lambda failure: failure.code != "unreachable")
