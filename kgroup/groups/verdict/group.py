"""A group's verdict: what the lag shows, at most one further fact to check, and commands."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups import thresholds
from kgroup.groups.deleted_topics import deleted_topics_words
from kgroup.groups.history.crash_loops import crash_loop_words
from kgroup.groups.history.runs import is_known_job
from kgroup.groups.history.slow_polls import SlowPolls, slow_poll_words
from kgroup.groups.lag.evidence import EvidenceSource, LagEvidence
from kgroup.groups.lag.hot_partitions import hot_partitions
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.open_commits import open_commits_words
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.next_commands import READ_STREAMS
from kgroup.groups.passed_over import passed_over_in, passed_over_words
from kgroup.groups.rebalance_wait import RebalanceWait, rebalance_wait
from kgroup.groups.streaming.trouble import state_words, troubles_of
from kgroup.groups.stuck_record import StuckRecord, stuck_record
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.groups.verdict.began import lag_began_with
from kgroup.groups.verdict.commands import is_one_record, verdict_commands
from kgroup.groups.verdict.conclusion import Concluded, ConcludedPlace, Trouble, places_of
from kgroup.groups.verdict.facts import (
    RetentionVerdict,
    SilentMember,
    TwoWriters,
    crash_loops_in,
    fell_repeatedly,
    held_back,
    is_draining,
    left_in,
    not_due,
    retention_verdict,
    silent_member,
    slow_polls_at,
    slow_polls_in,
    stopped_together,
    stuck_of,
    two_writers,
    unsubscribed_in,
)
from kgroup.groups.verdict.large_gap import LargeGap, arrivals_in, large_gap, slowed_by_quota
from kgroup.groups.verdict.plain import assignment_sentence, members_sentence
from kgroup.groups.verdict.shape import (
    LagShape,
    OtherGroupsLag,
    Shape,
    member_words,
    shape_of,
    siblings_of,
)
from kgroup.model.groups import Group, Member
from kgroup.model.streams_group import NOT_READY
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.instants import short_time
from kgroup.support.units import percent, plural, some_of


class GroupVerdict(msgspec.Struct, frozen=True):
    """A group's lag and its interpretation."""

    group: Group
    report: GroupLag
    evidence: LagEvidence
    next: str | None
    """The next fact to check; None if nothing is unusual."""
    concluded: Concluded | None
    shape: Shape
    safe: RetentionVerdict | None
    siblings: OtherGroupsLag | None
    record: StuckRecord | None
    """The record that the group does not get past."""
    commands: tuple[str, ...]
    """kgroup's commands that follow, the most urgent first."""

    @property
    def state(self) -> str:
        """``Stable for 41m``, or ``Stable for an unknown time``; of a streaming query ``batch 7 done 41m ago``."""
        if self.group.query is not None:
            return state_words(self.group.query, self.evidence.now_ms)
        state, since_ms = self.group.state, self.evidence.state_since_ms
        if since_ms is None:
            return f"{state} for an unknown time" if EvidenceSource.STATE in self.evidence.unknown else state
        return f"{state} for {format_duration(max(0, self.evidence.now_ms - since_ms) // 1000)}"


