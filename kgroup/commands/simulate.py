"""``kgroup simulate``: the effect of a change of members, partitions or assignor on a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec.structs import replace

from kgroup.cli.panels import what_option, which_option
from kgroup.groups.assignors.model import AssignorTopic
from kgroup.groups.selection import (
    Selection,
    check_expected,
    check_selection,
    names_of,
    names_only,
    select_groups,
    uses_topic,
)
from kgroup.groups.simulation.applications import Application, ApplicationReport, simulate_application
from kgroup.groups.simulation.durations import ChosenDurations, KnownDurations, choose_durations
from kgroup.groups.simulation.lag_effect import MeasuredLag
from kgroup.groups.simulation.model import (
    GroupChange,
    RestartStrategy,
    known_assignors,
    parse_growth,
    parse_removed,
)
from kgroup.groups.simulation.report import SimulationReport
from kgroup.groups.simulation.scenarios import (
    SimulatedScenario,
    SimulationScenario,
    check_assignor,
    scenarios,
    simulate_scenario,
    work_of_scenario,
)
from kgroup.groups.simulation.subject import (
    check_grown,
    check_numbers,
    is_application,
    leavers,
    no_members_error,
    subject_of,
    topics_as_described,
    topics_of,
)
from kgroup.model.groups import Group, ListedGroup, RowError
from kgroup.model.outcome import Outcomes
from kgroup.model.reporter import Reporter
from kgroup.output.pages.simulate import outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import parse_duration
from kgroup.support.errors import KgroupError, NotFound, UsageError
from kgroup.support.sizes import parse_bytes
from kgroup.support.units import plural

_MOST_MEMBERS = 1000
_SLOW = 300_000
"""Work (see ``work_of_scenario``) that takes some seconds."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The changes to simulate, and the assumptions."""

    add: Annotated[
        int | None, what_option("--add", metavar="N", min=1, max=_MOST_MEMBERS, help="Start N more members.")
    ] = None
    remove: Annotated[
        list[str] | None,
        what_option(
            "--remove",
            metavar="N|MEMBER",
            help="Stop N members, or this one by member, instance or client id (repeatable).",
        ),
    ] = None
    kill: Annotated[
        int | None,
        what_option(
            "--kill", metavar="N", min=1, max=_MOST_MEMBERS, help="Kill N members (kill -9), each replaced at once."
        ),
    ] = None
    restart_rolling: Annotated[
        bool, what_option("--restart-rolling", help="Restart all members, one after the other.")
    ] = False
    static: Annotated[bool, what_option("--static", help="Compare with static members (group.instance.id).")] = False
    partitions: Annotated[
        list[str] | None,
        what_option(
            "--partitions", metavar="[TOPIC=]+K", help="Add K partitions to a topic, or to each topic (repeatable)."
        ),
    ] = None
    assignor: Annotated[
        str | None,
        what_option(
            "--assignor",
            metavar="range|roundrobin|sticky|cooperative-sticky|uniform",
            help="Compare with this assignor; without another change, show what a change to it moves.",
        ),
    ] = None
    session_timeout: Annotated[
        str | None,
        what_option(
            "--session-timeout",
            metavar="DURATION",
            help="Time until an absent member is removed (default: that of the group).",
        ),
    ] = None
    restart_time: Annotated[
        str | None,
        what_option(
            "--restart-time",
            metavar="DURATION",
            help="Time from the stop of a member until it joins again (default: 30s).",
        ),
    ] = None
    rebalance_time: Annotated[
        str | None,
        what_option(
            "--rebalance-time",
            metavar="DURATION",
            help="Duration of a rebalance (default: the median of the last day, if the log has it).",
        ),
    ] = None
    restore_rate: Annotated[
        str | None,
        what_option(
            "--restore-rate",
            metavar="SIZE",
            help="Bytes of state that an instance of a Streams application reads a second: 20MB.",
        ),
    ] = None
    from_file: Annotated[
        str | None,
        which_option(
            "--from-file",
            metavar="FILE",
            help="Read groups from kgroup describe -o json (- is stdin); needs no cluster.",
        ),
    ] = None

    def change(self) -> GroupChange:
        """The changes, as far as the command line defines them. Raises UsageError."""
        count, names = parse_removed(self.remove or ())
        more, grown = parse_growth(self.partitions or ())
        if self.static and not self.restart_rolling:
            raise UsageError("--static requires --restart-rolling")
        if self.assignor is not None:
            check_assignor(self.assignor)
        if not (self.add or count or names or self.kill or more or self.restart_rolling or self.assignor is not None):
            raise UsageError(
                "the change to simulate is missing",
                hint="choose one of: --add N, --remove N, --restart-rolling, --partitions +K, --assignor NAME",
            )
        restart = (
            (RestartStrategy.STATIC if self.static else RestartStrategy.AS_THEY_ARE) if self.restart_rolling else None
        )
        return GroupChange(
            add=self.add or 0,
            remove=count,
            kill=self.kill or 0,
            leaving=names,
            more_partitions=more,
            grown=grown,
            restart=restart,
        )

    @property
    def bytes_per_s(self) -> int | None:
        """Raises UsageError for a rate that is no size."""
        return None if self.restore_rate is None else parse_bytes(self.restore_rate, "--restore-rate")

    def durations(self) -> KnownDurations:
        """The durations that the user gave. Raises UsageError."""
        return KnownDurations(
            restart_s=_seconds(self.restart_time, "--restart-time"),
            session_s=_seconds(self.session_timeout, "--session-timeout"),
            rebalance_s=_seconds(self.rebalance_time, "--rebalance-time"),
        )


