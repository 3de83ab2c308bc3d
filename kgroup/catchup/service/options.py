"""The options of ``kgroup catchup`` as they are typed: the gap, safety, the ledger, the sink, speed, Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path

from kgroup.catchup.service.replay import DEAD_LETTERS, WHERE, ReplayOptions
from kgroup.catchup.sinks.spark import SELECT, parse_options
from kgroup.catchup.spark.settings import SparkSettings, check_master, parse_conf
from kgroup.changes.options import Change, Execution
from kgroup.groups.catchup.dead_letters import MAX_ATTEMPTS, TO_SOURCE, Letters
from kgroup.groups.catchup.gap_request import GapRequest, Missing, check_topic_name, parse_ranges, parse_rate
from kgroup.groups.catchup.model import Order
from kgroup.groups.catchup.second_group import DELETE_GROUP, SECOND_GROUP
from kgroup.groups.catchup.start_condition import Behind, StartCondition
from kgroup.groups.catchup.yielding import OFF, YIELD_TO
from kgroup.groups.reset_targets import ANY_TIME, parse_moment, parse_moment_or_ago, parse_topics
from kgroup.groups.selection import check_topics
from kgroup.settings.model import Setting
from kgroup.support.atomic_file import require_path
from kgroup.support.errors import ConfigError, UsageError
from kgroup.support.hint import Hint

_WORDS = {
    "timestamps": ("keep", "now"),
    "partitions": ("keep", "key"),
    "format": ("parquet", "json"),
    "ack": ("exit", "line"),
    "value-format": ("text", "json", "hex", "base64"),
}


@dataclass(frozen=True, slots=True)
class GapOptions:
    """Which part of the gap to catch up."""

    topic: list[str] | None = None
    range: list[str] | None = None
    skipped_by: str | None = None
    from_dead_letters: str | None = None
    missing: Missing | None = None
    skip_before: str | None = None
    until: str | None = None
    since: str | None = None
    error: list[str] | None = None
    key: list[str] | None = None
    max_attempts: int | None = None
    load: str | None = None

    def parse(self, group: str | None, now: datetime = ANY_TIME) -> GapRequest:
        """The same, parsed as of ``now``. Raises UsageError for invalid values and combinations."""
        if group is None and self.alone is None:
            raise UsageError(
                "a GROUP is required",
                hint="kgroup catchup start GROUP; only --range, --skipped-by and --from-dead-letters need no group",
            )
        if self.alone is not None:
            self._check_alone(group, self.alone)
        if self.from_dead_letters is not None:
            self.letters(now)
            return GapRequest()
        for option, given in (
            ("--since", self.since),
            ("--error", self.error),
            ("--key", self.key),
            ("--max-attempts", self.max_attempts),
            ("--load", self.load),
        ):
            if given is not None:
                raise UsageError(f"{option} requires --from-dead-letters")
        topics = parse_topics(self.topic) if self.topic else ()
        check_topics(choice.topic for choice in topics)
        return GapRequest(
            topics,
            parse_ranges(self.range or ()),
            self.missing,
            parse_moment(self.skip_before, now, "--skip-before") if self.skip_before is not None else None,
            parse_moment(self.until, now, "--until") if self.until is not None else None,
        )

    @property
    def alone(self) -> str | None:
        """The option that names the offsets, so that no group is moved; None: the group's commits do."""
        given = {"--range": self.range or None, "--skipped-by": self.skipped_by}
        given["--from-dead-letters"] = self.from_dead_letters
        return next((option for option, value in given.items() if value is not None), None)

    def letters(self, now: datetime = ANY_TIME) -> Letters:
        """Which dead letters to deliver. Raises UsageError for an invalid value."""
        check_topic_name("--from-dead-letters", self.from_dead_letters or "")
        if self.max_attempts is not None and self.max_attempts < 1:
            raise UsageError(f"--max-attempts must be at least 1, not {self.max_attempts}")
        topics = parse_topics(self.topic) if self.topic else ()
        check_topics(choice.topic for choice in topics)
        since, until = (
            None if text is None else parse_moment_or_ago(text, now, option)
            for option, text in (("--since", self.since), ("--until", self.until))
        )
        if since is not None and until is not None and since >= until:
            raise UsageError("--since is not before --until", hint="--since 2h --until 1h")
        return Letters(
            tuple((choice.topic, choice.partitions) for choice in topics),
            tuple(self.error or ()),
            tuple(self.key or ()),
            since,
            until,
            MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts,
        )

    def _check_alone(self, group: str | None, one: str) -> None:
        """Raise UsageError for options that named offsets exclude; --skipped-by may have GROUP, to choose one."""
        said: dict[str, object] = {"--missing": self.missing, "--skip-before": self.skip_before}
        if one != "--from-dead-letters":
            said["--until"] = self.until
        if one == "--range":
            said = {"GROUP": group, "--topic": self.topic, "--skipped-by": self.skipped_by, **said}
        if one != "--skipped-by":
            said = {"GROUP": group, **said}
        if one != "--from-dead-letters":
            said["--from-dead-letters"] = self.from_dead_letters
        why = {"--range": "its ranges are exact", "--skipped-by": "the journal has the ranges"}.get(
            one, "the topic has the records"
        )
        for option, given in said.items():
            if given is not None:
                raise UsageError(f"{one} and {option} are mutually exclusive: {why}, and no group is moved")


