"""Processes known by pid file and command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgroup.sandbox.process import Daemon

SLEEP = (sys.executable, "-c", "import signal; signal.pause()")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "pid", str(tmp_path / "mark"))
    yield made
    made.signal(signal.SIGKILL)
    made.wait(30)


def test_start_kill_forget(daemon: Daemon, tmp_path: Path) -> None:
    assert daemon.pid is None
    assert not daemon.died
    daemon.start([*SLEEP, daemon.mark], log=tmp_path / "log")
    pid = int((tmp_path / "pid").read_text())
    assert daemon.pid == pid
    assert os.getsid(pid) == pid
    daemon.signal(signal.SIGKILL)
    assert daemon.wait(30)
    assert daemon.died
    daemon.remove_pid_file()
    assert not daemon.died


def test_the_pid_file_is_never_empty_once_started(daemon: Daemon, tmp_path: Path) -> None:
    """The shell writes it a second time, at any moment after ``start`` has returned."""
    for _ in range(20):
        daemon.start([*SLEEP, daemon.mark], log=tmp_path / "log")
        while not (arguments := Path(f"/proc/{daemon.pid}/cmdline").read_text()).startswith(sys.executable):
            assert daemon.pid_file.read_text().strip(), arguments
        daemon.signal(signal.SIGKILL)
        assert daemon.wait(30)
    assert [path.name for path in tmp_path.glob("pid*")] == ["pid"]


def test_output_is_appended_to_the_log(daemon: Daemon, tmp_path: Path) -> None:
    for word in ("one", "two"):
        daemon.start([sys.executable, "-c", f"print('{word}')", daemon.mark], log=tmp_path / "log")
        assert daemon.wait(30)
    assert (tmp_path / "log").read_text() == "one\ntwo\n"


def test_a_recycled_pid_is_never_touched(daemon: Daemon, tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP) as stranger:
        (tmp_path / "pid").write_text(f"{stranger.pid}\n")
        assert daemon.pid is None
        assert daemon.died
        daemon.signal(signal.SIGKILL)
        assert daemon.wait(0)
        assert stranger.poll() is None
        stranger.kill()


def test_another_process_started_it(daemon: Daemon, tmp_path: Path) -> None:
    """As every invocation after ``up`` sees it; started by a process that is gone."""
    start = (
        "import sys; from pathlib import Path; from kgroup.sandbox.process import Daemon\n"
        "pid_file, mark, log, *command = sys.argv[1:]\n"
        "Daemon(Path(pid_file), mark).start([*command, mark], log=Path(log))"
    )
    arguments = [str(daemon.pid_file), daemon.mark, str(tmp_path / "log"), *SLEEP]
    subprocess.run([sys.executable, "-c", start, *arguments], check=True)
    assert daemon.pid is not None
    daemon.signal(signal.SIGTERM)
    assert daemon.wait(30)
