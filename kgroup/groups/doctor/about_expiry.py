"""Rules about committed offsets that will expire (``offsets.retention.minutes``)."""

from __future__ import annotations

from kgroup.groups.doctor.finding import (
    NO_SUBSCRIPTIONS,
    Answer,
    Rule,
    Severity,
    duration,
    kgroup_command,
    utc_minute,
)
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.member_labels import subscribed_topics
from kgroup.groups.thresholds import EXPIRY_AT_ONCE, EXPIRY_SOON, IN_USE
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.units import plural, some_of

EXPIRY = Rule(
    "offsets-expire",
    "the committed offsets of a group without members expire soon",
    "KIP-211; Kafka's documentation of offsets.retention.minutes",
    (EXPIRY_SOON, EXPIRY_AT_ONCE),
)
EXPIRY_IN_USE = Rule(
    "offsets-expire-in-use",
    "offsets expire soon although a consumer uses this group id",
    "KIP-211; Kafka's documentation of offsets.retention.minutes",
    (EXPIRY_SOON, EXPIRY_AT_ONCE, IN_USE),
)
_NO_TIMES = "when the commits were made was not read"


def offsets_expire(snapshot: GroupSnapshot) -> Answer:
    """The time counts from Empty for a classic group that had members, from each commit for all other groups."""
    if not snapshot.group.is_empty or _has_other_committer(snapshot):
        return ()
    return _expiring(snapshot, EXPIRY, None)


def offsets_expire_in_use(snapshot: GroupSnapshot) -> Answer:
    """With members: commits on topics that no member subscribes to. Without members: only if a client still commits."""
    group = snapshot.group
    if group.is_empty:
        return _expiring(snapshot, EXPIRY_IN_USE, None) if _has_other_committer(snapshot) else ()
    if group.members is None:
        return EXPIRY_IN_USE.unknown(snapshot.why("members", "its members may not be seen"))
    subscribed = subscribed_topics(group)
    if subscribed is None:
        return EXPIRY_IN_USE.unknown(NO_SUBSCRIPTIONS)
    return _expiring(snapshot, EXPIRY_IN_USE, subscribed)


def _has_other_committer(snapshot: GroupSnapshot) -> bool:
    """Whether a group without members has a recent commit that was made after it became Empty, or never had members."""
    newest = snapshot.last_commit_ms
    if newest is None or snapshot.now_ms - newest > IN_USE.value:
        return False
    after = snapshot.emptied_at_ms is not None and newest > snapshot.emptied_at_ms
    return after or snapshot.group.is_simple


def _expiring(snapshot: GroupSnapshot, rule: Rule, subscribed: frozenset[str] | None) -> Answer:
    """The answer for commits on topics that are not ``subscribed`` (None: all commits), by their remaining time."""
    group = snapshot.group
    keys = [
        p.tp for p in group.partitions if p.commit is not None and (subscribed is None or p.topic not in subscribed)
    ]
    if not keys:
        return ()
    retention = snapshot.broker.offsets_retention_ms
    if retention is None:
        return rule.unknown(snapshot.why("offsets_retention_ms", "offsets.retention.minutes could not be read"))
    from_empty = subscribed is None and group.type == "classic" and not group.is_simple
    base = _from_empty(snapshot, keys) if from_empty else _from_commits(snapshot, keys)
    if not base:
        return rule.unknown(snapshot.why("emptied_at_ms" if from_empty else "commits", _NO_TIMES))
    missing = [f"{tp}" for tp in keys if tp not in base]
    partly = rule.partly(f"{_NO_TIMES}: {some_of(missing)}" if missing else None)
    latest_ms = snapshot.now_ms - retention + min(EXPIRY_SOON.value, retention // 2)
    soon = sorted((tp for tp, since in base.items() if since < latest_ms), key=lambda tp: (base[tp], tp))
    if not soon:
        return partly
    first = base[soon[0]] + retention - snapshot.now_ms
    when = f"the first in {duration(first)}" if first > 0 else "the first at the broker's next check"
    expire = "expires" if len(keys) == 1 else "expire"
    since = f"Empty since {utc_minute(base[soon[0]])}" if from_empty else f"committed {utc_minute(base[soon[0]])}"
    return (
        rule.finding(
            Severity.CRITICAL if first < min(EXPIRY_AT_ONCE.value, retention // 4) else Severity.WARNING,
            f"{len(soon)} of {plural(len(keys), 'commit')} {expire} soon, {when} ({since}, kept {duration(retention)})",
            remedy=_remedy(from_empty=from_empty, live=subscribed is not None),
            numbers={
                "commit_count": len(keys),
                "expiring_count": len(soon),
                "expires_in_ms": first,
                "retention_ms": retention,
            },
            affected=[f"{topic}:{number}" for topic, number in soon],
            commands=_commands(snapshot, from_empty=from_empty, live=subscribed is not None),
        )
        + partly
    )


def _from_empty(snapshot: GroupSnapshot, keys: list[TopicPartition]) -> dict[TopicPartition, int]:
    return {} if snapshot.emptied_at_ms is None else dict.fromkeys(keys, snapshot.emptied_at_ms)


def _from_commits(snapshot: GroupSnapshot, keys: list[TopicPartition]) -> dict[TopicPartition, int]:
    known = snapshot.commits or {}
    return {key: known[key][-1].timestamp_ms for key in keys if key in known}


def _remedy(*, from_empty: bool, live: bool) -> str:
    if live:
        return (
            "subscribe to these topics, read them under a group id of their own, or delete the offsets if no consumer "
            "reads them"
        )
    if from_empty:
        return (
            "start a member, however briefly: the time starts again when it leaves; another commit does not "
            "prolong it. Keep a copy meanwhile"
        )
    return "commit them again: the time counts from each commit"


def _commands(snapshot: GroupSnapshot, *, from_empty: bool, live: bool) -> tuple[str, ...]:
    group = snapshot.group.name
    if live:
        return (kgroup_command("export", group), "offsets.retention.minutes on the brokers")
    if from_empty:
        return (kgroup_command("export", group), kgroup_command("migrate", group, "--protocol", "consumer"))
    return (kgroup_command("reset", group, "--all-topics", "--to-current"),)
