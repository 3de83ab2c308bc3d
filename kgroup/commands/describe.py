"""``kgroup describe``: the current state of a group: generation or epochs, members, partitions, lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from kgroup.catchup.service.pending import LedgerReading, PendingCatchups, begin_reading_cached_ledger
from kgroup.cli.panels import what_option
from kgroup.cluster.snapshot import Cluster, Snapshot, SnapshotRequest
from kgroup.groups.selection import Selection, check_selection, named_groups
from kgroup.model.groups import Group
from kgroup.model.outcome import Outcomes
from kgroup.model.output_format import Format
from kgroup.model.reporter import Reporter
from kgroup.output.pages.describe import LogSource, outcome
from kgroup.output.pages.describe_records import DescribePart
from kgroup.output.watch.request import Refresh, Watch, WatchedVerb, watched
from kgroup.queries.deliveries import with_deliveries
from kgroup.queries.log_options import FromLog, warn_of_clocks
from kgroup.queries.snapshots import GROUPS_AT_A_TIME, batches, describable_groups, snapshots
from kgroup.queries.verdicts import MOST_GROUPS, GroupVerdicts, read_generations, read_verdicts
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import UsageError
from kgroup.support.sizes import parse_bytes

if TYPE_CHECKING:
    from kgroup.groups.history.own_changes import OwnChanges

_STREAMED = (Format.CSV, Format.JSON, Format.YAML)
_SCAN_TIME = "1s"
"""How long ``__consumer_offsets`` is read, if ``--from-log`` does not ask for more."""


@dataclass(frozen=True, slots=True)
class DescribeView:
    """The part of a group that is shown, and the limits of the search for its generation."""

    members: Annotated[bool, what_option("--members", help="Show the members only.")] = False
    offsets: Annotated[bool, what_option("--offsets", help="Show the partitions only, all of them.")] = False
    state: Annotated[
        bool, what_option("--state", help="Show one line per group: state, epoch, assignor, coordinator.")
    ] = False
    verbose: Annotated[
        bool, what_option("--verbose", "-v", help="Show all rows, assignments, leader epochs, metadata.")
    ] = False
    no_generation: Annotated[
        bool,
        what_option(
            "--no-generation", help="Skip the search of __consumer_offsets for generation and leader of classic groups."
        ),
    ] = False

    restore_rate: Annotated[
        str | None,
        what_option(
            "--restore-rate",
            metavar="SIZE",
            help="Show how long a task of a streams group restores its state, at so many bytes a second: 20MB.",
        ),
    ] = None

    @property
    def bytes_per_s(self) -> int | None:
        """Raises UsageError for a rate that is no size."""
        return None if self.restore_rate is None else parse_bytes(self.restore_rate, "--restore-rate")

    @property
    def part(self) -> DescribePart:
        """The part that was requested. Raises UsageError for two parts."""
        asked = [
            part for part in (DescribePart.MEMBERS, DescribePart.OFFSETS, DescribePart.STATE) if getattr(self, part)
        ]
        if len(asked) > 1:
            raise UsageError(f"--{asked[0]} and --{asked[1]} are mutually exclusive")
        return asked[0] if asked else DescribePart.PAGE

    def snapshot_request(self, output: Format, scan_s: float) -> SnapshotRequest:
        """What has to be read to show it; ``scan_s`` is how long ``__consumer_offsets`` may be read."""
        documents = output in (Format.JSON, Format.YAML)
        offsets = self.part in (DescribePart.PAGE, DescribePart.OFFSETS) or documents
        # CSV of partitions or members has no column for the generation.
        undated = output is Format.NAME or (output is Format.CSV and self.part is not DescribePart.STATE)
        dated = not self.no_generation and not undated
        return SnapshotRequest(
            offsets,
            offsets,
            generation_budget_s=scan_s if dated else 0,
            all_types=True,
            settings=offsets,
            changelogs=documents or (output.is_page and self.part in (DescribePart.PAGE, DescribePart.MEMBERS)),
        )

    def shows_deliveries(self, output: Format) -> bool:
        """Whether the output has a place for the deliveries of a share group."""
        shown = self.part in (DescribePart.PAGE, DescribePart.OFFSETS) and output.is_page
        return shown or output in (Format.JSON, Format.YAML)

    def judges(self, output: Format) -> bool:
        """Whether the output has a place for a verdict."""
        if output in (Format.JSON, Format.YAML):
            return True
        return self.part is DescribePart.PAGE and output.is_page


def describe(
    run: Invocation, which: Selection, view: DescribeView, watch: Watch, source: FromLog
) -> Outcomes | WatchedVerb:
    """Show a group: state, generation or epochs, members, partitions, lag.

    The page has the 20 partitions with the largest lag; json and csv always have all rows. Without a group, all groups
    are shown, worst first. --members, --offsets and --state are mutually exclusive. With --from-log kgroup does not ask
    the coordinator: it reads what the coordinator has written to __consumer_offsets, from the start of the log.

    Examples:
    # what is wrong with a group, and since when
    kgroup describe orders-svc
    # refresh the page every 5 seconds
    kgroup describe orders-svc --watch --every 5s
    # members with their assignments
    kgroup describe --regex 'orders-.*' --members --verbose
    # all partitions of all groups, for a spreadsheet
    kgroup describe --all-groups -o csv > lag.csv
    # the coordinator is down
    kgroup describe orders-svc --from-log

    Exit codes: 0 2 3 4 5 6 7

    Rights: DESCRIBE G; DESCRIBE T
    More rights: READ __consumer_offsets: generation, status, rates, session timeouts; READ T: ages;
    READ __share_group_state: deliveries of share groups;
    DESCRIBE_CONFIGS T: retention left; DESCRIBE other groups: who reads the same topics; READ ledger: pending
    catch-ups; DESCRIBE_CONFIGS cluster: quotas; DESCRIBE transactional ids: who holds an open transaction
    """
    check_selection(which)
    scan_s = parse_duration(source.scan_time or _SCAN_TIME, "--scan-time")
    view.snapshot_request(run.format, scan_s)
    _ = view.bytes_per_s
    if source.from_log or source.scan_bytes is not None:
        if watch.watch:
            raise UsageError("--from-log and --watch are mutually exclusive", hint="kgroup history GROUP --follow")
        return _from_log(run, which, view, source)
    return watched(run, watch, lambda run: _connect(run, which, view, scan_s)) or _once(run, which, view, scan_s)


def _reading(run: Invocation, view: DescribeView, scan_s: float) -> SnapshotRequest:
    """What to read with the groups. For a verdict the log is read anyway, so it is not searched here."""
    want = view.snapshot_request(run.format, scan_s)
    return replace(want, generation_budget_s=0) if view.judges(run.format) else want


def _from_log(run: Invocation, which: Selection, view: DescribeView, source: FromLog) -> Outcomes:
    """The groups according to ``__consumer_offsets``: one page each for people, otherwise all at once."""
    # Imported here: rarely used.
    from kgroup.groups.state_from_log import log_line
    from kgroup.queries.from_log import check_bounds, logged_snapshot

    check_bounds(source, reads=source.from_log)
    want = view.snapshot_request(run.format, 0)
    with Cluster(run.settings) as cluster:
        warn_of_clocks(run.reporter, cluster)
        logged = logged_snapshot(run.reporter, cluster, which, source, want)
        snapshot, states = logged.snapshot, logged.states
        groups, now_ms = list(snapshot.groups), cluster.now_ms()
        pages = [groups]
        if run.format.is_page and view.part is not DescribePart.STATE:
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


def _once(run: Invocation, which: Selection, view: DescribeView, scan_s: float) -> Outcomes:
    want, named = _reading(run, view, scan_s), named_groups(which)
    with Cluster(run.settings) as cluster:
        _compare_clocks(run, cluster, view)
        # What is written as it arrives is read in batches. For other formats requests that cover all groups are sent
        # once.
        at_a_time = GROUPS_AT_A_TIME if run.format in _STREAMED and want.offsets else None
        if at_a_time is None or named is not None:
            yield from _outcomes(run, view, cluster, scan_s, snapshots(run.reporter, cluster, which, want), named)
            return
        listed = describable_groups(run.reporter, cluster, which, all_types=True)
        add_generations = None
        if view.judges(run.format) and len(listed.groups) > MOST_GROUPS:
            budget_s = view.snapshot_request(run.format, scan_s).generation_budget_s
            add_generations = read_generations(cluster, listed.groups, budget_s)
        yield from _outcomes(
            run, view, cluster, scan_s, batches(cluster, listed, want, at_a_time), None, add_generations
        )


@contextmanager
def _connect(run: Invocation, which: Selection, view: DescribeView, scan_s: float) -> Iterator[Refresh]:
    want, named = _reading(run, view, scan_s), named_groups(which)
    with Cluster(run.settings) as cluster:
        _compare_clocks(run, cluster, view)
        yield lambda: _outcomes(run, view, cluster, scan_s, snapshots(run.reporter, cluster, which, want), named)


def _latest_changes(cluster: Cluster) -> Callable[[], OwnChanges]:
    # Imported here: a page of many groups has no verdict.
    from kgroup.changes.own_changes import latest_changes

    return latest_changes(cluster.ref.cluster_id)


def _compare_clocks(run: Invocation, cluster: Cluster, view: DescribeView) -> None:
    """Warn if clocks differ, where ages are shown."""
    if view.judges(run.format):
        warn_of_clocks(run.reporter, cluster)


def _outcomes(
    run: Invocation,
    view: DescribeView,
    cluster: Cluster,
    scan_s: float,
    snapshots: Iterable[Snapshot],
    named: frozenset[str] | None,
    add_generations: Callable[[Sequence[Group]], GroupVerdicts] | None = None,
) -> Outcomes:
    """One outcome per batch of groups; for people one per group, the largest lag first.

    ``add_generations`` is given if there are too many groups for verdicts, and their generations are read already.
    """
    something = False
    said: set[str] = set()
    for snapshot in snapshots:
        something = something or bool(snapshot.groups or snapshot.errors)
        wait_for_ledger = _begin_reading_ledger(run, view, cluster, named) if snapshot.groups else None
        judgement = GroupVerdicts(snapshot.groups)
        if add_generations is not None:
            judgement = add_generations(snapshot.groups)
        elif view.judges(run.format):
            budget_s = view.snapshot_request(run.format, scan_s).generation_budget_s
            judgement = read_verdicts(
                cluster, snapshot.groups, budget_s, _latest_changes(cluster), past=run.format.is_page
            )
        for note in (*snapshot.notes, *judgement.notes):
            if note not in said:
                run.reporter.note(note)
                said.add(note)
        groups = list(with_deliveries(cluster, judgement.groups, scan_s if view.shows_deliveries(run.format) else 0))
        pages = [groups]
        if run.format.is_page:
            groups.sort(key=lambda group: -(group.totals.lag or 0))
            pages = [groups] if view.part is DescribePart.STATE else [[group] for group in groups]
        shown = PendingCatchups()
        if wait_for_ledger is not None:
            ledger, on_page = wait_for_ledger(run.reporter), view.part is DescribePart.PAGE
            shown = PendingCatchups.read(run.format, ledger, groups, on_page=on_page)
        shown.note(run.reporter, (group.name for group in groups))
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
                restore_rate=view.bytes_per_s,
            )
    if not something:
        run.reporter.note("no group is chosen: nothing to do")


def _begin_reading_ledger(
    run: Invocation, view: DescribeView, cluster: Cluster, named: frozenset[str] | None
) -> Callable[[Reporter], LedgerReading] | None:
    """None if pending catch-ups are not shown."""
    if run.format not in (Format.JSON, Format.YAML) and view.part not in (DescribePart.PAGE, DescribePart.OFFSETS):
        return None
    return begin_reading_cached_ledger(run.settings, cluster, named)
