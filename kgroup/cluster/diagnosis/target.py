"""The address to diagnose, and the sources of that address and of the protocol setting."""

from __future__ import annotations

import socket
import time

from kgroup.cluster.wire import left_s
from kgroup.settings.model import Settings


class DiagnosisTarget:
    """One address, the settings for connecting to it, and the time left; one object per diagnosis."""

    def __init__(self, settings: Settings, host: str, port: int, deadline_s: float) -> None:
        self.settings = settings
        self.host = host
        self.port = port
        self.where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.deadline = time.monotonic() + deadline_s
        self.may_pass = False
        """Whether a fault was only slowness, at the last step or at one before."""
        self.addresses: list[tuple[socket.AddressFamily, tuple[str, int]]] = []
        """The addresses of the host's name, set after the DNS lookup."""

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, for a socket."""
        return left_s(self.deadline)

    @property
    def origin(self) -> str:
        """A sentence on the address's source: the settings, or a broker that advertised it."""
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
        """A sentence with the effective security.protocol and its source."""
        named = f"security.protocol={self.settings.security_protocol}"
        if self.settings.get("security.protocol") is None:
            return f"{named} is the default."
        return f"{named} is from {self.settings.source('security.protocol')}."
