"""Tasks in Spark's workers on this machine: answers, failures, progress, stopping, dying; nothing secret in sight."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.catchup.spark.failures import task_error
from kgroup.catchup.spark.job import GRACE_S, JobListeners, run
from kgroup.catchup.spark.progress import ProgressTotals
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.groups.catchup.model import ChunkProgress
from kgroup.support.errors import ExitCode, KgroupError, Refused
from tests.helpers.catchup.spark_in_process import jvm_of
from tests.helpers.catchup.spark_tasks import Task, counting, deaf, dying, failing, pids, sign, task, waiting
from tests.helpers.waiting import read_line, wait_for

SECRET = "hunter2-of-the-task"
STARTED_S = 90.0
"""A process of its own imports everything, starts Spark and then its worker: 8 s, or 30 where the machine is busy."""


@pytest.fixture(scope="module")
def log() -> list[str]:
    """What Spark logs, at its most talkative."""
    return []


@pytest.fixture(scope="module")
def session(log: list[str]) -> Iterator[DriverSession]:
    settings = SparkSettings("local[2]", conf=(("spark.python.task.killTimeout", "1s"),))
    with DriverSession(settings, check(settings, timeout_s=10), say=log.append) as session:
        yield session


class Watcher:
    """Remembers what it was told; ``stop_when`` says when to stop."""

    def __init__(self) -> None:
        self.totals: list[ProgressTotals] = []
        self.stopping = False

    def watching(self, **more: object) -> JobListeners:
        return JobListeners(self.totals.append, lambda: self.stopping, **more)  # type: ignore[arg-type]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.soak
def test_each_task_answers_in_the_order_they_were_given(session: DriverSession) -> None:
    answers = run(session, [task(3), task(1), task(2)], work=counting)

    assert [(answer.task, answer.result) for answer in answers] == [(3, (3, 20)), (1, (1, 20)), (2, (2, 20))]
    assert run(session, [], work=counting) == ()


@pytest.mark.soak
def test_many_tasks(session: DriverSession) -> None:
    answers = run(session, [task(number) for number in range(52)], work=counting)

    assert [answer.result for answer in answers] == [(number, 20) for number in range(52)]


def test_an_error_of_a_task_is_its_answer_and_it_is_not_tried_again(session: DriverSession, tmp_path: Path) -> None:
    tasks = [task(number, tmp_path) for number in range(4)]

    answers = run(session, tasks, work=failing)

    assert [answer.result for answer in answers] == [0, None, None, -1]
    refused, bug = answers[1].failure, answers[2].failure
    assert refused
    assert bug
    error = task_error(refused, "task 1")
    assert isinstance(error, Refused)
    assert (error.message, error.code, error.exit_code, error.details, error.hint) == (
        "task 1 of p7: too late",
        "superseded",
        ExitCode.REFUSED,
        ("it was",),
        "resume",
    )
    assert "ZeroDivisionError" in task_error(bug, "task 2").message
    assert [len(pids_or_lines(one)) for one in tasks] == [1, 1, 1, 1]


def pids_or_lines(one: Task) -> list[str]:
    return sign(one, "began").read_text().splitlines()


def test_progress_is_live_and_exact_at_the_end(session: DriverSession, tmp_path: Path) -> None:
    """What was delivered before counts from the beginning."""
    one, watcher = task(0, tmp_path), Watcher()
    ledger = {0: ChunkProgress(0, 5, 4, 1, 0, 400, 0, 1)}
    thread = threading.Thread(
        target=lambda: answers.extend(run(session, [one], watcher.watching(ledger=ledger.copy), work=waiting))
    )
    answers: list[object] = []
    thread.start()

    begun = wait_for(lambda: watcher.totals, "progress")[0]
    ledger[1] = ChunkProgress(1, 20, 10, 1, 1, 1000, 0, 1)
    live = wait_for(lambda: [found for found in watcher.totals if found.records == 14], "more of it")[0]
    sign(one, "go").touch()
    thread.join(20)

    assert (begun.offsets, begun.moved) == (5, False)
    assert (live.offsets, live.offsets_total, live.chunks, live.filtered, live.size) == (15, 20, 1, 2, 1400)
    assert (live.moved, live.dead) == (True, 1)
    assert len(answers) == 1


@pytest.mark.soak
def test_a_task_that_does_not_hear_is_ended_by_spark(session: DriverSession, tmp_path: Path) -> None:
    one, watcher, told = task(0, tmp_path), Watcher(), list[float]()

    def stop() -> bool:
        if pids(one):
            told.append(time.monotonic())
        return bool(told)

    answers = run(session, [one], JobListeners(stop=stop), work=deaf, grace_s=0.5)

    assert [(answer.task, answer.result, answer.failure) for answer in answers] == [(0, None, None)]
    assert time.monotonic() - told[0] < 14  # without a grace of its own it has 15
    wait_for(lambda: not is_running(pids(one)[0]), "its process is gone", within_s=20)
    assert [a.result for a in run(session, [task(5)], watcher.watching(), work=counting)] == [(5, 20)]


def test_a_worker_that_is_killed_is_replaced(session: DriverSession, tmp_path: Path) -> None:
    tasks = [task(0, tmp_path), task(1, tmp_path)]
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.extend(a.result for a in run(session, tasks, work=waiting)))
    thread.start()
    wait_for(lambda: pids(tasks[0]) and pids(tasks[1]), "both run")
    victim = pids(tasks[1])[0]

    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: len(pids(tasks[1])) > 1, "a second attempt")
    for one in tasks:
        sign(one, "go").touch()
    thread.join(20)

    assert answers == ["went", "went"]
    assert pids(tasks[1])[1] != victim
    assert len(pids(tasks[0])) == 1


def test_a_worker_that_dies_every_time_is_reported_without_java(session: DriverSession) -> None:
    with pytest.raises(KgroupError, match="task 7 of the Spark job failed: its worker ended 4 times") as caught:
        run(session, [task(7)], work=dying)

    assert caught.value.code == "spark-job"
    assert not any("org.apache" in line or "\tat" in line for line in caught.value.details)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_nothing_secret_is_in_configuration_log_command_line_or_on_disk(
    session: DriverSession, log: list[str], tmp_path: Path
) -> None:
    session.call(lambda driver: driver.context.setLogLevel("DEBUG"))
    local = Path(session.call(lambda driver: driver.context._temp_dir)).parent
    one = task(0, tmp_path, secret=SECRET)
    big = task(1, tmp_path, secret=SECRET + "x" * 3_000_000)
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.extend(a.result for a in run(session, [one, big], work=waiting)))
    thread.start()
    try:
        wait_for(lambda: pids(one) and pids(big), "both run")
        assert not [file for file in local.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
        command = Path(f"/proc/{jvm_of(session)}/cmdline").read_text()
    finally:
        for each in (one, big):
            sign(each, "go").touch()
        thread.join(30)
        session.call(lambda driver: driver.context.setLogLevel("WARN"))

    assert answers == ["went", "went"]
    assert len(log) > 20
    assert SECRET not in "\n".join([*log, command, *(f"{k}={v}" for k, v in session.started().conf.items()), repr(one)])


@pytest.mark.parametrize(("asked", "result"), [(True, "stopped"), (False, None)])
def test_an_error_while_tasks_run_asks_them_to_end(
    session: DriverSession, tmp_path: Path, asked: bool, result: str | None
) -> None:
    """Those that cannot know of it are ended by Spark, without waiting."""
    one, began = task(0, tmp_path), list[float]()

    def stop() -> bool:
        if pids(one):
            began.append(time.monotonic())
            raise KeyboardInterrupt
        return False

    def interrupt() -> bool:
        if asked:
            sign(one, "stop").touch()
        return asked

    with pytest.raises(KeyboardInterrupt):
        run(session, [one], JobListeners(stop=stop, interrupt=interrupt), work=waiting)

    assert time.monotonic() - began[0] < GRACE_S
    assert sign(one, "stopped").exists() == (result == "stopped")
    wait_for(lambda: asked or not is_running(pids(one)[0]), "its process is gone", within_s=20)


@pytest.mark.soak
def test_a_jvm_that_is_killed_is_said_to_be_gone(tmp_path: Path) -> None:
    one = task(0, tmp_path)
    code = f"""
