"""What ``--client`` says, against the table of clients."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kgroup.groups.migration.check import CheckStatus, MigrationCheck
from kgroup.groups.migration.clients import check_clients, known_client, minimum_versions, parse_clients
from kgroup.groups.migration.evidence import ApplicationClient
from kgroup.groups.migration.known_versions import ClientSupport, MigrationRules, has_fix, parse_version
from kgroup.queries.migration_data import load_rules
from kgroup.support.errors import ExitCode, UsageError
from tests.helpers.cases.migration import EMPTY, TO_CLASSIC, case


@pytest.mark.parametrize(
    ("text", "group", "name", "version"),
    [
        ("java:4.3.1", None, "java", "4.3.1"),
        ("pay-svc=java:4.3.1", "pay-svc", "java", "4.3.1"),
        ("a=b:c=librdkafka:v2.15.0", "a=b:c", "librdkafka", "v2.15.0"),
        (" Confluent_Kafka : 2.12.0 ", None, "confluent-kafka", "2.12.0"),
        ("franz-go:1.21", None, "franz-go", "1.21"),
        ("java:4.4.0-rc1", None, "java", "4.4.0-rc1"),
    ],
)
def test_a_client(text: str, group: str | None, name: str, version: str) -> None:
    assert parse_clients([text]) == ((group, ApplicationClient(name, version)),)


def test_several_clients_each_once() -> None:
    found = parse_clients(["java:4.3.1", "pay=java:4.0", "java:4.3.1"])

    assert found == ((None, ApplicationClient("java", "4.3.1")), ("pay", ApplicationClient("java", "4.0")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a client"),
        ("java", "not a client"),
        ("java:", "not a client"),
        (":4.3.1", "not a client"),
        ("=java:4.3.1", "not a client"),
        ("pay-svc=java", "not a client"),
        ("java:latest", "latest is not a version"),
        ("java:8.0.0-ccs", "Confluent Platform's number"),
        ("java:7.9.1-ce", "Confluent Platform's number"),
    ],
)
def test_what_is_no_client(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_clients([text])

    assert caught.value.exit_code is ExitCode.USAGE
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("java", "java"),
        ("kafka-clients", "java"),
        ("Confluent_Kafka_Python", "confluent-kafka"),
        ("confluent.kafka", "confluent-kafka"),
        ("KAFKAJS", "kafkajs"),
        ("debezium", "quarkus"),
    ],
)
def test_a_client_by_any_of_its_names(name: str, row: str) -> None:
    assert known_client(name, load_rules()).name == row


@pytest.mark.parametrize(
    ("name", "near"),
    [("jav", "java"), ("librdkafk", "librdkafka"), ("confluent-kafka-rust", "confluent-kafka"), ("zzz", None)],
)
def test_an_unknown_client(name: str, near: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        known_client(name, load_rules())

    assert name in caught.value.message
    assert "librdkafka" in (caught.value.hint or "")
    assert any(near in line for line in caught.value.details) if near else caught.value.details == ()


def judged(*named: str) -> MigrationCheck:
    given = tuple(client for _, client in parse_clients(named))
    check = check_clients(case(replace(EMPTY, clients=given)))
    assert check is not None
    return check


@pytest.mark.parametrize(
    ("named", "status", "brief"),
    [
        ("java:3.9.1", CheckStatus.BLOCKED, "java 3.9.1 < 4.0"),
        ("java:4.0.0-rc1", CheckStatus.BLOCKED, "java 4.0.0-rc1 < 4.0"),
        ("java:4.0.0", CheckStatus.WARNING, "java 4.0.0 < 4.4.0"),
        ("java:4.3.1", CheckStatus.WARNING, "java 4.3.1 < 4.4.0"),
        ("java:4.4.0", CheckStatus.OK, None),
        ("java:8.0.1", CheckStatus.WARNING, "no java 8.0.1"),
        ("librdkafka:2.11.1", CheckStatus.BLOCKED, "librdkafka 2.11.1 < 2.12.0"),
        ("librdkafka:2.14.2", CheckStatus.WARNING, "librdkafka 2.14.2 < 2.15.0"),
        ("librdkafka:2.15.0", CheckStatus.OK, None),
        ("confluent-kafka:2.12.0", CheckStatus.WARNING, "confluent-kafka 2.12.0 < 2.15.0"),
        ("confluent-kafka-javascript:1.6.0", CheckStatus.OK, None),
        ("confluent-kafka-javascript:1.5.9", CheckStatus.BLOCKED, "confluent-kafka-javascript 1.5.9 < 1.6.0"),
        ("node-rdkafka:3.6.0", CheckStatus.BLOCKED, "node-rdkafka 3.6.0 < 3.6.1"),
        ("node-rdkafka:3.6.1", CheckStatus.WARNING, "node-rdkafka: wait for a release"),
        ("karafka:2.5", CheckStatus.UNKNOWN, None),
        ("spring-kafka:4.0.0", CheckStatus.OK, None),
        ("spring-kafka:3.3.4", CheckStatus.BLOCKED, "spring-kafka 3.3.4 < 4.0"),
        ("quarkus:3.15", CheckStatus.UNKNOWN, None),
        ("franz-go:1.18.0", CheckStatus.BLOCKED, "franz-go 1.18.0 < 1.19"),
        ("franz-go:1.21.6", CheckStatus.OK, None),
        ("platformatic-kafka:1.0.0", CheckStatus.WARNING, "platformatic-kafka: platformatic/kafka#267"),
        ("kafka-python:3.0.12", CheckStatus.BLOCKED, "kafka-python: not supported"),
        ("sarama:1.45", CheckStatus.BLOCKED, "sarama: not supported"),
        ("aiokafka:0.14.0", CheckStatus.BLOCKED, "aiokafka: not supported"),
        ("nobody:1.0", CheckStatus.UNKNOWN, None),
    ],
)
def test_clients(named: str, status: CheckStatus, brief: str | None) -> None:
    check = judged(named)

    assert (check.status, check.brief) == (status, brief), check.evidence
    assert check.remedy or status in (CheckStatus.OK, CheckStatus.UNKNOWN)


def test_a_client_about_which_nothing_was_found() -> None:
    row = replace(known_client("aiokafka", load_rules()), support=ClientSupport.UNKNOWN)
    given = (ApplicationClient("aiokafka", "0.14.0"),)

    check = check_clients(case(replace(EMPTY, clients=given), rules=MigrationRules(clients=(row,))))

    assert check is not None
    assert (check.status, check.brief) == (CheckStatus.WARNING, "aiokafka: not known")


def test_the_heaviest_of_several_counts_and_all_are_told() -> None:
    check = judged("java:4.4.0", "kafka-python:3.0.12", "librdkafka:2.14.2")

    assert (check.status, check.brief) == (CheckStatus.BLOCKED, "kafka-python: not supported")
    for word in ("java 4.4.0: as advised", "kafka-python does not speak", "librdkafka 2.14.2: usable"):
        assert word in check.evidence


def test_certainty_and_the_defects_of_that_very_version_are_told() -> None:
    old, new = judged("java:4.2.0").evidence, judged("java:4.3.1").evidence

    assert "KAFKA-20426 busy loop with group.id and assign() (fixed in 4.3.0)" in old
    assert "KAFKA-19259" not in old
    assert "KAFKA-20426" not in new
    assert "KAFKA-20780 latency on quiet topics (28 ms becomes 2.3 s) (fixed in 4.3.2, 4.4.0)" in new
    assert "KAFKA-21031 spinning (open, second-hand)" in new
    assert "(confirmed: " in new
    assert "second-hand" in judged("node-rdkafka:3.6.1").evidence


def test_nobody_said_what_is_used() -> None:
    check = check_clients(case(EMPTY))

    assert check is not None
    assert (check.status, check.brief) == (CheckStatus.UNKNOWN, None)
    assert check_clients(case(EMPTY, TO_CLASSIC)) is None


def test_minimum_versions() -> None:
    text = minimum_versions(load_rules())

    assert text.startswith("Needed: Java 4.0 (4.4.0 advised), librdkafka 2.12.0 (2.15.0 advised), ")
    assert "node-rdkafka 3.6.1 (wait for a release)" in text
    assert text.endswith("; not usable: kafka-python, sarama, kafka-go, KafkaJS, aiokafka")
    assert minimum_versions(MigrationRules()) == "No client is known"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("4", (4, 0, 0, 0, 1)),
        ("4.3", (4, 3, 0, 0, 1)),
        ("v1.21.6", (1, 21, 6, 0, 1)),
        ("4.4.0-rc1", (4, 4, 0, 0, 0)),
        ("4.4.0-SNAPSHOT", (4, 4, 0, 0, 0)),
        ("1.0.0b2", (1, 0, 0, 0, 0)),
        ("4.3.1.RELEASE", (4, 3, 1, 0, 1)),
        ("2.12.0-1ubuntu", (2, 12, 0, 0, 1)),
        ("3.0.12.post1", (3, 0, 12, 0, 1)),
        ("", None),
        ("latest", None),
        ("4.", None),
        ("4.x", None),
        ("\u0664.0", None),
        ("4.3.1 and more", None),
    ],
)
def test_versions(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("3.9.0", False),
        ("4.0.1", False),
        ("4.0.2", True),
        ("4.1.1", False),
        ("4.1.2", True),
        ("4.2.0-rc1", False),
        ("4.2.0", True),
        ("4.3.0", True),
        ("5.0", True),
    ],
)
def test_a_fix_is_in_its_own_line_and_in_all_later_ones(text: str, fixed: bool) -> None:
    version = parse_version(text)

    assert version is not None
    assert has_fix(version, ("4.0.2", "4.1.2", "4.2.0")) is fixed
    assert not has_fix(version, ())
