"""Follow a plan in the ledger: what was written about it since the last time. For the driver and for workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

from kgroup.catchup.ledger.records import RecordKind, Value, decode, decode_key
from kgroup.cluster.reader.batches import RECORDS_GONE
from kgroup.cluster.reader.to_end import CommittedReader, Item
from kgroup.support.errors import KgroupError, Refused

EVERY_S = 2.0
"""The time between two reads of the ledger, by the driver and by each task."""

JOIN_S = 2.0
"""How long the end of a reading thread may take: it may wait for a broker."""


class PlanFollower:
    """The records of one plan from offset ``start`` of the ledger on, each once. A context manager.

    ``newest`` limits the first read to so many offsets; None: all. Where the log start has passed what was read last,
    the next read continues there.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        plan_id: str,
        start: int,
        *,
        timeout_s: float,
        newest: int | None = None,
    ) -> None:
        self._reader = CommittedReader(config, topic, timeout_s=timeout_s)
        self._prefix = f"{plan_id}/".encode()
        self._read_to = start
        self._newest = newest
        self._gone = False

    def __enter__(self) -> PlanFollower:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def committed(self) -> Iterator[Value]:
        """What was committed since the last time; an open transaction hides later records until it ends.

        A record that cannot be read is left out. Raises as ``CommittedReader.committed``; the next call continues.
        """
        return self._values(self._reader.committed(self._begin(), patience_s=0.0), frozenset(RecordKind))

    def written(self, *kinds: RecordKind) -> Iterator[Value]:
        """What was written since the last time, also uncommitted records. Otherwise as ``committed``."""
        return self._values(self._reader.everything(self._begin()), frozenset(kinds))

    def _begin(self) -> int:
        if self._newest is not None or self._gone:
            log_start, end = self._reader.bounds()
            self._read_to = max(self._read_to, log_start, 0 if self._newest is None else end - self._newest)
            self._newest, self._gone = None, False
        return self._read_to

    def _values(self, items: Iterable[Item], kinds: Set[RecordKind]) -> Iterator[Value]:
        try:
            for offset, raw, value in items:
                self._read_to = offset + 1
                if value is not None and raw is not None and raw.startswith(self._prefix):
                    with suppress(KgroupError):
                        key = decode_key(raw)
                        if key.kind in kinds:
                            yield decode(key, value)
        except Refused as error:
            self._gone = error.code == RECORDS_GONE
            raise
        self._read_to = max(self._read_to, self._reader.end)
