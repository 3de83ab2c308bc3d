"""Values of Structs from parsed JSON and YAML, and what is wrong with a document, in words."""

from __future__ import annotations

import msgspec


def mismatch(error: msgspec.ValidationError) -> str:
    """Where a document does not match, and how: ``data[0].offset: expected `int`, got `str```."""
    what, _, path = str(error).partition(" - at `$")
    return f"{path.strip('.`') or 'the document'}: {what[:1].lower()}{what[1:]}"
