"""The assignors of one protocol and their counterparts in the other."""

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
    """The server-side counterpart of a client's assignor, which is given as a name, a Java class or a list of them.

    range -> range; roundrobin, sticky, cooperative-sticky -> uniform. In a list the first decides: members vote for
    it. None for a custom assignor or an empty text. Source: Kafka's documentation of the protocol.
    """
    first = client_assignor.strip().strip("[]").split(",")[0].strip().strip("\"'")
    return _TO_SERVER.get(first.removeprefix(_CLIENT_PACKAGE))


def client_assignors(server_assignor: str) -> tuple[str, ...]:
    """The client's counterpart: uniform -> cooperative-sticky, range -> range; empty for a custom assignor."""
    found = _TO_CLIENT.get(server_name(server_assignor))
    return (found,) if found else ()


def server_name(assignor: str) -> str:
    """The short name of a server-side assignor; brokers may be configured with the class of a built-in one."""
    return _OF_SERVER.get(assignor.removeprefix(_SERVER_PACKAGE), assignor)
