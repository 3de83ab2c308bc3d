"""Whether a partition was released: what the group's commit records say after a crash. Pure.

That the committed offset equals the end proves nothing, since the group may have got there by itself; so kgroup's own
commits carry a mark, and the last one of the plan decides (DESIGN.md 4.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kgroup.catchup.model import Abandoned, CatchupPlan, GapRange, Place
from kgroup.groups.commit_tags import CatchupCommitTag, TagPurpose
from kgroup.model.groups import Commit


class ReleaseEvidence(StrEnum):
    """What became of a partition's release."""

    RELEASED = "released"
    """The plan's last own commit is a release."""
    NOT_RELEASED = "not-released"
    """There is none, or a move-back, and the commit stands as it did before."""
    WENT_ON = "went-on"
    """There is none, or a move-back, and the group went on, or is about to, by itself."""
    DELETED = "deleted"
    """There is none, or a move-back, and the commit that stood before is gone: where the group goes on is not known."""
    UNKNOWN = "unknown"
    """The history could not be read, or is compacted so far that it does not tell."""


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """A commit record of the group in ``__consumer_offsets``; committed, or not transactional.

    ``offset`` is None where it is a tombstone: the commit was deleted, or has expired. ``log_offset`` is where the
    record stands in its partition of the topic, ``timestamp_ms`` the broker's clock.
    """

    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None
    metadata: str
    timestamp_ms: int
    log_offset: int

    @property
    def place(self) -> Place:
        """(topic, partition)"""
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class ReleaseHistory:
    """The group's commit records from a noted position to the end of the log at this moment, in the log's order.

    ``compacted`` is whether offsets are missing in between: older commits of a partition may be gone then, the newest
    one of each is always there. ``unread`` is why it could not be read to its end; None: it was.
    """

    commits: tuple[GroupCommit, ...]
    compacted: bool = False
    unread: str | None = None

    def by_place(self) -> dict[Place, list[GroupCommit]]:
        """The commits of each partition, in the log's order."""
        found: dict[Place, list[GroupCommit]] = {}
        for commit in self.commits:
            found.setdefault(commit.place, []).append(commit)
        return found


def find_evidence(
    plan: CatchupPlan,
    history: ReleaseHistory,
    committed: Mapping[Place, Commit | None],
    *,
    live: bool,
    assumed: Mapping[Place, bool] | None = None,
) -> dict[Place, ReleaseEvidence]:
    """What became of each partition of the plan.

    ``history`` is read from the position that was noted in ``releasing``; ``committed`` is what stands now, read after
    it while nobody but kgroup can commit, else what is found may be overtaken. ``live`` is whether the group has
    members other than kgroup's own. ``assumed`` is what the user says (``--assume``: True is released) of partitions
    of which the history does not tell; of others it counts for nothing.
    """
    by_place = history.by_place()
    found: dict[Place, ReleaseEvidence] = {}
    for item in plan.ranges:
        now = committed.get(item.place)
        released = _was_released(plan.id, item, history, by_place.get(item.place, ()), now)
        if released is None and assumed is not None:
            released = assumed.get(item.place)
        if released is None:
            found[item.place] = ReleaseEvidence.UNKNOWN
        elif released:
            found[item.place] = ReleaseEvidence.RELEASED
        elif now is None and item.before is not None:
            # Whoever comes begins where its auto.offset.reset says, which may be behind the gap.
            found[item.place] = ReleaseEvidence.DELETED
        else:
            by_itself = live or not _stands_as_before(item, now)
            found[item.place] = ReleaseEvidence.WENT_ON if by_itself else ReleaseEvidence.NOT_RELEASED
    return found


def _was_released(
    plan_id: str, item: GapRange, history: ReleaseHistory, commits: Sequence[GroupCommit], now: Commit | None
) -> bool | None:
    """Whether the plan's last own commit of a partition is a release; None where nothing tells."""
    # The commit that stands is the last one of all: where it is our own, no history is needed.
    own = None if now is None else _mark(plan_id, now.metadata)
    if own is None and history.unread is not None:
        return None
    own = own or next((mark for commit in reversed(commits) if (mark := _mark(plan_id, commit.metadata))), None)
    # Compaction leaves the newest record of a partition: where there is none at all, nothing was committed since. But a
    # tombstone goes too, a day later: then what stands is not what stood before.
    if own is None and history.compacted and (commits or not _stands_as_before(item, now)):
        return None
    return own is not None and own.moved is TagPurpose.RELEASE


def _mark(plan_id: str, metadata: str) -> CatchupCommitTag | None:
    mark = CatchupCommitTag.of(metadata)
    return mark if mark is not None and mark.plan_id == plan_id else None


def _stands_as_before(item: GapRange, now: Commit | None) -> bool:
    before = item.before
    return (None if before is None else before.offset) == (None if now is None else now.offset)


@dataclass(frozen=True, slots=True)
class OffsetRewind:
    """Somebody set a released partition back below its end: [start, end) comes to the group, and from the replay too.

    ``at_ms`` is when it first was. ``deleted`` is whether its commit was deleted, or has expired: then it went on from
    wherever its ``auto.offset.reset`` says, and it may be that nothing comes twice.
    """

    topic: str
    partition: int
    start: int
    end: int
    at_ms: int
    deleted: bool = False


def set_back(plan: CatchupPlan, history: ReleaseHistory) -> tuple[OffsetRewind, ...]:
    """The partitions that were committed below their end after the release, or deleted, by anybody but kgroup.

    What was committed before the plan's own release does not count. A history that is compacted, or could not be read
    to its end, may lack some.
    """
    by_place = history.by_place()
    found: list[OffsetRewind] = []
    for item in sorted(plan.ranges, key=lambda one: one.place):
        below = list(_below(plan.id, item, by_place.get(item.place, ())))
        if below:
            deleted = any(commit.offset is None for commit in below)
            lowest = min((commit.offset for commit in below if commit.offset is not None), default=item.start)
            start = item.start if deleted else max(lowest, item.start)
            found.append(OffsetRewind(*item.place, min(start, item.end), item.end, below[0].timestamp_ms, deleted))
    return tuple(row for row in found if row.start < row.end)


def _below(plan_id: str, item: GapRange, commits: Sequence[GroupCommit]) -> Iterator[GroupCommit]:
    released = False
    for commit in commits:
        own = _mark(plan_id, commit.metadata)
        if own is not None:
            released = own.moved is TagPurpose.RELEASE
        elif released and (commit.offset is None or commit.offset < item.end):
            yield commit


def origin(plan: CatchupPlan, item: GapRange) -> int:
    """Where a released partition of which nothing was delivered is put back to: its start, or what was given up below.

    A commit at 70 with [70, 90) given up by ``--skip-before`` and the range [90, 120) goes back to 70; one at 70 whose
    log started at 90 to 90, since a commit below the log start makes clients jump.
    """
    if item.before is None:
        return item.start
    lowest = item.start
    for row in sorted(_given_up(plan, item.place), key=lambda one: -one.end):
        if row.end == lowest and row.start >= item.before.offset:
            lowest = row.start
    return lowest


def _given_up(plan: CatchupPlan, place: Place) -> list[Abandoned]:
    return [row for row in plan.given_up if (row.topic, row.partition) == place]
