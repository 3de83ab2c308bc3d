"""The cancellation of a plan, as planned or as executed: what is moved back, and what happens to the rest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kgroup.catchup.plan_state import VerifiedPlan
from kgroup.catchup.steps import Close, Decision, MoveBack
from kgroup.support.errors import KgroupError


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A plan and its cancellation. ``refusal`` is why it is impossible, ``executed`` whether it was done."""

    state: VerifiedPlan
    decision: Decision | None
    refusal: KgroupError | None
    executed: bool

    @property
    def moves(self) -> list[tuple[str, int, int | None, int]]:
        """(topic, partition, old offset, new offset) of each move back; old offset None: no commit."""
        moves = self.decision.moves if isinstance(self.decision, MoveBack) else ()
        return [(*move.place, None if move.stands is None else move.stands.offset, move.offset) for move in moves]

    def document(self) -> dict[str, Any]:
        """The JSON fields that are added to those of the plan."""
        twice = self.decision.twice if isinstance(self.decision, MoveBack) else ()
        given_up = self.decision.given_up if isinstance(self.decision, Close) else ()
        return {
            "moves": [
                {"topic": topic, "partition": partition, "from": before, "to": after}
                for topic, partition, before, after in self.moves
            ],
            "comes_twice": [
                {"topic": row.topic, "partition": row.partition, "start": row.start, "end": row.end, "why": row.why}
                for row in twice
            ],
            "left_to_nobody": [
                {"topic": row.topic, "partition": row.partition, "start": row.start, "end": row.end, "why": row.why}
                for row in given_up
            ],
        }
