"""Plans the undo of a journaled change, and the return to the commits of a past moment (``--as-of``). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from kgroup.groups.catchup.model import PlanHead
from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.change_result import UNKNOWN, OffsetChange, Refusal, Result
from kgroup.groups.state_from_log import LoggedState, PastCommit
from kgroup.model.commit import Commit
from kgroup.model.groups import LogRange, RowError
from kgroup.model.journal import DAMAGED_JOURNAL, JournalEntry, JournalRow
from kgroup.model.topic_partition import GroupTopicPartition, TopicPartition
from kgroup.support.errors import MOVED_SINCE, ExitCode, KgroupError, Refused, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.instants import short_time
from kgroup.support.json_types import Count
from kgroup.support.units import plural, some_of

HIDDEN_COMMITS = refusal_code(
    "hidden-commits",
    "delete",
    "The group has, or may have, commits on topics that you may not DESCRIBE. No undo could restore them.",
    "Get DESCRIBE on these topics, or READ on __consumer_offsets, which shows whether there are any.",
)
RELEASED_SINCE = refusal_code(
    "released-since",
    "undo",
    "A catch-up has released the group after the last change in the journal, and the command line names no change. "
    "Releases are in the ledger.",
    "Cancel the catch-up, or name the id of the change.",
)
TOPIC_RECREATED = refusal_code(
    "topic-recreated",
    "undo, catchup",
    "The topic was deleted and created again: its old offsets have no meaning.",
    "For undo, --partial restores the other partitions. For catchup: cancel --abandon.",
)

_NAMED = 3


class UndoRow(JournalRow, frozen=True):
    """One row of the change, and the commit now; None is no commit.

    ``confirmed`` is whether the broker acknowledged the row. If not, its answer was lost, or kgroup died before it
    recorded the result. ``unread`` is the error of reading the present commit, None if it was read. ``worked`` is
    whether a share group has done records since the change, although its start offset is still the one it set.
    """

    now: Commit | None
    confirmed: bool = True
    unread: RowError | None = None
    worked: bool = False

    @property
    def is_back(self) -> bool:
        """Whether there is nothing to undo: the commit is as before, or nothing shows that this change was applied."""
        if self.unread is not None:
            return False
        return self.now == self.before or (not self.confirmed and self.now != self.after)

    @property
    def is_unchanged(self) -> bool:
        """Whether the commit is still the one that the change made, and differs from the one before."""
        return self.unread is None and self.now == self.after != self.before

    @property
    def doubtful(self) -> bool:
        """Whether it is unknown if the row was applied, and the commit is now neither the old nor the new one."""
        return self.unread is None and not self.confirmed and self.now not in (self.before, self.after)

    @property
    def moved(self) -> bool:
        """Whether the committed offset was moved again after the change, by the group itself or another client."""
        return self.unread is None and not self.is_back and (self.worked or self.now != self.after)


_UndoesChangeId = Annotated[str | None, "The change that is undone; null if the offsets of a past time are restored."]


class UndoneOffset(OffsetChange, frozen=True):
    """A row of an undo, with the change that it undoes."""

    undoes_change_id: _UndoesChangeId


class TypeUndo(msgspec.Struct, frozen=True):
    """A group whose type from before a migration is restored; its offsets do not change.

    ``type`` equals ``target`` if only ``configs`` are restored. ``converted`` is None too if its result is unknown.
    """

    group: Annotated[str, "The group."]
    type: Annotated[str, "The type that the group has."]
    target: Annotated[str, "The type that the group gets."]
    commit_count: Annotated[Count, "Number of commits."]
    configs: Annotated[Mapping[str, str | None], "Configurations of the group that are set; null deletes one."]
    converted: Annotated[bool | None, "Whether the group was converted; null in a plan."]
    change_id: Annotated[str | None, "The change in the journal; null in a plan."]
    error_code: Annotated[str | None, "The stable code of what prevents the change."]
    error_message: Annotated[str | None, "What prevents the change, for people."]
    undoes_change_id: _UndoesChangeId


def type_restores(result: Result, undoes: str) -> tuple[TypeUndo, ...]:
    """The groups whose type or configs a plan changes, each with its result."""
    refused = {refusal.group: refusal.row for refusal in result.refusals}
    rows = result.plan.by_group()
    restores = []
    for group in result.plan.groups:
        name = group.name
        if name in result.plan.whole:
            error = result.whole.get(name) or refused.get(name)
            unknown = error is not None and error.code == UNKNOWN
            restores.append(
                TypeUndo(
                    group=name,
                    type=group.type,
                    target=result.plan.converted.get(name, group.type),
                    commit_count=len(rows.get(name, ())),
                    configs=result.plan.configs.get(name, {}),
                    converted=None if name not in result.whole or unknown else error is None,
                    change_id=result.id if name in result.whole else None,
                    error_code=error.code if error else None,
                    error_message=error.message if error else None,
                    undoes_change_id=undoes,
                )
            )
    return tuple(restores)


def hidden_commit_errors(entry: JournalEntry) -> tuple[RowError, ...]:
    """Errors for commits that were deleted with their group and were hidden then: undo cannot restore them."""
    return tuple(
        RowError(
            HIDDEN_COMMITS,
            "it was deleted with its group and could not be read then, so it cannot be restored",
            group,
            topic,
            partition,
            exit_code=ExitCode.REFUSED,
        )
        for group, partitions in entry.hidden.items()
        for topic, partition in partitions or ()
    )


def damage_errors(entry: JournalEntry) -> tuple[RowError, ...]:
    """The error for rows of a change that the journal has lost: with ``--partial`` undo restores the others."""
    if entry.damage is None:
        return ()
    lost = sorted(entry.groups.keys() - {row.group for row in entry.rows})
    of = some_of(lost) if lost else "a group"
    hint = Hint("To restore the offsets of an earlier time: {}", ("undo", [*lost, "GROUP"][0], "--as-of", "TIME"))
    message = f"{entry.damage}, and the offsets of {of} before {entry.id} were in it"
    return (RowError(DAMAGED_JOURNAL, message, hint=hint, exit_code=ExitCode.REFUSED),)


def undo_rows(
    traces: Sequence[UndoRow],
    logs: Mapping[TopicPartition, LogRange],
    topics: Mapping[str, KgroupError | None],
) -> list[ChangeRow]:
    """A row for each partition whose commit is not as before. ``topics`` has the error of a topic, None without one."""
    rows = []
    for trace in traces:
        if trace.is_back:
            continue
        log = logs.get(trace.tp)
        row = ChangeRow(trace.group, trace.topic, trace.partition, trace.now, trace.before, log, note=_note(trace, log))
        fault = topics.get(trace.topic)
        error = trace.unread or (RowError.of(fault) if fault else None)
        rows.append(row.failing(error) if error else row)
    return rows


def _note(trace: UndoRow, log: LogRange | None) -> str | None:
    notes = ["moved since the change"] if trace.moved else []
    if outside := outside_note(trace.before, log):
        notes.append(outside)
    return "; ".join(notes) or None


def outside_note(before: Commit | None, log: LogRange | None) -> str | None:
    """A note for a restored offset that is outside the log now; None if it is inside, or the log is not known."""
    if before is None or log is None or log.start <= before.offset <= log.end:
        return None
    where = f"below the log start {log.start}" if before.offset < log.start else f"above the log end {log.end}"
    return f"{where} now: auto.offset.reset decides"


def moved_since(traces: Sequence[UndoRow], change_id: str, share: Collection[str] = ()) -> list[Refusal]:
    """A refusal for each group with offsets that were moved since the change; it has the price, and the other way.

    No catch-up delivers what was skipped of ``share`` groups.
    """
    by_group: dict[str, list[UndoRow]] = {}
    for trace in traces:
        if trace.moved:
            by_group.setdefault(trace.group, []).append(trace)
    return [
        Refusal(group, _refusal(group, moved, change_id, delivers=group not in share))
        for group, moved in by_group.items()
    ]


def _refusal(group: str, moved: Sequence[UndoRow], change_id: str, *, delivers: bool) -> Refused:
    lines = [
        f"{t.tp}  was {_offset(t.before)}, changed to {_offset(t.after)}, now {_offset(t.now)}"
        + (", with records after it that are done" if t.worked else "")
        for t in moved[:_NAMED]
    ]
    if len(moved) > _NAMED:
        lines.append(f"{len(moved) - _NAMED} more partitions")
    again = sum(_read_since(t) for t in moved)
    anyway = "--accept moved-since restores the offsets from before the change anyway"
    anyway += f": up to {plural(again, 'offset')} read again." if again else "."
    skipped = delivers and any(
        t.before and t.after and t.now and t.before.offset < t.after.offset <= t.now.offset for t in moved
    )
    deliver = Hint(
        "To deliver what that change skipped, without moving the group: {}",
        ("catchup", "start", group, "--skipped-by", change_id),
    )
    return Refused(
        f"the offsets of {group} have moved since that change",
        details=(*lines, *((anyway,) if skipped else ())),
        hint=deliver if skipped else anyway,
        code=MOVED_SINCE,
    )


def _read_since(trace: UndoRow) -> int:
    """The offsets that the group has committed since the change, and that an undo has it read again.

    What the change skipped is not read yet: 5, changed to 8, now 11 are three.
    """
    before, after, now = trace.before, trace.after, trace.now
    if before is None or now is None:
        return 0
    start = after.offset if after and before.offset < after.offset <= now.offset else before.offset
    return max(0, now.offset - start)


def _offset(commit: Commit | None) -> str:
    return "none" if commit is None else str(commit.offset)


class GroupRelease(msgspec.Struct, frozen=True):
    """The release of a catch-up: it moved the group's offsets, and is in the ledger, not in the journal."""

    plan: PlanHead
    is_open: bool

    def line(self, now_ms: int) -> str:
        """``cu-4ee3  03:05:11Z  release of pay-svc by maria@jump-1``."""
        plan = self.plan
        closed = "" if self.is_open else ": the catch-up is finished and cannot be cancelled"
        return f"{plan.id}  {short_time(plan.created_ms, now_ms)}  release of {plan.group} by {plan.who}{closed}"

    @property
    def hint(self) -> Hint:
        """How to undo an open release."""
        return Hint("To move the group back, cancel the catch-up: {}", ("catchup", "cancel", self.plan.id))


