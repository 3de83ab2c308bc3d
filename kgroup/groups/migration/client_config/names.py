"""The settings of Kafka's clients that identify a file, or that depend on the group's protocol."""

from __future__ import annotations

PROTOCOL = "group.protocol"
REMOTE_ASSIGNOR = "group.remote.assignor"
STRATEGY = "partition.assignment.strategy"
SESSION = "session.timeout.ms"
HEARTBEAT = "heartbeat.interval.ms"
PROTOCOL_TYPE = "group.protocol.type"
GROUP_ID = "group.id"
INSTANCE_ID = "group.instance.id"
MAX_POLL = "max.poll.interval.ms"

CLASSIC_ONLY = (SESSION, HEARTBEAT, STRATEGY, PROTOCOL_TYPE)
"""Both clients refuse to start with any of these and ``group.protocol=consumer`` (Java does not have the last).
Sources: KAFKA-17338, librdkafka's rd_kafka_conf_finalize; tried with kafka-clients 4.3.1 and librdkafka 2.16."""

MATTER = (*CLASSIC_ONLY, PROTOCOL, REMOTE_ASSIGNOR)
"""The settings that kgroup changes."""

DISTINCTIVE = frozenset({*MATTER, INSTANCE_ID, MAX_POLL})
"""Only a consumer has these settings, with any prefix."""

_CONSUMERS = """
    group.id max.poll.records auto.offset.reset enable.auto.commit auto.commit.interval.ms isolation.level
    key.deserializer value.deserializer fetch.min.bytes fetch.max.bytes fetch.max.wait.ms fetch.wait.max.ms
    max.partition.fetch.bytes enable.auto.offset.store enable.partition.eof queued.min.messages
    exclude.internal.topics allow.auto.create.topics
"""
CONSUMERS = DISTINCTIVE | frozenset(_CONSUMERS.split())

_JAVA_ONLY = """
    key.deserializer value.deserializer sasl.jaas.config ssl.truststore.location ssl.truststore.password
    ssl.truststore.type ssl.truststore.certificates ssl.keystore.type ssl.keystore.key interceptor.classes
    metric.reporters default.api.timeout.ms exclude.internal.topics max.poll.records fetch.max.wait.ms
    sasl.login.callback.handler.class sasl.client.callback.handler.class config.providers
    receive.buffer.bytes send.buffer.bytes
"""
JAVA_ONLY = frozenset(_JAVA_ONLY.split())

_LIBRDKAFKA_ONLY = """
    metadata.broker.list enable.auto.offset.store enable.partition.eof queued.min.messages
    queued.max.messages.kbytes fetch.wait.max.ms fetch.message.max.bytes fetch.error.backoff.ms
    socket.timeout.ms socket.keepalive.enable socket.nagle.disable statistics.interval.ms log_level
    sasl.username sasl.password sasl.mechanisms ssl.ca.location ssl.ca.pem ssl.certificate.location
    ssl.certificate.pem ssl.key.location ssl.key.pem enable.ssl.certificate.verification
    topic.metadata.refresh.interval.ms broker.address.family broker.version.fallback api.version.request
    group.protocol.type receive.message.max.bytes sasl.oauthbearer.method sasl.oauthbearer.config
"""
LIBRDKAFKA_ONLY = frozenset(_LIBRDKAFKA_ONLY.split())
"""Common keys of librdkafka's CONFIGURATION.md (2.15) that Java's ConsumerConfig (4.3) lacks."""

_CLIENTS = "bootstrap.servers security.protocol sasl.mechanism client.id client.rack request.timeout.ms"
CLIENTS = CONSUMERS | JAVA_ONLY | LIBRDKAFKA_ONLY | frozenset(_CLIENTS.split())

BROKERS_OWN = frozenset({"process.roles", "node.id", "broker.id", "log.dirs"})
"""Settings that only a broker's file has."""

OTHER_GROUPS = {
    "application.id": "Kafka Streams",
    "config.storage.topic": "Kafka Connect",
    "offset.storage.topic": "Kafka Connect",
    "offset.storage.file.filename": "Kafka Connect",
    "connector.class": "Kafka Connect",
}
"""Next to one of these, settings belong to this framework, not to a plain consumer."""

EMBEDDED_PREFIXES = frozenset(
    {"consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "consumer.override."}
)
"""Prefixes that Kafka Streams and Connect use for the consumers that they create."""

_LONGEST_NAME = max(name.count(".") for name in CLIENTS) + 1


def split_key(key: str) -> tuple[str, str]:
    """A key as its prefix and the client's setting that it ends with; empty texts if it ends with none.

    ``app.orders.group.id`` is ``("app.orders.", "group.id")``.
    """
    parts = key.split(".")
    for first in range(max(0, len(parts) - _LONGEST_NAME), len(parts)):
        name = ".".join(parts[first:])
        if name in CLIENTS:
            return key[: len(key) - len(name)], name
    return "", ""
