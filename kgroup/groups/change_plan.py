"""A plan to change committed offsets: a row a partition, old and new, and what that means for its records. Pure.

The plan that is shown is the one that is applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kgroup.model.groups import Commit, Group, LogRange, RowError
from kgroup.model.records import OffsetRange

TopicPartition = tuple[str, int]
_NAMED = 3


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One partition's commit before and after; ``new`` None is no commit (or, with ``error``, no change).

    ``partition`` is None where a whole topic is not there, which is an error. ``clamped`` is why the offset is
    another than was asked for. ``done`` is None before it was tried; ``read_back`` is what stood there afterwards,
    None for no commit, and where that was not read: ``unread`` then.
    """

    group: str
    topic: str
    partition: int | None
    old: Commit | None
    new: Commit | None
    log: LogRange | None = None
    clamped: str | None = None
    note: str | None = None
    error: RowError | None = None
    done: bool | None = None
    read_back: Commit | None = None
    unread: bool = False

    @property
    def place(self) -> TopicPartition:
        """(topic, partition) of a row that has one."""
        assert self.partition is not None
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """``orders:7``, as the flags take it."""
        return self.topic if self.partition is None else f"{self.topic}:{self.partition}"

    @property
    def proved(self) -> bool:
        """Whether what was to stand there was found there afterwards."""
        return bool(self.done) and not self.unread and self.read_back == self.new

    @property
    def skipped(self) -> int | None:
        """Offsets that the group would have read and now will not; None where old or new is no commit.

        What lies below the log start is gone anyway: old 5, log [100, 120), new 110 skips 10.
        """
        if self.old is None or self.new is None:
            return None
        begin = max(self.old.offset, self.log.start) if self.log else self.old.offset
        return max(0, self.new.offset - begin)

    @property
    def repeated(self) -> int | None:
        """Offsets that the group has committed and will read again; None where old or new is no commit."""
        if self.old is None or self.new is None:
            return None
        end = min(self.old.offset, self.log.end) if self.log else self.old.offset
        return max(0, end - self.new.offset)

    @property
    def gone(self) -> int | None:
        """Offsets from the old commit on that the log holds no more; None where that is not known."""
        if self.old is None or self.log is None:
            return None
        return max(0, self.log.start - self.old.offset, self.old.offset - self.log.end)

    @property
    def changes(self) -> bool:
        """Whether the commit is another one afterwards; what is written again as it is keeps it from expiring."""
        return self.old != self.new

    def ended(self, read_back: Commit | None, *, unread: bool = False) -> ChangeRow:
        """The same, done. Spelled out: ``replace`` takes ten times as long, and there may be 10,000 rows."""
        return ChangeRow(
            self.group,
            self.topic,
            self.partition,
            self.old,
            self.new,
            self.log,
            self.clamped,
            self.note,
            None,
            done=True,
            read_back=read_back,
            unread=unread,
        )

    def failing(self, error: RowError) -> ChangeRow:
        """The same, but it can't be done."""
        return replace(self, error=replace(error, group=self.group, topic=self.topic, partition=self.partition))

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "group": self.group,
            "topic": self.topic,
            "partition": self.partition,
            "old": self.old.offset if self.old else None,
            "new": self.new.offset if self.new else None,
            "skipped": None if self.error else self.skipped,
            "repeated": None if self.error else self.repeated,
            "clamped": self.clamped,
            "note": self.note,
            "log_start": self.log.start if self.log else None,
            "log_end": self.log.end if self.log else None,
            "old_leader_epoch": self.old.leader_epoch if self.old else None,
            "new_leader_epoch": self.new.leader_epoch if self.new else None,
            "done": self.done,
            "read_back": self.read_back.offset if self.read_back else None,
            "error": self.error.code if self.error else None,
        }


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """What a verb is going to do.

    ``groups`` are those that were read, as they are now; ``created`` and ``deleted`` the names of those that
    come into being and go, with all their offsets. ``converted`` are those that change their type, with the new
    one, after their rows are done; ``configs`` are dynamic configs of groups that are to be set, None deletes one.
    ``errors`` are failures that are no row's. ``unusual`` is what a person ought to look at twice.
    """

    groups: tuple[Group, ...]
    rows: tuple[ChangeRow, ...]
    created: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    errors: tuple[RowError, ...] = ()
    unusual: tuple[str, ...] = ()
    converted: Mapping[str, str] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)

    @property
    def whole(self) -> frozenset[str]:
        """The groups that are changed as a whole: deleted, converted or configured, each a row of its own."""
        return self.deleted | self.converted.keys() | self.configs.keys()

    @property
    def only_configured(self) -> frozenset[str]:
        """The groups nothing of which changes but their configs: that works on live ones too."""
        return frozenset(self.configs.keys() - self.converted.keys() - self.deleted)

    @property
    def size(self) -> int:
        """How many rows it has; groups that are changed whole count as one."""
        whole = self.whole
        return len(whole) + sum(row.group not in whole for row in self.rows)

    @property
    def concerned(self) -> tuple[str, ...]:
        """The groups that it changes, each once."""
        return tuple(dict.fromkeys((*(row.group for row in self.rows), *sorted(self.whole))))

    def without(self, groups: Collection[str]) -> ChangePlan:
        """What of it nothing stands in the way of: neither a row's own error nor those of these groups."""
        rows = tuple(row for row in self.rows if row.error is None and row.group not in groups)
        converted = {name: kind for name, kind in self.converted.items() if name not in groups}
        configs = {name: own for name, own in self.configs.items() if name not in groups}
        return replace(self, rows=rows, deleted=self.deleted - frozenset(groups), converted=converted, configs=configs)

    def with_rows(self, rows: Iterable[ChangeRow]) -> ChangePlan:
        """The same plan with other rows."""
        return replace(self, rows=tuple(rows))

    def by_group(self) -> dict[str, list[ChangeRow]]:
        """The rows of each group."""
        found: dict[str, list[ChangeRow]] = {}
        for row in self.rows:
            found.setdefault(row.group, []).append(row)
        return found

    @property
    def skipped_ranges(self) -> list[OffsetRange]:
        """The offsets that it skips and that can still be read."""
        return [
            OffsetRange(*row.place, row.new.offset - row.skipped, row.new.offset)
            for row in self.rows
            if row.new and row.skipped and not row.error
        ]

    @property
    def moves(self) -> tuple[int, int]:
        """(offsets that all rows together skip, and read again)."""
        rows = [row for row in self.rows if not row.error]
        return sum(row.skipped or 0 for row in rows), sum(row.repeated or 0 for row in rows)


