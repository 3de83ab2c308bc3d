"""Events of a group's log in any order, with any numbers in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

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
    ShareStates,
    ShareStatesWritten,
    SpareTasks,
    TargetEpochWritten,
    TargetWritten,
    Topology,
    TopologyWritten,
    TransactionEnd,
    Unreadable,
)
from kgroup.model.streams_group import Subtopology
from kgroup.model.topic_partition import TopicPartition
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
SPARES = st.none() | st.builds(SpareTasks, partitions(), partitions())
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
    st.builds(
        EpochWritten,
        ZERO,
        ZERO,
        NUMBERS,
        st.none() | st.integers(0, 2),
        st.sampled_from((*[RebalanceProtocol.CONSUMER] * 3, RebalanceProtocol.SHARE, RebalanceProtocol.STREAMS)),
        st.none() | st.integers(0, 2),
        st.sampled_from((None, (), (("num.standby.replicas", "1"),))),
    ),
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
    st.builds(TargetWritten, ZERO, ZERO, MEMBERS, MAYBE_PARTITIONS, SPARES),
    st.builds(
        MemberAssignmentWritten,
        ZERO,
        ZERO,
        MEMBERS,
        st.none() | st.builds(MemberAssignment, st.integers(-2, 6), st.booleans(), partitions(), partitions(), SPARES),
    ),
    st.builds(ShareStatesWritten, ZERO, ZERO, st.none() | st.builds(ShareStates, partitions(), partitions(), TOPICS)),
    st.builds(
        TopologyWritten,
        ZERO,
        ZERO,
        st.none() | st.builds(Topology, NUMBERS, st.sampled_from(((), (Subtopology("t", ("t",)),)))),
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
