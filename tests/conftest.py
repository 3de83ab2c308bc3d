"""Fixtures: one shared broker, the real command line, live members, and groups that must stay as they are.

``KGROUP_TEST_BOOTSTRAP`` points the tests at another cluster; without it the sandbox starts one. No broker is an
error, never a skip.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import secrets
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings, strategies

from kgroup.cluster.writes import ChangingCluster
from tests.helpers import expiring_ids, programs, quick
from tests.helpers.catchup.spark_archive import archive_in
from tests.helpers.clusters import connected
from tests.helpers.command_line import CommandLine
from tests.helpers.kafka_proxy import ProxiedBroker, proxied_broker
from tests.helpers.kafka_tools import KafkaTools
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.members import Members

BROKER_PROPERTIES = {
    # A machine that stands still must not let the controller take its broker for dead.
    "broker.session.timeout.ms": "60000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "15000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "10",
    "transaction.state.log.num.partitions": "10",
    # Records of tests are years old; half a minute after its start, and then every five minutes, the broker would look
    # for what it may delete.
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "86400000",
    # ... and every ten minutes for groups that have nothing left, which some tests still compare or ask for.
    "offsets.retention.check.interval.ms": "86400000",
    # A client of one test module may be idle until the next module that uses its broker.
    "connections.max.idle.ms": "86400000",
    # Else it writes a record each half second, which is more than half of what an idle broker costs (4 % of a core).
    "metadata.max.idle.interval.ms": "0",
    "broker.heartbeat.interval.ms": "3000",
    "auto.create.topics.enable": "false",  # else a consumer makes a topic anew that a test has deleted
}
"""What is static on a broker and would make tests slow, or depend on the machine, with its defaults."""

MORTAL = {
    **BROKER_PROPERTIES,
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "metadata.max.idle.interval.ms": "500",
}
"""For a broker that is killed: it comes back, and others take over, when that has passed."""


FIRST = (
    "commands/test_moving_real_queries",
    "docs/test_recipes",
    "commands/test_catchup_all_pending",
    "situations/test_copies",
    "cli/test_pythons",
    "benchmarks/test_command",
    "cluster/offsets_topic/test_fuzz_records",
    "commands/test_guards",
    "commands/test_doctor",
    "commands/test_from_log",
    "commands/test_list",
    "commands/test_undo_faults",
    "docs/test_readme",
    "commands/test_catchup_kills",
    "commands/test_catchup_replay",
    "commands/test_migrate_kills",
    "commands/test_broker_faults",
    "commands/test_split_network",
    "commands/test_catchup_target",
    "commands/test_catchup_end",
    "commands/test_undo",
    "commands/test_catchup_cluster",
    "commands/test_describe_groups",
    "catchup/sinks/test_handlers",
    "clients/test_java_clients",
    "clients/test_history_of_java_groups",
    "commands/test_forked_queries",
    "cluster/checkpoints/test_hdfs",
    "commands/test_catchup_replicas",
    "commands/test_migrate",
    "commands/test_member_release",
    "commands/test_member_release_soak",
    "catchup/spark/test_where",
    "contracts/test_contracts",
    "cluster/membership/test_exclusive",
    "cluster/membership/test_conversion",
    "commands/test_migrate_proof",
    "catchup/sinks/test_topic",
    "situations/test_programs",
    "catchup/spark/test_job",
    "catchup/service/test_session_gap",
    "commands/test_wait",
    "output/terminal/test_draw",
    "output/watch/test_loop",
    "cli/test_processes",
    "cli/completion/test_shells",
    "commands/test_catchup_races",
    "commands/test_coordinator_behind",
    "sandbox/test_broker",
    "catchup/worker/test_kills",
    "commands/test_catchup_content",
    "commands/test_catchup_faults",
    "commands/test_catchup_start",
    "commands/test_catchup_input",
    "commands/test_history",
    "commands/test_reset",
    "commands/test_catchup_where",
    "sandbox/test_cluster",
    "commands/test_coordinator_moves",
    "clients/test_share_consumers",
    "commands/test_delete",
    "commands/test_migrate_watch",
    "catchup/service/test_release",
    "catchup/service/test_replay",
    "commands/test_catchup_dead_letters",
    "commands/test_catchup_throttle",
    "commands/test_watch",
    "test_architecture",
    "golden/test_golden",
)
"""Modules of half a minute or more, about in their order, so that no process waits for one of them at the end.

Three are shorter: they read all groups of their broker, which has hundreds at the end.
"""


OF_THE_RUN = ("KGROUP_TEST_BOOTSTRAP", "KGROUP_CACHE_DIR", "KGROUP_SITUATIONS_PART")
"""Variables that are for the tests, or would make each fetch Kafka again."""

WITH_SPARK = tuple(
    f"tests/{begin}"
    for begin in ("catchup/service/", "catchup/spark/", "commands/test_catchup_", "contracts/", "docs/")
)
"""How the paths of tests that start Spark begin."""


def pytest_configure(config: pytest.Config) -> None:
    """Python stores bytecode and buffers stdout whatever the environment says, in the processes that tests start too.

    Else each of xdist's processes compiles all modules of the tests (12 s of CPU), and each start of kgroup its own (a
    third of the start). With PYTHONUNBUFFERED, failures of stdout at exit are never met, which users do meet.
    """
    config.pluginmanager.register(programs)
    config.pluginmanager.register(quick)
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"):
        os.environ.pop(name, None)
    sys.dont_write_bytecode = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The first of xdist's processes compiles, and the others wait for what it stores.

    Modules and items stay until the end: a garbage collector that searches them again and again while they are made,
    and in each test, is a third of the CPU of collecting them.
    """
    gc.disable()
    try:
        with Path(__file__).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(lock, fcntl.LOCK_SH)
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"tests/{name}.py": place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


