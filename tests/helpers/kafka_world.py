"""The cluster as tests set it up and read it back: plain clients, none of kgroup's own code."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import kafka.errors
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from kafka.admin import KafkaAdminClient
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest
from kafka.protocol.consumer import JoinGroupRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.helpers.waiting import wait_for

T = TypeVar("T")

_RETRIABLE = (
    kafka.errors.CoordinatorLoadInProgressError,
    kafka.errors.CoordinatorNotAvailableError,
    kafka.errors.NotCoordinatorError,
    kafka.errors.KafkaConnectionError,
    kafka.errors.NodeNotReadyError,  # for a while after a connection to that broker was refused
)
"""What is asked again, since it passes when the groups of a dead broker have moved to another."""


class KafkaWorld:
    """Topics, records, commits."""

    def __init__(self, bootstrap: str, client_id: str = f"kafka-python-{kafka.__version__}") -> None:
        self.bootstrap = bootstrap
        # Brokers of some tests end before their clients do, which would say so on the stderr of other tests.
        quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(quiet)
        self._groups = KafkaAdminClient(bootstrap_servers=bootstrap, client_id=client_id)
        # One request at a time: a batch that is sent again, since its topic is new, does not come after later ones.
        self._producer = Producer({**quiet, "acks": "all", "linger.ms": 0, "max.in.flight": 1})

    def __enter__(self) -> KafkaWorld:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._groups.close()
        self._groups._net.close()  # which its own close() forgets

    def topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Make a topic; returns its name."""
        new = NewTopic(name, partitions, 1, config=dict(config or {}))
        self._admin.create_topics([new])[name].result(30)
        wait_for(lambda: self._known_partitions(name) == partitions, f"topic {name}")
        # A broker knows a partition before it has its log. What it refuses then, librdkafka sends again after later
        # records (2 of 300 topics, with one request at a time too), or, if idempotent, loses (seen on 4.4.0).
        wait_for(lambda: self._have_logs(name, partitions), f"the logs of {name}")
        return name

    def _have_logs(self, name: str, partitions: int) -> bool:
        places = {ClientPartition(name, number): OffsetSpec.latest() for number in range(partitions)}
        return all(answer.exception(30) is None for answer in self._admin.list_offsets(places).values())

    def topics(self) -> frozenset[str]:
        """The names of all topics."""
        return frozenset(self._admin.list_topics(timeout=30).topics)

    def topic_id(self, name: str) -> str:
        """The id of a topic, as Kafka writes it."""
        found = self._admin.describe_topics(TopicCollection([name]))[name].result(30)
        return str(found.topic_id).translate(str.maketrans("+/", "-_"))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until the broker has forgotten it."""
        self._admin.delete_topics([name])[name].result(30)
        wait_for(lambda: self._known_partitions(name) == 0, f"topic {name} gone")

    def add_partitions(self, name: str, total: int) -> None:
        """Raise the number of partitions."""
        self._admin.create_partitions([NewPartitions(name, total)])[name].result(30)
        wait_for(lambda: self._known_partitions(name) == total, f"{total} partitions of {name}")
        self._admin.list_topics(name, 30)  # else it asks for offsets of those that it knew before (librdkafka 2.x)

    def produce(self, topic: str, count: int, partition: int = 0, value: bytes = b"x") -> None:
        """Append ``count`` records to a partition."""
        for _ in range(count):
            self._producer.produce(topic, value, partition=partition)
        assert self._producer.flush(30) == 0

    def produce_in_transaction(self, topic: str, count: int, partition: int = 0, *, abort: bool = False) -> None:
        """Append ``count`` records to a partition, and the marker of their transaction."""
        settings = {"transactional.id": f"world-{secrets.token_hex(4)}", "log_level": 0}
        producer = Producer({"bootstrap.servers": self.bootstrap, **settings})
        producer.init_transactions(30)
        producer.begin_transaction()
        marker = self.end(topic, partition) + count
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
        assert producer.flush(30) == 0
        (producer.abort_transaction if abort else producer.commit_transaction)(30)
        # The end of a transaction is answered a moment before its partitions have the marker.
        wait_for(lambda: self.end(topic, partition) > marker, f"the marker of a transaction in {topic}:{partition}")

    def produce_at(
        self, topic: str, partition: int, times_ms: Sequence[int], key: bytes | None = None, value: bytes = b"x"
    ) -> None:
        """Append a record for each of these timestamps, in this order."""
        for time_ms in times_ms:
            self._producer.produce(topic, value, key, partition=partition, timestamp=time_ms)
        assert self._producer.flush(30) == 0

    def end(self, topic: str, partition: int = 0) -> int:
        """The offset that its next record will have."""
        place = ClientPartition(topic, partition)
        return int(self._admin.list_offsets({place: OffsetSpec.latest()})[place].result(30).offset)

    def start(self, topic: str, partition: int = 0) -> int:
        """The offset of its first record, or where deleting has moved that to."""
        place = ClientPartition(topic, partition)
        return int(self._admin.list_offsets({place: OffsetSpec.earliest()})[place].result(30).offset)

    def offsets_of_records(self, topic: str, partition: int, first: int, end: int) -> frozenset[int]:
        """Those in [first, end) at which a committed record is: not a marker, nor what compaction or an abort took."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False,
                             "enable.partition.eof": True})  # fmt: skip
        found: set[int] = set()
        try:
            consumer.assign([ClientPartition(topic, partition, first)])
            while not found or max(found) < end - 1:
                (message,) = consumer.consume(1, 10) or (None,)
                offset = None if message is None or message.error() is not None else message.offset()
                if offset is None:
                    break
                found.add(offset)
        finally:
            consumer.close()
        return frozenset(offset for offset in found if offset < end)

    def clients(self, group: str) -> frozenset[str]:
        """The client ids of its members."""
        described = self._admin.describe_consumer_groups([group])[group].result(30)
        return frozenset(member.client_id for member in described.members)

    def records(self, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
        """(key, value) of every record of a partition, in order."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False})
        try:
            start, end = consumer.get_watermark_offsets(ClientPartition(topic, partition), 10)
            consumer.assign([ClientPartition(topic, partition, start)])
            found: list[tuple[bytes | None, bytes | None]] = []
            while len(found) < end - start:
                (message,) = consumer.consume(1, 10) or (None,)
                assert message is not None, f"{len(found)} of {end - start} records of {topic}:{partition}"
                assert message.error() is None, message.error()
                found.append((message.key(), message.value()))
            return found
        finally:
            consumer.close()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move the log start offset."""
        done = self._groups.delete_records({TopicPartition(topic, partition): before})
        assert done

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int | tuple[int, str, int | None]]) -> None:
        """Commit as an administrator: an offset, or (offset, metadata, leader epoch)."""
        wanted = {
            TopicPartition(*place): OffsetAndMetadata(*(given if isinstance(given, tuple) else (given, "", None)))
            for place, given in offsets.items()
        }

        def done() -> bool:
            # That the coordinator has moved is said as an error of each partition.
            answers = self._groups.alter_group_offsets(group, wanted)
            return all(answer is kafka.errors.NoError for answer in answers.values())

        self._asked(lambda: done() or None, f"commit of {group}")

    @contextlib.contextmanager
    def pending(
        self, group: str, offsets: Mapping[tuple[str, int], int], timeout_ms: int = 60_000
    ) -> Iterator[Producer]:
        """Commits of a group without members in an open transaction; aborted with the block, if it is open still."""
        name = f"{group}-{secrets.token_hex(3)}"
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": name, "log_level": 0}
        producer = Producer({**settings, "transaction.timeout.ms": timeout_ms})
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        places = [ClientPartition(*place, offset) for place, offset in offsets.items()]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        consumer.close()
        try:
            yield producer
        finally:
            with contextlib.suppress(KafkaException):
                producer.abort_transaction(30)
            # The end of a transaction is answered a moment before the coordinator of the group has its marker.
            wait_for(lambda: self._is_decided(group, places), f"the transaction in {group} over")

    def _is_decided(self, group: str, places: list[ClientPartition]) -> bool:
        wanted = [
            ConsumerGroupTopicPartitions(group, [ClientPartition(place.topic, place.partition) for place in places])
        ]
        found = self._admin.list_consumer_group_offsets(wanted, require_stable=True)[group].result(30)
        return all(place.error is None for place in found.topic_partitions)

    def committed(self, group: str) -> dict[tuple[str, int], tuple[int, str]]:
        """(offset, metadata) by (topic, partition)."""
        found = self._asked(lambda: self._groups.list_group_offsets(group), f"offsets of {group}")
        return (
            {(tp.topic, tp.partition): (given.offset, given.metadata) for tp, given in found[group].items()}
            if (group in found)
            else {(tp.topic, tp.partition): (given.offset, given.metadata) for tp, given in found.items()}
        )

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Committed offsets by (topic, partition)."""
        return {place: offset for place, (offset, _) in self.committed(group).items()}

    def exact(self, group: str) -> dict[tuple[str, int], tuple[int, str, int | None]]:
        """(offset, metadata, leader epoch) by (topic, partition): all that a commit consists of."""
        found = self._asked(lambda: self._groups.list_group_offsets(group), f"offsets of {group}")
        of_group = found.get(group, {}) if all(isinstance(key, str) for key in found) else found
        return {
            (place.topic, place.partition): (
                given.offset,
                given.metadata,
                None if given.leader_epoch in (None, -1) else given.leader_epoch,
            )
            for place, given in of_group.items()
        }

    def groups(self) -> dict[str, tuple[str, str]]:
        """(type, state) of every group, in lower case; brokers before 4.0 know one type."""
        listed = self._asked(self._groups.list_groups, "all groups")
        return {found["group_id"]: (found.get("group_type", "classic").lower(), found["group_state"].lower())
                for found in listed}  # fmt: skip

    def delete_group(self, group: str) -> None:
        """Delete an empty group."""
        self.delete_groups([group])

    def delete_groups(self, groups: Iterable[str]) -> None:
        """Delete empty groups."""
        left = set(groups)

        def done() -> bool:
            left.difference_update(
                group for group, answer in self._groups.delete_groups(sorted(left)).items() if answer == "OK"
            )
            return not left

        wait_for(done, f"{', '.join(sorted(left)[:3])} deleted")

    def join_as(self, group: str, protocol_type: str) -> None:
        """A first member of another framework's protocol type, which stops at joining: the group stands there."""
        member = ""
        for _ in range(2):  # the first answer only gives the member id
            answer = self._to_coordinator(
                group,
                JoinGroupRequest[7](
                    group_id=group,
                    session_timeout_ms=30000,
                    rebalance_timeout_ms=30000,
                    member_id=member,
                    group_instance_id=None,
                    protocol_type=protocol_type,
                    protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="sessioned", metadata=b"\0\1\xff")],
                ),
            )
            member = answer.member_id
        assert answer.error_code == 0, answer

    def share_group(self, group: str, topic: str) -> None:
        """A share group (KIP-932) of one member, that never comes back: one ShareGroupHeartbeat, by hand."""

        body = _text(group) + _text("m" * 22) + struct.pack(">i", 0) + b"\0" + b"\2" + _text(topic) + b"\0"
        self._heartbeat(76, 1, body, f"share group {group}")

    def streams_group(
        self, group: str, topic: str, *, repartition: str = "", changelog: str = "", stopped: bool = False
    ) -> None:
        """A streams group (KIP-1071) of one member, by StreamsGroupHeartbeats by hand; ``stopped``: it left again.

        The broker makes its internal topics, of as many partitions as the topic has (a repartition topic has one).
        Commits of an Empty group of consumers stay when it becomes one.
        """
        # A subtopology that reads the topic: no patterns, writes no repartition topic, nothing copartitioned.
        changelogs, repartitions = _internal(changelog, 0), _internal(repartition, 1)
        reading = b"\2" + _text("0") + b"\2" + _text(topic) + b"\1" + changelogs + b"\1" + repartitions + b"\1" + b"\0"
        topology = b"\1" + struct.pack(">i", 0) + reading + b"\0"
        no_tasks, process, no_endpoint, no_tags, no_offsets = b"\1" * 3, _text("p" * 22), b"\xff", b"\1", b"\0" * 2

        def body(epoch: int, of_first: bytes) -> bytes:
            """Epoch -1 is a farewell."""
            head = _text(group) + _text("m" * 22) + struct.pack(">ii", epoch, 0) + b"\0" * 2
            return head + struct.pack(">i", 60_000) + of_first + no_offsets + b"\0" * 2

        first = topology + no_tasks + process + no_endpoint + no_tags
        self._heartbeat(88, 0, body(0, first), f"streams group {group}")
        if stopped:
            nothing = b"\xff" + b"\0" * 4 + b"\xff" + b"\0"
            self._heartbeat(88, 0, body(-1, nothing), f"streams group {group} stopped")

    def _heartbeat(self, api_key: int, version: int, body: bytes, what: str) -> None:
        """Send a request of the newer heartbeats to each broker in turn, until the coordinator has taken it."""
        request = struct.pack(">hhih", api_key, version, 1, -1) + b"\0" + body
        addresses = itertools.cycle(self.bootstrap.split(","))

        def joined() -> bool:
            host, _, port = next(addresses).rpartition(":")
            with socket.create_connection((host, int(port)), 10) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                answer = connection.recv(4096)
            (error,) = struct.unpack_from(">h", answer, 4 + 4 + 1 + 4)
            assert error in (0, 14, 15, 16), f"{what}: error {error}"
            return bool(error == 0)

        wait_for(joined, what)

    def _to_coordinator(self, group: str, request: Any) -> Any:
        async def send() -> Any:
            node = await self._groups._find_coordinator_id(group)
            return await self._groups._manager.send(request, node_id=node)

        return self._groups._manager.run(send)

    def coordinator(self, group: str) -> int:
        """The number of the broker that keeps a group."""
        found = self._asked(
            lambda: self._groups._manager.run(lambda: self._groups._find_coordinator_id(group)),
            f"coordinator of {group}",
        )
        return int(found)

    def leader(self, topic: str, partition: int) -> int:
        """The number of the broker that leads a partition."""
        return int(self._admin.list_topics(topic, 30).topics[topic].partitions[partition].leader)

    def configure_group(self, group: str, **settings: str) -> None:
        """Dynamic settings of a group, with _ for the dots."""
        resource = ConfigResource(ConfigResource.Type.GROUP, group)
        wanted = {key.replace("_", "."): value for key, value in settings.items()}
        for key, value in wanted.items():
            resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET))
        self._admin.incremental_alter_configs([resource])[resource].result(30)
        wait_for(lambda: wanted.items() <= self._group_config(group).items(), f"settings of {group}")

    def group_config(self, group: str) -> dict[str, str]:
        """The dynamic settings that a group has of its own.

        The controller says that it has written them a moment before the broker has them, which learns of all changes in
        their order: once it knows of one that is made now, it knows of all before it.
        """
        self.configure_group(f"caught-up-{secrets.token_hex(4)}", consumer_session_timeout_ms="20000")
        return self._group_config(group)

    def quota(
        self,
        client_id: str | None,
        bytes_per_s: int | None,
        *,
        user: str | None = None,
        key: str = "consumer_byte_rate",
    ) -> None:
        """What clients of this id ("": each), of a user, or of both, may read; None: as much as they will again."""
        entry = AlterClientQuotasRequest.EntryData
        who = [
            entry.EntityData(entity_type=kind, entity_name=name or None)
            for kind, name in (("client-id", client_id), ("user", user))
            if name is not None
        ]
        what = entry.OpData(key=key, value=float(bytes_per_s or 0), remove=bytes_per_s is None)
        request = AlterClientQuotasRequest(entries=[entry(entity=who, ops=[what])], validate_only=False)
        node = min(broker.node_id for broker in self._groups._manager.cluster.brokers())
        answer = self._groups._manager.run(lambda: self._groups._manager.send(request, node))
        assert [one.error_code for one in answer.entries] == [0], answer

    def _group_config(self, group: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.GROUP, group)
        found = self._admin.describe_configs([resource])[resource].result(30)
        return {key: entry.value for key, entry in found.items() if entry.source == ConfigSource.GROUP_CONFIG.value}

    def _asked(self, ask: Callable[[], T | None], what: str) -> T:
        """The answer of a coordinator; asked again while it is None, or the coordinator dies, moves or loads."""

        def once() -> tuple[T] | None:
            self._groups._manager.cluster._coordinators.clear()  # which the client remembers when they have moved
            with contextlib.suppress(*_RETRIABLE):
                found = ask()
                return None if found is None else (found,)
            return None

        (answer,) = wait_for(once, what)
        return answer

    def _known_partitions(self, topic: str) -> int:
        # Of this one alone: there are hundreds of topics, and this client takes a tenth of a second to read them.
        (found,) = self._groups.describe_topics([topic])
        return len(found["partitions"])


def _text(value: str) -> bytes:
    """A compact string of a request."""
    return bytes([len(value.encode()) + 1]) + value.encode()


def _internal(topic: str, partitions: int) -> bytes:
    """A list of no internal topic of a subtopology, or of this one, without settings and of the default replication."""
    return b"\2" + _text(topic) + struct.pack(">ih", partitions, 0) + b"\1\0" if topic else b"\1"


def partitions_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """(topic, partition) of rows of a describe document."""
    return [(row["topic"], row["partition"]) for row in rows]
