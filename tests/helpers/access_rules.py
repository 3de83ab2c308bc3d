"""The access rules (ACLs) of a secure broker, as tests set them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

from tests.helpers.waiting import wait_for

ALLOW, DENY = ACLPermissionType.ALLOW, ACLPermissionType.DENY
_EVERY_RULE = ACLFilter(
    None, None, ACLOperation.ANY, ACLPermissionType.ANY,
    ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
)  # fmt: skip


def rule(
    operation: ACLOperation, kind: ResourceType, name: str, who: str = "bob", *,
    how: ACLPermissionType = ALLOW, prefixed: bool = False,
) -> ACL:  # fmt: skip
    """What a user may do with a resource, from any host; ``prefixed``: with those whose names begin so."""
    pattern = ACLResourcePatternType.PREFIXED if prefixed else ACLResourcePatternType.LITERAL
    return ACL(f"User:{who}", "*", operation, how, ResourcePattern(kind, name, pattern))


@contextmanager
def rules_admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield admin
    finally:
        admin.close()
        admin._net.close()  # which its own close() forgets


def set_rules(admin: KafkaAdminClient, rules: Collection[ACL], *, beside: bool = False) -> None:
    """These rules and no others, or beside those that are there, known to the broker; one that stays is never gone."""

    def known() -> set[ACL]:
        return set(admin.describe_acls(_EVERY_RULE)[0])

    there = known()
    wanted = there.union(rules) if beside else set(rules)
    if new := wanted - there:
        admin.create_acls(sorted(new, key=repr))
    if old := there - wanted:
        admin.delete_acls(sorted(old, key=repr))
    wait_for(lambda: known() == wanted, "rules")
