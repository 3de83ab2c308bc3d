"""Which log settings a Kafka gets: those of the Log4j among its jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.sandbox.distribution import BROKER_FLAGS, Distribution, user_distribution
from kgroup.support.errors import Refused
from kgroup.support.java_home import Java


@pytest.mark.parametrize(
    ("jars", "flag"),
    [
        (("kafka_2.13-3.9.1.jar", "reload4j-1.2.25.jar", "slf4j-reload4j-1.7.36.jar"), "-Dlog4j.configuration=file:"),
        (("kafka_2.13-2.8.2.jar", "log4j-1.2.17.jar", "slf4j-log4j12-1.7.30.jar"), "-Dlog4j.configuration=file:"),
        # A distribution of 4.x has the bridge of that name too.
        (("kafka_2.13-4.0.0.jar", "log4j-1.2-api-2.24.3.jar", "log4j-core-2.24.3.jar"), "-Dlog4j2.configurationFile="),
        (("kafka_2.13-4.3.1.jar", "log4j-core-2.25.4.jar"), "-Dlog4j2.configurationFile="),
    ],
)
def test_the_log_settings_that_fit(tmp_path: Path, jars: tuple[str, ...], flag: str) -> None:
    kafka = Distribution("any", tuple(map(Path, jars)), Java(Path("java"), 17, ""), tmp_path)
    for quiet in (False, True):
        given = kafka.log_flag(quiet=quiet)
        assert given.startswith(flag)
        assert (tmp_path / given.rpartition("/")[2]).exists()


@pytest.mark.parametrize(("version", "fits"), [("2.8.2", False), ("3.0.2", False), ("3.3.2", True), ("3.10.0", True)])
def test_a_kafka_that_needs_zookeeper_is_refused(tmp_path: Path, version: str, fits: bool) -> None:
    libs = tmp_path / "libs"
    libs.mkdir()
    (libs / f"kafka_2.13-{version}.jar").touch()
    java = Java(Path("java"), 17, "")
    if fits:
        assert user_distribution(tmp_path, tmp_path / "cache", java).version == version
        return
    with pytest.raises(Refused, match=rf"Kafka {version} .* needs ZooKeeper") as refused:
        user_distribution(tmp_path, tmp_path / "cache", java)
    assert refused.value.code == "kafka-too-old"
    assert refused.value.hint == "Name a Kafka 3.3 or newer."


def test_a_garbage_collector_of_the_users_replaces_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Distribution("any", (), Java(Path("java"), 17, ""), tmp_path)
    assert "-XX:+UseSerialGC" in kafka.command("kafka.Kafka", flags=BROKER_FLAGS, archived=False)

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")

    given = kafka.command("kafka.Kafka", flags=BROKER_FLAGS, archived=False)
    assert "-XX:+UseSerialGC" not in given
    assert "-Xmx512m" in given
