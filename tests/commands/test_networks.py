"""Networks that are not the loopback of a quiet machine: IPv6, answers that take their time and come in pieces."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator

import pytest

from tests.cli.test_pythons import ASKING, VERB
from tests.conftest import BROKER_PROPERTIES
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import ProxiedBroker, proxied_broker

Name = Callable[[str], str]


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    """A broker that is reached at an IPv6 address."""
    with proxied_broker(tmp_path_factory.mktemp("far"), BROKER_PROPERTIES, "::1") as made:
        yield made


@pytest.fixture
def behind(far: ProxiedBroker, name: Name) -> tuple[str, str]:
    """(group, topic): it has committed 3 of 10."""
    topic, group = far.world.topic(name("orders")), name("svc")
    far.world.produce(topic, 10)
    far.world.commit(group, {(topic, 0): (3, "kept", 0)})
    return group, topic


@pytest.mark.soak
def test_a_cluster_at_an_ipv6_address(kgroup_cli: CommandLine, far: ProxiedBroker, behind: tuple[str, str]) -> None:
    """Commands that are printed for it can be run as they are."""
    group, topic = behind
    here = ("-b", far.bootstrap)

    assert [row["group"] for row in kgroup_cli("list", group, *here, "-o", "json").data] == [group]
    document = kgroup_cli("describe", group, *here, "-o", "json").json
    assert document["cluster"]["bootstrap_servers"] == far.bootstrap
    assert document["data"][0]["coordinator"]["host"] == "::1"
    plan = kgroup_cli("reset", group, "--topic", topic, "--to-latest", *here).stdout
    (command,) = re.findall(r"^ +(kgroup reset .*--execute.*)$", plan, re.M)
    kgroup_cli(*shlex.split(command)[1:])
    assert far.world.committed(group) == {(topic, 0): (10, "")}
    kgroup_cli("undo", *here, "--execute")
    assert far.world.exact(group) == {(topic, 0): (3, "kept", 0)}


def test_nobody_at_an_ipv6_address(kgroup_cli: CommandLine) -> None:
    result = kgroup_cli("list", "-b", "[::1]:1", exit_code=3)

    assert "[::1]:1" in result.stderr
    assert "refused" in result.stderr


@pytest.mark.soak
def test_every_verb_over_a_slow_network_in_pieces(
    far: ProxiedBroker, behind: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer takes 30 ms, and comes in pieces of 7 bytes: lengths and fields are cut anywhere."""
    group, topic = behind
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", far.bootstrap)
    monkeypatch.setattr(far.proxy, "delay_s", 0.03)
    monkeypatch.setattr(far.proxy, "piece", 7)
    for verb in ASKING:
        words = VERB[verb].words.format(group=group, topic=topic)
        CommandLine()(*verb.split(), *words.split(), exit_code=VERB[verb].code)
    assert far.world.committed(group) == {(topic, 0): (0, "")}, "what the reset of the table does"
