"""What is kept of a ledger that was read: the plans that are wanted, and of the others only what chooses them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest
from msgspec.structs import replace

from kgroup.catchup.ledger.records import Value, encode, key_of
from kgroup.catchup.ledger.view import LedgerView, Wanted, affecting, nothing_wanted, refuse_overlap
from kgroup.cluster.reader.to_end import Item
from kgroup.groups.catchup.model import CatchupPlan, PlanHead, PlanState, PlanTotals, RangeVerification
from kgroup.groups.catchup.verification import totals_of
from kgroup.support.errors import KgroupError
from tests.helpers.catchup.ledgers import code_of, new_plan, progress, state
from tests.helpers.catchup.plans import head_of

CHUNKS = 5
PLANNED, RELEASED, DONE, CANCELLED = PlanState.PLANNED, PlanState.RELEASED, PlanState.DONE, PlanState.CANCELLED


def everything(head: PlanHead) -> bool:
    return True


def log(*of: tuple[CatchupPlan, Value]) -> Iterator[Item]:
    """The records of a ledger, in this order."""
    for offset, (plan, value) in enumerate(of):
        yield offset, key_of(plan.id, value).encode(), encode(value)


def life(plan: CatchupPlan, last: PlanState) -> list[tuple[CatchupPlan, Value]]:
    """The records of a plan: planned, delivered, and in the end in this state."""
    begun: list[Value] = [plan, state(PLANNED), state(RELEASED)]
    delivered: list[Value] = [progress(number, 80 + number * 10) for number in range(CHUNKS)]
    return [(plan, value) for value in (*begun, *delivered, state(last))]


def kept(view: LedgerView, plan: CatchupPlan) -> int:
    """Of how many chunks the progress is kept."""
    return sum(b"/chunk/" in key for key in view.keys(plan.id))


@pytest.mark.parametrize("last", [DONE, CANCELLED])
def test_a_list_needs_no_chunk_of_a_plan_with_totals(last: PlanState) -> None:
    """Not even one that can be read."""
    plan = new_plan("orders", chunks=CHUNKS)
    records = [value for _, value in life(plan, last)]
    whole = LedgerView().add(log(*((plan, value) for value in records))).ledgered(plan.id)
    (before, after), totals = (records[:-1], records[-1:]), totals_of(whole)
    unreadable = [(99, key_of(plan.id, progress(0, 80)).encode(), b"{")]

    view = LedgerView().add(chain(log(*((plan, value) for value in (*before, totals, *after))), unreadable))

    assert view.brief(plan.id) == replace(whole, plan=replace(plan, chunks=()), progress={}, totals=totals)
    assert code_of(lambda: view.ledgered(plan.id)) == (None if last is DONE else "ledger-damaged")


@pytest.mark.parametrize(
    ("last", "totals"),
    [
        (DONE, None),
        (RELEASED, PlanTotals((RangeVerification("orders", 0, 70, 120, 120, 50, 0, 0, 500, 0, 5, 5, (), (), ()),))),
        (DONE, PlanTotals(())),  # of another plan: no kgroup writes it
    ],
)
def test_without_its_totals_a_plan_is_read_with_its_chunks(last: PlanState, totals: PlanTotals | None) -> None:
    plan = new_plan("orders", chunks=CHUNKS)
    more = [] if totals is None else [(plan, totals)]
    view = LedgerView().add(log(*more, *life(plan, last)))

    assert view.brief(plan.id) == view.ledgered(plan.id)


@pytest.mark.parametrize(
    ("group", "last", "wanted", "chunks"),
    [
        ("orders", RELEASED, None, CHUNKS),
        ("orders", DONE, None, CHUNKS),
        ("orders", RELEASED, everything, CHUNKS),
        ("orders", RELEASED, nothing_wanted, 0),
        ("orders", RELEASED, affecting(None), CHUNKS),
        ("orders", DONE, affecting(None), 0),
        ("orders", CANCELLED, affecting(None), 0),
        ("orders", RELEASED, affecting({"orders", "other"}), CHUNKS),
        ("orders", DONE, affecting({"orders"}), 0),
        ("orders", RELEASED, affecting({"other"}), 0),
        (None, RELEASED, affecting({"other"}), CHUNKS),
        (None, DONE, affecting({"other"}), CHUNKS),
        (None, CANCELLED, affecting({"other"}), 0),
    ],
)
def test_progress_of_a_plan_is_kept_if_it_is_wanted(
    group: str | None, last: PlanState, wanted: Wanted | None, chunks: int
) -> None:
    plan = new_plan(group, chunks=CHUNKS)

    view = LedgerView(wanted=wanted).add(log(*life(plan, last)))

    assert (kept(view, plan), view.has_progress(plan.id)) == (chunks, chunks > 0)
    assert view.head(plan.id) == head_of(plan, last, 0)
    assert (view.plan(plan.id), view.state(plan.id), view.plan_ids()) == (plan, state(last), (plan.id,))


def test_what_comes_after_the_end_of_a_plan_is_not_kept_either() -> None:
    plan = new_plan("orders", chunks=CHUNKS)
    late: list[tuple[CatchupPlan, Value]] = [(plan, progress(0, 79)), (plan, state(RELEASED)), (plan, progress(1, 89))]

    view = LedgerView(wanted=affecting(None)).add(log(*life(plan, DONE), *late))

    assert kept(view, plan) == 0


def test_the_keys_of_dropped_progress_are_kept_on_request() -> None:
    """A prune deletes them: one that is forgotten would stay in the ledger for ever."""
    plan, whole = new_plan("orders", chunks=CHUNKS), LedgerView()
    deleted = [(99, key_of(plan.id, progress(1, 90)).encode(), None)]
    view = LedgerView(wanted=nothing_wanted, keeps_keys=True)
    for each in (whole, view):
        each.add(log((plan, progress(0, 79)), *life(plan, DONE))).add(deleted)

    assert sorted(view.keys(plan.id)) == sorted(whole.keys(plan.id))
    assert (kept(view, plan), view.ledgered(plan.id).progress) == (CHUNKS - 1, {})


def test_plans_whose_records_alternate_are_told_apart() -> None:
    one, other = new_plan("one", chunks=CHUNKS), new_plan("other", chunks=CHUNKS)
    turns = [*chain.from_iterable(zip(life(one, DONE), life(other, RELEASED), strict=True))]

    view = LedgerView(wanted=affecting({"one", "other"})).add(log(*turns))

    assert (kept(view, one), kept(view, other)) == (0, CHUNKS)
    assert view.ledgered(other.id).progress == {number: progress(number, 80 + number * 10) for number in range(CHUNKS)}


def test_of_one_plan_only_its_own_records_are_kept() -> None:
    one, other = new_plan("one", chunks=CHUNKS), new_plan("one", chunks=CHUNKS)

    view = LedgerView({one.id}).add(log(*life(one, DONE), *life(other, DONE)))

    assert (kept(view, one), view.plan_ids()) == (CHUNKS, (one.id,))


def test_a_plan_whose_head_cannot_be_read_is_kept_and_named() -> None:
    plan = new_plan("orders", chunks=CHUNKS)
    broken = [(0, f"{plan.id}/plan".encode(), b'{"v":9}'), *log(*life(plan, DONE))][:1]

    view = LedgerView(wanted=nothing_wanted).add([*broken, *list(log(*life(plan, DONE)))[1:]])

    assert (kept(view, plan), view.has_progress(plan.id)) == (CHUNKS, True)
    with pytest.raises(KgroupError, match=f"{plan.id}/plan: it has version 9"):
        view.ledgered(plan.id)


@pytest.mark.parametrize(
    ("last", "group", "code"),
    [(RELEASED, "orders", "plan-overlaps"), (DONE, "orders", None), (RELEASED, "other", None)],
)
def test_an_overlap_is_found_without_progress(last: PlanState, group: str, code: str | None) -> None:
    view = LedgerView(wanted=nothing_wanted).add(log(*life(new_plan("orders"), last)))

    assert code_of(lambda: refuse_overlap(view, new_plan(group))) == code
