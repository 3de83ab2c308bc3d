"""Measures a group from its evidence: lag in records and time, status, rates and retention left per partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache
from itertools import groupby, pairwise
from operator import attrgetter

from msgspec.structs import replace

from kgroup.groups.lag.evidence import (
    EvidenceSource,
    FirstUnread,
    Isolation,
    LagEvidence,
    LogEnds,
    LogPoint,
    PartitionEvidence,
)
from kgroup.groups.lag.rates import (
    UNKNOWN_OUTLOOK,
    Arrivals,
    Rates,
    UnreadPart,
    has_older_times,
    keeps_up,
    outlook,
    rates_by_span,
    rates_of,
    recent_rate,
    retention_left,
)
from kgroup.groups.lag.report import GroupLag, LagSum, PartitionLag, sum_partitions
from kgroup.groups.lag.status import (
    CAUGHT_UP,
    DEFAULT_RULES,
    IN_BATCH,
    IN_TURN,
    JUST_BACK,
    LEFT_BEFORE,
    REBALANCES,
    SHARES,
    WAITS,
    CommitReading,
    LagStatus,
    StatusResult,
    StatusRules,
    evaluate_status,
    group_span_ms,
    has_lone_commit,
    no_reader,
)
from kgroup.groups.member_labels import topics_left_before, unsubscribed_topics
from kgroup.groups.streaming.progress import usual_silence_ms
from kgroup.groups.thresholds import ASSIGN_READS, LEAST_UNREAD, LONG_BATCH, RESTART, STORM_ONGOING
from kgroup.model.groups import Group, LoggedCommit, Partition
from kgroup.model.hidden_commits import hidden_words
from kgroup.model.record_times import unusable_words
from kgroup.model.streaming_query import StreamingQuery

_NOTHING = PartitionEvidence()
_UNKNOWN_RATES = Rates()
NOT_STARTED = "no start offset is stored yet"
"""Of a share group: so it is until its members have done their first records, even while they hold some."""
NOT_COUNTED = "the broker does not count it (before Kafka 4.2), or it does not know the log end"
DONE_AFTER_START = "records after the start offset are done, and the broker does not show which one is not"
_COMES_AND_GOES = 2
_RESTARTS = 2
"""Generations since the last commit that are one restart: the members may join one after the other."""


def measure_lag(group: Group, evidence: LagEvidence, rules: StatusRules = DEFAULT_RULES) -> GroupLag:
    """The lag of each partition, of each topic and of the group, as far as the evidence shows it."""
    if group.query is not None:
        rules = _rules_of(group.query, rules)
    in_order = sorted(group.partitions, key=attrgetter("tp"))
    known = [evidence.partitions.get(each.tp, _NOTHING) for each in in_order]
    consumer_ms = _last_by_consumer(known)
    # Few partitions need it, and it reads the commits of all. An older one says nothing of how often the group commits.
    span_ms = cache(lambda: group_span_ms(map(_commits_read, evidence.partitions.values()), rules))
    of_group = _OfGroup(
        group.name,
        evidence,
        rules,
        unsubscribed=unsubscribed_topics(group),
        left_before=topics_left_before(group, evidence.generation),
        rebalances=group.is_rebalancing,
        unattended=group.is_empty
        if group.is_share
        else _lacks_reader(group, evidence, list(zip(in_order, known, strict=True)), consumer_ms, span_ms),
        unattended_since_ms=max((ms for ms in (evidence.state_since_ms, consumer_ms) if ms is not None), default=None),
        span_ms=span_ms,
    )
    partitions = tuple(map(of_group.partition, in_order, known))
    partitions = _in_turn(partitions, of_group.back_ms, evidence.now_ms)
    if group.query is not None:
        partitions = _of_query(partitions, group.query, evidence.now_ms)
    if in_order and in_order[0].topic == in_order[-1].topic:
        topics: tuple[LagSum, ...] = (sum_partitions(group.name, in_order[0].topic, partitions),)
    else:
        topics = tuple(
            sum_partitions(group.name, topic, list(of_topic))
            for topic, of_topic in groupby(partitions, key=lambda p: p.partition.topic)
        )
    hidden = hidden_words(group.hidden_commits)
    if len(topics) == 1 and hidden is None:
        total = replace(topics[0], topic=None)
    else:
        total = sum_partitions(group.name, None, partitions, hidden)
    return GroupLag(
        group=group.name,
        state=group.state,
        isolation=evidence.isolation,
        now_ms=evidence.now_ms,
        partitions=partitions,
        topics=topics,
        total=total,
        hidden_commits=group.hidden_commits,
        at_most=None if group.query is None else group.query.reads_ahead,
    )


def _rules_of(query: StreamingQuery, rules: StatusRules) -> StatusRules:
    """The rules for a streaming query: it may be silent for as long as it was before, or as its job's schedule says."""
    usual_ms = usual_silence_ms(query) or 0
    return replace(rules, least_span_ms=max(rules.least_span_ms, usual_ms), lone_ms=max(rules.lone_ms, usual_ms))


