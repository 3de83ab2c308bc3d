"""How to reach a cluster, as a command line, a notebook or a half-typed line gives it; ``sources`` resolves it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach the cluster. Flag > environment > context file; None means: not said on this level."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    property: list[str] | None = None
    context: str | None = None
    timeout: str | None = None

    def over(self, outer: Connection) -> Connection:
        """These, and where they say nothing, ``outer``'s; ``-X`` settings of both, these last."""
        return Connection(
            bootstrap_server=_said(self.bootstrap_server, outer.bootstrap_server),
            command_config=_said(self.command_config, outer.command_config),
            property=[*(outer.property or ()), *(self.property or ())] or None,
            context=_said(self.context, outer.context),
            timeout=_said(self.timeout, outer.timeout),
        )


def _said(inner: T | None, outer: T | None) -> T | None:
    """An empty value is something that was said (``-b "$PROD"`` without PROD), and an error later on."""
    return outer if inner is None else inner