def simulate(run: Invocation, which: Selection, what_if: SimulationOptions) -> Outcomes:
    """Show what a change of members, partitions or assignor would do.

    It starts from the live assignment, with Kafka's own assignors, and compares ways to make the change. It shows how
    often the group rebalances, what moves, and which partitions pause and for how long. "Needlessly" is more than
    balance requires. It also estimates the lag, at the present rate of the members. Nothing is changed.

    Several changes are made in this order: partitions, members removed, added, killed, restarted.

    Of a Streams application it shows the tasks that move, and the bytes of state that its instances read for them.
    Instances are added and removed. --restore-rate shows how long they read.

    Examples:
    # two more members
    kgroup simulate orders-svc --add 2
    # a rolling restart, with and without static members
    kgroup simulate orders-svc --restart-rolling --static --session-timeout 60s
    # one member less, and more partitions
    kgroup simulate orders-svc --remove orders-7 --partitions orders=+12
    # another assignor
    kgroup simulate orders-svc --assignor cooperative-sticky
    # one more instance of a Streams application
    kgroup simulate counts --add 1 --restore-rate 50MB
    # without a cluster, from a saved description
    kgroup simulate --from-file orders-svc.json --add 2 --assignor uniform

    Exit codes: 0 2 3 4 5 6 7 9

    Rights: as describe
    """
    check_selection(which)
    what_if.change()  # usage errors come before any request
    durations = what_if.durations()
    bytes_per_s = what_if.bytes_per_s
    if what_if.from_file is not None:
        groups = _worth(run.reporter, which, _from_file(which, what_if.from_file))
        with_topics = [(group, topics_as_described(group)) for group in groups]
        yield from _outcomes(run.reporter, what_if, _Subjects(with_topics, exact_ids=False))
        return
    from kgroup.cluster.snapshot import Cluster, SnapshotRequest
    from kgroup.queries.applications import read_applications
    from kgroup.queries.simulation import read_durations, read_lags, read_topics
    from kgroup.queries.snapshots import snapshots

    request = SnapshotRequest(logs=False, generation_budget_s=0, streams=True, changelogs=True)
    with Cluster(run.settings) as cluster:
        something = False
        for snapshot in snapshots(run.reporter, cluster, which, request, verb="simulate"):
            something = something or bool(snapshot.groups or snapshot.errors)
            chosen = _worth(run.reporter, which, snapshot.groups)
            streams = [group for group in chosen if is_application(group)]
            groups = [group for group in chosen if not is_application(group)]
            if streams:
                read = read_applications(run.reporter, cluster, streams)
                yield from _applications(streams, read, what_if, bytes_per_s, cluster.ref)
            topics, errors = read_topics(cluster, groups)
            known = [(group, topics[group.name]) for group in groups if group.name in topics]
            times = read_durations(run.reporter, cluster, [group for group, _ in known], durations)
            lags = read_lags(run.reporter, cluster, [group.name for group, _ in known if group.members])
            # Unreadable offsets matter only for groups without members, whose topics only the offsets show.
            told = {group.name for group, _ in known if group.members}
            all_errors = (*(error for error in snapshot.errors if error.group not in told), *errors)
            yield from _outcomes(run.reporter, what_if, _Subjects(known, True, times, lags, cluster.ref, all_errors))
        if not something:
            run.reporter.note("nothing to do: no group is chosen")


