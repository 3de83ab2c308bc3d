"""List and describe groups, and read their committed offsets: one request per coordinator, not per group.

Results are keyed by group id. A group that failed has its KgroupError as the value, so a failed coordinator affects
only its own groups. Coordinators that are loading or moving are asked again until the deadline.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from kafka.errors import KafkaTimeoutError, RequestTimedOutError
from kafka.protocol.admin.cluster import DescribeClusterRequest
from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from kgroup.cluster.broker_errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_ID_NOT_FOUND,
    NONE,
    RETRIABLE_COORDINATOR_ERRORS,
    UNSUPPORTED_VERSION,
    behind_group,
    group_error,
)
from kgroup.cluster.consumer_protocol import decode_assignment, decode_subscription
from kgroup.cluster.coordinator import schemas
from kgroup.cluster.coordinator.client import RETRY_PAUSE_S, Broker, CoordinatorClient
from kgroup.cluster.coordinator.offset_fetch import CommitsRequest, CommittedOffsets
from kgroup.cluster.deadline import Deadline
from kgroup.cluster.group_partition import OFFSETS_TOPIC, partition_of, probe_groups
from kgroup.cluster.topics import behind_request, offsets_topic_layout, partitions_behind
from kgroup.model.groups import Assignment, Coordinator, ListedGroup, Member, TopicPartitions, sorted_assignment
from kgroup.model.streams_group import StreamsGroup
from kgroup.model.topic_partition import TopicPartition
from kgroup.support.errors import KgroupError, NotAuthorized, NotFound, Unreachable
from kgroup.support.units import plural

SETTLING_S = 1.0
"""After a coordinator has moved, the new one may answer without the latest commits for 0.4 s (seen)."""

_CATCH_UP_S = 5.0
"""How long a new coordinator is asked again until it is up to date. Followers take 0.1 to 1 s for it (seen); with too
few replicas in sync it takes until one comes back."""

_IDS_PER_REQUEST = 1000
_CONSUMER_GROUP_DESCRIBE = 69
_DESCRIBE = 8
"""org.apache.kafka.common.acl.AclOperation.DESCRIBE"""

_CLUSTER_OPERATIONS = frozenset({5, 7, 8, 9, 10, 11, 12})
"""All operations on a cluster: CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS,
IDEMPOTENT_WRITE (AclOperation)."""

_EXPLAINING = RETRIABLE_COORDINATOR_ERRORS - {COORDINATOR_NOT_AVAILABLE}
"""Error codes of a coordinator that explain more than a later timeout."""

_PROTOCOL_OF_MEMBER_TYPE: dict[int | None, str] = {0: "classic", 1: "consumer"}

T = TypeVar("T")


class ConsumerGroupDescribeRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """API 69 (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg, misc]
    """The response of API 69."""


class GroupDescription(msgspec.Struct, frozen=True):
    """A coordinator's description of a group, without its offsets. The epochs are None for classic groups.

    ``members`` is None if this user may not see them. ``streams`` is what a streams group has besides.
    """

    type: str
    state: str
    protocol_type: str | None
    assignor: str | None
    group_epoch: int | None
    assignment_epoch: int | None
    members: tuple[Member, ...] | None
    streams: StreamsGroup | None = None


class GroupListing(msgspec.Struct, frozen=True):
    """The groups of all brokers together, and the errors of brokers that did not answer.

    ``complete`` is False if the user lacks DESCRIBE on the cluster: then Kafka silently leaves out the groups that the
    user may not see.
    """

    groups: tuple[ListedGroup, ...]
    failures: tuple[KgroupError, ...]
    complete: bool


