"""What a situation is: who runs, what goes wrong and when, what is true then, and what may rightly be said. No Kafka.

Places are written `t:0`: topic and partition by their names in the row, which a stage prefixes. Offsets are symbols,
which a stage resolves while it runs: `P` the first poison record, `B` the start of the batch that holds it, `C` the
committed offset when the situation began, `E` the end of the log then; each with an optional `+1` or `-1`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Moment(StrEnum):
    """When a situation is looked at, from its beginning."""

    HALF_A_MINUTE = "30s"
    TWO_MINUTES = "2m"
    TEN_MINUTES = "10m"

    @property
    def seconds(self) -> int:
        return {"30s": 30, "2m": 120, "10m": 600}[self.value]


@dataclass(frozen=True, slots=True)
class Program:
    """Members of one group that behave alike; each is a process of its own."""

    # auto: by librdkafka itself, at delivery | store: by itself, after processing | each | batch | timer:S | none
    # | last:S as timer:S, but the offset of the last record, not of the next one
    # | flip: each, and at a record that fails first its offset, then the position
    # | txn: in a transaction with what it writes to `out` | fixed:N@S: each, and N of what others own, each S seconds
    commit: str
    # At a poison record: seek back | seek+commit that offset | pause the partition | block | close-exit | kill9
    # | dlq: put it aside | retry:N works at the Nth try | abort: seek, and end the transaction of `txn`
    # | slow:S works, and takes S seconds, but no time for whoever meets it next
    # | none: it fails as no row means it, and the look is void. With a batch, back is where the batch began.
    # Of Java: seek | seek:S tries again after S seconds | pause | throw, and its member ends; back is to that record.
    # Of Streams: throw:REPLACE_THREAD | throw:SHUTDOWN_CLIENT. Of Connect: fail, its task does.
    bad: str = "none"
    members: int = 1
    # librdkafka | java | streams, which writes from its first topic to its second | connect, a connector with tasks
    client: str = "librdkafka"
    topics: tuple[str, ...] = ("t",)
    group: str = "g"  # programs of one name share the group
    name: str = "app"  # one name for each program of a row; actions name it
    restart_s: float | None = None  # after how long a dead member is started again; None: never
    # Ends by itself, with kill -9 or closing: 8s | 8s:close | records:N:kill9 | before-sync (joins, and is dead)
    life: str = ""
    batch: int = 1  # records of a consume()
    work_ms: int = 0  # for each record
    # topics | assign | assign:0,1, of these partitions alone | pattern, of Java | typo: a pattern of no topic
    subscribe: str = "topics"
    out: str = ""  # the topic that `txn` writes to
    rests: tuple[int, int] | None = None  # (n, m): pauses all its partitions for n seconds of each m
    delay_s: int = 0  # a record waits until it is so old, and its partition with it
    revoke_s: int = 0  # that it takes to give partitions back
    waits: bool = False  # is not started with the row; an action `start` does
    # Of the client, over CLIENT_SETTINGS; `{n}` in a value is the member's number.
    settings: Mapping[str, str] = field(default_factory=dict)


CLIENT_SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "10000",
        "heartbeat.interval.ms": "3000",
        "fetch.wait.max.ms": "500",
    }
)
"""What every classic member runs with; all else is the client's default."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The records of each partition of the row's topics."""

    per_s: float = 2.0  # 0: none
    burst: tuple[int, int] | None = None  # (n records, every s seconds), instead of `per_s`
    only: tuple[str, ...] = ()  # the places that get records; (): all
    hot: tuple[str, float] | None = None  # (place, n): it gets n times the records of another
    transaction: tuple[int, int] | None = None  # (n records of each partition in one, each mth is aborted; 0: none)
    held: bool = False  # a transaction is open as long as its records take to come
    clocks: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # place: (n, m), each mth record is of n (s)


@dataclass(frozen=True, slots=True)
class Action:
    """What is done `after_s` seconds after the situation began, or before it: `Action(0, "poison", "t:0")`.

    Of members: `kill`, `term`, `stop`, `cont`, `end` (SIGTERM, and never again) and `start` of a program (`app`), a
    member of it (`app-0`) or all (nothing), `break` (each record fails) and `mend`, `quota CLIENT=N` (bytes a second
    that it may read).
    Of the feed: `poison PLACE`, `quiet` (it stops, or that of a topic), `feed` (it flows again), and beside it
    `records PLACE=N`,
    `old-records PLACE=N` (18 minutes old), `keyed PLACE=N` (of 20 keys, each N/20 times), `open-transaction PLACE` (and
    it stays open), `hang-transaction PLACE` (nobody can end it).
    Of topics: `partitions t=5`, `recreate t` (deleted and made again), `delete t`, `delete-records PLACE=OFFSET`.
    Of brokers, in a row with replicas: `kill-broker leader t:0` or `kill-broker coordinator g`, `freeze-broker` of the
    same, and `start-brokers` for all that are dead or frozen.
    Of offsets: `reset PLACE=OFFSET`, `pending PLACE=OFFSET` (committed in a transaction that stays open).
    `kgroup WORDS` is the command line; `{g}` and `{t}` are the broker's names of a group and a topic.
    """

    after_s: float
    do: str
    what: str = ""


@dataclass(frozen=True, slots=True)
class At:
    """Where the cause is."""

    place: str
    offset: str = ""  # of the record
    committed: str = ""  # where the group's commit stands


@dataclass(frozen=True, slots=True)
class Says:
    """Statuses of `lag` and rules of `doctor`, separated by spaces; a regular expression for sentences of each verb.

    As `right`, a match in any verb names the cause; as `allowed`, a status or rule is no alarm; as `wrong`, a match is.
    A finding with words of `doctor` that are right is right, whatever its rule.
    """

    lag: str = ""
    rules: str = ""
    doctor: str = ""
    describe: str = ""
    peek: str = ""
    history: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """What is true of a row from a moment on, in place of what it says before: it is over, or another situation."""

    since: Moment
    cause: str
    healthy: bool = False
    at: tuple[At, ...] = ()
    reads: tuple[str, ...] = ()
    right: Says = Says()
    allowed: Says = Says()
    wrong: Says = Says()
    harms: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A situation, its truth, and what may be said of it."""

    id: str
    cause: str  # in words, for the page
    programs: tuple[Program, ...]
    healthy: bool = False
    topics: Mapping[str, int] = field(default_factory=lambda: {"t": 2})  # partitions of each
    # Of each partition its brokers, of three, the leader first; (): the one broker that most rows live on.
    replicas: tuple[tuple[int, ...], ...] = ()
    own_brokers: bool = False  # three that it shares with no other row: it does not start what it kills
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    feed: Feed = Feed()
    warm_s: int = 40  # healthy life before it begins
    begin: tuple[Action, ...] = ()
    at: tuple[At, ...] = ()
    reads: tuple[str, ...] = ()  # places that its members read: where none of them did, the row does not hold
    right: Says = Says()
    allowed: Says = Says()  # true, and not the point
    wrong: Says = Says()  # beyond what is wrong in any row
    harms: tuple[str, ...] = ()  # shapes of commands that may never be printed: "reset --to-offset t:0=P+2"
    helps: tuple[str, ...] = ()  # shapes, or `restart`
    named_by: Moment = Moment.TWO_MINUTES
    unseen: str = ""  # why the log cannot show the cause; "": it can
    timeouts: str = ""  # which were shortened, for the page
    later: Later | None = None

    def then(self, moment: Moment) -> "Row":
        """The row as it is at a moment."""
        later = self.later
        if later is None or moment.seconds < later.since.seconds:
            return self
        return replace(
            self,
            cause=later.cause,
            healthy=later.healthy,
            at=later.at,
            reads=later.reads,
            right=later.right,
            allowed=later.allowed,
            wrong=later.wrong,
            harms=later.harms,
            helps=later.helps,
            named_by=later.since,
            later=None,
        )

    def group_name(self, prefix: str, group: str) -> str:
        """As the broker knows it: that of a connector is made of the connector's name."""
        connects = any(program.client == "connect" and program.group == group for program in self.programs)
        return f"{'connect-' if connects else ''}{prefix}.{group}"

    def program(self, name: str) -> Program:
        return next(program for program in self.programs if program.name == name)


@dataclass(frozen=True, slots=True)
class Spec:
    """What a nursery is told of one member; JSON on its way (`dataclasses.asdict`).

    The member writes its log by lines, each with the time in ms before it: `S 4711` a life begins, by its process id,
    `P topic:0 17` processed, `F topic:0 17` failed, `C topic:0=18 topic:1=4` committed, `A topic:0 topic:1` assigned,
    `R topic:0` revoked, `E text` a commit failed, `X closed` its end. `programs/logs.py` reads them.
    """

    id: str  # poison-flip.app-0, unique in a run; client.id is app-0
    group: str  # as the broker knows it
    topics: tuple[str, ...]  # as the broker knows them
    log: str  # file; a member that is started again appends to it
    settings: Mapping[str, str]  # the client's, complete (bootstrap.servers, group.id, client.id and the row's)
    commit: str
    bad: str
    life: str
    batch: int
    work_ms: int
    subscribe: str
    client: str
    out: str
    rests: tuple[int, int] | None
    delay_s: int
    revoke_s: int
