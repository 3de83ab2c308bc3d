"""Processes that end, and are started again, for one record or for another reason."""

from tests.situations.row import Action, At, Moment, Program, Row, Says

POISON = (Action(0, "poison", "t:0"),)
STORM = "rebalance-storm"
SKIP = ("reset --to-offset t:0=P+1 --save-skipped",)
AT_P = At("t:0", offset="P", committed="P")
BETWEEN_LIVES = Says(lag="no-reader stop stall", rules="no-reader stalled-commits idle-commits")
"""While no process lives nobody reads, and the record stands: true, and not the point."""

LOOP = Says(rules=STORM, describe="crash loop.*t:0.*<P>", history="crash-loop")

ROWS = (
    Row(
        id="crash-close",
        cause="record P ends each process, which leaves the group cleanly",
        programs=(Program(commit="each", bad="close-exit", restart_s=2),),
        begin=POISON,
        at=(AT_P,),
        right=LOOP,
        allowed=BETWEEN_LIVES,
        wrong=Says(history="session-expired"),
        helps=SKIP,
    ),
    Row(
        id="crash-kill9",
        cause="record P kills each process; the group hears of it when its session ends",
        programs=(Program(commit="each", bad="kill9", restart_s=2),),
        begin=POISON,
        at=(AT_P,),
        right=LOOP,
        allowed=BETWEEN_LIVES,
        wrong=Says(describe="raise session.timeout.ms"),
        helps=SKIP,
        timeouts="session 10 s",
    ),
    Row(
        id="crash-848",
        cause="record P kills each process, with the consumer protocol",
        programs=(Program(commit="each", bad="kill9", restart_s=2, settings={"group.protocol": "consumer"}),),
        begin=POISON,
        at=(AT_P,),
        right=LOOP,
        allowed=BETWEEN_LIVES,
        helps=SKIP,
    ),
    Row(
        id="crash-auto",
        cause="record P kills each process; what is committed is older, by up to 30 s of records",
        programs=(Program(commit="auto", bad="kill9", restart_s=2, settings={"auto.commit.interval.ms": "30000"}),),
        begin=POISON,
        at=(At("t:0", offset="P"),),
        right=Says(rules=STORM, describe="crash loop.*t:0|or a later one", history="crash-loop"),
        allowed=BETWEEN_LIVES,
        harms=("reset t:0=P-1", "reset t:0=P-2", "reset t:0=C+1"),
        helps=SKIP,
        timeouts="session 10 s; commits each 30 s, not 5 s, so that none comes between P and the end of the process",
    ),
    Row(
        id="crash-creeps",
        cause="each process dies after one record, whichever it is: the offset moves by one a life",
        programs=(
            Program(commit="each", restart_s=2),
            Program(commit="each", name="dying", restart_s=2, waits=True, life="records:1:kill9"),
        ),
        begin=(Action(0, "end", "app-0"), Action(1, "start", "dying")),
        right=Says(rules=STORM, describe="crash loop", history="crash-loop"),
        allowed=BETWEEN_LIVES,
        harms=("reset",),
        timeouts="session 10 s",
    ),
    Row(
        id="crash-before-commit",
        cause="commits each 60 s, and dies 20 s after each start: it reads the same records again and again",
        programs=(
            Program(commit="timer:60"),
            Program(commit="timer:60", name="dying", life="20s", restart_s=2, waits=True),
        ),
        warm_s=190,
        begin=(Action(0, "end", "app-0"), Action(1, "start", "dying")),
        right=Says(rules=STORM, describe="crash loop", history="crash-loop"),
        allowed=BETWEEN_LIVES,
        wrong=Says(describe="cannot be processed", doctor="ends every process that reads it"),
        harms=("reset",),
        timeouts="session 10 s",
    ),
    Row(
        id="crash-3-members",
        cause="record P kills the member that has t:0, and goes from member to member",
        programs=(Program(commit="each", members=3, bad="kill9", restart_s=2),),
        topics={"t": 6},
        begin=POISON,
        at=(AT_P,),
        right=LOOP,
        allowed=Says(lag="no-reader stop stall warn", rules="no-reader stalled-commits idle-commits"),
        harms=("evict",),
        helps=SKIP,
        timeouts="session 10 s",
    ),
    Row(
        id="crash-no-record",
        cause="each process dies 8 s after its start, as one without memory does; no record is the cause",
        programs=(Program(commit="each", life="8s", restart_s=2),),
        right=Says(rules=STORM, describe="ends? by itself|die|crash loop", history="crash-loop"),
        allowed=BETWEEN_LIVES,
        harms=("reset",),
        timeouts="session 10 s",
    ),
    Row(
        id="crash-static",
        cause="record P kills a static member that is back in 2 s: no rebalance, and it stands at P",
        programs=(
            Program(
                commit="each",
                bad="kill9",
                restart_s=2,
                settings={"group.instance.id": "app-{n}", "session.timeout.ms": "30000"},
            ),
        ),
        begin=POISON,
        at=(AT_P,),
        right=Says(lag="stop stall", rules=f"stalled-commits {STORM}", describe="crash loop.*t:0.*<P>"),
        allowed=Says(lag="stop stall"),  # t:1 is not read in lives that end at t:0 first
        helps=SKIP,
        named_by=Moment.TEN_MINUTES,
        timeouts="session 30 s",
    ),
)