def group_verdict(group: Group, evidence: LagEvidence, report: GroupLag | None = None) -> GroupVerdict:
    """The verdict on a group. ``report`` is its measurement; None: it is measured here."""
    report = report or measure_lag(group, evidence)
    if group.query is not None:
        return _query_verdict(group, evidence, report)
    if group.is_share:
        return _bare_verdict(group, evidence, report, _of_share(group, report))
    shape, safe, job = shape_of(report), retention_verdict(report, evidence), not_due(report, evidence)
    gap = large_gap(report, evidence) if job is None else None
    siblings = (
        None
        if evidence.siblings is None
        else siblings_of(evidence.siblings, shape, report, evidence.unknown.get(EvidenceSource.SIBLINGS))
    )
    loops = crash_loops_in(report, evidence)
    slow = None if loops else slow_polls_in(report, evidence)
    not_passed = () if loops else _not_passed(group, report, evidence, shape, slow)
    wait = rebalance_wait(group, evidence)
    silent = None if wait is not None else silent_member(report, evidence)
    record = _record_of(report, evidence, loops, not_passed)
    found = _Found(gap, record, two_writers(report, evidence), silent)
    if loops:
        places = places_of(report, [loop.tp for loop in loops])
        also = () if loops[0].uncommitted_ms is None else (Trouble.NEVER_COMMITS,)
        words = crash_loop_words(loops, report.now_ms)
        fact: Concluded | None = Concluded(words, Trouble.CRASH_LOOP, also, places)
    elif wait is not None:
        fact = Concluded(wait.words, Trouble.REBALANCE_WAITS)
    elif slow is not None:
        fact = _of_slow_polls(slow, report)
    elif job is not None:
        certain = is_known_job(evidence.runs)
        fact = Concluded(f"no member reads: {job}", Trouble.NOT_DUE, () if certain else (Trouble.NO_READER,))
    elif evidence.shared_instances:
        fact = Concluded(evidence.shared_instances[0].words, Trouble.SHARED_INSTANCE)
    else:
        fact = next_fact(group, report, evidence, shape, safe, siblings, found)
    at_places = {loop.tp for loop in loops}.union(slow.places if slow else ())
    alike = not_passed or [p for p in report.partitions if p.partition.tp in at_places]
    return GroupVerdict(
        group=group,
        report=report,
        evidence=evidence,
        next=None if fact is None else fact.text + _others_there(alike, evidence),
        concluded=fact,
        shape=shape,
        safe=safe,
        siblings=siblings,
        record=record,
        commands=tuple(
            each
            for each in verdict_commands(
                group,
                report,
                not_passed,
                loops,
                record=record,
                gap=gap,
                successor=evidence.successor if fact is not None and fact.cause is Trouble.REPLACED else None,
                slow=slow is not None,
                gone=_gone(fact, wait, silent),
                fenced=bool(evidence.shared_instances),
                resets=evidence.resets if fact is not None and fact.cause in _OF_RESETS else (),
                left=left_in(report, evidence),
                falls=fell_repeatedly(report) is not None or bool(found.writers),
                passed=passed_over_in(evidence.leaps, group.partitions)
                if fact is not None and fact.cause is Trouble.PASSED_OVER
                else (),
            )
            if not group.is_streams or each.commands[0][0] in READ_STREAMS
        ),
    )


def _query_verdict(group: Group, evidence: LagEvidence, report: GroupLag) -> GroupVerdict:
    """The verdict on a streaming query: it has batches, and no members or rebalances."""
    found = troubles_of(group, report)
    facts = (Concluded(one.words, one.cause, (), places_of(report, [p.tp for p in one.partitions])) for one in found)
    return _bare_verdict(group, evidence, report, next(facts, None))


def _of_share(group: Group, report: GroupLag) -> Concluded | None:
    """What the members of a share group show: it has no commits, and its partitions no owners."""
    if plain := members_sentence(group):
        return Concluded(plain, Trouble.NO_READER)
    if topics := unsubscribed_in(report):
        return Concluded(f"no member subscribes to {some_of(topics)}", Trouble.UNSUBSCRIBED)
    return None


def _bare_verdict(group: Group, evidence: LagEvidence, report: GroupLag, fact: Concluded | None) -> GroupVerdict:
    """The verdict on what commits nothing to Kafka: no command of kgroup changes it."""
    shape = shape_of(report)
    return GroupVerdict(
        group=group,
        report=report,
        evidence=evidence,
        next=None if fact is None else fact.text,
        concluded=fact,
        shape=shape,
        # Where the first record of a share group that is not done is unknown, so is when retention deletes it.
        safe=None
        if any(row.lag and row.first is None for row in report.partitions)
        else retention_verdict(report, evidence),
        siblings=None
        if evidence.siblings is None
        else siblings_of(evidence.siblings, shape, report, evidence.unknown.get(EvidenceSource.SIBLINGS)),
        record=None,
        commands=(),
    )


