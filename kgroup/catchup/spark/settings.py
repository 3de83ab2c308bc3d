"""The user's options for Spark (``--master``, ``--conf``, ``--parallelism``), and the configuration from them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from kgroup.support.errors import UsageError

ATTEMPTS = 4
"""How often Spark starts a task whose process died, including the first time."""

KILL_AFTER_S = 10
"""How long Spark lets a worker run after telling it to end: enough to commit the open transaction."""

_LOCAL = r"local(?:\[(\*|\d+)(?:,\s*(\d+))?\])?"
_REMOTE = ("spark://", "k8s://", "yarn")
_OWN_SIZE = ("k8s://", "yarn")
_LONGEST_GROUP = 100
_USUAL_EXECUTORS = 2  # of yarn and k8s, if nothing names a number
_OURS = {
    "spark.master": "use --master",
    "spark.submit.deployMode": "kgroup is the driver",
    "spark.remote": "Spark Connect is not supported: it cannot run kgroup's tasks",
}
LOOPBACK = "127.0.0.1"
_FOR_SQL = {
    # Timestamps in a condition mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # Limits memory, together with the number of parallel tasks.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
    # A query plan in an event log shows the options of a sink.
    "spark.sql.redaction.options.regex": "(?i)url|secret|pass|pwd|token|private.?key|access.?key|credential|user.?info",
}


class SparkSettings(msgspec.Struct, frozen=True):
    """The user's settings for Spark; ``conf`` is the user's and overrides ours.

    ``parallelism`` limits the tasks that run at once, None: as many as the master has room for. ``heavy`` is for rows
    that pass through the JVM (Spark SQL): Java's compiler is then not limited.
    """

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = ()
    parallelism: int | None = None
    app: str = "kgroup catchup"
    heavy: bool = False

    def __post_init__(self) -> None:
        check_master(self.master)
        if self.parallelism is not None and self.parallelism < 1:
            raise UsageError(f"--parallelism must be at least 1, not {self.parallelism}")
        if self.parallelism is not None and self.master.startswith(_OWN_SIZE):
            raise UsageError(
                f"--parallelism and --master {self.master} are mutually exclusive: its executors decide",
                hint="use --conf spark.executor.instances=N --conf spark.executor.cores=1",
            )

    @property
    def is_local(self) -> bool:
        """Whether the workers are children of the driver."""
        return re.fullmatch(_LOCAL, self.master) is not None

    @property
    def has_our_python(self) -> bool:
        """Whether the workers run kgroup's own Python, so that they have all packages."""
        return self.is_local and "spark.pyspark.python" not in dict(self.conf)


def app_name(what: str, group: str | None) -> str:
    """The name in a cluster's list of applications: ``kgroup cu-7f3a orders-svc``; of a long group its first part."""
    words = ("kgroup", what) if group is None else ("kgroup", what, group[:_LONGEST_GROUP])
    return "".join(char if char.isprintable() else "?" for char in " ".join(words))


def check_master(master: str) -> None:
    """Raise UsageError for a master that Spark does not know, or that cannot run kgroup's tasks."""
    if master.startswith("sc://"):
        raise UsageError(f"--master {master}: {_OURS['spark.remote']}", hint="name a cluster: spark://, k8s:// or yarn")
    local = re.fullmatch(_LOCAL, master)
    if local and ((local[1] or "1").strip("0") == "" or (local[2] or "1").strip("0") == ""):
        raise UsageError(f"--master {master}: N and F of local[N,F] must be at least 1")
    if not local and not master.startswith(_REMOTE):
        raise UsageError(
            f"--master {master}: not a Spark master that kgroup can use",
            hint="choose one of: local[*], spark://HOST:7077, k8s://https://HOST, yarn",
        )


