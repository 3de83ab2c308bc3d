"""Pending catch-ups of groups, for all other verbs: a lag of 0 does not show what is pending.

The ledger is read only if it exists, and at most ``_PATIENCE_S`` is spent waiting for open transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from kgroup.cluster.refresh_cache import CachedValue
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.catchup.ledger_name import LEDGER_TOPIC
from kgroup.model.output_format import Format
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.environment import variable
from kgroup.support.background import in_background
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, NotFound
from kgroup.support.hint import Hint
from kgroup.support.units import plural

if TYPE_CHECKING:
    from kgroup.catchup.ledger.ledger import PlanListing
    from kgroup.cluster.topics import TopicLayout
    from kgroup.groups.catchup.plan_state import VerifiedPlan
    from kgroup.groups.catchup.unrecorded_releases import UnrecordedRelease
    from kgroup.groups.change_plan import ChangePlan
    from kgroup.model.groups import Group
    from kgroup.model.pending_catchup import PendingCatchup
    from kgroup.model.reporter import Reporter
    from kgroup.settings.model import Settings

_MARKED = "kgroup cu-"
_PATIENCE_S = 0.3
_EVERY_S = 30.0
"""How often --watch reads the ledger, if there is one: this takes longer than all other requests."""


def ledger_topic(named: str | None) -> str:
    """The ledger's topic: the option, else KGROUP_LEDGER_TOPIC, else ``_kgroup_ledger``."""
    return named or variable("KGROUP_LEDGER_TOPIC") or LEDGER_TOPIC


