"""Streaming queries as groups: which checkpoint a name means, and what a snapshot needs of it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kgroup.cluster.assemble_group import GroupParts
from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.refresh_cache import CachedValue, RefreshCache
from kgroup.model.groups import ListedGroup
from kgroup.model.streaming_query import PREFIX, QUERY, StreamingQuery
from kgroup.settings.model import Settings, StreamingQuerySetting
from kgroup.support.errors import KgroupError, NotFound, Refused, refusal_code

NOT_A_GROUP = refusal_code(
    "streaming-query",
    "verbs without queries",
    "The verb reads or changes groups in Kafka, and spark:URI is a streaming query.",
    "list, lag, describe, doctor and wait read streaming queries; reset, undo and catchup change them.",
)

_FRESH_S = 2.0
"""A checkpoint that was read for the listing is not read again for the page."""


class QueryReader:
    """Reads the streaming queries of a connection.

    What was read in the last two seconds is not read again, and later only the batches that are new.
    """

    def __init__(self, settings: Settings, cache: RefreshCache) -> None:
        self._known = settings.queries
        self._timeout_s = settings.timeout_s
        self._cache = cache

    @property
    def names(self) -> tuple[str, ...]:
        """The queries that the context names."""
        return tuple(f"{PREFIX}{name}" for name in self._known)

    def read(self, names: Iterable[str]) -> dict[str, StreamingQuery | KgroupError]:
        """The queries of these names, each with the error that kept it from being read.

        Raises UsageError for a URI that is not one of a checkpoint; it is not repeated, as it may have a secret.
        """
        queries: dict[str, StreamingQuery | KgroupError] = {}
        wanted: dict[str, tuple[str, float | None]] = {}
        for name in dict.fromkeys(names):
            cached = self._cache.queries.get(name)
            if cached is not None and cached.is_fresh(_FRESH_S):
                queries[name] = cached.value
                continue
            try:
                setting = self._setting(name.removeprefix(PREFIX))
            except NotFound as error:
                queries[name] = error
            else:
                wanted[name] = setting.location, setting.every_s
        if wanted:
            # Imported here: most commands have no query to read.
            from kgroup.cluster.checkpoints.files import read_queries

            before = {name: each.value for name, each in self._cache.queries.items()}
            read = read_queries(wanted, self._timeout_s, before)
            queries |= read
            self._cache.queries |= {
                name: CachedValue(query, None) for name, query in read.items() if isinstance(query, StreamingQuery)
            }
        return queries

    def read_again(self, name: str) -> StreamingQuery:
        """The query now. Raises the error that keeps it from being read."""
        self._cache.queries.pop(name, None)
        query = self.read([name])[name]
        if isinstance(query, KgroupError):
            raise query
        return query

    def committed(self, names: Iterable[str]) -> dict[str, CommittedOffsets | KgroupError]:
        """What queries have read, now, as ``Cluster.committed`` has it of groups."""
        answers: dict[str, CommittedOffsets | KgroupError] = {}
        for name in names:
            try:
                answers[name] = dict(self.read_again(name).commits)
            except KgroupError as error:
                answers[name] = error
        return answers

    def _setting(self, name: str) -> StreamingQuerySetting:
        """What a name means: a query of the context, else a path or a URI. Raises NotFound, UsageError."""
        if name in self._known:
            return self._known[name]
        if "/" in name:
            from kgroup.cluster.checkpoints.stores import check_location

            check_location(name)
            return StreamingQuerySetting(name)
        near = get_close_matches(name, self._known, n=3)
        raise NotFound(
            f'the context names no streaming query "{name}"',
            details=(f"Near: {', '.join(near)}",) if near else (),
            hint="name it under queries: in the context, or give its checkpoint: spark:/path, spark:s3a://bucket/path",
        )


def query_parts(name: str, query: StreamingQuery, *, offsets: bool) -> GroupParts:
    """The query as what a coordinator would report: no members are known, its offsets are its commits."""
    described = GroupDescription(QUERY, query.state, None, None, None, None, None)
    commits: CommittedOffsets = dict(query.commits) if offsets else {}
    return GroupParts(name, described, commits, None)


def listed_query(name: str, query: StreamingQuery | KgroupError) -> ListedGroup:
    """The query as a line of a listing; its state is Unknown if its checkpoint could not be read."""
    return ListedGroup(name, QUERY, query.state if isinstance(query, StreamingQuery) else "Unknown", None, None)


def no_query(name: str) -> Refused:
    """Why a verb that cannot use streaming queries refuses one."""
    return Refused(f"{name} is a streaming query: this verb knows groups only", code=NOT_A_GROUP)
