"""For applications: a consumer that comes back far behind starts at the log end, and its gap is recorded for a replay.

    consumer = Consumer(config)
    consumer.subscribe(["orders"], on_assign=catch_up_if_behind("10m", config))

A partition that is farther behind than the bound is written to kgroup's ledger, committed at its end by this member,
and starts there; all others start as usual. ``kgroup catchup resume`` delivers what was passed over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kgroup.cluster.group_member import LOG_END, GroupMember
from kgroup.groups.catchup.behind import BehindBound
from kgroup.groups.catchup.ledger_name import LEDGER_TOPIC
from kgroup.groups.catchup.member_gap import may_be_behind
from kgroup.model.commit import Commit
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.background import in_background
from kgroup.support.clock import utc_ms
from kgroup.support.errors import KgroupError, UsageError

if TYPE_CHECKING:
    from kgroup.catchup.member_release import MemberSettings
    from kgroup.groups.catchup.model import CatchupPlan

__all__ = ["CatchUpIfBehind", "catch_up_if_behind"]

LOG = logging.getLogger("kgroup.consumer")

OnAssign = Callable[[Any, list[Any]], None]
ReleaseBehind = Callable[[GroupMember, "MemberSettings", Mapping[TopicPartition, Commit]], "CatchupPlan | None"]

_CONNECTION = ("bootstrap.", "broker.", "client.", "enable.ssl.", "https.", "oauth_cb", "sasl.", "security.", "ssl.")
"""How the keys of a consumer's configuration begin that other clients need to reach the same cluster."""

_PATIENCE = 0.8
"""The part of the whole time that a client may wait without any answer, so that the reason is known before the end."""


def catch_up_if_behind(
    behind: str | int,
    config: Mapping[str, Any],
    *,
    on_assign: OnAssign | None = None,
    within_s: float = 5.0,
    ledger_topic: str = LEDGER_TOPIC,
    reason: str | None = None,
) -> CatchUpIfBehind:
    """An ``on_assign`` for ``Consumer.subscribe``, for both protocols and all assignors.

    ``behind`` is an age (``"10m"``) or a number of records (``100_000``, ``"100k"``); a partition at the bound is not
    behind. ``config`` is the consumer's own. ``on_assign`` is the application's callback, which runs afterwards and may
    assign as it likes. ``within_s`` is how long a callback may take; a partition that is not recorded by then starts at
    its commit. ``reason`` is shown with the plans. Raises UsageError.
    """
    return CatchUpIfBehind(behind, config, on_assign, within_s, ledger_topic, reason)


class CatchUpIfBehind:
    """The callback; see ``catch_up_if_behind``. It assigns nothing: a partition starts where it is committed."""

    def __init__(
        self,
        behind: str | int,
        config: Mapping[str, Any],
        on_assign: OnAssign | None,
        within_s: float,
        ledger_topic: str,
        reason: str | None,
    ) -> None:
        for key in ("bootstrap.servers", "group.id"):
            if not config.get(key):
                raise UsageError(
                    f"catch_up_if_behind: config has no {key}; it must be the configuration of the consumer"
                )
        if within_s <= 0:
            raise UsageError("catch_up_if_behind: within_s must be above 0")
        self._bound = BehindBound.parse(str(behind), "catch_up_if_behind")
        self._group = str(config["group.id"])
        self._on_assign = on_assign
        self._within_s = within_s
        self._last_failure: str | None = None
        # What only a gap needs takes longer to import than a group takes to assign.
        self._loaded = in_background(
            "consumer",
            lambda: _load(config, self._group, self._bound, ledger_topic, reason, within_s * _PATIENCE),
        )

    def __call__(self, consumer: Any, partitions: list[Any]) -> None:
        """Catch up what is behind of these partitions, then call the application's callback."""
        try:
            self._catch_up(consumer, [TopicPartition(one.topic, one.partition) for one in partitions])
            self._last_failure = None
        except KgroupError as error:
            self._report(error)
        except Exception:
            # Also a defect of kgroup must not keep the application from its partitions, which start where committed.
            LOG.exception("%s: no partition is caught up", self._group)
        if self._on_assign is not None:
            self._on_assign(consumer, partitions)

    def _catch_up(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        if not partitions:
            return
        member = GroupMember(consumer, time.monotonic() + self._within_s)
        read = member.committed(partitions)
        if unread := [tp for tp in partitions if tp not in read]:
            LOG.warning("%s: not caught up, as another kind of client committed it: %s", self._group, unread[0])
        commits = {tp: commit for tp, commit in read.items() if commit is not None}
        if not commits:
            return
        ends = member.offsets_at(commits, LOG_END)
        since: Mapping[TopicPartition, int | None] = {}
        if self._bound.age_s is not None:
            since = member.offsets_at(commits, utc_ms() - round(self._bound.age_s * 1000))
        if suspects := may_be_behind(commits, ends, since, self._bound):
            release, settings = self._loaded.result(member.left_s)
            plan = release(member, settings, suspects)
            if plan is not None:
                offsets = sum(item.offsets for item in plan.ranges)
                LOG.info(
                    "%s: %s starts at the log end on %d partitions; %d offsets are in %s",
                    *(self._group, consumer.memberid(), len(plan.ranges), offsets, plan.id),
                )

    def _report(self, error: KgroupError) -> None:
        """Log a reason once, until there is another one or a success."""
        if error.message != self._last_failure:
            self._last_failure = error.message
            LOG.warning("%s: what is behind starts at its commit, and is not caught up: %s", self._group, error.message)


def _load(
    config: Mapping[str, Any], group: str, bound: BehindBound, ledger_topic: str, reason: str | None, timeout_s: float
) -> tuple[ReleaseBehind, MemberSettings]:
    from kgroup.catchup.member_release import MemberSettings, release_behind

    kind = "consumer" if str(config.get("group.protocol", "")).lower() == "consumer" else "classic"
    connection = {key: value for key, value in config.items() if key.startswith(_CONNECTION)}
    return release_behind, MemberSettings(connection, group, kind, bound, ledger_topic, reason, timeout_s)
