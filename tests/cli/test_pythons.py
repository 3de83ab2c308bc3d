"""Every verb as a process, on each Python that pyproject names: to its end, with a closed pipe, ctrl-C, no broker.

The everyday tests run on one Python. 3.13 never ended where a connection was left to the exit of the interpreter, and
no test that stays in one process can see that.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.test_app import COMMANDS
from tests.helpers import programs
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.places import ROOT

Name = Callable[[str], str]

VERSIONS = re.findall(r"Python :: (3\.\d+)\"", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OWN, NEWEST = f"{sys.version_info[0]}.{sys.version_info[1]}", "the newest here"
NOBODY = "127.0.0.1:1"
ENDS_WITHIN_S = 90
AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Case:
    """What is typed behind the verb, and its exit code with a broker; ``asks`` is whether it connects to one."""

    words: str
    code: int = 0
    asks: bool = True


VERB: dict[str, Case] = {
    "list": Case("-o csv"),
    "describe": Case("{group} -o csv"),
    "lag": Case("{group}"),
    "doctor": Case("{group}"),
    "history": Case("{group}"),
    "peek": Case("{group}"),
    "wait": Case("{group} --for empty --within 30s"),
    "simulate": Case("{group} --add 2"),
    "export": Case("{group}"),
    "reset": Case("{group} --to-earliest --all-topics --execute --accept active-committer"),
    "undo": Case("ch-none", 5),
    "migrate": Case("{group}"),
    "evict": Case("{group} --member none", 5),
    "delete": Case("{group}"),
    "delete-offsets": Case("{group} --topic {topic}"),
    "catchup start": Case("{group} --release-only"),
    "catchup check": Case("--report x.json", 2, asks=False),  # more depends on whether PySpark is there
    "catchup list": Case(""),
    "catchup show": Case("none", 5),
    "catchup throttle": Case("none off", 5),
    "catchup stop": Case("none", 5),
    "catchup resume": Case("none --to-topic {topic}", 5),
    "catchup done": Case("none --by job", 5),
    "catchup cancel": Case("none", 5),
    "catchup prune": Case("none", 5),
    "context list": Case("", asks=False),
    "context use": Case("none", 5, asks=False),
    "context show": Case("-b 127.0.0.1:1", asks=False),
    "sandbox up": Case("", asks=False),
    "sandbox status": Case("", asks=False),
    "sandbox demo": Case("--crash-only", asks=False),
    "sandbox down": Case("--wipe", asks=False),
    "completion": Case("bash", asks=False),
    "help": Case("exit-codes", asks=False),
}
"""In this order: the sandbox's verbs need each other."""

ASKING = [verb for verb, case in VERB.items() if case.asks]


def test_no_verb_is_missing() -> None:
    assert sorted(VERB) == sorted(" ".join(command) for command in COMMANDS)


