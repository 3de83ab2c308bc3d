"""What a broker answers about its groups, topics and logs, as text: made once from a real one, read by StoredBroker.

It holds state, not traffic: a row for each group, topic, configuration and transaction, and the logs' own bytes. So it
answers requests in any order and of any size, also those that nobody had sent when it was made.
"""

from __future__ import annotations

import base64
import json
import socket
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from kafka.protocol.admin import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafka.protocol.data_container import DataContainer
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from kgroup.cluster.coordinator.groups import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kgroup.cluster.coordinator.share_groups import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from kgroup.cluster.coordinator.streams_groups import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from tests.helpers.kafka_proxy import read_frame

APIS: dict[int, tuple[Any, Any]] = {
    request.API_KEY: (request, response)
    for request, response in (
        (FetchRequest, FetchResponse),
        (ListOffsetsRequest, ListOffsetsResponse),
        (MetadataRequest, MetadataResponse),
        (OffsetFetchRequest, OffsetFetchResponse),
        (FindCoordinatorRequest, FindCoordinatorResponse),
        (DescribeGroupsRequest, DescribeGroupsResponse),
        (ListGroupsRequest, ListGroupsResponse),
        (ApiVersionsRequest, ApiVersionsResponse),
        (CreateTopicsRequest, CreateTopicsResponse),
        (InitProducerIdRequest, InitProducerIdResponse),
        (DescribeAclsRequest, DescribeAclsResponse),
        (DescribeClientQuotasRequest, DescribeClientQuotasResponse),
        (DescribeConfigsRequest, DescribeConfigsResponse),
        (DescribeLogDirsRequest, DescribeLogDirsResponse),
        (DescribeQuorumRequest, DescribeQuorumResponse),
        (DescribeClusterRequest, DescribeClusterResponse),
        (DescribeProducersRequest, DescribeProducersResponse),
        (DescribeTransactionsRequest, DescribeTransactionsResponse),
        (ListTransactionsRequest, ListTransactionsResponse),
        (ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse),
        (ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        (DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse),
        (StreamsGroupDescribeRequest, StreamsGroupDescribeResponse),
    )
}
"""Request and response, by API key: everything that the reading verbs and plans send."""

ABSENT = ""
"""The key of the answer about a group that does not exist."""

TOPIC, BROKER, GROUP = 2, 4, 32
"""What has a configuration."""

_ANY, _READ_COMMITTED = 1, 1
_FETCH_BYTES = 64 * 1024 * 1024
_EARLIEST, _LATEST = -2, -1

_FORMS: dict[str, Callable[[Any], Any]] = {"base64": base64.b64decode, "uuid": UUID, "set": set}
"""What JSON has no form for."""


def plain(value: Any) -> Any:
    """A message of kafka-python, or a part of one, as JSON has it."""
    if isinstance(value, DataContainer):
        return {name: plain(getattr(value, name)) for name in value._struct.fields}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, UUID):
        return {"uuid": str(value)}
    if isinstance(value, set | frozenset):
        return {"set": sorted(value)}
    return value


def message(kind: Any, value: Mapping[str, Any]) -> Any:
    """The message, or the part of one, that ``plain`` made this of."""
    return kind(**{name: _field(kind._struct.fields[name], inner) for name, inner in value.items()})


def _field(field: Any, value: Any) -> Any:
    if field.is_struct_array() and value is not None:
        return [message(field.data_class, each) for each in value]
    if field.is_struct() and value is not None:
        return message(field.data_class, value)
    if isinstance(value, dict):
        ((form, inner),) = value.items()
        return _FORMS[form](inner)
    return value


