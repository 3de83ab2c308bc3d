"""One fold tells what became of a group: its members, since when there are none, and the record that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kgroup.groups.lag.from_log import from_log
from kgroup.groups.state_from_log import state_at
from kgroup.groups.timeline.fold import GroupTimeline
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
    RebalanceProtocol,
    ScannedRange,
    TargetEpochWritten,
    TargetWritten,
    TransactionEnd,
)
from kgroup.model.groups import Group
from kgroup.model.topic_partition import TopicPartition
from tests.helpers.cases.any_events import EVENT, logged
from tests.helpers.cases.lag import group as described

HOLDERS = {"classic": "kgroup-catchup", "consumer": "kgroup-migrate-1"}
SHARES: dict[str, Partitions] = {name: frozenset({TopicPartition("orders", n)}) for n, name in enumerate("abc")}


@dataclass
class Coordinator:
    """Writes a group's records as Kafka does, and remembers what it was: the truth that a fold has to find."""

    now_ms: int = 0
    type: str | None = None
    members: set[str] = field(default_factory=set)
    number: int = 0
    events: list[Event] = field(default_factory=list)
    idle_since_ms: int | None = None
    changed_ms: int | None = None
    by_tool: set[int] = field(default_factory=set)

    @property
    def offset(self) -> int:
        return len(self.events)

    def join(self, name: str) -> None:
        if name not in self.members:
            self.type = self.type or ("consumer" if self.now_ms % 2_000 else "classic")
            self.members.add(name)
            self.idle_since_ms = None
            self._change(joined=name)

    def leave(self, name: str) -> None:
        if name in self.members:
            self.members.remove(name)
            if not self.members:
                self.idle_since_ms = self.now_ms
            self._change(left=name)

    def commit(self, _: str) -> None:
        if not self.members:
            self.by_tool.add(self.offset)
            self.type = self.type or "classic"
        self._commit("")

    def hold(self, _: str) -> None:
        """A release by kgroup."""
        if self.type is not None and not self.members:
            holder = HOLDERS[self.type]
            self._change({holder}, joined=holder)
            self.by_tool.add(self.offset)
            self._commit("kgroup cu-7f3a 3 release 70")
            self._change(left=holder)

    def convert(self, _: str) -> None:
        if self.type is None or self.members or self.changed_ms is None:
            return
        self._delete()
        self.type = "classic" if self.type == "consumer" else "consumer"
        if self.type == "consumer":
            self._change({HOLDERS["consumer"]}, joined=HOLDERS["consumer"])
            self._change(left=HOLDERS["consumer"])
        else:
            self._change()

    def delete(self, _: str) -> None:
        if self.type is not None and not self.members and self.changed_ms is not None:
            self._delete()
            self.type = self.idle_since_ms = self.changed_ms = None
            self.number = 0

    def _commit(self, metadata: str) -> None:
        # Each commit has a partition of its own: several for one would be those of a consumer with assign().
        self.events.append(
            CommitWritten(
                self.offset, self.now_ms, "orders", self.offset, 1, metadata, None, None, TransactionEnd.PLAIN
            )
        )

    def _delete(self) -> None:
        assert self.type is not None
        self.events.append(GroupDeleted(self.offset, self.now_ms, RebalanceProtocol(self.type)))

    def _change(self, only: set[str] | None = None, *, joined: str | None = None, left: str | None = None) -> None:
        here = self.members if only is None else only
        self.number += 1
        self.changed_ms = self.now_ms
        if self.type == "classic":
            self.events.append(generation(self.offset, self.now_ms, self.number, sorted(here)))
            return
        for name, details in ((left, None), (joined, details_of(joined))):
            if name is not None:
                self.events.append(MemberWritten(self.offset, self.now_ms, name, details))
        self.events.append(EpochWritten(self.offset, self.now_ms, self.number, None))
        for name in sorted(here):
            share = SHARES.get(name, frozenset())
            self.events.append(TargetWritten(self.offset, self.now_ms, name, share))
            holding = MemberAssignment(self.number, True, share, frozenset())
            self.events.append(MemberAssignmentWritten(self.offset, self.now_ms, name, holding))
        self.events.append(TargetEpochWritten(self.offset, self.now_ms, self.number))


def details_of(name: str | None) -> MemberDetails:
    return MemberDetails(None, name or "", "h", frozenset({"orders"}), None, 300_000, None)


