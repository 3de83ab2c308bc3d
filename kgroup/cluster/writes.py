"""Change groups: commit and delete offsets, delete groups, remove members.

Each row has its own result: None for done, else the error. The broker refuses an administrator's OffsetCommit to a
group that has members, for each partition. So a member that joins between our check and our commit loses nothing.
A write whose response was lost may have been stored; it is read back before it is tried again or reported (both were
seen on brokers that were killed).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import LeaveGroupRequest, OffsetDeleteRequest

from kgroup.cluster.broker_errors import GROUP_ID_NOT_FOUND, NONE, UNKNOWN_MEMBER_ID, change_error
from kgroup.cluster.checkpoints.queries import NOT_A_GROUP
from kgroup.cluster.commit_requests import CommitPart, Offsets, commit_request, commit_rows
from kgroup.cluster.coordinator import schemas
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S
from kgroup.cluster.coordinator.groups import SETTLING_S, GroupCoordinators
from kgroup.cluster.coordinator.offset_fetch import CommittedOffsets
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_descriptions import describe_groups
from kgroup.cluster.lost_responses import (
    MAYBE_LATER,
    MAYBE_STORED,
    UNSURE,
    NoResponse,
    send_to_coordinator,
    unknown_outcome,
)
from kgroup.cluster.snapshot import Cluster
from kgroup.model.commit import Commit
from kgroup.model.groups import MemberToRemove
from kgroup.model.streaming_query import QueryChanges, commits_of, is_query
from kgroup.model.topic_partition import TopicPartition
from kgroup.settings.model import Settings
from kgroup.support.errors import MOVED_SINCE, KgroupError, NotFound, Refused, refusal_code
from kgroup.support.hint import Hint

if TYPE_CHECKING:
    from kgroup.cluster.checkpoints.query_membership import QueryMembership
    from kgroup.cluster.membership.conversion import Conversion
    from kgroup.cluster.membership.exclusive import ExclusiveMembership
    from kgroup.cluster.offsets_topic.commits import CommitHistory

NO_MEMBER = refusal_code(
    "no-member", "evict", "The member has left the group meanwhile.", "Nothing: the member is no longer in the group."
)


class DeleteGroupsRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 42."""


class DeleteGroupsResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 42. kafka-python's class is imported before this one, which replaces it for decoding."""