def committed(group: Group) -> dict[TopicPartition, Commit]:
    """What a group has committed, by (topic, partition)."""
    return {
        (partition.topic, partition.partition): partition.commit for partition in group.partitions if partition.commit
    }


def stalled(group: Group, logs: Mapping[TopicPartition, LogRange]) -> set[TopicPartition]:
    """The partitions that have unread records while most of the group's have none; empty where most have some.

    That is what a poison pill looks like from outside, and all that the committed offsets alone can tell.
    """
    behind, known = set(), 0
    for place, commit in committed(group).items():
        if log := logs.get(place):
            known += 1
            if log.end > max(commit.offset, log.start):
                behind.add(place)
    return behind if 0 < 2 * len(behind) <= known else set()


def unusual_shift(rows: Sequence[ChangeRow], stuck: Collection[tuple[str, str, int]]) -> tuple[str, ...]:
    """What a person who meant one poison pill would want to know: good records of other partitions are skipped."""
    moved = [row for row in rows if not row.error and row.changes]
    hit = [row for row in moved if (row.group, *row.place) in stuck]
    good = [row for row in moved if row.skipped and (row.group, *row.place) not in stuck]
    per_group = Counter(row.group for row in moved)
    if not good or max(per_group.values()) < 2 or (len(good) < 2 and not hit):
        return ()
    single = all(row.skipped == 1 for row in good)
    if not hit:
        what = "a record" if single else "records"
        return (f"skips {what} in each of {len(good)} partitions. One alone: --topic {good[0].name}",)
    stalled_ones = f"{len(hit)} is stalled" if len(hit) == 1 else f"{len(hit)} are stalled"
    what = "one good record" if single else "good records"
    only = "one" if len(hit) == 1 else "ones"
    return (
        f"moves {len(moved)} partitions, {stalled_ones}: skips {what} in {len(good)} of them.",
        f"Only the stalled {only}: --topic {' --topic '.join(_places(hit))}",
    )


def unusual_commits(rows: Iterable[ChangeRow], created: Collection[str]) -> tuple[str, ...]:
    """Partitions that get a first commit: what a topic that was put on many groups by mistake looks like."""
    new = [row for row in rows if row.old is None and row.new and not row.error and row.group not in created]
    if not new:
        return ()
    has = "partition has no commit yet and gets one" if len(new) == 1 else "partitions have no commit yet and get one"
    topics = sorted({row.topic for row in new})
    more = f" and {len(topics) - _NAMED} more" if len(topics) > _NAMED else ""
    return (f"{len(new)} {has}: {', '.join(topics[:_NAMED])}{more}",)


def _places(rows: Iterable[ChangeRow]) -> list[str]:
    """``orders:0,3``, a word a topic, as --topic takes it."""
    by_topic: dict[str, list[str]] = {}
    for row in rows:
        numbers = by_topic.setdefault(row.topic, [])
        if str(row.partition) not in numbers:
            numbers.append(str(row.partition))
    return [f"{topic}:{','.join(numbers)}" for topic, numbers in by_topic.items()]
