"""``kgroup __complete SHELL [BREAKS]``: what the completion scripts call at every key.

The line up to the cursor is in KGROUP_LINE, not in the arguments: all users of the machine could read a password
there. BREAKS is bash's COMP_WORDBREAKS. The first line of the answer is what to complete (words, files or directories)
and the length of what precedes it in the word at the cursor; the others are the words. Prints nothing else, and always
exits with 0; names that are not known within 0.3 seconds are left out.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from kgroup.cli.completion import line as lines
from kgroup.cli.completion.candidates import WORDS, find_candidates
from kgroup.model.reporter import NullReporter
from kgroup.settings.environment import environment
from kgroup.support.signals import end_after

if TYPE_CHECKING:
    from kgroup.cli.completion.names import PlanNames

LINE_VARIABLE = "KGROUP_LINE"
_CHANGE = "ch-"
_PATIENCE_S = 0.24
"""From the start of the process; the rest of the 0.3 s is for its exit, and for a busy machine."""


def run(arguments: Sequence[str], plan_names: PlanNames) -> NoReturn:
    """Answer, and exit without Python's own shutdown, which takes longer than the answer may."""
    until = time.monotonic() + _PATIENCE_S - time.process_time()
    try:
        rows = answer(arguments, environment(), until, plan_names)
        output = "".join(f"{row}\n" for row in rows).encode("utf-8", "surrogateescape")
        end_after(0)
        while output:
            output = output[os.write(1, output) :]
    except BaseException:
        pass  # A prompt has no place for errors: no cluster, a broken file and a bug all give no names.
    os._exit(0)


def answer(arguments: Sequence[str], environ: Mapping[str, str], until: float, plan_names: PlanNames) -> list[str]:
    """The lines to print; ``until`` is on the monotonic clock. ``plan_names`` reads them from the ledger."""
    shell, breaks = [*arguments, ""][:2]
    line = lines.parse(environ.get(LINE_VARIABLE, ""), environ, breaks)
    candidates = find_candidates([word.text for word in line.words], line.current.text)
    words, before, current = candidates.words, candidates.before, line.current
    typed = current.text.removeprefix(before)
    named = "groups" if candidates.kind == "changes" and _is_group(line, typed) else candidates.kind
    if named == "changes":
        words = _changes(until)
    elif named in ("groups", "topics", "contexts", "plans"):
        words = dict.fromkeys(_names(named, line, typed, until, plan_names), "")
    if shell == "bash":  # the other shells filter by themselves
        words = {word: text for word, text in words.items() if (before + word).startswith(current.text)}
    kind = candidates.kind if candidates.kind in ("files", "directories") else WORDS
    return [f"{kind} {len(before)}", *(_row(shell, before, word, text, current) for word, text in words.items())]


def _row(shell: str, before: str, word: str, text: str, current: lines.Current) -> str:
    match shell:
        case "bash":
            return lines.for_bash(before + word, current)
        case "zsh":
            escaped = word.replace("\\", "\\\\").replace(":", "\\:")
            return f"{escaped}:{text}" if text else escaped
        case "fish":
            return f"{before}{word}\t{text}"
    raise ValueError(shell)


def _names(kind: str, line: lines.TypedLine, typed: str, until: float, plan_names: PlanNames) -> list[str]:
    """The names of a kind. The process ends without an answer if a read hangs: a home on the network, a pipe."""
    end_after(max(0.001, until - time.monotonic() + 0.02))
    if kind == "contexts":
        return _contexts()
    return _of_cluster(kind, line, typed, until, plan_names)


def _is_group(line: lines.TypedLine, typed: str) -> bool:
    """Whether the word where a change may stand is a group's name: after ``--as-of``, or by its beginning."""
    as_of = any(word.text.partition("=")[0] == "--as-of" for word in line.words)
    return as_of or not (typed.startswith(_CHANGE) or _CHANGE.startswith(typed))


def _changes(until: float) -> Mapping[str, str]:
    """The changes in the journal; the process ends without an answer if a read hangs."""
    end_after(max(0.001, until - time.monotonic() + 0.02))
    from kgroup.cli.completion.changes import change_ids
    from kgroup.settings import paths

    return change_ids(paths.state_dir() / "journal")


def _contexts() -> list[str]:
    from kgroup.cli.completion.names import is_plain
    from kgroup.settings import contexts

    return [name for name in contexts.load() if is_plain(name)]


def _of_cluster(kind: str, line: lines.TypedLine, typed: str, until: float, plan_names: PlanNames) -> list[str]:
    given = lines.connection(line.words)
    # Imported here: not needed if only the shell knows the connection.
    from kgroup.cli.completion import names
    from kgroup.model.streaming_query import PREFIX
    from kgroup.settings import paths
    from kgroup.settings.sources import resolve

    settings = resolve(given, NullReporter())
    cache = names.Cache.of(paths.cache_dir() / "names", settings)
    known = names.names(cache, settings, kind, until, plan_names)
    if kind == names.GROUPS:
        known = [*known, *(f"{PREFIX}{query}" for query in settings.queries)]
    if kind == names.TOPICS and typed.startswith("_"):
        known = sorted([*known, *cache.read(names.INTERNAL)])
    return known
