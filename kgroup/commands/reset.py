"""``kgroup reset``: move committed offsets; the plan is shown first, and only --execute changes anything."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from kgroup.catchup.service.pending import warn_of_plans
from kgroup.changes.execute import ChangeContext, execute_plan
from kgroup.changes.options import Change
from kgroup.changes.preconditions import check_some_named, prepare_change, wait_empty
from kgroup.changes.reset import plan_reset
from kgroup.changes.save_skipped import check_apart, check_target, preview, save_skipped, skipped_table
from kgroup.changes.select_groups import reload_groups, select_groups
from kgroup.cli.help_parts import WHAT
from kgroup.cluster.topics import TopicLayout
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, committed
from kgroup.groups.change_result import Refusal, Result
from kgroup.groups.foreign_owners import foreign_owner, refuse_foreign_owner
from kgroup.groups.reset_plan import ResetRequest, filter_partitions
from kgroup.groups.reset_targets import (
    ResetScenario,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToRequested,
    ToTime,
    parse_ago,
    parse_moment,
    parse_offset,
    parse_topics,
)
from kgroup.groups.selection import Groups, check_groups, check_topics, names_of
from kgroup.model.blocks import Block, Text
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.output.pages.change import Wording, outcome
from kgroup.output.pages.reset import repeatable_command, subject, target_time
from kgroup.queries.log_options import FromLog
from kgroup.queries.offset_file import read_offsets
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_now
from kgroup.support.errors import KgroupError, UsageError
from kgroup.support.units import plural

_ONLY = ("out-of-range",)
WHERE = "Where to"


@dataclass(frozen=True, slots=True)
class ResetTargetOptions:
    """Where the offsets go: exactly one of these."""

    to_earliest: Annotated[bool, typer.Option("--to-earliest", rich_help_panel=WHERE, help="To the log start.")] = False
    to_latest: Annotated[bool, typer.Option("--to-latest", rich_help_panel=WHERE, help="To the log end.")] = False
    to_current: Annotated[
        bool,
        typer.Option("--to-current", rich_help_panel=WHERE, help="As they are, committed again; else the log end."),
    ] = False
    to_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--to-offset",
            metavar="OFFSET",
            rich_help_panel=WHERE,
            help="To this offset; or to each partition's own: orders:0=17,orders:1=20.",
        ),
    ] = None
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", metavar="N", rich_help_panel=WHERE, help="N records on, or back where negative."),
    ] = None
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime",
            metavar="TIME",
            rich_help_panel=WHERE,
            help="To the first record since TIME: 2026-11-21T03:05:00.000Z; without a zone it is UTC.",
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        typer.Option(
            "--by-duration",
            metavar="AGO",
            rich_help_panel=WHERE,
            help="To the first record since so long ago: PT2H, P1DT12H, or 2h.",
        ),
    ] = None
    from_file: Annotated[
        str | None,
        typer.Option(
            "--from-file",
            metavar="FILE",
            rich_help_panel=WHERE,
            help="As a file says (- is stdin): kgroup export's, --backup's, kafka-consumer-groups.sh's.",
        ),
    ] = None
    from_group: Annotated[
        str | None,
        typer.Option("--from-group", metavar="OTHER", rich_help_panel=WHERE, help="As another group has committed."),
    ] = None

    def scenario(self) -> ResetScenario | None:
        """The target; None if none is given, or if a file or a group defines it. Raises UsageError for several."""
        given = {
            "--to-earliest": self.to_earliest,
            "--to-latest": self.to_latest,
            "--to-current": self.to_current,
            "--to-offset": self.to_offset,
            "--shift-by": self.shift_by is not None,
            "--to-datetime": self.to_datetime is not None,
            "--by-duration": self.by_duration is not None,
            "--from-file": self.from_file is not None,
            "--from-group": self.from_group is not None,
        }
        said = [option for option, is_given in given.items() if is_given]
        if len(said) > 1:
            raise UsageError(f"{said[0]} and {said[1]}: one of them")
        now = utc_now()
        if self.to_latest:
            return ToLatest()
        if self.to_current:
            return ToCurrent()
        if self.to_offset:
            return parse_offset(self.to_offset)
        if self.shift_by is not None:
            return ShiftBy(self.shift_by)
        if self.to_datetime is not None:
            return ToTime(parse_moment(self.to_datetime, now))
        if self.by_duration is not None:
            ago_s = parse_ago(self.by_duration)
            if ago_s > now.timestamp():
                raise UsageError(f"--by-duration {self.by_duration}: longer ago than 1970", hint="--to-earliest")
            return ToTime(round((now.timestamp() - ago_s) * 1000))
        return ToEarliest() if self.to_earliest else None


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    """Which partitions are moved."""

    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            metavar="TOPIC[:P,...]",
            rich_help_panel=WHAT,
            help="A topic, or some of its partitions: orders:0,1; may be repeated.",
        ),
    ] = None
    all_topics: Annotated[
        bool, typer.Option("--all-topics", rich_help_panel=WHAT, help="All that the group has committed.")
    ] = False
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            metavar="out-of-range",
            rich_help_panel=WHAT,
            help="Only partitions whose committed offset is outside the log; to the log start unless told otherwise.",
        ),
    ] = None
    create: Annotated[
        bool, typer.Option("--create", rich_help_panel=WHAT, help="Let the group come into being with these offsets.")
    ] = False
    save_skipped: Annotated[
        str | None,
        typer.Option(
            "--save-skipped",
            metavar="FILE|topic:NAME",
            rich_help_panel=WHAT,
            help="Keep the records that are skipped: as JSON lines, or in a topic.",
        ),
    ] = None
    verbose: Annotated[bool, typer.Option("--verbose", rich_help_panel=WHAT, help="Show every partition.")] = False


def reset(
    run: Invocation, groups: Groups, where: ResetTargetOptions, which: PartitionSelection, how: Change, source: FromLog
) -> Outcome:
    """Move committed offsets.

    Without --execute the plan is shown: old and new offset of each partition, records skipped and read again.
    Offsets outside the log are moved to its nearest end. The groups must be empty; metadata and leader epochs of
    partitions that are not moved stay as they are. What is done can be taken back with kgroup undo. Where the
    coordinator of --from-group is down, --from-log reads that group out of __consumer_offsets.

    Examples:
    kgroup reset orders-svc --topic orders --to-latest
    kgroup reset orders-svc --topic orders:3 --shift-by 1 --save-skipped pill.json
    kgroup reset orders-green --create --from-group orders-svc
    kgroup reset orders-new --create --from-group orders-svc --from-log
    kgroup reset --regex 'orders-.*' --all-topics --by-duration PT2H --execute

    Exit codes: 0 2 3 4 5 6 7 130 143
    """
    check_groups(groups)
    request = _checked(where, which)
    if source != FromLog() and where.from_group is None:
        raise UsageError("--from-log is about the group that --from-group names", hint="--from-group OTHER --from-log")
    check_some_named(groups)
    prepare_change(run, how)
    if which.save_skipped is not None:
        check_target(run.settings, which.save_skipped)
    with ChangingCluster(run.settings) as cluster:
        topics = [choice.topic for choice in request.topics or ()]
        found = select_groups(run.reporter, cluster, groups, topics, verb=run.verb, create=which.create)
        waited = wait_empty(run.reporter, cluster, how, found.names)
        found = reload_groups(cluster, found, waited=waited)
        plan, layouts = plan_reset(run.reporter, cluster, groups, found, request, source)
        refusals = [] if "foreign-owner" in (how.accept or ()) else _without_offsets(plan, names_of(groups))
        return _plan_or_execute(run, cluster, how, plan, layouts, request, which, refusals)


def _without_offsets(plan: ChangePlan, named: Collection[str]) -> list[Refusal]:
    """A refusal for each named group of a framework without offsets to move, such as Connect's workers."""
    concerned = {*plan.affected_groups, *(group.name for group in plan.groups if committed(group))}
    idle = (group for group in plan.groups if group.name in named and group.name not in concerned)
    owned = ((group.name, foreign_owner(group)) for group in idle)
    return [Refusal(name, refuse_foreign_owner(name, owner)) for name, owner in owned if owner]


