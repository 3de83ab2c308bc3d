"""A transaction that nobody will end: open in a partition, and unknown to its coordinator (KIP-664).

Brokers with KIP-890 ask the coordinator before they append; here they are told not to, as older ones never did.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka.admin import KafkaAdminClient
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from tests.helpers.waiting import wait_for

_VERIFICATION = "transaction.partition.verification.enable"
_LONGEST_MS = 1000


def hang(bootstrap: str, topic: str, *, partition: int = 0, records: int = 3, age_ms: int = 0) -> str:
    """Leave such a transaction there, its records written ``age_ms`` ago by their own clock; its transactional id."""
    name = f"hanging-{topic}"
    # It makes the coordinator, and the topic that it keeps its state in.
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
    Producer({**quiet, "transactional.id": name, "transaction.timeout.ms": _LONGEST_MS}).init_transactions(60)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        with _no_verification(bootstrap):
            _append(admin, name, topic, partition, records, round(time.time() * 1000) - age_ms)
    finally:
        admin.close()
        admin._net.close()  # which its own close() forgets
    return name


def hang_offsets(bootstrap: str, group: str, topic: str) -> str:
    """Leave one in ``__consumer_offsets``: a pending commit of 7 on partition 0; its transactional id."""
    name = f"hanging-{group}"
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0}
    Producer({**quiet, "transactional.id": name, "transaction.timeout.ms": _LONGEST_MS}).init_transactions(60)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    rows = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    partition = rows.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
    )
    try:
        producer = _producer(admin, name)

        def pending() -> bool:
            request = TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=group,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[rows(name=topic, partitions=[partition])],
                max_version=4,
            )
            answer = _ask(admin, request)
            return [row.error_code for found in answer.topics for row in found.partitions] == [0]

        with _no_verification(bootstrap):
            wait_for(pending, "a pending commit")
    finally:
        admin.close()
        admin._net.close()  # which its own close() forgets
    return name


def _append(admin: Any, name: str, topic: str, partition: int, records: int, at_ms: int) -> None:
    producer = _producer(admin, name)
    batch = DefaultRecordBatchBuilder(2, 0, True, producer.producer_id, producer.producer_epoch, 0, 1 << 20)
    for number in range(records):
        batch.append(number, at_ms, None, b"held", [])
    rows = ProduceRequest.TopicProduceData
    data = rows.PartitionProduceData(index=partition, records=bytes(batch.build()))

    def appended() -> bool:
        answer = _ask(
            admin,
            ProduceRequest(
                transactional_id=name,
                acks=-1,
                timeout_ms=5000,
                topic_data=[rows(name=topic, partition_data=[data])],
                max_version=11,
            ),
        )
        return [row.error_code for found in answer.responses for row in found.partition_responses] == [0]

    wait_for(appended, "an open transaction")


def _ask(admin: Any, request: Any) -> Any:
    node = min(broker.node_id for broker in admin._manager.cluster.brokers())
    return admin._manager.run(lambda: admin._manager.send(request, node))


def _producer(admin: Any, name: str) -> Any:
    """Its producer id and epoch, of the transactional id's coordinator."""

    def taken() -> Any:
        request = InitProducerIdRequest(
            transactional_id=name, transaction_timeout_ms=_LONGEST_MS, producer_id=-1, producer_epoch=-1
        )
        answer = _ask(admin, request)
        return answer if answer.error_code == 0 else None

    return wait_for(taken, "a producer id")


@contextmanager
def _no_verification(bootstrap: str) -> Iterator[None]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def change(value: str, operation: AlterConfigOpType) -> None:
        for broker in admin.list_topics(timeout=30).brokers:
            resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
            resource.add_incremental_config(ConfigEntry(_VERIFICATION, value, incremental_operation=operation))
            admin.incremental_alter_configs([resource])[resource].result(30)

    change("false", AlterConfigOpType.SET)
    try:
        yield
    finally:
        change("", AlterConfigOpType.DELETE)
