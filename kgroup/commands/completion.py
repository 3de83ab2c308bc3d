"""``kgroup completion SHELL``: the completion script of a shell."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated

import msgspec
import typer

from kgroup.model.blocks import Records, Screen, Text
from kgroup.model.outcome import Outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import UsageError

SCRIPTS = {"bash": "kgroup.bash", "zsh": "_kgroup", "fish": "kgroup.fish"}


class Script(msgspec.Struct, frozen=True):
    shell: Annotated[str, "The shell."]
    script: Annotated[str, "The script."]


def completion(
    run: Invocation, shell: Annotated[str, typer.Argument(metavar="SHELL", help="|".join(SCRIPTS))]
) -> Outcome:
    """Print the completion script of a shell.

    It completes verbs, options and their values, contexts, changes that undo can revert, and the groups, topics and
    catch-up plans of the cluster that the line names. Names from the cluster are requested in the background, and kept
    for a minute.

    Examples:
    # bash, in ~/.bashrc
    eval "$(kgroup completion bash)"
    # zsh, in a directory of $fpath
    kgroup completion zsh > ~/.zfunc/_kgroup
    # fish
    kgroup completion fish > ~/.config/fish/completions/kgroup.fish

    Exit codes: 0 2
    """
    if shell not in SCRIPTS:
        raise UsageError(f"there is no completion for {shell!r}", hint=f"one of {', '.join(SCRIPTS)}")
    text = files("kgroup").joinpath("data", "completions", SCRIPTS[shell]).read_text(encoding="utf-8")
    return Outcome(
        (Script(shell, text),),
        lambda: Screen((Text(tuple(text.splitlines()), fold=False),)),
        lambda: Records(("shell", "script"), ((shell, text),)),
    )
