"""What came of a plan: what stood in its way, what was done, and the exit code that follows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgroup.groups.change_plan import ChangePlan, ChangeRow
from kgroup.model.groups import RowError
from kgroup.support.errors import ExitCode, KgroupError, NotVerified

NOT_EMPTY, UNKNOWN, COMMITS_MISSING = "not-empty", "outcome-unknown", "commits-missing"
NOT_VERIFIED = NotVerified.code
_DONE = frozenset({None, COMMITS_MISSING, NOT_VERIFIED})
"""What a group that was changed as a whole may end with."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal, and the group that it is about; None is the plan as a whole."""

    group: str | None
    error: KgroupError

    @property
    def row(self) -> RowError:
        """The same, as a row's error."""
        return RowError.of(self.error, group=self.group)


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row of a plan, with the id of its change."""

    row: ChangeRow
    change_id: str | None

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return self.row.document() | {"change_id": self.change_id}


@dataclass(frozen=True, slots=True)
class Result:
    """A plan and what came of it.

    ``plan`` has the rows as they stand in the end. ``waits`` is True where a dry run would wait for groups to
    be empty. ``id`` is the change's in the journal; None where it was not executed, or there is no journal.
    ``backup`` is the file that stands in for the journal, None where there is one.
    ``interrupted`` is the exit code of the signal that stopped it, None where none did. ``whole`` is what came
    of each group that was to be changed as a whole, None where it was done; ``configured`` the same of their
    configs. ``partial`` is whether what can be done is done though the rest can't.
    """

    plan: ChangePlan
    refusals: tuple[Refusal, ...]
    partial: bool = False
    waits: bool = False
    executed: bool = False
    id: str | None = None
    backup: str | None = None
    interrupted: ExitCode | None = None
    whole: Mapping[str, RowError | None] = field(default_factory=dict)
    configured: Mapping[str, RowError | None] = field(default_factory=dict)

    @property
    def documents(self) -> tuple[ChangedRow, ...]:
        """The rows as json has them, each with the id of the change."""
        return tuple(ChangedRow(row, self.id) for row in self.plan.rows)

    @property
    def errors(self) -> tuple[RowError, ...]:
        """Everything that stood in the way; a refusal, and a group that could not be changed as a whole, once.

        What a dry run would wait for is none.
        """
        whole = self.plan.whole
        rows = (row.error for row in self.plan.rows if row.error and row.group not in whole)
        gone = (error for error in self.whole.values() if error)
        standing = (r.row for r in self.refusals if not (self.waits and r.error.code == NOT_EMPTY))
        unset = (e for name, e in self.configured.items() if e and name not in self.plan.only_configured)
        return (*standing, *self.plan.errors, *rows, *gone, *unset)

    @property
    def possible(self) -> ChangePlan:
        """What of the plan nothing stands in the way of."""
        refused = {refusal.group for refusal in self.refusals}
        if None in refused:
            return replace(self.plan, rows=(), deleted=frozenset(), converted={}, configs={})
        return self.plan.without({group for group in refused if group is not None})

    @property
    def done(self) -> int:
        """How many rows were changed; a group that was changed as a whole is one."""
        whole = self.plan.whole
        rows = sum(row.done is True for row in self.plan.rows if row.group not in whole)
        return rows + sum((error.code if error else None) in _DONE for error in self.whole.values())

    @property
    def unknown(self) -> int:
        """How many rows may have been changed, or may yet be: their answers were lost."""
        rows = sum(row.error is not None and row.error.code == UNKNOWN for row in self.plan.rows)
        return rows + sum(error is not None and error.code == UNKNOWN for error in self.whole.values())

    @property
    def exit_code(self) -> ExitCode:
        """Of the execution; of a plan, what the execution's would be."""
        if self.interrupted is not None:
            return self.interrupted
        errors = self.errors
        if not errors:
            return ExitCode.DONE
        some = self.done if self.executed else self.partial and self.possible.size
        return ExitCode.PARTLY if some else _code_of(errors)


def _code_of(errors: Sequence[RowError]) -> ExitCode:
    """Of what was not done at all: the errors' own code where they agree, else refused."""
    codes = {error.exit_code for error in errors}
    return codes.pop() if len(codes) == 1 else ExitCode.REFUSED
