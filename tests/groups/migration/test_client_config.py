"""What becomes of a consumer's configuration, byte for byte, and what real clients say to it."""

from __future__ import annotations

import json
import random
from typing import Any, Literal

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException

from kgroup.groups.migration.client_config import Rewritten, rewrite
from kgroup.groups.migration.client_config.masking import shown
from kgroup.groups.migration.client_config.names import MATTER
from kgroup.groups.migration.client_config.notes import MINIMUM
from kgroup.groups.migration.client_config.properties import read_properties
from kgroup.output.pages.client_config import document
from kgroup.settings.java_properties import parse_properties
from kgroup.support.errors import ConfigError
from tests.support.places import ROOT

PACKAGE = "org.apache.kafka.clients.consumer."

TO_CONSUMER: dict[str, tuple[str, str, str]] = {
    "java": (
        "x.properties",
        "# orders\nbootstrap.servers=a:9092\ngroup.id=orders\nsession.timeout.ms=10000\nheartbeat.interval.ms=3000\n"
        f"max.poll.records=10\npartition.assignment.strategy={PACKAGE}RangeAssignor\n",
        "# orders\nbootstrap.servers=a:9092\ngroup.id=orders\ngroup.protocol=consumer\ngroup.remote.assignor=range\n"
        "max.poll.records=10\n",
    ),
    "nothing-to-take-out": (
        "x.properties",
        "group.id=g\nclient.id=c\n",
        "group.id=g\ngroup.protocol=consumer\nclient.id=c\n",
    ),
    "without-a-group": ("x.properties", "bootstrap.servers=a:1\n", "bootstrap.servers=a:1\ngroup.protocol=consumer\n"),
    "replaced": ("", "group.protocol = classic\ngroup.id = g\n", "group.protocol = consumer\ngroup.id = g\n"),
    "upper-case": ("", "group.protocol=CLASSIC\n", "group.protocol=consumer\n"),
    "separators": (
        "x.properties",
        "group.id : g\n  session.timeout.ms : 1\nheartbeat.interval.ms 2\n",
        "group.id : g\n  group.protocol : consumer\n",
    ),
    "no-separator": ("", "group.id g\nheartbeat.interval.ms 2\n", "group.id g\ngroup.protocol=consumer\n"),
    "twice": (
        "",
        "session.timeout.ms=1\ngroup.protocol=consumer\n# c\nsession.timeout.ms=2\ngroup.protocol=classic\n",
        "# c\ngroup.protocol=consumer\n",
    ),
    "continued": (
        "x.properties",
        f"a=b\n"
        f"partition.assignment.strategy = {PACKAGE}RangeAssignor, \\\n    {PACKAGE}CooperativeStickyAssignor\nc=d\n",
        "a=b\ngroup.protocol = consumer\ngroup.remote.assignor = range\nc=d\n",
    ),
    "continued-neighbours": (
        "x.properties",
        "interceptor.classes=a,\\\n  session.timeout.ms=1\nheartbeat.interval.ms=5\n"
        "! session.timeout.ms=3 \\\ngroup.id=g",
        "interceptor.classes=a,\\\n  session.timeout.ms=1\ngroup.protocol=consumer\n"
        "! session.timeout.ms=3 \\\ngroup.id=g",
    ),
    "escapes": (
        "x.properties",
        "session\\u002etimeout\\.ms=1\nmax.poll.records=1\n",
        "group.protocol=consumer\nmax.poll.records=1\n",
    ),
    "commented-out": (
        "",
        "#session.timeout.ms=1\n ! heartbeat.interval.ms=1\ngroup.id=g\n",
        "#session.timeout.ms=1\n ! heartbeat.interval.ms=1\ngroup.id=g\ngroup.protocol=consumer\n",
    ),
    "crlf": (
        "",
        "group.id=g\r\nsession.timeout.ms=1\r\nclient.id=c\r\n",
        "group.id=g\r\ngroup.protocol=consumer\r\nclient.id=c\r\n",
    ),
    "cr": ("", "group.id=g\rsession.timeout.ms=1\rclient.id=c", "group.id=g\rgroup.protocol=consumer\rclient.id=c"),
    "no-end-replaced": ("", "group.id=g\nsession.timeout.ms=1", "group.id=g\ngroup.protocol=consumer"),
    "no-end-added": ("", "client.id=c\ngroup.id=g", "client.id=c\ngroup.id=g\ngroup.protocol=consumer"),
    "no-end-crlf": ("", "client.id=c\r\ngroup.id=g", "client.id=c\r\ngroup.id=g\r\ngroup.protocol=consumer"),
    "mark": ("", "\ufeffsession.timeout.ms=1\nclient.id=ä€\n", "\ufeffgroup.protocol=consumer\nclient.id=ä€\n"),
    "form-feed": (
        "",
        "client.id=a\x0cb\n\x0csession.timeout.ms=1\n",
        "client.id=a\x0cb\n\x0cgroup.protocol=consumer\n",
    ),
    "empty": ("x.properties", "", "group.protocol=consumer\n"),
    "only-a-mark": ("x.properties", "\ufeff", "\ufeffgroup.protocol=consumer\n"),
    "only-comments": ("x.properties", "# nothing", "# nothing\ngroup.protocol=consumer\n"),
    "zookeeper-is-another": (
        "",
        "zookeeper.session.timeout.ms=6000\ngroup.id=g\n",
        "zookeeper.session.timeout.ms=6000\ngroup.id=g\ngroup.protocol=consumer\n",
    ),
    "librdkafka": (
        "consumer.conf",
        "metadata.broker.list=a:9092\ngroup.id=g\ngroup.protocol.type=consumer\n"
        "partition.assignment.strategy=roundrobin\nsasl.password=a\\b\\\\\n",
        "metadata.broker.list=a:9092\ngroup.id=g\ngroup.protocol=consumer\ngroup.remote.assignor=uniform\n"
        "sasl.password=a\\b\\\\\n",
    ),
    "spring": (
        "application.properties",
        "server.port=80\nspring.kafka.consumer.group-id=g\nspring.kafka.consumer.heartbeat-interval=3s\n"
        "spring.kafka.consumer.properties.session.timeout.ms=10000\nspring.kafka.producer.acks=all\n",
        "server.port=80\nspring.kafka.consumer.group-id=g\n"
        "spring.kafka.consumer.properties.group.protocol=consumer\nspring.kafka.producer.acks=all\n",
    ),
    "spring-without-properties": (
        "application.properties",
        "spring.kafka.consumer.group-id=g\nspring.kafka.producer.acks=all\n",
        "spring.kafka.consumer.group-id=g\nspring.kafka.consumer.properties.group.protocol=consumer\n"
        "spring.kafka.producer.acks=all\n",
    ),
    "spring-for-all-clients": (
        "application.properties",
        f"spring.kafka.properties.session.timeout.ms=1\n"
        f"spring.kafka.properties.partition.assignment.strategy={PACKAGE}RangeAssignor\n",
        "spring.kafka.properties.group.protocol=consumer\nspring.kafka.properties.group.remote.assignor=range\n",
    ),
    "spring-in-brackets": (
        "application.properties",
        "spring.kafka.consumer.properties[session.timeout.ms]=1\n",
        "spring.kafka.consumer.properties.group.protocol=consumer\n",
    ),
    "channels": (
        "application.properties",
        "mp.messaging.incoming.a.session.timeout.ms=1\nmp.messaging.incoming.b.group.id=x\n"
        "mp.messaging.outgoing.c.acks=1\n",
        "mp.messaging.incoming.a.group.protocol=consumer\nmp.messaging.incoming.b.group.id=x\n"
        "mp.messaging.incoming.b.group.protocol=consumer\nmp.messaging.outgoing.c.acks=1\n",
    ),
    "own-prefix": (
        "",
        "kafka.group.id=g\nkafka.heartbeat.interval.ms=1\n",
        "kafka.group.id=g\nkafka.group.protocol=consumer\n",
    ),
    "a-consumer-called-consumer": (
        "",
        "consumer.group.id=g\nconsumer.session.timeout.ms=1\n",
        "consumer.group.id=g\nconsumer.group.protocol=consumer\n",
    ),
    "yaml-flat": (
        "",
        "# c\ngroup.id: g   # mine\nsession.timeout.ms: 10000  # long\n# stays\n"
        "\"heartbeat.interval.ms\": 3000\nclient.id: 'x'\n",
        "# c\ngroup.id: g   # mine\ngroup.protocol: consumer\n# stays\nclient.id: 'x'\n",
    ),
    "context": (
        "config.yaml",
        "contexts:\n  prod:\n    bootstrap.servers: a:1,b:1\n    sasl.password: ${env:P}\n"
        "    explicit: true\n\n# end\n",
        "contexts:\n  prod:\n    bootstrap.servers: a:1,b:1\n    sasl.password: ${env:P}\n"
        "    group.protocol: consumer\n    explicit: true\n\n# end\n",
    ),
    "spring-yaml": (
        "application.yml",
        "spring:\n  kafka:\n    consumer:\n      group-id: g\n      heartbeatInterval: 3s\n      properties:\n"
        f"        session.timeout.ms: 10000\n        partition.assignment.strategy:\n"
        f"          - {PACKAGE}RangeAssignor\n"
        "        # stays\n    producer:\n      acks: all\n",
        "spring:\n  kafka:\n    consumer:\n      group-id: g\n      properties:\n"
        "        group.protocol: consumer\n        group.remote.assignor: range\n        # stays\n"
        "    producer:\n      acks: all\n",
    ),
    "spring-yaml-in-brackets": (
        "application.yml",
        'spring.kafka.consumer:\n  properties:\n    "[session.timeout.ms]": 10000\n',
        "spring.kafka.consumer:\n  properties:\n    group.protocol: consumer\n",
    ),
    "spring-yaml-without-properties": (
        "application.yml",
        "spring:\n  kafka:\n    consumer:\n      group-id: g\n    producer: {acks: all}\n",
        "spring:\n  kafka:\n    consumer:\n      group-id: g\n      properties.group.protocol: consumer\n"
        "    producer: {acks: all}\n",
    ),
    "yaml-list": (
        "x.yaml",
        "- session.timeout.ms: 5\n  heartbeat.interval.ms: 6\n  group.id: x\n-   group.id: y\n",
        "- group.protocol: consumer\n  group.id: x\n-   group.id: y\n    group.protocol: consumer\n",
    ),
    "yaml-list-replaced": (
        "x.yaml",
        "- session.timeout.ms: 5\n  group.id: x\n  group.protocol: classic\n",
        "- group.protocol: consumer\n  group.id: x\n",
    ),
    "yaml-documents": (
        "x.yaml",
        "%YAML 1.1\n---\na: 1\n---\nkafka:\n  session.timeout.ms: 1\n...\n---\nb: !vault x\n",
        "%YAML 1.1\n---\na: 1\n---\nkafka:\n  group.protocol: consumer\n...\n---\nb: !vault x\n",
    ),
    "yaml-anchors": (
        "x.yaml",
        "base: &base\n  session.timeout.ms: 1\nprod:\n  <<: *base\n  client.id: c\n",
        "base: &base\n  group.protocol: consumer\nprod:\n  <<: *base\n  client.id: c\n",
    ),
    "yaml-folded": (
        "x.yaml",
        "partition.assignment.strategy: >-\n  range,\n  roundrobin\n\nclient.id: c\n",
        "group.protocol: consumer\ngroup.remote.assignor: range\n\nclient.id: c\n",
    ),
    "yaml-flow-list": (
        "x.yaml",
        "partition.assignment.strategy: [range,\n  roundrobin]\n",
        "group.protocol: consumer\ngroup.remote.assignor: range\n",
    ),
    "yaml-crlf-no-end": ("x.yaml", "group.id: g\r\nsession.timeout.ms: 1", "group.id: g\r\ngroup.protocol: consumer"),
    "yaml-mark": (
        "x.yaml",
        "\ufeffsession.timeout.ms: 1\nclient.id: ä\n",
        "\ufeffgroup.protocol: consumer\nclient.id: ä\n",
    ),
    "yaml-empty": ("x.yaml", "", "group.protocol: consumer\n"),
    "yaml-null": ("x.yaml", "---\n# nothing", "---\n# nothing\ngroup.protocol: consumer\n"),
    "yaml-next-line": (
        "x.yaml",
        "group.id: g\nsession.timeout.ms:\n  10000\n",
        "group.id: g\ngroup.protocol: consumer\n",
    ),
    "yaml-separators-of-teletypes": (
        "x.yaml",
        'client.id: "a\u2028 b"\nsession.timeout.ms: 1\n',
        'client.id: "a\u2028 b"\ngroup.protocol: consumer\n',
    ),
}


