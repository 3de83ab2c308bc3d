"""Evidence for the checks, with nothing remarkable about it unless it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec.structs

from kgroup.groups.migration.evidence import MigrationCase, MigrationEvidence, MigrationRequest
from kgroup.groups.migration.known_versions import MigrationRules
from kgroup.model.groups import Coordinator, Group, Member
from kgroup.model.migration_facts import Access, BrokerFacts, ConfigBounds, GroupPast, PastMember
from kgroup.model.topic_partition import TopicPartition
from kgroup.queries.migration_data import load_rules
from tests.helpers.cases import described

NOW_MS = 1_795_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NO_LIMIT = 2_147_483_647

TO_CONSUMER, TO_CLASSIC = MigrationRequest("consumer"), MigrationRequest("classic")

BROKER = BrokerFacts(
    serves_consumer=True,
    group_version=1,
    rebalance_protocols=("classic", "consumer", "streams"),
    heartbeat_version=1,
    release="4.4",
    policy="BIDIRECTIONAL",
    assignors=("uniform", "range"),
    consumer_max_size=NO_LIMIT,
    classic_max_size=NO_LIMIT,
    session=ConfigBounds(45_000, 45_000, 60_000),
    heartbeat=ConfigBounds(5_000, 5_000, 15_000),
    classic_session=ConfigBounds(6_000, 6_000, 1_800_000),
    offsets_retention_ms=7 * DAY_MS,
)


def member(
    name: str,
    *,
    instance: str | None = None,
    protocol: str | None = "classic",
    regex: str | None = None,
    rack: str | None = None,
    epoch: int | None = None,
) -> Member:
    return Member(f"{name}-id", instance, name, "10.0.0.1", rack, epoch, protocol, ("orders",), regex, (), None)


def past_member(
    *,
    instance: str | None = None,
    session_ms: int = 45_000,
    rack: str | None = None,
    user_data: bool = False,
) -> PastMember:
    return PastMember(instance, session_ms, rack, user_data)


def group(
    *members: Member,
    kind: str = "classic",
    state: str | None = None,
    assignor: str | None = None,
    protocol_type: str | None = "consumer",
    commits: int = 2,
    name: str = "pay-svc",
    epochs: tuple[int, int] | None = None,
) -> Group:
    epoch, assignment_epoch = epochs or (None, None)
    return described.group(
        [described.partition(number, number) for number in range(commits)],
        members,
        name=name,
        type=kind,
        state=state or ("Stable" if members else "Empty"),
        protocol_type=protocol_type,
        assignor=assignor,
        coordinator=Coordinator(1, "b1", 9092, None),
        generation=None,
        group_epoch=epoch,
        assignment_epoch=assignment_epoch,
    )


def past(*members: PastMember, assignor: str | None = "range", age_ms: int = HOUR_MS, commits: int = 2) -> GroupPast:
    return GroupPast(
        members=members or (past_member(),),
        assignor=assignor,
        commits_ms={TopicPartition("orders", n): NOW_MS - age_ms for n in range(commits)},
        complete=True,
    )


EMPTY = MigrationEvidence(
    group=group(),
    kind="classic",
    broker=BROKER,
    past=past(),
    configs={},
    access=Access(authorizer=False),
    may_hide=False,
    now_ms=NOW_MS,
)
LIVE = msgspec.structs.replace(EMPTY, group=group(member("a"), member("b"), assignor="range"))
EMPTY_CONSUMER = msgspec.structs.replace(
    EMPTY, group=group(kind="consumer", assignor="uniform", epochs=(2, 1)), kind="consumer"
)
LIVE_CONSUMER = msgspec.structs.replace(
    EMPTY_CONSUMER,
    group=group(
        member("a", protocol="consumer", epoch=4),
        member("b", protocol="consumer", epoch=4),
        kind="consumer",
        assignor="uniform",
        epochs=(4, 4),
    ),
)
MIXED = msgspec.structs.replace(
    LIVE_CONSUMER,
    group=group(
        member("a", protocol="consumer", epoch=4),
        member("b", epoch=4),
        member("c", epoch=4),
        kind="consumer",
        assignor="uniform",
    ),
)


def broker(evidence: MigrationEvidence, **facts: Any) -> MigrationEvidence:
    return msgspec.structs.replace(evidence, broker=replace(evidence.broker, **facts))


def case(
    evidence: MigrationEvidence, wanted: MigrationRequest = TO_CONSUMER, rules: MigrationRules | None = None
) -> MigrationCase:
    return MigrationCase(evidence, wanted, load_rules() if rules is None else rules)
