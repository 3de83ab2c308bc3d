"""A rule of the doctor and its answers: findings with evidence, and checks that were not possible with the reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec

from kgroup.groups.lag.past import LagPast
from kgroup.groups.thresholds import Threshold
from kgroup.model.groups import Group, Partition
from kgroup.support.durations import format_duration
from kgroup.support.hint import Hint
from kgroup.support.instants import minute_text
from kgroup.support.json_types import ExplainedEnum
from kgroup.support.quoting import quote
from kgroup.support.units import plural, some_of

NO_SUBSCRIPTIONS = "which topics its members subscribe to is not known (a pattern, or a rebalance)"


class RuleScope(ExplainedEnum):
    """What a rule is about."""

    CLUSTER = "cluster", "the cluster"
    GROUP = "group", "a group"
    QUERY = "query", "a streaming query"
    SHARE = "share", "a share group"
    STREAMS = "streams", "a streams group"


class Severity(ExplainedEnum):
    INFO = "info", "could be better"
    WARNING = "warning", "will fail one day, or has a cost now"
    CRITICAL = "critical", "loses records or stops reading now"

    @property
    def rank(self) -> int:
        """0 for INFO, 1 for WARNING, 2 for CRITICAL, for sorting."""
        return list(Severity).index(self)


class Finding(msgspec.Struct, frozen=True):
    """A problem of a group or the cluster. Its evidence names some of what is affected.

    Commands of kgroup lack ``--execute``.
    """

    rule: Annotated[str, "The id of the rule."]
    severity: Annotated[Severity, "How bad it is."]
    evidence: Annotated[str, "What was observed, for people."]
    numbers: Annotated[
        Mapping[str, int], "The same for programs; the rule decides which. Names with _ms are durations."
    ]
    affected: Annotated[tuple[str, ...], "Partitions, members, topics or brokers that are affected, the worst first."]
    remedy: Annotated[str, "What to do, for people."]
    commands: Annotated[tuple[str, ...], "Commands and settings for it."]
    source: Annotated[str, "A KIP, an issue of Kafka or its documentation."]


class NotChecked(msgspec.Struct, frozen=True):
    """A rule that could not check, and the reason; with ``partly`` it checked what could be read.

    ``early`` is whether the problem may just have begun: what was observed is too short to judge, and time decides.
    """

    rule: str
    why: str
    partly: bool = False
    early: bool = False


Answer = tuple[Finding | NotChecked, ...]
"""The answer of a rule; empty if there is no problem."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The findings of one group, or of the cluster (``group`` None), worst first.

    ``checked_count`` is the number of rules that could check at least a part.
    """

    group: str | None
    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    checked_count: int
    past: LagPast | None = None
    """The last hour of a group that is diagnosed alone."""

    @property
    def subject(self) -> str:
        """The group's name; ``the cluster`` for the cluster."""
        return "the cluster" if self.group is None else self.group

    @property
    def is_early(self) -> bool:
        """Whether a rule cannot judge yet: that nothing was found is no all clear."""
        return any(item.early for item in self.not_checked)

    @property
    def worst(self) -> Severity | None:
        """The severity of the worst finding, None without findings."""
        return self.findings[0].severity if self.findings else None

    def count(self, severity: Severity) -> int:
        """The number of findings with this severity."""
        return sum(finding.severity is severity for finding in self.findings)


class Rule(msgspec.Struct, frozen=True):
    """A rule of the doctor. ``id`` is stable and kebab-case, ``meaning`` is the problem in one line.

    ``source`` is its reference, ``thresholds`` are all that it uses. ``scope`` ``cluster`` affects every group.
    """

    id: str
    meaning: str
    source: str
    thresholds: tuple[Threshold, ...] = ()
    scope: RuleScope = RuleScope.GROUP

    def finding(
        self,
        severity: Severity,
        evidence: str,
        *,
        remedy: str,
        numbers: Mapping[str, int],
        affected: Sequence[str] = (),
        commands: Sequence[str] = (),
    ) -> Answer:
        """The answer of a rule that found the problem."""
        return (Finding(self.id, severity, evidence, numbers, tuple(affected), remedy, tuple(commands), self.source),)

    def unknown(self, why: str) -> Answer:
        """The answer of a rule that could not check anything, with the reason."""
        return (NotChecked(self.id, why),)

    def early(self, why: str) -> Answer:
        """The answer of a rule that cannot judge yet, because what it observed is too short."""
        return (NotChecked(self.id, why, early=True),)

    def partly(self, why: str | None) -> Answer:
        """The answer of a rule that checked only a part, with the reason; empty for None: everything was checked."""
        return () if why is None else (NotChecked(self.id, why, partly=True),)


def unread_partitions_text(partitions: Iterable[Partition]) -> str | None:
    """A phrase about partitions whose commits or logs could not be read; None if all were read."""
    missing = [str(p.tp) for p in partitions if p.error or p.log is None]
    return f"{plural(len(missing), 'partition')} could not be read: {some_of(missing)}" if missing else None


def quoted(group: Group) -> str:
    """The group's name, quoted for a shell."""
    return quote(group.name)


def duration(ms: int) -> str:
    """A duration in ms as text: ``45s``, ``38m``."""
    return format_duration(ms / 1000)


def utc_minute(timestamp_ms: int) -> str:
    """``2026-11-21 03:05Z``."""
    return minute_text(timestamp_ms)


def kgroup_command(*words: str) -> Hint:
    """A command of kgroup's, by the words after ``kgroup``; it is shown with the options of the connection."""
    return Hint("{}", words)


def tool_command(tool: str, bootstrap: str | None, rest: str) -> str:
    """A complete command of Kafka's own tools: ``kafka-topics.sh --bootstrap-server b1:9092 --describe ...``."""
    return f"{tool} --bootstrap-server {quote(bootstrap) if bootstrap else 'BROKER'} {rest}"
