"""The steps of a rollout that moves a running group from one protocol to the other."""

from __future__ import annotations

from kgroup.groups.member_names import labels
from kgroup.groups.migration.assignor_names import client_assignors, server_assignor
from kgroup.groups.migration.case import Case
from kgroup.groups.migration.check import How
from kgroup.groups.migration.evidence import MigrationEvidence, MigrationRequest
from kgroup.groups.migration.rules import MigrationRules
from kgroup.groups.wait_conditions import some_of
from kgroup.support.quoting import quote


def rolling_steps(evidence: MigrationEvidence, wanted: MigrationRequest, how: How) -> tuple[str, ...]:
    """The numbered steps, one line each; empty unless ``how`` of its readiness is ROLLING.

    Members that join with the other protocol trigger the conversion; the broker does the rest.
    """
    if how is not How.ROLLING:
        return ()
    case = Case(evidence, wanted, MigrationRules())
    steps = _to_consumer(case) if case.to_consumer else _to_classic(case)
    return tuple(f"{number}. {step}" for number, step in enumerate(steps, 1))


def _to_consumer(case: Case) -> tuple[str, ...]:
    assignor = server_assignor(case.assignor or "") if case.group.type == "classic" else None
    chosen = f" and group.remote.assignor={assignor}" if assignor else ""
    set_up = (
        f"In the application's configuration set group.protocol=consumer{chosen}; take out session.timeout.ms, "
        "heartbeat.interval.ms and partition.assignment.strategy, with which the client would not start."
    )
    names = labels(case.group)
    left = [names[member.member_id] for member in case.classic_left]
    who = f"those that are left ({some_of(left)})" if left else "its instances"
    convert = "" if case.rolls_out else " The first one converts the group; the others go on beside it."
    return (
        set_up,
        f"Restart {who} one by one, {_order(case)}.{convert}",
        f"Follow it until no classic member is left: kgroup migrate {_name(case)} --watch",
        _way_back(case),
    )


def _to_classic(case: Case) -> tuple[str, ...]:
    names = client_assignors(case.group.assignor or "")
    chosen = f" and partition.assignment.strategy={names[0]}" if names else ""
    return (
        f"In the application's configuration set group.protocol=classic{chosen}; take out group.remote.assignor, with "
        "which the client would not start.",
        f"Restart its instances one by one, {_order(case)}. They join beside the others.",
        "The group turns classic when the last member of the consumer protocol has left: "
        f"kgroup migrate {_name(case)} --protocol classic --watch",
    )


def _order(case: Case) -> str:
    """How to restart: a consumer member does not give up its instance id to a newcomer (KIP-848)."""
    return "each stopped before its successor starts" if case.instances else "waiting until each has its partitions"


def _way_back(case: Case) -> str:
    match case.broker.policy:
        case "BIDIRECTIONAL" | "DOWNGRADE":
            how = (
                "restart them one by one with the old configuration; the last consumer member that leaves turns it back"
            )
        case None:
            how = "stop all of them, and start them with the old configuration"
        case policy:
            how = f"stop all of them, and start them with the old configuration (policy {policy} has no other way)"
    return f"The way back: {how}."


def _name(case: Case) -> str:
    return quote(case.group.name)
