"""The changes to a consumer's configuration, as tables, and whether a real client accepts the result."""

from __future__ import annotations

import json
from typing import Literal

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException

from kgroup.changes.client_config_file import read_config, write_changes
from kgroup.groups.migration.client_config import ConfigPlan, plan_config
from kgroup.groups.migration.client_config.decide import masked
from kgroup.groups.migration.client_config.notes import MINIMUM
from kgroup.groups.migration.config_document import config_document
from kgroup.output.pages.migrate import config_blocks
from kgroup.settings.java_properties import parse_properties
from kgroup.support.errors import ConfigError
from kgroup.support.json_line import plain
from tests.helpers.pages import written
from tests.helpers.places import ROOT

Target = Literal["consumer", "classic"]

PACKAGE = "org.apache.kafka.clients.consumer."
SPRING = "spring.kafka.consumer.properties."


def plan(
    text: str, target: Target = "consumer", *, name: str = "x.properties", assignor: str | None = None
) -> ConfigPlan:
    return plan_config(read_config(text.encode(), name), target, assignor=assignor)


def listed(config: ConfigPlan) -> list[str]:
    """``key=value`` for what is set, ``-line key`` for what is removed."""
    return [
        f"{change.key}={change.new_value}" if change.new_value is not None else f"-{change.near.line} {change.key}"
        for change in config.changes
    ]


def notes(config: ConfigPlan) -> str:
    return "\n".join(config.notes)


