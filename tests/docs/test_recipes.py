"""The manual's runbook recipes, each run as it stands there, with real consumers where it is about them.

``kubectl`` is tests/helpers/deployments.py. Shortened are ``--hold 15s``, the 30 days of idle groups, and the fleet,
which is that of a test alone. Spark runs for one recipe; where others would start it they end at their plan, or at
the release.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer

from kgroup.changes.journal import Journal
from kgroup.cli.help_topics import RUNBOOKS
from kgroup.model.commit import Commit
from tests.helpers import programs
from tests.helpers.catchup.catchups import copied, own_ledger
from tests.helpers.command_line import CommandLine
from tests.helpers.conversion import to_consumer
from tests.helpers.deployments import Deployments
from tests.helpers.kafka_world import KafkaWorld
from tests.helpers.manual import page, read
from tests.helpers.places import ROOT
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.usefixtures("bystander")

RECIPES = {path.stem: read(path) for path in (ROOT / "kgroup" / "data" / "runbooks").glob("*.sh")}
PROD = {"KGROUP_CONTEXT": "prod"}
_RECORDS = 20
_POISON_AT = 17


@dataclass
class Runbook:
    """Runs recipes for one application, whose names are its own."""

    directory: Path
    deployments: Deployments
    environ: dict[str, str]

    def run(self, recipe: str, variables: Mapping[str, str], exit_code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a recipe; asserts its exit code."""
        script = RECIPES[recipe].replace("--hold 15s", "--hold 1s")
        return self.script(script, variables, exit_code)

    def fleet(self, recipe: str, variables: Mapping[str, str], regex: str) -> subprocess.CompletedProcess[str]:
        """Run a recipe on the groups of this pattern instead of all."""
        return self.script(RECIPES[recipe].replace("--all-groups", f"--regex '{regex}'"), variables)

    def script(
        self, script: str, variables: Mapping[str, str], exit_code: int | None = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run what stands in a script; None: any exit code."""
        done = subprocess.run(
            ["sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd=self.directory,
            env=self.environ | dict(variables),
        )
        assert exit_code in (None, done.returncode), (
            f"{script}\n--- {done.returncode}\n{done.stdout}\n---\n{done.stderr}"
        )
        return done

    def changes(self, group: str) -> list[tuple[str, int, int | None, int | None]]:
        """(topic, partition, before, after) of the newest change of the journal, which has to be about the group."""
        ids = {json.loads(p.read_text().splitlines()[0])["cluster_id"] for p in Journal(self._journal).files(None)}
        entry = Journal(self._journal).entries(ids.pop())[0]
        assert set(entry.groups) == {group}
        return [(row.topic, row.partition, _offset(row.before), _offset(row.after)) for row in entry.rows]

    @property
    def _journal(self) -> Path:
        return Path(self.environ["KGROUP_STATE_DIR"]) / "journal"


def _offset(commit: Commit | None) -> int | None:
    return None if commit is None else commit.offset


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch, name: Callable[[str], str]) -> str:
    """What is owed is what a test owes."""
    return own_ledger(monkeypatch, name("ledger"))


@pytest.fixture
@programs.needs("cat", "date", "grep", "mkfifo")
def runbook(bootstrap: str, tmp_path: Path) -> Iterator[Runbook]:
    """A directory with kgroup and kubectl on the PATH, and the context ``prod``."""
    (tmp_path / "config.yaml").write_text(f"contexts:\n  prod: {{bootstrap.servers: '{bootstrap}', explicit: true}}\n")
    work = tmp_path / "work"
    work.mkdir()
    with Deployments(tmp_path / "cluster", bootstrap) as deployments:
        kgroup = deployments.bin / "kgroup"
        kgroup.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m kgroup "$@"\n')
        kgroup.chmod(0o755)
        path = f"{deployments.bin}:{os.environ['PATH']}"
        yield Runbook(work, deployments, os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)})


@pytest.fixture
def topic(world: KafkaWorld, name: Callable[[str], str]) -> str:
    """Four partitions."""
    return world.topic(name("payments")[-60:], partitions=4)


def produce(bootstrap: str, topic: str, *, poison: bool = False, age_s: float = 0) -> None:
    """Twenty records a partition; with ``poison``, the application can't take one of the last."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(4):
        for offset in range(_RECORDS):
            value = b"poison" if poison and (partition, offset) == (3, _POISON_AT) else b"fine"
            at_ms = round((time.time() - age_s) * 1000)
            producer.produce(topic, value, b"key", partition, timestamp=at_ms)
    assert producer.flush(30) == 0


def as_user(number: int) -> list[str]:
    """What runs a command as a user without a name, as in a pod."""
    return ["unshare", "--user", f"--map-user={number}", f"--map-group={number}"]


def behind(bootstrap: str, world: KafkaWorld, topic: str, at: int) -> None:
    """A group of the topic's name that has handled the first records of each partition only."""
    produce(bootstrap, topic)
    world.commit(topic, {(topic, partition): at for partition in range(4)})


def everything(topic: str, offsets: range) -> set[tuple[str, int]]:
    return {(f"{topic}:{partition}", offset) for partition in range(4) for offset in offsets}


def test_each_recipe_is_run() -> None:
    tested = set(re.findall(r"(?:run|fleet|RECIPES)[(\[]\"([a-z-]+)\"", Path(__file__).read_text(encoding="utf-8")))
    assert set(RECIPES) == tested


def test_help_prints_each_recipe_and_the_manual_shows_it(kgroup_cli: CommandLine) -> None:
    shown = re.findall(r"<!-- generated runbook (\S+) -->", page("runbooks.md"))

    assert sorted(shown) == sorted(RUNBOOKS) == sorted(RECIPES)
    for name, script in RECIPES.items():
        assert script.startswith(f"# {RUNBOOKS[name]}\n")
    assert kgroup_cli("help", "runbooks", "poison-pill").stdout == RECIPES["poison-pill"]
    assert "Near: poison-pill" in kgroup_cli("help", "runbooks", "poison", exit_code=5).stderr
    assert "rights" in kgroup_cli("help", "rights", "poison-pill", exit_code=2).stderr


@pytest.mark.parametrize("recipe", [name for name, script in RECIPES.items() if "kubectl" in script])
def test_recipes_read_as_recipes(recipe: str) -> None:
    """Exit codes gate, nothing is parsed, nothing sleeps, and each line fits."""
    script = RECIPES[recipe]
    assert script.splitlines()[1] == "set -eu"
    assert not re.search(r"\b(sleep|grep|awk|sed|jq|cut)\b|\|[^|]*[^| ]", script.replace("|| [", ""))
    assert max(map(len, script.splitlines())) <= 110


def test_poison_pill(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    group = app = topic
    produce(bootstrap, topic, poison=True)
    runbook.deployments.add(app, group, topic, replicas=1)
    wait_for(lambda: len(runbook.deployments.processed(app)) == 3 * _RECORDS + _POISON_AT, "a stuck application")
    names = {"APP": app, "GROUP": group, "TOPIC": topic}

    done = runbook.run("poison-pill", names)

    assert "NOT YET" in done.stdout
    assert runbook.changes(group) == [(topic, 3, _POISON_AT, _POISON_AT + 1)]
    (line,) = (runbook.directory / "pill.ndjson").read_text().splitlines()
    pill = json.loads(line)
    assert (pill["topic"], pill["partition"], pill["offset"], pill["value"]) == (topic, 3, _POISON_AT, "poison")
    expected = everything(topic, range(_RECORDS)) - {(f"{topic}:3", _POISON_AT)}
    wait_for(lambda: set(runbook.deployments.processed(app)) == expected, "all but the pill")
    assert len(runbook.deployments.processed(app)) == len(expected), "nothing twice"
    wait_for(lambda: set(world.committed(group).values()) == {(_RECORDS, "")}, "commits at the end")
    again = runbook.run("poison-pill", names, exit_code=1)
    assert "pill.ndjson" in again.stderr
    assert {offset for offset, _ in world.committed(group).values()} == {_RECORDS}
    assert runbook.deployments.replicas(app) == 2, "the rehearsal ended it"


@pytest.mark.soak
def test_no_application_is_stopped_for_a_plan_that_cannot_work(
    runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str
) -> None:
    """Each script that stops one runs with the first letter of each of its variables missing, one after the other."""
    group = app = topic
    for directory in ("overlay", "reports", "backups"):
        (runbook.directory / directory).mkdir()
    (runbook.directory / f"{app}.properties").write_text("client.rack=a\n")
    produce(bootstrap, topic, poison=True)
    runbook.deployments.add(app, group, topic, replicas=1)
    runbook.deployments.add(f"{app}-green", f"{group}-green", topic)
    wait_for(lambda: world.committed(group).get((topic, 3), (0, ""))[0] == _POISON_AT, "a stuck application")
    runbook.script(f"kgroup export {group} -o json > backups/offsets-2026-11-26.json", PROD)
    values = {
        "APP": app,
        "GROUP": group,
        "TOPIC": topic,
        "BACKFILL": world.topic(f"{topic}-backfill", partitions=4),
        "REPORT": "reports/proof.json",
        "CLIENT": "librdkafka:2.15.0",
        "OVERLAY": "overlay",
        "BACKUPS": "backups",
        "DAY": "2026-11-26",
    }
    pods, codes = runbook.deployments.pods(app), {}

    for recipe, script in RECIPES.items():
        if "kubectl" in script:
            named = sorted(set(re.findall(r"\$\{?([A-Z]+)", script)))
            for typo in named:
                wrong = {name: values[name] for name in named} | {typo: values[typo][1:]}
                codes[recipe, typo] = runbook.script(script, wrong, exit_code=None).returncode
                assert runbook.deployments.pods(app) == pods, (recipe, typo)
                asked = [request for request in runbook.deployments.requests if typo != "APP"]
                runbook.deployments.requests.clear()
                assert asked == [], (recipe, typo)
            rehearsal = re.split(r"^(?:kubectl|trap) ", script, maxsplit=1, flags=re.M)[0]
            codes[recipe, "none"] = runbook.script(rehearsal, values).returncode

    assert len(pods) == 1
    assert {key for key, code in codes.items() if code == 0} == {key for key in codes if key[1] == "none"}, codes
    assert world.groups()[group] == ("classic", "stable")


@pytest.mark.soak
def test_replay(runbook: Runbook, bootstrap: str, topic: str) -> None:
    group = app = topic
    for age_s in (3 * 3600, 3600):
        produce(bootstrap, topic, age_s=age_s)
    runbook.deployments.add(app, group, topic, replicas=1)
    wait_for(lambda: len(runbook.deployments.processed(app)) == 8 * _RECORDS, "all processed once")

    runbook.run("replay", {"APP": app, "GROUP": group, "TOPIC": topic})

    assert runbook.changes(group) == [(topic, partition, 2 * _RECORDS, _RECORDS) for partition in range(4)]
    wait_for(lambda: len(runbook.deployments.processed(app)) == 12 * _RECORDS, "the last two hours once more")
    assert set(runbook.deployments.processed(app)[8 * _RECORDS :]) == everything(topic, range(_RECORDS, 2 * _RECORDS))


@pytest.mark.soak
def test_catch_up(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    """The application handles what is new, the copies are the gap, and each record is in one of both."""
    group = app = topic
    copy = world.topic(f"{topic}-backfill", partitions=4)
    behind(bootstrap, world, topic, 5)
    runbook.deployments.add(app, group, topic)
    processed = runbook.deployments.processed
    names = {"APP": app, "GROUP": group, "BACKFILL": copy, "REPORT": "proof.json"}

    done = runbook.run("catch-up", names)

    produce(bootstrap, topic)
    wait_for(lambda: len(processed(app)) == 4 * _RECORDS, "the head")
    assert set(processed(app)) == everything(topic, range(_RECORDS, 2 * _RECORDS))
    gap = [f"{topic}:{partition}:{offset}" for partition in range(4) for offset in range(5, _RECORDS)]
    assert copied(world, copy) == sorted(gap)
    assert done.stdout.index("MAY START NOW") < done.stdout.index("VERIFIED")
    (report,) = json.loads((runbook.directory / "proof.json").read_text())["data"]
    assert (report["comment"], report["totals"]["delivered_count"]) == ("INC-4711", len(gap))
    assert [line.split()[-1] for line in runbook.deployments.requests] == ["--replicas=0", "--replicas=2"]


@pytest.mark.soak
def test_slower_and_open_catchups(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    names = {"GROUP": topic, "PLANS": "plans.csv"}
    behind(bootstrap, world, topic, 5)
    assert runbook.run("open-catchups", names).stdout == ""
    runbook.script(f"kgroup catchup start {topic} --release-only --execute", PROD)

    found = runbook.run("open-catchups", names, exit_code=8)
    slower = runbook.run("slower", names)

    assert re.fullmatch(rf"cu-\w+,{topic},released,pending,60,60,.*\n", found.stdout)
    assert "THROTTLE   500/s, yields to lag-time=30s, set " in slower.stdout
    runbook.script(f"kgroup catchup cancel {topic} --execute", PROD)
    assert runbook.run("open-catchups", names).stdout == ""


@pytest.mark.soak
def test_lag_check_and_tonight(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    produce(bootstrap, topic)
    world.commit(topic, {(topic, partition): _RECORDS for partition in range(4)})
    names = {"GROUP": topic, "TOPIC": topic, "REPORT": "late.txt"}
    assert runbook.run("lag-check", names).stdout == ""
    assert f"{topic}  Empty" in (runbook.directory / "late.txt").read_text()
    assert "nothing found" in runbook.run("tonight", names).stdout

    world.commit(topic, {(topic, 3): _POISON_AT})
    late = runbook.script(RECIPES["lag-check"].replace("10m", "1ms"), names, exit_code=8)

    assert re.search(rf"^FAILED  {topic}: oldest unread record on {topic}:3 is ", late.stdout, re.M)
    assert "there is no topic" in runbook.run("lag-check", names | {"TOPIC": f"{topic}-typo"}, exit_code=5).stderr


@pytest.mark.soak
def test_before_scaling(runbook: Runbook, bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic)
    runbook.deployments.add(topic, topic, topic, replicas=1)
    wait_for(lambda: len(runbook.deployments.processed(topic)) == 4 * _RECORDS, "a settled group")

    done = runbook.run("before-scaling", {"GROUP": topic})

    assert re.search(r"^new-2 +- ", done.stdout, re.M)
    assert re.search(r"^static +0 +0 ", done.stdout, re.M)


def test_rescue(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    """The coordinator is up here: that it is not asked is tests/commands/test_from_log.py's."""
    behind(bootstrap, world, topic, 5)
    (group,) = json.loads(runbook.script(f"kgroup list --regex {topic} -o json", PROD).stdout)["data"]
    names = {"GROUP": topic, "BROKER": str(group["coordinator"]["id"]), "BACKUPS": str(runbook.directory)}

    listed = runbook.run("rescue", names).stdout

    assert re.search(rf"^{topic} .* Empty ", listed, re.M)
    assert (runbook.directory / f"{topic}.csv").read_text() == "".join(f"{topic},{p},5\n" for p in range(4))
    assert world.exact(f"{topic}-2") == world.exact(topic)


@pytest.mark.soak
def test_skipped(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    copy = world.topic(f"{topic}-backfill", partitions=4)
    behind(bootstrap, world, topic, 5)
    reset = runbook.script(f"kgroup reset {topic} --topic {topic}:0,1 --to-latest --execute", PROD)
    (change,) = set(re.findall(r"\bch-[2-9a-z]{4}\b", reset.stdout))
    before = world.exact(topic)

    released = RECIPES["skipped"].replace('--to-topic "$BACKFILL" --execute', "--release-only --execute")
    done = runbook.script(released, {"CHANGE": change, "BACKFILL": copy})

    assert f"topic {copy}, exactly once" in " ".join(done.stdout.split())
    listed = json.loads(runbook.script("kgroup catchup list -o json", PROD).stdout)["data"]
    (ranges,) = [each["ranges"] for each in listed if change in (each["comment"] or "")]
    assert [(each["topic"], each["partition"], each["start"], each["end"]) for each in ranges] == [
        (topic, partition, 5, _RECORDS) for partition in (0, 1)
    ]
    assert world.exact(topic) == before


@pytest.mark.soak
def test_blue_green(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    group = app = topic
    produce(bootstrap, topic)
    runbook.deployments.add(app, group, topic, replicas=1)
    runbook.deployments.add(f"{app}-green", f"{group}-green", topic)
    wait_for(lambda: len(runbook.deployments.processed(app)) == 4 * _RECORDS, "blue's work")

    runbook.run("blue-green", {"APP": app, "GROUP": group})

    assert runbook.changes(f"{group}-green") == [(topic, partition, None, _RECORDS) for partition in range(4)]
    assert {offset for offset, _ in world.committed(group).values()} == {_RECORDS}, "blue keeps its own"
    produce(bootstrap, topic)
    wait_for(lambda: len(runbook.deployments.processed(f"{app}-green")) == 4 * _RECORDS, "green's work")
    assert set(runbook.deployments.processed(f"{app}-green")) == everything(topic, range(_RECORDS, 2 * _RECORDS))


@pytest.mark.soak
def test_snapshot_and_restore(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str, bystander: str) -> None:
    group = app = topic
    names = {"APP": app, "GROUP": group, "BACKUPS": str(runbook.directory)}
    produce(bootstrap, topic)
    world.commit(group, {(topic, partition): (partition + 1, f"note {partition}", None) for partition in range(4)})
    taken = world.exact(group)
    runbook.run("snapshot", names)
    (file,) = runbook.directory.iterdir()
    assert file.name == f"offsets-{datetime.now(UTC):%Y-%m-%d}.json"
    assert {group, bystander} <= {each["group"] for each in json.loads(file.read_text())["data"]}

    runbook.deployments.add(app, group, topic, replicas=1)
    wait_for(lambda: world.committed(group) == {(topic, p): (_RECORDS, "") for p in range(4)}, "commits at the end")
    before = len(runbook.deployments.processed(app))
    runbook.run("restore", names | {"DAY": file.stem.removeprefix("offsets-")})

    assert runbook.changes(group) == [(topic, p, _RECORDS, p + 1) for p in range(4)]
    assert {place: commit[0] for place, commit in taken.items()} == {(topic, p): p + 1 for p in range(4)}
    wait_for(lambda: len(runbook.deployments.processed(app)) == 2 * before, "the same records once more")


@pytest.mark.soak
def test_autoscaler(runbook: Runbook, bootstrap: str, topic: str) -> None:
    group = app = topic
    names = {"APP": app, "GROUP": group, "TOPIC": topic}
    produce(bootstrap, topic, poison=True)
    runbook.deployments.add(app, group, topic, replicas=2)
    wait_for(lambda: len(runbook.deployments.processed(app)) == 3 * _RECORDS + _POISON_AT, "a stuck application")

    runbook.run("autoscaler", names)

    assert (topic, 3, _POISON_AT, _RECORDS) in runbook.changes(group)
    assert [line.rpartition("/")[2] for line in runbook.deployments.requests] == [
        "paused-replicas=0",
        "paused-replicas-",
    ]
    assert runbook.deployments.replicas(app) == 2


@pytest.mark.soak
def test_idle(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    produce(bootstrap, topic)
    team = f"team-{topic}"
    world.commit(f"{team}-idle", {(topic, 0): 7})
    world.commit(f"{team}-other", {(topic, 0): 3})
    runbook.deployments.add(f"{team}-lives", f"{team}-lives", topic, replicas=1)
    wait_for(lambda: len(runbook.deployments.processed(f"{team}-lives")) == 4 * _RECORDS, "a group that lives")
    born = time.monotonic()
    wait_for(lambda: time.monotonic() > born + 1.1, "a second without a commit")
    names = {"TEAM": team, "BACKUPS": str(runbook.directory)}

    nothing = runbook.run("idle", names)
    assert "nothing to do" in nothing.stderr
    assert f"{team}-idle" in world.groups()
    runbook.script(RECIPES["idle"].replace("30d", "1s"), names)

    left = {group for group in world.groups() if group.startswith(team)}
    assert left == {f"{team}-lives"}
    runbook.script(f"kgroup reset {team}-idle --create --from-file idle.json --execute", PROD)
    assert world.committed(f"{team}-idle") == {(topic, 0): (7, "")}


@pytest.mark.soak
def test_consumer_protocol(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    """Every record once, before and after, by consumers of the one protocol and then the other."""
    group = app = topic
    overlay = runbook.directory / "overlay"
    overlay.mkdir()
    generated = [{"name": app, "files": ["app.properties"]}]
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump({"configMapGenerator": generated}))
    old = runbook.directory / f"{app}.properties"
    old.write_text("session.timeout.ms=15000\npartition.assignment.strategy=cooperative-sticky\nclient.rack=a\n")
    produce(bootstrap, topic)
    runbook.deployments.add(app, group, topic, replicas=2, configuration=old)
    processed = runbook.deployments.processed
    wait_for(lambda: len(processed(app)) == 4 * _RECORDS, "the work of classic consumers")
    assert world.groups()[group][0] == "classic"
    names = {"APP": app, "GROUP": group, "OVERLAY": str(overlay)}

    blocked = runbook.run("consumer-protocol", names | {"CLIENT": "sarama:1.45.0"}, exit_code=6)
    assert "[blocked]" in blocked.stderr
    assert runbook.deployments.requests == [], "nothing was stopped"
    done = runbook.run("consumer-protocol", names | {"CLIENT": "librdkafka:2.15.0"})

    assert "read back, identical" in done.stdout
    assert runbook.changes(group) == [(topic, partition, _RECORDS, _RECORDS) for partition in range(4)]
    assert (
        overlay / "app.properties"
    ).read_text() == "client.rack=a\ngroup.protocol=consumer\ngroup.remote.assignor=uniform\n"
    assert [line.split()[0] for line in runbook.deployments.requests] == ["scale", "apply", "scale"]
    assert world.groups()[group] == ("consumer", "stable")
    produce(bootstrap, topic)
    wait_for(lambda: len(processed(app)) == 8 * _RECORDS, "the work of consumers of the new protocol")
    assert set(processed(app)) == everything(topic, range(2 * _RECORDS)), "each record once"
    again = runbook.run("consumer-protocol", names | {"CLIENT": "librdkafka:2.15.0"}, exit_code=2)
    assert "app.properties" in again.stderr
    assert runbook.deployments.replicas(app) == 2


@pytest.mark.soak
def test_fleet(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    team = f"team-{topic}"
    nightly, lives, done = (f"{team}-{name}" for name in ("nightly", "lives", "done"))
    for group in (nightly, done):
        world.commit(group, {(topic, 0): (7, "noted", None)})
    to_consumer(world, done)
    runbook.deployments.add(lives, lives, topic, replicas=1)
    wait_for(lambda: world.groups().get(lives) == ("classic", "stable"), "a group that lives")
    (runbook.directory / "clients.txt").write_text(f"# by team\n{nightly}=java:4.4.0\n{lives}=sarama:1.45.0\n")
    names = {"TEAM": team, "REPORT": "fleet.csv", "BACKUPS": str(runbook.directory)}

    def verdicts() -> dict[str, tuple[str, str]]:
        with (runbook.directory / "fleet.csv").open(encoding="utf-8") as file:
            return {row["group"]: (row["readiness"], row["how"]) for row in csv.DictReader(file)}

    monday = runbook.fleet("fleet-report", names, f"{team}-.*")
    assert verdicts() == {lives: ("blocked", ""), nightly: ("ready", "now"), done: ("done", "")}
    assert "sarama" in monday.stdout
    runbook.run("fleet-ready", names)
    runbook.fleet("fleet-report", names, f"{team}-.*")

    assert verdicts() == {lives: ("blocked", ""), nightly: ("done", ""), done: ("done", "")}
    assert world.groups()[nightly] == ("consumer", "empty")
    assert world.committed(nightly) == {(topic, 0): (7, "noted")}
    backup = json.loads((runbook.directory / f"{team}.json").read_text())
    assert [each["group"] for each in backup["data"]] == [nightly]


def test_looking(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    produce(bootstrap, topic)
    world.commit(topic, {(topic, 0): 7})
    look = PROD | {"TOPIC": topic, "GROUP": topic, "SNAPSHOT": "lags.csv"}

    assert topic in runbook.run("concerned", look).stdout
    runbook.run("lags", look)
    assert f"{topic},{topic},0,7," in (runbook.directory / "lags.csv").read_text()
    assert topic in runbook.run("ticket", look).stdout


def _before_start() -> dict[str, list[str]]:
    """What runs before an application, as the manual has it: in an init container, and in a unit of systemd."""
    (pod,) = re.findall(r"<!-- init -->\n```yaml\n(.*?)```", page("kubernetes.md"), re.S)
    (unit,) = re.findall(r"<!-- unit -->\n```ini\n(.*?)```", page("runbooks.md"), re.S)
    (container,) = yaml.safe_load(pod)["spec"]["template"]["spec"]["initContainers"]
    (line,) = re.findall(r"^ExecStartPre=(.*)$", unit, re.M)
    return {"init": container["command"], "unit": shlex.split(line)}


@pytest.mark.parametrize("place", ["init", "unit"])
def test_before_the_application_starts(
    runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str, bystander: str, place: str
) -> None:
    """It is more than ten minutes behind, and the first start releases it. At the second one it is fresh, and runs."""
    group, others = topic, world.exact(bystander)
    produce(bootstrap, topic, age_s=660)
    world.commit(group, {(topic, partition): 5 for partition in range(4)})
    before_start = shlex.join(_before_start()[place]).replace("pay-svc", group).replace("--within 1m", "--within 1s")

    def start() -> str:
        return runbook.script(before_start, PROD).stderr

    first = start()
    runbook.deployments.add(group, group, topic, replicas=1)
    produce(bootstrap, topic)
    wait_for(lambda: len(runbook.deployments.processed(group)) == 4 * _RECORDS, "what is new")
    second = start()

    assert "RELEASED" in first
    assert set(runbook.deployments.processed(group)) == everything(topic, range(_RECORDS, 2 * _RECORDS))
    assert "is not 10m behind on any partition: lag 0" in second
    listed = json.loads(runbook.script("kgroup catchup list -o json", PROD).stdout)["data"]
    assert [(each["group"], each["totals"]["undelivered_offset_count"]) for each in listed] == [(group, 60)]
    assert world.exact(bystander) == others


def test_the_application_reads_its_gap(
    runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str, bystander: str
) -> None:
    """As two Jobs; meanwhile the Deployment reads what is new."""
    (jobs,) = re.findall(r"<!-- gap -->\n```yaml\n(.*?)```", page("kubernetes.md"), re.S)
    (script,) = re.findall(r"<!-- read-gap -->\n```sh\n(.*?)```", page("kubernetes.md"), re.S)
    group, second, others = topic, f"{topic}-gap", world.exact(bystander)
    behind(bootstrap, world, topic, 5)
    runbook.deployments.add(group, group, topic)
    (runbook.deployments.bin.parent / "gap.yaml").write_text(jobs.replace("pay-svc", group))

    shorter = script.replace("--hold 15s", "--hold 1s").replace("--replicas=6", "--replicas=1")

    done = runbook.script("set -eu\n" + shorter.replace("pay-svc", group), PROD)

    runbook.deployments.settle()
    gap = everything(topic, range(5, _RECORDS))
    assert sorted(runbook.deployments.processed_by(second)) == sorted(gap)
    assert runbook.deployments.processed(group) == []
    listed = json.loads(runbook.script("kgroup catchup list -o json", PROD).stdout)["data"]
    assert [(each["group"], each["state"], each["totals"]["verified"]) for each in listed] == [(group, "done", True)]
    assert second not in world.groups(), done.stdout
    assert world.exact(bystander) == others


@pytest.mark.programs("unshare")
def test_job(runbook: Runbook, bootstrap: str, world: KafkaWorld, topic: str) -> None:
    """The Job's container: no root, no $HOME, a state directory that is a volume; and the way back from its log."""
    (text,) = re.findall(r"<!-- job -->\n```yaml\n(.*?)```", page("kubernetes.md"), re.S)
    (back,) = re.findall(r"<!-- from-log -->\n```sh\n(.*?)```", page("kubernetes.md"), re.S)
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    produce(bootstrap, topic)
    world.commit(topic, {(topic, partition): 9 for partition in range(4)})
    mounts = {mount["mountPath"]: runbook.directory / mount["name"] for mount in container["volumeMounts"]}
    for place in mounts.values():
        place.mkdir()
    shutil.copy(os.environ["KGROUP_CONFIG"], mounts["/etc/kgroup"] / "config.yaml")
    (mounts["/etc/kgroup"] / "offsets.csv").write_text("".join(f"{topic},{p},{p}\n" for p in range(4)))

    def here(word: str) -> str:
        word = re.sub(rf"^({'|'.join(mounts)})(?=/|$)", lambda mount: str(mounts[mount[1]]), word)
        return word.replace("pay-svc", topic)

    done = subprocess.run(
        [*as_user(pod["securityContext"]["runAsUser"]), sys.executable, "-m", *map(here, container["command"])],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # as a pod's log has them
        text=True,
        check=False,
        timeout=60,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        | {given["name"]: here(given["value"]) for given in container["env"]},
    )
    assert done.returncode == 0, done.stdout
    assert world.committed(topic) == {(topic, partition): (partition, "") for partition in range(4)}

    assert list((mounts["/state"] / "journal").glob("ch-*.jsonl"))
    log = runbook.directory / "log"
    log.write_text(done.stdout)
    script = back.replace("kubectl logs job/reset-pay-svc", "cat log").replace("pay-svc", topic)
    runbook.script(script, PROD)
    assert world.committed(topic) == {(topic, partition): (9, "") for partition in range(4)}
