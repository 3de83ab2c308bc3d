"""What a run reports that has lost its plan: who took it over, and whether it was stopped."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.catchup.model import PlanState, RunnerEpoch
from kgroup.groups.catchup.takeover import SIGNED_OFF, Takeover, takeover_of
from tests.helpers.catchup.plans import ledgered, make_plan

AT_MS = 1_795_228_032_250  # 2026-11-21T02:27:12.250Z
MINE = RunnerEpoch(3, "me@here", 10, 20)
OTHER = RunnerEpoch(4, "root@vm", AT_MS, AT_MS)
STOPPED = replace(OTHER, seen_ms=SIGNED_OFF)
AT = "at 2026-11-21T02:27:12Z"


@pytest.mark.parametrize(
    ("epoch", "state", "expected"),
    [
        (None, PlanState.RELEASED, None),
        (MINE, PlanState.RELEASED, None),
        (replace(MINE, seen_ms=99), PlanState.RELEASED, None),  # a later heartbeat of this run
        (STOPPED, PlanState.RELEASED, Takeover(f"stopped by root@vm {AT}", stopped=True)),
        (OTHER, PlanState.RELEASED, Takeover(f"root@vm took it over {AT} and continues it", stopped=False)),
        (STOPPED, PlanState.DONE, Takeover(f"root@vm took it over {AT}, and it is done now", stopped=False)),
        (STOPPED, PlanState.CANCELLED, Takeover(f"root@vm took it over {AT}, and it is cancelled now", stopped=False)),
        # The same user on the same machine, in another run.
        (
            RunnerEpoch(4, MINE.who, AT_MS, SIGNED_OFF),
            PlanState.RELEASED,
            Takeover(f"stopped by me@here {AT}", stopped=True),
        ),
    ],
)
def test_who_took_it_over(epoch: RunnerEpoch | None, state: PlanState, expected: Takeover | None) -> None:
    now = replace(ledgered(make_plan(), state), epoch=epoch)

    assert takeover_of(MINE, now) == expected
