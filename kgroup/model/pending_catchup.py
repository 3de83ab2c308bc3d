"""A catch-up of a group that is not finished, as other verbs show it in JSON."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kgroup.model.records import OffsetRange
from kgroup.support.json_types import Count, EpochMs, Instant


class PendingCatchup(msgspec.Struct, frozen=True):
    """A plan of the ledger, or a release that only the group's commits show."""

    plan_id: Annotated[str, "The plan."]
    state: Annotated[
        str | None, "plan state or null", "The state of the plan in the ledger; null if the ledger does not have it."
    ]
    phase: Annotated[str, "plan phase", "The state as tables show it."]
    pending_offset_count: Annotated[Count | None, "Offsets that are not delivered yet; null if unknown."]
    retention_deadline_at: Annotated[
        Instant | None, "When retention may delete the first of them; null for never and unknown."
    ]
    retention_deadline_at_ms: Annotated[
        EpochMs | None, "When retention may delete the first of them; null for never and unknown."
    ]
    ranges: Annotated[tuple[OffsetRange, ...], "The offsets that are not delivered."]
