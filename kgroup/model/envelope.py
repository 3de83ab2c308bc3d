"""The one envelope of JSON: the same shape for success, partial success and failure, on stdout and in files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType

from kgroup.model.groups import RowError
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.json_types import Count, Instant


class ClusterDocument(Struct, frozen=True):
    """The cluster that was asked."""

    id: Annotated[str | None, "The cluster id; null if no broker answered."]
    context: Annotated[str | None, "The context that names the connection."]
    bootstrap_servers: Annotated[str, "The bootstrap servers, with commas."]


class ErrorDocument(Struct, frozen=True):
    """A RowError."""

    code: Annotated[str, "A stable code, for programs."]
    message: Annotated[str, "What happened, for people."]
    group: Annotated[str | None, "The group that is affected."]
    topic: Annotated[str | None, "The topic that is affected."]
    partition: Annotated[Count | None, "The partition that is affected."]
    hint: Annotated[str | None, "A command, or what to do next."]
    details: Annotated[tuple[str, ...], "More sentences."]


class Envelope(Struct, frozen=True, kw_only=True):
    """What is around the data of every document."""

    kind: Annotated[str, "The kind of the document and its version."]
    at: Annotated[Instant | UnsetType, "When this document was read; only with --watch and --follow."] = UNSET
    cluster: Annotated[ClusterDocument | None, "The cluster; null if none was reached."]
    executed: Annotated[bool, "Whether a change was made; false for a plan."]
    data: Annotated[tuple[Any, ...], "The items; the kind has their fields."]
    errors: Annotated[tuple[ErrorDocument, ...], "What failed. The exit code follows from these."]
    warnings: Annotated[tuple[str, ...] | UnsetType, "Sentences that stderr has too. Files do not have this field."] = (
        UNSET
    )
    notes: Annotated[tuple[str, ...] | UnsetType, "Sentences that stderr has too. Files do not have this field."] = (
        UNSET
    )


def envelope(
    verb: str,
    cluster: ClusterRef | None,
    data: Iterable[Any] = (),
    *,
    executed: bool = False,
    errors: Iterable[RowError] = (),
) -> Envelope:
    """The envelope of a verb (``export``, ``catchup start``) or of none, without remarks."""
    return Envelope(
        kind=".".join(("kgroup", *verb.split())) + "/v1",
        cluster=cluster_document(cluster),
        executed=executed,
        data=tuple(data),
        errors=tuple(
            ErrorDocument(each.code, each.message, each.group, each.topic, each.partition, each.hint, each.details)
            for each in errors
        ),
    )


def cluster_document(cluster: ClusterRef | None) -> ClusterDocument | None:
    return None if cluster is None else ClusterDocument(cluster.cluster_id, cluster.context, cluster.bootstrap_servers)
