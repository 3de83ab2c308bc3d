"""Three brokers with TLS, passwords and rights: each verb for a user with the least rights, and with one too few."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from kafka.admin import ACLOperation

from tests.commands.test_catchup_rights import Bob as Replayer
from tests.commands.test_rights import HISTORY, LEDGER, Bob, group, topic
from tests.helpers import programs
from tests.helpers.access_rules import rules_admin
from tests.helpers.catchup.catchups import copied, offsets
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members
from tests.helpers.secure_broker import SecureBroker, secure_broker
from tests.helpers.three_brokers import BROKERS, PROPERTIES, busy_partition, bystander, replicated
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak

Name = Callable[[str], str]
READ, WRITE, DELETE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DELETE
PATIENT = ("--timeout", "60s")


@pytest.fixture(scope="module")
@programs.needs("openssl")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("secured"), QuietReporter(), PROPERTIES, brokers=3) as broker:
        yield broker


@pytest.fixture
def world(broker: SecureBroker, name: Name) -> Iterator[KafkaWorld]:
    """All three running and in sync; a group of another user is there, which no test may change."""
    broker.sandbox.up(reporter=QuietReporter())
    with KafkaWorld(broker.addresses["ADMIN"]) as world, bystander(world, name("bystander")):
        yield world
        broker.sandbox.up(reporter=QuietReporter())


@pytest.fixture
def orders(world: KafkaWorld, name: Name) -> str:
    return replicated(world, name("orders"))


@pytest.fixture
def groups(world: KafkaWorld, name: Name, orders: str) -> list[str]:
    """A group of each coordinator, with a commit on both partitions."""
    found: dict[int, str] = {}

    def one_of_each() -> bool:
        found.setdefault(world.coordinator(one := name("svc")), one)
        return found.keys() == BROKERS

    wait_for(one_of_each, "a group of each coordinator", 60)
    for one in found.values():
        world.commit(one, {(orders, 0): (2, "a", 0), (orders, 1): (4, "b", 0)})
    return sorted(found.values())


@pytest.fixture
def bob(broker: SecureBroker, groups: Sequence[str], orders: str) -> Bob:
    """A user who may do with these groups what there is to do, and sees nothing of other users' groups."""
    user = Bob(broker)
    changes = [(operation, group(each)) for each in groups for operation in (READ, DELETE)]
    user.may(HISTORY, LEDGER, topic(orders), *map(group, groups), also=changes)
    known_everywhere(user, groups)
    return user


def known_everywhere(bob: Bob, groups: Sequence[str]) -> None:
    """Rules reach the brokers one after the other: wait until each coordinator answers."""
    wait_for(lambda: bob("describe", *groups, *PATIENT, exit_code=None).exit_code == 0, "rules on all brokers", 60)


def places(world: KafkaWorld, groups: Sequence[str]) -> dict[str, list[int]]:
    return {each: [offset for _, (offset, *_) in sorted(world.exact(each).items())] for each in groups}


def test_each_reading_verb_has_the_answers_of_all_brokers(
    bob: Bob, world: KafkaWorld, groups: list[str], orders: str
) -> None:
    listed = bob("list", "-o", "json", *PATIENT)
    assert [each["group"] for each in listed.data] == sorted(groups)
    assert {each["coordinator"]["id"] for each in listed.data} == BROKERS
    assert listed.json["notes"] == [
        "this user lacks DESCRIBE on the Cluster: groups that it may not see may be missing"
    ]
    for words in (("describe",), ("lag",), ("describe", "--from-log"), ("lag", "--isolation", "read_committed")):
        found = bob(*words, *groups, "-o", "json", *PATIENT)
        assert {each["group"] for each in found.data} == set(groups), words
        assert {row["lag"] for each in found.data for row in each["partitions"]} == {8, 10}, words
        assert found.json["errors"] == [], words
    assert len(bob("export", *groups, *PATIENT).stdout.splitlines()) == 2 * len(groups)
    assert {each["group"] for each in bob("doctor", *groups, "-o", "json", *PATIENT).data} == set(groups)
    assert {each["group"] for each in bob("history", *groups, "-o", "json", *PATIENT).data} == set(groups)
    assert {each["group"] for each in bob("list", "--from-log", "-o", "json", *PATIENT).data} >= set(groups)
    for each in groups:
        bob("wait", each, "--for", "lag=18", "--within", "10s", *PATIENT)
        bob("wait", each, "--for", "empty", "--within", "10s", *PATIENT)
        bob("wait", each, "--for", "lag=17", "--within", "1s", *PATIENT, exit_code=8)


