"""Whose offsets they are: what frameworks leave to be seen, and what only looks like it."""

from __future__ import annotations

import struct
from base64 import b64encode

import pytest

from kgroup.groups.foreign_owners import STATE_AND_OFFSETS, foreign_owner, refuse_foreign_owner
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, ListedGroup, Partition
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode
from tests.helpers.cases import described


def group(
    name: str,
    protocol_type: str | None = "consumer",
    *,
    clients: tuple[str, ...] = (),
    assignor: str | None = None,
    commits: tuple[tuple[str, str], ...] = (),
    kind: str = "classic",
) -> Group:
    """``commits`` are (topic, metadata)."""
    return described.group(
        [Partition(TopicPartition(of, 0), Commit(1, None, metadata), None, None, None) for of, metadata in commits],
        [described.member(f"{client}-1", client_id=client, protocol=None, subscription=None) for client in clients],
        name=name,
        type=kind,
        state="Stable" if clients else "Empty",
        protocol_type=protocol_type,
        assignor=assignor,
    )


def streams_metadata(version: int, time_ms: int, rest: bytes = b"") -> str:
    return b64encode(struct.pack(">bq", version, time_ms) + rest).decode()


def test_what_streams_commits_looks_like() -> None:
    """Bytes as Kafka's TopicPartitionMetadata writes them: 2, and 1,700,000,000,000 ms."""
    assert streams_metadata(2, 1_700_000_000_000) == "AgAAAYvP5WgA"


@pytest.mark.parametrize(
    ("given", "framework", "evidence"),
    [
        (group("connect-cluster", "connect"), "Kafka Connect", '(protocol type "connect")'),
        (group("workers", "connect", clients=("a",)), "Kafka Connect", '(protocol type "connect")'),
        (group("connect-s3"), "Kafka Connect", '(sink connectors consume as "connect-" and their name)'),
        (group("connect-s3", ""), "Kafka Connect", '(sink connectors consume as "connect-" and their name)'),
        (group("connect-s3", kind="consumer"), "Kafka Connect",
         '(sink connectors consume as "connect-" and their name)'),
        (group("own-name", clients=("connector-consumer-s3-0",)), "Kafka Connect",
         '(client id "connector-consumer-s3-0")'),
        (group("schema-registry", "sr"), "Schema Registry", '(protocol type "sr")'),
        (group("app", clients=("app-5f-StreamThread-1-consumer",)), "Kafka Streams",
         '(client id "app-5f-StreamThread-1-consumer")'),
        (group("app", assignor="stream"), "Kafka Streams", '(assignor "stream")'),
        (group("app", commits=(("in", ""), ("app-by-key-repartition", ""))), "Kafka Streams",
         "(it consumes its own topic app-by-key-repartition)"),
        # Kafka Streams 4.3.1 committed this.
        (group("app", commits=(("in", "AgAAAaH+VehK"),)), "Kafka Streams", "(the metadata of its commit on in:0)"),
        (group("app", "", commits=(("in", streams_metadata(1, -1)),)), "Kafka Streams",
         "(the metadata of its commit on in:0)"),
        (group("app", commits=(("in", streams_metadata(2, 5, struct.pack(">ii1sq", 1, 1, b"k", 7))),)), "Kafka Streams",
         "(the metadata of its commit on in:0)"),
        (group("spark-kafka-source-b89fd278-521b-485d-9df9-d4a69895ccd2-636459464-driver-0"), "Spark",
         '(its name begins with "spark-kafka-source-")'),
        (group("spark-kafka-relation-b89fd278-driver-0", ""), "Spark",
         '(its name begins with "spark-kafka-relation-")'),
        (group("orders-flink", ""), "Flink", "(its name, and it never had members)"),
        (group("Flink_job.7", ""), "Flink", "(its name, and it never had members)"),
        (group("KafkaSource--4962768465676381896", ""), "Flink", "(its name, and it never had members)"),
        (ListedGroup("q", "share", "Stable", "share", None), "a share group", '(group type "share")'),
        (ListedGroup("app", "streams", "Stable", "streams", None), "Kafka Streams", '(group type "streams")'),
        (ListedGroup("connect-s3", "classic", "Empty", "consumer", None), "Kafka Connect",
         '(sink connectors consume as "connect-" and their name)'),
        (ListedGroup("w", "classic", "Stable", "connect", None), "Kafka Connect", '(protocol type "connect")'),
        (ListedGroup("my-flink", "classic", "Empty", "", None), "Flink", "(its name, and it never had members)"),
    ],
)  # fmt: skip
def test_owners_are_recognised(given: Group | ListedGroup, framework: str, evidence: str) -> None:
    owner = foreign_owner(given)

    assert owner
    assert (owner.framework, owner.evidence) == (framework, evidence)


