"""Help pages: the overview of all verbs from the static table, and a verb's page with its examples first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from kgroup.cli.help_parts import CONNECTION, OUTPUT, SAFETY, WHAT, WHICH
from kgroup.cli.help_topics import SUMMARIES
from kgroup.cli.verbs import VERBS
from kgroup.model.accept_codes import ACCEPTED
from kgroup.model.output_format import default_format, formats_of

_WIDTH = 80
_LEFT = 30
_HEADINGS = (WHICH, WHAT, SAFETY, OUTPUT, CONNECTION)
_OUTPUT_FIELDS = ("output", "no_headers", "no_color", "quiet", "help", "help_all")

_SINKS = frozenset(
    {"to_topic", "to_files", "to_command", "to_python", "to_spark", "to_group", "dead_letter_topic", *_OUTPUT_FIELDS}
)
_REPLAYS = _SINKS | {"rate", "release_only", "execute"}
COMMON = {
    "catchup start": _REPLAYS
    | {"topic", "verbose", "skipped_by", "until", "accept", "if_behind", "wait_empty", "within"},
    "catchup check": _SINKS | {"master"},
    "catchup resume": _REPLAYS | {"assume", "all_pending", "follow", "fork"},
}
"""The options on the page of verbs with many options, by the names of their parameters; ``--help-all`` shows all."""

_GLOBAL = (
    ("-b, --bootstrap-server HOST:PORT", "the cluster; or KGROUP_BOOTSTRAP_SERVER"),
    ("--context NAME", "a named cluster: kgroup context"),
    ("-o, --output FORMAT", "table, wide, json, yaml, csv, markdown, name"),
    ("--no-headers", "tables and csv without headers"),
    ("--no-color", "no colour, as with NO_COLOR"),
    ("-q, --quiet", "no progress and notes; errors stay"),
    ("-h, --help", "the page of a command, with examples"),
    ("-V, --version", "the versions of kgroup and its clients"),
)


def overview() -> str:
    """The page of ``kgroup --help``, from the static table of verbs."""
    width = max(len(verb.name) for verb in VERBS)
    lines = [
        "Usage: kgroup COMMAND [GROUP...] [OPTIONS]",
        "",
        "Start here: kgroup doctor GROUP",
        "It shows what is wrong with a group, and the commands that fix it.",
    ]
    for section, verbs in groupby(VERBS, key=lambda verb: verb.section):
        lines += ["", section, *(f"  {verb.name:<{width}}  {verb.help}" for verb in verbs)]
    lines += ["", "Options (before or after the command)"]
    lines += [f"  {names:<34}{text}" for names, text in _GLOBAL]
    lines += [
        "  More: kgroup help connection, kgroup help output",
        "",
        "kgroup help COMMAND   its page          kgroup help CODE   what a code means",
        *_wrapped(f"kgroup help TOPIC     {', '.join(SUMMARIES)}", "", " " * 22),
    ]
    return "\n".join(lines) + "\n"


def group_page(path: str, about: str, verbs: Sequence[tuple[str, str]]) -> str:
    """The page of a verb with verbs of its own; ``about`` has the form of a verb's docstring."""
    summary, body, examples, _ = _parts(about)
    width = max(len(name) for name, _ in verbs)
    lines = [summary, "", *examples, "", f"Usage: {path} COMMAND [OPTIONS]", *_paragraphs(body), "", "Commands"]
    lines += [f"  {name:<{width}}  {text}" for name, text in verbs]
    return "\n".join([*lines, "", f"{path} COMMAND --help   its page, with examples"]) + "\n"


