"""Conditions of ``kgroup wait``: whether they hold, which members remain, and for how long the conditions have held.

Pure: functions of observations with their times. ``kgroup.queries.wait`` reads the groups.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from math import ceil
from typing import Protocol

from kgroup.groups.members import labels
from kgroup.model.groups import Group, Member, Partition
from kgroup.model.hidden_commits import hidden_words
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration, parse_duration
from kgroup.support.errors import UsageError
from kgroup.support.quoting import quote
from kgroup.support.units import NAMED, plural, some_of

FORMS = ("empty", "stable", "lag=N", "lag-time=30s", "members=N", "type=consumer")
_TYPES = ("classic", "consumer")


@dataclass(frozen=True, slots=True)
class Observation:
    """One observation of a group; ``group`` is None if it does not exist (any more).

    ``unread_ms`` is the timestamp of the first unread record of each partition that has one, None if unknown. It
    lacks partitions whose records were not read. ``now_ms`` is the wall clock.
    """

    name: str
    group: Group | None
    now_ms: int
    unread_ms: Mapping[TopicPartition, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """Whether a condition holds, and the observed value. ``known`` False: too little could be read to decide."""

    condition: Condition
    holds: bool
    observed: str
    known: bool = True


class Condition(Protocol):
    """A condition of ``--for``."""

    @property
    def text(self) -> str:
        """The text of the condition, as the user types it after ``--for``."""

    @property
    def reads_lag(self) -> bool:
        """Whether it needs committed offsets and log ranges."""

    @property
    def about_members(self) -> bool:
        """Whether members that come and go between two observations matter."""

    def judge(self, observation: Observation) -> ConditionResult:
        """Whether the condition holds in this observation."""

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Whether the condition waits for members to leave."""


@dataclass(frozen=True, slots=True)
class Empty:
    """The group has no members. A group that disappeared with its last member (it had no offsets) is empty too."""

    text: str = "empty"
    reads_lag: bool = False
    about_members: bool = True

    def judge(self, observation: Observation) -> ConditionResult:
        """A static member that left temporarily counts as a member."""
        return ConditionResult(
            self, observation.group is None or observation.group.state in ("Empty", "Dead"), state_text(observation)
        )

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Whether there is any member."""
        return not self.judge(observation).holds


@dataclass(frozen=True, slots=True)
class Stable:
    """The group is Stable; in a consumer group the assignment epoch and all member epochs equal the group epoch."""

    text: str = "stable"
    reads_lag: bool = False
    about_members: bool = True

    def judge(self, observation: Observation) -> ConditionResult:
        """If this user may not see the members, the group's state and epochs decide."""
        group = observation.group
        if group is None or group.state != "Stable":
            return ConditionResult(self, False, state_text(observation))
        if group.type == "consumer":
            if group.group_epoch != group.assignment_epoch:
                epochs = f"group epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
                return ConditionResult(self, False, epochs)
            behind = [m for m in group.members or () if m.epoch is not None and m.epoch != group.group_epoch]
            if behind:
                names = labels(group)
                epoch = "has left for a moment" if behind[0].left_temporarily else f"is at epoch {behind[0].epoch}"
                return ConditionResult(
                    self, False, f"{names[behind[0].member_id]} {epoch}, the group at {group.group_epoch}"
                )
        return ConditionResult(self, True, state_text(observation))

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Always False."""
        return False


@dataclass(frozen=True, slots=True)
class LagAtMost:
    """The group's lag is at most ``bound``, and the lag of each partition is known."""

    bound: int
    reads_lag: bool = True
    about_members: bool = False

    @property
    def text(self) -> str:
        """``lag=20000``."""
        return f"lag={self.bound}"

    def judge(self, observation: Observation) -> ConditionResult:
        """For a partition without a commit, the whole log counts as lag."""
        unknown = _lag_unknown(observation)
        if unknown:
            return ConditionResult(self, False, unknown, known=observation.group is None)
        lag = total_lag(observation.group)
        return ConditionResult(self, lag is not None and lag <= self.bound, f"lag {lag}")

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Always False."""
        return False


@dataclass(frozen=True, slots=True)
class LagTimeBelow:
    """The oldest unread record of every partition is younger than ``bound_s``."""

    bound_s: float
    reads_lag: bool = True
    about_members: bool = False

    @property
    def text(self) -> str:
        """``lag-time=30s``."""
        return f"lag-time={format_duration(self.bound_s)}"

    def judge(self, observation: Observation) -> ConditionResult:
        """Compares the timestamps of records with the clock of this machine."""
        unknown = _lag_unknown(observation)
        if unknown:
            return ConditionResult(self, False, unknown, known=observation.group is None)
        oldest: tuple[int, str] | None = None
        for tp, timestamp_ms in sorted(observation.unread_ms.items()):
            where = f"{tp}"
            if timestamp_ms is None or timestamp_ms < 0:
                return ConditionResult(self, False, f"age of the oldest unread record of {where} unknown", known=False)
            oldest = min(oldest or (timestamp_ms, where), (timestamp_ms, where))
        if oldest is None:
            return ConditionResult(self, True, "nothing unread")
        age_s = max(0, observation.now_ms - oldest[0]) / 1000
        return ConditionResult(
            self, age_s < self.bound_s, f"oldest unread record {format_duration(age_s)}, {oldest[1]}"
        )

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Always False."""
        return False


