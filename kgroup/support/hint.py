"""Commands of kgroup in messages, with the options of this run's connection, so that a pasted one reaches its cluster.

Makers of hints are everywhere and most know no connection. So the command line names the options once, for all hints
that are made while a verb runs; ``Invocation.command`` is the function that knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from kgroup.support.quoting import join

Words = tuple[str, ...]


def _without_options(*words: str, without: Words = ()) -> str:
    return join(("kgroup", *words))


_command: Callable[..., str] = _without_options  # one connection per process, as in kafka_tools


@contextmanager
def hints_with_options(command: Callable[..., str]) -> Iterator[None]:
    """Within the block, hints show their commands as ``command`` makes them of the words after ``kgroup``.

    Its parameter ``without`` has options that it leaves out.
    """
    global _command
    outer, _command = _command, command
    try:
        yield
    finally:
        _command = outer


@contextmanager
def hints_without(*options: str) -> Iterator[None]:
    """Within the block, or in the function that it decorates, hints do not repeat these options."""
    with hints_with_options(partial(_command, without=options)):
        yield


class Hint(str):
    """``Hint("{} shows it", ("catchup", "list"))``: as text, ``kgroup catchup list -b b1:9092 shows it``.

    Each ``{}`` of ``text`` stands for one of ``commands``, the words after ``kgroup``. A hint of another process, such
    as a Spark worker, gets the options of the process that receives it.
    """

    def __new__(cls, text: str, *commands: Words) -> Hint:
        hint = super().__new__(cls, text.format(*(_command(*words) for words in commands)))
        hint.text, hint.commands = text, commands
        return hint

    text: str
    commands: tuple[Words, ...]

    def __reduce__(self) -> tuple[type[Hint], tuple[str | Words, ...]]:
        return Hint, (self.text, *self.commands)
