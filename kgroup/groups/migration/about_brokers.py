"""Checks of the brokers: whether they speak the protocol, allow a live group to migrate, and have known defects."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kgroup.groups.migration.check import CheckSubject, MigrationCheck
from kgroup.groups.migration.evidence import FIRST_RELEASE, MigrationCase
from kgroup.groups.migration.known_versions import BrokerDefect, DefectLevel, KnownProduct, Version, parse_version
from kgroup.model.kafka_tools import acl_hint
from kgroup.support.units import plural, some_of

PROTOCOL = CheckSubject(
    "protocol-available",
    "the brokers support the target protocol",
    "KIP-848; ConsumerGroupDescribe about a group that does not exist",
    "protocol not available",
)
POLICY = CheckSubject(
    "migration-policy",
    "group.consumer.migration.policy lets a live group move; an Empty one always may",
    "KIP-848; group.consumer.migration.policy",
    "migration policy",
)
DEFECTS = CheckSubject(
    "broker-defects",
    "known defects of the brokers' release; brokers do not report the patch level",
    "Kafka's issues, by the branches their fixes are in",
    "broker defects",
)
ACCESS = CheckSubject(
    "topic-describe",
    "every principal that may read the group may DESCRIBE its topics: one forbidden topic fails the heartbeat",
    "KAFKA-18813",
    "topic DESCRIBE",
)
MONITORS = CheckSubject(
    "monitors", "which monitoring tools do not see such groups well", "the tools' issues", "monitors"
)

_UPWARDS = ("UPGRADE", "BIDIRECTIONAL")
_DOWNWARDS = ("DOWNGRADE", "BIDIRECTIONAL")
_SWITCH_ON = "kafka-features.sh --bootstrap-server BROKER upgrade --feature group.version=1"
_NAMED_PRINCIPALS = 3
_ALL = "all of "


def protocol_available(case: MigrationCase) -> MigrationCheck | None:
    """Whether the brokers serve the target protocol; for consumer a probe decides, feature and setting explain why."""
    if not case.to_consumer:
        return _classic(case)
    broker = case.broker
    hindrance = _why_unavailable(case)
    if broker.serves_consumer is False or (broker.serves_consumer is None and hindrance):
        evidence, remedy = hindrance or _refused(case)
        return PROTOCOL.blocked(evidence, brief="no consumer protocol", remedy=remedy)
    if broker.serves_consumer is None and (broker.group_version is None or broker.rebalance_protocols is None):
        return PROTOCOL.unknown(
            "could not be asked" + case.why("serves_consumer", "group_version", "rebalance_protocols")
        )
    if case.release and case.release < FIRST_RELEASE:
        return PROTOCOL.warning(
            f"brokers of {broker.release}: an early access, not for production before 4.0",
            brief=f"early access in {broker.release}",
            remedy="upgrade the brokers to 4.0 or newer first",
        )
    if broker.heartbeat_version == 0:
        return _capped(case)
    return PROTOCOL.ok("available")


def _capped(case: MigrationCase) -> MigrationCheck:
    """The check for a heartbeat offered only as version 0: by an old broker, or by a proxy before a newer one."""
    known = f" ({some_of([proxy.name for proxy in case.rules.proxies])} does so)" if case.rules.proxies else ""
    where = (
        f"the brokers are of {case.broker.release}, so it is a proxy" if case.release else "an old broker or a proxy"
    )
    return PROTOCOL.info(
        f"available, but ConsumerGroupHeartbeat only as version 0: {where}{known if case.release else ''}",
        remedy="clients cannot subscribe by pattern (SubscriptionPattern) through it",
    )


def _why_unavailable(case: MigrationCase) -> tuple[str, str] | None:
    """Why release and settings exclude the consumer protocol, and the remedy; None if they do not exclude it."""
    broker = case.broker
    if case.release and case.release < FIRST_RELEASE:
        return f"brokers of {broker.release}; the protocol came with 4.0", "upgrade the brokers to 4.0 or newer"
    if broker.kraft is False and broker.group_version == 0:
        # Do not suggest kafka-features.sh: it fails there, because such a cluster has no feature to switch on.
        return (
            "brokers of 3.x on ZooKeeper (they name no metadata.version); the protocol came with 4.0, on KRaft",
            "move the cluster to KRaft, and upgrade the brokers to 4.0 or newer",
        )
    reasons = []
    if broker.rebalance_protocols is not None and "consumer" not in broker.rebalance_protocols:
        listed = ",".join(broker.rebalance_protocols)
        reasons.append(
            (
                f"group.coordinator.rebalance.protocols={listed} leaves it out",
                f"set it to {listed},consumer on every broker and restart them",
            )
        )
    if broker.group_version == 0:
        reasons.append(("the feature group.version is 0 (off)", f"switch it on: {_SWITCH_ON}"))
    if not reasons:
        return None
    return "; ".join(evidence for evidence, _ in reasons), "; ".join(remedy for _, remedy in reasons)


def _refused(case: MigrationCase) -> tuple[str, str]:
    broker = case.broker
    lacking = f"; {_products(case.rules.services)}" if case.rules.services else ""
    if broker.heartbeat_version is not None:
        return (
            "the brokers list its requests, but refuse them (UNSUPPORTED_VERSION)" + lacking,
            "ask the operators of the brokers",
        )
    if case.release:
        known = f" ({_products(case.rules.gateways)})" if case.rules.gateways else ""
        return (
            "ConsumerGroupHeartbeat (API 68) is not offered, but brokers are of "
            f"{broker.release}: a proxy hides it{known}",
            "upgrade or configure the proxy, or reach the brokers without it",
        )
    return "ConsumerGroupHeartbeat (API 68) is not offered: brokers older than 4.0, or no Apache Kafka" + lacking, (
        "upgrade the brokers to 4.0 or newer"
    )


def _products(products: tuple[KnownProduct, ...]) -> str:
    return "; ".join(f"{product.name}: {product.what} ({product.certainty})" for product in products)


def _classic(case: MigrationCase) -> MigrationCheck:
    protocols = case.broker.rebalance_protocols
    if protocols is not None and "classic" not in protocols:
        return PROTOCOL.blocked(
            f"group.coordinator.rebalance.protocols={','.join(protocols)} leaves it out",
            brief="no classic protocol",
            remedy="add classic to it on every broker and restart them",
        )
    return PROTOCOL.ok("available" if protocols is not None else "every broker supports it: it cannot be switched off")


def migration_policy(case: MigrationCase) -> MigrationCheck | None:
    """Whether a live group may convert online; if not, or if the policy is unknown, it can convert offline."""
    policy = case.broker.policy
    described = f"policy {policy}" if policy else "policy not known" + case.why("policy")
    if case.empty:
        return POLICY.ok(f"an Empty group converts under any policy ({described})")
    if case.rolls_out:
        return POLICY.ok(f"it is of the consumer type already: more consumer members may join ({described})")
    way = "upgrade" if case.to_consumer else "downgrade"
    if policy is None:
        return POLICY.unknown(
            f"whether an online {way} is allowed is not known{case.why('policy')}",
            brief="policy not known: stopping it is safe",
            remedy="group.consumer.migration.policy is BIDIRECTIONAL by default from 4.0 on (DISABLED in 3.9)",
            offline_only=True,
        )
    if policy in (_UPWARDS if case.to_consumer else _DOWNWARDS):
        return POLICY.ok(f"online {way} possible ({described})")
    return POLICY.info(
        _what_it_does(case, policy),
        brief=f"policy {policy}: offline only",
        remedy="stop the group, then convert it; or set group.consumer.migration.policy=bidirectional on all brokers",
        offline_only=True,
    )


def _what_it_does(case: MigrationCase, policy: str) -> str:
    if case.to_consumer:
        return f"policy {policy}: a consumer member is refused (GROUP_ID_NOT_FOUND) while classic ones run"
    if policy == "DISABLED":
        return (
            f"policy {policy}: classic members are refused (INCONSISTENT_GROUP_PROTOCOL, from 4.3.1 on). "
            "Before 4.3.1 they join, and the group never turns classic"
        )
    return f"policy {policy}: classic members may join, but the group never turns classic"


def broker_defects(case: MigrationCase) -> MigrationCheck | None:
    """Known defects: WARNING if all patch levels have a serious one, UNKNOWN if some do: the level cannot be read."""
    if case.release is None:
        return DEFECTS.unknown("the brokers' release is not known" + case.why("release"))
    defects = [(defect, levels) for defect in case.rules.broker_defects if (levels := _levels(case, defect))]
    if not defects:
        return DEFECTS.ok(f"none known for {case.broker.release} that would matter here")
    evidence = "; ".join(f"{levels}: {defect.what} ({_reference(defect)})" for defect, levels in defects)
    serious = [(defect, levels) for defect, levels in defects if defect.level is DefectLevel.WARNING]
    certain = [defect for defect, levels in serious if levels.startswith(_ALL)]
    remedy = f"run the newest patch release: {'; '.join(_fixes(defect) for defect, _ in defects)}"
    if certain:
        return DEFECTS.warning(evidence, brief=f"broker {case.broker.release}: {certain[0].id}", remedy=remedy)
    if serious:
        return DEFECTS.unknown(evidence, remedy=remedy)
    return DEFECTS.info(evidence, remedy=remedy)


def _levels(case: MigrationCase, defect: BrokerDefect) -> str | None:
    """The patch levels of the brokers' release with the defect (``4.1.0 and 4.1.1``); None if it does not matter."""
    if case.release is None or not _concerns(case, defect):
        return None
    return _levels_of(case.release, defect.since, defect.fixed_in)


