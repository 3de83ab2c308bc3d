"""One fold of a group's events, in log order: its state, its members, and since when it has no consumer.

``groups/state_from_log`` adds the commits, and the state at a time.

A conversion deletes the records of the group's old type, and writes those of the new one at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from kgroup.groups.commit_tags import CatchupCommitTag
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationWritten,
    GroupDeleted,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    Partitions,
    RebalanceProtocol,
    SpareTasks,
    TargetEpochWritten,
    TargetWritten,
    TopologyWritten,
)
from kgroup.model.groups import Group
from kgroup.model.migration_facts import holds_group

T = TypeVar("T")


@dataclass(slots=True)
class GroupTimeline:
    """A group after the events that were added; it takes them in any order and never raises."""

    members_known: bool = False
    """Whether ``consumers`` are all. Before the first generation or deletion, a range of the log does not tell."""
    classic: GenerationWritten | None = None
    epoch: EpochWritten | None = None
    """The newest one of a consumer, share or streams group."""
    topology: TopologyWritten | None = None
    gone_at: int | None = None
    """Log offset of the newest record that deleted the group, or converted it from a type."""
    target_epoch: int | None = None
    details: dict[str, MemberDetails] = field(default_factory=dict)
    """The members but those of a classic group, which are in ``classic``."""
    targets: dict[str, Partitions] = field(default_factory=dict)
    target_spares: dict[str, SpareTasks] = field(default_factory=dict)
    holdings: dict[str, MemberAssignment] = field(default_factory=dict)
    assigned_ms: int | None = None
    """When a target or a member's assignment was last written in the present epoch."""
    consumers: set[str] = field(default_factory=set)
    """Ids of the members that are there, but for kgroup's own: it holds the group, and reads nothing."""
    idle_since_ms: int | None = None
    """Since when there are no consumers; None if there are, or if it is not known."""
    _begun: bool = False
    _before_deletion: tuple[int, int | None] | None = None

    def add(self, event: Event) -> None:
        """Add the next event. Of the commits only those that kgroup marked matter."""
        match event:
            case CommitWritten(metadata=metadata):
                if CatchupCommitTag.of(metadata) is not None:
                    self._note_hold()
            case GenerationWritten():
                self._add_generation(event)
            case EpochWritten():
                self.epoch, self.assigned_ms = event, None
                if not self._begun:
                    self.idle_since_ms = event.at_ms
            case GroupDeleted():
                self._delete(event)
            case _:
                self._add_of_consumers(event)

    def _add_of_consumers(self, event: Event) -> None:
        match event:
            case MemberWritten(details=None):
                self._remove_member(event)
            case MemberWritten(details=MemberDetails() as details):
                self._add_member(event, details)
            case TargetEpochWritten():
                self.target_epoch, self.assigned_ms = event.epoch, event.at_ms
            case TargetWritten():
                _put(self.targets, event.member_id, event.partitions)
                _put(self.target_spares, event.member_id, event.spares)
            case MemberAssignmentWritten():
                _put(self.holdings, event.member_id, event.holding)
                self.assigned_ms = event.at_ms
            case TopologyWritten():
                self.topology = event
            case _:
                pass

    @property
    def empty(self) -> bool:
        """Whether the group is known to have no consumer."""
        return self.members_known and not self.consumers

    @property
    def newest_state(self) -> GenerationWritten | EpochWritten | None:
        """The newest record of the group's type and state; None if there is none."""
        states = [state for state in (self.classic, self.epoch) if state is not None]
        return max(states, key=lambda state: state.log_offset, default=None)

    def state_since_ms(self, group: Group) -> int | None:
        """The time of the newest record that can have caused the group's present state; None if not known.

        A classic group is Stable since the record of its generation. A consumer group is Assigning or Reconciling since
        its last group epoch, and Stable since the last record of any of its members' assignments. A group is Empty
        since its last consumer left.
        """
        match group.type, group.state:
            case _, _ if group.is_empty:
                return self.idle_since_ms
            case "classic", "Stable" if self.classic is not None and self.classic.members:
                return self.classic.at_ms
            case "consumer", "Stable":
                return self.assigned_ms
            case "consumer", "Assigning" | "Reconciling" if self.epoch is not None:
                return self.epoch.at_ms
        return None

    def emptied_record_ms(self, group: Group) -> int | None:
        """The time of the record from which the broker counts how long an Empty group is Empty; None if not known.

        It is later than the last consumer's departure if kgroup's own member has held the group since.
        """
        state = self.epoch if group.type == "consumer" else self.classic
        return None if state is None or (state is self.classic and self.classic.members) else state.at_ms

    def _add_generation(self, record: GenerationWritten) -> None:
        self.classic = record
        here = {m.member_id for m in record.members if not holds_group(m.member_id, m.instance_id)}
        self._note_consumers(record.at_ms, here, held=bool(record.members))
        self.members_known = True

    def _add_member(self, record: MemberWritten, details: MemberDetails) -> None:
        self.details[record.member_id] = details
        held = holds_group(record.member_id, details.instance_id)
        self._note_consumers(record.at_ms, self.consumers if held else self.consumers | {record.member_id}, held=held)

    def _note_consumers(self, at_ms: int, here: set[str], *, held: bool) -> None:
        """``held`` is whether kgroup's own member is there."""
        if here:
            self.idle_since_ms = None
        elif self.consumers or not (self._begun or held):
            self.idle_since_ms = at_ms
        elif self._before_deletion is not None:
            deleted_ms, idle_since_ms = self._before_deletion
            if deleted_ms == at_ms:
                self.idle_since_ms = idle_since_ms
            self._before_deletion = None
        self.consumers, self._begun = here, True

    def _remove_member(self, record: MemberWritten) -> None:
        member_id = record.member_id
        details = self.details.pop(member_id, None)
        if holds_group(member_id, None if details is None else details.instance_id):
            self._note_hold()
            return
        self.consumers.discard(member_id)
        if not self.consumers:
            self.idle_since_ms = record.at_ms

    def _note_hold(self) -> None:
        """Kgroup held the group, as its only member: there were no consumers."""
        self._begun = self.members_known = True

    def _delete(self, record: GroupDeleted) -> None:
        if record.protocol is RebalanceProtocol.CLASSIC:
            self.classic = None
        else:
            self.epoch = self.topology = self.target_epoch = self.assigned_ms = None
            for by_member in (self.details, self.targets, self.holdings):
                by_member.clear()
        self.gone_at = record.log_offset
        self._before_deletion = record.at_ms, self.idle_since_ms
        self.idle_since_ms, self.consumers = None, set()
        self._begun = self.members_known = True


def _put(into: dict[str, T], member_id: str, value: T | None) -> None:
    if value is None:
        into.pop(member_id, None)
    else:
        into[member_id] = value
