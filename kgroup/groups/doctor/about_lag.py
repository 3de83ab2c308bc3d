"""Rules about lag: uneven lag, hot partitions, and commits that do not move."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter, itemgetter

import msgspec

from kgroup.groups.doctor.finding import (
    NO_SUBSCRIPTIONS,
    Answer,
    Rule,
    Severity,
    duration,
    kgroup_command,
    unread_partitions_text,
)
from kgroup.groups.doctor.snapshot import GroupSnapshot, LogDetails, Production
from kgroup.groups.lag.rates import Outlook, Rates, keeps_up, rate_words, reading_rate, slow_outlook, span_words
from kgroup.groups.member_labels import labels, subscribed_topics
from kgroup.groups.next_commands import add_member, catch_up, delete_offsets, peek_group, skip_record
from kgroup.groups.thresholds import (
    ABANDONED,
    ASSIGN_READS,
    COMMIT_WINDOW,
    DESERTED,
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
    Threshold,
)
from kgroup.model.groups import LoggedCommit, Partition
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.units import human_count, percent, plural, some_of

LAG_SHARE = Threshold("share of the lag on one partition or member", 80, "%", "the rest alone would be no alert")

SKEWED_LAG = Rule(
    "skewed-lag",
    "nearly all the lag lies on one partition or one member",
    "Burrow's rules; Kafka's documentation of consumer lag",
    (LEAST_LAG, LAG_SHARE, FEW_PARTITIONS),
)
HOT_PARTITION = Rule(
    "hot-partition",
    "one partition gets many times the records of the others",
    "Kafka's documentation of the partitioner: equal keys share a partition; KIP-480, KIP-794",
    (HOT, HOT_LEAST, FEW_PARTITIONS),
)
STALLED_COMMITS = Rule(
    "stalled-commits",
    "committed offsets do not move while records arrive",
    "Burrow's rules STOP and STALL; KIP-62",
    (LEAST_SILENCE, COMMIT_WINDOW, LONE_COMMIT, STUCK, LEAST_UNREAD),
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
    (RESTART, DESERTED, ABANDONED, LEAST_UNREAD, ASSIGN_READS, LEAST_LAG, LONG_GAP),
)
LARGE_GAP = Rule(
    "large-gap",
    "at the measured rate the gap needs long to be read, or grows",
    "KIP-333; Kafka's documentation of consumer lag",
    (LEAST_LAG, LONG_GAP, RATE_SPAN),
)
COMMITS_WITHOUT_PROGRESS = Rule(
    "idle-commits",
    "most commits repeat the same offset: auto-commit on quiet partitions",
    "Kafka's documentation of auto.commit.interval.ms",
    (IDLE_COMMITS, IDLE_SHARE),
)
_NO_COMMITS = "the commits in __consumer_offsets were not read"


def skewed_lag(snapshot: GroupSnapshot) -> Answer:
    """A partition goes before its member, which is not the cause if only one is bad. Needs members, or assign()."""
    group = snapshot.group
    if group.is_empty and not group.is_simple:
        return ()
    committed = _committed([p for p in group.partitions if p.topic not in snapshot.unsubscribed])
    partly = SKEWED_LAG.partly(unread_partitions_text(committed))
    total = group.totals.lag
    if total is not None and snapshot.unsubscribed:
        total -= sum(p.lag or 0 for p in group.partitions if p.topic in snapshot.unsubscribed)
    if committed and total is None:
        return SKEWED_LAG.unknown(snapshot.why("logs", "no log range could be read"))
    if total is None or total < LEAST_LAG.value:
        return partly
    lags = {str(partition.tp): lag for partition in committed if (lag := partition.lag) is not None}
    if len(lags) < FEW_PARTITIONS.value:
        return partly
    worst = max(lags, key=lambda where: lags[where])
    by_member: Counter[str] = Counter()
    partition_counts: Counter[str] = Counter()
    for partition in committed:
        if partition.owner is not None and str(partition.tp) in lags:
            by_member[partition.owner.member_id] += lags[str(partition.tp)]
            partition_counts[partition.owner.member_id] += 1
    names = labels(group)
    member_id, of_member = by_member.most_common(1)[0] if by_member else ("", 0)
    if _most(lags[worst], total):
        where, lag = worst, lags[worst]
        evidence = f"{human_count(lag)} on {where}, {percent(lag, total)} of {human_count(total)}"
        evidence += f" over {plural(len(lags), 'partition')}"
        command = kgroup_command("lag", group.name, "--topic", worst.rpartition(":")[0])
        remedy = (
            "check whether it gets more records (hot-partition) or is stuck (stalled-commits); else its records are "
            "slow"
        )
    elif _most(of_member, total) and 2 * partition_counts[member_id] < len(lags):
        where, lag = names.get(member_id, member_id), of_member
        evidence = f"{human_count(lag)} at {where}, {percent(lag, total)} of {human_count(total)}"
        evidence += f", with {partition_counts[member_id]} of {plural(len(lags), 'partition')}"
        command = kgroup_command("describe", group.name, "--members")
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


def _most(part: int, total: int) -> bool:
    return 100 * part >= LAG_SHARE.value * total


def median_of_others(ascending: Sequence[float], one: float) -> float:
    """The median without one of these values: there may be thousands, and each is left out once."""
    left_out, others = bisect_left(ascending, one), len(ascending) - 1
    low, high = (ascending[at + (at >= left_out)] for at in ((others - 1) // 2, others // 2))
    return (low + high) / 2 if others % 2 == 0 else low


def hot_partition(snapshot: GroupSnapshot) -> Answer:
    """Compares arrivals, not lag, with the median of the other partitions, which a second hot one hardly changes."""
    missing = []
    known: list[tuple[TopicPartition, Production]] = []
    for partition in snapshot.group.partitions:
        tp = partition.tp
        facts = snapshot.logs.get(tp)
        if facts is None or facts.production is None:
            missing.append(str(tp))
        else:
            known.append((tp, facts.production))
    if missing and not known:
        return HOT_PARTITION.unknown(snapshot.why("production", "how many records arrive was not read"))
    hot = _hot(known)
    partly = HOT_PARTITION.partly(f"records in unknown for {some_of(missing)}" if missing else None)
    if not hot:
        return partly
    hot.sort(key=lambda each: (-each[0], each[1], each[2]))
    rate, topic, number, usual, others_count = hot[0]
    more = f"; {len(hot) - 1} more" if len(hot) > 1 else ""
    return (
        HOT_PARTITION.finding(
            Severity.WARNING,
            f"{topic}:{number} gets {rate_words(rate)}, the median of the other {others_count} is "
            f"{rate_words(usual)}{more}",
            remedy="spread the busiest key (a suffix, or a key of finer grain); more partitions or members do not help "
            "one key",
            numbers={"records_per_s": round(rate), "median_per_s": round(usual), "hot_partition_count": len(hot)},
            affected=[f"{topic}:{number}" for _, topic, number, _, _ in hot],
            commands=(kgroup_command("lag", snapshot.group.name, "--topic", topic),),
        )
        + partly
    )


def _hot(known: Sequence[tuple[TopicPartition, Production]]) -> list[tuple[float, str, int, float, int]]:
    """The hot partitions: their records per second, topic, number, the median of the others, and how many those are."""
    busy = {tp for tp, production in known if production.records >= HOT_LEAST.value}
    rates: defaultdict[str, dict[TopicPartition, float]] = defaultdict(dict)
    # A group of quiet topics has no hot partition: nothing is compared.
    for tp, production in known if busy else ():
        rates[tp.topic][tp] = production.per_second
    hot = []
    for of_topic in rates.values():
        if len(of_topic) < FEW_PARTITIONS.value:
            continue
        ascending = sorted(of_topic.values())
        for tp in busy & of_topic.keys():
            usual = median_of_others(ascending, of_topic[tp])
            if of_topic[tp] >= HOT.value * usual:
                hot.append((of_topic[tp], *tp, usual, len(ascending) - 1))
    return hot


class Stall(msgspec.Struct, frozen=True):
    """A partition whose commit has not moved for ``for_ms``; ``attempts`` is the number of commits of this offset.

    ``repeated`` is whether at least ``COMMIT_WINDOW`` of them came over ``LEAST_SILENCE`` while the record was unread.
    """

    partition: Partition
    for_ms: int
    attempts: int
    lag: int
    repeated: bool

    @property
    def is_certain(self) -> bool:
        """Whether the evidence is sufficient for a finding."""
        return self.repeated or self.for_ms >= LONE_COMMIT.value


def stalled_commits(snapshot: GroupSnapshot) -> Answer:
    """A group with members whose committed offset does not move, with further commits (STALL) or without (STOP).

    A group without members is not checked. A commit at the last stable offset is not stalled: a transaction blocks it.
    """
    group = snapshot.group
    if group.is_empty:
        return ()
    if snapshot.commits is None:
        return STALLED_COMMITS.unknown(snapshot.why("commits", _NO_COMMITS))
    lagging = [partition for partition in group.partitions if partition.lag]
    unseen = [str(p.tp) for p in lagging if p.tp not in snapshot.commits]
    why = (
        f"no commit in the log that was read: {some_of(unseen)}"
        if unseen
        else unread_partitions_text(_committed(group.partitions))
    )
    partly = STALLED_COMMITS.partly(why)
    standing = sorted(standing_of(snapshot), key=lambda stall: (-stall.for_ms, -stall.lag))
    stalls = [stall for stall in standing if stall.is_certain]
    if not stalls and standing:
        return STALLED_COMMITS.early(
            f"a committed offset has not moved for less than {LONE_COMMIT.text} or {COMMIT_WINDOW.text} commits, too "
            "short to judge"
        )
    if not stalls:
        return partly
    worst = stalls[0]
    facts = snapshot.logs.get(worst.partition.tp)
    arriving = _arriving(facts.production if facts else None)
    tried = f", committed {worst.attempts} times" if worst.attempts > 1 else ", no commit since"
    more = f"; {len(stalls) - 1} more of {plural(len(group.partitions), 'partition')}" if len(stalls) > 1 else ""
    offset = worst.partition.commit.offset if worst.partition.commit else 0
    record = snapshot.stuck_record(worst.partition.tp)
    return (
        STALLED_COMMITS.finding(
            Severity.CRITICAL if worst.for_ms >= STUCK.value else Severity.WARNING,
            f"{worst.partition.tp} at {offset} for {duration(worst.for_ms)}{tried}{arriving}{more}",
            remedy="a record cannot be processed, or a call hangs: read its owner's log and a thread dump before a "
            + ("restart, or skip that record" if record.doubt is None else f"restart; which record is {record.doubt}"),
            numbers={
                "partition_count": len(stalls),
                "stalled_ms": worst.for_ms,
                "attempt_count": worst.attempts,
                "lag": sum(stall.lag for stall in stalls),
            },
            affected=[str(stall.partition.tp) for stall in stalls],
            commands=(
                peek_group(group.name),
                kgroup_command("lag", group.name, "--topic", worst.partition.topic),
                # Without an owner no member tries it: a pattern may have left its topic.
                *(skip_record(group.name, record) if worst.partition.owner is not None else ()),
            ),
        )
        + partly
    )


def unsubscribed(snapshot: GroupSnapshot) -> Answer:
    """Unread records of a topic that no member of a running group subscribes to: it was left, or a service is down."""
    group = snapshot.group
    lagging = [p for p in group.partitions if p.lag and p.topic in snapshot.unsubscribed]
    if not lagging:
        alone = group.members and any(p.lag and p.commit is not None and p.owner is None for p in group.partitions)
        if alone and subscribed_topics(group) is None:
            return UNSUBSCRIBED.unknown(NO_SUBSCRIPTIONS)
        return ()
    commits = [c for p in lagging for c in (snapshot.commits or {}).get(p.tp, ())]
    last_ms = max((commit.timestamp_ms for commit in commits), default=None)
    if last_ms is not None and snapshot.now_ms - last_ms < RESTART.value:
        return UNSUBSCRIBED.early(f"its last commit is younger than {RESTART.text}, which may be a restart")
    lags: Counter[str] = Counter()
    for p in lagging:
        lags[p.topic] += p.lag or 0
    topics = [topic for topic, _ in lags.most_common()]
    ago = "" if last_ms is None else f", last commit {_ago(snapshot, last_ms)}"
    return UNSUBSCRIBED.finding(
        Severity.WARNING,
        f"{some_of(topics)}: {human_count(lags.total())} unread on {plural(len(lagging), 'partition')}{ago}"
        f"{_arriving(_arrivals(snapshot, lagging))}",
        remedy="if a service that reads the topic is missing, start it; if the group has left the topic, delete its "
        "offsets, which a running group allows (to undo that, the group must be Empty)",
        numbers={"lag": lags.total(), "partition_count": len(lagging), "topic_count": len(topics)},
        affected=topics,
        commands=(
            kgroup_command("describe", group.name, "--members", "--verbose"),
            delete_offsets(group.name, topics),
        ),
    )


def no_reader(snapshot: GroupSnapshot) -> Answer:
    """An Empty group with unread records that arrive, with a large gap, or whose last commit a tool made.

    A consumer with ``assign()`` reads without being a member. Its commits after the group became Empty rule this out,
    until they have stopped for ``ASSIGN_READS``.
    """
    group = snapshot.group
    if not group.is_empty:
        return ()
    unread = [(p, lag) for p in group.partitions if (lag := p.lag)]
    if not unread:
        return NO_READER.partly(unread_partitions_text(_committed(group.partitions)))
    if snapshot.commits is None:
        return NO_READER.unknown(snapshot.why("commits", _NO_COMMITS))
    emptied_ms = snapshot.emptied_at_ms
    newest = [commits[-1] for commits in snapshot.commits.values()]
    fresh = [c for c in newest if not c.by_tool and snapshot.now_ms - c.timestamp_ms < ASSIGN_READS.value]
    if any(emptied_ms is None or commit.timestamp_ms > emptied_ms for commit in fresh):
        return ()
    lagging = [p for p, _ in unread]
    arrivals = _arrivals(snapshot, lagging)
    last_ms = max((commit.timestamp_ms for commit in newest), default=None)
    by_tool = any(commit.by_tool for commit in newest)
    lag = sum(lag for _, lag in unread)
    if not by_tool and arrivals is None and lag < LEAST_UNREAD.value:
        return NO_READER.partly(snapshot.why("production", "how many records arrive was not read"))
    quiet = not by_tool and arrivals is not None and not arrivals.records
    # Of a smaller gap no rates are needed, which take long to compute.
    large = not by_tool and lag >= LEAST_LAG.value and _is_large(snapshot, lagging)
    if quiet and not large:
        return ()
    since_ms = emptied_ms if emptied_ms is not None else last_ms
    for_ms = None if since_ms is None else snapshot.now_ms - since_ms
    if for_ms is not None and for_ms < RESTART.value:
        return NO_READER.early(f"no member for less than {RESTART.text}, which may be a restart")
    critical = (
        not quiet and emptied_ms is not None and for_ms is not None and DESERTED.value <= for_ms < ABANDONED.value
    )
    age = "" if for_ms is None else f" for {duration(for_ms)}"
    tool = (
        f"; a reset or a release committed last, {_ago(snapshot, last_ms)}" if by_tool and last_ms is not None else ""
    )
    worst_first = [str(p.tp) for p, _ in sorted(unread, key=itemgetter(1), reverse=True)]
    past = kgroup_command("history", group.name, *(("--commits",) if by_tool else ("--since", "1d")))
    check = (
        "check that commit first: the history shows its jump and the command that undoes it; then " if by_tool else ""
    )
    return NO_READER.finding(
        Severity.CRITICAL if critical else Severity.WARNING,
        f"{human_count(lag)} unread on {plural(len(lagging), 'partition')}, no member{age}{_arriving(arrivals)}{tool}",
        remedy=f"{check}start its consumers: they continue at the committed offsets; delete the group only if no "
        "consumer will read it again",
        numbers={"lag": lag, "partition_count": len(lagging)} | ({} if for_ms is None else {"no_reader_ms": for_ms}),
        affected=worst_first,
        commands=(past, catch_up(group.name)) if large else (past,),
    )


def large_gap(snapshot: GroupSnapshot) -> Answer:
    """A group that reads, with a gap that needs ten minutes or grows. ``no_reader`` is about one that does not read.

    A stalled partition is left out: there one record holds the rest back.
    """
    group = snapshot.group
    if group.is_empty and not group.is_simple:
        return ()
    partly = LARGE_GAP.partly(unread_partitions_text(_committed(group.partitions)))
    if (group.totals.lag or 0) < LEAST_LAG.value:
        return partly
    stalled = {stall.partition.tp for stall in standing_of(snapshot)}
    lagging = [p for p in group.partitions if p.commit is not None and p.lag and p.tp not in stalled]
    lagging = [p for p in lagging if p.topic not in snapshot.unsubscribed]
    if sum(p.lag or 0 for p in lagging) < LEAST_LAG.value:
        return partly
    if snapshot.commits is None:
        return LARGE_GAP.unknown(snapshot.why("commits", _NO_COMMITS))
    if not any(_arrival_rate(snapshot, p) is not None for p in lagging):
        return LARGE_GAP.unknown(snapshot.why("production", "how many records arrive was not read"))
    slow = _slow(snapshot, [p for p in lagging if _is_covered(snapshot, p)], reads=True)
    lag = sum(p.lag or 0 for p, _, _ in slow)
    if lag < LEAST_LAG.value:
        young = [p for p in lagging if not _is_covered(snapshot, p)]
        if sum(p.lag or 0 for p in young) < LEAST_LAG.value:
            return partly
        return LARGE_GAP.early(f"rates need commits over {RATE_SPAN.text}, and the log has fewer of this group")
    arrived, read = (
        sum(rates) for rates in zip(*((r.incoming or 0, r.outgoing or 0) for _, r, _ in slow), strict=True)
    )
    late_s = [found.seconds for _, _, found in slow]
    grows = None in late_s
    longest_ms = None if grows else round(1000 * max(s for s in late_s if s is not None))
    outcome = "it grows" if longest_ms is None else f"{duration(longest_ms)} left"
    adds = grows and group.members is not None and len(group.members) < len(group.partitions)
    return (
        LARGE_GAP.finding(
            Severity.WARNING if grows else Severity.INFO,
            f"{human_count(lag)} unread on {plural(len(slow), 'partition')}, {rate_words(arrived)} arrived and "
            f"{rate_words(read)} read{span_words(RATE_SPAN.value)}: {outcome}",
            remedy="if new records cannot wait: stop the group, start it at the log end, and replay the gap in parallel"
            + ("; it needs more members or faster processing too, or it falls behind again" if grows else ""),
            numbers={"lag": lag, "partition_count": len(slow)} | ({} if grows else {"catch_up_ms": longest_ms or 0}),
            affected=[str(p.tp) for p, _, _ in sorted(slow, key=lambda each: -(each[0].lag or 0))],
            commands=(*((add_member(group.name),) if adds else ()), catch_up(group.name)),
        )
        + partly
    )


def _is_large(snapshot: GroupSnapshot, lagging: list[Partition]) -> bool:
    """Whether the gap of a group without a reader is large at the rates at which it last read."""
    return sum(p.lag or 0 for p, _, _ in _slow(snapshot, lagging, reads=False)) >= LEAST_LAG.value


def _slow(snapshot: GroupSnapshot, lagging: list[Partition], *, reads: bool) -> list[tuple[Partition, Rates, Outlook]]:
    """The partitions whose lag needs long or grows, and their rates. ``reads``: a consumer reads them now."""
    slow = []
    for p in lagging:
        commits = _logged(snapshot, p)
        rates = Rates(_arrival_rate(snapshot, p), reading_rate(commits))
        close = reads and keeps_up(p.lag or 0, commits, rates.incoming)
        if rates.growth is not None and (found := slow_outlook(p.lag or 0, rates, close=close)) is not None:
            slow.append((p, rates, found))
    return slow


def _arrival_rate(snapshot: GroupSnapshot, partition: Partition) -> float | None:
    facts = snapshot.logs.get(partition.tp)
    return facts.production.per_second if facts and facts.production else None


def _is_covered(snapshot: GroupSnapshot, partition: Partition) -> bool:
    """Whether a consumer's commits reach back over the time in which arriving records are counted."""
    commits = _logged(snapshot, partition)
    first = next((n + 1 for n in range(len(commits) - 1, -1, -1) if commits[n].by_tool), 0)
    since_ms = snapshot.now_ms - RATE_SPAN.value
    return first < len(commits) and commits[first].timestamp_ms <= since_ms + RATE_SPAN.value // 10


