"""``kgroup reset``: move committed offsets; the plan is shown first, and only --execute changes anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated

import typer
from msgspec.structs import replace

from kgroup.changes.execute import ChangeContext, PlannedChange
from kgroup.changes.options import Change
from kgroup.changes.preconditions import check_some_named, prepare_change
from kgroup.changes.reset import plan_reset
from kgroup.changes.save_skipped import STDOUT, check_apart, check_target, check_target_topic, preview, save_skipped
from kgroup.changes.select_groups import groups_to_change, reload_groups
from kgroup.cli.panels import FILE_SINK, what_option
from kgroup.cluster.writes import ChangingCluster
from kgroup.commands.make_change import make_change
from kgroup.groups.change_plan import ChangePlan, committed
from kgroup.groups.change_result import Refusal, Result
from kgroup.groups.foreign_owners import foreign_owner, refuse_foreign_owner
from kgroup.groups.reset_plan import OTHER_TOPICS, ResetRequest, filter_partitions, refuse_other_topics
from kgroup.groups.reset_targets import (
    ANY_TIME,
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
from kgroup.groups.selection import Groups, SelectedGroups, check_groups, check_topics, names_of
from kgroup.model.blocks import Block, Text
from kgroup.model.outcome import Outcome
from kgroup.model.output_format import Format
from kgroup.model.streaming_query import QueryChanges
from kgroup.output.pages.change import Wording, outcome, start_text
from kgroup.output.pages.reset import (
    repeatable_command,
    skipped_blocks,
    subject,
    target_time,
    with_skipped_records,
)
from kgroup.queries.log_options import FromLog, brokers_now
from kgroup.queries.offset_file import read_offsets
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import FOREIGN_OWNER, UsageError
from kgroup.support.instants import rfc3339
from kgroup.support.units import plural

_ONLY = ("out-of-range",)
_TARGETS = (
    "--to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration, --from-file, "
    "--from-group"
)
where_option = partial(typer.Option, rich_help_panel="Where to")


@dataclass(frozen=True, slots=True)
class ResetTargetOptions:
    """Where the offsets go: exactly one of these."""

    to_earliest: Annotated[bool, where_option("--to-earliest", help="To the log start.")] = False
    to_latest: Annotated[bool, where_option("--to-latest", help="To the log end.")] = False
    to_current: Annotated[
        bool,
        where_option(
            "--to-current", help="Commit the current offset again (renews its expiry); the log end if there is none."
        ),
    ] = False
    to_offset: Annotated[
        list[str] | None,
        where_option(
            "--to-offset",
            metavar="OFFSET",
            help="To this offset, or to an offset per partition: orders:0=17,orders:1=20.",
        ),
    ] = None
    shift_by: Annotated[
        int | None, where_option("--shift-by", metavar="N", help="Forward by N offsets, or back if N is negative.")
    ] = None
    to_datetime: Annotated[
        str | None,
        where_option(
            "--to-datetime",
            metavar="TIME",
            help=(
                "To the first record since TIME: 2026-11-21T03:05:00.000Z (UTC if it has no zone), or "
                "epoch milliseconds."
            ),
        ),
    ] = None
    by_duration: Annotated[
        str | None,
        where_option(
            "--by-duration", metavar="AGO", help="To the first record since this long ago: 2h, PT2H, P1DT12H."
        ),
    ] = None
    from_file: Annotated[
        str | None,
        where_option(
            "--from-file",
            metavar="FILE",
            help="To the offsets of a file (- is stdin): of kgroup export, --backup or kafka-consumer-groups.sh.",
        ),
    ] = None
    from_group: Annotated[
        str | None, where_option("--from-group", metavar="OTHER", help="To the committed offsets of another group.")
    ] = None

    def scenario(self, now: datetime = ANY_TIME) -> ResetScenario | None:
        """The target if it is ``now``; None if none is given, or if a file or a group defines it.

        Raises UsageError for several.
        """
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
            raise UsageError(f"{said[0]} and {said[1]} are mutually exclusive")
        if self.to_latest:
            return ToLatest()
        if self.to_current:
            return ToCurrent()
        if self.to_offset:
            return parse_offset(self.to_offset)
        if self.shift_by is not None:
            return ShiftBy(self.shift_by)
        if self.to_datetime is not None:
            at_ms = parse_moment(self.to_datetime, now)
            if at_ms > now.timestamp() * 1000:
                raise UsageError(
                    f"--to-datetime {self.to_datetime} is in the future; it is {rfc3339(now, 'seconds')}",
                    hint="For the log end use --to-latest.",
                )
            return ToTime(at_ms)
        if self.by_duration is not None:
            ago_s = parse_ago(self.by_duration)
            if ago_s > now.timestamp():
                raise UsageError(
                    f"--by-duration {self.by_duration}: longer ago than 1970",
                    hint="For the log start use --to-earliest.",
                )
            return ToTime(round((now.timestamp() - ago_s) * 1000))
        return ToEarliest() if self.to_earliest else None


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    topic: Annotated[
        list[str] | None,
        what_option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            help="A topic, or some of its partitions: orders:0,1 (repeatable).",
        ),
    ] = None
    all_topics: Annotated[bool, what_option("--all-topics", help="All partitions that the group has committed.")] = (
        False
    )
    only: Annotated[
        str | None,
        what_option(
            "--only",
            metavar="out-of-range",
            help="Only partitions whose committed offset is out of range (default target: the log start).",
        ),
    ] = None
    create: Annotated[
        bool, what_option("--create", help="Create groups that do not exist; with --type share as share groups.")
    ] = False
    save_skipped: Annotated[
        str | None,
        what_option(
            "--save-skipped",
            metavar="FILE|topic:NAME",
            help="Save the skipped records: as JSON lines (- is stdout), or in a topic.",
        ),
    ] = None
    file_sink: Annotated[str | None, FILE_SINK] = None
    verbose: Annotated[bool, what_option("--verbose", "-v", help="Show every partition.")] = False


def reset(
    run: Invocation, groups: Groups, where: ResetTargetOptions, which: PartitionSelection, how: Change, source: FromLog
) -> Outcome:
    """Move committed offsets.

    Without --execute the plan is shown: old and new offset of each partition, skipped and repeated offsets. An
    offset outside the log becomes its nearest bound. The groups must be empty. Metadata and leader epochs of
    partitions that are not moved stay as they are. kgroup undo restores the old offsets. --from-log reads the group
    of --from-group from __consumer_offsets, for when its coordinator is down. A streaming query of Spark, spark:URI,
    is moved by a batch that kgroup appends to its checkpoint.

    Of a share group the start offset moves. What is done after it is delivered again, and no undo restores delivery
    states. Patterns choose share groups with --type share only.

    Examples:
    # skip to the log end
    kgroup reset orders-svc --topic orders --to-latest
    # skip one record, and save it
    kgroup reset orders-svc --topic orders:3 --shift-by 1 --save-skipped pill.json
    # read the last two hours again, now
    kgroup reset --regex 'orders-.*' --all-topics --by-duration PT2H --execute
    # copy the offsets of another group
    kgroup reset orders-green --create --from-group orders-svc
    # the same, while the coordinator of that group is down
    kgroup reset orders-new --create --from-group orders-svc --from-log
    # a share group begins where a pool of workers has stopped
    kgroup reset orders-jobs --create --type share --from-group orders-workers

    Exit codes: 0 2 3 4 5 6 7 9 130 143

    Rights: READ G; READ T
    More rights: READ __consumer_offsets: clients that commit without being members; READ ledger: pending catch-ups;
    DESCRIBE OTHER: --from-group OTHER; WRITE topic: --save-skipped topic:NAME; READ __share_group_state: archived
    records of share groups
    """
    check_groups(groups)
    request = _checked(where, which)
    if source != FromLog() and where.from_group is None:
        raise UsageError("--from-log requires --from-group", hint="--from-group OTHER --from-log")
    check_some_named(groups)
    prepare_change(run, how)
    if which.save_skipped == STDOUT and how.backup == STDOUT:
        raise UsageError("--save-skipped - and --backup - are mutually exclusive: both write to stdout")
    if which.save_skipped is not None:
        check_target(which.save_skipped)
    with ChangingCluster(run.settings) as cluster:
        cluster.query_changes = QueryChanges.of(which.file_sink, how.accept or ())
        if isinstance(request.scenario, ToTime):
            request = replace(request, scenario=where.scenario(brokers_now(run.reporter, cluster)))
        topics = [choice.topic for choice in request.topics or ()]
        selected = groups_to_change(run.reporter, cluster, groups, topics, verb=run.verb, create=which.create)
        if which.save_skipped is not None:  # now, as librdkafka says less about a login that fails
            check_target_topic(run.settings, which.save_skipped)
        kept: list[Block] = []

        def planned(selected: SelectedGroups) -> PlannedChange[None]:
            plan, layouts = plan_reset(run.reporter, cluster, groups, selected, request, source)
            prepare = None
            if which.save_skipped is not None:
                check_apart(plan.skipped_ranges, which.save_skipped)
                prepare = partial(_save, run, cluster, which.save_skipped, kept)
            accepted = how.accept or ()
            refusals = [] if FOREIGN_OWNER in accepted else _without_offsets(plan, names_of(groups))
            if OTHER_TOPICS not in accepted:
                refusals += refuse_other_topics(selected.groups, plan.rows, request.file_rows)
            context = ChangeContext("reset", _journaled(plan), layouts, prepare=prepare)
            return PlannedChange(plan, context, None, refusals)

        _, result = make_change(run, cluster, how, planned(selected), lambda: planned(reload_groups(cluster, selected)))
        return _outcome(run, cluster, result, request, which, kept)


def _without_offsets(plan: ChangePlan, named: Collection[str]) -> list[Refusal]:
    """A refusal for each named group of a framework without offsets to move, such as Connect's workers."""
    concerned = {*plan.affected_groups, *(group.name for group in plan.groups if committed(group))}
    idle = (g for g in plan.groups if g.name in named and g.name not in concerned and not g.is_share)
    owned = ((group.name, foreign_owner(group)) for group in idle)
    return [Refusal(name, refuse_foreign_owner(name, owner)) for name, owner in owned if owner]


