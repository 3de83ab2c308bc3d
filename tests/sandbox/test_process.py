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
    made.wait(5)


def test_start_kill_forget(daemon: Daemon, tmp_path: Path) -> None:
    assert daemon.pid is None
    assert not daemon.died
    daemon.start([*SLEEP, daemon.mark], log=tmp_path / "log")
    assert daemon.pid == int((tmp_path / "pid").read_text())
    assert os.getsid(daemon.pid) == daemon.pid
    daemon.signal(signal.SIGKILL)
    assert daemon.wait(5)
    assert daemon.died
    daemon.forget()
    assert not daemon.died


def test_output_is_appended_to_the_log(daemon: Daemon, tmp_path: Path) -> None:
    for word in ("one", "two"):
        daemon.start([sys.executable, "-c", f"print('{word}')", daemon.mark], log=tmp_path / "log")
        assert daemon.wait(5)
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
    start = f"from kgroup.sandbox.process import Daemon; from pathlib import Path; Daemon(Path({str(daemon.pid_file)!r}), {daemon.mark!r}).start({[*SLEEP, daemon.mark]!r}, log=Path({str(tmp_path / 'log')!r}))"
    subprocess.run([sys.executable, "-c", start], check=True)
    assert daemon.pid is not None
    daemon.signal(signal.SIGTERM)
    assert daemon.wait(5)
