"""A row that runs: its names, its members and who starts them again, its actions, and what is true of it."""

import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from tests.helpers.kafka_world import KafkaWorld
from tests.situations.harm import Group, Log, State, skipped
from tests.situations.holds import Body, Seen, why_not
from tests.situations.programs.logs import Place, Truth, fold, read_logs
from tests.situations.row import CLIENT_SETTINGS, Action, Feed, Program, Row, Spec

SIGNALS: Final = {
    "kill": signal.SIGKILL,
    "term": signal.SIGTERM,
    "end": signal.SIGTERM,
    "stop": signal.SIGSTOP,
    "cont": signal.SIGCONT,
}


CLASSIC: Final = frozenset({"session.timeout.ms", "heartbeat.interval.ms"})
"""What a client of the consumer protocol refuses."""

_AT_PLACES: Final = frozenset({"reset", "delete-records"})
_ENDS: Final = frozenset({"kill", "term", "end"})
_FAILED: Final = 1
"""Python's exit code after an exception: a member's own ways to end have others."""


class Nursery(Protocol):
    """Starts members, each a process."""

    def start(self, spec: Spec) -> int:
        """Its process id."""

    def signal(self, id_: str, number: int) -> None:
        """Send a signal to the member of a spec's id, if it lives."""


class Feeder(Protocol):
    """Writes records to places of the broker."""

    def feed(self, topic: str, partition: int, feed: Feed) -> None: ...
    def quiet(self, topic: str) -> None: ...
    def poison(self, topic: str, partition: int) -> None: ...
    def poisoned(self, topic: str, partition: int) -> tuple[int, ...]: ...
    def feeds(self, topic: str, partition: int) -> bool: ...
    def end(self, topic: str, partition: int) -> int: ...


@dataclass(slots=True)
class Member:
    """One member of a program: its process, if it runs, and when it is started again, if it is dead."""

    program: Program
    number: int
    pid: int | None = None
    again_at_s: float | None = None
    wanted: bool = True
    started: bool = False
    ended_s: float | None = None  # when an action ended it for good

    @property
    def name(self) -> str:
        return f"{self.program.name}-{self.number}"


