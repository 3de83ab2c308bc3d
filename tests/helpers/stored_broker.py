"""A broker that answers from a stored copy of a real one: any client's requests, in any order, any number of times.

It changes nothing and has no clock of its own: ``now_ms`` is what it says. What it does not know it does not answer:
the request is kept in ``unanswered``, and the connection ends.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    CreateTopicsResponse,
    DescribeAclsResponse,
    DescribeClientQuotasResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeLogDirsResponse,
    DescribeProducersResponse,
    DescribeQuorumResponse,
    DescribeTransactionsResponse,
    ListGroupsResponse,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse, OffsetFetchResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse
from kafka.record.memory_records import MemoryRecords

from kgroup.catchup.ledger import transactional_ids
from kgroup.cluster.coordinator.groups import ConsumerGroupDescribeResponse
from kgroup.cluster.coordinator.share_groups import DescribeShareGroupOffsetsResponse, ShareGroupDescribeResponse
from kgroup.cluster.coordinator.streams_groups import StreamsGroupDescribeResponse
from tests.helpers.kafka_proxy import (
    API_VERSIONS,
    CONSUMER_GROUP_DESCRIBE,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    OFFSET_FETCH,
    read_frame,
)
from tests.helpers.stored_cluster import ABSENT, APIS, GROUP, message

FETCH, METADATA, LIST_GROUPS, CREATE_TOPICS, INIT_PRODUCER_ID = 1, 3, 16, 19, 22
DESCRIBE_ACLS, DESCRIBE_CONFIGS, DESCRIBE_CLIENT_QUOTAS = 29, 32, 48
DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM, DESCRIBE_CLUSTER = 35, 55, 60
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
SHARE_GROUP_DESCRIBE, SHARE_GROUP_OFFSETS, STREAMS_GROUP_DESCRIBE = 77, 90, 89

_NEWEST = {FETCH: 12, METADATA: 12, OFFSET_FETCH: 9}
"""The newest versions that name a topic by its name; later ones have its id."""

_OUT_OF_RANGE, _UNKNOWN_TOPIC, _NO_LEADER, _NOT_LEADER, _TOPIC_DENIED, _CLUSTER_DENIED = 1, 3, 5, 6, 29, 31
_NO_GROUP, _DEAD_IS_AN_ERROR = 69, 6
"""What DescribeGroups answers about a group that does not exist or has another type, and since which version."""

_EARLIEST, _LATEST, _NEWEST_TIMESTAMP = -2, -1, -3
_READ_COMMITTED = 1
_NO_ID, _OTHER_ID = UUID(int=0), UUID(int=0xC0FFEE << 96)
_EMPTY_FETCH_S = 0.01
_PROBES_ID = 1_000_000

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(frozen=True)
class Faults:
    """What this broker does not do, though the real one did: show ``hidden`` topics, and read ``unreadable`` ones.

    Where a topic is hidden, ACLs may not be read either, as for most users. ``leaderless`` partitions have no leader.
    ``recreated`` topics have another id than at the time of the commits.
    """

    hidden: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()
    leaderless: frozenset[Place] = frozenset()
    recreated: frozenset[str] = frozenset()


NO_FAULTS = Faults()


@dataclass(frozen=True)
class StoredLog:
    """A partition's log: its bounds, its batches with their last offsets, and who aborted from where."""

    start: int
    end: int
    stable: int
    aborted: tuple[tuple[int, int], ...]
    batches: tuple[tuple[int, bytes], ...]

    @classmethod
    def of(cls, stored: dict[str, Any]) -> StoredLog:
        """... of a stored one."""
        data = zlib.decompress(base64.b64decode(stored["batches"]))
        batches, at = [], 0
        while at < len(data):
            base, length = struct.unpack_from(">qi", data, at)
            (last,) = struct.unpack_from(">i", data, at + 23)
            batches.append((base + last, data[at : at + 12 + length]))
            at += 12 + length
        aborted = tuple((producer, first) for producer, first in stored["aborted"])
        return cls(stored["start"], stored["end"], stored["stable"], aborted, tuple(batches))

    def read(self, offset: int, below: int, max_bytes: int, *, whole_first: bool) -> bytes:
        """The batches from the one with this offset on; ``whole_first``: one of them also if it is larger."""
        found = bytearray()
        for last, batch in self.batches:
            if last < offset:
                continue
            (base,) = struct.unpack_from(">q", batch)
            if base >= below or (len(found) + len(batch) > max_bytes and (found or not whole_first)):
                break
            found += batch
        return bytes(found)

    @cached_property
    def times(self) -> tuple[tuple[int, int], ...]:
        """(timestamp, offset) of each record, markers included."""
        found = []
        for _, data in self.batches:
            for batch in iter(MemoryRecords(data).next_batch, None):
                found += [(record.timestamp, record.offset) for record in batch]
        return tuple(found)

    def at(self, timestamp: int, isolation: int) -> tuple[int, int]:
        """(timestamp, offset) as ListOffsets answers it; -1, -1 where no record is so young."""
        end = self.stable if isolation == _READ_COMMITTED else self.end
        if timestamp == _EARLIEST:
            return -1, self.start
        if timestamp == _LATEST:
            return -1, end
        known = [(time, offset) for time, offset in self.times if self.start <= offset < end]
        if timestamp == _NEWEST_TIMESTAMP:
            return max(known, key=lambda each: (each[0], -each[1]), default=(-1, -1))
        return next((each for each in known if each[0] >= timestamp), (-1, -1))