@pytest.mark.parametrize("case", TO_CONSUMER)
def test_to_the_consumer_protocol(case: str) -> None:
    name, before, after = TO_CONSUMER[case]

    rewritten = rewrite(before, "consumer", name=name)

    assert rewritten.before.text == before
    assert rewritten.after == after
    assert rewritten.changes
    assert rewrite(after, "consumer", name=name).after == after, "there already"


TO_CLASSIC: dict[str, tuple[str, str, str]] = {
    "java": (
        "x.properties",
        "key.deserializer=x\ngroup.protocol=consumer\ngroup.id=g\n",
        f"key.deserializer=x\ngroup.protocol=classic\n"
        f"partition.assignment.strategy={PACKAGE}CooperativeStickyAssignor\n"
        "session.timeout.ms=30000\ngroup.id=g\n",
    ),
    "java-range": (
        "x.properties",
        "key.deserializer=x\ngroup.protocol=CONSUMER\ngroup.remote.assignor=range\n",
        f"key.deserializer=x\ngroup.protocol=classic\n"
        f"partition.assignment.strategy={PACKAGE}RangeAssignor\nsession.timeout.ms=30000\n",
    ),
    "librdkafka": (
        "x.conf",
        "enable.partition.eof=true\ngroup.remote.assignor=range\ngroup.protocol=consumer\n",
        "enable.partition.eof=true\ngroup.protocol=classic\npartition.assignment.strategy=range\n"
        "session.timeout.ms=30000\n",
    ),
    "yaml": (
        "x.yaml",
        "prod:\n  group.protocol: consumer # new\n  group.id: g\n",
        "prod:\n  group.protocol: classic\n  partition.assignment.strategy: cooperative-sticky\n"
        "  session.timeout.ms: 30000\n  group.id: g\n",
    ),
    "custom": (
        "x.properties",
        "key.deserializer=x\ngroup.protocol=consumer\ngroup.remote.assignor=com.acme.Geo\n",
        "key.deserializer=x\ngroup.protocol=classic\nsession.timeout.ms=30000\n",
    ),
    "leftover": ("x.properties", "group.id=g\ngroup.remote.assignor=range\n", "group.id=g\n"),
    "classic-already": ("x.properties", "group.id=g\nsession.timeout.ms=1\n", "group.id=g\nsession.timeout.ms=1\n"),
}


