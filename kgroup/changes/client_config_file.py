"""The configuration file of an application: read as properties or YAML, written as properties."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kgroup.groups.migration.client_config.decide import ConfigChange
from kgroup.groups.migration.client_config.scopes import ConfigEntry, ConfigFile
from kgroup.settings.java_properties import PropertiesError, decode, parse_properties
from kgroup.support.errors import ConfigError
from kgroup.support.redact import HIDDEN

if TYPE_CHECKING:
    import yaml

_YAML_ENDINGS = (".yml", ".yaml", ".json")
_PROPERTIES_ENDINGS = (".properties", ".conf", ".config", ".cfg", ".cnf", ".ini", ".env")
_ASSIGNMENT = re.compile(r"^[\w.\-]+[ \t]*=", re.M)
_YAML_LINE = re.compile(r"^(?:---|%YAML|[{\[]|(?:- +)*[\"'\w.\-]+:(?:\s|$))", re.M)
_BRACKETS = re.compile(r"\.?\[([^\]]*)\]")
_NATURAL_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def read_config(data: bytes, name: str) -> ConfigFile:
    """The settings of a file. Raises ConfigError, with file and line, if it cannot be read.

    ``name`` is the file's name. Its ending decides whether the file is YAML; without a known one, the first lines do.
    """
    text, lowered = decode(data), name.lower()
    if lowered.endswith(_YAML_ENDINGS):
        return ConfigFile(name, "yaml", tuple(_yaml_entries(text, name)))
    known = lowered.endswith(_PROPERTIES_ENDINGS)
    if not known and not _ASSIGNMENT.search(text) and _YAML_LINE.search(text):
        return ConfigFile(name, "yaml", tuple(_yaml_entries(text, name)))
    try:
        properties = parse_properties(text)
    except PropertiesError as error:
        raise ConfigError(f"{name}:{error.line}: {error}") from None
    entries = (ConfigEntry(_dotted(entry.key), entry.value, entry.line, entry.last_line) for entry in properties)
    return ConfigFile(name, "properties", tuple(entries))


def write_changes(data: bytes, file: ConfigFile, changes: Sequence[ConfigChange]) -> bytes:
    """The properties file ``data`` with the changes; all other lines stay byte for byte.

    The result is read again. Raises ConfigError if it differs from ``file`` in more or less than the changes.
    """
    lines: list[bytes] = _NATURAL_LINE.findall(data)
    eol = next((ending[0] for line in lines if (ending := re.search(rb"[\r\n]+\Z", line))), b"\n")
    removed = {change.old for change in changes if change.old is not None}
    gone = {number for entry in removed for number in range(entry.line, entry.last_line + 1)}
    written: list[bytes] = []
    for number, line in enumerate(lines, 1):
        if number not in gone:
            written.append(line)
        new = [c for c in changes if c.new_value is not None and c.near.last_line == number]
        if new and written and not written[-1].endswith((b"\r", b"\n")):
            written[-1] += eol
        written += [f"{change.key}={change.new_value}".encode() + eol for change in new]
    result = b"".join(written)
    expected = {entry.key: entry.value for entry in file.entries if entry not in removed}
    expected |= {change.key: change.new_value for change in changes if change.new_value is not None}
    if {entry.key: entry.value for entry in read_config(result, file.name).entries} != expected:
        raise ConfigError(f"{file.name}: cannot be changed line by line", hint="Make the listed changes by hand.")
    return result


def _dotted(key: str) -> str:
    """A key without the brackets that Spring allows around a part of it: ``a[b.c]`` is ``a.b.c``."""
    return _BRACKETS.sub(r".\1", key).lstrip(".") if "[" in key else key


def _yaml_entries(text: str, name: str) -> Iterator[ConfigEntry]:
    """The settings of all documents; no objects are constructed, so all tags are allowed."""
    import yaml  # imported here: few configurations are YAML

    try:
        documents = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        for number, root in enumerate(documents):
            yield from _YamlReader(number).entries(root, "")
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    except yaml.YAMLError as error:
        # Only the position and the kind of the error: a password may begin with what YAML parses as an alias.
        where = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        spot = name if where is None else f"{name}:{where.line + 1}"
        problem = re.sub(r"'(?!<)[^']{2,}'", HIDDEN, getattr(error, "problem", None) or "unreadable")
        raise ConfigError(f"{spot}: not YAML: {problem}") from None


class _YamlReader:
    """Reads one document; mappings and lists with aliases are read only where they are defined."""

    def __init__(self, document: int) -> None:
        self._document = document
        self._seen: set[int] = set()

    def entries(self, node: yaml.Node, prefix: str) -> Iterator[ConfigEntry]:
        """The settings at and below a node; ``prefix`` are the keys above it, with a dot at the end."""
        import yaml

        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                yield from self.entries(item, f"{prefix.removesuffix('.')}[{number}].")
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                name = str(key.value)
                line, text = key.start_mark.line + 1, _yaml_value(value)
                if text is not None:
                    yield ConfigEntry(f"{prefix}{_dotted(name)}", text, line, line, self._document)
                else:
                    yield from self.entries(value, prefix if name == "<<" else f"{prefix}{_dotted(name)}.")


def _yaml_value(node: yaml.Node) -> str | None:
    """A plain value, or a list of them joined with commas; None for anything else."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return ",".join(str(item.value) for item in node.value)
    return None
