"""An application that does nothing with its records: at the first one of this moment or later it writes ``FRESH``.

``{"settings", "topic", "since_ms", "behind", "ledger"}``. With ``behind`` it catches up by ``kgroup.consumer``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import Consumer

_AT_ONCE = 10_000


def main() -> None:
    """Read until the first fresh record."""
    what = json.loads(sys.argv[1])
    settings, since_ms = what["settings"] | {"auto.offset.reset": "earliest"}, what["since_ms"]
    on_assign: dict[str, Any] = {}
    if what["behind"] is not None:
        from kgroup.consumer import catch_up_if_behind

        on_assign["on_assign"] = catch_up_if_behind(what["behind"], settings, within_s=30, ledger_topic=what["ledger"])
    consumer = Consumer(settings)
    consumer.subscribe([what["topic"]], **on_assign)
    while True:
        for record in consumer.consume(_AT_ONCE, 0.05):
            if record.error() is None and record.timestamp()[1] >= since_ms:
                sys.stdout.write("FRESH\n")
                return


if __name__ == "__main__":
    main()
