"""The JSON form of a history: null for unknown, offsets as integers, times as RFC 3339 and in milliseconds."""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated

import msgspec

from kgroup.groups.history.logged_changes import LoggedChange, LoggedChangeKind
from kgroup.groups.history.offset_jumps import (
    Alternation,
    CommitAuthor,
    CommitMove,
    CommitReport,
    JumpedPartition,
    OffsetJump,
    undo_jump,
)
from kgroup.groups.timeline.steps import (
    HistoryStep,
    HistoryTotals,
    PresentMember,
    Reason,
    Signature,
    SignatureKind,
    StepKind,
)
from kgroup.model.group_log import RebalanceProtocol
from kgroup.model.groups import Assignment, assignment_of
from kgroup.model.streams_group import MemberTasks
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import Count, EpochMs, Instant, Ms, Offset


class PresentMemberDocument(msgspec.Struct, frozen=True):
    name: Annotated[str, "The instance id, the client id or the member id, whatever is unique."]
    member_id: Annotated[str, "The member id."]
    instance_id: Annotated[str | None, "group.instance.id of a static member."]
    client_id: Annotated[str, "The client id."]
    host: Annotated[str, "The member's address."]
    assignment: Annotated[
        Assignment | None, "Partitions that the member has; null if unknown, and for a streams group."
    ]
    tasks: Annotated[MemberTasks | None, "Tasks of a streams group's member; null if unknown, and for other groups."]
    changed: Annotated[bool | None, "Whether its partitions differ from its last known ones; null if unknown."]
    left_temporarily: Annotated[bool, "Whether it is a static member that left and may come back."]
    session_timeout_ms: Annotated[Ms | None, "The session timeout."]
    rebalance_timeout_ms: Annotated[Ms | None, "The rebalance timeout."]


class HistoryStepDocument(msgspec.Struct, frozen=True):
    protocol: Annotated[RebalanceProtocol, "The rebalance protocol."]
    number: Annotated[int, "The generation or the epoch."]
    step_kind: Annotated[StepKind, "What kind of step it is."]
    recorded_at: Annotated[Instant | None, "The time of its record in __consumer_offsets."]
    recorded_at_ms: Annotated[EpochMs, "The time of its record in __consumer_offsets."]
    log_offset: Annotated[Offset, "The offset of its record in __consumer_offsets."]
    causes: Annotated[tuple[Reason, ...], "Why it began."]
    leader: Annotated[str | None, "The name of a classic group's leader."]
    assignor: Annotated[str | None, "The assignor."]
    members: Annotated[tuple[PresentMemberDocument, ...], "Its members."]
    moved_count: Annotated[
        Count | None, "Partitions (tasks) that changed their member; null if unknown, and for a share group."
    ]
    moved_needlessly_count: Annotated[Count | None, "Those of them whose member stayed; null if unknown."]
    promoted_count: Annotated[
        Count | None, "Tasks that moved to a member that had them as standby or warm-up tasks; null for other groups."
    ]
    never_completed_count: Annotated[
        Count | None, "Generations before it that began and did not complete; null if unknown."
    ]
    returned_members: Annotated[tuple[str, ...], "Static members that returned to the same partitions."]
    completed: Annotated[
        bool | None, "False if the next epoch replaced it before all members reached it; null if unknown."
    ]
    joined_at: Annotated[Instant | None, "When the joining ended (classic)."]
    took_ms: Annotated[Ms | None, "How long the rebalance took; in a classic group a lower bound."]
    quiet_ms: Annotated[Ms | None, "Time without a commit before it (classic)."]
    lasted_ms: Annotated[Ms | None, "Time until the next step; null for the newest."]


class SignatureDocument(msgspec.Struct, frozen=True):
    signature: Annotated[SignatureKind, "The pattern."]
    began_at: Annotated[Instant | None, "Its start."]
    ended_at: Annotated[Instant | None, "Its end."]
    first_log_offset: Annotated[Offset, "The log_offset of its first step."]
    last_log_offset: Annotated[Offset, "The log_offset of its last step."]
    rebalance_count: Annotated[Count, "Its rebalances."]
    members: Annotated[tuple[str, ...], "Names of its members."]
    text: Annotated[str, "The sentence, for people."]


