"""A real broker with every kind of listener, and certificates that are good, expired, foreign or misnamed.

The certificates are made with the ``openssl`` command (EC P-256; PKCS#8 keys, the only ones that a broker
reads). The PLAINTEXT listener of every sandbox is for administration: who comes in there is a super user, so
each TLS listener must ask for a client certificate or for SASL.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kgroup.model.reporter import Reporter
from kgroup.sandbox import Sandbox

USERS = {"alice": "alice-secret", "bob": "bob=sec;ret \\x"}
"""SCRAM and PLAIN users; the second password has all that quoting can get wrong."""

LISTENERS = {
    "SCRAM": "SASL_SSL",
    "MTLS": "SSL",
    "OAUTH": "SASL_PLAINTEXT",
    "EXPIRED": "SSL",
    "WRONGNAME": "SSL",
}
_MODULES = "org.apache.kafka.common.security"


class Certificates:
    """Files of one directory: ``ca``, and ``server``, ``alice``, ... signed by it unless their name says else."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._authority("ca", "kgroup test CA")
        self._authority("otherca", "another CA")
        here = "IP:127.0.0.1,DNS:localhost"
        self._leaf("server", "localhost", "serverAuth", names=here)
        self._leaf("expired", "localhost", "serverAuth", names=here, expired=True)
        self._leaf("wrongname", "elsewhere", "serverAuth", names="DNS:elsewhere.example")
        self._leaf("alice", "alice", "clientAuth")
        self._leaf("oldalice", "alice", "clientAuth", expired=True)
        self._leaf("mallory", "alice", "clientAuth", authority="otherca")
        self._run("pkcs8", "-topk8", "-in", self.key("alice"), "-passout", "pass:key-secret",
                  "-out", self.path("alice-encrypted.key"))  # fmt: skip

    def path(self, name: str) -> str:
        """A file of the directory."""
        return str(self.directory / name)

    def certificate(self, name: str) -> str:
        """The certificate's file."""
        return self.path(f"{name}.pem")

    def key(self, name: str) -> str:
        """The key's file."""
        return self.path(f"{name}.key")

    def both(self, name: str) -> str:
        """Key and certificate in one file, as Java's PEM keystores are."""
        return self.path(f"{name}-both.pem")

    def text(self, name: str) -> str:
        """A file's content."""
        return (self.directory / name).read_text()

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def _new_key(self, name: str) -> None:
        self._run("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.key(name))

    def _authority(self, name: str, common_name: str) -> None:
        self._new_key(name)
        self._run("req", "-x509", "-new", "-key", self.key(name), "-subj", f"/CN={common_name}",
                  "-days", "3650", "-out", self.certificate(name),
                  "-addext", "basicConstraints=critical,CA:TRUE",
                  "-addext", "keyUsage=critical,keyCertSign,cRLSign")  # fmt: skip

    def _leaf(
        self,
        name: str,
        common_name: str,
        usage: str,
        *,
        names: str | None = None,
        authority: str = "ca",
        expired: bool = False,
    ) -> None:
        self._new_key(name)
        extensions = [
            "basicConstraints=critical,CA:FALSE",
            f"extendedKeyUsage={usage}",
            "subjectKeyIdentifier=hash",
            "authorityKeyIdentifier=keyid",
            *([f"subjectAltName={names}"] if names else []),
        ]
        with tempfile.TemporaryDirectory() as scratch:
            request, extension_file = f"{scratch}/request", f"{scratch}/extensions"
            Path(extension_file).write_text("\n".join(extensions) + "\n")
            self._run("req", "-new", "-key", self.key(name), "-subj", f"/CN={common_name}", "-out", request)
            signer = ("-cert", self.certificate(authority), "-keyfile", self.key(authority))
            if expired:
                # `openssl x509 -days` refuses an end in the past; `openssl ca` takes dates.
                self._sign_expired(Path(scratch), request, extension_file, signer, self.certificate(name))
            else:
                self._run("x509", "-req", "-in", request, "-CA", signer[1], "-CAkey", signer[3],
                          "-CAcreateserial", "-days", "365", "-extfile", extension_file,
                          "-out", self.certificate(name))  # fmt: skip
        self.directory.joinpath(f"{name}-both.pem").write_text(self.text(f"{name}.key") + self.text(f"{name}.pem"))

    def _sign_expired(self, scratch: Path, request: str, extensions: str, signer: tuple[str, ...], out: str) -> None:
        (scratch / "index").write_text("")
        (scratch / "ca.conf").write_text(
            f"[ca]\ndefault_ca=d\n[d]\ndatabase={scratch}/index\nnew_certs_dir={scratch}\npolicy=p\n"
            "default_md=sha256\nrand_serial=yes\nemail_in_dn=no\nunique_subject=no\n[p]\ncommonName=supplied\n"
        )
        self._run("ca", "-batch", "-config", f"{scratch}/ca.conf", "-in", request, *signer,
                  "-startdate", "20240101000000Z", "-enddate", "20240201000000Z",
                  "-extfile", extensions, "-out", out, "-notext")  # fmt: skip


def _jaas_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def broker_properties(certificates: Certificates) -> dict[str, str]:
    """Settings of a broker with LISTENERS."""
    plain_users = " ".join(f'user_{name}="{_jaas_quoted(secret)}"' for name, secret in USERS.items())
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.both("server"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.certificate("ca"),
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
        "listener.name.scram.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {plain_users};",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": (
            f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "broker.session.timeout.ms": "60000",  # a machine that stands still must not let it be taken for dead
        "metadata.max.idle.interval.ms": "0",
    }
    for mechanism in ("256", "512"):
        properties[f"listener.name.scram.scram-sha-{mechanism}.sasl.jaas.config"] = (
            f"{_MODULES}.scram.ScramLoginModule required;"
        )
    for listener in ("mtls", "expired", "wrongname"):
        properties[f"listener.name.{listener}.ssl.client.auth"] = "required"
    for listener in ("expired", "wrongname"):
        properties[f"listener.name.{listener}.ssl.keystore.type"] = "PEM"
        properties[f"listener.name.{listener}.ssl.keystore.location"] = certificates.both(listener)
    return properties


@dataclass(frozen=True, slots=True)
class SecureBroker:
    """A running broker, or several; ``addresses`` has ADMIN and each of LISTENERS."""

    certificates: Certificates
    addresses: dict[str, str]
    sandbox: Sandbox

    def port(self, listener: str) -> int:
        """The listener's port."""
        return int(self.addresses[listener].rpartition(":")[2])


@contextmanager
def secure_broker(
    directory: Path, reporter: Reporter, properties: Mapping[str, str] | None = None, brokers: int | None = None
) -> Iterator[SecureBroker]:
    """Certificates and brokers in ``directory``, with more ``properties``, for as long as the block runs."""
    certificates = Certificates(directory / "certificates")
    sandbox = Sandbox(directory / "sandbox")
    users = [
        argument
        for name, secret in USERS.items()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for argument in ("--add-scram", f"{mechanism}=[name={name},password={secret}]")
    ]
    try:
        status = sandbox.up(
            reporter=reporter,
            brokers=brokers,
            properties=broker_properties(certificates) | dict(properties or {}),
            listeners=LISTENERS,
            format_arguments=tuple(users),
        )
        assert status.bootstrap_servers is not None
        addresses = {"ADMIN": status.bootstrap_servers, **status.listeners}
        (controller,) = (found for found in status.brokers if "CONTROLLER" in found.listeners)
        addresses["CONTROLLER"] = f"127.0.0.1:{controller.listeners['CONTROLLER']}"
        yield SecureBroker(certificates, addresses, sandbox)
    finally:
        sandbox.down(reporter=reporter, wipe=True)
