"""A group of a migration: its readiness and the result. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kgroup.groups.change_plan import ChangeRow
from kgroup.groups.change_result import COMMITS_MISSING, NOT_VERIFIED, UNKNOWN, Result
from kgroup.groups.migration.check import MigrationCheck, MigrationPath, Readiness, ReadinessResult
from kgroup.groups.migration.config_document import ClientConfigDocument
from kgroup.groups.migration.evidence import MigrationEvidence
from kgroup.model.groups import RowError


class MigrationResult(msgspec.Struct, frozen=True):
    """A group, its readiness and the result of its migration.

    ``rows`` are the planned commits, ``configs`` the planned group configs. ``configured`` and ``converted`` are
    whether these steps were done, None before they were tried and if the result is unknown. ``error`` is what
    prevented or prevents the migration. ``change_id`` is the change's id in the journal. ``config`` is the JSON form of
    the changes to the application's configuration, None if none was given. ``tables_read_on`` is the day (YYYY-MM-DD)
    of the tables of clients and broker defects.
    """

    evidence: MigrationEvidence
    readiness: Readiness
    target: str
    tables_read_on: str
    rows: tuple[ChangeRow, ...] = ()
    configs: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    configured: bool | None = None
    converted: bool | None = None
    error: RowError | None = None
    change_id: str | None = None
    config: ClientConfigDocument | None = None

    @property
    def name(self) -> str:
        return self.readiness.group

    @property
    def ready_now(self) -> bool:
        """Whether the group can be converted at once, without a warning."""
        return self.readiness.result is ReadinessResult.READY and self.readiness.how is MigrationPath.NOW

    @property
    def member_count(self) -> int | None:
        """Number of members; None if this user may not see them, or if kgroup does not describe groups of this kind."""
        members = self.evidence.group.members
        return None if members is None else len(members)

    @property
    def topics(self) -> int:
        """Number of topics that the group has commits or members' partitions on."""
        return len({partition.topic for partition in self.evidence.group.partitions})

    @property
    def identical(self) -> int:
        """How many commits were read back as planned, including metadata and leader epoch."""
        return sum(row.done is True and row.read_back == row.new for row in self.rows)

    @property
    def expires_ms(self) -> int | None:
        """When the first commit would have expired if kgroup had not committed it again; None if unknown."""
        retention_ms, past = self.evidence.broker.offsets_retention_ms, self.evidence.past
        times = [past.commits_ms[row.tp] for row in self.rows if row.tp in past.commits_ms] if past else []
        return min(times) + retention_ms if times and retention_ms is not None else None

    @property
    def kept_until_ms(self) -> int | None:
        """When its offsets expire if no member joins; None if unknown, or if the group was not converted."""
        retention_ms = self.evidence.broker.offsets_retention_ms
        if not self.converted or not self.rows or retention_ms is None:
            return None
        return self.evidence.now_ms + retention_ms

    def check(self, check_id: str) -> MigrationCheck | None:
        """The check with this id; None if it does not apply to the group."""
        return next((check for check in self.readiness.checks if check.id == check_id), None)


_OPEN = frozenset({UNKNOWN, NOT_VERIFIED, COMMITS_MISSING})


def migration_result(
    evidence: Sequence[MigrationEvidence],
    readinesses: Sequence[Readiness],
    target: str,
    tables_read_on: str,
    result: Result,
) -> tuple[MigrationResult, ...]:
    """Each group with its part of the result, in the order of the readinesses."""
    by_name = {item.group.name: item for item in evidence}
    rows = result.plan.by_group()
    refused = {refusal.group: refusal.row for refusal in result.refusals if refusal.group is not None}
    results = []
    for readiness in readinesses:
        name = readiness.group
        error = result.whole.get(name)
        done = (error is None) if name in result.whole and not (error and error.code in _OPEN) else None
        unset = result.configured.get(name)
        configs = result.plan.configs.get(name, {})
        results.append(
            MigrationResult(
                by_name[name],
                readiness,
                target,
                tables_read_on,
                tuple(rows.get(name, ())),
                configs,
                (unset is None) if name in result.configured and not (unset and unset.code == UNKNOWN) else None,
                done if name in result.plan.converted else None,
                error or unset or refused.get(name),
                result.id if name in result.whole else None,
            )
        )
    return tuple(results)
