"""Completions: the scripts are the tool's own, work in the real shells, and what they ask is silent and quick."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from kgroup.cli.completion import line as lines
from kgroup.cli.completion.candidates import DATA, find_candidates
from kgroup.cli.completion.names import _TRY_EVERY_S, FRESH_S, STALE_S, is_plain
from kgroup.cli.verbs import VERBS
from kgroup.commands.completion import SCRIPTS
from kgroup.settings.connection import Connection
from tests.support.command_line import CommandLine
from tests.support.completion_tree import read_tree, text_of
from tests.support.kafka_world import KafkaWorld
from tests.support.places import ROOT
from tests.support.shells import Shell, Terminal, find_shell
from tests.support.waiting import wait_for

BASH_BREAKS = " \t\n\"'@><=;|&(:"
GROUPS = "kgroup describe "
TOPICS = "kgroup describe --topic "
CONTEXTS = "kgroup --context "


# The scripts and the tree


def test_the_tree_is_that_of_the_commands() -> None:
    command = "python -m tests.support.completion_tree"

    assert command in (ROOT / "README.md").read_text(encoding="utf-8")
    assert text_of(read_tree()) == DATA.read_text(encoding="utf-8"), f"make the file again: {command}"


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_script_is_printed_as_it_is(kgroup_cli: CommandLine, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    kept = (ROOT / "completions" / SCRIPTS[shell]).read_text(encoding="utf-8")
    assert kgroup_cli("completion", shell).stdout == kept
    (document,) = kgroup_cli("completion", shell, "-o", "json").data
    assert document == {"shell": shell, "script": kept}


def test_a_shell_that_is_not_known(kgroup_cli: CommandLine) -> None:
    printed = kgroup_cli("completion", "tcsh", exit_code=2).stderr

    assert "'tcsh'" in printed
    assert "bash, zsh, fish" in printed


def candidates(line: str) -> tuple[str, list[str], str]:
    """Kind, words and what precedes them at the end of a line without quotes."""
    *words, current = line.split(" ")
    found = find_candidates(words, current)
    return found.kind, list(found.words), found.before


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kgroup ", [verb.name for verb in VERBS]),
        ("kgroup -b x:9092 -X a=b --timeout=5s ", [verb.name for verb in VERBS]),
        ("kgroup context ", ["list", "use", "show"]),
        ("kgroup -b x:1 context -X a=b ", ["list", "use", "show"]),
        ("kgroup list -o ", ["table", "wide", "json", "yaml", "csv", "markdown"]),
        ("kgroup lag --fail-on ", ["warn", "rewind", "stall", "stop"]),
        ("kgroup doctor --fail-on ", ["info", "warning", "critical"]),
        ("kgroup lag --isolation ", ["read_uncommitted", "read_committed"]),
        ("kgroup simulate --assignor ", ["range", "roundrobin", "sticky", "cooperative-sticky", "uniform"]),
        ("kgroup migrate --only ", ["ready"]),
        ("kgroup reset --only ", ["out-of-range"]),
        ("kgroup sandbox up --brokers ", ["1", "3"]),
        ("kgroup completion ", ["bash", "zsh", "fish"]),
        ("kgroup list --no-such-flag=c", []),
        ("kgroup list --all-groups=c", []),
        ("kgroup completion bash ", []),
        ("kgroup completion -- --", ["bash", "zsh", "fish"]),
    ],
)
def test_words_that_may_stand_at_the_cursor(line: str, words: list[str]) -> None:
    assert candidates(line) == ("words", words, "")


@pytest.mark.parametrize(
    ("line", "kind", "before"),
    [
        ("kgroup undo ", "groups", ""),
        ("kgroup describe a b ", "groups", ""),
        ("kgroup describe --group=", "groups", "--group="),
        ("kgroup --context ", "contexts", ""),
        ("kgroup context use ", "contexts", ""),
        ("kgroup describe --topic ", "topics", ""),
        ("kgroup history --since ", "text", ""),  # DURATION|TIME is a placeholder
        ("kgroup reset --save-skipped ", "files", ""),
        ("kgroup list --command-config=", "files", "--command-config="),
        ("kgroup sandbox up --jars ", "directories", ""),
        ("kgroup list --output=", "words", "--output="),
        ("kgroup list -ojs", "words", "-o"),
    ],
)
def test_values_that_may_stand_at_the_cursor(line: str, kind: str, before: str) -> None:
    found = candidates(line)

    assert (found[0], found[2]) == (kind, before)


def test_only_options_that_may_be_repeated_are_offered_again() -> None:
    offered = candidates("kgroup -b x:1 list --group a -X a=b -o json -")[1]

    assert {"--group", "-X", "--property", "--in-state"} <= set(offered)
    assert not {"-b", "--bootstrap-server", "-o", "--output"} & set(offered)


def test_every_flag_of_every_verb_is_offered(kgroup_cli: CommandLine) -> None:
    for verb in VERBS:
        page = kgroup_cli(verb.name, "--help").stdout
        named = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", page, re.M))
        assert named <= set(candidates(f"kgroup {verb.name} -")[1]), verb.name


# The line


@pytest.mark.parametrize(
    ("line", "words", "current"),
    [
        ("kgroup describe ", ["kgroup", "describe"], ("", "", 0)),
        ("kgroup desc", ["kgroup"], ("desc", "", 0)),
        ("kgroup -b 'a b' x", ["kgroup", "-b", "a b"], ("x", "", 0)),
        (r"kgroup my\ gr", ["kgroup"], ("my gr", "", 0)),
        ("kgroup 'my gr", ["kgroup"], ("my gr", "'", 0)),
        ('kgroup "my gr', ["kgroup"], ("my gr", '"', 0)),
        ("kgroup 'my 'gr", ["kgroup"], ("my gr", "", 0)),
        ("kgroup my' gr", ["kgroup"], ("my gr", "'", 2)),
        ("kgroup --group=a:b", ["kgroup"], ("--group=a:b", "", 10)),
        (r"kgroup a\:b", ["kgroup"], ("a:b", "", 0)),
        ("kgroup $HOME/x ", ["kgroup", "/home/me/x"], ("", "", 0)),
        ("kgroup ~/x ", ["kgroup", "/home/me/x"], ("", "", 0)),
        ("kgroup '$HOME' ", ["kgroup", "$HOME"], ("", "", 0)),
        ("kgroup ''  ", ["kgroup", ""], ("", "", 0)),
    ],
)
def test_a_line_in_words(line: str, words: list[str], current: tuple[str, str, int]) -> None:
    read = lines.parse(line, {"HOME": "/home/me"}, BASH_BREAKS)

    assert [word.text for word in read.words] == words
    assert all(word.known for word in read.words)
    assert (read.current.text, read.current.quote, read.current.kept) == current


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("kgroup -b b:1 describe ", Connection(bootstrap_server="b:1")),
        ("kgroup describe --bootstrap-server=b:1 ", Connection(bootstrap_server="b:1")),
        ("kgroup describe -bb:1 ", Connection(bootstrap_server="b:1")),
        ("kgroup -b a:1 describe -b b:1 ", Connection(bootstrap_server="b:1")),
        ("kgroup -X a=1 describe --property b=2 ", Connection(property=["a=1", "b=2"])),
        ("kgroup --context prod --command-config c ", Connection(context="prod", command_config=Path("c"))),
        ('kgroup -b "$SERVER" ', Connection(bootstrap_server="s:1")),
        ("kgroup describe -- -b b:1 ", Connection()),
        ("kgroup describe -b ", Connection()),
        ("kgroup describe -b b:", Connection()),
    ],
)
def test_the_connection_of_a_line(line: str, found: Connection) -> None:
    assert lines.connection(lines.parse(line, {"SERVER": "s:1"}).words) == found


@pytest.mark.parametrize("value", ["$(hostname):9092", "`hostname`:9092", '"$UNSET"', "$UNSET", "$SPACED", "$'b:1'"])
def test_a_connection_that_only_the_shell_knows_is_not_guessed(value: str) -> None:
    """A password that is sent with its variable's name in place of its value locks accounts."""
    with pytest.raises(lines.NotYetKnown):
        lines.connection(lines.parse(f"kgroup -b {value} ", {"SPACED": "a b"}).words)


