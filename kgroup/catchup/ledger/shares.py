"""Bucket shares and lost offsets in the ledger's JSON. Pure."""

from __future__ import annotations

from typing import Any

from kgroup.catchup.ledger.json_fields import JsonFields
from kgroup.catchup.model import BucketShare, LostOffsets

_COUNTS = 6


def share_document(share: BucketShare) -> dict[str, Any]:
    """The JSON form, with the counts as a list: a bucket may have a share of each of thousands of chunks."""
    counts = [share.chunk, share.records, share.filtered, share.dead, share.size, share.may_repeat]
    return {"n": counts, "lost": lost_document(share.lost)} if share.lost else {"n": counts}


def read_share(fields: JsonFields) -> BucketShare:
    """The share in this JSON object. Raises FieldError."""
    counts = fields.counts("n")
    if len(counts) != _COUNTS:
        fields.wrong("n", f"has not {_COUNTS} numbers")
    chunk, records, filtered, dead, size, may_repeat = counts
    return BucketShare(
        chunk, records, filtered, dead, size, may_repeat, read_lost(fields) if fields.has("lost") else ()
    )


def lost_document(rows: tuple[LostOffsets, ...]) -> list[dict[str, Any]]:
    """The JSON form."""
    return [{"start": lost.start, "end": lost.end, "why": lost.why} for lost in rows]


def read_lost(fields: JsonFields) -> tuple[LostOffsets, ...]:
    """The lost offsets in the field ``lost``. Raises FieldError."""
    return tuple(LostOffsets(*item.span(), item.text("why")) for item in fields.objects("lost"))
