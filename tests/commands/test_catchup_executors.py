"""Whole replays on YARN, on Kubernetes and on other disks, with an executor killed: nothing is lost, nothing is twice.

The containers and pods are processes of this machine; YARN itself and Spark's schedulers of both are real. Their Python
does not have kgroup.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kgroup.catchup.spark.ready import DriverSetup, check
from kgroup.catchup.spark.settings import SparkSettings
from tests.helpers.catchup.catchups import copied, offsets, plan_said, written
from tests.helpers.catchup.kubernetes_api import kubernetes
from tests.helpers.catchup.replays import seen
from tests.helpers.catchup.spark_cluster import (
    archived_python,
    executors_in,
    on_another_disk,
    python_without_kgroup,
    running_cluster,
)
from tests.helpers.catchup.spark_kills import source_topic
from tests.helpers.command_line import CommandLine, QuietReporter
from tests.helpers.hadoop import yarn
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import page
from tests.helpers.places import ROOT
from tests.helpers.running import running
from tests.helpers.secure_broker import secure_broker
from tests.helpers.waiting import wait_for

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("ledger")]

Name = Callable[[str], str]
ARCHIVE = "/opt/kgroup/env.tar.gz"
FROM = {0: 10, 1: 20}
"""Where the group had committed."""

KGROUP = ROOT / "kgroup"


@dataclass(frozen=True)
class OtherCluster:
    """What stands for the addresses and paths of the manual, its executors, and where their names are shown."""

    example: str
    replaced: dict[str, str]
    executors: Callable[[], list[int]]
    names: Callable[[], str] | None
    options: tuple[str, ...] = ()


@contextmanager
def on_yarn(ready: DriverSetup, directory: Path) -> Iterator[OtherCluster]:
    with yarn(ready, directory) as site, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HADOOP_CONF_DIR", str(site.parent))
        small = ("spark.executor.instances=2", "spark.executor.cores=1", "spark.yarn.am.memory=512m")
        # Else Spark would send its 400 MB of jars to each container.
        jars = f"spark.yarn.jars=local:{ready.home}/jars/*"
        found = {ARCHIVE: str(archived_python(directory))}
        yield OtherCluster("yarn", found, lambda: executors_in(directory), None, conf(*small, jars))


@contextmanager
def on_kubernetes(ready: DriverSetup, directory: Path) -> Iterator[OtherCluster]:
    """Its executors are allocated when tasks wait, and are given back when they are idle."""
    with kubernetes(ready, directory) as (address, pods):
        found = {
            "https://kubernetes.default.svc": address,
            "kgroup.data.svc": "127.0.0.1",
            "0.0.0.0": "127.0.0.1",
        }
        python = f"spark.pyspark.python={python_without_kgroup(directory)}"
        few = ("spark.dynamicAllocation.maxExecutors=2", "spark.dynamicAllocation.executorIdleTimeout=2s")
        yield OtherCluster(
            "kubernetes", found, lambda: executors_in(directory), lambda: " ".join(pods.made), conf(python, *few)
        )


@contextmanager
def on_other_disks(ready: DriverSetup, directory: Path, *hidden: Path, workers: int = 2) -> Iterator[OtherCluster]:
    """A standalone cluster whose workers have neither kgroup nor a Python with its packages."""
    with running_cluster(ready, directory, workers, before_worker=on_another_disk(KGROUP, *hidden)) as cluster:
        found = {"spark://master.prod:7077": cluster.master, ARCHIVE: str(archived_python(directory))}
        log = directory / "master.log"
        yield OtherCluster("archive", found, cluster.executors, log.read_text)


def conf(*words: str) -> tuple[str, ...]:
    return tuple(each for word in words for each in ("--conf", word))


def context_of(cluster: OtherCluster, bootstrap: str) -> tuple[str, ...]:
    """Write the context of the manual's page with the addresses of this cluster; the options that choose it."""
    (text,) = re.findall(rf"<!-- {cluster.example} -->\n```yaml\n(.*?)```", page("catchup/cluster.md"), re.S)
    for shown, here in {"b1.prod:9093": bootstrap, **cluster.replaced}.items():
        assert shown in text
        text = text.replace(shown, here)
    Path(os.environ["KGROUP_CONFIG"]).write_text(text, encoding="utf-8")
    small = ("spark.executor.memory=512m", "spark.executor.extraJavaOptions=-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
    driver = (
        () if cluster.example == "kubernetes" else ("spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1")
    )
    return ("--context", "prod", *conf(*small, *driver), *cluster.options)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(on_yarn, marks=pytest.mark.programs("bash", "chmod", "ln"), id="yarn"),
        pytest.param(on_kubernetes, id="kubernetes"),
    ],
)
def test_copied_exactly_once_though_an_executor_dies(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path, bystander: str, kind: type
) -> None:
    topic, group, copy = source_topic(world, world.bootstrap, name), name("svc"), world.topic(name("copy"), 2)
    world.commit(group, {(topic, partition): offset for partition, offset in FROM.items()})
    start = ("start", group, "--to-topic", copy, "--rate", "600/s", "--execute", "-o", "json")

    with kind(check(SparkSettings(), timeout_s=10), tmp_path) as cluster:
        with running("catchup", *start, *context_of(cluster, world.bootstrap)) as process:
            plan = plan_said(process, 240)  # Spark tries its workers first
            wait_for(lambda: written(world, copy) > 300, "records", 120)
            victim = wait_for(cluster.executors, "an executor", 10)[0]
            os.kill(victim, signal.SIGKILL)
            result = process.ends(0, within_s=240)
        names = plan if cluster.names is None else cluster.names()

    (shown,) = result.data
    assert (shown["plan_id"], shown["state"], shown["totals"]["verified"]) == (plan, "done", True)
    source = [one for one in seen(world.bootstrap, topic) if one.offset >= FROM[one.partition]]
    assert copied(world, copy) == sorted(f"{topic}:{one.partition}:{one.offset}" for one in source)
    assert len(copied(world, copy, "read_uncommitted")) > len(source), "no kill hit a transaction"
    assert set(offsets(world, group)) == {(topic, 0), (topic, 1)}
    assert plan in names


