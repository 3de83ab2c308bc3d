"""What the steps of both protocols share: names of members, owners of partitions, evidence from commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from kgroup.groups.timeline.commit_evidence import CommitEvidence
from kgroup.groups.timeline.steps import Cause, Reason
from kgroup.model.group_log import (
    Event,
    GenerationWritten,
    GroupDeleted,
    MemberDetails,
    MemberWritten,
    Partitions,
    RebalanceProtocol,
)
from kgroup.model.topic_partition import TopicPartition

_MEMBER_ID_SHOWN = 8


class MemberLabel(msgspec.Struct, frozen=True):
    """The fields of a member from which its name is made."""

    instance_id: str | None
    client_id: str
    host: str


def names_of(events: Iterable[Event]) -> Mapping[str, str]:
    """Member id -> name, for every member in the events: equal after a restart, different for members at one time.

    A static member is named by its instance id. A dynamic member gets a new member id at each restart. It is therefore
    named by its client id, unless two members shared it at the same time; else with its host, else by its member id.
    """
    present = _PresentMembers()
    for event in events:
        match event:
            case GenerationWritten(members=members):
                present.only({m.member_id: MemberLabel(m.instance_id, m.client_id, m.host) for m in members})
            case MemberWritten(member_id=member_id, details=None):
                present.leave(member_id)
            case MemberWritten(member_id=member_id, details=MemberDetails() as said):
                present.enter(member_id, MemberLabel(said.instance_id, said.client_id, said.host))
            case GroupDeleted():
                present.only({})
            case _:
                pass
    names = {member_id: _name(member_id, label, present.crowded) for member_id, label in present.labels.items()}
    return _distinct(names, present.labels)


class _PresentMembers:
    """The members present at one time; ``crowded`` are client ids, or client id and host, that two of them shared."""

    def __init__(self) -> None:
        self.labels: dict[str, MemberLabel] = {}
        self.crowded: set[object] = set()
        self._present: dict[str, MemberLabel] = {}
        self._uses: dict[object, int] = {}

    def only(self, members: Mapping[str, MemberLabel]) -> None:
        for member_id in self._present.keys() - members.keys():
            self.leave(member_id)
        for member_id, label in members.items():
            if label != self._present.get(member_id):
                self.enter(member_id, label)

    def enter(self, member_id: str, label: MemberLabel) -> None:
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


def _keys(label: MemberLabel) -> tuple[object, ...]:
    if label.instance_id is not None:
        return ()
    return label.client_id, (label.client_id, label.host)


def _name(member_id: str, label: MemberLabel, crowded: set[object]) -> str:
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


def _distinct(names: dict[str, str], labels: Mapping[str, MemberLabel]) -> dict[str, str]:
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


Identity: TypeAlias = tuple[str, str]


def identity(member_id: str, instance_id: str | None) -> Identity:
    """The identity of a member across restarts: its instance id if it is static, else its member id."""
    return ("member", member_id) if instance_id is None else ("instance", instance_id)


class PartitionMoves(msgspec.Struct, frozen=True):
    """How many partitions changed their owner, and how many of these although the old owner stayed in the group."""

    moved: int
    needlessly: int


class Ownership:
    """The last known owner of every partition.

    If a static member comes back with a new member id to the same partitions, nothing has moved. A dynamic member that
    restarts is a new member, because the state of the old one is lost.
    """

    def __init__(self) -> None:
        self._last: dict[TopicPartition, Identity] = {}
        self._known = False

    def assign(self, assigned: Mapping[Identity, Partitions | None]) -> PartitionMoves | None:
        """Record a new assignment of all members; return its moves, None if it or the one before it is not known.

        A partition without an earlier owner (new, or first read) does not count as moved. One that was unassigned in
        between (cooperative rebalance) counts if it goes to another member.
        """
        known = self._known and None not in assigned.values()
        moved = needless = 0
        for owner, partitions in assigned.items():
            for tp in partitions or ():
                before = self._last.get(tp)
                if before is not None and before != owner:
                    moved += 1
                    needless += before in assigned
                self._last[tp] = owner
        self._known = True
        return PartitionMoves(moved, needless) if known else None

    def all_left(self) -> None:
        """Forget dynamic members: the group is empty, and only static members can come back."""
        self._last = {tp: owner for tp, owner in self._last.items() if owner[0] == "instance"}

    def reset(self) -> None:
        """Forget all owners: the group is new or was recreated, so that no partition had an owner before."""
        self._last.clear()
        self._known = True


class ProtocolSwitch(msgspec.Struct, frozen=True):
    """A group that has just switched to protocol ``to``; ``members`` is member id -> instance id before the switch.

    ``to`` is CONSUMER for a streams group too, None for a group that can only be deleted.
    """

    to: RebalanceProtocol | None
    members: Mapping[str, str | None]

    @property
    def cause(self) -> Cause:
        """DOWNGRADED to the classic protocol, or UPGRADED."""
        return Cause.DOWNGRADED if self.to is RebalanceProtocol.CLASSIC else Cause.UPGRADED


@dataclass(slots=True)
class HistoryContext:
    """The context of one group; ``session_ms`` is the session timeout that is set for it, None if unknown."""

    names: Mapping[str, str]
    evidence: CommitEvidence
    session_ms: int | None
    ownership: Ownership = field(default_factory=Ownership)

    def name(self, member_id: str) -> str:
        """The member's name, or its id if it has none."""
        return self.names.get(member_id, member_id)

    def named(self, member_ids: Iterable[str]) -> tuple[str, ...]:
        """The names of members, sorted, each once."""
        return tuple(sorted({self.name(member_id) for member_id in member_ids}))


def reasons(
    context: HistoryContext, by_cause: Mapping[Cause, Iterable[str]], inferred: frozenset[Cause] = frozenset()
) -> tuple[Reason, ...]:
    """The causes with the names of their members, in the order of the causes."""
    return tuple(
        Reason(cause, context.named(by_cause[cause]), cause in inferred) for cause in Cause if cause in by_cause
    )
