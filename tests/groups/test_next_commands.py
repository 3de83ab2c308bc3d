"""Commands that follow from a finding: none of them changes anything as it stands."""

from __future__ import annotations

import pytest

from kgroup.groups import next_commands
from kgroup.groups.next_commands import skip_record, undo_move
from kgroup.groups.stuck_record import StuckRecord
from kgroup.support.hint import Hint


@pytest.mark.parametrize(
    ("hint", "command"),
    [
        (next_commands.group_history("svc"), "kgroup history svc"),
        (next_commands.peek_group("svc"), "kgroup peek svc"),
        (
            next_commands.delete_offsets("svc", ["orders", "pay"]),
            "kgroup delete-offsets svc --topic orders --topic pay",
        ),
        (next_commands.catch_up("svc"), "kgroup catchup start svc"),
        (next_commands.add_member("svc"), "kgroup simulate svc --add 1"),
        (undo_move("svc", 1_767_225_600_250), "kgroup undo svc --as-of 2026-01-01T00:00:00.249Z"),
    ],
)
def test_a_command(hint: Hint, command: str) -> None:
    assert str(hint) == command
    assert "--execute" not in command


def test_a_record_is_skipped_only_where_it_is_known_which_one_it_is() -> None:
    known = StuckRecord("orders", 7, 41, before=False, later=False)
    (hint,) = skip_record("svc", known)
    assert str(hint) == "kgroup reset svc --to-offset orders:7=42 --save-skipped orders-7-41.jsonl"
    for unsure in (
        None,
        StuckRecord("orders", 7, 41, before=True, later=False),
        StuckRecord("orders", 7, 41, False, True),
    ):
        assert list(skip_record("svc", unsure)) == []


def test_no_undo_of_a_time_outside_the_calendar() -> None:
    assert undo_move("svc", 10**18) is None
