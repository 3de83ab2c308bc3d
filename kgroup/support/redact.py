"""Which settings are secret, and how secrets are kept out of messages and logs."""

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
"""Secret whatever their names look like; besides, every key that contains one of ``_SECRET_WORDS``."""

_SECRET_WORDS = ("pass", "pwd", "secret", "token.value", "private.key", "user.info", "access.key")
# Patterns as text: re compiles them at their first use, and keeps them; most commands have nothing to redact.
_PATTERNS = (
    # Tokens and SASL exchanges are made while kgroup runs, so no list of values can hold them.
    (r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}", rf"\1{HIDDEN}"),
    (r"(?i)(authorization:?\s*['\"]?basic\s+)[\w+/=-]+", rf"\1{HIDDEN}"),
    (r"(auth_bytes=)b?(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")", rf"\1{HIDDEN}"),
    (r"\beyJ[\w-]+\.[\w-]+\.[\w-]*", HIDDEN),
    (r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", HIDDEN),
)


def is_secret(key: str) -> bool:
    """Whether the value of this setting must never be shown."""
    lowered = key.lower()
    return lowered in SECRET_KEYS or any(word in lowered for word in _SECRET_WORDS)


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` without any of the ``secrets``, nor tokens, SASL exchanges and private keys of any kind.

    A secret is also found as it looks inside the ``repr`` of a string or of bytes, in a URL and in base64.
    """
    for secret in _spellings(frozenset(secrets)):
        text = text.replace(secret, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = re.sub(pattern, replacement, text)
    return text


def tells_secret(text: str, secrets: Iterable[str] = ()) -> bool:
    """Whether a command or an address that people would read has a secret in it; ``$NAME`` stands for one, and is none.

    One of the ``secrets`` that is shorter than a word may be there by chance.
    """
    told = [secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]
    return redact(text, told) != text or any(re.search(pattern, text) for pattern in _TOLD)


_SHORTEST_SECRET = 4
_SECRET_NAME = r"[\w.-]*(?:password|passwd|pwd|secret|token|api_?key)[\w.-]*(?<!file)(?<!path)"
_TOLD = (
    r"(?i)[a-z][\w+.-]*://[^/\s:@]*:(?!\$)[^/\s@]+@",
    rf"(?i)(?<![\w.-]){_SECRET_NAME}=['\"]?[^&;\s'\"$]",
    rf"(?i)(?<!\S)--{_SECRET_NAME}\s+['\"]?[^-\s'\"$]",
)

_ASSIGNMENT = r"(?s)((?:-X|--property=)?\s*[\w.-]+)\s*=(.*)"


def redact_words(words: Iterable[str]) -> list[str]:
    """A command line without the values of secret settings (``-X sasl.password=...``), for showing it again."""
    return [
        f"{found[1]}={HIDDEN}" if (found := re.fullmatch(_ASSIGNMENT, word)) and is_secret(found[1]) else word
        for word in words
    ]


@functools.lru_cache(maxsize=8)
def _spellings(secrets: frozenset[str]) -> tuple[str, ...]:
    """Every way in which the secrets may appear, longest first so that none is cut by a shorter one."""
    found: set[str] = set()
    for secret in secrets:
        if not secret:
            continue
        encoded = secret.encode("utf-8", "surrogateescape")
        for written in (repr(secret)[1:-1], repr(encoded)[2:-1]):
            # Whether repr() escapes an apostrophe depends on what else the string holds.
            bare = written.replace("\\'", "'")
            found |= {bare, bare.replace("'", "\\'")}
        found |= {
            secret,
            quote(secret, safe=""),
            base64.b64encode(encoded).decode("ascii").rstrip("="),
        }
        # The lines of a key in PEM are logged one by one by nobody, but cost nothing to look for.
        found |= {line for line in secret.splitlines() if len(line) >= 16 and not line.startswith("-----")}
    return tuple(sorted(found, key=len, reverse=True))


class RedactingFormatter(logging.Formatter):
    """Formats a record, its traceback included, and then takes the secrets out."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, secrets: Collection[str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        """The record's line or lines, without secrets."""
        return redact(super().format(record), self._secrets)


LOGGERS = ("kafka", "kgroup")


def open_debug_log(path: Path, secrets: Collection[str]) -> logging.Handler:
    """Send all that kgroup and kafka-python log to ``path``, without secrets; more may be added to them later.

    The file is readable by its owner alone, and appended to. Raises OSError where it
    cannot be written. ``close_debug_log`` takes the handler back.
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
    """Detach what ``open_debug_log`` returned, close its file, and let nobody write for it any more."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    handler.close()
    if isinstance(handler, logging.StreamHandler):
        handler.stream.close()
