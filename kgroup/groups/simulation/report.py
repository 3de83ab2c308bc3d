"""The result of a simulation as a value: the compared scenarios and the assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.groups.assignors.model import Assigned
from kgroup.groups.members import member_names
from kgroup.groups.simulation.model import Balance, GroupChange, RestartStrategy, SimulationTiming
from kgroup.groups.simulation.scenarios import SimulatedScenario, select_scenario
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class DurationSources:
    """The source of each duration: ``option``, ``default``, ``log``, ``group`` (its session timeout).

    ``rebalances_seen`` is the number of rebalances whose median is used, None if it is not from the log.
    """

    restart: str
    session: str
    rebalance: str
    handover: str
    rebalances_seen: int | None


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """A group, the change, and the cost of each scenario.

    ``assignor`` is the requested one or None. ``exact_ids``: the topics' ids are known; they decide ties in uniform.
    """

    group: Group
    change: GroupChange
    assignor: str | None
    timing: SimulationTiming
    sources: DurationSources
    exact_ids: bool
    played: tuple[SimulatedScenario, ...]

    @property
    def shown_scenario(self) -> SimulatedScenario:
        """The scenario whose assignment is shown."""
        return select_scenario(self.played, self.assignor)

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        change, timing, sources = self.change, self.timing, self.sources
        return {
            "group": self.group.name,
            "type": self.group.type,
            "state": self.group.state,
            "assignor": self.group.assignor,
            "change": {
                "add": change.add,
                "remove": change.remove or len(change.leaving),
                "kill": change.kill,
                "leaving": list(change.leaving),
                "partitions": change.more_partitions,
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
                "rebalances_seen": sources.rebalances_seen,
                "topic_ids": self.exact_ids,
            },
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
            "runs": len(played.runs),
            "settled": all(run.settled for run in played.runs),
            "rebalances": None if played.rebalances is None else played.rebalances.document(),
            "moved": played.span(lambda run: run.moved).document(),
            "taken": played.span(lambda run: run.taken).document(),
            "needless": played.span(lambda run: run.needless).document(),
            "standstills": [
                {
                    "cause": stop.cause,
                    "ms": round(stop.seconds * 1000),
                    "times": stop.times.document(),
                    "partitions": stop.partitions.document(),
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
                    "before": _assignment(line.before),
                    "after": _assignment(line.after),
                }
                for line in member_changes(self.group, played)
            ],
        }


@dataclass(frozen=True, slots=True)
class MemberChange:
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
    return {"members": balance.members, "idle": balance.idle, "fewest": balance.fewest, "most": balance.most}


def _assignment(partitions: Sequence[TopicPartition] | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]
