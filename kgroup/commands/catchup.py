"""Skip to the log end now, and replay the gap in parallel.

After a crash, the group starts at the log end at once. The records between its commits and the log end are its gap.
Spark replays the gap in parallel, and a ledger accounts for every record. Each command prints a plan; add --execute
to apply it. Guarantees and rights: kgroup help catch-up.

Examples:
# list the plans: what is pending, and until when
kgroup catchup

# plan a catch-up into a topic; add --execute to start it
kgroup catchup start orders-svc --to-topic orders-backfill

# continue an interrupted replay, on any machine
kgroup catchup resume orders-svc
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace as replace_struct

from kgroup.catchup.service.conditional_start import start_catchup
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.from_dead_letters import check_dead_letter_plan, request_dead_letters
from kgroup.catchup.service.lookup import SeveralPlans, find_plan, open_engine
from kgroup.catchup.service.options import (
    ExecuteOptions,
    GapOptions,
    LedgerOptions,
    SafetyOptions,
    SinkOptions,
    SpeedOptions,
)
from kgroup.catchup.service.rehearsal import check_workers
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.service.resume_pending import PendingRequest, note_left, open_plans, resume_pending
from kgroup.catchup.service.show import FollowedPlan, show_plan, show_plans
from kgroup.catchup.service.skipped_by import request_skipped
from kgroup.catchup.service.start import ResumeRequest, finish_release, resume_catchup
from kgroup.catchup.service.start_plan import StartRequest
from kgroup.catchup.service.stop_and_cancel import cancel_plan, prune_plans, stop_plan, throttle_plan
from kgroup.changes.preconditions import check_execution, prepare_change
from kgroup.cli.panels import FILE_SINK, safety_option, what_option
from kgroup.groups.catchup.elsewhere import BY, ELSEWHERE
from kgroup.groups.catchup.gap_request import parse_rate
from kgroup.groups.catchup.model import Order
from kgroup.groups.catchup.second_group import SECOND_GROUP
from kgroup.groups.catchup.yielding import OFF, YIELD_TO, parse_yield
from kgroup.groups.reset_targets import resolved_text
from kgroup.model.outcome import Outcome, Outcomes
from kgroup.model.output_format import Format
from kgroup.model.streaming_query import PREFIX, QueryChanges
from kgroup.output.pages.catchup import check_outcome, list_outcome, outcome
from kgroup.output.watch.request import Refresh, Watch, WatchedVerb, watched
from kgroup.queries.log_options import brokers_now
from kgroup.settings.invocation import Invocation
from kgroup.support.atomic_file import AtomicFile, require_path
from kgroup.support.errors import UsageError
from kgroup.support.units import some_of

GROUP = typer.Argument(
    metavar="[GROUP]",
    help="The group; not needed with --range, --skipped-by and --from-dead-letters.",
    show_default=False,
)
PLAN = typer.Argument(metavar="PLAN|GROUP", help="The id of a plan, or the name of its group if it has one plan.")
ACCEPT = safety_option("--accept", metavar="CODE", help="Override one refusal (repeatable).")
VERBOSE = what_option("--verbose", "-v", help="Show every row.")


def start(
    run: Invocation,
    sink: SinkOptions,
    gap: GapOptions,
    speed: SpeedOptions,
    safety: SafetyOptions,
    ledger: LedgerOptions,
    group: Annotated[str | None, GROUP] = None,
    release_only: Annotated[
        bool, what_option("--release-only", help="Release the group now; replay it with resume.")
    ] = False,
    verbose: Annotated[bool, VERBOSE] = False,
) -> Outcome:
    """Release a group at the log end, and replay its gap in parallel.

    kgroup writes the gap, the records between the group's commits and the log end, to a ledger before it moves
    anything. Then the group may start at the log end at once, however large the gap. The gap is NOT ordered against
    new records. The group must be Empty: scale it to zero, or pause what restarts it. More: kgroup help catch-up.

    Examples:
    # the plan: how large is the gap
    kgroup catchup start orders-svc
    # replay the gap into a topic
    kgroup catchup start orders-svc --to-topic orders-backfill --execute
    # release the group now, and choose the destination later
    kgroup catchup start orders-svc --release-only --execute
    # deliver dead letters again, to the topics that they came from
    kgroup catchup start --from-dead-letters orders-dlt --to-source

    Exit codes: 0 1 2 3 4 5 6 7 8 9 130 143

    Rights: READ G; READ T; DESCRIBE __consumer_offsets; READ, WRITE, DESCRIBE_CONFIGS ledger (CREATE once); WRITE
    transactional ids kgroup-catchup-*; WRITE on --to-topic, the topics of --to-source and --dead-letter-topic; READ on
    --to-group, DELETE with --delete-group
    More rights: READ __consumer_offsets: who commits, the evidence after a crash; DESCRIBE_CONFIGS T, --to-topic:
    retention and size checks; DESCRIBE cluster; DESCRIBE_CONFIGS cluster: the quota of replays
    """
    replay = speed.replay_options(sink)
    replay.check_lanes()
    gap.parse(group)
    condition = safety.condition(gap)
    check_dead_letter_plan(replay, gap.from_dead_letters, release_only=release_only)
    if release_only:
        speed.check_released_only(sink)
    if safety.execute and not release_only and replay.sink is None:
        raise UsageError(
            "a destination is required",
            hint=(
                "choose one of: --to-topic, --to-source, --to-files, --to-command, --to-python, --to-spark, "
                "--to-group; or add --release-only"
            ),
        )
    prepare_change(run, safety)
    _check_report(speed)
    replay = speed.replay_options(sink, run.settings.catchup).with_usual()
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        engine.cluster.query_changes = QueryChanges.of(safety.file_sink, safety.accept or ())
        wanted = gap.parse(group, brokers_now(run.reporter, engine.cluster))
        for text, at_ms, option in (
            (gap.skip_before, wanted.skip_before_ms, "--skip-before"),
            (gap.until, wanted.until_ms, "--until"),
        ):
            if text is not None and at_ms is not None:
                run.reporter.note(resolved_text(text, at_ms, option))
        request = StartRequest(group, wanted, safety, replay, run.typed, condition)
        if gap.skipped_by is not None:
            request = request_skipped(engine, request, gap.skipped_by)
        if gap.from_dead_letters is not None:
            letters = gap.letters(brokers_now(run.reporter, engine.cluster))
            request = request_dead_letters(engine, run.settings, request, gap.from_dead_letters, letters, gap.load)
        result = start_catchup(engine, run.settings, request)
        return outcome(result, engine.cluster.ref, run.command_line, verbose=verbose)


def check(run: Invocation, sink: SinkOptions, speed: SpeedOptions, ledger: LedgerOptions) -> Outcome:
    """Try Spark, its workers and the destination of a replay.

    Spark starts, and a small task on each of its workers tries packages, login, brokers, certificates and the
    destination. start and resume do the same before they move anything. No group is needed, and nothing is changed.

    Examples:
    # this machine
    kgroup catchup check
    # a cluster, and a directory that all its machines share
    kgroup catchup check --to-files /mnt/gap --master spark://host:7077

    Exit codes: 0 1 2 3 4 6 130 143

    Rights: none
    More rights: WRITE, DESCRIBE on --to-topic and --dead-letter-topic: whether they can be written; DESCRIBE_CONFIGS
    cluster: the quota of replays
    """
    if speed.report is not None:
        raise UsageError("--report and catchup check are mutually exclusive: there is nothing to report")
    options = speed.replay_options(sink, run.settings.catchup).with_usual()
    options.check_lanes()
    if sink.to_group is not None:
        raise UsageError("--to-group and catchup check are mutually exclusive: Spark is not started")
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        return check_outcome(check_workers(engine, run.settings, options), engine.cluster.ref)


def _check_report(speed: SpeedOptions) -> None:
    """Raise before anything moves if the report cannot be written."""
    if speed.report is not None:
        AtomicFile(speed.report, "--report").check()


def list_(
    run: Invocation,
    ledger: LedgerOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PLAN|GROUP]...", help="Only these plans, or plans of these groups.", show_default=False
        ),
    ] = None,
    verbose: Annotated[bool, VERBOSE] = False,
) -> Outcome:
    """List catch-up plans; those whose records expire first are on top.

    kgroup catchup without a command lists all plans.

    Examples:
    # all plans
    kgroup catchup list
    # the plans of a group, with all fields
    kgroup catchup list orders-svc -o json

    Exit codes: 0 2 3 4

    Rights: READ ledger
    """
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        return list_outcome(show_plans(engine, names or ()), engine.cluster.ref, verbose=verbose)


def show(
    run: Invocation,
    ledger: LedgerOptions,
    plan: Annotated[str, PLAN],
    watch: Watch,
    verbose: Annotated[bool, VERBOSE] = False,
) -> Outcome | WatchedVerb:
    """Show a plan: its runner, its progress, what is lost.

    Everything is in the ledger, so each machine shows the same. --watch refreshes the page, with the rate and the
    remaining time, and ends with the result when no runner works on the plan.

    Examples:
    # a plan by its id
    kgroup catchup show cu-7f3a
    # follow the plan of a group
    kgroup catchup show orders-svc --watch

    Exit codes: 0 2 3 4 5 130 143

    Rights: as catchup list
    """
    if followed := watched(run, watch, lambda run: _follow(run, ledger, plan, verbose=verbose)):
        return followed
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        return outcome(show_plan(engine, plan), engine.cluster.ref, run.command_line, verbose=verbose)


@contextmanager
def _follow(run: Invocation, ledger: LedgerOptions, plan: str, *, verbose: bool) -> Iterator[Refresh]:
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        followed = FollowedPlan(engine, plan)
        yield lambda: (outcome(followed.read(), engine.cluster.ref, run.command_line, verbose=verbose),)


ASSUME = safety_option(
    "--assume",
    metavar="[T:P=]released|unreleased",
    help="Result of an interrupted release that the log does not show (repeatable).",
)


def stop(run: Invocation, how: ExecuteOptions, ledger: LedgerOptions, plan: Annotated[str, PLAN]) -> Outcome:
    """Stop a replay, from any machine; nothing is lost.

    The runner of the plan can deliver nothing more, and ends. catchup resume continues with the rest, with another rate
    or on another machine.

    Examples:
    # stop the replay of a plan
    kgroup catchup stop cu-7f3a --execute

    Exit codes: 0 2 3 4 5 6

    Rights: READ, WRITE ledger; WRITE transactional ids kgroup-catchup-*
    """
    check_execution(run, how)
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        stopped = stop_plan(engine, plan, run.command_line, execute=how.execute)
        return outcome(stopped, engine.cluster.ref, run.command_line)


YIELD = what_option(
    "--yield-to",
    metavar="lag-time=5s|off",
    help="Halve the rate while the group's own oldest unread record is older than that and ages.",
)


def throttle(
    run: Invocation,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plan: Annotated[str, PLAN],
    rate: Annotated[
        str | None, typer.Argument(metavar="[RATE|off]", help="500/s or 20MiB/s; off: no limit.", show_default=False)
    ] = None,
    yield_to: Annotated[str | None, YIELD] = None,
) -> Outcome:
    """Set the rate of a replay, also while it runs.

    Any machine can do this. The run that replays the plan applies it within seconds, without a new start of Spark.
    Otherwise the next resume does. With --yield-to, the rate is halved while the group's own consumers are late, and
    doubled again once they are not. catchup show has the rate in force.

    Examples:
    # at most 5 MiB/s, over all tasks
    kgroup catchup throttle cu-7f3a 5MiB/s --execute
    # as fast as it can, as long as the group's consumers are less than 5 s late
    kgroup catchup throttle orders-svc off --yield-to lag-time=5s --execute

    Exit codes: 0 2 3 4 5 6

    Rights: as catchup stop
    """
    typed = {"rate": rate, YIELD_TO: yield_to}
    tuning = {name: text.strip() for name, text in typed.items() if text is not None}
    if not tuning:
        raise UsageError("a RATE or --yield-to is required", hint="use 500/s, 20MiB/s or off")
    if rate is not None and tuning["rate"] != OFF:
        parse_rate(tuning["rate"], "RATE")
    parse_yield(tuning.get(YIELD_TO, ""))
    check_execution(run, how)
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        throttled = throttle_plan(engine, plan, tuning, run.command_line, execute=how.execute)
        return outcome(throttled, engine.cluster.ref, run.command_line)


PENDING = what_option("--all-pending", help="All open plans, those first whose records expire first.")
FOLLOW = what_option("--follow", help="Wait for the next plan, until ctrl-C.")


def resume(
    run: Invocation,
    sink: SinkOptions,
    speed: SpeedOptions,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plans: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PLAN|GROUP]...",
            help="The id of a plan, or the name of its group; with --all-pending only groups (default: all).",
            show_default=False,
        ),
    ] = None,
    all_pending: Annotated[bool, PENDING] = False,
    follow: Annotated[bool, FOLLOW] = False,
    fork: Annotated[
        str | None,
        typer.Option(
            "--fork",
            rich_help_panel="Where to",
            metavar="DIR -- COMMAND",
            help="The job of a streaming query reads its gap, from a fork of the checkpoint: {checkpoint}.",
        ),
    ] = None,
    release_only: Annotated[bool, what_option("--release-only", help="Only finish an interrupted release.")] = False,
    accept: Annotated[list[str] | None, ACCEPT] = None,
    file_sink: Annotated[str | None, FILE_SINK] = None,
    assume: Annotated[list[str] | None, ASSUME] = None,
) -> Outcome | Outcomes:
    """Continue a plan: finish its release, replay the rest, verify it.

    Any machine can do this. Destination and order are set once; rate, lanes and master may differ in each run.
    Delivered records are not delivered again. If the group has committed in the gap by itself before its release,
    the plan is closed. A group of which nothing is pending has nothing to resume: exit code 0. Of a group with several
    open plans all are continued, as with --all-pending.

    With --all-pending the plans are continued one after the other, and one that another run replays is left to it, so
    that several machines can share them. The destination is for plans that have none.

    Examples:
    # continue, or set the destination of a released plan
    kgroup catchup resume orders-svc --to-topic orders-backfill --execute
    # continue more slowly
    kgroup catchup resume cu-7f3a --rate 500/s --execute
    # only finish an interrupted release
    kgroup catchup resume cu-7f3a --release-only --execute
    # let the job of a streaming query read its gap, a batch at a time
    kgroup catchup resume cu-7f3a --fork /fork --execute -- ./job.sh {checkpoint}
    # replay what is pending, and what will be
    kgroup catchup resume --all-pending --follow --to-topic backfill --execute

    Exit codes: 0 1 2 3 4 5 6 7 8 9 130 143

    Rights: as catchup start
    """
    sink, named, job = _forked(sink, plans or (), fork)
    speed.replay_options(sink)
    plan = _one_plan(named, all_pending=all_pending, follow=follow)
    if plan is None:
        for option, given in (("--release-only", release_only), ("--assume", assume), ("--report", speed.report)):
            if given:
                raise UsageError(f"--all-pending and {option} are mutually exclusive: {option} is for one plan")
    if release_only:
        speed.check_released_only(sink)
    check_execution(run, replace(how, accept=accept))
    _check_report(speed)
    options = replace_struct(speed.replay_options(sink, run.settings.catchup), fork_command=job)
    if plan is None:
        options.check_lanes()
        return _resume_pending(run, ledger, PendingRequest(named, run.command_line, options, follow), how)
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        engine.cluster.query_changes = QueryChanges.of(file_sink, accept or ())
        request = ResumeRequest(plan, how.execute, run.command_line, assume or (), options)
        try:
            result = finish_release(engine, request) if release_only else resume_catchup(engine, run.settings, request)
        except SeveralPlans as several:
            if not several.plan_ids or release_only or assume or speed.report:  # these are for one plan
                raise
            return _resume_pending(run, ledger, PendingRequest([plan], run.command_line, options), how)
        if result is None:
            return list_outcome((), engine.cluster.ref, verbose=False)
        return outcome(result, engine.cluster.ref, request.line)


def _forked(
    sink: SinkOptions, words: Sequence[str], fork: str | None
) -> tuple[SinkOptions, Sequence[str], Sequence[str]]:
    """The destination, the plans, and the command after ``--`` of a fork. Raises UsageError."""
    if fork is None:
        return sink, words, ()
    require_path("--fork", fork)
    if sink.sink is not None or sink.delete_group:
        raise UsageError("--fork is a destination of its own", hint="leave out the other one, and --delete-group")
    return replace(sink, to_group=f"{PREFIX}{Path(fork).resolve()}"), words[:1], tuple(words[1:])


def _one_plan(plans: Sequence[str], *, all_pending: bool, follow: bool) -> str | None:
    """The plan to continue; None: all of them. Raises UsageError."""
    if all_pending:
        return None
    if follow:
        raise UsageError("--follow requires --all-pending")
    if len(plans) != 1:
        raise UsageError("a PLAN or a GROUP is required", hint="name one, or use --all-pending")
    return plans[0]


def _resume_pending(run: Invocation, ledger: LedgerOptions, request: PendingRequest, how: ExecuteOptions) -> Outcomes:
    if request.replay.sink == SECOND_GROUP:
        raise UsageError("--to-group is for one plan: several plans cannot share a second group", hint="name one plan")
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        if not how.execute:
            pending = open_plans(engine, request)
            note_left(engine, pending)
            if not pending.resumable:
                run.reporter.note("no plan can be continued: nothing to do")
            yield list_outcome(pending.resumable, engine.cluster.ref, verbose=False)
            return
        resumed = False
        for result in resume_pending(engine, run.settings, request):
            resumed = True
            shown = outcome(result, engine.cluster.ref, request.line)
            yield replace_struct(shown, going_on=request.follow and run.format is Format.JSON)
        if not resumed:
            run.reporter.note("no plan can be continued: nothing to do")
            yield list_outcome((), engine.cluster.ref, verbose=False)


_LONGEST_BY = 200


def done(
    run: Invocation,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plan: Annotated[str, PLAN],
    by: Annotated[str, what_option("--by", metavar="TEXT", help="What has delivered the gap, for the ledger.")],
) -> Outcome:
    """Close a plan whose gap a job of your own has delivered.

    kgroup checks nothing of it: it reads no record, and counts and verifies nothing. catchup show has the gap as
    startingOffsets and endingOffsets of Spark's Kafka source. A plan that another destination has begun, or that
    another run works on, is refused. Until it is closed, catchup cancel still moves the group back.

    Examples:
    # the gap, as a batch job of Spark takes it
    kgroup catchup show cu-7f3a
    # close the plan after that job
    kgroup catchup done cu-7f3a --by "airflow run 42" --execute

    Exit codes: 0 2 3 4 5 6 8 130 143

    Rights: READ, WRITE ledger; WRITE transactional ids kgroup-catchup-*; READ G; READ T
    More rights: READ __consumer_offsets: whether the group was rewound after its release
    """
    if not 0 < len(by := by.strip()) <= _LONGEST_BY:
        raise UsageError(f"--by requires a text of 1 to {_LONGEST_BY} characters, not of {len(by)}")
    check_execution(run, how)
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        replay = ReplayOptions(sink=ELSEWHERE, sink_options={BY: by}, order=Order.PARTITION)
        request = ResumeRequest(plan, how.execute, run.command_line, replay=replay, apart_s=0)
        result = resume_catchup(engine, run.settings, request)
        if result is None:
            return list_outcome((), engine.cluster.ref, verbose=False)
        return outcome(result, engine.cluster.ref, request.line)


def cancel(
    run: Invocation,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plan: Annotated[str, PLAN],
    accept: Annotated[list[str] | None, ACCEPT] = None,
    file_sink: Annotated[str | None, FILE_SINK] = None,
    abandon: Annotated[
        bool, safety_option("--abandon", help="Abandon the undelivered records; they are listed, nothing is moved.")
    ] = False,
    assume: Annotated[list[str] | None, ASSUME] = None,
) -> Outcomes:
    """Cancel a plan: its group reads the gap itself.

    The group is moved back to its old offsets, and must be Empty. It would process delivered records again, which
    requires --accept possible-duplicates. --abandon moves nothing and lists what is abandoned. Of a group with several
    open plans all are cancelled, the newest first. To end only the replay: kgroup catchup stop.

    Examples:
    # what cancelling would do
    kgroup catchup cancel cu-7f3a
    # move the group back
    kgroup catchup cancel cu-7f3a --execute
    # abandon the undelivered records
    kgroup catchup cancel orders-svc --abandon --execute

    Exit codes: 0 2 3 4 5 6 9 130 143

    Rights: READ, WRITE ledger; WRITE transactional ids kgroup-catchup-*; of a released plan READ G; READ T
    More rights: READ __consumer_offsets: the evidence after a crash
    """
    check_execution(run, replace(how, accept=accept))
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        engine.cluster.query_changes = QueryChanges.of(file_sink, accept or ())
        for left, plan_id in _newest_first(engine, plan):
            cancelled = cancel_plan(engine, plan_id, accept or (), assume or (), abandon=abandon, execute=how.execute)
            yield outcome(cancelled, engine.cluster.ref, run.command_line)
            if left and not cancelled.executed:  # an older one ends at the offsets to which this one moves back
                run.reporter.note(f"after it, of {plan}: {some_of(left)}")
                return


def _newest_first(engine: CatchupEngine, text: str) -> Iterator[tuple[Sequence[str], str]]:
    """A plan by its id or its group, or all open plans of a group; each with those that come after it."""
    try:
        plans: Sequence[str] = (find_plan(engine, text, finished=True).plan.id,)
    except SeveralPlans as several:
        if not several.plan_ids:
            raise
        plans = several.plan_ids
    yield from ((plans[number + 1 :], plan_id) for number, plan_id in enumerate(plans))


def prune(
    run: Invocation,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plans: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PLAN]...", help="Only these plans (default: all finished plans).", show_default=False),
    ] = None,
) -> Outcome:
    """Delete finished plans from the ledger.

    Examples:
    # which plans are finished
    kgroup catchup prune
    # delete the records of one plan
    kgroup catchup prune cu-7f3a --execute

    Exit codes: 0 2 3 4 5 6 7

    Rights: as catchup stop
    """
    check_execution(run, how)
    with open_engine(run.settings, run.reporter, ledger.ledger_topic) as engine:
        pruned = prune_plans(engine, plans or (), execute=how.execute)
        return outcome(pruned, engine.cluster.ref, run.command_line)


DEFAULT = "list"
SUBCOMMANDS = (start, check, list_, show, stop, throttle, resume, done, cancel, prune)
