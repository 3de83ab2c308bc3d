"""Groups that stand at a record which cannot be processed."""

from tests.situations.row import Action, At, Feed, Moment, Program, Row, Says

POISON = (Action(0, "poison", "t:0"),)
BURSTS = Feed(burst=(10, 5))
FLIPS = Says(
    lag="stall stop", rules="stalled-commits", describe="<P>.*<P[+]1>|between|back and forth", history="back and forth"
)
OR_LATER = "<{0}>.*or a later one"
SKIPS_A_HEALTHY_ONE = ("reset t:0=P+2",)
SKIP = ("reset --to-offset t:0=P+1 --save-skipped",)
FIRST_OF_BATCH = ("reset t:0=B+1",)

ROWS = (
    Row(
        id="poison-auto-seek",
        cause="record P fails at each try; the client stored P+1 when it was delivered, and commits nothing more",
        programs=(Program(commit="auto", bad="seek"),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P+1"),),
        right=Says(lag="stop", rules="stalled-commits", describe="offset <P+1>.*or the one before|<P>"),
        harms=SKIPS_A_HEALTHY_ONE,
        helps=("restart",),
    ),
    Row(
        id="poison-auto-pause",
        cause="record P failed and its partition is paused; P+1 is committed, the other partitions are read on",
        programs=(Program(commit="auto", bad="pause"),),
        topics={"t": 4},
        begin=POISON,
        at=(At("t:0", offset="P", committed="P+1"),),
        right=Says(lag="stop", rules="stalled-commits", describe="offset <P+1>.*or the one before|<P>"),
        harms=SKIPS_A_HEALTHY_ONE,
        helps=("restart",),
    ),
    Row(
        id="poison-store-seek",
        cause="record P fails at each try; offsets are stored after processing, so P stays committed, in silence",
        programs=(Program(commit="store", bad="seek"),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stop", rules="stalled-commits", describe="<P>"),
        helps=SKIP,
    ),
    Row(
        id="poison-each-again",
        cause="record P fails at each try; the client commits P again at each",
        programs=(Program(commit="each", bad="seek+commit"),),
        feed=BURSTS,
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stall stop", rules="stalled-commits", describe="<P>"),
        wrong=Says(describe="record not known|or a later one"),
        helps=SKIP,
        named_by=Moment.HALF_A_MINUTE,
    ),
    Row(
        id="poison-each-848",
        cause="as poison-each-again, with the consumer protocol",
        programs=(Program(commit="each", bad="seek+commit", settings={"group.protocol": "consumer"}),),
        feed=BURSTS,
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stall stop", rules="stalled-commits", describe="<P>"),
        wrong=Says(describe="record not known|or a later one"),
        helps=SKIP,
        named_by=Moment.HALF_A_MINUTE,
    ),
    Row(
        id="poison-each-silent",
        cause="record P fails at each try and nothing is committed of it; the other partition goes on",
        programs=(Program(commit="each", bad="seek"),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stop", rules="stalled-commits", describe="<P>"),
        helps=SKIP,
    ),
    Row(
        id="poison-batch-again",
        cause="a record in the midst of a batch fails; the client goes back to its start, B, and commits B again",
        programs=(Program(commit="batch", batch=100, bad="seek+commit"),),
        feed=Feed(per_s=20),
        begin=POISON,
        at=(At("t:0", offset="P", committed="B"),),
        right=Says(lag="stall stop", rules="stalled-commits", describe=OR_LATER.format("B")),
        allowed=Says(rules="large-gap"),
        harms=FIRST_OF_BATCH,
        helps=SKIP,
    ),
    Row(
        id="poison-batch-silent",
        cause="a record in the midst of a batch fails; the client goes back to B and commits nothing",
        programs=(Program(commit="batch", batch=100, bad="seek"),),
        feed=Feed(per_s=20),
        begin=POISON,
        at=(At("t:0", offset="P", committed="B"),),
        right=Says(lag="stop", rules="stalled-commits", describe=OR_LATER.format("B")),
        harms=FIRST_OF_BATCH,
        helps=SKIP,
    ),
    Row(
        id="poison-flip",
        cause="record P fails at each try; the client commits P, then its position P+1, for ever",
        programs=(Program(commit="flip", bad="seek"),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P P+1"),),
        right=FLIPS,
        wrong=Says(lag="rewind", describe="rewound|moved back"),
        harms=("undo", "catchup start", *SKIPS_A_HEALTHY_ONE),
        helps=SKIP,
    ),
    Row(
        id="poison-three-groups",
        cause="record P fails in three applications that commit in different ways; the record is the cause, not they",
        programs=(
            Program(commit="each", bad="seek"),
            Program(commit="auto", bad="seek", group="auto", name="auto"),
            Program(commit="batch", batch=10, bad="seek", group="batch", name="batch"),
        ),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stop", rules="stalled-commits", describe="not th(is|at) group alone"),
        helps=SKIP,
    ),
    Row(
        id="poison-twice",
        cause="record P cannot be processed, and after a skip another one soon after it cannot either",
        programs=(Program(commit="each", bad="seek+commit"),),
        feed=BURSTS,
        begin=(Action(0, "poison", "t:0"), Action(5, "poison", "t:0")),
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stall stop", rules="stalled-commits", describe="<P>"),
        helps=SKIP,
        named_by=Moment.HALF_A_MINUTE,
    ),
)
