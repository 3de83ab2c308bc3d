"""The ledger's topic: checks that it is suitable and writable, and creates it when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.catchup.ledger import transactional_ids
from kgroup.cluster.topic_admin import NewTopicSpec, TopicAdmin, TopicDescription
from kgroup.cluster.transactions import Transactions
from kgroup.groups.catchup.ledger_name import LEDGER_TOPIC as LEDGER_TOPIC
from kgroup.model.kafka_tools import acl_hint
from kgroup.support.errors import NotAuthorized, Refused, refusal_code
from kgroup.support.quoting import quote

NO_LEDGER = refusal_code(
    "no-ledger",
    "catchup",
    "The ledger does not exist and cannot be created.",
    "Run the command in the hint, or name another --ledger-topic.",
)
LEDGER_UNFIT = refusal_code(
    "ledger-unfit",
    "catchup",
    "The topic has settings that a ledger cannot have.",
    "Run the command in the hint, or name another --ledger-topic.",
)

_OFFSETS_TOPIC = "__consumer_offsets"
_LIKELY_REPLICAS = 3
_CONFIG = {
    "cleanup.policy": "compact",
    # A plan with twenty thousand chunks is one record.
    "max.message.bytes": "8388608",
    # Records in the newest segment are never compacted, and every command reads them all.
    "segment.bytes": "16777216",
    "segment.ms": "600000",
    # A verified plan leaves a tombstone for each chunk. A reader that misses it ignores the chunk all the same.
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "3600000",
}
_NEEDED = ("READ", "WRITE")
_CONFIGS = "DESCRIBE_CONFIGS"


@dataclass(frozen=True, slots=True)
class LedgerTopic:
    """The ledger's topic. ``exists`` is False if it will be created with the first plan; ``notes`` are warnings."""

    name: str
    exists: bool
    notes: tuple[str, ...] = ()


