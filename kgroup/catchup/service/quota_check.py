"""Which quota of the brokers limits the client id of a replay, and the command that sets one. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kgroup.catchup.service.sink_checks import SinkFinding
from kgroup.cluster.client_quotas import CONSUMER_BYTES, PRODUCER_BYTES
from kgroup.groups.catchup.risks import RiskLevel
from kgroup.model.kafka_tools import tool_flags
from kgroup.support.errors import KgroupError
from kgroup.support.quoting import quote
from kgroup.support.units import human_bytes

_EXAMPLE = 20 * 1024 * 1024


def quota_finding(quotas: Mapping[str, float] | KgroupError, client_id: str) -> SinkFinding:
    """The line of the plan; ``quotas`` are those that limit this client id, or why they are unknown."""
    name = f"--entity-type clients --entity-name {quote(client_id)}"
    command = f"kafka-configs.sh {tool_flags()} --alter {name} --add-config consumer_byte_rate={_EXAMPLE}"
    if isinstance(quotas, KgroupError):
        text = f"unknown whether a quota limits client id {client_id} ({quotas.message}); to set one:  {command}"
    elif quotas:
        limits = ", ".join(_text(kind, value) for kind, value in sorted(quotas.items()))
        text = f"a quota of each broker limits client id {client_id}: {limits}"
    else:
        text = f"no quota limits client id {client_id}; to set one:  {command}"
    return SinkFinding(RiskLevel.NOTE, text)


def _text(kind: str, value: float) -> str:
    """``consumer_byte_rate 20 MiB/s``, ``request_percentage 50``; kinds are named as ``kafka-configs.sh`` does."""
    return f"{kind} {human_bytes(round(value))}/s" if kind in (CONSUMER_BYTES, PRODUCER_BYTES) else f"{kind} {value:g}"
