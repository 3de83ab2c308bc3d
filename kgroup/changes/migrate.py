"""Selects the groups to migrate, judges the readiness of each, and plans those that can be converted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kgroup.changes.client_options import Clients
from kgroup.changes.conversion import plan_conversion, remove_stale_members
from kgroup.changes.execute import COMMITS
from kgroup.changes.options import Change
from kgroup.changes.select_groups import groups_to_change, reload_groups
from kgroup.cluster.deadline import SharedTime
from kgroup.cluster.lag_reading import Need
from kgroup.cluster.topics import Layouts
from kgroup.cluster.writes import ChangingCluster
from kgroup.groups.change_plan import ChangePlan
from kgroup.groups.change_result import Refusal
from kgroup.groups.foreign_owners import Owner, foreign_owner, refuse_foreign_owner
from kgroup.groups.migration.check import BLOCKED, CheckStatus, MigrationPath, Readiness, ReadinessResult
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules
from kgroup.groups.migration.readiness import assess_readiness, worst_first
from kgroup.groups.selection import Groups, SelectedGroups, Selection, names_of, names_only, without_unread_groups
from kgroup.model.groups import DESCRIBED_TYPES, Group, ListedGroup, is_of_consumers
from kgroup.model.migration_facts import HEARTBEAT_CONFIG, SESSION_CONFIG
from kgroup.model.reporter import Reporter
from kgroup.queries.facts import read_facts
from kgroup.queries.migration_evidence import PAST_BUDGET_S, evidence_of_other_kind, with_pending
from kgroup.queries.snapshots import choose_groups, refuse_foreign
from kgroup.support.errors import Refused, refusal_code
from kgroup.support.units import plural

UNREAD_COMMITS = refusal_code(
    "unread-commits",
    "migrate",
    "A committed offset cannot be read, so it could not be kept.",
    "Follow the message. --partial converts the other groups.",
)
UNREAD_CONFIGS = refusal_code(
    "unread-configs",
    "migrate",
    "The group's own settings cannot be read, so they could not be restored (--session-timeout, --heartbeat-interval).",
    "Get DESCRIBE_CONFIGS on the group, or leave these options out.",
)

_FIT = (ReadinessResult.READY, ReadinessResult.WARNING)


class MigrationOptions(msgspec.Struct, frozen=True):
    """The request, the migration rules, and the clients that the applications use.

    ``configured`` are the assignors in the application's own configuration. ``only_ready`` skips all groups that are
    not READY.
    """

    wanted: MigrationRequest
    rules: MigrationRules
    clients: Clients
    configured: tuple[str, ...]
    only_ready: bool


class MigrationCandidates(msgspec.Struct, frozen=True):
    """The selected groups; ``others`` have types that kgroup cannot describe (share, streams)."""

    selected: SelectedGroups
    others: tuple[ListedGroup, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.selected.names, *(group.name for group in self.others)))


class Migration(msgspec.Struct, frozen=True):
    """The readiness of each group, worst first, and the plan for those that can be converted.

    ``left`` is how many groups ``--only`` skips. ``configs`` are the current configs by group. ``cleared`` is whether
    kgroup's own members, left by a killed run, were removed.
    """

    candidates: MigrationCandidates
    evidence: tuple[MigrationEvidence, ...]
    readiness: tuple[Readiness, ...]
    left: int
    plan: ChangePlan
    layouts: Layouts
    refusals: tuple[Refusal, ...]
    configs: Mapping[str, Mapping[str, str]]
    cleared: bool = False

    @property
    def assessed_evidence(self) -> tuple[MigrationEvidence, ...]:
        """The evidence of the groups that were not skipped, in the order of ``readiness``."""
        by_name = {item.group.name: item for item in self.evidence}
        return tuple(by_name[item.group] for item in self.readiness)

    @property
    def live(self) -> list[Group]:
        """The groups that are converted, and are not Empty yet."""
        return [group for group in self.plan.groups if group.name in self.plan.converted and not group.is_empty]


def choose(reporter: Reporter, cluster: ChangingCluster, groups: Groups) -> MigrationCandidates:
    """The selected groups.

    Raises as ``kgroup.queries.snapshots`` does, and Refused for a named group of another type.
    """
    if names_only(groups):
        return MigrationCandidates(groups_to_change(reporter, cluster, groups), ())
    which = Selection(groups.names, groups.group, groups.all_groups, groups.regex, groups.in_state, groups.type)
    listed = choose_groups(reporter, cluster, which)
    refuse_foreign([group for group in listed.groups if group.name in names_of(groups)])
    snapshot = cluster.describe([group for group in listed.groups if group.type in DESCRIBED_TYPES], COMMITS)
    for note in snapshot.notes:
        reporter.note(note)
    others = tuple(group for group in listed.groups if group.type not in DESCRIBED_TYPES)
    return MigrationCandidates(without_unread_groups(snapshot.groups, (*listed.errors, *snapshot.errors)), others)


def prepare_migration(
    reporter: Reporter, cluster: ChangingCluster, how: Change, groups: Groups, options: MigrationOptions
) -> Migration:
    """Select the groups, check them, and plan."""
    candidates = choose(reporter, cluster, groups)
    options.clients.check(candidates.names)
    if cleared := remove_stale_members(reporter, cluster, candidates.selected.groups, execute=how.execute):
        candidates = replace(candidates, selected=reload_groups(cluster, candidates.selected))
    return replace(_plan_migration(reporter, cluster, how, candidates, options), cleared=cleared)


def plan_again(
    reporter: Reporter, cluster: ChangingCluster, how: Change, before: Migration, options: MigrationOptions
) -> Migration:
    """Read the same groups again, check them, and plan."""
    candidates = replace(before.candidates, selected=reload_groups(cluster, before.candidates.selected))
    return replace(_plan_migration(reporter, cluster, how, candidates, options), cleared=before.cleared)


def _plan_migration(
    reporter: Reporter,
    cluster: ChangingCluster,
    how: Change,
    candidates: MigrationCandidates,
    options: MigrationOptions,
) -> Migration:
    """Read the evidence that the checks need, judge, and plan; nothing is changed."""
    groups = candidates.selected.groups
    need = Need(0, lag=False, readiness=SharedTime(PAST_BUDGET_S, len(groups)))
    read = read_facts(cluster, groups, need)
    layouts = {topic: layout for each in read.values() for topic, layout in each.shared.layouts.items()}
    for unknown in {f"{each.unknown_pasts}" for each in read.values() if each.unknown_pasts}:
        reporter.note(unknown)
    evidence = (
        *(
            replace(
                with_pending(each.migration, candidates.selected),
                clients=tuple(client for of, client in options.clients.used if of in (None, name)),
                configured=options.configured,
            )
            for name, each in read.items()
            if each.migration
        ),
        *(evidence_of_other_kind(group, cluster.now_ms()) for group in candidates.others),
    )
    wanted = options.wanted
    assessed = worst_first([assess_readiness(item, wanted, options.rules) for item in evidence])
    kept = tuple(item for item in assessed if not options.only_ready or _is_kept(item, how))
    targets = {item.group: wanted.target for item in kept if item.result in _FIT}
    values = _configs(wanted)
    empty = replace(candidates.selected, groups=tuple(item.group for item in evidence if item.kind in DESCRIBED_TYPES))
    arrived = {item.group for item in kept if item.result is ReadinessResult.DONE}
    configs = {item.group.name: item.configs or {} for item in evidence}
    unlike = {name for name in arrived if any(configs[name].get(key) != value for key, value in values.items())}
    set_for = dict.fromkeys([*targets, *sorted(unlike)], values) if values else {}
    plan = plan_conversion(empty, layouts, targets, set_for)
    refusals = [*_blocked(kept, _guessed_owners(evidence)), *_unread(candidates.selected, targets)]
    refusals += _unread_configs(evidence, set_for)
    return Migration(candidates, evidence, kept, len(assessed) - len(kept), plan, layouts, tuple(refusals), configs)


def _is_kept(item: Readiness, how: Change) -> bool:
    """Whether ``--only ready`` keeps the group: it is READY, and Empty or waited for."""
    return item.result is ReadinessResult.READY and (item.how is MigrationPath.NOW or how.wait_empty)


def _configs(wanted: MigrationRequest) -> dict[str, str | None]:
    given = {SESSION_CONFIG: wanted.session_timeout_ms, HEARTBEAT_CONFIG: wanted.heartbeat_interval_ms}
    return {name: str(value) for name, value in given.items() if value is not None}


def _blocked(assessed: Sequence[Readiness], guesses: Mapping[str, Owner]) -> list[Refusal]:
    """A refusal for each blocked group; if there are several groups, with the reason only.

    ``guesses`` are owners that only a group's name suggests: ``--accept`` passes those.
    """
    refusals = []
    for item in assessed:
        if item.result is not ReadinessResult.BLOCKED:
            continue
        if owner := guesses.get(item.group):
            error = refuse_foreign_owner(item.group, owner, tuple(_lines(item)))
        elif len(assessed) > 1:
            error = Refused(f"cannot be migrated: {item.reason}", code=BLOCKED)
        else:
            error = Refused(f"{item.group} cannot be migrated", details=tuple(_lines(item)), code=BLOCKED)
        refusals.append(Refusal(item.group, error))
    return refusals


def _guessed_owners(evidence: Sequence[MigrationEvidence]) -> dict[str, Owner]:
    consumers = [item.group for item in evidence if item.kind in DESCRIBED_TYPES]
    guessed = {group.name: foreign_owner(group) for group in consumers if is_of_consumers(group.protocol_type)}
    return {name: owner for name, owner in guessed.items() if owner}


def _lines(item: Readiness) -> Iterator[str]:
    for check in item.checks:
        if check.status is CheckStatus.BLOCKED:
            yield f"{check.id}: {check.evidence}"
            if check.remedy:
                yield f"  {check.remedy}"


def _unread_configs(evidence: Sequence[MigrationEvidence], wanted: Collection[str]) -> list[Refusal]:
    """Refusals for groups whose configs would be set but cannot be read: undo could not restore them."""
    return [
        Refusal(
            item.group.name,
            Refused(
                f"the configs of {item.group.name} cannot be read, so undo could not restore them: "
                f"{item.unread.get('configs', 'no answer')}",
                code=UNREAD_CONFIGS,
            ),
        )
        for item in evidence
        if item.configs is None and item.group.name in wanted
    ]


def _unread(selected: SelectedGroups, targets: Mapping[str, str]) -> list[Refusal]:
    """Refusals for groups with unreadable commits: those could not be made again, and might be lost."""
    unread: dict[str, list[str]] = {}
    for (group, topic, number), error in selected.unread.items():
        if group in targets:
            unread.setdefault(group, []).append(f"{topic}:{number} {error.message}")
    return [
        Refusal(
            name,
            Refused(
                f"{plural(len(lines), 'commit')} of {name} cannot be read, so they could not be kept",
                details=tuple(lines[:5]),
                code=UNREAD_COMMITS,
            ),
        )
        for name, lines in unread.items()
    ]
