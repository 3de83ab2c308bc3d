"""Commands of Kafka's own tools, complete for the user and the cluster of this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from kgroup.model.kafka_tools import (
    UNKNOWN_CLUSTER,
    acl_hint,
    find_hanging,
    log_in_as,
    tool_flags,
    with_principal,
)

FLAGS = "--bootstrap-server b1:9092"


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    log_in_as(None, UNKNOWN_CLUSTER)
    yield
    log_in_as(None, UNKNOWN_CLUSTER)


@pytest.mark.parametrize(
    ("operations", "resource", "names", "end"),
    [
        ("Read", "topic", ("orders",), "--operation Read --topic orders"),
        ("READ", "topic", ("or ders", "..."), "--operation Read --topic 'or ders' --topic ..."),
        (
            ["ALTER_CONFIGS", "READ"],
            "topic",
            ("t", "u"),
            "--operation AlterConfigs --operation Read --topic t --topic u",
        ),
        (("DESCRIBE_CONFIGS", "DescribeConfigs"), "cluster", (), "--operation DescribeConfigs " * 2 + "--cluster"),
    ],
)
def test_the_command_that_gives_a_right(
    operations: str | Iterable[str], resource: str, names: tuple[str, ...], end: str
) -> None:
    command = acl_hint(operations, resource, *names)
    assert command == f"kafka-acls.sh --bootstrap-server BROKER --add --allow-principal User:... {end}"


def test_a_user_and_a_cluster_that_are_known_are_named() -> None:
    unknown = acl_hint("Read", "group", "svc")
    assert with_principal(unknown) == unknown

    log_in_as("bob the 2nd", FLAGS)
    known = acl_hint("Read", "group", "svc")
    assert known == (f"kafka-acls.sh {FLAGS} --add --allow-principal 'User:bob the 2nd' --operation Read --group svc")
    assert with_principal(unknown) == known
    assert tool_flags() == FLAGS
    assert " User:eve " in acl_hint("Read", "group", "svc", principal="User:eve")


def test_hanging_transactions_are_found() -> None:
    assert find_hanging("or ders", 7).endswith("--bootstrap-server BROKER find-hanging --topic 'or ders' --partition 7")
