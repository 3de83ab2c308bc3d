"""Checks of a classic Kafka Streams application: what a move to a streams group (KIP-1071) would cost.

kgroup makes no such move: the application does, with ``group.protocol=streams``. So none of them blocks.
"""

from __future__ import annotations

from kgroup.groups.member_labels import labels
from kgroup.groups.migration.check import CheckSubject, MigrationCheck
from kgroup.groups.migration.evidence import MigrationCase
from kgroup.support.hint import Hint
from kgroup.support.units import plural, some_of

PROTOCOL = CheckSubject(
    "streams-protocol",
    "of a Kafka Streams application: the brokers serve streams groups, and keep one that was a classic group",
    "KIP-1071; KAFKA-20254",
    "streams protocol",
)
RESTART = CheckSubject(
    "streams-restart",
    "of a Kafka Streams application: its group is Empty, which the move needs",
    "KIP-1071: no online migration",
    "running application",
)
STATIC = CheckSubject(
    "streams-static-members",
    "of a Kafka Streams application: instance ids, which brokers before 4.4 refuse in streams groups",
    "KIP-1071; Kafka's documentation of the streams rebalance protocol",
    "static members",
)
LOST = CheckSubject(
    "streams-settings",
    "of a Kafka Streams application: settings of its clients that are ignored in a streams group",
    "Kafka's documentation of the streams rebalance protocol",
    "ignored settings",
)

_FIRST, _UNSAFE, _STATIC_FROM = (4, 2), (4, 2), (4, 4)
_SWITCH_ON = "kafka-features.sh --bootstrap-server BROKER upgrade --feature streams.version=1"


def streams_protocol(case: MigrationCase) -> MigrationCheck:
    """Of a release of brokers, the patch level cannot be read: 4.2 may be 4.2.0."""
    broker, release = case.broker, case.release
    if release is None:
        return PROTOCOL.unknown("the release of the brokers is not known" + case.why("release"))
    if release < _FIRST:
        return PROTOCOL.warning(
            f"brokers of {broker.release}: streams groups came with 4.2",
            brief=f"brokers of {broker.release}",
            remedy="upgrade the brokers to 4.2.1 or newer first",
        )
    if broker.rebalance_protocols is not None and "streams" not in broker.rebalance_protocols:
        listed = ",".join(broker.rebalance_protocols)
        return PROTOCOL.warning(
            f"group.coordinator.rebalance.protocols={listed} leaves streams groups out",
            brief="streams groups left out",
            remedy=f"set it to {listed},streams on every broker and restart them",
        )
    if broker.streams_version == 0:
        return PROTOCOL.warning(
            "the feature streams.version is 0 (off)", brief="streams.version=0", remedy=f"switch it on: {_SWITCH_ON}"
        )
    if release == _UNSAFE:
        return PROTOCOL.warning(
            f"brokers of {broker.release}: 4.2.0 fails to load a streams group that was a classic one, once its "
            "log was compacted (KAFKA-20254)",
            brief="4.2.0 is unsafe",
            remedy="make sure that all brokers are of 4.2.1 or newer before the move",
        )
    return PROTOCOL.ok(f"brokers of {broker.release}; the defect of 4.2.0 (KAFKA-20254) is not in them")


def streams_restart(case: MigrationCase) -> MigrationCheck:
    """The members that have to stop: there is no online migration, in either direction."""
    if case.empty:
        return RESTART.ok(
            "Empty: it becomes a streams group when the first instance starts with group.protocol=streams"
        )
    count = plural(len(case.members), "member")
    return RESTART.warning(
        f"{case.group.state}, {count}: all have to stop first, and clients of a classic application do not leave when "
        "they close: the group is Empty after their session timeout",
        brief="running application",
        remedy=Hint("{}", ("wait", case.group.name, "--for", "empty")),
    )


def streams_static_members(case: MigrationCase) -> MigrationCheck | None:
    """WARNING where brokers refuse an instance id: that ends the client."""
    names = labels(case.group)
    static = [names[each.member_id] for each in case.members if each.instance_id is not None]
    static = static or [each.instance_id for each in (case.past.members if case.past else ()) if each.instance_id]
    if not static:
        return None
    if case.release is not None and case.release < _STATIC_FROM:
        return STATIC.warning(
            f"{plural(len(static), 'static member')} ({some_of(static)}): brokers of {case.broker.release} refuse "
            "group.instance.id in a streams group, which ends the client",
            brief=plural(len(static), "static member"),
            remedy="remove group.instance.id, or upgrade brokers and clients to 4.4 first",
        )
    return STATIC.info(f"{plural(len(static), 'static member')} ({some_of(static)}): clients need Kafka 4.4 too")


def streams_settings(case: MigrationCase) -> MigrationCheck:
    """What the broker does not know of: the application's configuration decides."""
    sessions = sorted({each.session_timeout_ms for each in (case.past.members if case.past else ())})
    was = f" (was {', '.join(f'{ms} ms' for ms in sessions)})" if sessions else ""
    warm = "" if case.release is not None and case.release >= _STATIC_FROM else ", no warm-up tasks before Kafka 4.4"
    return LOST.warning(
        f"committed offsets, internal topics and local state stay. Ignored in the client: session.timeout.ms{was}, "
        "heartbeat.interval.ms, num.standby.replicas, max.warmup.replicas, acceptable.recovery.lag, "
        f"probing.rebalance.interval.ms, task.assignor.class, rack.aware.assignment.*{warm}; subscriptions by pattern "
        "were not supported up to Kafka 4.3",
        brief="ignored settings",
        remedy="set them for the group before the start: kafka-configs.sh --alter --entity-type groups --entity-name "
        "GROUP --add-config streams.num.standby.replicas=N,streams.session.timeout.ms=MS",
    )
