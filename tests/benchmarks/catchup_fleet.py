"""A catch-up as large as a fleet: a plan of 40,000 chunks, and a ledger with many more such plans.

The floor is the CPU time of the same command with no other plan in the ledger. A figure may grow with open plans. With
finished ones only `list` may grow, which shows them, and the time to read the ledger.

The chunks have 5 small records, since `--rate` makes chunks small. The other plans are written with kgroup's encoder.
The one plan is also replayed, with the memory of the driver and of its workers. Then the finished plans are pruned. In
the end several producers commit transactions to the one partition of a ledger at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from msgspec.structs import replace

from kgroup.catchup.ledger import topic as ledger_topic
from kgroup.catchup.ledger.records import RecordKey, RecordKind, encode, key_of
from kgroup.cluster.reader.to_end import CommittedReader
from kgroup.cluster.transactions import Transactions
from kgroup.groups.catchup.chunks import assign_to_tasks
from kgroup.groups.catchup.model import (
    CatchupPlan,
    Chunk,
    ChunkProgress,
    Delivery,
    GapRange,
    Order,
    PlanSnapshot,
    PlanState,
    RunnerEpoch,
    StateRecord,
)
from kgroup.groups.catchup.verification import totals_of
from kgroup.groups.commit_tags import new_plan_id
from kgroup.model.commit import Commit
from tests.benchmarks.measure import kgroup, once
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.replaying import FOR_REPLAYS, QUICK_CHANGES, broker, fill, new_ledger
from tests.helpers.kafka_world import KafkaWorld

TINY = {"partitions": 4, "chunks": 2, "finished": 2, "open_plans": 1, "producers": [2]}
RECORDS, SIZE = 200, 100
"""Records of each partition, bytes of a value."""

PARALLELISM = 2
_COMMITS_S = 10.0
_TIMEOUT_S = 60.0
_EVERY_S = 0.2
_SENDING = {"linger.ms": 20, "batch.size": 900_000, "queue.buffering.max.kbytes": 2_000_000, "log_level": 0}


@dataclass(frozen=True, slots=True)
class Size:
    """How large a plan is: partitions, and the chunks and records of each."""

    partitions: int
    chunks: int
    records: int

    @property
    def rate(self) -> str:
        """The rate at which kgroup cuts that many chunks: a task has 30 s for a chunk, at its share of the rate."""
        return f"{(self.records / self.chunks + 0.1) * PARALLELISM / 30:.4f}/s"


def measurements(
    partitions: int = 1_000,
    chunks: int = 40,
    finished: int = 100,
    open_plans: int = 10,
    producers: Sequence[int] = (1, 4, 16, 64),
) -> Iterator[Measurement]:
    """``chunks`` of each partition; ``finished`` and ``open_plans``: how many other plans; ``producers`` at once."""
    with broker({**FOR_REPLAYS, **QUICK_CHANGES}) as bootstrap, KafkaWorld(bootstrap) as world:
        os.environ["KGROUP_BOOTSTRAP_SERVER"] = bootstrap
        fleet = Fleet(world, Size(partitions, chunks, RECORDS))
        yield from fleet.verbs("no other plan")
        fleet.add(open_plans, PlanState.RELEASED)
        yield from fleet.verbs(f"{open_plans} open")
        fleet.add(finished, PlanState.DONE)
        yield from fleet.verbs(f"{open_plans} open, {finished} finished")
        yield fleet.replay()
        yield fleet.prune()
        for many in producers:
            yield _transactions(bootstrap, many)


class Fleet:
    """A topic, and a ledger that other plans are added to."""

    def __init__(self, world: KafkaWorld, size: Size) -> None:
        self._world, self._size = world, size
        self._source = fill(world, "source", size.partitions, size.partitions * size.records, SIZE)
        self._target = world.topic("copy", size.partitions)
        self._config = {"bootstrap.servers": world.bootstrap}
        self._groups = 0
        self._first: dict[str, float] = {}
        os.environ["KGROUP_LEDGER_TOPIC"] = self._ledger = new_ledger()
        ledger_topic.prepare(self._config, self._ledger, timeout_s=_TIMEOUT_S)

    def verbs(self, others: str) -> Iterator[Measurement]:
        """Each command with the ledger as it is; the plan that is made for it is cancelled in the end."""
        group, ledger = self._group(), self._read()
        yield Measurement(f"read the ledger, {others}", "s", (ledger.pop("wall_s"),), also=ledger)
        yield self._verb("start, plan", others, self._start(group))
        began = time.perf_counter()
        with released([*self._start(group), "--execute"]) as plan:
            yield Measurement(f"start until released, {others}", "s", (time.perf_counter() - began,))
        yield self._verb("show", others, kgroup("catchup", "show", plan))
        yield self._verb("list", others, kgroup("catchup", "list"))
        yield self._verb("describe", others, kgroup("describe", group))
        yield self._verb("resume, plan", others, kgroup("catchup", "resume", plan, "--rate", "off"))
        accepted = ("--accept", "possible-duplicates", "--execute")
        yield self._verb("cancel", others, kgroup("catchup", "cancel", plan, *accepted))

    def _verb(self, verb: str, others: str, command: Sequence[str]) -> Measurement:
        found = once(command)
        floor = (self._first[verb],) if verb in self._first else ()
        self._first.setdefault(verb, found.cpu_s)
        also = {"wall_s": found.wall_s, "peak_mb": found.peak_mb}
        return Measurement(f"`{verb}`, {others}", "s CPU", (found.cpu_s,), (), floor, (), also)

    def _group(self) -> str:
        """A new group that has read nothing."""
        self._groups += 1
        name = f"fleet-{self._groups}"
        self._world.commit(name, dict.fromkeys([(self._source, n) for n in range(self._size.partitions)], 0))
        return name

    def _start(self, group: str) -> list[str]:
        """The command line that plans as many chunks as wanted."""
        words = ("--to-topic", self._target, "--rate", self._size.rate, "--parallelism", str(PARALLELISM))
        return kgroup("catchup", "start", group, *words)

    def replay(self) -> Measurement:
        """Release a plan, and resume it without a rate: time, and the peak of each of its processes."""
        with released([*self._start(self._group()), "--execute"]) as plan:
            pass
        began = time.perf_counter()
        words = ("catchup", "resume", plan, "--rate", "off", "--parallelism", str(PARALLELISM), "--execute")
        with tempfile.TemporaryFile("w+") as said:
            running = subprocess.Popen(kgroup(*words), stdout=said, stderr=subprocess.STDOUT)
            peaks = _peaks(running)
            if running.returncode:
                said.seek(0)
                raise SystemExit(f"exit {running.returncode}\n{said.read()[-2000:]}")
        wall_s = time.perf_counter() - began
        also = {f"{kind}_peak_mb": peak for kind, peak in sorted(peaks.items())}
        return Measurement("replay of the plan", "s", (wall_s,), also=also)

    def prune(self) -> Measurement:
        """Delete all finished plans; the last command, since the ledger is another one afterwards."""
        return self._verb("prune", "all that are finished", kgroup("catchup", "prune", "--execute"))

    def add(self, plans: int, state: PlanState) -> None:
        """Write plans of this size: of open ones a half of the chunks is delivered, of finished ones all.

        Of finished ones it has no chunks, as after the log cleaner: their end writes tombstones.
        """
        producer = Producer({**self._config, **_SENDING})
        ranges = tuple(_range(self._source, number, self._size) for number in range(self._size.partitions))
        chunks = tuple(_chunks(ranges, self._size))
        tasks = assign_to_tasks(ranges, chunks, Order.PARTITION, PARALLELISM)
        delivery = Delivery("topic", Order.PARTITION, tasks, {"topic": self._target})
        progress = [_progress(chunk) for chunk in (chunks[::2] if state.is_open else chunks)]
        encoded = [(item.chunk, encode(item)) for item in progress if state.is_open]
        now_ms = time.time_ns() // 1_000_000
        for _ in range(plans):
            plan_id = new_plan_id()
            plan = CatchupPlan(
                plan_id,
                f"other-{plan_id}",
                "classic",
                None,
                now_ms,
                "bench@here",
                None,
                ("kgroup",),
                ranges,
                chunks=chunks,
            )
            written = StateRecord(PlanState.RELEASED, now_ms, "bench@here", 1, 0)
            for value in (plan, written, delivery, RunnerEpoch(1, "bench@here", now_ms, 0)):
                producer.produce(self._ledger, encode(value), key_of(plan_id, value).encode(), 0)
            rows = [{"key": RecordKey(plan_id, RecordKind.CHUNK, n).encode(), "value": raw} for n, raw in encoded]
            assert not rows or producer.produce_batch(self._ledger, rows, 0) == len(rows)
            if not state.is_open:
                last = replace(written, state=state)
                ended = PlanSnapshot(plan, 0, last, None, delivery, {item.chunk: item for item in progress})
                for of_end in (totals_of(ended), last):
                    producer.produce(self._ledger, encode(of_end), key_of(plan_id, of_end).encode(), 0)
            assert producer.flush(120) == 0

    def _read(self) -> dict[str, float]:
        """The size of the ledger, and what it costs to read it without decoding anything."""
        files = Path(os.environ["KGROUP_STATE_DIR"]).rglob(f"{self._ledger}-0/*.log")
        began, cpu = time.perf_counter(), time.process_time()
        with CommittedReader(self._config, self._ledger, timeout_s=_TIMEOUT_S) as reader:
            records = sum(1 for _ in reader.committed())
        return {
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - cpu,
            "records": records,
            "ledger_mb": sum(file.stat().st_size for file in files) / 1e6,
        }


@contextmanager
def released(command: Sequence[str]) -> Iterator[str]:
    """Run a start until its group is released, and yield the plan's id; the start is interrupted at the end."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    plan, said = "", []
    for line in process.stderr:
        said.append(line)
        if "  PLANNED" in line:
            plan = line.split("PLANNED")[1].split()[0]
        if "  RELEASED" in line:
            break
    else:
        raise SystemExit("".join(said))
    try:
        yield plan
    finally:
        process.send_signal(signal.SIGINT)
        process.stderr.read()
        process.wait()
        process.stderr.close()


