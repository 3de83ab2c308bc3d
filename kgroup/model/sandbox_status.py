"""The status of the sandbox, and of each of its processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from kgroup.support.json_types import Count, ExplainedEnum


class ProcessRole(ExplainedEnum):
    """The role of a process, as in Kafka's process.roles."""

    COMBINED = "broker,controller", "both"
    BROKER = "broker", "a broker"
    CONTROLLER = "controller", "a controller"

    @property
    def serves_clients(self) -> bool:
        """Whether clients may connect to it."""
        return self is not ProcessRole.CONTROLLER

    @property
    def votes(self) -> bool:
        """Whether it is a voter of the controller quorum."""
        return self is not ProcessRole.BROKER


class ProcessState(ExplainedEnum):
    RUNNING = "running", "it runs and answers"
    STARTING = "starting", "it runs and does not answer yet"
    DIED = "died", "it was started and is gone"
    STOPPED = "stopped", "it was stopped"
    DEGRADED = "degraded", "some processes run and others do not"
    ABSENT = "absent", "there is no sandbox"


class BrokerStatus(msgspec.Struct, frozen=True):
    """One process; a controller's port is its own."""

    id: Annotated[int, "The node id."]
    role: Annotated[ProcessRole, "Its roles."]
    state: Annotated[ProcessState, "Its state."]
    host: Annotated[str, "Its host."]
    port: Annotated[Count, "The port for clients."]
    pid: Annotated[Count | None, "The process id; null if it does not run."]
    listeners: Annotated[Mapping[str, Count], "The port of each listener."]
    directory: Annotated[str, "Its directory."]
    log_file: Annotated[str, "Its log file."]


class SandboxStatus(msgspec.Struct, frozen=True):
    state: Annotated[ProcessState, "The state of the sandbox."]
    directory: Annotated[str, "Its directory."]
    cache_directory: Annotated[str, "The directory of downloaded files."]
    version: Annotated[str | None, "The version of Kafka; null without a sandbox."] = None
    cluster_id: Annotated[str | None, "The cluster id; null without a sandbox."] = None
    bootstrap_servers: Annotated[str | None, "The bootstrap servers; null unless a process runs."] = None
    listeners: Annotated[Mapping[str, str], "Bootstrap servers of additional listeners, by name."] = {}
    brokers: Annotated[tuple[BrokerStatus, ...], "Brokers and controllers."] = ()


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