def _of_query(rows: tuple[PartitionLag, ...], query: StreamingQuery, now_ms: int) -> tuple[PartitionLag, ...]:
    """The same, with what its batches show besides.

    A STOP is unknown while the query may be in the batch that it has planned. Between batches it is one as soon as the
    query is silent for longer than it usually is, though a record is unread: with data it plans the next batch at once.
    """
    planned, done_ms = query.planned, None if query.done is None else query.done.done_ms
    if planned is not None:
        if planned.planned_ms is None or now_ms - planned.planned_ms >= LONG_BATCH.value:
            return rows
        waits = StatusResult(None, why=IN_BATCH)
        return tuple(replace(row, status_result=waits) if row.status is LagStatus.STOP else row for row in rows)
    usual_ms = usual_silence_ms(query)
    if usual_ms is None or done_ms is None:
        return rows
    bound_ms = max(usual_ms, RESTART.value)

    def unless_late(row: PartitionLag) -> PartitionLag:
        if not row.lag or row.time_lag_ms is None or row.status in (LagStatus.STOP, LagStatus.REWIND):
            return row
        since_ms = max(done_ms, now_ms - row.time_lag_ms)
        late = now_ms - since_ms > bound_ms
        return replace(row, status_result=StatusResult(LagStatus.STOP, since_ms)) if late else row

    return tuple(map(unless_late, rows))


def _commits_read(known: PartitionEvidence) -> Sequence[LoggedCommit]:
    """The commits of the time that was read; the doctor adds the present one, however old, where none is in it."""
    commits, since_ms = known.commits, known.read_since_ms
    return () if commits and since_ms is not None and commits[-1].timestamp_ms < since_ms else commits


def _back_ms(evidence: LagEvidence) -> int | None:
    """When members came back to a group that its members had left by themselves; None if that is not its last change.

    Where they crash, the silence between two lives is a part of the trouble.
    """
    last = evidence.runs[-1] if evidence.runs else None
    since_ms, churn = evidence.state_since_ms, evidence.churn
    if last is None or since_ms is None or not last.left or evidence.crash_loops or last.ended_ms > since_ms:
        return None
    return since_ms if churn is not None and churn.generations <= _RESTARTS else None


