"""Texts of partitions, members, times and commands in the rules' findings."""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.model.groups import Group, Partition
from kgroup.support.durations import format_duration
from kgroup.support.hint import Hint
from kgroup.support.instants import rfc3339
from kgroup.support.quoting import quote
from kgroup.support.units import plural, some_of


def unread_partitions_text(partitions: Iterable[Partition]) -> str | None:
    """A phrase about partitions whose commits or logs could not be read; None if all were read."""
    missing = [str(p.tp) for p in partitions if p.error or p.log is None]
    return f"{plural(len(missing), 'partition')} could not be read: {some_of(missing)}" if missing else None


def quoted(group: Group) -> str:
    """The group's name, quoted for a shell."""
    return quote(group.name)


def duration(ms: int) -> str:
    """A duration in ms as text: ``45s``, ``38m``."""
    return format_duration(ms / 1000)


def utc_minute(timestamp_ms: int) -> str:
    """``2026-11-21T03:05Z``; a number outside the calendar is shown in ms."""
    return rfc3339(timestamp_ms, "minutes") or f"{timestamp_ms} ms"


def kgroup_command(*words: str) -> Hint:
    """A command of kgroup's, by the words after ``kgroup``; it is shown with the options of the connection."""
    return Hint("{}", words)


def tool_command(tool: str, bootstrap: str | None, rest: str) -> str:
    """A complete command of Kafka's own tools: ``kafka-topics.sh --bootstrap-server b1:9092 --describe ...``."""
    return f"{tool} --bootstrap-server {quote(bootstrap) if bootstrap else 'BROKER'} {rest}"
