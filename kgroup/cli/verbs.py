"""The static table of verbs; help, completion and errors read it without importing any verb."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """A row of the table: the name, the function, the one-line help, and the section of the overview.

    ``target`` is ``module:function``, or a module whose SUBCOMMANDS are the verbs below this one. A verb without a
    section is not in the overview.
    """

    name: str
    target: str
    help: str
    section: str | None


LOOK = "Look (never changes anything)"
CHANGE = "Change (prints a plan; does it only with --execute)"
REPLAY = "Replay"
SET_UP = "Set up"

VERBS: tuple[Verb, ...] = (
    Verb("list", "kgroup.commands.list:list_", "groups: type, state, members", LOOK),
    Verb("describe", "kgroup.commands.describe:describe", "one group: partitions, members, lag", LOOK),
    Verb("lag", "kgroup.commands.lag:lag", "lag in records and time, rates, status; as a check", LOOK),
    Verb("doctor", "kgroup.commands.doctor:doctor", "what is wrong with groups or the cluster", LOOK),
    Verb("history", "kgroup.commands.history:history", "generations and epochs: when, why, who", LOOK),
    Verb("wait", "kgroup.commands.wait:wait", "until a group is empty, stable or has caught up", LOOK),
    Verb("simulate", "kgroup.commands.simulate:simulate", "what a change of members would do", LOOK),
    Verb("export", "kgroup.commands.export:export", "offsets to a file that reset --from-file reads", LOOK),
    Verb("reset", "kgroup.commands.reset:reset", "move committed offsets", CHANGE),
    Verb("undo", "kgroup.commands.undo:undo", "take back a change", CHANGE),
    Verb("migrate", "kgroup.commands.migrate:migrate", "to the consumer protocol (KIP-848), or back", CHANGE),
    Verb("evict", "kgroup.commands.evict:evict", "remove static or stuck members", CHANGE),
    Verb("delete", "kgroup.commands.delete:delete", "delete groups with all their offsets", CHANGE),
    Verb(
        "delete-offsets",
        "kgroup.commands.delete_offsets:delete_offsets",
        "forget what groups have committed on a topic",
        CHANGE,
    ),
    Verb("catchup", "kgroup.commands.catchup", "start at the head now, replay the gap beside it", REPLAY),
    Verb("context", "kgroup.commands.context", "named clusters: list, use, show", SET_UP),
    Verb("sandbox", "kgroup.commands.sandbox", "a real Kafka on this machine: up, status, down, demo", SET_UP),
    Verb("completion", "kgroup.commands.completion:completion", "a script for bash, zsh or fish", SET_UP),
    Verb("help", "kgroup.commands.help:help_", "a topic: exit-codes, output, connection, refusals, runbooks", None),
)
BY_NAME = {verb.name: verb for verb in VERBS}
