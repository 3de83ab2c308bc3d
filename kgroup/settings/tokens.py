"""Tokens that are kept until it is time for a new one, for both clients. Importable in Spark's workers."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kgroup.support.errors import KgroupError

_REFRESH_AT = 0.8

Token = tuple[str, float | None]
"""A token, and its lifetime in seconds; None if that is unknown."""


@dataclass(slots=True)
class TokenSource:
    """Returns a token, the same one until four fifths of its lifetime are over.

    kafka-python calls ``token`` and ``extensions`` (kafka.net.sasl.oauth.AbstractTokenProvider), confluent-kafka the
    object itself, as its ``oauth_cb``. If no new token can be had, the present one is used until its end. If the
    lifetime is unknown, every call fetches. Pickled, it goes to Spark's workers without its token: they get their own.
    """

    fetch: Callable[[], Token] = field(repr=False)
    sent_along: Mapping[str, str]
    _token: str = field(default="", repr=False)
    _until: float = 0.0
    _refresh_at: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def token(self) -> str:
        """A valid token. Raises AuthenticationFailed or Unreachable."""
        return self._current()[0]

    def extensions(self) -> dict[str, str]:
        """SASL extensions (KIP-342)."""
        return dict(self.sent_along)

    def __call__(self, _: str) -> tuple[str, float, str, dict[str, str]]:
        """The token, when it ends (seconds since 1970), no principal, and the extensions. Raises as ``token``."""
        return *self._current(), "", self.extensions()

    def _current(self) -> tuple[str, float]:
        with self._lock:
            if time.time() >= self._refresh_at:
                try:
                    token, life_s = self.fetch()
                    self._token, self._until = token, time.time() + (life_s or 0.0)
                except KgroupError:
                    if time.time() >= self._until:
                        raise
                now = time.time()
                self._refresh_at = now + _REFRESH_AT * (self._until - now)
            return self._token, self._until

    def __reduce__(self) -> tuple[type[TokenSource], tuple[object, ...]]:
        return TokenSource, (self.fetch, dict(self.sent_along))


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Makes unsigned tokens with these claims, each for ``life_s`` seconds."""

    claims: Mapping[str, Any]
    life_s: int

    def __call__(self) -> Token:
        now = int(time.time())
        return unsecured_token({**self.claims, "iat": now, "exp": now + self.life_s}), float(self.life_s)


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """A JSON web token with the algorithm ``none`` (RFC 7519, section 6)."""

    def part(value: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode("ascii")

    return f"{part({'alg': 'none'})}.{part(claims)}."
