"""Cases of the rules about members, rebalances and timeouts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kgroup.groups.doctor.snapshot import (
    GroupSnapshot,
    MemberRestart,
    Rebalance,
    RebalanceHistory,
    TopicDetails,
)
from kgroup.groups.history.lost_members import LostMember
from kgroup.groups.lag.evidence import MemberFacts
from kgroup.groups.migration.check import MigrationPath, Readiness, ReadinessResult
from kgroup.groups.other_deployments import OtherDeployment
from kgroup.groups.shared_instances import SharedInstance
from kgroup.groups.timeline.steps import CrashLoop, OwnerGone
from kgroup.model.group_log import GenerationWritten
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases import history
from tests.helpers.cases.doctor import (
    CRITICAL,
    EARLY,
    EMPTY,
    HEALTHY,
    INFO,
    KEYS,
    NOW,
    PARTLY,
    UNKNOWN,
    WARNING,
    A,
    B,
    Case,
    D,
    H,
    M,
    S,
    commits,
    consumer,
    having,
    log,
    member,
    partition,
    shown,
)
from tests.helpers.cases.doctor_of_offsets import polled_late, standing

STAGING = OtherDeployment(("enrich-staging-0",), ("10.9.0.1",), 1, 6, NOW - M, sure=True)
EACH = tuple(member(f"m{number}", number) for number in range(6))
UNSETTLED = having((A, replace(B, assignment=None)), state="PreparingRebalance")
SIX = member("m6")
TWO_TOPICS = {"orders": TopicDetails(6), "payments": TopicDetails(6)}
PAYER = member("payer", 0, 1, 2, 3, 4, 5, topic="payments")
BOTH = replace(A, subscription=("orders", "payments"))


def stormy(count: int, every_ms: int, ago_ms: int = 10 * S, **other: object) -> RebalanceHistory:
    """Rebalances at even distances, the last one so long ago."""
    times = [NOW - ago_ms - every_ms * at for at in reversed(range(count))]
    given = {"standstill_ms": 8 * S, "taken": 2, "causers": ("enrich-3",)} | other
    return RebalanceHistory(NOW - H, tuple(Rebalance(at, **given) for at in times))  # type: ignore[arg-type]


def crashing(*ago_ms: int, number: int = 3, unread_ms: int | None = None, lag: int = 5) -> GroupSnapshot:
    """An owner of the partition went at each of these moments; its commit is at 1000. Most restart at once."""
    gone = tuple(OwnerGone(NOW - ago, at, at, f"enrich-{at}") for at, ago in enumerate(ago_ms))
    rows = tuple(partition(n, end=1000 + lag if n == number else 1000) for n in range(6))
    past = replace(restarts(*(2 * S for _ in ago_ms)), crash_loops=(CrashLoop("orders", number, 1000, gone),))
    unread = log(end=1000 + lag, unread=True, unread_since_ms=unread_ms)
    return replace(having((A, B), rows), history=past, logs={**HEALTHY.logs, TopicPartition("orders", number): unread})


LOST = LostMember("enrich-2", NOW - 2 * M, 45_000, ("enrich-0",))
DEATHS = (80 * S, 60 * S, 40 * S, 20 * S)


def also_lost(snapshot: GroupSnapshot) -> GroupSnapshot:
    assert snapshot.history is not None
    return replace(snapshot, history=replace(snapshot.history, lost=LOST))


def slow_twice(*restarts_after: int) -> GroupSnapshot:
    """A storm of members that left orders:0 twice as they did not poll, and came back."""
    stands = polled_late(standing(11 * M), 10 * M, 4 * M)
    assert stands.history is not None
    found = stormy(6, M)
    past = replace(found, slow_polls=stands.history.slow_polls, restarts=restarts(*restarts_after).restarts)
    return replace(stands, history=past)


def uncommitted(snapshot: GroupSnapshot) -> GroupSnapshot:
    """The same without a commit of partition 0."""
    rows = (partition(0, None), *snapshot.group.partitions[1:])
    return replace(snapshot, group=replace(snapshot.group, partitions=rows))


def restarts(
    *away_ms: int | None, instance: str | None = None, rebalances: int = 0, rollout: bool = False
) -> RebalanceHistory:
    found = tuple(MemberRestart(instance or f"enrich-{at}", instance, away) for at, away in enumerate(away_ms))
    times = tuple(Rebalance(NOW - H + at * M, rollout=rollout) for at in range(rebalances))
    return RebalanceHistory(NOW - H, times, found)


STATIC = replace(A, instance_id="pay-4")
STATIC_GROUP = replace(having((STATIC, B)), history=restarts(30 * S, instance="pay-4"))
LEFT = replace(STATIC, epoch=-2, protocol="consumer")


def session(ms: int | None, poll_ms: int | None = 300_000) -> dict[str, MemberFacts]:
    return {m.member_id: MemberFacts(poll_ms, ms) for m in (A, B)}


READY = Readiness("orders-enrich", (), ReadinessResult.READY, MigrationPath.ROLLING, None)


def waiting(silent_ms: int = 60 * S, state: str = "CompletingRebalance", **other: Any) -> GroupSnapshot:
    """All partitions have unread records; A led the newest generation, and nobody commits."""
    parts = tuple(partition(number, end=1500) for number in range(6))
    made = GenerationWritten(
        1, NOW - H, 7, "consumer", "range", A.member_id, None, tuple(history.member(m.member_id) for m in (A, B))
    )
    changed = {key: commits(998, 999, 1000, until_ms=NOW - silent_ms) for key in KEYS}
    about = replace(HEALTHY.group, state=state, partitions=parts)
    return shown(replace(HEALTHY, group=about, commits=changed, **other), generation=made)


def taken_over(**other: Any) -> GroupSnapshot:
    return shown(replace(HEALTHY, **other), shared_instances=(SharedInstance("pay-4", NOW - 62 * S, NOW - 2 * S, 14),))


CASES = (
    # shared-instance
    Case("shared-instance", "none", HEALTHY, None),
    Case(
        "shared-instance",
        "again and again",
        taken_over(),
        WARNING,
        "group.instance.id pay-4 was taken over 14 times in 1m: two processes have it",
    ),
    Case(
        "shared-instance",
        "two of them",
        shown(HEALTHY, shared_instances=2 * taken_over().read.shared_instances),
        WARNING,
        "; 1 more id too",
    ),
    Case(
        "shared-instance",
        "a process that a record ends",
        shown(crashing(*DEATHS), shared_instances=taken_over().read.shared_instances),
        None,
    ),
    Case(
        "shared-instance",
        "no history",
        taken_over(history=None),
        UNKNOWN,
        "the history in __consumer_offsets was not read",
    ),
    # rebalance-waits
    Case("rebalance-waits", "no rebalance", waiting(state="Stable"), None),
    Case(
        "rebalance-waits",
        "nothing unread",
        replace(waiting(), group=replace(HEALTHY.group, state="PreparingRebalance")),
        None,
    ),
    Case("rebalance-waits", "just begun", waiting(20 * S), EARLY, "it may have just begun"),
    Case("rebalance-waits", "a restart", waiting(55 * S), EARLY, "for less than 1m, which may be a restart"),
    Case("rebalance-waits", "joining", waiting(200 * S, "PreparingRebalance"), WARNING, "which have not is not known"),
    Case(
        "rebalance-waits", "for hours", waiting(15 * M, "PreparingRebalance"), CRITICAL, "which have not is not known"
    ),
    Case(
        "rebalance-waits",
        "a dead leader had been removed",
        waiting(200 * S),
        WARNING,
        "which member leads is not known",
    ),
    Case(
        "rebalance-waits",
        "no history",
        waiting(history=None),
        UNKNOWN,
        "the history in __consumer_offsets was not read",
    ),
    # idle-members
    Case("idle-members", "one spare", having((*EACH, SIX)), INFO, "7 members for 6 partitions: 1 idle (m6)"),
    Case("idle-members", "two spare", having((*EACH, SIX, member("m7"))), WARNING, "2 idle (m6, m7)"),
    Case(
        "idle-members",
        "no topic of theirs",
        having(tuple(replace(each, subscription=(), assignment=()) for each in EACH)),
        WARNING,
        "6 members, and none of the topics that they subscribe to exists",
    ),
    Case(
        "idle-members",
        "... and another member's is hidden",
        replace(having((replace(A, subscription=(), assignment=()), B)), topics=None),
        UNKNOWN,
        "orders",
    ),
    Case("idle-members", "as many as partitions", having(EACH), None),
    Case("idle-members", "idle, but not one too many", having((*EACH[:4], member("m9", 4, 5), SIX)), None),
    Case("idle-members", "away for a moment", having((*EACH, replace(SIX, epoch=-2))), None),
    Case("idle-members", "rebalancing", UNSETTLED, UNKNOWN, "rebalancing"),
    Case("idle-members", "members hidden", having(None, state="Stable"), UNKNOWN, "may not be seen"),
    Case("idle-members", "sizes hidden", replace(having((*EACH, SIX)), topics=None), UNKNOWN, "orders"),
    # skewed-partitions
    Case(
        "skewed-partitions",
        "five and one",
        having((member("a", 0, 1, 2, 3, 4), member("b", 5))),
        WARNING,
        "a holds 5 of 6 partitions, b 1; sticky would give 3 each",
    ),
    Case("skewed-partitions", "four and two", having((member("a", 0, 1, 2, 3), member("b", 4, 5))), None),
    Case("skewed-partitions", "even", HEALTHY, None),
    Case(
        "skewed-partitions",
        "other subscriptions are no skew",
        replace(having((A, B, member("p", 0, topic="tiny"))), topics={**TWO_TOPICS, "tiny": TopicDetails(1)}),
        None,
    ),
    Case("skewed-partitions", "rebalancing", UNSETTLED, UNKNOWN, "it is rebalancing (PreparingRebalance)"),
    Case(
        "skewed-partitions",
        "sizes hidden",
        replace(having((member("a", 0, 1, 2, 3, 4), member("b", 5))), topics={}),
        UNKNOWN,
        "how many partitions orders has: no DESCRIBE on it, or it does not exist",
    ),
    # mixed-subscriptions
    Case(
        "mixed-subscriptions",
        "two services",
        replace(having((A, B, PAYER)), topics=TWO_TOPICS),
        WARNING,
        "of 3 members 2 read orders, 1 read payments",
    ),
    Case("mixed-subscriptions", "an overlap", having((BOTH, B)), INFO, "orders, payments"),
    Case(
        "mixed-subscriptions",
        "the same in another order",
        having((BOTH, replace(B, subscription=("payments", "orders")))),
        None,
    ),
    Case(
        "mixed-subscriptions",
        "an overlap, and a partition nobody owns",
        having((BOTH, replace(B, assignment=()))),
        WARNING,
        "without an owner: orders",
    ),
    Case("mixed-subscriptions", "alike", HEALTHY, None),
    Case(
        "mixed-subscriptions",
        "not told",
        having((A, replace(B, subscription=None))),
        UNKNOWN,
        "the subscriptions of its members are unknown",
    ),
    # other-deployment
    Case("other-deployment", "none", HEALTHY, None),
    Case("other-deployment", "a staging system", shown(HEALTHY, deployment=STAGING), WARNING, "has 1 of 6"),
    Case(
        "other-deployment",
        "other names",
        shown(HEALTHY, deployment=replace(STAGING, sure=False)),
        INFO,
        "names its members so",
    ),
    Case("other-deployment", "no log", replace(HEALTHY, commits=None), UNKNOWN, "were not read"),
    # ready-to-migrate
    Case("ready-to-migrate", "ready", replace(HEALTHY, readiness=READY), INFO, "member by member"),
    Case("ready-to-migrate", "with a warning", HEALTHY, None),
    Case("ready-to-migrate", "on it already", replace(consumer((A, B)), readiness=READY), None),
    Case(
        "ready-to-migrate",
        "not looked at",
        replace(HEALTHY, readiness=None),
        UNKNOWN,
        "whether it can migrate was not checked",
    ),
    # rebalance-storm
    Case(
        "rebalance-storm",
        "each half minute",
        replace(HEALTHY, history=stormy(17, 30 * S)),
        CRITICAL,
        "17 in 8m, not over",
    ),
    Case(
        "rebalance-storm",
        "culprits",
        replace(HEALTHY, history=stormy(17, 30 * S)),
        CRITICAL,
        "most by enrich-3 (17)",
    ),
    Case(
        "rebalance-storm",
        "over",
        replace(HEALTHY, history=stormy(17, 30 * S, 20 * M)),
        WARNING,
        "over since",
    ),
    Case(
        "rebalance-storm",
        "each two minutes",
        replace(HEALTHY, history=stormy(5, 119 * S)),
        WARNING,
        "5 in 7m56s",
    ),
    Case(
        "rebalance-storm",
        "few, but long",
        replace(consumer((A, B)), history=stormy(5, M, standstill_ms=30 * S)),
        CRITICAL,
        "5 in 4m, not over, stopped for 2m30s (62%); most by enrich-3 (5)",
    ),
    Case(
        "rebalance-storm",
        "few, and nothing is committed between them",
        replace(having((A, B), (partition(0, end=1005),)), history=stormy(6, M, standstill_ms=30 * S)),
        CRITICAL,
        "6 in 5m, not over, without commits for 2m30s (50%); most by enrich-3 (6)",
    ),
    Case(
        "rebalance-storm",
        "the time before the first is not of the window",
        replace(having((A, B), (partition(0, end=1005),)), history=stormy(5, M, standstill_ms=30 * S)),
        WARNING,
        "5 in 4m, not over, without commits for 2m (50%); most by enrich-3 (5)",
    ),
    Case(
        "rebalance-storm",
        "few, and there is nothing to commit",
        replace(having((A, B), (partition(0, end=1000),)), history=stormy(6, M, standstill_ms=30 * S)),
        WARNING,
        "6 in 5m, not over; most by enrich-3 (6)",
    ),
    Case(
        "rebalance-storm",
        "a crash loop",
        crashing(*DEATHS),
        CRITICAL,
        "crash loop at orders:3 offset 1000: 4 members came and went in 1m, the last 20s ago",
    ),
    Case(
        "rebalance-storm",
        "a crash loop, of those after the record",
        crashing(*DEATHS, unread_ms=NOW - 61 * S),
        CRITICAL,
        "3 members came and went in 40s",
    ),
    Case("rebalance-storm", "a record that came later", crashing(*DEATHS, unread_ms=NOW - 59 * S), None),
    Case("rebalance-storm", "nothing to read", crashing(*DEATHS, lag=0), None),
    Case("rebalance-storm", "one fewer", replace(HEALTHY, history=stormy(4, 119 * S)), None),
    Case("rebalance-storm", "too far apart", replace(HEALTHY, history=stormy(30, 151 * S)), None),
    Case("rebalance-storm", "a rollout", replace(HEALTHY, history=stormy(24, 10 * S, rollout=True)), None),
    Case("rebalance-storm", "two hours ago", replace(HEALTHY, history=stormy(17, 30 * S, 2 * H)), None),
    Case(
        "rebalance-storm",
        "not read",
        replace(HEALTHY, history=None),
        UNKNOWN,
        "the history in __consumer_offsets was not read",
    ),
    Case(
        "rebalance-storm",
        "read for 4m",
        replace(HEALTHY, history=RebalanceHistory(NOW - 4 * M)),
        PARTLY,
        "back to",
    ),
    # lost-member
    Case("lost-member", "none", HEALTHY, None),
    Case(
        "lost-member",
        "frozen",
        replace(HEALTHY, history=RebalanceHistory(NOW - H, lost=LOST)),
        INFO,
        "enrich-2 left: its session ended at 07:58:00Z (no heartbeat for 45s): it died, hung or lost the network",
    ),
    Case(
        "lost-member",
        "in a crash loop",
        also_lost(crashing(*DEATHS)),
        None,
    ),
    Case("lost-member", "no log", replace(HEALTHY, history=None), UNKNOWN, "was not read"),
    # members that do not poll, and leave again and again
    Case(
        "rebalance-storm",
        "of members that do not poll",
        slow_twice(),
        WARNING,
        "6 in 5m, not over",
    ),
    Case("not-static", "members that do not poll", slow_twice(S, S, S), None),
    # eager-assignor
    Case(
        "eager-assignor",
        "large",
        having(tuple(member(f"m{n}", n) for n in range(10)), assignor="range"),
        INFO,
        "range, 10 members",
    ),
    Case("eager-assignor", "small", having((A, B), assignor="range"), None),
    Case("eager-assignor", "nine members", having(tuple(member(f"m{n}", n) for n in range(9)), assignor="range"), None),
    Case(
        "eager-assignor",
        "small, and it shows",
        replace(having((A, B), assignor="roundrobin"), history=stormy(25, 2 * M)),
        WARNING,
        "50 partitions moved although their owner stayed",
    ),
    Case(
        "eager-assignor",
        "24 moves",
        replace(having((A, B), assignor="range"), history=stormy(24, 2 * M)),
        None,
    ),
    Case(
        "eager-assignor",
        "state",
        replace(having((A, B), assignor="sticky"), state_topics=("orders-enrich-store-changelog",)),
        WARNING,
        "changelog",
    ),
    Case("eager-assignor", "cooperative", HEALTHY, None),
    Case("eager-assignor", "the consumer protocol", consumer((A, B)), None),
    Case(
        "eager-assignor",
        "rebalancing",
        having((A, B), assignor=None, state="PreparingRebalance"),
        UNKNOWN,
        "a group shows its assignor only while Stable (PreparingRebalance)",
    ),
    Case("eager-assignor", "a custom one", having((A, B), assignor="com.acme.Geo"), UNKNOWN, "com.acme.Geo"),
    Case(
        "eager-assignor",
        "no history",
        replace(having((A, B), assignor="range"), history=None),
        PARTLY,
        "the history in __consumer_offsets was not read",
    ),
    # not-static
    Case(
        "not-static",
        "three, dear",
        replace(HEALTHY, history=restarts(M, M, 25 * S, rebalances=6)),
        WARNING,
        "away 1m at most",
    ),
    Case(
        "not-static",
        "three, cheap",
        replace(HEALTHY, history=restarts(M, M, M, rebalances=4)),
        INFO,
        "3 restarts of 3 members without an instance id since 2027-01-15 07:00Z, away 1m at most; 4 rebalances",
    ),
    Case(
        "not-static",
        "a deployment",
        replace(HEALTHY, history=restarts(M, M, M, rebalances=6, rollout=True)),
        INFO,
        "3 restarts of 3 members without an instance id since 2027-01-15 07:00Z, away 1m at most; 6 rebalances",
    ),
    Case(
        "not-static",
        "back at once",
        replace(HEALTHY, history=restarts(None, None, None)),
        INFO,
        "back at once",
    ),
    Case("not-static", "a crash loop", crashing(*DEATHS), None),
    Case("never-read", "in a crash loop", uncommitted(crashing(*DEATHS)), PARTLY, "members may die before they commit"),
    Case("not-static", "crashes, and nothing to read", crashing(*DEATHS, lag=0), INFO, "4 restarts of 4 members"),
    Case("not-static", "two", replace(HEALTHY, history=restarts(M, M, rebalances=6)), None),
    Case("not-static", "scaled to zero", replace(HEALTHY, history=restarts(2 * M, 2 * M, 2 * M, rebalances=6)), None),
    Case("not-static", "static", replace(HEALTHY, history=restarts(M, M, M, instance="a")), None),
    Case(
        "not-static",
        "not read",
        replace(HEALTHY, history=None),
        UNKNOWN,
        "the history in __consumer_offsets was not read",
    ),
    # heartbeat-interval
    Case(
        "heartbeat-interval",
        "session 6s",
        replace(HEALTHY, settings=session(6 * S)),
        INFO,
        "a third is 2s",
    ),
    Case(
        "heartbeat-interval",
        "session 9s: their own is not known",
        replace(HEALTHY, settings=session(9 * S)),
        PARTLY,
        "classic members do not send their heartbeat.interval.ms to brokers",
    ),
    Case(
        "heartbeat-interval",
        "not seen",
        replace(HEALTHY, settings=None),
        UNKNOWN,
        "the members' settings were not found in __consumer_offsets",
    ),
    Case("heartbeat-interval", "nobody", EMPTY, None),
    Case(
        "heartbeat-interval",
        "the group's own",
        consumer((A, B), configs={"consumer.heartbeat.interval.ms": "15001"}),
        WARNING,
        "2 fit, 3 should",
    ),
    Case("heartbeat-interval", "a third", consumer((A, B), configs={"consumer.heartbeat.interval.ms": "15000"}), None),
    Case(
        "heartbeat-interval",
        "configs hidden",
        consumer((A, B), configs=None),
        UNKNOWN,
        "the broker's settings could not be read",
    ),
    # session-restart
    Case(
        "session-restart",
        "back too late",
        replace(STATIC_GROUP, history=restarts(62 * S, instance="pay-4")),
        WARNING,
        "1 of 1 static restart took longer than the session of 45s: pay-4 1m2s",
    ),
    Case(
        "session-restart",
        "just in time",
        replace(STATIC_GROUP, history=restarts(45 * S, instance="pay-4")),
        None,
    ),
    Case("session-restart", "down for 11m", replace(STATIC_GROUP, history=restarts(660 * S, instance="pay-4")), None),
    Case("session-restart", "down for 136s", replace(STATIC_GROUP, history=restarts(136 * S, instance="pay-4")), None),
    Case(
        "session-restart",
        "136s twice: that is how long they take",
        replace(STATIC_GROUP, history=restarts(135 * S, 136 * S, 20 * S, instance="pay-4")),
        WARNING,
        "2 of 3 static restarts took longer than the session of 45s: pay-4 2m16s",
    ),
    Case(
        "session-restart",
        "one of four",
        replace(STATIC_GROUP, history=restarts(62 * S, 9 * S, 9 * S, 9 * S, instance="pay-4")),
        WARNING,
        "1 of 4 static restarts",
    ),
    Case(
        "session-restart",
        "one of five",
        replace(STATIC_GROUP, history=restarts(62 * S, 9 * S, 9 * S, 9 * S, 9 * S, instance="pay-4")),
        None,
    ),
    Case(
        "session-restart",
        "replaced",
        replace(STATIC_GROUP, history=restarts(None, instance="pay-4")),
        None,
    ),
    Case("session-restart", "none is static", replace(HEALTHY, history=restarts(62 * S)), None),
    Case(
        "session-restart",
        "no restart seen",
        replace(STATIC_GROUP, history=RebalanceHistory(NOW - H)),
        UNKNOWN,
        "since",
    ),
    Case(
        "session-restart",
        "no history",
        replace(STATIC_GROUP, history=None),
        UNKNOWN,
        "the history in __consumer_offsets was not read",
    ),
    Case(
        "session-restart",
        "session not seen",
        replace(STATIC_GROUP, settings=None),
        UNKNOWN,
        "the members' settings were not found in __consumer_offsets",
    ),
    # static-session
    Case(
        "static-session",
        "left, and long",
        consumer((LEFT, B), configs={"consumer.session.timeout.ms": "300000"}),
        WARNING,
        "1 of 1 static member left (pay-4); the group is not Empty until 5m",
    ),
    Case("static-session", "left", consumer((LEFT, B)), INFO, "until 45s"),
    Case(
        "static-session",
        "long",
        replace(STATIC_GROUP, settings=session(300_000)),
        INFO,
        "session of 5m",
    ),
    Case("static-session", "just not", replace(STATIC_GROUP, settings=session(299_999)), None),
    Case("static-session", "none is static", replace(HEALTHY, settings=session(D)), None),
    Case(
        "static-session",
        "not seen",
        replace(STATIC_GROUP, settings=None),
        UNKNOWN,
        "the members' settings were not found in __consumer_offsets",
    ),
    # poll-interval
    Case(
        "poll-interval",
        "Java's maximum",
        replace(HEALTHY, settings=session(45 * S, 2**31 - 1)),
        WARNING,
        "(2147483647 ms)",
    ),
    Case(
        "poll-interval",
        "librdkafka's maximum",
        replace(HEALTHY, settings=session(45 * S, D)),
        WARNING,
        "1d (86400000 ms) for 2 of 2 members: enrich-0, enrich-1; one that hangs keeps its partitions so long",
    ),
    Case("poll-interval", "an hour", replace(HEALTHY, settings=session(45 * S, H)), INFO, "1h"),
    Case("poll-interval", "just not", replace(HEALTHY, settings=session(45 * S, H - 1)), None),
    Case(
        "poll-interval",
        "not seen",
        replace(HEALTHY, settings=None),
        UNKNOWN,
        "the members' settings were not found in __consumer_offsets",
    ),
    Case(
        "poll-interval",
        "one not seen",
        replace(HEALTHY, settings={A.member_id: MemberFacts(1, 1)}),
        PARTLY,
        "the members' settings were not found in __consumer_offsets: 1 member",
    ),
    Case(
        "poll-interval", "hidden", having(None, [partition(0)], state="Stable"), UNKNOWN, "its members may not be seen"
    ),
)
