"""One refresh of ``--watch``: its result and messages, when the next one begins, and which failure ends the watch."""

from __future__ import annotations

import io
from datetime import datetime

import msgspec

from kgroup.model.outcome import Outcome
from kgroup.output.present import combined
from kgroup.output.remarks import NO_REMARKS, Remarks
from kgroup.output.reporter import StderrReporter
from kgroup.output.watch.request import Refresh
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode, KgroupError

_PERMANENT = frozenset({ExitCode.USAGE, ExitCode.NOT_AUTHORIZED})


class RefreshResult(msgspec.Struct, frozen=True):
    """The result of a refresh: outcomes, or the error that ended it.

    ``lines`` are the lines shown with them: notes, and what could not be read. ``remarks`` are only the warnings and
    notes.
    """

    at: datetime
    outcomes: tuple[Outcome, ...] = ()
    lines: tuple[str, ...] = ()
    error: KgroupError | None = None
    remarks: Remarks = NO_REMARKS

    @property
    def failure(self) -> ExitCode | None:
        """The exit code if the refresh shows nothing; None if it shows something, or there is nothing to show."""
        if self.error is not None:
            return self.error.exit_code
        if any(outcome.data or not outcome.errors for outcome in self.outcomes):
            return None
        return combined([outcome.exit_code for outcome in self.outcomes], any_data=False) if self.outcomes else None

    @property
    def is_last(self) -> bool:
        """Whether nothing is left to be watched."""
        return self.failure is None and bool(self.outcomes) and all(outcome.ends_watch for outcome in self.outcomes)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a watch that ends with this refresh: without ``--watch`` it would be the same."""
        codes = [outcome.exit_code for outcome in self.outcomes]
        return combined(codes, any_data=any(outcome.data for outcome in self.outcomes))

    def ends_watch(self, *, first: bool) -> bool:
        """Whether nothing is left to be watched, or the refresh failed for good.

        The first failure always does: a mistyped group never appears. Later, a cluster or a group may come back, but a
        right that was revoked does not.
        """
        return self.is_last or (self.failure is not None and (first or self.failure in _PERMANENT))


class Refresher:
    """Does the refreshes, and collects the messages of each, which must not be written across the page."""

    def __init__(self) -> None:
        self._messages = io.StringIO()
        self.reporter = StderrReporter(self._messages)

    def run(self, refresh: Refresh) -> RefreshResult:
        """Do one refresh. A KgroupError makes it a failed refresh; a bug keeps its traceback."""
        outcomes: tuple[Outcome, ...] = ()
        error: KgroupError | None = None
        try:
            outcomes = tuple(refresh())
        except KgroupError as failure:
            error = failure
            self.reporter.error(failure)
        for outcome in outcomes:
            self.reporter.row_errors(outcome.errors)
        at = outcomes[0].at if outcomes else utc_now()
        lines = tuple(self._messages.getvalue().splitlines())
        self._messages.seek(0)
        self._messages.truncate()
        return RefreshResult(at, outcomes, lines, error, self.reporter.take_remarks())


def next_start_s(started_s: float, ended_s: float, every_s: float) -> float:
    """When the next refresh begins: ``every_s`` after the start of the last, and ``every_s`` / 2 after its end."""
    return max(started_s + every_s, ended_s + every_s / 2)
