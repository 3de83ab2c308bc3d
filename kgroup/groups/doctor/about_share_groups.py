"""Rules about share groups: what their coordinators, their settings and the logs of their topics show."""

from __future__ import annotations

from kgroup.groups.doctor.finding import (
    Answer,
    Rule,
    RuleScope,
    Severity,
    kgroup_command,
    quoted,
    tool_command,
    unread_partitions_text,
)
from kgroup.groups.doctor.snapshot import GroupSnapshot
from kgroup.groups.verdict.plain import members_sentence
from kgroup.model.share_deliveries import Deliveries
from kgroup.model.share_group import ShareSettings
from kgroup.support.durations import format_duration
from kgroup.support.quoting import quote
from kgroup.support.units import human_count, plural, some_of

NO_READER = Rule(
    "share-no-reader",
    "a share group has no members, and records of it are not done",
    "KIP-932: a share group keeps its offsets without members, and does not expire",
    scope=RuleScope.SHARE,
)
GROUP_ID = Rule(
    "share-group-id",
    "a share group without start offsets, whose id Kafka 4.2.0 may not read",
    "KAFKA-20183",
    scope=RuleScope.SHARE,
)
STARTS_AT_LATEST = Rule(
    "share-starts-at-latest",
    "a share group without start offsets passes over the records that were there before it",
    "KIP-932: share.auto.offset.reset",
    scope=RuleScope.SHARE,
)
DEAD_LETTERS = Rule(
    "share-dead-letters",
    "the dead-letter topic of a share group does not exist or is not enabled: records that are archived are lost",
    "KIP-1191",
    scope=RuleScope.SHARE,
)
ARCHIVED = Rule(
    "share-archived",
    "records of a share group are archived, and no dead-letter topic receives them: they are lost",
    "KIP-932: share.delivery.count.limit; KIP-1191",
    scope=RuleScope.SHARE,
)
LAST_ATTEMPTS = Rule(
    "share-last-attempts",
    "records of a share group are on the last delivery before they are archived",
    "KIP-932: share.delivery.count.limit",
    scope=RuleScope.SHARE,
)

LOCK = Rule(
    "share-lock",
    "deliveries of a share group end when their lock does, or later, again and again",
    "KIP-932: share.record.lock.duration.ms",
    scope=RuleScope.SHARE,
)

_UNREADABLE = "4.2"
_LATEST = "latest"
_NOT_READ = "the settings of the group were not read"


def share_no_reader(snapshot: GroupSnapshot) -> Answer:
    """An Empty share group with a lag; since when it is Empty, its coordinator does not show."""
    group, lag = snapshot.group, snapshot.lag.total.lag
    if not (lag and members_sentence(group)):
        return NO_READER.partly(unread_partitions_text(group.partitions))
    return NO_READER.finding(
        Severity.WARNING,
        f"no member reads, and {human_count(lag)} of its records are not done",
        remedy="start its consumers: they get the records that are not done",
        numbers={"lag": lag},
        affected=[row.where for row in snapshot.lag.partitions if row.lag],
        commands=(kgroup_command("describe", group.name),),
    )


def share_group_id(snapshot: GroupSnapshot) -> Answer:
    """A colon in the id, with brokers that may not find the group's state by it, where they have not found any yet.

    On one broker of 4.2.0 such a group got records after errors in the broker's log (seen).
    """
    group, release = snapshot.group, snapshot.broker.release
    if ":" not in group.name or any(p.commit is not None for p in group.partitions):
        return ()
    if any(p.error for p in group.partitions):
        return GROUP_ID.unknown("its start offsets were not read")
    if release is None:
        return GROUP_ID.unknown(snapshot.why("release", "the release of the brokers is not known"))
    if release != _UNREADABLE:
        return ()
    return GROUP_ID.finding(
        Severity.WARNING,
        f"{plural(group.name.count(':'), 'colon')} in the group id, no start offset is stored, and the brokers are of "
        f"{release}: 4.2.0 may deliver nothing to it, and no client gets an error",
        remedy="use another group id, or newer brokers; which 4.2 they are, brokers do not show",
        numbers={"colon_count": group.name.count(":")},
        commands=(kgroup_command("describe", group.name),),
    )


