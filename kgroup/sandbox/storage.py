"""Format a broker's log directory: write two files, or run StorageTool if it needs arguments.

StorageTool takes 0.9 s to write ``meta.properties`` and ``bootstrap.checkpoint``. The latter has the cluster's initial
feature levels and no cluster id, so one copy serves all clusters.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from kgroup.support.atomic_file import replace_file
from kgroup.support.errors import SandboxError

CHECKPOINT = "bootstrap.checkpoint"
META = "meta.properties"


def random_id() -> str:
    """A Kafka Uuid: 16 random bytes in base64url. It never begins with a dash, which tools would read as an option."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not made.startswith("-"):
            return made


def is_formatted(data: Path) -> bool:
    """Whether the directory already belongs to a cluster."""
    return (data / META).exists()


def format_by_copy(data: Path, *, cluster_id: str, node_id: int, checkpoint: Path) -> None:
    """Create a log directory; ``meta.properties`` is written last, as it marks the directory as complete."""
    data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkpoint, data / CHECKPOINT)
    meta = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": random_id()}
    replace_file(data / META, "".join(f"{key}={value}\n" for key, value in meta.items()).encode())


def format_by_tool(
    tool: Sequence[str], *, server_properties: Path, cluster_id: str, arguments: Sequence[str] = ()
) -> None:
    """Run StorageTool (``tool`` is its command up to the class). Raises SandboxError with its output."""
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
