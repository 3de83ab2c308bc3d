"""``kgroup catchup``: release a group at the log end at once, and replay its gap in parallel."""

from __future__ import annotations

from typing import Annotated

import typer

from kgroup.catchup.service.lookup import open_engine
from kgroup.catchup.service.options import (
    ExecuteOptions,
    GapOptions,
    LedgerOptions,
    SafetyOptions,
    SinkOptions,
    SpeedOptions,
)
from kgroup.catchup.service.show import follow_replay, show_plan, show_plans
from kgroup.catchup.service.skipped_by import request_skipped
from kgroup.catchup.service.start import finish_release, resume_catchup, start_catchup
from kgroup.catchup.service.start_plan import StartRequest
from kgroup.catchup.service.stop_and_cancel import cancel_plan, prune_plans, stop_plan
from kgroup.changes.options import ACCEPTED_BY_CANCEL, ACCEPTED_BY_START, Execution
from kgroup.changes.preconditions import check_execution, prepare_change
from kgroup.cli.help_parts import SAFETY, WHAT, accept_help
from kgroup.model.outcome import Outcome
from kgroup.output.pages.catchup import list_outcome, outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.errors import UsageError

GROUP = typer.Argument(metavar="[GROUP]", help="The group; --range and --skipped-by do without.", show_default=False)
PLAN = typer.Argument(metavar="PLAN|GROUP", help="A plan's id, or its group's name where that is unambiguous.")
VERBOSE = typer.Option("--verbose", rich_help_panel=WHAT, help="Show every row.")


def start(
    run: Invocation,
    sink: SinkOptions,
    gap: GapOptions,
    speed: SpeedOptions,
    safety: SafetyOptions,
    ledger: LedgerOptions,
    group: Annotated[str | None, GROUP] = None,
    release_only: Annotated[
        bool,
        typer.Option(
            "--release-only", rich_help_panel=WHAT, help="Release the head now; say later where the gap goes."
        ),
    ] = False,
    verbose: Annotated[bool, VERBOSE] = False,
) -> Outcome:
    """Release a group at the head, and replay its gap beside it.

    What lies between the group's commits and the head is written to a ledger before anything is moved; then the
    group may start at the head, the same moment however large the gap. The gap is NOT ordered against the head.
    The group must be Empty: scale it to zero, or pause what restarts it. More: kgroup help catch-up.

    Examples:
      kgroup catchup start orders-svc
      kgroup catchup start orders-svc --to-topic orders-backfill --execute
      kgroup catchup start orders-svc --release-only --execute
      kgroup catchup start --skipped-by ch-7k2f --to-topic orders-backfill

    Exit codes: 0 1 2 3 4 5 6 7 8 130 143
    """
    change, replay = safety.change, speed.replay_options(sink)
    replay.check_lanes()
    request = StartRequest(group, gap.parse(group), change, replay)
    if release_only:
        speed.check_released_only(sink)
    if change.execute and not release_only and replay.sink is None:
        raise UsageError("where do the records go?", hint="--to-topic TOPIC, ...; or --release-only, and resume later")
    prepare_change(run, change, ACCEPTED_BY_START)
    _check_report(speed)
    with open_engine(run, ledger.ledger_topic) as engine:
        if gap.skipped_by is not None:
            request = request_skipped(run, engine, request, gap.skipped_by)
        result = start_catchup(run, engine, request)
        return outcome(result, engine.cluster.ref, run.command_line, verbose=verbose)


def _check_report(speed: SpeedOptions) -> None:
    """Raise before anything moves if the report cannot be written."""
    if speed.report is not None:
        AtomicFile(speed.report, "--report").check()


def list_(
    run: Invocation,
    ledger: LedgerOptions,
    groups: Annotated[
        list[str] | None, typer.Argument(metavar="[GROUP]...", help="Only plans of these.", show_default=False)
    ] = None,
    verbose: Annotated[bool, VERBOSE] = False,
) -> Outcome:
    """The plans of the ledger: what is owed, and goes soonest, first.

    Examples:
      kgroup catchup list
      kgroup catchup list orders-svc -o json

    Exit codes: 0 2 3 4
    """
    with open_engine(run, ledger.ledger_topic) as engine:
        return list_outcome(show_plans(run, engine, groups or ()), engine.cluster.ref, verbose=verbose)


def show(
    run: Invocation,
    ledger: LedgerOptions,
    plan: Annotated[str, PLAN],
    watch: Annotated[
        bool, typer.Option("--watch", "-w", rich_help_panel=WHAT, help="Follow it until nobody works on it any more.")
    ] = False,
    verbose: Annotated[bool, VERBOSE] = False,
) -> Outcome:
    """One plan: who works on it, how far it is, what is lost.

    All of it is in the ledger, so any machine shows the same.

    Examples:
      kgroup catchup show cu-7f3a
      kgroup catchup show orders-svc --watch

    Exit codes: 0 2 3 4 5
    """
    with open_engine(run, ledger.ledger_topic) as engine:
        if watch:
            plan = follow_replay(run, engine, plan)
        return outcome(show_plan(run, engine, plan), engine.cluster.ref, run.command_line, verbose=verbose)


