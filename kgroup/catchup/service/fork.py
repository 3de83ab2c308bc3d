"""``resume --fork DIR -- COMMAND``: the job of a query delivers the gap itself, batch by batch, from a fork of it.

To the ledger the fork is the plan's second group: its done batches are commits, and each is progress. kgroup plans a
batch, a chunk of each partition, and runs the job, which does that batch and ends. Killed at any moment, the planned
batch is run again under its number: a table that remembers numbers, as Delta does, has it once.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.release import group_of
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.second_group import gap_commit, next_ends
from kgroup.model.streaming_query import PREFIX, is_query
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotFound, UsageError, refusal_code
from kgroup.support.stdout_reader import pause
from kgroup.support.units import some_of

FORK_EXISTS = refusal_code(
    "fork-exists",
    "catchup resume --fork",
    "The folder of the fork exists, and is not a fork for this plan.",
    "Name a folder that does not exist.",
)

CHECKPOINT = "{checkpoint}"
"""What stands for the fork's folder in the words of the command."""

_STDERR = 2
_LOOK_EVERY_S = 1.0
_ENDS_WITHIN_S = 30.0


def check_fork(group: str | None, name: str, job: Sequence[str]) -> None:
    """Raise UsageError unless a plan of this group can be delivered by this job from a fork."""
    if group is None or not is_query(group):
        raise UsageError(f"--fork is for the plan of a streaming query, not of {group}", hint="use --to-group GROUP")
    if group == name:
        raise UsageError(f"--fork {name.removeprefix(PREFIX)} is the checkpoint of the query itself")
    if not job:
        raise UsageError(
            f"the command that does a batch of {name.removeprefix(PREFIX)} is missing",
            hint=f"add it: --fork {name.removeprefix(PREFIX)} -- spark-submit job.py --checkpoint {CHECKPOINT}",
        )
    if shutil.which(job[0]) is None:
        raise UsageError(f"{job[0]} cannot be started: there is no such program")


def require_no_file_sink(engine: CatchupEngine, group: str) -> None:
    """Raise UsageError if the query has a file sink, Refused if that is not known: it skips batches by their number."""
    from kgroup.cluster.checkpoints.append import file_sink_of

    query = engine.cluster.queries.read_again(group)
    if file_sink_of(group, query, engine.cluster.query_changes) is not None:
        raise UsageError(
            f"{group} writes by Spark's file sink, which passes over batches of a fork that it has by number",
            hint="deliver the gap to a folder of its own: --to-spark parquet --option path=DIR",
        )


def prepare_fork(engine: CatchupEngine, runner: Runner, name: str) -> None:
    """Make the fork, which begins at the start of what is left of the gap, unless it is there. Raises KgroupError."""
    # Imported here: a fork is rare, and it needs files only.
    from kgroup.cluster.checkpoints.fork import make_fork

    try:
        engine.cluster.queries.read_again(name)
    except NotFound:
        pass
    else:
        return
    plan = runner.snapshot.plan
    starts: dict[TopicPartition, int] = {}
    for row in undelivered(plan, runner.snapshot.progress):
        starts.setdefault(row.tp, row.start)
    commits = {tp: gap_commit(plan.id, runner.epoch.number, start) for tp, start in starts.items()}
    query = engine.cluster.queries.read_again(group_of(plan))
    make_fork(query, Path(name.removeprefix(PREFIX)), commits, engine.now_ms())


def run_fork(engine: CatchupEngine, runner: Runner, look: Callable[[], None], name: str, job: Sequence[str]) -> None:
    """Plan a batch and run the job, until nothing is left; ``look`` writes what is new to the ledger.

    Raises KgroupError [job-failed] if the job fails, or does not do its batch.
    """
    from kgroup.cluster.checkpoints.fork import plan_next

    plan, folder = runner.snapshot.plan, name.removeprefix(PREFIX)
    while undelivered(plan, runner.snapshot.progress):
        query = engine.cluster.queries.read_again(name)
        if query.planned is None:
            plan_next(name, query, next_ends(plan, runner.snapshot.progress), engine.now_ms())
            query = engine.cluster.queries.read_again(name)
        assert query.planned is not None
        batch = query.planned
        before = query.offsets
        ranges = some_of([f"{tp} [{before.get(tp)}, {end})" for tp, end in batch.ends.items() if before.get(tp) != end])
        engine.reporter.event("BATCH", f"{plan.id}  batch {batch.number} of the fork: {ranges}")
        code = _run(job, folder, look)
        look()
        now = engine.cluster.queries.read_again(name)
        done = now.done is not None and now.done.number >= batch.number
        if code or not done:
            what = f"ended with exit code {code}" if code else "ended without doing its batch"
            now_is = "done, and the same command continues" if done else "planned, and the same command runs it again"
            raise KgroupError(
                f"the job {what}: batch {batch.number} of the fork is {now_is}",
                hint=None if code else f"its query needs the option checkpointLocation={folder} and trigger(once=True)",
                code="job-failed",
            )
        if now.planned is not None or (now.done is not None and now.done.number > batch.number):
            engine.reporter.warn(
                f"the job did more than batch {batch.number}: with trigger(once=True) it does that one alone"
            )


def _run(job: Sequence[str], folder: str, look: Callable[[], None]) -> int:
    """Run the job to its end; its exit code. Its output goes to stderr. It is stopped if this run is."""
    words = [word.replace(CHECKPOINT, folder) for word in job]
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=_STDERR, start_new_session=True)
    try:
        while (code := process.poll()) is None:
            look()
            pause(_LOOK_EVERY_S)
        return code
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):  # it ends at this moment
                os.killpg(process.pid, signal.SIGTERM)  # also what a script has started
            try:
                process.wait(_ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