class ChangingCluster(Cluster):
    """An open connection to a cluster for reading and changing it. Only commands that change something open one.

    A result that is None means done. ``query_changes`` is how streaming queries are changed.
    """

    def __init__(self, settings: Settings) -> None:
        """Connect, as ``Cluster``."""
        super().__init__(settings)
        self.query_changes = QueryChanges()

    def write_offsets(self, parts: Sequence[CommitPart]) -> list[dict[TopicPartition, KgroupError | None]]:
        """Commit in parallel, or delete where the new commit is None. Returns the results of each part by partition."""
        of_groups = [part for part in parts if not is_query(part.group)]
        written = iter(self._ask(self._in_parallel, self._write, of_groups) if of_groups else ())
        return [self._move_query(part) if is_query(part.group) else next(written) for part in parts]

    def delete_groups(
        self, groups: Mapping[str, Offsets], share: Collection[str] = ()
    ) -> dict[str, KgroupError | None]:
        """Delete groups (DeleteGroups) with all their offsets, which are given. A group with members is refused.

        ``share`` are the share groups among them.
        """
        parts = [CommitPart(name, dict.fromkeys(old), old, name in share) for name, old in groups.items()]
        return dict(zip(groups, self._ask(self._in_parallel, self._delete, parts), strict=True))

    def can_change_share_groups(self) -> bool:
        """Whether the brokers can change share groups, as those of Kafka 4.2 and later can."""
        from kgroup.cluster.coordinator.share_groups import supports_changes

        return supports_changes(self._coordinators)

    def remove_members(self, group: str, members: Sequence[MemberToRemove]) -> dict[MemberToRemove, KgroupError | None]:
        """Remove members by instance id or member id (LeaveGroup v3, KIP-345), on both types of groups."""
        results: dict[MemberToRemove, KgroupError | None] = self._ask(self._remove, group, members)
        return results

    def convert(self, targets: Mapping[str, str]) -> dict[str, KgroupError | None]:
        """Convert each group, which must be Empty, to the given type (``consumer``, ``classic``). None: converted.

        If another member joins meanwhile, the result is Refused [joined-meanwhile]; nothing is lost.
        """
        return self._ask(self._conversion().convert, targets)

    def remove_own_members(self, groups: Mapping[str, Sequence[str]]) -> dict[str, KgroupError | None]:
        """Remove members that a killed conversion left in groups (``kgroup.model.migration_facts.is_own_member``)."""
        return self._ask(self._conversion().remove, groups)

    def join_exclusively(
        self, group: str, kind: str | None, partitions: Iterable[TopicPartition]
    ) -> ExclusiveMembership:
        """A context manager: inside it we are the only member of an Empty group, and own these partitions.

        ``kind`` is the type that the group must have, None: any.
        """
        # Imported here: only a catch-up needs it.
        from kgroup.cluster.membership.exclusive import ExclusiveMembership

        return ExclusiveMembership(self._coordinators, self._ask, self._timeout_s, group, kind, partitions)

    def end_of_commits(self, group: str) -> int:
        """As for groups; of a streaming query, the number of its next batch."""
        if not is_query(group):
            return super().end_of_commits(group)
        query = self.queries.read_again(group)
        return max((batch.number + 1 for batch in (query.done, query.planned) if batch is not None), default=0)

    def commits_since(self, group: str, position: int, budget_s: float) -> CommitHistory:
        """As for groups; of a streaming query, its done batches from this number on."""
        if not is_query(group):
            return super().commits_since(group, position, budget_s)
        from kgroup.cluster.offsets_topic.commits import CommitHistory

        query = self.queries.read_again(group)
        commits = tuple(commit for commit in commits_of(query) if commit.log_offset >= position)
        pruned = bool(query.batches) and query.batches[0].number > position
        return CommitHistory(commits, (), self.end_of_commits(group), compacted=pruned, unread=None)

    def query_membership(self, name: str) -> QueryMembership:
        """What ``join_exclusively`` is of a group, for a streaming query, which has no members."""
        from kgroup.cluster.checkpoints.query_membership import QueryMembership

        return QueryMembership(self.queries, name, self.query_changes, self.now_ms)

    def _move_query(self, part: CommitPart) -> dict[TopicPartition, KgroupError | None]:
        query = self.query_membership(part.group)
        writes = {tp: commit for tp, commit in part.writes.items() if commit is not None}
        results: dict[TopicPartition, KgroupError | None] = dict.fromkeys(part.writes, _KEEPS_A_POSITION)
        try:
            now = query.committed()
        except KgroupError as error:
            return dict.fromkeys(part.writes, error)
        if moved := next((tp for tp, old in part.old.items() if now.get(tp) != old), None):
            current = now.get(moved)
            assert not isinstance(current, KgroupError)
            return dict.fromkeys(part.writes, _changed_meanwhile(part.group, current))
        return results | (query.commit(writes) if writes else {})

    def _conversion(self) -> Conversion:
        # Imported here: only migrate and its undo need it.
        from kgroup.cluster.membership.conversion import Conversion

        return Conversion(self._coordinators, self._timeout_s)

    async def _in_parallel(self, change: Callable[[Any], Any], subjects: Iterable[Any]) -> list[Any]:
        return await self._client.gather(change(subject) for subject in subjects)

    async def _write(self, part: CommitPart) -> dict[TopicPartition, KgroupError | None]:
        commits = {tp: commit for tp, commit in part.writes.items() if commit is not None}
        deletions = [tp for tp, commit in part.writes.items() if commit is None]
        start, start_rows, delete, delete_rows = (
            (commit_request, commit_rows, _offset_delete_request, _offset_delete_rows)
            if not part.share
            else _requests_of_share_groups()
        )
        if part.share and not part.creates:
            # It must exist: the broker would create it.
            from kgroup.cluster.coordinator.share_groups import describe_share

            described = (await describe_share(self._coordinators, [part.group]))[part.group]
            if isinstance(described, KgroupError):
                return dict.fromkeys(part.writes, described)
        results: dict[TopicPartition, KgroupError | None] = {}
        if commits:
            results |= await self._write_until_known(
                part, commits, lambda left: start(part.group, {tp: commits[tp] for tp in left}), start_rows, "Read"
            )
        if deletions:
            results |= await self._write_until_known(
                part, deletions, lambda left: delete(part.group, left), delete_rows, "Delete"
            )
        return results

    async def _write_until_known(
        self,
        part: CommitPart,
        partitions: Iterable[TopicPartition],
        make_request: Callable[[list[TopicPartition]], Any],
        rows: Callable[[Any, list[TopicPartition]], Iterable[tuple[TopicPartition, int]]],
        operation: str,
    ) -> dict[TopicPartition, KgroupError | None]:
        """Write until each partition has a result; what may have been stored is read back before it is tried again."""
        results: dict[TopicPartition, KgroupError | None] = {}
        pending = list(partitions)
        # A request may still be in flight, or in a log whose followers are missing, and take effect after we return.
        deadline, maybe_stored, maybe_later = self._client.deadline, False, False
        while pending:
            answer = await self._to_coordinator(part.group, make_request(pending))
            if isinstance(answer, KgroupError):
                return results | dict.fromkeys(pending, answer)
            unknown: dict[TopicPartition, KgroupError] = {}
            if isinstance(answer, NoResponse):
                unknown = dict.fromkeys(pending, answer.reason)
                maybe_stored |= answer.sent
                maybe_later |= answer.sent
            else:
                for tp, code in rows(answer, pending):
                    if code in UNSURE:
                        unknown[tp] = change_error(code, part.group, tp.topic)
                        maybe_stored |= code in MAYBE_STORED
                        maybe_later |= code in MAYBE_LATER
                    else:
                        results[tp] = None if code == NONE else change_error(code, part.group, tp.topic, operation)
            if not unknown:
                break
            self._coordinators.invalidate(part.group)
            await self._client.sleep(RETRY_PAUSE_S)
            if maybe_stored:
                pending, known = await self._read_back(part, unknown, deadline, maybe_later=maybe_later)
                results |= known
            elif deadline.passed:
                return results | unknown
            else:
                pending = list(unknown)
        return results

    async def _read_back(
        self, part: CommitPart, unknown: Mapping[TopicPartition, KgroupError], deadline: Deadline, *, maybe_later: bool
    ) -> tuple[list[TopicPartition], dict[TopicPartition, KgroupError | None]]:
        """(partitions to try again because nothing was stored, known results) for writes without a response.

        ``maybe_later`` means that the request may still be stored later.
        """
        committed = await self._fetch_written(part, unknown)
        if isinstance(committed, KgroupError):
            return [], {tp: unknown_outcome(reason) for tp, reason in unknown.items()}
        again: list[TopicPartition] = []
        known: dict[TopicPartition, KgroupError | None] = {}
        for tp, reason in unknown.items():
            current = committed.get(tp)
            if isinstance(current, KgroupError):
                known[tp] = unknown_outcome(reason)
            elif current != part.old.get(tp):
                known[tp] = None if current == part.writes[tp] else _changed_meanwhile(part.group, current)
            elif deadline.passed:
                known[tp] = unknown_outcome(reason) if maybe_later else reason
            else:
                again.append(tp)
        return again, known

    async def _fetch_written(
        self, part: CommitPart, partitions: Iterable[TopicPartition]
    ) -> CommittedOffsets | KgroupError:
        """The committed offsets now; read again a second later if they differ from what was written.

        After a failover, the new coordinator may not know at once what the old one acknowledged.
        """
        coordinators = self._to_read_back()
        for second in (False, True):
            if second:
                await coordinators.client.sleep(SETTLING_S)
            try:
                committed = (await self._read_commits(coordinators, part))[part.group]
            except KgroupError as error:
                return error
            if isinstance(committed, KgroupError) or all(committed.get(p) == part.writes[p] for p in partitions):
                break
        return committed

    async def _read_commits(
        self, coordinators: GroupCoordinators, part: CommitPart
    ) -> dict[str, CommittedOffsets | KgroupError]:
        if not part.share:
            return await coordinators.committed([part.group])
        from kgroup.cluster.coordinator.share_groups import settled_starts

        return await settled_starts(coordinators, [part.group])

    def _to_read_back(self) -> GroupCoordinators:
        """The coordinators, with a new deadline if less than twice SETTLING_S is left."""
        if self._client.deadline.left_s >= 2 * SETTLING_S:
            return self._coordinators
        return self._coordinators.within(Deadline.after(self._timeout_s))

    async def _to_coordinator(self, group: str, request: Any) -> Any:
        return await send_to_coordinator(self._coordinators, group, request)

    async def _delete(self, part: CommitPart) -> KgroupError | None:
        group = part.group
        deadline, maybe_later = self._client.deadline, False
        while True:
            answer = await self._to_coordinator(group, DeleteGroupsRequest(groups_names=[group]))
            if isinstance(answer, KgroupError):
                return answer
            if not isinstance(answer, NoResponse):
                row = answer.results[0]
                code = row.error_code
                # An earlier request that seemed lost may have deleted it meanwhile.
                if code == NONE or (maybe_later and code == GROUP_ID_NOT_FOUND):
                    return None
                if code not in UNSURE:
                    return change_error(code, group, operation="Delete", message=row.error_message)
                answer = NoResponse(partial(change_error, code, group), sent=code in MAYBE_LATER)
            maybe_later |= answer.sent
            self._coordinators.invalidate(group)
            await self._client.sleep(RETRY_PAUSE_S)
            result = await self._verify_deletion(part, answer.reason)
            if result is not answer.reason:
                return result
            if deadline.passed:
                return unknown_outcome(answer.reason) if maybe_later else answer.reason

    async def _verify_deletion(self, part: CommitPart, reason: KgroupError) -> KgroupError | None:
        """The result of a deletion without a response; ``reason`` itself if the group is unchanged.

        A group of that name that was created again meanwhile is not deleted.
        """
        group, old = part.group, part.old
        committed = await self._fetch_written(part, old)
        if isinstance(committed, KgroupError):
            return unknown_outcome(reason)
        current = {tp: commit for tp, commit in committed.items() if isinstance(commit, Commit)}
        described = None if current else (await describe_groups(self._to_read_back(), [group], {}))[group]
        if isinstance(described, NotFound):
            return None
        if isinstance(described, KgroupError) or len(current) < len(committed):
            return unknown_outcome(reason)
        if current != {tp: commit for tp, commit in old.items() if commit}:
            return Refused(
                "a client uses the group again",
                code=MOVED_SINCE,
                hint=Hint("see its members: {}", ("describe", group)),
            )
        return reason

    async def _remove(self, group: str, members: Sequence[MemberToRemove]) -> dict[MemberToRemove, KgroupError | None]:
        results: dict[MemberToRemove, KgroupError | None] = {}
        pending, lost = list(members), False
        while pending:
            answer = await self._to_coordinator(group, _leave_request(group, pending))
            if isinstance(answer, KgroupError):
                return results | dict.fromkeys(pending, answer)
            if isinstance(answer, NoResponse) or answer.error_code in UNSURE:
                reason = answer.reason if isinstance(answer, NoResponse) else change_error(answer.error_code, group)
                if self._client.deadline.passed:
                    return results | dict.fromkeys(pending, reason)
                lost = True
                self._coordinators.invalidate(group)
                await self._client.sleep(RETRY_PAUSE_S)
                continue
            if answer.error_code != NONE:
                return results | dict.fromkeys(pending, change_error(answer.error_code, group))
            for member, row in zip(pending, answer.members, strict=True):
                gone = row.error_code == NONE or (lost and row.error_code == UNKNOWN_MEMBER_ID)
                results[member] = None if gone else _not_removed(row.error_code, group, member)
            pending = []
        return results