def _in_turn(rows: tuple[PartitionLag, ...], back_ms: int | None, now_ms: int) -> tuple[PartitionLag, ...]:
    """The same; a STOP of less than a minute is unknown where its member reads what it has fetched of another one.

    A client hands out all that it has fetched of one partition, then of the next. So it is for two minutes after it
    came back to what had piled up, at ``back_ms``, which is ``_back_ms``.
    """
    if back_ms is None or now_ms - back_ms > STORM_ONGOING.value:
        return rows
    reading: dict[str, int] = {}
    for row in rows:
        owner, last_ms = row.partition.owner, row.last_commit_ms
        moves = row.status in (LagStatus.OK, LagStatus.WARN, None) and not row.status_result.caught_up
        if owner is not None and last_ms is not None and moves and (row.lag or 0) >= LEAST_UNREAD.value:
            reading[owner.member_id] = max(last_ms, reading.get(owner.member_id, 0))
    if not reading:
        return rows

    def unless_in_turn(row: PartitionLag) -> PartitionLag:
        owner, since_ms = row.partition.owner, row.status_result.since_ms
        if row.status is not LagStatus.STOP or owner is None or since_ms is None:
            return row
        since_ms = max(since_ms, back_ms)
        its_turn = reading.get(owner.member_id, 0) <= since_ms
        if its_turn or now_ms - since_ms >= RESTART.value:
            return row
        return replace(row, status_result=StatusResult(None, why=IN_TURN))

    return tuple(map(unless_in_turn, rows))


def _last_by_consumer(known: Sequence[PartitionEvidence]) -> int | None:
    """When a consumer committed last, by the newest commit of each partition; None if a tool made all of them."""
    newest = (facts.commits[-1] for facts in known if facts.commits)
    return max((commit.timestamp_ms for commit in newest if not commit.by_tool), default=None)


def _lacks_reader(
    group: Group,
    evidence: LagEvidence,
    partitions: Sequence[tuple[Partition, PartitionEvidence]],
    consumer_ms: int | None,
    span_ms: Callable[[], int | None],
) -> bool:
    """Whether the group is Empty, records are unread, and no consumer has committed since, or lately.

    If nothing of the log was read, this is unknown: a consumer with ``assign()`` commits to an Empty group. Where the
    log shows one, its commits decide the status, until they have stopped for ``ASSIGN_READS``, and for longer than the
    last ones took together. ``consumer_ms`` is ``_last_by_consumer``, ``span_ms`` is ``group_span_ms``.
    """
    if not group.is_empty or EvidenceSource.COMMITS in evidence.unknown:
        return False
    emptied_ms = evidence.state_since_ms
    known = [(p, facts) for p, facts in partitions if p.commit is not None]
    if all(not facts.commits and facts.read_since_ms is None for _, facts in known):
        return False
    if all(p.lag == 0 for p, _ in known):
        return False  # Nothing is unread: it needs no reader.
    if consumer_ms is None or (emptied_ms is not None and consumer_ms <= emptied_ms):
        return True
    return evidence.now_ms - consumer_ms >= max(ASSIGN_READS.value, span_ms() or 0)


@lru_cache(maxsize=4096)
def _arrivals(known: tuple[LogPoint, ...], first_ms: int | None, first: int, end: int, now_ms: int) -> Arrivals:
    """What arrived up to the log end at ``now_ms``. The record at offset ``first`` is of ``first_ms``, None: unknown.

    It is the same for all groups that read a partition to its end, and for those at the same offset.
    """
    points = known if first_ms is None else (*known, LogPoint(first_ms, first))
    return Arrivals.of(LogEnds.of(points, LogPoint(now_ms, end)), now_ms)


