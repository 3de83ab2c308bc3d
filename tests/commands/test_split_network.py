"""All verbs that change something, in mid-change: the network cuts the coordinator off, or it is killed, or hangs.

Brokers, controller and clients reach each other through proxies, see ``tests.helpers.split_network``. The verbs run in
parallel, each on groups and with a journal of its own, and the fault comes when a change of each is on its way.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.changes import Commits, command, has_happened, leave_static_member
from tests.helpers.command_line import CommandLine, Result
from tests.helpers.kafka_proxy import CONSUMER_GROUP_HEARTBEAT, DELETE_GROUPS, LEAVE_GROUP, OFFSET_COMMIT, OFFSET_DELETE
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.split_network import CLIENT, Link, SplitCluster, cut_off, of_brokers, of_nodes, split_cluster
from tests.helpers.three_brokers import BROKERS, RECORDS, busy_partitions, bystander, in_sync, topic_on
from tests.helpers.waiting import wait_for

Name = Callable[[str], str]

pytestmark = pytest.mark.soak

UNDO = "undo"
VERBS = {
    "reset": OFFSET_COMMIT,
    "delete-offsets": OFFSET_DELETE,
    "delete": DELETE_GROUPS,
    "migrate": CONSUMER_GROUP_HEARTBEAT,
    "evict": LEAVE_GROUP,
    UNDO: OFFSET_COMMIT,
}
"""The first request that changes something; what is undone is a deletion of offsets."""

UNDOABLE = ("reset", "delete-offsets", "delete", "migrate")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SplitCluster]:
    with split_cluster(tmp_path_factory.mktemp("split")) as cluster:
        yield cluster


@pytest.fixture
def split(cluster: SplitCluster, monkeypatch: pytest.MonkeyPatch, name: Name) -> Iterator[KafkaWorld]:
    """Whole when the test begins, as KGROUP_BOOTSTRAP_SERVER; the test itself goes past the network."""
    monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", cluster.bootstrap)
    with KafkaWorld(cluster.direct) as world, bystander(world, name("bystander")):
        yield world
        cluster.mend()


@dataclass(frozen=True, slots=True)
class Case:
    """A verb, what it changes, what was committed before, and its journal; the victim coordinates ``groups[:-1]``.

    The fault is met by the request for ``groups[1]``, or for the only one.
    """

    verb: str
    groups: tuple[str, ...]
    topic: str
    before: dict[str, Commits]
    state: Path

    @property
    def met_by(self) -> str:
        return self.groups[min(1, len(self.groups) - 1)]

    def words(self) -> tuple[str, ...]:
        """Its command line."""
        if self.verb == UNDO:
            return (UNDO, "--execute")
        verb, _, *rest = command(self.verb, "", self.topic)
        return (verb, *self.groups, *rest[:-2])

    def start(self, *options: str) -> subprocess.Popen[str]:
        return CommandLine().start(*self.words(), *options, env={"KGROUP_STATE_DIR": str(self.state)})

    def happened(self, world: KafkaWorld) -> set[str]:
        """The groups that are as the verb leaves them."""
        if self.verb == UNDO:
            return {group for group in self.groups if world.exact(group) == self.before[group]}
        return {group for group in self.groups if has_happened(world, self.verb, group, self.before[group])}


@dataclass(slots=True)
class Changes:
    """What is changed by each verb, and in the end what each has said."""

    victim: int
    cases: dict[str, Case]
    results: dict[str, Result]

    @property
    def exit_codes(self) -> dict[str, int]:
        """Of each verb."""
        return {verb: result.exit_code for verb, result in self.results.items()}

    def happened(self, world: KafkaWorld) -> dict[str, int]:
        """How many groups are as each verb leaves them."""
        return {verb: len(case.happened(world)) for verb, case in self.cases.items()}

    def undone(
        self, world: KafkaWorld, monkeypatch: pytest.MonkeyPatch, bootstrap: str, exit_code: int = 0,
        verbs: Sequence[str] = UNDOABLE,
    ) -> None:  # fmt: skip
        """Everything is as it was before, after ``undo`` of each change that can be undone."""
        monkeypatch.setenv("KGROUP_BOOTSTRAP_SERVER", bootstrap)
        for verb in verbs:
            case = self.cases[verb]
            monkeypatch.setenv("KGROUP_STATE_DIR", str(case.state))
            CommandLine()("undo", "--execute", "--timeout", "60s", exit_code=exit_code)
            assert {group: world.exact(group) for group in case.groups} == case.before
            assert {world.groups()[group][0] for group in case.groups} == {"classic"}


@contextlib.contextmanager
def all_in_mid_change(
    cluster: SplitCluster, split: KafkaWorld, name: Name, tmp_path: Path, groups: int, *options: str
) -> Iterator[tuple[Changes, Callable[[Callable[[], None]], None]]]:
    """Each verb on so many groups; the block gets what calls its argument once each is in the middle of its change."""
    victim = split.coordinator(name("svc"))
    replicas = (victim, *sorted(BROKERS - {victim}))
    topic = topic_on(split, name("orders"), replicas, replicas, records=RECORDS)
    made = Changes(victim, {}, {})
    for verb in VERBS:
        made.cases[verb] = new_case(split, name, victim, topic, verb, 1 if verb == "evict" else groups, tmp_path)

    def run(fault: Callable[[], None]) -> None:
        barrier = threading.Barrier(len(VERBS), fault)
        for verb, case in made.cases.items():
            cluster.network.before(victim, VERBS[verb], case.met_by.encode(), lambda: barrier.wait(90))
        started = {verb: case.start(*options) for verb, case in made.cases.items()}
        for verb, process in started.items():
            stdout, stderr = process.communicate(timeout=200)
            made.results[verb] = Result(process.returncode, stdout, stderr)
        assert not barrier.broken, made.results

    yield made, run


def new_case(world: KafkaWorld, name: Name, victim: int, topic: str, verb: str, count: int, directory: Path) -> Case:
    """The last one of several groups is coordinated by another broker."""
    mine = [next(found for _ in range(500) if world.coordinator(found := name(f"svc-{verb}")) == victim)
            for _ in range(max(1, count - 1))]  # fmt: skip
    others = [next(found for _ in range(500) if world.coordinator(found := name(f"svc-{verb}")) != victim)
              for _ in range(count - len(mine))]  # fmt: skip
    groups = (*sorted(mine), *others)
    for group in groups:
        world.commit(group, {(topic, 0): (2, "kept ä", 0), (topic, 1): (3, "", None)})
    case = Case(verb, groups, topic, {group: world.exact(group) for group in groups}, directory / verb)
    if verb == "evict":
        leave_static_member(world.bootstrap, groups[0], topic)
    if verb == UNDO:
        made = CommandLine().start("delete-offsets", *groups, "--topic", topic, "--execute",
                                   env={"KGROUP_STATE_DIR": str(case.state)})  # fmt: skip
        assert made.communicate(timeout=90)[1] == ""
    return case


# --- the network


def run_cut(
    cluster: SplitCluster, split: KafkaWorld, name: Name, tmp_path: Path, links: Callable[[int], frozenset[Link]],
    timeout: str,
) -> Changes:  # fmt: skip
    """All verbs, with these links cut from the middle of their changes to their ends."""
    with all_in_mid_change(cluster, split, name, tmp_path, 1, "--timeout", timeout) as (changes, run):
        with contextlib.ExitStack() as cut:
            run(lambda: cut.enter_context(cluster.network.cut(links(changes.victim))))
        wait_for(lambda: in_sync(split, "__consumer_offsets", changes.cases["reset"].topic), "all in sync", 60)
    return changes


def all_unknown(changes: Changes) -> None:
    assert changes.exit_codes == dict.fromkeys(VERBS, 3), changes.results
    said = {verb: result.stdout.split()[0] for verb, result in changes.results.items()}
    assert said == dict.fromkeys(VERBS, "UNKNOWN"), changes.results


def test_cut_off_while_clients_reach_the_other_brokers(
    cluster: SplitCluster, split: KafkaWorld, name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Done at the broker that takes over; what arrives at the old one when the cut is over changes nothing."""
    changes = run_cut(cluster, split, name, tmp_path, cut_off, "45s")
    assert changes.exit_codes == dict.fromkeys(VERBS, 0), changes.results
    wait_for(lambda: changes.happened(split) == dict.fromkeys(VERBS, 1), "all is done")
    changes.undone(split, monkeypatch, cluster.direct)