@pytest.mark.parametrize("case", TO_CLASSIC)
def test_back_to_the_classic_protocol(case: str) -> None:
    name, before, after = TO_CLASSIC[case]

    assert rewrite(before, "classic", name=name, session_timeout_ms=30_000).after == after


UNREADABLE: dict[str, tuple[str, str, str]] = {
    "binary": ("x", "\x7fELF\x02\x01\x00", "x:1: not text"),
    "binary-below": ("x", "group.id=g\na=\x00", "x:2: not text"),
    "terminal-codes": ("x", "a=b\n\x1b[2Jgroup.id=g\n", "x:2: not text"),
    "too-long": ("x", "group.id=" + "g" * 600_000, "x: 600009 characters"),
    "escape": ("x.properties", "a=b\ngroup.id=\\u12\n", "x.properties:2: malformed"),
    "no-yaml": ("x.yml", "a: b\n c: [\n", "x.yml:"),
    "a-template": ("x.yml", "a:\n  {{ .Values.kafka }}\n", "x.yml:"),
    "scalar": ("x.yml", "hello\n", "x.yml:1: no mapping"),
    "list-of-scalars": ("x.yml", "- a\n- b\n", "x.yml: no settings"),
    "deep": ("x.yml", "a: " + "[" * 900, "x.yml"),
    "not-kafka": ("x.properties", "server.port=80\n", "x.properties: no setting of a Kafka client"),
    "passwd": ("passwd", "root:x:0:0:root:/root:/bin/bash\n", "passwd: no setting of a Kafka client"),
    "a-broker": ("server.properties", "a=b\nnode.id=1\n", "server.properties:2: node.id is a broker's"),
    "several-contexts": (
        "c.yaml",
        "contexts:\n  a:\n    bootstrap.servers: a\n  b:\n    bootstrap.servers: b\n",
        "c.yaml: 2 clients are set up",
    ),
    "json": ("c.json", '{"group.id": "g", "session.timeout.ms": 1}', "c.json:1: session.timeout.ms shares its line"),
    "flow": ("c.yaml", "kafka: {group.id: g}\n", "c.yaml:1: kafka.group.id shares its line"),
    "used-elsewhere": ("c.yaml", "session.timeout.ms: &t 1\nother: *t\n", "c.yaml:1: these settings can't be changed"),
    "nothing-comes-behind-the-dash": (
        "c.yaml",
        "- session.timeout.ms: 5\n  group.protocol: consumer\n",
        "c.yaml:1: [0].session.timeout.ms shares its line",
    ),
    "explicit-key": ("c.yaml", "? session.timeout.ms\n: 1\n", "c.yaml:1: session.timeout.ms shares its line"),
    "a-backslash-of-librdkafka": (
        "c.conf",
        "sasl.password=a\\\nsession.timeout.ms=1\ngroup.id=g\n",
        "c.conf:1: a backslash ends a line",
    ),
    "a-backslash-at-the-end": ("c.properties", "group.id=g\\", "c.properties: these settings can't be changed"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_rewritten_is_refused_with_file_and_line(case: str) -> None:
    name, text, message = UNREADABLE[case]

    with pytest.raises(ConfigError) as raised:
        rewrite(text, "consumer", name=name)

    assert raised.value.message.startswith(message)


def java(strategy: str) -> str:
    return ",".join(PACKAGE + name for name in strategy.split(","))


@pytest.mark.parametrize(
    ("strategy", "given", "assignor", "written"),
    [
        (None, None, "uniform", None),
        (java("RangeAssignor"), None, "range", "range"),
        (java("RoundRobinAssignor"), None, "uniform", "uniform"),
        (java("StickyAssignor"), None, "uniform", "uniform"),
        (java("CooperativeStickyAssignor"), None, "uniform", "uniform"),
        (java("RangeAssignor,CooperativeStickyAssignor"), None, "range", "range"),
        (java("CooperativeStickyAssignor,RangeAssignor"), None, "uniform", "uniform"),
        (java("RangeAssignor,StickyAssignor"), None, "range", "range"),
        ("com.acme.Geo", None, None, None),
        ("com.acme.Geo," + java("RangeAssignor"), None, "range", "range"),
        ("range", None, "range", "range"),
        ("range,roundrobin", None, "range", "range"),
        ("cooperative-sticky", None, "uniform", "uniform"),
        ("range", "uniform", "range", "range"),
        ("com.acme.Geo", "uniform", None, None),
        (None, "uniform", "uniform", "uniform"),
        (None, "range", "range", "range"),
        (None, "com.acme.GeoServer", "com.acme.GeoServer", "com.acme.GeoServer"),
    ],
)
def test_the_assignor_is_mapped(
    strategy: str | None, given: str | None, assignor: str | None, written: str | None
) -> None:
    text = "group.id=g\n" + (f"partition.assignment.strategy={strategy}\n" if strategy else "")

    rewritten = rewrite(text, "consumer", assignor=given)

    assert rewritten.assignor == assignor
    assert values(rewritten.after) == {"group.id": "g", "group.protocol": "consumer"} | (
        {"group.remote.assignor": written} if written else {}
    )
    assert ("no such assignor" in said(rewritten)) == ("com.acme.Geo" in (strategy or ""))
    assert ("no partition.assignment.strategy was set" in said(rewritten)) == (strategy is None and given is None)
    assert rewrite(rewritten.after, "consumer", assignor=given or "range").diff("x") == "", "there already"


def test_an_assignor_that_the_file_has_already_stays() -> None:
    text = "group.protocol=classic\ngroup.remote.assignor=range\n"

    for given in (None, "uniform"):
        rewritten = rewrite(text, "consumer", assignor=given)
        assert rewritten.after == "group.protocol=consumer\ngroup.remote.assignor=range\n"
        assert "RangeAssignor" in rewrite(f"{rewritten.after}key.deserializer=x\n", "classic", assignor=given).after


def values(text: str) -> dict[str, str]:
    return {entry.key: entry.value for entry in parse_properties(text)}


def said(rewritten: Rewritten) -> str:
    return "\n".join(rewritten.notes)


KINDS: list[tuple[str, str, str, str]] = [
    ("", "group.id=g\nkey.deserializer=x\n", "java", "Java client"),
    ("", "group.id=g\nsasl.password=x\n", "librdkafka", "librdkafka"),
    ("", f"group.id=g\npartition.assignment.strategy={PACKAGE}RangeAssignor\n", "java", "Java client"),
    ("", "group.id=g\npartition.assignment.strategy=range\n", "librdkafka", "librdkafka"),
    ("", "group.id: g\nkey.deserializer: x\n", "yaml", "Java client"),
    ("x.properties", "group.id: g\nkey.deserializer: x\n", "java", "Java client"),
    ("", "group.id: g\nsasl.mechanisms=PLAIN\n", "librdkafka", "librdkafka"),
    ("", "group.id: g\n  client.id: c\n  sasl.mechanisms = PLAIN\n", "librdkafka", "librdkafka"),
    ("", "---\ngroup.id: g\nsocket.timeout.ms: 1\n", "yaml", "librdkafka"),
    ("", "- group.id: g\n  mp.messaging.incoming.a.group.id: g\n", "yaml", "librdkafka"),
]


@pytest.mark.parametrize(("name", "text", "kind", "client"), KINDS)
def test_the_form_of_the_file_and_its_client_are_recognised(name: str, text: str, kind: str, client: str) -> None:
    rewritten = rewrite(text, "consumer", name=name)

    assert rewritten.kind == kind
    assert f"at least {client}" in said(rewritten)


@pytest.mark.parametrize(("text", "kind"), [("group.id=g\n", "java"), ("group.id: g\n", "yaml")])
def test_a_guess_at_the_client_is_said_and_both_minimum_versions_are(text: str, kind: str) -> None:
    rewritten = rewrite(text, "consumer")

    assert rewritten.kind == kind
    assert "it is taken for" in said(rewritten)
    assert all(minimum in said(rewritten) for minimum in MINIMUM.values())


def test_the_minimum_versions_are_those_of_the_table_of_clients() -> None:
    table = yaml.safe_load((ROOT / "kgroup" / "data" / "clients.yaml").read_text())
    rows = {row["name"]: row for row in table["clients"]}

    for client, sentence in MINIMUM.items():
        assert rows[client]["usable_from"] in sentence
        assert rows[client]["recommended"] in sentence


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("group.id=g\n", ["the session timeout is the broker's now"]),
        (
            "session.timeout.ms= 10000 \nheartbeat.interval.ms=3000\n",
            ["consumer.session.timeout.ms=10000", "--session-timeout 10s", "consumer.heartbeat.interval.ms=3000"],
        ),
        ("session.timeout.ms=1\nsession.timeout.ms=20000\n", ["consumer.session.timeout.ms=20000"]),
        ("session.timeout.ms=${SESSION:10000}\n", ["line 1: session.timeout.ms is no number"]),
        ("spring.kafka.consumer.heartbeat-interval=2s\n", ["consumer.heartbeat.interval.ms=2000"]),
        ("session.timeout.ms: 10_000\n", ["consumer.session.timeout.ms=10000"]),
    ],
)
def test_the_old_timeouts_are_handed_over(text: str, notes: list[str]) -> None:
    found = said(rewrite(text, "consumer"))

    assert all(note in found for note in notes), found


