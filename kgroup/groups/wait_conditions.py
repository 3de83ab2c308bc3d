"""Conditions of ``kgroup wait``: how they are typed, and whether an observed group meets them.

Pure: functions of observations with their times. ``kgroup.queries.wait`` reads the groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import ClassVar

import msgspec

from kgroup.groups.member_labels import labels, unsubscribed_topics
from kgroup.model.groups import ALL_TYPES, Group, Partition, RangeStatus
from kgroup.model.hidden_commits import hidden_words
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration, parse_duration
from kgroup.support.errors import UsageError
from kgroup.support.units import plural

FORMS = ("empty", "stable", "lag=N", "lag-time=30s", "members=N", "type=consumer")


class Observation(msgspec.Struct, frozen=True):
    """One observation of a group; ``group`` is None if it does not exist (any more).

    ``unread_ms`` is the timestamp of the first unread record of each partition that has one, None if unknown. It
    lacks partitions whose records were not read. ``now_ms`` is the wall clock.
    """

    name: str
    group: Group | None
    now_ms: int
    unread_ms: Mapping[TopicPartition, int | None] = msgspec.field(default_factory=dict)


class ConditionResult(msgspec.Struct, frozen=True):
    """Whether a condition holds, and the observed value. ``known`` False: too little could be read to decide."""

    condition: Condition
    holds: bool
    observed: str
    known: bool = True


class Condition(msgspec.Struct, frozen=True):
    """A condition of ``--for``."""

    reads_lag: ClassVar[bool] = False
    """Whether it needs committed offsets and log ranges."""
    about_members: ClassVar[bool] = False
    """Whether members that come and go between two observations matter."""

    @property
    def text(self) -> str:
        """The text of the condition, as the user types it after ``--for``."""
        raise NotImplementedError

    def judge(self, observation: Observation) -> ConditionResult:
        """Whether the condition holds in this observation."""
        raise NotImplementedError

    def waits_for_leaving(self, observation: Observation) -> bool:
        """Whether the condition waits for members to leave."""
        return False


class Empty(Condition, frozen=True):
    """The group has no members. A group that disappeared with its last member (it had no offsets) is empty too."""

    text: ClassVar[str] = "empty"
    about_members = True

    def judge(self, observation: Observation) -> ConditionResult:
        """A static member that left temporarily counts as a member."""
        return ConditionResult(
            self, observation.group is None or observation.group.state in ("Empty", "Dead"), state_text(observation)
        )

    def waits_for_leaving(self, observation: Observation) -> bool:
        return not self.judge(observation).holds


class Stable(Condition, frozen=True):
    """The group is Stable; in a consumer group the assignment epoch and all member epochs equal the group epoch."""

    text: ClassVar[str] = "stable"
    about_members = True

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
                epoch = "has left temporarily" if behind[0].left_temporarily else f"is at epoch {behind[0].epoch}"
                return ConditionResult(
                    self, False, f"{names[behind[0].member_id]} {epoch}, the group at {group.group_epoch}"
                )
        return ConditionResult(self, True, state_text(observation))


class LagAtMost(Condition, frozen=True):
    """The group's lag is at most ``bound``, and the lag of each partition is known."""

    bound: int
    reads_lag = True

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


class LagTimeBelow(Condition, frozen=True):
    """The oldest unread record of every partition is younger than ``bound_s``."""

    bound_s: float
    reads_lag = True

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


class MemberCount(Condition, frozen=True):
    """Exactly ``number`` members; a group that does not exist has none."""

    number: int
    about_members = True

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
        return (_count(observation) or 0) > self.number


class OfType(Condition, frozen=True):
    """The group has this type, one of ``ALL_TYPES``."""

    type: str

    @property
    def text(self) -> str:
        """``type=consumer``."""
        return f"type={self.type}"

    def judge(self, observation: Observation) -> ConditionResult:
        """A group that does not exist has no type."""
        if observation.group is None:
            return ConditionResult(self, False, state_text(observation))
        return ConditionResult(self, observation.group.type == self.type, f"type {observation.group.type}")


def parse_conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Parse the values of ``--for``, without duplicates, in their order.

    Raises UsageError if there is none, for an unknown condition, and for two that cannot hold at the same time.
    """
    conditions: dict[str, Condition] = {}
    for text in texts:
        condition = _parse(text.strip())
        conditions[condition.text] = condition
    if not conditions:
        raise UsageError("--for is required", hint="choose one of: " + ", ".join(FORMS))
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
                raise UsageError(f"--for {text}: the time lag must be greater than 0, as in lag-time=30s")
            return LagTimeBelow(seconds)
        case "type" if value in ALL_TYPES:
            return OfType(value)
        case "type":
            raise UsageError(f"--for {text}: unknown type", hint="one of: " + ", ".join(ALL_TYPES))
    near = get_close_matches(word, [form.partition("=")[0] for form in FORMS], n=1)
    near_forms = [form for form in FORMS if near and form.partition("=")[0] == near[0]]
    hint = (
        f"did you mean {near_forms[0]}?"
        if near_forms and near_forms[0] != text
        else "choose one of: " + ", ".join(FORMS)
    )
    raise UsageError(f"--for {text}: unknown", hint=hint)


def _number(text: str, value: str, example: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", value):
        raise UsageError(f"--for {text}: a whole number is required, as in {example}")
    return int(value)


def _refuse_contradiction(conditions: Sequence[Condition]) -> None:
    """Raise UsageError for conditions that exclude each other: the timeout would seem to be the group's fault."""
    counts = [c.number for c in conditions if isinstance(c, MemberCount)]
    without = any(isinstance(c, Empty) for c in conditions) or 0 in counts
    with_some = any(isinstance(c, Stable) for c in conditions) or any(counts)
    types = [c for c in conditions if isinstance(c, OfType)]
    if (without and with_some) or len(counts) > 1 or len(types) > 1:
        both = " and ".join(c.text for c in conditions if c.about_members or isinstance(c, OfType))
        raise UsageError(f"--for: {both} cannot hold at the same time")


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
    """[first unread offset, log end) of each partition that is known to have unread records.

    Topics that the group has left are left out: it is not late with them, and they grow older for ever.
    """
    ranges, left = {}, unsubscribed_topics(group)
    for partition in group.partitions:
        log, commit = partition.log, partition.commit
        if log is not None and partition.topic not in left and _lag(partition):
            first = log.start if commit is None else max(log.start, commit.offset)
            ranges[partition.tp] = (first, log.end)
    return ranges


def _lag(partition: Partition) -> int | None:
    counted = partition.counted is not None
    if partition.commit is None and partition.log is not None and partition.error is None and not counted:
        return partition.log.end - partition.log.start
    # A commit above the log end is not a lag of 0: the topic was recreated, and the consumer will be reset.
    return None if partition.error or partition.out_of_range is RangeStatus.ABOVE_LOG_END else partition.lag


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
            why = partition.error or ("is committed above the log end" if partition.out_of_range else "no log range")
            if partition.counted is not None and not partition.error:
                why = "has no start offset" if partition.commit is None else "is not counted by the broker"
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
