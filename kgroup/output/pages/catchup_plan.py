"""The pages of one plan of the ledger: its release, its progress, the verification of its replay, its cancellation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.groups.catchup.documents import next_deadline_ms
from kgroup.groups.catchup.plan_state import PlanCommands, VerifiedPlan, offsets_text
from kgroup.groups.catchup.release_evidence import OffsetRewind
from kgroup.groups.catchup.results import Cancellation, PlanStatus
from kgroup.groups.catchup.steps import AlreadyDone, Close, MoveBack
from kgroup.groups.catchup.verification import PartitionVerification, Verification
from kgroup.model.blocks import BlankLine as Space
from kgroup.model.blocks import Block, Cell, Column, LabelledLine, Records, Screen, Styled, Table, Text, Title
from kgroup.output.pages.change import ROWS_ON_A_PAGE
from kgroup.support.command_line import CommandLine
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.units import human_bytes, percent, plural

_PARTITIONS = (
    Column("PARTITION", fold=True),
    Column("START", right=True),
    Column("DELIVERED TO", right=True),
    Column("END", right=True),
    Column("LEFT", right=True),
    Column("CHUNKS", right=True),
)
_PROVED = (
    Column("PARTITIONS", right=True),
    Column("READ TO END", right=True),
    Column("RECORDS", right=True),
    Column("DELIVERED", right=True),
    Column("FILTERED", right=True),
    Column("DEAD", right=True),
    Column("LOST", right=True),
    Column("TOOK", right=True),
)
_MOVES = (
    Column("PARTITION", fold=True),
    Column("NOW", right=True),
    Column("BACK TO", right=True),
)
MOVES_HEADER = ("plan_id", "group", "topic", "partition", "from", "to")
_LOST = (Column("PARTITION", fold=True), Column("RANGE"), Column("OFFSETS", right=True), Column("WHY", fold=True))


def released_screen(state: VerifiedPlan, typed: PlanCommands) -> Screen:
    """The page after the release: the group may start, and nothing else has to be done now."""
    plan = state.snapshot.plan
    who = f"{plan.group} MAY START NOW" if plan.group else f"{plan.id} is in the ledger"
    blocks: list[Block] = [Title(f"DONE  {who}"), *owed(state)]
    lines = [f"Replay them:  {typed.resume}"]
    if plan.group:
        lines.append(f"Go back:      {typed.cancel}     (while it is Empty)")
    return Screen((*blocks, Text(tuple(lines))))


def owed(state: VerifiedPlan) -> Iterator[Block]:
    """Lines for what is pending, and when retention deletes the first of it."""
    plan = state.snapshot.plan
    sizes = [item.size for item in plan.ranges]
    known = [size for size in sizes if size is not None]
    whole = state.owed == state.offsets and len(known) == len(sizes)
    size = f", {human_bytes(sum(known))}" if whole else ""
    yield LabelledLine("OWED ", f"{offsets_text(state.owed)}{size}, in {plan.id}: unread until you say where to")
    deadline = next_deadline_ms(state.snapshot)
    if deadline is not None:
        yield LabelledLine("UNTIL", f"{rfc3339(deadline, 'seconds')}; then retention takes the first of them")


def show_screen(status: PlanStatus, *, verbose: bool) -> Screen:
    """One plan: its runner, its progress, what is lost, and the next command."""
    state, typed, gone = status.state, status.commands, status.gone
    found, proof = state.snapshot, state.verification
    plan = found.plan
    blocks: list[Block] = [Title(f"{plan.id}  {state.word}  {percent(*state.progress)}  {state.name}")]
    blocks.append(LabelledLine("WHO ", _who(state)))
    blocks.append(LabelledLine("GAP ", f"{state.progress_text} delivered; {proof.records} records were read"))
    totals = proof.totals()
    lost = totals["lost_offsets"]
    counted = f"{totals['dead']}        LOST  {lost}        MAY COME TWICE  {totals['may_repeat']}"
    blocks.append(LabelledLine("DEAD", counted, "bad" if lost else None))
    blocks += _again(proof)
    if found.state.note:
        blocks.append(LabelledLine("NOTE", found.state.note))
    deadline = next_deadline_ms(found) if state.owed else None
    if deadline is not None:
        left = format_duration(max(0, deadline - state.now_ms) / 1000)
        blocks.append(LabelledLine("SAFE", f"retention takes the first undelivered record in {left}"))
    blocks += [Space(), *_table(proof.partitions, verbose=verbose)]
    if proof.lost:
        blocks += [Space(), _lost_table(proof)]
    blocks += [Text((f"twice: {row.tp} [{row.start}, {row.end}) {_came_back(row)}",)) for row in proof.rewinds]
    if gone is not None:
        blocks.append(Text((f"{gone.message}", f"-> {typed.give_up}   ends it")))
    elif following := _next(state, typed):
        blocks.append(Text((f"-> {following}",)))
    if status.lines:
        blocks.append(Text(("", *status.lines)))
    return Screen(tuple(blocks))


def _who(state: VerifiedPlan) -> str:
    found = state.snapshot
    reason = f', "{found.plan.reason}"' if found.plan.reason else ""
    epoch, seen_s = found.epoch, state.silent_s
    runner = "no runner yet"
    if epoch is not None:
        by = "" if epoch.who == found.plan.who else f" ({epoch.who})"
        seen = "which has ended" if seen_s is None else f"seen {format_duration(seen_s)} ago"
        runner = f"runner epoch {epoch.number}{by}, {seen}"
    return f"{found.plan.who}, since {rfc3339(found.plan.created_ms, 'seconds')}{reason}; {runner}"


def _table(partitions: Sequence[PartitionVerification], *, verbose: bool) -> Iterator[Block]:
    ranked = sorted(partitions, key=lambda row: row.delivered_to - row.end)
    shown = ranked if verbose else ranked[:ROWS_ON_A_PAGE]
    rows = [
        (
            f"{row.tp}",
            row.start,
            row.delivered_to,
            row.end,
            sum(part.offsets for part in row.undelivered),
            f"{row.chunks_done} of {row.chunks}",
        )
        for row in shown
    ]
    if rows:
        yield Table(_PARTITIONS, rows)
    if more := len(ranked) - len(shown):
        yield Text((f"{more} more: --verbose",))


def _next(state: VerifiedPlan, typed: PlanCommands) -> str | None:
    match state.word:
        case "replaying":
            return f"{typed.stop}   stops it; nothing is lost"
        case "stopped" if state.silent_s is not None:  # the age uses the runner's clock, not ours
            return f"{typed.resume}   goes on with it, and ends whoever still works on it: nothing is lost"
        case "owed" | "stopped" | "planned" | "releasing":
            return f"{typed.resume}   goes on with it"
        case "cancelling":
            return f"{typed.cancel}   goes on with it"
        case _:
            return None


def verification_screen(state: VerifiedPlan, took_s: float | None, *, untouched: bool) -> Screen:
    """The page at the end of a replay: all is verified, or the exact ranges that are lost or not delivered.

    ``untouched`` is true if the group is known not to have been rewound, apart from the rewinds in the verification.
    """
    proof, plan = state.verification, state.snapshot.plan
    totals = proof.totals()
    subject = f"{plan.id}  {state.name}"
    if proof.complete:
        row = (
            totals["partitions"],
            totals["read_to_end"],
            totals["records"],
            totals["delivered"],
            totals["filtered"],
            totals["dead"],
            totals["lost_offsets"],
            None if took_s is None else format_duration(took_s),
        )
        end = "Done."
        if plan.group and untouched and not proof.rewinds:
            end = f"Done. Nobody has set {plan.group} back after the release."
        blocks: list[Block] = [Title(f"PROVED  {subject}"), Table(_PROVED, [row]), *_twice(state), *_again(proof)]
        return Screen((*blocks, Text((end,))))
    complete = sum(row.complete for row in proof.partitions)
    blocks = [Title(f"{'LOST' if proof.lost else 'NOT PROVED'}    {subject}")]
    if proof.lost:
        blocks.append(_lost_table(proof))
    blocks += [Text((f"not delivered: {row}",)) for row in proof.undelivered[:ROWS_ON_A_PAGE]]
    blocks += [Text((sentence,)) for row in proof.partitions for sentence in row.contradictions]
    blocks += [Text((sentence,)) for sentence in proof.contradictions]
    read = f"{totals['delivered']} of {totals['records']} records that were read"
    return Screen((*blocks, *_twice(state), Text((f"Delivered: {read}; {plural(complete, 'partition')} complete.",))))


def _twice(state: VerifiedPlan) -> Iterator[Block]:
    for row in state.verification.rewinds:
        what = f"{row.tp} [{row.start}, {row.end})"
        group, at = state.snapshot.plan.group, rfc3339(row.at_ms, "seconds")
        said = f"the commit of {group} was deleted at {at}" if row.deleted else f"{group} was set back at {at}"
        yield LabelledLine("TWICE", f"{said}: {'perhaps ' * row.deleted}{what}", "warn")


def _again(proof: Verification) -> Iterator[Block]:
    """Records gone from the target topic after delivery and delivered again: earlier readers get them twice."""
    if again := proof.totals()["delivered_again"]:
        said = (
            f"{plural(again, 'record')} gone from the target topic after they were delivered, and delivered once more"
        )
        yield LabelledLine("AGAIN", said, "warn")


def _came_back(row: OffsetRewind) -> str:
    return "perhaps: its commit was deleted" if row.deleted else "was set back"


def _lost_table(proof: Verification) -> Table:
    rows = [(f"{row.tp}", Styled(f"[{row.start}, {row.end})", "bad"), row.offsets, row.why) for row in proof.lost]
    return Table(_LOST, rows)


def cancellation_screen(cancellation: Cancellation, command: CommandLine) -> Screen:
    """The page of ``catchup cancel``, before or after execution."""
    plan = cancellation.state.snapshot.plan
    word = "DONE" if cancellation.executed else "PLAN"
    blocks: list[Block] = [Title(f"{word}  cancel {plan.id}, {cancellation.state.word}: {cancellation.state.name}")]
    blocks += _cancelled(cancellation)
    if cancellation.refusal is not None:
        error = cancellation.refusal
        blocks.append(LabelledLine("REFUSED", f"{error.message} [{error.code}]", "bad"))
        blocks.append(Text(tuple(f"  {line}" for line in (*error.details, *((error.hint,) if error.hint else ())))))
    if cancellation.executed:
        return Screen((*blocks, Text(("Done.",))))
    if cancellation.refusal is not None or isinstance(cancellation.decision, AlreadyDone):
        return Screen((*blocks, Space(), Text(("Nothing was changed.",))))
    return Screen((*blocks, Space(), Text(("Nothing was changed. To do it:", f"  {command.executing()}"))))


def _cancelled(cancellation: Cancellation) -> Iterator[Block]:
    decision, plan = cancellation.decision, cancellation.state.snapshot.plan
    match decision:
        case MoveBack():
            rows: list[tuple[Cell, ...]] = [
                (f"{topic}:{partition}", before, after) for topic, partition, before, after in cancellation.moves
            ]
            yield Table(_MOVES, rows[:ROWS_ON_A_PAGE])
            if len(rows) > ROWS_ON_A_PAGE:
                yield Text((f"{len(rows) - ROWS_ON_A_PAGE} more: -o json has all",))
            yield Text((f"{plan.group} goes on from there, and handles the gap itself.",))
            for row in decision.reprocessed[:ROWS_ON_A_PAGE]:
                what = f"{row.tp} [{row.start}, {row.end}): {row.why}"
                yield LabelledLine("TWICE", what, "warn")
        case Close(note=note, given_up=given_up):
            yield Text((f"{note[0].upper()}{note[1:]}.",))
            for lost in given_up[:ROWS_ON_A_PAGE]:
                what = f"{lost.tp} [{lost.start}, {lost.end})"
                yield LabelledLine("NOBODY", f"gets {what}, {plural(lost.end - lost.start, 'offset')}", "warn")
        case AlreadyDone(why=why):
            yield Text((f"{why}: nothing to do",))  # starts with the plan id, which users paste: no capital
        case _:
            pass


def cancellation_records(cancellation: Cancellation) -> Records:
    """The moves as rows for CSV."""
    plan = cancellation.state.snapshot.plan
    return Records(MOVES_HEADER, [(plan.id, plan.group, *move) for move in cancellation.moves])
