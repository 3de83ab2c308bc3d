"""Nothing that comes later changes what was said of a step."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kgroup.model.group_log import Event
from tests.helpers.cases.any_events import EVENT, logged


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
