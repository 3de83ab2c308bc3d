"""The result of a simulation as a value: the compared scenarios and the assumptions."""

from __future__ import annotations

import msgspec

from kgroup.groups.member_labels import member_names
from kgroup.groups.simulation.lag_effect import LagEffect, MeasuredLag, lag_effect
from kgroup.groups.simulation.model import GroupChange, SimulationTiming
from kgroup.groups.simulation.scenarios import SimulatedScenario, select_scenario
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_types import ExplainedEnum


class Restart(ExplainedEnum):
    """How instances restart."""

    ROLLING = "rolling", "one instance after the other"


class DurationSource(ExplainedEnum):
    """Where a duration is from."""

    OPTION = "option", "an option"
    DEFAULT = "default", "the default"
    LOG = "log", "measured in __consumer_offsets"
    GROUP = "group", "a setting of the group"


class DurationSources(msgspec.Struct, frozen=True):
    """The source of each duration."""

    restart: DurationSource
    session: DurationSource
    rebalance: DurationSource
    handover: DurationSource
    rebalances_seen: int | None
    """The number of rebalances whose median is used; None if it is not from the log."""


class SimulationReport(msgspec.Struct, frozen=True):
    """A group, the change, and the cost of each scenario."""

    group: Group
    change: GroupChange
    assignor: str | None
    """The requested one."""
    timing: SimulationTiming
    sources: DurationSources
    exact_ids: bool
    """Whether the topics' ids are known; they decide ties in uniform."""
    played: tuple[SimulatedScenario, ...]
    lag: MeasuredLag | None = None
    """None: not measured."""

    @property
    def lag_effect(self) -> LagEffect | None:
        """What the shown scenario does to the lag; None if that was not measured."""
        if self.lag is None:
            return None
        played = self.shown_scenario
        partitions = sum(topic.partitions for topic in played.scenario.group.topics)
        seconds = max(run.partition_seconds for run in played.runs)
        return lag_effect(self.lag, played.first.balance_before, played.first.balance_after, partitions, seconds)

    @property
    def shown_scenario(self) -> SimulatedScenario:
        return select_scenario(self.played, self.assignor)


class MemberChange(msgspec.Struct, frozen=True):
    """A member before and after."""

    member_id: str | None
    """None if it is invented."""
    instance_id: str | None
    name: str
    before: tuple[TopicPartition, ...] | None
    """None for an added member."""
    after: tuple[TopicPartition, ...] | None
    """None for one that is gone."""

    @property
    def gets(self) -> int:
        """Number of partitions that the member did not have before."""
        return len(set(self.after or ()).difference(self.before or ()))

    @property
    def gives(self) -> int:
        """Number of partitions that the member no longer has."""
        return len(set(self.before or ()).difference(self.after or ()))


def member_changes(group: Group, played: SimulatedScenario) -> tuple[MemberChange, ...]:
    """Every member in the first run: present members in the order of the description, then added ones."""
    before, after = played.first.before, played.first.after
    names, instances = member_names(group), {m.member_id: m.instance_id for m in group.members or ()}
    there = [
        MemberChange(member_id, instances.get(member_id), names.get(member_id, member_id), had, after.get(member_id))
        for member_id, had in before.items()
    ]
    # Instance ids that were invented for a group with dynamic members are not shown as names.
    static = bool(instances) and all(instances.values())
    added = []
    for number, member_id in enumerate((one for one in after if one not in before), 1):
        instance_id = played.first.instance_ids.get(member_id) if static else None
        added.append(MemberChange(None, instance_id, instance_id or f"new-{number}", None, after[member_id]))
    return (*there, *added)