def _checked(where: ResetTargetOptions, which: PartitionSelection) -> ResetRequest:
    """The request. Raises UsageError for options that make no sense, before the cluster is asked."""
    scenario = where.scenario()
    topics = parse_topics(which.topic) if which.topic else None
    check_topics(choice.topic for choice in topics or ())
    if topics is not None and which.all_topics:
        raise UsageError("--topic and --all-topics: one of them")
    if which.only is not None and which.only not in _ONLY:
        raise UsageError(f"--only {which.only}: unknown", hint=f"--only {_ONLY[0]}")
    if which.only and scenario is None and not (where.from_file or where.from_group):
        scenario = ToEarliest()
    if topics is not None and isinstance(scenario, ToRequested):
        outside = scenario.offsets.keys() - set(filter_partitions(topics, scenario.offsets))
        for topic, number in sorted(outside):
            raise UsageError(
                f"--to-offset names {topic}:{number}, which --topic leaves out", hint="without --topic it is meant too"
            )
        named = {(choice.topic, number) for choice in topics for number in choice.partitions or ()}
        for topic, number in sorted(named - scenario.offsets.keys()):
            raise UsageError(f"--topic names {topic}:{number}, of which --to-offset says nothing")
    elsewhere = where.from_file is not None or where.from_group is not None
    if scenario is None and not elsewhere:
        raise UsageError("where to? No scenario is given", hint="--to-earliest, --to-latest, --shift-by N, ...")
    own_partitions = elsewhere or which.only or isinstance(scenario, ToRequested)
    if topics is None and not which.all_topics and not own_partitions:
        raise UsageError("which partitions?", hint="--topic TOPIC, --topic TOPIC:0,1 or --all-topics")
    rows = read_offsets(where.from_file) if where.from_file is not None else ()
    return ResetRequest(scenario, topics, which.only is not None, where.from_group, rows)


