"""The static table of verbs; help, completion and errors read it without importing any verb."""

from __future__ import annotations

import msgspec


class Verb(msgspec.Struct, frozen=True):
    """A row of the table: the name, the function, the one-line help, and the section of the overview.

    ``target`` is ``module:function``, or a module whose SUBCOMMANDS are the verbs below this one; its docstring is the
    text of the page. If it has a DEFAULT, that is the verb below that this one does alone.
    """

    name: str
    target: str
    help: str
    section: str


READ = "Read (never changes anything)"
CHANGE = "Change (prints a plan; add --execute to apply it)"
SET_UP = "Set up"

VERBS: tuple[Verb, ...] = (
    Verb("list", "kgroup.commands.list:list_", "list groups: type, state, members, idle time", READ),
    Verb("describe", "kgroup.commands.describe:describe", "show one group: partitions, members, lag", READ),
    Verb("lag", "kgroup.commands.lag:lag", "show lag in records and time, trend; alert checks (exit 8)", READ),
    Verb("peek", "kgroup.commands.peek:peek", "show the records at a committed offset: the poison pill", READ),
    Verb("doctor", "kgroup.commands.doctor:doctor", "find what is wrong with groups or the cluster", READ),
    Verb("history", "kgroup.commands.history:history", "show rebalances: when, why and who caused them", READ),
    Verb("wait", "kgroup.commands.wait:wait", "wait until a group is empty, stable or has caught up", READ),
    Verb("simulate", "kgroup.commands.simulate:simulate", "show what a change of members would do", READ),
    Verb("export", "kgroup.commands.export:export", "write committed offsets, for reset --from-file", READ),
    Verb("reset", "kgroup.commands.reset:reset", "move committed offsets", CHANGE),
    Verb("undo", "kgroup.commands.undo:undo", "undo a change", CHANGE),
    Verb("migrate", "kgroup.commands.migrate:migrate", "move groups to the consumer protocol (KIP-848)", CHANGE),
    Verb("evict", "kgroup.commands.evict:evict", "remove static or stuck members", CHANGE),
    Verb("delete", "kgroup.commands.delete:delete", "delete groups with all their offsets", CHANGE),
    Verb(
        "delete-offsets",
        "kgroup.commands.delete_offsets:delete_offsets",
        "delete a group's committed offsets of a topic",
        CHANGE,
    ),
    Verb("catchup", "kgroup.commands.catchup", "skip to the log end now, replay the gap in parallel", CHANGE),
    Verb("context", "kgroup.commands.context", "list, choose and show named clusters", SET_UP),
    Verb("sandbox", "kgroup.commands.sandbox", "run a real Kafka on this machine; a demo of a crash", SET_UP),
    Verb("completion", "kgroup.commands.completion:completion", "print a script for bash, zsh or fish", SET_UP),
    Verb("help", "kgroup.commands.help:help_", "explain a command, a topic or a code", SET_UP),
)
BY_NAME = {verb.name: verb for verb in VERBS}
