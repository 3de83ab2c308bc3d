"""The pages of ``kgroup context``, and their rows for json and csv."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kgroup.model.blocks import BlankLine, Column, Records, Screen, Table, Text, Title
from kgroup.model.outcome import Outcome
from kgroup.settings.contexts import Context
from kgroup.settings.model import Setting, Settings
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.redact import HIDDEN, is_secret

_PLAINTEXT = "PLAINTEXT"


class ContextRow(msgspec.Struct, frozen=True):
    """A context as listed; ``is_current`` is true for the one that commands use if no cluster is named."""

    context: Context
    is_current: bool

    @property
    def bootstrap_servers(self) -> str | None:
        """The addresses as in the file, hidden if they contain ``@``; None if the context has none."""
        given = self.context.get("bootstrap.servers") or self.context.get("metadata.broker.list")
        return HIDDEN if given and "@" in given else given

    @property
    def security_protocol(self) -> str:
        """Kafka's default is PLAINTEXT."""
        return (self.context.get("security.protocol") or _PLAINTEXT).upper()

    @property
    def user(self) -> str | None:
        """The user name, if the file has it in sasl.username or sasl.jaas.config."""
        jaas = re.search(r"""\busername\s*=\s*["']?([^"';\s]+)""", self.context.get("sasl.jaas.config") or "")
        return self.context.get("sasl.username") or (jaas[1] if jaas else None)

    @property
    def limits(self) -> str | None:
        """The settings that protect this context from accidental changes; None if there are none."""
        named = (("read-only", self.context.read_only), ("explicit", self.context.explicit))
        return " ".join(word for word, holds in named if holds) or None

    def document(self) -> Mapping[str, Any]:
        return {
            "name": self.context.name,
            "chosen": self.is_current,
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
            "sasl_username": self.user,
            "read_only": self.context.read_only,
            "explicit": self.context.explicit,
            "source": self.context.source,
        }


class ContextChoice(msgspec.Struct, frozen=True):
    """The context that was chosen now, and the one before."""

    name: str
    previous: str | None
    bootstrap_servers: str | None

    def document(self) -> Mapping[str, Any]:
        return {"name": self.name, "previous": self.previous, "bootstrap_servers": self.bootstrap_servers}


class ShownSettings(msgspec.Struct, frozen=True):
    """Resolved settings for display: secrets are hidden."""

    settings: Settings

    def rows(self) -> list[tuple[str, str, str]]:
        """Key, value and source of each setting in force."""
        settings = self.settings
        rows = [(entry.key, entry.display_value, entry.source) for entry in settings.entries.values()]
        rows.append(("timeout", f"{settings.timeout_s:g}s", settings.timeout_source))
        for name, holds in (("read_only", settings.read_only), ("explicit", settings.explicit)):
            if holds:
                rows.append((name, "true", settings.context_source or ""))
        return rows

    def document(self) -> Mapping[str, Any]:
        settings = self.settings
        return {
            "context": settings.context,
            "named": settings.named,
            "read_only": settings.read_only,
            "explicit": settings.explicit,
            "timeout_ms": round(settings.timeout_s * 1000),
            "settings": [
                {
                    "key": entry.key,
                    "value": _public(entry),
                    "hidden": is_secret(entry.key),
                    "source": entry.source,
                }
                for entry in settings.entries.values()
            ],
            "unknown_settings": [{"key": entry.named, "source": entry.source} for entry in settings.unknown],
        }


def _public(entry: Setting) -> str | None:
    return None if is_secret(entry.key) else entry.value


def list_outcome(rows: tuple[ContextRow, ...]) -> Outcome:
    """The contexts of the configuration file."""
    header = ("name", "chosen", "bootstrap_servers", "security_protocol", "sasl_username", "read_only", "explicit")

    def screen() -> Screen:
        columns = (
            Column("CHOSEN"),
            Column("NAME", fold=True),
            Column("BOOTSTRAP-SERVERS", fold=True),
            Column("SECURITY-PROTOCOL", drop=1),
            Column("SASL-USERNAME", drop=2),
            Column("LIMITS"),
        )
        cells = [
            (
                "*" if row.is_current else "",
                row.context.name,
                row.bootstrap_servers,
                row.security_protocol,
                row.user,
                row.limits,
            )
            for row in rows
        ]
        return Screen((Table(columns, cells, sparse=frozenset({"SASL-USERNAME", "LIMITS"})),))

    def records() -> Records:
        return Records(
            header,
            [
                (
                    row.context.name,
                    "true" if row.is_current else "false",
                    row.bootstrap_servers,
                    row.security_protocol,
                    row.user,
                    "true" if row.context.read_only else "false",
                    "true" if row.context.explicit else "false",
                )
                for row in rows
            ],
        )

    return Outcome(data=rows, screen=screen, records=records)


def choice_outcome(choice: ContextChoice) -> Outcome:
    """The context that was chosen now."""
    before = "" if choice.previous in (None, choice.name) else f"  Before: {choice.previous}."
    line = f'Commands now use "{choice.name}" ({choice.bootstrap_servers or "no address"}).{before}'
    return Outcome(
        data=(choice,),
        screen=lambda: Screen((Text((line,)),)),
        records=lambda: Records(
            ("name", "previous", "bootstrap_servers"), [(choice.name, choice.previous, choice.bootstrap_servers)]
        ),
        executed=True,
    )


def settings_outcome(settings: Settings) -> Outcome:
    """The settings in force, without secrets."""
    shown = ShownSettings(settings)
    subject = f'context "{settings.context}"' if settings.context else "no context"

    def screen() -> Screen:
        columns = (Column("KEY"), Column("VALUE", fold=True), Column("SOURCE", fold=True))
        return Screen((Title(subject), BlankLine(), Table(columns, shown.rows())))

    return Outcome(
        data=(shown,),
        screen=screen,
        records=lambda: Records(("key", "value", "source"), shown.rows()),
        cluster=ClusterRef(None, settings.bootstrap_servers, settings.context),
    )
