"""Share consumers of librdkafka (``ShareConsumer``, in preview): each does with a record what the test says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import AcknowledgeType, Message, ShareConsumer

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT

_POLL_S, _WITHIN_S = 0.2, 60.0


class Sharer:
    """A member of a share group."""

    def __init__(self, bootstrap: str, group: str, topic: str, client_id: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": client_id, "log_level": 0}
        self._consumer = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
        self._consumer.subscribe([topic])

    def poll(self, decide: Callable[[Message], AcknowledgeType]) -> list[tuple[int, int]]:
        """Poll once, and acknowledge what came, as ``decide`` says; (partition, offset) of what was accepted."""
        accepted = []
        for message in self._consumer.poll(timeout=_POLL_S) or ():
            assert message.error() is None, message.error()
            what = decide(message)
            self._consumer.acknowledge(message, what)
            if what == ACCEPT:
                accepted.append((message.partition(), message.offset()))
        self._consumer.commit_sync()
        return accepted

    def accept(self, wanted: int, decide: Callable[[Message], AcknowledgeType] = lambda _: ACCEPT) -> None:
        """Poll until so many records are accepted."""
        until_s, accepted = time.monotonic() + _WITHIN_S, 0
        while accepted < wanted:
            accepted += len(self.poll(decide))
            assert time.monotonic() < until_s, f"{accepted} of {wanted} accepted"

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def sharer(bootstrap: str, group: str, topic: str, client_id: str = "jobs-0") -> Iterator[Sharer]:
    """A member of a share group until the block ends."""
    member = Sharer(bootstrap, group, topic, client_id)
    try:
        yield member
    finally:
        member.close()