def _applications(
    groups: Sequence[Group],
    read: Mapping[str, Application | KgroupError],
    what_if: SimulationOptions,
    bytes_per_s: int | None,
    cluster: ClusterRef,
) -> Outcomes:
    """One outcome per Streams application, and one for the errors."""
    errors = []
    for group in groups:
        application = read[group.name]
        try:
            if isinstance(application, KgroupError):
                raise application
            change, runs = simulate_application(application, what_if.change(), what_if.assignor)
        except KgroupError as error:
            errors.append(RowError.of(error, group=group.name))
            continue
        yield outcome([ApplicationReport(application, group, change, runs, bytes_per_s)], (), cluster)
    if errors:
        yield outcome((), tuple(errors), cluster)


class _Subjects(msgspec.Struct, frozen=True):
    """Groups with their topics and durations; ``cluster`` is None if the groups come from a file."""

    groups: Sequence[tuple[Group, Sequence[AssignorTopic]]]
    exact_ids: bool
    times: Mapping[str, KnownDurations] = msgspec.field(default_factory=dict)
    lags: Mapping[str, MeasuredLag] = msgspec.field(default_factory=dict)
    cluster: ClusterRef | None = None
    errors: tuple[RowError, ...] = ()


def _outcomes(reporter: Reporter, what_if: SimulationOptions, subjects: _Subjects) -> Outcomes:
    """One outcome per group, and one for the errors."""
    change, given, errors = what_if.change(), what_if.durations(), subjects.errors
    for group, topics in subjects.groups:
        timing = choose_durations(group.type, given, subjects.times.get(group.name, KnownDurations()))
        try:
            exactly, ways = _ways(group, topics, change, what_if.assignor)
        except UsageError:
            raise
        except KgroupError as error:
            errors += (RowError.of(error, group=group.name),)
            continue
        played = _play(reporter, group, ways, timing)
        report = SimulationReport(
            group,
            exactly,
            what_if.assignor,
            timing.timing,
            timing.sources,
            subjects.exact_ids,
            played,
            subjects.lags.get(group.name),
        )
        yield outcome([report], (), subjects.cluster)
    if errors:
        yield outcome((), errors, subjects.cluster)


def _ways(
    group: Group, topics: Sequence[AssignorTopic], change: GroupChange, assignor: str | None
) -> tuple[GroupChange, tuple[SimulationScenario, ...]]:
    """The change with its members resolved, and the scenarios to compare. Raises if the change is impossible."""
    subject = subject_of(group, topics, assignor)
    if not subject.members and (_needs_members(change) or not change.add):
        raise no_members_error(group)
    if not subject.topics:
        if not topics_of(group):
            raise NotFound(f"{group.name} is {group.state} and has no commits: the topics that it reads are unknown")
        raise NotFound(f"{group.name}: none of the topics that it reads exists")
    check_grown(group, change.grown or (), {topic.name: topic for topic in topics})
    exactly = replace(change, leaving=leavers(group, change.leaving))
    check_numbers(group, exactly)
    is_known = group.assignor in known_assignors(subject.protocol)
    return exactly, scenarios(subject, exactly, assignor, is_known)


def _play(
    reporter: Reporter, group: Group, ways: Sequence[SimulationScenario], timing: ChosenDurations
) -> tuple[SimulatedScenario, ...]:
    """Play each scenario, with progress if that takes seconds."""
    slow = sum(work_of_scenario(way) for way in ways) > _SLOW
    shows = reporter.progress(f"simulating {group.name}", len(ways), "ways") if slow else nullcontext()
    played = []
    with shows as progress:
        for way in ways:
            played.append(simulate_scenario(way, timing.timing))
            if progress is not None:
                progress.update(len(played))
    return tuple(played)


def _needs_members(change: GroupChange) -> bool:
    return bool(change.remove or change.leaving or change.kill or change.restart)


def _worth(reporter: Reporter, which: Selection, groups: Sequence[Group]) -> list[Group]:
    """The groups, without unnamed ones that have no members: there is no member to restart."""
    if names_only(which):
        return list(groups)
    there = [group for group in groups if not group.is_empty or group.name in names_of(which)]
    if len(there) < len(groups):
        reporter.note(f"{plural(len(groups) - len(there), 'group')} left out: no members")
    return there


def _from_file(which: Selection, path: str) -> list[Group]:
    from kgroup.groups.described_file import parse_described
    from kgroup.support.input_file import read_text, source_name

    groups = parse_described(read_text(path, "--from-file"), source_name(path))
    listed = [ListedGroup(group.name, group.type, group.state, group.protocol_type, None) for group in groups]
    choice = select_groups(which, listed, source_name(path))
    if choice.missing:
        raise choice.missing
    chosen = {group.name for group in choice.groups}
    asked = [group for group in groups if group.name in chosen and (not which.topic or uses_topic(group, which.topics))]
    check_expected(which, len(asked))
    return asked


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else parse_duration(text, option)
