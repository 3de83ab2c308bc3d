"""confluent-kafka's AdminClient, which must not be destroyed on a thread of its own."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient

from kgroup.cluster.librdkafka import ClientWatch, client

_RETIRED: list[Any] = []
atexit.register(_RETIRED.clear)  # before Python ends: a late callback must not find it gone


class RetiringAdminClient(AdminClient):  # type: ignore[misc]  # confluent-kafka has no types
    """An AdminClient that outlives its last reference, until another one is created.

    Its callbacks run on a thread of librdkafka, and so may the garbage collection that finds the client in a cycle (an
    exception, its traceback, the frame). librdkafka aborts the process if it is destroyed there ("rd_kafka_destroy()
    called from librdkafka owned thread"; seen with confluent-kafka 2.16 and a request that was still under way).
    """

    def __del__(self, retired: list[Any] = _RETIRED) -> None:
        retired.append(self)


def admin_client(config: Mapping[str, Any], watch: ClientWatch) -> Any:
    """A new client; destroys those that nothing refers to any more, on the caller's thread."""
    _RETIRED.clear()
    return client(RetiringAdminClient, config, watch)
