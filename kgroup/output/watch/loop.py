"""Show the refreshes of ``--watch``: a page redrawn in a terminal, elsewhere one line of JSON per refresh."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

from kgroup.model.output_format import Format
from kgroup.output.formats.envelope import of_refresh, write_json_line
from kgroup.output.reporter import StderrReporter
from kgroup.output.streams import drop_stdout, stdout_errors
from kgroup.output.terminal.draw import draw
from kgroup.output.watch.refresh import Refresher, RefreshResult, next_start_s
from kgroup.output.watch.request import Refresh, WatchedVerb
from kgroup.settings.environment import is_dumb_terminal
from kgroup.support.clock import utc_now
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode, KgroupError
from kgroup.support.stdout_reader import StdoutClosed, pause

_WORD = "WATCH"


def watch(verb: str, watched: WatchedVerb, reporter: StderrReporter) -> ExitCode:
    """Refresh until the user quits or stdout has no reader (DONE), nothing is left, or a refresh fails for good.

    A failure for good returns its exit code, or raises its KgroupError if no line of JSON reports it. The first refresh
    fails for good if it shows nothing, a later one only if the error cannot go away.
    """
    if watched.form is Format.JSON:
        return _watch_in_lines(watched, reporter, _Json(verb))
    if sys.stdout.isatty() and not is_dumb_terminal():
        from kgroup.output.watch.terminal import watch_in_terminal

        return watch_in_terminal(watched, reporter)
    return _watch_in_lines(watched, reporter, _Pages(wide=watched.form is Format.WIDE))


class _Json:
    """One line per refresh: the same envelope as without ``--watch``, and ``at``, the time of the refresh."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._cluster: ClusterRef | None = None

    def __call__(self, result: RefreshResult) -> None:
        """Write the line, also for a failed refresh."""
        self._cluster = next((outcome.cluster for outcome in result.outcomes if outcome.cluster), self._cluster)
        write_json_line(
            of_refresh(self._verb, result.at, result.outcomes, result.error, self._cluster, result.remarks), sys.stdout
        )


class _Pages:
    """Page below page, where nothing can be redrawn; a failed refresh is reported only on stderr."""

    def __init__(self, *, wide: bool) -> None:
        self._wide = wide
        self._drawn = False

    def __call__(self, result: RefreshResult) -> None:
        if result.failure is not None:
            return
        for outcome in result.outcomes:
            screen = outcome.screen()
            if screen.blocks:
                sys.stdout.write("\n" if self._drawn else "")
                draw(outcome, screen=screen, wide=self._wide)
                self._drawn = True


def _watch_in_lines(watched: WatchedVerb, reporter: StderrReporter, write: _Json | _Pages) -> ExitCode:
    """Refresh and write until stdout has no reader, nothing is left to be watched, or a refresh fails for good."""
    refresher = Refresher()
    try:
        with ExitStack() as stack:
            try:
                refresh = stack.enter_context(watched.connect(refresher.reporter))
            except KgroupError as error:
                if not isinstance(write, _Json):
                    raise
                _write(write, RefreshResult(utc_now(), error=error, remarks=refresher.reporter.take_remarks()))
                reporter.error(error)
                return error.exit_code
            return _refresh_until_end(refresh, watched.every_s, refresher, reporter, write)
    except StdoutClosed:
        drop_stdout()
        return ExitCode.DONE


def _refresh_until_end(
    refresh: Refresh, every_s: float, refresher: Refresher, reporter: StderrReporter, write: _Json | _Pages
) -> ExitCode:
    previous: RefreshResult | None = None
    while True:
        started_s = time.monotonic()
        result = refresher.run(refresh)
        _write(write, result)
        _report(reporter, result, previous)
        if result.ends_watch(first=previous is None):
            return result.failure or result.exit_code
        previous = result
        now_s = time.monotonic()
        pause(next_start_s(started_s, now_s, every_s) - now_s)


def _write(write: _Json | _Pages, result: RefreshResult) -> None:
    with stdout_errors():
        write(result)
        sys.stdout.flush()


def _report(reporter: StderrReporter, result: RefreshResult, previous: RefreshResult | None) -> None:
    """Report the messages that are new, and when refreshes start or cease to fail."""
    if previous is not None and (previous.failure is None) != (result.failure is None):
        reporter.event(_WORD, "answered again" if result.failure is None else "a refresh failed; kgroup tries again")
    known = frozenset(previous.lines) if previous else frozenset()
    for line in result.lines:
        if line not in known:
            reporter.line(line)