def test_cut_off_with_the_clients(
    cluster: SplitCluster, split: KafkaWorld, name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kgroup reaches the old coordinator alone, which takes the changes, and forgets them when the cut is over."""

    def links(victim: int) -> frozenset[Link]:
        return of_nodes(victim) | {(CLIENT, other) for other in BROKERS - {victim}}

    changes = run_cut(cluster, split, name, tmp_path, links, "15s")
    all_unknown(changes)
    # Until the old coordinator learns of its successor, it lists a classic group in the state that it holds in memory:
    # ClassicGroup.stateAsString ignores the committed offset (4.4.0).
    wait_for(lambda: changes.happened(split) == dict.fromkeys(VERBS, 0), "the old coordinator has forgotten")
    changes.undone(split, monkeypatch, cluster.direct, exit_code=5)


def test_cut_off_from_its_followers(
    cluster: SplitCluster, split: KafkaWorld, name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays the coordinator, since the controller hears it; what it could not replicate counts later."""
    changes = run_cut(cluster, split, name, tmp_path, of_brokers, "15s")
    all_unknown(changes)
    # Brokers have been seen to carry out the deletion of a group then, and not to.
    expected = dict.fromkeys(VERBS, 1).items() - {("delete", 1)}
    wait_for(lambda: expected <= changes.happened(split).items(), "all is done after all")
    changes.undone(split, monkeypatch, cluster.direct, verbs=("reset", "delete-offsets", "migrate"))


# --- between two groups


def test_killed_between_two_groups(
    cluster: SplitCluster, split: KafkaWorld, name: Name, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several groups some are changed already: the others are at the broker that takes over."""
    with (
        all_in_mid_change(cluster, split, name, tmp_path, 4, "--timeout", "60s") as (changes, run),
        busy_partitions(split, changes.victim, changes.cases["reset"].topic),
    ):
        run(lambda: cluster.kill(changes.victim))
    assert changes.exit_codes == dict.fromkeys(VERBS, 0), changes.results
    cluster.mend()
    wait_for(lambda: in_sync(split, "__consumer_offsets"), "all replicas in sync", 60)
    expected = {verb: len(case.groups) for verb, case in changes.cases.items()}
    wait_for(lambda: changes.happened(split) == expected, "all is done")
    changes.undone(split, monkeypatch, cluster.direct)
