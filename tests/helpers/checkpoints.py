"""Checkpoints of streaming queries: the recorded ones, with their times, and others as Spark writes them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.helpers.places import DATA

_TOOK_MS = 100


def recorded_checkpoint(kind: str, folder: Path) -> Path:
    """A copy of a recorded checkpoint, each file with the time of its batch: git keeps none."""
    root = Path(shutil.copytree(DATA / "checkpoints" / kind, folder / kind))
    for plan in (root / "offsets").iterdir():
        lines = plan.read_text().splitlines()
        if len(lines) > 1 and lines[1]:
            planned_ms = json.loads(lines[1])["batchTimestampMs"]
            _date(plan, planned_ms)
            if (commit := root / "commits" / plan.name).exists():
                _date(commit, planned_ms + _TOOK_MS)
    return root


def write_checkpoint(
    root: Path,
    ends: Sequence[Mapping[str, Sequence[int]]],
    done_ms: Sequence[int],
    *,
    planned: tuple[int, Mapping[str, Sequence[int]]] | None = None,
    begins: Mapping[str, Sequence[int]] | None = None,
    stateful: bool = False,
) -> Path:
    """A checkpoint of one Kafka source: ``ends`` are the offsets of each batch by topic, ``done_ms`` when it was done.

    ``planned`` is the time and the end of a batch that is not done. ``begins`` is where it began, at 0 if not given.
    """
    first = begins or {
        topic: [0] * len(offsets) for topic, offsets in (ends or [planned[1] if planned else {}])[0].items()
    }
    _write(root / "metadata", '{"id":"5d0c3b3e-7a43-4c3a-9a0e-1c1a7f0b6a55"}')
    _write(root / "sources" / "0" / "0", f"\0v1\n{_json(first)}")
    for number, (of_batch, at_ms) in enumerate(zip(ends, done_ms, strict=True)):
        _plan(root, number, at_ms - _TOOK_MS, of_batch)
        commit = root / "commits" / str(number)
        _write(commit, 'v1\n{"nextBatchWatermarkMs":0}')
        _date(commit, at_ms)
    if planned is not None:
        _plan(root, len(ends), *planned)
    if stateful:
        _write(root / "state" / "0" / "0" / "1.delta", "")
    return root


def _plan(root: Path, number: int, planned_ms: int, ends: Mapping[str, Sequence[int]]) -> None:
    metadata = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": planned_ms, "conf": {}})
    _write(root / "offsets" / str(number), f"v1\n{metadata}\n{_json(ends)}")
    _date(root / "offsets" / str(number), planned_ms)


def _json(ends: Mapping[str, Sequence[int]]) -> str:
    return json.dumps({topic: {str(n): offset for n, offset in enumerate(offsets)} for topic, offsets in ends.items()})


def _write(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)


def _date(file: Path, at_ms: int) -> None:
    os.utime(file, (at_ms / 1000, at_ms / 1000))
