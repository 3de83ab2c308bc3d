"""What members did, folded from their own logs: the truth, of which kgroup knows nothing. `Spec` has the lines."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Place = tuple[str, int]
"""Topic and partition, as the broker knows them."""

Times = dict[int, list[int]]
"""When each offset was processed, or failed, in ms: more than one time where it was read again."""


@dataclass(slots=True)
class Truth:
    """What the members of one group did. Times are in ms, and ascend where one member did it all."""

    processed: dict[Place, Times] = field(default_factory=dict)
    failed: dict[Place, Times] = field(default_factory=dict)
    committed: dict[Place, list[tuple[int, int]]] = field(default_factory=dict)  # (ms, offset), by itself; not `auto`
    owners: dict[Place, set[str]] = field(default_factory=dict)  # members that live, by what they were given last
    given_ms: list[int] = field(default_factory=list)  # each time that a member was given partitions
    busy_ms: dict[str, int] = field(default_factory=dict)  # when each member last processed a record, or failed

    def processed_since(self, ms: int) -> dict[Place, int]:
        """How many records were processed from then on, of each place that had any."""
        counts = {
            place: sum(time >= ms for times in offsets.values() for time in times)
            for place, offsets in self.processed.items()
        }
        return {place: count for place, count in counts.items() if count}

    def was_tried(self, place: Place, offset: int, since_ms: int = 0) -> bool:
        """Whether a record failed from then on."""
        return any(time >= since_ms for time in self.failed.get(place, {}).get(offset, ()))

    def unprocessed(self, place: Place, offsets: Iterable[int]) -> list[int]:
        """Those that no member has processed."""
        done = self.processed.get(place, {})
        return [offset for offset in offsets if offset not in done]

    def repeated(self, place: Place) -> dict[int, int]:
        """How often records were processed again: {17: 1} is one that was processed twice."""
        return {offset: len(times) - 1 for offset, times in self.processed.get(place, {}).items() if len(times) > 1}


def read_logs(directory: Path, members: Iterable[str]) -> dict[str, list[str]]:
    """The whole lines of each member's log, by its name; none of a member that never ran."""
    files = {name: directory / f"{name}.log" for name in members}
    return {name: file.read_text().split("\n")[:-1] if file.exists() else [] for name, file in files.items()}


def fold(logs: Mapping[str, Iterable[str]], living: Collection[str]) -> Truth:
    """The lines of members of one group, by member; those that do not live now own nothing."""
    truth = Truth()
    for name, lines in logs.items():
        owned: set[Place] = set()
        for line in lines:
            time, _, did = line.partition(" ")
            kind, _, what = did.partition(" ")
            match kind:
                case "P" | "F":
                    _tried(truth, name, kind, what, int(time))
                case "C":
                    for place, offset in (_with_offset(each, "=") for each in what.split()):
                        truth.committed.setdefault(place, []).append((int(time), offset))
                case _:
                    if kind == "A" and what:
                        truth.given_ms.append(int(time))
                    owned = _owned(owned, kind, what, f"{name} wrote what no Spec knows: {line!r}")
        for place in owned if name in living else ():
            truth.owners.setdefault(place, set()).add(name)
    for commits in truth.committed.values():
        commits.sort()
    return truth


def _tried(truth: Truth, name: str, kind: str, what: str, ms: int) -> None:
    place, offset = _with_offset(what, " ")
    done = truth.processed if kind == "P" else truth.failed
    done.setdefault(place, {}).setdefault(offset, []).append(ms)
    truth.busy_ms[name] = ms


def _owned(owned: set[Place], kind: str, what: str, unknown: str) -> set[Place]:
    """What a member owns after a line of this kind."""
    match kind:
        case "A":
            return owned | {_place(each) for each in what.split()}
        case "R":
            return owned - {_place(each) for each in what.split()}
        case "S" | "X":
            return set()
        case "E":
            return owned
    raise ValueError(unknown)


def _with_offset(text: str, separator: str) -> tuple[Place, int]:
    place, _, offset = text.rpartition(separator)
    return _place(place), int(offset)


def _place(text: str) -> Place:
    topic, _, partition = text.rpartition(":")
    return topic, int(partition)
