"""``kgroup migrate`` and the application: ``--client``, which can't be seen from outside, and ``--client-config``."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgroup.settings.java_properties import parse_properties
from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]

pytestmark = pytest.mark.usefixtures("bystander")


@pytest.fixture(scope="module")
def group(world: KafkaWorld) -> str:
    """An Empty group that had cooperative-sticky members; no test of this module converts it."""
    topic = world.topic("orders-of-clients", partitions=2)
    world.commit("clients-svc", {(topic, 0): 3})
    by_hand.join(world, "clients-svc", {topic: [0, 1]}, assignors=["cooperative-sticky"], session_ms=15_000).leave()
    return "clients-svc"


@pytest.fixture(autouse=True)
def untouched(world: KafkaWorld, group: str) -> Any:
    yield
    assert world.groups()[group] == ("classic", "empty")


def client_check(kgroup: CommandLine, group: str, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    """The check of the client in the group's row."""
    (row,) = kgroup("migrate", group, *arguments, "-o", "json", exit_code=exit_code).data
    (check,) = (check for check in row["checks"] if "client" in check["id"] and "config" not in check["id"])
    worst = check["status"] if check["status"] in ("blocked", "warning") else None
    assert worst in (None, row["readiness"])
    return dict(check)


# --client


def test_client_that_is_not_able_is_not_converted(kgroup: CommandLine, group: str) -> None:
    result = kgroup("migrate", group, "--client", "java:3.9", "--execute", exit_code=6)
    assert "[blocked]" in result.stderr
    assert "3.9" in result.stdout + result.stderr
    kgroup("migrate", group, "--client", "java:3.9", "--only", "ready", "--execute")


def test_the_way_back_asks_nothing_of_the_client(kgroup: CommandLine, group: str) -> None:
    (row,) = kgroup("migrate", group, "--protocol", "classic", "--client", "java:3.9", "-o", "json").data
    assert row["readiness"] == "done"


def test_unknown_client(kgroup: CommandLine, group: str) -> None:
    """2 with the names that are known."""
    result = kgroup("migrate", group, "--client", "jvaa:4.0", exit_code=2)
    for known in ("java", "librdkafka", "franz-go", "spring-kafka"):
        assert known in result.stderr
    assert result.stdout == ""


