"""Shared by the catch-up verbs: opens the cluster and its ledger, and finds a plan by its id or its group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches

from kgroup.catchup.ledger.ledger import Ledger, PlanListing
from kgroup.catchup.ledger.view import Wanted, nothing_wanted
from kgroup.catchup.service.engine import CatchupEngine
from kgroup.catchup.service.pending import ledger_topic
from kgroup.cluster.reader.to_end import PATIENCE_S
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.catchup.gap_request import check_topic_name
from kgroup.groups.catchup.model import PlanHead, PlanSnapshot
from kgroup.groups.commit_tags import is_plan_id
from kgroup.model.reporter import Reporter
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.model import Settings
from kgroup.support.clock import utc_ms
from kgroup.support.durations import format_duration
from kgroup.support.errors import NotFound, UsageError
from kgroup.support.hint import Hint
from kgroup.support.units import some_of
from kgroup.support.user import whoami

_NEAR = 3
_SOON_S = 2.0


class SeveralPlans(UsageError):
    """A group has several plans, and one was meant; ``plan_ids`` are those that may be open, the newest first."""

    def __init__(self, group: str, plan_ids: Sequence[str], *, still_open: bool) -> None:
        super().__init__(f"{group} has {len(plan_ids)} plans: {some_of(plan_ids)}", hint="name one plan by its id")
        self.plan_ids = tuple(plan_ids) if still_open else ()


@contextmanager
def open_engine(settings: Settings, reporter: Reporter, topic: str | None) -> Iterator[CatchupEngine]:
    """The cluster and its ledger, open within the block. Raises what connecting raises."""

    def on_wait(seconds: float) -> None:
        reporter.event("WAIT", f"for the end of an open transaction on the ledger: at most {format_duration(seconds)}")

    name = ledger_topic(topic)
    check_topic_name("--ledger-topic" if topic else "KGROUP_LEDGER_TOPIC", name)
    config = librdkafka_config(settings)
    with (
        ChangingCluster(settings) as cluster,
        Ledger(config, name, timeout_s=settings.timeout_s, on_wait=on_wait) as ledger,
    ):
        yield CatchupEngine(cluster, ledger, whoami(), utc_ms, reporter)


def list_plans(
    engine: CatchupEngine, patience_s: float = PATIENCE_S, *, wanted: Wanted = nothing_wanted
) -> PlanListing:
    """The plans, for display, as ``Ledger.list``; unreadable ones are reported."""
    listing = engine.ledger.list(patience_s=patience_s, wanted=wanted)
    note_unread(engine, listing)
    return listing


def note_unread(engine: CatchupEngine, listing: PlanListing) -> None:
    """Report what the listing does not contain."""
    if listing.hidden is not None:
        engine.reporter.note(f"{listing.hidden.message}: newer records cannot be read yet")
    for plan_id, error in listing.unread:
        engine.reporter.note(f"{plan_id}: {error.message}")


def running_plan(engine: CatchupEngine, text: str) -> PlanSnapshot:
    """The plan to be stopped, as ``find_plan``, but without waiting for transactions of the plan's own workers.

    They may hide the newest records for a minute, which a stop does not need. If no open plan is visible, it waits.
    """
    with suppress(NotFound, UsageError):
        snapshot = _find(engine, text, _SOON_S, finished=True)
        if snapshot.state.state.is_open:
            return snapshot
    return find_plan(engine, text, finished=True)


def find_plan(engine: CatchupEngine, text: str, *, finished: bool = False) -> PlanSnapshot:
    """The plan with this id, or the plan of this group if there is only one.

    Open plans have priority over finished ones, which count only with ``finished``. The plan may be damaged
    (``PlanSnapshot.damage``). Raises NotFound with similar names, and SeveralPlans.
    """
    return _find(engine, text, PATIENCE_S, finished=finished)


def _find(engine: CatchupEngine, text: str, patience_s: float, *, finished: bool) -> PlanSnapshot:
    def wanted(head: PlanHead) -> bool:
        return head.id == text or (head.group == text and head.may_be_open)

    listing = list_plans(engine, patience_s, wanted=wanted)
    head = _choose(engine, text, listing, finished=finished)
    listed = next((listed for listed in listing.plans if listed.plan.id == head.id), None)
    return engine.ledger.read(head.id, head.offset, lenient=True) if listed is None else listed


def _choose(engine: CatchupEngine, text: str, listing: PlanListing, *, finished: bool) -> PlanHead:
    by_id = {head.id: head for head in listing.heads}
    if text in by_id:
        return by_id[text]
    of_group = [head for head in listing.heads if head.group == text]
    still_open = [head for head in of_group if head.may_be_open]
    chosen = still_open or (of_group if finished else [])
    if len(chosen) > 1:
        raise SeveralPlans(text, [head.id for head in reversed(chosen)], still_open=bool(still_open))
    if chosen:
        return chosen[0]
    raise _unknown(engine, text, listing.heads, of_group)


def _unknown(engine: CatchupEngine, text: str, plans: Sequence[PlanHead], of_group: Sequence[PlanHead]) -> NotFound:
    if of_group:
        ids = ", ".join(f"{head.id} is {head.state}" for head in of_group[-_NEAR:])
        return NotFound(
            f"{text} has no open plan", details=(f"{ids}.",), hint=Hint("{}", ("catchup", "list")), code="no-plan"
        )
    hint = Hint("{} shows all plans; {} makes a new one", ("catchup", "list"), ("catchup", "start", text))
    if is_plan_id(text):
        hint = Hint(
            "{} shows all plans; if the ledger was lost, {} shows what the plan released",
            ("catchup", "list"),
            ("describe", "GROUP"),
        )
    names = [head.id for head in plans] + [head.group for head in plans if head.group]
    near = get_close_matches(text, names, n=_NEAR)
    return NotFound(
        f'{engine.ledger.topic} on {engine.cluster.ref.label} has neither a plan "{text}" nor a plan of a group '
        "of that name",
        details=(f"Similar: {', '.join(dict.fromkeys(near))}",) if near else (),
        hint=hint,
        code="no-plan",
    )


def parse_assumed(given: Sequence[str], snapshot: PlanSnapshot) -> dict[TopicPartition, bool]:
    """``--assume released`` for all partitions of a plan, ``orders:7=unreleased`` for one. Raises UsageError."""
    assumed: dict[TopicPartition, bool] = {}
    partitions = {item.tp for item in snapshot.plan.ranges}
    for word in given:
        parts = re.fullmatch(r"(?a)(?:([^:=,\s]+):(\d{1,10})=)?(released|unreleased)", word.strip())
        if parts is None:
            raise UsageError(
                f"--assume {word}: choose released or unreleased", hint="for one partition: --assume orders:7=released"
            )
        released = parts[3] == "released"
        if parts[1] is None:
            assumed |= dict.fromkeys(partitions - assumed.keys(), released)
            continue
        tp = (parts[1], int(parts[2]))
        if tp not in partitions:
            raise UsageError(f"--assume {word}: {snapshot.plan.id} does not contain this partition")
        assumed[tp] = released
    return assumed
