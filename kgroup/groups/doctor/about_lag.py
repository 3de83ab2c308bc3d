"""Rules about lag: uneven lag, hot partitions, and commits that do not move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

from kgroup.groups.doctor.finding import (
    NO_SUBSCRIPTIONS,
    Answer,
    Rule,
    Severity,
    duration,
    kgroup_command,
    unread_partitions_text,
)
from kgroup.groups.doctor.snapshot import NO_COMMITS, GroupSnapshot
from kgroup.groups.foreign_owners import connector_of, status_request
from kgroup.groups.history.slow_polls import SlowPolls, slow_poll_words
from kgroup.groups.lag.hot_partitions import hot_partitions
from kgroup.groups.lag.rates import LagTrend, rate_words, span_words
from kgroup.groups.lag.report import PartitionLag
from kgroup.groups.lag.status import WAITS, LagStatus
from kgroup.groups.member_labels import labels, topics_read
from kgroup.groups.next_commands import (
    add_member,
    catch_up,
    delete_offsets,
    describe_group,
    evict_member,
    peek_group,
    skip_record,
)
from kgroup.groups.thresholds import (
    ABANDONED,
    ASSIGN_READS,
    BEHIND_SHARE,
    COMMIT_WINDOW,
    DESERTED,
    FEW_COMMITS,
    FEW_PARTITIONS,
    HOT,
    HOT_LEAST,
    IDLE_COMMITS,
    IDLE_SHARE,
    LEAST_LAG,
    LEAST_SILENCE,
    LEAST_UNREAD,
    LONE_COMMIT,
    LONG_GAP,
    RATE_SPAN,
    RESTART,
    STUCK,
    TAKEN_OVER,
)
from kgroup.groups.verdict.began import lag_began_with
from kgroup.groups.verdict.facts import (
    SilentMember,
    how_stuck,
    left_in,
    not_due,
    silent_member,
    slow_polls_at,
    slow_polls_in,
    stopped_together,
    stuck_of,
    unsubscribed_in,
)
from kgroup.groups.verdict.group import record_at
from kgroup.groups.verdict.large_gap import slowed_by_quota
from kgroup.groups.verdict.shape import LagShape
from kgroup.model.groups import LoggedCommit, Partition
from kgroup.model.record_times import unusable_words
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.units import human_count, percent, plural, some_of

SKEWED_LAG = Rule(
    "skewed-lag",
    "one partition lags, or those of one member, while the others keep up",
    "Burrow's rules; Kafka's documentation of consumer lag",
    (LEAST_LAG, BEHIND_SHARE, FEW_PARTITIONS),
)
HOT_PARTITION = Rule(
    "hot-partition",
    "one partition gets many times the records of the others",
    "Kafka's documentation of the partitioner: equal keys share a partition; KIP-480, KIP-794",
    (HOT, HOT_LEAST, FEW_PARTITIONS),
)
STALLED_COMMITS = Rule(
    "stalled-commits",
    "committed offsets do not move while records are unread",
    "Burrow's rules STOP and STALL; KIP-62",
    (LEAST_SILENCE, COMMIT_WINDOW, FEW_COMMITS, LONE_COMMIT, STUCK, LEAST_UNREAD),
)
UNSUBSCRIBED = Rule(
    "unsubscribed",
    "unread records of a topic that no member subscribes to",
    "KafkaConsumer documentation: subscribe() replaces the subscription",
    (RESTART,),
)
NO_READER = Rule(
    "no-reader",
    "the group is Empty while its records arrive, with a large gap, or since a reset or a release",
    "Kafka's documentation of consumer groups: an Empty group has no members",
    (RESTART, DESERTED, ABANDONED, LEAST_UNREAD, ASSIGN_READS, LEAST_LAG, LONG_GAP, TAKEN_OVER),
)
LARGE_GAP = Rule(
    "large-gap",
    "at the measured rate the gap needs long to be read, or grows",
    "KIP-333; Kafka's documentation of consumer lag",
    (LEAST_LAG, LONG_GAP, RATE_SPAN),
)
UNUSABLE_TIMESTAMPS = Rule(
    "unusable-timestamps",
    "records have times of 1970 or of the future, or none: no age follows from them",
    "KIP-32 (CreateTime, LogAppendTime); KIP-937 (message.timestamp.after.max.ms)",
)
COMMITS_WITHOUT_PROGRESS = Rule(
    "idle-commits",
    "most commits repeat the same offset: auto-commit on quiet partitions",
    "Kafka's documentation of auto.commit.interval.ms",
    (IDLE_COMMITS, IDLE_SHARE),
)


def skewed_lag(snapshot: GroupSnapshot) -> Answer:
    """The lag of a group that reads has the shape of one partition or of one member."""
    report = snapshot.lag
    rows = [p for p in report.partitions if p.status is not LagStatus.UNSUBSCRIBED and _is_committed(p.partition)]
    if any(p.status is LagStatus.NO_READER for p in rows) or (snapshot.group.is_empty and not snapshot.group.is_simple):
        return ()
    partly = SKEWED_LAG.partly(unread_partitions_text([p.partition for p in rows]))
    lags = [p.lag for p in rows if p.lag is not None]
    if rows and not lags:
        return SKEWED_LAG.unknown(snapshot.why("logs", "no log range could be read"))
    total, behind = sum(lags), snapshot.shape.behind
    lag = sum(p.lag or 0 for p in behind)
    # A rewound partition is behind whatever its lag, and one that waits for a transaction is not slow.
    small = lag < LEAST_LAG.value or 100 * lag < BEHIND_SHARE.value * max(lags, default=0)
    if small or len(lags) < FEW_PARTITIONS.value or any(p.status_result.why == WAITS for p in behind):
        return partly
    share = f"{percent(lag, total)} of {human_count(total)}"
    if snapshot.shape.kind is LagShape.ONE_PARTITION:
        where, topic = behind[0].where, behind[0].partition.topic
        evidence = f"{human_count(lag)} on {where}, {share} over {plural(len(lags), 'partition')}"
        command = kgroup_command("lag", report.group, "--topic", topic)
        remedy = (
            "check whether it gets more records (hot-partition) or is stuck (stalled-commits); else its records are "
            "slow"
        )
    elif snapshot.shape.kind is LagShape.ONE_MEMBER:
        member_id = snapshot.shape.subject or ""
        where = labels(snapshot.group).get(member_id, member_id)
        evidence = f"{human_count(lag)} at {where}, {share}, with {len(behind)} of {plural(len(lags), 'partition')}"
        command = kgroup_command("describe", report.group, "--members")
        remedy = "compare that member with the others: host, version, throttling; a restart gives its partitions away"
    else:
        return partly
    return (
        SKEWED_LAG.finding(
            Severity.WARNING,
            evidence,
            remedy=remedy,
            numbers={"lag": lag, "total_lag": total, "partition_count": len(lags)},
            affected=(where,),
            commands=(command,),
        )
        + partly
    )


def hot_partition(snapshot: GroupSnapshot) -> Answer:
    """Arrivals are compared, not lag."""
    known = snapshot.arrivals
    missing = [str(p.tp) for p in snapshot.group.partitions if p.tp not in known]
    if missing and not known:
        return HOT_PARTITION.unknown(snapshot.why("production", "how many records arrive was not read"))
    hot = hot_partitions(known)
    partly = HOT_PARTITION.partly(f"records in unknown for {some_of(missing)}" if missing else None)
    if not hot:
        return partly
    first = hot[0]
    more = f"; {len(hot) - 1} more" if len(hot) > 1 else ""
    return (
        HOT_PARTITION.finding(
            Severity.WARNING,
            f"{first.tp} gets {rate_words(first.per_s)}, the median of the other {first.others} is "
            f"{rate_words(first.usual_per_s)}{more}",
            remedy="spread the busiest key (a suffix, or a key of finer grain); more partitions or members do not help "
            "one key",
            numbers={
                "records_per_s": round(first.per_s),
                "median_per_s": round(first.usual_per_s),
                "hot_partition_count": len(hot),
            },
            affected=[f"{each.tp}" for each in hot],
            commands=(kgroup_command("lag", snapshot.group.name, "--topic", first.tp.topic),),
        )
        + partly
    )


def stalled_commits(snapshot: GroupSnapshot) -> Answer:
    """Partitions with the status STALL or STOP: a member, or a consumer with ``assign()``, does not get past an offset.

    One whose lag may be the mark of a transaction, as its records could not be read, is left out. Where members left
    again and again as they did not poll, that is the answer.
    """
    group, report = snapshot.group, snapshot.lag
    slow = slow_polls_in(report, snapshot.evidence)
    if slow is not None and len(slow.left) > 1 and all(p.partition.tp in slow.places for p in stuck_of(report)):
        return _slow_polls(snapshot, slow)
    if snapshot.commits is None:
        return () if group.is_empty else STALLED_COMMITS.unknown(snapshot.why("commits", NO_COMMITS))
    lagging = [p for p in report.partitions if p.lag and p.status is not LagStatus.NO_READER]
    unseen = [p.where for p in lagging if p.status is None and p.partition.tp not in snapshot.commits]
    stuck = [p for p in stuck_of(report) if p.status is not LagStatus.NO_READER]
    doubtful = [p.where for p in stuck if _may_hold_no_record(snapshot, p)]
    why = unread_partitions_text([p for p in group.partitions if _is_committed(p)])
    if doubtful:
        why = f"whether offsets hold unread records could not be read: {some_of(doubtful)}"
    if unseen:
        why = f"no commit in the log that was read: {some_of(unseen)}"
    partly = STALLED_COMMITS.partly(None if group.is_empty and not lagging else why)
    stalls = [p for p in stuck if p.where not in doubtful]
    if not stalls:
        early = [p for p in lagging if _is_early(p, snapshot.now_ms)]
        return STALLED_COMMITS.early(f"{early[0].where}: {early[0].status_result.why}") if early else partly
    worst = stalls[0]
    for_ms = snapshot.now_ms - (worst.status_result.since_ms or snapshot.now_ms)
    arrivals = worst.spans[-1] if worst.spans[-1].incoming else None
    more = f"; {len(stalls) - 1} more of {plural(len(group.partitions), 'partition')}" if len(stalls) > 1 else ""
    loops = {loop.tp for loop in snapshot.crash_loops}
    record = record_at(worst, report, snapshot.evidence, replaced=worst.partition.tp in loops)
    silent = silent_member(report, snapshot.evidence)
    together = stopped_together(report)
    owner = _owner_words(snapshot, worst, silent)
    return (
        STALLED_COMMITS.finding(
            Severity.CRITICAL if for_ms >= STUCK.value else Severity.WARNING,
            f"{worst.where} at {worst.stuck_at}: {how_stuck(worst, snapshot.now_ms, arrivals)}{more}{owner}"
            + ("" if together is None else f"; {together}"),
            remedy=("if its process is gone, remove that member; else " if silent is not None else "")
            + "a record cannot be processed, a call hangs, or it has paused the partition: read its owner's log and a "
            + "thread dump before a "
            + ("restart, or skip that record" if record.doubt is None else f"restart; which record is {record.doubt}"),
            numbers={
                "partition_count": len(stalls),
                "stalled_ms": for_ms,
                "attempt_count": worst.status_result.repeats or _attempts(snapshot.commits.get(worst.partition.tp, ())),
                "lag": sum(p.lag or 0 for p in stalls),
            },
            affected=[p.where for p in stalls],
            commands=(
                *(() if silent is None else (evict_member(group.name, silent.member),)),
                peek_group(group.name),
                kgroup_command("lag", group.name, "--topic", worst.partition.topic),
                # Without an owner no member tries it, nor one that gets no position: a pattern may have left its topic.
                *(
                    skip_record(group.name, record)
                    if worst.partition.owner is not None and not snapshot.read.open_commits
                    else ()
                ),
            ),
        )
        + partly
    )


def _owner_words(snapshot: GroupSnapshot, row: PartitionLag, silent: SilentMember | None) -> str:
    """That its owner may be gone, or lives, as it heartbeats: the group would have removed a frozen process."""
    if silent is not None:
        return f"; {labels(snapshot.group)[silent.member.member_id]}: {silent.words(snapshot.now_ms)}"
    owner = row.partition.owner
    facts = None if owner is None else (snapshot.settings or {}).get(owner.member_id)
    session_ms = None if facts is None else facts.session_timeout_ms
    if owner is None or session_ms is None or row.last_commit_ms is None or row.status is not LagStatus.STOP:
        return ""
    silent_ms = snapshot.now_ms - row.last_commit_ms
    return f"; {labels(snapshot.group)[owner.member_id]} still heartbeats: it lives" if silent_ms > session_ms else ""


def _slow_polls(snapshot: GroupSnapshot, slow: SlowPolls) -> Answer:
    group, poll_ms = snapshot.group.name, slow.left[-1].poll_ms
    for_ms = snapshot.now_ms - slow.left[0].at_ms
    lags = [p.lag or 0 for p in snapshot.lag.partitions if p.partition.tp in slow.places]
    return STALLED_COMMITS.finding(
        Severity.CRITICAL if for_ms >= STUCK.value else Severity.WARNING,
        slow_poll_words(slow, slow_polls_at(slow, snapshot.lag), snapshot.now_ms),
        remedy="read the application's log and a thread dump: if a batch is slow, a longer max.poll.interval.ms or "
        "smaller batches let it end; if a call hangs, end that",
        numbers={
            "partition_count": len(slow.places),
            "stalled_ms": for_ms,
            "attempt_count": len(slow.left),
            "lag": sum(lags),
            "max_poll_interval_ms": poll_ms,
        },
        affected=[f"{tp}" for tp in slow.places],
        commands=(peek_group(group), f"max.poll.interval.ms={2 * poll_ms}", "max.poll.records=100"),
    )


def _may_hold_no_record(snapshot: GroupSnapshot, row: PartitionLag) -> bool:
    facts = snapshot.logs.get(row.partition.tp)
    return (row.lag or 0) < LEAST_UNREAD.value and (facts is None or facts.first_unread is None)


def _is_early(row: PartitionLag, now_ms: int) -> bool:
    """Whether its commits are too few to judge, and time decides; shorter than ``LEAST_SILENCE`` shows nothing."""
    if row.status is not None or row.last_commit_ms is None or row.status_result.why == WAITS:
        return False
    unread_ms = now_ms if row.time_lag_ms is None else row.time_lag_ms
    return min(now_ms - row.last_commit_ms, unread_ms) >= LEAST_SILENCE.value


def _attempts(commits: Sequence[LoggedCommit]) -> int:
    """The number of last commits of the same offset."""
    return sum(1 for _ in takewhile(lambda commit: commit.offset == commits[-1].offset, reversed(commits)))


def unsubscribed(snapshot: GroupSnapshot) -> Answer:
    """Unread records of a topic that no member of a running group subscribes to: it was left, or a service is down."""
    group = snapshot.group
    left = [p for p in snapshot.lag.partitions if p.status is LagStatus.UNSUBSCRIBED]
    if not left:
        alone = group.members and any(p.lag and p.commit is not None and p.owner is None for p in group.partitions)
        if alone and topics_read(group) is None:
            return UNSUBSCRIBED.unknown(NO_SUBSCRIPTIONS)
        return ()
    last_ms = max((p.last_commit_ms for p in left if p.last_commit_ms is not None), default=None)
    if last_ms is not None and snapshot.now_ms - last_ms < RESTART.value:
        return UNSUBSCRIBED.early(f"its last commit is younger than {RESTART.text}, which may be a restart")
    topics, lag = unsubscribed_in(snapshot.lag), sum(p.lag or 0 for p in left)
    ago = "" if last_ms is None else f", last commit {_ago(snapshot, last_ms)}"
    return UNSUBSCRIBED.finding(
        Severity.WARNING,
        f"{some_of(topics)}: {human_count(lag)} unread on {plural(len(left), 'partition')}{ago}"
        f"{_arriving(_arrivals(snapshot, left))}",
        remedy="if a service that reads the topic is missing, start it; if the group has left the topic, delete its "
        "offsets, which a running group allows (to undo that, the group must be Empty)",
        numbers={"lag": lag, "partition_count": len(left), "topic_count": len(topics)},
        affected=topics,
        commands=(
            kgroup_command("describe", group.name, "--members", "--verbose"),
            *([delete_offsets(group.name, gone)] if (gone := left_in(snapshot.lag, snapshot.evidence)) else ()),
        ),
    )


def no_reader(snapshot: GroupSnapshot) -> Answer:
    """Partitions with the status NO-READER, if records arrive, the gap is large, or a tool made the last commit."""
    group = snapshot.group
    if not group.is_empty:
        return ()
    if not group.totals.lag:
        return NO_READER.partly(unread_partitions_text([p for p in group.partitions if _is_committed(p)]))
    if snapshot.commits is None:
        return NO_READER.unknown(snapshot.why("commits", NO_COMMITS))
    slow = slow_polls_in(snapshot.lag, snapshot.evidence)
    if slow is not None and len(slow.left) > 1:
        return ()  # stalled-commits: its members come back
    rows = sorted((p for p in snapshot.lag.partitions if p.status is LagStatus.NO_READER), key=lambda p: -(p.lag or 0))
    if not rows:
        unknown = [p.status_result.why for p in snapshot.lag.partitions if p.lag and p.status is None]
        return NO_READER.partly(unknown[0] if unknown else None)
    newest = [commits[-1] for commits in snapshot.commits.values()]
    by_tool = any(commit.by_tool for commit in newest)
    arrivals, lag = _arrivals(snapshot, rows), sum(p.lag or 0 for p in rows)
    if not by_tool and arrivals is None and lag < LEAST_UNREAD.value:
        return NO_READER.partly(snapshot.why("production", "how many records arrive was not read"))
    quiet = not by_tool and arrivals == 0
    # Of a smaller gap no rates are needed, which take long to compute.
    large = not by_tool and lag >= LEAST_LAG.value and snapshot.gap is not None
    if quiet and not large:
        return ()
    last_ms = max((commit.timestamp_ms for commit in newest), default=None)
    emptied_ms = snapshot.evidence.state_since_ms
    read_ms = max((commit.timestamp_ms for commit in newest if not commit.by_tool), default=None)
    after = emptied_ms is not None and read_ms is not None and read_ms > emptied_ms  # by a consumer with assign()
    since_ms = read_ms if after else last_ms if emptied_ms is None else emptied_ms
    for_ms = None if since_ms is None else snapshot.now_ms - since_ms
    if (early := _early_without_reader(snapshot, rows, for_ms)) is not None:
        return NO_READER.early(early)
    if not after and (job := not_due(snapshot.lag, snapshot.evidence)):
        return NO_READER.early(job)
    other = snapshot.read.successor
    long = emptied_ms is not None and DESERTED.value <= (for_ms or 0) < ABANDONED.value
    critical = not quiet and long  # whether a successor has read the gap, the log does not show
    what = "reader" if after else "member"
    age = "" if for_ms is None else f" for {duration(for_ms)}"
    tool = (
        f"; a reset or a release committed last, {_ago(snapshot, last_ms)}" if by_tool and last_ms is not None else ""
    )
    past = kgroup_command("history", group.name, *(("--commits",) if by_tool else ("--since", "1d")))
    hung = f"; {slow_poll_words(slow, slow_polls_at(slow, snapshot.lag), snapshot.now_ms)}" if slow else ""
    taken = "" if other is None else f"; {other.words(snapshot.now_ms)}"
    check = (
        "check that commit first: the history shows its jump and the command that undoes it; then " if by_tool else ""
    )
    connector = connector_of(group.name)
    start = (
        "start its consumers"
        if connector is None
        else f"ask Connect ({status_request(connector)}): restart a failed task, once what it cannot read is mended or "
        "skipped, or resume a stopped connector"
    )
    return NO_READER.finding(
        Severity.CRITICAL if critical else Severity.WARNING,
        f"{human_count(lag)} unread on {plural(len(rows), 'partition')}, no {what}{age}{_arriving(arrivals)}"
        f"{tool}{hung}{taken}",
        remedy=("" if other is None else f"if {some_of(other.names)} replaced it, start nothing; if not, ")
        + ("take a thread dump of that process before its restart; " if slow else "")
        + f"{check}{start}: they continue at the committed offsets; delete the group only if no "
        "consumer will read it again",
        numbers={"lag": lag, "partition_count": len(rows)} | ({} if for_ms is None else {"no_reader_ms": for_ms}),
        affected=[p.where for p in rows],
        commands=(*map(describe_group, other.names), past)
        if other is not None
        else (past, catch_up(group.name))
        if large
        else (past,),
    )


def large_gap(snapshot: GroupSnapshot) -> Answer:
    """The large gap of a group that reads; ``no_reader`` is about one that does not read."""
    group = snapshot.group
    if group.is_empty and not group.is_simple:
        return ()
    partly = LARGE_GAP.partly(unread_partitions_text([p for p in group.partitions if _is_committed(p)]))
    if (group.totals.lag or 0) < LEAST_LAG.value:
        return partly
    rows = [p for p in snapshot.lag.partitions if p.lag and p.status is not LagStatus.UNSUBSCRIBED]
    if any(p.status is LagStatus.NO_READER for p in rows):
        return partly
    if snapshot.commits is None:
        return LARGE_GAP.unknown(snapshot.why("commits", NO_COMMITS))
    gap = snapshot.gap
    if gap is None:
        undecided = [p for p in rows if p.outlook.pace is LagTrend.UNKNOWN and p.status_result.why != WAITS]
        if sum(p.lag or 0 for p in undecided) < LEAST_LAG.value:
            return partly
        if all(p.rates.incoming is None for p in undecided):
            return LARGE_GAP.unknown(snapshot.why("production", "how many records arrive was not read"))
        return LARGE_GAP.early(f"rates need more commits than the log has of {some_of([p.where for p in undecided])}")
    grows = gap.seconds is None
    longest_ms = round(1000 * (gap.seconds or 0))
    spans = {p.rates.span_ms for p in gap.slow}
    span = span_words(spans.pop() if len(spans) == 1 else None)
    change = lag_began_with(snapshot.lag, snapshot.evidence)
    began = "" if change is None else f"; it began {change.words(snapshot.now_ms)}"
    # In a rebalance nobody knows what more members would get.
    quota = slowed_by_quota(group, snapshot.evidence, gap)
    few = group.members is not None and len(group.members) < len(group.partitions)
    adds = gap.needs_members and few and not group.is_rebalancing
    return (
        LARGE_GAP.finding(
            Severity.WARNING if grows else Severity.INFO,
            f"{human_count(gap.lag)} unread on {plural(len(gap.slow), 'partition')}, {rate_words(gap.arrives)} arrived "
            f"and {rate_words(gap.reads)} read{span}: {'it grows' if grows else f'{duration(longest_ms)} left'}{began}"
            + ("" if quota is None else f"; {quota}"),
            remedy="if new records cannot wait: stop the group, start it at the log end, and replay the gap in parallel"
            + ("; it needs more members or faster processing too, or it falls behind again" if grows else ""),
            numbers={"lag": gap.lag, "partition_count": len(gap.slow)} | ({} if grows else {"catch_up_ms": longest_ms}),
            affected=[p.where for p in gap.slow],
            commands=(*((add_member(group.name),) if adds else ()), catch_up(group.name)),
        )
        + partly
    )


def _arrivals(snapshot: GroupSnapshot, rows: Sequence[PartitionLag]) -> float | None:
    """What arrives per second on these partitions, as far as it is known; None if nothing of it is."""
    known = [snapshot.arrivals[p.partition.tp] for p in rows if p.partition.tp in snapshot.arrivals]
    return sum(known) if known else None


def _arriving(per_s: float | None) -> str:
    """`` while 1.8/s (10m) arrived``; empty if nothing arrived in that span, or if that is unknown."""
    return f" while {rate_words(per_s)}{span_words(RATE_SPAN.value)} arrived" if per_s else ""


def _ago(snapshot: GroupSnapshot, at_ms: int) -> str:
    return f"{duration(max(0, snapshot.now_ms - at_ms))} ago"


def _is_committed(partition: Partition) -> bool:
    return partition.commit is not None or partition.error is not None


def _early_without_reader(snapshot: GroupSnapshot, rows: Sequence[PartitionLag], for_ms: int | None) -> str | None:
    """Why it is too early to miss a reader: its members went, or what they left for others came, just now."""
    if for_ms is not None and for_ms < RESTART.value:
        return f"no member for less than {RESTART.text}, which may be a restart"
    waiting_ms = min((ms for p in rows if (ms := p.status_result.since_ms) is not None), default=0)
    if not _left(snapshot) or snapshot.now_ms - waiting_ms >= RESTART.value:
        return None
    return f"records for less than {RESTART.text} since its members left, which may start on demand"


def _left(snapshot: GroupSnapshot) -> bool:
    """Whether its last members left by themselves."""
    return any(run.left for run in snapshot.evidence.runs[-1:])


def asks_for_first_unread(snapshot: GroupSnapshot) -> bool:
    """Whether a rule may ask when the first unread records were written: this costs requests.

    Most groups that have no members, or a small lag, are judged without.
    """
    group, loops = snapshot.group, snapshot.history.crash_loops if snapshot.history else ()
    if loops or not group.is_empty or _left(snapshot):
        return True
    if snapshot.evidence.slow_polls is not None:
        return True
    reads = group.is_simple and (group.totals.lag or 0) >= LEAST_LAG.value
    if reads or _has_many_commits(snapshot.commits or {}):
        return True
    return any(p.status is not LagStatus.NO_READER for p in may_be_stuck(snapshot))


def may_be_stuck(snapshot: GroupSnapshot) -> list[PartitionLag]:
    """The partitions for which it matters when the first unread record was written."""
    suspects = {loop.tp for loop in snapshot.evidence.crash_loops}
    rows = [p for p in snapshot.lag.partitions if p.lag and p.status is not LagStatus.UNSUBSCRIBED]
    return [
        p
        for p in rows
        if p.partition.tp in suspects
        or (p.last_commit_ms is not None if p.status is None else p.status.is_stuck)
        or (p.status is LagStatus.OK and _attempts((snapshot.commits or {}).get(p.partition.tp, ())) > 1)
    ]


def _has_many_commits(commits: Mapping[TopicPartition, Sequence[LoggedCommit]]) -> bool:
    return sum(map(len, commits.values())) - len(commits) >= IDLE_COMMITS.value


def unusable_timestamps(snapshot: GroupSnapshot) -> Answer:
    """Information: the group may be healthy, and what was concluded from these times is unknown."""
    times_ms = snapshot.evidence.unusable_times
    partly = UNUSABLE_TIMESTAMPS.partly(unread_partitions_text(snapshot.group.partitions))
    if not times_ms:
        return partly
    found = UNUSABLE_TIMESTAMPS.finding(
        Severity.INFO,
        f"{unusable_words(times_ms, snapshot.now_ms)}; ages and rates are unknown there",
        remedy="correct the clock of the producer, or its unit: milliseconds; or message.timestamp.type=LogAppendTime. "
        "Retention goes by these times too: records of 1970 are deleted at once, those of the future are kept",
        numbers={"partition_count": len(times_ms)},
        affected=[f"{tp}" for tp in sorted(times_ms)],
        commands=(peek_group(snapshot.group.name),),
    )
    return (*found, *partly)


def commits_without_progress(snapshot: GroupSnapshot) -> Answer:
    """It ignores stalled partitions: their repeated commits are a symptom of a worse problem."""
    if snapshot.commits is None:
        return COMMITS_WITHOUT_PROGRESS.unknown(snapshot.why("commits", NO_COMMITS))
    if not _has_many_commits(snapshot.commits):
        return ()
    stalls = {p.partition.tp for p in stuck_of(snapshot.lag)}
    repeats: Counter[TopicPartition] = Counter()
    total, first_ms, last_ms = 0, snapshot.now_ms, 0
    for key, known in snapshot.commits.items():
        if key in stalls:
            continue
        offsets = [commit.offset for commit in known]
        repeats[key] = sum(before == after for before, after in pairwise(offsets))
        total += max(len(offsets) - 1, 0)
        first_ms, last_ms = min(first_ms, known[0].timestamp_ms), max(last_ms, known[-1].timestamp_ms)
    idle = sum(repeats.values())
    if total < IDLE_COMMITS.value or 100 * idle < IDLE_SHARE.value * total:
        return ()
    span = max(last_ms - first_ms, 1)
    where = [f"{topic}:{number}" for (topic, number), count in repeats.most_common() if count]
    return COMMITS_WITHOUT_PROGRESS.finding(
        Severity.INFO,
        f"{idle} of {plural(total, 'commit')} in {duration(span)} moved nothing, on {plural(len(where), 'partition')}",
        remedy="a longer auto.commit.interval.ms, or commits only after work: these fill __consumer_offsets, which "
        "coordinators load and history is read from",
        numbers={"commit_count": total, "without_progress_count": idle, "span_ms": span, "partition_count": len(where)},
        affected=where,
        commands=("auto.commit.interval.ms=60000",),
    )
