"""The command line: the static table of verbs, which are imported lazily, and errors turned into exit codes.

Importing this module imports no Kafka client and no verb; ``--help`` reads only the table.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, redirect_stdout, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer

import kgroup
from kgroup.cli import hints
from kgroup.cli.tree import UnknownVerb, VerbTree
from kgroup.cli.typer_adapter import VerbResult, root
from kgroup.cli.verbs import BY_NAME
from kgroup.model.output_format import Format, formats_of
from kgroup.output import streams
from kgroup.output.reporter import StderrReporter
from kgroup.settings.connection import Connection
from kgroup.settings.environment import variable, variables_set
from kgroup.settings.invocation import Invocation, Presentation
from kgroup.support.errors import ExitCode, KgroupError, UsageError
from kgroup.support.hint import hints_with_options
from kgroup.support.quoting import join
from kgroup.support.redact import redact_words
from kgroup.support.signals import Terminated, raise_signals
from kgroup.support.stdout_reader import StdoutClosed

ParseError: type[Exception] = typer.BadParameter.__bases__[0]
"""The base class of the errors of Typer's parser; Typer does not export it, only this subclass."""


def kgroup_options(
    ctx: typer.Context,
    connection: Connection,
    presentation: Presentation,
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the versions of kgroup and its clients.")
    ] = False,
) -> None:
    """The options that may precede the verb; the same options after the verb override them."""
    if version:
        streams.print_text(_versions())
        raise typer.Exit
    ctx.obj = Invocation(connection, presentation, StderrReporter(sys.stderr), words=tuple(ctx.obj))
    if ctx.invoked_subcommand is None:
        streams.print_text(ctx.get_help())
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point: run the command line and exit with a status of the table of exit codes."""
    # The 100,000 rows of a large cluster are not garbage; scanning them takes a fifth of the time.
    gc.set_threshold(100_000, 50, 100)
    raise_signals()
    streams.repair_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    try:
        streams.flush_streams()
    except streams.OutputError as error:
        code = _fail("kgroup", error, Format.TABLE, StderrReporter(sys.stderr))
    sys.exit(int(code))


def run(arguments: Sequence[str]) -> ExitCode:
    """Parse and execute; returns the exit code and never raises an error that a user can cause."""
    with variables_set({"NO_COLOR": "1"} if "--no-color" in arguments else {}):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> ExitCode:
    try:
        command_line = root(Root, kgroup_options)
        result = command_line.main(list(arguments), prog_name="kgroup", standalone_mode=False, obj=list(arguments))
        return ExitCode(result or 0)
    except UnknownVerb as error:
        return _fail(error.path, error, _format_in(arguments), StderrReporter(sys.stderr))
    except ParseError as error:
        path = getattr(getattr(error, "ctx", None), "command_path", "kgroup")
        return _fail(path, _usage_error(error, arguments), _format_in(arguments), StderrReporter(sys.stderr))
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Terminated:
        return ExitCode.TERMINATED
    except KgroupError as error:
        return _fail("kgroup", error, Format.TABLE, StderrReporter(sys.stderr))
    except OSError as error:  # Typer writes help pages by itself
        streams.drop_stdout()
        failure = streams.OutputError(f"the output could not be written: {error.strerror}")
        return _fail("kgroup", failure, Format.TABLE, StderrReporter(sys.stderr))
    except SystemExit:
        # Typer exits like this if a help page has no reader; nothing else here raises SystemExit.
        streams.drop_stdout()
        return ExitCode.DONE


def _execute(verb: str, run: Invocation, call: Callable[[Invocation], VerbResult]) -> ExitCode:
    """Run the verb and show its result; all hints have the connection options of ``run``."""
    with hints_with_options(run.command):
        return _run_verb(verb, run, call)


def _run_verb(verb: str, run: Invocation, call: Callable[[Invocation], VerbResult]) -> ExitCode:
    """Show the result, and return its exit code (``Outcome.exit_code``), or that of the error that was raised."""
    from kgroup.model.outcome import Outcome
    from kgroup.output.present import present
    from kgroup.output.watch.request import WatchedVerb

    run = replace(run, verb=verb)
    reporter, path = run.reporter, f"kgroup {verb}"
    assert isinstance(reporter, StderrReporter)
    reporter.quiet = run.presentation.quiet
    try:
        output, with_headers = run.format, run.with_headers
    except UsageError as error:
        return _fail(path, error, Format.TABLE, reporter)
    try:
        with run.debug_log():
            result = call(run)
            if isinstance(result, WatchedVerb):
                if not with_headers:
                    raise UsageError("--no-headers and --watch are mutually exclusive")
                from kgroup.output.watch.loop import watch

                return watch(verb, result, reporter)
            with _leave_stdout_to_file(run):
                if isinstance(result, Outcome):
                    return present(verb, (result,), output, run.typed, reporter, with_headers=with_headers)
                # Always close: Python 3.13 waits forever for the thread of a connection that is closed only at exit.
                with closing(result):
                    return present(verb, result, output, run.typed, reporter, with_headers=with_headers)
    except KgroupError as error:
        if change := reporter.change_id:
            made = f"The change was made: {change}. To take it back:  {run.command('undo', change)}"
            error = error.with_context(details=(made,))
        with _leave_stdout_to_file(run):
            return _fail(path, error, output, reporter)
    except StdoutClosed:  # from a verb that follows and shows its result at the end
        streams.drop_stdout()
        return ExitCode.DONE
    except (KeyboardInterrupt, Terminated) as error:
        warnings.simplefilter("ignore")  # about coroutines that are no longer awaited
        interrupted = isinstance(error, KeyboardInterrupt)
        effect = f"; {reporter.effect}" if reporter.effect else ""
        reporter.note(f"{verb}: {'interrupted' if interrupted else 'terminated'}{effect}")
        return ExitCode.INTERRUPTED if interrupted else ExitCode.TERMINATED
    except OSError as error:
        # Errors of the cluster and of stdout are KgroupErrors already; this one is about a file.
        what = error.strerror or str(error) or type(error).__name__
        where = "" if error.filename is None else f"{error.filename}: "
        return _fail(path, KgroupError(f"{where}{what}", code="file"), output, reporter)


class Root(VerbTree):
    """The command line itself: its verbs are run by ``_execute``."""

    execute = staticmethod(_execute)


def _leave_stdout_to_file(run: Invocation) -> AbstractContextManager[object]:
    """A redirection of stdout to stderr if the verb writes a backup or skipped records to stdout."""
    options = run.line.options
    used = "--execute" in options and any(options.get(name) == (name, "-") for name in ("--backup", "--save-skipped"))
    return redirect_stdout(sys.stderr) if used else nullcontext()


def _fail(path: str, error: KgroupError, output: Format, reporter: StderrReporter) -> ExitCode:
    """Report the error: as text on stderr and, if the format has one, as an envelope on stdout."""
    from kgroup.output.present import present_error

    reporter.error(error)
    with suppress(StdoutClosed, streams.OutputError), streams.stdout_errors():
        present_error(path.removeprefix("kgroup").strip(), error, output, reporter.take_remarks())
        sys.stdout.flush()
    return error.exit_code


def _usage_error(error: Any, arguments: Sequence[str]) -> UsageError:
    """The parser's error; the hint is the kgroup form if the user typed another tool's syntax."""
    context = getattr(error, "ctx", None)
    shown = redact_words(arguments)
    if form := hints.kcg_form(shown, BY_NAME):
        typed = join(["kgroup", *shown])
        return UsageError("verbs have no dashes", details=(f"you typed  {typed}", f"here it is {form}"))
    path = context.command_path if context else "kgroup"
    if (flag := getattr(error, "option_name", None)) and "No such option" in error.format_message():
        known = [name for param in context.command.params for name in param.opts] if context else []
        return UsageError(f"{path} has no option {flag}", hint=hints.flag_hint(flag, known) or f"{path} --help")
    if getattr(getattr(error, "param", None), "name", None) == "output":
        others = ", ".join(formats_of(path.removeprefix("kgroup ")))
        return UsageError(
            f"-o {_typed_format(shown)} is not an output format of {path}", hint=f"choose one of: {others}"
        )
    return UsageError(error.format_message().rstrip("."), hint=f"{path} --help")


def _format_in(arguments: Sequence[str]) -> Format:
    """The output format of a command line that could not be parsed: its own, or the environment's."""
    typed = _typed_format(arguments) or variable("KGROUP_OUTPUT") or ""
    return Format(typed) if typed in tuple(Format) else Format.TABLE


def _typed_format(arguments: Sequence[str]) -> str:
    typed = ""
    for word, following in pairwise([*arguments, ""]):
        if word in ("-o", "--output"):
            typed = following
        elif word.startswith("--output="):
            typed = word.removeprefix("--output=")
        elif word.startswith("-o"):
            typed = word.removeprefix("-o")
    return typed


def _versions() -> str:
    from importlib.metadata import version

    clients = ", ".join(f"{name} {version(name)}" for name in ("kafka-python", "confluent-kafka"))
    return f"kgroup {kgroup.__version__} ({clients}, Python {sys.version.split()[0]})"
