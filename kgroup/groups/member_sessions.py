"""Whether members that are still listed may be dead: their sessions, as far as observations show them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import ceil

import msgspec

from kgroup.groups.member_labels import labels
from kgroup.model.groups import Group, Member
from kgroup.support.durations import format_duration
from kgroup.support.hint import Hint
from kgroup.support.units import NAMED, plural, some_of

WHILE_PODS_RESTART = (
    "Pods that restart by themselves: scale to zero (or pause the autoscaler) first; such a group is never Empty for "
    "long."
)
"""Advice for a change that needs an Empty group."""


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


class SessionBound(msgspec.Struct, frozen=True):
    """Whether a member is alive. ``ends_in_s`` is the longest time that a dead one stays listed, None if unknown."""

    life: Liveness
    ends_in_s: float | None = None


class ObservedMembers(msgspec.Struct, frozen=True):
    """Since when each member of a group has been listed, in seconds of a monotonic clock.

    No client can see heartbeats. But the broker removes a member that was dead at time t by t + its session timeout.
    A member that is listed later than that has sent a heartbeat since. The time starts again when a new coordinator
    restarts all sessions, during a classic rebalance (no session ends), and when a static member leaves temporarily.
    """

    coordinator: int | None = None
    rebalancing: bool = False
    since_s: Mapping[str, float] = msgspec.field(default_factory=dict)
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
        parts.append("has left temporarily")
    within = format_duration(ceil(session.ends_in_s or 0) or 1)
    sure = "" if member.left_temporarily else " if it is gone"
    match session.life:
        case Liveness.COUNTING:
            parts.append(f"session ends within {within}{sure}")
        case Liveness.REBALANCING:
            parts.append(f"session ends within {within} of the rebalance{sure}")
        case Liveness.ALIVE:
            any_moment = "session ends at any moment"
            parts.append(any_moment if member.left_temporarily else f"its last heartbeat was less than {within} ago")
        case Liveness.UNKNOWN:
            parts.append("session timeout unknown")
    return ", ".join(parts)


def session_of(sessions: Mapping[str, SessionBound], member: Member) -> SessionBound:
    """The session of a member; UNKNOWN if ``sessions``, by member id, does not have it."""
    return sessions.get(member.member_id, SessionBound(Liveness.UNKNOWN))


def evict_text(group: Group, sessions: Mapping[str, SessionBound]) -> str | None:
    """The command that removes the static members that may be dead; None if there are none."""
    instance_ids = [
        m.instance_id
        for m in group.members or ()
        if m.instance_id is not None and (m.left_temporarily or session_of(sessions, m).life is not Liveness.ALIVE)
    ]
    if not instance_ids:
        return None
    instances = (word for instance in instance_ids for word in ("--instance", instance))
    them = "it" if len(instance_ids) == 1 else "them"
    return Hint(f"{{}} removes {them} now", ("evict", group.name, *instances))


def lines_of_members(group: Group, sessions: Mapping[str, SessionBound]) -> tuple[str, ...]:
    """A line per member for a refusal: label, host and session, in columns."""
    names = labels(group)
    members = group.members or ()
    wide = max((len(names[m.member_id]) for m in members), default=0)
    hosts = max((len(m.host) for m in members), default=0)
    return tuple(
        f"{names[m.member_id]:<{wide}}  {m.host:<{hosts}}  {session_text(m, session_of(sessions, m))}" for m in members
    )


def remaining_members(group: Group, sessions: Mapping[str, SessionBound]) -> tuple[str, ...]:
    """The members of a group that did not become Empty, and how to remove a static one.

    Up to three have a line each. More are counted, and the first three named by client id and host.
    """
    members, evict = group.members or (), evict_text(group, sessions)
    lines = lines_of_members(group, sessions)
    if len(members) > NAMED:
        named = [f"{member.instance_id or member.client_id} {member.host}" for member in members]
        lines = (f"{plural(len(members), 'member')} ({some_of(named)})",)
    return (*(f"{group.name}: {line}" for line in lines), *((evict,) if evict else ()))