@lru_cache
def _levels_of(release: Version, since_text: str, fixed_in: tuple[str, ...]) -> str | None:
    """As ``_levels``, of a defect that matters. Cached, as it is the same for every group."""
    since = parse_version(since_text)
    if since is None or release < since[:2]:
        return None
    fixes = [fix for text in fixed_in if (fix := parse_version(text))]
    line = ".".join(map(str, release))
    own = [fix for fix in fixes if fix[:2] == release]
    if own:
        return _before(line, since[2] if since[:2] == release else 0, min(own)[2])
    return None if fixes and max(fixes)[:2] < release else f"{_ALL}{line}"


def _before(line: str, first: int, fixed: int) -> str | None:
    levels = [f"{line}.{number}" for number in range(first, fixed)]
    if len(levels) > 2:
        return f"{levels[0]} to {levels[-1]}"
    return " and ".join(levels) or None


def _concerns(case: MigrationCase, defect: BrokerDefect) -> bool:
    return (
        case.request.target in defect.targets
        and (case.live or not defect.live)
        and (bool(case.instances) or not defect.static)
        and (not defect.policies or case.broker.policy in defect.policies)
    )


def _reference(defect: BrokerDefect) -> str:
    return defect.id if defect.certainty.value == "confirmed" else f"{defect.id}, {defect.certainty.value}"


