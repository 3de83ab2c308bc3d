"""The static table of verbs: help, completions and errors read it without importing any verb."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """A line of the table: what is typed, where its body lives, its one-line help, its section of the help.

    ``target`` is ``module:function``, or a module whose SUBCOMMANDS are the verbs below this one. A verb
    without a section is not on the help page.
    """

    name: str
    target: str
    help: str
    section: str | None


LOOK = "Look (never changes anything)"
SET_UP = "Set up"

VERBS: tuple[Verb, ...] = (
    Verb("list", "kgroup.commands.list:list_", "groups: type, state, members", LOOK),
    Verb("describe", "kgroup.commands.describe:describe", "one group: partitions, members, lag", LOOK),
    Verb("context", "kgroup.commands.context", "named clusters: list, use, show", SET_UP),
    Verb("sandbox", "kgroup.commands.sandbox", "a real Kafka on this machine: up, status, down, demo", SET_UP),
    Verb("help", "kgroup.commands.help:help_", "a topic: exit-codes, output, connection", None),
)
BY_NAME = {verb.name: verb for verb in VERBS}
