"""No record makes what is concluded from it raise or loop, and no name reaches the terminal as it is.

Events out of broken records, and events of any order with nasty names in them, go the whole way: history, evidence of
lag, verdict, doctor, simulation, states of a moment, and the pages, documents and rows that are made of them.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec.structs
import pytest
from hypothesis import strategies as st

from kgroup.cluster.offsets_topic.record_batches import Marker, RawRecord
from kgroup.groups.assignors import CLIENT_SIDE, SERVER_SIDE
from kgroup.groups.assignors.model import AssignorTopic, Subscriber
from kgroup.groups.doctor.diagnose import diagnose_group
from kgroup.groups.doctor.from_log import from_log as doctors_view
from kgroup.groups.doctor.snapshot import TopicDetails
from kgroup.groups.history.summary import GroupHistory, HistoryQuery, group_history
from kgroup.groups.lag.from_log import from_log
from kgroup.groups.simulation.model import GroupChange, RestartStrategy, SimulatedGroup, SimulationTiming
from kgroup.groups.simulation.run import simulate
from kgroup.groups.simulation.subject import subject_of
from kgroup.groups.state_from_log import log_line, state_at
from kgroup.groups.timeline.steps import StepKind
from kgroup.groups.undo_plan import as_of_rows
from kgroup.groups.verdict.group import group_verdict
from kgroup.model.commit import Commit
from kgroup.model.group_log import CommitWritten, Event, GenerationWritten, MemberAssignmentWritten, ScannedRange
from kgroup.model.groups import Group, Member, TopicPartitions
from kgroup.model.outcome import Outcome
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages import doctor as doctor_screen
from kgroup.output.pages import history as history_screen
from kgroup.output.pages.lag_documents import verdict_document
from kgroup.output.terminal.draw import draw
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import Refused, UsageError
from kgroup.support.json_line import one_line_json, plain
from tests.helpers.cases.any_events import EVENT, logged
from tests.helpers.cases.doctor import HEALTHY
from tests.helpers.cases.lag import NOW, Part, evidence, group
from tests.helpers.fuzzing import LONG, NASTY, QUICK_AND_LONG, events_of, fuzz, records, renamed
from tests.helpers.json_documents import documents

CLUSTER = ClusterRef("id", "b1:9092", "prod")
NAMES = st.sampled_from(NASTY)
PAUSES = st.lists(st.sampled_from((0, 0, 500, 5_000, 90_000, -3_000)), min_size=20, max_size=20)
BOUNDS = st.sampled_from((None, 0, 3, 110))


@st.composite
def of_records(draw: st.DrawFn) -> tuple[Event, ...]:
    """Events out of records that are partly broken, with offsets that rise."""
    raw: list[RawRecord | Marker] = []
    now = NOW - 1_000_000
    for offset, (key, value) in enumerate(draw(st.lists(records(), max_size=15))):
        now += draw(st.sampled_from((0, 100, 60_000, -5_000)))
        producer = draw(st.sampled_from((None, None, 4)))
        raw.append(RawRecord(offset, now, key, value, producer))
    if draw(st.booleans()):
        raw.append(Marker(len(raw), 4, draw(st.booleans()), now))
    return events_of(raw)


@st.composite
def of_names(draw: st.DrawFn) -> tuple[Event, ...]:
    """Events in any order, with names that no cluster should have."""
    events = logged(draw(st.lists(EVENT, max_size=12)), draw(PAUSES)).events
    names: dict[str, str] = {}

    def name(old: str) -> str:
        if old not in names:
            names[old] = draw(NAMES)
        return names[old]

    return tuple(renamed(event, name) for event in events)


EVENTS = of_records() | of_names()


def drawn(outcome: Outcome, **how: Any) -> None:
    """On the page nothing moves the cursor or turns the writing round; the document and the rows are plain."""
    stream = io.StringIO()
    draw(outcome, stream, **how)
    text = stream.getvalue()
    assert all(char.isprintable() or char == "\n" for char in text), ascii(text)
    json.dumps(documents(outcome))
    if outcome.records is not None:
        assert all(len(row) == len(outcome.records().header) for row in outcome.records().rows)


def reach_of(events: Sequence[Event], whole_from: int | None) -> ScannedRange:
    oldest = min((event.at_ms for event in events), default=None)
    return ScannedRange(0, len(events) + 200, oldest, whole_from, whole_from == 0)


@pytest.mark.parametrize("examples", [150, pytest.param(LONG, marks=pytest.mark.soak)])
def test_any_history(examples: int) -> None:
    def check(given: tuple[tuple[Event, ...], str, int | None, int | None]) -> None:
        events, name, whole_from, session_ms = given
        times = [event.at_ms for event in events] or [NOW]
        now = max(times) + 1_000
        asked = HistoryQuery(min(times), now, now, session_ms, commits=True)
        reach = reach_of(events, whole_from)
        found = group_history(name, events, reach, asked)
        is_sound(found, whole_from)
        for verbose in (False, True):
            drawn(history_screen.outcome([found], CLUSTER, verbose=verbose))
        for at_ms in (None, sum(times) // len(times)):
            state = state_at(name, events, reach, at_ms)
            if state is not None:
                log_line(state, now)
                as_of_rows(state, {TopicPartition("t", 1): Commit(1, None, "")}, {}, {}, {"t": None})

    fuzz(examples, st.tuples(EVENTS, NAMES, BOUNDS, st.sampled_from((None, 0, 10_000))), check)


def is_sound(found: GroupHistory, whole_from: int | None) -> None:
    """Counts stay within bounds, the document is plain JSON, and each row is there."""
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
    assert history_screen.screen([found], verbose=False, limit=3).blocks
    assert found.commits is not None
    assert len(list(history_screen.records([found]).rows)) == sum(len(jump.partitions) for jump in found.commits.jumps)
    without = msgspec.structs.replace(found, commits=None)
    assert len(list(history_screen.records([without]).rows)) == len(found.steps)


def partitions_in(events: Sequence[Event]) -> list[TopicPartition]:
    return sorted({TopicPartition(e.topic, e.partition) for e in events if isinstance(e, CommitWritten)})


NUMBERS = st.sampled_from((None, 0, 1, 5_000, 10**15))


@QUICK_AND_LONG
def test_any_verdict_and_diagnosis(examples: int) -> None:
    def check(given: tuple[tuple[Event, ...], str, int | None, int | None, str, str]) -> None:
        events, name, whole_from, lag, kind, state = given
        times = [event.at_ms for event in events] or [NOW]
        now = max(NOW, *times) + 1_000
        parts = [Part(number, lag, topic=topic) for topic, number in partitions_in(events)]
        members = [_member(member, events) for member in _members_in(events)]
        about = group(parts, members, state, type=kind, name=name)
        reach = reach_of(events, whole_from)

        told = from_log(events, reach, about, now)
        known = evidence(
            [replace(part, commits=told.commits.get(TopicPartition(part.topic, part.number), ())) for part in parts],
            state_since_ms=told.state_since_ms,
            members=told.members,
            churn=told.churn,
        )
        json.dumps(plain(verdict_document(group_verdict(about, known))))

        seen = doctors_view(events, reach, name, HistoryQuery(min(times), now, now, 45_000))
        snapshot = msgspec.structs.replace(
            HEALTHY,
            group=about,
            now_ms=now,
            settings=told.members,
            commits=told.commits,
            commits_since_ms=told.read_since_ms,
            history=seen.history,
            emptied_at_ms=told.emptied_record_ms,
            topics={topic: TopicDetails(3) for topic, _ in partitions_in(events)},
        )
        for verbose in (False, True):
            drawn(doctor_screen.outcome([diagnose_group(snapshot)], CLUSTER, verbose=verbose))

    kinds, states = (
        st.sampled_from(("classic", "consumer")),
        st.sampled_from(("Stable", "Empty", "Reconciling", "Dead")),
    )
    fuzz(examples, st.tuples(EVENTS, NAMES, BOUNDS, NUMBERS, kinds, states), check)


def _members_in(events: Sequence[Event]) -> list[str]:
    found: dict[str, None] = {}
    for event in events:
        if isinstance(event, GenerationWritten):
            found |= dict.fromkeys(member.member_id for member in event.members)
        elif isinstance(event, MemberAssignmentWritten):
            found[event.member_id] = None
    return list(found)


def _member(name: str, events: Sequence[Event]) -> Member:
    held = [
        e.holding.partitions
        for e in events
        if isinstance(e, MemberAssignmentWritten) and e.member_id == name and e.holding
    ]
    held += [
        member.partitions
        for event in events
        if isinstance(event, GenerationWritten)
        for member in event.members
        if member.member_id == name and member.partitions
    ]
    assignment = tuple(TopicPartitions(topic, (number,)) for topic, number in sorted(held[-1])) if held else ()
    return Member(name, None, name, name, None, None, "classic", (name,), None, assignment, None)


RACKS = st.sampled_from((None, "", "a", "\u202eb"))


@st.composite
def members(draw: st.DrawFn) -> tuple[Subscriber, ...]:
    """Members with any names, claims of topics that do not exist, of the same partition twice, of generations."""
    names = draw(st.lists(NAMES | st.text(max_size=4), max_size=5, unique=True))
    places = st.builds(TopicPartition, NAMES | st.sampled_from(("t", "u")), st.integers(0, 7))
    numbers = st.none() | st.integers(-1, 3)
    return tuple(
        Subscriber(
            name,
            draw(st.frozensets(NAMES | st.sampled_from(("t", "u")), max_size=3)),
            draw(st.none() | st.just(f"i-{at}{name}")),
            draw(RACKS),
            tuple(draw(st.lists(places, max_size=6))),
            draw(numbers),
            draw(numbers),
        )
        for at, name in enumerate(names)
    )


TOPICS = st.lists(
    st.builds(
        AssignorTopic, NAMES | st.sampled_from(("t", "u")), st.integers(0, 9), st.none(), st.none() | st.integers(0, 9)
    ),
    max_size=4,
    unique_by=lambda topic: topic.name,
)


CHANGES = st.sampled_from(
    (
        GroupChange(add=1),
        GroupChange(remove=2),
        GroupChange(kill=1),
        GroupChange(more_partitions=3),
        *(GroupChange(restart=r) for r in RestartStrategy),
    )
)


@QUICK_AND_LONG
def test_any_simulation(examples: int) -> None:
    done: list[GroupChange] = []

    def check(given: tuple[tuple[Subscriber, ...], list[AssignorTopic], str, str, GroupChange]) -> None:
        who, topics, kind, assignor, change = given
        described = _described(who, kind, assignor)
        # A group that rebalances, claims twice, another framework's assignor: refused, with a reason.
        with suppress(Refused, UsageError):
            at_rest: SimulatedGroup = subject_of(described, topics, None)
            found = simulate(at_rest, change, SimulationTiming())
            done.append(change)
            assert found.balance_after.member_count == max(0, len(who) - change.remove) + change.add

    kinds = st.sampled_from(("classic", "consumer"))
    names = st.sampled_from((*CLIENT_SIDE, *SERVER_SIDE)) | NAMES
    fuzz(examples, st.tuples(members(), TOPICS, kinds, names, CHANGES), check)
    assert len(done) > examples / 10, "most are refused, not all"


def _described(who: Sequence[Subscriber], kind: str, assignor: str) -> Group:
    def member(one: Subscriber) -> Member:
        held = tuple(TopicPartitions(topic, (number,)) for topic, number in one.owned)
        return Member(
            one.member_id, one.instance_id, one.member_id, "h", one.rack, 1, kind, tuple(one.topics), None, held, held
        )

    empty: Callable[..., Group] = group
    return empty([], [member(one) for one in who], "Stable" if who else "Empty", type=kind, assignor=assignor)
