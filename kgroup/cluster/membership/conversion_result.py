"""The result of a conversion, from descriptions of the group before, during and after it. Pure.

If a consumer joins meanwhile nothing is lost: the broker keeps the offsets, and our member, which subscribes to no
topic, leaves at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from kgroup.cluster.coordinator.groups import GroupDescription
from kgroup.cluster.membership.refusals import format_members
from kgroup.model.groups import Member, is_of_consumers
from kgroup.model.migration_facts import is_own_member
from kgroup.support.errors import (
    FOREIGN_OWNER,
    NOT_EMPTY,
    KgroupError,
    NotAuthorized,
    NotFound,
    Refused,
    Unreachable,
    refusal_code,
)
from kgroup.support.hint import Hint

JOINED_MEANWHILE = refusal_code(
    "joined-meanwhile",
    "migrate",
    "A member joined the group during the conversion. Nothing was lost.",
    "Stop the member, and run the same command again.",
    not_yet=True,
)


def refuse_conversion(
    group: str, before: GroupDescription | KgroupError | None, *, joined: bool = False
) -> KgroupError | None:
    """Why the group may not be converted now; None if it may, or if it has that type already.

    ``joined`` is whether an earlier round of this conversion joined: then our member in it is not of a killed run.
    """
    if before is None or isinstance(before, NotFound):
        return NotFound(
            "it does not exist any more: another client deleted it, or its last offsets expired",
            hint=Hint("{}", ("list",)),
        )
    if isinstance(before, KgroupError):
        return before
    if not is_of_consumers(before.protocol_type):  # the broker would also convert a Connect worker's Empty group
        return Refused(f"it belongs to {before.protocol_type} now, not to consumers", code=FOREIGN_OWNER)
    others = _other_members(before)
    if others or (before.state != "Empty" and not before.members):
        return _joined_meanwhile(group, before.type, others, "before it was converted")
    if before.members:
        if joined:
            return _not_removed()
        return Refused(
            "kgroup's own member is in it, left there by a conversion that was killed",
            code=NOT_EMPTY,
            hint="the same command again removes it first",
        )
    return None


def converted_or_why_not(
    group: str,
    target: str,
    during: GroupDescription | KgroupError | None,
    after: GroupDescription | KgroupError,
    refusal: KgroupError | None,
) -> KgroupError | None:
    """The result of a conversion; None: the group is Empty and of type ``target``.

    ``during`` is the description while our member was in the group. ``refusal`` is why the broker did not, or may not
    have, let our member in.
    """
    if isinstance(after, NotFound):
        return NotFound(
            "it does not exist any more: brokers delete an Empty consumer group without offsets",
            hint=Hint("{}", ("list",)),
        )
    if isinstance(after, NotAuthorized) and not isinstance(refusal, NotAuthorized):
        # The topics of its members hide the group from us; an Empty group has none, so other members are in it.
        return _joined_meanwhile(group, None, (), "while it was converted")
    if isinstance(after, KgroupError):
        return refusal or unverified(after)
    others = _other_members(after)
    if others:
        return _joined_meanwhile(group, after.type, others, "while it was converted")
    if after.members:
        return _not_removed()
    if after.type == target and after.state == "Empty":
        return None
    if refusal:
        return refusal
    others = _other_members(during) if isinstance(during, GroupDescription) else ()
    return _joined_meanwhile(group, after.type, others, "while it was converted")


def _other_members(described: GroupDescription) -> tuple[Member, ...]:
    return tuple(member for member in described.members or () if not is_own_member(member))


def _joined_meanwhile(group: str, type_now: str | None, others: Iterable[Member], when: str) -> Refused:
    named = format_members([f"{m.client_id} on {m.host}" for m in others])
    is_now = f"The group is a {type_now} group now; its" if type_now else "Its"
    return Refused(
        f"a member joined {when}: {named}" if named else f"a member joined {when}, and has left since",
        details=(f"{is_now} offsets are unchanged and its members continue: nothing was lost.",),
        code=JOINED_MEANWHILE,
        hint=Hint("run the same command again when they have stopped; they are listed by: {}", ("describe", group)),
    )


def _not_removed() -> Unreachable:
    return Unreachable(
        "kgroup's own member could not be removed from it",
        code="outcome-unknown",
        hint="it is removed when its session ends, or by the same command again",
    )


def unverified(reason: KgroupError) -> Unreachable:
    """The error when the group's type after the conversion is unknown."""
    return Unreachable(
        f"it is unknown whether this was converted: {reason.message}",
        code="outcome-unknown",
        hint="the same command again reads the group's type and continues",
    )