@dataclass(frozen=True, slots=True)
class SafetyOptions(Change):
    """Whether to execute, and under which conditions. The ledger keeps the old offsets: there is no backup."""

    if_behind: str | None = None
    if_empty: bool = False
    file_sink: str | None = None

    def condition(self, gap: GapOptions) -> StartCondition:
        """When there is something to do. Raises UsageError for an invalid bound, and if no group is moved."""
        one = gap.alone
        for option, given in (("--if-behind", self.if_behind), ("--if-empty", self.if_empty)):
            if one is not None and given:
                raise UsageError(f"{one} and {option} are mutually exclusive: no group is moved")
        return StartCondition(None if self.if_behind is None else Behind.parse(self.if_behind), self.if_empty)


@dataclass(frozen=True, slots=True)
class ExecuteOptions(Execution):
    """Whether to execute; the other options of an execution are not offered."""


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    """Which ledger."""

    ledger_topic: str | None = None


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where the records are delivered: the options ``--to-...``."""

    to_topic: str | None = None
    to_source: bool = False
    timestamps: str | None = None
    partitions: str | None = None
    to_files: str | None = None
    format: str | None = None
    to_command: str | None = None
    ack: str | None = None
    value_format: str | None = None
    to_python: str | None = None
    to_spark: str | None = None
    option: list[str] | None = None
    select: str | None = None
    where: str | None = None
    to_group: str | None = None
    delete_group: bool = False

    @property
    def sink(self) -> str | None:
        """The name of the sink, None if none is given. Raises UsageError if several are given."""
        given = {
            "topic": self.to_topic,
            TO_SOURCE: self.to_source or None,
            "files": self.to_files,
            "command": self.to_command,
            "python": self.to_python,
            "spark": self.to_spark,
            SECOND_GROUP: self.to_group,
        }
        said = [name for name, value in given.items() if value is not None]
        if len(said) > 1:
            raise UsageError(f"--to-{said[0]} and --to-{said[1]} are mutually exclusive")
        return said[0] if said else None

    def options(self) -> dict[str, str]:
        """The sink's settings in the form of the ledger. Raises UsageError for options of another sink."""
        sink, directory = self.sink, None
        if self.to_files is not None:
            hint = f"use a writer of Spark: --to-spark parquet --option path={self.to_files}"
            require_path("--to-files", self.to_files, hint)
            directory = str(Path(self.to_files).resolve())
        # For both sinks that write to topics; a hint names the first.
        copies = {"timestamps": self.timestamps, "partitions": self.partitions}
        own = {
            "topic": {"topic": self.to_topic, **({} if sink == TO_SOURCE else copies)},
            TO_SOURCE: copies if sink == TO_SOURCE else {},
            "files": {"dir": directory, "format": self.format},
            "command": {"command": self.to_command, "ack": self.ack, "value-format": self.value_format},
            "python": {"function": self.to_python},
            SECOND_GROUP: {"group": self.to_group, DELETE_GROUP: "yes" if self.delete_group else None},
        }
        for name, settings in own.items():
            for option, value in settings.items():
                if name != sink and value is not None:
                    raise UsageError(f"--{option} requires --to-{name}")
                words = _WORDS.get(option)
                if value is not None and words is not None and value not in words:
                    raise UsageError(f"--{option} {value}: choose one of {', '.join(words[:-1])} or {words[-1]}")
        if self.option and sink != "spark":
            raise UsageError("--option requires --to-spark", hint="use --conf for Spark's own settings")
        if self.select is not None and sink != "spark":
            raise UsageError("--select requires --to-spark: other destinations get whole records")
        chosen = {name: text for name, text in ((SELECT, self.select), (WHERE, self.where)) if text is not None}
        if self.to_spark is not None:
            return {"format": self.to_spark, **parse_options(self.option or ()), **chosen}
        if self.to_topic is not None:
            check_topic_name("--to-topic", self.to_topic)
        return chosen if sink is None else {**{k: text for k, text in own[sink].items() if text is not None}, **chosen}


