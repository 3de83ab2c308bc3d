"""Values as JSON on one line."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kgroup.support.quoting import json_safe


def _text(value: object) -> str:
    """The plain text of a ``str`` of our own, as a hint."""
    if isinstance(value, str):
        return str(value)
    raise TypeError


_ENCODER = msgspec.json.Encoder(enc_hook=_text)


def plain(value: Any) -> Any:
    """The value with dicts for Structs, and texts for enumerations."""
    return msgspec.to_builtins(value, enc_hook=_text)


def one_line_json(value: Any, *, ascii_only: bool = False) -> str:
    """The value as safe JSON on one line, without spaces between the elements."""
    try:
        text = _ENCODER.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, TypeError):
        # It refuses half a character, a number of more than 64 bits, and some subclasses.
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return json_safe(text, ascii_only=ascii_only)
