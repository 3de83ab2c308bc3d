"""Whether what a row tells was true when it was looked at: by what its members did, whatever kgroup says of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.situations.programs.logs import Place, Truth
from tests.situations.row import Program, Row

TRIES_AGAIN: Final = frozenset({"seek", "seek+commit", "abort"})
ENDS: Final = frozenset({"kill9", "close-exit", "throw"})
PUTS_ASIDE: Final = ("none", "dlq", "retry", "slow")
ENDING_S: Final = 15.0
"""How long a member may take to end: it closes, and its last records are processed."""
FETCHED_S: Final = 60.0
"""How long a client may read what it has fetched of one partition, before it goes on with another."""
ON_THE_WAY: Final = 5
"""Records that are unread while a group keeps up."""


@dataclass(frozen=True, slots=True)
class Body:
    """A member's process at a look."""

    name: str
    program: Program
    lives: bool
    started: bool  # with the row, or by an action
    ended_s: float | None  # how long ago an action ended it for good; None: no action did


@dataclass(frozen=True, slots=True)
class Seen:
    """What a stage knows at a look, and since when it is judged: the last look, or the beginning."""

    bodies: Sequence[Body]
    truths: Mapping[str, Truth]  # by the row's name of the group
    poison: Mapping[str, tuple[int, ...]]  # offsets by place, of places that were poisoned by now
    unread: Mapping[tuple[str, str], int]  # by group and place: at the last look, and still fed now
    places: Mapping[str, Place]  # as the broker knows them
    begun_ms: int
    since_ms: int
    now_ms: int


def why_not(row: Row, seen: Seen) -> str:
    """What is not as the row says; "" if all is."""
    checks = (
        _as_alive_as_it_should(seen),
        _tried(row, seen),
        _goes_on(row, seen),
        _works(row, seen),
        _reads(row, seen),
    )
    return next((why for check in checks for why in check), "")


def _as_alive_as_it_should(seen: Seen) -> Iterator[str]:
    for body in seen.bodies:
        program = body.program
        if body.lives and body.ended_s is not None and body.ended_s > ENDING_S:
            yield f"{body.name} was ended, and lives"
        by_itself = program.life or program.bad.partition(":")[0] in ENDS or program.restart_s is not None
        if body.started and not body.lives and body.ended_s is None and not by_itself:
            yield f"{body.name} ended, and the row does not say so"


def _tried(row: Row, seen: Seen) -> Iterator[str]:
    """Each application that reads a poison failed at it; and again since the last look, if it tries again."""
    for place, offsets in seen.poison.items():
        if not offsets:
            yield f"no poison was written to {place}"
            continue
        for program in _readers(row, place):
            way = program.bad.partition(":")[0]
            if way in PUTS_ASIDE or program.waits or _writes_no_log(row):
                continue
            lost = way == "throw" and program.commit == "auto"  # Java commits what it has polled when it is closed
            again = way in TRIES_AGAIN or (way in ENDS and program.restart_s is not None and not lost)
            since, since_ms = ("last look", seen.since_ms) if again else ("beginning", seen.begun_ms)
            if not seen.truths[program.group].was_tried(seen.places[place], offsets[0], since_ms):
                yield f"{place} {offsets[0]} was not tried by {program.name} since the {since}"


def _goes_on(row: Row, seen: Seen) -> Iterator[str]:
    """A healthy group that lives has read on where records were unread at the last look.

    Within a minute any place will do.
    """
    if not row.healthy or _writes_no_log(row):
        return
    read = {group: truth.processed_since(seen.since_ms) for group, truth in seen.truths.items()}
    soon = seen.now_ms - seen.since_ms < 1000 * FETCHED_S
    for (group, place), unread in seen.unread.items():
        lives = any(body.lives and body.program.group == group for body in seen.bodies)
        went_on = read[group] if soon else read[group].get(seen.places[place])
        if lives and unread > ON_THE_WAY and not went_on:
            yield f"{group} read nothing of {place} since the last look, when {unread} records were unread"


def _works(row: Row, seen: Seen) -> Iterator[str]:
    """Where nothing happens to members they process records, rightly or wrongly; between two bursts there is none."""
    between = row.feed.burst and not any(seen.unread.values())
    if row.begin or between or _writes_no_log(row) or any(program.life for program in row.programs):
        return
    for group, truth in seen.truths.items():
        if not truth.processed_since(seen.since_ms) and any(of == group for of, _ in seen.unread):
            yield f"{group} processed nothing since the last look"


def _reads(row: Row, seen: Seen) -> Iterator[str]:
    """Where a row says that its members read, one of them did since the last look."""
    read = {place for truth in seen.truths.values() for place in truth.processed_since(seen.since_ms)}
    for place in row.reads:
        if seen.places[place] not in read:
            yield f"no member read {place} since the last look"


def _writes_no_log(row: Row) -> bool:
    """A connector does not; where its group stands is held against the row all the same."""
    return any(program.client == "connect" for program in row.programs)


def _readers(row: Row, place: str) -> Iterable[Program]:
    return (program for program in row.programs if place.rpartition(":")[0] in program.topics)
