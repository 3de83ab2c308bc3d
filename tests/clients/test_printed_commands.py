"""Every command of another tool that kgroup prints is one that the tool understands: each kind is run once."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from kafka.admin import ACLOperation

import kgroup
from kgroup.catchup.ledger.topic import _may_not_make
from kgroup.catchup.service.sink_checks import check_target
from kgroup.cluster.topic_admin import NewTopicSpec
from kgroup.groups.doctor.finding import Finding
from kgroup.groups.foreign_owners import foreign_owner
from kgroup.groups.migration.about_brokers import _SWITCH_ON
from kgroup.model.groups import ListedGroup
from kgroup.model.kafka_tools import acl_hint, find_hanging
from kgroup.queries.snapshots import refuse_foreign
from kgroup.settings.java import keystore_command, truststore_command
from kgroup.support.errors import Refused
from tests.commands.test_rights import CLUSTER, Bob, group, topic
from tests.groups.doctor.test_rules import CASES, look
from tests.helpers import programs
from tests.helpers.cases.doctor import group as group_of
from tests.helpers.cases.doctor import partition
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.java import java_command
from tests.helpers.kafka_tools import SOURCE, KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.secure_broker import USERS, _jaas_quoted, secure_broker
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.soak

TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups.sh": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset.sh": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups.sh": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
SUBCOMMANDS = {"abort", "describe-producers", "find-hanging", "upgrade"}
NOT_PRINTED = {"kafka-consumer-groups.sh", "kafka-run-class.sh"}
"""Named in help and comments only."""

_MISUNDERSTOOD = re.compile(
    r"is not a recognized option|Missing required arg|[Uu]nrecognized|requires an argument|invalid choice|"
    r"unrecognized arguments|can't be used|is ambiguous|too few arguments|arguments? .* (is|are) required|"
    r"Exactly one|Only one of|must be specified|joptsimple",
)
TOPIC = "printed-commands"


def texts(node: object) -> Iterator[str]:
    """All strings of a document."""
    if isinstance(node, str):
        yield node
    for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from texts(each)


def of_the_doctor() -> Iterator[str]:
    """The commands of all findings of the doctor's cases, and those of the texts about its rules."""
    for case in CASES:
        for finding in look(case):
            if isinstance(finding, Finding):
                yield from finding.commands
    rules = (Path(kgroup.__file__).parent / "data" / "doctor_rules.yaml").read_text(encoding="utf-8")
    for text in texts(yaml.safe_load(rules)):
        if text.startswith("kafka-"):  # what follows a colon is what to look for in its answer
            yield re.split(r"[:,] ", text.replace(" twice", f" --bootstrap-server BROKER --topic {TOPIC}"))[0]


def of_refusals() -> Iterator[str]:
    """What is to be done with groups of other kinds, by kgroup's verbs."""
    for type_ in ("share", "streams"):
        listed = ListedGroup(f"a {type_} group", type_, "Empty", None, None)
        for verb in ("reset", "delete", "delete-offsets", "describe"):
            with pytest.raises(Refused) as refused:
                refuse_foreign([listed], verb)
            printed = [line for line in (*refused.value.details, refused.value.hint or "") if line.startswith("kafka-")]
            assert printed
            yield from printed
        owner = foreign_owner(listed)
        assert owner
        yield from owner.remedy.splitlines()
    application = group_of((), (partition(0, topic="app-x-repartition"),), name="app")
    owner = foreign_owner(application)
    assert owner
    yield from owner.remedy.splitlines()


def of_rights() -> Iterator[str]:
    """Rights that are missing."""
    for operations, resource, *names in (
        ("Read", "topic", TOPIC),
        ("DescribeConfigs", "topic", TOPIC),
        (("READ", "DESCRIBE"), "group", "a group", "another"),
        ("Describe", "cluster"),
        ("DescribeConfigs", "cluster"),
        ("Write", "transactional-id", "app"),
        ("AlterConfigs", "group", "svc"),
    ):
        yield acl_hint(operations, str(resource), *map(str, names), principal="User:alice")
    yield f"{acl_hint('Write', 'transactional-id', 'kgroup-', principal='User:alice')} --resource-pattern-type prefixed"


