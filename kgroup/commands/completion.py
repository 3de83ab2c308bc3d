"""``kgroup completion SHELL``: the completion script for a shell, generated from the verbs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from kgroup.cli.completion import bash, fish, zsh
from kgroup.cli.completion.tree import read_tree
from kgroup.cli.verbs import VERBS
from kgroup.model.blocks import Records, Screen, Text
from kgroup.model.outcome import Outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import UsageError

SHELLS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}


@dataclass(frozen=True, slots=True)
class Script:
    """A shell's completion script."""

    shell: str
    text: str

    def document(self) -> Mapping[str, Any]:
        """See ``kgroup.model.outcome.Document``."""
        return {"shell": self.shell, "script": self.text}


def _write(ctx: typer.Context, shell: str) -> str:
    """The script in place of the shell's name; made in this callback because only here the command tree is known."""
    if shell not in SHELLS:
        raise UsageError(f"there is no completion for {shell!r}", hint=f"one of {', '.join(SHELLS)}")
    tree = read_tree(ctx.find_root().command, [(verb.name, verb.help) for verb in VERBS])
    return SHELLS[shell](tree)


def completion(
    run: Invocation, script: Annotated[str, typer.Argument(metavar="SHELL", help="|".join(SHELLS), callback=_write)]
) -> Outcome:
    """Print the completion script of a shell.

    It completes verbs, options and their values, contexts, and the groups and topics of the cluster that the
    line names, which are asked for in the background and kept for a minute.

    Examples:
      eval "$(kgroup completion bash)"
      kgroup completion zsh > ~/.zfunc/_kgroup
      kgroup completion fish > ~/.config/fish/completions/kgroup.fish

    Exit codes: 0 2
    """
    written = Script(script.splitlines()[0].rpartition(" ")[2], script)
    return Outcome(
        (written,),
        lambda: Screen((Text(tuple(script.splitlines()), fold=False),)),
        lambda: Records(("shell", "script"), ((written.shell, script),)),
    )