def _checked(where: ResetTargetOptions, which: PartitionSelection) -> ResetRequest:
    """The request. Raises UsageError for options that make no sense, before the cluster is asked."""
    scenario = where.scenario()
    topics = parse_topics(which.topic) if which.topic else None
    check_topics(choice.topic for choice in topics or ())
    if topics is not None and which.all_topics:
        raise UsageError("--topic and --all-topics are mutually exclusive")
    if which.only is not None and which.only not in _ONLY:
        raise UsageError(f"--only {which.only}: unknown", hint=f"choose one of: {', '.join(_ONLY)}")
    if which.only and scenario is None and not (where.from_file or where.from_group):
        scenario = ToEarliest()
    if topics is not None and isinstance(scenario, ToRequested):
        outside = scenario.offsets.keys() - set(filter_partitions(topics, scenario.offsets))
        for topic, number in sorted(outside):
            raise UsageError(
                f"--to-offset names {topic}:{number}, which --topic does not select",
                hint="Leave out --topic, or add the partition to it.",
            )
        named = {(choice.topic, number) for choice in topics for number in choice.partitions or ()}
        for topic, number in sorted(named - scenario.offsets.keys()):
            raise UsageError(f"--topic names {topic}:{number}, for which --to-offset has no offset")
    elsewhere = where.from_file is not None or where.from_group is not None
    if scenario is None and not elsewhere:
        raise UsageError("the new position is missing", hint=f"choose one of: {_TARGETS}")
    own_partitions = elsewhere or which.only or isinstance(scenario, ToRequested)
    if topics is None and not which.all_topics and not own_partitions:
        raise UsageError(
            "the partitions are missing", hint="choose one of: --topic TOPIC, --topic TOPIC:0,1, --all-topics"
        )
    rows = read_offsets(where.from_file) if where.from_file is not None else ()
    return ResetRequest(scenario, topics, which.only is not None, where.from_group, rows)


