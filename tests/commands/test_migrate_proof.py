"""``kgroup migrate`` calls done what is proved: commits that were stored again, settings, what stands at the end."""

from __future__ import annotations

import contextlib
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kafka.errors
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.admin import AlterConfigOpType as Operation
from kafka.protocol.consumer import OffsetDeleteRequest
from kafka.structs import OffsetAndMetadata, TopicPartition

from kgroup.changes.journal import Journal
from kgroup.sandbox import Sandbox
from kgroup.sandbox.ports import choose, is_free
from tests.commands.test_migrate_kills import killed_at
from tests.conftest import BROKER_PROPERTIES
from tests.helpers import by_hand
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.conversion import CONSUMER_GROUP_HEARTBEAT, to_classic
from tests.helpers.journals import changes, documents
from tests.helpers.kafka_proxy import CONSUMER_GROUP_DESCRIBE, OFFSET_COMMIT, Fault, KafkaProxy, Loss, ProxiedBroker
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before

Name = Callable[[str], str]
Commits = dict[tuple[str, int], tuple[int, str, int | None]]

Right = tuple[ResourceType, str, AclOperation]

OFFSET_FETCH, INCREMENTAL_ALTER_CONFIGS = 9, 44
SESSION = "consumer.session.timeout.ms"
SETTING = ("--session-timeout", "50s")
OURS, THEIRS = {SESSION: "50000"}, {SESSION: "20000"}

_AS_BOB = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "bob",
    "sasl.password": "bobs",
}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.name.bobs.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.bobs.plain.sasl.jaas.config": f'{_PLAIN} required user_bob="bobs";',
    "offsets.topic.num.partitions": "1",  # one log to look into
}
READ, DESCRIBE = AclOperation.READ, AclOperation.DESCRIBE


