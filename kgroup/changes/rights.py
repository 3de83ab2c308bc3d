"""The rights that a change needs, checked before it: a plan exits with the code that its execution would return."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kgroup.cluster.group_partition import OFFSETS_TOPIC
from kgroup.cluster.rights import Operations, Rights
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan
from kgroup.groups.change_result import Refusal
from kgroup.model.groups import RowError
from kgroup.model.kafka_tools import acl_hint
from kgroup.model.reporter import Reporter
from kgroup.model.streaming_query import is_query
from kgroup.support.errors import NotAuthorized
from kgroup.support.units import plural, some_of

_READ, _DELETE, _DESCRIBE, _ALTER_CONFIGS = "READ", "DELETE", "DESCRIBE", "ALTER_CONFIGS"


def needed(plan: ChangePlan) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """(operations needed on each group, topics that each group's rows need READ on), for rows without an error.

    OffsetCommit needs READ on the Group, OffsetDelete DELETE; both need READ on the Topic. On the Group alone
    DeleteGroups needs DELETE, JoinGroup READ, IncrementalAlterConfigs ALTER_CONFIGS.
    """
    groups: dict[str, set[str]] = {}
    topics: dict[str, set[str]] = {}
    rows = (row for row in plan.rows if row.error is None and not is_query(row.group))
    wanted = dict.fromkeys((row.group, row.topic, row.new is None) for row in rows)
    for group, topic, deletes in wanted:
        if group not in plan.deleted:
            groups.setdefault(group, set()).add(_DELETE if deletes else _READ)
            topics.setdefault(group, set()).add(topic)
    for names, operation in ((plan.deleted, _DELETE), (plan.converted, _READ), (plan.configs, _ALTER_CONFIGS)):
        for name in names:
            groups.setdefault(name, set()).add(operation)
    return groups, topics


def apply_rights(
    reporter: Reporter, cluster: ChangingCluster, plan: ChangePlan
) -> tuple[ChangePlan, tuple[Refusal, ...]]:
    """The plan with an error in each row without READ on its Topic, and refusals for groups that may not be changed.

    A right that cannot be read is noted, and is not a refusal.
    """
    groups, topics = needed(plan)
    if not groups:
        return plan, ()
    rights = cluster.rights(sorted(groups), {topic for own in topics.values() for topic in own})
    _note_unknown(reporter, rights)
    refusals = [
        Refusal(name, missing_right_error(missing, "group", name))
        for name, operations in groups.items()
        if (missing := _missing(rights.groups.get(name), operations))
    ]
    unread = {topic for topic, may in rights.topics.items() if may is not None and _READ not in may}
    if not unread:
        return plan, tuple(refusals)
    # A converted group loses commits that are not made again, so it is all or nothing.
    refusals += [
        Refusal(name, missing_right_error([_READ], "topic", *sorted(topics[name] & unread)))
        for name in plan.converted
        if topics.get(name, set()) & unread
    ]
    rows = (
        row.failing(RowError.of(missing_right_error([_READ], "topic", row.topic)))
        if row.error is None and row.topic in unread and row.group not in plan.whole
        else row
        for row in plan.rows
    )
    return plan.with_rows(rows), tuple(refusals)


def missing_read_right(reporter: Reporter, cluster: ChangingCluster, group: str) -> NotAuthorized | None:
    """The error if READ on the group is missing, which removing a member needs; noted if it is unknown."""
    rights = cluster.rights([group], ())
    _note_unknown(reporter, rights)
    missing = _missing(rights.groups.get(group), {_READ})
    return missing_right_error(missing, "group", group) if missing else None


def missing_release_rights(
    reporter: Reporter, cluster: ChangingCluster, group: str, topics: Collection[str]
) -> tuple[Refusal, ...]:
    """A refusal for each right that releasing the group on these topics lacks, before anything is recorded.

    DESCRIBE on ``__consumer_offsets`` is needed because the release notes the end of the group's partition there.
    """
    if is_query(group):
        return ()
    rights = cluster.rights([group], {*topics, OFFSETS_TOPIC})
    _note_unknown(reporter, rights)
    unread = sorted(topic for topic in topics if _missing(rights.topics.get(topic), {_READ}))
    errors = [
        missing_right_error([_READ], "group", group) if _missing(rights.groups.get(group), {_READ}) else None,
        missing_right_error([_READ], "topic", *unread) if unread else None,
        missing_right_error([_DESCRIBE], "topic", OFFSETS_TOPIC)
        if _missing(rights.topics.get(OFFSETS_TOPIC), {_DESCRIBE})
        else None,
    ]
    return tuple(Refusal(group, error) for error in errors if error)


def missing_right_error(operations: Iterable[str], kind: str, *names: str) -> NotAuthorized:
    """The error for missing rights on a Group or on Topics, with the command that grants them."""
    wanted = sorted(operations)
    return NotAuthorized(
        f"no {' and no '.join(wanted)} on {kind.title()} {some_of(names)}, which this change needs",
        hint=acl_hint(wanted, kind, *names),
    )


def _missing(may: Operations | None, wanted: Iterable[str]) -> list[str]:
    return [] if may is None else sorted(set(wanted) - may)


def _note_unknown(reporter: Reporter, rights: Rights) -> None:
    unknown = [
        plural(count, kind)
        for kind, rights_of in (("group", rights.groups), ("topic", rights.topics))
        if (count := sum(may is None for may in rights_of.values()))
    ]
    if unknown:
        why = rights.reason or "the brokers do not report which operations are authorized"
        reporter.note(f"whether this user may change {' and '.join(unknown)} is unknown: {why}")