class _OfGroup:
    """Measures the partitions of a group.

    ``unsubscribed`` are its ``unsubscribed_topics``, ``left_before`` its ``topics_left_before``. ``rebalances``:
    whether a rebalance is under way. ``unattended``: it lacks a reader, since ``unattended_since_ms``, when it became
    Empty, or the last consumer with ``assign()`` committed. ``span_ms`` is its ``group_span_ms``.
    """

    def __init__(
        self,
        name: str,
        evidence: LagEvidence,
        rules: StatusRules,
        *,
        unsubscribed: Collection[str],
        left_before: Collection[str],
        rebalances: bool,
        unattended: bool,
        unattended_since_ms: int | None,
        span_ms: Callable[[], int | None],
    ) -> None:
        self._name = name
        self._isolation, self._now_ms = evidence.isolation, evidence.now_ms
        self._unattended_since_ms = unattended_since_ms
        self._emptied_ms = evidence.emptied_ms
        self.back_ms = _back_ms(evidence)
        self._no_commits = evidence.unknown.get(EvidenceSource.COMMITS)
        self._rules = rules
        self._unsubscribed = unsubscribed
        self._left_before = left_before
        self._rebalances = rebalances
        self._unattended = unattended
        self._span_ms = span_ms

    def partition(self, partition: Partition, known: PartitionEvidence) -> PartitionLag:
        """The lag of one partition. It is called a million times on a large cluster."""
        if partition.counted is not None:
            return self._counted(partition, known, partition.counted.lag)
        commit, log = partition.commit, partition.log
        why = _why_unknown(partition, known, self._isolation)
        last_stable = known.last_stable
        held_back = None if log is None or last_stable is None else max(0, log.end - last_stable)
        last_commit_ms = known.commits[-1].timestamp_ms if known.commits else None
        transaction = known.open_transaction if held_back else None
        if why is not None or commit is None or log is None:
            return PartitionLag(
                group=self._name,
                partition=partition,
                lag=None,
                first=None,
                end=None,
                phantom=0,
                held_back=held_back,
                open_transaction=transaction,
                time_lag_ms=None,
                last_commit_ms=last_commit_ms,
                status_result=StatusResult(None, why=why),
                rates=_UNKNOWN_RATES,
                outlook=UNKNOWN_OUTLOOK,
                retention_left=None,
                leader=known.leader,
                why=why,
            )
        start = max(commit.offset, log.start)
        end = log.end
        if last_stable is not None and last_stable < end and self._isolation is Isolation.READ_COMMITTED:
            end = last_stable
        first = start if known.first_unread is None else _first(start, end, known.first_unread)
        lag = max(0, end - first)
        first_ms = _first_ms(first, lag, known.first_unread)
        # Always the high watermark, also with read_committed: the points by time are ends of the whole log.
        if has_older_times(lag, log.end, first_ms, known, self._now_ms):
            arrivals = _arrivals((), None, 0, log.end, self._now_ms)
        else:
            arrivals = _arrivals(known.ends, first_ms, 0 if first_ms is None else first, log.end, self._now_ms)
        if self._unsubscribed and lag and partition.topic in self._unsubscribed:
            since = [ms for ms in (last_commit_ms, first_ms) if ms is not None]
            status_result = StatusResult(LagStatus.UNSUBSCRIBED, max(since, default=None))
            # What it once read shows nothing: it reads no more.
            rates, spans = arrivals.unknown[-1], arrivals.unknown
        else:
            status_result = self._status(partition.topic, lag, known, arrivals, first_ms)
            status = status_result.status
            # Who has committed above the last stable offset reads all records: it does not wait.
            waits = last_stable is not None and commit.offset <= last_stable <= first
            if waits and status in (LagStatus.STALL, LagStatus.STOP):
                status_result = StatusResult(None, why=WAITS)
                rates, spans = arrivals.unknown[-1], arrivals.unknown
            else:
                rates, spans = self._rates(known.commits, arrivals, status)
        time_lag_ms = 0 if lag == 0 else None if first_ms is None else max(0, self._now_ms - first_ms)
        left = None
        if known.retention is not None and lag:
            unread = UnreadPart(log.end - first, log.end - log.start, first_ms, rates.incoming)
            left = retention_left(known.retention, unread, self._now_ms)
        return PartitionLag(
            group=self._name,
            partition=partition,
            lag=lag,
            first=first,
            end=end,
            phantom=first - start,
            held_back=held_back,
            open_transaction=transaction,
            time_lag_ms=time_lag_ms,
            last_commit_ms=last_commit_ms,
            status_result=status_result,
            rates=rates,
            outlook=outlook(lag, rates, close=status_result.caught_up),
            retention_left=left,
            leader=known.leader,
            why=None,
            spans=spans,
            time_why=None
            if known.unusable_ms is None or time_lag_ms is not None
            else unusable_words({partition.tp: known.unusable_ms}, self._now_ms),
        )

    def _counted(self, partition: Partition, known: PartitionEvidence, lag: int | None) -> PartitionLag:
        """The lag of a share group on a partition, as the broker counts it.

        Records after the start offset may be done. Then which one is the first that is not done is unknown, and the age
        of the record at the start offset is an upper bound.
        """
        commit, log = partition.commit, partition.log
        why = partition.error
        if why is None and lag is None:
            outside = "its start offset lies above the log end" if partition.out_of_range else NOT_COUNTED
            why = NOT_STARTED if commit is None else outside
        first, age_ms, left, row_rates = None, None, None, _UNKNOWN_RATES
        spans: tuple[Rates, ...] = ()
        if lag is not None and log is not None:
            start = log.start if commit is None else max(commit.offset, log.start)
            first = log.end if lag == 0 else start if log.end - start <= lag else None
            first_ms = _first_ms(start, lag, known.first_unread)
            age_ms = 0 if lag == 0 else None if first_ms is None else max(0, self._now_ms - first_ms)
            arrivals = _arrivals(known.ends, None, 0, log.end, self._now_ms)
            row_rates, spans = arrivals.unknown[-1], arrivals.unknown
            if known.retention is not None and lag and first is not None:
                unread = UnreadPart(log.end - first, log.end - log.start, first_ms, row_rates.incoming)
                left = retention_left(known.retention, unread, self._now_ms)
        found = StatusResult(None, why=why) if lag is None else self._counted_status(partition.topic, lag)
        return PartitionLag(
            group=self._name,
            partition=partition,
            lag=lag,
            first=first,
            end=None if lag is None or log is None else log.end,
            phantom=0,
            held_back=None,
            open_transaction=None,
            time_lag_ms=None if first is None else age_ms,
            last_commit_ms=None,
            status_result=found,
            rates=row_rates,
            outlook=UNKNOWN_OUTLOOK if lag is None else outlook(lag, row_rates, close=found.caught_up),
            retention_left=left,
            leader=known.leader,
            why=why,
            spans=spans,
            time_why=DONE_AFTER_START if lag and first is None else None,
            time_lag_at_most_ms=age_ms if first is None else None,
        )

    def _counted_status(self, topic: str, lag: int) -> StatusResult:
        if lag <= self._rules.allowed:
            return CAUGHT_UP
        if self._unattended:
            return StatusResult(LagStatus.NO_READER)
        return StatusResult(LagStatus.UNSUBSCRIBED) if topic in self._unsubscribed else StatusResult(None, why=SHARES)

    def _status(
        self, topic: str, lag: int, known: PartitionEvidence, arrivals: Arrivals, first_ms: int | None
    ) -> StatusResult:
        rules, commits, ends, now_ms = self._rules, known.commits, arrivals.ends, self._now_ms
        if lag <= rules.allowed:
            return CAUGHT_UP
        if topic in self._left_before:
            return StatusResult(None, why=LEFT_BEFORE)
        if not commits and self._no_commits is not None:
            found = evaluate_status(CommitReading(lag, (), ends, now_ms), rules)
            return found if found.status is not None else StatusResult(None, why=self._no_commits)
        reading = CommitReading(
            lag=lag,
            commits=commits,
            ends=ends,
            now_ms=now_ms,
            waiting_since_ms=first_ms,
            read_since_ms=known.read_since_ms,
            keeps_up=keeps_up(lag, commits, self._pace(commits, arrivals)),
            group_span_ms=self._span_ms() if has_lone_commit(commits, rules) else None,
        )
        if not self._unattended:
            return self._unless_restarted(evaluate_status(reading, rules))
        if self._comes_and_goes(commits, first_ms) and (found := evaluate_status(reading, rules)).is_stuck:
            return found
        return no_reader(reading, self._unattended_since_ms, rules)

    def _pace(self, commits: Sequence[LoggedCommit], arrivals: Arrivals) -> float | None:
        """Arriving offsets per second. If the times of records do not show them, those read lately count instead."""
        incoming = arrivals.unread[-1].incoming
        return recent_rate(commits, self._now_ms) if incoming is None else incoming

    def _unless_restarted(self, found: StatusResult) -> StatusResult:
        """The status found; unknown for a STOP that a restart explains, until its members have had time to read."""
        if found.status is not LagStatus.STOP or found.since_ms is None:
            return found
        back_ms = self.back_ms
        if back_ms is not None and found.since_ms < back_ms and self._now_ms - back_ms < self._rules.least_span_ms:
            return StatusResult(None, why=JUST_BACK)
        if not self._rebalances:
            return found
        return found if self._now_ms - found.since_ms >= RESTART.value else StatusResult(None, why=REBALANCES)

    def _comes_and_goes(self, commits: Sequence[LoggedCommit], first_ms: int | None) -> bool:
        """Whether members come and go at an offset, as in a crash loop.

        Where it is stuck its status is that of when one is there, or it would change with each life. The last one left
        twice while the first unread record was there and nothing was committed past it, and not longer ago than the
        members stayed away before.
        """
        if len(self._emptied_ms) < _COMES_AND_GOES:
            return False
        moved_ms = next((a.timestamp_ms for a, b in pairwise(reversed(commits)) if a.offset != b.offset), 0)
        times_ms = [at_ms for at_ms in self._emptied_ms if at_ms > max(moved_ms, first_ms or 0)]
        if len(times_ms) < _COMES_AND_GOES:
            return False
        longest_ms = max(later - earlier for earlier, later in pairwise(times_ms))
        return self._now_ms - times_ms[-1] <= max(longest_ms, RESTART.value)

    def _rates(
        self, commits: Sequence[LoggedCommit], arrivals: Arrivals, status: LagStatus | None
    ) -> tuple[Rates, tuple[Rates, ...]]:
        """The rates that count, and those of each span. Without a reader, what is not known to be read is not read."""
        spans = rates_by_span(commits, arrivals, status, self._now_ms)
        if spans is arrivals.unknown:
            return (arrivals.unread[-1], arrivals.unread) if self._unattended else (spans[-1], spans)
        rates = rates_of(spans, commits, arrivals, status, self._now_ms)
        if self._unattended and spans is not arrivals.unread:
            rates, *rest = (
                each if each.outgoing is not None else replace(each, outgoing=0.0) for each in (rates, *spans)
            )
            spans = tuple(rest)
        return rates, spans


