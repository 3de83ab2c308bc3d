"""What a plan shows of the share groups that it changes: what comes again, what is passed over, what is lost."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.groups.change_plan import ChangePlan
from kgroup.groups.share_changes import ShareEffect, share_effects
from kgroup.model.blocks import Block, LabelledLine, Text
from kgroup.support.units import human_count, plural

_NAMED_GROUPS = 4
_START = "share.auto.offset.reset"
_STATES = "Delivery states are gone for good: undo restores start offsets, not what is done after them."


def share_blocks(plan: ChangePlan) -> Iterator[Block]:
    """Lines about the first share groups of a plan, and about what no undo restores; nothing without such groups."""
    effects = share_effects(plan)
    for effect in effects[:_NAMED_GROUPS]:
        for line in _lines(effect):
            yield LabelledLine("SHARE", f"{effect.group}: {line}")
    if any(effect.sets or effect.deletes or effect.is_deleted for effect in effects):
        yield Text((f"         {_STATES}",))


def _lines(effect: ShareEffect) -> Iterator[str]:
    if effect.is_deleted:
        yield f"is deleted{_of_lag(effect.unread)}; undo creates it again where it has start offsets"
        return
    if effect.sets:
        before = "unknown" if effect.lag is None else human_count(effect.lag)
        yield f"lag {before} now, {human_count(effect.lag_after)} then: {_comes_again(effect)}"
    if effect.deletes:
        yield _after_deletion(effect)


def _comes_again(effect: ShareEffect) -> str:
    if effect.lag is None:
        return "every record from the start offset on is delivered, done or not"
    most = "" if effect.exact else "at most "
    parts = []
    if effect.repeated:
        parts.append(f"{most}{human_count(effect.repeated)} that count as done are delivered again")
    if effect.skipped:
        parts.append(f"{most}{human_count(effect.skipped)} that are not done are skipped")
    return ", ".join(parts) or "the same records are delivered"


def _of_lag(lag: int | None) -> str:
    return "" if lag is None else f" with a lag of {human_count(lag)}"


def _after_deletion(effect: ShareEffect) -> str:
    unread = "the records that are not done" if effect.unread is None else plural(effect.unread, "record") + " not done"
    match effect.next_start:
        case "latest":
            return f"its next start is at the log end ({_START}=latest): {unread} are passed over"
        case "earliest":
            return f"its next start is at the log start ({_START}=earliest): what is done is delivered again"
        case None:
            return f"its next start is by {_START}, which could not be read"
        case other:
            return f"its next start is at {_START}={other}: what is done since then is delivered again"
