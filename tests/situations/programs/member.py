"""A member of a group, as `Program` says: it polls, processes, commits by its habit, and meets poison in its own way.

`python -m tests.situations.programs.member SPEC`, a `Spec` as JSON. What it did is in its log (`Spec`).
"""

import math
import os
import re
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.situations.programs.feeder import POISON
from tests.situations.row import Spec

_BETWEEN_TRIES_S = 0.5


class Over(Exception):
    """It closes, and ends."""


class Life:
    """How long it lives, by `Program.life`."""

    def __init__(self, life: str) -> None:
        match = re.fullmatch(r"(?:(\d+)s(:close)?|records:(\d+):kill9|before-sync)?", life)
        assert match, f"no such life: {life}"
        seconds, closes, records = match.groups()
        self.closes = bool(closes)
        self.records = 0
        self._until_s = time.monotonic() + float(seconds) if seconds else math.inf
        self._most = float(records) if records else math.inf

    def is_over(self, now_s: float) -> bool:
        """Whether its time has come."""
        return now_s >= self._until_s or self.records >= self._most


class Member:
    """One consumer and its habits."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._habit, _, parameter = spec.commit.partition(":")
        fixed, _, every = parameter.rpartition("@")
        self._fixed = int(fixed) if fixed else 0
        self._every_s = float(every.removesuffix("s")) if self._habit in ("timer", "last", "fixed") else 0.0
        self._log = Path(spec.log).open("a", buffering=1)  # noqa: SIM115  (as long as the process)
        self._life = Life(spec.life)
        self._committed_s = time.monotonic()
        self._reached: dict[tuple[str, int], int] = {}  # the next offset of what it processed and has not committed
        self._tries: dict[tuple[str, int, int], int] = {}
        self._waits: dict[tuple[str, int], float] = {}  # until when, of places whose next record is too new
        self._ends = self._rests = self._has_begun = self._is_broken = False
        self._producer = self._of_transactions() if self._habit == "txn" else None
        self._consumer = Consumer(
            {
                **spec.settings,
                "enable.auto.commit": self._habit in ("auto", "store"),
                "enable.auto.offset.store": self._habit == "auto",
                "log_level": 0,
            }
        )

    def _of_transactions(self) -> Producer:
        settings = {"bootstrap.servers": self._spec.settings["bootstrap.servers"], "transactional.id": self._spec.id}
        producer = Producer({**settings, "log_level": 0})
        producer.init_transactions(60)
        return producer

    def run(self) -> None:
        """Until it is told to end, by SIGTERM, or has had enough."""
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGUSR1, self._break)
        signal.signal(signal.SIGUSR2, self._mend)
        self._say(f"S {os.getpid()}")
        way, _, chosen = self._spec.subscribe.partition(":")
        if way == "assign":
            known = self._consumer.list_topics(timeout=30).topics
            places = [
                TopicPartition(topic, n)
                for topic in self._spec.topics
                for n in (map(int, chosen.split(",")) if chosen else known[topic].partitions)
            ]
            self._consumer.assign(places)
            self._assigned(self._consumer, places)
        else:
            topics = [f"^{re.escape(topic)}-typo$" if way == "typo" else topic for topic in self._spec.topics]
            self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked)
        with suppress(Over):
            while not self._ends:
                self._poll()
        self._commit_reached()
        self._consumer.close()
        self._say("X closed")

    def _end(self, *_: object) -> None:
        self._ends = True

    def _break(self, *_: object) -> None:
        self._is_broken = True

    def _mend(self, *_: object) -> None:
        self._is_broken = False

    def _poll(self) -> None:
        if self._life.is_over(time.monotonic()):
            self._die()
        batch = [message for message in self._consumer.consume(self._spec.batch, 0.5) if message.error() is None]
        if self._spec.rests:
            self._rest(*self._spec.rests)
        self._read_what_is_old_enough()
        paused: dict[tuple[str, int], int] = {}
        for message in batch:
            topic, partition, offset = _place(message)
            if (topic, partition) in paused or self._is_too_new(message) or self._process(message):
                continue
            if self._spec.bad != "pause":
                self._meet(message, batch)
                return
            paused[topic, partition] = offset
        self._pause(paused)
        if self._habit in ("batch", "txn") or (self._habit in ("timer", "last") and self._is_time()):
            self._commit_reached()
        if self._habit == "fixed" and self._is_time():
            self._commit_of_others()

    def _is_too_new(self, message: Message) -> bool:
        """Whether it waits, at the front of its partition, until it is as old as it must be."""
        due_s = message.timestamp()[1] / 1000 + self._spec.delay_s
        if not self._spec.delay_s or due_s <= time.time():
            return False
        topic, partition, offset = _place(message)
        self._waits[topic, partition] = due_s
        place = TopicPartition(topic, partition, offset)
        self._consumer.pause([place])
        self._consumer.seek(place)
        return True

    def _read_what_is_old_enough(self) -> None:
        for place in [place for place, due_s in self._waits.items() if due_s <= time.time()]:
            del self._waits[place]
            self._consumer.resume([TopicPartition(*place)])

    def _rest(self, rest_s: int, every_s: int) -> None:
        """All its partitions are paused at the end of each time, as where a queue is full."""
        rests = time.monotonic() % every_s >= every_s - rest_s
        if rests:  # again, for what it was given meanwhile
            self._consumer.pause(self._consumer.assignment())
        elif self._rests:
            self._consumer.resume(self._consumer.assignment())
        self._rests = rests

    def _commit_of_others(self) -> None:
        """As one that does not know that its partitions were given to another."""
        self._committed_s = time.monotonic()
        own = {(place.topic, place.partition) for place in self._consumer.assignment()}
        known = self._consumer.list_topics(timeout=30).topics
        every = {(topic, number) for topic in self._spec.topics for number in known[topic].partitions}
        self._commit(dict.fromkeys(every - own, self._fixed))

    def _is_time(self) -> bool:
        return time.monotonic() - self._committed_s >= self._every_s

    def _process(self, message: Message) -> bool:
        """Whether it could."""
        topic, partition, offset = _place(message)
        time.sleep(self._spec.work_ms / 1000)
        is_bad = message.value() == POISON and not self._can_now((topic, partition, offset))
        if is_bad or self._is_broken:
            self._say(f"F {topic}:{partition} {offset}")
            return False
        self._say(f"P {topic}:{partition} {offset}")
        self._reached[topic, partition] = offset + 1
        self._life.records += 1
        if self._habit == "store":
            self._consumer.store_offsets(offsets=[TopicPartition(topic, partition, offset + 1)])
        elif self._habit in ("each", "flip", "fixed"):
            self._commit_reached()
        elif self._producer:
            self._begin(self._producer)
            self._producer.produce(self._spec.out, message.value())
        if self._life.is_over(time.monotonic()):
            self._die()
        return True

    def _begin(self, producer: Producer) -> None:
        if not self._has_begun:
            producer.begin_transaction()
            self._has_begun = True

    def _die(self) -> None:
        if self._life.closes:
            raise Over
        os.kill(os.getpid(), signal.SIGKILL)

    def _can_now(self, record: tuple[str, int, int]) -> bool:
        """Poison is put aside by some, works at a later try in others, and takes its time in others."""
        bad, _, wanted = self._spec.bad.partition(":")
        if bad == "slow":
            self._is_slow_once(float(wanted))
            return True
        self._tries[record] = self._tries.get(record, 0) + 1
        return bad == "dlq" or (bad == "retry" and self._tries[record] >= int(wanted))

    def _is_slow_once(self, seconds: float) -> None:
        """As where what it needs is loaded: whoever reads the record next finds that done, another member too."""
        with suppress(FileExistsError):
            Path(self._spec.log).with_name("slow").touch(exist_ok=False)
            time.sleep(seconds)

    def _meet(self, message: Message, batch: list[Message]) -> None:
        """What it does about a record that it cannot process."""
        topic, partition, offset = _place(message)
        time.sleep(_BETWEEN_TRIES_S)
        match self._spec.bad:
            case "kill9":
                os.kill(os.getpid(), signal.SIGKILL)
            case "close-exit":
                self._reached.pop((topic, partition), None)
                raise Over
            case "block":
                while True:
                    signal.pause()  # SIGTERM does not end it: its handler returns here
            case "none":
                raise ValueError(f"{topic}:{partition} {offset} is poison, and the program does not expect any")
            case _:
                if self._producer and self._has_begun:
                    self._producer.abort_transaction(30)
                    self._has_begun = False
                self._again(batch)
                if self._habit == "flip":
                    self._commit({(topic, partition): offset})
                    self._commit({(topic, partition): offset + 1})

    def _pause(self, failed: Mapping[tuple[str, int], int]) -> None:
        """Read no more of these places. The rest of their batch is not passed: it is delivered when they go on."""
        if failed:
            self._consumer.pause([TopicPartition(*place) for place in failed])
        for place, offset in failed.items():
            self._consumer.seek(TopicPartition(*place, offset + 1))

    def _again(self, batch: list[Message]) -> None:
        """Seek back to where the batch began, and commit that, if this client does."""
        first: dict[tuple[str, int], int] = {}
        for message in batch:
            topic, partition, offset = _place(message)
            first.setdefault((topic, partition), offset)
        for place, offset in first.items():
            self._reached.pop(place, None)
            self._consumer.seek(TopicPartition(*place, offset))
        if self._spec.bad == "seek+commit":
            self._commit(first)

    def _commit_reached(self) -> None:
        if self._habit != "fixed":
            self._committed_s = time.monotonic()
        reached, self._reached = self._reached, {}
        if self._habit == "last":  # and again, where nothing came
            self._reached = reached
            reached = {place: offset - 1 for place, offset in reached.items()}
        if reached and self._habit not in ("auto", "store", "none"):
            self._commit(reached)

    def _commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        places = [TopicPartition(*at, n) for at, n in offsets.items()]
        try:
            if self._producer:
                self._producer.send_offsets_to_transaction(places, self._consumer.consumer_group_metadata(), 30)
                self._producer.commit_transaction(30)
                self._has_begun = False
            else:
                self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:  # a rebalance came between
            self._say(f"E {error}")
            if error.args[0].code() == KafkaError._FATAL:  # another process has its instance id
                raise Over from None
        else:
            self._say("C " + " ".join(f"{topic}:{partition}={n}" for (topic, partition), n in offsets.items()))

    def _assigned(self, _: Consumer, places: list[TopicPartition]) -> None:
        self._say("A " + " ".join(f"{place.topic}:{place.partition}" for place in places))

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        time.sleep(self._spec.revoke_s)
        self._commit_reached()
        if self._habit == "last":
            for place in places:
                self._reached.pop((place.topic, place.partition), None)
        self._say("R " + " ".join(f"{place.topic}:{place.partition}" for place in places))

    def _say(self, what: str) -> None:
        self._log.write(f"{time.time_ns() // 1_000_000} {what}\n")


def _place(message: Message) -> tuple[str, int, int]:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


def main(spec: Spec) -> None:
    """Until it ends."""
    if spec.life == "before-sync":
        # Half of what it takes to start a member, and crash loops start two each second.
        from tests.helpers.by_hand import join_only
        from tests.helpers.kafka_world import KafkaWorld

        world = KafkaWorld(spec.settings["bootstrap.servers"], client_id=spec.settings["client.id"])
        join_only(world, spec.group, spec.topics[0], int(spec.settings["session.timeout.ms"]))
        os.kill(os.getpid(), signal.SIGKILL)
    Member(spec).run()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Spec))
