"""The tree of verbs as Typer commands, and the help page of each; a verb is imported when it is typed.

The pages are imported when one is shown: with their texts and tables they take 2 ms.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

from kgroup.cli import hints
from kgroup.cli.help_parts import LONG_PAGES
from kgroup.cli.typer_adapter import Execute, VerbResult, command, group
from kgroup.cli.verbs import BY_NAME, VERBS
from kgroup.output import streams
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import ExitCode, UsageError
from kgroup.support.redact import redact_words


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

    def get_params(self, ctx: Any) -> list[Any]:
        """The verb's options, with --help-all where its page has only the common ones."""
        params = super().get_params(ctx)
        if ctx.command_path.removeprefix("kgroup ") in LONG_PAGES:
            params.append(_help_all())
        return params

    def get_help(self, ctx: Any) -> str:
        return self.page(ctx, whole=False)

    def page(self, ctx: Any, *, whole: bool) -> str:
        """The verb's page; with ``whole`` also the options that are rarely used."""
        from kgroup.cli import help_pages

        usage = " ".join([ctx.command_path, *self.collect_usage_pieces(ctx)])
        return help_pages.verb_page(usage, self.help or "", ctx, whole=whole).rstrip()


def _help_all() -> TyperOption:
    def show(ctx: Any, param: Any, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            streams.print_text(ctx.command.page(ctx, whole=True))
            ctx.exit()

    return TyperOption(
        param_decls=["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=show,
        help="Show also the options for formats, order, Spark and ledger.",
    )


class VerbGroup(TyperGroup):
    """A verb with verbs of its own."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that was typed; raises UnknownVerb, with the nearest name as its hint."""
        if args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            raise UnknownVerb(ctx.command_path, args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: Any) -> str:
        from kgroup.cli import help_pages

        lines = [(name, help_pages.first_line(verb.help)) for name, verb in self.commands.items()]
        return help_pages.group_page(ctx.command_path, self.help or "", lines).rstrip()


class VerbTree(VerbGroup):
    """The table of verbs; ``execute`` runs one of them."""

    execute: Execute

    def list_commands(self, ctx: Any) -> list[str]:
        return [verb.name for verb in VERBS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb, imported now; None if there is no verb of that name."""
        return command_of(cmd_name, type(self).execute) if cmd_name in BY_NAME else None

    def get_help(self, ctx: Any) -> str:
        """The overview, without importing any verb."""
        from kgroup.cli import help_pages

        return help_pages.overview().rstrip()


def command_of(name: str, execute: Execute) -> Any:
    """The verb as a Typer command, imported now. KeyError: there is no verb of that name."""
    verb = BY_NAME[name]
    module_name, _, function = verb.target.partition(":")
    module = importlib.import_module(module_name)
    if function:
        return command(name, getattr(module, function), VerbCommand, execute)
    default = getattr(module, "DEFAULT", None)
    return group(name, module.SUBCOMMANDS, (VerbGroup, VerbCommand), execute, default, module.__doc__ or "")


def page_of(words: Sequence[str]) -> str:
    """The page of ``kgroup VERB --help``. Raises UnknownVerb."""
    top, *below = words
    if top not in BY_NAME:
        raise UnknownVerb("kgroup", top, [verb.name for verb in VERBS])
    command = command_of(top, _unused)
    ctx = _context(command, f"kgroup {top}", None)
    for word in below:
        verbs = list(getattr(command, "commands", ()))
        if word not in verbs:
            raise UnknownVerb(ctx.command_path, word, verbs)
        command = command.commands[word]
        ctx = _context(command, word, ctx)
    text: str = command.get_help(ctx)
    return text


def _context(of: Any, name: str, parent: Any) -> Any:
    return of.context_class(of, info_name=name, parent=parent, **of.context_settings)


def _unused(verb: str, run: Invocation, call: Callable[[Invocation], VerbResult]) -> ExitCode:
    raise AssertionError("a page is shown, and no verb is run")
