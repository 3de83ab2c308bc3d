"""The page of a history: title, verdict lines, the picture in 80 columns, offsets over time, the reach of the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from kgroup.groups.history.follow import FollowCursor
from kgroup.groups.history.offset_jumps import CommitAuthor
from kgroup.groups.history.summary import GroupHistory
from kgroup.model.group_log import GenerationMember
from kgroup.output.pages.history import (
    event_lines,
    headline,
    log_lines,
    next_line,
    outcome,
    records,
    step_line,
    total_line,
)
from kgroup.output.pages.history_commits import jump_line, undo_lines
from kgroup.support.cluster_ref import ClusterRef
from tests.groups.history.test_crash_loops import begun, beside
from tests.groups.history.test_signatures import rolling, start
from tests.groups.timeline.test_consumer import grown
from tests.groups.timeline.test_share_and_streams import ALL, running, shared
from tests.helpers import pages
from tests.helpers.cases.history import T0, Log, member, of, tasks

CLUSTER = ClusterRef("id", "b1:9092", "prod")


def drawn(history: GroupHistory, **how: Any) -> list[str]:
    return pages.drawn(outcome([history], CLUSTER, **how))


def undo_commands(history: GroupHistory) -> list[str | None]:
    commits = history.document().commits
    return [] if commits is None else [jump.command for jump in commits.jumps]


def picture_of(lines: Sequence[str], heading: str = "GENERATION") -> dict[str, list[str]]:
    """The rows of the picture by their label."""
    first = next(n for n, line in enumerate(lines) if line.startswith(heading))
    found = {}
    for line in lines[first:]:
        if line.startswith("4 = "):
            break
        label, *cells = line.split("  ", 1)
        found[label.strip()] = cells[0].split() if cells else []
    return found


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ({"until": 1800}, "8 rebalances in 30m"),
        ({"until": 3600}, "8 rebalances in 1h"),
        ({"until": 7200}, "8 rebalances in 2h, 4 an hour"),
        ({"until": 72_000}, "8 rebalances in 20h, less than one an hour"),
        # The log is younger than the span: three minutes are no hour.
        ({"since": -3420, "until": 180, "reach": {"to_log_start": True, "start": 0, "oldest_ms": T0}},
         "9 rebalances in 1h (the log has 3m of it)"),
        ({"since": -72_000, "until": 7200, "reach": {"oldest_ms": T0 - 1}}, "9 rebalances known in 22h"),
    ],
)  # fmt: skip
def test_a_rate_an_hour_is_that_of_more_than_an_hour(span: dict[str, Any], said: str) -> None:
    assert re.split(r", (?=[\dms]+ without|longest)", total_line(rolling(start(), 0).history(**span)))[0] == said


def test_a_rollout_on_a_page() -> None:
    lines = drawn(rolling(start(), 0).history(now=200))

    assert lines[0].startswith("g  over: last rebalance 2m10s ago")
    assert "CAUSE    8  rollout 03:00-03:01Z: 4 of 4 members replaced once, in 8 rebalances" in lines
    assert not any("gone" in line for line in lines if line.startswith("CAUSE"))
    assert max(map(len, lines)) <= 80
    assert picture_of(lines) == {
        "GENERATION": ["10", "11", "12", "13", "14", "15", "16", "17"],
        "AT 03h (Z)": ["00:00", "00:10", "00:20", "00:30", "00:40", "00:50", "01:00", "01:10"],
        "WHY": ["gone+", "join", "gone", "join", "gone", "join", "gone", "join"],
        "pod-0": [".", "1", "1", "1", "1", "1", "1", "1"],
        "pod-1": ["1", "1", ".", "1", "1", "1", "1", "1"],
        "pod-2": ["1", "1", "1", "1", ".", "1", "1", "1"],
        "pod-3": ["1", "1", "1", "1", "1", "1", ".", "1"],
    }


def test_one_member_that_dies_again_and_again_is_one_line() -> None:
    alone = member("a/1", 0, 1, 2, 3)
    log = Log().at(-60).generation(9, alone).commits((0, 1, 2, 3), -50, -1)
    for n in range(3):
        log.at(n * 20).generation(10 + 2 * n, member("a/1", 0, 1), member(f"b/{n}", 2, 3)).commits(
            (0, 1), n * 20 + 1, n * 20 + 9
        )
        log.at(n * 20 + 10.4).generation(11 + 2 * n, alone).commits((0, 1, 2, 3), n * 20 + 11, n * 20 + 19)

    causes = [line for line in drawn(log.history()) if "never-synced" in line]

    assert len(causes) == 1
    assert causes[0].startswith("CAUSE    3  never-synced ")


def test_a_crash_loop_comes_before_settings_that_differ() -> None:
    history = beside(begun(), 6).history(until=200)
    page = drawn(history.confirmed(history.suspects))

    assert page[1].startswith("-> crash loop at orders:1 offset 10: 6 members came and went in 1m40s, the last")
    assert page[2] == "   kgroup peek g"
    assert "  6  crash-loop " in "\n".join(page)
    assert "-> crash loop" not in "\n".join(drawn(history))


@pytest.mark.parametrize("times", [1, 2])
def test_a_close_after_a_silence_looks_like_a_session_that_ended(times: int) -> None:
    """Once; twice the same by the same name is no chance."""
    log = Log()
    for at in range(times):
        began = at * 100
        number = 5 + 2 * at
        log.at(began).generation(number, member("a/1", 0, 1), member(f"b/{at}", 2, 3))
        log.commits((0, 1, 2, 3), began + 1, began + 30).commits((0, 1), began + 31, began + 41)
        log.at(began + 41).generation(number + 1, member("a/1", 0, 1, 2, 3))

    page = "\n".join(drawn(log.history()))

    words = "inferred, or a close after that silence): b" if times == 1 else "inferred): b (2)"
    assert f"{times}  session-expired ({words}" in page


def test_members_with_which_kgroup_held_the_group() -> None:
    runner = member("kgroup-catchup/1", instance_id="kgroup-catchup")
    log = start().at(60).generation(6).at(70).generation(7, runner).at(80).generation(8)

    causes = [line for line in drawn(log.history()) if "kgroup-catchup" in line and not line.startswith(" " * 10)]

    assert any("join: kgroup-catchup (kgroup)" in line for line in causes)


def test_nothing_happened() -> None:
    lines = drawn(start().history())

    assert lines[0].startswith("g  no rebalance since 2026-11-21 03:00Z")
    assert "TOTAL  0 rebalances in 1h" in lines
    assert "CAUSE  nothing happened" in lines
    assert not any(line.startswith("JUMPS") for line in lines)
    assert not any(line.startswith(("GENERATION", "MOVED")) for line in lines)


def test_nothing_is_known() -> None:
    lines = drawn(Log().history(reach={"oldest_ms": None, "whole_from": None, "stopped": "no READ on the topic"}))

    assert lines[0].startswith("g  no known rebalance since 2026-11-21 03:00Z")
    assert "TOTAL  0 rebalances known in 1h" in lines
    assert "CAUSE  unknown: the log shows none" in lines
    assert "no READ on the topic" in lines[-1]


def storm(count: int, members: int, name: str = "orders-enrich-%d") -> Log:
    """The last member comes and goes, with many others; each time all partitions are dealt out anew."""
    log = Log()
    for turn in range(count):
        there = members - turn % 2
        numbers = [[p for p in range(48) if p % there == n] for n in range(there)]
        log.at(13 * turn).generation(
            900 + turn, *(member(f"{name % n}/1", *numbers[n], host=f"h{n}") for n in range(there))
        )
    return log


@pytest.mark.parametrize("name", ["a-%d", "orders-enrich-%d", "consumer-a-very-long-group-name-indeed-%d"])
@pytest.mark.parametrize(("count", "members"), [(1, 1), (7, 3), (60, 40)])
def test_any_picture_fits_on_a_page(name: str, count: int, members: int) -> None:
    lines = drawn(storm(count, members, name).history())

    rows = [line for line in lines if line.startswith(("GENERATION", "AT", "WHY", "QUIET", name[:2]))]
    assert max(map(len, rows)) <= 80
    assert len(rows) <= 16


def test_lanes_and_columns_that_are_left_out_are_counted() -> None:
    lines = drawn(storm(60, 40).history())

    columns = len(picture_of(lines)["GENERATION"])
    assert f"28 more members, present throughout: --verbose; {60 - columns} earlier: --limit 0" in lines


def test_all_of_it() -> None:
    lines = drawn(storm(60, 40).history(), verbose=True, limit=0)

    found = picture_of(lines)
    assert len(found["GENERATION"]) == 60
    assert list(found)[3:7] == ["orders-enrich-39", "orders-enrich-0", "orders-enrich-1", "orders-enrich-2"]
    assert not any("more members" in line for line in lines)


def test_epochs() -> None:
    log = grown().at(50).member("c/1").epoch(3).target(3).at(51).left("c/1").epoch(4).target(4)
    lines = drawn(log.history(until=120))

    found = picture_of(lines, "EPOCH")
    assert found["TOOK"] == ["0s", "5s", "-", "-"]
    assert found["NOT DONE"] == ["!"]
    assert found["a"] == ["4", "2*", "2", "2"]


def test_a_static_member_that_came_back() -> None:
    def static(life: int) -> GenerationMember:
        return member(f"s/{life}", 0, 1, instance_id="pod-0")

    log = Log().at(-5).generation(5, static(1)).at(20).generation(5, static(2))
    lines = drawn(log.history())

    assert picture_of(lines)["GENERATION"] == ["5'"]
    assert picture_of(lines)["pod-0"] == ["2="]
    assert "RETURNED  1 times a static member returned to the same partitions" in lines


def test_members_that_differ_from_the_others_are_named() -> None:
    def there(*numbers: int) -> tuple[GenerationMember, ...]:
        return tuple(member(f"p-{n}/1", n, rebalance_timeout_ms=30_000 if n == 3 else 300_000) for n in numbers)

    log = Log().at(-60).generation(9, *there(0, 1, 2, 3))
    log.at(5).generation(10, *there(0, 1, 2)).at(9).generation(11, *there(0, 1, 2, 3))

    assert (
        next_line(log.history())
        == "p-3 (30s) and the others (5m) differ in max.poll.interval: a rollout may be incomplete"
    )


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        ({}, "no record of the span is missing"),
        ({"whole_from": None}, "compaction may have deleted"),
        (
            {"oldest_ms": 1_795_231_000_000, "to_log_start": True, "whole_from": None},
            "only, not to the beginning of the span: nothing older",
        ),
        ({"oldest_ms": 1_795_231_000_000, "to_log_start": True, "whole_from": 0}, "no record of the span is missing"),
        ({"oldest_ms": 1_795_231_000_000, "stopped": "out of time"}, "out of time"),
        ({"open_since_ms": 1_795_231_000_000}, "A transaction of this group is open since 03:16:40Z"),
    ],
)
def test_how_far_back(reach: dict[str, Any], words: str) -> None:
    assert words in " ".join(log_lines(start().history(reach=reach)))


def test_a_rebalance_that_is_under_way_is_in_no_record() -> None:
    log = start()

    assert headline(log.history(now=60, state="PreparingRebalance")).startswith(
        "NOT OVER: a rebalance is under way (PreparingRebalance)"
    )
    assert log.history(state="PreparingRebalance").over is False
    assert log.history(state="Stable").document().state == "Stable"


def test_why_it_was_not_read_further_and_what_helps() -> None:
    reach = {"oldest_ms": T0 - 60_000, "stopped": "the 10 s limit was reached", "start": 50, "whole_from": 50}

    said = " ".join(log_lines(Log().commit(0, 1).history(reach=reach)))

    assert "What the group was before the span is not known: the 10 s limit was reached (--scan-time)." in said


def test_offsets_over_time() -> None:
    log = Log().at(-60).generation(5, member("a/1", 0, 1), member("b/1", 2, 3))
    log.commits((0, 1, 2, 3), 0, 300, every=10, pace=100).at(400).generation(6).at(432)
    for number in range(4):
        log.commit(number, 3_100 if number else 2_900)

    short = drawn(log.history(now=612))
    assert "JUMPS  1 of committed offsets, 3m ago: +200 reset of 4 partitions by no member" in short
    assert short[short.index("-> kgroup history g --commits") - 1].startswith("JUMPS")
    history = log.history(commits=True, until=600)
    assert history.document().jump_count == 1
    lines = drawn(history)
    assert not any(line.startswith(("JUMPS", "->")) for line in lines)

    cells = [re.split(r" {2,}", line.strip()) for line in lines]
    table = cells[cells.index(["AT", "AUTHOR", "PARTITION", "OLD", "NEW", "JUMP", "NEAR"]) + 1 :][:4]
    assert table[0] == ["03:07:12Z", "no member", "orders:0", "3000", "2900", "+200 reset", "Empty since 03:06:40Z"]
    assert table[1:] == [[f"orders:{number}", "3000", "3100"] for number in (1, 2, 3)]
    command = "kgroup undo g --as-of 2026-11-21T03:07:11.999Z"
    assert f"  03:07:12Z  {command}" in lines
    assert undo_commands(history) == [command]
    assert list(undo_lines(history, frozenset())) == [
        "  2026-11-21T03:07:12Z  no member: +200 reset of 4 partitions, Empty since 03:06:40Z",
        f"    {command}",
    ]
    assert max(map(len, lines)) <= 80
    header, rows = records([history]).header, list(records([history]).rows)
    assert dict(zip(header, rows[0], strict=True)) == {
        "group": "g",
        "recorded_at": "2026-11-21T03:07:12.000Z",
        "move": "reset",
        "author": "no-member",
        "author_name": None,
        "topic": "orders",
        "partition": 0,
        "old_offset": 3_000,
        "new_offset": 2_900,
        "step_number": 6,
        "rebalance_distance_ms": None,
    }
    assert len(rows) == 4


def test_some_of_the_partitions_of_a_jump_are_shown_and_all_with_verbose() -> None:
    log = Log().generation(5, member("a/1", *range(7))).commits(range(7), 0, 50, every=10).at(60).generation(6).at(92)
    for number in range(7):
        log.commit(number, None if number == 6 else 3)
    history = log.history(commits=True, until=600)

    def places(**how: Any) -> list[str]:
        shown = re.findall(r"orders:\d +\S+ +\S+|\d more|.*: --verbose", "\n".join(drawn(history, **how)))
        return [" ".join(place.split()) for place in shown]

    first, deleted = [f"orders:{number} 500 3" for number in range(5)], "orders:6 500 -"
    assert places() == [*first, "1 more", deleted, "all partitions: --verbose"]
    assert places(verbose=True) == [*first, "orders:5 500 3", deleted]


def test_of_several_members_the_owners_are_named_as_such() -> None:
    log = Log().generation(5, member("a/1", 0), member("b/1", 1)).commits((0, 1), 0, 50, every=10, pace=1000)
    log.at(60).commit(0, 3).commit(1, 3)

    table = "\n".join(drawn(log.history(commits=True, until=600)))

    assert re.findall(r"  (any member.*?)  +(\S+) +5000 +3", table) == [
        ("any member (owner then: a)", "orders:0"),
        ("any member (owner then: b)", "orders:1"),
    ]
    assert table.count("kgroup undo") == 1


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        (
            (10, 5_000, 10, 5_010, 10, 5_020, 10),
            "orders:0: two writers since 03:00:20Z, one at 10, one at 5000 to 5020, 3 falls.",
        ),
        ((1000, 1001) * 4, "orders:0: one client tries again since 03:00:20Z, from 1000 to 1001, 3 falls."),
        (
            (10, 5_000) * 4,
            "orders:0: two writers, or one that tries again, since 03:00:20Z, at 10 and 5000, 3 falls.",
        ),
    ],
)
def test_offsets_that_go_back_and_forth(offsets: tuple[int, ...], text: str) -> None:
    log = Log().generation(5, member("a/1", 0), member("b/1", 1))
    for second, offset in enumerate(offsets):
        log.at(10 * second).commit(0, offset)
    history = log.history(commits=True, until=600)

    lines = drawn(history)

    assert text in " ".join(lines)
    assert "back and forth" in "\n".join(lines)
    assert not any("undo" in line for line in lines)
    assert undo_commands(history) == [None]
    (jump,) = history.jumps
    assert jump_line(jump, history.span.now_ms) == f"any member (owner then: a): {text[:-1]}"


def test_a_finished_catch_up_cannot_be_cancelled() -> None:
    log = Log().at(-60).generation(5, member("a/1", 0)).commits((0,), 0, 300, every=10, pace=1000).at(400).generation(6)
    log.at(432).commit(0, 31_000, metadata="kgroup cu-7f3a 1 release")
    query: dict[str, Any] = {"commits": True, "until": 600}
    undo, cancel = "kgroup undo g --as-of 2026-11-21T03:07:11.999Z", "kgroup catchup cancel cu-7f3a"

    for closed, command in ((frozenset({"cu-7f3a"}), undo), (frozenset(), cancel)):
        history = log.history(closed=closed, **query)
        assert f"  03:07:12Z  {command}" in drawn(history)
        assert undo_commands(history)[-1] == command


def test_going_on() -> None:
    assert headline(rolling(start(), 0).history(now=79)) == "NOT OVER: last rebalance 9s ago"
    assert headline(rolling(start(), 0).history(now=79, state="Empty")) == "Empty: last rebalance 9s ago"
    loop = beside(begun(), 6).history(until=130, state="Empty")
    assert headline(loop.confirmed(loop.suspects)).startswith("NOT OVER: ")


def test_a_line_a_step_and_a_row_a_step() -> None:
    history = rolling(start(), 0).history()

    assert (
        step_line(history.steps[1]) == "generation 11: join pod-0; 4 members, 1 moved (0 although their owner stayed)"
    )
    rows = list(records([history]).rows)
    assert len(rows) == 8
    assert rows[1][:6] == ("g", "classic", 11, "rebalance", "2026-11-21T03:00:10.000Z", "join pod-0")


def test_a_share_group() -> None:
    log = shared().at(40).states(of(0), of(0, 1)).at(41).states(of(), of(0, 1)).at(50).states(of(), of(1), "orders")
    lines = drawn(log.history(now=60))

    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("CHANGED")] == [
        "03:00:00Z  offsets-initialized: orders (2 partitions), in 2s",
        "03:00:40Z  offsets-set: orders (1 partition), in 1s",
        "03:00:50Z  offsets-deleted: orders (1 partition), not finished",
    ]
    assert picture_of(lines, "EPOCH")["TOOK"] == ["0s", "0s", "5s"]
    assert not any(line.startswith("MOVED") for line in lines)
    assert "A share group commits no offsets;" in "".join(drawn(log.history(now=60, commits=True)))


def test_the_newest_changes_and_how_many_before_them() -> None:
    log = shared()
    for at in range(20, 80, 10):
        log.at(at).states(of(0), of(0, 1)).at(at + 1).states(of(), of(0, 1))

    lines = [line for line in drawn(log.history(now=90)) if line.startswith("CHANGED")]

    assert len(lines) == 6
    assert lines[0].endswith("2 changes before these: -o json")


def test_a_streams_group() -> None:
    log = running().at(20).left("a/1").streams_epoch(5, 8, 1).at(22).task_target(5, **{"b/1": (ALL, tasks())})
    lines = drawn(log.runs("b/1", 5, ALL).history(now=60))

    moved = "4 tasks, 2 of them although their owner stayed, 1 to a member that had their state (standby or warm-up)"
    assert any(line.startswith(f"MOVED  {moved}") for line in lines)
    rows = picture_of(lines, "EPOCH")
    assert (rows["a"], rows["b"]) == (["0", "4*", "2+1*", "."], [".", ".", "2+1", "4*"])
    assert any(line.startswith("4 = active tasks; 4+1 = and a standby or warm-up task") for line in lines)


def test_a_streams_group_has_no_undo() -> None:
    log = running().commits((0, 1), 15, 20).at(30).left("a/1").left("b/1").streams_epoch(5, 8, 1).at(40).commit(0, 5)

    (jump,) = log.history(now=60, commits=True, state="Empty").jumps

    assert jump.by is CommitAuthor.NO_MEMBER
    assert undo_commands(log.history(now=60, commits=True, state="Empty")) == [None]


def test_threads_of_kafka_streams_have_short_names() -> None:
    id_ = "orders-enrichment-9135c698-8cbb-4e6d-8972-3907d3d23597-StreamThread-1-consumer"
    log = Log().member("a/1", client_id=id_).streams_epoch(2).member("b/1", client_id=id_.replace("9135", "b192"))

    lines = drawn(log.streams_epoch(3).history(now=60))

    assert picture_of(lines, "EPOCH").keys() >= {"orders..9135c698-1", "orders..b192c698-1"}
    assert any(line.endswith("join: orders-enrichment-9135c698-1, orders-enrichment-b192c698-1") for line in lines)


@pytest.mark.parametrize(("now", "since", "before"), [(60, 0, ", last rebalance 50s ago"), (3600, 600, "")])
def test_a_streams_group_whose_topics_are_missing(now: int, since: int, before: str) -> None:
    history = running().history(now=now, since=since, state="NotReady")

    assert headline(history) == (
        f"NotReady: topics of the topology are missing, or have other numbers of partitions{before}"
    )


def test_changes_are_followed() -> None:
    log = shared()
    cursor = FollowCursor(log.history(now=60))
    delta = cursor.news(log.at(61).states(of(0), of(0, 1)).at(62).states(of(), of(0, 1)).history(now=63))

    assert delta is not None
    assert list(event_lines(delta)) == ["03:01:01Z  g  offsets-set: orders (1 partition), in 1s"]
    assert cursor.news(log.history(now=64)) is None
