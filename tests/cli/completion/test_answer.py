"""What the shells ask is answered in time, and in silence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from kgroup.catchup.ledger.ledger import Ledger
from kgroup.cli.completion.names import _TRY_EVERY_S, FRESH_S, STALE_S, is_plain
from tests.helpers.catchup.catchups import own_ledger
from tests.helpers.catchup.ledgers import created, new_plan
from tests.helpers.completion import CONTEXTS, GROUPS, TOPICS, Asker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b[31mb", "a\x7f", "a\u202eb", "a\u200bb", ""])
def test_names_that_steer_the_terminal_are_left_out(name: str) -> None:
    assert not is_plain(name)


def test_groups_and_topics_of_the_cluster(ask: Asker, here: str, world: KafkaWorld, name: Callable[[str], str]) -> None:
    topic, group, share = world.topic(name("t")), name("g"), name("jobs")
    world.commit(group, {(topic, 0): 1})
    world.share_group(share, topic)

    assert group in ask.until(share, GROUPS)
    topics = ask.until(topic, TOPICS)
    assert not [each for each in topics if each.startswith("__")]
    wait_for(lambda: "__consumer_offsets" in ask(TOPICS + "_"), "internal topics")


def test_plans_of_the_ledger_and_their_groups(
    ask: Asker, here: str, name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, plan = own_ledger(monkeypatch, name("ledger")), new_plan(name("g"))
    line = "kgroup catchup resume "
    assert ask(line) == [], "no ledger yet"
    with Ledger({"bootstrap.servers": here, "log_level": "0"}, ledger, timeout_s=15.0) as opened:
        opened.prepare()
        created(opened, plan)

    assert ask.until(plan.id, line) == [plan.id, plan.group]


def test_changes_of_this_machine_the_newest_first(
    ask: Asker,
    here: str,
    world: KafkaWorld,
    name: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what they did, which an id does not show; a group's name where it is no change."""
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path))
    assert ask("kgroup undo ") == []
    journal = tmp_path / "journal"
    journal.mkdir()
    for age, (change, text) in enumerate(
        {
            "ch-2222": '{"what": "reset", "subject": "orders-svc, 3 partitions"}\n{"group": 1}\n',
            "ch-3333": "[broken",
            "ch-4444": '{"what": "reset", "subject": "evil\\u001b[2J"}\n',
            "ch-5555": "7\n",
        }.items()
    ):
        file = journal / f"{change}.jsonl"
        file.write_text(text)
        os.utime(file, (1_700_000_000 - age, 1_700_000_000 - age))
    (journal / "lock").touch()

    all_changes = ["ch-2222\treset orders-svc, 3 partitions", "ch-3333", "ch-4444", "ch-5555"]
    assert ask("kgroup undo ") == all_changes
    assert ask("kgroup undo ch-") == all_changes, "the shell filters"
    group = name("g")
    world.commit(group, {(world.topic(name("t")), 0): 1})
    assert group in ask.until(group, f"kgroup undo {group[:2]}")
    assert group in ask.until(group, "kgroup undo --as-of 03:05Z ")


