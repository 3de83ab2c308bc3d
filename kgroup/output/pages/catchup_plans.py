"""The pages of plans in the ledger: what was released, what is pending, the progress of a replay, its verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from kgroup.catchup.documents import next_deadline_ms
from kgroup.catchup.plan_state import PlanCommands, VerifiedPlan, offsets_text, sink_name
from kgroup.catchup.release_evidence import OffsetRewind
from kgroup.catchup.service.results import PlanStatus, PrunedPlans
from kgroup.catchup.verification import PartitionVerification, Verification
from kgroup.model.blocks import BlankLine as Space
from kgroup.model.blocks import Block, Cell, Column, LabelledLine, Records, Screen, Styled, Table, Text, Title
from kgroup.support.durations import format_duration
from kgroup.support.instants import rfc3339
from kgroup.support.quoting import execute_command
from kgroup.support.units import human_bytes, percent, plural

ROWS_ON_A_PAGE = 20
_LIST = (
    Column("PLAN"),
    Column("GROUP", fold=True),
    Column("STATE"),
    Column("OWED", right=True),
    Column("OF", right=True),
    Column("RETENTION", right=True),
    Column("TO", fold=True),
    Column("BY", drop=2, fold=True),
    Column("MADE (Z)", drop=1),
)
LIST_HEADER = (
    "plan_id", "group", "state", "owed_offsets", "offsets", "retention_deadline", "sink", "who", "created"
)  # fmt: skip
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


def list_screen(states: Sequence[VerifiedPlan], *, verbose: bool) -> Screen:
    """One row per plan in the given order; at most 20 unless ``verbose``."""
    if not states:
        return Screen(())
    shown = states if verbose else states[:ROWS_ON_A_PAGE]
    blocks: list[Block] = [
        Title(plural(len(states), "catch-up"), in_terminal_only=True),
        Table(_LIST, [_list_row(state) for state in shown], sparse=frozenset({"RETENTION", "TO"})),
    ]
    if more := len(states) - len(shown):
        blocks.append(Text((f"{more} more: --verbose",)))
    return Screen(tuple(blocks))


def _list_row(state: VerifiedPlan) -> tuple[Cell, ...]:
    plan, delivery = state.snapshot.plan, state.snapshot.delivery
    deadline = next_deadline_ms(state.snapshot) if state.owed else None
    made = datetime.fromtimestamp(plan.created_ms / 1000, UTC)
    return (
        plan.id,
        plan.group,
        state.word,
        state.owed,
        state.offsets,
        None if deadline is None else format_duration(max(0, deadline - state.now_ms) / 1000),
        None if delivery is None else sink_name(delivery.sink, delivery.options),
        plan.who,
        f"{made:%m-%d %H:%M}",
    )


def prune_screen(pruned: PrunedPlans, typed: Sequence[str]) -> Screen:
    """The finished plans that are pruned, or would be."""
    if not pruned.states:
        return Screen(())
    word, count = ("DONE", len(pruned.states) - len(pruned.errors)) if pruned.executed else ("PLAN", len(pruned.states))
    lines = ("Done.",) if pruned.executed else ("Nothing was changed. To do it:", f"  {execute_command(typed)}")
    title = Title(f"{word}  forget {plural(count, 'finished plan')}")
    return Screen((title, *list_screen(pruned.states, verbose=True).blocks[1:], Text(lines)))


def list_records(states: Sequence[VerifiedPlan]) -> Records:
    """The same rows for CSV."""
    return Records(
        LIST_HEADER,
        [
            (
                state.snapshot.plan.id,
                state.snapshot.plan.group,
                state.snapshot.state.state.value,
                state.owed,
                state.offsets,
                rfc3339(next_deadline_ms(state.snapshot)),
                None if state.snapshot.delivery is None else state.snapshot.delivery.sink,
                state.snapshot.plan.who,
                rfc3339(state.snapshot.plan.created_ms),
            )
            for state in states
        ],
    )


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
