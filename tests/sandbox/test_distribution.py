"""Which log settings a Kafka gets: those of the Log4j among its jars."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgroup.sandbox.distribution import Distribution
from kgroup.sandbox.java import Java


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
