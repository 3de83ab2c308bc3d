"""A plan at one moment: its state as one word, how much is delivered, and what is pending. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.catchup.dead_letters import REDRIVE, TO_SOURCE
from kgroup.groups.catchup.delivered import is_exactly_once, next_deadline_ms
from kgroup.groups.catchup.elsewhere import BY, ELSEWHERE, NOT_READ
from kgroup.groups.catchup.model import AppliedRate, PlanPhase, PlanSnapshot, PlanState
from kgroup.groups.catchup.verification import CatchupTotals, Verification
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.redact import redact
from kgroup.support.units import human_count, plural, some_of

SESSION = "session"
"""The sink of a plan that a Spark session of the user's own delivers, with ``kgroup.spark.gap``."""

_SEEN_LATELY_MS = 30_000
"""A runner whose last heartbeat is not older is at work."""
_BEATS_WITHIN_S = 15.0
"""A runner that works writes a heartbeat every 5 s: three are missing."""
_OVERDUE_S = 7.0


class PlanCommands(msgspec.Struct, frozen=True):
    """The command lines that a page shows, with the connection options as the user typed them."""

    resume: str
    cancel: str
    abandon: str
    stop: str
    show: str
    done: str


class VerifiedPlan(msgspec.Struct, frozen=True):
    """A plan and its verification at ``now_ms``."""

    snapshot: PlanSnapshot
    verification: Verification
    now_ms: int

    def summary(self) -> VerifiedPlan:
        """The same for a list. A finished plan is without chunks: a ledger may have hundreds, of 40,000 chunks each."""
        snapshot = self.snapshot
        if snapshot.state.state.is_open:
            return self
        delivery = snapshot.delivery
        if delivery is not None:
            delivery = replace(delivery, tasks=tuple(replace(task, chunks=()) for task in delivery.tasks))
        brief = replace(snapshot, plan=replace(snapshot.plan, chunks=()), delivery=delivery, progress={}, totals=None)
        return VerifiedPlan(brief, self.verification, self.now_ms)

    @property
    def destination(self) -> str | None:
        """``topic orders-backfill``: the sink's name; None without one."""
        delivery = self.snapshot.delivery
        return None if delivery is None else sink_name(delivery.sink, delivery.options)

    @property
    def counts_records(self) -> bool:
        """Whether the records are counted: kgroup reads them, and not a second group, whose commits are offsets."""
        delivery = self.snapshot.delivery
        return delivery is None or delivery.sink not in NOT_READ

    @property
    def is_checked(self) -> bool:
        """Whether kgroup knows what is delivered; of a job of the user's own it is only told."""
        delivery = self.snapshot.delivery
        return delivery is None or delivery.sink != ELSEWHERE

    @property
    def closed_text(self) -> str:
        """Of a plan that kgroup has not checked: ``all 600 offsets: delivered by job 123, by maria@host; ...``."""
        return (
            f"{self.progress_text}: delivered by {self.destination}, in the words of {self.snapshot.state.who}; "
            "kgroup has checked nothing"
        )

    @property
    def totals(self) -> CatchupTotals:
        """The sums of the verification; None where records are not counted."""
        totals = self.verification.totals()
        if self.counts_records:
            return totals
        totals = replace(
            totals, record_count=None, delivered_count=None, filtered_count=None, dead_lettered_count=None, bytes=None
        )
        if self.is_checked:
            return totals
        return replace(
            totals, read_to_end_count=None, lost_offset_count=None, possible_duplicate_count=None, verified=None
        )

    @property
    def pending(self) -> int:
        """Offsets that are not delivered yet; 0 for a closed plan."""
        return sum(row.offsets for row in self.verification.undelivered) if self.snapshot.state.state.is_open else 0

    @property
    def is_unknown(self) -> bool:
        """Whether the plan is done, and what it delivered cannot be read: its totals are damaged."""
        snapshot = self.snapshot
        return snapshot.state.state is PlanState.DONE and snapshot.damage is not None and self.progress[0] == 0

    @property
    def known_pending(self) -> int | None:
        """As ``pending``; None if the plan's ranges cannot be read."""
        return self.pending if self.snapshot.plan.ranges else None

    @property
    def offsets(self) -> int:
        """Offsets of the whole plan."""
        return sum(item.offsets for item in self.snapshot.plan.ranges)

    @property
    def silent_s(self) -> float | None:
        """Seconds since its runner last wrote to the ledger; None if there was no runner, or it has ended."""
        epoch = self.snapshot.epoch
        return None if epoch is None or not epoch.seen_ms else max(0, self.now_ms - epoch.seen_ms) / 1000

    @property
    def is_at_work(self) -> bool:
        """Whether a run works on it: its heartbeat is recent, or it has just made the plan."""
        if self.snapshot.epoch is None:
            return self.now_ms - self.snapshot.plan.created_ms < _SEEN_LATELY_MS
        return self.silent_s is not None and self.silent_s * 1000 < _SEEN_LATELY_MS

    @property
    def applied(self) -> AppliedRate | None:
        """What its run applies; None if no run replays the plan."""
        applied, epoch = self.snapshot.applied, self.snapshot.epoch
        now = applied is not None and epoch is not None and applied.epoch == epoch.number
        return applied if now and self.phase is PlanPhase.REPLAYING else None

    @property
    def is_overdue(self) -> bool:
        """Whether the heartbeat of its runner is late: it may have been killed."""
        return self.silent_s is not None and self.silent_s > _OVERDUE_S

    @property
    def is_exactly_once(self) -> bool:
        """Whether its sink never delivers a record twice."""
        delivery = self.snapshot.delivery
        return delivery is None or is_exactly_once(delivery.sink, delivery.options)

    @property
    def runner_text(self) -> str:
        """``epoch 2 (you@there), last heartbeat 3s ago``, ``epoch 1, silent since 03:05:11Z (4m)``; ``none yet``."""
        epoch, silent_s = self.snapshot.epoch, self.silent_s
        if epoch is None:
            return "none yet"
        by = "" if epoch.who == self.snapshot.plan.who else f" ({epoch.who})"
        if silent_s is None or not self.snapshot.state.state.is_open:
            seen = "ended"
        elif silent_s <= _BEATS_WITHIN_S:
            seen = f"last heartbeat {format_duration(silent_s)} ago"
        else:
            seen = f"silent since {short_time(epoch.seen_ms, self.now_ms)} ({format_duration(silent_s)})"
        return f"epoch {epoch.number}{by}, {seen}"

    @property
    def phase(self) -> PlanPhase:
        """The state as one word: a released plan is pending (no sink is set yet), replaying or stopped."""
        state = self.snapshot.state.state
        if self.snapshot.is_damaged:
            return PlanPhase.DAMAGED
        if state is not PlanState.RELEASED:
            return PlanPhase(state.value)
        if self.snapshot.delivery is None:
            return PlanPhase.PENDING
        return PlanPhase.REPLAYING if self.is_at_work else PlanPhase.STOPPED

    @property
    def name(self) -> str:
        """``orders-svc -> orders-backfill``, ``orders-svc -> files /data/gap``; just the group without a delivery."""
        plan, delivery = self.snapshot.plan, self.snapshot.delivery
        what = plan.group or plural(len(plan.ranges), "range")
        if delivery is None:
            return what
        if REDRIVE in delivery.options:
            what = f"dead letters of {some_of(sorted({item.topic for item in plan.ranges}))}"
        sink = sink_name(delivery.sink, delivery.options).removeprefix("topic ")
        return f"{what} -> {sink}"

    @property
    def progress(self) -> tuple[int, int]:
        """(delivered, total) in offsets."""
        return self.offsets - sum(row.offsets for row in self.verification.undelivered), self.offsets

    @property
    def progress_text(self) -> str:
        """``60 of 80 offsets``; ``all 80 offsets``."""
        delivered, whole = self.progress
        return (
            f"all {plural(whole, 'offset')}" if 0 < whole == delivered else f"{delivered} of {plural(whole, 'offset')}"
        )


