"""The members that ``kgroup evict`` removes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import msgspec

from kgroup.model.groups import Group, Member, MemberToRemove, RowError
from kgroup.support.errors import NotAuthorized, NotFound, UsageError
from kgroup.support.hint import Hint
from kgroup.support.quoting import quote
from kgroup.support.units import some_of

_NAMED = 5


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


def plan_eviction(group: Group, instances: Sequence[str], members: Sequence[str]) -> tuple[Eviction, ...]:
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
