"""Sizes in bytes, as options have them."""

from __future__ import annotations

import re

from kgroup.support.errors import UsageError


def parse_bytes(text: str, option: str) -> int:
    """``500MB`` or ``2GiB`` in bytes; a bare number is bytes. Raises UsageError."""
    parsed = re.fullmatch(r"(?ai)\s*(\d+(?:\.\d+)?)\s*([kmg])?(i?b)?\s*", text)
    size = float(parsed[1]) if parsed else 0
    if not parsed or size <= 0:
        raise UsageError(f"{option} {text}: is not a size", hint=f"{option} 500MB or 2GiB")
    step = 1024 if (parsed[3] or "").lower() == "ib" else 1000
    return max(1, int(size * step ** " kmg".index((parsed[2] or " ").lower())))
