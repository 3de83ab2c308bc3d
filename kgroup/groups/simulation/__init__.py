"""Simulates a change of a group: assignments, rebalances, moved partitions, standstills. Nothing is changed.

Assignments are Kafka's own (kgroup.groups.assignors). Which members stop, and how often, was measured on Kafka 4.3.1.
An added member costs an eager group one rebalance, in which all members stop. It costs a cooperative group two
rebalances, and a consumer group one epoch. The restart of a dynamic member costs these groups two, three and two; that
of a static member that is back within its session costs none.
"""

from __future__ import annotations

from dataclasses import replace

from kgroup.groups.assignors.java_order import member_order
from kgroup.groups.assignors.model import Subscriber
from kgroup.groups.simulation.model import GroupChange, RestartStrategy, SimulatedGroup, Simulation, Timing
from kgroup.groups.simulation.run import SimulationRun
from kgroup.support.errors import NotFound


def simulate(group: SimulatedGroup, change: GroupChange, timing: Timing, seed: int = 0) -> Simulation:
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
    run = SimulationRun(other, Timing(), 0)
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
        raise NotFound(f"not a member or instance of the group: {', '.join(unknown)}")
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
