"""What a verb is given: how to connect, how to show, where to say things."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kgroup.errors import UsageError
from kgroup.options import Connection, Format, Presentation

if TYPE_CHECKING:
    from kgroup.model import Reporter
    from kgroup.settings import Settings


@dataclass(frozen=True)
class Run:
    """One invocation of a verb: how to connect, how to show, where to say things, and the words typed."""

    connection: Connection
    presentation: Presentation
    reporter: Reporter
    words: tuple[str, ...] = ()

    @property
    def format(self) -> Format:
        """The output format in force: flag, then ``KGROUP_OUTPUT``, then the table."""
        if self.presentation.output:
            return self.presentation.output
        named = os.environ.get("KGROUP_OUTPUT") or Format.TABLE
        if named not in tuple(Format):
            raise UsageError(f"KGROUP_OUTPUT={named} is no output format", hint=f"one of {', '.join(Format)}")
        return Format(named)

    @cached_property
    def settings(self) -> Settings:
        """The connection, resolved; read once, and only by verbs that talk to a cluster."""
        from kgroup.settings import resolve

        settings = resolve(self.connection, self.reporter)
        if self.presentation.debug:
            from kgroup.redact import open_debug_log

            try:
                open_debug_log(self.presentation.debug, settings.secrets)
            except OSError as error:
                raise UsageError(f"--debug {self.presentation.debug}: {error.strerror}") from error
        return settings

    @property
    def typed(self) -> list[str]:
        """The command line as it may be shown: without the secrets of the connection."""
        from kgroup.redact import redact, redact_words

        secrets = self.settings.secrets if "settings" in self.__dict__ else ()
        return [redact(word, secrets) for word in redact_words(("kgroup", *self.words))]
