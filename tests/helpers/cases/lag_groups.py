"""Groups of which many rows are equal: in status, in lag, in age, in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from operator import attrgetter

from msgspec.structs import replace

from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.report import GroupLag, SortBy, sort_rows
from tests.helpers.cases.lag import HOUR, MINUTE, Part, evidence, group

_KINDS = (
    {"lag": 600},
    {"lag": 1700, "last_ago": 38 * MINUTE, "age": 38 * MINUTE},
    {"lag": None},
    {"lag": 0},
    {"lag": 1700, "last_ago": HOUR, "age": HOUR},
    {"lag": 1700, "timed": False},
    {"lag": 600, "incoming": 49.0},
    {"lag": 24, "incoming": 0.0, "last_ago": HOUR, "age": HOUR},
)


def _report(name: str, number: int, topics: Sequence[str], partitions: int) -> GroupLag:
    kinds = cycle(_KINDS)
    next(islice(kinds, number, number), None)
    parts = [
        Part(partition, topic=topic, **kind)  # type: ignore[arg-type]
        for topic in topics
        for partition, kind in zip(range(partitions), kinds, strict=False)
    ]
    return measure_lag(replace(group(parts), name=name, state=("Stable", "Empty")[number % 2]), evidence(parts))


_NAMES = ("a", "a b", "billing", 'quoted "x", y', "search", "", "\ufefffirst", "z-1", "z-10", "z-2")
_ALL_ARRIVES = Part(0, 10**6, incoming=10.0, outgoing=900.0)
LARGEST = measure_lag(replace(group([_ALL_ARRIVES]), name="largest"), evidence([_ALL_ARRIVES]))
GROUPS = (
    *(_report(name, number, ("audit", "orders")[: 1 + number % 2], 5) for number, name in enumerate(_NAMES)),
    *(_report(f"alike-{number}", 3, ("orders",), 11) for number in range(4)),
    _report("without-partitions", 0, (), 0),
    LARGEST,
)
"""In no order. Most have several partitions, some two topics, one nothing; the one with the largest lag does well."""


def in_order(by: SortBy) -> list[GroupLag]:
    """The groups as the command has them: by their totals, equal ones by name."""
    of_name = {each.group: each for each in GROUPS}
    totals = sort_rows([each.total for each in sorted(GROUPS, key=attrgetter("group"))], by)
    return [of_name[total.group] for total in totals]