TO_CONSUMER: dict[str, tuple[str, str, list[str]]] = {
    "java": (
        "x.properties",
        f"group.id=g\nsession.timeout.ms=1\nheartbeat.interval.ms=1\npartition.assignment.strategy={PACKAGE}RangeAssignor\n",
        [
            "group.protocol=consumer",
            "group.remote.assignor=range",
            "-2 session.timeout.ms",
            "-3 heartbeat.interval.ms",
            "-4 partition.assignment.strategy",
        ],
    ),
    "nothing-to-remove": ("", "group.id=g\nclient.id=c\n", ["group.protocol=consumer"]),
    "no-group": ("", "bootstrap.servers=a:1\n", ["group.protocol=consumer"]),
    "replaced": ("", "group.protocol = CLASSIC\n", ["group.protocol=consumer"]),
    "twice": (
        "",
        "session.timeout.ms=1\ngroup.protocol=consumer\nsession.timeout.ms=2\ngroup.protocol=classic\n",
        ["group.protocol=consumer", "-2 group.protocol", "-1 session.timeout.ms", "-3 session.timeout.ms"],
    ),
    "of-zookeeper": ("", "zookeeper.session.timeout.ms=6000\ngroup.id=g\n", ["group.protocol=consumer"]),
    "librdkafka": (
        "x.conf",
        "group.id=g\ngroup.protocol.type=consumer\npartition.assignment.strategy=roundrobin\n",
        [
            "group.protocol=consumer",
            "group.remote.assignor=uniform",
            "-2 group.protocol.type",
            "-3 partition.assignment.strategy",
        ],
    ),
    "spring": (
        "x.properties",
        f"spring.kafka.consumer.heartbeat-interval=3s\n{SPRING}session.timeout.ms=1\nspring.kafka.producer.acks=all\n",
        [
            f"{SPRING}group.protocol=consumer",
            "-1 spring.kafka.consumer.heartbeat-interval",
            f"-2 {SPRING}session.timeout.ms",
        ],
    ),
    "spring-in-brackets": (
        "x.properties",
        "spring.kafka.consumer.properties[session.timeout.ms]=1\n",
        [f"{SPRING}group.protocol=consumer", f"-1 {SPRING}session.timeout.ms"],
    ),
    "spring-for-all-clients": (
        "x.properties",
        f"spring.kafka.properties.group.protocol=classic\n{SPRING}group.protocol=classic\n",
        [f"{SPRING}group.protocol=consumer", "-1 spring.kafka.properties.group.protocol"],
    ),
    "spring-without-kafka-s-keys": (
        "x.properties",
        "spring.kafka.bootstrap-servers=a:1\nspring.kafka.producer.properties.client.id=c\n",
        [f"{SPRING}group.protocol=consumer"],
    ),
    "spring-yaml": (
        "x.yml",
        "spring:\n  kafka:\n    consumer:\n      heartbeatInterval: 3s\n      properties:\n"
        '        "[session.timeout.ms]": 1\n'
        f"        partition.assignment.strategy:\n          - {PACKAGE}RangeAssignor\n",
        [
            f"{SPRING}group.protocol=consumer",
            f"{SPRING}group.remote.assignor=range",
            "-4 spring.kafka.consumer.heartbeatInterval",
            f"-6 {SPRING}session.timeout.ms",
            f"-7 {SPRING}partition.assignment.strategy",
        ],
    ),
    "spring-profiles": (
        "x.yml",
        "spring.kafka.consumer.group-id: g\n---\nspring.kafka.bootstrap-servers: a:1\n",
        [f"{SPRING}group.protocol=consumer"],
    ),
    "channels-of-quarkus": (
        "x.properties",
        "mp.messaging.incoming.a.session.timeout.ms=1\nmp.messaging.incoming.b.group.id=x\nmp.messaging.outgoing.c.acks=1\n",
        [
            "mp.messaging.incoming.a.group.protocol=consumer",
            "-1 mp.messaging.incoming.a.session.timeout.ms",
            "mp.messaging.incoming.b.group.protocol=consumer",
        ],
    ),
    "a-prefix-of-its-own": (
        "",
        "kafka.group.id=g\nkafka.heartbeat.interval.ms=1\n",
        ["kafka.group.protocol=consumer", "-2 kafka.heartbeat.interval.ms"],
    ),
    "context": ("x.yaml", "contexts:\n  a:\n    bootstrap.servers: b\n", ["contexts.a.group.protocol=consumer"]),
    "nested": (
        "x.yaml",
        "kafka:\n  group.id: g\n  session:\n    timeout.ms: 1\n",
        ["kafka.group.protocol=consumer", "-4 kafka.session.timeout.ms"],
    ),
    "documents": (
        "x.yaml",
        "---\na: 1\n---\nkafka: {session.timeout.ms: 1}\n---\nb: !vault x\n",
        ["kafka.group.protocol=consumer", "-4 kafka.session.timeout.ms"],
    ),
    "list": (
        "x.yaml",
        "- session.timeout.ms: 5\n  group.id: x\n- group.id: y\n",
        ["[0].group.protocol=consumer", "-1 [0].session.timeout.ms", "[1].group.protocol=consumer"],
    ),
    "anchors": (
        "x.yaml",
        "base: &base\n  session.timeout.ms: &t 1\nprod:\n  <<: *base\n  client.id: c\n",
        ["base.group.protocol=consumer", "-2 base.session.timeout.ms"],
    ),
    "several-lines": (
        "x.yaml",
        "partition.assignment.strategy: >-\n  range,\n  roundrobin\n",
        ["group.protocol=consumer", "group.remote.assignor=range", "-1 partition.assignment.strategy"],
    ),
    "streams": ("", "application.id=a\nsession.timeout.ms=1\n", []),
    "streams-of-spring": ("", "spring.kafka.streams.properties.session.timeout.ms=1\n", []),
    "streams-embedded": ("", "main.consumer.session.timeout.ms=1\n", []),
    "connect": ("", "group.id=c\nconfig.storage.topic=x\nsession.timeout.ms=1\n", []),
    "streams-protocol": ("", "group.protocol=streams\n", []),
    "done": ("", "group.id=g\ngroup.protocol=CONSUMER\n", []),
}
TO_CLASSIC: dict[str, tuple[str, str, list[str]]] = {
    "java": (
        "",
        "key.deserializer=x\ngroup.protocol=consumer\n",
        ["group.protocol=classic", f"partition.assignment.strategy={PACKAGE}CooperativeStickyAssignor"],
    ),
    "librdkafka": (
        "",
        "enable.partition.eof=true\ngroup.remote.assignor=range\ngroup.protocol=consumer\n",
        ["group.protocol=classic", "partition.assignment.strategy=range", "-2 group.remote.assignor"],
    ),
    "own-assignor": (
        "",
        "group.protocol=consumer\ngroup.remote.assignor=com.acme.Geo\n",
        ["group.protocol=classic", "-2 group.remote.assignor"],
    ),
    "leftover": ("", "group.id=g\ngroup.remote.assignor=range\n", ["-2 group.remote.assignor"]),
    "done": ("", "group.id=g\nsession.timeout.ms=1\n", []),
}
CASES: list[tuple[Target, str, str, str, list[str]]] = [
    *(("consumer", case, *row) for case, row in TO_CONSUMER.items()),
    *(("classic", case, *row) for case, row in TO_CLASSIC.items()),
]


