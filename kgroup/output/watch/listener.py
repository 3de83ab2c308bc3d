"""One refresh of ``--watch``: its result, and its messages, which must not be written across the page."""

from __future__ import annotations

import io

from kgroup.model.outcome import Outcome
from kgroup.output.reporter import StderrReporter
from kgroup.output.watch.page import RefreshResult
from kgroup.output.watch.request import Refresh
from kgroup.support.clock import utc_now
from kgroup.support.errors import KgroupError


class RefreshListener:
    """Does the refreshes, and collects the messages of each."""

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
        return RefreshResult(at, outcomes, self.take_lines(), error, self.reporter.take_remarks())

    def take_lines(self) -> tuple[str, ...]:
        """The lines since the last call."""
        lines = tuple(self._messages.getvalue().splitlines())
        self._messages.seek(0)
        self._messages.truncate()
        return lines