ASSUME = typer.Option(
    "--assume",
    metavar="[T:P=]released|unreleased",
    rich_help_panel=SAFETY,
    help="What became of a release that broke off, where no history tells; may be repeated.",
)


def stop(run: Invocation, how: ExecuteOptions, ledger: LedgerOptions, plan: Annotated[str, PLAN]) -> Outcome:
    """End a replay, from any machine; nothing is lost.

    Whoever works on it can deliver nothing more, and ends. resume goes on with what is left, with another rate or
    on another machine.

    Examples:
      kgroup catchup stop cu-7f3a --execute

    Exit codes: 0 2 3 4 5 6
    """
    check_execution(run, how.execution)
    with open_engine(run, ledger.ledger_topic) as engine:
        stopped = stop_plan(run, engine, plan, execute=how.execute)
        return outcome(stopped, engine.cluster.ref, run.command_line)


def resume(
    run: Invocation,
    sink: SinkOptions,
    speed: SpeedOptions,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plan: Annotated[str, PLAN],
    release_only: Annotated[
        bool, typer.Option("--release-only", rich_help_panel=WHAT, help="Only finish a release that broke off.")
    ] = False,
    assume: Annotated[list[str] | None, ASSUME] = None,
) -> Outcome:
    """Go on with a plan: finish its release, replay the rest, prove it.

    Any machine will do. Where the records go, and in which order, is said once; rate, lanes and master may be
    others each time. What was delivered is not delivered again; where the group went on by itself before its
    release, the plan is closed.

    Examples:
      kgroup catchup resume orders-svc --to-topic orders-backfill --execute
      kgroup catchup resume cu-7f3a --rate 500/s --execute
      kgroup catchup resume cu-7f3a --release-only --execute

    Exit codes: 0 1 2 3 4 5 6 8 130 143
    """
    options = speed.replay_options(sink)
    if release_only:
        speed.check_released_only(sink)
    check_execution(run, how.execution)
    _check_report(speed)
    with open_engine(run, ledger.ledger_topic) as engine:
        if release_only:
            released = finish_release(run, engine, plan, assume or (), execute=how.execute)
            return outcome(released, engine.cluster.ref, run.command_line)
        resumed = resume_catchup(run, engine, plan, options, assume or (), execute=how.execute)
        return outcome(resumed, engine.cluster.ref, run.command_line)


def cancel(
    run: Invocation,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plan: Annotated[str, PLAN],
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="CODE",
            rich_help_panel=SAFETY,
            help=accept_help(ACCEPTED_BY_CANCEL),
        ),
    ] = None,
    give_up: Annotated[
        bool, typer.Option("--give-up", rich_help_panel=SAFETY, help="Leave what is not delivered to nobody.")
    ] = False,
    assume: Annotated[list[str] | None, ASSUME] = None,
) -> Outcome:
    """Take a plan back: its group handles the gap itself.

    It is moved to where it was, and must be Empty. What was delivered already would come twice, which takes
    --accept twice; --give-up moves nothing and names what nobody gets. To end only the replay: kgroup catchup stop.

    Examples:
      kgroup catchup cancel cu-7f3a
      kgroup catchup cancel cu-7f3a --execute
      kgroup catchup cancel orders-svc --give-up --execute

    Exit codes: 0 2 3 4 5 6 130 143
    """
    check_execution(run, Execution(how.execute, how.dry_run, accept=accept), ACCEPTED_BY_CANCEL)
    with open_engine(run, ledger.ledger_topic) as engine:
        cancellation = cancel_plan(run, engine, plan, accept or (), assume or (), give_up=give_up, execute=how.execute)
        return outcome(cancellation, engine.cluster.ref, run.command_line)


def prune(
    run: Invocation,
    how: ExecuteOptions,
    ledger: LedgerOptions,
    plans: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PLAN]...", help="Only these; else all finished ones.", show_default=False),
    ] = None,
) -> Outcome:
    """Forget finished plans: delete their records from the ledger.

    Examples:
      kgroup catchup prune
      kgroup catchup prune cu-7f3a --execute

    Exit codes: 0 2 3 4 5 6 7
    """
    check_execution(run, how.execution)
    with open_engine(run, ledger.ledger_topic) as engine:
        pruned = prune_plans(run, engine, plans or (), execute=how.execute)
        return outcome(pruned, engine.cluster.ref, run.command_line)


SUBCOMMANDS = (start, list_, show, stop, resume, cancel, prune)
