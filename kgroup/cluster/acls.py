"""The ACLs of a cluster: read all in one request, and find principals that read a group but cannot describe its topics.

A member of the consumer protocol needs DESCRIBE on each topic that it names. If it may not see one, its whole
heartbeat fails (KIP-848); the classic protocol silently left that topic out.
Source: StandardAuthorizerData.java of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from kafka.protocol.admin.acl import DescribeAclsRequest

from kgroup.cluster.broker_errors import CLUSTER_AUTHORIZATION_FAILED, NONE, SECURITY_DISABLED, group_error
from kgroup.cluster.configs import read_broker_configs
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.migration_facts import Access, PrincipalWithoutDescribe
from kgroup.support.errors import KgroupError, NotAuthorized

TOPIC, GROUP = 2, 3
"""org.apache.kafka.common.resource.ResourceType"""
LITERAL, PREFIXED = 3, 4
"""PatternType"""
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE = 2, 3, 4, 6, 7, 8
"""AclOperation"""
DENY, ALLOW = 2, 3
"""AclPermissionType"""

_ANYTHING = "*"
EVERYONE = "User:*"
_IMPLY_DESCRIBE = frozenset({DESCRIBE, READ, WRITE, DELETE, ALTER, ALL})


class AclRule(msgspec.Struct, frozen=True):
    """One ACL, with Kafka's numeric codes. ``host`` is an address, an address range (4.4) or ``*``."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class AclRules:
    """All ACLs of a cluster. Super users do not appear in ACLs, so nothing is known about them.

    ``allow_without`` is whether resources without any ACL may be open to everyone.
    """

    def __init__(self, rules: Iterable[AclRule], *, allow_without: bool) -> None:
        self._allow_without = allow_without
        self._literal: dict[tuple[int, str], list[AclRule]] = {}
        self._prefixed: dict[tuple[int, str], list[AclRule]] = {}
        self._topics: dict[str, Sequence[AclRule]] = {}
        for rule in rules:
            by_name = self._prefixed if rule.pattern == PREFIXED else self._literal
            by_name.setdefault((rule.resource_type, rule.name), []).append(rule)

    def principals_without_describe(self, group: str, topics: Collection[str]) -> tuple[PrincipalWithoutDescribe, ...]:
        """The principals that may read the group but not describe all of these topics.

        If everyone may read the group, only principals that may read at least one of the topics are considered.
        """
        on_group = self._about(GROUP, group)
        readers = {rule.principal for rule in on_group if rule.permission == ALLOW and rule.operation in (READ, ALL)}
        if EVERYONE in readers:
            readers |= {
                rule.principal
                for topic in topics
                for rule in self._about_topic(topic)
                if rule.permission == ALLOW and rule.operation in (READ, ALL)
            }
            if not any(_granted(self._about_topic(topic), EVERYONE, _ANYTHING, {READ, ALL}, READ) for topic in topics):
                readers.discard(EVERYONE)
        principals = []
        for principal in sorted(readers):
            hidden = self._hidden(on_group, principal, topics)
            if hidden:
                principals.append(PrincipalWithoutDescribe(principal, hidden))
        return tuple(principals)

    def _hidden(self, on_group: Sequence[AclRule], principal: str, topics: Collection[str]) -> tuple[str, ...]:
        """The topics that this reader may not describe from one or more hosts where it may read the group."""
        hosts = sorted({r.host for r in on_group if r.principal in (principal, EVERYONE) and r.permission == ALLOW})
        reading = [host for host in hosts if _granted(on_group, principal, host, {READ, ALL}, READ)]
        return tuple(
            topic for topic in sorted(topics) if any(not self._describes(topic, principal, host) for host in reading)
        )

    def _describes(self, topic: str, principal: str, host: str) -> bool:
        rules = self._about_topic(topic)
        if not rules:
            return self._allow_without
        return _granted(rules, principal, host, _IMPLY_DESCRIBE, DESCRIBE)

    def _about_topic(self, topic: str) -> Sequence[AclRule]:
        if topic not in self._topics:
            self._topics[topic] = self._about(TOPIC, topic)
        return self._topics[topic]

    def _about(self, resource_type: int, name: str) -> Sequence[AclRule]:
        return [
            *self._literal.get((resource_type, name), ()),
            *(self._literal.get((resource_type, _ANYTHING), ()) if name != _ANYTHING else ()),
            *(rule for end in range(1, len(name) + 1) for rule in self._prefixed.get((resource_type, name[:end]), ())),
        ]


def _granted(rules: Iterable[AclRule], principal: str, host: str, by: Collection[int], operation: int) -> bool:
    """Whether one of the operations ``by`` is allowed and ``operation`` is not denied; a DENY rule wins.

    A rule for one host applies to that host. If ``host`` is ``*`` the question is about at least one host: a rule that
    allows one host is enough, and only a rule that denies all hosts counts as DENY.
    """
    allowed = False
    for rule in rules:
        if rule.principal not in (principal, EVERYONE):
            continue
        if rule.permission == DENY:
            if rule.operation in (operation, ALL) and rule.host in (_ANYTHING, host):
                return False
        elif rule.operation in by and (rule.host in (_ANYTHING, host) or host == _ANYTHING or "/" in rule.host):
            allowed = True
    return allowed


_ANY = 1
"""Matches any resource type, pattern type, operation or permission."""
_ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"


async def access(client: CoordinatorClient, groups: Mapping[str, Collection[str]]) -> dict[str, Access] | KgroupError:
    """Which principals the ACLs let read each group but not describe all its topics, which are given.

    Returns an error if this user may not read ACLs. Raises KgroupError if no broker answers.
    """
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer, everyone = await client.gather([client.send_any(request), may_allow_everyone(client)])
    if answer.error_code == SECURITY_DISABLED:
        return {group: Access(authorizer=False) for group in groups}
    if answer.error_code == CLUSTER_AUTHORIZATION_FAILED:
        return NotAuthorized(
            "no DESCRIBE on the Cluster, which is needed to read ACLs", hint=acl_hint("Describe", "cluster")
        )
    if answer.error_code != NONE:
        return group_error(answer.error_code, "")
    rules = AclRules(map(_rule, _acls_of(answer)), allow_without=everyone)
    return {
        group: Access(authorizer=True, blind=rules.principals_without_describe(group, topics))
        for group, topics in groups.items()
    }


def _acls_of(answer: Any) -> list[tuple[Any, Any]]:
    resources = (resource for resource in answer.resources if resource.resource_type in (GROUP, TOPIC))
    return [(resource, acl) for resource in resources for acl in resource.acls]


def _rule(row: tuple[Any, Any]) -> AclRule:
    resource, acl = row
    return AclRule(
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


async def may_allow_everyone(client: CoordinatorClient) -> bool:
    """Whether resources without an ACL may be open to all; True also if the broker hides the setting's value."""
    node = next(iter(client.brokers), None)
    if node is None:
        return True
    configs = await read_broker_configs(client, node, [_ALLOW_EVERYONE])
    if isinstance(configs, KgroupError):
        return True
    return any(value is None or value.lower() == "true" for value in configs.values())
