"""Many idle groups beside the situations: what stands must be found first among them, and no healthy group be named.

GROUPS jobs that ended with old records unread, to which nothing is added, as clusters have them; looked at by `-A`.
"""

import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.situations.conclude import ALLOWED_RULES, Cell, Worth
from tests.situations.harm import State, standing
from tests.situations.row import Row

GROUPS: Final = 250
FLEET: Final = "fleet"
"""The name of its result."""

TOP: Final = 12
STUCK: Final = frozenset({"stall", "stop", "no-reader"})
"""Statuses of which a row has one where there is work that is not done; a topic that was left is none."""

_FOR_MS: Final = 120_000
_AGE_S: Final = 5 * 3600
_LEAST: Final = 3
_MOST: Final = 400
_MAX_LAG: Final = re.compile(r'^kafka_consumergroup_group_max_lag\{.*group="([^"]+)".*\} ([0-9.e+]+)$', re.MULTILINE)

Json = Mapping[str, Any]


def make_fleet(world: KafkaWorld, groups: int = GROUPS) -> None:
    """Jobs of a lag between _LEAST and _MOST."""
    topic = world.topic(f"{FLEET}.t")
    then_ms = int(1000 * (time.time() - _AGE_S))
    world.produce_at(topic, 0, [then_ms + n for n in range(_MOST)])
    for n in range(groups):
        lag = _LEAST + n * (_MOST - _LEAST) // (groups - 1)
        world.commit(f"{FLEET}.{n:03}", {(topic, 0): _MOST - lag})


@dataclass(frozen=True, slots=True)
class Pages:
    """What is said of all groups at once."""

    lag: str
    top: str
    metrics: str
    doctor_json: Json


@dataclass(frozen=True, slots=True)
class Stuck:
    """A group that does not do its work: by its members' logs, its offsets and the log, of which kgroup has no part."""

    lag: int


def stuck(row: Row, state: State, *, fed: bool, run: bool) -> dict[str, Stuck]:
    """Those of a row's groups with unread records of which none was processed for two minutes. Pure.

    A job that nobody runs, and which gets no more records, is idle: `fed` and `run` are of the row.
    """
    if row.healthy or not (fed or run) or STUCK.isdisjoint(f"{row.right.lag} {row.allowed.lag}".split()):
        return {}
    return {
        name: Stuck(sum(max(state.logs[place].end - offset, 0) for place, offset in group.committed.items()))
        for name, group in state.groups.items()
        if standing(state, name, _FOR_MS)
    }


def look_at_fleet(rows: Mapping[str, Row], stuck_ones: Mapping[str, Stuck], bootstrap: str) -> tuple[Cell, ...]:
    """The rows, and those that are stuck, by their group. Runs in a judge's process."""
    kgroup = CommandLine()

    os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap

    def said(*words: str) -> str:
        return kgroup(*words, exit_code=None).stdout

    pages = Pages(
        lag=said("lag", "-A", "--no-color"),
        top=said("lag", "-A", "--no-color", "--top", str(TOP)),
        metrics=said("lag", "-A", "-o", "prometheus"),
        doctor_json=kgroup("doctor", "-A", "--fail-on", "warning", "-o", "json", exit_code=None).json,
    )
    return conclude_fleet(pages, rows, stuck_ones)


def conclude_fleet(pages: Pages, rows: Mapping[str, Row], stuck_ones: Mapping[str, Stuck]) -> tuple[Cell, ...]:
    """What is wrong with each answer."""
    faults = {
        "lag": _order(pages, rows, stuck_ones),
        "lag --top": _top(pages, stuck_ones),
        "lag -o prometheus": _metrics(pages, stuck_ones),
        "doctor": _named_healthy(pages, rows),
    }
    found = {verb: "; ".join(each) for verb, each in faults.items()}
    return tuple(Cell(verb, Worth.WRONG if why else Worth.RIGHT, why) for verb, why in found.items())


def _order(pages: Pages, rows: Mapping[str, Row], stuck_ones: Mapping[str, Stuck]) -> Iterator[str]:
    """Each group that is stuck comes before all of the fleet."""
    order = [name for line in pages.lag.splitlines() if (name := line.split(" ", 1)[0]) in rows or _is_idle(name)]
    if sum(_is_idle(name) for name in order) != GROUPS:
        yield f"lists {sum(_is_idle(name) for name in order)} of {GROUPS} idle groups"
    first = next((n for n, name in enumerate(order) if _is_idle(name)), len(order))
    for name, group in stuck_ones.items():
        if name not in order[:first]:
            yield f"{name} (stuck, lag {group.lag}) comes after idle groups"


def _top(pages: Pages, stuck_ones: Mapping[str, Stuck]) -> Iterator[str]:
    name = max(stuck_ones, key=lambda name: stuck_ones[name].lag, default="")
    if name and not re.search(rf"(?m)^{re.escape(name)} ", pages.top):
        yield f"hides {name}, the largest that is stuck, with a lag of {stuck_ones[name].lag}"


def _metrics(pages: Pages, stuck_ones: Mapping[str, Stuck]) -> Iterator[str]:
    largest = {name: float(value) for name, value in _MAX_LAG.findall(pages.metrics)}
    for name in stuck_ones:
        if not largest.get(name):
            yield f"max_lag of {name} is {largest.get(name)}"


def _named_healthy(pages: Pages, rows: Mapping[str, Row]) -> Iterator[str]:
    for group in pages.doctor_json["data"]:
        row = rows.get(group["group"] or "")
        # What kgroup did is in the journal of the machine that did it, which is the row's.
        if row is None or not row.healthy or any(action.do == "kgroup" for action in row.begin):
            continue
        for one in group["findings"]:
            if one["severity"] != "info" and one["rule"] not in {*row.allowed.rules.split(), *ALLOWED_RULES}:
                yield f"{group['group']}: {one['rule']} ({one['severity']})"


def _is_idle(name: str) -> bool:
    return bool(re.fullmatch(rf"{FLEET}\.\d+", name))
