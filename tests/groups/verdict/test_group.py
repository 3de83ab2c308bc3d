"""The verdict, line by line, for the situations of people on call: reference/runbooks.md, section 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from kgroup.groups.deleted_topics import DeletedTopic
from kgroup.groups.history.lost_members import LostMember
from kgroup.groups.history.runs import Run
from kgroup.groups.history.slow_polls import SlowPoll, SlowPolls
from kgroup.groups.lag.evidence import (
    BlockingTransaction,
    EvidenceSource,
    FirstUnread,
    GroupChurn,
    Isolation,
    MemberFacts,
    PartitionEvidence,
    QuietTopic,
    Retention,
    Sibling,
    UncommittedPartition,
)
from kgroup.groups.lag.open_commits import OpenCommit
from kgroup.groups.other_deployments import OtherDeployment
from kgroup.groups.passed_over import Leap
from kgroup.groups.shared_instances import SharedInstance
from kgroup.groups.successors import Successor
from kgroup.groups.timeline.steps import CrashLoop, OwnerGone
from kgroup.groups.verdict.conclusion import ConcludedPlace, Trouble
from kgroup.groups.verdict.group import GroupVerdict, group_verdict
from kgroup.groups.verdict.shape import LagShape
from kgroup.model.groups import Group, Member
from kgroup.model.migration_facts import OpenTransaction
from kgroup.model.read_quota import ReadQuota
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.lag_documents import verdict_document
from kgroup.output.pages.verdict import verdict_lines
from kgroup.support.instants import rfc3339
from tests.helpers.cases.lag import (
    HALF_DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Part,
    at,
    evidence,
    group,
    member,
    sibling,
    steady,
)

E0 = member("enrich-0", "10.0.3.2", (0, 3))
E1 = member("enrich-1", "10.0.3.4", (1, 7))
E2 = member("enrich-2", "10.0.3.3", (2, 4))
OWNERS = {0: E0, 3: E0, 1: E1, 7: E1, 2: E2, 4: E2}
FINE = [Part(n, 600, owner=OWNERS[n], leader=n % 3) for n in (0, 1, 2, 3, 4)]
STUCK = Part(7, 3_940_025, 1700, last_ago=38 * MINUTE, age=38 * MINUTE, owner=E1, leader=1)
SLOW: dict[str, Any] = {"incoming": 100.0, "outgoing": 60.0}
DRAINS: dict[str, Any] = {"incoming": 100.0, "outgoing": 200.0}


def judged(
    parts: Sequence[Part], state: str = "Stable", roster: Sequence[Member] | None = None, **other: Any
) -> GroupVerdict:
    about: dict[str, Any] = {key: other.pop(key) for key in ("name", "protocol_type", "type") if key in other}
    return group_verdict(group(parts, roster, state, **about), evidence(parts, **other))


def runs(*ended_ago: int) -> tuple[Run, ...]:
    """Runs of five minutes that ended so many minutes ago."""
    return tuple(Run(NOW - (ago + 5) * MINUTE, NOW - ago * MINUTE, left=True) for ago in ended_ago)


def slow_polls(*left_ago: int, number: int = 0, topic: str = "orders") -> SlowPolls:
    """Members that left the partition so many seconds ago, as they did not poll for a minute."""
    left = tuple(SlowPoll(NOW - ago * SECOND, n, "app", MINUTE, sure=True) for n, ago in enumerate(left_ago))
    return SlowPolls((TopicPartition(topic, number),), left)


def uncommitted(owner: Member | None = None) -> Group:
    """A group with a partition of which nothing is committed."""
    about = group([Part(0, 9, owner=owner)])
    return structs.replace(about, partitions=(structs.replace(about.partitions[0], commit=None),))


def said(found: GroupVerdict) -> dict[str, str]:
    return {line.word: line.text for line in verdict_lines(found)} | {"->": found.next or ""}


HANGING = BlockingTransaction(4711, 3, 10_000_000, NOW - HOUR, "pay-tx")
KEEP_UP = (sibling("orders-billing", 30), sibling("orders-search", 40))
LAG_TOO = (sibling("orders-billing", 900_000), sibling("orders-search", 800_000))

NO_RIGHT = "4 groups could not be read (no DESCRIBE on them)"
UNSEEN = {EvidenceSource.SIBLINGS: NO_RIGHT}

POD_1 = structs.replace(E1, instance_id="pod-1")
FIVE_MINUTES = "its max.poll.interval.ms is 5m: the group keeps it until about 01:39:40Z if it does not poll"
OTHERS = [*FINE[:1], *FINE[2:]]


def silent(session_ms: int | None, *others: Part, **changed: Any) -> GroupVerdict:
    """The static member pod-1, which has orders:7 alone, has not committed for 2 minutes."""
    known = {"enrich-1": MemberFacts(300_000, session_ms)}
    row = replace(STUCK, last_ago=2 * MINUTE, age=2 * MINUTE, owner=structs.replace(POD_1, **changed))
    return judged([*others, row], members=known, siblings=KEEP_UP)


HELD = OpenCommit(
    TopicPartition("orders", 7),
    9,
    4711,
    NOW - MINUTE,
    OpenTransaction("__consumer_offsets", 7, 4711, 0, 1, NOW, True, "pay-tx", NOW - 2 * MINUTE),
)
ONE_STUCK = judged(
    [*FINE, STUCK],
    state_since_ms=NOW - 41 * MINUTE,
    siblings=KEEP_UP,
    members={"enrich-1": MemberFacts(HOUR, 45_000)},
)


def loop(*ago_ms: int, number: int = 7, offset: int | None = 10_000_000, topic: str = "orders") -> CrashLoop:
    """An owner went at each of these moments, the oldest first."""
    gone = tuple(OwnerGone(NOW - ago, at, at, f"pod-{at}") for at, ago in enumerate(ago_ms))
    return CrashLoop(topic, number, offset, gone)


DEATHS = tuple(n * 20 * SECOND + 9 * SECOND for n in reversed(range(13)))
CLICKS = [Part(n, 800_000, 250, last_ago=51 * MINUTE, age=51 * MINUTE, topic="clicks") for n in range(12)]
CRASH_LOOP = judged(
    CLICKS,
    "CompletingRebalance",
    state_since_ms=NOW - 3 * SECOND,
    churn=GroupChurn(58, 71_000),
    crash_loops=tuple(loop(*DEATHS, number=n, topic="clicks") for n in range(12)),
    siblings=(),
)
SAME_OFFSET = tuple(at(n * 6 * SECOND, 8_812_337, 3, "payments") for n in reversed(range(214)))
POISON_PART = replace(
    Part(3, 5000, 3.8, owner=E0, topic="payments"), committed=8_812_337, commits=SAME_OFFSET, age=22 * MINUTE
)
POISON = judged([POISON_PART])
ONE_BY_ONE = tuple(at(22 * MINUTE - n, 8_812_334 + n, 3, "payments") for n in range(4))
"""Each record before it was committed on its own, while it was there."""
PILL_PART = replace(POISON_PART, commits=(*ONE_BY_ONE, *SAME_OFFSET))
BACK_AND_FORTH = (
    at(21 * MINUTE, 9_999_900, 7),
    *(at(n * SECOND, 9_999_990 if n % 2 else 10_000_000, 7) for n in reversed(range(1200))),
)
"""A batch whose last record fails: its first and last offset, each second."""
FLIPS_PART = Part(7, 13_200, 11, age=20 * MINUTE, owner=E1, commits=BACK_AND_FORTH)
FLIPS = judged([*FINE, FLIPS_PART])
STRANGER = tuple(at(n * 5 * SECOND, 10_000_000 if n % 2 == 0 else 10_005_000 - n, 7) for n in reversed(range(20)))
"""The owner moves on, and a member that has lost the partition commits where it stood."""
NEAR = tuple(at(n * 5 * SECOND, 10_000_000 if n % 2 == 0 else 10_000_030 - n, 7) for n in reversed(range(20)))
TWO_WRITERS = judged([*FINE, Part(7, 6_000, 11, age=MINUTE, owner=E1, commits=STRANGER)])
LEFT_MEMBERS = (E0, E1, E2)
LEFT = Part(0, 5000, 10, last_ago=2 * HOUR, age=2 * HOUR, topic="oldtopic")
LEFT_LATELY = replace(LEFT, last_ago=18 * MINUTE, age=18 * MINUTE)
DIED = LostMember("pod-1", NOW - MINUTE, 10_000, ("pod-0",))
TAKEN_OVER = SharedInstance("pod-0", NOW - 2 * MINUTE, NOW, 7)
CRASHES_AT_7 = (
    "crash loop at orders:7 offset 10000000: 13 members came and went in 4m, the last 9s ago, "
    "and none committed past it"
)


LEAP = Leap(TopicPartition("orders", 0), NOW - MINUTE, 1, 9_990_000, 9_999_900, 9)
STAGING = OtherDeployment(("orders-staging-0",), ("10.9.0.1",), 1, 5, NOW - MINUTE, sure=True)
V2 = Successor(("orders-v2",), NOW - MINUTE)
HERE = ConcludedPlace("orders", 0, 10_000_000)


@pytest.mark.parametrize(
    ("found", "cause", "alternatives", "places"),
    [
        (judged(FINE), None, (), ()),
        (judged([replace(STUCK, number=0)]), Trouble.STUCK, (), (HERE,)),
        (judged([replace(STUCK, number=0)], slow_polls=slow_polls(180, 90)), Trouble.SLOW_BATCH,
         (Trouble.CALL_HANGS,), (HERE,)),
        (judged([Part(0, 600, 0, 95, last_ago=3 * MINUTE, age=3 * MINUTE)], "Empty", (), slow_polls=slow_polls(60)),
         Trouble.HANGS, (Trouble.NO_READER,), (HERE,)),
        # ... the record came later; others were there after it; they have not come back.
        (judged([Part(0, 600, 0, 95, last_ago=3 * MINUTE, age=MINUTE)], "Empty", (), slow_polls=slow_polls(90)),
         Trouble.NO_READER, (), ()),
        (judged([Part(0, 600, 0, 95, last_ago=3 * MINUTE, age=3 * MINUTE)], "Empty", (), slow_polls=slow_polls(60),
                runs=runs(2)), Trouble.NO_READER, (), ()),
        (judged([Part(0, 600, 0, 95, last_ago=HOUR, age=HOUR)], "Empty", (), slow_polls=slow_polls(1500, 1200)),
         Trouble.HANGS, (Trouble.NO_READER,), (HERE,)),
        (judged([Part(0, 600, 0, 95, last_ago=3 * MINUTE)], "Empty", ()), Trouble.NO_READER, (), ()),
        (judged([Part(0, 60_000, 0, 95, last_ago=30 * MINUTE, age=30 * MINUTE)], "Empty", (), runs=runs(150, 90, 30)),
         Trouble.NOT_DUE, (), ()),
        (judged([Part(0, 9, 0, 95, last_ago=3 * MINUTE, age=2 * MINUTE, ended_ago=MINUTE)], "Empty", (),
                state_since_ms=NOW - 2 * MINUTE, runs=runs(2)),
         Trouble.NOT_DUE, (Trouble.NO_READER,), ()),
        (judged([replace(FINE[0], owner=None)], "PreparingRebalance"), Trouble.REBALANCING, (), ()),
        (judged([Part(0, 60_000, 0, 95, last_ago=30 * MINUTE, age=30 * MINUTE)], "Empty", (), successor=V2),
         Trouble.REPLACED, (Trouble.NO_READER,), ()),
        (judged(FINE, deployment=STAGING), Trouble.OTHER_DEPLOYMENT, (), ()),
        (judged(FINE, deployment=structs.replace(STAGING, sure=False)), Trouble.OTHER_DEPLOYMENT,
         (Trouble.NAMED_MEMBERS,), ()),
        (judged([replace(FINE[0], log_start=9_999_000)], leaps=(LEAP,)), Trouble.PASSED_OVER,
         (Trouble.READ_IN_ONE_GO,), (ConcludedPlace("orders", 0, 9_990_000),)),
        (judged([FINE[0]], leaps=(LEAP,)), None, (), ()),
        (group_verdict(uncommitted(E0), evidence([Part(0, 5, ended_ago=MINUTE)], state_since_ms=NOW - 2 * MINUTE)),
         Trouble.NEVER_COMMITS, (Trouble.NEVER_READS,), (ConcludedPlace("orders", 0, None),)),
    ],
)  # fmt: skip
def test_what_is_concluded(
    found: GroupVerdict,
    cause: Trouble | None,
    alternatives: tuple[Trouble, ...],
    places: tuple[ConcludedPlace, ...],
) -> None:
    document = verdict_document(found).conclusion
    assert (document is None) is (found.next is None) is (cause is None)
    if document is not None:
        assert (document.cause, document.alternatives, document.places) == (cause, alternatives, places)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        # 1, 2: an alert; the sum looks fine, one partition stands.
        (
            ONE_STUCK,
            {
                "LAG": "3.94M on orders:7, 100% of 3.94M over 6 of 6 partitions; oldest unread record 38m",
                "STUCK": "orders:7 at 10000000: no commit for 38m while 1700/s (1m) arrive",
                "RECORD": "not known: offset 10000000 of orders:7 or a later one, or the one before if the client "
                "commits at delivery (librdkafka with auto commit): a restart passes it",
                "RATE": "in 2200/s, out 500/s (1m): growing, does not catch up at this rate",
                "RETENTION": "retention (12h) deletes the first unread record of orders:7 in 11h22m",
                "SHAPE": "one partition of 6, orders:7 (enrich-1); 2 of 2 other groups of orders keep up",
                "->": "enrich-1 (10.0.3.4) owns orders:7 and commits other partitions: it polls, "
                "and commits nothing past offset 10000000 (the record: 9999999, 10000000 or later); or it has "
                "paused that partition",
            },
        ),
        # ... an offset in an open transaction: whoever starts there waits, whatever the record is.
        (
            judged([*FINE, STUCK], open_commits=(HELD, HELD)),
            {
                "->": "orders:7: an open transaction of pay-tx (producer 4711) holds offset 9 and offsets of 1 more "
                "partition since 01:34:40Z: a member that starts gets no position there until it ends",
            },
        ),
        (
            judged([replace(p, owner=None) for p in FINE], "Empty", (), open_commits=(HELD,)),
            {
                "->": "no member reads; its consumers, once started, continue at the committed offsets; orders:7: an "
                "open transaction of pay-tx (producer 4711) holds offset 9 since 01:34:40Z: a member that starts gets "
                "no position there until it ends",
            },
        ),
        # ... a static member whose session may last: nobody else gets its partitions until then.
        (
            silent(300_000, *OTHERS),
            {
                "->": "pod-1 (10.0.3.4) owns orders:7; no commit of it since 01:34:40Z: if its process is gone, its "
                "partitions wait until about 01:39:40Z (session 5m), or until it is evicted; or it hangs, the log "
                "does not show which",
            },
        ),
        # ... it lives, as its session would have ended; the others are silent too; it is not static.
        (silent(60_000, *OTHERS), {"->": f"pod-1 (10.0.3.4) owns orders:7 and still heartbeats; {FIVE_MINUTES}"}),
        (
            silent(300_000, *(replace(p, last_ago=3 * MINUTE) for p in OTHERS)),
            {"->": f"pod-1 (10.0.3.4) owns orders:7 and still heartbeats, or did less than 5m ago; {FIVE_MINUTES}"},
        ),
        (
            silent(300_000, *OTHERS, instance_id=None),
            {"->": f"enrich-1 (10.0.3.4) owns orders:7 and still heartbeats, or did less than 5m ago; {FIVE_MINUTES}"},
        ),
        # ... and its owner has no other partition: it may hang, or be dead.
        (
            judged([*FINE[:1], *FINE[2:], STUCK], members={"enrich-1": MemberFacts(HOUR, 45_000)}),
            {"->": "enrich-1 (10.0.3.4) owns orders:7 and still heartbeats; its max.poll.interval.ms is 1h: "
                   "the group keeps it until about 01:58:40Z if it does not poll"},
        ),
        # ... it got both partitions after its predecessor's last commit of the other one.
        (
            judged([*FINE, STUCK], state_since_ms=NOW, members={"enrich-1": MemberFacts(HOUR, 45_000)}),
            {"->": "enrich-1 (10.0.3.4) owns orders:7 and still heartbeats; its max.poll.interval.ms is 1h: "
                   "the group keeps it until about 02:36:40Z if it does not poll"},
        ),
        # ... it committed one record of the other, and stands there too.
        (
            judged([*FINE[:1], replace(STUCK, number=1, last_ago=37 * MINUTE), *FINE[2:], STUCK],
                   members={"enrich-1": MemberFacts(HOUR, 45_000)}),
            {"->": "enrich-1 (10.0.3.4) owns orders:7 and 1 more stuck partition and still heartbeats; its "
                   "max.poll.interval.ms is 1h: the group keeps it until about 01:58:40Z if it does not poll"},
        ),
        # ... it joined later, or would have left if it did not poll.
        (
            judged([*FINE[:1], *FINE[2:], STUCK], members={"enrich-1": MemberFacts(HOUR, 45_000)},
                   state_since_ms=NOW - MINUTE),
            {"->": "enrich-1 (10.0.3.4) owns orders:7 and still heartbeats; its max.poll.interval.ms is 1h: "
                   "the group keeps it until about 02:35:40Z if it does not poll"},
        ),
        (
            judged([*FINE[:1], *FINE[2:], STUCK], members={"enrich-1": MemberFacts(5 * MINUTE, 45_000)},
                   state_since_ms=NOW - 41 * MINUTE),
            {"->": "enrich-1 (10.0.3.4) owns orders:7 and still heartbeats after its max.poll.interval.ms (5m): "
                   "it polls, and commits nothing past offset 10000000 (the record: 9999999, 10000000 or later)"},
        ),
        # A crash loop that a stable moment, or an Empty one, hides.
        (
            judged([*FINE, STUCK], crash_loops=(loop(*DEATHS),), members={"enrich-1": MemberFacts(HOUR, 45_000)}),
            {"->": CRASHES_AT_7},
        ),
        (
            judged([replace(p, owner=None) for p in (*FINE, STUCK)], "Empty", (), state_since_ms=NOW - SECOND,
                   crash_loops=(loop(*DEATHS, offset=None),)),
            {"->": CRASHES_AT_7},
        ),
        # ... an instance id that is taken over again and again, unless a record explains it.
        (
            judged([*FINE, STUCK], shared_instances=(TAKEN_OVER,)),
            {"->": "group.instance.id pod-0 was taken over 7 times in 2m: two processes have it and fence each other, "
                   "or one ends and starts again; the log does not show which"},
        ),
        (judged([*FINE, STUCK], crash_loops=(loop(*DEATHS),), shared_instances=(TAKEN_OVER,)), {"->": CRASHES_AT_7}),
        # ... the owners went before the record was there; the offset has moved since; all is read.
        (
            judged([*FINE, replace(STUCK, age=30 * SECOND)], crash_loops=(loop(*DEATHS),)),
            {"->": ""},
        ),
        (judged(FINE, crash_loops=(loop(*DEATHS, number=0, offset=9_999_999),)), {"->": ""}),
        (judged([replace(p, lag=0) for p in FINE], crash_loops=(loop(*DEATHS, number=0),)), {"->": ""}),
        # ... a member that died, as long as nothing else is unusual.
        (judged([replace(p, lag=0) for p in FINE], lost=DIED), {"->": DIED.words(NOW)}),
        (judged([*FINE, STUCK], crash_loops=(loop(*DEATHS),), lost=DIED), {"->": CRASHES_AT_7}),
        # AWS's tree: all groups of the topic lag: it is not this group.
        (
            judged([Part(n, 90_000, **SLOW) for n in range(4)], siblings=LAG_TOO),
            {
                "RATE": "in 400/s, out 240/s (1m): growing, does not catch up at this rate",
                "SHAPE": "every partition; 2 of 2 other groups of orders lag too",
                "->": "other groups of the same topics lag too: the cause is not this group alone",
            },
        ),
        # ... one partition that gets more than its share: a key.
        (
            judged([*FINE, replace(STUCK, incoming=1700.0, outgoing=900.0, last_ago=2 * SECOND)], siblings=KEEP_UP),
            {
                "RATE": "in 2200/s, out 1400/s (1m): growing, does not catch up at this rate",
                "SHAPE": "one partition of 6, orders:7 (enrich-1); 2 of 2 other groups of orders keep up",
                "->": "orders:7 gets 77% of what arrives on orders: keys are not spread evenly",
            },
        ),
        # ... one member.
        (
            judged([Part(n, 90_000 if OWNERS[n] is E1 else 600, owner=OWNERS[n],
                         outgoing=60 if OWNERS[n] is E1 else 100) for n in OWNERS], siblings=()),
            {
                "SHAPE": "the 2 partitions of one member, enrich-1 (10.0.3.4), no others; no other group reads orders",
                "->": "enrich-1 (10.0.3.4) owns all that are behind",
            },
        ),
        # ... one broker.
        (
            judged([Part(n, 90_000 if n % 2 else 600, owner=OWNERS[n], leader=n % 2,
                         outgoing=60 if n % 2 else 100) for n in (0, 1, 2, 3, 4)], siblings=()),
            {
                "SHAPE": "the 2 partitions led by broker 1, no others; no other group reads orders",
                "->": "broker 1 leads all that are behind",
            },
        ),
        # ... one topic of several.
        (
            judged([*(Part(n, 600) for n in range(2)), *(Part(n, 90_000, topic="audit", **SLOW) for n in range(2))],
                   siblings=()),
            {"SHAPE": "the 2 partitions of audit, no others; no other group reads audit"},
        ),
        # ... a gap that grows, under a quota; or nobody knows.
        (
            judged([Part(n, 90_000, owner=OWNERS[n], **SLOW) for n in range(4)], quotas=(ReadQuota(9000, "enrich-1"),)),
            {
                "->": "3 members for 4 partitions; client id enrich-1 may read 8.8 KiB/s at each broker (quota): that "
                "slows its members, or they are too slow themselves, the log does not show which",
            },
        ),
        (
            judged([Part(n, 90_000, owner=OWNERS[n], **SLOW) for n in range(4)], quotas=()),
            {
                "->": "3 members for 4 partitions",
            },
        ),
        # ... and it drains: do nothing.
        (
            judged([Part(n, 60_000, **DRAINS) for n in range(4)], siblings=KEEP_UP),
            {
                "RATE": "in 400/s, out 800/s (1m): draining, catches up in 10m at this rate",
                "SHAPE": "every partition; 2 of 2 other groups of orders keep up",
                "->": "the lag shrinks: no action is needed",
            },
        ),
        # It drains, but not in time.
        (
            judged([Part(n, 60_000, **DRAINS, retention=Retention(15 * MINUTE)) for n in range(4)], siblings=KEEP_UP),
            {
                "RETENTION": "retention (15m) deletes the first unread record of orders:0 in 5m, "
                "catches up only in 10m at this rate",
                "->": "retention may delete unread records before they are read",
            },
        ),
        # Two of several have an unlike fate.
        (
            judged([Part(0, 60_000, **DRAINS), Part(1, 50_000, 10, 5), Part(2, 40_000, **DRAINS)], siblings=()),
            {"RATE": "in 210/s, out 405/s (1m): shrinking, but orders:1 does not catch up at this rate"},
        ),
        # Crash loop (screens.md A3): it hides behind a rebalance.
        (
            CRASH_LOOP,
            {
                "LAG": "800k on clicks:0, 8% of 9.60M over 12 of 12 partitions; oldest unread record 51m",
                "STUCK": "all 12: no commit for 51m while 3000/s (1m) arrive; 58 generations since, longest 1m11s",
                "RATE": "in 3000/s, out 0 (10m): growing, does not catch up at this rate",
                "->": "crash loop at clicks:0 offset 10000000, clicks:1 offset 10000000, clicks:2 offset 10000000 or 9 "
                "more partitions: 13 members came and went in 4m, the last 9s ago, and none committed past it",
            },
        ),
        # 5: a rebalance that does not end.
        (
            judged(FINE, "PreparingRebalance", churn=GroupChurn(2, 71_000)),
            {"->": "a rebalance is under way (PreparingRebalance); check again in a moment"},
        ),
        # ... of which no time was left to read since when.
        (
            judged(FINE, "PreparingRebalance", unknown={EvidenceSource.STATE: "the time to read the log ended"}),
            {
                "->": "a rebalance is under way (PreparingRebalance), for an unknown time: the time to read the log "
                "ended"
            },
        ),
        # A topic was deleted, and is not in the subscription any more.
        (
            judged(FINE, deleted=(DeletedTopic("bills", NOW - MINUTE, 2),)),
            {
                "->": "bills was deleted at 01:35:40Z while members subscribed to it, and 2 committed offsets with it"
            },
        ),
        # What all members call does not answer: no partition is read, of none of them.
        (
            judged([replace(STUCK, number=n, owner=OWNERS[n], leader=n % 3) for n in (0, 1, 2)]),
            {
                "->": "all 3 partitions of 3 members with unread records stopped within 1s: a record is less likely "
                "the cause than what all members call, or the broker; enrich-0 (10.0.3.2) owns orders:0 and is still "
                "a member"
            },
        ),
        # ... one of them a minute later: no.
        (
            judged(
                [
                    replace(STUCK, number=0, owner=E0, leader=0),
                    replace(STUCK, number=1, owner=E1, last_ago=37 * MINUTE),
                ]
            ),
            {"->": "enrich-0 (10.0.3.2) owns orders:0 and is still a member"},
        ),
        # 6: a poison pill. How long the log does not say: as far back as commits were read.
        (
            POISON,
            {
                "STUCK": "payments:3 at 8812337: 214 commits of the same offset in over 21m while 3.8/s (1m) arrive",
                "RECORD": "not known: offset 8812337 of payments:3 or a later one, or the one before if the client "
                "commits at delivery (librdkafka with auto commit): a restart passes it",
                "SHAPE": "its only partition, payments:3; other groups unknown: not read",
                "->": "enrich-0 (10.0.3.2) commits payments:3 at 8812337 again and again: "
                "it polls, and commits nothing past this offset (the record: 8812336, 8812337 or later)",
            },
        ),
        # ... and one that seeks back and commits its first offsets again: no REWIND, and nothing to undo.
        (
            FLIPS,
            {
                "STUCK": "orders:7 at 9999990: 1199 commits back and forth in 20m, none past 10000000 "
                "while 11/s (1m) arrive",
                "RECORD": "not known: offset 9999990 of orders:7 or a later one, or the one before if the client "
                "commits at delivery (librdkafka with auto commit): a restart passes it",
                "->": "enrich-1 (10.0.3.4) owns orders:7: 9999990 to 10000000 are committed again and again, "
                "and nothing past them",
            },
        ),
        # ... and a second writer is not undone, as it commits again.
        (
            TWO_WRITERS,
            {
                "->": "orders:7 has two writers since 01:35:10Z: one commits 10000000, one 10004981 to 10004999; "
                "enrich-1 (10.0.3.4) owns it, and the other one has lost it, or is no member",
            },
        ),
        # ... nor is one where the last commit was the owner's, so that nothing seems unread.
        (
            judged([*FINE, Part(7, 0, 11, owner=E1, commits=(*STRANGER, at(0, 10_005_001, 7)), committed=10_005_001)]),
            {
                "->": "orders:7 has two writers since 01:35:10Z: one commits 10000000, one 10004981 to 10004999; "
                "enrich-1 (10.0.3.4) owns it, and the other one has lost it, or is no member",
            },
        ),
        # ... and one that is as near as a client that tries again.
        (
            judged([*FINE, Part(7, 6_000, 11, age=MINUTE, owner=E1, commits=NEAR)]),
            {
                "->": "the offset of orders:7 falls back and returns again and again: two writers, or one that "
                "tries again",
            },
        ),
        # ... in a crash loop, members that start there pass the record before.
        (
            judged([*FINE, STUCK], crash_loops=(loop(*DEATHS),)),
            {"RECORD": "not known: offset 10000000 of orders:7 or a later one", "->": CRASHES_AT_7},
        ),
        # A topic that no member subscribes to, and a member whose subscription is not known.
        (
            judged([*FINE, LEFT], roster=LEFT_MEMBERS),
            {
                "RATE": "in 500/s, out 500/s (1m): keeps up",
                "->": "no member subscribes to oldtopic: delete the offsets if none should",
            },
        ),
        (
            judged([*FINE, LEFT_LATELY], roster=LEFT_MEMBERS),
            {
                "->": "no member subscribes to oldtopic: a deployment changed the subscription, or a service that "
                "shares the group is missing; if neither, it is not read on purpose",
            },
        ),
        (
            judged([*FINE, LEFT], roster=LEFT_MEMBERS, of_some=frozenset({"oldtopic", "orders"})),
            {
                "->": "no member subscribes to oldtopic, as some members did: a service that shares the group is "
                "missing, or the group has left the topic, the log does not show which",
            },
        ),
        (
            judged([*FINE, LEFT], roster=(E0, E1, structs.replace(E2, subscription=None))),
            {
                "STUCK": "oldtopic:0 at 10000000: no commit for 2h while 10/s (1m) arrive",
                "->": "oldtopic:0 has no owner",
            },
        ),
        # 7: out of range.
        (
            judged([replace(FINE[0], log_start=10_000_300), *FINE[1:]]),
            {"RANGE": "orders:0 committed 10000000 lies below the log start 10000300: 300 offsets gone"},
        ),
        # 8, 12: Empty; its members are gone, its offsets stay.
        (
            judged([replace(p, last_ago=HOUR // 2, age=HOUR // 2, owner=None) for p in FINE], "Empty", ()),
            {
                "READER": "all 5: no reader for 30m while 500/s (1m) arrive",
                "->": "no member reads; its consumers, once started, continue at the committed offsets",
            },
        ),
        # ... the consumers of a sink connector.
        (
            judged([replace(p, last_ago=HOUR // 2, age=HOUR // 2, owner=None) for p in FINE], "Empty", (),
                   name="connect-to-s3"),
            {
                "->": "no member reads: by its name a sink connector, which is stopped, or whose tasks failed; "
                    "Connect knows which: "
                "GET /connectors/to-s3/status",
            },
        ),
        # ... and the log shows when they left: no reader, since then, and what was set back meanwhile.
        (
            judged([replace(p, last_ago=HOUR // 2, age=HOUR // 2, owner=None) for p in FINE], "Empty", (),
                   state_since_ms=NOW - 29 * MINUTE, churn=GroupChurn(1, 71_000)),
            {
                "READER": "all 5: no reader for 29m while 500/s (1m) arrive",
                "RATE": "in 500/s, out 0 (10m): no reader",
                "->": "no member reads; its consumers, once started, continue at the committed offsets",
            },
        ),
        # ... it read a minute ago; a reset since is no reading.
        (
            judged([replace(p, outgoing=95.0, last_ago=MINUTE, owner=None) for p in FINE], "Empty", (),
                   state_since_ms=NOW - MINUTE),
            {"RATE": "in 500/s (10m), out 0 now, 475/s until 1m ago: no reader"},
        ),
        # Nothing arrives; of two topics on one of them.
        (
            judged([Part(0, 0, 0, 0)], quiet=(QuietTopic("orders", NOW - 25 * MINUTE),)),
            {"RATE": "in 0, out 0 (1m): nothing unread; nothing arrives since 01:11:40Z"},
        ),
        (
            judged([Part(0, 0, 0, 0), Part(0, 0, topic="clicks")], quiet=(QuietTopic("orders", NOW - 25 * MINUTE),)),
            {"RATE": "in 100/s, out 100/s (1m): nothing unread; nothing arrives on orders since 01:11:40Z"},
        ),
        # A consumer with assign() reads two of four partitions.
        (
            judged([Part(0, 0, owner=None)], "Empty", (), uncommitted=(
                UncommittedPartition(TopicPartition("orders", 2), 10), UncommittedPartition(TopicPartition("orders", 3),
                700))),
            {"NEVER READ": "orders:3, orders:2 hold 710 offsets, and the group has no commit there", "->": ""},
        ),
        (
            judged([replace(FINE[0], lag=11_000, owner=None, age=HOUR, incoming=0.0, commits=(
                at(5 * MINUTE, 10_011_000), structs.replace(at(MINUTE, 10_000_000), by_tool=True)))], "Empty", (),
                   state_since_ms=NOW - 2 * MINUTE),
            {
                "READER": "orders:0 at 10000000: no reader for 2m",
                "REWOUND": "orders:0 was rewound by 11.0k offsets 1m ago",
                "RATE": "in 0, out 0 (10m): no reader",
            },
        ),
        # A job that is not due, and one that is late.
        (
            judged([Part(0, 60_000, 0, 95, last_ago=30 * MINUTE, age=30 * MINUTE)], "Empty", (),
                   state_since_ms=NOW - 30 * MINUTE, runs=runs(150, 90, 30)),
            {"->": "no member reads: a job that is not due: as its runs so far, the next one begins by 02:02:40Z"},
        ),
        (
            judged([Part(0, 60_000, 0, 95, last_ago=30 * MINUTE, age=30 * MINUTE)], "Empty", (),
                   state_since_ms=NOW - 30 * MINUTE, runs=runs(90, 30)),
            {"->": "no member reads: a job that is not due, or its consumers are missing, the log does not show which: "
                   "as its runs so far, the next one begins by 02:02:40Z"},
        ),
        (
            judged([Part(0, 60_000, 0, 95, last_ago=90 * MINUTE, age=90 * MINUTE)], "Empty", (),
                   state_since_ms=NOW - 90 * MINUTE, runs=runs(150, 90)),
            {"->": "no member reads; the group needs 11m at 95/s, its last rate"},
        ),
        # Its process hangs, or handles a batch for longer than it may.
        (
            judged([Part(0, 600, 0, 95, last_ago=3 * MINUTE, age=3 * MINUTE)], "Empty", (),
                   state_since_ms=NOW - MINUTE, slow_polls=slow_polls(60)),
            {"->": "its last member app left 1m ago as it did not poll for 1m (max.poll.interval.ms): its process may "
                   "live, and hang at orders:0 offset 10000000"},
        ),
        (
            judged([replace(STUCK, number=0)], slow_polls=slow_polls(180, 90)),
            {"->": "members left 2 times at orders:0 offset 10000000, the last 1m30s ago, as they did not poll for 1m "
                   "(max.poll.interval.ms): a batch needs longer, or a call hangs, the log does not show which"},
        ),
        # ... another member took over; or its records are read by now.
        (
            judged([replace(STUCK, number=0)], slow_polls=slow_polls(90)),
            {"->": "enrich-1 (10.0.3.4) owns orders:0 and is still a member"},
        ),
        (judged([Part(0, 0)], "Empty", (), slow_polls=slow_polls(180, 90)), {"->": ""}),
        # It never commits, while records arrive.
        (
            group_verdict(uncommitted(E0), evidence([Part(0, 9, ended_ago=MINUTE)], state_since_ms=NOW - 2 * MINUTE)),
            {"->": ""},
        ),
        (
            group_verdict(uncommitted(E0), evidence([Part(0, 5, ended_ago=MINUTE)], state_since_ms=NOW - 2 * MINUTE)),
            {"->": "nothing was committed since the members joined 2m ago, while records arrive at orders:0: they "
                   "process without committing, or do not read, the log does not show which"},
        ),
        (
            group_verdict(uncommitted(E0), evidence([Part(0, 5, ended_ago=MINUTE)], state_since_ms=NOW - 59 * SECOND)),
            {"->": ""},
        ),
        # A large gap: at the rate at which the group last read, or where it still reads.
        (
            judged([Part(0, 60_000, 0, 95, last_ago=3 * MINUTE, age=HOUR)], "Empty", (),
                   state_since_ms=NOW - 3 * MINUTE),
            {"->": "no member reads; the group needs 11m at 95/s, its last rate"},
        ),
        (
            judged([Part(0, 60_000, 120, 95, last_ago=3 * MINUTE, age=HOUR)], "Empty", (),
                   state_since_ms=NOW - 3 * MINUTE),
            {"->": "no member reads; the group does not catch up at 95/s, its last rate"},
        ),
        (
            judged([Part(n, 90_000, **DRAINS) for n in range(4)]),
            {"->": "the lag shrinks, and needs 15m at 800/s"},
        ),
        # Nothing arrives any more: the average of ten minutes does not show that, the newest span does.
        (
            judged([replace(p, owner=None, age=5 * MINUTE, ended_ago=2 * MINUTE, last_ago=3 * MINUTE)
                    for p in FINE], "Empty", (), state_since_ms=NOW - 3 * MINUTE),
            {"READER": "all 5: no reader for 3m",
             "RATE": "in 0 (1m), 500/s (10m), out 0 now, 500/s until 3m ago: no reader"},
        ),
        # ... also where one partition is read: nobody reads the group.
        (
            judged([Part(n, lag, commits=(at(HOUR, 10_000_000),)) for n, lag in enumerate((60_000, 0))], "Empty", (),
                   state_since_ms=NOW - 2 * MINUTE),
            {"RATE": "in 200/s, out 0 (10m): no reader"},
        ),
        # Another group lags, this one does not.
        (
            judged(FINE, siblings=(sibling("a", 30, age=61 * SECOND),)),
            {"SHAPE": "no partition is behind; 1 of 1 other group of orders lags (a)"},
        ),
        # 9: Empty, while somebody commits with assign().
        (
            judged([replace(p, owner=None) for p in FINE], "Empty", (), protocol_type=""),
            {"->": "no member reads; consumers with assign() are not visible"},
        ),
        # 13: commits jump back at a deploy.
        (
            judged([*FINE[1:], replace(FINE[0], lag=50_000, commits=(
                *steady(10_001_204, 100, 4 * MINUTE + 5 * SECOND),
                *steady(10_000_000, 10, 2 * SECOND, times=4)))]),
            {"REWOUND": "orders:0 was rewound by 1354 offsets 17s ago"},
        ),
        # 16: a hanging transaction; it is no lag of the group's.
        (
            judged([replace(FINE[0], last_stable=10_000_000, transaction=HANGING),
                    *(replace(p, last_stable=10_000_600) for p in FINE[1:])], isolation=Isolation.READ_COMMITTED),
            {
                "TXN": "600 offsets of orders:0 lie behind an open transaction of producer 4711 (pay-tx), "
                "begun 1h ago at 10000000",
                "->": "read_committed consumers of orders:0 get no further until that transaction ends",
            },
        ),
        # 18: a static member that left.
        (
            judged([replace(FINE[0], owner=structs.replace(E0, instance_id="pay-4", epoch=-2))], type="consumer"),
            {"->": "static member pay-4 left temporarily; its partitions are kept until its session ends"},
        ),
        # 19: made anew.
        (
            judged([*FINE, replace(STUCK, lag=-5)]),
            {
                "RANGE": "orders:7 committed 10000000 lies above the log end 9999995: "
                "the topic was recreated, or the log was truncated",
                "LAG": "600 on orders:0, 20% of 3000 over 5 of 5 partitions; unknown on 1 other partition; "
                "oldest unread record at least 6s",
            },
        ),
        # Other groups that could not be read may read the same, and keep up.
        (
            judged([*FINE, STUCK], siblings=(), unknown=UNSEEN),
            {
                "SHAPE": "one partition of 6, orders:7 (enrich-1); whether another group reads orders is unknown; "
                + NO_RIGHT
            },
        ),
        (
            judged([replace(p, lag=900_000, **SLOW) for p in FINE], siblings=LAG_TOO, unknown=UNSEEN),
            {
                "SHAPE": f"every partition, every member; 2 of 2 other groups of orders lag too; {NO_RIGHT}",
                "->": "3 members for 5 partitions",
            },
        ),
        # Healthy: nobody is closer than his own commits.
        (
            judged(FINE, siblings=KEEP_UP),
            {
                "RATE": "in 500/s, out 500/s (1m): keeps up",
                "SHAPE": "no partition is behind; 2 of 2 other groups of orders keep up",
                "->": "",
            },
        ),
        # Members beside too few partitions, members without any.
        (
            judged(FINE, roster=[E0, E1, E2, structs.replace(member("idle"), assignment=())]),
            {"->": "1 of 4 members idle: no partition assigned"},
        ),
        # Slower than what arrives, on all: how many could read.
        (
            judged([Part(n, 90_000, **SLOW, owner=OWNERS[n]) for n in OWNERS], siblings=KEEP_UP),
            {"SHAPE": "every partition, every member; 2 of 2 other groups of orders keep up",
             "->": "3 members for 6 partitions"},
        ),
        # A stuck partition that nobody owns.
        (judged([*FINE, replace(STUCK, owner=None)]), {"->": "orders:7 has no owner"}),
        (judged([FINE[0], STUCK]), {"->": "enrich-1 (10.0.3.4) owns orders:7 and is still a member"}),
        (
            judged([FINE[0], STUCK, replace(STUCK, number=8)]),
            {
                "STUCK": "orders:7 at 10000000: no commit for 38m while 1700/s (1m) arrive; also orders:8",
                "->": "enrich-1 (10.0.3.4) owns orders:7 and 1 more stuck partition and is still a member",
            },
        ),
        # No records at all since: phantom lag.
        (
            group_verdict(group([Part(0, 40)]), structs.replace(evidence([Part(0, 40)]), partitions={
                TopicPartition("orders", 0): PartitionEvidence(first_unread=FirstUnread(None))})),
            {"LAG": "0 on 1 partition; 40 more offsets hold no record"},
        ),
    ],
)  # fmt: skip
def test_situations(found: GroupVerdict, lines: dict[str, str]) -> None:
    words = said(found)

    assert {word: words.get(word) for word in lines} == lines


def test_where_all_is_read_two_lines_are_enough() -> None:
    found = judged([replace(p, lag=0) for p in FINE])

    assert said(found) == {"LAG": "0 on 5 partitions", "RATE": "in 500/s, out 500/s (1m): nothing unread", "->": ""}


NO_READ = "no READ on __consumer_offsets"
BLIND = [replace(p, commits=(), timed=False, retention=None) for p in [*FINE, STUCK]]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            judged(BLIND, unknown={EvidenceSource.COMMITS: NO_READ, EvidenceSource.TIME: "--no-time",
                                   EvidenceSource.RETENTION: "no DESCRIBE_CONFIGS on orders",
                                   EvidenceSource.SIBLINGS: "not listed"}),
            {
                "LAG": "3.94M on orders:7, 100% of 3.94M over 6 of 6 partitions; age unknown: --no-time",
                "STUCK": f"unknown: {NO_READ}",
                "RATE": f"in 2200/s (10m), out unknown ({NO_READ})",
                "RETENTION": "unknown: no DESCRIBE_CONFIGS on orders",
                "SHAPE": "one partition of 6, orders:7 (enrich-1); other groups unknown: not listed",
            },
        ),
        (
            group_verdict(
                group(BLIND), structs.replace(evidence([]), unknown={EvidenceSource.COMMITS: NO_READ})
            ),
            {"RATE": f"unknown: {NO_READ}", "STUCK": f"unknown: {NO_READ}", "RETENTION": "unknown: not read"},
        ),
        (
            judged([replace(STUCK, commits=(at(3 * MINUTE, 10_000_000, 7),), age=4 * MINUTE)]),
            {"STUCK": "unknown: only one commit was found, at least two are needed"},
        ),
        # ... the other partitions show how the group commits.
        (
            judged([*FINE, replace(STUCK, commits=(at(3 * MINUTE, 10_000_000, 7),), age=4 * MINUTE)]),
            {"STUCK": "orders:7 at 10000000: no commit for 3m while 16.4k/s (1m) arrive"},
        ),
        (
            judged([*FINE, replace(STUCK, retention=None)]),
            {"RETENTION": "retention (12h) deletes the first unread record of orders:0 in 12h; "
                     "unknown on 1 of 6 lagging partitions"},
        ),
        (judged([Part(0, None)]), {"LAG": "unknown: the logs could not be read"}),
        (
            judged([Part(0, -50)]),
            {
                "LAG": "unknown: committed above the log end",
                "RATE": "unknown: committed above the log end",
                "RETENTION": None,
            },
        ),
        (group_verdict(uncommitted(), evidence([])), {"LAG": "unknown: nothing is committed yet"}),
        (judged([]), {"LAG": "unknown: no committed offset, and no partition is assigned"}),
        (
            group_verdict(structs.replace(group([]), members=None), evidence([])),
            {"LAG": "unknown: no committed offset is shown, and its members are unknown"},
        ),
        (
            judged([Part(0, 9, timed=False)], unknown={EvidenceSource.TIME: "timed out"}),
            {"RETENTION": "unknown: age of the first unread record: timed out"},
        ),
        (
            judged([Part(0, None, error="no DESCRIBE on Topic")]),
            {"LAG": "unknown: the offsets or the logs could not be read"},
        ),
    ],
)  # fmt: skip
def test_what_could_not_be_read_is_unknown_and_not_left_out(found: GroupVerdict, lines: dict[str, str]) -> None:
    words = said(found)

    assert {word: words.get(word) for word in lines} == lines


@pytest.mark.parametrize(
    ("retention", "text", "style"),
    [
        (Retention(12 * HOUR), "retention (12h) deletes the first unread record in 11h22m", None),
        (Retention(98 * MINUTE), "retention (1h38m) deletes the first unread record in 1h", None),
        (Retention(90 * MINUTE), "retention (1h30m) deletes the first unread record in 52m", "warn"),
        (Retention(40 * MINUTE), "retention (40m) deletes the first unread record in 2m", "bad"),
        (Retention(30 * MINUTE), "retention (30m) may delete the first unread record at any moment", "bad"),
        (Retention(None), "unread records are not deleted: retention has no limit", None),
        (
            Retention(None, compacted=True, deletes=False),
            "orders is compacted: an unread record is deleted if its key has a newer one",
            None,
        ),
        (
            Retention(None, 2**30, 2**29),
            "retention.bytes (1.0 GiB) deletes the first unread record in about 3h55m",
            None,
        ),
    ],
)
def test_safe(retention: Retention, text: str, style: str | None) -> None:
    found = judged([replace(STUCK, retention=retention)])

    assert found.safe is not None
    assert (found.safe.text, found.safe.style) == (text, style)


def _at_7(*others: str) -> dict[str, Any]:
    return {"same_offset": {TopicPartition("orders", 7): others}}


@pytest.mark.parametrize(
    ("found", "more"),
    [
        (judged([*FINE, STUCK], members={"enrich-1": MemberFacts(5 * MINUTE, 45_000)}, **_at_7("b")),
         "; b is at orders:7 offset 10000000 too, or next to it: "),
        (judged([*FINE, STUCK], members={"enrich-1": MemberFacts(5 * MINUTE, 45_000)}, **_at_7("b", "c")),
         "; b, c are at orders:7 offset 10000000 too, or next to it: "),
        (judged([*FINE, STUCK], crash_loops=(loop(*DEATHS),), **_at_7("b")), "; b is at orders:7 offset 10000000 too"),
        (judged([*FINE, STUCK], members={"enrich-1": MemberFacts(5 * MINUTE, 45_000)}), None),
        (judged(FINE, **_at_7("b")), None),
        # No member reads it: others that are there show nothing about that.
        (judged([replace(STUCK, owner=None)], "Empty", [], **_at_7("b")), None),
    ],
)  # fmt: skip
def test_other_groups_at_the_same_record(found: GroupVerdict, more: str | None) -> None:
    assert ("the cause is not this group alone" in (found.next or "")) is (more is not None)
    assert (more or "") in (found.next or "")


@pytest.mark.parametrize(
    ("siblings", "text"),
    [
        ((), "no other group reads orders"),
        ((sibling("other", 5, topic="audit"),), "no other group reads orders"),
        ((sibling("orders-enrich", 5),), "no other group reads orders"),  # itself
        ((sibling("old", 10**9, last_ago=2 * HOUR),), "no other group reads orders (1 quiet for over an hour)"),
        ((sibling("a", 5),), "1 of 1 other group of orders keeps up"),
        ((sibling("a", 5), sibling("b", 10**6)), "1 of 2 other groups of orders lags too (b)"),
        ((sibling("a", None),), "whether other groups of orders lag is unknown"),
        ((sibling("a", 5, last_ago=None), sibling("b", None)), "1 of 2 other groups of orders keep" + "s up"),
        ((sibling("a", 100_000),), "1 of 1 other group of orders keeps up"),  # a minute's arrivals: 2200/s
        # By the age of the first unread record, where it is known: few old ones are a lag, many new ones are none.
        ((sibling("a", 30, age=61 * SECOND),), "1 of 1 other group of orders lags too (a)"),
        ((sibling("a", 10**6, age=59 * SECOND),), "1 of 1 other group of orders keeps up"),
        # Without members from when lag says NO-READER, unless a consumer with assign() commits.
        ((sibling("a", 1836, age=61 * SECOND, last_ago=61 * SECOND, is_empty=True),),
         "no other group reads orders (1 without a reader)"),
        ((sibling("a", 1836, age=HOUR, last_ago=HOUR, is_empty=True), sibling("b", 10**6),
          sibling("c", 9, last_ago=2 * HOUR)), "1 of 1 other group of orders lags too (b)"),
        ((sibling("a", 1836, age=59 * SECOND, last_ago=59 * SECOND, is_empty=True),),
         "whether other groups of orders lag is unknown"),
        ((sibling("a", 1836, age=37 * SECOND, is_empty=True),), "whether other groups of orders lag is unknown"),
        ((sibling("a", 0, is_empty=True),), "1 of 1 other group of orders keeps up"),
    ],
)  # fmt: skip
def test_siblings(siblings: tuple[Sibling, ...], text: str) -> None:
    found = judged([*FINE, STUCK], siblings=siblings)

    assert said(found)["SHAPE"].partition("; ")[2] == text


@pytest.mark.parametrize(
    ("since_ago", "unknown", "text"),
    [
        (41 * MINUTE, {}, "Stable for 41m"),
        (None, {}, "Stable"),
        (None, {EvidenceSource.STATE: NO_READ}, "Stable for an unknown time"),
        (-5 * SECOND, {}, "Stable for 0s"),
    ],
)
def test_state_and_since_when(since_ago: int | None, unknown: dict[EvidenceSource, str], text: str) -> None:
    since_ms = None if since_ago is None else NOW - since_ago

    assert judged(FINE, state_since_ms=since_ms, unknown=unknown).state == text


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([*FINE, STUCK], LagShape.ONE_PARTITION),
        (FINE, LagShape.NONE),
        ([STUCK], LagShape.EVERY),
        ([Part(0, None)], LagShape.UNKNOWN),
        ([*FINE, STUCK, replace(STUCK, number=8, owner=E0, leader=2)], LagShape.SOME),
        ([Part(n, lag, commits=()) for n, lag in enumerate([900, 100, 5])], LagShape.ONE_PARTITION),  # by lag alone
    ],
)
def test_shape(parts: list[Part], kind: LagShape) -> None:
    found = [replace(p, topic="orders", leader=None if kind is LagShape.SOME else p.leader) for p in parts]

    assert judged(found).shape.kind is kind


def test_other_groups_that_were_not_read_are_no_field() -> None:
    assert verdict_document(judged(FINE)).other_groups is None


PARTS = st.builds(
    Part,
    number=st.integers(0, 5),
    lag=st.one_of(st.none(), st.integers(-5, 10**9)),
    incoming=st.one_of(st.just(0.0), st.floats(0.001, 1e5)),
    outgoing=st.floats(0, 1e4),
    last_ago=st.integers(-10_000, 10**8),
    age=st.one_of(st.none(), st.integers(-(10**6), 10**9)),
    owner=st.sampled_from([None, E0, E1, E2]),
    leader=st.sampled_from([None, 1, 2]),
    retention=st.sampled_from([None, HALF_DAY, Retention(None), Retention(60_000, 100, 50), Retention(None, 0, 7)]),
    log_start=st.sampled_from([0, 10_000_300]),
    commits=st.sampled_from([None, (), SAME_OFFSET]),
    last_stable=st.sampled_from([None, 5, 10_000_100]),
    transaction=st.sampled_from([None, BlockingTransaction(1, 2, 3), BlockingTransaction(1, 2, 3, NOW - HOUR, "x")]),
    timed=st.booleans(),
)


@given(
    st.lists(PARTS, max_size=6, unique_by=lambda p: p.number),
    st.sampled_from(["Stable", "Empty", "PreparingRebalance", "Dead"]),
    st.sampled_from([None, (), KEEP_UP, LAG_TOO]),
    st.sampled_from([None, GroupChurn(0, 0), GroupChurn(58, 71_000)]),
    st.sampled_from(Isolation),
)
def test_anything_gets_a_verdict(
    parts: list[Part], state: str, siblings: tuple[Sibling, ...] | None, churn: GroupChurn | None, isolation: Isolation
) -> None:
    found = judged(parts, state, siblings=siblings, churn=churn, isolation=isolation)

    lines = list(verdict_lines(found))
    words = [line.word for line in lines]
    assert words[0] == "LAG"
    assert len(set(words)) == len(words)
    assert all(line.text and "\n" not in line.text and "None" not in line.text for line in lines)
    assert ("RATE" in words) == bool(parts)
    assert found.next is None or found.next.strip()
    assert verdict_document(found).shape.partition_count <= len(parts)


def test_a_transaction_whose_begin_nobody_tells_is_older_than_its_last_record() -> None:
    unknown = structs.replace(HANGING, transactional_id=None, at_least=True)
    found = judged([replace(FINE[0], last_stable=10_000_000, transaction=unknown)])

    assert "producer 4711, begun over 1h ago at 10000000" in said(found)["TXN"]


GOING_BACK = (*steady(10_001_204, 100, 4 * MINUTE + 5 * SECOND), *steady(10_000_000, 10, 2 * SECOND, times=4))
REWOUND = replace(FINE[0], lag=50_000, commits=GOING_BACK)
BY_TOOL = (*GOING_BACK[:-4], structs.replace(GOING_BACK[-4], by_tool=True), *GOING_BACK[-3:])
RESET_BACK = replace(REWOUND, commits=BY_TOOL)
ONE_STOPPED = Part(0, 344, 2.4, last_ago=15 * MINUTE, age=15 * MINUTE)
HISTORY = "kgroup history orders-enrich"
PEEK = "kgroup peek orders-enrich"
ADD = "kgroup simulate orders-enrich --add 1"
LEAVE = "kgroup delete-offsets orders-enrich --topic oldtopic"
CATCH_UP = "kgroup catchup start orders-enrich"
SKIP = "kgroup reset orders-enrich --to-offset payments:3=8812338 --save-skipped payments-3-8812337.jsonl"


@pytest.mark.parametrize(
    ("found", "commands"),
    [
        # Which record: only if each was committed alone while the next ones were there, and this one again and again.
        (judged([PILL_PART]), [PEEK, SKIP]),
        (POISON, [PEEK]),
        (FLIPS, [PEEK]),
        (TWO_WRITERS, [f"{HISTORY} --commits"]),
        (silent(300_000, *OTHERS), ["kgroup evict orders-enrich --instance pod-1"]),
        (silent(60_000, *OTHERS), [PEEK]),
        (judged([*FINE, STUCK], open_commits=(HELD,)), []),
        (judged([replace(FLIPS_PART, commits=BACK_AND_FORTH[:-1], committed=9_999_990)]), [PEEK]),
        (judged([replace(PILL_PART, commits=ONE_BY_ONE)]), [PEEK]),
        (judged([replace(PILL_PART, timed=False)]), [PEEK]),
        (ONE_STUCK, [PEEK]),  # Its owner commits another partition.
        (judged([FINE[0], STUCK]), [PEEK]),
        (judged([replace(STUCK, last_ago=40 * SECOND, age=MINUTE), FINE[0]]), [CATCH_UP]),  # Its owner may be dead.
        (judged([replace(p, last_ago=38 * MINUTE, age=38 * MINUTE) for p in FINE]), [PEEK]),  # No one record.
        (judged([replace(STUCK, owner=None)], "Empty", ()), [CATCH_UP]),
        (judged([replace(PILL_PART, owner=None)], "Empty", (), protocol_type=""), [PEEK, SKIP]),
        (CRASH_LOOP, [PEEK, HISTORY]),
        (judged([*FINE, STUCK], crash_loops=(loop(*DEATHS),)), [PEEK, HISTORY]),
        (
            judged([PILL_PART], crash_loops=(loop(*DEATHS, number=3, offset=8_812_337, topic="payments"),)),
            [PEEK, HISTORY],
        ),
        # A topic that no member subscribes to; what it leaves unread is no gap.
        (judged([*FINE, LEFT], roster=LEFT_MEMBERS), [LEAVE]),
        (judged([*FINE, LEFT_LATELY], roster=LEFT_MEMBERS), []),
        # ... nor one whose first unread record has just arrived: it may be read once a day, until a wrong deployment.
        (judged([*FINE, replace(LEFT, age=MINUTE)], roster=LEFT_MEMBERS), []),
        (judged([*FINE, LEFT], roster=LEFT_MEMBERS, of_some=frozenset({"oldtopic"})), []),
        (judged([*FINE, STUCK, LEFT], roster=LEFT_MEMBERS), [PEEK, LEAVE]),
        # A rebalance: it may be one of a crash loop, and a record may be what the members die of.
        (judged(FINE, "PreparingRebalance"), [HISTORY]),
        (judged([*FINE[1:], ONE_STOPPED], "PreparingRebalance"), [HISTORY, PEEK]),
        (judged(FINE), []),
        # A member that goes back itself reads again, or gives back what it has not processed.
        (judged([*FINE[1:], REWOUND]), []),
        (judged([*FINE[1:], RESET_BACK]), ["kgroup undo orders-enrich --as-of {}"]),
        # NO-READER, and no longer REWIND.
        (
            judged([replace(RESET_BACK, owner=None, age=HOUR)], "Empty", (), state_since_ms=NOW - 2 * MINUTE),
            ["kgroup undo orders-enrich --as-of {}"],
        ),
        # Partitions of one reset: the earliest of its commits.
        (
            judged([
                *FINE[2:],
                RESET_BACK,
                replace(RESET_BACK, number=1, commits=tuple(
                    structs.replace(c, partition=1, timestamp_ms=c.timestamp_ms + 400) for c in BY_TOOL)),
            ]),
            ["kgroup undo orders-enrich --as-of {}"],
        ),
        # A large gap: not where it ends soon or is small, where a tool committed last, or where one partition is stuck.
        (judged([Part(0, 60_000, 0, 95, last_ago=MINUTE)], "Empty", (), state_since_ms=NOW - MINUTE), [CATCH_UP]),
        (judged([Part(0, 60_000, 0, 95, last_ago=30 * MINUTE, age=30 * MINUTE)], "Empty", (), runs=runs(90, 30)), []),
        # What another group may have read is not replayed.
        (judged([Part(0, 60_000, 0, 95, last_ago=MINUTE)], "Empty", (), state_since_ms=NOW - MINUTE, successor=V2),
         ["kgroup describe orders-v2"]),
        # No record is skipped that takes long.
        (judged([PILL_PART], slow_polls=slow_polls(180, 90, number=3, topic="payments")), [PEEK, HISTORY]),
        (judged([replace(PILL_PART, owner=None)], "Empty", (), slow_polls=slow_polls(90, number=3, topic="payments")),
         [PEEK, HISTORY]),
        (judged([Part(0, 60_000, 0, 105, last_ago=MINUTE)], "Empty", (), state_since_ms=NOW - MINUTE), []),
        (judged([Part(0, 999, 1.5, 1, last_ago=MINUTE)], "Empty", (), state_since_ms=NOW - MINUTE), []),
        (judged([Part(0, 60_000, 9, commits=(structs.replace(at(HOUR, 10_000_000), by_tool=True),))], "Empty", (),
                state_since_ms=NOW - HOUR), []),
        (judged([Part(0, 60_000, **SLOW)]), [CATCH_UP]),
        (judged([Part(n, 60_000, owner=E1, **SLOW) for n in (1, 3)]), [ADD, CATCH_UP]),
        (judged([Part(n, 60_000, owner=E1, **SLOW) for n in (1, 3)], "PreparingRebalance"), [HISTORY, CATCH_UP]),
        (judged([Part(n, 60_000, owner=OWNERS[n], **SLOW) for n in (0, 1)]), [CATCH_UP]),
        (judged([Part(0, 90_000, **DRAINS)]), [CATCH_UP]),
        (judged([Part(0, 50_000, **DRAINS)]), []),
        (judged([PILL_PART, RESET_BACK]), [PEEK, SKIP, "kgroup undo orders-enrich --as-of {}"]),
    ],
)  # fmt: skip
def test_the_commands_that_follow(found: GroupVerdict, commands: list[str]) -> None:
    back_ms = GOING_BACK[-4].timestamp_ms
    before = rfc3339(back_ms - 1)
    expected = [command.format(before) for command in commands]

    assert list(found.commands) == expected
    assert list(verdict_document(found).commands) == expected


def with_times(parts: list[Part], unusable_ms: Mapping[int, int]) -> GroupVerdict:
    """Those partitions have such timestamps, from which nothing is known."""
    found = evidence(parts, unknown={EvidenceSource.TIME: "not usable"})
    known = {
        tp: structs.replace(each, ends=(), first_unread=FirstUnread(10_000_000), unusable_ms=unusable_ms[tp.partition])
        if tp.partition in unusable_ms
        else each
        for tp, each in found.partitions.items()
    }
    return group_verdict(group(parts), structs.replace(found, partitions=known))


def test_times_that_are_not_usable_are_named_and_lead_to_nothing() -> None:
    healthy = [Part(n, 200) for n in range(3)]

    found = said(with_times(healthy, {0: 0, 1: NOW + 3 * HOUR}))
    assert found["CLOCK"] == (
        "timestamps of orders:0 are of 1970 (1970-01-01T00:00:00Z) and of orders:1 are 3h in the future "
        "(2026-11-21T04:36:40Z): the producer's clock"
    )
    assert found["->"] == ""
    assert found["LAG"].endswith("; oldest unread record at least 2s on orders:2")
    assert found["RATE"].endswith(": keeps up")
    assert found["RETENTION"] == (
        "retention (12h) deletes the first unread record of orders:2 in 12h; unknown on 2 of 3 lagging partitions"
    )
    found = said(with_times(healthy, dict.fromkeys(range(3), 0)))
    assert found["->"] == ""
    assert found["LAG"].endswith("; age unknown: not usable")
    assert found["RATE"] == "in unknown, out 300/s (57s): keeps up"
    assert found["RETENTION"] == "unknown: it goes by the timestamps of the records, which are not usable"
    assert "CLOCK" not in said(judged(healthy))


def test_events_that_are_older_than_the_retention_are_no_loss_while_the_group_keeps_up() -> None:
    """Their segments may be deleted at any time, but within seconds they are read."""
    arrives = replace(Part(0, 200), age=14 * 24 * HOUR)

    found = judged([arrives])
    assert found.next is None
    assert found.safe is not None
    assert (found.safe.text, found.safe.style, found.safe.too_late) == (
        "retention (12h) may delete the first unread record at any moment, but the group keeps up",
        "warn",
        False,
    )
    behind = judged([arrives, replace(Part(1, 60_000, **DRAINS), age=14 * 24 * HOUR)])
    assert behind.next == "retention may delete unread records before they are read"
    assert "of orders:1 at any moment" in said(behind)["RETENTION"]
