"""``kgroup help``: the overview, a verb's page, a topic, or the meaning of a code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.resources import files
from typing import Annotated

import msgspec
import typer

from kgroup.cli.error_codes import ERRORS
from kgroup.cli.help_pages import overview
from kgroup.cli.help_topics import RUNBOOKS, SUMMARIES, TOPICS
from kgroup.cli.hints import KCG_VERBS, VERBS
from kgroup.cli.refusals import REFUSALS
from kgroup.cli.tree import page_of
from kgroup.cli.verbs import BY_NAME
from kgroup.model.blocks import Records, Screen, Text
from kgroup.model.outcome import Outcome
from kgroup.queries.json_schemas import field_table, kinds_of, schema
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import EXIT_MEANINGS, NotFound, UsageError


class HelpTopic(msgspec.Struct, frozen=True):
    topic: Annotated[str, "The topic."]
    text: Annotated[str, "The text."]


def help_(
    run: Invocation,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND|TOPIC|CODE]...", help="What to explain.", show_default=False),
    ] = None,
) -> Outcome:
    """Explain a command, a topic, a refusal, a status or an exit code.

    Without a word, it shows the overview: all commands and topics.

    Examples:
    # the page of a command
    kgroup help describe
    kgroup help catchup start
    # what a refusal means, and what passes it
    kgroup help not-empty
    # what an exit code or a status means
    kgroup help 7
    kgroup help STALL
    # a topic
    kgroup help connection
    # print a tested script
    kgroup help runbooks poison-pill
    # print the JSON Schema of a command's documents
    kgroup help json lag

    Exit codes: 0 2 5
    """
    if not words:
        return _overview()
    chosen, fold = _explained(words)
    return Outcome(
        (chosen,),
        lambda: Screen((Text(tuple(chosen.text.splitlines()), fold=fold),)),
        lambda: Records(("topic", "text"), ((chosen.topic, chosen.text),)),
    )


def _explained(words: Sequence[str]) -> tuple[HelpTopic, bool]:
    """The text about these words, and whether its lines may be folded.

    Raises NotFound, UsageError, or UnknownVerb for an unknown verb below a verb.
    """
    first, *others = words
    name = " ".join(words)
    if first in BY_NAME:
        return HelpTopic(name, page_of(words)), False
    if first in _PARTS and others:
        return HelpTopic(name, _PARTS[first](others)), False
    texts = {**TOPICS, **{str(int(code)): f"{code:d}: {text}" for code, text in EXIT_MEANINGS.items()}}
    codes = {each.code: each.page for each in ERRORS.values()} | {each.code: each.page for each in REFUSALS.values()}
    text = codes.get(first) if first in REFUSALS else texts.get(first, codes.get(first))
    if text is None and _is_lag_status(first):
        return _explained(("status", *others))
    if text is None:
        raise NotFound(f"there is no help on {first!r}", hint=_nearest(first, [*BY_NAME, *texts, *codes]))
    if others:
        raise UsageError(f"kgroup help {first} has no part {' '.join(others)!r}", hint=f"kgroup help {first}")
    if first in _ENDS:
        return HelpTopic(first, f"{text}\n{_ENDS[first]()}"), False
    return HelpTopic(first, text), first in TOPICS


def _is_lag_status(word: str) -> bool:
    # Imported here, as below: it is needed for a word that no page has.
    from kgroup.groups.lag.status import LagStatus

    return word.upper() in {*LagStatus} and word not in VERBS


def _nearest(word: str, known: Sequence[str]) -> str:
    """The command that explains what was probably meant."""
    from kgroup.groups.doctor.rules import BY_ID

    if word in BY_ID:
        return f"kgroup doctor --explain {word}"
    if verb := VERBS.get(word) or KCG_VERBS.get(f"--{word}"):
        return f"kgroup help {verb.partition(' -')[0]}"
    near = get_close_matches(word, known, n=1)
    return f"kgroup help {near[0]}" if near else "kgroup help"


def runbook(name: str) -> str:
    """The script of this name. Raises NotFound, with similar names, for an unknown one."""
    if name not in RUNBOOKS:
        near = get_close_matches(name, RUNBOOKS, n=3, cutoff=0.5)
        raise NotFound(f"no runbook {name!r}", hint=f"Near: {', '.join(near)}" if near else "kgroup help runbooks")
    return files("kgroup").joinpath("data", "runbooks", f"{name}.sh").read_text(encoding="utf-8").rstrip("\n")


def _runbook_of(words: Sequence[str]) -> str:
    if len(words) > 1:
        raise UsageError("kgroup help runbooks prints one script", hint="kgroup help runbooks NAME")
    return runbook(words[0])


def _schemas_of(words: Sequence[str]) -> str:
    """The schemas of a verb, of the verbs below it, or of one kind: JSON documents, one after the other."""
    kinds = kinds_of(" ".join(words))
    if not kinds:
        raise NotFound(f"no JSON document of {' '.join(words)!r}", hint="kgroup help json")
    return "\n".join(json.dumps(schema(kind.name), indent=2) for kind in kinds)


def _kinds() -> str:
    """All kinds of documents, a line each with the verb that writes it."""
    kinds = field_table().kinds.values()
    width = max(len(kind.name) for kind in kinds)
    return "\n".join(f"  {kind.name:<{width}}  {kind.verb}" for kind in kinds)


_PARTS: dict[str, Callable[[Sequence[str]], str]] = {"runbooks": _runbook_of, "json": _schemas_of}
"""Topics that have parts, with the text of a part: ``kgroup help runbooks NAME``."""

_ENDS: dict[str, Callable[[], str]] = {"json": _kinds}
"""What follows the text of a topic, where it is read from a file of the package."""


def _overview() -> Outcome:
    """The overview; as data, all topics, a line each."""
    return Outcome(
        tuple(HelpTopic(*row) for row in SUMMARIES.items()),
        lambda: Screen((Text(tuple(overview().splitlines()), fold=False),)),
        lambda: Records(("topic", "text"), tuple(SUMMARIES.items())),
    )
