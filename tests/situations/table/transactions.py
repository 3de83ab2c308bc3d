"""Records and offsets that lie in transactions."""

from tests.situations.row import Action, At, Feed, Program, Row, Says

NO_TRANSACTION = Says(lag="warn", rules="lso-stuck hanging-transaction hanging-offsets-transaction")
IN_TRANSACTIONS = Program(commit="txn", batch=20, out="out", bad="abort")

ROWS = (
    Row(
        id="h-txn-markers",
        healthy=True,
        cause="each second a transaction of 5 records: the end of the log is a marker, which nobody reads",
        programs=(Program(commit="each"),),
        feed=Feed(per_s=5, transaction=(5, 0)),
        wrong=NO_TRANSACTION,
    ),
    Row(
        id="h-txn-aborts",
        healthy=True,
        cause="each third transaction is aborted: the log has records that nobody is given",
        programs=(Program(commit="each"),),
        feed=Feed(per_s=5, transaction=(5, 3)),
        wrong=NO_TRANSACTION,
    ),
    Row(
        id="h-txn-45s",
        healthy=True,
        cause="its producer's transactions take 45 s (Flink, by checkpoints): it reads each when it is committed",
        programs=(Program(commit="each", settings={"isolation.level": "read_committed"}),),
        feed=Feed(transaction=(90, 0), held=True),
        warm_s=140,
        wrong=Says(
            lag="warn",
            rules="lso-stuck hanging-transaction hanging-offsets-transaction",
            describe=r"\d+ members? for \d+ partitions|does not catch up",
        ),
    ),
    Row(
        id="h-eos",
        healthy=True,
        cause="offsets are committed in transactions with what it writes to another topic",
        programs=(Program(commit="txn", batch=20, out="out", members=2),),
        topics={"t": 4, "out": 1},
        feed=Feed(per_s=3, only=("t:0", "t:1", "t:2", "t:3")),
        wrong=NO_TRANSACTION,
    ),
    Row(
        id="poison-eos",
        cause="record P fails at each try, and the transaction of its batch is aborted; the batch begins at B",
        programs=(IN_TRANSACTIONS,),
        topics={"t": 2, "out": 1},
        feed=Feed(per_s=5, only=("t:0", "t:1")),
        begin=(Action(0, "poison", "t:0"),),
        at=(At("t:0", offset="P", committed="B"),),
        right=Says(lag="stop", rules="stalled-commits", describe="<B>.*or a later one"),
        wrong=Says(rules="lso-stuck hanging-transaction hanging-offsets-transaction"),
        harms=("reset t:0=B+1",),
        helps=("reset --to-offset t:0=P+1 --save-skipped",),
    ),
    Row(
        id="open-txn",
        cause="a producer keeps a transaction open; what comes after it in t:0 is not given to anybody",
        programs=(Program(commit="each"),),
        begin=(Action(0, "open-transaction", "t:0"),),
        at=(At("t:0"),),
        right=Says(rules="lso-stuck", describe="open transaction"),
        wrong=Says(lag="stop stall", rules="stalled-commits hanging-transaction"),
        harms=("reset",),
    ),
    Row(
        id="hanging-txn",
        cause="a transaction in t:0 that its coordinator does not know: nobody will end it",
        programs=(Program(commit="each"),),
        begin=(Action(0, "hang-transaction", "t:0"),),
        at=(At("t:0"),),
        right=Says(rules="hanging-transaction", describe="hanging"),
        allowed=Says(rules="lso-stuck"),
        wrong=Says(lag="stop stall", rules="stalled-commits"),
        harms=("reset",),
    ),
    Row(
        id="pending-commit",
        cause="an offset of t:0 is in a transaction that stays open: who starts is not told where to begin",
        programs=(Program(commit="each"),),
        begin=(Action(0, "term"), Action(8, "pending", "t:0=E"), Action(10, "start")),
        at=(At("t:0"),),
        right=Says(describe="open transaction", doctor="open transaction"),
        allowed=Says(lag="stop", rules="stalled-commits"),
        wrong=Says(lag="stall"),
        harms=("reset",),
    ),
)
