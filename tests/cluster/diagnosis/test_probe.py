"""Why a connection failed, where nothing at the other end is Kafka. (With Kafka: test_login.py.)"""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kgroup.cluster.diagnosis import certain_fault, explain, tcp
from kgroup.settings.connection import Connection
from kgroup.settings.model import Settings
from kgroup.settings.sources import resolve
from kgroup.support.errors import ConfigError, KgroupError, Unreachable
from tests.helpers.settings_cases import Notes

AMPLE_S = 60.0
"""Of what answers at once: far more than any of them takes."""
Serve = Callable[[socket.socket], None]


def settings_for(address: str, *properties: str, environ: dict[str, str] | None = None) -> Settings:
    return resolve(Connection(bootstrap_server=address, property=list(properties)), Notes(), environ or {})


def http(connection: socket.socket) -> None:
    """As most HTTP servers: waits for the end of a line, and answers what is no request with 400."""
    data = b""
    while b"\n" not in data:
        piece = connection.recv(1024)
        if not piece:
            return
        data += piece
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nServer: test\r\n\r\n")


def impatient_http(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def ssh(connection: socket.socket) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    connection.recv(1024)


def hangs_up(connection: socket.socket) -> None:
    connection.recv(1)


def silent(connection: socket.socket) -> None:
    while connection.recv(1024):
        pass


def garbage(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"\x00\x01\xff" * 20)


def half_an_answer(connection: socket.socket) -> None:
    connection.recv(1024)
    connection.sendall(b"\x00\x00\x00\x40\x00\x00\x00\x01\x00\x00")
    silent(connection)


@pytest.fixture
def serve() -> Iterator[Callable[[Serve], int]]:
    """Starts a server whose connections are each handled by a function; returns its port."""
    listening: list[socket.socket] = []

    def start(handle: Serve) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listening.append(listener)

        def one(connection: socket.socket) -> None:
            with closing(connection), suppress(OSError):
                handle(connection)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=one, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listening:
        # Wakes who waits in accept(), which would go on with whatever gets the closed socket's number.
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


SASL = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=u", "sasl.password=hush-hush")
STRANGERS: dict[str, tuple[Serve, tuple[str, ...], str, str]] = {
    "http": (http, (), "not-kafka", "is not Kafka but probably an HTTP server"),
    "http-at-once": (impatient_http, (), "not-kafka", "HTTP/1.1 400"),
    "http-tls": (http, ("security.protocol=SSL",), "not-kafka", "is not Kafka but probably an HTTP server"),
    "http-at-once-tls": (impatient_http, ("security.protocol=SSL",), "not-kafka", "an HTTP server"),
    "http-sasl": (http, SASL, "not-kafka", "is not Kafka but probably an HTTP server"),
    "ssh": (ssh, (), "not-kafka", "is not Kafka but probably an SSH server"),
    "ssh-tls": (ssh, ("security.protocol=SSL",), "not-kafka", "is not Kafka but probably an SSH server"),
    "hangs-up": (hangs_up, (), "not-kafka", "closed the connection"),
    "hangs-up-tls": (hangs_up, ("security.protocol=SSL",), "tls", "no TLS with"),
    "garbage": (garbage, (), "not-kafka", "is not Kafka"),
    "half-an-answer": (half_an_answer, (), "not-kafka", "is not Kafka"),
    "silent": (silent, (), "timed-out", "does not answer"),
    "silent-tls": (silent, ("security.protocol=SSL",), "timed-out", "does not answer"),
    "silent-sasl": (silent, SASL, "timed-out", "does not answer"),
}
SLOW = ("half-an-answer", "silent", "silent-tls", "silent-sasl")
"""Which take all of their time."""


@pytest.mark.parametrize("case", STRANGERS)
def test_what_is_not_kafka(case: str, serve: Callable[[Serve], int]) -> None:
    handle, properties, code, words = STRANGERS[case]
    port = serve(handle)
    settings = settings_for(f"127.0.0.1:{port}", *properties)
    began = time.monotonic()
    error = explain(settings, "127.0.0.1", port, None, deadline_s=2.0 if case in SLOW else AMPLE_S)
    took_s = time.monotonic() - began
    text = "\n".join((error.message, *error.details))
    assert (type(error), error.code) == (Unreachable, code), text
    assert words in text
    assert f"127.0.0.1:{port}" in error.message
    assert "hush" not in text
    assert took_s < AMPLE_S / 2, "at once, or no longer than it may take"


@pytest.mark.parametrize("properties", [(), ("security.protocol=SSL",)], ids=["plaintext", "tls"])
def test_silence_is_told_though_there_is_no_second_connection(properties: tuple[str, ...]) -> None:
    """With no time left for one, or no place: what there was is a host that takes connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = int(listener.getsockname()[1])

    def one_question() -> None:
        with listener.accept()[0]:  # which only finds out whether the port takes connections
            pass
        with listener.accept()[0] as connection:
            connection.recv(1)
            listener.close()
            silent(connection)

    server = threading.Thread(target=one_question, daemon=True)
    server.start()
    error = explain(settings_for(f"127.0.0.1:{port}", *properties), "127.0.0.1", port, None, deadline_s=0.6)
    server.join(30)
    assert error.code == "timed-out", error.message
    assert error.message == f"127.0.0.1:{port} accepts connections and does not answer"


def unused_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return int(listener.getsockname()[1])


def test_nothing_listens() -> None:
    port = unused_port()
    error = explain(
        settings_for(f"127.0.0.1:{port}", environ={}), "127.0.0.1", port, OSError("whatever the client said")
    )
    assert (type(error), error.code) == (Unreachable, "unreachable")
    assert error.message == f"127.0.0.1:{port} refused the connection"
    assert error.details == ("Nothing listens on that port.", f"127.0.0.1:{port} is from -b.")


def test_a_name_that_does_not_exist() -> None:
    error = explain(settings_for("no-such-host.invalid:9092"), "no-such-host.invalid", 9092, None)
    assert (type(error), error.code) == (Unreachable, "unreachable")
    assert "no-such-host.invalid" in error.message


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "is unknown"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), "could not be resolved"),
    ],
)
def test_names_that_dns_refuses(failure: socket.gaierror, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    error = explain(settings_for("b1.prod:9092"), "b1.prod", 9092, None, deadline_s=AMPLE_S)
    assert error.code == "unreachable"
    assert words in error.message


def test_a_resolver_that_hangs_does_not_hold_us_up(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait(60) and [])
    began = time.monotonic()
    error = explain(settings_for("b1.prod:9092"), "b1.prod", 9092, None, deadline_s=0.3)
    released.set()
    assert "could not be resolved" in error.message
    assert time.monotonic() - began < 30, "not until the resolver answers"


def test_a_host_that_swallows_packets() -> None:
    """A full backlog: the kernel drops further connections without an answer, as a firewall does."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        held = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            held.append(filler)
        began = time.monotonic()
        error = explain(settings_for(f"127.0.0.1:{address[1]}"), "127.0.0.1", address[1], None, deadline_s=0.5)
        took_s = time.monotonic() - began
        for filler in held:
            filler.close()
    assert (error.code, "does not answer" in error.message) == ("unreachable", True)
    assert took_s < 30, "not as long as the kernel tries"


def test_an_advertised_address_says_that_it_is_one() -> None:
    port = unused_port()
    error = explain(settings_for("bootstrap.prod:9092"), "127.0.0.1", port, None)
    assert any("advertised.listeners" in line and "bootstrap.prod:9092" in line for line in error.details)


def test_the_source_of_the_protocol_is_named(tmp_path: Path, serve: Callable[[Serve], int]) -> None:
    file = tmp_path / "c.props"
    file.write_text("\n\nsecurity.protocol=SSL\n")
    port = serve(hangs_up)
    settings = settings_for(f"127.0.0.1:{port}", environ={"KGROUP_COMMAND_CONFIG": str(file)})
    error = explain(settings, "127.0.0.1", port, None, deadline_s=AMPLE_S)
    assert f"security.protocol=SSL is from KGROUP_COMMAND_CONFIG, {file}:3." in error.details


def test_files_that_are_missing_are_named(serve: Callable[[Serve], int]) -> None:
    port = serve(silent)
    settings = settings_for(f"127.0.0.1:{port}", "security.protocol=SSL", "ssl.ca.location=/no/ca.pem")
    error = explain(settings, "127.0.0.1", port, None)
    assert isinstance(error, ConfigError)
    assert "/no/ca.pem" in error.message


def self_signed(directory: Path) -> tuple[str, str]:
    key, certificate = str(directory / "k.pem"), str(directory / "c.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-keyout", key, "-out", certificate, "-subj", "/CN=solo", "-days", "2",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


@pytest.mark.programs("openssl")
@pytest.mark.parametrize(
    ("trusted", "code", "words"),
    [(False, "tls", 'self-signed certificate that is not trusted: "solo"'), (True, "not-kafka", "HTTP server")],
)
def test_an_https_server(
    *, trusted: bool, code: str, words: str, tmp_path: Path, serve: Callable[[Serve], int]
) -> None:
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    def handle(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            impatient_http(encrypted)

    port = serve(handle)
    properties = ["security.protocol=SSL", *([f"ssl.ca.location={certificate}"] if trusted else [])]
    settings = settings_for(f"127.0.0.1:{port}", *properties)
    error = explain(settings, "127.0.0.1", port, None, deadline_s=AMPLE_S)
    assert error.code == code, error.message
    assert words in error.message


def test_a_client_error_is_quoted_without_secrets(
    serve: Callable[[Serve], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the connection works by now, what the client said is all there is."""
    monkeypatch.setattr(tcp, "_PATIENCE_S", AMPLE_S)  # this server would answer a question in HTTP as Kafka does

    def kafka(connection: socket.socket) -> None:
        correlation = connection.recv(1024)[8:12]
        connection.sendall(b"\x00\x00\x00\x10" + correlation + b"\x00\x00\x00\x00\x00\x01\x00\x03\x00\x00\x00\x0c")
        correlation = connection.recv(1024)[8:12]
        connection.sendall(b"\x00\x00\x00\x08" + correlation + b"\x00\x00\x00\x00")

    port = serve(kafka)
    settings = settings_for(f"127.0.0.1:{port}", "sasl.password=hush-hush")
    said = RuntimeError("it said hush-hush")
    error: KgroupError = explain(settings, "127.0.0.1", port, said, deadline_s=AMPLE_S)
    assert error.code == "timed-out"
    assert error.details[0] == "it said [hidden]"


@pytest.mark.parametrize(("handle", "certain"), [(silent, False), (http, True), (hangs_up, True)])
def test_silence_is_no_certain_fault(handle: Serve, *, certain: bool, serve: Callable[[Serve], int]) -> None:
    port = serve(handle)
    deadline_s = AMPLE_S if certain else 0.8
    fault = certain_fault(settings_for(f"127.0.0.1:{port}"), "127.0.0.1", port, deadline_s=deadline_s)
    assert (fault is not None) is certain
