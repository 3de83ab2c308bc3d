"""The status of the sandbox, and of each of its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class ProcessState(StrEnum):
    """The state of one process, or of the whole sandbox."""

    RUNNING = "running"
    STARTING = "starting"
    """The process runs and does not answer (yet)."""
    DIED = "died"
    """Started, and gone without ``down``: killed or crashed."""
    STOPPED = "stopped"
    DEGRADED = "degraded"
    """Some processes run, others do not."""
    ABSENT = "absent"
    """There is no sandbox in this directory."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One process. ``pid`` is None if it does not run; ``port`` is for clients (or a controller's own)."""

    id: int
    role: str
    state: ProcessState
    host: str
    port: int
    pid: int | None
    listeners: Mapping[str, int]
    directory: str
    log_file: str


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """The whole sandbox. Without a running process ``bootstrap_servers`` is None, and ``listeners`` is empty.

    ``listeners`` has the bootstrap servers of the additional listeners, by name.
    """

    state: ProcessState
    directory: str
    cache_directory: str
    version: str | None = None
    cluster_id: str | None = None
    bootstrap_servers: str | None = None
    listeners: Mapping[str, str] = field(default_factory=dict)
    brokers: tuple[BrokerStatus, ...] = ()

    def document(self) -> Mapping[str, Any]:
        """The JSON form; controllers are in ``brokers`` too, with their role."""
        return asdict(self) | {"brokers": [asdict(broker) for broker in self.brokers]}


def overall_state(states: tuple[ProcessState, ...]) -> ProcessState:
    """The sandbox's state from the states of its processes."""
    if not states:
        return ProcessState.ABSENT
    if len(set(states)) == 1:
        return states[0]
    if ProcessState.DIED in states or ProcessState.STOPPED in states:
        alive = ProcessState.RUNNING in states or ProcessState.STARTING in states
        return ProcessState.DEGRADED if alive else ProcessState.DIED
    return ProcessState.STARTING
