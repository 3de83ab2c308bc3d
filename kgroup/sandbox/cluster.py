"""A sandbox: one directory, and one to three real brokers on loopback that run until ``down``; its status."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kgroup.model.reporter import Reporter
from kgroup.model.sandbox_status import BrokerStatus, ProcessRole, ProcessState, SandboxStatus, overall_state
from kgroup.sandbox import ports
from kgroup.sandbox.broker import BrokerProcess
from kgroup.sandbox.distribution import Distribution, fetch_distribution, user_distribution
from kgroup.sandbox.launch import Launch, PortTakenError, answers, await_ready
from kgroup.sandbox.layout import CLIENTS, CONTROLLER, CONTROLLER_ID, Layout, Node, read_layout, write_layout
from kgroup.sandbox.prepare import prepare
from kgroup.sandbox.request import SandboxRequest
from kgroup.settings import paths
from kgroup.settings.environment import environment
from kgroup.support.errors import SandboxError
from kgroup.support.file_lock import exclusive_lock
from kgroup.support.java_home import find_java

PREFERRED_PORT = 19_092
"""The port of the command line's sandbox if it is free: easy to remember."""

_PORT_TRIES = 5
_LOCK = "lock"
_STATE = "sandbox.json"


def cache_directory() -> Path:
    """The directory for jars, class data archive and checkpoint."""
    return paths.cache_dir() / "sandbox"


def default_directory() -> Path:
    return paths.state_dir() / "sandbox"


def find_distribution(jars: Path | None, reporter: Reporter) -> Distribution:
    """A Kafka that is ready to run: from the user's jars, or downloaded (now, if necessary)."""
    java = find_java(environment())
    distribution = (
        user_distribution(jars, cache_directory(), java)
        if jars
        else fetch_distribution(cache_directory(), java, reporter)
    )
    prepare(distribution, reporter)
    return distribution


def _distribution_of(layout: Layout, reporter: Reporter) -> Distribution:
    return find_distribution(Path(layout.jars) if layout.jars else None, reporter)


