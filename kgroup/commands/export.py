"""``kgroup export``: committed offsets as a file that ``reset --from-file`` and Kafka's own tool read."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.offset_files import ExportedGroup
from kgroup.groups.reset_targets import resolved_text
from kgroup.groups.selection import Selection, TopicFilter, check_selection, names_of, names_only
from kgroup.model.groups import Group
from kgroup.model.outcome import Outcomes
from kgroup.model.output_format import Format
from kgroup.model.reporter import Reporter
from kgroup.output.pages.export import export_outcome
from kgroup.queries.log_options import AsOf, FromLog
from kgroup.queries.snapshots import GROUPS_AT_A_TIME, require_topics, snapshots
from kgroup.settings.invocation import Invocation
from kgroup.support.units import plural

_COMMITS_ONLY = SnapshotRequest(logs=False, generation_budget_s=0, hidden_budget_s=5.0)
_NAMED = 3


def export(run: Invocation, which: Selection, when: AsOf, source: FromLog) -> Outcomes:
    """Write committed offsets to stdout, for reset --from-file.

    The default, -o kcg, is the CSV without a header of kafka-consumer-groups.sh: topic,partition,offset for one named
    group; group,topic,partition,offset for several groups. It has no room for metadata and leader epochs: -o json, yaml
    and csv keep them. --topic leaves out the offsets of other topics.

    Running groups are exported as they are now. --from-log and --as-of TIME read __consumer_offsets and ask no
    coordinator. An offset that cannot be read is an error, so that no file is incomplete without notice.

    Examples:
    # one group
    kgroup export orders-svc > offsets.csv
    # all groups, with metadata
    kgroup export --all-groups -o json > backup.json
    # one topic of several groups
    kgroup export --regex 'orders-.*' --topic orders
    # the coordinator is down
    kgroup export orders-svc --from-log -o json > rescued.json
    # the offsets of an earlier time
    kgroup export orders-svc --as-of 03:05Z

    Exit codes: 0 2 3 4 5 6 7

    Rights: as describe
    """
    check_selection(which)
    if when.as_of is not None or source != FromLog():
        yield from _from_log(run, which, when, source)
        return
    one = names_only(which) and len(names_of(which)) == 1
    # Rows are written in batches; a screen or a document is one piece.
    at_a_time = GROUPS_AT_A_TIME if run.format in (Format.KCG, Format.CSV) else None
    notes = _Notes(run.reporter, run.format)
    with Cluster(run.settings) as cluster:
        require_topics(cluster, which)  # an empty file would look like a backup
        want = replace(_COMMITS_ONLY, hidden_budget_s=0) if which.topic else _COMMITS_ONLY
        for snapshot in snapshots(run.reporter, cluster, which, want, at_a_time):
            groups = _exported(snapshot, which.topics)
            notes.take(snapshot, groups)
            yield export_outcome(run.format, groups, snapshot.errors, cluster.ref, with_group=not one)
    notes.say_last()


def _from_log(run: Invocation, which: Selection, when: AsOf, source: FromLog) -> Outcomes:
    """Export the commits in ``__consumer_offsets``, of all groups at once."""
    # Imported here: rarely used.
    from kgroup.queries.from_log import (
        check_bounds,
        choose_logged,
        offsets_at,
        parse_past_time,
        warn_open_transactions,
        without_stale,
    )
    from kgroup.queries.log_options import brokers_now

    at_ms = None if when.as_of is None else parse_past_time(when.as_of)
    check_bounds(source, reads=source.from_log or at_ms is not None)
    one = names_only(which) and len(names_of(which)) == 1
    notes = _Notes(run.reporter, run.format)
    with Cluster(run.settings) as cluster:
        if when.as_of is not None:
            at_ms = parse_past_time(when.as_of, brokers_now(run.reporter, cluster))
            run.reporter.note(resolved_text(when.as_of, at_ms, "--as-of"))
        logged = without_stale(cluster, choose_logged(run.reporter, cluster, which, source, at_ms))
        warn_open_transactions(run.reporter, logged.states.values(), at_ms)
        failed = {error.group for error in logged.errors}
        exported = (offsets_at(state, which.topics, at_ms) for state in logged.states.values())
        groups = tuple(group for group in exported if group.offsets or group.group not in failed)
        notes.take(Snapshot((), logged.errors, ()), groups)
        yield export_outcome(run.format, groups, logged.errors, cluster.ref, with_group=not one)
    notes.say_last()


class _Notes:
    """Notes on stderr about what the file does not show: notes on rights at once, the others at the end."""

    def __init__(self, reporter: Reporter, output: Format) -> None:
        self._reporter, self._output = reporter, output
        self._said: set[str] = set()
        self._groups = 0
        self._failed = False
        self._empty: list[str] = []
        self._rich = 0

    def take(self, snapshot: Snapshot, groups: Sequence[ExportedGroup]) -> None:
        """Report the notes of one snapshot, and count what is reported at the end."""
        for note in snapshot.notes:
            if note not in self._said:
                self._said.add(note)
                self._reporter.note(note)
        self._groups += len(groups)
        self._failed = self._failed or bool(snapshot.errors)
        self._empty += [group.group for group in groups if not group.offsets]
        self._rich += sum(bool(row.metadata) for group in groups for row in group.offsets)

    def say_last(self) -> None:
        reporter = self._reporter
        if not self._groups and not self._failed:
            reporter.note("nothing to export: no group is chosen")
        if self._empty:
            more = len(self._empty) - _NAMED
            others = f" and {more} more" if more > 0 else ""
            reporter.note(f"no committed offsets: {', '.join(self._empty[:_NAMED])}{others}")
        if self._rich and self._output is Format.KCG:
            has = "has" if self._rich == 1 else "have"
            reporter.note(f"{plural(self._rich, 'commit')} {has} metadata, which -o kcg leaves out; -o json keeps it")


def _exported(snapshot: Snapshot, topics: TopicFilter) -> tuple[ExportedGroup, ...]:
    """The known commits of each group, without groups whose offsets could not be read: they must not look empty."""
    failed = {error.group for error in snapshot.errors if error.topic is None}
    groups = (_offsets(group, topics) for group in snapshot.groups)
    return tuple(group for group in groups if group.offsets or group.group not in failed)


def _offsets(group: Group, topics: TopicFilter) -> ExportedGroup:
    rows = tuple((p.topic, p.partition, p.commit) for p in group.partitions if p.commit)
    wanted = tuple(row for row in rows if topics.has(row[0], row[1]))
    # A named topic without DESCRIBE was refused before, so no commits on it are hidden.
    hidden = () if topics.choices else group.hidden_commits
    return ExportedGroup.of(group.name, group.type, group.state, wanted, hidden=hidden)