def generation(offset: int, at_ms: int, number: int, names: list[str]) -> GenerationWritten:
    members = tuple(
        GenerationMember(name, None if name in SHARES else name, name, "h", 45_000, 300_000, None, SHARES.get(name))
        for name in names
    )
    return GenerationWritten(offset, at_ms, number, "consumer", "range" if names else None, None, None, members)


ACTIONS: tuple[Callable[[Coordinator, str], None], ...] = (
    Coordinator.join, Coordinator.join, Coordinator.leave, Coordinator.leave, Coordinator.commit,
    Coordinator.hold, Coordinator.convert, Coordinator.delete,
)  # fmt: skip


@st.composite
def coordinators(draw: st.DrawFn) -> Coordinator:
    coordinator = Coordinator()
    for action, name in draw(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from("abc")), max_size=25)):
        coordinator.now_ms += 1_000
        action(coordinator, name)
    return coordinator


def group_of(truth: Coordinator) -> Group:
    return described([], state="Stable" if truth.members else "Empty", type=truth.type or "classic")


def fold(events: list[Event], *, whole: bool = True) -> GroupTimeline:
    timeline = GroupTimeline(members_known=whole)
    for event in events:
        timeline.add(event)
    return timeline


@given(coordinators())
def test_a_whole_log_tells_what_the_coordinator_knows(truth: Coordinator) -> None:
    timeline, group = fold(truth.events), group_of(truth)

    assert timeline.consumers == truth.members
    assert timeline.empty == (not truth.members)
    assert timeline.idle_since_ms == truth.idle_since_ms
    assert timeline.state_since_ms(group) == (truth.changed_ms if truth.members else truth.idle_since_ms)
    assert truth.members or timeline.emptied_record_ms(group) == truth.changed_ms
    state = timeline.newest_state
    assert (state and state.at_ms) == truth.changed_ms
    told = state_at("svc", truth.events, ScannedRange(0, truth.offset, 0, 0, to_log_start=True))
    assert (told and told.type) == truth.type


@given(coordinators(), st.floats(0, 1))
def test_the_end_of_a_log_tells_it_or_does_not_know(truth: Coordinator, part: float) -> None:
    start = round(truth.offset * part)
    timeline = fold(truth.events[start:], whole=False)

    assert timeline.consumers <= truth.members
    assert not (timeline.empty and truth.members)
    since = [event.at_ms for event in truth.events[start:]]
    if truth.idle_since_ms is not None and since and since[0] < truth.idle_since_ms:
        assert timeline.idle_since_ms == truth.idle_since_ms, "the departure of the last consumer was read"


@given(coordinators(), st.floats(0, 1))
def test_the_commits_that_no_consumer_made(truth: Coordinator, part: float) -> None:
    start = round(truth.offset * part)
    reach = ScannedRange(start, truth.offset, 0, start, to_log_start=start == 0)
    log_facts = from_log(truth.events[start:], reach, group_of(truth), truth.now_ms)

    by_tool = {commit.log_offset for made in log_facts.commits.values() for commit in made if commit.by_tool}
    assert by_tool <= truth.by_tool
    assert start or by_tool == truth.by_tool


@given(st.lists(EVENT, max_size=25))
def test_any_order_leaves_the_newest_record_of_each_member(events: list[Event]) -> None:
    timeline, events = GroupTimeline(), logged(events, [0] * 25).events
    for event in events:
        timeline.add(event)
    ends = [e.log_offset for e in events if isinstance(e, GroupDeleted) and e.protocol is not RebalanceProtocol.CLASSIC]
    since = [event for event in events if event.log_offset > max(ends, default=-1)]

    details = {event.member_id: event.details for event in since if isinstance(event, MemberWritten)}
    targets = {event.member_id: event.partitions for event in since if isinstance(event, TargetWritten)}
    holdings = {event.member_id: event.holding for event in since if isinstance(event, MemberAssignmentWritten)}
    assert timeline.details == {name: value for name, value in details.items() if value is not None}
    assert timeline.targets == {name: value for name, value in targets.items() if value is not None}
    assert timeline.holdings == {name: value for name, value in holdings.items() if value is not None}
    for kind in ("classic", "consumer"):
        for state in ("Empty", "Stable", "Assigning"):
            timeline.state_since_ms(described([], state=state, type=kind))
