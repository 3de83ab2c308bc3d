"""A real standalone cluster: our code and the tasks' settings get there, and killed processes are replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgroup.catchup.spark.job import JobListeners, run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.helpers.catchup import spark_tasks
from tests.helpers.catchup.spark_cluster import Cluster, running_cluster
from tests.helpers.catchup.spark_kills import Killer, replayed_exactly_once, workers_of
from tests.helpers.catchup.spark_tasks import Task, pids, sign, task, waiting, where, worker_imports
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

# A master and its workers take half a minute of two cores.
pytestmark = pytest.mark.soak

SECRET = "hunter2-of-the-cluster"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    ready = check(SparkSettings(), timeout_s=10)
    with running_cluster(ready, tmp_path_factory.mktemp("spark")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def session(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverSession]:
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(spark_tasks)  # type: ignore[no-untyped-call]
    events = tmp_path_factory.mktemp("events")
    shown = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    settings = cluster.settings(**shown, **{"spark.ui.port": "0"})
    with DriverSession(settings, check(settings, timeout_s=10)) as session:
        yield session
    cloudpickle.unregister_pickle_by_value(spark_tasks)  # type: ignore[no-untyped-call]


def test_our_code_gets_to_workers_that_do_not_have_it(session: DriverSession) -> None:
    for answer in run(session, [task(0), task(1)], work=where):
        file, has_tests = answer.result
        assert "kgroup.zip/kgroup/__init__.py" in file
        assert not has_tests


def test_the_real_task_can_be_imported_there_with_confluent_kafka_alone(session: DriverSession) -> None:
    answer = run(session, [task(0)], work=worker_imports)[0]

    assert (answer.result, answer.failure) == ([], None)


def test_a_killed_worker_is_replaced(session: DriverSession, tmp_path: Path) -> None:
    tasks = [task(0, tmp_path, secret=SECRET), task(1, tmp_path, secret=SECRET)]
    thread, answers = started(session, tasks, JobListeners())
    wait_for(lambda: pids(tasks[0]) and pids(tasks[1]), "both run")
    first = pids(tasks[1])[0]

    os.kill(first, signal.SIGKILL)
    wait_for(lambda: len(pids(tasks[1])) > 1, "a second attempt")
    for one in tasks:
        sign(one, "go").touch()
    thread.join(30)

    assert answers == ["went", "went"]
    assert len(pids(tasks[0])) == 1


def test_an_executor_that_is_killed_is_replaced(session: DriverSession, cluster: Cluster, tmp_path: Path) -> None:
    tasks = [task(0, tmp_path), task(1, tmp_path)]
    thread, answers = started(session, tasks, JobListeners())
    wait_for(lambda: pids(tasks[0]) and pids(tasks[1]), "both run")
    victim = cluster.executors()[0]

    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: len(pids(tasks[0]) + pids(tasks[1])) > 2, "a second attempt", within_s=60)
    for one in tasks:
        sign(one, "go").touch()
    thread.join(30)

    assert answers == ["went", "went"]


@pytest.mark.programs("ps")
def test_no_secret_is_on_a_disk_a_command_line_or_a_page(
    session: DriverSession, cluster: Cluster, tmp_path: Path
) -> None:
    tasks = [task(0, tmp_path, secret=SECRET), task(1, tmp_path, secret=SECRET + "y" * 2_000_000)]
    own_pages = session.call(lambda driver: driver.context.uiWebUrl)
    thread, answers = started(session, tasks, JobListeners())
    wait_for(lambda: pids(tasks[0]) and pids(tasks[1]), "both run")
    commands = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    events = Path(session.started().conf["spark.eventLog.dir"].removeprefix("file://"))
    files = [file for root in (*cluster.work, events) for file in root.rglob("*") if file.is_file()]
    pages = [page_of(own_pages, name) for name in ("jobs", "stages", "environment", "executors")]
    for one in tasks:
        sign(one, "go").touch()
    thread.join(30)

    assert answers == ["went", "went"]
    assert any(events in file.parents for file in files)
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]
    assert SECRET not in commands
    assert all(session.settings.app in page for page in pages)
    assert SECRET not in "".join(pages)


def page_of(own_pages: str, name: str) -> str:
    """One of Spark's own pages."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{own_pages}/{name}/", timeout=20) as page:
        text: str = page.read().decode()
        return text


def started(session: DriverSession, tasks: list[Task], watching: JobListeners) -> tuple[threading.Thread, list[Any]]:
    """The tasks at work on another thread, and where their results will be."""
    answers: list[Any] = []
    thread = threading.Thread(
        target=lambda: answers.extend(answer.result for answer in run(session, tasks, watching, work=waiting))
    )
    thread.start()
    return thread, answers


def test_copied_exactly_once_though_workers_and_an_executor_die(
    session: DriverSession, cluster: Cluster, world: KafkaWorld, bootstrap: str, name: Callable[[str], str]
) -> None:
    killer = Killer(lambda: workers_of(cluster.executors()), kills=2)
    replayed_exactly_once(session, world, bootstrap, name, killer)

    replayed_exactly_once(session, world, bootstrap, name, Killer(cluster.executors, kills=1))