_OF_RESETS = (Trouble.RESET, Trouble.NO_READER)
"""Conclusions that name a reset: its commands are not printed beside another cause."""

_SESSION_MS = 45_000
"""The default session timeout, for a member whose own is not known."""


def _gone(fact: Concluded | None, wait: RebalanceWait | None, silent: SilentMember | None) -> Member | None:
    """The member that all wait for if its process is gone."""
    if wait is not None:
        return wait.member
    named = fact is not None and Trouble.MEMBER_GONE in fact.alternatives
    return silent.member if silent is not None and named else None


class _Found(msgspec.Struct, frozen=True):
    """What the lag, its evidence and the log show of some causes, each of them searched for once."""

    gap: LargeGap | None
    record: StuckRecord | None
    writers: Sequence[TwoWriters]
    silent: SilentMember | None


def next_fact(
    group: Group,
    report: GroupLag,
    evidence: LagEvidence,
    shape: Shape,
    safe: RetentionVerdict | None,
    siblings: OtherGroupsLag | None,
    found: _Found,
) -> Concluded | None:
    """The most urgent fact about a group without a crash loop, which any of these would hide; None if there is none.

    The order: members and rebalances, offsets in open transactions, records that retention deletes, blocking
    transactions, stuck partitions, deleted topics, topics that no member subscribes to, two writers, offsets that fall
    again and again, a reset by no member, records that may have been passed over, what the lagging partitions have in
    common, members that never committed, members of another deployment, idle members, a member that is gone, and a
    reset by kgroup.
    """
    if plain := members_sentence(group):
        if group.is_empty and evidence.successor is not None:
            text = f"no member reads; {evidence.successor.words(evidence.now_ms)}"
            return Concluded(text, Trouble.REPLACED, (Trouble.NO_READER,))
        if group.is_empty:
            return Concluded(_of_empty(plain, evidence, found.gap), Trouble.NO_READER)
        unread = evidence.unknown.get(EvidenceSource.COMMITS) or evidence.unknown.get(EvidenceSource.STATE)
        unread = unread if group.is_rebalancing else None
        text = plain if unread is None else f"a rebalance is under way ({group.state}), for an unknown time: {unread}"
        return Concluded(text, Trouble.NOT_READY if group.state == NOT_READY else Trouble.REBALANCING)
    stuck = stuck_of(report)
    if evidence.open_commits:
        places = places_of(report, [each.tp for each in evidence.open_commits])
        return Concluded(
            open_commits_words(evidence.open_commits, report.now_ms), Trouble.PENDING_COMMIT, places=places
        )
    if safe is not None and safe.too_late and not stuck:
        return Concluded("retention may delete unread records before they are read", Trouble.RETENTION)
    row = held_back(report)
    if row is not None:
        text = f"read_committed consumers of {row.where} get no further until that transaction ends"
        return Concluded(text, Trouble.TRANSACTION, places=places_of(report, [row.partition.tp]))
    if stuck:
        text = _of_stuck(group, report, evidence, shape, stuck, found)
        or_else = () if found.silent is None else (Trouble.MEMBER_GONE, Trouble.HANGS)
        return Concluded(text, Trouble.STUCK, or_else, places_of(report, [p.partition.tp for p in stuck]))
    return _less_urgent(group, report, evidence, shape, siblings, found)


def _of_empty(plain: str, evidence: LagEvidence, gap: LargeGap | None) -> str:
    sentence = plain if gap is None else f"no member reads; the group {gap.words}, its last rate"
    if evidence.open_commits:
        sentence += f"; {open_commits_words(evidence.open_commits, evidence.now_ms)}"
    return f"{sentence}; {evidence.resets[0].words(evidence.now_ms)}" if evidence.resets else sentence