def _range(topic: str, partition: int, size: Size) -> GapRange:
    return GapRange(topic, partition, 0, size.records, Commit(0, None, ""), 0, None, 0, size.records, None, None, None)


def _chunks(ranges: Sequence[GapRange], size: Size) -> Iterator[Chunk]:
    edges = [size.records * edge // size.chunks for edge in range(size.chunks + 1)]
    number = 0
    for item in ranges:
        for start, end in pairwise(edges):
            yield Chunk(item.topic, item.partition, start, end, number)
            number += 1


def _progress(chunk: Chunk) -> ChunkProgress:
    records = chunk.end - chunk.start
    return ChunkProgress(chunk.number, chunk.end, records, 0, 0, records * SIZE, time.time_ns() // 1_000_000, 1)


def _peaks(process: subprocess.Popen[Any]) -> dict[str, float]:
    """The largest resident memory in MB of each kind of process below this one, until it ends."""
    peaks: dict[str, float] = {}
    while process.poll() is None:
        for kind, peak in _memory(process.pid, "driver"):
            peaks[kind] = max(peaks.get(kind, 0.0), peak)
        time.sleep(_EVERY_S)
    return peaks


def _memory(pid: int, kind: str) -> Iterator[tuple[str, float]]:
    """The kind and peak of a process and of those that it started."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except (OSError, ValueError):  # it has ended
        return
    facts = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    name = facts["Name"].strip()
    if name == "java" or name.startswith("python"):  # not the helpers with which Java starts processes
        yield "jvm" if name == "java" else kind, int(facts.get("VmHWM", "0 kB").split()[0]) / 1024
    for child in children:
        yield from _memory(child, "worker")


def _transactions(bootstrap: str, producers: int) -> Measurement:
    """How many transactions a second so many producers commit, each with a record of a ledger's one partition."""
    config, ledger = {"bootstrap.servers": bootstrap}, new_ledger()
    ledger_topic.prepare(config, ledger, timeout_s=_TIMEOUT_S)
    value = encode(ChunkProgress(1, 250_000, 250_000, 0, 0, 25_000_000, 1, 1))
    with ExitStack() as stack:
        taken = [
            stack.enter_context(Transactions(config, f"{ledger}-{number}", topic=ledger, timeout_s=_TIMEOUT_S))
            for number in range(producers)
        ]
        for one in taken:
            one.fence()
        until = time.monotonic() + _COMMITS_S
        with ThreadPoolExecutor(producers) as pool:
            counts = list(pool.map(lambda one: _commit(one, ledger, value, until), taken))
    rate = sum(counts) / _COMMITS_S
    name = f"transactions on one ledger, {producers} producers"
    return Measurement(name, "transactions/s", (rate,), also={"each_ms": producers / max(rate, 0.1) * 1000})


def _commit(transactions: Transactions, ledger: str, value: bytes, until: float) -> int:
    """How many transactions this producer commits until then."""
    count = 0
    while time.monotonic() < until:
        transactions.begin()
        transactions.produce(ledger, b"cu-7f3a/chunk/1", value, 0)
        transactions.commit()
        count += 1
    return count
