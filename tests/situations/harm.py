"""What a command did to groups: what their members processed and where offsets were, before it and after. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tests.situations.programs.logs import Place, Truth

STANDS_MS: Final = 15_000
"""A partition with unread records stands if none was processed for the first time for so long."""


_BY_CHANCE: Final = 2.0
"""How much more of the same kind a group may do by itself, from one time to the next."""


class Outcome(StrEnum):
    """What became of a printed command."""

    READ = "read"  # it answered, and changed nothing
    HELPED = "helped"  # what stood goes on
    USELESS = "useless"  # executed, and nothing is better
    REFUSED = "refused"  # kgroup, which printed it, does not execute it
    HARMED = "harmed"
    NOT_TRIED = "not tried"  # the copy was not as the row says, or printed no such command


@dataclass(frozen=True, slots=True)
class Group:
    """One group at an instant: by its members' own logs, and by plain clients."""

    did: Truth
    committed: Mapping[Place, int]
    in_flight: int = 0  # records that a client commits when they are delivered, and processes afterwards
    members: frozenset[str] = frozenset()  # client ids, as the broker has them
    pids: Mapping[str, int] = field(default_factory=dict)  # of its processes that live, by client id


@dataclass(frozen=True, slots=True)
class Log:
    """A partition at an instant."""

    start: int
    end: int
    poison: frozenset[int] = frozenset()  # nobody can process these: to pass them is no harm
    holes: frozenset[int] = frozenset()  # offsets without a committed record, as far as that was asked


_NO_LOG: Final = Log(0, 0)
"""Of a partition that was not there yet."""


@dataclass(frozen=True, slots=True)
class State:
    """All that a command could reach, at an instant."""

    at_ms: int
    groups: Mapping[str, Group]
    logs: Mapping[Place, Log]
    others: Mapping[Place, int] = field(default_factory=dict)  # commits of a group that nobody runs


@dataclass(frozen=True, slots=True)
class Harm:
    """Something that was broken: `skipped` or `repeated` records of a place, `evicted` a member, `changed` a group."""

    kind: str
    subject: str
    count: int
    words: str

    def __str__(self) -> str:
        return self.words


def harm(before: State, after: State, said_repeated: int = 0) -> list[Harm]:
    """What a command broke; nothing if it did no harm. `said_repeated` is what its plan announced."""
    found = []
    for name, group in after.groups.items():
        earlier = before.groups[name]
        lost = {
            place: skipped(group, place, after.logs[place]) - skipped(earlier, place, before.logs.get(place, _NO_LOG))
            for place in group.committed
        }
        found += [_of_records("skipped", place, offsets) for place, offsets in lost.items() if offsets]
        again = {  # what was not in the log before cannot be repeated: the topic was made again
            place: {one for one in repeated(earlier, group, place) if one < before.logs.get(place, _NO_LOG).end}
            for place in earlier.committed
        }
        if sum(map(len, again.values())) > said_repeated:
            found += [_of_records("repeated", place, offsets) for place, offsets in again.items() if offsets]
        found += [
            Harm("evicted", member, 1, f"evicted {member}, which worked")
            for member in sorted(_evicted(earlier, group, before.at_ms))
        ]
    if before.others != after.others:
        found.append(Harm("changed", "", 1, "changed offsets of another group"))
    return found


def beyond(found: Sequence[Harm], own: Sequence[Harm], times: float = 1.0) -> list[Harm]:
    """What is more than a group breaks by itself, of the same kind at the same place, in `times` the time of `own`."""
    by_itself = {(each.kind, each.subject): each.count for each in own}
    return [each for each in found if each.count > times * _BY_CHANCE * by_itself.get((each.kind, each.subject), 0)]


def useless(before: State, after: State) -> str:
    """Why a command is of no use, in words; "" if what was wrong before is no more."""
    stood = {name: standing(before, name) for name in before.groups}
    still = [
        f"{place[0]}:{place[1]} of {name}"
        for name, places in stood.items()
        for place in places
        if place in after.groups[name].committed and not _goes_on(before, after, name, place)
    ]
    if still:
        return f"no progress of {', '.join(still)}"
    if any(stood.values()):
        return ""
    return "" if _all_skipped(after) < _all_skipped(before) else "nothing stood before it, and nothing is better"


def not_calmer(before: State, after: State, window_ms: int) -> str:
    """Why a setting is of no use where nothing stands, in words; "" if partitions change hands less than half as often.

    Each time is one member that was given partitions, in `window_ms` before each of the two.
    """
    was, now = (
        sum(given_ms > state.at_ms - window_ms for group in state.groups.values() for given_ms in group.did.given_ms)
        for state in (before, after)
    )
    return "" if 2 * now < was else f"partitions were given {was} times before it, and {now} times after it"


def standing(state: State, group: str, for_ms: int = STANDS_MS) -> list[Place]:
    """The partitions with unread records of which none was processed for the first time lately."""
    one = state.groups[group]
    return [
        place
        for place, log in state.logs.items()
        if place in one.committed
        and log.end > max(one.committed[place], log.start)
        and state.at_ms - _newest_ms(one.did, place) > for_ms
    ]


def repeated(before: Group, after: Group, place: Place) -> set[int]:
    """What was committed and processed, and was processed again since. What was not yet committed may always be."""
    earlier, later = before.did.processed.get(place, {}), after.did.processed.get(place, {})
    return {
        offset
        for offset, times in earlier.items()
        if offset < before.committed.get(place, 0) and len(later.get(offset, ())) > len(times)
    }


def skipped(group: Group, place: Place, log: Log) -> set[int]:
    """Records in the log that the commit has passed, and no member has processed."""
    passed = set(range(log.start, min(group.committed.get(place, 0) - group.in_flight, log.end)))
    return passed - group.did.processed.get(place, {}).keys() - log.poison - log.holes


def _all_skipped(state: State) -> int:
    return sum(len(skipped(group, place, log)) for group in state.groups.values() for place, log in state.logs.items())


def _evicted(before: Group, after: Group, at_ms: int) -> set[str]:
    """Members that worked, whose process lives on, and which are members no more."""
    worked = {name for name, ms in before.did.busy_ms.items() if at_ms - ms <= STANDS_MS}
    same = {name for name, pid in before.pids.items() if after.pids.get(name) == pid}
    return (worked & same & before.members) - after.members


def _goes_on(before: State, after: State, group: str, place: Place) -> bool:
    """Whether records that were new came after the command, and commits of them, if only up to the next poison."""
    was, now = before.groups[group], after.groups[group]
    return (
        (place not in standing(after, group) or now.committed[place] in after.logs[place].poison)
        and _newest_ms(now.did, place) > before.at_ms
        and now.committed[place] > was.committed.get(place, -1)
    )


def _newest_ms(did: Truth, place: Place) -> int:
    """When a record was last processed for the first time."""
    return max((min(times) for times in did.processed.get(place, {}).values()), default=0)


def _of_records(kind: str, place: Place, offsets: set[int]) -> Harm:
    subject = f"{place[0]}:{place[1]}"
    return Harm(kind, subject, len(offsets), f"{kind} {len(offsets)} of {subject}, from {min(offsets)}")
