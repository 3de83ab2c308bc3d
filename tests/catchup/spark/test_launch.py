"""The environment of Spark's JVM."""

from __future__ import annotations

from pathlib import Path

from kgroup.catchup.spark.launch import jvm_environment
from kgroup.catchup.spark.ready import DriverSetup
from kgroup.support.java_home import Java

READY = DriverSetup(Java(Path("/none/bin/java"), 17, ""), Path("/spark"))


def test_spark_gets_its_home_and_a_launcher_that_starts_quickly() -> None:
    assert jvm_environment(READY, local=False, environment={"LANG": "C"}) == {
        "LANG": "C",
        "SPARK_HOME": "/spark",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
    }


def test_the_users_own_variables_win() -> None:
    own = {"SPARK_LAUNCHER_OPTS": "-Xmx64m", "SPARK_LOCAL_IP": "10.0.0.1"}

    assert jvm_environment(READY, local=True, environment=own) == {**own, "SPARK_HOME": "/spark"}