def _less_urgent(
    group: Group,
    report: GroupLag,
    evidence: LagEvidence,
    shape: Shape,
    siblings: OtherGroupsLag | None,
    found: _Found,
) -> Concluded | None:
    if evidence.deleted:
        return Concluded(deleted_topics_words(evidence.deleted, report.now_ms), Trouble.TOPIC_GONE)
    if topics := unsubscribed_in(report):
        if left := left_in(report, evidence):
            text = f"no member subscribes to {some_of(left)}: delete the offsets if none should"
            return Concluded(text, Trouble.UNSUBSCRIBED)
        shared = [topic for topic in topics if topic in evidence.of_some]
        text = (
            f"no member subscribes to {some_of(shared)}, as some members did: a service that shares the group is "
            "missing, or the group has left the topic, the log does not show which"
            if shared
            else f"no member subscribes to {some_of(topics)}: a deployment changed the subscription, or a service that "
            "shares the group is missing; if neither, it is not read on purpose"
        )
        return Concluded(text, Trouble.UNSUBSCRIBED, (Trouble.NO_READER,))
    if found.writers:
        first = found.writers[0]
        owner = first.row.partition.owner
        text = first.words(None if owner is None else member_words(group, owner.member_id), report.now_ms)
        places = places_of(report, [each.row.partition.tp for each in found.writers])
        return Concluded(text, Trouble.TWO_WRITERS, places=places)
    if (row := fell_repeatedly(report)) is not None:
        text = f"the offset of {row.where} falls back and returns again and again: two writers, or one that tries again"
        return Concluded(text, Trouble.TWO_WRITERS, (Trouble.TRIES_AGAIN,), places_of(report, [row.partition.tp]))
    unknown = next((reset for reset in evidence.resets if reset.change is None), None)
    if unknown is not None:
        return Concluded(unknown.words(report.now_ms), Trouble.RESET)
    return (
        _passed_over(group, report, evidence)
        or (_of_lag(group, report, evidence, shape, siblings, found.gap) if shape.behind else None)
        or _never_committed(group, evidence)
        or _of_members(group, report, evidence)
    )


def _passed_over(group: Group, report: GroupLag, evidence: LagEvidence) -> Concluded | None:
    passed = passed_over_in(evidence.leaps, group.partitions)
    if not passed:
        return None
    places = tuple(ConcludedPlace(*each.leap.tp, each.leap.old) for each in passed)
    words = passed_over_words(passed, report.now_ms)
    return Concluded(words, Trouble.PASSED_OVER, (Trouble.READ_IN_ONE_GO,), places)


def _of_members(group: Group, report: GroupLag, evidence: LagEvidence) -> Concluded | None:
    """Members of another deployment, idle ones, one that is gone, and a reset by kgroup."""
    if (other := evidence.deployment) is not None:
        also = () if other.sure else (Trouble.NAMED_MEMBERS,)
        return Concluded(other.words(report.now_ms), Trouble.OTHER_DEPLOYMENT, also)
    if assignment := assignment_sentence(group):
        return Concluded(assignment, Trouble.ASSIGNMENT)
    if evidence.lost is not None:
        return Concluded(evidence.lost.words(report.now_ms), Trouble.LOST_MEMBER)
    return Concluded(evidence.resets[0].words(report.now_ms), Trouble.RESET) if evidence.resets else None


def _of_lag(
    group: Group,
    report: GroupLag,
    evidence: LagEvidence,
    shape: Shape,
    siblings: OtherGroupsLag | None,
    gap: LargeGap | None,
) -> Concluded | None:
    """What the lagging partitions have in common, with which change of the members the lag began, and which quota may
    be why it grows."""
    change, quota = lag_began_with(report, evidence), slowed_by_quota(group, evidence, gap)
    began = None if change is None else f"the lag began {change.words(report.now_ms)}"
    text = "; ".join(each for each in (_of_shape(group, report, shape, siblings, gap), began, quota) if each)
    if not text:
        return None
    or_else = () if quota is None else (Trouble.QUOTA,)
    return Concluded(text, Trouble.LAG, or_else, places_of(report, [p.partition.tp for p in shape.behind]))


