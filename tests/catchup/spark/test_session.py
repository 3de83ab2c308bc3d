"""Starting Spark where it can't be started, and what is shipped to workers."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from kgroup.catchup.spark.driver import Driver
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.catchup.spark.worker_package import WorkerPackage
from kgroup.support.errors import KgroupError, Unreachable
from tests.helpers.catchup.spark_in_process import jvm_of
from tests.helpers.waiting import wait_for


@pytest.mark.soak
def test_a_configuration_that_java_does_not_take_is_told_by_its_last_lines() -> None:
    settings = SparkSettings("local[1]", conf=(("spark.driver.memory", "1m"),))

    with DriverSession(settings, check(settings, timeout_s=5)) as session, pytest.raises(KgroupError) as caught:
        session.started()

    assert (caught.value.code, caught.value.message) == ("spark-start", "Spark did not start")
    assert any("Too small maximum heap" in line for line in caught.value.details)


def collectors(driver: Driver) -> set[str]:
    beans = driver.context._jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    return {bean.getName() for bean in beans}


@pytest.mark.soak
@pytest.mark.parametrize("place", ["variable", "conf", "default", "submit", "file"])
def test_a_garbage_collector_of_the_users_replaces_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    option, conf = "-XX:+UseParallelGC", {}
    match place:
        case "variable":
            monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {option}")
        case "conf":
            conf = {"spark.driver.extraJavaOptions": option}
        case "default":
            conf = {"spark.driver.defaultJavaOptions": option}
        case "submit":
            monkeypatch.setenv("SPARK_SUBMIT_OPTS", option)
        case "file":
            (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {option}\n")
            monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings = SparkSettings("local[1]", tuple(conf.items()))

    with DriverSession(settings, check(settings, timeout_s=5)) as session:
        assert session.call(collectors) == {"PS MarkSweep", "PS Scavenge"}


def test_spark_that_is_not_needed_any_more_leaves_no_directory(tmp_path: Path) -> None:
    settings = SparkSettings("local[1]", (("spark.driver.extraJavaOptions", f"-Djava.io.tmpdir={tmp_path}"),))
    said: list[str] = []

    with DriverSession(settings, check(settings, timeout_s=5), say=said.append) as session:
        wait_for(lambda: [line for line in said if "default log level" in line], "Spark's log")
        assert [*tmp_path.glob("spark-*")]

    assert not session.is_alive
    assert not [*tmp_path.glob("spark-*"), *tmp_path.glob("blockmgr-*")]


@pytest.mark.soak
def test_a_writers_secrets_are_in_no_line_of_the_log() -> None:
    said: list[str] = []
    settings = SparkSettings("local[1]", (("spark.driver.memory", "hunter2"),))
    session = DriverSession(settings, check(settings, timeout_s=5), say=said.append, hidden=("hunter2",))
    with session, pytest.raises(KgroupError) as caught:
        session.started()

    assert any("[hidden]" in line for line in said)
    assert not [line for line in (*said, *caught.value.details, *session.log()) if "hunter2" in line]


@pytest.mark.soak  # Spark's own patience with it
def test_what_answers_and_is_no_master_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = SparkSettings(f"spark://127.0.0.1:{server.getsockname()[1]}")
        ready = check(settings, timeout_s=5)
        began = time.monotonic()
        with (
            DriverSession(settings, ready, timeout_s=10) as session,
            pytest.raises(Unreachable, match="timed out") as caught,
        ):
            session.started()

    assert caught.value.code == "spark-master"
    assert time.monotonic() - began < 20
    assert not session.is_alive


def test_a_session_that_is_left_before_it_began_leaves_nothing() -> None:
    settings = SparkSettings("local[1]")
    with DriverSession(settings, check(settings, timeout_s=5)) as session:
        pass

    assert not session.is_alive


@pytest.mark.soak
def test_a_jvm_that_stands_still_does_not_hold_us_up() -> None:
    settings = SparkSettings("local[1]")
    with DriverSession(settings, check(settings, timeout_s=5)) as session:
        jvm = jvm_of(session)
        os.kill(jvm, signal.SIGSTOP)
        began = time.monotonic()
        session.close(wait_s=1)

    assert time.monotonic() - began < 10
    wait_for(lambda: not Path(f"/proc/{jvm}").exists(), "the JVM is gone")


def test_what_is_shipped_is_small_and_goes_away() -> None:
    package = WorkerPackage()
    try:
        assert package.path.stat().st_size < 800_000
    finally:
        package.remove()

    assert not package.path.exists()
