"""The page of a simulation: the scenarios compared, each member's partitions before and after, the assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kgroup.groups.assignors.model import Assigned
from kgroup.groups.lag.rates import rate_words, span_words
from kgroup.groups.simulation.applications import ApplicationReport
from kgroup.groups.simulation.documents import SimulationDocument, application_document, simulation_document
from kgroup.groups.simulation.lag_effect import LagEffect
from kgroup.groups.simulation.member_ids import numbers_apart
from kgroup.groups.simulation.model import Balance, RebalanceStyle, RestartStrategy, StandstillCause
from kgroup.groups.simulation.report import MemberChange, SimulationReport, member_changes
from kgroup.groups.simulation.scenarios import RUNS, SimulatedScenario, Stop
from kgroup.model.blocks import (
    BlankLine,
    Block,
    Cell,
    Column,
    LabelledLine,
    Prose,
    Records,
    Screen,
    Styled,
    Table,
    Text,
    Title,
)
from kgroup.model.groups import RowError
from kgroup.model.outcome import Outcome
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.simulate_application import application_page, state_text, stops_text
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import format_duration
from kgroup.support.units import human_count, plural

_MEMBERS_ON_A_PAGE = 20
_SCENARIO_COLUMNS = (
    Column("SCENARIO", fold=True),
    Column("REBALANCES", right=True),
    Column("MOVED", right=True),
    Column("NEEDLESS", right=True, drop=2),
    Column("BALANCE", drop=1),
    Column("STANDSTILLS", fold=True),
    Column("PARTITION-SECONDS", right=True, wide=True),
    Column("RUNS", right=True, wide=True),
)
_MEMBER_COLUMNS = (
    Column("MEMBER", fold=True),
    Column("MEMBER-ID", wide=True),
    Column("BEFORE", right=True),
    Column("AFTER", right=True),
    Column("GETS", right=True, drop=2),
    Column("GIVES", right=True, drop=1),
    Column("HAD", wide=True, fold=True),
    Column("HAS", wide=True, fold=True),
)
_HEADER = (
    "group",
    "scenario",
    "protocol",
    "assignor",
    "rebalance_count_least",
    "rebalance_count_most",
    "moved_partition_count_least",
    "moved_partition_count_most",
    "needless_move_count_least",
    "needless_move_count_most",
    "partition_seconds_least",
    "partition_seconds_most",
    "member_count_after",
    "idle_member_count_after",
    "fewest_partition_count_after",
    "most_partition_count_after",
    "standstills",
    "run_count",
)


Simulated = SimulationReport | ApplicationReport


def outcome(reports: Sequence[Simulated], errors: tuple[RowError, ...], cluster: ClusterRef | None) -> Outcome:
    """Simulated groups as the command's outcome; ``cluster`` is None if no cluster was asked."""
    return Outcome(
        data=tuple(map(_document, reports)),
        screen=lambda: screen(reports),
        records=lambda: Records(_HEADER, [row for report in reports for row in _records(report)]),
        cluster=cluster,
        errors=errors,
    )


def _document(report: Simulated) -> SimulationDocument:
    return application_document(report) if isinstance(report, ApplicationReport) else simulation_document(report)


def screen(reports: Sequence[Simulated]) -> Screen:
    """The groups, one page each."""
    blocks: list[Block] = []
    for report in reports:
        blocks += [BlankLine()] if blocks else []
        blocks += application_page(report) if isinstance(report, ApplicationReport) else _page(report)
    return Screen(tuple(blocks))


def _page(report: SimulationReport) -> Iterator[Block]:
    yield Title(f"{report.group.name}  {_size(report)}, {change_text(report)}")
    yield Table(_SCENARIO_COLUMNS, [_scenario_row(simulated) for simulated in report.played])
    changes = member_changes(report.group, report.shown_scenario)
    if any(line.gets or line.gives for line in changes):
        yield BlankLine()
        yield from _member_blocks(report, changes)
    elif changes:
        yield Text(("no member gets or loses a partition",))
    if (effect := report.lag_effect) is not None:
        yield LabelledLine("LAG", lag_text(effect))
    yield Prose(tuple(_notes(report)), 2)


