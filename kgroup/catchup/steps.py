"""What a decision about a plan is made from, and the steps that it can come to. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kgroup.catchup.model import Abandoned, Place, PlanSnapshot, PlanState, StateRecord
from kgroup.catchup.release_evidence import OffsetRewind, ReleaseEvidence
from kgroup.model.groups import Commit
from kgroup.support.errors import NotFound, Refused


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when the runner of ``epoch`` decides: its epoch is written, the ledger read, the group held.

    ``evidence``, ``committed`` and ``live`` (members other than kgroup's own) are of the group, and empty and False
    where the plan moves none. ``pending`` is whether open transactions of others hide a part of the ledger still.
    ``set_back`` are partitions that somebody set below their end since the release. ``log_starts`` are log start
    offsets: nothing is moved below one; what is not in it is not looked at.
    """

    ledgered: PlanSnapshot
    epoch: int
    evidence: Mapping[Place, ReleaseEvidence] = field(default_factory=dict)
    committed: Mapping[Place, Commit | None] = field(default_factory=dict)
    live: bool = False
    pending: bool = False
    set_back: tuple[OffsetRewind, ...] = ()
    log_starts: Mapping[Place, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """What is committed for one partition.

    ``stands`` is what was read there; where something else stands when the group is held, the attempt ends. ``commits``
    are written one after the other, each when the one before is acknowledged: a move back commits the offset with
    kgroup's mark first, which is the evidence, and then with the group's own metadata again.
    """

    topic: str
    partition: int
    stands: Commit | None
    commits: tuple[Commit, ...]

    @property
    def place(self) -> Place:
        """(topic, partition)"""
        return self.topic, self.partition

    @property
    def offset(self) -> int:
        """Where the partition stands afterwards."""
        return self.commits[-1].offset


@dataclass(frozen=True, slots=True)
class Reprocessed:
    """Offsets [start, end) that come to the group though they, or some of them, were handled already, and by whom."""

    topic: str
    partition: int
    start: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class Release:
    """Write ``releasing``, commit these, read them back, write ``released``.

    ``log_position`` is what ``releasing`` has to say: the position that was noted first, since evidence of a release
    that broke off lies behind that one; None: note it now.
    """

    moves: tuple[OffsetMove, ...]
    log_position: int | None


@dataclass(frozen=True, slots=True)
class WriteReleased:
    """All was released already, or no group is moved: write ``released``, and go on."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Read and deliver these chunks (by number); none: all is delivered, so prove it and write ``done``."""

    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MoveBack:
    """Write ``cancelling`` (where ``write``), commit these, read them back, write ``cancelled``."""

    moves: tuple[OffsetMove, ...]
    twice: tuple[Reprocessed, ...] = ()
    write: bool = True


@dataclass(frozen=True, slots=True)
class Close:
    """Write ``cancelled`` with this note; before it, commit ``restores``: moved back, but not yet as they were.

    ``refused``: the command did not do what it was asked to, and exits 6. ``given_up`` is left to nobody.
    """

    note: str
    given_up: tuple[Abandoned, ...] = ()
    restores: tuple[OffsetMove, ...] = ()
    refused: Refused | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Change nothing: this is why."""

    error: Refused | NotFound


@dataclass(frozen=True, slots=True)
class Wait:
    """Read the ledger again: what is decided now may be wrong."""

    why: str


@dataclass(frozen=True, slots=True)
class Nothing:
    """It has been done already: a script that asks again gets exit 0."""

    why: str


Decision = Release | WriteReleased | Replay | MoveBack | Close | Refuse | Wait | Nothing


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
    """The state record that follows ``before``: the noted position is kept, as it tells what is evidence to the end."""
    kept = None if before is None else before.log_position
    targets, expected = (() if before is None else before.targets), (() if before is None else before.expected)
    if moving is not None:
        targets = tuple((*move.place, move.offset) for move in moving.moves)
        expected = tuple((*move.place, None if move.stands is None else move.stands.offset) for move in moving.moves)
    return StateRecord(state, at_ms, who, epoch, log_position if kept is None else kept, targets, expected, note)
