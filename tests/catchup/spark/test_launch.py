"""The environment and the class path of Spark's JVM."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kgroup.catchup.spark.launch import driver_environment, has_settings
from kgroup.catchup.spark.ready import DriverSetup
from kgroup.catchup.spark.worker_package import ROOT
from kgroup.support.java_home import Java

READY = DriverSetup(Java(Path("/none/bin/java"), 17, ""), Path("/spark"))


def test_spark_gets_its_home_and_a_launcher_that_starts_quickly() -> None:
    assert driver_environment(READY, local=False, conf={}, environment={"LANG": "C"}) == {
        "LANG": "C",
        "PATH": os.defpath,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT.parent),
        "SPARK_HOME": "/spark",
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
    }


def test_the_users_own_variables_win() -> None:
    own = {"SPARK_LAUNCHER_OPTS": "-Xmx64m", "SPARK_LOCAL_IP": "10.0.0.1", "PATH": "/opt/java/bin"}
    path = f"/opt/java/bin:{os.defpath}"  # of the system, where spark-submit finds bash

    found = driver_environment(READY, local=True, conf={}, environment=own)

    assert {name: found[name] for name in own} == {**own, "PATH": path}


def installed(home: Path) -> DriverSetup:
    return DriverSetup(READY.java, home)


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", None])
def test_settings_that_the_user_may_have_are_not_replaced(tmp_path: Path, variable: str | None) -> None:
    ready = installed(tmp_path)
    assert not has_settings(ready, {"LANG": "C"})
    if variable is None:
        (tmp_path / "conf").mkdir()

    assert has_settings(ready, {variable: "/mine"} if variable else {})
