"""Run a real Kafka on this machine, and a demo of a crash.

The brokers listen on loopback only. They need Java 17 or newer, and fetch Kafka once.

Examples:
# start a broker, and print its address
kgroup sandbox up

# crash a real consumer, and catch its group up
kgroup sandbox demo

# stop the sandbox, and delete its data
kgroup sandbox down --wipe
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from kgroup.model.outcome import Outcome, Outcomes
from kgroup.output.pages.sandbox import sandbox_outcome
from kgroup.sandbox import Sandbox
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import UsageError


@dataclass(frozen=True, slots=True)
class SandboxOptions:
    """What to start. None means as the sandbox was before, else the default."""

    brokers: Annotated[int | None, typer.Option("--brokers", metavar="1|3", help="Number of brokers (default: 1).")] = (
        None
    )
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=1,
            max=65533,
            help="Port of the first broker (default: 19092, or any free one).",
        ),
    ] = None
    jars: Annotated[
        Path | None,
        typer.Option(
            "--jars",
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="Directory of a Kafka, 3.3 or newer, to use instead of fetching one.",
        ),
    ] = None
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A broker setting (repeatable)."),
    ] = None


def up(run: Invocation, wanted: SandboxOptions) -> Outcome:
    """Start a real Kafka on loopback and print its address.

    It returns when the broker answers requests about groups, and does nothing if the sandbox runs already. A broker
    that was killed is started again, with its data. Needs Java 17 or newer (JAVA_HOME, PATH).

    The first time it fetches Kafka (39 MB), with the Ivy of the PySpark package. Behind a mirror, name your Ivy
    settings in KGROUP_IVY_SETTINGS, put them in ~/.ivy2/ivysettings.xml, or name a Maven repository in
    DEFAULT_ARTIFACT_REPOSITORY.

    Examples:
    # one broker
    kgroup sandbox up
    # three brokers
    kgroup sandbox up --brokers 3
    # with a port and a broker setting
    kgroup sandbox up --port 19092 --set group.consumer.migration.policy=disabled

    Exit codes: 0 1 2 6 130
    """
    if wanted.brokers not in (None, 1, 3):
        raise UsageError(f"--brokers must be 1 or 3, not {wanted.brokers}")
    status = Sandbox().up(
        brokers=wanted.brokers,
        port=wanted.port,
        properties=_properties(wanted.set),
        jars_dir=wanted.jars,
        reporter=run.reporter,
    )
    return sandbox_outcome(status)


def status(run: Invocation) -> Outcome:
    """Show the brokers of the sandbox, their state and addresses.

    Examples:
    # what runs, and where
    kgroup sandbox status
    # its address, for a script
    kgroup sandbox status -o json | jq -r '.data[0].bootstrap_servers'

    Exit codes: 0 1 2
    """
    return sandbox_outcome(Sandbox().status())


def down(
    run: Invocation,
    wipe: Annotated[bool, typer.Option("--wipe", help="Also delete the data; the fetched Kafka stays.")] = False,
) -> Outcome:
    """Stop the sandbox; its data stays, unless --wipe.

    It stops what kgroup sandbox started, and nothing else.

    Examples:
    # stop the brokers
    kgroup sandbox down
    # also delete their data
    kgroup sandbox down --wipe

    Exit codes: 0 1 2
    """
    sandbox = Sandbox()
    if sandbox.down(wipe=wipe, reporter=run.reporter):
        run.reporter.event("STOPPED", f"the sandbox in {sandbox.directory}{', data removed' if wipe else ''}")
    else:
        run.reporter.note("no sandbox is running: nothing to do")
    return sandbox_outcome(sandbox.status())


def demo(
    run: Invocation,
    crash_only: Annotated[
        bool, typer.Option("--crash-only", help="Stop after the crash, so that you can try the rest.")
    ] = False,
) -> Outcomes:
    """Crash a real consumer on the sandbox, and catch its group up.

    A consumer commits at 70 and is killed at 100, and the log grows to 120. Its group is released at the log end,
    and handles new records there while Spark replays [70, 120) into a topic. The result shows that every record is
    delivered.

    It starts the sandbox if it does not run; each run uses topics and a group of its own. Without PySpark it ends after
    the crash, and shows how to install PySpark.

    Examples:
    # the crash and the catch-up
    kgroup sandbox demo
    # only the crash: try the rest yourself
    kgroup sandbox demo --crash-only

    Exit codes: 0 1 2 3 6 7 8 130 143
    """
    # Imported here: `up`, `down` and `status` need no Kafka client.
    from kgroup.commands.sandbox_demo import demo_outcomes
    from kgroup.sandbox.demo import crash

    running = Sandbox().up(reporter=run.reporter)
    assert running.bootstrap_servers is not None
    crashed = crash(running.bootstrap_servers, run.reporter)
    yield from demo_outcomes(run, crashed, crash_only=crash_only)


SUBCOMMANDS = (up, status, down, demo)


def _properties(assignments: list[str] | None) -> dict[str, str] | None:
    """``KEY=VALUE`` words as a mapping, None if there are none."""
    if assignments is None:
        return None
    pairs = [word.partition("=") for word in assignments]
    for key, equals, _ in pairs:
        if not (key and equals):
            raise UsageError(f"--set requires KEY=VALUE, not {key!r}")
    return {key: value for key, _, value in pairs} or None
