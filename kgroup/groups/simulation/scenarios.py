"""The scenarios of a change that are compared, each simulated with many invented member ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kgroup.groups.assignors import CLIENT_SIDE, SERVER_SIDE
from kgroup.groups.simulation.model import (
    SERVER_DEFAULT,
    GroupChange,
    RebalanceStyle,
    RestartStrategy,
    SimulatedGroup,
    Simulation,
    SimulationStep,
    SimulationTiming,
    StandstillCause,
    known_assignors,
)
from kgroup.groups.simulation.run import running_with, simulate
from kgroup.support.errors import UsageError
from kgroup.support.json_types import Count

RUNS = 20
_MOST_WORK = 200_000
"""The limit of members and partitions processed in all runs of a scenario: about three seconds."""


class SimulationScenario(msgspec.Struct, frozen=True):
    """One scenario; ``group`` is its state before the change, ``as_it_is`` whether that is the live assignment.

    ``switched_from`` is the group with its old assignor if another assignor is the only change, else None.
    """

    group: SimulatedGroup
    change: GroupChange
    as_it_is: bool
    switched_from: SimulatedGroup | None = None

    @property
    def title(self) -> str:
        """``as it is (range)``, ``static``, ``cooperative-sticky``, ``consumer protocol (uniform)``."""
        name = self.group.assignor if self.group.protocol == "classic" else f"consumer protocol ({self.group.assignor})"
        static = self.change.restart is RestartStrategy.STATIC
        if self.as_it_is:
            return "static" if static else f"as it is ({self.group.assignor})"
        return f"{name}, static" if static else name


class CountRange(msgspec.Struct, frozen=True):
    """The smallest and the largest value of a number over all runs."""

    least: Annotated[Count, "The least over all runs."]
    most: Annotated[Count, "The most over all runs."]

    @property
    def text(self) -> str:
        """``24``, or ``24-36`` if the runs differ."""
        return str(self.least) if self.least == self.most else f"{self.least}-{self.most}"


class Stop(msgspec.Struct, frozen=True):
    """Standstills of one cause and length over all runs: how many times, and of how many partitions."""

    cause: StandstillCause
    seconds: float
    times: CountRange
    partitions: CountRange


class SimulatedScenario(msgspec.Struct, frozen=True):
    """A scenario with the result of each run; ``runs`` differ in member ids that cannot be known beforehand."""

    scenario: SimulationScenario
    runs: tuple[Simulation, ...]

    @property
    def first(self) -> Simulation:
        """The run whose assignment is shown."""
        return self.runs[0]

    def span(self, of: Callable[[Simulation], int]) -> CountRange:
        numbers = [of(run) for run in self.runs]
        return CountRange(min(numbers), max(numbers))

    @property
    def rebalances(self) -> CountRange | None:
        """Number of rebalances; None for a change of assignor, which is done by stopping or two rolling restarts."""
        return None if self.scenario.switched_from else self.span(lambda run: run.rebalances)

    @property
    def stops(self) -> tuple[Stop, ...]:
        """The standstills by cause and length, in the order of their first occurrence."""
        kinds = dict.fromkeys((stop.cause, stop.seconds) for run in self.runs for stop in run.stops)
        all_stops = []
        for cause, seconds in kinds:
            alike = [
                [stop for stop in run.stops if (stop.cause, stop.seconds) == (cause, seconds)] for run in self.runs
            ]
            times = [sum(stop.times for stop in stops) for stops in alike]
            sizes = [size for stops in alike for stop in stops for size in (stop.fewest, stop.most)]
            all_stops.append(
                Stop(cause, seconds, CountRange(min(times), max(times)), CountRange(min(sizes), max(sizes)))
            )
        return tuple(all_stops)


def scenarios(
    group: SimulatedGroup, change: GroupChange, assignor: str | None, known: bool
) -> tuple[SimulationScenario, ...]:
    """The scenarios to compare: the group as it is, with static members, and with other assignors.

    ``assignor`` is the one that the user asked for; its scenarios come last. Without it the usual remedies are added:
    cooperative-sticky and the consumer protocol. ``known`` is whether the group's own assignor is one of Kafka's; a
    group without members may have none yet. Raises UsageError for an ``assignor`` that is not one of Kafka's.
    """
    requested = None if assignor is None else _find_assignor(assignor, group.protocol)
    if assignor is not None and requested and _changes_nothing(change):
        other = running_with(group, *requested)
        return (SimulationScenario(other, change, as_it_is=False, switched_from=group),)
    plain = replace(change, restart=RestartStrategy.AS_THEY_ARE) if change.restart else change
    ways = [plain] if plain == change else [plain, change]
    compared = [SimulationScenario(group, way, as_it_is=known) for way in ways] if known or not group.members else []
    if requested is not None:
        if not compared or requested != (group.protocol, group.assignor):
            other = running_with(group, *requested)
            compared += [SimulationScenario(other, way, as_it_is=False) for way in ways]
        return tuple(compared)
    remedies = [("consumer", SERVER_DEFAULT)]
    if group.protocol == "classic":
        remedies.insert(0, ("classic", "cooperative-sticky"))
    others = [remedy for remedy in remedies if remedy != (group.protocol, group.assignor)]
    return (*compared, *(SimulationScenario(running_with(group, *other), plain, as_it_is=False) for other in others))


def select_scenario(played: Sequence[SimulatedScenario], assignor: str | None) -> SimulatedScenario:
    """The scenario whose assignment is shown: the last of ``assignor``, if given, else of the group's own assignor."""
    as_it_is = [one for one in played if one.scenario.as_it_is]
    return played[-1] if assignor is not None else (as_it_is or played[:1])[-1]