def _of_slow_polls(slow: SlowPolls, report: GroupLag) -> Concluded:
    text = slow_poll_words(slow, slow_polls_at(slow, report), report.now_ms)
    places = places_of(report, slow.places)
    if len(slow.left) == 1:
        return Concluded(text, Trouble.HANGS, (Trouble.NO_READER,), places)
    return Concluded(text, Trouble.SLOW_BATCH, (Trouble.CALL_HANGS,), places)


def _never_committed(group: Group, evidence: LagEvidence) -> Concluded | None:
    """A sentence about members that have been there for a minute, get records and have committed none of them."""
    since_ms, known = evidence.state_since_ms, evidence.partitions
    if since_ms is None or any(p.commit for p in group.partitions) or EvidenceSource.COMMITS in evidence.unknown:
        return None
    least_ms = evidence.now_ms - thresholds.RESTART.value
    busy = [
        p
        for p in group.partitions
        if p.owner is not None and p.log is not None and p.tp in known
        if any(point.end < p.log.end for point in known[p.tp].ends if point.timestamp_ms >= least_ms)
    ]
    if since_ms > least_ms or not busy:
        return None
    text = (
        f"nothing was committed since the members joined {format_duration((evidence.now_ms - since_ms) // 1000)} ago, "
        f"while records arrive at {some_of([str(p.tp) for p in busy])}: they process without committing, or do not "
        "read, the log does not show which"
    )
    return Concluded(
        text, Trouble.NEVER_COMMITS, (Trouble.NEVER_READS,), tuple(ConcludedPlace(*p.tp, None) for p in busy)
    )


def stuck_records(
    group: Group, report: GroupLag, evidence: LagEvidence
) -> dict[TopicPartition, tuple[StuckRecord, str | None]]:
    """The record that no member gets past, of each partition with one, and why: a crash loop in words, or None."""
    if loops := crash_loops_in(report, evidence):
        rows = {p.partition.tp: p for p in report.partitions}
        return {
            loop.tp: (
                record_at(rows[loop.tp], report, evidence, replaced=True),
                crash_loop_words([loop], report.now_ms),
            )
            for loop in loops
        }
    slow = slow_polls_in(report, evidence)
    not_passed = _not_passed(group, report, evidence, shape_of(report), slow)
    return {
        p.partition.tp: (record_at(p, report, evidence, replaced=False), None)
        for p in not_passed
        if is_one_record(p, report)
    }


def _record_of(
    report: GroupLag, evidence: LagEvidence, loops: Sequence[CrashLoop], not_passed: Sequence[PartitionLag]
) -> StuckRecord | None:
    """The record that the group does not get past. Of several partitions in a crash loop, the records show which."""
    if len(loops) == 1:
        (row,) = (p for p in report.partitions if p.partition.tp == loops[0].tp)
        return record_at(row, report, evidence, replaced=True)
    if not_passed and is_one_record(not_passed[0], report):
        return record_at(not_passed[0], report, evidence, replaced=False)
    return None


def record_at(row: PartitionLag, report: GroupLag, evidence: LagEvidence, *, replaced: bool) -> StuckRecord:
    """The record that the group does not get past in a stuck partition; ``replaced``: it is in a crash loop."""
    known = evidence.partitions.get(row.partition.tp)
    unread_ms = None if row.time_lag_ms is None else report.now_ms - row.time_lag_ms
    commits = known.commits if known else ()
    record = stuck_record(row.partition.tp, row.stuck_at or 0, commits, unread_ms, replaced=replaced)
    # Commits that go back and forth show that it begins again there, not where it fails.
    result = row.status_result
    return record if result.lowest is None else replace(record, before=True, later=True, latest=result.highest)


