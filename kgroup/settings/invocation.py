"""What a verb is given: how to connect, how to show, where to say things."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.model.output_format import Format
from kgroup.settings.connection import Connection
from kgroup.support.errors import UsageError
from kgroup.support.quoting import join

if TYPE_CHECKING:
    from kgroup.model.reporter import Reporter
    from kgroup.settings.model import Settings

_EXPORT = "export"
_LAG = "lag"


@dataclass(frozen=True, slots=True)
class Presentation:
    """How the answer is shown; None means: not said on this level."""

    output: Format | None = None
    debug: Path | None = None

    def over(self, outer: Presentation) -> Presentation:
        """These, and where they say nothing, ``outer``'s."""
        return Presentation(self.output or outer.output, self.debug or outer.debug)


@dataclass
class ResultStream:
    """Where the result goes: to stdout, unless the verb puts something else there (``--backup -``).

    ``touched`` is whether something may have been changed by now, None for verbs that only look; ``change`` the
    id of the change that was made.
    """

    to_stderr: bool = False
    touched: bool | None = None
    change: str | None = None


@dataclass(frozen=True)
class Invocation:
    """One invocation of a verb: how to connect, how to show, where to say things, and what was typed."""

    connection: Connection
    presentation: Presentation
    reporter: Reporter
    words: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The verb's own options that were typed, by their longest name, each as the words that say the same again."""
    secrets: set[str] = field(default_factory=set)
    """What must not be shown, known once the settings are."""
    result: ResultStream = field(default_factory=ResultStream)
    verb: str = ""
    """What is being done, as it is typed: ``export``, ``context list``."""

    @property
    def format(self) -> Format:
        """The output format in force: flag, then ``KGROUP_OUTPUT``, then the verb's own: the table, but for export.

        Raises UsageError for what is no format, or not this verb's.
        """
        named = os.environ.get("KGROUP_OUTPUT")
        if self.presentation.output:
            found, said = self.presentation.output, f"-o {self.presentation.output}"
        elif not named:
            return Format.KCG if self.verb == _EXPORT else Format.TABLE
        elif named not in tuple(Format):
            raise UsageError(f"KGROUP_OUTPUT={named} is no output format", hint=f"one of {', '.join(Format)}")
        else:
            found, said = Format(named), f"KGROUP_OUTPUT={named}"
        if found is Format.PROMETHEUS and self.verb != _LAG:
            raise UsageError(f"{said} is a form of kgroup lag alone", hint="-o json is for other scripts")
        if found is Format.KCG and self.verb != _EXPORT:
            raise UsageError(
                f"{said} is the form of kgroup export alone", hint="-o csv is for spreadsheets and scripts"
            )
        return found

    @property
    def format_said(self) -> bool:
        """Whether a format was asked for, on the command line or in the environment."""
        return bool(self.presentation.output or os.environ.get("KGROUP_OUTPUT"))

    @cached_property
    def settings(self) -> Settings:
        """The connection, resolved; read once, and only by verbs that talk to a cluster."""
        from kgroup.settings.sources import resolve

        settings = resolve(self.connection, self.reporter)
        self.secrets.update(settings.secrets)
        return settings

    def of(self, connection: Connection, settings: Settings, words: Sequence[str]) -> Invocation:
        """The same as if these words had been typed, for the cluster of ``settings``; ``connection`` is shown."""
        made = replace(self, connection=connection, words=tuple(words), options={})
        made.__dict__["settings"] = settings  # where cached_property keeps it: the environment has no say here
        return made

    def showing(self, form: Format, reporter: Reporter) -> Invocation:
        """The same with another format, and saying things elsewhere; the connection is read once for both."""
        made = replace(self, presentation=replace(self.presentation, output=form), reporter=reporter)
        made.__dict__["settings"] = self.settings
        return made

    @contextmanager
    def debug_log(self) -> Iterator[None]:
        """Keep the log of ``--debug`` or KGROUP_DEBUG, if there is to be one. Raises UsageError."""
        named = os.environ.get("KGROUP_DEBUG")
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
        """A command line for the same cluster, to be shown: with the connection's flags as they were typed."""
        from kgroup.support.redact import redact, redact_words

        given = self.connection
        flags = [
            ("-b", given.bootstrap_server),
            ("--context", given.context),
            ("--command-config", given.command_config),
        ]
        said = [part for flag, value in flags if value is not None for part in (flag, str(value))]
        said += [part for setting in given.property or () for part in ("-X", setting)]
        return join(redact(word, self.secrets) for word in redact_words(("kgroup", *words, *said)))

    @property
    def typed(self) -> list[str]:
        """The command line as it may be shown: without the secrets of the connection."""
        from kgroup.support.redact import redact, redact_words

        return [redact(word, self.secrets) for word in redact_words(("kgroup", *self.words))]
