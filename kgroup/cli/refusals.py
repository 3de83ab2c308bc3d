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
        """The text of ``kgroup help CODE``."""
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


_CHANGES = "changes"
_START = "catchup start"
_CATCHUP = "catchup"
_SAVE = "reset --save-skipped"

_ALL = (
    # Changes
    # undo, evict
    # migrate
    # simulate
    # reset --save-skipped
    RefusalHelp(
        "retention",
        f"{_SAVE}, {_START}",
        "The topic of --save-skipped would delete a record at once, or retention deletes records of the gap before "
        "the replay could read them.",
        "Use another topic or a file. For a gap, raise retention.ms of its topic until the replay is done.",
    ),
    # catchup
    RefusalHelp(
        "skip",
        _START,
        "With --skip-before, older records are delivered to no consumer.",
        "Leave --skip-before out.",
    ),
    RefusalHelp(
        "not-in-ledger",
        _START,
        "The commits of the group show a release that the ledger does not have: the ledger was deleted or truncated.",
        "Run the catchup start --range command of the message, or name the right --ledger-topic. Accept it if all "
        "records were delivered.",
    ),
    RefusalHelp(
        "possible-duplicates",
        "catchup cancel, catchup start",
        "The group would process records twice: after cancel, those that were delivered; after start, those that "
        "another open plan has.",
        "Use catchup resume.",
    ),
    RefusalHelp(
        "above-log-end",
        _START,
        "The committed offset of a partition is above the log end.",
        "Use kgroup reset. --partial skips the partition.",
    ),
    RefusalHelp(
        "hanging-transaction",
        _START,
        "A transaction that does not end holds back the last stable offset.",
        "End that transaction. --partial skips the partition.",
    ),
    RefusalHelp(
        "plan-overlaps",
        _START,
        "Another plan has these offsets.",
        "Continue with that plan: catchup resume.",
    ),
    RefusalHelp(
        "plan-exists",
        _START,
        "The ledger already has a plan with this id.",
        "Run the command again: it makes another id.",
    ),
    RefusalHelp(
        "group-continued",
        _CATCHUP,
        "The group has committed by itself in the gap since the plan was made.",
        "Follow the message.",
    ),
    RefusalHelp("cancelling", _CATCHUP, "The plan is being cancelled.", "Finish it with catchup cancel."),
    RefusalHelp("closed", _CATCHUP, "The plan is finished.", "Make a new plan with catchup start."),
    RefusalHelp("delivered", _CATCHUP, "All records of the plan are delivered.", "Read the result: catchup show."),
    RefusalHelp(
        "history-unread",
        _CATCHUP,
        "A release broke off, and __consumer_offsets does not show whether it happened.",
        "Add --assume released, or --assume unreleased.",
    ),
    RefusalHelp(
        "plan-open",
        "catchup prune, start",
        "The plan is not finished, or a plan of the group is not released yet: also that of a start that broke off.",
        "Use catchup resume, or catchup cancel.",
    ),
    RefusalHelp(
        "no-sink",
        _CATCHUP,
        "The plan does not have a destination for its records.",
        "Name one: --to-topic, --to-files, --to-command, --to-python or --to-spark.",
    ),
    RefusalHelp(
        "sink-set",
        _CATCHUP,
        "The plan already has another destination.",
        "Leave the option out. The first destination stays.",
    ),
    RefusalHelp("sink", _CATCHUP, "The destination does not fit the plan.", "Follow the message."),
    RefusalHelp(
        "no-ledger",
        _CATCHUP,
        "The ledger does not exist and cannot be created.",
        "Run the command in the hint, or name another --ledger-topic.",
    ),
    RefusalHelp(
        "ledger-unfit",
        _CATCHUP,
        "The topic has settings that a ledger cannot have.",
        "Run the command in the hint, or name another --ledger-topic.",
    ),
    RefusalHelp(
        "ledger-newer",
        _CATCHUP,
        "A newer version of kgroup has written to the ledger.",
        "Use that version, or a newer one. The message has the commands to deliver the gap again, and to close the "
        "plan.",
    ),
    RefusalHelp(
        "ledger-damaged",
        _CATCHUP,
        "A record of the plan in the ledger cannot be read: another program has written it.",
        "Run the commands of the message: they deliver the gap again, and close the plan.",
    ),
    RefusalHelp("no-pyspark", _CATCHUP, "PySpark is not installed.", "Run the command in the hint."),
    RefusalHelp("no-master", _CATCHUP, "The master of Spark cannot be found or reached.", "Check --master."),
    RefusalHelp(
        "spark-workers",
        _CATCHUP,
        "The workers of Spark lack a Python package, or run another version of Python.",
        "Run the command in the hint.",
    ),
    RefusalHelp(
        "foreign-file",
        _CATCHUP,
        "The directory of --to-files has a file of that name, which kgroup did not write.",
        "Move the file away, then use catchup resume.",
    ),
)

_DECLARED = msgspec.json.decode(DATA.read_bytes(), type=list[RefusalHelp])
REFUSALS = {each.code: each for each in sorted((*_ALL, *_DECLARED), key=lambda each: (each.verbs, each.code))}
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
