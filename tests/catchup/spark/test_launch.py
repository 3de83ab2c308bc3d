"""The environment and the class path of Spark's JVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kgroup.catchup.spark.launch import first_jars, has_settings, jvm_environment
from kgroup.catchup.spark.ready import DriverSetup
from kgroup.support.java_home import Java

READY = DriverSetup(Java(Path("/none/bin/java"), 17, ""), Path("/spark"))


def test_spark_gets_its_home_and_a_launcher_that_starts_quickly() -> None:
    assert jvm_environment(READY, local=False, environment={"LANG": "C"}) == {
        "LANG": "C",
        "PATH": os.defpath,
        "SPARK_HOME": "/spark",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
    }


def test_the_users_own_variables_win() -> None:
    own = {"SPARK_LAUNCHER_OPTS": "-Xmx64m", "SPARK_LOCAL_IP": "10.0.0.1", "PATH": "/opt/java/bin"}
    path = f"/opt/java/bin:{os.defpath}"  # of the system, where spark-submit finds bash

    assert jvm_environment(READY, local=True, environment=own) == {**own, "SPARK_HOME": "/spark", "PATH": path}


def installed(home: Path) -> DriverSetup:
    (home / "jars").mkdir(parents=True)
    for name in ("hive-1", "py4j-1", "scala-compiler-2", "scala-library-2", "spark-core_2", "spark-sql_2"):
        (home / "jars" / f"{name}.jar").touch()
    return DriverSetup(READY.java, home)


def test_the_jars_of_a_start_come_first(tmp_path: Path) -> None:
    names = [Path(path).name for path in first_jars(installed(tmp_path)).split(":")]

    assert names == ["scala-library-2.jar", "spark-core_2.jar", "py4j-1.jar"]


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", None])
def test_settings_that_the_user_may_have_are_not_replaced(tmp_path: Path, variable: str | None) -> None:
    ready = installed(tmp_path)
    assert not has_settings(ready, {"LANG": "C"})
    if variable is None:
        (tmp_path / "conf").mkdir()

    assert has_settings(ready, {variable: "/mine"} if variable else {})
