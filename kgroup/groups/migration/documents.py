"""The JSON of a migration: a group with its checks and its result. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from kgroup.groups.change_plan import committed
from kgroup.groups.migration.check import CheckStatus, MigrationCheck, MigrationPath, ReadinessResult
from kgroup.groups.migration.config_document import ClientConfigDocument
from kgroup.groups.migration.migrated import MigrationResult
from kgroup.model.group_log import RebalanceProtocol
from kgroup.support.instants import rfc3339
from kgroup.support.json_types import Count, EpochMs, Instant


class MigrationCheckDocument(msgspec.Struct, frozen=True):
    """A check of a group."""

    id: Annotated[str, "The check."]
    status: Annotated[CheckStatus, "The result."]
    evidence: Annotated[str, "What was observed, for people."]
    remedy: Annotated[str | None, "What to do, for people."]
    source: Annotated[str, "A KIP, an issue of Kafka or its documentation."]
    offline_only: Annotated[bool, "Whether it matters only if the group migrates while it is Empty."]


class MigratedGroup(msgspec.Struct, frozen=True):
    """A group of a migration."""

    group: Annotated[str, "The group."]
    readiness: Annotated[ReadinessResult, "The result of the checks."]
    how: Annotated[MigrationPath | None, "How the group migrates; null if it cannot."]
    reason: Annotated[str | None, "text", "The reason, for people."]
    checks: Annotated[tuple[MigrationCheckDocument, ...], "The checks."]
    type: Annotated[str, "The type that the group has."]
    state: Annotated[str, "The state, as the broker reports it."]
    target: Annotated[str, RebalanceProtocol, "The type that the group gets."]
    member_count: Annotated[Count | None, "Number of members; null if they cannot be read."]
    topic_count: Annotated[Count, "Number of topics."]
    commit_count: Annotated[Count, "Number of commits."]
    converted: Annotated[bool | None, "Whether the group was converted; null in a plan."]
    read_back_count: Annotated[Count | None, "Commits that were read back unchanged after it."]
    configs: Annotated[Mapping[str, str | None], "Configurations of the group that are set; null deletes one."]
    configured: Annotated[bool | None, "Whether they were set; null in a plan."]
    offsets_expire_at: Annotated[Instant | None, "When the offsets expire if no member joins."]
    offsets_expire_at_ms: Annotated[EpochMs | None, "When the offsets expire if no member joins."]
    client_config: Annotated[
        ClientConfigDocument | None, "Changes to the application's configuration; null without --client-config."
    ]
    tables_read_on: Annotated[
        str,
        "The day of kgroup's tables of clients and broker defects (YYYY-MM-DD); newer releases are not in them.",
    ]
    change_id: Annotated[str | None, "The change in the journal; null in a plan."]
    error_code: Annotated[str | None, "The stable code of what prevents the change."]
    error_message: Annotated[str | None, "What prevents the change, for people."]


def migrated_group(row: MigrationResult) -> MigratedGroup:
    readiness, group, kept = row.readiness, row.evidence.group, row.kept_until_ms
    return MigratedGroup(
        group=readiness.group,
        readiness=readiness.result,
        how=None if readiness.how is MigrationPath.NONE else readiness.how,
        reason=readiness.reason,
        checks=tuple(map(check_document, readiness.checks)),
        type=row.evidence.kind,
        state=group.state,
        target=row.target,
        member_count=row.member_count,
        topic_count=row.topics,
        commit_count=len(committed(group)),
        converted=row.converted,
        read_back_count=row.identical if row.converted else None,
        configs=row.configs,
        configured=row.configured,
        offsets_expire_at=rfc3339(kept),
        offsets_expire_at_ms=kept,
        client_config=row.config,
        tables_read_on=row.tables_read_on,
        change_id=row.change_id,
        error_code=row.error.code if row.error else None,
        error_message=row.error.message if row.error else None,
    )


def check_document(check: MigrationCheck) -> MigrationCheckDocument:
    return MigrationCheckDocument(
        check.id, check.status, check.evidence, check.remedy, check.source, check.offline_only
    )
