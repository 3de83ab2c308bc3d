"""What of chunks fell to a bucket of keys, and what was lost, in the ledger's JSON. Pure."""

from __future__ import annotations

from typing import Any

from kgroup.catchup.ledger.json_fields import Fields
from kgroup.catchup.model import Lost, Share

_COUNTS = 6


def share_document(share: Share) -> dict[str, Any]:
    """In JSON, its counts as a list: a bucket may have one of each of thousands of chunks."""
    counts = [share.chunk, share.records, share.filtered, share.dead, share.size, share.may_repeat]
    return {"n": counts, "lost": lost_document(share.lost)} if share.lost else {"n": counts}


def read_share(fields: Fields) -> Share:
    """From its JSON form. Raises Wrong."""
    counts = fields.counts("n")
    if len(counts) != _COUNTS:
        fields.wrong("n", f"has not {_COUNTS} numbers")
    chunk, records, filtered, dead, size, may_repeat = counts
    return Share(chunk, records, filtered, dead, size, may_repeat, read_lost(fields) if fields.has("lost") else ())


def lost_document(rows: tuple[Lost, ...]) -> list[dict[str, Any]]:
    """In JSON."""
    return [{"start": lost.start, "end": lost.end, "why": lost.why} for lost in rows]


def read_lost(fields: Fields) -> tuple[Lost, ...]:
    """From the field ``lost``. Raises Wrong."""
    return tuple(Lost(*item.span(), item.text("why")) for item in fields.objects("lost"))