def _save(run: Invocation, cluster: ChangingCluster, target: str, kept: list[Block], possible: ChangePlan) -> None:
    """Save the skipped records, and add the line about it to ``kept``."""
    count = save_skipped(run.settings, possible.skipped_ranges, target, run.reporter, cluster.now_ms)
    where = "written to stdout" if target == STDOUT else f"kept in {target.removeprefix('topic:')}"
    kept.append(Text((f"{plural(count, 'record')} {where}.",)))


def _outcome(
    run: Invocation,
    cluster: ChangingCluster,
    result: Result,
    request: ResetRequest,
    which: PartitionSelection,
    kept: Sequence[Block],
) -> Outcome:
    target = which.save_skipped
    ranges = [] if result.executed else result.plan.skipped_ranges
    # None: the format does not show them, or they are many, or they cannot be read.
    skipped = preview(run.settings, ranges) if ranges and run.format is not Format.CSV else None
    before_end = tuple(kept)
    if ranges:
        before_end = skipped_blocks(skipped, target, verbose=which.verbose)
    wording = Wording(
        "reset",
        subject(result.plan),
        run.command_line,
        head=target_time(request.scenario, cluster.now_ms()),
        before_end=before_end,
        instead=repeatable_command(result.plan, request.scenario, target, run.command),
        start=start_text(result.plan),
        verbose=which.verbose,
    )
    made = outcome(result, wording, cluster.ref, run.reporter, run.command, nothing=_nothing(request))
    rows = tuple(partial(with_skipped_records, row, result.id, skipped) for row in result.plan.rows)
    return replace(made, data=rows)


def _nothing(request: ResetRequest) -> str:
    if request.only_out_of_range:
        return "nothing to do: no committed offset is out of range"
    return "nothing to do: no partition is chosen"


def _journaled(plan: ChangePlan) -> str:
    names = plan.affected_groups
    what = names[0] if len(names) == 1 else plural(len(names), "group")
    return f"{what}, {plural(len(plan.rows), 'partition')}"
