"""``kgroup list``: every group that the cluster knows, of every type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kgroup.cli.panels import which_option
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.selection import Selection, check_selection
from kgroup.model.outcome import Outcome
from kgroup.output.pages.list import list_outcome
from kgroup.queries.activity_listing import ActivityListing, read_listing
from kgroup.queries.log_options import FromLog, warn_of_clocks
from kgroup.settings.invocation import Invocation
from kgroup.support.durations import parse_duration
from kgroup.support.errors import UsageError


@dataclass(frozen=True, slots=True)
class ListFilter:
    """The broker whose groups are listed, and how long they must have been idle."""

    coordinator: Annotated[
        int | None,
        which_option(
            "--coordinator",
            metavar="BROKER",
            help="Only groups coordinated by this broker; with --from-log the broker may be down.",
        ),
    ] = None
    idle_for: Annotated[
        str | None,
        which_option(
            "--idle-for",
            metavar="DURATION",
            help="Only groups without a commit, or a change of members, for this long.",
        ),
    ] = None


def list_(run: Invocation, which: Selection, only: ListFilter, source: FromLog) -> Outcome:
    """List groups: type, state, members, how long they are idle.

    IDLE is the time since a group's newest commit or change of members. Share and streams groups are listed too.
    --coordinator BROKER lists the groups that a failure of this broker affects. With --from-log, kgroup reads them from
    the partitions of __consumer_offsets that the broker leads, or led until it went down.

    Examples:
    # all groups
    kgroup list
    # groups that could be deleted
    kgroup list --in-state Empty --idle-for 8d
    # the names of the groups of a topic, for a script
    kgroup list --topic orders -o name
    # the groups of a broker that is down
    kgroup list --coordinator 2 --from-log

    Exit codes: 0 2 3 4 5 6 7

    Rights: DESCRIBE G; or DESCRIBE cluster: all groups, without their members (exit code 7)
    More rights: both: all groups, with members; READ __consumer_offsets: how long they are idle
    """
    check_selection(which)
    idle_s = None if only.idle_for is None else parse_duration(only.idle_for, "--idle-for")
    if source != FromLog():
        if idle_s is not None:
            raise UsageError(
                "--from-log and --idle-for are mutually exclusive", hint="the column IDLE shows it for each group"
            )
        return _from_log(run, which, only.coordinator, source)
    with Cluster(run.settings) as cluster:
        warn_of_clocks(run.reporter, cluster)
        listed = read_listing(run.reporter, cluster, which, only.coordinator, idle_s)
        return _outcome(cluster, listed)


def _from_log(run: Invocation, which: Selection, broker: int | None, source: FromLog) -> Outcome:
    # Imported here: rarely used.
    from kgroup.queries.from_log import check_bounds, read_logged_listing

    check_bounds(source, reads=source.from_log)
    with Cluster(run.settings) as cluster:
        warn_of_clocks(run.reporter, cluster)
        return _outcome(cluster, read_logged_listing(run.reporter, cluster, which, broker, source), from_log=True)


def _outcome(cluster: Cluster, listed: ActivityListing, *, from_log: bool = False) -> Outcome:
    return list_outcome(
        listed.groups, listed.active_ms, cluster.ref, cluster.now_ms(), listed.errors, from_log=from_log
    )
