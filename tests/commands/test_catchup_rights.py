"""``kgroup catchup`` for users with few rights: what is missing is said before anything moves; no password leaks."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from kafka.admin import ACLOperation, KafkaAdminClient, ResourceType

from kgroup.sandbox import ports
from tests.helpers import programs
from tests.helpers.access_rules import rule, rules_admin, set_rules
from tests.helpers.catchup.catchups import copied, offsets, plan_id, written
from tests.helpers.catchup.replays import seen
from tests.helpers.command_line import CommandLine, QuietReporter, Result
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.running import running
from tests.helpers.secure_broker import USERS, SecureBroker, secure_broker
from tests.helpers.waiting import wait_for
from tests.helpers.wire import just_before

pytestmark = pytest.mark.soak

Name = Callable[[str], str]
READ, WRITE, CREATE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.CREATE
DESCRIBE, CONFIGS = ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS
TOPIC, GROUP, CLUSTER, ID = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.TRANSACTIONAL_ID,
)
PREFIX = "kgroup-catchup-"
SECRET = USERS["bob"]

Right = tuple[ResourceType, str, ACLOperation]


@pytest.fixture(scope="module")
@programs.needs("openssl")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("rights"), QuietReporter()) as broker:
        yield broker


@pytest.fixture(scope="module")
def admin(broker: SecureBroker) -> Iterator[KafkaAdminClient]:
    with rules_admin(broker.addresses["ADMIN"]) as client:
        yield client


@dataclass
class Bob:
    """A user with the rights that ``may`` gives, a crashed group, and topics to copy it to."""

    broker: SecureBroker
    admin: KafkaAdminClient
    world: KafkaWorld
    directory: Path
    topic: str
    group: str
    copy: str
    dead: str
    ledger: str
    password: str = SECRET
    rights: set[Right] = field(default_factory=set)

    @property
    def all(self) -> set[Right]:
        """What a whole catch-up into a topic needs."""
        return {
            (TOPIC, self.topic, READ),
            (GROUP, self.group, READ),
            (TOPIC, "__consumer_offsets", READ),
            (CLUSTER, "kafka-cluster", DESCRIBE),
            *((TOPIC, self.ledger, operation) for operation in (CREATE, READ, WRITE, CONFIGS)),
            *((TOPIC, topic, operation) for topic in (self.copy, self.dead) for operation in (WRITE, CONFIGS)),
            (ID, PREFIX, WRITE),
        }

    @property
    def gap(self) -> list[str]:
        """Where the records of the gap are, in the order of ``copied``."""
        return sorted(
            [*(f"{self.topic}:0:{n}" for n in range(70, 120)), *(f"{self.topic}:1:{n}" for n in range(20, 50))]
        )

    def may(self, rights: set[Right]) -> None:
        """Give bob these and nothing else; a transactional id is one that begins so.

        A right that stays is his all the time: a replay that runs meanwhile would notice.
        """
        rules = [rule(operation, kind, name, prefixed=kind is ID) for kind, name, operation in rights]
        set_rules(self.admin, rules)

    @property
    def connection(self) -> tuple[str, ...]:
        """As options: the password is in a file."""
        file = self.directory / "client.properties"
        escaped = self.password.replace("\\", "\\\\")
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=bob\n"
            f"sasl.password={escaped}\nssl.ca.location={self.broker.certificates.certificate('ca')}\n"
        )
        where = ("--command-config", str(file), "--ledger-topic", self.ledger)
        return ("-b", self.broker.addresses["SCRAM"], *where)

    def __call__(self, *words: str, exit_code: int) -> Result:
        result = CommandLine()("catchup", *words, *self.connection, exit_code=exit_code)
        assert SECRET not in result.stdout + result.stderr
        return result

    def process(self, *words: str, exit_code: int = 0) -> Result:
        return CommandLine().process("catchup", *words, *self.connection, exit_code=exit_code)


@pytest.fixture
def bob(broker: SecureBroker, admin: KafkaAdminClient, name: Name, tmp_path: Path) -> Iterator[Bob]:
    """A group of another user is there too, and must not be touched."""
    with KafkaWorld(broker.addresses["ADMIN"]) as world:
        topic, group = world.topic(name("orders"), 2), name("svc")
        world.produce(topic, 120)
        world.produce(topic, 50, 1)
        world.commit(group, {(topic, 0): (70, "the app's own", 0), (topic, 1): 20})
        bystander = name("bystander")
        world.commit(bystander, {(topic, 0): 3})
        before = world.exact(bystander)
        copy, dead = world.topic(name("copy"), 2), world.topic(name("dead"))
        made = Bob(broker, admin, world, tmp_path, topic, group, copy, dead, name("ledger"))
        made.may(made.all)
        yield made
        assert world.exact(bystander) == before


def test_these_rights_are_enough(bob: Bob) -> None:
    """The same that the other tests take one of: it is done, and nobody had to be asked for more."""
    start = ("start", bob.group, "--to-topic", bob.copy, "--dead-letter-topic", bob.dead)

    done = bob.process(*start, "--master", "local[1]", "--execute")

    assert "VERIFIED" in done.stdout
    assert copied(bob.world, bob.copy) == bob.gap
    assert offsets(bob.world, bob.group) == {(bob.topic, 0): 120, (bob.topic, 1): 50}
    assert bob("show", plan_id(done), exit_code=0)


def test_without_create_somebody_else_makes_the_ledger(bob: Bob) -> None:
    """The command is said whole; who may runs it, and then the same command goes through."""
    bob.may(bob.all - {(TOPIC, bob.ledger, CREATE)})
    before = bob.world.exact(bob.group)

    for more in ((), ("--execute",)):
        refused = bob("start", bob.group, "--to-topic", bob.copy, *more, "-o", "json", exit_code=6)
        (error,) = refused.json["errors"]
        assert (error["code"], bob.ledger in error["message"]) == ("no-ledger", True)
    assert bob.world.exact(bob.group) == before

    words = error["hint"].split("kafka-topics.sh ")[1].split()
    assert words[words.index("--topic") + 1] == bob.ledger
    settings = dict(word.split("=") for option, word in pairwise(words) if option == "--config")
    assert settings["cleanup.policy"] == "compact"
    bob.world.topic(bob.ledger, int(words[words.index("--partitions") + 1]), settings)
    bob("start", bob.group, "--release-only", "--execute", exit_code=0)
    assert offsets(bob.world, bob.group) == {(bob.topic, 0): 120, (bob.topic, 1): 50}


def test_what_is_missing_is_said_before_anything_moves(bob: Bob) -> None:
    """Each right by itself: exit 4, the right and what it is for, by the plan and by --execute alike."""
    bob.may(bob.all)
    bob("start", bob.group, "--release-only", "--execute", exit_code=0)
    bob("cancel", bob.group, "--execute", exit_code=0)  # so that there is a ledger
    before = bob.world.exact(bob.group)
    start = ("start", bob.group, "--to-topic", bob.copy, "--dead-letter-topic", bob.dead, "--master", "local[1]")

    for right, said in [
        ((TOPIC, bob.ledger, WRITE), ("WRITE", bob.ledger)),
        ((TOPIC, bob.ledger, READ), ("READ", bob.ledger)),
        ((TOPIC, bob.ledger, CONFIGS), ("DESCRIBE_CONFIGS", bob.ledger)),
        ((ID, PREFIX, WRITE), ("TransactionalId", PREFIX)),
        ((TOPIC, bob.copy, WRITE), ("WRITE", bob.copy)),
        ((TOPIC, bob.dead, WRITE), ("WRITE", bob.dead)),
        ((TOPIC, bob.topic, READ), (bob.topic,)),
        ((GROUP, bob.group, READ), (bob.group,)),
    ]:
        kind, resource, operation = right
        visible = {(TOPIC, resource, DESCRIBE)} if kind is TOPIC and operation in (READ, WRITE) else set()
        bob.may((bob.all - {right}) | visible)
        for more in ((), ("--execute",)):
            refused = bob(*start, *more, "-o", "json", exit_code=4)
            errors = refused.json["errors"]
            assert {error["code"] for error in errors} == {"not-authorized"}, right
            for word in said:
                assert word in json.dumps(errors), (right, errors)
            assert not refused.json["executed"], right
        assert bob.world.exact(bob.group) == before, right
    bob.may(bob.all)
    assert {plan["state"] for plan in bob("list", "-o", "json", exit_code=0).data} == {"cancelled"}


def test_commits_that_are_hidden_are_not_no_gap(bob: Bob) -> None:
    """Without DESCRIBE on a topic the broker leaves out its commits without a word."""
    hidden = {right for right in bob.all if right[1] != bob.topic}
    bob.may(hidden)
    bob("start", bob.group, "--topic", bob.topic, exit_code=4)
    bob.may({right for right in hidden if right[0] is not CLUSTER})

    result = bob("start", bob.group, exit_code=6)

    assert "2 commits on " in result.stderr
    assert "hidden: no DESCRIBE on Topic" in result.stderr


def test_looking_takes_less(bob: Bob) -> None:
    """list and show need to read the ledger, and nothing of the group; nothing at all is 4."""
    bob("start", bob.group, "--release-only", "--execute", exit_code=0)
    bob.may({(TOPIC, bob.ledger, READ), (TOPIC, bob.ledger, CONFIGS)})

    (plan,) = bob("list", "-o", "json", exit_code=0).data

    assert (plan["state"], plan["totals"]["undelivered_offset_count"]) == ("released", 80)
    bob("show", plan["plan_id"], exit_code=0)
    for verb in ("stop", "cancel"):
        bob(verb, plan["plan_id"], "--execute", exit_code=4)
    bob.may(set())
    bob("show", plan["plan_id"], exit_code=4)
    bob("cancel", plan["plan_id"], "--execute", exit_code=4)


def delivering(bob: Bob) -> None:
    """Wait until a replay that has just begun writes."""
    before = written(bob.world, bob.copy)
    wait_for(lambda: written(bob.world, bob.copy) > before, "records", 60)


def test_rights_that_are_taken_away_while_records_are_replayed(bob: Bob) -> None:
    """Each by itself, in one plan: exit 4 with the right, and when all are back, each record is there once."""
    go_on = ("--rate", "4/s", "--master", "local[1]", "--execute")
    words: tuple[str, ...] = ("start", bob.group, "--to-topic", bob.copy, *go_on)
    for right, visible, said in [
        ((TOPIC, bob.topic, READ), False, f"no READ on Topic {bob.topic}"),
        ((TOPIC, bob.copy, WRITE), False, f"{bob.copy} could not be read: no DESCRIBE on Topic"),
        ((TOPIC, bob.ledger, WRITE), True, f"no WRITE on Topic {bob.copy} or {bob.ledger}"),
        ((ID, PREFIX, WRITE), False, f"no WRITE on TransactionalId {PREFIX}"),
    ]:
        with running("catchup", *words, *bob.connection) as process:
            delivering(bob)
            bob.may(bob.all - {right} | ({(TOPIC, right[1], DESCRIBE)} if visible else set()))
            failed = process.ends(4)
        assert said in failed.stderr
        assert "--allow-principal User:bob " in failed.stderr
        bob.may(bob.all)
        (plan,) = bob("list", "-o", "json", exit_code=0).data
        assert plan["state"] == "released"
        assert f"kgroup catchup resume {plan['plan_id']}" in failed.stderr
        words = ("resume", plan["plan_id"], *go_on)

    bob("resume", bob.group, "--rate", "off", "--master", "local[1]", "--execute", exit_code=0)
    assert copied(bob.world, bob.copy) == bob.gap


def test_the_right_on_the_group_is_taken_away_just_before_it_is_released(
    bob: Bob, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bob.world.exact(bob.group)
    missing = (GROUP, bob.group, READ)
    happened = just_before(monkeypatch, "OffsetCommit", lambda: bob.may(bob.all - {missing}))

    failed = bob("start", bob.group, "--to-topic", bob.copy, "--master", "local[1]", "--execute", exit_code=4)

    assert happened
    assert bob.group in failed.stderr
    assert bob.world.exact(bob.group) == before
    bob.may(bob.all)
    (plan,) = bob("list", "-o", "json", exit_code=0).data
    assert plan["state"] == "releasing"
    assert f"kgroup catchup resume {plan['plan_id']}" in failed.stderr
    bob("resume", plan["plan_id"], "--master", "local[1]", "--execute", exit_code=0)
    assert copied(bob.world, bob.copy) == bob.gap
    assert offsets(bob.world, bob.group) == {(bob.topic, 0): 120, (bob.topic, 1): 50}


def test_a_plan_is_closed_with_these_rights(bob: Bob) -> None:
    """Those of ``catchup done``; without one of the group, nothing is closed."""
    bob.may(bob.all)
    bob("start", bob.group, "--release-only", "--execute", exit_code=0)
    ledger = {(TOPIC, bob.ledger, READ), (TOPIC, bob.ledger, WRITE), (ID, PREFIX, WRITE)}
    words = ("done", bob.group, "--by", "job 1", "--execute")

    bob.may({*ledger, (TOPIC, bob.topic, READ)})
    refused = bob(*words, exit_code=4)
    bob.may({*ledger, (TOPIC, bob.topic, READ), (GROUP, bob.group, READ)})
    closed = bob(*words, exit_code=0)

    assert bob.group in refused.stderr
    assert "CLOSED" in closed.stdout


def test_a_wrong_password(bob: Bob) -> None:
    bob.password = "not-" + SECRET
    for words in (
        ("start", bob.group),
        ("start", bob.group, "--to-topic", bob.copy, "--execute"),
        ("list",),
        *((verb, "cu-2222") for verb in ("show", "stop", "resume", "cancel", "prune")),
    ):
        refused = bob(*words, "-o", "json", exit_code=4)
        assert refused.json["errors"][0]["code"] == "auth-failed", words
        assert bob.password not in refused.stdout + refused.stderr


def test_a_password_is_nowhere_while_a_replay_runs_and_after_it_failed(
    bob: Bob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in Spark's configuration, pages and event log, on command lines, in temporary files, logs or the ledger."""
    temporary, events = bob.directory / "tmp", bob.directory / "events"
    temporary.mkdir()
    events.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    (page,) = ports.choose(1)
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(page),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(temporary),
        "spark.log.level": "DEBUG",
    }
    shown = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    report, debug = bob.directory / "report.json", bob.directory / "debug.log"
    start = ("start", bob.group, "--to-topic", bob.copy, "--rate", "2/s", "--master", "local[2]", "--execute")
    more = ("--spark-log", "--report", str(report), "--debug", str(debug))

    with running("catchup", *start, *shown, *more, *bob.connection) as process:
        process.says("RELEASED")
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def looked(name: str) -> str:
            try:
                with direct.open(f"http://127.0.0.1:{page}/{name}/", timeout=20) as answer:
                    return str(answer.read().decode())
            except OSError:  # it is not there yet
                return ""

        wait_for(lambda: written(bob.world, bob.copy), "records", 60)
        wait_for(lambda: list(events.iterdir()) and "spark.eventLog" in looked("environment"), "Spark's page", 60)
        pages = [looked(name) for name in ("jobs", "stages", "environment", "executors")]
        commands = _of_family(process.process.pid, "cmdline")
        environments = _of_family(process.process.pid, "environ")
        during = _files(temporary, events)
        # So that a worker fails, and says why; without DESCRIBE, which WRITE implies, the driver would.
        bob.may(bob.all - {(TOPIC, bob.copy, WRITE)} | {(TOPIC, bob.copy, DESCRIBE)})
        failed = process.ends(4)

    ledger = [(one.key, one.value) for one in seen(bob.world.bootstrap, bob.ledger, "read_uncommitted")]
    texts = {
        "pages": "".join(pages),
        "commands": "".join(commands),
        "environments": "".join(environments),
        "stdout": failed.stdout,
        "stderr": failed.stderr,
        "report": report.read_text() if report.exists() else "",
        "debug": debug.read_text(),
        "ledger": repr(ledger) + repr([value for pair in ledger for value in pair if value]),
    }
    assert len(environments) >= 3
    assert "pyspark-shell" in texts["commands"]
    assert "WRITE" in failed.stderr
    assert len(failed.stderr.splitlines()) > 50, "Spark's log was shown"
    for where, text in texts.items():
        for secret in _forms(SECRET):
            assert secret not in text, where
    after = _files(temporary, events, Path(os.environ["KGROUP_STATE_DIR"]))
    assert any(events in path.parents for path in after)
    for path, content in {**during, **after}.items():
        for secret in _forms(SECRET):
            assert secret.encode() not in content, path


def _forms(secret: str) -> set[str]:
    """As it is, and as JSON, Python and a properties file write it."""
    return {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], re.sub(r"([\\=;])", r"\\\1", secret)}


def _files(*roots: Path) -> dict[Path, bytes]:
    found = {}
    for root in roots:
        for path in root.rglob("*"):
            try:
                found[path] = path.read_bytes()
            except OSError:
                continue
    return found


def _of_family(pid: int, name: str) -> list[str]:
    """A file of ``/proc`` of a process and all its descendants.

    No other process is looked at: a broker that another test makes at this moment has the same password, and Kafka's
    tool takes it on its command line.
    """
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {pid}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    found = []
    for each in family:
        try:
            found.append(Path(f"/proc/{each}/{name}").read_text(errors="replace"))
        except OSError:
            continue
    return found
