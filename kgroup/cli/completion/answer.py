"""``kgroup __complete KIND [bash BREAKS]``: what the completion scripts call at every key.

KIND is groups, topics or contexts. The line up to the cursor is in KGROUP_LINE, not in the arguments: all users of the
machine could read a password there. Prints one name per line; with ``bash``, in the form that bash has to insert at the
cursor. Prints nothing else, and always exits with 0, within 0.3 seconds.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import NoReturn

from kgroup.cli.completion import line as lines
from kgroup.model.reporter import NullReporter

LINE_VARIABLE = "KGROUP_LINE"
_PATIENCE_S = 0.24
"""From the start of the process; the rest of the 0.3 s is for its exit, and for a busy machine."""


def run(arguments: Sequence[str]) -> NoReturn:
    """Answer, and exit without Python's own shutdown, which takes longer than the answer may."""
    until = time.monotonic() + _PATIENCE_S - time.process_time()
    output = b""
    try:
        # Give up on anything that hangs: a home directory on the network, a file that is a pipe.
        signal.signal(signal.SIGALRM, lambda number, frame: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, max(0.001, until - time.monotonic() + 0.02))
        found = answer(arguments, os.environ, until)
        output = "".join(f"{name}\n" for name in found).encode("utf-8", "surrogateescape")
        signal.setitimer(signal.ITIMER_REAL, 0)
        while output:
            output = output[os.write(1, output) :]
    except BaseException:
        pass  # A prompt has no place for errors: no cluster, a broken file and a bug all give no names.
    os._exit(0)


def answer(arguments: Sequence[str], environ: Mapping[str, str], until: float) -> list[str]:
    """The names that continue what is typed; ``until`` is on the monotonic clock."""
    kind, *shell = arguments
    breaks = shell[1] if len(shell) > 1 else ""
    line = lines.parse(environ.get(LINE_VARIABLE, ""), environ, breaks)
    _, typed = lines.value_typed(line.current)
    found = _contexts() if kind == "contexts" else _of_cluster(kind, line, typed, until)
    if not shell:
        return found  # zsh and fish filter and quote by themselves
    return [lines.for_bash(name, line.current) for name in found if name.startswith(typed)]


def _contexts() -> list[str]:
    from kgroup.cli.completion.names import is_plain
    from kgroup.settings import contexts

    return [name for name in contexts.load() if is_plain(name)]


def _of_cluster(kind: str, line: lines.TypedLine, typed: str, until: float) -> list[str]:
    given = lines.connection(line.words)
    # Imported here: not needed if the connection is not known yet.
    from kgroup.cli.completion import names
    from kgroup.settings import paths
    from kgroup.settings.sources import resolve

    if kind not in (names.GROUPS, names.TOPICS):
        return []
    settings = resolve(given, NullReporter())
    cache = names.Cache.of(paths.cache_dir() / "names", settings)
    found = names.names(cache, settings, kind, until)
    if kind == names.TOPICS and typed.startswith("_"):
        found = sorted([*found, *cache.read(names.INTERNAL)])
    return found
