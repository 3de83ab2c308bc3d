"""The input of a decision about a plan, and the steps that a decision can result in. Pure values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kgroup.groups.catchup.model import ExplainedRange, PlanSnapshot, PlanState, StateRecord
from kgroup.groups.catchup.release_evidence import OffsetRewind, ReleaseEvidence
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import PartitionValue, TopicPartition
from kgroup.support.errors import NotFound, Refused


class Situation(msgspec.Struct, frozen=True):
    """What the runner of ``epoch`` knows when it decides.

    Its epoch is written, the ledger is read, and kgroup has exclusive membership of the group if that was possible. In
    a preview, ``epoch`` is 0 and nothing is written. ``evidence``, ``committed`` and ``live`` (members other than
    kgroup's own) describe the group; they are empty and False if the plan moves no group. ``set_back`` are partitions
    that another client committed below their end since the release. ``log_starts`` are log start offsets: no offset is
    moved below them. A missing partition is not checked.
    """

    ledgered: PlanSnapshot
    epoch: int
    evidence: Mapping[TopicPartition, ReleaseEvidence] = msgspec.field(default_factory=dict)
    committed: Mapping[TopicPartition, Commit | None] = msgspec.field(default_factory=dict)
    live: bool = False
    set_back: tuple[OffsetRewind, ...] = ()
    log_starts: Mapping[TopicPartition, int] = msgspec.field(default_factory=dict)


class OffsetMove(PartitionValue, msgspec.Struct, frozen=True):
    """The commits for one partition.

    ``old_commit`` is the commit that was read before. If another one is committed once kgroup has exclusive membership,
    the attempt ends. ``commits`` are written one after the other, each after the previous one is acknowledged. A move
    back first commits the offset with kgroup's tag, which is the evidence, and then with the group's own metadata.
    """

    topic: str
    partition: int
    old_commit: Commit | None
    commits: tuple[Commit, ...]

    @property
    def offset(self) -> int:
        """The committed offset after the move."""
        return self.commits[-1].offset


class Release(msgspec.Struct, frozen=True):
    """Write ``releasing``, commit ``moves``, read them back, write ``released``.

    ``log_position`` is written with ``releasing``. It is the position that was noted first, because the evidence of an
    interrupted release is after that position. None: note it now.
    """

    moves: tuple[OffsetMove, ...]
    log_position: int | None


class WriteReleased(msgspec.Struct, frozen=True):
    """Everything is released already, or no group is moved: write ``released`` and continue."""


class Replay(msgspec.Struct, frozen=True):
    """Read and deliver these chunks (by number); empty: all is delivered, so verify it and write ``done``."""

    chunks: tuple[int, ...]


class MoveBack(msgspec.Struct, frozen=True):
    """Write ``cancelling`` (if ``write``), commit ``moves``, read them back, write ``cancelled``."""

    moves: tuple[OffsetMove, ...]
    reprocessed: tuple[ExplainedRange, ...] = ()
    write: bool = True


class Close(msgspec.Struct, frozen=True):
    """Write ``cancelled`` with this note.

    Before that, commit ``restores``: partitions that are moved back, but without the group's own metadata yet.
    ``refused``: the command did not do what the user asked for, and exits 6. ``abandoned`` will not be delivered.
    """

    note: str
    abandoned: tuple[ExplainedRange, ...] = ()
    restores: tuple[OffsetMove, ...] = ()
    refused: Refused | None = None


class Refuse(msgspec.Struct, frozen=True):
    """Change nothing; ``error`` is why."""

    error: Refused | NotFound


class AlreadyDone(msgspec.Struct, frozen=True):
    """It was done already: a repeated command exits 0."""

    why: str


Decision = Release | WriteReleased | Replay | MoveBack | Close | Refuse | AlreadyDone


def next_state(
    before: StateRecord | None,
    state: PlanState,
    *,
    at_ms: int,
    who: str,
    epoch: int,
    log_position: int | None = None,
    moving: MoveBack | None = None,
    note: str | None = None,
) -> StateRecord:
    """The state record after ``before``; the first ``log_position`` is kept, as evidence is searched from there."""
    kept = None if before is None else before.log_position
    targets, expected = (() if before is None else before.targets), (() if before is None else before.expected)
    if moving is not None:
        targets = tuple((*move.tp, move.offset) for move in moving.moves)
        expected = tuple(
            (*move.tp, None if move.old_commit is None else move.old_commit.offset) for move in moving.moves
        )
    return StateRecord(state, at_ms, who, epoch, log_position if kept is None else kept, targets, expected, note)