def _size(report: SimulationReport) -> str:
    before = report.shown_scenario.first.before
    topics = report.played[0].scenario.group.topics
    return f"{plural(len(before), 'member')}, {plural(sum(topic.partitions for topic in topics), 'partition')}"


def change_text(report: SimulationReport) -> str:
    """``rolling restart``, ``1 member added``, ``6 partitions added to each topic``."""
    change, parts = report.change, []
    if change.more_partitions:
        to = "each topic" if change.grown is None else ", ".join(change.grown)
        parts.append(f"{plural(change.more_partitions, 'partition')} added to {to}")
    if removed := change.remove or len(change.leaving):
        parts.append(f"{plural(removed, 'member')} removed")
    if change.add:
        parts.append(f"{plural(change.add, 'member')} added")
    if change.kill:
        parts.append(f"{plural(change.kill, 'member')} killed and replaced")
    if change.restart is not None:
        parts.append("rolling restart")
    return ", then ".join(parts) or f"to {report.shown_scenario.scenario.title}"


def _scenario_row(played: SimulatedScenario) -> tuple[Cell, ...]:
    needless = played.span(lambda run: run.needless)
    rebalances = played.rebalances
    seconds = sorted(run.partition_seconds for run in played.runs)
    return (
        played.scenario.title,
        None if rebalances is None else rebalances.text,
        played.span(lambda run: run.moved).text,
        Styled(needless.text, "warn") if needless.most else needless.text,
        balance_text(played.first.balance_after),
        standstill_text(played),
        f"{seconds[0]:.0f}" if f"{seconds[0]:.0f}" == f"{seconds[-1]:.0f}" else f"{seconds[0]:.0f}-{seconds[-1]:.0f}",
        len(played.runs),
    )


def balance_text(balance: Balance) -> str:
    """Partitions per member at the end: ``4 each``, ``3 to 4``, ``0 to 1, 2 idle``."""
    if not balance.member_count:
        return "no members"
    fewest, most = balance.fewest_partition_count, balance.most_partition_count
    idle = f", {balance.idle_member_count} idle" if balance.idle_member_count else ""
    return (f"{most} each" if fewest == most else f"{fewest} to {most}") + idle


def standstill_text(played: SimulatedScenario) -> str | None:
    """``all 48 partitions for 8s, 24 times`` (several joined by ``;``), or ``nothing``.

    None for a switch of assignor: unknown.
    """
    if played.scenario.switched_from:
        return None
    total = sum(len(partitions) for partitions in played.first.before.values())
    return "; ".join(_stop_text(stop, total) for stop in played.stops) or "nothing"


def _stop_text(stop: Stop, total: int) -> str:
    partitions, times = stop.partitions, stop.times
    count = f"all {total}" if partitions.least == partitions.most == total and total > 1 else partitions.text
    noun = "partition" if partitions.most == 1 else "partitions"
    repeats = "" if times.least == times.most == 1 else f", {times.text} times"
    at_most = "up to " if stop.cause is StandstillCause.HANDOVER else ""
    return f"{count} {noun} for {at_most}{format_duration(stop.seconds)}{repeats}"


def _member_blocks(report: SimulationReport, changes: Sequence[MemberChange]) -> Iterator[Block]:
    ranked = sorted(changes, key=lambda line: (line.before is None, numbers_apart(line.name)))
    if len(ranked) > _MEMBERS_ON_A_PAGE:
        ranked.sort(key=lambda line: -(line.gets + line.gives))
    yield Table(_MEMBER_COLUMNS, [_member_row(line) for line in ranked[:_MEMBERS_ON_A_PAGE]])
    if (omitted := len(ranked) - _MEMBERS_ON_A_PAGE) > 0:
        yield Text((f"{omitted} more: -o json has all of them",))


