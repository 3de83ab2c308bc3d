"""What a command returns: the data, and how it looks to a person, in a spreadsheet and to a monitoring system."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kgroup.model.blocks import Records, Screen
from kgroup.model.groups import RowError
from kgroup.support.clock import utc_now
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode

if TYPE_CHECKING:
    from kgroup.model.metrics import Exported


class Document(Protocol):
    """A subject of an answer that knows its own JSON form."""

    def document(self) -> Mapping[str, Any]:
        """Field names in snake_case, null for unknown, offsets as integers, times as RFC 3339 UTC."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command has to say: the data, and how it looks to a person and in a spreadsheet.

    ``screen`` and ``records`` are called only for the output formats that need them. ``at`` is when the data
    was read. ``check_failed`` is for commands that were asked whether something holds (exit 8). ``decided`` is
    the exit code of a verb that knows it better than data and errors tell: a plan that could not be applied.
    ``exported`` is what ``-o prometheus`` writes. ``going_on`` is for verbs that follow: it is written at once, in
    json as a line of its own.
    """

    data: tuple[Document, ...]
    screen: Callable[[], Screen]
    records: Callable[[], Records]
    cluster: ClusterRef | None = None
    errors: tuple[RowError, ...] = ()
    executed: bool = False
    check_failed: bool = False
    decided: ExitCode | None = None
    going_on: bool = False
    at: datetime = field(default_factory=utc_now)
    exported: Exported | None = None

    @property
    def exit_code(self) -> ExitCode:
        """Derived here and nowhere else: all, part or nothing of what was asked succeeded."""
        if self.decided is not None:
            return self.decided
        if self.errors:
            return ExitCode.PARTLY if self.data else self.errors[0].exit_code
        return ExitCode.CHECK_FAILED if self.check_failed else ExitCode.DONE


Outcomes: TypeAlias = Generator[Outcome, None, None]
"""What a verb returns that reads while it is shown. Connections are open in it: whoever is given one closes it."""
