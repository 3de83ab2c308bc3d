"""The runs of a group that is Empty at times: whether it is a job, and when its next run is due. Pure.

A job works for a while, reads to the end and leaves, again and again. A service works, and then is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.thresholds import RATE_SPAN, RESTART, SERIES_PAUSE
from kgroup.groups.timeline.steps import Cause, HistoryStep, StepKind
from kgroup.model.migration_facts import holds_group
from kgroup.support.instants import short_time

_PROVE_A_JOB = 3


class Run(msgspec.Struct, frozen=True):
    """From the first member until the group was Empty. ``began_ms`` is None if the log that was read begins later.

    ``left`` is whether the last members left by themselves.
    """

    began_ms: int | None
    ended_ms: int
    left: bool


def runs_of(steps: Sequence[HistoryStep]) -> tuple[Run, ...]:
    """The runs that have ended, oldest first. A group that only kgroup's own member holds does not run."""
    runs: list[Run] = []
    ran: bool | None = None
    began_ms: int | None = None
    for step in steps:
        runs_now = any(not holds_group(each.member_id, each.instance_id) for each in step.members)
        if step.kind is StepKind.DELETED:
            runs.clear()
        elif runs_now and not ran:
            began_ms = None if ran is None and step.causes != {Cause.JOIN} else step.at_ms
        elif ran and not runs_now:
            runs.append(Run(began_ms, step.at_ms, left=step.causes == {Cause.LEAVE}))
        ran = runs_now
    return tuple(runs)


def next_run_ms(runs: Sequence[Run]) -> int | None:
    """When the next run of a job begins at the latest, as those of the log began; None if they show no job.

    A group is a job if it was Empty for longer than it ran.
    """
    begun = [(run.began_ms, run.ended_ms) for run in runs if run.began_ms is not None]
    ran_ms = sum(ended_ms - began_ms for began_ms, ended_ms in begun)
    paused_ms = sum(later[0] - earlier[1] for earlier, later in pairwise(begun))
    if paused_ms <= ran_ms:
        return None
    return begun[-1][0] + max(later[0] - earlier[0] for earlier, later in pairwise(begun)) + RESTART.value


def is_known_job(runs: Sequence[Run]) -> bool:
    """Whether the runs prove a job: two may be those of a service that was stopped twice."""
    return sum(run.began_ms is not None for run in runs) >= _PROVE_A_JOB and next_run_ms(runs) is not None


def job_words(runs: Sequence[Run], first_unread_ms: int | None, now_ms: int, *, quiet: bool) -> str | None:
    """Why an Empty group with unread records may be a job that is not due; None if its consumers are missing.

    Its last run left, and read to the end: what is unread came later, first at ``first_unread_ms``, None: not known.
    ``quiet`` is whether that is little, and no more arrives. One or two runs do not show when the next one is late:
    then nothing is missing as long as all of it may have come within a minute after the last one.
    """
    if not runs or not runs[-1].left or first_unread_ms is None:
        return None
    ended_ms = runs[-1].ended_ms
    if first_unread_ms < ended_ms - SERIES_PAUSE.value:
        return None
    due_ms = next_run_ms(runs)
    if due_ms is not None and (now_ms <= due_ms or is_known_job(runs)):
        or_missing = "" if is_known_job(runs) else ", or its consumers are missing, the log does not show which"
        due = f"as its runs so far, the next one begins by {short_time(due_ms, now_ms)}"
        return f"a job that is not due{or_missing}: {due}" if now_ms <= due_ms else None
    if not quiet or now_ms - ended_ms >= RATE_SPAN.value + RESTART.value:
        return None
    which = "its only known run" if due_ms is None else "its last run"
    return (
        "a job that is not due, or its consumers are missing, the log does not show which: "
        f"{which} read to the end and left, and nothing arrives any more"
    )
