"""``kgroup migrate``: convert groups to the consumer protocol (KIP-848), or back to the classic one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from kgroup.changes.client_options import Clients, Configuration
from kgroup.changes.execute import ChangeContext, PlannedChange
from kgroup.changes.migrate import Migration, MigrationOptions, choose, plan_again, prepare_migration
from kgroup.changes.options import Change
from kgroup.changes.preconditions import check_some_named, prepare_change
from kgroup.cli.panels import what_option, which_option
from kgroup.cluster.writes import ChangingCluster
from kgroup.commands.make_change import make_change
from kgroup.groups.change_result import Result
from kgroup.groups.migration.check import BLOCKED, MigrationPath, Readiness, ReadinessResult
from kgroup.groups.migration.clients import minimum_versions
from kgroup.groups.migration.config_document import config_document
from kgroup.groups.migration.documents import migrated_group
from kgroup.groups.migration.evidence import MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules
from kgroup.groups.migration.migrated import MigrationResult, migration_result
from kgroup.groups.migration.readiness import cluster_notes, readiness_summary
from kgroup.groups.migration.rollout import rolling_steps
from kgroup.groups.selection import Groups, check_groups
from kgroup.model.outcome import Outcome
from kgroup.output.pages import rollout as rollout_screen
from kgroup.output.pages.change import Wording, outcome, start_text, with_rows
from kgroup.output.pages.migrate import (
    HEADER,
    LISTED,
    Page,
    about,
    config_blocks,
    nothing_to_do,
    ready_now,
    table,
)
from kgroup.queries.migration_data import load_rules
from kgroup.queries.rollout import follow, require_protocol
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import NOT_EMPTY, ExitCode, UsageError
from kgroup.support.instants import day_text
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.groups.migration.client_config import ConfigPlan

application_option = partial(typer.Option, rich_help_panel="The application")
_ONLY = ("ready",)
_UNSEEN = (ExitCode.NOT_AUTHORIZED, ExitCode.UNREACHABLE, ExitCode.NOT_FOUND)


class TargetProtocol(StrEnum):
    CONSUMER = "consumer"
    CLASSIC = "classic"


@dataclass(frozen=True, slots=True)
class ApplicationOptions:
    """The clients that the application uses, and how its configuration has to change."""

    client: Annotated[
        list[str] | None,
        application_option(
            "--client",
            metavar="[GROUP=]NAME:VERSION",
            help="Client of the application: java:4.4.0; @FILE has one per line (repeatable). Brokers do not know it.",
        ),
    ] = None
    client_config: Annotated[
        str | None,
        application_option(
            "--client-config",
            metavar="FILE",
            help=(
                "Configuration of the application (Java properties, librdkafka, YAML): list the changes that it needs."
            ),
        ),
    ] = None
    write: Annotated[
        str | None,
        application_option(
            "--write", metavar="FILE", help="Write the changed configuration to a new file (properties only)."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Goal:
    """The target protocol, and the group's own timeouts."""

    protocol: Annotated[
        TargetProtocol,
        what_option("--protocol", metavar="consumer|classic", help="Protocol to move to (default: consumer)."),
    ] = TargetProtocol.CONSUMER
    session_timeout: Annotated[
        str | None,
        what_option("--session-timeout", metavar="DURATION", help="Set the group's own consumer.session.timeout.ms."),
    ] = None
    heartbeat_interval: Annotated[
        str | None,
        what_option(
            "--heartbeat-interval", metavar="DURATION", help="Set the group's own consumer.heartbeat.interval.ms."
        ),
    ] = None

    def migration_request(self, how: Change) -> MigrationRequest:
        """The request, in ms. Raises UsageError for values that make no sense."""
        given = {"--session-timeout": self.session_timeout, "--heartbeat-interval": self.heartbeat_interval}
        said = {option: parse_duration(text, option) for option, text in given.items() if text is not None}
        for option, seconds in said.items():
            if self.protocol is TargetProtocol.CLASSIC:
                raise UsageError(f"{option} requires --protocol consumer: in a classic group each member sets its own")
            if seconds * 1000 < 1:
                raise UsageError(f"{option} must be at least 1ms, not {given[option]}")
        session_s, heartbeat_s = (said.get(option) for option in given)
        return MigrationRequest(
            self.protocol.value,
            None if session_s is None else round(session_s * 1000),
            None if heartbeat_s is None else round(heartbeat_s * 1000),
            frozenset(how.accept or ()),
        )


