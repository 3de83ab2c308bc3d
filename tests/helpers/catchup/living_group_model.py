"""An explicit-state model of releases in a living group: members, rebalances, kills, operators. Breadth first.

Its rules are those of ``kgroup.catchup.member_release``, ``groups.catchup.member_gap`` and ``decisions``. Each member
plans what it was assigned, all at the same time; a step is one read or one write, and between two steps any other
process may move. ``without`` leaves rules out, to show that each of them is needed.

What must hold in each state: a record below the committed offset is handled, or delivered, or in the gap of an open
plan; and no record is handled or delivered twice, except one that a member had processed without a commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, TypeVar

RULES = frozenset({"ledger-first", "fenced-commit", "void-check", "membership", "overlap-check", "in-doubt"})
"""ledger-first: the plan is written before the commit. fenced-commit: an expelled member's commit is refused.

void-check: a plan is closed only if nothing of it is released. membership: and only by a member that is found to be in
the group after it has taken the plan over. overlap-check: offsets of an open plan are not planned again. in-doubt:
resume and cancel do not decide about a plan whose member may be about to commit.
"""

OPEN = ("releasing", "released")

T = TypeVar("T")
Marks = tuple[tuple[int, int] | None, ...]


class Plan(NamedTuple):
    """``spans`` are (partition, start, end); ``holder`` has its transactional id; ``released``: its mark was last."""

    state: str
    spans: tuple[tuple[int, int, int], ...]
    holder: str
    released: bool = False


class Member(NamedTuple):
    """``at`` is its next step; ``mine`` what it was assigned and has to look at; ``valid``: it is in the group."""

    at: str
    valid: bool
    mine: tuple[int, ...] = ()
    read: tuple[int, ...] = ()
    listed: tuple[int, ...] = ()
    void: tuple[int, ...] = ()
    plan: int = -1


class Operator(NamedTuple):
    """A resume or cancel of a plan."""

    verb: str
    at: str
    plan: int


class State(NamedTuple):
    """``committed``, ``marks`` and what became of records are by partition; records are bits."""

    end: int
    committed: tuple[int, ...]
    marks: Marks
    owner: tuple[int, ...]
    members: tuple[Member, ...]
    plans: tuple[Plan, ...]
    operator: Operator | None
    handled: tuple[int, ...]
    delivered: tuple[int, ...]
    stated: tuple[int, ...]
    kills: int
    joins: int
    rebalances: int
    operators: int
    grows: int
    resets: int


@dataclass
class Explored:
    """How many states there are, and the shortest way to a state that must not be."""

    states: int = 0
    violation: str | None = None
    trace: list[str] = field(default_factory=list)


Step = tuple[str, State, str | None]


@dataclass(frozen=True)
class LivingGroup:
    """The sizes, and the rules that are left out."""

    partitions: int = 2
    records: int = 1
    members: int = 2
    kills: int = 1
    joins: int = 0
    rebalances: int = 1
    operators: int = 1
    grows: int = 0
    resets: int = 0
    without: frozenset[str] = frozenset()

    def start(self) -> State:
        """All members have just been assigned their partitions, and all of them are behind."""
        owner = tuple(number % self.members for number in range(self.partitions))
        zeros = (0,) * self.partitions
        members = tuple(
            Member("read", True, tuple(tp for tp, whose in enumerate(owner) if whose == number))
            for number in range(self.members)
        )
        return State(
            *(self.records, zeros, (None,) * self.partitions, owner, members, (), None, zeros, zeros, zeros),
            *(self.kills, self.joins, self.rebalances, self.operators, self.grows, self.resets),
        )

    def explore(self, most: int = 5_000_000) -> Explored:
        """All states, breadth first, until one must not be."""
        first = self.start()
        came: dict[State, tuple[State, str] | None] = {first: None}
        level = [first]
        while level and len(came) < most:
            following: list[State] = []
            for state in level:
                for label, after, wrong in self.steps(state):
                    if after in came:
                        continue
                    came[after] = (state, label)
                    if wrong := wrong or lost(after):
                        return Explored(len(came), wrong, _trace(came, after))
                    following.append(after)
            level = following
        assert not level, f"more than {most} states"
        return Explored(len(came))

    def steps(self, s: State) -> Iterator[Step]:
        """What can happen next: (what, the state after it, what is wrong in it)."""
        for number, member in enumerate(s.members):
            if member.at != "dead":
                yield from self._member(s, number, member)
                yield from self._killed(s, number)
        yield from self._rebalances(s)
        if s.operator is not None:
            yield from self._operator(s, s.operator)
        elif s.operators:
            for number, verb in product(range(len(s.plans)), ("resume", "cancel")):
                if s.plans[number].state in OPEN:
                    operator = Operator(verb, "take", number)
                    yield f"{verb} of {number}", s._replace(operator=operator, operators=s.operators - 1), None
        if s.grows:
            yield "records come", s._replace(end=s.end + 1, grows=s.grows - 1), None

        if s.resets and not any(one.valid for one in s.members):
            for tp in (tp for tp, committed in enumerate(s.committed) if committed):
                again = _at(s.stated, tp, s.stated[tp] | _bits(0, s.committed[tp]))
                back = s._replace(committed=_at(s.committed, tp, 0), marks=_at(s.marks, tp, None), stated=again)
                yield f"an operator moves {tp} back", back._replace(resets=s.resets - 1), None

    def _killed(self, s: State, number: int) -> Iterator[Step]:
        if not s.kills:
            return
        killed = self._left(s, number, "dead")._replace(kills=s.kills - 1)
        yield f"member {number} is killed", killed, None
        for tp in _reads(s, number):
            yield f"member {number} is killed before its commit of {tp}", *_processed(killed, tp, commits=False)

    # The group.

    def _rebalances(self, s: State) -> Iterator[Step]:
        """Another assignment. Who is in its callback keeps its partitions, or was expelled as it took too long."""
        if not s.rebalances:
            return
        inside = [n for n, one in enumerate(s.members) if one.valid and one.at in _CALLBACK]
        waiting = [n for n, one in enumerate(s.members) if one.at in ("joins", "reads", "finish")]
        if s.joins:
            newcomer = s._replace(members=(*s.members, Member("joins", False)), joins=s.joins - 1)
            yield "a member starts", newcomer, None
        for expelled in product((False, True), repeat=len(inside)):
            stays = [n for n, out in zip(inside, expelled, strict=True) if not out]
            kept = {tp: n for tp, n in enumerate(s.owner) if n in stays}
            free = [tp for tp in range(self.partitions) if tp not in kept]
            if not waiting:
                if any(expelled):
                    yield f"{inside} {expelled} expelled", self._assigned(s, kept, stays, {}), None
                continue
            for given in product(waiting, repeat=len(free)):
                new = dict(zip(free, given, strict=True))
                label = f"rebalance: {new}, {stays} in their callbacks"
                yield label, self._assigned(s, kept, [*stays, *waiting], new), None

    def _assigned(self, s: State, kept: dict[int, int], valid: list[int], new: dict[int, int]) -> State:
        owner = tuple({**kept, **new}.get(tp, -1) for tp in range(self.partitions))
        members = []
        for number, member in enumerate(s.members):
            mine = tuple(tp for tp, whose in new.items() if whose == number and s.owner[tp] != number)
            again = tuple(tp for tp, whose in new.items() if whose == number)
            if member.at in ("joins", "reads", "finish"):
                # Eager members are called for all that they have; it is enough to look at what is new, and at all.
                looked_at = again if mine else ()
                at = "read" if looked_at else ("finish" if member.at == "finish" else "reads")
                plan = member.plan if at == "finish" else -1
                members.append(Member(at, True, looked_at, plan=plan))
            else:
                members.append(member._replace(valid=member.valid and number in valid))
        return s._replace(owner=owner, members=tuple(members), rebalances=s.rebalances - 1)

    def _left(self, s: State, number: int, at: str) -> State:
        """A member is no more; its partitions have no owner, and it commits nothing."""
        owner = tuple(-1 if whose == number else whose for whose in s.owner)
        return _with(s, number, Member(at, False))._replace(owner=owner)

    # A member in its callback, and after it.

    def _member(self, s: State, n: int, m: Member) -> Iterator[Step]:
        step = {
            "read": self._reads_commits,
            "list": self._lists,
            "decide": self._decides,
            "take": self._takes,
            "prove": self._proves,
            "judge": self._judges,
            "close": self._closes,
            "record": self._records,
            "write": self._records,
            "check": self._checks,
            "give-up": self._gives_up,
            "commit": self._commits,
            "finish": self._finishes,
        }.get(m.at)
        if step:
            yield from step(s, n, m)
        for tp in _reads(s, n):
            yield f"member {n} processes and commits {tp} {s.committed[tp]}", *_processed(s, tp, commits=True)

    def _reads_commits(self, s: State, n: int, m: Member) -> Iterator[Step]:
        behind = tuple(tp for tp in m.mine if s.committed[tp] < s.end)
        yield f"member {n} does not catch up", _with(s, n, _reading(m)), None
        if behind:
            read = tuple(s.committed[tp] for tp in behind)
            after = m._replace(at="list", mine=behind, read=read)
            yield f"member {n} reads {dict(zip(behind, read, strict=True))}", _with(s, n, after), None

    def _lists(self, s: State, n: int, m: Member) -> Iterator[Step]:
        listed = tuple(k for k, plan in enumerate(s.plans) if plan.state in OPEN)
        yield f"member {n} lists {listed}", _with(s, n, m._replace(at="decide", listed=listed)), None

    def _records(self, s: State, n: int, m: Member) -> Iterator[Step]:
        if "ledger-first" in self.without and m.at == "record":
            yield from self._commits(s, n, m)
            return
        spans = tuple((tp, start, s.end) for tp, start in zip(m.mine, m.read, strict=True))
        released = m.at == "write"
        plan = Plan("releasing", spans, f"m{n}", released)
        after = _with(s, n, m._replace(at="finish" if released else "check", plan=len(s.plans)))
        yield f"member {n} writes plan {len(s.plans)} of {spans}", after._replace(plans=(*s.plans, plan)), None

    def _checks(self, s: State, n: int, m: Member) -> Iterator[Step]:
        moved = any(s.committed[tp] != start for tp, start in zip(m.mine, m.read, strict=True))
        after = m._replace(at="give-up" if moved else "commit")
        yield f"member {n} reads its commits again", _with(s, n, after), None
        yield f"member {n} is late", _with(s, n, m._replace(at="give-up")), None

    def _gives_up(self, s: State, n: int, m: Member) -> Iterator[Step]:
        after = _with(s, n, _reading(m))
        if s.plans[m.plan].holder == f"m{n}" and s.plans[m.plan].state == "releasing":
            after = _plan(after, m.plan, state="cancelled")
        yield f"member {n} gives plan {m.plan} up", after, None

    def _finishes(self, s: State, n: int, m: Member) -> Iterator[Step]:
        if s.plans[m.plan].holder == f"m{n}" and s.plans[m.plan].state == "releasing":
            written = _plan(_with(s, n, _reading(m)), m.plan, state="released")
            yield f"member {n} writes released of plan {m.plan}", written, None

    def _decides(self, s: State, n: int, m: Member) -> Iterator[Step]:
        """Which plans are in its way: those that seem void are taken over, and the others keep their partitions."""
        void, kept = self._in_the_way(s, m)
        after = self._without_kept(m, kept, "take" if void else "record")._replace(void=void)
        yield f"member {n} decides: void {void}, kept {sorted(kept)}", _with(s, n, after), None

    def _in_the_way(self, s: State, m: Member) -> tuple[tuple[int, ...], set[int]]:
        void, kept = [], set[int]()
        for k in m.listed:
            plan = s.plans[k]
            shared = {
                tp
                for tp, start in zip(m.mine, m.read, strict=True)
                for other, low, high in plan.spans
                if other == tp and max(start, low) < min(s.end, high)
            }
            if not shared or plan.state not in OPEN:
                continue
            if plan.state == "releasing" and ("void-check" in self.without or self._is_void(s, k)):
                void.append(k)
            else:
                kept |= shared
        return tuple(void), kept

    def _without_kept(self, m: Member, kept: set[int], then: str) -> Member:
        if "overlap-check" in self.without:
            kept = set()
        left = [(tp, start) for tp, start in zip(m.mine, m.read, strict=True) if tp not in kept]
        if not left:
            return _reading(m)
        return m._replace(at=then, mine=tuple(tp for tp, _ in left), read=tuple(start for _, start in left))

    def _is_void(self, s: State, k: int) -> bool:
        def unread(tp: int, start: int) -> bool:
            mark = s.marks[tp]
            if mark is not None and mark[0] == k:
                return False
            return s.committed[tp] == start or (mark is not None and mark[1] == start)

        return all(unread(tp, start) for tp, start, _ in s.plans[k].spans)

    def _takes(self, s: State, n: int, m: Member) -> Iterator[Step]:
        """Take the plans over, one after the other."""
        left = [k for k in m.void if s.plans[k].holder != f"m{n}-closes"]
        if left:
            yield f"member {n} takes plan {left[0]}", _plan(s, left[0], holder=f"m{n}-closes"), None
        else:
            at = "judge" if "membership" in self.without else "prove"
            yield f"member {n} has taken {m.void}", _with(s, n, m._replace(at=at)), None

    def _proves(self, s: State, n: int, m: Member) -> Iterator[Step]:
        after = m._replace(at="judge") if m.valid else _reading(m)
        yield f"member {n} stores a commit again: {m.valid}", _with(s, n, after), None

    def _judges(self, s: State, n: int, m: Member) -> Iterator[Step]:
        void, kept = self._in_the_way(s, m)
        after = self._without_kept(m, kept, "close")._replace(void=tuple(k for k in void if k in m.void))
        yield f"member {n} judges: void {void}, kept {sorted(kept)}", _with(s, n, after), None

    def _closes(self, s: State, n: int, m: Member) -> Iterator[Step]:
        """Close them, unless another run has taken one over meanwhile."""
        if not m.void:
            yield f"member {n} closes nothing more", _with(s, n, m._replace(at="record")), None
            return
        k, *left = m.void
        if s.plans[k].holder != f"m{n}-closes":
            yield f"member {n} was superseded", _with(s, n, _reading(m)), None
        else:
            after = _with(s, n, m._replace(void=tuple(left)))
            yield f"member {n} closes plan {k}", _plan(after, k, state="cancelled"), None

    def _commits(self, s: State, n: int, m: Member) -> Iterator[Step]:
        """One request: it is stored as a whole, or refused as a whole."""
        if not m.valid and "fenced-commit" not in self.without:
            yield f"member {n} is refused", _with(s, n, _reading(m)), None
            return
        k = m.plan if m.plan >= 0 else len(s.plans)
        committed, marks = list(s.committed), list(s.marks)
        for tp, start in zip(m.mine, m.read, strict=True):
            committed[tp] = s.end if m.plan < 0 else next(high for other, _, high in s.plans[k].spans if other == tp)
            marks[tp] = (k, start)
        after = _with(s, n, m._replace(at="finish" if m.plan >= 0 else "write"))._replace(
            committed=tuple(committed), marks=tuple(marks)
        )
        if m.plan >= 0:
            after = _plan(after, k, released=True)
        yield f"member {n} commits {committed} of plan {k}", after, None

    # An operator.

    def _operator(self, s: State, o: Operator) -> Iterator[Step]:
        me, plan = f"op{s.operators}", s.plans[o.plan]
        if o.at == "take":
            yield (
                f"{o.verb} takes plan {o.plan}",
                _plan(s, o.plan, holder=me)._replace(operator=o._replace(at="decide")),
                None,
            )
            return
        over = s._replace(operator=None)
        if plan.holder != me or plan.state not in OPEN:
            yield f"{o.verb} has nothing to do", over, None
            return
        if o.at == "release":  # as the Empty group's only member; a member that joins expels it
            if any(one.valid for one in s.members) or any(s.committed[tp] != start for tp, start, _ in plan.spans):
                yield "resume is refused", over, None
                return
            yield "resume releases", _moved(_plan(over, o.plan, released=True), o.plan, to_end=True), None
            return
        if o.at == "close":
            yield f"{o.verb} closes", _plan(over, o.plan, state="cancelled"), None
            return
        yield from self._decided(s, o, over)

    def _decided(self, s: State, o: Operator, over: State) -> Iterator[Step]:
        plan, live = s.plans[o.plan], any(one.valid for one in s.members)
        at_start = all(s.committed[tp] == start for tp, start, _ in plan.spans)
        doubtful = any(s.committed[tp] == start for tp, start, _ in plan.spans)
        if plan.state == "releasing" and not plan.released:
            if live and doubtful and "in-doubt" not in self.without:
                yield f"{o.verb} is refused: a member may be about to commit", over, None
            elif o.verb == "resume" and at_start and not live:
                yield "resume finds nothing released", s._replace(operator=o._replace(at="release")), None
            else:
                yield f"{o.verb} finds nothing released", s._replace(operator=o._replace(at="close")), None
        elif o.verb == "resume" and plan.state == "releasing":
            yield "resume finds it released", _plan(over, o.plan, state="released"), None
        elif o.verb == "resume":
            yield from _delivers(over, o.plan)
        elif not live and all(s.committed[tp] == high for tp, _, high in plan.spans):
            after = _plan(over, o.plan, state="cancelled", released=False)
            yield "cancel moves it back", _moved(after, o.plan, to_end=False), None
        else:
            yield "cancel is refused", over, None


_CALLBACK = frozenset(
    {
        *("read", "list", "decide", "take", "prove", "judge", "close"),
        *("record", "write", "check", "give-up", "commit"),
    }
)


def lost(s: State) -> str | None:
    """A record that the group has passed over, and that neither a member, a replay nor an open plan has."""
    for tp, committed in enumerate(s.committed):
        there = s.handled[tp] | s.delivered[tp]
        for plan in s.plans:
            if plan.state in OPEN:
                for _, low, high in (span for span in plan.spans if span[0] == tp):
                    there |= _bits(low, high)
        if missing := _bits(0, committed) & ~there:
            return f"lost: of partition {tp}, records {missing:b}"
    return None


def _delivers(s: State, k: int) -> Iterator[Step]:
    delivered, wrong = list(s.delivered), None
    for tp, low, high in s.plans[k].spans:
        if again := _bits(low, high) & (s.handled[tp] & ~s.stated[tp] | s.delivered[tp]):
            wrong = f"twice: of partition {tp}, records {again:b} by a replay"
        delivered[tp] |= _bits(low, high)
    yield "resume delivers", _plan(s, k, state="done")._replace(delivered=tuple(delivered)), wrong


def _processed(s: State, tp: int, *, commits: bool) -> tuple[State, str | None]:
    """The next record of a partition is processed, and committed by its owner or not."""
    bit = 1 << s.committed[tp]
    again = bit & (s.handled[tp] | s.delivered[tp]) & ~s.stated[tp]
    wrong = f"twice: of partition {tp}, record {s.committed[tp]} by a member" if again else None
    after = s._replace(handled=_at(s.handled, tp, s.handled[tp] | bit))
    if not commits:
        return after._replace(stated=_at(s.stated, tp, s.stated[tp] | bit)), wrong
    return after._replace(committed=_at(s.committed, tp, s.committed[tp] + 1), marks=_at(s.marks, tp, None)), wrong


def _moved(s: State, k: int, *, to_end: bool) -> State:
    committed, marks = list(s.committed), list(s.marks)
    for tp, low, high in s.plans[k].spans:
        committed[tp] = high if to_end else low
        marks[tp] = (k, low) if to_end else None
    return s._replace(committed=tuple(committed), marks=tuple(marks))


def _reads(s: State, number: int) -> list[int]:
    """The partitions of which the member may process a record now."""
    member = s.members[number]
    if not member.valid or member.at not in ("reads", "finish"):
        return []
    return [tp for tp, whose in enumerate(s.owner) if whose == number and s.committed[tp] < s.end]


def _reading(m: Member) -> Member:
    """After its callback; an expelled one joins again."""
    return Member("reads" if m.valid else "joins", m.valid)


def _with(s: State, number: int, member: Member) -> State:
    return s._replace(members=_at(s.members, number, member))


def _plan(s: State, number: int, **changes: Any) -> State:
    return s._replace(plans=_at(s.plans, number, s.plans[number]._replace(**changes)))


def _at(values: tuple[T, ...], number: int, value: T) -> tuple[T, ...]:
    return (*values[:number], value, *values[number + 1 :])


def _bits(low: int, high: int) -> int:
    return (1 << high) - (1 << low) if high > low else 0


def _trace(came: dict[State, tuple[State, str] | None], state: State) -> list[str]:
    labels: list[str] = []
    while (before := came[state]) is not None:
        state, label = before
        labels.append(label)
    return labels[::-1]
