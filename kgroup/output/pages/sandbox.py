"""The page of ``kgroup sandbox``, and its rows for csv."""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.model.blocks import Block, Column, Records, Screen, Style, Styled, Table, Text, Title
from kgroup.model.outcome import Outcome
from kgroup.model.sandbox_status import BrokerStatus, ProcessState, SandboxStatus
from kgroup.support.cluster_ref import ClusterRef

_STYLES: Mapping[ProcessState, Style] = {
    ProcessState.RUNNING: "good",
    ProcessState.STARTING: "warn",
    ProcessState.DEGRADED: "bad",
    ProcessState.DIED: "bad",
}


_HEADER = ("id", "role", "state", "host", "port", "pid", "directory", "log_file")


def sandbox_outcome(status: SandboxStatus) -> Outcome:
    address = status.bootstrap_servers
    return Outcome(
        (status,),
        lambda: _screen(status),
        lambda: Records.of(_HEADER, status.brokers),
        cluster=ClusterRef(status.cluster_id, address) if address else None,
    )


def _screen(status: SandboxStatus) -> Screen:
    kafka = f", Kafka {status.version}" if status.version else ""
    blocks: list[Block] = [Title(f"sandbox {status.state}{kafka}")]
    if status.brokers:
        columns = (
            Column("ID", right=True),
            Column("ROLE", drop=3),
            Column("STATE"),
            Column("ADDRESS"),
            Column("PID", right=True, drop=2),
            Column("LOG-FILE", drop=4, fold=True, wide=True),
        )
        blocks.append(Table(columns, [_row(broker) for broker in status.brokers]))
    return Screen((*blocks, Text(_closing(status))))


def _row(broker: BrokerStatus) -> tuple[str | int | Styled | None, ...]:
    style = _STYLES.get(broker.state)
    state = Styled(broker.state, style) if style else broker.state.value
    return broker.id, broker.role, state, f"{broker.host}:{broker.port}", broker.pid, broker.log_file


def _closing(status: SandboxStatus) -> tuple[str, ...]:
    where = (f"data and logs: {status.directory}", f"Kafka itself:  {status.cache_directory}")
    match status.state:
        case ProcessState.ABSENT | ProcessState.STOPPED:
            return ("start it: kgroup sandbox up",)
        case ProcessState.DIED | ProcessState.DEGRADED:
            return (*where, "start the missing processes with their data: kgroup sandbox up")
        case _:
            return (*where, f"try: kgroup list -b {status.bootstrap_servers}")
