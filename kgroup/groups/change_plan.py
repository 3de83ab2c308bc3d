"""A plan to change committed offsets: old and new commit of each partition. kgroup applies what it shows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain

import msgspec
from msgspec.structs import replace

from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, RowError
from kgroup.model.records import OffsetRange, merged
from kgroup.model.share_group import BrokerLag
from kgroup.model.topic_partition import GroupTopicPartition, TopicPartition
from kgroup.support.units import some_of


class ChangeRow(msgspec.Struct, frozen=True, gc=False):
    """One partition's commit before and after a change."""

    group: str
    topic: str
    partition: int | None
    """None in the row of a topic that does not exist, which has an ``error``."""
    old: Commit | None
    new: Commit | None
    """None: no commit (or, with ``error``, no change)."""
    log: LogRange | None = None
    clamped: str | None = None
    """Why the new offset is not the requested one."""
    note: str | None = None
    error: RowError | None = None
    done: bool | None = None
    """None before the attempt."""
    read_back: Commit | None = None
    """The commit that verification found; None if there was none, or if it could not be read."""
    unread: bool = False
    """Whether ``read_back`` could not be read."""
    counted: BrokerLag | None = None
    """The lag before the change of a share group, whose start offsets the commits are; None for other groups."""

    @property
    def tp(self) -> TopicPartition:
        """(topic, partition); the row must have a partition."""
        assert self.partition is not None
        return TopicPartition(self.topic, self.partition)

    @property
    def name(self) -> str:
        """``orders:7``, as ``--topic`` takes it."""
        return self.topic if self.partition is None else f"{self.tp}"

    @property
    def verified(self) -> bool:
        """Whether verification found the new commit after the change."""
        return bool(self.done) and not self.unread and self.read_back == self.new

    @property
    def skipped(self) -> int | None:
        """The number of unread offsets that the group will not read; None if the old or new commit is None.

        Offsets below the log start do not count: old 5, log [100, 120), new 110 skips 10. Of a share group at most:
        old 0, new 10 and a lag of 3 skip 3, if what is not done is below 10.
        """
        if self.old is None or self.new is None:
            return None
        skipped = _skipped(self.old.offset, self.new.offset, self.log)
        if self.counted is None:
            return skipped
        return None if self.counted.lag is None else min(skipped, self.counted.lag)

    @property
    def repeated(self) -> int | None:
        """The number of committed offsets that the group will read again; None if the old or new commit is None.

        Of a share group these are all offsets from the new start that are done, at most: old 0, new 0, log [0, 20) and
        a lag of 3 repeat 17, because the delivery states are deleted.
        """
        if self.old is None or self.new is None:
            return None
        if self.counted is None:
            return _repeated(self.old.offset, self.new.offset, self.log)
        if self.log is None or self.counted.lag is None:
            return None
        skipped = _skipped(self.old.offset, self.new.offset, self.log)
        return max(0, self.log.end - self.new.offset - max(0, self.counted.lag - skipped))

    @property
    def skipped_range(self) -> OffsetRange | None:
        """The offsets that it jumps over and that the log holds; those of a share group may have been done already."""
        if self.old is None or self.new is None or not self.skipped:
            return None
        count = _skipped(self.old.offset, self.new.offset, self.log)
        return OffsetRange(*self.tp, self.new.offset - count, self.new.offset)

    @property
    def gone(self) -> int | None:
        """How many offsets the old commit is outside the log: old 5, log [100, 120) is 95. None if not known.

        A share group's start offset may stay below the log start: what was deleted there may have been done.
        """
        if self.old is None or self.log is None:
            return None
        below = self.log.start - self.old.offset if self.counted is None else 0
        return max(0, below, self.old.offset - self.log.end)

    @property
    def changes(self) -> bool:
        """Whether the new commit differs from the old one. kgroup writes an equal one too: it then expires later."""
        return self.old != self.new

    def ended(self, read_back: Commit | None, *, unread: bool = False) -> ChangeRow:
        return replace(self, error=None, done=True, read_back=read_back, unread=unread)

    def failing(self, error: RowError) -> ChangeRow:
        return replace(self, error=replace(error, group=self.group, topic=self.topic, partition=self.partition))


def _skipped(old: int, new: int, log: LogRange | None) -> int:
    start = log.start if log and log.start > old else old
    return new - start if new > start else 0


def _repeated(old: int, new: int, log: LogRange | None) -> int:
    end = log.end if log and log.end < old else old
    return end - new if end > new else 0


