"""The pages of one plan of the ledger: its release, its progress, the verification of its replay, its cancellation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import astuple

from kgroup.groups.catchup.delivered import next_deadline_ms
from kgroup.groups.catchup.elsewhere import spark_options
from kgroup.groups.catchup.model import PlanState, RangeVerification
from kgroup.groups.catchup.plan_state import SESSION, PlanCommands, VerifiedPlan, offsets_text
from kgroup.groups.catchup.replay_rate import ReplayRate, applied_text, range_key
from kgroup.groups.catchup.results import Cancellation, PlanStatus
from kgroup.groups.catchup.steps import AlreadyDone, Close, MoveBack
from kgroup.groups.catchup.verification import CatchupTotals, Verification
from kgroup.groups.catchup.yielding import LIVE, OFF, YIELD_TO
from kgroup.groups.lag.rates import rate_words
from kgroup.model.blocks import BlankLine as Space
from kgroup.model.blocks import Block, Cell, Column, LabelledLine, Records, Screen, Style, Styled, Table, Text, Title
from kgroup.model.streaming_query import is_query
from kgroup.output.pages.change import ROWS_ON_A_PAGE, closing_lines, passing_command, refusal_block
from kgroup.support.command_line import CommandLine
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.units import bar, human_bytes, percent, plural

_PARTITIONS = (
    Column("PARTITION", fold=True),
    Column("START", right=True, drop=2),
    Column("DELIVERED-TO", right=True),
    Column("END", right=True),
    Column("PENDING", right=True),
    Column("PROGRESS", drop=3),
    Column("RATE", right=True),
    Column("CHUNKS", right=True, drop=1),
)
_BAR = 10
_VERIFIED = (
    Column("PARTITIONS", right=True),
    Column("READ-TO-END", right=True),
    Column("RECORDS", right=True),
    Column("DELIVERED", right=True),
    Column("FILTERED", right=True),
    Column("DEAD-LETTERED", right=True),
    Column("LOST", right=True),
    Column("TOOK", right=True),
)
_COUNTED = frozenset({"RECORDS", "DELIVERED", "FILTERED", "DEAD-LETTERED"})
"""Columns of what only a reader of the records can count."""
_MOVES = (
    Column("PARTITION", fold=True),
    Column("OLD-OFFSET", right=True),
    Column("NEW-OFFSET", right=True),
)
MOVES_HEADER = ("plan_id", "group", "topic", "partition", "old_offset", "new_offset")
_LOST = (Column("PARTITION", fold=True), Column("RANGE"), Column("OFFSETS", right=True), Column("REASON", fold=True))


def released_screen(state: VerifiedPlan, typed: PlanCommands) -> Screen:
    """The page after the release: the group may start, and nothing else has to be done now."""
    plan = state.snapshot.plan
    who = f"{plan.group} MAY START NOW" if plan.group else f"{plan.id} is in the ledger"
    blocks: list[Block] = [Title(f"DONE  {who}"), *pending(state)]
    lines = ["Replay it:", f"  {typed.resume}"]
    if plan.group:
        stopped = "does not run" if is_query(plan.group) else "is Empty"
        lines += [f"Cancel it, while the group {stopped}:", f"  {typed.cancel}"]
    return Screen((*blocks, Text(tuple(lines))))


def pending(state: VerifiedPlan) -> Iterator[Block]:
    """Lines for what is pending, and when retention deletes the first of it."""
    plan = state.snapshot.plan
    sizes = [item.size for item in plan.ranges]
    known = [size for size in sizes if size is not None]
    whole = state.pending == state.offsets and len(known) == len(sizes)
    size = f", {human_bytes(sum(known))}" if whole else ""
    yield _line("PENDING", f"{offsets_text(state.pending)}{size}, in {plan.id}: not delivered before it is replayed")
    deadline = next_deadline_ms(state.snapshot)
    if deadline is not None:
        yield _line("RETENTION", f"deletes the first of them at {short_time(deadline, state.now_ms)}")


def show_screen(status: PlanStatus, *, verbose: bool) -> Screen:
    """One plan: its runner, its progress, what is lost, and the next command."""
    state, typed, gone = status.state, status.commands, status.gone
    snapshot, verification = state.snapshot, state.verification
    plan = snapshot.plan
    if state.is_unknown:
        assert snapshot.damage is not None
        unknown = _line("DELIVERED", f"unknown: {snapshot.damage.message}", "bad")
        return Screen((Title(f"{plan.id}  {state.phase}  {state.name}"), *_origin(state), unknown))
    title = Title(f"{plan.id}  {state.phase}  {percent(*state.progress)}  {state.name}")
    blocks: list[Block] = [title, *_origin(state)]
    done, total = state.progress
    shown_bar = f"{bar(done, total, 2 * _BAR)}  " if state.pending and total else ""
    blocks.append(_line("DELIVERED", f"{shown_bar}{state.progress_text}"))
    if status.followed:
        blocks.append(_line("RATE", _rate_text(status.rate)))
    blocks += _throttle(state)
    totals = state.totals
    lost = totals.lost_offset_count or 0
    counted = f"not counted: {'the application reads them' if state.is_checked else 'kgroup has not read them'}"
    if state.counts_records:
        counted = f"{plural(verification.records, 'record')} read: {_counts(totals)}"
    if again := totals.possible_duplicate_count:
        counted += f"; {plural(again, 'possible duplicate')}"
    blocks.append(_line("RECORDS", counted))
    blocks += [_line("LOST", plural(lost, "offset"), "bad" if lost else None)] * state.is_checked
    blocks += _result(state)
    if snapshot.state.note:
        blocks.append(_line("NOTE", snapshot.state.note))
    deadline = next_deadline_ms(snapshot) if state.pending else None
    if deadline is not None:
        left = format_duration(max(0, deadline - state.now_ms) / 1000)
        blocks.append(_line("RETENTION", f"deletes the first undelivered record in {left}"))
    blocks += _rewinds(state)
    blocks += [Space(), *_table(verification.partitions, status.rate, verbose=verbose)]
    if verification.lost:
        blocks += [Space(), _lost_table(verification)]
    if gone is not None:
        closing = gone.hint if snapshot.is_damaged else f"{typed.abandon}   closes the plan"
        blocks.append(Text((f"{gone.message}", f"-> {closing}")))
    else:
        blocks.append(Text(tuple(f"-> {following}" for following in _next(state, typed))))
        blocks += _by_own_job(status, verbose=verbose)
    if status.lines:
        blocks.append(Text(("", *status.lines)))
    return Screen(tuple(blocks))


def _line(word: str, text: str, style: Style | None = None) -> LabelledLine:
    """A line of a page whose labels have up to nine letters."""
    return LabelledLine(f"{word:<9}", text, style)


def _counts(totals: CatchupTotals) -> str:
    return (
        f"{totals.delivered_count} delivered, {totals.filtered_count} filtered, "
        f"{totals.dead_lettered_count} dead-lettered"
    )


def _origin(state: VerifiedPlan) -> Iterator[Block]:
    snapshot = state.snapshot
    comment = f', "{snapshot.plan.reason}"' if snapshot.plan.reason else ""
    yield _line("CREATED", f"{short_time(snapshot.plan.created_ms, state.now_ms)} by {snapshot.plan.who}{comment}")
    yield _line("RUNNER", state.runner_text)


def _throttle(state: VerifiedPlan) -> Iterator[Block]:
    """The limit of an open plan: as it was set, and what its run applies."""
    snapshot, tuning = state.snapshot, state.snapshot.tuning
    if not snapshot.state.state.is_open or not any(name in tuning for name in LIVE):
        return
    rate = tuning.get("rate", OFF)
    text = "no limit" if rate == OFF else rate
    if (bound := tuning.get(YIELD_TO, OFF)) != OFF:
        text += f", yields to {bound}"
    if (throttle := snapshot.throttle) is not None:
        text += f", set {short_time(throttle.at_ms, state.now_ms)} by {throttle.who}"
    if state.applied is not None:
        text += f"; in force: {applied_text(state.applied)}"
    yield _line("THROTTLE", text)


def _rate_text(rate: ReplayRate | None) -> str:
    if rate is None:
        return "known after the next refresh"
    over = f"{rate_words(rate.per_s)} over {format_duration(rate.span_ms // 1000)}"
    return f"{over}, nothing was delivered" if rate.left_s is None else f"{over}, {format_duration(rate.left_s)} left"


def _result(state: VerifiedPlan) -> Iterator[Block]:
    """The result of a replay that has ended."""
    if state.snapshot.state.state is not PlanState.DONE:
        return
    verification = state.verification
    if verification.complete and not state.is_checked:
        yield _line("CLOSED", state.closed_text)
    elif verification.complete:
        counted = f"{state.progress_text}: committed by {state.destination}"
        if state.counts_records:
            counted = f"{plural(verification.records, 'record')}: {_counts(state.totals)}"
        yield _line("VERIFIED", counted, "good")
    elif not verification.lost:  # otherwise the table of lost ranges shows it
        why = "; ".join(_contradictions(verification)) or "not every record was delivered"
        yield LabelledLine("NOT VERIFIED", why, "bad")


def _contradictions(verification: Verification) -> Iterator[str]:
    yield from verification.contradictions
    for row in verification.partitions:
        yield from row.contradictions


def _table(partitions: Sequence[RangeVerification], rate: ReplayRate | None, *, verbose: bool) -> Iterator[Block]:
    ranked = sorted(partitions, key=lambda row: row.delivered_to - row.end)
    shown = ranked if verbose else ranked[:ROWS_ON_A_PAGE]
    rows = [
        (
            f"{row.tp}",
            row.start,
            row.delivered_to,
            row.end,
            pending,
            bar(row.end - row.start - pending, row.end - row.start, _BAR) if pending else None,
            None if rate is None else rate_words(rate.ranges.get(range_key(row), 0.0)),
            f"{row.finished_chunks} of {row.chunks}",
        )
        for row in shown
        for pending in [sum(part.offsets for part in row.undelivered)]
    ]
    if rows:
        yield Table(_PARTITIONS, rows, sparse=frozenset({"RATE", "PROGRESS"}))
    if more := len(ranked) - len(shown):
        yield Text((f"{more} more: --verbose",))


def _next(state: VerifiedPlan, typed: PlanCommands) -> Iterator[str]:
    delivery = state.snapshot.delivery
    if delivery is not None and delivery.sink == SESSION and state.phase in ("replaying", "stopped"):
        if state.phase == "replaying" and not state.is_overdue:
            yield f"{typed.stop}   stops the replay; nothing is lost"
        else:
            yield f'kgroup.spark.gap(spark, "{state.snapshot.plan.id}")   in its program or notebook continues the plan'
        return
    match state.phase:
        case "replaying":
            if state.is_overdue:
                yield f"{typed.resume}   continues the plan, if its run was killed"
            yield f"{typed.stop}   stops the replay; nothing is lost"
        case "stopped" if state.verification.contradictions:
            yield f"{typed.resume}   shows why the plan is NOT VERIFIED, and which commands help"
        case "stopped" if state.silent_s is not None:  # the age uses the runner's clock, not ours
            yield f"{typed.resume}   continues the plan, and ends a run that still works on it; nothing is lost"
        case "pending" | "stopped" | "planned" | "releasing":
            yield f"{typed.resume}   continues the plan"
        case "cancelling":
            yield f"{typed.cancel}   continues the cancellation"
        case _:
            pass


def _by_own_job(status: PlanStatus, *, verbose: bool) -> Iterator[Block]:
    """The gap as a batch job of Spark takes it, and what closes the plan after it; nothing if it cannot have it."""
    snapshot = status.state.snapshot
    if not status.lines and (verbose or snapshot.delivery is None) and (options := spark_options(snapshot)):
        yield Text(("", "By a job of your own:", *(f"  {name} {text}" for name, text in options.items())))
        yield Text((f"-> {status.commands.done}   closes the plan after it",))


def verification_screen(state: VerifiedPlan, took_s: float | None, *, untouched: bool) -> Screen:
    """The page at the end of a replay: all is verified, or the exact ranges that are lost or not delivered.

    ``untouched`` is true if the group is known not to have been rewound, apart from the rewinds in the verification.
    """
    verification, plan = state.verification, state.snapshot.plan
    totals = state.totals
    subject = f"{plan.id}  {state.name}"
    if verification.complete and not state.is_checked:
        return Screen((Title(f"CLOSED  {subject}"), *_rewinds(state), Text((f"{state.closed_text}.",))))
    if verification.complete:
        row = (
            totals.partition_count,
            totals.read_to_end_count,
            totals.record_count,
            totals.delivered_count,
            totals.filtered_count,
            totals.dead_lettered_count,
            totals.lost_offset_count,
            None if took_s is None else format_duration(took_s),
        )
        end = "Done."
        if plan.group and untouched and not verification.rewinds:
            end = f"Done. {plan.group} was not rewound after the release."
        blocks: list[Block] = [
            Title(f"VERIFIED  {subject}"),
            Table(_VERIFIED, [row], sparse=_COUNTED),
            *_possible_duplicates(state),
        ]
        return Screen((*blocks, *_rewinds(state), Text((end,))))
    complete = sum(row.complete for row in verification.partitions)
    blocks = [Title(f"{'LOST' if verification.lost else 'NOT VERIFIED'}  {subject}")]
    if verification.lost:
        blocks.append(_lost_table(verification))
    blocks += [Text((f"not delivered: {row}",)) for row in verification.undelivered[:ROWS_ON_A_PAGE]]
    blocks += [Text((sentence,)) for row in verification.partitions for sentence in row.contradictions]
    blocks += [Text((sentence,)) for sentence in verification.contradictions]
    read = state.progress_text
    if state.counts_records:
        read = f"{totals.delivered_count} of {totals.record_count} records that were read"
    end = f"Delivered: {read}; {plural(complete, 'partition')} verified."
    return Screen((*blocks, *_possible_duplicates(state), *_rewinds(state), Text((end,))))


def _possible_duplicates(state: VerifiedPlan) -> Iterator[Block]:
    """The bound of what a sink may have got twice, unless it gets every record exactly once."""
    again = state.verification.totals().possible_duplicate_count or 0
    if again or not state.is_exactly_once:
        yield LabelledLine("POSSIBLE DUPLICATES", f"at most {plural(again, 'record')}", "warn" if again else None)


def _rewinds(state: VerifiedPlan) -> Iterator[Block]:
    """Ranges that both the replay and the group read, because another client moved the group back."""
    group = state.snapshot.plan.group
    for row in state.verification.rewinds:
        at = short_time(row.rewound_at_ms, state.now_ms)
        text = f"{group} was rewound at {at}: it reads {row} too"
        if row.commit_deleted:
            text = f"the commit of {group} was deleted at {at}: it may read {row} too"
        yield _line("REWOUND", text, "warn")


def _lost_table(verification: Verification) -> Table:
    rows = [
        (f"{row.tp}", Styled(f"[{row.start}, {row.end})", "bad"), row.offsets, row.reason) for row in verification.lost
    ]
    return Table(_LOST, rows)


def cancellation_screen(cancellation: Cancellation, command: CommandLine) -> Screen:
    """The page of ``catchup cancel``, before or after execution."""
    plan = cancellation.state.snapshot.plan
    word = "DONE" if cancellation.executed else "PLAN"
    blocks: list[Block] = [Title(f"{word}  cancel {plan.id} ({cancellation.state.phase}): {cancellation.state.name}")]
    blocks += _cancelled(cancellation)
    for refusal in cancellation.refusals:
        blocks += refusal_block(refusal, None)
    if cancellation.executed:
        return Screen((*blocks, Text(("Done.",))))
    errors = [refusal.row for refusal in cancellation.refusals]
    passing = passing_command(command, errors, cancellation.refusals, wait=False)
    if isinstance(cancellation.decision, AlreadyDone):
        passing = None
    return Screen((*blocks, Space(), Text(closing_lines("To do it", passing))))


def _cancelled(cancellation: Cancellation) -> Iterator[Block]:
    decision, plan = cancellation.decision, cancellation.state.snapshot.plan
    match decision:
        case MoveBack():
            rows: list[tuple[Cell, ...]] = [
                (f"{row.topic}:{row.partition}", row.old_offset, row.new_offset) for row in cancellation.moves
            ]
            yield Table(_MOVES, rows[:ROWS_ON_A_PAGE])
            if len(rows) > ROWS_ON_A_PAGE:
                yield Text((f"{len(rows) - ROWS_ON_A_PAGE} more: -o json shows all",))
            yield Text((f"{plan.group} continues at the new offsets and processes the gap itself.",))
            for row in decision.reprocessed[:ROWS_ON_A_PAGE]:
                yield LabelledLine("POSSIBLE DUPLICATES", f"{row}: {row.reason}", "warn")
        case Close(note=note, abandoned=abandoned):
            yield Text((f"{note[0].upper()}{note[1:]}.",))
            for lost in abandoned[:ROWS_ON_A_PAGE]:
                yield LabelledLine("ABANDONED", f"{lost}, {plural(lost.offsets, 'offset')}", "warn")
        case AlreadyDone(why=why):
            yield Text((f"{why}: nothing to do",))  # starts with the plan id, which users paste: no capital
        case _:
            pass


def cancellation_records(cancellation: Cancellation) -> Records:
    """The moves as rows for CSV."""
    plan = cancellation.state.snapshot.plan
    return Records(MOVES_HEADER, [(plan.id, plan.group, *astuple(move)) for move in cancellation.moves])
