"""The JSON of a simulation. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from kgroup.groups.simulation.application_documents import SimulatedTasks, simulated_tasks
from kgroup.groups.simulation.applications import ApplicationReport
from kgroup.groups.simulation.lag_effect import LagEffect
from kgroup.groups.simulation.model import Balance, RestartStrategy, StandstillCause
from kgroup.groups.simulation.report import DurationSource, Restart, SimulationReport, member_changes
from kgroup.groups.simulation.scenarios import CountRange, SimulatedScenario, Stop
from kgroup.model.group_log import RebalanceProtocol
from kgroup.model.groups import Assignment, TopicPartitions
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.json_types import Count, Ms, PerSecond


class SimulatedChange(msgspec.Struct, frozen=True):
    """The change that is simulated."""

    added_member_count: Annotated[Count, "Members, or instances of a Streams application, that are added."]
    removed_member_count: Annotated[Count, "Members or instances that leave."]
    killed_member_count: Annotated[Count, "Members that die."]
    removed_members: Annotated[tuple[str, ...], "Names of those that leave."]
    added_partition_count: Annotated[Count, "Partitions that are added."]
    topics: Annotated[tuple[str, ...] | None, "Topics that grow; null for all."]
    restart: Annotated[Restart | None, "How instances restart; null without a restart."]
    static: Annotated[bool, "Whether members are static after the restart."]
    assignor: Annotated[str | None, "The assignor that was asked for."]


class SimulatedDurations(msgspec.Struct, frozen=True):
    """The durations that a simulation assumes."""

    restart_ms: Annotated[Ms, "How long an instance is away."]
    restart_from: Annotated[DurationSource, "Where restart_ms is from."]
    session_timeout_ms: Annotated[Ms, "The session timeout."]
    session_timeout_from: Annotated[DurationSource, "Where session_timeout_ms is from."]
    rebalance_ms: Annotated[Ms, "The duration of a classic rebalance."]
    rebalance_from: Annotated[DurationSource, "Where rebalance_ms is from."]
    handover_ms: Annotated[Ms, "The duration of a handover in a consumer group."]
    handover_from: Annotated[DurationSource, "Where handover_ms is from."]
    measured_rebalance_count: Annotated[
        Count | None, "Rebalances whose median is used; null if it is not from the log."
    ]
    topic_ids_known: Annotated[bool, "Whether topic ids are known; they decide ties of the assignor uniform."]


class LagEffectDocument(msgspec.Struct, frozen=True):
    """What a change does to the lag."""

    lag: Annotated[Count | None, "Unread offsets before the change."]
    keeps_up: Annotated[bool, "Whether the group reads all that arrives."]
    in_per_s: Annotated[PerSecond | None, "Offsets that producers write."]
    out_per_s: Annotated[PerSecond | None, "Offsets that the group commits."]
    rate_span_ms: Annotated[Ms | None, "The span of time that the rates are measured over."]
    reading_member_count_before: Annotated[Count, "Members with partitions before the change."]
    reading_member_count_after: Annotated[Count, "Members with partitions after the change."]
    out_per_member_per_s: Annotated[PerSecond | None, "Offsets that a member commits before the change."]
    needed_per_member_per_s: Annotated[
        PerSecond | None, "Offsets that a member must commit so that the lag does not grow."
    ]
    out_after_per_s: Annotated[PerSecond | None, "Offsets that the group would commit after the change."]
    standstill_offset_count: Annotated[Count | None, "Offsets that arrive in partitions while no member reads them."]
    caught_up_in_ms: Annotated[
        Ms | None, "Time until nothing is unread; null if it does not catch up at this rate, and for unknown."
    ]


class NumberRange(msgspec.Struct, frozen=True):
    """The smallest and the largest number over all runs."""

    least: Annotated[float, "The least over all runs."]
    most: Annotated[float, "The most over all runs."]


class StandstillDocument(msgspec.Struct, frozen=True):
    """Standstills of one cause and length."""

    cause: Annotated[StandstillCause, "Why the partitions are not read."]
    duration_ms: Annotated[Ms, "How long."]
    standstill_count: Annotated[CountRange, "How often."]
    partition_count: Annotated[CountRange, "Partitions at a time."]


class SimulatedMember(msgspec.Struct, frozen=True):
    """A member before and after the change."""

    member_id: Annotated[str | None, "The member id; null if it is invented."]
    instance_id: Annotated[str | None, "group.instance.id of a static member."]
    name: Annotated[str, "The member's name."]
    new: Annotated[bool, "Whether the change adds it."]
    assignment_before: Annotated[tuple[TopicPartitions, ...] | None, "Partitions before; null for a new member."]
    assignment_after: Annotated[tuple[TopicPartitions, ...] | None, "Partitions after; null for a member that is gone."]


class ScenarioDocument(msgspec.Struct, frozen=True):
    """A scenario with its result."""

    scenario: Annotated[str, "The title."]
    protocol: Annotated[str, RebalanceProtocol, "The rebalance protocol."]
    assignor: Annotated[str, "The assignor."]
    as_it_is: Annotated[bool, "Whether it is the group as it is."]
    static: Annotated[bool, "Whether members are static."]
    shown: Annotated[bool, "Whether it is the one that the page shows."]
    run_count: Annotated[Count, "Number of simulated runs."]
    settled: Annotated[bool, "Whether each run ended in a settled assignment."]
    rebalance_count: Annotated[CountRange | None, "Rebalances; null in the consumer protocol."]
    moved_partition_count: Annotated[CountRange, "Partitions that changed their member."]
    interrupted_partition_count: Annotated[CountRange, "Partitions that were taken from a member that stayed."]
    needless_move_count: Annotated[CountRange, "Moves that a better assignment would avoid."]
    standstills: Annotated[tuple[StandstillDocument, ...], "Times when partitions are not read."]
    partition_seconds: Annotated[NumberRange, "Partitions that are not read, times the seconds of that."]
    balance_before: Annotated[Balance, "Partitions of members before."]
    balance_after: Annotated[Balance, "Partitions of members after."]
    members: Annotated[tuple[SimulatedMember, ...], "Members before and after, in the first run."]


class SimulationDocument(msgspec.Struct, frozen=True):
    """A group of a simulation."""

    group: Annotated[str, "The group."]
    type: Annotated[str, "classic, consumer or streams."]
    state: Annotated[str, "The state, as the broker reports it."]
    assignor: Annotated[str | None, "The assignor that the group has."]
    change: Annotated[SimulatedChange, "The change that is simulated."]
    assumed: Annotated[SimulatedDurations | None, "Durations, and where each is from; null for a Streams application."]
    lag_effect: Annotated[LagEffectDocument | None, "What the change does to the lag; null if that was not measured."]
    scenarios: Annotated[tuple[ScenarioDocument, ...], "The scenarios that are compared; none for an application."]
    tasks: Annotated[SimulatedTasks | None, "The tasks of a Streams application; null for another group."] = None


def application_document(report: ApplicationReport) -> SimulationDocument:
    group, application, change = report.group, report.application, report.change
    return SimulationDocument(
        group=group.name,
        type=group.type,
        state=group.state,
        assignor=group.assignor,
        change=SimulatedChange(
            added_member_count=change.add,
            removed_member_count=len(change.leaving),
            killed_member_count=0,
            removed_members=tuple(application.names[process] for process in change.leaving),
            added_partition_count=0,
            topics=None,
            restart=None,
            static=False,
            assignor=None,
        ),
        assumed=None,
        lag_effect=None,
        scenarios=(),
        tasks=simulated_tasks(report),
    )


def simulation_document(report: SimulationReport) -> SimulationDocument:
    group, effect = report.group, report.lag_effect
    return SimulationDocument(
        group=group.name,
        type=group.type,
        state=group.state,
        assignor=group.assignor,
        change=_change(report),
        assumed=_durations(report),
        lag_effect=None if effect is None else lag_effect_document(effect),
        scenarios=tuple(_scenario(report, played) for played in report.played),
    )


def _change(report: SimulationReport) -> SimulatedChange:
    change = report.change
    return SimulatedChange(
        added_member_count=change.add,
        removed_member_count=change.remove or len(change.leaving),
        killed_member_count=change.kill,
        removed_members=change.leaving,
        added_partition_count=change.more_partitions,
        topics=change.grown,
        restart=None if change.restart is None else Restart.ROLLING,
        static=change.restart is RestartStrategy.STATIC,
        assignor=report.assignor,
    )


def _durations(report: SimulationReport) -> SimulatedDurations:
    timing, sources = report.timing, report.sources
    return SimulatedDurations(
        restart_ms=_ms(timing.restart_s),
        restart_from=sources.restart,
        session_timeout_ms=_ms(timing.session_timeout_s),
        session_timeout_from=sources.session,
        rebalance_ms=_ms(timing.rebalance_s),
        rebalance_from=sources.rebalance,
        handover_ms=_ms(timing.handover_s),
        handover_from=sources.handover,
        measured_rebalance_count=sources.rebalances_seen,
        topic_ids_known=report.exact_ids,
    )


def lag_effect_document(effect: LagEffect) -> LagEffectDocument:
    measured = effect.measured
    return LagEffectDocument(
        lag=measured.lag,
        keeps_up=measured.keeps_up,
        in_per_s=_rounded(measured.rates.incoming),
        out_per_s=_rounded(measured.rates.outgoing),
        rate_span_ms=measured.rates.span_ms,
        reading_member_count_before=effect.reading_before,
        reading_member_count_after=effect.reading_after,
        out_per_member_per_s=_rounded(effect.per_member_s),
        needed_per_member_per_s=_rounded(effect.needed_per_member_s),
        out_after_per_s=_rounded(effect.out_after_per_s),
        standstill_offset_count=effect.standstill,
        caught_up_in_ms=None if effect.caught_up_s is None else _ms(effect.caught_up_s),
    )


def _scenario(report: SimulationReport, played: SimulatedScenario) -> ScenarioDocument:
    scenario, first = played.scenario, played.first
    seconds = [run.partition_seconds for run in played.runs]
    return ScenarioDocument(
        scenario=scenario.title,
        protocol=scenario.group.protocol,
        assignor=scenario.group.assignor,
        as_it_is=scenario.as_it_is,
        static=scenario.change.restart is RestartStrategy.STATIC,
        shown=played is report.shown_scenario,
        run_count=len(played.runs),
        settled=all(run.settled for run in played.runs),
        rebalance_count=played.rebalances,
        moved_partition_count=played.span(lambda run: run.moved),
        interrupted_partition_count=played.span(lambda run: run.taken),
        needless_move_count=played.span(lambda run: run.needless),
        standstills=tuple(map(_standstill, played.stops)),
        partition_seconds=NumberRange(round(min(seconds), 3), round(max(seconds), 3)),
        balance_before=first.balance_before,
        balance_after=first.balance_after,
        members=tuple(
            SimulatedMember(
                member_id=line.member_id,
                instance_id=line.instance_id,
                name=line.name,
                new=line.before is None,
                assignment_before=_assignment(line.before),
                assignment_after=_assignment(line.after),
            )
            for line in member_changes(report.group, played)
        ),
    )


def _standstill(stop: Stop) -> StandstillDocument:
    return StandstillDocument(stop.cause, _ms(stop.seconds), stop.times, stop.partitions)


def _assignment(partitions: Iterable[TopicPartition] | None) -> Assignment | None:
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return tuple(TopicPartitions(topic, tuple(numbers)) for topic, numbers in by_topic.items())


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 3)
