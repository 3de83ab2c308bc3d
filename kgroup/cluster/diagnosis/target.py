"""The address that is examined, and where it and the way of asking it come from."""

from __future__ import annotations

import socket
import time

from kgroup.settings.model import Settings


class DiagnosisTarget:
    """One address, the settings it is asked with, and the time that is left for it; one for each diagnosis."""

    def __init__(self, settings: Settings, host: str, port: int, deadline_s: float) -> None:
        self.settings = settings
        self.host = host
        self.port = port
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.deadline = time.monotonic() + deadline_s
        self.may_pass = False
        """Whether a fault was nothing but slowness, on the way to the verdict or as the verdict."""
        self.addresses: list[tuple[socket.AddressFamily, tuple[str, int]]] = []
        """What the host's name stands for, once it was looked up."""

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, for a socket."""
        return left_s(self.deadline)

    @property
    def origin(self) -> str:
        """Where the address is from: the settings, or a broker that advertised it."""
        given = [server.strip() for server in self.settings.bootstrap_servers.split(",")]
        source = self.settings.source("bootstrap.servers")
        if self.where in given or (self.port == 9092 and self.host in given):
            return f"{self.where} is from {source}."
        return (
            f"{self.where} is not from your settings: a broker names it (advertised.listeners) "
            f"to who asks {given[0]}, from {source}."
        )

    @property
    def protocol_origin(self) -> str:
        """Which security.protocol is in force, and where it is from."""
        named = f"security.protocol={self.settings.security_protocol}"
        if self.settings.get("security.protocol") is None:
            return f"{named} is the default."
        return f"{named} is from {self.settings.source('security.protocol')}."


def left_s(deadline: float) -> float:
    """Seconds until the deadline, for a socket: never zero, which would mean "do not wait at all"."""
    return max(deadline - time.monotonic(), 0.001)
