"""Resolved client settings, with librdkafka's keys; each has its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kgroup.support.errors import Refused, refusal_code
from kgroup.support.quoting import quote
from kgroup.support.redact import HIDDEN, is_secret

READ_ONLY = refusal_code("read-only", "changes", "The context has read_only: true.", "Use another context.")
CONTEXT_NOT_NAMED = refusal_code(
    "context-not-named",
    "changes",
    "The context has explicit: true, and this command line does not name it.",
    "Add --context NAME, or set KGROUP_CONTEXT.",
)

DEFAULT_TIMEOUT_S = 10.0
DEFAULT_SOURCE = "default"
_TELLING_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]*://([^/?#]*@|[^?#]*\?)")


@dataclass(frozen=True, slots=True, repr=False)
class Setting:
    """One setting, with its source in words that fit after "from".

    For example ``-b``, ``KGROUP_BOOTSTRAP_SERVER``, ``--command-config, c.properties:3`` or ``context "prod"
    (~/.config/kgroup/config.yaml:14)``.
    """

    key: str
    value: str
    source: str

    @property
    def is_secret(self) -> bool:
        """Whether the value must not be shown; so is a URL with a user or a query, which may have a token."""
        return is_secret(self.key) or bool(_TELLING_URL.match(self.value))

    @property
    def display_value(self) -> str:
        """The value for messages: hidden if it is secret."""
        return HIDDEN if self.is_secret else self.value

    @property
    def named(self) -> str:
        """The key of an unknown setting; hidden if it has no value or is not like a key, so may be a password."""
        like_a_name = re.fullmatch(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+", self.key)
        return self.key if like_a_name and self.value else HIDDEN

    def __repr__(self) -> str:
        return f"Setting({self.key}={self.display_value!r}, from {self.source})"


class StreamingQuerySetting(NamedTuple):
    """A streaming query that a context names: where its checkpoint is, and how often its job starts, if it said so.

    ``source`` is where the context names it, in the words of ``Setting``.
    """

    location: str
    every_s: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """How to reach one cluster, resolved; see ``resolve`` for the precedence.

    ``entries`` has librdkafka's keys, and AWS_MSK_IAM as a value of ``sasl.mechanism``. ``context`` is None if none is
    in use. ``named`` is whether a flag or variable named it, rather than an earlier ``kgroup context use``.
    ``timeout_s`` limits how long a whole command waits for the cluster. ``java_file`` is the ``--command-config`` that
    Kafka's own tools can read too, None without one. ``catchup`` is what the context says of replays, ``queries`` are
    the streaming queries that it names.
    """

    entries: Mapping[str, Setting]
    context: str | None = None
    context_source: str | None = None
    named: bool = False
    read_only: bool = False
    explicit: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    timeout_source: str = DEFAULT_SOURCE
    unknown: tuple[Setting, ...] = field(default=())
    java_file: str | None = None
    catchup: tuple[Setting, ...] = ()
    queries: Mapping[str, StreamingQuerySetting] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        setting = self.entries.get(key)
        return None if setting is None else setting.value

    def source(self, key: str) -> str:
        """The source of a setting, ``default`` if it was not given."""
        setting = self.entries.get(key)
        return DEFAULT_SOURCE if setting is None else setting.source

    @property
    def bootstrap_servers(self) -> str:
        """Addresses, separated by commas."""
        return self.entries["bootstrap.servers"].value

    @property
    def security_protocol(self) -> str:
        """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
        return self.get("security.protocol") or "PLAINTEXT"

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl_mechanism(self) -> str | None:
        """The mechanism in use, None without SASL."""
        return self.get("sasl.mechanism") if self.security_protocol.startswith("SASL_") else None

    @property
    def wire_mechanism(self) -> str | None:
        """The mechanism that brokers see: those with AWS_MSK_IAM also take OAUTHBEARER, on the same port."""
        return "OAUTHBEARER" if self.sasl_mechanism == "AWS_MSK_IAM" else self.sasl_mechanism

    @property
    def user(self) -> str | None:
        """The user that brokers usually see; None if only they know it (certificates, tokens, Kerberos)."""
        if self.security_protocol == "PLAINTEXT":
            return "ANONYMOUS"
        by_name = (self.sasl_mechanism or "").startswith(("PLAIN", "SCRAM-"))
        return self.get("sasl.username") if by_name else None

    @property
    def tool_flags(self) -> str:
        """The flags for Kafka's own tools; ``FILE`` is a placeholder where they need a Java file and there is none."""
        file = "FILE" if self.java_file is None else quote(self.java_file)
        config = f" --command-config {file}" if self.java_file or self.security_protocol != "PLAINTEXT" else ""
        return f"--bootstrap-server {quote(self.bootstrap_servers)}{config}"

    @property
    def secrets(self) -> frozenset[str]:
        """Values that must not be shown or logged."""
        return frozenset(
            setting.value
            for setting in (*self.entries.values(), *self.unknown, *self.catchup)
            if setting.is_secret and setting.value
        )

    @property
    def change_refusal(self) -> Refused | None:
        """Why the context forbids ``--execute``: it is read_only, or explicit and not named. None: it allows it."""
        if self.read_only:
            return Refused(
                f'context "{self.context}" is read-only',
                details=(f"read_only: true is from {self.context_source}.",),
                code=READ_ONLY,
            )
        if self.explicit and not self.named:
            return Refused(
                f'context "{self.context}" must be named to change anything',
                details=(f"explicit: true is from {self.context_source}; the context is only remembered.",),
                hint=f"Name it: --context {self.context}",
                code=CONTEXT_NOT_NAMED,
            )
        return None

    def require_change_allowed(self) -> None:
        """Raise ``change_refusal`` if there is one."""
        if refusal := self.change_refusal:
            raise refusal.with_context(hint=" ".join(filter(None, ("Nothing was changed.", refusal.hint))))

    def __repr__(self) -> str:
        shown = ", ".join(repr(setting) for setting in self.entries.values())
        return f"Settings({shown}, context={self.context!r}, timeout_s={self.timeout_s})"
