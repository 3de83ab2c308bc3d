"""Detects groups whose offsets a framework owns: it also stores them elsewhere, or moves them itself. Pure."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Sequence
from urllib.parse import quote as quote_url

import msgspec

from kgroup.model.groups import Group, ListedGroup, Member, Partition, is_of_consumers
from kgroup.model.streaming_query import QUERY
from kgroup.support.errors import FOREIGN_OWNER, Refused
from kgroup.support.hint import Hint
from kgroup.support.quoting import quote

# Patterns are text: re compiles them at their first use and caches them, which keeps the import fast.
_SPARK = r"spark-kafka-(?:source|relation)-"
_FLINK = r"(?i)(?:.*[^a-z0-9])?flink(?:[^a-z0-9].*)?|KafkaSource--?[0-9]{12,}"
_SINK_GROUP, _SINK_CLIENT = "connect-", "connector-consumer-"
_STREAMS_CLIENT = r".*-StreamThread-[0-9]+-consumer"
_STREAMS_METADATA_BYTES = 9
_LATEST_PLAUSIBLE_MS = 1 << 42

STREAMS_ASSIGNOR = "stream"
"""What the assignor of Kafka Streams' classic protocol calls itself (StreamsPartitionAssignor.name)."""

STATE_AND_OFFSETS = "Its state belongs to its offsets: other offsets alone make its results wrong"
"""Of an application of Kafka Streams."""

LEFT_BEHIND = (
    "Its internal topics (-changelog, -repartition) and its local state stay, for the next application of this name:",
    "--delete-all-internal-topics deletes the topics too, KafkaStreams.cleanUp() the state of a host.",
)
"""What the deletion of a streams group alone does not delete (4.4.0, seen)."""


class Owner(msgspec.Struct, frozen=True):
    """The framework that owns the offsets, the evidence (in parentheses), and what to do instead.

    ``remedy`` may have several lines; Kafka's commands in it are dry runs.
    """

    framework: str
    evidence: str
    remedy: str


def foreign_owner(group: Group | ListedGroup) -> Owner | None:
    """The framework that owns a group's offsets; None if there is no evidence of one.

    A wrong refusal costs an operator minutes during an incident. So a name alone counts only if the framework itself
    generates it and nothing contradicts it: a group with members is not Flink's, whose consumers never join.
    """
    if group.type == QUERY:
        return None
    members = (group.members or ()) if isinstance(group, Group) else ()
    partitions = group.partitions if isinstance(group, Group) else ()
    assignor = group.assignor if isinstance(group, Group) else None
    return (
        _by_type(group)
        or _streams(group.name, assignor, members, partitions)
        or _sink_connector(group.name, members)
        or _spark(group.name)
        or _flink(group)
    )


def refuse_foreign_owner(group_name: str, owner: Owner, details: tuple[str, ...] | None = None) -> Refused:
    """The refusal ``foreign-owner``: the offsets belong to a framework. ``details`` None: the owner's evidence."""
    relation = "is" if owner.framework.startswith("a ") else "belongs to"
    return Refused(
        f"{group_name} {relation} {owner.framework}",
        details=tuple(f"{owner.evidence}. {owner.remedy}".splitlines()) if details is None else details,
        hint="To continue anyway: --accept foreign-owner",
        code=FOREIGN_OWNER,
    )


def _by_type(group: Group | ListedGroup) -> Owner | None:
    if group.type == "share":
        return Owner(
            "a share group",
            '(group type "share")',
            "It has no committed offsets; reset and delete-offsets change where it starts.",
        )
    if group.type == "streams":
        return Owner("Kafka Streams", '(group type "streams")', "\n".join(streams_steps(group.name, new=True)))
    if is_of_consumers(group.protocol_type):
        return None
    match group.protocol_type:
        case "connect":
            return Owner(
                "Kafka Connect",
                '(protocol type "connect")',
                "These are its workers; each connector's offsets are moved through Connect:\n"
                + _connect_requests("CONNECTOR"),
            )
        case "sr":
            return Owner(
                "Schema Registry",
                '(protocol type "sr")',
                "Its instances elect their leader with it, and commit nothing: there is nothing to move.",
            )
        case other:
            return Owner(
                "a framework that is not a consumer",
                f'(protocol type "{other}")',
                "Only the framework knows what its offsets mean: move them with its own tool.",
            )


def _sink_connector(name: str, members: Sequence[Member]) -> Owner | None:
    """The owner if these are the consumers of a sink connector: the group is ``connect-NAME`` by default."""
    client = next((m.client_id for m in members if m.client_id.startswith(_SINK_CLIENT)), None)
    if client is not None:
        connector, evidence = client[len(_SINK_CLIENT) :].rpartition("-")[0], f'(client id "{client}")'
    elif named := connector_of(name):
        connector, evidence = named, '(sink connectors consume as "connect-" and their name)'
    else:
        return None
    return Owner("Kafka Connect", evidence, "Connect moves its offsets itself:\n" + _connect_requests(connector))


def connector_of(group_name: str) -> str | None:
    """The sink connector whose group has this name by default; None if it is no such name."""
    return group_name.removeprefix(_SINK_GROUP) or None if group_name.startswith(_SINK_GROUP) else None


