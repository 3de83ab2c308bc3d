"""Kafka's own command line tools, run one after the other in one JVM (``KafkaTools.java``)."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

from kgroup.model.reporter import NullReporter
from kgroup.sandbox.cluster import find_distribution
from kgroup.sandbox.distribution import QUICK_FLAGS, Distribution
from tests.helpers.places import DATA

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
"""kafka-consumer-groups.sh"""

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
"""kafka-share-groups.sh"""

STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
"""kafka-streams-groups.sh"""

SHIPPED_TOOL_FLAGS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""What kafka-run-class.sh gives to a tool (Kafka 4.3), for benchmarks against the tools as shipped."""

SOURCE = str(DATA / "KafkaTools.java")


class KafkaTools:
    """Starts a tool in 0.1 s instead of 1.5; one call at a time. ``command`` None: Java with the sandbox's jars."""

    def __init__(self, command: Sequence[str] | None = None, directory: Path | None = None) -> None:
        self._process = subprocess.Popen(
            command or find_distribution(None, NullReporter()).command(SOURCE, flags=QUICK_FLAGS, quiet=True),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=directory,
        )

    def __enter__(self) -> KafkaTools:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()

    def __call__(self, main_class: str, *arguments: str) -> CompletedProcess[str]:
        """Run a tool to its end. The caller checks ``returncode``, stdout and stderr."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("\t".join((main_class, *arguments)) + "\n")
        self._process.stdin.flush()
        code, *said = self._process.stdout.readline().rstrip("\n").split(" ")
        stdout, stderr = (base64.b64decode(text).decode(errors="replace") for text in said)
        return CompletedProcess(arguments, int(code), stdout, stderr)


def tool_command(
    main_class: str, arguments: Sequence[str], kafka: Distribution | None = None, *, as_shipped: bool = False
) -> list[str]:
    """The command line of a tool, for a quick start or as Kafka's script starts it; its log goes to stderr.

    ``kafka`` None is the downloaded one, downloaded now if necessary.
    """
    kafka = kafka or find_distribution(None, NullReporter())
    flags = SHIPPED_TOOL_FLAGS if as_shipped else QUICK_FLAGS
    return kafka.command(main_class, *arguments, flags=flags, quiet=True, archived=not as_shipped)


def run_tool(
    main_class: str, arguments: Sequence[str], *, kafka: Distribution | None = None, timeout_s: float = 120.0
) -> CompletedProcess[str]:
    """Run a tool to its end in a JVM of its own. The caller checks ``returncode``, stdout and stderr."""
    command = tool_command(main_class, arguments, kafka)
    # A copy: another thread may change the environment meanwhile, and exec would fail (EFAULT, seen).
    environ = dict(os.environ)
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=environ)
