"""Fetches committed offsets once more right before a change, and after it, and compares them with the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kgroup.cluster.commit_requests import CommitPart
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan, ChangeRow, committed
from kgroup.groups.change_result import COMMITS_MISSING, Refusal, Result
from kgroup.model.commit import Commit
from kgroup.model.groups import RowError
from kgroup.model.topic_partition import GroupTopicPartition
from kgroup.queries.snapshots import STATE_ONLY
from kgroup.support.errors import MOVED_SINCE, ExitCode, KgroupError, NotFound, NotVerified, Refused
from kgroup.support.hint import Hint
from kgroup.support.units import plural, some_of

_NAMED = 5


def fetch_offsets(
    cluster: ChangingCluster, plan: ChangePlan, names: Sequence[str]
) -> dict[str, CommittedOffsets | KgroupError]:
    """The committed offsets of these groups of a plan now; a group that does not exist has none."""
    answers = cluster.committed(names, plan.share) if names else {}
    return {group: {} if isinstance(offsets, NotFound) else offsets for group, offsets in answers.items()}


def read_back(cluster: ChangingCluster, plan: ChangePlan) -> dict[str, CommittedOffsets | KgroupError] | None:
    """The committed offsets after the change, without deleted groups; None if they could not be read."""
    try:
        return fetch_offsets(cluster, plan, [name for name in plan.affected_groups if name not in plan.deleted])
    except KgroupError:
        return None


def commit_of(fetched: Mapping[str, CommittedOffsets | KgroupError], row: ChangeRow) -> Commit | KgroupError | None:
    """The row's commit; None: it has none; a KgroupError: unknown."""
    offsets = fetched.get(row.group, {})
    return offsets if isinstance(offsets, KgroupError) else offsets.get(row.tp)


def recheck_plan(cluster: ChangingCluster, result: Result) -> Result:
    """The same result, with errors for rows and groups that changed since the plan; call it under the journal lock."""
    possible = result.possible
    now = fetch_offsets(cluster, possible, possible.affected_groups)
    faults: dict[GroupTopicPartition, RowError] = {}
    for row in possible.rows:
        commit = commit_of(now, row)
        if isinstance(commit, KgroupError):
            faults[row.group, *row.tp] = RowError.of(commit)
        elif commit != row.old:
            faults[row.group, *row.tp] = _MOVED
    # A plan for a whole group may leave out commits that cannot be made again, so compare with the group as read.
    seen = {(group.name, *tp): commit for group in possible.groups for tp, commit in committed(group).items()}
    seen |= {(row.group, *row.tp): row.old for row in possible.rows if row.old}
    changed = {group for group, _, _ in faults}
    unread: dict[str, KgroupError] = {}
    for group, offsets in now.items():
        if isinstance(offsets, KgroupError):
            unread[group] = offsets
            continue
        for tp, commit in offsets.items():
            if isinstance(commit, KgroupError):
                unread[group] = commit
            elif seen.get((group, *tp)) != commit:
                changed.add(group)
    gone = sorted((possible.whole - possible.only_configured) & (changed | unread.keys()))
    refusals = [Refusal(name, unread.get(name) or _used_again(name)) for name in gone]
    refusals += _converted_meanwhile(cluster, possible, gone)
    if not (faults or refusals):
        return result
    # A row without a partition has an error.
    rows = (
        row if row.error or (row.group, *row.tp) not in faults else row.failing(faults[row.group, *row.tp])
        for row in result.plan.rows
    )
    return replace(result, plan=result.plan.with_rows(rows), refusals=(*result.refusals, *refusals))


def _converted_meanwhile(cluster: ChangingCluster, plan: ChangePlan, others: Sequence[str]) -> list[Refusal]:
    """Refusals for groups that already have their new type: another run or user has converted them."""
    names = [name for name in plan.converted if name not in others]
    groups = cluster.describe(names, STATE_ONLY).groups if names else ()
    return [
        Refusal(
            group.name,
            Refused(
                f"{group.name} has the type {group.type} now: another client has converted it since the plan was made",
                hint="Check the plan again.",
                code=MOVED_SINCE,
            ),
        )
        for group in groups
        if group.type == plan.converted[group.name]
    ]


def _used_again(group: str) -> Refused:
    return Refused(
        f"{group} has committed since the plan was made",
        hint=Hint("See who uses it: {}", ("describe", group)),
        code=MOVED_SINCE,
    )


def commits_changed_since_plan(cluster: ChangingCluster, parts: Sequence[CommitPart]) -> dict[str, KgroupError]:
    """The groups with a commit that changed since the plan, or is unreadable; without parts nothing is requested."""
    names = sorted({part.group for part in parts})
    try:
        now = cluster.committed(names) if names else {}
    except KgroupError as error:
        return dict.fromkeys(names, error)
    changed: dict[str, KgroupError] = {}
    for part in parts:
        stands = now[part.group]
        if isinstance(stands, KgroupError):
            changed[part.group] = stands
        elif any(stands.get(tp) != old for tp, old in part.old.items()):
            changed[part.group] = _used_again(part.group)
    return changed


def find_unverified_conversions(
    plan: ChangePlan,
    results: Mapping[GroupTopicPartition, KgroupError | None],
    whole: Mapping[str, RowError | None],
    back: Mapping[str, CommittedOffsets | KgroupError] | None,
) -> dict[str, KgroupError]:
    """Converted groups whose commits are missing, or could not be read back."""
    lost: dict[str, list[str]] = {}
    unread: set[str] = set()
    for row in plan.rows:
        ended = whole.get(row.group, _NOT_TRIED) if row.group in plan.converted else _NOT_TRIED
        stored = row.new is not None and results.get((row.group, *row.tp), _NOT_TRIED) is None
        if not stored or not (ended is None or ended.code == NotFound.code):
            continue
        commit = None if back is None else commit_of(back, row)
        if back is None or isinstance(commit, KgroupError):
            unread.add(row.group)
        elif commit is None:
            lost.setdefault(row.group, []).append(row.name)
    return {
        **{name: _not_read_back(name) for name in sorted(unread)},
        **{name: _lost(name, lost[name]) for name in lost},
    }


def _not_read_back(group: str) -> NotVerified:
    return NotVerified(
        f"{group} was converted, but its commits could not be read back", hint=Hint("{}", ("describe", group))
    )


def _lost(group: str, partitions: Sequence[str]) -> NotVerified:
    return NotVerified(
        f"{group} was converted, but {plural(len(partitions), 'commit')} cannot be found any more",
        details=(some_of(partitions, _NAMED),),
        hint=Hint("another client has deleted them, or the group; {} restores them", ("undo",)),
        code=COMMITS_MISSING,
    )


_NOT_TRIED = RowError("not-tried", "not tried")
_MOVED = RowError(
    MOVED_SINCE,
    "another client has moved the offset since the plan was made",
    hint="Check the plan again.",
    exit_code=ExitCode.REFUSED,
)
