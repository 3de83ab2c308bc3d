"""Why a group is not, or no longer, held by us alone: what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.cluster.membership.requests import INSTANCE_ID
from kgroup.model.groups import Member
from kgroup.support.errors import KgroupError, Refused, Unreachable
from kgroup.support.quoting import quote
from kgroup.support.units import plural

_NAMED = 5


def others_in(seen: GroupDescription) -> tuple[Member, ...]:
    """The members that are no run of a catch-up."""
    return tuple(member for member in seen.members or () if member.instance_id != INSTANCE_ID)


def not_empty(group: str, others: Iterable[Member]) -> Refused:
    """Somebody else is in the group, or was a moment ago."""
    members = [f"{member.instance_id or member.client_id} on {member.host}" for member in others]
    more = f", and {plural(len(members) - _NAMED, 'more member')}" if len(members) > _NAMED else ""
    named = ", ".join(members[:_NAMED]) or "whom the broker does not name (yet, or any more)"
    return Refused(
        f"{group} is not empty, so its offsets can't be moved: {named}{more}",
        code="not-empty",
        hint=f"stop who is there; when it is Empty: kgroup wait {quote(group)} --for empty",
    )


def superseded(group: str) -> Refused:
    """Our member is none any more."""
    return Refused(
        f"{group} is not held by this run any more: another run took it over, or this one stood still for too long",
        code="superseded",
        hint=f"what is known of it, and who works on it: kgroup catchup list {quote(group)}",
    )


def unknown_outcome(group: str, reason: KgroupError) -> Unreachable:
    """No answer came to a commit."""
    return Unreachable(
        f"it is unknown whether offsets of {group} were moved: {reason.message}",
        code="outcome-unknown",
        hint=f"kgroup catchup resume {quote(group)} --execute finds it in the group's history, and goes on",
    )