def newest_release(plans: Iterable[PlanHead], groups: Collection[str], since_ms: int) -> GroupRelease | None:
    """The newest release of one of these groups by a plan that was made after ``since_ms``, if it is in effect."""
    found = [
        GroupRelease(each, each.state.is_open)
        for each in plans
        if each.state is not None and each.state.moved_group and each.group in groups and each.created_ms > since_ms
    ]
    return max(found, key=lambda release: release.plan.created_ms, default=None)


def refuse_released_since(release: GroupRelease, last: JournalEntry, now_ms: int) -> Refused:
    """The refusal ``released-since``: the last change in the journal is not the newest change of its group."""
    plan = release.plan
    older = Hint("To plan the undo of the older change, name it: {}", ("undo", last.id))
    return Refused(
        f"the newest change of {plan.group} is the release of the catch-up {plan.id}",
        details=(
            release.line(now_ms),
            f"{last.id}  {short_time(last.at_ms, now_ms)}  {last.what} {last.subject}",
            *((older,) if release.is_open else ()),
        ),
        hint=release.hint if release.is_open else older,
        code=RELEASED_SINCE,
    )


def groups_to_delete(
    created: frozenset[str], rows: Sequence[ChangeRow], now: Mapping[GroupTopicPartition, Commit]
) -> frozenset[str]:
    """The groups that the change created and that undo would leave without any commit: undo deletes them."""
    with_other_commits = {
        group for group, _, _ in now.keys() - {(row.group, *row.tp) for row in rows if row.new is None}
    }
    return frozenset(
        name for name in created if name not in with_other_commits and any(row.group == name for row in rows)
    )


