"""The options of a replay: where records go, in which order, how fast, what becomes of refused ones, Spark."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from kgroup.catchup.choice import check_topic_name
from kgroup.catchup.model import Order
from kgroup.catchup.replaying import DEAD_LETTERS, Wanted
from kgroup.catchup.replaying import WHERE as ROWS_WANTED
from kgroup.catchup.sinks.spark import parse_options
from kgroup.catchup.spark.settings import SparkSettings, parse_conf
from kgroup.errors import UsageError

WHERE = "Where to"
SPEED = "Order and speed"
FAILURES = "Failures"
SPARK = "Spark"

_WORDS = {
    "timestamps": ("keep", "now"),
    "partitions": ("keep", "key"),
    "format": ("parquet", "json"),
    "ack": ("exit", "line"),
    "value-format": ("base64", "text", "json"),
}


@dataclass(frozen=True, slots=True)
class To:
    """Where the records go."""

    to_topic: Annotated[
        str | None,
        typer.Option(
            "--to-topic", metavar="TOPIC", rich_help_panel=WHERE, help="Into a topic that exists, exactly once."
        ),
    ] = None
    timestamps: Annotated[
        str | None,
        typer.Option(
            "--timestamps",
            metavar="keep|now",
            rich_help_panel=WHERE,
            help="Timestamps of the copies; keep by default.",
        ),
    ] = None
    partitions: Annotated[
        str | None,
        typer.Option(
            "--partitions",
            metavar="keep|key",
            rich_help_panel=WHERE,
            help="Partitions of the copies; keep by default where that topic has as many.",
        ),
    ] = None
    to_files: Annotated[
        str | None,
        typer.Option(
            "--to-files", metavar="DIR", rich_help_panel=WHERE, help="Into a directory, a file a chunk, each once."
        ),
    ] = None
    format: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="parquet|json", rich_help_panel=WHERE, help="What the files are; parquet by default."
        ),
    ] = None
    to_command: Annotated[
        str | None,
        typer.Option(
            "--to-command",
            metavar="CMD",
            rich_help_panel=WHERE,
            help="To a shell command, a line of JSON a record; secrets as $NAME.",
        ),
    ] = None
    ack: Annotated[
        str | None,
        typer.Option(
            "--ack",
            metavar="exit|line",
            rich_help_panel=WHERE,
            help="exit (default): a process a batch, 0: it has read all; line: it answers each: ok, or error: WHY.",
        ),
    ] = None
    value_format: Annotated[
        str | None,
        typer.Option(
            "--value-format",
            metavar="base64|text|json",
            rich_help_panel=WHERE,
            help="How keys and values stand in that JSON; base64 by default.",
        ),
    ] = None
    to_python: Annotated[
        str | None,
        typer.Option(
            "--to-python",
            metavar="MODULE:FUNCTION",
            rich_help_panel=WHERE,
            help="To a function, a list of records a call; an exception refuses them.",
        ),
    ] = None
    to_spark: Annotated[
        str | None,
        typer.Option(
            "--to-spark",
            metavar="FORMAT",
            rich_help_panel=WHERE,
            help="One append by any of Spark's writers (delta, jdbc); broken off, all of it comes again.",
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            rich_help_panel=WHERE,
            help="A setting of that writer; may be repeated. Secrets: KEY=@FILE, or 'KEY=$VARIABLE'.",
        ),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            rich_help_panel=WHERE,
            help="Only records of which this is true, in Spark's SQL: \"cast(key as string) like 'eu-%'\".",
        ),
    ] = None

    latest_per_key: Annotated[
        bool,
        typer.Option(
            "--latest-per-key",
            rich_help_panel=WHERE,
            help="Of each key only the newest record that --where lets through; of those without a key, all.",
        ),
    ] = False

    @property
    def sink(self) -> str | None:
        """Which one was named. Raises UsageError for several."""
        given = {
            "topic": self.to_topic,
            "files": self.to_files,
            "command": self.to_command,
            "python": self.to_python,
            "spark": self.to_spark,
        }
        said = [name for name, value in given.items() if value is not None]
        if len(said) > 1:
            raise UsageError(f"--to-{said[0]} and --to-{said[1]}: one of them")
        return said[0] if said else None

    def options(self) -> dict[str, str]:
        """The sink's settings, as the ledger keeps them. Raises UsageError for those of another sink."""
        sink, directory = self.sink, None if self.to_files is None else str(Path(self.to_files).resolve())
        own = {
            "topic": {"topic": self.to_topic, "timestamps": self.timestamps, "partitions": self.partitions},
            "files": {"dir": directory, "format": self.format},
            "command": {"command": self.to_command, "ack": self.ack, "value-format": self.value_format},
            "python": {"function": self.to_python},
        }
        for name, settings in own.items():
            for option, value in settings.items():
                if name != sink and value is not None:
                    raise UsageError(f"--{option} is for --to-{name}")
                words = _WORDS.get(option)
                if value is not None and words is not None and value not in words:
                    raise UsageError(f"--{option} {value}: {', '.join(words[:-1])} or {words[-1]}")
        if self.option and sink != "spark":
            raise UsageError("--option is for --to-spark", hint="Spark's own settings are said with --conf")
        found = {} if self.where is None else {ROWS_WANTED: self.where}
        if self.to_spark is not None:
            return {"format": self.to_spark, **parse_options(self.option or ()), **found}
        if self.to_topic is not None:
            check_topic_name("--to-topic", self.to_topic)
        return found if sink is None else {**{k: text for k, text in own[sink].items() if text is not None}, **found}


