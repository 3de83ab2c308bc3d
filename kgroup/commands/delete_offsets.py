"""``kgroup delete-offsets``: delete what groups have committed on a topic."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kgroup.changes.delete_offsets import plan_delete_offsets
from kgroup.changes.options import Change
from kgroup.changes.preconditions import check_some_named, prepare_change
from kgroup.changes.select_groups import groups_to_change, reload_groups
from kgroup.cli.panels import what_option
from kgroup.cluster.writes import ChangingCluster
from kgroup.commands.make_change import make_change
from kgroup.groups.reset_targets import parse_topics
from kgroup.groups.selection import Groups, check_groups, check_topics, names_of
from kgroup.model.outcome import Outcome
from kgroup.output.pages.change import Wording, outcome
from kgroup.settings.invocation import Invocation
from kgroup.support.errors import UsageError
from kgroup.support.units import some_of


def delete_offsets(
    run: Invocation,
    groups: Groups,
    how: Change,
    topic: Annotated[
        list[str] | None,
        what_option(
            "--topic",
            "-t",
            metavar="TOPIC[:P,...]",
            help="The topic, or some of its partitions: orders:0,1 (repeatable).",
        ),
    ] = None,
    verbose: Annotated[bool, what_option("--verbose", "-v", help="Show every partition.")] = False,
) -> Outcome:
    """Delete a group's committed offsets of a topic.

    A running group keeps the offsets of topics to which a member is subscribed (GROUP_SUBSCRIBED_TO_TOPIC). Offsets of
    other topics can be deleted while the group runs. If the group reads the topic again later, it starts at its
    auto.offset.reset. kgroup undo restores the offsets, once the group is Empty.

    A share group must be Empty, and loses the start offsets of a whole topic. Its next start is decided by its setting
    share.auto.offset.reset: by default records that are not done are passed over. Patterns choose share groups with
    --type share only.

    Examples:
    # the plan for one group
    kgroup delete-offsets orders-svc --topic orders-old
    # delete the offsets of a topic in all groups
    kgroup delete-offsets --all-groups --topic orders-old --execute

    Exit codes: 0 2 3 4 5 6 7 9 130 143

    Rights: DELETE G; READ T
    More rights: READ G: undo; DESCRIBE_CONFIGS G: where a share group starts next
    """
    check_groups(groups)
    if not topic:
        raise UsageError("--topic is required", hint="--topic TOPIC, or --topic TOPIC:0,1")
    topics = parse_topics(topic)
    check_topics(choice.topic for choice in topics)
    check_some_named(groups)
    prepare_change(run, how)
    with ChangingCluster(run.settings) as cluster:
        selected = groups_to_change(run.reporter, cluster, groups, [choice.topic for choice in topics], verb=run.verb)
        change, result = make_change(
            run,
            cluster,
            how,
            plan_delete_offsets(cluster, selected, topics, names_of(groups)),
            lambda: plan_delete_offsets(cluster, reload_groups(cluster, selected), topics, names_of(groups)),
        )
    plan = change.plan
    live = {group.name for group in plan.groups if not group.is_empty} & {row.group for row in plan.rows}
    wording = Wording("delete-offsets", change.context.subject, run.command_line, verbose=verbose)
    if live and not result.errors and not how.wait_empty:
        when = f"once {some_of(sorted(live))} {'is' if len(live) == 1 else 'are'} Empty"
        wording = replace(wording, undo_when=when, instead=f"kgroup undo restores the offsets only {when}.")
    return outcome(
        result,
        wording,
        cluster.ref,
        run.reporter,
        run.command,
        nothing="nothing to do: no group has committed offsets there",
    )
