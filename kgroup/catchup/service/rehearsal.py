"""What is tried before anything moves: Spark starts, and its workers, the condition and the writer are tried."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.service.replay_run import check_replay, spark_session
from kgroup.catchup.sinks.spark import SINK
from kgroup.catchup.spark import to_spark, where
from kgroup.catchup.spark.driver import on_sql
from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.job import JobListeners, run
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import app_name
from kgroup.catchup.spark.trial import TriedWorker, WorkerTrial, marked, try_worker
from kgroup.catchup.worker.failure import SPARK_WORKERS, Failure
from kgroup.groups.catchup.results import Rehearsal
from kgroup.model.reporter import Reporter
from kgroup.settings.clients import replay_config
from kgroup.settings.model import Settings
from kgroup.support.errors import KgroupError, Refused
from kgroup.support.units import plural, some_of

_LONGEST_S: Final = 120.0
"""From the start of the trial to its answers; a worker that hangs must not keep a stopped group waiting."""

_MOST_TRIALS = 200
"""Spark deals tasks out to one executor after the other, so these reach that many."""


def check_workers(engine: CatchupEngine, settings: Settings, options: ReplayOptions) -> Rehearsal:
    """All checks of a replay that need no gap. Raises as ``check_replay`` and ``rehearse``."""
    checks = check_replay(engine, settings, options, ())
    checks.warn(engine.reporter)
    if checks.blocked:
        return Rehearsal(checks.checks, checks.blocked)
    name = app_name("catchup check", None)
    with spark_session(engine.reporter, options, checks.ready, name, needed=True) as session:
        tried = rehearse(engine.reporter, session, options, settings, writes=False)
        return Rehearsal((*checks.checks, *tried.checks), tried.errors)


def rehearse(
    reporter: Reporter,
    session: DriverSession | None,
    options: ReplayOptions,
    settings: Settings,
    *,
    writes: bool = True,
) -> Rehearsal:
    """Try what only Spark itself can try, before anything moves; None: nothing will be replayed.

    A writer of Spark is tried by a write without rows, which may create its target: only where it may be changed.
    Raises UsageError for a condition that Spark rejects, Refused [sink] for a writer that it rejects, and what
    ``DriverSession.call`` and ``job.run`` raise.
    """
    if session is None:
        return Rehearsal()
    reporter.note("Spark tries a worker first, for some seconds; nothing is moved before")
    trial = _try_workers(reporter, session, options, settings)
    if trial.errors:
        return trial
    if options.where is not None:
        session.call(on_sql, where.check, options.where)
    if options.sink == "spark" and not writes:
        return replace(
            trial, checks=(*trial.checks, "not tried: Spark's writer; --execute of the replay tries it first")
        )
    if options.sink == "spark":
        session.call(on_sql, to_spark.rehearse, dict(options.sink_options or {}))
    return trial


def _try_workers(reporter: Reporter, session: DriverSession, options: ReplayOptions, settings: Settings) -> Rehearsal:
    """Run a small task on each core that the workers have offered so far; one on this machine, if they are here."""
    sink_options, modules = options.sink_options or {}, ["kgroup.catchup.sinks.run_task"]
    if options.needs_sql or (options.sink == "files" and sink_options.get("format") != "json"):
        modules.append("pyarrow")
    config, local = replay_config(settings), options.spark.is_local
    count = 1 if local else min(session.started().parallelism, _MOST_TRIALS)
    with ExitStack() as stack:
        directory = sink_options.get("dir") if options.sink == "files" and not local else None
        try:
            mark = "" if directory is None else stack.enter_context(marked(Path(directory)))
        except OSError as error:
            why = f"--to-files {directory}: this machine cannot write to it: {error.strerror}"
            return Rehearsal(errors=(Refused(why, code=SINK),))
        trials = [
            WorkerTrial(
                number,
                tuple(modules),
                config,
                settings.timeout_s,
                directory,
                mark,
                sink_options.get("command"),
                sink_options.get("function"),
            )
            for number in range(count)
        ]
        until_s = time.monotonic() + _LONGEST_S
        listeners = JobListeners(note=reporter.note, stop=lambda: time.monotonic() > until_s)
        answers = run(session, trials, listeners, work=try_worker, grace_s=0)
    failed = [answer.failure for answer in answers if answer.failure is not None]
    if failed:
        raise task_error(failed[0], "the trial of Spark's workers")
    tried = [answer.result for answer in answers if isinstance(answer.result, TriedWorker)]
    if len(tried) < count:
        why = f"{len(tried)} of {plural(count, 'trial')} on Spark's workers ended within {_LONGEST_S:g} s"
        hint = "see the workers' logs: a package, a directory or a login may hang there, or no worker is free"
        return Rehearsal(errors=(Refused(why, hint=hint, code=SPARK_WORKERS),))
    return Rehearsal(tuple(_passed(tried)), tuple(_errors(tried)))


def _passed(tried: Sequence[TriedWorker]) -> Iterator[str]:
    hosts = sorted({worker.host for worker in tried})
    pythons = ", ".join(sorted({worker.python for worker in tried}))
    machines = f"{plural(len(hosts), 'machine')} ({some_of(hosts)})"
    if any(worker.problems for worker in tried):
        yield f"workers of Spark run on {machines}, with Python {pythons}"
        return
    yield f"workers of Spark run on {machines}, with Python {pythons} and all packages"
    yield f"they reach {plural(min(worker.brokers for worker in tried), 'broker')}"


def _errors(tried: Sequence[TriedWorker]) -> Iterator[KgroupError]:
    """Each problem once, with the machines that have it."""
    hosts: dict[Failure, list[str]] = {}
    for worker in tried:
        for problem in worker.problems:
            hosts.setdefault(problem, [])
            if worker.host not in hosts[problem]:
                hosts[problem].append(worker.host)
    machines = len({worker.host for worker in tried})
    for problem, having in hosts.items():
        on = f"on {some_of(having)}, of {plural(machines, 'machine')} with workers"
        yield task_error(problem, "the trial of Spark's workers").with_context(details=(on,))
