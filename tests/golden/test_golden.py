"""What the reading verbs show of each situation, compared with its golden file; no broker is needed.

A difference is a change that users see. Where it is meant, ``python -m tests.golden --write`` makes the files again.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BROKER_PROPERTIES
from tests.golden import CLUSTER, DATA, RECORD, WRITE
from tests.golden.situations import SITUATIONS, Situation, made
from tests.helpers import stored_cluster
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_proxy import proxied_broker
from tests.helpers.members import Members
from tests.helpers.stored_broker import StoredBroker

_WIDTH = 200
_OF_THIS_RUN = (
    (r"127\.0\.0\.1:\d+", "<broker>"),
    (r'"port": \d+', '"port": <port>'),
    (r'"(waited_ms|session_ends_in_ms)": \d+', r'"\1": <number>'),
)


@contextmanager
def clock_at(now_ms: int) -> Iterator[None]:
    """This machine's clock, as kgroup reads it, stands at this moment."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Stopped:
            return cls.fromtimestamp(now_ms / 1000, tz or UTC)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgroup.support.clock.datetime", Stopped)
        yield


class _SlowClock:
    """kgroup's time limits last four times as long: a busy machine meets none that the situation does not mean."""

    @staticmethod
    def monotonic() -> float:
        return time.monotonic() / 4


def run(words: str, bootstrap: str, timeout: str = "10s") -> Result:
    """A command line on the cluster at this address, whatever comes of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kgroup.cluster.deadline.time", _SlowClock)
        return CommandLine()(*shlex.split(words), "--bootstrap-server", bootstrap, "--timeout", timeout, exit_code=None)


def shown(words: str, result: Result) -> str:
    """A command, its exit code, and what it wrote; a document has a line for each part that fits in one."""
    text = result.stdout
    if "-o json" in words and text:
        text = _lines(json.loads(text), "") + "\n"
    parts = [f"$ kgroup {words}\n", text, *(f"! {line}\n" for line in result.stderr.splitlines())]
    text = "".join(parts) + f"exit code {result.exit_code}\n"
    for pattern, placeholder in _OF_THIS_RUN:
        text = re.sub(pattern, placeholder, text)
    return text


def _lines(value: Any, margin: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if len(margin) + len(text) <= _WIDTH or not isinstance(value, dict | list) or not value:
        return text
    inner, more = [], f"{margin} "
    if isinstance(value, dict):
        inner = [f"{more}{json.dumps(key)}: {_lines(each, more)}" for key, each in value.items()]
    else:
        inner = [f"{more}{_lines(each, more)}" for each in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n" + ",\n".join(inner) + f"\n{margin}{end}"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is stored of the broker, recorded before if that is wanted."""
    if os.environ.get(RECORD):
        with (
            proxied_broker(directory := tmp_path_factory.mktemp("recorded"), BROKER_PROPERTIES) as broker,
            Members(broker.world.bootstrap) as members,
            made(broker.world, members),
        ):
            stored_cluster.write(stored_cluster.copy_of(broker.world.bootstrap), CLUSTER)
        text = CLUSTER.read_text(encoding="utf-8")
        CLUSTER.write_text(text.replace(str(directory), "/kafka"), encoding="utf-8")
    return stored_cluster.read(CLUSTER)


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_golden(situation: Situation, copy: dict[str, Any], tmp_path: Path) -> None:
    now_ms = copy["at_ms"] + 1000 * situation.later_s
    with StoredBroker(copy, now_ms, situation.faults) as broker, clock_at(now_ms):
        commands = [verb.format(group=situation.group) for verb in situation.verbs]
        shown_now = []
        for words in commands:
            shown_now.append(shown(words, run(words, broker.bootstrap, situation.timeout)))
            assert broker.unanswered == [], words
        now = "\n".join(shown_now)

    path = DATA / f"{situation.name}.txt"
    now = now.replace(str(tmp_path), "<directory>")
    if os.environ.get(WRITE):
        path.write_text(now, encoding="utf-8")
    then = path.read_text(encoding="utf-8")
    difference = difflib.unified_diff(then.splitlines(), now.splitlines(), str(path), "now", lineterm="", n=3)
    assert now == then, "\n".join(difference)


def test_each_file_is_of_a_situation() -> None:
    assert {path.stem for path in DATA.glob("*.txt")} == {situation.name for situation in SITUATIONS}
