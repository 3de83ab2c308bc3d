"""The consumer of the demo: ``python -m kgroup.sandbox.demo_consumer ADDRESS TOPIC GROUP crash|live``.

A process of its own, because it dies by SIGKILL; the one that comes back afterwards lives until its stdin is closed,
which is also how it hears that the demo itself was killed. Each word about what it has processed is a line on stdout:
the one that is to crash says only that it has reached the end.
"""

from __future__ import annotations

import sys
import threading

from kgroup.cluster.demo_clients import consume

COMMITTED = 70
PROCESSED = 100


def main(bootstrap_servers: str, topic: str, group: str, role: str) -> None:
    """Process what comes: to be killed at PROCESSED having committed COMMITTED, or committing each record."""
    ended = threading.Event()
    threading.Thread(target=_await_end, args=(ended,), daemon=True).start()
    live = role == "live"
    for offset in consume(bootstrap_servers, topic, group, None if live else COMMITTED, ended.is_set):
        if live or offset + 1 == PROCESSED:
            sys.stdout.write(f"{offset}\n")
            sys.stdout.flush()


def _await_end(ended: threading.Event) -> None:
    sys.stdin.buffer.read()
    ended.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
