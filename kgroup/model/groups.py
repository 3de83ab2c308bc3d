"""The values that every part of kgroup speaks: groups, members, partitions, log ranges, errors of single rows.

Offsets are integers, unknown is None (never -1), durations carry their unit in the name. A snapshot is what was
read at one moment; nothing in it changes afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgroup.support.errors import ExitCode, KgroupError


@dataclass(frozen=True, slots=True)
class RowError:
    """What failed for one group, topic or partition, while the rest of the answer stands.

    ``exit_code`` is what the command exits with when nothing at all could be shown. ``details`` are lines of
    evidence.
    """

    code: str
    message: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    hint: str | None = None
    exit_code: ExitCode = ExitCode.FAILED
    details: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        error: KgroupError,
        *,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> RowError:
        """The same fault, as one row's."""
        return cls(error.code, error.message, group, topic, partition, error.hint, error.exit_code, error.details)

    @property
    def subject(self) -> str:
        """The group and ``topic:partition`` that it is about, as far as they are known."""
        place = self.topic if self.partition is None else f"{self.topic}:{self.partition}"
        return " ".join(part for part in (self.group, place) if part is not None)


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that keeps a group; ``rack`` is None where it has none."""

    id: int
    host: str
    port: int
    rack: str | None

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"id": self.id, "host": self.host, "port": self.port, "rack": self.rack}


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """Partitions of one topic; ascending in snapshots, as they were written in what is decoded."""

    topic: str
    partitions: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {"topic": self.topic, "partitions": list(self.partitions)}


Assignment = tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    ``epoch`` is the member epoch of the consumer protocol, None on a classic group; -2 is a static member that
    has left for a moment (KIP-848). ``protocol`` is the protocol that the member itself speaks: in a group that
    is being upgraded, classic members stand beside consumer ones. ``subscription``, ``assignment`` and
    ``target_assignment`` are None where the broker does not tell (a classic group that is rebalancing).
    ``target_as_walked`` is the target in the order of the coordinator's hash tables, which decides what moves next
    (uniform); it is not shown, and None where only what was shown is known.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    epoch: int | None
    protocol: str | None
    subscription: tuple[str, ...] | None
    subscription_regex: str | None
    assignment: Assignment | None
    target_assignment: Assignment | None
    target_as_walked: Assignment | None = None

    @property
    def partition_count(self) -> int:
        """How many partitions it holds, those pending revocation included."""
        return sum(len(item.partitions) for item in self.assignment or ())

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "member_id": self.member_id,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "host": self.host,
            "rack": self.rack,
            "epoch": self.epoch,
            "protocol": self.protocol,
            "subscription": None if self.subscription is None else list(self.subscription),
            "subscription_regex": self.subscription_regex,
            "assignment": _assignment_document(self.assignment),
            "target_assignment": _assignment_document(self.target_assignment),
        }


def _assignment_document(assignment: Assignment | None) -> list[dict[str, Any]] | None:
    return None if assignment is None else [item.document() for item in assignment]


@dataclass(frozen=True, slots=True)
class Leaver:
    """A member to be removed: by its instance id where it is static, else by its member id."""

    member_id: str | None
    instance_id: str | None

    def __str__(self) -> str:
        return f"instance {self.instance_id}" if self.instance_id is not None else f"member {self.member_id}"


@dataclass(frozen=True, slots=True)
class Commit:
    """A committed offset: the next record that the group will read. Metadata is kept byte for byte."""

    offset: int
    leader_epoch: int | None
    metadata: str


@dataclass(frozen=True, slots=True)
class LogRange:
    """What a partition holds: [start, end), from the log start offset to the high watermark."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Position:
    """An offset that a leader named, and the leader epoch that goes with it; None where it gave none."""

    offset: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class Positions:
    """Where a log starts and ends, and where a moment that was asked for lies in it.

    ``at_time`` is the first record of that moment or later (ListOffsets); None where there is none, and where
    no moment was asked for.
    """

    start: Position
    end: Position
    at_time: Position | None = None

    @property
    def range(self) -> LogRange:
        """The offsets alone."""
        return LogRange(self.start.offset, self.end.offset)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as a group sees it; ``log`` is None where it could not be read, and ``error`` says why."""

    topic: str
    partition: int
    commit: Commit | None
    log: LogRange | None
    owner: Member | None
    error: str | None

    @property
    def lag(self) -> int | None:
        """Records that are there and not yet read; None without a commit or without the log's range.

        What lies below the log start is gone and does not count: committed 5, log [100, 120) is a lag of 20.
        """
        commit, log = self.commit, self.log
        if commit is None or log is None:
            return None
        first_unread = commit.offset if commit.offset > log.start else log.start
        return log.end - first_unread if log.end > first_unread else 0

    @property
    def out_of_range(self) -> str | None:
        """``BELOW_START`` or ``ABOVE_END`` where the committed offset lies outside the log, else None."""
        commit, log = self.commit, self.log
        if commit is None or log is None:
            return None
        if commit.offset < log.start:
            return "BELOW_START"
        return "ABOVE_END" if commit.offset > log.end else None

    def document(self) -> dict[str, Any]:
        """Its JSON form; ``lag_ms`` and ``last_commit`` are filled where they have been read."""
        commit, log, owner = self.commit, self.log, self.owner
        return {
            "topic": self.topic,
            "partition": self.partition,
            "committed": commit.offset if commit else None,
            "leader_epoch": commit.leader_epoch if commit else None,
            "metadata": commit.metadata if commit else None,
            "log_start": log.start if log else None,
            "log_end": log.end if log else None,
            "lag": self.lag,
            "lag_ms": None,
            "last_commit": None,
            "status": self.out_of_range,
            "member_id": owner.member_id if owner else None,
            "client_id": owner.client_id if owner else None,
            "host": owner.host if owner else None,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """Sums over a group.

    None: no partition's lag is known; the members may not be seen; or they do not tell what they hold, so that
    nobody knows which partitions are without an owner.
    """

    members: int | None
    idle_members: int | None
    partitions: int
    unassigned_partitions: int | None
    lag: int | None


def is_of_consumers(protocol_type: str | None) -> bool:
    """Whether a group may be one of consumers: its protocol type is theirs, is not known, or it only keeps offsets."""
    return protocol_type in (None, "", "consumer")


@dataclass(frozen=True, slots=True)
class Group:
    """A group at one moment.

    ``type`` is classic or consumer. ``generation`` and ``leader`` belong to classic groups and are None where
    ``__consumer_offsets`` could not tell; ``group_epoch`` and ``assignment_epoch`` belong to consumer groups.
    ``protocol_type`` is ``consumer``, "" for a group that only keeps offsets, or another framework's.
    ``members`` is None where this user may not see them. ``hidden_commits`` are commits, by topic and partition, that
    stand in ``__consumer_offsets`` and that the broker did not show, because this user may not DESCRIBE the topic; None
    where it may leave some out and that could not be determined. They are in no ``partitions``.
    """

    name: str
    type: str
    state: str
    protocol_type: str | None
    assignor: str | None
    coordinator: Coordinator | None
    generation: int | None
    leader: str | None
    group_epoch: int | None
    assignment_epoch: int | None
    members: tuple[Member, ...] | None
    partitions: tuple[Partition, ...]
    hidden_commits: tuple[tuple[str, int], ...] | None = ()

    @property
    def is_simple(self) -> bool:
        """Whether it only keeps offsets and has never had members (protocol type "")."""
        return self.type == "classic" and self.protocol_type == ""

    @property
    def is_empty(self) -> bool:
        """Whether nobody is a member. A group whose members may not be seen is what its state says."""
        return self.state in ("Empty", "Dead") and not self.members

    @property
    def totals(self) -> GroupTotals:
        """Counts of members and partitions, and the lag of all partitions whose lag is known."""
        lags = [lag for partition in self.partitions if (lag := partition.lag) is not None]
        members = self.members
        return GroupTotals(
            members=None if members is None else len(members),
            idle_members=None
            if members is None
            else sum(m.assignment is not None and not m.partition_count for m in members),
            partitions=len(self.partitions),
            unassigned_partitions=None
            if members is None or any(member.assignment is None for member in members)
            else sum(partition.owner is None for partition in self.partitions),
            lag=sum(lags) if lags else None,
        )

    def document(self) -> dict[str, Any]:
        """Its JSON form; the fields and their meaning are in README."""
        totals = self.totals
        return {
            "group": self.name,
            "type": self.type,
            "state": self.state,
            "protocol_type": self.protocol_type,
            "assignor": self.assignor,
            "coordinator": self.coordinator.document() if self.coordinator else None,
            "generation": self.generation,
            "leader": self.leader,
            "group_epoch": self.group_epoch,
            "assignment_epoch": self.assignment_epoch,
            "members": None if self.members is None else [member.document() for member in self.members],
            "partitions": [partition.document() for partition in self.partitions],
            "hidden_commits": places_document(self.hidden_commits),
            "verdict": None,
            "totals": {
                "members": totals.members,
                "idle_members": totals.idle_members,
                "partitions": totals.partitions,
                "unassigned_partitions": totals.unassigned_partitions,
                "lag": totals.lag,
            },
        }


def places_document(places: Sequence[tuple[str, int]] | None) -> list[dict[str, Any]] | None:
    """Partitions in JSON."""
    return None if places is None else [{"topic": topic, "partition": number} for topic, number in places]


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A line of ``kgroup list``. ``members`` is None for kinds of groups that kgroup does not describe."""

    name: str
    type: str
    state: str
    protocol_type: str | None
    coordinator: Coordinator | None
    members: int | None = None

    def document(self) -> dict[str, Any]:
        """Its JSON form."""
        return {
            "group": self.name,
            "type": self.type,
            "state": self.state,
            "protocol_type": self.protocol_type,
            "coordinator": self.coordinator.document() if self.coordinator else None,
            "members": self.members,
        }


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A commit as ``__consumer_offsets`` holds it.

    ``leader_epoch`` is None where the committer gave none, ``timestamp_ms`` the broker's clock, ``log_offset``
    where the record stands in its partition of the topic. ``metadata`` tells whose commit it is, where it says so.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    timestamp_ms: int
    log_offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Activity:
    """What an Empty group's log shows since the group became Empty.

    ``emptied_at_ms`` is the time of the record that made it so, None where that was not found in the span that
    was read. ``commits`` are those behind it (or in the span), in the log's order; deleted ones and those of
    aborted transactions are left out. ``complete`` is whether nothing is missing of them.
    """

    emptied_at_ms: int | None
    commits: tuple[LoggedCommit, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class Activities:
    """The activity of many groups, by name; ``note`` says of how many it is not known, None of none."""

    found: Mapping[str, Activity]
    note: str | None


@dataclass(frozen=True, slots=True)
class LastSigns:
    """When groups last gave a sign of life (ms since 1970), by name; None: not as far back as was asked for.

    A group that is not in it is unknown, and ``note`` says why.
    """

    found: Mapping[str, int | None]
    note: str | None
