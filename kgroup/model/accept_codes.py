"""Which refusals ``--accept`` passes. Help, completion, plans and their checks read this table."""

from __future__ import annotations

_OF_ALL = ("active-committer", "foreign-owner")

ACCEPTED: dict[str, tuple[str, ...]] = {
    "reset": (*_OF_ALL, "in-flight", "other-topics"),
    "undo": (*_OF_ALL, "hidden-commits", "in-flight", "moved-since"),
    "migrate": _OF_ALL,
    "evict": ("foreign-owner",),
    "delete": ("active-committer", "clock-skew", "foreign-owner", "hidden-commits"),
    "delete-offsets": _OF_ALL,
    "catchup start": (*_OF_ALL, "in-flight", "not-in-ledger", "possible-duplicates", "skip"),
    "catchup cancel": ("in-flight", "possible-duplicates"),
    "catchup resume": ("in-flight",),
}
"""The refusals that ``--accept`` passes, by verb. ``not-empty`` is the broker's own and cannot be passed."""
