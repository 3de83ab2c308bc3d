"""The target topic of a replay: freezes its id and log ends, and finds delivered records that it lost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from kgroup.catchup.ledger.runner import Runner
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.replay import DEAD_LETTERS, delivery_words
from kgroup.catchup.service.show import commands
from kgroup.catchup.service.target_losses import (
    DeliveredRanges,
    TargetLoss,
    difference,
    find_delivered,
    find_loss,
    has_delivered,
    read_target,
)
from kgroup.catchup.sinks.topic import keeps_partitions
from kgroup.cluster.topics import TopicLayout
from kgroup.groups.catchup.delivered import undelivered
from kgroup.groups.catchup.model import LATEST, Delivery, PlanSnapshot
from kgroup.groups.catchup.unrecorded_releases import range_words
from kgroup.model.groups import RowError
from kgroup.model.records import OffsetRange, merged
from kgroup.model.reporter import Reporter
from kgroup.support.errors import ExitCode
from kgroup.support.hint import Hint
from kgroup.support.units import plural

_NAMED = 3
_MOST_RANGES = 100
_UNKNOWN = "the ledger does not have the earlier log end offsets of the topic"


def target_of(delivery: Delivery | None) -> str | None:
    """The name of the target topic; None for other sinks."""
    return delivery.options.get("topic") if delivery is not None and delivery.sink == "topic" else None


def check_target_topic(engine: CatchupEngine, config: Mapping[str, Any], runner: Runner) -> TargetLoss | None:
    """Freeze the target topic before the first record; later, return what it has lost since. None: nothing.

    No other run may work on the plan, and its tasks must have ended. Raises what reading the target topic or the ledger
    raises: a topic that could not be read is not verified.
    """
    delivery = runner.snapshot.delivery
    topic = target_of(delivery)
    if topic is None or delivery is None:
        return None
    now, before = read_target(engine.cluster, topic), delivery.target
    why = _UNKNOWN if before is None else difference(topic, before, now)
    if why is None:
        return None
    if not has_delivered(runner.snapshot):
        if now is not None:
            runner.write(replace(delivery, target=now.frozen()))
        return None
    # Open transactions of abandoned workers must be decided before counting.
    engine.ledger.fence_tasks(runner.plan_id, (task.number for task in delivery.tasks))
    loss = _loss(engine, config, runner.read(), topic, why)
    return loss if loss.gone else None


def freeze_dead_letters(engine: CatchupEngine, runner: Runner) -> None:
    """Freeze the dead-letter topic in the ledger before the first dead letter. Raises what reading it raises."""
    delivery = runner.snapshot.delivery
    name = delivery.options.get(DEAD_LETTERS) if delivery is not None else None
    if delivery is None or name is None or name in delivery.dead_letters:
        return
    if (now := read_target(engine.cluster, name)) is not None:
        runner.write(replace(delivery, dead_letters={**delivery.dead_letters, name: now.frozen()}))


def missing_dead_letters(engine: CatchupEngine, config: Mapping[str, Any], found: PlanSnapshot) -> str | None:
    """A sentence about the plan's dead letters that are gone from their topics; None: all are there.

    They cannot be delivered again: only the run that rejected them had them.
    """
    dead = sum(found.progress[chunk.number].dead for chunk in found.plan.chunks if chunk.number in found.progress)
    before = found.delivery.dead_letters if found.delivery is not None else {}
    now = {name: read_target(engine.cluster, name) for name in before} if dead else {}
    changes = [why for name, topic in now.items() if (why := difference(name, before[name], topic)) is not None]
    if not changes:
        return None
    plan_id = found.plan.id
    left = sum(find_delivered(config, name, topic, plan_id).records for name, topic in now.items() if topic is not None)
    return None if left >= dead else f"missing dead letters: {dead - left} of {dead} ({', '.join(changes)})"


def _loss(engine: CatchupEngine, config: Mapping[str, Any], found: PlanSnapshot, topic: str, why: str) -> TargetLoss:
    assert found.delivery is not None
    now, there = read_target(engine.cluster, topic), DeliveredRanges()
    if now is not None:
        engine.reporter.note(f"{why}: kgroup reads {topic} to find which copies it still has")
        there = find_delivered(config, topic, now, found.plan.id)
    layouts = engine.cluster.layouts({item.topic for item in found.plan.ranges})
    most = max((len(item.leaders) for item in layouts.values() if isinstance(item, TopicLayout)), default=0)
    targets = 0 if now is None else len(now.ends)
    keeps = keeps_partitions(found.delivery.options.get("partitions", ""), most, targets)
    return find_loss(found, there, now, why, keeps_partitions=keeps)


def report_loss(reporter: Reporter, found: PlanSnapshot, loss: TargetLoss) -> None:
    """Report the loss as an event."""
    what = f"{plural(loss.records, 'record')} from {target_of(found.delivery)}: {first_ranges(loss.gone)}"
    reporter.event("GONE", f"{found.plan.id}  {what}: {loss.why}")


def first_ranges(rows: tuple[OffsetRange, ...]) -> str:
    """The first ranges, and how many more there are."""
    more = f" and {plural(len(rows) - _NAMED, 'more range')}" if len(rows) > _NAMED else ""
    return ", ".join(map(str, rows[:_NAMED])) + more


def loss_errors(found: PlanSnapshot, loss: TargetLoss) -> tuple[RowError, ...]:
    """A row for each range that is gone; the first has what to do next."""
    topic, hint = target_of(found.delivery), recovery_hint(found, loss)
    return tuple(
        RowError(
            "gone-from-target",
            f"[{row.start}, {row.end}) was delivered to {topic}, which no longer has it: {loss.why}",
            found.plan.group,
            row.topic,
            row.partition,
            hint=hint if row is loss.gone[0] else None,
            exit_code=ExitCode.CHECK_FAILED,
        )
        for row in loss.gone
    )


def recovery_hint(found: PlanSnapshot, loss: TargetLoss) -> str:
    """The commands that close the plan, and deliver the lost and the undelivered records with another one."""
    assert found.delivery is not None
    rows = merged((*loss.gone, *undelivered(found.plan, found.progress)))
    if LATEST in found.delivery.options:  # of a part of the gap, another record would be the newest
        rows = merged(OffsetRange(*item.tp, item.start, item.end) for item in found.plan.ranges)
    if len(rows) > _MOST_RANGES:
        by_partition = groupby(rows, key=lambda row: (row.topic, row.partition))
        spans = ((tp, list(some)) for tp, some in by_partition)
        rows = [OffsetRange(*tp, some[0].start, some[-1].end) for tp, some in spans]
    other = replace(found.delivery, options={**found.delivery.options, "topic": "OTHER"})
    words = ("catchup", "start", *range_words(rows), *delivery_words(other), "--execute")
    return (
        "close the plan, and deliver the missing and the undelivered records to another topic:  "
        f"{commands(found).abandon};  {Hint('{}', words)}"
    )
