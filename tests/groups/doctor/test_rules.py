"""Every rule by a table of cases: when it fires, when just not, and what it says where the evidence is missing."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from kgroup.groups.doctor.about_catchups import pending_catchup
from kgroup.groups.doctor.about_lag import asks_for_first_unread, no_reader, stalled_commits
from kgroup.groups.doctor.about_offsets import never_read
from kgroup.groups.doctor.about_rebalances import not_static, rebalance_storm, rebalance_waits
from kgroup.groups.doctor.about_timeouts import session_restart
from kgroup.groups.doctor.diagnose import diagnose_cluster, diagnose_group
from kgroup.groups.doctor.finding import Answer, Finding, NotChecked
from kgroup.groups.doctor.rules import (
    BY_ID,
    CLUSTER_RULES,
    GROUP_RULES,
    ORDER,
    QUERY_RULES,
    RULES,
    SHARE_RULES,
    STREAMS_RULES,
)
from kgroup.groups.doctor.snapshot import ClusterSnapshot, GroupSnapshot, RebalanceHistory
from kgroup.groups.lag.evidence import FirstUnread
from kgroup.groups.timeline.steps import CrashLoop
from kgroup.model.groups import Member
from tests.helpers.cases import (
    doctor_of_cluster,
    doctor_of_members,
    doctor_of_offsets,
    doctor_of_queries,
    doctor_of_share_groups,
    doctor_of_streams_groups,
)
from tests.helpers.cases.doctor import (
    CLUSTER,
    EARLY,
    EMPTY,
    HEALTHY,
    KEYS,
    NOW,
    PARTLY,
    UNKNOWN,
    A,
    B,
    Case,
    H,
    M,
    S,
    commits,
    consumer,
    having,
    logged,
    member,
    partition,
    shown,
)
from tests.helpers.cases.doctor_of_members import restarts
from tests.helpers.cases.doctor_of_offsets import long_since, standing, unread
from tests.helpers.for_each import for_each

CASES = (
    *doctor_of_members.CASES,
    *doctor_of_offsets.CASES,
    *doctor_of_queries.CASES,
    *doctor_of_share_groups.CASES,
    *doctor_of_streams_groups.CASES,
    *doctor_of_cluster.CASES,
)


def look(case: Case) -> Answer:
    """What the rule of a case answers."""
    if isinstance(case.snapshot, ClusterSnapshot):
        return {rule.id: function for rule, function in CLUSTER_RULES}[case.rule](case.snapshot)
    of_groups = (*GROUP_RULES, *QUERY_RULES, *SHARE_RULES, *STREAMS_RULES)
    return {rule.id: function for rule, function in of_groups}[case.rule](case.snapshot)


def test_which_groups_are_judged_without_their_first_unread_records() -> None:
    """Of them no rule says anything else if these are known."""
    groups = [case.snapshot for case in CASES if isinstance(case.snapshot, GroupSnapshot)]
    judged_without = [snapshot for snapshot in groups if not asks_for_first_unread(snapshot)]
    for snapshot in judged_without:
        logs = {
            p.tp: replace(known, first_unread=FirstUnread(max(p.commit.offset, p.log.start), NOW))
            if p.commit is not None and p.log is not None
            else known
            for p in snapshot.group.partitions
            if (known := snapshot.logs.get(p.tp)) is not None
        }
        assert diagnose_group(replace(snapshot, logs=logs)) == diagnose_group(snapshot)
    assert EMPTY in judged_without
    assert len(judged_without) < len(groups) / 2
    assert asks_for_first_unread(HEALTHY)
    looping = replace(EMPTY, history=RebalanceHistory(NOW, crash_loops=(CrashLoop("orders", 0, 1000, ()),)))
    assert asks_for_first_unread(looping), "all its members are gone"


@for_each("case", CASES)
def test_rule(case: Case) -> None:
    answer = look(case)
    assert case.said or case.expected is None
    findings = [item for item in answer if isinstance(item, Finding)]
    missing = [item for item in answer if isinstance(item, NotChecked)]

    if case.expected in (UNKNOWN, PARTLY, EARLY):
        assert not findings
        assert [(item.partly, item.early) for item in missing] == [(case.expected == PARTLY, case.expected == EARLY)]
        assert case.said in missing[0].why
    elif case.expected is None:
        assert not findings
        assert all(item.partly for item in missing)
    else:
        assert [finding.severity for finding in findings] == [case.expected], findings
        assert case.said in findings[0].evidence


@for_each("case", [case for case in CASES if case.expected not in (None, UNKNOWN, PARTLY, EARLY)])
def test_a_finding_has_numbers_a_remedy_and_its_rules_source(case: Case) -> None:
    finding = next(item for item in look(case) if isinstance(item, Finding))

    assert finding.rule == case.rule
    assert finding.numbers
    assert any(character.isdigit() for character in finding.evidence)
    assert finding.remedy
    assert finding.commands
    assert finding.source == BY_ID[case.rule].source
    assert not any("--execute" in command for command in finding.commands if command.startswith("kgroup"))
    assert all(type(number) is int for number in finding.numbers.values())


@for_each("case", CASES)
def test_no_live_member_is_to_be_removed(case: Case) -> None:
    """A static member that has left heartbeats no more; of one that may be gone, the evidence names the condition."""
    members = case.snapshot.group.members or () if isinstance(case.snapshot, GroupSnapshot) else ()
    gone = {member.instance_id for member in members if member.left_temporarily}
    for found in (each for each in look(case) if isinstance(each, Finding)):
        evicted = {words[words.index("--instance") + 1] for c in found.commands if "evict" in (words := c.split())}
        maybe = {each for each in evicted if f"{each}: no commit of it since" in found.evidence}
        assert evicted <= gone | maybe
        assert not maybe or "if its process is gone" in found.evidence


def test_the_remedy_of_a_storm_names_members_that_do_not_poll() -> None:
    """Of four such exits the log showed one for certain, and three by the time that they took."""
    (found,) = (each for each in rebalance_storm(doctor_of_members.slow_twice()) if isinstance(each, Finding))

    assert found.remedy.startswith("2 members left as they did not poll for 5m (max.poll.interval.ms), at orders:0: ")


@for_each("rule", ORDER)
def test_every_rule_is_in_the_table_of_cases(rule: str) -> None:
    kinds = {
        type(case.expected) if case.expected not in (None, UNKNOWN, PARTLY, EARLY) else case.expected
        for case in CASES
        if case.rule == rule
    }

    assert None in kinds
    assert kinds & {UNKNOWN, PARTLY}
    assert len(kinds) > 2, "it never fires"


def test_the_table_of_rules() -> None:
    assert len(RULES) == len(BY_ID), "each has an id of its own"
    for rule in RULES:
        assert rule.source
        assert rule.meaning
        assert rule.id == rule.id.lower()
        assert all(threshold.reason and threshold.name for threshold in rule.thresholds), rule.id


def test_what_is_healthy_has_no_finding() -> None:
    for snapshot in (HEALTHY, EMPTY, consumer((A, B))):
        assert diagnose_group(snapshot).findings == ()
    assert diagnose_cluster(CLUSTER).findings == ()


def test_where_nothing_could_be_read_nothing_is_found_and_all_of_it_is_named() -> None:
    blind = GroupSnapshot(replace(HEALTHY.group, members=None, partitions=(), assignor=None), NOW)
    told = diagnose_group(replace(blind, unread={"history": "no READ on __consumer_offsets"}))

    assert told.findings == ()
    assert "no READ on __consumer_offsets" in {item.why for item in told.not_checked}
    assert told.checked_count == len(GROUP_RULES) - sum(not item.partly for item in told.not_checked)
    assert diagnose_cluster(ClusterSnapshot(NOW)).checked_count == 0


@pytest.mark.parametrize(
    "field", [field for field in GroupSnapshot.__struct_fields__ if field not in ("group", "now_ms")]
)
def test_no_missing_field_makes_a_rule_raise_or_find(field: str) -> None:
    default = GroupSnapshot(HEALTHY.group, NOW)

    for snapshot in (HEALTHY, EMPTY):
        assert diagnose_group(replace(snapshot, **{field: getattr(default, field)})).findings == ()


def test_times_that_no_calendar_holds_do_not_raise() -> None:
    far = 2**62
    for case in CASES:
        snapshot = case.snapshot
        if isinstance(snapshot, GroupSnapshot):
            diagnose_group(replace(snapshot, now_ms=far, emptied_at_ms=far - 1 if snapshot.emptied_at_ms else None))
            diagnose_group(replace(snapshot, now_ms=-far))


def test_names_in_the_commands_are_quoted() -> None:
    for case in CASES:
        if isinstance(case.snapshot, GroupSnapshot):
            odd = replace(case.snapshot.group, name="a b;c")
            found = diagnose_group(replace(case.snapshot, group=odd)).findings
            assert all("a b;c" not in c.replace("'a b;c'", "") for finding in found for c in finding.commands)


def test_a_group_with_unread_records_is_not_offered_for_deletion() -> None:
    findings = [each for case in CASES if case.rule == "no-reader" for each in look(case) if isinstance(each, Finding)]

    assert not [command for finding in findings for command in finding.commands if "delete" in command]


@pytest.mark.parametrize(
    ("read_per_s", "lag", "by_tool", "offered"),
    [
        (101, 60_100, False, True),  # 1/s arrives: 601 s
        (101, 60_000, False, False),
        (1, 60_000, False, False),  # as many as arrive
        (0.5, 60_000, False, True),
        (0.5, 999, False, False),
        (0.5, 60_000, True, False),
    ],
)
def test_a_large_gap_without_a_reader_is_offered_for_a_catch_up(
    read_per_s: float, lag: int, by_tool: bool, offered: bool
) -> None:
    read = [logged(round(1000 - ago * read_per_s), NOW - 20 * M - ago * S) for ago in (100, 0)]
    made = (*read, *((logged(1000, NOW - M, by_tool=True),) if by_tool else ()))
    found = [each for each in no_reader(replace(unread(20 * M, lag=lag), commits={KEYS[0]: made}))
             if isinstance(each, Finding)]  # fmt: skip

    assert [command for each in found for command in each.commands][1:] == (
        ["kgroup catchup start orders-enrich"] if offered else []
    )


def test_a_large_gap_without_a_reader_is_a_warning_also_where_nothing_arrives() -> None:
    read = tuple(logged(1000 - 10 * ago, NOW - 20 * M - ago * S) for ago in (100, 0))
    known = replace(unread(20 * M, records=0, lag=6100), commits={KEYS[0]: read})

    (found,) = no_reader(known)
    assert isinstance(found, Finding)
    assert (found.severity, found.evidence) == ("warning", "6100 unread on 1 partition, no member for 20m")
    assert found.commands[-1] == "kgroup catchup start orders-enrich"
    shorter = replace(unread(20 * M, records=0, lag=6000), commits=known.commits)
    assert no_reader(shorter) == (), "ten minutes, and no more"


def test_a_reset_is_checked_before_consumers_start() -> None:
    (found,) = no_reader(unread(20 * M, reset_ago=10 * M))
    (usual,) = no_reader(unread(20 * M))

    assert isinstance(found, Finding)
    assert isinstance(usual, Finding)
    assert found.remedy.startswith("check that commit first: ")
    assert found.commands == ("kgroup history orders-enrich --commits",)
    assert usual.remedy.startswith("start its consumers")
    assert usual.commands == ("kgroup history orders-enrich --since 1d",)


@pytest.mark.parametrize(
    ("each_alone", "unread_ago", "skips"), [(True, 2 * H, True), (True, None, False), (False, 2 * H, False)]
)
def test_a_record_is_skipped_if_it_is_known_which_one(each_alone: bool, unread_ago: int | None, skips: bool) -> None:
    known = {} if unread_ago is None else {"unread": True, "unread_since_ms": NOW - unread_ago}
    given = standing(6 * M, attempts=20, **known)
    since = (given.commits or {})[KEYS[0]][1:]
    before = commits(997, 998, 999, every_ms=10, until_ms=since[0].timestamp_ms - 10) if each_alone else ()
    found = stalled_commits(replace(given, commits={KEYS[0]: before + since}))[0]

    assert isinstance(found, Finding)
    skip = "kgroup reset orders-enrich --to-offset orders:0=1001 --save-skipped orders-0-1000.jsonl"
    assert found.commands[2:] == ((skip,) if skips else ())
    assert ("not known: offset 1000 of orders:0" in found.remedy) != skips
    ownerless = tuple(replace(p, owner=None) for p in given.group.partitions)
    given = replace(given, group=replace(given.group, partitions=ownerless), commits={KEYS[0]: before + since})
    assert not any("reset" in command for each in stalled_commits(given) for command in getattr(each, "commands", ()))


@pytest.mark.parametrize(
    ("away_ms", "options"),
    [
        (None, "--session-timeout 45s --restart-time 1s"),
        (2_300, "--session-timeout 45s --restart-time 3s"),
        (60_000, "--session-timeout 120s --restart-time 60s"),
    ],
)
def test_static_members_are_simulated_as_they_are_advised(away_ms: int | None, options: str) -> None:
    snapshot = replace(HEALTHY, history=restarts(away_ms, away_ms, away_ms))
    (found,) = not_static(snapshot)

    assert isinstance(found, Finding)
    assert found.commands[-1] == f"kgroup simulate orders-enrich --restart-rolling --static {options}"
    storm = replace(snapshot, group=replace(snapshot.group, state="PreparingRebalance"))
    (found,) = not_static(storm)
    assert isinstance(found, Finding)
    assert not any("simulate" in command for command in found.commands), "it is refused during a rebalance"


@pytest.mark.parametrize(
    ("phase", "commands"),
    [
        ("stopped", ["catchup show cu-7f3a", "catchup resume cu-7f3a"]),
        ("pending", ["catchup show cu-7f3a", "catchup resume cu-7f3a --to-topic TOPIC"]),
        ("damaged", ["catchup show cu-7f3a"]),
        ("not-in-ledger", ["catchup start orders-enrich"]),
    ],
)
def test_how_a_catch_up_is_continued(phase: str, commands: list[str]) -> None:
    (found,) = pending_catchup(doctor_of_offsets.owing(doctor_of_offsets.pending(phase)))

    assert isinstance(found, Finding)
    assert list(found.commands) == [f"kgroup {command}" for command in commands]


@pytest.mark.parametrize(
    ("away_ms", "command"),
    [
        (62 * S, "session.timeout.ms=93000"),
        (199 * S, "session.timeout.ms=299000"),
        (200 * S, "kgroup history orders-enrich --since 1h"),
        (600 * S, "kgroup history orders-enrich --since 1h"),
    ],
)
def test_no_session_is_advised_that_the_doctor_itself_calls_long(away_ms: int, command: str) -> None:
    given = replace(doctor_of_members.STATIC_GROUP, history=restarts(away_ms, away_ms, instance="pay-4"))
    (found,) = session_restart(given)

    assert isinstance(found, Finding)
    assert found.commands == (command,)
    assert ("session timeout above" in found.remedy) == command.startswith("session")


def test_the_leader_that_a_rebalance_waits_for_is_to_be_removed() -> None:
    """As long as a dead one would still be listed: in the cases its session is over."""
    given = doctor_of_members.waiting(60 * S)
    assert given.read.generation is not None
    members = tuple(replace(m, session_timeout_ms=5 * M) for m in given.read.generation.members)
    (found,) = rebalance_waits(shown(given, generation=replace(given.read.generation, members=members)))

    assert isinstance(found, Finding)
    assert (found.severity, found.affected) == ("warning", ("enrich-0",))
    assert "its leader enrich-0, for at most 5m if that is dead" in found.evidence
    assert [str(command) for command in found.commands] == [
        "kgroup history orders-enrich --since 1h",
        "kgroup evict orders-enrich --member enrich-0-id",
    ]


def test_lag_is_asked_for_by_topic_alone() -> None:
    found = [finding for case in CASES for finding in look(case) if isinstance(finding, Finding)]
    commands = [c.split() for finding in found for c in finding.commands if c.startswith("kgroup lag ")]

    assert {c[c.index("--topic") + 1] for c in commands} == {"orders"}  # it takes no TOPIC:PARTITIONS


def test_case_names_are_unique() -> None:
    assert [name for name, count in Counter(map(str, CASES)).items() if count > 1] == []


@pytest.mark.parametrize(("members", "command"), [((A, B), "peek"), ((), "reset")])
def test_what_an_owner_may_be_reading_is_not_to_be_reset(members: tuple[Member, ...], command: str) -> None:
    rows = (partition(0, None), *(partition(n) for n in range(1, 6)))

    (found,) = never_read(long_since(having(members, rows)))

    assert isinstance(found, Finding)
    assert [str(each).split()[1] for each in found.commands] == [command]


def test_what_has_no_reader_is_started_where_it_runs() -> None:
    """The consumers of a sink connector are started by Connect, which alone knows why they ended."""
    empty = unread(20 * M)
    found = [
        next(
            item
            for item in no_reader(replace(empty, group=replace(empty.group, name=name)))
            if isinstance(item, Finding)
        )
        for name in ("orders", "connect-to-s3")
    ]
    assert [finding.remedy.partition(": they continue")[0] for finding in found] == [
        "start its consumers",
        "ask Connect (GET /connectors/to-s3/status): restart a failed task, once what it cannot read is mended or "
        "skipped, or resume a stopped connector",
    ]


@pytest.mark.parametrize(
    ("session_s", "interval_s", "setting"),
    [(45, 16, "consumer.heartbeat.interval.ms=15000"), (2, 1, "consumer.session.timeout.ms=45000")],
)
def test_a_session_that_is_too_short_is_made_longer(session_s: int, interval_s: int, setting: str) -> None:
    """One of two seconds ends in each pause of the process, however often it heartbeats."""
    configs = {
        "consumer.session.timeout.ms": str(session_s * S),
        "consumer.heartbeat.interval.ms": str(interval_s * S),
    }
    snapshot = consumer((member("a", 1), member("b", 1)), configs=configs)

    (finding,) = look(Case("heartbeat-interval", "", snapshot, None))

    assert isinstance(finding, Finding)
    assert finding.commands[0].endswith(setting)


def test_no_finding_about_a_streams_group_offers_what_would_be_refused() -> None:
    """Offsets below the log start: other offsets alone would make its results wrong."""
    group = doctor_of_streams_groups.snapshot().group
    below = replace(group, partitions=(partition(0, 5, start=100), partition(1)))
    found = diagnose_group(replace(doctor_of_streams_groups.snapshot(), group=below, bootstrap="b1:9092"))
    (finding,) = [each for each in found.findings if each.rule == "out-of-range"]
    assert finding.commands == (
        "kafka-streams-groups.sh --bootstrap-server b1:9092 --reset-offsets --group wc --all-input-topics "
        "--to-earliest --dry-run",
    )
    assert "stop all instances, and delete the internal topics and the local state too" in finding.remedy
