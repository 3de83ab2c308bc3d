"""Cases of the rules about lag, commits, logs and transactions."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kgroup.groups.deleted_topics import DeletedTopic
from kgroup.groups.doctor.snapshot import (
    GroupSnapshot,
    OpenTransaction,
    RebalanceHistory,
    TopicDetails,
)
from kgroup.groups.history.runs import Run
from kgroup.groups.history.slow_polls import SlowPoll, SlowPolls
from kgroup.groups.lag.evidence import BlockingTransaction, FirstUnread, MemberFacts
from kgroup.groups.lag.open_commits import OpenCommit
from kgroup.groups.offset_resets import OffsetReset, ResetPartition
from kgroup.groups.passed_over import Leap
from kgroup.groups.successors import Successor
from kgroup.model.groups import Partition
from kgroup.model.migration_facts import BrokerFacts
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.model.read_quota import ReadQuota
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.instants import rfc3339
from tests.helpers.cases.doctor import (
    CRITICAL,
    EARLY,
    EMPTY,
    HEALTHY,
    INFO,
    KEYS,
    NOW,
    PARTITIONS,
    PARTLY,
    UNKNOWN,
    WARNING,
    A,
    B,
    Case,
    D,
    H,
    M,
    S,
    commits,
    having,
    log,
    logged,
    partition,
    shown,
)


def lagging(*lags: int) -> GroupSnapshot:
    return having((A, B), [partition(number, end=1000 + lag) for number, lag in enumerate(lags)])


def one(row: Partition, snapshot: GroupSnapshot = HEALTHY) -> GroupSnapshot:
    """The snapshot with another partition 0."""
    own = snapshot.group
    members = own.members or ()
    changed = having(members, (row, *PARTITIONS[1:]), type=own.type, state=own.state, protocol_type=own.protocol_type)
    return replace(snapshot, group=changed.group)


def long_since(snapshot: GroupSnapshot) -> GroupSnapshot:
    """A group that has committed for longer than a minute."""
    return replace(snapshot, commits={key: commits(900, 950, 1000, every_ms=40 * S) for key in KEYS})


def produced(*records: int) -> GroupSnapshot:
    return replace(HEALTHY, logs={key: log(records=count) for key, count in zip(KEYS, records, strict=False)})


def standing(
    ms: int, attempts: int = 1, records: int | None = 600, lag: int = 500, stable: int = 9999, **other: Any
) -> GroupSnapshot:
    """orders:0 at 1000 for so long, committed so often since."""
    until = NOW - S if attempts > 1 else NOW - ms
    every = (ms - S) // max(attempts - 1, 1)
    before = commits(900, until_ms=NOW - ms - S)
    since = commits(*[1000] * attempts, every_ms=every, until_ms=until)
    return replace(
        one(partition(0, end=1000 + lag)),
        commits={**(HEALTHY.commits or {}), KEYS[0]: before + since},
        logs={**HEALTHY.logs, KEYS[0]: log(stable, records, end=1000 + lag, **other)},
    )


def flipping(ms: int, low: int, high: int) -> GroupSnapshot:
    """orders:0 back and forth between two offsets each second, for so long."""
    flips = commits(*[high, low] * (ms // (2 * S)), every_ms=S)
    return replace(standing(ms), commits={**(HEALTHY.commits or {}), KEYS[0]: flips})


def unread(
    ms: int,
    records: int | None = 600,
    lag: int = 500,
    reset_ago: int | None = None,
    by_consumer_ago: int | None = None,
) -> GroupSnapshot:
    """An Empty group for so long, with unread records on orders:0, which a reset or a consumer committed later."""
    ago = reset_ago or by_consumer_ago or ms + S
    return replace(
        one(partition(0, end=1000 + lag), EMPTY),
        emptied_at_ms=NOW - ms,
        commits={KEYS[0]: (logged(1000, NOW - ago, by_tool=reset_ago is not None),)},
        logs={**HEALTHY.logs, KEYS[0]: log(9999, records, end=1000 + lag)},
    )


def job(ms: int, unread_ms: int | None, runs: int = 2, **other: Any) -> GroupSnapshot:
    """``unread`` for so long, with a first unread record of that time, after runs of 5 minutes each hour."""
    ended = [NOW - ms - ago * H for ago in reversed(range(runs))]
    history = RebalanceHistory(NOW - H, runs=tuple(Run(end - 5 * M, end, left=True) for end in ended))
    snapshot = replace(unread(ms, **other), history=history)
    known = replace(snapshot.logs[KEYS[0]], first_unread=FirstUnread(1000, unread_ms))
    return replace(snapshot, logs={**snapshot.logs, KEYS[0]: known})


def polled_late(snapshot: GroupSnapshot, *ago: int) -> GroupSnapshot:
    """So long ago members left that had orders:0 and did not poll for five minutes."""
    left = tuple(SlowPoll(NOW - ms, n, "app", 5 * M, sure=True) for n, ms in enumerate(ago))
    return replace(snapshot, history=RebalanceHistory(NOW - H, slow_polls=SlowPolls((KEYS[0],), left)))


def reading(per_s: float, lag: int, records: int | None = 6000, minutes: int = 12) -> GroupSnapshot:
    """A consumer of orders:0 that commits every 10 s for so long, with what it has not read."""
    offsets = [round(1000 - n * 10 * per_s) for n in reversed(range(6 * minutes))]
    return replace(
        one(partition(0, end=1000 + lag)),
        commits={**(HEALTHY.commits or {}), KEYS[0]: commits(*offsets, every_ms=10 * S)},
        logs={**HEALTHY.logs, KEYS[0]: log(9999, records, end=1000 + lag)},
    )


def left(ms: int, **subscription: Any) -> GroupSnapshot:
    """oldtopic:0 with unread records, last committed so long ago; its members subscribe to ``orders``."""
    member = replace(B, **subscription)
    old = partition(0, end=1500, topic="oldtopic")
    return replace(
        HEALTHY,
        group=having((A, member), (*PARTITIONS, old)).group,
        commits={**(HEALTHY.commits or {}), old.tp: (logged(1000, NOW - ms),)},
        logs={**HEALTHY.logs, old.tp: log(9999, 600, end=1500)},
    )


def rebalancing(snapshot: GroupSnapshot) -> GroupSnapshot:
    return replace(snapshot, group=replace(snapshot.group, state="Reconciling"))


def held(ms: int | None, committed: int = 800, **other: object) -> GroupSnapshot:
    """orders:0 with the last stable offset at 800 for so long."""
    since = {} if ms is None else {KEYS[0]: NOW - ms}
    blocked = {**HEALTHY.logs, KEYS[0]: log(800, None)}
    return replace(one(partition(0, committed)), **({"logs": blocked, "held_since_ms": since} | other))


def hanging(ms: int, known: bool | None = False) -> OpenTransaction:
    return OpenTransaction("orders", 3, 4711, 9, 812, NOW - ms, known, "pay-tx-1")


SIMPLE = replace(EMPTY, group=replace(EMPTY.group, protocol_type=""), emptied_at_ms=None)
CONSUMER = replace(EMPTY, group=replace(EMPTY.group, type="consumer"))


def emptied(ago_ms: int) -> GroupSnapshot:
    return replace(EMPTY, emptied_at_ms=NOW - ago_ms)


def committed(snapshot: GroupSnapshot, *ago_ms: int) -> GroupSnapshot:
    """The partitions committed so long ago, the last time for all that are left."""
    ages = [*ago_ms, *[ago_ms[-1]] * (len(KEYS) - len(ago_ms))]
    return replace(snapshot, commits={k: commits(1000, until_ms=NOW - ago) for k, ago in zip(KEYS, ages, strict=True)})


OTHER = one(partition(0, topic="old"))
NO_RETENTION = BrokerFacts(unread={"offsets_retention_ms": "no DESCRIBE_CONFIGS on the cluster"})
OTHER_ID = {"orders": TopicDetails(6, "id-2")}
NO_IDS = replace(HEALTHY, topics={"orders": TopicDetails(6)})
IDLE = {KEYS[0]: commits(*[1000] * 101), KEYS[1]: commits(900, 1000)}


def pending(phase: str, count: int | None = 213_000, deadline_ms: int | None = None) -> PendingCatchup:
    return PendingCatchup("cu-7f3a", "released", phase, count, rfc3339(deadline_ms), deadline_ms, ())


def owing(*catchups: PendingCatchup) -> GroupSnapshot:
    return replace(HEALTHY, pending=catchups)


def moved(*offsets: int, ago_ms: int = M, change: str | None = None) -> tuple[OffsetReset, ...]:
    """Somebody set orders:0 from the first offset to each of the others."""
    rows = (ResetPartition(offsets[0], NOW - ago_ms, logged(new, NOW - ago_ms, by_tool=True)) for new in offsets[1:])
    return tuple(OffsetReset(NOW - ago_ms, (row,), change) for row in rows)


def in_transaction(ms: int, known: bool | None = True, name: str | None = "pay-tx") -> GroupSnapshot:
    """orders:0 at offset 1000 for so long, as an open transaction holds it."""
    open_one = OpenTransaction(
        "__consumer_offsets", 7, 4711, 9, 812, NOW - ms, known, name, NOW - ms if known else None
    )
    read = None if name is None else open_one
    return shown(standing(ms), open_commits=(OpenCommit(KEYS[0], 1000, 4711, NOW - ms, read),))


def silent_pod(session_ms: int) -> GroupSnapshot:
    """pod-4, a static member that owns orders:0 to 2, has not committed for two minutes, and the other one has."""
    pod = replace(A, instance_id="pod-4")
    since = NOW - 2 * M
    silent = {key: commits(900, 950, 1000, until_ms=since) for key in KEYS[:3]}
    rows = (partition(0, end=1500), *PARTITIONS[1:])
    return replace(
        HEALTHY,
        group=having((pod, B), rows).group,
        settings={A.member_id: MemberFacts(300_000, session_ms), B.member_id: MemberFacts(300_000, session_ms)},
        commits={**(HEALTHY.commits or {}), **silent},
        logs={**HEALTHY.logs, KEYS[0]: log(9999, 600, end=1500)},
    )


def by_two(rounds: int, ago_ms: int = S) -> GroupSnapshot:
    """orders:0 is read to the end by its owner, and each second offset 10 is committed after it."""
    offsets = [offset for n in range(rounds) for offset in (1000 - 2 * (rounds - n), 10)]
    flips = commits(*offsets, 1000, every_ms=S, until_ms=NOW - ago_ms)
    return replace(HEALTHY, commits={**(HEALTHY.commits or {}), KEYS[0]: flips})


CASES = (
    # pending-commit
    Case("pending-commit", "none", HEALTHY, None),
    Case(
        "pending-commit",
        "its coordinator knows it",
        in_transaction(2 * M),
        WARNING,
        "orders:0: an open transaction of pay-tx (producer 4711) holds offset 1000 since 07:58:00Z",
    ),
    Case("pending-commit", "for long", in_transaction(15 * M, known=False), CRITICAL, "since 07:45:00Z"),
    Case("pending-commit", "it could not be asked", in_transaction(M, name=None), WARNING, "of producer 4711 holds"),
    Case("pending-commit", "no log", replace(HEALTHY, history=None), UNKNOWN, "were not read"),
    # two-writers
    Case("two-writers", "none", HEALTHY, None),
    Case(
        "two-writers",
        "for a minute, and all is read",
        by_two(30),
        WARNING,
        "orders:0 has two writers since 07:59:00Z: one commits 10, one 940 to 998; enrich-0 owns it",
    ),
    Case("two-writers", "two falls", by_two(2), None),
    Case("two-writers", "it is over", by_two(30, 121 * S), None),
    Case("two-writers", "one that tries again", flipping(M, 1000, 1001), None),
    Case("two-writers", "no log", replace(HEALTHY, history=None), UNKNOWN, "were not read"),
    # offsets-moved
    Case("offsets-moved", "none", HEALTHY, None),
    Case(
        "offsets-moved",
        "forward",
        shown(HEALTHY, resets=moved(202, 261)),
        WARNING,
        "by no member, while the group was Empty: no member committed offsets 202 to 260",
    ),
    Case(
        "offsets-moved",
        "back, and by kgroup",
        shown(HEALTHY, resets=(*moved(261, 300, change="ch-7k2f"), *moved(261, 211), *moved(300, 250))),
        WARNING,
        "orders:0 was moved back by 50 at",
    ),
    Case(
        "offsets-moved",
        "by kgroup",
        shown(HEALTHY, resets=moved(202, 261, change="ch-7k2f")),
        INFO,
        "by kgroup (ch-7k2f), while the group was Empty",
    ),
    Case("offsets-moved", "no log", replace(HEALTHY, commits=None), UNKNOWN, "were not read"),
    # skewed-lag
    Case(
        "skewed-lag", "one partition", lagging(9000, 100, 100, 100, 100, 100), WARNING, "9000 on orders:0, 95% of 9500"
    ),
    Case(
        "skewed-lag",
        "one member",
        having(
            (A, replace(B, assignment=())),
            [partition(n, end=4000 if n < 3 else 1010 if n < 6 else 1000) for n in range(8)],
        ),
        WARNING,
        "at enrich-0",
    ),
    Case("skewed-lag", "others are behind too", lagging(7900, 1580, 420, 420, 420, 420), None),
    Case(
        "skewed-lag",
        "a small rewind among lags that their commits explain",
        replace(
            lagging(2000, *[30_000] * 5),
            commits={**dict.fromkeys(KEYS, commits(*range(900, 1001))), KEYS[0]: commits(1500, 1000)},
        ),
        None,
    ),
    Case("skewed-lag", "little", lagging(999, 0, 0, 0, 0, 0), None),
    Case("skewed-lag", "two partitions", lagging(9000, 0), None),
    Case("skewed-lag", "nobody reads", one(partition(0, end=99_000), EMPTY), None),
    Case(
        "skewed-lag",
        "no logs",
        having((A, B), [replace(p, log=None) for p in PARTITIONS]),
        UNKNOWN,
        "no log range could be read",
    ),
    Case("skewed-lag", "one log missing", one(partition(0, log=None)), PARTLY, "orders:0"),
    # hot-partition
    Case(
        "hot-partition",
        "ten times",
        produced(60_000, *[6_000] * 5),
        WARNING,
        "orders:0 gets 100/s, the median of the other 5 is 10/s",
    ),
    Case(
        "hot-partition",
        "five times",
        produced(30_000, *[6_000] * 5),
        WARNING,
        "orders:0 gets 50/s, the median of the other 5 is 10/s",
    ),
    Case("hot-partition", "just not", produced(29_999, *[6_000] * 5), None),
    Case("hot-partition", "a trickle", produced(999, *[0] * 5), None),
    Case(
        "hot-partition",
        "not read",
        replace(HEALTHY, logs={}),
        UNKNOWN,
        "how many records arrive was not read",
    ),
    Case(
        "hot-partition",
        "some not read",
        produced(6_000, 6_000, 6_000),
        PARTLY,
        "records in unknown for orders:3, orders:4, orders:5",
    ),
    # no-reader
    Case("no-reader", "for 20m", unread(20 * M), CRITICAL, "500 unread on 1 partition, no member for 20m while 1/s"),
    Case("no-reader", "for 2m", unread(2 * M), WARNING, "no member for 2m while 1/s (10m) arrived"),
    Case(
        "no-reader",
        "another group began to read as it stopped",
        shown(unread(20 * M), successor=Successor(("orders-v2",), NOW - 20 * M)),
        CRITICAL,
        "orders-v2 began to read these partitions",
    ),
    Case("no-reader", "for two days", unread(2 * D), WARNING, "no member for 2d while 1/s (10m) arrived"),
    Case("no-reader", "a restart", unread(59 * S), EARLY, "no member for less than 1m"),
    Case(
        "no-reader",
        "scaled to zero, and the first record came just now",
        job(10 * M, NOW - 59 * S, runs=1),
        EARLY,
        "records for less than 1m since its members left",
    ),
    Case("no-reader", "... and it does not start", job(10 * M, NOW - 61 * S, runs=1), WARNING, "no member for 10m"),
    Case("no-reader", "nothing arrives", unread(20 * M, records=0), None),
    Case(
        "no-reader",
        "nothing arrives after a reset",
        unread(20 * M, records=0, reset_ago=10 * M),
        CRITICAL,
        "no member for 20m; a reset or a release committed last, 10m ago",
    ),
    Case(
        "no-reader",
        "never had members",
        replace(unread(H, reset_ago=5 * M), emptied_at_ms=None),
        WARNING,
        "no member for 5m while 1/s (10m) arrived; a reset or a release committed last, 5m ago",
    ),
    Case("no-reader", "all is read", EMPTY, None),
    Case("no-reader", "it has members", standing(38 * M), None),
    Case("no-reader", "assign()", unread(20 * M, by_consumer_ago=M), None),
    Case("no-reader", "assign() has stopped", unread(20 * M, by_consumer_ago=6 * M), WARNING, "no reader for 6m"),
    Case("no-reader", "... long ago", unread(40 * M, by_consumer_ago=20 * M), CRITICAL, "no reader for 20m"),
    Case("no-reader", "unknown whether any arrive", unread(20 * M, records=None), CRITICAL, "no member for 20m"),
    Case("no-reader", "unknown, few", unread(20 * M, records=None, lag=99), PARTLY, "how many records arrive"),
    Case("no-reader", "a job that is not due", job(20 * M, NOW - 20 * M), EARLY, "a job that is not due"),
    Case(
        "no-reader",
        "... that is late",
        job(2 * H, NOW - 2 * H),
        CRITICAL,
        "500 unread on 1 partition, no member for 2h",
    ),
    Case("no-reader", "... that did not read to the end", job(20 * M, NOW - 21 * M), CRITICAL, "no member for 20m"),
    Case("no-reader", "... whose first unread record is unknown", job(20 * M, None), CRITICAL, "no member for 20m"),
    Case("no-reader", "a job that was reset", job(20 * M, NOW - 20 * M, reset_ago=19 * M), CRITICAL, "committed last"),
    Case(
        "no-reader",
        "it ran once, some records came",
        job(3 * M, NOW - 3 * M, runs=1, records=9),
        EARLY,
        "not show which",
    ),
    Case("no-reader", "it ran once, records arrive", job(3 * M, NOW - 3 * M, runs=1), WARNING, "no member for 3m"),
    Case(
        "no-reader",
        "it ran once, many came",
        job(3 * M, NOW - 3 * M, runs=1, records=9, lag=1000),
        WARNING,
        "1000 unread",
    ),
    Case(
        "no-reader",
        "it did not poll",
        polled_late(unread(2 * M), 2 * M),
        WARNING,
        "no member for 2m while 1/s (10m) arrived; its last member app left 2m ago as it did not poll for 5m "
        "(max.poll.interval.ms): its process may live, and hang at orders:0 offset 1000",
    ),
    Case("no-reader", "they do not poll, and come back", polled_late(unread(2 * M), 9 * M, 2 * M), None),
    Case(
        "stalled-commits",
        "they do not poll, and come back",
        polled_late(unread(2 * M), 9 * M, 2 * M),
        WARNING,
        "members left 2 times at orders:0 offset 1000, the last 2m ago, as they did not poll for 5m",
    ),
    Case(
        "stalled-commits",
        "a static member that may be gone",
        silent_pod(300_000),
        WARNING,
        "pod-4: no commit of it since 07:58:00Z: if its process is gone, its partitions wait until about 08:03:00Z",
    ),
    Case(
        "stalled-commits",
        "a static member that lives",
        silent_pod(60_000),
        WARNING,
        "1/s (10m) arrive; pod-4 still heartbeats: it lives",
    ),
    Case("stalled-commits", "... for long", polled_late(standing(M), 15 * M, 2 * M), CRITICAL, "members left 2 times"),
    Case("stalled-commits", "... and nothing is unread", polled_late(HEALTHY, 15 * M, 2 * M), None),
    Case(
        "no-reader",
        "not in the log",
        replace(unread(20 * M), commits=None),
        UNKNOWN,
        "commits in __consumer_offsets",
    ),
    # pending-catchup
    Case("pending-catchup", "none", owing(), None),
    Case("pending-catchup", "a run delivers it", owing(pending("replaying")), None),
    Case("pending-catchup", "the group itself reads it", owing(pending("planned")), None),
    Case("pending-catchup", "all delivered", owing(pending("stopped", count=0)), None),
    Case(
        "pending-catchup",
        "stopped",
        owing(pending("stopped")),
        WARNING,
        "213k offsets of cu-7f3a (stopped) are not delivered, and no run delivers them",
    ),
    Case("pending-catchup", "no destination yet", owing(pending("pending")), WARNING, "cu-7f3a (pending)"),
    Case("pending-catchup", "damaged", owing(pending("damaged")), WARNING, "cu-7f3a (damaged)"),
    Case(
        "pending-catchup",
        "only the commits show it",
        owing(pending("not-in-ledger", count=None)),
        WARNING,
        "an unknown number of offsets of cu-7f3a (not-in-ledger) may not be delivered",
    ),
    Case(
        "pending-catchup",
        "only the commits show it, without the ledger",
        replace(owing(pending("not-in-ledger")), unread={"pending": "_kgroup_ledger could not be read"}),
        UNKNOWN,
        "_kgroup_ledger could not be read",
    ),
    Case("pending-catchup", "its release", owing(pending("releasing")), EARLY, "cu-7f3a (releasing): under way"),
    Case("pending-catchup", "its cancellation", owing(pending("cancelling")), EARLY, "cu-7f3a (cancelling): under way"),
    Case(
        "pending-catchup", "deleted in an hour", owing(pending("stopped", deadline_ms=NOW + H)), WARNING, "the first at"
    ),
    Case(
        "pending-catchup",
        "deleted within an hour, and another",
        owing(pending("pending"), pending("stopped", deadline_ms=NOW + H - 1)),
        CRITICAL,
        "; so are those of 1 more plan",
    ),
    Case(
        "pending-catchup",
        "the ledger was not read",
        replace(HEALTHY, pending=None, unread={"pending": "_kgroup_ledger could not be read"}),
        UNKNOWN,
        "_kgroup_ledger could not be read",
    ),
    # large-gap
    Case(
        "large-gap",
        "it grows",
        reading(5, 9000),
        WARNING,
        "9000 unread on 1 partition, 10/s arrived and 5/s read (10m): it",
    ),
    Case(
        "large-gap",
        "it grows, under a quota",
        shown(reading(5, 9000), quotas=(ReadQuota(300, "enrich-0"),)),
        WARNING,
        "it grows; client id enrich-0 may read 300 B/s at each broker (quota): that slows its members, or",
    ),
    Case(
        "large-gap",
        "it grows, and no quota is known",
        shown(reading(5, 9000), quotas=()),
        WARNING,
        "it grows",
    ),
    Case("large-gap", "it drains for long", reading(20, 6100), INFO, "10/s arrived and 20/s read (10m): 10m left"),
    Case("large-gap", "it drains soon", reading(20, 6000), None),
    Case("large-gap", "as many as arrive", reading(10, 90_000), None),
    Case("large-gap", "a small gap", reading(5, 999), None),
    Case("large-gap", "within two commit intervals", reading(9, 1000, records=60_000), None),
    Case(
        "large-gap", "a young group", reading(5, 9000, minutes=5), WARNING, "10/s arrived and 5/s read (1m): it grows"
    ),
    Case(
        "large-gap",
        "a lone commit",
        replace(reading(5, 9000), commits={KEYS[0]: commits(1000)}),
        EARLY,
        "rates need more commits than the log has of orders:0",
    ),
    Case("large-gap", "a stalled partition", standing(38 * M, lag=9000), None),
    Case("large-gap", "no member", unread(20 * M, lag=9000), None),
    Case("large-gap", "arrivals unknown", reading(5, 9000, records=None), UNKNOWN, "how many records arrive"),
    Case(
        "large-gap", "not in the log", replace(reading(5, 9000), commits=None), UNKNOWN, "commits in __consumer_offsets"
    ),
    Case("large-gap", "a log that could not be read", one(partition(0, log=None)), PARTLY, "orders:0"),
    # unsubscribed
    Case(
        "unsubscribed",
        "left",
        left(18 * M),
        WARNING,
        "oldtopic: 500 unread on 1 partition, last commit 18m ago while 1/s (10m) arrived",
    ),
    Case("unsubscribed", "a restart", left(59 * S), EARLY, "younger than 1m, which may be a restart"),
    Case("unsubscribed", "subscribed", left(18 * M, subscription=("orders", "oldtopic")), None),
    Case("unsubscribed", "a pattern", left(18 * M, subscription_regex="ord.*"), WARNING, "oldtopic: 500 unread on 1"),
    Case(
        "unsubscribed",
        "a pattern in a rebalance",
        rebalancing(left(18 * M, subscription_regex="ord.*")),
        UNKNOWN,
        "a pattern, or a rebalance",
    ),
    Case("unsubscribed", "Empty", EMPTY, None),
    Case("stalled-commits", "of a topic that was left", left(38 * M), None),
    Case("skewed-lag", "of a topic that was left", left(38 * M), None),
    # stalled-commits
    Case("stalled-commits", "STOP", standing(38 * M), CRITICAL, "orders:0 at 1000: no commit for 38m while 1/s (10m)"),
    Case("stalled-commits", "STALL", standing(6 * M, attempts=20), WARNING, "20 commits of the same offset in 5m59s"),
    Case(
        "stalled-commits",
        "five minutes",
        standing(5 * M),
        WARNING,
        "orders:0 at 1000: no commit for 5m while 1/s (10m) arrive",
    ),
    Case(
        "stalled-commits", "repeated for 82s", standing(82 * S, attempts=82), WARNING, "82 commits of the same offset"
    ),
    Case(
        "stalled-commits", "ten times", standing(32 * S, attempts=10), WARNING, "10 commits of the same offset in 31s"
    ),
    Case(
        "stalled-commits",
        "back and forth",
        flipping(82 * S, 1000, 1001),
        WARNING,
        "orders:0 at 1000: 82 commits back and forth in over 1m22s, none past 1001 while 1/s (10m) arrive",
    ),
    Case(
        "stalled-commits",
        "a batch back and forth",
        flipping(16 * M, 990, 1000),
        CRITICAL,
        "orders:0 at 990: 960 commits",
    ),
    Case("stalled-commits", "back and forth, not yet for long", flipping(28 * S, 1000, 1001), None),
    Case("stalled-commits", "it moved among the last ten", standing(32 * S, attempts=9), None),
    Case("stalled-commits", "ten times, not yet so long", standing(29 * S, attempts=10), None),
    Case(
        "stalled-commits",
        "repeated before the record came",
        standing(38 * M, attempts=600, unread=True, unread_since_ms=NOW - 32 * S),
        None,
    ),
    Case("stalled-commits", "15 minutes", standing(15 * M), CRITICAL, "no commit for 15m"),
    Case("stalled-commits", "just under", standing(15 * M - 1), WARNING, "no commit for 15m while"),
    Case("stalled-commits", "half a minute", standing(30 * S), EARLY, "orders:0: 2 commits found, at least three"),
    Case("stalled-commits", "a commit interval", standing(29 * S), None),
    Case(
        "stalled-commits",
        "nothing arrives",
        standing(38 * M, records=0),
        CRITICAL,
        "orders:0 at 1000: no commit for 38m",
    ),
    Case(
        "stalled-commits",
        "unknown whether any arrive, much waits",
        standing(38 * M, records=None),
        CRITICAL,
        "orders:0 at 1000: no commit for 38m",
    ),
    Case("stalled-commits", "a marker", standing(38 * M, records=None, lag=1), None),
    Case("stalled-commits", "a marker alone", standing(38 * M, lag=1, unread=False), None),
    Case("stalled-commits", "it came just now", standing(38 * M, unread=True, unread_since_ms=NOW - S), None),
    Case(
        "stalled-commits",
        "it waits for 6m",
        standing(38 * M, unread=True, unread_since_ms=NOW - 6 * M),
        WARNING,
        "orders:0 at 1000: no commit for 6m while 1/s (10m) arrive",
    ),
    Case("stalled-commits", "it is old", standing(38 * M, unread=True, unread_since_ms=NOW - D), CRITICAL, "for 38m"),
    Case("stalled-commits", "at the last stable offset", standing(38 * M, stable=1000), None),
    Case(
        "stalled-commits",
        "a mark lies between it and the last stable offset",
        standing(38 * M, stable=1001, unread=True, unread_offset=1001, unread_since_ms=NOW - H),
        None,
    ),
    Case("stalled-commits", "nobody reads", replace(standing(38 * M), group=EMPTY.group), None),
    Case(
        "stalled-commits",
        "commits not read",
        replace(standing(38 * M), commits=None),
        UNKNOWN,
        "the commits in __consumer_offsets were not read",
    ),
    Case(
        "stalled-commits",
        "not in the log",
        replace(standing(38 * M), commits={}, commits_since_ms=None),
        PARTLY,
        "orders:0",
    ),
    Case(
        "stalled-commits",
        "not in the last hour",
        replace(standing(38 * M), commits={}),
        CRITICAL,
        "orders:0 at 1000: no commit for over 1h while 1/s (10m) arrive",
    ),
    # idle-commits
    Case("idle-commits", "auto-commit", replace(HEALTHY, commits=IDLE), INFO, "100 of 101 commits in"),
    Case("idle-commits", "some progress", replace(HEALTHY, commits={KEYS[0]: commits(*range(200))}), None),
    Case("idle-commits", "few", replace(HEALTHY, commits={KEYS[0]: commits(*[1000] * 100)}), None),
    Case("idle-commits", "a stall is no habit", standing(38 * M, attempts=300), None),
    Case(
        "idle-commits",
        "not read",
        replace(HEALTHY, commits=None),
        UNKNOWN,
        "the commits in __consumer_offsets were not read",
    ),
    # offsets-expire
    Case("offsets-expire", "tomorrow", emptied(6 * D + H), WARNING, "6 of 6 commits expire soon, the first in 23h"),
    Case(
        "offsets-expire",
        "within the hour",
        emptied(7 * D - 59 * M),
        CRITICAL,
        "6 of 6 commits expire soon, the first in 59m (Empty since 2027-01-08 08:59Z, kept 7d)",
    ),
    Case("offsets-expire", "overdue", emptied(8 * D), CRITICAL, "next check"),
    Case("offsets-expire", "just not", emptied(6 * D), None),
    Case("offsets-expire", "old commits do not matter", committed(emptied(D), 8 * D), None),
    Case("offsets-expire", "of a consumer group they do", committed(CONSUMER, 6 * D + H, 2 * D), WARNING, "1 of 6"),
    Case("offsets-expire", "of a simple one too", committed(SIMPLE, 6 * D + H, 2 * D), WARNING, "committed 20"),
    Case("offsets-expire", "a live group", committed(HEALTHY, 8 * D), None),
    Case(
        "offsets-expire",
        "Empty since when?",
        replace(EMPTY, emptied_at_ms=None),
        UNKNOWN,
        "when the commits were made was not read",
    ),
    Case(
        "offsets-expire",
        "retention hidden",
        replace(EMPTY, broker=NO_RETENTION),
        UNKNOWN,
        "DESCRIBE_CONFIGS",
    ),
    Case(
        "offsets-expire",
        "commits not read",
        replace(CONSUMER, commits=None),
        UNKNOWN,
        "when the commits were made was not read",
    ),
    # offsets-expire-in-use
    Case("offsets-expire-in-use", "a quiet partition", committed(SIMPLE, 6 * D + H, M), WARNING, "1 of 6"),
    Case(
        "offsets-expire-in-use",
        "assign() beside an Empty group",
        committed(emptied(7 * D - M), M),
        CRITICAL,
        "6 of 6 commits expire soon, the first in 1m (Empty since 2027-01-08 08:01Z, kept 7d)",
    ),
    Case("offsets-expire-in-use", "nobody commits", committed(SIMPLE, 6 * D + H, H + 1), None),
    Case(
        "offsets-expire-in-use",
        "not subscribed",
        replace(OTHER, commits={TopicPartition("old", 0): commits(1, until_ms=NOW - 7 * D)}),
        CRITICAL,
        "1 of 1 commit expires soon, the first at the broker's next check (committed 2027-01-08 08:00Z, kept 7d)",
    ),
    Case("offsets-expire-in-use", "subscribed", committed(HEALTHY, 8 * D), None),
    Case("offsets-expire-in-use", "time not known", OTHER, UNKNOWN, "when the commits were made was not read"),
    Case(
        "offsets-expire-in-use",
        "a pattern",
        having((replace(A, subscription_regex="o.*"), B)),
        UNKNOWN,
        "pattern",
    ),
    Case(
        "offsets-expire-in-use",
        "retention hidden",
        replace(committed(SIMPLE, M), broker=NO_RETENTION),
        UNKNOWN,
        "no DESCRIBE_CONFIGS on the cluster",
    ),
    # out-of-range
    Case(
        "out-of-range",
        "lost",
        one(partition(0, 70, 100, 120)),
        CRITICAL,
        "30 offsets deleted on orders:0; still readable there: 20",
    ),
    Case(
        "out-of-range", "above", one(partition(0, 1200)), CRITICAL, "orders:0 committed 200 offsets above the log end"
    ),
    Case("out-of-range", "at the start", one(partition(0, 100, 100, 120)), None),
    Case("out-of-range", "at the end", one(partition(0, 120, 100, 120)), None),
    Case("out-of-range", "of a topic made anew", replace(one(partition(0, 1200)), topics=OTHER_ID), None),
    Case(
        "out-of-range",
        "no logs",
        having((A, B), [replace(p, log=None) for p in PARTITIONS]),
        UNKNOWN,
        "no log range could be read",
    ),
    Case(
        "out-of-range",
        "one log missing",
        one(partition(0, log=None)),
        PARTLY,
        "1 partition could not be read: orders:0",
    ),
    # passed-over
    Case("passed-over", "none", HEALTHY, None),
    Case(
        "passed-over",
        "from below the log start",
        shown(one(partition(0, 990, start=500)), leaps=(Leap(TopicPartition("orders", 0), NOW - M, 1, 100, 980, 9),)),
        WARNING,
        "offsets 100 to 499 are gone, 500 to 979 are still there",
    ),
    Case(
        "passed-over",
        "all is there",
        shown(one(partition(0, 990)), leaps=(Leap(TopicPartition("orders", 0), NOW - M, 1, 100, 980, 9),)),
        None,
    ),
    Case("passed-over", "no log", replace(HEALTHY, commits=None), UNKNOWN, "were not read"),
    # unusable-timestamps
    Case("unusable-timestamps", "none", HEALTHY, None),
    Case(
        "unusable-timestamps",
        "of 1970",
        replace(HEALTHY, logs={**HEALTHY.logs, KEYS[0]: replace(log(), unusable_ms=0)}),
        INFO,
        "timestamps of orders:0 are of 1970 (1970-01-01T00:00:00Z): the producer's clock; ages and rates are unknown",
    ),
    Case(
        "unusable-timestamps",
        "a log that was not read",
        one(partition(0, log=None)),
        PARTLY,
        "1 partition could not be read: orders:0",
    ),
    # never-read
    Case(
        "never-read",
        "added",
        long_since(one(partition(0, None))),
        WARNING,
        "1 partition with 1000 records and no commit: orders:0",
    ),
    Case(
        "never-read",
        "its group has just begun",
        one(partition(0, None)),
        EARLY,
        "may read them later",
    ),
    Case(
        "never-read",
        "of assign()",
        one(partition(0, None), SIMPLE),
        INFO,
        "1 partition with 1000 records and no commit: orders:0",
    ),
    Case("never-read", "no records", one(partition(0, None, 50, 50)), None),
    Case("never-read", "nothing committed yet", having((A, B), [partition(n, None) for n in range(6)]), None),
    Case("never-read", "size hidden", replace(HEALTHY, topics=None), PARTLY, "orders"),
    Case("never-read", "a row missing", having((A, B), PARTITIONS[1:]), PARTLY, "not read: orders:0"),
    Case(
        "never-read",
        "its log missing",
        one(partition(0, None, log=None)),
        PARTLY,
        "1 partition could not be read: orders:0",
    ),
    # topic-gone
    Case(
        "topic-gone",
        "subscribed",
        replace(HEALTHY, gone=frozenset({"orders"})),
        WARNING,
        "subscribed: orders",
    ),
    Case("topic-gone", "left-over", replace(OTHER, gone=frozenset({"old"})), INFO, "1 commit left on old"),
    Case(
        "topic-gone",
        "deleted while it was read",
        replace(HEALTHY, read=replace(HEALTHY.read, deleted=(DeletedTopic("bills", NOW, 2),))),
        WARNING,
        "while members subscribed to it, and 2 committed offsets with it",
    ),
    Case(
        "topic-gone",
        "there again",
        replace(HEALTHY, read=replace(HEALTHY.read, deleted=(DeletedTopic("orders", NOW, 2),))),
        INFO,
        "orders was deleted at",
    ),
    Case("topic-gone", "another one", replace(HEALTHY, gone=frozenset({"x"})), None),
    Case(
        "topic-gone",
        "may be hidden",
        replace(HEALTHY, gone=None),
        UNKNOWN,
        "a topic that is not shown may be hidden from this user",
    ),
    # topic-recreated
    Case(
        "topic-recreated",
        "another id",
        replace(HEALTHY, topics=OTHER_ID),
        CRITICAL,
        "6 fit into the new log by chance",
    ),
    Case(
        "topic-recreated",
        "an epoch it never had",
        replace(NO_IDS, logs={KEYS[0]: log(epoch=3)}),
        CRITICAL,
        "leader epoch",
    ),
    Case("topic-recreated", "the id decides", replace(HEALTHY, logs={KEYS[0]: log(epoch=3)}), None),
    Case("topic-recreated", "the same", NO_IDS, None),
    Case(
        "topic-recreated",
        "nothing known",
        replace(NO_IDS, logs={}),
        UNKNOWN,
        "neither topic ids (Kafka 4.1 and later) nor leader epochs of the commits are known",
    ),
    # lso-stuck
    Case("lso-stuck", "38m", held(38 * M), CRITICAL, "orders:0 is at 800 for 38m: 200 records held back"),
    Case("lso-stuck", "a minute", held(M), WARNING, "orders:0 is at 800 for 1m: 200 records held back"),
    Case("lso-stuck", "just not", held(M - 1), None),
    Case("lso-stuck", "read past", held(38 * M, 900), INFO, "reads uncommitted"),
    Case(
        "lso-stuck",
        "by the transaction's age",
        held(None, logs={KEYS[0]: replace(log(800), open_transaction=BlockingTransaction(4711, 9, 800, NOW - M))}),
        WARNING,
        "orders:0 is at 800 for 1m: 200 records held back",
    ),
    Case("lso-stuck", "since when?", held(None), PARTLY, "since when"),
    Case(
        "lso-stuck",
        "not read",
        replace(HEALTHY, logs={}),
        UNKNOWN,
        "the last stable offsets were not read",
    ),
    # hanging-transaction
    Case(
        "hanging-transaction",
        "hangs",
        replace(HEALTHY, transactions=(hanging(38 * M),)),
        CRITICAL,
        "orders:3 from 812 on, silent for 38m, producer 4711 epoch 9",
    ),
    Case(
        "hanging-transaction",
        "perhaps",
        replace(HEALTHY, transactions=(hanging(38 * M, None),)),
        WARNING,
        "could not",
    ),
    Case("hanging-transaction", "known", replace(HEALTHY, transactions=(hanging(38 * M, True),)), None),
    Case("hanging-transaction", "just not", replace(HEALTHY, transactions=(hanging(15 * M),)), None),
    Case(
        "hanging-transaction",
        "not asked",
        replace(HEALTHY, transactions=None),
        UNKNOWN,
        "open transactions were not asked for (DescribeProducers: READ on the topic)",
    ),
)
