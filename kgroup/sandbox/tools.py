"""Run Kafka's own command line tools, for tests and benchmarks that compare with them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from kgroup.model.reporter import NullReporter
from kgroup.sandbox import jvm
from kgroup.sandbox.cluster import distribution
from kgroup.sandbox.distribution import Distribution
from kgroup.settings.environment import environment

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
"""kafka-consumer-groups.sh"""


def tool_command(
    main_class: str,
    arguments: Sequence[str],
    kafka: Distribution | None = None,
    *,
    as_shipped: bool = False,
) -> list[str]:
    """The command line of a tool, for a quick start or as Kafka's script starts it; its log goes to stderr.

    ``kafka`` None is the downloaded one, downloaded now if necessary.
    """
    kafka = kafka or distribution(None, NullReporter())
    flags = jvm.SHIPPED_TOOL_FLAGS if as_shipped else jvm.QUICK_FLAGS
    return kafka.command(main_class, *arguments, flags=flags, quiet=True, archived=not as_shipped)


def run_tool(
    main_class: str, arguments: Sequence[str], *, kafka: Distribution | None = None, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end. The caller checks ``returncode``, stdout and stderr."""
    command = tool_command(main_class, arguments, kafka)
    # A copy: another thread may change the environment meanwhile, and exec would fail (EFAULT, seen).
    variables = dict(environment())
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=variables)