@dataclass(frozen=True, slots=True)
class Broker(ProxiedBroker):
    """Whoever comes in through the proxy may do everything; ``bobs`` is where bob comes in, who may nothing."""

    bobs: str


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the module, behind a proxy for each of its listeners."""
    sandbox, proxies = Sandbox(tmp_path_factory.mktemp("proof")), {"PROXIED": KafkaProxy(), "BOBS": KafkaProxy()}
    (port,) = choose(1, free=is_free)
    advertised = [f"{listener}://127.0.0.1:{proxy.port}" for listener, proxy in proxies.items()]
    try:
        status = sandbox.up(
            port=port,
            listeners={"PROXIED": "PLAINTEXT", "BOBS": "SASL_PLAINTEXT"},
            properties={
                **BROKER_PROPERTIES,
                **_AUTHORIZER,
                "advertised.listeners": ",".join((f"PLAINTEXT://127.0.0.1:{port}", *advertised)),
            },
            reporter=QuietReporter(),
        )
        for listener, proxy in proxies.items():
            proxy.target = int(status.listeners[listener].rpartition(":")[2])
        with KafkaWorld(f"127.0.0.1:{port}") as world:
            there, bobs = (f"127.0.0.1:{proxy.port}" for proxy in proxies.values())
            yield Broker(proxies["PROXIED"], world, there, bobs)
    finally:
        for proxy in proxies.values():
            proxy.close()
        sandbox.down(wipe=True, reporter=QuietReporter())


@pytest.fixture(autouse=True)
def proxied(broker: Broker, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[Broker]:
    """... with no fault in it, as KGROUP_BOOTSTRAP_SERVER; and a group in it that no test may touch."""
    broker.proxy.reset()
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", broker.bootstrap)
    untouched = name("bystander")
    broker.world.commit(untouched, {(broker.world.topic(untouched), 0): (3, "mine", 0)})
    before = broker.world.exact(untouched)
    yield broker
    broker.proxy.reset()
    assert broker.world.exact(untouched) == before


@pytest.fixture
def world(broker: Broker) -> KafkaWorld:
    """The cluster as the test sees it, past the proxy."""
    return broker.world


@dataclass(frozen=True, slots=True)
class Shop:
    """An Empty classic group, and its commits."""

    group: str
    topic: str
    commits: Commits

    def migrate(self, *more: str, exit_code: int | None = 0) -> Result:
        """``kgroup migrate --execute``."""
        return CommandLine()("migrate", self.group, "--execute", *more, exit_code=exit_code)


@pytest.fixture
def shop(world: KafkaWorld, name: Name) -> Shop:
    return made(world, name("svc"), world.topic(name("orders"), partitions=2))


def made(world: KafkaWorld, group: str, topic: str) -> Shop:
    world.commit(group, {(topic, 0): (3, "kept ä", 0), (topic, 1): (4, "", None)})
    return Shop(group, topic, world.exact(group))


def only(result: Result) -> dict[str, Any]:
    (row,) = result.data
    return row


def records(world: KafkaWorld, group: str) -> Counter[tuple[str, int]]:
    """How often each place of a group was committed, as the log has it (OffsetCommitKey: types 0 and 1)."""
    found: Counter[tuple[str, int]] = Counter()
    for key, value in world.records("__consumer_offsets"):
        assert key is not None
        (kind,) = struct.unpack_from(">h", key)
        if kind > 1 or value is None:
            continue
        of, rest = _text(key[2:])
        topic, rest = _text(rest)
        if of == group:
            found[topic, struct.unpack(">i", rest)[0]] += 1
    return found


def _text(data: bytes) -> tuple[str, bytes]:
    (length,) = struct.unpack_from(">h", data)
    return data[2 : 2 + length].decode(), data[2 + length :]


def only_change(tmp_path: Path) -> tuple[str, list[dict[str, Any]]]:
    """The id of the one change in the journal, and its lines."""
    (path,) = changes(tmp_path / "state")
    return path.stem, documents(path)


def told(lines: list[dict[str, Any]], what: str) -> dict[str, str | None]:
    """What came of each group, the last word on it."""
    return {group: code for line in lines for group, code in line.get(what, {}).items()}


def right_after_the_conversion(broker: Broker, fault: Fault) -> Fault:
    """Let this happen as soon as kgroup's member of the (one) group has begun to leave it."""
    left = Fault(CONSUMER_GROUP_HEARTBEAT, Loss.NOTHING, skip=1)
    left.go_on.set()
    fault.after = broker.proxy.expect(left)
    return broker.proxy.expect(fault)


# --- commits that are made again, and stored


@contextlib.contextmanager
def smaller_batches(world: KafkaWorld, probe: str, largest: int) -> Iterator[None]:
    """max.message.bytes of __consumer_offsets, by its own group ``probe`` seen to hold."""
    admin = AdminClient({"bootstrap.servers": world.bootstrap})

    def alter(operation: Any) -> None:
        entry = ConfigEntry("max.message.bytes", str(largest), incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "__consumer_offsets", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(30)

    topic = world.topic(probe, partitions=8)
    offsets = {TopicPartition(topic, number): OffsetAndMetadata(0, "m" * 4000, None) for number in range(8)}

    def refused() -> bool:
        answers = world._groups.alter_group_offsets(probe, offsets).values()
        return any(answer is not kafka.errors.NoError for answer in answers)

    alter(Operation.SET)
    try:
        wait_for(refused, "the limit")
        yield
    finally:
        alter(Operation.DELETE)
        wait_for(lambda: not refused(), "no limit")


@pytest.mark.soak
def test_refused_commit_is_not_believed(world: KafkaWorld, name: Name, tmp_path: Path) -> None:
    """The broker stores none of them; what stands there is what stood there before, and proves nothing."""
    group, topic = name("svc"), world.topic(name("orders"), partitions=10)
    world.commit(group, {(topic, number): (number, "m" * 4000, None) for number in range(10)})
    before, once = world.exact(group), records(world, group)
    with smaller_batches(world, name("probe"), 20_000):
        result = CommandLine()("migrate", group, "--execute", "--timeout", "4s", exit_code=1)
    assert "identical" not in result.stdout
    assert "DONE" not in result.stdout
    assert group in result.stderr
    assert records(world, group) == once
    assert (world.groups()[group], world.exact(group)) == (("classic", "empty"), before), "not converted, so not lost"
    change, lines = only_change(tmp_path)
    assert told(lines, "converted")[group] is not None
    CommandLine()("undo", change, "--execute")
    assert world.groups()[group] == ("classic", "empty")
    CommandLine()("migrate", group, "--execute")
    assert records(world, group) == dict.fromkeys(before, 2)
    assert world.groups()[group] == ("consumer", "empty")


@pytest.mark.parametrize(("loss", "count"), [(Loss.ANSWER, 3), (Loss.REQUEST, 2)])
def test_commit_without_an_answer_is_made_once_more(
    broker: Broker, world: KafkaWorld, shop: Shop, loss: Loss, count: int
) -> None:
    """Nobody can tell from the commits whether it was stored: they are the same ones."""
    fault = broker.proxy.expect(Fault(OFFSET_COMMIT, loss))
    assert only(shop.migrate("-o", "json"))["read_back_count"] == 2
    assert fault.met.is_set()
    assert records(world, shop.group) == dict.fromkeys(shop.commits, count)
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("consumer", "empty"), shop.commits)


