"""Tokens of AWS's IAM: the signature against AWS's own signers, and where the credentials come from."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from kgroup.settings.aws import AwsKeys, IamTokens, iam_tokens, signed_token, signing_key
from kgroup.settings.environment import environment
from kgroup.support.errors import AuthenticationFailed, ConfigError

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
LASTING = AwsKeys("AKIAIOSFODNN7EXAMPLE", SECRET)
TEMPORARY = AwsKeys("ASIAIOSFODNN7EXAMPLE", SECRET, "IQoJb3JpZ2luX2Vj//8aDmV1+test/token==")
AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DOCUMENT = {"AccessKeyId": "ASIA1", "SecretAccessKey": "hidden-1", "Token": "session-1"}
FOUND = AwsKeys("ASIA1", "hidden-1", "session-1")


def parameters(token: str) -> tuple[str, dict[str, str]]:
    """The URL before its parameters, and those."""
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return f"{url.scheme}://{url.netloc}{url.path}", dict(parse_qsl(url.query, strict_parsing=True))


def test_the_signing_key_is_the_one_of_aws_s_manual() -> None:
    """From "Create a signed AWS API request" of the IAM manual: "Calculate the signature", its example of a key."""
    key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", "us-east-1", "iam")

    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


@pytest.mark.parametrize(
    ("keys", "region", "signature"),
    [
        (LASTING, "us-east-1", "390e7caba1acdfd6fce918e9be15a4d2e7bcbd36c1c30b4583bf48e21cd72e7b"),
        (TEMPORARY, "eu-central-1", "c4353dab515d79b068d98085eaaadd52fca599b54284e81c42001a9e18714e84"),
    ],
    ids=["lasting", "temporary"],
)
def test_a_token_is_the_one_that_aws_s_signer_makes(keys: AwsKeys, region: str, signature: str) -> None:
    """From aws-msk-iam-sasl-signer-python 1.0.2 with botocore 1.44.8, its clock set to AT."""
    where, found = parameters(signed_token(keys, region, AT))

    assert where == f"https://kafka.{region}.amazonaws.com/"
    assert found.pop("User-Agent") == "kgroup"  # not signed
    assert found == {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.access_key}/20260304/{region}/kafka-cluster/aws4_request",
        "X-Amz-Date": "20260304T050607Z",
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
        "X-Amz-Signature": signature,
        **({"X-Amz-Security-Token": keys.session_token} if keys.session_token else {}),
    }


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home without AWS's files, and an environment without its variables but for an instance that is none."""
    for name in [name for name in environment() if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / ".aws").mkdir()
    return tmp_path / ".aws"


