"""A fork of a streaming query: a copy of its checkpoint with an id of its own, which the same job reads as a query.

What the query has read stays with it. The fork begins where its positions are set, and gets one planned batch at a
time: a job with ``Trigger.Once`` does that batch, and ends.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import uuid4

from kgroup.cluster.checkpoints.append import STATEFUL, append_batch, create_file
from kgroup.cluster.checkpoints.batch_files import appended_plan
from kgroup.cluster.checkpoints.files import read_query
from kgroup.cluster.checkpoints.stores import Store, store_of
from kgroup.model.streaming_query import Moves, QueryChanges, StreamingQuery
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import NotAuthorized, Refused, Unreachable

_TIMEOUT_S = 30.0


def make_fork(query: StreamingQuery, fork: Path, starts: Moves, at_ms: int) -> None:
    """Make a fork that begins at these positions; it is there whole, or not at all.

    Raises as ``append_batch``, NotAuthorized or Unreachable if files cannot be written, or the folder exists.
    """
    assert query.done is not None
    if query.stateful:
        raise Refused(f"{query.location} keeps state, which a fork would not have", code=STATEFUL)
    part = fork.with_name(f".{fork.name}.{uuid4()}.part")
    try:
        part.mkdir(parents=True)
        folder, number = store_of(query.location, _TIMEOUT_S), query.done.number
        metadata = json.loads(folder.read("metadata"))
        (part / "metadata").write_text(json.dumps({**metadata, "id": str(uuid4())}))
        for path in (f"offsets/{number}", f"commits/{number}", *_sources(folder)):
            (part / path).parent.mkdir(parents=True, exist_ok=True)
            (part / path).write_bytes(folder.read(path))
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
    place = f"offsets/{query.done.number}"
    content = appended_plan(store_of(query.location, _TIMEOUT_S).read(place), place, ends, at_ms)
    number = query.done.number + 1
    create_file(name, store_of(query.location, _TIMEOUT_S), f"offsets/{number}", content)
    return number


def _sources(folder: Store) -> Iterator[str]:
    """The files in which the sources keep where they began; without checksums."""
    try:
        sources = folder.names("sources")
    except FileNotFoundError:
        return
    for source in sources:
        yield from (f"sources/{source}/{name}" for name in folder.names(f"sources/{source}") if name[0] != ".")
