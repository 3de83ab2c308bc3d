"""The errors for a group that has other members, is held by another run, or did not answer a commit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.model.groups import Member
from kgroup.model.migration_facts import CATCHUP_INSTANCE_ID
from kgroup.support.errors import NOT_EMPTY, SUPERSEDED, KgroupError, Refused, Unreachable
from kgroup.support.hint import Hint
from kgroup.support.units import plural

_NAMED = 5


def others_in(description: GroupDescription) -> tuple[Member, ...]:
    """The members that are not kgroup catch-up runs."""
    return tuple(member for member in description.members or () if member.instance_id != CATCHUP_INSTANCE_ID)


def format_members(names: Sequence[str]) -> str:
    """The first five names and the number of the others, such as ``a on h1, b on h2``; empty if there are none."""
    more = f", and {plural(len(names) - _NAMED, 'more member')}" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def not_empty(group: str, others: Iterable[Member]) -> Refused:
    """The refusal for a group that has other members. ``others`` is empty if this user may not see them."""
    names = [f"{member.instance_id or member.client_id} on {member.host}" for member in others]
    named = format_members(names) or "this user may not see its members"
    return Refused(
        f"{group} is not empty, so its offsets cannot be moved: {named}",
        code=NOT_EMPTY,
        hint=Hint("stop its members; when it is Empty: {}", ("wait", group, "--for", "empty")),
    )


def superseded(group: str) -> Refused:
    """The refusal when this run's member is no longer in the group."""
    return Refused(
        f"{group} is no longer owned by this run: another run took it over, or this one paused for too long",
        code=SUPERSEDED,
        hint=Hint("its plans, and who runs them: {}", ("catchup", "list", group)),
    )


def interrupted(group: str) -> Unreachable:
    """The error when the coordinator dropped kgroup's own member, and no other member is in the group."""
    return Unreachable(
        f"the coordinator of {group} did not keep kgroup's member, and no other member is in the group: a broker may "
        "have failed, or another kgroup run removed that member",
        hint="run the same command again",
    )


def unknown_commit_outcome(group: str, reason: KgroupError) -> Unreachable:
    """The error when a commit got no response."""
    return Unreachable(
        f"it is unknown whether offsets of {group} were moved: {reason.message}",
        code="outcome-unknown",
        hint=Hint("{} finds out from the group's history, and continues", ("catchup", "resume", group, "--execute")),
    )
