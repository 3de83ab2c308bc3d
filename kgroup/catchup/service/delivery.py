"""The delivery of a plan: where its records go, and in which tasks; what a resume may change of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kgroup.catchup.ledger.records import encode
from kgroup.catchup.service.replay import DEAD_LETTERS, IN_GROUPS, WHERE, ReplayOptions
from kgroup.catchup.sinks.spark import OF_WRITER, SELECT
from kgroup.groups.catchup.chunks import assign_to_tasks, group_chunks
from kgroup.groups.catchup.dead_letters import REDRIVE, TO_SOURCE
from kgroup.groups.catchup.decisions import POSSIBLE_DUPLICATES
from kgroup.groups.catchup.delivered import started_chunks, unfinished
from kgroup.groups.catchup.elsewhere import BY, ELSEWHERE, NOT_READ
from kgroup.groups.catchup.model import CatchupPlan, Delivery, Order, PlanSnapshot, Task
from kgroup.groups.catchup.plan_state import SESSION, sink_name
from kgroup.groups.catchup.second_group import DELETE_GROUP, SECOND_GROUP
from kgroup.groups.catchup.yielding import LIVE, YIELD_TO
from kgroup.support.errors import Refused, UsageError, refusal_code
from kgroup.support.hint import Hint

NO_SINK = refusal_code(
    "no-sink",
    "catchup",
    "The plan does not have a destination for its records.",
    "Name one: --to-topic, --to-source, --to-files, --to-command, --to-python, --to-spark or --to-group.",
)
SINK_SET = refusal_code(
    "sink-set",
    "catchup",
    "The plan already has another destination.",
    "Leave the option out. The first destination stays.",
)
UNKNOWN_DELIVERY = refusal_code(
    "unknown-delivery",
    "catchup resume",
    "Another version of kgroup made the plan, with a destination or an option that this version does not have.",
    "Resume it with that version. Or cancel it, and start it again.",
)

OWN_SESSION = refusal_code(
    "own-session",
    "catchup resume",
    "A Spark session of the user's own delivers the plan, with kgroup.spark.gap.",
    "Run that program or notebook again. It delivers what is left.",
)

CHUNKS_PER_SLOT = 4
"""A group has this many chunks for each core: a table has few commits, and not much is written again."""

_MAIN_OPTIONS = {
    "topic": "topic",
    TO_SOURCE: "",
    "files": "dir",
    "command": "command",
    "python": "function",
    "spark": "format",
    SECOND_GROUP: "group",
    ELSEWHERE: BY,
}
"""By sink, the option that has the value of ``--to-topic``, ``--to-files``, ..."""

_OTHER_OPTIONS = {
    "topic": ("timestamps", "partitions"),
    TO_SOURCE: ("timestamps", "partitions"),
    "files": ("format",),
    "command": ("ack", "value-format"),
    "spark": (SELECT,),
    SECOND_GROUP: (DELETE_GROUP,),
}
_TUNING = (*LIVE, "lanes", "retries", "backoff", "handler-timeout")

_KEPT = (DEAD_LETTERS, WHERE, REDRIVE)
"""Options of every sink: they are kept for another sink, unless given again."""

_ADDED = (DEAD_LETTERS, DELETE_GROUP)
"""Options that a resume may set although records are delivered."""


def delivery_of(snapshot: PlanSnapshot, options: ReplayOptions, typed: str | None = None) -> Delivery:
    """The delivery of a plan: the ledger's, or as specified now if no record is delivered yet.

    ``typed`` is the hint for a plan without a sink: this command line with one. Raises Refused [no-sink] if no sink was
    ever given, [sink-set] if it differs from the ledger's after records were delivered.
    """
    plan, known = snapshot.plan, snapshot.delivery
    if known is None:
        if options.sink is None:
            raise Refused(
                f"{plan.id} has no destination for its records",
                hint=typed or Hint("{}", ("catchup", "resume", plan.id, "--to-topic", "TOPIC")),
                code=NO_SINK,
            )
        return new_delivery(plan, options)
    if known.sink == SESSION and options.sink is None:
        raise Refused(
            f"{plan.id} is delivered in a Spark session of its user's own",
            hint=f'run the same program or notebook again: kgroup.spark.gap(spark, "{plan.id}") delivers the rest',
            code=OWN_SESSION,
        )
    said = {name: text for name, text in (options.sink_options or {}).items() if name not in _ADDED}
    differs = options.sink not in (None, known.sink) or any(known.options.get(name) != said[name] for name in said)
    if differs or options.order not in (None, known.order):
        # A filter is never dropped in silence, and what is dead letters remains so.
        keeps = {SECOND_GROUP: (WHERE,), ELSEWHERE: (REDRIVE,)}.get(options.sink or "", _KEPT)
        kept = {name: text for name, text in known.options.items() if options.sink is None or name in keeps}
        handed_over = SECOND_GROUP in (known.sink, options.sink) and snapshot.progress
        if not handed_over and not any(started_chunks(plan, snapshot.progress)):
            sink, order = options.sink or known.sink, options.order or known.order
            sink_options = {**kept, **(options.sink_options or {})}
            fitting = _fitting(known.tuning, known.sink, sink, order)
            tuning = {**fitting, **options.tuning}
            changed = replace(options, sink=sink, sink_options=sink_options, order=order, tuning=tuning, of_context=())
            return new_delivery(plan, changed)
        if known.sink == SESSION:
            back = ("catchup", "cancel", plan.id, "--accept", POSSIBLE_DUPLICATES, "--execute")
            raise Refused(
                f"a Spark session of its user's own has begun to deliver {plan.id}, and may have written some of it",
                hint=Hint("continue there; or move the group back, and start again: {}", back),
                code=OWN_SESSION,
            )
        shown = " ".join(f"{name}={text}" for name, text in sorted(known.options.items()))
        raise Refused(
            f"{plan.id} is delivered to {known.sink} ({shown}) in order {known.order}. This cannot change after the "
            "first delivery.",
            hint=Hint("continue the plan as it is:  {}", ("catchup", "resume", plan.id, *options.tuning_words)),
            code=SINK_SET,
        )
    added = {name: text for name, text in (options.sink_options or {}).items() if name in _ADDED}
    return replace(known, options={**known.options, **added}, tuning={**known.tuning, **options.tuning})


def delivered_elsewhere(snapshot: PlanSnapshot, sink: str | None, options: Mapping[str, str]) -> Refused | None:
    """Refused [sink-set] for a plan that is done, if its records went elsewhere than to the destination named now."""
    known, main = snapshot.delivery, _MAIN_OPTIONS.get(sink or "", "")
    if known is None or sink is None or (sink == known.sink and options.get(main) == known.options.get(main)):
        return None
    there, here = sink_name(known.sink, known.options), sink_name(sink, dict(options))
    return Refused(
        f"{snapshot.plan.id} is done: it was delivered to {there}, so nothing of it is left for {here}",
        hint="catchup start --range TOPIC:PARTITION=START-END delivers records again",
        code=SINK_SET,
    )


def require_known(delivery: Delivery, plan_id: str) -> None:
    """Raise Refused [unknown-delivery] for what this version would ignore: a filter decides what is delivered."""
    main = "" if delivery.sink == SESSION else _MAIN_OPTIONS.get(delivery.sink)
    if main is None:
        unknown = f"--to-{delivery.sink}"
    else:
        known = (main, *_OTHER_OPTIONS.get(delivery.sink, ()), *_KEPT)
        of_writer = delivery.sink == "spark"
        names = [one for one in delivery.options if one not in known and not (of_writer and one.startswith(OF_WRITER))]
        names += [name for name in delivery.tuning if name not in _TUNING]
        if not names:
            return
        unknown = " ".join(f"--{name}" for name in sorted(names))
    raise Refused(
        f"{plan_id} was made with {unknown}, which this version of kgroup does not have",
        hint=Hint("resume it with the version that made it, or cancel it:  {}", ("catchup", "cancel", plan_id)),
        code=UNKNOWN_DELIVERY,
    )


def _fitting(tuning: Mapping[str, str], before: str, sink: str, order: Order) -> dict[str, str]:
    """The part of a plan's tuning that still applies after a change of the sink or the order."""
    kept = {
        name: text
        for name, text in tuning.items()
        if sink == before or (name in LIVE and sink not in (SESSION, *NOT_READ))
    }
    if order is Order.PARTITION:
        kept.pop("lanes", None)
    return kept


