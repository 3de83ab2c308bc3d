"""What is said about reading and writing with Spark, read: options of a notebook, of a writer, and a delivery's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest
from pyspark.errors import PySparkException

from kgroup.catchup.service.delivery import deal_again, delivered_elsewhere, delivery_of, delivery_words, require_known
from kgroup.catchup.service.options import SinkOptions, SpeedOptions
from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.sinks.spark import check, check_format, parse_options, resolved, secrets_of
from kgroup.catchup.spark import to_spark
from kgroup.catchup.spark.failures import explain
from kgroup.catchup.spark.notebook import ReadOptions, parse, split
from kgroup.catchup.spark.settings import SparkSettings
from kgroup.catchup.spark.source import SourceRange
from kgroup.catchup.spark.where import message_lines
from kgroup.catchup.worker.task_spec import Handling
from kgroup.groups.catchup.chunks import RateLimit
from kgroup.groups.catchup.dead_letters import REDRIVE
from kgroup.groups.catchup.elsewhere import BY, ELSEWHERE
from kgroup.groups.catchup.model import (
    Chunk,
    ChunkProgress,
    Delivery,
    Order,
    PlanSnapshot,
    PlanState,
    StateRecord,
    Task,
    ThrottleRecord,
)
from kgroup.model.records import OffsetRange
from kgroup.settings.model import Setting
from kgroup.support.errors import ConfigError, KgroupError, Refused, UsageError
from tests.helpers.catchup.plans import gap_range, make_plan


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"Range": "a:0=7-12", "failOnDataLoss": "FALSE"},
            {"ranges": (OffsetRange("a", 0, 7, 12),), "loses": True},
        ),
        ({"range": "a:0=7-12 a:1=1-2"}, {"ranges": (OffsetRange("a", 0, 7, 12), OffsetRange("a", 1, 1, 2))}),
        (
            {"plan": "cu-7f3a", "pending": "true", "ledgerTopic": "l"},
            {"plan": "cu-7f3a", "pending": True, "ledger": "l"},
        ),
        ({"plan": "cu-7f3a", "minPartitions": "8"}, {"plan": "cu-7f3a", "least_parts": 8}),
    ],
)
def test_options_of_a_notebook(options: dict[str, str], expected: dict[str, Any]) -> None:
    assert parse(options) == ReadOptions(**expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "exactly one of these options"),
        ({"range": "a:0=1-2", "plan": "cu-7f3a"}, "exactly one of these options"),
        ({"plan": "cu-7f3a", "kafka.sasl.password": "hunter2"}, "register"),
        ({"subscribe": "a"}, "unknown option subscribe"),
        ({"range": "a:0=7"}, "TOPIC:PARTITION=START-END"),
        ({"plan": "cu-7f3a", "minPartitions": "0"}, "must be at least 1"),
        ({"plan": "cu-7f3a", "failOnDataLoss": "yes"}, "not true or false"),
    ],
)
def test_options_that_mean_nothing(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        parse(options)

    assert "hunter2" not in raised.value.message


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (1, [(0, 0, 10), (1, 5, 6)]),
        (4, [(0, 0, 2), (0, 2, 5), (0, 5, 7), (0, 7, 10), (1, 5, 6)]),
    ],
)
def test_ranges_are_split(least: int, expected: list[tuple[int, int, int]]) -> None:
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 5, 6)]

    assert split(ranges, least) == tuple(SourceRange("t", *one) for one in expected)


def test_options_of_a_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    monkeypatch.setenv("USER_OF_IT", "me")
    words = [
        "url=jdbc:x://h/d",
        f"password=@{tmp_path}/secret",
        "user=$USER_OF_IT",
        "at=@@home",
        "sum=$$3",
        "a=1",
        "a=2",
    ]

    kept = parse_options(words)

    assert "hunter2" not in str(kept)
    assert resolved({"format": "jdbc", **kept}) == {
        "url": "jdbc:x://h/d",
        "password": "hunter2",
        "user": "me",
        "at": "@home",
        "sum": "$3",
        "a": "2",
    }
    assert secrets_of(kept) == ("hunter2", "me")
    monkeypatch.delenv("USER_OF_IT")
    with pytest.raises(Refused, match="USER_OF_IT is not set"):
        resolved(kept)


@pytest.mark.parametrize(
    "name", ["txnAppId", "TXNVERSION", "snapshot-property.kgroup-plan", "Snapshot-Property.kgroup-chunks"]
)
def test_an_option_that_kgroup_sets_itself_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=rf"^--option {name}: kgroup sets it"):
        check({"format": "delta", **parse_options(["path=/x", f"{name}=1"])})


@pytest.mark.parametrize(
    ("name", "conf", "variable", "near"),
    [
        ("parqet", {}, None, "parquet"),
        ("Parqet", {"spark.ui.enabled": "true"}, None, "parquet"),
        ("jsn", {}, None, "json"),
        ("PARQUET", {}, None, None),
        ("delta", {}, None, None),
        ("deltta", {}, None, None),
        ("org.acme.parqet", {}, None, None),
        ("parqet", {"spark.jars.packages": "a:b:1"}, None, None),
        ("parqet", {"spark.driver.extraClassPath": "/x.jar"}, None, None),
        ("parqet", {}, "SPARK_HOME", None),
    ],
)
def test_a_misspelled_format_of_sparks_own_is_refused_before_spark_starts(
    name: str, conf: dict[str, str], variable: str | None, near: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(one, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "/opt/spark")
    if near is None:
        check_format(name, conf)
        return
    with pytest.raises(UsageError, match=f"^--to-spark {name}: Spark has no format of this name") as raised:
        check_format(name, conf)
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(f"--to-spark {near}, or --conf spark.jars.packages=")


@pytest.mark.parametrize("secret", ["hunter2", "p@ss/w?rd"])
def test_a_job_that_failed_tells_no_secret_of_its_writer(tmp_path: Path, secret: str) -> None:
    file = tmp_path / "url"
    file.write_text(secret)
    failed = PySparkException(
        "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in "
        f"stage 3.0 (TID 9) (h executor driver): java.sql.SQLException: jdbc:x://h?password={secret} is refused"
    )

    with pytest.raises(KgroupError) as raised, to_spark._refusing({"format": "jdbc", "option.url": f"@{file}"}, (7,)):
        raise failed
    assert raised.value.code == "spark-job"
    assert "task 7 of the Spark job failed" in raised.value.message
    assert raised.value.details == ("h executor driver: jdbc:x://h?password=[hidden] is refused",)
    assert raised.value.__cause__ is None

    with pytest.raises(PySparkException), to_spark._refusing({"format": "jdbc"}, (7,)):
        raise failed


@pytest.mark.parametrize(
    "word",
    [
        "password=hunter2",
        "sfPassword=hunter2",
        "auth.token=hunter2",
        "url=jdbc:postgresql://me:hunter2@host/x",
        "url=jdbc:postgresql://host/x?user=me&password=hunter2",
    ],
)
def test_secrets_are_not_told(word: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_options([word])

    assert "hunter2" not in f"{raised.value.message}{raised.value.hint}"
    assert "@FILE" in str(raised.value.hint)


def test_what_spark_says_of_sql() -> None:
    text = "[X.Y] No such thing. SQLSTATE: 42703; line 1 pos 0;\n'Filter ('nope = 3)\n+- LogicalRDD [key#8]\n\tat a.b"
    assert message_lines(text) == ["[X.Y] No such thing"]
    assert message_lines("") == ["Spark rejects the condition"]

    plain = "[CAST_INVALID_INPUT] The value 'x' can't be cast. SQLSTATE: 22018\n== SQL ==\n"
    behind = (
        "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: Lost task 0.3 in "
        f"stage 0.0 (TID 3) (host executor driver): org.apache.spark.SparkNumberFormatException: {plain}\n\tat a.b"
    )
    for message in (plain, behind):
        error = explain(message, tasks=(0,))
        assert (error.code, error.details[0].startswith("[CAST_INVALID_INPUT] The value")) == ("sql", True)
    assert explain("[PYTHON_EXCEPTION] Traceback", tasks=(0,)).code == "spark-job"


def found(progress: dict[int, ChunkProgress], delivery: Delivery | None = None) -> PlanSnapshot:
    plan = make_plan(gap_range(0, 70, 120))
    known = delivery or Delivery("topic", Order.PARTITION, (), {"topic": "copy", "where": "true", "timestamps": "now"})
    return PlanSnapshot(plan, 0, StateRecord(PlanState.RELEASED, 0, "me", 1), None, known, progress)


UNTOUCHED = ChunkProgress(0, 70, 0, 0, 0, 0, 0, 1)
TOUCHED = ChunkProgress(0, 71, 1, 1, 0, 0, 0, 1)


@pytest.mark.parametrize(
    ("wanted", "sink", "options"),
    [
        (ReplayOptions(), "topic", {"topic": "copy", "where": "true", "timestamps": "now"}),
        (ReplayOptions("topic", {"topic": "copy"}), "topic", {"topic": "copy", "where": "true", "timestamps": "now"}),
        (ReplayOptions("topic", {"topic": "other"}), "topic", {"topic": "other", "where": "true"}),
        (ReplayOptions("python", {"function": "a:b"}), "python", {"function": "a:b", "where": "true"}),
        (
            ReplayOptions(sink_options={"where": "false"}),
            "topic",
            {"topic": "copy", "where": "false", "timestamps": "now"},
        ),
    ],
)
@pytest.mark.parametrize("progress", [{}, {0: UNTOUCHED}])
def test_a_delivery_may_be_another_while_nothing_is_delivered(
    wanted: ReplayOptions, sink: str, options: dict[str, str], progress: dict[int, ChunkProgress]
) -> None:
    made = delivery_of(found(progress), wanted)

    assert (made.sink, made.options, made.order) == (sink, options, Order.PARTITION)


@pytest.mark.parametrize(
    "wanted",
    [
        ReplayOptions("topic", {"topic": "other"}),
        ReplayOptions("python", {"function": "a:b"}),
        ReplayOptions(sink_options={"where": "false"}),
        ReplayOptions(order=Order.NONE),
    ],
)
@pytest.mark.parametrize("progress", [{0: TOUCHED}, {0: msgspec.structs.replace(UNTOUCHED, may_repeat=5)}])
def test_it_may_not_once_something_is(wanted: ReplayOptions, progress: dict[int, ChunkProgress]) -> None:
    with pytest.raises(Refused) as raised:
        delivery_of(found(progress), msgspec.structs.replace(wanted, tuning={"rate": "5/s"}))

    assert raised.value.code == "sink-set"
    assert str(raised.value.hint).endswith(":  kgroup catchup resume cu-7f3a --rate 5/s")


KEPT = {"rate": "5/s", "lanes": "4", "retries": "1", "handler-timeout": "9s"}
COMMAND = Delivery("command", Order.KEY, (), {"command": "cat"}, tuning=KEPT)


@pytest.mark.parametrize(
    ("wanted", "tuning"),
    [
        (ReplayOptions(), KEPT),
        (ReplayOptions.tuned({"rate": "off"}), {**KEPT, "rate": "off"}),
        (ReplayOptions.tuned({"retries": "7"}), {**KEPT, "retries": "7"}),
        (ReplayOptions(sink_options={"command": "tee"}), KEPT),
        (ReplayOptions(order=Order.NONE), KEPT),
        # What would be refused if it was typed beside the new sink, or the new order, goes.
        (ReplayOptions(order=Order.PARTITION), {name: text for name, text in KEPT.items() if name != "lanes"}),
        (ReplayOptions("topic", {"topic": "copy"}), {"rate": "5/s"}),
        (ReplayOptions("session", {}), {}),
        (
            ReplayOptions.tuned({"lanes": "2"}, sink="python", sink_options={"function": "a:b"}),
            {"rate": "5/s", "lanes": "2"},
        ),
    ],
)
def test_how_fast_and_how_often_is_kept_where_nothing_else_is_said(
    wanted: ReplayOptions, tuning: dict[str, str]
) -> None:
    made = delivery_of(found({}, COMMAND), wanted)

    assert made.tuning == tuning


def test_what_is_kept_of_it_is_what_the_tasks_get() -> None:
    said = ReplayOptions.tuned({"retries": "7", "backoff": "10ms"}).with_kept(COMMAND, None)

    assert said.rate == RateLimit(records_per_s=5)
    assert said.handling == Handling(lanes=4, retries=7, backoff_s=0.01, timeout_s=9.0)
    assert ReplayOptions.tuned({"rate": "off"}).with_kept(COMMAND, None).rate is None


@pytest.mark.parametrize(
    ("delivery", "words"),
    [
        (
            Delivery("topic", Order.PARTITION, (), {"topic": "copy", "partitions": "key", "where": "offset > 1"}),
            "--to-topic copy --partitions key --where offset > 1",
        ),
        (COMMAND, "--to-command cat --order key --rate 5/s --lanes 4 --retries 1 --handler-timeout 9s"),
        (
            Delivery("spark", Order.NONE, (), {"format": "jdbc", "option.url": "u", "select": "key", "where": "true"}),
            "--to-spark jdbc --order none --option url=u --select key --where true",
        ),
        (Delivery("session", Order.PARTITION, (), {}), ""),
        (
            Delivery("group", Order.PARTITION, (), {"group": "svc-gap", "delete-group": "yes"}),
            "--to-group svc-gap --delete-group",
        ),
    ],
)
def test_the_options_of_another_plan_with_the_same_delivery(delivery: Delivery, words: str) -> None:
    assert " ".join(delivery_words(delivery)) == words


@pytest.mark.parametrize(
    ("delivery", "unknown"),
    [
        (Delivery("topic", Order.NONE, (), {"topic": "copy", "latest-per-key": "true"}), "--latest-per-key"),
        (Delivery("python", Order.NONE, (), {"function": "a:b", "option.x": "1"}, {"pace": "2"}), "--option.x --pace"),
        (Delivery("queue", Order.NONE, (), {"queue": "q"}), "--to-queue"),
    ],
)
def test_a_plan_of_another_version_is_not_continued_without_a_part_of_it(delivery: Delivery, unknown: str) -> None:
    with pytest.raises(Refused, match=f"made with {unknown}, which") as raised:
        require_known(delivery, "cu-7f3a")

    assert raised.value.code == "unknown-delivery"


@pytest.mark.parametrize(
    ("to", "speed"),
    [
        (SinkOptions(to_topic="copy", timestamps="now", partitions="key"), SpeedOptions(dead_letter_topic="dead")),
        (SinkOptions(to_files="out", format="json", where="true"), SpeedOptions(rate="5/s")),
        (SinkOptions(to_group="svc-gap", delete_group=True), SpeedOptions()),
        (
            SinkOptions(to_command="cat", ack="line", value_format="hex"),
            SpeedOptions(lanes=2, order=Order.KEY, retries=1, backoff="1s", handler_timeout="9s"),
        ),
        (SinkOptions(to_python="a:b"), SpeedOptions()),
        (SinkOptions(to_spark="delta", option=["path=/x"], select="key"), SpeedOptions()),
    ],
)
def test_each_option_that_can_be_typed_is_known(to: SinkOptions, speed: SpeedOptions) -> None:
    options = speed.replay_options(to)

    require_known(delivery_of(msgspec.structs.replace(found({}), delivery=None), options), "cu-7f3a")


@pytest.mark.parametrize(
    ("order", "at_once", "done", "tasks"),
    [
        # The rest of chunk 1 alone, whoever had it before.
        (Order.NONE, 4, [0, 2, 3], [(1,)]),
        (Order.NONE, 2, [3], [(0, 2), (1,)]),
        (Order.NONE, 4, [], [(0,), (1,), (2,), (3,)]),
        # A partition stays in one task.
        (Order.PARTITION, 4, [0], [(2, 3), (1,)]),
        (Order.KEY, 1, [0, 1, 2], [(3,)]),
        # Nothing is left to deal out.
        (Order.NONE, 4, [0, 1, 2, 3], [(0, 1, 2, 3)]),
    ],
)
def test_a_resume_deals_out_what_is_left(
    order: Order, at_once: int, done: list[int], tasks: list[tuple[int, ...]]
) -> None:
    chunks = tuple(
        Chunk("orders", number // 2, 50 * (number % 2), 50 * (number % 2) + 50, number) for number in range(4)
    )
    plan = make_plan(gap_range(0, 0, 100), gap_range(1, 0, 100), chunks=chunks)
    before = Delivery("topic", order, (Task(0, (0, 1, 2, 3)),), {"topic": "copy"})
    progress = {number: ChunkProgress(number, chunks[number].end, 50, 0, 0, 0, 0, 1) for number in done}
    snapshot = msgspec.structs.replace(found(progress, before), plan=plan)

    dealt = deal_again(snapshot, before, ReplayOptions(spark=SparkSettings(f"local[{at_once}]")))

    assert [task.chunks for task in dealt.tasks] == tasks
    assert [task.number for task in dealt.tasks] == list(range(len(tasks)))
    assert msgspec.structs.replace(dealt, tasks=before.tasks) == before


@pytest.mark.parametrize(
    ("typed", "options", "guarantee"),
    [
        (SinkOptions(to_spark="delta", select="key"), {"format": "delta", "select": "key"}, "exactly once"),
        (SinkOptions(to_spark="Iceberg"), {"format": "Iceberg"}, "exactly once"),
        (SinkOptions(to_spark="jdbc"), {"format": "jdbc"}, "at least once (an interrupted write is repeated)"),
    ],
)
def test_what_a_writer_of_spark_guarantees(typed: SinkOptions, options: dict[str, str], guarantee: str) -> None:
    made = SpeedOptions().replay_options(typed)

    assert (made.sink_options, made.guarantee) == (options, guarantee)


def test_columns_are_for_a_writer_of_spark() -> None:
    with pytest.raises(UsageError, match="--select requires --to-spark"):
        SinkOptions(to_topic="copy", select="key").options()


OF_SESSION = Delivery("session", Order.PARTITION, (), {})


BY_JOB = ReplayOptions(ELSEWHERE, {BY: "job 123"}, Order.PARTITION)


def test_a_plan_that_a_job_has_delivered_keeps_only_that_it_is_of_dead_letters() -> None:
    """What kgroup does not deliver has no filter, no order and no tuning; only a later prune must know dead letters."""
    options = {"topic": "copy", "where": "true", "dead-letter-topic": "dead", REDRIVE: "{}"}
    before = Delivery("topic", Order.KEY, (Task(0, (0,)),), options, KEPT)

    made = delivery_of(found({}, before), BY_JOB)

    assert made == Delivery(ELSEWHERE, Order.PARTITION, (), {BY: "job 123", REDRIVE: "{}"})
    require_known(made, "cu-7f3a")
    assert deal_again(found({}, made), made, BY_JOB) == made
    assert not list(delivery_words(made))


@pytest.mark.parametrize(
    ("before", "progress", "code"),
    [
        (COMMAND, TOUCHED, "sink-set"),
        (Delivery("group", Order.PARTITION, (), {"group": "second"}), UNTOUCHED, "sink-set"),  # it may have begun
        (OF_SESSION, TOUCHED, "own-session"),
    ],
)
def test_a_job_has_not_delivered_what_another_destination_has_begun(
    before: Delivery, progress: ChunkProgress, code: str
) -> None:
    with pytest.raises(Refused) as raised:
        delivery_of(found({0: progress}, before), BY_JOB)

    assert raised.value.code == code


def test_a_plan_of_a_session_is_continued_there() -> None:
    with pytest.raises(Refused) as raised:
        delivery_of(found({}, OF_SESSION), ReplayOptions())
    assert (raised.value.code, "kgroup.spark.gap" in str(raised.value.hint)) == ("own-session", True)

    again = ReplayOptions("session", {}, chunks=7)
    assert delivery_of(found({0: TOUCHED}, OF_SESSION), again) == OF_SESSION
    assert delivery_of(found({}, OF_SESSION), ReplayOptions("topic", {"topic": "copy"})).sink == "topic"
    with pytest.raises(Refused, match="has begun to deliver"):
        delivery_of(found({0: TOUCHED}, OF_SESSION), ReplayOptions("topic", {"topic": "copy"}))


@pytest.mark.parametrize(
    ("sink", "options", "refused"),
    [
        (None, {}, None),
        ("topic", {"topic": "copy"}, None),
        ("topic", {"topic": "copy", "partitions": "key"}, None),
        ("topic", {"topic": "other"}, "nothing of it is left for topic other"),
        ("files", {"dir": "/data"}, "cu-7f3a is done: it was delivered to topic copy, .* for files /data"),
        ("session", {}, "nothing of it is left for session"),
    ],
)
def test_a_plan_that_is_done_is_not_delivered_elsewhere(
    sink: str | None, options: dict[str, str], refused: str | None
) -> None:
    done = found({}, Delivery("topic", Order.PARTITION, (), {"topic": "copy"}))

    error = delivered_elsewhere(done, sink, options)

    assert (error is None) == (refused is None)
    assert error is None or (error.code == "sink-set" and re.search(refused or "", error.message))


OF_CONTEXT = tuple(
    Setting(key, value, f"here:{line}")
    for line, (key, value) in enumerate(
        {
            "master": "yarn",
            "rate": "20/s",
            "dead-letter-topic": "dead",
            "spark.executor.cores": "2",
            "spark.x.password": "hunter2",
        }.items()
    )
)


def test_what_is_not_typed_is_from_the_context() -> None:
    made = SpeedOptions().replay_options(SinkOptions(to_topic="copy"), OF_CONTEXT).with_usual()

    assert (made.spark.master, dict(made.spark.conf)) == (
        "yarn",
        {"spark.executor.cores": "2", "spark.x.password": "hunter2"},
    )
    assert (made.rate, made.tuning) == (RateLimit(records_per_s=20), {"rate": "20/s"})
    assert made.sink_options == {"topic": "copy", "dead-letter-topic": "dead"}
    assert made.context_words() == (
        "--master yarn, from here:0",
        "--rate 20/s, from here:1",
        "--dead-letter-topic dead, from here:2",
        "--conf spark.executor.cores=2, from here:3",
        "--conf spark.x.password=[hidden], from here:4",
    )


def test_a_typed_option_that_does_not_fit_the_context_names_its_place() -> None:
    with pytest.raises(UsageError, match="mutually exclusive") as raised:
        SpeedOptions(parallelism=4).replay_options(SinkOptions(), OF_CONTEXT)

    assert raised.value.details == ("master is from here:0.",)
    with pytest.raises(UsageError, match="mutually exclusive") as raised:
        SpeedOptions(parallelism=4, master="yarn").replay_options(SinkOptions(), OF_CONTEXT)
    assert raised.value.details == ()


def test_what_is_typed_wins_over_the_context() -> None:
    typed = SpeedOptions(
        master="local[2]", rate="off", dead_letter_topic="other", conf=["spark.executor.cores=4", "spark.x.password=-"]
    )

    made = typed.replay_options(SinkOptions(to_topic="copy"), OF_CONTEXT).with_usual()

    assert (made.spark.master, made.rate, made.context_words()) == ("local[2]", None, ())
    assert dict(made.spark.conf) == {"spark.executor.cores": "4", "spark.x.password": "-"}
    assert made.sink_options == {"topic": "copy", "dead-letter-topic": "other"}


def test_a_plan_keeps_its_rate_and_its_dead_letters_whatever_the_context_says() -> None:
    options = SpeedOptions().replay_options(SinkOptions(), OF_CONTEXT)

    assert delivery_of(found({}, COMMAND), options) == COMMAND
    assert options.with_kept(COMMAND, None).rate == RateLimit(records_per_s=5)
    assert [text.split()[0] for text in options.context_words(COMMAND)] == ["--master", "--conf", "--conf"]
    elsewhere = SpeedOptions().replay_options(SinkOptions(to_topic="copy"), OF_CONTEXT)
    assert delivery_of(found({}, msgspec.structs.replace(COMMAND, tuning={})), elsewhere).tuning == {}


def test_of_the_context_a_plan_without_a_destination_gets_its_rate_when_it_has_one() -> None:
    options = SpeedOptions().replay_options(SinkOptions(to_topic="copy"), OF_CONTEXT)

    made = delivery_of(msgspec.structs.replace(found({}), delivery=None), options)

    assert (made.tuning, made.options) == ({"rate": "20/s"}, {"topic": "copy", "dead-letter-topic": "dead"})
    assert options.with_kept(made, None).rate == RateLimit(records_per_s=20)


def test_a_writer_of_spark_gets_no_dead_letters_of_the_context() -> None:
    made = SpeedOptions().replay_options(SinkOptions(to_spark="noop"), OF_CONTEXT).with_usual()

    assert made.sink_options == {"format": "noop"}
    assert not any("dead" in text for text in made.context_words())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("master", "sparc://x", "not a Spark master"),
        ("rate", "fast", "not a rate"),
        ("dead-letter-topic", "a b", "dead-letter-topic"),
        ("spark.speculation", "true", "would fence each other"),
    ],
)
def test_what_no_option_would_take_is_named_with_its_place(key: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^here:7: .*{said}"):
        SpeedOptions().replay_options(SinkOptions(), (Setting(key, value, "here:7"),))


def test_another_order_deals_the_chunks_anew() -> None:
    made = delivery_of(found({}), ReplayOptions(order=Order.NONE))

    assert (made.order, made.sink, made.options["topic"]) == (Order.NONE, "topic", "copy")
    assert {number for task in made.tasks for number in task.chunks} == {
        chunk.number for chunk in found({}).plan.chunks
    }


def test_what_the_ledger_cannot_keep_is_refused_before_anything_moves() -> None:
    """An argument whose bytes are not UTF-8, which Python gives as a lone surrogate."""
    with pytest.raises(UsageError, match=r"is not UTF-8, so the ledger cannot keep it"):
        delivery_of(found({}), ReplayOptions("files", {"dir": "/x\udcff"}))


def test_a_plan_for_a_second_group_keeps_no_option_of_a_replay() -> None:
    """A filter is kept, and then refused: dropped in silence, all records would be delivered."""
    to_group = ReplayOptions("group", {"group": "svc-gap"})
    before = Delivery("topic", Order.PARTITION, (), {"topic": "copy", "dead-letter-topic": "dead"}, {"rate": "5/s"})

    made = delivery_of(found({}, before), to_group)
    filtered = msgspec.structs.replace(before, options={"topic": "copy", "where": "true"})

    assert (made.options, made.tuning, made.tasks) == ({"group": "svc-gap"}, {}, ())
    to_group.with_kept(made, ThrottleRecord({"rate": "5/s"}, 0, "me@here")).check_lanes()
    with pytest.raises(UsageError, match="--where and --to-group are mutually exclusive"):
        to_group.with_kept(delivery_of(found({}, filtered), to_group), None).check_lanes()


def test_of_a_second_group_only_its_deletion_may_change_once_it_has_the_gap() -> None:
    delivery, handed = Delivery("group", Order.PARTITION, (), {"group": "svc-gap"}), {0: UNTOUCHED}

    again = delivery_of(found(handed, delivery), ReplayOptions("group", {"group": "svc-gap", "delete-group": "yes"}))

    assert again.options == {"group": "svc-gap", "delete-group": "yes"}
    for other in (ReplayOptions("group", {"group": "other"}), ReplayOptions("topic", {"topic": "copy"})):
        assert delivery_of(found({}, delivery), other).sink == other.sink
        with pytest.raises(Refused, match="cannot change"):
            delivery_of(found(handed, delivery), other)
    with pytest.raises(Refused, match="has begun to deliver"):
        delivery_of(found(handed, OF_SESSION), ReplayOptions("group", {"group": "svc-gap"}))
