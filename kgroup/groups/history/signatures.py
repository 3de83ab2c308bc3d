"""Known patterns of rebalances: a rollout, restarts again and again, a member that never synced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from kgroup.groups.timeline.commit_evidence import CommitEvidence
from kgroup.groups.timeline.steps import (
    DEPARTURES,
    LOOP,
    Cause,
    HistoryStep,
    Reason,
    Signature,
    SignatureKind,
    StepKind,
)
from kgroup.model.group_log import RebalanceProtocol
from kgroup.model.migration_facts import holds_group
from kgroup.support.durations import format_duration
from kgroup.support.units import plural

ROLLOUT_GAP_MS = 300_000
"""The longest pause between two rebalances of one rollout."""

ROLLOUT_MS = 1_800_000
LOOP_GAP_MS = 600_000
"""The longest pause between two rollouts of a crash loop: Kubernetes waits up to five minutes before a restart."""
_EXACT_MS = 1_500
_FAILURES = frozenset({Cause.SESSION_EXPIRED, Cause.POLL_EXCEEDED})


def find_signatures(steps: Sequence[HistoryStep], evidence: CommitEvidence) -> tuple[Signature, ...]:
    """All recognised patterns in the log's order.

    NEVER_SYNCED is left out if it ends during restarts or in the 10 minutes before it.
    """
    runs = replacements(steps)
    loops = [one for one in runs if one.kind is SignatureKind.RESTARTS]
    waits = [
        one
        for one in never_synced(steps, evidence)
        if not any(loop.from_ms - LOOP_GAP_MS <= one.to_ms <= loop.to_ms for loop in loops)
    ]
    return tuple(sorted((*runs, *waits), key=lambda one: (one.first, one.last)))


def replacements(steps: Sequence[HistoryStep]) -> tuple[Signature, ...]:
    """Rollouts; at least three of them with short pauses become one: restarts.

    Rollouts in which the members were replaced one by one remain rollouts, however many they are: each member left, and
    its successor was there before the next one left. In a crash loop members are gone together, or without leaving. So
    they are in planned stops, of which those for a migration or a catch-up are not joined.
    """
    runs: list[list[Signature]] = []
    for one in rollouts(steps):
        last = runs[-1][-1] if runs else None
        near = last is not None and one.from_ms - last.to_ms <= LOOP_GAP_MS
        disorderly = last is not None and not is_orderly(steps, last) and not is_orderly(steps, one)
        if near and last is not None and disorderly and not _has_planned_stop(steps, last, one):
            runs[-1].append(one)
        else:
            runs.append([one])
    return tuple(one for run in runs for one in ([_restarts(run)] if len(run) >= LOOP else run))


def is_orderly(steps: Sequence[HistoryStep], rollout: Signature) -> bool:
    """Whether the members went one at a time, and none of them expired or exceeded its poll interval."""
    least = len(rollout.members) - 1
    for before, step in pairwise(steps):
        if not rollout.first <= step.log_offset <= rollout.last:
            continue
        here = {present.member_id for present in step.members if not present.away}
        went = {present.member_id for present in before.members if not present.away} - here
        if len(here) < least or len(went) > 1 or step.causes & _FAILURES:
            return False
    return True


def _has_planned_stop(steps: Sequence[HistoryStep], first: Signature, last: Signature) -> bool:
    """Whether the group changed its protocol from one rollout to the other, or kgroup held it."""
    span = [step for step in steps if first.first <= step.log_offset <= last.last]
    held = any(holds_group(present.member_id, present.instance_id) for step in span for present in step.members)
    return held or len({step.protocol for step in span}) > 1


def _restarts(run: Sequence[Signature]) -> Signature:
    first, last = run[0], run[-1]
    count = sum(one.rebalances for one in run)
    names = tuple(sorted({name for one in run for name in one.members}))
    text = (
        f"all members replaced {len(run)} times, in {plural(count, 'rebalance')}: by a crash loop or planned stops, "
        "the log does not show which"
    )
    return Signature(SignatureKind.RESTARTS, first.from_ms, last.to_ms, first.first, last.last, count, names, text)


def rollouts(steps: Sequence[HistoryStep]) -> tuple[Signature, ...]:
    """Spans in which every initial member was replaced exactly once.

    A member is replaced when its member id is gone and a new member came: with the same name where names survive a
    restart, else as many new members as there were old ones. A rollout has at least two members, takes at most 30
    minutes and has no pause over 5 minutes.
    """
    signatures: list[Signature] = []
    index = 1
    while index < len(steps):
        signature = _rollout_from(steps, index)
        if signature is None:
            index += 1
        else:
            signatures.append(signature)
            index = next(n for n, step in enumerate(steps) if step.log_offset == signature.last) + 1
    return tuple(signatures)


def _rollout_from(steps: Sequence[HistoryStep], first: int) -> Signature | None:
    """The shortest rollout that begins with this step; None if there is none."""
    before = steps[first - 1]
    old = {present.member_id: present.name for present in before.members}
    if len(old) < 2 or not {present.member_id for present in steps[first].members} ^ old.keys():
        return None
    known_ids, came = set(old), Counter[str]()
    for index in range(first, len(steps)):
        step = steps[index]
        if step.kind is StepKind.DELETED or step.at_ms - steps[first].at_ms > ROLLOUT_MS:
            return None
        if index > first and step.at_ms - steps[index - 1].at_ms > ROLLOUT_GAP_MS:
            return None
        now = {present.member_id: present.name for present in step.members}
        came.update(name for member_id, name in now.items() if member_id not in known_ids)
        known_ids |= now.keys()
        if came.total() > len(old) or any(times > 1 for times in came.values()):
            return None
        if not now.keys() & old.keys() and len(now) == len(old) == came.total() and _has_same_names(old, came):
            return _rollout(steps[first : index + 1], old, came, before)
    return None


def _after_silence(step: HistoryStep, before: HistoryStep) -> str:
    """`` after 50s without a commit``, if that is as long as a session: a frozen broker takes no heartbeat either."""
    sessions_ms = [present.session_ms for present in before.members if present.session_ms is not None]
    if step.quiet_ms is None or not sessions_ms or step.quiet_ms < min(sessions_ms):
        return ""
    return f" after {format_duration(step.quiet_ms / 1000)} without a commit"


def _has_same_names(old: Mapping[str, str], came: Mapping[str, int]) -> bool:
    """Whether the new members have the names of the old ones; True too if no name matches (names change at restart)."""
    before = set(old.values())
    return before.isdisjoint(came) or before == came.keys()


def _rollout(steps: Sequence[HistoryStep], old: dict[str, str], came: Counter[str], before: HistoryStep) -> Signature:
    count = sum(step.rebalances for step in steps)
    text = f"{len(old)} of {plural(len(old), 'member')} replaced once, in {plural(count, 'rebalance')}"
    if len(steps) == 1:
        text = (
            f"all {plural(len(old), 'member')} replaced at once{_after_silence(steps[0], before)}: "
            "restarted together, or their broker did not answer; the log does not show which"
        )
    return Signature(
        SignatureKind.ROLLOUT,
        steps[0].at_ms,
        steps[-1].at_ms,
        steps[0].log_offset,
        steps[-1].log_offset,
        count,
        tuple(sorted(came)),
        text,
    )


def never_synced(steps: Sequence[HistoryStep], evidence: CommitEvidence) -> tuple[Signature, ...]:
    """Rebalances that waited for exactly a session timeout.

    There are two cases. Either a member joined a generation, never committed, and was gone a session timeout after
    the joining ended: it never fetched its assignment. Or a group that commits regularly was quiet for a session
    timeout before its joining ended: the coordinator waited for a member that had begun to join, and the log does not
    name it. (If a member dies while the group works, the others continue to commit until its session ends.)
    """
    signatures = []
    for before, step in pairwise(steps):
        if step.protocol is not RebalanceProtocol.CLASSIC or StepKind.DELETED in (step.kind, before.kind):
            continue
        gone_ms = step.at_ms if step.joined_ms is None else step.joined_ms
        if names := _lost(before, step, gone_ms, evidence):
            signatures.append(
                _never_synced(before, step, names, f"{', '.join(names)} joined, never committed, and was gone")
            )
        elif (session_ms := _standstill_ms(before, step, gone_ms, evidence)) is not None:
            text = f"quiet for {format_duration(session_ms / 1000)}"
            signatures.append(
                _never_synced(before, step, (), f"{text}: waited for a member that never came back to join")
            )
    return tuple(signatures)


def _lost(before: HistoryStep, step: HistoryStep, gone_ms: int, evidence: CommitEvidence) -> tuple[str, ...]:
    began_ms, span = before.joined_ms, (before.log_offset, step.log_offset)
    if began_ms is None or evidence.rhythm_ms is None or not evidence.whole(*span):
        return ()
    suspects = _names(before.reasons, frozenset({Cause.JOIN})) & _names(step.reasons, DEPARTURES)
    return tuple(
        sorted(
            present.name
            for present in before.members
            if present.name in suspects
            and present.session_ms is not None
            and -_exact(present.session_ms)
            <= gone_ms - began_ms - present.session_ms
            <= _exact(present.session_ms) + present.session_ms // 3
            and evidence.last_commit(present.partitions or frozenset(), *span) is None
        )
    )


def _standstill_ms(before: HistoryStep, step: HistoryStep, gone_ms: int, evidence: CommitEvidence) -> int | None:
    """The session timeout (ms) for which the group was quiet; None if it was not, or commits too rarely to judge."""
    rhythm_ms = evidence.rhythm_ms
    if step.quiet_ms is None or rhythm_ms is None or step.kind is not StepKind.REBALANCE:
        return None
    quiet_ms = step.quiet_ms - max(0, step.at_ms - gone_ms)
    for session_ms in sorted({p.session_ms for p in (*before.members, *step.members) if p.session_ms is not None}):
        exact_ms = _exact(session_ms)
        if 2 * rhythm_ms < session_ms and -exact_ms <= quiet_ms - session_ms <= exact_ms + rhythm_ms:
            return session_ms
    return None


def _exact(session_ms: int) -> int:
    """How many ms a span may differ from a session timeout to count as equal."""
    return min(_EXACT_MS, session_ms // 4)


def _names(reasons: Sequence[Reason], causes: frozenset[Cause]) -> frozenset[str]:
    return frozenset(name for reason in reasons if reason.cause in causes for name in reason.members)


def _never_synced(before: HistoryStep, step: HistoryStep, names: tuple[str, ...], text: str) -> Signature:
    return Signature(
        SignatureKind.NEVER_SYNCED,
        before.at_ms,
        step.at_ms,
        before.log_offset,
        step.log_offset,
        step.rebalances,
        names,
        f"{text}, exactly a session timeout",
    )
