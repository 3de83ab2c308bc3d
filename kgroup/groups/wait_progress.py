"""The progress of a wait: the line of a group, how long all conditions have held, and the next pause. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from kgroup.groups.member_labels import labels
from kgroup.groups.member_sessions import SessionBound, evict_text, session_of, session_text
from kgroup.groups.wait_conditions import ConditionResult, Empty, MemberCount, Observation, OfType, Stable
from kgroup.model.groups import Group
from kgroup.support.durations import format_duration
from kgroup.support.units import NAMED, plural, some_of


class EventLine(msgspec.Struct, frozen=True):
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
        more = f", must hold for {format_duration(hold_s)}" if hold_s > 0 else ""
        return EventLine((observation.name, "so"), f"{observation.name} {met}{more}")
    group = observation.group
    parts: dict[str, None] = {}
    keys: list[Hashable] = [observation.name]
    for result in failing:
        condition = result.condition
        few = group is not None and condition.waits_for_leaving(observation) and 0 < len(group.members or ()) <= NAMED
        if group is not None and few:
            parts[_remaining_text(group, sessions)] = None
            keys += [(m.member_id, m.left_temporarily, session_of(sessions, m).life) for m in group.members or ()]
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


def _remaining_text(group: Group, sessions: Mapping[str, SessionBound]) -> str:
    """``1 member: pay-4 10.0.7.6, session ends within 31s if it is gone``."""
    members = group.members or ()
    names = labels(group)
    lines = [f"{names[m.member_id]} {m.host}, {session_text(m, session_of(sessions, m))}" for m in members]
    evicting = evict_text(group, sessions)
    return f"{plural(len(members), 'member')}: {'; '.join(lines)}" + (f"; {evicting}" if evicting else "")


def waiting_summary(waiting: Sequence[str], of: int) -> EventLine:
    """A line for many groups: ``7 of 12 groups are still waited for: a, b, c and 4 more``."""
    verb = "is" if len(waiting) == 1 else "are"
    text = f"{len(waiting)} of {plural(of, 'group')} {verb} still waited for: {some_of(waiting)}"
    return EventLine(("many", *waiting), text)


class GroupVersion(msgspec.Struct, frozen=True):
    """The group epoch, or a classic group's generation: it changes whenever a member joins. None: unknown."""

    type: str | None = None
    number: int | None = None

    @classmethod
    def of(cls, group: Group | None) -> GroupVersion:
        if group is None:
            return cls()
        return cls(group.type, group.group_epoch if group.type == "consumer" else group.generation)

    def differs(self, other: GroupVersion) -> bool:
        """Whether a member was in the group between the two observations; False if a number is unknown."""
        if self.type != other.type:
            return True
        return self.number is not None and other.number is not None and self.number != other.number


class Hold(msgspec.Struct, frozen=True):
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
