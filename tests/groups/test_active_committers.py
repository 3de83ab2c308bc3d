"""Who goes on committing to an Empty group, from what its log holds."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.active_committers import ActiveCommitter, active_committer, refuse_active_committer
from kgroup.model.groups import Activity, LoggedCommit
from kgroup.support.errors import ExitCode

NOW = 1_795_225_000_000  # 2026-11-21T01:36:40Z
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000


def commit(
    ago_ms: float, offset: int = 7, *, partition: int = 0, epoch: int | None = None, log_offset: int = 0
) -> LoggedCommit:
    return LoggedCommit("orders", partition, offset, epoch, NOW - round(ago_ms), log_offset)


def every(pause_ms: float, times: int, last_ago_ms: float, epoch: int | None = None) -> tuple[LoggedCommit, ...]:
    """So many commits of one partition, oldest first."""
    return tuple(commit(last_ago_ms + pause_ms * n, 100 - n, epoch=epoch) for n in reversed(range(times)))


@pytest.mark.parametrize(
    ("commits", "ours", "active"),
    [
        ((), (), False),
        ((commit(5 * SECOND),), (), True),
        ((commit(4 * MINUTE),), (), True),
        ((commit(5 * MINUTE),), (), False),  # a single one: a reset that was made elsewhere
        (every(10 * MINUTE, 3, 12 * MINUTE), (), True),
        (every(MINUTE, 3, 12 * MINUTE), (), False),  # it ceased
        ((commit(HOUR),), (), False),
        ((commit(2 * HOUR), commit(5 * SECOND)), (), True),
        ((commit(-5 * SECOND),), (), True),  # the broker's clock is ahead of ours
        ((commit(5 * SECOND),), (("orders", 0, 7),), False),
        ((commit(5 * SECOND),), (("orders", 1, 7), ("orders", 0, 8), ("payments", 0, 7)), True),
        ((commit(9 * SECOND, 7), commit(5 * SECOND, 8)), (("orders", 0, 7),), True),
        ((commit(2 * HOUR, 9), commit(5 * SECOND, 8)), (("orders", 0, 8),), False),
    ],
)  # fmt: skip
def test_after_a_group_became_empty_every_commit_counts_but_ours(
    commits: tuple[LoggedCommit, ...], ours: tuple[tuple[str, int, int], ...], active: bool
) -> None:
    for emptied_at_ms in (NOW - 3 * HOUR, None):
        for complete in (True, False):
            activity = Activity(emptied_at_ms, commits, complete)
            found = active_committer(activity, ours, NOW, simple=False)
            assert (found is not None) == active
            if found:
                assert (found.last, found.since_ms) == (commits[-1], emptied_at_ms)


@pytest.mark.parametrize(
    ("commits", "undone_ago_ms", "active"),
    [
        ((commit(MINUTE),), None, True),
        ((commit(MINUTE),), 2 * MINUTE, False),  # another tool's reset, which is undone
        ((commit(MINUTE),), MINUTE, True),  # it is kept: only what follows that time is undone
        ((commit(MINUTE), commit(5 * SECOND)), 2 * MINUTE, True),  # a later commit
        ((commit(MINUTE), commit(MINUTE - SECOND, partition=1)), 2 * MINUTE, False),  # one request
        ((commit(MINUTE), commit(MINUTE - SECOND - 1, partition=1)), 2 * MINUTE, True),
        ((commit(MINUTE), commit(MINUTE, 8)), 2 * MINUTE, True),  # a request commits a partition once
        ((commit(3 * MINUTE), commit(MINUTE)), 2 * MINUTE, False),  # two resets, the later one is undone
        (every(MINUTE, 3, 5 * SECOND), 30 * SECOND, True),  # a rhythm, the last of which is undone
        (every(MINUTE, 2, 5 * SECOND, epoch=0), 30 * SECOND, True),
        ((commit(MINUTE, epoch=0),), 2 * MINUTE, True),  # a consumer's
        ((), 2 * MINUTE, False),
    ],
)  # fmt: skip
def test_what_is_undone_is_no_sign_of_a_committer(
    commits: tuple[LoggedCommit, ...], undone_ago_ms: int | None, active: bool
) -> None:
    since_ms = None if undone_ago_ms is None else NOW - undone_ago_ms
    in_order = tuple(replace(one, log_offset=number) for number, one in enumerate(commits))
    activity = Activity(NOW - HOUR, in_order, complete=True)

    found = active_committer(activity, (), NOW, simple=False, undone_from_ms=since_ms)
    assert (found is not None) == active


OURS = commit(30 * SECOND, 12, log_offset=5)


@pytest.mark.parametrize(
    ("commits", "active"),
    [
        ((commit(MINUTE, log_offset=4), OURS), False),  # another tool's reset, before the change that is undone
        ((OURS, commit(20 * SECOND, log_offset=6)), True),
        ((*every(5 * SECOND, 3, 35 * SECOND), OURS), True),  # a rhythm that is not overdue
        ((commit(MINUTE, log_offset=4),), True),  # the log does not show the change
    ],
)
def test_a_commit_before_the_change_that_is_undone_needs_a_rhythm(
    commits: tuple[LoggedCommit, ...], active: bool
) -> None:
    mine = [("orders", 0, 12)]
    activity = Activity(NOW - HOUR, commits, complete=True)

    assert (active_committer(activity, mine, NOW, simple=False, undone=mine) is not None) == active


@pytest.mark.parametrize(
    ("commits", "active"),
    [
        ((), False),
        (every(SECOND, 1, 1 * SECOND), False),  # an administrator's
        (every(SECOND, 2, 1 * SECOND), False),
        (every(SECOND, 3, 1 * SECOND), True),
        (every(SECOND, 1, 1 * SECOND, epoch=0), False),
        (every(SECOND, 2, 1 * SECOND, epoch=0), True),  # a consumer's
        ((commit(2 * SECOND, epoch=3), commit(1 * SECOND)), False),
        (every(5 * SECOND, 20, 59 * SECOND), True),
        (every(5 * SECOND, 20, 60 * SECOND), False),  # it has stopped
        (every(1 * MINUTE, 4, 179 * SECOND), True),
        (every(1 * MINUTE, 4, 180 * SECOND), False),
        (every(4 * MINUTE, 3, 1 * MINUTE), True),
        (every(5 * MINUTE, 3, 1 * MINUTE), False),  # the third is not within ten minutes
        (every(5 * MINUTE, 2, 1 * MINUTE, epoch=0), True),
        # Many partitions at one moment are one request; so are the same ones at three requests of three places.
        (tuple(commit(SECOND, partition=n) for n in range(20)), False),
        (tuple(commit(SECOND * n, partition=n) for n in (3, 2, 1)), False),
        ((commit(SECOND), commit(SECOND), commit(SECOND)), False),
    ],
)  # fmt: skip
def test_a_group_that_never_had_members_needs_a_rhythm(commits: tuple[LoggedCommit, ...], active: bool) -> None:
    found = active_committer(Activity(None, commits, complete=True), (), NOW, simple=True)

    assert (found is not None) == active


def test_a_simple_group_that_has_become_empty_is_judged_like_others() -> None:
    """Kafka gives the protocol type "" to a group that was turned back from the consumer protocol."""
    found = active_committer(Activity(NOW - HOUR, (commit(SECOND),), complete=True), (), NOW, simple=True)

    assert found == ActiveCommitter(commit(SECOND), 1, 1, NOW - HOUR)


def test_only_the_lively_partitions_of_a_simple_group_count() -> None:
    rhythm = every(2 * SECOND, 4, 3 * SECOND)
    found = active_committer(
        Activity(None, (*rhythm, commit(SECOND, partition=5)), complete=True), (), NOW, simple=True
    )

    assert found == ActiveCommitter(rhythm[-1], 4, 4, None)


def test_our_own_commits_make_no_rhythm() -> None:
    commits = every(SECOND, 3, SECOND)
    ours = [(c.topic, c.partition, c.offset) for c in commits]

    assert active_committer(Activity(None, commits, complete=True), ours, NOW, simple=True) is None


@pytest.mark.parametrize(
    ("finding", "lines"),
    [
        (ActiveCommitter(commit(4 * SECOND, 5983400, epoch=1), 31, 31, NOW - 30 * MINUTE),
         ("orders-svc has no members, but another client keeps committing offsets",
          "Last commit 4s ago: orders:0 at 5983400; 31 in all since it became Empty, 01:06:40Z.",
          "A consumer with assign() would overwrite this change. Find it and stop it: Kafka does not show it as a "
          "member.")),
        (ActiveCommitter(commit(-4 * SECOND, 8), 2, 2, NOW - 20 * HOUR),
         ("orders-svc has no members, but another client keeps committing offsets",
          "Last commit 0s ago: orders:0 at 8; 2 in all since it became Empty, 2026-11-20 05:36Z.",
          "A consumer with assign() would overwrite this change. Find it and stop it: Kafka does not show it as a "
          "member.")),
        (ActiveCommitter(commit(12 * MINUTE, 8), 1, 1, None),
         ("orders-svc has no members, but another client has committed offsets",
          "Last commit 12m ago: orders:0 at 8; the only one lately.",
          "It may have been a reset by another tool, or a consumer with assign(). Kafka does not show such a consumer "
          "as a member, and it would overwrite this change: find out which.")),
    ],
)  # fmt: skip
def test_the_refusal_says_what_was_seen(finding: ActiveCommitter, lines: tuple[str, ...]) -> None:
    refusal = refuse_active_committer("orders-svc", finding, NOW)

    assert (refusal.code, refusal.exit_code) == ("active-committer", ExitCode.REFUSED)
    assert (refusal.message, *refusal.details) == lines
    assert refusal.hint == "To continue anyway: --accept active-committer"
