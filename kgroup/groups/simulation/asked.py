"""Parses the values of ``--remove`` and ``--partitions``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kgroup.support.errors import UsageError

_MOST_PARTITIONS = 10_000
_GROWTH = r"(?:(?P<topic>[^=]+)=)?\+(?P<number>[0-9]{1,9})"


def removed(given: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    """A number of members (0 if names are given) and names; raises UsageError for both at once, and for 0."""
    numbers = [text for text in given if re.fullmatch(r"[0-9]{1,9}", text)]
    if numbers and len(given) > 1:
        raise UsageError(f"--remove {numbers[0]} and another --remove: a number, or names")
    if numbers:
        if not int(numbers[0]):
            raise UsageError("--remove 0: that is nobody")
        return int(numbers[0]), ()
    if any(re.fullmatch(r"-[0-9]+", text) for text in given):
        raise UsageError(f"--remove {given[0]}: a number of members, or who it is")
    return 0, tuple(given)


def growth(given: Sequence[str]) -> tuple[int, tuple[str, ...] | None]:
    """The number of new partitions per topic, and the topics (None: all); raises UsageError for another form."""
    if not given:
        return 0, None
    parts = []
    for text in given:
        found = re.fullmatch(_GROWTH, text)
        if found is None or not int(found["number"]):
            raise UsageError(f"--partitions {text}: how many more? Write +6, or orders=+6")
        if int(found["number"]) > _MOST_PARTITIONS:
            raise UsageError(f"--partitions {text}: more than {_MOST_PARTITIONS}")
        parts.append((found["topic"], int(found["number"])))
    if len(parts) > 1 and None in [topic for topic, _ in parts]:
        raise UsageError(f"--partitions +{parts[0][1]} is of each topic: no other beside it")
    if len({number for _, number in parts}) > 1:
        raise UsageError("--partitions: the same number for all topics; simulate others apart")
    topics = tuple(dict.fromkeys(topic for topic, _ in parts if topic is not None))
    return parts[0][1], topics or None
