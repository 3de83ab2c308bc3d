"""Finds the settings of a file that belong to a consumer, by their keys and the prefixes of these."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from kgroup.groups.migration.client_config.names import (
    BROKERS_OWN,
    CONSUMERS,
    DISTINCTIVE,
    EMBEDDED_PREFIXES,
    GROUP_ID,
    HEARTBEAT,
    MATTER,
    OTHER_GROUPS,
    SESSION,
    split_key,
)
from kgroup.support.errors import ConfigError

_SPRING = re.compile(r"spring\.kafka\.(?!producer\.|streams\.|admin\.)")
_SPRING_CONSUMER = "spring.kafka.consumer."
_SPRING_PREFIXES = ("spring.kafka.properties.", "spring.kafka.consumer.properties.")
"""Before Kafka's own keys, for all clients of Spring Boot and for its consumers; the second wins."""
_SPRING_HEARTBEAT = re.compile(r"spring\.kafka\.consumer\.heartbeat[-_]?interval", re.I)
_CONSUMERS_NAMES = ("kafka", "consumer", "mp.messaging.incoming.")
_NOT_OF_CONSUMERS = re.compile(r"(^|\.)(zookeeper|broker|controller|group\.(consumer|share|streams|min|max))\.$")


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a file, on the lines ``line`` to ``last_line``, counted from 1.

    ``key`` includes the keys of the enclosing YAML mappings; ``a[b.c]`` is written ``a.b.c``. A list as ``value`` is
    joined with commas. ``document`` is the number of the document in a YAML file.
    """

    key: str
    value: str = field(repr=False)
    line: int
    last_line: int
    document: int = 0


class ConfigFile(msgspec.Struct, frozen=True):
    """The settings of a file. ``name`` is the file's name, for messages."""

    name: str
    kind: Literal["properties", "yaml"]
    entries: tuple[ConfigEntry, ...]


class Scope(msgspec.Struct, frozen=True):
    """The settings of one consumer, as (the client's key, entry); of equal keys the last one counts.

    New settings get ``prefix`` before their keys, and go after the entry ``near``.
    """

    prefix: str
    settings: tuple[tuple[str, ConfigEntry], ...]
    near: ConfigEntry

    def all(self, key: str) -> tuple[ConfigEntry, ...]:
        """The entries of this key, in order."""
        return tuple(entry for name, entry in self.settings if name == key)

    def value(self, key: str) -> str | None:
        """The key's value without surrounding blanks; None if it is absent or empty."""
        entries = self.all(key)
        return (entries[-1].value.strip() or None) if entries else None


_Settings = list[tuple[str, ConfigEntry]]
_Places = dict[tuple[int, str], _Settings]
"""Settings of clients, by the number of the document and the prefix."""


def find_scopes(file: ConfigFile) -> tuple[list[Scope], list[str]]:
    """The consumers whose settings a file has, and notes about settings that belong to others.

    Raises ConfigError for a broker's file, and if no consumer, or no one client, is in it.
    """
    if broker := next((entry for entry in file.entries if entry.key in BROKERS_OWN), None):
        raise ConfigError(f"{file.name}:{broker.line}: {broker.key} is a setting of brokers, not of clients")
    places, spring = _settings_by_place(file)
    owners = _owners(file, places)
    notes = [
        f"line {entry.line}: {entry.key} stays: it is for the consumers that {owners[place]} creates"
        for place, settings in places.items()
        for key, entry in settings
        if place in owners and key in MATTER
    ]
    # What Spring has left is for its producers and admin clients.
    clients = [
        (place[1], settings)
        for place, settings in places.items()
        if place not in owners and not place[1].startswith("spring.kafka.")
    ]
    plain = [client for client in clients if _is_consumer(file, *client)]
    strong = [client for client in plain if dict(client[1]).keys() & (DISTINCTIVE | {GROUP_ID})]
    if not (plain or spring or notes):
        plain = [_only_client(file, clients)]
    consumers = strong or ([] if spring else plain)
    return [*(_scope(*client) for client in consumers), *map(_spring_scope, spring)], notes


