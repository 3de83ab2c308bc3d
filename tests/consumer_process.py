"""A real consumer in a process of its own, told what to be by JSON in its argument.

``{"client": "kafka-python"|"confluent", "bootstrap", "group", "topics"|"pattern", "settings": {...}}``. It prints
a JSON line whenever its assignment changes (from its first rebalance on; kafka-python's with the generation and
the member id that the client itself knows), commits on each line ``commit`` of its standard input, stops polling on
``hold`` until ``go``, though its heartbeats go on, and closes gracefully when that ends.
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


def _hold(commands: queue.Queue[str | None]) -> None:
    """Not poll until told to go on: whatever a rebalance wants of the application waits."""
    _say(holding=True)
    while commands.get() not in ("go", None):
        pass
    _say(holding=False)


def _confluent(what: dict[str, Any], commands: queue.Queue[str | None]) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {"bootstrap.servers": what["bootstrap"], "group.id": what["group"], "enable.auto.commit": False}
    consumer = Consumer(settings | {"auto.offset.reset": "earliest"} | what["settings"])
    rebalanced = False

    def on_rebalance(*_: Any) -> None:
        nonlocal rebalanced
        rebalanced = True

    consumer.subscribe(what["topics"], on_assign=on_rebalance)
    shown = None
    while (command := _next(commands)) is not None:
        if command == "hold":
            _hold(commands)
        consumer.poll(0.05)
        held = sorted((tp.topic, tp.partition) for tp in consumer.assignment())
        if held != shown and rebalanced:
            shown = held
            _say(assignment=held)
        if command == "commit" and not held:  # a rebalance came between
            commands.put(command)
        elif command == "commit":
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
    import kafka.errors
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
    # A leader that joins before it knows a new topic assigns nothing of it, and leaves it at that.
    while not all(consumer.partitions_for_topic(topic) for topic in what["topics"]):
        pass
    consumer.subscribe(what["topics"])
    shown = None
    while (command := _next(commands)) is not None:
        if command == "hold":
            _hold(commands)
        consumer.poll(timeout_ms=50)
        held = sorted((tp.topic, tp.partition) for tp in consumer.assignment())
        joined = consumer._coordinator._generation
        now = (held, joined.generation_id, joined.member_id)
        if now != shown and joined.generation_id >= 0 and not consumer._coordinator.rejoin_needed:
            shown = now
            _say(assignment=held, generation=joined.generation_id, member_id=joined.member_id)
        if command == "commit" and not held:  # a rebalance came between
            commands.put(command)
        elif command == "commit":
            try:
                consumer.commit()
            except kafka.errors.KafkaError:
                commands.put(command)
            else:
                _say(committed=True)
    consumer.close()


if __name__ == "__main__":
    main()