def status_request(connector: str) -> str:
    """The REST request that shows whether a connector was stopped or its tasks failed: its group shows neither."""
    return f"GET /connectors/{quote_url(connector, safe='')}/status"


def _connect_requests(connector: str) -> str:
    """The REST requests that move a connector's offsets (KIP-875, Connect 3.6 and later); it must be stopped first."""
    path = f"/connectors/{quote_url(connector, safe='')}"
    return f"PUT {path}/stop, then PATCH {path}/offsets"


def _streams(
    name: str, assignor: str | None, members: Sequence[Member], partitions: Sequence[Partition]
) -> Owner | None:
    client = next((m.client_id for m in members if re.fullmatch(_STREAMS_CLIENT, m.client_id)), None)
    with_commits = [p for p in partitions if p.commit]
    topics = dict.fromkeys(p.topic for p in with_commits)
    own = next((topic for topic in topics if is_own_repartition(name, topic)), None)
    marked = next((p.tp for p in with_commits if p.commit and _is_streams_metadata(p.commit.metadata)), None)
    if assignor == STREAMS_ASSIGNOR:
        evidence = f'(assignor "{assignor}")'
    elif client is not None:
        evidence = f'(client id "{client}")'
    elif own is not None:
        evidence = f"(it consumes its own topic {own})"
    elif marked is not None:
        evidence = f"(the metadata of its commit on {marked})"
    else:
        return None
    return Owner("Kafka Streams", evidence, "\n".join(streams_steps(name, new=False)))


def streams_steps(name: str, *, new: bool) -> tuple[str, ...]:
    """How the offsets of an application are moved without wrong results; ``new``: it is a streams group (KIP-1071).

    Each of the three was left out once, with a count over a repartition topic (4.4.0, seen): other offsets alone
    doubled every count, and so did the local state, after its changelogs and repartition topics were deleted.
    """
    if new:
        tool = f"kafka-streams-groups.sh --bootstrap-server BROKER --reset-offsets --group {quote(name)}"
        rest, really = "--all-input-topics", "with --execute --delete-all-internal-topics for --dry-run"
    else:
        tool = f"kafka-streams-application-reset.sh --bootstrap-server BROKER --application-id {quote(name)}"
        rest, really = "--input-topics TOPICS", "without --dry-run, which deletes its internal topics too"
    return (
        f"{STATE_AND_OFFSETS}. Three steps:",
        f"1. Stop all instances, until the group is Empty: {Hint('{}', ('wait', name, '--for', 'empty'))}",
        f"2. Move the offsets, as this shows; then run it {really}:",
        f"{tool} {rest} --to-earliest --dry-run",
        "3. Delete the local state on each host before the start: KafkaStreams.cleanUp(), or state.dir.",
    )


def is_repartition_topic(topic: str) -> bool:
    """Whether it is named as a topic of Kafka Streams for itself; its records are deleted once they are read."""
    return topic.endswith("-repartition")


def is_own_repartition(group_name: str, topic: str) -> bool:
    """Whether the group is a Kafka Streams application that passes records to itself with this topic."""
    return topic.startswith(f"{group_name}-") and is_repartition_topic(topic)


def _is_streams_metadata(metadata: str) -> bool:
    """Whether this is the commit metadata of Kafka Streams (TopicPartitionMetadata), in base64.

    A version byte 1 or 2, the stream time as 8 bytes in ms (-1: none yet), and in version 2 possibly more.
    """
    if len(metadata) < 12:
        return False
    try:
        data = b64decode(metadata, validate=True)
    except (binascii.Error, ValueError):
        return False
    time_ms = int.from_bytes(data[1:_STREAMS_METADATA_BYTES], signed=True)
    fits = len(data) == _STREAMS_METADATA_BYTES or (data[0] == 2 and len(data) > _STREAMS_METADATA_BYTES)
    return data[0] in (1, 2) and fits and -1 <= time_ms < _LATEST_PLAUSIBLE_MS


def _spark(name: str) -> Owner | None:
    matching = re.match(_SPARK, name)
    if matching is None:
        return None
    return Owner(
        "Spark",
        f'(its name begins with "{matching.group()}")',
        "Spark keeps its offsets in the query's checkpoint and does not read these:\n"
        "start the query with a new checkpointLocation, and startingOffsets where it is to begin.\n"
        "That loses the query's state (aggregates, joins, watermarks) and its batch numbers. A sink that skips\n"
        "batches by their number, as Delta does, may then get records twice.",
    )


def _flink(group: Group | ListedGroup) -> Owner | None:
    """The owner by the group's name, only if the group never had members: Flink assigns partitions itself."""
    if group.protocol_type != "" or not re.fullmatch(_FLINK, group.name):
        return None
    return Owner(
        "Flink",
        "(its name, and it never had members)",
        "A job continues from its checkpoint or savepoint and does not read these offsets:\n"
        "stop it, and start it without its state, with startingOffsets (SQL: scan.startup.mode) where it is to begin.\n"
        "A job that starts without state at committed offsets does read them.",
    )
