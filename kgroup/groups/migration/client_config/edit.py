"""Changes a file line by line, and reads the result again to verify that nothing else changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from kgroup.groups.migration.client_config.decide import ConfigChange, Put
from kgroup.groups.migration.client_config.entries import ConfigEntry, ConfigFile, Leaf
from kgroup.groups.migration.client_config.names import GROUP_ID, PROTOCOL
from kgroup.support.errors import ConfigError

Span = tuple[int, int, str]
"""A part of the text, ``text[start:end]``, and its replacement."""


def edited(
    reading: ConfigFile, decisions: Iterable[ConfigChange], read: Callable[[str], ConfigFile], name: str
) -> tuple[str, tuple[Span, ...]]:
    """The text with the decisions applied, and the changed spans; ``read`` parses such a file.

    Raises ConfigError if it cannot be done line by line, or if the result would differ in any other setting.
    """
    decisions = [decision for decision in decisions if decision.gone or decision.put]
    if not decisions:
        return reading.text, ()
    spans = tuple(sorted({span for decision in decisions for span in _spans(reading, decision, name)}))
    text = _spliced(reading.text, spans)
    entries = [*decisions[0].gone, *(put.replaced for put in decisions[0].put if put.replaced)]
    spot = f"{name}:{min(entry.line for entry in entries)}" if entries else name
    try:
        right = _prove(reading, decisions, read(text))
    except ConfigError:
        right = False
    if not right:
        raise ConfigError(
            f"{spot}: these settings can't be changed by lines without changing others",
            hint="Write each setting on lines of its own, or change them by hand.",
        )
    return text, spans


def _spliced(text: str, spans: Iterable[Span]) -> str:
    parts, at = [], 0
    for start, end, replacement in spans:
        parts += [text[at:start], replacement]
        at = end
    return "".join((*parts, text[at:]))


@dataclass(slots=True)
class _Edits:
    """Edits of whole settings: lines that replace a setting, new lines, and settings that are removed."""

    replaced: dict[int, tuple[ConfigEntry, list[str]]] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    gone: dict[int, ConfigEntry] = field(default_factory=dict)
    anchor: ConfigEntry | None = None

    def touched(self) -> tuple[ConfigEntry, ...]:
        """The settings that are changed or removed."""
        return (*self.gone.values(), *(entry for entry, _ in self.replaced.values()))


def _edits(reading: ConfigFile, decision: ConfigChange) -> _Edits:
    scope = decision.scope
    edits = _Edits(gone={entry.start: entry for entry in decision.gone})
    # If the setting of `- a: 1` is removed, the new setting moves to the position after the dash.
    dashed = next((entry for entry in decision.gone if entry.dashed), None)
    edits.anchor = dashed or _anchor(decision)
    for put in decision.put:
        if put.replaced is None:
            edits.new.append(_line(reading, scope.prefix, put, edits.anchor))
            continue
        line = _line(reading, _prefix(put.replaced, put.key), put, put.replaced)
        if dashed is None:
            edits.replaced[put.replaced.start] = (put.replaced, [line])
        else:
            edits.new.append(line)
            edits.gone[put.replaced.start] = put.replaced
    return edits


def _spans(reading: ConfigFile, decision: ConfigChange, name: str) -> Iterator[Span]:
    """The parts of the text to replace, and their replacements; raises ConfigError for a shared line."""
    edits = _edits(reading, decision)
    beside = decision.scope.home if edits.new else None
    for entry in (*edits.touched(), *((beside,) if beside else ())):
        if entry.inline or (entry.dashed and not edits.new and entry in decision.gone):
            raise ConfigError(
                f"{name}:{entry.line}: {entry.full} shares its line with other settings and can't be changed by lines",
                hint="Write one setting a line, or change it by hand.",
            )
    if edits.new:
        yield from _placed(reading, edits, edits.anchor)
    for start, (entry, lines) in edits.replaced.items():
        text = entry.lead + (reading.eol + entry.indent).join(lines)
        yield start, entry.end, text + _eol_before(reading.text, entry.end)
    for start, entry in edits.gone.items():
        if start not in edits.replaced:
            yield start, entry.end, ""


def _placed(reading: ConfigFile, edits: _Edits, anchor: ConfigEntry | None) -> Iterator[Span]:
    """The new lines: in place of the anchor if it is removed, after it if it stays."""
    if anchor is None:
        yield _at_the_end(reading, edits.new)
    elif anchor.start in edits.replaced:
        edits.replaced[anchor.start][1].extend(edits.new)
    elif anchor.start in edits.gone:
        edits.replaced[anchor.start] = (anchor, edits.new)
    else:
        yield _after(reading, anchor, edits.new)


def _prefix(entry: ConfigEntry, key: str) -> str:
    return entry.own[: len(entry.own) - len(key)]


def _line(reading: ConfigFile, prefix: str, put: Put, beside: ConfigEntry | None) -> str:
    """A new setting, with the separator of its neighbour."""
    default = ": " if reading.kind == "yaml" else "="
    return f"{prefix}{put.key}{beside.separator if beside else default}{put.value}"


def _anchor(decision: ConfigChange) -> ConfigEntry | None:
    """The setting next to which new ones go: a replaced or removed one, else ``group.id``, else the consumer's last."""
    scope = decision.scope
    for put in decision.put:
        if put.key == PROTOCOL and put.replaced:
            return put.replaced
    home = {setting.entry for setting in scope.settings if setting.home}
    going = [entry for entry in decision.gone if entry in home]
    if going:
        return min(going, key=lambda entry: entry.start)
    for key in (PROTOCOL, GROUP_ID):
        found = scope.last(key)
        if found is not None and found.home:
            return found.entry
    return scope.home