class GroupCoordinators:
    """The group coordinator's read APIs over one connection; caches which broker coordinates which group."""

    def __init__(self, client: CoordinatorClient) -> None:
        self.client = client
        self._node_of: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._operations: frozenset[int] | None = None
        self._partitions: int | None = None

    def within(self, deadline: Deadline) -> GroupCoordinators:
        view = copy.copy(self)
        view.client = self.client.within(deadline)
        return view

    async def read_settled(
        self, read: Callable[[], Awaitable[T]], lacks_group: Callable[[T], bool] = lambda _: False
    ) -> T:
        """Read again until no coordinator has moved during the reading or just before it, or until the deadline.

        The result may otherwise lack an acknowledged commit (seen). One that ``lacks_group`` is believed only if none
        has moved for ``_CATCH_UP_S``: Kafka 4.3.1 may answer from a state before the first commit of the group, until
        the next write to its partition of ``__consumer_offsets`` (seen).
        """
        while True:
            began_s = time.monotonic()
            answer = await read()
            settling_s = _CATCH_UP_S if lacks_group(answer) else SETTLING_S
            if self.client.deadline.passed or not self.client.has_moved(began_s - settling_s):
                return answer
            await self.client.sleep(SETTLING_S)

    def _has_moved(self, began_s: float) -> bool:
        return self.client.has_moved(began_s - SETTLING_S)

    def coordinator(self, group: str) -> Coordinator | None:
        broker = self.client.brokers.get(self._node_of.get(group, -1))
        return Coordinator(broker.id, broker.host, broker.port, broker.rack) if broker else None

    def node(self, group: str) -> int | KgroupError | None:
        """The id of the group's coordinator; None if it is unknown now; an error if the broker refused to name it."""
        if group in self._refused:
            return group_error(self._refused[group], group)
        return self._node_of.get(group)

    def invalidate(self, group: str) -> None:
        """Find the group's coordinator again at the next request: the known one did not answer for it."""
        self._node_of.pop(group, None)
        self.client.note_move()

    async def list_groups(self) -> GroupListing:
        """All groups of all types (ListGroups, KIP-518, KIP-848).

        A broker that does not answer is asked again until the deadline, or until the cluster no longer has it. Then its
        groups have moved: all brokers are asked again, and once more when the move has settled. After a round that
        failed, a listing counts only if it began after all partitions were seen to have their coordinators. If none
        counts, the round with the fewest failures is the answer: the last one is cut short by the deadline.
        """
        complete = await self.can_describe_cluster()
        catch_up: Deadline | None = None
        retried = False
        best: tuple[int, int] | None = None
        while True:
            began_s = time.monotonic()
            (absent, behind), (listed, failed) = await self.client.gather(
                [self._count_unready_partitions(), self._list_once()]
            )
            if best is None or (len(failed), absent) <= best:
                best, groups, failures = (len(failed), absent), listed, failed
                if absent:
                    failures.append(partial(_no_coordinator, absent))
            catch_up = (catch_up or self._catch_up()) if behind else None
            retry = failed or absent or (catch_up is not None and not catch_up.passed)
            if self.client.deadline.passed or not (retry or retried or self._has_moved(began_s)):
                break
            retried = bool(retry)
            best = best if best != (0, 0) else None  # no failure of it says that groups may be missing
            if retry:
                self.client.note_move()
            await self.client.sleep(RETRY_PAUSE_S if retry else SETTLING_S)
            await self.client.refresh_brokers()
        if behind:
            failures.append(partial(_all_behind, behind))
        return GroupListing(
            tuple(groups[name] for name in sorted(groups)), tuple(cause() for cause in failures), complete=complete
        )

    def _catch_up(self) -> Deadline:
        """When to stop asking coordinators of which one was just found not up to date.

        It may have been elected only after most of the deadline: brokers count as dead after 9 s by default.
        """
        return Deadline.after(min(_CATCH_UP_S, self.client.deadline.left_s / 2))

    async def _count_unready_partitions(self) -> tuple[int, int]:
        """How many partitions of ``__consumer_offsets`` have no coordinator, and how many one that is not up to date.

        ListGroups leaves out their groups without an error. So a group id that does not exist is described in each
        partition.
        """
        try:
            probes = probe_groups(await self.count_partitions())
        except Unreachable:
            return 0, 0  # the listing itself reports which brokers do not answer
        for probe in probes:
            self._node_of.pop(probe, None)

        def read(answer: Any) -> Iterator[tuple[str, int, bool]]:
            yield from ((row.group_id, row.error_code, True) for row in answer.groups)

        try:
            _, absent, behind = await self._send_once(
                probes, lambda ids: DescribeGroupsRequest(groups=ids), read, None, {}, up_to_date=True
            )
        except Unreachable:
            return len(probes), 0
        return len(absent), len(behind)

    async def _list_once(self) -> tuple[dict[str, ListedGroup], list[Callable[[], KgroupError]]]:
        """(groups by name, causes of missing ones) from one round of requests."""
        nodes = list(self.client.brokers)
        answers = await self.client.send_all(
            [(node, ListGroupsRequest(states_filter=[], types_filter=[])) for node in nodes]
        )
        groups: dict[str, ListedGroup] = {}
        failures: list[Callable[[], KgroupError]] = []
        for node, answer in zip(nodes, answers, strict=True):
            broker = self.client.brokers[node]
            if isinstance(answer, BaseException):
                failures.append(partial(self.client.failure, answer, node))
                continue
            if answer.error_code in RETRIABLE_COORDINATOR_ERRORS:
                failures.append(partial(_still_loading, broker))
            coordinator = Coordinator(broker.id, broker.host, broker.port, broker.rack)
            for row in answer.groups:
                self._node_of[row.group_id] = node
                groups[row.group_id] = ListedGroup(
                    row.group_id,
                    (getattr(row, "group_type", None) or "classic").lower(),
                    getattr(row, "group_state", None) or "",
                    row.protocol_type,
                    coordinator,
                )
        return groups, failures

    async def can_describe_cluster(self) -> bool:
        """Whether this user has DESCRIBE on the cluster; without it, Kafka silently hides groups and other things."""
        return _DESCRIBE in await self._cluster_operations()

    async def is_administrator(self) -> bool:
        """Whether this user has all operations on the cluster, as super users have."""
        return await self._cluster_operations() >= _CLUSTER_OPERATIONS

    async def _cluster_operations(self) -> frozenset[int]:
        if self._operations is None:
            answer = await self.client.send_any(DescribeClusterRequest(include_cluster_authorized_operations=True))
            self._operations = frozenset(answer.authorized_operations)
        return self._operations

    async def locate(self, groups: Iterable[str]) -> None:
        """Find the coordinators that are not known yet, in one request per 1,000 groups."""
        unknown = [group for group in groups if group not in self._node_of and group not in self._refused]
        for ids in _chunks(unknown):
            request = FindCoordinatorRequest(key_type=CoordinatorType.GROUP.value, coordinator_keys=ids, min_version=4)
            answer = await self.client.send_any(request)
            for row in answer.coordinators:
                if row.error_code == NONE:
                    self._node_of[row.key] = row.node_id
                elif row.error_code not in RETRIABLE_COORDINATOR_ERRORS:
                    self._refused[row.key] = row.error_code

    async def describe_classic(
        self, groups: Sequence[str], *, up_to_date: bool = True
    ) -> dict[str, GroupDescription | KgroupError]:
        """DescribeGroups (API 15). NotFound: the group has another type or does not exist.

        ``up_to_date``: see ``send_until_answered``.
        """

        def read(answer: Any) -> Iterator[tuple[str, int, GroupDescription | None]]:
            for row in answer.groups:
                dead = row.error_code == NONE and row.group_state == "Dead"
                yield row.group_id, GROUP_ID_NOT_FOUND if dead else row.error_code, _classic_description(row)

        return await self.send_until_answered(
            groups, lambda ids: DescribeGroupsRequest(groups=ids), read, up_to_date=up_to_date
        )

    async def describe_consumer(
        self, groups: Sequence[str], patience_ms: int | None = None, *, up_to_date: bool = True
    ) -> dict[str, GroupDescription | KgroupError]:
        """ConsumerGroupDescribe (API 69). NotFound: the group has another type or does not exist.

        With ``patience_ms`` it asks once, and waits no longer than that. ``up_to_date``: see ``send_until_answered``.
        """
        if not self.client.supports(_CONSUMER_GROUP_DESCRIBE):
            return {group: group_error(GROUP_ID_NOT_FOUND, group) for group in groups}

        def read(answer: Any) -> Iterator[tuple[str, int, GroupDescription | None]]:
            for row in answer.groups:
                absent = row.error_code == UNSUPPORTED_VERSION
                yield row.group_id, GROUP_ID_NOT_FOUND if absent else row.error_code, _consumer_description(row)

        return await self.send_until_answered(
            groups,
            lambda ids: ConsumerGroupDescribeRequest(group_ids=ids, include_authorized_operations=False),
            read,
            patience_ms,
            up_to_date=up_to_date and patience_ms is None,
        )

    async def describe(
        self, classic: Sequence[str], consumer: Sequence[str], *, up_to_date: bool = True
    ) -> dict[str, GroupDescription | KgroupError]:
        """Each group's description for its type. For a group requested as both types, the one that exists."""
        as_classic, as_consumer = await self.client.gather(
            [
                self.describe_classic(classic, up_to_date=up_to_date),
                self.describe_consumer(consumer, up_to_date=up_to_date),
            ]
        )
        result = dict(as_classic)
        for name, answer in as_consumer.items():
            # Ignore "Dead" from API 15 (DescribeGroups): it also answers that for a live consumer group.
            if name not in result or not isinstance(answer, NotFound):
                result[name] = answer
        return result

    async def committed(
        self, groups: Sequence[str], *, stable: bool = False, up_to_date: bool = True
    ) -> dict[str, CommittedOffsets | KgroupError]:
        """All committed offsets of the groups (OffsetFetch v8, KIP-709), without those of open transactions.

        With ``stable``, a commit that an open transaction is about to replace is an error (KIP-447). A partition whose
        only commit is in an open transaction is not listed either way. ``up_to_date``: see ``send_until_answered``.
        """
        return await self.send_until_answered(
            groups,
            lambda ids: CommitsRequest(ids, stable=stable),
            lambda answer: ((row.group, row.error_code, row.committed) for row in answer.groups),
            up_to_date=up_to_date,
        )

    async def settled_commits(self, groups: Sequence[str]) -> dict[str, CommittedOffsets | KgroupError]:
        """All committed offsets, read until those of a coordinator that moved are complete; see ``read_settled``."""
        return await self.read_settled(lambda: self.committed(groups, stable=True))

    async def send_until_answered(
        self,
        groups: Sequence[str],
        make_request: Callable[[list[str]], Any],
        read: Callable[[Any], Iterable[tuple[str, int, T | None]]],
        patience_ms: int | None = None,
        *,
        up_to_date: bool = False,
    ) -> dict[str, T | KgroupError]:
        """Send ``make_request`` to the coordinators of ``groups`` until each has answered, or until the deadline.

        With ``patience_ms`` each is asked once; one that does not answer in that time counts as not available.

        ``up_to_date`` asks a coordinator again that was elected moments ago. It answers without an error, but from the
        state at its high watermark, which may be below commits that the coordinator before it acknowledged. After
        ``_CATCH_UP_S`` its groups are errors (``coordinator-behind``). It costs no time: the question goes first on the
        same connection. A user without DESCRIBE on ``__consumer_offsets`` cannot ask it.
        """
        results: dict[str, T | KgroupError] = {}
        earlier_codes: dict[str, int] = {}
        pending, behind = list(groups), set[str]()
        catch_up: Deadline | None = None
        while pending:
            nodes: dict[str, int] = {}
            was_behind = behind
            try:
                answers, failed, behind = await self._send_once(
                    pending, make_request, read, patience_ms, nodes, up_to_date
                )
            except Unreachable:
                if not (earlier_codes or results):
                    raise
                answers, failed, behind = {}, dict.fromkeys(pending, COORDINATOR_NOT_AVAILABLE), set()
            # A coordinator applies its new high watermark some milliseconds after it shows it (seen): once more.
            maybe_behind = (behind | was_behind) & answers.keys()
            catch_up = (catch_up or self._catch_up()) if maybe_behind else None
            if catch_up is not None and catch_up.passed:
                answers |= {group: behind_group() for group in maybe_behind & behind}
                maybe_behind = set()
            results |= {group: result for group, result in answers.items() if group not in maybe_behind}
            earlier_codes |= {
                group: code for group, code in failed.items() if isinstance(code, int) and code in _EXPLAINING
            }
            for group in failed:
                self.invalidate(group)
            pending = [*failed, *maybe_behind]
            if failed and patience_ms is not None:
                return results | {group: group_error(COORDINATOR_NOT_AVAILABLE, group) for group in pending}
            if pending and self.client.deadline.passed:
                results.update(self._unanswered_errors(_prefer_earlier_codes(failed, earlier_codes), nodes))
                break
            if pending:
                await self.client.sleep(RETRY_PAUSE_S)
                if failed:
                    await self.client.refresh_brokers()
        return results

    async def _send_once(
        self,
        groups: Sequence[str],
        make_request: Callable[[list[str]], Any],
        read: Callable[[Any], Iterable[tuple[str, int, T | None]]],
        patience_ms: int | None,
        nodes: dict[str, int],
        up_to_date: bool,
    ) -> tuple[dict[str, T | KgroupError], dict[str, BaseException | int], set[str]]:
        """(results, failures to retry, groups whose results may be behind).

        Adds to ``nodes``, by group, the brokers that gave no response.
        """
        _, count = await self.client.gather([self.locate(groups), self.count_partitions() if up_to_date else _zero()])
        failed: dict[str, BaseException | int] = {}
        results: dict[str, T | KgroupError] = {
            group: group_error(self._refused[group], group) for group in groups if group in self._refused
        }
        batches = list(self._batches(groups))
        log_partition = {group: TopicPartition(OFFSETS_TOPIC, partition_of(group, count)) for group in groups if count}
        checks = [(node, {log_partition[group] for group in ids}) for node, ids in batches if count]
        answers = await self.client.send_all(
            [(node, behind_request(partitions)) for node, partitions in checks]
            + [(node, make_request(ids)) for node, ids in batches],
            patience_ms,
        )
        behind = partitions_behind(answers[: len(checks)])
        for (node, ids), answer in zip(batches, answers[len(checks) :], strict=True):
            if isinstance(answer, BaseException):
                failed.update(dict.fromkeys(ids, answer))
                nodes.update(dict.fromkeys(ids, node))
                continue
            for group, (code, result) in row_of_each_group(read(answer)).items():
                if code in RETRIABLE_COORDINATOR_ERRORS:
                    failed[group] = code
                else:
                    results[group] = result if code == NONE and result is not None else group_error(code, group)
        absent = (group for group in groups if group not in failed and group not in results)
        failed |= dict.fromkeys(absent, COORDINATOR_NOT_AVAILABLE)
        return results, failed, {group for group in results if log_partition.get(group) in behind}

    async def count_partitions(self) -> int:
        """How many partitions ``__consumer_offsets`` has; 0 if it does not exist or this user may not describe it."""
        if self._partitions is None:
            layout = await offsets_topic_layout(self.client)
            if isinstance(layout, KgroupError) and not isinstance(layout, NotAuthorized):
                return 0  # for now: the first group creates it
            self._partitions = 0 if isinstance(layout, KgroupError) else len(layout.leaders)
        return self._partitions

    def _batches(self, groups: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        by_node: dict[int, list[str]] = {}
        for group in groups:
            if group in self._node_of:
                by_node.setdefault(self._node_of[group], []).append(group)
        for node, ids in by_node.items():
            yield from ((node, chunk) for chunk in _chunks(ids))

    def _unanswered_errors(
        self, failed: Mapping[str, BaseException | int], nodes: Mapping[str, int]
    ) -> dict[str, KgroupError]:
        """The errors of groups whose coordinators did not answer within the timeout; one diagnosis per broker."""
        causes: dict[int, KgroupError] = {}
        errors = {}
        for group, cause in failed.items():
            if isinstance(cause, int):
                errors[group] = group_error(cause, group)
            else:
                node = nodes[group]
                errors[group] = causes[node] = causes.get(node) or self.client.failure(cause, node)
        return errors


def row_of_each_group(rows: Iterable[tuple[str, int, T | None]]) -> dict[str, tuple[int, T | None]]:
    """The row to believe for each group, from rows of (group, error code, result).

    Kafka 4.0.0 answers ConsumerGroupDescribe once for each partition of ``__consumer_offsets`` that holds one of the
    groups, each time for all groups. The rows of the wrong partitions have GROUP_ID_NOT_FOUND (seen). So a row without
    an error wins, and any other error wins over GROUP_ID_NOT_FOUND.
    """
    of_group: dict[str, tuple[int, T | None]] = {}
    for group, code, result in rows:
        known = of_group[group][0] if group in of_group else GROUP_ID_NOT_FOUND
        if group not in of_group or code == NONE or (known == GROUP_ID_NOT_FOUND != code):
            of_group[group] = (code, result)
    return of_group


async def _zero() -> int:
    return 0


def _no_coordinator(partitions: int) -> KgroupError:
    return Unreachable(
        f"the groups of {plural(partitions, 'partition')} of {OFFSETS_TOPIC} are missing: no coordinator answers",
        code="no-coordinator",
    )


def _all_behind(partitions: int) -> KgroupError:
    return Unreachable(
        f"groups of {plural(partitions, 'partition')} of {OFFSETS_TOPIC} may be missing: their coordinators were "
        "elected moments ago and do not show the latest changes yet",
        code="coordinator-behind",
    )


def _still_loading(broker: Broker) -> KgroupError:
    return Unreachable(f"broker {broker} is still loading its groups", code="no-coordinator")


def _chunks(ids: Sequence[str]) -> Iterator[list[str]]:
    return (list(ids[at : at + _IDS_PER_REQUEST]) for at in range(0, len(ids), _IDS_PER_REQUEST))


def _host(text: str) -> str:
    """Removes Java's leading slash: it prints an address without a name as ``/10.0.0.1``."""
    return text.removeprefix("/")


def _classic_description(row: Any) -> GroupDescription:
    return GroupDescription(
        type="classic",
        state=row.group_state,
        protocol_type=row.protocol_type,
        assignor=row.protocol_data or None,
        group_epoch=None,
        assignment_epoch=None,
        members=tuple(_classic_member(member, row.protocol_type) for member in row.members),
    )


def _classic_member(row: Any, protocol_type: str) -> Member:
    subscription = decode_subscription(row.member_metadata, protocol_type)
    assignment = decode_assignment(row.member_assignment, protocol_type)
    return Member(
        member_id=row.member_id,
        instance_id=getattr(row, "group_instance_id", None),
        client_id=row.client_id,
        host=_host(row.client_host),
        rack=(subscription.rack or None) if subscription else None,
        epoch=None,
        protocol="classic",
        subscription=tuple(sorted(subscription.topics)) if subscription else None,
        subscription_regex=None,
        assignment=sorted_assignment(assignment.partitions) if assignment else None,
        target_assignment=None,
    )


def _consumer_description(row: Any) -> GroupDescription:
    return GroupDescription(
        type="consumer",
        state=row.group_state,
        protocol_type="consumer",
        assignor=row.assignor_name or None,
        group_epoch=row.group_epoch,
        assignment_epoch=row.assignment_epoch,
        members=tuple(_consumer_member(member) for member in row.members),
    )


def _consumer_member(row: Any) -> Member:
    def partitions_of(given: Any) -> Assignment:
        return tuple(TopicPartitions(item.topic_name, tuple(item.partitions)) for item in given.topic_partitions)

    return Member(
        member_id=row.member_id,
        instance_id=row.instance_id,
        client_id=row.client_id,
        host=_host(row.client_host),
        rack=row.rack_id or None,
        epoch=row.member_epoch,
        protocol=_PROTOCOL_OF_MEMBER_TYPE.get(getattr(row, "member_type", None)),
        subscription=tuple(sorted(row.subscribed_topic_names)),
        subscription_regex=row.subscribed_topic_regex or None,
        assignment=sorted_assignment(partitions_of(row.assignment)),
        target_assignment=partitions_of(row.target_assignment),
    )


def _prefer_earlier_codes(
    failed: Mapping[str, BaseException | int], earlier_codes: Mapping[str, int]
) -> Mapping[str, BaseException | int]:
    """Prefer a coordinator's earlier error code: it explains more than a timeout or a failed search for it."""
    return {
        group: earlier_codes.get(group, cause)
        if isinstance(cause, KafkaTimeoutError | RequestTimedOutError) or cause == COORDINATOR_NOT_AVAILABLE
        else cause
        for group, cause in failed.items()
    }
