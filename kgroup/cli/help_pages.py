"""Help pages: the overview of all verbs from the static table, and a verb's page with its examples first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kgroup.cli.help_parts import CONNECTION, SAFETY, WHAT, WHICH
from kgroup.cli.help_topics import TOPICS

_WIDTH = 80
_HEADINGS = (WHICH, WHAT, SAFETY, CONNECTION)


def overview(sections: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> str:
    """The page of ``kgroup --help``; ``sections`` are headings with (verb, one line)."""
    lines = ["Usage: kgroup COMMAND [GROUP...] [OPTIONS]"]
    listed = [(heading, list(verbs)) for heading, verbs in sections]
    width = max(len(name) for _, verbs in listed for name, _ in verbs)
    for heading, verbs in listed:
        lines += ["", heading, *(f"  {name:<{width}}  {text}" for name, text in verbs)]
    lines += [
        "",
        "Cluster: --context NAME, or -b HOST:PORT, or KGROUP_BOOTSTRAP_SERVER",
        "Output:  -o table|wide|json|yaml|csv|markdown",
        "kgroup COMMAND --help    examples first",
        f"kgroup help {'|'.join(TOPICS)}",
    ]
    return "\n".join(lines) + "\n"


def group_page(usage: str, text: str, verbs: Sequence[tuple[str, str]]) -> str:
    """The page of a verb with verbs of its own."""
    rows = [f"  {name:<11} {line}" for name, line in verbs]
    return "\n".join([f"Usage: {usage}", "", text, "", *rows]) + "\n"


def verb_page(usage: str, docstring: str, ctx: Any) -> str:
    """One line, the examples, the rest of the docstring, then the options under their headings."""
    params = ctx.command.get_params(ctx)
    summary, body, examples, codes = _parts(docstring)
    lines = [summary, "", *(f"  {example}" for example in examples), "", f"Usage: {usage}"]
    if body:
        lines += ["", *textwrap.wrap(body, _WIDTH)]
    for heading in (WHICH, *_other_headings(params), *_HEADINGS[1:]):
        if heading == CONNECTION:
            continue
        rows = [row for param in params if _heading(param) == heading for row in _option_lines(param)]
        lines += ["", heading, *rows] if rows else []
    connection = [param.opts[0] for param in params if _heading(param) == CONNECTION]
    lines += ["", CONNECTION, *_wrapped(f"{', '.join(connection)}: kgroup help connection")]
    lines += ["", *textwrap.wrap(codes or "Exit codes: 0 2 3 4 5 7; kgroup help exit-codes", _WIDTH)]
    return "\n".join(lines) + "\n"


def first_line(docstring: str | None) -> str:
    """The one-line help of a verb."""
    return (docstring or "").strip().split("\n")[0].rstrip(".")


def _parts(docstring: str) -> tuple[str, str, list[str], str]:
    """(one line, the paragraph after it, examples, exit codes) of a verb's docstring."""
    head, _, tail = docstring.partition("Examples:")
    summary, _, body = head.strip().partition("\n")
    examples, _, codes = tail.partition("Exit codes:")
    return (
        summary,
        " ".join(body.split()),
        [line.strip() for line in examples.strip().splitlines() if line.strip()],
        f"Exit codes: {' '.join(codes.split())}; kgroup help exit-codes" if codes.strip() else "",
    )


def _heading(param: Any) -> str | None:
    return None if param.param_type_name == "argument" else (param.rich_help_panel or WHAT)


def _other_headings(params: Sequence[Any]) -> list[str]:
    known = (*_HEADINGS, None)
    return list(dict.fromkeys(h for param in params if (h := _heading(param)) not in known and h))


def _option_lines(param: Any) -> Iterator[str]:
    if param.hidden:
        return
    names = ", ".join(sorted(param.opts, key=len))
    value = "" if param.is_flag else f" {param.metavar or param.name.upper()}"
    left = f"  {names}{value}"
    text = textwrap.wrap(param.help or "", _WIDTH - 30)
    if len(left) > 28:
        yield left
        left = ""
    yield f"{left:<30}{text[0] if text else ''}".rstrip()
    yield from (" " * 30 + line for line in text[1:])


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