def new_delivery(plan: CatchupPlan, options: ReplayOptions) -> Delivery:
    """The delivery of a plan that has none yet; ``options`` names a sink."""
    options = options.with_usual()
    assert options.sink is not None
    check_redrive(options.sink, options.where, of_dead_letters=REDRIVE in (options.sink_options or {}))
    order = options.order or Order.PARTITION
    tasks: tuple[Task, ...] = ()
    if options.sink in IN_GROUPS:
        tasks = group_chunks(plan.chunks, options.chunks or options.at_once * CHUNKS_PER_SLOT)
    elif options.sink not in NOT_READ:
        tasks = assign_to_tasks(plan.ranges, plan.chunks, order, options.at_once)
    delivery = Delivery(options.sink, order, tasks, dict(options.sink_options or {}), tuning=dict(options.tuning))
    encode(delivery)  # raises for text that the ledger cannot keep, before anything is moved
    return delivery


def check_redrive(sink: str | None, where: str | None, *, of_dead_letters: bool) -> None:
    """Raise UsageError for a destination that dead letters cannot have, or that only they can have."""
    if sink == TO_SOURCE and not of_dead_letters:
        raise UsageError("--to-source requires --from-dead-letters: other records have no other source")
    if of_dead_letters and (where is not None or sink == "spark"):
        option = "--where" if where is not None else "--to-spark"
        raise UsageError(
            f"--from-dead-letters and {option} are mutually exclusive: Spark SQL does not know the headers"
        )
    if of_dead_letters and sink == SESSION:
        raise UsageError("a plan of dead letters cannot be delivered in a Spark session of your own")