def _member_row(line: MemberChange) -> tuple[Cell, ...]:
    return (
        line.name,
        line.member_id,
        None if line.before is None else len(line.before),
        Styled("gone", "dim") if line.after is None else len(line.after),
        line.gets,
        line.gives,
        partitions_text(line.before),
        partitions_text(line.after),
    )


def partitions_text(partitions: Sequence[TopicPartition] | None) -> str | None:
    """``orders:0-3,7;clicks:1``; None if the member does not exist."""
    if partitions is None:
        return None
    by_topic: dict[str, list[int]] = {}
    for topic, number in partitions:
        by_topic.setdefault(topic, []).append(number)
    return ";".join(f"{topic}:{_spans(numbers)}" for topic, numbers in by_topic.items())


def _spans(numbers: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _notes(report: SimulationReport) -> Iterator[str]:
    played = report.shown_scenario
    if not played.first.after:
        yield "no member is left: no partition is read"
    if idle := idle_text(played.first.after):
        yield idle
    if any(not run.settled for simulated in report.played for run in simulated.runs):
        yield "cooperative-sticky was not settled after 20 rebalances"
    yield "assumed: " + ", ".join(_assumptions(report))
    if reading_notes := list(_reading_notes(report)):
        yield "; ".join(reading_notes)


def lag_text(effect: LagEffect) -> str:
    """What the change does to the lag.

    ``203k, 49/s arrive (10m), 4 members read 10/s each: 6 members would read 60/s and catch up in 5h``.
    """
    measured, needed = effect.measured, effect.needed_per_member_s
    arriving = measured.rates.incoming
    if arriving is None:
        return "the effect is unknown, because the rate of arriving records is unknown"
    known = "unknown" if measured.lag is None else human_count(measured.lag)
    arrive = f"{rate_words(arriving)} {'arrive' if arriving else 'arrives'}{span_words(measured.rates.span_ms)}"
    parts = [f"{known}, {arrive}"]
    if effect.per_member_s is not None:
        each = "" if effect.reading_before == 1 else " each"
        verb = "reads" if effect.reading_before == 1 else "read"
        parts.append(f"{plural(effect.reading_before, 'member')} {verb} {rate_words(effect.per_member_s)}{each}")
    else:
        parts.append("the rate of its members is unknown")
    text = f"{', '.join(parts)}: {_afterwards(effect, needed)}"
    return f"{text}; {human_count(effect.standstill)} arrive during standstills" if effect.standstill else text


def _afterwards(effect: LagEffect, needed_s: float | None) -> str:
    """``6 members would read 60/s and catch up in 5h``."""
    after, growth = effect.reading_after, effect.growth_per_s
    if not after:
        return "no member would read"
    if effect.out_after_per_s is None or growth is None:
        noun = "1 member" if after == 1 else f"each of {after} members"
        return f"{noun} would have to read {rate_words(needed_s or 0)}"
    would = f"{plural(after, 'member')} would read {rate_words(effect.out_after_per_s)}"
    if effect.caught_up_s is not None:
        return f"{would} and catch up in {format_duration(effect.caught_up_s)}"
    return f"{would}, so that the lag grows by {rate_words(growth)}" if growth > 0 else f"{would}, as much as arrives"


def idle_text(after: Assigned) -> str | None:
    """``idle: 1 of 13 members has no partition, because there are only 12``; None if each member has one."""
    idle = sum(not partitions for partitions in after.values())
    if not idle or idle == len(after):
        return None
    there = sum(map(len, after.values()))
    why = f", because there are only {there}" if there < len(after) else ""
    return f"idle: {idle} of {len(after)} members {'has' if idle == 1 else 'have'} no partition{why}"


def _reading_notes(report: SimulationReport) -> Iterator[str]:
    """How to interpret the numbers."""
    played = report.shown_scenario
    if any(line.gets or line.gives for line in member_changes(report.group, played)) and len(report.played) > 1:
        yield f"members under {played.scenario.title}"
    if any(not simulated.scenario.as_it_is and not simulated.scenario.switched_from for simulated in report.played):
        yield "other assignors as if the group had always used them"
    if played.scenario.switched_from:
        yield "members keep partitions where the new assignor allows it; restarts for the switch are not counted"
    runs = [len(simulated.runs) for simulated in report.played if simulated.scenario.change.makes_up_ids]
    if runs and max(runs) > 1:
        yield f"new member ids are invented: least to most of {max(runs)} runs"
    elif runs:
        yield f"new member ids are invented: one outcome of many ({RUNS} runs would take too long)"
    if any(simulated.scenario.group.protocol == "classic" for simulated in report.played):
        yield "classic assignors as in the Java client"
    if not report.exact_ids and any(simulated.scenario.group.assignor == "uniform" for simulated in report.played):
        yield "uniform depends on topic ids, which the file does not have: it may choose other partitions"


def _assumptions(report: SimulationReport) -> Iterator[str]:
    timing, sources = report.timing, report.sources
    styles = {simulated.scenario.group.style for simulated in report.played}
    restarts = [simulated.scenario.change.restart for simulated in report.played]
    statics = any(member.instance_id is not None for member in report.group.members or ())
    if any(restarts):
        yield f"restart time {format_duration(timing.restart_s)}{_default_text(sources.restart)}"
    if RestartStrategy.STATIC in restarts or statics or report.change.kill:
        source = {"group": " (the group's)", "default": " (default)"}.get(sources.session, "")
        yield f"session timeout {format_duration(timing.session_timeout_s)}{source}"
    if styles - {RebalanceStyle.CONSUMER}:
        text = f"rebalance time {format_duration(timing.rebalance_s)}"
        yield text + _source_text(sources.rebalance, sources.rebalances_seen)
    if RebalanceStyle.CONSUMER in styles:
        text = f"handover of a partition {format_duration(timing.handover_s)}"
        yield text + _source_text(sources.handover, sources.rebalances_seen)


def _source_text(source: str, rebalances: int | None) -> str:
    return f" (median of the last {rebalances})" if source == "log" else _default_text(source)


def _default_text(source: str) -> str:
    return " (default)" if source == "default" else ""


def _records(report: Simulated) -> Iterator[tuple[str | int | None, ...]]:
    if isinstance(report, ApplicationReport):
        yield _application_record(report)
        return
    for played in report.played:
        moved, needless = played.span(lambda run: run.moved), played.span(lambda run: run.needless)
        seconds = [run.partition_seconds for run in played.runs]
        balance, rebalances = played.first.balance_after, played.rebalances
        yield (
            report.group.name,
            played.scenario.title,
            played.scenario.group.protocol,
            played.scenario.group.assignor,
            None if rebalances is None else rebalances.least,
            None if rebalances is None else rebalances.most,
            moved.least,
            moved.most,
            needless.least,
            needless.most,
            f"{min(seconds):g}",
            f"{max(seconds):g}",
            balance.member_count,
            balance.idle_member_count,
            balance.fewest_partition_count,
            balance.most_partition_count,
            standstill_text(played),
            len(played.runs),
        )


def _application_record(report: ApplicationReport) -> tuple[str | int | None, ...]:
    moved, needless = report.span(lambda run: run.moved), report.span(lambda run: run.needless)
    counts = [len(each.active) for each in report.first.after.values()]
    return (
        report.group.name,
        f"as it is ({report.application.assignor})",
        report.group.type,
        report.application.assignor,
        None,
        None,
        moved.least,
        moved.most,
        needless.least,
        needless.most,
        None,
        None,
        len(counts),
        counts.count(0),
        min(counts),
        max(counts),
        f"{state_text(report)}; {stops_text(report)}",
        len(report.runs),
    )