class OffsetJumpDocument(msgspec.Struct, frozen=True):
    recorded_at: Annotated[Instant | None, "The time of its record in __consumer_offsets."]
    recorded_at_ms: Annotated[EpochMs, "The time of its record in __consumer_offsets."]
    log_offset: Annotated[Offset, "The offset of its first record in __consumer_offsets."]
    move: Annotated[CommitMove, "How it differs from progress."]
    author: Annotated[CommitAuthor, "What kind of client committed."]
    author_name: Annotated[str | None, "A member, a producer id, or kgroup's plan or change; null if unknown."]
    moved_offsets: Annotated[int | None, "The sum of the new minus the old offsets; null if no partition has both."]
    step_number: Annotated[int | None, "The generation or epoch at that time."]
    emptied_at: Annotated[Instant | None, "Since when the group was Empty; null if it was not."]
    rebalance_distance_ms: Annotated[
        Ms | None, "Time since the nearest rebalance, negative until it; null if more than a minute."
    ]
    partitions: Annotated[tuple[JumpedPartition, ...], "The partitions."]
    alternation: Annotated[Alternation | None, "How its partition goes back and forth; null for another move."]
    command: Annotated[str | None, "The command that undoes it."]


class CommitReportDocument(msgspec.Struct, frozen=True):
    jumps: Annotated[tuple[OffsetJumpDocument, ...], "Commits that are not progress."]
    aborted_count: Annotated[Count, "Commits of aborted transactions."]
    open_count: Annotated[Count, "Commits of open transactions."]


class LoggedChangeDocument(msgspec.Struct, frozen=True):
    recorded_at: Annotated[Instant | None, "The time of its record in __consumer_offsets."]
    recorded_at_ms: Annotated[EpochMs, "The time of its record in __consumer_offsets."]
    log_offset: Annotated[Offset, "The offset of its record in __consumer_offsets."]
    change_kind: Annotated[LoggedChangeKind, "What changed."]
    partitions: Annotated[
        Assignment, "The partitions whose start offsets changed; a topic without any: not known which."
    ]
    took_ms: Annotated[Ms | None, "Until it was done; null if it is not, or has no end."]
    text: Annotated[str, "What is new, for people."]


class HistoryScan(msgspec.Struct, frozen=True):
    complete: Annotated[bool, "Whether no record of the span can be missing."]
    oldest_at: Annotated[Instant | None, "The time of the oldest record that was read."] = msgspec.field(name="from")
    stopped_reason: Annotated[str | None, "Why the read ended before the log start."]
    start_offset: Annotated[Offset, "The first offset of __consumer_offsets that was read."]
    end_offset: Annotated[Offset, "The offset after the last one that was read."]
    complete_from_offset: Annotated[Offset | None, "The first offset that compaction has not reached."]
    to_log_start: Annotated[bool, "Whether the log was read from its start."]
    open_transaction_began_at: Annotated[Instant | None, "Since when an open transaction hides newer records."]
    covers_span: Annotated[bool, "Whether the log was read back to the start of the span."]
    unreadable_record_count: Annotated[Count, "Records of the group that could not be decoded."]


class GroupHistoryDocument(msgspec.Struct, frozen=True):
    group: Annotated[str, "The group."]
    since_at: Annotated[Instant | None, "instant", "Start of the span of time."]
    until_at: Annotated[Instant | None, "instant", "End of the span of time."]
    state: Annotated[str | None, "The present state; null if it was not read."]
    over: Annotated[bool | None, "Whether the rebalances have ended; null if there were none."]
    totals: Annotated[HistoryTotals, "Sums over the steps."]
    signatures: Annotated[tuple[SignatureDocument, ...], "Patterns of rebalances."]
    step_before: Annotated[
        HistoryStepDocument | None,
        "The step that was current at the start of the span; null if it is not in the log.",
    ]
    jump_count: Annotated[Count, "Jumps, resets and deletions of committed offsets; --commits has each of them."]
    steps: Annotated[tuple[HistoryStepDocument, ...], "Generations or epochs, oldest first."]
    changes: Annotated[
        tuple[LoggedChangeDocument, ...], "Other changes of a share or streams group, oldest first; empty for others."
    ]
    commits: Annotated[CommitReportDocument | None, "Commits; null without --commits."]
    scan: Annotated[HistoryScan, "How much of __consumer_offsets was read."]


