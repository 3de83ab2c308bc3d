"""What the user says about Spark (``--master``, ``--conf``, ``--parallelism``), and what it comes to. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kgroup.support.errors import UsageError

ATTEMPTS = 4
"""How often Spark starts a task whose process died, the first time included."""

KILL_AFTER_S = 10
"""How long Spark lets a worker go on that it has told to end; that is enough to commit what is open."""

_LOCAL = r"local(?:\[(\*|\d+)(?:,\s*(\d+))?\])?"
_REMOTE = ("spark://", "k8s://", "yarn", "local-cluster[")
_OWN_SIZE = ("k8s://", "yarn")
_OURS = {
    "spark.master": "say --master",
    "spark.submit.deployMode": "kgroup is the driver itself",
    "spark.remote": "Spark Connect has no tasks of the kind that kgroup runs",
}
LOOPBACK = "127.0.0.1"
_FOR_SQL = {
    # Times in a condition mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    # What bounds memory, together with how many tasks run at a time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
    # A plan in an event log shows the options of a sink.
    "spark.sql.redaction.options.regex": "(?i)url|secret|pass|pwd|token|private.?key|access.?key|credential|user.?info",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """``conf`` is the user's own, and goes before ours; ``parallelism`` is how many tasks may run at a time (None: as
    many as the master has room for). ``heavy`` is for work whose rows pass through the JVM (Spark SQL): its compiler is
    not cut short then.
    """

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = ()
    parallelism: int | None = None
    app: str = "kgroup catchup"
    heavy: bool = False

    def __post_init__(self) -> None:
        check_master(self.master)
        if self.parallelism is not None and self.parallelism < 1:
            raise UsageError(f"--parallelism {self.parallelism}: at least 1 task has to run")
        if self.parallelism is not None and self.master.startswith(_OWN_SIZE):
            raise UsageError(
                f"--parallelism with --master {self.master}: how many tasks run there is a matter of its executors",
                hint="--conf spark.executor.instances=N --conf spark.executor.cores=1",
            )

    @property
    def is_local(self) -> bool:
        """Whether the workers are children of the driver."""
        return re.fullmatch(_LOCAL, self.master) is not None


def check_master(master: str) -> None:
    """Raise UsageError for a master that Spark has not, or that can't run kgroup's tasks."""
    if master.startswith("sc://"):
        raise UsageError(
            f"--master {master}: {_OURS['spark.remote']}", hint="Name its cluster: spark://, k8s://, yarn."
        )
    local = re.fullmatch(_LOCAL, master)
    if local and ((local[1] or "1").strip("0") == "" or (local[2] or "1").strip("0") == ""):
        raise UsageError(f"--master {master}: at least 1 task has to run, and once")
    if not local and not master.startswith(_REMOTE):
        raise UsageError(
            f"--master {master}: Spark knows no such master",
            hint="local[*], spark://HOST:7077, k8s://https://HOST, yarn",
        )


def parse_conf(words: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """``spark.some.key=value`` words of ``--conf``; the last one of a key counts. Raises UsageError."""
    found: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key.startswith("spark."):
            raise UsageError(f"--conf {key}: wants spark.KEY=VALUE")
        if key in _OURS:
            raise UsageError(f"--conf {key}: {_OURS[key]}")
        if key == "spark.speculation" and value.strip().lower() == "true":
            raise UsageError(f"--conf {word}: a second copy of a task would shut out the first, again and again")
        if key == "spark.sql.session.timeZone" and value.strip() != "UTC":
            raise UsageError(
                f"--conf {word}: times are UTC, so that a condition means the same wherever a plan is gone on with",
                hint="in a condition from_utc_timestamp(timestamp, 'Europe/Berlin'), of a writer --option timeZone=...",
            )
        found[key] = value
    return tuple(found.items())


def configuration(settings: SparkSettings, jvm_options: Iterable[str] = ()) -> dict[str, str]:
    """Spark's whole configuration. Nothing of Kafka's is in it: it is shown on Spark's page and in its event log."""
    said = dict(settings.conf)
    ours = {
        "spark.app.name": settings.app,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Else a task that has begun is counted as running only when something else happens.
        "spark.ui.liveUpdate.period": "0",
        "spark.task.maxFailures": str(ATTEMPTS),
        "spark.python.task.killTimeout": f"{KILL_AFTER_S}s",
        # A task's settings travel in the function that is sent. Above this size Spark writes that to a file.
        "spark.broadcast.UDFCompressionThreshold": "1g",
    }
    if settings.heavy:
        ours |= _FOR_SQL
    if settings.is_local:
        ours |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    elif settings.parallelism is not None and settings.master.startswith("spark://"):
        ours["spark.cores.max"] = str(settings.parallelism)
    # Spark's launcher splits them as a shell does.
    quoted = [f'"{option}"' if " " in option else option for option in jvm_options]
    options = " ".join([*quoted, said.pop("spark.driver.extraJavaOptions", "")]).strip()
    if options:
        ours["spark.driver.extraJavaOptions"] = options
    return ours | said | {"spark.master": _master(settings), "spark.speculation": "false"}


def slots(settings: SparkSettings, cores: int) -> int | None:
    """How many tasks run at a time, at most, where somebody sees to that: for a local master on ``cores`` of them."""
    found = re.match(_LOCAL, _master(settings))
    if not found:
        said = "spark.cores.max" in dict(settings.conf)
        return settings.parallelism if settings.master.startswith("spark://") and not said else None
    return cores if found[1] == "*" else int(found[1])


def _master(settings: SparkSettings) -> str:
    """A local master lets no task fail even once unless its name says so: spark.task.maxFailures is not for it."""
    found = re.fullmatch(_LOCAL, settings.master)
    if not found:
        return settings.master
    threads = str(settings.parallelism) if settings.parallelism is not None else found[1] or "1"
    return f"local[{threads},{found[2] or ATTEMPTS}]"


def addresses(master: str) -> tuple[tuple[str, int], ...]:
    """Where a master listens; nothing for a local one, and for one without an address (yarn). Raises UsageError."""
    if master.startswith("spark://"):
        return tuple(_address(master, part, None) for part in master.removeprefix("spark://").split(","))
    if master.startswith("k8s://"):
        rest = master.removeprefix("k8s://")
        default = 80 if rest.startswith("http://") else 443
        return (_address(master, re.sub(r"^https?://", "", rest).split("/")[0], default),)
    return ()


def _address(master: str, text: str, default_port: int | None) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?", text)
    port = int(found[2]) if found and found[2] else default_port
    if not found or port is None or not 0 < port < 65_536:
        raise UsageError(f"--master {master}: {text or 'nothing'} is no HOST:PORT")
    return found[1].strip("[]"), port


def shown(conf: Mapping[str, str]) -> tuple[str, ...]:
    """``--conf`` words of a configuration, sorted."""
    return tuple(word for key in sorted(conf) for word in ("--conf", f"{key}={conf[key]}"))
