"""What kgroup itself did to a group: its resets, releases and conversions. The ledger and the journal are the row's."""

from tests.situations.row import Action, Feed, Program, Row, Says

APPLIED = "--wait-empty --execute"


def stopped(from_s: float, *commands: str) -> tuple[Action, ...]:
    """The application is stopped for the commands, 6 s later, and started again when they are done."""
    done = (Action(from_s + 6 + 4 * n, "kgroup", command) for n, command in enumerate(commands))
    return (Action(from_s, "term"), *done, Action(from_s + 6 + 4 * len(commands), "start"))


ROWS = (
    Row(
        id="h-own-changes",
        healthy=True,
        cause="just before: a reset, two catch-ups that were cancelled, a migration and back, all by kgroup",
        programs=(Program(commit="each", members=2),),
        warm_s=230,
        begin=(
            *stopped(-190, f"reset {{g}} --all-topics --shift-by -50 {APPLIED}"),
            *stopped(-145, f"catchup start {{g}} --release-only {APPLIED}", "catchup cancel {g} --execute"),
            *stopped(-100, f"catchup start {{g}} --release-only {APPLIED}", "catchup cancel {g} --execute"),
            *stopped(-55, f"migrate {{g}} {APPLIED}", f"migrate {{g}} --protocol classic {APPLIED}"),
        ),
        wrong=Says(rules="rebalance-storm pending-catchup", history="crash-loop|by no-member"),
    ),
    Row(
        id="catchup-orphan",
        cause="kgroup released it at the end of the log; nobody has run the replay of the gap",
        programs=(Program(commit="each"),),
        feed=Feed(per_s=5),
        begin=(
            Action(-20, "term"),
            Action(0, "kgroup", f"catchup start {{g}} --release-only {APPLIED}"),
            Action(6, "start"),
        ),
        right=Says(rules="pending-catchup"),
        harms=("catchup cancel --abandon", "reset"),
        helps=("catchup resume",),
    ),
    Row(
        id="late-undo",
        cause="kgroup set it to the end past 200 records that nobody read, and its application has gone on since",
        programs=(Program(commit="each"),),
        feed=Feed(per_s=5),
        begin=(
            Action(-20, "term"),
            Action(0, "kgroup", f"reset {{g}} --all-topics --to-latest {APPLIED}"),
            Action(6, "start"),
        ),
        right=Says(describe=r"moved forward by .* kgroup \(ch-", history="ch-[a-z0-9]{4}"),
        wrong=Says(history="crash-loop|by no-member"),
        helps=("catchup start --skipped-by",),
    ),
)