def step_document(step: HistoryStep) -> HistoryStepDocument:
    return HistoryStepDocument(
        protocol=step.protocol,
        number=step.number,
        step_kind=step.kind,
        recorded_at=rfc3339(step.at_ms),
        recorded_at_ms=step.at_ms,
        log_offset=step.log_offset,
        causes=step.reasons,
        leader=step.leader,
        assignor=step.assignor,
        members=tuple(map(_present, step.members)),
        moved_count=step.moved,
        moved_needlessly_count=step.moved_needlessly,
        promoted_count=step.promoted,
        never_completed_count=step.never_completed,
        returned_members=step.returned,
        completed=step.completed,
        joined_at=rfc3339(step.joined_ms),
        took_ms=step.took_ms,
        quiet_ms=step.quiet_ms,
        lasted_ms=step.lasted_ms,
    )


def _present(present: PresentMember) -> PresentMemberDocument:
    return PresentMemberDocument(
        name=present.name,
        member_id=present.member_id,
        instance_id=present.instance_id,
        client_id=present.client_id,
        host=present.host,
        assignment=assignment_of(present.partitions) if present.spares is None else None,
        tasks=_tasks(present),
        changed=present.other,
        left_temporarily=present.away,
        session_timeout_ms=present.session_ms,
        rebalance_timeout_ms=present.poll_ms,
    )


def _tasks(present: PresentMember) -> MemberTasks | None:
    if present.spares is None or present.partitions is None:
        return None
    of = (present.partitions, present.spares.standby, present.spares.warmup)
    return MemberTasks(*(tuple(f"{subtopology}_{number}" for subtopology, number in sorted(tasks)) for tasks in of))


def change_document(one: LoggedChange) -> LoggedChangeDocument:
    return LoggedChangeDocument(
        recorded_at=rfc3339(one.at_ms),
        recorded_at_ms=one.at_ms,
        log_offset=one.log_offset,
        change_kind=one.kind,
        partitions=one.places,
        took_ms=one.took_ms,
        text=one.text,
    )


def signature_document(one: Signature) -> SignatureDocument:
    return SignatureDocument(
        signature=one.kind,
        began_at=rfc3339(one.from_ms),
        ended_at=rfc3339(one.to_ms),
        first_log_offset=one.first,
        last_log_offset=one.last,
        rebalance_count=one.rebalances,
        members=one.members,
        text=one.text,
    )


def commits_document(group: str, commits: CommitReport, closed: Container[str]) -> CommitReportDocument:
    """The jumps of committed offsets; ``closed`` are finished catch-ups."""
    jumps = tuple(_jump(group, jump, closed) for jump in commits.jumps)
    return CommitReportDocument(jumps, commits.aborted, commits.open)


def _jump(group: str, jump: OffsetJump, closed: Container[str]) -> OffsetJumpDocument:
    return OffsetJumpDocument(
        recorded_at=rfc3339(jump.at_ms),
        recorded_at_ms=jump.at_ms,
        log_offset=jump.log_offset,
        move=jump.move,
        author=jump.by,
        author_name=jump.who,
        moved_offsets=jump.moved,
        step_number=jump.step,
        emptied_at=rfc3339(jump.empty_since_ms),
        rebalance_distance_ms=jump.rebalance_distance_ms,
        partitions=jump.partitions,
        alternation=jump.alternation,
        command=undo_jump(group, jump, closed),
    )