class _Connection:
    """One request after the other to the only broker of a cluster."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), 30)

    def ask(self, request: Any, version: int) -> Any:
        request.with_header(1, "recorder")
        self._socket.sendall(bytes(request.encode(version=version, header=True, framed=True)))
        _, response = APIS[request.API_KEY]
        return response.decode(read_frame(self._socket), version=version, header=True, framed=True)

    def close(self) -> None:
        self._socket.close()


def copy_of(bootstrap: str) -> dict[str, Any]:
    """Everything that a cluster of one broker answers now, as JSON."""
    broker = _Connection(bootstrap)
    try:
        return _copy(broker)
    finally:
        broker.close()


def _copy(broker: _Connection) -> dict[str, Any]:
    quorum = DescribeQuorumRequest.TopicData
    quorum_request = DescribeQuorumRequest(
        topics=[quorum(topic_name="__cluster_metadata", partitions=[quorum.PartitionData(partition_index=0)])]
    )
    clock = broker.ask(quorum_request, 2)
    metadata = broker.ask(
        MetadataRequest(topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=True), 12
    )
    topics = [topic.name for topic in metadata.topics]
    listed = broker.ask(ListGroupsRequest(states_filter=[], types_filter=[]), 5)
    groups = [row.group_id for row in listed.groups]
    copy: dict[str, Any] = {
        "at_ms": max(row.last_caught_up_timestamp for row in clock.topics[0].partitions[0].current_voters),
        "api_versions": plain(
            broker.ask(ApiVersionsRequest(client_software_name="recorder", client_software_version="1"), 4)
        ),
        "cluster": plain(broker.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)),
        "quorum": plain(clock),
        "acls": plain(broker.ask(_every_acl(), 3)),
        "metadata": plain(metadata),
        "listed": plain(listed),
        **_groups(broker, groups),
        "configs": {
            str(TOPIC): _configs(broker, TOPIC, topics),
            str(BROKER): _configs(broker, BROKER, [str(each.node_id) for each in metadata.brokers]),
            str(GROUP): _configs(broker, GROUP, [*groups, "absent"]),
        },
        "log_dirs": plain(broker.ask(DescribeLogDirsRequest(topics=None), 4)),
        **_transactions(broker, metadata),
    }
    copy["logs"] = {
        f"{topic.name}:{row.partition_index}": _log(broker, topic.name, row.partition_index)
        for topic in metadata.topics
        for row in topic.partitions
    }
    return copy


def _every_acl() -> Any:
    return DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def _groups(broker: _Connection, groups: Iterable[str]) -> dict[str, Any]:
    """Each group as all types of it are described, its offsets, and those that no transaction is about to replace.

    What says only that a group is no share group, or no streams group, is not kept.
    """
    kinds = ("classic", "consumer", "share", "share_offsets", "streams", "offsets", "stable_offsets")
    copy: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for name in (*groups, ABSENT):
        asked = name or "absent"
        (classic,) = broker.ask(DescribeGroupsRequest(groups=[asked], include_authorized_operations=True), 5).groups
        consumer_request = ConsumerGroupDescribeRequest(group_ids=[asked], include_authorized_operations=False)
        (consumer,) = broker.ask(consumer_request, consumer_request.max_version).groups
        copy["classic"][name], copy["consumer"][name] = plain(classic), plain(consumer)
        share_request = ShareGroupDescribeRequest(group_ids=[asked], include_authorized_operations=False)
        (share,) = broker.ask(share_request, 1).groups
        if name == ABSENT or share.error_code == 0:
            part = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
            starts_request = DescribeShareGroupOffsetsRequest(groups=[part(group_id=asked, topics=None)])
            (starts,) = broker.ask(starts_request, 1).groups
            copy["share"][name], copy["share_offsets"][name] = plain(share), plain(starts)
        streams_request = StreamsGroupDescribeRequest(group_ids=[asked], include_authorized_operations=False)
        (streams,) = broker.ask(streams_request, 1).groups
        if name == ABSENT or streams.error_code == 0:
            copy["streams"][name] = plain(streams)
        for key, stable in (("offsets", False), ("stable_offsets", True)):
            row = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=asked, topics=None)
            (offsets,) = broker.ask(OffsetFetchRequest(groups=[row], require_stable=stable), 9).groups
            copy[key][name] = plain(offsets)
    return copy


def _configs(broker: _Connection, kind: int, names: Iterable[str]) -> dict[str, Any]:
    """The configuration of each, without what all of a kind have alike: that is at ``ABSENT``, once."""
    rows = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        for name in names
    ]
    answers = broker.ask(DescribeConfigsRequest(resources=rows), 4).results
    entries = {
        row.resource_name: {each.name: [each.value, each.config_source, each.config_type] for each in row.configs}
        for row in answers
    }
    first, *others = entries.values()
    alike = {name: entry for name, entry in first.items() if all(each.get(name) == entry for each in others)}
    of_each = {
        resource: {name: entry for name, entry in of.items() if name not in alike} for resource, of in entries.items()
    }
    return {ABSENT: alike, **of_each}


def _transactions(broker: _Connection, metadata: Any) -> dict[str, Any]:
    wanted = DescribeProducersRequest.TopicRequest
    producers = DescribeProducersRequest(
        topics=[
            wanted(name=topic.name, partition_indexes=[row.partition_index for row in topic.partitions])
            for topic in metadata.topics
        ]
    )
    listed = broker.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), 0)
    ids = [row.transactional_id for row in listed.transaction_states]
    described = broker.ask(DescribeTransactionsRequest(transactional_ids=ids), 0)
    return {
        "producers": plain(broker.ask(producers, 0)),
        "transactions": plain(listed),
        "described_transactions": plain(described),
    }


def _log(broker: _Connection, topic: str, number: int) -> dict[str, Any]:
    """A partition's bounds, the transactions in it that were aborted, and its batches."""
    start = _bound(broker, topic, number, _EARLIEST, 0)
    row = FetchRequest.FetchTopic.FetchPartition(
        partition=number,
        current_leader_epoch=-1,
        fetch_offset=start,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=_FETCH_BYTES,
    )
    fetched = []
    for isolation in (0, _READ_COMMITTED):
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_FETCH_BYTES,
            isolation_level=isolation,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[row])],
        )
        fetched.append(broker.ask(request, 12).responses[0].partitions[0])
    whole, committed = fetched
    assert whole.error_code == 0, whole
    return {
        "start": start,
        "end": whole.high_watermark,
        "stable": committed.last_stable_offset,
        "aborted": [[each.producer_id, each.first_offset] for each in committed.aborted_transactions or ()],
        "batches": base64.b64encode(zlib.compress(bytes(whole.records or b""), 9)).decode(),
    }


def _bound(broker: _Connection, topic: str, number: int, timestamp: int, isolation: int) -> int:
    wanted = ListOffsetsRequest.ListOffsetsTopic
    row = wanted.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[wanted(name=topic, partitions=[row])]
    )
    return int(broker.ask(request, 7).topics[0].partitions[0].offset)


def write(copy: Mapping[str, Any], path: Path) -> None:
    """One line for each group, topic, configuration and partition, so that a diff shows what changed."""
    path.write_text(_lines(copy, 2) + "\n", encoding="utf-8")


def _lines(value: Any, depth: int) -> str:
    if depth and isinstance(value, dict):
        inner = ",\n".join(f"{json.dumps(key)}: {_lines(each, depth - 1)}" for key, each in value.items())
        return f"{{\n{inner}\n}}"
    return json.dumps(value, separators=(",", ":"))


def read(path: Path) -> dict[str, Any]:
    """What ``write`` has written."""
    copy: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return copy
