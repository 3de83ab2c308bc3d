"""A command line as values, so that it can be shown again with other options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from kgroup.support.quoting import join


class CommandLine(msgspec.Struct, frozen=True):
    """The words of the verb (``kgroup``, ``catchup``, ``start``), its arguments and its options.

    ``options`` has the words of each option by its longest name: ``{"--bootstrap-server": ("-b", "b1:9092")}``.
    """

    verb: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """All words; arguments that begin with a dash are last, after ``--``."""
        options = tuple(word for words in self.options.values() for word in words)
        if any(argument.startswith("-") for argument in self.arguments):
            return (*self.verb, *options, "--", *self.arguments)
        return (*self.verb, *self.arguments, *options)

    def __str__(self) -> str:
        return join(self.words)

    def with_option(self, *words: str) -> CommandLine:
        """With one more option, ``words`` are its name and its value; it replaces the same option."""
        return replace(self, options={**self.without(words[0]).options, words[0]: words})

    def with_argument(self, argument: str) -> CommandLine:
        return replace(self, arguments=(*self.arguments, argument))

    def without(self, *names: str) -> CommandLine:
        return replace(self, options={name: words for name, words in self.options.items() if name not in names})

    def executing(self) -> CommandLine:
        """With ``--execute`` as the last option."""
        return self.without("--dry-run").with_option("--execute")

    def with_words(self, convert: Callable[[tuple[str, ...]], tuple[str, ...]]) -> CommandLine:
        """With each group of words converted, for example without secrets."""
        options = {name: convert(words) for name, words in self.options.items()}
        return CommandLine(convert(self.verb), convert(self.arguments), options)
