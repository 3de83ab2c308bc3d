"""--master, --conf and --parallelism, and the configuration they come to."""

from __future__ import annotations

import pytest

from kgroup.catchup.service.replay import ReplayOptions
from kgroup.catchup.spark.settings import SparkSettings, addresses, app_name, configuration, parse_conf, slots
from kgroup.groups.catchup.model import Task
from kgroup.support.errors import UsageError

EXECUTORS = ("spark.executor.instances", "200")
FOUR_CORES = ("spark.executor.cores", "4")
DYNAMIC = ("spark.dynamicAllocation.enabled", "true")


@pytest.mark.parametrize(
    ("master", "parallelism", "expected"),
    [
        ("local[*]", None, "local[*,4]"),
        ("local", None, "local[1,4]"),
        ("local[3]", None, "local[3,4]"),
        ("local[3,1]", None, "local[3,1]"),
        ("local[*]", 8, "local[8,4]"),
        ("local[3,2]", 8, "local[8,2]"),
        ("spark://a:7077,b:7078", 8, "spark://a:7077,b:7078"),
        ("yarn", None, "yarn"),
    ],
)
def test_a_local_master_lets_a_task_die_three_times(master: str, parallelism: int | None, expected: str) -> None:
    assert configuration(SparkSettings(master, parallelism=parallelism))["spark.master"] == expected


@pytest.mark.parametrize(
    "master", ["", "loca", "local[x]", "local[2", "spark:/a", "http://a", "sc://a:15002", "local-cluster[2,1,9]"]
)
def test_masters_that_there_are_not(master: str) -> None:
    with pytest.raises(UsageError, match="--master"):
        SparkSettings(master)


def test_parallelism_of_a_cluster_is_its_number_of_cores() -> None:
    assert configuration(SparkSettings("spark://a:7077", parallelism=3))["spark.cores.max"] == "3"
    assert "spark.cores.max" not in configuration(SparkSettings("spark://a:7077"))
    with pytest.raises(UsageError, match="--parallelism must be at least 1"):
        SparkSettings(parallelism=0)


@pytest.mark.parametrize("master", ["yarn", "k8s://https://a"])
def test_parallelism_is_refused_where_nothing_would_come_of_it(master: str) -> None:
    with pytest.raises(UsageError, match="--parallelism and --master"):
        SparkSettings(master, parallelism=3)


@pytest.mark.parametrize(
    ("spark", "said", "tasks", "at_once"),
    [
        (SparkSettings("local[4]"), (), 100, 4),
        (SparkSettings("local[4]"), (), 2, 2),
        (SparkSettings("spark://a:1", parallelism=10), (), 100, 10),
        (SparkSettings("spark://a:1"), (), 100, 100),
        (SparkSettings("spark://a:1"), (("spark.cores.max", "4"),), 100, 4),
        (SparkSettings("yarn"), (), 50, 2),
        (SparkSettings("yarn"), (EXECUTORS, FOUR_CORES), 1600, 800),
        (SparkSettings("yarn"), (EXECUTORS, FOUR_CORES), 20, 20),
        (SparkSettings("yarn"), (DYNAMIC, EXECUTORS), 50, 50),
        (SparkSettings("k8s://a"), (DYNAMIC, EXECUTORS, ("spark.dynamicAllocation.maxExecutors", "5")), 50, 5),
        (SparkSettings("yarn"), (("spark.executor.instances", "many"),), 50, 2),
    ],
)
def test_how_many_tasks_may_run_at_a_time(
    spark: SparkSettings, said: tuple[tuple[str, str], ...], tasks: int, at_once: int
) -> None:
    """Yarn and k8s start two executors where no number is named; dynamic allocation any number without a limit."""
    options = ReplayOptions(spark=spark)
    assert options.most_at_once("topic", [Task(number, (number,)) for number in range(tasks)], dict(said)) == at_once
    assert options.most_at_once("spark", [Task(0, tuple(range(tasks))), Task(1, (tasks,))], dict(said)) == at_once


@pytest.mark.parametrize(
    ("spark", "rate", "expected"),
    [
        (SparkSettings("spark://a:1"), "500/s", True),
        (SparkSettings("spark://a:1"), None, False),
        (SparkSettings("spark://a:1", parallelism=4), "500/s", False),
        (SparkSettings("spark://a:1", (("spark.cores.max", "4"),)), "500/s", False),
        (SparkSettings("spark://a:1", (("spark.executor.instances", "4"),)), "500/s", True),
        (SparkSettings("yarn"), "500/s", False),
        (SparkSettings("yarn", (DYNAMIC,)), "500/s", True),
        (SparkSettings("yarn", (DYNAMIC, ("spark.dynamicAllocation.maxExecutors", "5"))), "500/s", False),
        (SparkSettings("local[4]"), "500/s", False),
    ],
)
def test_a_rate_is_divided_by_the_tasks_where_nothing_limits_how_many_run(
    spark: SparkSettings, rate: str | None, expected: bool
) -> None:
    tuning = {} if rate is None else {"rate": rate}
    assert ReplayOptions.tuned(tuning, spark=spark).is_rate_by_tasks == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SparkSettings(), 6),
        (SparkSettings("local[2]"), 2),
        (SparkSettings(parallelism=9), 9),
        (SparkSettings("spark://a:1"), None),
        (SparkSettings("spark://a:1", parallelism=9), 9),
        (SparkSettings("spark://a:1", (("spark.cores.max", "40"),), 9), None),
        (SparkSettings("yarn"), None),
    ],
)
def test_slots(settings: SparkSettings, expected: int | None) -> None:
    assert slots(settings, cores=6) == expected


