"""Brokers that announce what those before 3.0 do; ``tests/versions/`` has a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import FIND_COORDINATOR, ProxiedBroker

GROUP = "svc-old-brokers"


@pytest.fixture
def old(proxied: ProxiedBroker) -> Iterator[str]:
    """Through a proxy that announces FindCoordinator as 2.8 does: a real one knows versions 0 to 3 of it."""
    proxied.proxy.newest = {FIND_COORDINATOR: (6, 3)}
    yield proxied.bootstrap
    proxied.proxy.newest = {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("describe", GROUP),
        ("lag", "--all-groups"),
        ("doctor", "--cluster"),
        ("wait", GROUP, "--for", "empty", "--within", "60s"),
        ("reset", GROUP, "--to-earliest", "--all-topics"),
        ("migrate", GROUP, "--watch", "--within", "60s"),
    ],
    ids=" ".join,
)
def test_too_old(kgroup_cli: CommandLine, old: str, arguments: tuple[str, ...]) -> None:
    """At once, whatever the timeout: time does not help."""
    result = kgroup_cli(*arguments, "-b", old, "--timeout", "600s", exit_code=6)
    assert "is older than Kafka 3.0, the oldest release that kgroup supports [broker-too-old]" in result.stderr
    assert "supported by both the client [4-6] and broker [0-3]" in result.stderr
    assert result.stdout == ""