@pytest.mark.programs("mount", "unshare")
def test_workers_that_do_not_have_a_directory_are_found(
    kgroup: CommandLine, world: KafkaWorld, name: Name, tmp_path: Path
) -> None:
    """The path is there, and it is another disk: files would be lost with the machine."""
    out, mine = tmp_path / "out", tmp_path / "cluster"
    for directory in (out, mine):
        directory.mkdir()
    topic = world.topic(name("orders"), 1)
    world.produce(topic, 10)

    with on_other_disks(check(SparkSettings(), timeout_s=10), mine, out, workers=1) as cluster:
        start = ("catchup", "start", "--range", f"{topic}:0=0-10", "--to-files", str(out), "--format", "json")
        refused = kgroup.process(*start, "--execute", *context_of(cluster, world.bootstrap), exit_code=6)

    assert f"--to-files {out}: on the machines with workers of Spark this is not the directory" in refused.stderr
    assert "[spark-workers]" in refused.stderr
    assert list(out.iterdir()) == []
    assert kgroup("catchup", "list", "-o", "json").data == []


@pytest.mark.programs("mount", "openssl", "unshare")
def test_workers_log_in_with_certificates_that_are_not_on_their_disks(kgroup: CommandLine, tmp_path: Path) -> None:
    mine = tmp_path / "cluster"
    mine.mkdir()
    with secure_broker(tmp_path / "secure", QuietReporter()) as broker:
        of = broker.certificates
        files = {"ca": of.certificate("ca"), "certificate": of.certificate("alice"), "key": of.key("alice")}
        login = ("security.protocol=SSL", *(f"ssl.{name}.location={path}" for name, path in files.items()))
        words = (*(word for each in login for word in ("-X", each)), "-b", broker.addresses["MTLS"])

        with on_other_disks(check(SparkSettings(), timeout_s=10), mine, of.directory, workers=1) as cluster:
            options = context_of(cluster, "unused:1")
            checked = kgroup.process("catchup", "check", "--to-command", "cat", *words, *options)

    assert "they reach 1 broker" in checked.stdout
