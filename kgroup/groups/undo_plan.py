"""Taking a journaled change back: what it left, what stands there now, and what is to stand there again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.changes.journal import JournalEntry
from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.change_result import UNKNOWN, Refusal, Result
from kgroup.model.groups import Commit, LogRange, RowError
from kgroup.support.errors import ExitCode, KgroupError, Refused

Place = tuple[str, str, int]
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Trace:
    """One row of the change: what stood there before and after, and what stands there now; None is no commit.

    ``confirmed`` says that the broker acknowledged it; else nobody lived to write down what came of it, or its
    answer was lost. ``unread`` is why nobody knows what stands there now; None where it is known.
    """

    group: str
    topic: str
    partition: int
    before: Commit | None
    after: Commit | None
    now: Commit | None
    confirmed: bool = True
    unread: RowError | None = None

    @property
    def place(self) -> Place:
        """Which partition of which group."""
        return self.group, self.topic, self.partition

    @property
    def is_back(self) -> bool:
        """Whether there is nothing to take back: it stands as before, or nothing shows that it was ever changed."""
        if self.unread is not None:
            return False
        return self.now == self.before or (not self.confirmed and self.now != self.after)

    @property
    def stands(self) -> bool:
        """Whether it is as the change left it, and not as before."""
        return self.unread is None and self.now == self.after != self.before

    @property
    def doubtful(self) -> bool:
        """Whether nobody knows if it was changed, and it stands elsewhere now."""
        return self.unread is None and not self.confirmed and self.now not in (self.before, self.after)

    @property
    def moved(self) -> bool:
        """Whether somebody has moved it since."""
        return self.unread is None and not self.is_back and self.now != self.after


@dataclass(frozen=True, slots=True)
class TypeBack:
    """A group that gets the type back that it had before a migration; its offsets stay where they are.

    ``becomes`` is what it is already where only its ``configs`` are put back. ``done`` is None before it was tried, and
    where nobody knows what came of it; ``error`` is what stands in the way.
    """

    group: str
    now: str
    becomes: str
    commits: int
    configs: Mapping[str, str | None]
    done: bool | None
    error: RowError | None
    change_id: str | None

    def document(self) -> Mapping[str, Any]:
        """Its JSON form."""
        return {
            "group": self.group,
            "type": self.now,
            "target": self.becomes,
            "commits": self.commits,
            "configs": dict(self.configs),
            "converted": self.done,
            "change_id": self.change_id,
            "error": self.error.code if self.error else None,
        }


def types_back(result: Result) -> tuple[TypeBack, ...]:
    """The groups whose type or configs a plan changes, with what came of each."""
    refused = {refusal.group: refusal.row for refusal in result.refusals}
    rows = result.plan.by_group()
    found = []
    for group in result.plan.groups:
        name = group.name
        if name in result.plan.whole:
            error = result.whole.get(name) or refused.get(name)
            unknown = error is not None and error.code == UNKNOWN
            done = None if name not in result.whole or unknown else error is None
            change = result.id if name in result.whole else None
            becomes = result.plan.converted.get(name, group.type)
            configs = result.plan.configs.get(name, {})
            found.append(TypeBack(name, group.type, becomes, len(rows.get(name, ())), configs, done, error, change))
    return tuple(found)


def never_seen(entry: JournalEntry) -> tuple[RowError, ...]:
    """The commits that a deletion took with it and that nobody could read: no undo has them."""
    return tuple(
        RowError(
            "hidden-commits",
            "it was deleted with its group and could not be read then, so it cannot be put back",
            group,
            topic,
            partition,
            exit_code=ExitCode.REFUSED,
        )
        for group, places in entry.hidden.items()
        for topic, partition in places or ()
    )


def undo_rows(
    traces: Sequence[Trace],
    logs: Mapping[tuple[str, int], LogRange],
    topics: Mapping[str, KgroupError | None],
) -> list[ChangeRow]:
    """A row for each partition that does not stand as before; ``topics`` has why a topic's can't be put back."""
    rows = []
    for trace in traces:
        if trace.is_back:
            continue
        log = logs.get((trace.topic, trace.partition))
        row = ChangeRow(trace.group, trace.topic, trace.partition, trace.now, trace.before, log, note=_note(trace, log))
        fault = topics.get(trace.topic)
        error = trace.unread or (RowError.of(fault) if fault else None)
        rows.append(row.failing(error) if error else row)
    return rows


def _note(trace: Trace, log: LogRange | None) -> str | None:
    notes = ["moved since"] if trace.moved else []
    if outside := outside_note(trace.before, log):
        notes.append(outside)
    return "; ".join(notes) or None


def outside_note(before: Commit | None, log: LogRange | None) -> str | None:
    """What to know of an offset that is put back though the log does not hold it any more; None where it does."""
    if before is None or log is None or log.start <= before.offset <= log.end:
        return None
    where = f"below the log start {log.start}" if before.offset < log.start else f"above the log end {log.end}"
    return f"{where} by now: auto.offset.reset decides"


def moved_since(traces: Sequence[Trace]) -> list[Refusal]:
    """A refusal for each group some of whose offsets were moved since the change."""
    by_group: dict[str, list[Trace]] = {}
    for trace in traces:
        if trace.moved:
            by_group.setdefault(trace.group, []).append(trace)
    return [Refusal(group, _refusal(group, moved)) for group, moved in by_group.items()]


def _refusal(group: str, moved: Sequence[Trace]) -> Refused:
    lines = [
        f"{t.topic}:{t.partition}  before {_offset(t.before)}, after {_offset(t.after)}, now {_offset(t.now)}"
        for t in moved[:_NAMED]
    ]
    if len(moved) > _NAMED:
        lines.append(f"{len(moved) - _NAMED} more partitions")
    return Refused(
        f"{group} was moved since that change",
        details=tuple(lines),
        hint="Taking it back moves the group to where it was before the change all the same: --accept moved-since",
        code="moved-since",
    )


def _offset(commit: Commit | None) -> str:
    return "none" if commit is None else str(commit.offset)


def emptied(created: frozenset[str], rows: Sequence[ChangeRow], now: Mapping[Place, Commit]) -> frozenset[str]:
    """The groups that the change made and that would be left without any commit: they go as a whole."""
    left = {place[0] for place in now.keys() - {(row.group, *row.place) for row in rows if row.new is None}}
    return frozenset(name for name in created if name not in left and any(row.group == name for row in rows))
