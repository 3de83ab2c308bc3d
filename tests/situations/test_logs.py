"""What the logs of members are folded to: pure, no broker."""

from pathlib import Path

import pytest

from tests.situations.programs.logs import fold, read_logs

T0, T1 = ("x.t", 0), ("x.t", 1)

OWNERS = [
    (("1 A x.t:0 x.t:1",), {T0: {"app-0"}, T1: {"app-0"}}),
    (("1 A ",), {}),  # a spare member
    (("1 A x.t:0", "2 A x.t:1"), {T0: {"app-0"}, T1: {"app-0"}}),  # step by step
    (("1 A x.t:0 x.t:1", "2 R x.t:0"), {T1: {"app-0"}}),
    (("1 A x.t:0", "2 R x.t:0", "3 A x.t:1"), {T1: {"app-0"}}),
    (("1 A x.t:0", "2 X closed"), {}),
    (("1 A x.t:0", "2 S 17"), {}),  # it was killed, and lives again without anything yet
    (("1 A x.t:0", "2 S 17", "3 A x.t:1"), {T1: {"app-0"}}),
]


@pytest.mark.parametrize(("lines", "owners"), OWNERS, ids=[" ".join(lines) for lines, _ in OWNERS])
def test_a_member_owns_what_it_was_given_and_did_not_give_back(
    lines: tuple[str, ...], owners: dict[tuple[str, int], set[str]]
) -> None:
    assert fold({"app-0": lines}, {"app-0"}).owners == owners
    assert fold({"app-0": lines}, set()).owners == {}, "the log of one that was killed does not say so"


def test_two_owners_are_two_as_long_as_both_live() -> None:
    """As a zombie and its successor believe."""
    logs = {"za-0": ["1 A x.t:0"], "zb-0": ["2 A x.t:0"]}
    assert fold(logs, {"za-0", "zb-0"}).owners == {T0: {"za-0", "zb-0"}}
    assert fold(logs, {"zb-0"}).owners == {T0: {"zb-0"}}


def test_records_are_processed_fail_and_are_processed_again_by_others() -> None:
    logs = {
        "app-0": ["10 S 1", "11 A x.t:0", "12 P x.t:0 6", "13 P x.t:0 7", "14 F x.t:0 8", "20 F x.t:0 8"],
        "app-1": ["30 P x.t:0 7", "31 P x.t:1 0", "32 E no longer a member"],
    }
    truth = fold(logs, set(logs))
    assert truth.processed == {T0: {6: [12], 7: [13, 30]}, T1: {0: [31]}}
    assert truth.failed == {T0: {8: [14, 20]}}
    assert truth.repeated(T0) == {7: 1}
    assert truth.repeated(("x.t", 9)) == {}
    assert truth.unprocessed(T0, range(6, 10)) == [8, 9]
    assert truth.unprocessed(("x.t", 9), (1,)) == [1]
    assert truth.processed_since(13) == {T0: 2, T1: 1}
    assert truth.processed_since(31) == {T1: 1}
    assert truth.was_tried(T0, 8)
    assert truth.was_tried(T0, 8, since_ms=20)
    assert not truth.was_tried(T0, 8, since_ms=21)
    assert not truth.was_tried(T0, 7)
    assert truth.busy_ms == {"app-0": 20, "app-1": 31}


def test_commits_of_all_members_are_in_order_of_time() -> None:
    truth = fold({"app-0": ["5 C x.t:0=8 x.t:1=3", "9 C x.t:0=7"], "app-1": ["7 C x.t:0=9"]}, set())
    assert truth.committed == {T0: [(5, 8), (7, 9), (9, 7)], T1: [(5, 3)]}


def test_a_line_that_no_spec_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="app-0 wrote what no Spec knows: '1 Q x'"):
        fold({"app-0": ["1 Q x"]}, ())


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "app-0.log").write_text("1 A x.t:0\n2 P x.t:0 1")
    assert read_logs(tmp_path, ["app-0", "never-0"]) == {"app-0": ["1 A x.t:0"], "never-0": []}
