"""The texts of ``kgroup help TOPIC``: what is not about one verb alone."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from kgroup.cli.refusals import refusals_text
from kgroup.support.errors import EXIT_MEANINGS

RIGHTS_FILE = Path(__file__).parents[1] / "data" / "rights.json"
RIGHTS: list[tuple[str, str, str]] = json.loads(RIGHTS_FILE.read_text(encoding="utf-8"))
"""(verbs, the rights that they need at least, what further rights add), tested on a secured broker.

The docstrings of the verbs have them: ``python -m tests.generate`` writes the file.
"""


def _rights() -> str:
    def part(text: str, word: str) -> list[str]:
        first = f"  {word:<6}"
        return textwrap.wrap(text, 72, initial_indent=first, subsequent_indent=" " * 8, break_on_hyphens=False)

    lines = [
        "G is the group, T are its topics. READ, WRITE and DELETE imply DESCRIBE.",
        "A plan needs what its execution needs, and names all that is missing with",
        "the kafka-acls.sh lines (exit code 4). Brokers log each request that they",
        "deny: reads without rights fill the authorizer's log.",
    ]
    for verbs, least, more in RIGHTS:
        lines += [verbs, *part(least, "needs"), *(part(more, "more") if more else ())]
    return "\n".join(lines)


RUNBOOKS = {
    "catch-up": "after a crash: start at the log end, then replay the gap",
    "slower": "slow a replay down that is too much for the others",
    "skipped": "replay what a reset skipped",
    "open-catchups": "list catch-ups that are not finished; exit 8 (cron)",
    "lag-check": "list groups that are late or stuck; exit 8 (cron)",
    "tonight": "find out whether it was a rollout or a crash loop",
    "before-scaling": "show what more members or a restart would move",
    "rescue": "read offsets while their coordinator is down",
    "poison-pill": "skip a record that the application cannot process",
    "replay": "read the last two hours again",
    "blue-green": "copy a group's offsets to its twin, which replaces it",
    "snapshot": "save the offsets of all groups (cron)",
    "restore": "put a group back to a snapshot",
    "autoscaler": "reset a group that an autoscaler starts again",
    "idle": "delete groups that were idle for 30 days",
    "consumer-protocol": "move one group to the consumer protocol",
    "fleet-report": "check all groups for the consumer protocol",
    "fleet-ready": "convert a team's groups that are Empty and ready",
    "concerned": "list the groups that read a topic",
    "lags": "save all offsets and lags before a change",
    "ticket": "print a group's state for a ticket",
}
"""The scripts in ``kgroup/data/runbooks``, by name, and what each is for."""


def _runbooks() -> str:
    width = max(map(len, RUNBOOKS))
    return "\n".join(
        (
            "Shell scripts, all of them tested. kgroup help runbooks NAME prints one.",
            *(f"  {name:<{width}}  {text}" for name, text in RUNBOOKS.items()),
            "How they read:",
            "  set -eu; KGROUP_CONTEXT and KGROUP_REASON exported; exit codes gate",
            '  kgroup reset G ... || [ $? = 9 ]   rehearsal: 9 is "once it is empty"',
            "  kgroup wait G --for empty --hold 15s --within 5m",
            "  kgroup reset G ... --expect 1 --execute",
            "  kgroup wait G --for members=6 --for lag=100 --within 10m",
        )
    )


def _connection() -> str:
    """Options and variables, and an example of a context file."""
    options = (
        ("-b, --bootstrap-server HOST:PORT", "KGROUP_BOOTSTRAP_SERVER"),
        ("--context NAME", "KGROUP_CONTEXT"),
        ("", "kgroup context list|use|show"),
        ("--command-config FILE", "KGROUP_COMMAND_CONFIG"),
        ("", "properties of librdkafka or Java"),
        ("-X, --property KEY=VALUE", "KGROUP_PROPERTIES"),
        ("", "(several, separated by blanks)"),
        ("--timeout DURATION", "KGROUP_TIMEOUT"),
        ("", "(default: 10s); a bare number is milliseconds"),
        ("--debug FILE", "KGROUP_DEBUG"),
        ("", "what the clients do, without secrets"),
        ("-o, --output FORMAT", "KGROUP_OUTPUT"),
    )
    lines = [f"{names:<35}{text}" for names, text in options]
    return "\n".join(
        (
            *lines,
            "Flag > environment > context file. All are valid before or after the verb.",
            "A context file, ~/.config/kgroup/config.yaml or KGROUP_CONFIG:",
            _CONTEXT_FILE,
        )
    )


_VARIABLES = (
    ("KGROUP_BOOTSTRAP_SERVER", "-b, --bootstrap-server."),
    ("KGROUP_COMMAND_CONFIG", "--command-config."),
    ("KGROUP_PROPERTIES", "-X; several settings, separated by blanks."),
    ("KGROUP_CONTEXT", "--context."),
    ("KGROUP_TIMEOUT", "--timeout."),
    ("KGROUP_OUTPUT", "-o, --output."),
    ("KGROUP_DEBUG", "--debug."),
    ("KGROUP_REASON", "--reason."),
    ("KGROUP_LEDGER_TOPIC", "--ledger-topic of kgroup catchup."),
    ("KGROUP_CLIENT_RACK", "client.rack of a Spark worker, set where it runs."),
    ("KGROUP_CONFIG", "The file with the contexts."),
    ("KGROUP_STATE_DIR", "The journal, the chosen context, sandboxes."),
    ("KGROUP_CACHE_DIR", "Files that can be fetched again."),
    ("KGROUP_IVY_SETTINGS", "Ivy settings for the sandbox, for mirrors."),
    ("NO_COLOR", "Set: no colour, as with --no-color."),
)


def _environment() -> str:
    """The variables, each with the option or the place that it sets."""
    return "\n".join(
        (
            "An option on the command line has precedence over its variable.",
            *(f"  {name:<25}{meaning}" for name, meaning in _VARIABLES),
        )
    )


_CONTEXT_FILE = """\
  contexts:
    prod:
      bootstrap.servers: b1.prod:9093,b2.prod:9093
      security.protocol: SASL_SSL
      sasl.mechanism: SCRAM-SHA-512
      sasl.username: oncall
      sasl.password: ${env:KAFKA_PASSWORD}
    audit:
      bootstrap.servers: audit:9092
      read_only: true"""

_STATUSES = (
    ("OK", "Nothing is unread, or the consumer keeps up."),
    ("UNSUBSCRIBED", "The group runs, and no member subscribes to the topic."),
    ("WARN", "It commits and moves on, and its lag grows."),
    ("REWIND", "Its offset moved backwards: by a reset, or by the consumer."),
    ("STALL", "It commits the same offset again and again, or back and forth."),
    ("STOP", "It does not commit, or not any more."),
    ("NO-READER", "The group is Empty."),
)
_STATUSES_END = """\
In all but OK records are unread. The time after a status is how long it lasts,
as in STALL 36m. A status that is not shown is unknown.

