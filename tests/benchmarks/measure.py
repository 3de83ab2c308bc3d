"""Taking turns, and timing whole processes: wall and CPU time, peak memory, and what they wrote."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.benchmarks.measurement import Hold, Measurement

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """What a command took: wall and CPU time in seconds, peak memory in MB, lines and bytes it wrote."""

    wall_s: float
    peak_mb: float
    lines: int
    cpu_s: float
    size: int


def kgroup(*words: str) -> list[str]:
    """The command line of kgroup, in a process of its own."""
    return [sys.executable, "-m", "kgroup", *words]


def once(command: Sequence[str], exits: Container[int] = (0,)) -> Figure:
    """Run the command once; it must exit with one of ``exits``.

    Python keeps its compiled modules, as it does for installed packages.
    """
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_without_writing_off())
    assert process.stdout
    lines = size = 0
    with peak_of(process.pid) as peak_mb:
        while chunk := process.stdout.read(1 << 20):
            lines += chunk.count(b"\n")
            size += len(chunk)
        process.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in exits:
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
    wall_s, cpu_s = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    return Figure(wall_s, peak_mb(), lines, cpu_s, size)


@contextmanager
def peak_of(pid: int) -> Iterator[Callable[[], float]]:
    """The largest resident memory of a process in MB, read every 10 ms until the end of the block.

    ``ru_maxrss`` is at least that of the process that started it: Linux keeps it across exec.
    """
    peak_mb, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak_mb
        while not ended.wait(0.01):
            with suppress(OSError):
                found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
                peak_mb = peak_mb if found is None else max(peak_mb, int(found[1]) / 1024)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: peak_mb
    finally:
        ended.set()
        thread.join()


def _without_writing_off() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def turns(runs: int, *things: Callable[[], T]) -> list[tuple[T, ...]]:
    """Do one after the other, again and again, so that all have the same weather; each once before, unmeasured.

    What each returned, in the order of ``things``.
    """
    for thing in things:
        thing()
    rounds = [[thing() for thing in things] for _ in range(runs)]
    return list(zip(*rounds, strict=True))


def timed(thing: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Callable[[], float]:
    """The same, returning how many seconds it took."""

    def measured() -> float:
        began = clock()
        thing()
        return clock() - began

    return measured


def of_processes(
    name: str, ours: Sequence[Figure], peer: Sequence[Figure] = (), floor: Sequence[Figure] = (), *holds: Hold
) -> Measurement:
    """Wall times of processes, with the CPU time and the largest peak of each side."""
    also = {"cpu_s": statistics.median(each.cpu_s for each in ours), "peak_mb": max(each.peak_mb for each in ours)}
    if peer:
        also["peer_cpu_s"] = statistics.median(each.cpu_s for each in peer)
        also["peer_peak_mb"] = max(each.peak_mb for each in peer)
    return Measurement(name, "s", walls(ours), walls(peer), walls(floor), holds, also)


def walls(figures: Sequence[Figure]) -> tuple[float, ...]:
    """The wall times, in seconds."""
    return tuple(each.wall_s for each in figures)