def test_commits_with_long_names(broker: Broker, world: KafkaWorld, name: Name) -> None:
    """7 kB on the wire, 1.4 MB in the log, where group and topic stand beside each: no batch is larger than 1 MiB."""
    group, topic, count = name("svc").ljust(7000, "s"), world.topic(name("orders"), partitions=200), 200
    for first in range(0, count, 100):
        world.commit(group, {(topic, number): number for number in range(first, first + 100)})
    before = broker.proxy.forwarded[OFFSET_COMMIT]
    done = only(CommandLine()("migrate", group, "--execute", "-o", "json"))
    assert (done["converted"], done["read_back_count"], done["error_code"]) == (True, count, None)
    assert broker.proxy.forwarded[OFFSET_COMMIT] - before == 2
    assert records(world, group) == {(topic, number): 2 for number in range(count)}


def test_reset_by_somebody_else_meanwhile(
    world: KafkaWorld, name: Name, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the look under the lock, before the first commit: it is not put back, and that group stays as it is."""
    other = made(world, name("other"), shop.topic)
    began, moved = Journal.begin, {(shop.topic, 0): (1, "by hand", 0), (shop.topic, 1): shop.commits[shop.topic, 1]}

    def begin(self: Journal, *arguments: Any) -> Any:
        world.commit(shop.group, {(shop.topic, 0): (1, "by hand", 0)})
        return began(self, *arguments)

    monkeypatch.setattr(Journal, "begin", begin)
    result = CommandLine()("migrate", shop.group, other.group, "--execute", "-o", "json", exit_code=7)
    rows = {row["group"]: row for row in result.data}
    assert [(error["group"], error["code"]) for error in result.json["errors"]] == [(shop.group, "moved-since")]
    assert (rows[shop.group]["error_code"], rows[shop.group]["converted"]) == ("moved-since", False)
    assert (rows[other.group]["error_code"], rows[other.group]["converted"]) == (None, True)
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("classic", "empty"), moved)
    assert (world.groups()[other.group], world.exact(other.group)) == (("consumer", "empty"), other.commits)
    change, _ = only_change(tmp_path)
    CommandLine()("undo", change, "--execute")
    assert (world.groups()[other.group], world.exact(shop.group)) == (("classic", "empty"), moved)


# --- what a user may not see


@dataclass(frozen=True, slots=True)
class Bob:
    """``bob("migrate", ...)``, after ``may``."""

    broker: Broker
    admin: AdminClient

    def may(self, *rights: Right, denied: Sequence[Right] = ()) -> None:
        """These rights and nothing else; ``denied`` are such as the others would imply."""
        self._forget()
        rules = [
            AclBinding(kind, of, ResourcePatternType.LITERAL, "User:bob", "*", operation, permission)
            for (kind, of, operation), permission in (
                *((right, AclPermissionType.ALLOW) for right in rights),
                *((right, AclPermissionType.DENY) for right in denied),
            )
        ]
        for future in self.admin.create_acls(rules).values():
            future.result(30)
        wait_for(lambda: len(self._rules()) == len(rules), "rules")

    def __call__(self, *arguments: str, exit_code: int = 0) -> Result:
        given = [word for key, value in _AS_BOB.items() for word in ("-X", f"{key}={value}")]
        return CommandLine()(*arguments, "-b", self.broker.bobs, *given, exit_code=exit_code)

    def _rules(self) -> list[Any]:
        return list(self.admin.describe_acls(_EVERY_RULE).result(30))

    def _forget(self) -> None:
        for future in self.admin.delete_acls([_EVERY_RULE]).values():
            future.result(30)
        wait_for(lambda: not self._rules(), "no rules")


_EVERY_RULE = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
CLUSTER = (ResourceType.BROKER, "kafka-cluster", DESCRIBE)
HISTORY = (ResourceType.TOPIC, "__consumer_offsets", READ)


@pytest.fixture
def bob(broker: Broker) -> Iterator[Bob]:
    user = Bob(broker, AdminClient({"bootstrap.servers": broker.world.bootstrap}))
    yield user
    user._forget()


@pytest.mark.parametrize("between", [0, 80], ids=["just before", "long before"])
def test_commits_that_the_broker_hides(bob: Bob, world: KafkaWorld, name: Name, between: int) -> None:
    """On a topic that bob may not DESCRIBE: only the log tells of it, and a conversion would let it expire."""
    topic, secret, group = world.topic(name("orders"), partitions=2), world.topic(name("secret")), name("svc")
    world.commit(group, {(secret, 0): 7})
    for number in range(between):
        world.commit(name("other"), {(topic, 0): number})
    shop = made(world, group, topic)
    before = world.exact(shop.group)
    of_group, of_topic = (ResourceType.GROUP, shop.group, READ), (ResourceType.TOPIC, shop.topic, READ)
    bob.may(CLUSTER, HISTORY, of_group, of_topic)
    for more in ((), ("--execute",)):
        blocked = only(bob("migrate", shop.group, *more, "-o", "json", exit_code=6))
        (check,) = (check for check in blocked["checks"] if check["id"] == "hidden-commits")
        assert (blocked["readiness"], check["status"]) == ("blocked", "blocked")
        assert secret in check["evidence"]
        assert "DESCRIBE" in f"{check['evidence']} {check['remedy']}".upper()
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("classic", "empty"), before)

    bob.may(CLUSTER, of_group, of_topic)
    unknown = only(bob("migrate", shop.group, "-o", "json"))
    (check,) = (check for check in unknown["checks"] if check["id"] == "hidden-commits")
    assert (unknown["readiness"], check["status"]) == ("warning", "warning"), "without the history nobody can tell"
    assert "are hidden" in check["evidence"]

    bob.may(CLUSTER, HISTORY, of_group, of_topic, (ResourceType.TOPIC, secret, READ))
    done = only(bob("migrate", shop.group, "--execute", "-o", "json"))
    (check,) = (check for check in done["checks"] if check["id"] == "hidden-commits")
    assert check["status"] == "ok", "the whole log was read"
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("consumer", "empty"), before)


def test_done_without_a_look_into_the_log_says_so(bob: Bob, world: KafkaWorld, shop: Shop) -> None:
    """Whoever may not read __consumer_offsets is told on the page of what is done, not only in the plan."""
    bob.may(CLUSTER, (ResourceType.GROUP, shop.group, READ), (ResourceType.TOPIC, shop.topic, READ))
    done = bob("migrate", shop.group, "--execute")
    assert "2 of 2 read back, identical" in done.stdout
    assert "would be lost" in " ".join(done.stdout.split())
    assert world.exact(shop.group) == shop.commits


def test_settings_that_may_not_be_read_are_not_replaced(bob: Bob, world: KafkaWorld, shop: Shop) -> None:
    """They could not be put back. Without the option nothing is wrong with that."""
    world.configure_group(shop.group, consumer_session_timeout_ms="20000")
    bob.may(
        CLUSTER, HISTORY, (ResourceType.GROUP, shop.group, READ), (ResourceType.TOPIC, shop.topic, READ),
        (ResourceType.GROUP, shop.group, AclOperation.ALTER_CONFIGS),
        denied=[(ResourceType.GROUP, shop.group, AclOperation.DESCRIBE_CONFIGS)],
    )  # fmt: skip
    for more in ((), ("--execute",)):
        refused = bob("migrate", shop.group, *SETTING, *more, exit_code=6)
        assert "[unread-configs]" in refused.stderr
        assert "DESCRIBE_CONFIGS" in refused.stderr
    assert (world.groups()[shop.group], world.group_config(shop.group)) == (("classic", "empty"), THEIRS)
    bob("migrate", shop.group, "--execute")
    assert (world.groups()[shop.group], world.group_config(shop.group)) == (("consumer", "empty"), THEIRS)


def test_settings_that_may_not_be_read_are_not_forgotten(
    bob: Bob, world: KafkaWorld, shop: Shop, tmp_path: Path
) -> None:
    """An undo that can't see whether they stand says so."""
    shop.migrate(*SETTING)
    change, _ = only_change(tmp_path)
    bob.may(CLUSTER, HISTORY, (ResourceType.GROUP, shop.group, READ), (ResourceType.TOPIC, shop.topic, READ))
    refused = bob("undo", change, exit_code=4)
    assert "DESCRIBE_CONFIGS" in refused.stderr
    CommandLine()("undo", change, "--execute")
    assert (world.groups()[shop.group], world.group_config(shop.group)) == (("classic", "empty"), {})


# --- the group's settings, which come last


@pytest.mark.parametrize(
    ("loss", "had", "then"),
    [pytest.param(Loss.REQUEST, {}, {}, marks=pytest.mark.soak), (Loss.ANSWER, THEIRS, OURS)],
    ids=["before", "after"],
)
def test_killed_at_the_settings(
    broker: Broker, world: KafkaWorld, shop: Shop, tmp_path: Path, loss: Loss, had: dict[str, str], then: dict[str, str]
) -> None:
    """The group is converted by then; undo takes back both, however far it came."""
    if had:
        world.configure_group(shop.group, consumer_session_timeout_ms=had[SESSION])
    killed_at(broker, INCREMENTAL_ALTER_CONFIGS, loss, 0, "migrate", shop.group, *SETTING, "--execute")
    assert world.groups()[shop.group] == ("consumer", "empty")
    assert world.group_config(shop.group) == then
    change, lines = only_change(tmp_path)
    assert told(lines, "configured") == {}
    taken_back(world, shop, change, had)


def test_killed_at_the_conversion(broker: Broker, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """No setting is left behind by what never came to it."""
    killed_at(broker, CONSUMER_GROUP_HEARTBEAT, Loss.REQUEST, 0, "migrate", shop.group, *SETTING, "--execute")
    assert (world.groups()[shop.group], world.group_config(shop.group)) == (("classic", "empty"), {})
    taken_back(world, shop, only_change(tmp_path)[0], {})


def test_no_setting_without_the_conversion(
    world: KafkaWorld, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody joins right before it: nothing is set, nothing is said to be, and nothing is left to take back."""
    came = just_before(
        monkeypatch, "ConsumerGroupHeartbeat", lambda: by_hand.join(world, shop.group, {shop.topic: [0, 1]})
    )
    result = shop.migrate(*SETTING, exit_code=9)
    assert came
    assert "joined-meanwhile" in result.stdout + result.stderr
    assert f"{SESSION}=50000: NOT SET" in result.stdout
    assert world.group_config(shop.group) == {}
    change, lines = only_change(tmp_path)
    assert (told(lines, "converted"), told(lines, "configured")) == ({shop.group: "joined-meanwhile"}, {})
    assert f"{change}" in (listed := CommandLine()("undo", exit_code=5).stderr)
    assert "failed" in listed


def test_settings_go_back_though_the_group_is_classic_already(world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """One classic member came first; its offsets stay where they are."""
    shop.migrate(*SETTING)
    to_classic(world, shop.group)
    assert world.group_config(shop.group) == OURS
    taken_back(world, shop, only_change(tmp_path)[0], {})


@pytest.mark.soak
def test_answer_to_the_settings_is_lost_for_good(broker: Broker, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """Whether they were set is unknown, and undo looks at what stands."""
    broker.proxy.expect(Fault(INCREMENTAL_ALTER_CONFIGS, Loss.ANSWER, always=True))
    row = only(shop.migrate(*SETTING, "--timeout", "4s", "-o", "json", exit_code=7))
    broker.proxy.reset()
    assert (row["converted"], row["configured"]) == (True, None), "converted, and nobody knows of the rest"
    assert row["error_code"]
    assert world.group_config(shop.group) == OURS
    taken_back(world, shop, only_change(tmp_path)[0], {})


def taken_back(world: KafkaWorld, shop: Shop, change: str, had: dict[str, str]) -> None:
    """Undo leaves the group as it was before, and then nothing more to do."""
    CommandLine()("undo", change, "--execute")
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("classic", "empty"), shop.commits)
    assert world.group_config(shop.group) == had
    assert "nothing to do" in CommandLine()("undo", change).stderr


# --- faults after the first groups


@pytest.mark.soak
@pytest.mark.parametrize(("at_fault", "skip"), [(CONSUMER_GROUP_HEARTBEAT, 200), (INCREMENTAL_ALTER_CONFIGS, 1)])
def test_fault_in_the_second_round(
    broker: Broker, world: KafkaWorld, name: Name, shop: Shop, tmp_path: Path, at_fault: int, skip: int
) -> None:
    """By then no such request arrives: what the first round of 100 groups did is named, and can be taken back."""
    groups = sorted(made(world, name(f"svc-{number}"), shop.topic).group for number in range(101))
    fault = broker.proxy.expect(Fault(at_fault, Loss.REQUEST, skip=skip, always=True))
    result = CommandLine()("migrate", *groups, *SETTING, "--execute", "--timeout", "15s", "-o", "json", exit_code=7)
    assert fault.met.is_set()
    broker.proxy.reset()
    converting = at_fault == CONSUMER_GROUP_HEARTBEAT
    converted, failed = (groups[:100], groups[100:]) if converting else (groups, [])
    rows = {row["group"]: row for row in result.data}
    assert {group for group, row in rows.items() if row["converted"]} == set(converted)
    assert {group for group, row in rows.items() if row["configured"]} == set(groups[:100])
    (error,) = result.json["errors"]
    assert (error["group"], error["code"]) == (groups[100], "outcome-unknown")
    listed = world.groups()
    assert {group for group in groups if listed[group] == ("consumer", "empty")} == set(converted)
    change_id, lines = only_change(tmp_path)
    assert any("ended" in line for line in lines)
    assert [group for group, code in told(lines, "converted").items() if code] == failed
    CommandLine()("undo", change_id, "--execute")
    listed = world.groups()
    assert {listed[group] for group in groups} == {("classic", "empty")}
    assert [group for group in groups if world.group_config(group)] == []


@pytest.mark.soak
def test_commits_that_cannot_be_read_back(broker: Broker, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """It was converted, and that its commits are there is not proved: 7, and the hint that looks."""
    fault = right_after_the_conversion(broker, Fault(OFFSET_FETCH, Loss.REQUEST, always=True))
    result = shop.migrate("--timeout", "4s", exit_code=7)
    broker.proxy.reset()
    assert fault.met.is_set()
    assert "[not-verified]" in result.stdout + result.stderr
    assert f"kgroup describe {shop.group}" in result.stdout + result.stderr
    assert "identical" not in result.stdout
    assert not re.search(r"^DONE", result.stdout, re.MULTILINE)
    change, lines = only_change(tmp_path)
    assert told(lines, "converted") == {shop.group: "not-verified"}
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("consumer", "empty"), shop.commits)
    CommandLine()("undo", change, "--execute")
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("classic", "empty"), shop.commits)
    assert f"{change}" in (listed := CommandLine()("undo", exit_code=5).stderr)
    assert ": undone" in listed


# --- a group that vanishes after it was converted


def delete_commits(world: KafkaWorld, shop: Shop) -> None:
    entry = OffsetDeleteRequest.OffsetDeleteRequestTopic
    numbers = [entry.OffsetDeleteRequestPartition(partition_index=number) for _, number in shop.commits]
    request = OffsetDeleteRequest[0](group_id=shop.group, topics=[entry(name=shop.topic, partitions=numbers)])
    answer = world._to_coordinator(shop.group, request)
    assert answer.error_code == 0, answer


def vanishing(broker: Broker, shop: Shop, when: str, *more: str) -> Result:
    """Migrate it; it, or its commits alone, are deleted before the last look at its type, or at its commits."""
    world = broker.world
    api_key = CONSUMER_GROUP_DESCRIBE if when == "type" else OFFSET_FETCH

    def vanish() -> None:
        if when == "commits alone":
            delete_commits(world, shop)
        else:
            world.delete_group(shop.group)

    fault = right_after_the_conversion(broker, Fault(api_key, Loss.REQUEST, then=vanish))
    result = shop.migrate(*more, exit_code=7)
    assert fault.met.is_set()
    broker.proxy.reset()
    assert world.exact(shop.group) == {}
    return result


@pytest.mark.parametrize("when", ["type", "commits", "commits alone"])
def test_commits_that_are_missing_afterwards(
    broker: Broker, world: KafkaWorld, shop: Shop, tmp_path: Path, when: str
) -> None:
    """Said, not called done, and undo puts them back from the journal, also where the group is gone with them."""
    result = vanishing(broker, shop, when)
    assert "[commits-missing]" in result.stdout + result.stderr
    assert f"{shop.topic}:0" in result.stdout + result.stderr
    assert "identical" not in result.stdout
    assert "Nothing was changed" not in result.stdout
    change, lines = only_change(tmp_path)
    assert told(lines, "converted") == {shop.group: "commits-missing"}
    assert (shop.group in world.groups()) is (when == "commits alone")
    plan = CommandLine()("undo")
    assert change in plan.stdout
    assert world.exact(shop.group) == {}
    CommandLine()("undo", change, "--execute")
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("classic", "empty"), shop.commits)
    listed = CommandLine()("undo", exit_code=5).stderr
    assert ": undone" in listed, listed
    assert "partly" not in listed


def test_group_that_is_gone_after_a_kill(broker: Broker, world: KafkaWorld, shop: Shop, tmp_path: Path) -> None:
    """Nobody lived to say what came of the conversion."""
    killed_at(broker, CONSUMER_GROUP_HEARTBEAT, Loss.ANSWER, 1, "migrate", shop.group, "--execute")
    assert world.groups()[shop.group] == ("consumer", "empty")
    change, lines = only_change(tmp_path)
    assert not any("ended" in line for line in lines)
    world.delete_group(shop.group)
    CommandLine()("undo", change, "--execute")
    assert (world.groups()[shop.group], world.exact(shop.group)) == (("classic", "empty"), shop.commits)


def test_missing_commits_of_a_topic_that_was_made_anew(
    broker: Broker, world: KafkaWorld, shop: Shop, tmp_path: Path
) -> None:
    """Old offsets mean nothing in it; the group is not made anew for them."""
    vanishing(broker, shop, "commits")
    change, _ = only_change(tmp_path)
    world.delete_topic(shop.topic)
    world.topic(shop.topic, partitions=2)
    for more in ((), ("--execute",), ("--execute", "--partial")):
        refused = CommandLine()("undo", change, *more, exit_code=6)
        assert "[topic-recreated]" in refused.stderr
    assert shop.group not in world.groups()
