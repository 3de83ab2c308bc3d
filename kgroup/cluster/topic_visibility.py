"""Whether the broker hides commits from this user: OffsetFetch silently omits topics that the user may not describe.

No right on the cluster or the group changes that, and no request lists what is hidden. Two things can be found out:
whether this user may describe every possible topic, and what ``__consumer_offsets`` holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from kafka.protocol.admin.acl import DescribeAclsRequest

from kgroup.cluster.acls import ALL, DENY, DESCRIBE, PREFIXED, TOPIC, may_allow_everyone
from kgroup.cluster.broker_errors import NONE, SECURITY_DISABLED
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.topics import offsets_topic_layout, topic_layouts
from kgroup.model.commit import Commit
from kgroup.model.hidden_commits import Hidden
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized

_DESCRIBE_ACLS = 29
_ANY, _MATCH = 1, 2
"""Any resource, pattern, operation or permission; all patterns that match a name (PatternType.MATCH)."""
_MOST_DENIED = 500


async def may_hide_topics(client: CoordinatorClient) -> bool:
    """Whether topics may exist that this user may not describe. One request if the cluster has no authorizer.

    The user must be able to describe two random names, which only an ACL for all topics can match. (Two, because one
    ACL may be for a one-letter prefix.) If the cluster allows everyone what has no ACL, such an ACL must exist:
    otherwise the ACL of a single topic may hide that topic. The user must also be able to describe one example of each
    DENY pattern. True if there are more than 500 of them.
    """
    if not client.supports(_DESCRIBE_ACLS):
        return True
    denied = await client.send_any(_acls(permission=DENY))
    if denied.error_code == SECURITY_DISABLED:
        return False
    names = [uuid4().hex, f"_{uuid4().hex}"]
    if denied.error_code != NONE or await _any_hidden(client, names):
        return True
    matching, everyone = await client.gather([client.send_any(_acls(names[0])), may_allow_everyone(client)])
    of_all = matching.error_code == NONE and any(row.resource_name == "*" for row in matching.resources)
    if everyone and not of_all:
        return True
    patterns = [
        resource for resource in denied.resources if any(acl.operation in (DESCRIBE, ALL) for acl in resource.acls)
    ]
    if len(patterns) > _MOST_DENIED:
        return True
    return await _any_hidden(client, [_example(resource) for resource in patterns])


async def _any_hidden(client: CoordinatorClient, names: Sequence[str]) -> bool:
    return any(isinstance(layout, NotAuthorized) for layout in (await topic_layouts(client, names)).values())


def _example(resource: Any) -> str:
    """A topic name that matches the pattern of the ACL."""
    if resource.pattern_type == PREFIXED:
        return f"{resource.resource_name}{uuid4().hex}"[:249]
    return uuid4().hex if resource.resource_name == "*" else str(resource.resource_name)


def _acls(name: str | None = None, permission: int = _ANY) -> DescribeAclsRequest:
    """A request for the ACLs of topics: all of them, or those that match one name."""
    return DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=name,
        pattern_type_filter=_ANY if name is None else _MATCH,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=permission,
    )


async def read_hidden_commits(
    client: CoordinatorClient, committed: Mapping[str, CommittedOffsets | KgroupError], budget: Deadline
) -> dict[str, Hidden]:
    """The commits in ``__consumer_offsets`` that the broker did not show. Reads until ``budget`` ends."""
    # Imported here: most users may see all topics, and do not need it.
    from kgroup.cluster.offsets_topic.group_past import read_pasts

    queries = [_query(name, commits) for name, commits in committed.items()]
    layout = await offsets_topic_layout(client)
    pasts, _ = await read_pasts(client, layout, queries, budget, to_start=True)
    # A commit made between OffsetFetch and this scan is on a topic that this user may describe, so it is not hidden.
    topics = await topic_layouts(client, _topics(past.hidden for past in pasts.values()))
    hidden: dict[str, Hidden] = dict.fromkeys(committed)
    for name, past in pasts.items():
        commits = tuple(tp for tp in past.hidden if isinstance(topics[tp.topic], NotAuthorized))
        hidden[name] = commits if commits or past.searched else None
    return hidden


def _query(name: str, committed: CommittedOffsets | KgroupError) -> Any:
    from kgroup.cluster.offsets_topic.group_past import PastQuery

    offsets = {} if isinstance(committed, KgroupError) else committed
    commits = frozenset(tp for tp, commit in offsets.items() if isinstance(commit, Commit))
    return PastQuery(name, commits, had_members=False, unread=frozenset(offsets.keys() - commits))


def _topics(partitions: Iterable[Sequence[TopicPartition]]) -> set[str]:
    return {topic for each in partitions for topic, _ in each}
