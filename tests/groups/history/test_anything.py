"""What holds for any events in any order: nothing raises, counts stay within bounds, the document is plain JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kgroup.groups.history.model import StepKind
from kgroup.model.group_log import (
    CommitWritten,
    EpochWritten,
    Event,
    GenerationMember,
    GenerationWritten,
    GroupDeleted,
    MemberAssignment,
    MemberAssignmentWritten,
    MemberDetails,
    MemberWritten,
    Partitions,
    PatternResolved,
    RebalanceProtocol,
    TargetEpochWritten,
    TargetWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.history import records, screen
from kgroup.support.json_line import one_line_json, plain
from tests.helpers.cases.history import T0, Log

MEMBERS = st.sampled_from(("a/1", "a/2", "b/1", "c/1", ""))
INSTANCES = st.sampled_from((None, None, "i-1", "i-2"))
CLIENTS = st.sampled_from(("a", "b", "i-1", ""))
LARGEST = 2**31 - 1
NUMBERS = st.integers(-1, 6) | st.just(LARGEST)
TIMEOUTS = st.sampled_from((-1, 0, 1_000, 10_000, LARGEST))


@st.composite
def partitions(draw: st.DrawFn) -> Partitions:
    return frozenset(TopicPartition("t", n) for n in draw(st.sets(st.integers(0, 5) | st.just(LARGEST), max_size=4)))


MAYBE_PARTITIONS = st.one_of(st.none(), partitions())
TOPICS = st.frozensets(st.sampled_from(("t", "u")), max_size=2)
ZERO = st.just(0)

GENERATION_MEMBER = st.builds(
    GenerationMember, MEMBERS, INSTANCES, CLIENTS, CLIENTS, TIMEOUTS, st.none() | TIMEOUTS, TOPICS, MAYBE_PARTITIONS
)
EVENT = st.one_of(
    st.builds(
        GenerationWritten,
        ZERO,
        ZERO,
        NUMBERS,
        st.sampled_from(("consumer", "")),
        st.sampled_from((None, "range", "cooperative-sticky")),
        st.none() | MEMBERS,
        st.none() | st.integers(T0 - 10, T0 + 60_000),
        st.lists(GENERATION_MEMBER, max_size=4).map(tuple),
    ),
    st.builds(GroupDeleted, ZERO, ZERO, st.sampled_from(RebalanceProtocol)),
    st.builds(EpochWritten, ZERO, ZERO, NUMBERS, st.none() | st.integers(0, 2)),
    st.builds(
        MemberWritten,
        ZERO,
        ZERO,
        MEMBERS,
        st.none()
        | st.builds(
            MemberDetails, INSTANCES, CLIENTS, CLIENTS, TOPICS, st.none(), st.none() | TIMEOUTS, st.none() | TIMEOUTS
        ),
    ),
    st.builds(PatternResolved, ZERO, ZERO, st.just("p.*"), st.none() | TOPICS),
    st.builds(TargetEpochWritten, ZERO, ZERO, st.none() | NUMBERS),
    st.builds(TargetWritten, ZERO, ZERO, MEMBERS, MAYBE_PARTITIONS),
    st.builds(
        MemberAssignmentWritten,
        ZERO,
        ZERO,
        MEMBERS,
        st.none() | st.builds(MemberAssignment, st.integers(-2, 6), st.booleans(), partitions(), partitions()),
    ),
    st.builds(
        CommitWritten,
        ZERO,
        ZERO,
        st.just("t"),
        st.integers(0, 5) | st.just(LARGEST),
        st.none() | st.integers(-1, 5_000) | st.just(2**63 - 1),
        st.just(""),
        st.none(),
        st.sampled_from((None, 4)),
        st.sampled_from(TransactionEnd),
    ),
    st.builds(Unreadable, ZERO, ZERO, st.just("broken")),
)


def logged(events: Sequence[Event], pauses: Sequence[int]) -> Log:
    """The events one after the other."""
    log = Log()
    for event, pause in zip(events, pauses, strict=False):
        log.now_ms += pause
        log.offset += 1
        place: Any = {"log_offset": log.offset, "at_ms": log.now_ms}
        log.events.append(replace(event, **place))
    return log


@settings(max_examples=300)
@given(
    st.lists(EVENT, max_size=25),
    st.lists(st.sampled_from((0, 0, 0, 500, 5_000, 12_000, -3_000)), min_size=25, max_size=25),
    st.sampled_from((None, 0, 110)),
    st.sampled_from((None, 10_000)),
)
def test_any_events(events: list[Event], pauses: list[int], whole_from: int | None, session_ms: int | None) -> None:
    log = logged(events, pauses)
    found = log.history(since=-60, until=900, commits=True, session_ms=session_ms, reach={"whole_from": whole_from})

    offsets = [step.log_offset for step in found.steps]
    assert offsets == sorted(offsets)
    for step in found.steps:
        assert (step.moved_needlessly or 0) <= (step.moved or 0)
        assert step.kind is not StepKind.REBALANCE or step.members
        assert all(ms is None or ms >= 0 for ms in (step.took_ms, step.quiet_ms, step.lasted_ms, step.never_completed))
        if whole_from is None:
            assert not step.never_completed
            assert not any(reason.inferred for reason in step.reasons)
    assert found.totals.moved == sum(step.moved or 0 for step in found.steps if step.kind is StepKind.REBALANCE)
    document = found.document()
    assert json.loads(one_line_json(document)) == json.loads(json.dumps(plain(document)))
    for verbose in (False, True):
        assert screen([found], verbose=verbose, limit=None if verbose else 3).blocks
    assert found.commits is not None
    assert len(list(records([found]).rows)) == sum(len(jump.partitions) for jump in found.commits.jumps)
    assert len(list(records([replace(found, commits=None)]).rows)) == len(found.steps)


@settings(max_examples=100)
@given(st.lists(EVENT, max_size=25), st.lists(st.sampled_from((0, 500, 5_000)), min_size=25, max_size=25))
def test_what_was_said_of_steps_stays_as_the_log_grows(events: list[Event], pauses: list[int]) -> None:
    """``--follow`` says a step once it is over: nothing that comes later may change its number, kind or members."""
    whole = logged(events, pauses)
    half = logged(events[: len(events) // 2], pauses)
    before = [step for step in half.steps() if step.lasted_ms is not None]
    after = {(step.log_offset, step.kind): step for step in whole.steps()}

    for step in before[:-1]:
        later = after.get((step.log_offset, step.kind))
        assert later is not None
        assert (later.number, [p.member_id for p in later.members]) == (
            step.number,
            [p.member_id for p in step.members],
        )
