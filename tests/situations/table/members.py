"""Members that differ from the others, come and go, or are gone."""

from tests.situations.row import Action, At, Feed, Later, Moment, Program, Row, Says

STORM = "rebalance-storm"
WHILE_IT_WAITS = Says(lag="stop stall", rules="stalled-commits")


OVER = "0-static.*session ended.*took its partitions over"
GONE = Says(describe=OVER, doctor=OVER, history="session-expired")
"""Others read what a member had; that it was lost is still worth a line."""


def static(session_ms: int) -> dict[str, str]:
    """A static member with a session of its own."""
    return {"group.instance.id": "{n}-static", "session.timeout.ms": str(session_ms)}


ROWS = (
    Row(
        id="slow-member",
        cause="one of three members takes 900 ms a record",
        programs=(
            Program(commit="each", members=2),
            Program(commit="each", name="slow", work_ms=900),
        ),
        topics={"t": 6},
        right=Says(rules="skewed-lag", describe="slow-0"),
        allowed=Says(lag="warn stall stop", rules="skewed-partitions large-gap"),
        wrong=Says(rules="hot-partition"),
        harms=("reset",),
    ),
    Row(
        id="refused",
        cause="a deploy brings another assignor: the new member may not join, and the old one alone is too slow",
        programs=(
            Program(commit="each", members=2, work_ms=300, settings={"partition.assignment.strategy": "range"}),
            Program(commit="each", name="new", waits=True, settings={"partition.assignment.strategy": "roundrobin"}),
        ),
        topics={"t": 4},
        feed=Feed(per_s=1.25),
        begin=(Action(0, "end", "app-1"), Action(2, "start", "new")),
        allowed=Says(lag="warn", rules="large-gap skewed-lag"),
        wrong=Says(rules="rebalance-storm rebalance-waits", history="crash-loop|session-expired"),
        harms=("reset", "evict"),
        unseen="a member that the group refuses leaves nothing in the log",
    ),
    Row(
        id="intruder",
        cause="somebody's laptop is a member: its partitions are read there, and nothing is committed",
        programs=(
            Program(commit="each", members=2),
            Program(commit="none", name="laptop", waits=True),
        ),
        topics={"t": 6},
        begin=(Action(0, "start", "laptop"),),
        right=Says(lag="stop", rules="stalled-commits skewed-lag", describe="laptop-0"),
        harms=("reset",),
        helps=("evict",),
    ),
    Row(
        id="static-gone",
        cause="a static member was killed and stays away: its partitions wait until its session ends",
        programs=(Program(commit="each", members=2, settings=static(240000)),),
        begin=(Action(0, "kill", "app-0"),),
        right=Says(lag="stop", describe="0-static"),
        allowed=Says(rules="stalled-commits skewed-lag static-session"),
        harms=("evict 1-static", "reset"),
        helps=("evict --instance 0-static",),
        timeouts="session 4 m",
        later=Later(
            Moment.TEN_MINUTES,
            "its session ended after 4 minutes, and the other member reads its partitions",
            reads=("t:0", "t:1"),
            right=GONE,
            harms=("evict", "reset"),
        ),
    ),
    Row(
        id="no-rejoin",
        cause="a member that hangs does not rejoin, and all others wait for it",
        programs=(
            Program(commit="each", members=3, bad="block"),
            Program(commit="each", name="fourth", bad="block", waits=True),
        ),
        topics={"t": 4},
        begin=(Action(0, "poison", "t:0"), Action(5, "start", "fourth")),
        at=(At("t:0"),),
        right=Says(rules="rebalance-waits", describe="waits (for|until)"),
        allowed=WHILE_IT_WAITS,
        later=Later(
            Moment.TEN_MINUTES,
            "the rebalance left it out after 5 minutes; the next one got t:0 and t:1, and hangs at P; others read on",
            at=(At("t:0", offset="P", committed="P"), At("t:1")),
            reads=("t:2", "t:3"),
            right=Says(lag="stop", rules="stalled-commits", describe="owns t:0 and 1 more.*still heartbeats"),
            wrong=Says(describe="it polls"),
            helps=("reset --to-offset t:0=P+1 --save-skipped",),
        ),
    ),
    Row(
        id="flapper",
        cause="one member leaves 3 s after each join, and is back 4 s later",
        programs=(
            Program(commit="each", members=3),
            Program(commit="each", name="flapper", life="3s:close", restart_s=4, waits=True),
        ),
        topics={"t": 6},
        begin=(Action(0, "start", "flapper"),),
        right=Says(rules=STORM, describe="flapper-0"),
        allowed=WHILE_IT_WAITS,
        wrong=Says(history="session-expired"),
        harms=("reset",),
    ),
    Row(
        id="pauses",
        cause="a process stands for 14 s of each 30 s, as in a garbage collection; its session ends each time",
        programs=(Program(commit="each", members=2),),
        begin=tuple(
            Action(at + wait, do, "app-0") for at in range(0, 600, 30) for wait, do in ((0, "stop"), (14, "cont"))
        ),
        right=Says(rules=STORM, history="session-expired"),
        allowed=WHILE_IT_WAITS,
        wrong=Says(history="crash-loop"),
        harms=("reset",),
        timeouts="session 10 s",
    ),
    Row(
        id="same-instance",
        cause="two processes have one group.instance.id, and fence each other again and again",
        programs=(
            Program(commit="each", restart_s=3, settings={"group.instance.id": "same"}),
            Program(commit="each", name="twin", restart_s=3, waits=True, settings={"group.instance.id": "same"}),
        ),
        begin=(Action(0, "start", "twin"),),
        right=Says(rules="shared-instance", describe="two processes", history="static-member-replaced"),
        wrong=Says(history="crash-loop"),
        harms=("reset", "evict"),
    ),
    Row(
        id="two-apps",
        cause="two applications, each with its own topic, have one group.id",
        programs=(
            Program(commit="each", topics=("a",), name="one"),
            Program(commit="each", topics=("b",), name="two"),
        ),
        topics={"a": 2, "b": 2},
        right=Says(rules="mixed-subscriptions"),
        harms=("reset", "delete-offsets"),
        named_by=Moment.TEN_MINUTES,
    ),
    Row(
        id="scaled-to-0",
        cause="all members were closed, and records go on to arrive",
        programs=(Program(commit="each", members=2),),
        begin=(Action(0, "term"),),
        right=Says(lag="no-reader", rules="no-reader"),
        wrong=Says(history="session-expired|crash-loop"),
        helps=("start",),
    ),
    Row(
        id="all-killed",
        cause="all members were killed, and records go on to arrive",
        programs=(Program(commit="each", members=2),),
        begin=(Action(0, "kill"),),
        right=Says(lag="no-reader", rules="no-reader", history="session-expired"),
        wrong=Says(history="crash-loop"),
        helps=("start",),
    ),
    Row(
        id="zombie",
        cause="za-0 commits offset 10 of the partition that another member reads and commits: two writers",
        programs=(
            Program(commit="each"),
            Program(commit="fixed:10@1s", name="za", waits=True),
        ),
        begin=(Action(0, "start", "za"),),
        right=Says(describe="two writers", doctor="two writers", history="two writers"),
        allowed=Says(lag="rewind"),
        wrong=Says(describe="application (seeks|goes back)"),
        harms=("reset", "undo", "evict app-0"),
        helps=("evict za-0",),
    ),
    Row(
        id="crash-before-sync",
        cause="a process dies in each of its joins: all others wait for its session to end, again and again",
        programs=(
            Program(commit="each", members=2),
            Program(commit="each", name="dying", life="before-sync", restart_s=5, waits=True),
        ),
        begin=(Action(0, "start", "dying"),),
        right=Says(rules=f"{STORM} rebalance-waits", history="never-synced"),
        allowed=WHILE_IT_WAITS,
        harms=("reset", "evict app-0", "evict app-1"),
        named_by=Moment.TEN_MINUTES,
        timeouts="session 10 s",
    ),
    Row(
        id="static-leader-gone",
        cause="a static member was killed as a third one joined: the rebalance waits until its session ends",
        programs=(
            Program(commit="each", members=2, settings=static(240000)),
            Program(commit="each", name="third", waits=True),
        ),
        topics={"t": 3},
        begin=(Action(0, "kill", "app-0"), Action(1, "start", "third")),
        right=Says(rules="rebalance-waits", describe="0-static"),
        allowed=WHILE_IT_WAITS,
        harms=("evict 1-static", "reset"),
        helps=("evict --instance 0-static",),
        timeouts="session 4 m",
        later=Later(
            Moment.TEN_MINUTES,
            "its session ended after 4 minutes, and with it the rebalance: the two others read all partitions",
            reads=("t:0", "t:1", "t:2"),
            right=GONE,
            harms=("evict", "reset"),
        ),
    ),
    Row(
        id="hot-key",
        cause="45 of 50 records have one key: one partition gets more than its member can read",
        programs=(Program(commit="each", members=3, work_ms=25),),
        topics={"t": 6},
        feed=Feed(per_s=1, hot=("t:3", 45)),
        at=(At("t:3"),),
        right=Says(rules="hot-partition", describe=r"t:3 gets \d+% of what arrives"),
        allowed=Says(lag="warn", rules="large-gap"),
        harms=("reset", "evict", "simulate --add"),
        named_by=Moment.TEN_MINUTES,
    ),
)