What to do next:
  kgroup doctor GROUP    the cause, and the commands that fix it
  kgroup peek GROUP      STALL, STOP: the records around the committed offset
  kgroup history GROUP   REWIND, NO-READER: who reset it, who left and why
A check that fails at a status: kgroup lag -A --fail-on stop"""


def _statuses() -> str:
    return "\n".join((*(f"{name:<12}  {meaning}" for name, meaning in _STATUSES), _STATUSES_END))


TOPICS = {
    "exit-codes": "\n".join(f"{code:>4}  {meaning}" for code, meaning in EXIT_MEANINGS.items()),
    "output": textwrap.dedent("""\
        -o table      for people; width and colour follow the terminal (NO_COLOR)
        -o wide       the same with all columns
        -o json       {"kind": "kgroup.<verb>/v1", "cluster", "executed",
                       "data": [...], "errors": [...]}, the same when it failed;
                      null is unknown, offsets are integers
        -o yaml       the same document as YAML
        -o csv        one flat table with a header; unknown is an empty field
        -o markdown   one fenced block for a ticket or a chat
        -o name       names alone, one a line: groups of list, describe, lag and
                      doctor (those with findings), plans of catchup list.
        -o kcg        kgroup export alone, and its default: the CSV without a
                      header of kafka-consumer-groups.sh --from-file
        -o jsonl      kgroup peek alone, and its default in a pipe: one record a
                      line, as --save-skipped writes it
        -o prometheus kgroup lag alone: metrics under klag-exporter's names, to
                      stdout or, for a textfile collector, --metrics-file FILE.
        --no-headers  tables and csv without headers
        --no-color    no colour, as with NO_COLOR
        -q, --quiet   no progress, events and notes; warnings and errors stay
        stdout has the result only; progress, notes, warnings and errors go to
        stderr."""),
    "json": textwrap.dedent("""\
        kgroup help json VERB prints the JSON Schema (2020-12) of a verb's documents.
        docs/reference/json.md in kgroup's repository has the same fields as a page.
        Within /v1, fields are only added: ignore fields that you do not know.
        Exit codes, refusal codes, error codes and values of enumerations are stable;
        more may be added. Sentences and tables may change with each version.
        A field is there on success and on failure; null is unknown.
        The kinds of documents, and the verbs that write them:"""),
    "connection": _connection(),
    "environment": _environment(),
    "runbooks": _runbooks(),
    "catch-up": textwrap.dedent("""\
        A consumer crashed at 100, had committed 70, and the log is at 120.
        kgroup catchup start G ... --execute lets its group start at 120 at once,
        and replays [70, 120) in parallel. An interrupted run loses nothing:
          start     writes the gap to a ledger, releases the group, replays
          resume    continues on any machine, after ctrl-C or a crash
          done      closes it: a job of your own has delivered it
          cancel    moves the group back; it reads the gap itself
          list, show, and describe (PENDING)   what is pending, and until when
        The gap is NOT ordered against new records: the group handles new records
        while older ones of the same key are still being replayed.
        The group must be Empty for a moment. Pods that restart by themselves
        never are: scale them to zero, or pause what starts them, first.

        WHERE TO      DELIVERED BY           GUARANTEE
        --to-topic    transactions           exactly once
        --to-source   transactions           exactly once, of dead letters
        --to-files    a file a chunk         exactly once
        --to-command  acknowledged records   at least once; possible duplicates
        --to-python   acknowledged records   are counted
        --to-spark    a group of chunks      exactly once to delta and iceberg; else
                                             an interrupted group is repeated
        --to-group    the application        at least once; no Spark, no Java
        your own code in a Spark session: kgroup.spark.gap (the manual: notebook)

        VERIFIED and exit code 0: every record of the gap was read, and delivered,
        filtered out or dead-lettered. Otherwise exit code 8, with the offsets.
        Rights: kgroup help rights. Spark's workers connect with the settings and the
        credentials of the command. Spark and Java:
          pip install 'pyspark>=4.1,<5' 'pandas>=2.2,<3' 'pyarrow>=18'
          and Java 17 or newer"""),
    "status": _statuses(),
    "rights": _rights(),
    "refusals": refusals_text(),
}

SUMMARIES = {
    "exit-codes": "what each exit code means",
    "output": "the formats of -o, and what is on stdout and stderr",
    "json": "the fields of JSON documents, as JSON Schema",
    "connection": "options and variables that name the cluster",
    "environment": "the environment variables that kgroup reads",
    "runbooks": "tested shell scripts; kgroup help runbooks NAME prints one",
    "catch-up": "release a group at the log end, and replay its gap",
    "status": "what STALL, STOP and the others of kgroup lag mean",
    "rights": "the ACLs that each verb needs",
    "refusals": "each code of exit codes 6 and 9, and what passes it",
}
"""What each topic is about, for ``kgroup help`` alone."""
