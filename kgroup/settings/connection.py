"""The connection options of a command line, a notebook or a completion; ``sources`` resolves them to settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Connection:
    """The connection options of one level. Flag > environment > context file; None: not given on this level."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    property: list[str] | None = None
    context: str | None = None
    timeout: str | None = None

    def with_defaults(self, outer: Connection) -> Connection:
        """These options; those not given are taken from ``outer``. ``-X`` settings of both count, these win."""
        return Connection(
            bootstrap_server=_first_given(self.bootstrap_server, outer.bootstrap_server),
            command_config=_first_given(self.command_config, outer.command_config),
            property=[*(outer.property or ()), *(self.property or ())] or None,
            context=_first_given(self.context, outer.context),
            timeout=_first_given(self.timeout, outer.timeout),
        )


def _first_given(inner: T | None, outer: T | None) -> T | None:
    """An empty value counts as given (``-b "$PROD"`` with PROD unset); it is an error later."""
    return outer if inner is None else inner