@pytest.mark.parametrize(("target", "case", "name", "text", "changes"), CASES, ids=[f"{t}-{c}" for t, c, *_ in CASES])
def test_changes(target: Target, case: str, name: str, text: str, changes: list[str]) -> None:
    config = plan(text, target, name=name)

    assert listed(config) == changes
    if not changes:
        expected = (
            f"nothing to change: it is on the {target} protocol already" if case == "done" else "nothing is changed"
        )
        assert expected in config.notes


def test_a_change_has_line_old_value_and_reason_on_the_page_and_in_json() -> None:
    config = plan("group.id=g\nsession.timeout.ms=10000\ngroup.protocol=classic\n")

    assert plain(config_document(config, "x", None).changes) == (
        {
            "key": "group.protocol",
            "line": 3,
            "old_value": "classic",
            "new_value": "consumer",
            "reason": "the rebalance protocol of the group",
        },
        {
            "key": "session.timeout.ms",
            "line": 2,
            "old_value": "10000",
            "new_value": None,
            "reason": "the session timeout is the broker's (group config consumer.session.timeout.ms)",
        },
    )
    page = " ".join(" ".join(written(config_blocks(config, "x", None))).split())
    assert "set group.protocol (line 3: classic) to consumer: the rebalance protocol of the group" in page
    assert "remove session.timeout.ms (line 2: 10000)" in page


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.properties", "server.port=80\n", "x.properties: the file has no settings of a Kafka client"),
        (
            "x.properties",
            "spring.kafka.producer.properties.client.id=c\n",
            "x.properties: the file has no settings of a Kafka client",
        ),
        ("x.properties", "", "x.properties: the file has no settings of a Kafka client"),
        ("passwd", "root:x:0:0:root:/root:/bin/bash\n", "passwd: the file has no settings of a Kafka client"),
        ("x.yml", "hello\n", "x.yml: the file has no settings of a Kafka client"),
        ("x.properties", "a=b\nnode.id=1\n", "x.properties:2: node.id is a setting of brokers"),
        ("x.yaml", "a:\n  client.id: a\nb:\n  client.id: b\n", "x.yaml: 2 clients are configured in the file"),
        ("x.conf", "sasl.password=a\\\nsession.timeout.ms=1\ngroup.id=g\n", "x.conf:1: the line ends with a backslash"),
    ],
)
def test_a_file_that_is_not_the_configuration_of_a_consumer(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        plan(text, name=name)

    assert raised.value.message.startswith(message)


def java(strategy: str) -> str:
    return ",".join(PACKAGE + name for name in strategy.split(","))


@pytest.mark.parametrize(
    ("strategy", "given", "assignor", "written"),
    [
        (None, None, "uniform", None),
        (java("RangeAssignor"), None, "range", "range"),
        (java("StickyAssignor"), None, "uniform", "uniform"),
        (java("RangeAssignor,CooperativeStickyAssignor"), None, "range", "range"),
        (java("CooperativeStickyAssignor,RangeAssignor"), None, "uniform", "uniform"),
        ("com.acme.Geo", None, None, None),
        ("com.acme.Geo," + java("RangeAssignor"), None, "range", "range"),
        ("range,roundrobin", None, "range", "range"),
        ("cooperative-sticky", None, "uniform", "uniform"),
        ("range", "uniform", "range", "range"),
        ("com.acme.Geo", "uniform", None, None),
        (None, "range", "range", "range"),
        (None, "com.acme.GeoServer", "com.acme.GeoServer", "com.acme.GeoServer"),
    ],
)
def test_the_assignor_is_mapped(
    strategy: str | None, given: str | None, assignor: str | None, written: str | None
) -> None:
    config = plan("group.id=g\n" + (f"partition.assignment.strategy={strategy}\n" if strategy else ""), assignor=given)

    assert config.assignor == assignor
    assert [line for line in listed(config) if "remote" in line] == (
        [f"group.remote.assignor={written}"] if written else []
    )
    assert ("no such assignor" in notes(config)) == ("com.acme.Geo" in (strategy or ""))
    assert ("no partition.assignment.strategy was set" in notes(config)) == (strategy is None and given is None)


def test_an_assignor_that_the_file_has_already_stays() -> None:
    config = plan("group.protocol=classic\ngroup.remote.assignor=range\n", assignor="uniform")

    assert (listed(config), config.assignor) == (["group.protocol=consumer"], "range")


@pytest.mark.parametrize(
    ("name", "text", "kind", "client"),
    [
        ("", "group.id=g\nkey.deserializer=x\n", "java", "Java client"),
        ("", "group.id=g\nsasl.password=x\n", "librdkafka", "librdkafka"),
        ("", f"partition.assignment.strategy={PACKAGE}RangeAssignor\n", "java", "Java client"),
        ("", "partition.assignment.strategy=range\n", "librdkafka", "librdkafka"),
        ("x.yaml", "group.id: g\nkey.deserializer: x\n", "yaml", "Java client"),
        ("x.yaml", "group.id: g\nsocket.timeout.ms: 1\n", "yaml", "librdkafka"),
        ("", "group.id=g\n", "java", "Java client"),
        ("", "group.id=g\n", "java", "librdkafka"),
    ],
)
def test_the_client_is_recognised_or_its_guess_is_noted(name: str, text: str, kind: str, client: str) -> None:
    config = plan(text, name=name)

    assert config.kind == kind
    assert f"at least {client}" in notes(config)
    assert ("is assumed" in notes(config)) == (text == "group.id=g\n")


def test_the_minimum_versions_are_those_of_the_table_of_clients() -> None:
    table = yaml.safe_load((ROOT / "kgroup" / "data" / "clients.yaml").read_text())
    rows = {row["name"]: row for row in table["clients"]}

    for client, sentence in MINIMUM.items():
        assert rows[client]["usable_from"] in sentence
        assert rows[client]["recommended"] in sentence


@pytest.mark.parametrize(
    ("target", "text", "expected"),
    [
        ("consumer", "group.id=g\n", ["the session timeout is the broker's now", "add group.remote.assignor=range"]),
        (
            "consumer",
            "session.timeout.ms=1\nsession.timeout.ms= 20000 \nheartbeat.interval.ms=3000\n",
            ["consumer.session.timeout.ms=20000", "--session-timeout 20s", "consumer.heartbeat.interval.ms=3000"],
        ),
        ("consumer", "session.timeout.ms=${A:1}\n", ["line 1: session.timeout.ms is not a number"]),
        ("consumer", "spring.kafka.consumer.heartbeat-interval=2s\n", ["consumer.heartbeat.interval.ms=2000"]),
        ("consumer", "group.instance.id=i\n", ["group.instance.id (i) stays", "UNRELEASED_INSTANCE_ID"]),
        ("consumer", "group.instance.id=a\\u001b[31m\\nb\n", ["group.instance.id (a[hidden]) stays"]),
        ("consumer", "max.poll.interval.ms=6\nlog_level=1\n", ["max.poll.interval.ms (6) still", "librdkafka 2.15"]),
        ("consumer", "key.deserializer=x\n", ["enforceRebalance()", "SubscriptionPattern", "UNSUPPORTED_ASSIGNOR"]),
        ("consumer", "enable.partition.eof=x\n", ["^topic.*", "incremental_assign()"]),
        ("consumer", "main.consumer.session.timeout.ms=1\n", ["line 1: main.consumer.session.timeout.ms stays"]),
        ("consumer", "application.id=a\nsession.timeout.ms=1\n", ["the consumers that Kafka Streams creates"]),
        ("consumer", "config.storage.topic=x\nsession.timeout.ms=1\n", ["the consumers that Kafka Connect creates"]),
        ("consumer", "group.protocol=streams\n", ["streams is not a protocol of a plain consumer"]),
        ("consumer", "a.session.timeout.ms=1\nb.session.timeout.ms=1\n", ["configures 2 consumers", "them: a, b"]),
        (
            "classic",
            "group.protocol=consumer\nmax.poll.interval.ms=10000\nlog_level=1\n",
            ["librdkafka does not start", "45s, its default"],
        ),
        ("classic", "group.protocol=consumer\ngroup.remote.assignor=Geo\n", ["Geo: the clients have no such assignor"]),
        ("classic", "group.protocol=consumer\nheartbeat.interval.ms=60000\n", ["the client does not start"]),
    ],
)
def test_notes(target: Target, text: str, expected: list[str]) -> None:
    found = notes(plan(text, target, name=""))

    assert [note for note in expected if note not in found] == []


SECRET = "hunter-2-hunter"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.properties", f"session.timeout.ms=1\nsasl.password={SECRET}\nx.role.id={SECRET}\n#old: {SECRET}\n"),
        ("x.properties", f'group.id=g\nsasl.jaas.config=a.B required \\\n  password="{SECRET}";\n'),
        ("x.properties", f"session.timeout.ms=1 # {SECRET}\n"),
        ("x.properties", f"partition.assignment.strategy=range # {SECRET}\n"),
        ("x.properties", f"group.id=g\ngroup.instance.id=a b {SECRET}\nmax.poll.interval.ms=6 {SECRET}\n"),
        ("x.properties", f"group.protocol=${{P:{SECRET}}}\n"),
        ("x.properties", f"session.timeout.ms=1\\\n  sasl.password={SECRET}\n"),
        ("x.properties", f"session.timeout.ms=http://user:{SECRET}@a/\n"),
        ("x.yaml", f"session.timeout.ms: 1 # {SECRET}\nsasl.password: {SECRET}\nother: [{SECRET}]\n"),
        ("x.yaml", f"session.timeout.ms: '1 #{SECRET}'\n"),
    ],
)
def test_secrets_are_not_shown(name: str, text: str) -> None:
    config = plan(text, name=name)

    shown = (
        json.dumps(plain(config_document(config, name, None))) + str(config_blocks(config, name, None)) + repr(config)
    )
    assert "group.protocol" in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    "value", ["", "10000", "30s", "10_000", "${A:10000}", "${env.A}", "$HOST", "range, roundrobin", f"{PACKAGE}X"]
)
def test_plain_values_are_shown(value: str) -> None:
    assert masked(value) == value


