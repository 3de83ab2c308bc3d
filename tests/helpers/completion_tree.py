"""The tree of verbs for completion, read from the commands; ``python -m tests.generate`` writes the data file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from kgroup.cli.app import Root, kgroup_options
from kgroup.cli.help_pages import option_help
from kgroup.cli.help_topics import TOPICS
from kgroup.cli.refusals import REFUSALS
from kgroup.cli.typer_adapter import root
from kgroup.cli.verbs import VERBS
from kgroup.groups.doctor.rules import ORDER
from kgroup.groups.selection import STATES, TYPES
from kgroup.groups.wait_conditions import FORMS
from kgroup.model.accept_codes import ACCEPTED
from kgroup.model.output_format import formats_of

_BY_METAVAR = {
    "GROUP": "groups",
    "TOPIC": "topics",
    "FILE": "files",
    "PATH": "files",
    "DIR": "directories",
    "CHANGE": "changes",
    "PLAN": "plans",
}
_BY_OPTION = {
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


def read_tree() -> dict[str, Any]:
    """The tree in the form that ``kgroup.cli.completion.candidates`` describes."""
    options: dict[str, Any] = {}
    verbs = {}
    for name, help_text, params in _walk():
        listed = []
        for param in params:
            if param.param_type_name == "option":
                names = sorted(param.opts, key=len)
                option = {
                    "names": names,
                    "help": " ".join(option_help(param, name).split()),
                    "value": None if param.is_flag else _value(param, name),
                } | ({"many": True} if param.multiple else {})
                key = names[-1]
                listed.append(key)
                if options.setdefault(key, option) != option:
                    options[f"{name} {key}"] = option
        arguments = [
            {"value": _value(param, name)} | ({"many": True} if param.nargs == -1 else {})
            for param in params
            if param.param_type_name == "argument"
        ]
        verbs[name] = {"help": help_text, "options": listed, "arguments": arguments}
    return {"options": options, "verbs": verbs}


def text_of(tree: dict[str, Any]) -> str:
    """The data file: an option or a verb per line."""
    parts = (
        f'"{part}": {{\n' + ",\n".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in rows.items()) + "\n}"
        for part, rows in tree.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _walk() -> Iterator[tuple[str, str, list[Any]]]:
    """Full name, line of help and visible parameters of each verb."""
    command = root(Root, kgroup_options)
    ctx = _context(command, "kgroup", None)
    yield "", "", _params(command, ctx)
    for verb in VERBS:
        top = command.get_command(ctx, verb.name)
        top_ctx = _context(top, verb.name, ctx)
        yield verb.name, verb.help, _params(top, top_ctx)
        for name, below in getattr(top, "commands", {}).items():
            help_text = (below.help or "").strip().split("\n")[0].rstrip(".")
            yield f"{verb.name} {name}", help_text, _params(below, _context(below, name, top_ctx))


def _context(command: Any, name: str, parent: Any) -> Any:
    return command.context_class(command, info_name=name, parent=parent, **command.context_settings)


def _params(command: Any, ctx: Any) -> list[Any]:
    return [param for param in command.get_params(ctx) if not getattr(param, "hidden", False)]


def _value(param: Any, verb: str) -> str | list[str]:
    """What a parameter accepts, according to its choices, its help and its metavar."""
    if verb == "help" and param.param_type_name == "argument":
        return [*(each.name for each in VERBS), *TOPICS, *REFUSALS]
    if "--accept" in param.opts:
        return list(ACCEPTED[verb])
    if "--output" in param.opts:
        return [str(each) for each in formats_of(verb)]
    metavar = param.metavar or param.name.upper()
    if optional := re.fullmatch(r"\[(.*)\](?:\.\.\.)?", metavar):
        metavar = optional[1]
    named = (
        re.match(_CHOICE, metavar + " ") or re.match(_CHOICE, param.help or "") or re.fullmatch(_ONLY_CHOICE, metavar)
    )
    # Capitals are placeholders, as in FILE|topic:NAME, and are not typed.
    words = named[0].split("|") if named else list(_WORDS_BY_METAVAR.get(metavar) or _choices(param))
    if words and not (named and any(word.isupper() for word in words)):
        return words
    for name in param.opts:
        if name in _BY_OPTION:
            return _BY_OPTION[name]
    if param.param_type_name == "argument" and verb.startswith("context ") and metavar == "NAME":
        return "contexts"
    if param.param_type_name == "argument" and verb == "undo":
        return "changes"
    nouns = (re.match(r"[A-Z]*", each) for each in metavar.split("|"))
    return next((_BY_METAVAR[noun[0]] for noun in nouns if noun and noun[0] in _BY_METAVAR), "text")


def _choices(param: Any) -> list[str]:
    return [getattr(choice, "value", choice) for choice in getattr(param.type, "choices", ())]
