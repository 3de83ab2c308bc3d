"""What ``resume`` and ``cancel`` do next, decided from the ledger and the state of the group. Pure.

``cancel`` moves back only partitions that were released, ``resume`` releases only those that were not. If that is
unknown of one partition, both refuse. The rules were checked in a model of all crashes and rivals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kgroup.groups.catchup.delivered import delivered_to, lowest_undelivered, started_chunks, undelivered, unfinished
from kgroup.groups.catchup.model import ExplainedRange, GapRange, PlanState
from kgroup.groups.catchup.offset_moves import (
    back_to_origin,
    find_reprocessed,
    move_back,
    offset_of,
    release_moves,
    restore_moves,
)
from kgroup.groups.catchup.plan_state import SESSION
from kgroup.groups.catchup.release_evidence import ReleaseEvidence
from kgroup.groups.catchup.steps import (
    AlreadyDone,
    Close,
    Decision,
    MoveBack,
    Refuse,
    Release,
    Replay,
    Situation,
    WriteReleased,
)
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import MOVED_SINCE, NOT_EMPTY, Refused, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.units import plural

POSSIBLE_DUPLICATES = refusal_code(
    "possible-duplicates",
    "catchup cancel, catchup start",
    "The group would process records twice: after cancel, those that were delivered; after start, those that "
    "another open plan has.",
    "Use catchup resume.",
)
GROUP_CONTINUED = refusal_code(
    "group-continued",
    "catchup",
    "The group has committed by itself in the gap since the plan was made.",
    "Follow the message.",
)
CANCELLING = refusal_code("cancelling", "catchup", "The plan is being cancelled.", "Finish it with catchup cancel.")
CLOSED = refusal_code("closed", "catchup", "The plan is finished.", "Make a new plan with catchup start.")
DELIVERED = refusal_code(
    "delivered", "catchup", "All records of the plan are delivered.", "Read the result: catchup show."
)
HISTORY_UNREAD = refusal_code(
    "history-unread",
    "catchup",
    "A release broke off, and __consumer_offsets does not show whether it happened.",
    "Add --assume released, or --assume unreleased.",
)

MEMBER_RELEASES = refusal_code(
    "member-releases",
    "catchup",
    "A member of the group has planned the release, and may be about to commit it.",
    "Run the command again. If that member has died, the next owner of its partitions decides, or the Empty group.",
    not_yet=True,
)

_NAMED = 3


def resume(now: Situation) -> Decision:
    """What ``resume`` does; also ``start``, after its plan is in the ledger."""
    plan, state = now.ledgered.plan, now.ledgered.state.state
    if state is PlanState.DONE:
        return AlreadyDone(f"{plan.id} is done")
    if state is PlanState.CANCELLED:
        return _refuse(
            CLOSED,
            f"{plan.id} is cancelled",
            Hint("{} makes a new plan", ("catchup", "start", *filter(None, [plan.group]))),
        )
    if state is PlanState.CANCELLING:
        hint = Hint("{} continues the cancellation", ("catchup", "cancel", plan.id, "--execute"))
        return _refuse(CANCELLING, f"{plan.id} is being cancelled: it can only be cancelled to its end", hint)
    if state is PlanState.RELEASED:
        return Replay(tuple(chunk.number for chunk in unfinished(plan, now.ledgered.progress)))
    if plan.group is None:
        return WriteReleased()
    return _first_release(now) if state is PlanState.PLANNED else _resume_releasing(now)


def _first_release(now: Situation) -> Decision:
    plan = now.ledgered.plan
    if now.live:
        return _not_empty(now)
    moved = [item for item in plan.ranges if _current(now, item) != offset_of(item.before)]
    if moved:
        rows = (
            f"{_name(item)}: was {_shown(offset_of(item.before))}, is {_shown(_current(now, item))}" for item in moved
        )
        return _refuse(
            MOVED_SINCE,
            f"another client moved offsets of {plan.group} after {plan.id} was made: {plural(len(moved), 'partition')}",
            Hint(
                "nothing was released. Cancel the plan, then start again:  {}",
                ("catchup", "cancel", plan.id, "--execute"),
            ),
            _few(rows),
        )
    return Release(release_moves(now, plan.ranges), now.ledgered.state.log_position)


def _resume_releasing(now: Situation) -> Decision:
    plan, position = now.ledgered.plan, now.ledgered.state.log_position
    by_evidence = _sorted_out(now)
    if by_evidence[ReleaseEvidence.UNKNOWN]:
        return _unread(now, by_evidence[ReleaseEvidence.UNKNOWN])
    if by_evidence[ReleaseEvidence.DELETED]:
        return _deleted(now, by_evidence[ReleaseEvidence.DELETED])
    if by_evidence[ReleaseEvidence.IN_DOUBT]:
        return _in_doubt(now, by_evidence[ReleaseEvidence.IN_DOUBT])
    if not by_evidence[ReleaseEvidence.NOT_RELEASED] and not by_evidence[ReleaseEvidence.CONTINUED]:
        return WriteReleased()
    if not by_evidence[ReleaseEvidence.CONTINUED]:
        return Release(release_moves(now, by_evidence[ReleaseEvidence.NOT_RELEASED]), position)
    on = by_evidence[ReleaseEvidence.CONTINUED]
    rows = _few(f"{_name(item)} at {_shown(_current(now, item))}" for item in on)
    if not by_evidence[ReleaseEvidence.RELEASED]:
        message = f"{plan.group} committed new offsets before {plan.id} released it: it reads the gap itself"
        error = Refused(message, details=rows, hint="nothing is pending: the plan is closed", code=GROUP_CONTINUED)
        return Close(f"{plan.group} committed new offsets before it was released", refused=error)
    return _refuse(
        GROUP_CONTINUED,
        f"{plan.group} committed new offsets on {plural(len(on), 'partition')} while {plan.id} released the others",
        Hint(
            "while the group is Empty, {} moves the released partitions back",
            ("catchup", "cancel", plan.id, "--execute"),
        ),
        rows,
    )


def cancel(now: Situation, accepted: Collection[str] = (), *, abandon: bool = False) -> Decision:
    """What ``cancel`` does. ``accepted`` are codes of ``--accept``; ``possible-duplicates`` matters."""
    ledgered, plan, state = now.ledgered, now.ledgered.plan, now.ledgered.state.state
    if state is PlanState.CANCELLED:
        return AlreadyDone(f"{plan.id} is cancelled")
    if state is PlanState.DONE:
        back = None if plan.group is None else Hint("to move the group: {}", ("undo", plan.group, "--as-of", "TIME"))
        return _refuse(CLOSED, f"{plan.id} is done and cannot be cancelled", back)
    if abandon and not plan.ranges:
        return Close(f"the rest of {plan.id} leaves the ledger; its group's commits show the gap until they change")
    if abandon:
        rows = tuple(_abandoned(now))
        return Close(_note("abandoned", rows), rows)
    if plan.group is None:
        pending = undelivered(plan, ledgered.progress)
        rows = tuple(ExplainedRange(row.topic, row.partition, row.start, row.end, "cancelled") for row in pending)
        return Close(_note("cancelled; no group was moved", rows), rows)
    if state is PlanState.PLANNED:
        return Close("cancelled before any offset was moved")
    if state is PlanState.CANCELLING:
        return _cancel_on(now, POSSIBLE_DUPLICATES in accepted)
    if state is PlanState.RELEASING:
        return _cancel_releasing(now, POSSIBLE_DUPLICATES in accepted)
    return _cancel_released(now, POSSIBLE_DUPLICATES in accepted)


def _cancel_on(now: Situation, twice: bool) -> Decision:
    """Continue an interrupted move back, with the targets in the ledger, whatever was found since."""
    plan, state = now.ledgered.plan, now.ledgered.state
    expected = {(topic, partition): offset for topic, partition, offset in state.expected}
    ranges = {item.tp: item for item in plan.ranges}
    todo: list[tuple[GapRange, int]] = []
    for topic, partition, target in state.targets:
        item = ranges.get(TopicPartition(topic, partition))
        if item is None or target == expected.get(item.tp):
            continue
        evidence = now.evidence.get(item.tp, ReleaseEvidence.UNKNOWN)
        if evidence is ReleaseEvidence.UNKNOWN:
            return _unread(now, [item])
        if evidence is ReleaseEvidence.RELEASED:
            todo.append((item, target))
    unmarked = () if now.live else tuple(restore_moves(now))
    if not todo:
        return Close("cancelled: moved back", restores=unmarked)
    if now.live:
        return _not_empty(now)
    moves = tuple(move for item, target in todo if (move := move_back(now, item, target)) is not None)
    again = find_reprocessed(now, moves)
    if not twice and any(_current(now, item) != expected.get(item.tp) for item, _ in todo):
        return _duplicates(
            now, f"another client moved offsets of {plan.group} during the cancellation of {plan.id}", again
        )
    return MoveBack((*moves, *unmarked), again, write=False)


def _cancel_releasing(now: Situation, twice: bool) -> Decision:
    plan = now.ledgered.plan
    by_evidence = _sorted_out(now)
    if by_evidence[ReleaseEvidence.UNKNOWN]:
        return _unread(now, by_evidence[ReleaseEvidence.UNKNOWN])
    if by_evidence[ReleaseEvidence.DELETED]:
        return _deleted(now, by_evidence[ReleaseEvidence.DELETED])
    if by_evidence[ReleaseEvidence.IN_DOUBT]:
        return _in_doubt(now, by_evidence[ReleaseEvidence.IN_DOUBT])
    released = by_evidence[ReleaseEvidence.RELEASED]
    if not released:
        return Close("cancelled before any offset was moved")
    if now.live:
        return _not_empty(now)
    moves = back_to_origin(now, released)
    again = find_reprocessed(now, moves)
    if not twice and _not_at_end(now, released):
        return _duplicates(now, f"{plan.group} committed new offsets after {plan.id} released it", again)
    return MoveBack(moves, again)


def _cancel_released(now: Situation, twice: bool) -> Decision:
    plan, progress = now.ledgered.plan, now.ledgered.progress
    if now.live:
        return _not_empty(now)
    lowest = lowest_undelivered(plan, progress)
    handed_over = {(chunk.topic, chunk.partition) for chunk in started_chunks(plan, progress)}
    partly = [
        move
        for item in plan.ranges
        if item.tp in handed_over and item.tp in lowest
        if (move := move_back(now, item, lowest[item.tp])) is not None
    ]
    untouched = back_to_origin(now, (item for item in plan.ranges if item.tp not in handed_over))
    moves = tuple(sorted((*partly, *untouched), key=lambda move: move.tp))
    again = find_reprocessed(now, moves)
    if not twice and handed_over:
        if lowest:
            surely = any(delivered_to(chunk, progress) > chunk.start for chunk in plan.chunks)
            return _duplicates(now, f"a part of {plan.id} {'is' if surely else 'may be'} delivered already", again)
        hint = Hint("{} verifies it and closes the plan", ("catchup", "resume", plan.id, "--execute"))
        return _refuse(DELIVERED, f"{plan.id} is delivered completely: no offset needs to be moved back", hint)
    objection = None if twice else _not_where_released(now, again)
    return objection or MoveBack(moves, again)


def _not_where_released(now: Situation, again: tuple[ExplainedRange, ...]) -> Refuse | None:
    """Why a group may have processed a part of an undelivered plan: it is not where kgroup released it; None: it is."""
    plan, by_evidence = now.ledgered.plan, _sorted_out(now)
    if now.set_back or _not_at_end(now, plan.ranges):
        return _duplicates(now, f"{plan.group} committed new offsets after {plan.id} released it", again)
    if by_evidence[ReleaseEvidence.UNKNOWN]:
        return _unread(now, by_evidence[ReleaseEvidence.UNKNOWN])
    if (
        by_evidence[ReleaseEvidence.NOT_RELEASED]
        or by_evidence[ReleaseEvidence.CONTINUED]
        or by_evidence[ReleaseEvidence.DELETED]
    ):
        return _duplicates(
            now, f"{plan.id} did not commit the current offsets of {plan.group}; its own consumers did", again
        )
    return None


def _not_at_end(now: Situation, ranges: Iterable[GapRange]) -> bool:
    return any(_current(now, item) != item.end for item in ranges)


def _abandoned(now: Situation) -> Iterator[ExplainedRange]:
    """The undelivered offsets that the group will not read: it still reads what was not released, or moved back."""
    plan = now.ledgered.plan
    if plan.group is not None and now.ledgered.state.state is PlanState.PLANNED:
        return
    for row in undelivered(plan, now.ledgered.progress):
        evidence = now.evidence.get(row.tp)
        if evidence not in (ReleaseEvidence.NOT_RELEASED, ReleaseEvidence.CONTINUED):
            known = evidence not in (ReleaseEvidence.UNKNOWN, ReleaseEvidence.IN_DOUBT)
            unsure = "" if known else " (it is unknown whether it was released)"
            yield ExplainedRange(row.topic, row.partition, row.start, row.end, f"--abandon{unsure}")


def _note(what: str, rows: Collection[ExplainedRange]) -> str:
    if not rows:
        return f"{what}; no undelivered records remain"
    return f"{what}: " + ", ".join(str(row) for row in rows)


def _sorted_out(now: Situation) -> dict[ReleaseEvidence, list[GapRange]]:
    by_evidence: dict[ReleaseEvidence, list[GapRange]] = {evidence: [] for evidence in ReleaseEvidence}
    for item in now.ledgered.plan.ranges:
        by_evidence[now.evidence.get(item.tp, ReleaseEvidence.UNKNOWN)].append(item)
    return by_evidence


def _current(now: Situation, item: GapRange) -> int | None:
    return offset_of(now.committed.get(item.tp))


def _name(item: GapRange) -> str:
    return f"{item.tp}"


def _shown(offset: int | None) -> str:
    return "no commit" if offset is None else str(offset)


def _few(rows: Iterable[str]) -> tuple[str, ...]:
    first = list(rows)
    more = (f"and {len(first) - _NAMED} more",) if len(first) > _NAMED else ()
    return (*first[:_NAMED], *more)


def _refuse(code: str, message: str, hint: str | None, details: tuple[str, ...] = ()) -> Refuse:
    return Refuse(Refused(message, details=details, hint=hint, code=code))


def _not_empty(now: Situation) -> Refuse:
    plan = now.ledgered.plan
    return _refuse(
        NOT_EMPTY,
        f"{plan.group} has members, so its offsets cannot be moved",
        "stop the members, and wait until the group is Empty",
    )


def _in_doubt(now: Situation, ranges: Iterable[GapRange]) -> Refuse:
    plan = now.ledgered.plan
    return _refuse(
        MEMBER_RELEASES,
        f"a member of {plan.group} made {plan.id}, and may be about to release it",
        "run the command again; if that member has died, its partitions' next owner closes the plan, or stop the group",
        _few(_name(item) for item in ranges),
    )


def _unread(now: Situation, ranges: Iterable[GapRange]) -> Refuse:
    plan = now.ledgered.plan
    rows = [_name(item) for item in ranges]
    return _refuse(
        HISTORY_UNREAD,
        f"it is unknown whether {plan.id} released {plural(len(rows), 'partition')} of {plan.group}: the history "
        "of its commits in __consumer_offsets could not be read, or is compacted",
        f"if you know it, add --assume {rows[0]}=released or --assume {rows[0]}=unreleased",
        _few(rows),
    )


def _deleted(now: Situation, ranges: Iterable[GapRange]) -> Refuse:
    plan = now.ledgered.plan
    rows = [
        f"{_name(item)}: was {_shown(offset_of(item.before))}, [{item.start}, {item.end}) is pending" for item in ranges
    ]
    return _refuse(
        MOVED_SINCE,
        f"commits of {plan.group} were deleted or expired before {plan.id} released {plural(len(rows), 'partition')}: "
        "it is unknown whether the group reads the gap itself",
        Hint(
            "{} closes the plan and lists what is abandoned; or restore the commits with {}, then resume the plan",
            ("catchup", "cancel", plan.id, "--abandon", "--execute"),
            ("undo",),
        ),
        _few(rows),
    )


def _duplicates(now: Situation, why: str, again: Iterable[ExplainedRange]) -> Refuse:
    plan, delivery = now.ledgered.plan, now.ledgered.delivery
    rows = _few(f"{row}: {row.reason}" for row in again)
    hint = Hint(
        "--accept possible-duplicates moves the group back; {} delivers the rest instead",
        ("catchup", "resume", plan.id, "--execute"),
    )
    if delivery is not None and delivery.sink == SESSION:
        hint = Hint("--accept possible-duplicates moves the group back; kgroup.spark.gap delivers the rest instead")
    return _refuse(
        POSSIBLE_DUPLICATES,
        f"{why}. Moving {plan.group} back would make it process these records again.",
        hint,
        rows,
    )