def found(version: str) -> str | None:
    """An interpreter of this version: on PATH, where it runs, or in the directory of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for path in (shutil.which(f"python{version}"), *sorted(map(str, pyenv.glob(f"{version}.*/bin/python3")))):
        says = [path or "", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if path and subprocess.run(says, capture_output=True, text=True).stdout.strip() == version:
            return path
    return None


@functools.cache
def installed(version: str, directory: Path) -> str | None:
    """A Python of this version that has kgroup, not its tests; this process's own for its own version."""
    if version == OWN:
        return sys.executable
    interpreter = found(version)
    if interpreter is None:
        return None
    home = directory / f"python-{version}"
    subprocess.run([interpreter, "-m", "venv", home], check=True, timeout=120)
    python = str(home / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", ROOT], check=True, timeout=400)
    return python


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the virtual environments are."""
    return tmp_path_factory.mktemp("pythons")


@pytest.fixture(params=VERSIONS)
@programs.needs("python3")
def python(request: pytest.FixtureRequest, environments: Path) -> str:
    """A Python that has kgroup, of each version."""
    version: str = request.param
    if version == NEWEST:
        version = next(each for each in reversed(VERSIONS) if each == OWN or found(each))
    path = installed(version, environments)
    if path is None:
        # Not an error on a machine that has one Python; pytest's summary shows it, where -q hides what is skipped.
        warnings.warn(f"NOT TESTED on Python {version}: there is no python{version} here", stacklevel=1)
        pytest.skip(f"no python{version}")
    return path


on_the_newest = pytest.mark.parametrize("python", [NEWEST], indirect=True)
"""What is left to the exit of the interpreter differs from one version to the next: the newest shows it first."""


pytestmark = pytest.mark.filterwarnings("always:NOT TESTED on Python")


@dataclass(frozen=True, slots=True)
class Shop:
    """A topic, and a group with commits of which no form fits into a pipe at once."""

    topic: str
    group: str


@pytest.fixture
def shop(world: KafkaWorld, name: Name) -> Shop:
    """An empty group."""
    topic, group = world.topic(name("orders"), partitions=40), name("svc")
    world.produce(topic, 3)
    world.commit(group, {(topic, number): 0 for number in range(40)})
    return Shop(topic, group)


class Process:
    """kgroup as a process of a Python."""

    def __init__(self, python: str, verb: str, shop: Shop, *more: str, state: Path, stdout: int) -> None:
        words = VERB[verb].words.format(group=shop.group, topic=shop.topic).split()
        # Neither the sources nor this process's own packages: what was installed is what runs.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("KGROUP_", "PYTHON"))}
        environment |= {"KGROUP_STATE_DIR": str(state), "KGROUP_CONFIG": str(state / "config.yaml")}
        self._what = f"{python} -m kgroup {verb}"
        self.running = subprocess.Popen(
            [python, "-m", "kgroup", *verb.split(), *words, *more],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            cwd=state,
            env=environment,
        )

    def ends_with(self, *codes: int) -> list[str]:
        """What is wrong with its end: nothing, in the best case."""
        try:
            _, said = self.running.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.communicate()
            return [f"{self._what} did not end"]
        wrong = (
            [f"{self._what} exited {self.running.returncode}: {said}"] if self.running.returncode not in codes else []
        )
        return wrong + [f"{self._what}: {said}" for word in ("Traceback", "Exception ignored") if word in said]


def all_of(verbs: Sequence[str], check: Callable[[str], list[str]]) -> None:
    """Check some at a time; all that is wrong is said."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert [line for wrong in pool.map(check, verbs) for line in wrong] == []


@pytest.fixture
def state(tmp_path: Path, python: str) -> Iterator[Path]:
    """The state directory of the processes; a sandbox that is left in it is taken down."""
    yield tmp_path
    subprocess.run(
        [python, "-m", "kgroup", "sandbox", "down", "--wipe"],
        env=os.environ | {"KGROUP_STATE_DIR": str(tmp_path)},
        capture_output=True,
        check=True,
        timeout=ENDS_WITHIN_S,
    )


@pytest.mark.soak
def test_every_verb_ends(python: str, bootstrap: str, shop: Shop, state: Path) -> None:
    def check(verb: str) -> list[str]:
        case = VERB[verb]
        connection = ("-b", bootstrap) if case.asks else ()
        process = Process(python, verb, shop, *connection, state=state, stdout=subprocess.PIPE)
        return process.ends_with(case.code)

    all_of(ASKING, check)
    for verb in VERB:
        if verb not in ASKING:
            assert check(verb) == []


@pytest.mark.soak
@on_the_newest
def test_every_verb_ends_when_nobody_reads(python: str, bootstrap: str, shop: Shop, state: Path) -> None:
    """The pipe is closed before the first line: what is left to be written is not worth a word."""

    def check(verb: str) -> list[str]:
        case = VERB[verb]
        reading, writing = os.pipe()
        os.close(reading)
        connection = ("-b", bootstrap) if case.asks else ()
        process = Process(python, verb, shop, *connection, state=state, stdout=writing)
        os.close(writing)
        return process.ends_with(case.code)

    all_of([verb for verb in VERB if verb not in ("sandbox up", "sandbox demo", "sandbox down")], check)


@pytest.mark.soak
@on_the_newest
def test_every_verb_ends_without_a_broker(python: str, shop: Shop, state: Path) -> None:
    all_of(
        ASKING,
        lambda verb: Process(python, verb, shop, "-b", NOBODY, state=state, stdout=subprocess.PIPE).ends_with(3),
    )


@pytest.mark.soak
@on_the_newest
def test_every_verb_ends_at_ctrl_c(python: str, shop: Shop, state: Path) -> None:
    """While a server that never answers keeps it waiting."""

    def check(verb: str) -> list[str]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(ENDS_WITHIN_S)
            connection = ("-b", f"127.0.0.1:{server.getsockname()[1]}", "--timeout", "300s")
            process = Process(python, verb, shop, *connection, state=state, stdout=subprocess.PIPE)
            taken, _ = server.accept()
            with taken:
                process.running.send_signal(signal.SIGINT)
                return process.ends_with(130)

    all_of(ASKING, check)


@pytest.mark.soak
@on_the_newest
@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("describe", ("--watch", "-o", "json")),
        ("lag", ("--watch", "-o", "json")),
        ("history", ("--follow", "-o", "json")),
    ],
    ids=["describe --watch", "lag --watch", "history --follow"],
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_what_goes_on_ends_at_a_signal(
    python: str, bootstrap: str, shop: Shop, state: Path, verb: str, more: tuple[str, ...], number: int, code: int
) -> None:
    """After its first line."""
    process = Process(python, verb, shop, "-b", bootstrap, *more, state=state, stdout=subprocess.PIPE)
    assert process.running.stdout is not None
    assert process.running.stdout.readline()

    process.running.send_signal(number)

    assert process.ends_with(code) == []