NOTED: dict[str, tuple[str, str, Literal["consumer", "classic"], tuple[str, ...]]] = {
    "static": (
        "",
        "group.instance.id=i\nkey.deserializer=x\n",
        "consumer",
        ("group.instance.id (i) stays", "UNRELEASED_INSTANCE_ID"),
    ),
    "poll": (
        "",
        "max.poll.interval.ms=60000\nlog_level=1\n",
        "consumer",
        ("max.poll.interval.ms (60000) still counts", "librdkafka 2.15"),
    ),
    "rack": ("", "group.id=g\nclient.rack=r\n", "consumer", ("KAFKA-19387",)),
    "java-code": (
        "",
        "key.deserializer=x\n",
        "consumer",
        ("enforceRebalance()", "SubscriptionPattern", "UNSUPPORTED_ASSIGNOR"),
    ),
    "c-code": (
        "",
        "enable.partition.eof=x\n",
        "consumer",
        ("^topic.*", "incremental_assign()", "INVALID_REGULAR_EXPRESSION"),
    ),
    "default-was-range": ("", "group.id=g\n", "consumer", ("add group.remote.assignor=range",)),
    "consumer-already": (
        "",
        "group.protocol=CONSUMER\n",
        "consumer",
        ("nothing to change: it is on the consumer protocol already",),
    ),
    "classic-already": ("", "group.id=g\n", "classic", ("nothing to change: it is on the classic protocol already",)),
    "streams-consumers": (
        "",
        "main.consumer.session.timeout.ms=1\n",
        "consumer",
        ("line 1: main.consumer.session.timeout.ms stays", "nothing is changed"),
    ),
    "streams": ("", "application.id=a\nsession.timeout.ms=1\n", "consumer", ("Kafka Streams", "nothing is changed")),
    "streams-protocol": (
        "",
        "group.protocol=streams\n",
        "consumer",
        ("streams is no protocol of a plain consumer", "nothing is changed"),
    ),
    "spring-streams": ("", "spring.kafka.streams.properties.session.timeout.ms=1\n", "consumer", ("Kafka Streams",)),
    "connect": (
        "",
        "group.id=c\nconfig.storage.topic=x\nsession.timeout.ms=1\n",
        "consumer",
        ("Kafka Connect", "nothing is changed"),
    ),
    "nested": (
        "x.yaml",
        "kafka:\n  group.id: g\n  session:\n    timeout:\n      ms: 1\n",
        "consumer",
        ("line 5: session.timeout.ms is spread over nested keys",),
    ),
    "a-file-inside": (
        "x.yaml",
        "data:\n  c.properties: |\n    group.id=g\n    session.timeout.ms=1\n",
        "consumer",
        ("line 2: the text under data.c.properties",),
    ),
    "several": (
        "",
        "a.session.timeout.ms=1\nb.session.timeout.ms=1\n",
        "consumer",
        ("2 consumers stand in it, and all of them are changed: a, b",),
    ),
    "poll-under-session": (
        "",
        "group.protocol=consumer\nmax.poll.interval.ms=10000\nlog_level=1\n",
        "classic",
        ("librdkafka does not start", "45s, its default"),
    ),
    "custom-on-the-way-back": (
        "",
        "group.protocol=consumer\ngroup.remote.assignor=Geo\n",
        "classic",
        ("Geo: the clients have no such assignor",),
    ),
    "terminal-codes": (
        "",
        "group.instance.id=a\\u001b[31m\\nb\n",
        "consumer",
        ("group.instance.id (a[hidden]) stays",),
    ),
}


