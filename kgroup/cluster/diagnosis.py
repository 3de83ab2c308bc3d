"""Why a connection failed. Both clients retry until the time limit and then say "timed out", whatever it was.

So one more connection is made here, by hand: TCP, TLS, ApiVersions, SASL, step by step until one fails. Every
step's failure has its own message. A few milliseconds where the host answers.
"""

from __future__ import annotations

import errno
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime

from kgroup.errors import AuthenticationFailed, KgroupError, Unreachable
from kgroup.redact import redact
from kgroup.settings.certificates import Certificate, described, own_certificate, trusting_only
from kgroup.settings.keys import PASSWORD_MECHANISMS
from kgroup.settings.model import Settings
from kgroup.settings.tls import client_context, has_client_certificate

_METADATA, _SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 3, 17, 18, 36
_NO_ERROR, _UNSUPPORTED_MECHANISM, _ILLEGAL_SASL_STATE, _AUTHENTICATION_FAILED = 0, 33, 34, 58
_ANSWER_LIMIT = 1 << 20
_PATIENCE_S = 0.25
"""After so long a silence the port is also asked in HTTP."""

_TLS_ALERT = b"\x15\x03"
_SERVICES = {b"HTTP/": "an HTTP server", b"SSH-": "an SSH server", b"220": "a mail or FTP server"}
_SAID_LENGTH = 40

# verify_code of ssl.SSLCertVerificationError: OpenSSL's X509_V_ERR_*.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = frozenset({62, 64})


def explain(
    settings: Settings, host: str, port: int, error: BaseException | None, *, deadline_s: float = 1.5
) -> KgroupError:
    """The reason why connecting to ``host:port`` with these settings failed, as an error to raise.

    ``error`` is what the client raised; it is quoted only where the connection works by now. Takes at most
    ``deadline_s``. The error never holds a secret: Unreachable with code unreachable, timed-out, tls or
    not-kafka; AuthenticationFailed; or ConfigError where a file that the settings name can't be used.
    """
    try:
        _Probe(settings, host, port, time.monotonic() + deadline_s).run()
    except KgroupError as found:
        return found
    said = f"{error}".strip() or type(error).__name__ if error is not None else "no answer in time"
    return Unreachable(
        f"{_address(host, port)} answers, but the cluster could not be asked",
        details=(
            redact(said, settings.secrets),
            f"{_address(host, port)} is from {settings.source('bootstrap.servers')}.",
        ),
        hint="It may have been starting, or be overloaded: try again, with a longer --timeout.",
        code="timed-out",
    )


def certain_fault(settings: Settings, host: str, port: int, *, deadline_s: float = 0.8) -> KgroupError | None:
    """What is wrong with ``host:port`` and stays wrong, None where all is well or more patience may help.

    For the time while a client still waits: an HTTP server never answers it, and a slow broker does at last.
    """
    probe = _Probe(settings, host, port, time.monotonic() + deadline_s)
    try:
        probe.run()
    except KgroupError as found:
        return None if probe.may_pass else found
    return None


class _Closed(Exception):
    """The other side closed the connection instead of answering."""


class _Foreign(Exception):
    """The other side answered something that is not Kafka's: ``said``."""

    def __init__(self, said: bytes) -> None:
        super().__init__(said[:_SAID_LENGTH])
        self.said = said


class _Wire:
    """Requests in Kafka's oldest framing over one socket. Raises _Closed, _Foreign, TimeoutError, SSLError."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._sent = 0

    def ask(self, api: int, version: int, body: bytes = b"") -> bytes:
        """Send a request and wait for its answer's body."""
        self.send(api, version, body)
        return self.answer()

    def send(self, api: int, version: int, body: bytes = b"") -> None:
        """Send a request."""
        self._sent += 1
        content = struct.pack(">hhi", api, version, self._sent) + _string("kgroup") + body
        try:
            self._connection.settimeout(_left(self._deadline))
            self._connection.sendall(struct.pack(">i", len(content)) + content)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise _Closed from None

    def answer(self, *, within_s: float | None = None) -> bytes:
        """The body of the answer to the last request. After a TimeoutError it may be called again."""
        until = self._deadline
        if within_s is not None:
            until = min(until, time.monotonic() + within_s)
        try:
            head = self._read(8, until)
            size, correlation = struct.unpack(">ii", head)
            if correlation != self._sent or not 4 <= size <= _ANSWER_LIMIT:
                raise _Foreign(head + self._rest())
            return self._read(size - 4, self._deadline)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise _Closed from None

    def _read(self, size: int, until: float) -> bytes:
        data = b""
        while len(data) < size:
            self._connection.settimeout(_left(until))
            try:
                piece = self._connection.recv(size - len(data))
            except TimeoutError:
                if data:
                    raise _Foreign(data) from None
                raise
            if not piece:
                raise _Foreign(data) if data else _Closed
            data += piece
        return data

    def _rest(self) -> bytes:
        self._connection.settimeout(0.05)
        try:
            return self._connection.recv(256)
        except OSError:
            return b""


