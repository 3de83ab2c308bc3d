"""A sandbox's stored layout, ``sandbox.json``. Pids are in files of the nodes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgroup.sandbox.config import Layout, Node, Role
from kgroup.support.atomic_file import replace_file
from kgroup.support.errors import SandboxError

_FORMAT = 1


def write_layout(path: Path, layout: Layout) -> None:
    """Replace the file atomically. Only its owner may read it, since broker settings may have passwords."""
    document = {"format": _FORMAT, **asdict(layout)}
    replace_file(path, (json.dumps(document, indent=2) + "\n").encode())


def read_layout(path: Path) -> Layout | None:
    """The layout, None if there is no sandbox. Raises SandboxError for a damaged file."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            raise SandboxError(f"{path} is of another release of kgroup", hint=_REMEDY)
        nodes = tuple(Node(n["node_id"], Role(n["role"]), n["ports"]) for n in document["nodes"])
        rest = ("listeners", "properties", "jars", "version")
        return Layout(document["cluster_id"], nodes, *(document[name] for name in rest))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxError(f"{path} is damaged: {error!r}", hint=_REMEDY) from error


_REMEDY = "kgroup sandbox down --wipe"