def migrate(
    run: Invocation,
    groups: Groups,
    how: Change,
    goal: Goal,
    application: ApplicationOptions,
    only: Annotated[
        str | None, which_option("--only", metavar="ready", help="Move only groups that are READY.")
    ] = None,
    watch: Annotated[
        bool, what_option("--watch", "-w", help="Follow a rollout until all members use the protocol.")
    ] = False,
    verbose: Annotated[bool, what_option("--verbose", "-v", help="Show every check.")] = False,
) -> Outcome:
    """Move groups to the consumer protocol, or back to classic.

    The plan shows for each group whether it is ready, and how it can move: now if it is empty, rolling if
    it can move while it runs, stop if it cannot. --execute converts empty groups: it commits their offsets again,
    changes the type, and reads everything back. A running group moves when its members are restarted.

    Examples:
    # which groups are ready
    kgroup migrate --all-groups
    # check the configuration of one application
    kgroup migrate pay-svc --client java:4.4.0 --client-config pay.properties
    # convert a group as soon as it is empty
    kgroup migrate pay-svc --wait-empty --execute
    # follow a rolling migration
    kgroup migrate pay-svc --watch

    Exit codes: 0 2 3 4 5 6 7 8 9 130 143

    Rights: READ G; READ T
    More rights: ALTER_CONFIGS G: --session-timeout, --heartbeat-interval; READ __consumer_offsets, DESCRIBE and
    DESCRIBE_CONFIGS cluster: checks that are unknown without
    """
    check_groups(groups)
    check_some_named(groups)
    if only is not None and only not in _ONLY:
        raise UsageError(f"--only {only}: unknown", hint=f"choose one of: {', '.join(_ONLY)}")
    wanted = goal.migration_request(how)
    if watch:
        _check_watching(how, goal, application, only)
        return _follow_rollout(run, groups, how, wanted)
    prepare_change(run, how)
    rules = load_rules()
    clients = Clients.parsed(application.client or (), rules)
    configuration = Configuration.parse(groups, application.client_config, application.write, wanted)
    options = MigrationOptions(
        wanted,
        rules,
        clients,
        configured=configuration.strategies if configuration else (),
        only_ready=only is not None,
    )
    with ChangingCluster(run.settings) as cluster:
        first = prepare_migration(run.reporter, cluster, how, groups, options)
        config: ConfigPlan | None = None

        def write_config(change: PlannedChange[Migration]) -> None:
            # Before anything is changed: a full disk must not hide the result of the migration.
            nonlocal config
            if configuration and change.source.readiness:
                config = configuration.planned(change.source.assessed_evidence[0])

        change, result = make_change(
            run,
            cluster,
            how,
            _planned(first, wanted),
            lambda: _planned(plan_again(run.reporter, cluster, how, first, options), wanted),
            write_config,
        )
    migration = change.source
    if is_rolling := _is_rolling_plan(how, migration.readiness):
        result = replace(result, refusals=tuple(r for r in result.refusals if r.error.code != NOT_EMPTY))
    rows = migration_result(migration.assessed_evidence, migration.readiness, wanted.target, rules.read_on, result)
    if migration.left:
        run.reporter.note(f"{plural(migration.left, 'group')} left out: not ready now (--only ready)")
    name = application.client_config or ""
    if config:
        rows = tuple(replace(row, config=config_document(config, name, application.write)) for row in rows)
    shown = Page(
        why=run.command("migrate", "GROUP", "--protocol", wanted.target),
        summary=readiness_summary(migration.readiness),
        steps=rolling_steps(rows[0].evidence, wanted, rows[0].readiness.how) if len(rows) == 1 else (),
        facts=_facts(rows, clients, wanted, rules),
        cleared=migration.cleared,
        config=config_blocks(config, name, application.write) if config else (),
        verbose=verbose,
    )
    return _outcome(run, cluster, result, rows, change.context.subject, shown, is_rolling=is_rolling)


def _planned(migration: Migration, wanted: MigrationRequest) -> PlannedChange[Migration]:
    context = ChangeContext(
        "migrate",
        about(migration.readiness, [item.kind for item in migration.assessed_evidence], wanted.target),
        migration.layouts,
        blocked_action="it cannot be converted now",
        configs=migration.configs,
    )
    return PlannedChange(migration.plan, context, migration, migration.refusals, migration.live)


