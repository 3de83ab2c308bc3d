"""Rules about timeouts: heartbeats per session, sessions and restarts, long poll intervals, static members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kgroup.groups.doctor.finding import (
    Answer,
    Rule,
    Severity,
    duration,
    kgroup_command,
    quoted,
    tool_command,
    utc_minute,
)
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.member_labels import labels
from kgroup.groups.thresholds import (
    BACK_SOON,
    DEFAULT_HEARTBEAT,
    ENDLESS_POLL,
    HEARTBEATS,
    LATE_SHARE,
    LONG_POLL,
    LONG_SESSION,
    RESTART_SESSIONS,
    USUAL_RESTARTS,
)
from kgroup.model.groups import Member
from kgroup.model.migration_facts import HEARTBEAT_CONFIG, SESSION_CONFIG, group_setting_ms
from kgroup.support.units import NAMED, plural, some_of

HEARTBEAT = Rule(
    "heartbeat-interval",
    "too few heartbeats fit into the session timeout",
    "Kafka's documentation of heartbeat.interval.ms; KIP-848 for the broker's",
    (HEARTBEATS, DEFAULT_HEARTBEAT),
)
SESSION = Rule(
    "session-restart",
    "static members need longer for a restart than their session lasts",
    "KIP-345",
    (BACK_SOON, USUAL_RESTARTS, RESTART_SESSIONS, LATE_SHARE, LONG_SESSION),
)
POLL = Rule(
    "poll-interval",
    "max.poll.interval.ms is so long that a member that hangs is never removed",
    "KIP-62; Kafka's documentation of max.poll.interval.ms",
    (LONG_POLL, ENDLESS_POLL),
)
STATIC = Rule(
    "static-session",
    "static members that are gone, or remain after a stop, keep the group from becoming Empty",
    "KIP-345, KIP-848",
    (LONG_SESSION,),
)
_NOT_SENT = "classic members do not send their heartbeat.interval.ms to brokers"
_UNSEEN = "the members' settings were not found in __consumer_offsets"


def heartbeat_interval(snapshot: GroupSnapshot) -> Answer:
    """Consumer protocol: the group's or broker's settings. Classic protocol: only the session timeout is known."""
    group = snapshot.group
    if group.is_simple or not group.members:
        return () if group.members == () or group.is_simple else HEARTBEAT.unknown(_hidden(snapshot))
    if group.type == "consumer":
        return _servers(snapshot)
    sessions = {m.member_id: s for m in group.members if (s := _session(snapshot, m)) is not None}
    if not sessions:
        return HEARTBEAT.unknown(snapshot.why("settings", _UNSEEN))
    short = [member_id for member_id, ms in sessions.items() if HEARTBEATS.value * DEFAULT_HEARTBEAT.value > ms]
    if not short:
        return HEARTBEAT.partly(_NOT_SENT)
    names = labels(group)
    least = min(sessions[member_id] for member_id in short)
    return HEARTBEAT.finding(
        Severity.INFO,
        f"session timeout {duration(least)} ({plural(len(short), 'member')}): a third is {duration(least // 3)}, "
        f"and clients heartbeat every {duration(DEFAULT_HEARTBEAT.value)} by default",
        remedy="a heartbeat interval of at most a third of the session timeout, or a longer session",
        numbers={"session_timeout_ms": least, "heartbeat_limit_ms": least // 3, "member_count": len(short)},
        affected=[names[member_id] for member_id in short],
        commands=(f"heartbeat.interval.ms={least // 3}", f"session.timeout.ms={_USUAL_SESSION_MS}"),
    )


_USUAL_SESSION_MS = 45_000
"""The default of ``group.consumer.session.timeout.ms``, and of Java's ``session.timeout.ms``."""


