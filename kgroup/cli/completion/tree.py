"""The command line as values: verbs, options, arguments and what each accepts; read from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kgroup.groups.doctor.rules import ORDER
from kgroup.groups.selection import STATES, TYPES
from kgroup.groups.wait_conditions import FORMS

Kind = Literal["words", "groups", "topics", "contexts", "files", "directories", "text"]


@dataclass(frozen=True, slots=True)
class Value:
    """What an option or argument accepts: one of ``words``, a name in the cluster, a path, or any text.

    After a word that ends in ``=`` the user continues to type.
    """

    kind: Kind
    label: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option with all its names; ``value`` is None for a flag."""

    names: tuple[str, ...]
    help: str
    value: Value | None
    many: bool


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional argument; ``many`` if it may be repeated."""

    value: Value
    many: bool


@dataclass(frozen=True, slots=True)
class VerbTree:
    """A verb by its full name (``context use``; "" is kgroup itself), its options, arguments and the verbs below it."""

    name: str
    help: str
    options: tuple[Option, ...]
    arguments: tuple[Argument, ...]
    verbs: tuple[VerbTree, ...]

    @property
    def last_name(self) -> str:
        """The last word of its name."""
        return self.name.rpartition(" ")[2]

    def walk(self) -> Iterator[VerbTree]:
        """This verb and all below it."""
        yield self
        for verb in self.verbs:
            yield from verb.walk()


_BY_METAVAR: dict[str, Kind] = {
    "GROUP": "groups",
    "TOPIC": "topics",
    "FILE": "files",
    "PATH": "files",
    "DIR": "directories",
}
_BY_OPTION: dict[str, Kind] = {
    "--group": "groups",
    "--from-group": "groups",
    "--topic": "topics",
    "--context": "contexts",
    "--from-file": "files",
}
_WORDS_BY_METAVAR = {
    "STATE": STATES,
    "TYPE": TYPES,
    "RULE": ORDER,
    "CONDITION": tuple(re.sub(r"=(N|\d.*)$", "=", form) for form in FORMS),
}
_CHOICE = r"[\w-]+(?:\|[\w-]+)+"
_ONLY_CHOICE = r"[a-z-]+"


def read_tree(root: Any, helps: Sequence[tuple[str, str]]) -> VerbTree:
    """The verbs below Typer's ``root`` command; ``helps`` has the name and one line of help of each top verb."""
    ctx = _context(root, "kgroup", None)
    verbs = (_verb(root.get_command(ctx, name), name, text, ctx) for name, text in helps)
    return VerbTree("", "", _options(root, ctx, ""), (), tuple(verbs))


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.context_class(command, info_name=name, parent=parent, **command.context_settings)


def _verb(command: Any, name: str, text: str, parent: Any) -> VerbTree:
    ctx = _context(command, name, parent)
    below = getattr(command, "commands", {})
    return VerbTree(
        name,
        text,
        _options(command, ctx, name),
        tuple(_argument(param, name) for param in _params(command, ctx, "argument")),
        tuple(_verb(sub, f"{name} {word}", _first_line(sub.help), ctx) for word, sub in below.items()),
    )


def _params(command: Any, ctx: Any, kind: str) -> list[Any]:
    params = command.get_params(ctx)
    return [param for param in params if param.param_type_name == kind and not getattr(param, "hidden", False)]


def _options(command: Any, ctx: Any, verb: str) -> tuple[Option, ...]:
    return tuple(
        Option(
            names=tuple(sorted(param.opts, key=len)),
            help=" ".join((param.help or "").split()),
            value=None if param.is_flag else _value(param, verb),
            many=bool(param.multiple),
        )
        for param in _params(command, ctx, "option")
    )


def _argument(param: Any, verb: str) -> Argument:
    return Argument(_value(param, verb), many=param.nargs == -1)


def _value(param: Any, verb: str) -> Value:
    """What a parameter accepts, according to its choices, its help and its metavar."""
    metavar = param.metavar or param.name.upper()
    if optional := re.fullmatch(r"\[(.*)\](?:\.\.\.)?", metavar):
        metavar = optional[1]
    # The help comes before the type: some output formats exist only for some verbs.
    said = (
        re.match(_CHOICE, metavar + " ") or re.match(_CHOICE, param.help or "") or re.fullmatch(_ONLY_CHOICE, metavar)
    )
    # Capitals are placeholders, as in FILE|topic:NAME, and are not typed.
    words: tuple[str, ...] = tuple(said[0].split("|")) if said else _WORDS_BY_METAVAR.get(metavar) or _choices(param)
    if any(word.isupper() for word in words if said):
        words = ()
    if words:
        return Value("words", metavar, words)
    for name in param.opts:
        if name in _BY_OPTION:
            return Value(_BY_OPTION[name], metavar)
    if param.param_type_name == "argument" and verb.startswith("context ") and metavar == "NAME":
        return Value("contexts", metavar)
    nouns = (re.match(r"[A-Z]*", each) for each in metavar.split("|"))
    kinds = (_BY_METAVAR.get(noun[0]) for noun in nouns if noun)
    return Value(next((kind for kind in kinds if kind), "text"), metavar)


def _choices(param: Any) -> tuple[str, ...]:
    return tuple(getattr(choice, "value", choice) for choice in getattr(param.type, "choices", ()))


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n")[0].rstrip(".")
