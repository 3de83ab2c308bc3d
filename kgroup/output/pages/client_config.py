"""The changes to an application's configuration: a diff without secrets, notes, and the file it was written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kgroup.model.blocks import BlankLine, Block, LabelledLine, Text
from kgroup.output.pages.text import wrapped

if TYPE_CHECKING:
    from kgroup.groups.migration.client_config import Rewritten


def blocks(config: Rewritten, name: str, written: str | None) -> tuple[Block, ...]:
    """The blocks of the page for one configuration file."""
    diff = config.diff(name).splitlines()
    what = f"{name} ({config.kind})"
    told = f"written to {written}" if written else "--write FILE writes it"
    shown = [Text(tuple(diff))] if diff else []
    head = LabelledLine("CLIENT", f"{what}: {told}" if diff else f"{what}: nothing has to change in it")
    notes = tuple(line for note in config.notes for line in wrapped(f"- {note}", "  "))
    return (BlankLine(), head, *shown, *((Text(notes),) if notes else ()))


def document(config: Rewritten, name: str, written: str | None) -> Mapping[str, Any]:
    """Its JSON form, with secrets masked."""
    return {
        "file": name,
        "kind": config.kind,
        "changes": list(config.changes),
        "notes": list(config.notes),
        "diff": config.diff(name),
        "written_to": written,
    }
