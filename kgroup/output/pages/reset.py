"""What only the page of a reset has: its first line, the time that was understood, and a command safe to repeat."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from kgroup.groups.change_plan import ChangePlan, committed
from kgroup.groups.reset_targets import ResetScenario, ShiftBy, ToTime
from kgroup.model.blocks import Block, LabelledLine
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.units import human_count, plural

_SHOWN_INSTEAD = 5


def target_time(scenario: ResetScenario | None, now: datetime) -> tuple[Block, ...]:
    """The time that was understood: what the user typed does not show the assumed day and time zone."""
    if not isinstance(scenario, ToTime):
        return ()
    moment = datetime.fromtimestamp(scenario.timestamp_ms / 1000, UTC)
    away_s = now.timestamp() - moment.timestamp()
    ago = f"{format_duration(away_s)} ago" if away_s >= 0 else f"in {format_duration(-away_s)}"
    blocks: list[Block] = [LabelledLine("TO", f"the first record since {rfc3339(moment, 'seconds')}, {ago}")]
    if away_s < 0:
        blocks.append(LabelledLine("UNUSUAL", "that lies in the future: every partition goes to its log end", "warn"))
    return tuple(blocks)


def subject(plan: ChangePlan) -> str:
    """``pay-svc: 1 of 24 partitions, 1 record skipped``."""
    names = plan.affected_groups
    if not names:
        return ""
    moves = zip(plan.moves, ("skipped", "read again"), strict=True)
    moved = "".join(f", {human_count(n)} record{'s' * (n != 1)} {word}" for n, word in moves if n)
    of_all = {group.name: len(committed(group)) for group in plan.groups}
    if len(names) > 1:
        return f"{plural(len(names), 'group')}: {plural(len(plan.rows), 'partition')}{moved}"
    count, total = len(plan.rows), of_all.get(names[0], 0)
    scope = f"{count} of {total} partitions" if count < total else plural(count, "partition")
    new = " (a new group)" if names[0] in plan.created else ""
    return f"{names[0]}{new}: {scope}{moved}"


def repeatable_command(plan: ChangePlan, scenario: ResetScenario | None, command: Callable[..., str]) -> str | None:
    """The equivalent ``--to-offset`` of a small ``--shift-by``: repeated by accident, ``--shift-by`` skips twice."""
    rows = [row for row in plan.rows if row.new and not row.error]
    names = {row.group for row in rows}
    if not isinstance(scenario, ShiftBy) or len(names) != 1 or not 0 < len(rows) <= _SHOWN_INSTEAD:
        return None
    offsets = ",".join(f"{row.name}={row.new.offset}" for row in rows if row.new)
    return f"The same, safe to be repeated:  {command('reset', names.pop(), '--to-offset', offsets)}"
