"""Rules about commits that do not match the log: out of range, deleted or recreated topics, partitions never read."""

from __future__ import annotations

from collections.abc import Sequence

from kgroup.groups.deleted_topics import deleted_topics_words
from kgroup.groups.doctor.finding import Answer, Rule, Severity, kgroup_command, unread_partitions_text
from kgroup.groups.doctor.snapshot import NO_COMMITS, GroupSnapshot
from kgroup.groups.member_labels import labels
from kgroup.groups.next_commands import commit_history, deliver_passed_over
from kgroup.groups.passed_over import passed_over_in, passed_over_words
from kgroup.groups.thresholds import FEW_COMMITS, LEAST_UNREAD, RESET_SHOWN, RESTART, STORM_ONGOING
from kgroup.groups.verdict.facts import two_writers as writers_in
from kgroup.model.groups import Partition, RangeStatus
from kgroup.support.units import human_count, plural, some_of

OUT_OF_RANGE = Rule(
    "out-of-range",
    "a committed offset lies outside the log: records were lost, or will be read twice",
    "Kafka's documentation of auto.offset.reset (OFFSET_OUT_OF_RANGE); KIP-392",
)
NEVER_READ = Rule(
    "never-read",
    "a partition with records and no commit on a topic that the group commits to",
    "KIP-1327; KAFKA-20539: auto.offset.reset=latest on partitions that were added",
    (RESTART,),
)
MOVED = Rule(
    "offsets-moved",
    "offsets were moved while the group was Empty, by no member: records are skipped, or read again",
    "KIP-122, kafka-consumer-groups.sh --reset-offsets",
    (RESET_SHOWN,),
)
WRITERS = Rule(
    "two-writers",
    "two clients commit the same partition: the next owner begins at the offset of either",
    "Kafka's protocol: a commit of a consumer with assign() is not fenced; KIP-447",
    (FEW_COMMITS, STORM_ONGOING),
)
PASSED_OVER = Rule(
    "passed-over",
    "a commit leapt from below the log start: records may never have been read",
    "Kafka's documentation of auto.offset.reset (OFFSET_OUT_OF_RANGE)",
    (LEAST_UNREAD,),
)
GONE = Rule(
    "topic-gone",
    "the group reads, or has commits on, a topic that does not exist any more, or was deleted under it",
    "Kafka's protocol: UNKNOWN_TOPIC_OR_PARTITION; KIP-496 for deleting its offsets",
    (RESET_SHOWN,),
)
RECREATED = Rule(
    "topic-recreated",
    "a topic was recreated: the committed offsets belong to the old topic",
    "KIP-516 (topic ids), KIP-320 (leader epochs)",
)


def two_writers(snapshot: GroupSnapshot) -> Answer:
    """As ``describe`` finds them: whatever the lag is, which is that of the last of the two commits."""
    if snapshot.history is None:
        return WRITERS.unknown(snapshot.why("history", NO_COMMITS))
    writers = writers_in(snapshot.lag, snapshot.evidence)
    if not writers:
        return ()
    owner = writers[0].row.partition.owner
    label = None if owner is None else labels(snapshot.group)[owner.member_id]
    more = f"; {len(writers) - 1} more" if len(writers) > 1 else ""
    return WRITERS.finding(
        Severity.WARNING,
        f"{writers[0].words(label, snapshot.now_ms)}{more}",
        remedy="end the process that does not own the partition, or give it a group id of its own; no undo helps "
        "while both commit",
        numbers={
            "partition_count": len(writers),
            "fall_count": len(writers[0].falls.indices),
            "since_ms": snapshot.now_ms - writers[0].since_ms,
        },
        affected=[each.row.where for each in writers],
        commands=(
            kgroup_command("history", snapshot.group.name, "--commits"),
            kgroup_command("describe", snapshot.group.name, "--members"),
        ),
    )


