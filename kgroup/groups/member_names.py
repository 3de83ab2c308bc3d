"""The names of members on a page."""

from __future__ import annotations

from collections import Counter

from kgroup.model.groups import Group, Member


def member_names(group: Group) -> dict[str, str]:
    """Names by member id: the instance id, otherwise the client id; the member id itself if that is not unique."""
    uses = Counter(_name(member) for member in group.members or ())
    return {
        member.member_id: _name(member) if uses[_name(member)] == 1 else member.member_id
        for member in group.members or ()
    }


def labels(group: Group) -> dict[str, str]:
    """Names for pages that show the host too: one client id on different hosts is unique enough."""
    members = group.members or ()
    uses = Counter((_name(member), member.host) for member in members)
    return {m.member_id: _name(m) if uses[_name(m), m.host] == 1 else m.member_id for m in members}


def _name(member: Member) -> str:
    return member.instance_id or member.client_id or member.member_id
