"""The replay of a plan: the checks before anything moves, the run on Spark, its progress, and the verification."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import msgspec.structs

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.quota_check import quota_finding
from kgroup.catchup.service.rate_control import RateControl
from kgroup.catchup.service.replay import DEAD_LETTERS, WHERE, ReplayOptions, ReplayResult, ReplayRun, task_specs
from kgroup.catchup.service.second_group import check_second_group, follow_second_group, second_group_of
from kgroup.catchup.service.show import commands, resume_text, stopped_text
from kgroup.catchup.service.sink_checks import (
    SinkFinding,
    check_dead_letters,
    check_sources,
    check_target,
    may_not_write,
)
from kgroup.catchup.service.target_topic import (
    TargetLoss,
    check_target_topic,
    first_ranges,
    freeze_dead_letters,
    loss_errors,
    missing_dead_letters,
    report_loss,
    target_of,
)
from kgroup.catchup.sinks import command, files, python
from kgroup.catchup.sinks import spark as spark_sink
from kgroup.catchup.sinks.spark import SINK
from kgroup.catchup.spark import sql_job, to_spark
from kgroup.catchup.spark.job import TaskRunner
from kgroup.catchup.spark.progress import ProgressTotals
from kgroup.catchup.spark.ready import DriverSetup, check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.worker.task_spec import TaskSpec
from kgroup.cluster.client_quotas import client_quotas, effective_quotas
from kgroup.cluster.topic_admin import TopicAdmin, TopicDescription
from kgroup.groups.catchup.dead_letters import Redrive
from kgroup.groups.catchup.delivered import unfinished
from kgroup.groups.catchup.documents import catchup_report
from kgroup.groups.catchup.elsewhere import ELSEWHERE, NOT_READ
from kgroup.groups.catchup.model import ChunkProgress, Delivery, GapRange, PlanSnapshot
from kgroup.groups.catchup.plan_state import VerifiedPlan
from kgroup.groups.catchup.results import ReplayedPlan, StartPlan
from kgroup.groups.catchup.risks import RiskLevel
from kgroup.groups.catchup.verification import contradiction_note
from kgroup.groups.change_result import Refusal
from kgroup.groups.undo_plan import TOPIC_RECREATED
from kgroup.model.envelope import envelope
from kgroup.model.groups import RowError
from kgroup.model.reporter import ProgressPart, Reporter
from kgroup.settings.clients import librdkafka_config, replay_client_id, replay_config
from kgroup.settings.model import Settings
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.clock import utc_ms
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.durations import format_duration
from kgroup.support.errors import SUPERSEDED, ExitCode, KgroupError, NotAuthorized, Refused
from kgroup.support.hint import hints_without
from kgroup.support.json_line import plain
from kgroup.support.signals import Terminated
from kgroup.support.units import human_count, plural


class ReplayChecks(msgspec.Struct, frozen=True):
    """Whether the replay can run: the setup of Spark, None if it is not needed, and findings about the sink."""

    ready: DriverSetup | None
    findings: tuple[SinkFinding, ...]
    refused: tuple[KgroupError, ...] = ()

    @property
    def checks(self) -> tuple[str, ...]:
        """Checks that passed."""
        return tuple(item.message for item in self.findings if item.level is RiskLevel.NOTE)

    def added_to(self, plan: StartPlan) -> StartPlan:
        """The plan, with what prevents its replay and what was checked."""
        known = {refusal.error.hint for refusal in plan.refusals if isinstance(refusal.error, NotAuthorized)}
        refusals = tuple(Refusal(None, error) for error in self.blocked if error.hint not in known or not error.hint)
        return msgspec.structs.replace(plan, refusals=(*plan.refusals, *refusals), checks=(*plan.checks, *self.checks))

    @property
    def blocked(self) -> tuple[KgroupError, ...]:
        """The errors that prevent the replay."""
        found = (
            NotAuthorized(item.message, hint=item.hint)
            if item.missing_right
            else Refused(item.message, hint=item.hint, code=SINK)
            for item in self.findings
            if item.level is RiskLevel.BLOCKED
        )
        return (*self.refused, *found)

    def warn(self, reporter: Reporter) -> None:
        """Print the warnings."""
        for item in self.findings:
            if item.level is RiskLevel.WARNING:
                reporter.warn(item.message if item.hint is None else f"{item.message}; {item.hint}")


def check_replay(
    engine: CatchupEngine,
    settings: Settings,
    options: ReplayOptions,
    ranges: tuple[GapRange, ...],
    replay_s: float | None = None,
    *,
    group: str | None = None,
    snapshot: PlanSnapshot | None = None,
) -> ReplayChecks:
    """Check Spark, the quota and the sink, without changes; the ledger's topic is no valid sink.

    ``group`` is the plan's, ``snapshot`` the plan if it is in the ledger: a second group may be in the gap already.
    Raises Refused [no-pyspark], [no-java], [no-master], Unreachable [spark-master], UsageError for a sink's options.
    """
    if options.sink in NOT_READ:
        checks, refused = check_second_group(engine, options, group, ranges, snapshot)
        return ReplayChecks(None, tuple(SinkFinding(RiskLevel.NOTE, text) for text in checks), refused)
    ready, ledger = check(options.spark, timeout_s=settings.timeout_s), engine.ledger.topic
    sink_options = dict(options.sink_options or {})
    redrive = Redrive.decode(sink_options)
    admin = TopicAdmin(librdkafka_config(settings), timeout_s=settings.timeout_s)
    known = admin.describe_topics(sorted({item.topic for item in ranges}))
    sources = {topic: facts for topic, facts in known.items() if not isinstance(facts, KgroupError)}
    findings = [SinkFinding(RiskLevel.NOTE, f"Spark can run ({options.spark.master})"), *check_sources(sources)]
    findings += [_check_quota(engine, settings), *_check_rate(options if snapshot else options.with_usual())]
    match options.sink:
        case "topic" | "source":
            findings += _check_topics(admin, sink_options, redrive, ranges, sources, replay_s, ledger)
        case "files":
            files.check(sink_options)
            findings.append(SinkFinding(RiskLevel.NOTE, f"sink: {sink_options['dir']}, a file for each chunk"))
            if why := files.unwritable(sink_options):  # also on a cluster: the manifest is written here
                findings.append(SinkFinding(RiskLevel.BLOCKED, f"--to-files {sink_options['dir']}: {why}"))
        case "command":
            command.check(sink_options)
            command.require_no_secret(sink_options["command"], settings.secrets)
        case "python":
            findings += _check_function(sink_options["function"])
        case "spark":
            spark_sink.check(sink_options)
            spark_sink.check_format(sink_options[spark_sink.FORMAT], dict(options.spark.conf))
            findings.append(
                SinkFinding(RiskLevel.NOTE, "sink: --execute tries an empty append before it moves any offset")
            )
    if options.where is not None:
        findings.append(
            SinkFinding(RiskLevel.NOTE, "--where: with --execute, Spark checks it before any offset is moved")
        )
    if dead := sink_options.get(DEAD_LETTERS):
        findings += check_dead_letters(dead, _facts(admin, dead), () if redrive is not None else sources.keys(), ledger)
    return ReplayChecks(ready, tuple(findings))


def _check_topics(
    admin: TopicAdmin,
    options: Mapping[str, str],
    redrive: Redrive | None,
    ranges: tuple[GapRange, ...],
    sources: Mapping[str, TopicDescription | None],
    replay_s: float | None,
    ledger: str,
) -> Iterator[SinkFinding]:
    """Findings about the target topic, or about each topic that dead letters came from.

    These go to the partitions that they came from: the dead-letter topic may have more or fewer.
    """
    targets: dict[str, str | None] = {options["topic"]: None} if "topic" in options else {}
    if redrive is not None:
        sources = {}
        targets = targets or {topic: f"--to-source {topic}" for topic in redrive.sources}
    for topic, named in targets.items():
        facts = _facts(admin, topic)
        yield from check_target(topic, facts, ranges, sources, options, utc_ms(), replay_s, ledger, named)


def _check_quota(engine: CatchupEngine, settings: Settings) -> SinkFinding:
    client_id = replay_client_id(settings)
    try:
        quotas = engine.cluster.ask(client_quotas)
    except KgroupError as error:
        return quota_finding(error, client_id)
    return quota_finding(effective_quotas(quotas, settings.user, client_id), client_id)


def _check_rate(options: ReplayOptions) -> tuple[SinkFinding, ...]:
    if not options.is_rate_by_tasks:
        return ()
    master = options.spark.master
    limit = "--parallelism N" if master.startswith("spark://") else "--conf spark.dynamicAllocation.maxExecutors=N"
    message = (
        f"no option limits how many tasks run at once on {master}, so --rate is divided by all of them, and the replay "
        "is slower if fewer run"
    )
    return (SinkFinding(RiskLevel.WARNING, message, f"{limit} limits them"),)


def _facts(admin: TopicAdmin, topic: str) -> TopicDescription | SinkFinding | None:
    """The description of a topic that is a sink; without DESCRIBE on it, this user may not write to it either."""
    try:
        return admin.describe(topic)
    except NotAuthorized:
        return may_not_write(topic)


def _check_function(function: str) -> tuple[SinkFinding, ...]:
    try:
        python.load(function)
    except KgroupError as error:
        if error.code != "handler-missing":
            raise
        return (SinkFinding(RiskLevel.BLOCKED, f"--to-python {error.message}", error.hint),)
    return ()


@contextmanager
def spark_session(
    reporter: Reporter, options: ReplayOptions, ready: DriverSetup | None, name: str, *, needed: bool
) -> Iterator[DriverSession | None]:
    """Spark with an application of this name, started in the background. None: nothing to replay."""
    if not needed or ready is None:
        yield None
        return
    say = reporter.note if options.spark_log else None
    hidden = spark_sink.secrets_of(options.sink_options or {}) if options.sink == "spark" else ()
    settings = msgspec.structs.replace(options.spark, app=name, heavy=options.needs_sql)
    with DriverSession(settings, ready, say=say, hidden=hidden) as session:
        yield session


def replay(
    engine: CatchupEngine,
    settings: Settings,
    runner: Runner,
    session: DriverSession | None,
    options: ReplayOptions,
) -> ReplayedPlan:
    """Replay the rest of a released plan, whose delivery is in the ledger, and verify it.

    Raises KeyboardInterrupt and Terminated after the tasks have ended their transactions and the resume command was
    reported; KgroupErrors of Spark and of the ledger.
    """
    snapshot = runner.snapshot
    try:
        require_still_same_topics(engine, snapshot)  # else a copy may be of another record
        freeze_dead_letters(engine, runner)
        loss = check_target_topic(engine, librdkafka_config(settings), runner)
        snapshot = runner.snapshot
        result = ReplayResult((), (), (), 0.0)
        if loss is None and second_group_of(snapshot) is not None:
            result = follow_second_group(engine, runner, options.fork_command)
        elif loss is None and options.sink == ELSEWHERE:
            _take_as_delivered(engine, runner)
        elif loss is None:
            result = _run_tasks(engine, settings, runner, session, options)
        return verify_replay(engine, settings, runner, result, options.report, loss)
    except (KeyboardInterrupt, Terminated):
        engine.sign_off(runner)
        engine.reporter.event("STOPPED", stopped_text(engine, snapshot))
        raise
    except KgroupError as error:
        if error.code == SUPERSEDED:
            _raise_taken_over(engine, runner, error)
        engine.sign_off(runner)
        if error.code != TOPIC_RECREATED:
            engine.reporter.event("FAILED", stopped_text(engine, snapshot, cancel=True))
        raise


def _take_as_delivered(engine: CatchupEngine, runner: Runner) -> None:
    """Write that the rest of a plan is delivered, as the user said; nothing is read."""
    snapshot, at_ms, epoch = runner.snapshot, engine.now_ms(), runner.epoch.number
    left = unfinished(snapshot.plan, snapshot.progress)
    if left:
        runner.write(*(ChunkProgress(one.number, one.end, 0, 0, 0, 0, at_ms, epoch) for one in left))


def _raise_taken_over(engine: CatchupEngine, runner: Runner, error: KgroupError) -> NoReturn:
    """Report which run took the plan over, and raise ``error``; after ``catchup stop`` with the resume command."""
    snapshot = runner.snapshot
    taken = engine.takeover(runner)
    if taken is None or not taken.stopped:
        why = "another run continues it, or has closed it" if taken is None else taken.text
        engine.reporter.event("TAKEN OVER", stopped_text(engine, snapshot, why))
        raise error
    engine.reporter.event("STOPPED", f"{snapshot.plan.id}: {taken.text}; {resume_text(engine, snapshot)}")
    raise Refused(f"{snapshot.plan.id} was {taken.text}", code=error.code) from error


def _run_tasks(
    engine: CatchupEngine,
    settings: Settings,
    runner: Runner,
    session: DriverSession | None,
    options: ReplayOptions,
) -> ReplayResult:
    """Run the unfinished tasks."""
    snapshot, epoch, timeout_s = runner.snapshot, runner.epoch.number, settings.timeout_s
    delivery, config = snapshot.delivery, replay_config(settings)
    assert delivery is not None
    if session is None:
        return ReplayResult((), (), (), 0.0)
    conf = {} if options.spark.is_local else session.started().conf
    tasks = task_specs(snapshot, delivery, options, engine.ledger.topic, epoch, config, timeout_s, conf)
    if not tasks:
        return ReplayResult((), (), (), 0.0)
    engine.require_same_topics(snapshot.plan)
    run_tasks = _on_spark(runner, delivery, tasks)
    if delivery.sink == "spark":
        tasks = list(to_spark.by_chunk(tasks, snapshot.progress))
    total = sum(chunk.offsets for task in tasks for chunk in task.chunks)
    with engine.reporter.progress("replay", total, "offsets", "REPLAY") as bar:
        bar.update(0, "Spark is starting")

        def on_progress(totals: ProgressTotals) -> None:
            parts = [ProgressPart(row.topic, row.done, row.total) for row in totals.topics]
            control.measured(totals.bytes_per_s)
            bar.update(totals.offsets, _progress_text(totals), parts)

        with RateControl(settings, engine.ledger.topic, snapshot, epoch) as control:
            replay_run = ReplayRun(runner, utc_ms, control)
            return replay_run.run(session, tasks, on_progress, engine.reporter.note, run_tasks)


def require_still_same_topics(engine: CatchupEngine, snapshot: PlanSnapshot) -> None:
    """Raise Refused if a topic was recreated: workers read by name and offset, and would not notice.

    This is checked before every verification, because an earlier run may have ended before it could check.
    """
    try:
        engine.require_same_topics(snapshot.plan)
    except Refused as error:
        doubt = "The delivered records may be of the new topic: nothing is verified."
        raise error.with_context(details=(doubt,)) from error


def _on_spark(runner: Runner, delivery: Delivery, tasks: Sequence[TaskSpec]) -> TaskRunner | None:
    """How Spark runs the tasks if Spark SQL is used; None: it is not. A writer's progress is written by ``runner``."""
    condition, progress = delivery.options.get(WHERE), runner.snapshot.progress
    if delivery.sink == "spark":
        return to_spark.written(tasks, condition, progress, lambda rows: runner.write(*rows))
    return None if condition is None else sql_job.filtered(tasks, condition, progress)


