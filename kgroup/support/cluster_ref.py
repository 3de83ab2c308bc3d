"""Which cluster an answer or an error is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """Which cluster was asked. ``cluster_id`` is None before it answered, ``context`` where none is in use."""

    cluster_id: str | None
    bootstrap_servers: str
    context: str | None = None

    @property
    def label(self) -> str:
        """What a person calls it: the context's name, else the first address."""
        return self.context or self.bootstrap_servers.split(",")[0]
