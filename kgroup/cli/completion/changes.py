"""The ids of changes for completion, from the journal of this machine."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from kgroup.cli.completion.names import is_plain

_NEWEST = 20
_LONGEST_LINE = 65_536
_SUFFIX = ".jsonl"


def change_ids(directory: Path) -> dict[str, str]:
    """The newest changes, each with what it did (``reset orders-svc``); empty if there is no journal.

    Only the first line of a file is read. One that is not understood still has an id.
    """
    with suppress(OSError):
        files = [path for path in directory.iterdir() if path.name.startswith("ch-") and path.suffix == _SUFFIX]
        newest = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)[:_NEWEST]
        return {path.stem: _description(path) for path in newest if is_plain(path.stem)}
    return {}


def _description(path: Path) -> str:
    with suppress(OSError, ValueError), path.open(encoding="utf-8", errors="replace") as file:
        head = json.loads(file.readline(_LONGEST_LINE))
        text = f"{head.get('what', '')} {head.get('subject', '')}".strip() if isinstance(head, dict) else ""
        return text if is_plain(text) else ""
    return ""
