"""Groups that stand at a record which cannot be processed."""

from tests.situations.row import Action, At, Feed, Moment, Program, Row, Says

POISON = (Action(0, "poison", "t:0"),)

ROWS = (
    Row(
        id="poison-auto-seek",
        cause="record P fails at each try; the client stored P+1 when it was delivered, and commits nothing more",
        programs=(Program(commit="auto", bad="seek"),),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P+1"),),
        right=Says(lag="stop", rules="stalled-commits"),
        harms=("reset --to-offset t:0=P+2",),
        helps=("restart",),
    ),
    Row(
        id="poison-each-again",
        cause="record P fails at each try; the client commits P again at each",
        programs=(Program(commit="each", bad="seek+commit"),),
        feed=Feed(burst=(10, 5)),
        begin=POISON,
        at=(At("t:0", offset="P", committed="P"),),
        right=Says(lag="stall stop", rules="stalled-commits"),
        helps=("reset --to-offset t:0=P+1 --save-skipped",),
        named_by=Moment.HALF_A_MINUTE,
    ),
)
