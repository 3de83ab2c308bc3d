"""Tokens for Amazon MSK's IAM: presigned requests (Signature Version 4) of the action kafka-cluster:Connect.

MSK takes them with SASL OAUTHBEARER, on the port of AWS_MSK_IAM. Importable in Spark's workers.
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

from __future__ import annotations

import base64
import configparser
import hmac
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from kgroup.settings.environment import environment
from kgroup.settings.tokens import Token
from kgroup.support.errors import AuthenticationFailed, ConfigError

_LIFE_S = 900
_SERVICE = "kafka-cluster"
_INSTANCE = "http://169.254.169.254"
_CONTAINERS = "http://169.254.170.2"
_INSTANCE_TIMEOUT_S = 1.0
_ANSWER_LIMIT = 1 << 16
_BROKER = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """An access key; the session token is None for a lasting one."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class IamTokens:
    """Signs tokens for the cluster's region.

    ``keys`` were found in the environment or in AWS's files, and travel to Spark's workers. If None, each process asks
    for temporary ones, again for each token. ``profile`` is None unless the settings or AWS_PROFILE name one.
    """

    region: str
    profile: str | None
    keys: AwsKeys | None
    timeout_s: float

    def __call__(self) -> Token:
        keys = self.keys or _temporary_keys(self.profile, self.region, self.timeout_s)
        return signed_token(keys, self.region, datetime.now(UTC)), float(_LIFE_S)


def iam_tokens(profile: str | None, region: str | None, brokers: str, timeout_s: float) -> IamTokens | None:
    """The tokens of this profile; None: of AWS's variables. Returns None if no region is known.

    The region is the given one, the one in MSK's broker names, AWS_REGION, AWS_DEFAULT_REGION, or the profile's.
    Raises ConfigError for a profile that does not exist, and for files that cannot be read.
    """
    environ = environment()
    named = profile or environ.get("AWS_PROFILE") or None
    section = _section(named)
    given = {name.lower(): value for name, value in environ.items() if name.startswith("AWS_")}
    source = section if profile or not _has_keys(given) else given
    broker = _BROKER.search(brokers)
    region = region or (broker and broker[1]) or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    region = region or section.get("region")
    keys = None
    if _has_keys(source) and "role_arn" not in source:
        keys = AwsKeys(source["aws_access_key_id"], source["aws_secret_access_key"], source.get("aws_session_token"))
    return IamTokens(region, named, keys, timeout_s) if region else None


def _has_keys(source: Mapping[str, str]) -> bool:
    return bool(source.get("aws_access_key_id") and source.get("aws_secret_access_key"))


def signed_token(keys: AwsKeys, region: str, now: datetime) -> str:
    """The presigned URL in base64, as AWS's own signers make it; ``now`` is in UTC."""
    host, date, at = f"kafka.{region}.amazonaws.com", f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}"
    scope = f"{date}/{region}/{_SERVICE}/aws4_request"
    query = {
        "Action": "kafka-cluster:Connect",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{keys.access_key}/{scope}",
        "X-Amz-Date": at,
        "X-Amz-Expires": str(_LIFE_S),
        **({"X-Amz-Security-Token": keys.session_token} if keys.session_token else {}),
        "X-Amz-SignedHeaders": "host",
    }
    encoded = urlencode(query, quote_via=quote, safe="")
    request = "\n".join(("GET", "/", encoded, f"host:{host}", "", "host", sha256(b"").hexdigest()))
    text = "\n".join(("AWS4-HMAC-SHA256", at, scope, sha256(request.encode()).hexdigest()))
    signature = _mac(signing_key(keys.secret_key, date, region, _SERVICE), text).hex()
    url = f"https://{host}/?{encoded}&X-Amz-Signature={signature}&User-Agent=kgroup"
    return base64.urlsafe_b64encode(url.encode()).rstrip(b"=").decode("ascii")


def signing_key(secret_key: str, date: str, region: str, service: str) -> bytes:
    """The key for all requests of a day (``20260304``) to a service in a region."""
    key = f"AWS4{secret_key}".encode()
    for part in (date, region, service, "aws4_request"):
        key = _mac(key, part)
    return key


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def _section(profile: str | None) -> dict[str, str]:
    """What AWS's two files have of a profile, None: of the default one. That with credentials wins."""
    values: dict[str, str] = {}
    for variable, file, section in (
        ("AWS_CONFIG_FILE", "config", f"profile {profile}" if profile not in (None, "default") else "default"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile or "default"),
    ):
        parser = configparser.RawConfigParser(strict=False)
        path = Path(environment().get(variable) or f"~/.aws/{file}").expanduser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {type(error).__name__}") from None
        if parser.has_section(section):
            values |= parser[section]
    if profile and not values:
        raise ConfigError(f"AWS's files have no profile {profile}", hint="List them: aws configure list-profiles")
    return values