@pytest.mark.parametrize("case", NOTED)
def test_what_else_changes_is_said(case: str) -> None:
    name, text, target, notes = NOTED[case]

    rewritten = rewrite(text, target, name=name)

    for note in notes:
        assert note in said(rewritten)
    if "nothing is changed" in notes or case.endswith("-already"):
        assert (rewritten.after, rewritten.changes, rewritten.diff("x")) == (text, (), "")


def test_the_changes_name_line_old_value_and_reason() -> None:
    rewritten = rewrite("group.id=g\nsession.timeout.ms=10000\ngroup.protocol=classic\n", "consumer")

    assert rewritten.changes == (
        "line 3: group.protocol=classic becomes consumer: the rebalance protocol of the group",
        "line 2: session.timeout.ms=10000 goes: the session timeout is the broker's (group config "
        "consumer.session.timeout.ms)",
    )


DIFFS: dict[str, tuple[str, str, str]] = {
    "no-end": (
        "x.properties",
        "a=b\nsession.timeout.ms=1",
        "@@ -2 +2 @@\n-session.timeout.ms=1\n\\ No newline at end of file\n"
        "+group.protocol=consumer\n\\ No newline at end of file\n",
    ),
    "two-places": (
        "x.properties",
        "session.timeout.ms=1\r\nheartbeat.interval.ms = 1\r\ngroup.id=g\r\ngroup.protocol.type=consumer\r\n",
        "@@ -1,2 +1 @@\n-session.timeout.ms=1\n-heartbeat.interval.ms = 1\n+group.protocol=consumer\n"
        "@@ -4 +2,0 @@\n-group.protocol.type=consumer\n",
    ),
    "new": ("x.properties", "client.id=c\ngroup.id=g\na=b\n", "@@ -2,0 +3 @@\n+group.protocol=consumer\n"),
    "behind-the-last": (
        "x.properties",
        "client.id=c\ngroup.id=g",
        "@@ -2,0 +3 @@\n+group.protocol=consumer\n\\ No newline at end of file\n",
    ),
    "empty": ("x.properties", "", "@@ -0,0 +1 @@\n+group.protocol=consumer\n"),
    "mark": (
        "x.yaml",
        "\ufeffsession.timeout.ms: 1\n",
        "@@ -1 +1 @@\n-session.timeout.ms: 1\n+group.protocol: consumer\n",
    ),
    "dash": (
        "x.yaml",
        "a:\n- session.timeout.ms: 1\n  group.id: g\n",
        "@@ -2 +2 @@\n-- session.timeout.ms: 1\n+- group.protocol: consumer\n",
    ),
    "several-lines": (
        "x.yaml",
        "partition.assignment.strategy: >-\n  range,\n  roundrobin\n",
        "@@ -1,3 +1,2 @@\n-partition.assignment.strategy: >-\n-  range,\n-  roundrobin\n"
        "+group.protocol: consumer\n+group.remote.assignor: range\n",
    ),
}


