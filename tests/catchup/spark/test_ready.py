"""What has to be there before anything moves."""

from __future__ import annotations

import importlib.util
import os
import shlex
import socket
import time
import tomllib
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from kgroup.catchup.spark.ready import INSTALL, check
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.cli.help_topics import TOPICS
from kgroup.support.errors import ExitCode, Refused, Unreachable
from tests.helpers.places import ROOT

HERE = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}


def test_a_local_spark() -> None:
    found = check(SparkSettings(), timeout_s=5, variables=HERE)

    assert found.java.major >= 17


def test_without_pyspark_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "pyspark" else there(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(Refused) as caught:
        check(SparkSettings(), timeout_s=5, variables=HERE)

    assert (caught.value.code, caught.value.hint) == ("no-pyspark", INSTALL)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert shlex.split(INSTALL) == ["pip", "install", *project["optional-dependencies"]["catchup"]]
    assert INSTALL in TOPICS["catch-up"]


def test_without_java(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Spark needs Java 17") as caught:
        check(SparkSettings(), timeout_s=5, variables={"PATH": str(tmp_path)})

    assert caught.value.code == "no-java"
    assert caught.value.hint
    assert "sandbox" not in str(caught.value) + caught.value.hint


def test_a_spark_home_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not a Spark installation") as caught:
        check(SparkSettings(), timeout_s=5, variables={**HERE, "SPARK_HOME": str(tmp_path)})

    assert caught.value.hint == "unset SPARK_HOME"


def test_a_master_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{free.getsockname()[1]},127.0.0.1:{server.getsockname()[1]}"
        assert check(SparkSettings(master), timeout_s=5, variables=HERE)


def test_a_master_that_does_not_answer() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(Unreachable, match="no Spark master answers at spark://") as caught:
            check(SparkSettings(f"spark://127.0.0.1:{port}"), timeout_s=5, variables=HERE)

    assert (caught.value.code, caught.value.exit_code) == ("spark-master", ExitCode.UNREACHABLE)
    assert f"127.0.0.1:{port}" in caught.value.details[0]


def test_a_master_that_swallows_what_it_gets_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.catchup.spark.ready._LONGEST_CONNECT_S", 60)
    with socket.socket() as full:  # nobody accepts, and its queue is full
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = []
        for _ in range(4):
            waiting.append(one := socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        began = time.monotonic()
        with pytest.raises(Unreachable):
            check(SparkSettings(f"spark://127.0.0.1:{full.getsockname()[1]}"), timeout_s=0.5, variables=HERE)
        assert time.monotonic() - began < 30
        for one in waiting:
            one.close()


def test_yarn_wants_to_be_named() -> None:
    with pytest.raises(Refused, match="HADOOP_CONF_DIR"):
        check(SparkSettings("yarn"), timeout_s=5, variables=HERE)

    assert check(SparkSettings("yarn"), timeout_s=5, variables={**HERE, "YARN_CONF_DIR": "/etc/yarn"})
