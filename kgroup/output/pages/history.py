"""The page of a history: whether it is over, totals, causes, moves, the picture, offsets, and the log's limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kgroup.groups.history.crash_loops import crash_loop_words
from kgroup.groups.history.follow import HistoryDelta
from kgroup.groups.history.logged_changes import LoggedChange, LoggedChangeKind
from kgroup.groups.history.summary import GroupHistory, last_rebalance_ms
from kgroup.groups.next_commands import peek_group
from kgroup.groups.timeline.steps import Cause, HistoryStep, Reason, Signature, SignatureKind, StepKind
from kgroup.model.blocks import BlankLine, Block, Conclusion, LabelledLine, Prose, Records, Screen, Text, Title
from kgroup.model.group_log import RebalanceProtocol, ScannedRange
from kgroup.model.groups import RowError
from kgroup.model.migration_facts import holds_group
from kgroup.model.outcome import Outcome
from kgroup.output.pages.history_commits import (
    COMMITS_HEADER,
    author_text,
    clock,
    commits_blocks,
    commits_rows,
    duration,
    jump_line,
    move_text,
)
from kgroup.output.pages.history_picture import picture, short_name
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import format_duration
from kgroup.support.hint import Hint
from kgroup.support.instants import minute_text, rfc3339, short_time
from kgroup.support.units import plural

_CAUSES = 6
_NAMED_MEMBERS = 3
_CHANGES = 5
_HOUR_MS = 3_600_000

HEADER = (
    "group",
    "protocol",
    "number",
    "step_kind",
    "recorded_at",
    "causes",
    "leader",
    "members",
    "moved_count",
    "moved_needlessly_count",
    "never_completed_count",
    "took_ms",
    "quiet_ms",
    "lasted_ms",
)


def outcome(
    histories: Sequence[GroupHistory],
    cluster: ClusterRef,
    errors: tuple[RowError, ...] = (),
    *,
    verbose: bool = False,
    limit: int | None = None,
) -> Outcome:
    return Outcome(
        data=tuple(history.document for history in histories),
        screen=lambda: screen(histories, verbose=verbose, limit=limit),
        records=lambda: records(histories),
        cluster=cluster,
        errors=errors,
    )


def quiet_outcome(histories: Sequence[GroupHistory], cluster: ClusterRef, errors: tuple[RowError, ...]) -> Outcome:
    """Groups without a rebalance in one line; in another, groups for which the log does not reach back far enough."""
    lines = tuple(_quiet_lines(histories))
    return replace(outcome(histories, cluster, errors), screen=lambda: Screen((Prose(lines),) if lines else ()))


def _since(history: GroupHistory) -> str:
    return minute_text(history.span.since_ms)


def _quiet_lines(histories: Sequence[GroupHistory]) -> Iterator[str]:
    covered = [history for history in histories if history.covered]
    if covered:
        yield f"{plural(len(covered), 'group')} without a rebalance since {_since(covered[0])}"
    if len(covered) < len(histories):
        others = [history for history in histories if not history.covered]
        reasons = dict.fromkeys(stopped_text(history.reach) or "nothing older is left" for history in others)
        yield (
            f"{plural(len(others), 'group')} without a known rebalance since {_since(others[0])}, to "
            f"which the log does not reach back: {'; '.join(reasons)}"
        )


def follow_outcome(delta: HistoryDelta, cluster: ClusterRef) -> Outcome:
    """What ``--follow`` reports at one moment: one line per event."""
    lines = tuple(event_lines(delta))
    return replace(outcome([delta.history], cluster), screen=lambda: Screen((Text(lines),)), going_on=True)


def event_lines(delta: HistoryDelta) -> Iterator[str]:
    """One line per event, oldest first: ``03:14:11Z  orders-svc  generation 148: leave enrich-3; 11 members, ...``."""
    history = delta.history
    lines = [(step.at_ms, step_line(step)) for step in history.steps]
    lines += [(change.at_ms, change_text(change)) for change in history.changes]
    if history.commits is not None:
        lines += [(jump.at_ms, jump_line(jump, history.span.now_ms)) for jump in history.commits.jumps]
    if delta.began:
        lines.append((history.span.now_ms, f"a rebalance is under way ({history.span.state})"))
    for at_ms, text in sorted(lines):
        yield f"{short_time(at_ms, history.span.now_ms)}  {history.group}  {text}"


def screen(histories: Sequence[GroupHistory], *, verbose: bool = False, limit: int | None = None) -> Screen:
    """The page of the histories; ``limit`` is the number of columns of the picture (0: all, None: what fits a page)."""
    blocks: list[Block] = []
    for history in histories:
        blocks += [BlankLine()] if blocks else []
        blocks += _page(history, verbose, limit)
    return Screen(tuple(blocks))


def _page(history: GroupHistory, verbose: bool, limit: int | None) -> Iterator[Block]:
    yield Title(f"{history.group}  {headline(history)}")
    if following := next_line(history):
        yield Conclusion(following, (peek_group(history.group),) if history.crash_loops else ())
    yield LabelledLine("TOTAL", total_line(history))
    yield from (LabelledLine("CAUSE", line) for line in cause_lines(history))
    if history.totals.rebalances and history.protocol is not RebalanceProtocol.SHARE:
        yield LabelledLine("MOVED", moved_line(history))
    if history.totals.returned:
        yield LabelledLine(
            "RETURNED", f"{history.totals.returned} times a static member returned to the same partitions"
        )
    yield from (LabelledLine("CHANGED", line) for line in change_lines(history))
    if history.jumps and history.commits is None:
        yield LabelledLine("JUMPS", jumps_line(history))
    if history.jumps and history.commits is None:
        yield Text((Hint("-> {}", ("history", history.group, "--commits")),))
    if history.steps and history.commits is None:
        yield BlankLine()
        yield from picture(history.steps, verbose=verbose, limit=limit)
    if history.commits is not None:
        yield BlankLine()
        if history.protocol is RebalanceProtocol.SHARE:
            yield Prose(
                ("A share group commits no offsets; CHANGED shows when its start offsets were set or deleted.",)
            )
        else:
            yield from commits_blocks(history, history.commits, verbose)
    yield BlankLine()
    yield Prose(tuple(log_lines(history)))


def headline(history: GroupHistory) -> str:
    """``NOT OVER: last rebalance 9s ago``."""
    last_ms = last_rebalance_ms(history.steps)
    if history.rebalancing:
        before = "" if last_ms is None else f", the one before {_ago(history, last_ms)} ago"
        return f"NOT OVER: a rebalance is under way ({history.span.state}){before}"
    if history.span.state == "NotReady":
        before = "" if last_ms is None else f", last rebalance {_ago(history, last_ms)} ago"
        return f"NotReady: topics of the topology are missing, or have other numbers of partitions{before}"
    if last_ms is None:
        return f"no {'' if history.covered else 'known '}rebalance since {_since(history)}"
    if history.span.state == "Empty" and not history.crash_loops:
        return f"Empty: last rebalance {_ago(history, last_ms)} ago"
    return f"{'over' if history.over else 'NOT OVER'}: last rebalance {_ago(history, last_ms)} ago"


def _ago(history: GroupHistory, at_ms: int) -> str:
    return format_duration(max(0, history.span.now_ms - at_ms) / 1000)


def total_line(history: GroupHistory) -> str:
    """``41 rebalances in 3h, 14 an hour, 5m36s without commits in all, longest 9s``.

    A rate is for spans longer than an hour that the log has as a whole; a younger log is named.
    """
    totals, span_ms = history.totals, max(0, history.span.until_ms - history.span.since_ms)
    span = format_duration(span_ms / 1000)
    parts = [f"{plural(totals.rebalances, 'rebalance')} {'' if history.covered else 'known '}in {span}"]
    if history.covered and history.observed_ms < span_ms:
        parts[0] += f" (the log has {format_duration(history.observed_ms // 1000)} of it)"
    elif history.covered and totals.per_hour and totals.rebalances > 1 and span_ms > _HOUR_MS:
        parts.append(f"{totals.per_hour:.0f} an hour" if totals.per_hour >= 1 else "less than one an hour")
    if totals.quiet_ms is not None:
        parts.append(f"{duration(totals.quiet_ms)} without commits in all")
    longest = [ms for ms in (totals.longest_took_ms, totals.longest_quiet_ms) if ms is not None]
    if longest and totals.rebalances > 1:
        parts.append(f"longest {duration(max(longest))}")
    if totals.never_completed:
        parts.append(f"{totals.never_completed} never completed")
    if totals.overtaken:
        parts.append(f"{totals.overtaken} overtaken by the next")
    return ", ".join(parts)


def cause_lines(history: GroupHistory) -> Iterator[str]:
    """Recognised patterns, then the causes of the other steps, most frequent first: ``9  poll ...: enrich-3 (9)``."""
    others = list(history.steps)
    repeats: dict[tuple[SignatureKind, str], list[Signature]] = {}
    for signature in history.signatures:
        if signature.kind is not SignatureKind.NEVER_SYNCED:
            others = [step for step in others if not signature.first <= step.log_offset <= signature.last]
            repeats[signature.kind, f"{signature.first}"] = [signature]
        else:
            repeats.setdefault((signature.kind, signature.text), []).append(signature)
    for (kind, _), same in repeats.items():
        times = _span(same[0].from_ms, same[-1].to_ms)
        yield f"{sum(one.rebalances for one in same):>3}  {kind.value} {times}: {same[0].text}"
    own = _own_names(history)
    counts: Counter[Cause] = Counter()
    members: dict[Cause, Counter[str]] = {}
    inferred: set[Cause] = set()
    for reason in (reason for step in others for reason in step.reasons):
        counts[reason.cause] += 1
        members.setdefault(reason.cause, Counter()).update(own.get(name, name) for name in reason.members)
        if reason.inferred:
            inferred.add(reason.cause)
    ranked = sorted(counts, key=lambda cause: (-counts[cause], list(Cause).index(cause)))
    for cause in ranked[:_CAUSES]:
        names = _most_frequent(members[cause])
        likely = "" if cause not in inferred else f" ({_inferred_words(cause, members[cause])})"
        yield f"{counts[cause]:>3}  {cause.value}{likely}{': ' + names if names else ''}"
    if len(ranked) > _CAUSES:
        yield f"     and {plural(len(ranked) - _CAUSES, 'other cause')}"
    if not history.steps:
        yield "unknown: the log shows none" if not history.whole else "nothing happened"


def _own_names(history: GroupHistory) -> dict[str, str]:
    """``kgroup-catchup (kgroup)`` by name, of the members with which kgroup held the group."""
    steps = (*(() if history.before is None else (history.before,)), *history.steps)
    names = {m.name for step in steps for m in step.members if holds_group(m.member_id, m.instance_id)}
    return {name: f"{name} (kgroup)" for name in names}


def _inferred_words(cause: Cause, members: Counter[str]) -> str:
    """That one silence was as long as a session is no proof: a client that is idle, and then closed, looks alike."""
    once = max(members.values(), default=0) < 2
    return "inferred, or a close after that silence" if cause is Cause.SESSION_EXPIRED and once else "inferred"


def _span(from_ms: int, to_ms: int) -> str:
    """``03:02-03:06Z``; with seconds if it is shorter than a minute."""
    seconds = to_ms - from_ms < 60_000
    return f"{clock(from_ms, seconds=seconds).removesuffix('Z')}-{clock(to_ms, seconds=seconds)}"


def _most_frequent(members: Counter[str]) -> str:
    most = [(short_name(name), count) for name, count in members.most_common(_NAMED_MEMBERS)]
    named = [f"{name} ({count})" if count > 1 else name for name, count in most]
    more = len(members) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def moved_line(history: GroupHistory) -> str:
    """``1188 partitions, 1020 of them although their owner stayed (range)``; ``4 tasks, ..., 2 to a standby``."""
    totals = history.totals
    promoted = sum(step.promoted or 0 for step in history.steps)
    thing = "task" if history.protocol is RebalanceProtocol.STREAMS else "partition"
    assignors = sorted({step.assignor for step in history.steps if step.assignor})
    if totals.moved_unknown and not totals.moved:
        return "unknown: no assignment before these, or some that could not be read"
    if not totals.moved and not totals.moved_unknown:
        return f"no {thing}"
    moved = f"{plural(totals.moved, thing)}, {totals.moved_needlessly} of them although their owner stayed"
    if promoted:
        moved += f", {promoted} to a member that had their state (standby or warm-up)"
    unknown = f"; unknown of {plural(totals.moved_unknown, 'rebalance')}" if totals.moved_unknown else ""
    return f"{moved}{' (' + ', '.join(assignors) + ')' if assignors else ''}{unknown}"


def change_lines(history: GroupHistory) -> Iterator[str]:
    """The newest changes, oldest first: ``03:14:11Z  offsets-set: orders (3 partitions), in 12ms``."""
    if len(history.changes) > _CHANGES:
        yield f"{plural(len(history.changes) - _CHANGES, 'change')} before these: -o json"
    for change in history.changes[-_CHANGES:]:
        yield f"{short_time(change.at_ms, history.span.now_ms)}  {change_text(change)}"


def change_text(change: LoggedChange) -> str:
    """``offsets-set: orders (3 partitions), in 12ms``."""
    if change.took_ms is not None:
        return f"{change.kind.value}: {change.text}, in {duration(change.took_ms)}"
    pending = change.kind in (LoggedChangeKind.INITIALIZED, LoggedChangeKind.SET, LoggedChangeKind.DELETED)
    return f"{change.kind.value}: {change.text}{', not finished' if pending else ''}"


def jumps_line(history: GroupHistory) -> str:
    """``2 of committed offsets, the last 4m ago: -11.2k reset of 3 partitions by no member``."""
    last = history.jumps[-1]
    which = "" if len(history.jumps) == 1 else "the last "
    what = f"{move_text(last)} of {plural(len(last.partitions), 'partition')} by {author_text(last)}"
    return f"{len(history.jumps)} of committed offsets, {which}{_ago(history, last.at_ms)} ago: {what}"


def next_line(history: GroupHistory) -> str | None:
    """What to check next: a crash loop, or members that cause most rebalances and have an unusual timeout; or None."""
    if history.crash_loops:
        return crash_loop_words(history.crash_loops, history.span.now_ms)
    filled = [step for step in history.steps if len(step.members) > 1]
    worst = [member.name for member in history.totals.by_member if member.rebalances > 1][:_NAMED_MEMBERS]
    if not filled or not worst:
        return None
    settings = {
        present.name: (present.poll_ms, present.session_ms) for step in history.steps for present in step.members
    }
    for index, word in enumerate(("max.poll.interval", "session timeout")):
        values = {name: timeouts[index] for name, timeouts in settings.items()}
        usual, times = Counter(values.values()).most_common(1)[0]
        unusual = [name for name in worst if name in values and values[name] != usual]
        if unusual and usual is not None and times > 1:
            named = ", ".join(f"{name} ({duration(values[name])})" for name in unusual)
            return f"{named} and the others ({duration(usual)}) differ in {word}: a rollout may be incomplete"
    return None


def log_lines(history: GroupHistory) -> Iterator[str]:
    """How far back the log reaches, and which records may be missing."""
    reach = history.reach
    oldest = minute_text(reach.oldest_ms)
    if not history.covered:
        reason = stopped_text(reach) or ("nothing older is left" if reach.to_log_start else "it was not read further")
        yield f"The log reaches back to {oldest} only, not to the beginning of the span: {reason}."
    elif history.whole:
        yield f"The log reaches back to {oldest}; no record of the span is missing."
    else:
        yield (
            f"The log reaches back to {oldest}; compaction may have deleted generations and plain commits of the span, "
            "so gaps in the numbers are not counted as failed rebalances."
        )
    if history.covered and reach.stopped is not None and history.before is None:
        yield f"What the group was before the span is not known: {stopped_text(reach)}."
    if reach.open_since_ms is not None:
        since = short_time(reach.open_since_ms, history.span.now_ms)
        yield f"A transaction of this group is open since {since}: its commits do not count yet."
    if history.unreadable:
        yield f"{plural(history.unreadable, 'record')} of the group could not be decoded: broken, or of a newer kind."


def stopped_text(reach: ScannedRange) -> str | None:
    """Why the scan stopped early, and the option that lets it read more; None if it did not stop early."""
    return None if reach.stopped is None else f"{reach.stopped} (--scan-time)"


def records(histories: Sequence[GroupHistory]) -> Records:
    """One row per step, oldest first; if commits were requested, one row per partition of each jump."""
    if any(history.commits is not None for history in histories):
        return Records(COMMITS_HEADER, commits_rows(histories))
    return Records(HEADER, (_record(history.group, step) for history in histories for step in history.steps))


def _record(group: str, step: HistoryStep) -> tuple[str | int | None, ...]:
    return (
        group,
        step.protocol.value,
        step.number,
        step.kind.value,
        rfc3339(step.at_ms),
        "; ".join(reason_text(reason) for reason in step.reasons),
        step.leader,
        " ".join(present.name for present in step.members),
        step.moved,
        step.moved_needlessly,
        step.never_completed,
        step.took_ms,
        step.quiet_ms,
        step.lasted_ms,
    )


def reason_text(reason: Reason) -> str:
    """``leave enrich-3 enrich-7``; also part of the lines of ``--follow``."""
    return " ".join((reason.cause.value, *reason.members))


def step_line(step: HistoryStep) -> str:
    """A step as a line of ``--follow``: ``generation 148: poll-interval-exceeded enrich-3; 11 members, 9 moved``."""
    if step.kind is StepKind.DELETED:
        return "the group was deleted"
    kind = "generation" if step.protocol is RebalanceProtocol.CLASSIC else "epoch"
    causes = ", ".join(reason_text(reason) for reason in step.reasons) or step.kind.value
    moved = "" if step.moved is None else f", {step.moved} moved ({step.moved_needlessly} although their owner stayed)"
    return f"{kind} {step.number}: {causes}; {plural(len(step.members), 'member')}{moved}"
