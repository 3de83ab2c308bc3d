"""The brokers that situations live on: one for most of them, three for those whose brokers fail."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kgroup.sandbox import Sandbox
from kgroup.sandbox.broker import BrokerProcess
from tests.conftest import BROKER_PROPERTIES
from tests.helpers import three_brokers
from tests.helpers.command_line import QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.situations.programs.feeder import Feeder
from tests.situations.row import Row

_AS_ELSEWHERE: Final = {
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "3000",  # Kafka's default: a deploy looks as it does elsewhere
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.heartbeat.interval.ms": "3000",
    "log.retention.check.interval.ms": "10000",
}
"""What a group's life depends on, as brokers have it by default."""

ONE: Final = "one"
THREE: Final = "three"
PROPERTIES: Final = {
    1: {**BROKER_PROPERTIES, **_AS_ELSEWHERE},
    3: {**three_brokers.PROPERTIES, **_AS_ELSEWHERE},
}
"""As other tests have them, and as elsewhere; by the number of brokers."""


def cluster_of(row: Row) -> str:
    """The cluster that a row lives on: ONE, THREE, or one of its own, whose brokers no other row starts again."""
    if row.own_brokers:
        return row.id
    return THREE if row.replicas else ONE


@dataclass(slots=True)
class Cluster:
    """Brokers, who writes to them, and which of them do not run."""

    sandbox: Sandbox
    world: KafkaWorld
    feeder: Feeder
    _frozen: set[int] = field(default_factory=set)
    _dead: set[int] = field(default_factory=set)
    _starts: list[threading.Thread] = field(default_factory=list)

    def make_topics(self, row: Row, names: Mapping[str, str]) -> None:
        """Those of a row, by its names."""
        for topic, partitions in row.topics.items():
            if row.replicas:
                three_brokers.topic_on(self.world, names[topic], *row.replicas, records=0)
            else:
                self.world.topic(names[topic], partitions, row.topic_settings)

    def fail(self, do: str, broker: int) -> None:
        """`kill-broker` or `freeze-broker`."""
        if do == "kill-broker":
            self.sandbox.kill(broker)
            self._dead.add(broker)
        else:
            self._signal(broker, signal.SIGSTOP)
            self._frozen.add(broker)

    def is_down(self, broker: int) -> bool:
        """Whether it was killed or frozen, and not started since."""
        return broker in self._dead | self._frozen

    def start_all(self) -> None:
        """The frozen go on at once; the dead start beside all else."""
        self._dead.clear()
        while self._frozen:
            self._signal(self._frozen.pop(), signal.SIGCONT)
        self._starts.append(threading.Thread(target=self.sandbox.up, kwargs={"reporter": QuietReporter()}))
        self._starts[-1].start()

    def all_run(self) -> None:
        """All brokers run, as another play of a row begins, or at the end: what was written to them arrives."""
        self.start_all()
        for start in self._starts:
            start.join()

    def _signal(self, broker: int, number: signal.Signals) -> None:
        BrokerProcess(broker, self.sandbox.directory).daemon.signal(number)


@contextmanager
def cluster(directory: Path, name: str) -> Iterator[Cluster]:
    """Running while the block does, except for those that a row kills."""
    brokers = 1 if name == ONE else 3
    sandbox = Sandbox(directory)
    try:
        status = sandbox.up(brokers=brokers, properties=PROPERTIES[brokers], reporter=QuietReporter())
        assert status.bootstrap_servers
        with KafkaWorld(status.bootstrap_servers) as world, Feeder(status.bootstrap_servers) as feeder:
            made = Cluster(sandbox, world, feeder)
            yield made
            if name != ONE:
                made.all_run()
    finally:
        sandbox.down(wipe=True, reporter=QuietReporter())