def out_of_range(snapshot: GroupSnapshot) -> Answer:
    """Offsets between the commit and the log start are gone. Recreated topics belong to ``topic_recreated`` instead."""
    group = snapshot.group
    committed = [p for p in group.partitions if p.commit is not None or p.error]
    partly = OUT_OF_RANGE.partly(unread_partitions_text(committed))
    if committed and all(p.log is None for p in committed):
        return OUT_OF_RANGE.unknown(snapshot.why("logs", "no log range could be read"))
    outside = [p for p in committed if p.out_of_range]
    if outside:
        recreated = {partition.tp for partition in _recreated(snapshot)}
        outside = [p for p in outside if p.tp not in recreated]
    if not outside:
        return partly
    lost = {str(p.tp): p.log.start - p.commit.offset for p in outside if _below(p) and p.log and p.commit}
    above = {str(p.tp): p.commit.offset - p.log.end for p in outside if not _below(p) and p.log and p.commit}
    readable = sum(p.log.end - p.log.start for p in outside if p.log)
    parts = []
    if lost:
        worst = max(lost, key=lambda where: lost[where])
        total = f", {human_count(sum(lost.values()))} on {len(lost)} in all" if len(lost) > 1 else ""
        parts.append(f"{lost[worst]} offsets deleted on {worst}{total}")
    if above:
        worst = max(above, key=lambda where: above[where])
        parts.append(f"{worst} committed {plural(above[worst], 'offset')} above the log end" + _more(len(above)))
    return (
        OUT_OF_RANGE.finding(
            Severity.CRITICAL,
            f"{'; '.join(parts)}; still readable there: {human_count(readable)}",
            remedy="decide before auto.offset.reset does: with latest it skips what is still readable too; only these "
            "partitions, to the log start",
            numbers={
                "partition_count": len(outside),
                "deleted_offset_count": sum(lost.values()),
                "above_log_end_count": len(above),
                "readable_offset_count": readable,
            },
            affected=sorted(lost, key=lambda where: -lost[where]) + sorted(above),
            commands=(kgroup_command("reset", group.name, "--only", "out-of-range"),),
        )
        + partly
    )


def offsets_moved(snapshot: GroupSnapshot) -> Answer:
    """WARNING, if kgroup's journal does not know who did it; else INFO. The newest one that needs a look is named."""
    if snapshot.commits is None:
        return MOVED.unknown(snapshot.why("commits", NO_COMMITS))
    unknown = [reset for reset in snapshot.read.resets if reset.change is None and not reset.is_over]
    resets = unknown or snapshot.read.resets
    if not resets:
        return ()
    newest = resets[0]
    moved = [row.moved for reset in resets for row in reset.rows]
    more = f"; {plural(len(resets) - 1, 'earlier one')} too" if len(resets) > 1 else ""
    return MOVED.finding(
        Severity.WARNING if unknown else Severity.INFO,
        f"{newest.words(snapshot.now_ms)}{more}",
        remedy="none, if it was meant; else stop the group, and undo it: the plan shows what is read again"
        if unknown
        else "none, if it was meant",
        numbers={
            "partition_count": len(newest.rows),
            "skipped_offset_count": sum(count for count in moved if count > 0),
            "repeated_offset_count": -sum(count for count in moved if count < 0),
            "reset_count": len(resets),
        },
        affected=[str(row.commit.tp) for row in newest.rows],
        commands=tuple(newest.commands(snapshot.group.name, is_empty=snapshot.group.is_empty)),
    )


def passed_over(snapshot: GroupSnapshot) -> Answer:
    """WARNING: what is still there can be delivered, until retention deletes that too."""
    if snapshot.commits is None:
        return PASSED_OVER.unknown(snapshot.why("commits", NO_COMMITS))
    passed = passed_over_in(snapshot.read.leaps, snapshot.group.partitions)
    if not passed:
        return ()
    left = [each.left for each in passed if each.left is not None]
    return PASSED_OVER.finding(
        Severity.WARNING,
        passed_over_words(passed, snapshot.now_ms),
        remedy="compare with the consumer's log (a reset of the fetch position); what is still there can be delivered; "
        "auto.offset.reset=earliest or none does not pass over it",
        numbers={
            "partition_count": len(passed),
            "deleted_offset_count": sum(each.gone_end - each.leap.old for each in passed),
            "readable_offset_count": sum(end - start for start, end in left),
        },
        affected=[str(each.leap.tp) for each in passed],
        commands=(*deliver_passed_over(passed), commit_history(snapshot.group.name)),
    )


