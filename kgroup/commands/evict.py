"""``kgroup evict``: remove members from a group: static ones that stopped without leaving, or stuck ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from kgroup.changes.execute import COMMITS, ChangeContext, journaled, journaling, new_entry
from kgroup.changes.guards import check_change_permitted
from kgroup.changes.options import Execution
from kgroup.changes.preconditions import check_execution
from kgroup.changes.rights import missing_read_right
from kgroup.cli.help_parts import WHICH
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_result import UNKNOWN, Refusal
from kgroup.groups.foreign_owners import foreign_owner, refuse_foreign_owner
from kgroup.groups.selection import Selection, check_groups
from kgroup.model.blocks import (
    BlankLine,
    Block,
    Cell,
    Column,
    Records,
    Screen,
    Styled,
    Table,
    Text,
    Title,
)
from kgroup.model.groups import Group, Member, MemberToRemove, RowError
from kgroup.model.outcome import Outcome
from kgroup.output.pages.change import closing_lines, passing_command, refusal_block
from kgroup.queries.snapshots import snapshots
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import ExitCode, KgroupError, NotAuthorized, NotFound, Refused, Unreachable, UsageError
from kgroup.support.hint import Hint
from kgroup.support.quoting import quote
from kgroup.support.signals import defer_signals
from kgroup.support.units import plural, some_of

_NAMED = 5
_HEADER = (
    "group", "member_id", "instance_id", "client_id", "host", "partition_count", "removed",
    "error_code", "error_message",
)  # fmt: skip
_COLUMNS = (
    Column("CLIENT-ID", fold=True),
    Column("INSTANCE-ID", fold=True),
    Column("HOST"),
    Column("MEMBER-ID", wide=True),
    Column("PARTITIONS", right=True),
    Column("NOTE", fold=True),
)


class Eviction(msgspec.Struct, frozen=True):
    """A member to remove; ``removed`` is None before the attempt, ``error`` is why it failed."""

    group: str
    member: Member
    removed: bool | None = None
    error: RowError | None = None

    @property
    def leaver(self) -> MemberToRemove:
        """How LeaveGroup names the member: by its instance id if it has one, because that does not change."""
        member = self.member
        return MemberToRemove(None if member.instance_id is not None else member.member_id, member.instance_id)

    def document(self) -> Mapping[str, Any]:
        """Its JSON form."""
        return {
            "group": self.group,
            "member_id": self.member.member_id,
            "instance_id": self.member.instance_id,
            "client_id": self.member.client_id,
            "host": self.member.host,
            "partition_count": self.member.partition_count,
            "removed": self.removed,
            "error_code": self.error.code if self.error else None,
            "error_message": self.error.message if self.error else None,
        }

    @property
    def record(self) -> tuple[str | int | None, ...]:
        """Its row for CSV."""
        document = self.document()
        removed = None if self.removed is None else str(self.removed).lower()
        return tuple(removed if name == "removed" else document[name] for name in _HEADER)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Its row on the page."""
        member = self.member
        note: Cell = None
        if self.error:
            note = Styled(f"{self.error.code}: {self.error.message}", "bad")
        elif self.removed:
            note = "removed"
        elif member.left_temporarily:
            note = "left temporarily; its partitions are kept until its session ends"
        return (member.client_id, member.instance_id, member.host, member.member_id, member.partition_count, note)


