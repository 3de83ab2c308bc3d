"""The options of a replay: the destination, order and speed, refused records, Spark."""

from __future__ import annotations

from typing import Any

import typer

WHERE = "Where to"
SPEED = "Order and speed"
FAILURES = "Failures"
SPARK = "Spark"

OPTIONS: dict[str, dict[str, Any]] = {
    "SinkOptions": {
        "to_topic": typer.Option(
            "--to-topic", metavar="TOPIC", rich_help_panel=WHERE, help="Write to an existing topic, exactly once."
        ),
        "timestamps": typer.Option(
            "--timestamps",
            metavar="keep|now",
            rich_help_panel=WHERE,
            help="Timestamps of the copies (default: keep).",
        ),
        "partitions": typer.Option(
            "--partitions",
            metavar="keep|key",
            rich_help_panel=WHERE,
            help="Partitions of the copies (default: keep, if that topic has as many).",
        ),
        "to_files": typer.Option(
            "--to-files",
            metavar="DIR",
            rich_help_panel=WHERE,
            help="Write to a directory, one file per chunk, exactly once.",
        ),
        "format": typer.Option(
            "--format", metavar="parquet|json", rich_help_panel=WHERE, help="Format of the files (default: parquet)."
        ),
        "to_command": typer.Option(
            "--to-command",
            metavar="CMD",
            rich_help_panel=WHERE,
            help="Pipe to a shell command, one line of JSON per record; write secrets as $NAME.",
        ),
        "ack": typer.Option(
            "--ack",
            metavar="exit|line",
            rich_help_panel=WHERE,
            help=(
                "exit: one process per batch, exit code 0 acknowledges it; line: the command answers each record "
                "with ok TOPIC:PARTITION:OFFSET, or error TOPIC:PARTITION:OFFSET: WHY (default: exit)."
            ),
        ),
        "value_format": typer.Option(
            "--value-format",
            metavar="text|json|hex|base64",
            rich_help_panel=WHERE,
            help=('text: strings, or {"base64"} if not UTF-8; json: the value as it is; hex; base64 (default: text).'),
        ),
        "to_python": typer.Option(
            "--to-python",
            metavar="MODULE:FUNCTION",
            rich_help_panel=WHERE,
            help="Call a function with a list of records; an exception refuses them.",
        ),
        "to_spark": typer.Option(
            "--to-spark",
            metavar="FORMAT",
            rich_help_panel=WHERE,
            help=("Append with a writer of Spark (delta, parquet); an interrupted append is repeated as a whole."),
        ),
        "option": typer.Option(
            "--option",
            metavar="KEY=VALUE",
            rich_help_panel=WHERE,
            help="A setting of that writer (repeatable); secrets: KEY=@FILE, or 'KEY=$VARIABLE'.",
        ),
        "where": typer.Option(
            "--where",
            metavar="SQL",
            rich_help_panel=WHERE,
            help="Only records that match, in SQL of Spark: \"cast(key as string) like 'eu-%'\".",
        ),
        "latest_per_key": typer.Option(
            "--latest-per-key",
            rich_help_panel=WHERE,
            help=("Only the newest record of each key that --where selects; all records without a key."),
        ),
    },
    "SpeedOptions": {
        "order": typer.Option(
            "--order",
            metavar="partition|key|none",
            rich_help_panel=SPEED,
            help="What is kept in order within the gap (default: partition).",
        ),
        "lanes": typer.Option(
            "--lanes",
            metavar="N",
            rich_help_panel=SPEED,
            help="Parallel calls of a command or function in each task (default: 1).",
        ),
        "rate": typer.Option(
            "--rate",
            metavar="500/s|20MiB/s|none",
            rich_help_panel=SPEED,
            help="Rate limit over all tasks; none removes the limit of the plan.",
        ),
        "retries": typer.Option(
            "--retries",
            metavar="N",
            rich_help_panel=FAILURES,
            help="Retries of a refused record (default: 3).",
        ),
        "backoff": typer.Option(
            "--backoff",
            metavar="DURATION",
            rich_help_panel=FAILURES,
            help="Pause before the first retry, doubled for each further one (default: 500ms).",
        ),
        "handler_timeout": typer.Option(
            "--handler-timeout",
            metavar="DURATION",
            rich_help_panel=FAILURES,
            help="Time limit of one call of a command or function (default: 60s).",
        ),
        "dead_letter_topic": typer.Option(
            "--dead-letter-topic",
            metavar="TOPIC",
            rich_help_panel=FAILURES,
            help=(
                "Topic for records that are refused after all retries; without it, such a record stops its partition."
            ),
        ),
        "master": typer.Option(
            "--master", metavar="URL", rich_help_panel=SPARK, help="Master of Spark (default: local[*], this machine)."
        ),
        "conf": typer.Option(
            "--conf", metavar="KEY=VALUE", rich_help_panel=SPARK, help="A setting of Spark (repeatable)."
        ),
        "parallelism": typer.Option(
            "--parallelism",
            metavar="N",
            rich_help_panel=SPARK,
            help="Parallel tasks, if the master is local or spark://.",
        ),
        "spark_log": typer.Option("--spark-log", rich_help_panel=SPARK, help="Show the log of Spark on stderr."),
        "report": typer.Option(
            "--report", metavar="FILE", rich_help_panel=SPARK, help="Also write the report to a new file, as JSON."
        ),
    },
}