def _plan_or_execute(
    run: Invocation,
    cluster: ChangingCluster,
    how: Change,
    plan: ChangePlan,
    layouts: Mapping[str, TopicLayout | KgroupError],
    request: ResetRequest,
    which: PartitionSelection,
    refusals: Sequence[Refusal],
) -> Outcome:
    kept: list[Block] = []
    target = which.save_skipped

    def save(possible: ChangePlan) -> None:
        assert target is not None
        count = save_skipped(run.settings, possible.skipped_ranges, target, run.reporter)
        kept.append(Text((f"{plural(count, 'record')} kept in {target.removeprefix('topic:')}.",)))

    if target is not None:
        check_apart(plan.skipped_ranges, target)
    context = ChangeContext("reset", _journaled(plan), layouts, prepare=save if target is not None else None)
    warn_of_plans(run, cluster, plan)
    result = execute_plan(run, cluster, how, plan, context, refusals)
    for_people = run.format in (Format.TABLE, Format.WIDE, Format.MARKDOWN)
    before_end = tuple(kept) or (_preview(run, result, target) if for_people and not result.executed else ())
    wording = Wording(
        "reset",
        subject(result.plan),
        run.command_line,
        head=target_time(request.scenario, utc_now()),
        before_end=before_end,
        instead=repeatable_command(result.plan, request.scenario, run.command),
        verbose=which.verbose,
    )
    return outcome(result, wording, cluster.ref, run.reporter, run.command, nothing=_nothing(request))


def _nothing(request: ResetRequest) -> str:
    if request.only_out_of_range:
        return "no committed offset is out of range: nothing to do"
    return "no partition is chosen: nothing to do"


def _preview(run: Invocation, result: Result, target: str | None) -> tuple[Block, ...]:
    """The skipped records, if they are few enough to show."""
    ranges = result.plan.skipped_ranges
    few = preview(run.settings, ranges) if ranges else None
    if not few:
        return ()
    keeps = f"kept in {target.removeprefix('topic:')}" if target else "--save-skipped FILE keeps them"
    return (Text((f"SKIPPED RECORDS  ({keeps})",)), skipped_table(few))


def _journaled(plan: ChangePlan) -> str:
    names = plan.affected_groups
    what = names[0] if len(names) == 1 else plural(len(names), "group")
    return f"{what}, {plural(len(plan.rows), 'partition')}"