@dataclass(frozen=True, slots=True)
class MemberCount:
    """Exactly ``number`` members; a group that does not exist has none."""

    number: int
    reads_lag: bool = False
    about_members: bool = True

    @property
    def text(self) -> str:
        """``members=6``."""
        return f"members={self.number}"

    def judge(self, observation: Observation) -> ConditionResult:
        """A static member that left temporarily counts as a member."""
        count = _count(observation)
        if count is None:
            return ConditionResult(self, False, "members unknown", known=False)
        return ConditionResult(self, count == self.number, state_text(observation))

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Whether there are more than ``number`` members."""
        return (_count(observation) or 0) > self.number


@dataclass(frozen=True, slots=True)
class OfType:
    """The group has this type: ``classic`` or ``consumer``."""

    type: str
    reads_lag: bool = False
    about_members: bool = False

    @property
    def text(self) -> str:
        """``type=consumer``."""
        return f"type={self.type}"

    def judge(self, observation: Observation) -> ConditionResult:
        """A group that does not exist has no type."""
        if observation.group is None:
            return ConditionResult(self, False, state_text(observation))
        return ConditionResult(self, observation.group.type == self.type, f"type {observation.group.type}")

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Always False."""
        return False


def parse_conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Parse the values of ``--for``, without duplicates, in their order.

    Raises UsageError if there is none, for an unknown condition, and for two that cannot hold at the same time.
    """
    conditions: dict[str, Condition] = {}
    for text in texts:
        condition = _parse(text.strip())
        conditions[condition.text] = condition
    if not conditions:
        raise UsageError("what is to be waited for? --for is missing", hint="--for " + " | ".join(FORMS))
    _refuse_contradiction(tuple(conditions.values()))
    return tuple(conditions.values())


def _parse(text: str) -> Condition:
    word, equals, value = text.partition("=")
    match word:
        case "empty" if not equals:
            return Empty()
        case "stable" if not equals:
            return Stable()
        case "lag":
            return LagAtMost(_number(text, value, "lag=20000"))
        case "members":
            return MemberCount(_number(text, value, "members=6"))
        case "lag-time":
            seconds = parse_duration(value, "--for lag-time") if value else 0.0
            if seconds <= 0:
                raise UsageError(f"--for {text}: no age that a record can be below. Write it like lag-time=30s")
            return LagTimeBelow(seconds)
        case "type" if value in _TYPES:
            return OfType(value)
        case "type":
            raise UsageError(f"--for {text}: unknown type", hint="type=classic or type=consumer")
    near = get_close_matches(word, [form.partition("=")[0] for form in FORMS], n=1)
    near_forms = [form for form in FORMS if near and form.partition("=")[0] == near[0]]
    hint = f"did you mean {near_forms[0]}?" if near_forms and near_forms[0] != text else "one of " + ", ".join(FORMS)
    raise UsageError(f"--for {text}: unknown", hint=hint)


def _number(text: str, value: str, example: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise UsageError(f"--for {text}: a plain number is needed, as in {example}")
    return int(value)


def _refuse_contradiction(conditions: Sequence[Condition]) -> None:
    """Raise UsageError for conditions that exclude each other: the timeout would seem to be the group's fault."""
    counts = [c.number for c in conditions if isinstance(c, MemberCount)]
    without = any(isinstance(c, Empty) for c in conditions) or 0 in counts
    with_some = any(isinstance(c, Stable) for c in conditions) or any(counts)
    types = [c for c in conditions if isinstance(c, OfType)]
    if (without and with_some) or len(counts) > 1 or len(types) > 1:
        both = " and ".join(c.text for c in conditions if c.about_members or isinstance(c, OfType))
        raise UsageError(f"--for: {both} are never so at the same time")