def _below(partition: Partition) -> bool:
    return partition.out_of_range is RangeStatus.BELOW_LOG_START


def _more(count: int) -> str:
    return f" and {count - 1} more" if count > 1 else ""


def never_read(snapshot: GroupSnapshot) -> Answer:
    """Ignores topics without any commit: the group may not have started. INFO for a group that only uses assign()."""
    group = snapshot.group
    topics = {p.tp.topic for p in group.partitions if p.commit is not None}
    rows = [p for p in group.partitions if p.tp.topic in topics]
    here = {p.tp for p in rows}
    sizes = {topic: facts.partitions for topic, facts in (snapshot.topics or {}).items()}
    unlisted = [
        f"{topic}:{number}"
        for topic in sorted(topics)
        for number in range(sizes.get(topic, 0))
        if (topic, number) not in here
    ]
    unsized = sorted(topics - sizes.keys() - (snapshot.gone or frozenset()))
    why = None
    if unsized:
        reason = snapshot.why("topics", "no DESCRIBE on it, or it does not exist")
        why = f"how many partitions {some_of(unsized)} has: {reason}"
    elif unlisted:
        why = f"not read: {some_of(unlisted)}"
    open_rows = [p for p in rows if p.commit is None]
    partly = NEVER_READ.partly(why or unread_partitions_text(open_rows))
    unread = [p for p in open_rows if p.error is None and p.log is not None and p.log.end > p.log.start]
    if not unread:
        return partly
    records = {str(p.tp): p.log.end - p.log.start for p in unread if p.log}
    where = sorted(records, key=lambda key: -records[key])
    if snapshot.crash_loops:
        return NEVER_READ.partly(f"its members may die before they commit: {some_of(where)}")
    begun_ms = min((one.timestamp_ms for of in (snapshot.commits or {}).values() for one in of), default=None)
    if begun_ms is not None and snapshot.now_ms - begun_ms < RESTART.value and all(p.owner for p in unread):
        return NEVER_READ.early(f"the group began to commit less than {RESTART.text} ago, and may read them later")
    lost = {str(p.tp) for p in unread if p.owner is None}  # the owners of the others may be reading them right now
    ownerless = len(lost)
    nobody = f", {ownerless} without an owner" if ownerless and not group.is_empty else ""
    return (
        NEVER_READ.finding(
            Severity.INFO if group.is_simple else Severity.WARNING,
            f"{plural(len(unread), 'partition')} with {human_count(sum(records.values()))} records and no commit: "
            f"{some_of(where)}{nobody}",
            remedy="unless auto.offset.reset is by_duration:<DURATION> or earliest, set it before partitions are "
            "added; what was passed over can be read by a reset to the log start",
            numbers={
                "partition_count": len(unread),
                "record_count": sum(records.values()),
                "without_owner_count": ownerless,
            },
            affected=where,
            commands=(
                kgroup_command(
                    "reset", group.name, "--topic", next(each for each in where if each in lost), "--to-earliest"
                )
                if lost
                else kgroup_command("peek", group.name, "--topic", where[0]),
            ),
        )
        + partly
    )


