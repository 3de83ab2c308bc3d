"""Who may read a group and not describe its topics: a table of ACLs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from kgroup.cluster.acls import (
    ALL,
    ALLOW,
    ALTER,
    DELETE,
    DENY,
    DESCRIBE,
    GROUP,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    WRITE,
    AclRule,
    AclRules,
)
from kgroup.model.migration_facts import PrincipalWithoutDescribe

CREATE = 5


@dataclass(frozen=True)
class Case:
    rules: tuple[AclRule, ...]
    blind: dict[str, tuple[str, ...]]
    allow_without: bool = False


def rule(kind: int, name: str, operation: int, who: str = "alice", permission: int = ALLOW, host: str = "*") -> AclRule:
    """``pay-*`` is prefixed, ``*`` alone is the wildcard."""
    prefixed = len(name) > 1 and name.endswith("*")
    name, pattern = (name[:-1], PREFIXED) if prefixed else (name, LITERAL)
    return AclRule(kind, name, pattern, f"User:{who}", host, operation, permission)


def reads(who: str = "alice", group: str = "svc", host: str = "*") -> AclRule:
    return rule(GROUP, group, READ, who, host=host)


def on(topic: str, operation: int = READ, who: str = "alice", host: str = "*") -> AclRule:
    return rule(TOPIC, topic, operation, who, host=host)


def denied(one: AclRule) -> AclRule:
    return replace(one, permission=DENY)


BOTH = ("orders", "payments")
CASES = {
    "nobody reads it": Case((on("orders"),), {}),
    "sees all": Case((reads(), on("orders"), on("payments")), {}),
    "sees one": Case((reads(), on("orders")), {"alice": ("payments",)}),
    "sees none": Case((reads(),), {"alice": BOTH}),
    "another group": Case((reads(group="svc-2"),), {}),
    "group by its prefix": Case((reads(group="sv*"), on("orders")), {"alice": ("payments",)}),
    "any group": Case((reads(group="*"), on("orders")), {"alice": ("payments",)}),
    "everything on the group": Case((rule(GROUP, "svc", ALL), on("orders")), {"alice": ("payments",)}),
    "only describes the group": Case((rule(GROUP, "svc", DESCRIBE),), {}),
    "denied the group": Case((reads(), denied(reads())), {}),
    "topics by a prefix": Case((reads(), on("o*"), on("payments")), {}),
    "any topic": Case((reads(), on("*")), {}),
    "any topic but one": Case((reads(), on("*"), denied(on("orders", DESCRIBE))), {"alice": ("orders",)}),
    "a denied prefix": Case((reads(), on("*"), denied(on("pay*", ALL))), {"alice": ("payments",)}),
    "denied reading alone": Case((reads(), on("*"), denied(on("orders", READ))), {}),
    "what implies describing": Case((reads(), on("orders", WRITE), on("payments", DELETE)), {}),
    "more that implies it": Case((reads(), on("orders", ALTER), on("payments", ALL)), {}),
    "what does not imply it": Case((reads(), on("orders", CREATE), on("payments", DESCRIBE)), {"alice": ("orders",)}),
    "topics open to everybody": Case((reads(), on("orders", who="*"), on("payments", who="*")), {}),
    "denied to everybody": Case((reads(), on("*"), denied(on("orders", ALL, who="*"))), {"alice": ("orders",)}),
    "several": Case((reads(), reads("bob"), on("*", who="bob")), {"alice": BOTH}),
    "a group of everybody": Case((reads("*"), on("orders", who="bob"), on("*", who="carol")), {"bob": ("payments",)}),
    "everybody reads both": Case((reads("*"), on("orders", who="*")), {"*": ("payments",)}),
    "from one host": Case((reads(host="10.0.0.1"), on("*", host="10.0.0.1")), {}),
    "from another host": Case((reads(host="10.0.0.1"), on("*", host="10.0.0.2")), {"alice": BOTH}),
    "from some host": Case((reads(), on("*", host="10.0.0.2")), {}),
    "from a range of hosts": Case((reads(host="10.0.0.1"), on("*", host="10.0.0.0/24")), {}),
    "denied from one host": Case((reads(), on("*"), denied(on("orders", ALL, host="10.0.0.9"))), {}),
    "topics without rules may be open": Case((reads(), on("other")), {}, allow_without=True),
    "but not those with rules": Case((reads(), on("orders", who="bob")), {"alice": ("orders",)}, allow_without=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_blind(case: Case) -> None:
    rules = AclRules(case.rules, allow_without=case.allow_without)
    expected = tuple(PrincipalWithoutDescribe(f"User:{who}", topics) for who, topics in case.blind.items())
    assert rules.principals_without_describe("svc", BOTH) == expected
