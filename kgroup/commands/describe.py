"""``kgroup describe``: the current state of a group: generation or epochs, members, partitions, lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from kgroup.catchup.service.pending import PendingCatchups, read_pending
from kgroup.cli.help_parts import WHAT
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.selection import Selection, check_selection
from kgroup.model.groups import Group
from kgroup.model.outcome import Outcomes
from kgroup.model.output_format import Format
from kgroup.output.pages.describe import LogSource, outcome
from kgroup.output.pages.describe_records import DescribePart
from kgroup.output.watch.request import Refresh, Watch, WatchedVerb, watched
from kgroup.queries.log_options import FromLog
from kgroup.queries.snapshots import snapshots
from kgroup.queries.verdicts import GroupVerdicts, read_verdicts
from kgroup.settings.invocation import Invocation
from kgroup.support.clock import utc_ms
from kgroup.support.durations import parse_duration
from kgroup.support.errors import UsageError

_GROUPS_AT_A_TIME = 250
_DEFAULT_BUDGET = "1s"


@dataclass(frozen=True, slots=True)
class DescribeView:
    """The part of a group that is shown, and the limits of the search for its generation."""

    members: Annotated[bool, typer.Option("--members", rich_help_panel=WHAT, help="Only the members.")] = False
    offsets: Annotated[
        bool, typer.Option("--offsets", rich_help_panel=WHAT, help="Only the partitions, all of them.")
    ] = False
    state: Annotated[bool, typer.Option("--state", rich_help_panel=WHAT, help="Only a line of state a group.")] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", rich_help_panel=WHAT, help="All rows, assignments, leader epochs, metadata."),
    ] = False
    no_generation: Annotated[
        bool,
        typer.Option(
            "--no-generation",
            rich_help_panel=WHAT,
            help="Do not search __consumer_offsets for generation and leader of classic groups.",
        ),
    ] = False
    generation_budget: Annotated[
        str,
        typer.Option(
            "--generation-budget",
            metavar="DURATION",
            rich_help_panel=WHAT,
            help="How long to search for them, 1s by default.",
        ),
    ] = _DEFAULT_BUDGET

    @property
    def part(self) -> DescribePart:
        """The part that was requested. Raises UsageError for two parts."""
        asked = [
            part for part in (DescribePart.MEMBERS, DescribePart.OFFSETS, DescribePart.STATE) if getattr(self, part)
        ]
        if len(asked) > 1:
            raise UsageError(f"--{asked[0]} and --{asked[1]}: one of them")
        return asked[0] if asked else DescribePart.PAGE

    def snapshot_request(self, output: Format) -> SnapshotRequest:
        """What has to be read to show it."""
        offsets = self.part in (DescribePart.PAGE, DescribePart.OFFSETS) or output in (Format.JSON, Format.YAML)
        # CSV of partitions or members has no column for the generation.
        dated = not self.no_generation and not (output is Format.CSV and self.part is not DescribePart.STATE)
        budget = parse_duration(self.generation_budget, "--generation-budget") if dated else 0
        return SnapshotRequest(offsets=offsets, logs=offsets, generation_budget_s=budget)

    def judges(self, output: Format) -> bool:
        """Whether the output has a place for a verdict."""
        if output in (Format.JSON, Format.YAML):
            return True
        return self.part is DescribePart.PAGE and output in (Format.TABLE, Format.WIDE, Format.MARKDOWN)


def describe(
    run: Invocation, which: Selection, view: DescribeView, watch: Watch, source: FromLog
) -> Outcomes | WatchedVerb:
    """Show a group: state, generation or epochs, members, partitions, lag.

    The page has the 20 partitions with the largest lag; json and csv always have all rows. Without a group,
    all groups are shown, worst first. --watch looks again and again, and marks what changed. With --from-log the
    groups' coordinator is not asked at all: what it has written to __consumer_offsets is read, back to its start.

    Examples:
    kgroup describe orders-svc
    kgroup describe --regex 'orders-.*' --members --verbose
    kgroup describe --all-groups -o csv > lag.csv
    kgroup describe orders-svc --watch --every 5s
    kgroup describe orders-svc --from-log

    Exit codes: 0 2 3 4 5 6 7
    """
    check_selection(which)
    view.snapshot_request(run.format)
    if source != FromLog():
        if watch.watch:
            raise UsageError("--from-log and --watch: one of them", hint="kgroup history GROUP --follow")
        return _from_log(run, which, view, source)
    return watched(run, watch, lambda run: _connect(run, which, view)) or _once(run, which, view)


def _reading(run: Invocation, view: DescribeView) -> SnapshotRequest:
    """What to read with the groups. For a verdict the log is read anyway, so it is not searched here."""
    want = view.snapshot_request(run.format)
    return replace(want, generation_budget_s=0) if view.judges(run.format) else want


def _from_log(run: Invocation, which: Selection, view: DescribeView, source: FromLog) -> Outcomes:
    """The groups according to ``__consumer_offsets``: one page each for people, otherwise all at once."""
    # Imported here: rarely used.
    from kgroup.groups.state_from_log import log_line
    from kgroup.queries.from_log import check_bounds, logged_snapshot

    check_bounds(source, reads=source.from_log)
    want = view.snapshot_request(run.format)
    with Cluster(run.settings) as cluster:
        found = logged_snapshot(run.reporter, cluster, which, source, want)
        snapshot, states = found.snapshot, found.states
        groups, now_ms = list(snapshot.groups), utc_ms()
        pages = [groups]
        if run.format in (Format.TABLE, Format.WIDE, Format.MARKDOWN) and view.part is not DescribePart.STATE:
            groups.sort(key=lambda group: -(group.totals.lag or 0))
            pages = [[group] for group in groups] or [[]]
        if view.part is DescribePart.STATE or run.format is Format.CSV:
            for group in groups:
                run.reporter.note(f"{group.name}: {log_line(states[group.name], now_ms)}")
        for number, page in enumerate(pages):
            yield outcome(
                view.part,
                page,
                cluster.ref,
                snapshot.errors if number == 0 else (),
                verbose=view.verbose,
                pending=None,
                source=LogSource(states, now_ms),
            )
    if not groups and not snapshot.errors:
        run.reporter.note("no group is chosen: nothing to do")


def _once(run: Invocation, which: Selection, view: DescribeView) -> Outcomes:
    want = _reading(run, view)
    with Cluster(run.settings) as cluster:
        # CSV is written in batches. Otherwise the requests that cover all groups are sent once, not per batch.
        at_a_time = _GROUPS_AT_A_TIME if run.format is Format.CSV and want.offsets else None
        yield from _outcomes(run, view, cluster, snapshots(run.reporter, cluster, which, want, at_a_time))


@contextmanager
def _connect(run: Invocation, which: Selection, view: DescribeView) -> Iterator[Refresh]:
    want = _reading(run, view)
    with Cluster(run.settings) as cluster:
        yield lambda: _outcomes(run, view, cluster, snapshots(run.reporter, cluster, which, want))


def _outcomes(run: Invocation, view: DescribeView, cluster: Cluster, found: Iterable[Snapshot]) -> Outcomes:
    """One outcome per batch of groups; for people one per group, the largest lag first."""
    something = False
    said: set[str] = set()
    for snapshot in found:
        something = something or bool(snapshot.groups or snapshot.errors)
        judgement = GroupVerdicts(snapshot.groups)
        if view.judges(run.format):
            judgement = read_verdicts(cluster, snapshot.groups, view.snapshot_request(run.format).generation_budget_s)
        for note in (*snapshot.notes, *judgement.notes):
            if note not in said:
                run.reporter.note(note)
                said.add(note)
        groups = list(judgement.groups)
        pages = [groups]
        if run.format in (Format.TABLE, Format.WIDE, Format.MARKDOWN):
            groups.sort(key=lambda group: -(group.totals.lag or 0))
            pages = [groups] if view.part is DescribePart.STATE else [[group] for group in groups]
        shown = _pending_catchups(run, view, cluster, groups) if groups else PendingCatchups()
        shown.note(run, (group.name for group in groups))
        for number, page in enumerate(pages or [[]]):
            errors = snapshot.errors if number == 0 else ()
            yield outcome(
                view.part,
                page,
                cluster.ref,
                errors,
                verbose=view.verbose,
                pending_lines=shown.lines_for(group.name for group in page),
                pending=shown.documents_for(group.name for group in page),
                verdicts=judgement.verdicts,
            )
    if not something:
        run.reporter.note("no group is chosen: nothing to do")


def _pending_catchups(
    run: Invocation, view: DescribeView, cluster: Cluster, groups: Sequence[Group]
) -> PendingCatchups:
    """The pending catch-ups, if they are shown at all."""
    if run.format not in (Format.JSON, Format.YAML) and view.part not in (DescribePart.PAGE, DescribePart.OFFSETS):
        return PendingCatchups()
    return read_pending(run, cluster, groups, on_page=view.part is DescribePart.PAGE)
