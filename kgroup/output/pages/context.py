"""The pages of ``kgroup context``, and their rows for json and csv."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from kgroup.model.blocks import BlankLine, Column, Records, Screen, Table, Text, Title
from kgroup.model.outcome import Outcome
from kgroup.settings.contexts import Context
from kgroup.settings.model import Settings
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.json_types import Ms
from kgroup.support.redact import HIDDEN

_PLAINTEXT = "PLAINTEXT"


class ListedContext(msgspec.Struct, frozen=True):
    name: Annotated[str, "The context."]
    chosen: Annotated[bool, "Whether it is used without --context."]
    bootstrap_servers: Annotated[str | None, "Its bootstrap servers."]
    security_protocol: Annotated[str, "Its security protocol."]
    sasl_username: Annotated[str | None, "Its user."]
    read_only: Annotated[bool, "Whether changes are refused."]
    explicit: Annotated[bool, "Whether changes need --context."]
    source: Annotated[str, "The file."]

    @property
    def limits(self) -> str | None:
        """The settings that protect this context from accidental changes; None if there are none."""
        named = (("read-only", self.read_only), ("explicit", self.explicit))
        return " ".join(word for word, holds in named if holds) or None


def listed_context(context: Context, *, is_chosen: bool) -> ListedContext:
    """The context without secrets: addresses with ``@`` are hidden."""
    given = context.get("bootstrap.servers") or context.get("metadata.broker.list")
    jaas = re.search(r"""\busername\s*=\s*["']?([^"';\s]+)""", context.get("sasl.jaas.config") or "")
    return ListedContext(
        name=context.name,
        chosen=is_chosen,
        bootstrap_servers=HIDDEN if given and "@" in given else given,
        security_protocol=(context.get("security.protocol") or _PLAINTEXT).upper(),
        sasl_username=context.get("sasl.username") or (jaas[1] if jaas else None),
        read_only=context.read_only,
        explicit=context.explicit,
        source=context.source,
    )


class UsedContext(msgspec.Struct, frozen=True):
    name: Annotated[str, "The context."]
    previous: Annotated[str | None, "The context that was used before."]
    bootstrap_servers: Annotated[str | None, "Its bootstrap servers."]


class ShownSetting(msgspec.Struct, frozen=True):
    key: Annotated[str, "The key, as librdkafka names it."]
    value: Annotated[str | None, "The value; null if it is a secret."]
    hidden: Annotated[bool, "Whether it is a secret."]
    source: Annotated[str, "Where it is from."]


class UnknownSetting(msgspec.Struct, frozen=True):
    """A setting that kgroup does not know; a key that may be a password is hidden."""

    key: Annotated[str, "The key."]
    source: Annotated[str, "Where it is from."]


class ShownQuery(msgspec.Struct, frozen=True):
    """A streaming query that the context names."""

    name: Annotated[str, "The name; `spark:NAME` is the query."]
    checkpoint: Annotated[str, "The path or URI of its checkpoint."]
    every_ms: Annotated[Ms | None, "How often its job starts; null if the context does not have it."]
    source: Annotated[str, "Where it is from."]


class ShownContext(msgspec.Struct, frozen=True):
    context: Annotated[str | None, "The context; null if none is used."]
    named: Annotated[bool, "Whether it was named by --context or KGROUP_CONTEXT."]
    read_only: Annotated[bool, "Whether changes are refused."]
    explicit: Annotated[bool, "Whether changes need --context."]
    timeout_ms: Annotated[Ms, "The timeout."]
    settings: Annotated[tuple[ShownSetting, ...], "The settings."]
    catchup: Annotated[tuple[ShownSetting, ...], "The settings of its section `catchup`."]
    queries: Annotated[tuple[ShownQuery, ...], "The streaming queries of its section `queries`."]
    unknown_settings: Annotated[tuple[UnknownSetting, ...], "Settings that kgroup does not know."]


def _shown(settings: Settings) -> ShownContext:
    secret = {key for key, entry in settings.entries.items() if entry.is_secret}
    return ShownContext(
        context=settings.context,
        named=settings.named,
        read_only=settings.read_only,
        explicit=settings.explicit,
        timeout_ms=round(settings.timeout_s * 1000),
        settings=tuple(
            ShownSetting(entry.key, None if entry.key in secret else entry.value, entry.key in secret, entry.source)
            for entry in settings.entries.values()
        ),
        catchup=tuple(
            ShownSetting(entry.key, None if entry.is_secret else entry.value, entry.is_secret, entry.source)
            for entry in settings.catchup
        ),
        queries=tuple(
            ShownQuery(name, each.location, None if each.every_s is None else round(each.every_s * 1000), each.source)
            for name, each in settings.queries.items()
        ),
        unknown_settings=tuple(UnknownSetting(entry.named, entry.source) for entry in settings.unknown),
    )


def _rows(settings: Settings) -> list[tuple[str, str, str]]:
    """Key, value and source of each setting in force; secrets are hidden."""
    rows = [(entry.key, entry.display_value, entry.source) for entry in settings.entries.values()]
    rows.append(("timeout", f"{settings.timeout_s:g}s", settings.timeout_source))
    for name, holds in (("read_only", settings.read_only), ("explicit", settings.explicit)):
        if holds:
            rows.append((name, "true", settings.context_source or ""))
    rows += [(f"catchup.{entry.key}", entry.display_value, entry.source) for entry in settings.catchup]
    return [*rows, *((f"queries.{name}", query.location, query.source) for name, query in settings.queries.items())]


def list_outcome(rows: tuple[ListedContext, ...]) -> Outcome:
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
                "*" if row.chosen else "",
                row.name,
                row.bootstrap_servers,
                row.security_protocol,
                row.sasl_username,
                row.limits,
            )
            for row in rows
        ]
        return Screen((Table(columns, cells, sparse=frozenset({"SASL-USERNAME", "LIMITS"})),))

    return Outcome(data=rows, screen=screen, records=lambda: Records.of(header, rows))


def choice_outcome(choice: UsedContext) -> Outcome:
    before = "" if choice.previous in (None, choice.name) else f"  Before: {choice.previous}."
    line = f'Commands now use "{choice.name}" ({choice.bootstrap_servers or "no address"}).{before}'
    return Outcome(
        data=(choice,),
        screen=lambda: Screen((Text((line,)),)),
        records=lambda: Records.of(("name", "previous", "bootstrap_servers"), (choice,)),
        executed=True,
    )


def settings_outcome(settings: Settings) -> Outcome:
    subject = f'context "{settings.context}"' if settings.context else "no context"

    def screen() -> Screen:
        columns = (Column("KEY"), Column("VALUE", fold=True), Column("SOURCE", fold=True))
        return Screen((Title(subject), BlankLine(), Table(columns, _rows(settings))))

    return Outcome(
        data=(_shown(settings),),
        screen=screen,
        records=lambda: Records(("key", "value", "source"), _rows(settings)),
        cluster=ClusterRef(None, settings.bootstrap_servers, settings.context),
    )
