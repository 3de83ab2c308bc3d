"""Many idle groups beside the situations: what stands must be found first among them, and no healthy group be named.

GROUPS jobs that ended with old records unread, to which nothing is added, as clusters have them; looked at by `-A`.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.situations.conclude import ALLOWED_RULES, Cell, Worth
from tests.situations.row import Row

GROUPS: Final = 250
FLEET: Final = "fleet"
"""The name of its result."""

TOP: Final = 12
STANDS: Final = ("stall", "stop")
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
    lag_json: Json
    metrics: str
    doctor_json: Json


def look_at_fleet(rows: Mapping[str, Row]) -> tuple[Cell, ...]:
    """The rows by their group. Runs in a judge's process."""
    kgroup = CommandLine()

    def said(*words: str) -> str:
        return kgroup(*words, exit_code=None).stdout

    pages = Pages(
        lag=said("lag", "-A", "--no-color"),
        top=said("lag", "-A", "--no-color", "--top", str(TOP)),
        lag_json=kgroup("lag", "-A", "-o", "json", exit_code=None).json,
        metrics=said("lag", "-A", "-o", "prometheus"),
        doctor_json=kgroup("doctor", "-A", "--fail-on", "warning", "-o", "json", exit_code=None).json,
    )
    return conclude_fleet(pages, rows)


def conclude_fleet(pages: Pages, rows: Mapping[str, Row]) -> tuple[Cell, ...]:
    """What is wrong with each answer."""
    faults = {
        "lag": _order(pages, rows),
        "lag --top": _top(pages, rows),
        "lag -o prometheus": _metrics(pages, rows),
        "doctor": _named_healthy(pages, rows),
    }
    found = {verb: "; ".join(each) for verb, each in faults.items()}
    return tuple(Cell(verb, Worth.WRONG if why else Worth.RIGHT, why) for verb, why in found.items())


def _order(pages: Pages, rows: Mapping[str, Row]) -> Iterator[str]:
    """Each sick group that stands, or that nobody reads while records arrive, comes before all of the fleet."""
    order = [name for line in pages.lag.splitlines() if (name := line.split(" ", 1)[0]) in rows or _is_idle(name)]
    if sum(_is_idle(name) for name in order) != GROUPS:
        yield f"lists {sum(_is_idle(name) for name in order)} of {GROUPS} idle groups"
    first = next((n for n, name in enumerate(order) if _is_idle(name)), len(order))
    for name, group in _sick(pages, rows).items():
        stands = group["lag_status"] in STANDS
        unread = group["lag_status"] == "no-reader" and (group["in_per_s"] or 0) > 0
        if (stands or unread) and name not in order[:first]:
            yield f"{name} ({group['lag_status']}, lag {group['lag']}) comes after idle groups"


def _top(pages: Pages, rows: Mapping[str, Row]) -> Iterator[str]:
    name = max(stuck := _stuck(pages, rows), key=lambda name: stuck[name]["lag"] or 0, default="")
    if name and not re.search(rf"(?m)^{re.escape(name)} ", pages.top):
        yield f"hides {name}, the largest that is stuck, with a lag of {stuck[name]['lag']}"


def _metrics(pages: Pages, rows: Mapping[str, Row]) -> Iterator[str]:
    largest = {name: float(value) for name, value in _MAX_LAG.findall(pages.metrics)}
    for name in _stuck(pages, rows):
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


def _sick(pages: Pages, rows: Mapping[str, Row]) -> dict[str, Json]:
    return {
        group["group"]: group
        for group in pages.lag_json["data"]
        if group["group"] in rows and not rows[group["group"]].healthy
    }


def _stuck(pages: Pages, rows: Mapping[str, Row]) -> dict[str, Json]:
    return {
        name: group
        for name, group in _sick(pages, rows).items()
        if any(each["lag_status"] in STANDS for each in group["partitions"])
    }


def _is_idle(name: str) -> bool:
    return bool(re.fullmatch(rf"{FLEET}\.\d+", name))