def holds_without_group(conditions: Sequence[Condition]) -> bool:
    """Whether all conditions hold for a group that does not exist, so that there is nothing to wait for."""
    return all(condition.judge(Observation("", None, 0)).holds for condition in conditions)


def total_lag(group: Group | None) -> int | None:
    """The number of unread records of the group; for a partition without a commit, the whole log counts.

    None if there is no group or no partition, if commits are hidden, or if a partition's lag is unknown.
    (``Partition.lag`` is None without a commit, which would hide unread records here.)
    """
    if group is None or not group.partitions or group.hidden_commits != ():
        return None
    lags = [_lag(partition) for partition in group.partitions]
    return None if None in lags else sum(lag for lag in lags if lag is not None)


def unread(group: Group) -> dict[TopicPartition, tuple[int, int]]:
    """[first unread offset, log end) of each partition that is known to have unread records."""
    ranges = {}
    for partition in group.partitions:
        log, commit = partition.log, partition.commit
        if log is not None and _lag(partition):
            first = log.start if commit is None else max(log.start, commit.offset)
            ranges[partition.tp] = (first, log.end)
    return ranges


def _lag(partition: Partition) -> int | None:
    if partition.commit is None and partition.log is not None and partition.error is None:
        return partition.log.end - partition.log.start
    # A commit above the log end is not a lag of 0: the topic was recreated, and the consumer will be reset.
    return None if partition.error or partition.out_of_range == "ABOVE_END" else partition.lag


def _lag_unknown(observation: Observation) -> str | None:
    """The reason why the lag is unknown; None if it is known."""
    group = observation.group
    if group is None:
        return state_text(observation)
    if not (group.partitions or hidden_words(group.hidden_commits)):
        return "no partition is committed or assigned"
    if hidden := hidden_words(group.hidden_commits):
        return f"lag unknown, {hidden}"
    for partition in group.partitions:
        if _lag(partition) is None:
            why = partition.error or ("committed beyond the log end" if partition.out_of_range else "no log range")
            return f"lag unknown, {partition.tp} {why}"
    return None


def _count(observation: Observation) -> int | None:
    """The number of members; None if this user may not see them and the state is not Empty or Dead."""
    group = observation.group
    if group is None or group.state in ("Empty", "Dead"):
        return 0
    return None if group.members is None else len(group.members)


def state_text(observation: Observation) -> str:
    """``Stable, 6 members``; ``Empty``; ``does not exist``."""
    group = observation.group
    if group is None:
        return "does not exist"
    count = _count(observation)
    return f"{group.state}, {plural(count, 'member')}" if count else group.state


class Liveness(StrEnum):
    """What can be inferred about a member; other clients cannot see its heartbeats."""

    COUNTING = "counting"
    """The member may be dead; then its session ends within ``SessionBound.ends_in_s``."""
    REBALANCING = "rebalancing"
    """The member may be dead, but in a classic group its session only starts to run after the rebalance."""
    ALIVE = "alive"
    """The member is still listed after its session would have ended: it sent a heartbeat within one session timeout."""
    UNKNOWN = "unknown"
    """Its session timeout is not known."""


@dataclass(frozen=True, slots=True)
class SessionBound:
    """Whether a member is alive. ``ends_in_s`` is the longest time that a dead one stays listed, None if unknown."""

    life: Liveness
    ends_in_s: float | None = None


