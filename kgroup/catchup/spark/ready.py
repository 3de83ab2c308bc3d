"""Check that Spark can run, before any offset moves: pyspark, Java, and a master that answers."""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kgroup.catchup.spark.settings import SparkSettings, addresses
from kgroup.cluster.deadline import Deadline
from kgroup.settings.environment import environment
from kgroup.support.errors import NO_PYSPARK, Refused, Unreachable, refusal_code
from kgroup.support.java_home import NO_JAVA, OLDEST, Java, find_java

NO_MASTER = refusal_code("no-master", "catchup", "The master of Spark cannot be found or reached.", "Check --master.")

INSTALL = "pip install 'pyspark>=4.1,<5' 'pandas>=2.2,<3' 'pyarrow>=18'"
"""Installs the extra ``catchup``, of a kgroup that came from a clone, a wheel or kgroup.pyz."""
_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_LONGEST_CONNECT_S = 5.0


class DriverSetup(msgspec.Struct, frozen=True):
    """What a driver starts with: Java and Spark's home."""

    java: Java
    home: Path


def check(settings: SparkSettings, *, timeout_s: float, variables: Mapping[str, str] | None = None) -> DriverSetup:
    """Check everything that a session needs, without starting one; the only Java process is ``java -version``.

    Raises Refused with code ``no-pyspark``, ``no-java`` or ``no-master`` (yarn without a Hadoop configuration). Raises
    Unreachable with code ``spark-master`` if no master answers within ``timeout_s``, or UsageError for its address.
    """
    variables = environment() if variables is None else variables
    home = spark_home(variables)
    try:
        java = find_java(variables)
    except Refused as error:
        raise Refused(
            f"Spark needs Java {OLDEST} or newer", code=NO_JAVA, details=error.details, hint=error.hint
        ) from error
    _check_master(settings.master, timeout_s, variables)
    return DriverSetup(java, home)


def spark_home(environment: Mapping[str, str]) -> Path:
    """``SPARK_HOME`` as PySpark uses it, or the wheel's; found without importing pyspark, which takes 0.2 s."""
    spec = importlib.util.find_spec("pyspark")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places or importlib.util.find_spec("py4j") is None:
        raise Refused("catch-up runs on Spark, but PySpark is not installed", code=NO_PYSPARK, hint=INSTALL)
    home = Path(environment.get("SPARK_HOME") or places[0])
    if not (home / "jars").is_dir() or not (home / "bin" / "spark-submit").is_file():
        raise Refused(
            f"{home} is not a Spark installation: it has no jars or no bin/spark-submit",
            code=NO_PYSPARK,
            hint="unset SPARK_HOME" if environment.get("SPARK_HOME") else INSTALL,
        )
    return home


def _check_master(master: str, timeout_s: float, environment: Mapping[str, str]) -> None:
    if master.startswith("yarn") and not any(environment.get(name) for name in _HADOOP):
        raise Refused(f"--master {master} requires {' or '.join(_HADOOP)}", code=NO_MASTER)
    refusals: list[str] = []
    deadline = Deadline.after(timeout_s)
    listening = addresses(master)
    for host, port in listening:
        try:
            socket.create_connection((host, port), max(0.1, min(deadline.left_s, _LONGEST_CONNECT_S))).close()
            return
        except OSError as error:
            refusals.append(f"{host}:{port}: {error.strerror or error}")
    if listening:
        raise Unreachable(f"no Spark master answers at {master}", code="spark-master", details=tuple(refusals))
