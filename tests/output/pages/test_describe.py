"""The page of a group, from values alone: title, LAG and RANGE, the next line, the 20-row rule, labels, verbose."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import redirect_stdout

import pytest

from kgroup.groups.state_from_log import LoggedState, PastCommit
from kgroup.groups.verdict.plain import lag_line, next_line, range_line
from kgroup.model.commit import Commit
from kgroup.model.groups import Group, LogRange, Member, Partition, TopicPartitions
from kgroup.model.output_format import Format
from kgroup.model.topic_partition import TopicPartition
from kgroup.output.pages.describe import membership_line, outcome, title
from kgroup.output.pages.describe_document import described_document
from kgroup.output.pages.describe_records import DescribePart
from kgroup.output.present import present
from kgroup.output.reporter import StderrReporter
from kgroup.support.cluster_ref import ClusterRef
from tests.helpers import pages
from tests.helpers.cases.described import group, member

CLUSTER = ClusterRef("id", "b1:9092", "prod")


def partition(
    number: int,
    lag: int | None = 0,
    owner: Member | None = None,
    *,
    committed: int | None = 1000,
    log_start: int = 0,
    error: str | None = None,
    topic: str = "orders",
) -> Partition:
    """A partition whose lag is ``lag``; None: its log could not be read."""
    log = None if lag is None else LogRange(log_start, (committed or 0) + lag)
    commit = None if committed is None else Commit(committed, 4, "note")
    return Partition(TopicPartition(topic, number), commit, log, owner, error)


def drawn(
    about: Group, part: DescribePart = DescribePart.PAGE, *, verbose: bool = False, wide: bool = False
) -> list[str]:
    return pages.drawn(outcome(part, [about], CLUSTER, verbose=verbose), wide=wide)


def rows_under(lines: Sequence[str], heading: str) -> list[list[str]]:
    """The cells of the table whose first heading this is."""
    start = next(at for at, line in enumerate(lines) if line.startswith(heading))
    found = []
    for line in lines[start + 1 :]:
        if not line or "more" in line:
            break
        found.append(line.split())
    return found


# The crash of the demo: committed 70, end 120.
CRASHED = group([partition(0, 50, committed=70)], state="Empty", assignor=None)
SPREAD = group(
    [partition(7, 3_940_025), partition(0, 150_000), *(partition(n, 10) for n in (1, 2, 3))],
    [member("a", 7, 0, 1, 2, 3)],
)


@pytest.mark.parametrize(
    ("about", "text"),
    [
        (group(), "orders-enrich  Stable  classic  generation 112"),
        (group(generation=None), "orders-enrich  Stable  classic  generation -"),
        (group(state="CompletingRebalance"), "orders-enrich  CompletingRebalance  classic  generation 112"),
        (
            group(type="consumer", generation=None, group_epoch=5, assignment_epoch=5),
            "orders-enrich  Stable  consumer  epoch 5",
        ),
    ],
)
def test_title(about: Group, text: str) -> None:
    assert title(about) == text


def test_title_of_a_consumer_group_that_reconciles_has_both_epochs() -> None:
    text = title(group(type="consumer", generation=None, group_epoch=6, assignment_epoch=5, state="Assigning"))

    assert "epoch 6" in text
    assert "5" in text.partition("epoch 6")[2]


def test_title_names_another_protocol_type() -> None:
    assert "connect" in title(group(protocol_type="connect"))


@pytest.mark.parametrize(
    ("about", "text"),
    [
        (CRASHED, "50 on orders:0"),
        (group([partition(0, 0), partition(1, 0)]), "0 on 2 partitions"),
        (group([partition(0, 0)]), "0 on 1 partition"),
        (group([partition(0, 5), partition(1, None)]), "5 on orders:0; unknown on 1 other partition"),
    ],
)
def test_lag_line(about: Group, text: str) -> None:
    assert lag_line(about) == text


def test_the_largest_partition_stands_before_the_total() -> None:
    assert lag_line(SPREAD).startswith("3.94M on orders:7, 96% of 4.09M")


@pytest.mark.parametrize(
    "about",
    [
        group(),
        group([partition(0, 5, committed=None)]),
        group([partition(0, None, error="unreachable")]),
    ],
)
def test_without_evidence_the_lag_line_says_what_is_missing(about: Group) -> None:
    assert lag_line(about).startswith("unknown: ")
    assert len(lag_line(about)) > len("unknown: ")
    assert any(line.startswith("LAG") and "unknown: " in line for line in drawn(about))


BELOW = Partition(TopicPartition("orders", 3), Commit(5, None, ""), LogRange(100, 120), None, None)
ABOVE = Partition(TopicPartition("orders", 4), Commit(130, None, ""), LogRange(100, 120), None, None)


@pytest.mark.parametrize(
    ("outside", "says"),
    [
        ([BELOW], ["orders:3", "committed 5", "log start 100", "95 "]),
        ([ABOVE], ["orders:4", "committed 130", "log end 120"]),
        ([BELOW, ABOVE], ["orders:3", "1 more"]),
    ],
)
def test_range_line(outside: list[Partition], says: list[str]) -> None:
    text = range_line(outside)

    assert [word for word in says if word not in text] == []


def test_offsets_out_of_range_are_flagged_and_come_first() -> None:
    lines = drawn(group([partition(0, 5000), BELOW, ABOVE]))

    assert any(line.startswith("RANGE") for line in lines)
    table = rows_under(lines, "PARTITION")
    assert {row[0] for row in table[:2]} == {"orders:3", "orders:4"}
    assert all("below-log-start" in row or "above-log-end" in row for row in table[:2])


@pytest.mark.parametrize(
    ("about", "says"),
    [
        (group(state="PreparingRebalance", members=[member("a")]), "PreparingRebalance"),
        (group(state="Reconciling", type="consumer", members=[member("a", 0)]), "Reconciling"),
        (CRASHED, "committed offsets"),
        (
            group([partition(0, 3)], state="Empty", protocol_type=""),
            "assign()",
        ),
        (group([partition(0, 0)], [member("a", 0), member("b"), member("c")]), "2 of 3 members"),
        (group([partition(0, 0), partition(1, 0)], [member("a", 0)]), "owner"),
    ],
)
def test_next_line(about: Group, says: str) -> None:
    text = next_line(about)

    assert text is not None
    assert says in text
    assert sum(line.startswith("->") for line in drawn(about)) == 1


def test_a_static_member_that_left_for_a_moment_is_named() -> None:
    left = member("m-1", 0, instance_id="pay-4", epoch=-2, protocol="consumer")
    stay = member("m-2", 1, epoch=5, protocol="consumer")
    about = group([partition(0, 0, left), partition(1, 0, stay)], [left, stay], type="consumer", group_epoch=5)

    lines = drawn(about)

    row = next(row for row in rows_under(lines, "MEMBER") if row[0] == "pay-4")
    assert "left" in " ".join(row)
    assert "pay-4 left" in "\n".join(line for line in lines if line.startswith("->"))


@pytest.mark.parametrize(
    "about",
    [
        group([partition(0, 0, member("a", 0))], [member("a", 0)]),
        group([partition(0, 0)], state="Empty"),
        group(state="Empty"),
    ],
)
def test_nothing_stands_out_and_no_line_says_so(about: Group) -> None:
    assert next_line(about) is None
    assert not any(line.startswith("->") for line in drawn(about))


def test_plumbing_without_members_and_coordinator() -> None:
    assert membership_line(group(state="Empty", coordinator=None, assignor=None)) == "no members"


@pytest.mark.parametrize(("count", "rows", "rest"), [(1, 1, 0), (20, 20, 0), (21, 20, 1), (100, 20, 80)])
def test_the_page_has_twenty_rows_and_one_line_for_the_rest(count: int, rows: int, rest: int) -> None:
    # Lag grows with the number, so the worst are the last.
    lines = drawn(group([partition(n, 100 + n) for n in range(count)]))

    found = rows_under(lines, "PARTITION")
    assert len(found) == rows
    assert [row[0] for row in found] == [f"orders:{n}" for n in range(count - 1, count - 1 - rows, -1)]
    folded = [line for line in lines if "more" in line]
    if rest:
        (line,) = folded
        assert line.startswith(f"{rest} more")
        assert "--offsets" in line
        assert f"lag 100 to {100 + rest - 1}" in line or (rest == 1 and "lag 100" in line)
    else:
        assert folded == []


@pytest.mark.parametrize(
    ("part", "verbose"), [(DescribePart.OFFSETS, False), (DescribePart.PAGE, True), (DescribePart.OFFSETS, True)]
)
def test_offsets_and_verbose_show_every_partition_in_its_order(part: DescribePart, verbose: bool) -> None:
    lines = drawn(group([partition(n, 100 + n) for n in range(100)]), part, verbose=verbose)

    assert [row[0] for row in rows_under(lines, "PARTITION")] == [f"orders:{n}" for n in range(100)]
    assert not any("more" in line for line in lines)


def test_the_page_has_twenty_members_and_one_line_for_the_rest() -> None:
    members = [member(f"m-{n}", n) for n in range(30)]
    about = group([partition(n, 1, owner) for n, owner in enumerate(members)], members)

    lines = drawn(about)

    assert len(rows_under(lines, "MEMBER")) == 20
    assert any(line.startswith("10 more") and "--members" in line for line in lines)
    assert len(rows_under(drawn(about, DescribePart.MEMBERS), "MEMBER")) == 30


def test_rows_that_could_not_be_read_are_not_folded_away() -> None:
    rows = [partition(n, 100) for n in range(30)]
    rows[29] = partition(29, None, error="unreachable")

    shown = rows_under(drawn(group(rows)), "PARTITION")

    assert shown[0][0] == "orders:29"
    assert "unreachable" in shown[0]


def test_idle_members_are_in_the_table_with_no_partitions() -> None:
    members = [member("busy", 0), member("idle")]
    lines = drawn(group([partition(0, 9, members[0])], members))

    heading = next(line for line in lines if line.startswith("MEMBER")).split()
    cells = {row[0]: row for row in rows_under(lines, "MEMBER")}
    assert cells["idle"][heading.index("PARTITIONS")] == "0"
    assert cells["busy"][heading.index("LAG")] == "9"
    assert "1 idle" in lines[-1]


def test_members_that_do_not_tell_are_not_called_idle() -> None:
    silent = [member("a", assignment=None), member("b", assignment=None)]

    assert "none idle" not in membership_line(group(members=silent, state="PreparingRebalance"))


def test_a_group_under_upgrade_names_each_members_protocol() -> None:
    old, new = member("old", 0), member("new", 1, protocol="consumer", epoch=7)
    about = group([partition(0, 0, old), partition(1, 0, new)], [old, new], type="consumer", group_epoch=7)

    cells = {row[0]: row for row in rows_under(drawn(about), "MEMBER")}

    assert "classic" in cells["old"]
    assert "consumer" in cells["new"]


def test_verbose_adds_assignments_leader_epochs_and_metadata() -> None:
    owner = member("a", 0, 1)
    about = group([partition(0, 0, owner), partition(1, 0, owner)], [owner])

    text = "\n".join(drawn(about, verbose=True))

    assert "orders:0,1" in text
    assert "note" in text
    assert rows_under(drawn(about, verbose=True), "PARTITION")[0][2] == "4"
    assert "orders:0,1" not in "\n".join(drawn(about))


def test_verbose_shows_a_target_that_differs() -> None:
    moving = member("a", 0, target_assignment=(TopicPartitions("orders", (0, 1)),), epoch=4)
    about = group([partition(0, 0, moving)], [moving], type="consumer", state="Reconciling", group_epoch=5)

    assert "orders:0,1" in "\n".join(drawn(about, DescribePart.MEMBERS, verbose=True))


@pytest.mark.parametrize(
    ("part", "has", "has_not"),
    [
        (DescribePart.OFFSETS, ["PARTITION"], ["MEMBER "]),
        (DescribePart.MEMBERS, ["MEMBER"], ["PARTITION ", "COMMITTED"]),
        (DescribePart.STATE, ["GROUP", "STATE"], ["COMMITTED"]),
    ],
)
def test_parts(part: DescribePart, has: list[str], has_not: list[str]) -> None:
    text = "\n".join(drawn(SPREAD, part))

    assert [word for word in has if word not in text] == []
    assert [word for word in has_not if word in text] == []


@pytest.mark.parametrize("form", [Format.CSV, Format.JSON])
def test_csv_and_json_have_all_rows(form: Format) -> None:
    about = group([partition(n, n) for n in range(100)])
    out = io.StringIO()
    with redirect_stdout(out):
        present(
            "describe", [outcome(DescribePart.PAGE, [about], CLUSTER)], form, ["kgroup"], StderrReporter(io.StringIO())
        )

    if form is Format.CSV:
        rows = list(csv.DictReader(io.StringIO(out.getvalue())))
        assert [(row["topic"], row["partition"], row["lag"]) for row in rows] == [
            ("orders", str(n), str(n)) for n in range(100)
        ]
    else:
        assert out.getvalue().count('"log_end"') == 100


def test_a_document_from_the_log_has_its_times() -> None:
    found = group([Partition(TopicPartition("orders", number), None, None, None, None) for number in range(2)])
    logged = LoggedState(
        found.name, "classic", {TopicPartition("orders", 0): PastCommit(None, 5)}, 1000, frozenset(), None
    )

    document = described_document(found, None, logged=logged)
    assert (document.source, document.newest_record_at) == ("log", "1970-01-01T00:00:01.000Z")
    assert [row.last_commit_at for row in document.partitions] == ["1970-01-01T00:00:00.005Z", None]
    asked = described_document(found, [])
    assert (asked.source, asked.newest_record_at, asked.pending_catchups) == ("coordinator", None, ())