@dataclass(frozen=True, slots=True)
class ObservedMembers:
    """Since when each member of a group has been listed, in seconds of a monotonic clock.

    No client can see heartbeats. But the broker removes a member that was dead at time t by t + its session timeout.
    A member that is listed later than that has sent a heartbeat since. The time starts again when a new coordinator
    restarts all sessions, during a classic rebalance (no session ends), and when a static member leaves temporarily.
    """

    coordinator: int | None = None
    rebalancing: bool = False
    since_s: Mapping[str, float] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    """Static members that left temporarily; their sessions are not renewed any more."""

    def step(self, group: Group | None, now_s: float) -> ObservedMembers:
        """Add an observation that was received at ``now_s``."""
        if group is None:
            return ObservedMembers()
        coordinator = group.coordinator.id if group.coordinator else self.coordinator
        rebalancing = group.type == "classic" and group.is_rebalancing
        restarted = rebalancing or self.rebalancing or coordinator != self.coordinator
        since, left_temporarily = {}, set()
        for member in group.members or ():
            leaving = member.left_temporarily and member.member_id not in self.left
            since[member.member_id] = now_s if restarted or leaving else self.since_s.get(member.member_id, now_s)
            left_temporarily |= {member.member_id} if member.left_temporarily else set()
        return ObservedMembers(coordinator, rebalancing, since, frozenset(left_temporarily))

    def session(self, member: Member, timeout_ms: int | None, now_s: float) -> SessionBound:
        """Whether a member with session timeout ``timeout_ms`` is alive; ``timeout_ms`` None: unknown."""
        since = self.since_s.get(member.member_id)
        if timeout_ms is None or since is None:
            return SessionBound(Liveness.UNKNOWN)
        if self.rebalancing:
            return SessionBound(Liveness.REBALANCING, timeout_ms / 1000)
        left_s = since + timeout_ms / 1000 - now_s
        return (
            SessionBound(Liveness.COUNTING, left_s) if left_s > 0 else SessionBound(Liveness.ALIVE, timeout_ms / 1000)
        )


def session_text(member: Member, session: SessionBound) -> str:
    """A phrase about a member's session: ``static, session ends within 4m12s if it is gone``."""
    parts = ["static"] if member.instance_id is not None else []
    if member.left_temporarily:
        parts.append("has left for a moment")
    within = format_duration(ceil(session.ends_in_s or 0) or 1)
    sure = "" if member.left_temporarily else " if it is gone"
    match session.life:
        case Liveness.COUNTING:
            parts.append(f"session ends within {within}{sure}")
        case Liveness.REBALANCING:
            parts.append(f"session ends within {within} of the rebalance{sure}")
        case Liveness.ALIVE:
            any_moment = "session ends any moment"
            parts.append(any_moment if member.left_temporarily else f"still heartbeats, or did less than {within} ago")
        case Liveness.UNKNOWN:
            parts.append("session timeout unknown")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class EventLine:
    """A line about a group. Lines with the same ``key`` differ only in numbers; a new number is no new event."""

    key: Hashable
    text: str


def line_of(
    observation: Observation,
    results: Sequence[ConditionResult],
    sessions: Mapping[str, SessionBound],
    hold_s: float = 0.0,
) -> EventLine:
    """The WAIT line of a group. ``sessions`` are by member id; ``hold_s`` is how long all conditions have to hold."""
    failing = [result for result in results if not result.holds]
    if not failing:
        met = "; ".join(dict.fromkeys(_met_text(result) for result in results))
        more = f", to hold for {format_duration(hold_s)}" if hold_s > 0 else ""
        return EventLine((observation.name, "so"), f"{observation.name} {met}{more}")
    group = observation.group
    parts: dict[str, None] = {}
    keys: list[Hashable] = [observation.name]
    for result in failing:
        condition = result.condition
        few = group is not None and condition.waits_for_leaving(observation) and 0 < len(group.members or ()) <= NAMED
        if group is not None and few:
            parts[_remaining_text(group, sessions)] = None
            keys += [(m.member_id, m.left_temporarily, _life(sessions, m).life) for m in group.members or ()]
        elif condition.reads_lag and group is not None and result.known:
            parts[f"{result.observed}, waiting for {condition.text}"] = None
            keys.append(condition.text)
        else:
            parts[result.observed] = None
            keys.append(result.observed)
    return EventLine(tuple(keys), f"{observation.name} {'; '.join(parts)}")


def _met_text(result: ConditionResult) -> str:
    match result.condition:
        case Empty():
            return "is Empty" if result.observed in ("Empty", "Dead") else result.observed
        case Stable() | MemberCount():
            return f"is {result.observed}" if result.observed != "does not exist" else result.observed
        case OfType(type=kind):
            return f"is of type {kind}"
        case _:
            return result.observed


def _life(sessions: Mapping[str, SessionBound], member: Member) -> SessionBound:
    return sessions.get(member.member_id, SessionBound(Liveness.UNKNOWN))


def _remaining_text(group: Group, sessions: Mapping[str, SessionBound]) -> str:
    """``1 member: pay-4 10.0.7.6, session ends within 31s if it is gone``."""
    members = group.members or ()
    names = labels(group)
    lines = [f"{names[m.member_id]} {m.host}, {session_text(m, _life(sessions, m))}" for m in members]
    evicting = evict_text(group, sessions)
    return f"{plural(len(members), 'member')}: {'; '.join(lines)}" + (f"; {evicting}" if evicting else "")