def topic_gone(snapshot: GroupSnapshot) -> Answer:
    """WARNING for a missing topic to which members subscribe or did; INFO if it is there again, or for old commits."""
    group, missing_topics, deleted = snapshot.group, snapshot.gone, snapshot.read.deleted
    if missing_topics is None:
        return GONE.unknown(snapshot.why("gone", "a topic that is not shown may be hidden from this user"))
    subscribed = {topic for member in group.members or () for topic in member.subscription or ()} & missing_topics
    commits = sorted(f"{p.tp}" for p in group.partitions if p.commit is not None and p.topic in missing_topics)
    committed = {partition.topic for partition in group.partitions if partition.commit is not None} & missing_topics
    missing = sorted(subscribed) + sorted(committed - subscribed)
    topics = list(dict.fromkeys([*(each.topic for each in deleted), *missing]))
    if not topics:
        return ()
    parts = [f"subscribed: {some_of(sorted(subscribed))}"] if subscribed else []
    parts += [f"{plural(len(commits), 'commit')} left on {some_of(sorted(committed))}"] if committed else []
    does = "does" if len(missing) == 1 else "do"
    texts = [deleted_topics_words(deleted, snapshot.now_ms)] if deleted else []
    texts += [f"{plural(len(missing), 'topic')} {does} not exist: {'; '.join(parts)}"] if missing else []
    gone_now = [each.topic for each in deleted if each.topic not in (snapshot.topics or {})]
    return GONE.finding(
        Severity.WARNING if subscribed or gone_now else Severity.INFO,
        "; ".join(texts),
        remedy=_remedy_of_gone(missing, [each.topic for each in deleted], snapshot)
        + ("; the offsets are wrong once it is created again" if committed else ""),
        numbers={"topic_count": len(topics), "subscribed_topic_count": len(subscribed), "commit_count": len(commits)},
        affected=topics,
        commands=(
            *((commit_history(group.name),) if deleted else ()),
            *(kgroup_command("delete-offsets", group.name, "--topic", topic) for topic in sorted(committed)[:3]),
        ),
    )


def _remedy_of_gone(missing: Sequence[str], deleted: Sequence[str], snapshot: GroupSnapshot) -> str:
    again = [topic for topic in deleted if topic in (snapshot.topics or {})]
    if again and not missing:
        return f"{some_of(again)} exists again, without offsets: members begin there by auto.offset.reset"
    return "create the topic, or remove it from the subscription"


def topic_recreated(snapshot: GroupSnapshot) -> Answer:
    """Compares the topic id in the commit; without one, its leader epoch, which a recreated log has not reached."""
    group = snapshot.group
    committed = [partition for partition in group.partitions if partition.commit is not None]
    comparable = (
        p for p in committed if _id_differs(snapshot, p) is not None or _epoch_differs(snapshot, p) is not None
    )
    if committed and next(comparable, None) is None:
        return RECREATED.unknown("neither topic ids (Kafka 4.1 and later) nor leader epochs of the commits are known")
    stale = _recreated(snapshot)
    if not stale:
        return ()
    by_id = [p for p in stale if _id_differs(snapshot, p)]
    topics = sorted({partition.topic for partition in stale})
    inside = sum(partition.out_of_range is None and partition.log is not None for partition in stale)
    how = (
        f"{plural(len(by_id), 'commit')} made under another topic id"
        if by_id
        else f"{plural(len(stale), 'commit')} with a leader epoch that the log never had (or it was truncated)"
    )
    silent = f"; {inside} fit into the new log by chance, which no client notices" if inside else ""
    return RECREATED.finding(
        Severity.CRITICAL,
        f"{some_of(topics)}: {how}{silent}",
        remedy="read the new topic from its start; the old offsets point at other records",
        numbers={
            "topic_count": len(topics),
            "commit_count": len(stale),
            "by_topic_id_count": len(by_id),
            "inside_log_count": inside,
        },
        affected=[str(partition.tp) for partition in stale],
        commands=tuple(kgroup_command("reset", group.name, "--topic", topic, "--to-earliest") for topic in topics[:3]),
    )


def _recreated(snapshot: GroupSnapshot) -> list[Partition]:
    """The partitions of recreated topics. A known topic id decides alone: an unclean election can lose an epoch."""
    stale = []
    for partition in snapshot.group.partitions:
        differs = _id_differs(snapshot, partition)
        if differs if differs is not None else _epoch_differs(snapshot, partition):
            stale.append(partition)
    return stale


def _id_differs(snapshot: GroupSnapshot, partition: Partition) -> bool | None:
    tp = partition.tp
    topic = (snapshot.topics or {}).get(tp.topic)
    if partition.commit is None or topic is None or topic.id is None:
        return None
    known = snapshot.topic_ids.get(tp)
    return None if known is None else known != topic.id


def _epoch_differs(snapshot: GroupSnapshot, partition: Partition) -> bool | None:
    facts = snapshot.logs.get(partition.tp)
    if partition.commit is None or partition.commit.leader_epoch is None or facts is None or facts.leader_epoch is None:
        return None
    return partition.commit.leader_epoch > facts.leader_epoch
