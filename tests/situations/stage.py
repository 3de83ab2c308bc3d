"""A row that runs: its names, its members and who starts them again, its actions, and what is true of it."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from tests.helpers.hanging import hang
from tests.helpers.kafka_world import KafkaWorld
from tests.situations.harm import Group, Log, State, skipped
from tests.situations.holds import Body, Seen, why_not
from tests.situations.programs import transactions
from tests.situations.programs.logs import Place, Truth, fold, read_logs
from tests.situations.row import CLIENT_SETTINGS, Action, Feed, Moment, Program, Row, Spec

SIGNALS: Final = {
    "kill": signal.SIGKILL,
    "term": signal.SIGTERM,
    "end": signal.SIGTERM,
    "stop": signal.SIGSTOP,
    "cont": signal.SIGCONT,
    "break": signal.SIGUSR1,
    "mend": signal.SIGUSR2,
}


CLASSIC: Final = frozenset({"session.timeout.ms", "heartbeat.interval.ms"})
"""What a client of the consumer protocol refuses."""

_BATCH: Final = "the records of a consume()"
_OF_LIBRDKAFKA: Final = {
    "max.poll.records": _BATCH,
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
}
"""What settings are there that pages name as Java has them."""

_ENDS: Final = frozenset({"kill", "term", "end"})
_AT_PLACES: Final = frozenset({"reset", "delete-records", "pending"})
_KEYS: Final = 20
_OLD_MS: Final = 18 * 60_000
_LONGEST_MS: Final = 900_000
"""What a broker lets a transaction be open."""
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


class Brokers(Protocol):
    """Those of a row whose brokers fail."""

    def fail(self, do: str, broker: int) -> None: ...
    def is_down(self, broker: int) -> bool: ...
    def start_all(self) -> None: ...


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
    changed: dict[str, str] = field(default_factory=dict)  # settings of its next lives

    @property
    def name(self) -> str:
        return f"{self.program.name}-{self.number}"


class Stage:
    """One instance of a row, on a broker."""

    def __init__(
        self,
        row: Row,
        prefix: str,
        world: KafkaWorld,
        nursery: Nursery,
        feeder: Feeder,
        directory: Path,
        brokers: Brokers | None = None,
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
        self._begins_s = math.inf
        self._held = ExitStack()  # what stays open as long as the row runs
        self._brokers = brokers
        self._deleted: set[str] = set()  # topics, as the broker knew them
        self._down: set[int] = set()  # brokers that the row killed or froze, and has not started again
        self._failed: list[Exception] = []  # of writers in threads
        self._commands: list[subprocess.Popen[bytes]] = []

    def start(self, begins_s: float = math.inf) -> None:
        """Records flow and members live, as before anything went wrong; `begins_s` is when that will be."""
        self._begins_s = begins_s
        self.directory.mkdir(parents=True, exist_ok=True)
        self._feed()
        for member in self._members:
            member.wanted = not member.program.waits
            if member.wanted:
                self._start(member)

    def _feed(self) -> None:
        feed = self.row.feed
        for topic, partitions in self.row.topics.items():
            if feed.transaction:
                self._held.enter_context(
                    transactions.fed(self._world.bootstrap, self.topics[topic], partitions, feed, self._failed)
                )
                continue
            for place in (f"{topic}:{partition}" for partition in range(partitions)):
                if feed.per_s and (not feed.only or place in feed.only):
                    more = feed.hot[1] if feed.hot and feed.hot[0] == place else 1
                    clocks = {of: clock for of, clock in feed.clocks.items() if of == place}
                    self._feeder.feed(*self._place(place), replace(feed, per_s=feed.per_s * more, clocks=clocks))

    def _quiet(self, what: str) -> None:
        for name, topic in self.topics.items():
            if what in ("", name):
                self._feeder.quiet(topic)

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
        while self._open and self._is_due(self._open[0], now_s) and not self._is_busy():
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
                committed={place: at for place, at in committed[group].items() if place[0] not in self._deleted},
                in_flight=max(program.batch if program.commit == "auto" else 0 for program in programs),
                members=self._world.clients(real),
                pids={member.name: member.pid for member in self._members
                      if member.pid is not None and member.program in programs},
            )  # fmt: skip
        here = {topic: real for topic, real in self.topics.items() if real not in self._deleted}
        places = {(real, n) for topic, real in here.items() for n in range(self.row.topics[topic])}
        places |= {place for group in groups.values() for place in group.committed}  # some rows add partitions
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

    def can_be_read(self) -> bool:
        """Whether all its brokers run; clients wait for half a minute for one that does not, and with them all rows."""
        return not self._down

    def running(self) -> list[str]:
        """Those whose process lives, or will be started again."""
        return [each.name for each in self._members if each.pid is not None or (each.wanted and each.again_at_s)]

    def is_fed(self) -> bool:
        """Whether records arrive."""
        counts = self.row.topics
        return any(self._feeder.feeds(real, n) for topic, real in self.topics.items() for n in range(counts[topic]))

    def _is_due(self, action: Action, now_s: float) -> bool:
        begins_s = self.begun_s
        if begins_s is None:
            begins_s = self._begins_s if action.after_s < 0 else math.inf
        return begins_s + action.after_s <= now_s

    def _is_busy(self) -> bool:
        """Whether a command runs, which the next action waits for."""
        for command in [command for command in self._commands if command.poll() is not None]:
            self._commands.remove(command)
            if command.returncode:
                self._broken = f"exit {command.returncode} of {command.args!r}, see {self.directory}"
        return bool(self._commands)

    def stop(self) -> None:
        """All members end at once, for good, and what is open is closed."""
        for member in self._members:
            member.wanted = False
            self._signal(member, signal.SIGKILL)
        for command in self._commands:
            command.kill()
            command.wait()
        self._held.close()

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
            **{name: value for name, value in member.changed.items() if name != _BATCH},
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
            batch=int(member.changed.get(_BATCH, program.batch)),
            work_ms=program.work_ms,
            subscribe=program.subscribe,
            client=program.client,
            out=self.topics.get(program.out, ""),
            rests=program.rests,
            delay_s=program.delay_s,
            revoke_s=program.revoke_s,
        )
        member.again_at_s = member.ended_s = None
        member.started = True
        member.pid = self._nursery.start(spec)

    def do(self, action: Action, now_s: float) -> None:
        """Carry out one action."""
        match action.do:
            case "quiet":
                self._quiet(action.what)
            case "feed":
                self._feed()
            case "quota":
                client, _, rate = action.what.partition("=")
                self._world.quota(client, int(rate))
            case "kgroup":
                self._kgroup(action.what.format(**self.groups, **self.topics).split())
            case "start" | "kill" | "term" | "end" | "stop" | "cont" | "break" | "mend":
                for member in self._named(action.what):
                    self._change_member(action.do, member, now_s)
            case "kill-broker" | "freeze-broker" | "start-brokers":
                self._change_brokers(action.do, action.what)
            case "partitions" | "recreate" | "delete":
                self._change_topic(action.do, action.what)
            case _:
                self._change_partition(action.do, action.what)

    def change_settings(self, member: str, name: str, value: str) -> None:
        """What a member is started with from its next life on, as its operator writes it for this client."""
        [of] = self._named(member)
        if of.program.client == "librdkafka":
            name = _OF_LIBRDKAFKA.get(name, name)
            value = _OF_LIBRDKAFKA.get(value, value)
        of.changed[name] = of.name if name == "group.instance.id" else value

    def change_group(self, name: str, value: str) -> None:
        """A setting of the row's first group."""
        group = self.groups[self.row.programs[0].group]
        self._world.configure_group(group, **{name.replace(".", "_"): value})

    def _change_member(self, do: str, member: Member, now_s: float) -> None:
        """Start it if it is dead, or a signal, which ends it for good where it is not started again."""
        if do == "start":
            member.wanted = True
            if member.pid is None:
                self._start(member)
            return
        self._signal(member, SIGNALS[do])
        member.wanted &= do != "end"
        if not member.wanted or (do in _ENDS and member.program.restart_s is None):
            member.ended_s = now_s

    def _change_brokers(self, do: str, what: str) -> None:
        assert self._brokers, f"{self.row.id} has no replicas"
        role, _, of = what.partition(" ")
        if do == "start-brokers":
            self._brokers.start_all()
            self._down.clear()
            return
        broker = self._world.leader(*self._place(of)) if role == "leader" else self._world.coordinator(self.groups[of])
        self._brokers.fail(do, broker)
        self._down.add(broker)

    def _change_topic(self, do: str, what: str) -> None:
        name, _, total = what.partition("=")
        topic = self.topics[name]
        if do == "partitions":
            self._world.add_partitions(topic, int(total))
        elif do == "delete":
            self._deleted.add(topic)
            self._world.delete_topic(topic)
        else:
            self._world.delete_topic(topic)
            self._world.topic(topic, self.row.topics[name], self.row.topic_settings)

    def _change_partition(self, do: str, what: str) -> None:
        place, _, value = what.partition("=")
        topic, partition = self._place(place)
        match do:
            case "poison":
                self._feeder.poison(topic, partition)
            case "records" | "keyed" | "old-records":
                self._add(do, topic, partition, int(value))
            case "open-transaction":
                self._held.enter_context(transactions.left_open(self._world.bootstrap, topic, partition))
            case "hang-transaction":
                hang(self._world.bootstrap, topic, partition=partition, age_ms=_OLD_MS)
            case "reset":
                self._world.commit(self._group_of(place), {(topic, partition): self.offset(value)})
            case "pending":
                offsets = {(topic, partition): self.offset(value)}
                self._held.enter_context(self._world.pending(self._group_of(place), offsets, timeout_ms=_LONGEST_MS))
            case "delete-records":
                self._world.delete_records(topic, partition, self.offset(value))
            case _:
                raise ValueError(f"no such action: {do}")

    def _add(self, do: str, topic: str, partition: int, count: int) -> None:
        at_ms = time.time_ns() // 1_000_000 - (_OLD_MS if do == "old-records" else 0)
        keys = [b"%d" % key for key in range(_KEYS)] if do == "keyed" else [None]
        for key in keys:
            self._world.produce_at(topic, partition, [at_ms] * (count // len(keys)), key)

    def environment(self) -> dict[str, str]:
        """Where kgroup finds the cluster and keeps its state; a row has a machine of its own."""
        return {
            "KGROUP_BOOTSTRAP_SERVER": self._world.bootstrap,
            "KGROUP_STATE_DIR": str(self.directory / "operator"),
        }

    def _kgroup(self, words: list[str]) -> None:
        """A command of an operator, as a process."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("KGROUP_")}
        kept = {name: value for name, value in os.environ.items() if name == "KGROUP_CACHE_DIR"}
        with (self.directory / "operator.log").open("ab") as log:
            command = subprocess.Popen(
                [sys.executable, "-m", "kgroup", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean | kept | {"KGROUP_CONFIG": str(self.directory / "none.yaml")} | self.environment(),
            )
        self._commands.append(command)

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

    def holds(self, now_s: float, moment: Moment) -> str:
        """Whether the situation is as the row says of a moment: "", or why not. A look at another one says nothing.

        What members do is judged since the last call: only looks call it.
        """
        if self._is_busy():
            return f"{self._commands[0].args!r} still runs"
        if self._broken or self._failed:
            return self._broken or repr(self._failed[0])
        for broker in self._down:
            if not (self._brokers and self._brokers.is_down(broker)):
                return f"broker {broker} was started by another row"
        row = self.row.then(moment)
        for at in row.at:
            if at.committed:
                found = self._committed(at.place)
                known = self.symbols()
                wanted = [self.offset(symbol) for symbol in at.committed.split() if symbol[:1] in known]
                if found not in wanted:
                    return f"{at.place} is committed at {found}, not at {at.committed} {wanted}"
        return why_not(row, self._seen(now_s, row.reads))

    def _seen(self, now_s: float, reads: Iterable[str]) -> Seen:
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
            places={place: self._place(place) for place in {*poisoned, *reads, *(place for _, place in unread)}},
            begun_ms=int(1000 * self.begun_s),
            since_ms=int(1000 * self._looked_s),
            now_ms=int(1000 * now_s),
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
