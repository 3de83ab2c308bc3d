"""Streaming queries that are moved: reset, undo and catch-up append batches to their checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_streaming_queries import ago
from tests.commands.test_streaming_queries import words as words_of
from tests.helpers.checkpoints import write_checkpoint
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld

Name = Callable[[str], str]
Ledger = tuple[str, str]
KILLED = -9
NO_FILES = ("--file-sink", "none")
ACCEPTING = (*NO_FILES, "--accept", "in-flight")


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def checkpoint(tmp_path: Path, orders: str) -> Path:
    """Of a query that was stopped: it has read 10 and 20 of them, in batches 0 to 3."""
    ends = [{orders: (n, 2 * n)} for n in (4, 6, 8, 10)]
    return write_checkpoint(tmp_path / "checkpoint", ends, ago(30, 20, 10, 5))


@pytest.fixture
def query(checkpoint: Path) -> str:
    return f"spark:{checkpoint}"


@pytest.fixture
def ledger(name: Name) -> Ledger:
    return "--ledger-topic", name("ledger")


@pytest.fixture(autouse=True)
def bystanders(tmp_path: Path, orders: str, bystander: str) -> Iterator[None]:
    """A group, and a query that reads the same topic: both stay as they are."""
    other = write_checkpoint(tmp_path / "bystander", [{orders: (1, 2)}], ago(5))
    before = files(other)
    yield
    assert files(other) == before


def topic_of(plan: dict[str, Any]) -> str:
    topic: str = plan["ranges"][0]["topic"]
    return topic


def offsets(kgroup: CommandLine, query: str) -> list[int]:
    """What the query has read of its partitions."""
    rows = kgroup("lag", query, "-o", "json").data[0]["partitions"]
    return [row["committed"] for row in rows]


def test_reset_shows_its_plan_and_both_files(kgroup: CommandLine, checkpoint: Path, query: str) -> None:
    before = files(checkpoint)

    plan = kgroup("reset", query, "--all-topics", "--to-latest", *NO_FILES)

    assert "30 offsets skipped" in words_of(plan.stdout)
    assert f"creates offsets/4 and commits/4 in {checkpoint}" in plan.stderr
    assert files(checkpoint) == before


def test_reset_and_undo(kgroup: CommandLine, orders: str, checkpoint: Path, query: str) -> None:
    reset = kgroup("reset", query, "--topic", f"{orders}:1", "--to-latest", *NO_FILES, "--execute", "-o", "json")
    row = reset.data[0]

    assert (row["old_offset"], row["new_offset"], row["read_back_offset"]) == (20, 30, 30)
    assert offsets(kgroup, query) == [10, 30]
    undone = kgroup("undo", row["change_id"], "--execute", "-o", "json")
    assert undone.data[0]["read_back_offset"] == 20
    assert offsets(kgroup, query) == [10, 20]
    as_before = (checkpoint / "offsets" / "3").read_text().splitlines()[2:]
    assert [line.replace(" ", "") for line in as_before] == (checkpoint / "offsets" / "5").read_text().splitlines()[2:]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-offset", "25"), [25, 25]),
        (("--shift-by", "-5"), [5, 15]),
        (("--by-duration", "PT1H"), [0, 0]),
        (("--to-current",), [10, 20]),
    ],
)
def test_targets_of_a_reset(kgroup: CommandLine, query: str, target: tuple[str, ...], expected: list[int]) -> None:
    kgroup("reset", query, "--all-topics", *target, *NO_FILES, "--execute")

    assert offsets(kgroup, query) == expected


def test_a_group_goes_on_where_a_query_is(
    kgroup: CommandLine, world: KafkaWorld, query: str, orders: str, name: Name
) -> None:
    group = name("g")

    kgroup("reset", group, "--create", "--from-group", query, "--execute")

    assert world.offsets(group) == {(orders, 0): 10, (orders, 1): 20}


def test_the_query_has_run_since(kgroup: CommandLine, orders: str, checkpoint: Path, query: str) -> None:
    done = kgroup("reset", query, "--all-topics", "--to-latest", *NO_FILES, "--execute", "-o", "json")
    # Spark's next batch, which reads no record.
    head, tail = ((checkpoint / "offsets" / number).read_text().splitlines() for number in ("3", "4"))
    (checkpoint / "offsets" / "5").write_text("\n".join((*head[:2], *tail[2:])))
    (checkpoint / "commits" / "5").write_bytes((checkpoint / "commits" / "3").read_bytes())

    refused = kgroup("undo", done.data[0]["change_id"], "--execute", "-o", "json", exit_code=6)

    assert [error["code"] for error in refused.json["errors"]] == ["moved-since"]


def test_a_batch_in_flight(kgroup: CommandLine, orders: str, tmp_path: Path) -> None:
    root = write_checkpoint(tmp_path / "c", [{orders: (4, 4)}], ago(9), planned=(ago(8)[0], {orders: (10, 9)}))
    latest = ("reset", f"spark:{root}", "--all-topics", "--to-latest", *NO_FILES, "--execute", "-o", "json")
    before = files(root)

    refused = kgroup(*latest, exit_code=6)

    assert [error["code"] for error in refused.json["errors"]] == ["in-flight"]
    assert files(root) == before
    kgroup(*latest, "--accept", "in-flight")
    assert offsets(kgroup, f"spark:{root}") == [30, 30]


def test_what_may_come_twice_of_a_batch_in_flight_is_counted(
    kgroup: CommandLine, orders: str, tmp_path: Path, ledger: Ledger
) -> None:
    root = write_checkpoint(tmp_path / "c", [{orders: (4, 4)}], ago(9), planned=(ago(8)[0], {orders: (10, 9)}))

    plan = kgroup("catchup", "start", f"spark:{root}", *ledger, *NO_FILES, "--accept", "in-flight")

    assert "Up to 11 records after the last commit" in words_of(plan.stdout)


@pytest.mark.parametrize("stateful", [True, False])
def test_what_is_said_or_refused_first(
    kgroup: CommandLine, orders: str, tmp_path: Path, ledger: Ledger, *, stateful: bool
) -> None:
    root = write_checkpoint(tmp_path / "c", [{orders: (4, 4)}], ago(9), stateful=stateful)
    query, sink = f"spark:{root}", NO_FILES if stateful else ()
    before = files(root)

    for verb in (
        ("reset", query, "--all-topics", "--to-latest"),
        ("catchup", "start", query, *ledger, "--release-only"),
    ):
        refused = kgroup(*verb, *sink, "--execute", "-o", "json", exit_code=6)
        assert [error["code"] for error in refused.json["errors"]] == ["stateful-query" if stateful else "file-sink"]

    assert files(root) == before


def test_a_topic_that_it_does_not_read(
    kgroup: CommandLine, world: KafkaWorld, name: Name, checkpoint: Path, query: str
) -> None:
    other = world.topic(name("other"))
    before = files(checkpoint)

    refused = kgroup("reset", query, "--topic", other, "--to-latest", *NO_FILES, "--execute", "-o", "json", exit_code=6)

    assert [error["code"] for error in refused.json["errors"]] == ["other-sources"]
    assert files(checkpoint) == before


@pytest.mark.parametrize("choice", [("--all-groups",), ("--regex", "spark:.*")])
def test_patterns_never_choose_queries(
    kgroup: CommandLine, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: tuple[str, ...]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"contexts:\n  test:\n    queries:\n      bronze: {checkpoint}\n")
    monkeypatch.setenv("KGROUP_CONFIG", str(file))
    monkeypatch.setenv("KGROUP_CONTEXT", "test")
    before = files(checkpoint)

    plan = kgroup("reset", *choice, "--topic", "no-such-topic", "--to-latest", exit_code=None)

    assert "spark:bronze" not in plan.stdout + plan.stderr
    assert files(checkpoint) == before


def test_release_and_cancel(kgroup: CommandLine, checkpoint: Path, query: str, ledger: Ledger) -> None:
    start = kgroup("catchup", "start", query, *ledger, *NO_FILES, "--release-only", "--execute")

    assert f"{query} MAY START NOW" in words_of(start.stdout)
    assert offsets(kgroup, query) == [30, 30]
    (plan,) = kgroup("catchup", "list", *ledger, "-o", "json").data
    assert (plan["group"], plan["totals"]["pending_offset_count"]) == (query, 30)
    kgroup("catchup", "cancel", query, *ledger, "--execute")
    assert offsets(kgroup, query) == [10, 20]
    assert kgroup("catchup", "list", *ledger, "-o", "json").data[0]["state"] == "cancelled"
    # Nothing of the query's own was touched.
    assert {path.name for path in (checkpoint / "offsets").iterdir()} == {str(n) for n in range(7)}


@pytest.fixture
def killing(tmp_path: Path) -> Callable[[int], dict[str, str]]:
    """``killing(N)``: the environment of a process that is killed with -9 when it links its file N."""

    def at(number: int) -> dict[str, str]:
        hook = tmp_path / "hook"
        hook.mkdir(exist_ok=True)
        (hook / "sitecustomize.py").write_text(
            "import os, signal\n"
            "link, left = os.link, [" + str(number) + "]\n"
            "def killed(*a, **k):\n"
            "    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
            "    left[0] -= 1\n"
            "    return link(*a, **k)\n"
            "os.link = killed\n"
        )
        return {"PYTHONPATH": os.pathsep.join([str(hook), *filter(None, [os.environ.get("PYTHONPATH")])])}

    return at


@pytest.mark.soak
@pytest.mark.parametrize("at", [0, 1])
def test_a_release_that_is_killed_is_cancelled_or_finished(
    kgroup: CommandLine, checkpoint: Path, query: str, ledger: Ledger, killing: Callable[[int], dict[str, str]], at: int
) -> None:
    start = ("catchup", "start", query, *ledger, *NO_FILES, "--release-only", "--execute")
    resume = ("catchup", "resume", query, *ledger, *NO_FILES, "--release-only", "--execute")
    kgroup.process(*start, exit_code=KILLED, env=killing(at))
    assert (checkpoint / "offsets" / "4").exists() == (at == 1)
    assert offsets(kgroup, query) == [10, 20]
    (plan,) = kgroup("catchup", "list", *ledger, "-o", "json").data
    assert plan["state"] == "releasing"

    if at == 1:
        assert "[in-flight]" in kgroup(*resume, exit_code=6).stderr
        kgroup("catchup", "cancel", query, *ledger, "--execute")
        assert kgroup("catchup", "list", *ledger, "-o", "json").data[0]["state"] == "cancelled"
        assert offsets(kgroup, query) == [10, 20]
        # What the cancelled plan was about to move stays, also if one partition is moved later.
        kgroup("reset", query, "--topic", f"{topic_of(plan)}:1", "--to-latest", *ACCEPTING, "--execute")
        assert offsets(kgroup, query) == [10, 30]
    else:
        kgroup(*resume)
        assert kgroup("catchup", "list", *ledger, "-o", "json").data[0]["state"] == "released"
        assert offsets(kgroup, query) == [30, 30]


def test_a_cancel_while_a_batch_is_in_flight(
    kgroup: CommandLine, orders: str, checkpoint: Path, released: str, ledger: Ledger
) -> None:
    head, tail = ((checkpoint / "offsets" / number).read_text().splitlines() for number in ("3", "4"))
    (checkpoint / "offsets" / "5").write_text("\n".join((*head[:2], *tail[2:])))
    cancel = ("catchup", "cancel", released, *ledger)

    for execute in ((), ("--execute",)):
        assert "[in-flight]" in kgroup(*cancel, *execute, exit_code=6).stderr
    assert kgroup("catchup", "list", *ledger, "-o", "json").data[0]["state"] == "released"
    kgroup(*cancel, "--accept", "in-flight", "--execute")

    assert offsets(kgroup, released) == [10, 20]


@pytest.mark.parametrize("at", [0, 1])
def test_a_reset_that_is_killed_is_made_by_the_next(
    kgroup: CommandLine, query: str, killing: Callable[[int], dict[str, str]], at: int
) -> None:
    reset = ("reset", query, "--all-topics", "--to-latest", *NO_FILES, "--execute")
    kgroup.process(*reset, exit_code=KILLED, env=killing(at))
    assert offsets(kgroup, query) == [10, 20]

    if at == 1:
        kgroup(*reset, exit_code=6)
    kgroup(*reset, "--accept", "in-flight")

    assert offsets(kgroup, query) == [30, 30]
    kgroup("undo", "--execute")
    assert offsets(kgroup, query) == [10, 20]


@pytest.fixture
def released(kgroup: CommandLine, query: str, ledger: Ledger) -> str:
    """The query, released with a gap of 30 offsets."""
    kgroup("catchup", "start", query, *ledger, *NO_FILES, "--release-only", "--execute")
    return query


@pytest.mark.soak
@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("import sys; sys.exit(3)", "the job ended with exit code 3"),
        ("pass", "the job ended without doing its batch"),
    ],
)
def test_a_job_that_does_not_do_its_batch(
    kgroup: CommandLine, released: str, ledger: Ledger, tmp_path: Path, job: str, words: str
) -> None:
    fork = tmp_path / "fork"
    resume = ("catchup", "resume", released, *ledger, "--fork", str(fork))
    plan = kgroup(*resume, "--", sys.executable, "-c", job)
    assert not fork.exists()
    assert f"To deliver to group spark:{fork}, at least once" in words_of(plan.stdout)

    for _ in range(2):
        failed = kgroup(*resume, "--execute", "--", sys.executable, "-c", job, exit_code=1)
        assert words in failed.stderr
        assert "batch 6 of the fork" in failed.stderr

    assert {path.name for path in (fork / "offsets").iterdir()} == {"4", "5", "6"}
    assert {path.name for path in (fork / "commits").iterdir()} == {"4", "5"}
    assert offsets(kgroup, released) == [30, 30]
    kgroup("catchup", "cancel", released, *ledger, "--execute")
    assert offsets(kgroup, released) == [10, 20]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--fork", "fork"), "the command that does a batch"),
        (("--fork", "s3a://lake/fork", "--", sys.executable), "a URL, and not a path"),
        (("--fork", "fork", "--to-topic", "x", "--", sys.executable), "a destination of its own"),
        (("--to-group", "spark:/tmp/x"), "the command that does a batch"),
        (("--fork", "fork", "--", "no-such-program"), "no-such-program cannot be started"),
    ],
)
def test_what_makes_no_fork(
    kgroup: CommandLine, released: str, ledger: Ledger, words: tuple[str, ...], said: str
) -> None:
    refused = kgroup("catchup", "resume", released, *ledger, "--execute", *words, exit_code=2)

    assert said in refused.stderr


def test_a_fork_of_another_query(
    kgroup: CommandLine, orders: str, released: str, ledger: Ledger, tmp_path: Path
) -> None:
    other = write_checkpoint(tmp_path / "other", [{orders: (1, 2)}], ago(5))
    before = files(other)

    refused = kgroup(
        "catchup", "resume", released, *ledger, "--fork", str(other), "-o", "json", "--", sys.executable, exit_code=6
    )

    assert [error["code"] for error in refused.json["errors"]] == ["fork-exists"]
    assert files(other) == before


def test_the_plan_of_a_group_has_no_fork(
    kgroup: CommandLine, world: KafkaWorld, orders: str, ledger: Ledger, name: Name, tmp_path: Path
) -> None:
    group = name("g")
    world.commit(group, {(orders, 0): 10, (orders, 1): 10})
    kgroup("catchup", "start", group, *ledger, "--release-only", "--execute")

    refused = kgroup(
        "catchup", "resume", group, *ledger, "--fork", str(tmp_path / "f"), "--", sys.executable, exit_code=2
    )

    assert "--fork is for the plan of a streaming query" in refused.stderr


def test_the_gap_of_a_query_is_delivered_by_a_job_of_ones_own(
    kgroup: CommandLine, orders: str, query: str, ledger: Ledger
) -> None:
    kgroup("catchup", "start", query, *ledger, *NO_FILES, "--release-only", "--execute")

    shown = kgroup("catchup", "show", query, *ledger).stdout
    done = kgroup("catchup", "done", query, *ledger, "--by", "batch 7", "--execute")

    assert f'startingOffsets {{"{orders}":{{"0":10,"1":20}}}}' in shown
    assert f'endingOffsets {{"{orders}":{{"0":30,"1":30}}}}' in shown
    assert "all 30 offsets: delivered by batch 7" in words_of(done.stdout)
    assert offsets(kgroup, query) == [30, 30]