def evict_text(group: Group, sessions: Mapping[str, SessionBound]) -> str | None:
    """The command that removes the static members that may be dead; None if there are none."""
    instance_ids = [
        m.instance_id
        for m in group.members or ()
        if m.instance_id is not None and (m.left_temporarily or _life(sessions, m).life is not Liveness.ALIVE)
    ]
    if not instance_ids:
        return None
    instances = " ".join(f"--instance {quote(instance)}" for instance in instance_ids)
    return f"kgroup evict {quote(group.name)} {instances} removes {'it' if len(instance_ids) == 1 else 'them'} now"


def lines_of_members(group: Group, sessions: Mapping[str, SessionBound]) -> tuple[str, ...]:
    """A line per member for a refusal: label, host and session, in columns."""
    names = labels(group)
    members = group.members or ()
    wide = max((len(names[m.member_id]) for m in members), default=0)
    hosts = max((len(m.host) for m in members), default=0)
    return tuple(
        f"{names[m.member_id]:<{wide}}  {m.host:<{hosts}}  {session_text(m, _life(sessions, m))}" for m in members
    )


def waiting_summary(waiting: Sequence[str], of: int) -> EventLine:
    """A line for many groups: ``7 of 12 groups are not there yet: a, b, c and 4 more``."""
    verb = "is" if len(waiting) == 1 else "are"
    text = f"{len(waiting)} of {plural(of, 'group')} {verb} not there yet: {some_of(waiting)}"
    return EventLine(("many", *waiting), text)


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """The group epoch, or a classic group's generation: it changes whenever a member joins. None: unknown."""

    type: str | None = None
    number: int | None = None

    @classmethod
    def of(cls, group: Group | None) -> GroupVersion:
        """The version of an observed group."""
        if group is None:
            return cls()
        return cls(group.type, group.group_epoch if group.type == "consumer" else group.generation)

    def differs(self, other: GroupVersion) -> bool:
        """Whether a member was in the group between the two observations; False if a number is unknown."""
        if self.type != other.type:
            return True
        return self.number is not None and other.number is not None and self.number != other.number


@dataclass(frozen=True, slots=True)
class Hold:
    """How long all conditions have held without a break. ``since_s`` is None while they do not hold.

    A group in a crash loop can be Empty in two consecutive observations and have had members in between. So a changed
    ``GroupVersion`` is a break too; ``broken`` is whether the last step found such a change.
    """

    for_s: float
    since_s: float | None = None
    versions: tuple[GroupVersion, ...] = ()
    broken: bool = False

    def step(self, now_s: float, holds: bool, versions: Sequence[GroupVersion]) -> Hold:
        """Add an observation. ``versions`` are the versions of all groups; empty if members do not matter."""
        if not holds:
            return Hold(self.for_s)
        changed = any(old.differs(new) for old, new in zip(self.versions, versions, strict=False))
        if self.since_s is None or changed:
            return Hold(self.for_s, now_s, tuple(versions), broken=changed)
        # If the generation could not be read this time, the previous one is kept.
        known_versions = tuple(
            new if new.number is not None else old for old, new in zip(self.versions, versions, strict=False)
        )
        return Hold(self.for_s, self.since_s, known_versions)

    def reached(self, now_s: float) -> bool:
        """Whether the conditions have held for ``for_s`` seconds."""
        return self.since_s is not None and now_s - self.since_s >= self.for_s

    def left_s(self, now_s: float) -> float:
        """The remaining time in seconds; ``for_s`` while the conditions do not hold."""
        return self.for_s if self.since_s is None else max(0.0, self.for_s - (now_s - self.since_s))


SHORTEST_PAUSE_S, FIRST_PAUSE_S, LONGEST_PAUSE_S, HOLD_PAUSE_S = 0.2, 0.5, 2.0, 1.0
_GROWTH = 1.5


def next_pause_s(last_s: float, *, changed: bool, holding: bool, left_s: float) -> float:
    """The pause before the next observation: 0.5 s after a change, growing to 2 s; 1 s while the conditions hold.

    ``left_s`` is the time until a fixed moment (the end of the hold, or of the wait). The pause ends there at the
    latest, but is never shorter than 0.2 s.
    """
    pause = HOLD_PAUSE_S if holding else FIRST_PAUSE_S if changed else min(LONGEST_PAUSE_S, last_s * _GROWTH)
    return max(SHORTEST_PAUSE_S, min(pause, left_s))
