"""What the help pages of several verbs share: the headings of their options; every verb imports it."""

from __future__ import annotations

CONNECTION = "Connection"
WHICH = "Which groups"
WHAT = "Options"
SAFETY = "Safety"
OUTPUT = "Output"

LONG_PAGES = frozenset({"catchup start", "catchup check", "catchup resume"})
"""The verbs with so many options that only ``--help-all`` shows all of them; ``help_pages.COMMON`` has the others."""
