"""Remove members of a group, with a journal entry, and read what is left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from msgspec.structs import replace

from kgroup.changes.execute import COMMITS, ChangeContext, journaled, journaling, new_entry
from kgroup.changes.guards import check_change_permitted
from kgroup.changes.journal import NO_JOURNAL
from kgroup.changes.options import Execution
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_result import UNKNOWN
from kgroup.groups.eviction import Eviction
from kgroup.groups.foreign_owners import foreign_owner, refuse_foreign_owner
from kgroup.groups.selection import UNEXPECTED_COUNT
from kgroup.model.groups import Group, RowError
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import FOREIGN_OWNER, ExitCode, KgroupError, NotFound, Refused, Unreachable
from kgroup.support.hint import Hint
from kgroup.support.signals import defer_signals
from kgroup.support.units import plural


def read_survivors(cluster: ChangingCluster, group: str) -> Group | KgroupError | None:
    """The group afterwards, None if it no longer exists, or the error if it could not be read."""
    try:
        snapshot = cluster.describe([group], COMMITS)
    except KgroupError as error:
        return error
    if snapshot.groups:
        return snapshot.groups[0]
    unseen = next((error for error in snapshot.errors if error.code != NotFound.code), None)
    return KgroupError(unseen.message) if unseen else None


def eviction_refusal(run: Invocation, group: Group, plan: Sequence[Eviction], how: Execution) -> KgroupError | None:
    """What prevents the eviction as far as it is known without another request; None if nothing does."""
    if guarded := check_change_permitted(run.settings, how):
        error = guarded[0].error
        if error.code == NO_JOURNAL:  # evict has no --backup
            return error.with_context(hint="set KGROUP_STATE_DIR to a directory that can be written")
        return error
    owner = foreign_owner(group) if FOREIGN_OWNER not in (how.accept or ()) else None
    if owner:
        return refuse_foreign_owner(group.name, owner)
    if how.expect is not None and how.expect != len(plan):
        text = f"the plan has {plural(len(plan), 'row')}, {how.expect} expected (--expect)"
        return Refused(text, code=UNEXPECTED_COUNT)
    return None


def execute_evictions(
    run: Invocation, cluster: ChangingCluster, how: Execution, group: Group, plan: tuple[Eviction, ...]
) -> tuple[tuple[Eviction, ...], ExitCode | None]:
    """The members with their results, and the exit code of a signal that arrived meanwhile, else None."""
    context = ChangeContext("evict", f"{group.name}, {', '.join(str(eviction.leaver) for eviction in plan[:3])}")
    with journaling(run.reporter) as journal, defer_signals() as pending:
        assert journal
        entry = replace(
            new_entry(run.typed, cluster, how, context, journal), groups={group.name: group.type}, undoable=False
        )
        with closing(journal.begin(entry)) as writing:
            run.reporter.note_effect(journaled(), entry.id)
            results = cluster.remove_members(group.name, [eviction.leaver for eviction in plan])
            writing.removed({str(leaver): error for leaver, error in results.items()})
        if writing.fault:
            run.reporter.warn(writing.fault)
    ended = []
    for eviction in plan:
        error = results[eviction.leaver]
        if isinstance(error, Unreachable):  # the broker may have executed the request, or may do so later
            error = Unreachable(
                f"it is unknown whether {eviction.leaver} was removed: {error.message}",
                code=UNKNOWN,
                hint=Hint("{}", ("describe", group.name, "--members")),
            )
        row = RowError.of(error, group=group.name) if error else None
        ended.append(replace(eviction, removed=error is None, error=row))
    return tuple(ended), pending.exit_code
