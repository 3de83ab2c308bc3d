"""Each code of exit codes 6 and 9: when a change is refused, and what passes it. Help and the manual use it.

``kgroup/data/refusals.json`` has what modules declare with ``refusal_code``: ``python -m tests.generate`` writes it.
"""

from __future__ import annotations

import textwrap
from itertools import groupby
from pathlib import Path

import msgspec

from kgroup.model.accept_codes import ACCEPTED
from kgroup.support.errors import ExitCode

DATA = Path(__file__).parents[1] / "data" / "refusals.json"
_WIDTH = 78


class RefusalHelp(msgspec.Struct, frozen=True, omit_defaults=True):
    """A code, the verbs that refuse with it, when they do, and what the user can do, as it was declared."""

    code: str
    verbs: str
    when: str
    to_do: str
    not_yet: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """NOT_YET if time mends it, else REFUSED."""
        return ExitCode.NOT_YET if self.not_yet else ExitCode.REFUSED

    @property
    def accepted(self) -> bool:
        """Whether ``--accept CODE`` passes it, for at least one of the verbs."""
        return any(self.code in codes for codes in ACCEPTED.values())

    @property
    def page(self) -> str:
        accept = f"--accept {self.code} passes it." if self.accepted else "No --accept passes it."
        return "\n".join(
            (
                f"{self.code}: a refusal (exit code {self.exit_code:d}) of {self.verbs}",
                "",
                *_wrapped("When:   ", self.when),
                *_wrapped("To do:  ", self.to_do),
                f"        {accept}",
            )
        )


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


REFUSALS = {each.code: each for each in msgspec.json.decode(DATA.read_bytes(), type=list[RefusalHelp])}
"""The refusals by code, in the order of verbs and codes."""


def refusals_text() -> str:
    """The text of ``kgroup help refusals``: the codes by verbs, ``*`` if --accept passes it, ``+`` for exit code 9."""
    lines = [
        "A refusal has exit code 6; those marked with + have 9, as time mends them. Its",
        "code is in brackets on stderr, and in JSON as errors[].code. --accept CODE",
        "passes those that are marked with *.",
    ]
    for verbs, refusals in groupby(REFUSALS.values(), lambda each: each.verbs):
        codes = ", ".join(f"{each.code}{' *' * each.accepted}{' +' * each.not_yet}" for each in refusals)
        lines += ["", verbs, *(f"  {line}" for line in textwrap.wrap(codes, 74, break_on_hyphens=False))]
    return "\n".join([*lines, "", "kgroup help CODE explains one: when it is refused, and what passes it."])