@pytest.mark.parametrize("case", DIFFS)
def test_the_diff_is_unified_and_without_context(case: str) -> None:
    name, text, diff = DIFFS[case]

    assert rewrite(text, "consumer", name=name).diff("c") == "--- c (before)\n+++ c (after)\n" + diff


SECRET = "hunter-2-hunter"
# What stands around the settings, and nobody can tell by its key or its looks.
SECRETS: dict[str, tuple[str, str]] = {
    "password": ("x.properties", f"sasl.password={SECRET}\n"),
    "jaas": (
        "x.properties",
        f'sasl.jaas.config=a.PlainLoginModule required \\\n  username="u" \\\n  password="{SECRET}";\n',
    ),
    "pem": (
        "x.properties",
        f"ssl.keystore.key=-----BEGIN PRIVATE KEY-----\\n\\\n{SECRET}\\n\\\n-----END PRIVATE KEY-----\n",
    ),
    "pem-of-librdkafka": (
        "x.conf",
        f"log_level=1\nssl.key.pem=-----BEGIN PRIVATE KEY-----\\n\\\n{SECRET}\\n\\\n-----END PRIVATE KEY-----\n",
    ),
    "pem-in-yaml": (
        "x.yaml",
        f"other: |\n  -----BEGIN RSA PRIVATE KEY-----\n  {SECRET}\n  -----END RSA PRIVATE KEY-----\n",
    ),
    "commented-out": ("x.properties", f"#sasl.password={SECRET}\n"),
    "in-words": ("x.properties", f"# old: password is {SECRET}\n"),
    "unknown-keys": ("x.properties", f"connection.string={SECRET}\ncookie={SECRET}\nx.role.id={SECRET}\n"),
    "address": ("x.properties", f"schema.registry.url=http://user:{SECRET}@registry/\n"),
    "yaml": ("x.yaml", f"'sasl.password': \"{SECRET}\"  # {SECRET}\n"),
    "yaml-block": ("x.yaml", f"sasl.jaas.config: >-\n  a.B required\n  x={SECRET};\n"),
    "yaml-mapping": ("x.yaml", f"secrets:\n  a: {SECRET}\n  b:\n    - {SECRET}\n"),
    "yaml-alias": ("x.yaml", f"x: &x {SECRET}\nsasl.password: *x\n"),
}
# On the lines of the settings themselves.
BESIDE: dict[str, tuple[str, str]] = {
    "comment": ("x.yaml", f"session.timeout.ms: 1  # was {SECRET}\n"),
    "comment-in-a-list": (
        "x.yaml",
        f"partition.assignment.strategy:  # {SECRET}\n  - range  # {SECRET}\n  # {SECRET}={SECRET}\n  - roundrobin\n",
    ),
    "comment-that-is-none": ("x.properties", f"session.timeout.ms=1 # {SECRET}\n"),
    "comment-behind-a-strategy": ("x.properties", f"partition.assignment.strategy=range # {SECRET}\n"),
    "instance": ("x.properties", f"session.timeout.ms=1\ngroup.instance.id=a b {SECRET}\n"),
    "poll": ("x.properties", f"session.timeout.ms=1\nmax.poll.interval.ms=6 {SECRET}\n"),
    "protocol": ("x.properties", f"session.timeout.ms=1\ngroup.protocol=${{P:{SECRET}}}\n"),
    "joined-by-a-backslash": ("x.properties", f"session.timeout.ms=1\\\n  sasl.password={SECRET}\n"),
    "address-as-value": ("x.properties", f"session.timeout.ms=http://user:{SECRET}@a/\n"),
    "placeholder": ("x.properties", f"session.timeout.ms=${{SESSION:{SECRET}}}\n"),
    "quoted": ("x.yaml", f"session.timeout.ms: '1 #'  # {SECRET}\n"),
    "tag": ("x.yaml", f"session.timeout.ms: !{SECRET} 1\n"),
    "behind-a-dash": ("x.yaml", f"- session.timeout.ms: 1 # {SECRET}\n  sasl.password: {SECRET}\n"),
}