def _not_passed(
    group: Group, report: GroupLag, evidence: LagEvidence, shape: Shape, slow: SlowPolls | None
) -> tuple[PartitionLag, ...]:
    """The partitions whose owners live and do not get past an offset; empty if another cause is more likely."""
    if held_back(report) is not None or evidence.open_commits:
        return ()
    if not group.is_empty and members_sentence(group) is not None:
        return ()
    places = () if slow is None else slow.places
    stuck = [p for p in stuck_of(report) if p.partition.tp not in places and _owner_lives(p, report, evidence)]
    return () if shape.kind is LagShape.ONE_BROKER and len(stuck) > 1 else tuple(stuck)


def _owner_lives(row: PartitionLag, report: GroupLag, evidence: LagEvidence) -> bool:
    """Whether it has an owner that is alive: one that commits, or whose session would have ended since."""
    if row.status is LagStatus.STALL or _commits_others(row, report, evidence):
        return True
    if row.partition.owner is None:
        return False
    facts = evidence.members.get(row.partition.owner.member_id)
    session_ms = _SESSION_MS if facts is None or facts.session_timeout_ms is None else facts.session_timeout_ms
    since_ms = row.status_result.since_ms if row.last_commit_ms is None else row.last_commit_ms
    return since_ms is not None and report.now_ms - since_ms > session_ms


def _commits_others(row: PartitionLag, report: GroupLag, evidence: LagEvidence) -> bool:
    """Whether the owner of a stuck partition has committed another one since it has both, and continues: it polls."""
    owner, since_ms = row.partition.owner, row.status_result.since_ms
    return since_ms is not None and any(
        p.partition.owner is not None
        and owner is not None
        and p.partition.owner.member_id == owner.member_id
        and p.last_commit_ms is not None
        and p.last_commit_ms > max(since_ms, evidence.state_since_ms or 0)
        and not (p.status and p.status.is_stuck)
        for p in report.partitions
        if p is not row
    )


def _of_stuck(
    group: Group,
    report: GroupLag,
    evidence: LagEvidence,
    shape: Shape,
    stuck: list[PartitionLag],
    found: _Found,
) -> str:
    first, record = stuck[0], found.record
    places = record.possible_offsets if record is not None and record.tp == first.partition.tp else ""
    if shape.kind is LagShape.ONE_BROKER and len(stuck) > 1:
        return f"broker {shape.subject} leads all stuck partitions"
    owner = first.partition.owner
    if owner is None and first.status is LagStatus.NO_READER:
        return f"no member reads {first.where}"
    if owner is None:
        owners_known = group.members is not None and all(m.assignment is not None for m in group.members)
        return f"{first.where} has no owner" if owners_known else f"who owns {first.where} is not known"
    owner_text = member_words(group, owner.member_id)
    if first.status is LagStatus.STALL:
        return _stalled_words(first, owner_text, places)
    together = stopped_together(report)
    owns = f"{'' if together is None else f'{together}; '}{owner_text} owns {first.where}"
    if _commits_others(first, report, evidence):
        return (
            f"{owns} and commits other partitions: it polls, and commits nothing past offset {first.first}{places}; "
            "or it has paused that partition"
        )
    others = sum(p.partition.owner is not None and p.partition.owner.member_id == owner.member_id for p in stuck) - 1
    if others:
        owns += f" and {plural(others, 'more stuck partition')}"
    if found.silent is not None:
        return f"{owns}; {found.silent.words(evidence.now_ms)}"
    return _until_when(first, owns, owner, evidence, places)