NASTY = [
    "plain",
    "with space",
    "it's",
    'say "hi"',
    "$(touch hacked)",
    "`touch hacked`",
    "a:b:c",
    "k=v",
    "a@b",
    "dollar$HOME",
    "semi;colon&and|pipe",
    "back\\slash",
    "star*[ab]?",
    "ünïcode-名前",
    "~tilde",
    "#hash",
    "bang!bang",
    "{a,b}",
    "<(ls)>x",
    "trailing\\",
    "^caret%",
]


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("name", NASTY)
def test_bash_reads_a_name_back_as_it_is(name: str, quote: str, tmp_path: Path) -> None:
    piece = lines.for_bash(name, lines.Current("", quote, 0))
    done = subprocess.run(
        ["bash", "-c", f"printf %s {quote}{piece}{quote}"], capture_output=True, cwd=tmp_path, check=True
    )

    assert done.stdout.decode() == name
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "word", "piece"),
    [
        ("kgroup d a:", "a:b c", "b\\ c"),
        ("kgroup d --group=a", "--group=a:b", "a:b"),
        ("kgroup d --group=a:", "--group=a:b", "b"),
        ("kgroup d 'a:", "a:b c", "a:b c"),
        ("kgroup d --group='a", "--group=a:b c", "a:b c"),
        ("kgroup d a\\:", "a:b", "a:b"),
    ],
)
def test_bash_is_given_what_follows_the_last_word_break(line: str, word: str, piece: str) -> None:
    assert lines.for_bash(word, lines.parse(line, {}, BASH_BREAKS).current) == piece


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1b[31mb", "a\x7f", "a\u202eb", "a\u200bb", ""])
def test_names_that_steer_the_terminal_are_left_out(name: str) -> None:
    assert not is_plain(name)


# What the shells ask


class Asker:
    """Runs ``kgroup __complete`` as the shells do."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache

    def __call__(self, line: str) -> list[str]:
        return [row.rstrip("\t") for row in self.process(line).stdout.splitlines()[1:]]

    def process(self, line: str) -> subprocess.CompletedProcess[str]:
        """Once, in a cold process; it must print nothing to stderr."""
        done = subprocess.run(
            [sys.executable, "-m", "kgroup", "__complete", "fish"],
            capture_output=True,
            text=True,
            env=os.environ | {"KGROUP_LINE": line},
            stdin=subprocess.DEVNULL,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done

    def until(self, wanted: str, line: str) -> list[str]:
        """Press the key until the name is there, and not on old names."""

        def found() -> list[str] | None:
            names = self(line)
            if wanted not in names:
                self.forget()
            return names if wanted in names else None

        return wait_for(found, f"{wanted} after {line!r}")

    def lock(self) -> Path:
        """The file of the last try at the one cluster; until there is one: a process may have no time left for it."""

        def tried() -> list[Path]:
            assert self(GROUPS) == []
            return list(self.cache.glob("names/*.lock"))

        (lock,) = wait_for(tried, "a try")
        return lock

    def forget(self) -> None:
        """As if the names and the last try were from long ago."""
        for file in self.cache.glob("names/*"):
            if file.suffix == ".lock":
                file.write_text("")
            else:
                self.age(file, STALE_S + 1)

    @staticmethod
    def age(file: Path, by_s: float) -> None:
        """Make a file this old."""
        then = time.time() - by_s
        os.utime(file, (then, then))


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asker:
    monkeypatch.setenv("KGROUP_CACHE_DIR", str(tmp_path / "cache"))
    return Asker(tmp_path / "cache")


@pytest.fixture
def here(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The shared broker, named in the environment."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", bootstrap)
    return bootstrap


def test_groups_and_topics_of_the_cluster(ask: Asker, here: str, world: KafkaWorld, name: Callable[[str], str]) -> None:
    topic, group = world.topic(name("t")), name("g")
    world.commit(group, {(topic, 0): 1})

    assert group in ask.until(group, GROUPS)
    topics = ask.until(topic, TOPICS)
    assert not [each for each in topics if each.startswith("__")]
    wait_for(lambda: "__consumer_offsets" in ask(TOPICS + "_"), "internal topics")


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
    assert {file.stem for file in ask.cache.glob("names/*")} == {files[0].stem}, "not even as a hash"


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
    ask: Asker, server: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with server() as address:  # type: ignore[attr-defined]
        in_time(ask, f"kgroup -b {address} describe ")
        in_time(ask, f"kgroup -b {address} describe --topic ", anew=False)


BROKEN: dict[str, tuple[str, dict[str, str | None]]] = {
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
    "a pipe for a file": (CONTEXTS, {"config": None}),
    "bytes that are no text": ("kgroup -b '\udcff:1' describe ", {}),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_configuration_is_silent(ask: Asker, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line, settings = BROKEN[case]
    for variable, value in settings.items():
        if variable != "config":
            monkeypatch.setenv(variable, value or "")
        elif value is None:
            os.mkfifo(tmp_path / "config.yaml")
        else:
            (tmp_path / "config.yaml").write_text(value)

    in_time(ask, line)


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


# In the shells


class Prompt:
    """A shell with our script, at whose prompt ``kgroup`` writes down what it is given."""

    def __init__(self, shell: Shell, folder: Path) -> None:
        self.shell, self._folder = shell, folder
        self._record = folder / "record"
        self._home = folder / "home"
        (folder / "bin").mkdir()
        self._home.mkdir()
        program = folder / "bin" / "kgroup"
        program.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = __complete ]; then exec {shlex.quote(sys.executable)} -m kgroup "$@"; fi\n'
            'printf \'%s\\0\' "$@" > "$RECORD.part" && mv "$RECORD.part" "$RECORD"\n'
        )
        program.chmod(0o755)
        self.script = ROOT / "completions" / SCRIPTS[shell.name]
        self.before = {
            "bash": f"PS1='ready> '; source {shlex.quote(str(self.script))}",
            "zsh": "PROMPT='ready> '\n"
            "autoload -Uz compinit; compinit -u -d ~/.zcompdump\n" + f"source {shlex.quote(str(self.script))}",
            "fish": f"function fish_prompt; echo 'ready> '; end; source {shlex.quote(str(self.script))}",
        }[shell.name]

    @property
    def env(self) -> dict[str, str]:
        """The test's environment as it is now, with a home of the shell's own."""
        return {
            **os.environ,
            "HOME": str(self._home),
            "ZDOTDIR": str(self._home),
            "XDG_CONFIG_HOME": str(self._home),
            "XDG_DATA_HOME": str(self._home),
            "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RECORD": str(self._record),
            "LC_ALL": "C.UTF-8",
            "PS1": "ready> ",
            "HISTFILE": "",
        }

    def words(self) -> list[str]:
        """What starts the shell, interactive."""
        if self.shell.name == "bash":
            (self._home / ".bashrc").write_text(self.before)
            return [self.shell.program, "--noprofile", "--rcfile", str(self._home / ".bashrc"), "-i"]
        if self.shell.name == "zsh":
            (self._home / ".zshrc").write_text(self.before)
            return [self.shell.program, "-d", "-i"]
        return [self.shell.program, "--no-config", "-i", "-C", self.before]

    def run(self, script: str, *arguments: str) -> list[str]:
        """The lines that a script says, in a shell that has loaded ours; stderr must stay empty."""
        done = subprocess.run(
            [self.shell.program, "-c", f"{self.before}\n{script}", *arguments],
            capture_output=True,
            text=True,
            env=self.env,
            cwd=self._folder,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.splitlines()

    @contextmanager
    def terminal(self) -> Iterator[Terminal]:
        """The shell in a terminal, ready for keys."""
        with Terminal(self.words(), self.env, self._folder) as terminal:
            terminal.expect("ready> ")
            yield terminal

    def completes(self, terminal: Terminal, keys: str, wanted: list[str]) -> None:
        """The program gets these words."""
        assert self.given(terminal, keys) == wanted

    def names(self, terminal: Terminal, keys: str, wanted: list[str]) -> None:
        """... of which one is a name that a process has to find, within 0.3 s or not at all.

        Where it has not found it on a busy machine, the line stays as it was typed; it is never another one.
        """
        typed = shlex.split(re.sub(r"^kgroup |['\"\t]", "", keys))
        quoted = len(re.findall("['\"]", keys)) % 2 == 1
        seen: list[list[str] | None] = []

        def other() -> bool:
            seen.append(self.given(terminal, keys, quoted))
            return seen[-1] not in (None, typed)

        wait_for(other, f"{wanted} for {keys!r}", 60)
        assert seen[-1] == wanted

    def given(self, terminal: Terminal, keys: str, quoted: bool = False) -> list[str] | None:
        """What the program gets when these keys and Enter are pressed; None where a quote that is ``quoted`` stays
        open, so that the shell wants another line.
        """
        self._record.unlink(missing_ok=True)
        terminal.type(keys + "\r")
        try:
            wait_for(self._record.exists, f"kgroup started by {keys!r}", 5 if quoted else 15)
        except AssertionError as error:
            if quoted:
                terminal.type("\x03")
                return None
            raise AssertionError(f"{error}\n--- screen\n{terminal.screen}") from None
        return self._record.read_text().split("\0")[:-1]


@pytest.fixture
def prompt(request: pytest.FixtureRequest, ask: Asker, tmp_path: Path) -> Prompt:
    return Prompt(find_shell(request.param), tmp_path)


in_bash = pytest.mark.parametrize("prompt", ["bash"], indirect=True)
in_fish = pytest.mark.parametrize("prompt", ["fish"], indirect=True)
in_all = pytest.mark.parametrize("prompt", list(SCRIPTS), indirect=True)


@in_all
def test_the_script_loads_without_a_word(prompt: Prompt) -> None:
    assert prompt.run("true") == []


@in_all
def test_keys_complete_verbs_flags_and_values(prompt: Prompt, tmp_path: Path) -> None:
    (tmp_path / "lonely.properties").write_text("")
    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup descr\tg --offs\t", ["describe", "g", "--offsets"])
        prompt.completes(terminal, "kgroup -b x:1 cont\tuse", ["-b", "x:1", "context", "use"])
        prompt.completes(terminal, "kgroup list -o mark\t", ["list", "-o", "markdown"])
        prompt.completes(terminal, "kgroup list --output=mark\t", ["list", "--output=markdown"])
        prompt.completes(terminal, "kgroup list --in-state Prep\t", ["list", "--in-state", "PreparingRebalance"])
        prompt.completes(terminal, "kgroup wait --for mem\t3", ["wait", "--for", "members=3"])
        prompt.completes(terminal, "kgroup wait --for type=\t", ["wait", "--for", "type=consumer"])
        prompt.completes(terminal, "kgroup wait --for=type=\t", ["wait", "--for=type=consumer"])
        prompt.completes(terminal, "kgroup mig\t--protocol cons\t", ["migrate", "--protocol", "consumer"])
        prompt.completes(terminal, "kgroup migrate --only=r\t", ["migrate", "--only=ready"])
        prompt.completes(terminal, "kgroup sandbox sta\t", ["sandbox", "status"])
        prompt.completes(terminal, "kgroup help exit\t", ["help", "exit-codes"])
        prompt.completes(terminal, "kgroup completion fi\t", ["completion", "fish"])
        wanted = ["list", "--command-config", "lonely.properties"]
        prompt.completes(terminal, "kgroup list --command-config lone\t", wanted)


@in_all
def test_keys_complete_contexts(prompt: Prompt, tmp_path: Path) -> None:
    contexts = {name: {"bootstrap.servers": "x:1"} for name in ("prod", "my $(touch hacked) own", "a:b c")}
    (tmp_path / "config.yaml").write_text(json.dumps({"contexts": contexts}))

    with prompt.terminal() as terminal:
        prompt.names(terminal, "kgroup context use pr\t", ["context", "use", "prod"])
        prompt.names(terminal, "kgroup list --context my\t", ["list", "--context", "my $(touch hacked) own"])
        prompt.names(terminal, "kgroup list --context=a:\t", ["list", "--context=a:b c"])
    assert not (tmp_path / "hacked").exists()


@in_all
def test_names_from_the_cluster_are_inserted_unharmed(
    prompt: Prompt, ask: Asker, here: str, world: KafkaWorld, name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = world.topic(name("t"))
    stem = name("g").replace("-", "")
    groups = [f"{stem}{chr(ord('a') + number)}{nasty}" for number, nasty in enumerate(NASTY)]
    steering = f"{stem}zz\x1b[31m\nred"
    for group in (*groups, steering):
        world.commit(group, {(topic, 0): 1})
    found = ask.until(groups[-1], GROUPS)
    assert set(groups) <= set(found)
    assert "red" not in found

    with prompt.terminal() as terminal:
        for group in groups:
            start = group[: len(stem) + 1]
            prompt.names(terminal, f"kgroup describe {start}\t", ["describe", group])
        special = groups[4]
        start = special[: len(stem) + 1]
        prompt.names(terminal, f"kgroup describe --group {start}\t", ["describe", "--group", special])
        prompt.names(terminal, f"kgroup describe --group={start}\t", ["describe", f"--group={special}"])
        prompt.names(terminal, f"kgroup describe '{start}\t", ["describe", special])
        prompt.names(terminal, f'kgroup describe "{start}\t', ["describe", special])
        colons = groups[6]
        prompt.names(terminal, f"kgroup describe {colons[:-1]}\t", ["describe", colons])
        prompt.names(terminal, f"kgroup list --topic {topic[:-2]}\t", ["list", "--topic", topic])
    assert not (tmp_path / "hacked").exists()


@in_all
def test_a_key_without_a_cluster_leaves_the_line_alone(prompt: Prompt) -> None:
    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup describe pay\tments", ["describe", "payments"])
        assert "rror" not in terminal.screen
        assert "no cluster" not in terminal.screen


@pytest.mark.parametrize("prompt", ["zsh"], indirect=True)
def test_zsh_shows_the_help_of_flags(prompt: Prompt) -> None:
    with prompt.terminal() as terminal:
        terminal.type("kgroup describe --\t")
        terminal.expect("Only the members.")
        assert "--offsets" in terminal.screen


@pytest.mark.parametrize("prompt", ["zsh"], indirect=True)
def test_zsh_finds_the_script_in_its_path(prompt: Prompt) -> None:
    prompt.before = prompt.before.replace("autoload", f"fpath+=({shlex.quote(str(prompt.script.parent))}); autoload", 1)
    prompt.before = prompt.before.replace(f"source {shlex.quote(str(prompt.script))}", "")

    with prompt.terminal() as terminal:
        prompt.completes(terminal, "kgroup descr\tg --offs\t", ["describe", "g", "--offsets"])
        prompt.completes(terminal, "kgroup sandbox sta\t", ["sandbox", "status"])


COMPREPLY = """
COMP_LINE=$0 COMP_POINT=${#0}
_kgroup kgroup
printf '%s\\n' "${COMPREPLY[@]}"
"""


@in_bash
def test_bash_offers_all_that_may_stand_there(prompt: Prompt) -> None:
    def offers(line: str) -> list[str]:
        return prompt.run(COMPREPLY, line)

    assert offers("kgroup ") == [verb.name for verb in VERBS]
    assert offers("kgroup list --type=c") == ["classic", "consumer"]
    assert offers("kgroup wait --for lag") == ["lag=", "lag-time="]
    assert offers("kgroup list --no-such-flag=c") == [""]


@in_fish
def test_fish_offers_all_that_may_stand_there(prompt: Prompt, tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars.txt").write_text("")

    def offers(line: str) -> dict[str, str]:
        rows = prompt.run("complete -C $argv[1]", line)
        return {word: text for word, _, text in (row.partition("\t") for row in rows)}

    assert offers("kgroup ") == {verb.name: verb.help for verb in VERBS}
    assert set(offers("kgroup list --type=c")) == {"--type=classic", "--type=consumer"}
    assert offers("kgroup describe --mem") == {"--members": "Only the members."}
    assert set(offers("kgroup sandbox up --jars j")) == {"jars/"}
    assert set(offers("kgroup sandbox up --jars=j")) == {"--jars=jars/"}
    assert {"--command-config=jars/", "--command-config=jars.txt"} <= set(offers("kgroup list --command-config=j"))