class ChangePlan(msgspec.Struct, frozen=True, dict=True):
    """What a command will change."""

    groups: tuple[Group, ...]
    """As they were read."""
    rows: Sequence[ChangeRow]
    created: frozenset[str] = frozenset()
    """Names of groups."""
    deleted: frozenset[str] = frozenset()
    """Names of groups; deletion includes all offsets."""
    errors: tuple[RowError, ...] = ()
    """Failures that belong to no row."""
    unusual: tuple[str, ...] = ()
    """Sentences about effects that the user may not have meant."""
    converted: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The new type of groups, which are converted after their rows are done."""
    configs: Mapping[str, Mapping[str, str | None]] = msgspec.field(default_factory=dict)
    """Dynamic configs of groups to be set; the value None deletes one."""
    created_share: frozenset[str] = frozenset()
    """Those of ``created`` that become share groups."""

    @cached_property
    def share(self) -> frozenset[str]:
        """The share groups: the commits in their rows are start offsets."""
        return self.created_share | {group.name for group in self.groups if group.is_share}

    @property
    def whole(self) -> frozenset[str]:
        """The groups that are changed as a whole: deleted, converted or configured. Each counts as one row."""
        return self.deleted | self.converted.keys() | self.configs.keys()

    @property
    def only_configured(self) -> frozenset[str]:
        """The groups of which only the configs change; that is possible while they have members."""
        return frozenset(self.configs.keys() - self.converted.keys() - self.deleted)

    @property
    def size(self) -> int:
        """The number of rows; a group that is changed as a whole counts as one."""
        whole = self.whole
        if not whole:
            return len(self.rows)
        return len(whole) + sum(row.group not in whole for row in self.rows)

    @property
    def affected_groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(chain((row.group for row in self.rows), sorted(self.whole))))

    def without(self, groups: Collection[str]) -> ChangePlan:
        """The plan without rows that have an error and without the changes of ``groups``."""
        rows = [row for row in self.rows if row.error is None and row.group not in groups]
        converted = {name: kind for name, kind in self.converted.items() if name not in groups}
        configs = {name: own for name, own in self.configs.items() if name not in groups}
        return replace(self, rows=rows, deleted=self.deleted - frozenset(groups), converted=converted, configs=configs)

    def with_rows(self, rows: Iterable[ChangeRow]) -> ChangePlan:
        return replace(self, rows=list(rows))

    def by_group(self) -> dict[str, list[ChangeRow]]:
        rows_of_group: dict[str, list[ChangeRow]] = {}
        for row in self.rows:
            rows_of_group.setdefault(row.group, []).append(row)
        return rows_of_group

    @property
    def skipped_ranges(self) -> list[OffsetRange]:
        """The ranges that the plan skips and that the log still holds, merged."""
        return merged({each for row in self.rows if not row.error and (each := row.skipped_range)})

    @cached_property
    def moves(self) -> tuple[int, int]:
        """(skipped offsets, repeated offsets), summed over all rows without an error."""
        rows = [row for row in self.rows if not row.error]
        return sum(row.skipped or 0 for row in rows), sum(row.repeated or 0 for row in rows)


def committed(group: Group) -> dict[TopicPartition, Commit]:
    return {p.tp: p.commit for p in group.partitions if p.commit is not None}


def stalled(group: Group, logs: Mapping[TopicPartition, LogRange]) -> set[TopicPartition]:
    """The partitions with unread records, if at most half of the group's partitions have some; otherwise empty.

    This pattern suggests a poison pill: a record that its consumer cannot process. Committed offsets show no more.
    """
    behind, known = set(), 0
    for tp, commit in committed(group).items():
        if log := logs.get(tp):
            known += 1
            if log.end > max(commit.offset, log.start):
                behind.add(tp)
    return behind if 0 < 2 * len(behind) <= known else set()


def unusual_shift(rows: Sequence[ChangeRow], stuck: Collection[GroupTopicPartition]) -> tuple[str, ...]:
    """Warnings that a shift skips good records in partitions that are not ``stuck``: the user may mean one record."""
    per_group: Counter[str] = Counter()
    hit_count, good_count, single, first = 0, 0, True, ""
    stalled_numbers: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.error or not row.changes:
            continue
        per_group[row.group] += 1
        if (row.group, *row.tp) in stuck:
            hit_count += 1
            stalled_numbers.setdefault(row.topic, {})[str(row.partition)] = None
        elif row.skipped:
            good_count += 1
            single = single and row.skipped == 1
            first = first or row.name
    if not good_count or max(per_group.values()) < 2 or (good_count < 2 and not hit_count):
        return ()
    if not hit_count:
        what = "a record" if single else "records"
        return (f"skips {what} in each of {good_count} partitions. One alone: --topic {first}",)
    stalled_ones = f"{hit_count} is stalled" if hit_count == 1 else f"{hit_count} are stalled"
    what = "one good record" if single else "good records"
    only = "one" if hit_count == 1 else "ones"
    words = [f"{topic}:{','.join(numbers)}" for topic, numbers in stalled_numbers.items()]
    return (
        f"moves {per_group.total()} partitions, {stalled_ones}: skips {what} in {good_count} of them.",
        f"Only the stalled {only}: --topic {' --topic '.join(words)}",
    )


def unusual_commits(rows: Sequence[ChangeRow], created: Collection[str]) -> tuple[str, ...]:
    """A warning about partitions that get their first commit: ``--topic`` may name a topic by mistake."""
    topics = Counter(
        row.topic for row in rows if row.old is None and row.new and not row.error and row.group not in created
    )
    if not topics:
        return ()
    count = topics.total()
    has = "partition has no commit yet and gets one" if count == 1 else "partitions have no commit yet and get one"
    return (f"{count} {has}: {some_of(sorted(topics))}",)
