"""The thresholds of lag, of the verdict and of the doctor's rules, each with its reason.

``describe``, ``lag`` and ``doctor`` take them from here, so that they judge the same facts alike.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kgroup.support.durations import format_duration

Unit = Literal["", "ms", "%", "x"]


class Threshold(msgspec.Struct, frozen=True):
    """A number from which something is reported, and the reason for this number.

    ``unit`` is ``ms``, ``%``, ``x`` (times), or "" for a count; ``name`` describes what is counted.
    """

    name: str
    value: int
    unit: Unit
    reason: str

    @property
    def text(self) -> str:
        """``5m``, ``80%``, ``1000``."""
        return format_duration(self.value / 1000) if self.unit == "ms" else f"{self.value}{self.unit}"


# Status of a partition
COMMIT_WINDOW = Threshold("last commits that count", 10, "", "the window of Burrow")
COMMIT_DISTANCE = Threshold("time between two commits that count", 1_000, "ms", "else ten within a second are a window")
FEW_COMMITS = Threshold("commits that show a pattern", 3, "", "two are one pause, which may be chance")
LEAST_SILENCE = Threshold("time at one offset that is too short to judge", 30_000, "ms", "a usual commit interval")
LONE_COMMIT = Threshold(
    "time at one offset after few commits",
    300_000,
    "ms",
    "the default max.poll.interval.ms: a slow batch is done",
)
SERIES_PAUSE = Threshold("pause that ends a series of commits", 10_000, "ms", "twice the default auto-commit interval")
REWIND_SHOWN = Threshold("time for which a rewind is shown", 600_000, "ms", "after it the lag itself shows it")
STUCK = Threshold("time at one offset that is critical", 900_000, "ms", "three of them: it does not continue by itself")
LONG_BATCH = Threshold(
    "time in one batch of a streaming query that is a warning", 3_600_000, "ms", "an hour: a large first batch is done"
)

# Groups without a reader
ASSIGN_READS = Threshold(
    "time without a commit to an Empty group that is no reader", 300_000, "ms", "assign() reads without being a member"
)
RESTART = Threshold("time without a reader that is a warning", 60_000, "ms", "a restart is shorter")
DESERTED = Threshold("time without a reader that is critical", 900_000, "ms", "longer than a deployment")
ABANDONED = Threshold(
    "time without a reader from which it is a warning again", 86_400_000, "ms", "a day: the group is probably not used"
)
TAKEN_OVER = Threshold(
    "time between the end of a group and the start of one that replaces it", 600_000, "ms", "longer than a deployment"
)
LEFT = Threshold(
    "time since the last commit to a topic that the group has left", 3_600_000, "ms", "a wrong deployment shows sooner"
)
QUIET = Threshold("time without a commit of another group that is quiet", 3_600_000, "ms", "its lag shows nothing")

RESET_SHOWN = Threshold(
    "time for which a reset by no member, or a deleted topic, is shown",
    3_600_000,
    "ms",
    "what kgroup history shows by default",
)

ONE_REQUEST_MS = 1_000
"""Commits of one request are written within this time."""

# Rates and gaps
RATE_SPAN = Threshold("time over which rates are measured", 600_000, "ms", "a batch producer has some rounds in it")
RECENT_SPAN = Threshold("time over which a reversed trend shows", 60_000, "ms", "some commits of a usual interval")
EVEN_RATES = Threshold("difference of rates that are equal", 2, "%", "less is the error of measurement")
UNLIKE_RATES = Threshold("difference of rates that are both shown", 25, "%", "less is not worth a second number")
COMMIT_PAUSES = Threshold("commit intervals that explain a lag", 2, "", "a healthy consumer has such a lag too")
LONG_GAP = Threshold("time to read the gap", 600_000, "ms", "new records wait for as long")
LEAST_LAG = Threshold("records of lag from which its shape counts", 1_000, "", "two batches of max.poll.records (500)")
LEAST_UNREAD = Threshold(
    "unread offsets where it is not known whether they hold records", 100, "", "the mark of a transaction is a lag of 1"
)
LATE_SIBLING = Threshold("age of the first unread record of another group that lags", 60_000, "ms", "as a restart")

LAG_FOLLOWS = Threshold(
    "time after a change of the members in which a lag begins with it", 600_000, "ms", "as rates are measured"
)

# Shape of the lag
BEHIND_SHARE = Threshold("share of the largest lag that is behind too", 20, "%", "15 k next to 3.9 M is not")
FEW_PARTITIONS = Threshold(
    "partitions from which one is compared with the others", 3, "", "of two, one always has half or more"
)
HOT = Threshold("times the median of the topic's other partitions", 5, "x", "hashed keys stay within twice of it")
HOT_LEAST = Threshold("records in ten minutes", 1_000, "", "fewer are noise in any batch producer")

# Transactions and retention
LONG_TRANSACTION = Threshold(
    "time held back that is a warning", 60_000, "ms", "the default transaction.timeout.ms of producers"
)
HANGING = Threshold(
    "time without an end that is critical",
    900_000,
    "ms",
    "the default transaction.max.timeout.ms; the broker's own counts",
)
ABORTS = Threshold(
    "abort commands that are printed", 10, "", "more are one incident: find-hanging of kafka-transactions.sh"
)
RETENTION_SOON = Threshold(
    "time to the deletion of unread records that is bad", 900_000, "ms", "a broker checks every 5 minutes"
)
RETENTION_CLOSE = Threshold("time to the deletion that is a warning", 3_600_000, "ms", "time to act")

# Commits that move nothing
IDLE_COMMITS = Threshold("commits in the log from which the habit shows", 100, "", "8 minutes of auto-commit each 5s")
IDLE_SHARE = Threshold("share of commits without progress", 90, "%", "below that, most commits do their work")

# Rebalances and restarts
STORM_WINDOW = Threshold(
    "the time in which rebalances are counted", 600_000, "ms", "two default max.poll.interval.ms (5m)"
)
STORM_SHOWN = Threshold("how far back a storm still counts", 3_600_000, "ms", "what kgroup history shows by default")
STORM = Threshold(
    "rebalances in that time that are no rollout", 5, "", "one each 2m: a group that scales or crashes once has fewer"
)
HEAVY_STORM = Threshold(
    "rebalances in that time that are critical", 10, "", "one a minute: caches and state never warm up"
)
STOPPED_SHARE = Threshold("share of that time stopped that is critical", 25, "%", "a quarter of the capacity is lost")
STORM_ONGOING = Threshold(
    "time since the last one after which the storm is over", 120_000, "ms", "the mean gap of the fewest that count"
)
LARGE_MEMBERS = Threshold(
    "members from which a group is large", 10, "", "a rolling restart under an eager assignor stops all 20 times"
)
LARGE_PARTITIONS = Threshold("partitions from which a group is large", 100, "", "a rebalance stops all of them")
TAKEN = Threshold(
    "partitions moved in the log although their owner stayed", 50, "", "fewer are a member or two that came or went"
)
MEMBER_RESTARTS = Threshold(
    "restarts of dynamic members in the log", 3, "", "one or two are a crash or a test, three are how it is operated"
)
BACK_SOON = Threshold(
    "absence up to which it is a restart", 600_000, "ms", "longer ones are scaling; no session should wait for them"
)
USUAL_RESTARTS = Threshold(
    "restarts longer than the session that show how long they take", 2, "", "one alone may be a pod that was down"
)
RESTART_SESSIONS = Threshold("sessions up to which one alone is a restart", 3, "", "longer, it is an outage")
LATE_SHARE = Threshold("share of the restarts that are too long", 25, "%", "one of forty is an accident")

# Members
STANDBY = Threshold("idle members that are only info", 1, "", "one spare member is often meant as a standby")
MEMBER_SKEW = Threshold(
    "share of the busiest member, of what sticky would give it", 150, "%", "below that, more members help as much"
)
MEMBER_SKEW_LEAST = Threshold(
    "partitions that the busiest member has too many", 2, "", "a difference of one cannot be balanced"
)

SETTLED = Threshold(
    "time for which members with other client ids are there", 300_000, "ms", "a rollout does not pause for longer"
)

# Timeouts
HEARTBEATS = Threshold(
    "heartbeats that fit into a session", 3, "", "Kafka's documentation: no more than a third; one may be lost"
)
DEFAULT_HEARTBEAT = Threshold(
    "assumed heartbeat interval of a classic client", 3_000, "ms", "the default; clients do not send it to brokers"
)
LONG_POLL = Threshold(
    "max.poll.interval.ms that is info", 3_600_000, "ms", "twelve times the default; an hour of lag before anyone acts"
)
ENDLESS_POLL = Threshold(
    "max.poll.interval.ms that is a warning", 86_400_000, "ms", "librdkafka's maximum; Java's is 24d20h"
)
LONG_SESSION = Threshold(
    "session timeout of static members that delays an operator", 300_000, "ms", "how long kgroup's --wait-empty waits"
)

# Expiry of commits
EXPIRY_SOON = Threshold(
    "time left that is a warning", 86_400_000, "ms", "a day is left to act; half of the retention where that is shorter"
)
EXPIRY_AT_ONCE = Threshold("time left that is critical", 3_600_000, "ms", "six of the broker's checks (10m): act now")
IN_USE = Threshold(
    "age of the newest commit up to which a group without members is in use",
    3_600_000,
    "ms",
    "a consumer may use assign()",
)

# The cluster
REPLICAS = Threshold("replicas of __consumer_offsets", 3, "", "offsets.topic.replication.factor, Kafka's default")
OVER_FAIR = Threshold("times a fair share of the groups", 2, "x", "twice the load of every request, twice the loading")
FEW_GROUPS = Threshold("groups at one coordinator from which its share counts", 100, "", "fewer cost a broker nothing")
MANY_GROUPS = Threshold(
    "groups at one coordinator, however even", 5_000, "", "no limit of Kafka's: our choice, for what a failover loads"
)
