"""Checks of the assignor, and the counterparts of assignors in the other protocol."""

from __future__ import annotations

from kgroup.groups.migration.check import CheckSubject, MigrationCheck
from kgroup.groups.migration.evidence import MigrationCase
from kgroup.support.units import plural

_TO_SERVER = {
    "range": "range",
    "roundrobin": "uniform",
    "sticky": "uniform",
    "cooperative-sticky": "uniform",
    "RangeAssignor": "range",
    "RoundRobinAssignor": "uniform",
    "StickyAssignor": "uniform",
    "CooperativeStickyAssignor": "uniform",
}
_CLIENT_PACKAGE = "org.apache.kafka.clients.consumer."
_SERVER_PACKAGE = "org.apache.kafka.coordinator.group.assignor."
_TO_CLIENT = {"uniform": "cooperative-sticky", "range": "range"}
_OF_SERVER = {"UniformAssignor": "uniform", "RangeAssignor": "range"}


def server_assignor(client_assignor: str) -> str | None:
    """The server-side counterpart of a client's assignor, which is given as a name, a Java class or a list of them.

    range -> range; roundrobin, sticky, cooperative-sticky -> uniform. In a list the first decides: members vote for
    it. None for a custom assignor or an empty text. Source: Kafka's documentation of the protocol.
    """
    first = client_assignor.strip().strip("[]").split(",")[0].strip().strip("\"'")
    return _TO_SERVER.get(first.removeprefix(_CLIENT_PACKAGE))


def client_assignors(server_assignor: str) -> tuple[str, ...]:
    """The client's counterpart: uniform -> cooperative-sticky, range -> range; empty for a custom assignor."""
    assignor = _TO_CLIENT.get(server_name(server_assignor))
    return (assignor,) if assignor else ()


def server_name(assignor: str) -> str:
    """The short name of a server-side assignor; brokers may be configured with the class of a built-in one."""
    return _OF_SERVER.get(assignor.removeprefix(_SERVER_PACKAGE), assignor)


ASSIGNORS = CheckSubject(
    "assignors",
    "the members' assignor has a counterpart on the other side, and the brokers offer it",
    "KIP-848; KAFKA-18327",
    "custom assignor",
)
USER_DATA = CheckSubject(
    "user-data",
    "member assignments carry no userData, which keeps a live group from converting",
    "KIP-848; GroupMetadataManager, online upgrade",
    "userData in assignments",
)
_INSTEAD = (
    "client-side assignors are gone; the brokers' own are uniform and range (group.remote.assignor), and a class that "
    "implements ConsumerGroupPartitionAssignor can be added to group.consumer.assignors"
)
_DEFAULT_OF_CLIENTS = "range, or what the client is set to"


def assignors(case: MigrationCase) -> MigrationCheck | None:
    """Whether the assignor of the members, or of the last generation, has a counterpart; BLOCKED for a custom one."""
    if not case.to_consumer:
        return _back(case)
    if case.group.type == "consumer":
        now = case.group.assignor
        return ASSIGNORS.ok(f"the brokers' own: {server_name(now)}") if now else None
    custom = next(iter(case.evidence.configured), None)  # members vote for the first of the list
    if custom and server_assignor(custom) is None:
        return ASSIGNORS.blocked(
            f"custom assignor {custom} (the configuration)", brief=f"assignor {custom}", remedy=_INSTEAD
        )
    used = case.assignor
    if not used:
        return ASSIGNORS.unknown("which assignor its members use is not known" + case.why("past"))
    mapped = server_assignor(used)
    described = used if case.group.assignor else f"{used} (last generation)"
    if mapped is None:
        return ASSIGNORS.blocked(f"custom assignor {described}", brief=f"assignor {used}", remedy=_INSTEAD)
    return _compared(case, described, mapped)


def _compared(case: MigrationCase, described: str, mapped: str) -> MigrationCheck:
    if case.broker.assignors is None:
        return ASSIGNORS.unknown(
            f"{described} becomes {mapped}; group.consumer.assignors could not be read" + case.why("assignors"),
            remedy=f"group.remote.assignor={mapped} in the client, if the brokers offer it",
        )
    offered = [server_name(name) for name in case.broker.assignors]
    if mapped not in offered:
        return ASSIGNORS.warning(
            f"{described} becomes {mapped}, which the brokers do not offer (group.consumer.assignors: "
            f"{', '.join(offered) or 'none'})",
            brief=f"assignor {mapped} not offered",
            remedy=f"add {mapped} to group.consumer.assignors; without group.remote.assignor the first of the list is "
            "used, and with one that is not in it the client is refused (UNSUPPORTED_ASSIGNOR)",
        )
    if mapped != offered[0]:
        return ASSIGNORS.ok(
            f"{described} becomes {mapped}",
            remedy=f"group.remote.assignor={mapped} in the client: the default is {offered[0]}",
        )
    return ASSIGNORS.ok(f"{described} becomes {mapped}, the default")


def _back(case: MigrationCase) -> MigrationCheck | None:
    """The check for a migration to the classic protocol, where the clients choose the assignor."""
    now = case.group.assignor
    if not now:
        return ASSIGNORS.unknown(f"the clients choose theirs: {_DEFAULT_OF_CLIENTS}")
    names = client_assignors(now)
    if names:
        return ASSIGNORS.ok(f"{server_name(now)} becomes the client's: partition.assignment.strategy={names[0]}")
    return ASSIGNORS.warning(
        f"{now} is a custom assignor of the brokers; the classic protocol has only those of the clients",
        brief=f"assignor {now}",
        remedy="choose one of the client's: cooperative-sticky, range, or a class of your own",
    )


def user_data(case: MigrationCase) -> MigrationCheck | None:
    """Whether assignments carry userData; the broker refuses to convert such a live classic group, to keep the data."""
    if not case.to_consumer or case.empty or case.group.type != "classic":
        return None
    past = case.past
    if past is None or not past.members:
        return USER_DATA.unknown("the members' assignments could not be read" + case.why("past"))
    carrying = [member for member in past.members if member.carries_user_data]
    if not carrying:
        return USER_DATA.ok("none")
    return USER_DATA.info(
        f"the assignments of {plural(len(carrying), 'member')} carry userData: a consumer member would be refused "
        "(GROUP_ID_NOT_FOUND) while the group runs",
        brief="members carry userData: offline only",
        remedy="stop the group, then convert it",
        offline_only=True,
    )