def _fixes(defect: BrokerDefect) -> str:
    return f"{defect.id} is fixed in {', '.join(defect.fixed_in)}" if defect.fixed_in else f"{defect.id} is open"


def topic_describe(case: MigrationCase) -> MigrationCheck | None:
    """Whether all readers of the group may DESCRIBE its topics: the coordinator checks every topic of a member."""
    if not case.to_consumer:
        return None
    access = case.evidence.access
    if access is None:
        return ACCESS.unknown("the ACLs could not be read" + case.why("access"))
    if not access.authorizer:
        return ACCESS.ok("the cluster has no authorizer")
    if not access.blind:
        return ACCESS.ok("every principal that may read the group may describe its topics, as far as ACLs show")
    first, others = access.blind[0], len(access.blind) - _NAMED_PRINCIPALS
    named = "; ".join(f"{blind.principal} on {some_of(blind.topics)}" for blind in access.blind[:_NAMED_PRINCIPALS])
    more = f"; {plural(others, 'principal')} more" if others > 0 else ""
    topic = first.topics[0] if first.topics else "..."
    return ACCESS.warning(
        f"no DESCRIBE: {named}{more}; if it consumes in this group, its heartbeat fails (TOPIC_AUTHORIZATION_FAILED)",
        brief=f"no DESCRIBE for {first.principal}",
        remedy=acl_hint("Describe", "topic", topic, principal=first.principal),
    )


def monitors(case: MigrationCase) -> MigrationCheck | None:
    """A remark about monitoring tools; it does not change the readiness."""
    if not case.to_consumer or not case.rules.monitors:
        return None
    return MONITORS.info(_products(case.rules.monitors))


def defect_notes(case: MigrationCase) -> Iterator[str]:
    """One line for each known defect of the brokers' release that affects this case."""
    for defect in case.rules.broker_defects:
        if levels := _levels(case, defect):
            yield f"brokers {levels}: {defect.what}; {_fixes(defect)}"
