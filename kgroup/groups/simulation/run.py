"""Simulates a change step by step: members that leave and join, rebalances, and partitions that stop meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kgroup.groups.assignors.java_order import member_order
from kgroup.groups.assignors.model import Assigned, AssignorTopic, Subscriber
from kgroup.groups.simulation.member_ids import (
    following_client,
    member_id_like,
    next_instance_id,
    numbers_apart,
    own_client_ids,
)
from kgroup.groups.simulation.model import (
    GroupChange,
    RebalanceStyle,
    RestartStrategy,
    SimulatedGroup,
    Simulation,
    SimulationStep,
    SimulationTiming,
    Standstill,
    StandstillCause,
)
from kgroup.groups.simulation.rebalancing import moves_for_balance, rebalance
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import NotFound


@dataclass(slots=True)
class SimulationRun:
    """A group that changes; ``names`` maps present member ids to those that the members had at the start."""

    group: SimulatedGroup
    timing: SimulationTiming
    seed: int
    names: dict[str, str] = field(init=False)
    steps: list[SimulationStep] = field(default_factory=list)
    settled: bool = True
    _generation: int = 1
    _made_up: int = 0

    def __post_init__(self) -> None:
        self.names = {member.member_id: member.member_id for member in self.group.members}
        self._in_one_generation()

    @property
    def assigned(self) -> Assigned:
        """The present assignment, by the member ids of the start."""
        return {self.names[member.member_id]: tuple(sorted(member.owned)) for member in self.group.members}

    @property
    def instance_ids(self) -> dict[str, str | None]:
        """The instance ids (None: dynamic), by the member ids of the start."""
        return {self.names[member.member_id]: member.instance_id for member in self.group.members}

    def settle(self) -> None:
        """Rebalance without recording a step, to make the state from which a simulation starts."""
        outcome = rebalance(self.group, self._generation)
        self.group = replace(self.group, members=outcome.members)
        self._generation += outcome.rounds

    def grow(self, by: int, grown: Sequence[str] | None) -> None:
        """Add ``by`` partitions to these topics (None: all); classic members notice it minutes later by metadata."""
        topics = tuple(
            _longer(topic, by) if grown is None or topic.name in grown else topic for topic in self.group.topics
        )
        self._rebalance("grow", (), self.group.members, topics)

    def remove(self, leaving: Sequence[Subscriber]) -> None:
        """Remove members: dynamic ones leave at once, static ones are removed when their session ends."""
        dynamic = [member for member in leaving if member.instance_id is None]
        static = [member for member in leaving if member.instance_id is not None]
        if dynamic:
            self._leave("leave", dynamic)
        if static:
            self._add_standstill("away", static, self.timing.session_timeout_s)
            self._leave("expire", static)

    def last_members(self, count: int) -> list[Subscriber]:
        """The last ``count`` members in the order of range and round robin, except that app-10 is after app-9."""
        ordered = sorted(
            self.group.members, key=lambda m: (m.instance_id is None, numbers_apart(m.instance_id or m.member_id))
        )
        return ordered[max(0, len(ordered) - count) :]

    def add(self, count: int) -> None:
        """Start ``count`` members at the same time, similar to the present ones."""
        new: list[Subscriber] = []
        for _ in range(count):
            member = self._new_member((*self.group.members, *new))
            self.names[member.member_id] = member.member_id
            new.append(member)
        self._join(new)

    def kill(self, dying: Sequence[Subscriber]) -> None:
        """Kill members (kill -9); each is replaced at once.

        A static member gets the partitions of its predecessor. A dynamic member's successor triggers a rebalance: in
        a classic group it lasts until the dead session ends; a consumer group serves the new member meanwhile.
        """
        back = {member.member_id: self._restarted(member) for member in dying}
        static = tuple(member.member_id for member in dying if member.instance_id is not None)
        if static:
            members = tuple(
                replace(member, member_id=back[member.member_id].member_id) if member.member_id in static else member
                for member in self.group.members
            )
            self.group = replace(self.group, members=members)
            self.steps.append(
                SimulationStep("kill", tuple(self.names[member_id] for member_id in static), 0, 0, 0, 0, ())
            )
        dead = [member for member in dying if member.instance_id is None]
        if not dead:
            return
        ids = frozenset(member.member_id for member in dead)
        new = [back[member.member_id] for member in dead]
        staying = tuple(member for member in self.group.members if member.member_id not in ids)
        session_s = self.timing.session_timeout_s
        if self.group.style is not RebalanceStyle.CONSUMER:
            self._rebalance("kill", dead, (*staying, *new), self.group.topics, lasting_s=session_s)
            return
        self._add_standstill("kill", dead, session_s, StandstillCause.DEAD)
        self._rebalance("join", new, (*self.group.members, *new), self.group.topics, dead=ids)
        staying = tuple(member for member in self.group.members if member.member_id not in ids)
        self._rebalance("expire", dead, staying, self.group.topics, dead=ids)

    def restart_all(self) -> None:
        """Restart all members one after the other, each after the previous rebalance has ended."""
        for member in self.group.members:
            present = next(other for other in self.group.members if other.member_id == member.member_id)
            self._restart(present)

    def _restart(self, member: Subscriber) -> None:
        timing = self.timing
        again = self._restarted(member)
        if member.instance_id is None:
            self._leave("leave", [member], empty_s=timing.restart_s)
            self._join([again])
        elif timing.restart_s <= timing.session_timeout_s:
            self._add_standstill("away", [member], timing.restart_s)
            # It gets a new member id and its old assignment; the other members do not notice.
            back = replace(member, member_id=again.member_id)
            members = tuple(back if other is member else other for other in self.group.members)
            self.group = replace(self.group, members=members)
        else:
            self._add_standstill("away", [member], timing.session_timeout_s)
            self._leave("expire", [member], empty_s=timing.restart_s - timing.session_timeout_s)
            self._join([again])

    def _restarted(self, member: Subscriber) -> Subscriber:
        """The restarted member, with a new id and no partitions; it keeps its name."""
        member_id = self._new_id(member.member_id, member.instance_id)
        self.names[member_id] = self.names[member.member_id]
        return replace(member, member_id=member_id, owned=(), generation=None, protocol_generation=None)

    def _leave(self, event: str, leaving: Sequence[Subscriber], empty_s: float = 0) -> None:
        leaving_ids = {member.member_id for member in leaving}
        staying = tuple(member for member in self.group.members if member.member_id not in leaving_ids)
        if staying:
            self._rebalance(event, leaving, staying, self.group.topics)
            return
        self.group = replace(self.group, members=())
        self._add_standstill(event, leaving, empty_s, StandstillCause.EMPTY)

    def _join(self, new: Sequence[Subscriber]) -> None:
        self._rebalance("join", new, (*self.group.members, *new), self.group.topics)

    def _add_standstill(
        self, event: str, members: Sequence[Subscriber], seconds: float, cause: StandstillCause = StandstillCause.AWAY
    ) -> None:
        names = self._names(members)
        partitions = sum(len(member.owned) for member in members)
        standstills = (Standstill(names, partitions, seconds, cause),) if seconds > 0 and partitions else ()
        self.steps.append(SimulationStep(event, names, 0, 0, 0, 0, standstills))

    def _rebalance(
        self,
        event: str,
        changed: Sequence[Subscriber],
        members: tuple[Subscriber, ...],
        topics: tuple[AssignorTopic, ...],
        *,
        lasting_s: float | None = None,
        dead: frozenset[str] = frozenset(),
    ) -> None:
        """Rebalance, for at least ``lasting_s``; earlier steps counted partitions of ``dead`` members as stopped."""
        before = _owners(self.group.members)
        before_rebalance = replace(self.group, members=members, topics=topics)
        outcome = rebalance(before_rebalance, self._generation)
        self._generation += outcome.rounds
        self.settled = self.settled and outcome.settled
        self.group = replace(before_rebalance, members=outcome.members)
        after = _owners(self.group.members)
        moved = [p for p, owner in before.items() if p in after and after[p] != owner]
        staying = {member.member_id for member in members}
        moved_from_staying = sum(before[partition] in staying for partition in moved)
        needless = max(0, moved_from_staying - moves_for_balance(before_rebalance)) if moved_from_staying else 0
        stopped = (
            list(before) if self.group.style is RebalanceStyle.EAGER else [p for p in moved if before[p] not in dead]
        )
        standstills = self._standstills(before, stopped, lasting_s)
        self.steps.append(
            SimulationStep(
                event, self._names(changed), outcome.rounds, len(moved), moved_from_staying, needless, standstills
            )
        )

    def _standstills(
        self, before: Mapping[TopicPartition, str], stopped: Sequence[TopicPartition], lasting_s: float | None
    ) -> tuple[Standstill, ...]:
        """The standstill of the ``stopped`` partitions, from their revocation to their new assignment."""
        if not stopped:
            return ()
        # A Counter keeps the members in the order of their partitions, independent of hashes.
        members = tuple(Counter(self.names[before[partition]] for partition in stopped))
        consumer = self.group.style is RebalanceStyle.CONSUMER
        seconds = self.timing.handover_s if consumer else self.timing.rebalance_s
        seconds = max(seconds, lasting_s or 0)
        return (
            Standstill(
                members, len(stopped), seconds, StandstillCause.HANDOVER if consumer else StandstillCause.REBALANCE
            ),
        )

    def _names(self, members: Sequence[Subscriber]) -> tuple[str, ...]:
        return tuple(self.names[member.member_id] for member in members)

    def _new_member(self, members: Sequence[Subscriber]) -> Subscriber:
        """A new member with the most frequent subscription, in the rack with the fewest members, static if all are."""
        instance_ids = [member.instance_id for member in members if member.instance_id is not None]
        instance_id = next_instance_id(instance_ids) if members and len(instance_ids) == len(members) else None
        topics = Counter(member.topics for member in members)
        racks = Counter(member.rack for member in members)
        return Subscriber(
            member_id=self._new_id(self._pattern(members), instance_id),
            instance_id=instance_id,
            topics=topics.most_common(1)[0][0] if topics else frozenset(topic.name for topic in self.group.topics),
            rack=min(racks, key=lambda rack: (racks[rack], rack or ""), default=None),
        )

    def _pattern(self, members: Sequence[Subscriber]) -> str:
        """The member id whose form a new member's id copies.

        If each member has its own client id, that of a new member is unknown. In every second run it is the next
        number (app-2 after app-0 and app-1); in the others it sorts next to one of the present members.
        """
        ids = [member.member_id for member in members]
        if not own_client_ids(ids):
            return ids[0] if ids else ""
        following = None if self.seed % 2 else following_client(ids)
        return ids[self.seed // 2 % len(ids)] if following is None else following

    def _new_id(self, pattern: str, instance_id: str | None) -> str:
        self._made_up += 1
        return member_id_like(pattern, instance_id, self.seed, self._made_up)

    def _in_one_generation(self) -> None:
        """Give all members the same generation, as in a group that is not rebalancing."""
        members = tuple(
            replace(member, generation=self._generation, protocol_generation=self._generation)
            for member in self.group.members
        )
        self.group = replace(self.group, members=members)


def _owners(members: Sequence[Subscriber]) -> dict[TopicPartition, str]:
    return {partition: member.member_id for member in members for partition in member.owned}


def _longer(topic: AssignorTopic, by: int) -> AssignorTopic:
    """The topic with more partitions; we assume that their replicas have the same racks as those of the first ones."""
    racks = topic.replica_racks
    if racks:
        racks += tuple(racks[number % len(racks)] for number in range(by))
    return replace(topic, partitions=topic.partitions + by, replica_racks=racks)


def simulate(group: SimulatedGroup, change: GroupChange, timing: SimulationTiming, seed: int = 0) -> Simulation:
    """Simulate the change.

    ``seed`` selects the invented ids of new and restarted members, on which range, round robin and ties depend.
    Raises NotFound for a name in ``change.leaving`` that is not in the group.

    Example: 12 dynamic members with 48 partitions under range are restarted one by one. That is 24 rebalances, and in
    each of them all 48 partitions stop. If the members are static and return within their session there is no
    rebalance; the 4 partitions of each member stop until it is back.
    """
    run = SimulationRun(_static(group) if change.restart is RestartStrategy.STATIC else group, timing, seed)
    if change.restart is RestartStrategy.DYNAMIC and any(member.instance_id is not None for member in group.members):
        run = SimulationRun(_dynamic(group), timing, seed)
        run.settle()
    before = run.assigned
    if change.more_partitions:
        run.grow(change.more_partitions, change.grown)
    if leaving := _leaving(run, change):
        run.remove(leaving)
    if change.add:
        run.add(change.add)
    if change.kill:
        run.kill(run.last_members(change.kill))
    if change.restart is not None:
        run.restart_all()
    return Simulation(before, run.assigned, tuple(run.steps), run.settled, run.instance_ids)


def running_with(group: SimulatedGroup, protocol: str, assignor: str) -> SimulatedGroup:
    """The group as if it had always used this protocol and assignor, to compare it before any change."""
    other = replace(group, protocol=protocol, assignor=assignor)
    run = SimulationRun(other, SimulationTiming(), 0)
    run.settle()
    return run.group


def _leaving(run: SimulationRun, change: GroupChange) -> list[Subscriber]:
    if not change.leaving:
        return run.last_members(change.remove) if change.remove else []
    members = run.group.members
    unknown = [
        name for name in change.leaving if all(name not in (member.member_id, member.instance_id) for member in members)
    ]
    if unknown:
        raise NotFound(f"the group has no member or instance: {', '.join(unknown)}")
    return [member for member in members if member.member_id in change.leaving or member.instance_id in change.leaving]


def _static(group: SimulatedGroup) -> SimulatedGroup:
    """The group with static members; if a member has no instance id, all get invented ones that keep their order."""
    if all(member.instance_id is not None for member in group.members):
        return group
    rank = {member.member_id: at for at, member in enumerate(sorted(group.members, key=member_order))}
    return replace(
        group,
        members=tuple(replace(member, instance_id=f"{rank[member.member_id]:06}") for member in group.members),
    )


def _dynamic(group: SimulatedGroup) -> SimulatedGroup:
    """The group without instance ids; under range and round robin that is another order of members."""
    return replace(group, members=tuple(replace(member, instance_id=None) for member in group.members))
