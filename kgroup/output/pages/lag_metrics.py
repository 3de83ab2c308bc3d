"""Lag as metrics, with the names and labels of klag-exporter, so that its dashboards and alerts work.

See https://github.com/softwaremill/klag-exporter (README, "Metrics"). ``kgroup_consumergroup_status`` and
``kgroup_last_success_timestamp_seconds`` are kgroup's own. An unknown value has no sample: 0 would look healthy.
Sums and maxima are of the partitions that are known: one without a commit must not hide the others. They leave out a
topic that the group has left, whose lag grows for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from kgroup.groups.lag.report import GroupLag, LagSum, PartitionLag, still_read
from kgroup.groups.lag.status import LagStatus
from kgroup.model.groups import RangeStatus
from kgroup.model.metrics import Labels, Metric, MetricSample
from kgroup.model.pending_catchup import PendingCatchup

_STATES = (
    "Unknown",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
_NOT_MOVED = "planned"
_LAST_SUCCESS = "kgroup_last_success_timestamp_seconds"
_STATUSES = ", ".join(
    f"{n}={' or '.join(status for status in LagStatus if status.severity == n)}"
    for n in sorted({status.severity for status in LagStatus})
)


def lag_metrics(
    reports: Sequence[GroupLag],
    cluster: str,
    succeeded_at_ms: int | None,
    pending: Mapping[str, Sequence[PendingCatchup] | None] = MappingProxyType({}),
) -> tuple[Metric, ...]:
    """Every metric, some without samples. ``cluster`` is the context's name, or the cluster's id.

    ``pending`` are the catch-ups of each group that are not finished, None if that is unknown.
    ``succeeded_at_ms`` is when everything was last read, None if unknown. An alert on its age finds a file that is no
    longer updated, and one that lacks what could not be read. Both look healthy otherwise.
    """
    at: Labels = (("cluster_name", cluster),)
    logs = {(p.partition.topic, p.partition.partition): p for r in reports for p in r.partitions if p.partition.log}
    partitions = [p for report in reports for p in report.partitions]
    totals = [(report, report.total) for report in reports]
    read = [(report, row) for report in reports if isinstance(row := still_read(report.total), LagSum)]
    by_partition = _gauges(at, partitions)
    return (
        _log_ends(at, logs.values()),
        _log_starts(at, logs.values()),
        *by_partition,
        _of_groups(
            "max_lag",
            "Maximum offset lag across all partitions of a consumer group",
            [(at, r, None if t.hidden else t.largest.lag if t.largest else t.lag) for r, t in read],
        ),
        _of_groups(
            "max_lag_seconds",
            "Maximum known age in seconds of an unread record across all partitions of a consumer group",
            [(at, r, None if (ms := t.time_lag_at_least_ms) is None else ms / 1000) for r, t in read],
        ),
        _of_groups(
            "sum_lag",
            "Sum of the known offset lags across all partitions of a consumer group",
            [(at, r, None if t.hidden else t.lag) for r, t in read],
        ),
        Metric(
            "kafka_consumergroup_group_topic_sum_lag",
            "Sum of the known offset lags of a consumer group on a topic",
            tuple(
                MetricSample((*at, ("group", report.group), ("topic", each.topic or "")), each.lag)
                for report in reports
                for each in report.topics
                if each.lag is not None and still_read(each) is not None
            ),
        ),
        _of_groups(
            "state",
            "State of a consumer group: " + ", ".join(f"{n}={state}" for n, state in enumerate(_STATES)),
            [(at, r, _STATES.index(r.state) if r.state in _STATES else 0) for r in reports],
        ),
        Metric(
            "kgroup_consumergroup_status",
            f"Status of a consumer group, Burrow's and ours: {_STATUSES}",
            tuple(
                MetricSample((*at, ("group", r.group)), t.status.severity) for r, t in totals if t.status is not None
            ),
        ),
        *_of_catchups(at, pending),
        Metric(
            _LAST_SUCCESS,
            "When kgroup last read all of this, in seconds since 1970",
            () if succeeded_at_ms is None else (MetricSample(at, succeeded_at_ms / 1000),),
        ),
    )


def _of_catchups(at: Labels, pending: Mapping[str, Sequence[PendingCatchup] | None]) -> Iterator[Metric]:
    """Of a group that was released, lag is 0 while its gap waits: an alert on lag alone is green then."""
    left: list[MetricSample] = []
    deadlines: list[MetricSample] = []
    known_of: list[MetricSample] = []
    for group, plans in pending.items():
        # The group itself still reads the gap of a plan that has not moved it.
        owed = [plan for plan in plans or () if plan.state != _NOT_MOVED]
        counts = [plan.pending_offset_count for plan in owed if plan.pending_offset_count is not None]
        known = [plan.retention_deadline_at_ms for plan in owed if plan.retention_deadline_at_ms is not None]
        of_group = (*at, ("group", group))
        known_of.append(MetricSample(of_group, int(plans is not None and len(counts) == len(owed))))
        if plans is not None and (counts or not owed):
            left.append(MetricSample(of_group, sum(counts)))
        if known:
            deadlines.append(MetricSample(of_group, min(known) / 1000))
    yield Metric(
        "kgroup_catchup_pending_offsets",
        "Offsets that catch-ups of a consumer group have released and not delivered yet, 0 without one",
        tuple(left),
    )
    yield Metric(
        "kgroup_catchup_pending_known",
        "1 where that is known of a consumer group, 0 where the ledger or a plan in it could not be read",
        tuple(known_of),
    )
    yield Metric(
        "kgroup_catchup_retention_deadline_timestamp_seconds",
        "When retention may delete the first of them, in seconds since 1970; no sample for never",
        tuple(deadlines),
    )


def last_success_ms(text: str) -> int | None:
    """When everything was last read, according to an earlier file's text; None if it has no such metric."""
    match = re.search(rf"^{_LAST_SUCCESS}\{{[^\n]*\}} ([0-9]+(?:\.[0-9]+)?)$", text, re.MULTILINE)
    return None if match is None else round(float(match[1]) * 1000)