def _progress_text(totals: ProgressTotals) -> str:
    if not totals.moved:
        return "nothing is committed yet"
    parts = [f"{human_count(totals.records)} {'record' if totals.records == 1 else 'records'}"]
    if totals.records_per_s is not None:
        parts.append(f"{human_count(round(totals.records_per_s))}/s")
    if totals.left_s is not None:
        parts.append(f"{format_duration(totals.left_s)} left")
    parts.append(f"{totals.dead} dead letters")
    if totals.filtered:
        parts.append(f"{human_count(totals.filtered)} filtered")
    parts.append(f"{totals.chunks} of {totals.chunks_total} chunks")
    return "  ".join(parts)


@hints_without("--report")  # it is written here, and a resume needs another file
def verify_replay(
    engine: CatchupEngine,
    settings: Settings,
    runner: Runner,
    result: ReplayResult,
    report: Path | None,
    loss: TargetLoss | None,
) -> ReplayedPlan:
    """Verify, write the end of the plan to the ledger, and write the report; ``loss`` is an already known loss."""
    snapshot = runner.read()
    require_still_same_topics(engine, snapshot)
    if loss is None:
        loss = check_target_topic(engine, librdkafka_config(settings), runner)
        snapshot = runner.snapshot
    if loss is not None:
        report_loss(engine.reporter, snapshot, loss)
    since = engine.offsets_since_release(snapshot)
    verification = engine.verification(snapshot, result.counted, since)
    sentences = [missing_dead_letters(engine, librdkafka_config(settings), snapshot)]
    if loss is not None:
        sentences.append(f"{target_of(snapshot.delivery)} has lost {first_ranges(loss.gone)}: {loss.why}")
    known = "; ".join(verification.contradictions)  # an earlier run may have written the same reason
    verification = replace(
        verification,
        contradictions=(*verification.contradictions, *(one for one in sentences if one and one not in known)),
    )
    if since.unread is not None:
        engine.reporter.note(
            f"it is unknown whether {snapshot.plan.group} was rewound after its release: {since.unread}"
        )
    if snapshot.delivery is not None and snapshot.delivery.sink == "files" and not verification.undelivered:
        # This also checks that the files exist, so it comes before the plan is closed.
        files.write_manifest(snapshot.delivery.options, snapshot.plan, snapshot.progress)
    engine.finish(runner, verification)
    if runner.snapshot.state.state.is_open:
        engine.sign_off(runner)
    state = VerifiedPlan(runner.snapshot, verification, utc_ms())
    _report_end(engine, state, loss)
    errors = () if loss is None else loss_errors(snapshot, loss)
    errors += tuple(RowError.of(error, group=snapshot.plan.group) for error in result.failures)
    errors += tuple(
        RowError(
            "record-refused",
            f"offset {row.offset} was refused {plural(row.attempts, 'time')}. Its partition stops there: {row.why}",
            snapshot.plan.group,
            row.topic,
            row.partition,
            hint=f"to deliver the other records:  {commands(snapshot, '--dead-letter-topic', 'TOPIC').resume}",
            exit_code=ExitCode.CHECK_FAILED,
        )
        for row in result.stopped
    )
    if report is not None:
        _write_report(report, engine.cluster.ref, state, result, errors)
    return ReplayedPlan(state, result.took_s, since.unread is None, errors, result.undeleted)


