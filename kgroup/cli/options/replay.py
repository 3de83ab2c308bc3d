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
            "--to-topic", metavar="TOPIC", rich_help_panel=WHERE, help="Into a topic that exists, exactly once."
        ),
        "timestamps": typer.Option(
            "--timestamps",
            metavar="keep|now",
            rich_help_panel=WHERE,
            help="Timestamps of the copies; keep by default.",
        ),
        "partitions": typer.Option(
            "--partitions",
            metavar="keep|key",
            rich_help_panel=WHERE,
            help="Partitions of the copies; keep by default where that topic has as many.",
        ),
        "to_files": typer.Option(
            "--to-files", metavar="DIR", rich_help_panel=WHERE, help="Into a directory, a file a chunk, each once."
        ),
        "format": typer.Option(
            "--format", metavar="parquet|json", rich_help_panel=WHERE, help="What the files are; parquet by default."
        ),
        "to_command": typer.Option(
            "--to-command",
            metavar="CMD",
            rich_help_panel=WHERE,
            help="To a shell command, a line of JSON a record; secrets as $NAME.",
        ),
        "ack": typer.Option(
            "--ack",
            metavar="exit|line",
            rich_help_panel=WHERE,
            help="exit (default): a process a batch, 0: it has read all; line: it answers each: ok, or error: WHY.",
        ),
        "value_format": typer.Option(
            "--value-format",
            metavar="text|json|base64",
            rich_help_panel=WHERE,
            help='text (default): strings, or {"base64"} where not UTF-8; json: the value as it is; base64: always.',
        ),
        "to_python": typer.Option(
            "--to-python",
            metavar="MODULE:FUNCTION",
            rich_help_panel=WHERE,
            help="To a function, a list of records a call; an exception refuses them.",
        ),
        "to_spark": typer.Option(
            "--to-spark",
            metavar="FORMAT",
            rich_help_panel=WHERE,
            help="One append by any of Spark's writers (delta, jdbc); broken off, all of it comes again.",
        ),
        "option": typer.Option(
            "--option",
            metavar="KEY=VALUE",
            rich_help_panel=WHERE,
            help="A setting of that writer; may be repeated. Secrets: KEY=@FILE, or 'KEY=$VARIABLE'.",
        ),
        "where": typer.Option(
            "--where",
            metavar="SQL",
            rich_help_panel=WHERE,
            help="Only records of which this is true, in Spark's SQL: \"cast(key as string) like 'eu-%'\".",
        ),
        "latest_per_key": typer.Option(
            "--latest-per-key",
            rich_help_panel=WHERE,
            help="Of each key only the newest record that --where lets through; of those without a key, all.",
        ),
    },
    "SpeedOptions": {
        "order": typer.Option(
            "--order",
            metavar="partition|key|none",
            rich_help_panel=SPEED,
            help="What is kept in order within the gap; partition by default.",
        ),
        "lanes": typer.Option(
            "--lanes",
            metavar="N",
            rich_help_panel=SPEED,
            help="Calls of a command or function at a time in each task; 1 by default.",
        ),
        "rate": typer.Option(
            "--rate",
            metavar="500/s|20MiB/s|none",
            rich_help_panel=SPEED,
            help="At most so much, over all tasks; none: no limit, where the plan keeps one.",
        ),
        "retries": typer.Option(
            "--retries",
            metavar="N",
            rich_help_panel=FAILURES,
            help="How often a refused record is tried again; 3 by default.",
        ),
        "backoff": typer.Option(
            "--backoff",
            metavar="DURATION",
            rich_help_panel=FAILURES,
            help="Pause before the first retry, doubled for each; 500ms by default.",
        ),
        "handler_timeout": typer.Option(
            "--handler-timeout",
            metavar="DURATION",
            rich_help_panel=FAILURES,
            help="How long one call of a command or function may take; 60s by default.",
        ),
        "dead_letter_topic": typer.Option(
            "--dead-letter-topic",
            metavar="TOPIC",
            rich_help_panel=FAILURES,
            help="Where records go that are refused for good; without it such a record stops its partition.",
        ),
        "master": typer.Option(
            "--master", metavar="URL", rich_help_panel=SPARK, help="Spark's master; local[*], this machine, by default."
        ),
        "conf": typer.Option(
            "--conf", metavar="KEY=VALUE", rich_help_panel=SPARK, help="A setting of Spark's; may be repeated."
        ),
        "parallelism": typer.Option(
            "--parallelism",
            metavar="N",
            rich_help_panel=SPARK,
            help="Tasks at a time, where the master is local or spark://.",
        ),
        "spark_log": typer.Option("--spark-log", "-v", rich_help_panel=SPARK, help="Show Spark's log on stderr."),
        "report": typer.Option(
            "--report", metavar="FILE", rich_help_panel=SPARK, help="Write the proof to a new file too, as JSON."
        ),
    },
}
