"""The options of a replay: the destination, order and speed, refused records, Spark."""

from __future__ import annotations

from functools import partial
from typing import Any

import typer

where_option = partial(typer.Option, rich_help_panel="Where to")
speed_option = partial(typer.Option, rich_help_panel="Order and speed")
failures_option = partial(typer.Option, rich_help_panel="Failures")
spark_option = partial(typer.Option, rich_help_panel="Spark")

OPTIONS: dict[str, dict[str, Any]] = {
    "SinkOptions": {
        "to_topic": where_option("--to-topic", metavar="TOPIC", help="Write to an existing topic, exactly once."),
        "to_source": where_option(
            "--to-source", help="Write dead letters to the topics that they came from, exactly once."
        ),
        "timestamps": where_option(
            "--timestamps", metavar="keep|now", help="Timestamps of the copies (default: keep)."
        ),
        "partitions": where_option(
            "--partitions",
            metavar="keep|key",
            help="Partitions of the copies (default: keep, if that topic has as many).",
        ),
        "to_files": where_option(
            "--to-files", metavar="DIR", help="Write to a directory, one file per chunk, exactly once."
        ),
        "format": where_option("--format", metavar="parquet|json", help="Format of the files (default: parquet)."),
        "to_command": where_option(
            "--to-command",
            metavar="CMD",
            help="Pipe to a shell command, one line of JSON per record; write secrets as $NAME.",
        ),
        "ack": where_option(
            "--ack",
            metavar="exit|line",
            help=(
                "exit: one process per batch, exit code 0 acknowledges it; line: the command answers each record "
                "with ok TOPIC:PARTITION:OFFSET, or error TOPIC:PARTITION:OFFSET: WHY (default: exit)."
            ),
        ),
        "value_format": where_option(
            "--value-format",
            metavar="text|json|hex|base64",
            help='text: strings, or {"base64"} if not UTF-8; json: the value as it is; hex; base64 (default: text).',
        ),
        "to_python": where_option(
            "--to-python",
            metavar="MODULE:FUNCTION",
            help="Call a function with a list of records; an exception refuses them.",
        ),
        "to_spark": where_option(
            "--to-spark",
            metavar="FORMAT",
            help="Append with a writer of Spark, a group of chunks at a time; exactly once to delta and iceberg.",
        ),
        "option": where_option(
            "--option",
            metavar="KEY=VALUE",
            help="A setting of that writer (repeatable); secrets: KEY=@FILE, or 'KEY=$VARIABLE'.",
        ),
        "select": where_option(
            "--select",
            metavar="SQL",
            help='The columns for that writer: "cast(value as string) as body, offset" (default: those of Kafka).',
        ),
        "where": where_option(
            "--where",
            metavar="SQL",
            help="Only records that match, in SQL of Spark: \"cast(key as string) like 'eu-%'\".",
        ),
        "to_group": where_option(
            "--to-group",
            metavar="GROUP",
            help="The application reads the gap, in this group.",
        ),
        "delete_group": where_option(
            "--delete-group", help="Delete that group once the gap is verified and its application has stopped."
        ),
    },
    "SpeedOptions": {
        "order": speed_option(
            "--order", metavar="partition|key|none", help="What is kept in order within the gap (default: partition)."
        ),
        "lanes": speed_option(
            "--lanes", metavar="N", help="Parallel calls of a command or function in each task (default: 1)."
        ),
        "rate": speed_option(
            "--rate",
            metavar="500/s|20MiB/s|off",
            help="Rate limit over all tasks; off removes the limit of the plan.",
        ),
        "yield_to": speed_option(
            "--yield-to",
            metavar="lag-time=5s|off",
            help="Halve the rate while the group's own oldest unread record is older than that and ages.",
        ),
        "retries": failures_option("--retries", metavar="N", help="Retries of a refused record (default: 3)."),
        "backoff": failures_option(
            "--backoff",
            metavar="DURATION",
            help="Pause before the first retry, doubled for each further one (default: 500ms).",
        ),
        "handler_timeout": failures_option(
            "--handler-timeout",
            metavar="DURATION",
            help="Time limit of one call of a command or function (default: 60s).",
        ),
        "dead_letter_topic": failures_option(
            "--dead-letter-topic",
            metavar="TOPIC",
            help="Topic for records that are refused after all retries; without it, such a record stops its partition.",
        ),
        "master": spark_option("--master", metavar="URL", help="Master of Spark (default: local[*], this machine)."),
        "conf": spark_option("--conf", metavar="KEY=VALUE", help="A setting of Spark (repeatable)."),
        "parallelism": spark_option(
            "--parallelism", metavar="N", help="Parallel tasks, if the master is local or spark://."
        ),
        "spark_log": spark_option("--spark-log", help="Show the log of Spark on stderr."),
        "report": spark_option("--report", metavar="FILE", help="Also write the report to a new file, as JSON."),
    },
}
