"""The SHAPE line: what the lagging partitions have in common, and whether other groups of the topic lag too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from kgroup.groups import thresholds
from kgroup.groups.lag.evidence import Sibling
from kgroup.groups.lag.report import GroupLag, PartitionLag
from kgroup.groups.lag.status import LagStatus
from kgroup.groups.member_labels import labels
from kgroup.model.groups import Group
from kgroup.support.json_types import ExplainedEnum
from kgroup.support.units import plural


class LagShape(ExplainedEnum):
    """Which partitions lag, and what they have in common."""

    NONE = "none", "no partition lags"
    EVERY = "every-partition", "all of them lag"
    ONE_PARTITION = "one-partition", "one lags"
    ONE_MEMBER = "one-member", "all that lag belong to one member"
    ONE_BROKER = "one-broker", "all that lag have one leader"
    ONE_TOPIC = "one-topic", "all that lag are of one topic"
    SOME = "some-partitions", "they have nothing in common"
    UNKNOWN = "unknown", "the lag of too many is unknown"


class Shape(msgspec.Struct, frozen=True):
    """The lagging partitions and what they have in common."""

    kind: LagShape
    behind: tuple[PartitionLag, ...]
    of: int
    """The number of partitions with a known lag."""
    subject: str | None = None
    """The member id, the broker id or the topic; None for other kinds."""


def shape_of(report: GroupLag) -> Shape:
    """The shape of the lag, from the partitions whose lag is known.

    A lagging partition is behind if it is stuck or was rewound. Others are behind if they lag more than their commit
    interval explains (or that is unknown), and at least a fifth of the largest lag: 15 k next to 3.9 M is not.
    """
    known = [p for p in report.partitions if p.lag is not None]
    if not known:
        return Shape(LagShape.UNKNOWN, (), 0)
    largest = max(p.lag or 0 for p in known)
    behind = tuple(p for p in known if _is_behind(p, largest))
    if not behind:
        return Shape(LagShape.NONE, (), len(known))
    if len(behind) == len(known):
        return Shape(LagShape.EVERY, behind, len(known))
    if len(behind) == 1:
        return Shape(LagShape.ONE_PARTITION, behind, len(known))
    commons: tuple[tuple[LagShape, Callable[[PartitionLag], str | None]], ...] = (
        (LagShape.ONE_MEMBER, lambda p: p.partition.owner.member_id if p.partition.owner else None),
        (LagShape.ONE_BROKER, lambda p: None if p.leader is None else str(p.leader)),
        (LagShape.ONE_TOPIC, lambda p: p.partition.topic),
    )
    for kind, key in commons:
        subject = _common(behind, known, key)
        if subject is not None:
            return Shape(kind, behind, len(known), subject)
    return Shape(LagShape.SOME, behind, len(known))


def _is_behind(row: PartitionLag, largest: int) -> bool:
    if not row.lag or row.status is LagStatus.UNSUBSCRIBED:
        return False
    if row.status is LagStatus.REWIND or (row.status is not None and row.status.is_stuck):
        return True
    return (row.is_behind or row.status is None) and 100 * row.lag >= thresholds.BEHIND_SHARE.value * largest


def _common(
    behind: Sequence[PartitionLag], known: Sequence[PartitionLag], key: Callable[[PartitionLag], str | None]
) -> str | None:
    """The key that all lagging partitions have and no other partition has; None if there is none."""
    subjects = {key(p) for p in behind}
    subject = next(iter(subjects))
    if len(subjects) != 1 or subject is None:
        return None
    return subject if sum(key(p) == subject for p in known) == len(behind) else None


def shape_words(shape: Shape, group: Group) -> str:
    """The shape in words: ``one partition of 12, orders:7 (enrich-1)``, ``every partition, every member``."""
    count = len(shape.behind)
    match shape.kind:
        case LagShape.UNKNOWN:
            return "unknown: no partition's lag is known"
        case LagShape.NONE:
            return "no partition is behind"
        case LagShape.EVERY if shape.of == 1:
            return f"its only partition, {shape.behind[0].where}"
        case LagShape.EVERY:
            members = len({p.partition.owner.member_id for p in shape.behind if p.partition.owner})
            return "every partition" + (", every member" if members > 1 else "")
        case LagShape.ONE_PARTITION:
            row = shape.behind[0]
            owner = row.partition.owner
            whose = f" ({labels(group).get(owner.member_id, owner.member_id)})" if owner else ""
            return f"one partition of {shape.of}, {row.where}{whose}"
        case LagShape.ONE_MEMBER:
            return f"the {plural(count, 'partition')} of one member, {member_words(group, shape.subject)}, no others"
        case LagShape.ONE_BROKER:
            return f"the {plural(count, 'partition')} led by broker {shape.subject}, no others"
        case LagShape.ONE_TOPIC:
            return f"the {plural(count, 'partition')} of {shape.subject}, no others"
        case LagShape.SOME:
            return f"{count} of {shape.of} partitions"


def member_words(group: Group, member_id: str | None) -> str:
    """The label and host of a member: ``enrich-1 (10.0.3.4)``."""
    member = next((m for m in group.members or () if m.member_id == member_id), None)
    if member is None:
        return str(member_id)
    return f"{labels(group)[member.member_id]} ({member.host.removeprefix('/')})"


class OtherGroupsLag(msgspec.Struct, frozen=True):
    """The other groups of the lagging topics."""

    topics: tuple[str, ...]
    keeping_up: tuple[str, ...]
    lagging: tuple[str, ...]
    unknown: tuple[str, ...]
    quiet: tuple[str, ...]
    """They have not committed for an hour, so their lag shows nothing about the topic."""
    without_reader: tuple[str, ...]
    """They are Empty with unread records; their lag shows nothing either."""
    unseen: str | None = None
    """A phrase about groups that could not be read and may read the topics too."""

    @property
    def all_lag(self) -> bool:
        """Whether there are other groups and all of them lag."""
        return bool(self.lagging) and not self.keeping_up and not self.unknown and not self.unseen


def siblings_of(
    siblings: Iterable[Sibling], shape: Shape, report: GroupLag, unseen: str | None = None
) -> OtherGroupsLag:
    """Whether the other groups keep up: their first unread record is at most a minute old.

    Where its age is unknown: their lag is at most what arrives in a minute, or 1,000 records. A group without members
    and with unread records has no reader; if it committed in the last minute, whether it keeps up is unknown.
    """
    topics = tuple(dict.fromkeys(p.partition.topic for p in shape.behind)) or tuple(
        dict.fromkeys(p.partition.topic for p in report.partitions)
    )
    arrivals = {each.topic: each.rates.incoming or 0.0 for each in report.topics}
    results_of_group: dict[str, set[str]] = {}
    for sibling in siblings:
        if sibling.topic not in topics or sibling.group == report.group:
            continue
        if sibling.last_commit_ms is not None and report.now_ms - sibling.last_commit_ms > thresholds.QUIET.value:
            verdict = "quiet"
        elif _lacks_reader(sibling, report.now_ms):
            verdict = "without_reader"
        elif sibling.lag is None:
            verdict = "unknown"
        else:
            lags = _lags(sibling, arrivals.get(sibling.topic, 0.0), report.now_ms)
            # An Empty one has just lost its reader, or restarts: it does not read now.
            verdict = "lagging" if lags else "unknown" if sibling.is_empty and sibling.lag else "keeping_up"
        results_of_group.setdefault(sibling.group, set()).add(verdict)
    # A group on several topics counts once, with its worst result.
    worst = {
        group: next(v for v in _WORST_FIRST if v in verdicts) for group, verdicts in sorted(results_of_group.items())
    }
    names = {v: tuple(g for g, w in worst.items() if w == v) for v in _WORST_FIRST}
    return OtherGroupsLag(topics, **names, unseen=unseen)


_WORST_FIRST = ("lagging", "unknown", "keeping_up", "without_reader", "quiet")


def _lacks_reader(sibling: Sibling, now_ms: int) -> bool:
    """Whether an Empty group has unread records. One that commits has a consumer with ``assign()``, or restarts."""
    if not sibling.is_empty or not sibling.lag:
        return False
    return sibling.last_commit_ms is None or now_ms - sibling.last_commit_ms > thresholds.RESTART.value


def _lags(sibling: Sibling, incoming: float, now_ms: int) -> bool:
    lag = sibling.lag or 0
    if not lag:
        return False
    if sibling.unread_since_ms is None:
        return lag > max(thresholds.LEAST_LAG.value, incoming * thresholds.LATE_SIBLING.value / 1000)
    return now_ms - sibling.unread_since_ms > thresholds.LATE_SIBLING.value


def siblings_words(siblings: OtherGroupsLag, *, too: bool) -> str:
    """The other groups in words: ``2 of 2 other groups of orders keep up``; ``too``: this group is behind."""
    text = _seen_words(siblings, " too" if too else "")
    return text if siblings.unseen is None else f"{text}; {siblings.unseen}"


def _seen_words(siblings: OtherGroupsLag, too: str) -> str:
    of = siblings.topics[0] if len(siblings.topics) == 1 else plural(len(siblings.topics), "topic")
    counted = len(siblings.keeping_up) + len(siblings.lagging) + len(siblings.unknown)
    if not counted:
        idle = [f"{len(siblings.without_reader)} without a reader"] if siblings.without_reader else []
        idle += [f"{len(siblings.quiet)} quiet for over an hour"] if siblings.quiet else []
        text = f"whether another group reads {of} is unknown" if siblings.unseen else f"no other group reads {of}"
        return text + (f" ({', '.join(idle)})" if idle else "")
    noun = "group" if counted == 1 else "groups"
    if siblings.lagging:
        names = f" ({siblings.lagging[0]})" if len(siblings.lagging) == 1 else ""
        return f"{len(siblings.lagging)} of {counted} other {noun} of {of} {_verb(siblings.lagging, 'lag')}{too}{names}"
    if siblings.keeping_up:
        return f"{len(siblings.keeping_up)} of {counted} other {noun} of {of} {_verb(siblings.keeping_up, 'keep')} up"
    return f"whether other groups of {of} lag is unknown"


def _verb(names: Sequence[str], verb: str) -> str:
    return f"{verb}s" if len(names) == 1 else verb
