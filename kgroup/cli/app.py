"""The command line: the static table of verbs, which are imported lazily, and errors turned into exit codes.

Importing this module imports no Kafka client and no verb; ``--help`` reads only the table.
"""

from __future__ import annotations

import gc
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, redirect_stdout, suppress
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import kgroup
from kgroup.cli import help_pages, hints
from kgroup.cli.typer_adapter import Result, command, group, root
from kgroup.cli.verbs import BY_NAME, VERBS
from kgroup.model.output_format import Format
from kgroup.output import streams
from kgroup.output.reporter import StderrReporter
from kgroup.settings.connection import Connection
from kgroup.settings.environment import variable
from kgroup.settings.invocation import Invocation, Presentation
from kgroup.support.errors import ExitCode, KgroupError, UsageError
from kgroup.support.quoting import join
from kgroup.support.redact import redact_words
from kgroup.support.signals import Terminated, raise_signals
from kgroup.support.stdout_reader import StdoutClosed

ParseError: type[Exception] = typer.BadParameter.__bases__[0]
"""The base class of the errors of Typer's parser; Typer does not export it, only this subclass."""


class UnknownVerb(UsageError):
    """A verb that does not exist below ``path`` (``kgroup``, ``kgroup context``)."""

    def __init__(self, path: str, word: str, verbs: Sequence[str]) -> None:
        (shown,) = redact_words((word,))
        hint = hints.verb_hint(word, verbs, path) or f"{path} --help"
        what = f"there is no verb {shown!r}" if path == "kgroup" else f"{path} has no verb {shown!r}"
        super().__init__(what, hint=hint)
        self.path = path


class VerbCommand(TyperCommand):
    """A verb whose help begins with examples."""

    def get_help(self, ctx: Any) -> str:
        """The verb's page."""
        usage = " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)])
        return help_pages.verb_page(usage, self.help or "", ctx).rstrip()


class VerbGroup(TyperGroup):
    """A verb with verbs of its own."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed; raises UnknownVerb, with the nearest name as its hint."""
        if args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            raise UnknownVerb(ctx.command_path, args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: Any) -> str:
        """The verbs below this one."""
        lines = [(name, help_pages.first_line(verb.help)) for name, verb in self.commands.items()]
        own = BY_NAME[ctx.info_name].help
        return help_pages.group_page(f"{ctx.command_path} COMMAND [OPTIONS]", own, lines).rstrip()


class Root(VerbGroup):
    """The table of verbs; a verb's module is imported when the verb is typed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs in the order of the help page."""
        return [verb.name for verb in VERBS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb, imported now; None if there is no verb of that name."""
        verb = BY_NAME.get(cmd_name)
        if verb is None:
            return None
        module_name, _, function = verb.target.partition(":")
        module = importlib.import_module(module_name)
        if function:
            return command(verb.name, getattr(module, function), VerbCommand, _execute)
        return group(verb.name, module.SUBCOMMANDS, (VerbGroup, VerbCommand), _execute)

    def get_help(self, ctx: Any) -> str:
        """The overview, without importing any verb."""
        sections = dict.fromkeys(verb.section for verb in VERBS if verb.section)
        return help_pages.overview(
            (section, [(verb.name, verb.help) for verb in VERBS if verb.section == section]) for section in sections
        ).rstrip()


def kgroup_options(
    ctx: typer.Context,
    connection: Connection,
    presentation: Presentation,
    version: Annotated[bool, typer.Option("--version", help="Versions of kgroup and its clients.")] = False,
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
    """The entry point: run the command line and exit with a status of README's table."""
    # The 100,000 rows of a large cluster are not garbage; scanning them takes a fifth of the time.
    gc.set_threshold(100_000, 50, 100)
    raise_signals()
    streams.repair_streams()
    code = run(sys.argv[1:] if arguments is None else arguments)
    sys.exit(int(code))


def run(arguments: Sequence[str]) -> ExitCode:
    """Parse and execute; returns the exit code and never raises an error that a user can cause."""
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


def _execute(verb: str, run: Invocation, call: Callable[[Invocation], Result]) -> ExitCode:
    """Run the verb and show its result; the only place where errors become exit codes."""
    from kgroup.model.outcome import Outcome
    from kgroup.output.present import present
    from kgroup.output.watch.request import WatchedVerb

    run = replace(run, verb=verb)
    reporter, path = run.reporter, f"kgroup {verb}"
    assert isinstance(reporter, StderrReporter)
    try:
        output = run.format
    except UsageError as error:
        return _fail(path, error, Format.TABLE, reporter)
    try:
        with run.debug_log():
            result = call(run)
            if isinstance(result, WatchedVerb):
                from kgroup.output.watch.loop import watch

                return watch(verb, result, reporter)
            with _leave_stdout_to_backup(run):
                if isinstance(result, Outcome):
                    return present(verb, (result,), output, run.typed, reporter)
                # Always close: Python 3.13 waits forever for the thread of a connection that is closed only at exit.
                with closing(result):
                    return present(verb, result, output, run.typed, reporter)
    except KgroupError as error:
        if change := reporter.change_id:
            made = f"The change was made: {change}. To take it back:  {run.command('undo', change)}"
            error = error.with_context(details=(made,))
        with _leave_stdout_to_backup(run):
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


def _leave_stdout_to_backup(run: Invocation) -> AbstractContextManager[object]:
    """A redirection of stdout to stderr if the verb writes its backup to stdout."""
    options = run.line.options
    used = "--execute" in options and options.get("--backup") == ("--backup", "-")
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
    return UsageError(error.format_message().rstrip("."), hint=f"{path} --help")


def _format_in(arguments: Sequence[str]) -> Format:
    """The output format of a command line that could not be parsed: its own, or the environment's."""
    found = variable("KGROUP_OUTPUT") or ""
    for word, following in pairwise([*arguments, ""]):
        if word in ("-o", "--output"):
            found = following
        elif word.startswith("--output="):
            found = word.removeprefix("--output=")
        elif word.startswith("-o"):
            found = word.removeprefix("-o")
    return Format(found) if found in tuple(Format) else Format.TABLE


def _versions() -> str:
    from importlib.metadata import version

    clients = ", ".join(f"{name} {version(name)}" for name in ("kafka-python", "confluent-kafka"))
    return f"kgroup {kgroup.__version__} ({clients}, Python {sys.version.split()[0]})"
