"""Checks whether the committed offsets survive the conversion."""

from __future__ import annotations

from kgroup.groups.migration.check import CheckSubject, MigrationCheck
from kgroup.groups.migration.evidence import MigrationCase
from kgroup.model.kafka_tools import acl_hint
from kgroup.support.durations import format_duration
from kgroup.support.hint import Hint
from kgroup.support.instants import minute_text
from kgroup.support.units import plural, some_of

EXPIRY = CheckSubject(
    "offsets-expiry",
    "when the commits would expire after the conversion, which counts from each commit instead of from Empty",
    "offsets.retention.minutes; seen on a 4.3.1 broker",
    "offsets expiry",
)
GONE = CheckSubject(
    "gone-topics",
    "commits on topics that do not exist any more",
    "OffsetCommit: UNKNOWN_TOPIC_OR_PARTITION",
    "gone topics",
)
HIDDEN = CheckSubject(
    "hidden-commits",
    "commits on topics that this user may not DESCRIBE: the broker hides them, and kgroup could not keep them",
    "OffsetFetch without DESCRIBE on a topic; seen on a 4.3.1 broker",
    "hidden commits",
)
PENDING = CheckSubject(
    "pending-transactions",
    "offsets that an open transaction is about to commit",
    "KIP-447; KAFKA-19163",
    "pending transactions",
)

_SOON_MS = 24 * 3_600_000
_KEPT = "kgroup commits all of them again just before it converts the group"


def offsets_expiry(case: MigrationCase) -> MigrationCheck | None:
    """When the commits would expire; None for a live group: they do not expire while it subscribes to their topics.

    The retention in an Empty classic group counts from when it became Empty, after a conversion from each commit.
    """
    if case.live:
        return None
    group, past, retention_ms = case.group, case.past, case.broker.offsets_retention_ms
    committed = [p.tp for p in group.partitions if p.commit is not None]
    if not committed:
        failed = [f"{p.tp}" for p in group.partitions if p.error]
        if failed or case.why("partitions", "commits"):
            return EXPIRY.unknown("its commits could not be read" + (f": {some_of(failed)}" if failed else ""))
        return EXPIRY.warning(
            "no commits: the broker removes an Empty group that has none at its next check "
            "(offsets.retention.check.interval.ms, 10m by default)",
            brief="no commits",
            remedy="no offset can be lost; start the application soon after, or let it create the group itself",
        )
    times = [past.commits_ms[place] for place in committed if place in past.commits_ms] if past else []
    if retention_ms is None or not times:
        why = case.why("offsets_retention_ms", "past")
        return EXPIRY.unknown(f"when its commits were made, or how long they are kept, is not known{why}; {_KEPT}")
    first_ms = min(times) + retention_ms
    horizon_ms = case.evidence.now_ms + min(_SOON_MS, retention_ms // 2)
    soon = sum(time + retention_ms < horizon_ms for time in times)
    if not soon:
        return EXPIRY.ok(f"the first would expire at {minute_text(first_ms)}; {_KEPT}")
    within = format_duration((horizon_ms - case.evidence.now_ms) / 1000)
    when = "at once" if first_ms <= case.evidence.now_ms else f"the first at {minute_text(first_ms)}"
    return EXPIRY.info(
        f"{soon} of {plural(len(committed), 'commit')} would expire within {within} of the conversion, {when}; {_KEPT}"
    )


def gone_topics(case: MigrationCase) -> MigrationCheck | None:
    """Commits on deleted topics: kgroup cannot commit them again, so they are left to expire."""
    missing = case.evidence.gone
    if not missing:
        return GONE.ok("none")
    evidence = f"commits on {plural(len(missing), 'topic')} that {'does' if len(missing) == 1 else 'do'} not exist: "
    evidence += some_of(missing)
    if case.live:
        return GONE.info(evidence)
    brief = f"topic {missing[0]} is gone" if len(missing) == 1 else f"{len(missing)} topics are gone"
    words = (word for topic in missing for word in ("--topic", topic))
    return GONE.warning(
        f"{evidence}; kgroup cannot commit them again, and they may expire soon after",
        brief=brief,
        remedy=Hint("{} deletes them, if they are not needed", ("delete-offsets", case.group.name, *words)),
    )


def hidden_commits(case: MigrationCase) -> MigrationCheck | None:
    """Commits that the broker hides from this user; only the log shows them, and they would expire after conversion."""
    if case.live:
        return None
    past, may_hide = case.past, case.evidence.may_hide
    if past and past.hidden:
        topics = sorted({topic for topic, _ in past.hidden})
        return HIDDEN.blocked(
            f"{plural(len(past.hidden), 'commit')} on {some_of(topics)} are hidden: no DESCRIBE on Topic",
            brief=f"no DESCRIBE on {topics[0]}",
            remedy=acl_hint("Describe", "topic", topics[0]),
        )
    if may_hide is False:
        return HIDDEN.ok("none: this user may see all topics")
    if past and past.searched:
        return HIDDEN.ok("none in __consumer_offsets")
    evidence = "commits on topics that this user may not DESCRIBE are hidden, and would be lost"
    if may_hide is None:
        return HIDDEN.unknown(evidence + case.why("past"))
    return HIDDEN.warning(
        evidence + case.why("past"),
        brief="hidden commits not known",
        remedy="migrate as a user who may DESCRIBE all its topics, and READ __consumer_offsets",
    )


def pending_transactions(case: MigrationCase) -> MigrationCheck | None:
    """Open transactions: their offsets would come after the commits that kgroup makes; a live group is not blocked."""
    pending = case.evidence.pending
    if not pending and not any(p.commit for p in case.group.partitions) and not case.live:
        return PENDING.unknown("none can be seen; but a partition with only a pending commit is shown by no request")
    if not pending:
        return PENDING.ok("none")
    partitions = some_of([f"{topic}:{number}" for topic, number in sorted(pending)])
    evidence = f"an open transaction is about to commit {plural(len(pending), 'partition')}: {partitions}"
    if case.live:
        return PENDING.info(evidence)
    return PENDING.blocked(
        evidence,
        brief="pending transaction",
        remedy="wait until it ends (transaction.timeout.ms at the latest); one that hangs: kafka-transactions.sh "
        "--bootstrap-server BROKER find-hanging --broker-id ID",
    )
