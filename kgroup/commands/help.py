"""``kgroup help TOPIC``: help that is not about one verb alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from kgroup.cli.help_topics import TOPICS
from kgroup.cli.verbs import BY_NAME
from kgroup.model.blocks import Records, Screen, Text
from kgroup.model.outcome import Outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import NotFound


@dataclass(frozen=True, slots=True)
class HelpTopic:
    """A help text and its name."""

    name: str
    text: str

    def document(self) -> Mapping[str, str]:
        """Name and text."""
        return {"topic": self.name, "text": self.text}


def help_(
    run: Invocation, topic: Annotated[str, typer.Argument(metavar="TOPIC", help="|".join(TOPICS))] = "exit-codes"
) -> Outcome:
    """Explain exit codes, output formats or the connection.

    Examples:
    kgroup help exit-codes
    kgroup help connection

    Exit codes: 0 2 5
    """
    if topic not in TOPICS:
        page = f"kgroup {topic} --help" if topic in BY_NAME else "kgroup --help"
        raise NotFound(f"no help topic {topic!r}", details=(f"There are {', '.join(TOPICS)}.",), hint=page)
    chosen = HelpTopic(topic, TOPICS[topic])
    return Outcome(
        (chosen,),
        lambda: Screen((Text(tuple(chosen.text.splitlines())),)),
        lambda: Records(("topic", "text"), ((chosen.name, chosen.text),)),
    )