def _temporary_keys(profile: str | None, region: str, timeout_s: float) -> AwsKeys:
    """Keys of what is named first: the profile's program or role, a web identity, the container; else the instance."""
    environ, section = environment(), _section(profile)
    ask: Callable[[], Mapping[str, Any]]
    if {"credential_process", "role_arn", "sso_session", "sso_start_url"} & section.keys():
        # The AWS command line knows every kind of profile.
        export = f"aws configure export-credentials --format process --profile {shlex.quote(profile or 'default')}"
        source, ask = "the profile", lambda: _of_program(section.get("credential_process") or export, timeout_s)
    elif environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environ.get("AWS_ROLE_ARN"):
        source, ask = "AWS_WEB_IDENTITY_TOKEN_FILE", lambda: _of_web_identity(environ, region, timeout_s)
    elif relative := environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        source, ask = "the container", lambda: _of_container(environ, _CONTAINERS + relative, timeout_s)
    elif uri := environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        source, ask = "the container", lambda: _of_container(environ, uri, timeout_s)
    else:
        source, ask = "the instance", lambda: _of_instance(environ)
    try:
        answer = ask()
        return AwsKeys(
            answer["AccessKeyId"], answer["SecretAccessKey"], answer.get("SessionToken") or answer.get("Token")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"the answer has no {error}" if isinstance(error, KeyError) else getattr(error, "reason", None) or error
        raise AuthenticationFailed(
            "no AWS credentials were found",
            details=("The environment and the profile have no access key.", f"Asking {source} for one failed: {why}."),
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.",
        ) from None


def _of_program(command: str, timeout_s: float) -> Mapping[str, Any]:
    argv = shlex.split(command)
    try:
        done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=True, stdin=subprocess.DEVNULL)
    except subprocess.SubprocessError as error:  # its text has the whole command, which may contain a secret
        raise OSError(f"{argv[0]} failed ({type(error).__name__})") from None
    return _json(done.stdout)


def _of_web_identity(environ: Mapping[str, str], region: str, timeout_s: float) -> Mapping[str, Any]:
    query = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": environ["AWS_ROLE_ARN"],
        "RoleSessionName": environ.get("AWS_ROLE_SESSION_NAME") or "kgroup",
        "WebIdentityToken": Path(environ["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text().strip(),
    }
    url = environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region}.amazonaws.com/"
    answer = _answer(url, {}, timeout_s, data=urlencode(query).encode(), proxied=True).decode()
    return dict(re.findall(r"<(AccessKeyId|SecretAccessKey|SessionToken)>([^<]+)</", answer))


def _of_container(environ: Mapping[str, str], url: str, timeout_s: float) -> Mapping[str, Any]:
    file, token = (
        environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
    )
    token = Path(file).read_text().strip() if file else token
    return _json(_answer(url, {"Authorization": token} if token else {}, timeout_s))


def _of_instance(environ: Mapping[str, str]) -> Mapping[str, Any]:
    """From the metadata service, version 2."""
    if environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        raise OSError("AWS_EC2_METADATA_DISABLED is set")
    url = (environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _INSTANCE).rstrip("/") + "/latest/"
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _answer(f"{url}api/token", lifetime, _INSTANCE_TIMEOUT_S, method="PUT").decode()
    headers, roles = {"X-aws-ec2-metadata-token": token}, f"{url}meta-data/iam/security-credentials/"
    role = _answer(roles, headers, _INSTANCE_TIMEOUT_S).decode().split()[0:1]
    return _json(_answer(roles + quote("".join(role)), headers, _INSTANCE_TIMEOUT_S))


def _json(answer: bytes) -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(answer)
    return document


def _answer(
    url: str,
    headers: Mapping[str, str],
    timeout_s: float,
    *,
    method: str | None = None,
    data: bytes | None = None,
    proxied: bool = False,
) -> bytes:
    """The body of an answer; the addresses of containers and instances are never behind a proxy. Raises OSError."""
    # Imported here: most credentials are in the environment or in a file, and an HTTP client is slow to import.
    from urllib.request import ProxyHandler, Request, build_opener

    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url} is not an http or https address")
    opener = build_opener() if proxied else build_opener(ProxyHandler({}))
    with opener.open(Request(url, data, dict(headers), method=method), timeout=timeout_s) as answer:
        body: bytes = answer.read(_ANSWER_LIMIT)
    return body
