"""The ledger's topic: whether it is as a ledger must be, may be written, and making it on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.catchup.ledger import transactional_ids
from kgroup.catchup.model import LEDGER_TOPIC as LEDGER_TOPIC
from kgroup.cluster.topic_admin import NewTopicSpec, TopicAdmin, TopicDescription
from kgroup.cluster.transactions import Transactions
from kgroup.model.acl_hint import acl_hint
from kgroup.support.errors import KgroupError, NotAuthorized, Refused
from kgroup.support.quoting import quote

_OFFSETS_TOPIC = "__consumer_offsets"
_LIKELY_REPLICAS = 3
_CONFIG = {
    "cleanup.policy": "compact",
    # A plan of twenty thousand chunks is one record.
    "max.message.bytes": "8388608",
    # Only what is not in the newest segment is compacted, and every command reads the rest.
    "segment.bytes": "16777216",
}
_NEEDED = ("READ", "WRITE")
_CONFIGS = "DESCRIBE_CONFIGS"


@dataclass(frozen=True, slots=True)
class LedgerTopic:
    """What was found. ``exists`` is False where it is made only when a plan is; ``notes`` are worth a warning."""

    name: str
    exists: bool
    notes: tuple[str, ...] = ()


def check(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> LedgerTopic:
    """Whether a ledger can be kept in this topic, changing nothing: it need not exist yet.

    Raises Refused with code ``ledger-unfit`` (it is not compacted, or has several partitions) or ``no-ledger`` (it is
    not there, and this user may not make it; the hint is the command); NotAuthorized for a right that is missing on
    the topic or on the transactional ids; AuthenticationFailed, Unreachable.
    """
    return _checked(config, topic, timeout_s, make=False)


def prepare(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> LedgerTopic:
    """``check``, and make the topic where it does not exist; rights on ids show in a moment, when one is taken."""
    return _checked(config, topic, timeout_s, make=True)


def found(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> LedgerTopic | None:
    """What ``prepare`` returns for a topic that is there, None where it is not. Raises as it does; changes nothing."""
    facts = _facts(TopicAdmin(config, timeout_s=timeout_s), topic)
    return None if facts is None else _fit(topic, facts)


def _checked(config: Mapping[str, Any], topic: str, timeout_s: float, *, make: bool) -> LedgerTopic:
    admin = TopicAdmin(config, timeout_s=timeout_s)
    facts = _facts(admin, topic)
    if facts is None:
        wanted = _wanted(admin, topic)
        try:
            admin.make(wanted, pretend=not make)
        except NotAuthorized as error:
            raise _may_not_make(wanted, str(config.get("bootstrap.servers", "..."))) from error
        if not make:
            _may_take(config, None, timeout_s)
            return LedgerTopic(topic, exists=False)
        # Somebody else may have made it meanwhile, and otherwise.
        facts = admin.facts(topic)
        if facts is None:
            raise KgroupError(f"{topic} was made, and is gone", code="no-ledger")
    fit = _fit(topic, facts)
    if not make:
        _may_take(config, topic, timeout_s)
    return fit


def _facts(admin: TopicAdmin, topic: str) -> TopicDescription | None:
    try:
        return admin.facts(topic)
    except NotAuthorized:  # not even DESCRIBE: all that is needed is named at once
        raise _lacks(topic, [*_NEEDED, _CONFIGS]) from None


def _fit(topic: str, facts: TopicDescription) -> LedgerTopic:
    _refuse_without_rights(topic, facts)
    notes = _refuse_unfit(topic, facts)
    return LedgerTopic(topic, exists=True, notes=notes)


def _wanted(admin: TopicAdmin, topic: str) -> NewTopicSpec:
    """Replicated like ``__consumer_offsets``, since that is how much losing a commit matters here."""
    try:
        offsets = admin.facts(_OFFSETS_TOPIC)
    except NotAuthorized:
        offsets = None
    replicas = offsets.replicas if offsets is not None else min(_LIKELY_REPLICAS, admin.brokers())
    # One broker may be away, and what is acknowledged is on two of them.
    in_sync = min(2, max(1, replicas - 1))
    return NewTopicSpec(topic, 1, replicas, {**_CONFIG, "min.insync.replicas": str(in_sync)})


def _may_not_make(topic: NewTopicSpec, bootstrap: str) -> Refused:
    configs = " ".join(f"--config {name}={value}" for name, value in sorted(topic.config.items()))
    return Refused(
        f"the ledger {topic.name} does not exist, and this user may not make it",
        hint=f"let somebody who may run:  kafka-topics.sh --bootstrap-server {bootstrap} --create --topic "
        f"{quote(topic.name)} --partitions {topic.partitions} --replication-factor {topic.replicas} {configs}",
        code="no-ledger",
    )


def _refuse_unfit(topic: str, facts: TopicDescription) -> tuple[str, ...]:
    another = "name another topic with --ledger-topic, which is made as it must be"
    if facts.partitions != 1:
        raise Refused(
            f"{topic} can't be the ledger: it has {facts.partitions} partitions, and the order of all records counts",
            hint=another,
            code="ledger-unfit",
        )
    assert facts.config is not None
    policy = facts.config.get("cleanup.policy", "delete")
    if policy != "compact":
        raise Refused(
            f"{topic} can't be the ledger: its cleanup.policy is {policy}, so what it says would be deleted in time",
            hint=f"if nothing else is in it, set cleanup.policy=compact; or {another}",
            code="ledger-unfit",
        )
    in_sync = int(facts.config.get("min.insync.replicas") or 1)
    if in_sync > facts.replicas:
        raise Refused(
            f"{topic} can't be written: min.insync.replicas is {in_sync}, and it has {facts.replicas} replicas",
            hint=f"set min.insync.replicas={min(2, max(1, facts.replicas - 1))} for it",
            code="ledger-unfit",
        )
    if facts.replicas > 2 and in_sync == 1:
        return (f"{topic} has {facts.replicas} replicas but min.insync.replicas=1: a failing broker may forget a plan",)
    return ()


def _refuse_without_rights(topic: str, facts: TopicDescription) -> None:
    """Raise NotAuthorized with all that are missing; without DESCRIBE_CONFIGS it is unknown whether it is compacted."""
    may = facts.operations
    missing = [operation for operation in _NEEDED if may is not None and operation not in may]
    missing += [_CONFIGS] if facts.config is None else []
    if missing:
        raise _lacks(topic, missing)


def _lacks(topic: str, operations: Sequence[str]) -> NotAuthorized:
    *others, last = (f"no {operation}" for operation in operations)
    missing = f"{', '.join(others)} and {last}" if others else last
    return NotAuthorized(
        f"the ledger cannot be kept: {missing} on Topic {topic}", hint=acl_hint(operations, "topic", topic)
    )


def _may_take(config: Mapping[str, Any], topic: str | None, timeout_s: float) -> None:
    """Rights on transactional ids are told by nothing but taking one."""
    with Transactions(
        config, transactional_ids.PROBE, topic=topic, timeout_s=timeout_s, prefix=transactional_ids.PREFIX
    ) as probe:
        probe.fence()