def deal_again(snapshot: PlanSnapshot, delivery: Delivery, options: ReplayOptions) -> Delivery:
    """The delivery with tasks of what is left, for the workers of this run.

    Only for a run that took the plan over, which fences the tasks of earlier runs: a chunk may get into another task.
    """
    left = unfinished(snapshot.plan, snapshot.progress)
    # A table remembers a group by its number; what kgroup does not read has no tasks.
    if not left or delivery.sink in (*IN_GROUPS, *NOT_READ):
        return delivery
    return replace(delivery, tasks=assign_to_tasks(snapshot.plan.ranges, left, delivery.order, options.at_once))


def delivery_words(delivery: Delivery) -> Iterator[str]:
    """The delivery's settings, as options for another plan: ``--to-topic orders-backfill --rate 500/s``."""
    if delivery.sink in (SESSION, ELSEWHERE):
        return
    main = _MAIN_OPTIONS[delivery.sink]
    yield f"--to-{delivery.sink}"
    if main:
        yield delivery.options[main]
    if delivery.order is not Order.PARTITION:
        yield from ("--order", delivery.order)
    settings = {name: text for name, text in delivery.options.items() if name not in (main, REDRIVE)}
    tuning = {name: text for name, text in delivery.tuning.items() if name != YIELD_TO}  # that plan has no group
    if settings.pop(DELETE_GROUP, None):
        yield f"--{DELETE_GROUP}"
    for name, text in {**settings, **tuning}.items():
        of_writer = name.startswith(OF_WRITER)
        yield from ("--option", f"{name.removeprefix(OF_WRITER)}={text}") if of_writer else (f"--{name}", text)
