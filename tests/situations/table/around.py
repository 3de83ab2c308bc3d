"""What changed around a group, in its deployments or its producers; its members do what they are made for."""

from dataclasses import replace

from tests.situations.row import Action, At, Feed, Moment, Program, Row, Says

NO_MORE = "(no|nothing)[^\\n]*(arriv|came|comes|produced)|(arriv|produc)[^\\n]*(stopped|ended)"
NEW_ONES = "(rollout|deploy|restart|replaced|joined)"
SINCE_ROLLOUT = f"(slower|since|began)[^\\n]*{NEW_ONES}|{NEW_ONES}[^\\n]*slow"
OTHER_GROUP = "[.]g2\\b[^\\n]*(took|takes|reads|instead|since)|(took|taken|read|replaced)[^\\n]*[.]g2\\b"

PASSED_OVER = (
    Action(0, "term"),
    Action(5, "records", "t:0=3000"),
    Action(8, "delete-records", "t:0=E+1500"),
    Action(10, "start"),
)
WHILE_STOPPED = Says(lag="no-reader stop", rules="no-reader out-of-range")
BY_AUTO_OFFSET_RESET = Says(
    describe="t:0.*(auto.offset.reset|passed over|skipped|out of range|deleted)", doctor="auto.offset.reset|passed over"
)

OVER = Row(
    id="passed-over",
    cause="1,500 records of t:0 were deleted while it was stopped; auto.offset.reset=latest passed over 1,500 more",
    programs=(Program(commit="auto", settings={"auto.offset.reset": "latest"}),),
    feed=Feed(per_s=5),
    begin=PASSED_OVER,
    at=(At("t:0"),),
    reads=("t:0", "t:1"),
    right=BY_AUTO_OFFSET_RESET,
    allowed=WHILE_STOPPED,
    wrong=Says(describe="no member committed", history="by no-member"),
    harms=("reset --to-latest",),
)

ROWS = (
    OVER,
    replace(
        OVER,
        id="passed-over-each",
        cause="as passed-over, by a client that commits each record, and so as often where it reads what is there",
        programs=(Program(commit="each", settings={"auto.offset.reset": "latest"}),),
    ),
    Row(
        id="group-renamed",
        cause="its application was deployed with group id g2, which reads t; nobody commits in g any more",
        programs=(
            Program(commit="each", members=2),
            Program(commit="each", members=2, group="g2", name="renamed", waits=True),
        ),
        begin=(Action(0, "term", "app"), Action(5, "start", "renamed")),
        right=Says(describe=OTHER_GROUP, doctor=OTHER_GROUP),
        allowed=Says(lag="no-reader", rules="no-reader"),
        harms=("reset", "catchup start"),
    ),
    Row(
        id="wrong-environment",
        cause="a deployment of staging runs with production's group id: what it reads production never sees",
        programs=(
            Program(commit="each", members=2),
            Program(commit="each", name="staging", waits=True),
        ),
        topics={"t": 6},
        begin=(Action(0, "start", "staging"),),
        right=Says(describe="staging-0", doctor="staging-0"),
        harms=("reset", "evict app-0", "evict app-1"),
        helps=("evict staging-0",),
    ),
    Row(
        id="slow-rollout",
        cause="a deploy replaced its members, and the new ones take 300 ms a record, not 5 ms: the lag grows since",
        programs=(
            Program(commit="each", members=2, work_ms=5),
            Program(commit="each", members=2, work_ms=300, name="new", waits=True, settings={"client.id": "app-{n}"}),
        ),
        topics={"t": 4},
        feed=Feed(per_s=3),
        warm_s=60,
        begin=(
            Action(0, "end", "app-0"),
            Action(3, "start", "new-0"),
            Action(15, "end", "app-1"),
            Action(18, "start", "new-1"),
        ),
        right=Says(describe=SINCE_ROLLOUT, doctor=SINCE_ROLLOUT),
        allowed=Says(lag="warn stall stop", rules="large-gap skewed-partitions skewed-lag"),
        harms=("reset", "evict"),
    ),
    Row(
        id="assign-some",
        cause="reads t:0 and t:1 by assign(); t has four partitions, and nobody reads the two others",
        programs=(Program(commit="each", subscribe="assign:0,1"),),
        topics={"t": 4},
        at=(At("t:2"), At("t:3")),
        reads=("t:0", "t:1"),
        right=Says(rules="never-read", describe="t:[23].*(no commit|never|unread|not read|no member)|never.*t:[23]"),
        allowed=Says(lag="no-reader", rules="no-reader"),
        wrong=Says(describe="crash"),
        harms=("evict", "delete-offsets"),
    ),
    Row(
        id="input-stopped",
        cause="its producer died: no record arrives where ten a second came, and the group has read all",
        programs=(Program(commit="each", members=2),),
        feed=Feed(per_s=5),
        warm_s=60,
        begin=(Action(0, "quiet"),),
        right=Says(describe=NO_MORE, doctor=NO_MORE),
        wrong=Says(lag="warn unsubscribed"),
        harms=("reset", "delete", "delete-offsets", "evict"),
        named_by=Moment.TEN_MINUTES,
    ),
)