class Sandbox:
    """The brokers of one directory. Any process may call any method, not only the one that started them."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = (directory or default_directory()).absolute()

    def up(
        self,
        *,
        reporter: Reporter,
        brokers: int | None = None,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        format_arguments: tuple[str, ...] = (),
        jars_dir: Path | None = None,
    ) -> SandboxStatus:
        """Start what does not run, and return when every broker answers group requests.

        Does nothing if all processes run. None means: as this sandbox was before; for a new one, one broker, any free
        port, no extra settings. ``properties`` are broker settings and override ours. ``listeners`` maps names of
        additional client listeners to security protocols. ``format_arguments`` go to StorageTool when the data is
        created. Raises SandboxError, and Refused [sandbox-differs], [port-taken], [no-java], [no-pyspark], [no-kafka].
        """
        request = SandboxRequest(brokers, port, properties, listeners, str(jars_dir.absolute()) if jars_dir else None)
        with self._locked(reporter):
            before = self._layout()
            layout = request.applied_to(before)
            running = self._running(layout)
            if running and before is not None:
                request.require_same(before, layout)
            if len(running) < len(layout.nodes):
                layout = self._start(before, layout, request, format_arguments, reporter)
            else:
                await_ready(layout, {})
            return self._status(layout)

    def status(self) -> SandboxStatus:
        """The sandbox's processes and addresses; asks every broker whether it answers."""
        return self._status(self._layout())

    def down(self, *, reporter: Reporter, wipe: bool = False) -> bool:
        """Stop what this sandbox started; with ``wipe`` delete its data too. False: there was nothing to do."""
        if not self.directory.exists():
            return False
        with self._locked(reporter):
            known = self._on_disk()
            running = [broker for broker in known if broker.daemon.pid is not None]
            _stop(running, at_once=wipe)
            for broker in known:
                broker.daemon.remove_pid_file()
            remaining = [path for path in self.directory.iterdir() if path.name != _LOCK]
            if wipe:
                for path in remaining:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            return bool(running) or (wipe and bool(remaining))

    def kill(self, broker_id: int) -> None:
        """Send SIGKILL to one process, as a crash would end it."""
        BrokerProcess(broker_id, self.directory).kill()

    def stop(self, broker_id: int) -> None:
        _stop([BrokerProcess(broker_id, self.directory)], at_once=False)

    def restart(self, broker_id: int, *, reporter: Reporter) -> None:
        """Start one process with its old ports and data, and wait until all running brokers are ready."""
        with self._locked(reporter):
            layout = self._layout()
            if layout is None:
                raise SandboxError(f"no sandbox in {self.directory}")
            launch = Launch(self.directory, _distribution_of(layout, reporter))
            launch.start(layout, only=[node for node in layout.nodes if node.node_id == broker_id])
            await_ready(replace(layout, nodes=tuple(self._running(layout))), launch.started)

    def log(self, broker_id: int) -> Path:
        return BrokerProcess(broker_id, self.directory).log

    def _start(
        self,
        before: Layout | None,
        layout: Layout,
        request: SandboxRequest,
        format_arguments: tuple[str, ...],
        reporter: Reporter,
    ) -> Layout:
        """Start what does not run. Ports may change only if nothing runs. After a failure the old state is restored."""
        kafka = _distribution_of(layout, reporter)
        layout = replace(layout, version=kafka.version)
        for attempt in range(_PORT_TRIES):
            may_choose_ports = not self._running(layout)
            if may_choose_ports:
                layout = request.with_ports(layout, preferred=self._preferred_port, retry=attempt > 0)
            write_layout(self.directory / _STATE, layout)
            launch = Launch(self.directory, kafka)
            try:
                launch.start(layout, format_arguments)
                await_ready(layout, launch.started)
                return layout
            except BaseException as error:
                launch.kill_started()
                if not (may_choose_ports and isinstance(error, PortTakenError)):
                    self._restore(before, layout)
                    raise
        self._restore(before, layout)
        raise SandboxError(f"other processes took every port, {_PORT_TRIES} times")

    def _restore(self, before: Layout | None, failed: Layout) -> None:
        """Restore the earlier layout, so that settings that failed are not used again; log files stay."""
        if before is not None:
            write_layout(self.directory / _STATE, before)
            return
        (self.directory / _STATE).unlink(missing_ok=True)
        for node in failed.nodes:
            shutil.rmtree(self._broker(node).data, ignore_errors=True)

    def _running(self, layout: Layout) -> list[Node]:
        return [node for node in layout.nodes if self._broker(node).daemon.pid is not None]

    def _status(self, layout: Layout | None) -> SandboxStatus:
        directory, cache = str(self.directory), str(cache_directory())
        if layout is None:
            return SandboxStatus(ProcessState.ABSENT, directory, cache)
        brokers = tuple(self._broker_status(node) for node in layout.nodes)
        runs = any(broker.pid is not None for broker in brokers)
        return SandboxStatus(
            state=overall_state(tuple(broker.state for broker in brokers)),
            directory=directory,
            cache_directory=cache,
            version=layout.version,
            cluster_id=layout.cluster_id,
            bootstrap_servers=layout.addresses() if runs else None,
            listeners={name: layout.addresses(name) for name in layout.listeners} if runs else {},
            brokers=brokers,
        )

    def _broker_status(self, node: Node) -> BrokerStatus:
        broker = self._broker(node)
        pid = broker.daemon.pid
        port = node.ports[CLIENTS if node.role.serves_clients else CONTROLLER]
        if pid is None:
            state = ProcessState.DIED if broker.daemon.died else ProcessState.STOPPED
        elif node.role is ProcessRole.CONTROLLER or answers(ports.HOST, port):
            state = ProcessState.RUNNING
        else:
            state = ProcessState.STARTING
        return BrokerStatus(
            id=node.node_id,
            role=node.role,
            state=state,
            host=ports.HOST,
            port=port,
            pid=pid,
            listeners=dict(node.ports),
            directory=str(broker.directory),
            log_file=str(broker.log),
        )

    @property
    def _preferred_port(self) -> int | None:
        return PREFERRED_PORT if self.directory == default_directory() else None

    def _layout(self) -> Layout | None:
        return read_layout(self.directory / _STATE)

    def _broker(self, node: Node) -> BrokerProcess:
        return BrokerProcess(node.node_id, self.directory)

    def _on_disk(self) -> list[BrokerProcess]:
        """The brokers by their directories: they must be stoppable even if the state file is damaged."""
        numbers = (path.name.removeprefix("node-") for path in self.directory.glob("node-*"))
        return [BrokerProcess(int(number), self.directory) for number in sorted(numbers) if number.isdecimal()]

    @contextmanager
    def _locked(self, reporter: Reporter) -> Iterator[None]:
        with exclusive_lock(self.directory / _LOCK, reporter.event, "another kgroup that works on this sandbox"):
            yield


def _stop(brokers: Iterable[BrokerProcess], *, at_once: bool) -> None:
    """Stop brokers first, in parallel; then the controller, which they need for that. ``at_once``: SIGKILL."""
    processes = list(brokers)
    for wave in (
        [broker for broker in processes if broker.node_id != CONTROLLER_ID],
        [broker for broker in processes if broker.node_id == CONTROLLER_ID],
    ):
        for broker in wave:
            broker.kill() if at_once else broker.terminate()
        for broker in wave:
            broker.await_end()