@dataclass(frozen=True, slots=True)
class SpeedOptions:
    """The order, the parallelism, the speed, and the handling of refused records."""

    order: Order | None = None
    lanes: int | None = None
    rate: str | None = None
    yield_to: str | None = None
    retries: int | None = None
    backoff: str | None = None
    handler_timeout: str | None = None
    dead_letter_topic: str | None = None
    master: str | None = None
    conf: list[str] | None = None
    parallelism: int | None = None
    spark_log: bool = False
    report: Path | None = None

    def replay_options(self, to: SinkOptions, context: Sequence[Setting] = ()) -> ReplayOptions:
        """All options of a replay, parsed; ``context`` has what is not given.

        Raises UsageError for invalid values and combinations, ConfigError for an invalid value of the context.
        """
        sink, options = to.sink, to.options()
        if sink == SECOND_GROUP:
            self._check_second_group()
        if sink == "spark":
            for option, given in (("dead-letter-topic", self.dead_letter_topic), ("retries", self.retries)):
                if given is not None:
                    raise UsageError(
                        f"--{option} and --to-spark are mutually exclusive: Spark writes all records or none"
                    )
        if self.dead_letter_topic is not None:
            check_topic_name("--dead-letter-topic", self.dead_letter_topic)
            options[DEAD_LETTERS] = self.dead_letter_topic
        conf = dict(parse_conf(self.conf or ()))
        typed = {"master": self.master, "rate": self.rate, DEAD_LETTERS: self.dead_letter_topic, **conf}
        usual = {setting.key: _checked(setting) for setting in context if typed.get(setting.key) is None}
        conf = {**{key: one.value for key, one in usual.items() if key.startswith("spark.")}, **conf}
        master = self.master or (usual["master"].value if "master" in usual else "local[*]")
        try:
            settings = SparkSettings(master, tuple(conf.items()), self.parallelism)
        except UsageError as error:
            if "master" in usual:
                raise error.with_context(details=(f"master is from {usual['master'].source}.",)) from error
            raise
        said = {
            "rate": self.rate,
            YIELD_TO: self.yield_to,
            "lanes": self.lanes,
            "retries": self.retries,
            "backoff": self.backoff,
            "handler-timeout": self.handler_timeout,
        }
        tuning = {name: str(value).strip() for name, value in said.items() if value is not None}
        return ReplayOptions.tuned(
            tuning,
            sink=sink,
            sink_options=options,
            order=self.order,
            spark=settings,
            spark_log=self.spark_log,
            report=self.report,
            of_context=tuple(usual.values()),
        )

    def _check_second_group(self) -> None:
        """Raise UsageError for options of Spark; for others see ``ReplayOptions.check_lanes``."""
        for name in ("master", "conf", "parallelism", "spark_log"):
            if getattr(self, name):
                option = name.replace("_", "-")
                raise UsageError(f"--{option} and --to-group are mutually exclusive: Spark is not started")

    def check_released_only(self, to: SinkOptions) -> None:
        """Raise UsageError for replay options given with ``--release-only``, which would ignore them."""
        for said in (to, self):
            for field in fields(said):
                if getattr(said, field.name) not in (None, False):
                    option = field.name.replace("_", "-")
                    hint = Hint("set the destination later:  {}", ("catchup", "resume", "PLAN"))
                    raise UsageError(f"--release-only and --{option} are mutually exclusive", hint=hint)


def _checked(setting: Setting) -> Setting:
    """The setting of a context. Raises ConfigError, with its place, if the option of that name would not take it."""
    try:
        if setting.key == "master":
            check_master(setting.value)
        elif setting.key == DEAD_LETTERS:
            check_topic_name("--dead-letter-topic", setting.value)
        elif setting.key != "rate":
            parse_conf((f"{setting.key}={setting.value}",))
        elif setting.value != OFF:
            parse_rate(setting.value)
    except UsageError as error:
        raise ConfigError(f"{setting.source}: {error.message}", hint=error.hint) from error
    return setting
