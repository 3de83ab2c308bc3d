"""The groups that a command changes: those that were read, those to be created, and the failures. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kgroup.model.groups import Group, RowError
from kgroup.model.topic_partition import GroupTopicPartition


@dataclass(frozen=True, slots=True)
class SelectedGroups:
    """Groups with their commits, and failures. ``created`` are the names of groups that do not exist yet."""

    groups: tuple[Group, ...]
    errors: tuple[RowError, ...]
    created: frozenset[str] = frozenset()

    @property
    def unread(self) -> dict[GroupTopicPartition, RowError]:
        """The errors of commits that could not be read, by (group, topic, partition)."""
        return {
            (error.group, error.topic, error.partition): error
            for error in self.errors
            if error.group is not None and error.topic is not None and error.partition is not None
        }

    @property
    def names(self) -> tuple[str, ...]:
        """All names; those of groups to be created come last."""
        return (*(group.name for group in self.groups), *sorted(self.created))


def without_unread_groups(
    groups: Iterable[Group], errors: Sequence[RowError], created: Collection[str] = ()
) -> SelectedGroups:
    """The groups without those that failed as a whole: these cannot be changed, even with --partial."""
    unread = {error.group for error in errors if error.topic is None}
    return SelectedGroups(
        tuple(group for group in groups if group.name not in unread), tuple(errors), frozenset(created)
    )
