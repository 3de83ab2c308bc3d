"""A coordinator that was elected moments ago: it answers, but without the latest commits (KIP-207).

A real one is seen behind for 0.1 to 1 s after a kill (test_coordinator_moves); here a proxy answers ListOffsets of
``__consumer_offsets`` as such a leader does.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import DESCRIBE_GROUPS, LIST_OFFSETS, OFFSET_FETCH, Fault, Loss, ProxiedBroker

Name = Callable[[str], str]
BEHIND = "coordinator-behind"


@pytest.fixture
def group(proxied: ProxiedBroker, name: Name) -> str:
    """A group of one commit, lag 3."""
    topic, group = proxied.world.topic(name("orders")), name("svc")
    proxied.world.produce(topic, 5)
    proxied.world.commit(group, {(topic, 0): 2})
    return group


def test_it_is_asked_until_it_has_caught_up(proxied: ProxiedBroker, group: str) -> None:
    CommandLine()("describe", group)
    usual = proxied.proxy.forwarded[OFFSET_FETCH]
    for _ in range(6):  # two rounds: for its description as either type, and for its commits
        proxied.proxy.expect(Fault(LIST_OFFSETS, Loss.BEHIND, having=b"__consumer_offsets"))
    (found,) = CommandLine()("describe", group, "-o", "json").data
    assert found["totals"]["lag"] == 3
    # Twice while it is behind, then up to date, and once more: it notices that some milliseconds later.
    assert proxied.proxy.forwarded[OFFSET_FETCH] == 2 * usual + 3


@pytest.mark.soak
def test_it_has_its_time_however_late_it_was_elected(proxied: ProxiedBroker, group: str) -> None:
    """A broker counts as dead after 9 s by default, which is longer than a coordinator may be behind."""
    loading = [Fault(DESCRIBE_GROUPS, Loss.LOADING) for _ in range(55)]  # one in 0.1 s
    for fault in loading:
        proxied.proxy.expect(fault)
    for _ in range(3):
        proxied.proxy.expect(Fault(LIST_OFFSETS, Loss.BEHIND, having=b"__consumer_offsets", after=loading[-1]))
    (found,) = CommandLine()("list", group, "--timeout", "60s", "-o", "json").data
    assert found["group"] == group


@pytest.mark.soak
@pytest.mark.parametrize("verb", ["describe", "lag", "export", "list"])
def test_reading_shows_what_there_is_with_an_error(proxied: ProxiedBroker, group: str, verb: str) -> None:
    proxied.proxy.expect(Fault(LIST_OFFSETS, Loss.BEHIND, having=b"__consumer_offsets", always=True))
    result = CommandLine()(verb, group, "--timeout", "4s", "-o", "json", exit_code=7)
    assert [row["group"] for row in result.data] == [group]
    assert {error["code"] for error in result.json["errors"]} == {BEHIND}


@pytest.mark.parametrize(
    "change",
    [
        ("reset", "--to-earliest", "--all-topics"),
        ("delete",),
        ("delete-offsets", "--topic", "*"),
        ("migrate", "--protocol", "consumer"),
    ],
    ids=lambda change: change[0],
)
def test_nothing_is_changed(proxied: ProxiedBroker, group: str, change: tuple[str, ...]) -> None:
    before = proxied.world.exact(group)
    proxied.proxy.expect(Fault(LIST_OFFSETS, Loss.BEHIND, having=b"__consumer_offsets", always=True))
    verb, *options = change
    result = CommandLine()(verb, group, *options, "--execute", "--timeout", "4s", "-o", "json", exit_code=3)
    assert [error["code"] for error in result.json["errors"]] == [BEHIND]
    assert proxied.world.exact(group) == before
