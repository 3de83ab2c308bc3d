"""``kgroup catchup start --from-dead-letters TOPIC``: the gap is what is in a dead-letter topic and not redriven yet.

The topic is read for the plan, as far as that takes seconds. A record that another plan delivers, or has delivered, is
left out: the choices of plans are in the ledger, so it is known for each record. No record is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing

import msgspec.structs

from kgroup.catchup.service.delivery import check_redrive
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.lookup import list_plans
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.service.saved_records import load_saved
from kgroup.catchup.service.show import redrive_of
from kgroup.catchup.service.start_plan import StartRequest
from kgroup.cluster.reader.ranges import read_ranges
from kgroup.cluster.topics import LogView, TopicLayout
from kgroup.groups.catchup.dead_letters import (
    REDRIVE,
    TO_SOURCE,
    DeadLetterCounter,
    DeadLetters,
    EarlierPlan,
    Fate,
    Letters,
    Redrive,
)
from kgroup.groups.catchup.gap_request import GapRequest
from kgroup.groups.catchup.model import PlanSnapshot, PlanState
from kgroup.groups.catchup.verification import verify
from kgroup.model.records import OffsetRange, merged, without
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.model import Settings
from kgroup.support.errors import KgroupError, UsageError
from kgroup.support.units import plural

_SCAN_S = 20.0
_EVERY = 1000


def request_dead_letters(
    engine: CatchupEngine,
    settings: Settings,
    request: StartRequest,
    topic: str,
    letters: Letters,
    saved: str | None = None,
) -> StartRequest:
    """The same request for the dead letters of a topic, with no group to move; ``saved`` is the file of ``--load``.

    Raises the error of a topic that does not exist or cannot be read, and what ``read_ranges`` raises.
    """
    layout = engine.cluster.layouts([topic])[topic]
    if isinstance(layout, KgroupError):
        raise type(layout)(f"--from-dead-letters {topic}: {layout.message}", hint=layout.hint, code=layout.code)
    if saved is not None:
        there = list(_whole_ranges(engine, topic, layout))
        load_saved(engine, settings, saved, topic, there, execute=request.change.execute)
    plans, newest = _plans(engine, topic, layout)
    whole = tuple(_whole_ranges(engine, topic, layout))
    done = sorted(row for plan in plans for row in _delivered_whole(plan))
    ranges = [part for row in whole for part in without(row, done)]
    redrive = Redrive(topic, letters, tuple(earlier_plans(plans, ranges)), ledger_offset=newest)
    to_source = request.replay.sink in (None, TO_SOURCE)  # without a destination it is what the plan proposes
    counter = _scan(settings, engine.reporter, ranges, redrive, to_source=to_source)
    summary = counter.summary()
    _report(engine.reporter, summary, letters)
    redrive = msgspec.structs.replace(redrive, sources=summary.sources)
    options = {**(request.replay.sink_options or {}), REDRIVE: redrive.encode()}
    return msgspec.structs.replace(
        request,
        group=None,
        gap=GapRequest(ranges=counter.ranges(ranges)),
        replay=msgspec.structs.replace(request.replay, sink_options=options),
        letters=summary,
    )


def check_dead_letter_plan(options: ReplayOptions, topic: str | None, *, release_only: bool) -> None:
    """Raise UsageError for options that a plan of dead letters cannot have, or that only it can have; None: no such."""
    if topic is not None and (options.sink_options or {}).get("topic") == topic:
        raise UsageError(f"--to-topic {topic} and --from-dead-letters {topic}: a record cannot go to its own topic")
    if topic is not None and release_only:
        raise UsageError("--from-dead-letters and --release-only are mutually exclusive: no group is released")
    check_redrive(options.sink, options.where, of_dead_letters=topic is not None)


def _whole_ranges(engine: CatchupEngine, topic: str, layout: TopicLayout) -> Iterator[OffsetRange]:
    """All that a reader sees of the topic now."""
    partitions = [TopicPartition(topic, number) for number in sorted(layout.leaders)]
    for tp, view in sorted(engine.cluster.log_views({topic: layout}, partitions).items()):
        if not isinstance(view, LogView):
            raise type(view)(f"--from-dead-letters {tp}: {view.message}", hint=view.hint, code=view.code)
        if view.start < view.last_stable.offset:
            yield OffsetRange(*tp, view.start, view.last_stable.offset)


def _plans(engine: CatchupEngine, topic: str, layout: TopicLayout) -> tuple[tuple[PlanSnapshot, ...], int]:
    """(the plans of dead letters of this topic, and not of one that had its name; the offset of the newest plan)"""
    listing = list_plans(engine, wanted=lambda head: head.group is None)
    if listing.hidden is not None:
        raise listing.hidden  # a plan may be hidden, and what it delivers would be delivered again
    newest = max((head.offset for head in listing.heads), default=-1)
    return tuple(plan for plan in listing.plans if _is_of(plan, topic, layout.id)), newest


def _is_of(plan: PlanSnapshot, topic: str, topic_id: str | None) -> bool:
    ids = {item.topic_id for item in plan.plan.ranges if item.topic == topic}
    return bool(ids) and (topic_id is None or not ids.isdisjoint({topic_id, None})) and redrive_of(plan) is not None


def earlier_plans(plans: Iterable[PlanSnapshot], ranges: Sequence[OffsetRange]) -> Iterator[EarlierPlan]:
    """What these plans deliver of ``ranges``; plans that choose the same are one, as with a start every hour."""
    delivered: dict[tuple[Letters, bool], list[OffsetRange]] = {}
    for plan in plans:
        redrive, delivery = redrive_of(plan), plan.delivery
        assert redrive is not None
        assert delivery is not None
        rows: Sequence[OffsetRange] = plan.plan.ranges
        if plan.state.state is PlanState.CANCELLED:
            left = verify(plan).undelivered
            rows = [part for row in rows for part in without(row, left)]
        own = delivered.setdefault((redrive.letters, delivery.sink == TO_SOURCE), [])
        own += [part for row in rows for part in _common(row, ranges)]
    for (letters, to_source), rows in delivered.items():
        if rows:
            parts = tuple((row.partition, row.start, row.end) for row in merged(rows))
            yield EarlierPlan(letters, to_source, parts)


def _common(row: OffsetRange, others: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    for other in others:
        start, end = max(row.start, other.start), min(row.end, other.end)
        if other.tp == row.tp and start < end:
            yield OffsetRange(*row.tp, start, end)


def _delivered_whole(plan: PlanSnapshot) -> Iterator[OffsetRange]:
    """The ranges of which a plan has delivered every record: they need not be read again."""
    if plan.state.state is PlanState.DONE and plan.damage is None:
        for row in verify(plan).partitions:
            if row.complete and not row.filtered:
                yield OffsetRange(*row.tp, row.start, row.end)


def _scan(
    settings: Settings, reporter: Reporter, ranges: Sequence[OffsetRange], redrive: Redrive, *, to_source: bool
) -> DeadLetterCounter:
    """Read the ranges, as far as some seconds allow."""
    counter, until_s = DeadLetterCounter(redrive, to_source=to_source), time.monotonic() + _SCAN_S
    with (
        reporter.progress("reading dead letters", sum(item.offsets for item in ranges), "records") as progress,
        closing(read_ranges(librdkafka_config(settings), ranges, timeout_s=settings.timeout_s)) as records,
    ):
        for number, record in enumerate(records, start=1):
            counter.add(record)
            if number % _EVERY == 0:
                progress.update(number)
                if time.monotonic() > until_s:
                    counter.stopped_at = (record.partition, record.offset + 1)
                    break
    return counter


def _report(reporter: Reporter, summary: DeadLetters, letters: Letters) -> None:
    """Report the records that stay, unless the command did not choose them."""
    if not summary.complete:
        reporter.warn(
            f"{summary.topic}: {plural(summary.records, 'record')} were read for this plan, and the rest was not; "
            "whether their source topics exist is checked when they are delivered"
        )
    reasons: Mapping[Fate, str] = {
        Fate.GAVE_UP: f"they came back {plural(letters.max_attempts, 'time')} or more (--max-attempts)",
        Fate.NO_SOURCE: "no header names their source topic; --to-topic, --to-command and --to-python need none",
        Fate.NO_CONTENTS: "they have neither key nor value; --range can deliver them from their source topic",
    }
    for fate, why in reasons.items():
        if count := summary.count(fate):
            places = [str(place) for place in summary.staying if place.fate is fate]
            more = ", ..." if count > len(places) else ""
            reporter.warn(
                f"{plural(count, 'record')} not delivered, {', '.join(places)}{more} of {summary.topic}: {why}"
            )
    if count := summary.count(Fate.EARLIER):
        reporter.note(f"{plural(count, 'record')} of {summary.topic} are in other plans, or were delivered by them")
