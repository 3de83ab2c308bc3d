"""Whether ``start --if-behind`` and ``--if-empty`` have something to do, decided from the lag of a group. Pure."""

from __future__ import annotations

import msgspec

from kgroup.groups.catchup.behind import BehindBound
from kgroup.groups.lag.checks import LagBounds, Violation, check_hidden, check_lag
from kgroup.groups.lag.report import GroupLag, LagSum
from kgroup.support.durations import format_duration
from kgroup.support.json_types import ExplainedEnum
from kgroup.support.units import human_count


class Behind(msgspec.Struct, frozen=True):
    """``--if-behind``: the bound as typed, and as ``kgroup lag`` checks it."""

    text: str
    bounds: LagBounds

    @classmethod
    def parse(cls, text: str) -> Behind:
        """``100k`` and ``2500`` are records, ``10m`` and ``2h`` an age. Raises UsageError."""
        bound = BehindBound.parse(text, "--if-behind")
        return cls(text.strip(), LagBounds(max_lag=bound.records, max_lag_time_s=bound.age_s))


class StartCondition(msgspec.Struct, frozen=True):
    """When ``start`` does something; otherwise it ends with exit code 0."""

    behind: Behind | None = None
    if_empty: bool = False


class UnstartedReason(ExplainedEnum):
    """Why nothing was done."""

    NOT_BEHIND = "not-behind", "no partition is that far behind"
    LAG_UNKNOWN = "lag-unknown", "no partition is known to be that far behind, and the lag of one is unknown"
    NO_COMMIT = "no-commit", "nothing is committed"
    NOT_EMPTY = "not-empty", "the group has members (--if-empty)"


class Unstarted(msgspec.Struct, frozen=True):
    """A catch-up that was not needed: ``text`` is why, for people; ``lag`` None: it was not measured."""

    group: str
    reason: UnstartedReason
    text: str
    lag: LagSum | None = None


def decide_start(group: str, report: GroupLag | None, behind: Behind) -> Violation | Unstarted:
    """The first partition that is farther behind than the bound, or why the group is started as it is.

    ``report`` is the lag of the partitions in scope; None: the group does not exist. An unknown lag moves nothing: the
    application then reads from its commits, as without kgroup.
    """
    if report is None or not (report.partitions or report.hidden_commits):
        return Unstarted(group, UnstartedReason.NO_COMMIT, f"{group} has nothing committed that it could be behind")
    violations = (*check_lag(report.partitions, behind.bounds, report.now_ms), *check_hidden(report))
    if known := next((violation for violation in violations if violation.known), None):
        return known
    if violations:
        more = f", and {len(violations) - 1} more" if len(violations) > 1 else ""
        text = f"{group} is not known to be {behind.text} behind: {violations[0]}{more}"
        return Unstarted(group, UnstartedReason.LAG_UNKNOWN, text, report.total)
    text = f"{group} is not {behind.text} behind on any partition: {_numbers(report.total)}"
    return Unstarted(group, UnstartedReason.NOT_BEHIND, text, report.total)


def _numbers(total: LagSum) -> str:
    """``lag 903, at most 600 on orders:2; the oldest unread record is 12s old, on orders:1``."""
    text = f"lag {human_count(total.lag or 0)}"
    if total.largest is not None:
        text += f", at most {human_count(total.largest.lag or 0)} on {total.largest.where}"
    if total.oldest is not None:
        age = format_duration((total.oldest.time_lag_ms or 0) / 1000)
        text += f"; the oldest unread record is {age} old, on {total.oldest.where}"
    return text
