"""The result of a plan: refusals, changed rows, errors and the exit code. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

import msgspec
from msgspec.structs import replace

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.model.groups import RowError
from kgroup.support.errors import NOT_YET_CODES, ExitCode, KgroupError, NotVerified, decisive
from kgroup.support.json_types import Count, Offset

UNKNOWN, COMMITS_MISSING = "outcome-unknown", "commits-missing"
NOT_VERIFIED = NotVerified.code
_DONE = frozenset({None, COMMITS_MISSING, NOT_VERIFIED})
"""Error codes (None: no error) with which a group still counts as changed as a whole."""


class Refusal(msgspec.Struct, frozen=True):
    """The reason why a group is not changed. ``group`` None: the whole plan is refused."""

    group: str | None
    error: KgroupError

    @property
    def row(self) -> RowError:
        return RowError.of(self.error, group=self.group)


class OffsetChange(msgspec.Struct, frozen=True):
    """A row of a plan in JSON, with the id of its change."""

    group: Annotated[str, "The group."]
    topic: Annotated[str, "The topic."]
    partition: Annotated[Count | None, "The partition; null if the topic cannot be read."]
    old_offset: Annotated[Offset | None, "The committed offset before, or a share group's start offset; null without."]
    new_offset: Annotated[Offset | None, "The committed offset after; null if the commit is deleted."]
    skipped_count: Annotated[Count | None, "Unread offsets that the group will not read; of a share group at most."]
    repeated_count: Annotated[Count | None, "Offsets that the group will read again; of a share group at most."]
    clamped_reason: Annotated[str | None, "Why the offset is not the one that was asked for, for people."]
    note: Annotated[str | None, "A remark, for people."]
    log_start: Annotated[Offset | None, "The log start offset."]
    log_end: Annotated[Offset | None, "The log end offset."]
    old_leader_epoch: Annotated[int | None, "The leader epoch of the old commit."]
    new_leader_epoch: Annotated[int | None, "The leader epoch of the new commit."]
    done: Annotated[bool | None, "Whether it was changed; null in a plan."]
    read_back_offset: Annotated[Offset | None, "The committed offset that was read after the change."]
    error_code: Annotated[str | None, "The stable code of what prevents the change."]
    error_message: Annotated[str | None, "What prevents the change, for people."]
    change_id: Annotated[str | None, "The change in the journal; null in a plan."]

    @classmethod
    def of(cls, row: ChangeRow, change_id: str | None, **more: Any) -> Self:
        """The row; ``more`` are the fields that a class made of this one adds."""
        old, new, log, error = row.old, row.new, row.log, row.error
        return cls(
            group=row.group,
            topic=row.topic,
            partition=row.partition,
            old_offset=old.offset if old else None,
            new_offset=new.offset if new else None,
            skipped_count=None if error else row.skipped,
            repeated_count=None if error else row.repeated,
            clamped_reason=row.clamped,
            note=row.note,
            log_start=log.start if log else None,
            log_end=log.end if log else None,
            old_leader_epoch=old.leader_epoch if old else None,
            new_leader_epoch=new.leader_epoch if new else None,
            done=row.done,
            read_back_offset=row.read_back.offset if row.read_back else None,
            error_code=error.code if error else None,
            error_message=error.message if error else None,
            change_id=change_id,
            **more,
        )


class Result(msgspec.Struct, frozen=True):
    """A plan and the result of its execution, or of its dry run."""

    plan: ChangePlan
    """With the rows in their final state."""
    refusals: tuple[Refusal, ...]
    partial: bool = False
    """Whether the possible changes are made although others are not possible (``--partial``)."""
    waits: bool = False
    """Whether the execution of this dry run would wait for empty groups, so that what time mends is no error."""
    executed: bool = False
    id: str | None = None
    """The change in the journal; None if it was not executed or there is no journal."""
    backup: str | None = None
    """The file that is used instead of the journal, None if there is a journal."""
    interrupted: ExitCode | None = None
    """The exit code for the signal that stopped the execution."""
    whole: Mapping[str, RowError | None] = msgspec.field(default_factory=dict)
    """The error of each group that was changed as a whole, None on success."""
    configured: Mapping[str, RowError | None] = msgspec.field(default_factory=dict)
    """The same for configs."""

    @property
    def errors(self) -> tuple[RowError, ...]:
        """All errors. A refusal, and a group that could not be changed as a whole, are listed once."""
        whole = self.plan.whole
        rows = (
            row.error for row in self.plan.rows if row.error and row.group not in whole and self._counts(row.error.code)
        )
        whole_errors = (error for error in self.whole.values() if error)
        refused = (r.row for r in self.refusals if self._counts(r.error.code))
        unset = (e for name, e in self.configured.items() if e and name not in self.plan.only_configured)
        planned = (error for error in self.plan.errors if self._counts(error.code))
        return (*refused, *planned, *rows, *whole_errors, *unset)

    def _counts(self, code: str) -> bool:
        return not (self.waits and code in NOT_YET_CODES)

    @property
    def possible(self) -> ChangePlan:
        """The part of the plan that is neither refused nor has an error, once the members have left if it waits."""
        if any(refusal.group is None for refusal in self.refusals):
            return replace(self.plan, rows=(), deleted=frozenset(), converted={}, configs={})
        plan = self.plan
        if self.waits and any(row.error and not self._counts(row.error.code) for row in plan.rows):
            rows = (replace(r, error=None) if r.error and not self._counts(r.error.code) else r for r in plan.rows)
            plan = plan.with_rows(rows)
        return plan.without(self.refused_groups)

    @property
    def passes(self) -> bool:
        """Whether the plan can be executed: nothing prevents it, or with ``partial`` not all of it."""
        return not self.errors or bool(self.partial and self.possible.size)

    @property
    def refused_groups(self) -> frozenset[str]:
        return frozenset(r.group for r in self.refusals if r.group is not None and self._counts(r.error.code))

    @property
    def changed_count(self) -> int:
        """The number of changed rows; a group that was changed as a whole counts as one."""
        whole = self.plan.whole
        rows = sum(row.done is True and row.group not in whole for row in self.plan.rows)
        return rows + sum((error.code if error else None) in _DONE for error in self.whole.values())

    @property
    def unknown(self) -> int:
        """The number of rows that may have been changed, or may still be: the broker's answers were lost."""
        rows = sum(row.error is not None and row.error.code == UNKNOWN for row in self.plan.rows)
        return rows + sum(error is not None and error.code == UNKNOWN for error in self.whole.values())

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the execution; for a dry run, the code that the execution would have."""
        if self.interrupted is not None:
            return self.interrupted
        errors = self.errors
        if not errors:
            return ExitCode.DONE
        some = self.changed_count if self.executed else self.partial and self.possible.size
        return ExitCode.PARTLY if some else decisive([error.exit_code for error in errors])
