"""Read all ACLs of a cluster in one request, to check the rights on groups and their topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import DescribeAclsRequest

from kgroup.cluster.acl_rules import GROUP, TOPIC, AclRule, AclRules
from kgroup.cluster.broker_errors import CLUSTER_AUTHORIZATION_FAILED, NONE, SECURITY_DISABLED, group_error
from kgroup.cluster.configs import read_broker_configs
from kgroup.cluster.coordinator.client import CoordinatorClient
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.migration_facts import Access
from kgroup.support.errors import KgroupError, NotAuthorized

_ANY = 1
"""Matches any resource type, pattern type, operation or permission."""
_EVERYONE = "allow.everyone.if.no.acl.found"


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
            "no DESCRIBE on the Cluster, which reading ACLs takes", hint=acl_hint("Describe", "cluster")
        )
    if answer.error_code != NONE:
        return group_error(answer.error_code, "")
    rules = AclRules(map(_rule, _flat(answer)), allow_without=everyone)
    return {
        group: Access(authorizer=True, blind=rules.principals_without_describe(group, topics))
        for group, topics in groups.items()
    }


def _flat(answer: Any) -> list[tuple[Any, Any]]:
    found = (resource for resource in answer.resources if resource.resource_type in (GROUP, TOPIC))
    return [(resource, acl) for resource in found for acl in resource.acls]


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
    configs = await read_broker_configs(client, node, [_EVERYONE])
    if isinstance(configs, KgroupError):
        return True
    return any(value is None or value.lower() == "true" for value in configs.values())
