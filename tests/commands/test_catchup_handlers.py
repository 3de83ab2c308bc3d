"""``kgroup catchup --to-command`` with handlers that answer wrongly or get records twice, on the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.catchup.line_handlers import NAME
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("ledger")]

Name = Callable[[str], str]
MORE = ("--backoff", "10ms", "--master", "local[1]", "--execute", "-o", "json")


@pytest.fixture
def group(world: KafkaWorld, name: Name) -> str:
    """It has committed 0, and 10 records wait for it."""
    topic, group = world.topic(name("orders")), name("svc")
    world.produce(topic, 10)
    world.commit(group, {(topic, 0): 0})
    return group


def handler(directory: Path, text: str) -> tuple[str, Path]:
    """A script that keeps what it reads (``$l``) by ``keep``; how it is called, and where that is."""
    got = directory / "got"
    path = directory / "handler.sh"
    path.write_text(f'keep() {{ echo "$l" >> {got}; }}\n{text}\n')
    return f"exec sh {path}", got


def came(got: Path) -> Counter[int]:
    """How often a handler has read which offset; one that was stopped before it read anything has no file."""
    lines = got.read_text().splitlines() if got.exists() else []
    return Counter(json.loads(line)["offset"] for line in lines)


def totals(data: list[dict[str, Any]]) -> tuple[int, int, bool]:
    """(delivered, may have come twice, complete)"""
    (plan,) = data
    return plan["totals"]["delivered_count"], plan["totals"]["possible_duplicate_count"], plan["totals"]["verified"]


UNNAMED_4 = """case "$l" in *'"offset": 4,'*) echo "error: no";; *) echo ok $(name);; esac"""


def test_an_answer_that_does_not_name_its_record_is_no_delivery(
    kgroup: CommandLine, group: str, tmp_path: Path
) -> None:
    """Those before it count, and a handler that names its records gets the others."""
    command, got = handler(tmp_path, f"{NAME} while read -r l; do keep; {UNNAMED_4}; done")

    wrong = kgroup.process("catchup", "start", group, "--to-command", command, "--ack", "line", *MORE, exit_code=1)
    handler(tmp_path, f"{NAME} while read -r l; do keep; echo ok $(name); done")
    done = kgroup.process("catchup", "resume", group, *MORE)

    assert "[handler-answer]" in wrong.stderr
    assert "'error: no'" in wrong.stderr
    assert "VERIFIED" not in wrong.stderr
    assert totals(wrong.data) == (4, 1, False)
    assert totals(done.data) == (10, 1, True)
    assert came(got) == {offset: 2 if offset == 4 else 1 for offset in range(10)}


def test_exit_status_0_without_reading_is_no_delivery(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    command, got = handler(tmp_path, "read -r l; keep; exit 0")

    wrong = kgroup.process("catchup", "start", group, "--to-command", command, *MORE, exit_code=1)

    assert "[handler-unread]" in wrong.stderr
    assert "did not read 9 of its 10 records" in wrong.stderr
    assert totals(wrong.data) == (0, 10, False)
    assert came(got) == {0: 1}


def test_what_comes_twice_in_one_run_is_said(kgroup: CommandLine, group: str, tmp_path: Path) -> None:
    """A handler that has taken 6 of 10 when it dies gets all of them again."""
    dies = f"[ -e {tmp_path}/died ] || {{ n=$((n+1)); [ $n = 6 ] && touch {tmp_path}/died && exit 1; }}"
    command, got = handler(tmp_path, f"while read -r l; do keep; {dies}; done; exit 0")

    done = kgroup.process("catchup", "start", group, "--to-command", command, *MORE)
    shown = kgroup("catchup", "show", group).stdout

    assert came(got) == {offset: 2 if offset < 6 else 1 for offset in range(10)}
    assert totals(done.data) == (10, 10, True)
    assert "10 possible duplicates" in shown
