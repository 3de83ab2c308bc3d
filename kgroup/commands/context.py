"""List, choose and show named clusters.

A context is a named cluster with its client settings, in ~/.config/kgroup/config.yaml or the file of KGROUP_CONFIG.
An example of such a file: kgroup help connection.

Examples:
# list the named clusters
kgroup context list

# use one of them from now on
kgroup context use prod

# show the settings that apply, and where each is set
kgroup context show
"""

from __future__ import annotations

from typing import Annotated

import typer

from kgroup.model.outcome import Outcome
from kgroup.output.pages.context import (
    UsedContext,
    choice_outcome,
    list_outcome,
    listed_context,
    settings_outcome,
)
from kgroup.settings import contexts, paths
from kgroup.settings.connection import Connection
from kgroup.settings.contexts import display_path
from kgroup.settings.environment import variable
from kgroup.settings.invocation import Invocation
from kgroup.settings.sources import resolve
from kgroup.support.errors import UsageError


def list_(run: Invocation) -> Outcome:
    """List the named clusters, and which one is chosen.

    They are in the file of KGROUP_CONFIG (default: config.yaml in your configuration directory). kgroup only reads it.

    Examples:
    # the named clusters
    kgroup context list
    # with all fields
    kgroup context list -o json

    Exit codes: 0 2
    """
    chosen = run.connection.context or variable("KGROUP_CONTEXT") or contexts.load_choice()
    rows = tuple(listed_context(context, is_chosen=context.name == chosen) for context in contexts.load().values())
    if not rows:
        run.reporter.note(f"no contexts in {display_path(paths.config_file())}; example: kgroup help connection")
    elif chosen is not None and not any(row.chosen for row in rows):
        run.reporter.warn(f'the chosen context "{chosen}" is not one of them')
    return list_outcome(rows)


def use(run: Invocation, name: Annotated[str, typer.Argument(metavar="NAME", help="A context's name.")]) -> Outcome:
    """Choose the cluster for commands that name none.

    The choice is kept in the state directory (KGROUP_STATE_DIR). --context, KGROUP_CONTEXT and an address on the
    command line or in a variable have precedence.

    Examples:
    # commands without a cluster use prod from now on
    kgroup context use prod

    Exit codes: 0 2 5
    """
    context = contexts.choose(contexts.load(), name, "the command line")
    previous = contexts.load_choice()
    contexts.save_choice(name)
    overruled = variable("KGROUP_CONTEXT")
    if overruled and overruled != name:
        run.reporter.warn(f'KGROUP_CONTEXT is set, so commands in this shell continue to use "{overruled}"')
    elif variable("KGROUP_BOOTSTRAP_SERVER"):
        run.reporter.warn("KGROUP_BOOTSTRAP_SERVER is set, so commands in this shell do not use the context")
    choice = UsedContext(name, previous, listed_context(context, is_chosen=True).bootstrap_servers)
    return choice_outcome(choice)


def show(
    run: Invocation,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A context; without it, what is in force now.")
    ] = None,
) -> Outcome:
    """Show the settings in force and their sources, without secrets.

    Examples:
    # the settings that apply now
    kgroup context show
    # the settings of a named cluster
    kgroup context show prod
    # what a command line and a file would set
    kgroup context show -b b1:9092 --command-config client.properties

    Exit codes: 0 2 5
    """
    if name is not None and run.connection.context not in (None, name):
        raise UsageError(f"NAME {name} and --context {run.connection.context} are mutually exclusive")
    settings = resolve(Connection(context=name).with_defaults(run.connection), run.reporter)
    return settings_outcome(settings)


SUBCOMMANDS = (list_, use, show)
