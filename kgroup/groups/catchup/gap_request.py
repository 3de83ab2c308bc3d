"""What to catch up of a group, and the command-line syntax for it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from kgroup.groups.catchup.chunks import RateLimit
from kgroup.model.records import OffsetRange
from kgroup.support.errors import UsageError

if TYPE_CHECKING:  # workers do not need it
    from kgroup.groups.reset_targets import TopicChoice

_LARGEST_OFFSET = 2**63 - 1
_LARGEST_PARTITION = 2**31 - 1


class Missing(StrEnum):
    """``--missing``: where a partition without a commit starts. LEAVE does not move it."""

    EARLIEST = "earliest"
    LATEST = "latest"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True)
class GapRequest:
    """What to catch up.

    - ``topics`` (``--topic t`` or ``t:0,3``); empty: all topics of the group.
    - ``ranges`` (``--range t:0=70-120``) move no group. ``missing`` None: a partition without a commit is an error.
    - ``skip_before_ms`` (``--skip-before``): records before that time are given up, in a partition without a newer
      record all of them.
    - ``until_ms`` (``--until``): a partition is released at its first record since that time; if there is none, at the
      last stable offset, as without the option.
    """

    topics: tuple[TopicChoice, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    missing: Missing | None = None
    skip_before_ms: int | None = None
    until_ms: int | None = None


def check_topic_name(option: str, name: str) -> None:
    """Raise UsageError for an invalid topic name (Kafka's ``Topic.validate``)."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", name) or name in (".", ".."):
        raise UsageError(
            f"{option} {name!r}: not a valid topic name",
            hint="at most 249 letters, digits, dots, underscores and hyphens",
        )


def parse_ranges(given: Sequence[str]) -> tuple[OffsetRange, ...]:
    """``["t:0=70-120", "t:1=5-9"]`` as offsets [70, 120) and [5, 9), sorted; adjacent ranges are not merged.

    Raises UsageError for a malformed range, and for ranges that overlap: their records would be delivered twice.
    """
    ranges = sorted(_range(item) for word in given for item in word.split(","))
    for one, other in pairwise(ranges):
        if (one.topic, one.partition) == (other.topic, other.partition) and other.start < one.end:
            raise UsageError(f"--range: {one} and {other} overlap: their records would be delivered twice")
    return tuple(ranges)


def _range(item: str) -> OffsetRange:
    parts = re.fullmatch(r"(?a)\s*([^:=,\s]+):(\d{1,10})=(\d{1,19})-(\d{1,19})\s*", item)
    if not parts or int(parts[2]) > _LARGEST_PARTITION or int(parts[4]) > _LARGEST_OFFSET:
        raise UsageError(f"--range {item!r}: not TOPIC:PARTITION=START-END", hint="for example --range orders:0=70-120")
    made = OffsetRange(parts[1], int(parts[2]), int(parts[3]), int(parts[4]))
    if made.start >= made.end:
        raise UsageError(f"--range {item}: START must be below END, which is the first offset that is left out")
    return made


def parse_rate(text: str, option: str = "--rate") -> RateLimit:
    """``500/s`` records or ``20MiB/s``, for the whole job. Raises UsageError; ``option`` is what has the text."""
    match = re.fullmatch(r"(?ai)\s*(\d+(?:\.\d+)?)\s*(k|m|b|kb|mb|gb|kib|mib|gib)?/s\s*", text)
    if not match or not float(match[1]):
        raise UsageError(f"{option} {text}: not a rate", hint="use 500/s for records, or 20MiB/s for bytes")
    number, unit = float(match[1]), (match[2] or "").lower()
    if unit in ("", "k", "m"):
        return RateLimit(records_per_s=number * {"": 1, "k": 1e3, "m": 1e6}[unit])
    step = 1024 if unit.endswith("ib") else 1000
    return RateLimit(bytes_per_s=number * step ** ("bkmg".index(unit[0])))
