"""For notebooks: ``from kgroup.spark import register``, then ``spark.read.format("kgroup")``.

It reads as the command line does: the same settings, contexts and environment variables, only committed records, and
each range to its verified end.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.catchup.spark.notebook import FORMAT, register_source
from kgroup.model.reporter import NullReporter
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Warning(NullReporter):
    def warn(self, text: str) -> None:
        """Issue a Python warning."""
        warnings.warn(text, stacklevel=2)


def register(
    spark: SparkSession,
    bootstrap_server: str | None = None,
    *,
    command_config: str | Path | None = None,
    context: str | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: str | None = None,
    name: str = FORMAT,
) -> None:
    """Register ``spark.read.format("kgroup")`` in a session; again under another ``name`` for another cluster.

    The arguments are the command line's ``-b``, ``--command-config``, ``--context``, ``-X`` and ``--timeout``. If one
    is not given, its variable (``KGROUP_...``) or the context in use applies. Passwords do not appear in Spark's
    options, pages and logs. Raises UsageError without any address, ConfigError for settings that cannot be honoured.
    """
    connection = Connection(
        bootstrap_server=bootstrap_server,
        command_config=None if command_config is None else Path(command_config),
        property=[f"{key}={value}" for key, value in (properties or {}).items()] or None,
        context=context,
        timeout=timeout,
    )
    settings = resolve(connection, _Warning())
    register_source(spark, librdkafka_config(settings), timeout_s=settings.timeout_s, name=name)
