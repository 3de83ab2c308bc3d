"""The client settings as data: which ones kgroup honours, ignores and refuses."""

from __future__ import annotations

ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "request.timeout.ms": "socket.timeout.ms",
}
"""Other spellings of a setting, librdkafka's and Java's.

Java's request.timeout.ms is librdkafka's socket.timeout.ms; librdkafka's own request.timeout.ms is for producers only.
"""

KAFKA_PYTHON_ARGUMENTS: dict[str, tuple[str, type[str] | type[int]]] = {
    "client.id": ("client_id", str),
    "client.dns.lookup": ("client_dns_lookup", str),
    "connections.max.idle.ms": ("connections_max_idle_ms", int),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "retry.backoff.ms": ("retry_backoff_ms", int),
    "socket.timeout.ms": ("request_timeout_ms", int),
    "security.protocol": ("security_protocol", str),
    "sasl.mechanism": ("sasl_mechanism", str),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
}
"""librdkafka's key -> kafka-python's argument, for the keys that have one."""

TLS_KEYS = frozenset(
    {
        "enable.ssl.certificate.verification",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
    }
)
"""These go into one ``ssl.SSLContext`` for kafka-python."""

OAUTH_KEYS = frozenset(
    {
        "enable.sasl.oauthbearer.unsecure.jwt",
        "https.ca.location",
        "https.ca.pem",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.metadata.authentication.type",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""These go into a ``TokenSource``; with the method oidc also to librdkafka, which gets such tokens itself."""

HONOURED = frozenset({"bootstrap.servers", "client.rack"}) | frozenset(KAFKA_PYTHON_ARGUMENTS) | TLS_KEYS | OAUTH_KEYS

NOT_FOR_JAVA = (TLS_KEYS | OAUTH_KEYS | {"sasl.mechanisms", "sasl.password", "sasl.username"}) - {
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
}
"""A file with one of these is for librdkafka only: Java's clients would ignore them and connect."""

FILE_KEYS = frozenset(
    {
        "https.ca.location",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.crl.location",
        "ssl.key.location",
    }
)
"""Their values are paths."""

EXCLUSIVE = (
    frozenset({"ssl.ca.location", "ssl.ca.pem"}),
    frozenset({"ssl.certificate.location", "ssl.certificate.pem"}),
    frozenset({"ssl.key.location", "ssl.key.pem"}),
    frozenset({"https.ca.location", "https.ca.pem"}),
)
"""Two ways to set one thing: the one with the higher precedence removes the other."""

JAVA_KEYS = frozenset(
    {
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "ssl.endpoint.identification.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Keys that only Java has, or that mean something else to Java than to librdkafka; ``java.translate`` replaces them."""

_NO_OTHER_CLIENT = "only one of the two clients that kgroup uses has this setting"
_JWT_BEARER = "kgroup asks for tokens with client id and secret only"
_JAVA_CLASS = "a Java class cannot be used from here"
_TICKET = "kgroup uses the ticket that kinit got (or KRB5_CLIENT_KTNAME)"

UNSUPPORTED: dict[str, str] = {
    "bootstrap.controllers": "kgroup talks to brokers, not to controllers",
    "config.providers": "a Java class cannot be used from here; contexts have ${env:NAME} and ${file:PATH}",
    "plugin.library.paths": _NO_OTHER_CLIENT,
    "sasl.kerberos.keytab": _TICKET,
    "sasl.kerberos.principal": _TICKET,
    "sasl.login.class": _JAVA_CLASS,
    "sasl.oauthbearer.assertion.algorithm": _JWT_BEARER,
    "sasl.oauthbearer.assertion.file": _JWT_BEARER,
    "sasl.oauthbearer.assertion.jwt.template.file": _JWT_BEARER,
    "sasl.oauthbearer.assertion.private.key.file": _JWT_BEARER,
    "sasl.oauthbearer.assertion.private.key.passphrase": _JWT_BEARER,
    "sasl.oauthbearer.assertion.private.key.pem": _JWT_BEARER,
    "sasl.oauthbearer.assertion.template.file": _JWT_BEARER,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CLASS,
    "security.providers": _JAVA_CLASS,
    "socks5.proxy": _NO_OTHER_CLIENT,
    "ssl.ca.certificate.stores": "certificate stores of Windows; write ssl.ca.location",
    "ssl.curves.list": _NO_OTHER_CLIENT,
    "ssl.engine.factory.class": _JAVA_CLASS,
    "ssl.engine.id": _NO_OTHER_CLIENT,
    "ssl.engine.location": _NO_OTHER_CLIENT,
    "ssl.provider": _JAVA_CLASS,
    "ssl.providers": _NO_OTHER_CLIENT,
    "ssl.sigalgs.list": _NO_OTHER_CLIENT,
}
"""Settings that change the target or the safety of the connection, and that not every client can honour: key -> why."""

ONLY_VALUES: dict[str, frozenset[str]] = {
    "sasl.oauthbearer.grant.type": frozenset({"client_credentials"}),
    "ssl.enabled.protocols": frozenset({"TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2"}),
    "ssl.keymanager.algorithm": frozenset({"SunX509", "PKIX"}),
    "ssl.protocol": frozenset({"TLS", "TLSv1.2", "TLSv1.3"}),
    "ssl.trustmanager.algorithm": frozenset({"PKIX", "SunX509"}),
}
"""Settings that neither client has. These values are what the clients do anyway; any other value is refused."""

_BOTH_CLIENTS_TUNING = """
    allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
    auto.include.jmx.reporter broker.address.family broker.address.ttl broker.version.fallback
    builtin.features debug enable.metrics.push enable.random.seed enabled_events
    internal.termination.signal
    log.connection.close log.queue log.thread.name log_level max.in.flight
    max.in.flight.requests.per.connection
    message.copy.max.bytes message.max.bytes metadata.recovery.rebootstrap.trigger.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms receive.buffer.bytes receive.message.max.bytes reconnect.backoff.jitter.ms
    retry.backoff.max.ms send.buffer.bytes socket.blocking.max.ms socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
    socket.receive.buffer.bytes socket.send.buffer.bytes ssl.secure.random.implementation
    statistics.interval.ms topic.blacklist topic.metadata.propagation.max.ms
    topic.metadata.refresh.fast.cnt topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
"""
_REFRESHING = """
    sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
    sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.sub.claim.name
"""
_CONSUMERS = """
    auto.commit.enable auto.commit.interval.ms auto.offset.reset check.crcs consume.callback.max.messages
    coordinator.query.interval.ms enable.auto.commit enable.auto.offset.store enable.partition.eof
    exclude.internal.topics fetch.error.backoff.ms fetch.max.bytes fetch.max.wait.ms fetch.message.max.bytes
    fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol
    group.protocol.type group.remote.assignor heartbeat.interval.ms interceptor.classes isolation.level
    key.deserializer max.partition.fetch.bytes max.poll.interval.ms max.poll.records offset.store.method
    offset.store.path offset.store.sync.interval.ms partition.assignment.strategy queued.max.messages.kbytes
    queued.min.messages session.timeout.ms share.acknowledgement.mode share.acquire.mode value.deserializer
"""
_PRODUCERS = """
    acks batch.num.messages batch.size buffer.memory compression.codec compression.gzip.level
    compression.level compression.lz4.level compression.type compression.zstd.level
    delivery.report.only.error delivery.timeout.ms enable.gapless.guarantee enable.idempotence key.serializer
    linger.ms max.block.ms max.request.size message.send.max.retries message.timeout.ms metadata.max.idle.ms
    partitioner partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
    partitioner.ignore.keys produce.offset.report queue.buffering.backpressure.threshold
    queue.buffering.max.kbytes queue.buffering.max.messages queue.buffering.max.ms queuing.strategy
    request.required.acks retries sticky.partitioning.linger.ms transaction.timeout.ms
    transaction.two.phase.commit.enable transactional.id value.serializer
"""
IGNORED = frozenset(
    " ".join((_BOTH_CLIENTS_TUNING, _REFRESHING, _CONSUMERS, _PRODUCERS)).split(),
)
"""Known settings that have no effect on kgroup, from consumers, producers and both clients.

For example buffers, metrics, and login refreshing (a command ends before). Sources: AdminClientConfig, ConsumerConfig
and ProducerConfig of Kafka 4.3.1, CONFIGURATION.md of librdkafka 2.16.
"""

UNCONCERNED_PREFIXES = ("schema.registry.", "basic.auth.", "key.converter", "value.converter", "confluent.")

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
TOKEN_MECHANISMS = ("OAUTHBEARER", "AWS_MSK_IAM")
SASL_MECHANISMS = (*PASSWORD_MECHANISMS, *TOKEN_MECHANISMS, "GSSAPI")