_NAMED_BY = {"files": "dir", "python": "function", "spark": "format"}
_LONGEST_SQL = 60


def sink_name(sink: str, options: dict[str, str]) -> str:
    """``topic orders-backfill``, ``files /data/gap where partition = 3``: the sink, its target and its filter."""
    if sink == TO_SOURCE:
        return "the source topics"
    options = {name.lower(): redact(text, ()) for name, text in options.items()}  # those of a writer are in any case
    if sink == ELSEWHERE:
        return options[BY]
    named = options.get(_NAMED_BY.get(sink, sink))
    if sink == "spark" and (path := options.get("option.path")):
        named = f"{named} {path}"
    sql = options.get("where", "")
    shown = sql if len(sql) <= _LONGEST_SQL else f"{sql[:_LONGEST_SQL]}..."
    where = f" where {shown}" if sql else ""
    return f"{sink} {named}{where}" if named else f"{sink}{where}"


def offsets_text(offsets: int) -> str:
    """``12 offsets``, ``10.0M offsets``."""
    return f"{human_count(offsets)} offset{'s' * (offsets != 1)}"


def list_order(state: VerifiedPlan) -> tuple[bool, bool, int, int]:
    """Sort key: open plans first, of these the earliest retention deadline first; then the newest plan."""
    is_open = state.snapshot.state.state.is_open
    deadline = next_deadline_ms(state.snapshot) if is_open else None
    return not is_open, deadline is None, deadline or 0, -state.snapshot.plan.created_ms


def pending_lines(states: Sequence[VerifiedPlan]) -> list[str]:
    """What is pending of a group, for the top of its page: ``10.0M in cu-7f3a (stopped); ...``."""
    lines = []
    for state in states:
        deadline = next_deadline_ms(state.snapshot)
        until = ""
        if deadline is not None:
            until = f"; retention deletes the first of it at {short_time(deadline, state.now_ms)}"
        # Otherwise it is unknown whether the group was released, or processes the gap itself.
        known = state.snapshot.state.state is PlanState.RELEASED and state.snapshot.damage is None
        maybe = "" if known else "maybe "
        lines.append(f"{maybe}{human_count(state.pending)} in {state.snapshot.plan.id} ({state.phase}){until}")
    return lines
