"""Pending catch-ups of groups, for all other verbs: a lag of 0 does not show what is pending.

The ledger is read only if it exists, and at most ``_PATIENCE_S`` is spent waiting for open transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kgroup.cluster.refresh_cache import CachedValue
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.catchup.model import LEDGER_TOPIC
from kgroup.model.output_format import Format
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.environment import variable
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, NotFound
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.catchup.ledger.ledger import PlanListing
    from kgroup.groups.catchup.plan_state import VerifiedPlan
    from kgroup.groups.catchup.unrecorded_releases import UnrecordedRelease
    from kgroup.groups.change_plan import ChangePlan
    from kgroup.model.groups import Group

_MARKED = "kgroup cu-"
_PATIENCE_S = 0.3
_EVERY_S = 30.0
"""How often --watch reads the ledger, if there is one: this takes longer than all other requests."""


def ledger_topic(named: str | None) -> str:
    """The ledger's topic: the option, else KGROUP_LEDGER_TOPIC, else ``_kgroup_ledger``."""
    return named or variable("KGROUP_LEDGER_TOPIC") or LEDGER_TOPIC


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """The content of the ledger: open plans by group, and the whole listing, None if it was not read.

    ``missing`` is why a plan may not be in it. ``unknown`` is why there may be more open plans; None: there are none.
    """

    open: Mapping[str, list[VerifiedPlan]]
    listing: PlanListing | None
    missing: str
    unknown: str | None = None

    def unledgered(self, group: Group) -> tuple[UnrecordedRelease, ...]:
        """The releases that the group's commits show and the ledger does not contain."""
        # Imported here: very few groups have such a release.
        from kgroup.groups.catchup.unrecorded_releases import find_unrecorded_releases

        if self.listing is None:
            return find_unrecorded_releases(group, lambda plan_id: False)
        return find_unrecorded_releases(group, self.listing.knows, self.listing.plans)


def read_ledger(run: Invocation, cluster: Cluster) -> LedgerReading:
    """The ledger's content for all groups; what cannot be read is reported as a note.

    Without a ledger it costs one request. Without DESCRIBE on the topic the broker does not show whether a ledger
    exists, so the result is unknown.
    """
    topic = ledger_topic(None)
    try:
        layout = cluster.layouts([topic]).get(topic)
        if layout is None or isinstance(layout, NotFound):  # most clusters have no ledger
            return LedgerReading({}, None, f"there is no ledger {topic}")
        if isinstance(layout, KgroupError):
            raise layout
        # Imported here: very few groups have such a release.
        from kgroup.catchup.ledger.ledger import Ledger
        from kgroup.groups.catchup.plan_state import VerifiedPlan
        from kgroup.groups.catchup.verification import verify

        settings = run.settings
        with Ledger(librdkafka_config(settings), topic, timeout_s=settings.timeout_s) as ledger:
            listing = ledger.list(patience_s=_PATIENCE_S)
    except KgroupError as error:
        run.reporter.note(f"whether a catch-up is owed can't be told: {topic} {error.message}")
        return LedgerReading({}, None, f"{topic} could not be read", f"{topic} could not be read")
    why = None
    for plan_id, fault in listing.unread:
        why = f"{plan_id} in {topic} could not be read"
        run.reporter.note(f"whether a catch-up is owed can't be told: {plan_id}: {fault.message}")
    found: dict[str, list[VerifiedPlan]] = {}
    now_ms = utc_ms()
    for plan in listing.plans:
        if plan.plan.group is not None and plan.state.state.is_open:
            found.setdefault(plan.plan.group, []).append(VerifiedPlan(plan, verify(plan), now_ms))
    missing = f"the ledger {topic} does not have that plan"
    if listing.hidden is not None:
        missing = f"an open transaction hides a part of the ledger {topic}"
    return LedgerReading(found, listing, missing, why)


def has_catchup_tag(group: Group) -> bool:
    """Whether a commit of the group has the tag of a catch-up; needs no request."""
    return any(item.commit is not None and item.commit.metadata.startswith(_MARKED) for item in group.partitions)


