"""Finds the settings of a file that belong to a consumer, by their keys and the prefixes of these."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kgroup.groups.migration.client_config.entries import ConfigEntry, ConfigFile
from kgroup.groups.migration.client_config.names import (
    BROKERS_OWN,
    CLIENTS,
    CONSUMERS,
    DISTINCTIVE,
    EMBEDDED_PREFIXES,
    GROUP_ID,
    HEARTBEAT,
    MATTER,
    OTHER_GROUPS,
    SESSION,
    known,
)
from kgroup.support.errors import ConfigError

_SPRING = "spring.kafka."
_SPRING_HEARTBEAT = re.compile(r"spring\.kafka\.consumer\.heartbeat[-_]?interval", re.I)
_CONSUMERS_NAMES = ("kafka", "consumer", "mp.messaging.incoming.")
_NOT_OF_CLIENTS = re.compile(r"(^|\.)(zookeeper|broker|controller|group\.(consumer|share|streams|min|max))\.$")


@dataclass(frozen=True, slots=True)
class ClientSetting:
    """A setting with the client's name for it as ``key``; ``home`` is whether new settings may go next to it."""

    key: str
    entry: ConfigEntry
    home: bool = True


@dataclass(frozen=True, slots=True)
class Scope:
    """The settings of one consumer; of equal keys the last one counts.

    New settings go next to ``home``, into its mapping, with ``prefix`` before their keys; None: the file is empty.
    """

    settings: tuple[ClientSetting, ...]
    home: ConfigEntry | None
    prefix: str

    @property
    def name(self) -> str:
        """The full prefix of its keys, including the enclosing mappings, with a dot at the end; may be empty."""
        return (self.home.around if self.home else "") + self.prefix

    def last(self, key: str) -> ClientSetting | None:
        """The setting of this key that counts; None if there is none."""
        return next((setting for setting in reversed(self.settings) if setting.key == key), None)

    def value(self, key: str) -> str | None:
        """The key's value without surrounding blanks; None if it is absent or empty."""
        found = self.last(key)
        return ((found.entry.value or "").strip() or None) if found else None


@dataclass(frozen=True, slots=True)
class ConsumerScopes:
    """The consumers of a file, and notes about settings that kgroup does not change."""

    scopes: tuple[Scope, ...]
    notes: tuple[str, ...]


def find_scopes(reading: ConfigFile, name: str) -> ConsumerScopes:
    """The consumers whose settings a file has.

    Raises ConfigError for a file without a client's settings, a broker's file, and several clients but no consumer.
    """
    if reading.kind != "yaml":
        _refuse_brokers(reading, name)
    finder = _Finder(reading)
    scopes = finder.scopes()
    if not scopes and not finder.notes:
        scopes = (_only_client(reading, finder, name),)
    return ConsumerScopes(scopes, tuple(finder.notes))


def _refuse_brokers(reading: ConfigFile, name: str) -> None:
    for entry in reading.entries:
        if entry.own in BROKERS_OWN:
            raise ConfigError(
                f"{name}:{entry.line}: {entry.own} is a broker's setting, so this is not a client's configuration"
            )


_Key = tuple[int, int, str]


class _Finder:
    """Groups the client settings of a file by document, mapping and prefix."""

    def __init__(self, reading: ConfigFile) -> None:
        self.notes: list[str] = []
        self.places: dict[_Key, list[ClientSetting]] = {}
        self.owners: dict[_Key, str] = {}
        self.spring: dict[int, list[ConfigEntry]] = {}
        for entry in reading.entries:
            if entry.value is None:
                continue
            if entry.full.startswith(_SPRING):
                self.spring.setdefault(entry.document, []).append(entry)
            self._take(entry)
        for line, key in reading.blocks:
            self.notes.append(
                f"line {line}: the text under {key} looks like a configuration of its own: give it as a file"
            )

    def scopes(self) -> tuple[Scope, ...]:
        """The consumers in file order; without weak candidates if Spring's or one with a group.id or similar exists."""
        plain = [scope for place, settings in self.places.items() if (scope := self._scope(place, settings))]
        strong = [scope for scope in plain if {s.key for s in scope.settings} & (DISTINCTIVE | {GROUP_ID})]
        spring = [scope for entries in self.spring.values() if (scope := _spring_scope(entries))]
        found = [*(strong or ([] if spring else plain)), *spring]
        return tuple(sorted(found, key=lambda scope: scope.home.start if scope.home else 0))

    def _take(self, entry: ConfigEntry) -> None:
        split = known(entry.own, CLIENTS)
        if split is not None:
            prefix, key = split
            self.places.setdefault((entry.document, entry.mapping, prefix), []).append(ClientSetting(key, entry))
            return
        owner = known(entry.own, OTHER_GROUPS)
        if owner is not None:
            self.owners[(entry.document, entry.mapping, owner[0])] = OTHER_GROUPS[owner[1]]
        nested = known(entry.full, MATTER)
        if nested is not None and not _NOT_OF_CLIENTS.search(nested[0]):
            self.notes.append(
                f"line {entry.line}: {nested[1]} is spread over nested keys ({entry.full}) and stays: change it by hand"
            )

    def _scope(self, place: _Key, settings: list[ClientSetting]) -> Scope | None:
        prefix = place[-1]
        whole = settings[0].entry.around + prefix
        if whole.startswith(_SPRING):
            self._note_embedded(settings, "Kafka Streams", only=whole.startswith(_SPRING + "streams."))
            return None
        if _NOT_OF_CLIENTS.search(whole):
            settings = [setting for setting in settings if setting.key not in (SESSION, HEARTBEAT)]
        keys = {setting.key for setting in settings}
        if not keys & CONSUMERS:
            return None
        owner = self.owners.get(place)
        if owner is None and prefix in EMBEDDED_PREFIXES and GROUP_ID not in keys:
            owner = "Kafka Streams or Connect"
        if owner is not None:
            self._note_embedded(settings, owner)
            return None
        named = any(word in whole.lower() for word in _CONSUMERS_NAMES)
        if prefix and not named and not keys & DISTINCTIVE and len(keys & CONSUMERS) < 2:
            return None
        return Scope(tuple(settings), settings[-1].entry, prefix)

    def _note_embedded(self, settings: Iterable[ClientSetting], owner: str, *, only: bool = True) -> None:
        for setting in settings:
            if only and setting.key in MATTER:
                entry = setting.entry
                self.notes.append(
                    f"line {entry.line}: {entry.full} stays: it is for the consumers that {owner} makes itself"
                )


