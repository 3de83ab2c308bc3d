"""The picture of a history: members as lanes, generations or epochs as columns, moved partitions marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kgroup.groups.timeline.steps import Cause, HistoryStep, PresentMember, StepKind
from kgroup.model.blocks import Block, Cell, Column, Prose, Styled, Table, Text
from kgroup.model.group_log import RebalanceProtocol
from kgroup.support.durations import format_duration
from kgroup.support.instants import utc_datetime
from kgroup.support.units import plural

_PAGE = 80
_GAP = 2
_LANES = 12
_NAME = 18
_HEAD, _TAIL = 6, 10
_NARROWEST = 5

_STREAMS_THREAD = re.compile(r"-([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-StreamThread-(\d+)-consumer$")

_SHORT = {
    Cause.JOIN: "join",
    Cause.LEAVE: "leave",
    Cause.SESSION_EXPIRED: "sess",
    Cause.POLL_EXCEEDED: "poll",
    Cause.GONE: "gone",
    Cause.STATIC_REPLACED: "static",
    Cause.SUBSCRIPTION: "subs",
    Cause.PARTITIONS: "parts",
    Cause.LEADER_GONE: "leader",
    Cause.FOLLOW_UP: "coop",
    Cause.TOPOLOGY: "topo",
    Cause.SETTINGS: "set",
    Cause.INITIALIZED: "init",
    Cause.UPGRADED: "up",
    Cause.DOWNGRADED: "down",
    Cause.RECREATED: "new",
    Cause.UNKNOWN: "?",
}
_MEANING = {
    Cause.SESSION_EXPIRED: "session expired",
    Cause.POLL_EXCEEDED: "poll interval exceeded",
    Cause.GONE: "left or expired; the log does not show which",
    Cause.STATIC_REPLACED: "static member replaced",
    Cause.SUBSCRIPTION: "subscription changed",
    Cause.PARTITIONS: "partitions changed",
    Cause.LEADER_GONE: "leader gone",
    Cause.FOLLOW_UP: "second half of a cooperative rebalance",
    Cause.TOPOLOGY: "another topology",
    Cause.SETTINGS: "other settings of the assignment",
    Cause.INITIALIZED: "partitions got their first start offsets",
    Cause.UPGRADED: "upgraded",
    Cause.DOWNGRADED: "downgraded",
    Cause.RECREATED: "group recreated",
    Cause.UNKNOWN: "unknown",
}


def picture(steps: Sequence[HistoryStep], *, verbose: bool = False, limit: int | None = None) -> Iterator[Block]:
    """The newest steps that fit on a page of 80 columns, and one lane per member; members that changed come first.

    ``limit`` sets the number of steps instead (0: all). ``verbose`` draws every lane, otherwise 12 are drawn. A
    narrower terminal drops the oldest columns.
    """
    if not steps:
        return
    shown = _newest(steps, limit)
    lanes = _lanes(shown)
    drawn = lanes if verbose else lanes[:_LANES]
    titles = [_title(step) for step in shown]
    classic = any(step.protocol is RebalanceProtocol.CLASSIC for step in shown)
    numbers = "GENERATION" if classic else "EPOCH"
    columns = [
        Column(numbers),
        *(Column(title, right=True, drop=len(shown) - 1 - n) for n, title in enumerate(titles)),
    ]
    rows = [*_heads(shown), *([_lane_label(name), *_cells(name, shown)] for name in drawn)]
    yield Table(columns, rows)
    if omitted := _omitted_line(lanes[len(drawn) :], shown, len(steps) - len(shown)):
        yield Text((omitted,))
    yield Prose(tuple(_legend(shown, drawn)), 2)


def _newest(steps: Sequence[HistoryStep], limit: int | None) -> Sequence[HistoryStep]:
    if limit is not None:
        return steps[-limit:] if limit > 0 else steps
    width = max(len(name) for name in ("GENERATION", "AT 03h (Z)", *map(_lane_label, _lanes(steps[-_PAGE:]))))
    for count in range(1, len(steps) + 1):
        step = steps[-count]
        width += _GAP + max(
            _NARROWEST, len(_title(step)), len(_cause_text(step)), *(len(head) for head in _spans(step))
        )
        if width > _PAGE:
            return steps[-max(1, count - 1) :]
    return steps


def _title(step: HistoryStep) -> str:
    """The step's number; with a ``'`` if it is the same as the number before it."""
    return f"{step.number}'" if step.kind is StepKind.REWRITTEN else str(step.number)


def _heads(steps: Sequence[HistoryStep]) -> Iterator[list[Cell]]:
    moments = [utc_datetime(step.at_ms) for step in steps]
    hours = {moment.replace(minute=0, second=0, microsecond=0) for moment in moments if moment is not None}
    days = {moment.date() for moment in moments if moment is not None}
    if len(hours) == 1:
        label, form = f"AT {min(hours):%H}h (Z)", "%M:%S"
    else:
        label, form = ("AT (Z)", "%H:%M") if len(days) < 2 else ("DAY (Z)", "%m-%d")
    yield [label, *(None if moment is None else f"{moment:{form}}" for moment in moments)]
    if len(days) > 1:
        yield ["AT (Z)", *(None if moment is None else f"{moment:%H:%M}" for moment in moments)]
    yield ["WHY", *(_cause_text(step) or None for step in steps)]
    spans = [_spans(step) for step in steps]
    for row, label in enumerate(("TOOK", "QUIET")):
        if any(pair[row] for pair in spans):
            yield [label, *(pair[row] or None for pair in spans)]
    if any(step.never_completed or step.completed is False for step in steps):
        yield ["NOT DONE", *(_not_done(step) for step in steps)]


def _cause_text(step: HistoryStep) -> str:
    """The first cause, with a plus if there are more."""
    if step.kind is StepKind.DELETED:
        return "deleted"
    if step.kind is StepKind.EMPTY and not step.reasons:
        return "empty"
    if not step.reasons:
        return ""
    return _SHORT[step.reasons[0].cause] + ("+" if len(step.reasons) > 1 else "")


def _spans(step: HistoryStep) -> tuple[str, str]:
    """How long the rebalance took (not classic), and how long no commit was made (classic); empty if unknown."""
    classic = step.protocol is RebalanceProtocol.CLASSIC
    took = "" if classic or step.took_ms is None else format_duration(step.took_ms / 1000)
    return took, format_duration(step.quiet_ms / 1000) if classic and step.quiet_ms is not None else ""


def _not_done(step: HistoryStep) -> Cell:
    if step.completed is False:
        return Styled("!", "warn")
    return Styled(str(step.never_completed), "warn") if step.never_completed else ""


def _lanes(steps: Sequence[HistoryStep]) -> list[str]:
    """The names of all members; those that were not present throughout come first."""
    present_in: dict[str, int] = {}
    named_in: dict[str, int] = {}
    for step in steps:
        for name in {present.name for present in step.members}:
            present_in[name] = present_in.get(name, 0) + 1
        for name in {name for reason in step.reasons for name in reason.members}:
            named_in[name] = named_in.get(name, 0) + 1
    filled = sum(bool(step.members) for step in steps)
    return sorted(
        present_in.keys() | named_in.keys(),
        key=lambda name: (present_in.get(name, 0) == filled, -named_in.get(name, 0), _natural_key(name)),
    )


def _natural_key(name: str) -> list[tuple[int, str]]:
    """A sort key that puts app-2 before app-10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(?a)(\d{1,9})", name)]


