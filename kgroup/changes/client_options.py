"""What the user states about the application of a group: its Kafka client and its configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kgroup.groups.migration.about_assignors import server_assignor
from kgroup.groups.migration.clients import known_client, parse_clients
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules
from kgroup.groups.selection import Groups, names_of, names_only
from kgroup.model.migration_facts import SESSION_CONFIG
from kgroup.queries.migration_evidence import ClientUse
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.errors import UsageError
from kgroup.support.input_file import read_bytes, read_text

if TYPE_CHECKING:
    from kgroup.groups.migration.client_config import ConfigPlan
    from kgroup.groups.migration.client_config.scopes import ConfigFile


class Clients(msgspec.Struct, frozen=True):
    """The values of ``--client``; ``named`` are the groups named on the command line itself, not in a file."""

    used: ClientUse
    named: frozenset[str]

    @classmethod
    def parsed(cls, texts: Sequence[str], rules: MigrationRules) -> Clients:
        """Parse the values; ``@FILE`` is read. Raises UsageError for a bad file or form, and for an unknown client."""
        used = parse_clients([line for text in texts for line in _lines(text)])
        for _, client in used:
            known_client(client.name, rules)
        typed = parse_clients([text for text in texts if not text.startswith("@")])
        return cls(used, frozenset(group for group, _ in typed if group is not None))

    def check(self, groups: Collection[str]) -> None:
        """Raise UsageError for a named group that is not in ``groups``; otherwise a typo would have no effect."""
        if unknown := sorted(self.named.difference(groups)):
            raise UsageError(f"--client {unknown[0]}=...: {unknown[0]} is not among the chosen groups")


def _lines(text: str) -> Iterator[str]:
    if not text.startswith("@"):
        yield text
        return
    for line in read_text(text[1:], "--client").splitlines():
        if stripped := line.partition("#")[0].strip():
            yield stripped


class Configuration(msgspec.Struct, frozen=True):
    """A configuration of the application. ``write`` is the path for the new one, None if it is only shown."""

    data: bytes
    file: ConfigFile
    wanted: MigrationRequest
    write: str | None

    @classmethod
    def parse(
        cls, groups: Groups, path: str | None, write: str | None, wanted: MigrationRequest
    ) -> Configuration | None:
        """The configuration file, None without one.

        Raises UsageError for options that conflict, and ConfigError if the file cannot be read.
        """
        if path is None:
            if write is not None:
                raise UsageError("--write requires --client-config")
            return None
        if not names_only(groups) or len(names_of(groups)) != 1:
            raise UsageError("--client-config requires exactly one group by name: the file is of one application")
        if write is not None:
            AtomicFile(write, "--write").check()
        # Imported here: few migrations have a configuration.
        from kgroup.changes.client_config_file import read_config

        data = read_bytes(path, "--client-config")
        file = read_config(data, path)
        if write is not None and file.kind == "yaml":
            raise UsageError(
                f"--write writes properties files only, and {path} is YAML",
                hint="Without --write the plan lists the changes. Make them by hand.",
            )
        return cls(data, file, wanted, write)

    @property
    def strategies(self) -> tuple[str, ...]:
        """The client's assignors in the file. Raises ConfigError if it is not the configuration of a client."""
        return self._planned(None, None).strategies

    def planned(self, evidence: MigrationEvidence) -> ConfigPlan:
        """The changes, with the group's assignor if the file names none; also written to ``write``."""
        group, past, session_ms = evidence.group, evidence.past, (evidence.configs or {}).get(SESSION_CONFIG)
        used = group.assignor or (past.assignor if past else None) or ""
        mapped = server_assignor(used) or (used if group.type == "consumer" else None) or None
        plan = self._planned(mapped, int(session_ms) if session_ms and session_ms.isdigit() else None)
        if plan.strategies and self.wanted.target == "consumer" and mapped not in (None, plan.assignor):
            own = ", ".join(plan.strategies)
            plan = replace(plan, notes=(*plan.notes, f"the group used {used}; this file names {own}"))
        if self.write is not None:
            from kgroup.changes.client_config_file import write_changes

            written = write_changes(self.data, self.file, plan.changes)
            with AtomicFile(self.write, "--write") as file:
                file.write(written)
        return plan

    def _planned(self, assignor: str | None, session_timeout_ms: int | None) -> ConfigPlan:
        from kgroup.groups.migration.client_config import plan_config

        return plan_config(self.file, self.wanted.target, assignor=assignor, session_timeout_ms=session_timeout_ms)
