"""Names of members: the same name after a restart, different names for members present at the same time.

A static member is named by its instance id. A dynamic member gets a new member id at each restart. It is therefore
named by its client id, unless two members shared it at the same time; else with its host, else by its member id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgroup.model.group_log import Event, GenerationWritten, GroupDeleted, MemberDetails, MemberWritten

_MEMBER_ID_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Label:
    """The fields of a member from which its name is made."""

    instance_id: str | None
    client_id: str
    host: str


def names_of(events: Iterable[Event]) -> Mapping[str, str]:
    """Member id -> name, for every member in the events."""
    room = _Room()
    for event in events:
        match event:
            case GenerationWritten(members=members):
                room.only({m.member_id: Label(m.instance_id, m.client_id, m.host) for m in members})
            case MemberWritten(member_id=member_id, details=None):
                room.leave(member_id)
            case MemberWritten(member_id=member_id, details=MemberDetails() as said):
                room.enter(member_id, Label(said.instance_id, said.client_id, said.host))
            case GroupDeleted():
                room.only({})
            case _:
                pass
    names = {member_id: _name(member_id, label, room.crowded) for member_id, label in room.labels.items()}
    return _distinct(names, room.labels)


class _Room:
    """The members present at one time; ``crowded`` are client ids, or client id and host, that two of them shared."""

    def __init__(self) -> None:
        self.labels: dict[str, Label] = {}
        self.crowded: set[object] = set()
        self._present: dict[str, Label] = {}
        self._uses: dict[object, int] = {}

    def only(self, members: Mapping[str, Label]) -> None:
        for member_id in self._present.keys() - members.keys():
            self.leave(member_id)
        for member_id, label in members.items():
            if label != self._present.get(member_id):
                self.enter(member_id, label)

    def enter(self, member_id: str, label: Label) -> None:
        """Add a member, or replace its label."""
        self.leave(member_id)
        self._present[member_id] = self.labels[member_id] = label
        for key in _keys(label):
            self._uses[key] = self._uses.get(key, 0) + 1
            if self._uses[key] > 1:
                self.crowded.add(key)

    def leave(self, member_id: str) -> None:
        if (label := self._present.pop(member_id, None)) is not None:
            for key in _keys(label):
                self._uses[key] -= 1


def _keys(label: Label) -> tuple[object, ...]:
    if label.instance_id is not None:
        return ()
    return label.client_id, (label.client_id, label.host)


def _name(member_id: str, label: Label, crowded: set[object]) -> str:
    if label.instance_id is not None:
        return label.instance_id
    if label.client_id and label.client_id not in crowded:
        return label.client_id
    if (label.client_id, label.host) not in crowded:
        return f"{label.client_id}@{label.host}"
    return short_id(member_id, label.client_id)


def short_id(member_id: str, client_id: str) -> str:
    """``app-1f2e3d4c``: the client id and the first 8 characters of the member id's random part."""
    rest = member_id.removeprefix(f"{client_id}-")
    return f"{client_id}-{rest[:_MEMBER_ID_SHOWN]}" if client_id else rest[:_MEMBER_ID_SHOWN]


def _distinct(names: dict[str, str], labels: Mapping[str, Label]) -> dict[str, str]:
    """Use the full member id if a name belongs to different members, or equals the instance id of another one."""
    owners: dict[str, set[object]] = {}
    for member_id, name in names.items():
        label = labels[member_id]
        shared: object = member_id
        if label.instance_id is not None:
            shared = ("instance", label.instance_id)
        elif name in (label.client_id, f"{label.client_id}@{label.host}"):
            shared = ("client", name)
        owners.setdefault(name, set()).add(shared)
    return {
        member_id: name if len(owners[name]) == 1 or labels[member_id].instance_id is not None else member_id
        for member_id, name in names.items()
    }
