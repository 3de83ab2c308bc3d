"""The parameters of a verb's call: connection, presentation, reporter, and the typed words."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.model.output_format import OF_ONE_VERB, Format, default_format, formats_of
from kgroup.settings.connection import Connection
from kgroup.settings.environment import variable
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import UsageError
from kgroup.support.quoting import join

if TYPE_CHECKING:
    from kgroup.model.reporter import Reporter
    from kgroup.settings.model import Settings

_WITHOUT_CLUSTER = frozenset({"completion", "context", "help", "sandbox"})
"""Verbs that the connection options of another verb mean nothing to."""
_LEDGER = "--ledger-topic"
_NOT_IN_LEDGER = ("--master", "--parallelism", "--conf", "--spark-log", "--report")
"""Options of a replay that the plan does not keep: where Spark runs, its log, the file of the report."""


@dataclass(frozen=True, slots=True)
class Presentation:
    """How the result is shown; None and False: not given on this level.

    ``no_color`` is applied before anything is parsed, because it counts for usage errors too.
    """

    output: Format | None = None
    debug: Path | None = None
    no_headers: bool = False
    no_color: bool = False
    quiet: bool = False

    def with_defaults(self, outer: Presentation) -> Presentation:
        """These options; those not given are taken from ``outer``."""
        return Presentation(
            self.output or outer.output,
            self.debug or outer.debug,
            no_headers=self.no_headers or outer.no_headers,
            no_color=self.no_color or outer.no_color,
            quiet=self.quiet or outer.quiet,
        )


@dataclass(frozen=True)
class Invocation:
    """One call of a verb: how to connect, how to show the result, where to report, and what was typed."""

    connection: Connection
    presentation: Presentation
    reporter: Reporter
    words: tuple[str, ...] = ()
    line: CommandLine = field(default_factory=lambda: CommandLine(("kgroup",)))
    """The command line as values, with secrets; ``command_line`` is to be shown."""
    known_settings: Settings | None = None
    """The settings where the caller knows them; None: they are resolved from the options."""
    secrets: set[str] = field(default_factory=set)
    """Values that must not be shown; filled when the settings are read."""
    verb: str = ""
    """The verb as it is typed: ``export``, ``context list``."""
    changes: bool = False
    """Whether the verb has ``--execute``; then an unknown setting is an error, in its plan too."""

    @property
    def format(self) -> Format:
        """The output format: from the flag, else ``KGROUP_OUTPUT``, else the verb's own.

        That is KCG for export, JSON lines for peek into a pipe, and otherwise the table.

        Raises UsageError if it is no format, or not one of this verb.
        """
        named = variable("KGROUP_OUTPUT")
        if self.presentation.output:
            output, source = self.presentation.output, f"-o {self.presentation.output}"
        elif not named:
            return self._default_format
        elif named not in tuple(Format):
            raise UsageError(
                f"KGROUP_OUTPUT={named} is not an output format",
                hint=f"choose one of: {', '.join(formats_of(self.verb))}",
            )
        else:
            output, source = Format(named), f"KGROUP_OUTPUT={named}"
        if output is Format.NAME and output not in formats_of(self.verb):
            raise UsageError(
                f"{source} is a format of verbs that list groups or plans",
                hint=f"choose one of: {', '.join(formats_of(self.verb))}",
            )
        if (only := OF_ONE_VERB.get(output, self.verb)) != self.verb:
            others = ", ".join(formats_of(self.verb))
            hint = f"choose one of: {others}" if others else "leave it out"
            raise UsageError(f"{source} is a format of kgroup {only} only", hint=hint)
        return output

    @property
    def with_headers(self) -> bool:
        """Whether tables have headers. Raises UsageError for --no-headers with a format that has none."""
        if self.presentation.no_headers and self.format not in (Format.TABLE, Format.WIDE, Format.CSV):
            raise UsageError(f"--no-headers and -o {self.format} are mutually exclusive")
        return not self.presentation.no_headers

    @property
    def _default_format(self) -> Format:
        to_pipe = "--to" not in self.line.options and not sys.stdout.isatty()
        return default_format(self.verb, to_pipe=to_pipe)

    @property
    def format_given(self) -> bool:
        """Whether the user chose a format, on the command line or in the environment."""
        return bool(self.presentation.output or variable("KGROUP_OUTPUT"))

    @cached_property
    def settings(self) -> Settings:
        """The resolved connection settings; read once, and only by verbs that connect to a cluster."""
        if self.known_settings is not None:
            return self.known_settings
        from kgroup.settings.sources import resolve

        settings = resolve(self.connection, self.reporter, strict=self.changes)
        self.secrets.update(settings.secrets)
        return settings

    def showing(self, form: Format, reporter: Reporter) -> Invocation:
        """This call with another format and reporter; the connection settings are read once for both."""
        presentation = replace(self.presentation, output=form)
        return replace(self, presentation=presentation, reporter=reporter, known_settings=self.settings)

    @contextmanager
    def debug_log(self) -> Iterator[None]:
        """Write the log of ``--debug`` or KGROUP_DEBUG during the block, if one is set. Raises UsageError."""
        named = variable("KGROUP_DEBUG")
        path = self.presentation.debug or (Path(named) if named else None)
        if path is None:
            yield
            return
        from kgroup.support.redact import close_debug_log, open_debug_log

        try:
            handler = open_debug_log(path, self.secrets)
        except OSError as error:
            raise UsageError(f"the debug log {path} cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            close_debug_log(handler)

    def command(self, *words: str, without: Sequence[str] = ()) -> str:
        """A command line to be shown, for the same cluster: with the connection options as typed, without secrets.

        A command of ``catchup`` also has the typed ledger, and one that replays the options that no plan keeps,
        but none of ``without``.
        """
        options = [] if words[0] in _WITHOUT_CLUSTER else self._connection_options()
        kept = (_LEDGER, *(_NOT_IN_LEDGER if words[1] in ("start", "resume") else ())) if words[0] == "catchup" else ()
        # After "--" a group's name is no option, whatever it looks like.
        last = ["--", words[1]] if _is_odd_name(words) else []
        typed = [word for option in kept if option not in without for word in self.line.options.get(option, ())]
        words = (words[0], *words[2:]) if last else words
        return join(self._without_secrets(("kgroup", *words, *typed, *options, *last)))

    def _connection_options(self) -> list[str]:
        given = self.connection
        flags = [
            ("-b", given.bootstrap_server),
            ("--context", given.context),
            ("--command-config", given.command_config),
        ]
        options = [part for flag, value in flags if value is not None for part in (flag, str(value))]
        return [*options, *(part for setting in given.property or () for part in ("-X", setting))]

    @property
    def command_line(self) -> CommandLine:
        """The command line, to be shown again with other options: without the secrets of the connection."""
        return self.line.with_words(self._without_secrets)

    @property
    def typed(self) -> tuple[str, ...]:
        """The words as they were typed, for records of what was done: without the secrets of the connection."""
        return self._without_secrets(("kgroup", *self.words))

    def _without_secrets(self, words: tuple[str, ...]) -> tuple[str, ...]:
        secrets = frozenset(self.secrets)
        return tuple([_redact_word(word, secrets) for word in words])


def _is_odd_name(words: Sequence[str]) -> bool:
    """Whether the word after the verb is a name that looks like an option: of a group, as no hint has options there."""
    return len(words) > 1 and words[1].startswith("-") and words[0] != "list" and words[1] != "--all-groups"


@lru_cache(maxsize=1_024)
def _redact_word(word: str, secrets: frozenset[str]) -> str:
    """A command line's word without secrets. Cached: commands for 10,000 groups differ only in the group's name."""
    from kgroup.support.redact import redact, redact_words

    (shown,) = redact_words((word,))
    return redact(shown, secrets)
