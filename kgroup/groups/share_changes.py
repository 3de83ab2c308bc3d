"""What is special about changing a share group: its rows, what the broker would accept all the same, and the price.

A start offset is written as a commit without leader epoch and metadata. Writing one deletes the delivery states of its
partition: what is done from there on is delivered again. No undo brings the states back. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.change_result import Refusal
from kgroup.groups.reset_plan import PartitionsByTopic
from kgroup.groups.reset_targets import NO_COMMIT
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, RowError
from kgroup.model.share_deliveries import PartitionDeliveries
from kgroup.model.share_group import BrokerLag
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, Refused, refusal_code
from kgroup.support.hint import Hint
from kgroup.support.units import some_of

SHARE_READ_ONLY = refusal_code(
    "share-groups-read-only",
    "changes",
    "The group is a share group, and the brokers are older than Kafka 4.2. They answer that they have set its start "
    "offsets, and do nothing. So undo could not restore a deleted group either.",
    "Upgrade the brokers.",
)
INTERNAL_TOPIC = refusal_code(
    "internal-topic",
    "reset, undo",
    "The topic is one of Kafka's own, and a share group would get a start offset on it.",
    "Name another topic.",
)
WHOLE_TOPIC = refusal_code(
    "whole-topic",
    "reset, delete-offsets, undo",
    "The brokers delete the start offsets of a share group for whole topics only. A start offset that was not there "
    "before cannot be restored either.",
    "Delete the start offsets of the whole topic with delete-offsets.",
)

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_NAMED = 5
_NOT_STORED = "no start offset is stored yet"


def start_row(row: ChangeRow, counted: BrokerLag | None) -> ChangeRow:
    """A row of a plan as one of a share group; ``counted`` is the lag of its partition, None without a state."""
    if row.error is not None and row.error.code == NO_COMMIT:
        row = replace(row, error=replace(row.error, message=_NOT_STORED))
    note = row.note.replace("no commit", "no start offset") if row.note else None
    new = None if row.new is None else Commit(row.new.offset, None, "")
    return replace(row, new=new, note=note, counted=counted or BrokerLag(None))


def unusual_starts(rows: Sequence[ChangeRow], partitions: PartitionsByTopic) -> tuple[str, ...]:
    """A warning if partitions of the topics of a new share group get no start offset: its first members pass over them.

    So it is where the consumer group has no commit whose offsets it gets.
    """
    known = {topic: partitions.get(topic) for topic in {row.topic for row in rows}}
    every = {TopicPartition(topic, n) for topic, found in known.items() if isinstance(found, frozenset) for n in found}
    left = sorted(every - {row.tp for row in rows})
    if not left:
        return ()
    where = some_of([str(tp) for tp in left], _NAMED)
    return (
        f"no start offset for {where}: share.auto.offset.reset decides; latest, the default, passes over its records",
    )


def lags_of(group: Group) -> dict[TopicPartition, BrokerLag]:
    """The lags of a share group, also of partitions without a start offset."""
    return {each.tp: each.counted for each in group.partitions if each.counted is not None}


def has_worked(now: Commit | None, counted: BrokerLag | None, log: LogRange | None) -> bool:
    """Whether records after a start offset that was set are done; ``counted`` must be newer than the end of ``log``.

    The start offset itself stays behind until the broker writes something else (4.4.0, seen).
    """
    if now is None or counted is None or counted.lag is None or log is None:
        return False
    return counted.lag < log.end - max(now.offset, log.start)


def restored_start(
    row: ChangeRow, counted: BrokerLag | None, unread: KgroupError | None, *, deleted: bool
) -> ChangeRow | None:
    """A row of an undo as one of a share group, within the log; None if the start offset is there already.

    ``unread`` is why its log could not be read. ``deleted`` is whether the undo deletes the whole group.
    """
    row = start_row(row, counted)
    if row.error is not None or deleted:
        return row
    if row.new is None:
        error = Refused(
            "it had no start offset before, and none cannot be restored",
            hint=Hint("What comes closest: {}", ("delete-offsets", row.group, "--topic", row.topic)),
            code=WHOLE_TOPIC,
        )
        return row.failing(RowError.of(error))
    if row.log is None:
        return row.failing(RowError.of(unread or KgroupError("its log could not be read")))
    offset = row.new.offset
    within = min(max(offset, row.log.start), row.log.end)
    if within == offset:
        return row
    where = f"below the log start {within}" if offset < within else f"above the log end {within}"
    new = Commit(within, None, "")
    return None if row.old == new else replace(row, new=new, note=None, clamped=f"{offset} is {where}")


def note_archived(row: ChangeRow, deliveries: PartitionDeliveries | None) -> ChangeRow:
    """The row of a new start offset, with a note if archived offsets are delivered again; markers are among them."""
    if row.new is None or row.log is None or deliveries is None:
        return row
    start, end = row.new.offset, row.log.end
    count = sum(
        max(0, min(each.last + 1, end) - max(each.first, start)) for each in deliveries.batches if each.is_archived
    )
    note = f"{count} archived: delivered again" if count else None
    return replace(row, note="; ".join(part for part in (row.note, note) if part) or None)


def refuse_share_changes(plan: ChangePlan, *, supported: bool) -> Iterator[Refusal]:
    """Why share groups of a plan cannot be changed; ``supported`` is whether the brokers can change any."""
    by_group = plan.by_group()
    groups = {group.name: group for group in plan.groups}
    for name in sorted(plan.share & set(plan.affected_groups)):
        rows = [row for row in by_group.get(name, ()) if row.error is None]
        if not supported:
            message = (
                f"{name} is a share group, and brokers before Kafka 4.2 set no start offset, although they answer so"
            )
            yield Refusal(name, Refused(message, hint="Upgrade the brokers.", code=SHARE_READ_ONLY))
            continue
        if own := sorted({row.topic for row in rows if row.new is not None} & _INTERNAL):
            message = f"{some_of(own)}: a topic of Kafka's own has no start offsets of share groups"
            yield Refusal(name, Refused(message, code=INTERNAL_TOPIC))
        if name not in plan.deleted and (kept := _kept(rows, groups.get(name))):
            message = f"the broker would also delete the start offsets of {some_of([f'{tp}' for tp in kept], _NAMED)}"
            yield Refusal(
                name,
                Refused(
                    message,
                    hint=Hint(
                        "It deletes those of whole topics only: {}",
                        ("delete-offsets", name, *(word for topic in _topics(kept) for word in ("--topic", topic))),
                    ),
                    code=WHOLE_TOPIC,
                ),
            )


def _kept(rows: Sequence[ChangeRow], group: Group | None) -> list[TopicPartition]:
    """The partitions that the rows do not mention, on topics of which they delete start offsets."""
    deleted = {row.tp for row in rows if row.new is None}
    topics = {tp.topic for tp in deleted}
    return sorted(tp for tp in (committed(group) if group else ()) if tp.topic in topics and tp not in deleted)


def _topics(partitions: Collection[TopicPartition]) -> list[str]:
    return list(dict.fromkeys(tp.topic for tp in partitions))


class ShareEffect(msgspec.Struct, frozen=True):
    """What a plan does to a share group as a whole.

    ``lag``, ``lag_after``, ``repeated`` and ``skipped`` are of the partitions whose start offsets are set; None if the
    broker does not count the lag of one. If not ``exact``, which records are done is not known, and the last two are
    upper bounds. ``unread`` is the lag where start offsets are deleted; ``next_start`` is share.auto.offset.reset,
    which decides there, None if it could not be read.
    """

    group: str
    sets: bool
    lag: int | None
    lag_after: int
    repeated: int
    skipped: int
    exact: bool
    deletes: bool
    unread: int | None
    next_start: str | None
    is_deleted: bool


def share_effects(plan: ChangePlan) -> list[ShareEffect]:
    """The effects on the share groups of a plan, without rows that have an error."""
    by_group = plan.by_group()
    groups: Mapping[str, Group] = {group.name: group for group in plan.groups}
    effects = []
    for name in sorted(plan.share & set(plan.affected_groups)):
        rows = [row for row in by_group.get(name, ()) if row.error is None]
        sets = [row for row in rows if row.new is not None]
        deletes = [row for row in rows if row.new is None]
        share = groups[name].share if name in groups else None
        effects.append(
            ShareEffect(
                name,
                bool(sets),
                _sum(sets),
                sum(row.log.end - row.new.offset for row in sets if row.log and row.new),
                sum(row.repeated or 0 for row in sets),
                sum(row.skipped or 0 for row in sets),
                all(map(_is_exact, sets)),
                bool(deletes),
                _sum(deletes),
                share.settings.start if share and share.settings else None,
                name in plan.deleted,
            )
        )
    return effects


def _is_exact(row: ChangeRow) -> bool:
    """Whether it is known which records the row skips: none, or all that are not done."""
    if row.new is None or row.log is None or row.counted is None or row.counted.lag is None:
        return False
    return row.skipped == max(0, row.counted.lag - (row.log.end - row.new.offset))


def _sum(rows: Sequence[ChangeRow]) -> int | None:
    lags = [None if row.counted is None else row.counted.lag for row in rows]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None
