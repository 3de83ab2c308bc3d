"""Whether the broker hides commits from this user: OffsetFetch leaves out topics that may not be described, silently.

No right on the cluster or the group changes that, and no request lists what is hidden. Two things can be known: that
this user may describe every topic that there may be, and what ``__consumer_offsets`` holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from kafka.protocol.admin import DescribeAclsRequest

from kgroup.cluster.acl_rules import ALL, DENY, DESCRIBE, PREFIXED, TOPIC
from kgroup.cluster.acls import may_allow_everyone
from kgroup.cluster.broker_errors import NONE, SECURITY_DISABLED
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.cluster.coordinator.groups import Committed
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.topics import TopicPartition, topic_layouts
from kgroup.model.groups import Commit
from kgroup.support.errors import KgroupError, NotAuthorized

_DESCRIBE_ACLS = 29
_ANY, _MATCH = 1, 2
"""Any resource, pattern, operation and permission; all patterns that apply to a name (PatternType.MATCH)."""
_MOST_DENIED = 500

Hidden = tuple[TopicPartition, ...] | None
"""The commits that the broker left out; None: whether there are some could not be determined."""


async def may_hide_topics(client: CoordinatorClient) -> bool:
    """Whether there may be a topic that this user may not describe. One request where the cluster has no authorizer.

    Nothing is hidden where names that no topic has may be described, and where no ACL takes that back for others:
    no DENY, and no ACL of a single topic on a cluster that allows everyone what has no ACL. (The names are random, so
    that only an ACL of all topics applies to them; two of them, because one ACL may be of a prefix of one letter.)
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
    return any(isinstance(found, NotAuthorized) for found in (await topic_layouts(client, names)).values())


def _example(resource: Any) -> str:
    """A topic that the pattern applies to."""
    if resource.pattern_type == PREFIXED:
        return f"{resource.resource_name}{uuid4().hex}"[:249]
    return uuid4().hex if resource.resource_name == "*" else str(resource.resource_name)


def _acls(name: str | None = None, permission: int = _ANY) -> DescribeAclsRequest:
    """The ACLs of topics: of all patterns, or of those that apply to one name."""
    return DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=name,
        pattern_type_filter=_ANY if name is None else _MATCH,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=permission,
    )


async def hidden_commits(
    client: CoordinatorClient, committed: Mapping[str, Committed | KgroupError], budget: Deadline
) -> dict[str, Hidden]:
    """What ``__consumer_offsets`` holds of the groups and the broker did not show, read before ``budget`` ends."""
    # Imported here: most users may see all topics.
    from kgroup.cluster.offsets_topic.last_generation import read_pasts

    wanted = [_wanted(name, found) for name, found in committed.items()]
    layout = (await topic_layouts(client, {OFFSETS_TOPIC}))[OFFSETS_TOPIC]
    pasts, _ = await read_pasts(client, layout, wanted, budget, to_start=True)
    # What was committed between the two looks is on a topic that may be described.
    topics = await topic_layouts(client, _topics(past.hidden for past in pasts.values()))
    hidden: dict[str, Hidden] = dict.fromkeys(committed)
    for name, past in pasts.items():
        found = tuple(place for place in past.hidden if isinstance(topics[place[0]], NotAuthorized))
        hidden[name] = found if found or past.searched else None
    return hidden


def _wanted(name: str, found: Committed | KgroupError) -> Any:
    from kgroup.cluster.offsets_topic.last_generation import LastGenerationQuery

    shown = {} if isinstance(found, KgroupError) else found
    commits = frozenset(place for place, commit in shown.items() if isinstance(commit, Commit))
    return LastGenerationQuery(name, commits, had_members=False, unread=frozenset(shown.keys() - commits))


def _topics(places: Iterable[Sequence[TopicPartition]]) -> set[str]:
    return {topic for some in places for topic, _ in some}