@pytest.fixture(scope="module")
def services() -> Iterator[str]:
    """The metadata of an instance, of a container, and STS."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self._answer("imds-token" if self.headers["X-aws-ec2-metadata-token-ttl-seconds"] else None)

        def do_GET(self) -> None:
            roles = "/latest/meta-data/iam/security-credentials/"
            of_instance = self.headers["X-aws-ec2-metadata-token"] == "imds-token"
            answers = {
                roles: "the-role" if of_instance else None,
                f"{roles}the-role": json.dumps(DOCUMENT) if of_instance else None,
                "/container": json.dumps(DOCUMENT) if self.headers["Authorization"] == "pod-token" else None,
                "/other": '{"Code": "none"}',
            }
            self._answer(answers.get(self.path))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            wanted = {"RoleArn": ["arn:role"], "WebIdentityToken": ["jwt"], "Action": ["AssumeRoleWithWebIdentity"]}
            names = {"Token": "SessionToken"}
            xml = "".join(f"<{names.get(key, key)}>{value}</{names.get(key, key)}>" for key, value in DOCUMENT.items())
            self._answer(f"<Credentials>{xml}</Credentials>" if wanted.items() <= form.items() else None)

        def _answer(self, text: str | None) -> None:
            self.send_response(403 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def made(profile: str | None = None, region: str | None = "eu-west-1", brokers: str = "b:1") -> IamTokens:
    tokens = iam_tokens(profile, region, brokers, 5.0)
    assert tokens is not None
    return tokens


def signed_by(tokens: IamTokens) -> tuple[str, str | None]:
    """Whose keys sign, as the token shows it."""
    _, found = parameters(tokens()[0])
    return found["X-Amz-Credential"].partition("/")[0], found.get("X-Amz-Security-Token")


FILES = """[default]
aws_access_key_id = AKIADEFAULT
aws_secret_access_key = s
[ops]
aws_access_key_id = AKIAOPS
aws_secret_access_key = s
aws_session_token = ops-session
"""


@pytest.mark.parametrize(
    ("variables", "profile", "expected"),
    [
        ({"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s"}, None, ("AKIAENV", None)),
        ({"AWS_ACCESS_KEY_ID": "AKIAENV", "AWS_SECRET_ACCESS_KEY": "s"}, "ops", ("AKIAOPS", "ops-session")),
        ({"AWS_PROFILE": "ops"}, None, ("AKIAOPS", "ops-session")),
        ({}, None, ("AKIADEFAULT", None)),
    ],
    ids=["environment", "a profile of the settings wins", "profile of the environment", "default profile"],
)
def test_keys_that_are_known_travel_to_spark_s_workers(
    nothing: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], profile: str | None,
    expected: tuple[str, str | None],
) -> None:  # fmt: skip
    (nothing / "credentials").write_text(FILES)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    sent = pickle.dumps(made(profile))
    (nothing / "credentials").unlink()
    for name in variables:
        monkeypatch.delenv(name)

    there = pickle.loads(sent)

    assert signed_by(there) == expected
    assert "secret_key" not in repr(there)


PRINTS = f"{sys.executable} -c 'import sys; print(open(sys.argv[1]).read())'"
OWN = ("ASIA1", "session-1")


SOURCES: dict[str, Callable[[str, Path], dict[str, str]]] = {
    "instance": lambda url, home: {"AWS_EC2_METADATA_DISABLED": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url},
    "container": lambda url, home: {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN": "pod-token",
    },
    "pod": lambda url, home: {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": f"{home}/pod",
    },
    "web-identity": lambda url, home: {
        "AWS_ENDPOINT_URL_STS": url,
        "AWS_ROLE_ARN": "arn:role",
        "AWS_WEB_IDENTITY_TOKEN_FILE": f"{home}/jwt",
    },
    "program": lambda url, home: {"AWS_PROFILE": "sso"},
    "role": lambda url, home: {"AWS_PROFILE": "role", "PATH": f"{home}"},
}


@pytest.mark.parametrize("case", SOURCES)
def test_temporary_keys_are_asked_for_by_each_process(
    case: str, nothing: Path, monkeypatch: pytest.MonkeyPatch, services: str
) -> None:
    (nothing / "pod").write_text("pod-token\n")
    (nothing / "jwt").write_text("jwt\n")
    (nothing / "answer").write_text(json.dumps({**DOCUMENT, "SessionToken": "session-1"}))
    (nothing / "config").write_text(
        f"[profile sso]\nregion = sa-east-1\ncredential_process = {PRINTS} {nothing}/answer\n"
    )
    (nothing / "credentials").write_text(
        "[role]\naws_access_key_id = AKIA1\naws_secret_access_key = s\nrole_arn = arn:r\n"
    )
    asked = "configure export-credentials --format process --profile role"
    (nothing / "aws").write_text(f"#!/bin/sh\n[ \"$*\" = '{asked}' ] && echo '{json.dumps(DOCUMENT)}'\n")
    (nothing / "aws").chmod(0o755)
    for name, value in SOURCES[case](services, nothing).items():
        monkeypatch.setenv(name, value)

    tokens = made()

    assert tokens.keys is None
    assert signed_by(pickle.loads(pickle.dumps(tokens))) == OWN


CANNOT: dict[str, tuple[Callable[[str], dict[str, str]], str]] = {
    "nothing": (lambda url: {}, "Asking the instance for one failed: AWS_EC2_METADATA_DISABLED is set."),
    "refused": (
        lambda url: {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/container"},
        "Asking the container for one failed: Forbidden.",
    ),
    "no-keys": (
        lambda url: {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/other"},
        "Asking the container for one failed: the answer has no 'AccessKeyId'.",
    ),
    "unreachable": (
        lambda url: {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/"},
        "Asking the container for one failed: [Errno 111] Connection refused.",
    ),
    "program": (
        lambda url: {"AWS_PROFILE": "fails"},
        f"Asking the profile for one failed: {sys.executable} failed (CalledProcessError).",
    ),
}


@pytest.mark.parametrize("case", CANNOT)
def test_credentials_that_cannot_be_had(
    case: str, nothing: Path, monkeypatch: pytest.MonkeyPatch, services: str
) -> None:
    variables, said = CANNOT[case]
    (nothing / "config").write_text(f"[profile fails]\ncredential_process = {sys.executable} --geheim\n")
    for name, value in variables(services).items():
        monkeypatch.setenv(name, value)
    tokens = made()

    with pytest.raises(AuthenticationFailed, match="no AWS credentials were found") as raised:
        tokens()

    assert raised.value.details[1] == said


def test_a_profile_must_exist_and_its_file_be_readable(nothing: Path) -> None:
    with pytest.raises(ConfigError, match="AWS's files have no profile ops"):
        iam_tokens("ops", "eu-west-1", "b:1", 5.0)
    (nothing / "credentials").write_text("geheim")
    with pytest.raises(ConfigError, match="credentials cannot be read: MissingSectionHeaderError") as raised:
        iam_tokens(None, "eu-west-1", "b:1", 5.0)
    assert "geheim" not in raised.value.message


MSK = "b-1.demo.a1b2c3.c7.kafka.us-west-2.amazonaws.com:9098"


@pytest.mark.parametrize(
    ("region", "brokers", "variables", "expected"),
    [
        ("ap-south-1", MSK, {"AWS_REGION": "eu-west-1"}, "ap-south-1"),
        (None, MSK, {"AWS_REGION": "eu-west-1"}, "us-west-2"),
        (None, "boot-x1.c2.kafka-serverless.eu-north-1.amazonaws.com:9098", {}, "eu-north-1"),
        (None, "kafka.corp:9098", {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}, "eu-west-1"),
        (None, "kafka.corp:9098", {"AWS_DEFAULT_REGION": "us-east-1"}, "us-east-1"),
        (None, "kafka.corp:9098", {}, "sa-east-1"),
    ],
    ids=["settings", "broker", "serverless", "AWS_REGION", "AWS_DEFAULT_REGION", "profile"],
)
def test_the_region(
    nothing: Path, monkeypatch: pytest.MonkeyPatch, region: str | None, brokers: str, variables: dict[str, str],
    expected: str,
) -> None:  # fmt: skip
    (nothing / "config").write_text("[default]\nregion = sa-east-1\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert made(None, region, brokers).region == expected


def test_no_region(nothing: Path) -> None:
    assert iam_tokens(None, None, "kafka.corp:9098", 5.0) is None