class _Probe:
    """One diagnosis: ``run`` raises what is wrong, or returns where nothing is."""

    def __init__(self, settings: Settings, host: str, port: int, deadline: float) -> None:
        self.settings = settings
        self.host = host
        self.port = port
        self.deadline = deadline
        self.where = _address(host, port)
        self.may_pass = False
        """Whether the fault is nothing but slowness."""
        self.addresses: list[tuple[socket.AddressFamily, tuple[str, int]]] = []

    def run(self) -> None:
        self.addresses = self._lookup()
        self._connect().close()
        if self.settings.uses_tls:
            with closing(self._tls_handshake()) as connection:
                self._kafka_over_tls(_Wire(connection, self.deadline))
        else:
            self._kafka_in_plaintext()

    # TCP

    def _lookup(self) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
        """Addresses of the host; in a thread, because a resolver that is down takes its own time."""
        found: list[tuple[socket.AddressFamily, tuple[str, int]]] = []
        failure: list[OSError] = []

        def look_up() -> None:
            try:
                for family, _, _, _, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
                    found.append((family, (str(address[0]), int(address[1]))))
            except (OSError, UnicodeError) as error:
                failure.append(error if isinstance(error, OSError) else OSError(str(error)))

        thread = threading.Thread(target=look_up, daemon=True)
        thread.start()
        thread.join(_left(self.deadline))
        if found:
            return found
        if failure and getattr(failure[0], "errno", None) in (socket.EAI_NONAME, _EAI_NODATA):
            raise self._unreachable(f"the name {self.host} is unknown", "DNS knows no address for it.")
        self.may_pass = True
        raise self._unreachable(
            f"the name {self.host} could not be looked up",
            f"DNS: {failure[0].strerror or failure[0]}." if failure else "DNS did not answer.",
        )

    def _connect(self) -> socket.socket:
        failure: OSError | None = None
        for family, address in self.addresses:
            connection = socket.socket(family, socket.SOCK_STREAM)
            try:
                connection.settimeout(_left(self.deadline))
                connection.connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection
            except OSError as error:
                connection.close()
                failure = error
        assert failure is not None
        raise self._no_connection(failure)

    def _no_connection(self, failure: OSError) -> Unreachable:
        tried = ", ".join(sorted({address[0] for _, address in self.addresses} - {self.host}))
        resolved = f" ({tried})" if tried else ""
        if isinstance(failure, TimeoutError):
            self.may_pass = True
            return self._unreachable(
                f"{self.where}{resolved} does not answer",
                "No connection came about in time: a firewall, or a host that is down.",
            )
        if failure.errno == errno.ECONNREFUSED:
            return self._unreachable(f"{self.where}{resolved} refused the connection", "Nothing listens on that port.")
        return self._unreachable(f"{self.where}{resolved} cannot be reached: {failure.strerror or failure}")

    def _unreachable(self, message: str, *facts: str) -> Unreachable:
        return Unreachable(message, details=(*facts, self._origin()))

    def _origin(self) -> str:
        """Where the address is from: the settings, or a broker that advertised it."""
        given = [server.strip() for server in self.settings.bootstrap_servers.split(",")]
        source = self.settings.source("bootstrap.servers")
        if self.where in given or (self.port == 9092 and self.host in given):
            return f"{self.where} is from {source}."
        return (
            f"{self.where} is not from your settings: a broker names it (advertised.listeners) "
            f"to who asks {given[0]}, from {source}."
        )

    def _protocol_origin(self) -> str:
        named = f"security.protocol={self.settings.security_protocol}"
        if self.settings.get("security.protocol") is None:
            return f"{named} is the default."
        return f"{named} is from {self.settings.source('security.protocol')}."

    # TLS

    def _tls_handshake(self) -> ssl.SSLSocket:
        """A connection that is encrypted as the settings say."""
        context = client_context(self.settings)
        try:
            return self._encrypted(context)
        except ssl.SSLCertVerificationError as error:
            raise self._certificate_refused(error) from None
        except OSError as error:
            raise self._no_handshake(error) from None

    def _no_handshake(self, error: OSError) -> KgroupError:
        reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
        if _is_about_client_certificate(reason):
            return self._client_certificate_refused(reason)
        try:
            with closing(self._connect()) as connection:
                self._first_answer(_Wire(connection, self.deadline))
        except _Foreign as foreign:
            if not foreign.said.startswith(_TLS_ALERT):
                return self._not_kafka(foreign.said)
        except (_Closed, TimeoutError):
            pass
        else:
            return Unreachable(
                f"{self.where} does not speak TLS; it looks like a plaintext port",
                details=(
                    self._protocol_origin(),
                    "Other listeners cannot be seen from here; brokers often have TLS on 9093.",
                ),
                code="tls",
            )
        if isinstance(error, TimeoutError):
            return self._silent()
        return Unreachable(
            f"no TLS with {self.where}: {_words(reason) or 'it ended the handshake'}",
            details=(self._protocol_origin(),),
            code="tls",
        )

    def _certificate_refused(self, error: ssl.SSLCertVerificationError) -> KgroupError:
        certificate = self._broker_certificate()
        if certificate is None:
            return self._tls_error(f"the certificate of {self.where} is refused: {error.verify_message}")
        if error.verify_code == _EXPIRED and certificate.not_after < datetime.now(UTC):
            return self._tls_error(
                f"the certificate of {self.where} expired on {_day(certificate.not_after)}",
                f'It is for "{certificate.subject}", issued by "{certificate.issuer}".',
                hint="The broker needs a new certificate; nothing on this side helps.",
            )
        if error.verify_code == _NOT_YET_VALID and certificate.not_before > datetime.now(UTC):
            return self._tls_error(
                f"the certificate of {self.where} is valid only from {_day(certificate.not_before)}",
                f"This machine's clock says {_day(datetime.now(UTC))}.",
            )
        if error.verify_code in _WRONG_NAME:
            names = ", ".join(certificate.names) or f"{certificate.subject} (and no alternative name)"
            return self._tls_error(
                f"the certificate of {self.where} is not for the name {self.host}",
                f"It is for {names}.",
                self._origin(),
                hint="Use one of these names in the address. Without the check (less safe): "
                "-X ssl.endpoint.identification.algorithm=none",
            )
        if certificate.self_signed:
            problem = f'{self.where} has a self-signed certificate that is not trusted: "{certificate.issuer}"'
        else:
            problem = f'the certificate of {self.where} is from an unknown CA: "{certificate.issuer}"'
        return self._tls_error(
            problem,
            f"{error.verify_message[:1].upper()}{error.verify_message[1:]}.",
            self._trust_origin(),
            hint="Set ssl.ca.location to a PEM file with the certificate of that CA.",
        )

    def _tls_error(self, message: str, *details: str, hint: str | None = None) -> Unreachable:
        return Unreachable(message, details=details, hint=hint, code="tls")

    def _trust_origin(self) -> str:
        for key in ("ssl.ca.pem", "ssl.ca.location"):
            value = self.settings.get(key)
            if value:
                shown = "" if key == "ssl.ca.pem" else f" {value},"
                return f"Trusted is {key},{shown} from {self.settings.source(key)}."
        return "Trusted is what this machine trusts: neither ssl.ca.location nor ssl.ca.pem is set."

    def _broker_certificate(self) -> Certificate | None:
        """What the broker shows, decoded; None where it could not be had."""
        try:
            with self._encrypted(client_context(self.settings, verify=False)) as connection:
                der = connection.getpeercert(binary_form=True)
            if der is None:
                return None
            with self._encrypted(trusting_only(der)) as connection:
                peer = connection.getpeercert()
        except (OSError, KgroupError):
            return None
        return described(peer) if peer else None

    def _encrypted(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        connection = self._connect()
        connection.settimeout(_left(self.deadline))
        return context.wrap_socket(connection, server_hostname=self.host)

    def _kafka_over_tls(self, wire: _Wire) -> None:
        """With TLS 1.3 a refused client certificate shows only when something is read."""
        try:
            answer = wire.ask(_API_VERSIONS, 0)
        except ssl.SSLError as error:
            reason = error.reason or ""
            if _is_about_client_certificate(reason):
                raise self._client_certificate_refused(reason) from None
            raise self._tls_error(f"no TLS with {self.where}: {_words(reason)}", self._protocol_origin()) from None
        except _Closed:
            raise self._client_certificate_refused("") from None
        except _Foreign as foreign:
            raise self._not_kafka(foreign.said) from None
        except TimeoutError:
            raise self._silent() from None
        self._after_api_versions(wire, answer)

    def _client_certificate_refused(self, reason: str) -> KgroupError:
        said = f"It said: {_words(reason)}." if reason else "It ended the connection after the handshake."
        if not has_client_certificate(self.settings):
            return self._tls_error(
                f"{self.where} wants a client certificate, and none is set",
                said,
                self._protocol_origin(),
                hint="Set ssl.certificate.location and ssl.key.location (PEM).",
            )
        key = "ssl.certificate.pem" if self.settings.get("ssl.certificate.pem") else "ssl.certificate.location"
        origin = f"{key} is from {self.settings.source(key)}."
        own = own_certificate(self.settings)
        if own is None:
            return self._tls_error(f"{self.where} refused our client certificate", said, origin)
        if own.not_after < datetime.now(UTC):
            return self._tls_error(
                f"{self.where} refused our client certificate: it expired on {_day(own.not_after)}",
                f'It is "{own.subject}", issued by "{own.issuer}".',
                origin,
            )
        return self._tls_error(
            f'{self.where} refused our client certificate "{own.subject}"',
            said,
            f'It is issued by "{own.issuer}", which the broker may not trust; valid until {_day(own.not_after)}.',
            origin,
        )

    # Kafka

    def _kafka_in_plaintext(self) -> None:
        with closing(self._connect()) as connection:
            wire = _Wire(connection, self.deadline)
            try:
                answer = self._first_answer(wire)
            except _Foreign as foreign:
                if foreign.said.startswith(_TLS_ALERT):
                    raise self._wants_tls() from None
                raise self._not_kafka(foreign.said) from None
            except _Closed:
                if self._speaks_tls():
                    raise self._wants_tls() from None
                raise self._not_kafka(b"") from None
            except TimeoutError:
                raise self._silent() from None
            self._after_api_versions(wire, answer)

    def _first_answer(self, wire: _Wire) -> bytes:
        """ApiVersions in plaintext. Where it is not answered soon, the port is asked in HTTP as well."""
        wire.send(_API_VERSIONS, 0)
        try:
            return wire.answer(within_s=_PATIENCE_S)
        except TimeoutError:
            said = self._asked_in_http()
            if said:
                raise _Foreign(said) from None
            return wire.answer()

    def _asked_in_http(self) -> bytes:
        with closing(self._connect()) as connection:
            try:
                connection.settimeout(min(_PATIENCE_S, _left(self.deadline)))
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return connection.recv(256)
            except OSError:
                return b""

    def _speaks_tls(self) -> bool:
        try:
            self._encrypted(_accepting_anything()).close()
        except ssl.SSLError as error:
            # An alert is an answer in TLS; garbage and a closed connection are not.
            return "ALERT" in (error.reason or "")
        except (OSError, KgroupError):
            return False
        return True

    def _wants_tls(self) -> KgroupError:
        mechanisms = self._mechanisms_behind_tls()
        hint = (
            f"Set security.protocol=SASL_SSL and sasl.mechanism ({', '.join(mechanisms)}), with a user."
            if mechanisms
            else "Set security.protocol=SSL, or SASL_SSL where it wants a user."
        )
        return self._tls_error(f"{self.where} speaks TLS, and was asked without", self._protocol_origin(), hint=hint)

    def _mechanisms_behind_tls(self) -> tuple[str, ...]:
        try:
            with self._encrypted(_accepting_anything()) as connection:
                return self._mechanisms(_Wire(connection, self.deadline))
        except (OSError, _Closed, _Foreign, KgroupError):
            return ()

    def _mechanisms(self, wire: _Wire) -> tuple[str, ...]:
        """What the listener offers: asking for a mechanism that does not exist names those that do."""
        error, offered = _handshake(wire, "?")
        return offered if error == _UNSUPPORTED_MECHANISM else ()

    def _after_api_versions(self, wire: _Wire, answer: bytes) -> None:
        if _METADATA not in _offered_apis(answer):
            raise Unreachable(
                f"{self.where} is a KRaft controller, not a broker",
                details=(self._origin(),),
                hint="Use the address of a broker's client listener.",
                code="not-kafka",
            )
        if self.settings.sasl_mechanism is None:
            self._anonymous(wire)
        else:
            self._authenticated(wire, self.settings.sasl_mechanism)

    def _anonymous(self, wire: _Wire) -> None:
        """A listener with SASL answers ApiVersions, and hangs up at anything else."""
        try:
            wire.ask(_METADATA, 1, struct.pack(">i", 0))
            return
        except TimeoutError:
            raise self._silent() from None
        except (_Closed, _Foreign, ssl.SSLError):
            pass
        offered: tuple[str, ...] = ()
        try:
            with closing(self._encrypted_or_not()) as again:
                offered = self._mechanisms(_Wire(again, self.deadline))
        except (OSError, _Closed, _Foreign):
            pass
        with_sasl = "SASL_SSL" if self.settings.uses_tls else "SASL_PLAINTEXT"
        named = f" ({', '.join(offered)})" if offered else ""
        raise AuthenticationFailed(
            f"{self.where} wants to know who you are, and no user is set",
            details=(self._protocol_origin(),),
            hint=f"Set security.protocol={with_sasl} and sasl.mechanism{named}, with a user.",
        )

    def _encrypted_or_not(self) -> socket.socket:
        return self._tls_handshake() if self.settings.uses_tls else self._connect()

    # SASL

    def _authenticated(self, wire: _Wire, mechanism: str) -> None:
        try:
            self._authenticate(wire, mechanism)
        except TimeoutError:
            raise self._silent() from None
        except (_Closed, _Foreign, ssl.SSLError):
            raise self._credentials_refused(mechanism, "it ended the connection") from None

    def _authenticate(self, wire: _Wire, mechanism: str) -> None:
        error, offered = _handshake(wire, mechanism)
        if error == _UNSUPPORTED_MECHANISM:
            raise AuthenticationFailed(
                f"{self.where} does not take {mechanism}",
                details=(
                    f"It takes {', '.join(offered) or 'none that it names'}.",
                    f"sasl.mechanism={mechanism} is from {self.settings.source('sasl.mechanism')}.",
                ),
            )
        if error == _ILLEGAL_SASL_STATE:
            without = "SSL" if self.settings.uses_tls else "PLAINTEXT"
            raise AuthenticationFailed(
                f"{self.where} does not ask who you are (no SASL on that port)",
                details=(self._protocol_origin(),),
                hint=f"Set security.protocol={without}, or use the port of another listener.",
            )
        if error != _NO_ERROR:
            raise self._credentials_refused(mechanism, f"error {error}")
        exchange = self._exchange(mechanism)
        while not exchange.is_done():
            answer = wire.ask(_SASL_AUTHENTICATE, 0, _bytes(exchange.auth_bytes()))
            code, message, payload = _sasl_answer(answer)
            if code != _NO_ERROR:
                raise self._credentials_refused(mechanism, message or f"error {code}")
            try:
                exchange.receive(payload)
            except Exception as problem:
                # kafka-python's mechanisms raise whatever comes to hand where the server's proof is wrong.
                raise self._credentials_refused(mechanism, type(problem).__name__) from None

    def _exchange(self, mechanism: str) -> _Exchange:
        from kafka.net.sasl import get_sasl_mechanism

        arguments = self.settings.kafka_python()
        try:
            made: _Exchange = get_sasl_mechanism(mechanism)(host=self.host, **arguments)
        except KgroupError:
            raise
        except Exception as problem:
            # GSSAPI and AWS_MSK_IAM raise their libraries' own errors: no ticket, no AWS credentials.
            raise AuthenticationFailed(
                f"cannot begin {mechanism} with {self.where}: {redact(str(problem), self.settings.secrets)}",
                details=(f"sasl.mechanism is from {self.settings.source('sasl.mechanism')}.",),
                hint=_FIRST_STEP.get(mechanism),
            ) from None
        return made

    def _credentials_refused(self, mechanism: str, said: str) -> AuthenticationFailed:
        if mechanism in PASSWORD_MECHANISMS:
            user = self.settings.get("sasl.username")
            sources = dict.fromkeys(self.settings.source(key) for key in ("sasl.username", "sasl.password"))
            if len(sources) == 1:
                origin = f"SASL {mechanism}, from {next(iter(sources))}."
            else:
                name, word = sources
                origin = f"SASL {mechanism}; the user is from {name}, the password from {word}."
            return AuthenticationFailed(
                f'{self.where} refused user "{user}": wrong user or password', details=(origin,)
            )
        what = "the token" if mechanism == "OAUTHBEARER" else mechanism
        if said.startswith("{"):
            # OAUTHBEARER's errors are JSON (RFC 7628, section 3.2.2).
            with suppress(ValueError):
                said = json.loads(said).get("status", said)
        return AuthenticationFailed(
            f"{self.where} refused {what}: {redact(said, self.settings.secrets)}",
            details=(f"sasl.mechanism={mechanism} is from {self.settings.source('sasl.mechanism')}.",),
            hint=_FIRST_STEP.get(mechanism),
        )

    # Others

    def _not_kafka(self, said: bytes) -> Unreachable:
        service = next((name for start, name in _SERVICES.items() if said.startswith(start)), None)
        if service is not None:
            message = f"{self.where} is not Kafka; it looks like {service}"
        elif said:
            message = f"{self.where} is not Kafka"
        else:
            message = f"{self.where} is not Kafka, or not in {self.settings.security_protocol}: it hangs up"
        line = said.split(b"\r")[0].split(b"\n")[0][:_SAID_LENGTH]
        shown = redact(line.decode("ascii", "backslashreplace"), self.settings.secrets)
        facts = (f"It answered {shown!r}.",) if line else ()
        return Unreachable(
            message, details=(*facts, self._origin()), hint="Kafka often listens on 9092.", code="not-kafka"
        )

    def _silent(self) -> Unreachable:
        self.may_pass = True
        return Unreachable(
            f"{self.where} accepts connections, but does not answer",
            details=(self._origin(),),
            hint="The broker hangs or is overloaded, or this is not Kafka; a longer --timeout waits longer.",
            code="timed-out",
        )


class _Exchange:
    """What kafka-python's SASL mechanisms have in common (kafka.net.sasl.abc.SaslMechanism)."""

    auth_bytes: Callable[[], bytes]
    receive: Callable[[bytes], object]
    is_done: Callable[[], bool]


_FIRST_STEP = {
    "GSSAPI": "Get a ticket first:  kinit",
    "AWS_MSK_IAM": "Give AWS credentials and a region as for any AWS tool (AWS_PROFILE, AWS_DEFAULT_REGION).",
}
_EAI_NODATA = getattr(socket, "EAI_NODATA", socket.EAI_NONAME)


def _accepting_anything() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _handshake(wire: _Wire, mechanism: str) -> tuple[int, tuple[str, ...]]:
    """Error code and enabled mechanisms (SaslHandshake version 1)."""
    answer = wire.ask(_SASL_HANDSHAKE, 1, _string(mechanism))
    code, count = struct.unpack_from(">hi", answer)
    offered, at = [], 6
    for _ in range(max(count, 0)):
        (length,) = struct.unpack_from(">h", answer, at)
        offered.append(answer[at + 2 : at + 2 + length].decode("utf-8", "replace"))
        at += 2 + length
    return code, tuple(offered)


def _sasl_answer(answer: bytes) -> tuple[int, str | None, bytes]:
    """Error code, the broker's words, and the mechanism's bytes (SaslAuthenticate version 0)."""
    code, length = struct.unpack_from(">hh", answer)
    at = 4 + max(length, 0)
    message = answer[4:at].decode("utf-8", "replace") if length >= 0 else None
    (size,) = struct.unpack_from(">i", answer, at)
    return code, message, answer[at + 4 : at + 4 + max(size, 0)]


def _offered_apis(answer: bytes) -> frozenset[int]:
    """API keys that ApiVersions version 0 lists; an error code comes with whatever list there is."""
    (count,) = struct.unpack_from(">i", answer, 2)
    return frozenset(struct.unpack_from(">h", answer, 6 + 6 * place)[0] for place in range(count))


def _string(text: str) -> bytes:
    encoded = text.encode("utf-8")
    return struct.pack(">h", len(encoded)) + encoded


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _left(deadline: float) -> float:
    """Seconds until the deadline, for a socket: never zero, which would mean "do not wait at all"."""
    return max(deadline - time.monotonic(), 0.001)


def _is_about_client_certificate(reason: str) -> bool:
    return "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason)


def _words(reason: str) -> str:
    """``SSLV3_ALERT_CERTIFICATE_UNKNOWN`` -> ``certificate unknown``."""
    return reason.split("_ALERT_")[-1].replace("_", " ").lower()


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
