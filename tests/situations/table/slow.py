"""Members that hang, or take too long."""

from tests.situations.row import Action, At, Feed, Later, Moment, Program, Row, Says

POISON = (Action(0, "poison", "t:0"),)
SKIP = ("reset --to-offset t:0=P+1 --save-skipped",)
MINUTE = {"max.poll.interval.ms": "60000"}

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
