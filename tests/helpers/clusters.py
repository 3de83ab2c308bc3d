"""The cluster as verbs that change something have it, without a command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kgroup.cluster.writes import ChangingCluster
from kgroup.settings.connection import Connection
from kgroup.settings.sources import resolve
from tests.helpers.command_line import QuietReporter


@contextmanager
def connected(bootstrap: str, timeout: str = "8s") -> Iterator[ChangingCluster]:
    """Connected while the block runs."""
    settings = resolve(Connection(bootstrap_server=bootstrap, timeout=timeout), QuietReporter(), environ={})
    with ChangingCluster(settings) as cluster:
        yield cluster