@pytest.mark.parametrize(
    "given",
    [
        group("orders-svc"),
        group("orders-svc", ""),
        group("orders-svc", None),
        group("orders-svc", kind="consumer", clients=("rdkafka",), assignor="uniform"),
        group("connect"),
        group("connect-"),
        group("disconnect-svc"),
        group("my-connect-svc"),
        group("orders-flink"),  # it had members, so it is no job of Flink's
        group("orders-flink", None),
        group("flinky-svc", ""),
        group("KafkaSource-7", ""),
        group("my-spark-kafka-source-x"),
        group("spark-svc"),
        group("app", clients=("StreamThread-watcher",)),
        group("app", assignor="streamlined"),
        group("app", commits=(("other-by-key-repartition", ""),)),
        group("app", commits=(("app-changelog", ""),)),
        group("app", commits=(("in", "host-1/10.0.0.1"),)),
        group("app", commits=(("in", "AAAAAAAAAAAA"),)),  # version 0
        group("app", commits=(("in", streams_metadata(1, 5, b"more")),)),
        group("app", commits=(("in", streams_metadata(2, 1 << 50)),)),  # no time of this world
        group("app", commits=(("in", streams_metadata(2, -2)),)),
        group("app", commits=(("in", "Agentsmith-1"),)),
        group("app", commits=(("in", "AgentSmith12"),)),
        group("app", commits=(("in", "éééééééééééé"),)),
        ListedGroup("orders-svc", "consumer", "Stable", "consumer", None),
        ListedGroup("orders-svc", "classic", "Empty", None, None),
    ],
)
def test_others_are_left_alone(given: Group | ListedGroup) -> None:
    assert foreign_owner(given) is None


@pytest.mark.parametrize(
    ("given", "message", "details"),
    [
        (group("connect-s3/archive"), "connect-s3/archive belongs to Kafka Connect",
         ('(sink connectors consume as "connect-" and their name). Connect moves its offsets itself:',
          "PUT /connectors/s3%2Farchive/stop, then PATCH /connectors/s3%2Farchive/offsets")),
        (group("own-name", clients=("connector-consumer-s3-archive-12",)), "own-name belongs to Kafka Connect",
         ('(client id "connector-consumer-s3-archive-12"). Connect moves its offsets itself:',
          "PUT /connectors/s3-archive/stop, then PATCH /connectors/s3-archive/offsets")),
        (ListedGroup("my q", "share", "Stable", "share", None), "my q is a share group",
         ('(group type "share"). It has no committed offsets; reset and delete-offsets change where it starts.',)),
        (group("app", assignor="stream"), "app belongs to Kafka Streams",
         (f'(assignor "stream"). {STATE_AND_OFFSETS}. Three steps:',
          "1. Stop all instances, until the group is Empty: kgroup wait app --for empty",
          "2. Move the offsets, as this shows; then run it without --dry-run, which deletes its internal topics too:",
          "kafka-streams-application-reset.sh --bootstrap-server BROKER --application-id app --input-topics TOPICS"
          " --to-earliest --dry-run",
          "3. Delete the local state on each host before the start: KafkaStreams.cleanUp(), or state.dir.")),
    ],
)  # fmt: skip
def test_the_refusal_names_the_right_tool(given: Group | ListedGroup, message: str, details: tuple[str, ...]) -> None:
    owner = foreign_owner(given)
    assert owner
    refusal = refuse_foreign_owner(given.name, owner)

    assert (refusal.code, refusal.exit_code) == ("foreign-owner", ExitCode.REFUSED)
    assert (refusal.message, refusal.details) == (message, details)
    assert refusal.hint == "To continue anyway: --accept foreign-owner"


@pytest.mark.parametrize("name", ["connect-x", "spark-kafka-source-x"])
def test_no_remedy_changes_anything_as_it_stands(name: str) -> None:
    for given in (
        group(name),
        ListedGroup(name, "share", "Stable", "", None),
        ListedGroup(name, "streams", "", "", None),
    ):
        owner = foreign_owner(given)
        assert owner
        commands = [line for line in owner.remedy.splitlines() if line.startswith("kafka-")]
        assert not any("--execute" in line for line in commands)
