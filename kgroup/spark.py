"""For notebooks and jobs: ``register``, then ``spark.read.format("kgroup")``; ``gap`` delivers a plan.

It reads as the command line does: the same settings, contexts and environment variables, only committed records, and
each range to its verified end.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kgroup.catchup.service.session_gap import ChunkGroup, SessionGap
from kgroup.catchup.spark.notebook import FORMAT, register_source
from kgroup.model.reporter import NullReporter
from kgroup.settings.clients import replay_config
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kgroup.settings.model import Settings

__all__ = ["ChunkGroup", "SessionGap", "gap", "register"]


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
    settings = _settings(bootstrap_server, command_config, context, properties, timeout)
    register_source(spark, replay_config(settings), timeout_s=settings.timeout_s, name=name)


def gap(
    spark: SparkSession,
    plan: str,
    bootstrap_server: str | None = None,
    *,
    chunks: int | None = None,
    ledger_topic: str | None = None,
    command_config: str | Path | None = None,
    context: str | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: str | None = None,
    kafka_options: Mapping[str, str] | None = None,
    take_over: bool = False,
) -> SessionGap:
    """What is not delivered of a released plan, as DataFrames for this session. The connection is as in ``register``.

    ``plan`` is its id, or its group. ``chunks`` is how many chunks a DataFrame has (default: 4 for each core); the
    first run fixes it for the plan. Nothing happens before the first group is asked for: then this run waits for
    35 s if another one works on the plan, and becomes its runner; with ``take_over`` at once. The other run then writes
    no more to the ledger, but the Spark job that it has continues. ``kafka_options``: Spark's Kafka source reads, with
    these options of its own (``kafka.security.protocol``, ...), for workers where librdkafka cannot log in or is not
    installed; the ledger is still read and written here. Raises UsageError with Spark Connect, and as ``register``.
    """
    settings = _settings(bootstrap_server, command_config, context, properties, timeout)
    return SessionGap(spark, settings, _Warning(), plan, ledger_topic, chunks, kafka_options, take_over)


def _settings(
    bootstrap_server: str | None,
    command_config: str | Path | None,
    context: str | None,
    properties: Mapping[str, str] | None,
    timeout: str | None,
) -> Settings:
    if bootstrap_server is not None and not isinstance(bootstrap_server, str):
        raise TypeError(
            "bootstrap_server must be text such as broker:9092; settings go into properties={...}, context= or "
            "command_config="
        )
    connection = Connection(
        bootstrap_server=bootstrap_server,
        command_config=None if command_config is None else Path(command_config),
        property=[f"{key}={value}" for key, value in (properties or {}).items()] or None,
        context=context,
        timeout=timeout,
    )
    return resolve(connection, _Warning())
