"""Write what a command returned in the requested format; the exit code comes from the outcomes."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import IO

from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.output.formats.envelope import of_error, of_outcomes, of_refresh, write_json, write_json_line, write_yaml
from kgroup.output.remarks import NO_REMARKS, Remarks
from kgroup.output.reporter import StderrReporter
from kgroup.output.streams import OutputError, drop_stdout, stdout_errors, use_utf8
from kgroup.support.clock import utc_now
from kgroup.support.errors import ExitCode, KgroupError
from kgroup.support.stdout_reader import StdoutClosed

_IN_ONE_PIECE = (Format.JSON, Format.YAML, Format.MARKDOWN)


def present(
    verb: str, outcomes: Iterable[Outcome], output: Format, argv: Sequence[str], reporter: StderrReporter
) -> ExitCode:
    """Write the outcomes to stdout and their failed rows to stderr.

    csv, kcg and tables are written as the outcomes arrive; json, yaml and markdown are one document, written at the
    end. If a verb that writes JSON lines fails, the error is a JSON line too. Raises OutputError if stdout cannot be
    written; if its reader is gone, the rest is not written.
    """
    if output in (Format.KCG, Format.PROMETHEUS):
        use_utf8()
    codes: list[ExitCode] = []
    kept: list[Outcome] = []
    any_data, in_lines, drawn = False, False, 0
    try:
        for outcome in outcomes:
            codes.append(outcome.exit_code)
            any_data = any_data or bool(outcome.data)
            if outcome.going_on:
                with stdout_errors():
                    _write_line(verb, outcome, output, reporter)
                    sys.stdout.flush()
                in_lines = output is Format.JSON
                reporter.row_errors(outcome.errors)
                continue
            if output in _IN_ONE_PIECE:
                kept.append(outcome)
                reporter.row_errors(outcome.errors)
                continue
            try:
                with stdout_errors():
                    drawn += _write_one(outcome, output, drawn)
                    sys.stdout.flush()
            finally:
                reporter.row_errors(outcome.errors)
        with stdout_errors():
            _write_kept(verb, kept, output, argv, reporter)
            sys.stdout.flush()
    except StdoutClosed:
        drop_stdout()
    except KgroupError as error:
        if not in_lines or isinstance(error, OutputError):
            raise
        reporter.error(error)
        try:
            with stdout_errors():
                write_json_line(of_refresh(verb, utc_now(), (), error, None, reporter.take_remarks()), sys.stdout)
                sys.stdout.flush()
        except StdoutClosed:
            drop_stdout()
        return error.exit_code
    return combined(codes, any_data=any_data)


def present_error(verb: str, error: KgroupError, output: Format, remarks: Remarks = NO_REMARKS) -> None:
    """Write the envelope of a failed command, if the format has one; the caller writes the message to stderr."""
    if output is Format.JSON:
        write_json(of_error(verb, error, remarks), sys.stdout)
    elif output is Format.YAML:
        write_yaml(of_error(verb, error, remarks), sys.stdout)


def combined(codes: Sequence[ExitCode], *, any_data: bool = True) -> ExitCode:
    """The exit code of several outcomes: their own if they agree, else PARTLY.

    If none had data, nothing was done even in part: the first failure's code. DONE with CHECK_FAILED is CHECK_FAILED.
    """
    distinct = set(codes)
    if len(distinct) <= 1:
        return next(iter(distinct), ExitCode.DONE)
    if not any_data:
        return next(code for code in codes if code is not ExitCode.DONE)
    return ExitCode.CHECK_FAILED if distinct == {ExitCode.DONE, ExitCode.CHECK_FAILED} else ExitCode.PARTLY


def _write_kept(
    verb: str, kept: Sequence[Outcome], output: Format, argv: Sequence[str], reporter: StderrReporter
) -> None:
    match output:
        case Format.JSON:
            write_json(of_outcomes(verb, kept, reporter.take_remarks()), sys.stdout)
        case Format.YAML:
            write_yaml(of_outcomes(verb, kept, reporter.take_remarks()), sys.stdout)
        case Format.MARKDOWN:
            from kgroup.output.formats.markdown import markdown_lines

            sys.stdout.writelines(line + "\n" for line in markdown_lines(kept, argv, reporter.take_remarks()))
        case _:
            pass


def _write_one(outcome: Outcome, output: Format, drawn: int) -> int:
    """Write one outcome after ``drawn`` others; returns 1 if there was anything to write, else 0."""
    if output is Format.PROMETHEUS:
        _write_metrics(outcome)
        return 1
    if output in (Format.CSV, Format.KCG):
        _write_records(outcome, with_header=drawn == 0 and output is Format.CSV)
        return 1
    from kgroup.output.terminal.draw import draw

    screen = outcome.screen()
    if not screen.blocks:
        return 0
    if drawn:
        sys.stdout.write("\n")
    draw(replace(outcome, screen=lambda: screen), wide=output is Format.WIDE)
    return 1


def _write_line(verb: str, outcome: Outcome, output: Format, reporter: StderrReporter) -> None:
    """Write one outcome of a verb that continues; in JSON it is one line, in CSV rows without a header."""
    if output is Format.JSON:
        remarks = reporter.take_remarks()
        write_json_line(of_refresh(verb, outcome.at, (outcome,), None, outcome.cluster, remarks), sys.stdout)
    elif output is Format.CSV:
        _write_records(outcome, with_header=False)
    else:
        _write_one(outcome, output, 0)


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


def _write_records(outcome: Outcome, *, with_header: bool) -> None:
    records = outcome.records()
    plain, quoting = (csv.writer(_UnixLines(sys.stdout), quoting=how) for how in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    if with_header:
        plain.writerow(records.header)
    for row in records.rows:
        # Unquoted, an empty group id would be a missing field, and a leading U+FEFF a byte order mark.
        (quoting if row[0] == "" or str(row[0]).startswith("\ufeff") else plain).writerow(row)


class _UnixLines:
    """Ends rows with a line feed only; csv quotes a carriage return only if its line terminator contains one."""

    def __init__(self, stream: IO[str]) -> None:
        self._write = stream.write

    def write(self, row: str) -> int:
        """Write one row, which ends with CR LF."""
        return self._write(row[:-2] + "\n")
