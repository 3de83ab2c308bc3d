"""``kgroup peek``: the records at and around a committed offset, or any other offset. It changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from msgspec.structs import replace

from kgroup.cli.panels import what_option, which_option
from kgroup.cluster.snapshot import Cluster
from kgroup.groups.lag.evidence import Isolation
from kgroup.groups.peek import (
    LogEdge,
    PeekedPartition,
    PeekRequest,
    PeekTarget,
    lines_of,
    parse_partitions,
    parse_peek_offset,
)
from kgroup.groups.reset_targets import TopicChoice, parse_topics
from kgroup.groups.selection import Groups, check_groups, check_topics
from kgroup.model.json_lines import ValueFormat
from kgroup.model.outcome import Outcome
from kgroup.output.pages.peek import PeekView, notes, outcome
from kgroup.queries.peek import PeekSelection, read_partitions, select_targets
from kgroup.settings.clients import librdkafka_config
from kgroup.settings.invocation import Invocation
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.errors import UsageError

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class PeekSubject:
    subject: Annotated[
        str | None,
        typer.Argument(metavar="[GROUP|TOPIC:P]", help="A group, or partitions: orders:3.", show_default=False),
    ] = None
    group: Annotated[
        str | None, which_option("--group", metavar="GROUP", help="The group, if its name has the form of a partition.")
    ] = None
    topic: Annotated[
        list[str] | None,
        which_option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            help="Partitions of the group instead of its stuck ones: orders:0,1 (repeatable).",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class PeekOptions:
    """Which records are read, and how they are written."""

    offset: Annotated[
        str | None,
        what_option(
            "--offset",
            metavar="N|earliest|latest",
            help="Read from here instead of the committed offset; latest shows the last records.",
        ),
    ] = None
    before: Annotated[
        int, what_option("--before", metavar="N", min=0, max=_MOST, help="Also show N records before it (default: 0).")
    ] = 0
    count: Annotated[
        int,
        what_option(
            "--count", "-n", metavar="N", min=1, max=_MOST, help="Show N records of each partition (default: 3)."
        ),
    ] = 3
    isolation: Annotated[
        Isolation,
        what_option(
            "--isolation",
            metavar="read_committed|read_uncommitted",
            help="read_uncommitted also shows records of open and aborted transactions (default: read_committed).",
        ),
    ] = Isolation.READ_COMMITTED
    value_format: Annotated[
        ValueFormat,
        what_option("--value-format", metavar="text|json|hex|base64", help="How values are written (default: text)."),
    ] = ValueFormat.TEXT
    to: Annotated[str | None, what_option("--to", metavar="FILE", help="Also write the records to a new file.")] = None
    verbose: Annotated[bool, what_option("--verbose", "-v", help="Show whole values in the table.")] = False


def peek(run: Invocation, which: PeekSubject, options: PeekOptions) -> Outcome:
    """Show the records at the committed offset.

    For a group, it shows the records of the stuck partitions, and which of them the group cannot process, as far as
    its commits show it. A client that commits at delivery may fail at the record before the committed offset, which is
    then shown too. A group without stuck partitions shows those with unread records. For a share group, it shows the
    newest records on their last attempt, those that are archived, and those that came back.

    TOPIC:P is read without a group: the last records, or from --offset on. The output is a table in a terminal, and one
    line of JSON per record in a pipe, as --save-skipped writes it. Nothing is committed.

    Examples:
    # the record that a group cannot process
    kgroup peek orders-svc
    # more records of one partition
    kgroup peek orders-svc --topic orders:3 --before 2 -n 5
    # one record, by its offset
    kgroup peek orders:3 --offset 4711 -n 1 --value-format hex
    # JSON values for another program
    kgroup peek orders-svc --value-format json | jq .value
    # save records to a file
    kgroup peek orders:3 --offset earliest -n 1000 --to records.jsonl

    Exit codes: 0 2 3 4 5 6 7

    Rights: READ T; with a group DESCRIBE G
    More rights: READ __consumer_offsets: which partitions are stuck; READ __share_group_state: deliveries of share
    groups
    """
    group, partitions, topics = _parse_subject(which)
    offset = parse_peek_offset(options.offset)
    if group is None and offset is None:
        offset = LogEdge.LATEST
    request = PeekRequest(offset, options.before, options.count, options.isolation)
    file = _file(options)
    with Cluster(run.settings) as cluster:
        chosen = PeekSelection(tuple(PeekTarget(*tp) for tp in partitions))
        if group is not None:
            by_deliveries = offset is None and not options.before
            chosen = select_targets(run.reporter, cluster, group, topics, by_deliveries=by_deliveries)
        if isinstance(offset, int) and len(chosen.targets) > 1:
            raise UsageError(
                f"--offset {offset} requires one partition, and {len(chosen.targets)} are selected",
                hint="--topic TOPIC:P selects one.",
            )
        delivered = None
        if chosen.share is not None and group is not None:
            # Imported here: not needed for other groups.
            from kgroup.queries.peek_deliveries import deliveries_reader, isolation_of

            delivered = deliveries_reader(run.reporter, cluster, chosen.share, group, run.settings.timeout_s)
            request = replace(request, isolation=isolation_of(chosen.share) or request.isolation)
        peeked, errors = read_partitions(
            cluster,
            librdkafka_config(run.settings),
            chosen.targets,
            request,
            options.value_format,
            timeout_s=run.settings.timeout_s,
            delivered=delivered,
        )
        if delivered is not None and not (peeked or errors or chosen.errors):
            run.reporter.note(f"no record of {group} is known to be retried, or archived and in no dead-letter topic")
        if file is not None:
            _write(file, peeked)
        if not run.format.is_page:
            for each in peeked:
                for note in notes(each, empty=not each.records):
                    run.reporter.note(f"{each.target.tp}: {note[0].lower()}{note[1:].rstrip('.')}")
        view = PeekView(verbose=options.verbose, stuck=chosen.stuck, written_to=options.to)
        return outcome(peeked, (*chosen.errors, *errors), cluster.ref, view)


def _parse_subject(
    which: PeekSubject,
) -> tuple[str | None, Sequence[tuple[str, int]], Sequence[TopicChoice] | None]:
    """(group, partitions without a group, partitions of the group). Raises UsageError."""
    if which.subject is not None and which.group is not None:
        raise UsageError(f"{which.subject} and --group are mutually exclusive")
    if which.subject is None and which.group is None:
        raise UsageError("name a group or a partition", hint="kgroup peek GROUP, or kgroup peek TOPIC:P")
    if which.subject is not None and (partitions := parse_partitions(which.subject)) is not None:
        if which.topic:
            raise UsageError(f"--topic requires a group, and {which.subject} is a partition")
        return None, partitions, None
    group = which.subject if which.group is None else which.group
    assert group is not None
    check_groups(Groups(names=[group]))
    topics = parse_topics(which.topic) if which.topic else None
    check_topics(choice.topic for choice in topics or ())
    return group, (), topics


def _file(options: PeekOptions) -> AtomicFile | None:
    if options.to is None:
        return None
    if options.to == "-":
        raise UsageError("--to - is not a file", hint="-o jsonl writes the records to stdout.")
    file = AtomicFile(options.to, "--to")
    file.check()
    return file


def _write(file: AtomicFile, peeked: Sequence[PeekedPartition]) -> None:
    with file as stream:
        try:
            stream.writelines(lines_of(peeked))
        except OSError as error:
            raise file.failure(error) from error
