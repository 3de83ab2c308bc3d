"""``spark.read.format("kgroup")``: its options, and the Python Data Source that implements it.

The class sent to Spark contains the connection settings, as the functions of ``source`` do. Options are shown in
Spark's UI, so none of them holds a password. Spark reads the options in a process of its own on the driver's machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kgroup.catchup.spark import worker_package
from kgroup.catchup.spark.source import SourcePlan, SourceRange, ddl, rows
from kgroup.cluster.topic_admin import bounds, partitions
from kgroup.groups.catchup import delivered
from kgroup.groups.catchup.gap_request import parse_ranges
from kgroup.groups.catchup.ledger_name import LEDGER_TOPIC
from kgroup.groups.catchup.model import PlanSnapshot
from kgroup.model.records import OffsetRange
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import UsageError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

FORMAT = "kgroup"
_WHAT = ("subscribe", "range", "plan")
_KNOWN = frozenset(
    {*_WHAT, "startingoffsets", "endingoffsets", "failondataloss", "minpartitions", "ledgertopic", "pending"}
)
_AT = {"earliest": -2, "latest": -1}
_packages: dict[str, worker_package.WorkerPackage] = {}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options. Exactly one of ``topics``, ``ranges`` and ``plan`` is set.

    ``starting`` and ``ending`` are offsets by partition, or -2 (earliest) and -1 (latest), as in Spark's JSON. Key None
    means all partitions not named. ``pending``: read only what is not delivered of the plan.
    """

    topics: tuple[str, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    plan: str | None = None
    ledger: str = LEDGER_TOPIC
    pending: bool = False
    starting: Mapping[TopicPartition | None, int] | None = None
    ending: Mapping[TopicPartition | None, int] | None = None
    loses: bool = False
    least_parts: int = 1


def parse(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options; names are case-insensitive. Raises UsageError for unknown and invalid options."""
    given = {name.lower(): value.strip() for name, value in options.items()}
    for name in given:
        if name.startswith("kafka."):
            raise UsageError(
                f"option {name}: set the connection once with register(spark, ...); Spark shows no part of it"
            )
    if unknown := sorted(given.keys() - _KNOWN - {"path"}):
        raise UsageError(f"unknown option {unknown[0]}", hint=f"choose from {', '.join(sorted(_KNOWN))}")
    said = [name for name in _WHAT if name in given]
    if len(said) != 1:
        raise UsageError(f"exactly one of these options is required: {', '.join(_WHAT)}")
    names = given.get("subscribe", "").split(",")
    return ReadOptions(
        topics=tuple(dict.fromkeys(name.strip() for name in names if name.strip())),
        ranges=parse_ranges(given["range"].split()) if "range" in given else (),
        plan=given.get("plan"),
        ledger=given.get("ledgertopic", LEDGER_TOPIC),
        pending=_flag(given, "pending", default=False),
        starting=_offsets(given.get("startingoffsets", "earliest"), "startingOffsets"),
        ending=_offsets(given.get("endingoffsets", "latest"), "endingOffsets"),
        loses=not _flag(given, "failondataloss", default=True),
        least_parts=_count(given.get("minpartitions", "1"), "minPartitions"),
    )


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"option {name}: {text} is not true or false")
    return text == "true"


def _count(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UsageError(f"option {name} must be at least 1, not {text}")
    return int(text)


def _offsets(text: str, name: str) -> dict[TopicPartition | None, int]:
    if text in _AT:
        return {None: _AT[text]}
    match _json(text, name):
        case dict() as offsets if all(
            isinstance(some, dict)
            and all(number.isdigit() and type(at) is int and at >= min(_AT.values()) for number, at in some.items())
            for some in offsets.values()
        ):
            return {
                TopicPartition(topic, int(number)): at for topic, some in offsets.items() for number, at in some.items()
            }
    raise UsageError(
        f"option {name} must be earliest, latest, or offsets by topic and partition",
        hint='for example {"orders": {"0": 70, "1": -2}}; -2 is earliest, -1 is latest',
    )


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"option {name} is not JSON: {error}") from error


def ranges_of(asked: ReadOptions, config: Mapping[str, Any], *, timeout_s: float) -> tuple[OffsetRange, ...]:
    """The offset ranges to read now. Raises UsageError, NotFound, Refused [records-gone] and errors of the cluster."""
    if asked.plan is not None:
        plan = _plan(asked, config, timeout_s)
        return delivered.undelivered(plan.plan, plan.progress) if asked.pending else _whole(plan)
    if asked.ranges:
        return asked.ranges
    topic_partitions = partitions(config, asked.topics, timeout_s=timeout_s)
    _require_read(asked, topic_partitions)
    logs = bounds(config, topic_partitions, timeout_s=timeout_s)
    return tuple(
        OffsetRange(*tp, start, end)
        for tp in topic_partitions
        if (start := _at(tp, asked.starting, -2, logs[tp])) < (end := _at(tp, asked.ending, -1, logs[tp]))
    )


def _require_read(asked: ReadOptions, partitions: Sequence[TopicPartition]) -> None:
    """Raise UsageError for an offset of a partition that is not read, which is probably a typing error."""
    for name, said in (("startingOffsets", asked.starting), ("endingOffsets", asked.ending)):
        for tp in said or {}:
            if tp is not None and tp not in partitions:
                raise UsageError(f"option {name}: {tp} is not one of the partitions that are read")


def _at(tp: TopicPartition, said: Mapping[TopicPartition | None, int] | None, usual: int, log: tuple[int, int]) -> int:
    known = said or {}
    offset = known.get(tp, known.get(None, usual))
    return offset if offset >= 0 else log[0] if offset == _AT["earliest"] else log[1]


def _whole(snapshot: PlanSnapshot) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(*item.tp, item.start, item.end) for item in snapshot.plan.ranges if item.start < item.end)


def _plan(asked: ReadOptions, config: Mapping[str, Any], timeout_s: float) -> PlanSnapshot:
    from kgroup.catchup.ledger.ledger import Ledger

    assert asked.plan is not None
    with Ledger(config, asked.ledger, timeout_s=timeout_s) as ledger:
        return ledger.read(asked.plan)


def split(ranges: Sequence[OffsetRange], least_parts: int) -> tuple[SourceRange, ...]:
    """Split the ranges into at least ``least_parts`` parts. Pure."""
    everything = sum(item.offsets for item in ranges)
    largest = max(1, -(-everything // max(1, least_parts))) if least_parts > len(ranges) else everything
    parts = []
    for item in ranges:
        pieces = -(-item.offsets // max(1, largest))
        edges = [item.start + item.offsets * edge // pieces for edge in range(pieces + 1)]
        parts += [SourceRange(item.topic, item.partition, start, end) for start, end in pairwise(edges)]
    return tuple(parts)


def register_source(spark: SparkSession, config: Mapping[str, Any], *, timeout_s: float, name: str = FORMAT) -> None:
    """Register ``spark.read.format(name)`` in this session, with these connection settings in its code."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    _send_code(spark)
    name_of_it, hidden = name, _Hidden(dict(config))

    class Reader(DataSourceReader):
        def __init__(self, asked: ReadOptions) -> None:
            self._asked = asked

        def partitions(self) -> Sequence[InputPartition]:
            ranges = ranges_of(self._asked, hidden.config, timeout_s=timeout_s)
            return [InputPartition(part) for part in split(ranges, self._asked.least_parts)]

        def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
            if partition.value is None:  # no partitions, so nothing to read
                return iter(())
            one = ((partition.value,),)
            return rows(SourcePlan(one, hidden.config, timeout_s, loses=self._asked.loses), 0)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return name_of_it

        def schema(self) -> str:
            return ddl()

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(parse(self.options))

    spark.dataSource.register(Source)


@dataclass(frozen=True, slots=True, repr=False)
class _Hidden:
    """Connection settings with their secrets; the repr is suppressed."""

    config: Mapping[str, Any]


def _send_code(spark: SparkSession) -> None:
    """Send our code to remote workers. With Spark Connect there is no context: kgroup must be installed there."""
    context = getattr(spark, "sparkContext", None)
    if context is None or context.master.startswith("local") or context.applicationId in _packages:
        return
    package = _packages[context.applicationId] = (
        worker_package.WorkerPackage()
    )  # served from there for as long as the session lives
    context.addPyFile(str(package.path))
