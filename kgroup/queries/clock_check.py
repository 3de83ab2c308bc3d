"""Warns if this machine's clock and the brokers' differ: ages, time lags and instants would be wrong by that."""

from __future__ import annotations

from kgroup.cluster.offsets_topic.questions import OffsetsTopicConnection
from kgroup.model.reporter import Reporter


def warn_of_clocks(reporter: Reporter, cluster: OffsetsTopicConnection) -> None:
    """Compare the clocks, with one small request, and warn if they are known to differ."""
    if warning := cluster.clocks().warning:
        reporter.warn(warning)
