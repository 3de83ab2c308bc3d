"""The changes to an application's configuration with their reasons, notes, and the file that has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kgroup.model.blocks import BlankLine, Block, LabelledLine, Text
from kgroup.output.pages.text import wrapped

if TYPE_CHECKING:
    from kgroup.groups.migration.client_config import ConfigPlan
    from kgroup.groups.migration.client_config.decide import ConfigChange


def config_blocks(config: ConfigPlan, name: str, written: str | None) -> tuple[Block, ...]:
    """The blocks of the page for one configuration file."""
    if written:
        result = f"written to {written}"
    elif not config.changes:
        result = "nothing has to change in it"
    else:
        result = "make these changes by hand" if config.kind == "yaml" else "--write FILE writes it with these changes"
    changes = tuple(line for change in config.changes for line in wrapped(_change_text(change), "          "))
    notes = tuple(line for note in config.notes for line in wrapped(f"- {note}", "  "))
    texts = (Text(lines) for lines in (changes, notes) if lines)
    return (BlankLine(), LabelledLine("CLIENT", f"{name} ({config.kind}): {result}"), *texts)


def _change_text(change: ConfigChange) -> str:
    where = f"{change.key} (line {change.old.line}: {change.old_value})" if change.old else change.key
    if change.new_value is None:
        return f"  remove  {where}: {change.reason}"
    if change.old is not None:
        return f"  set     {where} to {change.new_value}: {change.reason}"
    return f"  set     {change.key}={change.new_value}: {change.reason}"


def config_document(config: ConfigPlan, name: str, written: str | None) -> Mapping[str, Any]:
    """Its JSON form, with secrets masked."""
    changes = (
        {
            "key": change.key,
            "line": change.old.line if change.old else None,
            "old_value": change.old_value,
            "new_value": change.new_value,
            "reason": change.reason,
        }
        for change in config.changes
    )
    return {
        "file": name,
        "kind": config.kind,
        "changes": list(changes),
        "notes": list(config.notes),
        "written_to": written,
    }