@dataclass
class StoredBroker:
    """Listens until the block ends; ``copy`` is what ``stored_cluster`` has read."""

    copy: dict[str, Any]
    now_ms: int
    faults: Faults = NO_FAULTS
    unanswered: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._logs: dict[Place, StoredLog] = {}
        self._open: list[socket.socket] = []
        self._answer: dict[int, Callable[[Any], Any]] = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            FIND_COORDINATOR: self._coordinator,
            LIST_GROUPS: self._listed,
            DESCRIBE_GROUPS: self._classic,
            CONSUMER_GROUP_DESCRIBE: self._consumer,
            SHARE_GROUP_DESCRIBE: self._share,
            SHARE_GROUP_OFFSETS: self._share_offsets,
            STREAMS_GROUP_DESCRIBE: self._streams,
            OFFSET_FETCH: self._offsets,
            LIST_OFFSETS: self._list_offsets,
            FETCH: self._fetch,
            DESCRIBE_CONFIGS: self._configs,
            DESCRIBE_LOG_DIRS: self._log_dirs,
            DESCRIBE_PRODUCERS: self._producers,
            LIST_TRANSACTIONS: self._transactions,
            DESCRIBE_TRANSACTIONS: self._described_transactions,
            DESCRIBE_CLUSTER: self._cluster,
            DESCRIBE_QUORUM: self._quorum,
            DESCRIBE_ACLS: self._acls,
            DESCRIBE_CLIENT_QUOTAS: self._client_quotas,
            CREATE_TOPICS: self._valid_topics,
            INIT_PRODUCER_ID: self._producer_id,
        }

    def __enter__(self) -> StoredBroker:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @property
    def bootstrap(self) -> str:
        """Its address."""
        return f"127.0.0.1:{self.port}"

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while frame := read_frame(client):
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame, 4)
                try:
                    answer = self._answer[api_key](
                        APIS[api_key][0].decode(frame, version=version, header=True, framed=True)
                    )
                    answer.API_VERSION = version
                    answer.with_header(correlation_id)
                    data = bytes(answer.encode(header=True, framed=True))
                except Exception as error:  # else it would be a warning of a thread, and a broker that is silent
                    self.unanswered.append(f"API {api_key}, version {version}: {error!r}")
                    return
                client.sendall(data)

    def _log(self, place: Place) -> StoredLog | None:
        name = f"{place[0]}:{place[1]}"
        if place not in self._logs and name in self.copy["logs"]:
            self._logs[place] = StoredLog.of(self.copy["logs"][name])
        return self._logs.get(place)

    def _error(self, place: Place, *, reading: bool) -> int:
        if place[0] in self.faults.hidden or (reading and place[0] in self.faults.unreadable):
            return _TOPIC_DENIED
        if place in self.faults.leaderless:
            return _NOT_LEADER
        return 0 if self._log(place) else _UNKNOWN_TOPIC

    def _api_versions(self, _: Any) -> Any:
        answer = message(ApiVersionsResponse, self.copy["api_versions"])
        for row in answer.api_keys:
            row.max_version = min(row.max_version, _NEWEST.get(row.api_key, row.max_version))
        return answer

    def _placed(self, answer: Any) -> Any:
        for broker in answer.brokers:
            broker.host, broker.port = "127.0.0.1", self.port
        return answer

    def _metadata(self, request: Any) -> Any:
        answer = self._placed(message(MetadataResponse, self.copy["metadata"]))
        for topic in answer.topics:
            if topic.name in self.faults.recreated:
                topic.topic_id = _OTHER_ID
        known = {topic.name: topic for topic in answer.topics}
        names = {topic.topic_id: topic.name for topic in answer.topics}
        if request.topics is None:
            answer.topics = [topic for name, topic in known.items() if name not in self.faults.hidden]
        else:
            wanted = [names.get(row.topic_id) if row.name is None else row.name for row in request.topics]
            answer.topics = [self._topic(known.get(name), name) for name in wanted if name is not None]
        for topic in answer.topics:
            for row in topic.partitions:
                if (topic.name, row.partition_index) in self.faults.leaderless:
                    row.error_code, row.leader_id, row.isr_nodes = _NO_LEADER, -1, []
        return answer

    def _topic(self, known: Any, name: str) -> Any:
        if known is not None and name not in self.faults.hidden:
            return known
        error = _UNKNOWN_TOPIC if known is None else _TOPIC_DENIED
        return MetadataResponse.MetadataResponseTopic(
            error_code=error, name=name, topic_id=_NO_ID, is_internal=False, partitions=[],
            authorized_operations=set(),
        )  # fmt: skip

    def _coordinator(self, request: Any) -> Any:
        broker = self.copy["metadata"]["brokers"][0]["node_id"]
        row = FindCoordinatorResponse.Coordinator
        return FindCoordinatorResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            node_id=broker,
            host="127.0.0.1",
            port=self.port,
            coordinators=[
                row(key=key, node_id=broker, host="127.0.0.1", port=self.port, error_code=0, error_message=None)
                for key in request.coordinator_keys or ()
            ],
        )

    def _listed(self, request: Any) -> Any:
        answer = message(ListGroupsResponse, self.copy["listed"])
        states, types = (
            {text.lower() for text in wanted or ()} for wanted in (request.states_filter, request.types_filter)
        )
        answer.groups = [
            row
            for row in answer.groups
            if (not states or row.group_state.lower() in states) and (not types or row.group_type.lower() in types)
        ]
        return answer

    def _of_group(self, kind: str, part: Any, group: str) -> Any:
        rows = self.copy[kind]
        row = message(part, rows.get(group) or rows[ABSENT])
        row.group_id = group
        return row

    def _classic(self, request: Any) -> Any:
        part = DescribeGroupsResponse.DescribedGroup
        rows = [self._of_group("classic", part, group) for group in request.groups]
        if request.version >= _DEAD_IS_AN_ERROR:
            for row in rows:
                if row.group_state == "Dead":
                    row.error_code, row.error_message = _NO_GROUP, f"Group {row.group_id} not found."
        return DescribeGroupsResponse(throttle_time_ms=0, groups=rows)

    def _consumer(self, request: Any) -> Any:
        part = ConsumerGroupDescribeResponse.DescribedGroup
        rows = [self._of_group("consumer", part, group) for group in request.group_ids]
        return ConsumerGroupDescribeResponse(throttle_time_ms=0, groups=rows)

    def _share(self, request: Any) -> Any:
        part = ShareGroupDescribeResponse.DescribedGroup
        rows = [self._of_group("share", part, group) for group in request.group_ids]
        return ShareGroupDescribeResponse(throttle_time_ms=0, groups=rows)

    def _share_offsets(self, request: Any) -> Any:
        part = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
        rows = [self._of_group("share_offsets", part, asked.group_id) for asked in request.groups]
        return DescribeShareGroupOffsetsResponse(throttle_time_ms=0, groups=rows)

    def _streams(self, request: Any) -> Any:
        part = StreamsGroupDescribeResponse.DescribedGroup
        rows = [self._of_group("streams", part, group) for group in request.group_ids]
        return StreamsGroupDescribeResponse(throttle_time_ms=0, groups=rows)

    def _offsets(self, request: Any) -> Any:
        kind = "stable_offsets" if request.require_stable else "offsets"
        rows = []
        for asked in request.groups:
            row = self._of_group(kind, OffsetFetchResponse.OffsetFetchResponseGroup, asked.group_id)
            row.topics = [topic for topic in row.topics if topic.name not in self.faults.hidden]
            if asked.topics is not None:
                wanted = {(topic.name, number) for topic in asked.topics for number in topic.partition_indexes}
                for topic in row.topics:
                    topic.partitions = [
                        each for each in topic.partitions if (topic.name, each.partition_index) in wanted
                    ]
                row.topics = [topic for topic in row.topics if topic.partitions]
            rows.append(row)
        return OffsetFetchResponse(throttle_time_ms=0, groups=rows)

    def _list_offsets(self, request: Any) -> Any:
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                place = topic.name, asked.partition_index
                error, log = self._error(place, reading=False), self._log(place)
                found = (-1, -1) if error or log is None else log.at(asked.timestamp, request.isolation_level)
                rows.append(
                    kind.ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=error, timestamp=found[0], offset=found[1],
                        leader_epoch=-1 if error or found[1] < 0 else 0,
                    )
                )  # fmt: skip
            topics.append(kind(name=topic.name, partitions=rows))
        return ListOffsetsResponse(throttle_time_ms=0, topics=topics)

    def _fetch(self, request: Any) -> Any:
        left, empty, topics = request.max_bytes, True, []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                row = self._fetched(topic.topic, asked, request.isolation_level, left, first=empty)
                left, empty = left - len(row.records), empty and not row.records
                rows.append(row)
            topics.append(FetchResponse.FetchableTopicResponse(topic=topic.topic, partitions=rows))
        if empty:
            threading.Event().wait(_EMPTY_FETCH_S)
        return FetchResponse(throttle_time_ms=0, error_code=0, session_id=0, responses=topics)

    def _fetched(self, topic: str, asked: Any, isolation: int, left: int, *, first: bool) -> Any:
        kind = FetchResponse.FetchableTopicResponse.PartitionData
        place = topic, asked.partition
        error, log = self._error(place, reading=True), self._log(place)
        if not error and log and not log.start <= asked.fetch_offset <= log.end:
            error = _OUT_OF_RANGE
        if error or log is None:
            return kind(
                partition_index=asked.partition, error_code=error, high_watermark=-1, last_stable_offset=-1,
                log_start_offset=-1, aborted_transactions=None, preferred_read_replica=-1, records=b"",
            )  # fmt: skip
        below = log.stable if isolation == _READ_COMMITTED else log.end
        size = min(left, asked.partition_max_bytes)
        records = log.read(asked.fetch_offset, below, size, whole_first=first)
        aborted = [kind.AbortedTransaction(producer_id=who, first_offset=offset) for who, offset in log.aborted]
        return kind(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=log.end,
            last_stable_offset=log.stable,
            log_start_offset=log.start,
            aborted_transactions=aborted if isolation == _READ_COMMITTED else None,
            preferred_read_replica=-1,
            records=records,
        )

    def _configs(self, request: Any) -> Any:
        return DescribeConfigsResponse(throttle_time_ms=0, results=[self._config(asked) for asked in request.resources])

    def _config(self, asked: Any) -> Any:
        row = DescribeConfigsResponse.DescribeConfigsResult
        of_kind, name = self.copy["configs"][str(asked.resource_type)], asked.resource_name
        error = _TOPIC_DENIED if name in self.faults.hidden else 0
        if name not in of_kind and asked.resource_type != GROUP:  # a group need not exist
            error = _UNKNOWN_TOPIC
        entries = {} if error else of_kind[ABSENT] | of_kind.get(name, {})
        return row(
            error_code=error,
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=name,
            configs=[
                row.DescribeConfigsResourceResult(
                    name=key, value=value, read_only=False, config_source=source, is_sensitive=False, synonyms=[],
                    config_type=kind, documentation=None,
                )
                for key, (value, source, kind) in entries.items()
                if asked.configuration_keys is None or key in asked.configuration_keys
            ],
        )  # fmt: skip

    def _log_dirs(self, request: Any) -> Any:
        answer = message(DescribeLogDirsResponse, self.copy["log_dirs"])
        if request.topics is not None:
            wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
            for directory in answer.results:
                for topic in directory.topics:
                    topic.partitions = [row for row in topic.partitions if (topic.name, row.partition_index) in wanted]
                directory.topics = [topic for topic in directory.topics if topic.partitions]
        return answer

    def _producers(self, request: Any) -> Any:
        answer = message(DescribeProducersResponse, self.copy["producers"])
        wanted = {(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
        for topic in answer.topics:
            topic.partitions = [row for row in topic.partitions if (topic.name, row.partition_index) in wanted]
            for row in topic.partitions:
                row.error_code = self._error((topic.name, row.partition_index), reading=True)
        answer.topics = [topic for topic in answer.topics if topic.partitions]
        return answer

    def _transactions(self, request: Any) -> Any:
        answer = message(ListTransactionsResponse, self.copy["transactions"])
        states, producers = request.state_filters, request.producer_id_filters
        answer.transaction_states = [
            row
            for row in answer.transaction_states
            if (not states or row.transaction_state in states) and (not producers or row.producer_id in producers)
        ]
        return answer

    def _described_transactions(self, request: Any) -> Any:
        answer = message(DescribeTransactionsResponse, self.copy["described_transactions"])
        answer.transaction_states = [
            row for row in answer.transaction_states if row.transactional_id in request.transactional_ids
        ]
        return answer

    def _cluster(self, _: Any) -> Any:
        answer = self._placed(message(DescribeClusterResponse, self.copy["cluster"]))
        if self.faults.hidden:
            answer.authorized_operations = set()
        return answer

    def _quorum(self, _: Any) -> Any:
        answer = message(DescribeQuorumResponse, self.copy["quorum"])
        for row in answer.topics[0].partitions[0].current_voters:
            row.last_caught_up_timestamp = row.last_fetch_timestamp = self.now_ms
        return answer

    def _client_quotas(self, _: Any) -> Any:
        """No situation has one."""
        return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=0, error_message=None, entries=[])

    def _acls(self, _: Any) -> Any:
        answer = message(DescribeAclsResponse, self.copy["acls"])
        if self.faults.hidden:
            answer.error_code, answer.error_message = _CLUSTER_DENIED, None
        return answer

    def _valid_topics(self, request: Any) -> Any:
        assert request.validate_only, "it changes nothing"
        row = CreateTopicsResponse.CreatableTopicResult
        return CreateTopicsResponse(
            throttle_time_ms=0,
            topics=[
                row(
                    name=topic.name, topic_id=_NO_ID, error_code=0, error_message=None,
                    topic_config_error_code=0, num_partitions=topic.num_partitions,
                    replication_factor=topic.replication_factor, configs=[],
                )
                for topic in request.topics
            ],
        )  # fmt: skip

    def _producer_id(self, request: Any) -> Any:
        assert request.transactional_id == transactional_ids.PROBE, "it changes nothing"
        return InitProducerIdResponse(throttle_time_ms=0, error_code=0, producer_id=_PROBES_ID, producer_epoch=0)