@pytest.mark.parametrize(
    ("master", "conf", "expected"),
    [
        ("spark://a:1", (), 8),
        ("spark://a:1", (("spark.cores.max", "40"),), 40),
        ("spark://a:1", (EXECUTORS,), 8),
        ("yarn", (), 8),
        ("yarn", (EXECUTORS,), 200),
        ("yarn", (EXECUTORS, FOUR_CORES), 800),
        ("yarn", (EXECUTORS, FOUR_CORES, ("spark.task.cpus", "2")), 400),
        ("k8s://a", (("spark.dynamicAllocation.maxExecutors", "50"), FOUR_CORES), 200),
        ("yarn", (("spark.executor.instances", "many"),), 8),
        ("yarn", (("spark.executor.instances", "1"), ("spark.task.cpus", "4")), 1),
        ("local[2]", (EXECUTORS, FOUR_CORES), 2),
    ],
)
def test_a_plan_has_tasks_for_the_executors_that_are_named(
    master: str, conf: tuple[tuple[str, str], ...], expected: int
) -> None:
    assert ReplayOptions(spark=SparkSettings(master, conf)).at_once == expected


def test_what_the_user_says_goes_before_ours_but_for_speculation() -> None:
    conf = (("spark.ui.enabled", "true"), ("spark.task.maxFailures", "9"), ("spark.speculation", "false"))

    found = configuration(SparkSettings(conf=conf))

    assert (found["spark.ui.enabled"], found["spark.task.maxFailures"]) == ("true", "9")
    assert found["spark.speculation"] == "false"
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert not {"spark.driver.host", "spark.ui.enabled"} & configuration(SparkSettings("spark://a:1")).keys()
    assert configuration(SparkSettings())["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    ("what", "group", "name"),
    [
        ("cu-7f3a", "orders-svc", "kgroup cu-7f3a orders-svc"),
        ("cu-7f3a", None, "kgroup cu-7f3a"),
        ("cu-7f3a", "a\nb\udc80", "kgroup cu-7f3a a?b?"),
        ("cu-7f3a", "g" * 249, f"kgroup cu-7f3a {'g' * 100}"),
    ],
)
def test_an_application_has_the_name_of_its_plan_and_group(what: str, group: str | None, name: str) -> None:
    assert app_name(what, group) == name


def test_a_python_that_the_user_names_runs_pysparks_own_daemon() -> None:
    name = "spark.python.daemon.module"

    assert configuration(SparkSettings())[name] == "kgroup.catchup.spark.daemon"
    assert name not in configuration(SparkSettings(conf=(("spark.pyspark.python", "/usr/bin/python3"),)))
    assert name not in configuration(SparkSettings("spark://here:7077"))


def test_options_of_java_are_added_to_the_users() -> None:
    settings = SparkSettings(conf=(("spark.driver.extraJavaOptions", "-Dx=y"),))

    assert configuration(settings, ("-XX:+UseSerialGC",))["spark.driver.extraJavaOptions"] == "-XX:+UseSerialGC -Dx=y"
    assert "spark.driver.extraJavaOptions" not in configuration(SparkSettings())


def test_conf_words() -> None:
    assert parse_conf(["spark.a=1", "spark.b=x=y", "spark.a=2"]) == (("spark.a", "2"), ("spark.b", "x=y"))
    assert parse_conf([]) == ()


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("spark.a", "KEY=VALUE"),
        ("a=b", "KEY=VALUE"),
        ("spark.master=local", "--master"),
        ("spark.speculation=true", "fence each other"),
        ("spark.sql.session.timeZone=Europe/Berlin", "UTC"),
        ("spark.submit.deployMode=cluster", "driver"),
        ("spark.remote=sc://a", "Connect"),
    ],
)
def test_conf_that_is_refused(word: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_conf([word])


def test_a_secret_in_the_users_word_is_not_repeated_where_it_is_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        parse_conf(["sasl.password=hunter2"])

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[*]", ()),
        ("yarn", ()),
        ("spark://a:7077", (("a", 7077),)),
        ("spark://a:1,b:2", (("a", 1), ("b", 2))),
        ("spark://[::1]:7077", (("::1", 7077),)),
        ("k8s://https://api.example:6443", (("api.example", 6443),)),
        ("k8s://https://api.example", (("api.example", 443),)),
        ("k8s://http://api.example/x", (("api.example", 80),)),
        ("k8s://api.example:8443", (("api.example", 8443),)),
    ],
)
def test_addresses(master: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert addresses(master) == expected


@pytest.mark.parametrize(
    "master", ["spark://a", "spark://", "spark://a:0", "spark://a:70000", "spark://a:1,", "spark://a b:1"]
)
def test_addresses_that_are_none(master: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        addresses(master)
