"""A fork of a streaming query: a copy of its checkpoint with an id of its own, which the same job reads as a query.

What the query has read stays with it. The fork begins where its positions are set, and gets one planned batch at a
time: a job with ``Trigger.Once`` does that batch, and ends.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from kgroup.cluster.checkpoints.append import STATEFUL, append_batch, create_file, local_root
from kgroup.cluster.checkpoints.batch_files import appended_plan
from kgroup.cluster.checkpoints.files import read_query
from kgroup.model.streaming_query import Moves, QueryChanges, StreamingQuery
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import NotAuthorized, Refused, Unreachable

_TIMEOUT_S = 30.0


def make_fork(query: StreamingQuery, fork: Path, starts: Moves, at_ms: int) -> None:
    """Make a fork that begins at these positions; it is there whole, or not at all.

    Raises as ``append_batch``, NotAuthorized or Unreachable if files cannot be written, or the folder exists.
    """
    root = local_root(query.location)
    assert query.done is not None
    if query.stateful:
        raise Refused(f"{query.location} keeps state, which a fork would not have", code=STATEFUL)
    part = fork.with_name(f".{fork.name}.{uuid4()}.part")
    try:
        part.mkdir(parents=True)
        metadata = json.loads((root / "metadata").read_text())
        (part / "metadata").write_text(json.dumps({**metadata, "id": str(uuid4())}))
        if (root / "sources").is_dir():
            shutil.copytree(root / "sources", part / "sources")
        for folder in ("offsets", "commits"):
            (part / folder).mkdir()
            shutil.copy(root / folder / str(query.done.number), part / folder)
        copied = read_query(str(part), _TIMEOUT_S)
        append_batch(f"the fork {fork}", copied, starts, QueryChanges(file_sink=""), at_ms)
        part.rename(fork)
    except PermissionError as error:
        raise NotAuthorized(f"{fork} may not be written: {error.strerror or error}") from None
    except OSError as error:
        raise Unreachable(f"{fork} cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def plan_next(name: str, query: StreamingQuery, ends: Mapping[TopicPartition, int], at_ms: int) -> int:
    """Plan the next batch of a fork, up to these ends; returns its number. Raises Refused if there is one already."""
    assert query.done is not None
    root, number = local_root(query.location), query.done.number
    place = f"offsets/{number}"
    create_file(
        name, root / "offsets" / str(number + 1), appended_plan((root / place).read_bytes(), place, ends, at_ms)
    )
    return number + 1
