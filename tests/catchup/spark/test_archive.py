"""The class data archive: what it is for, when it is used, and that nothing depends on it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from kgroup.catchup.spark import archive, rehearsal
from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import DriverSetup, check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.support.catchup.spark_tasks import counting, task


@pytest.fixture
def ready() -> DriverSetup:
    return check(SparkSettings(), timeout_s=10)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, under a name with a space."""
    cache = tmp_path / "the cache"
    monkeypatch.setenv("KGROUP_CACHE_DIR", str(cache))
    return cache


def test_its_name_is_of_one_java_and_these_jars(ready: DriverSetup, tmp_path: Path) -> None:
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in jars:
        jar.write_bytes(b"x")
    one = replace(ready, jars=tuple(jars))
    first = archive.key(one)

    assert archive.key(one) == first
    assert archive.key(replace(one, jars=tuple(jars[:1]))) != first
    assert archive.key(replace(one, java=replace(one.java, description="another build"))) != first
    os.utime(jars[1], (1, 1))
    assert archive.key(one) != first


@pytest.mark.parametrize(
    ("conf", "environment", "expected"),
    [
        ([], {}, True),
        (
            ["spark.ui.enabled", "spark.executor.memory"],
            {"HOME": "/", "SPARK_HOME": "/s", "SPARK_LOCAL_IP": "::1"},
            True,
        ),
        (["spark.driver.memory"], {}, False),
        (["spark.driver.extraJavaOptions"], {}, False),
        ([], {"PYSPARK_SUBMIT_ARGS": "--packages a:b:c pyspark-shell"}, False),
        ([], {"SPARK_CONF_DIR": "/etc/spark"}, False),
        ([], {"SPARK_DRIVER_MEMORY": "4g"}, False),
        ([], {"HADOOP_CONF_DIR": "/etc/hadoop"}, False),
    ],
)
def test_spark_submit_is_left_out_where_it_has_nothing_to_look_at(
    ready: DriverSetup, conf: list[str], environment: dict[str, str], expected: bool
) -> None:
    assert archive.may_start_directly(ready, conf, environment) is expected


def test_a_configured_spark_is_started_by_spark_submit(ready: DriverSetup, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert archive.may_start_directly(replace(ready, home=tmp_path), [], {})
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert not archive.may_start_directly(replace(ready, home=tmp_path), [], {})


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"options": 1, "class_path": "", "environment": {}}'])
def test_a_record_that_can_not_be_read_is_none(tmp_path: Path, text: str) -> None:
    made = tmp_path / "x.jsa"
    assert archive.recorded(made) is None
    made.with_suffix(".json").write_text(text)
    assert archive.recorded(made) is None


def test_where_nothing_can_be_written_there_is_none(
    ready: DriverSetup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("KGROUP_CACHE_DIR", str(tmp_path / "file" / "cache"))

    assert rehearsal.make(ready) is None
    assert not archive.make_in_background(ready)


def test_one_that_is_broken_costs_nothing_but_time(ready: DriverSetup, cache: Path) -> None:
    made = archive.path(ready)
    made.parent.mkdir(parents=True)
    made.write_bytes(b"no archive")
    archive.note(made, ["-XX:NoSuchOption=1"], (), "/no/such.jar", {})

    with DriverSession(SparkSettings("local[1]"), ready) as session:
        assert [answer.result for answer in run(session, [task(4)], work=counting)] == [(4, 20)]
        assert not made.exists()
        made.write_bytes(b"no archive")  # else its end makes one, in the background


@pytest.mark.soak
def test_it_is_made_and_used(ready: DriverSetup, cache: Path) -> None:
    made = rehearsal.make(ready)

    assert made == archive.path(ready)
    assert made is not None
    assert made.stat().st_size > 10_000_000
    assert [file.name for file in sorted(made.parent.iterdir())] == [f"{made.stem}.jsa", f"{made.stem}.json", "lock"]
    assert rehearsal.make(ready) == made
    for heavy in (False, True):
        with DriverSession(SparkSettings("local[1]", heavy=heavy), ready) as session:
            assert [answer.result for answer in run(session, [task(4)], work=counting)] == [(4, 20)]
            assert str(made) in Path(f"/proc/{session.pid}/maps").read_text()
            command = Path(f"/proc/{session.pid}/cmdline").read_text().split("\0")
            assert ("-XX:TieredStopAtLevel=1" in command) is not heavy
            assert "-Xmx1g" in command
    settings = SparkSettings("local[1]", conf=(("spark.driver.memory", "700m"),))  # by spark-submit, then
    with DriverSession(settings, ready) as session:
        session.context()
        assert str(made) in Path(f"/proc/{session.pid}/maps").read_text()
