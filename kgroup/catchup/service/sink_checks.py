"""Checks before a release whether a topic can store a gap without losing records. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from kgroup.groups.catchup.model import GapRange
from kgroup.groups.catchup.risks import RiskLevel
from kgroup.model.kafka_tools import acl_hint, tool_flags
from kgroup.model.topic_settings import TopicSettings
from kgroup.support.durations import format_duration
from kgroup.support.units import human_bytes, plural

if TYPE_CHECKING:
    from kgroup.cluster.topic_admin import TopicDescription


BROKERS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that only brokers may write to."""

_HEADERS_BYTES = 200
"""About how many bytes the headers with its origin add to a copied record."""


class SinkFinding(msgspec.Struct, frozen=True):
    """READ is a fact, WARNING may go wrong, BLOCKED would lose records or fail.

    ``missing_right``: it is BLOCKED only because this user lacks a right.
    """

    level: RiskLevel
    message: str
    hint: str | None = None
    missing_right: bool = False


def check_target(
    topic: str,
    facts: TopicDescription | SinkFinding | None,
    ranges: tuple[GapRange, ...],
    sources: Mapping[str, TopicDescription | None],
    options: Mapping[str, str],
    now_ms: int,
    replay_s: float | None,
    ledger: str | None = None,
    named: str | None = None,
) -> tuple[SinkFinding, ...]:
    """Findings about ``--to-topic``; ``facts`` may be why they are unknown.

    ``sources`` are the topics of the gap, ``ledger`` is the ledger's topic, ``named`` is what names the target. Kept
    timestamps can delete the copies:
    two-hour-old records in a topic with one hour of retention are gone within minutes.
    """
    named = named or f"--to-topic {topic}"
    if isinstance(facts, SinkFinding):
        return (facts,)
    if facts is None:
        make = f"kafka-topics.sh {tool_flags()} --create --topic {topic} --partitions N ..."
        return (SinkFinding(RiskLevel.BLOCKED, f"{named}: the topic does not exist", make),)
    if topic == ledger or topic in BROKERS_OWN:
        whose = "the ledger of all catch-ups" if topic == ledger else "an internal topic of Kafka"
        return (SinkFinding(RiskLevel.BLOCKED, f"{named}: it is {whose}"),)
    if topic in {item.topic for item in ranges}:
        message = f"{named}: the gap is in this topic, so the group would read the copies as new records"
        return (
            SinkFinding(RiskLevel.WARNING, message),
            *_target_findings(topic, facts, ranges, sources, options, now_ms, replay_s),
        )
    return tuple(_target_findings(topic, facts, ranges, sources, options, now_ms, replay_s))


def check_sources(sources: Mapping[str, TopicDescription | None]) -> tuple[SinkFinding, ...]:
    """Whether the workers may read the topics of the gap; they have the user's rights."""
    return tuple(
        SinkFinding(
            RiskLevel.BLOCKED, f"no READ on Topic {topic}", acl_hint("Read", "topic", topic), missing_right=True
        )
        for topic, facts in sorted(sources.items())
        if facts is not None and facts.operations is not None and "READ" not in facts.operations
    )


def check_dead_letters(
    topic: str, facts: TopicDescription | SinkFinding | None, gap: Collection[str], ledger: str | None = None
) -> tuple[SinkFinding, ...]:
    """Findings about ``--dead-letter-topic``; ``gap`` are the source topics."""
    named = f"--dead-letter-topic {topic}"
    if isinstance(facts, SinkFinding):
        return (facts,)
    if facts is None:
        return (SinkFinding(RiskLevel.BLOCKED, f"{named}: the topic does not exist"),)
    if topic == ledger or topic in BROKERS_OWN:
        whose = "the ledger of all catch-ups" if topic == ledger else "an internal topic of Kafka"
        return (SinkFinding(RiskLevel.BLOCKED, f"{named}: it is {whose}"),)
    if facts.operations is not None and "WRITE" not in facts.operations:
        return (may_not_write(topic),)
    if topic in gap:
        message = f"{named}: the gap is in this topic, so the group would read refused records as new ones"
        return (SinkFinding(RiskLevel.WARNING, message),)
    return ()


def _target_findings(
    topic: str,
    facts: TopicDescription,
    ranges: tuple[GapRange, ...],
    sources: Mapping[str, TopicDescription | None],
    options: Mapping[str, str],
    now_ms: int,
    replay_s: float | None,
) -> Iterator[SinkFinding]:
    if facts.operations is not None and "WRITE" not in facts.operations:
        yield may_not_write(topic)
    yield from _partitions(topic, facts, sources, options)
    settings = facts.settings
    if settings is None:
        yield SinkFinding(
            RiskLevel.WARNING, f"the settings of {topic} cannot be read, so retention and limits are not checked"
        )
        return
    if settings.is_log_append_time and options.get("timestamps") != "now":
        yield SinkFinding(
            RiskLevel.WARNING,
            f"{topic} sets message.timestamp.type=LogAppendTime: the timestamps of the records are lost",
        )
    yield from _retention(topic, settings, ranges, options, now_ms, replay_s)
    yield from _room(topic, facts, settings, ranges, options)
    if settings.compacted:
        message = (
            f"{topic} is compacted: records without a key are refused, and only the newest record of each key is kept"
        )
        yield SinkFinding(RiskLevel.WARNING, message)
    yield from _sizes(topic, settings, sources)