def test_client_of_a_group_that_is_not_chosen(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    """A mistyped name would leave the group unchecked; a file may well speak of the whole fleet."""
    result = kgroup("migrate", group, "--client", "clients-svcc=java:3.9", exit_code=2)
    assert "clients-svcc" in result.stderr
    file = tmp_path / "clients"
    file.write_text(f"orders-svc=java:3.9\n{group}=java:4.4.0\n")
    assert client_check(kgroup, group, "--client", f"@{file}")["status"] == "ok"


def test_clients_by_group(kgroup: CommandLine, group: str, bystander: str, tmp_path: Path) -> None:
    """GROUP=NAME:VERSION is for that one, and wins over the one for all; the same out of a file."""
    file = tmp_path / "clients"
    file.write_text(f"# what runs where\njava:4.4.0\n\n{group}=librdkafka:2.11.0\n")
    for given in (("--client", "java:4.4.0", "--client", f"{group}=librdkafka:2.11.0"), ("--client", f"@{file}")):
        rows = kgroup("migrate", group, bystander, *given, "-o", "json", exit_code=6).data
        verdicts = {row["group"]: row["readiness"] for row in rows}
        assert verdicts[group] == "blocked"
        assert verdicts[bystander] == "ready"
    one = kgroup("migrate", group, bystander, "--client", f"{bystander}=java:3.9", "-o", "json", exit_code=6)
    assert {row["group"]: row["readiness"] for row in one.data}[group] == "ready"


def test_client_file_that_is_no_such(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "wrong").write_text("java:4.4.0\nnonsense\n")
    for name, word in (("missing", "missing"), (".", str(tmp_path)), ("binary", "binary"), ("wrong", "2")):
        result = kgroup("migrate", group, "--client", f"@{tmp_path / name}", exit_code=2)
        assert word in result.stderr
        assert result.stdout == ""


# --client-config

SECRET = "hunter2-;x"
JAVA = f"""\
# pay-svc
bootstrap.servers=localhost:9092
group.id=clients-svc
session.timeout.ms = 30000
heartbeat.interval.ms: 3000
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor
max.poll.interval.ms=600000
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="pay" password="{SECRET}";
ssl.keystore.password={SECRET}
client.id=pay\\u00e9
"""
LIBRDKAFKA = f"""\
bootstrap.servers=localhost:9092
group.id=clients-svc
session.timeout.ms=30000
heartbeat.interval.ms=3000
partition.assignment.strategy=cooperative-sticky
sasl.password={SECRET}
"""
YAML = f"""\
contexts:
  pay:
    bootstrap.servers: localhost:9092
    group.id: clients-svc
    session.timeout.ms: 30000
    partition.assignment.strategy: cooperative-sticky
    sasl.password: "{SECRET}"
"""
GONE = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
FORMS = {"pay.properties": JAVA, "pay.conf": LIBRDKAFKA, "pay.yaml": YAML}


def settings_of(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse_properties(text)}


def configured(kgroup: CommandLine, group: str, file: Path, *arguments: str, exit_code: int = 0) -> Result:
    return kgroup("migrate", group, "--client-config", str(file), *arguments, exit_code=exit_code)


def changes(kgroup: CommandLine, group: str, file: Path, *arguments: str) -> dict[str, str | None]:
    """The new value of each setting that has to change, by its key in the file; None: it is removed."""
    (row,) = configured(kgroup, group, file, *arguments, "-o", "json").data
    return {change["key"]: change["new_value"] for change in row["client_config"]["changes"]}


@pytest.mark.parametrize("form", FORMS)
def test_changes_are_listed(kgroup: CommandLine, group: str, tmp_path: Path, form: str) -> None:
    """What to remove and what to set, in each format; no password on any stream in any output; the file stays."""
    text, file = FORMS[form], tmp_path / form
    file.write_text(text)
    prefix = "contexts.pay." if form == "pay.yaml" else ""
    assert changes(kgroup, group, file) == {
        f"{prefix}group.protocol": "consumer",
        f"{prefix}group.remote.assignor": "uniform",
        **{f"{prefix}{key}": None for key in GONE if key in text},
    }
    for output in ("table", "json", "yaml", "markdown", "csv"):
        said = configured(kgroup, group, file, "-o", output)
        assert SECRET.partition(";")[0] not in said.stdout + said.stderr
    page = configured(kgroup, group, file).stdout
    assert f"  set     {prefix}group.remote.assignor=uniform: " in page
    assert f"  remove  {prefix}session.timeout.ms (line " in page
    assert "max.poll.interval" in page, "what else changes in behaviour"
    assert "enforceRebalance" in page or form != "pay.properties"
    assert file.read_text() == text


@pytest.mark.parametrize("form", ["pay.properties", "pay.conf"])
def test_write(kgroup: CommandLine, group: str, tmp_path: Path, form: str) -> None:
    """The whole file, passwords too, for its owner alone; never over another file."""
    text = FORMS[form]
    file, new = tmp_path / form, tmp_path / f"new-{form}"
    file.write_text(text)
    result = configured(kgroup, group, file, "--write", str(new))
    assert str(new) in result.stdout + result.stderr
    assert SECRET not in result.stdout + result.stderr
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    written = new.read_text()
    assert settings_of(written) == {key: value for key, value in settings_of(text).items() if key not in GONE} | {
        "group.protocol": "consumer",
        "group.remote.assignor": "uniform",
    }
    kept = [line for line in text.splitlines() if not line.startswith(GONE)]
    assert [line for line in written.splitlines() if not line.startswith(("group.protocol", "group.remote"))] == kept
    again = configured(kgroup, group, file, "--write", str(new), exit_code=2)
    assert str(new) in again.stderr
    assert new.read_text() == written
    configured(kgroup, group, file, "--write", str(file), exit_code=2)
    assert file.read_text() == text


def test_yaml_is_not_written(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    file, new = tmp_path / "pay.yaml", tmp_path / "new.yaml"
    file.write_text(YAML)
    refused = configured(kgroup, group, file, "--write", str(new), exit_code=2)
    assert "--write writes properties files only" in refused.stderr
    assert not new.exists()


def test_files_that_are_no_configuration(
    kgroup: CommandLine, world: KafkaWorld, group: str, tmp_path: Path, name: Name
) -> None:
    """2 before anything is done, with --execute too."""
    (tmp_path / "binary").write_bytes(b"\x00\xff\xfe group.id")
    idle = name("idle")
    world.commit(idle, {("orders-of-clients", 0): 1})
    for bad in ("missing", ".", "binary"):
        result = configured(kgroup, idle, tmp_path / bad, "--execute", exit_code=2)
        assert str(tmp_path) in result.stderr
        assert world.groups()[idle] == ("classic", "empty")
    good = tmp_path / "pay.properties"
    good.write_text(JAVA)
    configured(kgroup, idle, good, "--write", str(tmp_path / "nowhere" / "new"), "--execute", exit_code=2)
    configured(kgroup, idle, good, "--write", str(good), "--execute", exit_code=2)
    assert world.groups()[idle] == ("classic", "empty")
    kgroup("migrate", idle, "--write", str(tmp_path / "new"), exit_code=2)


def test_one_group_only(kgroup: CommandLine, group: str, bystander: str, tmp_path: Path) -> None:
    file = tmp_path / "pay.properties"
    file.write_text(JAVA)
    result = kgroup("migrate", group, bystander, "--client-config", str(file), exit_code=2)
    assert "--client-config" in result.stderr
    kgroup("migrate", "--regex", f"{group}|{bystander}", "--client-config", str(file), exit_code=2)
    kgroup("migrate", "--all-groups", "--client-config", str(file), exit_code=2)