class Stage:
    """One instance of a row, on a broker."""

    def __init__(
        self, row: Row, prefix: str, world: KafkaWorld, nursery: Nursery, feeder: Feeder, directory: Path
    ) -> None:
        self.row = row
        self.begun_s: float | None = None
        self.groups = {program.group: row.group_name(prefix, program.group) for program in row.programs}
        self.topics = {topic: f"{prefix}.{topic}" for topic in row.topics}
        self.directory = directory
        self._prefix, self._world, self._nursery, self._feeder = prefix, world, nursery, feeder
        self._members = [Member(program, n) for program in row.programs for n in range(program.members)]
        self._open: list[Action] = sorted(row.begin, key=lambda action: action.after_s)
        self._at_begin: dict[str, int] = {}
        self._broken = ""
        self._looked_s = 0.0
        self._unread: dict[tuple[str, str], int] = {}  # at that time, by group and place

    def start(self) -> None:
        """Records flow and members live, as before anything went wrong."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for topic, partitions in self.row.topics.items():
            for partition in range(partitions):
                if not self.row.feed.only or f"{topic}:{partition}" in self.row.feed.only:
                    self._feeder.feed(self.topics[topic], partition, self.row.feed)
        for member in self._members:
            member.wanted = not member.program.waits
            if member.wanted:
                self._start(member)

    def begin(self, now_s: float) -> None:
        """From now on it goes wrong."""
        self.begun_s = self._looked_s = now_s
        self._unread = self._unread_now(self._truths())
        if where := self._first_place():
            committed = self._committed(where)
            self._at_begin = {"E": self._world.end(*self._place(where))}
            if committed is not None:
                self._at_begin["C"] = committed

    def tick(self, now_s: float, ended: Mapping[str, int]) -> None:
        """What is due: actions, and the new lives of the dead."""
        for member in self._members:
            if member.pid is not None and self._id(member) in ended:
                member.pid = None
                if ended[self._id(member)] == _FAILED:
                    self._broken = f"{member.name} failed, see stderr"
                delay = member.program.restart_s
                member.again_at_s = now_s + delay if member.wanted and delay is not None else None
            if member.wanted and member.pid is None and member.again_at_s is not None and member.again_at_s <= now_s:
                self._start(member)
        while self.begun_s is not None and self._open and self.begun_s + self._open[0].after_s <= now_s:
            action = self._open.pop(0)
            try:
                self.do(action, now_s)
            except Exception as error:  # one row that is written wrongly must not end the run of all
                self._broken = f"{action.do} {action.what}: {error!r}"

    def truth(self, group: str) -> Truth:
        """What the members of one of the row's groups did so far."""
        members = {member.name: member.pid for member in self._members if member.program.group == group}
        return fold(read_logs(self.directory, members), {name for name, pid in members.items() if pid is not None})

    def state(self) -> State:
        """The truth of its groups now. Offsets are read before logs: what is committed was written there by then."""
        committed = {group: self._world.offsets(real) for group, real in self.groups.items()}
        groups = {}
        for group, real in self.groups.items():
            programs = [program for program in self.row.programs if program.group == group]
            groups[real] = Group(
                did=self.truth(group),
                committed=committed[group],
                in_flight=max(program.batch if program.commit == "auto" else 0 for program in programs),
                members=self._world.clients(real),
                pids={member.name: member.pid for member in self._members
                      if member.pid is not None and member.program in programs},
            )  # fmt: skip
        places = [(real, n) for topic, real in self.topics.items() for n in range(self.row.topics[topic])]
        return State(int(time.time() * 1000), groups, {place: self._log(place, groups.values()) for place in places})

    def _log(self, place: Place, groups: Iterable[Group]) -> Log:
        """A partition; where a group may have skipped records it is read, since there may be none."""
        log = Log(self._world.start(*place), self._world.end(*place), frozenset(self._feeder.poisoned(*place)))
        passed = set().union(*(skipped(group, place, log) for group in groups))
        if not passed:
            return log
        records = self._world.offsets_of_records(*place, min(passed), max(passed) + 1)
        return replace(log, holes=frozenset(passed - records))

    def living(self) -> dict[str, int]:
        """The process of each member that lives, by its name."""
        return {member.name: member.pid for member in self._members if member.pid is not None}

    def wanted(self, name: str = "") -> list[str]:
        """Those of a program, or of all, that are to live, though they may be dead just now."""
        return [member.name for member in self._named(name) if member.wanted]

    def stop(self) -> None:
        """All members end at once, for good."""
        for member in self._members:
            member.wanted = False
            self._signal(member, signal.SIGKILL)

    def _start(self, member: Member) -> None:
        program = member.program
        group = self.groups[program.group]
        of_brokers = program.settings.get("group.protocol") == "consumer"  # which set sessions and heartbeats there
        settings = {
            **{name: value for name, value in CLIENT_SETTINGS.items() if not (of_brokers and name in CLASSIC)},
            "bootstrap.servers": self._world.bootstrap,
            "group.id": group,
            "client.id": member.name,
            **{name: value.replace("{n}", str(member.number)) for name, value in program.settings.items()},
        }
        spec = Spec(
            id=self._id(member),
            group=group,
            topics=tuple(self.topics[topic] for topic in program.topics),
            log=str(self.directory / f"{member.name}.log"),
            settings=settings,
            commit=program.commit,
            bad=program.bad,
            life=program.life,
            batch=program.batch,
            work_ms=program.work_ms,
            subscribe=program.subscribe,
            client=program.client,
        )
        member.again_at_s = member.ended_s = None
        member.started = True
        member.pid = self._nursery.start(spec)

    def do(self, action: Action, now_s: float) -> None:
        """Carry out one action."""
        match action.do:
            case "poison":
                self._feeder.poison(*self._place(action.what))
            case "quiet":
                for topic in self.topics.values():
                    self._feeder.quiet(topic)
            case "partitions":
                topic, _, total = action.what.partition("=")
                self._world.add_partitions(self.topics[topic], int(total))
            case "reset" | "delete-records":
                place, _, offset = action.what.partition("=")
                self._admin(action.do, place, self.offset(offset))
            case "start":
                self._start_all(self._named(action.what))
            case _:
                for member in self._named(action.what):
                    self._tell(member, action.do, now_s)

    def _start_all(self, members: Iterable[Member]) -> None:
        for member in members:
            member.wanted = True
            if member.pid is None:
                self._start(member)

    def _tell(self, member: Member, do: str, now_s: float) -> None:
        """A signal, which ends it for good where it is not started again."""
        self._signal(member, SIGNALS[do])
        member.wanted &= do != "end"
        if not member.wanted or (do in _ENDS and member.program.restart_s is None):
            member.ended_s = now_s

    def _admin(self, do: str, place: str, offset: int) -> None:
        topic, partition = self._place(place)
        if do == "reset":
            self._world.commit(self._group_of(place), {(topic, partition): offset})
        else:
            self._world.delete_records(topic, partition, offset)

    def symbols(self) -> Mapping[str, int]:
        """The offsets that the row calls P, B, C and E, of its first place; without one, of what is changed there."""
        if not self.row.at:
            return self._at_begin
        at = self.row.at[0]
        poison = self._feeder.poisoned(*self._place(at.place))
        found = self._at_begin | ({"P": poison[0]} if poison else {})
        batch = self._committed(at.place) if at.committed == "B" and poison else None
        if batch is not None and batch <= poison[0]:  # else it got past it, and the row does not hold
            found["B"] = batch
        return found

    def offset(self, symbol: str) -> int:
        """`P+1` as a number."""
        name, sign, number = symbol[:1], symbol[1:2], symbol[2:]
        return int(symbol) if symbol.isdigit() else self.symbols()[name] + (int(sign + number) if number else 0)

    def holds(self, now_s: float) -> str:
        """Whether the situation is as the row says: "", or why not. A look at another situation says nothing.

        What members do is judged since the last call: only looks call it.
        """
        if self._broken:
            return self._broken
        for at in self.row.at:
            if at.committed:
                found = self._committed(at.place)
                known = self.symbols()
                wanted = [self.offset(symbol) for symbol in at.committed.split() if symbol[:1] in known]
                if found not in wanted:
                    return f"{at.place} is committed at {found}, not at {at.committed} {wanted}"
        return why_not(self.row, self._seen(now_s))

    def _seen(self, now_s: float) -> Seen:
        assert self.begun_s is not None
        truths = self._truths()
        unread = {place: count for place, count in self._unread.items() if self._feeder.feeds(*self._place(place[1]))}
        poisoned = {action.what for action in self.row.begin if action.do == "poison"} - {
            action.what for action in self._open
        }
        seen = Seen(
            bodies=[
                Body(
                    member.name,
                    member.program,
                    lives=member.pid is not None,
                    started=member.started,
                    ended_s=None if member.ended_s is None else now_s - member.ended_s,
                )
                for member in self._members
            ],
            truths=truths,
            poison={place: self._feeder.poisoned(*self._place(place)) for place in poisoned},
            unread=unread,
            places={place: self._place(place) for place in {place for _, place in unread} | poisoned},
            begun_ms=int(1000 * self.begun_s),
            since_ms=int(1000 * self._looked_s),
        )
        self._looked_s, self._unread = now_s, self._unread_now(truths)
        return seen

    def _truths(self) -> dict[str, Truth]:
        return {group: self.truth(group) for group in self.groups}

    def _unread_now(self, truths: Mapping[str, Truth]) -> dict[tuple[str, str], int]:
        """By group and place, of what is fed: the records after the last one that was processed."""
        found = {}
        for program in self.row.programs:
            for topic in program.topics if program.client != "connect" else ():  # a connector writes no log
                for partition in range(self.row.topics[topic]):
                    place = self.topics[topic], partition
                    if self._feeder.feeds(*place):
                        done = truths[program.group].processed.get(place, {})
                        found[program.group, f"{topic}:{partition}"] = (
                            self._feeder.end(*place) - max(done, default=-1) - 1
                        )
        return found

    def _first_place(self) -> str:
        """Whose offsets C and E are."""
        changed = (action.what.partition("=")[0] for action in self.row.begin if action.do in _AT_PLACES)
        return next((at.place for at in self.row.at), next(changed, ""))

    def _committed(self, place: str) -> int | None:
        return self._world.committed(self._group_of(place)).get(self._place(place), (None,))[0]

    def _place(self, place: str) -> tuple[str, int]:
        topic, _, partition = place.rpartition(":")
        return self.topics[topic], int(partition)

    def _group_of(self, place: str) -> str:
        topic = place.rpartition(":")[0]
        return next(self.groups[program.group] for program in self.row.programs if topic in program.topics)

    def _id(self, member: Member) -> str:
        return f"{self._prefix}.{member.name}"

    def _named(self, name: str) -> list[Member]:
        return [member for member in self._members if name in ("", member.program.name, member.name)]

    def _signal(self, member: Member, number: int) -> None:
        if member.pid is not None:
            self._nursery.signal(self._id(member), number)