def test_the_connection_that_is_typed_counts(
    ask: Asker, bootstrap: str, world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = world.topic(name("t"))
    (tmp_path / "config.yaml").write_text(f"contexts:\n  'my own':\n    bootstrap.servers: {bootstrap}\n")
    (tmp_path / "c.properties").write_text(f"bootstrap.servers={bootstrap}\n")

    for flags in (
        f"-b {bootstrap}",
        "--context 'my own'",
        f"-X bootstrap.servers={bootstrap}",
        f"--command-config={tmp_path}/c.properties",
    ):
        assert topic in ask.until(topic, f"kgroup {flags} describe --topic "), flags
    assert ask(TOPICS) == []


def test_a_fresh_cache_answers_without_the_cluster_and_a_stale_one_when_it_is_silent(
    ask: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with silent_server() as address:
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", address)
        lock = ask.lock()
        file = lock.with_suffix(".groups")
        file.write_text("old\n")
        wait_for(lambda: ask(GROUPS) == ["old"], "a name from the cache")
        ask.age(file, FRESH_S + 1)
        wait_for(lambda: ask(GROUPS) == ["old"], "a name from the cache")
        ask.age(file, STALE_S + 1)
        assert ask(GROUPS) == []
        ask.age(file, -3600)
        assert ask(GROUPS) == [], "a clock that was put back"


def test_the_cache_is_the_users_alone_and_has_no_secrets(
    ask: Asker, here: str, world: KafkaWorld, name: Callable[[str], str]
) -> None:
    topic = world.topic(name("t"))
    line = "kgroup -X sasl.password=hunter2 -X sasl.username=me list --topic "
    ask.until(topic, line)
    files = list(ask.cache.glob("names/*"))

    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert (ask.cache / "names").stat().st_mode & 0o777 == 0o700
    assert not [file for file in files if "hunter2" in file.name + file.read_text()]
    ask(line.replace("hunter2", "hunter3"))
    connections = {file.name.partition(".")[0] for file in (*files, *ask.cache.glob("names/*"))}
    assert len(connections) == 1, "not even as a hash"


def test_a_refused_connection_is_not_tried_at_every_key(ask: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password would lock the account."""
    with counting_server() as (address, count):
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", address)
        lock = ask.lock()
        # Asked again: a process whose time is over may leave a lock behind, and nobody who tries.
        wait_for(lambda: ask(GROUPS) or count() > 0, "a first try")

        def five_keys() -> tuple[str, str] | None:
            """What is known of the last try before and after them; None where they took so long that one was due."""
            before = lock.read_text()
            assert [ask(GROUPS) for _ in range(5)] == [[]] * 5
            return (before, lock.read_text()) if time.time() < float(before or 0) + _TRY_EVERY_S else None

        before, after = wait_for(five_keys, "five keys in time")
        assert before == after


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def counting_server() -> Iterator[tuple[str, Callable[[], int]]]:
    """Hangs up on each connection, and counts them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        taken = 0

        def count() -> int:
            nonlocal taken
            while True:
                try:
                    server.accept()[0].close()
                except BlockingIOError:
                    return taken
                taken += 1

        yield f"127.0.0.1:{server.getsockname()[1]}", count


@contextmanager
def black_hole() -> Iterator[str]:
    """An address where nothing comes back: the queue of connections is full, so the kernel drops the next ones."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def nobody() -> Iterator[str]:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    yield address


@contextmanager
def unknown_name() -> Iterator[str]:
    """A name that no resolver knows."""
    yield "no-such-host.invalid:9092"


def in_time(ask: Asker, line: str, *, anew: bool = True) -> None:
    """Nothing is said, and not slowly: for more than half of the tries, each with a cluster not asked before.

    The time is that of the process beyond what the same one takes that asks for nothing, in the same moment: a busy
    machine makes both slow, a cluster that is waited for only one.
    """

    def took_s(line: str) -> float:
        if anew:
            ask.forget()
        begin = time.perf_counter()
        assert ask(line) == []
        return time.perf_counter() - begin

    beyond = sorted(took_s(line) - took_s(CONTEXTS) for _ in range(5))
    assert beyond[2] < 0.3, beyond


@pytest.mark.parametrize("server", [nobody, silent_server, black_hole, unknown_name])
def test_a_cluster_that_does_not_answer_costs_nothing(
    ask: Asker, server: Callable[[], AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with server() as address:
        in_time(ask, f"kgroup -b {address} describe ")
        in_time(ask, f"kgroup -b {address} describe --topic ", anew=False)


BROKEN: dict[str, tuple[str, dict[str, str]]] = {
    "no cluster": (GROUPS, {}),
    "no such context": (GROUPS, {"KGROUP_CONTEXT": "nowhere"}),
    "a broken file": ("kgroup --context prod describe ", {"config": "contexts: ["}),
    "a broken file of contexts": (CONTEXTS, {"config": "contexts: {a: 1"}),
    "no contexts": (CONTEXTS, {}),
    "no properties": ("kgroup -b x:1 --command-config nowhere.properties describe ", {}),
    "wrong settings": ("kgroup -b x:1 -X sasl.mechanism=NONE describe ", {}),
    "an unknown setting": ("kgroup -b 127.0.0.1:1 -X what.is.this=1 describe ", {}),
    "a connection that only the shell knows": ("kgroup -b $(hostname):9092 describe ", {}),
    "an open quote": ("kgroup -b 'x:1 describe ", {}),
    "no address": ("kgroup -b '' describe ", {}),
    "properties that are not closed": (GROUPS, {"KGROUP_PROPERTIES": "'"}),
    "no place for the cache": ("kgroup -b 127.0.0.1:1 describe ", {"KGROUP_CACHE_DIR": "/dev/null/cache"}),
    "bytes that are no text": ("kgroup -b '\udcff:1' describe ", {}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_configuration_is_silent(ask: Asker, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, settings = BROKEN[case]
    for variable, value in settings.items():
        if variable == "config":
            (tmp_path / "config.yaml").write_text(value)
        else:
            monkeypatch.setenv(variable, value)

    assert ask(line) == []


def test_a_read_that_hangs_is_given_up(ask: Asker, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.yaml")

    assert ask.process(CONTEXTS).stdout == ""


@pytest.mark.parametrize("arguments", [[], ["tcsh"]])
def test_no_shell_and_an_unknown_one_are_silent(ask: Asker, arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "kgroup", "__complete", *arguments], capture_output=True, check=True)

    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.parametrize("warm", [True, False])
def test_what_a_key_imports(
    ask: Asker, here: str, world: KafkaWorld, name: Callable[[str], str], *, warm: bool
) -> None:
    if warm:
        topic = world.topic(name("t"))
        ask.until(topic, TOPICS)

    def imported() -> set[str] | None:
        """None where the process had no time left for it."""
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "kgroup", "__complete", "fish"],
            capture_output=True,
            text=True,
            env=os.environ | {"KGROUP_LINE": TOPICS},
            check=True,
        )
        modules = {row.rpartition("|")[2].strip() for row in done.stderr.splitlines()}
        return modules if "kgroup.cli.completion.names" in modules else None

    modules = wait_for(imported, "its own modules")
    heavy = {"typer", "rich", "kafka", "confluent_kafka", "yaml", "asyncio", "kgroup.cli.options", "kgroup.cluster"}
    assert not {module for module in modules if module in heavy or module.partition(".")[0] in heavy}