def _why_unknown(partition: Partition, known: PartitionEvidence, isolation: Isolation) -> str | None:
    commit, log = partition.commit, partition.log
    if partition.error is not None:
        return partition.error
    if log is None:
        return "its log could not be read"
    if commit is None:
        return "nothing is committed"
    if commit.offset > log.end:
        # This is not a lag of 0: the topic was recreated or lost records, and the consumer will be reset.
        return "committed above the log end"
    if known.last_stable is None and isolation is Isolation.READ_COMMITTED:
        return "its last stable offset could not be read"
    return None


def _first(start: int, end: int, first_unread: FirstUnread) -> int:
    """The first offset of the unread part [start, end) that is known to hold a record.

    Example: committed 70, log [0, 120), and the first readable record from 70 on is 95: a lag of 25 and 25 phantom
    offsets. A first record below 70 was fetched before the last commit and is ignored.
    """
    last = max(start, end)
    return last if first_unread.offset is None else min(max(first_unread.offset, start), last)


def _first_ms(first: int, lag: int, first_unread: FirstUnread | None) -> int | None:
    """The timestamp of the first unread record; None if it is unknown, or nothing is unread."""
    if first_unread is None or lag == 0 or first_unread.offset != first:
        return None
    at_ms = first_unread.timestamp_ms
    return at_ms if at_ms is not None and at_ms >= 0 else None
