"""Names the cluster that a result or an error belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterRef:
    """The cluster that was asked. ``cluster_id`` is None until it answers; ``context`` is None if none is in use."""

    cluster_id: str | None
    bootstrap_servers: str
    context: str | None = None

    @property
    def label(self) -> str:
        """The name for messages: the context's name, otherwise the first address."""
        return self.context or self.bootstrap_servers.split(",")[0]
