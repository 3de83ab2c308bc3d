"""Describe and create topics through confluent-kafka's AdminClient.

Importable in Spark's processes, which do not have kafka-python.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, OffsetSpec

from kgroup.cluster.librdkafka import NOT_YET, ClientWatch, client, topic_client_error
from kgroup.model.topic_partition import TopicPartition
from kgroup.model.topic_settings import TopicSettings
from kgroup.support.errors import KgroupError, Unreachable
from kgroup.support.units import some_of

_PAUSE_S = 0.02
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})

_RETIRED: list[Any] = []
atexit.register(_RETIRED.clear)  # before Python ends: a late callback must not find it gone


class RetiringAdminClient(AdminClient):  # type: ignore[misc]  # confluent-kafka has no types
    """An AdminClient that outlives its last reference, until another one is created.

    Its callbacks run on a thread of librdkafka, and so may the garbage collection that finds the client in a cycle (an
    exception, its traceback, the frame). librdkafka aborts the process if it is destroyed there ("rd_kafka_destroy()
    called from librdkafka owned thread"; seen with confluent-kafka 2.16 and a request that was still under way).
    """

    def __del__(self, retired: list[Any] = _RETIRED) -> None:
        retired.append(self)


def admin_client(config: Mapping[str, Any], watch: ClientWatch) -> Any:
    """A new client; destroys those that nothing refers to any more, on the caller's thread."""
    _RETIRED.clear()
    return client(RetiringAdminClient, config, watch)


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as its brokers describe it.

    ``replicas`` is the smallest replica count of its partitions; ``has_leaders``: each of them has a leader.
    ``operations`` is what this user may do (READ, WRITE, ...), None if the brokers do not report it. ``settings`` is
    None if this user may not read them. ``id`` is the topic's id as Kafka prints it, None if the broker has none.
    """

    partitions: int
    replicas: int
    has_leaders: bool
    operations: frozenset[str] | None
    settings: TopicSettings | None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class NewTopicSpec:
    """A topic to create. ``replicas`` None: the brokers' default."""

    name: str
    partitions: int
    replicas: int | None
    config: Mapping[str, str]


class TopicAdmin:
    """Describes and creates topics. ``timeout_s`` is how long to wait for a response."""

    def __init__(self, config: Mapping[str, Any], *, timeout_s: float) -> None:
        self._watch = ClientWatch(timeout_s)
        self._timeout_s = timeout_s
        self._admin = admin_client(config, self._watch)

    def describe(self, topic: str) -> TopicDescription | None:
        """Describe one topic; None if it does not exist. Raises NotAuthorized, AuthenticationFailed, Unreachable."""
        description = self.describe_topics([topic])[topic]
        if isinstance(description, KgroupError):
            raise description
        return description

    def describe_topics(self, topics: Collection[str]) -> dict[str, TopicDescription | KgroupError | None]:
        """Describe several topics in two requests. A topic's error is its own result: None if it does not exist."""
        if not topics:
            return {}
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        described = self._admin.describe_topics(
            TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=self._timeout_s
        )
        configs = self._admin.describe_configs(resources, request_timeout=self._timeout_s)
        descriptions: dict[str, TopicDescription | KgroupError | None] = {}
        for topic, resource in zip(topics, resources, strict=True):
            try:
                descriptions[topic] = self._description(topic, described[topic], configs[resource])
            except KgroupError as error:
                descriptions[topic] = error
        return descriptions

    def _description(self, topic: str, described: Future[Any], configs: Future[Any]) -> TopicDescription | None:
        try:
            metadata = self._answer(described, f"{topic} could not be described")
        except KafkaException as error:
            if error.args[0].code() in _MISSING:
                return None
            raise topic_client_error(error.args[0], topic, topic, "Describe") from error
        try:
            entries = self._answer(configs, f"the configuration of {topic} could not be read")
            settings = TopicSettings.parse({name: entry.value for name, entry in entries.items()})
        except KafkaException as error:
            if error.args[0].code() in _MISSING:  # a broker that has not learned of it yet, or no longer has it
                return None
            if error.args[0].code() not in _NOT_ALLOWED:
                raise topic_client_error(error.args[0], topic, topic, "DescribeConfigs") from error
            settings = None
        operations = metadata.authorized_operations
        return TopicDescription(
            len(metadata.partitions),
            min((len(partition.replicas) for partition in metadata.partitions), default=0),
            all(partition.leader is not None for partition in metadata.partitions),
            None if operations is None else frozenset(AclOperation(item).name for item in operations),
            settings,
            _as_kafka_prints(metadata.topic_id),
        )

    def offsets(
        self, partitions: Collection[TopicPartition], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[TopicPartition, tuple[int, int | None]]:
        """The offset of each partition and its leader epoch, None if unknown (ListOffsets); one request a leader.

        A partition that cannot be read is left out. Raises AuthenticationFailed, Unreachable.
        """
        asked = {ClientPartition(*tp): spec for tp in partitions}
        answers = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=self._timeout_s)
        found: dict[TopicPartition, tuple[int, int | None]] = {}
        for asked_for, answer in answers.items():
            with suppress(KafkaException):
                info = self._answer(answer, "offsets could not be read")
                epoch = info.leader_epoch
                found[TopicPartition(asked_for.topic, asked_for.partition)] = (
                    info.offset,
                    None if epoch is None or epoch < 0 else epoch,
                )
        return found

    def cluster_and_partitions(self, topic: str) -> tuple[str | None, int]:
        """The cluster's id, and how many partitions the topic has; 0 if it does not exist, or may not be described.

        Raises AuthenticationFailed, Unreachable.
        """
        try:
            listed = self._admin.list_topics(topic, self._timeout_s)
        except KafkaException as error:
            raise self._watch.fault(f"{topic} could not be read") from error
        return listed.cluster_id, len(listed.topics[topic].partitions)

    def brokers(self) -> int:
        """The number of brokers in the cluster. Raises AuthenticationFailed, Unreachable."""
        what = "the brokers could not be read"
        try:
            return len(self._answer(self._admin.describe_cluster(request_timeout=self._timeout_s), what).nodes)
        except KafkaException as error:
            raise KgroupError(f"{what}: {error.args[0].str()}", code="broker-error") from error

    def validate(self, topic: NewTopicSpec) -> None:
        """Let a broker validate that ``create`` could create this topic. Raises as ``create``; changes nothing."""
        self._create(topic, validate_only=True)

    def create(self, topic: NewTopicSpec) -> TopicDescription:
        """Create a topic if there is none, and wait until its partitions have leaders. Returns what it is then.

        A topic that exists already is left as it is. Raises NotAuthorized, KgroupError; Unreachable, with code
        ``no-leader`` if a partition still has none after the timeout.
        """
        self._create(topic, validate_only=False)
        until = time.monotonic() + self._timeout_s
        while True:
            # Brokers learn of a topic after the controller has created it: one may know it, and the next one not yet.
            description = self.describe(topic.name)
            if description is not None and description.has_leaders:
                return description
            if time.monotonic() >= until:
                lacks = "a partition without a leader" if description else "brokers that do not know it"
                raise Unreachable(
                    f"{topic.name} still has {lacks} after {self._timeout_s:g} s",
                    hint="a longer --timeout may help",
                    code="no-leader",
                )
            time.sleep(_PAUSE_S)

    def _create(self, topic: NewTopicSpec, *, validate_only: bool) -> None:
        created = self._admin.create_topics(
            [NewTopic(topic.name, topic.partitions, topic.replicas or -1, config=dict(topic.config))],
            request_timeout=self._timeout_s,
            operation_timeout=self._timeout_s,
            validate_only=validate_only,
        )[topic.name]
        try:
            self._answer(created, f"{topic.name} could not be created")
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise topic_client_error(error.args[0], topic.name, topic.name, "Create") from error

    def _answer(self, future: Future[Any], what: str) -> Any:
        return _answer(self._admin, self._watch, future, what)


def _as_kafka_prints(topic_id: Any) -> str | None:
    """The id in the URL-safe alphabet, which confluent-kafka's text of it is not in."""
    return None if topic_id is None else str(topic_id).translate(str.maketrans("+/", "-_"))


def _answer(admin: Any, watch: ClientWatch, future: Future[Any], what: str) -> Any:
    """Wait for a response. Raises KafkaException if a broker refused, the connection's error if none answered."""
    watch.progress()
    while True:
        try:
            return future.result(_PAUSE_S)
        except TimeoutError:
            admin.poll(0)  # runs error_cb with connection errors
            if watch.over and watch.disturbed:
                raise watch.fault(what) from None
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET:
                raise
            raise watch.fault(what) from error


def reach_brokers(config: Mapping[str, Any], *, timeout_s: float) -> int:
    """Wait for an answer of each broker of the cluster, which may be refused rights; returns how many there are.

    Raises Unreachable, which names the brokers that do not answer, and AuthenticationFailed.
    """
    watch = ClientWatch(timeout_s)
    admin: Any = admin_client(config, watch)

    def listed() -> dict[int, str]:
        answer = admin.describe_cluster(request_timeout=timeout_s)
        nodes = _answer(admin, watch, answer, "no broker can be reached").nodes
        return {node.id: f"{node.host}:{node.port}" for node in nodes}

    def any_answer(broker: int) -> Future[Any]:
        # One of the few requests that go to a broker by its id.
        resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
        answer: Future[Any] = admin.describe_configs([resource], request_timeout=timeout_s)[resource]
        return answer

    try:
        brokers = listed()
    except KafkaException as error:
        raise KgroupError(f"the brokers could not be read: {error.args[0].str()}", code="broker-error") from error
    silent = {}
    for broker, answer in [(broker, any_answer(broker)) for broker in brokers]:
        try:
            _answer(admin, watch, answer, "brokers cannot be reached")
        except KafkaException:
            pass  # it answered
        except Unreachable as error:
            silent[broker] = error
    # A broker that has ended is listed for some seconds more.
    left = [address for broker, address in listed().items() if broker in silent] if silent else []
    if left:
        raise Unreachable(
            f"brokers cannot be reached: {some_of(left)}",
            details=next(iter(silent.values())).details,
            hint="brokers name these addresses (advertised.listeners): machines with Spark's workers must reach them",
        )
    return len(brokers)
