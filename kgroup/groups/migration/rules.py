"""Known facts about clients, frameworks and brokers, as values; ``kgroup.queries.migration_data`` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Certainty(StrEnum):
    """How a fact is known: from the primary text or source code, from one report, or nothing was found."""

    CONFIRMED = "confirmed"
    SECOND_HAND = "second-hand"
    UNKNOWN = "unknown"


class Support(StrEnum):
    """Whether a client supports the consumer protocol (KIP-848) from some version on."""

    FULL = "full"
    NONE = "none"
    UNKNOWN = "unknown"


class DefectLevel(StrEnum):
    """Whether a defect causes a warning or only a remark."""

    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Defect:
    """A known defect of a client; ``fixed_in`` are the releases with the fix, empty if it is open."""

    id: str
    what: str
    fixed_in: tuple[str, ...]
    level: DefectLevel
    certainty: Certainty


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """A client library or a framework.

    ``also`` are its other names. ``usable_from`` is None if the first usable version is unknown, ``recommended`` if
    none is recommended. ``wait`` means that no release can be recommended yet. ``follows`` names the row whose version
    counts if this one only passes settings through. A major number above ``last_major`` is another product's.
    """

    name: str
    title: str
    also: tuple[str, ...] = ()
    support: Support
    usable_from: str | None = None
    recommended: str | None = None
    wait: bool = False
    follows: str | None = None
    last_major: int | None = None
    certainty: Certainty
    recommended_certainty: Certainty
    source: str
    notes: tuple[str, ...] = ()
    defects: tuple[Defect, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All its names."""
        return (self.name, *self.also)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDefect:
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


@dataclass(frozen=True, slots=True)
class Product:
    """A product that is not part of Apache Kafka, and how it handles KIP-848: a service, a proxy, a monitor."""

    name: str
    what: str
    source: str
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class MigrationRules:
    """All tables; ``services`` are brokers that are not Apache Kafka, ``proxies`` run between clients and brokers."""

    clients: tuple[ClientRow, ...] = ()
    monitors: tuple[Product, ...] = ()
    broker_defects: tuple[BrokerDefect, ...] = ()
    services: tuple[Product, ...] = ()
    proxies: tuple[Product, ...] = ()