def short_name(name: str) -> str:
    """``app-1f2e3d4c-1`` for the client id of a thread of Kafka Streams, which has a whole uuid; other names as is."""
    return _STREAMS_THREAD.sub(r"-\1-\2", name)


def _lane_label(name: str) -> str:
    name = short_name(name)
    return name if len(name) <= _NAME else f"{name[:_HEAD]}..{name[-_TAIL:]}"


def _cells(name: str, steps: Sequence[HistoryStep]) -> list[Cell]:
    return [_cell(name, step) for step in steps]


def _cell(name: str, step: HistoryStep) -> Cell:
    presences = [present for present in step.members if present.name == name]
    if not presences:
        return Styled(".", "dim")
    present = presences[0]
    if name in step.returned:
        return f"{_partition_count(present)}="
    if present.away:
        return Styled(f"{_partition_count(present)}~", "warn")
    return Styled(f"{_partition_count(present)}*", "warn") if present.other else _partition_count(present)


def _partition_count(present: PresentMember) -> str:
    if present.partitions is None:
        return "?"
    spares = 0 if present.spares is None else len(present.spares.standby | present.spares.warmup)
    return f"{len(present.partitions)}+{spares}" if spares else str(len(present.partitions))


def _omitted_line(hidden: Sequence[str], shown: Sequence[HistoryStep], earlier: int) -> str:
    parts = []
    if hidden:
        filled = [step for step in shown if step.members]
        steady = all(any(p.name == name for p in step.members) for name in hidden for step in filled)
        throughout = ", present throughout" if steady else ""
        parts.append(f"{plural(len(hidden), 'more member')}{throughout}: --verbose")
    if earlier > 0:
        parts.append(f"{earlier} earlier: --limit 0")
    return "; ".join(parts)


def _legend(shown: Sequence[HistoryStep], drawn: Sequence[str]) -> Iterator[str]:
    """The meaning of the marks that are drawn."""
    present = [member for step in shown for member in step.members if member.name in drawn]
    streams = any(member.spares is not None for member in present)
    marks = ["4 = active tasks; 4+1 = and a standby or warm-up task" if streams else "4 = partitions held"]
    if any(member.other for member in present):
        marks.append("* = other ones than before")
    if any(step.returned for step in shown):
        marks.append("= returned to the same")
    if any(member.away for member in present):
        marks.append("~ = left temporarily")
    marks.append(". = absent")
    yield "; ".join(marks)
    if any(step.kind is StepKind.REWRITTEN for step in shown):
        yield "' = no rebalance: a static member returned under a new member id"
    first = {step.reasons[0].cause for step in shown if step.reasons and step.kind is not StepKind.DELETED}
    short = [f"{_SHORT[cause]} = {_MEANING[cause]}" for cause in Cause if cause in first and cause in _MEANING]
    if any(_cause_text(step).endswith("+") for step in shown):
        short.append("+ = and others")
    if short:
        yield "WHY: " + "; ".join(short)
    if any(_spans(step)[1] for step in shown):
        yield "QUIET = since the last commit before it, of any member; how long members took to join is not in the log"
    if any(step.never_completed or step.completed is False for step in shown):
        yield "NOT DONE: rebalances before it that never completed; ! = overtaken by the next"
