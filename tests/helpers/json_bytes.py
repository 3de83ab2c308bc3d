"""Reads the keys, values and header values of ``model/json_lines``."""

from __future__ import annotations

from base64 import b64decode
from typing import Any


def as_bytes(form: Any) -> bytes | None:
    """The bytes that a key or a value in a line stands for."""
    if form is None:
        return None
    if isinstance(form, str):
        return form.encode()
    return bytes.fromhex(form["hex"]) if "hex" in form else b64decode(form["base64"], validate=True)
