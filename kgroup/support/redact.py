"""Knows which settings are secret, and keeps secrets out of messages and logs."""

from __future__ import annotations

import base64
import functools
import logging
import os
import re
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import quote

HIDDEN = "[hidden]"

SECRET_KEYS = frozenset(
    {
        "sasl.jaas.config",
        "sasl.oauthbearer.config",
        "ssl.key.pem",
        "ssl.keystore.key",
        "ssl.certificate.key.pem",
        "basic.auth.user.info",
    }
)
"""Keys that are secret although their names do not show it; ``_SECRET_WORDS`` finds the others."""

_SECRET_WORDS = ("pass", "pwd", "secret", "token.value", "private.key", "user.info", "access.key")
_SECRET_WORDS_OF_SPARK = ("token", "credential", "account.key", ".sas.")
"""Spark hides the first one itself; the others are keys of Azure's storage, and of Databricks."""

# Patterns as text: re compiles and caches them at their first use; most commands have nothing to redact.
_PATTERNS = (
    # Tokens and SASL exchanges are created while kgroup runs, so no list of values has them.
    (r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}", rf"\1{HIDDEN}"),
    (r"(?i)(authorization:?\s*['\"]?basic\s+)[\w+/=-]+", rf"\1{HIDDEN}"),
    (r"(auth_bytes=)b?(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")", rf"\1{HIDDEN}"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]*", HIDDEN),
    (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", HIDDEN),
)


def is_secret(key: str) -> bool:
    """Whether the value of this setting must never be shown."""
    lowered = key.lower()
    words = (*_SECRET_WORDS, *_SECRET_WORDS_OF_SPARK) if lowered.startswith("spark.") else _SECRET_WORDS
    return lowered in SECRET_KEYS or any(word in lowered for word in words)


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` without the ``secrets``, and without any token, SASL exchange or private key.

    A secret is also found in its spelling inside the ``repr`` of a string or of bytes, in a URL and in base64.
    """
    for secret in _spellings(frozenset(secrets)):
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = re.sub(pattern, replacement, text)
    return text


def contains_secret(text: str, secrets: Iterable[str] = ()) -> bool:
    """Whether a command or an address, which users will read, contains a secret; ``$NAME`` is a reference and not one.

    ``secrets`` with fewer than 4 characters are ignored: they may be in the text by chance.
    """
    secrets_to_find = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    return redact(text, secrets_to_find) != text or any(re.search(pattern, text) for pattern in _TOLD)


_SHORTEST_SECRET = 4
_SECRET_NAME = r"[\w.-]*(?:password|passwd|pwd|secret|token|api_?key)[\w.-]*(?<!file)(?<!path)"
_TOLD = (
    r"(?i)[a-z][\w+.-]*://[^/\s:@]*:(?!\$)[^/\s@]+@",
    rf"(?i)(?<![\w.-]){_SECRET_NAME}=['\"]?[^&;\s'\"$]",
    rf"(?i)(?<!\S)--{_SECRET_NAME}\s+['\"]?[^-\s'\"$]",
)

_ASSIGNMENT = r"(?s)((?:-X|--property=)?\s*[\w.-]+)\s*=(.*)"


def redact_words(words: Iterable[str]) -> list[str]:
    """A command line, to be shown again, without the values of secret settings (``-X sasl.password=...``)."""
    return [
        f"{parsed[1]}={HIDDEN}" if (parsed := re.fullmatch(_ASSIGNMENT, word)) and is_secret(parsed[1]) else word
        for word in words
    ]


@functools.lru_cache(maxsize=8)
def _spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    """All spellings of the secrets, longest first so that a shorter one does not cut a longer one."""
    spellings: set[str] = set()
    for secret in secrets:
        if not secret:
            continue
        encoded = secret.encode("utf-8", "surrogateescape")
        for written in (repr(secret)[1:-1], repr(encoded)[2:-1]):
            # Whether repr() escapes an apostrophe depends on the rest of the string.
            bare = written.replace("\\'", "'")
            spellings |= {bare, bare.replace("'", "\\'")}
        spellings |= {
            secret,
            quote(secret, safe=""),
            base64.b64encode(encoded).decode("ascii").rstrip("="),
        }
        # No library logs a PEM key line by line, but searching for its lines costs nothing.
        spellings |= {line for line in secret.splitlines() if len(line) >= 16 and not line.startswith("-----")}
    return tuple(sorted(spellings, key=len, reverse=True))


_BYTES = r"b(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
_CONTENT = rf"((?:\brecords=|\b(?:Recv|Send): (?:bytearray\()?|-byte buffer: )){_BYTES}"
"""Where kafka-python logs the records of a response or request, and the raw bytes that they are in."""


def without_content(text: str) -> str:
    """A log line without keys, values and headers of records: users pass debug logs on."""
    return re.sub(_CONTENT, rf"\1{HIDDEN}", text)


class RedactingFormatter(logging.Formatter):
    """Formats a log record with its traceback, and then removes the secrets and what Kafka's records contain."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, secrets: Collection[str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """The record's line or lines, without secrets and without the content of Kafka's records."""
        return redact(without_content(super().format(record)), self._secrets)


LOGGERS = ("kafka", "kgroup")


def open_debug_log(path: Path, secrets: Collection[str]) -> logging.Handler:
    """Write the log of kgroup and kafka-python to ``path``, without secrets; the caller may add secrets later.

    The file is appended to, and only its owner can read it. ``close_debug_log`` takes the returned handler. Raises
    OSError if the file cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.fchmod(descriptor, 0o600)
    handler = logging.StreamHandler(os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace"))
    handler.setFormatter(RedactingFormatter(secrets))
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
    return handler


def close_debug_log(handler: logging.Handler) -> None:
    """Detach the handler that ``open_debug_log`` returned, close its file, and reset the log levels."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    handler.close()
    if isinstance(handler, logging.StreamHandler):
        handler.stream.close()