def _spring_scope(entries: list[ConfigEntry]) -> Scope | None:
    """Spring Boot's consumer: Spring's own keys, and Kafka's keys under ``properties`` of all clients or consumers."""
    common = _spring_settings(entries, _SPRING + "properties.")
    own = _spring_settings(entries, _SPRING + "consumer.properties.")
    heartbeats = [
        ClientSetting(HEARTBEAT, entry, home=False) for entry in entries if _SPRING_HEARTBEAT.fullmatch(entry.full)
    ]
    home = _spring_home(entries, _SPRING + "consumer.properties.", "")
    if home is None and any(setting.key in DISTINCTIVE for setting in common):
        home = _spring_home([setting.entry for setting in common], _SPRING + "properties.", "")
    if home is None:
        home = _spring_home(entries, _SPRING + "consumer.", "properties.")
    if home is None:
        return None
    entry, prefix = home
    settings = tuple(
        ClientSetting(setting.key, setting.entry, home=setting.home and setting.entry.mapping == entry.mapping)
        for setting in (*common, *heartbeats, *own)
    )
    return Scope(settings, entry, prefix)


def _spring_settings(entries: Iterable[ConfigEntry], base: str) -> list[ClientSetting]:
    return [
        ClientSetting(key, entry)
        for entry in entries
        if entry.full.startswith(base) and (key := entry.full[len(base) :]) in CLIENTS and entry.own.endswith(key)
    ]


def _spring_home(entries: Iterable[ConfigEntry], base: str, below: str) -> tuple[ConfigEntry, str] | None:
    """The last setting under ``base``, and the prefix that puts keys next to it under ``below``; None without one."""
    home = None
    for entry in entries:
        rest = entry.full[len(base) :]
        if entry.full.startswith(base) and entry.own.endswith(rest):
            home = entry, entry.own[: len(entry.own) - len(rest)] + below
    return home


def _only_client(reading: ConfigFile, finder: _Finder, name: str) -> Scope:
    """Where a consumer's settings go in a file that has none; raises ConfigError if that is unclear."""
    if not reading.entries:
        if any(leaf.value for leaf in reading.leaves):
            raise ConfigError(f"{name}: no settings of the form name: value")
        return Scope((), None, "")
    for entries in finder.spring.values():
        home = _spring_home(entries, _SPRING, "consumer.properties.")
        if home is not None:
            return Scope((), *home)
    places = list(finder.places.items())
    if len(places) > 1:
        places = [place for place in places if any(setting.key == "bootstrap.servers" for setting in place[1])]
    match places:
        case [((_, _, prefix), settings)]:
            return Scope(tuple(settings), settings[-1].entry, prefix)
        case []:
            raise ConfigError(
                f"{name}: no setting of a Kafka client is in it",
                hint="Give the file that the consumer's group.id or bootstrap.servers stands in.",
            )
    raise ConfigError(
        f"{name}: {len(places)} clients are set up in it, and none of them as a consumer",
        details=tuple(
            f"line {settings[0].entry.line}: {(settings[0].entry.around + prefix).rstrip('.')}"
            for (_, _, prefix), settings in places
        ),
        hint="Give group.protocol to the one that is meant by hand.",
    )
