"""Reads YAML, with the position of each setting in the text; no objects are constructed, so all tags are allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgroup.groups.migration.client_config.entries import ConfigEntry, ConfigFile, Leaf
from kgroup.groups.migration.client_config.names import CLASSIC_ONLY, PROTOCOL
from kgroup.groups.migration.client_config.properties import dotted
from kgroup.support.errors import ConfigError
from kgroup.support.redact import HIDDEN

if TYPE_CHECKING:
    import yaml

_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")
_DASHES = re.compile(r"[ \t]*(?:-[ \t]+)+")
_SETTING_IN_TEXT = re.compile(
    r"(?m)^[^#!\n]*?(?:" + "|".join(re.escape(key) for key in (*CLASSIC_ONLY, PROTOCOL)) + r")\s*[=:]"
)


def read_yaml(text: str, name: str) -> ConfigFile:
    """The settings of all documents of a YAML file; raises ConfigError with file and line."""
    import yaml

    mark = int(text.startswith("\ufeff"))
    reader = _Reader(text, mark)
    try:
        for number, root in enumerate(yaml.compose_all(text[mark:], Loader=yaml.SafeLoader)):
            if isinstance(root, yaml.ScalarNode) and root.tag != "tag:yaml.org,2002:null":
                raise ConfigError(f"{name}:{root.start_mark.line + 1}: no mapping (name: value) at the top")
            reader.node(root, (number,), "", number)
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    except yaml.YAMLError as error:
        # Only the position and the kind of the error: a password may begin with what YAML parses as an alias.
        where = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        spot = name if where is None else f"{name}:{where.line + 1}"
        problem = re.sub(r"'(?!<)[^']{2,}'", HIDDEN, getattr(error, "problem", None) or "unreadable")
        raise ConfigError(f"{spot}: not YAML: {problem}") from None
    found = _BREAK.search(text)
    return ConfigFile(
        kind="yaml",
        text=text,
        entries=tuple(reader.entries),
        leaves=tuple(reader.leaves),
        eol=found.group() if found else "\n",
        blocks=tuple(reader.blocks),
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """A key with its value; ``inline`` is whether its mapping has the form ``{a: b}``."""

    key: yaml.Node
    value: yaml.Node
    mapping: int
    place: tuple[object, ...]
    inline: bool


class _Reader:
    """Reads the nodes of a file; a node with aliases is read only where it is defined."""

    def __init__(self, text: str, mark: int) -> None:
        self.text = text
        self.mark = mark
        self.line_starts = [mark, *(found.end() for found in _BREAK.finditer(text))]
        self.entries: list[ConfigEntry] = []
        self.leaves: list[Leaf] = []
        self._mappings = 0
        self.blocks: list[tuple[int, str]] = []
        self._seen: dict[int, tuple[object, ...]] = {}
        # Keeps the nodes alive: aliases are recognised by the ids of these objects.
        self._nodes: list[yaml.Node] = []

    def node(self, node: yaml.Node, place: tuple[object, ...], full: str, document: int) -> None:
        """Read the node at ``place`` and the nodes below it."""
        import yaml

        if id(node) in self._seen:
            self.leaves.append(Leaf(place, repr(self._seen[id(node)]), "alias"))
            return
        self._seen[id(node)] = place
        self._nodes.append(node)
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, place, full, document)
        elif isinstance(node, yaml.SequenceNode):
            self.leaves.append(Leaf(place, "[]", node.tag))
            for number, item in enumerate(node.value):
                self.node(item, (*place, number), f"{full}[{number}]", document)
        else:
            self.leaves.append(Leaf(place, str(node.value), node.tag))
            if "\n" in str(node.value) and _SETTING_IN_TEXT.search(str(node.value)):
                self.blocks.append((node.start_mark.line + 1, full))

    def _mapping(self, node: yaml.MappingNode, place: tuple[object, ...], full: str, document: int) -> None:
        import yaml

        number = self._mappings
        self._mappings += 1
        self.leaves.append(Leaf(place, "{}", node.tag))
        for index, (key, value) in enumerate(node.value):
            if not isinstance(key, yaml.ScalarNode):
                self.node(key, (*place, index, "?"), full, document)
                self.node(value, (*place, index), full, document)
                continue
            name = str(key.value)
            own = dotted(name)
            whole = f"{full}.{own}" if full else own
            if name == "<<":
                whole = full
            else:
                pair = _Pair(key, value, number, (*place, name), bool(node.flow_style))
                self.entries.append(self._entry(pair, own, whole, document))
            self.node(value, (*place, name), whole, document)

    def _entry(self, pair: _Pair, own: str, full: str, document: int) -> ConfigEntry:
        key, value = pair.key, pair.value
        begin = key.start_mark.index + self.mark
        line_start = self.line_starts[key.start_mark.line]
        before = self.text[line_start:begin]
        start, end = line_start, self._line_end(self._content_end(key, value))
        lead, inline = before, pair.inline
        if before.strip():
            # The first setting of a list item, `- a: 1`: the dash stays, and the next setting moves up to it.
            start, lead = begin, ""
            inline = inline or _DASHES.fullmatch(before) is None
        return ConfigEntry(
            full=full,
            own=own,
            value=_value(value),
            line=key.start_mark.line + 1,
            start=start,
            end=end,
            place=pair.place,
            mapping=pair.mapping,
            document=document,
            lead=lead,
            indent=" " * (begin - line_start),
            separator=": ",
            inline=inline,
        )

    def _content_end(self, key: yaml.Node, value: yaml.Node) -> int:
        """Where the value ends, without the blank lines and comments that PyYAML includes in a block."""
        import yaml

        start = key.end_mark.index + self.mark
        if value.start_mark.index < key.start_mark.index:
            return self._line_end(start, with_break=False)  # an alias: its node is elsewhere
        end = int(value.end_mark.index) + self.mark
        if isinstance(value, yaml.ScalarNode):
            return start + len(self.text[start:end].rstrip()) if value.style in ("|", ">") else end
        if isinstance(value, yaml.CollectionNode) and value.flow_style:
            return end
        content = self.text[start:end].rstrip()
        while (last := content[_last_break(content) :]) and last.lstrip().startswith("#"):
            content = content[: len(content) - len(last)].rstrip()
        return start + len(content)

    def _line_end(self, at: int, *, with_break: bool = True) -> int:
        found = _BREAK.search(self.text, at)
        if found is None:
            return len(self.text)
        return found.end() if with_break else found.start()


def _last_break(text: str) -> int:
    """The index after the last line break; 0 if there is none."""
    return max(text.rfind(character) for character in "\r\n\x85\u2028\u2029") + 1


def _value(node: yaml.Node) -> str | None:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return ",".join(str(item.value) for item in node.value)
    return None
