"""The pages of ``kgroup lag``, its csv and metrics; and the page of a group with its verdict."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kgroup.groups.lag.checks import LagBounds, check_lag
from kgroup.groups.lag.measure import measure_lag
from kgroup.groups.lag.report import GroupLag, LagSum, RowLevel, SortBy, rows_of, sort_rows
from kgroup.model.metrics import Metric
from kgroup.model.outcome import Outcome
from kgroup.model.pending_catchup import PendingCatchup
from kgroup.output.formats.envelope import of_outcomes
from kgroup.output.formats.prometheus import exposition
from kgroup.output.pages.lag import LagPage, LagView, MeasuredGroup, RefreshValues, outcome
from kgroup.output.pages.lag_metrics import lag_metrics
from kgroup.output.pages.lag_records import records_of
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import ExitCode
from kgroup.support.json_line import plain
from tests.helpers.cases.lag import HOUR, MINUTE, NOW, Part, at, evidence, group, member
from tests.helpers.cases.lag_groups import GROUPS, in_order
from tests.helpers.pages import drawn

CLUSTER = ClusterRef("id", "b1:9092", "prod")
E1 = member("enrich-1", "/10.0.3.4", (7,))
STUCK = Part(7, 3_940_025, 1700, last_ago=38 * MINUTE, age=38 * MINUTE, owner=E1)
FINE = [Part(n, 600) for n in range(3)]


def report(name: str, *parts: Part) -> GroupLag:
    return measure_lag(replace(group(parts), name=name), evidence(parts))


ENRICH = report("orders-enrich", STUCK, *FINE)
BILLING = report("orders-billing", *FINE)
SEARCH = report("orders-search", *(Part(n, 20_000, 100, 60) for n in range(3)))
UNSEEN = report("orders-unseen", FINE[0], Part(1, None))
ALL = [BILLING, ENRICH, SEARCH, UNSEEN]


def of_page(
    groups: Sequence[GroupLag | MeasuredGroup], view: LagView | None = None, *, a_part: int = 99, whole: bool = False
) -> Outcome:
    measured = [each if isinstance(each, MeasuredGroup) else MeasuredGroup(each) for each in groups]
    shown = LagPage(view or LagView())
    for begin in range(0, len(measured), a_part):
        shown.add(measured[begin : begin + a_part], whole=whole)
    return outcome(shown, CLUSTER)


def page(groups: Sequence[GroupLag | MeasuredGroup], view: LagView | None = None) -> list[str]:
    return drawn(of_page(groups, view))


def test_many_groups_worst_first() -> None:
    lines = page(ALL)

    assert lines[0].startswith("orders  4 partitions  4 groups")
    assert lines[1].split() == "GROUP STATE LAG TIME-LAG WORST TREND CAUGHT-UP-IN STATUS".split()  # noqa: SIM905
    assert [line.split()[0] for line in lines[2:6]] == [
        "orders-enrich",
        "orders-search",
        "orders-unseen",  # unknown: before what is known to be well
        "orders-billing",
    ]
    assert lines[2].split() == [
        "orders-enrich",
        "Stable",
        "3941825",
        "38m",
        "orders:7",
        "100%",
        "+1700/s",
        "(1m)",
        *["not", "at", "this", "rate"],
        "STOP",
        "38m",
    ]
    assert lines[4].split()[:4] == ["orders-unseen", "Stable", "600+", "6s+"]
    assert lines[6:] == ["1 of 4 groups is stuck.", "-> kgroup describe orders-enrich"]


def test_a_group_without_a_reader_has_no_trend_and_is_sorted_by_its_lag() -> None:
    parts = [Part(n, 68_000, 16, commits=(at(HOUR, 10_000_000),)) for n in range(3)]
    about = replace(group(parts, state="Empty"), name="billing-export")
    unread = measure_lag(about, evidence(parts, state_since_ms=NOW - 5 * MINUTE))
    stopped = report("blue-orders", Part(0, 1836, 49, last_ago=MINUTE, age=MINUTE))

    lines = page([stopped, unread, BILLING])

    assert lines[2].split() == [
        "billing-export", "Empty", "204000", "1h11m", "orders:0", "33%", "-", "-", "NO-READER", "5m"
    ]  # fmt: skip
    assert lines[3].startswith("blue-orders")
    assert lines[-2] == "1 of 3 groups is stuck, 1 has no reader while records arrive."
    assert lines[-1] == "-> kgroup describe billing-export"
    (status,) = [m for m in lag_metrics([unread], "prod", None) if m.name == "kgroup_consumergroup_status"]
    assert "5=NO-READER" in status.help
    assert [sample.value for sample in status.samples] == [5]


def test_a_group_that_waits_for_its_next_run_is_not_called_stuck() -> None:
    part = Part(0, 24, 0, age=HOUR, commits=(at(2 * HOUR, 10_000_000),))
    daily = measure_lag(
        replace(group([part], state="Empty"), name="daily"), evidence([part], state_since_ms=NOW - HOUR)
    )

    assert "NO-READER" in page([daily, BILLING])[2]
    assert len(page([daily, BILLING])) == 4, "no closing line"


def test_no_stuck_group_no_closing_line() -> None:
    assert len(page([BILLING, SEARCH])) == 4


def test_nothing_to_show_is_nothing() -> None:
    assert page([]) == []


def test_top_says_what_it_leaves_out() -> None:
    lines = page(ALL, LagView(sort=SortBy.LAG, top=1))

    assert lines[3] == "3 more, lag 600 to 60000: without --top all are shown"


def test_by_topic_and_by_partition() -> None:
    both = report("both", *FINE, Part(0, 9, topic="audit"))

    topics = page([both], LagView(RowLevel.TOPIC, SortBy.LAG))
    partitions = page([both, BILLING], LagView(RowLevel.PARTITION, SortBy.NAME))

    assert [line.split()[:2] for line in topics[2:]] == [["both", "orders"], ["both", "audit"]]
    assert partitions[1].split()[:2] == ["GROUP", "PARTITION"]
    assert partitions[2].split()[:2] == ["both", "audit:0"]
    assert page([both], LagView(RowLevel.PARTITION))[1].split()[0] == "PARTITION"


def test_violations_close_the_page_and_decide_the_exit() -> None:
    bounds = LagBounds(max_lag=1000)
    found = of_page(
        [MeasuredGroup(each, check_lag([each.total], bounds, NOW)) for each in ALL], LagView(sort=SortBy.NAME)
    )

    failed = [line for line in drawn(found) if line.startswith("FAILED")]
    assert failed == [
        "FAILED  orders-billing: lag 1800 is over 1000, 33% of it on orders:0",
        "FAILED  orders-enrich: lag 3941825 is over 1000, 100% of it on orders:7",
        "FAILED  orders-search: lag 60000 is over 1000, 33% of it on orders:0",
        "FAILED  orders-unseen: lag unknown (orders:1: its log could not be read), the limit is 1000",
    ]
    assert found.exit_code is ExitCode.CHECK_FAILED
    assert of_page(ALL).exit_code is ExitCode.DONE
    data = plain(of_outcomes("lag", [found]).data)
    assert [len(each["violations"]) for each in data] == [1, 1, 1, 1]
    assert data[3]["violations"][0]["known"] is False


def test_json_has_every_row_whatever_is_shown() -> None:
    (data,) = plain(of_outcomes("lag", [of_page([ENRICH], LagView(top=1), whole=True)]).data)

    assert len(data["partitions"]) == 4
    assert data["verdict"] is None
    assert data["largest_partition"] == {"topic": "orders", "partition": 7}


def test_csv() -> None:
    found = of_page([ENRICH], LagView(RowLevel.PARTITION, SortBy.LAG, top=2)).records()
    rows = [dict(zip(found.header, row, strict=True)) for row in found.rows]

    assert [row["partition"] for row in rows] == [7, 0]
    assert (rows[0]["lag"], rows[0]["lag_status"], rows[0]["time_lag_ms"]) == (3_940_025, "stop", 38 * MINUTE)
    (total,) = of_page([ENRICH]).records().rows
    assert list(total)[:4] == ["orders-enrich", None, None, "Stable"]


def test_a_page_in_eighty_columns_keeps_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgroup.output.terminal.draw.terminal_width", lambda stream: 80)

    for level in RowLevel:
        lines = page(ALL, LagView(level))
        assert max(map(len, lines)) <= 80
        assert "LAG" in lines[1].split()
        assert "STATUS" in lines[1].split()


def test_watch_draws_a_line_a_row() -> None:
    refreshes = RefreshValues()
    for lag in (0, 5, 10):
        refreshes = refreshes.after({"orders-enrich orders:7": lag})

    shown = LagPage(LagView(RowLevel.PARTITION))
    shown.refreshes = refreshes
    shown.add([MeasuredGroup(ENRICH)])
    lines = drawn(outcome(shown, CLUSTER))

    assert "▁▅█" in next(line for line in lines if line.startswith("orders:7"))
    assert "LAG-HISTORY" not in page([ENRICH], LagView(RowLevel.PARTITION))[1]


def test_wide_rows_have_the_last_hour() -> None:
    shown = LagPage(LagView(RowLevel.PARTITION))
    shown.add([MeasuredGroup(ENRICH, past={"orders-enrich orders:7": (0, 5, 10)})])

    lines = drawn(outcome(shown, CLUSTER))

    assert "▁▅█" in next(line for line in lines if line.startswith("orders:7"))


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 9))), max_size=9))
def test_refreshes_line_up(ticks: list[dict[str, int | None]]) -> None:
    refreshes = RefreshValues()
    for tick in ticks:
        refreshes = refreshes.after(tick, limit=4)

    assert refreshes.count == min(4, len(ticks))
    assert all(len(row) == refreshes.count for row in refreshes.values.values())
    if ticks:
        assert {name: row[-1] for name, row in refreshes.values.items() if name in ticks[-1]} == ticks[-1]


def samples(metrics: Sequence[Metric], name: str) -> dict[str, float]:
    (metric,) = [m for m in metrics if m.name == name]
    return {",".join(v for k, v in s.labels if k in ("group", "topic", "partition")): s.value for s in metric.samples}


def test_metrics_have_klag_exporters_names() -> None:
    metrics = lag_metrics([ENRICH, UNSEEN], "prod", NOW)

    assert samples(metrics, "kafka_consumergroup_group_lag")["orders-enrich,orders,7"] == 3_940_025
    assert samples(metrics, "kafka_consumergroup_group_lag_seconds")["orders-enrich,orders,7"] == 2280
    assert samples(metrics, "kafka_consumergroup_group_sum_lag") == {"orders-enrich": 3_941_825, "orders-unseen": 600}
    assert samples(metrics, "kafka_consumergroup_group_topic_sum_lag") == {
        "orders-enrich,orders": 3_941_825,
        "orders-unseen,orders": 600,
    }
    assert samples(metrics, "kafka_consumergroup_group_max_lag_seconds") == {"orders-enrich": 2280, "orders-unseen": 6}
    assert samples(metrics, "kafka_consumergroup_group_state") == {"orders-enrich": 3, "orders-unseen": 3}
    assert samples(metrics, "kgroup_consumergroup_status") == {"orders-enrich": 4}
    assert samples(metrics, "kafka_partition_latest_offset")["orders,7"] == 13_940_025
    text = exposition(metrics)
    assert 'kgroup_last_success_timestamp_seconds{cluster_name="prod"} 1795225000\n' in text
    assert (
        'kafka_consumergroup_group_lag{cluster_name="prod",group="orders-enrich",topic="orders",partition="7",'
        'member_host="10.0.3.4",consumer_id="enrich-1",client_id="enrich-1"} 3940025\n'
    ) in text


def test_a_topic_that_the_group_has_left_is_in_no_sum_or_maximum() -> None:
    parts = [*FINE, Part(0, 9_000, age=HOUR, topic="old"), Part(1, 0, topic="old")]
    metrics = lag_metrics([measure_lag(group(parts, [E1]), evidence(parts))], "prod", NOW)

    assert samples(metrics, "kafka_consumergroup_group_max_lag") == {"orders-enrich": 600}
    assert samples(metrics, "kafka_consumergroup_group_max_lag_seconds") == {"orders-enrich": 6}
    assert samples(metrics, "kafka_consumergroup_group_sum_lag") == {"orders-enrich": 1800}
    assert samples(metrics, "kafka_consumergroup_group_topic_sum_lag") == {"orders-enrich,orders": 1800}
    assert samples(metrics, "kafka_consumergroup_group_lag")["orders-enrich,old,0"] == 9_000
    assert samples(metrics, "kgroup_consumergroup_status") == {"orders-enrich": 1}
    alone = lag_metrics([measure_lag(group(parts[3:], [E1]), evidence(parts[3:]))], "prod", NOW)
    assert samples(alone, "kafka_consumergroup_group_sum_lag") == {}


def test_records_that_are_lost_show_in_the_metrics() -> None:
    metrics = lag_metrics([report("g", Part(0, 600, log_start=10_000_300))], "prod", None)

    assert samples(metrics, "kafka_consumergroup_group_messages_lost") == {"g,orders,0": 300}
    assert samples(metrics, "kafka_consumergroup_group_retention_margin") == {"g,orders,0": -300}
    assert samples(metrics, "kafka_consumergroup_group_lag_retention_ratio") == {"g,orders,0": 200}
    assert 'data_loss_detected="true"' in exposition(metrics)
    assert "last_success" not in exposition(metrics)

    above = lag_metrics([report("g", Part(0, -50))], "prod", None)
    assert samples(above, "kafka_consumergroup_group_offset") == {"g,orders,0": 10_000_000}
    assert not [m for m in above if m.name.endswith(("lag", "lost", "ratio")) and m.samples]


def test_what_catchups_have_not_delivered_is_a_metric_of_its_own() -> None:
    """Of a plan that has moved nothing, the group still reads the gap itself: its lag has it."""

    def plan(state: str | None, offsets: int | None, deadline_ms: int | None) -> PendingCatchup:
        return PendingCatchup("cu-1", state, "stopped", offsets, None, deadline_ms, ())

    pending = {
        "two": (plan("released", 30, 9_000), plan("released", 12, 7_500), plan("planned", 500, 1_000)),
        "planned": (plan("planned", 500, 1_000),),
        "one-unknown": (plan(None, None, None), plan("releasing", 5, None)),
        "all-unknown": (plan(None, None, None),),
        "none": (),
        "unread": None,
    }
    metrics = lag_metrics([], "prod", None, pending)

    assert samples(metrics, "kgroup_catchup_pending_offsets") == {"two": 42, "planned": 0, "one-unknown": 5, "none": 0}
    assert samples(metrics, "kgroup_catchup_pending_known") == {
        "two": 1,
        "planned": 1,
        "one-unknown": 0,
        "all-unknown": 0,
        "none": 1,
        "unread": 0,
    }
    assert samples(metrics, "kgroup_catchup_retention_deadline_timestamp_seconds") == {"two": 7.5}


def test_the_document_of_a_group_and_its_partitions_says_why_a_status_is_unknown() -> None:
    data = plain(of_outcomes("lag", [of_page(ALL, LagView(sort=SortBy.NAME), whole=True)]).data)

    for each in (data[3], data[3]["partitions"][1], data[3]["topics"][0]):
        assert (each["lag_status"], each["lag_status_unknown_reason"]) == (None, "its log could not be read")
    for each in (data[0], data[0]["partitions"][1], data[0]["topics"][0]):
        assert (each["lag_status"], each["lag_status_unknown_reason"]) == ("ok", None)
        assert (each["pace"], each["caught_up_in_ms"]) == ("keeps-up", 0)


@pytest.mark.parametrize("a_part", [1, 4, 99])
@pytest.mark.parametrize("top", [1, 2, 20, None])
@pytest.mark.parametrize("level", list(RowLevel))
@pytest.mark.parametrize("by", list(SortBy))
def test_the_rows_of_groups_that_were_read_in_parts_are_those_of_all(
    by: SortBy, level: RowLevel, top: int | None, a_part: int
) -> None:
    view = LagView(level, by, top)
    found = of_page(GROUPS, view, a_part=a_part)
    rows = sort_rows(rows_of(in_order(by), level), by, top)

    expected = records_of(rows, {each.group: each.state for each in GROUPS})
    assert [*found.records().rows] == [*expected.rows]
    assert found.names is not None
    assert [*found.names()] == [*dict.fromkeys(row.group for row in rows)]
    assert drawn(found)[1:] == drawn(of_page(in_order(by), view))[1:], "but for the time in the title"


def test_a_page_holds_no_rows_that_it_does_not_show() -> None:
    of_groups, first = LagPage(LagView()), LagPage(LagView(RowLevel.PARTITION, SortBy.LAG, top=2))
    for _ in range(100):
        for shown in (of_groups, first):
            shown.add([MeasuredGroup(each) for each in GROUPS])

    assert not any(row.partitions for row in of_groups.rows if isinstance(row, LagSum))
    assert not any(each.report.partitions or each.report.total.partitions for each in of_groups.groups)
    shown_rows, every = first.shown(), 100 * len(rows_of(GROUPS, RowLevel.PARTITION))
    assert (len(shown_rows), len(first.omitted)) == (2, every - 2)
