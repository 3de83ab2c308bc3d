"""Secrets stay out of messages, logs and representations."""

from __future__ import annotations

import base64
import logging
import stat
from pathlib import Path
from urllib.parse import quote

import pytest

from kgroup.settings.model import Setting, Settings
from kgroup.support.redact import (
    HIDDEN,
    LOGGERS,
    close_debug_log,
    contains_secret,
    is_secret,
    open_debug_log,
    redact,
    without_content,
)

SECRET = "p@ss wörd'\\"


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("sasl.password", True),
        ("sasl.jaas.config", True),
        ("ssl.key.password", True),
        ("ssl.key.pem", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.password", True),
        ("ssl.truststore.password", True),
        ("sasl.oauthbearer.client.secret", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("sasl.oauthbearer.config", True),
        ("sasl.oauthbearer.assertion.private.key.pem", True),
        ("basic.auth.user.info", True),
        ("schema.registry.basic.auth.user.info", True),
        ("SASL.PASSWORD", True),
        ("aws.secret.access.key", True),
        ("spark.hadoop.fs.s3a.session.token", True),
        ("spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net", True),
        ("spark.hadoop.fs.azure.sas.fixed.token.lake", True),
        ("spark.databricks.credential", True),
        ("spark.executor.memory", False),
        ("sasl.username", False),
        ("bootstrap.servers", False),
        ("ssl.key.location", False),
        ("ssl.ca.pem", False),
        ("sasl.oauthbearer.client.id", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
    ],
)
def test_which_settings_are_secret(key: str, *, secret: bool) -> None:
    assert is_secret(key) is secret


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"config {{'sasl_plain_password': {SECRET!r}}}",
        f"bytes {SECRET.encode()!r}",
        f"bytes {b'x' + SECRET.encode() + b'y'!r}",
        repr(b'a quotation mark: "' + SECRET.encode()),
        f"https://u:{quote(SECRET, safe='')}@host/",
        f"basic {base64.b64encode(SECRET.encode()).decode()}",
    ],
)
def test_every_spelling_of_a_secret_is_hidden(text: str) -> None:
    hidden = redact(text, {SECRET})
    assert HIDDEN in hidden
    for fragment in ("p@ss", "p%40ss", "wörd", "w\\xc3", base64.b64encode(SECRET.encode()).decode()[:8]):
        assert fragment not in hidden


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("auth=Bearer eyJhbGciOi.eyJzdWIi.c2ln", f"auth=Bearer {HIDDEN}"),
        ("token eyJhbGciOi.eyJzdWIi. end", f"token {HIDDEN} end"),
        (r"SaslAuthenticateRequest(auth_bytes=b'\x00a\x00b\'c')", f"SaslAuthenticateRequest(auth_bytes={HIDDEN})"),
        ('auth_bytes=b"it\'s", next', f"auth_bytes={HIDDEN}, next"),
        ("Authorization: Basic dTpw", f"Authorization: Basic {HIDDEN}"),
        ("-----BEGIN PRIVATE KEY-----\nMIG\n-----END PRIVATE KEY-----", HIDDEN),
        ("-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"),
        ("sasl.mechanism=OAUTHBEARER is from -X", "sasl.mechanism=OAUTHBEARER is from -X"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_what_no_list_can_hold_is_hidden_too(text: str, expected: str) -> None:
    assert redact(text, ()) == expected


def test_a_longer_secret_is_not_cut_by_a_shorter_one() -> None:
    assert redact("abcdef", {"abc", "abcdef"}) == HIDDEN


def test_an_empty_secret_hides_nothing() -> None:
    assert redact("text", {""}) == "text"


def test_settings_show_no_secret() -> None:
    settings = Settings(
        {"sasl.password": Setting("sasl.password", SECRET, "-X")}, unknown=(Setting("my.password", "q", "-X"),)
    )
    for text in (repr(settings), str(settings), f"{settings!r}", repr(list(settings.entries.values()))):
        assert SECRET not in text
        assert repr(SECRET)[1:-1] not in text
    assert settings.secrets == {SECRET, "q"}


def test_the_debug_log_is_private_and_clean(tmp_path: Path) -> None:
    path = tmp_path / "debug.log"
    path.write_text("")
    path.chmod(0o644)
    handler = open_debug_log(path, {SECRET})
    try:
        logging.getLogger("kafka.net").debug("config %r", {"sasl_plain_password": SECRET})
        logging.getLogger("kgroup.x").info("plain %s", SECRET)
        try:
            raise ValueError(SECRET)
        except ValueError:
            logging.getLogger("kgroup").exception("failed")
    finally:
        close_debug_log(handler)
    # Else pytest keeps megabytes of both clients' lines for each test that comes after this one.
    assert not any(logging.getLogger(logger).isEnabledFor(logging.DEBUG) for logger in LOGGERS)
    logging.getLogger("kgroup").warning("after the end")
    text = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "kafka.net" in text
    assert "Traceback" in text
    assert "after the end" not in text
    assert SECRET not in text
    assert repr(SECRET)[1:-1] not in text


def test_the_debug_log_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        open_debug_log(tmp_path / "link", ())


@pytest.mark.parametrize(
    ("command", "tells"),
    [
        ("curl -H 'Authorization: Bearer abcdefgh1234' http://x", True),
        ('curl -H "Authorization: Bearer $TOKEN" http://x', False),
        ("curl https://me:hunter2@x/y", True),
        ("curl https://me:$PASS@x/y", False),
        ("PGPASSWORD=hunter2 psql", True),
        ('PGPASSWORD="$PASS" psql', False),
        ("psql --password hunter2", True),
        ("psql --password-file=/run/it", False),
        ("load --token-file /run/it", False),
        ("load --access_token=abc", True),
        ("./load.sh my-own-key", True),
        ("./load.sh abc", False),
        ("python handler.py --batch 5", False),
    ],
)
def test_a_command_that_tells_a_secret(command: str, tells: bool) -> None:
    assert contains_secret(command, {"my-own-key", "abc"}) is tells


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (r"""Data(error=0, records=b'ord-1 {"it\'s": 1}\x00', x=1)""", "Data(error=0, records=[hidden], x=1)"),
        ('records=b"it\'s", records=None', "records=[hidden], records=None"),
        (r"node=1 Recv: b'\x00\x01 value'", "node=1 Recv: [hidden]"),
        (r"node=1 Send: bytearray(b'\x00')", "node=1 Send: bytearray([hidden])"),
        ("Unable to decode 7-byte buffer: b'abc'", "Unable to decode 7-byte buffer: [hidden]"),
        ("topic='records=5'", "topic='records=5'"),
    ],
)  # fmt: skip
def test_the_content_of_records_is_hidden(line: str, shown: str) -> None:
    assert without_content(line) == shown