def share_starts_at_latest(snapshot: GroupSnapshot) -> Answer:
    """Records on partitions without a start offset, of a group that starts at the log end."""
    group, settings = snapshot.group, _settings(snapshot)
    if settings is None or settings.start is None:
        return STARTS_AT_LATEST.unknown(_why(snapshot))
    new = [p for p in group.partitions if p.commit is None and not p.error and p.log and p.log.end > p.log.start]
    if settings.start != _LATEST or not new:
        return STARTS_AT_LATEST.partly(unread_partitions_text(group.partitions))
    offsets = sum(p.log.end - p.log.start for p in new if p.log)
    places = [str(p.tp) for p in new]
    who = "its first consumer gets none" if group.is_empty else "its members get none from before their first fetch"
    config = f"--alter --entity-type groups --entity-name {quoted(group)} --add-config share.auto.offset.reset=earliest"
    return STARTS_AT_LATEST.finding(
        Severity.WARNING if group.is_empty else Severity.INFO,
        f"share.auto.offset.reset is latest, without a start offset on {plural(len(new), 'partition')} "
        f"({some_of(places)}): of {plural(offsets, 'offset')} there {who}",
        remedy="where those records count, set share.auto.offset.reset before its first consumer starts",
        numbers={"partition_count": len(new), "offset_count": offsets},
        affected=places,
        commands=(tool_command("kafka-configs.sh", snapshot.bootstrap, config),),
    )


def share_dead_letters(snapshot: GroupSnapshot) -> Answer:
    """A dead-letter topic that is configured, and is missing or not enabled: no consumer gets an error of it."""
    settings = _settings(snapshot)
    if settings is None:
        return DEAD_LETTERS.unknown(_why(snapshot))
    topic = settings.dead_letters
    if topic is None or (topic.exists is False and topic.created):
        return ()
    if topic.exists is None:
        return DEAD_LETTERS.unknown(f"no DESCRIBE_CONFIGS on {topic.name}")
    if topic.exists and topic.enabled:
        return ()
    switch, name = "errors.deadletterqueue.group.enable=true", quote(topic.name)
    if topic.exists:
        what, tool = f"lacks {switch}", "kafka-configs.sh"
        rest = f"--alter --entity-type topics --entity-name {name} --add-config {switch}"
    else:
        what, tool, rest = "does not exist", "kafka-topics.sh", f"--create --topic {name} --config {switch}"
    limit = settings.delivery_limit
    up = "" if limit is None else f" after {limit} deliveries"
    return DEAD_LETTERS.finding(
        Severity.WARNING,
        f"its dead-letter topic {topic.name} {what}: a record that is rejected, or not done{up}, is lost",
        remedy="make the topic, or enable it: consumers get no error of it",
        numbers={"delivery_limit_count": limit or 0},
        affected=[topic.name],
        commands=(tool_command(tool, snapshot.bootstrap, rest),),
    )


def share_archived(snapshot: GroupSnapshot) -> Answer:
    """Archived after two deliveries or more: after one it may be the marker of a transaction, which is no record."""
    settings, deliveries = _settings(snapshot), _deliveries(snapshot)
    if settings is None:
        return ARCHIVED.unknown(_why(snapshot))
    topic = settings.dead_letters
    if topic is not None and (topic.exists or topic.created) and topic.enabled is not False:
        return ()
    if topic is not None and topic.exists is None:
        return ARCHIVED.unknown(f"no DESCRIBE_CONFIGS on {topic.name}")
    batches = [(tp, each) for tp, state in deliveries.partitions.items() for each in state.surely_archived]
    if not batches:
        return _incomplete(ARCHIVED, deliveries)
    limit = settings.delivery_limit
    count, at_limit = (
        sum(each.offsets for _, each in batches if least is not None and each.count >= least) for least in (2, limit)
    )
    places = list(dict.fromkeys(str(tp) for tp, _ in batches))
    reached = f", {plural(at_limit, 'offset')} of them after all {limit}" if at_limit else ""
    why = "there is no dead-letter topic" if topic is None else f"its dead-letter topic {topic.name} receives none"
    return ARCHIVED.finding(
        Severity.CRITICAL if at_limit else Severity.WARNING,
        f"{plural(count, 'offset')} of {some_of(places)} archived after 2 deliveries or more{reached}, and {why}",
        remedy="find out why consumers reject them or fail at them; a dead-letter topic (Kafka 4.4) keeps later ones",
        numbers={"offset_count": count, "at_limit_count": at_limit},
        affected=places,
        commands=(kgroup_command("peek", snapshot.group.name),),
    )