def _report_end(engine: CatchupEngine, state: VerifiedPlan, loss: TargetLoss | None) -> None:
    verification, plan_id = state.verification, state.snapshot.plan.id
    if loss is not None:
        target = target_of(state.snapshot.delivery)
        engine.reporter.event("NOT VERIFIED", f"{plan_id}  {target} has lost delivered records")
    elif verification.complete and not state.is_checked:
        engine.reporter.event("CLOSED", f"{plan_id}  {state.closed_text}")
    elif verification.complete:
        engine.reporter.event(
            "VERIFIED",
            f"{plan_id}  {state.progress_text} delivered"
            if second_group_of(state.snapshot) is not None
            else f"{plan_id}  {verification.delivered} of {verification.records} records delivered",
        )
    elif verification.lost:
        first, offsets = verification.lost[0], sum(row.offsets for row in verification.lost)
        more = f" and {len(verification.lost) - 1} more ranges" if len(verification.lost) > 1 else ""
        engine.reporter.event("LOST", f"{plan_id}  {plural(offsets, 'offset')}: {first}{more}: {first.reason}")
    elif not verification.undelivered and (why := contradiction_note(verification)) is not None:
        engine.reporter.event("NOT VERIFIED", f"{plan_id}  {why}; {commands(state.snapshot).abandon} closes the plan")
    else:
        left = plural(sum(row.offsets for row in verification.undelivered), "offset")
        following = resume_text(engine, state.snapshot).removeprefix("nothing is lost; ")
        engine.reporter.event("INCOMPLETE", f"{plan_id}  {left} not delivered; {following}")


def _write_report(
    path: Path, cluster: ClusterRef, state: VerifiedPlan, result: ReplayResult, errors: tuple[RowError, ...]
) -> None:
    whole = envelope("catchup report", cluster, [catchup_report(state, result.took_s)], executed=True, errors=errors)
    with AtomicFile(path, "--report") as file:
        file.write(json.dumps(plain(whole), indent=2).encode() + b"\n")