@pytest.mark.parametrize("case", [*SECRETS, *BESIDE])
@pytest.mark.parametrize("eol", ["\n", "\r\n"])
def test_nothing_of_the_file_but_the_settings_is_shown(case: str, eol: str) -> None:
    name, lines = {**SECRETS, **BESIDE}[case]
    setting = "session.timeout.ms: 1\n" if name.endswith("yaml") else "session.timeout.ms=1\n"
    for text in (setting + lines, lines + setting, lines + setting.strip()) if case in SECRETS else (lines,):
        rewritten = rewrite(text.replace("\n", eol), "consumer", name=name)

        said = json.dumps(document(rewritten, name, None))
        assert SECRET in rewritten.before.text
        assert SECRET not in said + repr(rewritten) + "".join(rewritten.strategies)
        assert "group.protocol" in rewritten.diff(name)
        changed = [line[1:] for line in rewritten.diff(name).splitlines()[2:] if line[0] not in "@\\"]
        if case in SECRETS:
            assert all(any(key in line for key in MATTER) for line in changed), changed
        else:
            assert "[hidden]" in said


def test_lines_that_others_repeat_are_not_taken_for_changed() -> None:
    """As a comparison of long texts may: a line of which there are many is matched with none."""
    lines = [f"a.{number}=b\nc={SECRET}" for number in range(200)]
    for at in (150, 100, 50):
        lines.insert(at, f"session.timeout.ms={at}\nc={SECRET}\nheartbeat.interval.ms={at}")

    diff = rewrite("\n".join(lines), "consumer", name="x.properties").diff("x")

    assert SECRET not in diff
    assert diff.count("\n-") == 6


