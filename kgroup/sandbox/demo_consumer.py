"""The consumer of the demo: ``python -m kgroup.sandbox.demo_consumer ADDRESS TOPIC GROUP crash|live``.

It is a separate process, because it is killed with SIGKILL. With ``live`` it runs until its stdin is closed, which also
happens if the demo is killed. It prints each processed offset as a line; with ``crash`` only the last one.
"""

from __future__ import annotations

import sys
import threading

from kgroup.cluster.demo_clients import consume

COMMITTED = 70
PROCESSED = 100


def main(bootstrap_servers: str, topic: str, group: str, role: str) -> None:
    """Process records. ``crash``: commit COMMITTED and wait at PROCESSED to be killed; ``live``: commit each record."""
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
