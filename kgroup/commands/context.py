"""``kgroup context``: the named clusters of the user's configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import typer

from kgroup.model.blocks import BlankLine, Column, Records, Screen, Table, Text, Title
from kgroup.model.outcome import Outcome
from kgroup.settings import contexts, paths
from kgroup.settings.connection import Connection
from kgroup.settings.contexts import Context, display_path
from kgroup.settings.environment import variable
from kgroup.settings.invocation import Invocation
from kgroup.settings.model import Setting, Settings
from kgroup.settings.sources import resolve
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import UsageError
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
        """As in the file, else PLAINTEXT."""
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
        """See ``kgroup.model.outcome.Document``."""
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


def list_(run: Invocation) -> Outcome:
    """List the named clusters, and which one is chosen.

    They are in the file of KGROUP_CONFIG (default: config.yaml in your configuration directory). kgroup only reads it.

    Examples:
    # the named clusters
    kgroup context list
    # with all fields
    kgroup context list -o json

    Exit codes: 0 2
    """
    chosen = run.connection.context or variable("KGROUP_CONTEXT") or contexts.load_choice()
    rows = tuple(ContextRow(context, context.name == chosen) for context in contexts.load().values())
    if not rows:
        run.reporter.note(f"no contexts in {display_path(paths.config_file())}; example: kgroup help connection")
    elif chosen is not None and not any(row.is_current for row in rows):
        run.reporter.warn(f'the chosen context "{chosen}" is not one of them')
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


class ContextChoice(msgspec.Struct, frozen=True):
    """The context that was chosen now, and the one before."""

    name: str
    previous: str | None
    bootstrap_servers: str | None

    def document(self) -> Mapping[str, Any]:
        """See ``kgroup.model.outcome.Document``."""
        return {"name": self.name, "previous": self.previous, "bootstrap_servers": self.bootstrap_servers}


def use(run: Invocation, name: Annotated[str, typer.Argument(metavar="NAME", help="A context's name.")]) -> Outcome:
    """Choose the cluster for commands that name none.

    The choice is kept in the state directory (KGROUP_STATE_DIR). --context, KGROUP_CONTEXT and an address on the
    command line or in a variable have precedence.

    Examples:
    # commands without a cluster use prod from now on
    kgroup context use prod

    Exit codes: 0 2 5
    """
    context = contexts.choose(contexts.load(), name, "the command line")
    previous = contexts.load_choice()
    contexts.save_choice(name)
    overruled = variable("KGROUP_CONTEXT")
    if overruled and overruled != name:
        run.reporter.warn(f'KGROUP_CONTEXT is set, so commands in this shell continue to use "{overruled}"')
    elif variable("KGROUP_BOOTSTRAP_SERVER"):
        run.reporter.warn("KGROUP_BOOTSTRAP_SERVER is set, so commands in this shell do not use the context")
    choice = ContextChoice(name, previous, ContextRow(context, is_current=True).bootstrap_servers)
    before = "" if previous in (None, name) else f"  Before: {previous}."
    line = f'Commands now use "{name}" ({choice.bootstrap_servers or "no address"}).{before}'
    return Outcome(
        data=(choice,),
        screen=lambda: Screen((Text((line,)),)),
        records=lambda: Records(
            ("name", "previous", "bootstrap_servers"), [(name, previous, choice.bootstrap_servers)]
        ),
        executed=True,
    )


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
        """See ``kgroup.model.outcome.Document``."""
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


def show(
    run: Invocation,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A context; without it, what is in force now.")
    ] = None,
) -> Outcome:
    """Show the settings in force and their sources, without secrets.

    Examples:
    # the settings that apply now
    kgroup context show
    # the settings of a named cluster
    kgroup context show prod
    # what a command line and a file would set
    kgroup context show -b b1:9092 --command-config client.properties

    Exit codes: 0 2 5
    """
    if name is not None and run.connection.context not in (None, name):
        raise UsageError(f"NAME {name} and --context {run.connection.context} are mutually exclusive")
    settings = resolve(Connection(context=name).with_defaults(run.connection), run.reporter)
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


def _public(entry: Setting) -> str | None:
    return None if is_secret(entry.key) else entry.value


SUBCOMMANDS = (list_, use, show)