@dataclass(frozen=True, slots=True)
class Speed:
    """In which order, how many at a time, how fast, and what becomes of what is refused."""

    order: Annotated[
        Order | None,
        typer.Option(
            "--order",
            metavar="partition|key|none",
            rich_help_panel=SPEED,
            help="What is kept in order within the gap; partition by default.",
        ),
    ] = None
    lanes: Annotated[
        int | None,
        typer.Option(
            "--lanes",
            metavar="N",
            rich_help_panel=SPEED,
            help="Calls of a command or function at a time in each task; 1 by default.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            metavar="500/s|20MiB/s|none",
            rich_help_panel=SPEED,
            help="At most so much, over all tasks; none: no limit, where the plan keeps one.",
        ),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option(
            "--retries",
            metavar="N",
            rich_help_panel=FAILURES,
            help="How often a refused record is tried again; 3 by default.",
        ),
    ] = None
    backoff: Annotated[
        str | None,
        typer.Option(
            "--backoff",
            metavar="DURATION",
            rich_help_panel=FAILURES,
            help="Pause before the first retry, doubled for each; 500ms by default.",
        ),
    ] = None
    handler_timeout: Annotated[
        str | None,
        typer.Option(
            "--handler-timeout",
            metavar="DURATION",
            rich_help_panel=FAILURES,
            help="How long one call of a command or function may take; 60s by default.",
        ),
    ] = None
    dead_letter_topic: Annotated[
        str | None,
        typer.Option(
            "--dead-letter-topic",
            metavar="TOPIC",
            rich_help_panel=FAILURES,
            help="Where records go that are refused for good; without it such a record stops its partition.",
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            "--master", metavar="URL", rich_help_panel=SPARK, help="Spark's master; local[*], this machine, by default."
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf", metavar="KEY=VALUE", rich_help_panel=SPARK, help="A setting of Spark's; may be repeated."
        ),
    ] = None
    parallelism: Annotated[
        int | None,
        typer.Option(
            "--parallelism",
            metavar="N",
            rich_help_panel=SPARK,
            help="Tasks at a time, where the master is local or spark://.",
        ),
    ] = None
    spark_log: Annotated[
        bool, typer.Option("--spark-log", "-v", rich_help_panel=SPARK, help="Show Spark's log on stderr.")
    ] = False
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", rich_help_panel=SPARK, help="Write the proof to a new file too, as JSON."
        ),
    ] = None

    def wanted(self, to: To) -> Wanted:
        """All of it, read. Raises UsageError for what has no meaning."""
        sink, options = to.sink, to.options()
        if to.latest_per_key and self.order is not None:
            raise UsageError(f"--latest-per-key with --order {self.order}: each key comes once, in no order")
        if sink == "spark":
            if to.latest_per_key:
                raise UsageError("--latest-per-key is not for --to-spark", hint="--to-files DIR, and Spark reads those")
            for option, given in (("dead-letter-topic", self.dead_letter_topic), ("retries", self.retries)):
                if given is not None:
                    raise UsageError(f"--{option} is not for --to-spark: Spark writes all of it or nothing")
        if self.dead_letter_topic is not None:
            check_topic_name("--dead-letter-topic", self.dead_letter_topic)
            options[DEAD_LETTERS] = self.dead_letter_topic
        settings = SparkSettings(self.master or "local[*]", parse_conf(self.conf or ()), self.parallelism)
        said = {
            "rate": self.rate,
            "lanes": self.lanes,
            "retries": self.retries,
            "backoff": self.backoff,
            "handler-timeout": self.handler_timeout,
        }
        tuning = {name: str(value).strip() for name, value in said.items() if value is not None}
        return Wanted.tuned(
            tuning, sink=sink, options=options, order=self.order, spark=settings, latest=to.latest_per_key
        )

    def check_released_only(self, to: To) -> None:
        """Refuse beside ``--release-only`` what says how a gap is replayed: it would be ignored."""
        for said in (to, self):
            for field in fields(said):
                if getattr(said, field.name) not in (None, False):
                    option = field.name.replace("_", "-")
                    hint = "where to, and how, is said later: kgroup catchup resume"
                    raise UsageError(f"--release-only and --{option}: one of them", hint=hint)
