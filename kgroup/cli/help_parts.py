"""What the help pages of several verbs share: the headings of their options, and a sentence."""

from __future__ import annotations

from collections.abc import Sequence

CONNECTION = "Connection"
WHICH = "Which groups"
WHAT = "What"
SAFETY = "Safety"


def accept_help(codes: Sequence[str]) -> str:
    """The help of ``--accept``."""
    return "|".join(codes) + ": pass this refusal and no other; may be repeated."