def verb_page(usage: str, docstring: str, ctx: Any, *, whole: bool = False) -> str:
    """One line, the examples, the rest of the docstring, then the options under their headings.

    ``whole`` is the page of ``--help-all``: also options that are rarely used.
    """
    verb = ctx.command_path.removeprefix("kgroup ")
    formats, params = formats_of(verb), ctx.command.get_params(ctx)
    common = None if whole else COMMON.get(verb)
    params = [param for param in params if formats or param.name not in _OUTPUT_FIELDS[:4]]
    summary, body, examples, codes = _parts(docstring)
    lines = [summary, "", *examples, "", f"Usage: {usage}", *_paragraphs(body)]
    for heading in (WHICH, *_other_headings(params), *_HEADINGS[1:]):
        if heading == CONNECTION:
            continue
        shown = [param for param in params if _heading(param) == heading and (not common or param.name in common)]
        rows = [row for param in shown for row in _option_lines(param, verb)]
        lines += ["", heading, *rows] if rows else []
    if connects(verb):
        connection = [param.opts[0] for param in params if _heading(param) == CONNECTION]
        lines += ["", CONNECTION, *_wrapped(f"{', '.join(connection)}: kgroup help connection")]
    lines += ["", *textwrap.wrap(codes or "Exit codes: 0 2 3 4 5 7; kgroup help exit-codes", _WIDTH)]
    return "\n".join(lines) + "\n"


def connects(verb: str) -> bool:
    """Whether the connection options mean anything to the verb."""
    return verb == "context show" or verb.split()[0] not in ("completion", "context", "help", "sandbox")


def option_help(param: Any, verb: str) -> str:
    """The help of an option of this verb; that of -o and --accept differs between verbs."""
    if param.name == "output":
        return _output_help(verb)
    if param.name == "accept":
        return f"Override one refusal (repeatable): {', '.join(ACCEPTED[verb])}. See kgroup help CODE."
    return param.help or ""


def _output_help(verb: str) -> str:
    default = default_format(verb, to_pipe=False)
    in_pipe = default_format(verb, to_pipe=True)
    also = f"; {in_pipe} in a pipe" if in_pipe is not default else ""
    return f"Output format: {', '.join(formats_of(verb))} (default: {default}{also})."


def first_line(docstring: str | None) -> str:
    return (docstring or "").strip().split("\n")[0].rstrip(".")


def _parts(docstring: str) -> tuple[str, str, list[str], str]:
    """(one line, the paragraphs after it, examples, exit codes) of a verb's docstring; its rights have a topic."""
    head, _, tail = docstring.partition("Examples:")
    summary, _, body = head.strip().partition("\n")
    examples, _, codes = tail.partition("Rights:")[0].partition("Exit codes:")
    return (
        summary,
        body.strip(),
        [f"  {line.strip()}" for line in examples.strip().splitlines() if line.strip()],
        f"Exit codes: {' '.join(codes.split())}; kgroup help exit-codes" if codes.strip() else "",
    )


def _paragraphs(body: str) -> Iterator[str]:
    for paragraph in body.split("\n\n") if body else ():
        yield ""
        yield from textwrap.wrap(" ".join(paragraph.split()), _WIDTH, break_on_hyphens=False)


def _heading(param: Any) -> str | None:
    if param.param_type_name == "argument":
        return None
    return OUTPUT if param.name in _OUTPUT_FIELDS else (param.rich_help_panel or WHAT)


def _other_headings(params: Sequence[Any]) -> list[str]:
    known = (*_HEADINGS, None)
    return list(dict.fromkeys(h for param in params if (h := _heading(param)) not in known and h))


def _option_lines(param: Any, verb: str) -> Iterator[str]:
    if param.hidden:
        return
    names = ", ".join(sorted(param.opts, key=len))
    value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
    left = f"  {names}{value}"
    text = textwrap.wrap(option_help(param, verb), _WIDTH - _LEFT, break_on_hyphens=False)
    if len(left) > _LEFT - 2:
        yield left
        left = ""
    yield f"{left:<{_LEFT}}{text[0] if text else ''}".rstrip()
    yield from (" " * _LEFT + line for line in text[1:])


def _wrapped(text: str, first: str = "  ", more: str = "  ") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=more, break_on_hyphens=False)
