"""Progress of a scan of ``__consumer_offsets``, on stderr; short scans show none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from kgroup.model.reporter import Progress, Reporter

_SHORT_S = 0.5


@contextmanager
def scan_progress(reporter: Reporter) -> Iterator[Callable[[int, int], None]]:
    """The progress callback for ``Cluster.group_logs``: offsets read, and their expected total."""
    begun = time.monotonic()
    bar: Progress | None = None
    most = 0
    with ExitStack() as open_bar:

        def tell(done: int, total: int) -> None:
            nonlocal bar, most
            if bar is None:
                if time.monotonic() - begun < _SHORT_S:
                    return
                most = total
                bar = open_bar.enter_context(reporter.progress("reading __consumer_offsets", total, "offsets"))
            bar.update(min(done, most))

        yield tell
