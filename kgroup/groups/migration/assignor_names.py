"""Assignors of the one protocol and what stands for them in the other."""

from __future__ import annotations

_TO_SERVER = {
    "range": "range",
    "roundrobin": "uniform",
    "sticky": "uniform",
    "cooperative-sticky": "uniform",
    "RangeAssignor": "range",
    "RoundRobinAssignor": "uniform",
    "StickyAssignor": "uniform",
    "CooperativeStickyAssignor": "uniform",
}
_CLIENT_PACKAGE = "org.apache.kafka.clients.consumer."
_SERVER_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
_TO_CLIENT = {"uniform": "cooperative-sticky", "range": "range"}
_OF_SERVER = {"UniformAssignor": "uniform", "RangeAssignor": "range"}


def server_assignor(client_assignor: str) -> str | None:
    """The server-side assignor that does what a client's does: its name, its Java class, or a list of them.

    range -> range; roundrobin, sticky, cooperative-sticky -> uniform. Of a list the first decides: it is the one that
    the members vote for. None for a custom one, and for nothing. Source: Kafka's documentation of the protocol.
    """
    first = client_assignor.strip().strip("[]").split(",")[0].strip().strip("\"'")
    return _TO_SERVER.get(first.removeprefix(_CLIENT_PACKAGE))


def client_assignors(server_assignor: str) -> tuple[str, ...]:
    """The client's for one of the server's: uniform -> cooperative-sticky, range -> range; none for a custom one."""
    found = _TO_CLIENT.get(server_name(server_assignor))
    return (found,) if found else ()


def server_name(assignor: str) -> str:
    """What members call it: brokers may be given a built-in assignor by its class."""
    return _OF_SERVER.get(assignor.removeprefix(_SERVER_PACKAGE), assignor)
