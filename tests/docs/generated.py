"""The parts of the manual that the code knows, between ``<!-- generated NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from itertools import groupby

from kgroup.cli.error_codes import ERRORS
from kgroup.cli.help_topics import RIGHTS
from kgroup.cli.refusals import REFUSALS
from kgroup.cli.verbs import VERBS
from kgroup.commands.help import runbook
from kgroup.groups.doctor.rules import RULES
from kgroup.groups.migration.readiness import CHECKS
from kgroup.output.pages.lag_metrics import lag_metrics
from kgroup.queries.doctor_explanations import explain
from kgroup.queries.json_schemas import PRIMITIVES, field_table
from kgroup.queries.json_shapes import Field
from kgroup.support.errors import EXIT_MEANINGS
from tests.benchmarks.catalogue import RESULTS, about, stored
from tests.benchmarks.scale_page import cpu_table, memory_table, runs
from tests.benchmarks.table import as_markdown
from tests.cli.test_app import COMMANDS, help_flag
from tests.helpers.command_line import CommandLine
from tests.situations import page, results
from tests.situations.table import ROWS

_PART = re.compile(r"(<!-- generated (.+?) -->\n)(.*?)(<!-- end -->)", re.S)


def regenerate(text: str) -> str:
    """The page with its generated parts as the code has them now."""
    return _PART.sub(lambda part: f"{part[1]}\n{generate(part[2]).strip()}\n\n{part[4]}", text)


def generate(name: str) -> str:
    """The text of one part."""
    if name.startswith("help "):
        return _help(name.removeprefix("help "))
    if name.startswith("runbook "):
        return f"```sh\n{runbook(name.removeprefix('runbook '))}\n```"
    return _PARTS[name]()


def _help(verb: str) -> str:
    """The help pages of a verb and of the verbs below it."""
    pages = []
    for words in COMMANDS:
        if words[0] == verb:
            heading = f"### `kgroup {' '.join(words)}`\n\n" if len(words) > 1 else ""
            pages.append(f"{heading}```text\n{CommandLine()(*words, help_flag(words)).stdout}```")
    return "\n\n".join(pages)


def _table(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, cells))} |" for cells in rows)])


def _rules() -> str:
    lines: list[str] = []
    for rule in RULES:
        about = explain(rule.id)
        lines += [
            f"## {rule.id}",
            "",
            *_wrapped(about.description),
            "",
            *_wrapped(f"**Why it matters.** {about.impact}"),
            "",
        ]
        lines += ["**See it:**", "", *(line for each in about.how_to_see for line in _wrapped(each, "- ")), ""]
        lines += ["**Fix it:**", "", *(line for each in about.how_to_fix for line in _wrapped(each, "- ")), ""]
        lines += [*_wrapped(f"Source: {rule.source}."), ""]
    return "\n".join(lines)


def _wrapped(text: str, bullet: str = "") -> list[str]:
    text = text.replace("__consumer_offsets", "`__consumer_offsets`")
    return textwrap.wrap(text, 120, initial_indent=bullet, subsequent_indent=" " * len(bullet), break_on_hyphens=False)


def _verbs() -> str:
    """The overview, with a link to each verb's page."""
    return "\n\n".join(
        _table((str(section), ""), [(f"[{verb.name}](commands/{verb.name}.md)", verb.help) for verb in verbs])
        for section, verbs in groupby(VERBS, key=lambda verb: verb.section)
    )


def _json() -> str:
    """Kinds, then the shapes in the order of the table, then enumerations and types, each with an anchor."""
    table = field_table()
    kinds = [
        (f"`{kind.name}`", f"`{kind.verb}`", ", ".join(map(_link, kind.data)) or "none", kind.meaning)
        for kind in table.kinds.values()
    ]
    parts = ["### Kinds", _table(("kind", "command", "items of `data`", "meaning"), kinds)]
    for shape, fields in table.shapes.items():
        rows = [(f"`{field.name}`", _field_type(field), field.meaning.replace("|", "\\|")) for field in fields]
        parts += [f"### {shape}", _table(("field", "type", "meaning"), rows)]
    for name, values in table.enumerations.items():
        parts += [f"### {name}", _table(("value", "meaning"), [(f"`{value}`", text) for value, text in values.items()])]
    parts += ["### Types", _table(("type", "meaning"), PRIMITIVES.items())]
    return "\n\n".join(parts)


def _field_type(field: Field) -> str:
    name = field_table().named_in(field.type)
    text = field.type if name in PRIMITIVES else field.type.replace(name, _link(name))
    return f"{text}, optional" if field.optional else text


def _link(name: str) -> str:
    return f"[{name}](#{name.replace(' ', '-')})"


def _refusals() -> str:
    """The refusals, each with an anchor."""
    rows = [
        (
            f'<a id="{each.code}"></a>`{each.code}`',
            int(each.exit_code),
            each.verbs,
            each.when,
            each.to_do + f" `--accept {each.code}` passes it." * each.accepted,
        )
        for each in REFUSALS.values()
    ]
    return _table(("code", "exit code", "of", "when", "to do"), rows)


_PARTS = {
    "benchmarks": lambda: as_markdown(stored(RESULTS), about),
    "conclusions": lambda: page.as_markdown(ROWS, results.stored()),
    "scale-cpu": lambda: cpu_table(runs(stored(RESULTS))),
    "scale-memory": lambda: memory_table(runs(stored(RESULTS))),
    "json": _json,
    "verbs": _verbs,
    "rights": lambda: _table(("verb", "needs", "more rights add"), [(v, least, m or "-") for v, least, m in RIGHTS]),
    "checks": lambda: _table(("check", "what is looked at"), [(f"`{each.id}`", each.meaning) for each in CHECKS]),
    "exit-codes": lambda: _table(("code", "meaning"), [(int(code), text) for code, text in EXIT_MEANINGS.items()]),
    "metrics": lambda: _table(
        ("metric", "meaning"), [(f"`{each.name}`", each.help) for each in lag_metrics((), "", 0)]
    ),
    "refusals": _refusals,
    "errors": lambda: _table(
        ("code", "exit code", "meaning"),
        [(f'<a id="{each.code}"></a>`{each.code}`', int(each.exit_code), each.meaning) for each in ERRORS.values()],
    ),
    "rules": _rules,
}
