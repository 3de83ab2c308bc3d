"""A replay: its options, its tasks and their results. Spark is imported only when it is started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.spark.settings import SparkSettings, most_slots, named_slots, slots
from kgroup.catchup.worker.rate_limit import commit_every_s, note_gap_s, share
from kgroup.catchup.worker.task_ledger import Work
from kgroup.catchup.worker.task_spec import Handling, Stopped, TaskResult, TaskSpec, TransactionBounds
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.dead_letters import TO_SOURCE
from kgroup.groups.catchup.delivered import is_exactly_once, unfinished
from kgroup.groups.catchup.elsewhere import ELSEWHERE, NOT_READ
from kgroup.groups.catchup.model import (
    AppliedRate,
    ChunkProgress,
    Delivery,
    Order,
    PlanSnapshot,
    Task,
    ThrottleRecord,
)
from kgroup.groups.catchup.plan_state import SESSION, sink_name
from kgroup.groups.catchup.takeover import SIGNED_OFF
from kgroup.groups.catchup.verification import ChunkResult
from kgroup.groups.catchup.yielding import YIELD_TO, parse_yield, rate_limit
from kgroup.model.groups import RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.model import Setting
from kgroup.support.durations import parse_duration
from kgroup.support.errors import KgroupError, Refused, UsageError

if TYPE_CHECKING:
    from kgroup.catchup.service.rate_control import RateControl
    from kgroup.catchup.spark.job import TaskRunner
    from kgroup.catchup.spark.progress import ProgressTotals
    from kgroup.catchup.spark.session import DriverSession

DEAD_LETTERS = "dead-letter-topic"
"""The option of a Delivery that names the dead-letter topic, so that a resume need not name it again."""

WHERE = "where"
"""The option of a Delivery with the filter in Spark SQL; it decides which records are delivered."""

HANDLERS = ("command", "python")
"""Sinks that pass records to the user's code, several at a time with ``--lanes``."""

IN_GROUPS = ("spark", SESSION)
"""Sinks that get the chunks in groups, one group after the other."""

_SIGN_EVERY_S = 5.0


