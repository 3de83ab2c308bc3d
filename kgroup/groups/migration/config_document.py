"""The JSON of the changes to a file of the application. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from kgroup.support.json_types import Count

if TYPE_CHECKING:
    from kgroup.groups.migration.client_config import ConfigPlan


class ConfigChangeDocument(msgspec.Struct, frozen=True):
    """A change to a file of the application."""

    key: Annotated[str, "The property."]
    line: Annotated[Count | None, "Its line in the file; null if it is added."]
    old_value: Annotated[str | None, "The value before; secrets are masked."]
    new_value: Annotated[str | None, "The value after; null if it is removed."]
    reason: Annotated[str, "Why."]


class ClientConfigDocument(msgspec.Struct, frozen=True):
    """The changes to a file of the application."""

    file: Annotated[str, "The file."]
    format: Annotated[str, "Its form."]
    changes: Annotated[tuple[ConfigChangeDocument, ...], "The changes."]
    notes: Annotated[tuple[str, ...], "Remarks, for people."]
    written_to: Annotated[str | None, "The file that was written."]


def config_document(config: ConfigPlan, name: str, written: str | None) -> ClientConfigDocument:
    """Secrets are masked."""
    changes = tuple(
        ConfigChangeDocument(
            change.key, change.old.line if change.old else None, change.old_value, change.new_value, change.reason
        )
        for change in config.changes
    )
    return ClientConfigDocument(name, config.kind, changes, tuple(config.notes), written)
