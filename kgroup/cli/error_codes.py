"""Each error code that is no refusal: its exit code, and what it means. Help and the manual read this table."""

from __future__ import annotations

import textwrap

import msgspec

from kgroup.support.errors import ExitCode

_WIDTH = 78


class ErrorHelp(msgspec.Struct, frozen=True):
    """A code, and the exit code of a command that failed with it alone."""

    code: str
    exit_code: ExitCode
    meaning: str

    @property
    def page(self) -> str:
        lines = textwrap.wrap(self.meaning, _WIDTH, break_on_hyphens=False)
        return "\n".join((f"{self.code}: an error (exit code {self.exit_code:d})", "", *lines))


_FAILED, _USAGE, _UNREACHABLE = ExitCode.FAILED, ExitCode.USAGE, ExitCode.UNREACHABLE
_NOT_AUTHORIZED, _NOT_FOUND, _REFUSED = ExitCode.NOT_AUTHORIZED, ExitCode.NOT_FOUND, ExitCode.REFUSED
_PARTLY, _CHECK = ExitCode.PARTLY, ExitCode.CHECK_FAILED

_ALL = (
    ErrorHelp("usage", _USAGE, "The command line asks for something impossible or meaningless."),
    ErrorHelp("config", _USAGE, "A configuration file, context or client setting cannot be used."),
    ErrorHelp("no-pyarrow", _USAGE, "Parquet files need pyarrow, which is not installed."),
    ErrorHelp(
        "no-store-client", _USAGE, "The package for a checkpoint's store is not installed: obstore or hdfs-native."
    ),
    ErrorHelp("unreachable", _UNREACHABLE, "No broker answered."),
    ErrorHelp("timed-out", _UNREACHABLE, "A broker did not answer within --timeout."),
    ErrorHelp("tls", _UNREACHABLE, "The TLS connection to a broker failed."),
    ErrorHelp("not-kafka", _UNREACHABLE, "What answers at that address does not answer as a Kafka broker."),
    ErrorHelp("no-coordinator", _UNREACHABLE, "The group has no coordinator that answers now."),
    ErrorHelp("coordinator-behind", _UNREACHABLE, "The coordinator has not yet read all commits of its groups."),
    ErrorHelp("no-leader", _UNREACHABLE, "The partition has no leader that answers."),
    ErrorHelp(
        "outcome-unknown",
        _UNREACHABLE,
        "The answer to a change was lost, and kgroup could not find out whether it was applied. kgroup undo finds out.",
    ),
    ErrorHelp("not-written", _UNREACHABLE, "A transaction of a catch-up wrote nothing; it can be tried again."),
    ErrorHelp("spark-master", _UNREACHABLE, "The master of Spark does not answer, or does not accept the application."),
    ErrorHelp("auth-failed", _NOT_AUTHORIZED, "A broker rejected the credentials."),
    ErrorHelp(
        "not-authorized", _NOT_AUTHORIZED, "A right is missing. The message names it. All of them: kgroup help rights."
    ),
    ErrorHelp("not-found", _NOT_FOUND, "A named group, topic, context or pattern matches nothing."),
    ErrorHelp("unknown-topic", _NOT_FOUND, "The topic does not exist."),
    ErrorHelp("unknown-partition", _NOT_FOUND, "The topic does not have that partition."),
    ErrorHelp("no-plan", _NOT_FOUND, "The ledger does not have such a plan, or the group has no open plan."),
    ErrorHelp("refused", _REFUSED, "A precondition that has no code of its own does not hold."),
    ErrorHelp("no-kafka", _REFUSED, "The sandbox cannot find a Kafka to run."),
    ErrorHelp("kafka-too-old", _REFUSED, "The sandbox cannot run a Kafka of that version."),
    ErrorHelp("port-taken", _REFUSED, "Another process listens on a port of the sandbox."),
    ErrorHelp("sandbox-differs", _REFUSED, "A sandbox with other settings exists."),
    ErrorHelp("not-verified", _PARTLY, "The change was made, but reading it back failed or showed another state."),
    ErrorHelp("commits-missing", _PARTLY, "The change was made, but commits were gone when they were read back."),
    ErrorHelp(
        "commit-unknown",
        _PARTLY,
        "What was committed is unknown: the log does not have it, or the answer was lost.",
    ),
    ErrorHelp("log-incomplete", _PARTLY, "__consumer_offsets was not read to its start, so commits may be missing."),
    ErrorHelp("not-text", _PARTLY, "The row has a NUL character, which the format cannot represent."),
    ErrorHelp("record-refused", _CHECK, "The destination of a catch-up refused a record. Its partition stops there."),
    ErrorHelp("gone-from-target", _CHECK, "Records were delivered to a topic, which no longer has them."),
    ErrorHelp("failed", _FAILED, "An error that has no code of its own."),
    ErrorHelp("broker-error", _FAILED, "A broker answered with an error, which the message names."),
    ErrorHelp("file", _FAILED, "A file could not be read or written."),
    ErrorHelp("disk-full", _FAILED, "The disk of --to-files is full."),
    ErrorHelp("output", _FAILED, "The result could not be written to stdout."),
    ErrorHelp("installation", _FAILED, "A file of kgroup's installation is missing or damaged."),
    ErrorHelp("interrupted", _FAILED, "kgroup was stopped before it came to that row."),
    ErrorHelp("not-tried", _FAILED, "kgroup stopped at an error before it came to that row."),
    ErrorHelp("malformed-record", _FAILED, "A record cannot be decoded."),
    ErrorHelp("handler-missing", _FAILED, "The command or function that gets the records cannot be found."),
    ErrorHelp(
        "handler-timeout", _FAILED, "The command or function did not acknowledge a record within --handler-timeout."
    ),
    ErrorHelp("handler-unread", _FAILED, "The command ended with exit status 0, but did not read all of its records."),
    ErrorHelp("handler-answer", _FAILED, "The command of --ack line gave an answer that does not name its record."),
    ErrorHelp("not-counted", _FAILED, "A file of the replay could not be counted, so it is not known to be complete."),
    ErrorHelp("sql", _FAILED, "Spark rejected an SQL expression."),
    ErrorHelp("spark-start", _FAILED, "Spark did not start."),
    ErrorHelp("spark-job", _FAILED, "The job of Spark failed."),
    ErrorHelp("spark-gone", _FAILED, "Spark ended during the replay."),
    ErrorHelp("job-failed", _FAILED, "The job of catchup resume --fork failed, or did not do its batch."),
    ErrorHelp("sandbox", _FAILED, "The sandbox could not be downloaded, started or stopped."),
)

ERRORS = {error.code: error for error in _ALL}
"""The errors by code, in the order of their exit codes; 1 is last."""
