"""Plans to restore a group's commits of a past moment (``undo --as-of``), whichever client changed them since. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.state_from_log import LoggedState, PastCommit
from kgroup.groups.undo_plan import outside_note
from kgroup.model.groups import Commit, LogRange, RowError
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import ExitCode, KgroupError

COMMIT_UNKNOWN = "commit-unknown"
_NO_RECORD = PastCommit(None, unknown="what was read of __consumer_offsets holds no commit of it")
_MADE_ANEW = "the topic was made anew since: the old offset means nothing in it"


def as_of_rows(
    state: LoggedState,
    now: Mapping[TopicPartition, Commit],
    unread: Mapping[TopicPartition, RowError],
    logs: Mapping[TopicPartition, LogRange],
    topics: Mapping[str, str | KgroupError | None],
) -> list[ChangeRow]:
    """A row for each partition whose commit differs from the one in ``state``.

    An unknown commit, past or present, makes a row with an error. ``now`` are the present commits, ``unread`` errors
    of reading some. ``topics`` are the present topic ids (None: the broker gives none), or the error of reading them.
    """
    rows = []
    for tp in partitions_of(state, now, unread):
        stood, old = state.partitions.get(tp, _NO_RECORD), now.get(tp)
        row = ChangeRow(state.name, *tp, old, stood.commit, logs.get(tp))
        if error := unread.get(tp):
            rows.append(row.failing(error))
        elif stood.unknown is not None:
            rows.append(ChangeRow(state.name, *tp, old, None, logs.get(tp)).failing(unknown_commit(stood.unknown)))
        elif stood.commit != old:
            rows.append(_row(row, stood, topics.get(tp.topic)))
    return rows


def partitions_of(
    state: LoggedState, now: Iterable[TopicPartition], unread: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """All partitions that had a commit then, or have one now, or whose present commit is unknown."""
    return sorted({*state.partitions, *now, *unread})


def unknown_commit(why: str) -> RowError:
    """The error of a partition whose past commit is unknown."""
    return RowError(COMMIT_UNKNOWN, why, exit_code=ExitCode.PARTLY)


def topic_recreated_error(stood: PastCommit, topic_id: str | None) -> RowError | None:
    """The error ``topic-recreated`` if the topic of a past commit has another id now; None if not, or not known."""
    if stood.commit is None or topic_id is None or stood.topic_id in (None, topic_id):
        return None
    return RowError("topic-recreated", _MADE_ANEW, exit_code=ExitCode.REFUSED)


def _row(row: ChangeRow, stood: PastCommit, topic: str | KgroupError | None) -> ChangeRow:
    if isinstance(topic, KgroupError):
        return row.failing(RowError.of(topic))
    if error := topic_recreated_error(stood, topic):
        return row.failing(error)
    note = "no commit then: it is deleted" if stood.commit is None else outside_note(stood.commit, row.log)
    return ChangeRow(row.group, *row.tp, row.old, row.new, row.log, note=note)