import os, signal, threading, time
from pathlib import Path
from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.support.errors import KgroupError
from tests.helpers.catchup.spark_in_process import jvm_of
from tests.helpers.catchup.spark_tasks import pids, task, waiting
one = task(0, {str(tmp_path)!r})
with DriverSession(SparkSettings("local[1]"), check(SparkSettings("local[1]"), timeout_s=5)) as session:
    def kill():
        while not pids(one): time.sleep(0.02)
        os.kill(jvm_of(session), signal.SIGKILL)
    threading.Thread(target=kill).start()
    try:
        run(session, [one], work=waiting)
    except KgroupError as error:
        print(error.code, error.message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout == "spark-gone Spark ended while it was at work (killed by SIGKILL)\n"
    assert done.stderr == ""
    wait_for(lambda: not is_running(pids(one)[0]), "its worker is gone too")


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_tasks_end_what_they_have_open(number: signal.Signals, tmp_path: Path) -> None:
    one = task(0, tmp_path)
    code = f"""
from kgroup.support import signals
from kgroup.catchup.spark.job import JobListeners, run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.helpers.catchup.spark_tasks import sign, task, waiting
signals.raise_signals()
settings = SparkSettings("local[1]")
one = task(0, {str(tmp_path)!r})
try:
    with DriverSession(settings, check(settings, timeout_s=5)) as session:
        run(session, [one], JobListeners(interrupt=lambda: not sign(one, "stop").touch()), work=waiting)
except (KeyboardInterrupt, signals.Terminated) as error:
    print(type(error).__name__)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            worker = wait_for(lambda: pids(one), "the task runs", STARTED_S)[0]
            os.killpg(process.pid, number)  # as a terminal does
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()

    assert (stdout, stderr) == ({signal.SIGINT: "KeyboardInterrupt\n", signal.SIGTERM: "Terminated\n"}[number], "")
    assert sign(one, "stopped").exists()
    wait_for(lambda: not is_running(worker), "its process is gone")


@pytest.mark.soak
def test_a_driver_that_is_killed_takes_everything_with_it(tmp_path: Path) -> None:
    one = task(0, tmp_path)
    code = f"""
from kgroup.catchup.spark.job import run
from kgroup.catchup.spark.ready import check
from kgroup.catchup.spark.session import DriverSession
from kgroup.catchup.spark.settings import SparkSettings
from tests.helpers.catchup.spark_in_process import jvm_of
from tests.helpers.catchup.spark_tasks import deaf, task
settings = SparkSettings("local[1]")
with DriverSession(settings, check(settings, timeout_s=5)) as session:
    print(jvm_of(session), flush=True)
    run(session, [task(0, {str(tmp_path)!r})], work=deaf)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        jvm = int(re.findall(r"\d+", read_line(process.stdout))[0])
        try:
            worker = wait_for(lambda: pids(one), "the task runs", STARTED_S)[0]
        finally:
            process.kill()

    wait_for(lambda: not is_running(jvm), "the JVM is gone")
    wait_for(lambda: not is_running(worker), "the worker is gone")