def accepted(text: str) -> None:
    """librdkafka checks a configuration when a consumer is created; no broker is needed."""
    Consumer({**{entry.key: entry.value for entry in parse_properties(text)}, "group.id": "g"}).close()


def rewritten(text: str, target: Target, assignor: str | None = None) -> str:
    file = read_config(text.encode(), "x.conf")
    changes = plan_config(file, target, assignor=assignor, session_timeout_ms=30_000).changes
    return write_changes(text.encode(), file, changes).decode()


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        ("session.timeout.ms=10000", "session.timeout.ms"),
        ("heartbeat.interval.ms=3000", "heartbeat.interval.ms"),
        ("partition.assignment.strategy=range", "partition.assignment.strategy"),
        ("group.protocol.type=consumer", "group.protocol.type"),
    ],
)
def test_librdkafka_accepts_the_result_and_refuses_the_old_settings(line: str, refusal: str) -> None:
    before = f"log_level=0\ngroup.id=g\n{line}\n"
    accepted(before)
    with pytest.raises(KafkaException, match=refusal):
        accepted(before + "group.protocol=consumer\n")

    accepted(rewritten(before, "consumer"))


@pytest.mark.parametrize(("assignor", "strategy"), [("range", "range"), ("uniform", "cooperative-sticky")])
def test_librdkafka_accepts_the_result_of_the_way_back(assignor: str, strategy: str) -> None:
    back = rewritten("log_level=0\ngroup.id=g\ngroup.protocol=consumer\n", "classic", assignor)

    assert f"partition.assignment.strategy={strategy}\n" in back
    accepted(back)
