"""kgroup as a process: signals, closed pipes, ports that are not Kafka, time limits, secrets."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for

Handler = Callable[[socket.socket], None]
SECRET = "hunter2-S3cr3t"
SASL = (
    *("-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN"),
    *("-X", "sasl.username=oncall", "-X", f"sasl.password={SECRET}"),
)
NOBODY = "127.0.0.1:1"


class Server:
    """A TCP server on loopback that does with each connection what ``handler`` does."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self.connected = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Hang up on everybody."""
        for one in (self._listener, *self.connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                self.connected.set()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._handler(connection)


def silent(connection: socket.socket) -> None:
    """Read and never answer."""
    while connection.recv(4096):
        pass


def http(connection: socket.socket) -> None:
    """Answer as a web server does to nonsense."""
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    connection.close()


def garbage(connection: socket.socket) -> None:
    """Answer with bytes that mean nothing."""
    connection.recv(4096)
    connection.sendall(bytes(range(256)) * 20)
    connection.close()


def huge(connection: socket.socket) -> None:
    """Announce an answer of two gigabytes."""
    connection.recv(4096)
    connection.sendall(b"\x7f\xff\xff\xff" + b"\x00" * 64)
    silent(connection)


def echo(connection: socket.socket) -> None:
    """Send back what came."""
    while data := connection.recv(4096):
        connection.sendall(data)


def hang_up(connection: socket.socket) -> None:
    """Close at once."""
    connection.close()


def ssh(connection: socket.socket) -> None:
    """Greet first."""
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    silent(connection)


@pytest.fixture
def serve() -> Iterator[Callable[[Handler], Server]]:
    """Starts servers, and closes them when the test is over."""
    servers: list[Server] = []

    def start(handler: Handler) -> Server:
        servers.append(Server(handler))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def finish(process: subprocess.Popen[str], within_s: float) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; killed, and an error, where it takes longer."""
    try:
        stdout, stderr = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
        raise AssertionError(f"still running after {within_s} s\n{stdout}\n{stderr}") from None
    return process.returncode, stdout, stderr


# Signals


@pytest.mark.parametrize("verb", [["list"], ["describe", "orders"], ["describe", "orders", "-o", "json"]], ids=" ".join)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)], ids=["INT", "TERM", "HUP"]
)
def test_a_signal_during_a_slow_call(
    kgroup_cli: CommandLine,
    serve: Callable[[Handler], Server],
    verb: list[str],
    number: signal.Signals,
    code: int,
) -> None:
    server = serve(silent)
    process = kgroup_cli.start(*verb, "-b", server.address, "--timeout", "60s")
    wait_for(lambda: server.connections or process.poll() is not None, "a connection")

    process.send_signal(number)
    found, stdout, stderr = finish(process, within_s=30)

    assert found == code
    assert "Traceback" not in stderr
    assert "Exception" not in stderr
    assert stdout == ""
    assert len(stderr.splitlines()) <= 1


@pytest.mark.parametrize("times", [1, pytest.param(25, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_a_signal_is_not_lost_in_the_clients_event_loop(
    kgroup_cli: CommandLine, serve: Callable[[Handler], Server], number: signal.Signals, code: int, times: int
) -> None:
    """kafka-python's selector logs whatever a task raises and goes on; ctrl-C at that moment must end us"""
    for _ in range(times):
        server = serve(silent)
        process = kgroup_cli.start("describe", "orders", "-b", server.address, "--timeout", "60s")
        assert server.connected.wait(20)

        process.send_signal(number)
        found, _, stderr = finish(process, within_s=30)

        assert "Traceback" not in stderr
        assert found == code


def test_a_second_ctrl_c_makes_no_traceback(kgroup_cli: CommandLine, serve: Callable[[Handler], Server]) -> None:
    server = serve(silent)
    process = kgroup_cli.start("list", "-b", server.address, "--timeout", "60s")
    wait_for(lambda: server.connections, "a connection")

    process.send_signal(signal.SIGINT)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    found, _, stderr = finish(process, within_s=30)

    assert "Traceback" not in stderr
    assert found in (130, -signal.SIGINT)


@pytest.mark.parametrize("handler", [hang_up, garbage])
def test_ctrl_c_while_the_reason_is_looked_for(
    kgroup_cli: CommandLine, serve: Callable[[Handler], Server], handler: Handler
) -> None:
    """The diagnosis makes a second connection; a signal then ends it too, or comes too late."""
    server = serve(handler)
    process = kgroup_cli.start("list", "-b", server.address, "--timeout", "60s")
    wait_for(lambda: len(server.connections) > 1 or process.poll() is not None, "two connections")

    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    found, _, stderr = finish(process, within_s=30)

    assert found in (130, 3, -signal.SIGINT), "the last: while Python was leaving already"
    assert "Traceback" not in stderr


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=["HUP", "INT"])
def test_a_signal_that_the_shell_ignores_stays_ignored(
    kgroup_cli: CommandLine, serve: Callable[[Handler], Server], number: signal.Signals
) -> None:
    """``nohup kgroup ...`` goes on when the terminal closes, ``kgroup ... &`` in a script when it is interrupted."""
    server = serve(silent)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import os, signal, sys; signal.signal({int(number)}, signal.SIG_IGN); "
            "os.execv(sys.executable, [sys.executable, '-m', 'kgroup', *sys.argv[1:]])",
            *("list", "-b", server.address, "--timeout", "1500ms"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: server.connections, "a connection")

    process.send_signal(number)
    found, _, stderr = finish(process, within_s=20)

    assert found == 3, stderr


