"""Whether a quota may be why a group reads slowly. Pure.

Brokers delay the answers to a client that reads more, which only that client sees. Nor do they show which user a
member is. So a quota never is certain to be why a group is slow: it may be, if the group reads about as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kgroup.model.groups import Group
from kgroup.model.read_quota import EACH, ReadQuota
from kgroup.support.units import human_bytes

LARGEST_RECORD_BYTES = 1_048_588
"""The default of ``message.max.bytes``: a quota that larger records only would use up is not the cause."""


def quota_words(quotas: Sequence[ReadQuota], group: Group, reads_per_s: float) -> str | None:
    """The lowest quota that may slow the group's members, and what it may be instead; None without one.

    ``reads_per_s`` is what the group reads, in records.
    """
    lowest = min(_of_members(quotas, group, reads_per_s), key=lambda quota: quota.bytes_per_s, default=None)
    if lowest is None:
        return None
    whose = "" if lowest.user is None else ", whose user is not shown"
    return (
        f"{lowest.subject} may read {human_bytes(lowest.bytes_per_s)}/s at each broker (quota): that slows its "
        f"members{whose}, or they are too slow themselves, the log does not show which"
    )


def _of_members(quotas: Sequence[ReadQuota], group: Group, reads_per_s: float) -> Iterable[ReadQuota]:
    """The quotas that may count for a member: one of its own client id counts instead of that of each.

    That of a named user is left out: nothing shows that it is of these members.
    """
    named = {quota.client_id for quota in quotas if quota.user is None}
    for quota in quotas:
        if quota.bytes_per_s > LARGEST_RECORD_BYTES * reads_per_s or quota.user not in (None, EACH):
            continue
        ids = {member.client_id for member in group.members or ()}
        if quota.client_id is None or quota.client_id in ids or (quota.client_id == EACH and ids - named):
            yield quota
