"""Recognises YAML or properties, and settings of Java's client or of librdkafka."""

from __future__ import annotations

import re

from kgroup.groups.migration.client_config.decide import Flavour
from kgroup.groups.migration.client_config.entries import ConfigFile
from kgroup.groups.migration.client_config.names import JAVA_ONLY, LIBRDKAFKA_ONLY, STRATEGY, known

_YAML_ENDINGS = (".yml", ".yaml", ".json")
_PROPERTIES_ENDINGS = (".properties", ".conf", ".config", ".cfg", ".cnf", ".ini", ".env")
_SIGNIFICANT = re.compile(r"^[ \t\f\ufeff]*([^\s#!][^\r\n]*)", re.M)
_YAML_START = re.compile(r"---|%YAML|[{\[]|(?:-[ \t]+)*(?:\"[^\"]*\"|'[^']*'|[\w.\-/]+)[ \t]*:(?:\s|$)")
_ASSIGNMENT = re.compile(r"^[\w.\-]+[ \t]*=", re.M)
_INDENTED_ASSIGNMENT = re.compile(r"^[ \t]*[\w.\-]+[ \t]*=", re.M)
_FRAMEWORKS = ("spring.", "mp.messaging.", "quarkus.", "micronaut.", "kafka.consumers.")
_BOTH: tuple[Flavour, ...] = ("java", "librdkafka")


def looks_like_yaml(text: str, name: str) -> bool:
    """Whether to read the file as YAML: by its name's ending, else by its first line that is not a comment."""
    lowered = name.lower()
    if lowered.endswith(_YAML_ENDINGS):
        return True
    if lowered.endswith(_PROPERTIES_ENDINGS):
        return False
    first = _SIGNIFICANT.search(text)
    return first is not None and bool(_YAML_START.match(first[1])) and not _ASSIGNMENT.search(text)


def may_be_properties(text: str, name: str) -> bool:
    """Whether a file that is not valid YAML may be properties: Java accepts ``a: b`` and ``a = b`` in one file."""
    return not name.lower().endswith(_YAML_ENDINGS) and _INDENTED_ASSIGNMENT.search(text) is not None


def flavours_of(reading: ConfigFile) -> tuple[tuple[Flavour, ...], str | None]:
    """The clients that may read the file, the more likely first, and a note if that is a guess (else None)."""
    java = librdkafka = 0
    for entry in reading.entries:
        if entry.value is None:
            continue
        java += known(entry.own, JAVA_ONLY) is not None or entry.full.startswith(_FRAMEWORKS)
        librdkafka += known(entry.own, LIBRDKAFKA_ONLY) is not None
        if known(entry.own, (STRATEGY,)) is not None and entry.value.strip():
            # Java's client takes classes, librdkafka takes short names.
            if "." in entry.value:
                return ("java",), None
            return ("librdkafka",), None
    if java != librdkafka:
        return (("java",) if java > librdkafka else ("librdkafka",)), None
    if reading.kind == "yaml":
        return _BOTH[::-1], "nothing in it tells Java's client from librdkafka: it is taken for librdkafka's"
    return _BOTH, "nothing in it tells Java's client from librdkafka: it is taken for Java's"
