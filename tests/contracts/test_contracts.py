"""What scripts rely on: each verb's whole JSON, the headings of csv and table, the exit code, compared with a file.

A difference is a change that users see. Where it is meant, ``python -m tests.contracts --write`` makes the files
again: read their diff.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_app import COMMANDS
from tests.conftest import BROKER_PROPERTIES
from tests.contracts import WRITE
from tests.contracts.placeholders import Placeholders
from tests.contracts.stage import Stage, set_up
from tests.contracts.verbs import VERBS
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members

DATA = Path(__file__).with_name("data")
_ONE_LINE = 1_000_000  # a text that changes is one line of the diff


@dataclass(frozen=True)
class Running:
    """A sandbox, as ``sandbox up`` has said it, and the state directory that it is in."""

    state_directory: Path
    status: dict[str, Any]

    @property
    def bootstrap(self) -> str:
        return str(self.status["bootstrap_servers"])


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One broker, which is gone when the test of ``sandbox`` is over."""
    state, kgroup = tmp_path_factory.mktemp("contracts"), CommandLine()
    settings = [word for key, value in BROKER_PROPERTIES.items() for word in ("--set", f"{key}={value}")]
    env = {"KGROUP_STATE_DIR": str(state)}
    try:
        yield Running(state, kgroup.process("sandbox", "up", *settings, "-o", "json", env=env).data[0])
    finally:
        kgroup.process("sandbox", "down", "--wipe", env=env)


@pytest.fixture(scope="module")
def cluster(sandbox: Running) -> Iterator[tuple[KafkaWorld, Members]]:
    """The groups, two of which run."""
    with KafkaWorld(sandbox.bootstrap) as world, Members(sandbox.bootstrap) as members:
        set_up(world, members)
        yield world, members


@pytest.fixture
def stage(
    sandbox: Running,
    cluster: tuple[KafkaWorld, Members],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Stage:
    """The command line on these groups, with a journal, a ledger and a directory of the test's own."""
    verb = request.node.callspec.params["verb"]
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", sandbox.bootstrap)
    monkeypatch.setenv("KGROUP_LEDGER_TOPIC", f"ledger-of-{verb}")
    if verb == "sandbox":
        monkeypatch.setenv("KGROUP_STATE_DIR", str(sandbox.state_directory))
    known = {
        str(tmp_path): "<directory>",
        str(sandbox.state_directory): "<state>",
        sandbox.status["cache_directory"]: "<cache>",
        sandbox.status["cluster_id"]: "<cluster id>",
    }
    return Stage(*cluster, tmp_path, f"{verb}-topic", Placeholders(known))


@pytest.mark.parametrize("verb", VERBS)
def test_contract(stage: Stage, verb: str) -> None:
    VERBS[verb](stage)

    path, now = DATA / f"{verb}.yaml", as_text(stage.recorded)
    if os.environ.get(WRITE):
        path.write_text(now, encoding="utf-8")
    then = path.read_text(encoding="utf-8")
    difference = difflib.unified_diff(then.splitlines(), now.splitlines(), str(path), "now", lineterm="", n=12)
    assert now == then, "\n".join(difference)


def as_text(recorded: list[dict[str, object]]) -> str:
    """The file of a verb: its cases in their order, keys as they came."""
    return "\n".join(
        yaml.safe_dump([case], sort_keys=False, allow_unicode=True, width=_ONE_LINE, default_flow_style=False)
        for case in recorded
    )


def test_no_verb_is_left_out() -> None:
    commands = "\n".join(path.read_text(encoding="utf-8") for path in DATA.glob("*.yaml"))
    missing = [" ".join(words) for words in COMMANDS if f"command: kgroup {' '.join(words)} " not in commands]

    assert missing == ["sandbox demo", "completion", "help"]
