"""Whether a topic can take a gap: what is said of it before anything moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from kgroup.catchup.service.sink_checks import check_dead_letters, check_sources, check_target
from kgroup.cluster.topic_admin import TopicDescription
from kgroup.groups.catchup.model import GapRange
from kgroup.groups.catchup.risks import RiskLevel
from kgroup.model.topic_settings import TopicSettings
from tests.helpers.catchup.plans import gap_range

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
CONFIG = {"cleanup.policy": "delete", "retention.ms": "604800000"}
WIDE = TopicDescription(2, 1, True, frozenset({"READ", "WRITE"}), TopicSettings.parse(CONFIG))
SOURCES = {"orders": TopicDescription(2, 1, True, None, TopicSettings(max_message_bytes=1048588))}


def aged(hours: float) -> tuple[GapRange, ...]:
    return (structs.replace(gap_range(), oldest_ms=NOW_MS - round(hours * HOUR_MS)),)


def levels(facts: TopicDescription | None, hours: float = 2, **options: str) -> list[RiskLevel]:
    return [item.level for item in check_target("copy", facts, aged(hours), SOURCES, options, NOW_MS, 60.0)]


def with_config(**more: str) -> TopicDescription:
    config = {**CONFIG, **{name.replace("_", "."): text for name, text in more.items()}}
    return replace(WIDE, settings=TopicSettings.parse(config))


@pytest.mark.parametrize(
    ("facts", "hours", "options", "worst"),
    [
        (WIDE, 2, {}, RiskLevel.NOTE),
        (None, 2, {}, RiskLevel.BLOCKED),
        (replace(WIDE, operations=frozenset({"READ"})), 2, {}, RiskLevel.BLOCKED),
        (with_config(retention_ms="3600000"), 2, {}, RiskLevel.BLOCKED),
        (with_config(retention_ms="3600000"), 2, {"timestamps": "now"}, RiskLevel.NOTE),
        (with_config(retention_ms=str(2 * HOUR_MS + 30_000)), 2, {}, RiskLevel.BLOCKED),
        (with_config(retention_ms=str(3 * HOUR_MS)), 2, {}, RiskLevel.WARNING),
        (with_config(retention_ms="-1"), 2000, {}, RiskLevel.NOTE),
        (with_config(retention_ms="1", cleanup_policy="compact"), 2, {}, RiskLevel.WARNING),
        (with_config(message_timestamp_type="LogAppendTime", retention_ms="3600000"), 2, {}, RiskLevel.WARNING),
        (replace(WIDE, partitions=1), 2, {}, RiskLevel.WARNING),
        (replace(WIDE, partitions=1), 2, {"partitions": "keep"}, RiskLevel.BLOCKED),
        (replace(WIDE, partitions=1), 2, {"partitions": "key"}, RiskLevel.NOTE),
        (with_config(max_message_bytes="1000"), 2, {}, RiskLevel.WARNING),
        (replace(WIDE, settings=None), 2, {}, RiskLevel.WARNING),
        (with_config(message_timestamp_before_max_ms="3600000"), 2, {}, RiskLevel.BLOCKED),
        (with_config(message_timestamp_before_max_ms="3600000"), 0.5, {}, RiskLevel.NOTE),
        (with_config(message_timestamp_before_max_ms="3600000"), 2, {"timestamps": "now"}, RiskLevel.NOTE),
        (with_config(message_timestamp_difference_max_ms="3600000"), 2, {}, RiskLevel.BLOCKED),
        (with_config(message_timestamp_before_max_ms=str(2**63 - 1)), 2, {}, RiskLevel.NOTE),
    ],
)
def test_the_worst_that_is_said(
    facts: TopicDescription | None, hours: float, options: dict[str, str], worst: RiskLevel
) -> None:
    found = levels(facts, hours, **options)

    assert max(found, key=list(RiskLevel).index) is worst


def test_a_record_that_fits_its_topic_may_be_too_large_with_our_headers() -> None:
    def said(limit: int) -> list[RiskLevel]:
        found = check_target("copy", with_config(max_message_bytes=str(limit)), aged(2), SOURCES, {}, NOW_MS, 60.0)
        return [item.level for item in found if "limit" in item.message or "accepts" in item.message]

    assert [said(limit) for limit in (1_048_587, 1_048_588, 1_048_787, 1_048_788)] == [
        [RiskLevel.WARNING],
        [RiskLevel.NOTE],
        [RiskLevel.NOTE],
        [],
    ]


@pytest.mark.parametrize(
    ("sizes", "options", "level"),
    [
        ((900, 900), {}, None),
        ((1100, 10), {}, RiskLevel.WARNING),
        ((1600, 10), {}, RiskLevel.BLOCKED),
        ((1100, 10), {"partitions": "key"}, None),
        ((1600, 1600), {"partitions": "key"}, RiskLevel.BLOCKED),
        ((None, None), {}, None),
    ],
)
def test_a_partition_may_keep_less_than_it_gets(
    sizes: tuple[int | None, ...], options: dict[str, str], level: RiskLevel | None
) -> None:
    facts = with_config(retention_bytes="1000", segment_bytes="500")
    ranges = tuple(
        structs.replace(gap_range(partition, size=size), oldest_ms=NOW_MS) for partition, size in enumerate(sizes)
    )

    found = [
        item.level
        for item in check_target("copy", facts, ranges, SOURCES, options, NOW_MS, 60.0)
        if "retention.bytes" in item.message
    ]

    assert found == ([] if level is None else [level])


def test_where_nobody_knows_how_old_the_oldest_is_it_is_said() -> None:
    def said(facts: TopicDescription, **options: str) -> list[RiskLevel]:
        found = check_target("copy", facts, (gap_range(), *aged(1)), SOURCES, options, NOW_MS, 60.0)
        return [item.level for item in found if "age of" in item.message]

    assert said(WIDE) == [RiskLevel.WARNING]
    assert said(WIDE, timestamps="now") == []
    assert said(with_config(retention_ms="-1")) == []
    empty = (structs.replace(gap_range(start=120), oldest_ms=None), *aged(1))
    assert not [one for one in check_target("copy", WIDE, empty, SOURCES, {}, NOW_MS, None) if "age of" in one.message]


def test_the_gaps_own_topic() -> None:
    (first, *_) = check_target("orders", WIDE, aged(1), SOURCES, {}, NOW_MS, None)

    assert first.level is RiskLevel.WARNING
    assert "the gap is in this topic" in first.message


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "books"])
def test_topics_of_brokers_and_of_the_ledger_take_nothing(topic: str) -> None:
    (target,) = check_target(topic, WIDE, aged(2), SOURCES, {}, NOW_MS, 60.0, "books")
    (dead,) = check_dead_letters(topic, WIDE, SOURCES, "books")

    assert (target.level, dead.level) == (RiskLevel.BLOCKED, RiskLevel.BLOCKED)


@pytest.mark.parametrize(
    ("facts", "topic", "found"),
    [
        (WIDE, "dead", []),
        (None, "dead", [RiskLevel.BLOCKED]),
        (replace(WIDE, operations=frozenset({"READ"})), "dead", [RiskLevel.BLOCKED]),
        (replace(WIDE, operations=None), "dead", []),
        (WIDE, "orders", [RiskLevel.WARNING]),
    ],
)
def test_dead_letters(facts: TopicDescription | None, topic: str, found: list[RiskLevel]) -> None:
    assert [item.level for item in check_dead_letters(topic, facts, SOURCES)] == found


def test_the_gap_must_be_readable_by_workers() -> None:
    facts = {"a": WIDE, "b": replace(WIDE, operations=frozenset({"DESCRIBE"})), "c": None, "d": SOURCES["orders"]}

    (finding,) = check_sources(facts)

    assert (finding.level, finding.missing_right) == (RiskLevel.BLOCKED, True)
    assert "READ on Topic b" in finding.message
