"""Clients of Java: consumers, Kafka Streams and Kafka Connect."""

from functools import partial

from tests.situations.row import Action, At, Program, Row, Says

Java = partial(Program, client="java")

POISON = (Action(0, "poison", "t:0"),)
SKIP = ("reset --to-offset t:0=P+1 --save-skipped",)
SKIPS_A_HEALTHY_ONE = ("reset t:0=P+2",)
AT_P = At("t:0", offset="P", committed="P")

ROWS = (
    Row(
        id="h-steady-java",
        healthy=True,
        cause="keeps up; Java commits its position each 5 s, and again while there is nothing to read",
        programs=(Java(commit="auto", members=2),),
        begin=(Action(60, "quiet"),),
        wrong=Says(lag="warn"),
    ),
    Row(
        id="poison-java-spring",
        cause="record P fails at each try; seeks back, waits 5 s, tries again, and commits nothing of it (Spring)",
        programs=(Java(commit="batch", bad="seek:5"),),
        begin=POISON,
        at=(AT_P,),
        right=Says(lag="stop", rules="stalled-commits", describe="<P>"),
        harms=SKIPS_A_HEALTHY_ONE,
        helps=SKIP,
    ),
)