def evict(
    run: Invocation,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    how: Execution,
    instance: Annotated[
        list[str] | None,
        typer.Option(
            "--instance",
            metavar="ID",
            rich_help_panel=WHICH,
            help="A static member, by its group.instance.id (repeatable).",
        ),
    ] = None,
    member: Annotated[
        list[str] | None,
        typer.Option(
            "--member",
            metavar="ID",
            rich_help_panel=WHICH,
            help="A member, by its member id, or by a client id that is unique (repeatable).",
        ),
    ] = None,
    all_members: Annotated[
        bool, typer.Option("--all-members", rich_help_panel=WHICH, help="All members of the group.")
    ] = False,
) -> Outcome:
    """Remove members from a group.

    This is for static members that were stopped: they do not leave the group (KIP-345), and the group is not empty
    until their session ends. Eviction is not fencing: a live member joins again within seconds. An eviction cannot
    be undone.

    Examples:
    # the plan for one static member
    kgroup evict pay-svc --instance pay-4
    # remove it
    kgroup evict pay-svc --instance pay-4 --execute
    # remove a member by its member id or client id
    kgroup evict pay-svc --member pay-svc-0 --execute
    # remove all members
    kgroup evict pay-svc --all-members --execute

    Exit codes: 0 2 3 4 5 6 7 9 130 143
    """
    if not (instance or member or all_members):
        raise UsageError("the members are missing", hint="choose one of: --instance ID, --member ID, --all-members")
    if all_members and (instance or member):
        raise UsageError("--all-members and --instance or --member are mutually exclusive")
    which = Selection(names=[group])
    check_groups(which)
    check_execution(run, how)
    with ChangingCluster(run.settings) as cluster:
        snapshot = next(snapshots(run.reporter, cluster, which, COMMITS))
        if not snapshot.groups:
            return _unseen(cluster, snapshot.errors)
        target = snapshot.groups[0]
        plan = _plan(target, instance or (), member or ())
        refusal = _refusal(run, target, plan, how)
        if plan and not refusal:
            refusal = missing_read_right(run.reporter, cluster, group)
        done, survivors, stopped = plan, None, None
        if how.execute and plan and not refusal:
            done, stopped = _execute_evictions(run, cluster, how, target, plan)
            survivors = _survivors(cluster, group)
    outcome = _outcome(run, cluster, target, done, refusal, survivors)
    return outcome if stopped is None else replace(outcome, decided=stopped)


def _survivors(cluster: ChangingCluster, group: str) -> Group | KgroupError | None:
    """The group afterwards, None if it no longer exists, or the error if it could not be read."""
    try:
        snapshot = cluster.describe([group], COMMITS)
    except KgroupError as error:
        return error
    if snapshot.groups:
        return snapshot.groups[0]
    unseen = next((error for error in snapshot.errors if error.code != NotFound.code), None)
    return KgroupError(unseen.message) if unseen else None


def _unseen(cluster: ChangingCluster, errors: tuple[RowError, ...]) -> Outcome:
    """The outcome if the group could not be read; the errors say why."""
    return Outcome((), lambda: Screen(()), lambda: Records(_HEADER, []), cluster.ref, errors)


def _plan(group: Group, instances: Sequence[str], members: Sequence[str]) -> tuple[Eviction, ...]:
    """The members to remove; a member may be named by its client id if no other member has it.

    Raises NotFound for an unknown id, UsageError for a client id of several, NotAuthorized if members may not be seen.
    """
    if group.members is None:
        raise NotAuthorized(
            f"this user may not see the members of {group.name}", hint="DESCRIBE on the Group is needed"
        )
    static = {m.instance_id: m for m in group.members if m.instance_id is not None}
    chosen = [_named(group, "instance", name, static) for name in instances]
    chosen += [_member(group, group.members, name) for name in members]
    return tuple(Eviction(group.name, m) for m in dict.fromkeys(chosen if instances or members else group.members))


def _member(group: Group, members: Sequence[Member], name: str) -> Member:
    """The member with this member id, or with this client id if no other has it. Raises NotFound, and UsageError."""
    of_client = [member for member in members if member.client_id == name]
    by_id = {member.member_id: member for member in members}
    if name in by_id or not of_client:
        return _named(group, "member", name, by_id, also=[member.client_id for member in members])
    if len(of_client) > 1:
        raise UsageError(
            f"{len(of_client)} members of {group.name} have the client id {name!r}",
            hint="name each by its member id: " + some_of([f"--member {quote(m.member_id)}" for m in of_client]),
        )
    return of_client[0]