def may_not_write(topic: str) -> SinkFinding:
    """The finding that the right to write to a topic is missing."""
    return SinkFinding(
        RiskLevel.BLOCKED, f"no WRITE on Topic {topic}", acl_hint("Write", "topic", topic), missing_right=True
    )


def _partitions(
    topic: str, facts: TopicDescription, sources: Mapping[str, TopicDescription | None], options: Mapping[str, str]
) -> Iterator[SinkFinding]:
    most = max((source.partitions for source in sources.values() if source is not None), default=0)
    has = f"{topic} has {plural(facts.partitions, 'partition')}"
    if options.get("partitions") == "key" or facts.partitions >= most:
        yield SinkFinding(RiskLevel.NOTE, f"sink: {has}")
    elif options.get("partitions") == "keep":
        yield SinkFinding(
            RiskLevel.BLOCKED,
            f"{has}; {most} are needed to keep the partition of each record",
            f"add partitions to {topic}, or use --partitions key",
        )
    else:
        yield SinkFinding(RiskLevel.WARNING, f"{has}, fewer than {most}: the key of a record decides its partition")


def _retention(
    topic: str,
    settings: TopicSettings,
    ranges: tuple[GapRange, ...],
    options: Mapping[str, str],
    now_ms: int,
    replay_s: float | None,
) -> Iterator[SinkFinding]:
    if options.get("timestamps") == "now" or settings.is_log_append_time:
        return
    takes_ms, keeps_ms = settings.max_age_ms, settings.retention_ms
    full = [item for item in ranges if item.start < item.end]
    oldest = min((item.oldest_ms for item in full if item.oldest_ms is not None), default=None)
    if any(item.oldest_ms is None for item in full) and not (takes_ms is None and keeps_ms is None):
        message = f"the age of the oldest record is unknown: {topic} may refuse it, or delete it at once"
        yield SinkFinding(RiskLevel.WARNING, message, "--timestamps now avoids this")
    if oldest is None:
        return
    age_s = max(0, now_ms - oldest) / 1000
    if takes_ms is not None and age_s + (replay_s or 0) >= takes_ms / 1000:
        accepted = format_duration(takes_ms / 1000)
        shown = f"{topic} accepts records up to {accepted} old (message.timestamp.before.max.ms)"
        hint = "use --timestamps now, the time of the replay; or raise that setting"
        yield SinkFinding(
            RiskLevel.BLOCKED, f"{shown}, but the oldest is {format_duration(age_s)} old: it would be refused", hint
        )
    if keeps_ms is None:
        return
    kept_s = keeps_ms / 1000
    shown = f"retention of {topic} is {format_duration(kept_s)}, the oldest record is {format_duration(age_s)} old"
    if age_s + (replay_s or 0) >= kept_s:
        hint = "use --timestamps now, the time of the replay; or raise retention.ms of the topic"
        yield SinkFinding(RiskLevel.BLOCKED, f"{shown}: it would be deleted at once", hint)
    elif age_s * 2 >= kept_s:
        yield SinkFinding(RiskLevel.WARNING, f"{shown}: read the copies soon")
    else:
        yield SinkFinding(RiskLevel.NOTE, f"sink: {shown}")


def _room(
    topic: str,
    facts: TopicDescription,
    settings: TopicSettings,
    ranges: tuple[GapRange, ...],
    options: Mapping[str, str],
) -> Iterator[SinkFinding]:
    """Whether a partition would get more bytes at once than ``retention.bytes`` keeps, plus the active segment."""
    kept = settings.retention_bytes
    if kept is None:
        return
    most = max((item.partition for item in ranges), default=0)
    gets: dict[int, int] = {}
    if options.get("partitions") == "key" or most >= facts.partitions:
        gets[0] = sum(item.size or 0 for item in ranges) // max(1, facts.partitions)
    else:
        for item in ranges:
            gets[item.partition] = gets.get(item.partition, 0) + (item.size or 0)
    largest = max(gets.values(), default=0)
    if largest <= kept:
        return
    lost = settings.segment_bytes is not None and largest > kept + settings.segment_bytes
    message = (
        f"a partition of {topic} keeps {human_bytes(kept)} (retention.bytes), but gets about {human_bytes(largest)}"
    )
    end = "the first records would be deleted at once" if lost else "the first records are deleted soon"
    yield SinkFinding(
        RiskLevel.BLOCKED if lost else RiskLevel.WARNING, f"{message}: {end}", f"raise retention.bytes of {topic}"
    )


def _sizes(
    topic: str, settings: TopicSettings, sources: Mapping[str, TopicDescription | None]
) -> Iterator[SinkFinding]:
    limit = settings.max_message_bytes
    if limit is None:
        return
    for name, source in sorted(sources.items()):
        largest = source.settings.max_message_bytes if source is not None and source.settings is not None else None
        if largest is None or largest + _HEADERS_BYTES <= limit:
            continue
        if largest <= limit:
            but = f"records of {name} within {_HEADERS_BYTES} bytes of its limit"
            yield SinkFinding(RiskLevel.NOTE, f"sink: all records fit with kgroup's headers, except {but}")
        else:
            allowed, taken = human_bytes(largest), human_bytes(limit)
            message = (
                f"{name} may have records of {allowed}, but {topic} accepts {taken}: a larger one stops its partition"
            )
            yield SinkFinding(
                RiskLevel.WARNING, message, f"raise max.message.bytes of {topic}, or add --dead-letter-topic"
            )