# Pipes


def closed_pipe() -> int:
    """The writing end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["help"], 0),
        (["--help"], 0),
        (["describe", "--help"], 0),
        (["--version"], 0),
        (["help", "-o", "json"], 0),
        (["help", "-o", "csv"], 0),
        (["help", "-o", "markdown"], 0),
        (["list", "-b", NOBODY, "-o", "json"], 3),
        (["list", "--bogus", "-o", "json"], 2),
    ],
    ids=str,
)
def test_nobody_reads_stdout(arguments: list[str], code: int) -> None:
    pipe = closed_pipe()
    done = subprocess.run(
        [sys.executable, "-m", "kgroup", *arguments], stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(pipe)

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.returncode == code


@pytest.mark.parametrize(("arguments", "code"), [(["list", "-b", NOBODY], 3), (["lst"], 2)], ids=str)
def test_nobody_reads_stderr(arguments: list[str], code: int) -> None:
    pipe = closed_pipe()
    done = subprocess.run([sys.executable, "-m", "kgroup", *arguments], stderr=pipe, stdout=subprocess.PIPE, timeout=60)
    os.close(pipe)

    assert done.returncode == code


@pytest.mark.programs("bash", "head")
def test_head_takes_the_first_line_of_many(kgroup: CommandLine) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kgroup list -o csv | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == ["group,type,state,protocol_type,coordinator,member_count,last_activity_at", "0"]
    assert done.stderr == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_descriptor_is_no_crash(closed: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m kgroup help {closed}"], capture_output=True, text=True, timeout=60
    )

    assert "Traceback" not in done.stderr
    assert done.returncode == 0 or (closed == ">&-" and done.returncode == 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["help", "-o", "json"]], ids=" ".join)
def test_a_full_disk_is_an_error_and_no_traceback(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kgroup", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )

    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


# What is not Kafka


def test_no_broker_is_said_at_once(kgroup_cli: CommandLine) -> None:
    started = time.monotonic()
    result = kgroup_cli.process("list", "-b", NOBODY, "--timeout", "60s", exit_code=3)

    assert time.monotonic() - started < 20, "not after the time limit"
    assert result.stderr.startswith(f"kgroup: {NOBODY} ")
    assert "[unreachable]" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("verb", [["list"], ["describe", "orders"]], ids=" ".join)
@pytest.mark.parametrize("handler", [http, garbage, huge, echo, hang_up, ssh])
def test_a_port_that_is_not_kafka(
    kgroup_cli: CommandLine,
    serve: Callable[[Handler], Server],
    capfd: pytest.CaptureFixture[str],
    handler: Handler,
    verb: list[str],
) -> None:
    server = serve(handler)
    started = time.monotonic()

    result = kgroup_cli(*verb, "-b", server.address, "--timeout", "60s", exit_code=3)

    assert time.monotonic() - started < 20, "not after the time limit"
    assert capfd.readouterr() == ("", ""), "what clients write past Python"
    first = result.stderr.splitlines()[0]
    assert server.address in first
    assert first.endswith("[not-kafka]")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_an_http_server_is_called_one(kgroup_cli: CommandLine, serve: Callable[[Handler], Server]) -> None:
    assert "HTTP" in kgroup_cli.process("list", "-b", serve(http).address, exit_code=3).stderr


@pytest.mark.parametrize("handler", [http, hang_up, silent])
def test_with_json_the_words_are_in_the_envelope(
    kgroup_cli: CommandLine, serve: Callable[[Handler], Server], handler: Handler
) -> None:
    server = serve(handler)

    result = kgroup_cli("list", "-b", server.address, "--timeout", "1s", "-o", "json", exit_code=3)

    (error,) = result.json["errors"]
    assert server.address in error["message"]
    assert error["message"] in result.stderr
    assert f"[{error['code']}]" in result.stderr


@pytest.mark.parametrize("verb", [["list"], ["describe", "orders"]], ids=" ".join)
def test_a_server_that_never_answers_costs_the_time_limit(
    kgroup_cli: CommandLine, serve: Callable[[Handler], Server], verb: list[str]
) -> None:
    server = serve(silent)
    quickest = 99.0
    for _ in range(3):  # at best: the machine may stand still meanwhile
        started = time.monotonic()
        result = kgroup_cli(*verb, "-b", server.address, "--timeout", "2s", exit_code=3)
        took = time.monotonic() - started
        assert took >= 1.9
        assert "[timed-out]" in result.stderr
        quickest = min(quickest, took)
        if quickest < 4:
            break
    assert quickest < 4, "about 2 s, and no second time limit for the diagnosis"


@pytest.fixture
def group(world: KafkaWorld, name: Callable[[str], str]) -> str:
    """One that is there."""
    group = name("svc")
    world.commit(group, {(world.topic(name("orders")), 0): 1})
    return group


def test_a_server_that_never_answers_does_not_hide_the_one_that_does(
    kgroup: CommandLine, bootstrap: str, group: str, serve: Callable[[Handler], Server]
) -> None:
    server = serve(silent)

    result = kgroup("list", "-b", f"{server.address},{bootstrap}", "--timeout", "6s", "-o", "csv")

    assert group in [row["group"] for row in result.rows]
    assert result.stderr == ""


@pytest.mark.parametrize("first", [NOBODY, "no-such-host.invalid:9092"])
def test_one_server_that_is_gone_does_not_hide_the_others(
    kgroup: CommandLine, bootstrap: str, group: str, first: str
) -> None:
    result = kgroup("list", "-b", f"{first},{bootstrap}", "-o", "csv")

    assert group in [row["group"] for row in result.rows]


def test_a_name_that_does_not_exist(kgroup_cli: CommandLine) -> None:
    result = kgroup_cli("list", "-b", "no-such-host.invalid:9092", "--timeout", "5s", exit_code=3)

    assert "no-such-host.invalid" in result.stderr.splitlines()[0]
    assert "Traceback" not in result.stderr


# The command line


@pytest.mark.parametrize("verb", [["list"], ["describe"], ["describe", "orders"]], ids=" ".join)
def test_without_a_bootstrap_server(kgroup_cli: CommandLine, verb: list[str]) -> None:
    result = kgroup_cli(*verb, exit_code=2)

    assert "-b" in result.stderr
    assert "KGROUP_BOOTSTRAP_SERVER" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("value", ["", "0s", "5 parsecs", "9" * 400 + "s"])
def test_a_timeout_that_means_nothing(kgroup_cli: CommandLine, value: str) -> None:
    """What a duration may be is in support/test_durations.py."""
    result = kgroup_cli("list", "-b", NOBODY, f"--timeout={value}", exit_code=2)

    assert "--timeout" in result.stderr.splitlines()[0]
    assert "[usage]" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["-b", ""], ["--bootstrap-server="], ["--context", ""], ["--command-config", ""]], ids=" ".join
)
def test_an_empty_address_or_context_is_not_taken_for_none(
    kgroup_cli: CommandLine, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """``-b "$PROD"`` with a variable that is not set must not fall back on another cluster."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", NOBODY)

    result = kgroup_cli("list", *arguments, exit_code=2)

    assert "empty" in result.stderr