def _named(group: Group, kind: str, name: str, known: Mapping[str, Member], also: Sequence[str] = ()) -> Member:
    """The member with an id; raises NotFound with similar ids, which may also be of ``also``."""
    if name in known:
        return known[name]
    near = get_close_matches(name, [*known, *also], n=3) or list(known)[:_NAMED]
    has = f"It has {', '.join(dict.fromkeys(near))}" if near else f"It has no {kind} with such an id"
    raise NotFound(
        f"{group.name} has no {kind} {name!r}",
        details=(f"{has}.",),
        hint=Hint("{}", ("describe", group.name, "--members", "--verbose")),
    )


def _refusal(run: Invocation, group: Group, plan: Sequence[Eviction], how: Execution) -> KgroupError | None:
    if guarded := check_change_permitted(run.settings, how):
        return guarded[0].error
    owner = foreign_owner(group) if "foreign-owner" not in (how.accept or ()) else None
    if owner:
        return refuse_foreign_owner(group.name, owner)
    if how.expect is not None and how.expect != len(plan):
        text = f"the plan has {plural(len(plan), 'row')}, {how.expect} expected (--expect)"
        return Refused(text, code="unexpected-count")
    return None


def _execute_evictions(
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


def _outcome(
    run: Invocation,
    cluster: ChangingCluster,
    group: Group,
    evictions: tuple[Eviction, ...],
    refusal: KgroupError | None,
    survivors: Group | KgroupError | None,
) -> Outcome:
    executed = any(eviction.removed is not None for eviction in evictions)
    errors = tuple(e.error for e in evictions if e.error)
    refusals = () if refusal is None else (Refusal(group.name, refusal),)
    errors += tuple(each.row for each in refusals)
    if not evictions and not errors:
        run.reporter.note(f"nothing to do: {group.name} has no members")

    def screen() -> Screen:
        if not evictions and not errors:
            return Screen(())
        word = _headline(evictions) if executed else "PLAN"
        title = Title(f"{word}  evict {plural(len(evictions), 'member')} of {group.name}, which is {group.state}")
        table = Table(_COLUMNS, [e.cells for e in evictions], sparse=frozenset({"INSTANCE-ID", "NOTE"}))
        blocks: list[Block] = [title, *([table] if evictions else []), BlankLine()]
        for each in refusals:
            blocks += refusal_block(each, None)
        blocks.append(
            Text(
                (
                    "Eviction is not fencing: a member that is alive joins again within seconds.",
                    "A static member that was stopped does not join again by itself.",
                )
            )
        )
        if executed:
            left = _left(group, evictions, survivors)
            left = left if errors else f"Done. {left}"
            return Screen(
                (
                    *blocks,
                    BlankLine(),
                    Text(
                        (left, f"To see which members join again:  {run.command('describe', group.name, '--members')}")
                    ),
                )
            )
        passing = passing_command(run.command_line, errors, refusals)
        return Screen((*blocks, BlankLine(), Text(closing_lines("To apply", passing))))

    return Outcome(
        data=evictions,
        screen=screen,
        records=lambda: Records(_HEADER, [e.record for e in evictions]),
        cluster=cluster.ref,
        errors=errors,
        executed=executed,
        done=any(eviction.removed for eviction in evictions),
        on_screen=tuple(each.row for each in refusals),
    )


def _headline(evictions: Sequence[Eviction]) -> str:
    errors = [eviction.error for eviction in evictions if eviction.error]
    if not errors:
        return "DONE"
    if any(eviction.removed for eviction in evictions):
        return "PARTLY DONE"
    return "UNKNOWN" if any(error.code == UNKNOWN for error in errors) else "FAILED"


def _left(before: Group, evictions: Sequence[Eviction], after: Group | KgroupError | None) -> str:
    """The group's state right after the eviction, and the members that are back already."""
    if isinstance(after, KgroupError):
        return f"The state of {before.name} after that is unknown: {after.message}."
    if after is None or not after.members:
        return f"{before.name} {'is ' + after.state if after else 'no longer exists'}: no member is left."
    evicted = {e.member.instance_id for e in evictions if e.member.instance_id is not None}
    back = [m for m in after.members if m.instance_id in evicted]
    back_text = f"; joined again: {', '.join(m.client_id for m in back[:3])}" if back else ""
    return f"{before.name} is {after.state} with {plural(len(after.members), 'member')}{back_text}."