def test_each_changing_verb_changes_groups_of_all_coordinators(
    bob: Bob, world: KafkaWorld, groups: list[str], orders: str
) -> None:
    """Each is looked at as another user, and taken back by its journal."""
    before = {each: world.exact(each) for each in groups}
    for words, moved in (
        (("reset", *groups, "--topic", orders, "--to-latest"), [12, 12]),
        (("delete-offsets", *groups, "--topic", f"{orders}:1"), [2]),
        (("delete", *groups), []),
    ):
        bob(*words, *PATIENT)
        assert {each: world.exact(each) for each in groups} == before, "a plan"
        bob(*words, "--execute", *PATIENT)
        assert places(world, groups) == dict.fromkeys(groups, moved), words
        bob("undo", "--execute", *PATIENT)
        assert {each: world.exact(each) for each in groups} == before, words


def test_migrate_and_back(bob: Bob, world: KafkaWorld, groups: list[str], orders: str) -> None:
    before = {each: world.exact(each) for each in groups}
    bob("migrate", *groups, "--execute", *PATIENT)
    kinds = world.groups()
    assert {kinds[each] for each in groups} == {("consumer", "empty")}
    bob("undo", "--execute", *PATIENT)
    kinds = world.groups()
    assert {kinds[each] for each in groups} == {("classic", "empty")}
    assert {each: world.exact(each) for each in groups} == before


def test_evict(bob: Bob, broker: SecureBroker, world: KafkaWorld, groups: list[str], orders: str) -> None:
    with Members(broker.addresses["ADMIN"]) as members:
        member = members.classic(groups[0], orders, session_timeout_ms=30000, group_instance_id="pay-0")
        members.stable(member, partitions=2)
        member.kill()
        bob("reset", groups[0], "--topic", orders, "--to-latest", "--execute", *PATIENT, exit_code=9)
        bob("evict", groups[0], "--instance", "pay-0", "--execute", *PATIENT)
    assert world.groups()[groups[0]] == ("classic", "empty")


def test_the_right_that_is_missing_for_one_topic(
    broker: SecureBroker, world: KafkaWorld, groups: list[str], orders: str, name: Name
) -> None:
    """What is hidden is counted and named, whichever broker has it; nothing is deleted or moved that is not seen."""
    secret = replicated(world, name("secret"))
    for each in groups:
        world.commit(each, {(secret, 1): 5})
    before = {each: world.exact(each) for each in groups}
    changes = [(operation, group(each)) for each in groups for operation in (READ, DELETE)]
    bob = Bob(broker)
    bob.may(HISTORY, LEDGER, topic(orders), *map(group, groups), also=changes)
    known_everywhere(bob, groups)
    for verb in ("describe", "lag", "export"):
        found = bob(verb, *groups, "-o", "json", *PATIENT)
        assert {each["group"] for each in found.data} == set(groups)
        notes = [note for note in found.json["notes"] if f"1 commit on {secret} hidden" in note]
        assert {note.partition(":")[0] for note in notes} == set(groups), verb
    for execute in ((), ("--execute",)):
        refused = bob("delete", *groups, *execute, "-o", "json", *PATIENT, exit_code=6)
        assert {(each["group"], each["code"]) for each in refused.json["errors"]} == {
            (each, "hidden-commits") for each in groups
        }
        forbidden = bob("reset", *groups, "--topic", secret, "--to-latest", *execute, *PATIENT, exit_code=4)
        assert f"kafka-acls.sh --bootstrap-server {broker.addresses['SCRAM']} --command-config FILE" in forbidden.stderr
        assert secret in forbidden.stderr
    bob("wait", groups[0], "--for", "lag=100", "--within", "5s", *PATIENT, exit_code=4)
    assert {each: world.exact(each) for each in groups} == before


