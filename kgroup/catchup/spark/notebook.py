"""``spark.read.format("kgroup")``: its options, and the Python Data Source that implements it.

The class sent to Spark contains the connection settings, as the functions of ``source`` do. Options are shown in
Spark's UI, so none of them holds a password. Spark reads the options in a process of its own on the driver's machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from kgroup.catchup.spark import worker_package
from kgroup.catchup.spark.source import SourcePlan, SourceRange, ddl, rows
from kgroup.cluster.reader.batches import BatchReader, check_partition
from kgroup.groups.catchup import delivered
from kgroup.groups.catchup.gap_request import parse_ranges
from kgroup.groups.catchup.ledger_name import LEDGER_TOPIC
from kgroup.groups.catchup.model import PlanSnapshot
from kgroup.model.records import OffsetRange
from kgroup.settings.environment import set_variable
from kgroup.support.errors import KgroupError, UsageError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

FORMAT = "kgroup"
_WHAT = ("range", "plan")
_KNOWN = frozenset({*_WHAT, "failondataloss", "minpartitions", "ledgertopic", "pending"})
_packages: dict[str, worker_package.WorkerPackage] = {}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options. Either ``ranges`` or ``plan`` is set.

    ``pending``: read only what is not delivered of the plan.
    """

    ranges: tuple[OffsetRange, ...] = ()
    plan: str | None = None
    ledger: str = LEDGER_TOPIC
    pending: bool = False
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
        hint = f"choose from {', '.join(sorted(_KNOWN))}; to read topics, use Spark's own source"
        raise UsageError(f"unknown option {unknown[0]}", hint=hint)
    said = [name for name in _WHAT if name in given]
    if len(said) != 1:
        raise UsageError(f"exactly one of these options is required: {', '.join(_WHAT)}")
    return ReadOptions(
        ranges=parse_ranges(given["range"].split()) if "range" in given else (),
        plan=given.get("plan"),
        ledger=given.get("ledgertopic", LEDGER_TOPIC),
        pending=_flag(given, "pending", default=False),
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


def ranges_of(asked: ReadOptions, config: Mapping[str, Any], *, timeout_s: float) -> tuple[OffsetRange, ...]:
    """The offset ranges to read now. Raises NotFound for an unknown plan or partition, and errors of the cluster."""
    if asked.plan is not None:
        plan = _plan(asked, config, timeout_s)
        return delivered.undelivered(plan.plan, plan.progress) if asked.pending else _whole(plan)
    with BatchReader(config, timeout_s=timeout_s) as reader:  # in a task, it would be an error with Java's stack
        for item in asked.ranges:
            check_partition(reader.partitions(item.topic), item)
    return asked.ranges


@contextmanager
def _without_traceback() -> Iterator[None]:
    """Let Spark show the message of a KgroupError in the block alone; it shows a traceback of this process otherwise.

    Spark has its setting ``hideTraceback`` as this variable. After an error it ends the process.
    """
    try:
        yield
    except KgroupError:
        set_variable("SPARK_HIDE_TRACEBACK", "1")
        raise


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

    send_code(spark)
    name_of_it, hidden = name, _Hidden(dict(config))

    class Reader(DataSourceReader):
        def __init__(self, asked: ReadOptions) -> None:
            self._asked = asked

        def partitions(self) -> Sequence[InputPartition]:
            with _without_traceback():
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
            with _without_traceback():
                return Reader(parse(self.options))

    spark.dataSource.register(Source)


@dataclass(frozen=True, slots=True, repr=False)
class _Hidden:
    """Connection settings with their secrets; the repr is suppressed."""

    config: Mapping[str, Any]


def send_code(spark: SparkSession) -> None:
    """Send our code to remote workers. With Spark Connect there is no context: kgroup must be installed there."""
    context = getattr(spark, "sparkContext", None)
    if context is None or context.master.startswith("local") or context.applicationId in _packages:
        return
    package = _packages[context.applicationId] = (
        worker_package.WorkerPackage()
    )  # served from there for as long as the session lives
    context.addPyFile(str(package.path))
