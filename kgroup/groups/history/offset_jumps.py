"""The commits of a group over time: rates, jumps back and forward, who made them, and beside which rebalance. Pure.

A commit does not say who made it. While the group has members it is put down to the one that held the partition, which
is nearly a proof, as the coordinator refuses plain commits of anybody else. A plain commit to an Empty group is an
administrative reset, or a consumer with ``assign()``: the latter commits again and again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from kgroup.groups.history.model import HistoryStep, StepKind
from kgroup.groups.history.track import Made
from kgroup.model.group_log import CommitWritten, TopicPartition, TransactionEnd

SLICES = 12
_ONE_REQUEST_MS = 1_000
_AGAIN_AND_AGAIN = 3
_TIMES_FASTER = 10
_SMALLEST_JUMP = 1_000
_GAPS_TO_COMPARE = 4
_BESIDE_MS = 60_000


class CommitMove(StrEnum):
    """What a commit did that is not ordinary progress. DELETED: the offset is gone, deleted or expired."""

    BACK = "back"
    FORWARD = "forward"
    RESET = "reset"
    DELETED = "deleted"


class CommitAuthor(StrEnum):
    """Who made a commit: the member that held the partition; ADMIN: nobody was a member; OUTSIDER: the same, again and
    again; TRANSACTION: a producer, of nobody that held the partition; KGROUP: its metadata says so; DELETION: the
    offsets went with their group."""

    MEMBER = "member"
    ADMIN = "admin"
    OUTSIDER = "outsider"
    TRANSACTION = "transaction"
    KGROUP = "kgroup"
    DELETION = "deletion"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OffsetJump:
    """Commits of one moment, by one author, that moved offsets out of turn.

    ``who`` is a member's name, a producer id or what kgroup's mark says, None where there is nothing to name. ``moved``
    is the sum of new - old over the partitions whose old offset is known, None where none is. ``step`` is the
    generation or epoch it happened in, ``empty_since_ms`` is set where the group was Empty then; ``beside_ms`` is how
    long after (or, negative, before) the nearest rebalance it was, None where none is within a minute.
    ``changes`` are (topic, partition, old, new).
    """

    at_ms: int
    log_offset: int
    move: CommitMove
    by: CommitAuthor
    who: str | None
    moved: int | None
    step: int | None
    empty_since_ms: int | None
    beside_ms: int | None
    changes: tuple[tuple[str, int, int | None, int | None], ...]


@dataclass(frozen=True, slots=True)
class CommitTrend:
    """The commits of one partition. ``rate``: records a second over all of it, jumps left out; None below two commits.

    ``rates`` are those of equal slices of the span that was asked for, None where nothing is known of a slice.
    ``repeated`` is how many commits in a row, up to the newest, had the same offset (1: none again).
    """

    topic: str
    partition: int
    commits: int
    first_ms: int
    last_ms: int
    first: int | None
    last: int | None
    rate: float | None
    rates: tuple[float | None, ...]
    back: int
    forward: int
    repeated: int


@dataclass(frozen=True, slots=True)
class CommitReport:
    """All of it; ``aborted`` and ``open`` count commits of transactions that did not, or have not yet, come true."""

    jumps: tuple[OffsetJump, ...]
    courses: tuple[CommitTrend, ...]
    aborted: int
    open: int


@dataclass(frozen=True, slots=True)
class _Found:
    """A commit out of turn, before those of one moment are put together."""

    commit: CommitWritten
    move: CommitMove
    by: CommitAuthor
    who: str | None
    old: int | None


def commits_of(
    made: Sequence[Made],
    steps: Sequence[HistoryStep],
    since_ms: int,
    until_ms: int,
    mark: Callable[[str], str | None] = lambda metadata: None,
) -> CommitReport:
    """The commits of a span of time; earlier ones are needed to see the first jump in it.

    ``mark`` reads kgroup's own mark out of a commit's metadata: what it is called, None where it is not kgroup's.
    """
    context = _Context(steps, mark)
    standing = [one for one in made if one.commit.ending in (TransactionEnd.PLAIN, TransactionEnd.COMMITTED)]
    context.count_outsiders(standing)
    by_place: dict[TopicPartition, list[Made]] = {}
    for one in standing:
        by_place.setdefault((one.commit.topic, one.commit.partition), []).append(one)
    jumps: list[_Found] = []
    courses = []
    for _, own in sorted(by_place.items()):
        out_of_turn = {found.commit.log_offset: found for found in _out_of_turn(own, context)}
        jumps += [found for found in out_of_turn.values() if since_ms <= found.commit.at_ms <= until_ms]
        if (course := _course(own, out_of_turn, since_ms, until_ms)) is not None:
            courses.append(course)
    inside = [one.commit.ending for one in made if since_ms <= one.commit.at_ms <= until_ms]
    return CommitReport(
        tuple(_together(jumps, context)),
        tuple(courses),
        inside.count(TransactionEnd.ABORTED),
        inside.count(TransactionEnd.OPEN),
    )


class _Context:
    """The steps beside which commits happened."""

    def __init__(self, steps: Sequence[HistoryStep], mark: Callable[[str], str | None]) -> None:
        self._steps = steps
        self._offsets = [step.log_offset for step in steps]
        self._mark = mark
        self._outside: dict[tuple[int, TopicPartition], int] = {}
        self._deletions_ms = [step.at_ms for step in steps if step.kind is StepKind.DELETED]

    def index_of(self, log_offset: int) -> int:
        """The step that was current there; -1 before the first."""
        return bisect_right(self._offsets, log_offset) - 1

    def step_of(self, log_offset: int) -> HistoryStep | None:
        """The step that was current there, None before the first."""
        index = self.index_of(log_offset)
        return self._steps[index] if index >= 0 else None

    def count_outsiders(self, made: Iterable[Made]) -> None:
        """How often each partition was committed in each time that the group was Empty."""
        for one in made:
            index = self.index_of(one.commit.log_offset)
            if index >= 0 and not self._steps[index].members and one.commit.offset is not None:
                key = index, (one.commit.topic, one.commit.partition)
                self._outside[key] = self._outside.get(key, 0) + 1

    def author(self, one: Made) -> tuple[CommitAuthor, str | None]:
        """Who made the commit."""
        commit = one.commit
        if (mark := self._mark(commit.metadata)) is not None:
            return CommitAuthor.KGROUP, mark
        if one.owner is not None:
            return CommitAuthor.MEMBER, one.owner
        if commit.producer_id is not None:
            return CommitAuthor.TRANSACTION, str(commit.producer_id)
        index = self.index_of(commit.log_offset)
        if index < 0 or self._steps[index].kind is not StepKind.EMPTY:
            return CommitAuthor.UNKNOWN, None
        again = self._outside.get((index, (commit.topic, commit.partition)), 0)
        return (CommitAuthor.OUTSIDER if again >= _AGAIN_AND_AGAIN else CommitAuthor.ADMIN), None

    def forgetter(self, one: Made) -> CommitAuthor:
        """Who deleted an offset, as far as that can be told."""
        if any(abs(one.commit.at_ms - at_ms) <= _ONE_REQUEST_MS for at_ms in self._deletions_ms):
            return CommitAuthor.DELETION
        return CommitAuthor.MEMBER if self.author(one)[0] is CommitAuthor.MEMBER else CommitAuthor.UNKNOWN

    def beside(self, at_ms: int, log_offset: int) -> int | None:
        """Time since the rebalance before it, or, negative, until the one behind it; None: none within a minute."""
        index = self.index_of(log_offset)
        near = [
            at_ms - step.at_ms
            for step in self._steps[max(0, index) : index + 2]
            if step.kind is StepKind.REBALANCE and abs(at_ms - step.at_ms) <= _BESIDE_MS
        ]
        return min(near, key=abs, default=None)


def _out_of_turn(own: Sequence[Made], context: _Context) -> Iterator[_Found]:
    """The commits of one partition that are no ordinary progress."""
    limit = _fastest(own)
    before: CommitWritten | None = None
    for one in own:
        commit = one.commit
        by, who = context.author(one)
        old = None if before is None or before.offset is None else before.offset
        if commit.offset is None:
            if before is not None and before.offset is not None:
                yield _Found(commit, CommitMove.DELETED, context.forgetter(one), None, old)
        elif by in (CommitAuthor.ADMIN, CommitAuthor.KGROUP):
            yield _Found(commit, CommitMove.RESET, by, who, old)
        elif before is not None and old is not None:
            if commit.offset < old:
                yield _Found(commit, CommitMove.BACK, by, who, old)
            elif limit is not None and _is_leap(commit.offset - old, commit.at_ms - before.at_ms, limit):
                yield _Found(commit, CommitMove.FORWARD, by, who, old)
        before = commit


def _fastest(own: Sequence[Made]) -> tuple[float, float] | None:
    """The highest and the second highest rate between two commits, in records a millisecond; None below four gaps."""
    rates = sorted(
        (later.commit.offset - earlier.commit.offset) / max(1, later.commit.at_ms - earlier.commit.at_ms)
        for earlier, later in pairwise(own)
        if earlier.commit.offset is not None
        and later.commit.offset is not None
        and later.commit.offset >= earlier.commit.offset
    )
    return (rates[-1], rates[-2]) if len(rates) >= _GAPS_TO_COMPARE else None


def _is_leap(records: int, elapsed_ms: int, limit: tuple[float, float]) -> bool:
    """Whether it was ten times as fast as any other progress of this partition, and 1,000 records at least."""
    rate = records / max(1, elapsed_ms)
    fastest, second = limit
    return records >= _SMALLEST_JUMP and rate >= fastest and rate > _TIMES_FASTER * second


def _course(own: Sequence[Made], out_of_turn: Mapping[int, _Found], since_ms: int, until_ms: int) -> CommitTrend | None:
    inside = [one.commit for one in own if since_ms <= one.commit.at_ms <= until_ms]
    if not inside:
        return None
    width_ms = max(1.0, (until_ms - since_ms) / SLICES)
    progress = [0] * SLICES
    known = [False] * SLICES
    total = elapsed_ms = 0
    before: CommitWritten | None = None
    for commit in (one.commit for one in own if one.commit.at_ms <= until_ms):
        if before is not None and before.offset is not None and commit.offset is not None and commit.at_ms >= since_ms:
            index = min(SLICES - 1, int((commit.at_ms - since_ms) / width_ms))
            known[index] = True
            if commit.log_offset not in out_of_turn:
                progress[index] += commit.offset - before.offset
                if before.at_ms >= since_ms:
                    total += commit.offset - before.offset
                    elapsed_ms += max(0, commit.at_ms - before.at_ms)
        before = commit
    moves = [out_of_turn[commit.log_offset].move for commit in inside if commit.log_offset in out_of_turn]
    offsets = [commit.offset for commit in inside]
    return CommitTrend(
        inside[0].topic,
        inside[0].partition,
        len(inside),
        inside[0].at_ms,
        inside[-1].at_ms,
        offsets[0],
        offsets[-1],
        total * 1000 / elapsed_ms if elapsed_ms > 0 else None,
        tuple(amount * 1000 / width_ms if told else None for amount, told in zip(progress, known, strict=True)),
        moves.count(CommitMove.BACK),
        moves.count(CommitMove.FORWARD),
        _repeated(offsets),
    )


def _repeated(offsets: Sequence[int | None]) -> int:
    count = 0
    for offset in reversed(offsets):
        if offset != offsets[-1]:
            break
        count += 1
    return count


def _together(found: Iterable[_Found], context: _Context) -> Iterator[OffsetJump]:
    """Those of one request as one: the same author and kind within a second."""
    gathered: list[list[_Found]] = []
    newest: dict[tuple[CommitMove, CommitAuthor, str | None], list[_Found]] = {}
    for one in sorted(found, key=lambda one: one.commit.log_offset):
        key = one.move, one.by, one.who
        batch = newest.get(key)
        if batch is None or not 0 <= one.commit.at_ms - batch[0].commit.at_ms <= _ONE_REQUEST_MS:
            batch = newest[key] = []
            gathered.append(batch)
        batch.append(one)
    for batch in gathered:
        yield _jump(batch, context)


def _jump(batch: Sequence[_Found], context: _Context) -> OffsetJump:
    first = batch[0]
    at_ms, log_offset = first.commit.at_ms, first.commit.log_offset
    step = context.step_of(log_offset)
    moved = [one.commit.offset - one.old for one in batch if one.commit.offset is not None and one.old is not None]
    return OffsetJump(
        at_ms,
        log_offset,
        first.move,
        first.by,
        first.who,
        sum(moved) if moved else None,
        None if step is None else step.number,
        step.at_ms if step is not None and step.kind is StepKind.EMPTY else None,
        context.beside(at_ms, log_offset),
        tuple((one.commit.topic, one.commit.partition, one.old, one.commit.offset) for one in batch),
    )
