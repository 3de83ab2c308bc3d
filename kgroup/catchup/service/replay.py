"""A replay: where the records of a plan go, its tasks, and what came of them. Spark is imported where it is started."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kgroup.catchup.buckets import as_chunk, begun, numbers, reading, with_buckets
from kgroup.catchup.buckets import unfinished as unfinished_buckets
from kgroup.catchup.chunks import RateLimit, deal
from kgroup.catchup.delivered import touched, unfinished
from kgroup.catchup.gap_request import parse_rate
from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.model import CatchupPlan, ChunkProgress, Delivery, Order, PlanSnapshot, Task
from kgroup.catchup.spark.settings import SparkSettings, slots
from kgroup.catchup.verification import ChunkResult
from kgroup.catchup.worker.bucket_run import ByKey
from kgroup.catchup.worker.rate_limit import share
from kgroup.catchup.worker.task_ledger import Work
from kgroup.catchup.worker.task_spec import Handling, Stopped, TaskResult, TaskSpec
from kgroup.support.durations import parse_duration
from kgroup.support.errors import KgroupError, Refused, UsageError

if TYPE_CHECKING:
    from kgroup.catchup.spark.job import TaskEnvelope, Through
    from kgroup.catchup.spark.progress import ProgressTotals
    from kgroup.catchup.spark.session import DriverSession

DEAD_LETTERS = "dead-letter-topic"
"""The option of a Delivery that names it: whoever resumes need not say it again."""

WHERE = "where"
"""The option of a Delivery that says in Spark SQL which records are wanted: it decides what is delivered."""

NO_RATE = "none"
"""``--rate none``: no limit, where the plan keeps one."""

HANDLERS = ("command", "python")
"""Sinks that hand records to somebody else's code, several at a time where ``--lanes`` says so."""

_SIGN_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What the user said of a replay.

    ``sink`` and ``order`` are None where nothing was said: as the ledger has them, or with order ``partition``.
    ``options`` are the sink's.
    """

    sink: str | None = None
    options: Mapping[str, str] | None = None
    order: Order | None = None
    handling: Handling = field(default_factory=Handling)
    rate: RateLimit | None = None
    spark: SparkSettings = field(default_factory=SparkSettings)
    latest: bool = False
    """Only the newest record of each key (``--latest-per-key``); False where nothing was said."""
    tuning: Mapping[str, str] = field(default_factory=dict)
    """What ``handling`` and ``rate`` were read from, as typed: kept with the plan (``Delivery.tuning``)."""

    @classmethod
    def tuned(cls, tuning: Mapping[str, str], **more: Any) -> ReplayOptions:
        """With ``handling`` and ``rate`` as these texts say. Raises UsageError for what has no meaning."""
        return cls(handling=_handling(tuning), rate=_rate(tuning), tuning=tuning, **more)

    def with_kept(self, delivery: Delivery) -> ReplayOptions:
        """With what the plan keeps of how fast and how often, where this run says nothing else."""
        tuning = {**delivery.tuning, **self.tuning}
        return replace(self, handling=_handling(tuning), rate=_rate(tuning), tuning=tuning) if tuning else self

    def check_lanes(self) -> None:
        """Raise UsageError for ``--lanes`` where handlers can't work at the same time: it would be ignored."""
        if self.sink is None or self.handling.lanes == 1:
            return
        if self.sink not in HANDLERS:
            raise UsageError(f"--lanes is for --to-command and --to-python, not for --to-{self.sink}")
        if (self.order or Order.PARTITION) is Order.PARTITION and not self.latest:
            raise UsageError(
                "--lanes with --order partition: one record comes after the other there",
                hint="--order key keeps those of a key in order, --order none nothing",
            )

    @property
    def where(self) -> str | None:
        """Which records are wanted, in Spark SQL; None: all."""
        return (self.options or {}).get(WHERE)

    @property
    def needs_sql(self) -> bool:
        """Whether records pass through Spark SQL."""
        return self.where is not None or self.sink == "spark" or self.latest

    @property
    def at_once(self) -> int:
        """How many tasks run at a time, as far as that is known."""
        return self._slots or 8

    def share_of(self, tasks: int) -> RateLimit | None:
        """The part of the rate that each of so many tasks may have: all of them may run where nothing limits that."""
        return share(self.rate, min(tasks, self._slots or tasks))

    @property
    def _slots(self) -> int | None:
        return slots(self.spark, os.cpu_count() or 1)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What came of the tasks of one run: counted by them, refused, and why some have failed."""

    counted: tuple[ChunkResult, ...]
    stopped: tuple[Stopped, ...]
    failures: tuple[KgroupError, ...]
    took_s: float
    progress: tuple[ChunkProgress, ...] = ()
    """What the ledger has of the tasks' chunks, or has to get where a task can't write it itself."""


_KEPT = (DEAD_LETTERS, WHERE)
"""Options of every sink: another one has them too, where they are not said anew."""


def delivery_of(found: PlanSnapshot, wanted: ReplayOptions, typed: str | None = None) -> Delivery:
    """Where a plan's records go: as the ledger says, or as is wanted now, as long as nothing of it is delivered.

    ``typed`` is the command line that a hint adds to. Raises Refused [no-sink] where nobody ever said, [sink-set] where
    something else was said before.
    """
    plan, known = found.plan, found.delivery
    if known is None:
        if wanted.sink is None:
            raise Refused(
                f"nobody has said where the records of {plan.id} go",
                hint=f"{typed or f'kgroup catchup resume {plan.id}'} --to-topic TOPIC",
                code="no-sink",
            )
        return new_delivery(plan, wanted)
    said = {name: text for name, text in (wanted.options or {}).items() if name != DEAD_LETTERS}
    differs = wanted.sink not in (None, known.sink) or any(known.options.get(name) != said[name] for name in said)
    if differs or wanted.order not in (None, known.order) or (wanted.latest and not known.buckets):
        kept = {name: text for name, text in known.options.items() if wanted.sink is None or name in _KEPT}
        if not any(touched(plan, found.progress)) and not any(begun(plan, found.progress)):
            latest = wanted.latest or known.buckets > 0
            options = {**kept, **(wanted.options or {})}
            sink, order = wanted.sink or known.sink, wanted.order or known.order
            tuning = {**_fitting(known.tuning, known.sink, sink, order, latest=latest), **wanted.tuning}
            return _new(plan, sink, options, replace(wanted, latest=latest, order=order, tuning=tuning))
        shown = " ".join(f"{name}={text}" for name, text in sorted(known.options.items()))
        raise Refused(
            f"{plan.id} goes to {known.sink} ({shown}) in order {known.order}: it is set, as it decides what is "
            "delivered already",
            hint=f"go on with it as it is: kgroup catchup resume {plan.id}",
            code="sink-set",
        )
    dead = (wanted.options or {}).get(DEAD_LETTERS)
    options = known.options if dead is None else {**known.options, DEAD_LETTERS: dead}
    return replace(known, options=options, tuning={**known.tuning, **wanted.tuning})


def _fitting(tuning: Mapping[str, str], before: str, sink: str, order: Order, *, latest: bool) -> dict[str, str]:
    """What of a plan's tuning still has a meaning where its records go elsewhere, or in another order."""
    kept = {name: text for name, text in tuning.items() if sink == before or name == "rate"}
    if order is Order.PARTITION and not latest:
        kept.pop("lanes", None)
    return kept


