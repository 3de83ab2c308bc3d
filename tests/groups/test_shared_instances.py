"""An instance id that is taken over again and again; a rollout, a return and what is over are none."""

from __future__ import annotations

from dataclasses import dataclass

from kgroup.groups.shared_instances import shared_instances
from kgroup.model.group_log import GenerationWritten
from tests.helpers.cases.history import T0, Log, member
from tests.helpers.for_each import for_each


@dataclass(frozen=True)
class Taken:
    """Another process joins as pod-0 at each of these seconds; and how often it was taken over, as of 700 s."""

    name: str
    at: tuple[int, ...]
    expected: tuple[int, ...]
    away: bool = False
    """Whether the group is Empty before each of them."""
    instance: str | None = "pod-0"

    def __str__(self) -> str:
        return self.name


@for_each(
    "taken",
    [
        Taken("again and again", (600, 604, 610, 640, 690), (5,)),
        Taken("four times", (604, 610, 640, 690), ()),
        Taken("the first ones are long ago", (80, 90, 610, 640, 680, 690), ()),
        Taken("it is over", (500, 510, 520, 530, 540, 550), ()),
        Taken("it had left before", (600, 604, 610, 640, 690), (), away=True),
        Taken("no instance id", (600, 604, 610, 640, 690), (), instance=None),
    ],
)
def test_how_often_an_instance_id_was_taken_over(taken: Taken) -> None:
    log = Log().at(0).generation(1, member("pod-0/0", 0, instance_id=taken.instance), member("b", 1, instance_id="b"))
    for number, at in enumerate(taken.at, 1):
        if taken.away:
            log.at(at - 2).generation(1)
        process = member(f"pod-0/{number}", 0, instance_id=taken.instance)
        log.at(at).generation(1, process, member("b", 1, instance_id="b"))

    found = shared_instances((e for e in log.events if isinstance(e, GenerationWritten)), T0 + 700_000)

    assert tuple(shared.times for shared in found) == taken.expected
    assert {shared.instance_id for shared in found} <= {"pod-0"}
    assert all((shared.first_ms, shared.last_ms) == (T0 + 600_000, T0 + 690_000) for shared in found)
