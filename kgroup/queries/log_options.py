"""A scan of ``__consumer_offsets``: its options, its progress, and a check of the clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kgroup.model.reporter import Progress, Reporter

if TYPE_CHECKING:
    from kgroup.cluster.connection import ClusterConnection


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Limits of a scan of ``__consumer_offsets``: a duration and a size, as typed."""

    scan_time: str | None = None
    scan_bytes: str | None = None


@dataclass(frozen=True, slots=True)
class AsOf:
    """The time whose offsets are requested, as typed; None: now."""

    as_of: str | None = None


@dataclass(frozen=True, slots=True)
class FromLog(LogBounds):
    """Whether groups are read from ``__consumer_offsets`` instead of from their coordinators."""

    from_log: bool = False


_SHORT_S = 0.5


@contextmanager
def scan_progress(reporter: Reporter) -> Iterator[Callable[[int, int], None]]:
    """The progress callback for ``Cluster.group_logs``: offsets read, and their expected total."""
    started_s = time.monotonic()
    bar: Progress | None = None
    most = 0
    with ExitStack() as open_bar:

        def tell(done: int, total: int) -> None:
            nonlocal bar, most
            if bar is None:
                if time.monotonic() - started_s < _SHORT_S:
                    return
                most = total
                bar = open_bar.enter_context(reporter.progress("reading __consumer_offsets", total, "offsets"))
            bar.update(min(done, most))

        yield tell


def warn_of_clocks(reporter: Reporter, cluster: ClusterConnection) -> None:
    """Compare the clocks, with one small request, and warn if they are known to differ."""
    if warning := cluster.clocks().warning:
        reporter.warn(warning)


def brokers_now(reporter: Reporter, cluster: ClusterConnection) -> datetime:
    """The brokers' present time, from which times and durations that were typed count; warns as ``warn_of_clocks``."""
    warn_of_clocks(reporter, cluster)
    return datetime.fromtimestamp(cluster.now_ms() / 1000, UTC)