def _after(reading: ConfigFile, entry: ConfigEntry, lines: list[str]) -> Span:
    text = "".join(f"{entry.indent}{line}{reading.eol}" for line in lines)
    if not _eol_before(reading.text, entry.end):
        text = reading.eol + text.removesuffix(reading.eol)
    return entry.end, entry.end, text


def _at_the_end(reading: ConfigFile, lines: list[str]) -> Span:
    """The insertion at the end of a file that has at most comments."""
    end = len(reading.text)
    begun = reading.text.removeprefix("\ufeff") and not _eol_before(reading.text, end)
    return end, end, (reading.eol if begun else "") + "".join(line + reading.eol for line in lines)


def _eol_before(text: str, end: int) -> str:
    """The line end before ``end``; empty if there is none there."""
    if text.endswith("\r\n", 0, end):
        return "\r\n"
    return text[end - 1 : end] if text[end - 1 : end] in ("\r", "\n", "\x85", "\u2028", "\u2029") else ""


def _prove(reading: ConfigFile, decisions: list[ConfigChange], after: ConfigFile) -> bool:
    """Whether the two files differ in the intended settings, and in nothing else."""
    touched: set[tuple[object, ...]] = set()
    wanted: Counter[tuple[tuple[object, ...], str]] = Counter()
    for decision in decisions:
        touched.update(entry.place for entry in decision.gone)
        for put in decision.put:
            beside, prefix = decision.scope.home, decision.scope.prefix
            if put.replaced is not None:
                beside, prefix = put.replaced, _prefix(put.replaced, put.key)
                touched.add(put.replaced.place)
            around = beside.place[:-1] if beside else after.entries[-1].place[:-1]
            touched.add((*around, prefix + put.key))
            wanted[(*around, prefix + put.key), put.value] += 1

    def others(leaves: Iterable[Leaf]) -> Counter[Leaf]:
        kept = (
            leaf for leaf in leaves if not any(leaf.place[:depth] in touched for depth in range(len(leaf.place) + 1))
        )
        return Counter(leaf for leaf in kept if reading.entries or leaf.value not in ("", "{}"))

    came = Counter((leaf.place, leaf.value) for leaf in after.leaves if leaf.place in touched)
    return came == wanted and others(reading.leaves) == others(after.leaves)
