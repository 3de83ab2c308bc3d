"""What a command returns: its data, and how to render it as a page, as csv rows and as metrics."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from kgroup.model.blocks import Records, Screen
from kgroup.model.groups import RowError
from kgroup.support.clock import utc_now
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode, decisive

if TYPE_CHECKING:
    from kgroup.model.metrics import ExportedMetrics


OutcomeItem: TypeAlias = msgspec.Struct | Callable[[], msgspec.Struct]
"""An item of a result: a Struct, whose fields are those of JSON, or what makes it for the formats that need it."""


def json_form(item: OutcomeItem) -> msgspec.Struct:
    return item() if callable(item) else item


class Outcome(msgspec.Struct, frozen=True):
    """The result of a command: its data, its page, its csv rows and its errors.

    Functions are called only for the output formats that need them.
    """

    data: tuple[OutcomeItem, ...]
    screen: Callable[[], Screen]
    records: Callable[[], Records]
    cluster: ClusterRef | None = None
    errors: tuple[RowError, ...] = ()
    executed: bool = False
    check_failed: bool = False
    """A requested condition does not hold (exit 8)."""
    done: bool | None = None
    """Whether a part of the request is done, or would be by executing the plan; None: if there is data."""
    decided: ExitCode | None = None
    """An exit code that cannot be derived from the other fields, such as that of an interrupted change."""
    going_on: bool = False
    """For ``--follow``: each result is written at once, in json as one line."""
    ends_watch: bool = False
    """For ``--watch``: nothing is left to be watched, so it ends with this result."""
    at: datetime = msgspec.field(default_factory=utc_now)
    """When the data was read."""
    exported: ExportedMetrics | None = None
    """What ``-o prometheus`` writes."""
    lines: Callable[[], Iterable[str]] | None = None
    """Makes the lines of ``-o jsonl``."""
    on_screen: tuple[RowError, ...] = ()
    """The errors that the page shows in full."""
    kind: str | None = None
    """Names the shape of the data if it is not the verb's usual one: ``migrate rollout`` is
    ``kgroup.migrate.rollout/v1``."""
    names: Callable[[], Iterable[str]] | None = None
    """Makes the lines of ``-o name``."""

    @property
    def exit_code(self) -> ExitCode:
        """``decided`` if set; otherwise derived from errors, ``done`` and ``check_failed``, and nowhere else."""
        if self.decided is not None:
            return self.decided
        if self.errors:
            done = bool(self.data) if self.done is None else self.done
            return ExitCode.PARTLY if done else decisive([error.exit_code for error in self.errors])
        return ExitCode.CHECK_FAILED if self.check_failed else ExitCode.DONE


Outcomes: TypeAlias = Generator[Outcome, None, None]
"""The results of a verb that reads while it prints. It holds open connections, so the receiver has to close it."""