def _logged(snapshot: GroupSnapshot, partition: Partition) -> tuple[LoggedCommit, ...]:
    """The commits of a partition in the last ``RATE_SPAN`` of them."""
    commits = (snapshot.commits or {}).get(partition.tp, ())
    if len(commits) < 2:
        return commits
    first = bisect_right(commits, commits[-1].timestamp_ms - RATE_SPAN.value, key=attrgetter("timestamp_ms")) - 1
    return commits[max(0, first) :]


def _arrivals(snapshot: GroupSnapshot, partitions: list[Partition]) -> Production | None:
    """The sum of what arrives on these partitions, as far as it is known; None if nothing of it is."""
    known = [facts.production for p in partitions if (facts := snapshot.logs.get(p.tp)) and facts.production]
    return Production(sum(each.records for each in known), known[0].span_ms) if known else None


def _arriving(production: Production | None) -> str:
    """`` while 1.8/s (10m) arrived``; empty if nothing arrived in that span, or if that is unknown."""
    if production is None or not production.records:
        return ""
    return f" while {rate_words(production.per_second)}{span_words(production.span_ms)} arrived"


def _ago(snapshot: GroupSnapshot, at_ms: int) -> str:
    return f"{duration(max(0, snapshot.now_ms - at_ms))} ago"


