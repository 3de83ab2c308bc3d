"""A Kafka to run: its jars, the command line of its Java, and what is made from them once (checkpoint, archive)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kgroup.model.reporter import Reporter
from kgroup.sandbox.ivy import Ivy, ivy_jar, ivy_settings
from kgroup.sandbox.jars import are_complete, fetch
from kgroup.sandbox.manifest import Manifest, data_text, sandbox_manifest
from kgroup.settings.environment import environment
from kgroup.support.atomic_file import replace_file
from kgroup.support.errors import Refused
from kgroup.support.file_lock import exclusive_lock
from kgroup.support.java_home import Java, with_one_collector

QUICK_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")
"""Options for Kafka's tools, and the first ones for a broker."""

BROKER_FLAGS = (*QUICK_FLAGS, "-Xms64m", "-Xmx512m", "-XX:+ExitOnOutOfMemoryError")
"""A small broker that starts quickly. Measured: 1.3 s and 155 MiB, instead of 2.85 s and 331 MiB."""

BROKER_CLASS = "kafka.Kafka"
STORAGE_TOOL = "kafka.tools.StorageTool"

_OLD_LOG4J_JAR = re.compile(r"(reload4j|log4j)-1\.[\d.]+\.jar")
_BROKER_JAR = re.compile(r"kafka_2\.\d+-(\d[\w.-]*?)\.jar")
_FIRST_KRAFT = (3, 3)
"""The first release whose KRaft is ready for production (KIP-833)."""


class Distribution(msgspec.Struct, frozen=True):
    """Kafka as an ordered class path, the Java that runs it, and ``home`` for generated files."""

    version: str
    classpath: tuple[Path, ...]
    java: Java
    home: Path

    @property
    def key(self) -> str:
        """A hash of jars and Java: a class data archive fits only those it was made with."""
        jars = ((str(jar), jar.stat()) for jar in self.classpath)
        fingerprint = "\n".join([self.java.description, *(f"{jar} {s.st_size} {s.st_mtime_ns}" for jar, s in jars)])
        return hashlib.sha256(fingerprint.encode()).hexdigest()[:12]

    @property
    def archive(self) -> Path:
        """The path of the class data archive, which may not exist yet."""
        return self.home / f"classes-{self.key}.jsa"

    @property
    def checkpoint(self) -> Path:
        """A data directory with nothing but the bootstrap checkpoint; it may not exist yet."""
        return self.home / f"bootstrap-{self.version}"

    def command(
        self,
        main_class: str,
        *arguments: str,
        flags: Sequence[str] = (),
        quiet: bool = False,
        archived: bool = True,
    ) -> list[str]:
        """Java's command line, with the archive if there is one. ``quiet``: log only warnings, to stderr."""
        flags = with_one_collector(flags, environment())
        if archived and (archive := self.archive).exists():  # Java silently ignores one that does not fit
            flags = (*flags, f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
        # The class path is explicit and ordered, as a class data archive requires.
        classpath = ":".join(map(str, self.classpath))
        return [str(self.java.executable), *flags, self.log_flag(quiet=quiet), "-cp", classpath, main_class, *arguments]

    def log_flag(self, *, quiet: bool) -> str:
        """Java's option for the log settings, written to a file that Java can read (ours may be inside a zip).

        Brokers before 4.0 log through Log4j 1 (or reload4j, its successor), which has another format. Without these
        settings a broker that cannot start does not log why.
        """
        old = any(_OLD_LOG4J_JAR.fullmatch(jar.name) for jar in self.classpath)
        name = f"{'tool' if quiet else 'broker'}_{'log4j' if old else 'log4j2'}.properties"
        path, content = self.home / name, data_text(name)
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            replace_file(path, content.encode(), mode=0o644)
        return f"-Dlog4j.configuration={path.as_uri()}" if old else f"-Dlog4j2.configurationFile={path}"


def fetch_distribution(cache: Path, java: Java, reporter: Reporter, manifest: Manifest | None = None) -> Distribution:
    """The Kafka of a manifest (None: ours), downloaded on first use. Raises Refused [no-pyspark], SandboxError."""
    manifest = manifest or sandbox_manifest()
    home = cache / f"kafka-{manifest.kafka_version}"
    jars = home / "jars"
    if not are_complete(manifest, jars):
        home.mkdir(parents=True, exist_ok=True)
        with exclusive_lock(home / "lock", reporter.event, "another kgroup that fetches Kafka"):
            if not are_complete(manifest, jars):
                fetch(manifest, jars, Ivy(java, ivy_jar(), ivy_settings(environment())), reporter)
    return Distribution(manifest.kafka_version, manifest.paths(jars), java, home)


def user_distribution(directory: Path, cache: Path, java: Java) -> Distribution:
    """The Kafka in a user's directory (a distribution or its ``libs``). Raises Refused [no-kafka], [kafka-too-old]."""
    inner = directory / "libs"
    libs = (inner if inner.is_dir() else directory).absolute()
    classpath = tuple(sorted(libs.glob("*.jar")))
    versions = [match[1] for jar in classpath if (match := _BROKER_JAR.fullmatch(jar.name))]
    if not versions:
        raise Refused(
            f"no Kafka broker in {libs}",
            code="no-kafka",
            details=(f"There are {len(classpath)} jars there, none called kafka_2.13-VERSION.jar.",),
            hint="Name the libs directory of an unpacked Kafka distribution.",
        )
    if _release(versions[0]) < _FIRST_KRAFT:
        raise Refused(
            f"Kafka {versions[0]} in {libs} needs ZooKeeper, and the sandbox has none",
            code="kafka-too-old",
            hint="Name a Kafka 3.3 or newer.",
        )
    home = cache / f"given-{hashlib.sha256(str(libs).encode()).hexdigest()[:12]}"
    home.mkdir(parents=True, exist_ok=True)
    return Distribution(versions[0], classpath, java, home)


def _release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: (3, 9) for "3.9.1"."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
