"""The one envelope of JSON: the same shape for success, partial success and failure, on stdout and in files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kgroup.model.groups import RowError
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.json_line import plain


def envelope(
    verb: str,
    cluster: ClusterRef | None,
    data: Iterable[Mapping[str, Any] | msgspec.Struct] = (),
    *,
    executed: bool = False,
    errors: Iterable[RowError] = (),
) -> dict[str, Any]:
    """``{"kind", "cluster", "executed", "data", "errors"}``, of a verb (``export``, ``catchup start``) or none."""
    return {
        "kind": ".".join(("kgroup", *verb.split())) + "/v1",
        "cluster": None if cluster is None else _cluster(cluster),
        "executed": executed,
        "data": plain(list(data)),
        "errors": [_row_error(error) for error in errors],
    }


def _cluster(cluster: ClusterRef) -> dict[str, Any]:
    return {
        "id": cluster.cluster_id,
        "context": cluster.context,
        "bootstrap_servers": cluster.bootstrap_servers,
    }


def _row_error(error: RowError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": error.message,
        "group": error.group,
        "topic": error.topic,
        "partition": error.partition,
        "hint": error.hint,
        "details": list(error.details),
    }
