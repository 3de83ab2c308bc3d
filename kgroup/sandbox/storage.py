"""Formatting a broker's log directory: two files, or StorageTool where it is given arguments.

StorageTool takes 0.9 s for what is ``meta.properties`` and a copy of ``bootstrap.checkpoint`` (the feature
levels that the cluster begins with; it names no cluster, so one serves all).
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from kgroup.support.errors import SandboxError

CHECKPOINT = "bootstrap.checkpoint"
META = "meta.properties"


def random_id() -> str:
    """A Kafka Uuid: 16 random bytes in base64url, never with a dash first, which tools take for a flag."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not made.startswith("-"):
            return made


def is_formatted(data: Path) -> bool:
    """Whether the directory belongs to a cluster already."""
    return (data / META).exists()


def format_by_copy(data: Path, *, cluster_id: str, node_id: int, checkpoint: Path) -> None:
    """Make a fresh log directory; ``meta.properties`` comes last, because it says that all is there."""
    data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkpoint, data / CHECKPOINT)
    meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": random_id()}
    aside = data.parent / META
    aside.write_text("".join(f"{key}={value}\n" for key, value in meta.items()))
    aside.replace(data / META)


def format_by_tool(
    tool: Sequence[str], *, server_properties: Path, cluster_id: str, arguments: Sequence[str] = ()
) -> None:
    """Run StorageTool (``tool`` is its command up to the class); raises SandboxError with what it said."""
    done = subprocess.run(
        [*tool, "format", "-t", cluster_id, "-c", str(server_properties), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()
        said = [line for line in said if line and not line.startswith("\tat ")]
        raise SandboxError("StorageTool could not format the log directory", details=tuple(said[-4:]))
