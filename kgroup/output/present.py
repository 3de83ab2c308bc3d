"""Write what a command returned in the requested format; the exit code comes from the outcomes."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from typing import IO

from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.output.formats.envelope import of_error, of_refresh, write_json, write_json_line, write_yaml
from kgroup.output.formats.streamed import StreamedDocument
from kgroup.output.remarks import NO_REMARKS, Remarks
from kgroup.output.reporter import StderrReporter
from kgroup.output.streams import OutputError, drop_stdout, stdout_errors, use_utf8
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode, KgroupError, decisive
from kgroup.support.quoting import json_safe, visible
from kgroup.support.stdout_reader import StdoutClosed

_DOCUMENTS = (Format.JSON, Format.YAML)


def present(
    verb: str,
    outcomes: Iterable[Outcome],
    output: Format,
    argv: Sequence[str],
    reporter: StderrReporter,
    *,
    with_headers: bool = True,
) -> ExitCode:
    """Write the outcomes to stdout and their failed rows to stderr.

    All formats but markdown are written as the outcomes arrive. json and yaml are one document; if the verb fails
    after its beginning is written, the error is the last one in it. If a verb with ``going_on`` outcomes fails, the
    error is a JSON line too. Raises OutputError if stdout cannot be written; if its reader is gone, the rest is not
    written.
    """
    if output in (Format.JSONL, Format.KCG, Format.NAME, Format.PROMETHEUS):
        use_utf8()
    shown = _Presentation(verb, output, argv, reporter, with_headers)
    try:
        for outcome in outcomes:
            shown.add(outcome)
        with stdout_errors():
            shown.end()
    except StdoutClosed:
        drop_stdout()
    except KgroupError as error:
        if isinstance(error, OutputError) or not shown.has_begun:
            raise
        reporter.error(error)
        try:
            with stdout_errors():
                shown.end_with(error)
        except StdoutClosed:
            drop_stdout()
        return error.exit_code
    return combined(shown.codes, any_data=shown.any_data)


class _Presentation:
    """What is written while the outcomes arrive, and their exit codes."""

    def __init__(
        self, verb: str, output: Format, argv: Sequence[str], reporter: StderrReporter, with_headers: bool
    ) -> None:
        self._verb, self._output, self._argv, self._reporter = verb, output, argv, reporter
        self._with_headers = with_headers
        self._document = (
            StreamedDocument(verb, sys.stdout, yaml=output is Format.YAML) if output in _DOCUMENTS else None
        )
        self._kept: list[Outcome] = []
        self._drawn = 0
        self._in_lines = False
        self.codes: list[ExitCode] = []
        self.any_data = False

    @property
    def has_begun(self) -> bool:
        """Whether a part of JSON or YAML is written, so that an error belongs there too."""
        return self._in_lines or (self._document is not None and self._document.begun)

    def add(self, outcome: Outcome) -> None:
        """Write the outcome, or keep it for the end; report its errors."""
        self.codes.append(outcome.exit_code)
        self.any_data = self.any_data or bool(outcome.data)
        if outcome.going_on:
            with stdout_errors():
                _write_line(self._verb, outcome, self._output, self._reporter, self._with_headers)
                sys.stdout.flush()
            self._in_lines = self._output is Format.JSON
            self._reporter.row_errors(outcome.errors)
        elif self._document is not None:
            self._reporter.row_errors(outcome.errors)
            with stdout_errors():
                self._document.add(outcome)
        elif self._output is Format.MARKDOWN:
            self._reporter.row_errors(outcome.errors)
            self._kept.append(outcome)
        else:
            try:
                with stdout_errors():
                    self._drawn += _write_one(outcome, self._output, self._drawn, self._with_headers)
                    sys.stdout.flush()
            finally:
                self._reporter.row_errors(_unseen_errors(outcome, self._output))

    def end(self) -> None:
        """Write the rest."""
        if self._document is not None:
            self._document.end(self._reporter.take_remarks())
        elif self._output is Format.MARKDOWN:
            _write_markdown(self._kept, self._argv, self._reporter)
        sys.stdout.flush()

    def end_with(self, error: KgroupError) -> None:
        """Write the error that ended the command, and the rest of a document that has begun."""
        remarks = self._reporter.take_remarks()
        if self._document is not None and self._document.begun:
            self._document.end(remarks, RowError.of(error))
        else:
            write_json_line(of_refresh(self._verb, utc_now(), (), error, None, remarks), sys.stdout)
        sys.stdout.flush()


def present_error(verb: str, error: KgroupError, output: Format, remarks: Remarks = NO_REMARKS) -> None:
    """Write the envelope of a failed command, if the format has one; the caller writes the message to stderr."""
    if output is Format.JSON:
        write_json(of_error(verb, error, remarks), sys.stdout)
    elif output is Format.YAML:
        write_yaml(of_error(verb, error, remarks), sys.stdout)


def combined(codes: Sequence[ExitCode], *, any_data: bool = True) -> ExitCode:
    """The exit code of several outcomes: their own if they agree, else PARTLY.

    If none had data, nothing was done even in part: the decisive failure's code. DONE and CHECK_FAILED: CHECK_FAILED.
    """
    distinct = set(codes)
    if len(distinct) <= 1:
        return next(iter(distinct), ExitCode.DONE)
    if not any_data:
        return decisive([code for code in codes if code is not ExitCode.DONE])
    return ExitCode.CHECK_FAILED if distinct == {ExitCode.DONE, ExitCode.CHECK_FAILED} else ExitCode.PARTLY


def _unseen_errors(outcome: Outcome, output: Format) -> tuple[RowError, ...]:
    """The errors for stderr: without those that the page shows in full, if both streams are in the same terminal."""
    if output not in (Format.TABLE, Format.WIDE) or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return outcome.errors
    return tuple(error for error in outcome.errors if error not in outcome.on_screen)


def _write_markdown(kept: Sequence[Outcome], argv: Sequence[str], reporter: StderrReporter) -> None:
    from kgroup.output.formats.markdown import markdown_lines

    sys.stdout.writelines(line + "\n" for line in markdown_lines(kept, argv, reporter.take_remarks()))


def _write_one(outcome: Outcome, output: Format, drawn: int, with_headers: bool) -> int:
    """Write one outcome after ``drawn`` others; returns 1 if there was anything to write, else 0."""
    if output is Format.PROMETHEUS:
        _write_metrics(outcome)
        return 1
    if output is Format.JSONL:
        sys.stdout.writelines(map(json_safe, outcome.lines() if outcome.lines else ()))
        return 1
    if output is Format.NAME:
        sys.stdout.writelines(f"{visible(name)}\n" for name in (outcome.names() if outcome.names else ()))
        return 1
    if output in (Format.CSV, Format.KCG):
        _write_records(outcome, with_header=with_headers and drawn == 0 and output is Format.CSV)
        return 1
    from kgroup.output.terminal.draw import draw

    screen = outcome.screen()
    if not screen.blocks:
        return 0
    if drawn:
        sys.stdout.write("\n")
    draw(outcome, screen=screen, wide=output is Format.WIDE, with_headers=with_headers)
    return 1


def _write_line(verb: str, outcome: Outcome, output: Format, reporter: StderrReporter, with_headers: bool) -> None:
    """Write one outcome of a verb that continues; in JSON it is one line, in CSV rows without a header."""
    if output is Format.JSON:
        remarks = reporter.take_remarks()
        write_json_line(of_refresh(verb, outcome.at, (outcome,), None, outcome.cluster, remarks), sys.stdout)
    elif output is Format.CSV:
        _write_records(outcome, with_header=False)
    else:
        _write_one(outcome, output, 0, with_headers)


def _write_metrics(outcome: Outcome) -> None:
    from kgroup.output.formats.prometheus import exposition
    from kgroup.support.atomic_file import AtomicFile

    assert outcome.exported is not None
    text = exposition(outcome.exported.metrics())
    if outcome.exported.path is None:
        sys.stdout.write(text)
        return
    with AtomicFile(outcome.exported.path, "--metrics-file", replaces=True) as file:
        file.write(text.encode())


_ROWS_AT_ONCE = 1_000


def _write_records(outcome: Outcome, *, with_header: bool) -> None:
    records = outcome.records()
    lines = _UnixLines(sys.stdout)
    plain, quoting = (csv.writer(lines, quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    try:
        if with_header:
            plain.writerow(records.header)
        for row in records.rows:
            # Unquoted, an empty group id would be a missing field, and a leading U+FEFF a byte order mark.
            (quoting if row[0] == "" or str(row[0]).startswith("\ufeff") else plain).writerow(row)
    finally:
        lines.flush()


class _UnixLines:
    """Ends rows with a line feed only; csv quotes a carriage return only if its line terminator contains one.

    Rows are collected, which halves the time for a million of them.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: list[str] = []

    def write(self, row: str) -> None:
        """Add one row, which ends with CR LF."""
        self._lines.append(row[:-2])
        if len(self._lines) == _ROWS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what was collected; a write that a signal interrupts is not repeated."""
        lines, self._lines = self._lines, []
        if lines:
            self._stream.write("\n".join(lines) + "\n")
