"""A real consumer in a process of its own, told what to be by JSON in its argument.

``{"client": "kafka-python"|"confluent", "bootstrap", "group", "topics"|"pattern", "settings": {...}}``. It prints
a JSON line whenever its assignment changes, commits on each line ``commit`` of its standard input, and closes
gracefully when that ends.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from typing import Any


def main() -> None:
    """Poll until standard input ends."""
    what = json.loads(sys.argv[1])
    commands: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read_commands, args=(commands,), daemon=True).start()
    {"confluent": _confluent, "kafka-python": _kafka_python}[what["client"]](what, commands)


def _read_commands(commands: queue.Queue[str | None]) -> None:
    for line in sys.stdin:
        commands.put(line.strip())
    commands.put(None)


def _say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _next(commands: queue.Queue[str | None]) -> str | None:
    try:
        return commands.get_nowait()
    except queue.Empty:
        return ""


def _confluent(what: dict[str, Any], commands: queue.Queue[str | None]) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {"bootstrap.servers": what["bootstrap"], "group.id": what["group"], "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"} | what["settings"])
    consumer.subscribe(what["topics"])
    shown = None
    while (command := _next(commands)) is not None:
        consumer.poll(0.05)
        held = sorted((tp.topic, tp.partition) for tp in consumer.assignment())
        if held != shown:
            shown = held
            _say(assignment=held)
        if command == "commit" and held:
            places = consumer.position([TopicPartition(*place) for place in held])
            reached = [TopicPartition(tp.topic, tp.partition, max(tp.offset, 0)) for tp in places]
            try:
                consumer.commit(offsets=reached, asynchronous=False)
            except KafkaException:  # a rebalance came between
                commands.put("commit")
            else:
                _say(committed=True)
    consumer.close()


def _kafka_python(what: dict[str, Any], commands: queue.Queue[str | None]) -> None:
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    assignors: dict[str, Any] = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    settings = dict(what["settings"])
    if "assignor" in settings:
        settings["partition_assignment_strategy"] = [assignors[settings.pop("assignor")]]
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=what["bootstrap"],
        group_id=what["group"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **settings,
    )
    consumer.subscribe(what["topics"])
    shown = None
    while (command := _next(commands)) is not None:
        consumer.poll(timeout_ms=50)
        held = sorted((tp.topic, tp.partition) for tp in consumer.assignment())
        if held != shown:
            shown = held
            _say(assignment=held)
        if command == "commit" and held:
            consumer.commit()
            _say(committed=True)
    consumer.close()


if __name__ == "__main__":
    main()