def _is_rolling_plan(how: Change, readiness: Sequence[Readiness]) -> bool:
    """Whether it is the plan of one group that moves by restarts of its members: these are no obstacle to it."""
    if how.execute or how.wait_empty or len(readiness) != 1:
        return False
    return readiness[0].how is MigrationPath.ROLLING and readiness[0].result is not ReadinessResult.BLOCKED


def _outcome(
    run: Invocation,
    cluster: ChangingCluster,
    result: Result,
    rows: tuple[MigrationResult, ...],
    subject: str,
    shown: Page,
    *,
    is_rolling: bool,
) -> Outcome:
    several = len(rows) != 1
    command = run.command_line.without("--write")  # that file exists now, and is not overwritten
    wording = Wording(
        "migrate",
        subject,
        command.with_option("--wait-empty") if is_rolling else command,
        apply="Restart its members as above. Or stop them all, and convert the group" if is_rolling else "To apply",
        instead=_ready_only(run, rows) if several else None,
        start=start_text(result.plan) if result.plan.converted else None,
        listed=LISTED if several else frozenset({BLOCKED}),
    )
    made = outcome(
        result,
        wording,
        cluster.ref,
        run.reporter,
        run.command,
        nothing=None if rows else "nothing to do: no group is chosen",
        table=lambda: table(rows, shown, executed=result.executed),
    )
    if rows and not result.plan.size and not result.errors:
        made = replace(made, screen=lambda: nothing_to_do(rows, subject, shown))
    if made.decided in _UNSEEN and any(row.readiness.result is ReadinessResult.DONE for row in rows):
        made = replace(made, decided=ExitCode.PARTLY)  # groups that could be read are migrated already
    return with_rows(made, tuple(map(migrated_group, rows)), HEADER)


def _facts(
    rows: Sequence[MigrationResult], clients: Clients, wanted: MigrationRequest, rules: MigrationRules
) -> tuple[str, ...]:
    """What to know about groups that can move: client versions, defects of their brokers, how old this knowledge is."""
    fit = [row for row in rows if row.readiness.result in (ReadinessResult.READY, ReadinessResult.WARNING)]
    if not fit:
        return ()
    defects = tuple(dict.fromkeys(note for row in fit for note in cluster_notes(row.evidence, wanted, rules)))
    tables = f"clients and broker defects: tables of {day_text(rules.read_on)}"
    if clients.used or wanted.target == "classic":
        return (*defects, tables)
    versions = (
        f"client versions are unknown: Kafka does not report them. {minimum_versions(rules)}; check with --client"
    )
    return (versions, *defects, tables)


def _ready_only(run: Invocation, rows: Sequence[MigrationResult]) -> str | None:
    """The command that converts only the ready groups, if others are not ready; else None."""
    count = ready_now(rows)
    not_ready = sum(row.readiness.result is not ReadinessResult.DONE for row in rows) - count
    if not (count and not_ready) or "--only" in run.line.options:
        return None
    command = run.command_line.without("--partial").with_option("--only", "ready").executing()
    return f"To convert only the {count} that {'is' if count == 1 else 'are'} ready:  {command}"


def _check_watching(how: Change, goal: Goal, application: ApplicationOptions, only: str | None) -> None:
    """Refuse options that have no meaning with ``--watch``: no option is silently ignored."""
    given = {
        "--execute": how.execute,
        "--wait-empty": how.wait_empty,
        "--partial": how.partial,
        "--backup": how.backup,
        "--session-timeout": goal.session_timeout,
        "--heartbeat-interval": goal.heartbeat_interval,
        "--client": application.client,
        "--client-config": application.client_config,
        "--write": application.write,
        "--only": only,
    }
    if said := [option for option, value in given.items() if value]:
        raise UsageError(f"--watch and {said[0]} are mutually exclusive: --watch changes nothing")


def _follow_rollout(run: Invocation, groups: Groups, how: Change, wanted: MigrationRequest) -> Outcome:
    """Follow a rollout without changing anything."""
    within_s = parse_duration(how.within, "--within") if how.within is not None else None
    with ChangingCluster(run.settings) as cluster:
        chosen = choose(run.reporter, cluster, groups).selected.groups
        require_protocol(cluster, chosen, wanted)
        rollout = follow(run.reporter, cluster, [group.name for group in chosen], wanted.target, within_s)
    return Outcome(
        data=rollout.groups,
        screen=lambda: rollout_screen.page(rollout.groups, wanted.target),
        records=lambda: rollout_screen.records(rollout.groups),
        cluster=cluster.ref,
        check_failed=not rollout.finished,
        kind="migrate rollout",
    )