def check(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> LedgerTopic:
    """Check whether a ledger can be kept in this topic. It need not exist yet, and nothing is changed.

    Raises Refused with code ``ledger-unfit`` (not compacted, several partitions, or too few replicas), or with code
    ``no-ledger`` (it does not exist and this user may not create it; the hint is the command). Raises NotAuthorized for
    a missing right on the topic or on the transactional ids; AuthenticationFailed, Unreachable.
    """
    return _checked(config, topic, timeout_s, make=False)


def prepare(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> LedgerTopic:
    """``check``, and create the topic if needed; rights on ids are not checked, as one is taken soon after."""
    return _checked(config, topic, timeout_s, make=True)


def find_topic(config: Mapping[str, Any], topic: str, *, timeout_s: float) -> LedgerTopic | None:
    """What ``prepare`` returns for an existing topic, None if there is none. Raises as ``prepare``; changes nothing."""
    facts = _facts(TopicAdmin(config, timeout_s=timeout_s), topic)
    return None if facts is None else _fit(topic, facts)


def _checked(config: Mapping[str, Any], topic: str, timeout_s: float, *, make: bool) -> LedgerTopic:
    admin = TopicAdmin(config, timeout_s=timeout_s)
    facts = _facts(admin, topic)
    if facts is None:
        wanted = _wanted(admin, topic)
        try:
            if make:
                # Another client may have created it meanwhile, with other settings.
                facts = admin.create(wanted)
            else:
                admin.validate(wanted)
        except NotAuthorized as error:
            raise _may_not_make(wanted, str(config.get("bootstrap.servers", "..."))) from error
    if facts is None:
        _may_take(config, None, timeout_s)
        return LedgerTopic(topic, exists=False)
    fit = _fit(topic, facts)
    if not make:
        _may_take(config, topic, timeout_s)
    return fit


def _facts(admin: TopicAdmin, topic: str) -> TopicDescription | None:
    try:
        return admin.describe(topic)
    except NotAuthorized:  # not even DESCRIBE: name all missing rights at once
        raise _lacks(topic, [*_NEEDED, _CONFIGS]) from None


def _fit(topic: str, facts: TopicDescription) -> LedgerTopic:
    _refuse_without_rights(topic, facts)
    notes = _refuse_unfit(topic, facts)
    return LedgerTopic(topic, exists=True, notes=notes)


def _wanted(admin: TopicAdmin, topic: str) -> NewTopicSpec:
    """The topic to create, replicated like ``__consumer_offsets``: losing a record is as bad as losing a commit."""
    try:
        offsets = admin.describe(_OFFSETS_TOPIC)
    except NotAuthorized:
        offsets = None
    replicas = offsets.replicas if offsets is not None else min(_LIKELY_REPLICAS, admin.brokers())
    # One broker may be down, and acknowledged records are on two brokers.
    in_sync = min(2, max(1, replicas - 1))
    return NewTopicSpec(topic, 1, replicas, {**_CONFIG, "min.insync.replicas": str(in_sync)})


def _may_not_make(topic: NewTopicSpec, bootstrap: str) -> Refused:
    configs = " ".join(f"--config {name}={value}" for name, value in sorted(topic.config.items()))
    return Refused(
        f"the ledger topic {topic.name} does not exist, and this user may not create it",
        hint=f"ask an administrator to run:  kafka-topics.sh --bootstrap-server {bootstrap} --create --topic "
        f"{quote(topic.name)} --partitions {topic.partitions} --replication-factor {topic.replicas} {configs}",
        code=NO_LEDGER,
    )


def _refuse_unfit(topic: str, facts: TopicDescription) -> tuple[str, ...]:
    another = "name a new topic with --ledger-topic: kgroup creates it with the right settings"
    if facts.partitions != 1:
        raise Refused(
            f"{topic} cannot be the ledger: it has {facts.partitions} partitions, exactly 1 is required",
            hint=another,
            code=LEDGER_UNFIT,
        )
    assert facts.settings is not None
    policy = facts.settings.cleanup_policy
    if policy != "compact":
        raise Refused(
            f"{topic} cannot be the ledger: its cleanup.policy is {policy}, but compact is required",
            hint=f"if the topic has no other records, set cleanup.policy=compact; or {another}",
            code=LEDGER_UNFIT,
        )
    in_sync = facts.settings.min_in_sync or 1
    if in_sync > facts.replicas:
        raise Refused(
            f"{topic} cannot be written: min.insync.replicas is {in_sync}, but it has {facts.replicas} replicas",
            hint=f"set min.insync.replicas={min(2, max(1, facts.replicas - 1))} for the topic",
            code=LEDGER_UNFIT,
        )
    if facts.replicas > 2 and in_sync == 1:
        return (f"{topic} has {facts.replicas} replicas but min.insync.replicas=1: a broker failure may lose a plan",)
    return ()


def _refuse_without_rights(topic: str, facts: TopicDescription) -> None:
    """Raise NotAuthorized with all missing rights. Without DESCRIBE_CONFIGS the cleanup policy is unknown."""
    may = facts.operations
    missing = [operation for operation in _NEEDED if may is not None and operation not in may]
    missing += [_CONFIGS] if facts.settings is None else []
    if missing:
        raise _lacks(topic, missing)


def _lacks(topic: str, operations: Sequence[str]) -> NotAuthorized:
    *others, last = (f"no {operation}" for operation in operations)
    missing = f"{', '.join(others)} and {last}" if others else last
    return NotAuthorized(
        f"the ledger cannot be kept: {missing} on Topic {topic}", hint=acl_hint(operations, "topic", topic)
    )


def _may_take(config: Mapping[str, Any], topic: str | None, timeout_s: float) -> None:
    """Check the rights on transactional ids: only taking an id shows them."""
    with Transactions(
        config, transactional_ids.PROBE, topic=topic, timeout_s=timeout_s, prefix=transactional_ids.PREFIX
    ) as probe:
        probe.fence()