class LedgerReading(msgspec.Struct, frozen=True):
    """The content of the ledger: open plans by group, and the whole listing, None if it was not read.

    An empty ledger is not listed: ``listing`` is None. ``missing`` is why a plan may not be in it. ``unknown`` is why
    there may be more open plans; None: there are none.
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


def begin_reading_ledger(
    settings: Settings, cluster: Cluster, groups: Container[str] | None = None
) -> Callable[[Reporter], LedgerReading]:
    """Begin to read the ledger's content for these groups, None: all; and return what waits for it.

    What cannot be read is reported as a note. Without a ledger it costs one request, and one more round trip if the
    ledger has no records. Without DESCRIBE on the topic the broker does not show whether a ledger exists, so the result
    is unknown.

    A consumer starts and reads in the background, while the cluster is asked for other things. Everything that was
    committed to the ledger before this call is in the result.
    """
    topic = ledger_topic(None)
    missing = f"the ledger {topic} does not have that plan"
    try:
        layout = cluster.layouts([topic]).get(topic)
        if layout is None or isinstance(layout, NotFound):  # most clusters have no ledger
            return lambda reporter: LedgerReading({}, None, f"there is no ledger {topic}")
        if isinstance(layout, KgroupError):
            raise layout
        if _is_empty(cluster, topic, layout):
            return lambda reporter: LedgerReading({}, None, missing)
    except KgroupError as error:
        fault = error
        return lambda reporter: _unread(reporter, topic, fault)

    def list_plans() -> PlanListing:
        # Imported here, while other threads wait for brokers: most ledgers are empty, and this takes 0.06 s.
        from kgroup.catchup.ledger.ledger import Ledger
        from kgroup.catchup.ledger.view import affecting

        with Ledger(librdkafka_config(settings), topic, timeout_s=settings.timeout_s) as ledger:
            return ledger.list(patience_s=_PATIENCE_S, wanted=affecting(groups))

    listing = in_background("pending", list_plans)

    def result(reporter: Reporter) -> LedgerReading:
        try:
            return _content(reporter, topic, missing, listing.result())
        except KgroupError as error:
            return _unread(reporter, topic, error)

    return result


def _unread(reporter: Reporter, topic: str, error: KgroupError) -> LedgerReading:
    reporter.note(f"it is unknown whether a catch-up is pending: {topic} {error.message}")
    return LedgerReading({}, None, f"{topic} could not be read", f"{topic} could not be read")


def _content(reporter: Reporter, topic: str, missing: str, listing: PlanListing) -> LedgerReading:
    why = None
    for plan in listing.plans:
        if plan.plan.id in listing.headless and plan.damage is not None:
            missing, why = f"its record in {topic} could not be read", f"{plan.plan.id} in {topic} could not be read"
            reporter.note(f"it is unknown whether a catch-up is pending: {plan.damage.message}")
        elif plan.is_damaged and plan.damage is not None:
            shown = Hint("{}", ("catchup", "show", plan.plan.id))
            reporter.note(f"{plan.plan.id} cannot be continued: {plan.damage.message}; see  {shown}")
    by_group: dict[str, list[VerifiedPlan]] = {}
    now_ms = utc_ms()
    for plan in listing.plans:
        if plan.plan.group is not None and plan.state.state.is_open:
            # Imported here: few groups have one.
            from kgroup.groups.catchup.plan_state import VerifiedPlan
            from kgroup.groups.catchup.verification import verify

            by_group.setdefault(plan.plan.group, []).append(VerifiedPlan(plan, verify(plan), now_ms))
    if listing.hidden is not None:
        missing = f"an open transaction hides a part of the ledger {topic}"
    return LedgerReading(by_group, listing, missing, why)


def _is_empty(cluster: Cluster, topic: str, layout: TopicLayout) -> bool:
    """Whether the log has no offset at all, not even one of an open transaction. False if that cannot be read."""
    tp = TopicPartition(topic, 0)
    log = cluster.positions({topic: layout}, [tp])[tp]
    return not isinstance(log, KgroupError) and log.start.offset == log.end.offset


def has_catchup_tag(group: Group) -> bool:
    """Whether a commit of the group has the tag of a catch-up; needs no request."""
    return any(p.commit is not None and p.commit.metadata.startswith(_MARKED) for p in group.partitions)


def warn_of_plans(reporter: Reporter, settings: Settings, cluster: Cluster, plan: ChangePlan) -> None:
    """Warn about what is pending, or may be, for each group that is about to be changed."""
    names = frozenset(plan.affected_groups)
    if not names:
        return
    ledger = begin_reading_cached_ledger(settings, cluster, names)(reporter)
    for name in sorted(names & ledger.open.keys()):
        for state in ledger.open[name]:
            plan_id, offsets = state.snapshot.plan.id, plural(state.pending, "offset")
            reporter.warn(
                f"{name} has the open catch-up {plan_id} ({state.phase}) with {offsets} pending, which are delivered "
                f"in addition to this change; see  {Hint('{}', ('catchup', 'show', plan_id))}"
            )
    for group in plan.groups:
        if group.name in names and has_catchup_tag(group):
            for row in ledger.unledgered(group):
                reporter.warn(
                    f"{group.name} may have a pending catch-up ({row.text}): {ledger.missing}. Only the commits of the "
                    f"group show it; see  {Hint('{}', ('catchup', 'start', group.name))}"
                )


class PendingCatchups(msgspec.Struct, frozen=True):
    """What is pending, by group: ``lines`` for pages, ``documents`` for json, yaml and metrics.

    ``notes`` are the same lines for formats without a place for them. ``unknown`` is why a group that is in none of
    them may have a pending catch-up; None: it has none. ``on_page`` is whether the page has a place for that.
    """

    lines: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    documents: Mapping[str, Sequence[PendingCatchup]] = msgspec.field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)
    unknown: str | None = None
    on_page: bool = False

    def lines_for(self, groups: Iterable[str]) -> dict[str, Sequence[str]]:
        """The lines of these groups."""
        otherwise = (f"unknown: {self.unknown}",) if self.unknown and self.on_page else ()
        return {group: self.lines.get(group, otherwise) for group in groups}

    def documents_for(self, groups: Iterable[str]) -> dict[str, Sequence[PendingCatchup] | None]:
        """The JSON form for these groups; None: unknown."""
        return {group: self.documents.get(group, None if self.unknown else ()) for group in groups}

    @classmethod
    def read(cls, form: Format, ledger: LedgerReading, groups: Iterable[Group], *, on_page: bool) -> PendingCatchups:
        """Compute it for all groups at once. ``on_page``: the page has a place for it."""
        lost = {group.name: rows for group in groups if has_catchup_tag(group) and (rows := ledger.unledgered(group))}
        plans, unknown = ledger.open, ledger.unknown
        if not plans and not lost:
            return cls(unknown=unknown, on_page=on_page)
        # Imported here: very few groups have such a release.
        from kgroup.groups.catchup.documents import pending_catchups
        from kgroup.groups.catchup.plan_state import pending_lines

        names = {*plans, *lost}
        documents = {}
        if form in (Format.JSON, Format.YAML, Format.PROMETHEUS):
            documents = {name: pending_catchups(plans.get(name, ()), lost.get(name, ())) for name in names}
        if form in (Format.JSON, Format.YAML):
            return cls(documents=documents, unknown=unknown)
        lines = {
            name: [
                *pending_lines(plans.get(name, ())),
                *(
                    f"maybe {row.text}: {ledger.missing}; see  {Hint('{}', ('catchup', 'start', name))}"
                    for row in lost.get(name, ())
                ),
            ]
            for name in names
        }
        if on_page and form.is_page:
            return cls(lines, unknown=unknown, on_page=True)
        return cls(documents=documents, notes=lines, unknown=unknown)

    def note(self, reporter: Reporter, groups: Iterable[str]) -> None:
        """Report for these groups what the output has no place for."""
        for group in groups:
            if lines := self.notes.get(group):
                reporter.note(f"{group}: pending: {'; '.join(lines)}")


def begin_reading_cached_ledger(
    settings: Settings, cluster: Cluster, groups: frozenset[str] | None
) -> Callable[[Reporter], LedgerReading]:
    """As ``begin_reading_ledger``; a ledger that was read less than ``_EVERY_S`` ago is not read again."""
    cached: CachedValue[LedgerReading, frozenset[str] | None] | None = cluster.cache.ledger
    covers = cached is not None and (cached.about is None or (groups is not None and groups <= cached.about))
    if cached is not None and covers and cached.is_fresh(_EVERY_S):
        known = cached.value
        return lambda reporter: known
    begun = begin_reading_ledger(settings, cluster, groups)

    def result(reporter: Reporter) -> LedgerReading:
        reading = begun(reporter)
        cluster.cache.ledger = CachedValue(reading, groups)
        return reading

    return result
