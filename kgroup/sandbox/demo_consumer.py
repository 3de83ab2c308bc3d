"""The consumer that the demo kills: ``python -m kgroup.sandbox.demo_consumer ADDRESS TOPIC GROUP``.

A process of its own, because it dies by SIGKILL. It says that it has reached the end by one line on stdout,
and then goes on polling until it is killed.
"""

from __future__ import annotations

import sys

from kgroup.cluster.demo_clients import consume

COMMITTED = 70
PROCESSED = 100


def main(bootstrap_servers: str, topic: str, group: str) -> None:
    """Process up to PROCESSED, having committed COMMITTED."""
    for offset in consume(bootstrap_servers, topic, group, COMMITTED):
        if offset + 1 == PROCESSED:
            sys.stdout.write(f"{PROCESSED}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