COMMIT_UNKNOWN = "commit-unknown"
_NO_RECORD = PastCommit(None, unknown="the part of __consumer_offsets that was read has no commit of this partition")
_RECREATED = "the topic was deleted and recreated; the old offset does not apply to it"


def as_of_rows(
    state: LoggedState,
    now: Mapping[TopicPartition, Commit],
    unread: Mapping[TopicPartition, RowError],
    logs: Mapping[TopicPartition, LogRange],
    topics: Mapping[str, str | KgroupError | None],
) -> list[ChangeRow]:
    """A row for each partition whose commit differs from the one in ``state``.

    An unknown commit, past or present, makes a row with an error. ``now`` are the present commits, ``unread`` errors
    of reading some. ``topics`` are the present topic ids (None: the broker gives none), or the error of reading them.
    """
    rows = []
    for tp in partitions_of(state, now, unread):
        past_commit, old = state.partitions.get(tp, _NO_RECORD), now.get(tp)
        row = ChangeRow(state.name, *tp, old, past_commit.commit, logs.get(tp))
        if error := unread.get(tp):
            rows.append(row.failing(error))
        elif past_commit.unknown is not None:
            rows.append(
                ChangeRow(state.name, *tp, old, None, logs.get(tp)).failing(unknown_commit(past_commit.unknown))
            )
        elif past_commit.commit != old:
            rows.append(_row(row, past_commit, topics.get(tp.topic)))
    return rows


def partitions_of(
    state: LoggedState, now: Iterable[TopicPartition], unread: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """All partitions that had a commit then, or have one now, or whose present commit is unknown."""
    return sorted({*state.partitions, *now, *unread})


def unknown_commit(why: str) -> RowError:
    """The error of a partition whose past commit is unknown."""
    return RowError(COMMIT_UNKNOWN, why, exit_code=ExitCode.PARTLY)


def topic_recreated_error(past_commit: PastCommit, topic_id: str | None) -> RowError | None:
    """The error ``topic-recreated`` if the topic of a past commit has another id now; None if not, or not known."""
    if past_commit.commit is None or topic_id is None or past_commit.topic_id in (None, topic_id):
        return None
    return RowError(TOPIC_RECREATED, _RECREATED, exit_code=ExitCode.REFUSED)


def _row(row: ChangeRow, past_commit: PastCommit, topic: str | KgroupError | None) -> ChangeRow:
    if isinstance(topic, KgroupError):
        return row.failing(RowError.of(topic))
    if error := topic_recreated_error(past_commit, topic):
        return row.failing(error)
    note = (
        "no commit at that time: it is deleted"
        if past_commit.commit is None
        else outside_note(past_commit.commit, row.log)
    )
    return ChangeRow(row.group, *row.tp, row.old, row.new, row.log, note=note)
