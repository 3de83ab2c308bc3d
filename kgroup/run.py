"""What a verb is given: how to connect, how to show, where to say things."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
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
    secrets: set[str] = field(default_factory=set)
    """What must not be shown, known once the settings are."""

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
        self.secrets.update(settings.secrets)
        return settings

    @contextmanager
    def debug_log(self) -> Iterator[None]:
        """Keep the log of ``--debug`` or KGROUP_DEBUG, if there is to be one. Raises UsageError."""
        named = os.environ.get("KGROUP_DEBUG")
        path = self.presentation.debug or (Path(named) if named else None)
        if path is None:
            yield
            return
        from kgroup.redact import close_debug_log, open_debug_log

        try:
            handler = open_debug_log(path, self.secrets)
        except OSError as error:
            raise UsageError(f"the debug log {path} cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            close_debug_log(handler)

    @property
    def typed(self) -> list[str]:
        """The command line as it may be shown: without the secrets of the connection."""
        from kgroup.redact import redact, redact_words

        return [redact(word, self.secrets) for word in redact_words(("kgroup", *self.words))]
