"""For whom a rebalance waits: the leader is named only where it is certain, and nobody else is to be removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from kgroup.groups.lag.evidence import LagEvidence
from kgroup.groups.rebalance_wait import rebalance_wait
from kgroup.groups.verdict.group import group_verdict
from kgroup.model.group_log import GenerationMember, GenerationWritten
from kgroup.model.groups import Group
from tests.helpers.cases import history
from tests.helpers.cases.lag import MINUTE, NOW, SECOND, Part, evidence, group, member, steady
from tests.helpers.for_each import for_each

LEADER_ONLY = " if that is dead"
NO_LEADER = "which member leads is not known"
WHO_JOINED = "which have not is not known"


POD_0 = "probably pod-0 has not: it stopped committing at"
ENDS = ", so it hangs or is dead; if it is dead, its session ends at about"
M, S = MINUTE, SECOND


def joining(first_s: int, other_s: int, **other: int) -> dict[str, Any]:
    return {"state": "PreparingRebalance", "silent": (first_s * SECOND, other_s * SECOND), **other}


@dataclass(frozen=True)
class Wait:
    """Two members with a partition each, of which the first led the newest generation; and what is said."""

    name: str
    said: str | None
    led_by: str | None = None
    state: str = "CompletingRebalance"
    silent: tuple[int, int] = (60 * SECOND, 60 * SECOND)
    """Since the last commit of each partition."""
    pause: int = 5 * SECOND
    lag: int = 1000
    age: int = 0
    """Of the first unread record; 0: it came as the commits ended."""
    static: bool = True
    listed: tuple[str, ...] = ("pod-0", "pod-1")
    session: int = 5 * MINUTE
    poll: int | None = 5 * MINUTE
    times: int = 12
    log_was_read: bool = True

    def __str__(self) -> str:
        return self.name

    def judge(self) -> tuple[Group, LagEvidence]:
        roster = [replace(member(name), instance_id=name if self.static else None) for name in self.listed]
        parts = [
            Part(n, self.lag, age=self.age or ago, commits=tuple(steady(10_000_000, 100, ago, self.pause, self.times)))
            for n, ago in enumerate(self.silent)
        ]
        of_generation: tuple[GenerationMember, ...] = tuple(
            history.member(
                name,
                n,
                instance_id=name if self.static else None,
                session_timeout_ms=self.session,
                rebalance_timeout_ms=self.poll,
            )
            for n, name in enumerate(("pod-0", "pod-1"))
        )
        newest = GenerationWritten(1, NOW - 60 * MINUTE, 7, "consumer", "range", "pod-0", None, of_generation)
        return group(parts, roster, self.state), evidence(parts, generation=newest if self.log_was_read else None)


WAITS = (
    Wait("static leader", "leader pod-0, for at most 5m if that is dead", "pod-0"),
    Wait("dynamic leader", "leader pod-0, for at most 5m if that is dead", "pod-0", static=False),
    Wait("a shorter session", "for at most 2m if", "pod-0", session=2 * MINUTE),
    Wait("a shorter max.poll.interval.ms", "for at most 1m30s if", "pod-0", session=9 * MINUTE, poll=90 * SECOND),
    Wait("the leader has gone", f", for at most 5m; {NO_LEADER}", listed=("pod-1",)),
    Wait("another took its name", f"leader; {NO_LEADER}", listed=("pod-0-new", "pod-1")),
    Wait("the joining may have timed out", NO_LEADER, silent=(6 * MINUTE, MINUTE), session=30 * MINUTE),
    Wait(
        "a dynamic one had been removed then",
        "leader pod-0",
        "pod-0",
        silent=(6 * MINUTE, MINUTE),
        session=30 * MINUTE,
        static=False,
    ),
    Wait("a dead one had been removed", NO_LEADER, session=50 * SECOND),
    Wait("no rebalance timeout is known", f"leader; {NO_LEADER}", poll=None),
    Wait("joining", f"all members join again, for at most 5m; {WHO_JOINED}", state="PreparingRebalance"),
    Wait(
        "joining, with one whose settings are not known",
        f"all members join again; {WHO_JOINED}",
        state="PreparingRebalance",
        listed=("pod-0", "pod-1", "pod-2"),
    ),
    # Before all members have joined again, one that went silent before the others is named.
    Wait(
        "a static one is silent",
        f"{POD_0} 01:33:40Z, 2m before the others{ENDS} 01:38:40Z",
        "pod-0",
        **joining(180, 60),
    ),
    Wait(
        "its session is over: it lives",
        f"{POD_0} 01:33:40Z, 2m before the others, so it hangs, as its session would have ended",
        **joining(180, 60, session=M),
    ),
    Wait("one heartbeat may be later", f"{POD_0} 01:35:20Z, 20s before the others, so it hangs", **joining(80, 60)),
    Wait(
        "a dynamic one is silent", f"{POD_0} 01:33:40Z, 2m before the others, so it", **joining(180, 60), static=False
    ),
    Wait("within a heartbeat", WHO_JOINED, **joining(63, 60, pause=S)),
    Wait("within two of its pauses", WHO_JOINED, **joining(69, 60, pause=5 * S)),
    Wait("it had nothing to read", WHO_JOINED, **joining(180, 60, age=62 * S)),
    Wait("it may have just begun", None, silent=(30 * SECOND, 60 * SECOND)),
    Wait("the usual pause", None, pause=30 * SECOND),
    Wait("nothing to read", None, lag=0),
    Wait("too few commits", None, times=2),
    Wait("no rebalance", None, state="Stable"),
    Wait("nobody is listed", None, listed=()),
    Wait("the log was not read", None, log_was_read=False),
)


@for_each("wait", WAITS)
def test_for_whom_a_rebalance_waits(wait: Wait) -> None:
    about, known = wait.judge()
    found = rebalance_wait(about, known)

    if wait.said is None:
        assert found is None
        return
    assert found is not None
    assert wait.said in found.words
    assert found.words.startswith("no commit since ")
    assert (None if found.member is None else found.member.member_id) == wait.led_by
    assert (LEADER_ONLY in found.words) == (wait.led_by is not None and wait.state == "CompletingRebalance")


@pytest.mark.parametrize("static", [True, False])
def test_only_the_one_that_holds_it_up_is_to_be_removed(static: bool) -> None:
    option = "--instance" if static else "--member"
    for wait in WAITS:
        if wait.static is static:
            about, known = wait.judge()
            verdict = group_verdict(about, known)
            evictions = [str(command) for command in verdict.commands if "evict" in str(command)]
            assert evictions == ([f"kgroup evict orders-enrich {option} pod-0"] if wait.led_by else [])
            assert not wait.said or wait.said in (verdict.next or "")
