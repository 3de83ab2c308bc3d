"""The gap of a plan as DataFrames in a Spark session of the user's own; the ledger is written after each group.

The run is fenced as every other one: it takes the plan over, and writes nothing more once another run has done so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.service.delivery import CHUNKS_PER_SLOT, delivered_elsewhere, delivery_of, require_known
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import find_plan, open_engine
from kgroup.catchup.service.read_gap import log_starts
from kgroup.catchup.service.replay import WHERE, ReplayOptions, ReplayResult
from kgroup.catchup.service.replay_run import require_still_same_topics, verify_replay
from kgroup.catchup.service.show import damaged_refusal
from kgroup.catchup.service.start import refusal_of, take_over_released
from kgroup.catchup.spark.chunk_groups import (
    CountedGroup,
    GroupReading,
    KafkaSourceGroup,
    OwnReaderGroup,
    may_repeat,
)
from kgroup.catchup.spark.kafka_source import source_options
from kgroup.catchup.spark.notebook import send_code
from kgroup.cluster.deadline import Deadline
from kgroup.groups.catchup import decisions
from kgroup.groups.catchup.delivered import undelivered_range, unfinished
from kgroup.groups.catchup.model import Chunk, ChunkProgress, PlanSnapshot
from kgroup.groups.catchup.plan_state import SESSION, VerifiedPlan
from kgroup.groups.catchup.steps import AlreadyDone
from kgroup.groups.catchup.verification import ChunkResult, Verification, verify
from kgroup.model.records import OffsetRange
from kgroup.model.reporter import Reporter
from kgroup.settings.clients import replay_config
from kgroup.settings.model import Settings
from kgroup.support.clock import utc_ms
from kgroup.support.errors import SUPERSEDED, KgroupError, Refused, UsageError, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.stdout_reader import pause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOT_READ = refusal_code(
    "not-read",
    "kgroup.spark.gap",
    "Spark has not read the records that the program calls done.",
    "Write the DataFrame before done(), with an action of Spark. If nothing of it is wanted, df.count() reads it.",
)
NOT_COMPLETE = refusal_code(
    "not-complete",
    "kgroup.spark.gap",
    "Everything is delivered that can be, but the plan is not verified.",
    "See the ranges in the message. The page of catchup show has them, too.",
)

AT_WORK = refusal_code(
    "at-work",
    "kgroup.spark.gap",
    "Another run works on the plan: both would write the same records.",
    "Wait for its end. Or end it with catchup stop, and end its Spark job.",
    not_yet=True,
)

_HEARTBEAT_S = 5.0
_KILLED_WITHIN_S = 35.0
"""A run that was killed is silent for so long that it counts as ended."""
_LOOK_EVERY_S = 1.0
_MOST_RANGES = 3


class ChunkGroup:
    """Chunks of a plan that are delivered together.

    ``number`` counts the groups of the ``plan`` from 0. It never changes, and each group comes after the one before it:
    a table that keeps both can tell whether it has the records already. ``ranges`` are the offsets. ``may_repeat``:
    an earlier run may have delivered them.
    """

    def __init__(self, plan: str, number: int, counted: CountedGroup, record: Callable[[ChunkGroup], None]) -> None:
        self.plan = plan
        self.number = number
        self.may_repeat = counted.was_begun
        self.is_done = False
        self.is_remembered = False
        """Whether the program has asked for ``txn``: then its table may skip the group."""
        self._counted = counted
        self._record = record

    def __repr__(self) -> str:
        return f"ChunkGroup(plan={self.plan!r}, number={self.number}, ranges={' '.join(map(str, self.ranges))!r})"

    @property
    def df(self) -> DataFrame:
        """The records, in the columns of Spark's own Kafka source. Each action reads them from Kafka."""
        return self._counted.frame

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The offsets [start, end) of each chunk."""
        return tuple(undelivered_range(chunk, {}) for chunk in self._counted.chunks)

    @property
    def txn(self) -> dict[str, str]:
        """The options with which Delta writes the group once: ``df.write.format("delta").options(**chunk.txn)``.

        For one write of the group: Delta skips another one into the same table. A group that may repeat need then not
        be read, as Delta skips what it has: kgroup counts it, as possible duplicates.
        """
        self.is_remembered = True
        return {"txnAppId": self.plan, "txnVersion": str(self.number)}

    def done(self) -> None:
        """Write to the ledger that the group is delivered.

        Raises Refused [not-read] if Spark has not read all of it, [superseded] if another run took the plan over: then
        that run delivers it again.
        """
        if not self.is_done:
            self._record(self)
            self.is_done = True


class SessionGap:
    """What is not delivered of a plan, for a Spark session of the user's own: iterate over it, or use ``for_each``.

    The ledger is written after each group. Killed at any moment, or after an exception, the next run begins with the
    group that was not done: at most that group is delivered twice.
    """

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        reporter: Reporter,
        plan: str,
        ledger: str | None,
        chunks: int | None,
        kafka_options: Mapping[str, str] | None = None,
        take_over: bool = False,
    ) -> None:
        context = getattr(spark, "sparkContext", None)
        if context is None:
            raise UsageError(
                "kgroup.spark.gap requires a classic Spark session, not Spark Connect",
                hint="use a job of spark-submit, or a notebook whose cluster is not shared",
            )
        if chunks is not None and chunks < 1:
            raise UsageError(f"chunks must be at least 1, not {chunks}")
        self._spark, self._settings, self._reporter = spark, settings, reporter
        self._plan, self._ledger, self._takes_over = plan, ledger, take_over
        self._chunks = chunks or CHUNKS_PER_SLOT * context.defaultParallelism
        self._kafka_options = kafka_options
        if kafka_options is not None:
            self._kafka_options = source_options(kafka_options, settings.bootstrap_servers)
        self.verification: Verification | None = None
        """Set when everything is delivered."""

    def for_each(self, function: Callable[[DataFrame, ChunkGroup], object]) -> Verification:
        """Call ``function(df, chunk)`` for each group, write the ledger after each, and verify the plan at the end.

        Raises what the function raises, and as ``ChunkGroup.done``; Refused [not-complete] if records are lost.
        """
        groups = self._groups()
        try:
            for group in groups:
                function(group.df, group)
                group.done()
        finally:
            groups.close()
        assert self.verification is not None
        return self.verification

    def __iter__(self) -> Generator[ChunkGroup, None, None]:
        """The groups, in their order; call ``done()`` on each. After the last one the plan is verified.

        ``close()`` of it ends the run: after an exception a notebook keeps the frame with the loop.
        """
        return self._groups()

    def _groups(self) -> Generator[ChunkGroup, None, None]:
        with open_engine(self._settings, self._reporter, self._ledger) as engine:
            snapshot = find_plan(engine, self._plan)
            if snapshot.is_damaged:
                raise damaged_refusal(snapshot)
            if not self._takes_over:
                snapshot = self._after_other_run(engine, snapshot)
            decision = engine.preview(snapshot, decisions.resume)
            if isinstance(decision, AlreadyDone):
                if (elsewhere := delivered_elsewhere(snapshot, SESSION, {})) is not None:
                    raise elsewhere
                self._end(engine.verification(snapshot))
                return
            if (refusal := refusal_of(decision)) is not None:
                raise refusal
            if unfinished(snapshot.plan, snapshot.progress):
                engine.require_sources(snapshot.plan)
            options = ReplayOptions(sink=SESSION, sink_options={}, chunks=self._chunks)
            delivery = delivery_of(snapshot, options)
            require_known(delivery, snapshot.plan.id)
            with take_over_released(engine, snapshot, options, {}, delivery) as runner:
                if runner.snapshot.state.state.is_open:
                    with _explain_takeover(engine, runner), _signed_on(engine, runner):
                        counted = yield from self._deliver(engine, runner)
                        require_still_same_topics(engine, runner.snapshot)
                        result = ReplayResult(tuple(counted), (), (), 0.0)
                        ended = verify_replay(engine, self._settings, runner, result, None, None)
                    self._end(ended.state.verification)
                else:
                    self._end(engine.verification(runner.snapshot))

    def _after_other_run(self, engine: CatchupEngine, snapshot: PlanSnapshot) -> PlanSnapshot:
        """Wait until no other run works on the plan, as one that was killed. Raises Refused [at-work]."""
        plan, until, told = snapshot.plan, Deadline.after(_KILLED_WITHIN_S), False
        while snapshot.state.state.is_open:
            state = VerifiedPlan(snapshot, verify(snapshot), engine.now_ms())
            if not state.is_at_work:
                break
            if until.passed:
                raise Refused(
                    f"another run works on {plan.id}: {state.runner_text}. Both would write the same records",
                    hint=Hint("wait, or end it: {} and its Spark job", ("catchup", "stop", plan.id, "--execute")),
                    code=AT_WORK,
                )
            if not told:
                self._reporter.warn(
                    f"{plan.id}: waiting for another run to end, or to fall silent: {state.runner_text}"
                )
            told = True
            pause(_LOOK_EVERY_S)
            snapshot = engine.ledger.read(plan.id, snapshot.offset, lenient=True)
        return snapshot

    def _deliver(self, engine: CatchupEngine, runner: Runner) -> Generator[ChunkGroup, None, list[ChunkResult]]:
        """Yield the groups that are left; returns what was counted of them."""
        send_code(self._spark)
        snapshot = runner.snapshot
        delivery, counts = snapshot.delivery, list[ChunkResult]()
        assert delivery is not None
        by_number = {chunk.number: chunk for chunk in snapshot.plan.chunks}

        @_explain_takeover(engine, runner)
        def record(group: ChunkGroup) -> None:
            counted = group._counted
            if group.is_remembered and group.may_repeat and not counted.is_read:
                counted.read()  # the table has the group, or nothing was written: only the program knows
            if not counted.is_read:
                if group.is_remembered:  # nothing was written, so the next run must not take the group for written
                    rows = may_repeat(counted.chunks, before, runner.epoch.number, utc_ms())
                    runner.write(*(replace(row, may_repeat=0) for row in rows))
                raise Refused(
                    f"{group.plan}: Spark has not read all records of group {group.number}, so nothing shows that they "
                    "are delivered",
                    hint="write the DataFrame before done(), with an action of Spark; df.count() reads all of it",
                    code=NOT_READ,
                )
            runner.write(*counted.progress(runner.epoch.number, utc_ms()))
            counts.extend(counted.results())

        where = delivery.options.get(WHERE)
        for task in delivery.tasks:
            before = runner.snapshot.progress
            counted = self._group(engine, [by_number[number] for number in task.chunks], before, where)
            if counted.chunks:
                runner.write(*may_repeat(counted.chunks, before, runner.epoch.number, utc_ms()))
                group = ChunkGroup(snapshot.plan.id, task.number, counted, record)
                yield group
                if not group.is_done:
                    raise UsageError(
                        f"{group.plan}: group {group.number} is not done, so the next one cannot begin",
                        hint="call done() on each group, after its records are written",
                    )
        return counts

    def _group(
        self,
        engine: CatchupEngine,
        chunks: Sequence[Chunk],
        progress: Mapping[int, ChunkProgress],
        where: str | None,
    ) -> CountedGroup:
        if self._kafka_options is None:
            how = GroupReading(replay_config(self._settings), self._settings.timeout_s, where)
            return OwnReaderGroup(self._spark, chunks, progress, how)
        if where is not None:
            raise UsageError(f"{self._plan} was started with --where, which kafka_options does not have")
        starts = log_starts(engine.cluster, {chunk.tp for chunk in chunks})
        return KafkaSourceGroup(self._spark, chunks, progress, self._kafka_options, starts)

    def _end(self, verification: Verification) -> None:
        self.verification = verification
        if not verification.complete:
            ranges = [str(row) for row in (*verification.lost, *verification.undelivered)]
            shown = ", ".join((*ranges[:_MOST_RANGES], *(["..."] if len(ranges) > _MOST_RANGES else [])))
            why = "; ".join((*([f"not delivered: {shown}"] if ranges else []), *verification.contradictions))
            raise Refused(f"{verification.plan_id} is not verified: {why}", code=NOT_COMPLETE)


@contextmanager
def _explain_takeover(engine: CatchupEngine, runner: Runner) -> Iterator[None]:
    """Raise Refused [superseded] of a takeover within the block as one of a session, which moves no offset."""
    try:
        yield
    except Refused as error:
        if error.code != SUPERSEDED:
            raise
        plan, taken = runner.plan_id, engine.takeover(runner)
        if taken is not None and taken.stopped:
            again = "run this code again to continue: it begins with the group that is not done"
            raise Refused(f"{plan} was {taken.text}", hint=again, code=SUPERSEDED) from error
        what = "it continues the plan, or has closed it" if taken is None else taken.text
        raise Refused(
            f"another cell or program has taken over {plan}: {what}. This run writes no more to the ledger",
            details=("What this run has not recorded as done is left to the other run, which may write it again.",),
            hint=Hint("end the Spark job of this run; {} shows the other one", ("catchup", "show", plan)),
            code=SUPERSEDED,
        ) from error


@contextmanager
def _signed_on(engine: CatchupEngine, runner: Runner) -> Iterator[None]:
    """Write heartbeats within the block, while the user's code runs; and at its end that no run works on the plan."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_HEARTBEAT_S):
            try:
                runner.heartbeat(utc_ms())
            except Refused:  # another run has taken over; done() raises it
                return
            except KgroupError:
                continue  # the ledger is unreachable at the moment

    thread = threading.Thread(target=beat, name="kgroup-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        if runner.snapshot.state.state.is_open:
            engine.sign_off(runner)