def test_a_secret_that_yaml_takes_for_an_alias_is_not_said() -> None:
    with pytest.raises(ConfigError) as raised:
        rewrite(f"group.id: g\nsasl.password: *{SECRET}\n", "consumer")

    assert raised.value.message == "the configuration:2: not YAML: found undefined alias [hidden]"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "10000",
        "30s",
        "10_000",
        '"3000"',
        "${SESSION:10000}",
        "${env.SESSION}",
        "${HOST:}-1",
        "$HOST",
        "range, roundrobin",
        "[range, 'roundrobin']",
        "- range",
        f"{PACKAGE}RangeAssignor,\\",
        ">-",
    ],
)
def test_what_settings_are_made_of_is_shown(value: str) -> None:
    assert shown(value) == value


def test_properties_are_read_as_the_settings_of_kgroup_are() -> None:
    """The other reader of the same syntax, which is compared with Java's own."""
    random.seed(5)
    pieces = [
        "a.b",
        "session.timeout.ms",
        "=",
        ":",
        " ",
        "\t",
        "\\",
        "\\\n",
        "\n",
        "\r\n",
        "#",
        "!",
        "\\u0041",
        "\\n",
        "x",
    ]
    for _ in range(2000):
        text = "".join(random.choices(pieces, k=random.randrange(12)))
        expected = [(entry.key, entry.value, entry.line) for entry in parse_properties(text)]

        found = read_properties(text, "x", "java").entries
        assert [(entry.own, entry.value, entry.line) for entry in found] == expected, repr(text)
        assert all(text[entry.start : entry.end].strip() for entry in found)


# Any file in any order: what is not ours stays, in its order, and the outcome holds.

OTHERS = {
    "bootstrap.servers": "127.0.0.1:1",
    "client.id": "ä = b: c#d",
    "max.poll.interval.ms": "60000",
    "enable.auto.commit": "false",
    "sasl.password": SECRET,
    "log_level": "0",
}
OURS = {
    "session.timeout.ms": "45000",
    "heartbeat.interval.ms": "3000",
    "partition.assignment.strategy": "range",
    "group.protocol": "classic",
    "group.protocol.type": "consumer",
}


def random_settings() -> list[tuple[str, str]]:
    ours = random.sample(sorted(OURS.items()), random.randrange(len(OURS) + 1))
    ours += random.choices(ours, k=random.randrange(3)) if ours else []
    settings = [*OTHERS.items(), ("group.id", "g"), *ours]
    random.shuffle(settings)
    return settings


@pytest.mark.parametrize("form", ["properties", "yaml"])
def test_any_order_of_any_settings(form: str) -> None:
    random.seed(848)
    for _ in range(100):
        settings, eol = random_settings(), random.choice(["\n", "\r\n"])
        separator, indent = ("=", "") if form == "properties" else (": ", "    ")
        lines: list[str] = []
        for key, value in settings:
            lines += random.sample(["# session.timeout.ms=1", "", f"{indent}# end"], random.randrange(3))
            lines.append(f"{indent}{key}{separator}" + (f"'{value}'" if form == "yaml" else value))
        text = eol.join(["contexts:", "  prod:", *lines] if form == "yaml" else lines) + random.choice(["", eol])

        rewritten = rewrite(text, "consumer", name=f"x.{form}")

        wanted: dict[str, Any] = {**OTHERS, "group.id": "g", "group.protocol": "consumer"}
        if any(key == "partition.assignment.strategy" for key, _ in settings):
            wanted["group.remote.assignor"] = "range"
        after = rewritten.after
        parsed = values(after) if form == "properties" else yaml.safe_load(after)["contexts"]["prod"]
        assert parsed == wanted, text
        kept = [line for line in text.split(eol) if line.strip().split(separator)[0] not in OURS]
        left = [line for line in after.split(eol) if not line.strip().startswith(("group.protocol", "group.remote"))]
        assert [line for line in left if line] == [line for line in kept if line]
        assert SECRET not in rewritten.diff("x")
        assert rewrite(after, "consumer", name=f"x.{form}").after == after
        back = rewrite(after, "classic", name=f"x.{form}", session_timeout_ms=45_000)
        assert "classic" in back.after


def accepted(text: str) -> None:
    """librdkafka itself, which checks a configuration when a consumer is made; no broker is asked."""
    Consumer({**values(text), "group.id": "g"}).close()


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("session.timeout.ms=10000", "session.timeout.ms"),
        ("heartbeat.interval.ms=3000", "heartbeat.interval.ms"),
        ("partition.assignment.strategy=range", "partition.assignment.strategy"),
        ("group.protocol.type=consumer", "group.protocol.type"),
    ],
)
def test_librdkafka_takes_what_was_rewritten_and_refuses_what_was_not(line: str, refusal: str) -> None:
    before = f"log_level=0\ngroup.id=g\n{line}\n"
    accepted(before)
    with pytest.raises(KafkaException, match=refusal):
        accepted(before + "group.protocol=consumer\n")

    accepted(rewrite(before, "consumer").after)


def test_librdkafka_takes_what_came_back_too() -> None:
    text = "log_level=0\ngroup.id=g\ngroup.protocol=consumer\n"
    for assignor, strategy in (("range", "range"), ("uniform", "cooperative-sticky")):
        back = rewrite(text, "classic", assignor=assignor, session_timeout_ms=30_000)
        assert values(back.after)["partition.assignment.strategy"] == strategy
        accepted(back.after)