# No example is wrong because the machine stood still for a moment; what loops is ended by the run's own limit.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A run in the background of a script ignores ctrl-C, and so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def proxied_shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    """The broker that nearly all tests share (with ``-n``, those of one process), and a proxy before it.

    It has a topic ``proxied-orders`` of four partitions, and aborts overdue transactions soon.
    """
    properties = BROKER_PROPERTIES | {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}
    with proxied_broker(tmp_path_factory.mktemp("shared-broker"), properties) as made:
        made.world.topic("proxied-orders", partitions=4)
        yield made


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Its address, past the proxy."""
    named = os.environ.get("KGROUP_TEST_BOOTSTRAP")
    return named or request.getfixturevalue("proxied_shared").world.bootstrap


@pytest.fixture
def proxied(proxied_shared: ProxiedBroker) -> Iterator[ProxiedBroker]:
    """... with no fault in it, before and after."""
    proxied_shared.proxy.reset()
    yield proxied_shared
    proxied_shared.proxy.reset()


@pytest.fixture(scope="session")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaWorld]:
    """A broker that forgets transactional ids soon."""
    with proxied_broker(tmp_path_factory.mktemp("forgetful"), BROKER_PROPERTIES | expiring_ids.PROPERTIES) as made:
        yield made.world


@pytest.fixture(autouse=True, scope="session")
def whole_hypothesis() -> None:
    """Import what Hypothesis imports at its first use, before any test has threads.

    pytest parses each of its modules, and Python 3.11 fails where two threads parse at once (python/cpython#106905).
    """
    strategies.from_type(bool).validate()


@pytest.fixture(autouse=True, scope="session")
def quick_spark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Spark starts from an archive in pytest's cache, if there is one and if a test of this run starts Spark."""
    cache = getattr(request.config, "cache", None)
    items = [item for item in request.session.items if not item.get_closest_marker("quick")]
    if cache and any(item.nodeid.startswith(WITH_SPARK) for item in items):
        with archive_in(cache.mkdir("spark")):
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configuration and state of each test are its own; nothing of the user's environment gets in."""
    for name in list(os.environ):
        if name.startswith("KGROUP_") and name not in OF_THE_RUN:
            monkeypatch.delenv(name)
    for name in ("NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KGROUP_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KGROUP_CONFIG", str(tmp_path / "config.yaml"))


@pytest.fixture
def kgroup_cli() -> CommandLine:
    """The command line without a cluster."""
    return CommandLine()


@pytest.fixture
def kgroup(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line on the shared broker."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", bootstrap)
    return CommandLine()


@pytest.fixture(scope="session")
def world(bootstrap: str) -> Iterator[KafkaWorld]:
    """The shared cluster, set up and read back through plain clients."""
    with KafkaWorld(bootstrap) as world:
        yield world


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[ChangingCluster]:
    """The shared cluster as verbs have it."""
    with connected(bootstrap) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_tool() -> Iterator[KafkaTools]:
    """Kafka's own tools: ``kafka_tool(main_class, *arguments)``."""
    with KafkaTools() as tools:
        yield tools


@pytest.fixture
def members(bootstrap: str) -> Iterator[Members]:
    """Live consumers of both protocols, in processes of their own; gone when the test ends."""
    with Members(bootstrap) as members:
        yield members


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A name that no other test has: ``name("orders")`` is ``orders-<test>-<random>``."""
    test = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40]
    return lambda stem: f"{stem}-{test}-{secrets.token_hex(3)}"


def make_bystander(world: KafkaWorld) -> str:
    """A group for all tests of a run: a topic of its own for each was a third of a broker's work."""
    group = world.topic(f"bystander-{secrets.token_hex(3)}", partitions=2)
    world.commit(group, bystanding(group))
    return group


def bystanding(group: str) -> dict[tuple[str, int], tuple[int, str, int | None]]:
    """What the bystander has committed, on the topic of its name."""
    return {(group, 0): (3, "mine", 0), (group, 1): (5, "", None)}


def check_bystander(world: KafkaWorld, group: str) -> None:
    """It is as it was; else the test that has just ended fails, and it is repaired for those after it."""
    after = world.exact(group)
    if after != bystanding(group):
        world.delete_group(group)
        world.commit(group, bystanding(group))
        raise AssertionError(f"the bystander was touched: {after}")


@pytest.fixture(scope="session")
def shared_bystander(world: KafkaWorld) -> str:
    return make_bystander(world)


@pytest.fixture
def bystander(world: KafkaWorld, shared_bystander: str) -> Iterator[str]:
    """A group with commits that no test may touch; checked when the test is over."""
    yield shared_bystander
    check_bystander(world, shared_bystander)


@pytest.fixture(scope="session")
def proxied_bystander(proxied_shared: ProxiedBroker) -> str:
    return make_bystander(proxied_shared.world)
