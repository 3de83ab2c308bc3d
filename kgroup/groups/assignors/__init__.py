"""Kafka's partition assignors, client side and broker side, as pure functions: equal to Kafka 4.3.1's own.

The algorithms as observed on the classes and brokers of Apache Kafka 4.3.1 (KIP-54, KIP-429, KIP-848, KIP-881).
tests/groups/assignors.jsonl holds what those classes assigned, step by step.
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
"""By the name under which members of a classic group vote for them."""

SERVER_SIDE: Mapping[str, Assignor] = {"uniform": uniform, "range": server_range}
"""By the name that ``group.remote.assignor`` takes."""


def assign(assignor: Assignor, members: Sequence[Subscriber], topics: Sequence[AssignorTopic]) -> Assigned:
    """What Kafka gives to whom, the members put into the order in which its hash tables yield them.

    ``members`` as the group lists them: of two whose ids share a bucket the earlier one stays first, which nobody
    outside the leader (or the coordinator) knows for sure. Without members nothing is given.
    """
    return assignor(members_in_hash_order(members), topics) if members else {}