_KEEPS_A_POSITION = Refused("a streaming query has a position in every partition that it knows", code=NOT_A_GROUP)


def _changed_meanwhile(group: str, current: Commit | None) -> KgroupError:
    now = "no commit" if current is None else f"committed offset {current.offset}"
    return Refused(
        f"another client changed it while this was written: {now}",
        code=MOVED_SINCE,
        hint=Hint("see its members: {}", ("describe", group)),
    )


def _not_removed(code: int, group: str, member: MemberToRemove) -> KgroupError:
    if code == UNKNOWN_MEMBER_ID:
        return Refused(
            f"{member} is not a member (any more)", code=NO_MEMBER, hint=Hint("{}", ("describe", group, "--members"))
        )
    return change_error(code, group)


def _offset_delete_request(group: str, partitions: Iterable[TopicPartition]) -> Any:
    entry = OffsetDeleteRequest.OffsetDeleteRequestTopic
    topics: dict[str, list[Any]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(entry.OffsetDeleteRequestPartition(partition_index=number))
    return OffsetDeleteRequest(
        group_id=group, topics=[entry(name=topic, partitions=rows) for topic, rows in topics.items()]
    )


def _offset_delete_rows(answer: Any, partitions: list[TopicPartition]) -> Iterator[tuple[TopicPartition, int]]:
    if answer.error_code != NONE:
        yield from ((tp, answer.error_code) for tp in partitions)
        return
    yield from commit_rows(answer, partitions)


def _leave_request(group: str, members: Iterable[MemberToRemove]) -> Any:
    identity = LeaveGroupRequest.MemberIdentity
    return LeaveGroupRequest(
        group_id=group,
        members=[
            identity(
                member_id=member.member_id or "",
                group_instance_id=member.instance_id,
                reason="removed with kgroup evict",
            )
            for member in members
        ],
        min_version=3,
    )


def _requests_of_share_groups() -> tuple[Callable[..., Any], ...]:
    """To set and to delete start offsets, each with what reads its rows."""
    # Imported here: only a change of a share group needs them.
    from kgroup.cluster.coordinator.share_offset_writes import (
        deletion_request,
        deletion_rows,
        start_request,
        start_rows,
    )

    return start_request, start_rows, deletion_request, deletion_rows