@pytest.mark.parametrize("value", ["30", "999"])
def test_a_bare_number_under_a_thousand_warns(kgroup_cli: CommandLine, value: str) -> None:
    result = kgroup_cli("list", "-b", NOBODY, "--timeout", value, exit_code=3)

    assert f"--timeout {value} is {value} milliseconds" in result.stderr
    assert f"--timeout {value}s" in result.stderr


# Secrets


@pytest.fixture
def said_by(kgroup_cli: CommandLine, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Everything that comes out of a command: what clients write past Python, and the log, included."""

    def run(*arguments: str) -> str:
        log = tmp_path / "debug.log"
        result = kgroup_cli(*arguments, "--debug", str(log), exit_code=None)
        written = log.read_text(encoding="utf-8") if log.exists() else ""
        return "".join((result.stdout, result.stderr, *capfd.readouterr(), written))

    return run


@pytest.mark.parametrize("form", ["table", "json", "yaml", "csv", "markdown"])
@pytest.mark.parametrize("handler", [hang_up, garbage, silent, echo])
def test_a_password_is_nowhere_when_it_fails(
    said_by: Callable[..., str], serve: Callable[[Handler], Server], handler: Handler, form: str
) -> None:
    address = serve(handler).address

    text = said_by("list", "-b", address, "--timeout", "500ms", "-o", form, *SASL)

    assert SECRET not in text
    assert text


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "-b", NOBODY, *SASL, "--bogus"],
        ["list", "-b", NOBODY, *SASL, "--expect", "x"],
        ["lst", *SASL],
        [*SASL, "lst"],
        ["-X", f"sasl.password={SECRET}", "lst"],
        ["--list", *SASL],
        [*SASL, "--describe", "--group", "pay"],
        ["help", "-o", "markdown", *SASL],
        ["help", "-o", "markdown", f"-Xsasl.password={SECRET}"],
        ["help", "-o", "markdown", f"--property=sasl.password={SECRET}"],
        ["help", "no-such-topic", "-o", "json", *SASL],
        ["sandbox", "status", "-o", "markdown", *SASL],
        ["context", "list", "-o", "markdown", *SASL],
        *(
            ["context", "show", "-b", NOBODY, "-o", form, *SASL]
            for form in ("table", "json", "yaml", "csv", "markdown")
        ),
        ["context", "show", "-b", NOBODY, "-o", "markdown", "-X", f"sasl.password={SECRET}", "-X", "sasl.password=b"],
        ["context", "show", "-b", NOBODY, "-o", "markdown", "-X", f"sasl.passwrd={SECRET}"],
        ["context", "show", "-b", NOBODY, "-o", "markdown", "-X", f"schema.registry.basic.auth.user.info=u:{SECRET}"],
        ["context", "show", "-b", NOBODY, "-o", "markdown", "-X", f"ssl.key.password={SECRET}"],
        ["list", "-b", NOBODY, "-X", f"sasl.password:{SECRET}"],
        ["list", "-b", NOBODY, "-X", f"sasl.passwrd={SECRET}"],
        [
            *("context", "show", "-b", NOBODY, "-o", "markdown", "-X", "security.protocol=SASL_PLAINTEXT"),
            *("-X", "sasl.mechanism=PLAIN", "-X"),
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="oncall" password="{SECRET}";',
        ],
    ],
    ids=lambda arguments: " ".join(arguments).replace(SECRET, "...")[:60],
)
def test_a_password_is_nowhere_in_what_repeats_the_command_line(
    said_by: Callable[..., str], arguments: list[str]
) -> None:
    text = said_by(*arguments)

    assert SECRET not in text
    assert text


def test_a_password_of_the_environment_is_nowhere(kgroup_cli: CommandLine, tmp_path: Path) -> None:
    """In processes, whose end may say something too."""
    log = tmp_path / "debug.log"
    env = {
        "KGROUP_PROPERTIES": f"security.protocol=SASL_PLAINTEXT sasl.mechanism=PLAIN sasl.username=u "
        f"sasl.password={SECRET}"
    }

    for arguments, form in ((("list",), "json"), (("context", "show"), "markdown")):
        process = kgroup_cli.start(*arguments, "-b", NOBODY, "-o", form, "--debug", str(log), env=env)
        _, stdout, stderr = finish(process, within_s=30)
        assert SECRET not in stdout + stderr + log.read_text(encoding="utf-8")


def test_a_password_is_nowhere_in_the_traceback_of_a_bug(tmp_path: Path) -> None:
    """A bug keeps its traceback; the settings may be in it, their secrets not."""
    script = (
        "import sys, kgroup.cluster.snapshot as s, kgroup.cli.app as c\n"
        "def broken(settings): raise RuntimeError(f'bug with {settings!r} {settings.entries!r}')\n"
        "s.Cluster = broken\n"
        "sys.exit(int(c.run(sys.argv[1:])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "list", "-b", NOBODY, *SASL, "--debug", str(tmp_path / "log")],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 1
    assert "bug with" in done.stderr
    assert SECRET not in done.stdout + done.stderr + (tmp_path / "log").read_text(encoding="utf-8")


def test_the_debug_log_belongs_to_its_owner_alone(kgroup_cli: CommandLine, tmp_path: Path) -> None:
    log = tmp_path / "debug.log"

    kgroup_cli("list", "-b", NOBODY, "--debug", str(log), exit_code=3)

    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_text(encoding="utf-8")