def test_the_right_that_is_missing_for_one_group(
    broker: SecureBroker, world: KafkaWorld, groups: list[str], orders: str
) -> None:
    """The others are shown (7) and, only with --partial, changed."""
    *allowed, denied = groups
    before = world.exact(denied)
    changes = [(operation, group(each)) for each in allowed for operation in (READ, DELETE)]
    bob = Bob(broker)
    bob.may(HISTORY, LEDGER, topic(orders), *map(group, allowed), also=changes)
    known_everywhere(bob, allowed)
    shown = bob("describe", *groups, "-o", "json", *PATIENT, exit_code=7)
    assert {each["group"] for each in shown.data} == set(allowed)
    assert [(each["group"], each["code"]) for each in shown.json["errors"]] == [(denied, "not-authorized")]
    words = ("reset", *groups, "--topic", orders, "--to-latest")
    bob(*words, "--execute", *PATIENT, exit_code=4)
    assert places(world, allowed) == {each: [2, 4] for each in allowed}
    bob(*words, "--execute", "--partial", *PATIENT, exit_code=7)
    assert places(world, allowed) == {each: [12, 12] for each in allowed}
    assert world.exact(denied) == before


def test_catchup_start(
    broker: SecureBroker, world: KafkaWorld, groups: list[str], orders: str, name: Name, tmp_path: Path
) -> None:
    """The whole of it, released, replayed by Spark's workers and proved, with the rights that the manual names."""
    copy, dead, ledger = replicated(world, name("copy"), 0), replicated(world, name("dead"), 0), name("ledger")
    with rules_admin(broker.addresses["ADMIN"]) as admin:
        user = Replayer(broker, admin, world, tmp_path, orders, groups[0], copy, dead, ledger)
        user.may(user.all)
        start = ("catchup", "start", user.group, "--to-topic", copy, "--dead-letter-topic", dead)
        wait_for(
            lambda: CommandLine()(*start, *user.connection, *PATIENT, exit_code=None).exit_code == 0, "rules known", 60
        )
        done = user.process(*start[1:], "--master", "local[1]", *PATIENT, "--execute")
    assert "VERIFIED" in done.stdout
    gap = [*(f"{orders}:0:{at}" for at in range(2, 12)), *(f"{orders}:1:{at}" for at in range(4, 12))]
    assert copied(world, copy) == sorted(gap)
    assert offsets(world, user.group) == {(orders, 0): 12, (orders, 1): 12}


def test_coordinator_killed_and_another_takes_over(
    bob: Bob, broker: SecureBroker, world: KafkaWorld, groups: list[str], orders: str
) -> None:
    """It has just died when the change begins: all groups are changed, also those that it had.

    The last test of this file: a broker that was killed coordinates no group until leaders are elected again.
    """
    before = {each: world.exact(each) for each in groups}
    broker.sandbox.kill(world.coordinator(groups[0]))
    words = ("reset", *groups, "--topic", orders, "--to-latest")
    with busy_partition(world, groups[0], orders):
        done = bob(*words, "--execute", "-o", "json", *PATIENT)
    assert (done.json["executed"], done.json["errors"]) == (True, [])
    broker.sandbox.up(reporter=QuietReporter())
    # A broker that comes back answers as the coordinator that it was, for a moment.
    wait_for(lambda: places(world, groups) == {each: [12, 12] for each in groups}, "all groups at their ends")
    bob("undo", "--execute", *PATIENT)
    assert {each: world.exact(each) for each in groups} == before