def warn_of_plans(run: Invocation, cluster: Cluster, plan: ChangePlan) -> None:
    """Warn about what is pending, or may be, for each group that is about to be changed."""
    names = frozenset(plan.affected_groups)
    if not names:
        return
    ledger = read_ledger(run, cluster)
    for name in sorted(names & ledger.open.keys()):
        for state in ledger.open[name]:
            plan_id, owed = state.snapshot.plan.id, plural(state.owed, "offset")
            run.reporter.warn(
                f"{name} has an open catch-up, {plan_id} ({state.word}), that owes {owed}: they come beside whatever "
                f"this changes; see  {run.command('catchup', 'show', plan_id)}"
            )
    for group in plan.groups:
        if group.name in names and has_catchup_tag(group):
            for row in ledger.unledgered(group):
                run.reporter.warn(
                    f"{group.name} may have a pending catch-up ({row.text}): {ledger.missing}, and only the group's "
                    f"commits still show it; see  {run.command('catchup', 'start', group.name)}"
                )


@dataclass(frozen=True, slots=True)
class PendingCatchups:
    """What is pending, by group: ``lines`` for pages, ``documents`` for json and yaml.

    ``notes`` are the same lines for formats without a place for them. ``unknown`` is why a group that is in none of
    them may have a pending catch-up; None: it has none. ``on_page`` is whether the page has a place for that.
    """

    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    documents: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unknown: str | None = None
    on_page: bool = False

    def lines_for(self, groups: Iterable[str]) -> dict[str, Sequence[str]]:
        """The lines of these groups."""
        otherwise = (f"unknown: {self.unknown}",) if self.unknown and self.on_page else ()
        return {group: self.lines.get(group, otherwise) for group in groups}

    def documents_for(self, groups: Iterable[str]) -> dict[str, Sequence[Mapping[str, Any]] | None]:
        """The JSON form for these groups; None: unknown."""
        return {group: self.documents.get(group, None if self.unknown else ()) for group in groups}

    @classmethod
    def read(cls, run: Invocation, ledger: LedgerReading, groups: Iterable[Group], *, on_page: bool) -> PendingCatchups:
        """Compute it for all groups at once. ``on_page``: the page has a place for it."""
        lost = {group.name: rows for group in groups if has_catchup_tag(group) and (rows := ledger.unledgered(group))}
        plans, unknown = ledger.open, ledger.unknown
        if not plans and not lost:
            return cls(unknown=unknown, on_page=on_page)
        # Imported here: very few groups have such a release.
        from kgroup.groups.catchup.plan_state import pending_documents, pending_lines

        names = {*plans, *lost}
        if run.format in (Format.JSON, Format.YAML):
            return cls(
                documents={
                    name: [*pending_documents(plans.get(name, ())), *(row.document() for row in lost.get(name, ()))]
                    for name in names
                },
                unknown=unknown,
            )
        lines = {
            name: [
                *pending_lines(plans.get(name, ())),
                *(
                    f"maybe {row.text}: {ledger.missing}; see  {run.command('catchup', 'start', name)}"
                    for row in lost.get(name, ())
                ),
            ]
            for name in names
        }
        if on_page and run.format in (Format.TABLE, Format.WIDE, Format.MARKDOWN):
            return cls(lines, unknown=unknown, on_page=True)
        return cls(notes=lines, unknown=unknown)

    def note(self, run: Invocation, groups: Iterable[str]) -> None:
        """Report for these groups what the output has no place for."""
        for group in groups:
            if lines := self.notes.get(group):
                run.reporter.note(f"{group}: owed: {'; '.join(lines)}")


def read_pending(run: Invocation, cluster: Cluster, groups: Iterable[Group], *, on_page: bool) -> PendingCatchups:
    """The pending catch-ups of these groups. A ledger that was read less than ``_EVERY_S`` ago is not read again."""
    cached, topic = cluster.cache.ledger, ledger_topic(None)
    if cached is None or not cached.is_fresh(_EVERY_S):
        cached = cluster.cache.ledger = CachedValue(read_ledger(run, cluster), topic)
    return PendingCatchups.read(run, cached.value, groups, on_page=on_page)