class ReplayOptions(msgspec.Struct, frozen=True):
    """What the user specified about a replay.

    ``sink`` and ``order`` None: as in the ledger, else order ``partition``.
    """

    sink: str | None = None
    sink_options: Mapping[str, str] | None = None
    order: Order | None = None
    handling: Handling = msgspec.field(default_factory=Handling)
    rate: RateLimit | None = None
    spark: SparkSettings = msgspec.field(default_factory=SparkSettings)
    tuning: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The texts of ``handling`` and ``rate`` as the user typed them, kept with the plan (``Delivery.tuning``)."""
    chunks: int | None = None
    """The number of chunks in a group; None: by the number of cores."""
    spark_log: bool = False
    report: Path | None = None
    """The file for the report of the verification."""
    fork_command: tuple[str, ...] = ()
    """The command that does a batch of a fork; it is not in the ledger."""
    of_context: tuple[Setting, ...] = ()
    """What the context says and the command line does not. Of a rate and dead letters, see ``with_usual``."""

    @classmethod
    def tuned(cls, tuning: Mapping[str, str], **more: Any) -> ReplayOptions:
        """Parses ``handling`` and ``rate`` from these texts. Raises UsageError for invalid values."""
        parse_yield(tuning.get(YIELD_TO, ""))
        return cls(handling=_handling(tuning), rate=rate_limit(tuning), tuning=tuning, **more)

    def with_kept(self, delivery: Delivery, throttle: ThrottleRecord | None) -> ReplayOptions:
        """These options, with the plan's sink and order, and its speed and retries where this run does not set them."""
        kept = replace(self, sink=delivery.sink, sink_options=delivery.options, order=delivery.order)
        throttled = {} if throttle is None or delivery.sink in NOT_READ else throttle.tuning
        tuning = {**delivery.tuning, **throttled, **self.tuning}
        return replace(kept, handling=_handling(tuning), rate=rate_limit(tuning), tuning=tuning) if tuning else kept

    def with_usual(self) -> ReplayOptions:
        """These options for a new delivery, with the rate and the dead letters of the context."""
        said = {setting.key: setting.value for setting in self.of_context}
        if self.sink in (None, *NOT_READ):
            return self
        tuning = {**({"rate": said["rate"]} if "rate" in said else {}), **self.tuning}
        dead = {DEAD_LETTERS: said[DEAD_LETTERS]} if DEAD_LETTERS in said and self.sink != "spark" else {}
        return replace(self, sink_options={**dead, **(self.sink_options or {})}, rate=rate_limit(tuning), tuning=tuning)

    def context_words(self, delivery: Delivery | None = None) -> tuple[str, ...]:
        """What of it comes from the context: ``--rate 5/s, from context "prod" (...)``; a plan has its own delivery."""
        if self.sink in NOT_READ:
            return ()
        kept = () if delivery is None else ("rate", DEAD_LETTERS)
        return tuple(
            f"{_option_text(setting)}, from {setting.source}"
            for setting in self.of_context
            if setting.key not in kept and not (setting.key == DEAD_LETTERS and self.sink == "spark")
        )

    @property
    def tuning_words(self) -> tuple[str, ...]:
        """The speed and the retries as the user typed them: ``--rate 500/s``."""
        return tuple(word for name, text in self.tuning.items() for word in (f"--{name}", text))

    def check_lanes(self) -> None:
        """Raise UsageError for options that would be ignored: ``--lanes`` if handlers cannot work in parallel."""
        if self.sink in NOT_READ:
            self._check_not_read()
        if self.sink is None or self.handling.lanes == 1:
            return
        if self.sink not in HANDLERS:
            raise UsageError(f"--lanes requires --to-command or --to-python, not --to-{self.sink}")
        if (self.order or Order.PARTITION) is Order.PARTITION:
            raise UsageError(
                "--lanes requires --order key or --order none: --order partition processes one record at a time",
                hint="--order key keeps the records of a key in order, --order none keeps no order",
            )

    def _check_not_read(self) -> None:
        """Raise UsageError for options that only a replay by kgroup has."""
        named = [*self.tuning, *(name for name in (DEAD_LETTERS, WHERE) if name in (self.sink_options or {}))]
        if self.order not in (None, Order.PARTITION):
            named.append("order")
        if named:
            if self.sink == ELSEWHERE:
                raise UsageError(f"--{named[0]} requires a plan that kgroup delivers: {self.destination} has done it")
            raise UsageError(f"--{named[0]} and --to-group are mutually exclusive: the application reads by itself")

    @property
    def destination(self) -> str | None:
        """``topic orders-backfill``; None if no sink is given."""
        return None if self.sink is None else sink_name(self.sink, dict(self.sink_options or {}))

    @property
    def guarantee(self) -> str:
        """What is delivered, and how often: ``exactly once``; empty if no sink is given."""
        if self.sink is None:
            return ""
        if self.sink == "spark":
            once = is_exactly_once(self.sink, self.sink_options or {})
            return "exactly once" if once else "at least once (an interrupted write is repeated)"
        return {"topic": "exactly once", TO_SOURCE: "exactly once", "files": "exactly once a chunk"}.get(
            self.sink, "at least once"
        )

    @property
    def where(self) -> str | None:
        """The filter in Spark SQL; None: all records."""
        return (self.sink_options or {}).get(WHERE)

    @property
    def needs_sql(self) -> bool:
        """Whether records pass through Spark SQL."""
        return self.where is not None or self.sink == "spark"

    @property
    def at_once(self) -> int:
        """The number of tasks that run at the same time, for as many as a plan needs; 8 if unknown."""
        return self._slots or named_slots(self.spark) or 8

    def most_at_once(self, sink: str, tasks: Sequence[Task] | Sequence[TaskSpec], conf: Mapping[str, str]) -> int:
        """How many tasks, or chunks of one group, may run at the same time; all, if that is unknown.

        ``conf`` is the configuration of the Spark that runs.
        """
        most = max((len(task.chunks) for task in tasks), default=1) if sink in IN_GROUPS else len(tasks)
        return min(most, self._slots or most_slots(self.spark, conf) or most)

    @property
    def is_rate_by_tasks(self) -> bool:
        """Whether the rate is divided by the number of tasks: no option limits how many run at once, and fewer may."""
        return self.rate is not None and self._slots is None and most_slots(self.spark, dict(self.spark.conf)) is None

    @property
    def _slots(self) -> int | None:
        return slots(self.spark, os.cpu_count() or 1)


class ReplayResult(msgspec.Struct, frozen=True):
    """The results of the tasks of one run: their counts, the records that were refused, and failures."""

    counted: tuple[ChunkResult, ...]
    stopped: tuple[Stopped, ...]
    failures: tuple[KgroupError, ...]
    took_s: float
    progress: tuple[ChunkProgress, ...] = ()
    """The progress of the tasks' chunks: already in the ledger, or to be written if a task cannot write it itself."""
    undeleted: tuple[RowError, ...] = ()
    """Why the second group of ``--to-group`` was not deleted."""


def _option_text(setting: Setting) -> str:
    if setting.key.startswith("spark."):
        return f"--conf {setting.key}={setting.display_value}"
    return f"--{setting.key} {setting.value}"


def _handling(tuning: Mapping[str, str]) -> Handling:
    usual = Handling()
    lanes, retries = _number(tuning, "lanes", usual.lanes), _number(tuning, "retries", usual.retries)
    if lanes < 1:
        raise UsageError(f"--lanes must be at least 1, not {lanes}")
    if retries < 0:
        raise UsageError(f"--retries must be 0 or greater, not {retries}")
    made = Handling(
        lanes=lanes,
        retries=retries,
        backoff_s=_duration(tuning, "backoff", usual.backoff_s),
        timeout_s=_duration(tuning, "handler-timeout", usual.timeout_s),
    )
    if made.timeout_s <= 0:
        raise UsageError(f"--handler-timeout must be greater than 0, not {tuning['handler-timeout']}")
    return made


