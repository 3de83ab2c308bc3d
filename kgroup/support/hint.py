"""A next step with the commands in it, so that they can be shown with the options of this connection."""

from __future__ import annotations

from collections.abc import Callable

from kgroup.support.quoting import join

Words = tuple[str, ...]


class Hint(str):
    """``Hint("{} shows it", ("catchup", "list"))``: as text, ``kgroup catchup list shows it``.

    Each ``{}`` of ``text`` stands for one of ``commands``, the words after ``kgroup``.
    """

    def __new__(cls, text: str, *commands: Words) -> Hint:
        hint = super().__new__(cls, text.format(*(join(("kgroup", *words)) for words in commands)))
        hint.text, hint.commands = text, commands
        return hint

    text: str
    commands: tuple[Words, ...]

    def __reduce__(self) -> tuple[type[Hint], tuple[str | Words, ...]]:
        return Hint, (self.text, *self.commands)

    def shown(self, command: Callable[..., str]) -> str:
        """The text with the command lines that ``command`` makes of the words."""
        return self.text.format(*(command(*words) for words in self.commands))
