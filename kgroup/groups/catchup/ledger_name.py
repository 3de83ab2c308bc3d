"""The name of the ledger, apart from the plans in it: every verb that shows a group needs it."""

from __future__ import annotations

LEDGER_TOPIC = "_kgroup_ledger"
"""The default of ``--ledger-topic``."""
