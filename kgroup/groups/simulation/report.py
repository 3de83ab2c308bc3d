"""The result of a simulation as a value: the compared scenarios and the assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kgroup.groups.assignors.model import Assigned
from kgroup.groups.member_labels import member_names
from kgroup.groups.simulation.lag_effect import LagEffect, MeasuredLag, lag_effect
from kgroup.groups.simulation.model import Balance, GroupChange, RestartStrategy, SimulationTiming
from kgroup.groups.simulation.scenarios import SimulatedScenario, select_scenario
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition


class DurationSources(msgspec.Struct, frozen=True):
    """The source of each duration: ``option``, ``default``, ``log``, ``group`` (its session timeout).

    ``rebalances_seen`` is the number of rebalances whose median is used, None if it is not from the log.
    """

    restart: str
    session: str
    rebalance: str
    handover: str
    rebalances_seen: int | None


class SimulationReport(msgspec.Struct, frozen=True):
    """A group, the change, and the cost of each scenario.

    ``assignor`` is the requested one or None. ``exact_ids``: the topics' ids are known; they decide ties in uniform.
    ``lag`` is the group's lag and rates, None if they were not measured.
    """

    group: Group
    change: GroupChange
    assignor: str | None
    timing: SimulationTiming
    sources: DurationSources
    exact_ids: bool
    played: tuple[SimulatedScenario, ...]
    lag: MeasuredLag | None = None

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
        """The scenario whose assignment is shown."""
        return select_scenario(self.played, self.assignor)

    def document(self) -> dict[str, Any]:
        change, timing, sources = self.change, self.timing, self.sources
        return {
            "group": self.group.name,
            "type": self.group.type,
            "state": self.group.state,
            "assignor": self.group.assignor,
            "change": {
                "added_member_count": change.add,
                "removed_member_count": change.remove or len(change.leaving),
                "killed_member_count": change.kill,
                "removed_members": list(change.leaving),
                "added_partition_count": change.more_partitions,
                "topics": None if change.grown is None else list(change.grown),
                "restart": None if change.restart is None else "rolling",
                "static": change.restart is RestartStrategy.STATIC,
                "assignor": self.assignor,
            },
            "assumed": {
                "restart_ms": round(timing.restart_s * 1000),
                "restart_from": sources.restart,
                "session_timeout_ms": round(timing.session_timeout_s * 1000),
                "session_timeout_from": sources.session,
                "rebalance_ms": round(timing.rebalance_s * 1000),
                "rebalance_from": sources.rebalance,
                "handover_ms": round(timing.handover_s * 1000),
                "handover_from": sources.handover,
                "measured_rebalance_count": sources.rebalances_seen,
                "topic_ids_known": self.exact_ids,
            },
            "lag_effect": None if (effect := self.lag_effect) is None else effect.document(),
            "scenarios": [self._scenario(one, is_shown=one is self.shown_scenario) for one in self.played],
        }

    def _scenario(self, played: SimulatedScenario, *, is_shown: bool) -> dict[str, Any]:
        scenario, first = played.scenario, played.first
        return {
            "scenario": scenario.title,
            "protocol": scenario.group.protocol,
            "assignor": scenario.group.assignor,
            "as_it_is": scenario.as_it_is,
            "static": scenario.change.restart is RestartStrategy.STATIC,
            "shown": is_shown,
            "run_count": len(played.runs),
            "settled": all(run.settled for run in played.runs),
            "rebalance_count": None if played.rebalances is None else played.rebalances,
            "moved_partition_count": played.span(lambda run: run.moved),
            "interrupted_partition_count": played.span(lambda run: run.taken),
            "needless_move_count": played.span(lambda run: run.needless),
            "standstills": [
                {
                    "cause": stop.cause,
                    "duration_ms": round(stop.seconds * 1000),
                    "standstill_count": stop.times,
                    "partition_count": stop.partitions,
                }
                for stop in played.stops
            ],
            "partition_seconds": {
                "least": round(min(run.partition_seconds for run in played.runs), 3),
                "most": round(max(run.partition_seconds for run in played.runs), 3),
            },
            "balance_before": _balance(first.before),
            "balance_after": _balance(first.after),
            "members": [
                {
                    "member_id": line.member_id,
                    "instance_id": line.instance_id,
                    "name": line.name,
                    "new": line.before is None,
                    "assignment_before": _assignment(line.before),
                    "assignment_after": _assignment(line.after),
                }
                for line in member_changes(self.group, played)
            ],
        }


class MemberChange(msgspec.Struct, frozen=True):
    """A member before and after; ``before`` is None for an added member, ``after`` for one that is gone.

    ``member_id`` is None if it is invented.
    """

    member_id: str | None
    instance_id: str | None
    name: str
    before: tuple[TopicPartition, ...] | None
    after: tuple[TopicPartition, ...] | None

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


def _balance(assigned: Assigned) -> dict[str, int]:
    balance = Balance.of(assigned)
    return {
        "member_count": balance.members,
        "idle_member_count": balance.idle,
        "fewest_partition_count": balance.fewest,
        "most_partition_count": balance.most,
    }


def _assignment(partitions: Sequence[TopicPartition] | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]