def _until_when(row: PartitionLag, owns: str, owner: Member, evidence: LagEvidence, places: str) -> str:
    """Whether the owner is alive, and until when the group keeps it if it does not poll."""
    facts = evidence.members.get(owner.member_id)
    owns += _alive(row, evidence.now_ms, None if facts is None else facts.session_timeout_ms)
    if facts is None or facts.max_poll_interval_ms is None:
        return owns
    interval = format_duration(facts.max_poll_interval_ms / 1000)
    if row.last_commit_ms is None:
        return f"{owns}; its max.poll.interval.ms is {interval}"
    # A member that joined after the last commit has had less time.
    end_ms = max(row.last_commit_ms, evidence.state_since_ms or 0) + facts.max_poll_interval_ms
    if end_ms > evidence.now_ms:
        until = short_time(end_ms, evidence.now_ms)
        owns += f"; its max.poll.interval.ms is {interval}"
        return f"{owns}: the group keeps it until about {until} if it does not poll"
    owns += f" after its max.poll.interval.ms ({interval})"
    return f"{owns}: it polls, and commits nothing past offset {row.first}{places}"


def _others_there(rows: Sequence[PartitionLag], evidence: LagEvidence) -> str:
    """``; b, c are at orders:2 offset 1000 too``: the record is the cause, or what they call."""
    for row in rows:
        if others := evidence.same_offset.get(row.partition.tp):
            return (
                f"; {some_of(others)} {'is' if len(others) == 1 else 'are'} at {row.where} offset {row.first} too, "
                "or next to it: the cause is not this group alone, but the record, or what they all call"
            )
    return ""


def _stalled_words(row: PartitionLag, owner: str, places: str) -> str:
    """What the commits of a STALL show; those back and forth may be by two clients, so its owner is only named."""
    result = row.status_result
    if result.lowest is not None:
        between = f"{result.lowest} to {result.highest}"
        return f"{owner} owns {row.where}: {between} are committed again and again, and nothing past them"
    again = f"{owner} commits {row.where} at {row.first} again and again"
    return f"{again}: it polls, and commits nothing past this offset{places}"


def _alive(row: PartitionLag, now_ms: int, session_ms: int | None) -> str:
    """Whether a member is alive: a killed member stays in the group until its session ends."""
    if session_ms is None:
        return " and is still a member"
    if row.last_commit_ms is not None and now_ms - row.last_commit_ms > session_ms:
        return " and still heartbeats"
    return f" and still heartbeats, or did less than {format_duration(session_ms / 1000)} ago"


def _of_shape(
    group: Group, report: GroupLag, shape: Shape, siblings: OtherGroupsLag | None, gap: LargeGap | None
) -> str | None:
    if is_draining(report):
        return "the lag shrinks: no action is needed" if gap is None else f"the lag shrinks, and {gap.words}"
    if siblings is not None and siblings.all_lag:
        return "other groups of the same topics lag too: the cause is not this group alone"
    if shape.kind is LagShape.ONE_BROKER:
        return f"broker {shape.subject} leads all that are behind"
    if shape.kind is LagShape.ONE_PARTITION:
        return _hot(report, shape.behind[0])
    if shape.kind is LagShape.ONE_MEMBER:
        return f"{member_words(group, shape.subject)} owns all that are behind"
    if shape.kind is LagShape.EVERY and group.members and any(p.status is LagStatus.WARN for p in report.partitions):
        return f"{plural(len(group.members), 'member')} for {plural(len(report.partitions), 'partition')}"
    return None


def _hot(report: GroupLag, row: PartitionLag) -> str | None:
    """The sentence about a partition that is hot; None if it is not."""
    tp = row.partition.tp
    rates = arrivals_in(report)
    if tp not in {hot.tp for hot in hot_partitions(rates)}:
        return None
    of_topic = sum(rate for other, rate in rates.items() if other.topic == tp.topic)
    share = percent(round(rates[tp] * 1000), round(of_topic * 1000))
    return f"{row.where} gets {share} of what arrives on {tp.topic}: keys are not spread evenly"
