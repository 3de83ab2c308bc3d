"""What is known of clients, frameworks and brokers, as values; ``kgroup.queries.migration_data`` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Certainty(StrEnum):
    """How a fact is known: the primary text or the source was read, one report says so, nothing was found."""

    CONFIRMED = "confirmed"
    SECOND_HAND = "second-hand"
    UNKNOWN = "unknown"


class Support(StrEnum):
    """Whether a client speaks the consumer protocol (KIP-848), from some version on."""

    FULL = "full"
    NONE = "none"
    UNKNOWN = "unknown"


class DefectLevel(StrEnum):
    """Whether a defect is worth a warning, or only worth saying."""

    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Defect:
    """A known defect of a client; ``fixed_in`` are the releases that brought the fix, none where it is open."""

    id: str
    what: str
    fixed_in: tuple[str, ...]
    level: DefectLevel
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class ClientRow:
    """A client library or a framework.

    ``also`` are its other names. ``usable_from`` is None where no version is known to be the first, ``recommended``
    where none is advised; with ``wait`` none can be advised yet. ``follows`` names the row whose version counts where
    this one only passes settings through. Above ``last_major`` no release is numbered: it is somebody else's number.
    """

    name: str
    title: str
    also: tuple[str, ...]
    support: Support
    usable_from: str | None
    recommended: str | None
    wait: bool
    follows: str | None
    last_major: int | None
    certainty: Certainty
    recommended_certainty: Certainty
    source: str
    notes: tuple[str, ...]
    defects: tuple[Defect, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that it may be called."""
        return (self.name, *self.also)


@dataclass(frozen=True, slots=True)
class BrokerDefect:
    """A known defect of brokers, from release ``since`` on, until those of ``fixed_in`` (none: open).

    ``targets`` are the protocols whose groups, or the move to which, it concerns. It matters only while the group is
    ``live``, has ``static`` members, or under one of ``policies`` (``group.consumer.migration.policy``), where so said.
    """

    id: str
    what: str
    since: str
    fixed_in: tuple[str, ...]
    level: DefectLevel
    targets: tuple[str, ...]
    live: bool
    static: bool
    policies: tuple[str, ...]
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class Product:
    """Something beside Apache Kafka's own programs, and how it is with KIP-848: a service, a proxy, a monitor."""

    name: str
    what: str
    source: str
    certainty: Certainty


@dataclass(frozen=True, slots=True)
class MigrationRules:
    """All tables. ``services`` are brokers that are not Apache Kafka's, ``proxies`` stand before brokers."""

    clients: tuple[ClientRow, ...] = ()
    monitors: tuple[Product, ...] = ()
    broker_defects: tuple[BrokerDefect, ...] = ()
    services: tuple[Product, ...] = ()
    proxies: tuple[Product, ...] = ()