def _committed(partitions: Sequence[Partition]) -> list[Partition]:
    return [partition for partition in partitions if partition.commit is not None or partition.error]


def asks_for_first_unread(snapshot: GroupSnapshot) -> bool:
    """Whether a rule may ask when the first unread records were written: this costs requests.

    Most groups that have no members, or a small lag, are judged without.
    """
    group, loops = snapshot.group, snapshot.history.crash_loops if snapshot.history else ()
    if loops or not group.is_empty:
        return True
    reads = group.is_simple and (group.totals.lag or 0) >= LEAST_LAG.value
    return reads or _has_many_commits(snapshot.commits or {})


def stalls_of(snapshot: GroupSnapshot) -> list[Stall]:
    """The partitions whose commit certainly does not move although records are unread or arrive."""
    return [stall for stall in standing_of(snapshot) if stall.is_certain]


def standing_of(snapshot: GroupSnapshot) -> list[Stall]:
    """The same for ``LEAST_SILENCE``: partitions that may be stalled, the evidence is too short yet."""
    stalls = []
    for partition in snapshot.group.partitions:
        lag, commit = partition.lag, partition.commit
        if not lag or commit is None or partition.topic in snapshot.unsubscribed:
            continue
        key = partition.tp
        logged = (snapshot.commits or {}).get(key, ())
        if not logged:
            continue
        if logged[-1].offset != commit.offset:
            continue  # it moved between the two reads
        facts = snapshot.logs.get(key)
        if facts is not None and (facts.unread is False or commit.offset >= _stable(facts, commit.offset + 1)):
            continue
        production = facts.production if facts else None
        if lag < LEAST_UNREAD.value if production is None else not production.records:
            continue
        same = []
        for each in reversed(logged):
            if each.offset != commit.offset:
                break
            same.append(each)
        # A consumer at the log end does not move either: the time counts from the first unread record.
        since_ms = max(same[-1].timestamp_ms, facts.unread_since_ms or 0) if facts else same[-1].timestamp_ms
        for_ms = snapshot.now_ms - since_ms
        if for_ms >= LEAST_SILENCE.value:
            tries = [each.timestamp_ms for each in same if each.timestamp_ms >= since_ms]
            repeated = len(tries) >= COMMIT_WINDOW.value and tries[0] - since_ms >= LEAST_SILENCE.value
            stalls.append(Stall(partition, for_ms, len(same), lag, repeated))
    return stalls


def _stable(facts: LogDetails, otherwise: int) -> int:
    return otherwise if facts.last_stable is None else facts.last_stable


def _has_many_commits(commits: Mapping[TopicPartition, Sequence[LoggedCommit]]) -> bool:
    return sum(map(len, commits.values())) - len(commits) >= IDLE_COMMITS.value


def commits_without_progress(snapshot: GroupSnapshot) -> Answer:
    """It ignores stalled partitions: their repeated commits are a symptom of a worse problem."""
    if snapshot.commits is None:
        return COMMITS_WITHOUT_PROGRESS.unknown(snapshot.why("commits", _NO_COMMITS))
    if not _has_many_commits(snapshot.commits):
        return ()
    stalled = {(stall.partition.topic, stall.partition.partition) for stall in stalls_of(snapshot)}
    repeats: Counter[TopicPartition] = Counter()
    total, first_ms, last_ms = 0, snapshot.now_ms, 0
    for key, known in snapshot.commits.items():
        if key in stalled:
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