def _servers(snapshot: GroupSnapshot) -> Answer:
    interval = group_setting_ms(snapshot.configs, HEARTBEAT_CONFIG, snapshot.broker.heartbeat)
    session = group_setting_ms(snapshot.configs, SESSION_CONFIG, snapshot.broker.session)
    if interval is None or session is None:
        why = snapshot.why("configs", snapshot.why("heartbeat", "the broker's settings could not be read"))
        return HEARTBEAT.unknown(why)
    if interval * HEARTBEATS.value <= session:
        return ()
    group = quoted(snapshot.group)
    # A session below the default ends in an ordinary pause of the process, however often it heartbeats.
    setting = (
        f"{HEARTBEAT_CONFIG}={session // 3}"
        if session >= _USUAL_SESSION_MS
        else f"{SESSION_CONFIG}={max(3 * interval, _USUAL_SESSION_MS)}"
    )
    rest = f"--alter --entity-type groups --entity-name {group} --add-config {setting}"
    return HEARTBEAT.finding(
        Severity.WARNING,
        f"every {duration(interval)} in a session of {duration(session)}: {session // interval} fit, "
        f"{HEARTBEATS.value} should",
        remedy="a shorter interval or a longer session, as configs of the group, within what the brokers allow",
        numbers={"heartbeat_interval_ms": interval, "session_timeout_ms": session, "heartbeat_limit_ms": session // 3},
        commands=(tool_command("kafka-configs.sh", snapshot.bootstrap, rest),),
    )


def session_restart(snapshot: GroupSnapshot) -> Answer:
    """Compares the restarts of static members in the log with the session timeout that should cover them."""
    members = snapshot.group.members
    if members is None:
        return SESSION.unknown(_hidden(snapshot))
    static = {m.instance_id: m for m in members if m.instance_id is not None}
    if not static:
        return ()
    history = snapshot.history
    if history is None:
        return SESSION.unknown(snapshot.why("history", "the history in __consumer_offsets was not read"))
    restarts = [restart for restart in history.restarts if restart.instance_id in static]
    if not restarts:
        return SESSION.unknown(f"no static member restarted since {utc_minute(history.since_ms)}")
    by_instance = {instance: _session(snapshot, member) for instance, member in static.items()}
    sessions = {instance: session for instance, session in by_instance.items() if session is not None}
    if not any(restart.instance_id in sessions for restart in restarts):
        return SESSION.unknown(snapshot.why("settings", _UNSEEN))
    late = [
        (away_ms, session_ms, instance)
        for restart in restarts
        if (away_ms := restart.away_ms) is not None
        and (session_ms := sessions.get(instance := restart.instance_id or "")) is not None
        and session_ms < away_ms <= BACK_SOON.value
    ]
    if len(late) < USUAL_RESTARTS.value:  # a pod that was down once is no slow restart
        late = [each for each in late if each[0] <= RESTART_SESSIONS.value * each[1]]
    if not late or 100 * len(late) < LATE_SHARE.value * len(restarts):
        return ()
    away_ms, session, longest = max(late)
    advised = -(-3 * away_ms // 2000) * 1000
    longer = advised < LONG_SESSION.value
    consumer = snapshot.group.type == "consumer"
    rest = (
        f"--alter --entity-type groups --entity-name {quoted(snapshot.group)} --add-config {SESSION_CONFIG}={advised}"
    )
    setting = (
        tool_command("kafka-configs.sh", snapshot.bootstrap, rest) if consumer else f"session.timeout.ms={advised}"
    )
    return SESSION.finding(
        Severity.WARNING,
        f"{len(late)} of {plural(len(restarts), 'static restart')} took longer than the session of "
        f"{duration(session)}: {longest} {duration(away_ms)}",
        remedy="a session timeout above the longest restart, or quicker restarts: else the instance id saves nothing"
        if longer
        else "quicker restarts: a session above this one would delay the detection of each crash too much",
        numbers={
            "restart_count": len(restarts),
            "too_long_count": len(late),
            "longest_away_ms": away_ms,
            "session_timeout_ms": session,
        },
        affected=sorted({instance for _, _, instance in late}),
        commands=(setting if longer else kgroup_command("history", snapshot.group.name, "--since", "1h"),),
    )


def poll_interval(snapshot: GroupSnapshot) -> Answer:
    """A member that hangs keeps its partitions for max.poll.interval.ms, and a rebalance waits for it as long."""
    group = snapshot.group
    if group.members is None:
        return POLL.unknown(_hidden(snapshot))
    settings = snapshot.settings or {}
    known = {
        m.member_id: member_settings.max_poll_interval_ms
        for m in group.members
        if (member_settings := settings.get(m.member_id)) is not None
        and member_settings.max_poll_interval_ms is not None
    }
    if group.members and not known:
        return POLL.unknown(snapshot.why("settings", _UNSEEN))
    long = sorted(
        (member_id for member_id, ms in known.items() if ms >= LONG_POLL.value), key=lambda member_id: -known[member_id]
    )
    unseen = len(group.members) - len(known)
    partly = POLL.partly(f"{_UNSEEN}: {plural(unseen, 'member')}" if unseen else None)
    if not long:
        return partly
    names, most = labels(group), known[long[0]]
    return (
        POLL.finding(
            Severity.WARNING if most >= ENDLESS_POLL.value else Severity.INFO,
            f"{duration(most)} ({most} ms) for {len(long)} of {plural(len(known), 'member')}: "
            f"{_some_labels(names, long)}; one that hangs keeps its partitions so long",
            remedy="as long as the slowest batch needs, not more: fewer max.poll.records make batches short",
            numbers={"member_count": len(long), "max_poll_interval_ms": most},
            affected=[names[member_id] for member_id in long],
            commands=("max.poll.interval.ms=300000", "max.poll.records=100"),
        )
        + partly
    )


def static_session(snapshot: GroupSnapshot) -> Answer:
    """Static members that have left temporarily, or whose long session delays the stop of the group."""
    group = snapshot.group
    if group.members is None:
        return STATIC.unknown(_hidden(snapshot))
    static = [member for member in group.members if member.instance_id is not None]
    if not static:
        return ()
    names = labels(group)
    gone = [member for member in static if member.left_temporarily]
    known = [ms for member in (gone or static) if (ms := _session(snapshot, member)) is not None]
    if not gone and not known:
        return STATIC.unknown(snapshot.why("settings", _UNSEEN))
    longest = max(known, default=None)
    long = longest is not None and longest >= LONG_SESSION.value
    if not gone and not long:
        return ()
    named = gone or [m for m in static if (_session(snapshot, m) or 0) >= LONG_SESSION.value]
    left_labels = some_of([names[member.member_id] for member in gone])
    within = f"{duration(longest)} after they left" if longest is not None else "an unknown time"
    evidence = (
        f"{len(gone)} of {plural(len(static), 'static member')} left ({left_labels}); the group is not Empty until "
        f"{within}"
        if gone
        else f"{plural(len(named), 'static member')} with a session of {duration(longest or 0)}: after a stop the "
        "group is not Empty for so long"
    )
    return STATIC.finding(
        Severity.WARNING if gone and long else Severity.INFO,
        evidence,
        remedy="wait, or remove those that will not come back; until then reset and delete are refused"
        if gone
        else "a shorter session; or after a stop, remove those that will not come back: until then reset and delete "
        "are refused",
        numbers={
            "static_member_count": len(static),
            "left_member_count": len(gone),
            "session_timeout_ms": longest or 0,
        },
        affected=[names[member.member_id] for member in named],
        commands=_evictions(snapshot, gone) or (kgroup_command("wait", group.name, "--for", "empty"),),
    )


def _evictions(snapshot: GroupSnapshot, members: Sequence[Member]) -> tuple[str, ...]:
    return tuple(
        kgroup_command("evict", snapshot.group.name, "--instance", member.instance_id or "")
        for member in members[:NAMED]
    )


def _some_labels(names: Mapping[str, str], members: Sequence[str]) -> str:
    return some_of([names[member_id] for member_id in members])


def _session(snapshot: GroupSnapshot, member: Member) -> int | None:
    """A classic member's own session timeout in ms, otherwise the group's or the broker's; None if unknown."""
    settings = (snapshot.settings or {}).get(member.member_id)
    if settings is not None and settings.session_timeout_ms is not None:
        return settings.session_timeout_ms
    if snapshot.group.type == "consumer" and member.protocol != "classic":
        return group_setting_ms(snapshot.configs, SESSION_CONFIG, snapshot.broker.session)
    return None


def _hidden(snapshot: GroupSnapshot) -> str:
    return snapshot.why("members", "its members may not be seen")