def _settings_by_place(file: ConfigFile) -> tuple[_Places, list[list[ConfigEntry]]]:
    """The settings of clients by place, and those of Spring Boot in each document that configures its consumers."""
    places: _Places = {}
    spring: dict[int, list[ConfigEntry]] = {}
    for entry in file.entries:
        prefix, key = split_key(entry.key)
        if _SPRING.match(entry.key):
            spring.setdefault(entry.document, []).append(entry)
        elif key and not (key in (SESSION, HEARTBEAT) and _NOT_OF_CONSUMERS.search(prefix)):
            places.setdefault((entry.document, prefix), []).append((key, entry))
    sure = [
        entries
        for entries in spring.values()
        if any(entry.key.startswith(_SPRING_CONSUMER) or split_key(entry.key)[1] in DISTINCTIVE for entry in entries)
    ]
    return places, sure or list(spring.values())[:1]


def _owners(file: ConfigFile, places: _Places) -> dict[tuple[int, str], str]:
    """The frameworks that create consumers themselves, by the place of their settings."""
    owners = {
        (entry.document, entry.key.removesuffix(mark)): owner
        for entry in file.entries
        for mark, owner in OTHER_GROUPS.items()
        if f".{entry.key}".endswith(f".{mark}")
    }
    for place, settings in places.items():
        if place[1].startswith("spring.kafka.streams."):
            owners[place] = "Kafka Streams"
        elif file.kind == "properties" and place[1] in EMBEDDED_PREFIXES and GROUP_ID not in dict(settings):
            owners.setdefault(place, "Kafka Streams or Connect")
    return owners


def _only_client(file: ConfigFile, clients: list[tuple[str, _Settings]]) -> tuple[str, _Settings]:
    """The one client of a file without settings that only consumers have."""
    if not clients:
        raise ConfigError(
            f"{file.name}: the file has no settings of a Kafka client",
            hint="Give the file that has the consumer's group.id or bootstrap.servers.",
        )
    addressed = (
        [client for client in clients if "bootstrap.servers" in dict(client[1])] if len(clients) > 1 else clients
    )
    if len(addressed) != 1:
        raise ConfigError(
            f"{file.name}: {len(clients)} clients are configured in the file, but no consumer",
            hint="Add group.id to the one that is the consumer.",
        )
    return addressed[0]


def _is_consumer(file: ConfigFile, prefix: str, settings: _Settings) -> bool:
    """In a properties file a single ``group.id`` after a prefix may be another program's."""
    keys = dict(settings).keys() & CONSUMERS
    sure = file.kind == "yaml" or not prefix or any(name in prefix.lower() for name in _CONSUMERS_NAMES)
    return bool(keys) and (sure or bool(keys & DISTINCTIVE) or len(keys) > 1)


def _scope(prefix: str, settings: _Settings) -> Scope:
    near = next((entry for key, entry in settings if key == GROUP_ID), settings[-1][1])
    return Scope(prefix, tuple(settings), near)


def _spring_scope(entries: list[ConfigEntry]) -> Scope:
    """Spring Boot's consumer: Kafka's own keys for all clients and for consumers, and Spring's own."""
    split = [(*split_key(entry.key), entry) for entry in entries]
    common, own = ([(key, e) for prefix, key, e in split if key and prefix == base] for base in _SPRING_PREFIXES)
    heartbeats = [(HEARTBEAT, entry) for entry in entries if _SPRING_HEARTBEAT.fullmatch(entry.key)]
    of_consumers = [entry for entry in entries if entry.key.startswith(_SPRING_CONSUMER)]
    return Scope(_SPRING_PREFIXES[1], (*common, *heartbeats, *own), (of_consumers or entries)[-1])
