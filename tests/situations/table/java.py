"""Clients of Java: consumers, Kafka Streams and Kafka Connect."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from tests.situations.row import Action, At, Feed, Moment, Program, Row, Says

JAVA = partial(Program, client="java")
STREAMS = partial(Program, client="streams", commit="auto", topics=("t", "out"))
COPIED: Final = {"t": 2, "out": 2}
FED = Feed(only=("t:0", "t:1"))

CONSUMER: Final = {"group.protocol": "consumer"}
COOPERATIVE: Final = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
EOS: Final = {"processing.guarantee": "exactly_once_v2"}
JSON: Final = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
POISON = (Action(0, "poison", "t:0"),)
SKIP = ("reset --to-offset t:0=P+1 --save-skipped",)
SKIPS_A_HEALTHY_ONE = ("reset t:0=P+2",)
FIRST_OF_BATCH = ("reset t:0=B+1",)
AT_P = At("t:0", offset="P", committed="P")
AT_B = At("t:0", offset="P", committed="B")
SESSION = "session 10 s"


def poison(
    id_: str,
    cause: str,
    lag: str,
    bad: str,
    commit: str = "auto",
    settings: Mapping[str, str] | None = None,
    harms: tuple[str, ...] = SKIPS_A_HEALTHY_ONE,
) -> Row:
    """Record P is never processed, and P stays committed."""
    return Row(
        id=id_,
        cause=cause,
        programs=(JAVA(commit=commit, bad=bad, settings=settings or {}),),
        begin=POISON,
        at=(AT_P,),
        right=Says(lag=lag, rules="stalled-commits", describe="<P>"),
        harms=harms,
        helps=SKIP,
    )


ROWS = (
    Row(
        id="h-steady-java",
        healthy=True,
        cause="keeps up; commits its position each 5 s, and again while there is nothing to read",
        programs=(JAVA(commit="auto", members=2),),
        begin=(Action(60, "quiet"),),
        wrong=Says(lag="warn"),
    ),
    Row(
        id="h-steady-java-848",
        healthy=True,
        cause="as before, with the consumer protocol",
        programs=(JAVA(commit="auto", members=2, settings=CONSUMER),),
        begin=(Action(60, "quiet"),),
        wrong=Says(lag="warn"),
    ),
    Row(
        id="h-timer-60s-java",
        healthy=True,
        cause="commits its position each 60 s, also where it has not moved: a lag up to 300 is its habit",
        programs=(JAVA(commit="auto", members=2, settings={"auto.commit.interval.ms": "60000"}),),
        feed=Feed(per_s=5),
        warm_s=190,
        begin=(Action(150, "quiet"),),
    ),
    Row(
        id="h-long-batch-java",
        healthy=True,
        cause="what one poll returns takes up to 20 s, and is committed at its end",
        programs=(JAVA(commit="batch", members=2, work_ms=40, settings={"max.poll.records": "500"}),),
        feed=Feed(per_s=10),
        warm_s=90,
    ),
    Row(
        id="h-assign-java",
        healthy=True,
        cause="reads by assign(): commits, and the group has no members",
        programs=(JAVA(commit="each", subscribe="assign"),),
        wrong=Says(lag="no-reader", rules="no-reader"),
    ),
    Row(
        id="h-rollout-java",
        healthy=True,
        cause="a rolling deploy of four members with cooperative rebalances, each back after 3 s",
        programs=(JAVA(commit="auto", members=4, restart_s=3, settings=COOPERATIVE),),
        topics={"t": 4},
        begin=tuple(Action(15 * n, "term", f"app-{n}") for n in range(4)),
        wrong=Says(rules="rebalance-storm", history="crash-loop"),
        timeouts="a pod is replaced each 15 s",
    ),
    Row(
        id="h-streams",
        healthy=True,
        cause="Kafka Streams with a repartition topic keeps up, and commits each 30 s",
        programs=(STREAMS(),),
        topics=COPIED,
        feed=FED,
        warm_s=130,
        wrong=Says(rules="ready-to-migrate"),
    ),
    Row(
        id="h-streams-eos",
        healthy=True,
        cause="Kafka Streams, exactly once: it commits in transactions, and their markers stay unread",
        programs=(STREAMS(settings=EOS),),
        topics=COPIED,
        feed=FED,
        warm_s=60,
        wrong=Says(lag="warn", rules="ready-to-migrate lso-stuck"),
    ),
    Row(
        id="h-connect",
        healthy=True,
        cause="a sink connector with two tasks keeps up, and its worker commits each 60 s",
        programs=(Program(client="connect", commit="timer:60", settings={"tasks.max": "2"}),),
        warm_s=190,
        wrong=Says(rules="ready-to-migrate"),
    ),
    poison(
        "poison-java-spring",
        "record P fails at each try; the client seeks back and waits 5 s (Spring), and commits nothing of it",
        lag="stop",
        commit="batch",
        bad="seek:5",
    ),
    poison(
        "poison-java-auto",
        "record P fails at each try; the client seeks back to P and commits it each 5 s: Java commits its position",
        lag="stall stop",
        bad="seek",
    ),
    poison(
        "poison-java-848",
        "as poison-java-auto, with the consumer protocol, whose client may commit past P before it seeks back",
        lag="stall stop",
        bad="seek",
        settings=CONSUMER,
        harms=(*SKIPS_A_HEALTHY_ONE, "undo"),
    ),
    poison(
        "poison-java-pause",
        "record P failed and its partition is paused at P, which is committed each 5 s",
        lag="stall stop",
        bad="pause",
    ),
    Row(
        id="crash-java",
        cause="record P ends each process by an exception, and the consumer is closed on the way",
        programs=(JAVA(commit="each", bad="throw", restart_s=2),),
        begin=POISON,
        at=(AT_P,),
        right=Says(rules="rebalance-storm", describe="crash loop.*t:0.*<P>", history="crash-loop"),
        allowed=Says(lag="no-reader stop stall", rules="no-reader stalled-commits idle-commits"),
        wrong=Says(history="session-expired"),
        helps=SKIP,
    ),
    Row(
        id="lost-java-auto",
        cause="record P ends a process by an exception; close() commits what was polled, so P and more are lost",
        programs=(JAVA(commit="auto", bad="throw", restart_s=2),),
        begin=POISON,
        at=(At("t:0", offset="P"),),
        wrong=Says(lag="warn", history="crash-loop"),
        harms=("reset", "evict"),
        unseen="commits show how far a group came, not which records were processed",
    ),
    Row(
        id="slow-batch-default",
        cause="500 records of a poll take 500 s, more than max.poll.interval.ms: it leaves, and reads them again",
        programs=(JAVA(commit="batch", name="before"), JAVA(commit="batch", work_ms=1000, waits=True)),
        feed=Feed(per_s=5),
        begin=(Action(0, "end", "before"), Action(55, "start", "app")),
        right=Says(describe="max.poll.(interval.ms|records)", history="poll-interval-exceeded"),
        allowed=Says(lag="stop no-reader warn", rules="stalled-commits no-reader large-gap poll-interval"),
        wrong=Says(history="session-expired"),
        harms=("reset",),
        named_by=Moment.TEN_MINUTES,
    ),
    Row(
        id="topic-left-pattern",
        cause="the application's pattern does not match the topic old any more; its offsets of it stand for ever",
        programs=(
            JAVA(commit="each", topics=("old", "new"), subscribe="pattern", settings=CONSUMER),
            JAVA(commit="each", topics=("new",), name="later", subscribe="pattern", waits=True, settings=CONSUMER),
        ),
        topics={"old": 2, "new": 2},
        begin=(Action(0, "end", "app"), Action(3, "start", "later")),
        right=Says(lag="unsubscribed", rules="unsubscribed"),
        wrong=Says(lag="stop stall", rules="stalled-commits"),
        harms=("reset",),
        helps=("delete-offsets old",),
    ),
    Row(
        id="streams-throw",
        cause="record P ends each thread of the application, and a new one takes its place (REPLACE_THREAD)",
        programs=(STREAMS(bad="throw:REPLACE_THREAD"),),
        topics=COPIED,
        feed=FED,
        warm_s=80,
        begin=POISON,
        at=(AT_B,),
        right=Says(rules="rebalance-storm", describe="crash loop.*t:0.*<B>", history="crash-loop"),
        allowed=Says(lag="no-reader stop stall", rules="no-reader stalled-commits idle-commits"),
        harms=FIRST_OF_BATCH,
        helps=SKIP,
        timeouts=SESSION,
    ),
    Row(
        id="streams-shutdown",
        cause="record P ends the application, for good (SHUTDOWN_CLIENT); what stands committed is before P",
        programs=(STREAMS(bad="throw:SHUTDOWN_CLIENT"),),
        topics=COPIED,
        feed=FED,
        warm_s=80,
        begin=POISON,
        at=(AT_B, At("t:1")),
        right=Says(lag="no-reader", rules="no-reader"),
        allowed=Says(lag="no-reader"),
        wrong=Says(history="crash-loop"),
        harms=FIRST_OF_BATCH,
        helps=SKIP,
        timeouts=SESSION,
    ),
    Row(
        id="connect-failed-task",
        cause="a record that is no JSON fails the only task of a sink connector: the group has no members any more",
        programs=(Program(client="connect", commit="timer:60", bad="fail", settings=JSON),),
        begin=POISON,
        at=(AT_B, At("t:1")),
        right=Says(lag="no-reader", rules="no-reader", describe="failed.*Connect"),
        wrong=Says(history="crash-loop"),
        harms=FIRST_OF_BATCH,
        helps=SKIP,
    ),
)
