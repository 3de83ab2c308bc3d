"""Benchmarks of kgroup against other tools: ``python -m tests.benchmarks``.

All of them, or those that are named, one after the other, each in a process of its own. Prints a table; with --json
also stores the results, in place of earlier ones of the same benchmarks. Exit 1 if one could not be run.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.benchmarks.catalogue import BENCHMARKS, RESULTS, about, run, stored
from tests.benchmarks.measurement import Result, merged
from tests.benchmarks.table import as_text


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="without a name, all are run")
    parser.add_argument("--list", action="store_true", help="print the names, and what each compares")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help=f"store the results; docs are made from {RESULTS.name}"
    )
    parser.add_argument("--tiny", action="store_true", help="sizes that show only that it runs")
    parser.add_argument(
        "--set", action="append", default=[], metavar="BENCHMARK.SIZE=VALUE", help="scale.groups=100,1000"
    )
    parser.add_argument("--note", default="", help="what else the machine did; it is stored with the results")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(BENCHMARKS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from: {', '.join(BENCHMARKS)}")
    if chosen.list:
        for name in chosen.names or BENCHMARKS:
            print(f"{name:20} {about(name)}")
        return 0
    names = chosen.names or list(BENCHMARKS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a broker ends with its benchmark
    if len(names) == 1:
        results = [run(names[0], chosen.set, tiny=chosen.tiny, note=chosen.note)]
        if chosen.json:
            _store(chosen.json, results)
    else:
        options = [*(["--tiny"] if chosen.tiny else []), *(f"--set={each}" for each in chosen.set)]
        with tempfile.TemporaryDirectory(prefix="kgroup-bench-") as directory:
            path = chosen.json or Path(directory, "results.json")
            results = _each_in_a_process(names, [*options, f"--note={chosen.note}", f"--json={path}"], path)
    print(as_text(results))
    return int(len(results) < len(names))


def _each_in_a_process(names: Sequence[str], options: Sequence[str], path: Path) -> list[Result]:
    """What one leaves in its process does not reach the next, and one that fails does not end the others.

    Each stores its result before the next one begins.
    """
    measured: list[str] = []
    for name in names:
        words = [sys.executable, "-m", "tests.benchmarks", name, *options]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                raise
        if status:
            print(f"{name}: not measured, exit {status}", file=sys.stderr)
        else:
            measured.append(name)
    return [result for result in stored(path) if result.benchmark in measured] if measured else []


def _store(path: Path, results: Sequence[Result]) -> None:
    known = merged(stored(path) if path.exists() else [], results, list(BENCHMARKS))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
