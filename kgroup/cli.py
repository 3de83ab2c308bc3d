"""The command line: the static table of verbs, lazily loaded, and errors turned into exit codes.

Importing this module imports no Kafka client and no verb; ``--help`` reads the table alone.
"""

from __future__ import annotations

import gc
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

import kgroup
from kgroup import habits, help_pages
from kgroup.errors import ExitCode, KgroupError, UsageError
from kgroup.options import Connection, Format, Presentation
from kgroup.output.reporter import StderrReporter
from kgroup.run import Run
from kgroup.verbs import Result, command, group, root


@dataclass(frozen=True, slots=True)
class Verb:
    """A line of the table: what is typed, where its body lives, its one-line help, its section of the help.

    ``target`` is ``module:function``, or a module whose SUBCOMMANDS are the verbs below this one. A verb
    without a section is not on the help page.
    """

    name: str
    target: str
    help: str
    section: str | None


LOOK = "Look (never changes anything)"
SET_UP = "Set up"

VERBS: tuple[Verb, ...] = (
    Verb("list", "kgroup.commands.list:list_", "groups: type, state, members", LOOK),
    Verb("describe", "kgroup.commands.describe:describe", "one group: partitions, members, lag", LOOK),
    Verb("context", "kgroup.commands.context", "named clusters: list, use, show", SET_UP),
    Verb("sandbox", "kgroup.commands.sandbox", "a real Kafka on this machine: up, down, demo", SET_UP),
    Verb("help", "kgroup.commands.help:help_", "a topic: exit-codes, output, connection", None),
)
_BY_NAME = {verb.name: verb for verb in VERBS}


ParseError: type[Exception] = typer.BadParameter.__bases__[0]
"""What Typer's parser raises; it keeps the base of its errors to itself, but not this one."""


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived; like ctrl-C, it unwinds what is being done."""


class VerbCommand(TyperCommand):
    """A verb whose help begins with examples."""

    def get_help(self, ctx: Any) -> str:
        """The verb's page."""
        usage = " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)])
        return help_pages.verb_page(usage, self.help or "", ctx).rstrip()


class VerbGroup(TyperGroup):
    """A verb that has verbs of its own."""

    def get_help(self, ctx: Any) -> str:
        """The verbs below this one."""
        lines = [(name, help_pages.first_line(verb.help)) for name, verb in self.commands.items()]
        own = _BY_NAME[ctx.info_name].help
        return help_pages.group_page(f"{ctx.command_path} COMMAND [OPTIONS]", own, lines).rstrip()


class Root(TyperGroup):
    """The table of verbs; a verb's module is imported when it is typed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs in the order of the help page."""
        return [verb.name for verb in VERBS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb, imported now; None where there is none of that name."""
        verb = _BY_NAME.get(cmd_name)
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
    """What may stand before the verb; the verb's own options go before these."""
    if version:
        sys.stdout.write(_versions() + "\n")
        raise typer.Exit
    ctx.obj = Run(connection, presentation, StderrReporter(sys.stderr), words=tuple(ctx.obj))
    if ctx.invoked_subcommand is None:
        sys.stdout.write(ctx.get_help() + "\n")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point: run the command line and exit with the status of README's table."""
    # A hundred thousand rows of a large cluster are no garbage; looking through them costs a fifth of the time.
    gc.set_threshold(100_000, 50, 100)
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGHUP, _terminate)
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    code = run(arguments)
    sys.exit(int(code))


def run(arguments: Sequence[str]) -> ExitCode:
    """Parse and do; returns the exit code and never raises what a user can cause."""
    try:
        result = root(Root, kgroup_options).main(
            list(arguments), prog_name="kgroup", standalone_mode=False, obj=list(arguments)
        )
        return ExitCode(result or 0)
    except ParseError as error:
        verb = getattr(getattr(error, "ctx", None), "command_path", "").removeprefix("kgroup").strip()
        _fail(verb, _usage_error(error, arguments), _format_in(arguments), StderrReporter(sys.stderr))
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Terminated:
        return ExitCode.TERMINATED


def _execute(verb: str, run: Run, call: Callable[[Run], Result]) -> ExitCode:
    """Do what the verb does and show what it returns; the one place where errors become exit codes."""
    from kgroup.model import Outcome
    from kgroup.output.present import present

    reporter = run.reporter
    assert isinstance(reporter, StderrReporter)
    try:
        result = call(run)
        outcomes: Iterator[Outcome] = iter((result,)) if isinstance(result, Outcome) else result
        return present(verb, outcomes, run.format, run.typed, reporter)
    except KgroupError as error:
        _fail(verb, error, run.format, reporter)
        return error.exit_code
    except KeyboardInterrupt:
        reporter.note(f"{verb}: interrupted")
        return ExitCode.INTERRUPTED
    except Terminated:
        reporter.note(f"{verb}: terminated")
        return ExitCode.TERMINATED
    except BrokenPipeError:
        return _nobody_reads()


def _nobody_reads() -> ExitCode:
    """Whoever read our output has seen enough (``kgroup list | head -1``), and that is no failure."""
    # Python would complain once more when it flushes stdout at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.DONE


def _fail(verb: str, error: KgroupError, output: Format, reporter: StderrReporter) -> None:
    from kgroup.output.present import present_error

    reporter.error(error)
    try:
        present_error(verb, error, output)
        sys.stdout.flush()
    except BrokenPipeError:
        _nobody_reads()


def _usage_error(error: Any, arguments: Sequence[str]) -> UsageError:
    """The parser's complaint, with the kgroup form of a habit from another tool as the hint."""
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")
    from kgroup.redact import redact_words

    shown = redact_words(arguments)
    if form := habits.kcg_form(shown, _BY_NAME):
        typed = shlex.join(["kgroup", *shown])
        return UsageError("verbs have no dashes", details=(f"you typed  {typed}", f"here it is {form}"))
    flag = getattr(error, "option_name", None)
    if flag and context is not None:
        known = [name for param in context.command.params for name in param.opts]
        return UsageError(
            f"{context.command_path} has no option {flag}",
            hint=habits.flag_hint(flag, known) or f"{context.command_path} --help",
        )
    if context is not None and context.parent is None and (words := _words(arguments)):
        near = habits.verb_hint(words[0], _BY_NAME)
        if words[0] not in _BY_NAME:
            return UsageError(f"there is no verb {words[0]!r}", hint=near or "kgroup --help")
    return UsageError(message, hint=f"{context.command_path} --help" if context else None)


def _words(arguments: Sequence[str]) -> list[str]:
    return [word for word in arguments if not word.startswith("-")]


def _format_in(arguments: Sequence[str]) -> Format:
    """The output format of a command line that could not be parsed."""
    words = [*arguments, ""]
    for word, following in pairwise(words):
        named = following if word in ("-o", "--output") else word.partition("--output=")[2]
        if named in tuple(Format):
            return Format(named)
    return Format.TABLE


def _versions() -> str:
    from importlib.metadata import version

    clients = ", ".join(f"{name} {version(name)}" for name in ("kafka-python", "confluent-kafka"))
    return f"kgroup {kgroup.__version__} ({clients}, Python {sys.version.split()[0]})"


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
