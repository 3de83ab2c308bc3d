"""Timing whole processes: wall and CPU time as the median of several runs, peak memory as the largest."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What a command took: median wall and CPU time in seconds, largest peak memory in MB, lines and bytes it wrote."""

    wall_s: float
    peak_mb: float
    lines: int
    cpu_s: float = 0.0
    size: int = 0


def measure(command: Sequence[str], runs: int = 5, env: dict[str, str] | None = None) -> Figure:
    """Run the command once unmeasured and ``runs`` times measured; every run must exit with 0.

    Python keeps its compiled modules, as it does for installed packages.
    """
    return typical([once(command, env) for _ in range(runs + 1)][1:])


def typical(figures: Sequence[Figure]) -> Figure:
    """The medians of the times, the largest peak."""
    return Figure(
        statistics.median(figure.wall_s for figure in figures),
        max(figure.peak_mb for figure in figures),
        figures[-1].lines,
        statistics.median(figure.cpu_s for figure in figures),
        figures[-1].size,
    )


def once(command: Sequence[str], env: dict[str, str] | None = None, exits: Container[int] = (0,)) -> Figure:
    """Run the command once; it must exit with one of ``exits``."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=_without_writing_off() | (env or {})
    )
    assert process.stdout
    lines = size = 0
    while chunk := process.stdout.read(1 << 20):
        lines += chunk.count(b"\n")
        size += len(chunk)
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in exits:
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
    wall_s, cpu_s = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    return Figure(wall_s, usage.ru_maxrss / 1024, lines, cpu_s, size)


def _without_writing_off() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def say(title: str, ours: Figure, peer: Figure | None) -> None:
    """One line: ours, the peer's, the ratio of wall times."""
    line = f"{title}: kgroup {ours.wall_s:.3f} s, {ours.peak_mb:.0f} MB"
    if peer:
        line += f"; peer {peer.wall_s:.3f} s, {peer.peak_mb:.0f} MB; ratio {ours.wall_s / peer.wall_s:.3f}"
    print(line, flush=True)
