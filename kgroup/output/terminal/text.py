"""Text that is safe to show."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with every unprintable character written as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
