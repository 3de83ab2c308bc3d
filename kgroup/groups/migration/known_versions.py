"""Known facts about the versions of clients, frameworks and brokers; ``kgroup.queries.migration_data`` reads them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cache

import msgspec


class Certainty(StrEnum):
    """How a fact is known: from the primary text or source code, from one report, or nothing was found."""

    CONFIRMED = "confirmed"
    SECOND_HAND = "second-hand"
    UNKNOWN = "unknown"


class ClientSupport(StrEnum):
    """Whether a client supports the consumer protocol (KIP-848) from some version on."""

    FULL = "full"
    NONE = "none"
    UNKNOWN = "unknown"


class DefectLevel(StrEnum):
    """Whether a defect causes a warning or only a remark."""

    WARNING = "warning"
    INFO = "info"


class ClientDefect(msgspec.Struct, frozen=True):
    """A known defect of a client; ``fixed_in`` are the releases with the fix, empty if it is open."""

    id: str
    what: str
    fixed_in: tuple[str, ...]
    level: DefectLevel
    certainty: Certainty


class ClientRow(msgspec.Struct, frozen=True, kw_only=True):
    """A client library or a framework.

    ``also`` are its other names. ``usable_from`` is None if the first usable version is unknown, ``recommended`` if
    none is recommended. ``wait`` means that no release can be recommended yet. ``follows`` names the row whose version
    counts if this one only passes settings through. A major number above ``last_major`` is another product's.
    """

    name: str
    title: str
    also: tuple[str, ...] = ()
    support: ClientSupport
    usable_from: str | None = None
    recommended: str | None = None
    wait: bool = False
    follows: str | None = None
    last_major: int | None = None
    certainty: Certainty
    recommended_certainty: Certainty
    source: str
    read_on: str | None = None
    notes: tuple[str, ...] = ()
    defects: tuple[ClientDefect, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)


class BrokerDefect(msgspec.Struct, frozen=True, kw_only=True):
    """A known defect of brokers from release ``since`` until the releases of ``fixed_in`` (empty: open).

    ``targets`` are the protocols whose groups, or the migration to which, it affects. ``live``, ``static``: only a live
    group, only static members. ``policies``: only under these values of ``group.consumer.migration.policy``.
    """

    id: str
    what: str
    since: str
    fixed_in: tuple[str, ...]
    level: DefectLevel
    targets: tuple[str, ...]
    live: bool = False
    static: bool = False
    policies: tuple[str, ...] = ()
    certainty: Certainty
    source: str
    read_on: str | None = None


class KnownProduct(msgspec.Struct, frozen=True):
    """A product that is not part of Apache Kafka, and how it handles KIP-848: a service, a proxy, a monitor."""

    name: str
    what: str
    source: str
    certainty: Certainty
    read_on: str | None = None


class MigrationRules(msgspec.Struct, frozen=True):
    """All tables, of the day ``read_on`` (YYYY-MM-DD); a row that was not read again then has an older date of its own.

    ``services`` are brokers that are not Apache Kafka. ``proxies`` and ``gateways`` run between clients and brokers:
    the first offer old versions of the requests, the others hide them.
    """

    clients: tuple[ClientRow, ...] = ()
    monitors: tuple[KnownProduct, ...] = ()
    broker_defects: tuple[BrokerDefect, ...] = ()
    services: tuple[KnownProduct, ...] = ()
    proxies: tuple[KnownProduct, ...] = ()
    gateways: tuple[KnownProduct, ...] = ()
    read_on: str = "1970-01-01"


# A pattern as text: re compiles it at its first use and caches it.
_VERSION = r"(?a)v?(\d{1,9}(?:\.\d{1,9}){0,3})((?!\.[xX]\b)(?:[-+.~]?[A-Za-z]|[-+~]\d)[-\w.+~]*)?"
_BEFORE_RELEASE = r"(?ai)[-+.~]?(?:rc|alpha|beta|snapshot|preview|dev|[abm]\d)"
_PARTS = 4

Version = tuple[int, ...]
"""Four numbers, then 0 for a pre-release and 1 for a release."""


@cache
def parse_version(text: str) -> Version | None:
    """``4.3`` as (4, 3, 0, 0, 1); a release candidate or snapshot sorts before its release; None if not a version."""
    parsed = re.fullmatch(_VERSION, text.strip())
    if parsed is None:
        return None
    numbers = [int(part) for part in parsed[1].split(".")]
    early = re.match(_BEFORE_RELEASE, parsed[2] or "") is not None
    return (*numbers, *[0] * (_PARTS - len(numbers)), 0 if early else 1)


def minor_of(version: Version) -> Version:
    """The minor release of a version: (4, 3) for 4.3.1."""
    return version[:2]


def has_fix(version: Version, fixed_in: Sequence[str]) -> bool:
    """Whether a version has a fix: its minor release got it by then, or the version is at least the newest fix.

    If ``fixed_in`` is 4.0.2, 4.1.2 and 4.2.0, then 4.1.2 and 4.3.0 have the fix, 4.1.1 and 4.0.1 do not.
    """
    fixes = [fix for text in fixed_in if (fix := parse_version(text))]
    own = any(minor_of(fix) == minor_of(version) and version >= fix for fix in fixes)
    return own or (bool(fixes) and version >= max(fixes))
