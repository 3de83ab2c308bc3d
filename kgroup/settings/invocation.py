"""The parameters of a verb's call: connection, presentation, reporter, and the typed words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.model.output_format import Format
from kgroup.settings.connection import Connection
from kgroup.settings.environment import variable
from kgroup.support.command_line import CommandLine
from kgroup.support.errors import UsageError
from kgroup.support.quoting import join

if TYPE_CHECKING:
    from kgroup.model.reporter import Reporter
    from kgroup.settings.model import Settings

_EXPORT = "export"
_LAG = "lag"


@dataclass(frozen=True, slots=True)
class Presentation:
    """How the result is shown; None: not given on this level."""

    output: Format | None = None
    debug: Path | None = None

    def with_defaults(self, outer: Presentation) -> Presentation:
        """These options; those not given are taken from ``outer``."""
        return Presentation(self.output or outer.output, self.debug or outer.debug)


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

    @property
    def format(self) -> Format:
        """The output format: from the flag, else ``KGROUP_OUTPUT``, else the verb's own (the table; KCG for export).

        Raises UsageError if it is no format, or not one of this verb.
        """
        named = variable("KGROUP_OUTPUT")
        if self.presentation.output:
            output, source = self.presentation.output, f"-o {self.presentation.output}"
        elif not named:
            return Format.KCG if self.verb == _EXPORT else Format.TABLE
        elif named not in tuple(Format):
            raise UsageError(f"KGROUP_OUTPUT={named} is no output format", hint=f"one of {', '.join(Format)}")
        else:
            output, source = Format(named), f"KGROUP_OUTPUT={named}"
        if output is Format.PROMETHEUS and self.verb != _LAG:
            raise UsageError(f"{source} is a form of kgroup lag alone", hint="-o json is for other scripts")
        if output is Format.KCG and self.verb != _EXPORT:
            raise UsageError(
                f"{source} is the form of kgroup export alone", hint="-o csv is for spreadsheets and scripts"
            )
        return output

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

        settings = resolve(self.connection, self.reporter)
        self.secrets.update(settings.secrets)
        return settings

    def showing(self, form: Format, reporter: Reporter) -> Invocation:
        """The same call with another format and reporter; the connection settings are read once for both."""
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

    def command(self, *words: str) -> str:
        """A command line to be shown, for the same cluster: with the connection options as typed, without secrets."""
        given = self.connection
        flags = [
            ("-b", given.bootstrap_server),
            ("--context", given.context),
            ("--command-config", given.command_config),
        ]
        options = [part for flag, value in flags if value is not None for part in (flag, str(value))]
        options += [part for setting in given.property or () for part in ("-X", setting)]
        return join(self._without_secrets(("kgroup", *words, *options)))

    @property
    def command_line(self) -> CommandLine:
        """The command line, to be shown again with other options: without the secrets of the connection."""
        return self.line.with_words(self._without_secrets)

    @property
    def typed(self) -> tuple[str, ...]:
        """The words as they were typed, for records of what was done: without the secrets of the connection."""
        return self._without_secrets(("kgroup", *self.words))

    def _without_secrets(self, words: tuple[str, ...]) -> tuple[str, ...]:
        from kgroup.support.redact import redact, redact_words

        return tuple(redact(word, self.secrets) for word in redact_words(words))
