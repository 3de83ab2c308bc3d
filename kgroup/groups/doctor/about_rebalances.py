"""Rules about rebalances: storms, eager assignors, restarts of dynamic members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import ceil

from kgroup.groups.doctor.finding import Answer, Rule, Severity, duration, kgroup_command, quoted, utc_minute
from kgroup.groups.doctor.snapshot import GroupSnapshot, Rebalance
from kgroup.groups.history.crash_loops import crash_loop_words
from kgroup.groups.history.slow_polls import SlowPolls
from kgroup.groups.member_labels import labels
from kgroup.groups.next_commands import evict_member, peek_group
from kgroup.groups.rebalance_wait import rebalance_wait
from kgroup.groups.thresholds import (
    COMMIT_PAUSES,
    DESERTED,
    HEAVY_STORM,
    LARGE_MEMBERS,
    LARGE_PARTITIONS,
    LEAST_SILENCE,
    MEMBER_RESTARTS,
    RESTART,
    STOPPED_SHARE,
    STORM,
    STORM_ONGOING,
    STORM_SHOWN,
    STORM_WINDOW,
    TAKEN,
    Threshold,
)
from kgroup.groups.timeline.steps import CREEPING_LOOP as CREEPING_ATTEMPTS
from kgroup.groups.timeline.steps import LOOP as LOOP_ATTEMPTS
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.groups.verdict.facts import slow_polls_in
from kgroup.support.units import percent, plural, some_of

LOOP = Threshold(
    "owners of a partition that go without a commit past its offset", LOOP_ATTEMPTS, "", "one or two are a deployment"
)
CREEPING_LOOP = Threshold(
    "owners that go while the offset moves by at most one record from one to the next",
    CREEPING_ATTEMPTS,
    "",
    "a slow group may handle one record between two changes by an autoscaler, and not five times",
)

REBALANCE_STORM = Rule(
    "rebalance-storm",
    "the group rebalances again and again",
    "KIP-62, KIP-345; Kafka's documentation of max.poll.interval.ms",
    (LOOP, CREEPING_LOOP, STORM_WINDOW, STORM, HEAVY_STORM, STOPPED_SHARE, STORM_ONGOING, STORM_SHOWN),
)
WAITS = Rule(
    "rebalance-waits",
    "a rebalance waits for a member, and nothing is read until it ends",
    "KIP-62, KIP-345; Kafka's documentation of max.poll.interval.ms",
    (LEAST_SILENCE, COMMIT_PAUSES, RESTART, DESERTED),
)
SHARED = Rule(
    "shared-instance",
    "a group.instance.id is taken over again and again: processes that have the same fence each other",
    "KIP-345",
    (STORM, STORM_WINDOW, STORM_ONGOING),
)
EAGER = Rule(
    "eager-assignor",
    "a large or stateful group whose assignor stops all members at each rebalance",
    "KIP-429",
    (LARGE_MEMBERS, LARGE_PARTITIONS, TAKEN),
)
NOT_STATIC = Rule(
    "not-static",
    "members restart without an instance id: each restart costs rebalances",
    "KIP-345",
    (MEMBER_RESTARTS, RESTART),
)
_EAGER = ("range", "roundrobin", "sticky")
_NO_HISTORY = "the history in __consumer_offsets was not read"
_LEAST_SESSION_MS = 45_000


def rebalance_storm(snapshot: GroupSnapshot) -> Answer:
    """A crash loop; else the rebalances in the densest window (10 min) of the last hour, without those of a rollout."""
    history = snapshot.history
    if history is None:
        return REBALANCE_STORM.unknown(snapshot.why("history", _NO_HISTORY))
    if loops := snapshot.crash_loops:
        return _crash_loop(snapshot, loops)
    recent = [r for r in history.rebalances if not r.rollout and r.at_ms >= snapshot.now_ms - STORM_SHOWN.value]
    densest = _densest(recent)
    if _count(densest) < STORM.value:
        reach = snapshot.now_ms - history.since_ms
        short = f"the log was read back to {utc_minute(history.since_ms)} only" if reach < STORM_WINDOW.value else None
        return REBALANCE_STORM.partly(short)
    last_ms = max(rebalance.at_ms for rebalance in recent)
    going_on = snapshot.now_ms - last_ms <= STORM_ONGOING.value
    latest = [r for r in recent if r.at_ms > last_ms - STORM_WINDOW.value] if going_on else densest
    window = latest if _count(latest) >= STORM.value else densest
    stopped = _standstill_ms(snapshot, window)
    span = max(window[-1].at_ms - window[0].at_ms, 1)
    rebalance_count = _count(window)
    heavy = rebalance_count >= HEAVY_STORM.value or 100 * stopped >= STOPPED_SHARE.value * STORM_WINDOW.value
    now = "not over" if going_on else f"over since {utc_minute(last_ms)}"
    how = "without commits" if snapshot.group.type == "classic" else "stopped"
    stopped_text = f", {how} for {duration(stopped)} ({percent(stopped, span)})" if stopped else ""
    culprits = Counter(member for rebalance in window for member in rebalance.causers).most_common()
    by = f"; most by {', '.join(f'{member} ({count})' for member, count in culprits[:2])}" if culprits else ""
    return REBALANCE_STORM.finding(
        Severity.CRITICAL if going_on and heavy and window is latest else Severity.WARNING,
        f"{rebalance_count} in {duration(span)}, {now}{stopped_text}{by}",
        remedy=_remedy(_slow_polls(snapshot)),
        numbers={
            "rebalance_count": rebalance_count,
            "span_ms": span,
            "stopped_ms": stopped,
            "rebalancing": int(going_on),
        },
        affected=[member for member, _ in culprits],
        commands=(kgroup_command("history", snapshot.group.name, "--since", "1h"),),
    )


def _slow_polls(snapshot: GroupSnapshot) -> SlowPolls | None:
    """The members that left at one place as they did not poll, if that happened again and again."""
    slow = slow_polls_in(snapshot.lag, snapshot.evidence)
    return slow if slow is not None and len(slow.left) > 1 else None


def _remedy(slow: SlowPolls | None) -> str:
    if slow is None:
        return (
            "find the members that leave: those that leave max.poll.interval.ms after joining are too slow (fewer "
            "max.poll.records, or a longer interval); those that leave a session timeout after joining crash or pause"
        )
    return (
        f"{plural(len(slow.left), 'member')} left as they did not poll for {duration(slow.left[-1].poll_ms)} "
        f"(max.poll.interval.ms), at {some_of([f'{tp}' for tp in slow.places])}: fewer max.poll.records or a longer "
        "interval let a slow batch end; a thread dump shows a call that hangs"
    )


def _standstill_ms(snapshot: GroupSnapshot, window: Sequence[Rebalance]) -> int:
    """How long the group did not work during the window; a classic group that has read all has nothing to commit."""
    if snapshot.group.type == "classic":
        # The time without commits lies before a rebalance, so that of the first one is none of the window.
        window = () if snapshot.group.totals.lag == 0 else [r for r in window if r.at_ms > window[0].at_ms]
    return sum(rebalance.standstill_ms or 0 for rebalance in window)


def rebalance_waits(snapshot: GroupSnapshot) -> Answer:
    """The wait that ``describe`` shows; a rebalance that may have just begun cannot be judged yet."""
    group = snapshot.group
    if group.type != "classic" or not group.is_rebalancing or not group.totals.lag or snapshot.crash_loops:
        return ()
    if snapshot.history is None:
        return WAITS.unknown(snapshot.why("history", _NO_HISTORY))
    wait = rebalance_wait(group, snapshot.evidence)
    if wait is None:
        return WAITS.early(f"a rebalance is under way ({group.state}); it may have just begun")
    silent_ms = snapshot.now_ms - wait.since_ms
    if wait.member is None and silent_ms < RESTART.value:
        return WAITS.early(f"a rebalance for less than {RESTART.text}, which may be a restart")
    return WAITS.finding(
        Severity.CRITICAL if silent_ms >= DESERTED.value else Severity.WARNING,
        wait.words,
        remedy="if that member is dead, remove it: the others continue within seconds"
        if wait.member is not None
        else "find the member that hangs, perhaps in its callback for revoked partitions, or is dead: its log ends",
        numbers={"silent_ms": silent_ms, "member_count": len(group.members or ())},
        affected=() if wait.suspect is None else (labels(group)[wait.suspect.member_id],),
        commands=(
            kgroup_command("history", group.name, "--since", "1h"),
            *(() if wait.member is None else (evict_member(group.name, wait.member),)),
        ),
    )


def shared_instance(snapshot: GroupSnapshot) -> Answer:
    """None beside a crash loop: a process that ends is started again, and takes over its own instance id."""
    if snapshot.history is None:
        return SHARED.unknown(snapshot.why("history", _NO_HISTORY))
    if not snapshot.read.shared_instances or snapshot.crash_loops:
        return ()
    worst, *others = snapshot.read.shared_instances
    more = f"; {plural(len(others), 'more id')} too" if others else ""
    return SHARED.finding(
        Severity.WARNING,
        f"{worst.words}{more}",
        remedy="an instance id of its own for each process; if there is one only, its log shows why it ends",
        numbers={"taken_over_count": worst.times, "span_ms": worst.last_ms - worst.first_ms},
        affected=[shared.instance_id for shared in snapshot.read.shared_instances],
        commands=(
            "group.instance.id=NAME-OF-THE-INSTANCE",
            kgroup_command("history", snapshot.group.name, "--since", "1h"),
        ),
    )


def _crash_loop(snapshot: GroupSnapshot, loops: Sequence[CrashLoop]) -> Answer:
    gone = loops[0].gone
    where = "this offset" if len(loops) == 1 else "one of these offsets"
    remedy = (
        f"the record at {where}, or one soon after it, ends every process that reads it: read the record, "
        "and the log of a process that ended; then fix the consumer, or skip the record"
        if loops[0].uncommitted_ms is None
        else "read the log of a process that ended; if it ends for another reason than a record, let it commit sooner: "
        "then each life gets further, and what a record ends shows"
    )
    return REBALANCE_STORM.finding(
        Severity.CRITICAL,
        crash_loop_words(loops, snapshot.now_ms),
        remedy=remedy,
        numbers={
            "gone_member_count": len(gone),
            "span_ms": gone[-1].at_ms - gone[0].at_ms,
            "partition_count": len(loops),
        },
        affected=[str(loop.tp) for loop in loops],
        commands=(
            peek_group(snapshot.group.name),
            kgroup_command("history", snapshot.group.name, "--since", "1h"),
        ),
    )


def _count(rebalances: Iterable[Rebalance]) -> int:
    return sum(rebalance.count for rebalance in rebalances)


def _densest(rebalances: Sequence[Rebalance]) -> Sequence[Rebalance]:
    """The most rebalances within one window; of several equal ones the latest."""
    ordered = sorted(rebalances, key=lambda rebalance: rebalance.at_ms)
    best: Sequence[Rebalance] = ()
    first = count = most = 0
    for at, rebalance in enumerate(ordered, 1):
        count += rebalance.count
        while rebalance.at_ms - ordered[first].at_ms >= STORM_WINDOW.value:
            count -= ordered[first].count
            first += 1
        if count >= most:
            best, most = ordered[first:at], count
    return best


def eager_assignor(snapshot: GroupSnapshot) -> Answer:
    """INFO for a large group; WARNING if the log shows its cost, or if state topics have to follow their partition."""
    group = snapshot.group
    if group.type != "classic" or group.is_empty or group.is_simple:
        return ()
    if not group.assignor:
        return EAGER.unknown(snapshot.why("assignor", f"a group shows its assignor only while Stable ({group.state})"))
    if group.assignor not in _EAGER:
        own = group.assignor != "cooperative-sticky" and not snapshot.state_topics
        return EAGER.unknown(f"whether {group.assignor} is eager is not known") if own else ()
    members = len(group.members or ())
    partitions = sum(member.partition_count for member in group.members or ())
    large = members >= LARGE_MEMBERS.value or partitions >= LARGE_PARTITIONS.value
    moved_count = sum(rebalance.taken or 0 for rebalance in snapshot.history.rebalances) if snapshot.history else 0
    costs = moved_count >= TAKEN.value
    unread = None if snapshot.history or large else snapshot.why("history", _NO_HISTORY)
    if not (large or costs or snapshot.state_topics):
        return EAGER.partly(unread)
    moved = f": {plural(moved_count, 'partition')} moved although their owner stayed" if moved_count else ""
    state = f"; state in {some_of(snapshot.state_topics)}" if snapshot.state_topics else ""
    return EAGER.finding(
        Severity.WARNING if costs or snapshot.state_topics else Severity.INFO,
        f"{group.assignor}, {plural(members, 'member')}, {plural(partitions, 'partition')}{moved}{state}",
        remedy="cooperative-sticky, in two rolling restarts: first list it before the present one, then alone; or the "
        "consumer protocol",
        numbers={
            "member_count": members,
            "partition_count": partitions,
            "moved_needlessly_count": moved_count,
            "state_topic_count": len(snapshot.state_topics),
        },
        commands=(
            "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            kgroup_command("simulate", group.name, "--restart-rolling", "--assignor", "cooperative-sticky"),
        ),
    )


def not_static(snapshot: GroupSnapshot) -> Answer:
    """Counts only restarts in the log: a group that never restarts gains nothing. INFO if they were deployments."""
    history = snapshot.history
    if history is None:
        return NOT_STATIC.unknown(snapshot.why("history", _NO_HISTORY))
    restarts = [r for r in history.restarts if r.instance_id is None and (r.away_ms or 0) <= RESTART.value]
    if len(restarts) < MEMBER_RESTARTS.value or snapshot.crash_loops or _slow_polls(snapshot) is not None:
        return ()  # An instance id neither keeps a process alive, nor makes it faster.
    names = sorted({restart.member for restart in restarts})
    longest = max((r.away_ms for r in restarts if r.away_ms is not None), default=0)
    away = f"away {duration(longest)} at most" if longest else "back at once"
    costs = _count(history.rebalances)
    unrest = _count(rebalance for rebalance in history.rebalances if not rebalance.rollout)
    session = max(_LEAST_SESSION_MS, ceil(2 * longest / 1000) * 1000)
    consumer = snapshot.group.type == "consumer"
    setting = (
        f"consumer.session.timeout.ms={session} as a config of the group {quoted(snapshot.group)}"
        if consumer
        else f"session.timeout.ms={session}"
    )
    simulate = kgroup_command(
        "simulate",
        snapshot.group.name,
        "--restart-rolling",
        "--static",
        "--session-timeout",
        f"{session // 1000}s",
        "--restart-time",
        f"{max(1, ceil(longest / 1000))}s",
    )
    return NOT_STATIC.finding(
        Severity.WARNING if unrest >= STORM.value else Severity.INFO,
        f"{plural(len(restarts), 'restart')} of {plural(len(names), 'member')} without an instance id since "
        f"{utc_minute(history.since_ms)}, {away}; {plural(costs, 'rebalance')}",
        remedy="an instance id of its own for each instance, and a session timeout above the restart time: then a "
        "restart costs no rebalance (a member that dies for good is noticed later)",
        numbers={
            "restart_count": len(restarts),
            "member_count": len(names),
            "longest_away_ms": longest,
            "rebalance_count": costs,
        },
        affected=names,
        commands=(
            "group.instance.id=NAME-OF-THE-INSTANCE",
            setting,
            *(() if snapshot.group.is_rebalancing else (simulate,)),  # it is refused then
        ),
    )
