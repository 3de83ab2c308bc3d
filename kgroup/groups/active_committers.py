"""Detects a client that commits to an Empty group: its next commit would overwrite kgroup's change. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import msgspec

from kgroup.groups.thresholds import ONE_REQUEST_MS
from kgroup.model.groups import Activity, LoggedCommit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.durations import format_duration
from kgroup.support.errors import Refused, refusal_code
from kgroup.support.instants import short_time

ACTIVE_COMMITTER = refusal_code(
    "active-committer",
    "changes",
    "The group is Empty, but a client still commits offsets. A consumer with assign() is not a member, and would "
    "overwrite the change. The closing commit of the last member does not count, nor does the commit that undo "
    "--as-of reverses.",
    "Stop that client.",
)

_ACTIVE_MS = 3_600_000
_RHYTHM_MS = 600_000
_FRESH_MS = 300_000
_SHORTEST_PAUSE_MS = 60_000
_PAUSES = 3
_MOMENTS, _MOMENTS_OF_A_CONSUMER = 3, 2


class ActiveCommitter(msgspec.Struct, frozen=True):
    """Evidence of an active committer: the last commit that kgroup did not make, and the number of such commits.

    ``since_ms`` is when the group became Empty; None if that is further back than the scan, or never happened.
    ``moments`` is the number of different commit times: one request commits many partitions at once.
    """

    last: LoggedCommit
    count: int
    moments: int
    since_ms: int | None


def active_committer(
    activity: Activity,
    ours: Collection[tuple[str, int, int]],
    now_ms: int,
    *,
    simple: bool,
    undone_from_ms: int | None = None,
    undone: Collection[tuple[str, int, int]] = (),
) -> ActiveCommitter | None:
    """The client that is likely to commit again; None if no commit indicates one.

    ``ours`` are (topic, partition, offset) of commits that kgroup made itself; they do not count. The final commits
    of leaving members do not count either: they lie before the record that made the group Empty.
    In a group that has become Empty, any other commit of the last five minutes counts. Commits of the last hour count
    if their partition is committed regularly. A ``simple`` group never had members, so its latest commit may be a
    single one by an administrator. There only regular commits of the last ten minutes count.
    A partition is committed regularly if it has commits at three moments, or at two with a leader epoch (consumers
    send one, administrators do not), and the next is not overdue: every 5 s, the last one 50 s ago, counts.
    ``undone_from_ms`` is the time to which the change restores the offsets, None if there is none. The first request
    after it is what is undone, such as another tool's reset. It and earlier commits count only if they are regular, or
    if it has a leader epoch. ``undone`` are the commits of kgroup's own change that is undone: earlier commits of
    another client count only if they are regular, because that client has not committed again.
    """
    mine, commits = frozenset(ours), list(activity.commits)
    foreign = [c for c in commits if (c.topic, c.partition, c.offset) not in mine] if mine else commits
    settled = {c.log_offset for c in commits if (c.topic, c.partition, c.offset) in undone} if undone else set()
    settled |= {c.log_offset for c in _first_request(commits, undone_from_ms)}
    newest = [c for c in foreign if not settled or c.log_offset > max(settled)]
    fresh = bool(newest) and now_ms - newest[-1].timestamp_ms < _FRESH_MS
    if not simple and not fresh:
        # A single older commit may well be a reset that was made from another machine.
        foreign = _regular_commits(foreign, now_ms)
    if simple and activity.emptied_at_ms is None:
        foreign = _regular_commits([c for c in foreign if now_ms - c.timestamp_ms < _RHYTHM_MS], now_ms)
    if not foreign or now_ms - foreign[-1].timestamp_ms >= _ACTIVE_MS:
        return None
    moments = {commit.timestamp_ms for commit in foreign}
    return ActiveCommitter(foreign[-1], len(foreign), len(moments), activity.emptied_at_ms)


def _first_request(commits: Sequence[LoggedCommit], undone_from_ms: int | None) -> list[LoggedCommit]:
    """The commits of the first request after that time: each partition once, all within a second.

    Empty without a time, or if a consumer made it: then no commit is undone.
    """
    request: dict[TopicPartition, LoggedCommit] = {}
    if undone_from_ms is None:
        return []
    for commit in commits:
        if commit.timestamp_ms <= undone_from_ms:
            continue
        first = next(iter(request.values()), commit)
        if commit.tp in request or commit.timestamp_ms - first.timestamp_ms > ONE_REQUEST_MS:
            break
        if commit.leader_epoch is not None:
            return []
        request[commit.tp] = commit
    return list(request.values())


def _regular_commits(commits: Sequence[LoggedCommit], now_ms: int) -> list[LoggedCommit]:
    """The commits on partitions that are committed regularly."""
    by_partition: dict[TopicPartition, list[LoggedCommit]] = {}
    for commit in commits:
        by_partition.setdefault(commit.tp, []).append(commit)
    lively = {tp for tp, own_commits in by_partition.items() if _is_regular(own_commits, now_ms)}
    return [commit for commit in commits if commit.tp in lively]


def _is_regular(commits: Sequence[LoggedCommit], now_ms: int) -> bool:
    if len(commits) < _MOMENTS_OF_A_CONSUMER:
        return False
    moments = sorted({commit.timestamp_ms for commit in commits})
    by_consumers = {commit.timestamp_ms for commit in commits if commit.leader_epoch is not None}
    if len(moments) < _MOMENTS and len(by_consumers) < _MOMENTS_OF_A_CONSUMER:
        return False
    pauses_ms = sorted(later - earlier for earlier, later in pairwise(moments))
    usual_ms = pauses_ms[len(pauses_ms) // 2]
    return now_ms - moments[-1] < max(_SHORTEST_PAUSE_MS, _PAUSES * usual_ms)


def refuse_active_committer(group_name: str, finding: ActiveCommitter, now_ms: int) -> Refused:
    """The refusal ``active-committer``: another client would overwrite the changed offsets."""
    last = finding.last
    ago = format_duration(max(0, now_ms - last.timestamp_ms) // 1000)
    commits = f"{finding.count} in all" if finding.count > 1 else "the only one"
    since = "lately" if finding.since_ms is None else f"since it became Empty, {short_time(finding.since_ms, now_ms)}"
    evidence = f"Last commit {ago} ago: {last.tp} at {last.offset}; {commits} {since}."
    if finding.moments == 1 and last.leader_epoch is None:
        claim = "another client has committed offsets"
        advice = (
            "It may have been a reset by another tool, or a consumer with assign(). Kafka does not show such a "
            "consumer as a member, and it would overwrite this change: find out which.",
        )
    else:
        claim = "another client keeps committing offsets"
        advice = (
            "A consumer with assign() would overwrite this change. Find it and stop it: Kafka does not show it as a "
            "member.",
        )
    return Refused(
        f"{group_name} has no members, but {claim}",
        details=(evidence, *advice),
        hint="To continue anyway: --accept active-committer",
        code=ACTIVE_COMMITTER,
    )
