"""The hint to Kafka's command that finds hanging transactions."""

from __future__ import annotations

import shlex


def find_hanging(topic: str, partition: int) -> str:
    """The command ``kafka-transactions.sh --bootstrap-server BROKER find-hanging --topic orders --partition 7``."""
    where = f"--topic {shlex.quote(topic)} --partition {partition}"
    return f"kafka-transactions.sh --bootstrap-server BROKER find-hanging {where}"