def _gauges(at: Labels, rows: Sequence[PartitionLag]) -> list[Metric]:
    """The metrics that klag-exporter has for each partition of a group."""

    def gauge(name: str, text: str, values: Iterable[tuple[PartitionLag, float | None]]) -> Metric:
        flagged = name == "lag_seconds"
        samples = tuple(
            MetricSample((*_labels(at, row), *(_flags(row) if flagged else ())), value)
            for row, value in values
            if value is not None
        )
        return Metric(f"kafka_consumergroup_group_{name}", text, samples)

    return [
        gauge("offset", "Last committed offset of a partition", ((r, _committed(r)) for r in rows)),
        gauge("lag", "Unread records of a partition, as offsets", ((r, r.lag) for r in rows)),
        gauge(
            "lag_seconds",
            "Age in seconds of the first unread record of a partition, 0 where all is read",
            ((r, None if r.time_lag_ms is None else r.time_lag_ms / 1000) for r in rows),
        ),
        gauge("messages_lost", "Offsets that retention took before they were read", ((r, _lost(r)) for r in rows)),
        gauge(
            "retention_margin",
            "Committed offset above the log start; negative where records were lost",
            ((r, _margin(r)) for r in rows),
        ),
        gauge(
            "lag_retention_ratio",
            "Lag in percent of what the log holds; above 100 where records were lost",
            ((r, _ratio(r)) for r in rows),
        ),
    ]


def _of_groups(name: str, text: str, values: Iterable[tuple[Labels, GroupLag, float | None]]) -> Metric:
    samples = tuple(
        MetricSample((*at, ("group", report.group)), value) for at, report, value in values if value is not None
    )
    return Metric(f"kafka_consumergroup_group_{name}", text, samples)


def _log_ends(at: Labels, rows: Iterable[PartitionLag]) -> Metric:
    samples = tuple(MetricSample(_log(at, r), r.partition.log.end) for r in rows if r.partition.log)
    return Metric("kafka_partition_latest_offset", "Log end offset (high watermark) of a partition", samples)


def _log_starts(at: Labels, rows: Iterable[PartitionLag]) -> Metric:
    samples = tuple(MetricSample(_log(at, r), r.partition.log.start) for r in rows if r.partition.log)
    return Metric("kafka_partition_earliest_offset", "Log start offset of a partition", samples)


def _log(at: Labels, row: PartitionLag) -> Labels:
    return (*at, ("topic", row.partition.topic), ("partition", str(row.partition.partition)))


def _labels(at: Labels, row: PartitionLag) -> Labels:
    """The labels are the same with or without an owner: a label that comes and goes makes a new series."""
    owner = row.partition.owner
    return (
        *at,
        ("group", row.group),
        ("topic", row.partition.topic),
        ("partition", str(row.partition.partition)),
        ("member_host", owner.host.removeprefix("/") if owner else ""),
        ("consumer_id", owner.member_id if owner else ""),
        ("client_id", owner.client_id if owner else ""),
    )


def _flags(row: PartitionLag) -> Labels:
    return (
        ("compaction_detected", "true" if row.phantom else "false"),
        ("data_loss_detected", "true" if row.partition.out_of_range is RangeStatus.BELOW_LOG_START else "false"),
    )


def _committed(row: PartitionLag) -> int | None:
    return row.partition.commit.offset if row.partition.commit else None


def _is_above_log_end(row: PartitionLag) -> bool:
    """Whether the commit is above the log end: it belongs to a log that is gone, so what was read is unknown."""
    return row.partition.out_of_range is RangeStatus.ABOVE_LOG_END


def _margin(row: PartitionLag) -> int | None:
    """None too of a share group: what lies after its start offset may be done."""
    commit, log = row.partition.commit, row.partition.log
    if commit is None or log is None or row.partition.counted is not None:
        return None
    return commit.offset - log.start


def _lost(row: PartitionLag) -> int | None:
    margin = _margin(row)
    return None if margin is None or _is_above_log_end(row) else max(0, -margin)


def _ratio(row: PartitionLag) -> float | None:
    """klag-exporter's formula: end - committed, in percent of end - start; None if the log is empty or replaced."""
    commit, log = row.partition.commit, row.partition.log
    if (
        commit is None
        or log is None
        or log.end <= log.start
        or _is_above_log_end(row)
        or row.partition.counted is not None
    ):
        return None
    return round(100 * max(0, log.end - commit.offset) / (log.end - log.start), 3)
