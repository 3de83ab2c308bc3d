"""Groups that are well: right is silence."""

from tests.situations.row import Feed, Program, Row

ROWS = (
    Row(
        id="h-steady-auto",
        healthy=True,
        cause="keeps up, commits every 5 s",
        programs=(Program(commit="auto", members=3),),
        topics={"t": 6},
        feed=Feed(per_s=5),
    ),
)
