"""Members that hang, or take too long."""

from tests.situations.row import Action, At, Feed, Later, Moment, Program, Row, Says

POISON = (Action(0, "poison", "t:0"),)
SKIP = ("reset --to-offset t:0=P+1 --save-skipped",)
MINUTE = {"max.poll.interval.ms": "60000"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky", "max.poll.interval.ms": "600000"}
ALL_AT_ONCE = (
    r"(all|every|each|both)\b[^\n]*(at once|at the same|same moment|same time|together|of each other|within \d)"
    r"|depend(s|ency)\b|what (they|all of them|all members) (use|need|call)"
)
"""What stops all that a group does at one moment is no record, but something that its members share."""

ROWS = (
    Row(
        id="hang-poll",
        cause="its handler hangs at P; after max.poll.interval.ms it leaves the group, and its process lives on",
        programs=(Program(commit="each", bad="block", settings=MINUTE),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"), At("t:1")),
        right=Says(describe="max.poll.interval.ms.*(hang|hung|process)", history="poll-interval-exceeded"),
        allowed=Says(lag="no-reader stop", rules="no-reader stalled-commits"),
        wrong=Says(history="session-expired"),
        helps=SKIP,
        timeouts="max.poll.interval.ms 60 s",
    ),
    Row(
        id="hang-default",
        cause="one of two members hangs at P and heartbeats on; its partition stands",
        programs=(Program(commit="each", members=2, bad="block"),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stop", rules="stalled-commits", describe="<P>"),
        allowed=Says(lag="no-reader", rules="no-reader rebalance-storm"),
        helps=SKIP,
        later=Later(
            Moment.TEN_MINUTES,
            "after its max.poll.interval.ms of 5 minutes it has left; the other one got t:0 too, and hangs at P",
            at=(At("t:0", offset="P", committed="P"), At("t:1")),
            right=Says(
                lag="stop no-reader",
                rules="stalled-commits no-reader",
                describe="owns t:0 and 1 more stuck partition and still heartbeats|"
                "max.poll.interval.ms.*(hang|hung|process)|<P>",
            ),
            wrong=Says(describe="it polls"),
            helps=SKIP,
        ),
    ),
    Row(
        id="hang-endless",
        cause="its handler hangs at P, and its max.poll.interval.ms is an hour",
        programs=(Program(commit="each", bad="block", settings={"max.poll.interval.ms": "3600000"}),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"), At("t:1")),
        right=Says(lag="stop", rules="stalled-commits", describe="<P>"),
        allowed=Says(rules="poll-interval"),
    ),
    Row(
        id="frozen-process",
        cause="a process is frozen; its session ends, and the other member takes over",
        programs=(Program(commit="each", members=2),),
        begin=(Action(0, "stop", "app-0"),),
        right=Says(describe="session (ended|expired)", doctor="session (ended|expired)", history="session-expired"),
        wrong=Says(history="crash-loop"),
        harms=("reset",),
        timeouts="session 10 s",
    ),
    Row(
        id="slow-batch",
        cause="a batch takes longer than max.poll.interval.ms: it leaves, comes back and reads the same batch again",
        programs=(Program(commit="batch", batch=50, work_ms=2000, settings={"max.poll.interval.ms": "30000"}),),
        right=Says(describe="max.poll.(interval.ms|records)", rules="rebalance-storm"),
        allowed=Says(lag="stop stall no-reader", rules="stalled-commits no-reader large-gap poll-interval"),
        wrong=Says(history="session-expired"),
        harms=("reset",),
        timeouts="max.poll.interval.ms 30 s",
    ),
    Row(
        id="slow-once",
        cause="record P takes 90 s this once: the member that has it is late for max.poll.interval.ms of 30 s",
        programs=(Program(commit="each", members=2, bad="slow:90", settings={"max.poll.interval.ms": "30000"}),),
        topics={"t": 4},
        begin=POISON,
        at=(At("t:0", offset="P"), At("t:1")),
        right=Says(lag="stop", rules="stalled-commits", describe="<P>|max.poll.interval.ms"),
        allowed=Says(rules="poll-interval"),
        harms=("reset",),
        timeouts="max.poll.interval.ms 30 s",
        later=Later(
            Moment.TWO_MINUTES,
            "it was put out of the group, is back, and all partitions are read",
            healthy=True,
            reads=("t:0", "t:1", "t:2", "t:3"),
            allowed=Says(rules="poll-interval"),
            wrong=Says(lag="warn", rules="rebalance-storm", history="crash-loop|session-expired"),
        ),
    ),
    Row(
        id="database-down",
        cause="the database is down for 5 minutes: each member tries each record again and again; no record is bad",
        programs=(Program(commit="each", members=2, bad="seek"),),
        topics={"t": 4},
        begin=(Action(0, "break", "app"), Action(300, "mend", "app")),
        at=(At("t:0", committed="C C+1"), At("t:1"), At("t:2"), At("t:3")),
        right=Says(describe=ALL_AT_ONCE, doctor=ALL_AT_ONCE),
        allowed=Says(lag="stop stall", rules="stalled-commits"),
        wrong=Says(describe="cannot be processed(?!, or)"),
        harms=("reset", "evict"),
        later=Later(
            Moment.TEN_MINUTES,
            "the database is back since 5 minutes, and all records are processed",
            healthy=True,
            reads=("t:0", "t:1", "t:2", "t:3"),
            wrong=Says(lag="warn"),
        ),
    ),
    Row(
        id="revoke-blocks",
        cause="a third member joins; the callback of app-0 for revoked partitions hangs for 4 minutes, and all wait",
        programs=(
            Program(commit="each", name="app", revoke_s=240, settings=COOPERATIVE),
            Program(commit="each", name="other", settings=COOPERATIVE),
            Program(commit="each", name="third", waits=True, settings=COOPERATIVE),
        ),
        topics={"t": 6},
        begin=(Action(0, "start", "third"),),
        right=Says(rules="rebalance-waits", describe="app-0"),
        allowed=Says(lag="stop stall no-reader"),
        wrong=Says(history="crash-loop|session-expired"),
        harms=("reset", "evict other-0", "evict third-0"),
        later=Later(
            Moment.TEN_MINUTES,
            "the callback has ended, the three members share the partitions, and read all",
            healthy=True,
            reads=tuple(f"t:{n}" for n in range(6)),
            wrong=Says(lag="warn", rules="rebalance-storm"),
        ),
    ),
    Row(
        id="too-slow",
        cause="one member takes 200 ms a record, and 12 records a second arrive",
        programs=(Program(commit="each", work_ms=200),),
        topics={"t": 4},
        feed=Feed(per_s=3),
        right=Says(lag="warn", rules="large-gap"),
        allowed=Says(lag="stop stall", rules="skewed-partitions"),
        harms=("reset", "evict"),
        helps=("scale",),
    ),
    Row(
        id="throttled",
        cause="a quota of its client ids lets it read less than arrives",
        programs=(Program(commit="auto", members=2, settings={"client.id": "throttled-{n}"}),),
        feed=Feed(per_s=20),
        begin=(Action(0, "quota", "throttled-0=300"), Action(0, "quota", "throttled-1=300")),
        right=Says(describe="quota|throttle", doctor="quota|throttle"),
        allowed=Says(lag="warn", rules="large-gap"),
        harms=("reset", "evict"),
        helps=("remove the quota",),
    ),
)