def parse_conf(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parse ``spark.some.key=value`` words of ``--conf``; the last value of a key wins. Raises UsageError."""
    conf: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key.startswith("spark."):
            raise UsageError(f"--conf {key}: must be spark.KEY=VALUE")
        if key in _OURS:
            raise UsageError(f"--conf {key}: {_OURS[key]}")
        if key == "spark.speculation" and value.strip().lower() == "true":
            raise UsageError(f"--conf {word} is not supported: copies of a task would fence each other")
        if key == "spark.sql.session.timeZone" and value.strip() != "UTC":
            raise UsageError(
                f"--conf {word}: the time zone must be UTC, so that a resumed plan filters the same records",
                hint="use from_utc_timestamp(timestamp, 'Europe/Berlin') in --where, or --option timeZone=...",
            )
        conf[key] = value
    return tuple(conf.items())


def configuration(settings: SparkSettings, jvm_options: Iterable[str] = ()) -> dict[str, str]:
    """Spark's whole configuration. It has nothing of Kafka's, since Spark's UI and event log show it.

    ``jvm_options`` are ours for the driver's JVM; they are added to the user's.
    """
    said = dict(settings.conf)
    ours = {
        "spark.app.name": settings.app,
        "spark.ui.showConsoleProgress": "false",
        # Otherwise Spark shows a task as running only when some other event happens.
        "spark.ui.liveUpdate.period": "0",
        "spark.task.maxFailures": str(ATTEMPTS),
        "spark.python.task.killTimeout": f"{KILL_AFTER_S}s",
        # A task's settings are in the function that Spark sends. Above this size, Spark would write it to a file.
        "spark.broadcast.UDFCompressionThreshold": "1g",
    }
    if settings.heavy:
        ours |= _FOR_SQL
    if settings.is_local:
        # Of a cluster it is on, as Spark has it or spark-defaults.conf says.
        ours |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK, "spark.ui.enabled": "false"}
        if settings.has_our_python:  # another Python may not have kgroup, and says so in its task
            ours["spark.python.daemon.module"] = "kgroup.catchup.spark.daemon"
    elif settings.parallelism is not None and settings.master.startswith("spark://"):
        ours["spark.cores.max"] = str(settings.parallelism)
    # Spark's launcher splits the options as a shell does.
    quoted = [f'"{option}"' if " " in option else option for option in jvm_options]
    options = " ".join([*quoted, said.pop("spark.driver.extraJavaOptions", "")]).strip()
    if options:
        ours["spark.driver.extraJavaOptions"] = options
    return ours | said | {"spark.master": _master(settings), "spark.speculation": "false"}


def slots(settings: SparkSettings, cores: int) -> int | None:
    """The largest number of tasks that run at once, None if kgroup does not limit it; a local master has ``cores``."""
    match = re.fullmatch(_LOCAL, _master(settings))
    if not match:
        said = "spark.cores.max" in dict(settings.conf)
        return settings.parallelism if settings.master.startswith("spark://") and not said else None
    return cores if match[1] == "*" else int(match[1])


def named_slots(settings: SparkSettings) -> int | None:
    """How many tasks run at once on the executors that ``conf`` names, for the number of tasks of a plan; else None.

    Only an estimate: the cluster may not have room for all of them. 200 executors of 4 cores: 800.
    """
    conf = _numbers(dict(settings.conf))
    executors = conf.get("spark.executor.instances") or conf.get("spark.dynamicAllocation.maxExecutors")
    return _tasks_at_once(settings, conf, executors)


def most_slots(settings: SparkSettings, conf: Mapping[str, str]) -> int | None:
    """The most tasks that a cluster runs at once, by Spark's whole configuration, which also has its defaults file.

    None: no number limits them.
    """
    numbers = _numbers(conf)
    if conf.get("spark.dynamicAllocation.enabled", "").strip().lower() == "true":
        executors = numbers.get("spark.dynamicAllocation.maxExecutors")
    else:
        executors = numbers.get("spark.executor.instances", _USUAL_EXECUTORS)
    return _tasks_at_once(settings, numbers, executors)


def _numbers(conf: Mapping[str, str]) -> dict[str, int]:
    return {key: int(text) for key, text in conf.items() if re.fullmatch("[1-9][0-9]{0,8}", text)}


def _tasks_at_once(settings: SparkSettings, conf: Mapping[str, int], executors: int | None) -> int | None:
    cores = conf.get("spark.cores.max")
    if settings.master.startswith(_OWN_SIZE):
        cores = None if executors is None else executors * conf.get("spark.executor.cores", 1)
    return None if cores is None else max(1, cores // conf.get("spark.task.cpus", 1))


def _master(settings: SparkSettings) -> str:
    """Local masters ignore spark.task.maxFailures: the number of attempts must be part of the master's name."""
    match = re.fullmatch(_LOCAL, settings.master)
    if not match:
        return settings.master
    threads = str(settings.parallelism) if settings.parallelism is not None else match[1] or "1"
    return f"local[{threads},{match[2] or ATTEMPTS}]"


def addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Addresses of a master; empty for a local one and for one without an address (yarn). Raises UsageError."""
    if master.startswith("spark://"):
        return tuple(_address(master, part, None) for part in master.removeprefix("spark://").split(","))
    if master.startswith("k8s://"):
        rest = master.removeprefix("k8s://")
        default = 80 if rest.startswith("http://") else 443
        return (_address(master, re.sub(r"^https?://", "", rest).split("/")[0], default),)
    return ()


def _address(master: str, text: str, default_port: int | None) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?", text)
    port = int(match[2]) if match and match[2] else default_port
    if not match or port is None or not 0 < port < 65_536:
        raise UsageError(f"--master {master}: {text or 'an empty part'} is not HOST:PORT")
    return match[1].strip("[]"), port