def of_others() -> Iterator[str]:
    """The rest."""
    yield _SWITCH_ON
    (finding,) = check_target(f"{TOPIC}-new", None, (), {}, {}, 0, None)
    assert finding.hint
    yield finding.hint.replace("N ...", "1")
    spec = NewTopicSpec(f"{TOPIC}-ledger", 1, 1, {"cleanup.policy": "compact", "min.insync.replicas": "1"})
    hint = _may_not_make(spec, "BROKER").hint
    assert hint
    yield hint.partition(":  ")[2]
    yield find_hanging(TOPIC, 0)
    yield "kafka-transactions.sh --bootstrap-server BROKER find-hanging --broker-id ID"


def kinds() -> list[str]:
    """A command of each tool and each set of options."""
    found: dict[tuple[str, ...], str] = {}
    for source in (of_the_doctor, of_refusals, of_rights, of_others):
        for command in source():
            if command.startswith("kafka-"):
                words = shlex.split(command)
                kind = (words[0], *(word for word in words if word.startswith("--") or word in SUBCOMMANDS))
                found.setdefault(kind, command)
    return list(found.values())


Run = Callable[[str], tuple[int, str]]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tools run."""
    return tmp_path_factory.mktemp("tools")


@pytest.fixture(scope="module")
def as_printed(directory: Path) -> Iterator[Run]:
    """Runs a printed command as it is."""
    with KafkaTools(java_command(SOURCE), directory) as tools:

        def run(command: str) -> tuple[int, str]:
            tool, *words = shlex.split(command)
            done = tools(TOOLS[tool], *words)
            return done.returncode, done.stdout + done.stderr

        yield run


@pytest.fixture(scope="module")
def run(as_printed: Run, directory: Path, world: KafkaWorld) -> Run:
    """Runs a printed command with this broker, this topic and partition 0 for what it leaves open."""
    world.topic(TOPIC, 1)
    layout = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [1]}]}
    (directory / "offsets.json").write_text(json.dumps(layout))
    meant = {"TOPIC": TOPIC, "TOPICS": TOPIC, "GROUP": "svc", "P": "0", "ID": "1"}

    def run(command: str) -> tuple[int, str]:
        words = [meant.get(word, word) for word in shlex.split(command)]
        for at, word in enumerate(words[:-1], start=1):
            if word == "--bootstrap-server":
                words[at] = world.bootstrap
            if word == "--topic" and not words[at].startswith(("__", TOPIC)):
                words[at] = TOPIC
        return as_printed(shlex.join(words))

    return run


def test_every_tool_that_is_named_is_run() -> None:
    package = Path(kgroup.__file__).parent
    named = {
        tool
        for pattern in ("*.py", "*.yaml")
        for file in package.rglob(pattern)
        for tool in re.findall(r"\bkafka-[a-z-]+\.sh", file.read_text(encoding="utf-8"))
    }
    run = {shlex.split(command)[0] for command in kinds()}
    assert named - NOT_PRINTED == run == TOOLS.keys()


@pytest.mark.parametrize("command", kinds())
def test_the_tool_understands_it(run: Run, command: str) -> None:
    _, said = run(command)
    assert not _MISUNDERSTOOD.search(said), f"{command}\n{said}"


@pytest.fixture(scope="module")
@programs.needs("openssl")
def bob(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bob]:
    """The user of a broker that asks who it is; the command that gives bob a right, he may run himself."""
    with secure_broker(tmp_path_factory.mktemp("secured"), QuietReporter()) as broker:
        with KafkaWorld(broker.addresses["ADMIN"]) as world:
            world.topic("open", partitions=1)
            world.commit("svc", {("open", 0): 0})
        yield Bob(broker)


@pytest.mark.parametrize("place", ["--command-config", "KGROUP_COMMAND_CONFIG"])
def test_the_missing_right_is_given_by_the_command_as_it_stands(
    as_printed: Run, bob: Bob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """With the addresses, and the file by which kgroup itself was let in: copied and run, and the verb works."""
    file = tmp_path / "my client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="bob" '
        f'password="{_jaas_quoted(USERS["bob"])}";\n'.replace("\\", "\\\\")
        + f"ssl.truststore.type=PEM\nssl.truststore.location={bob.broker.certificates.certificate('ca')}\n"
    )
    connection = ["-b", bob.broker.addresses["SCRAM"]]
    if place == "--command-config":
        connection += [place, str(file)]
    else:
        monkeypatch.setenv(place, str(file))
    alter = (ACLOperation.ALTER, CLUSTER)
    bob.may(topic("open"), group("svc"), CLUSTER, also=[alter])
    command = ("reset", "svc", "--topic", "open", "--to-latest", "--execute", *connection)
    refused = CommandLine()(*command, exit_code=4)
    (printed,) = [line.strip() for line in refused.stderr.splitlines() if "kafka-acls.sh" in line]
    assert as_printed(printed)[0] == 0
    wait_for(lambda: CommandLine()(*command, exit_code=None).exit_code == 0, "the right is there")


def test_where_the_file_is_not_one_of_java_s_its_place_is_left_to_the_reader(bob: Bob) -> None:
    bob.may(topic("open"), group("svc"), CLUSTER)
    said = bob("reset", "svc", "--topic", "open", "--to-latest", "--execute", exit_code=4).stderr
    assert f"kafka-acls.sh --bootstrap-server {bob.broker.addresses['SCRAM']} --command-config FILE --add " in said


@pytest.mark.parametrize("tool", TOOLS)
def test_an_option_that_does_not_exist_is_noticed(run: Run, tool: str) -> None:
    """The check can fail, for each tool."""
    words = {"kafka-transactions.sh": " list", "kafka-features.sh": " describe"}.get(tool, "")
    code, said = run(f"{tool} --bootstrap-server BROKER{words} --no-such-option")
    assert (code, bool(_MISUNDERSTOOD.search(said))) == (1, True), said


def test_what_was_printed_once_for_streams_groups_is_noticed(run: Run) -> None:
    command = "kafka-streams-groups.sh --bootstrap-server BROKER --reset-offsets --dry-run --all-topics --group g"
    code, said = run(command)
    assert (code, said.strip()) == (1, "all-topics is not a recognized option")


@pytest.mark.programs("bash", "openssl")
def test_stores_of_java_become_pem(tmp_path: Path) -> None:
    """The commands for Java's key and trust stores, with the passwords that the tools ask for."""
    secret = "changeit"
    for kind in ("PKCS12", "JKS"):
        store = tmp_path / f"a store.{kind}"
        subprocess.run(
            [
                *("keytool", "-genkeypair", "-alias", "a", "-keyalg", "RSA", "-dname", "CN=a", "-storetype", kind),
                *("-keystore", str(store), "-storepass", secret, "-keypass", secret),
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )
        for command, made in (
            (truststore_command(str(store)), "ca.pem"),
            (keystore_command(str(store), kind), "key.pem"),
        ):
            for old in ("ca.pem", "key.pem", "key.p12"):
                (tmp_path / old).unlink(missing_ok=True)
            given = command.replace("openssl pkcs12", f"openssl pkcs12 -passin pass:{secret}")
            given = given.replace("keytool -list", f"keytool -list -storepass {secret}")
            given = given.replace(
                "keytool -importkeystore", f"keytool -importkeystore -srcstorepass {secret} -deststorepass {secret}"
            )
            done = subprocess.run(
                ["bash", "-c", given], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, (given, done.stdout, done.stderr)
            text = (tmp_path / made).read_text()
            assert "BEGIN CERTIFICATE" in text
            assert ("PRIVATE KEY" in text) == (made == "key.pem")