def share_last_attempts(snapshot: GroupSnapshot) -> Answer:
    """Retried records that the next failure archives; a member may hold one of them at this moment."""
    settings, deliveries = _settings(snapshot), _deliveries(snapshot)
    if settings is None:
        return LAST_ATTEMPTS.unknown(_why(snapshot))
    if (limit := settings.delivery_limit) is None:
        return LAST_ATTEMPTS.unknown("the delivery limit is not known")
    counts = {str(tp): last for tp, state in deliveries.partitions.items() if (last := state.last_attempts(limit))}
    if not counts:
        return _incomplete(LAST_ATTEMPTS, deliveries)
    return LAST_ATTEMPTS.finding(
        Severity.WARNING,
        f"{plural(sum(counts.values()), 'offset')} of {some_of(list(counts))} came back {plural(limit - 1, 'time')}: "
        f"if the next delivery fails, that was the last of {limit}",
        remedy="find out why its consumers fail at them, or do not finish them within their lock",
        numbers={"offset_count": sum(counts.values()), "delivery_limit_count": limit},
        affected=sorted(counts, key=counts.__getitem__, reverse=True),
        commands=(kgroup_command("peek", snapshot.group.name),),
    )


def share_lock(snapshot: GroupSnapshot) -> Answer:
    """Records whose deliveries all lasted a lock's length: who held them, and whether it still does, is not written."""
    settings, deliveries = _settings(snapshot), _deliveries(snapshot)
    if settings is None:
        return LOCK.unknown(_why(snapshot))
    if (lock_ms := settings.lock_ms) is None:
        return LOCK.unknown("the duration of the lock is not known")
    outlasted = {
        str(tp): sum(each.last - each.first + 1 for each in state.failed if each.outlast(lock_ms))
        for tp, state in deliveries.partitions.items()
    }
    places = [place for place, count in outlasted.items() if count]
    if not places:
        return _incomplete(LOCK, deliveries)
    count = sum(outlasted.values())
    return LOCK.finding(
        Severity.WARNING,
        f"{plural(count, 'offset')} of {some_of(places)} came back about {format_duration(lock_ms / 1000)} or more "
        "after the time before, again and again: as long as their lock lasts. A consumer needs longer for them, or "
        "stays away",
        remedy="what it accepts after the lock does not count: raise share.record.lock.duration.ms above the longest "
        "time for the records of a poll, or lower max.poll.records",
        numbers={"offset_count": count, "lock_ms": lock_ms},
        affected=places,
        commands=(kgroup_command("peek", snapshot.group.name),),
    )


def _deliveries(snapshot: GroupSnapshot) -> Deliveries:
    share = snapshot.group.share
    return (share.deliveries if share else None) or Deliveries(unread="__share_group_state was not read")


def _incomplete(rule: Rule, deliveries: Deliveries) -> Answer:
    """Nothing was found; whether all was read."""
    if deliveries.unread is None:
        return ()
    return rule.partly(deliveries.unread) if deliveries.partitions else rule.unknown(deliveries.unread)


def _settings(snapshot: GroupSnapshot) -> ShareSettings | None:
    return None if snapshot.group.share is None else snapshot.group.share.settings


def _why(snapshot: GroupSnapshot) -> str:
    share = snapshot.group.share
    return (share.unread if share else None) or _NOT_READ