def new_delivery(plan: CatchupPlan, wanted: ReplayOptions) -> Delivery:
    """Where the records of a plan go, of which nobody has said it before; ``wanted`` names a sink."""
    assert wanted.sink is not None
    return _new(plan, wanted.sink, dict(wanted.options or {}), wanted)


def _new(plan: CatchupPlan, sink: str, options: dict[str, str], wanted: ReplayOptions) -> Delivery:
    order, tuning = wanted.order or Order.PARTITION, dict(wanted.tuning)
    if wanted.latest:
        if sink == "spark":
            raise UsageError("--latest-per-key is not for --to-spark", hint="--to-files DIR, and Spark reads those")
        made = with_buckets(plan, sink, options, parallelism=wanted.at_once, rate=wanted.rate)
        return replace(made, tuning=tuning)
    return Delivery(sink, order, deal(plan.ranges, plan.chunks, order, wanted.at_once), options, tuning=tuning)


def _handling(tuning: Mapping[str, str]) -> Handling:
    usual = Handling()
    lanes, retries = _number(tuning, "lanes", usual.lanes), _number(tuning, "retries", usual.retries)
    if lanes < 1:
        raise UsageError(f"--lanes {lanes}: at least 1 handler has to work")
    if retries < 0:
        raise UsageError(f"--retries {retries}: 0 or more")
    made = Handling(
        lanes=lanes,
        retries=retries,
        backoff_s=_duration(tuning, "backoff", usual.backoff_s),
        timeout_s=_duration(tuning, "handler-timeout", usual.timeout_s),
    )
    if made.timeout_s <= 0:
        raise UsageError(f"--handler-timeout {tuning['handler-timeout']}: no handler answers in no time")
    return made


def _number(tuning: Mapping[str, str], name: str, usual: int) -> int:
    try:
        return int(tuning[name]) if name in tuning else usual
    except ValueError:
        raise UsageError(f"--{name} {tuning[name]}: not a number") from None


