"""``kgroup sandbox demo``: the crash, the head released, the gap replayed beside a live consumer, and the proof."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kgroup.catchup.spark.ready import INSTALL
from kgroup.cluster import demo_clients
from kgroup.sandbox import Sandbox
from kgroup.support.errors import SandboxError
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]


@dataclass(frozen=True)
class Shared:
    """The tests' broker in the place of a sandbox."""

    bootstrap_servers: str

    def up(self, **_: object) -> Shared:
        return self


@pytest.mark.soak
def test_without_pyspark_it_shows_the_crash_and_what_to_install(
    kgroup: CommandLine, bootstrap: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr("kgroup.commands.sandbox.Sandbox", lambda: Shared(bootstrap))
    monkeypatch.setattr("kgroup.sandbox.demo.GROUP", name("crashed"))
    monkeypatch.setattr("kgroup.commands.sandbox_demo.LEDGER_TOPIC", name("ledger"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda what: None if what == "pyspark" else found(what))

    done = kgroup("sandbox", "demo", exit_code=6)

    assert "LAG    50 on demo-orders" in done.stdout
    assert "PLAN" not in done.stdout
    assert INSTALL in done.stderr
    assert "[no-pyspark]" in done.stderr
    assert consumers(bootstrap) == []
    only = kgroup("sandbox", "demo", "--crash-only")
    assert "LAG    50 on demo-orders" in only.stdout
    assert INSTALL not in only.stderr


def test_a_broker_that_does_not_answer_in_time_is_said_to_be_so(
    bootstrap: str, name: Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_clients, "_TIMEOUT_S", 0.001)

    with pytest.raises(SandboxError, match=r"could not create orders-.*: no answer in 0\.001 s"):
        demo_clients.create_topic(bootstrap, name("orders"))


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state directory of a sandbox of its own."""
    directory = tmp_path / "state"
    yield directory
    Sandbox(directory / "sandbox").down(wipe=True, reporter=QuietReporter())


def start(state: Path, *arguments: str) -> subprocess.Popen[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("KGROUP_")}
    environ |= {"KGROUP_STATE_DIR": str(state)}
    if "KGROUP_CACHE_DIR" in os.environ:
        environ["KGROUP_CACHE_DIR"] = os.environ["KGROUP_CACHE_DIR"]
    return subprocess.Popen(
        [sys.executable, "-m", "kgroup", "sandbox", "demo", *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def consumers(bootstrap: str) -> list[str]:
    """The demo's processes that still run, for this broker."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"kgroup.sandbox.demo_consumer" in words and bootstrap.encode() in words:
            found.append(path.parent.name)
    return found


def await_none(bootstrap: str) -> None:
    wait_for(lambda: not consumers(bootstrap), "the demo's consumer to end")


@pytest.mark.soak
def test_all_of_it_twice_on_one_sandbox_and_ended_by_ctrl_c(state: Path) -> None:
    process = start(state)
    page, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert page.index("LAG    50") < page.index("PLAN  catch up") < page.index("MAY START NOW")
    # Orders are written meanwhile, so that the consumer may have one to read.
    (at_the_head,) = re.finditer(r"^LAG    \d on ", page[page.index("MAY START NOW") :], re.MULTILINE)
    assert at_the_head.start() < page[page.index("MAY START NOW") :].index("VERIFIED")
    assert "the first order that it handles is 120" in said
    assert "orders 70 to 119, each once" in said

    process = start(state, "-o", "json")
    document, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    (proof,) = json.loads(document)["data"]
    totals: dict[str, Any] = proof["totals"]
    assert (proof["group"], proof["state"]) == ("demo-order-service-2", "done")
    assert (totals["delivered_count"], totals["verified"]) == (50, True)

    for word, ending in (("KILLED", signal.SIGINT), ("resume", signal.SIGTERM), ("resume", signal.SIGKILL)):
        process = start(state)
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any(word in line for line in lines)
        process.send_signal(ending)
        _, said = process.communicate(timeout=60)
        expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
        assert process.returncode == expected[ending], said
        address = Sandbox(state / "sandbox").status().bootstrap_servers
        assert address is not None
        await_none(address)