def simulate_scenario(scenario: SimulationScenario, timing: SimulationTiming) -> SimulatedScenario:
    """Simulate a scenario: once, or 20 times if ids are invented, fewer times if that would take long."""
    if scenario.switched_from is not None:
        return SimulatedScenario(scenario, (_switch(scenario.switched_from, scenario.group),))
    runs = max(1, min(RUNS, _MOST_WORK // work_of_scenario(scenario))) if scenario.change.makes_up_ids else 1
    return SimulatedScenario(
        scenario, tuple(simulate(scenario.group, scenario.change, timing, seed) for seed in range(runs))
    )


def work_of_scenario(scenario: SimulationScenario) -> int:
    """The size of one run: members and partitions, times the number of rebalances."""
    group, change = scenario.group, scenario.change
    each = max(1, len(group.members) + change.add) + sum(topic.partitions for topic in group.topics)
    rounds = 2 if group.style is RebalanceStyle.COOPERATIVE else 1
    return each * rounds * (1 + (2 * len(group.members) if change.restart in (RestartStrategy.AS_THEY_ARE,) else 0))


def check_assignor(assignor: str) -> None:
    """Raise UsageError, with a similar name if there is one, for an assignor that is not one of Kafka's."""
    names = dict.fromkeys((*CLIENT_SIDE, *SERVER_SIDE))
    if assignor not in names:
        from difflib import get_close_matches

        near = get_close_matches(assignor.lower(), names, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(names)}"
        raise UsageError(f"--assignor {assignor}: Kafka has no assignor of this name", hint=hint)


def _find_assignor(assignor: str, protocol: str) -> tuple[str, str]:
    """Protocol and name of an assignor; the group's own protocol is preferred."""
    check_assignor(assignor)
    if assignor in known_assignors(protocol):
        return protocol, assignor
    return ("consumer" if assignor in SERVER_SIDE else "classic"), assignor


def _changes_nothing(change: GroupChange) -> bool:
    return not (
        change.add or change.remove or change.kill or change.leaving or change.more_partitions or change.restart
    )


def _switch(before: SimulatedGroup, after: SimulatedGroup) -> Simulation:
    """The difference of the assignments under two assignors, with the same members."""
    had = {member.member_id: tuple(sorted(member.owned)) for member in before.members}
    has = {member.member_id: tuple(sorted(member.owned)) for member in after.members}
    moved = sum(len(set(partitions).difference(has[member_id])) for member_id, partitions in had.items())
    return Simulation(had, has, (SimulationStep("switch", (), 0, moved, moved, 0, ()),), settled=True)
