"""Kafka's partition assignors, client side and broker side, as pure functions with the results of Kafka 4.3.1.

Source: the observed behaviour of Apache Kafka 4.3.1's classes and brokers (KIP-54, KIP-429, KIP-848, KIP-881).
tests/data/assignors.jsonl and targets.jsonl hold what those classes assigned, step by step; 4.4.0 has the same targets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kgroup.groups.assignors.java_order import members_in_hash_order
from kgroup.groups.assignors.model import Assigned, AssignorTopic, Subscriber
from kgroup.groups.assignors.ranges import client_range, server_range
from kgroup.groups.assignors.round_robin import round_robin
from kgroup.groups.assignors.sticky import cooperative_sticky, sticky
from kgroup.groups.assignors.uniform import uniform

Assignor = Callable[[Sequence[Subscriber], Sequence[AssignorTopic]], Assigned]

CLIENT_SIDE: Mapping[str, Assignor] = {
    "range": client_range,
    "roundrobin": round_robin,
    "sticky": sticky,
    "cooperative-sticky": cooperative_sticky,
}
"""The key is the protocol name that members of a classic group vote for."""

SERVER_SIDE: Mapping[str, Assignor] = {"uniform": uniform, "range": server_range}
"""The key is a value of ``group.remote.assignor``."""


def assign(assignor: Assignor, members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """The assignment that Kafka would make, with the members in the order of Kafka's hash tables.

    ``members`` are in the order of the group's description. Two members whose ids share a bucket keep that order;
    only the leader (or the coordinator) knows the real one. Without members the result is empty.
    """
    return assignor(members_in_hash_order(members), topics) if members else {}
