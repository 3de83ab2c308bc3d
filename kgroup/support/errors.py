"""The errors of kgroup, one class for each thing that a user can act on, and the one table of exit codes.

``message`` states what happened and to which object, ``details`` the evidence, ``hint`` the next step. ``code`` is the
stable word in brackets that scripts may match and ``--accept`` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Self

from kgroup.support.cluster_ref import ClusterRef


class ExitCode(IntEnum):
    """Exit codes of kgroup; the manual's table is generated from EXIT_MEANINGS."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_AUTHORIZED = 4
    NOT_FOUND = 5
    REFUSED = 6
    PARTLY = 7
    CHECK_FAILED = 8
    NOT_YET = 9
    INTERRUPTED = 130
    TERMINATED = 143


EXIT_MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed unexpectedly",
    ExitCode.USAGE: "usage: the command line or the configuration is wrong; nothing was changed",
    ExitCode.UNREACHABLE: "cluster unreachable or timed out",
    ExitCode.NOT_AUTHORIZED: "not authenticated, or rights are missing for all of it",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.REFUSED: "refused: a precondition does not hold",
    ExitCode.PARTLY: "partly done: the output shows which rows failed",
    ExitCode.CHECK_FAILED: "a check did not hold",
    ExitCode.NOT_YET: "not yet: refused only by what time mends, such as members in the group",
    ExitCode.INTERRUPTED: "interrupted (ctrl-C)",
    ExitCode.TERMINATED: "terminated (SIGTERM, SIGHUP)",
}

NOT_YET_CODES: set[str] = set()
"""The refusals that time mends: members leave, a rebalance, a transaction or another run ends. They exit with 9.

Not ``open-transaction``: kgroup has waited for that transaction already, and it may hang for ever.
"""


def refusal_code(code: str, verbs: str, when: str, to_do: str, *, not_yet: bool = False) -> str:
    """Declares a code of exit code 6, or 9 if time mends it, in the lowest module that raises it; returns the code.

    ``kgroup help CODE`` and the manual show which verbs refuse with it, when they do, and what the user can do.
    ``python -m tests.generate`` reads these texts from the sources, so they are literals.
    """
    if not_yet:
        NOT_YET_CODES.add(code)
    return code


# These have raisers in several packages; any other stands where it is raised.
NOT_EMPTY = refusal_code(
    "not-empty",
    "changes",
    "The group has members. They are named, with host and the time until their sessions end.",
    "Stop the members, or add --wait-empty. The broker refuses too.",
    not_yet=True,
)
SUBSCRIBED = refusal_code(
    "subscribed",
    "delete-offsets",
    "A live member reads the topic.",
    "Stop the member, or add --wait-empty.",
    not_yet=True,
)
FOREIGN_OWNER = refusal_code(
    "foreign-owner",
    "changes",
    "A framework owns the offsets: Connect, Streams, Flink or Spark. Or the group is of a type that the verb lacks.",
    "Use the framework's tool, which the message names. Changes of streams groups are always refused.",
)
MOVED_SINCE = refusal_code(
    "moved-since",
    "changes",
    "The offsets are no longer those that the change left, or that the plan showed.",
    "Read the offsets again. For undo, --accept passes it. After deleted commits: catchup cancel --abandon.",
)
NO_PYSPARK = refusal_code("no-pyspark", "catchup", "PySpark is not installed.", "Run the command in the hint.")
RETENTION = refusal_code(
    "retention",
    "reset --save-skipped, catchup start",
    "The topic of --save-skipped would delete a record at once, or retention deletes records of the gap before the "
    "replay could read them.",
    "Use another topic or a file. For a gap, raise retention.ms of its topic until the replay is done.",
)
SUPERSEDED = refusal_code(
    "superseded",
    "catchup",
    "Another run has the plan now, or catchup stop has ended this run. The message names it.",
    "After stop: catchup resume. Otherwise: catchup show.",
)


def decisive(codes: Sequence[ExitCode]) -> ExitCode:
    """The exit code of several reasons why nothing was done: the first that waiting cannot mend, else NOT_YET."""
    return next((code for code in codes if code is not ExitCode.NOT_YET), ExitCode.NOT_YET)


class KgroupError(Exception):
    """Base of all errors that kgroup reports without a traceback.

    ``details`` are lines of evidence. ``hint`` is the next step, with at most one command. ``cluster`` is the cluster
    that was asked, None if it has not answered yet.
    """

    exit_code: ExitCode = ExitCode.FAILED
    code: str = "failed"

    def __init__(
        self, message: str, *, details: tuple[str, ...] = (), hint: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.hint = hint
        self.cluster: ClusterRef | None = None
        if code is not None:
            self.code = code
        if self.code in NOT_YET_CODES:
            self.exit_code = ExitCode.NOT_YET
        self._note_hint()

    def _note_hint(self) -> None:
        """Let tracebacks, as those of notebooks, show the hint."""
        self.__notes__ = [] if self.hint is None else [str(self.hint)]

    def with_context(
        self,
        *,
        prefix: str = "",
        details: tuple[str, ...] = (),
        hint: str | None = None,
        cluster: ClusterRef | None = None,
    ) -> Self:
        """A copy with ``prefix`` before the message and ``details`` after its own.

        ``hint`` and ``cluster`` replace its own; None keeps them. The error itself stays as its maker made it.
        """
        error = type(self).__new__(type(self))
        error.__dict__.update(self.__dict__)
        error.__cause__, error.__suppress_context__ = self.__cause__, self.__suppress_context__
        error.message = f"{prefix}{self.message}"
        error.args = (error.message,)
        error.details = (*self.details, *details)
        error.hint = self.hint if hint is None else hint
        error.cluster = self.cluster if cluster is None else cluster
        error._note_hint()
        return error


class UsageError(KgroupError):
    """The command line asks for something impossible or meaningless."""

    exit_code = ExitCode.USAGE
    code = "usage"


class ConfigError(KgroupError):
    """A configuration file, context or client setting cannot be used."""

    exit_code = ExitCode.USAGE
    code = "config"


class Unreachable(KgroupError):
    """No broker answered, or the answer was not Kafka's; ``code`` is unreachable, timed-out, tls or not-kafka."""

    exit_code = ExitCode.UNREACHABLE
    code = "unreachable"


class AuthenticationFailed(KgroupError):
    """A broker rejected our credentials."""

    exit_code = ExitCode.NOT_AUTHORIZED
    code = "auth-failed"


class NotAuthorized(KgroupError):
    """This user lacks the rights for everything that was asked."""

    exit_code = ExitCode.NOT_AUTHORIZED
    code = "not-authorized"


class NotFound(KgroupError):
    """A named group, topic, context or pattern matches nothing."""

    exit_code = ExitCode.NOT_FOUND
    code = "not-found"


class Refused(KgroupError):
    """A precondition does not hold; ``code`` names it (foreign-owner, read-only, ...), and decides between 6 and 9."""

    exit_code = ExitCode.REFUSED
    code = "refused"


class NotVerified(KgroupError):
    """The change was made, but reading it back failed or showed another state; ``code`` says which."""

    exit_code = ExitCode.PARTLY
    code = "not-verified"


class SandboxError(KgroupError):
    """The local broker could not be downloaded, started or stopped."""

    code = "sandbox"