def _number(tuning: Mapping[str, str], name: str, usual: int) -> int:
    try:
        return int(tuning[name]) if name in tuning else usual
    except ValueError:
        raise UsageError(f"--{name} {tuning[name]}: not a number") from None


def _duration(tuning: Mapping[str, str], name: str, usual: float) -> float:
    return parse_duration(tuning[name], f"--{name}") if name in tuning else usual


def check_yield(group: str | None, tuning: Mapping[str, str]) -> None:
    """Raise UsageError for ``--yield-to`` with an invalid value, or of a plan without a group."""
    if parse_yield(tuning.get(YIELD_TO, "")) is not None and group is None:
        raise UsageError(f"--{YIELD_TO} requires a plan of a group: without one, no lag shows whether it is late")


def task_specs(
    snapshot: PlanSnapshot,
    delivery: Delivery,
    options: ReplayOptions,
    ledger: str,
    epoch: int,
    config: Mapping[str, Any],
    timeout_s: float,
    conf: Mapping[str, str],
) -> list[TaskSpec]:
    """The tasks that are not finished; ``config`` is of the Kafka clients, ``conf`` of the Spark that runs."""
    plan = snapshot.plan
    left = {chunk.number for chunk in unfinished(plan, snapshot.progress)}
    tasks = [task for task in delivery.tasks if left.intersection(task.chunks)]
    by_number = {chunk.number: chunk for chunk in plan.chunks}
    maybe: dict[TopicPartition, int] = {}
    for item in plan.ranges:
        maybe[item.tp] = max(maybe.get(item.tp, 0), item.maybe_processed_until or 0)
    parallel = options.most_at_once(delivery.sink, tasks, conf)
    part, gap_s = share(options.rate, parallel), note_gap_s(parallel)
    bounds = TransactionBounds(seconds=commit_every_s(parallel))

    def spec(task: Task) -> TaskSpec:
        chunks = tuple(by_number[number] for number in task.chunks)
        return TaskSpec(
            work=Work(ledger, plan.id, snapshot.offset, epoch, task),
            chunks=chunks,
            sink=delivery.sink,
            options=delivery.options,
            order=delivery.order,
            config=config,
            timeout_s=timeout_s,
            maybe_processed={tp: maybe[tp] for tp in {chunk.tp for chunk in chunks} if maybe[tp]},
            dead_letters=delivery.options.get(DEAD_LETTERS),
            handling=options.handling,
            bounds=bounds,
            rate=part,
            at_once=parallel,
            note_gap_s=gap_s,
        )

    return [spec(task) for task in tasks]


class ReplayRun:
    """One run of a plan's tasks, with heartbeats of its runner; ``now_ms`` is the clock."""

    def __init__(self, runner: Runner, now_ms: Callable[[], int], control: RateControl) -> None:
        self._runner = runner
        self._now_ms = now_ms
        self._control = control
        self._applied: AppliedRate | None = None
        self._signed_s = time.monotonic()
        self._superseded: Refused | None = None

    def run(
        self,
        session: DriverSession,
        tasks: Sequence[TaskSpec],
        tell: Callable[[ProgressTotals], None],
        note: Callable[[str], None],
        run_tasks: TaskRunner | None = None,
    ) -> ReplayResult:
        """Run the tasks to the end.

        ``run_tasks`` is for ``job.run``. Raises Refused [superseded] if another runner took over, and as ``job.run``.
        """
        from kgroup.catchup.spark.failures import task_error
        from kgroup.catchup.spark.job import JobListeners, run

        begun_s = time.monotonic()
        watching = JobListeners(
            on_progress=tell,
            stop=self._stop,
            note=note,
            ledger=lambda: self._control.progress,
            interrupt=lambda: self._sign_off() and tasks[0].sink not in IN_GROUPS,  # a writer writes its whole group
        )
        answers = run(session, tasks, watching, run_tasks=run_tasks)
        if self._superseded is not None:
            raise self._superseded
        results = [answer.result for answer in answers if isinstance(answer.result, TaskResult)]
        failures = [task_error(answer.failure, f"task {answer.task}") for answer in answers if answer.failure]
        return ReplayResult(
            tuple(one for result in results for one in result.counted),
            tuple(one for result in results for one in result.stopped),
            tuple(failures),
            time.monotonic() - begun_s,
            tuple(one for result in results for one in result.progress),
        )

    def _sign_off(self) -> bool:
        """Write that this run ends, which ends its tasks; whether the ledger has it."""
        try:
            self._runner.heartbeat(SIGNED_OFF)
        except KgroupError:
            return False
        return True

    def _stop(self) -> bool:
        """Whether to end early, because another runner has taken over."""
        applied = self._control.applied
        changed = self._applied is None or replace(applied, time_lag_ms=None) != replace(
            self._applied, time_lag_ms=None
        )
        if self._superseded is None and (changed or time.monotonic() - self._signed_s >= _SIGN_EVERY_S):
            self._signed_s, self._applied = time.monotonic(), applied
            try:
                self._runner.heartbeat(self._now_ms(), applied)
            except Refused as error:
                self._superseded = error
            except KgroupError:
                pass  # the ledger is unreachable at the moment; the tasks notice it themselves
        return self._superseded is not None