def _duration(tuning: Mapping[str, str], name: str, usual: float) -> float:
    return parse_duration(tuning[name], f"--{name}") if name in tuning else usual


def _rate(tuning: Mapping[str, str]) -> RateLimit | None:
    """None: no limit, which ``none`` says of a plan that keeps one."""
    text = tuning.get("rate", NO_RATE)
    return None if text == NO_RATE else parse_rate(text)


def specs(
    found: PlanSnapshot,
    delivery: Delivery,
    wanted: ReplayOptions,
    ledger: str,
    epoch: int,
    config: Mapping[str, Any],
    timeout_s: float,
) -> list[TaskSpec]:
    """The tasks that have something left to do."""
    plan = found.plan
    left = {chunk.number for chunk in unfinished(plan, found.progress)}
    left.update(unfinished_buckets(plan, delivery, found.progress))
    tasks = [task for task in delivery.tasks if left.intersection(task.chunks)]
    by_number = {chunk.number: chunk for chunk in plan.chunks}
    by_number |= {number: as_chunk(number) for number in numbers(plan, delivery)}
    maybe = tuple(
        (*item.place, item.maybe_processed_until) for item in plan.ranges if item.maybe_processed_until is not None
    )
    part = wanted.share_of(len(tasks))

    def spec(task: Task) -> TaskSpec:
        return TaskSpec(
            work=Work(ledger, plan.id, found.offset, epoch, task),
            chunks=tuple(by_number[number] for number in task.chunks),
            sink=delivery.sink,
            options=delivery.options,
            order=delivery.order,
            config=config,
            timeout_s=timeout_s,
            maybe_processed=maybe,
            dead_letters=delivery.options.get(DEAD_LETTERS),
            handling=wanted.handling,
            rate=part,
        )

    return [spec(task) for task in tasks]


def by_key(found: PlanSnapshot, delivery: Delivery, tasks: Sequence[TaskSpec], wanted: ReplayOptions) -> ByKey:
    """What readers and tasks are told where only the newest record of each key is delivered."""
    plan = found.plan
    left = frozenset(unfinished_buckets(plan, delivery, found.progress))
    first = numbers(plan, delivery).start
    return ByKey(reading(plan, wanted.at_once), tuple(tasks), delivery.buckets, first, left, len(delivery.tasks))


class ReplayRun:
    """One run of a plan's tasks, while its runner leaves signs of life; ``now_ms`` is the clock."""

    def __init__(self, runner: Runner, now_ms: Callable[[], int]) -> None:
        self._runner = runner
        self._now_ms = now_ms
        self._signed_s = time.monotonic()
        self._superseded: Refused | None = None
        self._in_vain: Callable[[], bool] | None = None

    def run(
        self,
        session: DriverSession,
        tasks: Sequence[TaskEnvelope],
        tell: Callable[[ProgressTotals], None],
        note: Callable[[str], None],
        read: Callable[[], PlanSnapshot],
        through: Through | None = None,
        in_vain: Callable[[], bool] | None = None,
    ) -> ReplayResult:
        """Run them to the end, or until ``in_vain`` says that what they deliver is lost.

        ``through`` is as ``job.run``'s.

        Raises Refused [superseded] where another runner took over; what ``job.run`` does.
        """
        from kgroup.catchup.spark.failures import error_of
        from kgroup.catchup.spark.job import JobListeners, run

        begun_s = time.monotonic()
        self._in_vain = in_vain
        watching = JobListeners(
            tell=tell,
            stop=self._stop,
            note=note,
            ledger=lambda: read().progress,
            begun=self._runner.found.progress,
        )
        answers = run(session, tasks, watching, through=through)
        if self._superseded is not None:
            raise self._superseded
        results = [answer.result for answer in answers if isinstance(answer.result, TaskResult)]
        failures = [error_of(answer.failure, f"task {answer.task}") for answer in answers if answer.failure]
        return ReplayResult(
            tuple(one for result in results for one in result.counted),
            tuple(one for result in results for one in result.stopped),
            tuple(failures),
            time.monotonic() - begun_s,
            tuple(one for result in results for one in result.progress),
        )

    def _stop(self) -> bool:
        """Whether to end early: whoever is superseded has nothing more to do."""
        if self._superseded is None and time.monotonic() - self._signed_s >= _SIGN_EVERY_S:
            self._signed_s = time.monotonic()
            try:
                self._runner.seen(self._now_ms())
            except Refused as error:
                self._superseded = error
            except KgroupError:
                pass  # the ledger can't be reached for now; the tasks find out for themselves
            if self._in_vain is not None and self._in_vain():
                return True
        return self._superseded is not None
