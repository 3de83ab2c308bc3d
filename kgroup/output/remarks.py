"""Warnings and notes about a result. They go to stderr, and into the JSON, YAML or markdown document."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace


class Remarks(msgspec.Struct, frozen=True):
    """Warnings and notes, each once, in the order in which they were reported."""

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def and_warning(self, text: str) -> Remarks:
        """Each warning is shown once."""
        return self if text in self.warnings else replace(self, warnings=(*self.warnings, text))

    def and_note(self, text: str) -> Remarks:
        """Each note is shown once."""
        return self if text in self.notes else replace(self, notes=(*self.notes, text))

    def lines(self) -> Iterator[str]:
        """The lines as written to stderr."""
        yield from (f"WARNING {text}" for text in self.warnings)
        yield from (f"note: {text}" for text in self.notes)


NO_REMARKS = Remarks()
