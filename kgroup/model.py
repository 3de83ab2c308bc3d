"""The values that every part of kgroup speaks: groups, members, partitions, log ranges, errors of single rows.

Offsets are integers, unknown is None (never -1), durations carry their unit in the name. A snapshot is what was
read at one moment; nothing in it changes afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from kgroup.errors import ExitCode, KgroupError
from kgroup.screen import Records, Screen


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


@dataclass(frozen=True, slots=True)
class RowError:
    """What failed for one group, topic or partition, while the rest of the answer stands.

    ``exit_code`` is what the command exits with when nothing at all could be shown.
    """

    code: str
    message: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    hint: str | None = None
    exit_code: ExitCode = ExitCode.FAILED

    @classmethod
    def of(
        cls,
        error: KgroupError,
        *,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> RowError:
        """The same fault, as one row's."""
        return cls(error.code, error.message, group, topic, partition, error.hint, error.exit_code)

    @property
    def subject(self) -> str:
        """The group and ``topic:partition`` that it is about, as far as they are known."""
        place = self.topic if self.partition is None else f"{self.topic}:{self.partition}"
        return " ".join(part for part in (self.group, place) if part is not None)


class Document(Protocol):
    """A subject of an answer that knows its own JSON form."""

    def document(self) -> Mapping[str, Any]:
        """Field names in snake_case, null for unknown, offsets as integers, times as RFC 3339 UTC."""


class Progress(Protocol):
    """A running count, shown as a bar in a terminal."""

    def update(self, done: int) -> None:
        """Set how much is done, in the unit that the bar was made with."""


class Reporter(Protocol):
    """Everything that is said beside the result, on stderr."""

    def event(self, word: str, text: str) -> None:
        """One line that begins with the time and a fixed upper-case word (WAIT, RELEASED, ...)."""

    def note(self, text: str) -> None:
        """A fact about the result, such as what could not be read."""

    def warn(self, text: str) -> None:
        """Something that the user ought to change."""

    def progress(self, label: str, total: int, unit: str) -> AbstractContextManager[Progress]:
        """A bar of ``total`` units while the block runs; plain lines where stderr is no terminal."""


def utc_now() -> datetime:
    """The present moment, with its zone."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command has to say: the data, and how it looks to a person and in a spreadsheet.

    ``screen`` and ``records`` are called only for the output formats that need them. ``at`` is when the data
    was read. ``check_failed`` is for commands that were asked whether something holds (exit 8).
    """

    data: tuple[Document, ...]
    screen: Callable[[], Screen]
    records: Callable[[], Records]
    cluster: ClusterRef | None = None
    errors: tuple[RowError, ...] = ()
    executed: bool = False
    check_failed: bool = False
    at: datetime = field(default_factory=utc_now)

    @property
    def exit_code(self) -> ExitCode:
        """Derived here and nowhere else: all, part or nothing of what was asked succeeded."""
        if self.errors:
            return ExitCode.PARTLY if self.data else self.errors[0].exit_code
        return ExitCode.CHECK_FAILED if self.check_failed else ExitCode.DONE
